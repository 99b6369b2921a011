"""Bounds that callers state for coordinates are checked by every task."""

from __future__ import annotations

from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def image_and_grid() -> tuple[Any, Any]:
    rng = cases.generator("bounds")
    image = da.from_array(rng.random((1, 1, 12, 12)), chunks=4)
    return image, da.from_array(rng.uniform(0, 11, (1, 6, 8, 2)), chunks=(1, 3, 4, 2))


@pytest.mark.parametrize("change", [1.0, 1e-6, np.nan])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("end", [0, 1])
def test_bounds_that_are_too_small_are_errors(change: float, antialias: bool, end: int) -> None:
    image, grid = image_and_grid()
    options: dict[str, Any] = {"coords": "pixel", "antialias": antialias}
    bounds = gridsample.dask.coordinate_bounds(grid, **options).compute()
    whole = gridsample.dask.grid_sample(image, grid, bounds=bounds, **options).compute()
    expected = gridsample.grid_sample(image.compute(), grid.compute(), **options)
    np.testing.assert_array_equal(whole, expected)
    bounds[1, 1, end, 0] += change * (1 if end == 0 else -1)
    if np.isnan(change):
        bounds[1, 1] = np.nan  # as if there were no valid coordinates
    result = gridsample.dask.grid_sample(image, grid, bounds=bounds, **options)
    np.testing.assert_array_equal(result[..., :3, :].compute(), whole[..., :3, :])
    with pytest.raises(ValueError, match=r"bounds must be beyond all .* points \["):
        result.compute()


def test_a_pair_of_bounds_that_is_too_small_is_an_error() -> None:
    image, grid = image_and_grid()
    pair = ([0, 0], [11, 5])
    result = gridsample.dask.grid_sample(image, grid, coords="pixel", bounds=pair)
    with pytest.raises(ValueError, match=r"are \[0.0, 0.0\] to \[11.0, 5.0\], but"):
        result.compute()


@pytest.mark.parametrize("end", [-np.inf, np.inf])
@pytest.mark.parametrize("antialias", [False, True])
def test_both_bounds_may_be_the_same_infinity(antialias: bool, end: float) -> None:
    image, _ = image_and_grid()
    grid = da.full((1, 2, 3, 2), end, chunks=2)
    options: dict[str, Any] = {"padding_mode": "border", "antialias": antialias}
    expected = gridsample.grid_sample(image.compute(), grid.compute(), **options)
    for bounds in (
        ([end, end], [end, end]),
        gridsample.dask.coordinate_bounds(grid, antialias=antialias).compute(),
    ):
        result = gridsample.dask.grid_sample(image, grid, bounds=bounds, **options)
        np.testing.assert_array_equal(result.compute(), expected)


def test_bounds_of_map_coordinates_are_checked() -> None:
    image, grid = image_and_grid()
    points = da.moveaxis(grid[0], -1, 0).rechunk({0: -1})
    for order, mode in ((1, "constant"), (3, "nearest"), (1, "wrap")):
        options: dict[str, Any] = {"order": order, "mode": mode}
        bounds = gridsample.dask.coordinate_bounds(points, axis=0).compute()
        call = gridsample.dask.map_coordinates
        assert call(image[0, 0], points, bounds=bounds, **options).compute().shape == (6, 8)
        bounds[0, 1, 1, 1] -= 2
        with pytest.raises(ValueError, match="bounds must be beyond"):
            call(image[0, 0], points, bounds=bounds, **options).compute()


@pytest.mark.parametrize("outside", [False, True])
def test_bounds_of_splatted_values_are_checked(outside: bool) -> None:
    """Also those by which a block of values adds to no pixel."""
    _, grid = image_and_grid()
    values = da.ones((1, 1, 6, 8), chunks=2)
    bounds = gridsample.dask.coordinate_bounds(grid, coords="pixel").compute()
    options: dict[str, Any] = {"coords": "pixel", "chunks": 5}
    result = gridsample.dask.splat(values, grid, (12, 12), bounds=bounds, **options)
    expected = gridsample.splat(values.compute(), grid.compute(), (12, 12), coords="pixel")
    np.testing.assert_allclose(result.compute(), expected, rtol=0, atol=1e-13)
    bounds[1, 0] = 100 if outside else bounds[1, 0].mean(0)
    result = gridsample.dask.splat(values, grid, (12, 12), bounds=bounds, **options)
    with pytest.raises(ValueError, match="bounds must be beyond"):
        result.compute()


def test_a_grid_has_its_own_size() -> None:
    image, grid = image_and_grid()
    with pytest.raises(ValueError, match="size has no effect with a grid"):
        gridsample.dask.grid_sample(image, grid.compute(), size=(6, 8))
