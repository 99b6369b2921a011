"""LLVM's instructions on numbers, as functions of NumPy arrays.

Every value is an array with one entry for each lane.  Integers are signed: whether they count as
such is up to the instruction.  Only what the language writes is known here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

TYPE = r"<\d+ x \w+>|i\d+|half|float|double|ptr"
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
# The byte that fills what is undefined: lanes that were not inserted, memory that was not written.
UNDEFINED = 0xA5


class Type(NamedTuple):
    """An LLVM type: the name of an element, and the number of lanes."""

    element: str
    lanes: int = 1

    @classmethod
    def of(cls, text: str) -> Type:
        """Return the type with a name: "i64", "<8 x float>"."""
        vector = re.fullmatch(r"<(\d+) x (\w+)>", text)
        return cls(vector[2], int(vector[1])) if vector else cls(text)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of an element; that of an integer may have more bits."""
        if self.element == "i1":
            return np.dtype(bool)
        if self.element[0] == "i":
            return np.dtype(f"int{max(8, self.bits)}")
        return np.dtype(FLOATS.get(self.element, np.int64))

    @property
    def bits(self) -> int:
        """The bits of an element."""
        digits = self.element[1:]
        return int(digits) if digits.isdigit() else 8 * self.dtype.itemsize


def constant(text: str, kind: Type) -> Array:
    """Return a constant of LLVM's assembly language as an array."""
    if text == "poison":
        return np.full(kind.lanes * kind.dtype.itemsize, UNDEFINED, np.uint8).view(kind.dtype)
    if text.startswith("splat"):
        number = text.rpartition(" ")[2].rstrip(")")
        return np.repeat(constant(number, Type(kind.element)), kind.lanes)
    if text[0] == "<":
        each = [part.rpartition(" ")[2] for part in text.strip("<>").split(",")]
        return np.concatenate([constant(number, Type(kind.element)) for number in each])
    if kind.element in FLOATS:
        (number,) = struct.unpack(">d", bytes.fromhex(text[2:]))
        return np.array([number], kind.dtype)
    if kind.element == "i1":
        return np.array([text == "true"])
    half = 1 << (kind.bits - 1)
    return np.array([(int(text) + half) % (2 * half) - half], kind.dtype)


# Arithmetic ---------------------------------------------------------------------------------------

Binary = Callable[[Any, Any], Any]


def unsigned(a: Array) -> Array:
    """The same bits as numbers without a sign."""
    return a if a.dtype == bool else a.view(f"u{a.dtype.name}")


def without_sign(function: Binary) -> Binary:
    """Return a function of integers that takes them as numbers without a sign."""

    def apply(a: Array, b: Array) -> Array:
        result: Array = function(unsigned(a), unsigned(b))
        return result if result.dtype == bool else result.view(a.dtype)

    return apply


def quotient(a: Array, b: Array) -> Array:
    """Divide integers and round toward zero."""
    if not b.all():
        raise ZeroDivisionError("division of an integer by zero, at which processors stop")
    result: Array = (a - np.fmod(a, b)) // b
    return result


def remainder(a: Array, b: Array) -> Array:
    """The remainder of `quotient`."""
    result: Array = a - quotient(a, b) * b
    return result


