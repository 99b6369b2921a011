"""Results without points, items or channels are those in memory, and so are empty chunks."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask
from gridsample import ndimage

Array = np.ndarray[Any, Any]
IMAGE = np.random.default_rng(0).random((2, 2, 5, 6))


def lazy(array: Array, n: int = 3) -> Any:
    return da.from_array(array, chunks=tuple([max(1, min(k, n)) for k in array.shape]))


def computed(*arrays: Any) -> list[Array]:
    """Compute arrays, which must have the shapes that they claim."""
    results = [np.asarray(array.compute(scheduler="synchronous")) for array in arrays]
    assert [array.shape for array in arrays] == [result.shape for result in results]
    return results


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(0, 3), (3, 0)])
def test_no_points(size: tuple[int, int], antialias: bool) -> None:
    grid = np.zeros((1, *size, 2))
    options: dict[str, Any] = {"antialias": antialias, "coords": "displacement"}
    expected = gridsample.grid_sample(IMAGE, grid, **options)
    image, places = lazy(IMAGE), da.from_array(grid, chunks=-1)
    bounds = gridsample.dask.coordinate_bounds(places, **options).compute()

    def line(*indices: Array) -> Any:
        assert indices[0].size, "no function is called for no points"
        return indices

    function = gridsample.dask.Points(line, line)
    for result in (
        gridsample.dask.grid_sample(image, grid, **options),
        gridsample.dask.grid_sample(image, places, bounds=bounds, **options),
        gridsample.dask.grid_sample(image, function, size=size, **options),
    ):
        np.testing.assert_array_equal(*computed(result), expected)


def test_scipys_functions_without_points() -> None:
    image = IMAGE[0, 0]
    assert computed(gridsample.dask.map_coordinates(lazy(image), np.zeros((2, 0))))[0].size == 0
    options: Any = {"grid_mode": True, "mode": "reflect"}
    expected = ndimage.zoom(image, (0.05, 2), **options)
    (result,) = computed(gridsample.dask.zoom(lazy(image), (0.05, 2), **options))
    assert result.shape == expected.shape == (0, 12)


@pytest.mark.parametrize("items", [0, 1])
@pytest.mark.parametrize("grid_items", [0, 1])
def test_no_items(items: int, grid_items: int) -> None:
    image, grid = IMAGE[:items], np.zeros((grid_items, 3, 3, 2))
    expected = gridsample.grid_sample(image, grid, return_mask=True)
    results = computed(*gridsample.dask.grid_sample(lazy(image), grid, return_mask=True))
    assert [each.shape for each in results] == [each.shape for each in expected]
    maps, shape = np.zeros((grid_items, 2, 3)), (grid_items, 2, 4, 4)
    whole = gridsample.affine_sample(image, maps, shape)
    assert computed(gridsample.dask.affine_sample(lazy(image), maps, shape))[0].shape == whole.shape


def test_empty_chunks() -> None:
    image = da.from_array(IMAGE, chunks=((1, 0, 1), (2,), (0, 2, 0, 3), (6, 0)))
    grid = np.random.default_rng(1).uniform(-1.2, 1.2, (2, 7, 2))
    places = da.from_array(grid, chunks=((2,), (0, 3, 0, 4), (2,)))
    bounds = gridsample.dask.coordinate_bounds(places).compute()
    (result,) = computed(gridsample.dask.grid_sample(image, places, bounds=bounds))
    np.testing.assert_array_equal(result, gridsample.grid_sample(IMAGE, grid))


def test_empty_chunks_of_coordinates() -> None:
    points = np.random.default_rng(2).uniform(-1, 6, (2, 7))
    for chunks in (((1, 0, 1), 7), ((0, 2), (3, 0, 4)), ((2, 0), (0, 7))):
        places = da.from_array(points, chunks=chunks)
        bounds = gridsample.dask.coordinate_bounds(places, axis=0).compute()
        result = gridsample.dask.map_coordinates(lazy(IMAGE[0, 0]), places, bounds=bounds)
        np.testing.assert_array_equal(
            *computed(result), ndimage.map_coordinates(IMAGE[0, 0], points, order=1)
        )


def test_errors_have_the_shapes_that_were_passed() -> None:
    with pytest.raises(ValueError, match=r"N = 3 in grid shape \(3, 7, 8, 2\)"):
        gridsample.dask.grid_sample(lazy(IMAGE), np.zeros((3, 7, 8, 2)))
