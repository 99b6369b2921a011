"""Rows of pixels where taps may be outside the image.

Unless a boundary joins the ends of the image, as "wrap" does, it folds all taps along x to the
same end, or drops them, so that their pixels are among as many neighbours, the *window* of a point.
A window is read as a row, and each of its pixels has the sum of the weights of the taps that are
there.  Taps of the other axes are folded one by one, as the row of each may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import LONG, Axis, Tap
from gridsample.kernels.sampling.programs.counting import (
    NUMBERS,
    WEIGHT,
    Counted,
    numbers_of_dropped,
)
from gridsample.kernels.sampling.programs.loads import read_numbers
from gridsample.kernels.sampling.programs.singles import SingleTaps
from gridsample.kernels.sampling.programs.states import Offsets, added, further
from gridsample.kernels.sampling.programs.sums import (
    AxisTaps,
    Numbers,
    Orders,
    Outer,
    Reader,
    TapSums,
    TapTable,
    both,
    sum_over_taps,
    tables_for_loops,
    with_dropped,
)
from gridsample.kernels.vector import Pointer, Value


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
        window = window_of(self.axes[0], along_x)
        counting, begin = self.single_taps.counting, added(self.single_taps.offset, window.begin)
        channels = self.single_taps.channels
        reader: Reader = WindowPixels(plane, begin, window.touched, channels)
        values = [*numbers_of_dropped(dropped, counting)]
        if counting is not None:
            weights = WindowPixels(None, window.begin, window.touched)  # of ones
            if counting.plane is not None and window.weight_begin is not None:
                offset = further(counting.offset, window.weight_begin).value
                weights = WindowPixels(counting.plane, offset, window.touched, weighs=True)
            reader = Counted(reader, weights, counting)
            if counting.counts.dropped_weight:
                # Other readers read this for a dropped tap; here, nothing is read for one.
                values[WEIGHT::NUMBERS] = [counting.counts.dropped_weight] * channels
        totals = sum_over_taps(reader, tables_for_loops([window.taps, *others]), orders)
        return with_dropped(totals, taps, values)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        self.single_taps.scatter(plane, shares)


class Window(NamedTuple):
    """Neighbouring pixels along an axis, among which are all taps of each point.

    Attributes:
        begin: the offset of the first pixel.
        weight_begin: the same in the weights of pixels, if they have weights.
        touched: the pixels at which a tap is, one bit for each.
        taps: the pixels, as taps whose weights are sums of those of the taps there.
    """

    begin: Value
    weight_begin: Value | None
    touched: Value
    taps: Sequence[Tap]


def has_window(axis: Axis) -> bool:
    """Whether all taps along an axis are in one window, not at both ends of the image."""
    return not axis.rule.boundary.joins_ends and axis.rule.length == LONG


def window_of(axis: Axis, taps: Sequence[Tap]) -> Window:
    """Return the window of taps along an axis, whose strides are positive."""
    function, length = axis.function, len(taps)
    begin, weight_begin = first_of(taps, axis.offset(axis.size - length)), None
    if axis.pixel_weight_stride is not None:
        weight_begin = first_of(taps, (axis.size - length) * axis.pixel_weight_stride, True)
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
    # Their place is that of the window.
    pixels = [Tap(begin.like(0), None, each, k) for k, each in enumerate(weights)]
    return Window(begin, weight_begin, touched, pixels)


def first_of(taps: Sequence[Tap], begin: Value, weighs: bool = False) -> Value:
    """Return the least offset of taps that are not dropped, and no greater one than ``begin``.

    Those ``weighs`` asks for are offsets in the weights of pixels.
    """
    for tap in taps:
        earlier = begin.minimum(tap.offset_in(weighs))
        begin = earlier if tap.present is None else tap.present.select(earlier, begin)
    return begin


class WindowPixels(NamedTuple):
    """Reads the window of each point, at some taps of the other axes; what is no tap is 0.

    Attributes:
        plane: the memory of a plane; None if all pixels are 1.
        offset: the offset of each point's first pixel.
        touched: the pixels that are taps, one bit for each.
        channels: how many neighbours in memory a pixel is.
        weighs: whether the plane has weights of pixels, rather than pixels.
    """

    plane: Pointer | None
    offset: Value
    touched: Value
    channels: int = 1
    weighs: bool = False

    def row(self, outer: Outer, taps: AxisTaps) -> Sequence[Numbers]:
        """Read the pixels of a window."""
        offset, present, real = self.offset, None, taps[0].weights[0]
        for tap in outer:
            offset = offset + tap.offset_in(self.weighs)
            present = both(present, tap.present)
        count, row = self.channels * len(taps), list[Numbers]()
        if self.plane is None:
            numbers = [real.like(1.0)] * count
        else:
            numbers = read_numbers(self.plane, Offsets(offset).one_by_one(), count)
        for k in range(len(taps)):
            # What is not a tap may be NaN.
            here = both((self.touched & (1 << k)) != 0, present)
            assert here is not None
            pixel = numbers[k * self.channels : (k + 1) * self.channels]
            row.append(tuple(here.select(number.to(real.kind), 0.0) for number in pixel))
        return row
