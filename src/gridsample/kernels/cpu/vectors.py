"""LLVM's vectors: operations on a few numbers at once, in registers.

The compiler would find some of these operations itself, but not always, and at a cost: it generates
a loop for each vector length, and a check of lengths before each loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir

from gridsample.kernels.compile.extending import declare
from gridsample.kernels.memory import BFLOAT_NAN, bfloat_bits

# The number of bytes that a store past the caches writes at once.
CACHE_LINE = 64
# A product and a sum may fuse into one rounding.
FUSE = ("contract",)

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
REALS = {ir.FloatType(): 4, ir.DoubleType(): 8}


def bytes_of(number: Any) -> int:
    """Return the size of a number type."""
    return number.width // 8 if isinstance(number, ir.IntType) else REALS[number]


def vector_name(vector: Any) -> str:
    """Return the name of a vector type in LLVM's intrinsics."""
    return f"v{vector.count}{vector.element.intrinsic_name}"


def repeat(builder: Any, value: Any, width: int) -> Any:
    """Return a vector that repeats one number."""
    vector, i32 = ir.VectorType(value.type, width), ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(i32, width), None))


class Bits:
    """32-bit integers, one or a vector, with the operators that formulas need."""

    def __init__(self, builder: Any, value: Any) -> None:
        """Wrap an LLVM value."""
        self.builder, self.value = builder, value

    def _constant(self, number: int) -> Any:
        """Return a constant with as many entries as there are integers."""
        kind = self.value.type
        one = I32(number)
        return repeat(self.builder, one, kind.count) if isinstance(kind, ir.VectorType) else one

    def __add__(self, other: Bits | int) -> Bits:
        value = other.value if isinstance(other, Bits) else self._constant(other)
        return Bits(self.builder, self.builder.add(self.value, value))

    def __rshift__(self, count: int) -> Bits:
        return Bits(self.builder, self.builder.lshr(self.value, self._constant(count)))

    def __and__(self, mask: int) -> Bits:
        return Bits(self.builder, self.builder.and_(self.value, self._constant(mask)))

    def where(self, condition: Any, other: int) -> Bits:
        """Return these integers where a condition holds, and another number elsewhere."""
        value = self.builder.select(condition, self.value, self._constant(other))
        return Bits(self.builder, value)


def round_to_bfloat(builder: Any, numbers: Any) -> Any:
    """Convert a number, or a vector, to bfloat16 bits; NaN stays NaN."""

    def alike(element: Any) -> Any:
        kind = numbers.type
        return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element

    if numbers.type == alike(ir.DoubleType()):
        numbers = builder.fptrunc(numbers, alike(ir.FloatType()))
    bits = bfloat_bits(Bits(builder, builder.bitcast(numbers, alike(I32))))
    rounded = bits.where(builder.fcmp_ordered("==", numbers, numbers), BFLOAT_NAN)
    return builder.trunc(rounded.value, alike(I16))


def shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    """Select numbers from two vectors by their places in both, one after the other."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))


def widen(builder: Any, value: Any, element: Any, signed: bool) -> Any:
    """Convert a vector to a wider integer type, if it does not have that type."""
    wide = ir.VectorType(element, value.type.count)
    if value.type == wide:
        return value
    return (builder.sext if signed else builder.zext)(value, wide)


class Numbers:
    """A vector in the emitted code, with the operators of a number."""

    def __init__(self, builder: Any, value: Any) -> None:
        """Wrap an LLVM value."""
        self.builder, self.value = builder, value

    def like(self, other: Any) -> Any:
        """Return the value of a vector, or a vector that repeats a number."""
        if isinstance(other, Numbers):
            return other.value
        kind = self.value.type
        return ir.Constant(kind, [ir.Constant(kind.element, float(other))] * kind.count)

    def _new(self, what: str, a: Any, b: Any) -> Numbers:
        return Numbers(self.builder, getattr(self.builder, what)(a, b, flags=FUSE))

    def __add__(self, other: Any) -> Numbers:
        return self._new("fadd", self.value, self.like(other))

    def __sub__(self, other: Any) -> Numbers:
        return self._new("fsub", self.value, self.like(other))

    def __rsub__(self, other: Any) -> Numbers:
        return self._new("fsub", self.like(other), self.value)

    def __mul__(self, other: Any) -> Numbers:
        return self._new("fmul", self.value, self.like(other))

    def holds(self, symbol: str, other: Any) -> Any:
        """Return where a comparison holds; it does not hold for NaN."""
        return self.builder.fcmp_ordered(symbol, self.value, self.like(other))

    def kept(self, where: Any) -> Numbers:
        """Return the numbers at some places, and 0 at the others."""
        return Numbers(self.builder, self.builder.select(where, self.value, self.like(0)))

    def least(self, other: Any) -> Numbers:
        """Return the smaller of two numbers; NaN stays NaN."""
        chosen = self.builder.fcmp_ordered("<", self.like(other), self.value)
        return Numbers(self.builder, self.builder.select(chosen, self.like(other), self.value))

    def most(self, other: Any) -> Numbers:
        """Return the greater of two numbers; NaN stays NaN."""
        chosen = self.builder.fcmp_ordered(">", self.like(other), self.value)
        return Numbers(self.builder, self.builder.select(chosen, self.like(other), self.value))

    def called(self, name: str) -> Numbers:
        """Return the result of one of LLVM's intrinsics."""
        kind = self.value.type
        function = ir.FunctionType(kind, [kind])
        name = f"{name}.{vector_name(kind)}"
        return Numbers(
            self.builder,
            self.builder.call(declare(self.builder.module, function, name), [self.value]),
        )

    def truncated(self) -> Any:
        """Convert to 32-bit integers."""
        return self.builder.fptosi(self.value, ir.VectorType(I32, self.value.type.count))


