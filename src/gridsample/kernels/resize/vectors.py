"""Operations of the resizing loops on a few numbers at once, as LLVM vectors.

Written this way, sums stay in registers for any number of taps.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels.compile.extending import count_to, declare, pointer, variable
from gridsample.kernels.cpu.vectors import (
    CACHE_LINE,
    FUSE,
    I16,
    I32,
    I64,
    Block,
    bytes_of,
    repeat,
    shuffle,
    widen,
)

# A weighted sum -----------------------------------------------------------------------------------


class Terms(NamedTuple):
    """The terms of a weighted sum, and how they are added to vectors of sums.

    Attributes:
        block: the shape of the sum.
        builder: the builder of the function that sums.
        element: the type of the sums.
        factors: the address of the weights.
        first: the index of the first weight.
        source: the address of the numbers.
        at: the index of the first number.
        step: the distance from one tap to the next.
        pitch: the distance from one line to the next.
        signed: whether integers are signed.
    """

    block: Block
    builder: Any
    element: Any
    factors: Any
    first: Any
    source: Any
    at: Any
    step: Any
    pitch: Any
    signed: bool

    def add(self, totals: list[Any], tap: Any) -> list[Any]:
        """Add a tap to the sums of each line."""
        builder = self.builder
        place = builder.gep(self.factors, [builder.add(self.first, tap)])
        weight = builder.load(place)
        if weight.type != self.element:
            weight = builder.sext(weight, self.element)
        weight = repeat(builder, weight, self.block.lanes)
        lines = self.lines(tap, self.block)
        values = [widen(builder, line, self.element, self.signed) for line in lines]
        if isinstance(self.element, ir.IntType):
            return [
                builder.add(total, builder.mul(weight, value))
                for total, value in zip(totals, values, strict=True)
            ]
        return [
            builder.fadd(total, builder.fmul(weight, value, flags=FUSE), flags=FUSE)
            for total, value in zip(totals, values, strict=True)
        ]

    def add_pair(self, totals: list[Any], tap: Any) -> list[Any]:
        """Add two taps with the instruction that sums two products of 16-bit numbers.

        The instruction needs the two numbers next to each other, and LLVM recognises it when sums
        of adjacent numbers are written in this way.
        """
        builder, lanes = self.builder, self.block.lanes
        place = builder.gep(self.factors, [builder.add(self.first, tap)])
        both = builder.load(builder.bitcast(place, I32.as_pointer()), align=2)
        weights = builder.bitcast(repeat(builder, both, lanes), ir.VectorType(I16, 2 * lanes))
        weights = builder.sext(weights, ir.VectorType(I32, 2 * lanes))
        sums = []
        for total, pair in zip(totals, self.pairs(tap), strict=True):
            values = builder.sext(widen(builder, pair, I16, self.signed), weights.type)
            products = builder.mul(weights, values, flags=("nsw",))
            even, odd = (
                shuffle(builder, products, products, [*range(k, 2 * lanes, 2)]) for k in (0, 1)
            )
            sums.append(builder.add(total, builder.add(even, odd)))
        return sums

    def pairs(self, tap: Any) -> Iterator[Any]:
        """Yield what two taps read, with the two numbers of each place next to each other."""
        builder, block = self.builder, self.block
        if block.spills:  # taps are adjacent: one load reads both
            double = block._replace(width=2 * block.lanes)
            places = [k // 2 + k % 2 * block.width for k in range(double.width)]
            for line in self.lines(tap, double):
                yield shuffle(builder, line, line, places)
            return
        places = [k // 2 + k % 2 * block.lanes for k in range(2 * block.lanes)]
        following = builder.add(tap, tap.type(1))
        for a, b in zip(self.lines(tap, block), self.lines(following, block), strict=True):
            yield shuffle(builder, a, b, places)

    def lines(self, tap: Any, block: Block) -> list[Any]:
        """Return the lines that a tap reads."""
        begin = self.builder.add(self.at, self.builder.mul(tap, self.step))
        places = block.places(self.builder, begin, self.pitch)
        return [block.load(self.builder, self.source, place) for place in places]

    def total(self, taps: Any) -> list[Any]:
        """Return the sums over ``taps`` taps."""
        builder = self.builder
        none = ir.Constant(ir.VectorType(self.element, self.block.lanes), None)
        totals = [none] * self.block.lines
        step = 2 if self.factors.type.pointee == I16 else 1
        add = self.add_pair if step == 2 else self.add
        if self.block.taps:
            for tap in range(0, self.block.taps, step):
                totals = add(totals, taps.type(tap))
            return totals
        kept = [variable(builder, total) for total in totals]

        def add_to_kept(add: Any, tap: Any) -> None:
            added = add([builder.load(place) for place in kept], tap)
            for place, total in zip(kept, added, strict=True):
                builder.store(total, place)

        with count_to(builder, builder.sdiv(taps, taps.type(step))) as loop:
            add_to_kept(add, builder.mul(loop.index, taps.type(step)))
        if step == 2:
            with builder.if_then(builder.trunc(taps, ir.IntType(1))):
                add_to_kept(self.add, builder.sub(taps, taps.type(1)))
        return [builder.load(place) for place in kept]


@intrinsic
def to_cache_line(context: Any, array: Any, place: Any) -> Any:
    """Return how many numbers there are from a place to the start of the next cache line."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = pointer(context, builder, array, arguments[0])
        at = context.cast(builder, arguments[1], place, nb.int64)
        address = builder.ptrtoint(builder.gep(data, [at]), I64)
        past = builder.and_(builder.neg(address), I64(CACHE_LINE - 1))
        return builder.udiv(past, I64(bytes_of(data.type.pointee)))

    return nb.int64(array, place), generate


