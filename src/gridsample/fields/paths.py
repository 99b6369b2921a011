"""Paths: from voxels of a lattice, through matrices, fields and functions, to those of an image.

All resampling in the world follows a `Path`: in memory, in chunks or into a store.  The position of
each voxel is computed on its own, so that its bits do not depend on the block that it is in.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.lattice import Lattice
from gridsample.definitions.shapes import Shape, bands_along
from gridsample.fields.arrays import check_size, components
from gridsample.fields.conversions import check_affine, homogeneous, inverse
from gridsample.ops.sampling import grid_sample

Array = Any
Block = tuple[slice, ...]

# Positions are stored in single precision on axes of up to this many pixels: within them, rounding
# moves a position by at most a thousandth of a pixel.
MAX_SINGLE_PIXELS = 1 << 14
# The points of a band of rows: their positions, and the arrays these are computed from, fit into a
# core's cache.
BAND_POINTS = 1 << 15


# Transforms ---------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class BoundedTransform:
    """A function as a transform, with its bounds, which resampling in chunks of Dask needs.

    Attributes:
        function: takes points of the world (N, *shape, D), and returns points of this shape.
        bounds: takes the least and the greatest coordinates (D,) of some points, and returns the
            bounds of the points to which the function maps them, or wider ones.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.world import BoundedTransform
        >>> mirrored = BoundedTransform(lambda p: 2 - p, lambda low, high: (2 - high, 2 - low))
        >>> here = np.eye(2)
        >>> gridsample.resample(np.array([0.0, 10.0, 20.0]), here, ((3,), here), mirrored)
        array([20., 10.,  0.])
    """

    function: Callable[[Array], Array]
    bounds: Callable[[Array, Array], tuple[Any, Any]]

    def __call__(self, points: Array) -> Array:
        """Apply the function."""
        return self.function(points)


# Arguments ----------------------------------------------------------------------------------------


def arguments(affine: Any, like: Any, transform: Any) -> dict[str, Any]:
    """Name the arrays, and the lists of numbers, among affines and transforms."""
    named = {"affine": affine, "like[1]": Lattice.of(like).affine}
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
        return bool(value) and isinstance(value[0], (int, float, np.number))
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


# Paths --------------------------------------------------------------------------------------------


class PathField(NamedTuple):
    """A displacement field among the steps of a path.

    Attributes:
        vectors: (N, D, *spatial), in float64.
        voxels: (N, D + 1, D + 1), from the world to voxels of the field, in x, y, z order.
    """

    vectors: Array
    voxels: Array


@dataclass(frozen=True, eq=False)
class Path:
    """Where the voxels of a lattice are in an image.

    All steps are computed in float64, except for functions, which get and return points in the
    dtype of positions.

    Attributes:
        out: the shape of the lattice.
        maps: (N, D, D + 1) in float64, from voxels of the lattice, in x, y, z order: to voxels of
            the image if there are no steps, otherwise to the world.
        steps: matrices (N, D + 1, D + 1), fields and functions; the last one is a matrix, to voxels
            of the image.
        dtype: the dtype of positions, and of maps that are sampled; see `position_type`.
    """

    out: Shape
    maps: Array
    steps: tuple[Any, ...]
    dtype: Any

    @property
    def backend(self) -> Backend:
        """The backend of all arrays."""
        return backend_of(maps=self.maps)

    @property
    def items(self) -> int:
        """The number of batch items of positions."""
        return max(batches(self.backend, [self.maps, *self.steps]))

    @property
    def functions(self) -> list[Callable[[Array], Array]]:
        """The functions among the steps."""
        return [step for step in self.steps if callable(step)]

    def theta(self) -> Array:
        """Return the maps of a path without steps, as they are sampled."""
        return self.backend.astype(self.maps, self.dtype)

    def positions(self, block: Block | None = None, threads: int | None = None) -> Array:
        """Return the positions of voxels in the image.

        Args:
            block: slices of the lattice's axes; None for all of it.
            threads: the maximum number of threads.

        Returns:
            (N, *block, D), in x, y, z order.
        """
        whole = tuple(slice(0, n) for n in self.out)
        # Derivatives are those of whole arrays, and a function gets all points at once.
        if block is not None or not self.backend.is_host or self.functions:
            return self.positions_of(block or whole, threads)
        grid = np.empty((self.items, *self.out, len(self.out)), self.dtype)
        for rows in bands_along(self.out, BAND_POINTS):
            grid[:, rows] = self.positions_of((rows, *whole[1:]), threads)
        return grid

    def positions_of(self, block: Block, threads: int | None) -> Array:
        """Return the positions of a block's voxels, computed at once."""
        backend = self.backend
        points = self.first_points(block)
        for step in self.steps:
            if isinstance(step, PathField):
                points = displaced(backend, step, points, threads)
            elif callable(step):
                grid = joined(backend, points, self.dtype)
                points = components(call_transform(backend, step, grid), len(points))
            else:
                points = mapped(backend, step, points)
        return joined(backend, points, self.dtype)

    def first_points(self, block: Block) -> list[Array]:
        """Apply the maps to the indices of voxels; the slowest axis comes first."""
        backend, rank, maps = self.backend, len(self.out), self.maps
        rows = maps.reshape(maps.shape[0], *(1,) * rank, rank, rank + 1)
        points = [rows[..., k, rank] for k in range(rank)]
        for a, part in enumerate(block):
            indices = backend.line(self.out[a], None, maps.dtype, maps)[part]
            indices = indices.reshape(-1, *(1,) * (rank - 1 - a))
            points = [x + rows[..., k, rank - 1 - a] * indices for k, x in enumerate(points)]
        return points

    def bounds(self, first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        """Bound the positions of voxels between two indices; all are x first.

        The path must consist of NumPy arrays without batches, and its functions must have bounds,
        which may be infinite.  Positions that are NaN do not count.
        """
        low, high = self.bounds_under(self.maps[0], *np.array([first, last], np.float64))
        for step in self.steps:
            if isinstance(step, PathField):
                lowest, highest = extremes(step, *self.bounds_under(step.voxels[0, :-1], low, high))
                low, high = self.widened(low + lowest, high + highest)
            elif callable(step):
                low, high = self.widened(*stated_bounds(step, low, high))
            else:
                low, high = self.bounds_under(step[0, :-1], low, high)
        return low, high

    def bounds_under(self, matrix: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Bound the points that a matrix (D, D + 1) maps a box to, given two of its corners."""
        factors = matrix[:, :-1]
        terms = np.zeros((2, *factors.shape))  # 0 times infinity counts as 0
        for k, end in enumerate((low, high)):
            np.multiply(factors, end, out=terms[k], where=factors != 0)
        size = np.abs(terms).max(0).sum(-1) + np.abs(matrix[:, -1])
        lowest, highest = terms.min(0).sum(-1), terms.max(0).sum(-1)
        return self.widened(lowest + matrix[:, -1], highest + matrix[:, -1], size)

    def widened(self, low: Array, high: Array, size: Any = 0.0) -> tuple[Array, Array]:
        """Extend bounds by the rounding of numbers of a size; an infinite size gives no bounds."""
        size = np.maximum(size, np.maximum(np.abs(low), np.abs(high)))
        error = 16 * np.finfo(self.dtype).eps * size
        is_finite = np.isfinite(size)
        return np.where(is_finite, low - error, -np.inf), np.where(is_finite, high + error, np.inf)

    def description(self) -> list[Any]:
        """Describe the path as JSON; functions cannot be compared, so each counts as a new one."""
        described: list[Any] = [self.maps.tolist(), np.dtype(self.dtype).name]
        for step in self.steps:
            if isinstance(step, PathField):
                digest = hashlib.sha256(np.ascontiguousarray(step.vectors).tobytes()).hexdigest()
                described.append([list(step.vectors.shape), digest, step.voxels.tolist()])
            else:
                described.append(uuid.uuid4().hex if callable(step) else step.tolist())
        return described


def position_type(image: str, *shapes: Sequence[int]) -> str:
    """The dtype in which the positions of an image and a lattice are stored and sampled.

    Args:
        image: the name of the image's dtype.
        shapes: the spatial shapes of both.

    >>> position_type("float32", (4, 5), (99,)), position_type("uint8", (4, 50_000))
    ('float32', 'float64')
    """
    is_long = any(n > MAX_SINGLE_PIXELS for shape in shapes for n in shape)
    return "float64" if is_long or image in ("float64", "complex128") else "float32"


def path_of(
    backend: Backend, arrays: dict[str, Array], like: Any, transform: Any, axes: str, dtype: Any
) -> Path:
    """Check affines and transforms, and make the path from the output to the image.

    Args:
        backend: the backend of all arrays.
        arrays: those that `arguments` names.
        like, transform: the arguments of `gridsample.resample`.
        axes: "ijk" or "xyz", the order of voxel indices.
        dtype: the dtype of positions.
    """
    shape = backend.shape(arrays["affine"])
    rank = shape[-1] - 1 if len(shape) in (2, 3) and 2 <= shape[-1] <= 4 else 0
    out = check_size(Lattice.of(like).shape, rank or None, "like[0]")

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
            steps.append(PathField(vectors, field_voxels))
        else:
            steps.append(step if callable(step) else matrix(name))
    check_batches(backend, [*steps, source])
    merged = merged_matrices([*steps, source])
    return Path(out, merged[0][:, :-1], tuple(merged[1:]), dtype)


def path_between(
    affine: Any, like: Any, transform: Any, axes: str = "ijk", dtype: str = "float64"
) -> Path:
    """Return the path for affines and transforms of NumPy arrays; see `path_of`."""
    backend, arrays = as_arrays(arguments(affine, like, transform))
    return path_of(backend, arrays, like, transform, axes, backend.type(dtype))


def batches(backend: Backend, steps: Sequence[Any]) -> set[int]:
    """Return the numbers of batch items of matrices and fields."""
    arrays: list[Array] = []
    for step in steps:
        if not callable(step):
            arrays += [*step] if isinstance(step, PathField) else [step]
    return {backend.shape(array)[0] for array in arrays}


def check_batches(backend: Backend, steps: Sequence[Any]) -> None:
    """Raise an error if batches have several lengths other than 1."""
    if len(lengths := batches(backend, steps) - {1}) > 1:
        raise ValueError(
            "affines and transforms must be batches of the same length, or single ones, got "
            f"{' and '.join(map(str, sorted(lengths)))}"
        )


def merged_matrices(steps: Sequence[Any]) -> list[Any]:
    """Multiply matrices that follow each other."""
    merged: list[Any] = []
    for step in steps:
        if merged and is_matrix(step) and is_matrix(merged[-1]):
            merged[-1] = step @ merged[-1]
        else:
            merged.append(step)
    return merged


def is_matrix(step: Any) -> bool:
    """Whether a step is a matrix, neither a field nor a function."""
    return not isinstance(step, PathField) and not callable(step)


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
    """Return the vectors of a field as (N, D, *spatial) in float64, or raise an error."""
    check_real(backend, array, f"{name}.vectors")
    shape = backend.shape(array)
    if len(shape) not in (rank + 1, rank + 2) or shape[-1] != rank or 0 in shape:
        raise ValueError(
            f"{name}.vectors must be (*spatial, {rank}) or (N, *spatial, {rank}) with {rank} "
            f"spatial axes, got shape {shape}"
        )
    batch = array if len(shape) == rank + 2 else array.reshape(1, *array.shape)
    first = backend.permute(batch, [0, rank + 1, *range(1, rank + 1)])
    first = backend.astype(first, backend.type("float64"))
    # With channels first, the bits of a point do not depend on the points beside it.
    return np.ascontiguousarray(first) if backend.is_host else first


def check_real(backend: Backend, array: Array, name: str) -> None:
    """Raise an error unless an array holds real numbers."""
    dtype_name = backend.type_name(array.dtype, name)
    if dtype_name not in GRID_TYPES and not dtype_name.startswith(("int", "uint")):
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")


# Points, as a list of their components ------------------------------------------------------------


def joined(backend: Backend, points: Sequence[Array], dtype: Any) -> Array:
    """Return points as an array (N, *shape, D) of a dtype."""
    if not backend.is_host:
        return backend.astype(backend.xp.stack([*points], -1), dtype)
    grid = np.empty((*points[0].shape, len(points)), dtype)
    for k, x in enumerate(points):
        grid[..., k] = x
    return grid


def mapped(backend: Backend, matrix: Array, points: Sequence[Array]) -> list[Array]:
    """Apply matrices (N, D + 1, D + 1); every sum is taken in the same order."""
    rank = len(points)
    rows = matrix.reshape(matrix.shape[0], *(1,) * rank, rank + 1, rank + 1)
    result = []
    for k in range(rank):
        line = rows[..., k, rank]
        for d, x in enumerate(points):
            line = line + x * rows[..., k, d]
        result.append(line)
    return result


def displaced(
    backend: Backend, field: PathField, points: Sequence[Array], threads: int | None
) -> list[Array]:
    """Move points of the world by a displacement field; beyond its voxels, it is 0."""
    positions = joined(backend, mapped(backend, field.voxels, points), field.vectors.dtype)
    options: dict[str, Any] = {"coords": "pixel", "extrapolate": "edges", "threads": threads}
    vectors = grid_sample(field.vectors, positions, "bilinear", "border", **options)
    return [x + vectors[:, k] for k, x in enumerate(points)]


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
    return backend.astype(backend.astype(result, points.dtype), backend.type("float64"))


def stated_bounds(step: BoundedTransform, low: Array, high: Array) -> list[Array]:
    """Return the bounds that a function states for points between two, or raise an error."""
    returned = step.bounds(low, high)
    try:
        first, last = returned
        return [np.broadcast_to(np.asarray(x, np.float64), low.shape) for x in (first, last)]
    except (TypeError, ValueError):
        raise TypeError(
            "the bounds of a BoundedTransform must be a pair of the least and the greatest "
            f"coordinates, {len(low)} each, got {returned!r}"
        ) from None


def extremes(field: PathField, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the least and the greatest vectors of a field between voxels, 0 among them."""
    vectors = field.vectors[0]
    rank = len(vectors)
    first, last = (np.clip(x[::-1], -1, vectors.shape[1:]) for x in (low, high))
    box = [slice(max(math.floor(a), 0), math.ceil(b) + 1) for a, b in zip(first, last, strict=True)]
    nearby = vectors[:, *box].reshape(rank, -1)
    return np.fmin.reduce(nearby, 1, initial=0.0), np.fmax.reduce(nearby, 1, initial=0.0)
