"""Lowers the loops of resizing to Numba: one compiled driver for each pair of storage types."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from gridsample.kernels.cpu.build import (
    compile_driver,
    compile_inner,
    compile_loop,
    compile_piece,
    loader,
    storer,
)
from gridsample.kernels.lower import fingerprint, lower
from gridsample.kernels.resize import loops

# Outer lines put side by side where lines are short; the longest piece of a line that is worked
# on at once, so that a few stay in cache; outputs between two turns; a transposed tile.
LANES, LINE, CHUNK, TILE = 16, 8192, 64, 8
# Rows of pixels that are worked on together.
ROWS = 4
FUSE = ("contract",)


class Spec(NamedTuple):
    """What is compiled into a driver.  Types go by NumPy's codes; "V2" is bfloat16.

    Sums in "i4" are of fixed point; see `gridsample.kernels.resize.Numbers`.
    """

    driver: str
    source: str
    target: str
    sums: str
    pixel: int = 1  # neighbours that are worked on together, where lines are short


@intrinsic
def turn_tile(
    context: Any, src: Any, at: Any, pitch: Any, dst: Any, to: Any, dst_pitch: Any
) -> Any:
    """Transpose a tile in registers: TILE loads, log2(TILE) rounds of shuffles, TILE stores."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(src.dtype)
        vector = ir.VectorType(kind, TILE)
        wide = ir.IntType(64)
        size = context.get_abi_sizeof(context.get_data_type(src.dtype))

        def places(array: int, start: int, step: int) -> list[Any]:
            data = context.make_array(signature.args[array])(
                context, builder, arguments[array]
            ).data
            begin, pitch = (
                context.cast(builder, arguments[k], signature.args[k], nb.int64)
                for k in (start, step)
            )
            return [
                builder.bitcast(
                    builder.gep(
                        data, [builder.add(begin, builder.mul(pitch, ir.Constant(wide, k)))]
                    ),
                    vector.as_pointer(),
                )
                for k in range(TILE)
            ]

        lines = [builder.load(place, align=size) for place in places(0, 1, 2)]
        half = TILE // 2
        while half:
            # Exchange the off-diagonal blocks of every 2 half x 2 half square.
            low = [k if not k & half else TILE + k - half for k in range(TILE)]
            high = [k + half if not k & half else TILE + k for k in range(TILE)]
            mixed = list(lines)
            for k in range(TILE):
                if not k & half:
                    pair = lines[k], lines[k + half]
                    for to, mask in ((k, low), (k + half, high)):
                        chosen = ir.Constant(ir.VectorType(ir.IntType(32), TILE), mask)
                        mixed[to] = builder.shuffle_vector(*pair, chosen)
            lines, half = mixed, half // 2
        for line, place in zip(lines, places(3, 4, 5), strict=True):
            builder.store(line, place, align=size)
        return context.get_dummy_value()

    return nb.void(src, at, pitch, dst, to, dst_pitch), generate


def repeat(builder: Any, value: Any, width: int) -> Any:
    """A vector of one number again and again."""
    vector, i32 = ir.VectorType(value.type, width), ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(i32, width), None))


def multiply_add(builder: Any, total: Any, weight: Any, value: Any) -> Any:
    """Sums with one more product each.  They may fuse into one rounding."""
    if isinstance(total.type.element, ir.IntType):
        return builder.add(total, builder.mul(weight, value))
    return builder.fadd(total, builder.fmul(weight, value, flags=FUSE), flags=FUSE)


def settle_fixed(builder: Any, total: Any, shift: Any, target: str) -> Any:
    """Sums in 32 bits without their last ``shift`` bits: rounded, and confined."""
    width, i32, ends = total.type.count, total.type.element, np.iinfo(target)
    half = builder.shl(i32(1), builder.sub(shift, i32(1)))
    total = builder.add(total, repeat(builder, half, width))
    total = builder.ashr(total, repeat(builder, shift, width))
    for name, end in (("smax", ends.min), ("smin", ends.max)):
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(total.type, [total.type] * 2),
            f"llvm.{name}.v{width}i32",
        )
        total = builder.call(function, [total, repeat(builder, i32(int(end)), width)])
    return builder.trunc(total, ir.VectorType(ir.IntType(ends.bits), width))


