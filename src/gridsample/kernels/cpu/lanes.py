"""A few contiguous numbers in one register: a row of taps, or of the channels of a few taps.

`Lanes` is a type for variables in loops.  `reader` and `writer` make the operations on it, for a
storage type and a number of lanes.  A row consists of ``taps`` contiguous pixels of ``channels``
numbers each.  A sum of rows is folded to one pixel.
"""

from __future__ import annotations

import functools
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels.compile.extending import Lanes, declare, pointer
from gridsample.kernels.cpu.vectors import (
    FUSE,
    I16,
    I32,
    I64,
    Block,
    repeat,
    round_to_bfloat,
    shuffle,
    vector_name,
)

F16, F32 = ir.HalfType(), ir.FloatType()


def limits(code: str) -> tuple[int, int]:
    """Return the least and greatest number of an integer type."""
    return (0, 1) if code == "b1" else (int(np.iinfo(code).min), int(np.iinfo(code).max))


# Storage types ------------------------------------------------------------------------------------


def read(builder: Any, stored: Any, code: str, number: Any) -> Any:
    """Convert a vector of stored values to numbers."""
    kind = ir.VectorType(number, stored.type.count)
    if code == "f2":
        stored = builder.bitcast(stored, ir.VectorType(F16, kind.count))
    elif code == "V2":
        wide = builder.zext(stored, ir.VectorType(I32, kind.count))
        wide = builder.shl(wide, repeat(builder, I32(16), kind.count))
        stored = builder.bitcast(wide, ir.VectorType(F32, kind.count))
    elif code[0] in "ub":
        return builder.uitofp(stored, kind)
    elif code[0] == "i":
        return builder.sitofp(stored, kind)
    return stored if stored.type == kind else builder.fpext(stored, kind)


def write(builder: Any, numbers: Any, code: str) -> Any:
    """Convert numbers to stored values: round to nearest, ties to even; integers saturate."""
    count, size = numbers.type.count, int(code[1:])
    if code[0] == "f" and size > 2:
        kind = ir.VectorType(F32 if size == 4 else ir.DoubleType(), count)
        if numbers.type == kind:
            return numbers
        return (builder.fptrunc if size == 4 else builder.fpext)(numbers, kind)
    if code == "f2":
        half = builder.fptrunc(numbers, ir.VectorType(F16, count))
        return builder.bitcast(half, ir.VectorType(I16, count))
    if code == "V2":
        return round_to_bfloat(builder, numbers)
    return _write_integers(builder, numbers, code)


def _write_integers(builder: Any, numbers: Any, code: str) -> Any:
    """Convert numbers to integers: round half to even, saturate; NaN becomes 0."""
    count, bits = numbers.type.count, 8 * int(code[1:])
    whole = _call(builder, "llvm.rint", numbers.type, numbers)
    kind = ir.VectorType(ir.IntType(bits), count)
    if bits == 64:  # whose limits have no exact real
        name = f"llvm.fpto{'s' if code[0] == 'i' else 'u'}i.sat.v{count}i64"
        return _call(builder, name, kind, whole)
    low, high = (
        repeat(builder, ir.Constant(numbers.type.element, float(end)), count)
        for end in limits(code)
    )
    whole = builder.select(builder.fcmp_ordered(">", whole, low), whole, low)
    whole = builder.select(builder.fcmp_ordered("<", whole, high), whole, high)
    if code[0] == "i":  # unsigned types get the 0 from the lower limit
        real = builder.fcmp_ordered("==", numbers, numbers)
        whole = builder.select(real, whole, ir.Constant(numbers.type, None))
    wide = ir.VectorType(I32 if bits < 32 else I64, count)
    return builder.trunc(builder.fptosi(whole, wide), kind)


def _call(builder: Any, name: str, result: Any, *vectors: Any) -> Any:
    """Call one of LLVM's vector functions; all arguments have the type of the first."""
    kind = vectors[0].type
    function = ir.FunctionType(result, [kind] * len(vectors))
    name = f"{name}.v{kind.count}{kind.element.intrinsic_name}"
    return builder.call(declare(builder.module, function, name), vectors)


# What loops do ------------------------------------------------------------------------------------


def _place(context: Any, builder: Any, signature: Any, arguments: Any, at: int) -> Any:
    """Return an argument as an index."""
    return context.cast(builder, arguments[at], signature.args[at], nb.uint64)


