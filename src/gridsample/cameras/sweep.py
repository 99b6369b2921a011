"""Plane sweeps: compare views on planes at many depths in front of a reference camera.

Planes are processed a few at a time, and views one after the other.  Besides the result, only small
arrays are needed, here and in the gradients, which sample again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, backend_of
from gridsample.cameras.arrays import FAR, FLOATS, Array, as_arrays, split_pose
from gridsample.cameras.reductions import Reduction, View, find_reduction
from gridsample.definitions.arrays import ArrayLike, ArrayT
from gridsample.definitions.methods import Mode
from gridsample.definitions.shapes import bands_along
from gridsample.ops.sampling import grid_sample, grid_sample_vjp

# How many numbers of one view are sampled at a time, in the sweep and in its gradients.
FORWARD, BACKWARD = 1 << 20, 1 << 21


def plane_sweep(
    reference: ArrayT,
    sources: ArrayT | Sequence[ArrayT],
    cameras: tuple[ArrayLike, ArrayLike],
    depths: ArrayLike,
    reduce: str | Callable[[Any, Any], Any] = "variance",
    *,
    axes: str = "opencv",
    mode: Mode = "bilinear",
    threads: int | None = None,
) -> ArrayT:
    """Compare the features of several views on planes in front of a reference camera.

    For each pixel of the reference and each depth, the point at that depth on the pixel's ray is
    projected into every source, whose features are sampled there.  The sampled features, and those
    of the reference, are reduced to one number per channel.  With "variance", the result is the
    cost volume of MVSNet (Yao et al., ECCV 2018): it is small at the depth of a surface.

    Planes and views are processed one after the other, so little memory is needed besides the
    result.  The gradients sample again instead of storing the samples.  In transforms of
    `torch.func`, in forward mode, and in compiled functions, torch stores the samples.

    Args:
        reference: (N, C, H, W) features of the reference view; floating-point.
        sources: (N, V, C, h, w) features of V views, or a list of V arrays (N, C, h, w), whose
            sizes may differ.
        cameras: (intrinsics, world_to_camera): (N, V + 1, 3, 3), in pixels of the feature maps, and
            (N, V + 1, 4, 4) or (N, V + 1, 3, 4), as in `project`.  The first camera is the
            reference's.  Without the axis N, the cameras are the same for all items.
        depths: (D,), (N, D), or (N, D, H, W) for curved planes, in the world's units along
            the viewing direction of the reference, positive.  N may be 1.
        reduce: "variance" or "mean" over the reference and all sources; "none" to return the
            sampled features of the sources; or a function.  It is called for a few planes at a
            time, with features (N, V + 1, C, planes, H, W), the reference first, and a mask
            (N, V + 1, 1, planes, H, W), True where a point is in front of a camera and between the
            centres of the outermost pixels of its features.  It returns (N, any, planes, H, W).
        axes: the axes of all cameras, "opencv" or "opengl"; see `project`.
        mode: the interpolation method, as in `gridsample.grid_sample`.  Spline modes take
            coefficients: apply `gridsample.spline_filter` to the sources first.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        (N, C, D, H, W) in the dtype of the features; (N, V, C, D, H, W) for "none".  Outside a
        source, and behind its camera, its features are 0.  For tensors, it is differentiable any
        number of times with respect to features, cameras and depths; for NumPy arrays, see
        `plane_sweep_vjp`.

    Raises:
        TypeError: features are not floating-point, or an argument does not hold real numbers.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> row = np.array([1.0, 2, 4, 8, 16])
        >>> reference, source = row.reshape(1, 1, 1, 5), np.roll(row, -2).reshape(1, 1, 1, 5)
        >>> intrinsics = np.array([[2.0, 0, 2], [0, 2, 0], [0, 0, 1]])
        >>> left, right = np.eye(4), np.eye(4)
        >>> right[0, 3] = -1  # the source is one unit to the right
        >>> matrices = np.stack([intrinsics, intrinsics]), np.stack([left, right])
        >>> cost = cameras.plane_sweep(reference, source[:, None], matrices, [1.0, 2.0])
        >>> cost[0, 0, :, 0, 3].tolist()  # at depth 1, pixel 3 is pixel 1 of the source
        [0.0, 16.0]
    """
    sweep, arrays = prepare(reference, sources, cameras, depths, reduce, axes, mode, threads)

    if sweep.reduction.backward is None:
        result = volume(sweep, arrays, sweep.backend.is_host)
        return sweep.backend.restore(result, reference)

    def compute(inputs: Sequence[Array], in_place: bool) -> Array:
        return volume(sweep, inputs, in_place)

    def differentiate(
        upstream: Array, needed: Sequence[bool], inputs: Sequence[Array]
    ) -> list[Array | None]:
        return gradients(sweep, upstream, needed, inputs)

    result = sweep.backend.custom_vjp(compute, differentiate, arrays)
    return sweep.backend.restore(result, reference)


def plane_sweep_vjp(
    grad_output: ArrayT,
    reference: ArrayT,
    sources: ArrayT | Sequence[ArrayT],
    cameras: tuple[ArrayLike, ArrayLike],
    depths: ArrayLike,
    reduce: str = "variance",
    *,
    axes: str = "opencv",
    mode: Mode = "bilinear",
    threads: int | None = None,
) -> tuple[ArrayT, Any, ArrayT]:
    """Compute the gradients of `plane_sweep` with respect to the features and the depths.

    Args:
        grad_output: the upstream gradient, of the shape of the result.
        reduce: "variance", "mean" or "none".
        reference, sources, cameras, depths, axes, mode: as in `plane_sweep`.
        threads: the maximum number of threads, as in `gridsample.grid_sample`.

    Returns:
        (grad_reference, grad_sources, grad_depths), in the shapes of the arguments.  grad_sources
        is a list if sources is.

    Raises:
        TypeError: an argument is not accepted by `plane_sweep`.
        ValueError: an argument is not accepted by `plane_sweep`, reduce is a function, or
            grad_output has the wrong shape.

    Example:
        >>> import numpy as np
        >>> from gridsample import cameras
        >>> row = np.array([1.0, 2, 4, 8, 16])
        >>> reference, source = row.reshape(1, 1, 1, 5), np.roll(row, -2).reshape(1, 1, 1, 1, 5)
        >>> intrinsics = np.array([[2.0, 0, 2], [0, 2, 0], [0, 0, 1]])
        >>> right = np.eye(4)
        >>> right[0, 3] = -1
        >>> matrices = np.stack([intrinsics, intrinsics]), np.stack([np.eye(4), right])
        >>> upstream = np.zeros((1, 1, 1, 1, 5))
        >>> upstream[..., 3] = 1
        >>> _, _, grad_depths = cameras.plane_sweep_vjp(
        ...     upstream, reference, source, matrices, [1.2], "mean"
        ... )
        >>> round(float(grad_depths[0]), 3)  # half of 8 per pixel, 2 / 1.2**2 pixels per depth
        5.556
    """
    sweep, arrays = prepare(reference, sources, cameras, depths, reduce, axes, mode, threads)
    backend = sweep.backend
    if sweep.reduction.backward is None:
        raise ValueError(
            "reduce must be 'variance', 'mean' or 'none' in plane_sweep_vjp: the gradient of a "
            "function needs tensors and torch.autograd"
        )
    (upstream,) = backend.to_device(grad_output=grad_output)
    expected = sweep.reduction.shape(sweep.shape, len(arrays) - 3)
    if backend.shape(upstream) != expected:
        raise ValueError(
            f"grad_output must have the shape {expected}, got {backend.shape(upstream)}"
        )
    needed = (True, False, True, *[True] * (len(arrays) - 3))
    results: list[Any] = gradients(sweep, upstream, needed, arrays)
    grad_reference, _, grad_depths, *grad_sources = results
    parts = [backend.restore(gradient, reference) for gradient in grad_sources]
    is_list = isinstance(sources, (list, tuple))
    return (
        backend.restore(grad_reference, reference),
        parts if is_list else backend.restore(backend.xp.stack(grad_sources, 1), reference),
        backend.restore(grad_depths.reshape(sweep.depth_shape), reference),
    )


# Arguments ----------------------------------------------------------------------------------------


class PlaneSweep(NamedTuple):
    """The options and shapes of a plane sweep.

    Attributes:
        backend: the backend of all arrays.
        reduction: how features are reduced.
        shape: (N, C, D, H, W).
        depth_shape: the shape of depths as the caller gave them.
        options: the options of sampling.
    """

    backend: Backend
    reduction: Reduction
    shape: tuple[int, ...]
    depth_shape: tuple[int, ...]
    options: dict[str, Any]


def prepare(
    reference: Any,
    sources: Any,
    cameras: Any,
    depths: Any,
    reduce: Any,
    axes: str,
    mode: Mode,
    threads: int | None,
) -> tuple[PlaneSweep, list[Array]]:
    """Check the arguments; return a record and (reference, maps, depths, *sources)."""
    features = features_of(reference, sources)
    backend = backend_of(reference=reference)
    n, _, height, width = backend.shape(features[0])
    if not isinstance(cameras, (list, tuple)) or len(cameras) != 2:
        raise ValueError("cameras must be a pair (intrinsics, world_to_camera)")
    _, (matrix, pose, depth_array, _) = as_arrays(
        intrinsics=cameras[0], world_to_camera=cameras[1], depths=depths, reference=reference
    )
    maps = relative_maps(backend, matrix, pose, axes, n, len(features) - 1)
    shape = backend.shape(depth_array)
    planes = {1: (1, *shape, 1, 1), 2: (*shape, 1, 1), 4: shape}.get(len(shape), ())
    if len(planes) != 4 or planes[0] not in (1, n) or planes[2:] not in ((1, 1), (height, width)):
        raise ValueError(
            f"depths must have the shape (D,), (N, D) or (N, D, H, W) for N = {n}, "
            f"H = {height}, W = {width}, got {shape}"
        )
    size = (*backend.shape(features[0])[:2], planes[1], height, width)
    options = {
        "mode": mode,
        "padding_mode": "zeros",
        "coords": "pixel",
        "prefilter": False,
        "threads": threads,
    }
    sweep = PlaneSweep(backend, find_reduction(reduce), size, shape, options)
    return sweep, [features[0], maps, depth_array.reshape(planes), *features[1:]]


def features_of(reference: Any, sources: Any) -> list[Array]:
    """Check the features, and convert them to one dtype: the reference and all sources."""
    if isinstance(sources, (list, tuple)):
        named = {f"sources[{v}]": source for v, source in enumerate(sources)}
        backend = backend_of(reference=reference, **named)
        features = list(backend.to_device(reference=reference, **named))
    else:
        backend = backend_of(reference=reference, sources=sources)
        first, rest = backend.to_device(reference=reference, sources=sources)
        if len(rest.shape) != 5:
            raise ValueError(
                "sources must have the shape (N, V, C, h, w), or be a list of arrays "
                f"(N, C, h, w); got the shape {backend.shape(rest)}"
            )
        features = [first, *[rest[:, v] for v in range(rest.shape[1])]]
    shape = backend.shape(features[0])
    if len(shape) != 4:
        raise ValueError(f"reference must have the shape (N, C, H, W), got {shape}")
    if len(features) < 2:
        raise ValueError("sources must have at least one view")
    dtype = features[0].dtype
    for v, feature in enumerate(features):
        name = "reference" if v == 0 else f"sources[{v - 1}]"
        if backend.type_name(feature.dtype, name) not in FLOATS:
            raise TypeError(f"{name} must be floating-point, got dtype {feature.dtype}")
        if len(feature.shape) != 4 or backend.shape(feature)[:2] != shape[:2]:
            raise ValueError(
                f"{name} must have the shape {(*shape[:2], 'h', 'w')}, got {backend.shape(feature)}"
            )
        dtype = backend.promote(dtype, feature.dtype)
    return [backend.astype(feature, dtype) for feature in features]


def relative_maps(
    backend: Backend, matrix: Array, pose: Array, axes: str, items: int, views: int
) -> Array:
    """Compute the maps (V, N or 1, 3, 4) from pixels of the reference to pixels of the sources.

    The point at depth d on the ray of pixel (x, y) is (u, v) = (a / c, b / c) in a source, with
    (a, b, c) = d * map[:, :3] (x, y, 1) + map[:, 3].
    """
    xp = backend.xp
    for name, array, endings in (
        ("intrinsics", matrix, [(3, 3)]),
        ("world_to_camera", pose, [(4, 4), (3, 4)]),
    ):
        shape = backend.shape(array)
        fits = len(shape) in (3, 4) and shape[-2:] in endings and shape[-3] == views + 1
        if not fits or (len(shape) == 4 and shape[0] not in (1, items)):
            raise ValueError(
                f"{name} must have the shape (N, V + 1, {endings[0][0]}, {endings[0][1]}) or "
                f"(V + 1, ...) for N = {items} and V + 1 = {views + 1} cameras, got {shape}"
            )
    # Rounding these few numbers would move all pixels.
    dtype, float64 = matrix.dtype, backend.type("float64")
    rotation, shift = split_pose(backend, backend.astype(pose, float64), axes)
    matrix = backend.astype(matrix, float64)
    if len(rotation.shape) == 3:
        rotation, shift = rotation[None], shift[None]
    lens = matrix[None] if len(matrix.shape) == 3 else matrix
    inverse = xp.linalg.inv(rotation[:, :1])
    rotation = rotation[:, 1:] @ inverse
    shift = shift[:, 1:, :, None] - rotation @ shift[:, :1, :, None]
    rays = lens[:, 1:] @ rotation @ xp.linalg.inv(lens[:, :1])
    maps = backend.concatenate((rays, lens[:, 1:] @ shift), -1)
    return backend.astype(backend.permute(maps, (1, 0, 2, 3)), dtype)


# The sweep ----------------------------------------------------------------------------------------


class Rays(NamedTuple):
    """Where the rays of the reference's pixels run in one source: (a, b, c), see `relative_maps`.

    Attributes:
        slopes: three arrays (N or 1, 1, H, W), the change with depth.
        starts: three arrays (N or 1, 1, 1, 1), at depth 0.
    """

    slopes: list[Array]
    starts: list[Array]


def lines_of(sweep: PlaneSweep, like: Array) -> tuple[Array, Array]:
    """Return the coordinates of the reference's pixels: x (W,), and y (H, 1)."""
    height, width = sweep.shape[-2:]
    x = sweep.backend.line(width, None, like.dtype, like)
    return x, sweep.backend.line(height, None, like.dtype, like)[:, None]


