"""A drop-in for the interpolation functions of `scipy.ndimage`.

    import gridsample.ndimage as ndimage      in place of      import scipy.ndimage as ndimage

Names, signatures, modes and results are SciPy's.  For NumPy arrays, sums are computed in float64,
and integers are rounded half away from zero.  Torch tensors are accepted, too; they keep their
precision and have derivatives.  `gridsample.help("ndimage")` lists the differences from SciPy, and
their reasons.

Each of SciPy's modes is a record (`MODES`): the boundary of its taps, the extension of the image
for the prefilter, and the treatment of positions outside.
"""

from __future__ import annotations

from gridsample.ndimage.axes import shift, zoom
from gridsample.ndimage.matrices import affine_transform, rotate
from gridsample.ndimage.modes import MODES  # noqa: F401
from gridsample.ndimage.positions import geometric_transform, map_coordinates
from gridsample.ndimage.prefilter import spline_filter, spline_filter1d

__all__ = [
    "affine_transform",
    "geometric_transform",
    "map_coordinates",
    "rotate",
    "shift",
    "spline_filter",
    "spline_filter1d",
    "zoom",
]
