"""Polar coordinates: `warpPolar`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cv.arguments import (
    BORDER_CONSTANT,
    BORDER_TRANSPARENT,
    WARP_FILL_OUTLIERS,
    WARP_INVERSE_MAP,
    WARP_POLAR_LOG,
    Array,
    as_flags,
    as_image,
    as_size,
)
from gridsample.cv.warping import at_points, warp
from gridsample.definitions.checks import as_reals

# The most pixels that an interpolation reads on one side of a position.
REACH = 4


def warpPolar(
    src: Any,
    dsize: Sequence[int],
    center: Sequence[float],
    maxRadius: float,
    flags: int,
    dst: Any = None,
) -> Array:
    """Convert an image to polar coordinates, or back, like `cv2.warpPolar`.

    Row i of the result is the angle ``2 pi i / height``, from the x axis towards the y axis, and
    column j the radius ``r = j maxRadius / width``, or with WARP_POLAR_LOG
    ``exp(j log(maxRadius) / width) - 1``: ``dst(j, i) = src(center + r (cos, sin))``.  With
    WARP_INVERSE_MAP, the image is in polar coordinates, and is converted back.

    Args:
        src: the image, as in `remap`.
        dsize: the output's (width, height).  If both are 0 or less, the width is ``maxRadius`` and
            the height ``pi maxRadius``, rounded; if the height is, it is pi times the width.
        center: the origin (x, y), in pixels of the image that is not polar.
        maxRadius: the radius at the right edge of the polar image, in pixels.
        flags: an interpolation as in `remap`, and optionally WARP_POLAR_LOG, WARP_INVERSE_MAP and
            WARP_FILL_OUTLIERS, by which pixels outside the image are 0.
        dst: an array whose pixels remain where the image has none, unless WARP_FILL_OUTLIERS; None
            for a new one, of zeros.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape or a constant is invalid, or maxRadius is not above 0 (1 for
            WARP_POLAR_LOG).

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> cross = np.array([[0, 2, 0], [3, 5, 1], [0, 4, 0]], np.uint8)
        >>> cv.warpPolar(cross, (2, 4), (1, 1), 2, cv.INTER_LINEAR)  # right, below, left, above
        array([[5, 1],
               [5, 4],
               [5, 3],
               [5, 2]], dtype=uint8)
    """
    radius, flags = float(maxRadius), as_flags(flags, "flags")
    is_log = bool(flags & WARP_POLAR_LOG)
    if not is_log < radius < math.inf:
        raise ValueError(f"maxRadius must be finite and above {int(is_log)}, got {maxRadius!r}")
    origin = as_reals(center, "center")
    if origin.shape != (2,):
        raise ValueError(f"center must be (x, y), got shape {origin.shape}")
    size = polar_size(dsize, radius)
    image = as_image(src)
    if flags & WARP_INVERSE_MAP:
        positions = polar_positions(size, origin, radius, image.shape[:2], is_log)
        # Angles wrap around.
        src = np.pad(src, [(REACH, REACH), *[(0, 0)] * (np.ndim(src) - 1)], mode="wrap")
        positions[..., 1] += REACH
    else:
        positions = cartesian_positions(size, origin, radius, is_log)
    border = BORDER_CONSTANT if flags & WARP_FILL_OUTLIERS else BORDER_TRANSPARENT
    if dst is None and border == BORDER_TRANSPARENT:
        dst = np.zeros((*size, *np.shape(src)[2:]), image.dtype)
    return warp(src, at_points(positions), size, flags & 7, border, 0, dst)


def polar_size(dsize: Any, radius: float) -> tuple[int, int]:
    """Return the height and the width of a size that may be left open."""
    try:
        width, height = (operator.index(n) for n in dsize)
    except (TypeError, ValueError):
        return as_size(dsize)  # raises the error
    if height <= 0:
        height = round((radius if width <= 0 else width) * math.pi)
        width = round(radius) if width <= 0 else width
    return as_size((width, height))


def cartesian_positions(size: tuple[int, int], origin: Array, radius: float, is_log: bool) -> Array:
    """Return the positions (h, w, 2) in an image of the pixels of its polar image."""
    height, width = size
    angles = 2 * math.pi / height * np.arange(height)
    share = np.arange(width) / width
    radii = np.expm1(share * math.log(radius)) if is_log else share * radius
    positions = np.empty((height, width, 2))
    positions[..., 0] = np.outer(np.cos(angles), radii) + origin[0]
    positions[..., 1] = np.outer(np.sin(angles), radii) + origin[1]
    return positions


def polar_positions(
    size: tuple[int, int], origin: Array, radius: float, polar: tuple[int, ...], is_log: bool
) -> Array:
    """Return the positions (h, w, 2) in a polar image of the pixels of the image."""
    x = np.arange(size[1]) - origin[0]
    y = np.arange(size[0])[:, np.newaxis] - origin[1]
    distance, angle = np.hypot(x, y), np.arctan2(y, x) % (2 * math.pi)
    share = np.log1p(distance) / math.log(radius) if is_log else distance / radius
    return np.stack([share * polar[1], angle * (polar[0] / (2 * math.pi))], -1)
