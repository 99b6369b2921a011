"""Which pixels will be read later, as far as the coordinates of a range's corners tell."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence

from gridsample.kernels.sampling.settings import STRIP, Call
from gridsample.kernels.vector import Function, Value

# Pixels farther away are not asked for.  Pixels along each axis but x by which to look ahead where
# the distance is not measured.
FARTHEST, PIXELS_AHEAD = 1e6, 4


class Lookahead:
    """Where the pixels are that points some rows below read.

    Attributes:
        memory: where that is stored; None if no pixels are asked for.
    """

    def __init__(self, function: Function, call: Call, rank: int, used: bool) -> None:
        self.function, self.call, self.rank = function, call, rank
        self.memory = function.scratch("int64", 1) if used else None

    @property
    def ahead(self) -> Value:
        """How far away in memory the pixels are."""
        assert self.memory is not None
        return self.memory.load()

    def store(self, values: Sequence[Value]) -> None:
        """Store what `unknown` or `measured` returned."""
        for value in values:
            assert self.memory is not None
            self.memory.store(value)

    def unknown(self) -> list[Value]:
        """Return what is assumed if coordinates are not known."""
        return [self.rows_of_pixels] if self.memory else []

    def measured(self, down: Iterable[Value]) -> list[Value]:
        """Return what coordinates tell, given how they change over the rows of points ahead."""
        if not self.memory:
            return []
        # In volumes, it is slices further that are asked for, not rows.
        return [self.distance_in_memory(down) if self.rank == 2 else self.rows_of_pixels]

    @property
    def rows_of_pixels(self) -> Value:
        """How far `PIXELS_AHEAD` pixels are along all axes but x, which points do not read soon.

        All points of a small item are in one strip, so none will read the rows below.
        """
        points = self.call.points
        ahead: Value = (points > STRIP).select(points.like(PIXELS_AHEAD), 0)
        rows: Value = ahead * sum(self.call.strides[1:])
        return rows

    def distance_in_memory(self, steps: Iterable[Value]) -> Value:
        """Return how far apart pixels are, in elements, given the steps of coordinates."""
        distances = list[Value]()
        for step, unit, stride in zip(steps, self.call.unit, self.call.strides, strict=True):
            pixels = step * unit
            pixels = (pixels.abs() < FARTHEST).select(pixels, 0.0)  # it may be NaN
            distances.append(pixels.rint().to("int64") * stride)
        return functools.reduce(operator.add, distances)
