"""What happens to a group of points between their coordinates and their sums.

A group has W points, as many as one register or a few have lanes.  A sampler has two steps.
`Sampler.locate` turns coordinates into a *state*: a few values for each point that all planes
share.  `Sampler.prepare` turns a state into the taps of the group, from which `Sampler.tap_sums`
reads the pixels of one plane and sums them, and to which `Sampler.scatter` adds.  Between the two,
states wait in scratch memory (`States`) while the planes take turns.

How pixels are read is the business of the subclasses, which `ways` lists.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import (
    Axis,
    AxisPixels,
    AxisPosition,
    AxisRule,
    Rules,
    Tap,
)
from gridsample.kernels.sampling.programs.counting import Counting, TapRule
from gridsample.kernels.sampling.programs.groups import Group
from gridsample.kernels.sampling.programs.loads import NeighbourLayout, Strides
from gridsample.kernels.sampling.programs.operation import Needs, Operation
from gridsample.kernels.sampling.programs.points import PointSource, offset_kind
from gridsample.kernels.sampling.programs.searches import KnotsInMemory
from gridsample.kernels.sampling.programs.singles import SingleTaps
from gridsample.kernels.sampling.programs.states import Offsets, State, further, value_of
from gridsample.kernels.sampling.programs.sums import (
    GroupTaps,
    Orders,
    TapSums,
    Weights,
    both,
)
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value, kind_of


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        operation: what is computed.
        needs: which of its choices are needed; and, where pixels count, "weighed" if they have
            weights, "plain" if plain sums tell what is missing.
        footprints: whether points are sampled over their footprints.
        axes: what happens along each axis, x first.
        points: where points come from.
        image: the name of the kind of the pixels.
        values: the name of the kind of the results, or of the upstream gradients.
        real: the name of the kind of positions, weights and sums.
        way: how pixels are read; see `ways`.
        pixels: what is known of pixels in memory.
        tap_rule: what taps count for.
    """

    operation: Operation
    needs: Needs
    footprints: bool
    axes: tuple[AxisRule, ...]
    points: PointSource
    image: str
    values: str
    real: str
    way: type[Sampler]
    pixels: KnownPixels
    tap_rule: TapRule


class KnownPixels(NamedTuple):
    """What is known of pixels, and of the values of points, when a program is compiled.

    Attributes:
        x_contiguous: whether neighbours along x are neighbours in memory: numbers, or pixels of
            several channels.
        contiguous: whether the values of neighbouring points are neighbours in memory, in a list
            of points also those of two items.
        wide: whether offsets of pixels are int64: they need it, or an axis is too long for real
            numbers to hold the index of each pixel (`holds_indices`).
        channels: how many channels, which are neighbours in memory, are processed together.
        in_lanes: whether lanes are these channels, rather than points.
        apart: whether the values of points are planes, although channels are neighbours.
        parts: whether channels are the parts of complex numbers.
        fills_words: whether rows of the image are at least as long as a word, and follow each other
            upwards in memory.
        keeps_weights: whether the weights of taps that are read in rows are computed once for all
            planes.
    """

    x_contiguous: bool
    contiguous: bool
    wide: bool
    channels: int = 1
    in_lanes: bool = False
    apart: bool = False
    parts: bool = False
    fills_words: bool = False
    keeps_weights: bool = False


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


def are_inside(stencils: Sequence[Stencil], widths: Sequence[int]) -> Value:
    """Whether so many pixels along each axis are in the image, for each point."""
    inside = [s.axis.inside(s.base, width) for s, width in zip(stencils, widths, strict=True)]
    return functools.reduce(operator.and_, inside)


def holds_indices(plan: Plan) -> bool:
    """Whether the real numbers of a plan hold the index of each pixel exactly."""
    return max(plan.spatial) <= 1 << (24 if plan.real.itemsize == 4 else 53)


