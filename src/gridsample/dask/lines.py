"""What is computed along the lines of an axis, in chunks.

These are the prefilter, halved copies, and interpolation at positions along the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.halving import Halving, halvings_of, stored_type
from gridsample.chunked.interpolation import Interpolation
from gridsample.chunked.overlaps import copy_chunks, ends_of, overlapping
from gridsample.chunked.regions import Array, Intervals, Sampling
from gridsample.chunked.splines import Line, Part, filter_part, part_of_line
from gridsample.dask.graphs import Chunks, array_of_tasks, blocks_of
from gridsample.definitions.shapes import Shape


@dataclass(frozen=True)
class Filter:
    """The prefilter of B-splines along an axis; ``size`` is that of the line."""

    line: Line
    size: int
    dtype: np.dtype[Any]

    @property
    def axis(self) -> int:
        """The axis."""
        return self.line.axis

    def part(self, start: int, stop: int) -> Part:
        """Return what a part of a line is filtered with."""
        return part_of_line(self.line, start, stop, self.size, self.dtype)

    def intervals(self, start: int, stop: int) -> Intervals:
        """Return the inputs of a part of a line, in the order in which `compute` takes them."""
        return self.part(start, stop).intervals

    def compute(self, inputs: Array, start: int, stop: int) -> Array:
        """Compute a part of all lines from its inputs."""
        return filter_part(inputs, self.line, self.part(start, stop))


# What is computed along an axis; ``dtype`` is that of the result.
Operation = Filter | Halving | Interpolation


@dataclass(frozen=True)
class LineCall:
    """What all tasks share: the operation, and the sizes of the chunks along its axis."""

    operation: Operation
    chunks: tuple[int, ...]


def along_axis(image: Any, operation: Operation, out_chunks: Sequence[int]) -> Any:
    """Apply an operation along an axis of a dask array, whose chunks become ``out_chunks``."""
    axis, sizes = operation.axis, image.chunks[operation.axis]
    chunks: Chunks = (*image.chunks[:axis], tuple(out_chunks), *image.chunks[axis + 1 :])

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for index, block in blocks_of(chunks):
            part = block[axis]
            keys = [
                (image.name, *index[:axis], k, *index[axis + 1 :])
                for interval in operation.intervals(part.start, part.stop)
                for k in overlapping(*interval, ends_of(sizes))
            ]
            yield index, (compute, common, part, keys)

    call = LineCall(operation, sizes)
    return array_of_tasks("along-axis", call, tasks, chunks, operation.dtype, [image])


def compute(call: LineCall, part: slice, chunks: Sequence[Array]) -> Array:
    """Compute a part of lines, given the chunks that its inputs overlap; what a task runs."""
    operation, ends = call.operation, ends_of(call.chunks)
    intervals = operation.intervals(part.start, part.stop)
    chunk, axis = iter(chunks), operation.axis
    shape = list(chunks[0].shape)
    shape[axis] = sum(stop - start for start, stop in intervals)
    joined, first = np.empty(shape, operation.dtype), 0
    for start, stop in intervals:
        place = (slice(None),) * axis + (slice(first, first + stop - start),)
        copy_chunks(lambda _: next(chunk), [slice(start, stop)], [ends], joined[place], axis)
        first += stop - start
    return operation.compute(joined, part.start, part.stop)


def filtered(image: Any, lines: Sequence[Line], dtype: np.dtype[Any]) -> Any:
    """Filter a dask array; the result has the dtype even if there are no lines."""
    for line in lines:
        sizes = image.chunks[line.axis]
        image = along_axis(image, Filter(line, sum(sizes), dtype), sizes)
    return image.astype(dtype)


def halved(image: Any, call: Sampling, first: int) -> Any:
    """Return the copy of an image at the level of a call; its spatial axes begin with ``first``."""
    axes = range(first, first + len(call.spatial))
    stored = stored_type(call, image.dtype)
    for level in halvings_of(call, axes, image.shape, image.dtype):
        for operation in level:
            entries, step = (operation.size + 1) // 2, max(image.chunks[operation.axis])
            out_chunks = [min(step, entries - k) for k in range(0, entries, step)]
            image = along_axis(image, operation, out_chunks)
    return image.astype(stored)
