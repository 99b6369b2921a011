"""Pixels that count differently: those that are NaN not at all, the others by their weights.

With m the weight of a pixel v, and 0 if it is missing, each tap is read as the numbers m v and m,
so that one sweep sums both.  A third number is v as it is, where it matters whether any pixel of a
point is missing: where nothing else can be, a plain sum that is a number has no missing pixel.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.loads import Image, read_each
from gridsample.kernels.sampling.programs.states import Offsets, further
from gridsample.kernels.sampling.programs.sums import (
    AxisTaps,
    GroupTaps,
    Numbers,
    Orders,
    Outer,
    Reader,
    TapSums,
    both,
)
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

# The numbers of a pixel that counts: m v, m, and v; and how many there are.
COUNTED, WEIGHT, PIXEL = 0, 1, 2
NUMBERS = 3


class TapRule(NamedTuple):
    """What the taps of a program count for.

    Attributes:
        filled: whether dropped taps have a value other than 0.
        ignores_dropped: whether dropped ones count for nothing, in means.
        ignores_nan: whether pixels that are NaN count for nothing, in means.
        weight_kind: the name of the kind of the weights of pixels, or empty if there are none.
        multiplied: whether pixels are already multiplied by their weights.
    """

    filled: bool
    ignores_dropped: bool = False
    ignores_nan: bool = False
    weight_kind: str = ""
    multiplied: bool = False

    @property
    def differ(self) -> bool:
        """Whether taps count differently: by the weights of pixels, or because they are dropped."""
        return bool(self.weight_kind) or self.ignores_dropped


class Counts:
    """How the pixels of an image count: what is the same for all planes and points.

    Attributes:
        ignores_nan: whether NaN counts for nothing.
        parts: whether channels are the parts of complex numbers, which are missing together.
        multiplied: whether pixels are already multiplied by their weights.
        dropped_weight: the weight of dropped taps: 1 if what is outside is known, otherwise 0.
        weights: the weights of pixels, or None for 1.
        weight_check: notes whether any weight is invalid; None if none can be.
    """

    def __init__(self, function: Function, rule: TapRule, parts: bool, call: Call) -> None:
        self.call, self.ignores_nan, self.parts = call, rule.ignores_nan, parts
        self.multiplied, self.dropped_weight = rule.multiplied, float(not rule.ignores_dropped)
        self.weights, self.weight_check = None, None
        if rule.weight_kind:
            self.weights = Image(call.weights, call.weights_item, call.weights_planes)
        if kind_of(rule.weight_kind or "bool").family not in ("bool", "unsigned"):
            self.weight_check = WeightCheck(function)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Report invalid weights after the body."""
        if self.weight_check is None:
            yield
            return
        self.weight_check.clear()
        yield
        self.weight_check.report(self.call.invalid_weights)

    @property
    def strides(self) -> Sequence[Value]:
        """The distance of neighbouring weights along each axis, x first."""
        strides: Sequence[Value] = self.call.weights_strides
        return strides

    def check(self, weights: Sequence[Value]) -> None:
        """Note whether any weight is invalid."""
        if self.weight_check is not None:
            self.weight_check.check(weights)

    def plane(self, points: Strip | Group, number: Value) -> Pointer | None:
        """The weights of a plane's pixels; see `Image.plane`."""
        return None if self.weights is None else self.weights.plane(points, number)

    def numbers(self, pixel: Numbers, weight: Value) -> Numbers:
        """Return the numbers of one pixel of each point, `NUMBERS` of each channel."""
        if self.multiplied:
            return tuple(number for channel in pixel for number in (channel, weight, channel))
        numbers = list[Value]()
        for channel, known in zip(pixel, self.known(pixel), strict=True):
            own = weight if known is None else known.select(weight, 0.0)
            # A pixel without weight may be infinite.
            numbers += [(own > 0.0).select(channel * own, 0.0), own, channel]
        return tuple(numbers)

    def known(self, pixel: Numbers) -> list[Value | None]:
        """Return whether each channel is a number; None if all channels count."""
        if not self.ignores_nan:
            return [None] * len(pixel)
        known = [channel == channel for channel in pixel]
        if not self.parts or len(known) == 1:
            return [*known]
        pairs = [real & imaginary for real, imaginary in zip(known[::2], known[1::2], strict=True)]
        return [pair for pair in pairs for _ in range(2)]


class Counting(NamedTuple):
    """How the pixels of a plane count, for a group of points.

    Attributes:
        counts: how those of all planes count.
        plane: the weights of the plane's pixels, or None for 1.
        offset: the place of the group in it, `State.weight_offset`.
    """

    counts: Counts
    plane: Pointer | None
    offset: Offsets | None

    def weight(self, tap: Tap) -> Value:
        """Read the weight of the pixel of a listed tap of each point, for all channels."""
        weight: Value = tap.weights[0].like(1.0)
        if self.plane is not None:
            offset = further(self.offset, tap.offset_in(weighs=True))
            weight = read_each(self.plane, offset).to(weight.kind)
        if tap.present is not None:
            weight = tap.present.select(weight, self.counts.dropped_weight)
        self.counts.check([weight])
        return weight


