"""The names that options accept, as types, so that editors complete and checkers check them.

Names that a program registers are not among them: a `Method` itself is accepted in place of its
name.
"""

from __future__ import annotations

from typing import Literal

# Methods of sampling, and their aliases.
MethodName = Literal[
    "nearest",
    "linear",
    "cubic",
    "catmull-rom",
    "mitchell",
    "spline2",
    "spline3",
    "spline4",
    "spline5",
    "spline6",
    "spline7",
    "lanczos2",
    "lanczos3",
    "lanczos4",
    "label",
    "bilinear",
    "trilinear",
    "bicubic",
    "tricubic",
    "lanczos",
    "spline0",
    "spline1",
]
# Methods that only resize.
ResizingName = Literal["nearest-exact", "area", "gaussian"]
BoundaryName = Literal[
    "zeros",
    "constant",
    "border",
    "reflection",
    "symmetric",
    "mirror",
    "wrap",
    "antisymmetric",
    "antimirror",
    "dst1",
    "missing",
]
CoordsName = Literal["normalized", "pixel", "displacement"]
# The units of affine maps.
MapCoordsName = Literal["normalized", "pixel"]
# The units of fields.
FieldCoordsName = Literal["pixel", "displacement"]
# The units of sums over several images.
SumCoordsName = Literal["normalized", "pixel", "unit"]
# How values that compete for a pixel are combined.
SplatName = Literal["sum", "average", "linear", "soft", "maximum"]
MissingName = Literal["propagate", "ignore"]
FootprintName = Literal["attach", "detach"]
# How lattices of control points are interpolated.
LatticeName = Literal["linear", "catmull-rom", "spline3"]
EndName = Literal["edges", "centers", "continue"]
