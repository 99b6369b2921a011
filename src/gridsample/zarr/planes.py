"""Regions of arrays with axes in any order, as images (1, C, *spatial)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.pixels import Pixels
from gridsample.chunked.regions import Block, lengths_of
from gridsample.io.stores import ChunkReader, Region

Array = NDArray[Any]


class StoredPlanes(Pixels):
    """The planes of an array that a region of an output shows, as an image (1, C, *spatial).

    Attributes:
        reader: reads the array.
        region: the region; its slices of the spatial axes are not used.
        spatial: which axes are spatial.
    """

    def __init__(self, reader: ChunkReader, region: Region, spatial: Sequence[int]) -> None:
        self.reader, self.region, self.spatial = reader, region, spatial
        others = [part.stop - part.start for k, part in enumerate(region) if k not in spatial]
        count = int(np.prod(others, dtype=int))
        super().__init__((1, count, *[reader.shape[k] for k in spatial]), reader.dtype)

    def read(self, box: Block, out: Array) -> None:
        """Store the pixels of a box of all planes in an array."""
        region = list(self.region)
        for k, part in zip(self.spatial, box[2:], strict=True):
            region[k] = part
        self.reader.read(tuple(region), from_planes(out, lengths_of(region), self.spatial))


def by_planes(
    compute: Callable[[Block, StoredPlanes], Array], reader: ChunkReader, spatial: Sequence[int]
) -> Callable[[Region], Array]:
    """Return a function that computes a region of an output, with all axes.

    Args:
        compute: computes a block of the spatial axes, (1, C, *block), from planes.
        reader: reads the array that these are of.
        spatial: which axes are spatial.
    """

    def compute_region(region: Region) -> Array:
        block = tuple([region[k] for k in spatial])
        planes = compute(block, StoredPlanes(reader, region, spatial))
        return from_planes(planes, lengths_of(region), spatial)

    return compute_region


def from_planes(planes: Array, shape: Sequence[int], spatial: Sequence[int]) -> Array:
    """View (1, C, *spatial) as an array with all axes."""
    order = [k for k in range(len(shape)) if k not in spatial] + list(spatial)
    transposed = planes.reshape([shape[k] for k in order])
    return transposed.transpose(np.argsort(order))
