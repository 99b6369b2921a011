"""The grid of affine maps, and the gradient of maps from that of the grid, for any backend.

Operations use these functions if a backend has no kernels for affine maps, and otherwise for
derivatives of higher order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends.base import Array, Backend
from gridsample.definitions.coords import map_factors
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


class Change(NamedTuple):
    """A change of maps to those of other units, or of a longer output; it is affine in theta.

    Attributes:
        scale: the factors of the entries, (D, D + 1).
        shift: (D + 1,); the last column becomes the sum of the scaled columns times these numbers.
        centre: what is added to the last column, (D,).
    """

    scale: Any
    shift: Any
    centre: Any

    def apply(self, backend: Backend, theta: Array) -> Array:
        """Return the changed maps."""
        scale, shift, centre = self.converted(backend, theta)
        scaled = theta * scale
        last = backend.xp.sum(scaled * shift, -1) + centre
        return backend.concatenate([scaled[..., :-1], last[..., None]], -1)

    def transpose(self, backend: Backend, gradient: Array) -> Array:
        """Return the gradient of maps, given the gradient of the changed maps."""
        scale, shift, _ = self.converted(backend, gradient)
        last = gradient[..., -1:] * shift
        columns = gradient[..., :-1] + last[..., :-1]
        return backend.concatenate([columns, last[..., -1:]], -1) * scale

    def converted(self, backend: Backend, theta: Array) -> list[Array]:
        """Return the scale, the shift and the centre in the dtype of maps."""
        return [backend.astype(backend.asarray(x, theta), theta.dtype) for x in self]


class ThroughGrid(NamedTuple):
    """Affine maps as a grid, for a call that no kernel for maps can compute.

    Footprints are differences between neighbours in the grid.  Therefore, an axis of the output
    with a single point has one more point on either side of it in the grid.

    Attributes:
        backend: the backend.
        theta: the maps.
        options: the options of sampling on the grid.
        change: how the maps are changed, or None.
        out: the shape of the grid.
        single: the axes that are longer than those of the result.
    """

    backend: Backend
    theta: Array
    options: Options
    change: Change | None
    out: Sequence[Any]
    single: Sequence[int]

    def corners(self) -> bool | None:
        """Whether -1 and 1 are the centres of the output's corner pixels; None for pixels."""
        return None if self.options.coords == "pixel" else self.options.align_corners

    def grid(self) -> Array:
        """Compute the grid (N, *out, D)."""
        theta = self.theta
        if self.change is not None:
            with self.backend.quiet():  # NaN stays NaN
                theta = self.change.apply(self.backend, self.backend.astype(theta, self.wide()))
        return grid_along(self.backend, theta, self.out, self.corners())

    def wide(self) -> Any:
        """The dtype in which maps are changed."""
        is_double = self.backend.type_name(self.theta.dtype, "theta") == "float64"
        return self.backend.type("float64" if is_double else "float32")

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
        if self.change is not None:
            gradient = self.change.transpose(self.backend, gradient)
        return self.backend.astype(gradient, self.theta.dtype)


def through_grid(
    backend: Backend, theta: Array, spatial: Sequence[Any], out: Sequence[Any], options: Options
) -> ThroughGrid:
    """Describe the grid at which an image is sampled in place of maps.

    The grid is in pixels, so that its positions are exact at whole pixels, as in kernels for maps.
    While a program is traced, sizes may be unknown, and a normalized grid stays normalized.
    """
    rank, normalized = len(out), options.coords == "normalized"
    single: Sequence[int] = ()
    if options.footprint is not None:
        # The coordinates -1 and 1 of a single corner pixel are the same place.
        fixed = normalized and options.align_corners
        single = [k for k, n in enumerate(out) if n == 1 and not fixed]
    extended = tuple(3 if k in single else n for k, n in enumerate(out))
    converts = normalized and backend.is_concrete(theta)
    if not converts and not single:
        return ThroughGrid(backend, theta, options, None, out, ())
    scale, shift, centre = np.ones((rank, rank + 1)), np.eye(rank + 1)[rank], np.zeros(rank)
    if converts:
        factors, middle = map_factors(spatial, out, options.coords, options.align_corners)
        scale, centre = np.array(factors), np.array(middle)
        scale[:, :rank] *= 2  # from 2 i + 1 - n to i
        shift[:rank] = [(1 - n) / 2 for n in reversed(out)]
    for k in single:  # three points, of which the output has the second
        column = rank - 1 - k
        if normalized and not converts:
            scale[:, column] = 3
        else:
            shift[column] -= 1
    changed = options.changed(coords="pixel") if converts else options.changed()
    return ThroughGrid(backend, theta, changed, Change(scale, shift, centre), extended, single)
