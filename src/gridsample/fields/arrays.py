"""Helpers of this package: dtypes, shapes, components, small matrices.

A field's last axis holds its components in x, y, z order, where x runs along the *last* spatial
axis.  Arithmetic that differs between components is written for lists of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from gridsample.backends import Backend, backend_of
from gridsample.definitions.coords import COORDS
from gridsample.definitions.dtypes import GRID_TYPES, WIDE_TYPES
from gridsample.definitions.shapes import MAX_RANK, Shape, as_whole
from gridsample.messages.links import about, unknown_name

Array = Any
Cells = list[list[Array]]
_MAX_PIXELS = 1 << 59
"""The bytes of so many complex128 pixels exceed what an index can count."""


# Arguments ----------------------------------------------------------------------------------------


def as_wide_arrays(**arguments: Any) -> tuple[Backend, list[Array]]:
    """Convert the caller's arguments to floating-point arrays of one dtype, float32 or float64.

    The dtype is that of a sum of the arguments.  Integers count as float64, and half precision as
    float32, so that positions in pixels are exact to a fraction of a pixel.

    Raises:
        TypeError: an argument is not a dense array of real numbers.
    """
    backend = backend_of(**arguments)
    arrays = backend.asarrays(**arguments)
    is_double = False
    for name, array in zip(arguments, arrays, strict=True):
        name_of_dtype = backend.type_name(array.dtype, name)
        if name_of_dtype not in GRID_TYPES and not name_of_dtype.startswith(("int", "uint")):
            raise TypeError(
                f"{name} has dtype {array.dtype}; accepted: {', '.join(GRID_TYPES)}, and integers"
            )
        is_double = is_double or name_of_dtype in WIDE_TYPES or name_of_dtype not in GRID_TYPES
    dtype = backend.type("float64" if is_double else "float32")
    return backend, [backend.astype(array, dtype) for array in arrays]


def restore_dtype(backend: Backend, result: Array, *like: Any) -> Any:
    """Return a result in the dtype of the caller's arguments, if these are half precision."""
    arrays = backend.asarrays(**{f"argument {k}": array for k, array in enumerate(like)})
    dtype = backend.promote(*[array.dtype for array in arrays])
    if backend.type_name(dtype) in ("float16", "bfloat16"):
        result = backend.astype(result, dtype)
    return backend.restore(result, like[0])


def check_field(backend: Backend, field: Array, name: str) -> Shape:
    """Return the spatial shape of a field, or raise an error if it is not (N, *spatial, D)."""
    shape = backend.shape(field)
    rank = len(shape) - 2
    if not 1 <= rank <= MAX_RANK or shape[-1] != rank:
        remark = ""
        if 1 <= rank <= MAX_RANK and shape[1] == rank:
            remark = f"; if the components come second, move them: {name}.movedim(1, -1) in torch"
        raise ValueError(
            f"{name} must be (N, *spatial, D), with D components (x, y, z, ...) for D = 1 to "
            f"{MAX_RANK} spatial axes; got shape {shape}{remark}{about('grid')}"
        )
    if 0 in shape[1:-1]:
        raise ValueError(f"{name} has an empty spatial axis: shape {shape}")
    return shape[1:-1]


def check_size(size: Any, rank: int | None, name: str = "size") -> tuple[Any, ...]:
    """Return a spatial shape, (height, width) or (depth, height, width), or raise an error."""
    try:
        sizes = tuple([as_whole(n) for n in size])
    except TypeError:
        got = f"a {type(size).__name__}" if hasattr(size, "shape") else repr(size)
        raise TypeError(
            f"{name} must be a sequence of integers, the spatial shape of an image, got {got}"
        ) from None
    if rank is not None and len(sizes) != rank:
        raise ValueError(
            f"{name} must have {rank} entries, the spatial shape of an image without N and C, "
            f"got {sizes}"
        )
    if not 1 <= len(sizes) <= MAX_RANK or any([n < 1 for n in sizes]):
        raise ValueError(
            f"{name} must be the spatial shape of an image, 1 to {MAX_RANK} positive integers, "
            f"got {sizes}"
        )
    if all([type(n) is int for n in sizes]) and math.prod(sizes) >= _MAX_PIXELS:
        raise ValueError(f"{name} must have less than 2**59 pixels, got {sizes}")
    return sizes


