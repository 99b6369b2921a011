"""What all programs of sampling have: points, a sampler, the image and states."""

from __future__ import annotations

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
        self.prefetch = Prefetch(self.sampler, self.points, self.states)

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name, in the order in which calls pass addresses."""
        raise NotImplementedError

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        raise NotImplementedError
