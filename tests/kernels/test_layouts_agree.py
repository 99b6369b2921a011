"""Every operation gives the same results for planes and for pixels whose channels come last."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import plans
import pytest

import gridsample
from gridsample.kernels import on_cpu

Array = np.ndarray[Any, Any]
# Lanes are points up to four or eight channels; otherwise channels, in one register, in several of
# which the last is shorter, in a block of several, and in blocks that overlap.
CHANNELS = [2, 3, 4, 5, 8, 17, 32, 81]
BOUNDARIES = ["zeros", "border", "reflection", "wrap", "constant", "antisymmetric"]
LAYOUTS = pytest.mark.parametrize("channels", CHANNELS)
MODES = pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos3"])


def inputs(channels: int, dtype: str = "float64") -> tuple[Array, Array, Array]:
    """Two images, grids with points outside and NaN, and upstream values."""
    rng = cases.generator("layouts agree", channels, dtype)
    image = cases.pixels(rng, (2, channels, 9, 11), dtype)
    grid = rng.uniform(-1.4, 1.4, (2, 3, 37, 2))
    grid[0, 0, :5] = [np.nan, 0], [np.inf, 0], [-1, 1], [1, 0.3], [0.2, np.nan]
    values = cases.pixels(rng, (2, channels, 3, 37), dtype)
    return image, grid, values


def last(array: Array) -> Array:
    """The same array with its channels next to each other in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def options_of(boundary: str, channels: int) -> dict[str, Any]:
    if boundary == "constant":
        return {"padding_mode": boundary, "fill_value": np.arange(channels) - 2.5}
    return {"padding_mode": boundary}


def assert_close(actual: Any, expected: Any) -> None:
    for mine, other in zip(actual, expected, strict=True):
        finite = other[np.isfinite(other)]
        close = 1e-12 * max(1.0, np.abs(finite).max(initial=0.0))
        np.testing.assert_allclose(mine, other, rtol=0, atol=close)


@pytest.mark.covering
@LAYOUTS
@MODES
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_samples_and_gradients(channels: int, mode: str, boundary: str) -> None:
    image, grid, values = inputs(channels)
    options = {"mode": mode, **options_of(boundary, channels)}
    sample, vjp = gridsample.grid_sample, gridsample.grid_sample_vjp
    assert_close([sample(last(image), grid, **options)], [sample(image, grid, **options)])
    for needed in ({}, {"need_input": False}, {"need_grid": False}):
        mine = vjp(last(values), last(image), grid, **options, **needed)
        other = vjp(values, image, grid, **options, **needed)
        pairs = [(a, b) for a, b in zip(mine, other, strict=True) if a is not None]
        assert_close(*zip(*pairs, strict=True))


@pytest.mark.covering
@pytest.mark.parametrize("channels", [2, 3, 5, 8])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos3", "lanczos4"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("counted", ["all", "missing", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_samples_of_few_channels_have_the_same_bits(
    channels: int, mode: str, boundary: str, counted: str, dtype: str
) -> None:
    image, grid, _ = inputs(channels, dtype)
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary}
    if boundary == "constant":
        options["fill_value"] = 2
    rng = cases.generator("layouts agree", "bits")
    if counted == "missing" and dtype != "uint8":
        image[rng.random(image.shape) < 0.1] = np.nan
        options["missing"] = "ignore"
    if counted == "weighted":
        options["weights"] = rng.random((2, 1, 9, 11))
    sample = gridsample.grid_sample
    together = sample(image, grid, **options)
    single = [sample(image[:, c : c + 1].copy(), grid, **options) for c in range(channels)]
    np.testing.assert_array_equal(np.concatenate(single, 1), together)
    np.testing.assert_array_equal(sample(last(image), grid, **options), together)


@pytest.mark.covering
@LAYOUTS
@MODES
@pytest.mark.parametrize("boundary", ["zeros", "border", "wrap", "missing"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_means_and_their_gradients(
    channels: int, mode: str, boundary: str, weighted: bool, dtype: str
) -> None:
    image, grid, values = inputs(channels, dtype)
    rng = cases.generator("layouts agree", "missing")
    image[rng.random(image.shape) < 0.1] = np.nan
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "missing": "ignore"}
    if weighted:
        options["weights"] = rng.random((2, 1, 9, 11))
    mean, vjp = gridsample.grid_sample, gridsample.grid_sample_vjp
    shared = {**options, "return_weight": True}
    assert_close(mean(last(image), grid, **shared), mean(image, grid, **shared))
    assert_close(
        [g for g in vjp(last(values), last(image), grid, **options) if g is not None],
        [g for g in vjp(values, image, grid, **options) if g is not None],
    )


@pytest.mark.covering
@LAYOUTS
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("boundary", ["zeros", "border", "reflection", "wrap"])
@pytest.mark.parametrize("upstream", [False, True])
def test_second_derivatives(channels: int, mode: str, boundary: str, upstream: bool) -> None:
    kernels = on_cpu()
    image, grid, values = inputs(channels)
    rng = cases.generator("layouts agree", "second")
    by_image, by_grid = rng.standard_normal(image.shape), rng.standard_normal(grid.shape)
    plan = plans.plan_for(image.shape, image.dtype, grid.shape, grid.dtype, mode, boundary, False)
    for needs in (
        kernels.NeededGradients(values=True),
        kernels.NeededGradients(False),
        kernels.NeededGradients(True, False),
    ):
        mine, other = (
            kernels.backward_twice(
                plan,
                kernels.CallArrays(of(image), grid, of(values)),
                by_image if upstream else None,
                by_grid,
                needs,
            )
            for of in (last, lambda array: array)
        )
        pairs = [(a, b) for a, b in zip(mine, other, strict=True) if a is not None]
        assert_close(*zip(*pairs, strict=True))


@pytest.mark.covering
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 8, 17])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("boundary", ["zeros", "border", "wrap"])
def test_footprints(channels: int, mode: str, boundary: str) -> None:
    image, _, _ = inputs(channels)
    lines = [np.linspace(-1.1, 1.1, n) for n in (4, 18)]
    grid = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1)[np.newaxis].repeat(2, 0)
    values = cases.pixels(cases.generator("footprints"), (2, channels, 4, 18))
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "antialias": True}
    sample, vjp = gridsample.grid_sample, gridsample.grid_sample_vjp
    assert_close([sample(last(image), grid, **options)], [sample(image, grid, **options)])
    assert_close(
        vjp(last(values), last(image), grid, **options), vjp(values, image, grid, **options)
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 63), (5, 3), (2, 5, 7)])
def test_grids_whose_axes_are_reversed_in_memory(rank: int, shape: tuple[int, ...]) -> None:
    rng = cases.generator("reversed grids", rank, *shape)
    image = cases.pixels(rng, (1, 1, *(9, 8, 7)[:rank]))
    grid = rng.uniform(-1.4, 1.4, (*shape, rank)).astype("float32")[..., ::-1]
    calls = [lambda points: gridsample.grid_sample(image, points)]
    upstream = cases.pixels(rng, (shape[0], 1, *shape[1:]))
    calls.append(lambda points: gridsample.grid_sample_vjp(upstream, image, points)[1])
    for call in calls:
        np.testing.assert_array_equal(call(grid), call(np.ascontiguousarray(grid)))
