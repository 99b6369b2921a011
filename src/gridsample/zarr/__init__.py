"""Warping, resizing and pyramids of images in Zarr stores, which may be larger than memory.

Input and output are folders with Zarr arrays or OME-Zarr images, of Zarr version 2 or 3, with
shards or without.  The output is computed chunk by chunk, or shard by shard, by several threads.
It appears at its path when it is complete.  A call that was ended, even by `kill -9`, continues
when it is repeated: what is finished is not computed again.
"""

from gridsample.io.stores import Traffic
from gridsample.zarr.layouts import Layout
from gridsample.zarr.pyramids import pyramid
from gridsample.zarr.resizing import resize
from gridsample.zarr.warping import warp

__all__ = ["Layout", "Traffic", "pyramid", "resize", "warp"]
