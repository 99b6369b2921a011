"""Cameras: views of 3-D points, lenses and panoramas.

Pixels are counted from the centre of the first pixel, x to the right, y down: the positions of
``gridsample.grid_sample(..., coords="pixel")``.  All grids that this package makes are in pixels.

    project, sample_views                           project points into views, and sample them there
    plane_sweep                                     compare views on planes at many depths
    distort_points, undistort_points                lens distortion, and its inverse
    undistort_grid, stereo_grids                    grids that remove it
    optimal_intrinsics                              the field of view of undistorted images
    convert_panorama, panorama_grid, panorama_rays  conversions between projections
    equirectangular, cubemap, perspective           describe these projections
"""

from __future__ import annotations

from gridsample.cameras.framing import optimal_intrinsics
from gridsample.cameras.lenses import distort_points, stereo_grids, undistort_grid
from gridsample.cameras.panoramas import (
    convert_panorama,
    convert_panorama_vjp,
    look,
    panorama_grid,
    panorama_rays,
)
from gridsample.cameras.projections import FACES, Projection, cubemap, equirectangular, perspective
from gridsample.cameras.sweep import plane_sweep, plane_sweep_vjp
from gridsample.cameras.undistortion import undistort_points
from gridsample.cameras.views import ViewSamples, project, sample_views, sample_views_vjp

__all__ = [
    "FACES",
    "Projection",
    "ViewSamples",
    "convert_panorama",
    "convert_panorama_vjp",
    "cubemap",
    "distort_points",
    "equirectangular",
    "look",
    "optimal_intrinsics",
    "panorama_grid",
    "panorama_rays",
    "perspective",
    "plane_sweep",
    "plane_sweep_vjp",
    "project",
    "sample_views",
    "sample_views_vjp",
    "stereo_grids",
    "undistort_grid",
    "undistort_points",
]
