"""Interpolation of DataArrays and Datasets: xarray's own results, in memory and with Dask."""

from __future__ import annotations

import re
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.interpolate
import xarray
from dask.callbacks import Callback

import gridsample.xarray

RNG = np.random.default_rng(7)
OUTSIDE = [{}, {"fill_value": "extrapolate"}, {"fill_value": 2.5}, {"fill_value": (1.0, 2.0)}]


def cube() -> xarray.DataArray:
    """Values with axes of three kinds, and coordinates along them."""
    return xarray.DataArray(
        RNG.random((5, 9, 11)),
        {
            "t": pd.date_range("2000-01-01", periods=5, unit="ns"),
            "y": np.cumsum(RNG.random(9)),
            "x": -np.cumsum(RNG.random(11)),  # decreasing
            "height": ("y", np.arange(9)),
            "area": (("y", "x"), RNG.random((9, 11))),
            "name": ("t", list("abcde")),
            "source": "made up",
        },
        ("t", "y", "x"),
        name="heat",
        attrs={"units": "K"},
    )


def points(*dims: str, low: float, high: float) -> xarray.DataArray:
    sizes = {"p": 3, "q": 4, "t": 5}
    values = RNG.uniform(low, high, [sizes[dim] for dim in dims])
    return xarray.DataArray(values, dims=dims)


def assert_as_xarray(obj: Any, **arguments: Any) -> Any:
    """Compare with xarray, and arrays in chunks with those in memory."""
    expected = obj.interp(**arguments)
    result = gridsample.xarray.interp(obj, **arguments)
    xarray.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    assert list(result.coords) == list(expected.coords)
    assert result.dims == expected.dims and result.attrs == expected.attrs
    lazy = gridsample.xarray.interp(obj.chunk({"t": 2, "y": 3, "x": 4}), **arguments)
    xarray.testing.assert_identical(lazy.compute(), result)
    assert lazy.chunks
    return result


@pytest.mark.parametrize("kwargs", OUTSIDE)
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_independent_axes(method: Any, kwargs: Any) -> None:
    options = {"method": method, "kwargs": kwargs}
    # To the middle of a step, beyond both ends, and to a coordinate.
    new = {"x": np.linspace(0, -12, 23), "y": 1.5, "t": ["2000-01-01T06:00", "2000-01-03"]}
    assert_as_xarray(cube(), coords=new, **options)
    assert_as_xarray(cube(), x=points("p", low=-5, high=0), **options)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_points(method: Any) -> None:
    y, x = points("p", "q", low=0, high=6), points("p", low=-6, high=0)
    for kwargs in ({}, {"fill_value": None}, {"fill_value": 2.5}):
        assert_as_xarray(cube(), y=y, x=x, method=method, kwargs=kwargs)
    assert_as_xarray(cube(), y=y, method=method, kwargs={"fill_value": (1.0, 2.0)})
    # A line has points of its own.
    assert_as_xarray(cube(), x=x, y=points("q", "t", "p", low=0, high=6), method=method)


def test_lazy_points_are_not_computed() -> None:
    y = points("p", "q", low=0, high=6)
    obj = cube().chunk({"x": 4})

    def forbid(*arguments: Any) -> None:
        raise AssertionError("computed")

    with Callback(pretask=forbid):
        result = gridsample.xarray.interp(obj, y=y.chunk({"p": 1}), t="2000-01-02T08:00")
        with pytest.raises(AssertionError, match="computed"):
            result.compute(scheduler="sync")
    expected = gridsample.xarray.interp(obj.compute(), y=y, t="2000-01-02T08:00")
    xarray.testing.assert_identical(result.compute(), expected)


def test_each_task_reads_the_chunks_that_it_needs() -> None:
    read: list[tuple[int, ...]] = []

    def block(block_info: Any = None) -> Any:
        read.append(block_info[None]["chunk-location"])
        return np.ones((10, 10))

    data = dask.array.map_blocks(block, chunks=((10,) * 50, (10,) * 50), dtype=np.float64)
    image = xarray.DataArray(data, dims=("y", "x"))
    line = np.linspace(0, 499, 1000)
    result = gridsample.xarray.interp(image, y=line, x=line)
    # Two layers: y becomes twice as long, then x.
    assert len(result.__dask_graph__()) < 2500 + 100 * 50 + 100 * 100 + 10
    assert (result[:5, :5].compute(scheduler="sync") == 1).all() and read == [(0, 0)]
    read.clear()
    # Neighbours on the other side of a circle are far away in memory.
    around = gridsample.xarray.interp(image, x=[499.5, 250.0], y=0.0, period={"x": 500})
    around.compute(scheduler="sync")
    assert set(read) == {(0, 0), (0, 25), (0, 49)}


