"""Add values to pixels: as they come, or exactly, so that their order does not matter.

As in `taps`, the functions are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ZERO
from gridsample.kernels.gpu.parts import AS_THEY_COME, MEASURED, over_points, plus
from gridsample.kernels.gpu.records import GradImage, Static, Tile
from gridsample.kernels.gpu.taps import maximum, minimum, tl, where


def follow(run_a: Any, sum_a: Any, run_b: Any, sum_b: Any) -> Any:
    """Add sums along runs of points, for a scan: the sum so far is added within the same run."""
    return run_b, sum_b + where(run_a == run_b, sum_a, 0)


def join_runs(at: Any, kept: Any, value: Any, BLOCK: Static, LAST: Static) -> Any:
    """Sum the values of successive points that go to the same pixel, at the last of these points.

    Return which points are to be written, and their values.
    """
    value = where(over_points(kept, LAST), value, 0)
    place = tl.arange(0, BLOCK)
    key = where(kept, at, -1)
    before = tl.gather(key, maximum(place - 1, 0), 0)
    run = tl.associative_scan(where((place == 0) | (key != before), 1, 0), 0, plus)
    after = tl.gather(run, minimum(place + 1, BLOCK - 1), 0)
    runs = tl.broadcast(over_points(run, LAST), value)[0]
    _, value = tl.associative_scan((runs, value), 0 if LAST else 1, follow)
    return kept & ((place == BLOCK - 1) | (run != after)), value


def two_to(exponent: Any, REAL: Static) -> Any:
    """Return powers of two as floats, for exponents of normal numbers of the type."""
    if REAL.primitive_bitwidth == 64:
        return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((exponent + 127).to(tl.int32) << 23).to(tl.float32, bitcast=True)


def halves(bound: Any, room: Any, REAL: Static) -> Any:
    """Return two exponents that scale values of the size ``bound``, a float's bits, below 2**room.

    There are two, because their sum may be too large for one power of two.
    """
    if REAL.primitive_bitwidth == 64:
        exponent = room + 1022 - (bound >> 52).to(tl.int32)
    else:
        exponent = room + 126 - (bound >> 23)
    return exponent >> 1, exponent - (exponent >> 1)


def add(
    grad_image: GradImage,
    offset: Any,
    at: Any,
    value: Any,
    kept: Any,
    real: Any,
    tile: Tile,
    JOIN: Static,
    SUMS: Static,
) -> None:
    """Add a tile of values to pixels, for kept points and existing channels.

    Planes begin at ``offset`` in the gradient, in its bounds and in its limbs.

    Atomic additions of floats happen in any order, so that the rounding varies.  The greatest of
    some floats, and the sum of integers, do not depend on the order.  Therefore ``MEASURED`` finds
    the greatest finite magnitude of the values added to each pixel (as bits: those of positive
    floats are ordered like the floats).  Then ``EXACT`` adds integers: multiples of that
    magnitude's power of two times 2**-room, and, if REAL has 53 bits, the remainders in a second
    limb.  Values that are not finite are added to the floats, where they also dominate in any
    order.
    """
    if JOIN:
        kept, value = join_runs(at, kept, value, tile.BLOCK, tile.LAST)
    at = over_points(at, tile.LAST)
    there = over_points(kept, tile.LAST) & real
    if SUMS == AS_THEY_COME:
        tl.atomic_add(grad_image.memory + offset + at, value, mask=there, sem="relaxed")
    else:
        finite = value - value == ZERO
        if SUMS == MEASURED:
            size = tl.abs(value).to(
                tl.int64 if tile.REAL.primitive_bitwidth == 64 else tl.int32, bitcast=True
            )
            tl.atomic_max(grad_image.bounds + offset + at, size, mask=there & finite, sem="relaxed")
        else:
            tl.atomic_add(
                grad_image.memory + offset + at, value, mask=there & (finite == 0), sem="relaxed"
            )
            there = there & finite
            bound = tl.load(grad_image.bounds + offset + at, mask=there, other=0)
            high, low = halves(bound, grad_image.room, tile.REAL)
            rest = where(there, value, 0) * two_to(high, tile.REAL) * two_to(low, tile.REAL)
            limb_value = rest.to(tl.int64)
            limbs = grad_image.limbs + offset + at
            tl.atomic_add(limbs, limb_value, mask=there, sem="relaxed")
            if tile.REAL.primitive_bitwidth == 64:
                left = (rest - limb_value.to(tile.REAL)) * two_to(grad_image.room, tile.REAL)
                tl.atomic_add(limbs + grad_image.limb, left.to(tl.int64), mask=there, sem="relaxed")


def collect(grad_image: GradImage, out: Any, count: Any, REAL: Static, BLOCK: Static) -> None:
    """Convert integer sums to floats, and add the values that were not finite."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    high, low = halves(tl.load(grad_image.bounds + at, mask=there, other=0), grad_image.room, REAL)
    total = tl.load(grad_image.limbs + at, mask=there, other=0).to(REAL)
    if REAL.primitive_bitwidth == 64:
        second = tl.load(grad_image.limbs + grad_image.limb + at, mask=there, other=0).to(REAL)
        total += second * two_to(-grad_image.room, REAL)
    total = total * two_to(-high, REAL) * two_to(-low, REAL)
    total += tl.load(grad_image.memory + at, mask=there, other=0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=there)


# Ordered so that each function uses only those before it.
FUNCTIONS = (follow, join_runs, two_to, halves, add)
