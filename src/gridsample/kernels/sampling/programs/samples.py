"""Points that are the means of several samples: the loops over groups, their samples and planes.

All points of a group take as many samples as the one with the most.  Sample k of each point is
located and read as a point of plain sampling is; points that have fewer wait.  A linear formula
computes with each sample, and its results are summed; a quotient, once the samples are summed.  The
upstream value of each sample is that of its point, divided by the number of samples.

A call processes the points of one level (`footprints`), and reports which others there are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence

from gridsample.definitions.caches import cached_property
from gridsample.kernels.sampling.programs.counting import COUNTED, PIXEL, WEIGHT
from gridsample.kernels.sampling.programs.footprints import (
    Footprint,
    Sides,
    Vectors,
    at_fractions,
    next_numbers,
)
from gridsample.kernels.sampling.programs.grid_gradients import Totals
from gridsample.kernels.sampling.programs.groups import Group, TaskRange
from gridsample.kernels.sampling.programs.operation import Results, Terms
from gridsample.kernels.sampling.programs.operations import filled
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.sweep import Sweep
from gridsample.kernels.sampling.settings import SHRINKS
from gridsample.kernels.vector import Pointer, Value, kind_of

# Planes that are sampled together.
TOGETHER = 64

Span = tuple[Value, Value]  # the first, and the end


class Samples(Sweep):
    """Writes the loops over the footprints of points, and over their samples."""

    @cached_property
    def sides(self) -> Sides:
        """The sides of footprints."""
        return Sides(self.points, self.call)

    @cached_property
    def slopes(self) -> Totals:
        """The gradients of a group's base, and of its sides."""
        rank = self.points.rank
        return Totals(self.function, 1 + rank, rank, self.function.real)

    # Points ---------------------------------------------------------------------------------------

    def write_task(self, part: TaskRange, task: Value) -> None:
        """Write the loops of a task."""
        with self.points.strips(part) as strip:
            if self.gradient:
                self.gradient.begin_maps()
            with self.points.groups(strip) as (_, group):
                self.process_level(group, task, part)
            if self.gradient:
                self.gradient.finish_maps(strip)

    def process_level(self, group: Group, task: Value, part: TaskRange) -> None:
        """Process the points of a group that belong to the level, and report the other levels."""
        footprint = self.sides.footprint(group)
        with self.function.when((footprint.level > 0).any(), rare=True):
            bits = self.function.constant(1, "int32", self.function.lanes) << footprint.level
            self.report(bits.reduce(operator.or_).to("int64"), task)
        in_level = footprint.level == self.call.level.to("int32")
        footprint = footprint._replace(total=in_level.select(footprint.total, 0.0))
        samples = footprint.total.reduce(Value.maximum).to("int64")
        self.report((samples > 1).to("int64") << SHRINKS, task)
        with self.function.when(samples > 0):
            self.process(group, footprint, samples, part)

    def report(self, bits: Value, task: Value) -> None:
        """Add bits to the task's report."""
        self.call.report.store(self.call.report.load(task) | bits, task)

    def process(self, group: Group, footprint: Footprint, samples: Value, part: TaskRange) -> None:
        """Compute and store the results of a group, some planes at a time."""
        function, lanes, together = self.function, self.function.lanes, self.states.groups
        zero, step = function.constant(0.0, function.real, lanes), self.planes_together
        self.begin(group, footprint)
        with function.loop(part.plane, part.plane_end, step) as loop:
            planes = loop.index, (loop.index + step).minimum(part.plane_end)
            count = (planes[1] - planes[0]) * len(self.summed)
            with function.loop(0, count) as number:  # 0 is not neutral for -0
                self.sums_memory.store(-zero, number.index * lanes, aligned=True)
            with function.loop(0, samples, together, carry=self.first_numbers()) as blocks:
                block = blocks.index, (blocks.index + together).minimum(samples)
                blocks.carry(*self.locate_samples(group, footprint, block, blocks.carried))
                self.prefetch.aim(group, [*self.images.values()], *planes)
                self.prefetch.ask_for_all(block[1] - block[0])
                self.clear_slopes(block[1] - block[0])
                self.add_samples(group, footprint, block, planes)
                self.add_slopes(block[1] - block[0])
            self.store_planes(group, footprint, planes)
        if self.gradient:
            self.store_gradient(group, footprint, samples)

    def begin(self, group: Group, footprint: Footprint) -> None:
        """Do what comes before the samples of a group."""
        for k in range(1 + self.points.rank if self.gradient else 0):
            self.slopes.clear(k)
        # Base and sides of the directions in which samples move.
        self.directions = [
            self.sides.of_directions(group, getattr(self.call, name), footprint)
            for name in self.named("vectors", "read")
        ]

    # Where samples are ----------------------------------------------------------------------------

    def first_numbers(self) -> Vectors:
        """Return the numbers of the first sample along the sides."""
        zero = self.function.constant(0.0, self.function.real, self.function.lanes)
        return [zero] * self.points.rank

    def locate_samples(
        self, group: Group, footprint: Footprint, samples: Span, numbers: Vectors
    ) -> Vectors:
        """Save the states of the samples of some rounds; return the numbers of the next sample."""
        inverse = [1.0 / count for count in footprint.counts]
        with self.function.loop(*samples, carry=numbers) as sample:
            waits = sample.index.to(self.function.real) >= footprint.total
            # A point that waits repeats its samples.
            with self.function.exactly():
                fractions = [
                    (number + 0.5) * by - 0.5
                    for number, by in zip(sample.carried, inverse, strict=True)
                ]
            coordinates = at_fractions(footprint.base, footprint.sides, fractions)
            state = self.state_of_sample(group, coordinates, fractions, waits)
            self.states.save(sample.index - samples[0], state)
            sample.carry(*next_numbers(sample.carried, footprint.counts))
        carried: Vectors = sample.carried
        return carried

    def state_of_sample(
        self, group: Group, coordinates: Vectors, fractions: Vectors, waits: Value
    ) -> State:
        """Return the state of a sample; in derivatives, one that does not exist is not valid."""
        state = self.sampler.locate(coordinates, group)
        if self.operation.fills:
            return state
        if state.outside is not None:
            state = state._replace(valid=state.valid & ~state.outside, outside=None)
        tangents = [
            x for directions in self.directions for x in at_fractions(*directions, fractions)
        ]
        return state._replace(
            valid=state.valid & ~waits, fractions=tuple(fractions), tangents=tuple(tangents)
        )

    # Sums over samples ----------------------------------------------------------------------------

    @cached_property
    def summed(self) -> list[str]:
        """The names of what is summed over samples, in each plane."""
        return self.operation.summed(self.orders, self.needs)

    @property
    def planes_together(self) -> int | Value:
        """The number of planes that are sampled together."""
        return TOGETHER // self.channels * self.channels

    @cached_property
    def sums_memory(self) -> Pointer:
        """The sums over samples, in some planes."""
        function = self.function
        return function.scratch(function.real, TOGETHER * max(1, len(self.summed)), function.lanes)

    def sums_of(self, plane: Value) -> list[Pointer]:
        """Return where the sums of a plane are, which is counted from the first of those."""
        first, lanes = plane * len(self.summed), self.function.lanes
        return [self.sums_memory.at((first + k) * lanes) for k in range(len(self.summed))]

    def add_samples(self, group: Group, footprint: Footprint, samples: Span, planes: Span) -> None:
        """Add the samples of some rounds, whose states are known, in some planes."""
        function, lanes, channels = self.function, self.function.lanes, range(self.channels)
        with function.loop(*planes, self.channels) as loop:
            memory = self.memory_of(group, loop.index)
            if self.operation.fills:
                memory = memory._replace(numbers=[*map(self.with_nan, memory.numbers)])
            values = {
                name: [value / footprint.total for value in each]
                for name, each in self.load_values(group, memory).items()
            }
            homes = [m for c in channels for m in self.sums_of(loop.index - planes[0] + c)]
            before = [home.load(0, lanes, aligned=True) for home in homes]
            images, following = [*self.images.values()], loop.index + self.channels
            self.prefetch.aim(group, images, following, planes[1])
            with function.loop(*samples, carry=before) as sample:
                number = sample.index - samples[0]
                self.prefetch.ask_for(number)
                results = self.compute(number, group, values, memory)
                terms = [each.stored[name] for each in results for name in self.summed]
                waits = sample.index.to(function.real) >= footprint.total
                pairs = zip(sample.carried, terms, strict=True)
                sample.carry(*(waits.select(total, total + term) for total, term in pairs))
            for home, total in zip(homes, sample.carried, strict=True):
                home.store(total, aligned=True)

    def with_nan(self, numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Return the numbers of a plane; samples that are not valid are NaN, also of integers."""
        function = self.function
        return {**numbers, "invalid": function.constant(math.nan, function.real, function.lanes)}

    def formula(self, terms: Terms) -> Results:
        """Compute what a sample of each point adds to sums; for quotients, its sums of taps."""
        if not self.operation.counts:
            return self.operation.formula(terms)
        weight, outside = terms.dropped_weight, terms.planes["outside"]
        around = {COUNTED: outside if weight else 0.0, WEIGHT: weight, PIXEL: outside}
        sums = {
            str(order): filled(terms, total.splat(outside.lanes), around[order[0]], math.nan)
            for order, total in terms.sums["image"].items()
        }
        return Results(sums)

    # Results --------------------------------------------------------------------------------------

    def store_planes(self, group: Group, footprint: Footprint, planes: Span) -> None:
        """Store the means of some planes."""
        function, points = self.function, self.points
        in_level, stores = footprint.total > 0.0, self.named("points", "store")
        if not stores:
            return
        with function.loop(*planes) as plane:
            means = self.means(footprint, plane.index, planes[0])
            begin = self.call.out_planes.load(plane.index)
            targets = {name: getattr(self.call, name).at(begin) for name in stores}
            stored = {name: self.stored(mean, name) for name, mean in means.items()}
            with function.when(in_level.all()):
                for name in stores:
                    points.store_values(group, targets[name], stored[name])
            with function.when(~in_level.all(), rare=True):
                places = points.places_of_values(group)
                for lane in self.lanes_of(in_level):
                    for name in stores:
                        targets[name].store(stored[name][lane], places[lane])

    def means(self, footprint: Footprint, plane: Value, first: Value) -> dict[str, Value]:
        """Return the results in a plane."""
        lanes, homes = self.function.lanes, self.sums_of(plane - first)
        means = [home.load(0, lanes, aligned=True) / footprint.total for home in homes]
        return self.results_of(means, self.numbers_of(plane))

    def results_of(self, means: Sequence[Value], numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Return results by name, given the means of `summed` and the numbers of the plane."""
        if self.operation.counts:
            sums = dict(zip(self.reads["image"], means, strict=True))
            state = State(sums[WEIGHT, *self.orders.value] == sums[WEIGHT, *self.orders.value])
            terms = self.terms({"image": sums}, {}, numbers, state)
            return dict(self.operation.formula(terms).stored)
        if kind_of(self.description.values).family not in ("float", "half"):
            means = [(mean == mean).select(mean, numbers["invalid"]) for mean in means]
        return dict(zip(self.summed, means, strict=True))

    def lanes_of(self, in_level: Value) -> Iterator[int]:
        """Yield every lane, for a body that runs if the lane's point belongs to the level.

        What belongs to other points is stored by the calls for other levels.
        """
        for lane in range(self.function.lanes):
            with self.function.when(in_level[lane]):
                yield lane

    # The gradient of the grid ---------------------------------------------------------------------

    def clear_slopes(self, samples: Value) -> None:
        """Set the slopes of samples to 0."""
        if self.gradient:
            with self.function.loop(0, samples) as sample:
                self.gradient.totals.clear(sample.index)

    def add_slopes(self, samples: Value) -> None:
        """Add the slopes of samples to those of the base and the sides."""
        if self.gradient is None:
            return
        with self.function.loop(0, samples) as sample:
            state = self.states.load(sample.index)
            slopes = self.gradient.of_group(sample.index, state.valid)
            self.slopes.add(0, slopes)
            for a, fraction in enumerate(state.fractions):
                self.slopes.add(1 + a, [x * fraction for x in slopes])

    def store_gradient(self, group: Group, footprint: Footprint, samples: Value) -> None:
        """Store the gradients of a group's points and sides, or add them to those of maps."""
        gradient, rank = self.gradient, self.points.rank
        assert gradient is not None
        in_level = footprint.total > 0.0
        base = self.sides.scaled(self.slopes.read(0))
        self.slopes.clear(0)
        # A side with a single sample has no gradient.
        with self.function.when(samples > 1):
            sides = [self.slopes.read(1 + a) for a in range(rank)]
            sides, own = self.sides.transposed(footprint, sides)
            self.slopes.add(0, own)
            if gradient.is_affine:
                gradient.add_to_maps(group, self.sides.terms_of_maps(sides))
            else:
                memories = [getattr(self.call, f"side{a}") for a in range(rank)]
                self.store_vectors(group, in_level, dict(zip(memories, sides, strict=True)))
        base = [x + own for x, own in zip(base, self.slopes.read(0), strict=True)]
        if gradient.is_affine:
            gradient.add_to_maps(group, gradient.terms_of_maps(group, base))
        else:
            self.store_vectors(group, in_level, {self.call.gradient: base})

    def store_vectors(
        self, group: Group, in_level: Value, vectors: Mapping[Pointer, Vectors]
    ) -> None:
        """Store vectors of the points of the level, each in memory of its own."""
        function, all_in_level = self.function, in_level.all()
        with function.when(all_in_level):
            for memory, vector in vectors.items():
                self.points.store_vectors(group, memory, vector)
        with function.when(~all_in_level, rare=True):
            places = self.points.places_of_vectors(group)
            for lane in self.lanes_of(in_level):
                for memory, vector in vectors.items():
                    for a, x in enumerate(vector):
                        memory.at(a).store(x[lane], places[lane])
