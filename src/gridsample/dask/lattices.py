"""The points of lattices of control points, for chunks of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.dask.sampling import Points
from gridsample.definitions.control_points import ControlAxis, ControlPoints, continued
from gridsample.definitions.names import LatticeName
from gridsample.ops.lattices import lattice_grid

Array = np.ndarray[Any, Any]

# The sum of the absolute weights of Catmull-Rom cubics, at most; those of the others are positive.
GAIN = 1.25


def lattice_points(
    lattice: Any,
    size: Sequence[int],
    interpolation: LatticeName = "catmull-rom",
    *,
    spacing: float | Sequence[float] | None = None,
    origin: float | Sequence[float] | None = None,
) -> Points:
    """Describe the points of a lattice of control points, for `gridsample.dask.grid_sample`.

    Each chunk of the result interpolates its own part of the grid
    ``gridsample.lattice_grid(lattice, size, interpolation, spacing=spacing, origin=origin)``.

    Args:
        lattice: (1, *points, D) control points, as in `gridsample.lattice_grid`; a NumPy array.
        size: the output's shape, (1, C, *out); C is not used.
        interpolation, spacing, origin: as in `gridsample.lattice_grid`.

    Returns:
        A function of output pixels, with bounds.

    Raises:
        TypeError, ValueError: as in `gridsample.lattice_grid`.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.from_array(np.arange(16.0).reshape(1, 1, 4, 4), chunks=(1, 1, 2, 2))
        >>> up = np.array([[[[0.0, 1.0], [0.0, 1.0]]]])  # one pixel, along y
        >>> points = gridsample.dask.lattice_points(up, (1, 1, 3, 4))
        >>> gridsample.dask.grid_sample(
        ...     image, points, coords="displacement", size=(3, 4))[0, 0, 2].compute()
        array([12., 13., 14., 15.])
    """
    array = np.asarray(lattice)
    places = ControlPoints.checked(array.shape, size, interpolation, spacing, origin)
    if len(array) != 1:
        raise ValueError(f"lattice must be a single one, N = 1, got N = {len(array)}")
    # Checks the dtype, which tasks would otherwise do.
    lattice_grid(array, (1, 1, *(1,) * len(places.axes)), interpolation)
    blocks = LatticeBlocks(array, places)
    bounds: Any = blocks.bounds
    return Points(blocks.coordinates, bounds)


@dataclass(frozen=True, eq=False)
class LatticeBlocks:
    """The grid of a lattice, block by block.

    Attributes:
        lattice: (1, *points, D).
        places: where the points of the grid are.
    """

    lattice: Array
    places: ControlPoints

    def coordinates(self, *index: Array) -> list[Array]:
        """Return the coordinates of the pixels of a block, given their indices along each axis."""
        axes, sizes = self.places.axes, [line.size for line in index]
        origin = [axis.origin - float(line.flat[0]) for axis, line in zip(axes, index, strict=True)]
        grid = lattice_grid(
            self.lattice,
            (1, 1, *sizes[::-1]),
            axes[0].interpolation,  # type: ignore[arg-type]
            spacing=[axis.spacing for axis in axes],
            origin=origin,
            threads=1,
        )
        return [grid[0, ..., a] for a in range(len(axes))]

    def bounds(self, first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        """Return numbers beyond the coordinates of a block, from the control points around it."""
        points, rank = self.lattice[0].astype(np.float64), len(self.places.axes)
        for a, axis in enumerate(self.places.axes):
            k = rank - 1 - a
            index, weights = continued(taps_between(axis, first[a], last[a]), axis.points)
            shares = weights.reshape(-1, 2, *(1,) * (rank - k))
            points = sum(points.take(index[:, j], k) * shares[:, j] for j in range(2))
        rows = points.reshape(-1, rank)
        low, high = np.fmin.reduce(rows), np.fmax.reduce(rows)
        gain = GAIN if self.places.axes[0].interpolation == "catmull-rom" else 1.0
        rounding = 64 * np.finfo(self.lattice.dtype).eps * np.maximum(np.abs(low), np.abs(high))
        reach = (gain**rank - 1) / 2 * (high - low) + rounding
        return low - reach, high + reach


def taps_between(axis: ControlAxis, first: int, last: int) -> Array:
    """Return the indices of the control points on which some neighbouring outputs depend."""
    begin, end = (int(np.floor((i - axis.origin) / axis.spacing)) for i in (first, last))
    return np.arange(begin, end + axis.method.taps) + axis.method.first
