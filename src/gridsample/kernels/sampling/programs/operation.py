"""What an operation is: its arrays, the sums of taps that it needs, and a formula.

An operation knows neither memory nor loops, so that one record serves for planes, for pixels of
several numbers, and for points that are means of several samples.  Its formula computes with values
of W points, in one plane:

    sums over taps, upstream values, ...   ->   results, summands of the grid's gradient, and what
                                                is added to the pixels of taps

`operations` has the records; `sweep`, `channels` and `samples` write the loops around a formula.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gridsample.kernels.vector import Value

# An order of derivatives along each axis, x first.
Order = tuple[int, ...]
Needs = frozenset[str]
# The sums of the taps of a point, by order; after the number of a pixel where it counts
# (`counting`).
Sums = Mapping[Order, Value]


class ArrayUse(NamedTuple):
    """How an operation uses an array.

    Attributes:
        place: where its numbers belong: to pixels, to their weights, to points (a number of each
            point and plane), to vectors (a number of each point and axis), to planes, to the grid
            itself, or to a task of the call ("task").
        access: whether they are read, stored, added to pixels; or whether they are totals over the
            planes, of which the formula gives summands.
        kind: what the numbers are: "real" as sums are; like the pixels ("image"), the upstream
            values or the results ("values", "results"), results of points without taps ("fill"),
            the weights of pixels ("weight"), or int64.
        needed_for: the array is used only if this is among the needs; always if it is empty.
    """

    place: Literal["pixels", "weights", "points", "vectors", "planes", "grid", "task"]
    access: Literal["read", "store", "add", "total"]
    kind: str = "real"
    needed_for: str = ""


class Orders(NamedTuple):
    """The orders of derivatives that occur in operations.

    Attributes:
        value: no derivative besides those that the call asks for along each axis.
        raised: one more along each axis.
    """

    value: Order
    raised: tuple[Order, ...]

    @classmethod
    def of(cls, rank: int) -> Orders:
        """Return the orders for a number of axes."""
        return cls((0,) * rank, tuple(tuple(int(a == b) for b in range(rank)) for a in range(rank)))


class Terms(NamedTuple):
    """What a formula computes with: numbers of W points in one plane.

    Attributes:
        sums: the sums over taps, for each array of pixels that is read.
        values: the numbers of arrays of points; 0 for points that are not valid.
        vectors: those of arrays of vectors.
        planes: the numbers of the plane.
        needs: what is needed.
        orders: the orders of derivatives.
        valid: whether the points have taps.
        outside: whether the points have none because they are outside the image; None if no point
            can be, or if that is the same as not valid.
        dropped_weight: the weight of taps outside the image, where pixels count.
    """

    sums: Mapping[str, Sums]
    values: Mapping[str, Value]
    vectors: Mapping[str, Sequence[Value]]
    planes: Mapping[str, Value]
    needs: Needs
    orders: Orders
    valid: Value
    outside: Value | None = None
    dropped_weight: float = 1.0


class Results(NamedTuple):
    """What a formula computes.

    Attributes:
        stored: the numbers of arrays of points, by name.
        totals: summands of the grid's gradient, a row of one for each axis; several rows are added
            one after the other.
        shares: for each array that is added to, what the taps of a point get, to be multiplied by
            their weights of some order of derivatives.
    """

    stored: Mapping[str, Value] = {}
    totals: Sequence[Sequence[Value]] = ()
    shares: Mapping[str, Sums] = {}


OrdersOfArrays = Mapping[str, Sequence[Order]]


def no_orders(orders: Orders, needs: Needs) -> OrdersOfArrays:
    """Return nothing, for operations that add to no pixels."""
    return {}


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation on the points of a call.

    Attributes:
        name: its name, of which that of its programs is made.
        arrays: how arrays are used, by name.
        choices: the names of what a call may or may not need.
        reads: returns the orders of the sums that the formula needs, for each array of pixels.
        formula: computes results from terms.
        adds: returns the orders of the weights with which shares are added, for each array.
        fills: whether points without taps have results, those of the planes "outside" and
            "invalid"; otherwise they add nothing to anything.
        counts: whether pixels count differently, each with sums of its own (`counting`).
        votes: whether pixels are labels, which are not summed.
    """

    name: str
    arrays: Mapping[str, ArrayUse]
    reads: Callable[[Orders, Needs], OrdersOfArrays]
    formula: Callable[[Terms], Results]
    choices: tuple[str, ...] = ()
    adds: Callable[[Orders, Needs], OrdersOfArrays] = no_orders
    fills: bool = False
    counts: bool = False
    votes: bool = False

    def uses(self, needs: Needs) -> dict[str, ArrayUse]:
        """Return the arrays that are used for some needs."""
        return {
            name: use
            for name, use in self.arrays.items()
            if not use.needed_for or use.needed_for in needs
        }

    def chosen(self, *needed: bool) -> Needs:
        """Return the names of the choices that are needed, given whether each one is."""
        return frozenset(itertools.compress(self.choices, needed))

    def summed(self, orders: Orders, needs: Needs) -> list[str]:
        """Return the names of what is summed over the samples of a footprint.

        It is results, or the sums of taps from which quotients are computed.
        """
        if self.counts:
            return [*map(str, self.reads(orders, needs)["image"])]
        return [n for n, use in self.uses(needs).items() if use[:2] == ("points", "store")]

    @property
    def copies(self) -> bool:
        """Whether the result of a point with a single tap is its pixel, which may be copied."""
        return self.fills and not (self.counts or self.votes)

    @property
    def differentiates(self) -> bool:
        """Whether gradients are computed, to which points without taps add nothing."""
        return not self.fills

    @property
    def arrays_of_pixels(self) -> int:
        """The number of arrays like the image that are read and added to."""
        return 2 if self.differentiates else 1
