"""One axis, from a coordinate to the indices of its taps.

    coordinate --position--> position --fold or confine--> position --split--> base index, fraction
    t base index + k --fold_index--> index of tap k, or DROPPED

Every function works on one value or on whole arrays, and is written once for all targets: it uses
arithmetic, comparisons, ``where``, ``floor``, ``rint``, ``minimum``, ``maximum``, ``remainder``,
and ``if`` on flags that are known before it runs (``aligned``, ``boundary``, ``edge``,
``rounding``).  Here those names are NumPy's; `gridsample.kernels.compile.lower` re-binds them, and
the constants, for each target and precision.

An axis of ``size`` pixels is described by ``last = size - 1``, which stays exact in float32 for
one pixel more than ``size`` does.  ``edge`` says where a mirror stands, at -edge / 2 and
size - 1 + edge / 2: it is 1 where the mirror doubles the edge pixel, 0 where it does not, and 2
where it stands on a pixel of 0 beside the image.  A boundary that is odd also has a sign for each
tap: `fold_sign`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

floor, rint, where, minimum, maximum = np.floor, np.rint, np.where, np.minimum, np.maximum
remainder = np.remainder
ZERO, HALF, ONE = 0.0, 0.5, 1.0
# How a position becomes a base index: its floor, or the nearest with ties to even, or up.
FLOOR, HALF_EVEN, HALF_UP = 0, 1, 2
DROPPED = -1  # in place of a tap's index: the tap is outside and counts for nothing

# Boundaries, as the kernels know them: a tap outside is dropped, clamped, mirrored, or wrapped
# round; from REFLECTION on, the image repeats for ever.  The names that users write, and what else
# is in them, are plan.BOUNDARIES.
ZEROS, BORDER, REFLECTION, WRAP = 0, 1, 2, 3


def position(coordinate: Any, last: Any, aligned: bool) -> Any:
    """Position in pixels of a normalized coordinate.

    aligned: -1 and 1 are the centres of the corner pixels, (x + 1) / 2 * (size - 1); otherwise
    they are the outer edges of the corner pixels, ((x + 1) * size - 1) / 2.
    """
    if aligned:
        # A single pixel is everywhere, at infinity too; only NaN is nowhere.
        alone = where(coordinate == coordinate, ZERO, coordinate)
        return where(last > ZERO, (coordinate + ONE) * HALF * last, alone)
    return ((coordinate + ONE) * (last + ONE) - ONE) * HALF


def slope(last: Any, aligned: bool) -> Any:
    """d position / d coordinate, before any fold."""
    if aligned:
        return last * HALF
    return (last + ONE) * HALF


def known(position: Any, boundary: int) -> Any:
    """Whether a position has a meaning: NaN has none, nor has infinity where the image repeats."""
    if boundary >= REFLECTION:
        return position - position == ZERO
    return position == position


def inside(position: Any, last: Any, rim: Any) -> Any:
    """Whether a position is in the image, whose extent ends ``rim`` outside the last centres."""
    return (position >= -rim) & (position <= last + rim)


def fold(position: Any, last: Any, reach: Any, boundary: int, edge: Any) -> tuple[Any, Any]:
    """Fold a position into the image; also the factor that the fold puts on the slope: 1, -1 or 0.

    For methods that fold the position, under PyTorch's three boundaries.  Under ZEROS nothing
    is folded: the position is only confined. The gradient is zero at and beyond a clamp, both ends
    included.
    """
    if boundary == ZEROS:
        return confine(position, last, reach, boundary, edge), ONE
    sign: Any = ONE
    if boundary == REFLECTION:
        low, span = -HALF * edge, last + edge
        period = maximum(span + span, ONE)
        shifted = position - low
        distance = where(shifted < ZERO, -shifted, shifted)
        phase = distance - floor(distance / period) * period
        falling = phase > span
        sign = where((shifted < ZERO) != falling, -ONE, ONE)
        position = where(falling, period - phase, phase) + low
    inside = (position > ZERO) & (position < last)
    return minimum(maximum(position, ZERO), last), where(inside, sign, ZERO)


def confine(position: Any, last: Any, reach: Any, boundary: int, edge: Any) -> Any:
    """Bring a far position near, where its taps, ``reach`` on each side, fold to the same pixels.

    It makes every base index a small integer, whatever the coordinate was.  Where the image
    repeats, it moves by whole periods, and so by an even number of folds: the sign is kept.
    """
    if boundary >= REFLECTION:
        double = maximum((last + edge) + (last + edge), ONE)
        period = last + ONE if boundary == WRAP else double
        turns = floor(where(position < ZERO, -position, position) / period) * period
        return position - where(position < ZERO, -turns, turns)
    return minimum(maximum(position, -reach), last + reach)


def split(position: Any, rounding: int) -> tuple[Any, Any]:
    """Base index (still a float) and fraction t of a position."""
    if rounding == HALF_UP:
        base = floor(position + HALF)
    elif rounding == HALF_EVEN:
        base = rint(position)
    else:
        base = floor(position)
    return base, position - base


def fold_index(index: Any, size: Any, boundary: int, edge: Any) -> Any:
    """Index of the pixel that a tap reads, or DROPPED.  Integers throughout."""
    if boundary == ZEROS:
        return where((index >= 0) & (index < size), index, DROPPED)
    # Only numbers that are not negative are divided: of others, targets differ in the remainder.
    if boundary == REFLECTION:
        period = maximum(2 * (size - 1 + edge), 1)
        index = remainder(where(index < 0, period - edge - index, index), period)
        index = where(index >= size, period - edge - index, index)
        return where((index >= 0) & (index < size), index, DROPPED)  # beside the image are zeros
    if boundary == WRAP:
        turned = remainder(where(index < 0, -1 - index, index), size)
        index = where(index < 0, size - 1 - turned, turned)
    return minimum(maximum(index, 0), size - 1)


def fold_sign(index: Any, size: Any, boundary: int, edge: Any) -> Any:
    """The sign of a tap under an odd boundary: -1 in every second image of the image, 1 elsewhere.

    Pixels that a mirror stands on keep their sign where they belong to two images (``edge`` is 0),
    and have the sign 0 where they belong to none (2).  Only REFLECTION has images with a sign.
    """
    if boundary == REFLECTION:
        period = maximum(2 * (size - 1 + edge), 1)
        turned = remainder(where(index < 0, -1 - index, index), period)
        turned = where(index < 0, period - 1 - turned, turned)
        sign = where(turned < size, ONE, -ONE)
        if edge == 2:
            sign = where((turned == size) | (turned == period - 1), ZERO, sign)
        return sign
    return ONE


def weight(t: Any, coefficients: Any, powers: int) -> Any:
    """A tap's weight at t: Horner's rule on one row of a method's table (lowest power first)."""
    total = coefficients[powers - 1]
    for back in range(2, powers + 1):
        total = total * t + coefficients[powers - back]
    return total
