"""Interpolation of DataArrays and Datasets, like xarray's `interp`.

xarray itself finds out what is asked for, and what becomes of indexes, labels and coordinates: its
`interp` is called for an object without numbers.  These are interpolated here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from gridsample.interpolators.hermite import METHODS as HERMITE
from gridsample.interpolators.splines import NOT_A_KNOT
from gridsample.xarray.axes import InterpolationRules, axis_of, ends_of, periods_of
from gridsample.xarray.variables import interpolated

if TYPE_CHECKING:
    import xarray

    T = TypeVar("T", xarray.DataArray, xarray.Dataset)

# The methods that are not xarray's own, and the keyword arguments of interpolators that they take.
METHODS = ("linear", "slinear", "nearest", "quadratic", "cubic", "quintic", *HERMITE)
KEYWORDS = {"fill_value", "bounds_error"}
# Those whose splines are periodic, too.
PERIODIC = [name for name in METHODS if name != "quadratic"]
# The methods of the degrees of "polynomial".
DEGREES = {1: "slinear", 2: "quadratic", 3: "cubic", 5: "quintic"}
# The kinds of dtypes that are interpolated.
NUMBERS = "uifcMm"
# The name of an array in a dataset of its own.
ARRAY = "<this array>"


def interp(
    obj: T,
    coords: Mapping[Any, Any] | None = None,
    method: str = "linear",
    assume_sorted: bool = False,
    kwargs: Mapping[str, Any] | None = None,
    method_non_numeric: str = "nearest",
    *,
    period: float | Mapping[Any, float] | None = None,
    ends: Any = NOT_A_KNOT,
    **coords_kwargs: Any,
) -> T:
    """Interpolate a DataArray or a Dataset at new coordinates, like xarray's method `interp`.

    Along coordinates with one dimension, axis after axis is interpolated; there is no array of all
    points.  Arrays of Dask stay lazy: along such an axis, each chunk of the result reads the chunks
    that it needs.

    Args:
        obj: the DataArray or the Dataset.
        coords: the new coordinates of dimensions, by name: numbers, arrays, or DataArrays, whose
            dimensions the result has.  Several that share a dimension are the coordinates of
            points.  Up to eight are interpolated together.
        method: "linear" (also "slinear"), "nearest", the splines "quadratic", "cubic" and "quintic"
            (also "polynomial" with the ``kwargs`` order 1, 2, 3 or 5), or "pchip", "akima" and
            "makima".  All but the first two need a whole dimension for each result: it becomes a
            single chunk.  xarray itself interpolates by "zero", "barycentric" and "krogh", whose
            polynomials or steps are of one line each, and by "spline", which it is to lose.
        assume_sorted: whether coordinates need not be sorted; they may increase or decrease.
        kwargs: as in xarray: ``fill_value``, the value outside: a number, a pair for below and
            above, "extrapolate", or None, which extrapolates points of several coordinates;
            ``bounds_error``, whether a point outside is an error; ``extrapolate``, whether "pchip",
            "akima" and "makima" extrapolate.  With others, which only some class of SciPy has,
            xarray interpolates.
        method_non_numeric: of a Dataset, how variables without numbers are reindexed.
        period: the period of coordinates, such as {"lon": 360}.  A number is that of longitudes,
            which are recognized by the units "degrees_east", the standard name "longitude", or the
            names "lon" and "longitude".  Nothing is then outside of these.
        ends: what holds at the ends of "cubic" and "quintic" splines: "not-a-knot", "natural" or
            "clamped", as in `gridsample.interpolators.RegularGridInterpolator`; or a pair of these,
            for the least and the greatest coordinate; or such an entry by the name of the
            coordinate.  With a period, splines are periodic.
        coords_kwargs: coordinates as keyword arguments.

    Returns:
        An object like ``obj``: its dimensions, coordinates and attributes are those of xarray's
        `interp`.  Integers become float64, other dtypes are kept.  A value at a coordinate of
        ``obj`` is the one there, even if its neighbour is NaN.

    Raises:
        TypeError: the array does not hold numbers, or complex ones with "pchip", "akima" or
            "makima"; or coordinates are not times if those of ``obj`` are.
        ValueError: a name is unknown, coordinates have equal entries or are too few for a method, a
            period or ``ends`` do not fit, or a point is outside with ``bounds_error``.

    Example:
        >>> import numpy as np, xarray, gridsample.xarray
        >>> heat = xarray.DataArray(
        ...     [[0.0, 10.0, 20.0], [30.0, 40.0, 50.0]],
        ...     {"lat": [10.0, -10.0], "lon": [0.0, 120.0, 240.0]},
        ...     ["lat", "lon"],
        ... )
        >>> gridsample.xarray.interp(heat, lat=[5.0, 0.0], lon=60.0).values
        array([12.5, 20. ])
        >>> gridsample.xarray.interp(heat, lat=0.0, lon=[300.0, -60.0], period=360).values
        array([25., 25.])
    """
    import xarray

    source: Any = obj
    options = dict(kwargs or {})
    named = [*(coords or {}), *coords_kwargs]
    is_dataset = isinstance(source, xarray.Dataset)
    if not is_dataset and not isinstance(source, xarray.DataArray):
        raise TypeError(f"obj must be a DataArray or a Dataset, got {type(source).__name__}")
    if not is_dataset and source.dtype.kind not in NUMBERS:
        raise TypeError(f"interp interpolates numbers and times, got a DataArray of {source.dtype}")
    periods = periods_of(source, period, named)
    rules = rules_of(method, options)
    if periods and (rules is None or rules.method == "quadratic"):
        raise ValueError(
            f"period is accepted for the methods {PERIODIC} with the kwargs {sorted(KEYWORDS)}, "
            f"got method {method!r} and kwargs {options}"
        )
    spline_ends = ends_of(ends, named, method if rules is None else rules.method, periods)
    if rules is None:
        if is_dataset:
            coords_kwargs["method_non_numeric"] = method_non_numeric
        return cast("T", source.interp(coords, method, assume_sorted, options, **coords_kwargs))
    dataset: xarray.Dataset = source if is_dataset else source.to_dataset(name=ARRAY)
    chosen = [
        name
        for name, variable in dataset.variables.items()
        if name not in named
        and variable.dtype.kind in NUMBERS
        and not set(variable.dims).isdisjoint(named)
    ]
    try:
        result = without_values(dataset, chosen, named).interp(
            coords, "slinear", assume_sorted, None, method_non_numeric, **coords_kwargs
        )
    except IndexError as error:  # of coordinates of points that are not those of lines
        raise ValueError(str(error)) from error
    result = result.set_coords([name for name in named if name not in result.coords])
    axes = {
        name: axis_of(dataset, name, result.variables[name], periods.get(name), assume_sorted)
        for name in named
    }
    for name, pair in spline_ends.items():
        axes[name] = axes[name]._replace(ends=pair)
    values = {name: interpolated(dataset.variables[name], axes, rules) for name in chosen}
    result = result.assign(
        {name: value for name, value in values.items() if name in dataset.data_vars}
    )
    result = result.assign_coords(
        {name: value for name, value in values.items() if name in dataset.coords}
    )
    returned: Any = result if is_dataset else result[ARRAY].rename(source.name)
    return cast("T", returned)


def interp_like(
    obj: T,
    other: Any,
    method: str = "linear",
    assume_sorted: bool = False,
    kwargs: Mapping[str, Any] | None = None,
    method_non_numeric: str = "nearest",
    *,
    period: float | Mapping[Any, float] | None = None,
    ends: Any = NOT_A_KNOT,
) -> T:
    """Interpolate at the coordinates of another object, like xarray's method `interp_like`.

    Args:
        obj: the DataArray or the Dataset.
        other: a DataArray or a Dataset.  Its coordinates of the dimensions of ``obj`` are the new
            ones; labels are not interpolated, but looked up.
        method, assume_sorted, kwargs, method_non_numeric, period: as in `interp`.
        ends: as in `interp`, by the name of a dimension that is interpolated.

    Returns:
        An object like ``obj``, as from `interp`.

    Raises:
        TypeError, ValueError: as in `interp`.

    Example:
        >>> import xarray, gridsample.xarray
        >>> coarse = xarray.DataArray([0.0, 10.0, 40.0], {"x": [0, 1, 3]})
        >>> fine = xarray.DataArray([7.0, 7.0], {"x": [0.5, 2.0]})
        >>> gridsample.xarray.interp_like(coarse, fine).values
        array([ 5., 25.])
    """
    found = {}
    for name in obj.dims:
        along = other.xindexes.get_all_coords(name, errors="ignore")
        if len(along) == 1:
            found[name] = along[name]
    labels = {name: value for name, value in found.items() if value.dtype.kind not in NUMBERS}
    numbers = {name: value for name, value in found.items() if name not in labels}
    return interp(
        obj.reindex(labels) if labels else obj,
        numbers,
        method,
        assume_sorted,
        kwargs,
        method_non_numeric,
        period=period,
        ends=ends,
    )


def rules_of(method: str, options: Mapping[str, Any]) -> InterpolationRules | None:
    """Return how values are interpolated, or None if xarray is to do it.

    Args:
        method: the method, as in `interp`.
        options: the keyword arguments of xarray's interpolators.
    """
    rest = dict(options)
    if method == "polynomial" and rest.get("order") in DEGREES:
        method = DEGREES[rest.pop("order")]
    if method in HERMITE and rest.get("extrapolate") in (None, False, True):
        rest |= {"fill_value": "extrapolate"} if rest.pop("extrapolate", False) else {}
    if method not in METHODS or set(rest) - KEYWORDS:
        return None
    name = "linear" if method == "slinear" else method
    fill_value, bounds_error = rest.get("fill_value", np.nan), rest.get("bounds_error")
    return InterpolationRules(name, fill_value, bool(bounds_error))


def without_values(
    dataset: xarray.Dataset, chosen: Iterable[Hashable], named: Iterable[Hashable]
) -> xarray.Dataset:
    """Return a dataset with a number in place of each chosen variable, in the same order.

    Dimensions without coordinates are kept by variables of bytes, which `interp` leaves out.
    """
    lengths = {
        f"<length of {name}>": (name, np.zeros(dataset.sizes[name], "S1"))
        for name in named
        if name in dataset.sizes and name not in dataset.variables
    }
    numbers = {name: ((), 0.0) for name in chosen}
    result = dataset.assign({name: numbers[name] for name in numbers if name in dataset.data_vars})
    result = result.assign_coords(
        {name: numbers[name] for name in numbers if name in dataset.coords}
    )
    return result.assign(lengths)
