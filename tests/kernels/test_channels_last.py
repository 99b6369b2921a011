"""Images, samples and gradients of many channels, each in planes or with channels last."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from oracles import assert_alike

import gridsample
from gridsample.definitions.caches import CALLS
from gridsample.kernels.sampling import steps

Array = np.ndarray[Any, Any]
# More numbers than `paying.FEW_SAMPLES`, and more than four points for each pixel.
ITEMS, CHANNELS, SPATIAL, OUT = 3, 9, (13, 17), (31, 33)

LAYOUTS = pytest.mark.parametrize(
    ("image_last", "values_last"), [(False, False), (False, True), (True, False), (True, True)]
)


def laid_out(array: Array, last: bool) -> Array:
    """Copy an array (N, C, ...), with channels last in memory or in planes."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) if last else array


def inputs(dtype: str, grids: int) -> tuple[Array, Array, Array]:
    """An image, a grid with points outside and invalid ones, and upstream values."""
    rng = cases.generator("channels last", dtype, grids)
    image = cases.pixels(rng, (ITEMS, CHANNELS, *SPATIAL), dtype)
    grid = rng.uniform(-1.2, 1.2, (grids, *OUT, 2)).astype(np.float32)
    grid[0, 0, 0], grid[-1, 1, 1] = np.nan, np.inf
    return image, grid, rng.standard_normal((ITEMS, CHANNELS, *OUT)).astype(image.dtype)


@LAYOUTS
@pytest.mark.parametrize("grids", [1, ITEMS])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "complex64"])
def test_samples_do_not_depend_on_where_channels_are(
    dtype: str, mode: str, grids: int, image_last: bool, values_last: bool
) -> None:
    image, grid, _ = inputs(dtype, grids)
    expected = np.stack(
        [gridsample.grid_sample(image[:, c : c + 1], grid, mode)[:, 0] for c in range(CHANNELS)], 1
    )
    out = laid_out(np.zeros((ITEMS, CHANNELS, *OUT), image.dtype), values_last)
    gridsample.grid_sample(laid_out(image, image_last), grid, mode, out=out)
    assert_alike(out, expected)


@LAYOUTS
@pytest.mark.parametrize("grids", [1, ITEMS])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_gradients_do_not_depend_on_where_channels_are(
    dtype: str, mode: str, grids: int, image_last: bool, values_last: bool
) -> None:
    image, grid, upstream = inputs(dtype, grids)
    parts = [
        gridsample.grid_sample_vjp(upstream[:, c : c + 1], image[:, c : c + 1], grid, mode)
        for c in range(CHANNELS)
    ]
    by_image, by_grid = gridsample.grid_sample_vjp(
        laid_out(upstream, values_last), laid_out(image, image_last), grid, mode
    )
    assert_alike(by_image, np.concatenate([part[0] for part in parts], 1))
    assert_alike(by_grid, np.sum([part[1] for part in parts], 0, dtype=by_grid.dtype))


def test_sums_may_be_too_long_to_be_copied_beside_each_other() -> None:
    """Those of complex numbers at points in double precision have 16 bytes."""
    image, grid, upstream = inputs("complex64", ITEMS)
    by_image, by_grid = gridsample.grid_sample_vjp(upstream, image, grid.astype(float), "cubic")
    expected = gridsample.grid_sample_vjp(upstream, image, grid, "cubic")
    for result, other in zip((by_image, by_grid.astype(np.float32)), expected, strict=True):
        assert_alike(result, other)


@LAYOUTS
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_means_do_not_depend_on_where_channels_are(
    mode: str, image_last: bool, values_last: bool
) -> None:
    image, grid, upstream = inputs("float64", ITEMS)
    rng = cases.generator("missing channels", mode)
    image[rng.random(image.shape) < 0.2] = np.nan
    weights = rng.random((ITEMS, 1, *SPATIAL))
    options: dict[str, Any] = {"mode": mode, "missing": "ignore"}
    planes = gridsample.grid_sample(image[:, :1], grid, weights=weights, **options)
    out = laid_out(np.zeros((ITEMS, CHANNELS, *OUT)), values_last)
    gridsample.grid_sample(laid_out(image, image_last), grid, weights=weights, out=out, **options)
    assert_alike(out[:, :1], planes)
    first = gridsample.grid_sample_vjp(
        upstream[:, :1], image[:, :1], grid, weights=weights, **options
    )
    zeros = np.zeros_like(upstream)
    zeros[:, :1] = upstream[:, :1]
    all_channels = gridsample.grid_sample_vjp(
        laid_out(zeros, values_last), laid_out(image, image_last), grid, weights=weights, **options
    )
    assert_alike(all_channels[0][:, :1], first[0])
    assert_alike(all_channels[1], first[1])


