"""The ways of reading pixels, each a subclass of `Sampler`, and the choice among them.

    copies    one pixel is copied to each point: `Copies`
    pairs     two neighbours along each axis, wherever the point is: `pairs.Pairs`
    rows      neighbours along x, where all taps of a point are in the image: `rows.Rows`
    singles   every tap by itself, which is always possible: `Sampler` itself

Runs of channels list the taps of a sampler instead, and read them by themselves (`runs`, `words`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.axes import Axis, AxisPosition, Rules, Tap
from gridsample.kernels.sampling.programs.pairs import Pairs
from gridsample.kernels.sampling.programs.rows import Rows
from gridsample.kernels.sampling.programs.sampler import KnownStrides, Sampler
from gridsample.kernels.sampling.programs.states import State, further
from gridsample.kernels.sampling.programs.sums import added, either
from gridsample.kernels.vector import Pointer, Value


class Copies(Sampler):
    """Copies one pixel to each point, as it is, not as a real number: see `Gather.total`."""

    pixels_of_word = 1

    @classmethod
    def applies(cls, plan: Plan, rules: Rules, known: KnownStrides, operation: str) -> bool:
        """Whether each point has one tap, of weight 1."""
        return operation == "gather" and plan.nearest and not any(rule.order for rule in rules)

    def describe_axes(self) -> list[Axis]:
        """Return the axes; unless they are very long, an index alone shows who is outside."""
        axes = super().describe_axes()
        for axis in axes:
            axis.notes_missed &= self.description.known.wide
        return axes

    def locate_taps(self, located: Sequence[AxisPosition], state: State) -> State:
        """Add the offset of the pixel that each point copies, and which points copy none."""
        offset: Value | None = None
        outside = state.outside
        for axis, along in zip(self.axes, located, strict=True):
            pixel, missed = axis.copied(along)
            offset, outside = added(offset, pixel), either(outside, missed)
        assert offset is not None
        if outside is not None:
            # Those outside all read one pixel, which is in cache.
            offset = outside.select(0, offset)
            state = state._replace(outside=outside)
        return state._replace(offset=further(state.offset, offset))

    def near(self, state: State) -> Pointer:
        """Return the offset of each point's pixel, in memory."""
        return state.first.in_memory()

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the pixel of each point."""
        return [[Tap(state.first.value, None, ())]]


# The first one that applies is taken.
WAYS: tuple[type[Sampler], ...] = (Copies, Pairs, Rows, Sampler)


def way_for(plan: Plan, rules: Rules, known: KnownStrides, operation: str) -> type[Sampler]:
    """Choose how the pixels of a call are read, by its plan, the rules of its axes and strides."""
    return next(way for way in WAYS if way.applies(plan, rules, known, operation))
