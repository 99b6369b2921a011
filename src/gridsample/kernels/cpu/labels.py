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

from gridsample.definitions.axis import ONE, ZERO, maximum, where
from gridsample.kernels.axes import COUNT
from gridsample.kernels.cpu.blocks import (
    AMOUNT,
    AT,
    EACH,
    FRACTION,
    KEYS,
    LOST,
    NUMBERS,
    PIXELS,
    PLACES,
    PUT,
    STATE,
    WIDTH,
    WINNERS,
    find_piece,
    next_piece,
    tail,
)
from gridsample.kernels.cpu.passes import collect_words, fetch_ahead
from gridsample.kernels.cpu.records import Block, Lattice, Line, Span, Task, Votes
from gridsample.kernels.cpu.taps import multiply_out, prepare_edges, weigh_inside

Array = Any
# Bound by lowering.
integer = int
label = int  # of keys; it has 64 bits if pixels do, also where indices have 32
unsigned = int
address = int
int64 = int
LINEAR = 0  # the rank, where all axes vote
PIXEL = 0  # bytes of a pixel, where two are read as one word; or 0
TIE = 0.0  # totals that differ by no more tie; resizing binds another number


def as_keys(indices: Array) -> Array:
    """View scratch memory for indices as keys."""
    return indices


def key_of(bits: Any, flip: Any) -> Any:
    """The key of a pixel's bits, and the bits of a key."""
    return label(label(bits) ^ label(flip))


def collect_keys(
    plane: Array, at: Array, shifts: Array, flip: int, keys: Array, taps: int, width: int, n: int
) -> None:
    """Keys of the taps of inside points."""
    for t in range(taps):
        begin, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            keys[begin + i] = key_of(plane[address(at[i]) + shift], flip)


def collect_pair_keys(
    plane: Array, at: Array, shifts: Array, flip: int, words: Array, keys: Array, taps: int,
    width: int, n: int,
) -> None:  # fmt: skip
    """As collect_keys; two neighbours along x are one word, if pixels are small (``PIXEL``)."""
    if PIXEL:
        collect_words(plane, at, shifts, words, taps, width, n)
        split_words(words, flip, keys, taps, width, n)
    else:
        collect_keys(plane, at, shifts, flip, keys, taps, width, n)


def split_words(words: Array, flip: int, keys: Array, taps: int, width: int, n: int) -> None:
    """The keys of both pixels of each word."""
    low, by = integer((1 << 8 * PIXEL) - 1), integer(8 * PIXEL)
    for t in range(0, taps, 2):
        begin = unsigned(t) * width
        for i in range(n):
            both = words[begin + i]
            keys[begin + i] = key_of(both & low, flip)
            keys[begin + width + i] = key_of((both >> by) & low, flip)


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
    found = label(0)
    for t in range(1, taps):
        begin = unsigned(t) * width
        for i in range(n):
            found = label(found | label(keys[i] ^ keys[begin + i]))
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
        more = totals[i] - most[i]
        wins = (more > TIE) | ((more >= -TIE) & (key < least))
        winners[i] = where(wins, key, least)
        most[i] = where(wins, totals[i], most[i])


def shared(key: Any, other: Any, weight: Any) -> Any:
    """A tap's weight if it has a key, otherwise 0."""
    return where(key == other, weight, ZERO)


def better(key: Any, total: Any, other: Any, more: Any) -> tuple[Any, Any]:
    """Of two keys and their totals, those of the winner."""
    wins = (more > total) | ((more == total) & (other < key))
    return where(wins, other, key), where(wins, more, total)


def elect_four(a: Any, b: Any, c: Any, d: Any, u: Any, v: Any, w: Any, t: Any) -> tuple[Any, Any]:
    """The winner of four keys a to d with the weights u, v, w, t, and its total."""
    key, total = better(a, u + shared(a, b, v) + shared(a, c, w) + shared(a, d, t),
                        b, v + shared(b, c, w) + shared(b, d, t))  # fmt: skip
    key, total = better(key, total, c, w + shared(c, d, t))
    return better(key, total, d, t)


