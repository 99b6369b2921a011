"""Steps for images with many channels, which are copied so that channels are neighbours in memory.

This takes less time than to process planes one by one, and is done a few items at a time, while
they are in the cache: see `gridsample.kernels.sampling.channels_last`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.backends.jax.handler import LaunchStep, Place
from gridsample.backends.jax.launches import ArrayType, Operand, StepArrays, layout_of
from gridsample.backends.jax.taps import TracedCall, real_type
from gridsample.definitions.plan import Plan


def pays(call: TracedCall, image: ArrayType, values: ArrayType, adds: bool) -> bool:
    """Whether it pays to copy an image so that channels come last in memory."""
    from gridsample.kernels.sampling.paying import pays_channels_last

    plan = replace(call.plan, real=np.dtype(real_type(call)))
    layouts = layout_of(image), layout_of(values)
    return not call.last and pays_channels_last(plan, *layouts, adds)


def parts_of(plan: Plan) -> Iterable[Any]:
    """Divide a call into parts of a few items."""
    from gridsample.kernels.sampling import channels_last

    return channels_last.parts_of(plan)


class Copies:
    """Copies of the items of one part after the other, which share memory.

    Attributes:
        items: the current part.
        before: the steps that copy what is read.
        after: the steps that copy what is written.
    """

    def __init__(self, results: StepArrays) -> None:
        self._results = results
        self._memory: dict[Operand, Place] = {}
        self.items, self.before, self.after = slice(None), list[LaunchStep](), list[LaunchStep]()

    def begin(self, items: slice) -> None:
        """Begin a part, which has no more items than the first."""
        self.items, self.before, self.after = items, [], []

    def read(self, planes: Operand) -> Operand:
        """Return runs of channels that are a copy of planes (N, C, ...)."""
        part, runs = self._runs(planes)
        items, channels, *shape = part.type.shape
        if runs.place:
            self.before.append(transposition((items, channels, math.prod(shape)), part, runs))
        return runs

    def written(self, planes: Operand) -> Operand:
        """Return runs of channels that will be copied to planes (N, C, ...)."""
        part, runs = self._runs(planes)
        items, channels, *shape = part.type.shape
        if runs.place:
            self.after.append(transposition((items, math.prod(shape), channels), runs, part))
        return runs

    def _runs(self, planes: Operand) -> tuple[Operand, Operand]:
        """The planes of the part, and memory for their runs; none if the planes have no place."""
        part = planes.part(self.items)
        if part.place and planes not in self._memory:
            self._memory[planes] = self._results.add_intermediate(part.type.nbytes)
        return part, Operand(part.type, self._memory.get(planes))


def transposition(shape: tuple[int, int, int], source: Operand, target: Operand) -> LaunchStep:
    """Transpose matrices that follow each other in memory."""
    from gridsample.kernels.sampling.copies import prepare_transposition

    launch = prepare_transposition(*shape, source.type.dtype.itemsize)
    return LaunchStep(launch, {"source": source.place, "target": target.place}, {})
