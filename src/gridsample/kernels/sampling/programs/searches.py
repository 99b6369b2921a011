"""The search for coordinates among those of an axis's pixels, at any distances.

A bucket of the axis gives the first interval in which a coordinate may be, and bisection the one in
which it is; see `gridsample.kernels.sampling.searching`.
"""

from __future__ import annotations

from typing import NamedTuple

from gridsample.kernels.sampling.programs.loads import read_each, read_pairs
from gridsample.kernels.sampling.programs.states import Offsets
from gridsample.kernels.sampling.searching import LOW_BITS
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Pointer, Value


class KnotsInMemory(NamedTuple):
    """The coordinates of an axis's pixels, as a program finds them; see `searching`.

    Attributes:
        knots: the coordinates times the sign, which increase.
        buckets: the first interval of each bucket.
        low: the first coordinate; of uneven axes, the first knot's key.
        scale: pixels per unit of equidistant coordinates; of others, buckets per unit of keys.
        by_bits: whether keys are the bits of knots, as in `searching.bits_of`, or else the knots.
        sign: 1, or -1 if the coordinates decrease.
        last_bucket: the number of the last bucket.
        last_interval: the number of the last interval.
        steps: the number of steps of bisection.
        weights: the weights of taps on each interval, of axes that have their own.
        least, greatest: the ends of the axis, as coordinates.
    """

    knots: Pointer
    buckets: Pointer
    low: Value
    scale: Value
    by_bits: Value
    sign: Value
    last_bucket: Value
    last_interval: Value
    steps: Value
    weights: Pointer
    least: Value
    greatest: Value

    @classmethod
    def of(cls, call: Call, a: int, taps: int = 2) -> KnotsInMemory:
        """Return those of an axis.

        Args:
            call: the settings.
            a: the number of the axis, x first.
            taps: the number of pixels of an interval.
        """
        return cls(
            call.knots[a],
            call.buckets[a],
            call.knots_low[a],
            call.knots_scale[a],
            call.knots_by_bits[a],
            call.knots_sign[a],
            call.last_bucket[a],
            call.sizes[a] - taps,
            call.search_steps[a],
            call.knots_weights[a],
            call.knots_least[a],
            call.knots_greatest[a],
        )


def search(axis: KnotsInMemory, coordinate: Value) -> tuple[Value, Value]:
    """Return positions, and their derivatives; both are computed in float64, then rounded.

    The position of NaN is NaN.
    """
    function, lanes = coordinate.function, coordinate.lanes
    point = coordinate.to("float64") * axis.sign
    known = point == point
    sought = known.select(point, 0.0)
    (key,) = function.choose(
        axis.by_bits != 0, lambda: [bits_of(sought).to("float64")], lambda: [sought]
    )
    bucket = ((key - axis.low) * axis.scale).maximum(0.0)
    bucket = bucket.minimum(axis.last_bucket.to("float64")).to("int32")
    last = axis.last_interval.to("int32").splat(lanes)
    one = function.constant(1, "int64").splat(1)
    reach = (one << axis.steps >> 1).to("int32").splat(lanes)
    interval = read_each(axis.buckets, Offsets(bucket))
    with function.loop(0, axis.steps, carry=[interval, reach]) as loop:
        interval, reach = loop.carried
        further = (interval + reach).minimum(last)
        begun = read_each(axis.knots, Offsets(further)) <= sought
        loop.carry(begun.select(further, interval), reach >> 1)
    interval = loop.carried[0]
    left, right = read_pairs(axis.knots, Offsets(interval))
    width = right - left
    position = interval.to("float64") + (sought - left) / width
    real = function.real
    return known.select(position, point).to(real), (axis.sign / width).to(real)


def bits_of(numbers: Value) -> Value:
    """Return what `searching.bits_of` does."""
    positive = (numbers == 0.0).select(0.0, numbers)  # not -0
    high = (positive.bitcast("int64") >> 32).to("int32")
    return high ^ ((high >> 31) & LOW_BITS)
