"""Linear interpolation in registers where NaN pixels do not count.

Points are sampled as in `gridsample.kernels.cpu.linear_lanes`.  If some of those that are processed
at once have a result that is not finite, their means are computed from the same pixels.  The
outside counts as a known 0.  Its weight along an axis is max(0, -d, d - 1), at most 1, at distance
d from the first pixel.

As in plain sampling, an infinite pixel that does not count would have an effect.  A block in which
a sum is not finite is computed again, with 0 in place of pixels that do not count.
"""

from __future__ import annotations

import functools
from typing import Any

import numba as nb
from numba.extending import intrinsic

from gridsample.kernels.compile.extending import pointer
from gridsample.kernels.cpu.linear_lanes import BIT, Emitter, Kind, Parts, indices
from gridsample.kernels.cpu.vectors import I64, Numbers


def sums(
    emit: Emitter, corners: Any, weights: list[Any], outside: list[Numbers]
) -> tuple[Numbers, Numbers]:
    """Return the weighted sum of pixels that are not NaN, and the weight of what is known."""
    builder = emit.builder

    def chosen(where: Any, one: Numbers, other: Any) -> Numbers:
        return Numbers(builder, builder.select(where, one.value, one.like(other)))

    def along(a: int, one: Any) -> tuple[Numbers, Numbers]:
        w, beyond = weights[a], outside[a]
        if a:
            first, second = (along(a - 1, part) for part in one)
            total = first[0] * w[0] + second[0] * w[1]
            return total, first[1] * w[0] + (second[1] * w[1] + beyond)
        p, q = one
        here, there = p.holds("==", p), q.holds("==", q)
        # A product that plain samples share would be rounded before it is added.
        total = p.kept(here) * w[0] + q.kept(there) * w[1]
        weight = chosen(here, beyond + w[0], beyond)
        return total, chosen(there, weight + w[1], weight)

    return along(emit.kind.rank - 1, corners)


def quotient(emit: Emitter, total: Numbers, weight: Numbers, bounds: Any) -> Numbers:
    """Return means; one whose weight is not above the first of ``bounds`` is the second."""
    builder = emit.builder
    least, absent = (emit.repeat(builder.extract_value(bounds, k)) for k in (0, 1))
    # A point that is nowhere has a weight of NaN.
    other = builder.select(weight.holds("<=", least), absent.value, weight.value)
    mean = builder.fdiv(total.value, weight.value)
    return Numbers(builder, builder.select(weight.holds(">", least), mean, other))


def store_mean(
    emit: Emitter, corners: Any, parts: list[Parts], outside: list[Numbers], bounds: Any, out: Any
) -> Any:
    """Store plain samples, and means where these are not numbers; return whether sums are finite.

    ``outside`` contains the weight of what is outside along each axis; ``bounds`` are those of
    `quotient`.
    """
    builder, plain = emit.builder, emit.blend(corners, parts)
    emit.store(plain.value, out, emit.i)
    before = builder.block
    with builder.if_then(builder.not_(emit.all_finite(plain))):
        weights = [part.weights for part in parts]
        total, weight = sums(emit, corners, weights, outside)
        mean = quotient(emit, total, weight, bounds)
        found = builder.select(plain.holds("==", plain), plain.value, mean.value)
        emit.store(found, out, emit.i)
        checked, after = emit.all_finite(total), builder.block
    finite = builder.phi(BIT)
    finite.add_incoming(BIT(1), before)
    finite.add_incoming(checked, after)
    return finite


def store_mean_carefully(
    emit: Emitter, corners: Any, parts: list[Parts], outside: list[Numbers], bounds: Any, out: Any
) -> None:
    """Store the same, with 0 in place of pixels that do not count."""
    builder, present = emit.builder, emit.present(corners, parts)

    def all_known(a: int, pixels: Any) -> Any:
        first, second = (all_known(a - 1, one) if a else one.holds("==", one) for one in pixels)
        return builder.and_(first, second)

    total, weight = sums(emit, present, [part.weights for part in parts], outside)
    mean, plain = quotient(emit, total, weight, bounds), emit.blend(present, parts)
    known = all_known(emit.kind.rank - 1, present)
    found = builder.select(known, plain.value, mean.value)
    emit.store(found, out, emit.i)


def averager_of_planes(kind: Kind, count: int) -> Any:
    """Make the function that averages points of one plane by what `place_means` stored."""

    @intrinsic
    def average_plane(
        context: Any, plane: Any, i: Any, strides: Any, at: Any, x: Any, width: Any, bounds: Any,
        numbers: Any,
    ) -> Any:  # fmt: skip
        """Store means; return whether all sums are finite."""
        kinds = plane, i, strides, at, x, width, bounds, numbers

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, steps, places, first, out = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 2, 3, 4, 7)
            )
            i, width = indices(context, builder, kinds, given, 1, 5)
            emit, rank = Emitter(kind, context, builder, count, i), kind.rank
            rows = [builder.add(i, builder.mul(width, I64(k))) for k in range(3 * rank)]
            placed = [Numbers(builder, emit.load(first, row, count)) for row in rows]
            parts = [Parts((), placed[2 * a : 2 * a + 2], ()) for a in range(rank)]
            corners = emit.corners(data, steps, emit.load(places, i, count))
            return store_mean(emit, corners, parts, placed[2 * rank :], given[6], out)

        pair: Any = nb.types.UniTuple(kind.real, 2)  # type: ignore[no-untyped-call]
        return nb.boolean(*kinds[:6], pair, numbers), generate

    return average_plane


def averager(kind: Kind, count: int) -> Any:
    """Make the function that averages points of one plane by their coordinates, carefully."""

    @intrinsic
    def average_points(
        context: Any, plane: Any, grid: Any, i: Any, gap: Any, measures: Any, strides: Any,
        within: Any, share: Any, apart: Any, bounds: Any, numbers: Any,
    ) -> Any:  # fmt: skip
        """Store means; return whether all sums are finite."""
        kinds = plane, grid, i, gap, measures, strides, within, share, apart, bounds, numbers

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, points, table, steps, out = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 1, 4, 5, 10)
            )
            i, gap, apart = indices(context, builder, kinds, given, 2, 3, 8)
            emit = Emitter(kind, context, builder, count, i)
            group = given[6], given[7], apart
            offsets, distances, _ = emit.place(points, gap, table, steps, group)
            parts = [emit.parts(d) for d in distances]
            corners = emit.corners(data, steps, offsets)
            outside = [emit.outside(d) for d in distances]
            store_mean_carefully(emit, corners, parts, outside, given[9], out)
            return context.get_dummy_value()

        real = kind.real
        pair: Any = nb.types.UniTuple(real, 2)  # type: ignore[no-untyped-call]
        return nb.void(*kinds[:6], real, real, apart, pair, numbers), generate

    return average_points


@functools.cache
def emitted(kind: Kind) -> dict[str, Any]:
    """Make the functions that process many points at once, or one (names with ``_one``)."""
    names = {}
    for end, count in (("", kind.lanes), ("_one", 1)):
        names["average_plane" + end] = averager_of_planes(kind, count)
        names["average_points" + end] = averager(kind, count)
    return names
