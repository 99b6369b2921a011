"""Sampling labels: the taps of a point vote for their pixels' values.

A pixel's value is handled as a key: an integer that is equal for equal values and has their order.
``flip`` is the bit in which a key differs from the bits of its pixel, so that one compiled driver
serves signed and unsigned integers.

A tap's total is the sum of the weights of all taps from it on that have the same key.  The first
tap of a key thus has the sum for that key, and the others have no more.  So the key with the
greatest total wins, and it does not matter that keys are counted several times.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import maximum, where
from gridsample.kernels.axes import COUNT
from gridsample.kernels.cpu.blocks import (
    AMOUNT,
    AT,
    BASE,
    EACH,
    KEYS,
    LOST,
    NUMBERS,
    PIXELS,
    PLACES,
    PUT,
    STATE,
    WIDTH,
    find_piece,
    next_piece,
    tail,
)
from gridsample.kernels.cpu.passes import fetch_ahead
from gridsample.kernels.cpu.records import Block, Lattice, Line, Span, Task, Votes
from gridsample.kernels.cpu.taps import multiply_out, prepare_edges, weigh_inside

Array = Any
# Bound by lowering.
integer = int
unsigned = int
address = int
int64 = int


def key_of(bits: Any, flip: Any) -> Any:
    """The key of a pixel's bits, and the bits of a key."""
    return integer(integer(bits) ^ integer(flip))


def collect_keys(
    plane: Array, at: Array, shifts: Array, flip: int, keys: Array, taps: int, width: int, n: int
) -> None:
    """Keys of the taps of inside points."""
    for t in range(taps):
        begin, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            keys[begin + i] = key_of(plane[address(at[i]) + shift], flip)


def collect_present_keys(
    plane: Array, places: Array, dropped: Any, flip: int, keys: Array, taps: int, width: int, n: int
) -> None:
    """Keys of the taps of edges; dropped taps have that of another value."""
    other = key_of(dropped, flip)
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            here = places[begin + i]
            key = key_of(plane[address(maximum(here, integer(0)))], flip)
            keys[begin + i] = where(here >= integer(0), key, other)


def differ(keys: Array, taps: int, width: int, n: int) -> Any:
    """Bits that are set if some taps of a point have different keys."""
    found = integer(0)
    for t in range(1, taps):
        begin = unsigned(t) * width
        for i in range(n):
            found = integer(found | integer(keys[i] ^ keys[begin + i]))
    return found


def copy_keys(keys: Array, winners: Array, n: int) -> None:
    """The winners where all taps agree."""
    for i in range(n):
        winners[i] = keys[i]


def add_votes(
    keys: Array, amount: Array, totals: Array, t: int, taps: int, width: int, n: int
) -> None:
    """The totals of tap ``t``: its weight, and those of later taps with the same key."""
    begin = unsigned(t) * width
    for i in range(n):
        totals[i] = amount[begin + i]
    for other in range(t + 1, taps):
        after = unsigned(other) * width
        for i in range(n):
            more = totals[i] + amount[after + i]
            totals[i] = where(keys[after + i] == keys[begin + i], more, totals[i])


def compare(
    keys: Array, totals: Array, most: Array, winners: Array, t: int, width: int, n: int
) -> None:
    """Put the keys of tap ``t`` in place of winners with less, or with as much that are greater."""
    begin = unsigned(t) * width
    for i in range(n):
        key, least = keys[begin + i], winners[i]
        wins = (totals[i] > most[i]) | ((totals[i] == most[i]) & (key < least))
        winners[i] = where(wins, key, least)
        most[i] = where(wins, totals[i], most[i])


def elect(
    keys: Array, amount: Array, totals: Array, most: Array, winners: Array, taps: int, width: int,
    n: int,
) -> None:  # fmt: skip
    """The winning key of each point, from the keys and the weights of its taps."""
    copy_keys(keys, winners, n)
    if differ(keys, taps, width, n) == integer(0):
        return
    add_votes(keys, amount, most, 0, taps, width, n)
    for t in range(1, taps):
        add_votes(keys, amount, totals, t, taps, width, n)
        compare(keys, totals, most, winners, t, width, n)