def rays_of(sweep: PlaneSweep, relative_map: Array) -> Rays:
    """Apply one source's map to the reference's pixels."""
    x, y = lines_of(sweep, relative_map)
    rows = relative_map[:, None, None, None]
    slopes = [rows[..., k, 0] * x + rows[..., k, 1] * y + rows[..., k, 2] for k in range(3)]
    return Rays(slopes, [rows[..., k, 3] for k in range(3)])


def coordinates_of(sweep: PlaneSweep, rays: Rays, depths: Array) -> tuple[Array, Array, Array]:
    """Compute u, v and c for some planes, each (N, planes, H, W).

    Behind the camera, and as far from the image as `FAR`, u and v are `FAR`, and c is 1.
    """
    a, b, c = (s * depths + t for s, t in zip(*rays, strict=True))
    xp = sweep.backend.xp
    front = (c > 0) & (xp.abs(a) < -FAR * c) & (xp.abs(b) < -FAR * c)
    c = xp.where(front, c, 1)
    return xp.where(front, a / c, FAR), xp.where(front, b / c, FAR), c


def grid_of(sweep: PlaneSweep, u: Array, v: Array) -> Array:
    """Combine u and v to a grid, in whose memory all u come first."""
    return sweep.backend.permute(sweep.backend.xp.stack((u, v)), (1, 2, 3, 4, 0))


