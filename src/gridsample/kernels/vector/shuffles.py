"""Rearrangements of whole values: lanes side by side, and squares of lanes transposed."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.vector.values import Value


def joined(parts: Sequence[Value]) -> Value:
    """Return the lanes of some values side by side; their number is a power of two."""
    parts = list(parts)
    if parts[0].lanes == 1:
        whole = parts[0].function.undefined(parts[0].kind, len(parts))
        for lane, number in enumerate(parts):
            whole = whole.insert(number, lane)
        return whole
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
