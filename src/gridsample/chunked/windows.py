"""Windows: images of which only a region is in memory.

A window is an array with the shape of the whole image.  Its strides are those of the region, so
that the region is contiguous in memory, and pixels elsewhere share addresses.  A kernel that reads
only the region computes the bits of the whole; one that reads elsewhere, as for the taps of invalid
points, which it then discards, finds some number in the window's own memory.  That memory is as
large as the greatest offset, but the system provides only those pages that are written to.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gridsample.chunked.regions import Block, Region
from gridsample.definitions.shapes import Shape

Array = np.ndarray[Any, Any]

# From this number of bytes on, memory is requested from Linux without reserving it.
MIN_MAPPED_BYTES = 1 << 24
MAP_NORESERVE = 0x4000  # the module mmap has no name for it before Python 3.13


class ImageWindow:
    """An image of which a region is in memory.

    Attributes:
        array: the image, (N, C, *spatial), or (N, *spatial, C) for channels last.  Only entries of
            the region may be used.
        region: the region.
    """

    def __init__(self, region: Region, shape: Shape, dtype: Any, channel_axis: int = 1) -> None:
        """Make room for a region.

        Args:
            region: the region.
            shape: the shape of the image, with the N and C of the block.
            dtype: its dtype.
            channel_axis: 1 or -1.
        """
        last = channel_axis == -1
        spatial = shape[1:-1] if last else shape[2:]
        extents = [max((stop for _, stop in intervals), default=1) for intervals in region.axes]
        starts = [min((start for start, _ in intervals), default=0) for intervals in region.axes]
        region_shape = [stop - start for start, stop in zip(starts, extents, strict=True)]
        channels = shape[-1] if last else shape[1]
        step, strides = channels if last else 1, list[int]()
        for n in reversed(region_shape):
            strides.insert(0, step)
            step *= n
        # Every index within the image's shape is within this memory.
        span = 1 + sum((n - 1) * stride for n, stride in zip(spatial, strides, strict=True))
        span += channels - 1 if last else 0
        planes = shape[0] * (1 if last else channels)
        # Each plane has its own region; the last one needs the whole span.
        step = max(step, 1)
        dtype = np.dtype(dtype).newbyteorder("=")
        memory = zeros((max(planes, 1) - 1) * step + span, dtype)
        strides = [step, *strides, 1] if last else [step * channels, step, *strides]
        self.array: Array = as_strided(
            memory, shape, tuple(stride * dtype.itemsize for stride in strides)
        )
        self.region, self.last = region, last

    def write(self, box: Block, values: Any) -> None:
        """Store the pixels of a box that is in the region.

        Args:
            box: slices of the spatial axes.
            values: the pixels, (N, C, *box), or (N, *box, C) for channels last.
        """
        self.array[self.at(box)] = values

    def at(self, box: Block) -> tuple[Any, ...]:
        """Return the index of a box."""
        return (slice(None), *box) if self.last else (slice(None), slice(None), *box)


def zeros(count: int, dtype: np.dtype[Any]) -> Array:
    """Return zeros, whose memory the system provides when it is used."""
    size = count * dtype.itemsize
    if size < MIN_MAPPED_BYTES or sys.platform != "linux":
        return np.zeros(count, dtype)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    # Providing pages of 4 KB would take several times as long as copying the pixels.
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, count)
