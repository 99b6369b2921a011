"""Axes whose weights repeat from register to register of outputs: simple factors such as 2 or 3/4.

The inputs of a register then lie at the same places of a window that moves along the line.  Only
the outputs near the ends have other weights.  The tables of a long axis are therefore those of a
short one, in whose middle some periods are left out.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gridsample.definitions.bands import Band
from gridsample.definitions.methods import AREA
from gridsample.definitions.tables import Axis, band_of, kind_of

# The registers of a short axis.
SHORT = 12
# The greatest window, in registers, and the greatest number of taps.
WINDOW, MOST_TAPS = 6, 16
# The fewest registers of a line.
LEAST_REGISTERS = 4
# The part of a line, at its ends, that may have other weights.
SHARE_AT_ENDS = 1 / 8
# Single precision, in which nearest pixels are computed, is exact up to this size.
EXACT = 1 << 22


class Pattern(NamedTuple):
    """Weights that repeat.

    Attributes:
        start, stop: the outputs that repeat.
        origin: the first input of output ``start``.
        period, step: the outputs of a period, and the inputs between two.
        places: where the first input of each lane lies in the window.
        taps: the number of inputs of an output.
        window: the numbers of a window.
    """

    start: int
    stop: int
    origin: int
    period: int
    step: int
    places: tuple[int, ...]
    taps: int
    window: int


def pattern_of(band: Band, inner: int, lanes: int) -> Pattern | None:
    """Return how a band repeats if a register has the numbers of some pixels; None if not at all.

    ``inner`` is the number of contiguous numbers of a pixel.
    """
    pixels, middle = lanes // inner, band.outputs // 2
    if band.outputs < LEAST_REGISTERS * pixels or not 0 < band.count[middle] <= MOST_TAPS:
        return None
    first, alike = band.first, (band.weights[middle + 1 : middle + pixels + 1]
                                == band.weights[middle]).all(axis=1)  # fmt: skip
    for period in (np.flatnonzero(alike) + 1).tolist():
        step = int(first[middle + period] - first[middle])
        start, stop = repeating(band, middle, period, step)
        if step > 0 and start + band.outputs - stop <= SHARE_AT_ENDS * band.outputs:
            break
    else:
        return None
    inputs, taps = (first[start : start + pixels] - first[start]).tolist(), int(band.count[middle])
    places = tuple([inputs[lane // inner % pixels] * inner + lane % inner for lane in range(lanes)])
    window = max(max(places) + (taps - 1) * inner + 1, lanes)
    if window > WINDOW * lanes:
        return None
    return Pattern(start, stop, int(first[start]), period, step, places, taps, window)


def repeating(band: Band, middle: int, period: int, step: int) -> tuple[int, int]:
    """Return the range of outputs around the middle that repeat with a period."""
    earlier, later = slice(0, band.outputs - period), slice(period, None)
    alike = band.first[later] - band.first[earlier] == step
    alike &= (band.count[later] == band.count[middle]) & (band.count[earlier] == band.count[middle])
    alike &= (band.weights[later] == band.weights[earlier]).all(axis=1)
    others = np.flatnonzero(~alike)
    start = int(others[others < middle].max(initial=-1)) + 1
    stop = int(others[others >= middle].min(initial=len(alike)))
    return start, stop + period


class Periods(NamedTuple):
    """The tables of a long axis: those of a short one, and the periods that are left out there."""

    band: Band
    pattern: Pattern
    skipped: int


@functools.lru_cache(maxsize=256)
def periods_of(axis: Axis, transposed: bool, lanes: int) -> Periods | None:
    """Return the periods of an axis, or None if its weights do not repeat."""
    n, m = axis.inputs, axis.outputs
    ratio = Fraction(n, m) if axis.method == AREA else Fraction(axis.step)
    exact = ratio * (m - 1) == n - 1 if axis.align_corners else axis.scale or ratio * m == n
    if not exact or not ratio:  # positions are rounded, and do not repeat
        return None
    rows, columns = ratio.denominator, ratio.numerator  # of the matrix
    period, step = (columns, rows) if transposed else (rows, columns)
    kept = -(-SHORT * lanes // period)
    skipped = min(n // columns, m // rows) - kept
    if skipped < 1 or period > lanes or (kind_of(axis) == "copies" and max(n, m) > EXACT):
        return None
    short = axis._replace(inputs=n - skipped * columns, outputs=m - skipped * rows)
    if short.step != axis.step:
        return None
    band = band_of(short, transposed)
    pattern = pattern_of(band, 1, lanes)
    if pattern is None or step % pattern.step or period * pattern.step != step * pattern.period:
        return None
    return Periods(band, pattern, skipped * (period // pattern.period))
