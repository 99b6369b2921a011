"""Loops that resize labels: the inputs of an output vote with the products of their weights.

A vote is not separable, so all axes are resized at once.  There are always three; tables have an
entry for each tap of an axis and each output: ``at_*`` the tap's offset in a plane, ``by_*`` its
weight, which is 0 for a tap that an output has not.

Keys and their flip are those of `gridsample.kernels.cpu.labels`.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import minimum
from gridsample.kernels.cpu.blocks import tail
from gridsample.kernels.cpu.labels import copy_keys, differ, elect, key_of, settle_keys

Array = Any
# Bound by lowering.
integer = int
unsigned = int
int64 = int
WIDTH = 0  # outputs of a row that are worked on together
TIE = 0.0  # totals tie that are no further apart


def collect_line(line: Array, at: Array, flip: int, keys: Array, n: int) -> None:
    """Keys of one tap of neighbouring outputs."""
    for i in range(n):
        keys[i] = key_of(line[unsigned(at[i])], flip)


def weigh_line(by: Array, weight: Any, amount: Array, n: int) -> None:
    """Weights of one tap of neighbouring outputs."""
    for i in range(n):
        amount[i] = by[i] * weight


def vote_few(
    source: Array, target: Array, begin: int, put: int, steps: Array, shape: Array, taps: Array,
    at_z: Array, at_y: Array, at_x: Array, by_z: Array, by_y: Array, by_x: Array,
    flip: int, first: int, last: int, keys: Array, amount: Array,
) -> int:  # fmt: skip
    """Resize rows of a plane whose outputs have few inputs, a part of a row at a time.

    ``shape`` and ``steps`` are the output's, ``taps`` the greatest number of inputs along each
    axis.  Returns the row after the last.
    """
    depth, height, width = shape[0], shape[1], shape[2]
    wide, many = unsigned(WIDTH), taps[0] * taps[1] * taps[2]
    totals, most = tail(amount, many * WIDTH), tail(amount, (many + 1) * WIDTH)
    winners = tail(keys, many * WIDTH)
    for row in range(first, last):
        z, y = row // height, row % height
        out = tail(target, put + z * steps[0] + y * steps[1])
        for x in range(int64(0), width, int64(WIDTH)):
            n, t = unsigned(minimum(int64(WIDTH), width - x)), int64(0)
            for a in range(taps[0]):
                for b in range(taps[1]):
                    line = tail(source, begin + at_z[a * depth + z] + at_y[b * height + y])
                    for c in range(taps[2]):
                        at = tail(at_x, c * width + x)
                        collect_line(line, at, flip, tail(keys, t * WIDTH), n)
                        t += 1
            if differ(keys, many, wide, n) == integer(0):
                copy_keys(keys, winners, n)
            else:
                t = int64(0)
                for a in range(taps[0]):
                    for b in range(taps[1]):
                        weight = by_z[a * depth + z] * by_y[b * height + y]
                        for c in range(taps[2]):
                            by = tail(by_x, c * width + x)
                            weigh_line(by, weight, tail(amount, t * WIDTH), n)
                            t += 1
                elect(keys, amount, totals, most, winners, many, wide, n)
            settle_keys(winners, flip, tail(out, x * steps[2]), unsigned(steps[2]), n)
    return last


def find_slot(table: Array, stamps: Array, stamp: int, key: int, mask: int) -> int:
    """Where a key is in a hash table, or would be put.  An entry counts if it has the stamp."""
    slot = int64((unsigned(key) * unsigned(0x9E3779B97F4A7C15)) >> unsigned(32)) & mask
    while stamps[slot] == stamp and table[slot] != key:
        slot = (slot + 1) & mask
    return slot


def cast(
    table: Array, sums: Array, stamps: Array, used: Array, live: int, stamp: int, key: int,
    weight: Any, mask: int,
) -> int:  # fmt: skip
    """Add a weight to a key's sum; returns how many keys there are now."""
    slot = find_slot(table, stamps, stamp, key, mask)
    if stamps[slot] != stamp:
        stamps[slot], table[slot], sums[slot] = stamp, key, weight
        used[live] = slot
        return live + 1
    sums[slot] += weight
    return live


def find_winner(table: Array, sums: Array, used: Array, live: int) -> int:
    """The key with the greatest sum, or the smallest of those."""
    best = used[0]
    for k in range(1, live):
        slot = used[k]
        more = sums[slot] - sums[best]
        if more > TIE or (more >= -TIE and table[slot] < table[best]):
            best = slot
    return table[best]


def vote_many(
    source: Array, target: Array, begin: int, put: int, steps: Array, shape: Array, taps: Array,
    at_z: Array, at_y: Array, at_x: Array, by_z: Array, by_y: Array, by_x: Array,
    flip: int, first: int, last: int, table: Array, sums: Array, stamps: Array, used: Array,
    mask: int,
) -> int:  # fmt: skip
    """As vote_few, for any number of inputs: their keys are counted in a hash table.

    Returns the row after the last; or the row in which the table was full, and that must be done
    again with a larger one.
    """
    depth, height, width = shape[0], shape[1], shape[2]
    stamp = int64(0)
    for row in range(first, last):
        z, y = row // height, row % height
        out = tail(target, put + z * steps[0] + y * steps[1])
        for x in range(width):
            live, stamp = int64(0), stamp + 1
            for a in range(taps[0]):
                for b in range(taps[1]):
                    weight = by_z[a * depth + z] * by_y[b * height + y]
                    if weight == 0:
                        continue
                    line = tail(source, begin + at_z[a * depth + z] + at_y[b * height + y])
                    key, run = int64(key_of(line[at_x[x]], flip)), by_x[x]
                    # Neighbours mostly agree.
                    for c in range(1, taps[2]):
                        other = int64(key_of(line[at_x[c * width + x]], flip))
                        if other != key:
                            live = cast(
                                table, sums, stamps, used, live, stamp, key, run * weight, mask
                            )
                            if 2 * live > mask:
                                return row
                            key, run = other, 0.0
                        run += by_x[c * width + x]
                    live = cast(table, sums, stamps, used, live, stamp, key, run * weight, mask)
                    if 2 * live > mask:
                        return row
            out[x * steps[2]] = key_of(find_winner(table, sums, used, live), flip)
    return last
