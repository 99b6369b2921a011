"""The prefilter of B-splines along parts of lines.

The recursions of the prefilter (`gridsample.definitions.splines`) run along whole lines.  A
coefficient depends on a pixel at a distance d by the largest pole to the power d, so a part of a
line is filtered together with so many pixels on either side that what is left out is below the
rounding of sums: 24 to 64 pixels in float64, and 12 to 31 in float32, for
orders 2 to 7.  At the ends of the line, the
boundary is that of the whole line, and exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridsample.chunked.regions import Intervals
from gridsample.definitions.axis import WRAP
from gridsample.definitions.plan import BOUNDARIES
from gridsample.definitions.splines import decay
from gridsample.ops.filtering import spline_filter

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """What a part of a line is filtered with.

    Attributes:
        pieces: the intervals of pixels, in the order in which they follow each other along the
            line, which is not ascending where a line is wrapped around.
        keep: the place of the part among them.
    """

    pieces: Intervals
    keep: slice


def halo(order: int, real: Any = np.float64) -> int:
    """Return the number of pixels on either side that a part of a line is filtered with.

    Example:
        >>> from gridsample.chunked.splines import halo
        >>> [halo(order) for order in (2, 3, 4, 5, 6, 7)]
        [24, 31, 40, 48, 56, 64]
    """
    # A sixteenth of the rounding of a number of the size of the range.
    return decay(order, float(np.finfo(real).eps) / 16) + 1


def part_of_line(start: int, stop: int, size: int, order: int, boundary: str, real: Any) -> Part:
    """Return the pixels with which the pixels from ``start`` to ``stop`` of a line are filtered.

    Example:
        >>> import numpy as np
        >>> from gridsample.chunked.splines import part_of_line
        >>> part_of_line(0, 64, 1000, 3, "mirror", np.float64)
        Part(pieces=((0, 95),), keep=slice(0, 64, None))
        >>> part_of_line(0, 64, 1000, 3, "wrap", np.float64)
        Part(pieces=((969, 1000), (0, 95)), keep=slice(31, 95, None))
    """
    margin = halo(order, real)
    low, high = start - margin, stop + margin
    if high - low >= size:
        return Part(((0, size),), slice(start, stop))
    if BOUNDARIES[boundary].code != WRAP:
        low, high = max(low, 0), min(high, size)
        return Part(((low, high),), slice(start - low, stop - low))
    pieces = [(low + size, size)] if low < 0 else []
    pieces.append((max(low, 0), min(high, size)))
    pieces += [(0, high - size)] if high > size else []
    return Part(tuple(pieces), slice(margin, margin + stop - start))


def filter_part(
    lines: Array, part: Part, axis: int, order: int, boundary: str, fill: Any = 0, **options: Any
) -> Array:
    """Filter the pixels of a part's pieces, one after the other, and keep those of the part.

    Args:
        lines: the pixels along ``axis``.
        part: the part.
        axis: the axis.
        fill: the value outside, under "constant"; it broadcasts to the lines.
        order, boundary, options: as in `gridsample.spline_filter`.
    """
    lines = lines - fill if np.any(fill) else lines
    result = spline_filter(lines, order, boundary, axes=axis, **options)
    kept: Array = result[(slice(None),) * axis + (part.keep,)]
    return kept + fill if np.any(fill) else kept
