"""Resizing and conservative regridding of chunked images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from gridsample.backends import backend_of
from gridsample.chunked.regions import Array, Block, Region
from gridsample.dask.graphs import (
    ChunkLayout,
    Chunks,
    array_of_tasks,
    as_dask,
    blocks_of,
    chunks_for,
    parts_of,
)
from gridsample.definitions.cells import CellOverlaps
from gridsample.definitions.labels import check_labels
from gridsample.definitions.methods import ResizingMode
from gridsample.definitions.names import MissingName
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest
from gridsample.definitions.resizing import check_image
from gridsample.definitions.shapes import Shape
from gridsample.ops.conservative import check_cells, in_order, mean_block, resizing_of, rule_of
from gridsample.ops.missing import CountingRule
from gridsample.ops.resized_parts import resize_block, windows_of
from gridsample.ops.resizing import Factor, plan_resizing


def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: ResizingMode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Resize a chunked image to a size or by a factor: `gridsample.interpolate`.

    Args:
        input: the image, (N, C, *spatial): a dask array, or an array with chunks.
        size, scale_factor, mode, align_corners, recompute_scale_factor, antialias: as in
            `gridsample.interpolate`.
        chunks: the chunks of the output's spatial axes; None for the size of the image's.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array (N, C, *size), with the image's dtype.  N and C have the chunks of the image.

    Raises:
        TypeError, ValueError: as in `gridsample.interpolate`.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> image = da.from_array([[[0.0, 4.0, 8.0, 12.0]]], chunks=(1, 1, 2))
        >>> gridsample.dask.interpolate(image, scale_factor=0.5, mode="area").compute()
        array([[[ 2., 10.]]])
    """
    image = as_dask(input, "input")
    check_image(image.shape, 1, threads)
    spatial = image.shape[2:]
    request = ResizeRequest(mode, align_corners, recompute_scale_factor, antialias, threads=threads)
    resizing = plan_resizing(spatial, size, scale_factor, request)
    check_labels(resizing.methods[::-1], image.dtype, image.dtype.kind in "biu")
    out_chunks = chunks_for(chunks, resizing.size, image.chunks[2:], image.dtype)
    return resized(image, ResizingCall(resizing, ChunkLayout.of(image)), out_chunks)


def regrid_conservative(
    input: Any,
    overlaps: CellOverlaps,
    *,
    missing: MissingName = "propagate",
    min_weight: float = 0.0,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Compute means of a chunked image over the cells of another grid.

    It is `gridsample.regrid_conservative`.

    Args:
        input: the image, (N, C, *spatial): a dask array, or an array with chunks.
        overlaps: the cells of the image and of the result.
        missing, min_weight: as in `gridsample.regrid_conservative`.
        chunks: the chunks of the output's spatial axes; None, also for a single axis, for about as
            much of it as the image's chunks are.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array (N, C, *overlaps.shape), with the image's dtype.  N and C have the chunks of
        the image.

    Raises:
        TypeError, ValueError: as in `gridsample.regrid_conservative`.

    Example:
        >>> import dask.array as da, numpy as np, gridsample, gridsample.dask
        >>> image = da.from_array([[[0.0, 4.0, 8.0, 12.0]]], chunks=(1, 1, 2))
        >>> cells = gridsample.CellOverlaps([np.arange(5)], [[0.0, 1.5, 4.0]])
        >>> gridsample.dask.regrid_conservative(image, cells).compute()
        array([[[1.33333333, 8.8       ]]])
    """
    image = as_dask(input, "input")
    request = ResizeRequest(missing=missing, min_weight=min_weight, threads=threads)
    rule = rule_of(request, None)
    check_cells(backend_of(input=np.empty(0, image.dtype)), request, image, overlaps, ())
    image = in_order(da, image, overlaps)
    chunks = default_chunks(chunks, image.chunks[2:], overlaps)
    out_chunks = chunks_for(chunks, overlaps.shape, image.chunks[2:], image.dtype)
    resizing = resizing_of(request, overlaps, False)
    return resized(image, ResizingCall(resizing, ChunkLayout.of(image), overlaps, rule), out_chunks)


def default_chunks(chunks: Any, image: Chunks, overlaps: CellOverlaps) -> Any:
    """Return the chunks of a result, each from about as much of its axis as the image's are."""
    if chunks is None:
        chunks = (None,) * len(image)
    if not isinstance(chunks, (tuple, list)):
        return chunks
    sizes = zip(chunks, image, overlaps.shape, strict=True)
    return tuple(
        [
            math.ceil(max(along) * min(1.0, m / sum(along))) if given is None else given
            for given, along, m in sizes
        ]
    )


def resized(image: Any, call: ResizingCall, out_chunks: Chunks) -> Any:
    """Make the tasks of a call."""
    inputs = [
        [intervals_along(call.resizing, call.layout.shape, k, part) for part in parts_of(sizes)]
        for k, sizes in enumerate(out_chunks)
    ]

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for index, block in blocks_of(out_chunks):
            intervals = [line[k] for line, k in zip(inputs, index, strict=True)]
            task = ResizingTask(block, Region(tuple(intervals)))
            for n in range(len(image.chunks[0])):
                for c in range(len(image.chunks[1])):
                    keys = call.layout.keys(image.name, task.region, n, c)
                    yield (n, c, *index), (resize_chunk, common, task, keys)

    full = (*image.chunks[:2], *out_chunks)
    dtype = image.dtype.newbyteorder("=")
    return array_of_tasks("interpolate", call, tasks, full, dtype, [image])


@dataclass(frozen=True)
class ResizingCall:
    """What all tasks of a call share.

    Attributes:
        resizing: the options.
        layout: how the image is divided.
        overlaps: the cells whose means are computed, in the order of the image, or None.
        rule: which pixels count in means.
    """

    resizing: Resizing
    layout: ChunkLayout
    overlaps: CellOverlaps | None = None
    rule: CountingRule | None = None


@dataclass(frozen=True, slots=True)
class ResizingTask:
    """What a task computes, and reads."""

    block: Block
    region: Region


def intervals_along(
    resizing: Resizing, spatial: Shape, k: int, part: slice
) -> tuple[tuple[int, int], ...]:
    """Return the inputs of some outputs along an axis."""
    of_axis = slice(k, k + 1)
    size, methods, scales = resizing.size, resizing.methods[of_axis], resizing.scales[of_axis]
    single = resizing._replace(size=size[of_axis], methods=methods, scales=scales)
    (window,) = windows_of(single, spatial[k : k + 1], (part,))
    return ((window.inputs.start, window.inputs.stop),)


def resize_chunk(call: ResizingCall, task: ResizingTask, chunks: Sequence[Array]) -> Array:
    """Compute one chunk of a result; what a task runs."""
    spatial = call.layout.shape
    windows = windows_of(call.resizing, spatial, task.block)
    leading = chunks[0].shape[0], chunks[0].shape[1]
    image = call.layout.loaded(task.region, chunks, leading, chunks[0].dtype)
    pixels = image[image.box([window.inputs for window in windows])]
    if call.overlaps is None or call.rule is None:
        return resize_block(pixels, windows, call.resizing, spatial)
    result: Array = mean_block(pixels, windows, call.resizing, call.overlaps, task.block, call.rule)
    return result
