"""Which pixels of an image the points of a block read: bounds of coordinates, folded to intervals.

Bounds are a little wider than the coordinates, by the rounding of positions, so that no tap of any
point is missed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.chunked.overlaps import ends_of, overlapping
from gridsample.definitions import axis
from gridsample.definitions.boundaries import BOUNDARIES, Boundary, has_missing, without_missing
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import require_boundary
from gridsample.definitions.dtypes import WIDE_TYPES
from gridsample.definitions.footprints import Level, levels
from gridsample.definitions.methods import Mode, find_method
from gridsample.definitions.options import Options, checked
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape

Array = np.ndarray[Any, Any]
Block = tuple[slice, ...]
Interval = tuple[int, int]
Intervals = tuple[Interval, ...]


class Sampling(NamedTuple):
    """What decides which pixels are read.

    Attributes:
        spatial: the image's spatial shape, in the array's order.
        out: the shape of the whole result between its channels and its end.
        options: the checked options, in x, y, z order; boundaries named "missing" are "zeros".
        epsilon: the relative rounding of positions.
        keywords: the options of `gridsample.grid_sample`, as the caller gave them.
    """

    spatial: Shape
    out: Shape
    options: Options
    epsilon: float
    keywords: dict[str, Any]


class Bounds(NamedTuple):
    """The least and the greatest coordinate of a block's samples along each axis, x first.

    NaN along an axis without any valid coordinate.
    """

    low: Array
    high: Array

    @classmethod
    def of_nothing(cls, rank: int) -> Bounds:
        """Return the bounds of no points."""
        return cls(np.full(rank, np.nan), np.full(rank, np.nan))


class Region(NamedTuple):
    """The pixels that a block reads: the product of intervals along the axes, in array order."""

    axes: tuple[Intervals, ...]

    @classmethod
    def of_box(cls, box: Sequence[slice]) -> Region:
        """Return the region of a single box."""
        return cls(tuple([((part.start, part.stop),) for part in box]))

    def boxes(self) -> Iterator[Block]:
        """Yield disjoint boxes that cover the region."""
        for box in itertools.product(*self.axes):
            yield tuple(slice(start, stop) for start, stop in box)

    def chunks(self, chunks: Sequence[Sequence[int]]) -> Iterator[Shape]:
        """Return the indices of an image's chunks that overlap the region, as an iterator.

        Args:
            chunks: the sizes of the chunks along each axis.
        """
        return itertools.product(
            *[chunks_of(axis, sizes) for axis, sizes in zip(self.axes, chunks, strict=True)]
        )


def lengths_of(block: Sequence[slice]) -> Shape:
    """Return how many points a block has along each axis."""
    return tuple([part.stop - part.start for part in block])


def chunks_of(intervals: Intervals, sizes: Sequence[int]) -> Sequence[int]:
    """Return the chunks of an axis that overlap intervals, in order."""
    ends = ends_of(tuple(sizes))
    found = [overlapping(start, stop, ends) for start, stop in intervals]
    return found[0] if len(found) == 1 else sorted(set().union(*found))


def sampling_of(
    image: Shape,
    out: Shape,
    mode: Mode = "bilinear",
    padding_mode: str | Sequence[str] = "zeros",
    align_corners: bool = False,
    *,
    real: Any = np.float32,
    **keywords: Any,
) -> Sampling:
    """Check the options of a call of sampling.

    Args:
        image: the shape of the image, (N, C, *spatial), or (N, *spatial, C) for channels last.
        out: the shape of the whole result without N and C.
        mode, padding_mode, align_corners: as in `gridsample.grid_sample`.
        real: the dtype of positions: see `real_type`.
        keywords: other options of `gridsample.grid_sample`.

    Raises:
        TypeError: the type of an option is not accepted.
        ValueError: a name is unknown, or the shapes do not match.
    """
    # What is dropped under "missing" is dropped under these, one of which goes with the others.
    substitute = "constant" if has_missing(padding_mode) and "constant" in padding_mode else "zeros"
    request = Request(
        mode=mode,
        padding_mode=without_missing(padding_mode, substitute),
        align_corners=align_corners,
        **keywords,
    )
    check_flag(request.return_mask, "return_mask")
    options = checked(request, tuple(image), (image[0], *out, len(image) - 2))
    require_boundary(options.ends, "sampling of arrays in chunks")
    spatial = tuple(image[1:-1] if options.channels_last() else image[2:])
    keywords |= {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    return Sampling(spatial, tuple(out), options, float(np.finfo(real).eps), keywords)


def real_type(image: np.dtype[Any], coordinates: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which the positions of a call are computed.

    Example:
        >>> import numpy as np
        >>> from gridsample.chunked.regions import real_type
        >>> real_type(np.dtype("uint8"), np.dtype("float32")).name
        'float32'
    """
    wide = coordinates.name in WIDE_TYPES or image.name in WIDE_TYPES
    return np.dtype(np.float64 if wide else np.float32)


