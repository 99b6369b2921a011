"""Cubics of values and slopes along each axis of a table: pchip, akima and makima.

Along an axis, the interpolant is the cubic Hermite polynomial of the values at the ends of an
interval and of the slopes there.  These follow from the rises of the intervals around, so that a
few values decide:

- "pchip" is monotone where values are (F. N. Fritsch and J. Butland, "A method for constructing
  local monotone piecewise cubic interpolants", 1984).  Four values decide.
- "akima" has few oscillations next to outliers and steps (H. Akima, "A new method of interpolation
  and smooth curve fitting based on local procedures", 1970).  Six values decide.
- "makima", the modification of it in MATLAB, has fewer overshoots where values are constant.

On a grid, the last axis is interpolated first, and the next one has slopes of interpolated values:
that is no sum of weighted values, but a combination of 4**D or 6**D of them for each point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.knots import interval_of
from gridsample.interpolators.arrays import Array, HostArray

# How many values are read at once, which bounds memory.
VALUES = 2**20
# A sum of weights is 0 if it is smaller than the largest one by this factor.
CUT = 1e-9


class Slopes(NamedTuple):
    """How a method finds slopes.

    Attributes:
        taps: how many values decide in an interval.
        between: the function of a `HermiteAxis`, and of the rises of the intervals between the
            taps, that returns the slopes at the first and at the last end of the point's interval.
        weights: of four rises in a row, the weights of the second and the third one, if slopes are
            their means; a sum of weights is 0 in comparison with those of the whole table.
    """

    taps: int
    between: Callable[[HermiteAxis, list[Array]], tuple[Array, Array]]
    weights: Callable[..., tuple[Array, Array]] | None = None


def hermite(
    backend: Backend, grid: Sequence[HostArray], table: Array, points: Array, method: str
) -> Array:
    """Interpolate a table (*spatial, C) at points (P, D), both in floating point: (P, C).

    Args:
        backend: the backend of the table and the points.
        grid: the coordinates of each axis, which increase, two or more.
        table: the table.
        points: the points.
        method: a name of `METHODS`.
    """
    rule, shape = METHODS[method], backend.shape(table)
    cuts = [cut_of(backend, axis, table, k, rule) for k, axis in enumerate(grid)]
    many = math.prod([min(rule.taps, len(axis)) for axis in grid]) * shape[-1]
    step, count = max(1, VALUES // max(1, many)), backend.shape(points)[0]

    def interpolated(part: Array) -> Array:
        lines = [
            HermiteAxis(backend, axis, part[:, k], table, rule, cuts[k])
            for k, axis in enumerate(grid)
        ]
        return of_lines(lines, table, shape)

    if count <= step or not backend.is_concrete(table, points):
        return interpolated(points)
    parts = [interpolated(points[begin : begin + step]) for begin in range(0, count, step)]
    return backend.concatenate(parts, 0)


def of_lines(lines: Sequence[HermiteAxis], table: Array, shape: Sequence[int]) -> Array:
    """Interpolate a table of a shape at points, whose places along each axis are given."""
    index = lines[0].taps
    for line, size in zip(lines[1:], shape[1:-1], strict=True):
        index = index[:, :, None] * size + line.taps[:, None, :]
        index = index.reshape(-1, index.shape[1] * index.shape[2])
    values = table.reshape(math.prod(shape[:-1]), shape[-1])[index]
    for line in reversed(lines):
        count = line.taps.shape[1]
        values = line.interpolate(values.reshape(-1, values.shape[1] // count, count, shape[-1]))
    return values[:, 0]


class HermiteAxis:
    """Where points are along one axis.

    Attributes:
        xp: the namespace of the library.
        rule: how slopes are found.
        cut: the number up to which a sum of weights counts as 0.
        taps: the numbers of the values that decide, (P, T).
        place: the number of the point's interval among the T - 1 between them, (P, 1, 1).
        widths: the lengths of these intervals, each (P, 1, 1).
        fraction: of the point's interval, (P, 1, 1).
    """

    def __init__(
        self,
        backend: Backend,
        axis: HostArray,
        points: Array,
        table: Array,
        rule: Slopes,
        cut: Array,
    ) -> None:
        self.xp, self.rule, self.cut = backend.xp, rule, cut
        xp, count = backend.xp, min(rule.taps, len(axis))
        coordinates = backend.astype(backend.asarray(axis, points), backend.type("float64"))
        sought = backend.astype(points, coordinates.dtype)
        # A sum, as torch wants neighbours in memory.
        interval = interval_of(xp, coordinates, backend.detached(sought) + 0)
        first = xp.clip(interval - (rule.taps // 2 - 1), 0, len(axis) - count)
        self.taps = first[:, None] + backend.asarray(np.arange(count), first)
        self.place = (interval - first)[:, None, None]
        knots = [coordinates[first + k][:, None, None] for k in range(count)]
        widths = [after - knot for knot, after in itertools.pairwise(knots)]
        start, width = self.chosen(knots[:-1]), self.chosen(widths)
        self.fraction = backend.astype((sought[:, None, None] - start) / width, table.dtype)
        self.widths = [backend.astype(width, table.dtype) for width in widths]

    def chosen(self, numbers: Sequence[Array]) -> Array:
        """Return that one of T - 1 numbers which belongs to the interval of each point."""
        result = numbers[-1]
        for k in reversed(range(len(numbers) - 1)):
            result = self.xp.where(self.place == k, numbers[k], result)
        return result

    def interpolate(self, values: Array) -> Array:
        """Interpolate between the values of taps, (P, K, T, C): (P, K, C)."""
        each = [values[:, :, k] for k in range(self.taps.shape[1])]
        rises = [
            (after - value) / width
            for value, after, width in zip(each, each[1:], self.widths, strict=False)
        ]
        begin, finish = self.rule.between(self, rises)
        left, rise = self.chosen(each[:-1]), self.chosen(rises)
        t, width = self.fraction, self.chosen(self.widths)
        curve = begin + finish - 2 * rise
        cubic = begin + t * (rise - begin - curve + t * curve)
        return left + t * width * cubic


# Pchip --------------------------------------------------------------------------------------------


def monotone_slopes(line: HermiteAxis, rises: list[Array]) -> tuple[Array, Array]:
    """Return slopes such that the interpolant is monotone where values are."""
    widths = line.widths
    if len(rises) == 1:
        return rises[0], rises[0]
    inner = [mean_slope(line, *widths[k : k + 2], *rises[k : k + 2]) for k in range(len(rises) - 1)]
    first = end_slope(line, *widths[:2], *rises[:2])
    last = end_slope(line, *widths[:-3:-1], *rises[:-3:-1])
    return line.chosen([first, *inner]), line.chosen([*inner, last])


def mean_slope(
    line: HermiteAxis, width: Array, next_width: Array, rise: Array, next_rise: Array
) -> Array:
    """Return the slope between two intervals: a harmonic mean of their rises.

    It is 0 unless both have the same sign.
    """
    where = line.xp.where
    turns = are_opposite(rise, next_rise)
    rise, next_rise = where(turns, 1, rise), where(turns, 1, next_rise)
    weight, next_weight = 2 * next_width + width, next_width + 2 * width
    mean = (weight / rise + next_weight / next_rise) / (weight + next_weight)
    return where(turns, 0, 1 / mean)


def end_slope(
    line: HermiteAxis, width: Array, next_width: Array, rise: Array, next_rise: Array
) -> Array:
    """Return the slope at the end of the first interval, from a parabola, made monotone."""
    where = line.xp.where
    slope = ((2 * width + next_width) * rise - width * next_rise) / (width + next_width)
    steep = are_opposite(rise, next_rise) & (abs(slope) > abs(3 * rise))
    return where(are_opposite(slope, rise), 0, where(steep, 3 * rise, slope))


def are_opposite(a: Array, b: Array) -> Array:
    """Whether numbers do not have the same sign, or one is 0; not so for NaN."""
    return ((a >= 0) & (b <= 0)) | ((a <= 0) & (b >= 0))


# Akima --------------------------------------------------------------------------------------------


def akima_weights(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """Return the weights of b and c, between which a value is, among four rises in a row."""
    return abs(d - c), abs(b - a)


def makima_weights(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """Return the weights of b and c in MATLAB's modification."""
    return abs(d - c) + abs(d + c) / 2, abs(b - a) + abs(b + a) / 2


