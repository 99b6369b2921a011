"""Footprints of images whose pixels have many channels, which are the lanes of registers.

The same images in planes, a few channels at a time, tell what is right: their lanes are points, and
they are compared with the reference elsewhere.
"""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from oracles import assert_alike

import gridsample
from gridsample.definitions.caches import CALLS
from gridsample.kernels.sampling.calls import program_for
from gridsample.kernels.sampling.programs.footprint_channels import FootprintChannels

Array = np.ndarray[Any, Any]
ITEMS, SPATIAL = 2, (13, 17)
TERMS = 512  # of sums in other orders
FEW = 8  # channels of planes that are not copied
# All in one register, in several, in several blocks, and in blocks that overlap.
CHANNELS = pytest.mark.parametrize("channels", [9, 33, 70, 128])


def last(array: Array) -> Array:
    """Copy an array (N, C, ...) so that channels are neighbours in memory, and move them."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def planes(array: Array) -> Array:
    """Move the channels of an array (N, ..., C) to the second axis."""
    return np.moveaxis(array, -1, 1)


def sampled(image: Array, grid: Array, **options: Any) -> Array:
    """Sample planes (N, C, ...), some channels at a time."""
    parts = (image[:, k : k + FEW] for k in range(0, image.shape[1], FEW))
    return np.concatenate([gridsample.grid_sample(part, grid, **options) for part in parts], 1)


def differentiated(
    upstream: Array, image: Array, grid: Array, **options: Any
) -> tuple[Array, Array]:
    """Compute both gradients of planes (N, C, ...), some channels at a time."""
    parts = [slice(k, k + FEW) for k in range(0, image.shape[1], FEW)]
    gradients = [
        gridsample.grid_sample_vjp(upstream[:, part], image[:, part], grid, **options)
        for part in parts
    ]
    by_image, by_grid = zip(*gradients, strict=True)
    return np.concatenate(by_image, 1), sum(by_grid, np.zeros_like(by_grid[0]))


def inputs(dtype: str, channels: int, out: tuple[int, int] = (7, 19)) -> tuple[Array, Array, Array]:
    """An image, a grid with footprints of many sizes and invalid points, and upstream values."""
    rng = cases.generator("footprints of channels", dtype, channels)
    image = cases.pixels(rng, (ITEMS, channels, *SPATIAL), dtype)
    lines = [np.linspace(-1.0, 1.0, n) ** 3 for n in out]
    grid = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1)
    grid = np.stack([0.9 * grid, 2.0 * grid + 0.3])
    grid[0, 0, 0], grid[1, -1, -1] = np.nan, np.inf
    upstream = rng.standard_normal((ITEMS, channels, *out)).astype(image.dtype)
    return image, grid.astype(np.float32), upstream


@CHANNELS
@pytest.mark.parametrize("boundary", ["zeros", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "complex64"])
def test_samples_and_gradients(dtype: str, mode: str, boundary: str, channels: int) -> None:
    image, grid, upstream = inputs(dtype, channels)
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "antialias": True}
    if dtype == "uint8":
        options |= {"padding_mode": "constant", "fill_value": 7}
    expected = sampled(image, grid, **options)
    result = gridsample.grid_sample(last(image), grid, **options, channel_axis=-1)
    assert_alike(planes(result), expected, TERMS)
    if dtype == "uint8":
        return
    by_image, by_grid = differentiated(upstream, image, grid, **options)
    results = gridsample.grid_sample_vjp(
        last(upstream), last(image), grid, **options, channel_axis=-1
    )
    assert_alike(planes(results[0]), by_image, TERMS)
    assert_alike(results[1], by_grid, TERMS)


@CHANNELS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_means_over_pixels_that_count(dtype: str, mode: str, weighted: bool, channels: int) -> None:
    image, grid, _ = inputs(dtype, channels)
    rng = cases.generator("footprints of missing channels", channels)
    image[rng.random(image.shape) < 0.1] = np.nan
    options: dict[str, Any] = {"mode": mode, "antialias": True, "missing": "ignore"}
    options["min_weight"] = 0.25  # quotients by less differ more
    weights = rng.random((ITEMS, 1, *SPATIAL)) if weighted else None
    expected = sampled(image, grid, **options, weights=weights)
    own = None if weights is None else last(weights)
    result = gridsample.grid_sample(last(image), grid, **options, weights=own, channel_axis=-1)
    assert_alike(planes(result), expected, TERMS)


def test_channels_are_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    written, write = list[str](), FootprintChannels.write_task

    def noting(self: FootprintChannels, *arguments: Any) -> None:
        written.append(self.operation.name)
        write(self, *arguments)

    monkeypatch.setattr(FootprintChannels, "write_task", noting)
    CALLS.clear()
    program_for.cache_clear()
    image, grid, upstream = inputs("float64", 12)
    options: dict[str, Any] = {"antialias": True, "channel_axis": -1}
    gridsample.grid_sample(last(image), grid, **options)
    gridsample.grid_sample(last(image), grid, **options, missing="ignore")
    gridsample.grid_sample_vjp(last(upstream), last(image), grid, **options)
    assert written == ["gather", "means", "backward"]


@pytest.mark.parametrize("missing", ["propagate", "ignore"])
def test_results_do_not_depend_on_threads(missing: str) -> None:
    rng = cases.generator("footprints of channels", missing)
    image = rng.standard_normal((2, 90, 80, 20)).astype(np.float32)
    image[rng.random(image.shape) < 0.01] = np.nan if missing == "ignore" else 0
    grid = np.cumsum(np.abs(rng.standard_normal((2, 60, 70, 2))), 1).astype(np.float32) / 30 - 1
    upstream = rng.standard_normal((2, 60, 70, 20)).astype(np.float32)
    options: dict[str, Any] = {"antialias": True, "channel_axis": -1, "missing": missing}

    def results(threads: int) -> list[Array]:
        options["threads"] = threads
        gradients = gridsample.grid_sample_vjp(upstream, image, grid, **options)
        return [gridsample.grid_sample(image, grid, **options), *gradients]

    for alone, together in zip(results(1), results(3), strict=True):
        np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("out", [(1, 2), (3, 1), (1, 40)])
def test_few_points_form_a_list(out: tuple[int, int]) -> None:
    image, grid, upstream = inputs("float64", 24, out)
    options: dict[str, Any] = {"mode": "cubic", "antialias": True}
    gradients = differentiated(upstream, image, grid, **options)
    results = gridsample.grid_sample_vjp(
        last(upstream), last(image), grid, **options, channel_axis=-1
    )
    assert_alike(planes(results[0]), gradients[0], TERMS)
    assert_alike(results[1], gradients[1], TERMS)
    result = gridsample.grid_sample(last(image), grid, **options, channel_axis=-1)
    assert_alike(planes(result), sampled(image, grid, **options), TERMS)


@pytest.mark.parametrize("footprint", ["attach", "detach"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("grids", [1, 3])
def test_planes_are_copied(
    grids: int, mode: str, footprint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = list[str](), FootprintChannels.write_task

    def noting(self: FootprintChannels, *arguments: Any) -> None:
        written.append(self.operation.name)
        write(self, *arguments)

    rng = cases.generator("copied footprints", grids, mode)
    # Each item is copied by itself, in the dtype of sums.
    image = rng.standard_normal((3, 40, 62, 60))
    lines = [np.linspace(-1.0, 1.0, n) ** 3 for n in (30, 41)]
    grid = 1.2 * np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1)
    grid = grid + rng.normal(0, 0.02, (grids, *grid.shape))
    upstream = rng.standard_normal((3, 40, 30, 41))
    options: dict[str, Any] = {"mode": mode, "antialias": True, "footprint": footprint}
    options["max_samples"] = 2  # so that halved images are needed, too
    expected = sampled(image, grid, **options), *differentiated(upstream, image, grid, **options)
    monkeypatch.setattr(FootprintChannels, "write_task", noting)
    CALLS.clear()
    program_for.cache_clear()
    result = gridsample.grid_sample(image, grid, **options)
    results = result, *gridsample.grid_sample_vjp(upstream, image, grid, **options)
    assert "gather" in written or mode == "linear"
    assert "backward" in written
    for mine, other in zip(results, expected, strict=True):
        assert_alike(mine, other, TERMS)


def test_second_derivatives() -> None:
    torch = pytest.importorskip("torch")
    image, grid, upstream = inputs("float64", 20, (5, 6))
    grid = np.nan_to_num(grid.astype(float), nan=0.1, posinf=0.2)
    rng = cases.generator("tangents of channels")
    tangents = [torch.from_numpy(rng.standard_normal(a.shape)) for a in (image, grid)]

    def gradients(memory: Any) -> list[Any]:
        """The gradients of a product with the gradients, in the order of the arguments."""
        pixels, values = (
            torch.from_numpy(a).contiguous(memory_format=memory).requires_grad_()
            for a in (image, upstream)
        )
        points = torch.from_numpy(grid).requires_grad_()
        samples = gridsample.grid_sample(pixels, points, "cubic", antialias=True)
        first = torch.autograd.grad(samples, (pixels, points), values, create_graph=True)
        total = sum((a * b).sum() for a, b in zip(first, tangents, strict=True))
        return [*torch.autograd.grad(total, (pixels, points, values))]

    for mine, other in zip(
        gradients(torch.channels_last), gradients(torch.contiguous_format), strict=True
    ):
        assert_alike(mine.numpy(), other.numpy(), TERMS)
