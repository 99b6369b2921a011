"""Rows of pixels where taps may be outside the image.

Unless a boundary joins the ends of the image, as "wrap" does, it folds all taps along x to the
same end, or drops them, so that their pixels are among L neighbours, the *window* of a point.  A
window is read as a row, and each of its pixels has the sum of the weights of the taps that are
there.  Taps of the other axes are folded one by one, as the row of each may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import LONG, Axis, Tap
from gridsample.kernels.sampling.programs.counting import (
    WEIGHT,
    CountedRow,
    numbers_of_dropped,
)
from gridsample.kernels.sampling.programs.row_sums import (
    PixelRows,
    read_registers,
    repeat_in_registers,
    row_length,
)
from gridsample.kernels.sampling.programs.singles import SingleTaps
from gridsample.kernels.sampling.programs.states import Offsets, added, value_of
from gridsample.kernels.sampling.programs.sums import (
    Orders,
    Registers,
    Row,
    TapSums,
    TapTable,
    Weights,
    both,
    with_dropped,
)
from gridsample.kernels.vector import Function, Pointer, Value


class AtEdges(NamedTuple):
    """Taps of points anywhere; those along x are read as a row.

    Attributes:
        axes: the axes, x first.
        single_taps: the same taps, each read by itself.
    """

    axes: Sequence[Axis]
    single_taps: SingleTaps

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        along_x, *others = taps = self.single_taps.taps
        window = window_of(self.axes[0], along_x, row_length(len(along_x)))
        weights = [window.weights, *([tap.weights for tap in axis_taps] for axis_taps in others)]
        rows = PixelRows(self.row(plane, window.begin, others), weights, window.touched)
        counting = self.single_taps.counting
        values = [*numbers_of_dropped(dropped, counting)]
        if counting is not None and counting.dropped_weight:
            # Other readers read this for a dropped tap; here, nothing is read for one.
            values[WEIGHT] = counting.dropped_weight
        return with_dropped(rows.tap_sums(orders), taps, values)

    def row(self, plane: Pointer, first: Value, others: Sequence[Sequence[Tap]]) -> Row:
        """Return the row of each point, given the index of its first pixel and the other taps."""
        counting = self.single_taps.counting
        # `PixelRows` has the weights.
        tables = [TapTable([tap._replace(weights=()) for tap in taps]) for taps in others]
        pixels = EdgeRow(plane, added(self.single_taps.offset, first), tables)
        if counting is None:
            return pixels
        weights = pixels._replace(plane=None)  # of ones
        if counting.plane is not None:
            stride = self.axes[0].pixel_weight_stride
            assert stride is not None
            offset = added(value_of(counting.offset), first * stride)
            weights = EdgeRow(counting.plane, offset, tables, weighs=True)
        return CountedRow(pixels, weights, counting)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        self.single_taps.scatter(plane, shares)


class Window(NamedTuple):
    """Neighbouring pixels along an axis, among which are all taps of each point.

    Attributes:
        begin: the offset of the first pixel.
        touched: the pixels at which a tap is, one bit for each.
        weights: for each pixel, the sum of the weights of the taps there, for each order.
    """

    begin: Value
    touched: Value
    weights: Weights


def has_window(axis: Axis) -> bool:
    """Whether all taps along an axis are in one window, not at both ends of the image."""
    return not axis.rule.boundary.joins_ends and axis.rule.length == LONG


def window_of(axis: Axis, taps: Sequence[Tap], length: int) -> Window:
    """Return the window of ``length`` pixels for taps along an axis; strides are not negative."""
    function, begin = axis.function, axis.offset(axis.size - length)
    for tap in taps:
        earlier = begin.minimum(tap.offset)
        begin = earlier if tap.present is None else tap.present.select(earlier, begin)
    table, orders = TapTable(taps), len(taps[0].weights)
    zero = function.constant(0.0, function.real, function.lanes)
    none = function.constant(0, f"int{function.real.bits}", function.lanes)
    with function.loop(0, table.count, carry=[none] + [zero] * (length * orders)) as loop:
        tap = table.read(loop.index)
        touched, *totals = loop.carried
        for pixel in range(length):
            here = both(tap.offset == begin + axis.offset(begin.like(pixel)), tap.present)
            assert here is not None
            touched = touched | here.select(none.like(1 << pixel), none)
            for n, weight in enumerate(tap.weights):
                totals[pixel * orders + n] += here.select(weight, zero)
        loop.carry(touched, *totals)
    touched, *totals = loop.carried
    weights = [tuple(totals[k : k + orders]) for k in range(0, len(totals), orders)]
    return Window(begin, touched, weights)


class EdgeRow(NamedTuple):
    """The window of each point, at some taps of the other axes.

    Attributes:
        plane: the memory of a plane; None if all pixels are 1.
        offset: the offset of each point's first pixel.
        outer: the taps of the other axes, y first.
        weighs: whether the plane has weights of pixels, rather than pixels.
        present: whether the row is not dropped; None if no row ever is.
    """

    plane: Pointer | None
    offset: Value
    outer: Sequence[TapTable]
    weighs: bool = False
    present: Value | None = None

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.offset.function

    def at(self, axis: int, k: int | Value) -> EdgeRow:
        """Return the row at tap ``k`` of another axis than x."""
        tap = self.outer[axis - 1].read(self.function.as_index(k))
        step = tap.pixel_weight_offset if self.weighs else tap.offset
        assert step is not None
        return self._replace(offset=self.offset + step, present=both(self.present, tap.present))

    def registers(self, length: int) -> Registers:
        """Read the registers of the row; those of dropped rows are 0."""
        function = self.function
        if self.plane is None:
            registers = [function.constant(1.0, function.real, function.lanes)] * length
        else:
            registers = read_registers(self.plane, Offsets(self.offset).places(), length)
        if self.present is not None:
            present = repeat_in_registers(self.present.to(f"int{function.real.bits}"), length)
            registers = [(p != 0).select(r, 0.0) for p, r in zip(present, registers, strict=True)]
        return {(): registers}
