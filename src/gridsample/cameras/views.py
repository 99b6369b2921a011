"""Views: project points into cameras, and sample images and features there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend
from gridsample.cameras.arrays import (
    FAR,
    Array,
    as_arrays,
    check_batches,
    check_shape,
    first_array,
    in_camera,
    invert_pose,
    project_points,
    project_points_vjp,
    split_pose,
    unit,
)
from gridsample.definitions.arrays import ArrayLike, ArrayT
from gridsample.definitions.checks import check_flag
from gridsample.definitions.methods import Mode
from gridsample.ops.sampling import grid_sample, grid_sample_vjp


class ViewSamples(NamedTuple):
    """Samples of views at points; ``*points`` are the axes of the points, V is the number of views.

    Attributes:
        colors: (*points, V, C) samples of the images; 0 where the mask is False.
        features: (*points, V, F) samples of the features; 0 where the mask is False; None if there
            are no features.
        mask: (*points, V), whether a point is in front of a view's camera and inside its image,
            between the centres of the outermost pixels.
        directions: (*points, V, 4) relative ray directions; None without a query pose.
    """

    colors: Any
    features: Any
    mask: Any
    directions: Any


def project(
    points: ArrayT, intrinsics: ArrayLike, world_to_camera: ArrayLike, *, axes: str = "opencv"
) -> tuple[ArrayT, ArrayT]:
    """Project points of the world to pixels of cameras.

    With camera = R point + t for the matrix [R | t] = world_to_camera, converted to OpenCV's axes:

        pixel = (fx x / z + s y / z + cx, fy y / z + cy)    depth = z

    where (x, y, z) = camera, and the rows of intrinsics are (fx, s, cx), (0, fy, cy), (0, 0, 1).
    Pixels are counted from the centre of the first pixel, x to the right, y down, as in
    ``coords="pixel"`` of `gridsample.grid_sample`.

    Args:
        points: (..., P, 3) in the world's units; or (3,), a single point.
        intrinsics: (..., 3, 3), in pixels.  The last row is not read.
        world_to_camera: (..., 4, 4) or (..., 3, 4).  The axes before the last two broadcast, so
            (V, 4, 4) matrices and (P, 3) points give (V, P, 2) pixels.
        axes: the camera's axes: "opencv" (x right, y down, z forward, also COLMAP's) or "opengl" (x
            right, y up, z backward, also Blender's and most NeRF data).

    Returns:
        (pixels, depth): (..., P, 2), and (..., P) in the world's units.  The depth is the distance
        in front of the camera along its viewing direction, for both names of axes.  Pixels of
        points with depth <= 0 are NaN, and their derivatives are 0; so are those of rays along the
        image plane, with |x / z| or |y / z| above 1e9.  Float64 if an argument is float64,
        otherwise float32.  For tensors, differentiable with respect to all arguments.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> intrinsics = [[100.0, 0, 32], [0, 100, 24], [0, 0, 1]]
        >>> points = np.array([[0.0, 0, 2], [0.5, -0.2, 2], [0, 0, -2]])
        >>> pixels, depth = cameras.project(points, intrinsics, np.eye(4))
        >>> pixels
        array([[32., 24.],
               [57., 14.],
               [nan, nan]])
        >>> depth
        array([ 2.,  2., -2.])
    """
    backend, (positions, matrix, pose) = as_arrays(
        points=points, intrinsics=intrinsics, world_to_camera=world_to_camera
    )
    check_shape(backend, "points", positions, (3,))
    check_shape(backend, "intrinsics", matrix, (3, 3))
    check_shape(backend, "world_to_camera", pose, (4, 4), (3, 4))
    check_batches(backend, points=(positions, 2), intrinsics=(matrix, 2), world_to_camera=(pose, 2))
    single = len(positions.shape) == 1
    in_view = in_camera(
        backend, positions[None] if single else positions, split_pose(backend, pose, axes)
    )
    pixels = project_points(backend, in_view, matrix, float("nan"))
    # The intrinsics may have a batch that the points do not have.
    depth = backend.xp.add(in_view[..., 2], backend.xp.zeros_like(pixels[..., 0]))
    if single:
        pixels, depth = pixels[..., 0, :], depth[..., 0]
    like = first_array(points, intrinsics, world_to_camera)
    return backend.restore(pixels, like), backend.restore(depth, like)


def sample_views(
    points: ArrayT,
    images: Any,
    features: Any,
    intrinsics: ArrayLike,
    poses: ArrayLike,
    query_pose: ArrayLike | None = None,
    *,
    axes: str = "opencv",
    mode: Mode = "bilinear",
    align_corners: bool = True,
    threads: int | None = None,
) -> ViewSamples:
    """Sample the images and features of several views at 3-D points.

    Every point is projected into every view, as in `project`, and each view's image and features
    are sampled there.  Renderers that blend source views, such as IBRNet and GNT, start with this.

    With a query pose, ``directions`` compares the directions in which the query camera and a view
    see a point.  With the unit vectors q and v from the point to the centres of the two cameras, it
    is

        ((q - v) / |q - v|, q . v)

    Args:
        points: (..., 3) in the world's units.
        images: (V, C, H, W), or a list of V images (C, H, W) of different sizes; any dtype that
            `gridsample.grid_sample` accepts.
        features: (V, F, h, w), or a list of V arrays (F, h, w), usually with fewer pixels than the
            images, which they cover; or None.
        intrinsics: (V, 3, 3), in pixels of the images.
        poses: (V, 4, 4) or (V, 3, 4), camera to world.
        query_pose: (4, 4) or (3, 4), camera to world; or None.
        axes: the axes of all cameras, "opencv" or "opengl"; see `project`.
        mode: the interpolation method, as in `gridsample.grid_sample`.
        align_corners: how features cover an image of another size: True if the centres of their
            corner pixels coincide, False if their outer edges do.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        `ViewSamples`: colors, features, mask and directions.  Colours and features have the dtypes
        of images and features.  For tensors, they are differentiable with respect to all arguments;
        for NumPy arrays, see `sample_views_vjp`.

    Raises:
        TypeError: an argument does not hold numbers of an accepted dtype.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> images = np.arange(12.0).reshape(1, 1, 3, 4)
        >>> intrinsics = np.array([[[2.0, 0, 1], [0, 2, 1], [0, 0, 1]]])
        >>> points = np.array([[0.0, 0, 1], [0.25, 0, 1], [0, 0, -1], [3, 0, 1]])
        >>> samples = cameras.sample_views(points, images, None, intrinsics, np.eye(4)[None])
        >>> samples.colors[:, 0, 0]
        array([5. , 5.5, 0. , 0. ])
        >>> samples.mask[:, 0]
        array([ True,  True, False, False])
    """
    scene = scene_of(points, images, features, intrinsics, poses, axes)
    backend, options = scene.backend, {"mode": mode, "threads": threads}
    colors = sampled(scene, scene.images, True, options)
    sampled_features = sampled(
        scene, scene.features, check_flag(align_corners, "align_corners"), options
    )
    directions = None
    if query_pose is not None:
        directions = relative_directions(scene, points, poses, query_pose)
    mask = backend.permute(scene.mask, (1, 0)).reshape(*scene.shape, len(scene.sizes))
    like = first_array(points, intrinsics, poses)
    return ViewSamples(
        *[backend.restore(array, like) for array in (colors, sampled_features, mask, directions)]
    )


def sample_views_vjp(
    grad_colors: Any,
    grad_features: Any,
    points: ArrayT,
    images: Any,
    features: Any,
    intrinsics: ArrayLike,
    poses: ArrayLike,
    *,
    axes: str = "opencv",
    mode: Mode = "bilinear",
    align_corners: bool = True,
    threads: int | None = None,
) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Compute the gradients of `sample_views` with respect to points, images and features.

    Args:
        grad_colors: the upstream gradient of colors, (*points, V, C); or None.
        grad_features: the upstream gradient of features, (*points, V, F); or None.
        points: (..., 3), as in `sample_views`.
        images: as in `sample_views`; floating-point.
        features: as in `sample_views`; or None.
        intrinsics: (V, 3, 3), as in `sample_views`.
        poses: (V, 4, 4) or (V, 3, 4), as in `sample_views`.
        axes, mode, align_corners: as in `sample_views`.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        (grad_points, grad_images, grad_features).  grad_images and grad_features are lists if the
        arguments are, and None if their upstream gradient is None.

    Raises:
        TypeError: an argument is not accepted by `sample_views`, or images or features with an
            upstream gradient are not floating-point.
        ValueError: an argument is not accepted by `sample_views`, or an upstream gradient has the
            wrong shape.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> images = np.arange(12.0).reshape(1, 1, 3, 4)
        >>> intrinsics = np.array([[[2.0, 0, 1], [0, 2, 1], [0, 0, 1]]])
        >>> points = np.array([[0.25, 0.1, 1]])
        >>> grad_points, grad_images, _ = cameras.sample_views_vjp(
        ...     np.ones((1, 1, 1)), None, points, images, None, intrinsics, np.eye(4)[None]
        ... )
        >>> grad_points.round(12)  # 2 pixels per unit, 1 grey level per pixel right, 4 down
        array([[ 2. ,  8. , -1.3]])
    """
    scene = scene_of(points, images, features, intrinsics, poses, axes)
    backend, options = scene.backend, {"mode": mode, "threads": threads}
    aligned = check_flag(align_corners, "align_corners")
    like = first_array(points, intrinsics, poses)
    total = 0 * scene.pixels
    gradients: list[Any] = []
    for name, upstream, sources, argument, corners in (
        ("grad_colors", grad_colors, scene.images, images, True),
        ("grad_features", grad_features, scene.features, features, aligned),
    ):
        if upstream is None or not sources:
            gradients.append(None)
            continue
        (values,) = backend.to_device(**{name: upstream})
        shape = (*scene.shape, len(scene.sizes), sources[0].planes.shape[1])
        if backend.shape(values) != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {tuple(values.shape)}")
        grad_sources, grad_pixels = sampled_vjp(scene, values, sources, corners, options)
        total = total + grad_pixels
        parts = [backend.restore(gradient, like) for gradient in grad_sources]
        gradients.append([gradient[0] for gradient in parts] if is_list(argument) else parts[0])
    grad_in_view = project_points_vjp(backend, total, scene.in_view, scene.intrinsics)
    grad_points = (grad_in_view @ scene.rotation).sum(0).reshape(*scene.shape, 3)
    return backend.restore(grad_points, like), gradients[0], gradients[1]


# Over a backend -----------------------------------------------------------------------------------


class Source(NamedTuple):
    """Images, or features, of one size, (n, C, H, W), and the views that they belong to."""

    planes: Array
    views: slice


class Scene(NamedTuple):
    """The checked arguments of `sample_views`, and where each view sees the points.

    Attributes:
        backend: the backend of all arrays.
        images: the images.
        features: the features; empty if there are none.
        shape: the shape of the points, without the last axis.
        sizes: (H, W) of the image of each view.
        intrinsics: (V, 3, 3).
        rotation: (V, 3, 3) rotations from the world to OpenCV's camera axes.
        in_view: (V, P, 3) points in OpenCV's camera axes.
        pixels: (V, P, 2) positions in the images; `FAR` where the mask is False.
        mask: (V, P), whether a view shows a point.
    """

    backend: Backend
    images: list[Source]
    features: list[Source]
    shape: tuple[int, ...]
    sizes: list[tuple[int, int]]
    intrinsics: Array
    rotation: Array
    in_view: Array
    pixels: Array
    mask: Array


def is_list(value: Any) -> bool:
    """Whether an argument is a list of arrays, one for each view."""
    return isinstance(value, (list, tuple))


def sources_of(backend: Backend, name: str, value: Any) -> list[Source]:
    """Check images or features, and divide them into sources of one size."""
    if value is None:
        return []
    if not is_list(value):
        (planes,) = backend.to_device(**{name: value})
        if len(planes.shape) != 4:
            raise ValueError(
                f"{name} must have the shape (V, C, H, W), or be a list of arrays (C, H, W); got "
                f"the shape {backend.shape(planes)}"
            )
        return [Source(planes, slice(0, backend.shape(planes)[0]))]
    named = {f"{name}[{v}]": source for v, source in enumerate(value)}
    parts = backend.to_device(**named)
    for key, array in zip(named, parts, strict=True):
        if len(array.shape) != 3 or array.shape[0] != parts[0].shape[0]:
            raise ValueError(
                f"{name} must be arrays (C, H, W) of the same C, got {backend.shape(array)} "
                f"for {key}"
            )
    return [Source(array[None], slice(v, v + 1)) for v, array in enumerate(parts)]


def sizes_of(sources: list[Source]) -> list[tuple[int, int]]:
    """Return (H, W) of each view."""
    return [
        (int(source.planes.shape[2]), int(source.planes.shape[3]))
        for source in sources
        for _ in range(source.views.start, source.views.stop)
    ]


def scene_of(
    points: Any, images: Any, features: Any, intrinsics: Any, poses: Any, axes: str
) -> Scene:
    """Check the arguments of `sample_views`, and project the points."""
    backend, (positions, matrix, pose_array) = as_arrays(
        points=points, intrinsics=intrinsics, poses=poses
    )
    check_shape(backend, "points", positions, (3,))
    image_sources = sources_of(backend, "images", images)
    feature_sources = sources_of(backend, "features", features)
    if not image_sources:
        raise ValueError("images must be an array (V, C, H, W) or a list of arrays, got none")
    sizes = sizes_of(image_sources)
    count = len(sizes)
    for name, array in (
        ("intrinsics", matrix.shape[0] if tuple(matrix.shape[1:]) == (3, 3) else None),
        ("poses", pose_array.shape[0] if tuple(pose_array.shape[1:]) in ((4, 4), (3, 4)) else None),
        ("features", len(sizes_of(feature_sources)) if feature_sources else count),
    ):
        if array != count:
            expected = {"intrinsics": "(V, 3, 3)", "poses": "(V, 4, 4) or (V, 3, 4)"}.get(name, "V")
            raise ValueError(f"{name} must be {expected} for V = {count}, the number of images")
    rotation, shift = invert_pose(backend, pose_array, axes)
    in_view = in_camera(backend, positions.reshape(-1, 3), (rotation, shift))
    pixels = project_points(backend, in_view, matrix, FAR)
    last = constant(backend, [(w - 1, h - 1) for h, w in sizes], pixels)
    mask = ((pixels >= 0) & (pixels <= last)).all(-1)
    pixels = backend.xp.where(mask[..., None], pixels, FAR)
    shape = backend.shape(positions)[:-1]
    return Scene(
        backend,
        image_sources,
        feature_sources,
        shape,
        sizes,
        matrix,
        rotation,
        in_view,
        pixels,
        mask,
    )


def constant(backend: Backend, pairs: Sequence[tuple[float, float]], like: Array) -> Array:
    """Return one pair of numbers per view, (V, 1, 2), in the dtype of ``like``."""
    numbers = backend.asarray(np.array(pairs, np.float64), like)
    return backend.astype(numbers, like.dtype)[:, None]


def scale_of(scene: Scene, sources: list[Source], align_corners: bool) -> Array:
    """Return the pixels of sources per pixel of the images, (V, 1, 2)."""
    pairs = zip(sizes_of(sources), scene.sizes, strict=True)
    if align_corners:
        scale = [((w - 1) / max(v - 1, 1), (h - 1) / max(u - 1, 1)) for (h, w), (u, v) in pairs]
    else:
        scale = [(w / v, h / u) for (h, w), (u, v) in pairs]
    return constant(scene.backend, scale, scene.pixels)


def positions_in(scene: Scene, sources: list[Source], align_corners: bool) -> tuple[Array, Array]:
    """Convert pixels of the images to pixels of sources, (V, P, 2), and return the scale, too."""
    scale = scale_of(scene, sources, align_corners)
    half = 0 if align_corners else 0.5
    return (scene.pixels + half) * scale - half, scale


def sampled(
    scene: Scene, sources: list[Source], align_corners: bool, options: dict[str, Any]
) -> Array | None:
    """Sample sources at the points: (*points, V, C)."""
    if not sources:
        return None
    backend, parts = scene.backend, []
    positions, _ = positions_in(scene, sources, align_corners)
    for planes, views in sources:
        samples = grid_sample(
            planes, positions[views], padding_mode="border", coords="pixel", **options
        )
        parts.append(backend.xp.where(scene.mask[views, None], samples, 0))
    joined = parts[0] if len(parts) == 1 else backend.concatenate(parts, 0)
    joined = backend.astype(joined, sources[0].planes.dtype)
    shape = (*scene.shape, *backend.shape(joined)[:2])
    return backend.permute(joined, (2, 0, 1)).reshape(*shape)


def sampled_vjp(
    scene: Scene,
    upstream: Array,
    sources: list[Source],
    align_corners: bool,
    options: dict[str, Any],
) -> tuple[list[Array], Array]:
    """Compute the gradients of `sampled` in the sources, and in the pixels of the scene."""
    backend, grad_sources, grad_positions = scene.backend, [], []
    positions, scale = positions_in(scene, sources, align_corners)
    flat = upstream.reshape(-1, *upstream.shape[len(scene.shape) :])
    values = backend.permute(flat, (1, 2, 0))
    values = backend.xp.where(scene.mask[:, None], values, 0)
    for planes, views in sources:
        first, second = grid_sample_vjp(
            values[views],
            planes,
            positions[views],
            padding_mode="border",
            coords="pixel",
            **options,
        )
        grad_sources.append(first)
        grad_positions.append(second)
    return grad_sources, backend.concatenate(grad_positions, 0) * scale


def relative_directions(scene: Scene, points: Any, poses: Any, query_pose: Any) -> Array:
    """Compare the directions from points to the query camera and to each view: (*points, V, 4)."""
    backend, (positions, views, query) = as_arrays(
        points=points, poses=poses, query_pose=query_pose
    )
    check_shape(backend, "query_pose", query, (4, 4), (3, 4))
    flat = positions.reshape(-1, 1, 3)
    to_query = unit(backend, query[:3, 3] - flat)
    to_views = unit(backend, views[:, :3, 3] - flat)
    cosine = (to_query * to_views).sum(-1)[..., None]
    directions = backend.concatenate((unit(backend, to_query - to_views), cosine), -1)
    return directions.reshape(*scene.shape, *directions.shape[1:])
