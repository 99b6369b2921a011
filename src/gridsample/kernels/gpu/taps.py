"""From a block of coordinates to taps, on a GPU: where each tap is, and how much it weighs.

A program works on a block of points at once; a name stands for a vector with an entry for each
point.  What is the same for all points (methods, boundaries, orders) is ``Static``: known when a
kernel is compiled, so that every choice below is made then, and every loop over taps is unrolled.

The functions are plain Python; `gridsample.kernels.gpu.build` lowers them, and those of
`gridsample.axis`, to Triton.  ``tl`` is `triton.language`, bound there.
"""

from __future__ import annotations

from typing import Any

from gridsample.axis import (
    HALF,
    ONE,
    ZERO,
    ZEROS,
    confine,
    fold,
    fold_index,
    known,
    position,
    slope,
    split,
    weight,
)

Static = Any  # known when the kernel is compiled
tl: Any = None  # bound by lowering

# The entries of an axis, as kernels know it: a tuple that ends with the coefficients of three
# tables, those of its order, of the next and of the one after that, tap by tap.
TAPS, FIRST, POWERS, ROUNDS, FOLDS, BOUNDARY, ORDER, TABLES = range(8)


# What axis.py needs -------------------------------------------------------------------------------


def where(condition: Any, a: Any, b: Any) -> Any:
    """Choose, entry by entry."""
    return tl.where(condition, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers, entry by entry."""
    return tl.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers, entry by entry."""
    return tl.maximum(a, b)


def floor(a: Any) -> Any:
    """The next integer below, still a float."""
    return tl.floor(a)


def rint(a: Any) -> Any:
    """The nearest integer, still a float; ties to even.  Exact, as each step is."""
    low = floor(a)
    over = a - low
    odd = floor(low * HALF) * 2 != low
    return where((over > HALF) | ((over == HALF) & odd), low + ONE, low)


def row(AXIS: Static, RAISED: Static, TAP: Static, REAL: Static) -> Any:
    """A tap's coefficients, of the axis's order raised by so much.

    Each is made a number of the type by hand: Triton would make single precision of it.
    """
    coefficients: Any = ()
    for power in tl.static_range(tl.constexpr(AXIS[POWERS])):
        coefficients = coefficients + (
            tl.full([], AXIS[TABLES + (RAISED * AXIS[TAPS] + TAP) * AXIS[POWERS] + power], REAL),
        )
    return coefficients


# One axis -----------------------------------------------------------------------------------------


def locate(coordinate: Any, size: Any, AXIS: Static, ALIGNED: Static, REAL: Static) -> Any:
    """Coordinates -> base indices, fractions, slopes, and which points are somewhere."""
    last = tl.cast(size - 1, REAL)
    reach = AXIS[TAPS] + ONE
    pos = position(coordinate, last, ALIGNED)
    sure = known(pos, AXIS[BOUNDARY])
    pos = where(sure, pos, ZERO)
    steep = slope(last, ALIGNED)
    if AXIS[FOLDS] and AXIS[BOUNDARY] != ZEROS:  # under zeros, fold does what confine does
        pos, sign = fold(pos, last, reach, AXIS[BOUNDARY], 1 - ALIGNED)
        steep = sign * steep
    else:
        pos = confine(pos, last, reach, AXIS[BOUNDARY], 1 - ALIGNED)
    base, t = split(pos, AXIS[ROUNDS])
    return base, t, steep, sure


def lay(base: Any, size: Any, AXIS: Static, ALIGNED: Static) -> Any:
    """The pixel that each tap of an axis reads, and whether the tap is kept.

    A dropped tap's pixel is 0: a number whose multiples keep their alignment, so that loads of
    several channels stay single instructions.
    """
    pixels: Any = ()
    kept: Any = ()
    for k in tl.static_range(tl.constexpr(AXIS[TAPS])):
        index = fold_index(
            base + (AXIS[FIRST] + k), size, ZEROS if AXIS[FOLDS] else AXIS[BOUNDARY], 1 - ALIGNED
        )
        kept = kept + (index >= 0,)
        pixels = pixels + (where(index >= 0, index, 0),)
    return pixels, kept


def weigh(t: Any, steep: Any, AXIS: Static, RAISED: Static) -> Any:
    """The weights of an axis's taps, of its order raised by so much, along the *position*.

    The slopes that belong to the order itself are in them, those of what it is raised by are not.
    """
    weights: Any = ()
    for k in tl.static_range(tl.constexpr(AXIS[TAPS])):
        one = weight(t, row(AXIS, RAISED, k, t.dtype), AXIS[POWERS])
        if AXIS[POWERS] == 1:
            one = tl.full(t.shape, one, t.dtype)
        for _ in tl.static_range(tl.constexpr(AXIS[ORDER])):
            one = one * steep
        weights = weights + (one,)
    return weights
