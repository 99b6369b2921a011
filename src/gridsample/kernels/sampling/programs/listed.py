"""Reads and adds to the listed taps of one point, whose channels are lanes: see `channels`."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.counting import COUNTED, WEIGHT, TapRule
from gridsample.kernels.sampling.programs.operation import Order
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    Registers,
    no_pixel,
    with_product,
)
from gridsample.kernels.sampling.programs.tap_lists import TapList
from gridsample.kernels.vector import Function, Pointer, Value


class Register(NamedTuple):
    """Channels in a register.

    Attributes:
        first: the first of them, counted from the first of the block.
        lanes: their number.
    """

    first: int
    lanes: int


class Block(NamedTuple):
    """Channels of a point that are processed at a time.

    Attributes:
        first: the first of them.
        registers: the registers that they fill.
        fresh: whether channels are not in the block before, too; None if none ever is.
    """

    first: int | Value
    registers: Sequence[Register]
    fresh: Value | None = None

    def load(self, memory: Pointer) -> list[Value]:
        """Read the registers of a point, given the memory of its first channel."""
        return [memory.at(self.first).load(first, lanes) for first, lanes in self.registers]

    def splat(self, number: Value) -> list[Value]:
        """Return a number in all lanes of each register."""
        return [number.splat(lanes) for _, lanes in self.registers]

    def by_key(self, keys: Sequence[Order], values: Sequence[Value]) -> Registers:
        """Return the registers of each key, given those of all keys, one after the other."""
        each = len(self.registers)
        return {key: [*values[k * each : (k + 1) * each]] for k, key in enumerate(keys)}

    def counted(self, registers: Sequence[Value]) -> list[Value]:
        """Return registers with 0 for channels that are in the block before, too."""
        if self.fresh is None:
            return [*registers]
        return [self.fresh.select(register, 0.0) for register in registers]


def whole_block(lanes: int, channels: int) -> Block:
    """Return the block of all channels, given the lanes of a register."""
    return Block(0, [Register(k, min(lanes, channels - k)) for k in range(0, channels, lanes)])


@contextlib.contextmanager
def blocks(function: Function, lanes: int, channels: int, count: Value) -> Iterator[Block]:
    """Loop over ``count`` channels, some at a time; the last block may overlap the one before.

    Args:
        function: the function that is written.
        lanes: how many fill a register.
        channels: how many are processed at a time; see `tap_lists.block_of`.
        count: their number.
    """
    first_block = whole_block(lanes, channels)
    if channels % lanes:
        yield first_block
        return
    with function.loop(0, count, channels) as loop:
        first, fresh = loop.index.minimum(count - channels), None
        if channels == lanes:
            lane = function.vector(range(lanes), "int32")
            fresh = lane >= (loop.index - first).to("int32")
        yield first_block._replace(first=first, fresh=fresh)


def padded(register: Value, lanes: int) -> Value:
    """Append lanes of 0 to a register."""
    count = register.lanes
    if count == lanes:
        return register
    zero = register.like(0.0)
    if count == 1:
        return zero.splat(lanes).insert(register, 0)
    return register.shuffle([min(k, count) for k in range(lanes)], zero)


class Point(NamedTuple):
    """A point of a group, and what is known of it.

    Attributes:
        lane: its lane.
        place: the place of its values.
        valid, outside: as in `State`, with one lane; None if all points of the group have taps, all
            of which are present.
        fresh: whether no earlier group has the point; None if none has.
    """

    lane: Value
    place: Value
    valid: Value | None = None
    outside: Value | None = None
    fresh: Value | None = None


class CountedChannels(NamedTuple):
    """How the channels of listed taps count.

    All channels share the weights of pixels, which are multiplied into the weights of taps where
    taps are listed (`Counting.weight`), and so is their sum.

    Attributes:
        rule: what taps count for.
        parts: whether channels are the parts of complex numbers.
    """

    rule: TapRule
    parts: bool

    def known(self, value: Value) -> Value:
        """Whether pixels are numbers; a complex one is if both parts are."""
        known = value == value
        if not self.parts:
            return known
        other = value.shuffle([lane ^ 1 for lane in range(value.lanes)])
        return known & (other == other)


class ListedTaps(NamedTuple):
    """The taps of a point in an array of pixels, for a block of channels.

    Attributes:
        point: the point.
        block: its channels.
        taps: the taps of its group.
        memory: the first channel of the array's first pixel.
        dropped: the values of dropped taps; None if no tap is dropped, or none is read.
        counted: how pixels count; None if they all count alike.
    """

    point: Point
    block: Block
    taps: TapList
    memory: Pointer
    dropped: Sequence[Value] | None = None
    counted: CountedChannels | None = None

    def sums(self, orders: Sequence[Order]) -> Registers:
        """Sum the weighted pixels of all taps, for each order of derivatives."""
        if not orders:
            return {}
        if not self.taps.weights:
            pixels, present = self.read(0)
            if present is not None and self.dropped is not None:
                pixels = [present.select(*pair) for pair in zip(pixels, self.dropped, strict=True)]
            return {orders[0]: pixels}
        if self.counted is not None:
            return self.counted_sums(self.counted, orders)
        return self.plain_sums(orders)

    def add(self, shares: Mapping[Order, Sequence[Value]]) -> None:
        """Add shares, times the weights of taps, to the pixels of all taps."""
        point, function = self.point, self.memory.function
        if point.fresh is not None:
            shares = {o: [point.fresh.select(v, 0.0) for v in own] for o, own in shares.items()}

        def add_tap(place: int | Value) -> None:
            offset = self.taps.offsets.at(place).load(point.lane)
            if point.valid is None:
                self.add_pixel(offset, place, shares)
                return
            with function.when(offset != no_pixel(offset.kind)):
                self.add_pixel(offset, place, shares)

        lanes = function.lanes
        if self.are_written_out:
            for k in range(self.taps.taps):
                add_tap(k * lanes)
            return
        with function.loop(0, self.taps.rows) as loop:
            for k in range(self.taps.row):
                add_tap((loop.index * self.taps.row + k) * lanes)

    def add_pixel(
        self, offset: Value, place: int | Value, shares: Mapping[Order, Sequence[Value]]
    ) -> None:
        """Add shares to the pixel of a tap, which is present."""
        home = self.memory.at(offset.to("int64")).at(self.block.first)
        weights = {order: self.weight(order, place) for order in shares}
        for r, (first, lanes) in enumerate(self.block.registers):
            terms = [own[r] * weights[order] for order, own in shares.items()]
            home.store(home.load(first, lanes) + functools.reduce(operator.add, terms), first)

    # Taps -----------------------------------------------------------------------------------------

    @property
    def are_written_out(self) -> bool:
        """Whether taps are written out, rather than looped over."""
        return self.taps.taps <= (WRITTEN_OUT if self.point.valid is None else 1)

    def weight(self, order: Order, place: int | Value) -> Value:
        """Read the weight of the tap at a place in the list."""
        return self.taps.weights[order].at(place).load(self.point.lane)

    def read(self, place: int | Value) -> tuple[list[Value], Value | None]:
        """Read the pixel of a tap, and whether it is present, unless that is known."""
        offset = self.taps.offsets.at(place).load(self.point.lane)
        if self.point.valid is None:
            return self.block.load(self.memory.at(offset.to("int64"))), None
        present = offset != no_pixel(offset.kind)
        offset = present.select(offset, 0).to("int64")
        return self.block.load(self.memory.at(offset)), present

    def values(self, place: int | Value) -> Callable[[Value], Sequence[Value]]:
        """Return what returns the pixel of a tap as real numbers, given the tap's weight.

        A dropped tap has its value, but a fill value of NaN must not count where the weight is 0.
        """
        pixels, present = self.read(place)
        reals, dropped = [pixel.to(self.memory.function.real) for pixel in pixels], self.dropped
        if present is None or dropped is None:
            return lambda weight: reals
        return lambda weight: [
            present.select(value, (weight == 0.0).select(0.0, fill))
            for value, fill in zip(reals, dropped, strict=True)
        ]

    def over_taps(
        self, keys: Sequence[Order], add: Callable[[Registers, int | Value], Registers]
    ) -> Registers:
        """Call ``add`` with the sums so far and the place of each tap's numbers in the list.

        The sums have these ``keys``.  There is a loop over the rows of taps that are not written
        out.
        """
        function, lanes = self.memory.function, self.memory.function.lanes
        totals = Registers()
        if self.are_written_out:
            for k in range(self.taps.taps):
                totals = add(totals, k * lanes)
            return totals
        zeros = self.block.splat(function.constant(0.0, function.real))

        with function.loop(0, self.taps.rows, carry=zeros * len(keys)) as loop:
            totals = self.block.by_key(keys, loop.carried)
            for k in range(self.taps.row):
                totals = add(totals, (loop.index * self.taps.row + k) * lanes)
            loop.carry(*(value for key in keys for value in totals[key]))
        return self.block.by_key(keys, loop.carried)

    # Sums -----------------------------------------------------------------------------------------

    def plain_sums(self, orders: Sequence[Order]) -> Registers:
        """Sum all taps."""

        def add(totals: Registers, place: int | Value) -> Registers:
            values, sums = self.values(place), Registers()
            for order in orders:
                weight = self.weight(order, place)
                before = totals.get(order, [None] * len(self.block.registers))
                products = zip(before, values(weight), self.block.splat(weight), strict=True)
                sums[order] = [with_product(*product) for product in products]
            return sums

        return self.over_taps(orders, add)

    def counted_sums(self, counted: CountedChannels, orders: Sequence[Order]) -> Registers:
        """Sum m v and m over the taps, for each order of derivatives after their numbers.

        Only pixels that may be missing are counted channel by channel, and only where a plain sum
        is NaN.
        """
        every, rule = [order[1:] for order in orders if order[0] == COUNTED], counted.rule
        if rule.differ:
            sums = self.sums_of_numbers(counted, every, [COUNTED], False)
            weighted = {order[1:]: each for order, each in sums.items()}
        else:
            weighted = self.plain_sums(every)
        keys = [(number, *order) for order in every for number in (COUNTED, WEIGHT)]
        complete = [
            value
            for order in every
            for values in (weighted[order], self.sum_of_weights(rule, order))
            for value in values
        ]
        if not rule.ignores_nan:
            return self.block.by_key(keys, complete)
        known = [counted.known(value) for value in weighted[every[0]]]

        def where_known() -> list[Value]:
            sums = self.sums_of_numbers(counted, every, [COUNTED, WEIGHT], True)
            # What is complete keeps its bits.
            missing = [value for key in keys for value in sums[key]]
            return [*map(Value.select, known * len(keys), complete, missing)]

        some = functools.reduce(operator.or_, [(~each).any() for each in known])
        function = self.memory.function
        values = function.choose(some, where_known, lambda: complete, likely=False)
        return self.block.by_key(keys, values)

    def sum_of_weights(self, rule: TapRule, order: Order) -> list[Value]:
        """Return the sum of the weights of taps, where all pixels are numbers."""
        if rule.differ:
            return self.block.splat(self.taps.sums[order].load(self.point.lane))
        function = self.memory.function
        return self.block.splat(function.constant(0.0 if any(order) else 1.0, function.real))

    def sums_of_numbers(
        self,
        counted: CountedChannels,
        orders: Sequence[Order],
        numbers: Sequence[int],
        ignores: bool,
    ) -> Registers:
        """Sum some numbers of the pixels that count; ``ignores`` if NaN counts for nothing."""

        def add(totals: Registers, place: int | Value) -> Registers:
            values, sums = self.values(place), Registers()
            for order in orders:
                weight = self.weight(order, place)
                for number in numbers:
                    terms = []
                    for value, own in zip(values(weight), self.block.splat(weight), strict=True):
                        counts = [own == own] if counted.rule.differ else []
                        counts += [counted.known(value)] if ignores else []
                        term = own if number == WEIGHT else value * own
                        terms.append(functools.reduce(operator.and_, counts).select(term, 0.0))
                    key = (number, *order)
                    sums[key] = [*map(operator.add, totals[key], terms)] if totals else terms
            return sums

        return self.over_taps([(n, *order) for order in orders for n in numbers], add)
