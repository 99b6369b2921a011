"""Many planes, of which a few are processed at all points before the others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest
import torch

import gridsample
from gridsample.kernels.sampling import calls, division

Array = np.ndarray[Any, Any]
# The bytes of a cache so small that images of these tests do not fit.
CACHE = 1 << 14
# Fewer than those of which channels are made neighbours.
PLANES = 7
# Points whose last groups begin in the groups before, or in the strips before.
OUTPUTS = pytest.mark.parametrize("out", [(5, 157), (2, 515), (3, 259), (701,)], ids=str)
# Neighbouring points are near each other, or far apart; sizes that no other test has.
SIZES = {"near": (19, 20), "far": (18, 21)}
ORDERS = pytest.mark.parametrize("order", SIZES)


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """Lists for each prepared call its planes, and how many of them are in a block."""
    counts, choose = list[tuple[int, int]](), calls.blocks_of

    def noted(plan: Any, kind: str, planes: int, arrays: int) -> division.Blocks:
        blocks = choose(plan, kind, planes, arrays)
        counts.append((planes, blocks.far))
        return blocks

    monkeypatch.setattr(division, "CACHES", division.CACHES._replace(own=CACHE))
    monkeypatch.setattr(calls, "blocks_of", noted)
    yield counts
    assert any(far < planes for planes, far in counts)


def points(rng: np.random.Generator, out: tuple[int, ...], order: str) -> Array:
    """Grids of two items, with points outside."""
    grid = rng.uniform(-1.3, 1.3, (2, *out, 2))
    if order == "near":
        grid[..., 1] = np.sort(grid[..., 1].reshape(2, -1)).reshape(2, *out)
    return grid


def inputs(out: tuple[int, ...], order: str, dtype: str = "float64") -> tuple[Array, Array]:
    """Two images and their grids, with points outside and NaN."""
    rng = cases.generator("planes together", str(out))
    image = cases.pixels(rng, (2, PLANES, *SIZES[order]), dtype)
    grid = points(rng, out, order)
    grid[0].reshape(-1, 2)[7], grid[1].reshape(-1, 2)[-1] = np.nan, np.inf
    return image, grid


@OUTPUTS
@ORDERS
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "label"])
def test_samples_are_those_of_single_planes(out: tuple[int, ...], order: str, mode: str) -> None:
    image, grid = inputs(out, order, "int64" if mode == "label" else "float64")
    if mode == "label":
        image %= 5
    many = gridsample.grid_sample(image, grid, mode)
    for k in range(PLANES):
        alone = gridsample.grid_sample(image[:, k : k + 1], grid, mode)
        np.testing.assert_array_equal(many[:, k : k + 1], alone)
    threads = gridsample.grid_sample(image, grid, mode, threads=3)
    np.testing.assert_array_equal(threads, many)


@OUTPUTS
@ORDERS
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("missing", ["propagate", "ignore"])
def test_gradients_are_those_of_single_planes(
    out: tuple[int, ...], order: str, mode: str, missing: str
) -> None:
    image, grid = inputs(out, order)
    if missing == "ignore":
        image[:, :, 3, 4] = np.nan
    rng = cases.generator("planes together", "upstream")
    upstream = rng.standard_normal((2, PLANES, *out))
    options: dict[str, Any] = {"mode": mode, "missing": missing}
    by_image, by_grid = gridsample.grid_sample_vjp(upstream, image, grid, **options)
    total = np.zeros_like(by_grid)
    for k in range(PLANES):
        plane = np.s_[:, k : k + 1]
        alone = gridsample.grid_sample_vjp(upstream[plane], image[plane], grid, **options)
        close = 1e-13 * np.abs(alone[0]).max()
        np.testing.assert_allclose(by_image[plane], alone[0], rtol=0, atol=close)
        total += alone[1]
    np.testing.assert_allclose(by_grid, total, rtol=0, atol=1e-13 * np.abs(total).max())
    threads = gridsample.grid_sample_vjp(upstream, image, grid, **options, threads=3)
    np.testing.assert_array_equal(threads[0], by_image)
    np.testing.assert_array_equal(threads[1], by_grid)


@OUTPUTS
@ORDERS
def test_second_derivatives_are_those_of_single_planes(out: tuple[int, ...], order: str) -> None:
    rng = cases.generator("planes together", "second", str(out))
    image = torch.from_numpy(rng.standard_normal((2, PLANES, *SIZES[order]))).requires_grad_()
    grid = torch.from_numpy(points(rng, out, order)).requires_grad_()
    values = torch.from_numpy(rng.standard_normal((2, PLANES, *out))).requires_grad_()
    others = [torch.from_numpy(rng.standard_normal(t.shape)) for t in (image, grid)]

    def second(planes: Any) -> Any:
        result = gridsample.grid_sample(image[:, planes], grid, "cubic")
        first = torch.autograd.grad(result, (image, grid), values[:, planes], create_graph=True)
        return torch.autograd.grad(first, (image, grid, values), others)

    many, alone = second(slice(None)), [second(slice(k, k + 1)) for k in range(PLANES)]
    # The grid's upstream gradient is in each of these, but that of the image in one.
    for actual, terms in zip(many, zip(*alone, strict=True), strict=True):
        expected = sum(terms)
        close = 1e-12 * float(expected.abs().max())
        torch.testing.assert_close(actual, expected, rtol=0, atol=close)


@OUTPUTS
def test_gradients_of_maps(out: tuple[int, ...]) -> None:
    """The gradients of affine maps are sums over the strips of points, and over planes."""
    if len(out) == 1:
        out = (*out, 3)
    image, _ = inputs(out, "far")
    rng = cases.generator("planes together", "maps")
    theta = np.array([[[0.9, 0.2, 0.1], [-0.3, 0.8, 0.0]], [[1.1, 0.0, 0.2], [0.1, 0.7, 0.3]]])
    size = (2, PLANES, *out)
    upstream = rng.standard_normal(size)
    by_image, by_maps = gridsample.affine_sample_vjp(upstream, image, theta, size)
    total = np.zeros_like(by_maps)
    for k in range(PLANES):
        plane = np.s_[:, k : k + 1]
        one = (2, 1, *out)
        alone = gridsample.affine_sample_vjp(upstream[plane], image[plane], theta, one)
        close = 1e-13 * np.abs(alone[0]).max()
        np.testing.assert_allclose(by_image[plane], alone[0], rtol=0, atol=close)
        total += alone[1]
    np.testing.assert_allclose(by_maps, total, rtol=0, atol=1e-12 * np.abs(total).max())
    threads = gridsample.affine_sample_vjp(upstream, image, theta, size, threads=3)
    np.testing.assert_array_equal(threads[1], by_maps)


def test_threads_do_not_undo_what_others_stored() -> None:
    """Where a task has the last points of a row, its only group begins in another's strip."""
    rng = cases.generator("planes together", "threads")
    image, grid = rng.standard_normal((1, 64, 45, 45)), rng.uniform(-1, 1, (1, 513, 2))
    upstream = rng.standard_normal((1, 64, 513))
    options: dict[str, Any] = {"need_input": False}
    _, expected = gridsample.grid_sample_vjp(upstream, image, grid, **options, threads=1)
    for _ in range(400):
        _, by_grid = gridsample.grid_sample_vjp(upstream, image, grid, **options, threads=2)
        np.testing.assert_array_equal(by_grid, expected)
