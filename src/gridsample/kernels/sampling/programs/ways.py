"""How the taps of a group are summed, or added to: one by one, in pairs, or in rows.

A *way* holds the taps of a group, which has W points, as many as a register has lanes, ready for
any plane.  Its methods are `tap_sums` and `scatter`.  `reading_for` (calls) chooses how a program
reads pixels, on which its speed depends, and `Sampler.way` prepares the way for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.reading import (
    Orders,
    PixelPairs,
    RowSums,
    SinglePixels,
    SingleSums,
    TapSums,
    load_offsets,
    scatter,
    sum_over_taps,
    tables_for_loops,
    with_dropped,
)
from gridsample.kernels.sampling.programs.rows import PixelRows, RowInMemory, Weights
from gridsample.kernels.vector import Pointer, Value


class Way(Protocol):
    """How taps are summed."""

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane, for several orders of derivatives."""

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane; the transpose of `tap_sums`."""


class OneByOne(NamedTuple):
    """Every tap is read by itself.

    Attributes:
        taps: the taps of each axis, x first.
        offset: the offset to add to those of the taps, or None.
        compact: whether code should be short, as few groups are summed in this way.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[Sequence[Tap]]
    offset: Value | None
    compact: bool
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        reader = SinglePixels(plane, self.offset, self.compact)
        counted = reader if self.counting is None else self.counting.singles(reader)
        totals = sum_over_taps(counted, tables_for_loops(self.taps), orders)
        return with_dropped(totals, self.taps, values_of_dropped(dropped, self.counting))

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = SingleSums(plane, self.offset, self.taps)
        scatter(sums, tables_for_loops(self.taps), shares)


class InPairs(NamedTuple):
    """All taps are two neighbouring pixels of the image along each axis.

    Attributes:
        taps: the taps of each axis, x first.
        offsets: the offset of each point's first pixel, in memory.
        steps: the distance of neighbours along the other axes, x excluded.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[Sequence[Tap]]
    offsets: Pointer
    steps: Sequence[Value]
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        reader = PixelPairs(plane, self.offsets, self.steps)
        counted = reader if self.counting is None else self.counting.pairs(reader)
        totals = sum_over_taps(counted, self.taps, orders)
        return with_dropped(totals, self.taps, values_of_dropped(dropped, self.counting))

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        sums = RowSums(plane, self.offsets, self.steps)
        scatter(sums, self.taps, shares)
        sums.finish()


def values_of_dropped(dropped: Value, counting: Counting | None) -> Sequence[Value | float | None]:
    """Return the value of dropped taps, or the numbers that are summed in its place; None for 0."""
    value = None if dropped.is_constant else dropped
    return [value] if counting is None else counting.numbers_of_dropped(value)


class InRows(NamedTuple):
    """All taps are neighbouring pixels of the image along each axis, more than two along some.

    Attributes:
        weights: the weights of each axis's taps.
        offsets: the offset of each point's first tap, in memory.
        steps: the distance of neighbours along each axis, x first.
        counting: how pixels count, if not all alike.
    """

    weights: Sequence[Weights]
    offsets: Pointer
    steps: Sequence[Value]
    counting: Counting | None = None

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane; none is dropped."""
        lanes = plane.function.lanes
        first = RowInMemory(plane, load_offsets(self.offsets, lanes), self.steps)
        counted = first if self.counting is None else self.counting.rows(first)
        return PixelRows(counted, self.weights).tap_sums(orders)

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""
        zero = plane.function.constant(0, "int32", plane.function.lanes)
        taps = [
            [Tap(zero, None, weights, k) for k, weights in enumerate(axis_weights)]
            for axis_weights in self.weights
        ]
        sums = RowSums(plane, self.offsets, self.steps[1:])
        scatter(sums, taps, shares)
        sums.finish()


class Either(NamedTuple):
    """One way for points whose taps are all in the image, another for the others.

    A group at an edge takes both, so that the bits of a sample do not depend on the points beside
    it.  In gradients, where many points add to a pixel, they may: one way adds for all points of a
    group.

    Attributes:
        inside: whether all taps of a point are in the image.
        quick: prepares the way for points inside; others read any pixels of the image.
        general: prepares the way for points anywhere.
        scatters_quickly: whether `scatter` may use the first one, too.
    """

    inside: Value
    quick: Callable[[], Way]
    general: Callable[[], Way]
    scatters_quickly: bool

    def tap_sums(self, plane: Pointer, dropped: Value, orders: Orders) -> TapSums:
        """Sum the taps of one plane."""
        function = plane.function
        none = [function.constant(0.0, function.real, function.lanes)] * len(orders)

        def sums(way: Callable[[], Way]) -> list[Value]:
            return [*way().tap_sums(plane, dropped, orders).values()]

        others = function.choose(
            self.inside.all(), lambda: none, lambda: sums(self.general), likely=True
        )
        insiders = function.choose(
            self.inside.any(), lambda: sums(self.quick), lambda: none, likely=True
        )
        return {
            order: self.inside.select(quick, general)
            for order, quick, general in zip(orders, insiders, others, strict=True)
        }

    def scatter(self, plane: Pointer, shares: TapSums) -> None:
        """Add to the taps of one plane."""

        def scattered(way: Callable[[], Way]) -> list[Value]:
            way().scatter(plane, shares)
            return []

        if self.scatters_quickly:
            plane.function.choose(
                self.inside.all(),
                lambda: scattered(self.quick),
                lambda: scattered(self.general),
                likely=True,
            )
        else:
            scattered(self.general)
