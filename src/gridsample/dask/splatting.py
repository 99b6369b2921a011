"""Splatting of chunked values to a chunked result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from gridsample.chunked.regions import (
    Array,
    Block,
    Bounds,
    Sampling,
    real_type,
    region_of,
    sampling_of,
)
from gridsample.dask.graphs import array_of_tasks, as_dask, blocks_of, chunks_for
from gridsample.dask.grids import as_pixels, bounds_function
from gridsample.dask.sampling import check_bounds
from gridsample.definitions import axis
from gridsample.definitions.knots import Axes, Coords
from gridsample.definitions.methods import Mode, find_method
from gridsample.definitions.shapes import Shape, check_size, check_values
from gridsample.ops.splatting import splat as splat_in_memory


def splat(
    values: Any,
    grid: Any,
    size: Any,
    mode: Mode = "bilinear",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    bounds: Any = None,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Add chunked values to an image at the coordinates of a grid: `gridsample.splat`.

    Each chunk of the result adds up those of the values whose taps reach it.  What falls outside
    the image is dropped ("zeros").  The result is that in memory up to the rounding of sums, which
    are added in another order.

    Args:
        values: (N, C, *out): a dask array, or an array with chunks.
        grid: the coordinates, (N, *out, D), as in `grid_sample`; N is that of the values or 1.
        size: the spatial shape of the result.
        mode: a method without a prefilter, as in `gridsample.splat`.
        align_corners, coords: as in `gridsample.splat`.
        bounds: for a dask array, the result of `coordinate_bounds` for this grid, or a pair, as in
            `grid_sample`.
        chunks: the chunks of the result's spatial axes; None for dask's automatic size.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array (N, C, *size), with the dtype of `gridsample.splat`.

    Raises:
        TypeError, ValueError: as in `gridsample.splat` and `grid_sample`; or the method has a
            prefilter.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> values = da.ones((1, 1, 3), chunks=(1, 1, 2))
        >>> grid = np.array([[[0.0], [2.5], [2.5]]])
        >>> gridsample.dask.splat(values, grid, 4, coords="pixel", chunks=2).compute()
        array([[[1., 0., 1., 1.]]])
    """
    chunked_values, points = as_dask(values, "values"), grid
    spatial = check_size(size, tuple(grid.shape))
    items = check_values(chunked_values.shape, tuple(grid.shape), False)
    out = tuple(grid.shape[1:-1])
    dtype = np.dtype(grid.dtype)
    real = real_type(chunked_values.dtype, dtype)
    options: dict[str, Any] = {"coords": coords, "threads": threads, "real": real}
    sampling = sampling_of((1, 1, *spatial), out, mode, "zeros", align_corners, **options)
    if isinstance(sampling.options.coords, Axes):
        grid, bounds = as_pixels(grid, bounds, sampling)
        return splat(
            values, grid, size, mode, align_corners, coords="pixel", bounds=bounds, chunks=chunks,
            threads=threads,
        )  # fmt: skip
    if any(find_method(name).prefilter > 1 for name in sampling.options.mode):
        raise ValueError(
            f"mode must have no prefilter in chunks, got {mode!r}; splat with prefilter=False in "
            "memory, or use another method"
        )
    if not isinstance(grid, da.Array):
        points = da.from_array(np.asarray(grid), chunks=(-1, *chunked_values.chunks[2:], -1))
    points = points.rechunk({0: -1, points.ndim - 1: -1})
    chunked_values = chunked_values.rechunk((-1, chunked_values.chunks[1], *points.chunks[1:-1]))
    chunk_bounds = bounds_function(sampling, grid, None, bounds, points.chunks[1:-1])
    single, pixel = (1,) * len(out), (1,) * len(spatial)
    value = np.zeros((1, 1, *single), chunked_values.dtype)
    point = np.zeros((1, *single, len(spatial)), dtype)
    dtype = splat_in_memory(value, point, pixel, mode, coords="pixel").dtype
    call = SplattingCall(sampling, chunked_values.dtype, dtype, items)
    out_chunks = chunks_for(chunks, spatial, (), dtype)
    stated, inputs = isinstance(grid, da.Array), list[Input]()
    for index, block in blocks_of(points.chunks[1:-1]):
        limits = chunk_bounds(index, block, slice(None))
        region = region_of(sampling, limits, block)
        inputs.append(Input(index, block, region.axes, limits if stated else None))

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for number, (target, box) in enumerate(blocks_of(out_chunks)):
            # One task checks the bounds by which blocks are outside of the image.
            checked = stated and number == 0
            nearby = [
                each
                for each in inputs
                if overlaps(each.region, box) or (checked and not all(each.region))
            ]
            task = SplattingTask(box, tuple([(each.block, each.bounds) for each in nearby]))
            grids = [(points.name, 0, *each.chunk, 0) for each in nearby]
            for c, channels in enumerate(chunked_values.chunks[1]):
                keys = [(chunked_values.name, 0, c, *each.chunk) for each in nearby]
                yield (0, c, *target), (add, common, task, channels, keys, grids)

    full = ((items,), chunked_values.chunks[1], *out_chunks)
    return array_of_tasks("splat", call, tasks, full, dtype, [chunked_values, points])


