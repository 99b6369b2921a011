"""Sampling, resizing and filtering of chunked images that need not fit in memory, with dask.

The functions are lazy: they make dask arrays of one task for each chunk of the result, which reads
only the chunks of the image that it needs, and compute nothing themselves.  Results are bitwise
those of the same call in memory; splines that are filtered in chunks are within 1e-15 of the range
of the image, in float64.  See `gridsample.help("dask")`.
"""

try:
    import dask.array  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        'gridsample.dask needs dask: pip install "gridsample[dask]"', name="dask"
    ) from error

from gridsample.dask.grids import coordinate_bounds, grid_sample
from gridsample.dask.lattices import lattice_points
from gridsample.dask.maps import affine_sample
from gridsample.dask.ndimage import affine_transform, map_coordinates, zoom
from gridsample.dask.resizing import interpolate, regrid_conservative
from gridsample.dask.sampling import Points
from gridsample.dask.splatting import splat
from gridsample.dask.splines import spline_filter
from gridsample.dask.storing import store
from gridsample.dask.world import resample
from gridsample.world import BoundedTransform

__all__ = [
    "BoundedTransform",
    "Points",
    "affine_sample",
    "affine_transform",
    "coordinate_bounds",
    "grid_sample",
    "interpolate",
    "lattice_points",
    "map_coordinates",
    "regrid_conservative",
    "resample",
    "splat",
    "spline_filter",
    "store",
    "zoom",
]
