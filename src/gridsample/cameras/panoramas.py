"""Panoramas: grids between equirectangular, cubemap and perspective images, without seams.

An image is first extended beyond its edges: with the columns of the other edge at the date line,
with the opposite meridian at the poles, and with the neighbouring faces in a cube map.  Sampling
then needs no special treatment of edges.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.cameras.arrays import (
    Array,
    as_arrays,
    check_shape,
    first_array,
    pixel_centres,
    transform,
)
from gridsample.cameras.projections import (
    Projection,
    all_pixels,
    check_projection,
    panorama_directions,
    pixels_of,
)
from gridsample.definitions.arrays import ArrayLike, ArrayT
from gridsample.definitions.methods import Mode, find_method, per_axis
from gridsample.ops.sampling import grid_sample, grid_sample_vjp

# How far beyond its edges an image is extended for the prefilter of a spline.
HALO = 32


def look(yaw: float = 0, pitch: float = 0, roll: float = 0) -> np.ndarray[Any, Any]:
    """Compute the rotation of a view from angles in degrees.

    Args:
        yaw: to the right.
        pitch: upwards, after yaw.
        roll: clockwise, as seen by the viewer, after both.

    Returns:
        (3, 3): the rotation from the axes of the turned view to those of the panorama, in OpenCV's
        axes, for `panorama_grid` and `convert_panorama`.

    Example:
        >>> from gridsample import cameras
        >>> cameras.look(yaw=90).round(12) @ [0, 0, 1]  # forward becomes right
        array([1., 0., 0.])
    """
    a, b, c = (math.radians(angle) for angle in (yaw, pitch, roll))
    heading = np.array([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
    lift = np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    tilt = np.array([[math.cos(c), -math.sin(c), 0], [math.sin(c), math.cos(c), 0], [0, 0, 1]])
    new_matrix: np.ndarray[Any, Any] = heading @ lift @ tilt
    return new_matrix


def panorama_rays(projection: Projection, rotation: ArrayLike | None = None) -> Any:
    """Compute the directions of an image's pixels.

    Args:
        projection: made by `equirectangular`, `cubemap` or `perspective`.
        rotation: (3, 3) or (N, 3, 3), by which the directions are multiplied; None for the
            identity.

    Returns:
        (N, *spatial, 3) directions in OpenCV's axes (x right, y down, z forward), of any length.
        N is 1 without a leading axis of rotation or intrinsics.  They are tensors if rotation or
        the intrinsics are, otherwise NumPy arrays.

    Raises:
        TypeError: projection is not a projection.
        ValueError: rotation has the wrong shape.

    Example:
        >>> from gridsample import cameras
        >>> rays = cameras.panorama_rays(cameras.perspective((3, 3), fov=90))
        >>> rays[0, 1].round(3)
        array([[-0.667,  0.   ,  1.   ],
               [ 0.   ,  0.   ,  1.   ],
               [ 0.667,  0.   ,  1.   ]])
    """
    checked = check_projection(projection, "projection")
    backend, (rotation_matrix, matrix) = as_arrays(rotation=rotation, intrinsics=checked.intrinsics)
    rays = rays_of(backend, checked, rotation_matrix, matrix)
    result = rays.reshape(-1, *checked.shape, 3)
    return backend.restore(result, first_array(rotation, checked.intrinsics))


def panorama_grid(target: Projection, source: Projection, rotation: ArrayLike | None = None) -> Any:
    """Make the grid that samples one projection to get another.

    Sampling with this grid alone does not read across the edges of a panorama; `convert_panorama`
    does.

    Args:
        target: the projection of the output.
        source: the projection of the image that is sampled.
        rotation: (3, 3) or (N, 3, 3), from the target's axes to the source's (see `look`); None for
            the identity.

    Returns:
        (N, *spatial, 2) pixels of the source, or (N, *spatial, 3) for a cube map, whose z is the
        number of the face, for the spatial shape of the target.  Float64 for lists, or if rotation
        or intrinsics are float64.  Directions that a perspective source does not show are NaN.
        Tensors are differentiable in rotation and intrinsics.

    Raises:
        TypeError: target or source is not a projection.
        ValueError: rotation has the wrong shape.

    Example:
        >>> from gridsample import cameras
        >>> panorama = cameras.equirectangular((4, 8))
        >>> cameras.panorama_grid(cameras.cubemap(1), panorama)[0, :4, 0, 0]
        array([[3.5, 1.5],
               [5.5, 1.5],
               [7.5, 1.5],
               [1.5, 1.5]])
    """
    output, image = (check_projection(target, "target"), check_projection(source, "source"))
    named = {"rotation": rotation, "target": output.intrinsics, "source": image.intrinsics}
    backend, (rotation_matrix, target_matrix, matrix) = as_arrays(**named)
    rays = rays_of(backend, output, rotation_matrix, target_matrix)
    with backend.quiet():  # NaN stays NaN
        pixels = pixels_of(backend, image, rays, matrix)
    grid = pixels.reshape(-1, *output.shape, pixels.shape[-1])
    return backend.restore(grid, first_array(*named.values()))


def convert_panorama(
    input: ArrayT,
    source: Projection,
    target: Projection,
    rotation: ArrayLike | None = None,
    *,
    mode: Mode = "bilinear",
    threads: int | None = None,
) -> ArrayT:
    """Convert an image from one projection to another, without seams.

    Args:
        input: (N, C, H, W), or (N, C, 6, S, S) for a cube map, of the size of source; any dtype
            that `gridsample.grid_sample` accepts.
        source: the projection of the input.
        target: the projection of the result.
        rotation: (3, 3) or (N, 3, 3), from the target's axes to the source's (see `look`); None for
            the identity.
        mode: the interpolation method, as in `gridsample.grid_sample`; one, or one for x and y.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        (N, C, *spatial) in the dtype of the input, for the spatial shape of the target.  What a
        perspective source does not show is NaN, or 0 for integers.  Tensors are differentiable in
        the input, rotation and intrinsics; for NumPy arrays, see `convert_panorama_vjp`.

    Raises:
        TypeError: an argument does not hold numbers of an accepted dtype, or source or target is
            not a projection.
        ValueError: the input does not have the shape of source, or rotation has the wrong shape.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> panorama = cameras.equirectangular((64, 128))
        >>> directions = cameras.panorama_rays(panorama)[0]
        >>> image = directions[..., 0][None, None]  # how far to the right a pixel is
        >>> view = cameras.perspective((3, 3), fov=90)
        >>> right = cameras.convert_panorama(image, panorama, view, cameras.look(yaw=90))
        >>> right[0, 0, 1, 1].round(3).item()
        0.999
    """
    backend, image, conversion = prepare(input, source, target, rotation, mode, threads)
    image = extend(backend, image, conversion)
    result = grid_sample(
        image, conversion.grid, conversion.modes, "border", coords="pixel", threads=threads
    )
    return backend.restore(result, input)


def convert_panorama_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    source: Projection,
    target: Projection,
    rotation: ArrayLike | None = None,
    *,
    mode: Mode = "bilinear",
    threads: int | None = None,
) -> ArrayT:
    """Compute the gradient of `convert_panorama` in the input: the exact transpose.

    Args:
        grad_output: the upstream gradient, of the shape of the result.
        input: as in `convert_panorama`; floating-point.
        source: the projection of the input.
        target: the projection of the result.
        rotation: as in `convert_panorama`.
        mode: the interpolation method, as in `convert_panorama`.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        The gradient, of the shape of the input.

    Raises:
        TypeError: an argument is not accepted by `convert_panorama`, or is not floating-point.
        ValueError: an argument is not accepted by `convert_panorama`, or grad_output has the wrong
            shape.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> panorama, cube = cameras.equirectangular((8, 16)), cameras.cubemap(4)
        >>> image, upstream = np.ones((1, 1, 8, 16)), np.ones((1, 1, 6, 4, 4))
        >>> cameras.convert_panorama_vjp(upstream, image, panorama, cube).sum().round(9).item()
        96.0
    """
    backend, image, conversion = prepare(input, source, target, rotation, mode, threads)
    (upstream,) = backend.to_device(grad_output=grad_output)
    extended = extend(backend, image, conversion)
    grad_extended, _ = grid_sample_vjp(
        upstream,
        extended,
        conversion.grid,
        conversion.modes,
        "border",
        coords="pixel",
        need_grid=False,
        threads=threads,
    )
    return backend.restore(extend_vjp(backend, grad_extended, image, conversion), input)


# Over a backend -----------------------------------------------------------------------------------


def rays_of(backend: Backend, projection: Projection, rotation: Any, intrinsics: Any) -> Array:
    """Compute the rays (P, 3) or (N, P, 3) of all pixels."""
    like = first_array(rotation, intrinsics)
    if projection.kind == "perspective":
        inverse = backend.xp.linalg.inv(intrinsics)
        flat = pixel_centres(backend, projection.shape, intrinsics).reshape(-1, 2)
        flat = backend.concatenate((flat, 0 * flat[:, :1] + 1), -1)
        rays = transform(backend, inverse, flat)
    else:
        rays = panorama_directions(projection, all_pixels(projection)).reshape(-1, 3)
        if like is not None:
            rays = backend.astype(backend.asarray(rays, like), like.dtype)
    if rotation is None:
        return rays
    check_shape(backend, "rotation", rotation, (3, 3))
    if len(rotation.shape) > 3:
        raise ValueError(f"rotation must be (3, 3) or (N, 3, 3), got {backend.shape(rotation)}")
    return transform(backend, rotation, rays)


class Conversion(NamedTuple):
    """A conversion of panoramas, apart from the image.

    Attributes:
        source: the projection of the image.
        grid: the grid, in pixels of the extended image.
        modes: the interpolation method of each axis.
        ring_modes: the methods that extend the image.
        margin: by how many pixels the image is extended.
        threads: the maximum number of threads.
    """

    source: Projection
    grid: Array
    modes: tuple[Any, ...]
    ring_modes: tuple[Any, ...]
    margin: int
    threads: int | None


def prepare(
    input: Any,
    source: Projection,
    target: Projection,
    rotation: Any,
    mode: Mode,
    threads: int | None,
) -> tuple[Backend, Array, Conversion]:
    """Check the arguments of a conversion, and make its grid."""
    checked = check_projection(source, "source")
    backend = backend_of(input=input)
    (image,) = backend.to_device(input=input)
    shape = backend.shape(image)
    if len(shape) != 2 + len(checked.shape) or shape[2:] != checked.shape:
        expected = ", ".join(map(str, checked.shape))
        raise ValueError(f"input must have the shape (N, C, {expected}) of source, got {shape}")
    modes = per_axis(mode, 2, "mode")
    methods = [find_method(name) for name in modes]
    margin = 0
    if checked.kind != "perspective":
        margin = max(method.taps // 2 + (HALO if method.prefilter > 1 else 0) for method in methods)
        margin = min(margin, *checked.shape[-2:])
    is_double = backend.type_name(image.dtype) in ("float64", "complex128")
    grid = backend.asarray(panorama_grid(target, checked, rotation), image)
    grid = backend.astype(grid, backend.type("float64" if is_double else "float32"))
    face_mode = () if checked.kind != "cubemap" else ("nearest",)
    # Labels must not be blended: beyond the edges they are copied, too.
    copies = all(method.taps == 1 or method.votes for method in methods)
    ring_mode = "nearest" if copies else "bilinear"
    ring_modes = (ring_mode, ring_mode, *face_mode)
    grid = grid + backend.astype(offset(backend, margin, grid), grid.dtype)
    return (
        backend,
        image,
        Conversion(checked, grid, (*modes, *face_mode), ring_modes, margin, threads),
    )


def offset(backend: Backend, margin: int, grid: Array) -> Array:
    """Return the shift of pixels (x, y), or (x, y, face), by a margin."""
    return backend.asarray(np.array([margin, margin, 0.0][: grid.shape[-1]]), grid)


def ring_of(backend: Backend, image: Array, conversion: Conversion) -> tuple[Array, Array]:
    """Find where the pixels beyond the edges are in the image, and the order of all pixels.

    Returns:
        (faces, R, 2 or 3) pixels of the image, and for each pixel of the extended image its place
        among the pixels of the image, followed by the R others.
    """
    pixels = all_pixels(conversion.source, conversion.margin)
    height, width = conversion.source.shape[-2:]
    pixels = pixels.reshape(
        -1, (height + 2 * conversion.margin) * (width + 2 * conversion.margin), pixels.shape[-1]
    )
    x, y = pixels[0, :, 0], pixels[0, :, 1]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    count = inside.size - height * width
    # No index depends on data here, so that compilers know all sizes.
    order = np.where(inside, np.cumsum(inside + 0), height * width + np.cumsum(~inside + 0)) - 1
    ring = pixels[:, np.argsort(inside, kind="stable")[:count]]
    rays = backend.asarray(panorama_directions(conversion.source, ring), image)
    positions = pixels_of(backend, conversion.source, rays, None)
    # Exact where directions are those of pixels, so that no other pixel counts.
    return backend.xp.round(positions, decimals=9), backend.asarray(order, image)


def assemble(
    backend: Backend, image: Array, ring: Array, order: Array, conversion: Conversion
) -> Array:
    """Put the pixels of an image and those beyond its edges in order: (N, C, *extended)."""
    *outer, height, width = backend.shape(image)
    flat = image.reshape(*outer, height * width)
    joined = backend.concatenate((flat, ring.reshape(*outer, -1)), -1)
    joined = joined[..., order]
    return joined.reshape(*outer, height + 2 * conversion.margin, width + 2 * conversion.margin)


def ring_grids(
    backend: Backend, image: Array, pixels: Array, conversion: Conversion
) -> list[Array]:
    """Return the grids that sample the pixels beyond the edges, to be used in this order.

    At the corners of a cube, where three faces meet, the neighbour's pixels end, too.  Faces
    are therefore extended twice, the second time by sampling extended ones.
    """
    grid = pixels[None]
    if conversion.source.kind != "cubemap":
        return [grid[:, 0]]
    return [
        grid,
        grid + backend.asarray(np.array([conversion.margin, conversion.margin, 0.0]), image),
    ]


def ring_options(conversion: Conversion) -> dict[str, Any]:
    """Return the options for sampling the pixels beyond the edges."""
    across = ("wrap", "border") if conversion.source.kind == "equirectangular" else "border"
    return {
        "mode": conversion.ring_modes,
        "padding_mode": across,
        "coords": "pixel",
        "threads": conversion.threads,
    }


def extend(backend: Backend, image: Array, conversion: Conversion) -> Array:
    """Extend an image beyond its edges."""
    if not conversion.margin:
        return image
    pixels, order = ring_of(backend, image, conversion)
    extended = image
    for grid in ring_grids(backend, image, pixels, conversion):
        extended = assemble(
            backend,
            image,
            grid_sample(extended, grid, **ring_options(conversion)),
            order,
            conversion,
        )
    return extended


def extend_vjp(backend: Backend, upstream: Array, image: Array, conversion: Conversion) -> Array:
    """Apply the transpose of `extend`."""
    if not conversion.margin:
        return upstream
    pixels, order = ring_of(backend, image, conversion)
    options = ring_options(conversion)
    grids = ring_grids(backend, image, pixels, conversion)
    shape = backend.shape(image)
    back = backend.xp.argsort(order)
    count, total = shape[-1] * shape[-2], None
    for step in range(len(grids) - 1, -1, -1):
        flat = upstream.reshape(*shape[:-2], -1)[..., back]
        direct = flat[..., :count].reshape(*shape)
        total = direct if total is None else total + direct
        ring = flat[..., count:].reshape(*shape[:2], *grids[step].shape[1:-1])
        # Only shape and dtype of the sampled image count.
        sampled = image if step == 0 else upstream
        upstream, _ = grid_sample_vjp(ring, sampled, grids[step], **options, need_grid=False)
    return total + upstream
