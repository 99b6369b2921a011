"""Sampling of chunked images, at grids and under maps.

A task samples one chunk of the result.  It depends on the chunks of the image that
`gridsample.chunked.regions` says it reads, and copies what it reads of them to a window.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.chunked.blocks import sample_grid, sample_maps, with_neighbours
from gridsample.chunked.means import check_means
from gridsample.chunked.regions import (
    Array,
    Block,
    Bounds,
    Extent,
    Region,
    Sampling,
    bounds_of_extents,
    bounds_of_grid,
    extent_along,
    real_type,
    region_of,
)
from gridsample.chunked.splines import (
    Line,
    coefficient_type,
    coefficients_of,
    region_around,
    with_last_halo,
)
from gridsample.chunked.windows import Window
from gridsample.dask.graphs import Chunks, Source, array_of_tasks, blocks_of, entry, parts_of
from gridsample.definitions.shapes import Shape


class Points(NamedTuple):
    """A function of output pixels, in place of a grid.

    Attributes:
        function: takes the indices of a block's pixels along each axis, x first: float64 arrays
            that broadcast to the block, such as (1, 1, W) for x.  It returns their coordinates
            along each axis of the image, x first, as arrays that broadcast to the block, too.
        bounds: takes the first and the last index of a block along each axis, x first, and returns
            the least and the greatest coordinate of its pixels along each axis, x first, or numbers
            beyond them.
    """

    function: Callable[..., Sequence[Any]]
    bounds: Callable[[Sequence[int], Sequence[int]], tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Call:
    """What all tasks of a call share.

    Attributes:
        sampling: the call.
        source: how the image is divided.
        dtype: the dtype of the image.
        coordinates: their dtype.
        points: maps (N, D, D + 1), a `Points`, or None for a grid that is divided, too.
        grid: how the grid is divided; its last axis are channels.
        weights: how the weights of pixels are divided.
        lines: how the image is filtered before it is sampled.
    """

    sampling: Sampling
    source: Source
    dtype: np.dtype[Any]
    coordinates: np.dtype[Any]
    points: Any = None
    grid: Source | None = None
    weights: Source | None = None
    lines: tuple[Line, ...] = ()

    @property
    def wide(self) -> np.dtype[Any]:
        """The dtype of coefficients."""
        return coefficient_type(self.dtype, self.coordinates == np.float64)

    def reads(self, region: Region) -> Region:
        """Return the pixels that are read for a region, more than that if these are filtered."""
        if not self.lines or not all(region.axes):
            return region
        shape, lead = self.source.shape, self.source.lead
        return region_around(region, self.lines, shape, self.wide, lead)


@dataclass(frozen=True, slots=True)
class Need:
    """What a task computes, and reads.

    Attributes:
        block: the points.
        region: the pixels.
        lead: N and C of the image's chunks.
        items: the items of maps.
        bounds: the bounds that a function has stated.
    """

    block: Block
    region: Region
    lead: tuple[int, int]
    items: slice
    bounds: Bounds | None = None


def compute(
    call: Call, need: Need, image: Sequence[Array], grid: Sequence[Array], weights: Sequence[Array]
) -> Any:
    """Compute one chunk of a result; what a task runs."""
    sampling, region = call.sampling, need.region
    window = read(call, need, image)
    others: dict[str, Any] = {"dtype": call.dtype}
    if call.weights is not None:
        lead = weights[0].shape[0], weights[0].shape[-1 if sampling.options.channels_last() else 1]
        others["weights"] = call.weights.read(region, weights, lead, weights[0].dtype)
    if isinstance(call.points, np.ndarray):
        maps = call.points[need.items]
        return sample_maps(sampling, window, maps, need.block, **others)
    wide = with_neighbours(sampling, need.block)
    points = (
        evaluated(call, wide, need) if call.grid is None else held(call, wide, grid)[need.items]
    )
    return sample_grid(sampling, window, points, need.block, **others)


def read(call: Call, need: Need, image: Sequence[Array]) -> Window:
    """Return a window with the pixels of a task's region, or with their coefficients."""
    if not call.lines or not image:
        return call.source.read(need.region, image, need.lead, call.dtype)
    shape, lead = call.source.shape, call.source.lead
    room = with_last_halo(need.region, call.lines, shape, call.wide, lead)
    window = call.source.window(room or need.region, need.lead, call.wide)
    pixels = call.source.held(call.reads(need.region), image)
    rooms = itertools.repeat(None) if room is None else room.boxes()
    for box, wide in zip(need.region.boxes(), rooms, strict=False):
        whole = [slice(0, n) for n in window.array.shape]
        whole[lead : lead + len(box)] = box
        out = window.array[window.at(box)]
        place = None if wide is None else window.array[window.at(wide)]
        coefficients_of(pixels.read, whole, call.lines, window.array.shape, out, place)
    return window


