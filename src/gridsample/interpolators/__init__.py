"""A drop-in for the interpolators of `scipy.interpolate` on rectilinear grids, and `numpy.interp`.

    from gridsample.interpolators import RegularGridInterpolator, interpn, interp

Signatures, results and messages are SciPy's and NumPy's.  For NumPy arrays, results are computed in
float64.  Torch tensors and JAX arrays are accepted, too; they keep their precision and have
derivatives in values and points.
"""

from __future__ import annotations

from gridsample.interpolators.lines import interp
from gridsample.interpolators.rectangles import RectBivariateSpline
from gridsample.interpolators.tables import RegularGridInterpolator, interpn

__all__ = ["RectBivariateSpline", "RegularGridInterpolator", "interp", "interpn"]
