"""World coordinates: volumes and pictures whose voxels have positions in millimetres.

An affine is a (D + 1, D + 1) matrix that maps the indices of a voxel to its position in the
world.  Transforms are in millimetres, too.  They map points of the *output's* world to points of
the *image's* world: an output voxel shows the image at its transformed position.  This is ITK's
convention.

All affines and transforms of a call must refer to the same axes of the world.  NIfTI files and
nibabel count millimetres to the right, anterior and superior (RAS), ITK and DICOM to the left,
posterior and superior (LPS).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend, backend_of, overridable
from gridsample.backends.maps import grid_along
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.methods import Mode
from gridsample.fields.arrays import check_name, check_size, components
from gridsample.fields.conversions import check_affine, homogeneous, inverse
from gridsample.ops.affine import affine_sample, affine_sample_vjp
from gridsample.ops.sampling import grid_sample, grid_sample_vjp

Array = Any

__all__ = ["Displacement", "resample", "resample_vjp", "world_grid"]

AXES = ("ijk", "xyz")


class Displacement(NamedTuple):
    """A displacement field as a transform: it moves the point p of the world to p + u(p).

    Between voxels, displacements are interpolated linearly.  Beyond the outer edges of the field's
    voxels, there is no displacement.

    Attributes:
        vectors: (*spatial, D), or (N, *spatial, D): millimetres along the axes of the world, in the
            order of the affine's rows.
        affine: (D + 1, D + 1), or (N, D + 1, D + 1): from voxels of the field to the world.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.world import Displacement
        >>> here = np.eye(2)  # a voxel every mm, from 0 mm
        >>> shift = Displacement(np.full((4, 1), 1.0), here)  # 1 mm further
        >>> gridsample.resample(np.array([0.0, 10.0, 20.0]), here, ((2,), here), shift)
        array([10., 20.])
    """

    vectors: Any
    affine: Any


@overridable(arrays=2)
def resample(
    image: Any,
    affine: Any,
    like: tuple[Sequence[int], Any],
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: str = ATTACH,
    missing: str = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    threads: int | None = None,
) -> Any:
    """Resample an image to the voxels of another one, in the world coordinates of both.

    The output voxel with the indices v shows the image at the voxel coordinates

        inverse(affine) @ transform(like_affine @ v)

    Without fields and functions among the transforms, no grid is stored.  Matrices are multiplied
    in float64.  Positions are then computed in float64 for float64 and complex128 images, otherwise
    in float32.  Where the output's voxels are larger than the image's, voxels are skipped, unless
    antialias=True.

    For torch tensors, the result is a tensor with derivatives of any order with respect to the
    image, the affines and the transforms; see `resample_vjp` for NumPy arrays.

    Args:
        image: (*spatial), (C, *spatial) or (N, C, *spatial) with D = 1 to 3 spatial axes, of any
            dtype that `grid_sample` accepts.
        affine: (D + 1, D + 1) or (N, D + 1, D + 1), from voxels of the image to millimetres: an
            array or a tensor as the image is, or a list of numbers.
        like: (shape, affine): the spatial shape of the output, and the affine of its voxels.
        transform: from millimetres of the output's world to those of the image's.  None for the
            identity, or one of these, or a list of them, of which the *first* is applied first:

            * a matrix, (D + 1, D + 1) or (N, D + 1, D + 1),
            * a `gridsample.world.Displacement`, a field with an affine of its own,
            * a function of points (N, *shape, D) that returns points of the same shape.

        mode: the interpolation method, as in `grid_sample`; "label" for segmentations.  Several are
            in x, y, z order, and x is the last axis of the array.
        axes: the order of voxel indices, which is that of the affines' columns.  "ijk": the order
            of the array's axes, as in nibabel, MONAI and TorchIO.  "xyz": x, y, z with x along the
            *last* axis, as in the arrays of SimpleITK and in the rest of this package.
        extrapolate: whether to extend the image, as in `grid_sample`; False gives the fill value
            beyond the outer edges of the outermost voxels ("edges").  With padding_mode="border",
            these are ITK's results.  "centers" gives it beyond their centres.
        antialias: whether a result is the mean over all that its voxel covers, as in `grid_sample`.
        weights: weights of voxels, as in `grid_sample`, with as many axes as the image.
        padding_mode, fill_value, prefilter, max_samples, footprint, missing, min_weight,
            return_weight, threads: as in `grid_sample`.

    Returns:
        The image with other spatial axes, in its dtype: (*shape), (C, *shape) or (N, C, *shape).
        With return_weight=True, a tuple of that and the weight, of the same shape.

    Raises:
        TypeError: an argument does not hold real numbers, is not from the image's library, or
            is not accepted by `grid_sample`.
        ValueError: the shapes do not match, a matrix is not affine or singular, or a name is
            unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([0.0, 10.0, 20.0])  # a voxel every 2 mm, from 0 mm
        >>> affine = [[2.0, 0.0], [0.0, 1.0]]
        >>> each_mm = (4,), [[1.0, 1.0], [0.0, 1.0]]  # a voxel every mm, from 1 mm
        >>> gridsample.resample(image, affine, each_mm)
        array([ 5., 10., 15., 20.])
        >>> gridsample.resample(image, affine, each_mm, transform=[[1.0, -1.0], [0.0, 1.0]])
        array([ 0.,  5., 10., 15.])
    """
    call = prepare(image, affine, like, transform, axes, {"weights": weights})
    options = {
        "mode": mode,
        "padding_mode": padding_mode,
        "coords": "pixel",
        "fill_value": fill_value,
        "extrapolate": to_edges(extrapolate),
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "footprint": footprint,
        "missing": missing,
        "weights": call.others["weights"],
        "min_weight": min_weight,
        "return_weight": return_weight,
        "threads": threads,
    }
    if call.grid is None:
        result = affine_sample(call.image, call.theta, call.size, **options)
    else:
        result = grid_sample(call.image, call.grid, **options)
    if return_weight:
        return call.restored(result[0], image), call.restored(result[1], image)
    return call.restored(result, image)


@overridable(arrays=3)
def resample_vjp(
    grad_output: Any,
    image: Any,
    affine: Any,
    like: tuple[Sequence[int], Any],
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: str = ATTACH,
    missing: str = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    threads: int | None = None,
) -> Any:
    """Compute the gradient of `resample` with respect to the image: the exact transpose.

    Args:
        grad_output: the upstream gradient, of the shape of the result.
        image: as in `resample`; floating-point or complex.
        affine: as in `resample`.
        like, transform, mode, padding_mode, axes, fill_value, extrapolate, prefilter, antialias,
            max_samples, footprint, missing, weights, min_weight, threads: as in `resample`.

    Returns:
        grad_image, of the image's shape and dtype.  If weights are given, (grad_image,
        grad_weights).

    Raises:
        TypeError: an argument is not accepted by `resample`, or the image has no gradient.
        ValueError: an argument is not accepted by `resample`, or grad_output has the wrong shape.

    Example:
        >>> import numpy as np, gridsample
        >>> affine, each_mm = [[2.0, 0.0], [0.0, 1.0]], ((4,), [[1.0, 1.0], [0.0, 1.0]])
        >>> gridsample.resample_vjp(np.ones(4), np.zeros(3), affine, each_mm)
        array([0.5, 2. , 1.5])
    """
    others = {"grad_output": grad_output, "weights": weights}
    call = prepare(image, affine, like, transform, axes, others)
    options = {
        "mode": mode,
        "padding_mode": padding_mode,
        "coords": "pixel",
        "fill_value": fill_value,
        "extrapolate": to_edges(extrapolate),
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "footprint": footprint,
        "missing": missing,
        "weights": call.others["weights"],
        "min_weight": min_weight,
        "threads": threads,
    }
    arrays = call.others["grad_output"], call.image
    if call.grid is None:
        gradients = affine_sample_vjp(*arrays, call.theta, call.size, **options, need_theta=False)
    else:
        gradients = grid_sample_vjp(*arrays, call.grid, **options, need_grid=False)
    if weights is None:
        return call.restored(gradients[0], image)
    return call.restored(gradients[0], image), call.restored(gradients[2], weights)


@overridable(arrays=1)
def world_grid(
    affine: Any, like: tuple[Sequence[int], Any], transform: Any = None, *, axes: str = "ijk"
) -> Any:
    """Make the grid at which `resample` samples.

    Args:
        affine: as in `resample`.
        like, transform, axes: as in `resample`.

    Returns:
        (N, *shape, D): positions in voxels of the image for ``grid_sample(image, grid,
        coords="pixel")``, and therefore in x, y, z order, whatever ``axes`` is: x is along the
        last axis of the image.  N is 1 without batches.  The dtype is float32 if all arrays are
        float32 or narrower, and float64 otherwise and for lists.

    Raises:
        TypeError: an argument does not hold real numbers, or the arrays are from several libraries.
        ValueError: as in `resample`.

    Example:
        >>> import numpy as np
        >>> from gridsample.world import world_grid
        >>> coarse, fine = [[2.0, 0, 0], [0, 1, 0], [0, 0, 1]], np.eye(3)
        >>> world_grid(coarse, ((4, 1), fine))[0, :, 0].tolist()  # (x, y): i is along y
        [[0.0, 0.0], [0.0, 0.5], [0.0, 1.0], [0.0, 1.5]]
    """
    named, order = arguments(affine, like, transform), check_name(axes, AXES, "axes")
    backend, arrays = as_arrays(named)
    type_names = [backend.type_name(array.dtype) for array in arrays.values()]
    is_single = all(name in ("float16", "bfloat16", "float32") for name in type_names)
    dtype = backend.type("float32" if is_single else "float64")
    path = path_of(backend, arrays, like, transform, order)
    theta, grid = follow_path(path, dtype)
    if grid is None:
        grid = grid_along(backend, backend.astype(theta, dtype), path.out, None)
    return backend.restore(grid, first_array(named))


# Arguments ----------------------------------------------------------------------------------------


def to_edges(extrapolate: Any) -> Any:
    """Return the argument with "edges" in place of False, which means the centres in pixels."""
    return "edges" if isinstance(extrapolate, (bool, np.bool_)) and not extrapolate else extrapolate


class Prepared(NamedTuple):
    """The arguments of a resampling, as sampling takes them.

    Attributes:
        image: (N, C, *spatial).
        theta: maps from output voxels to image voxels, in x, y, z order; None if there is a grid.
        grid: positions in voxels of the image; None if there are maps.
        size: the shape of the output, (N, C, *shape).
        lead: how many of the axes N and C the caller's image has.
        others: arrays with as many axes as the image, with N and C in front.
        backend: the backend of all arrays.
    """

    image: Array
    theta: Array | None
    grid: Array | None
    size: tuple[int, ...]
    lead: int
    others: dict[str, Array | None]
    backend: Backend

    def restored(self, result: Array | None, like: Any) -> Any:
        """Remove the axes that the caller's image does not have."""
        if result is not None:
            result = result.reshape(result.shape[2 - self.lead :])
        return self.backend.restore(result, like)