class Block(NamedTuple):
    """The shape of numbers that are processed together: lines of contiguous numbers."""

    lines: int
    width: int
    taps: int = 0  # the number of taps of a sum, if it is known
    # Whether taps are adjacent, and memory past a line, up to a power of two, may be accessed.
    spills: bool = False
    # Whether a line is stored past the caches, because they cannot hold the result anyway.  Then
    # the memory need not be read before it is overwritten.  Such a line starts at a cache line.
    streams: bool = False

    @property
    def lanes(self) -> int:
        """The length of the vector that holds a line."""
        return 1 << (self.width - 1).bit_length()

    def places(self, builder: Any, begin: Any, pitch: Any) -> Iterator[Any]:
        """Yield where each line starts."""
        for _ in range(self.lines):
            yield begin
            begin = builder.add(begin, pitch)

    def load(self, builder: Any, data: Any, begin: Any) -> Any:
        """Load a line."""
        place, kind, size = self._vector(builder, data, begin)
        if self.lanes == self.width or self.spills:
            return builder.load(place, align=size)
        if halves := self._halves(size):
            whole = ir.IntType(8 * halves[0])
            words = ir.Constant(ir.VectorType(whole, 2), None)
            for k, half in enumerate(halves):
                at = self._part(builder, place, halves[0] * k, ir.IntType(8 * half))
                part = builder.zext(builder.load(at, align=size), whole)
                words = builder.insert_element(words, part, I32(k))
            return builder.bitcast(words, kind)
        function = masked("load", builder, kind, kind, place.type, I32, self._mask.type, kind)
        none = ir.Constant(kind, ir.Undefined)
        return builder.call(function, [place, I32(size), self._mask, none])

    def store(self, builder: Any, line: Any, data: Any, begin: Any) -> None:
        """Store a line."""
        place, kind, size = self._vector(builder, data, begin)
        if self.lanes == self.width or self.spills:
            align = min(size * self.lanes, CACHE_LINE) if self.streams else size
            store = builder.store(line, place, align=align)
            if self.streams:
                store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
            return
        if halves := self._halves(size):
            words = builder.bitcast(line, ir.VectorType(ir.IntType(8 * halves[0]), 2))
            for k, half in enumerate(halves):
                word = ir.IntType(8 * half)
                part = builder.trunc(builder.extract_element(words, I32(k)), word)
                builder.store(part, self._part(builder, place, halves[0] * k, word), align=size)
            return
        function = masked(
            "store", builder, kind, ir.VoidType(), kind, place.type, I32, self._mask.type
        )
        builder.call(function, [line, place, I32(size), self._mask])

    def _vector(self, builder: Any, data: Any, begin: Any) -> tuple[Any, Any, int]:
        """Return a pointer to a line's vector, its type, and the bytes of a number."""
        number = data.type.pointee
        kind = ir.VectorType(number, self.lanes)
        place = builder.bitcast(builder.gep(data, [begin]), kind.as_pointer())
        return place, kind, bytes_of(number)

    def _halves(self, size: int) -> tuple[int, int] | None:
        """Return the bytes of two integers that make up a line, or None.

        Processors mask numbers of one or two bytes slowly, or not at all.
        """
        whole = self.width * size
        first = 1 << (whole.bit_length() - 1)
        rest = whole - first
        fits = size < 4 and first <= 8 and rest & (rest - 1) == 0
        return (first, rest) if fits else None

    def _part(self, builder: Any, place: Any, offset: int, word: Any) -> Any:
        """Return a pointer to an integer, ``offset`` bytes from the start of a line."""
        base = builder.bitcast(place, ir.IntType(8).as_pointer())
        return builder.bitcast(builder.gep(base, [I32(offset)]), word.as_pointer())

    @property
    def _mask(self) -> Any:
        """Which numbers of the vector belong to the line."""
        which = [k < self.width for k in range(self.lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), which)


def masked(what: str, builder: Any, vector: Any, result: Any, *kinds: Any) -> Any:
    """Declare LLVM's masked load or store of a vector."""
    name = f"llvm.masked.{what}.{vector_name(vector)}.p0"
    return declare(builder.module, ir.FunctionType(result, kinds), name)
