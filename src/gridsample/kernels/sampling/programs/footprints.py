"""The footprints of points: where their samples are, and how these follow from the grid.

The footprint of an output point is the parallelogram that the differences of the grid along the
output's axes span.  Its samples are spread evenly over it, n_k = ceil(length - 1/64) along side k,
with the length in pixels.  Where a side is too long, the point is sampled in a halved copy of the
image, its *level*.

The samples of a point are its base plus multiples of its sides.  So the gradient of the base is the
sum of the gradients of their coordinates; with the fractions of a side as weights, they sum up to
that of the side.  Base and sides are differences of the grid's points: `Sides.transposed` leads
back to these.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from gridsample.definitions import axis as formulas
from gridsample.definitions.footprints import SLACK
from gridsample.kernels.sampling.programs.axes import DISPLACEMENT
from gridsample.kernels.sampling.programs.groups import Group
from gridsample.kernels.sampling.programs.points import AFFINE, Points
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value

# The square of a length that no side needs to exceed.
HUGE = 1e18

Vectors = list[Value]  # a number for each axis, x first


class Footprint(NamedTuple):
    """The footprints of a group's points.

    Attributes:
        base: the coordinates of the points in the image of the level.
        sides: the sides along the output's axes, x first: vectors of coordinates.
        counts: the numbers of samples along the sides, as real numbers.
        total: their product.
        level: how often the image is halved, an int32.
        neighbours: whether the point has a neighbour before it and after it, for each of the
            output's axes, x first; empty for affine maps.
    """

    base: Vectors
    sides: list[Vectors]
    counts: Vectors
    total: Value
    level: Value
    neighbours: list[tuple[Value, Value]]


class Table(NamedTuple):
    """Vectors of D numbers for each point of each item, in memory.

    Attributes:
        memory: the first one.
        item: the distance between items.
        point: the distance between points.
        axis: the distance between the numbers of a point.
    """

    memory: Pointer
    item: Value
    point: Value
    axis: Value


class Sides:
    """Writes how the sides of footprints follow from a grid, or from affine maps."""

    def __init__(self, points: Points, call: Call) -> None:
        self.points, self.call = points, call
        self.function: Function = points.function
        self.rank = points.rank
        self.displaced = any(rule.units == DISPLACEMENT for rule in points.rules)

    def footprint(self, group: Group) -> Footprint:
        """Find the footprints of a group."""
        call, real = self.call, self.function.real
        base = self.points.coordinates(group)
        neighbours = list[tuple[Value, Value]]()
        if self.points.source.grid_layout == AFFINE:
            sides = self.sides_of_maps(group, base)
        else:
            sides, neighbours = self.differences(group)
        level, counts = self.count(sides)
        total = functools.reduce(operator.mul, counts)
        shifts = [number.to(real) for number in call.shift]
        base = [x + shift for x, shift in zip(self.scaled(base), shifts, strict=True)]
        sides = [self.scaled(side) for side in sides]
        return Footprint(base, sides, counts, total, level, neighbours)

    def scaled(self, vector: Vectors) -> Vectors:
        """Convert a difference of coordinates to those in the image of the level."""
        gains = [gain.to(self.function.real) for gain in self.call.gain]
        return [x * gain for x, gain in zip(vector, gains, strict=True)]

    # Sides ----------------------------------------------------------------------------------------

    def steps(self) -> Vectors:
        """Return the number of points between neighbours along the output's axes, x first."""
        sizes = self.call.out_sizes[: self.rank - 1]
        x_step = self.function.constant(1, "int64")
        return [*itertools.accumulate(sizes, operator.mul, initial=x_step)]

    def differences(self, group: Group) -> tuple[list[Vectors], list[tuple[Value, Value]]]:
        """Return half the difference of a point's neighbours, or that to its only neighbour.

        Neighbours with a coordinate that is not finite are ignored.

        Returns:
            The sides; and whether there is a neighbour before and after the point.
        """
        own = [line.to(self.function.real) for line in self.points.stored(group)]
        usable, sides, neighbours = finite(own), [], []
        places = self.points.output_index(group)
        for a, (place, step) in enumerate(zip(places, self.steps(), strict=True)):
            last = (self.call.out_sizes[a] - 1).to(place.kind)
            before, has_before = self.neighbours(group, own, -step, (place > 0) & usable)
            after, has_after = self.neighbours(group, own, step, (place < last) & usable)
            exist = has_before, has_after
            side = difference(before, after, exist)
            steps = difference_of_each(before, own), difference_of_each(own, after)
            if self.displaced:
                for step_vectors, exists in zip(steps, exist, strict=True):
                    step_vectors[a] = step_vectors[a] + exists.select(1.0, 0.0)
                side[a] = side[a] + (has_before | has_after).select(1.0, 0.0)
            sides.append(self.across_seams(side, steps, exist))
            neighbours.append(exist)
        return sides, neighbours

    def across_seams(
        self, side: Vectors, steps: tuple[Vectors, Vectors], exist: tuple[Value, Value]
    ) -> Vectors:
        """Return a side without the whole periods of steps across the seam of a circle."""
        result, scale = [], (exist[0] & exist[1]).select(0.5, 1.0)
        for a, (x, back, ahead) in enumerate(zip(side, *steps, strict=True)):
            if self.points.rules[a].boundary.code != formulas.WRAP:
                result.append(x)
                continue
            period = self.call.period[a].to(self.function.real)
            result.append(x - scale * (formulas.turns(back, ahead, period) * period))
        return result

    def neighbours(
        self, group: Group, own: Vectors, step: Value, exist: Value
    ) -> tuple[Vectors, Value]:
        """Read the neighbours that are ``step`` points further.

        Returns:
            Their coordinates, or the point's own where there is no neighbour; and whether there is.
        """
        function, points, lanes, call = self.function, self.points, self.function.lanes, self.call

        def read_each() -> Vectors:
            table = Table(call.grid, call.grid_item, call.grid_point, call.grid_axis)
            return self.read_each(group, exist.select(step.to(group.point.kind), 0), table)

        def read_group() -> Vectors:
            return points.stored(group._replace(point=group.point + step))

        if group.listed:
            lines = read_each()
        else:
            begin = group.point + step
            fits = (begin >= 0) & (begin + lanes <= self.call.points)
            lines = function.choose(fits, read_group, read_each, likely=True)
        lines = [line.to(function.real) for line in lines]
        exist = exist & finite(lines)
        return [exist.select(a, b) for a, b in zip(lines, own, strict=True)], exist

    def read_each(self, group: Group, steps: Value, table: Table) -> Vectors:
        """Read the vectors of the points that are some steps further, one by one."""
        index = (group.point + steps).to("int64")
        if not group.listed:
            index = index + self.function.vector(range(self.function.lanes), "int64")
        offsets = index * table.point + group.item.to("int64") * table.item
        return [table.memory.at(table.axis * a).gather(offsets) for a in range(self.rank)]

    def sides_of_maps(self, group: Group, base: Vectors) -> list[Vectors]:
        """Return the columns of each point's map, times the distance between points."""
        rank, function = self.rank, self.function
        read = self.points.entries_of_maps(group)
        usable, sides = finite(base), []
        for a in range(rank):
            step = self.call.out_step[a].to(function.real)
            side = [read(d * (rank + 1) + a) * step for d in range(rank)]
            sides.append([(usable & (x - x == 0.0)).select(x, 0.0) for x in side])
        return sides

    def of_directions(
        self, group: Group, memory: Pointer, footprint: Footprint
    ) -> tuple[Vectors, list[Vectors]]:
        """Return what base and sides change by if the grid changes in directions (N, points, D)."""
        rank = self.function.constant(self.rank, "int64")
        table = Table(memory, self.call.points * rank, rank, self.function.constant(1, "int64"))
        base, sides = self.points.vectors(group, memory), []
        for step, exist in zip(self.steps(), footprint.neighbours, strict=True):
            steps = (offset.to(group.point.kind) for offset in (-step, step))
            before, after = (
                self.read_each(group, exists.select(offset, 0), table)
                for exists, offset in zip(exist, steps, strict=True)
            )
            sides.append(self.scaled(difference(before, after, exist)))
        return self.scaled(base), sides

    def transposed(
        self, footprint: Footprint, sides: list[Vectors]
    ) -> tuple[list[Vectors], Vectors]:
        """Convert the gradients of sides to those of the grid's points, or of the maps' columns.

        Returns:
            For each side of a grid, the gradient of the neighbour after the point, and of the one
            before it with the opposite sign; and what is added to that of the point itself, which
            takes the place of neighbours that do not exist.  All is 0 for sides without gradient.
        """
        attached = self.call.attached != 0
        sides = [[attached.select(x, 0.0) for x in self.scaled(side)] for side in sides]
        own = zeros = [x.like(0.0) for x in sides[0]]
        for a, (before, after) in enumerate(footprint.neighbours):
            sides[a] = difference(zeros, sides[a], (before, after))
            own = [
                total + (after.select(0.0, x) - before.select(0.0, x))
                for total, x in zip(own, sides[a], strict=True)
            ]
        return sides, own

    def terms_of_maps(self, sides: list[Vectors]) -> Vectors:
        """Return what sides add to the gradient of their affine map; its last column gets none."""
        terms = []
        for side in zip(*sides, strict=True):  # of each row
            terms += [x.to("float64") * by for x, by in zip(side, self.call.out_step, strict=True)]
            terms.append(terms[-1].like(0.0))
        return terms

    # Samples --------------------------------------------------------------------------------------

    def count(self, sides: Sequence[Vectors]) -> tuple[Value, Vectors]:
        """Return the level of each point, and the numbers of samples along its sides."""
        function, real, lanes = self.function, self.function.real, self.function.lanes
        units = [unit.to(real) for unit in self.call.unit]
        lengths = []
        for side in sides:
            squares = [(x * unit) * (x * unit) for x, unit in zip(side, units, strict=True)]
            lengths.append(functools.reduce(operator.add, squares).minimum(HUGE).sqrt())
        max_samples = self.call.max_samples.to(real).splat(lanes)
        longest = functools.reduce(Value.maximum, lengths)
        finest = [function.constant(0, "int32", lanes), function.constant(1.0, real, lanes)]

        def halve() -> list[Value]:
            with function.loop(0, self.call.levels, carry=finest) as loop:
                level, scale = loop.carried
                longer = longest * scale - SLACK > max_samples
                loop.carry(longer.select(level + 1, level), longer.select(scale * 0.5, scale))
            return loop.carried

        too_long = (longest - SLACK > max_samples).any()
        level, scale = function.choose(too_long, halve, lambda: finest, likely=False)
        counts = []
        for length in lengths:
            n = round_up(length * scale - SLACK).minimum(max_samples)
            counts.append((n > 1.0).select(n, 1.0))
        return level, counts