@LAYOUTS
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_the_image_of_means_is_read_for_its_own_gradient(
    mode: str, image_last: bool, values_last: bool
) -> None:
    """Which of its pixels are missing decides on the shares of the others."""
    image, grid, upstream = inputs("float64", ITEMS)
    image[..., 3] = np.nan
    image, upstream = laid_out(image, image_last), laid_out(upstream, values_last)
    options: dict[str, Any] = {"mode": mode, "missing": "ignore"}
    both = gridsample.grid_sample_vjp(upstream, image, grid, **options)
    alone = gridsample.grid_sample_vjp(upstream, image, grid, **options, need_grid=False)
    np.testing.assert_array_equal(alone[0], both[0])


@LAYOUTS
def test_only_planes_are_copied(
    monkeypatch: pytest.MonkeyPatch, image_last: bool, values_last: bool
) -> None:
    copied = list[str]()

    def noting(name: str) -> Any:
        copy = getattr(steps, name)
        return lambda *arguments: (copied.append(name), copy(*arguments))[1]

    for name in ("interleaving", "separation"):
        monkeypatch.setattr(steps, name, noting(name))
    CALLS.clear()
    image, grid, upstream = inputs("float32", ITEMS)
    image, upstream = laid_out(image, image_last), laid_out(upstream, values_last)
    if values_last:
        gridsample.grid_sample(np.moveaxis(image, 1, -1), grid, "cubic", channel_axis=-1)
    else:
        gridsample.grid_sample(image, grid, "cubic")
    assert ("interleaving" in copied) == (not image_last)
    assert ("separation" in copied) == (not values_last)
    copied.clear()
    gridsample.grid_sample_vjp(upstream, image, grid, "cubic")
    assert ("interleaving" in copied) == (not (image_last and values_last))
    assert ("separation" in copied) == (not image_last)


@pytest.mark.parametrize("order", [(0, 3, 2, 1), (2, 0, 3, 1), (3, 2, 0, 1)], ids=str)
@pytest.mark.parametrize("at_once", [1, 1 << 20], ids=["item by item", "together"])
@pytest.mark.parametrize("grids", [1, ITEMS])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_pixels_and_items_of_runs_may_be_in_any_order(
    monkeypatch: pytest.MonkeyPatch, mode: str, grids: int, at_once: int, order: tuple[int, ...]
) -> None:
    monkeypatch.setattr(steps, "COPIED_AT_ONCE", at_once)
    CALLS.clear()
    image, grid, upstream = inputs("float64", grids)
    turned = np.ascontiguousarray(image.transpose(order)).transpose(np.argsort(order))
    weights = cases.generator("orders", mode).random((ITEMS, 1, *SPATIAL))
    for options in ({}, {"weights": weights}):
        samples = gridsample.grid_sample(image, grid, mode, **options)
        assert_alike(gridsample.grid_sample(turned, grid, mode, **options), samples)
        gradients = gridsample.grid_sample_vjp(upstream, image, grid, mode, **options)
        results = gridsample.grid_sample_vjp(upstream, turned, grid, mode, **options)
        for result, expected in zip(results, gradients, strict=True):
            assert_alike(result, expected)
    parts = [
        gridsample.grid_sample_vjp(upstream[:, c : c + 1], image[:, c : c + 1], grid, mode)
        for c in range(CHANNELS)
    ]
    by_image, by_grid = gridsample.grid_sample_vjp(upstream, image, grid, mode)
    assert_alike(by_image, np.concatenate([part[0] for part in parts], 1))
    assert_alike(by_grid, np.sum([part[1] for part in parts], 0))
