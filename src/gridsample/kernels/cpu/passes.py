"""Inner loops of the planar sweeps: over the points of a block, for one plane.

Pixels are first collected, tap by tap, with plain loads: processors' own gather instructions are
slower than that.  Then they are blended, which vectorises.  Flat arrays, and inside points and
edges, as in `gridsample.kernels.cpu.taps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.definitions.axis import ONE, maximum, minimum, rint, where
from gridsample.kernels.cpu.blocks import DOWN, STAYS, UP, prefetch
from gridsample.kernels.cpu.scatter import (
    accumulate,
    accumulate_edges,
    add,
    scale,
    settle_axis,
    settle_axis_edges,
    share,
    share_linear,
    silence,
    spread,
    spread_band,
    spread_pairs,
    spread_present,
    unslide_four,
    unslide_two,
)

Array = Any
# Bound by lowering.
real = float
integer = int
unsigned = int
address = int
short = int
LINEAR = 0  # the rank, where all axes are linear
SLIDING = False  # whether some of a block's taps slide
PAIRS = False  # whether neighbours along x are side by side in an image, as numbers
BESIDE = False  # whether those in a row of four are, however they are stored
ROWS = 0  # how many such rows there are, or 0 where it is an argument
PIXEL = 0  # bytes of a pixel that is read by words, or numbers of one that are copied; or 0
LOW, HIGH = 0, 0  # the least and greatest stored value, where it is an integer of few bits


def load(value: Any) -> Any:
    """A stored value as a number."""
    return value


def store(value: Any) -> Any:
    """A number as a stored value."""
    return value


def copy_pair(plane: Array, at: int, pixels: Array, to: int) -> None:
    """Copy two neighbours: one load and one store."""
    pixels[to] = plane[at]
    pixels[to + 1] = plane[at + 1]


def copy_pixel(plane: Array, at: int, out: Array, to: int) -> None:
    """Copy ``PIXEL`` numbers: as few loads and stores as touch nothing else."""
    out[to : to + PIXEL] = plane[at : at + PIXEL]


def word(plane: Array, at: int) -> Any:
    """Four bytes from a place on, as one number, the first the lowest."""
    return sum(int(plane[at + k]) << 8 * k for k in range(4))


def half_word(plane: Array, at: int) -> Any:
    """As word, two bytes."""
    return sum(int(plane[at + k]) << 8 * k for k in range(2))


def no_lanes() -> Any:
    """A row of zeros."""
    return 0


def load_lanes(plane: Array, at: int) -> Any:
    """A row of numbers, side by side: one load."""
    return gather_lanes(plane, at, 1)


def gather_lanes(plane: Array, at: int, step: int) -> Any:
    """A row of numbers, a step apart."""
    return np.array([real(load(plane[at + k * step])) for k in range(4)])


def weigh_lanes(total: Any, weight: Any, row: Any) -> Any:
    """A sum of rows, and so many times one more."""
    return total + weight * row


def store_lanes(numbers: Array, at: int, row: Any) -> None:
    """Keep a row."""
    numbers[at : at + len(row)] = row


def collect(
    plane: Array, at: Array, shifts: Array, pixels: Array, taps: int, width: int, n: int
) -> None:
    """Pixels of inside points."""
    for t in range(taps):
        begin, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(at[i]) + shift]))


def collect_pairs(
    plane: Array, at: Array, shifts: Array, pixels: Array, taps: int, width: int, n: int
) -> None:
    """As collect, for an even number of taps along x, with the two pixels of a pair side by side.

    Tap t of point i is at ``t * width + 2 * i`` for even t, and the next one after it.  Where
    they are neighbours in memory too, as numbers, both are copied at once: half the loads.
    """
    one = unsigned(1)
    for t in range(0, taps, 2):
        begin, shift, other = unsigned(t) * width, address(shifts[t]), address(shifts[t + 1])
        if PAIRS:
            for i in range(n):
                copy_pair(plane, address(at[i]) + shift, pixels, begin + i + i)
        else:
            for i in range(n):
                pixels[begin + i + i] = real(load(plane[address(at[i]) + shift]))
                pixels[begin + i + i + one] = real(load(plane[address(at[i]) + other]))


def collect_words(
    plane: Array, at: Array, shifts: Array, words: Array, taps: int, width: int, n: int
) -> None:
    """As collect_pairs, of pixels of ``PIXEL`` bytes: bits, one or two words a pair.

    One word is both pixels, of one channel.  Two are a pixel each, with all channels: the fourth
    byte of three is another pixel's; of the right one of two, whose word might end where there is
    no memory, it is the left one's that is dropped.
    """
    one, two = unsigned(1), unsigned(2)
    for t in range(0, taps, 2):
        begin, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            here = address(at[i]) + shift
            if PIXEL == 1:
                words[begin + i] = integer(half_word(plane, here))
            elif PIXEL == 2:
                words[begin + i] = integer(word(plane, here))
            elif PIXEL == 3:
                words[begin + two * i] = integer(word(plane, here))
                words[begin + two * i + one] = integer(word(plane, here + address(2)) >> 8)
            else:
                words[begin + two * i] = integer(word(plane, here))
                words[begin + two * i + one] = integer(word(plane, here + address(4)))


def unpack(words: Array, shift: int, pixels: Array, taps: int, width: int, n: int) -> None:
    """The words' pixels, or one channel of them, as collect_pairs has them."""
    one, two = unsigned(1), unsigned(2)
    for t in range(0, taps, 2):
        begin = unsigned(t) * width
        if PIXEL == 1:
            for i in range(n):
                both = words[begin + i]
                pixels[begin + two * i] = real(both & integer(255))
                pixels[begin + two * i + one] = real((both >> integer(8)) & integer(255))
        elif PIXEL == 2:
            for i in range(n):
                both = words[begin + i]
                pixels[begin + two * i] = real(load(short(both)))
                pixels[begin + two * i + one] = real(load(short(both >> integer(16))))
        else:
            for i in range(begin, begin + n + n):
                pixels[i] = real((words[i] >> integer(shift)) & integer(255))


