"""Operations of one instruction, which compile quickly and do not prevent vectorisation."""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels.compile.extending import make_array, pointer
from gridsample.kernels.cpu.vectors import round_to_bfloat

# Numba reads the names and the number of parameters from each function, so these functions cannot
# be made by one factory.


@intrinsic
def where(context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Select one of two numbers without a branch; both are computed."""
    kind = context.unify_types(yes, no)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        test = context.cast(builder, arguments[0], signature.args[0], nb.types.boolean)
        return builder.select(test, arguments[1], arguments[2])

    return kind(condition, kind, kind), generate


def _smaller(symbol: str) -> Any:
    """Make the emitter of the smaller ("<") or greater (">") of two numbers; b if a is NaN."""

    def typed(context: Any, a: Any, b: Any) -> Any:
        kind = context.unify_types(a, b)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(kind, nb.types.Float):
                chosen = builder.fcmp_ordered(symbol, *arguments)
            else:
                chosen = builder.icmp_signed(symbol, *arguments)
            return builder.select(chosen, *arguments)

        return kind(kind, kind), generate

    return typed


def _rounding(name: str) -> Any:
    """Make the emitter of an LLVM rounding intrinsic."""

    def typed(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = builder.module.declare_intrinsic(name, [arguments[0].type])
            return builder.call(function, arguments)

        return value(value), generate

    return typed


@intrinsic
def minimum(context: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two numbers."""
    return _smaller("<")(context, a, b)


@intrinsic
def maximum(context: Any, a: Any, b: Any) -> Any:
    """Return the greater of two numbers."""
    return _smaller(">")(context, a, b)


@intrinsic
def floor(context: Any, value: Any) -> Any:
    """Return the greatest whole number that is not above a value."""
    return _rounding("llvm.floor")(context, value)


@intrinsic
def rint(context: Any, value: Any) -> Any:
    """Return the nearest whole number, ties to even."""
    return _rounding("llvm.rint")(context, value)


@intrinsic
def as_words(context: Any, array: Any) -> Any:
    """View an array of 32-bit integers as 64-bit integers."""
    kind = nb.types.Array(nb.types.int64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = pointer(context, builder, array, arguments[0])
        return make_array(context, builder, kind, builder.ptrtoint(data, ir.IntType(64)))

    return kind(array), generate


@intrinsic
def same(context: Any, value: Any) -> Any:
    """Return a value unchanged."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return value(value), generate


def _pointer(
    context: Any, builder: Any, signature: Any, arguments: Any, array: int, at: int
) -> Any:
    """Return a pointer to an entry of a flat array."""
    data = pointer(context, builder, signature.args[array], arguments[array])
    return builder.gep(data, [context.cast(builder, arguments[at], signature.args[at], nb.uint64)])


@intrinsic
def copy_pair(context: Any, plane: Any, at: Any, pixels: Any, to: Any) -> Any:
    """Copy two contiguous numbers in one load and one store, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_value_type(signature.args[0].dtype)
        size = context.get_abi_sizeof(number)
        source, target = (
            builder.bitcast(
                _pointer(context, builder, signature, arguments, *which),
                ir.VectorType(number, 2).as_pointer(),
            )
            for which in ((0, 1), (2, 3))
        )
        builder.store(builder.load(source, align=size), target, align=size)
        return context.get_dummy_value()

    return nb.void(plane, at, pixels, to), generate


@intrinsic
def word(context: Any, plane: Any, at: Any) -> Any:
    """Return four bytes as a number, lowest byte first, in one load, aligned or not."""
    return nb.uint32(plane, at), _bytes_as_number(nb.uint32)


@intrinsic
def half_word(context: Any, plane: Any, at: Any) -> Any:
    """Return two bytes as a number, lowest byte first, in one load, aligned or not."""
    return nb.uint16(plane, at), _bytes_as_number(nb.uint16)


def _bytes_as_number(kind: Any) -> Any:
    """Make the emitter that loads an integer from an array of bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_value_type(kind)
        place = _pointer(context, builder, signature, arguments, 0, 1)
        return builder.load(builder.bitcast(place, number.as_pointer()), align=1)

    return generate


@intrinsic
def add_pair(context: Any, plane: Any, at: Any, left: Any, right: Any) -> Any:
    """Add to two contiguous numbers in one load and one store, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_value_type(signature.args[0].dtype)
        two = ir.VectorType(number, 2)
        place = builder.bitcast(
            _pointer(context, builder, signature, arguments, 0, 1), two.as_pointer()
        )
        more = ir.Constant(two, ir.Undefined)
        for k in range(2):
            more = builder.insert_element(more, arguments[2 + k], ir.IntType(32)(k))
        size = context.get_abi_sizeof(number)
        builder.store(builder.fadd(builder.load(place, align=size), more), place, align=size)
        return context.get_dummy_value()

    number = plane.dtype
    return nb.void(plane, at, number, number), generate


@intrinsic
def prefetch(context: Any, plane: Any, at: Any) -> Any:
    """Prefetch the memory of an entry, which will soon be read.  Any address is allowed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(
            _pointer(context, builder, signature, arguments, 0, 1), ir.IntType(8).as_pointer()
        )
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        read, keep, data = number(0), number(3), number(1)
        builder.call(ask, [place, read, keep, data])
        return context.get_dummy_value()

    return nb.void(plane, at), generate


@intrinsic
def half_to_number(context: Any, bits: Any) -> Any:
    """Convert the 16 bits of a half-precision number to a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return nb.float32(nb.uint16), generate


@intrinsic
def number_to_half(context: Any, value: Any) -> Any:
    """Return the 16 bits of the nearest half-precision number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return nb.uint16(nb.float32), generate


@intrinsic
def bfloat_to_number(context: Any, bits: Any) -> Any:
    """Convert the 16 bits of a bfloat16, the upper half of single precision, to a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = builder.zext(arguments[0], ir.IntType(32))
        return builder.bitcast(builder.shl(wide, wide.type(16)), ir.FloatType())

    return nb.float32(nb.uint16), generate


@intrinsic
def number_to_bfloat(context: Any, value: Any) -> Any:
    """Return the 16 bits of the nearest bfloat16; NaN stays NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return round_to_bfloat(builder, arguments[0])

    return nb.uint16(nb.float32), generate