class Sampler:
    """Writes how the points of a group are sampled: every tap is read by itself.

    This is always possible.  Subclasses read pixels in faster ways.

    Attributes:
        axes: the axes, x first.
        channels: how many numbers a pixel has, if lanes are points.
    """

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        self.function, self.description, self.call = function, description, call
        self.offset_kind = offset_kind(description.pixels.wide)
        self.real, pixels = kind_of(description.real), description.pixels
        self.channels = 1 if pixels.in_lanes else pixels.channels
        self.axes = self.describe_axes()

    def describe_axes(self) -> list[Axis]:
        """Return the axes, x first."""
        function, call, rule = self.function, self.call, self.description.tap_rule
        known, operation = self.description.pixels, self.description.operation
        kind, lanes = self.offset_kind, function.lanes
        pixels = [
            AxisPixels(
                size.to(kind).splat(lanes),
                stride.to(kind).splat(lanes),
                (size - 1).to(function.real).splat(lanes),
            )
            for size, stride in zip(call.sizes, call.strides, strict=True)
        ]
        if rule.weight_kind:
            pixels = [
                along._replace(weight_stride=stride.to(kind).splat(lanes))
                for along, stride in zip(pixels, call.weights_strides, strict=True)
            ]
        # Where points have no taps, upstream values count for nothing, means are not divided, and
        # pixels whose channels are lanes, which are read point by point, need not be read.  Along a
        # very long axis, real numbers round distant positions to a pixel when these are confined.
        skips = self.differentiates or operation.counts or known.in_lanes or known.wide
        return [
            Axis(
                function,
                axis_rule,
                pixels[a],
                knots=KnotsInMemory.of(call, a, axis_rule.interval_taps)
                if axis_rule.has_knots
                else None,
                unit_stride=a == 0 and known.x_contiguous and known.channels == 1,
                skips_missed=skips,
                counts_dropped=operation.counts or rule.filled,
            )
            for a, axis_rule in enumerate(self.description.axes)
        ]

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, pixels: KnownPixels, operation: Operation) -> bool:
        """Whether pixels can be read in this way."""
        return True

    @property
    def differentiates(self) -> bool:
        """Whether the operation computes gradients: see `Operation.differentiates`."""
        return self.description.operation.differentiates

    @property
    def strides(self) -> Strides:
        """The distances of neighbouring pixels."""
        return Strides.of(self.call.strides, self.description.pixels.x_contiguous)

    @property
    def neighbours_in_memory(self) -> NeighbourLayout:
        """Where the neighbours of a pixel are."""
        fills_words = self.description.pixels.fills_words
        return NeighbourLayout(self.strides, self.channels, fills_words)

    # First step -----------------------------------------------------------------------------------

    def locate(self, coordinates: Sequence[Value], group: Group) -> State:
        """Convert the coordinates of a group to its state; see `Axis.locate`."""
        located = [axis.locate(x) for axis, x in zip(self.axes, coordinates, strict=True)]
        valid = functools.reduce(operator.and_, [along.valid for along in located])
        outside = [along.outside for along in located if along.outside is not None]
        state = State(valid, functools.reduce(operator.or_, outside) if outside else None)
        if group.listed:
            item = group.item.to(self.offset_kind)
            state = state._replace(offset=Offsets(item * self.call.image_item.to(self.offset_kind)))
            if self.description.tap_rule.weight_kind:
                begin = item * self.call.weights_item.to(self.offset_kind)
                state = state._replace(weight_offset=Offsets(begin))
        if self.differentiates or any(rule.order for rule in self.description.axes):
            slopes = [
                along.slope if axis.rule.slope_varies else None
                for axis, along in zip(self.axes, located, strict=True)
            ]
            state = state._replace(slopes=tuple(slopes))
        return self.locate_taps(located, state)

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add positions to a state."""
        return state._replace(along=tuple(along.position for along in located))

    def moved(self, state: State, axis: Axis, index: Value) -> State:
        """Return a state that is some pixels further, in the image and in the weights."""
        state = state._replace(offset=further(state.offset, axis.offset(index)))
        if axis.pixel_weight_stride is None:
            return state
        weight_offset = further(state.weight_offset, index * axis.pixel_weight_stride)
        return state._replace(weight_offset=weight_offset)

    def at_cells(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of the first pixel of each point's cell, and the distances to it.

        A cell has a pixel and its neighbour along each axis, both in the image.
        """
        pairs = [axis.pair_at(along) for axis, along in zip(self.axes, located, strict=True)]
        slopes, between = [*state.slopes], None
        for a, (axis, pair) in enumerate(zip(self.axes, pairs, strict=True)):
            if slopes and pair.sign is not None:
                slopes[a] = located[a].slope * pair.sign
            state, between = self.moved(state, axis, pair.first), both(between, pair.between)
        distances = tuple(pair.distance for pair in pairs)
        return state._replace(along=distances, slopes=tuple(slopes), between=between)

    # Second step ----------------------------------------------------------------------------------

    def prepare(self, state: State, derivatives: int, counting: Counting | None) -> GroupTaps:
        """Prepare the taps of a state, with the derivatives of weights up to an order.

        With ``counting``, the weights of all taps sum to one, those of dropped taps included.
        """
        taps, offset = self.taps(state, derivatives), value_of(state.offset)
        return SingleTaps(taps, offset, False, self.channels, counting)

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
            weights = axis.weights(base, t, located.slope, derivatives)
            stencils.append(Stencil(axis, base, weights))
        return stencils

    def near(self, state: State) -> Pointer:
        """Return the offset of a pixel near each point of a loaded state, in memory."""
        return self.at_cells(self.axis_positions(state), state).first.in_memory()

    def slopes(self, state: State) -> list[Value]:
        """Return the derivatives of positions along each axis with respect to coordinates."""
        slopes = state.slopes or [None] * len(self.axes)
        return [
            axis.pixels_per_unit() if slope is None else slope
            for axis, slope in zip(self.axes, slopes, strict=True)
        ]

    def tap_sums(
        self, taps: GroupTaps, plane: Pointer, dropped: Sequence[Value], orders: Orders
    ) -> TapSums:
        """Sum the taps of one plane, for several orders of derivatives; some may vanish."""
        orders = [order for order in orders if not self.vanishes(order)]
        return taps.tap_sums(plane, dropped, orders) if orders else {}

    def scatter(self, taps: GroupTaps, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane; the transpose of `tap_sums`."""
        shares = {order: share for order, share in shares.items() if not self.vanishes(order)}
        if shares:
            taps.scatter(plane, shares)

    def vanishes(self, order: tuple[int, ...]) -> bool:
        """Whether the weights' derivatives of an order are all zero."""
        return any(
            axis.rule.order + n >= axis.rule.method.powers
            for axis, n in zip(self.axes, order[-len(self.axes) :], strict=True)
        )

    # For channels in lanes, which list taps -------------------------------------------------------

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the taps of a state along each axis, with the derivatives of weights."""
        return [stencil.resolve_boundary() for stencil in self.stencils(state, derivatives)]