def mask_of(sweep: PlaneSweep, u: Array, v: Array, source: Array) -> Array:
    """Whether positions are between the centres of the outermost pixels: (N, 1, planes, H, W)."""
    height, width = source.shape[-2:]
    inside = (u >= 0) & (u <= width - 1) & (v >= 0) & (v <= height - 1)
    return inside[:, None]


def chunk_of_depths(sweep: PlaneSweep, depths: Array, part: slice) -> Array:
    """Return the depths of some planes, (N, planes, H or 1, W or 1)."""
    chunk = depths[:, part]
    if chunk.shape[0] == sweep.shape[0]:
        return chunk
    return chunk + sweep.backend.full((sweep.shape[0], 1, 1, 1), 0, chunk.dtype, chunk)


def volume(sweep: PlaneSweep, arrays: Sequence[Array], in_place: bool) -> Array:
    """Compute the result of `plane_sweep`; if ``in_place``, parts are written into one array."""
    reference, maps, _, *sources = arrays
    backend, dtype = sweep.backend, reference.dtype
    has_gradient = sweep.reduction.backward is not None
    rays = [rays_of(sweep, maps[v]) for v in range(len(sources))] if has_gradient else None
    result, parts = None, []
    for part in bands_along(sweep.shape, FORWARD, 2):

        def compute(*inputs: Array, part: slice = part) -> Array:
            return planes(sweep, part, inputs, rays, in_place)

        chunk = compute(*arrays) if has_gradient else backend.checkpoint(compute, arrays)
        if not in_place:
            parts.append(chunk)
            continue
        if result is None:
            result = backend.empty((*chunk.shape[:-3], *sweep.shape[2:]), dtype, reference)
        result[..., part, :, :] = chunk
    if result is not None:
        return result
    if parts:
        return backend.concatenate(parts, -3)
    shape = sweep.reduction.shape(sweep.shape, len(sources)) or sweep.shape
    return backend.empty(shape, dtype, reference)


