"""Every tap is read by itself: any stride, any boundary."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import Axis, AxisPosition, AxisRule, Tap
from gridsample.kernels.sampling.programs.counting import (
    Counted,
    Counting,
    Ones,
    numbers_of_dropped,
)
from gridsample.kernels.sampling.programs.loads import read_singles
from gridsample.kernels.sampling.programs.row_sums import Weights
from gridsample.kernels.sampling.programs.sampler import GroupTaps, KnownStrides, Sampler
from gridsample.kernels.sampling.programs.states import State, value_of
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    Orders,
    Reader,
    TapSums,
    added,
    both,
    scatter,
    sum_over_taps,
    tables_for_loops,
    with_dropped,
)
from gridsample.kernels.vector import Pointer, Value


class Stencil(NamedTuple):
    """The taps of a group along one axis, wherever their pixels are.

    Attributes:
        axis: the axis.
        base: the base indices.
        weights: of each tap, its weight and the derivatives of that.
    """

    axis: Axis
    base: Value
    weights: Weights

    @property
    def first(self) -> Value:
        """The index of the first tap."""
        return self.base + self.axis.rule.method.first

    def resolve_boundary(self) -> list[Tap]:
        """Return the taps, with boundaries."""
        return self.axis.resolve_boundary(self.base, self.weights)

    def neighbours(self) -> list[Tap]:
        """Return the taps if all of their pixels are in the image."""
        offsets = [self.axis.offset(self.first + k) for k in range(len(self.weights))]
        return [Tap(offsets[k], None, w, k) for k, w in enumerate(self.weights)]


def are_inside(stencils: Sequence[Stencil], widths: Sequence[int]) -> Value:
    """Whether so many pixels along each axis are in the image, for each point."""
    inside = [
        stencil.axis.inside(stencil.base, width)
        for stencil, width in zip(stencils, widths, strict=True)
    ]
    return functools.reduce(operator.and_, inside)


class Singles(Sampler):
    """Reads every tap by itself, which is always possible."""

    @classmethod
    def applies(
        cls, plan: Plan, rules: Sequence[AxisRule], known: KnownStrides, sweep: str
    ) -> bool:
        """Whether pixels can be read in this way."""
        return True

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add positions to a state."""
        return state._replace(along=tuple(along.position for along in located))

    def prepare(
        self, state: State, derivatives: int = 0, counting: Counting | None = None
    ) -> GroupTaps:
        """Prepare the taps of a state."""
        return self.one_by_one(state, self.stencils(state, derivatives), counting)

    def one_by_one(
        self,
        state: State,
        stencils: Sequence[Stencil],
        counting: Counting | None,
        compact: bool = False,
    ) -> OneByOne:
        """Return the taps with the pixels that boundaries give them."""
        taps = [stencil.resolve_boundary() for stencil in stencils]
        return OneByOne(taps, value_of(state.offset), compact, counting)

    def near(self, state: State) -> Pointer:
        """Return the offset of a pixel near each point of a loaded state, in memory."""
        for axis, located in zip(self.axes, self.axis_positions(state), strict=True):
            state = self.moved(state, axis, axis.first_of_pair(located)[0])
        return super().near(state)

    def axis_positions(self, state: State) -> list[AxisPosition]:
        """Return where a state's points are along each axis."""
        return [
            AxisPosition(position, state.valid, None, slope)
            for position, slope in zip(state.along, self.slopes(state), strict=True)
        ]

    def stencils(self, state: State, derivatives: int) -> list[Stencil]:
        """Return the taps of a state along each axis, wherever their pixels are."""
        stencils = list[Stencil]()
        for axis, located in zip(self.axes, self.axis_positions(state), strict=True):
            base, t = axis.split(located)
            stencils.append(Stencil(axis, base, axis.weights(t, located.slope, derivatives)))
        return stencils

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the taps of a state along each axis, with the derivatives of weights."""
        return [stencil.resolve_boundary() for stencil in self.stencils(state, derivatives)]

    def neighbours(self, state: State, derivatives: int) -> tuple[list[list[Tap]], Value]:
        """Return the taps as neighbouring pixels, and whether they are in the image."""
        stencils = self.stencils(state, derivatives)
        inside = are_inside(stencils, [len(stencil.weights) for stencil in stencils])
        return [stencil.neighbours() for stencil in stencils], inside.all()


class OneByOne(NamedTuple):
    """The taps of a group, each of which is read by itself.

    Attributes:
        taps: the taps of each axis, x first.
        offset: the offset to add to those of the taps, or None.
        compact: whether code should be short, as few groups are summed in this way.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[Sequence[Tap]]
    offset: Value | None
    compact: bool
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        totals = sum_over_taps(self.reader(plane), tables_for_loops(self.taps), orders)
        return with_dropped(totals, self.taps, numbers_of_dropped(dropped, self.counting))

    def reader(self, plane: Pointer) -> Reader:
        """Return what reads pixels, or the numbers of pixels that count differently."""
        pixels = SinglePixels(plane, self.offset, self.compact)
        counting = self.counting
        if counting is None:
            return pixels
        if counting.plane is None:
            return Counted(pixels, Ones(counting.dropped_weight), counting)
        weights = SinglePixels(
            counting.plane, value_of(counting.offset), pixels.gathers,
            dropped=counting.dropped_weight,
        )  # fmt: skip
        weights.reads_pixel_weights = True
        return Counted(pixels, weights, counting)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = SingleSums(plane, self.offset, self.taps)
        scatter(sums, tables_for_loops(self.taps), shares)


