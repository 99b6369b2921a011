"""What happens to a group of points between their coordinates and their sums.

A group has W points, as many as a register has lanes.
A sampler has two steps.  `Sampler.locate` turns coordinates into a *state*: a few values for each
point that all planes share.  `Sampler.tap_sums` reads the pixels of one plane at these points and
sums them.  Between the two, states wait in scratch memory (`States`) while the planes take turns.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from gridsample.definitions import axis as formulas
from gridsample.kernels.sampling.programs.axes import Axis, AxisPosition, AxisRule, Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.edge_rows import AtEdges, has_window
from gridsample.kernels.sampling.programs.points import STRIP, Group, PointSource, offset_kind
from gridsample.kernels.sampling.programs.reading import (
    COPIES,
    PAIRS,
    ROWS,
    SINGLES,
    WRITTEN_OUT,
    Orders,
    TapSums,
    added,
    both,
)
from gridsample.kernels.sampling.programs.rows import Weights, row_length
from gridsample.kernels.sampling.programs.ways import Either, InPairs, InRows, OneByOne, Way
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

# The most taps of a point that are added to from scratch memory at once.
MOST_SPILLED = 64


class State(NamedTuple):
    """What the points of a group need for every plane; which of it there is depends on the program.

    Attributes:
        valid: whether the point has a result: otherwise it is NaN, or the fill value, as one of its
            coordinates is NaN or infinite.
        outside: whether the result is the fill value, because the point is outside the image.
        positions: the positions along each axis, x first.
        distances: instead, if pixels are read as pairs, the distances to the first pixel.
        slopes: d position / d coordinate along each axis, None where it is the same everywhere.
        offset: the offset to add to those of the taps, or of the first pixel of a pair.
        weight_offset: the same in the weights of pixels.
        tangents: the directions in which points move, for second derivatives.
        fractions: where a sample is along each of its footprint's sides, from -1/2 to 1/2.
        offset_memory: where `offset` is in memory, once the state has been loaded.
        weight_offset_memory: where `weight_offset` is.
    """

    valid: Value
    outside: Value | None = None
    positions: tuple[Value, ...] = ()
    distances: tuple[Value, ...] = ()
    slopes: tuple[Value | None, ...] = ()
    offset: Value | None = None
    weight_offset: Value | None = None
    tangents: tuple[Value, ...] = ()
    fractions: tuple[Value, ...] = ()
    offset_memory: Pointer | None = None
    weight_offset_memory: Pointer | None = None


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        sweep: what is computed: "gather", ...
        axes: what happens along each axis, x first.
        points: where points come from.
        image: the name of the kind of the pixels.
        values: the name of the kind of the results, or of the upstream gradients.
        real: the name of the kind of positions, weights and sums.
        reading: how pixels are read.
        known: what is known of strides.
        tap_rule: what taps count for.
        needs: what a sweep computes, if it has a choice: sums of weights ("means"); the gradients
            of the image, of the grid, and of weights ("mean backward") or of values, of which there
            may be upstream gradients ("double backward").
    """

    sweep: str
    axes: tuple[AxisRule, ...]
    points: PointSource
    image: str
    values: str
    real: str
    reading: str
    known: KnownStrides
    tap_rule: TapRule
    needs: tuple[bool, ...] = ()


class TapRule(NamedTuple):
    """What the taps of a program count for.

    Attributes:
        filled: whether dropped taps have a value other than 0.
        drops: whether they count for nothing, in means.
        ignores: whether pixels that are NaN count for nothing, in means.
        weight_kind: the name of the kind of the weights of pixels, or empty if there are none.
        shared: whether all channels of a run share these weights, or several planes, which are all
            of an item.
    """

    filled: bool
    drops: bool = False
    ignores: bool = False
    weight_kind: str = ""
    shared: bool = False

    @property
    def differ(self) -> bool:
        """Whether taps count differently: by the weights of pixels, or because they are dropped."""
        return bool(self.weight_kind) or self.drops