def planes(
    sweep: PlaneSweep, part: slice, arrays: Sequence[Array], rays: list[Rays] | None, in_place: bool
) -> Array:
    """Compute the result of some planes; ``rays`` is None if they have not been computed."""
    reference, maps, depths, *sources = arrays
    backend, sum_dtype = sweep.backend, sum_type(sweep.backend, reference)
    all_rays = rays or [rays_of(sweep, maps[v]) for v in range(len(sources))]
    chunk = chunk_of_depths(sweep, depths, part)

    def views() -> Iterator[View]:
        for ray, source in zip(all_rays, sources, strict=True):
            u, v, _ = coordinates_of(sweep, ray, chunk)
            warped = grid_sample(source, grid_of(sweep, u, v), **sweep.options)
            masked = sweep.reduction.backward is None
            mask = mask_of(sweep, u, v, source) if masked else None
            yield backend.astype(warped, sum_dtype), mask

    centre = backend.astype(reference, sum_dtype)[:, :, None]
    costs = sweep.reduction.forward(backend, centre, views(), in_place)
    return backend.astype(costs, reference.dtype)


def sum_type(backend: Backend, array: Array) -> Any:
    """The dtype of sums over features."""
    return backend.type("float64" if backend.type_name(array.dtype) == "float64" else "float32")