class SinglePixels:
    """Reads every tap by itself: any stride, any boundary.

    Attributes:
        plane: the memory of the plane.
        offset: the offset to add to those of the taps, or None.
        dropped: what is read for dropped taps.
        gathers: whether to use gather instructions.
        converted: converts pixels to what is summed.
        reads_pixel_weights: whether the plane has weights of pixels, rather than pixels.
    """

    reads_pixel_weights = False

    def __init__(
        self,
        plane: Pointer,
        offset: Value | None,
        compact: bool,
        converted: Callable[[Value], Value] | None = None,
        dropped: Value | float = 0.0,
    ) -> None:
        self.plane, self.offset = plane, offset
        self.converted = converted or (lambda pixels: pixels.to(plane.function.real))
        self.dropped = dropped
        # A gather instruction is no faster, but shorter, and there is none for narrow elements.
        self.gathers = compact and plane.kind.bits >= 32 and not plane.kind.packed

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the pixels of all taps along x."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, self.offset_of(tap))
            present = both(present, tap.present)
        read = Pointer.gather if self.gathers else read_singles
        row = []
        for tap in taps:
            pixels = self.converted(read(self.plane, added(offset, self.offset_of(tap))))
            here = both(present, tap.present)
            if here is not None:
                pixels = here.select(pixels, self.dropped)
            row.append(pixels)
        return row

    def offset_of(self, tap: Tap) -> Value:
        """Return the offset of a tap."""
        return (
            tap.pixel_weight_offset
            if self.reads_pixel_weights and tap.pixel_weight_offset is not None
            else tap.offset
        )


class SingleSums:
    """Adds to every tap by itself; points are taken in order, so that sums are reproducible.

    All rows of a plane of taps are added to for one point, and then for the next.  Neighbouring
    points add to the same pixels, and a processor waits for a sum before it adds to it again.

    Attributes:
        plane: the memory of the sums.
        offset: the offset to add to those of the taps, or None.
        rows, width: the numbers of taps along y and x.
        offsets, numbers: for each of them, where to add what, for each point.
    """

    def __init__(self, plane: Pointer, offset: Value | None, taps: Sequence[Sequence[Tap]]) -> None:
        self.plane, self.offset = plane, offset
        self.width, self.rows = len(taps[0]), len(taps[1]) if len(taps) > 1 else 1
        function, size = plane.function, self.rows * self.width
        self.offsets = function.scratch(taps[0][0].offset.kind, size, function.lanes)
        self.numbers = function.scratch(function.real, size, function.lanes)

    def add_row(
        self,
        row: int | Value,
        outer: tuple[Tap, ...],
        taps: Sequence[Tap],
        shares: Sequence[Value],
    ) -> None:
        """Keep what to add for each point to all taps along x; see `end_plane`."""
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

    def end_plane(self) -> None:
        """Add to a plane of taps, point after point."""
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
