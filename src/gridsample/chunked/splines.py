"""The prefilter of B-splines along parts of lines.

The recursions of the prefilter (`gridsample.definitions.splines`) run along whole lines.  A
coefficient depends on a pixel at a distance d by the largest pole to the power d, so a part of a
line is filtered together with so many pixels on either side that what is left out is below the
rounding of sums: 24 to 64 pixels in float64, and 12 to 31 in float32, for
orders 2 to 7.  At the ends of the line, the
boundary is that of the whole line, and exact.

The coefficients of a box of an image are computed from the box and the pixels around it, one axis
after the other (`coefficients_of`).  No filtered image is kept: what blocks have in common is
filtered again for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.chunked.regions import Intervals, Region, Sampling, merged, sum_type
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.names import BoundaryName
from gridsample.definitions.options import fill_numbers
from gridsample.definitions.request import as_request
from gridsample.definitions.shapes import bands_along
from gridsample.definitions.splines import decay, extension
from gridsample.ops.filtering import spline_filter

Array = np.ndarray[Any, Any]
Reader = Callable[[tuple[slice, ...], Array], None]

# The numbers that are filtered at a time, which fit into the cache of a core.
STRIP = 1 << 18


class Line(NamedTuple):
    """How an axis is filtered.

    Attributes:
        axis: the axis of the array.
        order: the order of the spline, at least 2.
        boundary: the boundary of the filter.
        fill: the value outside, under "constant"; it broadcasts to the array.
    """

    axis: int
    order: int
    boundary: BoundaryName
    fill: Any = 0


class Part(NamedTuple):
    """What a part of a line is filtered with.

    Attributes:
        intervals: the intervals of pixels, in the order in which they follow each other along the
            line, which is not ascending where a line is wrapped around.
        keep: the part among these pixels.
    """

    intervals: Intervals
    keep: slice


def halo(order: int, dtype: Any = np.float64) -> int:
    """Return the number of pixels on either side that a part of a line is filtered with.

    Example:
        >>> from gridsample.chunked.splines import halo
        >>> [halo(order) for order in (2, 3, 4, 5, 6, 7)]
        [24, 31, 40, 48, 56, 64]
    """
    # A sixteenth of the rounding of a number of the size of the range.
    return decay(order, float(np.finfo(dtype).eps) / 16) + 1


def part_of_line(line: Line, start: int, stop: int, size: int, dtype: np.dtype[Any]) -> Part:
    """Return the pixels with which the pixels from ``start`` to ``stop`` of a line are filtered.

    Args:
        line: how the line is filtered.
        start, stop: the part.
        size: the size of the line.
        dtype: the dtype of the coefficients.

    Example:
        >>> import numpy as np
        >>> from gridsample.chunked.splines import Line, part_of_line
        >>> part_of_line(Line(0, 3, "mirror"), 0, 64, 1000, np.dtype(np.float64))
        Part(intervals=((0, 95),), keep=slice(0, 64, None))
        >>> part_of_line(Line(0, 3, "wrap"), 0, 64, 1000, np.dtype(np.float64))
        Part(intervals=((969, 1000), (0, 95)), keep=slice(31, 95, None))
    """
    margin = halo(line.order, dtype)
    low, high = start - margin, stop + margin
    if high - low >= size:
        return Part(((0, size),), slice(start, stop))
    if not BOUNDARIES[line.boundary].joins_ends:
        low, high = max(low, 0), min(high, size)
        return Part(((low, high),), slice(start - low, stop - low))
    intervals = [(low + size, size)] if low < 0 else []
    intervals.append((max(low, 0), min(high, size)))
    intervals += [(0, high - size)] if high > size else []
    return Part(tuple(intervals), slice(margin, margin + stop - start))


def filter_part(pixels: Array, line: Line, part: Part) -> Array:
    """Filter the pixels of a part's intervals in this thread, and keep those of the part."""
    pixels = pixels - line.fill if np.any(line.fill) else pixels
    result = spline_filter(pixels, line.order, line.boundary, axes=line.axis, threads=1)
    kept: Array = result[(slice(None),) * line.axis + (part.keep,)]
    return kept + line.fill if np.any(line.fill) else kept


# Images -------------------------------------------------------------------------------------------


def lines_of(call: Sampling, axes: Sequence[int], fill: Any = 0) -> tuple[Line, ...]:
    """Return how the axes of an image are filtered for a call, in the order in which that is done.

    Args:
        call: the call.
        axes: the spatial axes of the array.
        fill: the fill value, which broadcasts to the array; see `fill_of`.
    """
    options = call.options
    if not options.prefilter:
        return ()
    lines = []
    for axis, order, name in zip(axes[::-1], options.splines(), options.padding_mode, strict=True):
        if order > 1:
            extended = extension(name, options.align_corners)
            lines.append(Line(axis, order, extended, fill if BOUNDARIES[name].filled else 0))
    # What a fill value adds is constant along the other axes once these are filtered.
    return tuple(sorted(lines, key=lambda line: bool(np.any(line.fill))))


