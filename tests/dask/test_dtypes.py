"""Integers and bool under SciPy's names, and chunks that are no plain arrays."""

from __future__ import annotations

from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest
from chunks import picture

import gridsample.dask
from gridsample import ndimage

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def check(name: str, image: Array, *arguments: Any, **options: Any) -> None:
    expected = getattr(ndimage, name)(image, *arguments, **options)
    source = da.from_array(image, chunks=4)
    result = getattr(gridsample.dask, name)(source, *arguments, **options)
    assert result.dtype == result.compute().dtype == expected.dtype
    np.testing.assert_array_equal(result.compute(), expected)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "grid-constant"])
def test_integers_are_rounded_as_scipy_rounds_them(dtype: str, order: int, mode: str) -> None:
    """Bool is truncated, and others are rounded away from zero at ties, of which there are many."""
    image = picture((13, 11), "float64", cases.generator(dtype))[0, 0]
    image = image > 100 if dtype == "bool" else ((image - 90) // 3).clip(0).astype(dtype)
    halves = np.array([[0.5, 0.0], [0.0, 0.5]])
    points = np.arange(-3, 25.0).reshape(2, 2, 7) / 2
    for cval in (1.5, np.nan):
        options: dict[str, Any] = {"order": order, "mode": mode, "cval": cval}
        check("affine_transform", image, halves, (0.5, -1), (20, 21), **options)
        check("map_coordinates", image, points, **options)
    is_edge = mode in ("nearest", "grid-constant")
    check("zoom", image, 2, order=order, mode=mode, grid_mode=is_edge)


@pytest.mark.parametrize("dtype", ["float16", ">f2", ">f4", "complex64"])
@pytest.mark.parametrize("order", [0, 1])
def test_floats_are_rounded_once(dtype: str, order: int) -> None:
    """Sums of halves are rounded from float64, in which many of them are close to a tie."""
    image = picture((31, 29), "float64", cases.generator(dtype))[0, 0].astype(dtype)
    turned = np.array([[1.1, -0.1], [0.1, 1.2]])
    for mode in ("constant", "nearest", "wrap", "reflect"):
        check("affine_transform", image, turned, (-0.1, 2.4), order=order, mode=mode)


def test_ties_of_zoomed_integers() -> None:
    result = gridsample.dask.zoom(da.from_array(np.array([0, 1, 2, 3], np.uint8), chunks=2), 7 / 4)
    assert result.compute().tolist() == [0, 1, 1, 2, 2, 3, 3]
    bits = np.array([False, True, True])
    moved = gridsample.dask.affine_transform(da.from_array(bits, chunks=2), [1.0], 0.75)
    assert moved.compute().tolist() == [False, True, False]


@pytest.mark.parametrize("mode", ["constant", "grid-constant", "nearest", "mirror"])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_positions_that_are_no_numbers_are_those_of_ndimage(mode: str, dtype: str) -> None:
    image = picture((13, 11), dtype, cases.generator(mode))[0, 0]
    points = cases.generator(dtype).uniform(-3, 14, (2, 9, 5))
    points[0, ::2, 1], points[1, 4, :], points[0, 3, 2:] = np.nan, np.inf, -np.inf
    expected = ndimage.map_coordinates(image, points, order=1, mode=mode, cval=7)
    source = da.from_array(image, chunks=4)
    lazy = da.from_array(points, chunks=(1, 4, 3))
    bounds = gridsample.dask.coordinate_bounds(lazy, axis=0).compute()
    for places, more in ((points, {"chunks": (4, 3)}), (lazy, {"bounds": bounds})):
        keywords: dict[str, Any] = {"order": 1, "mode": mode, "cval": 7, **more}
        result = gridsample.dask.map_coordinates(source, places, **keywords)
        np.testing.assert_array_equal(result.compute(), expected)


def test_masks_of_chunks_are_not_lost() -> None:
    masked = np.ma.masked_greater(np.arange(16.0).reshape(1, 1, 4, 4), 7)
    grid, shift = np.zeros((1, 2, 2, 2)), np.eye(2, 3)[np.newaxis]
    functions = gridsample.dask
    for source in (masked, da.from_array(masked, chunks=2)):
        for call in (
            lambda source: functions.grid_sample(source, grid),
            lambda source: functions.affine_sample(source, shift, (1, 1, 4, 4)),
            lambda source: functions.resample(source, np.eye(3), ((4, 4), np.eye(3))),
            lambda source: functions.interpolate(source, (2, 2)),
            lambda source: functions.splat(source[..., :2, :2], grid, (4, 4)),
            lambda source: functions.spline_filter(source, axes=(2, 3)),
            lambda source: functions.zoom(source[0, 0], 2),
            lambda source: functions.grid_sample(np.zeros((1, 1, 4, 4)), grid, weights=source),
        ):
            with pytest.raises(TypeError, match="is a masked array, whose mask would be lost"):
                call(source)


def test_chunks_that_are_masked_or_of_another_kind_than_they_seem_are_errors() -> None:
    source = da.ones((1, 1, 4, 4), chunks=2)
    meta: dict[str, Any] = {"dtype": float, "meta": np.empty((0,) * 4)}
    grid = np.zeros((1, 2, 2, 2))
    hidden = source.map_blocks(lambda block: np.ma.masked_greater(block, 0), **meta)
    with pytest.raises(TypeError, match="chunk is a masked array"):
        gridsample.dask.grid_sample(hidden, grid).compute()
    with pytest.raises(TypeError, match="chunk is a masked array"):
        gridsample.dask.spline_filter(hidden, axes=(2, 3)).compute()
    complex_chunks = source.map_blocks(lambda block: block * 1j, **meta)
    with pytest.raises(TypeError, match="same_kind"):
        gridsample.dask.grid_sample(complex_chunks, grid).compute()
