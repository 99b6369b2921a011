"""The gradients of means over the pixels that count; see `missing` and `gradients`.

With n and d the sums of w m v and w m, and g the upstream value of n / d, the quotient rule gives
the gradients of both,

    of n    g / d
    of d    - (g / d) (n / d)

The gradient of the grid is the first times that of n plus the second times that of d.  Both are
also added to each tap's pixel, with the tap's weight w, in two arrays.  What these mean for v and m
depends on the pixel alone, and is computed afterwards (`averages`).
"""

from __future__ import annotations

from types import SimpleNamespace

from gridsample.kernels.sampling.programs.counting import COUNTED, PIXEL, WEIGHT
from gridsample.kernels.sampling.programs.gradients import Backward
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.loads import Image, splat_of
from gridsample.kernels.sampling.programs.missing import Counts
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Value


class MeanBackward(Backward):
    """Writes the loops of the sweep of first derivatives of means."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        _, _, self.need_weights = description.needs
        self.counts = Counts(function, description, call)
        # Whether a plain sample shows, by being NaN, that something is missing.
        self.tries = description.tap_rule.ignores_nan and not description.tap_rule.differ
        if self.need_weights:
            self.sums_of_weights = Image(call.sums_of_weights, call.sums_item, call.sums_planes)

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name."""
        arrays = super().arrays(description) | {"min_weights": description.real}
        arrays |= Counts.arrays(description)
        _, _, need_weights = description.needs
        return arrays | {"sums_of_weights": description.real} if need_weights else arrays

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        with self.counts.watch():
            super().write(task)

    def locate(self, strip: Strip) -> None:
        """Convert the coordinates of a strip to states, and read the weights that planes share."""
        super().locate(strip)
        self.counts.keep(self, strip)

    def memory_of(self, points: Strip | Group, plane: Value) -> SimpleNamespace:
        """Return where a plane is in each array."""
        memory = super().memory_of(points, plane)
        memory.weights = self.counts.plane(points, plane)
        memory.min_weight = splat_of(self.function, self.call.min_weights, plane)
        if self.need_weights:
            memory.sums_of_weights = self.sums_of_weights.plane(points, plane)
        return memory

    def add(self, number: Value, group: Group, g: Value, memory: SimpleNamespace) -> list[Value]:
        """Add the gradients of a plane at a group, whose state has a number."""
        state = self.states.load(number)
        g = state.valid.select(g, 0.0)
        counting = self.counts.of(state, memory.weights, number)
        taps = self.sampler.prepare(state, int(self.need_grid), counting)
        orders = [self.value_order, *(self.raised if self.need_grid else [])]
        numbered = [(n, *order) for n in (COUNTED, WEIGHT) for order in orders]
        numbered += [(PIXEL, *self.value_order)] * self.tries
        tap_sums = self.sampler.tap_sums(taps, memory.source, memory.dropped, numbered)

        above, below = (tap_sums[n, *self.value_order] for n in (COUNTED, WEIGHT))
        onto_above = (below > memory.min_weight).select(g / below, 0.0)
        onto_below = (below > memory.min_weight).select(-(onto_above * (above / below)), 0.0)
        if self.tries:
            # Nothing is missing, and weights sum to one.
            sample = tap_sums[PIXEL, *self.value_order]
            onto_above = (sample == sample).select(g, onto_above)
            onto_below = (sample == sample).select(0.0, onto_below)
        if self.need_grid:
            # One after the other, so that the second does not change the first where it is 0.
            for share, n in ((onto_above, COUNTED), (onto_below, WEIGHT)):
                terms = [self.product(share, tap_sums, (n, *order)) for order in self.raised]
                self.totals.add(number, terms)
        if self.need_image:
            share = group.fresh.select(onto_above, 0.0)
            self.sampler.scatter(taps, memory.sums, {self.value_order: share})
        if self.need_weights:
            share = group.fresh.select(onto_below, 0.0)
            self.sampler.scatter(taps, memory.sums_of_weights, {self.value_order: share})
        return []
