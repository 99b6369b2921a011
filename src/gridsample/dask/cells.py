"""Statistics of the cells of a grid, of chunked images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, Block, Region
from gridsample.dask.graphs import (
    ChunkLayout,
    array_of_tasks,
    as_dask,
    blocks_of,
    chunks_for,
)
from gridsample.definitions.shapes import Shape
from gridsample.ops.cell_statistics import cell_statistics


@dataclass(frozen=True)
class CellsCall:
    """What all tasks of a call share.

    Attributes:
        layout: how the image is divided.
        corners: makes the corners of a block of rows and columns of them, (1, rows, columns, 2);
            and bounds them, see `gridsample.geo.Positions`.
        dtype: that of results.
        options: those of `cell_statistics`.
    """

    layout: ChunkLayout
    corners: Any
    dtype: np.dtype[Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CellsTask:
    """What a task computes, and reads.

    Attributes:
        corners: the corners of its cells.
        box: the pixels that are read.
        turns: whether x may jump by the period: all columns are then read.
    """

    corners: Block
    box: Block
    turns: bool


def statistics_at(
    image: Any, corners: Any, weights: Any, chunks: Any, dtype: Any, options: dict[str, Any]
) -> Any:
    """Make an array of statistics, (1, C, rows, columns).

    Args:
        image: a dask array (1, C, H, W).
        corners: see `CellsCall`.
        weights: one of the same shape, or None.
        chunks: the chunks of the result's rows and columns.
        dtype: its dtype.
        options: those of `cell_statistics`.
    """
    out = tuple(n - 1 for n in corners.shape)
    layout = ChunkLayout.of(image)
    counts = None if weights is None else as_dask(weights, "weights").rechunk(image.chunks)
    call = CellsCall(layout, corners, dtype, options)
    out_chunks = chunks_for(chunks, out, image.chunks[2:], image.dtype)

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for index, block in blocks_of(out_chunks):
            task = task_of(call, block)
            region = Region.of_box(task.box)
            for c in range(len(image.chunks[1])):
                keys = layout.keys(image.name, region, 0, c)
                others = [] if counts is None else layout.keys(counts.name, region, 0, c)
                yield (0, c, *index), (compute_block, common, task, keys, others)

    inputs = [image] if counts is None else [image, counts]
    full = (*image.chunks[:2], *out_chunks)
    return array_of_tasks("cells", call, tasks, full, dtype, inputs)


def task_of(call: CellsCall, block: Block) -> CellsTask:
    """Return the task of a block of cells."""
    height, width = call.layout.shape
    points = tuple(slice(part.start, part.stop + 1) for part in block)
    first, last = [[p.start for p in points][::-1], [p.stop - 1 for p in points][::-1]]
    low, high = call.corners.bounds(first, last)
    period = call.options["period"]
    x, y = (covered_pixels(a, b, n) for a, b, n in zip(low, high, (width, height), strict=True))
    turns = False
    if period is not None:
        beyond = period == width and not (low[0] >= -0.5 and high[0] < width - 0.5)
        turns = bool(beyond or not high[0] - low[0] <= period / 2)
    return CellsTask(points, (y, slice(0, width) if turns else x), turns)


def covered_pixels(low: float, high: float, n: int) -> slice:
    """Return the pixels of an axis between two positions, at least one of them."""
    if not low <= high:  # there are no positions
        return slice(0, 1)
    first = math.floor(min(max(low + 0.5, 0), n - 1))
    return slice(first, math.floor(min(max(high + 0.5, first), n - 1)) + 1)


def compute_block(
    call: CellsCall, task: CellsTask, chunks: Sequence[Array], weights: Sequence[Array]
) -> Array:
    """Compute the statistics of a block of cells; what a task runs."""
    rows, columns = task.box
    pixels = window(call.layout, task.box, chunks)
    counts = window(call.layout, task.box, weights) if weights else None
    # Whole numbers, so that differences are exact.
    corners = call.corners(*task.corners, threads=1) - [columns.start, rows.start]
    options = call.options if task.turns else {**call.options, "period": None}
    return cell_statistics(pixels, corners, weights=counts, **options)


def window(layout: ChunkLayout, box: Block, chunks: Sequence[Array]) -> Array:
    """Return the pixels of a box, given the chunks that overlap it."""
    leading = chunks[0].shape[0], chunks[0].shape[1]
    image = layout.loaded(Region.of_box(box), chunks, leading, chunks[0].dtype)
    return image[image.box(box)]