def sum_type(image: np.dtype[Any], wide: bool = False) -> np.dtype[Any]:
    """The dtype of coefficients and of halved copies; of double precision for a ``wide`` grid."""
    wide = wide or image.name in WIDE_TYPES
    if image.kind == "c":
        return np.dtype(np.complex128 if wide else np.complex64)
    return np.dtype(np.float64 if wide else np.float32)


# Bounds of coordinates ----------------------------------------------------------------------------


class Extent(NamedTuple):
    """What the points of a block add to the coordinates of maps, (N, D) each.

    Attributes:
        low: the least.
        high: the greatest.
        size: the greatest absolute value, which rounding is relative to.
    """

    low: Array
    high: Array
    size: Array


def extent_along(call: Sampling, theta: Array, k: int, part: slice) -> Extent:
    """Bound what the indices ``part`` of the result's axis ``k`` add to coordinates."""
    n, aligned = call.out[k], call.options.align_corners
    ends = np.array([part.start, max(part.stop - 1, part.start)], np.float64)
    step = 1.0
    if call.options.coords != "pixel":
        step = 2 / max(n - aligned, 1)
        ends = (2 * ends + 1 - n) / max(n - aligned, 1)
    column = theta[..., len(call.out) - 1 - k, np.newaxis].astype(np.float64)
    with np.errstate(invalid="ignore"):  # numbers may be infinite
        terms = column * ends
    low, high = terms.min(-1), terms.max(-1)
    if call.options.footprint is not None:
        reach = np.abs(column[..., 0]) * step / 2
        low, high = low - reach, high + reach
    return Extent(low, high, np.maximum(np.abs(low), np.abs(high)))


def bounds_of_maps(call: Sampling, theta: Array, block: Block) -> Bounds:
    """Bound the coordinates of affine maps (N, D, D + 1) at the points of a block."""
    extents = [extent_along(call, theta, k, part) for k, part in enumerate(block)]
    return bounds_of_extents(call, theta, extents)


def bounds_of_extents(call: Sampling, theta: Array, extents: Sequence[Extent]) -> Bounds:
    """Bound the coordinates of affine maps, given the extents of a block along each axis.

    Extents may have axes of blocks between N and D, which the result then has before D.
    """
    shift = theta[..., len(call.out)].astype(np.float64)
    axes = extents[0].low.ndim - shift.ndim if extents else 0
    shift = shift.reshape(len(shift), *(1,) * axes, -1)
    with np.errstate(invalid="ignore"):
        low = sum((extent.low for extent in extents), shift)
        high = sum((extent.high for extent in extents), shift)
        error = 4 * call.epsilon * sum((extent.size for extent in extents), np.abs(shift))
        low, high = low - error, high + error
    # A map with NaN has no valid coordinates; with an infinity, they are at either end, or NaN.
    infinite = (np.isinf(theta).any(-1) & ~np.isnan(theta).any(-1)).reshape(shift.shape)
    low, high = np.where(infinite, -np.inf, low), np.where(infinite, np.inf, high)
    return Bounds(np.fmin.reduce(low), np.fmax.reduce(high))


def bounds_of_grid(call: Sampling, grid: Array) -> Bounds:
    """Bound the coordinates of a grid (N, *out, D), displacements included.

    For antialiasing, the grid has the points beside the block, too.
    """
    rank = len(call.spatial)
    low, high = Bounds.of_nothing(rank)
    for d in range(rank):
        line = grid[..., d]
        low[d], high[d] = least_and_greatest(line)
        if call.options.footprint is not None:
            reach = sum(half_step(line, 1 + k) for k in range(rank))
            if call.options.coords == "displacement":
                reach += 0.5
            low[d], high[d] = low[d] - reach, high[d] + reach
    return Bounds(low, high)


def least_and_greatest(line: Array) -> tuple[float, float]:
    """Return the least and the greatest number of an array; NaN if there is none."""
    if not line.size:
        return math.nan, math.nan
    low, high = float(line.min()), float(line.max())
    if low == low and high == high:
        return low, high
    return float(np.fmin.reduce(line, None)), float(np.fmax.reduce(line, None))