@intrinsic
def settle_streams(context: Any) -> Any:
    """Make the stores that bypassed the caches visible to other threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return nb.void(), generate


def settle_fixed(builder: Any, total: Any, shift: Any, target: str) -> Any:
    """Drop the last ``shift`` bits of 32-bit sums: round, and clamp to the target's range."""
    width, i32, ends = total.type.count, total.type.element, np.iinfo(target)
    half = builder.shl(i32(1), builder.sub(shift, i32(1)))
    total = builder.add(total, repeat(builder, half, width))
    total = builder.ashr(total, repeat(builder, shift, width))
    for name, end in (("smax", ends.min), ("smin", ends.max)):
        function = declare(
            builder.module,
            ir.FunctionType(total.type, [total.type] * 2),
            f"llvm.{name}.v{width}i32",
        )
        total = builder.call(function, [total, repeat(builder, i32(int(end)), width)])
    return builder.trunc(total, ir.VectorType(ir.IntType(ends.bits), width))


@functools.cache
def block_weigher(block: Block, target: str) -> Any:
    """Make `loops.weigh_block` for a block: sums stay in registers, for any number of taps."""

    @intrinsic
    def weigh_block(
        context: Any, out: Any, to: Any, out_pitch: Any, src: Any, at: Any, src_pitch: Any,
        step: Any, weights: Any, first: Any, taps: Any, shift: Any,
    ) -> Any:  # fmt: skip
        """Sum blocks of numbers a fixed step apart, with weights."""
        kinds = out, to, out_pitch, src, at, src_pitch, step, weights, first, taps, shift
        fixed = weights.dtype in (nb.int16, nb.int32)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, out_pitch, at, src_pitch, step, first, taps, shift = (
                context.cast(builder, arguments[k], kinds[k], nb.int64)
                for k in (1, 2, 4, 5, 6, 8, 9, 10)
            )
            result, source, factors = (
                pointer(context, builder, kinds[k], arguments[k]) for k in (0, 3, 7)
            )
            element = I32 if fixed else factors.type.pointee
            terms = Terms(
                block, builder, element, factors, first, source, at, step, src_pitch,
                getattr(src.dtype, "signed", True),
            )  # fmt: skip
            lines = block.places(builder, to, out_pitch)
            for total, place in zip(terms.total(taps), lines, strict=True):
                bits = builder.trunc(shift, I32)
                line = settle_fixed(builder, total, bits, target) if fixed else total
                block.store(builder, line, result, place)
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return weigh_block


@functools.cache
def square_weigher(block: Block) -> Any:
    """Make `loops.weigh_square` for a block of two lines."""

    @intrinsic
    def weigh_square(
        context: Any, out: Any, to: Any, src: Any, at: Any, pitch: Any, step: Any, columns: Any,
        column: Any, rows: Any, row: Any,
    ) -> Any:  # fmt: skip
        """Sum two by two short sequences of numbers, with weights."""
        kinds = out, to, src, at, pitch, step, columns, column, rows, row

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, at, pitch, step, column, row = (
                context.cast(builder, arguments[k], kinds[k], nb.int64) for k in (1, 3, 4, 5, 7, 9)
            )
            result, source, across, down = (
                pointer(context, builder, kinds[k], arguments[k]) for k in (0, 2, 6, 8)
            )

            def weigh(factors: Any, first: Any, vectors: list[Any]) -> Any:
                total = ir.Constant(vectors[0].type, None)
                for k, vector in enumerate(vectors):
                    weight = builder.load(builder.gep(factors, [builder.add(first, I64(k))]))
                    weight = repeat(builder, weight, vector.type.count)
                    product = builder.fmul(weight, vector, flags=FUSE)
                    total = builder.fadd(total, product, flags=FUSE)
                return total

            if block.spills:  # one load reads both blocks of a row
                double = block._replace(width=2 * block.lanes)
                places = block.places(builder, at, pitch)
                lines = [double.load(builder, source, place) for place in places]
                both = weigh(down, row, lines)
                pair = [
                    shuffle(builder, both, both, [*range(begin, begin + block.lanes)])
                    for begin in (0, block.width)
                ]
            else:
                pair = []
                for first in (at, builder.add(at, step)):
                    places = block.places(builder, first, pitch)
                    lines = [block.load(builder, source, place) for place in places]
                    pair.append(weigh(down, row, lines))
            total = weigh(across, column, pair)
            block.store(builder, total, result, to)
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return weigh_square


# Copies -------------------------------------------------------------------------------------------


@functools.cache
def group_copier(width: int) -> Any:
    """Make `loops.copy_group` for ``width`` numbers."""
    group = Block(1, width, spills=True)

    @intrinsic
    def copy_group(context: Any, dst: Any, to: Any, src: Any, at: Any) -> Any:
        """Copy a few contiguous numbers."""
        kinds = dst, to, src, at

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            there, here = (pointer(context, builder, kinds[k], arguments[k]) for k in (0, 2))
            to, at = (context.cast(builder, arguments[k], kinds[k], nb.int64) for k in (1, 3))
            group.store(builder, group.load(builder, here, at), there, to)
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return copy_group
