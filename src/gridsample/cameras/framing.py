"""The field of view of undistorted images: the intrinsics of the ideal camera."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cameras.arrays import check_size
from gridsample.cameras.lenses import as_coefficients
from gridsample.cameras.undistortion import undistort_points
from gridsample.definitions.arrays import ArrayLike

# The number of points along each axis of an image whose rays are computed.
POINTS = 9


def optimal_intrinsics(
    size: Sequence[int],
    intrinsics: ArrayLike,
    distortion: ArrayLike,
    alpha: float = 0.0,
    new_size: Sequence[int] | None = None,
    *,
    centred: bool = False,
    model: str = "opencv",
) -> np.ndarray[Any, Any]:
    """Choose the intrinsics of an undistorted image: how much of the distorted image it shows.

    With the model "opencv", this is `cv2.getOptimalNewCameraMatrix`: for alpha = 0, every pixel of
    the undistorted image is in the distorted one; for alpha = 1, every pixel of the distorted image
    is in the undistorted one.  With "fisheye", it is
    `cv2.fisheye.estimateNewCameraMatrixForUndistortRectify`, whose ``balance`` is alpha: the field
    of view fits the sides of the image that are nearest to the centre, or those that are farthest.

    OpenCV approximates the rays of the image's edges in a few steps; here, they are exact.

    Args:
        size: (height, width) of the distorted image.
        intrinsics: (3, 3), in pixels; a list or a NumPy array, like distortion.
        distortion: (K,) coefficients, or None, as in `distort_points`.
        alpha: from 0 to 1.
        new_size: (height, width) of the undistorted image; by default, size.
        centred: whether the principal point is the middle of the image; only for the model
            "opencv".
        model: "opencv" or "fisheye", as in `distort_points`.

    Returns:
        (3, 3), the ``new_intrinsics`` of `undistort_grid`.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: a shape or a name is not accepted, alpha is not from 0 to 1, or the lens model
            does not reach the edges of the image.

    Example:
        >>> from gridsample import cameras
        >>> lens = [[50.0, 0, 31.5], [0, 50, 23.5], [0, 0, 1]]
        >>> cameras.optimal_intrinsics((48, 64), lens, [-0.2, 0, 0, 0]).round(2)
        array([[45.13,  0.  , 31.5 ],
               [ 0.  , 47.56, 23.5 ],
               [ 0.  ,  0.  ,  1.  ]])
    """
    height, width = check_size(size)
    target = check_size(size if new_size is None else new_size, "new_size")
    matrix, k = (
        np.array(intrinsics, np.float64),
        np.array(as_coefficients(distortion), np.float64).reshape(-1),
    )
    if matrix.shape != (3, 3):
        raise ValueError(f"intrinsics must have the shape (3, 3), got {matrix.shape}")
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha!r}")
    if model == "fisheye":
        if centred:
            raise ValueError("centred is accepted for the model 'opencv' only")
        return fisheye_intrinsics((height, width), target, matrix, k, alpha)
    across, along = np.linspace(0, width - 1, POINTS), np.linspace(0, height - 1, POINTS)
    pixels = np.stack(np.meshgrid(across, along), -1)
    rays = undistort_pixels(pixels.reshape(-1, 2), matrix, k, model).reshape(POINTS, POINTS, 2)
    # The largest rectangle of rays inside the image, and the smallest one around all of its rays.
    inner = (
        np.array([rays[:, 0, 0].max(), rays[0, :, 1].max()]),
        np.array([rays[:, -1, 0].min(), rays[-1, :, 1].min()]),
    )
    outer = rays.min((0, 1)), rays.max((0, 1))
    last = np.array(target[::-1]) - 1.0
    new_matrix = np.eye(3)
    if centred:
        focal = matrix[[0, 1], [0, 1]]
        reach = [
            choose(np.concatenate((last / 2 / (-low * focal), last / 2 / (high * focal))))
            for choose, (low, high) in ((np.max, inner), (np.min, outer))
        ]
        new_matrix[[0, 1], [0, 1]] = focal * ((1 - alpha) * reach[0] + alpha * reach[1])
        new_matrix[:2, 2] = last / 2
        return new_matrix
    for fraction, (low, high) in ((1 - alpha, inner), (alpha, outer)):
        focal = fraction * last / (high - low)
        new_matrix[[0, 1], [0, 1]] += focal
        new_matrix[:2, 2] -= focal * low
    new_matrix[[0, 1], [0, 1]] -= 1
    return new_matrix


def fisheye_intrinsics(
    size: tuple[int, int],
    target: tuple[int, int],
    matrix: np.ndarray[Any, Any],
    distortion: np.ndarray[Any, Any],
    alpha: float,
) -> np.ndarray[Any, Any]:
    """Choose intrinsics by the rays in the middle of the four sides."""
    height, width = size
    aspect = matrix[0, 0] / matrix[1, 1]
    x, y = width // 2, height // 2  # as in OpenCV
    midpoints = [[x, 0], [width, y], [x, height], [0, y]]
    rays = undistort_pixels(np.array(midpoints, float), matrix, distortion, "fisheye")
    rays = rays * [1, aspect]
    centre = rays.mean(0)
    low, high = rays.min(0), rays.max(0)
    half = np.array([width, height * aspect]) / 2
    focals = np.concatenate((half / (centre - low), half / (high - centre)))
    focal = alpha * focals.min() + (1 - alpha) * focals.max()
    shift = half - centre * focal
    scale = np.array(target[::-1]) / (width, height)
    new_matrix = np.eye(3)
    new_matrix[[0, 1], [0, 1]] = np.array([focal, focal / aspect]) * scale
    new_matrix[:2, 2] = shift / [1, aspect] * scale
    return new_matrix


def undistort_pixels(
    pixels: np.ndarray[Any, Any],
    intrinsics: np.ndarray[Any, Any],
    distortion: np.ndarray[Any, Any],
    model: str,
) -> np.ndarray[Any, Any]:
    """Find the normalized coordinates (P, 2) that a lens images at pixels (P, 2).

    Raises:
        ValueError: there is no such ray.
    """
    rays: np.ndarray[Any, Any] = undistort_points(pixels, distortion, intrinsics, model=model)
    missing = np.isnan(rays).any(-1)
    if missing.any():
        x, y = pixels[missing][0]
        raise ValueError(
            f"the lens model maps no ray in front of the camera to the pixel ({x:g}, {y:g}); "
            "check the distortion, or choose new_intrinsics for `undistort_grid` in another way"
        )
    return rays
