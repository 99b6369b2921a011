"""The interpolation functions of `scipy.ndimage`, by their names, signatures, modes and numbers.

    import gridsample.ndimage as ndimage      in place of      import scipy.ndimage as ndimage

NumPy arrays give SciPy's results: sums are made in float64, and integers are rounded half away
from zero.  Torch tensors are taken too; they keep their precision and have derivatives.  What
differs from SciPy, and why, stands in docs/ndimage.md.

A mode of SciPy's is a record here (`MODES`): which boundary its taps have, how the prefilter sees
the image's ends, and what becomes of a position beyond them.
"""

from __future__ import annotations

from gridsample.ndimage.axes import shift, zoom
from gridsample.ndimage.matrices import affine_transform, rotate
from gridsample.ndimage.modes import MODES  # noqa: F401
from gridsample.ndimage.positions import geometric_transform, map_coordinates
from gridsample.ndimage.prefilter import spline_filter, spline_filter1d
from gridsample.ndimage.scipys import scipy_originals  # noqa: F401

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