def prepare(
    image: Any,
    affine: Any,
    like: Any,
    transform: Any,
    axes: Any,
    others: dict[str, Any],
    follow: Callable[[VoxelPath, Any], tuple[Array | None, Any]] | None = None,
) -> Prepared:
    """Check the arguments of a resampling, and compute where to sample, by ``follow``."""
    order = check_name(axes, AXES, "axes")
    named = {"image": image, **{k: value for k, value in others.items() if value is not None}}
    backend, arrays = as_arrays({**named, **arguments(affine, like, transform)})
    pixels = arrays.pop("image")
    optional = {k: arrays.pop(k, None) for k in others}
    path = path_of(backend, arrays, like, transform, order)
    rank, shape = len(path.out), backend.shape(pixels)
    lead = len(shape) - rank
    if lead not in (0, 1, 2):
        raise ValueError(
            f"image must be (*spatial), (C, *spatial) or (N, C, *spatial) with the {rank} spatial "
            f"axes of affine, {rank + 1} x {rank + 1}; got shape {shape}"
        )
    is_double = backend.type_name(pixels.dtype, "image") in ("float64", "complex128")
    theta, grid = (follow or follow_path)(path, backend.type("float64" if is_double else "float32"))
    items = backend.shape(grid if theta is None else theta)[0]
    if lead < 2 and items > 1:
        raise ValueError(
            f"image must be (N, C, *spatial) for a batch of {items} affines or transforms, got "
            f"shape {shape}"
        )
    for name, array in optional.items():
        if array is not None and len(array.shape) != len(shape):
            raise ValueError(
                f"{name} must have as many axes as the image, {len(shape)}, got shape "
                f"{backend.shape(array)}"
            )
    singletons = (1,) * (2 - lead)
    expanded = {
        k: None if array is None else array.reshape(*singletons, *array.shape)
        for k, array in optional.items()
    }
    pixels = pixels.reshape(*singletons, *pixels.shape)
    if theta is not None and grid is None:
        theta = backend.astype(theta, backend.type("float64" if is_double else "float32"))
    return Prepared(pixels, theta, grid, (items, 1, *path.out), lead, expanded, backend)


