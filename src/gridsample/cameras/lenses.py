"""Lenses: distortion models, and the grids that undistort and rectify images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend
from gridsample.cameras.arrays import (
    Array,
    as_arrays,
    check_batches,
    check_shape,
    check_size,
    first_array,
    flip_axes,
    in_front,
    pixel_centres,
    signs_of,
    transform,
)
from gridsample.definitions.arrays import ArrayLike, ArrayT

# The numbers of coefficients that each model accepts.
MODELS = {"opencv": (0, 4, 5, 8, 12, 14), "fisheye": (0, 4)}
# In how many steps the field of a fisheye lens is searched, and how often the step is halved.
STEPS, HALVINGS = 1024, 45


def distort_points(
    points: ArrayT,
    distortion: ArrayLike,
    intrinsics: ArrayLike | None = None,
    *,
    model: str = "opencv",
    axes: str = "opencv",
    max_angle: float | None = None,
) -> ArrayT:
    """Project rays through a lens: to normalized coordinates, or to pixels if intrinsics are given.

    Normalized coordinates are (x / z, y / z) of a ray (x, y, z) in the camera's axes.  Let x, y be
    those of an ideal camera, and r2 = x^2 + y^2.  The model "opencv" is

        radial = (1 + k1 r2 + k2 r2^2 + k3 r2^3) / (1 + k4 r2 + k5 r2^2 + k6 r2^3)
        x' = x radial + 2 p1 x y + p2 (r2 + 2 x^2) + s1 r2 + s2 r2^2
        y' = y radial + p1 (r2 + 2 y^2) + 2 p2 x y + s3 r2 + s4 r2^2

    with the coefficients k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4, tx, ty.  The last two are
    angles by which the sensor is tilted.  The model "fisheye" (Kannala and Brandt, 2006) is

        a' = a (1 + k1 a^2 + k2 a^4 + k3 a^6 + k4 a^8)        (x', y') = (x, y) a' / r

    for the angle a between a ray and the viewing direction, tan(a) = r.

    Args:
        points: (..., P, 2) normalized coordinates, y down, or (..., P, 3) rays of any length, also
            those with z <= 0, which a fisheye lens may see; or a single point, (2,) or (3,).
        distortion: (..., K) coefficients in OpenCV's order.  K is 0, 4, 5, 8, 12 or 14 for
            "opencv", 0 or 4 for "fisheye".  None means no distortion, as K = 0 does.
        intrinsics: (..., 3, 3), in pixels.  Its axes before the last two, and those of distortion
            before the last one, broadcast with those of points before the last two.
        model: "opencv" or "fisheye".
        axes: the axes of rays (..., P, 3): "opencv" (x right, y down, z forward) or "opengl" (x
            right, y up, z backward).  Normalized coordinates and pixels always have y down.
        max_angle: rays that are farther from the viewing direction than this angle, in radians, are
            NaN.  None for no limit besides that of the model.

    Returns:
        (..., P, 2): distorted normalized coordinates, or pixels, counted from the centre of the
        first pixel.  With the model "opencv", rays with z <= 0 are NaN.  With "fisheye", rays
        beyond the field of the lens are NaN.  The field ends at the first angle at which a' stops
        increasing.  For tensors, the result is differentiable with respect to all arguments.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> points = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]])
        >>> cameras.distort_points(points, [-0.2, 0, 0, 0])  # a barrel
        array([[0.   , 0.   ],
               [0.475, 0.   ],
               [0.45 , 0.45 ]])
    """
    backend, (array, coefficients, matrix) = as_arrays(
        points=points, distortion=as_coefficients(distortion), intrinsics=intrinsics
    )
    check_shape(backend, "points", array, (2,), (3,))
    signs_of(axes)
    if array.shape[-1] == 3:
        array = flip_axes(backend, array, axes, -1)
    if matrix is not None:
        check_shape(backend, "intrinsics", matrix, (3, 3))
    check_batches(backend, points=(array, 2), distortion=(coefficients, 1), intrinsics=(matrix, 2))
    single = len(array.shape) == 1
    pixels = distort(backend, array[None] if single else array, coefficients, model, max_angle)
    if matrix is not None:
        pixels = transform(backend, matrix[..., :2, :2], pixels) + matrix[..., None, :2, 2]
    pixels = pixels[..., 0, :] if single else pixels
    return backend.restore(pixels, first_array(points, distortion, intrinsics))


def undistort_grid(
    size: Sequence[int],
    intrinsics: ArrayLike,
    distortion: ArrayLike,
    rotation: ArrayLike | None = None,
    new_intrinsics: ArrayLike | None = None,
    *,
    model: str = "opencv",
    max_angle: float | None = None,
) -> Any:
    """Make the grid that removes the distortion of a lens, and optionally rotates the camera.

    For each pixel of the ideal image, the grid holds the pixel of the distorted image that shows
    the same ray: `distort_points` of rotation^-1 new_intrinsics^-1 (x, y, 1).  It is the map of
    OpenCV's ``initUndistortRectifyMap`` and ``fisheye.initUndistortRectifyMap``:

        gridsample.grid_sample(distorted, grid, coords="pixel")

    Args:
        size: (height, width) of the ideal image; the grid of an empty image is empty.
        intrinsics: (3, 3) or (N, 3, 3) of the distorted camera, in pixels.
        distortion: (K,) or (N, K) coefficients, or None, as in `distort_points`.
        rotation: (3, 3) or (N, 3, 3), from the distorted camera's axes to those of the ideal
            camera, in OpenCV's axes; None for the identity.  OpenCV's ``stereoRectify`` calls it
            R1 or R2.
        new_intrinsics: (3, 3), (3, 4) or with a leading axis N, of the ideal camera; None for those
            of the distorted camera.  ``stereoRectify`` calls it P1 or P2; its fourth column is not
            read.
        model, max_angle: as in `distort_points`.

    Returns:
        (N, height, width, 2) pixels of the distorted image, x first; N is 1 without a leading
        axis.  Rays that the lens does not image are NaN, as in `distort_points`.  Float64 if an
        argument is float64, otherwise float32.  For tensors, it is differentiable with respect to
        all arguments.

    Raises:
        TypeError: an argument does not hold real numbers, or size does not consist of integers.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample import cameras
        >>> intrinsics = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])
        >>> grid = cameras.undistort_grid((48, 64), intrinsics, [-0.3, 0.1, 0, 0])
        >>> grid[0, 24, [32, 63]].round(3)
        array([[32.   , 24.   ],
               [59.883, 24.   ]])
        >>> photo = np.ones((1, 3, 48, 64))
        >>> gridsample.grid_sample(photo, grid, coords="pixel").shape
        (1, 3, 48, 64)
    """
    shape = check_size(size, minimum=0)
    backend, arrays = as_arrays(
        intrinsics=intrinsics,
        distortion=as_coefficients(distortion),
        rotation=rotation,
        new_intrinsics=new_intrinsics,
    )
    matrix, coefficients, rotation_matrix, new = arrays
    check_shape(backend, "intrinsics", matrix, (3, 3))
    if new is not None:
        check_shape(backend, "new_intrinsics", new, (3, 3), (3, 4))
    if rotation_matrix is not None:
        check_shape(backend, "rotation", rotation_matrix, (3, 3))
    named = {
        "intrinsics": (matrix, 2),
        "distortion": (coefficients, 1),
        "rotation": (rotation_matrix, 2),
        "new_intrinsics": (new, 2),
    }
    for name, (array, axes) in named.items():
        if array is not None and len(array.shape) not in (axes, axes + 1):
            raise ValueError(
                f"{name} must have {axes} or {axes + 1} axes, got shape {backend.shape(array)}"
            )
    check_batches(backend, **named)
    ideal = matrix if new is None else new[..., :3]
    ideal = ideal if rotation_matrix is None else ideal @ rotation_matrix
    centres = pixel_centres(backend, shape, matrix).reshape(-1, 2)
    flat = backend.concatenate((centres, 0 * centres[:, :1] + 1), -1)
    rays = transform(backend, backend.xp.linalg.inv(ideal), flat)
    pixels = distort(backend, rays, coefficients, model, max_angle)
    pixels = transform(backend, matrix[..., :2, :2], pixels) + matrix[..., None, :2, 2]
    like = first_array(intrinsics, distortion, rotation, new_intrinsics)
    items = pixels.shape[0] if len(pixels.shape) == 3 else 1
    return backend.restore(pixels.reshape(items, *shape, 2), like)


def stereo_grids(
    size: Sequence[int],
    intrinsics: Sequence[Any],
    distortions: Sequence[Any],
    rotations: Sequence[Any],
    new_intrinsics: Sequence[Any],
    *,
    model: str = "opencv",
) -> tuple[Any, Any]:
    """Make the grids that rectify the two images of a stereo camera: `undistort_grid` of each.

    Afterwards, a point of the scene is in the same row of both images.  OpenCV's ``stereoRectify``
    computes the rotations R1, R2 and the matrices P1, P2 of the rectified cameras.

    Args:
        size: (height, width) of the rectified images.
        intrinsics: the (3, 3) intrinsics of the left and of the right camera.
        distortions: the coefficients of both, as in `distort_points`.
        rotations: the (3, 3) rotations R1 and R2, from each camera's axes to the rectified axes.
        new_intrinsics: the (3, 3) or (3, 4) matrices P1 and P2 of the rectified cameras.
        model: "opencv" or "fisheye", as in `distort_points`.

    Returns:
        (left, right), two grids as `undistort_grid` makes them.

    Raises:
        TypeError: an argument does not hold real numbers, or size does not consist of integers.
        ValueError: an argument does not have two entries, or a shape or a name is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> lens, same = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]]), np.eye(3)
        >>> left, right = cameras.stereo_grids(
        ...     (48, 64), [lens, lens], [[0.1, 0, 0, 0]] * 2, [same, same], [lens, lens]
        ... )
        >>> left.shape, right.shape
        ((1, 48, 64, 2), (1, 48, 64, 2))
    """
    pairs = {
        "intrinsics": intrinsics,
        "distortions": distortions,
        "rotations": rotations,
        "new_intrinsics": new_intrinsics,
    }
    for name, pair in pairs.items():
        if len(pair) != 2:
            raise ValueError(f"{name} must have one entry for each of two cameras, got {len(pair)}")
    arguments = zip(*pairs.values(), strict=True)
    left, right = (
        undistort_grid(size, *arguments_of_camera, model=model) for arguments_of_camera in arguments
    )
    return left, right


def as_coefficients(distortion: Any) -> Any:
    """Return the coefficients; as in OpenCV, None means that there is no distortion."""
    return () if distortion is None else distortion


def check_model(backend: Backend, coefficients: Array, model: Any, max_angle: float | None) -> None:
    """Raise an error unless coefficients suit a model, and a maximum angle is an angle."""
    if not isinstance(model, str) or model not in MODELS:
        raise ValueError(f"model must be {' or '.join(map(repr, MODELS))}, got {model!r}")
    shape = backend.shape(coefficients)
    if len(shape) < 1 or shape[-1] not in MODELS[model]:
        counts = ", ".join(map(str, MODELS[model]))
        raise ValueError(
            f"distortion must have the shape (..., K) with K one of {counts} for the model "
            f"{model!r}, got {shape}"
        )
    if max_angle is not None and not 0 < max_angle <= math.pi:
        raise ValueError(f"max_angle must be an angle in radians, 0 to pi, got {max_angle!r}")


# Over a backend -----------------------------------------------------------------------------------


def distort(
    backend: Backend, rays: Array, coefficients: Array, model: Any, max_angle: float | None
) -> Array:
    """Distort points (..., P, 2) or rays (..., P, 3); see `distort_points`."""
    check_model(backend, coefficients, model, max_angle)
    k = [coefficients[..., None, i] for i in range(coefficients.shape[-1])]
    if model == "fisheye":
        return fisheye(backend, rays, k, max_angle)
    xp = backend.xp
    x, y = rays[..., 0], rays[..., 1]
    front = x == x
    if rays.shape[-1] == 3:
        front = in_front(backend, rays)[..., 0]
        z = xp.where(front, rays[..., 2], 1)
        x, y = x / z, y / z
    if max_angle is not None and max_angle < math.pi / 2:
        front = front & (x * x + y * y <= math.tan(max_angle) ** 2)
    u, v = polynomial(x, y, k) if k else (x, y)
    if len(k) == 14:
        u, v = tilt_sensor(backend, u, v, k[12], k[13])
    return xp.where(front[..., None], xp.stack((u, v), -1), float("nan"))


def polynomial(x: Array, y: Array, k: Sequence[Array]) -> tuple[Array, Array]:
    """Apply the radial, the tangential and the thin-prism terms of the model "opencv"."""
    k1, k2, p1, p2 = k[:4]
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k[4] if len(k) > 4 else k2))
    if len(k) > 5:
        radial = radial / (1 + r2 * (k[5] + r2 * (k[6] + r2 * k[7])))
    u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    if len(k) > 8:
        s1, s2, s3, s4 = k[8:12]
        u, v = u + r2 * (s1 + r2 * s2), v + r2 * (s3 + r2 * s4)
    return u, v


def tilt_sensor(backend: Backend, u: Array, v: Array, tx: Array, ty: Array) -> tuple[Array, Array]:
    """Project from the sensor plane of an ideal camera to a sensor that is tilted by two angles.

    With the rotation R = R_y(ty) R_x(tx), and q = R (u, v, 1), it is R_22 q / q_2 - (R_02, R_12).
    """
    rows = rotated_sensor(backend, tx, ty)
    x, y, depth = (row[0] * u + row[1] * v + row[2] for row in rows)
    corner = rows[2][2]
    return corner * x / depth - rows[0][2], corner * y / depth - rows[1][2]


def rotated_sensor(backend: Backend, tx: Array, ty: Array) -> tuple[tuple[Array, ...], ...]:
    """Return the rows of the rotation R_y(ty) R_x(tx)."""
    xp = backend.xp
    cx, sx, cy, sy = xp.cos(tx), xp.sin(tx), xp.cos(ty), xp.sin(ty)
    return (cy, sy * sx, -sy * cx), (0 * cx, cx, sx), (sy, -cy * sx, cy * cx)


def fisheye(backend: Backend, rays: Array, k: Sequence[Array], max_angle: float | None) -> Array:
    """Apply the model "fisheye"; see `distort_points`."""
    xp = backend.xp
    plane = rays[..., :2]
    z = rays[..., 2] if rays.shape[-1] == 3 else 0 * rays[..., 0] + 1
    square = (plane * plane).sum(-1)
    off_axis = square > 0
    radius = xp.sqrt(xp.where(off_axis, square, 1))
    angle = xp.arctan2(radius, z)
    distorted_angle = angle
    inside = off_axis | (z > 0)
    if k:
        distorted_angle = angle * radial_polynomial(angle * angle, k, (1, 1, 1, 1))
        inside = inside & (angle < fisheye_field(backend, k))
    if max_angle is not None:
        inside = inside & (angle <= max_angle)
    # On the axis, x' = x / z; a ray that points backwards there is outside.
    scale = xp.where(off_axis, distorted_angle / radius, 1 / xp.where(z > 0, z, 1))
    inside = inside | (~off_axis & (z > 0))
    return xp.where(inside[..., None], plane * scale[..., None], float("nan"))


def radial_polynomial(square: Array, k: Sequence[Array], factors: Sequence[int]) -> Array:
    """Compute 1 + f1 k1 a^2 + f2 k2 a^4 + f3 k3 a^6 + f4 k4 a^8 for the square of an angle a."""
    total = 0
    for coefficient, factor in zip(reversed(k), reversed(factors), strict=True):
        total = square * (factor * coefficient + total)
    return 1 + total


def fisheye_field(backend: Backend, k: Sequence[Array]) -> Array:
    """Find the smallest angle, (..., 1), at which a fisheye's distorted angle stops increasing."""

    def decreases(angle: Array) -> Array:
        return radial_polynomial(angle * angle, k, (3, 5, 7, 9)) <= 0

    return last_increase(backend, decreases, k[0], math.pi)


def last_increase(
    backend: Backend, decreases: Callable[[Array], Array], like: Array, last: float
) -> Array:
    """Find the smallest angle up to ``last``, of the shape of ``like``, at which a value decreases.

    It is searched in steps, and the first change of sign is bisected.  If there is none, the result
    is larger than ``last``.
    """
    xp, step = backend.xp, last / STEPS
    numbers = backend.asarray(np.arange(1, STEPS + 1) * step, like)
    angles = backend.astype(numbers, like.dtype)
    upper = xp.amin(xp.where(decreases(angles), angles, last + 2 * step), -1)[..., None]
    lower = upper - step
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2
        is_beyond = decreases(middle)
        lower, upper = xp.where(is_beyond, lower, middle), xp.where(is_beyond, middle, upper)
    return upper
