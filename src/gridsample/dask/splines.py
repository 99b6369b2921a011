"""The prefilter of B-splines for chunked images, axis after axis, with halos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.chunked.regions import Sampling, sum_type
from gridsample.chunked.splines import Line, fill_of, lines_of
from gridsample.dask.graphs import as_dask
from gridsample.dask.lines import filtered
from gridsample.definitions.checks import check_flag
from gridsample.definitions.methods import Padding
from gridsample.definitions.splines import extension
from gridsample.ops.filtering import check_axes, check_names, check_order


def spline_filter(
    input: Any,
    order: int = 3,
    boundary: Padding = "mirror",
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
    corners, dtype = check_flag(align_corners, "align_corners"), sum_type(image.dtype)
    names = check_names(boundary, chosen) if check_order(order) > 1 else []
    lines = [
        Line(axis, order, extension(name, corners))
        for axis, name in zip(chosen, names, strict=False)
    ]
    return filtered(image, lines, dtype)


def image_lines(sampling: Sampling, image: Any) -> tuple[Line, ...]:
    """Return how an image (N, C, *spatial) or (N, *spatial, C) is filtered for a call."""
    last, rank = sampling.options.channels_last(), len(sampling.spatial)
    fill = 0
    if sampling.options.prefilter:
        fill = fill_of(sampling, image.dtype, image.shape[-1 if last else 1], 0 if last else rank)
    first = 1 if last else 2
    return lines_of(sampling, range(first, first + rank), fill)
