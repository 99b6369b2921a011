"""Resampling of DataArrays: values, coordinates and attributes, with NumPy and Dask inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from gridsample.definitions.boundaries import BOUNDARIES

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(4)
MODES = ["nearest", "linear", "cubic", "lanczos3", "spline3"]


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


class Call:
    """A random image with coordinates, the coordinates to resample it to, and options."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        dims = [*"utyx"[rng.integers(4) :]]
        self.sizes = {dim: int(rng.integers(2, 12)) for dim in dims}
        names = "bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"
        self.dtype = np.dtype(self.one_of(*names))
        shape = [*self.sizes.values()]
        values = (rng.normal(size=shape) * 60 + 100).clip(0, 250).astype(self.dtype)
        if self.dtype.kind in "fc" and rng.random() < 0.4:
            values[rng.random(shape) < 0.15] = np.nan
        lines = {dim: self.line(n) for dim, n in self.sizes.items()}
        self.image = xarray.DataArray(values, lines, dims)
        sampled = [dim for dim in dims if rng.random() < 0.7] or dims[-1:]
        self.like = self.targets(sampled)
        if len(dims) > 1 and rng.random() < 0.3:
            self.bend()

    def one_of(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def line(self, n: int) -> Array:
        """Coordinates that increase or decrease: numbers, or times."""
        line = np.cumsum(self.rng.uniform(0.5, 2, n)) * self.one_of(1, 1, -1)
        if self.rng.random() < 0.15:
            return np.datetime64("2020-01-01") + (line * 1e9).astype("timedelta64[ns]")
        return line if self.rng.random() < 0.8 else line.astype(np.float32)

    def between(self, line: Array, shape: Sequence[int]) -> Array:
        """Coordinates from somewhat below others to somewhat above; some of them are theirs."""
        low, high = min(line[[0, -1]]), max(line[[0, -1]])
        places = self.rng.uniform(-0.3, 1.3, shape)
        new = low + (high - low) * places
        known = self.rng.random(shape) < 0.2
        new[known] = self.rng.choice(line, int(known.sum()))
        if line.dtype.kind == "f" and self.rng.random() < 0.2:
            new[self.rng.random(shape) < 0.1] = self.one_of(np.nan, np.inf, -np.inf)
        return new

    def targets(self, sampled: Sequence[str]) -> dict[str, xarray.DataArray]:
        """Coordinates along each dimension, along a track, or of a curvilinear grid."""
        count, kind = int(self.rng.integers(1, 15)), self.one_of("lines", "lines", "track", "plane")
        like = {}
        for dim in sampled:
            shape: tuple[int, ...] = (int(self.rng.integers(1, 15)),)
            names: tuple[str, ...] = (dim,)
            if kind != "lines":
                shape, names = ((count,), ("p",)) if kind == "track" else ((count, 5), ("p", "q"))
            new = self.between(self.image[dim].values, shape)
            new = np.sort(new) if kind == "lines" and self.rng.random() < 0.8 else new
            like[dim] = xarray.DataArray(new, dims=names)
        return like

    def bend(self) -> None:
        """Give the last two dimensions curvilinear coordinates, which are then resampled."""
        index = np.stack(np.indices([*self.sizes.values()][-2:]), -1).astype(float)
        turn = np.eye(2) + self.rng.normal(size=(2, 2)) * 0.2
        bent = index @ turn.T + 0.1 * np.sin(index[..., ::-1])
        shape = tuple(self.rng.integers(1, 9, 2))
        self.like = {}
        for k, name in enumerate(("lat", "lon")):
            self.image = self.image.assign_coords({name: (self.image.dims[-2:], bent[..., k])})
            new = self.rng.uniform(bent[..., k].min(), bent[..., k].max(), shape)
            self.like[name] = xarray.DataArray(new, dims=("p", "q"))

    def named(self, *names: str) -> Any:
        """One name, or one for each dimension that is resampled."""
        rank = len({dim for name in self.like for dim in self.image[name].dims})
        each = tuple(self.one_of(*names) for _ in range(rank))
        return each[0] if self.rng.random() < 0.7 else each

    def options(self) -> dict[str, Any]:
        """Options of `resample`."""
        labels = self.dtype.kind in "biu" and self.rng.random() < 0.2
        modes = ["label", "nearest"] if labels else MODES
        options: dict[str, Any] = {
            "mode": self.named(*modes),
            "padding_mode": self.named(*BOUNDARIES, "missing"),
            "extrapolate": self.one_of("centers", "edges", True, False),
            "antialias": bool(self.rng.random() < 0.2),
            "missing": self.one_of("propagate", "ignore") if self.dtype.kind in "fc" else "ignore",
            "threads": self.one_of(None, None, 1, 2),
        }
        if self.rng.random() < 0.3:
            options["fill_value"] = self.one_of(7, 0, 2.5, np.nan)
        return options

    def lazy(self) -> tuple[xarray.DataArray, dict[str, xarray.DataArray]]:
        """The image and the coordinates to resample it to in chunks, which are drawn apart."""

        def divided(array: xarray.DataArray, share: float) -> xarray.DataArray:
            chunks = {dim: int(self.rng.integers(1, n + 1)) for dim, n in array.sizes.items()}
            return array.chunk(chunks) if self.rng.random() < share else array

        image = divided(self.image, 0.8)
        return image, {dim: divided(line, 0.4) for dim, line in self.like.items()}

    def rounding(self, options: dict[str, Any]) -> float:
        """The difference that the documentation allows."""
        names = {options["mode"]} if isinstance(options["mode"], str) else {*options["mode"]}
        sampled = {dim for name in self.like for dim in self.image[name].dims}
        channels = math.prod(n for dim, n in self.sizes.items() if dim not in sampled)
        # Coefficients, and sums over more than two taps of an axis where there are many channels or
        # in double precision, are rounded in another order.
        wide = self.dtype.name in ("float64", "int64")
        few = channels < (2 if wide else 8) or not names & {"cubic", "lanczos3"}
        if "spline3" in names or not few:
            return 1 if self.dtype.kind in "biu" else float(2e4 * np.finfo(self.dtype).eps)
        return 0


@hypothesis.settings(max_examples=examples(30))
@hypothesis.given(st.integers(0, 2**32))
def test_lazy_results_are_those_in_memory(seed: int) -> None:
    """Chunks of the image and of the coordinates are drawn apart, and so are all options."""
    call = Call(seed)
    options, (lazy_image, lazy_like) = call.options(), call.lazy()
    try:
        expected = gridsample.xarray.resample(call.image, call.like, **options)
    except (TypeError, ValueError) as error:
        with pytest.raises((TypeError, ValueError)):
            gridsample.xarray.resample(lazy_image, lazy_like, **options).compute()
        hypothesis.event(str(error)[:60])
        return
    result = gridsample.xarray.resample(lazy_image, lazy_like, **options)
    assert result.dims == expected.dims and result.dtype == expected.dtype
    assert {*result.coords} == {*expected.coords}
    try:
        result = result.compute()
    except ValueError as error:  # the lengths of footprints at a grid are known late
        assert "antialias=True in chunks takes" in str(error)
        return
    wide = np.complex128 if call.dtype.kind == "c" else np.float64
    rounding = call.rounding(options)
    if rounding == 0:
        np.testing.assert_array_equal(result.values, expected.values)
    else:
        actual, whole = result.values.astype(wide), expected.values.astype(wide)
        # Means whose weights nearly cancel are larger than pixels, and so is their rounding.
        largest = np.abs(whole[np.isfinite(whole)]).max(initial=250)
        atol = rounding if call.dtype.kind in "biu" else rounding * largest / 250
        np.testing.assert_allclose(actual, whole, rtol=0, atol=atol)


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


@pytest.mark.parametrize("extrapolate", [True, np.True_, "continue"])
def test_images_that_extend_are_not_filled(extrapolate: Any) -> None:
    image = xarray.DataArray([0.0, 10.0, 40.0], {"x": [0.0, 1.0, 2.0]})
    result = gridsample.xarray.resample(
        image, {"x": [-1.0, 3.0]}, "linear", "border", extrapolate=extrapolate
    )
    ends = [-10, 70] if extrapolate == "continue" else [0, 40]
    np.testing.assert_array_equal(result.values, ends)
