"""The record of numbers that describes one axis of a plan to the kernels of every target.

`describe` makes it.  The CPU's drivers read all of it from two flat tables, one of integers and one
of real numbers, with a row for each axis.  GPU kernels are compiled for the choices, which are
passed as a tuple, and receive the sizes as arguments.  Both find a number by the constants below,
which are the indices of the fields.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from gridsample.definitions.axis import REFLECTION, ZEROS
from gridsample.definitions.plan import BOUNDARIES, Plan

# The units of coordinates: from edge to edge or centre to centre of the corner pixels; or pixels.
TO_EDGES, TO_CENTRES, IN_PIXELS = range(3)


class Choices(NamedTuple):
    """The numbers that do not depend on sizes."""

    taps: int  # their number (with the index `COUNT`, because tuples have a method `count`)
    first: int  # the offset of the first tap from the base index
    powers: int  # the number of coefficients of each weight's polynomial
    rounding: int  # how a position is rounded to a base index
    order: int  # of derivative
    boundary: int  # see `gridsample.definitions.axis`
    edged: int  # where the mirrors are
    odd: int  # whether the boundary has a sign
    folds: int  # whether the position is folded, rather than the taps
    coords: int  # the units of coordinates
    bounded: int  # whether a position outside the image has no taps
    backed: int  # whether a point takes the fill value if every tap is outside


class Extent(NamedTuple):
    """Sizes along an axis."""

    size: int  # pixels
    inner: int  # output points per step along the axis; 0 if the output has no such axis
    extent: int  # length of the output along it; 0 if it has no such axis


class Measures(NamedTuple):
    """The real numbers: position = ((coordinate + plus) * times - minus) * by, and its limits."""

    plus: float
    times: float
    minus: float
    by: float
    from_: float  # the lowest position of inside points
    to: float  # and the greatest
    before: float  # points are out below this position
    after: float  # and above this one
    steep: float  # d position / d coordinate, before any fold
    mirror: float  # the place of the mirror that folds the position, for the rounding; otherwise 0
    limit: float  # the largest valid position: infinity is invalid if the image repeats
    start: float  # the first output point's own coordinate
    step: float  # the distance to the next one's
    least: float  # where pixels are read in pairs, positions are clamped to a range from here
    greatest: float  # to here
    upmost: float  # and the index of a pair's first pixel is at most this


class Axis(NamedTuple):
    """An axis."""

    choices: Choices
    extent: Extent
    measures: Measures

    @property
    def integers(self) -> tuple[int, ...]:
        """The row of the table of integers."""
        return (*self.choices, *self.extent)


# Indices in `Choices`, which is also what GPU kernels are compiled for; then in a row of integers.
COUNT, FIRST, POWERS, ROUNDING, ORDER = range(5)
BOUNDARY, EDGED, ODD, FOLDS, COORDS, BOUNDED, BACKED = range(5, 12)
SIZE, INNER, EXTENT = range(12, 15)
COLUMNS = 15
# Indices in `Measures`.
PLUS, TIMES, MINUS, BY, FROM, TO, BEFORE, AFTER = range(8)
STEEP, MIRROR, LIMIT, START, STEP, LEAST, GREATEST, UPMOST = range(8, 16)
MEASURES = 16
# Where the weights' coefficients start, after the choices, in what GPU kernels are compiled for.
TABLES = len(Choices._fields)

# The axis that stands for one that the image lacks: all points are at its only pixel.
ALONE = Choices(
    taps=1, first=0, powers=1, rounding=1, order=0, boundary=ZEROS, edged=0, odd=0, folds=1,
    coords=IN_PIXELS, bounded=0, backed=0,
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def describe(plan: Plan, a: int, order: int) -> Axis:
    """Describe axis ``a`` of a plan (x first) for an order of derivative along it."""
    method, boundary, size = plan.methods[a], BOUNDARIES[plan.boundaries[a]], plan.spatial[-1 - a]
    counts = TO_CENTRES if plan.align_corners else TO_EDGES
    choices = Choices(
        taps=method.taps,
        first=method.first,
        powers=method.powers,
        rounding=method.rounding,
        order=order,
        boundary=boundary.code,
        edged=plan.edges[a],
        odd=int(boundary.odd),
        folds=int(plan.folds[a]),
        coords=counts if plan.coords == "normalized" else IN_PIXELS,
        bounded=int(not plan.extrapolate),
        backed=int(boundary.filled and plan.sums_to_one),
    )
    inner, extent = 0, 0
    if len(plan.out) >= len(plan.spatial):
        inner, extent = math.prod(plan.out[len(plan.out) - a :]), plan.out[-1 - a]
    return Axis(choices, Extent(size, inner, extent), measure(plan, a, choices, extent))


def measure(plan: Plan, a: int, choices: Choices, extent: int) -> Measures:
    """Compute the real numbers of an axis."""
    method, size, real = plan.methods[a], plan.spatial[-1 - a], plan.real
    taps, first, last = choices.taps, choices.first, float(size - 1)
    (plus, times, minus, by), steep = {
        TO_EDGES: ((1.0, float(size), 1.0, 0.5), size / 2),
        TO_CENTRES: ((1.0, last, 0.0, 0.5), last / 2),
        IN_PIXELS: ((0.0, 1.0, 0.0, 1.0), 1.0),
    }[choices.coords]
    shift = 0.5 if method.rounds else 0.0  # from a pixel's centre to where the base index changes

    def below(limit: float) -> float:
        return float(np.nextafter(real.type(limit), real.type(-math.inf)))

    drops = choices.boundary == ZEROS
    # Exclude ties, which are rounded to either side, and the fold itself, where the gradient is
    # zero: such points are treated as edge points.
    begin = -shift - first
    if method.rounds or (choices.folds and not drops):
        begin += float(np.finfo(real).tiny) if begin == 0 else abs(begin) * np.finfo(real).eps
    end = below(size - taps - first + 1 - shift)
    repeats = choices.boundary >= REFLECTION and plan.extrapolate
    mirrors = choices.folds and choices.boundary == REFLECTION
    before, after = -math.inf, math.inf
    # A fill value is weighted by the taps, so if the weights need not sum to one, no point is out.
    if drops and (plan.sums_to_one or not BOUNDARIES[plan.boundaries[a]].filled):
        before, after = below(1 - first - taps - shift), float(size - first - shift)
    if not plan.extrapolate:
        before, after = -plan.rim, last + plan.rim
        begin, end = max(begin, before), min(end, after)
    gaps = max(extent - plan.align_corners, 1) if extent else 1
    return Measures(
        plus=plus,
        times=times,
        minus=minus,
        by=by,
        from_=begin,
        to=end,
        before=before,
        after=after,
        steep=steep,
        mirror=-0.5 * choices.edged if mirrors else 0.0,
        limit=float(np.finfo(real).max) if repeats else math.inf,
        start=0.0 if plan.coords == "pixel" else (1 - extent) / gaps,
        step=1.0 if plan.coords == "pixel" else 2 / gaps,
        # No tap counts at or beyond these.
        least=below(-1.0) if drops else 0.0,
        greatest=float(size) if drops else last,
        upmost=last - 1,
    )
