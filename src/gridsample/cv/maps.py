"""Rotation matrices, and maps in fixed point, as in OpenCV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cv.arguments import Array
from gridsample.definitions.checks import as_array, as_reals
from gridsample.definitions.integers import saturated

# The numbers of OpenCV's types of maps in version 4; and of version 5, as those of version 4.
CV_32FC1, CV_32FC2, CV_16SC2 = 5, 13, 11
TYPES_OF_5 = {37: CV_32FC2, 35: CV_16SC2}


def getRotationMatrix2D(center: Sequence[float], angle: float, scale: float) -> Array:
    """Return the matrix that rotates about a point and scales, like `cv2.getRotationMatrix2D`.

    With a = scale cos(angle) and b = scale sin(angle), it is
    ``[[a, b, (1 - a) x - b y], [-b, a, b x + (1 - a) y]]`` for the centre (x, y).

    Args:
        center: the point (x, y), in pixels.
        angle: the angle in degrees, counter-clockwise in the displayed image.
        scale: the factor by which distances grow.

    Returns:
        (2, 3) float64, for `warpAffine`.

    Raises:
        TypeError: an argument is not a real number.
        ValueError: the centre does not have two coordinates.

    Example:
        >>> from gridsample import cv
        >>> cv.getRotationMatrix2D((2, 1), 90, 1).round(9)
        array([[ 0.,  1.,  1.],
               [-1.,  0.,  3.]])
    """
    numbers = as_reals(center, "center")
    if numbers.shape != (2,):
        raise ValueError(f"center must be (x, y), got shape {numbers.shape}")
    x, y = numbers.tolist()
    radians, factor = math.radians(float(angle)), float(scale)
    a, b = factor * math.cos(radians), factor * math.sin(radians)
    return np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]])


def convertMaps(
    map1: Any,
    map2: Any,
    dstmap1type: int,
    dstmap1: Any = None,
    dstmap2: Any = None,
    nninterpolation: bool = False,
) -> tuple[Array, Array | None]:
    """Convert floating-point maps to fixed point, like `cv2.convertMaps`.

    Args:
        map1: the x positions, (h, w) floating-point; or x and y, (h, w, 2).
        map2: the y positions, (h, w); None if map1 has both.
        dstmap1type: CV_16SC2 for fixed point, CV_32FC2 for x and y in one array, or CV_32FC1.
        dstmap1: None; it is not used.
        dstmap2: None; it is not used.
        nninterpolation: whether to round to whole pixels, for INTER_NEAREST.

    Returns:
        The maps for `remap`.  In fixed point, (h, w, 2) int16 and, unless positions are rounded,
        (h, w) uint16.

    Raises:
        TypeError: an array does not hold numbers.
        ValueError: the shapes do not match, or the type is not known.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> cv.convertMaps(np.float32([[1.25]]), np.float32([[2]]), cv.CV_16SC2)
        (array([[[1, 2]]], dtype=int16), array([[8]], dtype=uint16))
    """
    if dstmap1 is not None or dstmap2 is not None:
        raise ValueError("dstmap1 and dstmap2 must be None: the maps are returned")
    positions = as_positions(map1, map2)
    if TYPES_OF_5.get(dstmap1type, dstmap1type) != CV_16SC2:
        return in_type(positions, dstmap1type)
    if nninterpolation:
        return saturated(np.rint(positions), np.dtype(np.int16)), None
    steps = saturated(np.rint(positions * 32), np.dtype(np.int32))
    whole = np.clip(steps >> 5, -(1 << 15), (1 << 15) - 1).astype(np.int16)
    part = steps & 31
    return whole, (part[..., 1] * 32 + part[..., 0]).astype(np.uint16)


def as_positions(map1: Any, map2: Any) -> Array:
    """Return the positions (h, w, 2) of floating-point maps."""
    first = as_array(map1, "map1")
    if map2 is not None and np.size(map2):
        second = as_array(map2, "map2")
        if first.shape != second.shape or first.ndim != 2:
            raise ValueError(
                f"map1 and map2 must be two (h, w) arrays, got {first.shape} and {second.shape}"
            )
        first = np.stack([first, second], -1)
    if first.ndim != 3 or first.shape[2] != 2 or first.dtype.kind != "f":
        raise ValueError(
            "map1 and map2 must be two (h, w) floating arrays, or one of (h, w, 2) and None, got "
            f"shape {first.shape} and {first.dtype}"
        )
    return first


def in_type(positions: Array, map_type: int) -> tuple[Array, Array | None]:
    """Return floating-point maps of one of OpenCV's types."""
    single = positions.astype(np.float32)
    if map_type == CV_32FC1:
        return np.ascontiguousarray(single[..., 0]), np.ascontiguousarray(single[..., 1])
    if TYPES_OF_5.get(map_type, map_type) == CV_32FC2:
        return single, None
    raise ValueError(
        f"the type of maps is not known: {map_type!r}; accepted: CV_32FC1, CV_32FC2 and CV_16SC2"
    )
