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
    """Mix one vector per axis into vectors that hold x, y, z, x, y, z, ..."""
    rank, lanes = len(lines), lines[0].lanes
    if rank == 1:
        return [*lines]
    mixed = []
    for part in range(rank):
        places = [divmod(part * lanes + k, rank) for k in range(lanes)]  # (lane, axis)
        line = lines[0].shuffle([n + lanes * (a == 1) for n, a in places], lines[1])
        if rank == 3:
            picked = [k if a < 2 else lanes + n for k, (n, a) in enumerate(places)]
            line = line.shuffle(picked, lines[2])
        mixed.append(line)
    return mixed
