"""One axis, from a coordinate to the indices of its taps.

    coordinate --position--> position --fold or confine--> position --split--> base index, fraction
    t base index + k --fold_index--> index of tap k, or DROPPED

Every function accepts a single value or an array, and is written once for all targets.  It uses
only arithmetic, comparisons, ``where``, ``floor``, ``rint``, ``minimum``, ``maximum``,
``remainder``, and ``if`` on flags that are known in advance (``aligned``, ``boundary``, ``edge``,
``rounding``).  In this module, these names are NumPy's, which values of the vector language
(`gridsample.kernels.vector`) accept, too; `bound` binds them to another library's, and
`gridsample.kernels.gpu.build` to Triton's.

An axis of ``size`` pixels is described by ``last = size - 1``, which float32 represents exactly for
one more pixel than ``size``.  ``edge`` determines where the mirrors are: at -edge / 2 and
size - 1 + edge / 2.  It is 1 if the mirror repeats the edge pixel, 0 if it does not, and 2 if the
mirror is at a pixel of 0 next to the image.  Under an odd boundary, each tap also has a sign
(`fold_sign`).
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

floor, rint, where, minimum, maximum = np.floor, np.rint, np.where, np.minimum, np.maximum
remainder = np.remainder
ZERO, HALF, ONE = 0.0, 0.5, 1.0
# How a position is rounded to the base index: floor; nearest, ties to even; nearest, ties up.
FLOOR, HALF_EVEN, HALF_UP = 0, 1, 2
DROPPED = -1  # in place of a tap's index: the tap is outside and counts for nothing

# The codes of boundaries in kernels: a tap outside is dropped, clamped, mirrored, or wrapped.  From
# REFLECTION on, the image repeats for ever.  The names that users write, and their other
# properties, are in `boundaries.BOUNDARIES`.
ZEROS, BORDER, REFLECTION, WRAP = 0, 1, 2, 3


def position(coordinate: Any, last: Any, aligned: bool) -> Any:
    """Convert a normalized coordinate to a position in pixels.

    If aligned, -1 and 1 are the centres of the corner pixels: (x + 1) / 2 * (size - 1).  Otherwise
    they are the outer edges of the corner pixels: ((x + 1) * size - 1) / 2.
    """
    if aligned:
        # With a single pixel, every coordinate has the position 0, even infinity, but not NaN.
        alone = where(coordinate == coordinate, ZERO, coordinate)
        return where(last > ZERO, (coordinate + ONE) * HALF * last, alone)
    return (coordinate + ONE) * ((last + ONE) * HALF) - HALF


def slope(last: Any, aligned: bool) -> Any:
    """d position / d coordinate, before any fold."""
    if aligned:
        return last * HALF
    return (last + ONE) * HALF


def known(position: Any, boundary: int) -> Any:
    """Whether a position is valid: not NaN, and not infinite if the image repeats."""
    if boundary >= REFLECTION:
        return position - position == ZERO
    return position == position


def inside(position: Any, last: Any, margin: Any) -> Any:
    """Whether a position is in the image, which ends ``margin`` beyond its outermost centres."""
    return (position >= -margin) & (position <= last + margin)


def fold(position: Any, last: Any, reach: Any, boundary: int, edge: Any) -> tuple[Any, Any]:
    """Fold a position into the image; also return the factor of the slope: 1, -1 or 0.

    This is for methods that fold the position, under PyTorch's three boundaries.  Under ZEROS,
    nothing is folded; the position is only confined.  The gradient is zero at and beyond a clamp,
    at both ends.
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
    """Move a distant position close to the image without changing the pixels of its taps.

    There are up to ``reach`` taps on each side.  Every base index thus becomes a small integer.  If
    the image repeats, the position moves by whole periods, each of which consists of an even number
    of folds, so the sign does not change.
    """
    if boundary >= REFLECTION:
        double = maximum((last + edge) + (last + edge), ONE)
        period = last + ONE if boundary == WRAP else double
        turns = floor(where(position < ZERO, -position, position) / period) * period
        return position - where(position < ZERO, -turns, turns)
    # NaN becomes -reach.
    return minimum(where(position > -reach, position, -reach), last + reach)


