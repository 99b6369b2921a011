"""Rasters on the ground: where the pixels of one are in another, whatever their projections.

`positions` computes a plan with pyproj, `corners` one for `cell_statistics`, which summarises the
pixels in each cell of a grid; `gridsample.xarray.reproject` resamples a DataArray by them.
"""

from gridsample.geo.plans import Positions, corners, positions
from gridsample.geo.rasters import Raster
from gridsample.ops.cell_statistics import cell_statistics

__all__ = ["Positions", "Raster", "cell_statistics", "corners", "positions"]
