"""The loops for resizing: plain Python, lowered by `build`.

There is one inner loop, `weigh_block`: a weighted sum of lines that are a fixed step apart.  A line
consists of the contiguous numbers of all axes inside the resized one.  If lines are short, several
outer lines are processed together.  Pixels of a few channels are processed in place, all with the
same weights.  Other lines are first transposed with `turn`, and transposed back at the end.
"""

from __future__ import annotations

from typing import Any

from gridsample.kernels.cpu.tiles import turn

Array = Any

# Bound by lowering.
unsigned = int
LANES = LINE = CHUNK = TILE = GROUP = PIXEL = ROWS = 1
FUNCTION: Any = None


def number(value: Any) -> Any:
    """Convert a stored value to the dtype of sums."""
    return value


def settle(total: Any, shift: int) -> Any:
    """Convert a sum to its storage type."""
    return total


def weigh_block(
    out: Array, to: int, out_pitch: int, src: Array, at: int, src_pitch: int, step: int,
    weights: Array, first: int, taps: int, shift: int,
) -> None:  # fmt: skip
    """Sum weights[first + t] * src[at + t * step + k * src_pitch + j] over t < taps.

    The sum is stored in out[to + k * out_pitch + j], for the lines k and columns j of a block.
    """


# Blocks of one line and 16 or 32 columns; `stream_32` stores its results past the caches.
weigh_16 = weigh_32 = stream_32 = weigh_block
# Blocks of PIXEL columns in ROWS lines.
weigh_pixels = weigh_block
# `resize_run` for 2, 4 or any number of taps; `run_exact` touches no memory next to a pixel.
run_2 = run_4 = run_any = run_exact = FUNCTION


def weigh_square(
    out: Array, to: int, src: Array, at: int, pitch: int, step: int, columns: Array, column: int,
    rows: Array, row: int,
) -> None:  # fmt: skip
    """out[to + j] = the sum over s, t < 2 of rows[row + s] * columns[column + t] * a number.

    The number is src[at + s * pitch + t * step + j], for the PIXEL channels j.
    """


# The same, without touching memory next to a pixel.
weigh_square_exact = weigh_square


def to_cache_line(array: Array, place: int) -> int:
    """Return how many numbers there are from a place to the start of the next cache line."""
    return 0


def settle_streams() -> None:
    """Make the stores that bypassed the caches visible to other threads."""


def copy_group(dst: Array, to: int, src: Array, at: int) -> None:
    """Copy GROUP numbers; up to the next power of two may be copied."""


# `pick_groups` for a GROUP of 1, 3 or 4.
pick_groups_1 = pick_groups_3 = pick_groups_4 = FUNCTION


# A weighted sum of lines --------------------------------------------------------------------------


def weigh_lines(
    out: Array, to: int, src: Array, at: int, step: int, weights: Array, first: int, taps: int,
    n: int, shift: int, streams: bool,
) -> None:  # fmt: skip
    """Call `weigh_block` for j < n, where n >= 16; ``streams`` makes stores bypass the caches."""
    j = 0
    if streams:
        head = min(to_cache_line(out, to), n)
        for k in range(0, head, 16):
            j = min(k, n - 16)  # some columns are computed twice
            weigh_16(out, to + j, 0, src, at + j, 0, step, weights, first, taps, shift)
        j = head
        while j + 32 <= n:
            stream_32(out, to + j, 0, src, at + j, 0, step, weights, first, taps, shift)
            j += 32
    while j + 32 <= n:
        weigh_32(out, to + j, 0, src, at + j, 0, step, weights, first, taps, shift)
        j += 32
    if j + 16 <= n:
        weigh_16(out, to + j, 0, src, at + j, 0, step, weights, first, taps, shift)
        j += 16
    if j < n:
        j = n - 16
        weigh_16(out, to + j, 0, src, at + j, 0, step, weights, first, taps, shift)


# The drivers --------------------------------------------------------------------------------------


def along_lines(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, base: int,
    outer: int, n_in: int, inner: int, streams: bool,
) -> None:  # fmt: skip
    """Resize (outer, n_in, inner) to (outer, outputs, inner), where lines are long.

    Input 0 in ``src`` has the index ``base`` in the table.
    """
    outputs, taps = weights.shape
    for o in range(outer):
        for begin in range(0, inner, LINE):
            n = min(LINE, inner - begin)
            for i in range(outputs):
                at = (o * n_in + first[i] - base) * inner + begin
                to = (o * outputs + i) * inner + begin
                weigh_lines(dst, to, src, at, inner, weights, i * taps, count[i], n, shift, streams)
    if streams:
        settle_streams()


