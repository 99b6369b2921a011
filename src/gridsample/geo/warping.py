"""Values at the positions of a plan, in memory or lazy: what is missing, and what is outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.geo.plans import Positions, path_to
from gridsample.geo.rasters import Array, Raster
from gridsample.ops.sampling import grid_sample

# The names of methods of geospatial libraries: the mode, and whether pixels are averaged.
METHODS = {
    "nearest": ("nearest", False),
    "bilinear": ("linear", None),
    "cubic": ("catmull-rom", None),
    "lanczos": ("lanczos3", None),
    "average": ("linear", True),
    "mode": ("label", True),
}
BAND = 2**20  # positions that are in memory at once
SPARSE = 16  # the distance of pixels that are looked at to find where the globe is cut
TOLERANCE = 1e-3  # by which pixels may be farther apart than those of the image, and not shrink it


class Resampling(NamedTuple):
    """How values are computed.

    Attributes:
        mode: the mode of `grid_sample`.
        antialias: whether pixels are averaged over the area that an output covers.
        nodata: the number of missing pixels, or None: NaN, and 0 for outputs of integers.
        min_weight: as in `grid_sample`.
        threads: as in `grid_sample`; None for the default.
    """

    mode: str
    antialias: bool
    nodata: Any = None
    min_weight: float = 0.5
    threads: int | None = None

    @property
    def copies(self) -> bool:
        """Whether outputs are copies of pixels."""
        return self.mode in ("nearest", "label")

    def fill(self, dtype: np.dtype[Any]) -> Any:
        """Return the number of missing outputs."""
        if self.nodata is not None:
            return self.nodata
        return np.nan if dtype.kind in "fc" else 0

    def weights(self, values: Any) -> Any:
        """Return which pixels count; None for all but NaN."""
        is_number = self.nodata is not None and self.nodata == self.nodata
        return values != self.nodata if is_number and not self.copies else None

    def options(self, dtype: np.dtype[Any], around: bool) -> dict[str, Any]:
        """Return the options of `grid_sample`, for an image around the globe or another one."""
        options: dict[str, Any] = {
            "mode": self.mode,
            "padding_mode": ("wrap", "border") if around else "border",
            "coords": "pixel",
            "antialias": self.antialias,
        }
        if not self.copies:
            options |= {"missing": "ignore", "min_weight": self.min_weight}
        if not (around and self.antialias):
            options |= {"extrapolate": "edges", "fill_value": self.fill(dtype)}
        elif dtype.kind not in "fc" and self.nodata:  # otherwise 0, the number of a NaN position
            options["fill_value"] = self.nodata
        return options if self.threads is None else options | {"threads": self.threads}


class GlobePoints(NamedTuple):
    """The positions of a plan in an image around the globe: a function of a `Points`.

    Columns are folded into the image, so that only rows are outside.  Footprints need positions
    that are near each other: they keep their columns, and are NaN beyond the outermost rows, as the
    option ``extrapolate="edges"`` would end the columns, too.
    """

    plan: Positions
    folds: bool

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Compute positions, as `Positions.points` does."""
        columns, rows = self.plan.points(x, y)
        height, width = self.plan.source.shape
        with np.errstate(invalid="ignore"):
            if self.folds:
                return columns - width * np.floor((columns + 0.5) / width), rows
            return columns, np.where((rows < -0.5) | (rows > height - 0.5), np.nan, rows)

    def bounds(self, first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        """Bound positions, as `Positions.bounds` does."""
        low, high = self.plan.bounds(first, last)
        width = self.plan.source.shape[1]
        if self.folds and np.isfinite(low[0]):
            turns = np.floor((np.array([low[0], high[0]]) + 0.5) / width)
            if turns[0] == turns[1]:
                low[0], high[0] = np.array([low[0], high[0]]) - width * turns[0]
            else:
                low[0], high[0] = -0.5, width - 0.5
        return low, high


def resampling_of(method: str, antialias: bool | None, **options: Any) -> Resampling:
    """Check a method and whether it averages."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    mode, averages = METHODS[method]
    if antialias not in (None, True, False):
        raise TypeError(f"antialias must be a bool or None, got {antialias!r}")
    if averages is not None and antialias not in (None, averages):
        raise ValueError(
            f"method {method!r} {'always averages' if averages else 'copies pixels'}; accepted "
            "with antialias: bilinear, cubic, lanczos"
        )
    return Resampling(mode, bool(averages or antialias), **options)


def sparse_differences(source: Raster, target: Raster) -> list[Array]:
    """Return differences of positions in the source, `SPARSE` target pixels apart, down and right.

    They are (rows, columns, 2), of x and y.
    """
    counts = [-(-n // SPARSE) + 1 for n in target.shape]
    places = path_to(source, target, counts, np.diag([SPARSE, SPARSE, 1.0])).positions()[0]
    with np.errstate(invalid="ignore"):
        return [np.abs(np.diff(places, axis=k)) for k in (0, 1)]


def shrinks(source: Raster, target: Raster) -> bool:
    """Whether pixels of the target are farther apart than those of the source, somewhere."""
    for differences in sparse_differences(source, target):
        with np.errstate(invalid="ignore"):
            near = differences[..., 0] <= source.shape[1] / 2  # and not across a cut
            far = np.linalg.norm(differences, axis=-1) > SPARSE * (1 + TOLERANCE)
        if (near & far).any():
            return True
    return False


def check_footprints(source: Raster, target: Raster) -> None:
    """Raise a ValueError if a footprint spans the cut of an image around the globe."""
    half = source.shape[1] / 2
    if any((each[..., 0] > half).any() for each in sparse_differences(source, target)):
        raise ValueError(
            "areas of outputs span the meridian at which the image around the globe is cut, "
            "opposite of the output's centre; accepted there: antialias=False and the methods "
            "nearest, bilinear, cubic, lanczos; or reproject parts that have no pole inside"
        )


def warped(values: Any, plan: Positions, resampling: Resampling, chunks: Any = None) -> Any:
    """Resample an image (1, C, rows, columns), a NumPy or a Dask array, at the positions of a plan.

    Returns:
        The result (1, C, rows, columns), in the dtype of the image.
    """
    if not hasattr(values, "dask"):
        bands = [*warped_bands(values, plan, resampling)]
        return bands[0] if len(bands) == 1 else np.concatenate(bands, 2)
    import dask.array as da

    around = check_globe(plan, resampling)
    options, weights = resampling.options(values.dtype, around), resampling.weights(values)
    points = points_of(plan, resampling)
    function, bounds = (points, points.bounds) if around else (points, plan.bounds)
    result = sampled_lazily(values, function, bounds, plan.shape, chunks, weights, options)
    return with_fill(da, result, resampling)


def warped_bands(values: Any, plan: Positions, resampling: Resampling) -> Iterator[Any]:
    """Resample an image in memory, (1, C, rows, columns), and yield the result in bands of rows."""
    options = resampling.options(values.dtype, check_globe(plan, resampling))
    points, weights = points_of(plan, resampling), resampling.weights(values)
    (rows, columns), around = plan.shape, int(resampling.antialias)
    height = max(1, BAND // columns)
    for first in range(0, rows, height):
        last = min(first + height, rows)
        # Footprints depend on the neighbours of a point.
        low, high = max(first - around, 0), min(last + around, rows)
        grid = np.stack(points(np.arange(columns)[None], np.arange(low, high)[:, None]), -1)
        band = grid_sample(values, grid[None], weights=weights, **options)
        yield with_fill(np, band[:, :, first - low : last - low], resampling)


def points_of(plan: Positions, resampling: Resampling) -> Any:
    """Return the function of the positions at which an image is sampled."""
    if plan.source.is_around_the_globe():
        return GlobePoints(plan, not resampling.antialias)
    return plan.points


def check_globe(plan: Positions, resampling: Resampling) -> bool:
    """Return whether an image is around the globe; an error if it cannot be averaged there."""
    around = plan.source.is_around_the_globe()
    if around and resampling.antialias:
        check_footprints(plan.source, plan.target)
        if resampling.copies and resampling.nodata:
            raise ValueError(
                "nodata must be 0 or None for an image around the globe and the method 'mode', "
                f"got {resampling.nodata}"
            )
    return around


def with_fill(xp: Any, values: Any, resampling: Resampling) -> Any:
    """Return results with the number of missing ones; those without a place are NaN before."""
    fill = resampling.fill(values.dtype)
    if values.dtype.kind in "fc" and fill == fill:
        values = xp.where(xp.isnan(values), values.dtype.type(fill), values)
    return values


def sampled_lazily(
    values: Any,
    function: Any,
    bounds: Any,
    shape: Sequence[int],
    chunks: Any,
    weights: Any,
    options: dict[str, Any],
) -> Any:
    """Sample a Dask array; each chunk of the result reads the chunks that it needs."""
    from gridsample.dask import Points
    from gridsample.dask.grids import at_grid

    points = Points(function, bounds)
    keywords = {"threads": 1, **options, "real": np.dtype(np.float64)}
    coords = keywords.pop("coords")
    return at_grid(values, points, coords, None, chunks, tuple(shape), weights, **keywords)