def numbers_of_dropped(
    dropped: Sequence[Value], counting: Counting | None
) -> list[Value | float | None]:
    """Return the values of dropped taps, or the numbers that are summed in their place; None for 0.

    Nothing is added to sums of weights.
    """
    values = [None if value.is_constant else value for value in dropped]
    if counting is None:
        return [*values]
    weighs = bool(counting.counts.dropped_weight)
    return [n for value in values for n in (value if weighs else None, None, value)]


class Counted:
    """Reads the numbers of pixels that count: a reader around any other."""

    def __init__(self, pixels: Reader, weights: Reader | None, counting: Counting) -> None:
        self.pixels, self.counts = pixels, counting.counts
        self.weights = weights or UnitWeights(self.counts.dropped_weight)

    def row(self, outer: Outer, taps: AxisTaps) -> Sequence[Numbers]:
        """Read the numbers of all taps along x."""
        weights = [weight for (weight,) in self.weights.row(outer, taps)]
        pixels = self.pixels.row(outer, taps)
        self.counts.check(weights)
        return [*map(self.counts.numbers, pixels, weights)]


class UnitWeights:
    """The weights of pixels that have none."""

    def __init__(self, dropped_weight: float) -> None:
        self.dropped_weight = dropped_weight

    def row(self, outer: Outer, taps: AxisTaps) -> Sequence[Numbers]:
        """Return the weights of all taps along x."""
        present, weights = None, list[Numbers]()
        for tap in outer:
            present = both(present, tap.present)
        for tap in taps:
            here, weight = both(present, tap.present), tap.weights[0].like(1.0)
            if here is not None:
                weight = here.select(weight, self.dropped_weight)
            weights.append((weight,))
        return weights


class Tried(NamedTuple):
    """Taps of which a plain sum tells whether any pixel of a point is missing.

    Only where it is NaN are pixels counted, and for the groups after that, until none is missing.

    Attributes:
        plain: the taps, all of which count.
        counted: the same, with the numbers of pixels that count.
        missed: memory that says whether pixels were missing a moment ago.
    """

    plain: GroupTaps
    counted: GroupTaps
    missed: Pointer

    def tap_sums(self, plane: Pointer, dropped: Sequence[Value], orders: Orders) -> TapSums:
        """Sum the taps of one plane; the number of channel c is ``NUMBERS * c + PIXEL``."""
        function, channels = plane.function, len(dropped)
        plain = [(order[0] // NUMBERS, *order[1:]) for order in orders if order[0] % NUMBERS == 2]
        if channels == 1:
            plain = [order[1:] for order in plain]
        unknown = [function.constant(math.nan, function.real, function.lanes)] * len(plain)
        # Where pixels were missing a moment ago, plain sums would be computed in vain.
        samples = function.choose(
            self.missed.load() == 0,
            lambda: [*self.plain.tap_sums(plane, dropped, plain).values()],
            lambda: unknown,
        )

        def some_missing(sums: Sequence[Value]) -> Value:
            some: Value = functools.reduce(operator.or_, [total != total for total in sums]).any()
            return some

        def counted() -> list[Value]:
            sums = self.counted.tap_sums(plane, dropped, orders)
            plain_sums = [total for order, total in sums.items() if order[0] % NUMBERS == PIXEL]
            self.missed.store(some_missing(plain_sums).to("int32"))
            return [sums[order] for order in orders]

        def complete() -> list[Value]:
            return [
                samples[order[0] // NUMBERS]
                if order[0] % NUMBERS != WEIGHT
                else samples[0].like(1.0)
                for order in orders
            ]

        sums = function.choose(some_missing(samples), counted, complete)
        return dict(zip(orders, sums, strict=True))

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        self.counted.scatter(plane, shares)


class WeightCheck:
    """Notes whether a weight may be negative or not finite, so that it must be looked at.

    These have the greatest bits, as integers without a sign.
    """

    def __init__(self, function: Function) -> None:
        self.kind = kind_of(f"uint{function.real.bits}")
        self.lanes = function.lanes
        self.memory = function.scratch(self.kind, 1, function.lanes)

    def clear(self) -> None:
        """Forget all weights."""
        zero = self.memory.function.constant(0, self.kind, self.lanes)
        self.memory.store(zero, aligned=True)

    def check(self, weights: Sequence[Value]) -> None:
        """Note some weights."""
        bits = [weight.bitcast(self.kind) for weight in weights if not weight.is_constant]
        for lanes in {value.lanes for value in bits}:
            alike = [value for value in bits if value.lanes == lanes]
            noted = self.memory.load(0, lanes)
            self.memory.store(functools.reduce(Value.maximum, alike, noted))

    def report(self, memory: Pointer) -> None:
        """Store 1 if some weight is invalid."""
        infinity = 0x7F800000 if self.kind.bits == 32 else 0x7FF0000000000000
        noted = self.memory.load(0, self.lanes, aligned=True)
        with memory.function.when((noted >= infinity).any(), rare=True):
            memory.store(memory.function.constant(1, "int64"))
