"""The grid of affine maps, and the gradient of maps from that of the grid, for any backend.

The operations use it if a backend has no kernels for affine maps.  A backend that has them uses it
for derivatives of higher order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.backends.base import Array, Backend
from gridsample.definitions.options import Options


def grid_of(backend: Backend, theta: Array, out: Sequence[Any], how: Options) -> Array:
    """Compute the grid (N, *out, D) that maps (N, D, D + 1) represent."""
    corners = None if how.coords == "pixel" else how.align_corners
    return grid_along(backend, theta, out, corners)


def grid_along(
    backend: Backend, theta: Array, out: Sequence[Any], align_corners: bool | None
) -> Array:
    """Apply maps to the coordinates of an output's pixels (`Backend.line`).

    Maps have D rows, or D + 1 if they are homogeneous; the result has as many components.
    The slowest axis comes first, so that only the last sum creates an array as large as the grid.
    """
    rank, name = len(out), backend.type_name(theta.dtype, "theta")
    wide = backend.type("float64" if name == "float64" else "float32")
    count = backend.shape(theta)[1]
    rows = backend.astype(theta, wide).reshape(theta.shape[0], *(1,) * rank, count, rank + 1)
    grid = rows[..., rank]
    with backend.quiet():  # NaN stays NaN
        for a, n in enumerate(out):
            along = backend.line(n, align_corners, wide, theta).reshape(-1, *(1,) * (rank - a))
            grid = grid + rows[..., rank - 1 - a] * along
        return backend.astype(grid, backend.type(name))


def gradient_of(backend: Backend, by_grid: Array, out: Sequence[Any], how: Options) -> Array:
    """Compute the gradient of maps from the gradient of the grid that they represent."""
    corners = None if how.coords == "pixel" else how.align_corners
    return gradient_along(backend, by_grid, out, corners)


def gradient_along(
    backend: Backend, by_grid: Array, out: Sequence[Any], align_corners: bool | None
) -> Array:
    """Compute the transpose of `grid_along`: (N, D, D + 1) from a gradient (N, *out, D).

    Each column is the sum of the gradient times the coordinates of one axis, and the last column
    is the sum of the gradient.  No other array is as large as the grid.
    """
    rank, name = len(out), backend.type_name(by_grid.dtype, "theta")
    wide = backend.type("float64" if name == "float64" else "float32")
    upstream, total = backend.astype(by_grid, wide), backend.xp.sum
    columns: list[Array] = []
    for a, n in enumerate(out):
        others = tuple(k + 1 for k in range(rank) if k != a)
        sums = total(upstream, others) if others else upstream  # (N, n, D)
        along = backend.line(n, align_corners, wide, by_grid).reshape(-1, 1)
        columns.insert(0, total(sums * along, 1))
    return backend.astype(backend.xp.stack([*columns, total(sums, 1)], -1), backend.type(name))
