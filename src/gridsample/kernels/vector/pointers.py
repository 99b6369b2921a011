"""Memory: an address and the kind of the elements there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridsample.kernels.vector.compiler import host, llvm_version
from gridsample.kernels.vector.kinds import (
    BOOL,
    INT64,
    POINTER,
    UINT8,
    Kind,
    intrinsic_suffix,
    kind_of,
    llvm_type,
)
from gridsample.kernels.vector.values import Value

if TYPE_CHECKING:
    from gridsample.kernels.vector.function import Function

# Bytes of a store whose parts a processor can read before it has written them to the cache.
FORWARDED = 32
# Bytes to which scratch memory is aligned, and of the widest register.
ALIGNED = 64


def in_memory(kind: Kind) -> Kind:
    """Return the kind that is loaded and stored: a bool is a byte in memory, a bit in registers."""
    return UINT8 if kind is BOOL else kind


class Pointer:
    """An address in memory and the kind of the elements there.

    Indices count elements, or bytes if the kind is packed.  An index is a Python integer or an
    int64 with one lane.  The address may be any.
    """

    __slots__ = ("address", "kind")

    def __init__(self, address: Value, kind: Any) -> None:
        self.address, self.kind = address, kind_of(kind)

    @property
    def function(self) -> Function:
        """The function that uses the memory."""
        return self.address.function

    def at(self, index: Any) -> Pointer:
        """The memory from an element on."""
        return Pointer(self._place(index), self.kind)

    def _place(self, index: Any) -> Value:
        """The address of an element."""
        if not isinstance(index, Value) and index == 0:
            return self.address
        return self._places(self.address.function.as_index(index))

    def _places(self, index: Value) -> Value:
        """The address of an element for each lane of an index."""
        address, step = self.address, UINT8 if self.kind.packed else in_memory(self.kind)
        operands = f"{step.llvm}, {address.operand}, {index.operand}"
        return address.function.emit(
            "getelementptr", POINTER, index.lanes, operands, address, index
        )

    def cast(self, kind: Any) -> Pointer:
        """The same memory as elements of another kind."""
        return Pointer(self.address, kind)

    def load(self, index: Any = 0, lanes: int = 1, aligned: bool = False) -> Value:
        """Read ``lanes`` neighbouring elements; ``aligned`` if they fill an aligned register."""
        stored = in_memory(self.kind).loaded
        place, alignment = self._place(index).operand, self._alignment(lanes, aligned)
        operands = f"{llvm_type(stored, lanes)}, {place}, align {alignment}"
        return self._from_memory(self.function.emit("load", stored, lanes, operands))

    def _alignment(self, lanes: int, aligned: bool) -> int:
        return min(self.kind.size * lanes, ALIGNED) if aligned else 1

    def _from_memory(self, value: Value) -> Value:
        if self.kind is BOOL:
            return value != 0
        if not self.kind.swapped:
            return value
        bits = value.bitcast(f"uint{value.kind.bits}")
        name = f"llvm.bswap.{intrinsic_suffix(bits.kind, bits.lanes)}"
        return self.function.call(name, bits.kind, bits.lanes, bits).bitcast(value.kind)

    def store(
        self, value: Value, index: Any = 0, aligned: bool = False, alone: bool = False
    ) -> None:
        """Write the lanes of a value to neighbouring elements.

        ``alone`` keeps LLVM from joining it with another store.

        Raises:
            TypeError: the value has another kind than the memory.
        """
        if value.kind is not self.kind:
            raise TypeError(f"cannot store {value.kind.name} in memory of {self.kind.name}")
        alignment = self._alignment(value.lanes, aligned)
        value, place = value.to(in_memory(self.kind)), self._place(index)
        store = "store volatile" if alone else "store"
        self.function.lines.append(f"  {store} {value}, {place}, align {alignment}")

    def store_in_parts(self, value: Value, index: int | Value = 0) -> None:
        """Write lanes to aligned elements that will soon be read a few at a time.

        Intel's processors pass numbers on to a read of less than a store wrote before these are in
        the cache, but not those of a store of 64 bytes.
        """
        lanes = min(value.lanes, FORWARDED // self.kind.size)
        for first in range(0, value.lanes, lanes):
            part = value.shuffle(range(first, first + lanes)) if lanes < value.lanes else value
            self.store(part, index + first, aligned=True, alone=lanes < value.lanes)

    def load_each(self, indices: Sequence[Value]) -> Value:
        """Read one element for each lane, at indices with one lane each."""
        if len(indices) == 1:
            return self.load(indices[0])
        result = self.function.undefined(self.kind.loaded, len(indices))
        for lane, index in enumerate(indices):
            result = result.insert(self.load(index), lane)
        return self.function.reread(result) if self.kind.bits < 32 else result

    @property
    def gathers_fast(self) -> bool:
        """Whether `gather` takes less time than a load for each element: `Target.gathers_fast`."""
        return self.kind.bits >= 32 and not self.kind.packed and host().gathers_fast

    def gather(
        self, indices: Value, condition: Value | None = None, word: Kind | None = None
    ) -> Value:
        """Read one element for each lane with the processor's gather instruction, if it has one.

        Args:
            indices: an index for each lane, int32 or int64.
            condition: the lanes to read; the others are 0 and their memory is not touched.
            word: the kind of what is read at the address of each element; None for that element.
        """
        function, lanes = self.function, indices.lanes
        kind = self.kind if word is None else word
        stored = in_memory(kind).loaded
        zero = function.constant(0, stored, lanes)
        if condition is None:
            condition = function.constant(True, BOOL, lanes)
        if lanes == 1:
            return function.choose(
                condition,
                lambda: [self.at(indices).cast(kind).load()],
                lambda: [function.constant(0, kind.loaded)],
            )[0]
        name = f"llvm.masked.gather.{intrinsic_suffix(stored, lanes)}.v{lanes}p0"
        # LLVM 22 made the alignment an attribute of the addresses.
        old, result = llvm_version() < 22, zero.type
        alignment_type = "i32, " if old else ""
        function.declarations[name] = (
            f"declare {result} @{name}(<{lanes} x ptr>, {alignment_type}<{lanes} x i1>, {result})"
        )
        alignment = "i32 1, " if old else ""
        attribute = "" if old else "align 1 "
        operands = (
            f"{result} @{name}(<{lanes} x ptr> {attribute}{self._places(indices).text}, "
            f"{alignment}{condition}, {zero})"
        )
        numbers = function.emit("call", stored, lanes, operands)
        return self._from_memory(numbers) if word is None else numbers

    def fetch_add(self, amount: int, ordered: bool = False) -> Value:
        """Add to an int64 that threads share, as one step; return what it was before.

        ordered: whether what this thread wrote before is then known to threads that add later.
        """
        operands = f"{self.address}, i64 {amount} {'seq_cst' if ordered else 'monotonic'}"
        return self.function.emit("atomicrmw add", INT64, 1, operands)

    def prefetch(self, index: Any = 0, write: bool = False) -> None:
        """Ask for the cache line of an element."""
        function = self.function
        name = "llvm.prefetch.p0"
        function.declarations[name] = f"declare void @{name}(ptr, i32, i32, i32)"
        place = self._place(index)
        function.lines.append(f"  call void @{name}({place}, i32 {int(write)}, i32 3, i32 1)")

    def fill(self, value: Value, count: Any, lanes: int) -> None:
        """Write a number to ``count`` elements, ``lanes`` at a time."""
        function = self.function
        tail = function.as_index(count) // lanes * lanes
        with function.loop(0, tail, lanes) as loop:
            self.store(value.splat(lanes), loop.index)
        with function.loop(tail, count) as loop:
            self.store(value, loop.index)

    def copy(self, source: Pointer, count: Any, lanes: int) -> None:
        """Copy ``count`` elements from other memory, ``lanes`` at a time."""
        function = self.function
        tail = function.as_index(count) // lanes * lanes
        with function.loop(0, tail, lanes) as loop:
            self.store(source.load(loop.index, lanes), loop.index)
        with function.loop(tail, count) as loop:
            self.store(source.load(loop.index), loop.index)
