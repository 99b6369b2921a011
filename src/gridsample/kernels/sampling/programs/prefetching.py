"""Prefetching: ask for the pixels of points before they are read.

A processor foresees reads of contiguous memory only, and begins no read that is more than a few
hundred instructions ahead.  Where points cross the rows of a large image, one in about 16 reads a
new line of the cache, and waits for it while nothing else is under way.  Therefore programs ask for
such lines a strip ahead: for those of a strip's first plane where they locate its points, and for
those of the next plane where they sample one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.points import Group, Points, Strip
from gridsample.kernels.sampling.programs.sampler import Sampler
from gridsample.kernels.sampling.programs.states import States
from gridsample.kernels.vector import Pointer, Value

# Points of a group whose pixels are asked for: neighbouring points share lines of the cache, more
# of them than those that are apart because they have footprints.
ASKED, ASKED_APART = 4, 8
# How many rows two points of those asked for may be apart.  Where points are at random places, what
# the next ones read cannot be foreseen.
FAR = 16


class Prefetch:
    """Asks for the pixels that a strip's points will read, if that pays.

    Attributes:
        needed: whether it asks for any.
        distance: how far apart two points of the previous strip are, in memory.
        planes: the memory of the plane that will be read; of each image, if there are several.
    """

    needed: Value
    distance: Pointer
    planes: list[Pointer]

    def __init__(self, sampler: Sampler, points: Points, states: States, apart: bool) -> None:
        self.sampler, self.points, self.states = sampler, points, states
        lanes, asked = points.lanes, ASKED_APART if apart else ASKED
        self.lanes = range(0, lanes, max(1, (lanes - 1) // (asked - 1)))
        self.apart = apart
        self.far = FAR * sum(row.abs() for row in sampler.call.strides[1:])
        self.distance = points.function.scratch("int64", 1)
        self.distance.store(points.function.constant(0, "int64"))

    def aim(self, points: Strip | Group, images: Sequence[Image], plane: Value, end: Value) -> None:
        """Choose the plane that will be read, if it is not the end."""
        near = self.distance.load() <= self.far
        self.needed = (self.sampler.call.prefetches != 0) & (plane < end) & near
        # The samples of footprints leave no pixels out: those below are read next.
        self.further = self.points.rows_of_pixels if self.apart else self.points.ahead.load()
        self.planes = [image.plane(points, plane.minimum(end - 1)) for image in images]

    @contextlib.contextmanager
    def groups(self, strip: Strip) -> Iterator[tuple[Value, Group]]:
        """Loop over the groups of a strip, as `Points.groups` does, and ask for their pixels.

        The caller stores their offsets.  To read them back at once would wait for the cache, so it
        is the pixels of the group before that are asked for.
        """
        with self.points.groups(strip) as (number, group):
            yield number, group
            self.when_needed((number - 1).maximum(0))

    def foresee(self) -> None:
        """Expect the points of the next strip to be as far apart as two of this one."""
        if len(self.lanes) > 1:
            first, second = itertools.islice(self.offsets(0), 2)
            self.distance.store((second - first).abs())

    def when_needed(self, number: Value) -> None:
        """Ask for the pixels of a group if that pays."""
        self.points.function.choose(self.needed, lambda: self.ask(number), lambda: [], likely=False)

    def ask(self, number: Value) -> list[Value]:
        """Ask for pixels of a group."""
        for offset in self.offsets(number):
            for plane in self.planes:
                plane.prefetch(offset + self.further)
        return []

    def offsets(self, number: Value | int) -> Iterator[Value]:
        """Read the offsets of the points of a group whose pixels are asked for, one by one."""
        memory = self.sampler.near(self.states.load(self.points.function.as_index(number)))
        for lane in self.lanes:
            yield memory.load(lane).to("int64")
