"""Resampling and interpolation of xarray's DataArrays by their coordinates.

A DataArray goes in and comes out: its name, attributes and all coordinates that are not resampled
are kept, and the new coordinates are those that are asked for.  Arrays of Dask stay lazy.
"""

from gridsample.geo.dataarrays import reproject
from gridsample.xarray.interpolation import interp, interp_like
from gridsample.xarray.regridding import regrid_conservative
from gridsample.xarray.resampling import resample

__all__ = ["interp", "interp_like", "regrid_conservative", "reproject", "resample"]
