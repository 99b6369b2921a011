"""Tables of axes whose pixels have coordinates of their own, for the search of programs.

An axis is divided into equal buckets.  Where coordinates are evenly spread, few are in a bucket, so
that few steps of bisection follow; in the worst case, as many as among all of them.  Where they are
evenly spread on a logarithmic scale, so are their bits on a linear one: those of a floating-point
number are an exponent followed by a fraction.  So the buckets divide the coordinates or their bits,
whichever needs fewer steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import make_room_for
from gridsample.definitions.knots import Knots, SplineKnots
from gridsample.kernels.memory import frozen

Array = np.ndarray[Any, Any]

# The number of buckets per interval.
BUCKETS = 4
# All bits of an int32 but that of its sign.
LOW_BITS = (1 << 31) - 1


def knot_settings(entries: Sequence[str | Knots]) -> dict[str, list[Any]]:
    """Return the settings that are about the coordinates of axes, a list for each, x first."""
    knots = [entry for entry in entries if isinstance(entry, Knots)]
    # With the tables and the text of `Axes`, that is about five times the coordinates.
    size = sum(5 * entry.coordinates.nbytes for entry in knots)
    size += sum(entry.weights.nbytes for entry in knots if isinstance(entry, SplineKnots))
    make_room_for(size)
    rows = [tables(entry) if isinstance(entry, Knots) else NOTHING for entry in entries]
    return {name: [row[name] for row in rows] for name in NOTHING}


# The settings of an axis without coordinates of its own, which no program reads.
NOTHING: dict[str, Any] = {
    "knots": 0,
    "buckets": 0,
    "knots_low": 0.0,
    "knots_scale": 1.0,
    "knots_by_bits": 0,
    "knots_sign": 1.0,
    "last_bucket": 0,
    "search_steps": 0,
    "knots_weights": 0,
    "knots_least": 0.0,
    "knots_greatest": 0.0,
}


def tables(axis: Knots) -> dict[str, Any]:
    """Return the settings of one axis; see `programs.searches.KnotsInMemory`."""
    first, last = float(axis.coordinates[0]), float(axis.coordinates[-1])
    ends = {"knots_least": min(first, last), "knots_greatest": max(first, last)}
    if axis.is_even:
        return NOTHING | ends | {"knots_low": first, "knots_scale": axis.scale}
    sign = 1.0 if axis.scale > 0 else -1.0
    knots = sign * axis.coordinates
    keys = [knots, bits_of(knots).astype(np.float64)]
    found = [buckets_of(each) for each in keys]
    by_bits = int(found[1].most < found[0].most)
    chosen = found[by_bits]
    return {
        "knots": frozen(knots),
        "buckets": frozen(chosen.first.astype(np.int32)),
        "knots_low": float(keys[by_bits][0]),
        "knots_scale": chosen.scale,
        "knots_by_bits": by_bits,
        "knots_sign": sign,
        "last_bucket": len(chosen.first) - 1,
        "search_steps": chosen.most.bit_length(),
        "knots_weights": frozen(axis.weights) if isinstance(axis, SplineKnots) else 0,
        **ends,
    }


class Buckets(NamedTuple):
    """Equal buckets of increasing keys.

    Attributes:
        first: the first interval of each.
        scale: buckets per unit.
        most: the most keys in a bucket.
    """

    first: Array
    scale: float
    most: int


def buckets_of(keys: Array) -> Buckets:
    """Divide keys, which do not decrease, into buckets."""
    count = BUCKETS * (len(keys) - 1)
    extent = float(keys[-1]) - float(keys[0])
    scale = count / extent if extent else 0.0
    # With the arithmetic of the program, so that no knot is in another bucket there.
    own = np.clip((keys - keys[0]) * scale, 0, count - 1).astype(np.int64)
    members = np.bincount(own, minlength=count)
    before = np.cumsum(members) - members
    return Buckets(np.clip(before - 1, 0, len(keys) - 2), scale, int(members.max()))


def bits_of(numbers: Array) -> Array:
    """Return the upper half of the bits of float64 numbers as int32 that increase with them."""
    high = ((numbers + 0.0).view(np.int64) >> 32).astype(np.int32)  # 0, also of -0
    return high ^ ((high >> 31) & LOW_BITS)
