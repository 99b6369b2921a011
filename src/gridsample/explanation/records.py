"""The records that explain one sample: the steps of each axis, the taps, the results.

`gridsample.explanation.tapwise` fills them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.footprints import SLACK, pixels_per_unit
from gridsample.definitions.methods import Method

Array = np.ndarray[Any, Any]

# The share of all weights by which two sums that tie may differ.
TIE = 1e-12


@dataclass(frozen=True)
class AxisTap:
    """One tap along one axis.

    Attributes:
        index: the index of the tap, which may be outside the image.
        pixel: the index of the pixel that it reads, after the fold; None if it is dropped.
        weight: its weight at the fraction t.
        derivative: d weight / dt.
    """

    index: int
    pixel: int | None
    weight: float
    derivative: float


@dataclass(frozen=True)
class AxisSteps:
    """The steps from one coordinate to the taps of its axis.

    Attributes:
        name: "x", "y" or "z".
        size: the number of pixels along the axis.
        method: the interpolation method.
        boundary: the name of the boundary.
        align_corners: the meaning of -1 and 1.
        coordinate: the coordinate as given.
        path: the position in pixels (pixel i has its centre at i), followed by the positions after
            each fold, clamp, or shift that does not change the taps' pixels.  More than four folds
            are combined into one step.
        folds: how often the position is mirrored along the path.
        sign: 1; -1 after an odd number of folds; 0 at and beyond a clamp, and if the coordinate is
            nowhere.
        base: the base index: the end of the path, rounded down, or to nearest if the method rounds.
        taps: one per row of the method's table; none if the coordinate is nowhere or outside.
        coords: the units of the coordinate: "normalized", "pixel" or "displacement".
        index: the index of the output pixel along the axis, to which a displacement is added.
        outside: whether the position is outside the image and the call does not extrapolate.
    """

    name: str
    size: int
    method: Method
    boundary: str
    align_corners: bool
    coordinate: float
    path: tuple[float, ...]
    folds: int = 0
    sign: int = 0
    base: int = 0
    taps: tuple[AxisTap, ...] = ()
    coords: str = "normalized"
    index: int = 0
    outside: bool = False

    @property
    def nowhere(self) -> bool:
        """Whether the coordinate has no valid position: NaN, or infinite if the image repeats."""
        return not self.taps and not self.outside

    @property
    def position(self) -> float:
        """The position of the coordinate, in pixels."""
        return self.path[0]

    @property
    def sampled(self) -> float:
        """The position that is sampled, at the end of the path."""
        return self.path[-1]

    @property
    def t(self) -> float:
        """The fraction: the sampled position minus the base index."""
        return self.sampled - self.base

    @property
    def scale(self) -> float:
        """Pixels per unit of coordinate."""
        if self.coords == "normalized":
            return float(axis.slope(self.size - 1.0, self.align_corners))
        return 1.0

    @property
    def slope(self) -> float:
        """The derivative of the sampled position: pixels per unit of coordinate, times the sign."""
        return self.sign * self.scale

    @property
    def corners(self) -> tuple[float, float]:
        """The positions of the coordinates -1 and 1, which are the mirrors of "reflection"."""
        return corners(self.size, self.align_corners)


@dataclass(frozen=True)
class Tap:
    """One tap of the point: the product of one tap per axis.

    Attributes:
        along: the taps of the axes, in x, y, z order.
        weight: the product of their weights.
        value: the value that is multiplied by the weight: that of the pixel, or its coefficient.
            For a dropped tap, it is the fill value if the boundary has one, otherwise 0.
    """

    along: tuple[AxisTap, ...]
    weight: float
    value: float

    @property
    def pixel(self) -> tuple[int, ...] | None:
        """The pixel that it reads, in x, y, z order; None if it is dropped."""
        pixel = tuple(tap.pixel for tap in self.along if tap.pixel is not None)
        return pixel if len(pixel) == len(self.along) else None

    @property
    def product(self) -> float:
        """Its contribution to the sample, weight * value; 0 for a dropped tap without a fill."""
        return 0.0 if self.pixel is None and not self.value else self.weight * self.value


Reader = Callable[[Sequence[int]], float]


@dataclass(frozen=True)
class Sample:
    """One sample and all steps that lead to it.  `Explanation` documents its fields."""

    axes: tuple[AxisSteps, ...]
    taps: tuple[Tap, ...]
    value: float
    per_pixel: tuple[float, ...]
    gradient: tuple[float, ...]
    image: Array | None = field(default=None, repr=False, compare=False)
    fill: float = 0.0
    filled: bool = False
    prefilters: tuple[int, ...] = ()
    coefficients: Reader | None = field(default=None, repr=False, compare=False)
    sides: tuple[tuple[float, ...], ...] = ()
    samples: tuple[Sample, ...] = field(default=(), repr=False)

    @property
    def mean(self) -> float:
        """The result with antialias=True: the mean of the samples; without sides, the value.

        Labels have no mean: the taps of all samples vote, and the result is the winner.
        """
        samples = self.samples or (self,)
        if self.votes:
            return winner(vote for sample in samples for vote in sample.ballots())
        return sum(sample.value for sample in samples) / len(samples)

    @property
    def votes(self) -> bool:
        """Whether the taps vote for a label."""
        return any(steps.method.votes for steps in self.axes)

    def ballots(self) -> Iterator[tuple[float, float]]:
        """Yield the values that the sample votes for, and their weights."""
        if not self.taps:  # the point is nowhere or outside
            yield self.value, 1.0
        for tap in self.taps:
            yield tap.value, tap.weight

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of samples along the sides."""
        units = pixels_per_unit(self.size[::-1], self.axes[0].coords, self.axes[0].align_corners)
        return tuple(
            max(math.ceil(math.hypot(*map(operator.mul, side, units)) - SLACK), 1)
            for side in self.sides
        )

    @property
    def size(self) -> tuple[int, ...]:
        """The image's size, in x, y, z order."""
        return tuple(steps.size for steps in self.axes)

    @property
    def nowhere(self) -> str:
        """The names of the axes whose coordinate is nowhere; if there are any, the value is NaN."""
        return " and ".join(steps.name for steps in self.axes if steps.nowhere)

    @property
    def outside(self) -> str:
        """The names of the axes along which the point is outside, so it has the fill value."""
        return " and ".join(steps.name for steps in self.axes if steps.outside)

    def read(self, pixel: Sequence[int]) -> float:
        """The value of the pixel at x, y, z."""
        return read(self.image, self.size, pixel)

    def weighed(self, pixel: Sequence[int]) -> float:
        """The factor of the weight of a tap at x, y, z: the coefficient, or the pixel's value."""
        return self.read(pixel) if self.coefficients is None else self.coefficients(pixel)


