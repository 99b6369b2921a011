"""Means over the pixels that are numbers.

    result = sum(w m v) / sum(w m),   m = 0 for a pixel v that is NaN, otherwise 1

A plain sample that is a number has no NaN among its pixels, and is the result.  Only if some point
of a group has another sample are both sums computed, from the same pixels.  A dropped tap is a
known number, or NaN if what is outside counts for nothing.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Self

from gridsample.kernels.sampling.axes import Tap
from gridsample.kernels.sampling.gather import Gather
from gridsample.kernels.sampling.reading import Reader, moments
from gridsample.kernels.sampling.runs import GatherRuns
from gridsample.kernels.sampling.sampler import Description, State
from gridsample.kernels.sampling.tap_lists import TapList
from gridsample.kernels.vector import Pointer, Value


class Means(Gather):
    """Writes the loops that average."""

    @classmethod
    def numbers(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays with a number for each plane, by name."""
        return super().numbers(description) | dict.fromkeys(("absent", "least"), description.real)

    def total(self, state: State, source: Pointer, fills: dict[str, Value]) -> Value:
        """Compute the means of a group in one plane."""
        order = (0,) * len(self.description.axes)
        sample = super().total(state, source, fills)

        def mean() -> list[Value]:
            reader, taps = self.sampler.reader(state, source, fills["dropped"])
            above = moments(Numbers(reader), taps, [order])[order]
            below = moments(Marks(reader), taps, [order])[order]
            quotient = (below > fills["least"]).select(above / below, fills["absent"])
            return [(sample == sample).select(sample, quotient)]

        missing = (sample != sample).any()
        return self.function.choose(missing, mean, lambda: [sample], likely=False)[0]


class MeanRuns(GatherRuns, Means):
    """Writes the loops that average runs of channels."""

    def totals(
        self, taps: TapList, source: Pointer, lane: Value, plane: Value,
        dropped: Sequence[Value] | None = None,
    ) -> list[Value]:  # fmt: skip
        """Compute the means of a register of points, or of one point."""
        samples = super().totals(taps, source, lane, plane, dropped)

        def means() -> list[Value]:
            above, below = (
                self.runs.sum(taps, self.orders, source, lane, dropped, converted)[self.orders[0]]
                for converted in (number, mark)
            )
            least, absent = self.call.least.load(plane), self.fills_of_run("absent", plane)
            results = []
            for sample, a, b, missing in zip(samples, above, below, absent, strict=True):
                other = missing.shuffle([k % missing.lanes for k in range(sample.lanes)])
                quotient = (b > least).select(a / b, other)
                results.append((sample == sample).select(sample, quotient))
            return results

        unknown = functools.reduce(operator.or_, [sample != sample for sample in samples]).any()
        return self.function.choose(unknown, means, lambda: samples, likely=False)


def number(pixels: Value) -> Value:
    """Return pixels with 0 in place of NaN."""
    return (pixels == pixels).select(pixels, 0.0)


def mark(pixels: Value) -> Value:
    """Return 1 for each pixel that is a number, and 0 for the others."""
    return (pixels == pixels).select(pixels.like(1.0), 0.0)


class Numbers:
    """Pixels with 0 in place of NaN."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    @property
    def filled(self) -> bool:
        """Whether dropped taps may have another value than 0."""
        return self.reader.filled

    def of_order(self, order: tuple[int, ...]) -> Self:
        """Return a reader for sums with derivatives of this order alone."""
        return type(self)(self.reader.of_order(order))

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the pixels of all taps along x."""
        return [number(pixels) for pixels in self.reader.row(outer, taps)]


class Marks(Numbers):
    """1 for each pixel that is a number, and 0 for the others."""

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the pixels of all taps along x."""
        return [mark(pixels) for pixels in self.reader.row(outer, taps)]