class KnownStrides(NamedTuple):
    """What is known of arrays when a program is compiled: strides, mostly.

    Attributes:
        x_contiguous: whether neighbours along x are neighbours in memory: numbers, or pixels of
            several channels.
        contiguous: whether the values of neighbouring points are neighbours in memory.
        wide: whether offsets of pixels need int64.
        channels: how many channels, which are neighbours in memory, are processed together: all, or
            a multiple of the lanes.
        parts: whether channels are the parts of complex numbers.
        words: whether all channels of a run's pixel, or of two, are read as one word.
    """

    x_contiguous: bool
    contiguous: bool
    wide: bool
    channels: int = 1
    parts: bool = False
    words: bool = False


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


class Sampler:
    """Writes how the points of a group are sampled.

    Attributes:
        axes: the axes, x first.
    """

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        known = description.known
        self.index = offset_kind(known.wide)
        self.real = kind_of(description.real)
        self.axes = [
            Axis(function, rule, call.sizes[a], call.strides[a], self.index)
            for a, rule in enumerate(description.axes)
        ]
        self.axes[0].unit_stride = known.x_contiguous and known.channels == 1
        if description.tap_rule.weight_kind:
            for axis, stride in zip(self.axes, call.weights_strides, strict=True):
                axis.pixel_weight_stride = stride.to(self.index).splat(function.lanes)
        counts = description.sweep.startswith("mean")  # dropped taps, too
        for axis in self.axes:
            drops = axis.rule.drops and (counts or description.tap_rule.filled)
            axis.merges = axis.rule.single and not (drops or axis.rule.method.votes)
        # Upstream values of points without taps count for nothing; means of none are not divided;
        # runs of none are not read, point by point.
        if self.scatters or description.sweep == "means" or known.channels > 1:
            for axis in self.axes:
                zeros = axis.rule.boundary.code == formulas.ZEROS
                axis.notes_missed |= zeros and axis.rule.fill_is_constant

    # First step -----------------------------------------------------------------------------------

    def locate(self, coordinates: Sequence[Value], group: Group) -> State:
        """Convert the coordinates of a group to its state."""
        axis_positions = [
            axis.locate(coordinate) for axis, coordinate in zip(self.axes, coordinates, strict=True)
        ]
        valid = functools.reduce(operator.and_, [located.valid for located in axis_positions])
        outside = [located.outside for located in axis_positions if located.outside is not None]
        state = State(valid, functools.reduce(operator.or_, outside) if outside else None)
        if group.listed:
            item = group.item.to(self.index)
            state = state._replace(offset=item * self.call.image_item.to(self.index))
            if self.description.tap_rule.weight_kind:
                state = state._replace(weight_offset=item * self.call.weights_item.to(self.index))
        if self.differentiates:
            folds = [axis.rule.folds for axis in self.axes]
            slopes = [p.slope if f else None for p, f in zip(axis_positions, folds, strict=True)]
            state = state._replace(slopes=tuple(slopes))
        if self.description.reading == COPIES:
            return self.locate_pixel(axis_positions, state)
        if self.description.reading == PAIRS:
            return self.locate_pairs(axis_positions, state)
        return state._replace(positions=tuple(located.position for located in axis_positions))

    @property
    def differentiates(self) -> bool:
        """Whether slopes are needed."""
        return self.scatters or any(rule.order for rule in self.description.axes)

    @property
    def scatters(self) -> bool:
        """Whether the sweep computes gradients."""
        return self.description.sweep.endswith("backward")

    def locate_pixel(self, axis_positions: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of the pixel that each point copies, and which points copy none."""
        offset, present = None, None
        for axis, located in zip(self.axes, axis_positions, strict=True):
            (tap,) = axis.taps(located)
            offset = added(offset, tap.offset)
            present = both(present, tap.present)
        assert offset is not None
        if present is not None:
            # Those outside all read one pixel, which is in cache.
            offset = present.select(offset, 0)
            missed = ~present if state.outside is None else ~present | state.outside
            state = state._replace(outside=missed)
        return state._replace(offset=added(state.offset, offset))

    def locate_pairs(self, axis_positions: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of each point's first pixel, and the distances to it."""
        distances = list[Value]()
        for axis, located in zip(self.axes, axis_positions, strict=True):
            index, distance = axis.first_of_pair(located)
            distances.append(distance)
            state = self.moved(state, axis, index)
        return state._replace(distances=tuple(distances))

    def moved(self, state: State, axis: Axis, index: Value) -> State:
        """Return a state that is some pixels further, in the image and in the weights."""
        state = state._replace(offset=added(state.offset, axis.offset(index)))
        stride = axis.pixel_weight_stride
        if stride is None:
            return state
        return state._replace(weight_offset=added(state.weight_offset, index * stride))

    # Second step ----------------------------------------------------------------------------------

    def way(self, state: State, derivatives: int = 0, counting: Counting | None = None) -> Way:
        """Prepare the taps of a state, with the derivatives of weights up to an order.

        With ``counting``, the weights of all taps sum to one, those of dropped taps included.
        """
        if self.description.reading == PAIRS:
            taps = self.pair_taps(state, derivatives, counting is not None)
            assert state.offset_memory is not None
            return InPairs(taps, state.offset_memory, self.call.strides[1:], counting)
        stencils = self.stencils(state, derivatives)

        def general() -> Way:
            compact = self.description.reading == ROWS
            taps = [stencil.resolve_boundary() for stencil in stencils]
            one_by_one = OneByOne(taps, state.offset, compact, counting)
            # In float64, 16 taps are read faster one by one.
            many = self.real.bits < 64 or math.prod(map(len, taps)) > WRITTEN_OUT
            in_rows = compact and many and not self.rows_are_pairs and has_window(self.axes[0])
            return AtEdges(self.axes[0], one_by_one) if in_rows else one_by_one

        if self.description.reading == SINGLES:
            return general()
        widths = [len(stencil.weights) for stencil in stencils]
        row = widths[0] if self.rows_are_pairs else row_length(widths[0])
        inside = are_inside(stencils, [row, *widths[1:]])
        return Either(
            inside,
            lambda: self.in_rows(state, stencils, counting, inside),
            general,
            math.prod(widths) <= MOST_SPILLED,
        )

    def first_offsets(self, state: State) -> Pointer:
        """Return the offset of a pixel near each point of a loaded state, in memory."""
        if self.description.reading not in (COPIES, PAIRS):
            for axis, located in zip(self.axes, self.axis_positions(state), strict=True):
                state = self.moved(state, axis, axis.first_of_pair(located)[0])
            assert state.offset is not None
            return self.function.spill(state.offset)
        assert state.offset_memory is not None
        return state.offset_memory

    def pair_taps(self, state: State, derivatives: int, partition: bool) -> list[list[Tap]]:
        """Return the taps of pairs along each axis; see `Axis.taps_of_pair`."""
        slopes = self.slopes(state)
        return [
            axis.taps_of_pair(distance, slope, derivatives, partition)
            for axis, distance, slope in zip(self.axes, state.distances, slopes, strict=True)
        ]

    def slopes(self, state: State) -> list[Value]:
        """Return the derivatives of positions along each axis with respect to coordinates."""
        slopes = state.slopes or [None] * len(self.axes)
        return [
            axis.pixels_per_unit() if slope is None else slope
            for axis, slope in zip(self.axes, slopes, strict=True)
        ]

    def axis_positions(self, state: State) -> list[AxisPosition]:
        """Return where a state's points are along each axis, if there are positions."""
        slopes = self.slopes(state)
        return [
            AxisPosition(position, state.valid, None, slope)
            for position, slope in zip(state.positions, slopes, strict=True)
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
        if self.description.reading == PAIRS:
            averages = self.description.sweep in ("means", "mean backward")
            pairs = self.pair_taps(state, derivatives, averages)
            return [[*map(axis.placed, pair)] for axis, pair in zip(self.axes, pairs, strict=True)]
        return [stencil.resolve_boundary() for stencil in self.stencils(state, derivatives)]

    def neighbours(self, state: State, derivatives: int) -> tuple[list[list[Tap]], Value]:
        """Return the taps as neighbouring pixels, and whether they are in the image.

        Pairs always are, but some of their taps may be dropped.
        """
        if self.description.reading == PAIRS:
            return self.taps(state, derivatives), self.function.constant(True, "bool")
        stencils = self.stencils(state, derivatives)
        inside = are_inside(stencils, [len(stencil.weights) for stencil in stencils])
        return [stencil.neighbours() for stencil in stencils], inside.all()

    @property
    def rows_are_pairs(self) -> bool:
        """Whether rows are pairs: there are two taps along x, and at most two along others."""
        widths = [axis.rule.method.taps for axis in self.axes]
        return widths[0] == 2 and max(widths) == 2

    def in_rows(
        self,
        state: State,
        stencils: Sequence[Stencil],
        counting: Counting | None,
        inside: Value,
    ) -> Way:
        """Prepare taps that are neighbouring pixels of the image, for the points inside.

        Other points read its first pixels.
        """
        for stencil in stencils:
            first = inside.select(stencil.first, 0)
            state = self.moved(state, stencil.axis, first)
        assert state.offset is not None
        offsets = self.function.spill(state.offset)
        if counting is not None:
            counting = counting._replace(offset=state.weight_offset, offset_memory=None)
        weights = [stencil.weights for stencil in stencils]
        if not self.rows_are_pairs:
            return InRows(weights, offsets, self.call.strides, counting)
        zero = self.function.constant(0, self.index, self.function.lanes)
        taps = [[Tap(zero, None, w, k) for k, w in enumerate(pair)] for pair in weights]
        return InPairs(taps, offsets, self.call.strides[1:], counting)

    def tap_sums(self, way: Way, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane, for several orders of derivatives; some may vanish."""
        orders = [order for order in orders if not self.vanishes(order)]
        return way.tap_sums(plane, dropped, orders) if orders else {}

    def scatter(self, way: Way, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane; the transpose of `tap_sums`."""
        shares = {order: share for order, share in shares.items() if not self.vanishes(order)}
        if shares:
            way.scatter(plane, shares)

    def vanishes(self, order: tuple[int, ...]) -> bool:
        """Whether the weights' derivatives of an order are all zero."""
        return any(
            axis.rule.order + n >= axis.rule.method.powers > 0 and axis.rule.order + n > 0
            for axis, n in zip(self.axes, order[-len(self.axes) :], strict=True)
        )


class States:
    """Scratch memory for the states of a strip's groups."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.groups = STRIP // function.lanes
        self.memory: Any = None  # a state with memory in place of each value
        # The integer whose bits hold a condition, if there is one: memory in cache is scarce.
        self.bits = f"uint{function.lanes}" if function.lanes >= 8 else None

    def save(self, number: Value, state: State) -> None:
        """Store the state of a group of the strip."""
        state = map_values(self.packed, state)
        if self.memory is None:
            self.memory = map_values(self.reserved, state)
        for memory, value in zip(values_of(self.memory), values_of(state), strict=True):
            memory.store(value, number * value.lanes, aligned=True)

    def load(self, number: Value) -> State:
        """Read the state of a group of the strip."""
        state: State = map_values(functools.partial(self.read, number), self.memory)
        offset_memory, weight_offset_memory = (
            None if memory is None else memory.at(number * self.function.lanes)
            for memory in (self.memory.offset, self.memory.weight_offset)
        )
        return state._replace(
            valid=self.unpacked(state.valid),
            outside=None if state.outside is None else self.unpacked(state.outside),
            offset_memory=offset_memory,
            weight_offset_memory=weight_offset_memory,
        )

    def packed(self, value: Value) -> Value:
        """Return a value as it is stored."""
        value = value.splat(self.function.lanes)
        if value.kind.name != "bool":
            return value
        return value.bitcast(self.bits) if self.bits else value.to("int32")

    def unpacked(self, condition: Value) -> Value:
        """Return a condition from what is stored."""
        if self.bits:
            return condition.bitcast("bool", self.function.lanes)
        return condition != 0

    def reserved(self, value: Value) -> Pointer:
        """Reserve memory for a value of all groups."""
        return self.function.scratch(value.kind, self.groups, value.lanes)

    def read(self, number: Value, memory: Pointer) -> Value:
        """Read a value of a group."""
        lanes = 1 if memory.kind.name == self.bits else self.function.lanes
        return memory.load(number * lanes, lanes, aligned=True)


def values_of(state: State) -> list[Any]:
    """Return the values that a state has."""
    fields = [field if isinstance(field, tuple) else (field,) for field in state]
    return [value for field in fields for value in field if value is not None]


def map_values(function: Callable[[Any], Any], state: State) -> Any:
    """Return a state with the results of a function in place of the values that it has."""

    def apply(field: Any) -> Any:
        if isinstance(field, tuple):
            return tuple(map(apply, field))
        return None if field is None else function(field)

    return State(*map(apply, state))
