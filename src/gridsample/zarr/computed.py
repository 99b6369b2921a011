"""Images that are computed from one in a Zarr store, chunk by chunk, where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.halving import copy_type, halved_part, pixels_of, stored_type
from gridsample.chunked.regions import Sampling, lengths_of, level_of
from gridsample.chunked.splines import Line, coefficients_of
from gridsample.io.stores import CACHE_BYTES, ChunkReader, Region

# The smallest part of a line that is filtered at once: the halo of cubic splines, 31 pixels at
# either end, would be most of a smaller part.
MIN_FILTERED = 96


class Coefficients:
    """The B-spline coefficients of an image.

    Attributes:
        shape: that of the image.
        chunks: what is computed at once.
        dtype: the dtype of the coefficients.
    """

    def __init__(self, pixels: ChunkReader, lines: Sequence[Line], dtype: np.dtype[Any]) -> None:
        self.pixels, self.lines, self.dtype, self.shape = pixels, lines, dtype, pixels.shape
        axes = {line.axis for line in lines}
        self.chunks = tuple(
            n * -(-MIN_FILTERED // n) if k in axes else n for k, n in enumerate(pixels.chunks)
        )

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Compute the coefficients of a region."""
        out = np.empty(lengths_of(region), self.dtype)
        coefficients_of(self.pixels.read, region, self.lines, self.shape, out)
        return out


class Halved:
    """A halved copy of an image.

    Attributes:
        shape: that of the copy.
        chunks: what is computed at once.
        dtype: the dtype of the copy.
    """

    def __init__(
        self,
        pixels: ChunkReader,
        spatial: Sequence[int],
        sum_dtype: np.dtype[Any],
        dtype: np.dtype[Any],
    ) -> None:
        self.pixels, self.spatial, self.chunks = pixels, spatial, pixels.chunks
        self.sum_dtype, self.dtype = sum_dtype, dtype
        self.shape = tuple((n + 1) // 2 if k in spatial else n for k, n in enumerate(pixels.shape))

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Compute a region."""
        axes = [k for k in self.spatial if self.pixels.shape[k] > 1]
        ends = {k: (self.pixels.shape[k], region[k].start, region[k].stop) for k in axes}
        source_region = list(region)
        for k in axes:
            source_region[k] = slice(*pixels_of(*ends[k]))
        values = self.pixels[tuple(source_region)].astype(self.sum_dtype, copy=False)
        for k in axes:
            values = halved_part(values, k, *ends[k])
        return values.astype(self.dtype, copy=False)


def at_level(pixels: ChunkReader, spatial: Sequence[int], call: Sampling) -> ChunkReader:
    """Return a reader of the copy of an image at the level of a call."""
    sum_dtype, stored_dtype = copy_type(call, pixels.dtype), stored_type(call, pixels.dtype)
    for n in range(level_of(call), 0, -1):
        copy = Halved(pixels, spatial, sum_dtype, stored_dtype if n == 1 else sum_dtype)
        pixels = ChunkReader(copy, CACHE_BYTES // 4)
    return pixels
