"""Axes with coordinates, and the positions of points along them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.knots import is_monotonic
from gridsample.interpolators.splines import NOT_A_KNOT, PERIODIC, Ends, ends_along
from gridsample.interpolators.tables import SOLVED
from gridsample.xarray.coordinates import Positions, as_floats, index_of

if TYPE_CHECKING:
    import xarray

# How longitudes are recognized: CF conventions, 4.2.
EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")
LONGITUDES = ("lon", "longitude")
# How latitudes are recognized: CF conventions, 4.1.
NORTH = tuple([name.replace("east", "north").replace("E", "N") for name in EAST])
LATITUDES = ("lat", "latitude")


class InterpolationRules(NamedTuple):
    """How values are interpolated.

    Attributes:
        method: "linear" or "nearest", whose positions are in pixels, or one of tables.
        fill_value: the value outside, as in `interp`.
        bounds_error: whether a point outside is an error.
    """

    method: str
    fill_value: Any
    bounds_error: bool

    @property
    def of_pixels(self) -> bool:
        """Whether pixels are interpolated, at any distances, rather than tables."""
        return self.method in ("linear", "nearest")

    def outside(self, rank: int) -> tuple[bool, Any, Any]:
        """Return whether points of so many coordinates are extrapolated, and values outside."""
        value = self.fill_value
        if isinstance(value, str) and value == "extrapolate":
            return True, np.nan, np.nan
        if value is None:
            return rank > 1, np.nan, np.nan
        if np.ndim(value) == 0 and not isinstance(value, str):
            return False, value, value
        if rank == 1 and isinstance(value, tuple) and list(map(np.ndim, value)) == [0, 0]:
            return False, *value
        raise ValueError(
            "fill_value must be a number, None or 'extrapolate', or along one coordinate a pair of "
            f"numbers for below and above, got {value!r}"
        )


class CoordinateAxis(NamedTuple):
    """An axis that is interpolated.

    Attributes:
        name: the dimension.
        knots: its coordinates as numbers, which increase or decrease throughout.
        order: where these are along the dimension, if they had to be sorted.
        points: the new coordinates as numbers; their dimensions are the result's.
        period: the period of coordinates, which then increase, or None.
        ends: what holds at the least and at the greatest coordinate, for splines.
    """

    name: Hashable
    knots: Positions
    order: NDArray[np.intp] | slice | None
    points: xarray.Variable
    period: float | None
    ends: Ends = (NOT_A_KNOT, NOT_A_KNOT)

    @property
    def dims(self) -> tuple[Hashable, ...]:
        """The dimensions that decide whether axes are independent."""
        return self.points.dims or (self.name,)

    def positions(
        self, points: Positions, rules: InterpolationRules, continues: bool
    ) -> tuple[Positions, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return positions, NaN outside, and which points are below and above the axis.

        They are in pixels, or coordinates if tables are interpolated.

        Args:
            points: coordinates.
            rules: how values are interpolated.
            continues: whether points outside have a position, too.
        """
        knots = self.knots
        if self.period is not None:
            points = knots[0] + (points - knots[0]) % self.period
            knots = np.append(knots, knots[0] + self.period)
        below, above = points < min(knots[0], knots[-1]), points > max(knots[0], knots[-1])
        outside = below | above
        if rules.bounds_error and outside.any():
            raise ValueError(
                f"the new coordinates of {self.name!r} are not within those from {knots.min()} to "
                f"{knots.max()} (times in seconds from the first), which bounds_error asks for"
            )
        if not rules.of_pixels:
            return (points if continues else np.where(outside, np.nan, points)), below, above
        index = index_of(knots, points)
        if continues and len(knots) == 1:
            index = np.where(outside, 0.0, index)
        elif not continues:
            index = np.where(outside, np.nan, index)
        if rules.method == "nearest":  # ties to the lower coordinate
            index = np.clip(index, 0, len(knots) - 1)
            index = np.ceil(index - 0.5) if knots[-1] > knots[0] else np.floor(index + 0.5)
        return index, below, above


