"""Tables of the form "picked": the inputs of neighbouring numbers of a line, in a few registers.

A line is cut into groups of numbers that fill a register.  The inputs of a group lie in a window of
a few registers, from which each lane picks its own.  Groups whose lanes pick the same places and
have the same weights share a row of the tables, as they do where the size is halved.

For simple factors such as 2 or 3/4, the tables of a long line are those of a short one, of which a
group in the middle stands for many.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES, Band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.methods import AREA
from gridsample.definitions.tables import Axis, band_of, formula_of
from gridsample.kernels.vector import host

Array = np.ndarray[Any, Any]

# The most inputs of an output, and the most registers of a window.
MAX_TAPS, MAX_WINDOW = 16, 8
# Groups that may each have a row of the tables.
FEW_GROUPS = 8
# The groups of a short line: of fewer, a window in the middle may reach beyond the inputs of a line
# that is enlarged four times.
GROUPS_OF_SHORT_LINE = 32
# Single precision, in which nearest pixels are computed, is exact up to this size.
EXACT = 1 << 22


class Picking(NamedTuple):
    """How the groups of a line pick their inputs.

    Attributes:
        groups: the first number of each group's window, and its row of the tables, (groups, 2).
        places: where the first input of each lane is in its window, and how many it has,
            (rows, 2, lanes).
        weights: those of each tap and lane, (rows, taps, lanes).
        start, stop: the groups, all of whose lanes have as many inputs as there are taps.
        window: the registers of a window.
    """

    groups: Array
    places: Array
    weights: Array
    start: int
    stop: int
    window: int

    @property
    def bytes(self) -> int:
        """The memory of the tables."""
        return sum([table.nbytes for table in (self.groups, self.places, self.weights)])


@cached_by_size(CACHE_BYTES, lambda picking: picking.bytes if picking else 0)
def picking_of(band: Band, inner: int, lanes: int) -> Picking | None:
    """Return how lines of ``inner`` numbers at each place are picked; None if they cannot be."""
    inputs, outputs, taps = band.inputs * inner, band.outputs * inner, band.taps
    if not 0 < taps <= MAX_TAPS or outputs < lanes or inputs < lanes:
        return None
    begin = np.minimum(np.arange(0, outputs, lanes), outputs - lanes)
    output, k = np.divmod(begin[:, np.newaxis] + np.arange(lanes), inner)
    first, count = band.first[output] * inner + k, band.count[output]
    last = (first + np.maximum(count - 1, 0) * inner).max(axis=1)
    low = first.min(axis=1)
    window = -(-int((last - low).max() + 1) // lanes)
    if host().bits == 512 and (window + 1) * lanes <= inputs:
        window += window % 2  # two registers at a time are picked from
    if window > MAX_WINDOW or window * lanes > inputs:
        return None
    low = np.minimum(low, inputs - window * lanes)
    places = np.stack([first - low[:, np.newaxis], count], axis=1)
    weights = band.weights[output, :taps].transpose(0, 2, 1)
    rows, row_of = shared_rows(places, weights)
    # The longest range around the middle; others may have fewer inputs.
    others = np.flatnonzero((count != taps).any(axis=1))
    middle = len(begin) // 2
    start = int(others[others < middle].max(initial=-1)) + 1
    stop = int(others[others >= middle].min(initial=len(begin)))
    groups = np.stack([low, row_of], axis=1)
    return Picking(groups, places[rows], weights[rows], start, stop, window)


def shared_rows(places: Array, weights: Array) -> tuple[Array, Array]:
    """Return the rows that differ, and which of these each row equals."""
    if len(places) <= FEW_GROUPS:
        return np.arange(len(places)), np.arange(len(places))
    numbers = [table.reshape(len(table), -1).astype(float) for table in (places, weights)]
    table = np.ascontiguousarray(np.concatenate(numbers, axis=1))
    keys = table.view(np.dtype((np.void, table.shape[1] * table.itemsize)))[:, 0]
    _, rows, row_of = np.unique(keys, return_index=True, return_inverse=True)
    return rows, row_of


class Repeated(NamedTuple):
    """The tables of a long line: those of a short one, of which a group stands for many.

    Attributes:
        band: the short line's band.
        picking: its tables.
        group: the group that stands for those after it, too.
        skipped: how many these are.
        step: the inputs from a group's window to the next one's.
    """

    band: Band
    picking: Picking
    group: int
    skipped: int
    step: int


@functools.lru_cache(maxsize=256)
def repeated(axis: Axis, transposed: bool, lanes: int) -> Repeated | None:
    """Return the tables of a long line, or None if weights do not repeat from group to group."""
    n, m = axis.inputs, axis.outputs
    ratio = Fraction(n, m) if axis.method == AREA else Fraction(axis.step)
    exact = ratio * (m - 1) == n - 1 if axis.align_corners else axis.scale or ratio * m == n
    rows, columns = ratio.denominator, ratio.numerator  # of the matrix
    period = columns if transposed else rows
    if not exact or not ratio or lanes % period:  # positions are rounded, and do not repeat
        return None
    if formula_of(axis) == "copies" and max(n, m) > EXACT:
        return None
    rows, columns = rows * lanes // period, columns * lanes // period  # of a group
    skipped = min(n // columns, m // rows) - GROUPS_OF_SHORT_LINE
    short = axis._replace(inputs=n - skipped * columns, outputs=m - skipped * rows)
    if skipped < 1 or short.step != axis.step:
        return None
    band, step = band_of(short, transposed), rows if transposed else columns
    picking = picking_of(band, 1, lanes)
    if picking is None or not picking.start < GROUPS_OF_SHORT_LINE // 2 < picking.stop - 1:
        return None
    group = GROUPS_OF_SHORT_LINE // 2
    moves = picking.groups[group : group + 2] - picking.groups[group - 1 : group + 1]
    return Repeated(band, picking, group, skipped, step) if (moves == [step, 0]).all() else None
