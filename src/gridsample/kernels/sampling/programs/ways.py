"""The ways of reading pixels, each a subclass of `Sampler`, and the choice among them.

    copies    one pixel is copied to each point: `Copies`
    pairs     two neighbours along each axis, wherever the point is: `pairs.Pairs`
    rows      neighbours along x, where all taps of a point are in the image: `rows.Rows`
    singles   every tap by itself, which is always possible: `Sampler` itself

Where lanes are channels, the taps of a sampler are listed instead (`tap_lists`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import Axis, AxisPosition, Rules, Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.loads import read_each, read_word
from gridsample.kernels.sampling.programs.operation import Operation
from gridsample.kernels.sampling.programs.pairs import Pairs
from gridsample.kernels.sampling.programs.rows import Rows
from gridsample.kernels.sampling.programs.sampler import Description, KnownPixels, Sampler
from gridsample.kernels.sampling.programs.states import State, added, further
from gridsample.kernels.sampling.programs.sums import (
    GroupTaps,
    Orders,
    TapSums,
    either,
)
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value


class Copies(Sampler):
    """Copies one pixel to each point, as it is, not as a real number: see `CopiedPixels`.

    Several channels are one word (`copied_words`), unless they are lanes.
    """

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.channels = 1

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, pixels: KnownPixels, operation: Operation) -> bool:
        """Whether each point has one tap, of weight 1."""
        single = plan.nearest and plan.footprint is None
        return operation.copies and single and not any(rule.order for rule in rules)

    def describe_axes(self) -> list[Axis]:
        """Return the axes; unless they are very long, an index alone shows who is outside."""
        axes = super().describe_axes()
        for axis in axes:
            axis.notes_missed &= self.description.pixels.wide
        return axes

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of the pixel that each point copies, and which points copy none."""
        offset: Value | None = None
        outside, dropped = state.outside, None
        for axis, along in zip(self.axes, located, strict=True):
            pixel, missed = axis.copied(along)
            offset = added(offset, pixel)
            if axis.rule.fill_is_constant or not self.description.tap_rule.filled:
                outside = either(outside, missed)
            else:
                dropped = either(dropped, missed)
        assert offset is not None
        # Points that copy no pixel all read one, which is in cache.
        for condition in (outside, dropped):
            offset = offset if condition is None else condition.select(0, offset)
        state = state._replace(outside=outside, dropped=dropped)
        return state._replace(offset=further(state.offset, offset))

    def prepare(self, state: State, derivatives: int, counting: Counting | None) -> GroupTaps:
        """Prepare the only tap of each point."""
        return CopiedPixels(state, self.description.pixels)

    def near(self, state: State) -> Pointer:
        """Return the offset of each point's pixel, in memory."""
        return state.first.in_memory()

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the pixel of each point."""
        present = None if state.dropped is None else ~state.dropped
        return [[Tap(state.first.value, present, ())]]


class CopiedPixels(NamedTuple):
    """The only tap of each point, which is not read if all points are outside.

    Attributes:
        state: the state of the points.
        pixels: what is known of pixels, which are read as words if they have several channels.
    """

    state: State
    pixels: KnownPixels

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Return the pixels."""
        state = self.state

        def read() -> list[Value]:
            pixel = self.read(plane)
            return [pixel if state.dropped is None else state.dropped.select(dropped[0], pixel)]

        if state.outside is None:
            return dict(zip(orders, read(), strict=True))
        pixels = plane.function.choose(state.outside.all(), lambda: dropped, read, likely=False)
        return dict(zip(orders, pixels, strict=True))

    def read(self, plane: Pointer) -> Value:
        """Read the pixel of each point."""
        first, channels = self.state.first, self.pixels.channels
        if channels == 1:
            return read_each(plane, first).to(plane.kind.loaded)
        return read_word(plane, first, channels, self.pixels.fills_words)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Raise an error: nothing is added to pixels that are copied."""
        raise TypeError("pixels that are copied have no gradients")


# The first one that applies is taken.
WAYS: tuple[type[Sampler], ...] = (Copies, Pairs, Rows, Sampler)


def way_for(plan: Plan, rules: Rules, pixels: KnownPixels, operation: Operation) -> type[Sampler]:
    """Choose how the pixels of a call are read, by its plan, the rules of its axes and pixels."""
    return next(way for way in WAYS if way.applies(plan, rules, pixels, operation))
