"""Coordinates from a lattice of control points: those of a strip, interpolated into scratch memory.

The weights of all axes but x are the same for a whole row.  So the control points above and below
are first summed to one line of them.  Between two of its points, coordinates are a polynomial in
the fraction of the interval, whose coefficients are computed next, in float64; the constant one is
the only large one, so that coordinates in float32 are rounded hardly more than once.  The points of
an interval then take a few instructions.  See `gridsample.kernels.sampling.control_points`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.control_points import BEYOND, MAX_INTERVALS, MAX_POINTS
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value, host

# The axes beyond x whose taps are written out; those along others are looped over.
UNROLLED = 2
# Bytes of coordinates that are computed at once: intervals often have few points.
FEW_BYTES = 32


class OuterAxis(NamedTuple):
    """The taps of a row along another axis than x.

    Attributes:
        weights: their weights.
        step: their distance.
    """

    weights: Pointer
    step: Value


class LatticeRows:
    """Interpolates the coordinates of some points of a row.

    Attributes:
        taps: the number of control points along each axis on which coordinates depend, and of
            powers of the fraction.
        line: the control points of the row: x, y, z of one after the other.
        coefficients: for each power, those of the intervals between them, likewise.
        coordinates: the coordinates of points, one axis after the other.
    """

    def __init__(self, function: Function, rank: int, taps: int, call: Call) -> None:
        self.function, self.rank, self.taps, self.call = function, rank, taps, call
        self.lanes, self.wide = function.lanes, host().lanes("float64")
        self.few = min(self.lanes, FEW_BYTES // function.real.size)
        self.numbers = (MAX_INTERVALS + self.taps) * rank + BEYOND
        self.points = MAX_POINTS + BEYOND
        self.line = function.scratch("float64", self.numbers)
        self.coefficients = function.scratch(function.real, self.taps * self.numbers)
        self.coordinates = function.scratch(function.real, rank * self.points)

    def load(self, index: Value) -> list[Value]:
        """Read the coordinates of a group of points, of which the first has this index."""
        return [
            self.coordinates.at(self.points * a).load(index, self.lanes) for a in range(self.rank)
        ]

    def interpolate(self, item: Value, outer: Sequence[Value], begin: Value, end: Value) -> None:
        """Interpolate the coordinates of the points from ``begin`` to below ``end``.

        Args:
            item: the item of the lattice.
            outer: the index of the row along all axes but x.
            begin: the first column; it gets the index 0.
            end: the end of the columns.
        """
        call = self.call
        first, last = (call.lattice_firsts[0].load(x) for x in (begin, end - 1))
        count = last - first + 1
        lattice = call.grid.at(item * call.grid_item).at(first * self.rank)
        self.sum_rows(lattice, outer, (count + (self.taps - 1)) * self.rank)
        self.find_polynomials(count * self.rank)
        with self.function.loop(0, count) as loop:
            interval = first + loop.index
            low = call.lattice_begins.load(interval).maximum(begin)
            high = call.lattice_begins.load(interval + 1).minimum(end)
            self.evaluate(loop.index * self.rank, begin, low, high)

    def sum_rows(self, lattice: Pointer, outer: Sequence[Value], count: Value) -> None:
        """Sum the lines of control points around a row, weighted."""
        call, function = self.call, self.function
        axes, step = list[OuterAxis](), call.grid_point
        for index, rows, weights, size in zip(
            outer,
            call.lattice_firsts[1:],
            call.lattice_weights[1:],
            call.lattice_sizes[1:],
            strict=True,
        ):
            axes.append(OuterAxis(weights.at(index * self.taps), step))
            lattice = lattice.at(rows.load(index) * step)
            step = step * size
        near, far = axes[:UNROLLED], axes[UNROLLED:]
        if far:
            self.line.fill(function.constant(0.0, "float64"), count, self.wide)
        with self.far_taps(far) as (place, weight):
            taps = near_taps(near, self.taps, lattice.at(place), weight)
            with function.loop(0, count, self.wide) as loop:
                total = self.line.load(loop.index, self.wide) if far else None
                for source, factor in taps:
                    total = added(total, source.load(loop.index, self.wide), factor)
                assert total is not None
                self.line.store(total, loop.index)

    @contextlib.contextmanager
    def far_taps(self, axes: Sequence[OuterAxis]) -> Iterator[tuple[Value, Value | None]]:
        """Loop over the taps along some axes; yield their places and their weights."""
        function = self.function
        place, weight = function.as_index(0), None
        with contextlib.ExitStack() as stack:
            for axis in axes:
                loop = stack.enter_context(function.loop(0, self.taps))
                factor = axis.weights.load(loop.index)
                place = place + loop.index * axis.step
                weight = factor if weight is None else weight * factor
            yield place, weight

    def find_polynomials(self, count: Value) -> None:
        """Compute the coefficients of the polynomials on the intervals of the line."""
        function, call = self.function, self.call
        with function.loop(0, count, self.wide) as loop:
            taps = [
                self.line.at(k * self.rank).load(loop.index, self.wide) for k in range(self.taps)
            ]
            for power in range(self.taps):
                total = None
                for k, tap in enumerate(taps):
                    total = added(total, tap, call.lattice_table[k * self.taps + power])
                assert total is not None
                target = self.coefficients.at(self.numbers * power)
                target.store(total.to(function.real), loop.index)

    def evaluate(self, place: Value, begin: Value, low: Value, high: Value) -> None:
        """Compute the coordinates of the points of an interval.

        The last group may have points of the next interval, which computes them again.

        Args:
            place: where the coefficients of the interval are.
            begin: the first point of all.
            low: the first point of the interval.
            high: the end of its points.
        """
        polynomials = [
            [
                self.coefficients.at(self.numbers * power + a).load(place).splat(self.few)
                for power in range(self.taps)
            ]
            for a in range(self.rank)
        ]
        with self.function.loop(low, high, self.few) as loop:
            t = self.call.lattice_fractions.load(loop.index, self.few)
            for a, coefficients in enumerate(polynomials):
                total = horner(coefficients, t)
                self.coordinates.at(self.points * a).store(total, loop.index - begin)


def near_taps(
    axes: Sequence[OuterAxis], count: int, first: Pointer, weight: Value | None
) -> list[tuple[Pointer, Value | None]]:
    """Return the places and the weights of all taps, some along each axis, times a weight."""
    taps = [(first, weight)]
    for axis in axes:
        taps = [
            (place.at(axis.step * k), factor if before is None else before * factor)
            for k in range(count)
            for factor in [axis.weights.load(k)]
            for place, before in taps
        ]
    return taps


def added(total: Value | None, numbers: Value, factor: Value | None) -> Value:
    """Add some numbers times a factor to a total."""
    if factor is None:
        return numbers if total is None else total + numbers
    factor = factor.splat(numbers.lanes)
    return numbers * factor if total is None else numbers.mul_add(factor, total)


def horner(coefficients: Sequence[Value], t: Value) -> Value:
    """Compute the polynomial with these coefficients, the constant one first."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total.mul_add(t, coefficient)
    return total
