"""OpenCV's `remap`, `resize`, `undistort` and other geometric functions, without OpenCV.

    import gridsample.cv as cv      in place of      import cv2 as cv

Images are (H, W) or (H, W, C) arrays of any real dtype, any number of channels and any size.  The
conventions are OpenCV's: sizes are (width, height), matrices map the source to the destination
unless WARP_INVERSE_MAP is set, and pixel centres have integer coordinates.  Positions and weights
are floating-point, whereas OpenCV rounds fractions to 1/32 and is limited to 32,767 pixels per
axis.  `gridsample.help("cv")` lists the other differences.
"""

from __future__ import annotations

from gridsample.cv.arguments import (
    BORDER_CONSTANT,
    BORDER_DEFAULT,
    BORDER_ISOLATED,
    BORDER_REFLECT,
    BORDER_REFLECT101,
    BORDER_REFLECT_101,
    BORDER_REPLICATE,
    BORDER_TRANSPARENT,
    BORDER_WRAP,
    INTER_AREA,
    INTER_CUBIC,
    INTER_LANCZOS4,
    INTER_LINEAR,
    INTER_LINEAR_EXACT,
    INTER_NEAREST,
    INTER_NEAREST_EXACT,
    WARP_FILL_OUTLIERS,
    WARP_INVERSE_MAP,
    WARP_POLAR_LINEAR,
    WARP_POLAR_LOG,
    WARP_RELATIVE_MAP,
)
from gridsample.cv.lenses import initUndistortRectifyMap, undistort, undistortPoints
from gridsample.cv.maps import (
    CV_16SC2,
    CV_32FC1,
    CV_32FC2,
    convertMaps,
    getRotationMatrix2D,
)
from gridsample.cv.polar import warpPolar
from gridsample.cv.pyramids import pyrDown, pyrUp
from gridsample.cv.resizing import resize
from gridsample.cv.warping import remap, warpAffine, warpPerspective

__all__ = [
    "BORDER_CONSTANT",
    "BORDER_DEFAULT",
    "BORDER_ISOLATED",
    "BORDER_REFLECT",
    "BORDER_REFLECT101",
    "BORDER_REFLECT_101",
    "BORDER_REPLICATE",
    "BORDER_TRANSPARENT",
    "BORDER_WRAP",
    "CV_16SC2",
    "CV_32FC1",
    "CV_32FC2",
    "INTER_AREA",
    "INTER_CUBIC",
    "INTER_LANCZOS4",
    "INTER_LINEAR",
    "INTER_LINEAR_EXACT",
    "INTER_NEAREST",
    "INTER_NEAREST_EXACT",
    "WARP_FILL_OUTLIERS",
    "WARP_INVERSE_MAP",
    "WARP_POLAR_LINEAR",
    "WARP_POLAR_LOG",
    "WARP_RELATIVE_MAP",
    "convertMaps",
    "getRotationMatrix2D",
    "initUndistortRectifyMap",
    "pyrDown",
    "pyrUp",
    "remap",
    "resize",
    "undistort",
    "undistortPoints",
    "warpAffine",
    "warpPerspective",
    "warpPolar",
]
