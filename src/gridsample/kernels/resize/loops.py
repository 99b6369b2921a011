"""The loops of resizing: plain Python, lowered by `build`.

There is one inner loop, `combine`: a weighted sum of lines that lie a fixed step apart.  A line is
as many neighbours in memory as all axes inside the resized one hold together.  Where these are too
few, several outer lines are first put side by side, with `turn`, and afterwards put back.
"""

from __future__ import annotations

from typing import Any

Array = Any

# Bound by lowering.
unsigned = int
TAPS = LANES = LINE = CHUNK = TILE = GROUP = 1
ZERO = 0
FUNCTION: Any = None


def number(value: Any) -> Any:
    """A stored value as what sums are made in."""
    return value


def settle(total: Any, shift: int) -> Any:
    """A sum as it is stored."""
    return total


def weigh(total: Any, weight: Any, value: Any) -> Any:
    """A sum with one more product."""
    return total + weight * value


def turn_tile(src: Array, at: int, pitch: int, dst: Array, to: int, dst_pitch: int) -> None:
    """Transpose TILE x TILE numbers."""


# `combine` and `add` for so many TAPS.
combine_1 = combine_2 = combine_3 = combine_4 = combine_6 = combine_8 = combine_16 = FUNCTION
add_1 = add_4 = FUNCTION
# `pick_groups` for so many in a GROUP.
pick_groups_1 = pick_groups_3 = pick_groups_4 = FUNCTION


# A weighted sum of lines --------------------------------------------------------------------------


def combine(out: Array, src: Array, weights: Array, step: int, n: int, shift: int) -> None:
    """out = the weighted sum of TAPS lines."""
    for j in range(unsigned(n)):
        total = ZERO
        for t in range(unsigned(TAPS)):
            total = weigh(total, weights[t], number(src[t * unsigned(step) + j]))
        out[j] = settle(total, shift)


def add(acc: Array, src: Array, weights: Array, step: int, n: int) -> None:
    """acc += the weighted sum of TAPS lines."""
    for j in range(unsigned(n)):
        total = acc[j]
        for t in range(unsigned(TAPS)):
            total = weigh(total, weights[t], number(src[t * unsigned(step) + j]))
        acc[j] = total


def clear(acc: Array, n: int) -> None:
    """acc = 0."""
    for j in range(unsigned(n)):
        acc[j] = ZERO


def finish(out: Array, acc: Array, n: int, shift: int) -> None:
    """Store sums."""
    for j in range(unsigned(n)):
        out[j] = settle(acc[j], shift)


def combine_any(
    out: Array, src: Array, weights: Array, taps: int, step: int, n: int, shift: int, acc: Array
) -> None:
    """out = the weighted sum of so many lines."""
    if taps == 1:
        combine_1(out, src, weights, step, n, shift)
    elif taps == 2:
        combine_2(out, src, weights, step, n, shift)
    elif taps == 3:
        combine_3(out, src, weights, step, n, shift)
    elif taps == 4:
        combine_4(out, src, weights, step, n, shift)
    elif taps == 6:
        combine_6(out, src, weights, step, n, shift)
    elif taps == 8:
        combine_8(out, src, weights, step, n, shift)
    elif taps == 16:
        combine_16(out, src, weights, step, n, shift)
    else:
        clear(acc, n)
        t = 0
        while t + 4 <= taps:
            add_4(acc, src[t * step :], weights[t:], step, n)
            t += 4
        while t < taps:
            add_1(acc, src[t * step :], weights[t:], step, n)
            t += 1
        finish(out, acc, n, shift)


# Lines side by side -------------------------------------------------------------------------------


def turn(
    src: Array, at: int, pitch: int, dst: Array, to: int, dst_pitch: int, rows: int, columns: int
) -> None:
    """Transpose: dst[to + column * dst_pitch + row] = src[at + row * pitch + column]."""
    whole_rows, whole_columns = rows - rows % TILE, columns - columns % TILE
    for column in range(0, whole_columns, TILE):
        for row in range(0, whole_rows, TILE):
            here, there = at + row * pitch + column, to + column * dst_pitch + row
            turn_tile(src, here, pitch, dst, there, dst_pitch)
        for j in range(column, column + TILE):
            for row in range(whole_rows, rows):
                dst[to + j * dst_pitch + row] = src[at + row * pitch + j]
    for j in range(whole_columns, columns):
        for row in range(rows):
            dst[to + j * dst_pitch + row] = src[at + row * pitch + j]


# The drivers --------------------------------------------------------------------------------------


