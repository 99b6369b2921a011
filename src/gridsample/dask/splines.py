"""The prefilter of B-splines for chunked images, axis after axis, with halos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, Sampling, overlapping
from gridsample.chunked.splines import Part, filter_part, part_of_line
from gridsample.dask.graphs import array_of_tasks, as_dask, blocks_of, starts_of
from gridsample.definitions.options import fill_numbers
from gridsample.definitions.plan import BOUNDARIES, WIDE_TYPES, Shape, check_flag
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
    return filtered(image, order, names, chosen, type_of_coefficients(image.dtype))


def filtered(
    image: Any, order: int, boundaries: Sequence[str], axes: Sequence[int], dtype: Any
) -> Any:
    """Filter a dask array along some axes."""
    for axis, boundary in zip(axes, boundaries, strict=True):
        image = filtered_along(image, Line(axis, order, boundary, dtype))
    return image


def type_of_coefficients(image: Any, wide: bool = False) -> np.dtype[Any]:
    """Return the dtype of an image's coefficients, of float64 for a ``wide`` grid."""
    wide = wide or image.name in WIDE_TYPES
    if image.kind == "c":
        return np.dtype(np.complex128 if wide else np.complex64)
    return np.dtype(np.float64 if wide else np.float32)


def coefficients(image: Any, sampling: Sampling, wide: bool) -> Any:
    """Return the coefficients that a call samples, given the image (N, C, *spatial)."""
    options, last = sampling.options, sampling.options.channels_last()
    dtype, rank = type_of_coefficients(image.dtype, wide), len(sampling.spatial)
    fill: Any = 0
    if np.any(sampling.keywords.get("fill_value", 0)):
        channels = image.shape[-1 if last else 1]
        numbers = fill_numbers(
            options._replace(fill_value=sampling.keywords["fill_value"]),
            True,
            image.dtype,
            channels,
        )
        fill = np.array(numbers, dtype)
        fill = np.where(np.isfinite(fill), fill, 0)
        fill = fill if last else fill.reshape(-1, *(1,) * rank)
    lines = [
        Line(
            axis=(1 if last else 2) + rank - 1 - a,
            order=order,
            boundary=extension(name, options.align_corners),
            dtype=dtype,
            fill=fill if BOUNDARIES[name].filled else 0,
        )
        for a, (order, name) in enumerate(zip(options.splines(), options.padding_mode, strict=True))
        if order > 1
    ]
    # What a fill value adds is constant along the other axes once these are filtered.
    for line in sorted(lines, key=lambda line: bool(np.any(line.fill))):
        image = filtered_along(image, line)
    return image


@dataclass(frozen=True)
class Line:
    """How an axis is filtered.

    Attributes:
        axis: the axis.
        order: the order of the spline.
        boundary: the boundary of the filter.
        dtype: the dtype of the coefficients.
        fill: what is outside, under "constant".
        chunks: the sizes of the chunks.
    """

    axis: int
    order: int
    boundary: str
    dtype: np.dtype[Any]
    fill: Any = 0
    chunks: tuple[int, ...] = ()


def filtered_along(image: Any, line: Line) -> Any:
    """Filter a dask array along one axis."""
    axis, real = line.axis, np.finfo(line.dtype).dtype
    sizes = image.chunks[axis]
    line = Line(axis, line.order, line.boundary, line.dtype, line.fill, sizes)

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for place, block in blocks_of(image.chunks):
            ends = block[axis].start, block[axis].stop
            part = part_of_line(*ends, sum(sizes), line.order, line.boundary, real)
            keys = [
                (image.name, *place[:axis], k, *place[axis + 1 :])
                for piece in part.pieces
                for k in overlapping((piece,), sizes)
            ]
            yield place, (filter_chunk, common, Need(part), keys)

    return array_of_tasks("spline-filter", line, tasks, image.chunks, line.dtype, [image])


@dataclass(frozen=True, slots=True)
class Need:
    """What a task filters."""

    part: Part


def filter_chunk(line: Line, need: Need, chunks: Sequence[Array]) -> Array:
    """Filter one chunk, given those that its part overlaps; what a task runs."""
    starts, pixels, chunk = starts_of(line.chunks), list[Array](), iter(chunks)
    for start, stop in need.part.pieces:
        for k in overlapping(((start, stop),), line.chunks):
            part = slice(max(start - starts[k], 0), min(stop - starts[k], line.chunks[k]))
            pixels.append(next(chunk)[(slice(None),) * line.axis + (part,)])
    joined = np.concatenate(pixels, line.axis, dtype=line.dtype, casting="unsafe")
    return filter_part(
        joined, need.part, line.axis, line.order, line.boundary, line.fill, threads=1
    )
