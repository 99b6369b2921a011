"""Rows of pixels where taps may be outside, or the image is narrower than its taps.

A boundary moves all taps along x to the same end of the image, so that their pixels are among L
neighbours (see `windows` for the exception).  These are read as a row, and each pixel has the sum
of the weights of the taps that are there.  Along the other axes, taps are folded one by one: the
row of each may be anywhere.  All taps are in memory, and loops go through them, because programs
contain this beside the way for taps inside, and would become twice as long.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from gridsample.definitions import axis as formulas
from gridsample.kernels.sampling.axes import Axis, AxisRule, Tap
from gridsample.kernels.sampling.counting import WEIGHT, CountedRow, Counting
from gridsample.kernels.sampling.reading import (
    Orders,
    TapSums,
    TapTable,
    both,
    load_offsets,
    weighted,
)
from gridsample.kernels.sampling.rows import (
    Blocks,
    PixelRows,
    Row,
    Weights,
    bits_in_blocks,
    blocks_of,
    row_length,
    spread,
)
from gridsample.kernels.vector import Function, Pointer, Value, joined


def allows_folded_rows(rules: Sequence[AxisRule], filled: bool) -> bool:
    """Whether taps can be read as folded rows: dropped ones must not have a fill value."""
    return not filled or not any(rule.drops for rule in rules)


class Window(NamedTuple):
    """Neighbouring pixels along x, among which are taps of each point.

    Attributes:
        begin: the index of the first pixel.
        touched: the pixels at which a tap is, one bit for each.
        weights: for each pixel, the sum of the weights of the taps there, for each order.
    """

    begin: Value
    touched: Value
    weights: Weights


def windows(axis: Axis, taps: Sequence[Tap], width: int, narrow: bool) -> list[Window]:
    """Return the windows of taps along x, whose offsets are indices.

    There are two if the image is wrapped around: its first pixels and its last may both be taps.

    Args:
        axis: the axis.
        taps: its taps.
        width: the number of pixels of a window.
        narrow: whether they are all pixels of the axis.
    """
    last = axis.size - width
    first = last.like(0)
    if not narrow:
        first = last
        for tap in taps:
            least = first.minimum(tap.offset)
            first = least if tap.present is None else tap.present.select(least, first)
    table = TapTable(taps)
    near = window_at(first, table, width)
    if narrow or axis.rule.boundary.code != formulas.WRAP:
        return [near]
    return [near, window_at(last, table, width, first + width)]


def window_at(begin: Value, taps: TapTable, width: int, least: Value | None = None) -> Window:
    """Return the window that begins at an index, for the taps with at least some index."""
    function, orders = begin.function, len(taps.weights)
    zero = function.constant(0.0, function.real, function.lanes)
    none = function.constant(0, f"int{function.real.bits}", function.lanes)
    with function.loop(0, taps.count, carry=[none] + [zero] * (width * orders)) as loop:
        tap = taps.read(loop.index)
        present = both(tap.present, None if least is None else tap.offset >= least)
        touched, *totals = loop.carried
        for pixel in range(width):
            here = both(tap.offset == begin + pixel, present)
            assert here is not None
            touched = touched | here.select(none.like(1 << pixel), none)
            for n, weight in enumerate(tap.weights):
                totals[pixel * orders + n] += here.select(weight, zero)
        loop.carry(touched, *totals)
    touched, *totals = loop.carried
    weights = [tuple(totals[k : k + orders]) for k in range(0, len(totals), orders)]
    return Window(begin, touched, weights)


class FoldedRow(NamedTuple):
    """A row of neighbouring pixels of each point, at some taps of the other axes.

    Attributes:
        plane: the memory of a plane; None if all pixels are 1.
        begin: the offset of each point's first pixel.
        outer: the taps of the other axes, y first.
        width: the number of pixels.
        weighs: whether the plane has weights of pixels, rather than pixels.
        present: whether the row is not dropped; None if no row ever is.
    """

    plane: Pointer | None
    begin: Value
    outer: Sequence[TapTable]
    width: int
    weighs: bool = False
    present: Value | None = None

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.begin.function

    def at(self, axis: int, k: int | Value) -> FoldedRow:
        """Return the row at tap ``k`` of another axis than x."""
        return self.at_tap(self.outer[axis - 1].read(self.function.as_index(k)))

    def at_tap(self, tap: Tap) -> FoldedRow:
        """Return the row at a tap of another axis than x."""
        step = tap.pixel_weight_offset if self.weighs else tap.offset
        assert step is not None
        return self._replace(begin=self.begin + step, present=both(self.present, tap.present))

    def blocks(self, length: int) -> Blocks:
        """Read the blocks of the row; pixels beyond its end, and those of dropped rows, are 0."""
        function, each = self.function, self.function.lanes // length
        if self.plane is None:
            blocks = [function.constant(1.0, function.real, function.lanes)] * length
        else:
            begins = load_offsets(function.spill(self.begin), function.lanes)
            parts = [widened(self.plane.load(begin, self.width), length) for begin in begins]
            blocks = [
                joined(parts[b * each : (b + 1) * each]).to(function.real) for b in range(length)
            ]
        if self.present is not None:
            present = spread(self.present.to(f"int{function.real.bits}"), length)
            blocks = [(p != 0).select(block, 0.0) for p, block in zip(present, blocks, strict=True)]
        return {(): blocks}


class InFoldedRows(NamedTuple):
    """Taps of points anywhere, of which those along x are read as rows.

    Attributes:
        windows: the windows along x.
        outer: the taps of the other axes, y first, in memory.
        taps: the taps of all axes, x first.
        begin: the offset to add to those of the taps, or None.
        counting: how pixels count, if not all alike.
    """

    windows: Sequence[Window]
    outer: Sequence[TapTable]
    taps: Sequence[Sequence[Tap]]
    begin: Value | None
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane; dropped taps are 0."""
        totals: TapSums = {}
        weights = [[tap.weights for tap in axis_taps] for axis_taps in self.taps[1:]]
        for window in self.windows:
            first = self.row(plane, window)
            rows = PixelRows(
                self.counted(first, window), [window.weights, *weights], window.touched
            )
            for order, total in rows.tap_sums(orders).items():
                totals[order] = totals[order] + total if order in totals else total
        if self.counting is None or not self.counting.outside:
            return totals
        return {
            (n, *order): total + self.dropped(order) if n == WEIGHT else total
            for (n, *order), total in totals.items()
        }

    def dropped(self, order: Sequence[int]) -> Value:
        """Return the sum of the weights of dropped taps: 0 exactly where none is."""
        whole, present = [], []
        for axis_taps, n in zip(self.taps, order, strict=True):
            weights = [tap.weights[n] for tap in axis_taps]
            whole.append(functools.reduce(operator.add, weights))
            here = [
                weight if tap.present is None else tap.present.select(weight, 0.0)
                for tap, weight in zip(axis_taps, weights, strict=True)
            ]
            present.append(functools.reduce(operator.add, here))
        with whole[0].function.exactly():
            every, kept = (functools.reduce(operator.mul, sums) for sums in (whole, present))
            share: Value = every - kept
        return share

    def row(self, plane: Pointer, window: Window) -> FoldedRow:
        """Return the row of a window, before the taps of the other axes."""
        begin = window.begin if self.begin is None else window.begin + self.begin
        return FoldedRow(plane, begin, self.outer, len(window.weights))

    def counted(self, pixels: FoldedRow, window: Window) -> Row:
        """Return the row of a window as what is summed: pixels, or their numbers."""
        counting = self.counting
        if counting is None:
            return pixels
        if counting.plane is None:
            return CountedRow(pixels, pixels._replace(plane=None), counting)
        weights = self.row(counting.plane, window)
        begin = window.begin if counting.begin is None else window.begin + counting.begin
        return CountedRow(pixels, weights._replace(begin=begin, weighs=True), counting)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        for window in self.windows:
            sums = WindowSums(window, {order[0] for order in shares})
            self.scatter_over(len(self.outer), self.row(plane, window), sums, shares)

    def scatter_over(self, axis: int, row: FoldedRow, sums: WindowSums, shares: TapSums) -> None:
        """Add to the rows at the taps of the axes from 1 to ``axis``."""
        if axis == 0:
            sums.add(row, shares)
            return
        taps = self.outer[axis - 1]
        with row.function.loop(0, taps.count) as loop:
            tap = taps.read(loop.index)
            self.scatter_over(axis - 1, row.at_tap(tap), sums, weighted(shares, tap))


