"""What the names of SciPy and scikit-image share: grids in strips, and sampling along one axis.

A drop-in can compute the position of each output pixel before it samples: from a matrix, or from
one array per axis.  Storing all positions as one grid would cost more memory traffic than sampling
itself.  Instead, a strip of the grid is computed, used while it is in cache, and overwritten.  If
possible, axes are processed one after the other, with n taps along each of D axes instead of
n ** D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.shapes import bands_along
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


class Neighbourhoods(NamedTuple):
    """The pixels around points, in place of the image that they are from.

    Attributes:
        pixels: (points, taps along each axis, C), of the image's dtype.
        positions: the positions in them, along each axis, slowest axis first.
    """

    pixels: np.ndarray[Any, Any]
    positions: list[np.ndarray[Any, Any]]


def is_sparse(pixels: int, points: int, taps: int, rank: int) -> bool:
    """Whether reading the pixels around points costs less than converting all pixels of an image.

    ``taps`` is how many pixels along each of the ``rank`` axes a point reads.
    """
    return bool(4 * points * taps**rank <= pixels)


def sample_sparsely(
    image: Any,
    positions: Positions,
    shape: Sequence[int],
    taps: int,
    convert: Callable[[Any], Any],
    **options: Any,
) -> Any:
    """Sample an image (*spatial, C) of which only the pixels around each position are converted.

    Args:
        image: an array in host memory.
        positions: a function that returns positions in pixels; see `Positions`.
        shape: the output's shape without channels.
        taps: how many pixels along an axis a point reads, an even number.
        convert: a function that converts pixels to the dtype in which they are sampled.
        options: options of `gridsample.grid_sample`.

    Returns:
        (*shape, C), or None if a position outside reads pixels that are not around it.
    """
    options |= {"coords": "pixel", "channel_axis": -1}
    parts = []
    for rows in bands_along(tuple(shape), POINTS):
        part = rows.stop - rows.start, *shape[1:]
        lines = [
            np.broadcast_to(np.asarray(x, np.float64), part).ravel()
            for x in positions(rows.start, rows.stop)
        ]
        sizes = image.shape[: len(lines)]
        if not all([stays_near(x, n, taps, options) for x, n in zip(lines, sizes, strict=True)]):
            return None
        around = neighbourhoods(image, lines, taps)
        grid = np.stack(around.positions[::-1], -1)[:, np.newaxis]
        values = sample_at_pixels(convert(around.pixels), grid, **options)
        parts.append(values.reshape(*part, image.shape[-1]))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def stays_near(x: np.ndarray[Any, Any], n: int, taps: int, options: Mapping[str, Any]) -> bool:
    """Whether all pixels that are read at positions along an axis of n pixels are around them."""
    boundary = options["padding_mode"]
    if boundary in ("constant", "border") or not options.get("extrapolate", True) or n <= taps:
        return True
    if boundary == "wrap":
        return bool(((x >= taps // 2 - 1) & (x < n - taps // 2)).all())
    return bool(((x >= -1) & (x < n)).all())


def neighbourhoods(
    image: np.ndarray[Any, Any], positions: Sequence[np.ndarray[Any, Any]], taps: int
) -> Neighbourhoods:
    """Read the pixels around positions (P) along each axis; near an edge, those next to the edge.

    A position relative to the first of its pixels is exact, because that is a whole number.
    """
    index, relative = [], []
    for axis, x in enumerate(positions):
        n = image.shape[axis]
        count = min(taps, n)
        first = np.fmin(np.fmax(np.floor(x) - (taps // 2 - 1), 0), n - count)  # 0 if it is NaN
        relative.append(x - first)
        pixels = first.astype(np.int64)[:, np.newaxis] + np.arange(count)
        shape = [count if k == axis else 1 for k in range(len(positions))]
        index.append(pixels.reshape(len(x), *shape))
    return Neighbourhoods(image[tuple(index)], relative)


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
