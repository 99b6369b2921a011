"""The taps of a group of W points, listed in memory, so that each can be processed by itself.

W is the number of lanes of a register.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gridsample.kernels.caches import whole_lines
from gridsample.kernels.sampling.programs.axes import AxisRule, Tap
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.sums import TapTable, both, no_pixel
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

Order = tuple[int, ...]


# The most registers of a block.
MAX_REGISTERS = 4


class TapList(NamedTuple):
    """The taps of W points in memory: tap by tap, x fastest, and in each the points.

    Attributes:
        rows: the number of taps along all other axes than the first.
        row: the number of taps along the first axis.
        offsets: the offset of each tap's pixel, or the least number if it is dropped.
        weights: the product of the weights of all axes, for each order of derivatives.
        inside: whether no tap is dropped; a condition with one lane.
        sums: the sums of the weights of taps that count, for each order, if not all count alike.
    """

    rows: int
    row: int
    offsets: Pointer
    weights: dict[Order, Pointer]
    inside: Value
    sums: Mapping[Order, Pointer] = MappingProxyType({})

    @property
    def taps(self) -> int:
        """The number of taps."""
        return self.rows * self.row


def list_taps(
    memory: Pointer,
    begin: Value | None,
    taps: Sequence[Sequence[Tap]],
    orders: Sequence[Order],
    counting: Counting | None = None,
    written_out: bool = False,
) -> TapList:
    """List the products of the taps of all axes.

    Args:
        memory: where the list is kept.
        begin: the offset to add to those of the taps, or None.
        taps: the taps of each axis, x first; weights are those of derivatives of all orders.
        orders: the orders of derivatives of the products.
        counting: how taps count, if not all alike.
        written_out: whether the rows of taps are written out, rather than looped over.
    """
    function, kind = memory.function, taps[0][0].offset.kind
    lanes, count = function.lanes, functools.reduce(operator.mul, map(len, taps))
    # Weights fill registers, to which they are aligned; offsets may be shorter.
    products = memory.cast(function.real)
    weights = {order: products.at(k * count * lanes) for k, order in enumerate(orders)}
    offsets = products.at(len(orders) * count * lanes).cast(kind)
    sums = dict[Order, Pointer]()
    if counting is not None:
        sums = {order: function.scratch(function.real, 1, lanes) for order in orders}
        for total in sums.values():
            total.store(function.constant(0.0, function.real, lanes), aligned=True)
    tables = [] if written_out else [TapTable(axis_taps) for axis_taps in taps[1:]]

    def list_rows(axis: int, number: Value | int, row: Tap, shares: dict[Order, Value]) -> None:
        if axis and written_out:
            for k, tap in enumerate(taps[axis]):
                products = {o: times(shares.get(o[1:]), tap, o[0]) for o in tails(axis)}
                list_rows(axis - 1, number * len(taps[axis]) + k, combined(row, tap), products)
            return
        if axis:
            with function.loop(0, tables[axis - 1].count) as loop:
                tap = tables[axis - 1].read(loop.index)
                products = {o: times(shares.get(o[1:]), tap, o[0]) for o in tails(axis)}
                index = loop.index + number * tables[axis - 1].count
                list_rows(axis - 1, index, combined(row, tap), products)
            return
        for k, tap in enumerate(taps[0]):
            place, both_taps = (number * len(taps[0]) + k) * lanes, combined(row, tap)
            offset = both_taps.offset
            if both_taps.present is not None:
                offset = both_taps.present.select(offset, no_pixel(kind))
            offsets.store_in_parts(offset, place)
            products = {o: times(shares.get(o[1:]), tap, o[0]).splat(lanes) for o in orders}
            if counting is not None:
                # Products with the weights of pixels, and NaN where a tap does not count, so that
                # its pixel is not read into sums.
                pixel = counting.weight(both_taps._replace(weights=tap.weights))
                products = {order: product * pixel for order, product in products.items()}
                for order, product in products.items():
                    total = sums[order].load(0, lanes, aligned=True)
                    total += (pixel > 0.0).select(product, 0.0)
                    sums[order].store(total, aligned=True)
                    products[order] = (pixel > 0.0).select(product, math.nan)
            for order, product in products.items():
                weights[order].store_in_parts(product, place)

    def tails(axis: int) -> list[Order]:
        return [*dict.fromkeys(order[axis:] for order in orders)]

    zero = function.constant(0, kind, lanes)
    first = Tap(begin if begin is not None else zero, None, (), pixel_weight_offset=zero)
    list_rows(len(taps) - 1, 0, first, {})
    return TapList(
        count // len(taps[0]),
        len(taps[0]),
        offsets,
        weights,
        inside(taps, function),
        sums=sums,
    )


def times(share: Value | None, tap: Tap, order: int) -> Value:
    """Multiply by a tap's weight."""
    return tap.weights[order] if share is None else share * tap.weights[order]


def combined(row: Tap, tap: Tap) -> Tap:
    """Combine taps of different axes."""
    weight_offset = None
    if row.pixel_weight_offset is not None and tap.pixel_weight_offset is not None:
        weight_offset = row.pixel_weight_offset + tap.pixel_weight_offset
    offset, present = row.offset + tap.offset, both(row.present, tap.present)
    return Tap(offset, present, (), pixel_weight_offset=weight_offset)


def inside(taps: Sequence[Sequence[Tap]], function: Function) -> Value:
    """Whether all taps are present."""
    conditions = [tap.present for axis_taps in taps for tap in axis_taps if tap.present is not None]
    if not conditions:
        return function.constant(True, "bool")
    return functools.reduce(operator.and_, conditions).all()


def list_bytes(axes: Sequence[AxisRule], lanes: int, real: str, wide: bool, orders: int) -> int:
    """Return the bytes of a list of taps, whole lines of the cache: another one may follow.

    Args:
        axes: the rules of the axes.
        lanes: the number of points.
        real: the kind of weights.
        wide: whether offsets are int64.
        orders: the number of orders of derivatives of the weights.
    """
    taps = math.prod(rule.method.taps for rule in axes)
    return whole_lines(taps * lanes * (kind_of(real).size * orders + (8 if wide else 4)))


def block_of(channels: int, lanes: int) -> int:
    """Return how many channels are processed at a time.

    They are all, if they fit in a few registers, of which the last may have fewer lanes; otherwise
    the lanes of several registers, if channels are a multiple of these, or those of one.
    """
    if -(-channels // lanes) <= MAX_REGISTERS:
        return channels
    return next(n * lanes for n in (4, 2, 1) if channels % (n * lanes) == 0 or n == 1)