def difference(lower: Vectors, upper: Vectors, exist: tuple[Value, Value]) -> Vectors:
    """Return half the difference of two neighbours, or all of it if only one of them exists."""
    scale = (exist[0] & exist[1]).select(0.5, 1.0)
    usable = exist[0] | exist[1]
    return [usable.select(scale * (b - a), 0.0) for a, b in zip(lower, upper, strict=True)]


def difference_of_each(lower: Vectors, upper: Vectors) -> Vectors:
    """Return the difference of two vectors."""
    return [b - a for a, b in zip(lower, upper, strict=True)]


def finite(lines: Vectors) -> Value:
    """Whether all coordinates of each point are finite."""
    return functools.reduce(operator.and_, [line - line == 0.0 for line in lines])


def round_up(number: Value) -> Value:
    """Round up."""
    return -((-number).floor())


def at_fractions(base: Vectors, sides: list[Vectors], fractions: Vectors) -> Vectors:
    """Return the base plus fractions of the sides."""
    vectors = []
    for d, start in enumerate(base):
        terms = (part * side[d] for part, side in zip(fractions[::-1], sides[::-1], strict=True))
        vectors.append(functools.reduce(operator.add, terms, start))
    return vectors


def next_numbers(numbers: Vectors, counts: Vectors) -> Vectors:
    """Return the numbers of the next sample along the sides, x fastest."""
    following = []
    carry: Value | None = None
    for number, count in zip(numbers, counts, strict=True):
        raised = number + 1.0 if carry is None else carry.select(number + 1.0, number)
        wraps = raised >= count
        carry = wraps if carry is None else carry & wraps
        following.append(carry.select(0.0, raised))
    return following
