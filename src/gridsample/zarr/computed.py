"""Images that are computed from one in a Zarr store, chunk by chunk, where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.halving import Halving, copy_type, halvings_of, stored_type
from gridsample.chunked.regions import Sampling, lengths_of
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
        self, pixels: ChunkReader, halvings: Sequence[Halving], dtype: np.dtype[Any]
    ) -> None:
        self.pixels, self.halvings, self.dtype = pixels, halvings, dtype
        self.chunks, axes = pixels.chunks, [halving.axis for halving in halvings]
        self.shape = tuple((n + 1) // 2 if k in axes else n for k, n in enumerate(pixels.shape))

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Compute a region."""
        ends = [(region[each.axis].start, region[each.axis].stop) for each in self.halvings]
        source_region = list(region)
        for each, (start, stop) in zip(self.halvings, ends, strict=True):
            (piece,) = each.pieces(start, stop)
            source_region[each.axis] = slice(*piece)
        values = self.pixels[tuple(source_region)]
        for each, (start, stop) in zip(self.halvings, ends, strict=True):
            values = each.compute(values.astype(each.dtype, copy=False), start, stop)
        return values.astype(self.dtype, copy=False)


def at_level(pixels: ChunkReader, spatial: Sequence[int], call: Sampling) -> ChunkReader:
    """Return a reader of the copy of an image at the level of a call."""
    stored, dtype = stored_type(call, pixels.dtype), copy_type(call, pixels.dtype)
    levels = halvings_of(call, spatial, pixels.shape, pixels.dtype)
    for n, halvings in enumerate(levels, 1):
        copy = Halved(pixels, halvings, stored if n == len(levels) else dtype)
        pixels = ChunkReader(copy, CACHE_BYTES // 4)
    return pixels
