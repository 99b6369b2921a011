"""Pixels that count differently: those that are NaN not at all, the others by their weights.

With m the weight of a pixel v, and 0 if it is missing, each tap is read as the numbers m v and m,
so that one sweep sums both.  A third number is v as it is, where it matters whether any pixel of a
point is missing.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.loads import read_each
from gridsample.kernels.sampling.programs.row_sums import Row
from gridsample.kernels.sampling.programs.states import Offsets, further
from gridsample.kernels.sampling.programs.sums import (
    AxisTaps,
    Numbers,
    Orders,
    Reader,
    Registers,
    TapSums,
    both,
    sum_over_taps,
    tables_for_loops,
    with_dropped,
)
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

# The numbers of a pixel: m v, m, and v.
COUNTED, WEIGHT, PIXEL = 0, 1, 2
# Those that are summed, as the first numbers of orders.
SUMMED = ((COUNTED,), (WEIGHT,))


class Counting(NamedTuple):
    """How the pixels of a plane count, for a group of points.

    Attributes:
        plane: the weights of the plane's pixels, or None for 1.
        offset: the place of the group in it, `State.weight_offset`.
        steps: the distance of neighbours along each axis, x first.
        dropped_weight: the weight of dropped taps: 1 if what is outside is known, otherwise 0.
        ignores: whether NaN counts for nothing.
        weight_check: notes whether any weight is invalid; None if none can be.
        kept: the weights of the group's taps, if they have been read before; see `Counts.keep`.
    """

    plane: Pointer | None
    offset: Offsets | None
    steps: Sequence[Value]
    dropped_weight: float
    ignores: bool
    weight_check: WeightCheck | None = None
    kept: Pointer | None = None

    def weight(self, tap: Tap) -> Value:
        """Read the weight of the pixel of a listed tap of each point, for all channels."""
        weight: Value = tap.weights[0].like(1.0)
        if self.plane is not None:
            assert tap.pixel_weight_offset is not None
            offset = further(self.offset, tap.pixel_weight_offset)
            weight = read_each(self.plane, offset).to(weight.kind)
        if tap.present is not None:
            weight = tap.present.select(weight, self.dropped_weight)
        if self.weight_check is not None:
            self.weight_check.check([weight])
        return weight

    def numbers(self, pixels: Sequence[Value], weights: Sequence[Value]) -> list[Numbers]:
        """Return the numbers of pixels, given their weights."""
        if self.weight_check is not None:
            self.weight_check.check(weights)
        return [*map(self.numbers_of_pixel, pixels, weights)]

    def numbers_of_pixel(self, pixel: Value, weight: Value) -> Numbers:
        """Return the numbers of one pixel of each point."""
        if self.ignores:
            weight = (pixel == pixel).select(weight, 0.0)
        # A pixel without weight may be infinite.
        return (weight > 0.0).select(pixel * weight, 0.0), weight, pixel


def numbers_of_dropped(dropped: Value, counting: Counting | None) -> Sequence[Value | float | None]:
    """Return the value of dropped taps, or the numbers that are summed in its place; None for 0.

    Nothing is added to sums of weights.
    """
    value = None if dropped.is_constant else dropped
    if counting is None:
        return [value]
    return value if counting.dropped_weight else None, None, value


def sum_counted(
    pixels: Reader,
    weights: Reader | None,
    counting: Counting | None,
    taps: Sequence[AxisTaps],
    dropped: Value,
    orders: Orders,
) -> TapSums:
    """Sum the taps of a group, dropped ones included.

    Args:
        pixels: reads the pixels.
        weights: reads their weights, in the same way; None if they have none.
        counting: how pixels count, if not all alike.
        taps: the taps of each axis, x first.
        dropped: the value of dropped taps.
        orders: the orders of derivatives, after the number of a pixel if they count.
    """
    reader = pixels
    if counting is not None:
        reader = Counted(pixels, weights or UnitWeights(counting.dropped_weight), counting)
    totals = sum_over_taps(reader, tables_for_loops(taps), orders)
    return with_dropped(totals, taps, numbers_of_dropped(dropped, counting))


class Counted:
    """Reads the numbers of pixels."""

    def __init__(self, pixels: Reader, weights: Reader, counting: Counting) -> None:
        self.pixels, self.weights, self.counting = pixels, weights, counting

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Read the numbers of all taps along x."""
        pixels, weights = self.pixels.row(outer, taps), self.weights.row(outer, taps)
        return self.counting.numbers(pixels, weights)  # type: ignore[arg-type]


