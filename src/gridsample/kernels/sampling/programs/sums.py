"""Sums over the taps of a group of points, and their transpose, which adds to the taps' pixels.

A group has W points, as many as one register or a few have lanes.  Every `Reader` has a method
`row`, which returns the pixels of all taps along x, for one tap along each of the other axes, as
real numbers: a pixel is one number or several, each of which has a sum of its own.  `sum_over_taps`
sums them over all taps:

    tap sum of order n = sum over taps of pixel * product over axes a of w_a^(n_a)

where w^(n) is the n-th derivative of a tap's weight.  The tap sum of order 0 is the sample; its
derivatives along the grid are the others.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Protocol

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.vector import Kind, Pointer, Value

# A number that is known when a program is written, or when it runs.
Index = int | Value
# Some taps of one axis; and a tap of each of the outermost axes.
AxisTaps = Sequence[Tap]
Outer = tuple[Tap, ...]
# For each axis, x first.  If pixels are several numbers, the number comes before the axes.
Orders = Sequence[tuple[int, ...]]
TapSums = dict[tuple[int, ...], Value]
# For each order along the axes that are not yet summed over, registers that hold the numbers of
# several points, or pixels, side by side.
Registers = dict[tuple[int, ...], list[Value]]
# The numbers of a pixel.
Numbers = tuple[Value, ...]
# Of each tap along an axis, its weight and the derivatives of that.
Weights = Sequence[tuple[Value, ...]]


class GroupTaps(Protocol):
    """The taps of a group, ready for any plane."""

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane, for several orders of derivatives.

        ``dropped`` is the value of dropped taps, for each channel of a pixel.
        """

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane; the transpose of `tap_sums`."""


class Reader(Protocol):
    """How the pixels of one plane are read."""

    def row(self, outer: Outer, taps: AxisTaps) -> Sequence[Numbers]:
        """Read the pixels of all ``taps`` along x, at the taps ``outer`` of the other axes.

        Dropped taps have pixels of 0; see `with_dropped`.
        """


class Writer(Protocol):
    """How numbers are added to the pixels of one plane."""

    def add_row(self, row: Index, outer: Outer, taps: AxisTaps, shares: Sequence[Numbers]) -> None:
        """Add the numbers of each point to all ``taps`` along x, at ``outer`` of the other axes.

        ``row`` is the number of the tap along y.
        """

    def end_slice(self) -> None:
        """Add what has been kept of a slice: the taps along x and y."""


class TapTable:
    """The taps of one axis in memory, so that a loop of the program can go through them."""

    def __init__(self, taps: AxisTaps) -> None:
        first = taps[0]
        function, lanes = first.offset.function, first.offset.lanes
        self.count, self.lanes = len(taps), lanes
        self.drops = any(tap.present is not None for tap in taps)
        self.offsets = function.scratch(first.offset.kind, len(taps), lanes)
        self.pixel_weight_offsets = None
        if first.pixel_weight_offset is not None:
            self.pixel_weight_offsets = function.scratch(first.offset.kind, len(taps), lanes)
        self.weights = [function.scratch(weight.kind, len(taps), lanes) for weight in first.weights]
        self.dropped = no_pixel(first.offset.kind)
        for k, tap in enumerate(taps):
            offset = tap.offset
            if tap.present is not None:
                offset = tap.present.select(offset, self.dropped)
            self.offsets.store(offset, k * lanes, aligned=True)
            if self.pixel_weight_offsets is not None and tap.pixel_weight_offset is not None:
                self.pixel_weight_offsets.store(tap.pixel_weight_offset, k * lanes, aligned=True)
            for memory, weight in zip(self.weights, tap.weights, strict=True):
                memory.store(weight.splat(lanes), k * lanes, aligned=True)

    def __len__(self) -> int:
        return self.count

    def read(self, k: Value) -> Tap:
        """Read a tap."""
        place = k * self.lanes
        offset = self.offsets.load(place, self.lanes, aligned=True)
        weights = tuple(memory.load(place, self.lanes, aligned=True) for memory in self.weights)
        weight_offset = None
        if self.pixel_weight_offsets is not None:
            weight_offset = self.pixel_weight_offsets.load(place, self.lanes, aligned=True)
        if not self.drops:
            return Tap(offset, None, weights, k, weight_offset)
        present = offset != self.dropped
        return Tap(present.select(offset, 0), present, weights, k, weight_offset)


def no_pixel(kind: Kind) -> int:
    """Return the offset that stands for no pixel: the least number of a kind."""
    return -(1 << (kind.bits - 1))


Taps = AxisTaps | TapTable
# The most taps of a point that are written out, rather than looped over.
WRITTEN_OUT = 16


def tables_for_loops(taps: Sequence[AxisTaps]) -> list[Taps]:
    """Put taps in memory where loops go through them; few of them, and those along x, are not."""
    written, result = len(taps[0]), list[Taps](taps[:1])
    for axis_taps in taps[1:]:
        written *= len(axis_taps)
        result.append(axis_taps if written <= WRITTEN_OUT else TapTable(axis_taps))
    return result


def sum_over_taps(
    reader: Reader, taps: Sequence[Taps], orders: Orders, outer: Outer = ()
) -> TapSums:
    """Sum over the product of all axes' taps, x first, for several orders of derivatives.

    ``outer`` has a tap for each of the outermost axes that are done.
    """
    axis = len(taps) - 1 - len(outer)
    axis_taps = taps[axis]
    if isinstance(axis_taps, TapTable):
        return sum_in_loop(reader, taps, orders, outer, axis_taps)
    totals: TapSums = {}

    def add(order: tuple[int, ...], number: Value, weight: Value) -> None:
        totals[order] = with_product(totals.get(order), number, weight)

    if axis == 0:
        for pixel, tap in zip(reader.row(outer, axis_taps), axis_taps, strict=True):
            for order in orders:
                add(order, pixel[order[0] if len(order) > 1 else 0], tap.weights[order[-1]])
        return totals
    for tap in axis_taps:
        inner = sum_over_taps(reader, taps, orders_within(orders), (*outer, tap))
        for order in orders:
            add(order, inner[order[:-1]], tap.weights[order[-1]])
    return totals


def orders_within(orders: Orders) -> list[tuple[int, ...]]:
    """Return the orders along all axes but the last, each once."""
    return [*dict.fromkeys(order[:-1] for order in orders)]


def with_product(total: Value | None, number: Value, weight: Value) -> Value:
    """Add a product to a sum, or begin one with it; sums with `mul_add` have the same bits."""
    return number * weight if total is None else number.mul_add(weight, total)


def sum_in_loop(
    reader: Reader, taps: Sequence[Taps], orders: Orders, outer: Outer, table: TapTable
) -> TapSums:
    """Sum over the taps of a table, in a loop of the program."""
    weights = table.weights[0]
    function = weights.function
    zero = function.constant(0.0, weights.kind, table.lanes)
    with function.loop(0, table.count, carry=[zero] * len(orders)) as loop:
        tap = table.read(loop.index)
        inner = sum_over_taps(reader, taps, orders_within(orders), (*outer, tap))
        loop.carry(
            *(
                inner[order[:-1]].mul_add(tap.weights[order[-1]], total)
                for total, order in zip(loop.carried, orders, strict=True)
            )
        )
    return dict(zip(orders, loop.carried, strict=True))


def scatter(
    writer: Writer, taps: Sequence[Taps], shares: TapSums, outer: Outer = (), row: Index = 0
) -> None:
    """Add to the taps' pixels what `sum_over_taps` would read from them: its transpose.

    Args:
        writer: adds to pixels.
        taps: the taps of each axis, x first.
        shares: for each order of derivatives, the factor of the weights' product.
        outer: a tap for each of the outermost axes that are done.
        row: the number of the last of these, along its axis.
    """
    axis_taps = taps[len(taps) - 1 - len(outer)]
    if len(outer) == len(taps) - 1:
        assert not isinstance(axis_taps, TapTable)
        shares_along_x = [tuple(weighted(shares, tap).values()) for tap in axis_taps]
        writer.add_row(row, outer, axis_taps, shares_along_x)
    elif isinstance(axis_taps, TapTable):
        with axis_taps.offsets.function.loop(0, axis_taps.count) as loop:
            tap = axis_taps.read(loop.index)
            scatter(writer, taps, weighted(shares, tap), (*outer, tap), loop.index)
    else:
        for k, tap in enumerate(axis_taps):
            scatter(writer, taps, weighted(shares, tap), (*outer, tap), k)
    if len(outer) == max(0, len(taps) - 2):
        writer.end_slice()


def weighted(shares: TapSums, tap: Tap) -> TapSums:
    """Multiply shares by the weights of a tap along the last axis of their orders."""
    result: TapSums = {}
    for order, share in shares.items():
        term = share * tap.weights[order[-1]]
        inner = order[:-1]
        result[inner] = result[inner] + term if inner in result else term
    return result


def with_dropped(
    totals: TapSums, taps: Sequence[AxisTaps], dropped: Sequence[Value | float | None]
) -> TapSums:
    """Add dropped taps to sums over taps, given their value, or that of each number; None for 0.

    Their weights sum up to the product of the axes' sums of weights, less that of taps that are not
    dropped.  The same difference of their magnitudes is 0 exactly where no dropped tap has a
    weight: the value then does not count, not even NaN.
    """
    drops = any(tap.present is not None for axis_taps in taps for tap in axis_taps)
    if not drops or all(value is None for value in dropped):
        return totals
    orders = dict.fromkeys(numbered[-len(taps) :] for numbered in totals)
    shares = {order: dropped_share(taps, order) for order in orders}
    for numbered, total in totals.items():
        share, magnitude = shares[numbered[-len(taps) :]]
        value = dropped[numbered[0] if len(numbered) > len(taps) else 0]
        if value is not None:
            totals[numbered] = (magnitude == 0.0).select(total, share.mul_add(value, total))
    return totals


def dropped_share(taps: Sequence[AxisTaps], order: tuple[int, ...]) -> tuple[Value, Value]:
    """Return the sum of the weights of dropped taps, for some derivatives, and of magnitudes."""
    with taps[0][0].weights[0].function.exactly():
        weighed = [
            [(tap, tap.weights[n]) for tap in axis_taps]
            for axis_taps, n in zip(taps, order, strict=True)
        ]
        sizes = [[(tap, weight.abs()) for tap, weight in axis_taps] for axis_taps in weighed]
        return share_of_dropped(weighed), share_of_dropped(sizes)


def share_of_dropped(weighed: Sequence[Sequence[tuple[Tap, Value]]]) -> Value:
    """Return the sum of the products of numbers of the axes' taps, over taps that are dropped."""
    every, kept = [], []
    for axis_taps in weighed:
        every.append(functools.reduce(operator.add, [number for _, number in axis_taps]))
        here = [
            number if tap.present is None else tap.present.select(number, 0.0)
            for tap, number in axis_taps
        ]
        kept.append(functools.reduce(operator.add, here))
    share: Value = functools.reduce(operator.mul, every) - functools.reduce(operator.mul, kept)
    return share


def both(a: Value | None, b: Value | None) -> Value | None:
    """Whether two conditions hold; None always holds."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def either(a: Value | None, b: Value | None) -> Value | None:
    """Whether one of two conditions holds; None never holds."""
    if a is None or b is None:
        return b if a is None else a
    return a | b