def along_lines(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, base: int,
    outer: int, n_in: int, inner: int, acc: Array,
) -> None:  # fmt: skip
    """Resize (outer, n_in, inner) to (outer, outputs, inner), where lines are long.

    Input 0 in ``src`` is the one that the table calls ``base``.
    """
    outputs = len(first)
    for o in range(outer):
        for begin in range(0, inner, LINE):
            n = min(LINE, inner - begin)
            for i in range(outputs):
                at = (o * n_in + first[i] - base) * inner + begin
                to = (o * outputs + i) * inner + begin
                combine_any(dst[to:], src[at:], weights[i], count[i], inner, n, shift, acc)


def across_lines(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, base: int,
    outer: int, n_in: int, inner: int, acc: Array, before: Array, after: Array,
) -> None:  # fmt: skip
    """As `along_lines`, where lines are short: LANES outer ones are worked on side by side."""
    outputs, wide = len(first), inner * LANES
    for o in range(0, outer, LANES):
        rows = min(LANES, outer - o)
        for begin in range(0, outputs, CHUNK):
            end = min(begin + CHUNK, outputs)
            low, high = first[begin], first[end - 1] + count[end - 1]
            at = (o * n_in + low - base) * inner
            turn(src, at, n_in * inner, before, 0, LANES, rows, (high - low) * inner)
            for i in range(begin, end):
                here = before[(first[i] - low) * wide :]
                combine_any(
                    after[(i - begin) * wide :], here, weights[i], count[i], wide, wide, shift, acc
                )
            to = (o * outputs + begin) * inner
            turn(after, 0, LANES, dst, to, outputs * inner, (end - begin) * inner, rows)


def eliminate(line: Array, other: Array, factor: Any, scale: Any, n: int) -> None:
    """line = (line - factor * other) * scale."""
    for j in range(unsigned(n)):
        line[j] = (line[j] - factor * other[j]) * scale


def solve_lines(data: Array, recursion: Array, outer: int, n: int, inner: int) -> None:
    """Solve a `Solve` along the middle axis of (outer, n, inner), in place."""
    one = recursion[1, 0] / recursion[1, 0]
    for o in range(outer):
        for begin in range(0, inner, LINE):
            width = min(LINE, inner - begin)
            at = o * n * inner + begin
            # The first line has none before it: any other serves, times 0.
            eliminate(data[at:], data[at + inner :], one - one, recursion[1, 0], width)
            for i in range(1, n):
                line, other = data[at + i * inner :], data[at + (i - 1) * inner :]
                eliminate(line, other, recursion[0, i], recursion[1, i], width)
            for i in range(n - 2, -1, -1):
                line, other = data[at + i * inner :], data[at + (i + 1) * inner :]
                eliminate(line, other, recursion[2, i], one, width)


def solve_across(
    data: Array, recursion: Array, outer: int, n: int, inner: int, side: Array
) -> None:
    """As `solve_lines`, where lines are short."""
    for o in range(0, outer, LANES):
        rows = min(LANES, outer - o)
        at = o * n * inner
        turn(data, at, n * inner, side, 0, LANES, rows, n * inner)
        solve_lines(side, recursion, 1, n, inner * LANES)
        turn(side, 0, LANES, data, at, n * inner, n * inner, rows)


def convert(src: Array, dst: Array) -> None:
    """dst = src, from one storage type to another."""
    for j in range(unsigned(len(dst))):
        dst[j] = settle(number(src[j]), 0)


def pick(
    src: Array, dst: Array, slices: Array, rows: Array, columns: Array, shape: Array, group: int
) -> None:  # fmt: skip
    """Copy (outer, depth, height, width), the ``shape``, to (outer, slices, rows, columns).

    A column is ``group`` numbers from there on.
    """
    outer, depth, height, width = shape
    n = len(columns)
    line = n * group
    to = 0
    for o in range(outer):
        for z in range(len(slices)):
            for y in range(len(rows)):
                at = ((o * depth + slices[z]) * height + rows[y]) * width
                if y > 0 and rows[y] == rows[y - 1]:
                    copy_line(dst[to:], dst[to - line :], line)
                elif group == 3:
                    pick_groups_3(dst[to:], src[at:], columns, n)
                elif group == 4:
                    pick_groups_4(dst[to:], src[at:], columns, n)
                else:
                    pick_groups_1(dst[to:], src[at:], columns, n)
                to += line


def copy_line(out: Array, src: Array, n: int) -> None:
    """out = src."""
    for j in range(unsigned(n)):
        out[j] = src[j]


def pick_groups(out: Array, src: Array, columns: Array, n: int) -> None:
    """out = GROUP numbers of src from each column on."""
    for j in range(unsigned(n)):
        at = unsigned(columns[j])
        for k in range(unsigned(GROUP)):
            out[j * unsigned(GROUP) + k] = src[at + k]