def akima_slopes(line: HermiteAxis, rises: list[Array]) -> tuple[Array, Array]:
    """Return slopes that are weighted means of the two rises beside a value.

    If both weights are 0, the slope is the mean of the rises next to these.
    """
    every, weights = with_ends(rises), line.rule.weights
    assert weights is not None
    around = [line.chosen(every[k : k + len(rises)]) for k in range(5)]
    slopes, where = [], line.xp.where
    for k in range(2):
        a, b, c, d = around[k : k + 4]
        before, after = weights(a, b, c, d)
        total = before + after
        unknown = total <= line.cut
        share = where(unknown, 0, after) / where(unknown, 1, total)
        slopes.append(where(unknown, (a + d) / 2, b + share * (c - b)))
    return slopes[0], slopes[1]


def with_ends(rises: list[Array]) -> list[Array]:
    """Return rises with two more before and after, of an axis that continues as a parabola."""
    return [*beyond(*rises[:2]), *rises, *beyond(*rises[:-3:-1])[::-1]]


def beyond(rise: Array, next_rise: Array | None = None) -> list[Array]:
    """Return two rises before the first one; a single one continues as a line."""
    near = rise if next_rise is None else 2 * rise - next_rise
    return [2 * near - rise, near]


def cut_of(
    backend: Backend, axis: HostArray, table: Array, number: int, rule: Slopes
) -> Array | float:
    """Return the number up to which a sum of weights counts as 0 along an axis of a table.

    It is that of SciPy's `Akima1DInterpolator` for a table with one axis.
    """
    shape, xp = backend.shape(table), backend.xp
    if rule.weights is None or 0 in shape:
        return 0.0
    order = (number, *[k for k in range(len(shape)) if k != number])
    lines = backend.permute(backend.detached(table), order).reshape(len(axis), -1)
    widths = backend.astype(backend.asarray(np.diff(axis)[:, None], lines), lines.dtype)
    rises = (lines[1:] - lines[:-1]) / widths
    two = min(2, len(axis) - 1)
    first = beyond(*[rises[k : k + 1] for k in range(two)])
    last = beyond(*[rises[len(axis) - 2 - k : len(axis) - 1 - k] for k in range(two)])
    every = backend.concatenate([*first, rises, *last[::-1]], 0)
    before, after = rule.weights(*[every[k : k + len(axis)] for k in range(4)])
    total = before + after
    return CUT * xp.max(xp.where(xp.isfinite(total), total, 0))


METHODS = {
    "pchip": Slopes(4, monotone_slopes),
    "akima": Slopes(6, akima_slopes, akima_weights),
    "makima": Slopes(6, akima_slopes, makima_weights),
}