# Gradients ----------------------------------------------------------------------------------------


def gradients(
    sweep: PlaneSweep, upstream: Array, needed: Sequence[bool], arrays: Sequence[Array]
) -> list[Array | None]:
    """Compute the needed gradients of `volume`; they can be differentiated again."""
    reference, maps, depths, *sources = arrays
    backend, sum_dtype = sweep.backend, sum_type(sweep.backend, reference)
    rays = [rays_of(sweep, maps[v]) for v in range(len(sources))]
    centre = backend.astype(reference, sum_dtype)[:, :, None]
    grad_reference = 0 * centre[:, :, 0]
    grad_sources = [0 * backend.astype(source, sum_dtype) for source in sources]
    grad_maps: list[Any] = [0 * maps[v] for v in range(len(sources))]
    depth_parts, coordinates = [], needed[1] or needed[2]
    differentiate = sweep.reduction.backward
    assert differentiate is not None
    for part in bands_along(sweep.shape, BACKWARD, 2):
        chunk = chunk_of_depths(sweep, depths, part)
        coordinates_by_view = [coordinates_of(sweep, ray, chunk) for ray in rays]
        grids = [grid_of(sweep, u, v) for u, v, _ in coordinates_by_view]
        views = (
            (backend.astype(grid_sample(source, grid, **sweep.options), sum_dtype), None)
            for source, grid in zip(sources, grids, strict=True)
        )
        values = backend.astype(upstream[..., part, :, :], sum_dtype)
        grad_centre, grad_views = differentiate(values, centre, views, len(sources))
        grad_reference = grad_reference + grad_centre.sum(-3)
        grad_chunk = 0 * chunk
        for v, (source, grad_view) in enumerate(zip(sources, grad_views, strict=True)):
            first, second = grid_sample_vjp(
                grad_view,
                backend.astype(source, sum_dtype),
                grids[v],
                **sweep.options,
                need_input=needed[3 + v],
                need_grid=coordinates,
            )
            if first is not None:
                grad_sources[v] = grad_sources[v] + first
            if second is not None:
                grad_map, grad_depth = coordinates_vjp(
                    sweep, second, coordinates_by_view[v], rays[v], chunk
                )
                grad_maps[v] = grad_maps[v] + sum_to_shape(grad_map, maps[v].shape)
                grad_chunk = grad_chunk + sum_to_shape(grad_depth, chunk.shape)
        depth_parts.append(sum_to_shape(grad_chunk, (depths.shape[0], *chunk.shape[1:])))
    features = [reference, *sources]
    grad_features = [
        backend.astype(total, feature.dtype)
        for total, feature in zip((grad_reference, *grad_sources), features, strict=True)
    ]
    grad_depths = backend.concatenate(depth_parts, 1) if depth_parts else 0 * depths
    results = [grad_features[0], backend.xp.stack(grad_maps), grad_depths, *grad_features[1:]]
    return [gradient if need else None for gradient, need in zip(results, needed, strict=True)]


