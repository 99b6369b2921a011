"""A drop-in for the functions of `skimage.transform` that resize and warp.

    import gridsample.skimage as transform     in place of     import skimage.transform as transform

Names, signatures, defaults, modes, dtypes and errors are scikit-image's, which need not be
installed.  Torch tensors are accepted, too; they stay tensors, and have derivatives.
`gridsample.help("skimage")` lists the differences from scikit-image, and their reasons.
"""

from __future__ import annotations

from gridsample.skimage.curved import swirl, warp_polar
from gridsample.skimage.resizing import downscale_local_mean, rescale, resize
from gridsample.skimage.warping import rotate, warp

__all__ = [
    "downscale_local_mean",
    "rescale",
    "resize",
    "rotate",
    "swirl",
    "warp",
    "warp_polar",
]