def held(call: Call, wide: Block, chunks: Sequence[Array]) -> Array:
    """Return the coordinates of a block, given the chunks of the grid that it overlaps."""
    assert call.grid is not None
    region = Region(tuple([((part.start, part.stop),) for part in wide]))
    lead = chunks[0].shape[0], chunks[0].shape[-1]
    window = call.grid.read(region, chunks, lead, chunks[0].dtype)
    points: Array = window.array[window.at(wide)]
    return points


def evaluated(call: Call, wide: Block, need: Need) -> Array:
    """Compute the coordinates of a block by the function of a call, and check its bounds."""
    rank = len(wide)
    indices = np.ogrid[wide][::-1]
    lines = call.points.function(*[index.astype(np.float64) for index in indices])
    shape = tuple(part.stop - part.start for part in wide)
    points = np.empty((1, *shape, rank), call.coordinates)
    for d, line in enumerate(lines):
        points[0, ..., d] = line
    actual = bounds_of_grid(call.sampling, points)
    assert need.bounds is not None
    room = 8 * call.sampling.epsilon * np.maximum(np.abs(need.bounds.low), np.abs(need.bounds.high))
    beyond = (actual.low < need.bounds.low - room) | (actual.high > need.bounds.high + room)
    if beyond.any():
        raise ValueError(
            f"bounds must be beyond the coordinates that function returns: for the block {wide}, "
            f"bounds gave {need.bounds}, but the coordinates are within {actual}"
        )
    return points


# The graph ----------------------------------------------------------------------------------------


def sampled(
    image: Any,
    call: Call,
    chunks: Chunks,
    bounds: Callable[[Shape, Block, slice], Bounds],
    items: int,
    grid: Any = None,
    weights: Any = None,
) -> Any:
    """Make the array of a call, or a tuple of arrays.

    Args:
        image: the image, a dask array.
        call: what all tasks share.
        chunks: the chunks of the result, without N and C.
        bounds: returns the bounds of a chunk, given its index, its points, and the items.
        items: N of the points.
        grid: a dask array (N, *out, D) with a single chunk along N and D, or None.
        weights: the weights of pixels, a dask array, or None.
    """
    last = call.sampling.options.channels_last()
    channel_axis = -1 if last else 1
    several = image.shape[0] > 1
    inputs = [array for array in (image, grid, weights) if array is not None]
    item_parts = parts_of(image.chunks[0])

    def keys(array: Any, source: Source, region: Region, n: int, c: int) -> list[Any]:
        n = min(n, len(array.chunks[0]) - 1)
        return source.keys(array.name, region, n, min(c, len(array.chunks[channel_axis]) - 1))

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for n, part in enumerate(item_parts):
            own = part if several and items > 1 else slice(None)
            for place, block in blocks_of(chunks):
                wide = with_neighbours(call.sampling, block)
                limits = bounds(place, block, own)
                region = region_of(call.sampling, limits, wide)
                points = []
                if grid is not None and call.grid is not None:
                    needed = Region(tuple([((p.start, p.stop),) for p in wide]))
                    points = call.grid.keys(grid.name, needed, 0, 0)
                stated = limits if isinstance(call.points, Points) else None
                for c, size in enumerate(image.chunks[channel_axis]):
                    need = Need(block, region, (image.chunks[0][n], size), own, stated)
                    pixels = keys(image, call.source, call.reads(region), n, c)
                    shares = []
                    if weights is not None and call.weights is not None:
                        shares = keys(weights, call.weights, some(region), n, c)
                        need = replace(need, region=some(region))
                        pixels = keys(image, call.source, need.region, n, c)
                    index = (n, *place, c) if last else (n, c, *place)
                    yield index, (compute, common, need, pixels, points, shares)

    lead = image.chunks[0] if several else (items,)
    planes = image.chunks[channel_axis]
    full = (lead, *chunks, planes) if last else (lead, planes, *chunks)
    array = array_of_tasks("sample", call, tasks, full, call.dtype, inputs)
    keywords, real = call.sampling.keywords, real_type(call.dtype, call.coordinates)
    masked, weighted = keywords.get("return_mask"), keywords.get("return_weight")
    if not masked and not weighted:
        return array
    results = [entry(array, 0, full, call.dtype)]
    if masked:
        lead = lead if items > 1 or not several else (1,)
        single = (lead, *chunks, (1,)) if last else (lead, (1,), *chunks)
        results.append(entry(array, 1, single, real))
    if weighted:
        results.append(entry(array, len(results), full, real))
    return tuple(results)


