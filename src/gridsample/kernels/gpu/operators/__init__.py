"""The GPU programs of fused operators: one for the result, and one for its first derivatives.

`gridsample.definitions.operators` says what an operator is.  The module of its name in this package
has its kernels (``KERNELS``), the functions that these call (``FUNCTIONS``), and what launches
them:

    compute(arrays, options, result, context)
    differentiate(arrays, options, gradients, context)

``arrays`` are the tensors by name, for derivatives with "upstream", and with "result" if the
operator `reads_result`.  ``gradients`` has a `Total` for each needed gradient, by name.  Totals are
of the dtype of sums.  They are 0 at first, and the result is ``INITIAL``.

    additions(name, sizes, options)

returns the maximum number of values that are added to any one number of an array's gradient, or of
the "result"; 0 if numbers are stored and not added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.shapes import Shape
from gridsample.kernels.gpu.launching import Call, LaunchOptions, Sums, Tensor
from gridsample.kernels.gpu.records import Planes


class Context(NamedTuple):
    """How programs are run.

    Attributes:
        launch: the options of launches.
        empty: makes a tensor of a shape, in the dtype of sums.
    """

    launch: LaunchOptions
    empty: Callable[[tuple[int, ...]], Tensor]


class Total(NamedTuple):
    """A tensor to which values are added, or in which they are stored.

    Attributes:
        memory: the tensor.
        sums: the integers to which finite values are added instead, in the tensor's shape; None if
            the order of additions does not matter.
    """

    memory: Tensor
    sums: Sums | None = None

    @property
    def real(self) -> np.dtype[Any]:
        """The dtype of sums."""
        return np.dtype(f"float{8 * self.memory.dtype.itemsize}")

    def part(self, *place: Any) -> Total:
        """Return a part, given its indices along the first axes."""
        if self.sums is None:
            return Total(self.memory[place])
        bounds, limbs, room = self.sums
        return Total(self.memory[place], Sums(bounds[place], limbs[(slice(None), *place)], room))


def pixels_of(sizes: Iterable[Shape]) -> Iterator[tuple[int, int]]:
    """Yield where the pixels of each level begin and end in a list, given the levels' sizes."""
    return itertools.pairwise([0, *itertools.accumulate(map(math.prod, sizes))])


def planes_of(strides: Sequence[int], size: Shape) -> Planes:
    """Describe a list of pixels (N, S, C) of a spatial shape to kernels, without its memory.

    Absent axes have stride 0.
    """
    item, pixel, channel = strides
    steps, step = [0, 0, 0], pixel
    for axis, n in enumerate(size[::-1]):
        steps[axis], step = step, step * n
    return Planes(None, item, channel, *steps)


def undivided(call: Call) -> Call:
    """Return a call whose programs each have all channels of their points."""
    call.programs //= call.arguments["work_splits"]
    return call.but(work_splits=1)
