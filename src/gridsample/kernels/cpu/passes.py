"""Inner loops of the planar sweeps: over the points of a block, for one plane.

Pixels are first collected, tap by tap, with plain loads, which are faster than most processors'
gather instructions.  Then they are blended, which vectorises.  `gridsample.kernels.cpu.taps`
explains flat arrays, inside points and edges.
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
LINEAR = 0  # the rank if all axes are linear
SLIDING = False  # whether some of a block's taps slide
PAIRS = False  # whether neighbours along x are contiguous in an image, and need no conversion
BESIDE = False  # whether the taps in a row of four are contiguous, in any storage type
ROWS = 0  # the number of such rows, or 0 if it is an argument
PIXEL = 0  # bytes of a pixel that is read by words, or numbers of one that is copied; or 0
EMPTY = 0.0  # what a tap gets that is dropped by sliding
LOW, HIGH = 0, 0  # the least and greatest stored value, if it is an integer of few bits


def load(value: Any) -> Any:
    """Convert a stored value to a number."""
    return value


def store(value: Any) -> Any:
    """Convert a number to a stored value."""
    return value


def copy_pair(plane: Array, at: int, pixels: Array, to: int) -> None:
    """Copy two contiguous numbers with one load and one store."""
    pixels[to] = plane[at]
    pixels[to + 1] = plane[at + 1]


def copy_pixel(plane: Array, at: int, out: Array, to: int) -> None:
    """Copy ``PIXEL`` numbers with as few loads and stores as possible, and touch nothing else."""
    out[to : to + PIXEL] = plane[at : at + PIXEL]


def word(plane: Array, at: int) -> Any:
    """Return the four bytes from a place on as one number, lowest byte first."""
    return sum(int(plane[at + k]) << 8 * k for k in range(4))


def half_word(plane: Array, at: int) -> Any:
    """Return the two bytes from a place on as one number, lowest byte first."""
    return sum(int(plane[at + k]) << 8 * k for k in range(2))


def no_lanes() -> Any:
    """Return a row of zeros."""
    return 0


def load_lanes(plane: Array, at: int) -> Any:
    """Load a row of contiguous numbers: one load."""
    return gather_lanes(plane, at, 1)


def gather_lanes(plane: Array, at: int, step: int) -> Any:
    """Load a row of numbers that are ``step`` apart."""
    return np.array([real(load(plane[at + k * step])) for k in range(4)])


def weigh_lanes(total: Any, weight: Any, row: Any) -> Any:
    """Return total + weight * row."""
    return total + weight * row


def store_lanes(numbers: Array, at: int, row: Any) -> None:
    """Store a row."""
    numbers[at : at + len(row)] = row


def collect(
    plane: Array, at: Array, shifts: Array, pixels: Array, taps: int, width: int, n: int
) -> None:
    """Collect the pixels of inside points."""
    for t in range(taps):
        begin, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(at[i]) + shift]))


def collect_pairs(
    plane: Array, at: Array, shifts: Array, pixels: Array, taps: int, width: int, n: int
) -> None:
    """Collect the pixels of inside points, with the two pixels of a pair next to each other.

    The number of taps along x is even.  Tap t of point i is at ``t * width + 2 * i`` for even t,
    and tap t + 1 follows it.  If both are contiguous in memory, without conversion, they are copied
    together, which halves the loads.
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
    """Collect pairs of pixels, of ``PIXEL`` bytes each, as bits: one or two words per pair.

    One word holds both pixels of one channel.  Two words hold a pixel each, with all its channels.
    If a pixel has three bytes, the fourth byte is another pixel's.  A word that starts at the right
    pixel might extend beyond the memory, so it starts one byte earlier, and that byte is shifted
    out.
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
    """Unpack the pixels in words, or one channel of them, in the layout of `collect_pairs`."""
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
    """Collect pairs of pixels of a channel by words, which are read for the first channel only."""
    channels = 1 if PIXEL < 3 else PIXEL
    if channel % channels == 0:
        collect_words(plane, at, shifts, words, taps, width, n)
    unpack(words, 8 * (channel % channels), pixels, taps, width, n)


def fetch_ahead(plane: Array, at: Array, shifts: Array, row: int, taps: int, n: int) -> None:
    """Prefetch the pixels of inside points, for each row of taps.

    If an image is larger than the caches, many more of its cache lines are then requested at a time
    than by the loads alone.
    """
    two = unsigned(2)  # neighbouring points usually share cache lines
    for t in range(0, taps, row):
        shift = address(shifts[t])
        for i in range(unsigned(0), n, two):
            prefetch(plane, address(at[i]) + shift)


def collect_present(plane: Array, at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """Collect the pixels of edges; a dropped tap reads some pixel, which `mask` replaces."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(maximum(at[begin + i], integer(0)))]))


def mask(at: Array, pixels: Array, dropped: Any, taps: int, width: int, n: int) -> None:
    """Replace the pixels of dropped taps, so that what was read there never enters a sum."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = where(at[begin + i] >= 0, pixels[begin + i], dropped)


def mask_weighed(
    at: Array, amount: Array, pixels: Array, dropped: Any, taps: int, width: int, n: int
) -> None:
    """Replace the pixels of dropped taps: by 0 if the weight is 0, else by a value, perhaps NaN."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            other = where(amount[begin + i] == real(0), real(0), dropped)
            pixels[begin + i] = where(at[begin + i] >= 0, pixels[begin + i], other)