class WindowSums:
    """Adds to rows: to the pixels of a window that are taps."""

    def __init__(self, window: Window, orders: set[int]) -> None:
        self.width = len(window.weights)
        self.length = row_length(self.width)
        self.weights = {
            n: blocks_of([weights[n] for weights in window.weights], self.length) for n in orders
        }
        self.touched = bits_in_blocks(window.touched, self.length)

    def add(self, row: FoldedRow, shares: TapSums) -> None:
        """Add to a row, point after point; ``shares`` are the factors of the weights along x."""
        function, length, plane = row.function, self.length, row.plane
        assert plane is not None
        lanes = function.lanes
        terms = []
        for (n,), share in shares.items():
            here = share if row.present is None else row.present.select(share, 0.0)
            pairs = zip(spread(here, length), self.weights[n], strict=True)
            terms.append([factor * weight for factor, weight in pairs])
        numbers = function.scratch(function.real, length, lanes)
        for b, (touched, *parts) in enumerate(zip(self.touched, *terms, strict=True)):
            # A share may be NaN, which other pixels must not become.
            block = touched.select(functools.reduce(operator.add, parts), 0.0)
            numbers.store(block, b * lanes, aligned=True)
        begins = function.spill(row.begin)
        with function.loop(0, lanes) as loop:
            pixels = plane.at(begins.load(loop.index).to("int64"))
            number = numbers.load(loop.index * length, self.width)
            pixels.store(pixels.load(0, self.width) + number)


def widened(pixels: Value, length: int) -> Value:
    """Return a row with zeros at its end."""
    width = pixels.lanes
    if width == length:
        return pixels
    if width == 1:
        return pixels.like(0).splat(length).insert(pixels, 0)
    return pixels.shuffle([min(place, width) for place in range(length)], pixels.like(0))