def axis_of(
    dataset: xarray.Dataset,
    name: Hashable,
    target: xarray.Variable,
    period: float | None,
    is_sorted: bool,
) -> CoordinateAxis:
    """Return an axis.

    Args:
        dataset: what is interpolated.
        name: the dimension.
        target: the new coordinates.
        period: their period.
        is_sorted: whether the coordinates of the dataset need not be sorted.
    """
    if name in dataset.variables:
        source = dataset.variables[name].values
    else:
        source = np.arange(dataset.sizes[name])
    start = source.flat[0] if source.size else 0
    knots = as_floats(source, start)
    order: NDArray[np.intp] | slice | None = None
    if not is_sorted and not is_monotonic(knots):
        order = np.argsort(knots, kind="stable")
    elif period is not None and knots[0] > knots[-1]:
        order = slice(None, None, -1)
    knots = knots if order is None else knots[order]
    if not is_monotonic(knots) or not len(knots):
        raise ValueError(
            f"the coordinate {name!r} must be finite and have no equal entries, or with "
            "assume_sorted=True increase or decrease throughout"
        )
    if period is not None and knots[-1] - knots[0] >= period:
        raise ValueError(
            f"the coordinate {name!r} must cover less than its period {period}, got "
            f"{knots[0]} to {knots[-1]}; leave out what it has twice"
        )
    data = target.data
    if hasattr(data, "dask"):
        points = data.map_blocks(as_floats, start, dtype=np.float64)
    else:
        points = as_floats(np.asarray(data), start)
    import xarray

    return CoordinateAxis(name, knots, order, xarray.Variable(target.dims, points), period)


def periods_of(
    obj: Any, period: float | Mapping[Any, float] | None, named: Iterable[Hashable]
) -> dict[Hashable, float]:
    """Return the periods of coordinates that are interpolated, by name."""
    if period is None:
        return {}
    if isinstance(period, Mapping):
        periods = dict(period)
        if unknown := [name for name in periods if name not in named]:
            raise ValueError(f"period names {unknown}, but interpolated are {list(named)}")
    else:
        periods = {name: period for name in named if is_longitude(obj, name)}
        if not periods:
            raise ValueError(
                f"none of the coordinates {list(named)} is a longitude; give the period by name, "
                f"such as period={{'x': {period!r}}}"
            )
    for name, value in periods.items():
        if not np.isreal(value) or not 0 < value < np.inf:
            raise ValueError(f"the period of {name!r} must be greater than 0, got {value!r}")
    return {name: float(value) for name, value in periods.items()}


def ends_of(
    ends: Any, named: Sequence[Hashable], method: str, periods: Container[Hashable]
) -> dict[Hashable, Ends]:
    """Return what holds at the ends of splines, by the name of the coordinate.

    Args:
        ends: as in `gridsample.xarray.interp`.
        named: the coordinates.
        method: the method.
        periods: the coordinates that have a period.
    """
    entries = dict(ends) if isinstance(ends, Mapping) else dict.fromkeys(named, ends)
    if unknown := [name for name in entries if name not in named]:
        raise ValueError(f"ends names {unknown}, but interpolated are {list(named)}")
    pairs = dict(zip(entries, ends_along([*entries.values()], len(entries)), strict=True))
    found = {name: pair for name, pair in pairs.items() if pair != (NOT_A_KNOT, NOT_A_KNOT)}
    if found and method not in SOLVED:
        raise ValueError(
            f"ends must be {NOT_A_KNOT!r} for methods other than {', '.join(map(repr, SOLVED))}; "
            f"got {ends!r} with method {method!r}"
        )
    for name, pair in found.items():
        if name in periods or PERIODIC in pair:
            raise ValueError(
                f"splines along {name!r} are periodic with period=..., and have no other ends then;"
                f" got ends {pair}"
            )
    return found


def is_longitude(obj: Any, name: Hashable) -> bool:
    """Whether a coordinate is a longitude, by its name or attributes."""
    return is_named(obj, name, LONGITUDES, EAST)


def is_latitude(obj: Any, name: Hashable) -> bool:
    """Whether a coordinate is a latitude, by its name or attributes."""
    return is_named(obj, name, LATITUDES, NORTH)


def is_named(obj: Any, name: Hashable, names: Sequence[str], units: Sequence[Any]) -> bool:
    """Whether a coordinate has one of these names, the last as a standard name, or units."""
    attributes = obj.coords[name].attrs if name in obj.coords else {}
    return (
        str(name).lower() in names
        or attributes.get("units") in units
        or attributes.get("standard_name") == names[-1]
    )
