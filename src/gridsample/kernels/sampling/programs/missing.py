"""Means over the pixels that are numbers.

    result = sum(w m v) / sum(w m),   m = 0 for a pixel v that is NaN, otherwise 1

where m may also be the weight of a pixel.  Without weights, a plain sample that is a number has no
NaN among its pixels, and is the result.  Only if some point of a group has another sample are both
sums computed, and for the groups after it, until none has.  A dropped tap is a known number, or
counts for nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from typing import Any

from gridsample.kernels.sampling.layouts import storage_of
from gridsample.kernels.sampling.programs.counting import (
    COUNTED,
    PIXEL,
    WEIGHT,
    Counting,
    WeightCheck,
    place_of_pair,
)
from gridsample.kernels.sampling.programs.gather import Gather
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.pairs import Pairs, weights_of_pairs
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.settings import STRIP, Call
from gridsample.kernels.vector import Function, Pointer, Value, kind_of


class Counts:
    """How the pixels of an image count: what is the same for all planes and points.

    Attributes:
        dropped_weight: the weight of dropped taps.
    """

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        self.call, self.ignores = call, description.tap_rule.ignores_nan
        self.dropped_weight = float(not description.tap_rule.ignores_dropped)
        self.weights, self.weight_check, self.kept = None, None, None
        self.taps = 1 << len(description.axes)
        if description.tap_rule.weight_kind:
            self.weights = Image(call.weights, call.weights_item, call.weights_planes)
        known = description.known
        if description.tap_rule.shared and known.channels == 1 and description.way is Pairs:
            groups = STRIP // function.lanes
            self.kept = function.scratch(function.real, groups * self.taps, function.lanes)
        if kind_of(description.tap_rule.weight_kind or "bool").family not in ("bool", "unsigned"):
            self.weight_check = WeightCheck(function)

    @staticmethod
    def arrays(description: Description) -> dict[str, str]:
        """Return the kinds of the arrays of weights, by name."""
        if not description.tap_rule.weight_kind:
            return {}
        return {"weights": storage_of(description.tap_rule.weight_kind), "invalid_weights": "int64"}

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Report invalid weights after the body."""
        if self.weight_check is None:
            yield
            return
        self.weight_check.clear()
        yield
        self.weight_check.report(self.call.invalid_weights)

    def plane(self, points: Strip | Group, number: Value) -> Pointer | None:
        """The weights of a plane's pixels; see `Image.plane`."""
        return None if self.weights is None else self.weights.plane(points, number)

    def of(self, state: State, plane: Pointer | None, number: Value | None = None) -> Counting:
        """Return how the pixels of a plane count for a group, given its state.

        If its number in the strip is given, its weights may have been kept.
        """
        counting = Counting(
            plane,
            state.weight_offset,
            self.call.weights_strides,
            self.dropped_weight,
            self.ignores,
            self.weight_check,
        )
        if self.kept is None or number is None:
            return counting
        return counting._replace(weight_check=None, kept=self.home(self.kept, number))

    def home(self, memory: Pointer, number: Value) -> Pointer:
        """Return where the weights of a group are kept."""
        return memory.at(number * (self.taps * memory.function.lanes))

    def keep(self, body: Any, strip: Strip) -> None:
        """Read the weights of a strip's taps once, if all planes of an item share them."""
        if self.kept is None:
            return
        function = body.function
        plane = self.plane(strip, function.constant(0, "int64"))
        adjacent = body.sampler.strides.x is None
        with body.points.groups(strip) as (number, _):
            state, memory = body.states.load(number), self.home(self.kept, number)
            assert plane is not None and state.weight_offset is not None
            reader = weights_of_pairs(self.of(state, plane), plane, state.weight_offset, adjacent)
            *others, across = reversed(body.sampler.pairs(state, 0, True))
            for outer in itertools.product(*others):
                weights = reader.row(outer, across)
                if self.weight_check is not None:
                    self.weight_check.check(weights)
                for tap, weight in zip(across, weights, strict=True):
                    place = place_of_pair((*outer, tap)) * function.lanes
                    memory.store(weight.splat(function.lanes), place, aligned=True)


