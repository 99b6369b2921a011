"""The drivers: over items, blocks of points, and planes.  One call is one task of one thread.

All share one shape.  For each block of points the taps are listed once (`prepare`), and then every
plane, or every run of channels, uses them.  Memory is flat and described by numbers (see
`gridsample.kernels.memory`): ``source`` and ``target`` list where each plane starts, ``*_item`` is
the distance from one item of the batch to the next (0 where the batch is broadcast), strides count
elements.
"""

from __future__ import annotations

from typing import Any

from gridsample.axis import DROPPED
from gridsample.kernels.cpu.passes import (
    accumulate,
    blank,
    blend,
    blend_pairs,
    collect,
    collect_pairs,
    collect_present,
    fetch,
    mask,
    pick,
    pick_checked,
    settle,
    share,
    silence,
    spread,
    spread_checked,
)
from gridsample.kernels.cpu.runs import add_run, blend_runs, dot, list_taps
from gridsample.kernels.cpu.taps import ALL, NONE, ORDER, POWERS, SOME, carve, prepare

Array = Any

# Bound by lowering.
real = float
integer = int
int64 = int
unsigned = int
address = int
PAIRS = False


def window(out: Array, scratch: Array) -> Array:
    """Where numbers are worked on: in place where they are stored as they are, else in scratch."""
    return scratch


def gather(
    image: Array, strides: Array, source: Array, image_item: int,
    grid: Array, grid_item: int, axis_step: int, point_step: int,
    out: Array, target: Array, out_item: int, out_step: int,
    description: Array, tables: Array, width: int, reals: Array, indices: Array, hole: Any,
    first_item: int, last_item: int, first: int, last: int,
) -> None:  # fmt: skip
    """Sample points first..last of items first_item..last_item in every plane.

    Lost points become ``hole``.
    """
    block, wide = carve(description, 1, width, reals, indices), unsigned(width)
    at, pixels, amount, count = block.at, block.pixels, block.amount, block.each
    for item in range(first_item, last_item):
        for start in range(first, last, width):
            n = unsigned(min(width, last - start))
            points = grid[item * grid_item + start * point_step :]
            kept = prepare(
                description, tables, 1, 1, strides, points, axis_step, point_step, n, block
            )
            for p in range(len(source)):
                plane = image[source[p] + item * image_item :]
                here = out[target[p] + item * out_item + start * out_step :]
                numbers = window(here, block.numbers)
                if PAIRS and kept == ALL:
                    collect_pairs(plane, at, pixels, count, wide, n)
                    blend_pairs(numbers, pixels, amount, count, wide, n)
                elif kept == ALL:
                    collect(plane, at, pixels, count, wide, n)
                    blend(numbers, pixels, amount, count, wide, n)
                else:
                    if kept == SOME:
                        collect_present(plane, at, pixels, count, wide, n)
                        mask(at, pixels, count, wide, n)
                    blend(numbers, pixels, amount, count if kept == SOME else 0, wide, n)
                    blank(numbers, block.lost, hole, n)
                settle(numbers, here, unsigned(out_step), n)


def gather_nearest(
    image: Array, strides: Array, source: Array, image_item: int,
    grid: Array, grid_item: int, axis_step: int, point_step: int,
    out: Array, target: Array, out_item: int, out_step: int,
    description: Array, tables: Array, width: int, reals: Array, indices: Array, hole: Any,
    first_item: int, last_item: int, first: int, last: int,
) -> None:  # fmt: skip
    """As gather, where each axis has one tap of weight one: bits are copied, whatever they mean."""
    block, step = carve(description, 0, width, reals, indices), unsigned(out_step)
    for item in range(first_item, last_item):
        for start in range(first, last, width):
            n = unsigned(min(width, last - start))
            points = grid[item * grid_item + start * point_step :]
            kept = prepare(
                description, tables, 0, 0, strides, points, axis_step, point_step, n, block
            )
            if kept == NONE:
                clear(block.at, n)
            for p in range(len(source)):
                plane = image[source[p] + item * image_item :]
                here = out[target[p] + item * out_item + start * out_step :]
                if kept == ALL:
                    pick(plane, block.at, here, step, n)
                else:
                    pick_checked(plane, block.at, block.lost, hole, here, step, n)


def gather_runs(
    image: Array, strides: Array, source: Array, image_item: int, length: int,
    grid: Array, grid_item: int, axis_step: int, point_step: int,
    out: Array, target: Array, out_item: int, out_step: int,
    description: Array, tables: Array, width: int, reals: Array, indices: Array, hole: Any,
    first_item: int, last_item: int, first: int, last: int,
) -> None:  # fmt: skip
    """As gather, where a pixel's channels lie side by side: a tap is a run of ``length``."""
    block, wide, size = (
        carve(description, 1, width, reals, indices),
        unsigned(width),
        unsigned(length),
    )
    scratch, here, which = tails(reals, indices, length, block.each)
    for item in range(first_item, last_item):
        for start in range(first, last, width):
            n = unsigned(min(width, last - start))
            points = grid[item * grid_item + start * point_step :]
            if (
                prepare(description, tables, 1, 1, strides, points, axis_step, point_step, n, block)
                == NONE
            ):
                clear(block.at, len(block.at))
            for p in range(len(source)):
                pixels = image[source[p] + item * image_item :]
                for i in range(n):
                    place = out[target[p] + item * out_item + (start + int64(i)) * out_step :]
                    numbers = window(place, scratch)
                    count = list_taps(block.at, block.each, wide, i, here, which)
                    blend_runs(numbers, pixels, here, block.amount, which, count, size)
                    if block.lost[i]:
                        for j in range(size):
                            numbers[j] = hole
                    settle(numbers, place, unsigned(1), size)