def test_labels_times_and_unsorted_coordinates_in_a_dataset() -> None:
    data = cube().to_dataset()
    times = np.datetime64("2024-01-01", "ns") + np.arange(9) * np.timedelta64(1, "D")
    data = data.assign(
        when=("y", np.where(np.arange(9) == 6, np.datetime64("NaT"), times)),
        lasts=("y", times - times[0]),
        label=("y", list("abcdefghi")),
        whole=("y", np.arange(9)),
        flag=("y", np.arange(9) > 4),
        other=("z", [1, 2]),
        plain=("w", [1.0, 2.0, 4.0]),
    ).isel(y=RNG.permutation(9))
    result = gridsample.xarray.interp(data, y=[0.2, 1.1, 2.0, 3.5], w=[0.5])
    expected = data.interp(y=[0.2, 1.1, 2.0, 3.5], w=[0.5])
    # xarray has the new coordinate of a dimension without one among the variables, and computes
    # times as float64 since 1970.
    expected, late = expected.set_coords("w"), abs(result.when - expected.when)
    assert (late.dropna("y") <= np.timedelta64(1024, "ns")).all()
    assert (late.isnull() == expected.when.isnull()).all()
    xarray.testing.assert_allclose(result.drop_vars("when"), expected.drop_vars("when"), rtol=1e-12)
    assert list(result.variables) == list(expected.variables)
    assert {k: v.dtype for k, v in result.items()} == {k: v.dtype for k, v in expected.items()}
    with pytest.raises(ValueError, match="'y' must be finite and have no equal entries"):
        gridsample.xarray.interp(data[["whole"]], y=[0.2], assume_sorted=True)


def test_interp_like() -> None:
    image = cube()
    other = xarray.Dataset(coords={"x": [-1.0, -2.0], "t": image.t[1:3], "new": [1]})
    expected = image.interp_like(other)
    xarray.testing.assert_allclose(gridsample.xarray.interp_like(image, other), expected)
    labels = xarray.DataArray([[1.0, 2], [3, 4]], {"x": [0.0, 1], "who": ["a", "b"]})
    like = xarray.Dataset(coords={"x": [0.5], "who": ["b", "c"]})
    result = gridsample.xarray.interp_like(labels, like)
    xarray.testing.assert_identical(result, labels.interp_like(like))


def test_values_at_coordinates_are_those_there() -> None:
    image = xarray.DataArray(
        [[1.0, np.nan, 3.0, np.inf, 5.0]] * 2, {"x": [0, 1, 4, 5, 7]}, ["y", "x"]
    )
    same = gridsample.xarray.interp(image, x=[0, 4, 1, 7, 5])
    np.testing.assert_array_equal(same[0], [1, 3, np.nan, 5, np.inf])
    np.testing.assert_array_equal(gridsample.xarray.interp(image, x=[0.5, 2])[0], [np.nan] * 2)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_nothing_is_known_at_no_time(method: str) -> None:
    for kwargs in OUTSIDE:
        result = gridsample.xarray.interp(
            cube(), t=["2000-01-02", "NaT"], method=method, kwargs=kwargs
        )
        assert result[0].notnull().all() and result[1].isnull().all()


def test_dtypes() -> None:
    image = cube().drop_vars(["area", "height"])
    new = {"y": [0.5, 1.5], "x": -1.0}
    for dtype in (np.float32, np.complex128, np.int16):
        values = (image * 100).astype(dtype)
        result = gridsample.xarray.interp(values, new)
        assert result.dtype == (np.float64 if dtype == np.int16 else dtype)
        rtol = 1e-5 if dtype == np.float32 else 1e-12
        xarray.testing.assert_allclose(result, values.interp(new).astype(result.dtype), rtol=rtol)
    assert np.isnan(gridsample.xarray.interp(image.astype(complex), x=9.0)).all()


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("start", [0, -180, 100])
def test_longitudes(start: int, method: Any) -> None:
    lon = (np.arange(0, 360, 30) - start) % 360 + start
    image = xarray.DataArray(RNG.random((3, 12)), {"lat": [3.0, 1, 0], "lon": lon}, ["lat", "lon"])
    around = image.sortby("lon")
    shifted = [around.assign_coords(lon=around.lon + k * 360) for k in range(-2, 3)]
    expected = xarray.concat(shifted, "lon")
    new = np.array([-400.0, -181, -10, 0, 14.9, 345.1, 359, 360, 500])
    options: Any = {"method": method, "period": 360}
    for each in (image, image.isel(lon=slice(None, None, -1)), image.chunk(lon=5)):
        for target in (new, xarray.DataArray(new, dims="p"), new[2]):
            result = gridsample.xarray.interp(each, lon=target, lat=[0.5, 2.0], **options)
            reference = expected.interp(lon=target, lat=[0.5, 2.0], method=method)
            xarray.testing.assert_allclose(result, reference, rtol=1e-12)
        along = {"lat": xarray.DataArray(np.linspace(-1, 3, 9), dims="p"), "lon": ("p", new)}
        for kwargs in ({}, {"fill_value": None}, {"fill_value": 1.0}):
            result = gridsample.xarray.interp(each, along, kwargs=kwargs, **options)
            reference = expected.interp(along, method=method, kwargs=kwargs)
            xarray.testing.assert_allclose(result, reference, rtol=1e-12)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), [2, 0, 5, 4, 1, 3]])
