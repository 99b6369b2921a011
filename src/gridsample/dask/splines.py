"""The prefilter of B-splines for chunked images, axis after axis, with halos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, Sampling, overlapping
from gridsample.chunked.splines import (
    Line,
    Part,
    coefficient_type,
    fill_of,
    filter_part,
    lines_of,
    part_along,
)
from gridsample.dask.graphs import array_of_tasks, as_dask, blocks_of, starts_of
from gridsample.definitions.checks import check_flag
from gridsample.definitions.shapes import Shape
from gridsample.definitions.splines import extension
from gridsample.ops.filtering import check_axes, check_names, check_order


def spline_filter(
    input: Any,
    order: int = 3,
    boundary: str | Sequence[str] = "mirror",
    axes: int | Sequence[int] | None = None,
    *,
    align_corners: bool = False,
) -> Any:
    """Compute the B-spline coefficients of a chunked image: `gridsample.spline_filter`.

    Each chunk of a line is filtered with a halo of the chunks beside it, as wide as the filter
    reaches above the rounding of sums: 24, 31, 40, 48, 56 and 64 pixels for the orders 2 to 7 in
    float64, half as many in float32.  The ends of lines are exact.  Coefficients differ from those
    of the whole image by less than 1e-15 of its range in float64, and by rounding in float32.  If a
    line is a single chunk, its coefficients have the same bits.

    Args:
        input: an image of any shape: a dask array, or an array with chunks.
        order, boundary, axes, align_corners: as in `gridsample.spline_filter`.

    Returns:
        A dask array with the chunks of the input.

    Raises:
        TypeError, ValueError: as in `gridsample.spline_filter`.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> row = da.from_array([0.0, 0.0, 6.0, 0.0, 0.0], chunks=2)
        >>> c = gridsample.dask.spline_filter(row, 3, "mirror", axes=0).compute()
        >>> (c[1:-3] + 4 * c[2:-2] + c[3:-1]) / 6
        array([6.])
    """
    image = as_dask(input, "input")
    chosen = check_axes(axes, image.ndim)
    corners = check_flag(align_corners, "align_corners")
    if check_order(order) < 2:
        return image
    names = [extension(name, corners) for name in check_names(boundary, chosen)]
    dtype = coefficient_type(image.dtype)
    for axis, name in zip(chosen, names, strict=True):
        image = filtered_along(image, Line(axis, order, name), dtype)
    return image


def image_lines(sampling: Sampling, image: Any) -> tuple[Line, ...]:
    """Return how an image (N, C, *spatial) or (N, *spatial, C) is filtered for a call."""
    last, rank = sampling.options.channels_last(), len(sampling.spatial)
    fill = 0
    if sampling.options.prefilter:
        fill = fill_of(sampling, image.dtype, image.shape[-1 if last else 1], 0 if last else rank)
    first = 1 if last else 2
    return lines_of(sampling, range(first, first + rank), fill)


@dataclass(frozen=True)
class Call:
    """What all tasks of a call share.

    Attributes:
        line: how the axis is filtered.
        dtype: the dtype of the coefficients.
        chunks: the sizes of the chunks along the axis.
    """

    line: Line
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]


def filtered_along(image: Any, line: Line, dtype: np.dtype[Any]) -> Any:
    """Filter a dask array along one axis."""
    axis, sizes = line.axis, image.chunks[line.axis]

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for place, block in blocks_of(image.chunks):
            part = part_along(line, block[axis].start, block[axis].stop, sum(sizes), dtype)
            keys = [
                (image.name, *place[:axis], k, *place[axis + 1 :])
                for piece in part.pieces
                for k in overlapping((piece,), sizes)
            ]
            yield place, (filter_chunk, common, Need(part), keys)

    call = Call(line, dtype, sizes)
    return array_of_tasks("spline-filter", call, tasks, image.chunks, dtype, [image])


@dataclass(frozen=True, slots=True)
class Need:
    """What a task filters."""

    part: Part


def filter_chunk(call: Call, need: Need, chunks: Sequence[Array]) -> Array:
    """Filter one chunk, given those that its part overlaps; what a task runs."""
    line, sizes = call.line, call.chunks
    starts, pixels, chunk = starts_of(sizes), list[Array](), iter(chunks)
    for start, stop in need.part.pieces:
        for k in overlapping(((start, stop),), sizes):
            part = slice(max(start - starts[k], 0), min(stop - starts[k], sizes[k]))
            pixels.append(next(chunk)[(slice(None),) * line.axis + (part,)])
    joined = np.concatenate(pixels, line.axis, dtype=call.dtype, casting="unsafe")
    return filter_part(joined, need.part, line.axis, line.order, line.boundary, threads=1)
