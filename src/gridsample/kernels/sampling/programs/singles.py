"""Every tap is read by itself: any stride, any boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.counting import Counting, sum_counted
from gridsample.kernels.sampling.programs.loads import read_each
from gridsample.kernels.sampling.programs.states import Offsets, value_of
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    AxisTaps,
    Index,
    Orders,
    Outer,
    TapSums,
    added,
    both,
    scatter,
    tables_for_loops,
)
from gridsample.kernels.vector import Pointer, Value


class SingleTaps(NamedTuple):
    """The taps of a group, each of which is read by itself.

    Attributes:
        taps: the taps of each axis, x first.
        offset: the offset to add to those of the taps, or None.
        compact: whether code should be short, as few groups are summed in this way.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[AxisTaps]
    offset: Value | None
    compact: bool
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        pixels, weights = SinglePixels(plane, self.offset, self.compact), None
        if self.counting is not None and self.counting.plane is not None:
            weights = SinglePixels(
                self.counting.plane, value_of(self.counting.offset), pixels.gathers,
                dropped=self.counting.dropped_weight, weighs=True,
            )  # fmt: skip
        return sum_counted(pixels, weights, self.counting, self.taps, dropped, orders)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = SingleAdder(plane, self.offset, self.taps)
        scatter(sums, tables_for_loops(self.taps), shares)


class SinglePixels:
    """Reads every tap by itself: any stride, any boundary.

    Attributes:
        plane: the memory of the plane.
        offset: the offset to add to those of the taps, or None.
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
        converted: Callable[[Value], Value] | None = None,
        dropped: Value | float = 0.0,
        weighs: bool = False,
    ) -> None:
        self.plane, self.offset, self.weighs = plane, offset, weighs
        self.converted = converted or (lambda pixels: pixels.to(plane.function.real))
        self.dropped = dropped
        # Even where a gather instruction is no faster, it is shorter; narrow elements have none.
        self.gathers = compact and plane.kind.bits >= 32 and not plane.kind.packed

    def row(self, outer: Outer, taps: AxisTaps) -> list[Value]:
        """Read the pixels of all taps along x."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, self.offset_of(tap))
            present = both(present, tap.present)
        row = []
        for tap in taps:
            pixels = self.converted(self.read(added(offset, self.offset_of(tap))))
            here = both(present, tap.present)
            if here is not None:
                pixels = here.select(pixels, self.dropped)
            row.append(pixels)
        return row

    def read(self, offset: Value) -> Value:
        """Read a pixel of each point."""
        return self.plane.gather(offset) if self.gathers else read_each(self.plane, Offsets(offset))

    def offset_of(self, tap: Tap) -> Value:
        """Return the offset of a tap."""
        return (
            tap.pixel_weight_offset
            if self.weighs and tap.pixel_weight_offset is not None
            else tap.offset
        )


class SingleAdder:
    """Adds to every tap by itself; points are taken in order, so that sums are reproducible.

    All rows of a slice of taps are added to for one point, and then for the next.  Neighbouring
    points add to the same pixels, and a processor waits for a sum before it adds to it again.

    Attributes:
        plane: the memory of the sums.
        offset: the offset to add to those of the taps, or None.
        rows, width: the numbers of taps along y and x.
        offsets, numbers: for each of them, where to add what, for each point.
    """

    def __init__(self, plane: Pointer, offset: Value | None, taps: Sequence[AxisTaps]) -> None:
        self.plane, self.offset = plane, offset
        self.width, self.rows = len(taps[0]), len(taps[1]) if len(taps) > 1 else 1
        function, size = plane.function, self.rows * self.width
        self.offsets = function.scratch(taps[0][0].offset.kind, size, function.lanes)
        self.numbers = function.scratch(function.real, size, function.lanes)

    def add_row(self, row: Index, outer: Outer, taps: AxisTaps, shares: Sequence[Value]) -> None:
        """Keep what to add for each point to all taps along x; see `end_slice`."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, tap.offset)
            present = both(present, tap.present)
        lanes = self.plane.function.lanes
        for k, (tap, share) in enumerate(zip(taps, shares, strict=True)):
            here = both(present, tap.present)
            place = (row * self.width + k) * lanes
            # A dropped tap adds 0 to the first pixel along its axis, which is of the same item:
            # other threads may add to other items.
            self.offsets.store(added(offset, tap.offset), place, aligned=True)
            number = share if here is None else here.select(share, 0.0)
            self.numbers.store(number, place, aligned=True)

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
            place = point + (row * self.width + k) * lanes
            pixel = self.plane.at(self.offsets.load(place).to("int64"))
            pixel.store(pixel.load() + self.numbers.load(place))
