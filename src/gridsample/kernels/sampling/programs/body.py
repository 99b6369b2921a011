"""What all programs of sampling have: points, a sampler, the image and states."""

from __future__ import annotations

from gridsample.kernels.sampling.programs.groups import Strip, TaskRange
from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.points import Points
from gridsample.kernels.sampling.programs.prefetching import Prefetch
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import States
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Value


class Body:
    """Writes what is done with the points of a call.

    Attributes:
        footprints: whether points are sampled over their footprints.
    """

    footprints = False

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        self.function, self.description, self.call = function, description, call
        contiguous = description.known.contiguous
        self.points = Points(function, description.points, description.axes, contiguous, call)
        self.sampler = description.way(function, description, call)
        self.image = Image(call.image, call.image_item, call.image_planes)
        self.states = States(function)
        self.prefetch = Prefetch(self.sampler, self.points, self.states, self.footprints)

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name, in the order in which calls pass addresses."""
        raise NotImplementedError

    def write(self, task: Value) -> None:
        """Write the program of one task: the loops over strips and over planes."""
        part = self.points.range_of(task)
        if self.description.points.in_blocks:
            self.write_blocks(part)
        else:
            self.write_range(part)

    def write_blocks(self, part: TaskRange) -> None:
        """Write the loops of a range whose planes are processed in blocks (`division.Blocks`)."""
        raise NotImplementedError

    def write_range(self, part: TaskRange) -> None:
        """Write the loops over the strips and the planes of a range."""
        self.prefetch.begin(part)
        with self.points.strips(part) as strip:
            self.locate(strip)
            self.prefetch.check_distance()
            self.prefetch.aim(strip, self.images, part.plane, part.plane_end)
            self.prefetch.ask_for_all(self.points.groups_of(strip))
            with self.function.loop(part.plane, part.plane_end, self.step) as loop:
                following = loop.index + self.step
                self.prefetch.aim(strip, self.images, following, part.plane_end)
                self.process_plane(strip, loop.index, part.plane_end)
            self.finish(strip)

    @property
    def images(self) -> list[Image]:
        """The images that are read, or added to."""
        return [self.image]

    @property
    def step(self) -> int | Value:
        """The number of planes that are processed together: those of a run."""
        return self.call.channels if self.description.known.channels > 1 else 1

    def locate(self, strip: Strip) -> None:
        """Convert the coordinates of a strip to states."""
        with self.points.groups(strip) as (number, group):
            coordinates = self.points.coordinates(group)
            self.states.save(number, self.sampler.locate(coordinates, group))
            self.prefetch.ask_at_once(strip, number, self.images)

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Process a plane, or the run that begins with it, at the points of a strip.

        The planes of the task are those before ``end``.
        """
        raise NotImplementedError

    def finish(self, strip: Strip) -> None:
        """Do what comes after the planes of a strip."""
