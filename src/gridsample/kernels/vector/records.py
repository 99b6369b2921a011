"""Records: the arguments of a program, by name, in memory.

A record is a row of 8-byte slots.  Its layout follows from the names and kinds of its fields, for
the program that reads it and for Python, which writes it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.kernels.vector.kinds import KINDS, PACKED, kind_of

if TYPE_CHECKING:
    from gridsample.kernels.vector.pointers import Pointer

Array = np.ndarray[Any, Any]


class Record:
    """The layout of a record.

    A field is declared by its kind: "int64", "float64", or the kind of the elements that a pointer
    points to, with a star in front: "*float32".  A pair (kind, n) declares a list of n.

    Example:
        >>> from gridsample.kernels.vector.records import Record
        >>> record = Record(source="*float32", count="int64", factor=("float64", 2))
        >>> record.size
        4
        >>> record.pack(source=4096, count=3, factor=[0.5, 2.0])[:2]
        array([4096,    3])
    """

    def __init__(self, **fields: str | tuple[str, int]) -> None:
        self.slots: dict[str, tuple[int, str, int | None]] = {}
        self.size = 0
        for name, declared in fields.items():
            kind, count = declared if isinstance(declared, tuple) else (declared, None)
            is_pointer = kind.startswith("*") and kind[1:] in {**KINDS, **PACKED}
            if kind not in ("int64", "float64") and not is_pointer:
                raise TypeError(
                    f"field {name} is {kind!r}; accepted: int64, float64, *float32, ..."
                )
            self.slots[name] = self.size, kind, count
            self.size += 1 if count is None else count

    def pack(self, **values: Any) -> Array:
        """Return a record with the given values as an array of its slots.

        Raises:
            TypeError: a field is missing, there is no such field, or a value is no integer.
            ValueError: a list has the wrong length.
        """
        if values.keys() != self.slots.keys():
            wrong = sorted(values.keys() ^ self.slots.keys())
            raise TypeError(f"the record has the fields {', '.join(self.slots)}; check {wrong}")
        row = np.zeros(self.size, np.int64)
        reals = row.view(np.float64)
        for name, value in values.items():
            slot, kind, count = self.slots[name]
            numbers = np.asarray(value)
            if numbers.shape != (() if count is None else (count,)):
                raise ValueError(f"{name} has {count or 1} numbers, got {numbers.size}")
            if kind == "float64":
                reals[slot : slot + numbers.size] = numbers
            elif numbers.dtype.kind in "iub" or not numbers.size:
                row[slot : slot + numbers.size] = numbers
            else:
                raise TypeError(f"{name} is int64, got {value}")
        return row

    def read(self, memory: Pointer) -> SimpleNamespace:
        """Write the instructions that read all fields; a pointer becomes a `Pointer`."""
        fields: dict[str, Any] = {}
        for name, (slot, kind, count) in self.slots.items():
            values = [load(memory, slot + k, kind) for k in range(1 if count is None else count)]
            fields[name] = values[0] if count is None else values
        return SimpleNamespace(**fields)


def load(memory: Pointer, slot: int, kind: str) -> Any:
    """Read one slot."""
    if not kind.startswith("*"):
        return memory.cast(kind).load(slot)
    address = memory.cast("pointer").load(slot)
    return type(memory)(address, kind_of(kind[1:]))