@functools.cache
def reader(code: str, real: Any, channels: int, taps: int) -> dict[str, Any]:
    """Make what reads rows of pixels: ``no_lanes``, ``load_lanes``, ``gather_lanes``."""
    row = Block(1, channels * taps)
    kind = Lanes(real, row.lanes)

    @intrinsic
    def no_lanes(context: Any) -> Any:
        """Return zeros."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return ir.Constant(context.get_value_type(kind), None)

        return kind(), generate

    @intrinsic
    def load_lanes(context: Any, plane: Any, at: Any) -> Any:
        """Load the row that starts at a place."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = pointer(context, builder, plane, arguments[0])
            stored = row.load(builder, data, _place(context, builder, signature, arguments, 1))
            return read(builder, stored, code, context.get_value_type(real))

        return kind(plane, at), generate

    @intrinsic
    def gather_lanes(context: Any, plane: Any, at: Any, step: Any) -> Any:
        """Load a row of numbers that are a step apart."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, step = (_place(context, builder, signature, arguments, k) for k in (1, 2))
            data = pointer(context, builder, plane, arguments[0])
            stored = ir.Constant(ir.VectorType(data.type.pointee, row.lanes), None)
            for k in range(row.width):
                one = builder.load(builder.gep(data, [place]))
                stored = builder.insert_element(stored, one, I32(k))
                place = builder.add(place, step)
            return read(builder, stored, code, context.get_value_type(real))

        return kind(plane, at, step), generate

    return {"no_lanes": no_lanes, "load_lanes": load_lanes, "gather_lanes": gather_lanes}


@intrinsic
def weigh_lanes(context: Any, total: Any, weight: Any, lanes: Any) -> Any:
    """Return total + weight * lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, weight, lanes = arguments
        product = builder.fmul(repeat(builder, weight, lanes.type.count), lanes, flags=FUSE)
        return builder.fadd(total, product, flags=FUSE)

    return lanes(lanes, lanes.number, lanes), generate


def _present(builder: Any, lanes: Any, chosen: Any, total: Any) -> Any:
    """Return what is chosen where lanes are numbers, and the total where they are NaN."""
    return builder.select(builder.fcmp_ordered("==", lanes, lanes), chosen, total)


@intrinsic
def weigh_present(context: Any, total: Any, weight: Any, lanes: Any) -> Any:
    """Return total + weight * lanes, or the total where lanes are NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, weight, lanes = arguments
        # A product that plain sums share would be rounded before it is added.
        lanes = _present(builder, lanes, lanes, ir.Constant(lanes.type, None))
        product = builder.fmul(repeat(builder, weight, lanes.type.count), lanes, flags=FUSE)
        return builder.fadd(total, product, flags=FUSE)

    return lanes(lanes, lanes.number, lanes), generate


@intrinsic
def weigh_known(context: Any, total: Any, weight: Any, lanes: Any) -> Any:
    """Return total + weight, or the total where lanes are NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, weight, lanes = arguments
        more = builder.fadd(total, repeat(builder, weight, lanes.type.count))
        return _present(builder, lanes, more, total)

    return lanes(lanes, lanes.number, lanes), generate


@intrinsic
def mean_lanes(context: Any, plain: Any, above: Any, below: Any, least: Any, absent: Any) -> Any:
    """Return plain samples where they are numbers, else quotients or what is absent."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        plain, above, below, least, absent = arguments
        enough = builder.fcmp_ordered(">", below, repeat(builder, least, below.type.count))
        quotient = builder.select(enough, builder.fdiv(above, below), absent)
        return _present(builder, plain, plain, quotient)

    return plain(plain, plain, plain, plain.number, plain), generate


@intrinsic
def dot_lanes(context: Any, lanes: Any, others: Any) -> Any:
    """Return the dot product of two rows; LLVM chooses the order, the same in every call."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        products = builder.fmul(*arguments)
        number, kind = products.type.element, products.type
        function = declare(
            builder.module,
            ir.FunctionType(number, [number, kind]),
            f"llvm.vector.reduce.fadd.{vector_name(kind)}",
        )
        zero = ir.Constant(number, -0.0)
        return builder.call(function, [zero, products], fastmath=("reassoc",))

    return lanes.number(lanes, lanes), generate