def some(region: Region) -> Region:
    """Return a region of at least one pixel, as weights are also known where no pixel is read."""
    if all(region.axes):
        return region
    return Region(tuple([((0, 1),)] * len(region.axes)))


def bounds_under(
    sampling: Sampling, theta: Array, chunks: Chunks
) -> Callable[[Shape, Block, slice], Bounds]:
    """Return the function of `sampled` for maps, which looks bounds up in a table."""
    lines = [
        [extent_along(sampling, theta, k, part) for part in parts_of(sizes)]
        for k, sizes in enumerate(chunks)
    ]

    @functools.lru_cache(maxsize=1)
    def table(first: int | None, last: int | None) -> Bounds:
        items, extents = slice(first, last), list[Extent]()
        for k, line in enumerate(lines):
            numbers = [np.stack(arrays)[:, items] for arrays in zip(*line, strict=True)]
            # (blocks along axis k, N, D), with N before the axes of blocks.
            shape = [-1 if axis == k else 1 for axis in range(len(lines))]
            extents.append(Extent(*[np.moveaxis(x, 1, 0) for x in numbers]))
            extents[-1] = Extent(*[x.reshape(len(x), *shape, x.shape[-1]) for x in extents[-1]])
        return bounds_of_extents(sampling, theta[items], extents)

    def bounds(place: Shape, block: Block, items: slice) -> Bounds:
        of_blocks = table(items.start, items.stop)
        return Bounds(of_blocks.low[place], of_blocks.high[place])

    return bounds


def dry_run(call: Call, channels: int, items: int) -> None:
    """Raise the errors of a call before its graph is made: compute a point without an image."""
    sampling = call.sampling
    region = Region(((),) * len(sampling.spatial))
    window = call.source.read(region, [], (1, channels), call.dtype)
    block = tuple([slice(0, min(n, 1)) for n in sampling.out])
    weights = None
    if call.weights is not None:
        weights = call.weights.read(region, [], (1, 1), np.float32)
    check_means(call.sampling, call.dtype, call.weights is not None)
    if isinstance(call.points, np.ndarray):
        sample_maps(sampling, window, call.points[:1], block, dtype=call.dtype, weights=weights)
        return
    wide = with_neighbours(sampling, block)
    shape = tuple(part.stop - part.start for part in wide)
    zeros = np.zeros((1, *shape, len(sampling.spatial)), call.coordinates)
    sample_grid(sampling, window, zeros, block, dtype=call.dtype, weights=weights)