def across_lines(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, base: int,
    outer: int, n_in: int, inner: int, before: Array, after: Array,
) -> None:  # fmt: skip
    """Resize as `along_lines` does, for short lines: LANES outer lines are processed together."""
    outputs, taps = weights.shape
    wide = inner * LANES
    for o in range(0, outer, LANES):
        rows = min(LANES, outer - o)
        for begin in range(0, outputs, CHUNK):
            end = min(begin + CHUNK, outputs)
            low, high = first[begin], first[end - 1] + count[end - 1]
            at = (o * n_in + low - base) * inner
            turn(src, at, n_in * inner, before, 0, LANES, rows, (high - low) * inner)
            for i in range(begin, end):
                at, to = (first[i] - low) * wide, (i - begin) * wide
                weigh_lines(
                    after, to, before, at, wide, weights, i * taps, count[i], wide, shift, False
                )
            to = (o * outputs + begin) * inner
            turn(after, 0, LANES, dst, to, outputs * inner, (end - begin) * inner, rows)


def resize_run(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, at: int,
    to: int, n_in: int, begin: int, end: int,
) -> None:  # fmt: skip
    """Compute some outputs of ROWS rows of pixels; the rows start at ``at`` and ``to``."""
    outputs, taps = weights.shape
    for i in range(begin, end):
        weigh_pixels(
            dst, to + i * PIXEL, outputs * PIXEL, src, at + first[i] * PIXEL, n_in * PIXEL, PIXEL,
            weights, i * taps, count[i], shift,
        )  # fmt: skip


def across_pixels(
    src: Array, dst: Array, first: Array, count: Array, weights: Array, shift: int, base: int,
    outer: int, n_in: int, inner: int,
) -> None:  # fmt: skip
    """Resize as `along_lines` does, if a line is the few channels of a pixel, ROWS rows at a time.

    There are at least ROWS rows.
    """
    outputs = len(first)
    safe = outputs - 1  # the outputs that have others next to them, and whose inputs have
    while safe > 0 and first[safe - 1] + count[safe - 1] >= base + n_in:
        safe -= 1
    for row in range(0, outer, ROWS):
        o = min(row, outer - ROWS)  # compute some rows twice rather than fewer at a time
        at, to = (o * n_in - base) * PIXEL, o * outputs * PIXEL
        begin = 0
        while begin < safe:
            end = begin + 1
            while end < safe and count[end] == count[begin]:
                end += 1
            if count[begin] == 2:
                run_2(src, dst, first, count, weights, shift, at, to, n_in, begin, end)
            elif count[begin] == 4:
                run_4(src, dst, first, count, weights, shift, at, to, n_in, begin, end)
            else:
                run_any(src, dst, first, count, weights, shift, at, to, n_in, begin, end)
            begin = end
        run_exact(src, dst, first, count, weights, shift, at, to, n_in, safe, outputs)


def squares(
    src: Array, dst: Array, rows: Array, row_weights: Array, columns: Array,
    column_weights: Array, base: int, outer: int, height: int, width: int,
) -> None:  # fmt: skip
    """Resize two axes of (outer, height, width, PIXEL) at once, if all outputs have 2 x 2 taps.

    Row 0 in ``src`` has the index ``base`` in the table.
    """
    down, across = len(rows), len(columns)
    safe = across - 1  # see `across_pixels`
    while safe > 0 and columns[safe - 1] + 2 >= width:
        safe -= 1
    for o in range(outer):
        for i in range(down):
            at = (o * height + rows[i] - base) * width * PIXEL
            to = (o * down + i) * across * PIXEL
            for j in range(safe):
                weigh_square(
                    dst, to + j * PIXEL, src, at + columns[j] * PIXEL, width * PIXEL, PIXEL,
                    column_weights, 2 * j, row_weights, 2 * i,
                )  # fmt: skip
            for j in range(safe, across):
                weigh_square_exact(
                    dst, to + j * PIXEL, src, at + columns[j] * PIXEL, width * PIXEL, PIXEL,
                    column_weights, 2 * j, row_weights, 2 * i,
                )  # fmt: skip


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
            # No line precedes the first: use any other line, times 0.
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
    """Solve as `solve_lines` does, for short lines."""
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

    Each column stands for ``group`` contiguous numbers that start there.
    """
    outer, depth, height, width = shape
    line = len(columns) * group
    safe = len(columns) - 1  # the columns that have others next to them, and whose inputs have
    while safe > 0 and columns[safe - 1] + group >= width:
        safe -= 1
    to = 0
    for o in range(outer):
        for z in range(len(slices)):
            for y in range(len(rows)):
                at = ((o * depth + slices[z]) * height + rows[y]) * width
                if y > 0 and rows[y] == rows[y - 1]:
                    copy_line(dst[to:], dst[to - line :], line)
                elif group == 3:
                    pick_groups_3(dst, to, src, at, columns, safe)
                elif group == 4:
                    pick_groups_4(dst, to, src, at, columns, safe)
                else:
                    pick_groups_1(dst, to, src, at, columns, safe)
                to += line


def copy_line(out: Array, src: Array, n: int) -> None:
    """out = src."""
    for j in range(unsigned(n)):
        out[j] = src[j]


def pick_groups(dst: Array, to: int, src: Array, at: int, columns: Array, safe: int) -> None:
    """Copy GROUP numbers of src from each column on."""
    for j in range(unsigned(safe)):
        copy_group(dst, to + j * GROUP, src, at + columns[j])
    for j in range(safe, len(columns)):
        for k in range(GROUP):
            dst[to + j * GROUP + k] = src[at + columns[j] + k]
