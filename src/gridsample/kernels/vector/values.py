"""Values: a number for each of some lanes, in registers.

A `Value` stands for the result of one instruction of the `Function` that is being written.  Its
operators append further instructions, so a formula on values is a formula on NumPy arrays: the same
Python function serves both.  NumPy's own functions (``np.floor``, ``np.where``, ...) accept values,
too, because `Value` implements NumPy's protocols for foreign arrays.

A value with one lane is the same for all points; next to a value with more lanes, it is broadcast.
Python numbers become constants of the other operand's kind.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.kernels.vector.conversions import convert, saturate
from gridsample.kernels.vector.kinds import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    Kind,
    intrinsic_suffix,
    kind_of,
    llvm_type,
)

if TYPE_CHECKING:
    from gridsample.kernels.vector.function import Function

# The instructions of arithmetic for (float, signed, unsigned or bool).
ARITHMETIC = {
    "+": ("fadd", "add", "add"),
    "-": ("fsub", "sub", "sub"),
    "*": ("fmul", "mul", "mul"),
    "/": ("fdiv", "sdiv", "udiv"),
    "%": ("frem", "srem", "urem"),
    "&": ("", "and", "and"),
    "|": ("", "or", "or"),
    "^": ("", "xor", "xor"),
    "<<": ("", "shl", "shl"),
    ">>": ("", "ashr", "lshr"),
}
# The conditions of comparisons.  A comparison with NaN is false, but for !=, as in NumPy.
CONDITIONS = {
    "==": ("fcmp oeq", "icmp eq", "icmp eq"),
    "!=": ("fcmp une", "icmp ne", "icmp ne"),
    "<": ("fcmp olt", "icmp slt", "icmp ult"),
    "<=": ("fcmp ole", "icmp sle", "icmp ule"),
    ">": ("fcmp ogt", "icmp sgt", "icmp ugt"),
    ">=": ("fcmp oge", "icmp sge", "icmp uge"),
}
# The integers that change nothing as second operands.
NEUTRAL = {"+": 0, "-": 0, "*": 1, "<<": 0, ">>": 0}
COLUMN = {"float": 0, "signed": 1, "unsigned": 2, "bool": 2, "pointer": 2}


Operator = Callable[["Value", Any], "Value"]


def operators(name: str) -> tuple[Operator, Operator]:
    """Return the methods that apply an operation of `ARITHMETIC`, to a left and a right operand."""

    def apply(self: Value, other: Any) -> Value:
        return self.arithmetic(name, other)

    def apply_reflected(self: Value, other: Any) -> Value:
        return self.arithmetic(name, other, swapped=True)

    return apply, apply_reflected


def comparison(name: str) -> Operator:
    """Return the method that applies a comparison of `CONDITIONS`."""

    def compare(self: Value, other: Any) -> Value:
        return self.compare(name, other)

    return compare


class Value:
    """A number for each of ``lanes`` lanes, in registers.

    Attributes:
        function: the function whose instruction computes it.
        text: its name in LLVM's language, or a constant.
        kind: its element type.
        lanes: how many numbers it holds.
        type: LLVM's name of its type.
        operand: how instructions take it: its type and its name.
        depth: the number of bodies (`Function.bodies`) around its instruction; 0 for a constant.
        uniform: whether they are known to be the same.
        is_constant: whether they are known while the program is written.
    """

    __slots__ = (
        "depth",
        "function",
        "is_constant",
        "kind",
        "lanes",
        "operand",
        "text",
        "type",
        "uniform",
        "unpacked_from",
    )
    __hash__ = object.__hash__

    def __init__(
        self,
        function: Function,
        text: str,
        kind: Kind,
        lanes: int,
        *,
        uniform: bool = False,
        is_constant: bool = False,
        depth: int = 0,
    ) -> None:
        self.function, self.text, self.kind, self.lanes = function, text, kind, lanes
        self.type = llvm_type(kind, lanes)
        self.operand, self.depth = f"{self.type} {text}", depth
        self.uniform = uniform or lanes == 1
        self.is_constant = is_constant
        # The integer whose bits these conditions are, and the block where it was unpacked; None if
        # they are not unpacked anew; see `unpack`.
        self.unpacked_from: tuple[Value, str] | None = None

    def __str__(self) -> str:
        return self.operand

    def __repr__(self) -> str:
        return f"Value({self})"

    def __bool__(self) -> bool:
        raise TypeError(
            "a value is not known while a program is written; use np.where, Function.choose or "
            "Function.when in place of an if"
        )

    def like(self, number: Any) -> Value:
        """Return a number as a constant of this value's kind and lanes."""
        return self.function.constant(number, self.kind, self.lanes)

    # Arithmetic -----------------------------------------------------------------------------------

    def arithmetic(self, name: str, other: Any, swapped: bool = False) -> Value:
        """Write an instruction of `ARITHMETIC`; ``swapped`` if this is the second operand."""
        function, kind = self.function, self.kind
        if type(other) is int and kind.is_integer and NEUTRAL.get(name) == other and not swapped:
            return self
        a, b = function.alike(self, other)
        if swapped:
            a, b = b, a
        instruction = ARITHMETIC[name][COLUMN[kind.family]]
        if not instruction:
            raise TypeError(f"{name} is for integers and bools, got {kind.name}")
        if kind.family == "float" and function.contracts:
            instruction += " contract"
        result = function.emit(instruction, kind, a.lanes, f"{a.operand}, {b.text}", a, b)
        result.uniform = a.uniform and b.uniform
        return result

    def compare(self, name: str, other: Any) -> Value:
        """Write a comparison of `CONDITIONS`."""
        a, b = self.function.alike(self, other)
        return self.function.emit(
            CONDITIONS[name][COLUMN[a.kind.family]], BOOL, a.lanes, f"{a.operand}, {b.text}", a, b
        )

    __add__, __radd__ = operators("+")
    __sub__, __rsub__ = operators("-")
    __mul__, __rmul__ = operators("*")
    __and__, __rand__ = operators("&")
    __or__, __ror__ = operators("|")
    __xor__, __rxor__ = operators("^")
    __lshift__, __rlshift__ = operators("<<")
    __rshift__, __rrshift__ = operators(">>")

    def __truediv__(self, other: Any) -> Value:
        if not self.kind.is_float:
            raise TypeError(f"/ is for floats, got {self.kind.name}; divide integers with //")
        return self.arithmetic("/", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.like(other) / self

    def __floordiv__(self, other: Any) -> Value:
        """Divide integers, which must not be negative, and round down.

        Processors have no such instruction for vectors of integers.  The quotient is therefore
        computed in float64, which is exact for integers below 2**53.  Those of 32 bits or less are
        multiplied by the reciprocal, with one division if lanes share the divisor: (n + 1/2) / d is
        at least 1 / (2 d) away from any integer, which rounding does not reach.
        """
        if not self.kind.is_integer:
            raise TypeError(f"// is for integers, got {self.kind.name}")
        divisor = other if isinstance(other, Value) else self.function.constant(other, self.kind)
        if self.kind is not divisor.kind or self.lanes == divisor.lanes == 1:
            return self.arithmetic("/", divisor)
        a, b = self.to(FLOAT64), divisor.to(FLOAT64)
        quotient = a / b if self.kind.bits > 32 else (a + 0.5) * (1.0 / b)
        return quotient.floor().to(self.kind)

    def __rfloordiv__(self, other: Any) -> Value:
        return self.like(other) // self

    def __mod__(self, other: Any) -> Value:
        """Return the remainder; operands must not be negative, see `__floordiv__`."""
        a, b = self.function.alike(self, other)
        if a.lanes == 1 or not a.kind.is_integer:
            return a.arithmetic("%", b)
        return a - (a // b) * b

    def __rmod__(self, other: Any) -> Value:
        return self.like(other) % self

    def __neg__(self) -> Value:
        if self.kind.is_float:
            return self.function.emit("fneg", self.kind, self.lanes, self.operand, self)
        return 0 - self

    def __invert__(self) -> Value:
        return self.arithmetic("^", True if self.kind is BOOL else -1)

    __eq__ = comparison("==")  # type: ignore[assignment]
    __ne__ = comparison("!=")  # type: ignore[assignment]
    __lt__, __le__ = comparison("<"), comparison("<=")
    __gt__, __ge__ = comparison(">"), comparison(">=")

    # Functions ------------------------------------------------------------------------------------

    def intrinsic(self, name: str, *others: Value) -> Value:
        """Call a function of LLVM's that exists for every float type and number of lanes."""
        if not self.kind.is_float:
            raise TypeError(f"{name} is for float32 and float64, got {self.kind.name}")
        suffix = intrinsic_suffix(self.kind, self.lanes)
        return self.function.call(f"llvm.{name}.{suffix}", self.kind, self.lanes, self, *others)

    def floor(self) -> Value:
        """Round down."""
        return self.intrinsic("floor")

    def rint(self) -> Value:
        """Round to the nearest integer, ties to even."""
        return self.intrinsic("rint")

    def sqrt(self) -> Value:
        """The square root."""
        return self.intrinsic("sqrt")

    def abs(self) -> Value:
        """The absolute value."""
        return self.intrinsic("fabs") if self.kind.is_float else (self < 0).select(-self, self)

    __abs__ = abs

    def mul_add(self, factor: Any, summand: Any) -> Value:
        """``self * factor + summand``, rounded once if the processor has an instruction for it.

        In a sum of several products, LLVM may choose which one it fuses, and another one in another
        place of a program.  Sums that must have the same bits everywhere are written with this.
        """
        a, b = self.function.alike(self, factor)
        a, c = self.function.alike(a, summand)
        a, b = self.function.alike(a, b)
        return a.intrinsic("fmuladd", b, c)

    def minimum(self, limit: Any) -> Value:
        """The smaller number; NaN if either is NaN.

        A limit that is the same for all lanes must not be NaN.
        """
        return self._bound(limit, ">")

    def maximum(self, limit: Any) -> Value:
        """The larger number; NaN if either is NaN; see `minimum`."""
        return self._bound(limit, "<")

    def _bound(self, limit: Any, exceeds: str) -> Value:
        a, b = self.function.alike(self, limit)
        bounded = a.compare(exceeds, b).select(b, a)  # one instruction, which keeps a NaN of a
        if not a.kind.is_float or not isinstance(limit, Value) or (limit.uniform and a.lanes > 1):
            return bounded
        return (b == b).select(bounded, b)

    def select(self, a: Any, b: Any) -> Value:
        """Choose ``a`` where this condition holds, otherwise ``b``."""
        function = self.function
        if not isinstance(a, Value) and not isinstance(b, Value):
            a = function.constant(a, function.kind_of_numbers(a, b), self.lanes)
        if not isinstance(a, Value):
            a = function.constant(a, b.kind, b.lanes)
        a, b = function.alike(a, b)
        lanes = max(self.lanes, a.lanes)
        condition, a, b = self.conditions_here().splat(lanes), a.splat(lanes), b.splat(lanes)
        operands = f"{condition.operand}, {a.operand}, {b.operand}"
        return function.emit("select", a.kind, lanes, operands, condition, a, b)

    # Conversion -----------------------------------------------------------------------------------

    def to(self, kind: Any) -> Value:
        """Convert to another kind, as C does.

        A float that becomes an integer is truncated, and must fit.  Integers wrap around.  Floats
        round to nearest, ties to even; all kinds become 16-bit floats by way of float32.
        """
        kind = kind_of(kind)
        if kind is self.kind:
            return self
        return convert(self, kind)

    def saturate(self, kind: Any) -> Value:
        """Round to the nearest number (ties to even) that a kind holds; NaN becomes 0 or False."""
        return saturate(self, kind_of(kind))

    def round_to(self, kind: Any) -> Value:
        """Convert results to the kind that is stored: floats to integers as `saturate` does."""
        kind = kind_of(kind)
        rounds = self.kind.is_float and (kind.is_integer or kind is BOOL)
        return self.saturate(kind) if rounds else self.to(kind)

    def bitcast(self, kind: Any, lanes: int | None = None) -> Value:
        """Read the same bits as another kind, with as many lanes as fill them."""
        kind = kind_of(kind)
        bits = self.lanes * (1 if self.kind is BOOL else self.kind.bits)
        width = 1 if kind is BOOL else kind.bits
        lanes = lanes or bits // width
        if lanes * width != bits:
            raise ValueError(f"{lanes} lanes of {kind.name} do not have {bits} bits")
        to = llvm_type(kind, lanes)
        if to == self.type:
            constant, depth = self.is_constant, self.depth
            return Value(self.function, self.text, kind, lanes, is_constant=constant, depth=depth)
        return self.function.emit("bitcast", kind, lanes, f"{self} to {to}", self)

    def unpack(self, anew: bool) -> Value:
        """Return the bits of an integer as the conditions of its lanes.

        ``anew`` unpacks them again in each block of the program that selects by them: without
        registers for masks, a processor keeps conditions between blocks as bytes, and takes longer
        to widen these than to unpack bits.
        """
        conditions = self.bitcast(BOOL, self.kind.bits)
        if anew:
            conditions.unpacked_from = self, self.function.block
        return conditions

    def conditions_here(self) -> Value:
        """Return these conditions, unpacked again if they were in another block; see `unpack`."""
        if self.unpacked_from is None or self.unpacked_from[1] == self.function.block:
            return self
        return self.unpacked_from[0].unpack(anew=True)

    # Lanes ----------------------------------------------------------------------------------------

    def splat(self, lanes: int) -> Value:
        """The same number in each of ``lanes`` lanes."""
        if lanes == self.lanes:
            return self
        if self.lanes != 1:
            raise ValueError(f"cannot broadcast {self.lanes} lanes to {lanes}")
        first = self.function.undefined(self.kind, lanes).insert(self, 0)
        result = first.shuffle([0] * lanes)
        result.uniform = True
        return result

    def shuffle(self, picked: Sequence[int | None], other: Value | None = None) -> Value:
        """Pick lanes: of this value, then (from index ``lanes`` on) of ``other``; None is any."""
        if len(picked) == 1:
            lane = picked[0] or 0
            source = self if other is None or lane < self.lanes else other
            return source[lane % self.lanes]
        if self.lanes == 1 and other is None:
            return self.splat(len(picked))
        if self.lanes == 1:
            both = self.function.undefined(self.kind, 2).insert(self, 0).insert(other, 1)
            return both.shuffle(picked)
        second = f"{self.type} poison" if other is None else other.operand
        operands = f"{self.operand}, {second}, {mask(tuple(picked))}"
        values = (self,) if other is None else (self, other)
        return self.function.emit("shufflevector", self.kind, len(picked), operands, *values)

    def freeze(self) -> Value:
        """The same numbers, with some fixed number in each lane that may be any."""
        return self.function.emit("freeze", self.kind, self.lanes, self.operand, self)

    def __getitem__(self, lane: int) -> Value:
        """The number in one lane."""
        if self.lanes == 1:
            return self
        return self.function.emit("extractelement", self.kind, 1, f"{self}, i32 {lane}", self)

    def insert(self, number: Any, lane: int) -> Value:
        """A copy with another number in one lane."""
        entry: Value = (
            number if isinstance(number, Value) else self.function.constant(number, self.kind)
        )
        if self.lanes == 1:
            return entry
        return self.function.emit(
            "insertelement", self.kind, self.lanes, f"{self}, {entry}, i32 {lane}", self, entry
        )

    def any(self) -> Value:
        """Whether a condition holds in any lane."""
        return self if self.lanes == 1 else self.compare_mask("ne", 0)

    def all(self) -> Value:
        """Whether a condition holds in all lanes."""
        return self if self.lanes == 1 else self.compare_mask("eq", -1)

    def compare_mask(self, comparison: str, number: int) -> Value:
        """Compare the integer whose bits are the conditions of all lanes with a number."""
        packed = self if self.unpacked_from is None else self.unpacked_from[0]
        bits = self.function.emit("bitcast", INT32, 1, f"{packed} to i{self.lanes}", packed)
        return self.function.emit(
            f"icmp {comparison}", BOOL, 1, f"i{self.lanes} {bits.text}, {number}", bits
        )

    def reduce(self, combine: Callable[[Value, Value], Value]) -> Value:
        """Combine all lanes, a power of two, as a tree of pairs."""
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"reduce combines 1, 2, 4, 8, ... lanes, got {self.lanes}")
        total = self
        while total.lanes > 1:
            half = total.lanes // 2
            total = combine(total.shuffle(range(half)), total.shuffle(range(half, total.lanes)))
        return total

    def sum(self) -> Value:
        """The sum of all lanes, a power of two, as a tree of pairwise sums."""
        return self.reduce(operator.add)

    # NumPy's protocols for foreign arrays ---------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        operation = UFUNCS.get(ufunc)
        if operation is None or method != "__call__" or options:
            return NotImplemented
        if not isinstance(inputs[0], Value):
            # A number as the second operand is known to be one: `minimum` is shorter then.
            swaps = ufunc in (np.minimum, np.maximum)
            inputs = inputs[::-1] if swaps else (self.like(inputs[0]), *inputs[1:])
        return operation(*inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        if function is not np.where or options:
            return NotImplemented
        condition, a, b = inputs
        if not isinstance(condition, Value):
            return a if condition else b
        return condition.select(a, b)


UFUNCS: dict[Any, Callable[..., Any]] = {
    np.floor: Value.floor,
    np.rint: Value.rint,
    np.sqrt: Value.sqrt,
    np.absolute: Value.abs,
    np.minimum: Value.minimum,
    np.maximum: Value.maximum,
    np.remainder: operator.mod,
    np.floor_divide: operator.floordiv,
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.negative: operator.neg,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.logical_and: operator.and_,
    np.logical_or: operator.or_,
    np.logical_not: operator.invert,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.invert: operator.invert,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
}


@functools.lru_cache(maxsize=1024)
def mask(picked: tuple[int | None, ...]) -> str:
    """Return the lanes that a shuffle picks as an operand; None is any."""
    lanes = ", ".join(["i32 poison" if lane is None else f"i32 {lane}" for lane in picked])
    return f"<{len(picked)} x i32> <{lanes}>"


def constant_text(number: Any, kind: Kind) -> str:
    """Return a number as a constant of LLVM's language; floats as the bits of a double.

    Raises:
        TypeError: it is not a number, or has a fraction and the kind is an integer.
        OverflowError: it has more bits than the kind.
    """
    if isinstance(number, np.ndarray) and number.ndim == 0:
        number = number[()]
    if not isinstance(number, (Real, np.bool_)):
        raise TypeError(f"expected a value or a number, got {number!r}")
    if kind is BOOL:
        return "true" if number else "false"
    if not kind.is_float:
        integer = int(number)  # type: ignore[arg-type]
        if integer != number:
            raise TypeError(f"{number} is not {kind.name}; convert the other operand with .to")
        if not -(1 << (kind.bits - 1)) <= integer < 1 << kind.bits:  # -1 is a mask of all bits
            raise OverflowError(f"{number} does not fit {kind.name}")
        return str(integer)
    if kind is FLOAT32:
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    bits: int = struct.unpack(">Q", struct.pack(">d", number))[0]
    return f"0x{bits:016X}"
