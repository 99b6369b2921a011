"""Convert a block of coordinates to taps on a GPU: where each tap is, and its weight.

A program processes a block of points at once; a variable is a vector with an entry for each point.
What is the same for all points (methods, boundaries, orders) is ``Static``: it is known at compile
time, so that every such choice is made then, and every loop over taps is unrolled.

The functions are plain Python.  `gridsample.kernels.gpu.build` lowers them and those of
`gridsample.definitions.axis` to Triton, and binds ``tl`` to `triton.language`.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import (
    HALF,
    ONE,
    ZERO,
    ZEROS,
    confine,
    fold,
    fold_index,
    fold_sign,
    inside,
    known,
    position,
    slope,
    split,
    weight,
)
from gridsample.kernels.gpu.choices import (
    BOUNDARY,
    BOUNDED,
    CONTINUES,
    COORDS,
    COUNT,
    EDGED,
    FIRST,
    FOLDS,
    IN_PIXELS,
    NEVER,
    ODD,
    ORDER,
    POWERS,
    ROUNDING,
    TABLES,
    TO_CENTRES,
    TO_EDGES,
)
from gridsample.kernels.gpu.records import Static

tl: Any = None  # bound by lowering

# What axis.py needs -------------------------------------------------------------------------------


def where(condition: Any, a: Any, b: Any) -> Any:
    """Select entry by entry."""
    return tl.where(condition, a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, entry by entry."""
    return tl.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, entry by entry."""
    return tl.maximum(a, b)


def floor(a: Any) -> Any:
    """Round down to an integer, as a float."""
    return tl.floor(a)


def rint(a: Any) -> Any:
    """Round to the nearest integer, as a float; ties to even.  Every step is exact."""
    low = floor(a)
    over = a - low
    odd = floor(low * HALF) * 2 != low
    return where((over > HALF) | ((over == HALF) & odd), low + ONE, low)


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder of a nonnegative integer."""
    return a % b


def row(AXIS: Static, RAISED: Static, TAP: Static, REAL: Static) -> Any:
    """Return a tap's coefficients, for the axis's order raised by RAISED.

    Each is explicitly converted to REAL, because Triton would convert it to single precision.
    """
    coefficients: Any = ()
    for power in tl.static_range(tl.constexpr(AXIS[POWERS])):
        coefficients = coefficients + (
            tl.full([], AXIS[TABLES + (RAISED * AXIS[COUNT] + TAP) * AXIS[POWERS] + power], REAL),
        )
    return coefficients


# One axis -----------------------------------------------------------------------------------------


def locate(coordinate: Any, size: Any, AXIS: Static, REAL: Static) -> Any:
    """Return base indices, fractions, slopes, and masks of valid positions and of those within.

    A position is not valid if the coordinate is NaN, or infinite where the boundary has no limit.
    Points within may have taps.
    """
    last = tl.cast(size - 1, REAL)
    reach = AXIS[COUNT] + ONE
    pos = coordinate
    pixels_per_unit = tl.full([], 1, REAL)
    if AXIS[COORDS] != IN_PIXELS:
        pos = position(coordinate, last, AXIS[COORDS] == TO_CENTRES)
        pixels_per_unit = slope(last, AXIS[COORDS] == TO_CENTRES)
    valid = known(pos, AXIS[BOUNDARY] if AXIS[BOUNDED] == NEVER else ZEROS)
    within = valid
    if AXIS[BOUNDED] != NEVER:
        within = inside(pos, last, HALF if AXIS[BOUNDED] == TO_EDGES else ZERO)
    pos = where(within, pos, ZERO)
    if AXIS[CONTINUES]:
        first = minimum(maximum(floor(pos), ZERO), last - ONE)
        return first, pos - first, pixels_per_unit, valid, within
    if AXIS[FOLDS] and AXIS[BOUNDARY] != ZEROS:  # under zeros, fold does the same as confine
        pos, sign = fold(pos, last, reach, AXIS[BOUNDARY], AXIS[EDGED])
        pixels_per_unit = sign * pixels_per_unit
    else:
        pos = confine(pos, last, reach, AXIS[BOUNDARY], AXIS[EDGED])
    base, t = split(pos, AXIS[ROUNDING])
    return base, t, pixels_per_unit, valid, within


def fold_taps(base: Any, size: Any, AXIS: Static) -> Any:
    """Return the pixel that each tap of an axis reads, whether the tap is kept, and its sign.

    A dropped tap's pixel is 0: the multiples of 0 stay aligned, so that loads of several channels
    remain single instructions.
    """
    pixels: Any = ()
    kept: Any = ()
    signs: Any = ()
    for k in tl.static_range(tl.constexpr(AXIS[COUNT])):
        at = base + (AXIS[FIRST] + k)
        index = fold_index(at, size, ZEROS if AXIS[FOLDS] else AXIS[BOUNDARY], AXIS[EDGED])
        kept = kept + (index >= 0,)
        pixels = pixels + (where(index >= 0, index, 0),)
        signs = signs + (fold_sign(at, size, AXIS[BOUNDARY] if AXIS[ODD] else ZEROS, AXIS[EDGED]),)
    return pixels, kept, signs


def any_kept(kept: Any, AXIS: Static) -> Any:
    """Whether any tap of an axis is kept."""
    result = kept[0]
    for k in tl.static_range(1, tl.constexpr(AXIS[COUNT])):
        result = result | kept[k]
    return result


def weigh(t: Any, pixels_per_unit: Any, signs: Any, AXIS: Static, RAISED: Static) -> Any:
    """Return the weights of an axis's taps, for its order raised by RAISED, along the *position*.

    They include the slopes for the order itself, but not those for the raise.
    """
    weights: Any = ()
    for k in tl.static_range(tl.constexpr(AXIS[COUNT])):
        tap_weight = weight(t, row(AXIS, RAISED, k, t.dtype), AXIS[POWERS])
        if AXIS[POWERS] == 1:
            tap_weight = tl.full(t.shape, tap_weight, t.dtype)
        if AXIS[ODD]:
            tap_weight = tap_weight * signs[k]
        for _ in tl.static_range(tl.constexpr(AXIS[ORDER])):
            tap_weight = tap_weight * pixels_per_unit
        weights = weights + (tap_weight,)
    return weights
