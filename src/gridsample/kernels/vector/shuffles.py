"""Rearrangements of whole values: lanes side by side, and squares of lanes transposed."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.vector.compiler import host
from gridsample.kernels.vector.kinds import Kind, kind_of
from gridsample.kernels.vector.values import Value


def joined(parts: Sequence[Value]) -> Value:
    """Return the lanes of some values side by side; their number is a power of two."""
    parts = list(parts)
    if parts[0].lanes == 1:
        result = parts[0].function.undefined(parts[0].kind, len(parts))
        for lane, number in enumerate(parts):
            result = result.insert(number, lane)
        return result
    while len(parts) > 1:
        lanes = range(2 * parts[0].lanes)
        parts = [a.shuffle(lanes, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def transpose(rows: Sequence[Value]) -> list[Value]:
    """Transpose n values, of n lanes or of several blocks of n lanes, each block by itself.

    Lane j of value i and lane i of value j are exchanged, one bit of i and j after the other.
    """
    rows, lanes, bit = list(rows), rows[0].lanes, 1
    while bit < len(rows):
        # Lane l of the second operand is called l + lanes.
        low = [lane if not lane & bit else lane - bit + lanes for lane in range(lanes)]
        high = [lane + bit if not lane & bit else lane + lanes for lane in range(lanes)]
        for i in range(len(rows)):
            if not i & bit:
                a, b = rows[i], rows[i + bit]
                rows[i], rows[i + bit] = a.shuffle(low, b), a.shuffle(high, b)
        bit *= 2
    return rows


# Instructions that pick lanes by index: of two registers of 512 bits, or of one of 256 bits.
PICK_OF_TWO = {"float32": "ps", "int32": "d", "float64": "pd", "int64": "q", "int16": "hi"}
PICK_OF_SINGLE = {"float32": "permps", "int32": "permd"}


def picks(kind: Kind) -> bool:
    """Whether this processor picks lanes of a kind by index; see `pick`."""
    return kind.name in {512: PICK_OF_TWO, 256: PICK_OF_SINGLE}.get(host().bits, {})


def index_kind(kind: Kind) -> Kind:
    """Return the kind of the indices with which lanes of a kind are picked."""
    return kind_of(f"int{kind.bits}")


def pick(registers: Sequence[Value], indices: Value) -> Value:
    """Return ``joined(registers)[indices]``, with indices that are known only at run time.

    Each value fills a register, and `picks` must hold for its kind.  The result is any number where
    an index is not in range.
    """
    first = registers[0]
    function, kind, lanes = first.function, first.kind, first.lanes
    parts = []
    if host().bits == 512:
        name = f"llvm.x86.avx512.vpermi2var.{PICK_OF_TWO[kind.name]}.512"
        for k in range(0, len(registers), 2):
            pair = registers[k], registers[min(k + 1, len(registers) - 1)]
            parts.append(function.call(name, kind, lanes, pair[0], indices, pair[1]))
        lanes *= 2
    else:
        name = f"llvm.x86.avx2.{PICK_OF_SINGLE[kind.name]}"
        parts = [function.call(name, kind, lanes, register, indices) for register in registers]
    result = parts[0]
    for k, part in enumerate(parts[1:], start=1):
        result = (indices >= k * lanes).select(part, result)
    return result
