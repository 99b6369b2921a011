"""Grids: fields of coordinates to sample at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridsample.api import BINDINGS, find_binding, library
from gridsample.checks import as_array, check_dense
from gridsample.plan import check_flag, coordinates

Array = np.ndarray[Any, Any]


def check_size(size: Any, name: str, fewest: int, most: int) -> tuple[int, ...]:
    """A size as a tuple of integers that are not negative, of an accepted length."""
    try:
        given = tuple(size)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of integers, got {size!r}") from None
    for n in given:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
            raise TypeError(f"{name} must be a sequence of integers, got {size!r}")
        if n < 0:
            raise ValueError(f"{name} must not hold negative sizes, got {given}")
    if not fewest <= len(given) <= most:
        raise ValueError(f"{name} must have {fewest} to {most} entries, got {len(given)}: {given}")
    return tuple(int(n) for n in given)


def identity_grid(
    size: Sequence[int], align_corners: bool = False, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """The grid that samples every pixel at its own place.

    Args:
        size: the output's shape, (N, C, *out) with 1 to 3 axes after the first two, as in
        `affine_grid`.
        align_corners: what -1 and 1 mean, as in `grid_sample`.
        dtype: float16, float32 or float64.

    Returns:
        (N, *out, D) coordinates in x, y, z order; read-only, as all N items are the same memory.

    Raises:
        TypeError: size is not integers, or dtype is not floating.
        ValueError: size is negative or has too few or many entries.

    Example:
        >>> import gridsample
        >>> gridsample.identity_grid((1, 1, 2, 2), dtype="float64")[0, 0]
        array([[-0.5, -0.5],
               [ 0.5, -0.5]])
    """
    batch, _, *out = check_size(size, "size", 3, 5)
    corners = check_flag(align_corners, "align_corners")
    kind = np.dtype(dtype)
    if kind.name not in ("float16", "float32", "float64"):
        raise TypeError(f"dtype must be float16, float32 or float64, got {kind}")
    grid = np.empty((*out, len(out)), kind)
    for a, n in enumerate(out):
        along = coordinates(n, corners, kind).reshape(n, *(1,) * (len(out) - 1 - a))
        grid[..., len(out) - 1 - a] = along
    return np.broadcast_to(grid, (batch, *grid.shape))


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool = False) -> Any:
    """The grid of an affine map: where each output pixel's coordinates are sent.

    grid[n, ..., :] = theta[n, :, :D] @ (x, y, z) + theta[n, :, D], for the coordinates (x, y, z)
    of each output pixel's centre, as in `torch.nn.functional.affine_grid`.

    Args:
        theta: (N, D, D + 1) matrices for D = 1, 2 or 3; float16, float32 or float64.  A torch
            tensor (also bfloat16) gives a tensor that is differentiable in it.
        size: the output's shape, (N, C, *out) with D axes after the first two.
        align_corners: what -1 and 1 mean, as in `grid_sample`.

    Returns:
        (N, *out, D) in theta's dtype.

    Raises:
        TypeError: theta is not floating, or size is not integers.
        ValueError: shapes that do not go together.

    Example:
        >>> import numpy as np, gridsample
        >>> shift = np.array([[[1.0, 0.0, 0.25], [0.0, 1.0, 0.0]]])
        >>> gridsample.affine_grid(shift, (1, 1, 1, 2))
        array([[[[-0.25,  0.  ],
                 [ 0.75,  0.  ]]]])
    """
    batch, channels, *out = check_size(size, "size", 3, 5)
    rank = len(out)
    corners = check_flag(align_corners, "align_corners")
    binding = find_binding(theta=theta)
    check_dense(theta=theta)
    matrices = theta if library(theta) in BINDINGS else as_array(theta, "theta")
    if tuple(matrices.shape) != (batch, rank, rank + 1):
        raise ValueError(
            f"theta must be (N, D, D + 1) = {(batch, rank, rank + 1)} "
            f"for size {(batch, channels, *out)}, got shape {tuple(matrices.shape)}"
        )
    if library(theta) in BINDINGS:
        return binding.affine_grid(theta, [coordinates(n, corners) for n in out])
    if matrices.dtype.name not in ("float16", "float32", "float64"):
        raise TypeError(f"theta has dtype {matrices.dtype}; accepted: float16, float32, float64")
    kind = matrices.dtype
    real = np.float64 if kind.name == "float64" else np.float32
    matrices = matrices.astype(real)
    grid = np.empty((batch, *out, rank), real)
    with np.errstate(invalid="ignore", over="ignore"):  # what is no number stays none
        grid[...] = matrices[:, :, rank].reshape(batch, *(1,) * rank, rank)
        for a, n in enumerate(out):
            column = matrices[:, :, rank - 1 - a].reshape(batch, *(1,) * rank, rank)
            along = coordinates(n, corners, real).reshape(n, *(1,) * (rank - 1 - a), 1)
            grid += column * along
    return grid.astype(kind.newbyteorder("="), copy=False)
