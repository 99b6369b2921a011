"""Grids: arrays of sampling coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridsample.backends import backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import coordinates
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.shapes import check_output, check_theta

Array = np.ndarray[Any, Any]


def identity_grid(
    size: Sequence[int], align_corners: bool = False, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Make the identity grid, which samples every pixel at its own position.

    Args:
        size: the output's shape, (N, C, *out) with 1 to 8 axes after the first two, as in
            `affine_grid`.
        align_corners: whether -1 and 1 are the centres of the corner pixels or their outer edges.
        dtype: float16, float32 or float64.

    Returns:
        (N, *out, D) coordinates in x, y, z order.  The array is read-only, because all N items
        share the same memory.

    Raises:
        TypeError: size does not consist of integers, or dtype is not floating-point.
        ValueError: size has a negative entry, or too few or too many entries.

    Example:
        >>> import gridsample
        >>> gridsample.identity_grid((1, 1, 2, 2), dtype="float64")[0, 0]
        array([[-0.5, -0.5],
               [ 0.5, -0.5]])
    """
    batch, _, *out = check_output(size)
    corners = check_flag(align_corners, "align_corners")
    grid_dtype = np.dtype(dtype)
    if grid_dtype.name not in ("float16", "float32", "float64"):
        raise TypeError(f"dtype must be float16, float32 or float64, got {grid_dtype}")
    grid = np.empty((*out, len(out)), grid_dtype)
    for a, n in enumerate(out):
        along = coordinates(n, corners, grid_dtype).reshape(n, *(1,) * (len(out) - 1 - a))
        grid[..., len(out) - 1 - a] = along
    return np.broadcast_to(grid, (batch, *grid.shape))


@overridable(arrays=1)
def affine_grid(theta: ArrayT, size: Sequence[int], align_corners: bool = False) -> ArrayT:
    """Make the grid of an affine map, which is applied to each output pixel's coordinates.

    grid[n, ..., :] = theta[n, :, :D] @ (x, y, z) + theta[n, :, D], where (x, y, z) are the
    coordinates of each output pixel's centre, as in `torch.nn.functional.affine_grid`.

    Args:
        theta: (N, D, D + 1) matrices for D = 1 to 8; float16, float32 or float64.  For a torch
            tensor (also bfloat16), the result is a tensor that is differentiable in theta.
        size: the output's shape, (N, C, *out) with D axes after the first two: integers of
            Python, NumPy or torch, or tensors with one element.
        align_corners: whether -1 and 1 are the centres of the corner pixels or their outer edges.

    Returns:
        (N, *out, D) in theta's dtype.

    Raises:
        TypeError: theta is not floating-point, or size does not consist of integers.
        ValueError: the shapes do not match.

    Example:
        >>> import numpy as np, gridsample
        >>> shift = np.array([[[1.0, 0.0, 0.25], [0.0, 1.0, 0.0]]])
        >>> gridsample.affine_grid(shift, (1, 1, 1, 2))
        array([[[[-0.25,  0.  ],
                 [ 0.75,  0.  ]]]])
    """
    corners = check_flag(align_corners, "align_corners")
    backend = backend_of(theta=theta)
    (maps,) = backend.asarrays(theta=theta)
    to_check, to_use = backend.extents(size)
    shape = check_output(to_check)
    check_theta(backend.shape(maps), shape)
    if backend.type_name(maps.dtype, "theta") not in GRID_TYPES:
        raise TypeError(
            f"theta has dtype {maps.dtype}; accepted: float16, float32, float64, and bfloat16 for "
            "tensors"
        )
    out = (shape if to_use is None else to_use)[2:]
    grid = backend.affine_grid(maps, out, corners)
    return backend.restore(grid, theta)
