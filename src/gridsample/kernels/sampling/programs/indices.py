"""The indices of points along the axes of an output, given those in its flattened array."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.vector import Value


def split_index(index: Value, sizes: Sequence[Value]) -> list[Value]:
    """Split the indices of points into those along axes of these sizes, x first."""
    indices = []
    for size in sizes:
        quotient = index // size
        indices.append(index - quotient * size)
        index = quotient
    return indices


def split_neighbours(first: Value, beyond: Value, sizes: Sequence[Value]) -> list[Value]:
    """Split the indices first + beyond likewise, where ``beyond`` is at most the first size."""
    indices = []
    for size in sizes:
        quotient = first // size
        index = beyond + (first - quotient * size)
        wraps = index >= size
        indices.append(wraps.select(index - size, index))
        first, beyond = quotient, wraps.to(index.kind)
    return indices