@intrinsic
def store_lanes(context: Any, numbers: Any, at: Any, lanes: Any) -> Any:
    """Store all numbers of a row without conversion."""
    block = Block(1, lanes.count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = pointer(context, builder, numbers, arguments[0])
        block.store(builder, arguments[2], data, _place(context, builder, signature, arguments, 1))
        return context.get_dummy_value()

    return nb.void(numbers, at, lanes), generate


@functools.cache
def copier(count: int) -> Any:
    """Make the function that copies ``count`` numbers."""
    row = Block(1, count)

    @intrinsic
    def copy_pixel(context: Any, plane: Any, at: Any, out: Any, to: Any) -> Any:
        """Copy contiguous numbers as bits."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source = pointer(context, builder, plane, arguments[0])
            target = pointer(context, builder, out, arguments[2])
            at, to = (_place(context, builder, signature, arguments, k) for k in (1, 3))
            row.store(builder, row.load(builder, source, at), target, to)
            return context.get_dummy_value()

        return nb.void(plane, at, out, to), generate

    return copy_pixel


@functools.cache
def writer(code: str, real: Any, channels: int, taps: int) -> dict[str, Any]:
    """Make the functions that fold rows and store them: ``fold_lanes`` and so on."""
    row, pixel = Block(1, channels * taps), Block(1, channels)
    one = Lanes(real, pixel.lanes)

    @intrinsic
    def fold_lanes(context: Any, lanes: Any, weights: Any, at: Any, width: Any) -> Any:
        """Return the weighted sum of a row's taps, whose weights are ``width`` apart."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if taps == 1:
                return arguments[0]
            lanes, data = arguments[0], pointer(context, builder, weights, arguments[1])
            at, width = (_place(context, builder, signature, arguments, k) for k in (2, 3))
            total = None
            for tap in range(taps):
                weight = repeat(builder, builder.load(builder.gep(data, [at])), pixel.lanes)
                begin = tap * channels
                # Numbers past the row's end are not used.
                places = [min(begin + k, row.lanes - 1) for k in range(pixel.lanes)]
                part = shuffle(builder, lanes, lanes, places)
                product = builder.fmul(weight, part, flags=FUSE)
                total = product if total is None else builder.fadd(total, product, flags=FUSE)
                at = builder.add(at, width)
            return total

        return one(lanes, weights, at, width), generate

    @intrinsic
    def load_pixel(context: Any, numbers: Any, at: Any) -> Any:
        """Load the numbers of a pixel."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = pointer(context, builder, numbers, arguments[0])
            return pixel.load(builder, data, _place(context, builder, signature, arguments, 1))

        return one(numbers, at), generate

    @intrinsic
    def store_pixel(context: Any, out: Any, at: Any, lanes: Any) -> Any:
        """Convert a pixel's numbers to their storage type, and store them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = pointer(context, builder, out, arguments[0])
            stored = write(builder, arguments[2], code)
            pixel.store(builder, stored, data, _place(context, builder, signature, arguments, 1))
            return context.get_dummy_value()

        return nb.void(out, at, lanes), generate

    return {"fold_lanes": fold_lanes, "load_pixel": load_pixel, "store_pixel": store_pixel}


# Squares ------------------------------------------------------------------------------------------

# The side of a square that is transposed in registers.
TILE = 8


@intrinsic
def turn_tile(
    context: Any, src: Any, at: Any, pitch: Any, dst: Any, to: Any, dst_pitch: Any
) -> Any:
    """Transpose a tile in registers: TILE loads, log2(TILE) rounds of shuffles, TILE stores."""
    kinds = src, at, pitch, dst, to, dst_pitch
    tile = Block(TILE, TILE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, there = (pointer(context, builder, kinds[k], arguments[k]) for k in (0, 3))
        at, pitch, to, dst_pitch = (
            context.cast(builder, arguments[k], kinds[k], nb.int64) for k in (1, 2, 4, 5)
        )
        lines = [tile.load(builder, here, place) for place in tile.places(builder, at, pitch)]
        half = TILE // 2
        while half:
            # Exchange the off-diagonal blocks of every 2 half x 2 half square.
            low = [k if not k & half else TILE + k - half for k in range(TILE)]
            high = [k + half if not k & half else TILE + k for k in range(TILE)]
            for k in range(TILE):
                if not k & half:
                    pair = lines[k], lines[k + half]
                    lines[k], lines[k + half] = (
                        shuffle(builder, *pair, places) for places in (low, high)
                    )
            half //= 2
        for line, place in zip(lines, tile.places(builder, to, dst_pitch), strict=True):
            tile.store(builder, line, there, place)
        return context.get_dummy_value()

    return nb.void(*kinds), generate
