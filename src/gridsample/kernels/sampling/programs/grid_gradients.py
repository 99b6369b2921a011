"""The gradient of the grid: totals over planes, stored at points or added to that of maps."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.points import AFFINE, Points
from gridsample.kernels.sampling.settings import STRIP, Call
from gridsample.kernels.vector import Function, Kind, Value, kind_of


class Totals:
    """Sums of several numbers for each lane of some groups, in scratch memory."""

    def __init__(self, function: Function, groups: int, count: int, kind: Kind) -> None:
        self.function, self.count = function, count
        self.memory = function.scratch(kind, groups * count, function.lanes)

    def _place(self, number: Value | int, k: int) -> Value | int:
        return (number * self.count + k) * self.function.lanes

    def clear(self, number: Value | int) -> None:
        """Set the sums of a group to zero."""
        zero = self.function.constant(0.0, self.memory.kind, self.function.lanes)
        self.set(number, [zero] * self.count)

    def set(self, number: Value | int, sums: Sequence[Value]) -> None:
        """Set the sums of a group."""
        for k, total in enumerate(sums):
            self.memory.store(total, self._place(number, k), aligned=True)

    def read(self, number: Value | int) -> list[Value]:
        """Return the sums of a group."""
        return [
            self.memory.load(self._place(number, k), self.function.lanes, aligned=True)
            for k in range(self.count)
        ]

    def add(self, number: Value | int, summands: Sequence[Value]) -> None:
        """Add to the sums of a group."""
        for k, (total, summand) in enumerate(zip(self.read(number), summands, strict=True)):
            self.memory.store(total + summand, self._place(number, k), aligned=True)


class GridGradient:
    """Adds up the gradient of the grid at the points of a strip, and stores it.

    Attributes:
        totals: the sums over planes, for each group of a strip.
        is_affine: whether the grid is computed by affine maps, whose gradient is a sum over all
            points.  It is divided into parts, one for each strip or listed point.
    """

    def __init__(self, function: Function, points: Points, call: Call) -> None:
        self.function, self.points, self.call = function, points, call
        rank, source = points.rank, points.source
        self.totals = Totals(function, STRIP // function.lanes, rank, function.real)
        self.is_affine = source.grid_layout == AFFINE
        # Whether the sums of points begin with what is stored: partial sums of earlier blocks.
        self.resumes = source.in_blocks and not self.is_affine
        if self.is_affine:
            self.map_totals = Totals(function, 1, rank * (rank + 1), kind_of("float64"))

    def begin(self, number: Value, group: Group) -> None:
        """Begin the sums of a group."""
        if self.resumes:
            self.totals.set(number, self.points.vectors(group, self.call.gradient))
        else:
            self.totals.clear(number)

    def of_group(self, number: Value, valid: Value) -> list[Value]:
        """Return the gradient at the points of a group; 0 for points that are not valid."""
        return [valid.select(total, 0.0) for total in self.totals.read(number)]

    def store(self, group: Group, slopes: Sequence[Value]) -> None:
        """Store the gradient at the points of a group."""
        if not self.resumes:
            self.points.store_vectors(group, self.call.gradient, slopes)
            return
        # Other points belong to the strip before, perhaps of another thread: their sums began with
        # what may already have included the planes of this block.
        with self.function.when(group.fresh.all()):
            self.points.store_vectors(group, self.call.gradient, slopes)
        with self.function.when(~group.fresh.all(), rare=True):
            self.points.store_fresh_vectors(group, self.call.gradient, slopes)

    # Of maps --------------------------------------------------------------------------------------

    def terms_of_maps(self, group: Group, slopes: Sequence[Value]) -> list[Value]:
        """Return what points with these slopes add to the gradient of their affine map."""
        own = [line.to("float64") for line in self.points.output_coordinates(group)]
        shares = [slope.to("float64") for slope in slopes]
        return [share if x is None else share * x for share in shares for x in (*own, None)]

    def add_to_maps(self, group: Group, terms: Sequence[Value]) -> None:
        """Add terms to the sums of a strip in double precision; to each point's, if listed."""
        if not group.listed:
            self.map_totals.add(0, [group.fresh.select(term, 0.0) for term in terms])
            return
        gradient, size = self.call.gradient, len(terms)
        places = self.points.places(group, self.call.points * size, size)
        for k, term in enumerate(terms):
            numbers = self.function.spill(gradient.at(k).load_each(places) + term)
            for lane, place in enumerate(places):
                gradient.at(k).store(numbers.load(lane), place)

    def begin_maps(self) -> None:
        """Begin the sums of a strip."""
        if self.is_affine:
            self.map_totals.clear(0)

    def finish_maps(self, strip: Strip) -> None:
        """Add the sums of a strip to its part of the gradient of maps."""
        if self.is_affine and not strip.listed:
            place = self.points.number_of_strip(strip) * self.map_totals.count
            for k, total in enumerate(self.map_totals.read(0)):
                part = self.call.gradient.at(place + k)
                part.store(part.load() + total.sum())
