"""Panoramas and perspective images as projections: rays of pixels, and pixels of rays.

Rays are in OpenCV's axes: x right, y down, z forward.  Functions of this module are written over a
namespace, because most of what they compute depends on sizes only and is computed by NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend
from gridsample.cameras.arrays import Array, check_size, is_literal, project_points, transform
from gridsample.definitions.arrays import ArrayLike

# The faces of a cube map: forward, right and down, as seen from inside.
FACES = ("front", "right", "back", "left", "up", "down")
FRAMES = np.array(
    [
        [[0, 0, 1], [1, 0, 0], [0, 1, 0]],
        [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
        [[0, 0, -1], [-1, 0, 0], [0, 1, 0]],
        [[-1, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
        [[0, 1, 0], [1, 0, 0], [0, 0, -1]],
    ],
    np.float64,
)


class Projection(NamedTuple):
    """How the pixels of an image correspond to directions; see the functions that make it.

    Attributes:
        kind: "equirectangular", "cubemap" or "perspective".
        shape: the spatial shape of the image, (H, W), or (6, S, S) for a cube map.
        intrinsics: (3, 3) or (N, 3, 3) of a perspective image, in pixels; otherwise None.
    """

    kind: str
    shape: tuple[int, ...]
    intrinsics: Any = None


def equirectangular(size: Sequence[int]) -> Projection:
    """Describe a panorama (N, C, H, W) whose columns are longitudes and whose rows are latitudes.

    The first column begins behind the viewer, at longitude -180 degrees; longitude 0 is in the
    middle, and longitude increases to the right.  The first row begins at the zenith.

    Args:
        size: (H, W), usually with W = 2 H.

    Returns:
        The projection, for `panorama_grid` and `convert_panorama`.

    Raises:
        TypeError: size does not consist of integers.
        ValueError: size does not have two positive entries.

    Example:
        >>> from gridsample import cameras
        >>> cameras.equirectangular((512, 1024)).shape
        (512, 1024)
    """
    return Projection("equirectangular", check_size(size))


def cubemap(size: int) -> Projection:
    """Describe a cube map (N, C, 6, S, S): six square images of the directions around the viewer.

    The faces are front, right, back, left, up and down, each as seen from inside the cube.  The
    lower edge of the upper face, and the upper edge of the lower face, touch the front face.

    Args:
        size: S.

    Returns:
        The projection, for `panorama_grid` and `convert_panorama`.

    Raises:
        TypeError: size is not an integer.
        ValueError: size is not positive.

    Example:
        >>> from gridsample import cameras
        >>> cameras.cubemap(256).shape
        (6, 256, 256)
    """
    return Projection("cubemap", (6, *check_size((size, size))))


def perspective(
    size: Sequence[int], fov: float | None = None, intrinsics: ArrayLike | None = None
) -> Projection:
    """Describe an image (N, C, H, W) of a camera without distortion.

    Args:
        size: (H, W).
        fov: the horizontal field of view, in degrees, between the outer edges of the image, if
            pixels are square and the camera looks at the image's centre.
        intrinsics: (3, 3) or (N, 3, 3), in pixels, instead of fov; tensors may need a gradient.

    Returns:
        The projection, for `panorama_grid` and `convert_panorama`.

    Raises:
        TypeError: size does not consist of integers.
        ValueError: size does not have two positive entries, fov is not between 0 and 180, or not
            exactly one of fov and intrinsics is given.

    Example:
        >>> from gridsample import cameras
        >>> import numpy as np
        >>> np.round(cameras.perspective((480, 640), fov=90).intrinsics, 9)
        array([[320. ,   0. , 319.5],
               [  0. , 320. , 239.5],
               [  0. ,   0. ,   1. ]])
    """
    height, width = check_size(size)
    if (fov is None) == (intrinsics is None):
        raise ValueError("perspective takes either fov or intrinsics")
    if fov is not None:
        if not 0 < fov < 180:
            raise ValueError(f"fov must be between 0 and 180 degrees, got {fov!r}")
        focal = width / 2 / math.tan(math.radians(fov) / 2)
        x, y = (width - 1) / 2, (height - 1) / 2
        intrinsics = [[focal, 0.0, x], [0.0, focal, y], [0.0, 0.0, 1.0]]
    matrix: Any = intrinsics
    shape = np.shape(matrix) if is_literal(matrix) else tuple(matrix.shape)
    if len(shape) not in (2, 3) or shape[-2:] != (3, 3):
        raise ValueError(f"intrinsics must have the shape (3, 3) or (N, 3, 3), got {shape}")
    return Projection("perspective", (height, width), intrinsics)


def check_projection(value: Any, name: str) -> Projection:
    """Return a projection, or raise an error if it is something else."""
    if not isinstance(value, Projection):
        raise TypeError(
            f"{name} must be made by equirectangular, cubemap or perspective, got {value!r}"
        )
    return value


# Rays and pixels ----------------------------------------------------------------------------------


def all_pixels(projection: Projection, margin: int = 0) -> np.ndarray[Any, Any]:
    """Return (x, y), or (x, y, face), of all pixels, and of ``margin`` pixels beyond the edges."""
    *faces, height, width = projection.shape
    axes = [np.arange(n, dtype=np.float64) for n in faces]
    axes += [np.arange(-margin, n + margin, dtype=np.float64) for n in (height, width)]
    return np.stack(np.meshgrid(*axes, indexing="ij")[::-1], -1)


def panorama_directions(
    projection: Projection, pixels: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Compute the rays of an equirectangular image's or a cube map's pixels, also beyond edges."""
    height, width = projection.shape[-2:]
    x, y = pixels[..., 0] + 0.5, pixels[..., 1] + 0.5
    if projection.kind == "cubemap":
        forward, right, down = np.moveaxis(FRAMES[pixels[..., 2].astype(int)], -2, 0)
        across, along = 2 * x / width - 1, 2 * y / height - 1
        rays: np.ndarray[Any, Any] = forward + across[..., None] * right + along[..., None] * down
        return rays
    longitude, latitude = (x / width * 2 - 1) * np.pi, (0.5 - y / height) * np.pi
    horizontal = np.cos(latitude)
    parts = horizontal * np.sin(longitude), -np.sin(latitude), horizontal * np.cos(longitude)
    return np.stack(parts, -1)


