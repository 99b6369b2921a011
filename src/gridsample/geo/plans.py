"""Positions of the pixels of one raster in another: exact, or interpolated within a tolerance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.regions import real_type
from gridsample.fields.paths import Path, path_between
from gridsample.geo.rasters import Array, Raster, projection_between
from gridsample.ops.lattices import lattice_grid

# Distances of exact positions, in pixels: powers of two, so that the places of pixels between them
# are exact numbers, and do not depend on where a block of pixels begins.
STEPS = 64, 32, 16, 8
# Errors are measured at some points of each cell, where the cubic and the quartic term of an error
# are the largest.  Cells with more than this share of the tolerance are computed exactly, and so
# are their neighbours.
MARGIN = 0.5
MEASURED = (0.5, 0.5), (0.25, 0.0), (0.0, 0.25), (0.25, 0.25), (0.75, 0.25)
# How far cubic interpolation in two dimensions may leave the range of the positions around it, in
# parts of that range: the absolute weights of each axis have a sum of up to 1.25.
OVERSHOOT = (1.25**2 - 1) / 2 + 0.01
# Positions are sampled in single precision where rounding moves them by no more than this share of
# the tolerance: by default on rasters of up to 16384 pixels along each axis.
ROUNDING = 0.01


@dataclasses.dataclass(frozen=True, eq=False)
class Positions:
    """Where the pixels of a raster, the target, are in another one, the source.

    The position of a pixel depends on nothing but the pixel: blocks are parts of the whole, to the
    last bit.

    Attributes:
        source: the raster that is sampled.
        target: the raster whose pixels have positions.
        tolerance: the largest error in pixels of the source.
        step: the distance of exact positions, in pixels of the target; 0 if all are exact.
        error: the largest error in pixels that was measured where positions are interpolated.
    """

    source: Raster
    target: Raster
    tolerance: float
    step: int
    error: float
    _path: Path
    _nodes: Array
    _exact: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns of the target."""
        rows, columns = self.target.shape
        return rows, columns

    def __call__(
        self,
        rows: slice = slice(None),
        columns: slice = slice(None),
        *,
        threads: int | None = None,
    ) -> Array:
        """Compute the positions of a block of pixels.

        Args:
            rows: the rows of the target, a slice without a step.
            columns: its columns.
            threads: the maximum number of threads, as in `gridsample.grid_sample`.

        Returns:
            (1, rows, columns, 2) in float64: x and y in pixels of the source, for
            ``grid_sample(..., coords="pixel")``.  A pixel without a place in the source's
            projection has NaN.
        """
        block = rows, columns = tuple(
            slice(*part.indices(n)[:2]) for part, n in zip((rows, columns), self.shape, strict=True)
        )
        size = tuple(max(part.stop - part.start, 0) for part in block)
        if not self.step or 0 in size:
            return self._path.positions(block) if 0 not in size else np.empty((1, *size, 2))
        # Along an axis, cell k is between the nodes k + 1 and k + 2; cubics need their neighbours.
        cells = self.cells(block)
        nodes = self._nodes[0][tuple(slice(part.start, part.stop + 3) for part in cells)]
        origin = [
            (cell.start - 1) * self.step - part.start
            for cell, part in zip(cells, block, strict=True)
        ]
        grid: Array = lattice_grid(
            nodes[np.newaxis],
            (1, 2, *size),
            spacing=self.step,
            origin=origin[::-1],
            threads=threads,
        )
        for cell in self.exact_cells(block):
            inside = tuple(
                slice(part.start - whole.start, part.stop - whole.start)
                for part, whole in zip(cell, block, strict=True)
            )
            grid[0][inside] = self._path.positions(cell)[0]
        return grid

    def dtype(self, image: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype in which an image is sampled at the positions."""
        rounding = float(np.spacing(np.float32(max(self.source.shape) - 1))) / 2
        return real_type(image, np.dtype("f4" if rounding <= ROUNDING * self.tolerance else "f8"))

    def cells(self, block: Sequence[slice]) -> tuple[slice, ...]:
        """Return the cells of the lattice that hold a block's pixels."""
        return tuple(slice(p.start // self.step, -(-p.stop // self.step)) for p in block)

    def exact_cells(self, block: Sequence[slice]) -> list[tuple[slice, ...]]:
        """Return the parts of a block whose positions are computed exactly."""
        cells, step = self.cells(block), self.step
        found = np.argwhere(self._exact[cells]) + [part.start for part in cells]
        return [
            tuple(
                slice(max(int(k) * step, part.start), min((int(k) + 1) * step, part.stop))
                for k, part in zip(cell, block, strict=True)
            )
            for cell in found
        ]

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """The least and the greatest positions in each cell; infinities where there are none."""
        around = np.lib.stride_tricks.sliding_window_view(self._nodes[0], (4, 4), (0, 1))
        low, high = around.min((-2, -1)), around.max((-2, -1))
        reach = OVERSHOOT * (high - low) + 1e-6
        low, high = low - reach, high + reach
        whole = tuple(slice(0, n) for n in self.shape)
        for block in self.exact_cells(whole):
            points = self._path.positions(block)[0].reshape(-1, 2)
            cell = tuple(part.start // self.step for part in block)
            low[cell] = np.where(np.isnan(points), np.inf, points).min(0)
            high[cell] = np.where(np.isnan(points), -np.inf, points).max(0)
        return low, high

    def bounds(self, first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        """Bound the positions of the pixels between two indices; all are x first.

        Returns:
            The least and the greatest position along each axis, or numbers beyond; NaN if no pixel
            of the block has a position.
        """
        block = [slice(a, b + 1) for a, b in zip(first[::-1], last[::-1], strict=True)]
        if not self.step:
            points = self(*block).reshape(-1, 2)
            low = np.where(np.isnan(points), np.inf, points).min(0)
            high = np.where(np.isnan(points), -np.inf, points).max(0)
        else:
            cells = self.cells(block)
            # Cells all around which there are no positions have NaN.
            low = np.fmin.reduce(self._bounds[0][cells].reshape(-1, 2))
            high = np.fmax.reduce(self._bounds[1][cells].reshape(-1, 2))
        empty = ~(low <= high)
        return np.where(empty, np.nan, low), np.where(empty, np.nan, high)

    def points(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Compute the positions of pixels whose indices are ``x`` and ``y``, broadcast.

        With `bounds`, it is a `gridsample.dask.Points`:
        ``gridsample.dask.grid_sample(image, Points(plan.points, plan.bounds), coords="pixel",
        size=plan.shape)``.
        """
        block = [slice(int(k.flat[0]), int(k.flat[-1]) + 1) for k in (y, x)]
        grid = self(*block, threads=1)[0]
        return grid[..., 0], grid[..., 1]


def positions(source: Any, target: Any, tolerance: float = 0.05) -> Positions:
    """Find where the pixels of a raster are in another one, whatever their projections.

    Positions are computed exactly by pyproj at every 64th to every 8th pixel along each axis, and
    interpolated between these by Catmull-Rom cubics.  Errors are measured at five points of each
    cell of this lattice.  Where one is above half of the tolerance, or a position does not exist,
    as at the poles, the antimeridian and the limits of a projection, pyproj computes each pixel,
    in this cell and its neighbours.

    Args:
        source: the raster that will be sampled: a `Raster`, a tuple (crs, transform, shape), or an
            object with these, such as odc-geo's GeoBox (crs, affine, shape).
        target: the raster whose pixels are looked up, likewise.
        tolerance: the largest error of a position, in pixels of the source.  0 computes each
            pixel by pyproj, which takes some 300 ns for each.

    Returns:
        A plan, which computes blocks of positions.

    Raises:
        ModuleNotFoundError: pyproj is not installed.
        TypeError, ValueError: an argument is not accepted.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.geo import positions
        >>> degrees = ("EPSG:4326", (1, 0, 0, 0, -1, 60), (60, 40))
        >>> mercator = ("EPSG:3857", (5e4, 0, 1e6, 0, -5e4, 5e6), (40, 40))
        >>> plan = positions(degrees, mercator)
        >>> image = np.arange(2400.0).reshape(1, 1, 60, 40)
        >>> gridsample.grid_sample(image, plan(), coords="pixel").shape
        (1, 1, 40, 40)
        >>> bool((plan(slice(8, 20)) == plan()[:, 8:20]).all())
        True
    """
    source, target = Raster.of(source, "source"), Raster.of(target, "target")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.number)):
        raise TypeError(f"tolerance must be a number, got {type(tolerance).__name__}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be 0 or a positive number, got {tolerance}")
    exact = path_to(source, target, target.shape, np.eye(3))
    nothing = np.empty((1, 0, 0, 2)), np.empty((0, 0), bool)
    plan = Positions(source, target, tolerance, 0, 0.0, exact, *nothing)
    cost = 1.0  # in exact positions for each pixel
    for step in STEPS if tolerance else ():
        of_lattice = (1 + len(MEASURED)) / step**2
        if of_lattice > cost:
            break
        nodes, is_exact, error = lattice_of(source, target, step, tolerance)
        if of_lattice + is_exact.mean() < cost:
            cost = of_lattice + float(is_exact.mean())
            plan = Positions(source, target, tolerance, step, error, exact, nodes, is_exact)
    return plan


def corners(source: Any, target: Any, tolerance: float = 0.05) -> Positions:
    """Find where the corners of a raster's pixels are in another one: the cells of statistics.

    Args:
        source: as in `positions`.
        target: as in `positions`.
        tolerance: as in `positions`.

    Returns:
        A plan with a row and a column more than the target, for `cell_statistics`.

    Raises:
        ModuleNotFoundError: pyproj is not installed.
        TypeError, ValueError: an argument is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.geo import cell_statistics, corners
        >>> degrees = ("EPSG:4326", (1, 0, 0, 0, -1, 60), (60, 40))
        >>> mercator = ("EPSG:3857", (3e5, 0, 1e6, 0, -3e5, 5e6), (6, 7))
        >>> plan = corners(degrees, mercator)
        >>> image = np.arange(2400.0).reshape(1, 1, 60, 40)
        >>> cell_statistics(image, plan(), "max").shape
        (1, 1, 6, 7)
    """
    raster = Raster.of(target, "target")
    a, b, c, d, e, f = raster.transform
    transform = a, b, c - (a + b) / 2, d, e, f - (d + e) / 2
    shape = tuple(n + 1 for n in raster.shape)
    return positions(source, Raster(raster.crs, transform, shape), tolerance)


def path_to(source: Raster, target: Raster, shape: Sequence[int], pixels: Any) -> Path:
    """Return the path of a lattice whose indices (x, y) a matrix maps to pixels of the target."""
    like = tuple(shape), target.centres() @ pixels
    return path_between(source.centres(), like, [projection_between(target, source)], "xyz")


def lattice_of(
    source: Raster, target: Raster, step: int, tolerance: float
) -> tuple[Array, NDArray[np.bool_], float]:
    """Compute exact positions at every ``step``-th pixel, and where they do not suffice.

    Returns:
        The positions (1, rows, columns, 2) of pixels from -step on to two beyond the last cell;
        which cells are computed exactly; and the largest error elsewhere that was measured.
    """
    cells = [-(-n // step) for n in target.shape]

    def places(counts: Sequence[int], x: float, y: float) -> Array:
        pixels = np.array([[step, 0, x * step], [0, step, y * step], [0, 0, 1.0]])
        grid: Array = path_to(source, target, counts, pixels).positions()
        return grid

    nodes = places([n + 3 for n in cells], -1, -1)
    errors = np.zeros(cells)
    for x, y in MEASURED:
        between = lattice_grid(nodes, (1, 2, *cells), spacing=1, origin=(-1 - x, -1 - y))
        difference = between[0] - places(cells, x, y)[0]
        errors = np.maximum(errors, np.hypot(difference[..., 0], difference[..., 1]))
    with np.errstate(invalid="ignore"):
        is_exact = grown(np.logical_not(errors <= MARGIN * tolerance))
    # Where there is no position far and near, there is none to compute.
    missing = np.isnan(nodes[0, ..., 0])
    windows = np.lib.stride_tricks.sliding_window_view(missing, (4, 4))
    around = np.asarray(windows.all((-2, -1)))
    nowhere = around & np.isnan(errors) & ~grown(~around)
    return nodes, is_exact & ~nowhere, float(errors[~is_exact].max(initial=0.0))


def grown(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return cells with their eight neighbours."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(cells, 1), (3, 3))
    return np.asarray(around.any((-2, -1)))