def half_step(line: Array, axis: int) -> float:
    """Return half the greatest difference of neighbours along an axis, of finite numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.abs(np.diff(line.astype(np.float64), axis=axis))
    return float(steps.max(initial=0.0, where=np.isfinite(steps))) / 2


# From bounds to pixels ----------------------------------------------------------------------------


def region_of(call: Sampling, bounds: Bounds, block: Block | None = None) -> Region:
    """Return the pixels that points read whose coordinates are within bounds.

    Args:
        call: the call.
        bounds: the bounds.
        block: the block; displacements need it.
    """
    rank, intervals = len(call.spatial), list[Intervals]()
    level = level_image(call)
    for k, size in enumerate(level.spatial):
        a = rank - 1 - k
        low, high = (float(x[a]) * level.gain[a] + level.shift[a] for x in bounds)
        if level.coords == "normalized":
            low, high = (
                float(axis.position(x, size - 1.0, call.options.align_corners)) for x in (low, high)
            )
        elif call.options.coords == "displacement":
            assert block is not None
            low, high = low + block[k].start, high + block[k].stop - 1
        low, high = (x + sign * rounding(call, size, x) for x, sign in ((low, -1), (high, 1)))
        intervals.append(pixels_between(call, a, size, low, high))
    if not all(intervals):
        return Region(((),) * rank)
    return Region(tuple(intervals))


def rounding(call: Sampling, size: int, position: float) -> float:
    """Return a bound of the rounding of a position along an axis; an infinite one is exact."""
    return 8 * call.epsilon * (size + abs(position)) if math.isfinite(position) else 0.0


def whole_shape(call: Sampling, part: Shape) -> Shape:
    """Return the shape of the image of a call, given that of a part of it in the same layout."""
    if call.options.channels_last():
        return (part[0], *call.spatial, part[-1])
    return (*part[:2], *call.spatial)


def level_image(call: Sampling) -> Level:
    """Return the image that is sampled: the call's, or a halved copy of it."""
    options, number = call.options, level_of(call)
    return levels(call.spatial, options.coords, options.align_corners, number)[number]


def level_of(call: Sampling) -> int:
    """Return how often the image has been halved that a call samples."""
    footprint = call.options.footprint
    return 0 if footprint is None else footprint.level or 0


def pixels_between(call: Sampling, a: int, size: int, low: float, high: float) -> Intervals:
    """Return the pixels that positions between two numbers read along axis ``a`` (0 is x)."""
    if not (low <= high):
        return ()  # there is no valid coordinate
    method = find_method(call.options.mode[a])
    boundary = BOUNDARIES[call.options.padding_mode[a]]
    aligned = call.options.align_corners
    if math.isinf(low) or math.isinf(high):
        far = 4.0 * (size + method.taps)
        low, high = max(low, -far), min(high, far + size)
        if low > high:
            low = high = min(max(low, -far), far + size)
    folds = method.folds_position and boundary.folds_position and not boundary.drops
    if folds and boundary.code == axis.BORDER:
        low, high = min(max(low, 0.0), size - 1.0), min(max(high, 0.0), size - 1.0)
    if folds and boundary.code == axis.REFLECTION and not 0 <= low <= high <= size - 1:
        # Whatever rounding does, a folded position is next to a folded pixel.
        intervals = folded(math.floor(low), math.ceil(high), size, boundary, aligned)
        last = method.taps  # a clamp may move the position by half a pixel
        return merged([(max(a - last, 0), min(b + last, size)) for a, b in intervals])
    if method.rounding == axis.FLOOR:
        first, final = math.floor(low), math.floor(high)
    else:
        first, final = math.ceil(low - 0.5), math.floor(high + 0.5)
    first, final = first + method.first, final + method.first + method.taps - 1
    return folded(first, final, size, boundary, aligned)


def folded(first: int, last: int, size: int, boundary: Boundary, aligned: bool) -> Intervals:
    """Return the pixels that the taps with indices from ``first`` to ``last`` read."""
    if first >= 0 and last < size:
        return ((first, last + 1),)
    period = boundary.period(size, aligned)
    if period is None:  # all taps beyond an end of the image read the same
        first, last = (min(max(index, -1), size) for index in (first, last))
    elif last - first + 1 >= period:
        return ((0, size),)
    else:
        first, last = first % period, first % period + last - first
    inside = [(max(first, 0), min(last + 1, size))] if first < size and last >= 0 else []
    outside = np.r_[first : min(last + 1, 0), max(first, size) : last + 1]
    pixels = boundary.fold_index(outside, size, aligned)
    return merged([*inside, *intervals_of(pixels[pixels != axis.DROPPED])])


def intervals_of(pixels: Array) -> Intervals:
    """Return pixels of a line as intervals, in ascending order."""
    pixels = np.unique(pixels)
    starts = pixels[np.diff(pixels, prepend=-2) != 1]
    stops = pixels[np.diff(pixels, append=-2) != 1] + 1
    return tuple(zip(starts.tolist(), stops.tolist(), strict=True))


def merged(intervals: Sequence[Interval]) -> Intervals:
    """Merge intervals that overlap or touch."""
    result: list[Interval] = []
    for start, stop in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(stop, result[-1][1])
        else:
            result.append((start, stop))
    return tuple(result)
