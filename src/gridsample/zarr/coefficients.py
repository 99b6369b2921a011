"""B-spline coefficients of an image in a Zarr store, computed chunk by chunk when they are read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.regions import Intervals, Sampling
from gridsample.chunked.splines import filter_part, part_of_line
from gridsample.definitions.plan import BOUNDARIES
from gridsample.definitions.splines import extension
from gridsample.io.stores import ChunkReader, Region

Array = NDArray[Any]

# The least size of a part that is filtered at once: its halo is 31 pixels on either side for cubic
# splines, which would be most of a smaller part.
LEAST = 96


class Line(NamedTuple):
    """How an axis is filtered.

    Attributes:
        axis: the axis of the array.
        order: the order of the spline, at least 2.
        boundary: the boundary of the filter.
        fill: the value outside, under "constant".
    """

    axis: int
    order: int
    boundary: str
    fill: float


def lines_of(call: Sampling, spatial: Sequence[int]) -> list[Line]:
    """Return how the axes of an image are filtered for a call, in the order in which that is done.

    Args:
        call: the call.
        spatial: the axes of the array that are spatial.
    """
    options = call.options
    fill = call.keywords.get("fill_value", 0)
    fill = fill if np.isfinite(fill) else 0
    lines = [
        Line(spatial[-1 - a], order, extension(name, options.align_corners),
             fill if BOUNDARIES[name].filled else 0)
        for a, (order, name) in enumerate(zip(options.splines(), options.padding_mode, strict=True))
        if order > 1
    ]  # fmt: skip
    # What a fill value adds is constant along the other axes once these are filtered.
    return sorted(lines, key=lambda line: bool(line.fill))


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

    def __getitem__(self, region: Region) -> Array:
        """Compute the coefficients of a region."""
        parts = {}
        pieces: list[Intervals] = [((part.start, part.stop),) for part in region]
        real = np.finfo(self.dtype).dtype
        for line in self.lines:
            ends = region[line.axis]
            part = part_of_line(
                ends.start, ends.stop, self.shape[line.axis], line.order, line.boundary, real
            )
            parts[line], pieces[line.axis] = part, part.pieces
        offsets = [np.cumsum([0, *(stop - start for start, stop in each)]) for each in pieces]
        values = np.empty([int(ends[-1]) for ends in offsets], self.dtype)
        for box in itertools.product(*(range(len(each)) for each in pieces)):
            target = tuple(
                slice(ends[k], ends[k + 1]) for k, ends in zip(box, offsets, strict=True)
            )
            read = tuple(slice(*each[k]) for k, each in zip(box, pieces, strict=True))
            values[target] = self.pixels[read]
        for line, part in parts.items():
            values = filter_part(
                values, part, line.axis, line.order, line.boundary, line.fill, threads=1
            )
        return values
