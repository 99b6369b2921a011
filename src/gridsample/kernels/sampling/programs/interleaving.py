"""Registers whose lanes are points, of numbers that lie in memory as x, y, z, x, y, z, ..."""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.vector import Value


def deinterleave(mixed: Sequence[Value]) -> list[Value]:
    """Split vectors that hold x, y, z, x, y, z, ... into one vector per axis."""
    rank, lanes = len(mixed), mixed[0].lanes
    if rank == 1:
        return [*mixed]
    lines = []
    for a in range(rank):
        places = [a + rank * lane for lane in range(lanes)]
        line = mixed[0].shuffle([p if p < 2 * lanes else 0 for p in places], mixed[1])
        if rank == 3:
            picked = [k if p < 2 * lanes else p - lanes for k, p in enumerate(places)]
            line = line.shuffle(picked, mixed[2])
        lines.append(line)
    return lines


def interleave(lines: Sequence[Value]) -> list[Value]:
    """Mix vectors, 3 or a power of two of them: the first lane of each, the second of each, ..."""
    count, lanes = len(lines), lines[0].lanes
    if count == 1:
        return [*lines]
    mixed = []
    if count == 3:
        for part in range(3):
            places = [divmod(part * lanes + k, 3) for k in range(lanes)]  # (lane, vector)
            line = lines[0].shuffle([n + lanes * (a == 1) for n, a in places], lines[1])
            picked = [k if a < 2 else lanes + n for k, (n, a) in enumerate(places)]
            mixed.append(line.shuffle(picked, lines[2]))
        return mixed
    pairs = [k // 2 + lanes * (k % 2) for k in range(2 * lanes)]
    for even, odd in zip(interleave(lines[::2]), interleave(lines[1::2]), strict=True):
        mixed += [even.shuffle(pairs[:lanes], odd), even.shuffle(pairs[lanes:], odd)]
    return mixed
