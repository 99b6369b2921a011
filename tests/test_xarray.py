"""Resampling of DataArrays: values, coordinates and attributes, with NumPy and Dask inside."""

from __future__ import annotations

import math
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import pytest
import xarray
from hypothesis import strategies as st
from strategies import examples

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


def grid_of(values: Any, **coordinates: Any) -> xarray.DataArray:
    dims = ("y", "x") if values.ndim == 2 else ("z", "y", "x")
    return xarray.DataArray(
        values, dims=dims, coords={name: (dims, array) for name, array in coordinates.items()}
    )


def ring(turns: float, count: int = 120) -> xarray.DataArray:
    """The distance from a centre, on a polar grid."""
    radius, angle = np.meshgrid(np.arange(5.0, 13), np.linspace(0, turns, count), indexing="ij")
    angle = 2 * np.pi * angle
    return grid_of(radius, x1=radius * np.cos(angle), y1=radius * np.sin(angle))


@pytest.mark.parametrize("turns", [0.3, 0.6, 0.95, 1.0])
def test_strongly_curved_coordinates_are_inverted(turns: float) -> None:
    """Every target inside has a value, and none outside."""
    line = np.linspace(-14, 14, 41)
    result = gridsample.xarray.resample(ring(turns), {"x1": line, "y1": line})
    x, y = np.meshgrid(line, line, indexing="ij")
    radius, angle = np.hypot(x, y), np.arctan2(y, x) / (2 * np.pi) % 1
    between = (angle > 0.001) & (angle < turns - 0.001)
    inside = (radius > 5.05) & (radius < 11.95) & between
    outside = (radius < 4.95) | (radius > 12.05) | (~between & (angle - turns > 0.01))
    assert inside.sum() > 100 and outside.sum() > 100
    np.testing.assert_allclose(result.values[inside], radius[inside], rtol=0, atol=0.01)
    assert np.isnan(result.values[outside]).all()


def test_volumes_with_curvilinear_coordinates() -> None:
    z, y, x = np.meshgrid(*map(np.arange, (7, 9, 8)), indexing="ij")
    a, b, c = z + 0.2 * np.sin(y), 2 * y - 0.3 * z, 0.5 * x + 0.1 * y * z
    image = grid_of(a + 2 * b - c, a=a, b=b, c=c)
    like = {"a": [2.0, 3.5], "b": [5.0, 7.25], "c": [3.0, 4.0]}
    result = gridsample.xarray.resample(image, like)
    expected = np.add.outer(np.add.outer(like["a"], 2 * np.array(like["b"])), -np.array(like["c"]))
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=1e-8)


Y, X = np.meshgrid(np.arange(41.0), np.arange(30.0), indexing="ij")


@pytest.mark.parametrize(
    "image",
    [
        grid_of(Y, lat=abs(Y - 20), lon=X),
        grid_of(Y, lat=Y, lon=(X * 12 + 100 + 180) % 360 - 180),  # a jump
        grid_of(Y, lat=Y, lon=0 * X + 3),
        ring(1.5),  # one turn above the other
        ring(2.0, 30),
    ],
)
def test_coordinates_that_fold_are_an_error(image: xarray.DataArray) -> None:
    like = {name: [3.25, 8.5] for name in image.coords}
    with pytest.raises(ValueError, match=r"fold|overlap"):
        gridsample.xarray.resample(image, like)


