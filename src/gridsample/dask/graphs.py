"""Graphs of one task for each chunk of a result, which depends on the chunks that it reads."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from gridsample.chunked.overlaps import copy_chunks, ends_of
from gridsample.chunked.pixels import Pixels
from gridsample.chunked.regions import Array, Block, Region
from gridsample.definitions.checks import check_dense
from gridsample.definitions.shapes import Shape

Chunks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """How the spatial axes of an array are divided, as tasks need to know it.

    Attributes:
        chunks: the sizes of the chunks along each spatial axis.
        channel_axis: 1 or -1.
    """

    chunks: Chunks
    channel_axis: int

    @classmethod
    def of(cls, array: Any, channel_axis: int = 1) -> ChunkLayout:
        """Describe a dask array (N, C, *spatial), or (N, *spatial, C)."""
        chunks = array.chunks[1:-1] if channel_axis == -1 else array.chunks[2:]
        return cls(chunks, channel_axis)

    @property
    def first_axis(self) -> int:
        """The first spatial axis."""
        return 1 if self.channel_axis == -1 else 2

    @property
    def shape(self) -> Shape:
        """The spatial shape."""
        return tuple(sum(sizes) for sizes in self.chunks)

    def keys(self, name: str, region: Region, item: int, channel: int) -> list[Any]:
        """Return the keys of the chunks that overlap a region, in the order of `loaded`."""
        last = self.channel_axis == -1
        return [
            (name, item, *index, channel) if last else (name, item, channel, *index)
            for index in region.chunks(self.chunks)
        ]

    def loaded(
        self, region: Region, chunks: Sequence[Array], leading: tuple[int, int], dtype: Any
    ) -> LoadedChunks:
        """Return an array of which a task has the chunks that overlap a region.

        Args:
            region: the region.
            chunks: the chunks.
            leading: N and C of the chunks.
            dtype: the dtype in which they are read, of the kind of theirs or a wider one.
        """
        items, channels = leading
        is_last = self.channel_axis == -1
        shape = (items, *self.shape, channels) if is_last else (items, channels, *self.shape)
        by_index = dict(zip(region.chunks(self.chunks), chunks, strict=True))
        return LoadedChunks(shape, dtype, self, by_index)


class LoadedChunks(Pixels):
    """An array of which some chunks are in memory.

    Attributes:
        chunks: the chunks, by their indices along the spatial axes.
        ends: where the chunks along each of these axes end.
    """

    def __init__(
        self, shape: Shape, dtype: np.dtype[Any], layout: ChunkLayout, chunks: dict[Shape, Array]
    ) -> None:
        super().__init__(shape, dtype, layout.first_axis)
        self.chunks, self.ends = chunks, [ends_of(sizes) for sizes in layout.chunks]

    def read(self, box: Block, out: Array) -> None:
        """Store the pixels of a box, of all axes, in an array."""
        first = self.first_axis
        spatial = box[first : first + len(self.ends)]
        copy_chunks(self.chunks.__getitem__, spatial, self.ends, out, first)


def parts_of(sizes: Sequence[int]) -> list[slice]:
    """Return the chunks of an axis as slices."""
    return [slice(end - n, end) for end, n in zip(ends_of(tuple(sizes)), sizes, strict=True)]


def blocks_of(chunks: Sequence[Sequence[int]]) -> Iterator[tuple[Shape, Block]]:
    """Yield the index and the slices of each chunk."""
    for parts in itertools.product(*(enumerate(parts_of(sizes)) for sizes in chunks)):
        yield tuple(k for k, _ in parts), tuple(part for _, part in parts)


def array_of_tasks(
    prefix: str,
    common: Any,
    tasks: Callable[[str], Iterable[tuple[Shape, Any]]],
    chunks: Chunks,
    dtype: Any,
    inputs: Sequence[Any],
) -> Any:
    """Make a dask array of tasks.

    Args:
        prefix: the beginning of the names of tasks.
        common: what all tasks share, and their names depend on; it is in the graph once.
        tasks: yields the index and the task of each chunk, given the key of what is shared.
        chunks: the sizes of the chunks along each axis.
        dtype: the dtype of the result.
        inputs: the dask arrays that tasks read.
    """
    name = f"{prefix}-{tokenize(common, chunks, *[array.name for array in inputs])}"
    layer: dict[Any, Any] = {(name, *index): task for index, task in tasks(f"call-{name}")}
    layer[f"call-{name}"] = common
    graph = HighLevelGraph.from_collections(name, layer, dependencies=list(inputs))
    return da.Array(graph, name, chunks, dtype=dtype)


def item_of(array: Any, k: int, chunks: Chunks, dtype: Any) -> Any:
    """Return entry ``k`` of an array whose chunks are tuples; axes may have fewer chunks."""
    name = f"{array.name}-{k}"
    layer: dict[Any, Any] = {
        (name, *index): (operator.getitem, (array.name, *index), k)
        for index in itertools.product(*(range(len(sizes)) for sizes in chunks))
    }
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[array])
    return da.Array(graph, name, chunks, dtype=dtype)


def as_dask(array: Any, name: str) -> Any:
    """Return a dask array; arrays with chunks of their own, such as Zarr's, keep these.

    Raises:
        TypeError: it is no array of numbers, or its chunks are masked or sparse.
    """
    if isinstance(array, da.Array):
        check_dense(**{name: getattr(array, "_meta", None)})
        return array
    check_dense(**{name: array})
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        array = np.asarray(array)
    if array.dtype == object:
        raise TypeError(f"{name} must be an array of numbers, got {type(array).__name__}")
    return da.from_array(array, chunks=getattr(array, "chunks", None) or "auto")


def chunks_for(chunks: Any, shape: Shape, like: Chunks, dtype: Any) -> Chunks:
    """Return the chunks of a result; by default as large as the largest of another array."""
    if chunks is None:
        same = len(like) == len(shape)
        chunks = tuple(max(sizes) for sizes in like) if same else "auto"
    normalized: Chunks = da.core.normalize_chunks(chunks, shape, dtype=dtype)
    return normalized
