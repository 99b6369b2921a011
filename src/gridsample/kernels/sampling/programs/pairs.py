"""Taps that are two neighbouring pixels along each axis."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import AxisPosition, Rules, Tap
from gridsample.kernels.sampling.programs.counting import Counting, Kept, sum_counted
from gridsample.kernels.sampling.programs.loads import Strides, read_neighbours
from gridsample.kernels.sampling.programs.sampler import (
    GroupTaps,
    KnownStrides,
    Sampler,
    holds_indices,
)
from gridsample.kernels.sampling.programs.states import Offsets, State
from gridsample.kernels.sampling.programs.sums import (
    AxisTaps,
    Index,
    Orders,
    Outer,
    Reader,
    TapSums,
    both,
    scatter,
)
from gridsample.kernels.vector import Pointer, Value


class Pairs(Sampler):
    """Reads two neighbours along each axis, which are in the image wherever the points are."""

    pixels_of_word = 2

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, known: KnownStrides, operation: str) -> bool:
        """Whether pixels can be read in this way."""
        pairs = plan.spatial[-1] >= 2 and all(rule.allows_pairs for rule in rules)
        return pairs and holds_indices(plan)  # the first pixel is bounded as a real number

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of each point's first pixel, and the distances to it, to a state."""
        state = self.at_cells(located, state)
        # Gradients take longer for adding; a second way would not pay.
        return state._replace(between=None) if self.scatters else state

    def prepare(self, state: State, derivatives: int, counting: Counting | None) -> GroupTaps:
        """Prepare the taps of a state."""

        def prepare(between: bool) -> InPairs:
            taps = self.pairs(state, derivatives, counting is not None, between)
            return InPairs(taps, state.first, self.strides, counting)

        if state.between is None:
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
            return compute(False)
        return function.choose(state.between.all(), lambda: compute(True), anywhere, likely=True)

    def beyond(self, state: State) -> Value | None:
        """Whether points are so far outside the image that no tap counts; None if none are.

        For means it is None, too, as taps outside may count.
        """
        if self.description.operation.startswith("mean"):
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
        averages = self.description.operation in ("means", "mean backward")
        pairs = self.pairs(state, derivatives, averages)
        return [[*map(axis.placed, pair)] for axis, pair in zip(self.axes, pairs, strict=True)]

    def neighbours(self, state: State, derivatives: int) -> tuple[list[list[Tap]], Value]:
        """Return the taps, which are always in the image; some of them may be dropped."""
        return self.taps(state, derivatives), self.function.constant(True, "bool")


