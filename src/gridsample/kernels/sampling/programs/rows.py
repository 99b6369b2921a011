"""Taps that are read in rows: neighbouring pixels along x, where all taps of a point are inside.

They are read as `pairs.Neighbours`, also two along each axis that may be far from each other at
edges (`AxisRule.allows_pairs` is false).  For points with a tap outside the image, `edge_rows`
chooses the pixels of a row; under "wrap", taps are read one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import AxisPosition, Rules, Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.edge_rows import AtEdges, has_window
from gridsample.kernels.sampling.programs.operation import Operation
from gridsample.kernels.sampling.programs.pairs import MAX_KEPT, Neighbours
from gridsample.kernels.sampling.programs.sampler import (
    KnownPixels,
    Sampler,
    Stencil,
    are_inside,
)
from gridsample.kernels.sampling.programs.singles import SingleTaps
from gridsample.kernels.sampling.programs.states import FirstTaps, State, value_of
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    GroupTaps,
    Orders,
    TapSums,
    Weights,
    both,
)
from gridsample.kernels.vector import Pointer, Value


class Rows(Sampler):
    """Reads neighbours along x at once; see the module."""

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, pixels: KnownPixels, operation: Operation) -> bool:
        """Whether pixels can be read in this way."""
        if plan.votes or pixels.in_lanes or not pixels.x_contiguous:
            return False
        widths = [rule.method.taps for rule in rules]
        fits = widths[0] <= plan.spatial[-1]
        return fits and max(widths) > 1 and not any(rule.single for rule in rules)

    @classmethod
    def pays_to_keep_weights(cls, plan: Plan, planes: int) -> bool:
        """Whether weights are computed once for all planes.

        For up to four taps, reading stored weights takes as long as computing them again; for three
        axes, computing them is a small part of the time.
        """
        taps = max(method.taps for method in plan.methods)
        return planes > 1 and taps > 4 and len(plan.spatial) < 3

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add positions to a state, where the first taps are, and weights if they are kept."""
        keeps, stencils = self.description.pixels.keeps_weights, list[Stencil]()
        for axis, along in zip(self.axes, located, strict=True):
            base, t = axis.split(along)
            weights = axis.weights(base, t, along.slope, 0) if keeps else ()
            stencils.append(Stencil(axis, base, weights))
        inside = are_inside(stencils, self.widths)
        moved = state  # to the first taps
        for stencil in stencils:
            moved = self.moved(moved, stencil.axis, inside.select(stencil.first, 0))
        some = self.some(stencils, state.outside)
        first_taps = FirstTaps(inside, some, moved.first, moved.weight_offset)
        state = state._replace(first_taps=first_taps)
        if keeps:
            kept = [tuple([w for (w,) in stencil.weights]) for stencil in stencils]
            state = state._replace(row_weights=tuple(kept))
        return super().locate_taps(located, state)

    def some(self, stencils: Sequence[Stencil], outside: Value | None) -> Value | None:
        """Return which points must be sampled at all; None for all.

        Points that are ``outside`` have the fill value, and points whose taps are all dropped are 0
        if dropped taps are.
        """
        if self.description.operation.counts:
            return None
        some = None if outside is None else ~outside
        for stencil in stencils:
            if stencil.axis.rule.drops and not self.description.tap_rule.filled:
                beyond = stencil.first + stencil.axis.rule.method.taps
                some = both(some, (beyond > 0) & (stencil.first < stencil.axis.size))
        return some

    def prepare(self, state: State, derivatives: int, counting: Counting | None) -> GroupTaps:
        """Prepare the taps of a state."""
        first = state.first_taps
        assert first is not None
        # Both ways share them, unless weights are kept: then, they are needed at edges alone.
        stencils = [] if state.row_weights else self.stencils(state, derivatives)
        kept = [[(w,) for w in weights] for weights in state.row_weights]
        return Either(
            first.inside,
            ~first.inside if first.some is None else ~first.inside & first.some,
            lambda: self.in_rows(first, kept or [s.weights for s in stencils], counting),
            lambda: self.anywhere(state, stencils or self.stencils(state, derivatives), counting),
            math.prod(self.widths) * self.channels <= MAX_KEPT,
        )

    def near(self, state: State) -> Pointer:
        """Return the offset of each point's first tap, in memory."""
        assert state.first_taps is not None
        return state.first_taps.offset.in_memory()

    @property
    def widths(self) -> list[int]:
        """The number of taps along each axis."""
        return [axis.rule.method.taps for axis in self.axes]

    def in_rows(
        self, first: FirstTaps, weights: Sequence[Weights], counting: Counting | None
    ) -> GroupTaps:
        """Prepare taps that are neighbouring pixels of the image, for the points inside.

        Other points read its first pixels.
        """
        if counting is not None:
            counting = counting._replace(offset=first.weight_offset)
        layout, taps = self.neighbours_in_memory, neighbouring_taps(weights)
        return Neighbours(taps, first.offset, layout, counting)

    def anywhere(
        self, state: State, stencils: Sequence[Stencil], counting: Counting | None
    ) -> GroupTaps:
        """Prepare the taps of points of which some have taps outside."""
        taps = [stencil.resolve_boundary() for stencil in stencils]
        single_taps = SingleTaps(taps, value_of(state.offset), True, self.channels, counting)
        # In float64, up to 16 taps are read faster one by one.
        many = self.real.bits < 64 or math.prod(map(len, taps)) > WRITTEN_OUT
        in_rows = many and has_window(self.axes[0])
        return AtEdges(self.axes, single_taps) if in_rows else single_taps


def neighbouring_taps(weights: Sequence[Weights]) -> list[list[Tap]]:
    """Return the taps of each axis that are neighbouring pixels, given their weights."""
    function = weights[0][0][0].function
    zero = function.constant(0, "int32", function.lanes)
    return [
        [Tap(zero, None, each, k) for k, each in enumerate(axis_weights)]
        for axis_weights in weights
    ]


class Either(NamedTuple):
    """One way for points whose taps are all in the image, another for the others.

    A group at an edge takes both, so that the bits of a sample do not depend on the points beside
    it.  The bits of a pixel's gradient may depend on them, as many points add to it: one way adds
    for all points of a group.

    Attributes:
        inside: whether all taps of a point are in the image.
        at_edge: whether a point needs the other way; results of the rest, if not inside, are 0.
        quick: prepares the way for points inside; the others read pixels of the image, too, but
            their sums are discarded.
        general: prepares the way for points anywhere.
        scatters_quickly: whether `scatter` may use the first one, too.
    """

    inside: Value
    at_edge: Value
    quick: Callable[[], GroupTaps]
    general: Callable[[], GroupTaps]
    scatters_quickly: bool

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        function = plane.function
        none = [function.constant(0.0, function.real, function.lanes)] * len(orders)

        def sums(taps: Callable[[], GroupTaps]) -> list[Value]:
            return [*taps().tap_sums(plane, dropped, orders).values()]

        others = function.choose(
            self.at_edge.any(), lambda: sums(self.general), lambda: none, likely=False
        )
        insiders = function.choose(
            self.inside.any(), lambda: sums(self.quick), lambda: none, likely=True
        )
        return {
            order: self.inside.select(quick, general)
            for order, quick, general in zip(orders, insiders, others, strict=True)
        }

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""

        def quickly() -> list[Value]:
            self.quick().scatter(plane, shares)
            return []

        def generally() -> list[Value]:
            with plane.function.when((self.inside | self.at_edge).any()):
                self.general().scatter(plane, shares)
            return []

        if self.scatters_quickly:
            plane.function.choose(self.inside.all(), quickly, generally, likely=True)
        else:
            generally()
