"""Prefetching: ask for the pixels of points before they are read.

A processor foresees reads of contiguous memory only, and begins no read that is more than a few
hundred instructions ahead.  Where points cross the rows of a large image, one in about 16 reads a
new line of the cache, and waits for it while nothing else is under way.  Therefore programs ask for
such lines ahead: for those of a strip's first plane after they have located its points, and for
those of the next plane while they sample one.  Of points at random places, they ask for those of
the first plane alone, while they locate other points: the processor then waits for memory and
computes positions at the same time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gridsample.kernels.caches import CACHES
from gridsample.kernels.sampling.programs.groups import Group, Strip, TaskRange
from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.points import Points
from gridsample.kernels.sampling.programs.sampler import Sampler
from gridsample.kernels.sampling.programs.states import States
from gridsample.kernels.vector import Pointer, Value, kind_of

# Points of a group whose pixels are asked for, at least: neighbouring points share lines of the
# cache, unless their pixels are long, and more of them than those that are apart because they have
# footprints.
ASKED, ASKED_APART = 4, 8
# How many rows apart two neighbours of those asked for may be.  Where points are at random places,
# what the next ones read cannot be foreseen.
MAX_ROWS_APART = 16


class Prefetch:
    """Asks for the pixels that groups will read, if that pays.

    Attributes:
        pays: whether it does, as far as sizes tell.
        near: whether points are near each other; None for samples of footprints, which always are.
        lanes: the points of a group whose pixels are asked for.
        scattered: whether points are at random places, and to ask for their pixels at once; None if
            that does not pay.
        first_plane: the first plane of the range.
        needed: whether to ask for the plane that `aim` chose.
        planes: the memory of that plane; of each image, if there are several.
    """

    near: Value | None
    scattered: Value | None
    first_plane: Value
    needed: Value
    planes: list[Pointer]

    def __init__(self, sampler: Sampler, points: Points, states: States, apart: bool) -> None:
        self.sampler, self.points, self.states = sampler, points, states
        self.function, self.apart = points.function, apart
        lanes, asked = points.lanes, ASKED_APART if apart else ASKED
        pixels, kind = sampler.description.pixels, kind_of(sampler.description.image)
        in_line = CACHES.line // (pixels.channels * kind.bits // 8)
        step = max(1, min((lanes - 1) // (asked - 1), in_line))
        self.lanes = range(0, lanes, step)
        self.pays, self.near = points.source.prefetches, None

    def begin(self, part: TaskRange) -> None:
        """Find out whether the points of a range are at random places."""
        self.scattered, self.first_plane = None, part.plane
        if self.points.source.asks_at_once:
            self.scattered = self.points.far_apart(part)

    def ask_at_once(self, strip: Strip, number: Value, images: Sequence[Image]) -> None:
        """Ask for a pixel of each point of a group that has just been located, if that pays."""
        if self.scattered is None:
            return
        with self.function.when(self.scattered):
            planes = [image.plane(strip, self.first_plane) for image in images]
            self.ask_lanes(self.offsets(number), range(self.points.lanes), planes)

    def check_distance(self) -> None:
        """Find out whether the first points of the strip are near; otherwise, ask for nothing."""
        if self.pays:
            offsets = self.offsets(self.function.constant(0, "int64"))
            first, second = (offsets.load(lane).to("int64") for lane in self.lanes[:2])
            distance = (first - second).abs()
            rows = sum(row.abs() for row in self.sampler.call.strides[1:])
            self.near = distance <= MAX_ROWS_APART * rows

    def aim(self, points: Strip | Group, images: Sequence[Image], plane: Value, end: Value) -> None:
        """Choose the plane that will be read, if it is not the end."""
        if not self.pays:
            return
        more = plane < end
        self.needed = more if self.near is None else more & self.near
        lookahead = self.points.lookahead
        # The samples of footprints leave no pixels out: those below are read next.
        ahead = lookahead.rows_of_pixels if self.apart else lookahead.ahead
        self.planes = [image.plane(points, plane.minimum(end - 1)).at(ahead) for image in images]

    def ask_for_all(self, count: Value) -> None:
        """Ask for the pixels of the first groups, after all of them have been located.

        To read an offset that has just been stored would wait for the cache.
        """
        if self.pays:
            with self.function.when(self.needed), self.function.loop(0, count) as loop:
                self.ask(loop.index)

    def ask_for(self, number: Value) -> None:
        """Ask for the pixels of a group."""
        if self.pays:
            with self.function.when(self.needed):
                self.ask(number)

    @contextlib.contextmanager
    def groups(self, strip: Strip) -> Iterator[tuple[Value, Group]]:
        """Loop over the groups of a strip, as `Points.groups` does, and ask for their pixels."""
        with self.points.groups(strip) as (number, group):
            yield number, group
            self.ask_for(number)

    def ask(self, number: Value) -> None:
        """Ask for the pixels of a group, whether it pays or not."""
        self.ask_lanes(self.offsets(number), self.lanes, self.planes)

    def ask_lanes(self, offsets: Pointer, lanes: range, planes: Sequence[Pointer]) -> None:
        """Ask for the pixels of some points of a group, in some planes."""
        for lane in lanes:
            offset = offsets.load(lane).to("int64")
            for memory in planes:
                memory.prefetch(offset)

    def offsets(self, number: Value) -> Pointer:
        """Return the memory of a pixel's offset for each point of a group."""
        return self.sampler.near(self.states.load(number))