def pick(plane: Array, at: Array, out: Array, step: int, ahead: Array, each: int, n: int) -> None:
    """Copy the bits of one pixel per point; prefetch ``each`` numbers per point of ``ahead``."""
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
    """Copy one pixel per point, with contiguous channels; copy ``outside`` if not inside."""
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
    """Copy one pixel per edge with all its contiguous channels."""
    for j in range(n):
        begin, to = unsigned(maximum(at[j], integer(0))), unsigned(which[j]) * step
        for k in range(length):
            kept = plane[begin + k] if at[j] >= 0 else dropped[k]
            out[to + k] = holes[k] if lost[j] else kept


def pick_edges(
    plane: Array, at: Array, lost: Array, dropped: Any, hole: Any, which: Array,
    out: Array, step: int, n: int,
) -> None:  # fmt: skip
    """Copy one pixel per edge: ``dropped`` for dropped taps, ``hole`` for lost points."""
    for j in range(n):
        bits = plane[address(maximum(at[j], integer(0)))]
        kept = where(at[j] >= 0, bits, dropped)
        out[unsigned(which[j]) * step] = where(lost[j] != 0, hole, kept)


def replace(state: Array, numbers: Array, outside: Any, n: int) -> None:
    """Store the outside value at points that are not inside; edges get their own values later."""
    for i in range(n):
        numbers[i] = where(state[i] == 0, numbers[i], outside)


def replace_bits(state: Array, out: Array, outside: Any, step: int, n: int) -> None:
    """Store the outside value, as bits in the output, at points that are not inside."""
    if step == unsigned(1):
        for i in range(n):
            out[i] = where(state[i] == 0, out[i], outside)
    else:
        for i in range(n):
            if state[i]:
                out[i * step] = outside


def blend(acc: Array, pixels: Array, amount: Array, taps: int, width: int, n: int) -> None:
    """acc = sum over taps of pixel * amount.

    Each pass processes four taps, because it loads and stores the sum.
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
    """Blend pixels that were collected in pairs, with the two of a pair next to each other."""
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
    """Sum rows of four taps of inside points, weighted by ``amount``: sums (point, tap along x).

    Taps are ``step`` apart.
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
    """acc = the sums of `sum_rows`, weighted by ``across``."""
    one, two, three, four = unsigned(1), unsigned(2), unsigned(3), unsigned(4)
    for i in range(n):
        j = four * i
        acc[i] = (across[i] * sums[j] + across[width + i] * sums[j + one]) + (
            across[two * width + i] * sums[j + two] + across[three * width + i] * sums[j + three]
        )


def blend_linear(
    acc: Array, pixels: Array, x: Array, y: Array, z: Array, slid: Array, width: int, n: int
) -> None:
    """Blend pairs of pixels if every axis is linear: one axis after the other, by fractions.

    If some taps slide (``SLIDING``; see `gridsample.kernels.cpu.positions.slide`), the pixels are
    those that were read, and are replaced here by those of the taps.
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
    """Convert two pixels along an axis to those of both taps; a dropped tap gets ``EMPTY``."""
    return (
        where(by == integer(STAYS), first, where(by == integer(DOWN), second, EMPTY)),
        where(by == integer(STAYS), second, where(by == integer(UP), first, EMPTY)),
    )


def slide_four(p: Any, q: Any, r: Any, s: Any, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Slide the taps of a square of pixels along two axes."""
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

    This is for linear axes and pixels that were collected in pairs, and uses fractions.  Taps slide
    as in `blend_linear`.
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
    """Interpolate linearly between a and b at t."""
    return a * (ONE - t) + b * t


# Variants for blocks in which some taps slide; bound by lowering.
blend_sliding, slope_sliding, share_sliding = blend_linear, slope_linear, share_linear


def fetch(values: Array, step: int, numbers: Array, n: int) -> None:
    """Convert stored values to numbers."""
    for i in range(n):
        numbers[i] = real(load(values[i * step]))


def fetch_edges(values: Array, step: int, which: Array, numbers: Array, n: int) -> None:
    """Convert stored values of listed points to numbers."""
    for j in range(n):
        numbers[j] = real(load(values[unsigned(which[j]) * step]))


def settle(numbers: Array, out: Array, step: int, n: int) -> None:
    """Convert numbers to stored values."""
    if step == unsigned(1):
        for i in range(n):
            out[i] = store(numbers[i])
    else:
        for i in range(n):
            out[i * step] = store(numbers[i])


def round_off(numbers: Array, whole: Array, n: int) -> None:
    """Round numbers to integers of few bits: half to even, saturated, and 0 for NaN."""
    for i in range(n):
        rounded = rint(minimum(maximum(numbers[i], real(LOW)), real(HIGH)))
        whole[i] = integer(where(numbers[i] == numbers[i], rounded, real(0)))


def settle_whole(whole: Array, out: Array, step: int, n: int) -> None:
    """Store integers."""
    for i in range(n):
        out[i * step] = whole[i]


def settle_edges(
    numbers: Array, lost: Array, hole: Any, which: Array, out: Array, step: int, n: int
) -> None:
    """Convert numbers of listed points to stored values; points that are nowhere get ``hole``."""
    for j in range(n):
        value = hole if lost[j] else numbers[j]
        out[unsigned(which[j]) * step] = store(value)


def settle_run(numbers: Array, out: Array, n: int) -> None:
    """Convert the channels of one point to stored values."""
    for i in range(n):
        out[i] = store(numbers[i])


# What lowering compiles: the functions that slide pixels; loops over arrays that do not overlap,
# which vectorise; and loops that do not vectorise.
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
