"""Chunks of an array that overlap a box, and copies of what they have in common."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.checks import check_dense
from gridsample.definitions.shapes import Shape

Array = np.ndarray[Any, Any]
Block = tuple[slice, ...]


class Overlap(NamedTuple):
    """What a chunk and a box have in common.

    Attributes:
        chunk: the index of the chunk along each axis.
        box: where it is in the box.
        part: where it is in the chunk.
    """

    chunk: Shape
    box: Block
    part: Block


@functools.lru_cache(maxsize=64)
def ends_of(sizes: Shape) -> Shape:
    """Return where chunks of these sizes end."""
    return tuple(itertools.accumulate(sizes))


def overlapping(start: int, stop: int, ends: Sequence[int]) -> range:
    """Return the chunks of an axis that have pixels from ``start`` to ``stop``.

    Example:
        >>> from gridsample.chunked.overlaps import overlapping
        >>> overlapping(3, 7, (3, 5, 6, 9))
        range(1, 4)
    """
    if start >= stop:
        return range(0)
    return range(bisect.bisect_right(ends, start), bisect.bisect_right(ends, stop - 1) + 1)


def overlaps(box: Sequence[slice], ends: Sequence[Sequence[int]]) -> Iterator[Overlap]:
    """Yield what a box has in common with each chunk of an array.

    Args:
        box: slices of some axes.
        ends: where the chunks along each of these axes end.

    Example:
        >>> from gridsample.chunked.overlaps import overlaps
        >>> for overlap in overlaps([slice(1, 5)], [(4, 8)]):
        ...     print(overlap.chunk, overlap.box, overlap.part)
        (0,) (slice(0, 3, None),) (slice(1, 4, None),)
        (1,) (slice(3, 4, None),) (slice(0, 1, None),)
    """
    lines = [overlaps_along(part, line) for part, line in zip(box, ends, strict=True)]
    for entries in itertools.product(*lines):
        yield Overlap(*(tuple(numbers) for numbers in zip(*entries, strict=True)))


def overlaps_along(part: slice, ends: Sequence[int]) -> list[tuple[int, slice, slice]]:
    """Return the entries of each `Overlap` along an axis."""
    entries = []
    for k in overlapping(part.start, part.stop, ends):
        first = ends[k - 1] if k else 0
        start, stop = max(part.start, first), min(part.stop, ends[k])
        in_box = slice(start - part.start, stop - part.start)
        entries.append((k, in_box, slice(start - first, stop - first)))
    return entries


def copy_chunks(
    chunk: Callable[[Shape], Array],
    box: Sequence[slice],
    ends: Sequence[Sequence[int]],
    out: Array,
    first_axis: int = 0,
) -> None:
    """Copy the pixels of a box from the chunks that it overlaps.

    Args:
        chunk: returns the pixels of a chunk, given its index.
        box: slices of the axes along which the array is divided.
        ends: where the chunks along each of these axes end.
        out: stores the pixels, in a dtype of the kind of theirs.
        first_axis: the first of these axes; chunks have all pixels along the others.

    Raises:
        TypeError: a chunk is sparse or masked.
    """
    before = (slice(None),) * first_axis
    for overlap in overlaps(box, ends):
        pixels = chunk(overlap.chunk)
        check_dense(chunk=pixels)
        np.copyto(out[before + overlap.box], pixels[before + overlap.part], casting="same_kind")
