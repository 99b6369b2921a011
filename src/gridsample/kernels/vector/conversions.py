"""Conversions between kinds: those of C, 16-bit floats, and rounding that saturates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsample.kernels.vector.kinds import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    UINT32,
    Kind,
    integer_range,
    intrinsic_suffix,
    llvm_type,
)

if TYPE_CHECKING:
    from gridsample.kernels.vector.values import Value


def convert(value: Value, kind: Kind) -> Value:
    """Convert a value to another kind; see `Value.to`."""
    if value.kind.family == "half":
        return widen(value).to(kind)
    if kind.family == "half":
        return narrow(value.to(FLOAT32), kind)
    if value.kind.llvm == kind.llvm:
        return value.bitcast(kind)
    if kind is BOOL:
        return value != 0
    to = llvm_type(kind, value.lanes)
    name = cast(value.kind, kind)
    return value.function.emit(name, kind, value.lanes, f"{value} to {to}", value)


def cast(source: Kind, to: Kind) -> str:
    """Return the instruction that converts one kind to another."""
    if source.is_float and to.is_float:
        return "fpext" if source is FLOAT32 else "fptrunc"
    if source.is_float:
        return "fptosi" if to.family == "signed" else "fptoui"
    if to.is_float:
        return "sitofp" if source.family == "signed" else "uitofp"
    if source.family == "pointer" or to.family == "pointer":
        return "inttoptr" if to.family == "pointer" else "ptrtoint"
    if source is not BOOL and to.bits < source.bits:
        return "trunc"
    return "sext" if source.family == "signed" else "zext"


# 16-bit floats ------------------------------------------------------------------------------------


def half_type(lanes: int) -> str:
    """Return LLVM's own name of float16."""
    return "half" if lanes == 1 else f"<{lanes} x half>"


def widen(value: Value) -> Value:
    """Convert float16 or bfloat16 to float32."""
    function, lanes = value.function, value.lanes
    if value.kind.name == "bfloat16":
        return (value.bitcast("uint16").to(UINT32) << 16).bitcast(FLOAT32)
    if function.half_conversions:
        half = half_type(lanes)
        bits = function.emit("bitcast", value.kind, lanes, f"{value} to {half}", value)
        to = llvm_type(FLOAT32, lanes)
        return function.emit("fpext", FLOAT32, lanes, f"{half} {bits.text} to {to}", bits)
    bits = value.bitcast("uint16").to(UINT32)
    sign, magnitude, exponent = (bits & 0x8000) << 16, bits & 0x7FFF, bits & 0x7C00
    # Just above 0.5, float32 is spaced like subnormal float16 numbers.  No intermediate value may
    # be a subnormal float32: threads that flush those, such as XLA's, would make it 0.
    small = ((magnitude | 0x3F000000).bitcast(FLOAT32) - 0.5).bitcast(UINT32)
    number = (magnitude << 13) + (112 << 23)
    number = (exponent == 0).select(small, number)
    special = (magnitude << 13) | 0x7F800000  # infinity or NaN
    number = (exponent == 0x7C00).select(special, number)
    return (number | sign).bitcast(FLOAT32)


def narrow(value: Value, kind: Kind) -> Value:
    """Convert float32 to float16 or bfloat16, ties to even."""
    function, lanes = value.function, value.lanes
    if kind.name == "float16" and function.half_conversions:
        half = half_type(lanes)
        number = function.emit("fptrunc", kind, lanes, f"{value} to {half}", value)
        to = llvm_type(kind, lanes)
        return function.emit("bitcast", kind, lanes, f"{half} {number.text} to {to}", number)
    bits = value.bitcast(UINT32)
    if kind.name == "bfloat16":
        rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
        narrowed = (value == value).select(rounded, 0x7FC0)
    else:
        sign, magnitude = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
        size = magnitude.bitcast(FLOAT32)
        # Below 2**-14, adding a half aligns the number with the step of subnormal numbers.
        small = (size + 0.5).bitcast(UINT32) - 0x3F000000
        normal = (magnitude - (112 << 23) + ((magnitude >> 13) & 1) + 0xFFF) >> 13
        number = (size < 2.0**-14).select(small, normal)
        number = (size >= 65520.0).select(0x7C00, number)
        narrowed = (value == value).select(number, 0x7E00) | sign
    return narrowed.to("uint16").bitcast(kind)


# Rounding -----------------------------------------------------------------------------------------


def saturate(value: Value, kind: Kind) -> Value:
    """Round to the nearest number that a kind holds; see `Value.saturate`."""
    if not value.kind.is_float or not (kind.is_integer or kind is BOOL):
        raise TypeError(f"saturate turns floats into integers, not {value.kind.name}")
    if kind.is_integer and kind.bits <= 16:
        return saturate_short(value, kind)
    rounded = value.rint()
    if kind is BOOL:
        return rounded > 0
    if kind.bits < value.kind.bits - 1:
        # The limits are exact, so clamping first is enough.
        low, high = integer_range(kind)
        rounded = (rounded > low).select(rounded, low)  # also where it is NaN
        rounded = (rounded < high).select(rounded, high)
        rounded = (value == value).select(rounded, 0.0)
        return rounded.to(INT64 if kind.bits == 32 else INT32).to(kind)
    sign = "s" if kind.family == "signed" else "u"
    to, source = (intrinsic_suffix(k, value.lanes) for k in (kind, value.kind))
    return value.function.call(f"llvm.fpto{sign}i.sat.{to}.{source}", kind, value.lanes, rounded)


def saturate_short(value: Value, kind: Kind) -> Value:
    """Saturate to at most 16 bits: a number of that size rounds by adding a large one."""
    low, high = integer_range(kind)
    number = value if low == 0 else (value == value).select(value, 0.0)
    number = (number > low).select(number, low)  # also where it is NaN
    number = (number < high).select(number, high)
    digits, bits = (23, INT32) if value.kind is FLOAT32 else (52, INT64)
    return (number + 1.5 * 2.0**digits).bitcast(bits).to(kind)
