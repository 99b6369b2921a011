"""Loops that resize labels: the inputs of an output vote with the products of their weights.

A vote is not separable, so all axes are resized at once.  There are always three.

Keys and their flip are those of `gridsample.kernels.cpu.labels`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class Planes(NamedTuple):
    """A plane of labels, and the plane that it becomes."""

    source: Array
    target: Array
    begin: int  # where the one starts
    put: int  # and the other
    flip: int  # see `gridsample.kernels.cpu.labels`


class Inputs(NamedTuple):
    """The inputs of each output: for each axis a list of numbers (tap, output)."""

    steps: Array  # distances between neighbouring outputs: z, y, x
    shape: Array  # outputs along each axis
    taps: Array  # inputs of an output, at most
    at_z: Array  # the offset of each in a plane
    at_y: Array
    at_x: Array
    by_z: Array  # its weight; 0 for a tap that an output has not
    by_y: Array
    by_x: Array


class Room(NamedTuple):
    """Room for a few outputs: of each tap, and then of what the vote needs."""

    keys: Array
    amount: Array


class Counts(NamedTuple):
    """A hash table."""

    table: Array  # keys
    sums: Array  # their sums of weights
    stamps: Array  # the last output that an entry was used for
    used: Array  # the entries that are used for this one
    mask: int  # how many entries there are, less one; half of them may be used


def collect_line(line: Array, at: Array, flip: int, keys: Array, n: int) -> None:
    """Keys of one tap of neighbouring outputs."""
    for i in range(n):
        keys[i] = key_of(line[unsigned(at[i])], flip)


def weigh_line(by: Array, weight: Any, amount: Array, n: int) -> None:
    """Weights of one tap of neighbouring outputs."""
    for i in range(n):
        amount[i] = by[i] * weight


def vote_few(planes: Planes, inputs: Inputs, first: int, last: int, room: Room) -> int:
    """Resize rows of a plane whose outputs have few inputs, a part of a row at a time.

    Returns the row after the last.
    """
    depth, height, width = inputs.shape[0], inputs.shape[1], inputs.shape[2]
    wide, many = unsigned(WIDTH), inputs.taps[0] * inputs.taps[1] * inputs.taps[2]
    totals, most = tail(room.amount, many * WIDTH), tail(room.amount, (many + 1) * WIDTH)
    winners = tail(room.keys, many * WIDTH)
    for row in range(first, last):
        z, y = row // height, row % height
        out = tail(planes.target, planes.put + z * inputs.steps[0] + y * inputs.steps[1])
        for x in range(int64(0), width, int64(WIDTH)):
            n, t = unsigned(minimum(int64(WIDTH), width - x)), int64(0)
            for a in range(inputs.taps[0]):
                for b in range(inputs.taps[1]):
                    place = inputs.at_z[a * depth + z] + inputs.at_y[b * height + y]
                    line = tail(planes.source, planes.begin + place)
                    for c in range(inputs.taps[2]):
                        at = tail(inputs.at_x, c * width + x)
                        collect_line(line, at, planes.flip, tail(room.keys, t * WIDTH), n)
                        t += 1
            if differ(room.keys, many, wide, n) == integer(0):
                copy_keys(room.keys, winners, n)
            else:
                t = int64(0)
                for a in range(inputs.taps[0]):
                    for b in range(inputs.taps[1]):
                        weight = inputs.by_z[a * depth + z] * inputs.by_y[b * height + y]
                        for c in range(inputs.taps[2]):
                            by = tail(inputs.by_x, c * width + x)
                            weigh_line(by, weight, tail(room.amount, t * WIDTH), n)
                            t += 1
                elect(room.keys, room.amount, totals, most, winners, many, wide, n)
            here = tail(out, x * inputs.steps[2])
            settle_keys(winners, planes.flip, here, unsigned(inputs.steps[2]), n)
    return last


def find_slot(counts: Counts, stamp: int, key: int) -> int:
    """Where a key is in the table, or would be put.  An entry counts if it has the stamp."""
    slot = int64((unsigned(key) * unsigned(0x9E3779B97F4A7C15)) >> unsigned(32)) & counts.mask
    while counts.stamps[slot] == stamp and counts.table[slot] != key:
        slot = (slot + 1) & counts.mask
    return slot


def cast(counts: Counts, live: int, stamp: int, key: int, weight: Any) -> int:
    """Add a weight to a key's sum; returns how many keys there are now."""
    slot = find_slot(counts, stamp, key)
    if counts.stamps[slot] != stamp:
        counts.stamps[slot], counts.table[slot], counts.sums[slot] = stamp, key, weight
        counts.used[live] = slot
        return live + 1
    counts.sums[slot] += weight
    return live


def find_winner(counts: Counts, live: int) -> Any:
    """The key with the greatest sum, or the smallest of those."""
    best = counts.used[0]
    for k in range(1, live):
        slot = counts.used[k]
        more = counts.sums[slot] - counts.sums[best]
        if more > TIE or (more >= -TIE and counts.table[slot] < counts.table[best]):
            best = slot
    return counts.table[best]


def count_line(
    line: Array, at: Array, by: Array, taps: int, step: int, weight: Any, flip: int,
    counts: Counts, live: int, stamp: int,
) -> int:  # fmt: skip
    """Count the inputs of a line; returns how many keys there are, at most as many as fit.

    Neighbours mostly agree: their weights are added up before.
    """
    key, run = int64(key_of(line[at[0]], flip)), by[0]
    for c in range(1, taps):
        other = int64(key_of(line[at[c * step]], flip))
        if other != key:
            live = cast(counts, live, stamp, key, run * weight)
            if 2 * live > counts.mask:
                return live
            key, run = other, 0.0
        run += by[c * step]
    return cast(counts, live, stamp, key, run * weight)


def vote_many(planes: Planes, inputs: Inputs, first: int, last: int, counts: Counts) -> int:
    """As vote_few, for any number of inputs: their keys are counted in a hash table.

    Returns the row after the last; or the row in which the table was full, and that must be done
    again with a larger one.
    """
    depth, height, width = inputs.shape[0], inputs.shape[1], inputs.shape[2]
    stamp = int64(0)
    for row in range(first, last):
        z, y = row // height, row % height
        out = tail(planes.target, planes.put + z * inputs.steps[0] + y * inputs.steps[1])
        for x in range(width):
            live, stamp = int64(0), stamp + 1
            at, by = tail(inputs.at_x, x), tail(inputs.by_x, x)
            for a in range(inputs.taps[0]):
                for b in range(inputs.taps[1]):
                    weight = inputs.by_z[a * depth + z] * inputs.by_y[b * height + y]
                    if weight == 0:
                        continue
                    place = inputs.at_z[a * depth + z] + inputs.at_y[b * height + y]
                    line = tail(planes.source, planes.begin + place)
                    live = count_line(
                        line,
                        at,
                        by,
                        inputs.taps[2],
                        width,
                        weight,
                        planes.flip,
                        counts,
                        live,
                        stamp,
                    )
                    if 2 * live > counts.mask:
                        return row
            out[x * inputs.steps[2]] = key_of(find_winner(counts, live), planes.flip)
    return last
