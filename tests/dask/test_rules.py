"""Missing pixels, dtypes and fill values in chunks: which pixels count, and what results are."""

from __future__ import annotations

from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest
from chunks import coordinates, picture

import gridsample
import gridsample.dask

Array = np.ndarray[Any, Any]
SHIFT = np.array([[[0.9, 0.2, 0.4], [-0.2, 0.9, 3.0]]])
STEEP = np.array([[[4.2, 0.3, 0.4], [-0.2, 5.3, 1.0]]])


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def check_maps(image: Array, theta: Array, rounding: float = 0, **options: Any) -> None:
    """Compare `affine_sample` in chunks with that in memory, with one channel a chunk."""
    size = (1, image.shape[1], 9, 8)
    options |= {"coords": "pixel"}
    expected = gridsample.affine_sample(image, theta, size, **options)
    source = da.from_array(image, chunks=(1, 1, 11, 13))
    result = gridsample.dask.affine_sample(source, theta, size, chunks=5, **options)
    pairs = (
        zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
    )
    for lazy, whole in pairs:
        computed = lazy.compute()
        assert computed.dtype == lazy.dtype == whole.dtype and computed.shape == whole.shape
        error = np.abs(computed.astype(np.complex128) - whole.astype(np.complex128))
        assert error.max(initial=0, where=~np.isnan(error)) <= rounding
        np.testing.assert_array_equal(np.isnan(computed), np.isnan(whole))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "spline3"])
@pytest.mark.parametrize("theta", [SHIFT, STEEP])
def test_integers_have_no_missing_pixels(dtype: str, mode: str, theta: Array) -> None:
    """They may be halved and prefiltered, and are rounded."""
    image = picture((40, 50), dtype, cases.generator(dtype, mode))
    options = {"mode": mode, "padding_mode": "reflection", "missing": "ignore"}
    rounds = mode == "spline3" or theta is STEEP
    check_maps(image, theta, rounds, **options, antialias=True, max_samples=2)
    check_maps(image, theta, mode == "spline3", **options, return_weight=True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_splines_are_filtered_once_if_weights_are_returned(dtype: str) -> None:
    image = picture((40, 50), dtype, cases.generator(dtype))
    rounding = 1e-12 if dtype == "float64" else 1e-4
    check_maps(image, SHIFT, rounding, mode="spline3", padding_mode="mirror", return_weight=True)


@pytest.mark.parametrize("mode", ["linear", "cubic", "spline3"])
@pytest.mark.parametrize("missing", ["propagate", "ignore"])
def test_each_channel_may_have_a_fill_value(mode: str, missing: str) -> None:
    if mode == "spline3" and missing == "ignore":
        missing = "propagate"  # those are refused
    image = picture((40, 50), np.float64, cases.generator(mode, missing))
    rounding = 1e-12 if mode == "spline3" else 0
    options = {"mode": mode, "missing": missing, "fill_value": [300.0, -7.0]}
    check_maps(image, SHIFT * 3, rounding, padding_mode="constant", **options)
    check_maps(image, SHIFT * 3, rounding, extrapolate=False, **options)


@pytest.mark.parametrize("other", ["zeros", "constant", "border"])
@pytest.mark.parametrize("fill_value", [None, 3.0, np.nan])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_what_is_outside_may_be_missing_along_one_axis(
    other: str, fill_value: Any, dtype: str
) -> None:
    image = picture((40, 50), dtype, cases.generator(other, fill_value))
    options: dict[str, Any] = {"padding_mode": ("missing", other), "missing": "ignore"}
    if fill_value is not None:
        options |= {"fill_value": fill_value, "extrapolate": False}
    check_maps(image, SHIFT * 3, 1e-12, **options)


def test_results_have_the_native_byte_order() -> None:
    image = picture((40, 50), ">f4", cases.generator("order"))
    check_maps(image, SHIFT)
    source = da.from_array(image, chunks=20)
    for call in (
        gridsample.dask.interpolate(source, (7, 9)),
        gridsample.dask.zoom(source[0, 0], 2),
    ):
        assert call.dtype == call.compute().dtype == np.dtype("=f4")


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int64", ">f8", "complex64"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_coefficients_have_the_dtype_of_sums(dtype: str, order: int) -> None:
    image = picture((8, 9), dtype, cases.generator(dtype))[0]
    for axes in (None, 1, ()):
        expected = gridsample.spline_filter(image, order, axes=axes)
        result = gridsample.dask.spline_filter(da.from_array(image, chunks=3), order, axes=axes)
        assert result.dtype == result.compute().dtype == expected.dtype
        np.testing.assert_allclose(result.compute(), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("antialias", [False, True])
def test_functions_of_displacements_may_be_antialiased_and_infinite(antialias: bool) -> None:
    rng = cases.generator("functions", antialias)
    image, grid = picture((13, 21), np.float64, rng), coordinates((13, 21), (9, 8), "pixel", rng)
    grid = grid.astype(np.float64) - np.stack(np.indices((9, 8))[::-1], -1)
    grid[0, 0, :3] = -np.inf

    def bounds(first: Any, last: Any) -> tuple[Array, Array]:
        box = grid[0, first[1] : last[1] + 1, first[0] : last[0] + 1].reshape(-1, 2)
        return np.fmin.reduce(box), np.fmax.reduce(box)

    points = gridsample.dask.Points(
        lambda x, y: [grid[0, ..., d][y.astype(int), x.astype(int)] for d in (0, 1)], bounds
    )
    options: dict[str, Any] = {"coords": "displacement", "antialias": antialias}
    options |= {"padding_mode": "border", "max_samples": 64}
    expected = gridsample.grid_sample(image, grid, **options)
    source = da.from_array(image, chunks=(1, 2, 5, 6))
    result = gridsample.dask.grid_sample(source, points, size=(9, 8), chunks=4, **options)
    np.testing.assert_array_equal(result.compute(), expected)


def test_axes_have_coordinates_of_their_own() -> None:
    x, y = np.array([-3.0, -1.0, 0.5, 0.75, 4.0, 9.0]), np.array([9.0, 7.5, 7.0, 1.0])
    image = np.random.default_rng(0).standard_normal((1, 2, 4, 6))
    rng = np.random.default_rng(1)
    grid = np.stack([rng.uniform(-4, 10, (1, 5, 7)), rng.uniform(0, 10, (1, 5, 7))], -1)
    expected = gridsample.grid_sample(image, grid, coords=(x, y))
    chunked = da.from_array(image, chunks=(1, 1, 2, 3))
    points = da.from_array(grid, chunks=(1, 2, 4, 2))
    for array, bounds in ((grid, None), (points, ([-4, 0], [10, 10]))):
        lazy = gridsample.dask.grid_sample(chunked, array, coords=(x, y), bounds=bounds)
        np.testing.assert_allclose(lazy.compute(), expected, rtol=0, atol=1e-13)
        summed = gridsample.dask.splat(
            expected, array, (4, 6), coords=(x, y), bounds=bounds, chunks=3
        )
        np.testing.assert_allclose(
            summed.compute(),
            gridsample.splat(expected, grid, (4, 6), coords=(x, y)),
            rtol=0,
            atol=1e-12,
        )