def fill_of(call: Sampling, image: np.dtype[Any], channels: int, rank: int) -> Any:
    """Return the finite part of a call's fill value, with ``rank`` axes after the channels'."""
    value = call.keywords.get("fill_value", 0)
    if not np.any(value):
        return 0
    numbers = fill_numbers(value, as_request(call.options), True, image, channels)
    fill = np.array(numbers, sum_type(image, wide=True))
    return np.where(np.isfinite(fill), fill, 0).reshape(-1, *(1,) * rank)


def region_around(
    region: Region, lines: Sequence[Line], shape: Sequence[int], dtype: np.dtype[Any], lead: int
) -> Region:
    """Return the pixels from which the coefficients of a region are computed.

    Args:
        region: the region of the image's spatial axes.
        lines: how the axes are filtered.
        shape: the spatial shape.
        dtype: the dtype of the coefficients.
        lead: the axis of the array that is the first spatial one.
    """
    axes = list(region.axes)
    for line in lines:
        k = line.axis - lead
        parts = [part_of_line(line, *ends, shape[k], dtype) for ends in axes[k]]
        axes[k] = merged([interval for part in parts for interval in part.intervals])
    return Region(tuple(axes))


class Surroundings(NamedTuple):
    """A box of an image, and the pixels from which its coefficients are computed.

    Attributes:
        parts: the part of each line that is filtered.
        intervals: the intervals of pixels along every axis of the array.
        offsets: where these intervals begin if they follow each other, and where the last one ends.
    """

    parts: Sequence[Part]
    intervals: Sequence[Intervals]
    offsets: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls, box: Sequence[slice], lines: Sequence[Line], shape: Sequence[int], dtype: Any
    ) -> Surroundings:
        """Find the surroundings of a box (slices of all axes) of an image of a shape."""
        intervals: list[Intervals] = [((part.start, part.stop),) for part in box]
        parts = [
            part_of_line(line, box[line.axis].start, box[line.axis].stop, shape[line.axis], dtype)
            for line in lines
        ]
        for line, part in zip(lines, parts, strict=True):
            intervals[line.axis] = part.intervals
        offsets = [
            [*itertools.accumulate((stop - start for start, stop in line), initial=0)]
            for line in intervals
        ]
        return cls(parts, intervals, offsets)

    def read(self, read: Reader, axis: int, strip: slice, out: Array) -> None:
        """Store the pixels of a strip along an axis, of all intervals along the others."""
        for chosen in itertools.product(*(range(len(intervals)) for intervals in self.intervals)):
            source, target = list[slice](), list[slice]()
            for k, n in enumerate(chosen):
                start, (low, high) = self.intervals[k][n][0], self.offsets[k][n : n + 2]
                first = 0
                if k == axis:
                    low, high, first = max(low, strip.start), min(high, strip.stop), strip.start
                start += low - self.offsets[k][n]
                source.append(slice(start, start + high - low))
                target.append(slice(low - first, high - first))
            if source[axis].start < source[axis].stop:
                read(tuple(source), out[tuple(target)])


def coefficients_of(
    read: Reader,
    box: Sequence[slice],
    lines: Sequence[Line],
    shape: Sequence[int],
    out: Array,
    held: Array | None = None,
) -> None:
    """Compute the coefficients of a box of an image.

    The last line is filtered last.  What the others need of the pixels around the box is read and
    filtered in strips along this axis, so that little more than the box is in memory.

    Args:
        read: stores the pixels of a box in an array.
        box: the slices of all axes.
        lines: how axes are filtered, at least one.
        shape: the shape of the image.
        out: stores the coefficients, in their dtype.
        held: stores what the last line is filtered from; ``out`` may be its middle part, as
            `with_last_halo` makes room for.  None for memory of its own.
    """
    surroundings = Surroundings.of(box, lines, shape, out.dtype)
    *first, last = zip(lines, surroundings.parts, strict=True)
    full = [ends[-1] for ends in surroundings.offsets]
    axis = last[0].axis
    if held is None:
        held = np.empty([full[k] if k == axis else n for k, n in enumerate(out.shape)], out.dtype)
    for strip in bands_along(tuple(full), STRIP, axis):
        size = [*full]
        size[axis] = strip.stop - strip.start
        values = np.empty(size, out.dtype)
        surroundings.read(read, axis, strip, values)
        for line, part in first:
            values = filter_part(values, line, part)
        held[(slice(None),) * axis + (strip,)] = values
    strip_axis = max(range(len(full)), key=lambda k: 0 if k == axis else held.shape[k])
    for strip in bands_along(held.shape, STRIP, strip_axis):
        index = (slice(None),) * strip_axis + (strip,)
        out[index] = filter_part(held[index], *last)


def with_last_halo(
    region: Region, lines: Sequence[Line], shape: Sequence[int], dtype: np.dtype[Any], lead: int
) -> Region | None:
    """Return a region with the pixels from which the last line is filtered.

    In a window of this region, a box is filtered in place: see ``held`` of `coefficients_of`.

    Args:
        region, lines, shape, dtype, lead: as in `region_around`.

    Returns:
        The region, or None if these pixels are not next to it, as where a line is wrapped around.
    """
    line = lines[-1]
    k = line.axis - lead
    if len(region.axes[k]) != 1:
        return None
    part = part_of_line(line, *region.axes[k][0], shape[k], dtype)
    if len(part.intervals) != 1:
        return None
    return Region((*region.axes[:k], part.intervals, *region.axes[k + 1 :]))