class UnitWeights:
    """The weights of pixels that have none."""

    def __init__(self, dropped_weight: float) -> None:
        self.dropped_weight = dropped_weight

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Return the weights of all taps along x."""
        present, weights = None, []
        for tap in outer:
            present = both(present, tap.present)
        for tap in taps:
            here, weight = both(present, tap.present), tap.weights[0].like(1.0)
            weights.append(weight if here is None else here.select(weight, self.dropped_weight))
        return weights


class Kept:
    """The weights of pairs of pixels, in memory."""

    def __init__(self, memory: Pointer) -> None:
        self.memory, self.lanes = memory, memory.function.lanes

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Return the weights of both taps along x."""
        places = [place_of_pair((*outer, tap)) * self.lanes for tap in taps]
        return [self.memory.load(place, self.lanes, aligned=True) for place in places]


def place_of_pair(taps: Sequence[Tap]) -> int:
    """Return the number of a tap among all of a point that has two along each axis."""
    return functools.reduce(lambda place, tap: 2 * place + tap.number, taps, 0)


class CountedRow(NamedTuple):
    """A row of pixels as numbers.

    Attributes:
        pixels: the pixels.
        weights: their weights, or None for 1.
        counting: how they count.
    """

    pixels: Row
    weights: Row | None
    counting: Counting

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.pixels.function

    def at(self, axis: int, k: int | Value) -> Row:
        """Return the row that is ``k`` pixels further along another axis than x."""
        weights = None if self.weights is None else self.weights.at(axis, k)
        return self._replace(pixels=self.pixels.at(axis, k), weights=weights)

    def registers(self, length: int) -> Registers:
        """Read the registers of the row, of each number."""
        pixels = self.pixels.registers(length)[()]
        if self.weights is None:
            weights = [register.like(1.0) for register in pixels]
        else:
            weights = self.weights.registers(length)[()]
        each = [*zip(*self.counting.numbers(pixels, weights), strict=True)]
        return {(number,): [*each[number]] for number in (COUNTED, WEIGHT, PIXEL)}


class WeightCheck:
    """Notes whether a weight may be negative or not finite, so that it must be looked at.

    These have the greatest bits, as integers without a sign.
    """

    def __init__(self, function: Function) -> None:
        self.kind = kind_of(f"uint{function.real.bits}")
        self.lanes = function.lanes
        self.memory = function.scratch(self.kind, 1, function.lanes)

    def clear(self) -> None:
        """Forget all weights."""
        zero = self.memory.function.constant(0, self.kind, self.lanes)
        self.memory.store(zero, aligned=True)

    def check(self, weights: Sequence[Value]) -> None:
        """Note some weights."""
        bits = [weight.bitcast(self.kind) for weight in weights if not weight.is_constant]
        for lanes in {value.lanes for value in bits}:
            alike = [value for value in bits if value.lanes == lanes]
            noted = self.memory.load(0, lanes)
            self.memory.store(functools.reduce(Value.maximum, alike, noted))

    def report(self, memory: Pointer) -> None:
        """Store 1 if some weight is invalid."""
        infinity = 0x7F800000 if self.kind.bits == 32 else 0x7FF0000000000000
        noted = self.memory.load(0, self.lanes, aligned=True)
        with memory.function.when((noted >= infinity).any(), rare=True):
            memory.store(memory.function.constant(1, "int64"))


class CountedPixels(NamedTuple):
    """How the pixels of runs count, whose taps are listed.

    Attributes:
        ignores: whether NaN counts for nothing.
        weighs_taps: whether the weights of taps are NaN where a tap does not count.
        parts: whether channels are the parts of complex numbers.
        numbers: what is summed of a pixel.
    """

    ignores: bool
    weighs_taps: bool
    parts: bool
    numbers: Orders = SUMMED

    def terms(
        self, values: Sequence[Value], weight: Value, place: int | Value, lane: Value
    ) -> Registers:
        """Return what a tap adds to the sums of m v and m, for a register of pixels each.

        Args:
            values: the pixels, in registers.
            weight: the weight of the tap.
            place: the place of the tap in its list.
            lane: the first of the points.
        """
        terms: Registers = {number: [] for number in self.numbers}
        for value in values:
            counts = [weight == weight] if self.weighs_taps else []
            counts += [self.known(value)] if self.ignores else []
            present = functools.reduce(operator.and_, counts)
            for number in self.numbers:
                term = weight if number == (WEIGHT,) else value * weight
                terms[number].append(present.select(term, 0.0))
        return terms

    def known(self, value: Value) -> Value:
        """Whether pixels are numbers; a complex one is if both parts are."""
        known = value == value
        if not self.parts:
            return known
        other = value.shuffle([lane ^ 1 for lane in range(value.lanes)])
        return known & (other == other)
