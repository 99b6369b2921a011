"""Taps that are neighbouring pixels: two along each axis, wherever points are (`Pairs`).

What reads and adds to neighbours also serves `rows`, for points whose taps are all in the image.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import AxisPosition, Rules, Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.loads import (
    NeighbourLayout,
    Strides,
    read_numbers,
    spill_numbers,
)
from gridsample.kernels.sampling.programs.operation import Operation
from gridsample.kernels.sampling.programs.sampler import KnownPixels, Sampler, holds_indices
from gridsample.kernels.sampling.programs.singles import sum_counted
from gridsample.kernels.sampling.programs.states import Offsets, State
from gridsample.kernels.sampling.programs.sums import (
    AxisTaps,
    GroupTaps,
    Index,
    Numbers,
    Orders,
    Outer,
    Reader,
    TapSums,
    both,
    scatter,
)
from gridsample.kernels.vector import Pointer, Value, host


class Pairs(Sampler):
    """Reads two neighbours along each axis, which are in the image wherever the points are."""

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, pixels: KnownPixels, operation: Operation) -> bool:
        """Whether pixels can be read in this way."""
        pairs = plan.spatial[-1] >= 2 and all(rule.allows_pairs for rule in rules)
        return pairs and holds_indices(plan)  # the first pixel is bounded as a real number

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of each point's first pixel, and the distances to it, to a state."""
        state = self.at_cells(located, state)
        # Gradients take longer for adding; a second way would not pay.  In volumes, wide registers
        # hold what it saves: 0.78 to 0.82 of the time without it.
        wide = len(self.axes) > 2 and host().bits == 512
        return state._replace(between=None) if self.differentiates or wide else state

    def prepare(self, state: State, derivatives: int, counting: Counting | None) -> GroupTaps:
        """Prepare the taps of a state."""

        def prepare(between: bool) -> Neighbours:
            taps = self.pairs(state, derivatives, counting is not None, between)
            return Neighbours(taps, state.first, self.neighbours_in_memory, counting)

        if self.differentiates:
            return prepare(False)
        return BetweenOrNot(self, state, prepare)

    def choose_between(
        self, state: State, count: int, compute: Callable[[bool], Sequence[Value]]
    ) -> Sequence[Value]:
        """Return sums over the taps of a state, which are simpler if all points are between pixels.

        Args:
            state: the state.
            count: how many sums there are.
            compute: computes them; its argument says whether all points are between their two
                pixels.  Both ways give the same bits, but for zeros of points beyond the image,
                which are made positive.
        """
        function = self.function

        def anywhere() -> Sequence[Value]:
            beyond = self.beyond(state)
            if beyond is None:
                return compute(False)
            zeros = [function.constant(0.0, function.real, function.lanes)] * count
            return function.choose(
                beyond.all(),
                lambda: zeros,
                lambda: [beyond.select(0.0, total) for total in compute(False)],
            )

        if state.between is None:
            return anywhere()
        return function.choose(state.between.all(), lambda: compute(True), anywhere, likely=True)

    def beyond(self, state: State) -> Value | None:
        """Whether points are so far outside the image that no tap counts; None if none are.

        For means it is None, too, as taps outside may count.
        """
        if self.description.operation.counts:
            return None
        if self.description.tap_rule.filled:
            return state.outside  # where samples are the fill value, whatever the sums are
        conditions = [
            (distance < -1.0) | (distance >= 2.0)
            for axis, distance in zip(self.axes, state.along, strict=True)
            if axis.rule.drops
        ]
        return functools.reduce(operator.or_, conditions) if conditions else None

    def near(self, state: State) -> Pointer:
        """Return the offset of each point's first pixel, in memory."""
        return state.first.in_memory()

    def pairs(
        self, state: State, derivatives: int, partition: bool, between: bool = False
    ) -> list[list[Tap]]:
        """Return the taps of pairs along each axis; see `Axis.taps_of_pair`."""
        slopes = self.slopes(state)
        return [
            axis.taps_of_pair(distance, slope, derivatives, partition, between)
            for axis, distance, slope in zip(self.axes, state.along, slopes, strict=True)
        ]

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the taps of a state along each axis, with the derivatives of weights."""
        pairs = self.pairs(state, derivatives, self.description.operation.counts)
        return [[*map(axis.placed, pair)] for axis, pair in zip(self.axes, pairs, strict=True)]


class Neighbours(NamedTuple):
    """The taps of a group, all of which are neighbouring pixels of the image along each axis.

    Attributes:
        taps: the taps of each axis, x first.
        first: the offset of each point's first pixel.
        layout: where neighbours are.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[AxisTaps]
    first: Offsets
    layout: NeighbourLayout
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        pixels, counting = PixelNeighbours(plane, self.first, self.layout), self.counting
        weights: Reader | None = None
        if counting is not None and counting.plane is not None and counting.offset is not None:
            adjacent = self.layout.steps.x is None
            weights = PixelNeighbours(
                counting.plane,
                counting.offset,
                NeighbourLayout(Strides.of(counting.counts.strides, adjacent)),
                counting.counts.dropped_weight,
            )
        return sum_counted(pixels, weights, counting, self.taps, dropped, orders)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        # Their memory is at a fixed place, as loops with many taps run out of registers.
        many = math.prod(map(len, self.taps)) > FEW_TAPS
        offsets = plane.function.spill(self.first.value) if many else self.first.in_memory()
        sums = NeighbourAdder(plane, offsets, self.layout)
        scatter(sums, self.taps, shares)
        sums.finish()