def settle_keys(winners: Array, flip: int, out: Array, step: int, n: int) -> None:
    """Store the pixels of keys."""
    for i in range(n):
        out[i * step] = key_of(winners[i], flip)


def replace_keys(state: Array, winners: Array, outside: Any, flip: int, n: int) -> None:
    """Put what is outside at the points that are not inside."""
    other = key_of(outside, flip)
    for i in range(n):
        winners[i] = where(state[i] == integer(0), winners[i], other)


def settle_keys_edges(
    winners: Array, lost: Array, hole: Any, flip: int, put: Array, out: Array, step: int, n: int
) -> None:
    """Store the pixels of listed points' keys; ``hole`` at those that are nowhere."""
    other = key_of(hole, flip)
    for j in range(n):
        key = where(lost[j] != integer(0), other, winners[j])
        out[unsigned(put[j]) * step] = key_of(key, flip)


def gather_labels_inside(
    job: Votes, lattice: Lattice, block: Block, task: Task, points: Line, span: Span
) -> None:
    """Sample labels at the points of a block that are no edges."""
    n, width, taps = span.n, unsigned(block.table[WIDTH]), block.table[EACH]
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    keys, winners = (
        tail(block.indices, block.table[KEYS]),
        tail(block.indices, block.table[BASE]),
    )
    amount = tail(block.reals, block.table[AMOUNT])
    totals, most = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[NUMBERS])
    if span.inside:
        weigh_inside(block, 1, n)
        multiply_out(block, 1, n)
    for p in range(task.planes, task.end if span.listed < n else task.planes):
        plane = tail(job.image.memory, job.image.starts[p] + span.item * job.image.item)
        values = tail(job.out.memory, job.out.starts[p] + span.item * job.out.item)
        if span.inside:
            if lattice.far:
                fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], taps, n)
            collect_keys(plane, at, lattice.shifts, job.flip, keys, taps, width, n)
            elect(keys, amount, totals, most, winners, taps, width, n)
        if span.inside < n:
            replace_keys(state, winners, job.around.outside[p], job.flip, n)
        done = int64(0)
        while done < int64(n):
            point = task.first + span.start + done
            many = unsigned(next_piece(block.table, point, int64(n) - done))
            here = tail(values, find_piece(block.table, point) * job.out.step)
            settle_keys(tail(winners, done), job.flip, here, unsigned(job.out.step), many)
            done += int64(many)


def gather_labels_edges(
    job: Votes,
    lattice: Lattice,
    block: Block,
    task: Task,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Sample labels at the ``n`` listed edges of an item."""
    width, taps = unsigned(block.table[WIDTH]), block.table[EACH]
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    keys, winners = tail(block.indices, block.table[KEYS]), tail(block.indices, block.table[BASE])
    put = tail(block.indices, block.table[PUT])
    amount = tail(block.reals, block.table[AMOUNT])
    totals, most = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[NUMBERS])
    prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
    for p in range(task.planes, task.end):
        plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        values = tail(job.out.memory, job.out.starts[p] + item * job.out.item)
        here = tail(values, task.first * job.out.step)
        collect_present_keys(plane, places, job.around.dropped[p], job.flip, keys, taps, width, n)
        elect(keys, amount, totals, most, winners, taps, width, n)
        settle_keys_edges(
            winners, lost, job.around.holes[p], job.flip, put, here, unsigned(job.out.step), n
        )


# What lowering compiles: loops over separate arrays, which vectorise; loops that do not; and what
# calls them.
LOOPS = (differ, copy_keys, add_votes, compare, replace_keys)


SCATTERED = (collect_keys, collect_present_keys, settle_keys, settle_keys_edges)


STEPS = (elect,)
