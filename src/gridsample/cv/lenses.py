"""Lenses: `initUndistortRectifyMap`, `undistort` and `undistortPoints`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cameras import distort_points, undistort_points
from gridsample.cv.arguments import BORDER_CONSTANT, INTER_LINEAR, Array, as_image
from gridsample.cv.maps import CV_16SC2, TYPES_OF_5, convertMaps, in_type
from gridsample.cv.warping import at_points, warp
from gridsample.definitions.checks import as_array, as_reals

# The numbers of coefficients that OpenCV accepts.
COEFFICIENTS = (0, 4, 5, 8, 12, 14)


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
        target = as_intrinsics(newCameraMatrix)
    positions = distorted_positions((height, width), camera, distCoeffs, R, target)
    if TYPES_OF_5.get(m1type, m1type) == CV_16SC2:
        return convertMaps(positions, None, m1type)
    return in_type(positions, m1type)


def undistort(
    src: Any,
    cameraMatrix: Any,
    distCoeffs: Any,
    dst: Any = None,
    newCameraMatrix: Any = None,
) -> Array:
    """Remove the distortion of a lens from an image, like `cv2.undistort`.

    The result is that of `remap` with the positions of `initUndistortRectifyMap`, linear, and 0
    outside the image.

    Args:
        src: the image, as in `remap`.
        cameraMatrix: (3, 3) intrinsics of the camera, in pixels.
        distCoeffs: its 4, 5, 8, 12 or 14 coefficients; None or empty for an ideal lens.
        dst: an array for the result, of the image's shape and dtype; None for a new one.
        newCameraMatrix: (3, 3) intrinsics of the result; None for those of the camera.

    Returns:
        The image of an ideal lens, of the image's shape and dtype.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape is invalid, or the number of coefficients.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> camera = np.array([[4.0, 0, 2], [0, 4, 0], [0, 0, 1]])
        >>> cv.undistort(np.array([[0.0, 1, 2, 3, 4]]), camera, [-0.5, 0, 0, 0])
        array([[0.25   , 1.03125, 2.     , 2.96875, 3.75   ]])
    """
    size = as_image(src).shape[:2]
    camera = as_matrix(cameraMatrix, "cameraMatrix")
    target = camera if newCameraMatrix is None else as_intrinsics(newCameraMatrix)
    positions = distorted_positions(size, camera, distCoeffs, None, target)
    return warp(src, at_points(positions), size, INTER_LINEAR, BORDER_CONSTANT, 0, dst)


def undistortPoints(
    src: Any,
    cameraMatrix: Any,
    distCoeffs: Any,
    dst: Any = None,
    R: Any = None,
    P: Any = None,
) -> Array:
    """Find where an ideal camera sees the points of a distorted image, like `cv2.undistortPoints`.

    OpenCV stops after five steps of an iteration.  Here, the lens model is inverted up to rounding,
    and points that it does not reach are NaN, as in `gridsample.cameras.undistort_points`.

    Args:
        src: (N, 2), (N, 1, 2), (1, N, 2) or (2, N) pixels of the distorted image, x first.
        cameraMatrix: (3, 3) intrinsics of the camera, in pixels.
        distCoeffs: its 4, 5, 8, 12 or 14 coefficients; None or empty for an ideal lens.
        dst: None; it is not used.
        R: (3, 3) rotation from the camera's axes to those of the ideal camera; None for the
            identity.
        P: (3, 3) or (3, 4) intrinsics of the ideal camera; None for normalized coordinates.

    Returns:
        (N, 1, 2): pixels of the ideal camera, or normalized coordinates; float32 for float32
        points, otherwise float64.

    Raises:
        TypeError: an array does not hold real numbers.
        ValueError: a shape is invalid, or the number of coefficients.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> camera = np.array([[100.0, 0, 50], [0, 100, 40], [0, 0, 1]])
        >>> lens = [-0.2, 0, 0, 0]
        >>> cv.undistortPoints([[97.5, 40.0], [150.0, 40.0]], camera, lens, P=camera)[:, 0]
        array([[100.,  40.],
               [ nan,  nan]])
    """
    if dst is not None:
        raise ValueError("dst must be None: the points are returned")
    given = as_array(src, "src")
    points = as_reals(given, "src")
    if points.ndim == 2 and points.shape[0] == 2 != points.shape[1]:
        points = points.T
    if points.shape[-1:] != (2,) or points.size != 2 * max(points.shape[:-1], default=0):
        raise ValueError(f"src must be (N, 2), (N, 1, 2), (1, N, 2) or (2, N), got {given.shape}")
    camera, lens = as_matrix(cameraMatrix, "cameraMatrix"), as_lens(distCoeffs)
    ideal = undistort_points(points.reshape(-1, 2), lens, camera)
    matrix = np.eye(3) if R is None else as_matrix(R, "R")
    matrix = matrix if P is None else as_intrinsics(P, "P") @ matrix
    if R is not None or P is not None:
        x, y, w = matrix[:, :2] @ ideal.T + matrix[:, 2:]
        with np.errstate(divide="ignore", invalid="ignore"):
            ideal = np.stack([x / w, y / w], -1)
    result: Array = ideal.reshape(-1, 1, 2)
    return result.astype(np.float32) if given.dtype == np.float32 else result


def distorted_positions(
    size: tuple[int, ...], camera: Array, distCoeffs: Any, R: Any, target: Array
) -> Array:
    """Return the positions (height, width, 2) in a distorted image of the pixels of an ideal one.

    ``size`` is (height, width), ``target`` the intrinsics of the ideal image.
    """
    rotation = np.eye(3) if R is None else as_matrix(R, "R")
    ys, xs = np.mgrid[0 : size[0], 0 : size[1]]
    pixels = np.stack([xs, ys, np.ones_like(xs)], -1).reshape(-1, 3)
    rays = pixels @ np.linalg.inv(target @ rotation).T
    plane = rays[:, :2] / rays[:, 2:]
    positions: Array = distort_points(plane, as_lens(distCoeffs), camera)
    return positions.reshape(*size, 2)


def as_lens(distCoeffs: Any) -> Array:
    """Return the coefficients of a lens, or raise an error."""
    coefficients = np.zeros(0) if distCoeffs is None else as_reals(distCoeffs, "distCoeffs").ravel()
    if len(coefficients) not in COEFFICIENTS:
        raise ValueError(
            f"distCoeffs must have 4, 5, 8, 12 or 14 coefficients, got {len(coefficients)}"
        )
    return coefficients


def as_intrinsics(value: Any, name: str = "newCameraMatrix") -> Array:
    """Return the (3, 3) intrinsics of a (3, 3) or (3, 4) matrix, or raise an error."""
    matrix = as_reals(value, name)
    return as_matrix(matrix[:, :3] if matrix.shape == (3, 4) else matrix, name)


def as_matrix(value: Any, name: str) -> Array:
    """Return a (3, 3) matrix of real numbers, or raise an error."""
    matrix = as_reals(value, name)
    if matrix.shape != (3, 3):
        raise ValueError(f"{name} must be a 3 x 3 matrix, got shape {matrix.shape}")
    return matrix