class Means(Gather):
    """Writes the loops that average."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        (self.shares,) = description.needs
        self.counts = Counts(function, description, call)
        # Only if nothing but NaN is missing does a plain sample tell whether anything is.
        self.tries = description.tap_rule.ignores_nan and not description.tap_rule.weight_kind
        self.tried = function.scratch("int32", 1)

    @classmethod
    def fill_kinds(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays with a value for each plane, by name."""
        names = "missing_values", "min_weights"
        return super().fill_kinds(description) | dict.fromkeys(names, description.real)

    @classmethod
    def others(cls, description: Description) -> dict[str, str]:
        """Return the kinds of further arrays, by name."""
        (shares,) = description.needs
        arrays = Counts.arrays(description)
        return arrays | {"shares": description.real} if shares else arrays

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        self.note(self.function.constant(0, "int32"))
        with self.counts.watch():
            super().write(task)

    def locate(self, strip: Strip) -> None:
        """Convert the coordinates of a strip to states, and read the weights that planes share."""
        super().locate(strip)
        self.counts.keep(self, strip)

    def note(self, misses: Value) -> None:
        """Note whether a group had missing pixels, as the next one then has, too."""
        self.tried.store(misses)

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Sample one plane at the points of a strip."""
        call, function = self.call, self.function
        source = self.image.plane(strip, plane)
        begin = call.out_planes.load(plane)
        fills, weights = self.fills(plane), self.counts.plane(strip, plane)
        with self.prefetch.groups(strip) as (number, group):
            state = self.states.load(number)
            mean, share = self.mean(state, source, fills, self.counts.of(state, weights, number))
            mean = self.filled(state, mean, fills)
            self.points.store_values(group, call.out.at(begin), self.stored(mean))
            if self.shares:
                if state.outside is not None:
                    share = state.outside.select(self.counts.dropped_weight, share)
                share = state.valid.select(share, 0.0).splat(function.lanes)
                self.points.store_values(group, call.shares.at(begin), share)

    def fills(self, plane: Value) -> dict[str, Value]:
        """Read the numbers of a plane."""
        fills = super().fills(plane)
        if (
            self.description.tap_rule.ignores_dropped and not self.tries
        ):  # what is dropped has no weight
            fills["dropped"] = fills["dropped"].like(0.0)
        return fills

    def mean(
        self, state: State, source: Pointer, fills: dict[str, Value], counting: Counting
    ) -> tuple[Value, Value]:
        """Compute the means of a group in one plane, and the sums of weights."""
        if not self.tries:
            mean, share, _ = self.sums(state, source, fills, counting)
            return mean, share
        function = self.function
        unknown = function.constant(math.nan, function.real, function.lanes)
        # Where pixels were missing a moment ago, plain samples would be computed in vain.
        (sample,) = function.choose(
            self.tried.load() == 0,
            lambda: [self.total(state, source, fills)],
            lambda: [unknown],
        )

        def means() -> list[Value]:
            mean, share, sample = self.sums(state, source, fills, counting)
            self.note((sample != sample).any().to("int32"))
            return [(sample == sample).select(sample, mean), (sample == sample).select(1.0, share)]

        mean, share = function.choose(
            (sample != sample).any(), means, lambda: [sample, sample.like(1.0)]
        )
        return mean, share

    def sums(
        self, state: State, source: Pointer, fills: dict[str, Value], counting: Counting
    ) -> tuple[Value, Value, Value]:
        """Sum the taps of a group in one plane: means, sums of weights, and plain samples."""
        order = (0,) * len(self.description.axes)
        orders = [(number, *order) for number in (COUNTED, WEIGHT, PIXEL)]
        taps = self.sampler.prepare(state, 0, counting)
        sums = self.sampler.tap_sums(taps, source, fills["dropped"], orders[: 2 + self.tries])
        above, below = sums[orders[0]], sums[orders[1]]
        mean = (below > fills["min_weights"]).select(above / below, fills["missing_values"])
        return mean, below, sums.get(orders[2], mean)