class Input(NamedTuple):
    """A block of values.

    Attributes:
        chunk: the index of its chunk.
        block: its points.
        region: the pixels to which it may add.
        bounds: the bounds of its coordinates that the caller states, or None.
    """

    chunk: Shape
    block: Block
    region: Sequence[Sequence[tuple[int, int]]]
    bounds: Bounds | None


def overlaps(region: Sequence[Sequence[tuple[int, int]]], box: Block) -> bool:
    """Whether a region has pixels of a box."""
    return all(
        any(start < part.stop and stop > part.start for start, stop in intervals)
        for intervals, part in zip(region, box, strict=True)
    )


@dataclass(frozen=True)
class SplattingCall:
    """What all tasks of a call share.

    Attributes:
        sampling: the call of sampling of which this is the transpose.
        values: the dtype of the values.
        dtype: that of the result.
        items: N of the result.
    """

    sampling: Sampling
    values: np.dtype[Any]
    dtype: np.dtype[Any]
    items: int


@dataclass(frozen=True, slots=True)
class SplattingTask:
    """What a task computes, and reads.

    Attributes:
        box: the chunk of the result.
        blocks: the blocks of values that it adds up, and the bounds of their coordinates that the
            caller states, or None.
    """

    box: Block
    blocks: tuple[tuple[Block, Bounds | None], ...]


def add(
    call: SplattingCall,
    task: SplattingTask,
    channels: int,
    values: Sequence[Array],
    grids: Sequence[Array],
) -> Array:
    """Compute one chunk of a result; what a task runs."""
    options = call.sampling.options
    methods = [find_method(name) for name in options.mode][::-1]
    # Taps beyond the chunk fall on a rim, which is cut off.
    rims = [max(abs(method.first), method.first + method.taps) + 1 for method in methods]
    sizes = [part.stop - part.start + 2 * rim for part, rim in zip(task.box, rims, strict=True)]
    total: Array = np.zeros((call.items, channels, *sizes), call.dtype)
    origins = [part.start - rim for part, rim in zip(task.box, rims, strict=True)]
    keywords: dict[str, Any] = {"mode": options.mode, "coords": "pixel"}
    keywords["threads"] = options.threads
    for (block, stated), block_values, grid in zip(task.blocks, values, grids, strict=True):
        if stated is not None:
            check_bounds(call.sampling, block, grid, stated)
        points = positions(call.sampling, grid, block)
        for k, origin in enumerate(origins):
            points[..., len(origins) - 1 - k] -= origin
        total += splat_in_memory(block_values, points, sizes, **keywords)
    inner = [slice(rim, n - rim) for rim, n in zip(rims, sizes, strict=True)]
    return total[(slice(None), slice(None), *inner)]


def positions(sampling: Sampling, grid: Array, block: Block) -> Array:
    """Return the positions of a block's coordinates in pixels of the whole result."""
    points = grid.astype(np.float64)
    if sampling.options.coords == "normalized":
        for a, n in enumerate(reversed(sampling.spatial)):
            points[..., a] = axis.position(points[..., a], n - 1.0, sampling.options.align_corners)
    elif sampling.options.coords == "displacement":
        for a, index in enumerate(np.ogrid[block][::-1]):
            points[..., a] += index
    # Taps at the ends of the image are dropped there, wherever chunks end.
    return drop_outside(sampling, points)


def drop_outside(sampling: Sampling, points: Array) -> Array:
    """Return positions with NaN in place of those whose taps are all outside the image."""
    for a, n in enumerate(reversed(sampling.spatial)):
        reach = find_method(sampling.options.mode[a]).taps + 1
        coordinate = points[..., a]
        coordinate[(coordinate < -reach) | (coordinate > n + reach)] = np.nan
    return points
