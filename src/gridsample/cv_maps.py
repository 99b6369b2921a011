"""Maps and matrices as OpenCV makes them: of lenses, of rotations, and in fixed point."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cameras import distort_points
from gridsample.definitions.checks import as_array, as_reals
from gridsample.definitions.integers import saturated

Array = np.ndarray[Any, Any]

# OpenCV's types of maps, by the numbers of version 4, and those that version 5 gives them.
CV_32FC1, CV_32FC2, CV_16SC2 = 5, 13, 11
TYPES_OF_5 = {37: CV_32FC2, 35: CV_16SC2}
# The numbers of coefficients that OpenCV accepts.
COEFFICIENTS = (0, 4, 5, 8, 12, 14)


def getRotationMatrix2D(center: Sequence[float], angle: float, scale: float) -> Array:
    """Return the matrix that rotates about a point and scales, like `cv2.getRotationMatrix2D`.

    With a = scale cos(angle) and b = scale sin(angle), it is
    ``[[a, b, (1 - a) x - b y], [-b, a, b x + (1 - a) y]]`` for the centre (x, y).

    Args:
        center: the point (x, y), in pixels.
        angle: the angle in degrees, counter-clockwise as an image is seen.
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


def initUndistortRectifyMap(
    cameraMatrix: Any,
    distCoeffs: Any,
    R: Any,
    newCameraMatrix: Any,
    size: Sequence[int],
    m1type: int,
) -> tuple[Array, Array | None]:
    """Make the maps that undistort and rectify an image, like `cv2.initUndistortRectifyMap`.

    Pixel (u, v) of the result shows the ray ``inverse(newCameraMatrix R) (u, v, 1)``, which the
    lens projects as `gridsample.cameras.distort_points` does.

    Args:
        cameraMatrix: (3, 3) intrinsics of the camera, in pixels.
        distCoeffs: its 4, 5, 8, 12 or 14 coefficients; None or empty for an ideal lens.
        R: (3, 3) rotation from the camera's axes to those of the result; None for the identity.
        newCameraMatrix: (3, 3) or (3, 4) intrinsics of the result; None for those of the camera
            with the principal point in the centre of the result.
        size: (width, height) of the result.
        m1type: CV_32FC1, CV_32FC2 or CV_16SC2, the type of the maps; see `convertMaps`.

    Returns:
        The maps for `remap`.

    Raises:
        TypeError: an array does not hold numbers.
        ValueError: a shape, a size or a type is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> camera = np.array([[50.0, 0, 1], [0, 50, 1], [0, 0, 1]])
        >>> x, y = cv.initUndistortRectifyMap(camera, None, None, camera, (3, 2), cv.CV_32FC1)
        >>> x
        array([[0., 1., 2.],
               [0., 1., 2.]], dtype=float32)
    """
    camera = as_matrix(cameraMatrix, "cameraMatrix")
    width, height = (operator.index(n) for n in size)
    if width < 1 or height < 1:
        raise ValueError(f"size must be positive, (width, height), got {size!r}")
    if newCameraMatrix is None:
        target = camera.copy()
        target[:2, 2] = (width - 1) / 2, (height - 1) / 2
    else:
        target = as_reals(newCameraMatrix, "newCameraMatrix")
        target = as_matrix(target[:, :3] if target.shape == (3, 4) else target, "newCameraMatrix")
    rotation = np.eye(3) if R is None else as_matrix(R, "R")
    coefficients = np.zeros(0) if distCoeffs is None else as_reals(distCoeffs, "distCoeffs").ravel()
    if len(coefficients) not in COEFFICIENTS:
        raise ValueError(f"distCoeffs must have 4, 5, 8, 12 or 14, got {len(coefficients)}")
    ys, xs = np.mgrid[0:height, 0:width]
    pixels = np.stack([xs, ys, np.ones_like(xs)], -1).reshape(-1, 3)
    rays = pixels @ np.linalg.inv(target @ rotation).T
    plane = rays[:, :2] / rays[:, 2:]
    positions = distort_points(plane, coefficients, camera).reshape(height, width, 2)
    if TYPES_OF_5.get(m1type, m1type) == CV_16SC2:
        return convertMaps(positions, None, m1type)
    return in_type(positions, m1type)


def as_matrix(value: Any, name: str) -> Array:
    """Return a (3, 3) matrix of real numbers, or raise an error."""
    matrix = as_reals(value, name)
    if matrix.shape != (3, 3):
        raise ValueError(f"{name} must be a 3 x 3 matrix, got shape {matrix.shape}")
    return matrix