def collect_channel(
    plane: Array, at: Array, shifts: Array, words: Array, pixels: Array, channel: int, taps: int,
    width: int, n: int,
) -> None:  # fmt: skip
    """As collect_pairs, by way of words; those of the first channel serve them all."""
    channels = 1 if PIXEL < 3 else PIXEL
    if channel % channels == 0:
        collect_words(plane, at, shifts, words, taps, width, n)
    unpack(words, 8 * (channel % channels), pixels, taps, width, n)


def fetch_ahead(plane: Array, at: Array, shifts: Array, row: int, taps: int, n: int) -> None:
    """Ask for the memory of inside points, for each row of taps.

    Where an image is larger than the caches, far more of it is then on its way at a time than what
    the loads alone would wait for.
    """
    two = unsigned(2)  # neighbours share their lines of memory, more often than not
    for t in range(0, taps, row):
        shift = address(shifts[t])
        for i in range(unsigned(0), n, two):
            prefetch(plane, address(at[i]) + shift)


def collect_present(plane: Array, at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """Pixels of edges; for a dropped tap some pixel is read, for `mask` to replace."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(maximum(at[begin + i], integer(0)))]))


def mask(at: Array, pixels: Array, dropped: Any, taps: int, width: int, n: int) -> None:
    """Put another value under dropped taps: what was read there never enters a sum."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = where(at[begin + i] >= 0, pixels[begin + i], dropped)


def mask_weighed(
    at: Array, amount: Array, pixels: Array, dropped: Any, taps: int, width: int, n: int
) -> None:
    """As mask, but 0 where the weight is 0: the value may be no number, and count for nothing."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            other = where(amount[begin + i] == real(0), real(0), dropped)
            pixels[begin + i] = where(at[begin + i] >= 0, pixels[begin + i], other)


def pick(plane: Array, at: Array, out: Array, step: int, ahead: Array, each: int, n: int) -> None:
    """Copy the bits of one pixel a point; ask for ``each`` numbers a point of what is ahead."""
    eight = unsigned(8)
    for i in range(unsigned(0), n // eight * eight, eight):
        for k in range(unsigned(0), eight * each, unsigned(16)):
            prefetch(ahead, i * each + k)
        for k in range(i, i + eight):
            out[k * step] = plane[address(at[k])]
    for k in range(n // eight * eight, n):
        out[k * step] = plane[address(at[k])]


def pick_runs(
    plane: Array, at: Array, state: Array, out: Array, step: int, outside: Array, length: int,
    n: int,
) -> None:  # fmt: skip
    """As pick, where a pixel's channels lie side by side; what is outside where none is inside."""
    for i in range(n):
        begin, to = unsigned(address(at[i])), i * step
        if PIXEL:
            if state[i] == 0:
                copy_pixel(plane, begin, out, to)
            else:
                copy_pixel(outside, unsigned(0), out, to)
        elif state[i] == 0:
            for k in range(length):
                out[to + k] = plane[begin + k]
        else:
            for k in range(length):
                out[to + k] = outside[k]


def pick_runs_edges(
    plane: Array, at: Array, lost: Array, dropped: Array, holes: Array, which: Array, out: Array,
    step: int, length: int, n: int,
) -> None:  # fmt: skip
    """As pick_runs, at edges."""
    for j in range(n):
        begin, to = unsigned(maximum(at[j], integer(0))), unsigned(which[j]) * step
        for k in range(length):
            kept = plane[begin + k] if at[j] >= 0 else dropped[k]
            out[to + k] = holes[k] if lost[j] else kept


def pick_edges(
    plane: Array, at: Array, lost: Array, dropped: Any, hole: Any, which: Array,
    out: Array, step: int, n: int,
) -> None:  # fmt: skip
    """As pick, at edges; ``dropped`` under dropped taps, ``hole`` at lost points."""
    for j in range(n):
        bits = plane[address(maximum(at[j], integer(0)))]
        kept = where(at[j] >= 0, bits, dropped)
        out[unsigned(which[j]) * step] = where(lost[j] != 0, hole, kept)


def replace(state: Array, numbers: Array, outside: Any, n: int) -> None:
    """Put what is outside at the points that are not inside: edges get their own later."""
    for i in range(n):
        numbers[i] = where(state[i] == 0, numbers[i], outside)


def replace_bits(state: Array, out: Array, outside: Any, step: int, n: int) -> None:
    """As replace, in an output that takes bits as they are."""
    if step == unsigned(1):
        for i in range(n):
            out[i] = where(state[i] == 0, out[i], outside)
    else:
        for i in range(n):
            if state[i]:
                out[i * step] = outside


def blend(acc: Array, pixels: Array, amount: Array, taps: int, width: int, n: int) -> None:
    """acc = sum over taps of pixel * amount.

    Four taps a pass, because each pass loads and stores the sum.
    """
    for i in range(n):
        acc[i] = real(0)
    fours = taps // 4 * 4
    for t in range(0, fours, 4):
        a = unsigned(t) * width
        b, c, d = a + width, a + width + width, a + width + width + width
        for i in range(n):
            acc[i] += (
                amount[a + i] * pixels[a + i]
                + amount[b + i] * pixels[b + i]
                + amount[c + i] * pixels[c + i]
                + amount[d + i] * pixels[d + i]
            )
    for t in range(fours, taps):
        a = unsigned(t) * width
        for i in range(n):
            acc[i] += amount[a + i] * pixels[a + i]


def blend_pairs(acc: Array, pixels: Array, amount: Array, taps: int, width: int, n: int) -> None:
    """As blend, for pixels that were collected in pairs: two neighbours side by side."""
    for i in range(n):
        acc[i] = real(0)
    one = unsigned(1)
    fours = taps // 4 * 4
    for t in range(0, fours, 4):
        a = unsigned(t) * width
        b, c, d = a + width, a + width + width, a + width + width + width
        for i in range(n):
            upper, lower = a + i + i, c + i + i
            acc[i] += (
                amount[a + i] * pixels[upper]
                + amount[b + i] * pixels[upper + one]
                + amount[c + i] * pixels[lower]
                + amount[d + i] * pixels[lower + one]
            )
    for t in range(fours, taps, 2):
        a = unsigned(t) * width
        b = a + width
        for i in range(n):
            left = a + i + i
            acc[i] += amount[a + i] * pixels[left] + amount[b + i] * pixels[left + one]


def sum_rows(
    plane: Array, at: Array, shifts: Array, step: int, amount: Array, sums: Array, rows: int,
    width: int, n: int,
) -> None:  # fmt: skip
    """Rows of four taps of inside points, each weighed by ``amount``: sums (point, tap along x).

    Taps are a ``step`` apart.
    """
    four, count = unsigned(4), unsigned(ROWS) if ROWS else rows
    for i in range(n):
        here, total = address(at[i]), no_lanes()
        for r in range(count):
            begin = here + address(shifts[four * r])
            row = load_lanes(plane, begin) if BESIDE else gather_lanes(plane, begin, step)
            total = weigh_lanes(total, amount[r * width + i], row)
        store_lanes(sums, four * i, total)


def blend_across(acc: Array, sums: Array, across: Array, width: int, n: int) -> None:
    """acc = what `sum_rows` has summed, weighed ``across``."""
    one, two, three, four = unsigned(1), unsigned(2), unsigned(3), unsigned(4)
    for i in range(n):
        j = four * i
        acc[i] = (across[i] * sums[j] + across[width + i] * sums[j + one]) + (
            across[two * width + i] * sums[j + two] + across[three * width + i] * sums[j + three]
        )


def blend_linear(
    acc: Array, pixels: Array, x: Array, y: Array, z: Array, slid: Array, width: int, n: int
) -> None:
    """As blend_pairs, where every axis is linear: one axis after the other, from the fractions.

    Where some taps slide (``SLIDING``; see `gridsample.kernels.cpu.taps.slide`), pixels are those
    that were read, and become those of the taps here.
    """
    one, b, three = unsigned(1), width + width, integer(3)
    c, d = b + b, b + b + b
    if LINEAR == 1:
        for i in range(n):
            p, q = pixels[i + i], pixels[i + i + one]
            if SLIDING:
                p, q = slide_two(p, q, slid[i])
            acc[i] = between(p, q, x[i])
    elif LINEAR == 2:
        for i in range(n):
            j = i + i
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            if SLIDING:
                p, q, r, s = slide_four(p, q, r, s, slid[i] & three, slid[i] >> integer(2))
            acc[i] = between(between(p, q, x[i]), between(r, s, x[i]), y[i])
    else:
        for i in range(n):
            j = i + i
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            t, u, v, w = pixels[c + j], pixels[c + j + one], pixels[d + j], pixels[d + j + one]
            if SLIDING:
                across, down = slid[i] & three, (slid[i] >> integer(2)) & three
                p, q, r, s = slide_four(p, q, r, s, across, down)
                t, u, v, w = slide_four(t, u, v, w, across, down)
            near = between(between(p, q, x[i]), between(r, s, x[i]), y[i])
            far = between(between(t, u, x[i]), between(v, w, x[i]), y[i])
            if SLIDING:
                near, far = slide_two(near, far, slid[i] >> integer(4))
            acc[i] = between(near, far, z[i])


def slide_two(first: Any, second: Any, by: Any) -> tuple[Any, Any]:
    """Two pixels along an axis -> those of both taps; 0 for one that is dropped."""
    return (
        where(by == integer(STAYS), first, where(by == integer(DOWN), second, real(0))),
        where(by == integer(STAYS), second, where(by == integer(UP), first, real(0))),
    )


def slide_four(p: Any, q: Any, r: Any, s: Any, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """As slide_two, of a square of pixels."""
    p, q = slide_two(p, q, x)
    r, s = slide_two(r, s, x)
    p, r = slide_two(p, r, y)
    q, s = slide_two(q, s, y)
    return p, q, r, s


def slope_linear(
    sums: Array, g: Array, pixels: Array, x: Array, y: Array, z: Array, slid: Array, state: Array,
    width: int, n: int,
) -> None:  # fmt: skip
    """Add g times the slope of inside points along each axis to sums (axis, point).

    Where every axis is linear: for pixels that were collected in pairs, from the fractions.  Taps
    slide as in blend_linear.
    """
    one, b, three = unsigned(1), width + width, integer(3)
    c, d = b + b, b + b + b
    if LINEAR == 1:
        for i in range(n):
            p, q = pixels[i + i], pixels[i + i + one]
            if SLIDING:
                p, q = slide_two(p, q, slid[i])
            sums[i] += where(state[i] == 0, g[i] * (q - p), real(0))
    elif LINEAR == 2:
        for i in range(n):
            j = i + i
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            if SLIDING:
                p, q, r, s = slide_four(p, q, r, s, slid[i] & three, slid[i] >> integer(2))
            along = between(q - p, s - r, y[i])
            down = between(r - p, s - q, x[i])
            sums[i] += where(state[i] == 0, g[i] * along, real(0))
            sums[width + i] += where(state[i] == 0, g[i] * down, real(0))
    else:
        for i in range(n):
            j = i + i
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            t, u, v, w = pixels[c + j], pixels[c + j + one], pixels[d + j], pixels[d + j + one]
            if SLIDING:
                across, fall = slid[i] & three, (slid[i] >> integer(2)) & three
                sink = slid[i] >> integer(4)
                p, q, r, s = slide_four(p, q, r, s, across, fall)
                t, u, v, w = slide_four(t, u, v, w, across, fall)
                p, t = slide_two(p, t, sink)
                q, u = slide_two(q, u, sink)
                r, v = slide_two(r, v, sink)
                s, w = slide_two(s, w, sink)
            along = between(between(q - p, s - r, y[i]), between(u - t, w - v, y[i]), z[i])
            down = between(between(r - p, s - q, x[i]), between(v - t, w - u, x[i]), z[i])
            deep = between(between(t - p, u - q, x[i]), between(v - r, w - s, x[i]), y[i])
            sums[i] += where(state[i] == 0, g[i] * along, real(0))
            sums[width + i] += where(state[i] == 0, g[i] * down, real(0))
            sums[b + i] += where(state[i] == 0, g[i] * deep, real(0))


def between(a: Any, b: Any, t: Any) -> Any:
    """The number at t between a and b."""
    return a * (ONE - t) + b * t


# The same where some taps slide; bound by lowering.
blend_sliding, slope_sliding, share_sliding = blend_linear, slope_linear, share_linear


def fetch(values: Array, step: int, numbers: Array, n: int) -> None:
    """Stored values -> numbers."""
    for i in range(n):
        numbers[i] = real(load(values[i * step]))


def fetch_edges(values: Array, step: int, which: Array, numbers: Array, n: int) -> None:
    """As fetch, at the listed points."""
    for j in range(n):
        numbers[j] = real(load(values[unsigned(which[j]) * step]))


def settle(numbers: Array, out: Array, step: int, n: int) -> None:
    """Numbers -> stored values."""
    if step == unsigned(1):
        for i in range(n):
            out[i] = store(numbers[i])
    else:
        for i in range(n):
            out[i * step] = store(numbers[i])


def round_off(numbers: Array, whole: Array, n: int) -> None:
    """Numbers -> integers of few bits: half to even, saturated, and 0 for what is no number."""
    for i in range(n):
        rounded = rint(minimum(maximum(numbers[i], real(LOW)), real(HIGH)))
        whole[i] = integer(where(numbers[i] == numbers[i], rounded, real(0)))


def settle_whole(whole: Array, out: Array, step: int, n: int) -> None:
    """Integers -> stored values."""
    for i in range(n):
        out[i * step] = whole[i]


def settle_edges(
    numbers: Array, lost: Array, hole: Any, which: Array, out: Array, step: int, n: int
) -> None:
    """As settle, at the listed points; ``hole`` at those that are nowhere."""
    for j in range(n):
        value = hole if lost[j] else numbers[j]
        out[unsigned(which[j]) * step] = store(value)


def settle_run(numbers: Array, out: Array, n: int) -> None:
    """As settle, for the channels of one point."""
    for i in range(n):
        out[i] = store(numbers[i])


# What lowering compiles: what sliding makes of pixels; loops over separate arrays, which vectorise;
# and loops that do not.
SLIDING_TAPS = (slide_two, unslide_two, slide_four, unslide_four)


LOOPS = (
    mask,
    mask_weighed,
    replace,
    blend,
    blend_pairs,
    blend_across,
    blend_linear,
    slope_linear,
    share,
    share_linear,
    ("blend_sliding", blend_linear, {"SLIDING": True}),
    ("slope_sliding", slope_linear, {"SLIDING": True}),
    ("share_sliding", share_linear, {"SLIDING": True}),
    scale,
    accumulate,
    add,
    accumulate_edges,
    replace_bits,
    round_off,
)


SCATTERED = (
    collect_words, settle_whole, fetch_ahead, pick, pick_edges, pick_runs, pick_runs_edges, spread,
    spread_band, spread_pairs, spread_present, silence, settle_axis, settle_axis_edges,
)  # fmt: skip
