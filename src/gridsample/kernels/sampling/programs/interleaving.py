"""Registers whose lanes are points, of numbers that lie in memory as x, y, z, x, y, z, ..."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.vector import Value


def deinterleave(mixed: Sequence[Value]) -> list[Value]:
    """Split vectors that hold x, y, z, x, y, z, ... into one vector for each: as many as given."""
    count, lanes = len(mixed), mixed[0].lanes
    if count == 1:
        return [*mixed]
    if count % 2 == 0:
        lines: list[list[Value]] = []
        for first in (0, 1):
            picked = range(first, 2 * lanes, 2)
            halves = [a.shuffle(picked, b) for a, b in zip(mixed[::2], mixed[1::2], strict=True)]
            lines.append(deinterleave(halves))
        return [line for pair in zip(*lines, strict=True) for line in pair]
    return [
        gathered(mixed, [line + count * lane for lane in range(lanes)]) for line in range(count)
    ]


def interleave(lines: Sequence[Value]) -> list[Value]:
    """Mix vectors: the first lane of each, then the second of each, ...; as many as given."""
    count, lanes = len(lines), lines[0].lanes
    if count == 1:
        return [*lines]
    if count % 2 == 0:
        mixed = list[Value]()
        pairs = [k // 2 + lanes * (k % 2) for k in range(2 * lanes)]
        for even, odd in zip(interleave(lines[::2]), interleave(lines[1::2]), strict=True):
            mixed += [even.shuffle(pairs[:lanes], odd), even.shuffle(pairs[lanes:], odd)]
        return mixed
    return [
        gathered(lines, [k % count * lanes + k // count for k in range(first, first + lanes)])
        for first in range(0, count * lanes, lanes)
    ]


def gathered(vectors: Sequence[Value], places: Sequence[int]) -> Value:
    """Return the lanes at some places of all vectors, counted from the first lane of the first."""
    lanes = vectors[0].lanes
    result = vectors[0].shuffle([p if p < 2 * lanes else 0 for p in places], vectors[1])
    for k, vector in enumerate(vectors[2:], start=2):
        here = range(k * lanes, (k + 1) * lanes)
        picked = [lanes + p - here.start if p in here else j for j, p in enumerate(places)]
        result = result.shuffle(picked, vector)
    return result


def sum_neighbours(registers: Sequence[Value]) -> Value:
    """Sum every L neighbouring lanes of L registers, where L is a power of two."""
    lanes = registers[0].lanes
    while len(registers) > 1:
        registers = [
            p.shuffle(range(0, 2 * lanes, 2), q) + p.shuffle(range(1, 2 * lanes, 2), q)
            for p, q in zip(registers[::2], registers[1::2], strict=True)
        ]
    return registers[0]