ARITHMETIC: dict[str, Binary] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "frem": np.fmod,
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "sdiv": quotient, "udiv": without_sign(quotient),
    "srem": remainder, "urem": without_sign(remainder),
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "ashr": np.right_shift, "lshr": without_sign(np.right_shift),
}  # fmt: skip
ORDER: dict[str, Binary] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
COMPARISONS: dict[str, Binary] = {
    "oeq": np.equal, "une": np.not_equal, "eq": np.equal, "ne": np.not_equal,
    **{f"o{name}": function for name, function in ORDER.items()},
    **{f"s{name}": function for name, function in ORDER.items()},
    **{f"u{name}": without_sign(function) for name, function in ORDER.items()},
}  # fmt: skip


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c``, rounded once."""
    if a.dtype == np.float64:
        return np.array([fused(*map(float, lane)) for lane in zip(a, b, c, strict=True)])
    # A float64 holds the product, and the sum if it is rounded to odd: up or down, so that the last
    # bit is 1 where the sum is not exact.  Rounding it again then gives the right float32.
    product, summand = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + summand
    part = total - product
    error = (product - (total - part)) + (summand - part)
    even = total.view(np.int64) & 1 == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    inexact = np.isfinite(total) & (error != 0) & even
    return np.where(inexact, np.nextafter(total, toward), total).astype(np.float32)


def fused(a: float, b: float, c: float) -> float:
    """`multiply_add` of Python's floats."""
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b == 0:
        return a * b + c
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return float(exact) or (0.0 if exact > 0 else -0.0)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


# Conversions --------------------------------------------------------------------------------------


def bits_of(a: Array, kind: Type) -> Array:
    """Read the same bits as another type."""
    raw = np.packbits(a, bitorder="little") if a.dtype == bool else a.view(np.uint8)
    if kind.element == "i1":
        return np.unpackbits(raw, count=kind.lanes, bitorder="little").astype(bool)
    if kind.bits < 8:
        return (raw << (8 - kind.bits)).view(np.int8) >> (8 - kind.bits)
    return raw.view(kind.dtype)


def truncated(a: Array, kind: Type) -> Array:
    """Drop the upper bits of integers."""
    return a & 1 != 0 if kind.element == "i1" else a.astype(kind.dtype)


def saturated(a: Array, limits: np.iinfo[Any]) -> Array:
    """Round floats toward zero to integers between limits; NaN becomes 0."""
    low, high = int(limits.min), int(limits.max)
    finite = np.nan_to_num(a.astype(np.float64)).tolist()
    return np.array([min(max(int(x), low), high) for x in finite], limits.dtype)


def signed_limits(kind: Type) -> np.iinfo[Any]:
    """The range of the signed integers of a type."""
    return np.iinfo(kind.dtype)


def unsigned_limits(kind: Type) -> np.iinfo[Any]:
    """The range of the unsigned integers of a type."""
    return np.iinfo(f"u{kind.dtype.name}")


CONVERSIONS: dict[str, Callable[[Array, Type], Array]] = {
    "sext": lambda a, kind: -a.astype(kind.dtype) if a.dtype == bool else a.astype(kind.dtype),
    "zext": lambda a, kind: unsigned(a).astype(kind.dtype),
    "trunc": truncated,
    "fptosi": lambda a, kind: a.astype(kind.dtype),
    "fptoui": lambda a, kind: a.astype(unsigned_limits(kind).dtype).view(kind.dtype),
    "sitofp": lambda a, kind: a.astype(kind.dtype),
    "uitofp": lambda a, kind: unsigned(a).astype(kind.dtype),
    "fpext": lambda a, kind: a.astype(kind.dtype),
    "fptrunc": lambda a, kind: a.astype(kind.dtype),
    "bitcast": bits_of,
}

# LLVM's functions, by the beginning of their names; they take the result's type last.
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "llvm.floor.": lambda a, _: np.floor(a),
    "llvm.rint.": lambda a, _: np.rint(a),
    "llvm.sqrt.": lambda a, _: np.sqrt(a),
    "llvm.fabs.": lambda a, _: np.abs(a),
    "llvm.bswap.": lambda a, _: a.byteswap(),
    "llvm.fptosi.sat.": lambda a, kind: saturated(a, signed_limits(kind)),
    "llvm.fptoui.sat.": lambda a, kind: saturated(a, unsigned_limits(kind)).view(kind.dtype),
    "llvm.x86.avx2.perm": lambda a, places, _: a[places % a.size],
    "llvm.x86.avx512.vpermi2var.": (
        lambda a, places, b, _: np.concatenate([a, b])[places % (2 * a.size)]
    ),
}
