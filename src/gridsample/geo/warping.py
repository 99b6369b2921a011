"""Values at the positions of a plan, in memory or lazy: what is missing, and what is outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.shapes import bands_along
from gridsample.definitions.statistics import NAMES, statistic_of
from gridsample.geo.cells import Summary
from gridsample.geo.plans import Positions, path_to, positions
from gridsample.geo.rasters import Array, Raster
from gridsample.ops.sampling import grid_sample

# The names of methods of geospatial libraries: the mode, and whether pixels are averaged.
METHODS = {
    "nearest": ("nearest", False),
    "bilinear": ("linear", None),
    "cubic": ("catmull-rom", None),
    "lanczos": ("lanczos3", None),
    "mode": ("label", True),
}
# Those that summarise the pixels of a cell, and what `cell_statistics` calls them.
STATISTICS = {"average": "mean"} | {name: name for name in NAMES if name != "mean"}
BAND = 2**20  # positions that are in memory at once
SPARSE = 16  # the distance of pixels that are looked at to find where the globe is cut
TOLERANCE = 1e-3  # by which pixels may be farther apart than those of the image, and not shrink it


class Resampling(NamedTuple):
    """How values are computed.

    Attributes:
        mode: the mode of `grid_sample`.
        antialias: whether pixels are averaged over the area that an output covers.
        nodata: the value of missing pixels, or None: NaN, and 0 for outputs of integers.
        min_weight: as in `grid_sample`.
        threads: as in `grid_sample`; None for the default.
    """

    mode: str
    antialias: bool
    nodata: Any = None
    min_weight: float = 0.5
    threads: int | None = None

    def plan(self, source: Raster, target: Raster, tolerance: float = 0.05) -> Positions:
        """Return where the target's pixels are."""
        return positions(source, target, tolerance)

    def dtype(self, image: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of results."""
        return image.newbyteorder("=")

    def shape(self, plan: Positions) -> tuple[int, int]:
        """Return the rows and columns of results."""
        return plan.shape

    @property
    def copies(self) -> bool:
        """Whether outputs are copies of pixels."""
        return self.mode in ("nearest", "label")

    def fill(self, dtype: np.dtype[Any]) -> Any:
        """Return the value of missing outputs."""
        if self.nodata is not None:
            return self.nodata
        return np.nan if dtype.kind in "fc" else 0

    def weights(self, values: Any) -> Any:
        """Return which pixels count; None for all but NaN."""
        is_number = self.nodata is not None and self.nodata == self.nodata
        return values != self.nodata if is_number and not self.copies else None

    def options(self, dtype: np.dtype[Any], source: Raster) -> dict[str, Any]:
        """Return the options of `grid_sample`, for an image of a raster."""
        around = source.is_around_the_globe()
        options: dict[str, Any] = {
            "mode": self.mode,
            "padding_mode": ("wrap", "border") if around else "border",
            "extrapolate": (around or "edges", "edges"),
            "fill_value": self.fill(dtype),
            "coords": "pixel",
            "antialias": self.antialias,
        }
        if not self.copies:
            options |= {"missing": "ignore", "min_weight": self.min_weight}
        return options if self.threads is None else options | {"threads": self.threads}

    def bands(self, values: Any, plan: Positions) -> Iterator[Any]:
        """Resample an image in memory, (1, C, rows, columns); yield results in bands of rows."""
        options, weights = self.options(values.dtype, plan.source), self.weights(values)
        around, real = int(self.antialias), plan.dtype(values.dtype)
        for rows in bands_along(plan.shape, BAND):
            # Footprints depend on the neighbours of a point.
            low, high = max(rows.start - around, 0), min(rows.stop + around, plan.shape[0])
            points = plan(slice(low, high), threads=self.threads).astype(real, copy=False)
            band = grid_sample(values, points, weights=weights, **options)
            yield with_fill(np, band[:, :, rows.start - low : rows.stop - low], self)

    def lazily(self, values: Any, plan: Positions, chunks: Any) -> Any:
        """Sample a Dask array; each chunk of the result reads the chunks that it needs."""
        import dask.array as da

        from gridsample.dask.grids import at_grid
        from gridsample.dask.sampling import PlannedPoints

        options = self.options(values.dtype, plan.source)
        keywords = {"threads": 1, **options, "real": plan.dtype(values.dtype)}
        points, coords = PlannedPoints(plan), keywords.pop("coords")
        weights = self.weights(values)
        result = at_grid(values, points, coords, None, chunks, plan.shape, weights, **keywords)
        return with_fill(da, result, self)


def method_of(
    method: Any, antialias: bool | None = None, *, min_weight: Any, threads: Any
) -> Resampling | Summary:
    """Check a method and its options.

    antialias: whether to average; None for what the method does by default.
    min_weight: None for half of the weight where values are interpolated or averaged, and for any
        pixel in other statistics.
    """
    if antialias not in (None, True, False):
        raise TypeError(f"antialias must be a bool or None, got {antialias!r}")
    is_quantile = isinstance(method, (int, float, np.number)) and not isinstance(method, bool)
    if not is_quantile and method not in (*METHODS, *STATISTICS):
        raise ValueError(
            f"method must be one of {', '.join((*METHODS, *STATISTICS))}, or a number from 0 to 1 "
            f"for a quantile; got {method!r}"
        )
    averages = METHODS[method][1] if method in METHODS else True
    if averages is not None and antialias not in (None, averages):
        raise ValueError(
            f"method {method!r} {'always averages' if averages else 'copies pixels'}; accepted "
            "with antialias: bilinear, cubic, lanczos"
        )
    if min_weight is None:
        min_weight = 0.5 if method in METHODS or method == "average" else 0.0
    if method in METHODS:
        mode = METHODS[method][0]
        return Resampling(mode, bool(averages or antialias), None, min_weight, threads)
    statistic = method if is_quantile else STATISTICS[method]
    statistic_of(statistic)
    return Summary(statistic, None, min_weight, threads)


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


def warped(values: Any, plan: Positions, method: Resampling | Summary, chunks: Any = None) -> Any:
    """Resample an image (1, C, rows, columns), a NumPy or a Dask array, by the plan of a method.

    Returns:
        The result (1, C, rows, columns).
    """
    if hasattr(values, "dask"):
        return method.lazily(values, plan, chunks)
    shape = method.shape(plan)
    result, first = np.empty((*values.shape[:2], *shape), method.dtype(values.dtype)), 0
    for band in method.bands(values, plan):
        result[:, :, first : first + band.shape[2]] = band
        first += band.shape[2]
    return result


def with_fill(xp: Any, values: Any, resampling: Resampling) -> Any:
    """Return results with the nodata value where they are NaN."""
    fill = resampling.fill(values.dtype)
    if values.dtype.kind in "fc" and fill == fill:
        values = xp.where(xp.isnan(values), values.dtype.type(fill), values)
    return values
