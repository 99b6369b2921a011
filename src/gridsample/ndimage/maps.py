"""Sampling under matrices, whose positions are computed as they are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.ndimage.arrays import as_like
from gridsample.ndimage.modes import Spline
from gridsample.ndimage.positions import any_tie, is_sparse_for, transform
from gridsample.ndimage.prefilter import prepared
from gridsample.ndimage.strips import Positions
from gridsample.ops.affine import sample_under_maps


def transform_affine(
    image: Any,
    matrix: Any,
    offset: Sequence[Any],
    shape: tuple[int, ...],
    spline: Spline,
    output: Any = None,
) -> Any:
    """Sample an image at matrix @ index + offset; positions are computed as they are sampled."""
    rank, theta = image.ndim - 1, None
    if len(shape) == rank and not spline.mode.fold and backend_of(image=image).is_host:
        theta = theta_of(matrix, offset, spline)
    finite = theta is not None and bool(np.isfinite(theta).all())
    fused = finite and 0 not in image.shape and 0 not in shape
    fused = fused and not is_sparse_for(image, rank, shape, spline)
    if not fused or spline.has_ties:
        positions = linear_positions(matrix, offset, shape)
        if not fused or any_tie(positions, shape, image.shape[:rank], spline):
            return transform(image, positions, shape, spline, output, finite)
    keeps_dtype = output is not None and output.dtype == image.dtype
    source = prepared(image, range(rank), spline, keeps_dtype)
    size, options = (1, image.shape[-1], *shape), {**spline.options, **spline.outside}
    return sample_under_maps(source[np.newaxis], theta, size, channel_axis=-1, **options)[0]


def theta_of(matrix: Any, offset: Sequence[Any], spline: Spline) -> Any:
    """Return a matrix and an offset as maps (1, D, D + 1) of x, y, z in the padded image."""
    rank = len(matrix)
    theta = np.empty((1, rank, rank + 1))
    theta[0, :, :rank] = matrix[::-1, ::-1]
    theta[0, :, rank] = spline.padded(np.asarray(offset)[::-1])
    return theta


def linear_positions(matrix: Any, offset: Any, shape: Sequence[int]) -> Positions:
    """Compute matrix @ index + offset for rows of the output, summed in the same order as SciPy.

    The order matters because the last bit can decide whether a position at an edge is outside.
    """
    rank = len(shape)
    sizes = [tuple(-1 if k == axis else 1 for k in range(rank)) for axis in range(rank)]
    steps = [np.arange(n).reshape(size) for n, size in zip(shape, sizes, strict=True)]
    steps = [as_like(step, matrix) for step in steps]
    inner = [[row[k] * steps[k] for k in range(1, rank)] for row in matrix]

    def positions(first: int, last: int) -> list[Any]:
        rows = steps[0][first:last]
        starts = [o + row[0] * rows for row, o in zip(matrix, offset, strict=True)]
        return [sum(terms, start) for start, terms in zip(starts, inner, strict=True)]

    return positions
