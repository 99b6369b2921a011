"""What the drop-ins share: grids that are made strip by strip, and sampling along one axis alone.

A drop-in knows where each output pixel reads before it samples: from a matrix, or from one array
an axis.  Writing all of that as one grid would cost more memory traffic than sampling itself; a
strip of it is made, used while it is in cache, and overwritten.  Where rows, columns and slices
can be worked on one after the other, they are: n taps along each of D axes instead of n ** D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gridsample.backends import backend_of
from gridsample.ops.sampling import grid_sample

# Points of a strip: their coordinates take less than a core's own cache.
POINTS = 1 << 15

# The positions along each axis, slowest axis first, of output rows first to last; anything that
# broadcasts to the shape of those rows.
Positions = Callable[[int, int], Sequence[Any]]


def sample(
    image: Any,
    positions: Positions,
    shape: Sequence[int],
    out: Any = None,
    real: Any = np.float64,
    **options: Any,
) -> Any:
    """Sample an image (*spatial, C) where ``positions`` says: (*shape, C).

    Args:
        image: an array; one that is not `gridsample.backends.base.Backend.plain` is sampled in one
            piece, since derivatives need the whole grid.
        positions: pixels along each axis; see `Positions`.
        shape: the output's shape without channels.
        out: an array for the result, of the image's dtype, or None.
        real: the type of an array's coordinates.
        options: of `gridsample.grid_sample`.
    """
    rank, rows, rest = image.ndim - 1, shape[0], tuple(shape[1:])
    options |= {"coords": "pixel", "channel_axis": -1}
    backend = backend_of(image=image)
    if not backend.plain:
        axes = positions(0, rows)[::-1]
        # What is written as one row or one column stands for all of them.
        xp = backend.xp
        grid = xp.stack([xp.broadcast_to(x, (rows, *rest)) for x in axes], -1)
        return grid_sample(image[None], grid[None], **options)[0]
    if out is None:
        out = np.empty((*shape, image.shape[-1]), image.dtype.newbyteorder("="))
    height = min(rows, max(1, POINTS // max(1, math.prod(rest))))
    # All x, then all y: coordinates are written, and read, one axis after the other.
    buffer = np.empty((rank, height, *rest), real)
    for first in range(0, rows, max(1, height)):
        last = min(first + height, rows)
        strip = np.moveaxis(buffer[:, : last - first], 0, -1)[np.newaxis]
        for k, x in enumerate(positions(first, last)):
            strip[0, ..., rank - 1 - k] = x
        grid_sample(image[np.newaxis], strip, out=out[np.newaxis, first:last], **options)
    return out


def joined(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Two arrays of positions as one grid (*shape, 2) over the memory of both, which is not copied.

    From one to the other it is always as far, which is a stride like any other.  None where it is
    not; and for few points, because what is known of a grid is remembered by its strides.
    The grid holds on to ``x`` alone.
    """
    gap = y.ctypes.data - x.ctypes.data
    alike = x.shape == y.shape and x.strides == y.strides and x.dtype == y.dtype
    if not alike or x.size < POINTS or gap == 0 or gap % x.itemsize:
        return None
    return as_strided(x, (*x.shape, 2), (*x.strides, gap), writeable=False)


def sample_axis(image: Any, axis: int, positions: Any, **options: Any) -> Any:
    """Sample an array or a tensor of any rank along one axis, at positions in pixels (m)."""
    before, n, after = image.shape[:axis], image.shape[axis], image.shape[axis + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    # What lies beside the axis is channels: of pixels, or of rows.
    last = inner > 1
    planes = image.reshape((outer, n, inner) if last else (1, outer, n))
    grid = positions.reshape(1, -1, 1)
    options |= {"coords": "pixel", "channel_axis": -1 if last else 1}
    return grid_sample(planes, grid, **options).reshape(*before, positions.shape[0], *after)


def saturated(values: Any, dtype: np.dtype[Any]) -> Any:
    """Whole numbers, floating, as an integer type; what is too large is its largest, NaN is 0."""
    low, high = float_limits(np.iinfo(dtype))
    return np.where(np.isnan(values), 0, np.clip(values, low, high)).astype(dtype)


def float_limits(limits: Any) -> tuple[float, float]:
    """The least and the largest float64 of an integer type with given limits."""
    top = float(limits.max)
    return float(limits.min), top if top <= limits.max else math.nextafter(top, 0)
