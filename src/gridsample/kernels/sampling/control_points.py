"""Lattices of control points as programs read them: continued beyond their ends, with tables.

A program reads the control points from the first tap of any output to the last one, those beyond
the ends included.  For the columns of an output, tables say which interval of the lattice each is
in; for the other axes, they have the weights of each row.  See `programs.lattices`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.control_points import ControlAxis, ControlPoints
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import frozen
from gridsample.kernels.sampling.division import divide_points, lanes_of
from gridsample.kernels.sampling.settings import STRIP

Array = np.ndarray[Any, Any]

# The least spacing of columns at which programs interpolate rows: intervals with fewer points take
# longer than a grid.
MIN_SPACING = 4.0
# The most points of a group, and numbers that programs may read beyond the last one they need.
BEYOND = 32
# The most points that are interpolated at once, and the intervals that they touch.
MAX_POINTS = STRIP + BEYOND
MAX_INTERVALS = int(MAX_POINTS / MIN_SPACING) + 2


@cached_call(256)
def reads_lattices(plan: Plan) -> bool:
    """Whether programs read the lattice of a plan: if its rows are long, and it is coarse."""
    assert plan.lattice is not None
    axes, outputs = plan.lattice.axes, divide_points(plan, lanes_of(plan))
    rows = not outputs.listed and outputs.columns == plan.out[-1]
    points = math.prod([end - begin for begin, end in map(span, axes)])
    coarse = axes[0].spacing >= MIN_SPACING and points <= plan.points
    return rows and coarse and plan.footprint is None


def padded(places: ControlPoints, lattice: Array) -> Array:
    """Return the control points that programs read, in float64; rows have some more."""
    rank, spans = len(places.axes), [*map(span, places.axes)][::-1]
    more = [0] * (rank - 1) + [-(-BEYOND // rank)]
    sizes = [end - begin + extra for (begin, end), extra in zip(spans, more, strict=True)]
    result = np.empty((len(lattice), *sizes, rank))
    own = [slice(-begin, n - begin) for (begin, _), n in zip(spans, places.points, strict=True)]
    result[(slice(None), *own)] = lattice
    for k in range(rank):  # axes before are whole already
        part = result[(slice(None),) * (2 + k) + (*own[k + 1 :],)]
        continue_lines(np.moveaxis(part, 1 + k, 0), own[k])
    return result


def continue_lines(lines: Array, own: slice) -> None:
    """Continue an array linearly along its first axis, beyond the part that it has."""
    first, last = own.start, own.stop - 1
    step = min(1, last - first)
    steps = np.arange(len(lines)).reshape(-1, *(1,) * (lines.ndim - 1))
    with np.errstate(invalid="ignore"):  # of infinity
        slope = lines[first] - lines[first + step]
        lines[:first] = lines[first] + (first - steps[:first]) * slope
        slope = lines[last] - lines[last - step]
        lines[last + 1 :] = lines[last] + (steps[last + 1 :] - last) * slope


def span(axis: ControlAxis) -> tuple[int, int]:
    """Return the first tap of any output and the end of the taps, or those of the lattice."""
    first, _ = axis.taps()
    return min(int(first.min()), 0), max(int(first.max()) + axis.method.taps, axis.points)


def lattice_settings(plan: Plan) -> dict[str, Any]:
    """Return the settings of a plan with a lattice."""
    assert plan.lattice is not None
    x = plan.lattice.axes[0]
    tables = [row_tables(axis) for axis in plan.lattice.axes]
    intervals = tables[0][0]
    begins = np.searchsorted(intervals, np.arange(intervals[-1] + 2))
    # The last group of a row may read beyond its end.
    fractions = np.concatenate([x.places()[1], np.zeros(BEYOND)]).astype(plan.real)
    return {
        "lattice_table": [number for row in x.method.table for number in row],
        "lattice_sizes": [end - begin for begin, end in map(span, plan.lattice.axes)],
        "lattice_begins": frozen(begins),
        "lattice_fractions": frozen(fractions),
        "lattice_firsts": [first for first, _ in tables],
        "lattice_weights": [weights for _, weights in tables],
    }


def row_tables(axis: ControlAxis) -> tuple[Array, Array]:
    """Return the place of each output's first tap in what is read, and the weights of its taps."""
    first, weights = axis.taps()
    return frozen(first - span(axis)[0]), frozen(np.ascontiguousarray(weights))
