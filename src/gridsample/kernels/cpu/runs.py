"""Inner loops over the channels of a pixel if they are contiguous in memory: a run.

Whole runs are added, four taps at a time, which suits the processor best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.kernels.cpu.passes import no_lanes, weigh_lanes

Array = Any

# Bound by lowering.
real = float
integer = int
unsigned = int
address = int
FEW = 0  # how many contiguous channels of a pixel fit a register
TOGETHER = 1  # how many pixels along x are read together
ROWS = 0  # the number of such rows, or 0 if it is an argument


def load(value: Any) -> Any:
    """Convert a stored value to a number."""
    return value


def load_lanes(image: Array, at: int) -> Any:
    """Load ``TOGETHER`` contiguous pixels: one load."""
    return np.array([real(load(one)) for one in image[at : at + TOGETHER * FEW]])


def fold_lanes(row: Any, weights: Array, at: int, width: int) -> Any:
    """Return the weighted sum of a row's pixels; a single pixel is returned unchanged.

    The weights are ``width`` apart.
    """
    if TOGETHER == 1:
        return row
    return sum(weights[at + k * width] * row[k * FEW : (k + 1) * FEW] for k in range(TOGETHER))


def no_pixel() -> Any:
    """Return a pixel of zeros."""
    return 0


def read_pixel(image: Array, at: int) -> Any:
    """Load a stored pixel as numbers."""
    return np.array([real(load(one)) for one in image[at : at + FEW]])


def load_pixel(numbers: Array, at: int) -> Any:
    """Load a pixel of numbers."""
    return numbers[at : at + FEW]


def store_pixel(out: Array, at: int, pixel: Any) -> None:
    """Store a pixel in its storage type."""
    out[at : at + FEW] = pixel


def list_inside(
    at: int, shifts: Array, taps: int, width: int, i: int, here: Array, which: Array
) -> int:
    """List the places and indices of inside point i's taps; return their number."""
    for t in range(taps):
        here[t] = integer(at + shifts[t])
        which[t] = integer(t * width + i)
    return taps


def list_present(at: Array, taps: int, width: int, j: int, here: Array, which: Array) -> int:
    """List the taps of edge j; dropped taps come last and are not counted in the result."""
    count, end = unsigned(0), taps
    for t in range(taps):
        place = at[t * width + j]
        if place >= 0:
            here[count] = place
            which[count] = integer(t * width + j)
            count += unsigned(1)
        else:
            end -= unsigned(1)
            which[end] = integer(t * width + j)
    return count


def start_four(
    acc: Array, o: int, image: Array, a: int, b: int, c: int, d: int,
    wa: Any, wb: Any, wc: Any, wd: Any, n: int,
) -> None:  # fmt: skip
    """acc = the weighted sum of four runs, given by where they start."""
    for j in range(n):
        acc[o + j] = (wa * real(load(image[a + j])) + wb * real(load(image[b + j]))) + (
            wc * real(load(image[c + j])) + wd * real(load(image[d + j]))
        )


def add_four(
    acc: Array, o: int, image: Array, a: int, b: int, c: int, d: int,
    wa: Any, wb: Any, wc: Any, wd: Any, n: int,
) -> None:  # fmt: skip
    """acc += the weighted sum of four runs."""
    for j in range(n):
        acc[o + j] += (wa * real(load(image[a + j])) + wb * real(load(image[b + j]))) + (
            wc * real(load(image[c + j])) + wd * real(load(image[d + j]))
        )


def add_one(acc: Array, o: int, image: Array, a: int, wa: Any, n: int) -> None:
    """acc += one run, weighted."""
    for j in range(n):
        acc[o + j] += wa * real(load(image[a + j]))


def copy_run(acc: Array, o: int, outside: Array, n: int) -> None:
    """acc = the values outside."""
    for j in range(n):
        acc[o + j] = outside[j]


def zero_run(acc: Array, o: int, n: int) -> None:
    """acc = 0."""
    for j in range(n):
        acc[o + j] = real(0)


