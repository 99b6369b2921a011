"""Labels over footprints: the label with the greatest sum of weights over all samples wins.

The taps of all samples of a point vote.  Each point of a group has a list of the labels that have
votes, and their sums.  The lists are in scratch memory and grow together: entry k of all points is
one vector of labels and one of sums.  Where a point needs no new entry and another does, it gets
one that no vote is added to, because an earlier one has the same label.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence

from gridsample.kernels.sampling.programs.footprints import Footprint
from gridsample.kernels.sampling.programs.groups import Group, TaskRange
from gridsample.kernels.sampling.programs.labels import Labels, key_kind, weights_in_cells
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.samples import Samples, Span
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Kind, Pointer, Value, kind_of


class FootprintLabels(Samples, Labels):
    """Writes the loops that sample labels over footprints."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        lanes, axes = function.lanes, description.axes
        self.count = 1 << sum(rule.method.votes for rule in axes)
        self.label = key_kind(kind_of(description.image).loaded)
        # The votes of one sample.
        self.keys = function.scratch(self.label, self.count, lanes)
        self.weights = function.scratch(function.real, self.count, lanes)
        self.list = LabelList(function, call.scratch, self.label)

    def process(self, group: Group, footprint: Footprint, samples: Value, part: TaskRange) -> None:
        """Find and store the labels of a group, plane by plane."""
        function, call, together = self.function, self.call, self.states.groups
        zero = function.constant(0, "int64")
        with function.loop(part.plane, part.plane_end) as plane:
            carried = [zero, *self.first_numbers()]
            with function.loop(0, samples, together, carry=carried) as loop:
                count, *numbers = loop.carried
                block = loop.index, (loop.index + together).minimum(samples)
                numbers = self.locate_samples(group, footprint, block, numbers)
                self.prefetch.aim(group, [*self.images.values()], plane.index, part.plane_end)
                self.prefetch.ask_for_all(block[1] - block[0])
                count = self.add_votes(group, plane.index, block, footprint.total, count)
                loop.carry(count, *numbers)
            tie = call.tie.to(function.real) * footprint.total
            winner = self.list.winner(loop.carried[0], (footprint.total > 1.0).select(tie, 0.0))
            target = call.out.at(call.out_planes.load(plane.index))
            self.points.store_values(group, target, self.stored(winner, "out"))

    def add_votes(
        self, group: Group, plane: Value, samples: Span, total: Value, count: Value
    ) -> Value:
        """Add the votes of some rounds to the list; return its new length."""
        function, lanes = self.function, self.function.lanes
        memory = self.memory_of(group, plane)
        source, fills = memory.pixels["image"], memory.numbers[0]
        with function.loop(*samples, carry=[count]) as sample:
            state = self.states.load(sample.index - samples[0])
            different = self.store_votes(state, source, fills)
            active = sample.index.to(function.real) < total
            with function.loop(0, different, carry=sample.carried) as tap:
                key = self.keys.load(tap.index * lanes, lanes, aligned=True)
                weight = self.weights.load(tap.index * lanes, lanes, aligned=True)
                tap.carry(self.list.add(key, weight, active, tap.carried[0]))
            sample.carry(*tap.carried)
        return sample.carried[0]

    def store_votes(self, state: State, source: Pointer, fills: Mapping[str, Value]) -> Value:
        """Store the votes of a sample; return their number, which is 1 where all taps agree."""
        function, lanes = self.function, self.function.lanes
        keys, weights = self.votes(state, source, fills["dropped"])
        for name, condition in (("outside", state.outside), ("invalid", ~state.valid)):
            if condition is not None:
                keys = [condition.select(fills[name], key) for key in keys]
        for k, (key, weight) in enumerate(zip(keys, weights, strict=True)):
            self.keys.store(key, k * lanes, aligned=True)
            self.weights.store(weight, k * lanes, aligned=True)
        differ = functools.reduce(operator.or_, [keys[0] ^ key for key in keys[1:]])

        def together() -> list[Value]:
            self.weights.store(function.constant(1.0, function.real, lanes), 0, aligned=True)
            return [function.constant(1, "int64")]

        def separately() -> list[Value]:
            return [function.constant(self.count, "int64")]

        return function.choose((differ != 0).any(), separately, together)[0]

    def votes(
        self, state: State, source: Pointer, dropped: Value
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Read the labels of a sample's taps; return them and their weights."""
        if not self.all_vote:
            return self.single_votes(state, source, dropped)
        cells = self.sampler.at_cells(self.sampler.axis_positions(state), state)

        def by_cells() -> list[Value]:
            return [*self.keys_of_cells(cells, source), *weights_in_cells(cells.along)]

        def by_singles() -> list[Value]:
            keys, weights = self.single_votes(state, source, dropped)
            return [*keys, *weights]

        inside = self.all_in_cells(cells.along)
        votes = self.function.choose(inside, by_cells, by_singles, likely=True)
        return votes[: self.count], votes[self.count :]


class LabelList:
    """The labels that have votes, for each point of a group, and the sums of their weights."""

    def __init__(self, function: Function, memory: Pointer, key: Kind) -> None:
        self.function, self.memory, self.key = function, memory, key
        self.step = function.lanes * (key.size + function.real.size)

    def entry(self, k: Value) -> tuple[Pointer, Pointer]:
        """Return the memory of the labels and of the sums of entry k."""
        keys = self.memory.at(k * self.step)
        sums = keys.at(self.function.lanes * self.key.size)
        return keys.cast(self.key), sums.cast(self.function.real)

    def add(self, key: Value, weight: Value, active: Value, count: Value) -> Value:
        """Add a vote of each active point to the list of ``count`` entries; return its length."""
        function, lanes = self.function, self.function.lanes
        with function.loop(0, count, carry=[active]) as loop:
            keys, sums = self.entry(loop.index)
            same = (keys.load(0, lanes) == key) & loop.carried[0]
            before = sums.load(0, lanes)
            sums.store(same.select(before + weight, before))
            loop.carry(loop.carried[0] & ~same)
        others = loop.carried[0]

        def append() -> list[Value]:
            keys, sums = self.entry(count)
            keys.store(key)
            sums.store(others.select(weight, 0.0))
            return [count + 1]

        return function.choose(others.any(), append, lambda: [count], likely=False)[0]

    def winner(self, count: Value, margin: Value) -> Value:
        """Return the least label whose sum is within a margin of the greatest."""
        function, lanes = self.function, self.function.lanes
        zero = function.constant(0.0, function.real, lanes)
        with function.loop(0, count, carry=[zero]) as loop:
            loop.carry(loop.carried[0].maximum(self.entry(loop.index)[1].load(0, lanes)))
        threshold = loop.carried[0] - margin
        first = self.entry(function.constant(0, "int64"))[0].load(0, lanes)
        any_wins = first != first
        with function.loop(0, count, carry=[first, any_wins]) as loop:
            winner, any_wins = loop.carried
            keys, sums = self.entry(loop.index)
            key, total = keys.load(0, lanes), sums.load(0, lanes)
            wins = (total > 0.0) & (total >= threshold) & (~any_wins | (key < winner))
            loop.carry(wins.select(key, winner), any_wins | wins)
        return loop.carried[0]
