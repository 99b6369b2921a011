"""Every tap is read by itself: any stride, any boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.counting import Counted, Counting, numbers_of_dropped
from gridsample.kernels.sampling.programs.loads import read_each, read_numbers
from gridsample.kernels.sampling.programs.states import Offsets, added, value_of
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    AxisTaps,
    Index,
    Numbers,
    Orders,
    Outer,
    Reader,
    TapSums,
    both,
    scatter,
    sum_over_taps,
    tables_for_loops,
    with_dropped,
)
from gridsample.kernels.vector import Pointer, Value


class SingleTaps(NamedTuple):
    """The taps of a group, each of which is read by itself.

    Attributes:
        taps: the taps of each axis, x first.
        offset: the offset to add to those of the taps, or None.
        compact: whether code should be short, as few groups are summed in this way.
        channels: the channels of a pixel.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[AxisTaps]
    offset: Value | None
    compact: bool
    channels: int = 1
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        pixels = SinglePixels(plane, self.offset, self.compact, self.channels)
        weights = None
        if self.counting is not None and self.counting.plane is not None:
            weights = SinglePixels(
                self.counting.plane, value_of(self.counting.offset), pixels.gathers,
                dropped=self.counting.counts.dropped_weight, weighs=True,
            )  # fmt: skip
        return sum_counted(pixels, weights, self.counting, self.taps, dropped, orders)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = SingleAdder(plane, self.offset, self.taps)
        scatter(sums, tables_for_loops(self.taps), shares)


def sum_counted(
    pixels: Reader,
    weights: Reader | None,
    counting: Counting | None,
    taps: Sequence[AxisTaps],
    dropped: Sequence[Value],
    orders: Orders,
) -> TapSums:
    """Sum the taps of a group, dropped ones included.

    Args:
        pixels: reads the pixels.
        weights: reads their weights, in the same way; None if they have none.
        counting: how pixels count, if not all alike.
        taps: the taps of each axis, x first.
        dropped: the values of dropped taps.
        orders: the orders of derivatives, after the number of a pixel if there are several.
    """
    reader = pixels if counting is None else Counted(pixels, weights, counting)
    totals = sum_over_taps(reader, tables_for_loops(taps), orders)
    return with_dropped(totals, taps, numbers_of_dropped(dropped, counting))


class SinglePixels:
    """Reads every tap by itself: any stride, any boundary.

    Attributes:
        plane: the memory of the plane.
        offset: the offset to add to those of the taps, or None.
        channels: how many neighbours in memory a pixel is.
        dropped: what is read for dropped taps.
        gathers: whether to use gather instructions.
        converted: converts pixels to what is summed.
        weighs: whether the plane has weights of pixels, rather than pixels.
    """

    def __init__(
        self,
        plane: Pointer,
        offset: Value | None,
        compact: bool,
        channels: int = 1,
        converted: Callable[[Value], Value] | None = None,
        dropped: Value | float = 0.0,
        weighs: bool = False,
    ) -> None:
        self.plane, self.offset, self.weighs = plane, offset, weighs
        self.channels = channels
        self.converted = converted or (lambda pixels: pixels.to(plane.function.real))
        self.dropped = dropped
        # Even where a gather instruction is no faster, it is shorter; narrow elements have none.
        self.gathers = compact and plane.kind.bits >= 32 and not plane.kind.packed

    def row(self, outer: Outer, taps: AxisTaps) -> list[Numbers]:
        """Read the pixels of all taps along x."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, tap.offset_in(self.weighs))
            present = both(present, tap.present)
        row = list[Numbers]()
        for tap in taps:
            here = both(present, tap.present)
            numbers = map(self.converted, self.read(added(offset, tap.offset_in(self.weighs))))
            row.append(tuple(n if here is None else here.select(n, self.dropped) for n in numbers))
        return row

    def read(self, offset: Value) -> list[Value]:
        """Read the channels of a pixel of each point."""
        if self.gathers:
            return [self.plane.at(channel).gather(offset) for channel in range(self.channels)]
        if self.channels == 1:
            return [read_each(self.plane, Offsets(offset))]
        return read_numbers(self.plane, Offsets(offset).one_by_one(), self.channels)


class SingleAdder:
    """Adds to every tap by itself; points are taken in order, so that sums are reproducible.

    All rows of a slice of taps are added to for one point, and then for the next.  Neighbouring
    points add to the same pixels, and a processor waits for a sum before it adds to it again.

    Attributes:
        plane: the memory of the sums.
        offset: the offset to add to those of the taps, or None.
        rows, width: the numbers of taps along y and x.
        offsets: for each of them, where to add, for each point.
        numbers: what to add, once it is known how many numbers a pixel has.
    """

    numbers: Pointer

    def __init__(self, plane: Pointer, offset: Value | None, taps: Sequence[AxisTaps]) -> None:
        self.plane, self.offset = plane, offset
        self.width, self.rows = len(taps[0]), len(taps[1]) if len(taps) > 1 else 1
        function, size = plane.function, self.rows * self.width
        self.offsets = function.scratch(taps[0][0].offset.kind, size, function.lanes)
        self.channels = 0

    def begin(self, channels: int) -> None:
        """Reserve memory for pixels of so many channels."""
        function = self.plane.function
        if not self.channels:
            self.channels, size = channels, self.rows * self.width * channels
            self.numbers = function.scratch(function.real, size, function.lanes)

    def add_row(self, row: Index, outer: Outer, taps: AxisTaps, shares: Sequence[Numbers]) -> None:
        """Keep what to add for each point to all taps along x; see `end_slice`."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, tap.offset)
            present = both(present, tap.present)
        lanes = self.plane.function.lanes
        self.begin(len(shares[0]))
        for k, (tap, numbers) in enumerate(zip(taps, shares, strict=True)):
            here, place = both(present, tap.present), row * self.width + k
            # A dropped tap adds 0 to the first pixel along its axis, which is of the same item:
            # other threads may add to other items.
            self.offsets.store(added(offset, tap.offset), place * lanes, aligned=True)
            for channel, share in enumerate(numbers):
                number = share if here is None else here.select(share, 0.0)
                home = (place * self.channels + channel) * lanes
                self.numbers.store(number, home, aligned=True)

    def end_slice(self) -> None:
        """Add to a slice of taps, point after point."""
        lanes, written = self.plane.function.lanes, self.rows * self.width <= WRITTEN_OUT
        with self.plane.function.loop(0, lanes) as point:
            if written:
                for row in range(self.rows):
                    self.add(row, point.index)
            else:
                with self.plane.function.loop(0, self.rows) as loop:
                    self.add(loop.index, point.index)

    def add(self, row: int | Value, point: Value) -> None:
        """Add to a row of taps of a point."""
        lanes = self.plane.function.lanes
        for k in range(self.width):
            place = row * self.width + k
            pixel = self.plane.at(self.offsets.load(point + place * lanes).to("int64"))
            for channel in range(self.channels):
                number = self.numbers.load(point + (place * self.channels + channel) * lanes)
                pixel.store(pixel.load(channel) + number, channel)
