"""Lowers the loops of resizing to Numba: one compiled driver for each pair of storage types."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels.cpu.build import (
    compile_driver,
    compile_inline,
    compile_inner,
    compile_piece,
    loader,
    storer,
)
from gridsample.kernels.lower import fingerprint, lower
from gridsample.kernels.resize import loops

# Outer lines put side by side where lines are short; the longest piece of a line that is worked
# on at once, so that a few stay in cache; outputs between two turns; a transposed tile.
LANES, LINE, CHUNK, TILE = 16, 4096, 64, 8


class Spec(NamedTuple):
    """What is compiled into a driver.  Types go by NumPy's codes; "V2" is bfloat16.

    Sums in "i4" are of fixed point; see `gridsample.kernels.resize.Numbers`.
    """

    driver: str
    source: str
    target: str
    sums: str


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


@intrinsic
def weigh_fixed(context: Any, total: Any, weight: Any, value: Any) -> Any:
    """A sum with one more product, in 32 bits: Numba's own integers would grow to 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, *factors = arguments
        wide = [
            context.cast(builder, factor, kind, nb.int32)
            for factor, kind in zip(factors, signature.args[1:], strict=True)
        ]
        return builder.add(total, builder.mul(*wide))

    return nb.int32(nb.int32, weight, value), generate


@intrinsic
def round_off(context: Any, total: Any, shift: Any, low: Any, high: Any) -> Any:
    """A sum in 32 bits without its last ``shift`` bits, rounded and confined."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, shift, low, high = (
            context.cast(builder, argument, kind, nb.int32)
            for argument, kind in zip(arguments, signature.args, strict=True)
        )
        one = total.type(1)
        half = builder.shl(one, builder.sub(shift, one))
        rounded = builder.ashr(builder.add(total, half), shift)
        above = builder.select(builder.icmp_signed("<", rounded, low), low, rounded)
        return builder.select(builder.icmp_signed(">", above, high), high, above)

    return nb.int32(total, shift, low, high), generate


@functools.cache
def fixed_store(code: str) -> Any:
    """A sum of fixed point to an integer type: shifted, rounded and saturated."""
    ends, kind = np.iinfo(code), nb.from_dtype(np.dtype(code))
    low, high = int(ends.min), int(ends.max)
    confine: Any = round_off

    @compile_inner
    def store_fixed(total: Any, shift: Any) -> Any:
        return kind(confine(total, shift, low, high))

    return store_fixed


@compile_inner
def weigh_real(total: Any, weight: Any, value: Any) -> Any:
    """A sum with one more product."""
    return total + weight * value


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
        "weigh": weigh_fixed if spec.sums == "i4" else weigh_real,
        "number": reader(spec.source, spec.sums),
        "settle": fixed_store(spec.target) if spec.sums == "i4" else real_store(spec.target),
    }
    tag = "_".join(spec[1:]) + "_" + fingerprint()

    def include(*functions: Any, compile_: Any = compile_piece) -> None:
        names.update(lower(functions, names, compile_, tag))

    if spec.driver in ("along_lines", "across_lines"):
        include(
            *((f"combine_{n}", loops.combine, {"TAPS": n}) for n in (1, 2, 3, 4, 6, 8, 16)),
            *((f"add_{n}", loops.add, {"TAPS": n}) for n in (1, 4)),
            loops.clear,
            loops.finish,
        )
        include(loops.combine_any, compile_=compile_inline)
    if spec.driver in ("across_lines", "solve_across"):
        include(loops.turn, compile_=compile_inner)
    if spec.driver.startswith("solve"):
        include(loops.eliminate)
    if spec.driver == "solve_across":
        include(loops.solve_lines, compile_=compile_inner)
    if spec.driver == "pick":
        include(
            loops.copy_line,
            *((f"pick_groups_{n}", loops.pick_groups, {"GROUP": n}) for n in (1, 3, 4)),
        )
    include(getattr(loops, spec.driver), compile_=compile_driver)
    return names[spec.driver]