def split(position: Any, rounding: int) -> tuple[Any, Any]:
    """Split a position into its base index (still a float) and fraction t."""
    if rounding == HALF_UP:
        base = floor(position + HALF)
    elif rounding == HALF_EVEN:
        base = rint(position)
    else:
        base = floor(position)
    return base, position - base


def fold_index(index: Any, size: Any, boundary: int, edge: Any) -> Any:
    """The index of the pixel that a tap reads, or DROPPED.  All numbers are integers."""
    if boundary == ZEROS:
        return where((index >= 0) & (index < size), index, DROPPED)
    # Only non-negative numbers are divided: targets differ in the remainder of negative ones.
    if boundary == REFLECTION:
        period = maximum(2 * (size - 1 + edge), 1)
        index = remainder(where(index < 0, period - edge - index, index), period)
        index = where(index >= size, period - edge - index, index)
        return where((index >= 0) & (index < size), index, DROPPED)  # beside the image are zeros
    if boundary == WRAP:
        turned = remainder(where(index < 0, -1 - index, index), size)
        index = where(index < 0, size - 1 - turned, turned)
    return minimum(maximum(index, 0), size - 1)


def fold_nearby(index: Any, size: Any, boundary: int, edge: Any) -> Any:
    """`fold_index` without a remainder, for taps of a position that `confine` has returned.

    The image has two pixels or more, and at least as many as the method has taps.  The result is a
    pixel of the image, or DROPPED, even if the position was too far away for exact arithmetic.
    """
    if boundary == REFLECTION:
        index = where(index < 0, -edge - index, index)
        index = where(index >= size, (2 * (size - 1) + edge) - index, index)
        index = where(index < 0, -edge - index, index)
        if edge == 2:
            return where((index >= 0) & (index < size), index, DROPPED)
    elif boundary == WRAP:
        index = where(index < 0, index + size, index)
        index = where(index < 0, index + size, index)
        index = where(index >= size, index - size, index)
    else:
        return fold_index(index, size, boundary, edge)
    return minimum(maximum(index, 0), size - 1)


def fold_sign(index: Any, size: Any, boundary: int, edge: Any) -> Any:
    """The sign of a tap under an odd boundary: -1 in every second copy of the image, otherwise 1.

    A pixel at a mirror keeps its sign if it belongs to two copies (``edge`` is 0), and has the sign
    0 if it belongs to none (``edge`` is 2).  Only under REFLECTION do copies have a sign.
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


def turns(back: Any, ahead: Any, period: Any) -> Any:
    """The whole periods in the sum of the steps from the point before and to the point after.

    Positions that differ by whole periods are one place of an image that wraps around.  If the
    longer step is longer than half a period, it stands for its copy that is nearest to the shorter
    one.  So a step across the seam, where positions jump by the period, is short, and steps that
    are all long, as on a plane with many tiles, stay as they are.  A step to no point is 0.
    """
    forth, to = where(back < ZERO, -back, back), where(ahead < ZERO, -ahead, ahead)
    longer, shorter = where(to > forth, ahead, back), where(to > forth, back, ahead)
    number = floor((longer - shorter) / period + HALF)
    return where(maximum(to, forth) > period * HALF, number, ZERO)


def weight(t: Any, coefficients: Any, powers: int) -> Any:
    """A tap's weight at t: Horner's rule for one row of a method's table (lowest power first)."""
    total = coefficients[powers - 1]
    for back in range(2, powers + 1):
        total = total * t + coefficients[powers - back]
    return total


def bound(namespace: Any) -> types.SimpleNamespace:
    """Copy the functions of this module; the copies call ``where`` and so on of a namespace.

    A formula cannot be used if the namespace lacks a function that it calls.
    """
    names = dict(globals())
    for name in ("floor", "rint", "where", "minimum", "maximum", "remainder"):
        names[name] = getattr(namespace, name, None)
    for name, formula in globals().items():
        if isinstance(formula, types.FunctionType):
            names[name] = types.FunctionType(formula.__code__, names, name)
    return types.SimpleNamespace(**names)