def arguments(affine: Any, like: Any, transform: Any) -> dict[str, Any]:
    """Name the arrays, and the lists of numbers, among affines and transforms."""
    try:
        _, target = like
        if isinstance(target, int):  # a shape alone
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(
            "like must be (shape, affine): the spatial shape of the output, and the affine of its "
            f"voxels; got {type(like).__name__}"
        ) from None
    named = {"affine": affine, "like[1]": target}
    for name, step in named_steps(transform):
        if isinstance(step, Displacement):
            named[f"{name}.vectors"], named[f"{name}.affine"] = step
        elif not callable(step):
            named[name] = step
    return named


def named_steps(transform: Any) -> list[tuple[str, Any]]:
    """The transforms with names for errors, in the order in which they are applied."""
    if transform is None:
        return []
    is_sequence = isinstance(transform, (list, tuple)) and not isinstance(transform, Displacement)
    if is_sequence and (not transform or not is_row(transform[0])):
        return [(f"transform[{k}]", step) for k, step in enumerate(transform)]
    return [("transform", transform)]


def is_row(value: Any) -> bool:
    """Whether an entry of a list is a row of a matrix, and no transform."""
    if isinstance(value, (list, tuple)) and not isinstance(value, Displacement):
        return bool(value) and isinstance(value[0], (int, float))
    return getattr(value, "ndim", 2) == 1


