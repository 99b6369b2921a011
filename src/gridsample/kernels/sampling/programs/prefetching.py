"""Prefetching: ask for the pixels of points before they are read.

A processor foresees reads of contiguous memory only, and begins no read that is more than a few
hundred instructions ahead.  Where points cross the rows of a large image, one in about 16 reads a
new line of the cache, and waits for it while nothing else is under way.  Therefore programs ask for
such lines ahead: for those of a strip's first plane after they have located its points, and for
those of the next plane before they sample one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.points import Group, Points, Strip
from gridsample.kernels.sampling.programs.sampler import Sampler
from gridsample.kernels.sampling.programs.states import States
from gridsample.kernels.vector import Value

# Points of a group whose pixels are asked for: neighbouring points share lines of the cache, more
# of them than those that are apart because they have footprints.
ASKED, ASKED_APART = 4, 8
# How many rows apart two neighbours of those asked for may be.  Where points are at random places,
# what the next ones read cannot be foreseen.
FAR = 16


class Prefetch:
    """Asks for the pixels that groups will read, if that pays.

    The groups have been located before: programs that asked while they located them would wait for
    the offsets that they have just stored.

    Attributes:
        pays: whether it does.
    """

    def __init__(self, sampler: Sampler, points: Points, states: States, apart: bool) -> None:
        self.sampler, self.points, self.states = sampler, points, states
        self.function, self.apart = points.function, apart
        lanes, asked = points.lanes, ASKED_APART if apart else ASKED
        self.lanes = range(0, lanes, max(1, (lanes - 1) // (asked - 1)))
        self.pays = sampler.call.prefetches != 0

    def foresee(self) -> None:
        """Ask for pixels only if the first points of the strip are near each other."""
        self.pays = self.sampler.call.prefetches != 0
        if len(self.lanes) > 1:
            offsets = self.offsets(self.function.constant(0, "int64"))
            distance = (next(offsets) - next(offsets)).abs()
            rows = sum(row.abs() for row in self.sampler.call.strides[1:])
            self.pays &= distance <= FAR * rows

    def ask_for(
        self, points: Strip | Group, groups: Value, images: Sequence[Image], plane: Value,
        end: Value,
    ) -> None:  # fmt: skip
        """Ask for what some groups will read in a plane of each image, if it is not the end."""

        def ask() -> list[Value]:
            # The samples of footprints leave no pixels out: those below are read next.
            ahead = self.points.rows_of_pixels if self.apart else self.points.ahead.load()
            planes = [image.plane(points, plane).at(ahead) for image in images]
            with self.function.loop(0, groups) as loop:
                for offset in self.offsets(loop.index):
                    for memory in planes:
                        memory.prefetch(offset)
            return []

        self.function.choose(self.pays & (plane < end), ask, lambda: [], likely=False)

    def offsets(self, number: Value) -> Iterator[Value]:
        """Read the offsets of the points of a group whose pixels are asked for, one by one."""
        memory = self.sampler.near(self.states.load(number))
        for lane in self.lanes:
            yield memory.load(lane).to("int64")