def backward(
    image: Array, source: Array, image_item: int,
    shadow: Array, shadow_source: Array, shadow_item: int, strides: Array,
    grid: Array, grid_item: int, axis_step: int, point_step: int,
    values: Array, target: Array, values_item: int, values_step: int,
    gradient: Array, description: Array, tables: Array, width: int, reals: Array, indices: Array,
    first_item: int, last_item: int, first: int, last: int,
    need_image: bool, need_grid: bool, banded: bool, low: int, high: int,
) -> None:  # fmt: skip
    """Scatter the values of every plane to their taps in ``shadow``, and sum the grid's gradient.

    ``strides`` are the image's, the shadow's, or both's.  Where the call is ``banded``, only taps
    whose offset in the shadow's plane is in [low, high) are written; otherwise [low, high) is the
    whole plane. A pixel is always added to in the order of items and points, however the work is
    divided: the sums are the same bit for bit.
    """
    axes, wide = len(description), unsigned(width)
    orders, kinds = (2, 1 + axes) if need_grid else (1, 1)
    block = carve(description, kinds, width, reals, indices)
    at, pixels, amount, count, g = block.at, block.pixels, block.amount, block.each, block.numbers
    for item in range(first_item, last_item):
        for start in range(first, last, width):
            n = unsigned(min(width, last - start))
            points = grid[item * grid_item + start * point_step :]
            kept = prepare(
                description, tables, orders, kinds, strides, points, axis_step, point_step, n, block
            )
            for p in range(len(target) if kept != NONE else 0):
                fetch(
                    values[target[p] + item * values_item + start * values_step :],
                    unsigned(values_step),
                    g,
                    n,
                )
                if kept == SOME:
                    silence(at, g, count, wide, n)
                if need_grid:
                    plane = image[source[p] + item * image_item :]
                    if kept == ALL:
                        collect(plane, at, pixels, count, wide, n)
                    else:
                        collect_present(plane, at, pixels, count, wide, n)
                        mask(at, pixels, count, wide, n)
                    for a in range(axes):
                        if description[a, ORDER] + 1 >= description[a, POWERS]:
                            continue  # no derivative but zero, whatever the pixels are
                        blend(
                            block.along, pixels, amount[(1 + a) * count * width :], count, wide, n
                        )
                        accumulate(gradient[item, start:, a:], g, block.along, n)
                if need_image:
                    plane = shadow[shadow_source[p] + item * shadow_item :]
                    share(g, amount, pixels, count, wide, n)
                    if kept == ALL and not banded:
                        spread(plane, at, pixels, count, wide, n)
                    else:
                        spread_checked(plane, at, pixels, low, high, count, wide, n)


def backward_runs(
    image: Array, source: Array, image_item: int,
    shadow: Array, shadow_source: Array, shadow_item: int, strides: Array,
    length: int, grid: Array, grid_item: int, axis_step: int, point_step: int,
    values: Array, target: Array, values_item: int, values_step: int,
    gradient: Array, description: Array, tables: Array, width: int, reals: Array, indices: Array,
    first_item: int, last_item: int, first: int, last: int,
    need_image: bool, need_grid: bool, banded: bool, low: int, high: int,
) -> None:  # fmt: skip
    """As backward, where the channels of a pixel lie side by side."""
    axes, wide, size = len(description), unsigned(width), unsigned(length)
    orders, kinds = (2, 1 + axes) if need_grid else (1, 1)
    block = carve(description, kinds, width, reals, indices)
    g, here, which = tails(reals, indices, length, block.each)
    kind = unsigned(block.each * width)
    for item in range(first_item, last_item):
        for start in range(first, last, width):
            n = unsigned(min(width, last - start))
            points = grid[item * grid_item + start * point_step :]
            if (
                prepare(
                    description,
                    tables,
                    orders,
                    kinds,
                    strides,
                    points,
                    axis_step,
                    point_step,
                    n,
                    block,
                )
                == NONE
            ):
                continue
            for i in range(n):
                point = start + int64(i)
                count = list_taps(block.at, block.each, wide, i, here, which)
                for p in range(len(target)):
                    fetch(
                        values[target[p] + item * values_item + point * values_step :],
                        unsigned(1),
                        g,
                        size,
                    )
                    pixels = image[source[p] + item * image_item :]
                    plane = shadow[shadow_source[p] + item * shadow_item :]
                    for k in range(count):
                        tap = unsigned(which[k])
                        if need_grid:
                            product = dot(pixels[here[k] :], g, size)
                            for a in range(unsigned(axes)):
                                if description[a, ORDER] + 1 >= description[a, POWERS]:
                                    continue
                                gradient[item, point, a] += (
                                    product * block.amount[(a + unsigned(1)) * kind + tap]
                                )
                        if need_image and (not banded or low <= here[k] < high):
                            add_run(plane[here[k] :], g, block.amount[tap], size)


def clear(at: Array, n: int) -> None:
    """Drop every tap."""
    for i in range(unsigned(n)):
        at[i] = integer(DROPPED)


def tails(reals: Array, indices: Array, length: int, count: int) -> tuple[Array, Array, Array]:
    """Room for a run, and for one point's taps, at the ends of the scratch arrays."""
    end = len(indices)
    return (
        reals[len(reals) - length :],
        indices[end - 2 * count - 2 : end - count - 1],
        indices[end - count - 1 :],
    )