def winner(ballots: Iterable[tuple[float, float]]) -> float:
    """Return the value with the largest sum of weights, and the smallest of those that tie.

    Sums tie if they differ by less than the rounding of the weights.

    >>> winner([(5.0, 0.3), (7.0, 0.5), (5.0, 0.2)])
    5.0
    """
    sums: dict[float, float] = {}
    for value, weight in ballots:
        sums[value] = sums.get(value, 0.0) + weight
    least = max(sums.values()) - TIE * sum(sums.values())
    return min(value for value, total in sums.items() if total >= least)


def corners(size: int, align_corners: bool) -> tuple[float, float]:
    """The positions of -1 and 1: the centres of the corner pixels, or their outer edges.

    >>> corners(4, align_corners=True), corners(4, align_corners=False)
    ((0.0, 3.0), (-0.5, 3.5))
    """
    low, high = (axis.position(x, size - 1.0, align_corners) for x in (-1.0, 1.0))
    return float(low), float(high)


def read(image: Array | None, size: Sequence[int], pixel: Sequence[int]) -> float:
    """Return the value of the pixel at x, y, z; without an image, the number of the pixel.

    >>> read(None, (4, 3), (2, 1))
    6.0
    """
    if image is not None:
        return float(image[tuple(reversed(pixel))])
    number = 0
    for n, i in zip(reversed(size), reversed(pixel), strict=True):
        number = number * n + i
    return float(number)