def pixels_of(backend: Backend, projection: Projection, rays: Array, intrinsics: Any) -> Array:
    """Compute the pixels (..., 2), or (..., 3) of a cube map, of rays (..., P, 3)."""
    if projection.kind == "perspective":
        return in_perspective(backend, projection, rays, intrinsics)
    if projection.kind == "cubemap":
        return in_cubemap(backend, projection, rays)
    xp, (height, width) = backend.xp, projection.shape
    x, y, z = rays[..., 0], rays[..., 1], rays[..., 2]
    horizontal = x * x + z * z
    off_pole = horizontal > 0  # at the poles, the longitude is taken as 0
    longitude = xp.arctan2(x, xp.where(off_pole, z, 1))
    latitude = xp.arctan2(-y, xp.where(off_pole, xp.sqrt(xp.where(off_pole, horizontal, 1)), 0))
    across = (longitude / (2 * math.pi) + 0.5) * width - 0.5
    return xp.stack((across, (0.5 - latitude / math.pi) * height - 0.5), -1)


def in_cubemap(backend: Backend, projection: Projection, rays: Array) -> Array:
    """Compute (x, y, face) of rays: the face whose direction is nearest."""
    xp, size = backend.xp, projection.shape[-1]
    frames = backend.astype(backend.asarray(FRAMES, rays), rays.dtype)
    face = xp.argmax(transform(backend, frames[:, 0], rays), -1)
    rotated = (frames[face] * rays[..., None, :]).sum(-1)
    forward = rotated[..., :1]
    plane = rotated[..., 1:] / xp.where(forward > 0, forward, 1)
    number = backend.astype(face, rays.dtype)[..., None]
    return backend.concatenate(((plane + 1) * (size / 2) - 0.5, number), -1)


def in_perspective(
    backend: Backend, projection: Projection, rays: Array, intrinsics: Array
) -> Array:
    """Compute the pixels of rays, NaN behind the camera and outside the image."""
    height, width = projection.shape
    pixels = project_points(backend, rays, intrinsics, float("nan"))
    x, y = pixels[..., 0], pixels[..., 1]
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    return backend.xp.where(inside[..., None], pixels, float("nan"))
