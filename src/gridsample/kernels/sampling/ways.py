"""Ways to sum over the taps of W points, or to add to them: the choice that decides the speed.

A *way* holds the taps of W points, ready for any plane.  Its verbs are `moments` and `scatter`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gridsample.kernels.sampling.axes import Tap
from gridsample.kernels.sampling.counting import Counting
from gridsample.kernels.sampling.reading import (
    Moments,
    Orders,
    PixelPairs,
    RowSums,
    SinglePixels,
    SingleSums,
    Taps,
    load_offsets,
    moments,
    scatter,
)
from gridsample.kernels.sampling.rows import PixelRows, RowInMemory, Weights
from gridsample.kernels.vector import Pointer, Value


class Way(Protocol):
    """How taps are summed."""

    def moments(self, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane, for several orders of derivatives."""

    def scatter(self, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane; the transpose of `moments`."""


class Anywhere(NamedTuple):
    """Every tap is read by itself.

    Attributes:
        taps: the taps of each axis, x first.
        begin: the offset to add to those of the taps, or None.
        few: whether few groups are summed in this way, so that code should be short.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[Taps]
    begin: Value | None
    few: bool
    counting: Counting | None = None

    def moments(self, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane."""
        reader = SinglePixels(plane, self.begin, dropped, self.few)
        counted = reader if self.counting is None else self.counting.singles(reader)
        return moments(counted, self.taps, orders)

    def scatter(self, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane."""
        scatter(SingleSums(plane, self.begin), self.taps, (), shares)


class InPairs(NamedTuple):
    """All taps are two neighbouring pixels of the image along each axis.

    Attributes:
        taps: the taps of each axis, x first.
        begins: the offset of each point's first pixel, in memory.
        steps: the distance of neighbours along the other axes, x excluded.
        counting: how pixels count, if not all alike.
    """

    taps: Sequence[Sequence[Tap]]
    begins: Pointer
    steps: Sequence[Value]
    counting: Counting | None = None

    def moments(self, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane."""
        reader = PixelPairs(plane, self.begins, self.steps, dropped)
        counted = reader if self.counting is None else self.counting.pairs(reader)
        return moments(counted, self.taps, orders)

    def scatter(self, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane."""
        sums = RowSums(plane, self.begins, self.steps)
        scatter(sums, self.taps, (), shares)
        sums.finish()


class InRows(NamedTuple):
    """All taps are neighbouring pixels of the image along each axis, more than two along some.

    Attributes:
        weights: the weights of each axis's taps.
        begins: the offset of each point's first tap, in memory.
        steps: the distance of neighbours along each axis, x first.
        counting: how pixels count, if not all alike.
    """

    weights: Sequence[Weights]
    begins: Pointer
    steps: Sequence[Value]
    counting: Counting | None = None

    def moments(self, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane; none is dropped."""
        lanes = plane.function.lanes
        first = RowInMemory(plane, load_offsets(self.begins, lanes), self.steps)
        counted = first if self.counting is None else self.counting.rows(first)
        return PixelRows(counted, self.weights).moments(orders)

    def scatter(self, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane."""
        zero = plane.function.constant(0, "int32", plane.function.lanes)
        taps = [
            [Tap(zero, None, weights, k) for k, weights in enumerate(along)]
            for along in self.weights
        ]
        sums = RowSums(plane, self.begins, self.steps[1:])
        scatter(sums, taps, (), shares)
        sums.finish()


class Either(NamedTuple):
    """One way if all taps of W points are in the image, otherwise another.

    Attributes:
        inside: whether all taps are in the image, a condition with one lane.
        quick: prepares the way for points inside.
        general: prepares the way for points anywhere.
        scatters_quickly: whether `scatter` may use the first one, too.
    """

    inside: Value
    quick: Callable[[], Way]
    general: Callable[[], Way]
    scatters_quickly: bool

    def moments(self, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane."""
        results = plane.function.choose(
            self.inside,
            lambda: [*self.quick().moments(plane, dropped, orders).values()],
            lambda: [*self.general().moments(plane, dropped, orders).values()],
            likely=True,
        )
        return dict(zip(orders, results, strict=True))

    def scatter(self, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane."""

        def scattered(way: Callable[[], Way]) -> list[Value]:
            way().scatter(plane, shares)
            return []

        if self.scatters_quickly:
            plane.function.choose(
                self.inside,
                lambda: scattered(self.quick),
                lambda: scattered(self.general),
                likely=True,
            )
        else:
            scattered(self.general)
