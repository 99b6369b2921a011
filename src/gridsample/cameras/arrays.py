"""Functions that the modules of cameras share: arguments, camera axes, and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of

Array = Any

# The signs that convert camera axes to those of OpenCV: x right, y down, z forward.
AXES = {"opencv": (1.0, 1.0, 1.0), "opengl": (1.0, -1.0, -1.0)}
FLOATS = ("float16", "bfloat16", "float32", "float64")
# The largest x / z and y / z of a ray that a camera may image.
STEEPEST = 1e9
# A position, in pixels, that is outside every image.  Unlike infinity, it has finite derivatives.
FAR = -1e6


# Arguments ----------------------------------------------------------------------------------------


def is_literal(value: Any) -> bool:
    """Whether an argument is a number or a list of numbers, and not an array."""
    return isinstance(value, (int, float, list, tuple))


def from_list(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Convert a number or a list of numbers to an array, or raise an error."""
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be an array or a list of real numbers: {error}") from None


def as_arrays(**arguments: Any) -> tuple[Backend, list[Any]]:
    """Convert arguments to arrays of one dtype: float64 if one of them has it, otherwise float32.

    Lists and numbers have the dtype and the device of the arrays.  If there are no arrays, or only
    arrays of integers, the dtype is float64.  None stays None.

    Raises:
        TypeError: an argument is from another library than the others, or does not hold real
            numbers.
    """
    arrays = {
        k: value for k, value in arguments.items() if value is not None and not is_literal(value)
    }
    lists = {k: from_list(k, value) for k, value in arguments.items() if is_literal(value)}
    backend = backend_of(**arrays)
    arrays_by_name = dict(zip(arrays, backend.to_device(**arrays), strict=True)) if arrays else {}
    names = {k: backend.type_name(array.dtype, k) for k, array in arrays_by_name.items()}
    for name, dtype in names.items():
        if dtype not in FLOATS and not dtype.startswith(("int", "uint")):
            raise TypeError(
                f"{name} must hold real numbers, got dtype {arrays_by_name[name].dtype}"
            )
    floats = [dtype for dtype in names.values() if dtype in FLOATS]
    wide = backend.type("float64" if "float64" in floats or not floats else "float32")
    like = next(iter(arrays_by_name.values()), None)
    for name, value in lists.items():
        arrays_by_name[name] = value if like is None else backend.asarray(value, like)
    return backend, [
        None if value is None else backend.astype(arrays_by_name[k], wide)
        for k, value in arguments.items()
    ]


def first_array(*arguments: Any) -> Any:
    """Return the first argument that is an array, whose type and device results have, or None."""
    return next((value for value in arguments if value is not None and not is_literal(value)), None)


def check_shape(backend: Backend, name: str, array: Array, *endings: tuple[int, ...]) -> None:
    """Raise a ValueError unless the shape of an array ends with one of ``endings``."""
    shape = backend.shape(array)
    if not any(
        [len(shape) >= len(ending) and shape[-len(ending) :] == ending for ending in endings]
    ):
        accepted = " or ".join(f"(..., {', '.join(map(str, ending))})" for ending in endings)
        raise ValueError(f"{name} must have the shape {accepted}, got {shape}")


def check_batches(backend: Backend, **arguments: tuple[Any, int]) -> None:
    """Raise a ValueError unless the axes of arrays before the last few broadcast.

    arguments: an array, or None, and how many axes come last.
    """
    shapes = {k: backend.shape(array) for k, (array, _) in arguments.items() if array is not None}
    leading = [shape[: len(shape) - arguments[k][1]][::-1] for k, shape in shapes.items()]
    for sizes in zip_longest(*leading, fillvalue=1):
        wide = [n for n in sizes if n != 1]
        if any(n != wide[0] for n in wide):
            descriptions = [
                f"{sizes_of_array[::-1]} in {k} of shape {shape}"
                for sizes_of_array, (k, shape) in zip(leading, shapes.items(), strict=True)
            ]
            raise ValueError(f"the leading axes must broadcast, got {' and '.join(descriptions)}")


def signs_of(axes: Any) -> tuple[float, float, float]:
    """Return the signs of named camera axes, or raise an error."""
    if not isinstance(axes, str) or axes not in AXES:
        raise ValueError(f"axes must be {' or '.join(map(repr, AXES))}, got {axes!r}")
    return AXES[axes]


