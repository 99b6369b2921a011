"""Values at the positions of a plan, in memory or lazy: what is missing, and what is outside."""

from __future__ import annotations

from collections.abc import Iterator
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


def warped(values: Any, plan: Positions, resampling: Resampling, chunks: Any = None) -> Any:
    """Resample an image (1, C, rows, columns), a NumPy or a Dask array, at the positions of a plan.

    Returns:
        The result (1, C, rows, columns), in the dtype of the image.
    """
    if not hasattr(values, "dask"):
        bands = [*warped_bands(values, plan, resampling)]
        return bands[0] if len(bands) == 1 else np.concatenate(bands, 2)
    import dask.array as da

    result = sampled_lazily(values, plan, resampling, chunks)
    return with_fill(da, result, resampling)


def warped_bands(values: Any, plan: Positions, resampling: Resampling) -> Iterator[Any]:
    """Resample an image in memory, (1, C, rows, columns), and yield the result in bands of rows."""
    options, weights = resampling.options(values.dtype, plan.source), resampling.weights(values)
    (rows, columns), around = plan.shape, int(resampling.antialias)
    height = max(1, BAND // columns)
    for first in range(0, rows, height):
        last = min(first + height, rows)
        # Footprints depend on the neighbours of a point.
        low, high = max(first - around, 0), min(last + around, rows)
        band = grid_sample(values, plan(slice(low, high)), weights=weights, **options)
        yield with_fill(np, band[:, :, first - low : last - low], resampling)


def with_fill(xp: Any, values: Any, resampling: Resampling) -> Any:
    """Return results with the number of missing ones; those without a place are NaN before."""
    fill = resampling.fill(values.dtype)
    if values.dtype.kind in "fc" and fill == fill:
        values = xp.where(xp.isnan(values), values.dtype.type(fill), values)
    return values


def sampled_lazily(values: Any, plan: Positions, resampling: Resampling, chunks: Any) -> Any:
    """Sample a Dask array; each chunk of the result reads the chunks that it needs."""
    from gridsample.dask import Points
    from gridsample.dask.grids import at_grid

    options = resampling.options(values.dtype, plan.source)
    keywords = {"threads": 1, **options, "real": np.dtype(np.float64)}
    bounds: Any = plan.bounds
    points, coords = Points(plan.points, bounds), keywords.pop("coords")
    weights = resampling.weights(values)
    return at_grid(values, points, coords, None, chunks, plan.shape, weights, **keywords)