def blend_inside(
    acc: Array, step: int, image: Array, at: Array, state: Array, shifts: Array, amount: Array,
    outside: Array, width: int, taps: int, size: int, n: int,
) -> None:  # fmt: skip
    """For each inside point, acc = the weighted sum of its runs; for others, the values outside.

    ``step`` is the distance from one point's sums to the next one's.
    """
    one, two, three, four = unsigned(1), unsigned(2), unsigned(3), unsigned(4)
    for i in range(n):
        o = i * step
        if state[i]:
            copy_run(acc, o, outside, size)
            continue
        if taps < four:
            zero_run(acc, o, size)
        here, t = address(at[i]), unsigned(0)
        while t + four <= taps:
            a, b = here + address(shifts[t]), here + address(shifts[t + one])
            c, d = here + address(shifts[t + two]), here + address(shifts[t + three])
            k = t * width + i
            wa, wb = amount[k], amount[k + width]
            wc, wd = amount[k + two * width], amount[k + three * width]
            if t:
                add_four(acc, o, image, a, b, c, d, wa, wb, wc, wd, size)
            else:
                start_four(acc, o, image, a, b, c, d, wa, wb, wc, wd, size)
            t += four
        while t < taps:
            add_one(acc, o, image, here + address(shifts[t]), amount[t * width + i], size)
            t += one


def blend_few(
    out: Array, step: int, image: Array, at: Array, state: Array, shifts: Array, amount: Array,
    across: Array, outside: Array, width: int, rows: int, n: int,
) -> None:  # fmt: skip
    """Blend and store pixels of so few channels that those of ``TOGETHER`` taps fit a register.

    Rows are weighted by ``amount``, and then the taps along x by ``across``.
    """
    nothing, count = load_pixel(outside, 0), unsigned(ROWS) if ROWS else rows
    for i in range(n):
        pixel = nothing
        if state[i] == 0:
            here, total = address(at[i]), no_lanes()
            for r in range(count):
                row = load_lanes(image, here + address(shifts[unsigned(TOGETHER) * r]))
                total = weigh_lanes(total, amount[r * width + i], row)
            pixel = fold_lanes(total, across, i, width)
        store_pixel(out, i * step, pixel)


def blend_few_edges(
    out: Array, step: int, image: Array, places: Array, lost: Array, which: Array, amount: Array,
    dropped: Array, holes: Array, width: int, taps: int, n: int,
) -> None:  # fmt: skip
    """Blend and store such pixels at edges; a dropped tap contributes if its weight is not 0."""
    nothing, hole = load_pixel(dropped, 0), load_pixel(holes, 0)
    for j in range(n):
        pixel = no_pixel()
        for t in range(taps):
            k = t * width + j
            if places[k] >= 0:
                pixel = weigh_lanes(pixel, amount[k], read_pixel(image, address(places[k])))
            elif amount[k] != real(0):
                pixel = weigh_lanes(pixel, amount[k], nothing)
        store_pixel(out, unsigned(which[j]) * step, hole if lost[j] else pixel)


def blend_present(
    acc: Array, image: Array, here: Array, amount: Array, which: Array, count: int, n: int
) -> None:
    """acc = the weighted sum of ``count`` listed runs."""
    zero_run(acc, unsigned(0), n)
    for k in range(count):
        add_one(acc, unsigned(0), image, address(here[k]), amount[unsigned(which[k])], n)


def add_outside(
    acc: Array, dropped: Array, amount: Array, which: Array, count: int, taps: int, n: int
) -> None:
    """Add the contributions of dropped taps whose weights are not 0."""
    for k in range(count, taps):
        weight = amount[unsigned(which[k])]
        if weight != real(0):
            blend_outside(acc, dropped, weight, n)


def blend_outside(acc: Array, outside: Array, weight: Any, n: int) -> None:
    """acc += weight * outside, one value per channel."""
    for j in range(n):
        acc[j] += weight * outside[j]


def dot(run: Array, g: Array, n: int) -> Any:
    """Return the inner product of a run with g."""
    total = real(0)
    for j in range(n):
        total += real(load(run[j])) * g[j]
    return total


def dot_outside(outside: Array, g: Array, n: int) -> Any:
    """Return the inner product of the values outside with g."""
    total = real(0)
    for j in range(n):
        total += outside[j] * g[j]
    return total


def add_run(run: Array, g: Array, amount: Any, n: int) -> None:
    """Add amount * g to a run."""
    for j in range(n):
        run[j] += amount * g[j]


# What lowering compiles: the lists, loops that read the image, and loops that do not.
LISTS = (list_inside, list_present)
LOADING = (start_four, add_four, add_one)
LOOPS = (zero_run, copy_run, blend_outside, add_run)
