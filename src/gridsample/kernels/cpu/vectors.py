"""LLVM's vectors: what kernels do to a few numbers at once, in registers.

The compiler would find some of it by itself, but not always, and at a price: with a loop for each
number of neighbours, and a check of lengths before each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir

from gridsample.kernels.compile.extending import declare
from gridsample.kernels.memory import BFLOAT_NAN, bfloat_bits

# Bytes that are stored past the caches together.
CACHE_LINE = 64
# A product and a sum may fuse into one rounding.
FUSE = ("contract",)

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
REALS = {ir.FloatType(): 4, ir.DoubleType(): 8}


def bytes_of(number: Any) -> int:
    """The size of a type of numbers."""
    return number.width // 8 if isinstance(number, ir.IntType) else REALS[number]


def vector_name(vector: Any) -> str:
    """What LLVM calls a vector in its intrinsics' names."""
    return f"v{vector.count}{vector.element.intrinsic_name}"


def repeat(builder: Any, value: Any, width: int) -> Any:
    """A vector of one number again and again."""
    vector, i32 = ir.VectorType(value.type, width), ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(i32, width), None))


class Bits:
    """Integers of 32 bits that a builder computes with, one or a vector: what formulas take."""

    def __init__(self, builder: Any, value: Any) -> None:
        """Those of an LLVM value."""
        self.builder, self.value = builder, value

    def _constant(self, number: int) -> Any:
        """A number, as often as there are integers."""
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
        """These where a condition holds, another number elsewhere."""
        value = self.builder.select(condition, self.value, self._constant(other))
        return Bits(self.builder, value)


def round_to_bfloat(builder: Any, numbers: Any) -> Any:
    """A number, or a vector, as the bits of bfloat16; NaN stays NaN."""

    def alike(element: Any) -> Any:
        kind = numbers.type
        return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element

    if numbers.type == alike(ir.DoubleType()):
        numbers = builder.fptrunc(numbers, alike(ir.FloatType()))
    bits = bfloat_bits(Bits(builder, builder.bitcast(numbers, alike(I32))))
    rounded = bits.where(builder.fcmp_ordered("==", numbers, numbers), BFLOAT_NAN)
    return builder.trunc(rounded.value, alike(I16))


def shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    """The numbers of two vectors that are at some places of both, one after the other."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))


def widen(builder: Any, value: Any, element: Any, signed: bool) -> Any:
    """A vector in a wider type of integers, if it is not of that type."""
    wide = ir.VectorType(element, value.type.count)
    if value.type == wide:
        return value
    return (builder.sext if signed else builder.zext)(value, wide)


class Numbers:
    """A vector in the code that is emitted, with the operators of a number."""

    def __init__(self, builder: Any, value: Any) -> None:
        """``value`` is LLVM's."""
        self.builder, self.value = builder, value

    def like(self, other: Any) -> Any:
        """The value of a vector, or a vector of one number."""
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
        """Where a comparison holds; nowhere for NaN."""
        return self.builder.fcmp_ordered(symbol, self.value, self.like(other))

    def kept(self, where: Any) -> Numbers:
        """The numbers at some places, and 0 at others."""
        return Numbers(self.builder, self.builder.select(where, self.value, self.like(0)))

    def least(self, other: Any) -> Numbers:
        """The smaller of two numbers; NaN stays."""
        chosen = self.builder.fcmp_ordered("<", self.like(other), self.value)
        return Numbers(self.builder, self.builder.select(chosen, self.like(other), self.value))

    def most(self, other: Any) -> Numbers:
        """The greater of two numbers; NaN stays."""
        chosen = self.builder.fcmp_ordered(">", self.like(other), self.value)
        return Numbers(self.builder, self.builder.select(chosen, self.like(other), self.value))

    def called(self, name: str) -> Numbers:
        """The result of one of LLVM's intrinsics."""
        kind = self.value.type
        function = ir.FunctionType(kind, [kind])
        name = f"{name}.{vector_name(kind)}"
        return Numbers(
            self.builder,
            self.builder.call(declare(self.builder.module, function, name), [self.value]),
        )

    def truncated(self) -> Any:
        """As integers of 32 bits."""
        return self.builder.fptosi(self.value, ir.VectorType(I32, self.value.type.count))


class Block(NamedTuple):
    """What is worked on together: so many lines of so many neighbours."""

    lines: int
    width: int
    taps: int = 0  # how many a sum has, if that is known
    # Whether taps are neighbours, and what lies past a line, up to a power of two, may be touched.
    spills: bool = False
    # Whether a line is stored past the caches, which do not hold all of the result anyhow: what is
    # there need not be read before. Such a line begins where a line of the cache does.
    streams: bool = False

    @property
    def lanes(self) -> int:
        """The length of the vector that a line is worked on in."""
        return 1 << (self.width - 1).bit_length()

    def places(self, builder: Any, begin: Any, pitch: Any) -> Iterator[Any]:
        """Where each line begins."""
        for _ in range(self.lines):
            yield begin
            begin = builder.add(begin, pitch)

    def load(self, builder: Any, data: Any, begin: Any) -> Any:
        """A line."""
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
        """A pointer to a line's vector, its type, and the bytes of a number."""
        number = data.type.pointee
        kind = ir.VectorType(number, self.lanes)
        place = builder.bitcast(builder.gep(data, [begin]), kind.as_pointer())
        return place, kind, bytes_of(number)

    def _halves(self, size: int) -> tuple[int, int] | None:
        """The bytes of a line as those of two integers, or None.

        Processors mask numbers of one or two bytes slowly, or not at all.
        """
        whole = self.width * size
        first = 1 << (whole.bit_length() - 1)
        rest = whole - first
        fits = size < 4 and first <= 8 and rest & (rest - 1) == 0
        return (first, rest) if fits else None

    def _part(self, builder: Any, place: Any, offset: int, word: Any) -> Any:
        """A pointer to an integer, so many bytes from where a line begins."""
        base = builder.bitcast(place, ir.IntType(8).as_pointer())
        return builder.bitcast(builder.gep(base, [I32(offset)]), word.as_pointer())

    @property
    def _mask(self) -> Any:
        """Which numbers of the vector belong to the line."""
        which = [k < self.width for k in range(self.lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), which)


def masked(what: str, builder: Any, vector: Any, result: Any, *kinds: Any) -> Any:
    """LLVM's load or store of some numbers of a vector."""
    name = f"llvm.masked.{what}.{vector_name(vector)}.p0"
    return declare(builder.module, ir.FunctionType(result, kinds), name)
