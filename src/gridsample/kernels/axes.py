"""One axis of a plan, as the kernels of every target know it: a record of numbers.

`describe` makes it.  The CPU's drivers read all of it from two flat tables, one of integers and one
of reals, with a row for each axis.  A GPU's kernels are compiled for the choices, as a tuple, and
are told sizes when they run.  Both find a number by the constants below, which are its place in the
record.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from gridsample.definitions.axis import REFLECTION, ZEROS
from gridsample.definitions.plan import BOUNDARIES, Plan

# What coordinates count: from one corner pixel's edge, or centre, to the other's; or pixels.
TO_EDGES, TO_CENTRES, IN_PIXELS = range(3)


class Choices(NamedTuple):
    """What does not depend on sizes."""

    taps: int  # how many there are (`COUNT`, because tuples have a method of that name)
    first: int  # the first tap, counted from the base index
    powers: int  # of the polynomials that weigh taps
    rounding: int  # how a position becomes a base index
    order: int  # of derivative
    boundary: int  # see `gridsample.definitions.axis`
    edged: int  # where a mirror stands
    odd: int  # whether the boundary has a sign
    folds: int  # whether the position is folded, and not the taps
    coords: int  # what coordinates count
    bounded: int  # whether a position outside the image has no taps at all
    backed: int  # whether a point has the fill value if every tap is outside


class Extent(NamedTuple):
    """Sizes along an axis."""

    size: int  # pixels
    inner: int  # output points to the next place along the axis; 0 if the output has no such axis
    extent: int  # places of the output along it; 0 if there are none


class Measures(NamedTuple):
    """Real numbers: position = ((coordinate + plus) * times - minus) * by, and limits of it."""

    plus: float
    times: float
    minus: float
    by: float
    from_: float  # positions of inside points are from here
    to: float  # to here
    before: float  # points are out below this position
    after: float  # and above this one
    steep: float  # d position / d coordinate, before any fold
    mirror: float  # where a mirror is that folds the position, for its rounding; else 0
    limit: float  # the largest position that is somewhere: none is infinite if the image repeats
    start: float  # the first output point's own coordinate
    step: float  # from there to the next one's
    least: float  # where pixels are read in pairs, positions are moved to a range from here
    greatest: float  # to here
    upmost: float  # and the first pixel of a pair has at most this index


class Axis(NamedTuple):
    """An axis."""

    choices: Choices
    extent: Extent
    measures: Measures

    @property
    def integers(self) -> tuple[int, ...]:
        """The row of the table of integers."""
        return (*self.choices, *self.extent)


# Places in `Choices`, and so in what a GPU's kernels are compiled for; then in a row of integers.
COUNT, FIRST, POWERS, ROUNDING, ORDER = range(5)
BOUNDARY, EDGED, ODD, FOLDS, COORDS, BOUNDED, BACKED = range(5, 12)
SIZE, INNER, EXTENT = range(12, 15)
COLUMNS = 15
# Places in `Measures`.
PLUS, TIMES, MINUS, BY, FROM, TO, BEFORE, AFTER = range(8)
STEEP, MIRROR, LIMIT, START, STEP, LEAST, GREATEST, UPMOST = range(8, 16)
MEASURES = 16
# Where the coefficients of weights follow the choices, in what a GPU's kernels are compiled for.
TABLES = len(Choices._fields)

# An axis that an image has not: its one pixel is where all points are.
ALONE = Choices(
    taps=1, first=0, powers=1, rounding=1, order=0, boundary=ZEROS, edged=0, odd=0, folds=1,
    coords=IN_PIXELS, bounded=0, backed=0,
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def describe(plan: Plan, a: int, order: int) -> Axis:
    """Axis ``a`` of a plan, x first, for an order of derivative along it."""
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
    """The real numbers of an axis."""
    method, size, real = plan.methods[a], plan.spatial[-1 - a], plan.real
    taps, first, last = choices.taps, choices.first, float(size - 1)
    (plus, times, minus, by), steep = {
        TO_EDGES: ((1.0, float(size), 1.0, 0.5), size / 2),
        TO_CENTRES: ((1.0, last, 0.0, 0.5), last / 2),
        IN_PIXELS: ((0.0, 1.0, 0.0, 1.0), 1.0),
    }[choices.coords]
    shift = 0.5 if method.rounds else 0.0  # from a position to where its base index changes

    def below(limit: float) -> float:
        return float(np.nextafter(real.type(limit), real.type(-math.inf)))

    drops = choices.boundary == ZEROS
    # A tie is rounded one way or the other; and where a boundary folds the position, its gradient
    # is zero at the fold itself: such points are left to the edges.
    begin = -shift - first
    if method.rounds or (choices.folds and not drops):
        begin += float(np.finfo(real).tiny) if begin == 0 else abs(begin) * np.finfo(real).eps
    end = below(size - taps - first + 1 - shift)
    repeats = choices.boundary >= REFLECTION and plan.extrapolate
    mirrors = choices.folds and choices.boundary == REFLECTION
    before, after = -math.inf, math.inf
    # A fill counts with the taps' weights: where these need not sum to one, no point is out.
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
        # From there no tap counts.
        least=below(-1.0) if drops else 0.0,
        greatest=float(size) if drops else last,
        upmost=last - 1,
    )