def check_size(size: Any, name: str = "size", minimum: int = 1) -> tuple[int, int]:
    """Return (height, width) as integers, or raise an error."""
    try:
        sizes = tuple(int(n) for n in size)
        integral = all(n == value for n, value in zip(sizes, size, strict=True))
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be two integers (height, width), got {size!r}") from None
    if not integral or len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"{name} must be two integers (height, width), got {size!r}")
    if min(sizes) < minimum:
        raise ValueError(f"{name} must be positive, got {size!r}")
    return sizes[0], sizes[1]


# Matrices -----------------------------------------------------------------------------------------


def flip_axes(backend: Backend, array: Array, axes: str, axis: int) -> Array:
    """Multiply the last axis (-1) or the last but one (-2) by the signs of named camera axes."""
    signs = np.array(signs_of(axes))
    if axes == "opencv":
        return array
    factor = backend.astype(backend.asarray(signs, array), array.dtype)
    return array * (factor if axis == -1 else factor[:, None])


def transform(backend: Backend, matrix: Array, points: Array) -> Array:
    """Multiply points (..., P, j) by matrices (..., i, j)."""
    return points @ backend.xp.swapaxes(matrix, -1, -2)


def split_pose(backend: Backend, world_to_camera: Array, axes: str) -> tuple[Array, Array]:
    """Split matrices (..., 3 or 4, 4) into (..., 3, 3) and (..., 3), for OpenCV's camera axes."""
    check_shape(backend, "world_to_camera", world_to_camera, (4, 4), (3, 4))
    top = flip_axes(backend, world_to_camera[..., :3, :], axes, -2)
    return top[..., :3], top[..., 3]


def invert_pose(backend: Backend, poses: Array, axes: str) -> tuple[Array, Array]:
    """Invert camera-to-world matrices (..., 3 or 4, 4); see `split_pose`."""
    check_shape(backend, "poses", poses, (4, 4), (3, 4))
    rotation = backend.xp.linalg.inv(flip_axes(backend, poses[..., :3, :3], axes, -1))
    centre = poses[..., :3, 3]
    return rotation, -(rotation @ centre[..., None])[..., 0]


def in_camera(backend: Backend, points: Array, camera: tuple[Array, Array]) -> Array:
    """Convert points (..., P, 3) of the world to the axes of cameras."""
    rotation, shift = camera
    return transform(backend, rotation, points) + shift[..., None, :]


def in_front(backend: Backend, rays: Array) -> Array:
    """Whether rays (..., 3) are in front of the image plane, (..., 1), and not along it.

    The coordinates of a ray along the plane, and their derivatives, would not be finite.
    """
    z = rays[..., 2:]
    across = backend.xp.abs(rays[..., :2])
    return (z > 0) & (across <= STEEPEST * z).all(-1)[..., None]


def project_points(backend: Backend, points: Array, intrinsics: Array, missing: float) -> Array:
    """Project points (..., P, 3) in OpenCV's camera axes to pixels (..., P, 2).

    The pixels of points that are not in front are ``missing``; their derivatives are 0.
    """
    xp, front = backend.xp, in_front(backend, points)
    plane = points[..., :2] / xp.where(front, points[..., 2:], 1)
    pixels = transform(backend, intrinsics[..., :2, :2], plane) + intrinsics[..., None, :2, 2]
    return xp.where(front, pixels, missing)


def project_points_vjp(
    backend: Backend, upstream: Array, points: Array, intrinsics: Array
) -> Array:
    """Compute the gradient of the points of `project_points` from that of the pixels."""
    xp, front = backend.xp, in_front(backend, points)
    z = xp.where(front, points[..., 2:], 1)
    grad_plane = xp.where(front, upstream, 0) @ intrinsics[..., :2, :2] / z
    grad_depth = -(grad_plane * points[..., :2]).sum(-1)[..., None] / z**2
    return backend.concatenate((grad_plane, xp.where(front, grad_depth, 0)), -1)


def unit(backend: Backend, vectors: Array) -> Array:
    """Divide vectors by their length; the derivatives of a vector of zeros are finite."""
    xp = backend.xp
    square = (vectors * vectors).sum(-1)[..., None]
    return vectors / xp.sqrt(xp.where(square > 0, square, 1))


def pixel_centres(backend: Backend, size: Sequence[int], like: Array) -> Array:
    """Return the positions (H, W, 2), x first, of all pixels of an image."""
    x = backend.line(size[1], None, like.dtype, like)
    y = backend.line(size[0], None, like.dtype, like)[:, None]
    return backend.xp.stack((x + 0 * y, y + 0 * x), -1)
