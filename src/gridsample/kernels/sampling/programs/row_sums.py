"""Rows of K neighbouring pixels, for methods with more than two taps.

If all taps of a point are inside the image, the K taps along x are neighbours in memory, and one
load reads them.  A register of W lanes holds the rows of W / L points, L = 4 or 8 pixels of
each, and L registers hold the rows of all W points:

    register b, lane (j, l):  pixel l of point b * W / L + j

They are multiplied by the weights of the other axes and summed over these axes' taps; then they are
multiplied by the weights along x, and neighbouring lanes are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.interleaving import interleave
from gridsample.kernels.sampling.programs.sums import (
    Orders,
    Registers,
    Row,
    TapSums,
    Weights,
    orders_within,
    with_product,
)
from gridsample.kernels.vector import Function, Pointer, Value, joined


def row_length(taps: int) -> int:
    """Return L, the number of pixels that are read in a row: a power of two."""
    return 4 if taps <= 4 else 8


class RowInMemory(NamedTuple):
    """A row of neighbouring pixels of each point.

    Attributes:
        plane: the memory of a plane, from some row on.
        offsets: the offset of each point's first tap, an int64 with one lane.
        steps: the distance of neighbours along each axis, x first.
    """

    plane: Pointer
    offsets: Sequence[Value]
    steps: Sequence[Value]

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.plane.function

    def at(self, axis: int, k: int | Value) -> RowInMemory:
        """Return the row that is ``k`` pixels further along another axis than x."""
        return self._replace(plane=self.plane.at(self.steps[axis] * k))

    def registers(self, length: int) -> Registers:
        """Read the registers of the row."""
        return {(): read_registers(self.plane, self.offsets, length)}


def read_registers(plane: Pointer, offsets: Sequence[Value], length: int) -> list[Value]:
    """Read the registers of rows, given the offset of the first pixel of each."""
    each = plane.function.lanes // length
    rows = [plane.load(offset, length) for offset in offsets]
    parts = [joined(rows[b * each : (b + 1) * each]) for b in range(length)]
    return [part.to(plane.function.real) for part in parts]


class PixelRows(NamedTuple):
    """What is read in rows.

    Attributes:
        first: the row of each point's first tap.
        weights: the weights of each axis's taps, for each order of derivatives.
        touched: the pixels of the row that are taps, one bit for each; None if they are the first
            ones.  If given, few groups are summed in this way, and code is short.
        along_x: the weights along x as registers, in place of those in ``weights``.
    """

    first: Row
    weights: Sequence[Weights]
    touched: Value | None = None
    along_x: Sequence[Value] = ()

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.first.function

    @property
    def length(self) -> int:
        """L, the pixels of a row."""
        return row_length(len(self.weights[0]))

    def tap_sums(self, orders: Orders) -> TapSums:
        """Sum over all taps, for several orders of derivatives."""
        # If pixels are several numbers, the number of each comes before the axes.
        x = len(orders[0]) - len(self.weights)
        outer = [*dict.fromkeys(order[:x] + order[x + 1 :] for order in orders)]
        totals = self.sum_over(len(self.weights) - 1, self.first, outer)
        return {
            order: self.sum_along_x(totals[order[:x] + order[x + 1 :]], order[x])
            for order in orders
        }

    # Along the other axes -------------------------------------------------------------------------

    def sum_over(self, axis: int, row: Row, orders: Orders) -> Registers:
        """Sum the registers of rows over the taps of the axes from 1 to ``axis``."""
        if axis == 0:
            return row.registers(self.length)
        weights = self.weights[axis]
        if axis >= 2 or self.touched is not None:
            return self.sum_in_loop(axis, row, orders)
        totals: Registers = {}
        for k, tap_weights in enumerate(weights):
            here = row.at(axis, k)
            inner = self.sum_over(axis - 1, here, orders_within(orders))
            self.add(totals, inner, orders, tap_weights)
        return totals

    def sum_in_loop(self, axis: int, row: Row, orders: Orders) -> Registers:
        """Sum over the taps of an axis in a loop of the program."""
        function, lanes, length = self.function, self.function.lanes, self.length
        weights = self.weights[axis]
        tables = []
        for n in range(len(weights[0])):
            table = function.scratch(function.real, len(weights), lanes)
            for k, tap_weights in enumerate(weights):
                table.store(tap_weights[n].splat(lanes), k * lanes, aligned=True)
            tables.append(table)
        zero = function.constant(0.0, function.real, lanes)
        with function.loop(0, len(weights), carry=[zero] * (length * len(orders))) as loop:
            place = loop.index * lanes
            tap_weights = tuple(table.load(place, lanes, aligned=True) for table in tables)
            here = row.at(axis, loop.index)
            totals = unpacked(loop.carried, orders, length)
            inner = self.sum_over(axis - 1, here, orders_within(orders))
            self.add(totals, inner, orders, tap_weights)
            loop.carry(*(register for order in orders for register in totals[order]))
        return unpacked(loop.carried, orders, length)

    def add(
        self, totals: Registers, terms: Registers, orders: Orders, weights: tuple[Value, ...]
    ) -> None:
        """Add terms, multiplied by the weights of a tap, to the totals of each order."""
        tap_weights = {
            n: repeat_in_registers(weights[n], self.length) for n in {o[-1] for o in orders}
        }
        for order in orders:
            before = totals.get(order, [None] * self.length)
            products = zip(before, terms[order[:-1]], tap_weights[order[-1]], strict=True)
            totals[order] = [with_product(*product) for product in products]

    # Along x --------------------------------------------------------------------------------------

    def sum_along_x(self, registers: Sequence[Value], order: int) -> Value:
        """Multiply registers by the weights along x, and sum the lanes of each point."""
        weights = self.along_x or registers_of(
            [tap_weights[order] for tap_weights in self.weights[0]], self.length
        )
        # What is not a tap may be NaN.
        counted = self.counted()
        if counted is not None:
            registers = [c.select(r, 0.0) for c, r in zip(counted, registers, strict=True)]
        return sum_neighbours([r * w for r, w in zip(registers, weights, strict=True)])

    def counted(self) -> list[Value] | None:
        """Return whether the pixels of each register are taps; None if all of all registers are."""
        length, taps = self.length, len(self.weights[0])
        if self.touched is not None:
            return bits_in_registers(self.touched, length)
        if taps == length:
            return None
        each = self.function.lanes // length
        counts = [pixel < taps for _ in range(each) for pixel in range(length)]
        return [self.function.vector(counts, "bool")] * length


def repeat_in_registers(numbers: Value, length: int) -> list[Value]:
    """Repeat each point's number for its lanes in the registers."""
    lanes = numbers.function.lanes
    if numbers.uniform:
        return [numbers.splat(lanes)] * length
    each = lanes // length
    return [
        numbers.shuffle([b * each + j for j in range(each) for _ in range(length)])
        for b in range(length)
    ]


