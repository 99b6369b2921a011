"""The grid of affine maps, and the gradient of maps from that of the grid, for any backend.

The operations use it if a backend has no kernels for affine maps.  A backend that has them uses it
for derivatives of higher order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends.base import Array, Backend
from gridsample.definitions.options import Options


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


def gradient_along(
    backend: Backend, grad_grid: Array, out: Sequence[Any], align_corners: bool | None
) -> Array:
    """Compute the transpose of `grid_along`: (N, D, D + 1) from a gradient (N, *out, D).

    Each column is the sum of the gradient times the coordinates of one axis, and the last column
    is the sum of the gradient.  No other array is as large as the grid.
    """
    rank, name = len(out), backend.type_name(grad_grid.dtype, "theta")
    wide = backend.type("float64" if name == "float64" else "float32")
    upstream, xp_sum = backend.astype(grad_grid, wide), backend.xp.sum
    columns: list[Array] = []
    for a, n in enumerate(out):
        others = tuple(k + 1 for k in range(rank) if k != a)
        sums = xp_sum(upstream, others) if others else upstream  # (N, n, D)
        along = backend.line(n, align_corners, wide, grad_grid).reshape(-1, 1)
        columns.insert(0, xp_sum(sums * along, 1))
    return backend.astype(backend.xp.stack([*columns, xp_sum(sums, 1)], -1), backend.type(name))


class ThroughGrid(NamedTuple):
    """Affine maps as a grid, for a call that no kernel for maps can compute.

    Footprints are differences between neighbours in the grid.  Therefore, an axis of the output
    with a single point has one more point on either side of it in the grid.

    Attributes:
        backend: the backend.
        theta: the maps.
        options: the options of sampling on the grid.
        change: a matrix by which the maps are multiplied, or None.
        out: the shape of the grid.
        single: the axes that are longer than those of the result.
    """

    backend: Backend
    theta: Array
    options: Options
    change: Any
    out: Sequence[Any]
    single: Sequence[int]

    def corners(self) -> bool | None:
        """Whether -1 and 1 are the centres of the output's corner pixels; None for pixels."""
        return None if self.options.coords == "pixel" else self.options.align_corners

    def grid(self) -> Array:
        """Compute the grid (N, *out, D)."""
        theta = self.theta
        if self.change is not None:
            change = self.backend.asarray(self.change, theta)
            theta = theta @ self.backend.astype(change, theta.dtype)
        return grid_along(self.backend, theta, self.out, self.corners())

    def remove_added(self, values: Array) -> Array:
        """Remove the added points from samples (N, C, *out)."""
        for k in self.single:
            values = values[(*(slice(None),) * (2 + k), slice(1, 2))]
        return values

    def extend(self, values: Array) -> Array:
        """Apply the transpose of `remove_added` to upstream values."""
        for k in self.single:
            zeros, shape = self.backend.xp.zeros_like(values), list(values.shape)
            shape[2 + k] = 3
            values = self.backend.xp.stack([zeros, values, zeros], 2 + k).reshape(tuple(shape))
        return values

    def gradient(self, grad_grid: Array) -> Array:
        """Compute the gradient of the maps from that of the grid."""
        gradient = gradient_along(self.backend, grad_grid, self.out, self.corners())
        if self.change is None:
            return gradient
        change = self.backend.asarray(self.change.T.copy(), self.theta)
        return gradient @ self.backend.astype(change, gradient.dtype)


def through_grid(
    backend: Backend, theta: Array, out: Sequence[Any], options: Options
) -> ThroughGrid:
    """Describe the grid on which an image is sampled in place of maps."""
    if options.footprint is None:
        return ThroughGrid(backend, theta, options, None, out, ())
    rank, normalized = len(out), options.coords == "normalized"
    # The coordinates -1 and 1 of a single corner pixel are the same place.
    single = [k for k, n in enumerate(out) if n == 1 and not (normalized and options.align_corners)]
    if not single:
        return ThroughGrid(backend, theta, options, None, out, ())
    change = np.eye(rank + 1)
    for k in single:  # three points, of which the output has the second
        column = rank - 1 - k
        if normalized:
            change[column, column] = 3
        else:
            change[column, rank] = -1
    wide = tuple(3 if k in single else n for k, n in enumerate(out))
    return ThroughGrid(backend, theta, options.changed(), change, wide, single)