def coordinates_vjp(
    sweep: PlaneSweep,
    grad_grid: Array,
    coordinates: tuple[Array, Array, Array],
    rays: Rays,
    depths: Array,
) -> tuple[Array, Array]:
    """Compute the gradients of a map, (N, 3, 4), and of the depths from that of the grid."""
    xp, (u, v, c) = sweep.backend.xp, coordinates
    front = u > FAR
    grad_u = xp.where(front, grad_grid[..., 0], 0) / c
    grad_v = xp.where(front, grad_grid[..., 1], 0) / c
    grad_c = -(grad_u * xp.where(front, u, 0) + grad_v * xp.where(front, v, 0))
    x, y = lines_of(sweep, grad_grid)
    rows, grad_depth = [], 0
    for component, slope in zip((grad_u, grad_v, grad_c), rays.slopes, strict=True):
        grad_depth = grad_depth + component * slope
        scaled = component * depths
        row = [(scaled * x), (scaled * y), scaled, component]
        rows.append(xp.stack([entry.sum((1, 2, 3)) for entry in row], -1))
    return xp.stack(rows, -2), grad_depth


def sum_to_shape(array: Array, shape: Sequence[int]) -> Array:
    """Sum an array over the axes along which an array of another shape was broadcast."""
    for axis, (n, expected) in enumerate(zip(array.shape, shape, strict=True)):
        if expected == 1 and n != 1:
            array = array.sum(axis)[(slice(None),) * axis + (None,)]
    return array
