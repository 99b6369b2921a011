"""Rasters on the ground: where the pixels of one are in another, whatever their projections.

`positions` computes a plan with pyproj; `gridsample.xarray.reproject` resamples a DataArray by it.
"""

from gridsample.geo.plans import Positions, positions
from gridsample.geo.rasters import Raster

__all__ = ["Positions", "Raster", "positions"]
