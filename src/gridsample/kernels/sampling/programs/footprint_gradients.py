"""Derivatives of antialiased sampling.

The samples of a point are its base plus multiples of its sides, and the result is their mean.  So
the upstream gradient of each sample is that of the point, divided by the number of samples.  The
slopes of the samples, which are the gradients of their coordinates, sum up to that of the base;
with the fractions of a side as weights, they sum up to that of the side.  Base and sides are
differences of the grid's points: `Sides.transposed` leads back to these.
"""

from __future__ import annotations

from collections.abc import Mapping

from gridsample.definitions.caches import cached_property
from gridsample.kernels.sampling.programs.footprints import (
    Footprint,
    Span,
    SumsOverFootprints,
    Vectors,
    at_fractions,
)
from gridsample.kernels.sampling.programs.gradients import (
    Backward,
    DoubleBackward,
    Totals,
)
from gridsample.kernels.sampling.programs.groups import Group, Strip, TaskRange
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.vector import Pointer, Value


class FootprintBackward(SumsOverFootprints, Backward):
    """Writes the loops over the footprints of points that compute first derivatives."""

    @cached_property
    def slopes(self) -> Totals:
        """The gradients of a group's base, and of its sides."""
        return Totals(self.function, 1 + self.rank, self.rank, self.function.real)

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name; the gradients of sides are arrays, too."""
        sides = {f"side{a}": description.real for a in range(len(description.axes))}
        return super().arrays(description) | sides | cls.others(description)

    def begin(self, strip: Strip) -> None:
        """Do what comes before the groups of a strip."""
        if self.maps and self.need_grid:
            self.map_totals.clear(0)

    def finish(self, strip: Strip) -> None:
        """Do what comes after the groups of a strip."""
        if self.maps and self.need_grid:
            self.finish_maps(strip)

    def process(self, group: Group, footprint: Footprint, samples: Value, part: TaskRange) -> None:
        """Process a group."""
        for k in range(1 + self.rank if self.need_grid else 0):
            self.slopes.clear(k)
        super().process(group, footprint, samples, part)
        if self.need_grid:
            self.store_slopes(group, footprint, samples)

    def state_of_sample(
        self, group: Group, footprint: Footprint, fractions: Vectors, waits: Value, interior: bool
    ) -> State:
        """Return the state of a sample; one that does not exist is not valid."""
        coordinates = at_fractions(footprint.base, footprint.sides, fractions)
        state = self.state_at(coordinates, group, interior)
        return state._replace(valid=state.valid & ~waits, fractions=tuple(fractions))

    def add_samples(self, group: Group, footprint: Footprint, samples: Span, planes: Span) -> None:
        """Add the gradients of the samples of some rounds in some planes."""
        function, lanes, count = self.function, self.function.lanes, samples[1] - samples[0]
        with function.loop(0, count) as sample:
            self.totals.clear(sample.index)
        with function.loop(*planes) as plane:
            memory = self.memory_of(group, plane.index)
            g = self.upstream(group, memory) / footprint.total
            sums = self.sums_of(plane.index - planes[0])
            self.prefetch.aim(group, self.images, plane.index + 1, planes[1])
            with function.loop(0, count) as sample:
                self.prefetch.ask_for(sample.index)
                for result in self.add(sample.index, group, g, memory):
                    sums.store(sums.load(0, lanes, aligned=True) + result, aligned=True)
        if self.need_grid:
            self.collect(count)

    def collect(self, samples: Value) -> None:
        """Add the slopes of samples to those of the base and the sides."""
        with self.function.loop(0, samples) as sample:
            state = self.states.load(sample.index)
            slopes = self.slopes_of(sample.index)
            self.slopes.add(0, slopes)
            for a, fraction in enumerate(state.fractions):
                self.slopes.add(1 + a, [x * fraction for x in slopes])

    def store_slopes(self, group: Group, footprint: Footprint, samples: Value) -> None:
        """Store the gradients of a group's points and sides, or add them to those of maps."""
        in_level = footprint.total > 0.0
        base = self.sides.scaled(self.slopes.read(0))
        self.slopes.clear(0)
        # A side with a single sample has no gradient.
        with self.function.when(samples > 1):
            sides = [self.slopes.read(1 + a) for a in range(self.rank)]
            sides, own = self.sides.transposed(footprint, sides)
            self.slopes.add(0, own)
            if self.maps:
                self.add_to_maps(group, self.terms_of_sides(sides))
            else:
                memories = [getattr(self.call, f"side{a}") for a in range(self.rank)]
                self.store_vectors(group, in_level, dict(zip(memories, sides, strict=True)))
        base = [x + own for x, own in zip(base, self.slopes.read(0), strict=True)]
        if self.maps:
            self.add_to_maps(group, self.terms_of_maps(group, base))
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

    def terms_of_sides(self, sides: list[Vectors]) -> Vectors:
        """Return what sides add to the gradient of their affine map; its last column gets none."""
        spacings = self.call.spacing
        terms = []
        for side in zip(*sides, strict=True):  # of each row
            terms += [x.to("float64") * by for x, by in zip(side, spacings, strict=True)]
            terms.append(terms[-1].like(0.0))
        return terms


class FootprintDoubleBackward(FootprintBackward, DoubleBackward):
    """Writes the loops over the footprints of points that compute second derivatives."""

    def process(self, group: Group, footprint: Footprint, samples: Value, part: TaskRange) -> None:
        """Process a group."""
        # Base and sides of the directions in which samples move.
        self.directions = self.sides.of_directions(group, self.call.tangents, footprint)
        super().process(group, footprint, samples, part)

    def state_of_sample(
        self, group: Group, footprint: Footprint, fractions: Vectors, waits: Value, interior: bool
    ) -> State:
        """Return the state of a sample, and its direction."""
        state = super().state_of_sample(group, footprint, fractions, waits, interior)
        return state._replace(tangents=tuple(at_fractions(*self.directions, fractions)))

    def store_planes(self, group: Group, footprint: Footprint, planes: Span) -> None:
        """Store the gradient of upstream values."""
        places, in_level = self.points.places_of_values(group), footprint.total > 0.0
        with self.function.loop(*planes if self.need_values else (0, 0)) as plane:
            mean = self.mean(footprint, plane.index - planes[0])
            memory = self.call.results.at(self.call.out_planes.load(plane.index))
            for lane in self.lanes_of(in_level):
                memory.store(mean[lane], places[lane])