class InPairs(NamedTuple):
    """The taps of a group, all of which are two neighbouring pixels of the image along each axis.

    Attributes:
        taps: the taps of each axis, x first.
        first: the offset of each point's first pixel.
        strides: the distances of neighbours.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[AxisTaps]
    first: Offsets
    strides: Strides
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        pixels = PixelPairs(plane, self.first, self.strides)
        counting = self.counting
        weights: Reader | None = None
        if counting is not None and counting.kept is not None:
            weights = Kept(counting.kept)
        elif counting is not None and counting.plane is not None and counting.offset is not None:
            adjacent = self.strides.x is None
            weights = weights_of_pairs(counting, counting.plane, counting.offset, adjacent)
        return sum_counted(pixels, weights, counting, self.taps, dropped, orders)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = RowAdder(plane, self.first.in_memory(), self.strides)
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
    prepare: Callable[[bool], InPairs]

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""

        def sums(between: bool) -> Sequence[Value]:
            return [*self.prepare(between).tap_sums(plane, dropped, orders).values()]

        values = self.sampler.choose_between(self.state, len(orders), sums)
        return dict(zip(orders, values, strict=True))

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        self.prepare(False).scatter(plane, shares)


def weights_of_pairs(
    counting: Counting, plane: Pointer, first: Offsets, adjacent: bool
) -> PixelPairs:
    """Return what reads the weights of pixels; ``adjacent`` if they are neighbours in memory."""
    strides = Strides.of(counting.steps, adjacent)
    return PixelPairs(plane, first, strides, counting.dropped_weight)


class PixelPairs:
    """Reads two neighbouring pixels along x, at once if they are neighbours in memory.

    The offset of a point's first pixel is the same for all rows of taps: rows differ by the address
    they are read from.

    Attributes:
        plane: the memory of the plane.
        offsets: the offsets of each point's first pixel.
        strides: the distances of neighbours.
        dropped: what is read for dropped taps.
    """

    def __init__(
        self, plane: Pointer, offsets: Offsets, strides: Strides, dropped: float = 0.0
    ) -> None:
        self.plane, self.offsets, self.strides = plane, offsets.kept(), strides
        self.function, self.dropped = plane.function, dropped

    def row(self, outer: Outer, taps: AxisTaps) -> list[Value]:
        """Read the two pixels of each point in one row."""
        row, present = row_of(self.plane, outer, self.strides.others)
        pixels = []
        for pixel, tap in zip(self.read(row), taps, strict=True):
            here = both(present, tap.present)
            pixels.append(pixel if here is None else here.select(pixel, self.dropped))
        return pixels

    def read(self, row: Pointer) -> tuple[Value, Value]:
        """Read the pixels and their right neighbours, as real numbers."""
        first, second = read_neighbours(row, self.offsets, self.strides.x)
        return first.to(self.function.real), second.to(self.function.real)


# The most taps of a point for which the loop over points is written out; for which neighbours do
# not follow each other; and that are kept in scratch memory.
UNROLLED, FEW_TAPS, MAX_KEPT = 4, 8, 64


def lane_in_turn(turn: Index, lanes: int) -> Index:
    """Return the lane of the point that is added in a turn: of 8 points, every second one first.

    Neighbouring points add to the same pixels, and a processor waits for a sum before it adds to it
    again.  Points that are further apart use more lines of the cache at a time, of which few fit if
    the rows of an image are a power of two long.
    """
    block = min(8, lanes)
    if block < 4:
        return turn
    second = turn >> (block.bit_length() - 2)
    return (turn & -block) | ((turn << 1) & (block - 1)) | (second & 1)


class RowAdder:
    """Adds to neighbouring pixels along x in each row, where all taps' pixels are in the image.

    Attributes:
        plane: the memory of the sums.
        offsets: the offset of each point's first tap, in memory.
        strides: the distances of neighbours.
    """

    def __init__(self, plane: Pointer, offsets: Pointer, strides: Strides) -> None:
        self.plane, self.offsets, self.strides = plane, offsets, strides
        self.rows: list[tuple[Pointer, list[Pointer]]] = []

    def add_row(self, row: Index, outer: Outer, taps: AxisTaps, shares: Sequence[Value]) -> None:
        """Keep the numbers of a row until those of all rows are known; see `finish`."""
        memory, present = row_of(self.plane, outer, self.strides.others)
        numbers = []
        for tap, share in zip(taps, shares, strict=True):
            here = both(present, tap.present)
            number = share if here is None else here.select(share, 0.0)
            numbers.append(self.plane.function.spill(number))
        self.rows.append((memory, numbers))

    def end_slice(self) -> None:
        """Keep a slice, too; see `finish`."""

    def finish(self) -> None:
        """Add all rows, point after point."""
        function, lanes = self.plane.function, self.plane.function.lanes
        taps = sum(len(numbers) for _, numbers in self.rows)
        if taps <= UNROLLED:
            for turn in range(lanes):
                self.add_point(lane_in_turn(turn, lanes))
            return
        with function.loop(0, lanes) as loop:
            few = taps <= FEW_TAPS
            self.add_point(lane_in_turn(loop.index, lanes) if few else loop.index)

    def add_point(self, lane: int | Value) -> None:
        """Add the numbers of one point."""
        offset = self.offsets.load(lane).to("int64")
        for row, numbers in self.rows:
            first = row.at(offset)
            for k, number in enumerate(numbers):
                pixel = first.at(k if self.strides.x is None else self.strides.x * k)
                pixel.store(pixel.load() + number.load(lane))


def row_of(plane: Pointer, outer: Outer, steps: Sequence[Value]) -> tuple[Pointer, Value | None]:
    """Return the memory of a row of pixels, and whether its taps are present along other axes."""
    present = None
    # The outermost axis comes first in `outer`.
    for tap, step in zip(outer, reversed(steps), strict=True):
        if tap.number:
            plane = plane.at(step * tap.number)
        present = both(present, tap.present)
    return plane, present
