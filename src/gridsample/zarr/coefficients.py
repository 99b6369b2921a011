"""B-spline coefficients of an image in a Zarr store, computed chunk by chunk when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.splines import Line, coefficients_of
from gridsample.io.stores import ChunkReader, Region

# The least size of a part that is filtered at once: its halo is 31 pixels on either side for cubic
# splines, which would be most of a smaller part.
LEAST = 96


class Coefficients:
    """The coefficients of an image, as an array that is computed where it is read.

    Attributes:
        shape: that of the image.
        chunks: what is computed at once.
        dtype: the dtype of the coefficients.
    """

    def __init__(self, pixels: ChunkReader, lines: Sequence[Line], dtype: np.dtype[Any]) -> None:
        self.pixels, self.lines, self.dtype, self.shape = pixels, lines, dtype, pixels.shape
        axes = {line.axis for line in lines}
        self.chunks = tuple(
            n * -(-LEAST // n) if k in axes else n for k, n in enumerate(pixels.chunks)
        )

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Compute the coefficients of a region."""
        return coefficients_of(self.pixels.read, region, self.lines, self.shape, self.dtype)
