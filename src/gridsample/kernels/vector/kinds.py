"""Element types of values and of memory, under their NumPy names."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """An element type.

    Attributes:
        name: NumPy's name, or "bfloat16" or "pointer".
        llvm: LLVM's name of the type in registers.
        bits: the size of an element in memory, in bits.
        family: "bool", "signed", "unsigned", "float", "pointer" or "half": a 16-bit float, which
            has no arithmetic, but is loaded, stored, and converted from and to float32.
        packed: whether elements may be anywhere in memory, so that indices count bytes.  Such
            elements are only loaded.
        swapped: whether their bytes are in reverse order; these are only loaded, too.
    """

    name: str
    llvm: str
    bits: int
    family: str
    packed: bool = False
    swapped: bool = False

    @property
    def loaded(self) -> Kind:
        """The kind of a number that is loaded: that without "packed" or "swapped" in its name."""
        return KINDS[self.name.rpartition(" ")[2]] if self.packed or self.swapped else self

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers with arithmetic."""
        return self.family == "float"

    @property
    def is_integer(self) -> bool:
        """Whether values are integers; a bool is not."""
        return self.family in ("signed", "unsigned")

    @property
    def size(self) -> int:
        """The size of an element in memory, in bytes."""
        return self.bits // 8


KINDS = {
    kind.name: kind
    for kind in (
        Kind("bool", "i1", 8, "bool"),
        *(Kind(f"int{bits}", f"i{bits}", bits, "signed") for bits in (8, 16, 32, 64)),
        *(Kind(f"uint{bits}", f"i{bits}", bits, "unsigned") for bits in (8, 16, 32, 64)),
        Kind("float16", "i16", 16, "half"),
        Kind("bfloat16", "i16", 16, "half"),
        Kind("float32", "float", 32, "float"),
        Kind("float64", "double", 64, "float"),
        Kind("pointer", "ptr", 64, "pointer"),
    )
}
LOADED_KINDS = {
    name: kind._replace(name=name, packed="packed" in form, swapped="swapped" in form)
    for form in ("packed", "swapped", "packed swapped")
    for kind in KINDS.values()
    if (name := f"{form} {kind.name}") and kind.bits > 8 and kind.family != "pointer"
}
BOOL, FLOAT32, FLOAT64 = KINDS["bool"], KINDS["float32"], KINDS["float64"]
INT32, INT64, UINT32 = KINDS["int32"], KINDS["int64"], KINDS["uint32"]
POINTER, UINT8 = KINDS["pointer"], KINDS["uint8"]


def kind_of(name: Any) -> Kind:
    """Return the kind of a name, a NumPy dtype or a kind.

    Raises:
        TypeError: there is no such kind.
    """
    if isinstance(name, Kind):
        return name
    key = name if isinstance(name, str) else np.dtype(name).name
    kind = KINDS.get(key) or LOADED_KINDS.get(key)
    if kind is None:
        raise TypeError(f"{name!r} is not a kind; accepted: {', '.join(KINDS)}")
    return kind


def llvm_type(kind: Kind, lanes: int) -> str:
    """Return LLVM's name of the type of a value."""
    return kind.llvm if lanes == 1 else vector_type(kind.llvm, lanes)


@functools.cache
def vector_type(element: str, lanes: int) -> str:
    """Return LLVM's name of the type of a vector; programs name few types, but often."""
    return f"<{lanes} x {element}>"


def intrinsic_suffix(kind: Kind, lanes: int) -> str:
    """Return how the names of LLVM's intrinsic functions spell a type: "v8f32"."""
    element = {"float": "f32", "double": "f64", "ptr": "p0"}.get(kind.llvm, kind.llvm)
    return f"v{lanes}{element}" if lanes > 1 else element


def integer_range(kind: Kind) -> tuple[int, int]:
    """Return the least and the greatest number of an integer kind."""
    if kind.family == "unsigned":
        return 0, (1 << kind.bits) - 1
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