class BetweenOrNot(NamedTuple):
    """The taps of a group, which are simpler if all points are between their two pixels.

    Attributes:
        sampler: what reads pairs.
        state: the state of the group.
        prepare: prepares the taps if all points are between pixels, or wherever they are.
    """

    sampler: Pairs
    state: State
    prepare: Callable[[bool], Neighbours]

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane."""

        def sums(between: bool) -> Sequence[Value]:
            return [*self.prepare(between).tap_sums(plane, dropped, orders).values()]

        values = self.sampler.choose_between(self.state, len(orders), sums)
        return dict(zip(orders, values, strict=True))

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        self.prepare(False).scatter(plane, shares)


class PixelNeighbours:
    """Reads neighbouring pixels along x, at once if they are neighbours in memory.

    The offset of a point's first pixel is the same for all rows of taps: rows differ by the address
    they are read from.

    Attributes:
        plane: the memory of the plane.
        offsets: the offsets of each point's first pixel.
        layout: where neighbours are.
        dropped: what is read for dropped taps.
    """

    def __init__(
        self, plane: Pointer, offsets: Offsets, layout: NeighbourLayout, dropped: float = 0.0
    ) -> None:
        self.plane, self.layout = plane, layout
        self.function, self.dropped = plane.function, dropped
        self.offsets = offsets.kept()

    def row(self, outer: Outer, taps: AxisTaps) -> list[Numbers]:
        """Read the pixels of each point in one row."""
        row, present = row_of(self.plane, outer, self.layout.steps.others)
        pixels = list[Numbers]()
        for pixel, tap in zip(self.read(row, len(taps)), taps, strict=True):
            here = both(present, tap.present)
            pixels.append(tuple(n if here is None else here.select(n, self.dropped) for n in pixel))
        return pixels

    def read(self, row: Pointer, count: int) -> list[Numbers]:
        """Read the pixels and their right neighbours, as real numbers."""
        (step, _), channels, real = self.layout.steps, self.layout.channels, self.function.real
        if step is None:
            fills = self.layout.fills_words
            numbers = read_numbers(row, self.offsets, count * channels, fills)
        else:
            numbers = list[Value]()
            for k in range(count):
                memory = row.at(step * k) if k else row
                numbers += read_numbers(memory, self.offsets, channels)
        reals = [number.to(real) for number in numbers]
        return [tuple(reals[k : k + channels]) for k in range(0, len(reals), channels)]


# The most taps of a point for which the loop over points is written out; those from which their
# memory is at a fixed place; and that are kept in scratch memory.
UNROLLED, FEW_TAPS, MAX_KEPT = 4, 8, 64


class NeighbourAdder:
    """Adds to neighbouring pixels along x in each row, where all taps' pixels are in the image.

    Attributes:
        plane: the memory of the sums.
        offsets: the offset of each point's first tap, in memory.
        layout: where neighbours are.
    """

    def __init__(self, plane: Pointer, offsets: Pointer, layout: NeighbourLayout) -> None:
        self.plane, self.offsets, self.layout = plane, offsets, layout
        self.rows: list[tuple[Pointer, list[tuple[Pointer, int]]]] = []

    def add_row(self, row: Index, outer: Outer, taps: AxisTaps, shares: Sequence[Numbers]) -> None:
        """Keep the numbers of a row until those of all rows are known; see `finish`."""
        memory, present = row_of(self.plane, outer, self.layout.steps.others)
        kept = []
        for tap, numbers in zip(taps, shares, strict=True):
            here = both(present, tap.present)
            kept.append(
                spill_numbers([n if here is None else here.select(n, 0.0) for n in numbers])
            )
        self.rows.append((memory, kept))

    def end_slice(self) -> None:
        """Keep a slice, too; see `finish`."""

    def finish(self) -> None:
        """Add all rows, point after point."""
        function, lanes = self.plane.function, self.plane.function.lanes
        taps = sum(len(numbers) for _, numbers in self.rows)
        if taps <= UNROLLED:
            for lane in range(lanes):
                self.add_point(lane)
            return
        with function.loop(0, lanes) as loop:
            self.add_point(loop.index)

    def add_point(self, lane: int | Value) -> None:
        """Add the numbers of one point."""
        offset = self.offsets.load(lane).to("int64")
        (step, _), channels = self.layout.steps, self.layout.channels
        for row, kept in self.rows:
            first = row.at(offset)
            for k, (numbers, distance) in enumerate(kept):
                pixel = first.at(channels * k if step is None else step * k)
                number = numbers.load(lane * distance, channels)
                pixel.store(pixel.load(0, channels) + number)


def row_of(plane: Pointer, outer: Outer, steps: Sequence[Value]) -> tuple[Pointer, Value | None]:
    """Return the memory of a row of pixels, and whether its taps are present along other axes."""
    present = None
    # The outermost axis comes first in `outer`.
    for tap, step in zip(outer, reversed(steps), strict=True):
        if isinstance(tap.number, Value) or tap.number:
            plane = plane.at(step * tap.number)
        present = both(present, tap.present)
    return plane, present
