"""Monotone cubic interpolation along each axis of a table, as SciPy's grids have it: pchip.

Along an axis, the interpolant is the cubic Hermite polynomial of the values at the ends of an
interval and of the slopes there, which F. N. Fritsch and J. Butland chose such that it is monotone
where values are ("A method for constructing local monotone piecewise cubic interpolants", 1984).
The slopes depend on the values next to the interval, so that four values decide.  On a grid, the
last axis is interpolated first, and the next one has slopes of interpolated values: that is no sum
of weighted values, but a combination of 4**D of them for each point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from gridsample.backends import Backend
from gridsample.interpolators.arrays import Array, HostArray

# How many values are read at once, which bounds memory.
VALUES = 2**20


def pchip(backend: Backend, grid: Sequence[HostArray], table: Array, points: Array) -> Array:
    """Interpolate a table (*spatial, C) at points (P, D), both in floating point: (P, C).

    grid: the coordinates of each axis, which increase, four or more.
    """
    many = 4 ** len(grid) * backend.shape(table)[-1]
    step, count = max(1, VALUES // max(1, many)), backend.shape(points)[0]
    if count <= step or not backend.is_concrete(table, points):
        return interpolated(backend, grid, table, points)
    parts = [
        interpolated(backend, grid, table, points[begin : begin + step])
        for begin in range(0, count, step)
    ]
    return backend.concatenate(parts, 0)


def interpolated(backend: Backend, grid: Sequence[HostArray], table: Array, points: Array) -> Array:
    """Interpolate at all points at once."""
    shape = backend.shape(table)
    lines = [PchipAxis(backend, axis, points[:, a], table) for a, axis in enumerate(grid)]
    index = lines[0].taps
    for line, size in zip(lines[1:], shape[1:-1], strict=True):
        index = index[:, :, None] * size + line.taps[:, None, :]
        index = index.reshape(-1, index.shape[1] * 4)
    values = table.reshape(math.prod(shape[:-1]), shape[-1])[index]
    for line in reversed(lines):
        values = line.interpolate(values.reshape(-1, values.shape[1] // 4, 4, shape[-1]))
    return values[:, 0]


class PchipAxis:
    """Where points are along one axis.

    Attributes:
        xp: the namespace of the library.
        taps: the numbers of the four values next to each point, (P, 4).
        place: the number of the point's interval among the three between them, (P, 1, 1).
        widths: the lengths of these intervals, each (P, 1, 1).
        fraction: of the point's interval, (P, 1, 1).
    """

    def __init__(self, backend: Backend, axis: HostArray, points: Array, table: Array) -> None:
        self.xp = xp = backend.xp
        coordinates = backend.astype(backend.asarray(axis, points), backend.type("float64"))
        sought = backend.astype(points, coordinates.dtype)
        # A sum, as torch wants neighbours in memory.
        before = xp.searchsorted(coordinates, backend.detached(sought) + 0, side="right") - 1
        interval = xp.clip(before, 0, len(axis) - 2)
        first = xp.clip(interval - 1, 0, len(axis) - 4)
        four = backend.asarray(np.arange(4), first)
        self.taps = first[:, None] + four
        self.place = (interval - first)[:, None, None]
        knots = [coordinates[first + k][:, None, None] for k in range(4)]
        widths = [after - knot for knot, after in itertools.pairwise(knots)]
        start, width = self.chosen(knots[:3]), self.chosen(widths)
        self.fraction = backend.astype((sought[:, None, None] - start) / width, table.dtype)
        self.widths = [backend.astype(width, table.dtype) for width in widths]

    def chosen(self, numbers: Sequence[Array]) -> Array:
        """Return that one of three numbers which belongs to the interval of each point."""
        where, place = self.xp.where, self.place
        return where(place == 0, numbers[0], where(place == 1, numbers[1], numbers[2]))

    def interpolate(self, values: Array) -> Array:
        """Interpolate between the values of taps, (P, K, 4, C): (P, K, C)."""
        each = [values[:, :, k] for k in range(4)]
        rises = [
            (after - value) / width
            for value, after, width in zip(each, each[1:], self.widths, strict=False)
        ]
        pairs = [(k, k + 1) for k in range(2)]
        inner = [self.slope(*[self.widths[k] for k in p], *[rises[k] for k in p]) for p in pairs]
        ends = [self.end(*[self.widths[k] for k in p], *[rises[k] for k in p]) for p in ENDS]
        slopes = [ends[0], *inner, ends[1]]
        left, right = self.chosen(each[:3]), self.chosen(each[1:])
        t, width = self.fraction, self.chosen(self.widths)
        rise = (right - left) / width
        begin, finish = self.chosen(slopes[:3]), self.chosen(slopes[1:])
        curve = begin + finish - 2 * rise
        cubic = begin + t * (rise - begin - curve + t * curve)
        return left + t * width * cubic

    def slope(self, width: Array, next_width: Array, rise: Array, next_rise: Array) -> Array:
        """Return the slope between two intervals: a harmonic mean of their rises.

        It is 0 unless both have the same sign.
        """
        where = self.xp.where
        turns = are_opposite(rise, next_rise)
        rise, next_rise = where(turns, 1, rise), where(turns, 1, next_rise)
        weight, next_weight = 2 * next_width + width, next_width + 2 * width
        mean = (weight / rise + next_weight / next_rise) / (weight + next_weight)
        return where(turns, 0, 1 / mean)

    def end(self, width: Array, next_width: Array, rise: Array, next_rise: Array) -> Array:
        """Return the slope at the end of the first interval, from a parabola, made monotone."""
        where = self.xp.where
        slope = ((2 * width + next_width) * rise - width * next_rise) / (width + next_width)
        steep = are_opposite(rise, next_rise) & (abs(slope) > abs(3 * rise))
        return where(are_opposite(slope, rise), 0, where(steep, 3 * rise, slope))


def are_opposite(a: Array, b: Array) -> Array:
    """Whether numbers do not have the same sign, or one is 0; not so for NaN."""
    return ((a >= 0) & (b <= 0)) | ((a <= 0) & (b >= 0))


# The two intervals at the first and at the last tap, from the end.
ENDS = ((0, 1), (2, 1))
