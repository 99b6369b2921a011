"""The record of numbers that describes one axis of a plan to GPU kernels.

`describe` makes it.  Kernels are compiled for these choices, which are passed as a tuple, and
receive the sizes as arguments.  They find a number by the constants below, which are the indices of
the fields.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from gridsample.definitions.axis import ZEROS
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.knots import require_name
from gridsample.definitions.plan import Plan

# The units of coordinates: from edge to edge or centre to centre of the corner pixels; or pixels.
TO_EDGES, TO_CENTRES, IN_PIXELS = range(3)
# Where an image ends: at its edges or centres as above, or never, because it is extrapolated.
NEVER = 2


class Choices(NamedTuple):
    """What kernels are compiled for."""

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
    bounded: int  # where positions cease to have taps: TO_EDGES, TO_CENTRES or NEVER
    backed: int  # whether a point takes the fill value if every tap is outside
    continues: int  # whether positions outside are those of the first or the last interval


# Indices in `Choices`.
COUNT, FIRST, POWERS, ROUNDING, ORDER = range(5)
BOUNDARY, EDGED, ODD, FOLDS, COORDS, BOUNDED, BACKED, CONTINUES = range(5, 13)
# Where the weights' coefficients start, after the choices, in what GPU kernels are compiled for.
TABLES = len(Choices._fields)

# The axis that stands for one that the image lacks: all points are at its only pixel.
ALONE = Choices(
    taps=1,
    first=0,
    powers=1,
    rounding=1,
    order=0,
    boundary=ZEROS,
    edged=0,
    odd=0,
    folds=1,
    coords=IN_PIXELS,
    bounded=NEVER,
    backed=0,
    continues=0,
)


@functools.lru_cache(maxsize=1024)
def describe(plan: Plan, a: int, order: int) -> Choices:
    """Describe axis ``a`` of a plan (x first) for an order of derivative along it."""
    method, boundary = plan.methods[a], BOUNDARIES[plan.boundaries[a]]
    named = require_name(plan.coords, "a GPU")
    continues = plan.continues(a) and method.is_linear and plan.spatial[-1 - a] > 1
    units, margin = TO_CENTRES if plan.align_corners else TO_EDGES, plan.margins[a]
    return Choices(
        taps=method.taps,
        first=method.first,
        powers=method.powers,
        rounding=method.rounding,
        order=order,
        boundary=boundary.code,
        edged=plan.edges[a],
        odd=int(boundary.odd),
        folds=int(plan.folds[a] and not continues),
        coords=units if named == "normalized" else IN_PIXELS,
        bounded=NEVER if margin is None else TO_EDGES if margin else TO_CENTRES,
        backed=int(boundary.filled and plan.sums_to_one),
        continues=int(continues),
    )
