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

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayLike, ArrayT, Fill
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.keywords import WorldKeywords
from gridsample.definitions.lattice import Lattice
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MissingName
from gridsample.fields.arrays import check_name
from gridsample.fields.paths import (
    BoundedTransform,
    Displacement,
    Path,
    arguments,
    as_arrays,
    path_of,
    position_type,
)
from gridsample.ops.affine import affine_sample, affine_sample_vjp
from gridsample.ops.sampling import grid_sample, grid_sample_vjp

Array = Any

__all__ = [
    "BoundedTransform",
    "Displacement",
    "Lattice",
    "resample",
    "resample_vjp",
    "world_grid",
]

AXES = ("ijk", "xyz")


@overload
def resample(
    image: ArrayT,
    affine: ArrayLike,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = ...,
    mode: Mode = ...,
    padding_mode: Padding = ...,
    *,
    return_weight: Literal[False] = ...,
    **options: Unpack[WorldKeywords],
) -> ArrayT: ...
@overload
def resample(
    image: ArrayT,
    affine: ArrayLike,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = ...,
    mode: Mode = ...,
    padding_mode: Padding = ...,
    *,
    return_weight: bool = ...,
    **options: Unpack[WorldKeywords],
) -> Any: ...
@overridable(arrays=2)
def resample(
    image: ArrayT,
    affine: ArrayLike,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    threads: int | None = None,
) -> Any:
    """Resample an image to the voxels of another one, in the world coordinates of both.

    The output voxel with the indices v shows the image at the voxel coordinates

        inverse(affine) @ transform(like_affine @ v)

    Without fields and functions among the transforms, no grid is stored.  Matrices are multiplied,
    and fields followed, in float64.  Positions are then float64 for float64 and complex128 images
    and for axes of more than 16384 voxels, otherwise float32.  `gridsample.dask.resample` and
    `gridsample.zarr.warp` follow the same rules, and have the same bits, except for splines, which
    differ by rounding.  Where the output's voxels are larger than the image's, voxels are skipped,
    unless antialias=True.

    For torch tensors, the result is a tensor with derivatives of any order with respect to the
    image, the affines and the transforms; see `resample_vjp` for NumPy arrays.

    Args:
        image: (*spatial), (C, *spatial) or (N, C, *spatial) with D = 1 to 3 spatial axes, of any
            dtype that `grid_sample` accepts.
        affine: (D + 1, D + 1) or (N, D + 1, D + 1), from voxels of the image to millimetres: an
            array or a tensor as the image is, or a list of numbers.
        like: (shape, affine): the spatial shape of the output, and the affine of its voxels; or a
            `Lattice` with them.
        transform: from millimetres of the output's world to those of the image's.  None for the
            identity, or one of these, or a list of them, of which the *first* is applied first:

            * a matrix, (D + 1, D + 1) or (N, D + 1, D + 1),
            * a `gridsample.world.Displacement`, a field with an affine of its own,
            * a function of points (N, *shape, D), in the dtype of positions, that returns points of
              the same shape, such as a `gridsample.world.BoundedTransform`.

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
    if call.path.steps:
        result = grid_sample(call.image, call.path.positions(threads=threads), **options)
    else:
        result = affine_sample(call.image, call.path.theta(), call.size, **options)
    if return_weight:
        return call.restored(result[0], image), call.restored(result[1], image)
    return call.restored(result, image)


@overridable(arrays=3)
def resample_vjp(
    grad_output: ArrayT,
    image: ArrayT,
    affine: ArrayLike,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
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
    if call.path.steps:
        grid = call.path.positions(threads=threads)
        gradients = grid_sample_vjp(*arrays, grid, **options, need_grid=False)
    else:
        theta = call.path.theta()
        gradients = affine_sample_vjp(*arrays, theta, call.size, **options, need_theta=False)
    if weights is None:
        return call.restored(gradients[0], image)
    return call.restored(gradients[0], image), call.restored(gradients[2], weights)


@overridable(arrays=1)
def world_grid(
    affine: ArrayLike,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = None,
    *,
    axes: str = "ijk",
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
    path = path_of(backend, arrays, like, transform, order, dtype)
    return backend.restore(path.positions(), first_array(named))


# Arguments ----------------------------------------------------------------------------------------


def to_edges(extrapolate: Any) -> Any:
    """Return the argument with "edges" in place of False, which means the centres in pixels."""
    if isinstance(extrapolate, (tuple, list)):
        return tuple([to_edges(end) for end in extrapolate])
    return "edges" if isinstance(extrapolate, (bool, np.bool_)) and not extrapolate else extrapolate


class PreparedResampling(NamedTuple):
    """The arguments of a resampling, as sampling takes them.

    Attributes:
        image: (N, C, *spatial).
        path: from voxels of the output to those of the image.
        size: the shape of the output, (N, C, *shape).
        lead: how many of the axes N and C the caller's image has.
        others: arrays with as many axes as the image, with N and C in front.
        backend: the backend of all arrays.
    """

    image: Array
    path: Path
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
    image: Any, affine: Any, like: Any, transform: Any, axes: Any, others: dict[str, Any]
) -> PreparedResampling:
    """Check the arguments of a resampling."""
    order = check_name(axes, AXES, "axes")
    named = {"image": image, **{k: value for k, value in others.items() if value is not None}}
    backend, arrays = as_arrays({**named, **arguments(affine, like, transform)})
    pixels = arrays.pop("image")
    optional = {k: arrays.pop(k, None) for k in others}
    path = path_of(backend, arrays, like, transform, order, backend.type("float64"))
    rank, shape = len(path.out), backend.shape(pixels)
    lead = len(shape) - rank
    if lead not in (0, 1, 2):
        raise ValueError(
            f"image must be (*spatial), (C, *spatial) or (N, C, *spatial) with the {rank} spatial "
            f"axes of affine, {rank + 1} x {rank + 1}; got shape {shape}"
        )
    if lead < 2 and path.items > 1:
        raise ValueError(
            f"image must be (N, C, *spatial) for a batch of {path.items} affines or transforms, "
            f"got shape {shape}"
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
    type_name = position_type(backend.type_name(pixels.dtype, "image"), shape[lead:], path.out)
    path = replace(path, dtype=backend.type(type_name))
    pixels = pixels.reshape(*singletons, *pixels.shape)
    return PreparedResampling(pixels, path, (path.items, 1, *path.out), lead, expanded, backend)


def first_array(named: dict[str, Any]) -> Any:
    """The first argument that is no list, whose library and device a result has."""
    return next((value for value in named.values() if not isinstance(value, (list, tuple))), None)
