"""Functions that the drop-ins share: grids in strips of rows, and sampling along a single axis.

A drop-in can compute the position of each output pixel before it samples: from a matrix, or from
one array per axis.  Storing all positions as one grid would cost more memory traffic than sampling
itself.  Instead, a strip of the grid is computed, used while it is in cache, and overwritten.  If
possible, axes are processed one after the other, with n taps along each of D axes instead of
n ** D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gridsample.backends import backend_of
from gridsample.ops.sampling import grid_sample, sample_at_pixels

# The number of points of a strip, whose coordinates fit into the cache of one core.
POINTS = 1 << 15

# A function of a range of output rows that returns their positions along each axis, slowest axis
# first, as arrays that broadcast to the shape of the rows.
Positions = Callable[[int, int], Sequence[Any]]


def sample(
    image: Any,
    positions: Positions,
    shape: Sequence[int],
    out: Any = None,
    real: Any = np.float64,
    **options: Any,
) -> Any:
    """Sample an image (*spatial, C) at ``positions``; the result is (*shape, C).

    Args:
        image: an array.  If its backend is not `gridsample.backends.base.Backend.is_host`, it is
            sampled in one piece, because derivatives need the whole grid.
        positions: a function that returns positions in pixels; see `Positions`.
        shape: the output's shape without channels.
        out: an array for the result, of the image's dtype, or None.
        real: the dtype in which coordinates are stored.
        options: options of `gridsample.grid_sample`.
    """
    rank, rows, rest = image.ndim - 1, shape[0], tuple(shape[1:])
    options |= {"coords": "pixel", "channel_axis": -1}
    backend = backend_of(image=image)
    if not backend.is_host:
        axes = positions(0, rows)[::-1]
        # Positions that are equal in all rows or columns are broadcast.
        xp = backend.xp
        grid = xp.stack([xp.broadcast_to(x, (rows, *rest)) for x in axes], -1)
        return grid_sample(image[None], grid[None], **options)[0]
    if out is None:
        out = np.empty((*shape, image.shape[-1]), image.dtype.newbyteorder("="))
    height = min(rows, max(1, POINTS // max(1, math.prod(rest))))
    # All x come before all y, because coordinates are written and read one axis after the other.
    buffer = np.empty((rank, height, *rest), real)
    for first in range(0, rows, max(1, height)):
        last = min(first + height, rows)
        strip = np.moveaxis(buffer[:, : last - first], 0, -1)[np.newaxis]
        for k, x in enumerate(positions(first, last)):
            strip[0, ..., rank - 1 - k] = x
        sample_at_pixels(image[np.newaxis], strip, out=out[np.newaxis, first:last], **options)
    return out


def as_grid_view(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """View two arrays of positions as one grid (*shape, 2), without a copy.

    The distance between the two arrays in memory becomes the stride of the last axis.  The result
    is None if the layouts of the arrays differ, or if there are few points, because each stride
    adds an entry to the cache of calls.  The grid keeps only ``x`` alive.
    """
    gap = y.ctypes.data - x.ctypes.data
    alike = x.shape == y.shape and x.strides == y.strides and x.dtype == y.dtype
    if not alike or x.size < POINTS or gap == 0 or gap % x.itemsize:
        return None
    return as_strided(x, (*x.shape, 2), (*x.strides, gap), writeable=False)


def sample_axis(image: Any, axis: int, positions: Any, out: Any = None, **options: Any) -> Any:
    """Sample an array or a tensor of any rank along one axis, at positions in pixels (m).

    The result is written to the array ``out`` if that has its dtype and a suitable layout.
    """
    before, n, after = image.shape[:axis], image.shape[axis], image.shape[axis + 1 :]
    outer, inner, outputs = math.prod(before), math.prod(after), positions.shape[0]
    # The other axes become channels, of pixels or of rows.
    last = inner > 1
    planes = image.reshape((outer, n, inner) if last else (1, outer, n))
    grid = positions.reshape(1, -1, 1)
    options |= {"coords": "pixel", "channel_axis": -1 if last else 1}
    if out is not None and out.dtype == image.dtype and out.dtype.isnative:
        place = out.reshape((outer, outputs, inner) if last else (1, outer, outputs))
        if np.may_share_memory(place, out):
            grid_sample(planes, grid, out=place, **options)
            return out
    return grid_sample(planes, grid, **options).reshape(*before, outputs, *after)
