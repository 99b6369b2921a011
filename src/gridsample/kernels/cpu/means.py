"""Means over the pixels that are numbers: what drivers do in addition to plain sampling.

    out = sum(w m v) / sum(w m),   m = 0 for a pixel v that is NaN, otherwise 1

Plain samples are computed first.  One that is a number has no NaN among its pixels, and is the
result.  For the others, both sums are computed from the same pixels.  A tap that is dropped is a
known number, or NaN if the outside does not count.

Where the loops of plain sampling have collected pixels, `mark` replaces those that are NaN by 0,
and lists what remains as ones, and the same loops sum both.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ONE, where
from gridsample.kernels.compile.records import with_records
from gridsample.kernels.cpu.blocks import (
    ABOVE,
    AMOUNT,
    AT,
    BELOW,
    EACH,
    FRACTION,
    HERE,
    LISTED,
    LOST,
    MARKS,
    NUMBERS,
    PIXELS,
    PLACES,
    RUN,
    STATE,
    WEIGHT,
    WIDTH,
    tail,
)
from gridsample.kernels.cpu.passes import (
    blend,
    blend_across,
    blend_linear,
    blend_pairs,
    blend_sliding,
    no_lanes,
    weigh_lanes,
)
from gridsample.kernels.cpu.records import Block, Lattice, Surroundings
from gridsample.kernels.cpu.runs import (
    fold_lanes,
    load_lanes,
    load_pixel,
    no_pixel,
    read_pixel,
    store_pixel,
    zero_run,
)

Array = Any

# Bound by lowering.
real = float
integer = int
int64 = int
unsigned = int
address = int
ZERO = 0.0
PAIRS = False
LINEAR = 0
FOURS = False
BESIDE = False
FEW = 0
TOGETHER = 1
ROWS = 0


def load(value: Any) -> Any:
    """Convert a stored value to a number."""
    return value


def gather_lanes(plane: Array, at: int, step: int) -> Any:
    """Load a row of numbers that are ``step`` apart."""


def weigh_present(total: Any, weight: Any, row: Any) -> Any:
    """Return total + weight * row, or the total where the row is NaN."""


def weigh_known(total: Any, weight: Any, row: Any) -> Any:
    """Return total + weight, or the total where the row is NaN."""


def mean_lanes(plain: Any, above: Any, below: Any, least: Any, absent: Any) -> Any:
    """Return plain samples where they are numbers, and quotients elsewhere."""


def store_lanes(numbers: Array, at: int, row: Any) -> None:
    """Store a row."""


def least_of(around: Any) -> Any:
    """Return the weight that results must exceed."""
    return around.least[0]


def absent_of(around: Any, first: int) -> Any:
    """Return the values of missing results, from a plane on."""
    return tail(around.absent, first)


# Numbers of points --------------------------------------------------------------------------------


def all_known(numbers: Array, n: int) -> bool:
    """Whether no number is NaN."""
    lost: Any = integer(0)
    for i in range(n):
        lost |= where(numbers[i] == numbers[i], integer(0), integer(1))
    return bool(lost == integer(0))


def mark(pixels: Array, marks: Array, lines: int, pitch: int, n: int) -> None:
    """Store 1 for pixels that are numbers; for others, store 0, and replace them by 0."""
    for t in range(lines):
        begin = unsigned(t) * pitch
        for i in range(begin, begin + n):
            known = pixels[i] == pixels[i]
            marks[i] = where(known, ONE, ZERO)
            pixels[i] = where(known, pixels[i], ZERO)


def divide(numbers: Array, above: Array, below: Array, least: Any, absent: Any, n: int) -> None:
    """Replace numbers that are NaN by quotients."""
    for i in range(n):
        quotient = where(below[i] > least, above[i] / below[i], absent)
        numbers[i] = where(numbers[i] == numbers[i], numbers[i], quotient)


# A twin for runs, which are short.
run_known = all_known
# Twins that sum marks, bound by lowering: a tap that is dropped where taps slide is known.
blend_marks_sliding = blend_sliding


def sum_known_rows(
    numbers: Array, plane: Array, at: Array, shifts: Array, step: int, amount: Array, above: Array,
    below: Array, rows: int, width: int, n: int,
) -> None:  # fmt: skip
    """Sum rows of four taps as `passes.sum_rows`, without NaN, and the weights of what is left.

    This is only done for points whose numbers are NaN.
    """
    four, count = unsigned(4), unsigned(ROWS) if ROWS else rows
    for i in range(n):
        if numbers[i] == numbers[i]:
            continue
        here, total, weight = address(at[i]), no_lanes(), no_lanes()
        for r in range(count):
            begin = here + address(shifts[four * r])
            row = load_lanes(plane, begin) if BESIDE else gather_lanes(plane, begin, step)
            total = weigh_present(total, amount[r * width + i], row)
            weight = weigh_known(weight, amount[r * width + i], row)
        store_lanes(above, four * i, total)
        store_lanes(below, four * i, weight)


def average_inside(
    numbers: Array, plane: Array, lattice: Lattice, block: Block, slid: Array, slides: Any,
    least: Any, absent: Any, n: int,
) -> None:  # fmt: skip
    """Replace plain samples of a block that are NaN by means over the pixels that are not."""
    if all_known(numbers, n):
        return
    width, count = block.table[WIDTH], unsigned(block.table[EACH])
    wide, two = unsigned(width), unsigned(2)
    pixels, marks = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[MARKS])
    above, below = tail(block.reals, block.table[ABOVE]), tail(block.reals, block.table[BELOW])
    amount, across = tail(block.reals, block.table[AMOUNT]), tail(block.reals, block.table[WEIGHT])
    x = tail(block.reals, block.table[FRACTION])
    y, z = tail(x, width), tail(x, 2 * width)
    if FOURS:
        at, gap = tail(block.indices, block.table[AT]), unsigned(lattice.strides[0])
        rows = count // unsigned(4)
        sum_known_rows(
            numbers, plane, at, lattice.shifts, gap, amount, pixels, marks, rows, wide, n
        )
        blend_across(above, pixels, across, wide, n)
        blend_across(below, marks, across, wide, n)
    elif LINEAR:
        mark(pixels, marks, count // two, two * wide, two * n)
        if slides:
            blend_sliding(above, pixels, x, y, z, slid, wide, n)
            blend_marks_sliding(below, marks, x, y, z, slid, wide, n)
        else:
            blend_linear(above, pixels, x, y, z, slid, wide, n)
            blend_linear(below, marks, x, y, z, slid, wide, n)
    elif PAIRS:
        mark(pixels, marks, count // two, two * wide, two * n)
        blend_pairs(above, pixels, amount, count, wide, n)
        blend_pairs(below, marks, amount, count, wide, n)
    else:
        mark(pixels, marks, count, wide, n)
        blend(above, pixels, amount, count, wide, n)
        blend(below, marks, amount, count, wide, n)
    divide(numbers, above, below, least, absent, n)


def average_edges(block: Block, least: Any, absent: Any, n: int) -> None:
    """Replace plain samples of listed edges that are NaN."""
    numbers = tail(block.reals, block.table[NUMBERS])
    if all_known(numbers, n):
        return
    wide, count = unsigned(block.table[WIDTH]), unsigned(block.table[EACH])
    pixels, marks = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[MARKS])
    above, below = tail(block.reals, block.table[ABOVE]), tail(block.reals, block.table[BELOW])
    amount = tail(block.reals, block.table[AMOUNT])
    mark(pixels, marks, count, wide, n)
    blend(above, pixels, amount, count, wide, n)
    blend(below, marks, amount, count, wide, n)
    divide(numbers, above, below, least, absent, n)


# Runs of channels ---------------------------------------------------------------------------------


def average_few(
    out: Array, step: int, image: Array, shifts: Array, block: Block, outside: Array, least: Any,
    absent: Array, rows: int, n: int,
) -> None:  # fmt: skip
    """Average as `runs.blend_few` blends."""
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    amount, across = tail(block.reals, block.table[AMOUNT]), tail(block.reals, block.table[WEIGHT])
    nothing, count = load_pixel(outside, 0), unsigned(ROWS) if ROWS else rows
    missing, width = load_pixel(absent, 0), unsigned(block.table[WIDTH])
    for i in range(n):
        pixel = nothing
        if state[i] == 0:
            here, total, above, below = address(at[i]), no_lanes(), no_lanes(), no_lanes()
            for r in range(count):
                row = load_lanes(image, here + address(shifts[unsigned(TOGETHER) * r]))
                weight = amount[r * width + i]
                total = weigh_lanes(total, weight, row)
                above = weigh_present(above, weight, row)
                below = weigh_known(below, weight, row)
            pixel = mean_lanes(
                fold_lanes(total, across, i, width), fold_lanes(above, across, i, width),
                fold_lanes(below, across, i, width), least, missing,
            )  # fmt: skip
        store_pixel(out, i * step, pixel)


def average_few_edges(
    out: Array, step: int, image: Array, block: Block, which: Array, dropped: Array, holes: Array,
    least: Any, absent: Array, n: int,
) -> None:  # fmt: skip
    """Average as `runs.blend_few_edges` blends."""
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    amount, width = tail(block.reals, block.table[AMOUNT]), unsigned(block.table[WIDTH])
    nothing, hole, missing = load_pixel(dropped, 0), load_pixel(holes, 0), load_pixel(absent, 0)
    for j in range(n):
        total, above, below = no_pixel(), no_pixel(), no_pixel()
        for t in range(unsigned(block.table[EACH])):
            k = t * width + j
            weight = amount[k]
            if places[k] >= 0 or weight != real(0):
                pixel = nothing
                if places[k] >= 0:
                    pixel = read_pixel(image, address(places[k]))
                total = weigh_lanes(total, weight, pixel)
                above = weigh_present(above, weight, pixel)
                below = weigh_known(below, weight, pixel)
        pixel = mean_lanes(total, above, below, least, missing)
        store_pixel(out, unsigned(which[j]) * step, hole if lost[j] else pixel)


def add_known(above: Array, below: Array, image: Array, at: int, weight: Any, n: int) -> None:
    """Add a run, weighted, without its NaN, and the weights of what is left."""
    for k in range(n):
        pixel = real(load(image[at + k]))
        known = pixel == pixel
        above[k] += where(known, weight * pixel, ZERO)
        below[k] += where(known, weight, ZERO)


def add_four_known(
    above: Array, below: Array, image: Array, a: int, b: int, c: int, d: int,
    wa: Any, wb: Any, wc: Any, wd: Any, n: int,
) -> None:  # fmt: skip
    """Add four runs likewise."""
    for k in range(n):
        p, q = real(load(image[a + k])), real(load(image[b + k]))
        r, s = real(load(image[c + k])), real(load(image[d + k]))
        above[k] += (where(p == p, wa * p, ZERO) + where(q == q, wb * q, ZERO)) + (
            where(r == r, wc * r, ZERO) + where(s == s, wd * s, ZERO)
        )
        below[k] += (where(p == p, wa, ZERO) + where(q == q, wb, ZERO)) + (
            where(r == r, wc, ZERO) + where(s == s, wd, ZERO)
        )


def add_known_outside(above: Array, below: Array, outside: Array, weight: Any, n: int) -> None:
    """Add the values outside, weighted, without NaN, and the weights of what is left."""
    for k in range(n):
        known = outside[k] == outside[k]
        above[k] += where(known, weight * outside[k], ZERO)
        below[k] += where(known, weight, ZERO)


def divide_run(
    numbers: Array, above: Array, below: Array, least: Any, absent: Array, n: int
) -> None:
    """Replace numbers that are NaN by quotients, with a value of missing results per channel."""
    for k in range(n):
        quotient = where(below[k] > least, above[k] / below[k], absent[k])
        numbers[k] = where(numbers[k] == numbers[k], numbers[k], quotient)


def average_run(
    run: Array, image: Array, shifts: Array, block: Block, least: Any, absent: Array, size: int,
    i: int,
) -> None:  # fmt: skip
    """Replace what is NaN in the plain sample of inside point i."""
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    if state[i] != 0 or run_known(run, size):
        return
    amount, width = tail(block.reals, block.table[AMOUNT]), unsigned(block.table[WIDTH])
    above = tail(block.reals, block.table[RUN] + int64(size))
    below, here = tail(above, int64(size)), address(at[i])
    zero_run(above, unsigned(0), size)
    zero_run(below, unsigned(0), size)
    one, two, three, four = unsigned(1), unsigned(2), unsigned(3), unsigned(4)
    taps, t = unsigned(block.table[EACH]), unsigned(0)
    while t + four <= taps:
        k = t * width + i
        add_four_known(
            above, below, image, here + address(shifts[t]), here + address(shifts[t + one]),
            here + address(shifts[t + two]), here + address(shifts[t + three]), amount[k],
            amount[k + width], amount[k + two * width], amount[k + three * width], size,
        )  # fmt: skip
        t += four
    while t < taps:
        place = here + address(shifts[t])
        add_known(above, below, image, place, amount[t * width + i], size)
        t += one
    divide_run(run, above, below, least, absent, size)


def average_runs(
    out: Array, step: int, image: Array, shifts: Array, block: Block, least: Any, absent: Array,
    size: int, n: int,
) -> None:  # fmt: skip
    """Replace what is NaN in the plain samples of a block; ``step`` is from point to point."""
    if step == size and all_known(out, n * step):
        return
    for i in range(n):
        average_run(tail(out, i * step), image, shifts, block, least, absent, size, i)


def average_run_edge(
    image: Array, block: Block, dropped: Array, least: Any, absent: Array, count: int, size: int
) -> None:
    """Replace what is NaN in the plain sample of an edge, ``count`` of whose taps are present."""
    run, amount = tail(block.reals, block.table[RUN]), tail(block.reals, block.table[AMOUNT])
    if run_known(run, size):
        return
    here, taps = tail(block.indices, block.table[HERE]), tail(block.indices, block.table[LISTED])
    above = tail(run, int64(size))
    below = tail(above, int64(size))
    zero_run(above, unsigned(0), size)
    zero_run(below, unsigned(0), size)
    for k in range(count):
        add_known(above, below, image, address(here[k]), amount[unsigned(taps[k])], size)
    for k in range(count, unsigned(block.table[EACH])):
        weight = amount[unsigned(taps[k])]
        if weight != real(0):
            add_known_outside(above, below, dropped, weight, size)
    divide_run(run, above, below, least, absent, size)


# What lowering compiles: what is inlined; loops over arrays that do not overlap; the steps; and
# short loops over runs, of which the first ones read the image, and their steps.
INLINED = tuple(
    with_records(one, one.__name__, around=Surroundings) for one in (least_of, absent_of)
)
LOOPS = (all_known, mark, divide)
RUN_LOADING = (add_known, add_four_known)
RUN_LOOPS = (("run_known", all_known, {}), add_known_outside, divide_run)
STEPS = (average_inside, average_edges)
RUN_STEPS = (average_run, average_runs, average_run_edge)