def test_ends_of_splines_are_those_of_scipy(order: Any) -> None:
    x, y = np.array([0.0, 1, 3, 4, 6, 9]), RNG.random((6, 5))
    values = xarray.DataArray(y, {"x": x, "y": np.arange(5.0)}, ["x", "y"]).isel(x=order)
    new = np.linspace(0, 9, 17)
    pair = ("natural", "clamped")
    for ends, expected in (
        ({"x": "natural"}, scipy.interpolate.CubicSpline(x, y, bc_type="natural")),
        ({"x": pair}, scipy.interpolate.CubicSpline(x, y, bc_type=pair)),
        ("clamped", scipy.interpolate.CubicSpline(x, y, bc_type="clamped")),
    ):
        for each in (values, values.chunk(x=2)):
            result = gridsample.xarray.interp(each, x=new, method="cubic", ends=ends)
            np.testing.assert_allclose(result, expected(new), rtol=0, atol=1e-13)
    like = gridsample.xarray.interp_like(values, result, "cubic", ends={"x": "clamped"})
    xarray.testing.assert_allclose(like, result)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ends": "natural"}, "ends must be 'not-a-knot' for methods other than 'cubic'"),
        ({"ends": {"f": "natural"}, "method": "cubic"}, "ends names ['f'], but interpolated"),
        ({"ends": "periodic", "method": "cubic"}, "splines along 'e' are periodic with period"),
        ({"ends": "free", "method": "cubic"}, "ends 'free'"),
        ({"ends": "clamped", "method": "cubic", "period": {"e": 9}}, "have no other ends then"),
    ],
)
def test_ends_are_checked(options: Any, text: str) -> None:
    image = xarray.DataArray(np.arange(6.0), {"e": np.arange(6.0)}, ["e"])
    with pytest.raises(ValueError, match=re.escape(text)):
        gridsample.xarray.interp(image, e=2.5, **options)