def check_name(value: Any, accepted: Sequence[str], argument: str) -> str:
    """Return a name, or raise an error if it is not one of those accepted."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be one of {', '.join(accepted)}, got {value!r}")
    if value not in accepted:
        raise unknown_name(argument, value, accepted)
    return value


def check_field_coords(coords: Any) -> Any:
    """Return whether a field holds displacements or positions in pixels, or raise an error."""
    return check_name(coords, COORDS[1:], "coords")


def check_count(value: Any, name: str) -> int:
    """Return a number of iterations, or raise an error if it is not a non-negative integer."""
    try:
        count = int(as_whole(value))
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if count < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return count


def check_positive(value: Any, name: str) -> float:
    """Return a number, or raise an error if it is not above 0 and finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be above 0 and finite, got {value}")
    return number


# Positions ----------------------------------------------------------------------------------------


def indices(backend: Backend, spatial: Shape, axis: int, like: Array) -> Array:
    """The pixel index along one component's axis, shaped to be broadcast over (N, *spatial)."""
    rank = len(spatial)
    line = backend.line(spatial[rank - 1 - axis], None, like.dtype, like)
    return line.reshape(-1, *(1,) * axis)


def to_positions(backend: Backend, displacement: Array) -> Array:
    """Add each pixel's own position to a field of displacements."""
    spatial = backend.shape(displacement)[1:-1]
    parts = components(displacement, len(spatial))
    sums = [
        component + indices(backend, spatial, k, displacement) for k, component in enumerate(parts)
    ]
    return backend.xp.stack(sums, -1)


def to_displacements(backend: Backend, positions: Array) -> Array:
    """Subtract each pixel's own position from a field of positions."""
    spatial = backend.shape(positions)[1:-1]
    parts = components(positions, len(spatial))
    sums = [
        component - indices(backend, spatial, k, positions) for k, component in enumerate(parts)
    ]
    return backend.xp.stack(sums, -1)


def as_displacements(backend: Backend, field: Array, coords: str) -> Array:
    """Convert a field in the units ``coords`` to displacements."""
    return field if coords == "displacement" else to_displacements(backend, field)


def from_displacements(backend: Backend, field: Array, coords: str) -> Array:
    """Convert displacements to the units ``coords``."""
    return field if coords == "displacement" else to_positions(backend, field)


# Components and matrices --------------------------------------------------------------------------


def components(field: Array, rank: int) -> list[Array]:
    """The components of a field, in x, y, z order."""
    return [field[..., k] for k in range(rank)]


def squared_norm(field: Array, rank: int) -> Array:
    """The sum of the squares of the components."""
    first, *rest = components(field, rank)
    total = first * first
    for component in rest:
        total = total + component * component
    return total


def norm(backend: Backend, field: Array, rank: int) -> Array:
    """The length of each vector; its gradient is 0 where the vector is 0."""
    xp, square = backend.xp, squared_norm(field, rank)
    unit = backend.full((), 1, square.dtype, square)
    is_zero = square == 0
    return xp.where(is_zero, square, xp.sqrt(xp.where(is_zero, unit, square)))


def cells_of(matrix: Array, rank: int) -> Cells:
    """The entries of matrices (..., D, D), as arrays."""
    return [[matrix[..., i, j] for j in range(rank)] for i in range(rank)]


def assembled(backend: Backend, cells: Cells) -> Array:
    """Matrices (..., rows, columns) with these entries."""
    return backend.xp.stack([backend.xp.stack(row, -1) for row in cells], -2)


def adjugate(m: Cells) -> Cells:
    """The adjugate of matrices: the inverse times the determinant, of signed minors."""
    if len(m) == 1:
        return [[m[0][0] * 0 + 1]]
    places = range(len(m))
    return [[determinant(without(m, j, i)) * (-1) ** (i + j) for j in places] for i in places]


def determinant(m: Cells) -> Array:
    """The determinant of matrices, expanded along their first row."""
    total = m[0][0]
    if len(m) > 1:
        total = total * determinant(without(m, 0, 0))
    for k in range(1, len(m)):
        total = total + m[0][k] * (determinant(without(m, 0, k)) * (-1) ** k)
    return total


def without(m: Cells, row: int, column: int) -> Cells:
    """Return matrices without a row and a column."""
    rows = [*m[:row], *m[row + 1 :]]
    return [[*cells[:column], *cells[column + 1 :]] for cells in rows]


def solve(backend: Backend, m: Cells, right: Sequence[Array]) -> list[Array]:
    """Solve m x = right by Cramer's rule; a singular matrix counts as the identity."""
    xp, inverse, det = backend.xp, adjugate(m), determinant(m)
    singular = (det == 0) | xp.isnan(det)
    divisor = xp.where(singular, backend.full((), 1, det.dtype, det), det)
    solution = []
    for row, right_side in zip(inverse, right, strict=True):
        total = row[0] * right[0]
        for k in range(1, len(right)):
            total = total + row[k] * right[k]
        solution.append(xp.where(singular, right_side, total / divisor))
    return solution
