"""Chunked results are bit for bit those of full arrays, and read only the chunks they need."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest
from chunks import coordinates, divided, is_halved, options_of, picture
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

import gridsample
import gridsample.dask
from gridsample import ndimage
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.coords import MARGINS
from gridsample.world import Displacement

Array = np.ndarray[Any, Any]
SHAPES = {1: ((37,), (60,)), 2: ((13, 21), (17, 26)), 3: ((5, 9, 14), (6, 7, 18))}
MODES = ("nearest", "linear", "cubic", "lanczos3", "label")


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", [*BOUNDARIES, "missing"])
@pytest.mark.parametrize("coords", ["normalized", "pixel", "displacement"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
def test_sampling_at_a_grid_matches_numpy_bit_for_bit(
    rank: int, mode: str, boundary: str, coords: str, antialias: bool, align_corners: bool
) -> None:
    rng = cases.generator(rank, mode, boundary, coords, antialias)
    odd = boundary in BOUNDARIES and BOUNDARIES[boundary].odd
    if (mode == "label" and (odd or boundary == "missing")) or (
        antialias and boundary == "missing"
    ):
        boundary = "wrap"
    spatial, out = SHAPES[rank]
    image = picture(spatial, np.uint8 if mode == "label" else np.float32, rng)
    grid = coordinates(spatial, out, coords, rng)
    options = options_of(mode, boundary, coords, antialias, align_corners) | {"max_samples": 64}
    expected = gridsample.grid_sample(image, grid, **options)
    source = da.from_array(image, chunks=((1,), (1, 1), *divided(spatial, rng)))
    chunks = divided(out, rng)
    result = gridsample.dask.grid_sample(source, grid, chunks=chunks, **options)
    assert result.chunks == ((1,), (1, 1), *chunks)
    np.testing.assert_array_equal(result.compute(), expected)
    lazy = da.from_array(grid, chunks=(1, *divided(out, rng), 1))
    bounds = gridsample.dask.coordinate_bounds(lazy, coords=coords, antialias=antialias)
    result = gridsample.dask.grid_sample(source, lazy, bounds=bounds.compute(), **options)
    np.testing.assert_array_equal(result.compute(), expected)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("coords", ["normalized", "pixel"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
def test_sampling_with_affine_maps_matches_numpy_bit_for_bit(
    rank: int, mode: str, boundary: str, coords: str, antialias: bool, align_corners: bool
) -> None:
    rng = cases.generator("map", rank, mode, boundary, coords, antialias)
    if mode == "label" and BOUNDARIES[boundary].odd:
        boundary = "mirror"
    spatial, out = SHAPES[rank]
    image = picture(spatial, np.uint8 if mode == "label" else np.float64, rng)
    theta = (np.eye(rank, rank + 1) * 1.4 + rng.normal(0, 0.2, (rank, rank + 1)))[np.newaxis]
    if coords == "pixel":
        theta[..., rank] = 3
    options = options_of(mode, boundary, coords, antialias, align_corners)
    expected = gridsample.affine_sample(image, theta, (1, 2, *out), **options)
    source = da.from_array(image, chunks=((1,), (1, 1), *divided(spatial, rng)))
    chunks = divided(out, rng)
    result = gridsample.dask.affine_sample(source, theta, (1, 2, *out), chunks=chunks, **options)
    np.testing.assert_array_equal(result.compute(), expected)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Array, Array, dict[str, Any], Any, Any]:
    """An image, maps, options, and the chunks of the image and of the result."""
    rank = draw(st.integers(1, 3))
    spatial = draw(st.tuples(*[st.integers(1, (70, 24, 10)[rank - 1])] * rank))
    out = draw(st.tuples(*[st.integers(1, (70, 24, 10)[rank - 1])] * rank))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    items = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    dtype = draw(st.sampled_from(["float32", "float64", "uint8", "int16", "complex64", "bool"]))
    image = (rng.standard_normal((items[0], 2, *spatial)) * 40 + 100).astype(dtype)
    theta = np.eye(rank, rank + 1) + rng.normal(0, 1, (items[1], rank, rank + 1))
    boundary, ends = draw(st.sampled_from([*BOUNDARIES])), st.sampled_from([*MARGINS, True, False])
    options = {
        "mode": draw(st.sampled_from(["nearest", "linear", "cubic"])),
        "padding_mode": boundary,
        "align_corners": draw(st.booleans()),
        "antialias": draw(st.booleans()),
        "max_samples": 64,
        "coords": draw(st.sampled_from(["pixel", "normalized"])),
        "extrapolate": tuple(draw(st.lists(ends, min_size=rank, max_size=rank))),
    }
    image_dtype = draw(st.sampled_from([np.float32, np.float64]))
    chunks = divided(spatial, rng), divided(out, rng)
    return image, theta.astype(image_dtype), options, *chunks


@settings(max_examples=examples(40))
@given(calls())
def test_any_chunking_matches_numpy_bit_for_bit(call: Any) -> None:
    image, theta, options, stored, chunks = call
    out = tuple(map(sum, chunks))
    size = len(theta), 2, *out
    source = da.from_array(image, chunks=(1, (1, 1), *stored))
    grid = gridsample.affine_grid(theta, size)
    if options["coords"] == "pixel":
        grid = grid * np.array(image.shape[:1:-1])
    grid = grid.astype(theta.dtype)
    expected = gridsample.grid_sample(image, grid, **options)
    result = gridsample.dask.grid_sample(source, grid, chunks=chunks, **options)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    if options["antialias"] and is_halved(grid, image, options):
        with pytest.raises(ValueError, match="max_samples=64"):
            result.compute()
        return
    np.testing.assert_array_equal(result.compute(), expected)
    steepness = np.abs(theta).max() * 2 * max(image.shape[2:])
    if options["antialias"] and steepness > 32:
        return
    expected = gridsample.affine_sample(image, theta, size, **options)
    result = gridsample.dask.affine_sample(source, theta, size, chunks=chunks, **options)
    np.testing.assert_array_equal(result.compute(), expected)


# Missing pixels, weights, masks -------------------------------------------------------------------


@pytest.mark.parametrize("channel_axis", [1, -1])
def test_missing_pixels_weights_and_masks_match_numpy(channel_axis: int) -> None:
    rng = cases.generator("missing", channel_axis)
    image, weights = picture((13, 21), np.float32, rng), rng.random((1, 1, 13, 21))
    image[rng.random(image.shape) < 0.3] = np.nan
    grid = coordinates((13, 21), (17, 26), "pixel", rng)
    chunks = (1, 2, 5, 8)
    if channel_axis == -1:
        image, weights = np.moveaxis(image, 1, -1).copy(), np.moveaxis(weights, 1, -1)
        chunks = (1, 5, 8, 2)
    source = da.from_array(image, chunks=chunks)
    for extra_options in (
        {"missing": "ignore", "return_weight": True, "weights": weights},
        {"missing": "ignore", "padding_mode": "missing", "min_weight": 0.4},
        {"return_mask": True, "padding_mode": "mirror", "mode": "cubic"},
        {"missing": "ignore", "return_mask": True, "return_weight": True},
    ):
        options = {"coords": "pixel", "channel_axis": channel_axis, **extra_options}
        sampled = gridsample.grid_sample(image, grid, **options)
        results = gridsample.dask.grid_sample(source, grid, chunks=(6, 7), **options)
        results = results if isinstance(results, tuple) else (results,)
        sampled = sampled if isinstance(sampled, tuple) else (sampled,)
        for result, expected in zip(results, sampled, strict=True):
            assert result.shape == expected.shape and result.dtype == expected.dtype
            np.testing.assert_array_equal(result.compute(), expected)


# Splines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("order", [2, 3, 5, 7])
def test_coefficients_match_numpy_within_rounding(boundary: str, order: int) -> None:
    image = cases.generator(boundary, order).random((2, 700))
    expected = gridsample.spline_filter(image, order, boundary, axes=1)
    source = da.from_array(image, chunks=(1, (300, 7, 1, 192, 200)))
    result = gridsample.dask.spline_filter(source, order, boundary, axes=1).compute()
    assert np.abs(result - expected).max() < 1e-15 * np.ptp(expected)
    narrow = da.from_array(image.astype(np.float32), chunks=(2, 50))
    result = gridsample.dask.spline_filter(narrow, order, boundary, axes=1).compute()
    assert result.dtype == np.float32
    assert np.abs(result - expected).max() < 4 * np.finfo(np.float32).eps * np.ptp(expected)


@pytest.mark.parametrize("boundary", ["zeros", "constant", "mirror", "wrap"])
def test_splines_match_numpy_within_rounding(boundary: str) -> None:
    rng = cases.generator(boundary)
    image = rng.random((1, 1, 90, 200))
    theta = np.array([[[0.95, 0.17, -3.0], [-0.17, 0.95, 9.0]]])
    options = {"mode": "spline3", "padding_mode": boundary, "coords": "pixel"}
    if boundary == "constant":
        options["fill_value"] = 0.7
    expected = gridsample.affine_sample(image, theta, (1, 1, 70, 80), **options)
    source = da.from_array(image, chunks=(1, 1, 40, 45))
    result = gridsample.dask.affine_sample(source, theta, (1, 1, 70, 80), chunks=33, **options)
    assert np.abs(result.compute() - expected).max() < 1e-15


# Names of other libraries -------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize(
    "mode", ["constant", "nearest", "reflect", "mirror", "grid-wrap", "grid-constant", "wrap"]
)
def test_scipy_names_match_ndimage(order: int, mode: str) -> None:
    rng = cases.generator(order, mode)
    image, matrix = rng.random((30, 41)), np.array([[0.9, 0.31], [-0.2, 1.1]])
    source = da.from_array(image, chunks=(13, 20))
    options = {"order": order, "mode": mode, "cval": 0.5}
    tolerance = 0 if order < 2 else 1e-14
    expected = ndimage.affine_transform(image, matrix, (1.3, -2), (20, 33), **options)
    result = gridsample.dask.affine_transform(source, matrix, (1.3, -2), (20, 33), **options)
    assert np.abs(result.compute() - expected).max() <= tolerance
    points = rng.uniform(-5, 40, (2, 9, 12))
    expected = ndimage.map_coordinates(image, points, **options)
    lazy = da.from_array(points, chunks=(2, 4, 5))
    bounds = gridsample.dask.coordinate_bounds(lazy, axis=0).compute()
    for each in (points, lazy):
        result = gridsample.dask.map_coordinates(source, each, bounds=bounds, **options)
        assert np.abs(result.compute() - expected).max() <= tolerance
    expected = ndimage.zoom(image, (1.7, 0.6), **options)
    result = gridsample.dask.zoom(source, (1.7, 0.6), **options)
    assert np.abs(result.compute() - expected).max() <= 1e-14


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "area", "spline3", "label"])
def test_resizing_matches_numpy(mode: str) -> None:
    rng = cases.generator(mode)
    image = picture((23, 40), np.uint8 if mode == "label" else np.float64, rng)
    source = da.from_array(image, chunks=(1, 1, 9, 11))
    for out in ((50, 17), (7, 81)):
        expected = gridsample.interpolate(image, out, mode=mode)
        result = gridsample.dask.interpolate(source, out, mode=mode, chunks=(8, 13)).compute()
        if mode in ("nearest", "label"):
            np.testing.assert_array_equal(result, expected)
        else:
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_world_resampling_matches_numpy_bit_for_bit() -> None:
    rng = cases.generator("world")
    image = rng.random((9, 14, 12)).astype(np.float32)
    affine = np.diag([2.0, 1.0, 1.5, 1.0]) + np.pad(rng.normal(0, 0.1, (3, 4)), ((0, 1), (0, 0)))
    like, matrix = ((12, 10, 11), np.eye(4)), np.eye(4)
    matrix[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    expected = gridsample.resample(image, affine, like, transform=matrix, extrapolate=False)
    source = da.from_array(image, chunks=5)
    result = gridsample.dask.resample(source, affine, like, transform=matrix, extrapolate=False)
    np.testing.assert_array_equal(result.compute(), expected)


def test_fields_and_functions_in_the_world_are_followed_chunk_by_chunk() -> None:
    rng = cases.generator("fields")
    image = rng.random((30, 40, 50))
    affine = np.diag([2.0, 1.0, 1.5, 1.0]) + np.pad(rng.normal(0, 0.1, (3, 4)), ((0, 1), (0, 0)))
    like, rotation = ((24, 20, 33), np.diag([2.0, 2, 2, 1])), np.eye(4)
    rotation[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    field = Displacement(rng.normal(0, 2, (5, 6, 7, 3)), np.diag([9.0, 8, 10, 1]))
    bend = gridsample.dask.BoundedTransform(
        lambda points: points + np.sin(points / 5), lambda low, high: (low - 1, high + 1)
    )
    store = Counting(image)
    source = da.from_array(store, chunks=(10, 10, 10))
    for transform in (field, [rotation, field, rotation, bend], bend):
        in_memory = gridsample.resample(image, affine, like, transform, "cubic", extrapolate=False)
        result = gridsample.dask.resample(
            source, affine, like, transform, "cubic", extrapolate=False, chunks=9
        )
        np.testing.assert_allclose(result.compute(), in_memory, rtol=0, atol=1e-12)
    store.read.clear()
    gridsample.dask.resample(source, affine, like, field, chunks=4)[:4, :4, :4].compute()
    assert 0 < len(store.read) <= 3 * 3 * 2  # 8 mm, 2 vectors of 2 mm, and a few taps


@pytest.mark.parametrize("coords", ["normalized", "pixel", "displacement"])
def test_splatting_matches_numpy(coords: str) -> None:
    rng = cases.generator(coords)
    values, grid = rng.random((2, 2, 17, 26)), coordinates((13, 21), (17, 26), coords, rng)
    expected = gridsample.splat(values, grid, (13, 21), "cubic", coords=coords)
    source = da.from_array(values, chunks=(1, 1, 7, 9))
    result = gridsample.dask.splat(source, grid, (13, 21), "cubic", coords=coords, chunks=6)
    np.testing.assert_allclose(result.compute(), expected, rtol=0, atol=1e-12)


# What is read, and graphs -------------------------------------------------------------------------


class Counting:
    """An array that records which of its chunks are read."""

    def __init__(self, array: Array) -> None:
        self.array, self.read = array, list[Any]()
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, index: Any) -> Array:
        self.read.append(tuple(part.start for part in index))
        return self.array[index]


def test_chunks_read_only_the_pixels_they_need() -> None:
    store = Counting(np.random.default_rng(1).random((1, 1, 100, 100)))
    source = da.from_array(store, chunks=(1, 1, 10, 10))
    half = np.array([[[0.5, 0.0, 20.2], [0.0, 0.5, 41.2]]])
    result = gridsample.dask.affine_sample(
        source, half, (1, 1, 40, 40), "cubic", coords="pixel", chunks=20
    )
    assert all(place == (0, 0, 0, 0) for place in store.read)  # dask looks for the kind of array
    store.read.clear()
    # Positions of the first chunk: x from 20.2 to 29.7, y from 41.2 to 50.7; taps from -1 to 2.
    result[..., :20, :20].compute()
    assert {place[2:] for place in store.read} == {*itertools.product((40, 50), (10, 20, 30))}
    assert len(store.read) == 6


def test_folding_boundaries_read_the_chunks_they_fold_to() -> None:
    store = Counting(np.random.default_rng(1).random((1, 1, 100)))
    source = da.from_array(store, chunks=(1, 1, 10))
    shift = np.array([[[1.0, -15.0]]])
    for boundary, places in (("wrap", {80, 90, 0}), ("symmetric", {0, 10}), ("zeros", {0})):
        store.read.clear()
        gridsample.dask.affine_sample(
            source, shift, (1, 1, 20), "linear", boundary, coords="pixel", chunks=20
        ).compute()
        assert {place[2] for place in store.read} == places


def test_graphs_have_one_task_per_chunk_and_no_large_constants() -> None:
    source = da.zeros((1, 1, 640, 640), chunks=(1, 1, 32, 32))
    theta = np.array([[[0.8, 0.6, -100.0], [-0.6, 0.8, 200.0]]])
    result = gridsample.dask.affine_sample(source, theta, (1, 1, 640, 640), coords="pixel")
    graph = result.__dask_graph__()
    layer = graph.layers[result.name]
    assert len(layer) == 401  # and what they share
    assert max(len(pickle.dumps(task)) for task in layer.values()) < 4000
    assert (
        result.name
        == gridsample.dask.affine_sample(source, theta, (1, 1, 640, 640), coords="pixel").name
    )


def test_coordinate_functions_are_evaluated_by_chunk_and_bounds_checked() -> None:
    image = np.random.default_rng(1).random((1, 1, 50, 60))
    source = da.from_array(image, chunks=(1, 1, 20, 20))

    def wave(x: Array, y: Array) -> tuple[Array, Array]:
        return x + 3 * np.sin(y / 5), y + 0 * x

    def bounds(low: Any, high: Any) -> Any:
        return (low[0] - 3, low[1]), (high[0] + 3, high[1])

    points = gridsample.dask.Points(wave, bounds)
    options = {"coords": "pixel", "padding_mode": "mirror"}
    result = gridsample.dask.grid_sample(source, points, size=(50, 60), chunks=17, **options)
    y, x = np.indices((50, 60))
    grid = np.stack(wave(x, y), -1)[np.newaxis]
    np.testing.assert_array_equal(result.compute(), gridsample.grid_sample(image, grid, **options))
    narrow = gridsample.dask.Points(wave, lambda low, high: (low, high))
    result = gridsample.dask.grid_sample(source, narrow, size=(50, 60), **options)
    with pytest.raises(ValueError, match="bounds must be beyond"):
        result.compute()


# Errors -------------------------------------------------------------------------------------------


def test_errors_are_raised_before_anything_is_computed() -> None:
    source, theta = da.zeros((1, 1, 40, 40), chunks=20), np.array([[[30.0, 0, 0], [0, 1.0, 0]]])
    size, grid = (1, 1, 8, 8), da.zeros((1, 8, 8, 2), chunks=4)
    functions = gridsample.dask
    with pytest.raises(ValueError, match="bounds must be given"):
        functions.grid_sample(source, grid)
    with pytest.raises(ValueError, match="bounds must be"):
        functions.grid_sample(source, grid, bounds=np.zeros((3, 2)))
    maps = np.concatenate([theta, theta / 4])
    with pytest.raises(ValueError, match=r"7\.5 to 30 pixels long, with max_samples=16"):
        functions.affine_sample(source, maps, (2, 1, 8, 8), coords="pixel", antialias=True)
    options: Any = {"coords": "pixel", "antialias": True, "missing": "ignore"}
    with pytest.raises(ValueError, match="longer than max_samples"):
        functions.affine_sample(source, theta, size, **options)
    with pytest.raises(RuntimeError, match="'grid-wrap'"):
        functions.affine_transform(source[0, 0], np.eye(2), mode="around")
    place = (8, 8), np.eye(3)
    with pytest.raises(ValueError, match="BoundedTransform"):
        functions.resample(source, np.eye(3), place, transform=lambda points: points)
    field = Displacement(np.zeros((2, 4, 4, 2)), np.eye(3))
    with pytest.raises(ValueError, match="must not be a batch"):
        functions.resample(source, np.eye(3), place, transform=field)
    with pytest.raises(ValueError, match="mode 'bilinar' is not known"):
        functions.affine_sample(source, theta, size, mode="bilinar")
    with pytest.raises(ValueError, match="prefilter"):
        functions.affine_sample(source, theta, size, mode="spline3", missing="ignore")
    with pytest.raises(ValueError, match="size must be"):
        functions.grid_sample(source, functions.Points(lambda x, y: (x, y), lambda a, b: (a, b)))