@hypothesis.given(st.integers(0, 10**6), st.floats(0, 3))
def test_positions_are_right_or_an_error(seed: int, bend: float) -> None:
    """Points on an image have the coordinates of one position, or there is an error."""
    rng = np.random.default_rng(seed)
    y, x = np.meshgrid(*(np.arange(n) for n in rng.integers(2, 20, 2)), indexing="ij")
    matrix, waves = rng.normal(size=(2, 2)), rng.normal(size=(2, 3))
    lat, lon = (
        a * y + b * x + bend * np.sin(p * y + q * x + r)
        for (a, b), (p, q, r) in zip(matrix, waves, strict=True)
    )
    points = rng.random((1, 12, 2)) * [x.max(), y.max()]
    both = gridsample.grid_sample(np.stack([lat, lon])[np.newaxis], points, coords="pixel")[0]
    like = {name: xarray.DataArray(both[k], dims="t") for k, name in enumerate(("lat", "lon"))}
    image = grid_of(x + 1j * y, lat=lat, lon=lon)
    try:
        result = gridsample.xarray.resample(image, like)
    except ValueError as error:
        assert "fold" in str(error) or "overlap" in str(error)
        return
    np.testing.assert_allclose(result.values, points[0] @ [1, 1j], rtol=0, atol=1e-4)
    hypothesis.event("resampled")


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


@hypothesis.settings(max_examples=examples(40))
@hypothesis.given(st.integers(0, 2**32))
def test_lazy_results_are_those_in_memory(seed: int) -> None:
    """Chunks of the image and of the coordinates are drawn apart, and so are all options."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def chunks_of(array: xarray.DataArray) -> dict[Any, int]:
        return {dim: int(rng.integers(1, n + 1)) for dim, n in array.sizes.items()}

    dims = [*"tyx"[: rng.integers(1, 4)]]
    sizes = {dim: int(rng.integers(2, 15)) for dim in dims}
    names = "bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"
    dtype = np.dtype(one_of(*names))
    lines = {dim: np.cumsum(rng.uniform(0.5, 2, n)) for dim, n in sizes.items()}
    values = (rng.normal(size=[*sizes.values()]) * 60 + 100).clip(0, 250).astype(dtype)
    if dtype.kind in "fc" and rng.random() < 0.4:
        values[rng.random(values.shape) < 0.15] = np.nan
    image = xarray.DataArray(values, lines, dims)
    sampled = [dim for dim in dims if rng.random() < 0.8] or dims[:1]
    tracks = rng.random() < 0.3
    count = int(rng.integers(1, 15))
    like = {}
    for dim in sampled:
        low, high = lines[dim][[0, -1]] + [-2, 2]
        new = rng.uniform(low, high, count if tracks else int(rng.integers(1, 15)))
        like[dim] = xarray.DataArray(new if tracks else np.sort(new), dims="p" if tracks else dim)
    options: dict[str, Any] = {
        "mode": one_of("nearest", "linear", "cubic", "lanczos3", "spline3", "label"),
        "padding_mode": one_of(
            "constant", "zeros", "border", "reflection", "mirror", "wrap", "dst1", "missing"
        ),
        "extrapolate": one_of("centers", "edges", True, False),
        "antialias": bool(rng.random() < 0.2),
        "missing": one_of("propagate", "ignore") if dtype.kind in "fc" else "propagate",
    }
    if rng.random() < 0.3:
        options["fill_value"] = one_of(7, 0, 2.5, np.nan)
    lazy_image = image.chunk(chunks_of(image)) if rng.random() < 0.8 else image
    lazy_like = {
        dim: line.chunk(chunks_of(line)) if rng.random() < 0.4 else line
        for dim, line in like.items()
    }
    try:
        expected = gridsample.xarray.resample(image, like, **options)
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            gridsample.xarray.resample(lazy_image, lazy_like, **options).compute()
        return
    result = gridsample.xarray.resample(lazy_image, lazy_like, **options)
    assert result.dims == expected.dims and result.dtype == expected.dtype
    channels = math.prod(n for dim, n in sizes.items() if dim not in sampled)
    few = channels < 8 and options["mode"] != "spline3"
    if few or options["mode"] in ("nearest", "linear", "label"):
        np.testing.assert_array_equal(result.values, expected.values)
        return
    # Coefficients, and sums over eight planes or more, are rounded in another order.
    wide = np.complex128 if dtype.kind == "c" else np.float64
    atol = 1 if dtype.kind in "biu" else 2e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(
        result.values.astype(wide), expected.values.astype(wide), rtol=0, atol=atol
    )


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