class Shape(NamedTuple):
    """A block of numbers: so many lines of so many neighbours."""

    lines: int
    width: int
    taps: int = 0  # how many there are, if that is known
    spills: bool = False  # what lies past a line, up to a power of two, may be read and written

    @property
    def lanes(self) -> int:
        """The vector that a line is worked on in."""
        return 1 << (self.width - 1).bit_length()

    def load(self, builder: Any, data: Any, begin: Any, size: int) -> Any:
        """A line; nothing past it is read."""
        place = self._place(builder, data, begin)
        if self.lanes == self.width or self.spills:
            return builder.load(place, align=size)
        kind = place.type.pointee
        function = self._masked(builder, "load", kind, [place.type], kind)
        none = ir.Constant(kind, ir.Undefined)
        return builder.call(function, [place, ir.IntType(32)(size), self._mask, none])

    def store(self, builder: Any, line: Any, data: Any, begin: Any, size: int) -> None:
        """Store a line, and nothing past it."""
        place = self._place(builder, data, begin)
        if self.lanes == self.width or self.spills:
            builder.store(line, place, align=size)
            return
        function = self._masked(builder, "store", ir.VoidType(), [line.type, place.type])
        builder.call(function, [line, place, ir.IntType(32)(size), self._mask])

    def _place(self, builder: Any, data: Any, begin: Any) -> Any:
        vector = ir.VectorType(data.type.pointee, self.lanes)
        return builder.bitcast(builder.gep(data, [begin]), vector.as_pointer())

    @property
    def _mask(self) -> Any:
        which = [k < self.width for k in range(self.lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), which)

    def _masked(self, builder: Any, what: str, result: Any, first: list[Any], *last: Any) -> Any:
        kinds = [*first, ir.IntType(32), self._mask.type, *last]
        vector = next(kind for kind in (*first, *last) if isinstance(kind, ir.VectorType))
        name = f"llvm.masked.{what}.{vector_name(vector)}.p0"
        return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)


def vector_name(vector: Any) -> str:
    """What LLVM calls a vector in its intrinsics' names."""
    return f"v{vector.count}{vector.element.intrinsic_name}"


