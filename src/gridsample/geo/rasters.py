"""Rasters: their projections, and where their pixels are on the ground."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.fields.arrays import check_size

Array = NDArray[np.float64]
EDGE_POINTS = 65  # along each axis, whose places give the extent of an output


def require_pyproj() -> Any:
    """Import pyproj, or raise a ModuleNotFoundError that says how to install it."""
    try:
        import pyproj
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "projections need pyproj: pip install 'gridsample[geo]'", name="pyproj"
        ) from error
    return pyproj


class Raster(NamedTuple):
    """The grid of a raster.

    Attributes:
        crs: the coordinate reference system, in any form that `pyproj.CRS` accepts, such as
            "EPSG:32632", a number or a WKT; coordinates are in the order x, y, or longitude,
            latitude, whatever the order of its axes.
        transform: six numbers (a, b, c, d, e, f), or an ``affine.Affine``: the corner of pixel
            (row i, column j) that is nearest to pixel (0, 0) is at x = a j + b i + c and
            y = d j + e i + f.
        shape: the numbers of rows and columns.

    Example:
        >>> from gridsample.geo import Raster
        >>> tile = Raster("EPSG:3857", (10, 0, 0, 0, -10, 0), (256, 256))
        >>> tile.centres().tolist()  # of pixels, from column and row
        [[10.0, 0.0, 5.0], [0.0, -10.0, -5.0], [0.0, 0.0, 1.0]]
    """

    crs: Any
    transform: Sequence[float]
    shape: Sequence[int]

    @classmethod
    def of(cls, raster: Any, name: str) -> Raster:
        """Check a raster, or an object such as odc-geo's GeoBox, and return it in plain numbers.

        Raises:
            ModuleNotFoundError: pyproj is not installed.
            TypeError, ValueError: it is no raster.
        """
        pyproj = require_pyproj()
        if hasattr(raster, "crs") and hasattr(raster, "affine"):
            raster = raster.crs, raster.affine, raster.shape
        try:
            crs, transform, shape = raster
            numbers = np.array([*transform], np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name} must be (crs, transform, shape): a projection, six numbers and the "
                f"numbers of rows and columns; got {type(raster).__name__}"
            ) from None
        affine = numbers[:6]
        if len(affine) < 6 or not np.isfinite(affine).all():
            raise ValueError(f"{name}.transform must hold six finite numbers, got {transform!r}")
        if not affine[0] * affine[4] - affine[1] * affine[3]:
            raise ValueError(
                f"{name}.transform maps all pixels to a line or a point: {transform!r}"
            )
        try:
            known = pyproj.CRS.from_user_input(crs if not hasattr(crs, "to_wkt") else crs.to_wkt())
        except pyproj.exceptions.CRSError as error:
            raise ValueError(f"{name}.crs is no projection that pyproj knows: {error}") from None
        return cls(known.to_wkt(), tuple(affine.tolist()), check_size(shape, 2, f"{name}.shape"))

    def centres(self) -> Array:
        """Return the matrix (3, 3) from (column, row) to the centre of the pixel, (x, y)."""
        a, b, c, d, e, f = self.transform
        return np.array([[a, b, c + (a + b) / 2], [d, e, f + (d + e) / 2], [0.0, 0, 1]])

    def turn(self) -> float:
        """Return 360 degrees in the units of a projection in longitudes, otherwise 0."""
        known = crs_of(self.crs)
        if not known.is_geographic:
            return 0.0
        return 2 * math.pi / float(known.axis_info[0].unit_conversion_factor)

    def is_around_the_globe(self) -> bool:
        """Whether columns are meridians, and the last one is beside the first."""
        a, b, _, d, _, _ = self.transform
        turn = self.turn()
        return (
            bool(turn) and b == d == 0 and math.isclose(abs(a) * self.shape[1], turn, rel_tol=1e-9)
        )

    def period(self) -> float | None:
        """Return the number of columns after which longitudes are the same again, or None."""
        a, b, _, d, _, _ = self.transform
        if self.is_around_the_globe():
            return float(self.shape[1])
        return self.turn() / abs(a) if self.turn() and b == d == 0 else None


@functools.lru_cache(64)
def crs_of(wkt: str) -> Any:
    """Return a projection of pyproj."""
    import pyproj

    return pyproj.CRS.from_wkt(wkt)


@functools.lru_cache(64)
def transformer(source: str, target: str, _thread: int) -> Any:
    """Return pyproj's transformer of a thread."""
    import pyproj

    return pyproj.Transformer.from_crs(crs_of(source), crs_of(target), always_xy=True)


