"""Images that are computed from one in a Zarr store, chunk by chunk, where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.chunked.halving import copy_type, halvings_of, stored_type
from gridsample.chunked.pixels import Coefficients, Halved
from gridsample.chunked.regions import Sampling
from gridsample.chunked.splines import Line
from gridsample.io.stores import CACHE_BYTES, ChunkReader

# The smallest part of a line that is filtered at once: the halo of cubic splines, 31 pixels at
# either end, would be most of a smaller part.
MIN_FILTERED = 96


def filtered(pixels: ChunkReader, lines: Sequence[Line], dtype: np.dtype[Any]) -> ChunkReader:
    """Return a reader of the spline coefficients of an image; of the image without lines."""
    if not lines:
        return pixels
    axes = {line.axis for line in lines}
    chunks = tuple(
        n * -(-MIN_FILTERED // n) if k in axes else n for k, n in enumerate(pixels.chunks)
    )
    return ChunkReader(Coefficients(pixels, lines, dtype), chunks)


def at_level(pixels: ChunkReader, spatial: Sequence[int], call: Sampling) -> ChunkReader:
    """Return a reader of the copy of an image at the level of a call."""
    stored, dtype = stored_type(call, pixels.dtype), copy_type(call, pixels.dtype)
    levels = halvings_of(call, spatial, pixels.shape, pixels.dtype)
    for n, halvings in enumerate(levels, 1):
        copy = Halved(pixels, halvings, stored if n == len(levels) else dtype)
        pixels = ChunkReader(copy, pixels.chunks, CACHE_BYTES // 4)
    return pixels
