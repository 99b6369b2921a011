"""Records: the arguments of a program, by name, in memory.

A record is a row of slots.  Its layout follows from the names and kinds of its fields, for
the program that reads it and for Python, which writes it.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.kernels.memory import address_of
from gridsample.kernels.vector.kinds import KINDS, LOADED_KINDS, kind_of

if TYPE_CHECKING:
    from gridsample.kernels.vector.pointers import Pointer

Array = np.ndarray[Any, Any]

SLOT = 8  # bytes


class StoredRecord:
    """A record in memory, or several, one after the other.

    Attributes:
        slots: the slots.
        arrays: what fields point to: arrays and other records.
        address: where the record is in memory.
    """

    def __init__(self, slots: Array, arrays: tuple[Any, ...]) -> None:
        self.slots, self.arrays = slots, arrays
        self.address = address_of(slots)

    @property
    def nbytes(self) -> int:
        """The bytes of the record and of what it points to."""
        size: int = self.slots.nbytes + sum([array.nbytes for array in self.arrays])
        return size


def side_by_side(records: Sequence[StoredRecord]) -> StoredRecord:
    """Return records that follow each other in memory."""
    slots = np.concatenate([record.slots for record in records])
    return StoredRecord(slots, tuple([array for record in records for array in record.arrays]))


class Record:
    """The layout of a record.

    A field is declared by its kind: "int64", "float64", or the kind of the elements that a pointer
    points to, with a star in front: "*float32".  A pair (kind, n) declares a list of n.

    The value of a pointer is a contiguous array, which lives as long as the record, or an address.

    Example:
        >>> from gridsample.kernels.vector.records import Record
        >>> record = Record(source="*float32", count="int64", factor=("float64", 2))
        >>> record.size
        4
        >>> record.pack(source=4096, count=3, factor=[0.5, 2.0]).slots[:2]
        array([4096,    3])
    """

    def __init__(self, **fields: str | tuple[str, int]) -> None:
        self.slots: dict[str, tuple[int, str, int | None]] = {}
        self.size = 0
        for name, declared in fields.items():
            kind, count = declared if isinstance(declared, tuple) else (declared, None)
            is_pointer = kind.startswith("*") and kind[1:] in {**KINDS, **LOADED_KINDS}
            if kind not in ("int64", "float64") and not is_pointer:
                raise TypeError(
                    f"field {name} is {kind!r}; accepted: int64, float64, *float32, ..."
                )
            self.slots[name] = self.size, kind, count
            self.size += 1 if count is None else count
        forms = [form_of(kind) * (count or 1) for _, kind, count in self.slots.values()]
        self.packer = struct.Struct("".join(forms))

    def pack(self, **values: Any) -> StoredRecord:
        """Return a record with these values.

        Raises:
            TypeError: a field is missing, there is no such field, a value is no integer, or an
                array has another dtype than its field.
            ValueError: a list has the wrong length, or an array is not contiguous.
        """
        if values.keys() != self.slots.keys():
            wrong = sorted(values.keys() ^ self.slots.keys())
            raise TypeError(f"the record has the fields {', '.join(self.slots)}; check {wrong}")
        row, arrays = list[Any](), list[Any]()
        for name, (_, kind, count) in self.slots.items():
            entries = [values[name]] if count is None else values[name]
            if count is not None and len(entries) != count:
                raise ValueError(f"{name} has {count} numbers, got {len(entries)}")
            if kind[0] == "*":
                arrays += [
                    entry for entry in entries if isinstance(entry, (np.ndarray, StoredRecord))
                ]
                entries = [address_for(entry, name, kind[1:]) for entry in entries]
            row += entries
        try:
            packed = self.packer.pack(*row)
        except struct.error:
            for name, (slot, kind, count) in self.slots.items():
                for number in row[slot : slot + (count or 1)]:
                    if not fits(number, kind):
                        raise TypeError(f"{name} is {kind}, got {values[name]}") from None
            raise
        return StoredRecord(np.frombuffer(packed, np.int64), tuple(arrays))

    def read(self, memory: Pointer) -> Fields:
        """Return the fields of a record in memory."""
        fields = Fields(self, memory)
        if memory.function.traced:  # a debugger shows all of them, and stops in the line that reads
            for name in self.slots:
                getattr(fields, name)
        return fields


class Fields(SimpleNamespace):
    """What a program reads from a record: for each field, a number, a `Pointer`, or a list of them.

    Instructions read a field where the record was read, but only if the program asks for it: many
    records have fields that only some programs need.
    """

    def __init__(self, record: Record, memory: Pointer) -> None:
        super().__init__(_record=record, _memory=memory, _here=memory.function.reserve())

    def __getattr__(self, name: str) -> Any:
        """Read a field that was not read before."""
        if name not in self._record.slots:
            raise AttributeError(f"the record has no field {name}", name=name, obj=self)
        slot, kind, count = self._record.slots[name]
        with self._here():
            values = [load(self._memory, slot + k, kind) for k in range(count or 1)]
        field = values[0] if count is None else values
        setattr(self, name, field)
        return field


def form_of(kind: str) -> str:
    """Return how `struct` names the number in a slot of a kind."""
    return "d" if kind == "float64" else "q"


def fits(number: Any, kind: str) -> bool:
    """Whether a slot of a kind can have a number."""
    with contextlib.suppress(struct.error):
        return bool(struct.pack(form_of(kind), number))
    return False


@functools.cache
def dtype_of(kind: str) -> np.dtype[Any] | None:
    """Return NumPy's dtype of that name; its name itself takes long to compute."""
    return np.dtype(kind) if kind in np.sctypeDict else None


def address_for(pointer: Any, name: str, kind: str) -> Any:
    """Return the address of an array or a record for a field that points to a kind."""
    if isinstance(pointer, StoredRecord):
        return pointer.address
    if not isinstance(pointer, np.ndarray):
        return pointer
    if pointer.dtype is not dtype_of(kind) and pointer.dtype.name != kind:
        raise TypeError(f"{name} points to {kind}, got an array of {pointer.dtype.name}")
    if not pointer.flags.c_contiguous:
        raise ValueError(f"{name} points to a contiguous array, got strides {pointer.strides}")
    return address_of(pointer)


def load(memory: Pointer, slot: int, kind: str) -> Any:
    """Read one slot."""
    if not kind.startswith("*"):
        return memory.cast(kind).load(slot)
    address = memory.cast("pointer").load(slot)
    return type(memory)(address, kind_of(kind[1:]))