@functools.cache
def block_weigher(shape: Shape, sums: str, target: str) -> Any:
    """`loops.weigh_block` for a block: sums in registers, for any number of taps."""

    @intrinsic
    def weigh_block(
        context: Any, out: Any, to: Any, out_pitch: Any, src: Any, at: Any, src_pitch: Any,
        step: Any, weights: Any, first: Any, taps: Any, shift: Any,
    ) -> Any:  # fmt: skip
        """The weighted sum of blocks of numbers that lie a fixed step apart."""
        kinds = out, to, out_pitch, src, at, src_pitch, step, weights, first, taps, shift

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.get_value_type(nb.from_dtype(np.dtype(sums)))
            to, out_pitch, at, src_pitch, step, first, taps = (
                context.cast(builder, arguments[k], kinds[k], nb.int64)
                for k in (1, 2, 4, 5, 6, 8, 9)
            )
            out_data, src_data, factors = (
                context.make_array(kinds[k])(context, builder, arguments[k]).data for k in (0, 3, 7)
            )

            def widen(value: Any, kind: Any) -> Any:
                wide = ir.VectorType(number, value.type.count)
                if value.type == wide:
                    return value
                return (builder.sext if kind.signed else builder.zext)(value, wide)

            def places(begin: Any, pitch: Any) -> Any:
                for _ in range(shape.lines):
                    yield begin
                    begin = builder.add(begin, pitch)

            def add_tap(totals: list[Any], tap: Any) -> list[Any]:
                one = Shape(1, 1).load(
                    builder, factors, builder.add(first, tap), weights.dtype.bitwidth // 8
                )
                one = builder.extract_element(widen(one, weights.dtype), ir.IntType(32)(0))
                weight = repeat(builder, one, shape.lanes)
                begin = builder.add(at, builder.mul(tap, step))
                values = [
                    widen(shape.load(builder, src_data, place, src.dtype.bitwidth // 8), src.dtype)
                    for place in places(begin, src_pitch)
                ]
                return [
                    multiply_add(builder, total, weight, value)
                    for total, value in zip(totals, values, strict=True)
                ]

            totals = [ir.Constant(ir.VectorType(number, shape.lanes), None)] * shape.lines
            for tap in range(shape.taps):
                totals = add_tap(totals, taps.type(tap))
            if not shape.taps:
                kept = [cgutils.alloca_once_value(builder, total) for total in totals]
                with cgutils.for_range(builder, taps) as loop:
                    added = add_tap([builder.load(place) for place in kept], loop.index)
                    for place, total in zip(kept, added, strict=True):
                        builder.store(total, place)
                totals = [builder.load(place) for place in kept]
            for total, place in zip(totals, places(to, out_pitch), strict=True):
                result = total
                if sums == "i4":
                    bits = context.cast(builder, arguments[10], kinds[10], nb.int32)
                    result = settle_fixed(builder, total, bits, target)
                shape.store(builder, result, out_data, place, out.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return weigh_block


@functools.cache
def group_copier(width: int) -> Any:
    """`loops.copy_group` for so many numbers."""
    shape = Shape(1, width, spills=True)

    @intrinsic
    def copy_group(context: Any, dst: Any, to: Any, src: Any, at: Any) -> Any:
        """Copy a few neighbours."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds, size = signature.args, src.dtype.bitwidth // 8
            (there, to), (here, at) = (
                (
                    context.make_array(kinds[k])(context, builder, arguments[k]).data,
                    context.cast(builder, arguments[k + 1], kinds[k + 1], nb.int64),
                )
                for k in (0, 2)
            )
            shape.store(builder, shape.load(builder, here, at, size), there, to, size)
            return context.get_dummy_value()

        return nb.void(dst, to, src, at), generate

    return copy_group


@functools.cache
def real_store(code: str) -> Any:
    """A real sum to a storage type."""
    store = storer(code)["store"]

    @compile_inner
    def store_real(total: Any, shift: Any) -> Any:
        return store(total)

    return store_real


@functools.cache
def reader(source: str, sums: str) -> Any:
    """A stored value as what sums are made in."""
    load, kind = loader(source)["load"], nb.from_dtype(np.dtype(sums))

    @compile_inner
    def read_number(value: Any) -> Any:
        return kind(load(value))

    return read_number


@functools.cache
def driver_for(spec: Spec) -> Any:
    """The compiled driver for a spec."""
    names: dict[str, Any] = {
        "unsigned": nb.uint64,
        "ZERO": np.dtype(spec.sums).type(0),
        "LANES": LANES,
        "LINE": LINE,
        "CHUNK": CHUNK,
        "TILE": TILE,
        "turn_tile": turn_tile,
        "PIXEL": spec.pixel,
        **{
            f"weigh_{n}": block_weigher(Shape(1, n), spec.sums, spec.target)
            for n in (LANES, 2 * LANES)
        },
        "ROWS": ROWS,
        "number": reader(spec.source, spec.sums),
        "settle": real_store(spec.target),
    }
    tag = "_".join(map(str, spec[1:])) + "_" + fingerprint()

    def include(*functions: Any, compile_: Any = compile_piece) -> None:
        names.update(lower(functions, names, compile_, tag))

    if spec.driver in ("along_lines", "across_lines"):
        include(loops.weigh_lines, compile_=compile_loop)
    if spec.driver == "across_pixels":
        for name, taps, spills in (
            ("run_2", 2, True), ("run_4", 4, True), ("run_any", 0, True), ("run_exact", 0, False),
        ):  # fmt: skip
            shape = Shape(ROWS, spec.pixel, taps=taps, spills=spills)
            flags = {"weigh_pixels": block_weigher(shape, spec.sums, spec.target)}
            include((name, loops.resize_run, flags), compile_=compile_loop)
    if spec.driver in ("across_lines", "solve_across"):
        include(loops.turn, compile_=compile_inner)
    if spec.driver.startswith("solve"):
        include(loops.eliminate)
    if spec.driver == "solve_across":
        include(loops.solve_lines, compile_=compile_inner)
    if spec.driver == "pick":
        include(
            loops.copy_line,
            *(
                (f"pick_groups_{n}", loops.pick_groups, {"GROUP": n, "copy_group": group_copier(n)})
                for n in (1, 3, 4)
            ),
        )
    include(getattr(loops, spec.driver), compile_=compile_driver)
    return names[spec.driver]