def covering(source: Raster, crs: Any, resolution: Any = None) -> Raster:
    """Return the raster in another projection that covers one.

    Args:
        source: the raster.
        crs: the projection.
        resolution: the size of pixels, or a pair for x and y; by default the diagonal has as many
            pixels as before.

    Raises:
        ValueError: the projection is unknown, no part of the raster has a place in it, or the
            resolution is not positive.
    """
    unit = Raster.of((crs, (1, 0, 0, 0, -1, 0), (1, 1)), "crs")
    x, y = places(source, unit.crs)
    if not x.size:
        raise ValueError("no part of the image has a place in the projection crs")
    width, height = np.ptp(x), np.ptp(y)
    if resolution is None:
        resolution = math.hypot(width, height) / math.hypot(*source.shape)
    sizes = np.atleast_1d(np.asarray(resolution, np.float64))
    if sizes.shape not in ((1,), (2,)) or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise ValueError(f"resolution must be one or two positive numbers, got {resolution!r}")
    dx, dy = np.broadcast_to(sizes, 2).tolist()
    shape = [max(1, math.ceil(n - 1e-6)) for n in (height / dy, width / dx)]
    return Raster(unit.crs, (dx, 0.0, float(x.min()), 0.0, -dy, float(y.max())), tuple(shape))


def places(source: Raster, crs: str) -> Any:
    """Return where points of an image are in a projection: those that have a place there."""
    rows, columns = source.shape
    a, b, c, d, e, f = source.transform
    j, i = np.meshgrid(np.linspace(0, columns, EDGE_POINTS), np.linspace(0, rows, EDGE_POINTS))
    x, y = a * j + b * i + c, d * j + e * i + f
    if source.crs != crs:
        x, y = transformer(source.crs, crs, 0).transform(x, y)
    known = np.isfinite(x) & np.isfinite(y)
    return x[known], y[known]


class GroundProjection(NamedTuple):
    """From the ground of one raster to that of another; what has no place there is NaN.

    Attributes:
        start: the projection of points.
        end: the projection of the result.
        turn: the period of longitudes, 0 if results are not periodic.
        middle: longitudes are returned within half a turn of this one.
    """

    start: str
    end: str
    turn: float = 0.0
    middle: float = 0.0

    def __call__(self, points: Array) -> Array:
        """Project points (..., 2)."""
        x, y = points[..., 0], points[..., 1]
        if self.start != self.end:
            x, y = transformer(self.start, self.end, threading.get_ident()).transform(x, y)
        projected = np.stack(np.broadcast_arrays(x, y), -1)
        projected[~np.isfinite(projected).all(-1)] = np.nan
        if self.turn:
            turns = np.floor((projected[..., 0] - self.middle) / self.turn + 0.5)
            projected[..., 0] -= self.turn * turns
        return projected


def projection_between(target: Raster, source: Raster) -> GroundProjection:
    """Return the projection from the target's ground to the source's.

    Longitudes are those near the middle of the target where the source surrounds the globe, so that
    their ends are far from most targets, and otherwise those near the middle of the source.
    """
    turn = source.turn()
    rows, columns = source.shape
    middle = float((source.centres() @ [(columns - 1) / 2, (rows - 1) / 2, 1])[0])
    if turn and source.is_around_the_globe():
        rows, columns = target.shape
        centre = (target.centres() @ [(columns - 1) / 2, (rows - 1) / 2, 1])[:2]
        longitude = float(GroundProjection(target.crs, source.crs)(centre)[0])
        middle = longitude if math.isfinite(longitude) else middle
    return GroundProjection(target.crs, source.crs, turn, middle)