def registers_of(columns: Sequence[Value], length: int) -> list[Value]:
    """Put the numbers of some pixels of each point side by side, and zeros after them."""
    lanes = columns[0].function.lanes
    splats = [column.splat(lanes) for column in columns]
    return interleave(splats + [splats[0].like(0)] * (length - len(splats)))


def bits_in_registers(bits: Value, length: int) -> list[Value]:
    """Return whether the bit of each pixel of the registers is set in the number of its point."""
    each = bits.lanes // length
    pixels = bits.function.vector([1 << k for _ in range(each) for k in range(length)], bits.kind)
    return [(numbers & pixels) != 0 for numbers in repeat_in_registers(bits, length)]


def sum_neighbours(registers: Sequence[Value]) -> Value:
    """Sum every L neighbouring lanes of L registers, where L is a power of two."""
    lanes = registers[0].lanes
    while len(registers) > 1:
        registers = [
            p.shuffle(range(0, 2 * lanes, 2), q) + p.shuffle(range(1, 2 * lanes, 2), q)
            for p, q in zip(registers[::2], registers[1::2], strict=True)
        ]
    return registers[0]


def unpacked(carried: Sequence[Value], orders: Orders, length: int) -> Registers:
    """Assign values in a row to orders, ``length`` to each."""
    return {order: [*carried[i * length : (i + 1) * length]] for i, order in enumerate(orders)}
