"""Derivatives of fields along the pixels: Jacobians, folding, bending."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FieldCoordsName
from gridsample.fields.arrays import (
    Array,
    Cells,
    as_displacements,
    as_wide_arrays,
    assembled,
    cells_of,
    check_field,
    check_field_coords,
    determinant,
    restore_dtype,
)
from gridsample.ops.arrays import difference, part
from gridsample.ops.derivatives import grid_gradient


class Regularity(NamedTuple):
    """The result of `regularity`; one number for each item of the batch.

    Attributes:
        folded: the share of points whose Jacobian determinant is not above 0, from 0 to 1.
        smallest: the smallest determinant.
        largest: the largest determinant.
        bending: the bending energy, per square pixel.
    """

    folded: Any
    smallest: Any
    largest: Any
    bending: Any


@overridable(arrays=1)
def jacobian(
    field: ArrayT,
    mode: Mode | None = None,
    padding_mode: Padding = "border",
    *,
    coords: FieldCoordsName = "displacement",
) -> ArrayT:
    """Compute the Jacobian matrix of a field's map, p -> p + field(p), at every pixel.

        out[n, ..., i, j] = d (p + field(p))_i / d p_j

    The identity matrix is the Jacobian of a field of zeros.  By default, derivatives are central
    differences of neighbouring pixels, and one-sided differences at the ends of an axis, as in
    `numpy.gradient`.  With a mode, they are the exact derivatives of the interpolated field
    (`gridsample.grid_gradient`), which at the edge depend on the boundary.

    Args:
        field: (N, *spatial, D) in pixels, components in x, y, z order, D = 1 to 8.
        mode: None for differences, or a method of `grid_sample`, such as "spline3".
        padding_mode: the boundary that extends the displacements; used only with a mode.
        coords: what the field holds: "displacement" (pixels from each pixel's own position) or
            "pixel" (positions).

    Returns:
        (N, *spatial, D, D) in the field's dtype, without units; i and j in x, y, z order.

    Raises:
        TypeError: the field does not hold real numbers.
        ValueError: the field has another shape, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import jacobian
        >>> shear = np.zeros((1, 3, 3, 2))
        >>> shear[..., 0] = 0.5 * np.arange(3)[:, np.newaxis]  # x moves by y / 2
        >>> jacobian(shear)[0, 1, 1]
        array([[1. , 0.5],
               [0. , 1. ]])
    """
    backend, cells = cells_of_map(field, mode, padding_mode, coords)
    return restore_dtype(backend, assembled(backend, cells), field)


@overridable(arrays=1)
def jacobian_determinant(
    field: ArrayT,
    mode: Mode | None = None,
    padding_mode: Padding = "border",
    *,
    coords: FieldCoordsName = "displacement",
) -> ArrayT:
    """Compute the determinant of a field's Jacobian matrix: the local change of volume.

    It is 1 where the map keeps volumes, above 1 where it spreads pixels apart, and 0 or less where
    it folds.  See `jacobian`.

    Args:
        field: as in `jacobian`.
        mode, padding_mode, coords: as in `jacobian`.

    Returns:
        (N, *spatial) in the field's dtype.

    Raises:
        TypeError: the field does not hold real numbers.
        ValueError: the field has another shape, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import jacobian_determinant
        >>> stretch = 0.5 * np.arange(4.0).reshape(1, 4, 1)  # p -> 1.5 p
        >>> jacobian_determinant(stretch)
        array([[1.5, 1.5, 1.5, 1.5]])
    """
    backend, cells = cells_of_map(field, mode, padding_mode, coords)
    return restore_dtype(backend, determinant(cells), field)


@overridable(arrays=1)
def regularity(field: ArrayT, *, coords: FieldCoordsName = "displacement") -> Regularity:
    """Measure how smooth a field is: folding, the range of determinants, bending.

    The bending energy is the mean over all pixels of the sum of all squared second derivatives of
    all components, by central differences: for D = 2,

        mean of sum over i of (d2f_i/dx2)^2 + 2 (d2f_i/dxdy)^2 + (d2f_i/dy2)^2

    At the ends of an axis, the second derivative along it counts as 0.  Affine maps do not bend.

    Args:
        field: (N, *spatial, D) in pixels, components in x, y, z order, D = 1 to 8.
        coords: what the field holds, as in `jacobian`.

    Returns:
        (N,) arrays, as a `Regularity`.  For tensors, all but the share of folded points are
        differentiable, so that the bending energy can serve as a loss.

    Raises:
        TypeError: the field does not hold real numbers.
        ValueError: the field has another shape, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import regularity
        >>> fold = np.array([0.0, 0.0, -3.0, -3.0]).reshape(1, 4, 1)
        >>> regularity(fold).folded  # the two in the middle
        array([0.5])
    """
    backend, cells = cells_of_map(field, None, "border", coords)
    (array,) = as_wide_arrays(field=field)[1]
    moved = as_displacements(backend, array, coords)
    items = backend.shape(array)[0]
    flat, xp = determinant(cells).reshape(items, -1), backend.xp
    folded = xp.mean(backend.astype(flat <= 0, flat.dtype), 1)
    measures = folded, xp.amin(flat, 1), xp.amax(flat, 1), bending(backend, moved)
    return Regularity(*[restore_dtype(backend, measure, field) for measure in measures])


# Over a backend -----------------------------------------------------------------------------------


def cells_of_map(
    field: Any, mode: Mode | None, padding_mode: Padding, coords: Any
) -> tuple[Backend, Cells]:
    """Compute the entries of the Jacobian of the caller's field, and find its backend."""
    units = check_field_coords(coords)
    backend, (array,) = as_wide_arrays(field=field)
    spatial = check_field(backend, array, "field")
    moved, rank = as_displacements(backend, array, units), len(spatial)
    if mode is None:
        columns = [difference(backend, moved, rank - j) for j in range(rank)]
        cells = [[columns[j][..., i] for j in range(rank)] for i in range(rank)]
    else:
        zeros = backend.full(backend.shape(moved), 0, moved.dtype, moved)
        slopes = grid_gradient(
            moved, zeros, mode, padding_mode, coords="displacement", channel_axis=-1
        )
        cells = cells_of(slopes, rank)
    return backend, [
        [cell + 1 if i == j else cell for j, cell in enumerate(row)] for i, row in enumerate(cells)
    ]


def bending(backend: Backend, field: Array) -> Array:
    """The mean over all pixels of the sum of all squared second derivatives, for each item."""
    shape = backend.shape(field)
    rank, points = shape[-1], math.prod(shape[1:-1])
    total = squares(backend, field) * 0
    for j in range(1, rank + 1):
        slope = difference(backend, field, j)
        for k in range(j + 1, rank + 1):
            total = total + squares(backend, difference(backend, slope, k)) * 2
        if shape[j] > 2:
            ends = part(field, j, 2, None) + part(field, j, None, -2)
            total = total + squares(backend, ends - part(field, j, 1, -1) * 2)
    return total / points


def squares(backend: Backend, field: Array) -> Array:
    """The sum of all squared entries of each item."""
    flat = field.reshape(field.shape[0], -1)
    return backend.xp.sum(flat * flat, 1)