def as_arrays(named: dict[str, Any]) -> tuple[Backend, dict[str, Array]]:
    """Convert arguments to arrays of one library; lists become float64 arrays on their device."""
    lists = {k: value for k, value in named.items() if isinstance(value, (list, tuple))}
    single = {k: value for k, value in named.items() if k not in lists}
    backend = backend_of(**single)
    converted = backend.to_device(**single) if single else []
    arrays = dict(zip(single, converted, strict=True))
    device = next(iter(arrays.values()), None)
    for name, value in lists.items():
        try:
            numbers = np.array(value, np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be a matrix of real numbers, got {value!r}") from None
        arrays[name] = numbers if device is None else backend.asarray(numbers, device)
    return backend, arrays


def first_array(named: dict[str, Any]) -> Any:
    """The first argument that is no list, whose library and device a result has."""
    return next((value for value in named.values() if not isinstance(value, (list, tuple))), None)


# From the output to the image ---------------------------------------------------------------------


class Field(NamedTuple):
    """A displacement field among the steps of a path.

    Attributes:
        vectors: (N, *spatial, D).
        voxels: (N, D + 1, D + 1), from the world to voxels of the field, in x, y, z order.
        name: how errors name it.
    """

    vectors: Array
    voxels: Array
    name: str


class VoxelPath(NamedTuple):
    """The steps from output voxels to image voxels.

    Attributes:
        backend: the backend of all arrays.
        out: the spatial shape of the output.
        steps: matrices (N, D + 1, D + 1) in float64, fields and functions, in order.  The first
            maps output voxels to the world, the last maps the world to voxels of the image.
    """

    backend: Backend
    out: tuple[int, ...]
    steps: list[Any]

    def split(self) -> tuple[Array, list[Any]]:
        """Multiply the matrices before any field or function: maps (N, D, D + 1), other steps."""
        product, *steps = self.steps
        while steps and not isinstance(steps[0], Field) and not callable(steps[0]):
            product = steps.pop(0) @ product
        return product[:, :-1], steps


def path_of(
    backend: Backend, arrays: dict[str, Array], like: Any, transform: Any, axes: str
) -> VoxelPath:
    """Check affines and transforms, and list the steps from the output to the image."""
    shape = backend.shape(arrays["affine"])
    rank = shape[-1] - 1 if len(shape) in (2, 3) and 2 <= shape[-1] <= 4 else 0
    out = check_size(like[0], rank or None, "like[0]")

    def matrix(name: str) -> Array:
        return matrix_of(backend, arrays[name], rank, name)

    def voxels(name: str) -> Array:
        """Map voxels in x, y, z order to the world."""
        order = [*range(rank - 1, -1, -1), rank] if axes == "ijk" else [*range(rank + 1)]
        return matrix(name)[:, :, order]

    source = inverse(backend, voxels("affine"), "affine")
    steps: list[Any] = [voxels("like[1]")]
    for name, step in named_steps(transform):
        if isinstance(step, Displacement):
            vectors = vectors_of(backend, arrays[f"{name}.vectors"], rank, name)
            field_voxels = inverse(backend, voxels(f"{name}.affine"), f"{name}.affine")
            steps.append(Field(vectors, field_voxels, name))
        else:
            steps.append(step if callable(step) else matrix(name))
    return VoxelPath(backend, out, [*steps, source])


def matrix_of(backend: Backend, array: Array, rank: int, name: str) -> Array:
    """Return affine matrices as (N, D + 1, D + 1) in float64, or raise an error."""
    check_real(backend, array, name)
    square = homogeneous(backend, backend.astype(array, backend.type("float64")), rank, name)
    if not backend.shape(square)[0]:
        raise ValueError(f"{name} is an empty batch of matrices: shape {backend.shape(array)}")
    if backend.is_host and not np.isfinite(np.asarray(square)).all():
        raise ValueError(f"{name} must hold finite numbers, got NaN or infinity")
    check_affine(backend, square, name)
    return square


def vectors_of(backend: Backend, array: Array, rank: int, name: str) -> Array:
    """Return the vectors of a field as (N, *spatial, D), or raise an error."""
    check_real(backend, array, f"{name}.vectors")
    shape = backend.shape(array)
    if len(shape) not in (rank + 1, rank + 2) or shape[-1] != rank or 0 in shape:
        raise ValueError(
            f"{name}.vectors must be (*spatial, {rank}) or (N, *spatial, {rank}) with {rank} "
            f"spatial axes, got shape {shape}"
        )
    return array if len(shape) == rank + 2 else array.reshape(1, *array.shape)


def check_real(backend: Backend, array: Array, name: str) -> None:
    """Raise an error unless an array holds real numbers."""
    dtype_name = backend.type_name(array.dtype, name)
    if dtype_name not in GRID_TYPES and not dtype_name.startswith(("int", "uint")):
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")


def follow_path(path: VoxelPath, dtype: Any) -> tuple[Array | None, Array | None]:
    """Return affine maps (N, D, D + 1) of output voxels, or else the positions of all of them."""
    maps, steps = path.split()
    if not steps:
        return maps, None
    backend = path.backend
    return None, apply_steps(
        backend, steps, grid_along(backend, backend.astype(maps, dtype), path.out, None)
    )


def apply_steps(backend: Backend, steps: Sequence[Any], points: Array) -> Array:
    """Apply steps of a path to points (N, *out, D)."""
    for step in steps:
        if isinstance(step, Field):
            points = points + displacements_at(backend, step, points)
        elif callable(step):
            points = call_transform(backend, step, points)
        else:
            points = apply_matrices(backend, step, points)
    return points


def apply_matrices(backend: Backend, matrix: Array, points: Array) -> Array:
    """Apply matrices (N, D + 1, D + 1) to points (N, *out, D)."""
    rank, shape = backend.shape(matrix)[-1] - 1, points.shape
    converted = backend.astype(matrix, points.dtype)
    flat = points.reshape(shape[0], -1, rank) @ backend.xp.swapaxes(
        converted[:, :rank, :rank], -1, -2
    )
    mapped = flat + converted[:, None, :rank, rank]
    return mapped.reshape(mapped.shape[0], *shape[1:])


def displacements_at(backend: Backend, field: Field, points: Array) -> Array:
    """Interpolate the displacements of a field at points of the world."""
    spatial = backend.shape(field.vectors)[1:-1]
    vectors = backend.astype(field.vectors, points.dtype)
    positions = apply_matrices(backend, field.voxels, points)
    vectors = grid_sample(vectors, positions, "bilinear", "border", coords="pixel", channel_axis=-1)
    inside = positions[..., :1] >= -0.5
    for component, n in zip(components(positions, len(spatial)), reversed(spatial), strict=True):
        inside = inside & (component >= -0.5)[..., None] & (component <= n - 0.5)[..., None]
    return backend.xp.where(inside, vectors, 0)


def call_transform(backend: Backend, function: Callable[[Array], Array], points: Array) -> Array:
    """Apply the caller's function to points."""
    returned = function(points)
    (result,) = backend.asarrays(transform=returned)
    check_real(backend, result, "the result of transform, a function,")
    if backend.shape(result) != backend.shape(points):
        raise ValueError(
            f"transform, a function, must return points of the shape {backend.shape(points)} that "
            f"it is given, got {backend.shape(result)}"
        )
    return backend.astype(result, points.dtype)
