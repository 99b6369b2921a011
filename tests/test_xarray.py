"""Resampling of DataArrays: values, coordinates and attributes, with NumPy and Dask inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray

import gridsample
import gridsample.xarray

RNG = np.random.default_rng(4)


def field(**coords: Any) -> xarray.DataArray:
    shape = [len(each) for each in coords.values()]
    return xarray.DataArray(
        RNG.normal(size=shape),
        coords,
        list(coords),
        name="heat",
        attrs={"units": "K"},
    )


LAT = np.linspace(60.0, -60.0, 13)  # decreasing
LON = np.cumsum(RNG.uniform(5, 9, 17))  # not equidistant
NEW = {"lat": np.linspace(70, -50, 10), "lon": np.linspace(-3, 100, 21)}


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("chunks", [None, {"time": 1, "lat": 4, "lon": 5}])
def test_values_match_interp_like(mode: str, chunks: Any) -> None:
    image = field(time=[1, 2, 3], lat=LAT, lon=LON)
    image = image.assign_coords(name=("time", list("abc")), height=2.0)
    like = field(**NEW).assign_coords(station=("lat", list("ABCDEFGHIJ")))
    expected = image.interp(NEW, method=mode)
    ours = image.chunk(chunks) if chunks else image
    result = gridsample.xarray.resample(ours, like, mode)
    assert (result.chunks is not None) == (chunks is not None)
    assert result.dims == ("time", "lat", "lon") and result.name == "heat"
    assert result.attrs == {"units": "K"} and result.dtype == image.dtype
    assert set(result.coords) == {"time", "lat", "lon", "name", "height", "station"}
    np.testing.assert_array_equal(result.lat, NEW["lat"])
    np.testing.assert_allclose(result.values, expected.values, rtol=0, atol=1e-12)
    in_memory = gridsample.xarray.resample(image, like, mode)
    np.testing.assert_array_equal(result.values, in_memory.values)


@pytest.mark.parametrize("mode", ["cubic", "spline3"])
def test_dask_matches_numpy(mode: str) -> None:
    image = field(time=[1, 2], y=np.arange(80.0), x=np.arange(50.0))
    like = {"y": np.linspace(-2, 77, 33), "x": np.linspace(3, 44, 60)}
    expected = gridsample.xarray.resample(image, like, mode, "mirror", extrapolate=True)
    lazy = gridsample.xarray.resample(
        image.chunk({"y": 16, "x": 20}), like, mode, "mirror", extrapolate=True
    )
    assert lazy.chunks == ((2,), (16, 16, 1), (20, 20, 20))
    np.testing.assert_allclose(lazy.values, expected.values, rtol=0, atol=1e-14)


def test_times_labels_and_other_dtypes() -> None:
    days = pd.date_range("2020-01-01", periods=4)
    image = field(time=days)
    half = days[:-1] + pd.Timedelta(hours=12)
    result = gridsample.xarray.resample(image, {"time": half})
    np.testing.assert_allclose(result, (image.values[1:] + image.values[:-1]) / 2, atol=1e-15)
    assert (result.time.values == half).all()
    labels = xarray.DataArray([3, 3, 9, 9], {"x": [0, 1, 2, 3]})
    named = gridsample.xarray.resample(labels, {"x": [0.4, 1.6, 7]}, "label")
    assert named.values.tolist() == [3, 9, 0] and named.dtype == labels.dtype


def test_points_along_tracks() -> None:
    """Coordinates of `like` with a dimension of their own are points, not the axes of a grid."""
    image = field(time=[1, 2, 3], lat=LAT, lon=LON)
    track = {
        "lat": xarray.DataArray([10.0, 0.0, -33.3], dims="point"),
        "lon": xarray.DataArray([33.3, 40.0, 50.0], dims="point"),
    }
    result = gridsample.xarray.resample(image, track)
    expected = image.interp(track)
    assert result.dims == expected.dims == ("time", "point")
    np.testing.assert_allclose(result.values, expected.values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.lat, track["lat"])


def curved(shape: tuple[int, int]) -> tuple[Any, Any]:
    """Curvilinear coordinates: turned, stretched and bent."""
    y, x = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    lon = 10 + 0.5 * x + 0.2 * y + 0.4 * np.sin(y / 4)
    lat = 50 - 0.1 * x + 0.45 * y + 0.3 * np.cos(x / 5)
    return lat, lon


@pytest.mark.parametrize("chunks", [None, {"y": 8, "x": 8}])
def test_curvilinear_coordinates_are_inverted(chunks: Any) -> None:
    lat, lon = curved((30, 40))
    values = 3 * lat - 2 * lon  # linear in the coordinates
    image = xarray.DataArray(
        values, dims=("y", "x"), coords={"lat": (("y", "x"), lat), "lon": (("y", "x"), lon)}
    )
    image = image.chunk(chunks) if chunks else image
    # At its own coordinates, the image itself.
    same = gridsample.xarray.resample(image, image)
    np.testing.assert_allclose(same.values, values, rtol=0, atol=1e-6)
    # On a regular grid inside.
    like = {"lat": np.linspace(54, 58, 9), "lon": np.linspace(18, 24, 7)}
    regular = gridsample.xarray.resample(image, like)
    assert regular.dims == ("lat", "lon")
    expected = 3 * like["lat"][:, None] - 2 * like["lon"]
    np.testing.assert_allclose(regular.values, expected, rtol=0, atol=1e-6)
    far = gridsample.xarray.resample(image, {"lat": [0.0], "lon": [0.0]})
    assert np.isnan(far.values).all()


def test_resampling_onto_curvilinear_coordinates() -> None:
    lat, lon = curved((12, 15))
    image = field(lat=np.linspace(40, 70, 50), lon=np.linspace(5, 30, 60))
    like = xarray.Dataset(
        coords={"lat": (("y", "x"), lat), "lon": (("y", "x"), lon), "y": np.arange(12) * 2}
    )
    result = gridsample.xarray.resample(image, like)
    expected = image.interp(lat=like.lat, lon=like.lon)
    assert result.dims == ("y", "x") and result.y.values[-1] == 22
    np.testing.assert_allclose(result.values, expected.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunks", [None, {"lat": 20, "lon": 25}])
def test_lazy_coordinates_stay_lazy(chunks: Any) -> None:
    lat, lon = curved((12, 15))
    image = field(lat=np.linspace(40, 70, 50), lon=np.linspace(5, 30, 60))
    dims = ("y", "x")
    like = xarray.Dataset(coords={"lat": (dims, lat), "lon": (dims, lon)})
    expected = gridsample.xarray.resample(image, like)
    result = gridsample.xarray.resample(image.chunk(chunks) if chunks else image, like.chunk(5))
    assert result.chunks is not None and result.lat.chunks is not None
    np.testing.assert_array_equal(result.values, expected.values)


def test_missing_pixels_and_antialias() -> None:
    image = field(y=np.arange(40.0), x=np.arange(40.0))
    image[3, 4] = np.nan
    like = {"y": np.arange(1.5, 38, 4), "x": np.arange(1.5, 38, 4)}
    result = gridsample.xarray.resample(
        image, like, antialias=True, missing="ignore", extrapolate=True, padding_mode="border"
    )
    grid = np.stack(np.meshgrid(like["x"], like["y"]), -1)[None]
    expected = gridsample.grid_sample(
        image.values[None, None],
        grid,
        "linear",
        "border",
        coords="pixel",
        antialias=True,
        missing="ignore",
        fill_value=0,
    )
    np.testing.assert_array_equal(result.values, expected[0, 0])
    assert np.isfinite(result.values).all()


@pytest.mark.parametrize(
    ("like", "error", "message"),
    [
        ({"z": [1.0]}, ValueError, "like has coordinates"),
        (3, TypeError, "like must be a DataArray"),
        (field(z=[1.0, 2.0]), ValueError, "none of the image's coordinates"),
        ({"t": [1.0]}, ValueError, "'t' must increase or decrease"),
        (
            {"lat": xarray.DataArray([1.0], dims="t")},
            ValueError,
            "dimensions \\['t'\\], which the image keeps",
        ),
    ],
)
def test_errors(like: Any, error: type[Exception], message: str) -> None:
    image = field(t=[1.0, 3.0, 2.0], lat=LAT)
    with pytest.raises(error, match=message):
        gridsample.xarray.resample(image, like)
    with pytest.raises(TypeError, match="image must be an xarray"):
        gridsample.xarray.resample(image.values, like)