def elect_linear(
    keys: Array, x: Array, y: Array, z: Array, winners: Array, width: int, n: int
) -> None:
    """The winning key of each point where every axis votes, from the fractions.

    As `elect`; the weights and totals of a point stay in registers.
    """
    b = width
    c, d, e = b + b, b + b + b, b + b + b + b
    f, g, h = e + b, e + c, e + d
    if LINEAR == 1:
        for i in range(n):
            key, _ = better(keys[i], ONE - x[i], keys[b + i], x[i])
            winners[i] = key
    elif LINEAR == 2:
        for i in range(n):
            q, s = x[i], y[i]
            p, r = ONE - q, ONE - s
            key, _ = elect_four(
                keys[i], keys[b + i], keys[c + i], keys[d + i], p * r, q * r, p * s, q * s
            )
            winners[i] = key
    else:
        for i in range(n):
            k, m, o, j = keys[i], keys[b + i], keys[c + i], keys[d + i]
            p, q, r, s = keys[e + i], keys[f + i], keys[g + i], keys[h + i]
            across, down, deep = x[i], y[i], z[i]
            left, up, near = ONE - across, ONE - down, ONE - deep
            u, v, w, t = left * up, across * up, left * down, across * down
            # The weights of the far four.
            uu, vv, ww, tt = u * deep, v * deep, w * deep, t * deep
            u, v, w, t = u * near, v * near, w * near, t * near
            first = shared(k, m, v) + shared(k, o, w) + shared(k, j, t)
            first += shared(k, p, uu) + shared(k, q, vv) + shared(k, r, ww) + shared(k, s, tt)
            second = shared(m, o, w) + shared(m, j, t)
            second += shared(m, p, uu) + shared(m, q, vv) + shared(m, r, ww) + shared(m, s, tt)
            third = shared(o, j, t)
            third += shared(o, p, uu) + shared(o, q, vv) + shared(o, r, ww) + shared(o, s, tt)
            last = shared(j, p, uu) + shared(j, q, vv) + shared(j, r, ww) + shared(j, s, tt)
            key, total = better(k, u + first, m, v + second)
            key, total = better(key, total, o, w + third)
            key, total = better(key, total, j, t + last)
            other, more = elect_four(p, q, r, s, uu, vv, ww, tt)
            key, _ = better(key, total, other, more)
            winners[i] = key


def elect(
    keys: Array, amount: Array, totals: Array, most: Array, winners: Array, taps: int, width: int,
    n: int,
) -> None:  # fmt: skip
    """The winning key of each point, from the keys and the weights of its taps."""
    copy_keys(keys, winners, n)
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
    keys = as_keys(tail(block.indices, block.table[KEYS]))
    winners = as_keys(tail(block.indices, block.table[WINNERS]))
    amount = tail(block.reals, block.table[AMOUNT])
    totals, most = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[NUMBERS])
    words = tail(block.indices, block.table[PLACES])
    x = tail(block.reals, block.table[FRACTION])
    y, z = tail(x, block.table[WIDTH]), tail(x, 2 * block.table[WIDTH])
    if span.inside and not LINEAR:
        weigh_inside(block, 1, n)
        multiply_out(block, 1, n)
    for p in range(task.planes, task.end if span.listed < n else task.planes):
        plane = tail(job.image.memory, job.image.starts[p] + span.item * job.image.item)
        values = tail(job.out.memory, job.out.starts[p] + span.item * job.out.item)
        if span.inside:
            if lattice.far:
                fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], taps, n)
            collect_pair_keys(plane, at, lattice.shifts, job.flip, words, keys, taps, width, n)
            if differ(keys, taps, width, n) == label(0):
                copy_keys(keys, winners, n)
            elif LINEAR:
                elect_linear(keys, x, y, z, winners, width, n)
            else:
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
    keys = as_keys(tail(block.indices, block.table[KEYS]))
    winners = as_keys(tail(block.indices, block.table[WINNERS]))
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


# What lowering compiles: functions of a point; loops over separate arrays, which vectorise; loops
# that do not; and what calls them.
ELEMENTWISE = (shared, better, elect_four)


LOOPS = (differ, copy_keys, add_votes, compare, elect_linear, split_words, replace_keys)


SCATTERED = (collect_keys, collect_present_keys, settle_keys, settle_keys_edges)


STEPS = (elect, collect_pair_keys)