def test_periods_are_recognized() -> None:
    image = xarray.DataArray([0.0, 1, 2], {"e": [0.0, 120, 240]})
    named = gridsample.xarray.interp(image, e=300.0, period={"e": 360})
    image.e.attrs["units"] = "degrees_east"
    assert gridsample.xarray.interp(image, e=300.0, period=360) == named == 1.0
    image.e.attrs = {"standard_name": "longitude"}
    assert gridsample.xarray.interp(image, e=300.0, period=360) == 1.0
    image.e.attrs = {}
    cases: list[tuple[Any, str]] = [
        ({"period": 360}, "none of the coordinates ['e'] is a longitude"),
        ({"period": {"f": 360}}, "period names ['f']"),
        ({"period": {"e": 0}}, "must be greater than 0"),
        ({"period": {"e": 240}}, "must cover less than its period 240"),
        ({"period": {"e": 360}, "method": "quadratic"}, "period is accepted for the methods"),
        ({"kwargs": {"fill_value": "near"}}, "fill_value must be"),
        ({"kwargs": {"bounds_error": True}}, "which bounds_error asks for"),
        ({"method": "boo"}, "boo"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            gridsample.xarray.interp(image, e=[300.0], **options)
    with pytest.raises(TypeError, match="numbers and times"):
        gridsample.xarray.interp(image.astype(str), e=1.0)
    with pytest.raises(TypeError, match="a DataArray or a Dataset"):
        gridsample.xarray.interp(image.values, e=1.0)


def test_other_methods_are_those_of_xarray() -> None:
    image = cube()
    options: Any
    for method, options in [("zero", {}), ("akima", {"extrapolate": "periodic"})]:
        expected = image.interp(x=[-1.0, -2.0], method=method, kwargs=options)
        result = gridsample.xarray.interp(image, x=[-1.0, -2.0], method=method, kwargs=options)
        xarray.testing.assert_identical(result, expected)


# Methods of tables --------------------------------------------------------------------------------

SPLINES = ["quadratic", "cubic", "quintic"]
LOCAL = ["pchip", "akima", "makima"]


def table() -> xarray.DataArray:
    """The cube, at distances that differ less."""
    image, rng = cube(), np.random.default_rng(8)
    return image.assign_coords(
        y=np.cumsum(rng.uniform(0.5, 1.5, 9)), x=-np.cumsum(rng.uniform(0.5, 1.5, 11))
    )


@pytest.mark.parametrize(
    "method",
    [
        *("quadratic", "akima"),
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("cubic", "quintic", "pchip", "makima")),
    ],
)
def test_tables_along_an_axis(method: Any) -> None:
    outside: list[Any] = OUTSIDE if method in SPLINES else [{}, {"extrapolate": True}]
    every: list[Any] = [np.linspace(0, -12, 23), points("p", "q", low=-12, high=0), -2.5]
    for new, kwargs in zip([*every, every[0]], outside * 2, strict=False):
        assert_as_xarray(table(), x=new, method=method, kwargs=kwargs)
    # A line has points of its own.
    own = points("q", "t", "p", low=-9, high=-2)
    assert_as_xarray(table(), x=own, method=method)


@pytest.mark.parametrize("method", ["cubic", "quintic", "pchip"])
def test_tables_along_several_axes(method: Any) -> None:
    options: Any = {"rtol": 1e-11, "atol": 1e-12}
    image = table().drop_vars("area")
    x, y = np.linspace(-2, -7, 7), np.linspace(2, 6, 7)
    # xarray's splines along several axes are not exact, but those along one are.
    expected = image.interp(x=x, method=method).interp(y=y, method=method)
    result = gridsample.xarray.interp(image, y=y, x=x, method=method)
    xarray.testing.assert_allclose(result, expected, **options)
    for each in (image, image.chunk(t=2, x=3)):
        along: Any = {"y": ("p", [*y, 99, 99]), "x": ("p", [*x, -3, -99])}
        found = gridsample.xarray.interp(each, along, method, kwargs={"fill_value": 2.5})
        inside = np.diagonal(expected.values, axis1=1, axis2=2)
        np.testing.assert_allclose(found[:, :7], inside, **options)
        assert (found[:, 7:] == 2.5).all()


def test_tables_keep_dtypes_and_need_coordinates() -> None:
    image = table().drop_vars(["area", "height"])
    new: Any = {"y": [2.5, 3.25]}
    for dtype in (np.float32, np.complex128, np.int16):
        values = (image * 100).astype(dtype)
        result = gridsample.xarray.interp(values, new, "cubic")
        assert result.dtype == (np.float64 if dtype == np.int16 else dtype)
        atol = 1e-4 if dtype == np.float32 else 1e-10
        expected = values.interp(new, "cubic").astype(result.dtype)
        xarray.testing.assert_allclose(result, expected, rtol=0, atol=atol)
    with pytest.raises(TypeError, match="'akima' interpolates real numbers, got complex128"):
        gridsample.xarray.interp(image.astype(complex), new, "akima")
    few = image.isel(y=slice(3)).assign_coords(y=[1, 2.75, 5])
    with pytest.raises(ValueError, match="'cubic' needs 4 coordinates or more, but 'y' has 3"):
        gridsample.xarray.interp(few, new, "cubic")
    expected = few.interp(new, "pchip")
    xarray.testing.assert_allclose(gridsample.xarray.interp(few, new, "pchip"), expected)
    order: Any = {"order": 3}
    expected = image.interp(new, "polynomial", kwargs=order)
    result = gridsample.xarray.interp(image, new, "polynomial", kwargs=order)
    xarray.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("method", ["cubic", "quintic", *LOCAL])
def test_tables_of_longitudes(method: Any) -> None:
    lon = np.array([0.0, 30, 90, 100, 180, 250, 300])
    image = xarray.DataArray(RNG.random((2, 7)), {"lon": lon}, ["lat", "lon"])
    shifted = [image.assign_coords(lon=lon + k * 360) for k in range(-9, 10)]
    around, new = xarray.concat(shifted, "lon"), np.array([-200.0, -1, 0, 20, 359, 360, 700])
    expected = around.interp(lon=new, method=method)
    for each in (image, image.isel(lon=slice(None, None, -1)), image.chunk(lon=5)):
        result = gridsample.xarray.interp(each, lon=new, method=method, period=360)
        # Splines of many periods have forgotten where they end.
        xarray.testing.assert_allclose(result, expected, rtol=1e-10)
