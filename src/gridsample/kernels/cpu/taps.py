"""From a block of coordinates to a list of taps: where each is, and how much it weighs.

A block is a few hundred output points, so that everything worked out here stays in cache and is
then used for every plane.  Arrays over a block's points are flat: entry i of tap t is at
``t * width + i``.  Each loop runs over the points of a few such arrays with unsigned counters:
that is the form LLVM vectorises.  What is the same for the whole block (alignment, boundary,
method) is decided outside the loops.

The functions are plain Python; `gridsample.kernels.cpu.build` lowers them to Numba with the names
below bound for a precision (``real``), an index width (``integer``) and a storage type (``load``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gridsample.axis import (
    BORDER,
    DROPPED,
    REFLECTION,
    ZERO,
    ZEROS,
    confine,
    fold,
    fold_index,
    known,
    position,
    slope,
    split,
    where,
)

Array = Any

# Bound by lowering.
real = float
integer = int
unsigned = int

# How much of a block's taps is kept; of several axes, the least counts.
NONE, SOME, ALL = 0, 1, 2

# Columns of the table that describes the axes to the kernels, one row an axis in x, y, z order.
SIZE, ALIGNED, BOUNDARY, EDGE, COUNT, FIRST, ROUNDS, FOLDS, POWERS, ORDER, COLUMNS = range(11)


def load(value: Any) -> Any:
    """A stored value as a number; bound by lowering for storage that the target has no type for."""
    return value


class Block(NamedTuple):
    """What a block is worked out in: pieces of one array of reals and one of indices."""

    width: int  # points of a block
    each: int  # taps of a point: the product of the axes' taps
    base: Array  # (point) base index along the axis in hand
    lost: Array  # (point) the coordinate is nowhere
    at: Array  # (tap, point) offset in the plane, or DROPPED; x runs fastest over the taps
    offset: Array  # (axis, tap, point) along one axis, or DROPPED
    fraction: Array  # (point)
    slopes: Array  # (point) d position / d coordinate
    numbers: Array  # (point) values that come in or go out
    along: Array  # (point)
    pixels: Array  # (tap, point)
    amount: Array  # (0: plain, 1 + a: the order of axis a raised; tap, point) products of weights
    weight: Array  # (axis, 0: the order asked for, 1: the next one; tap, point) along one axis


def room(counts: tuple[int, ...], kinds: int, width: int) -> tuple[int, int]:
    """How many reals and indices `carve` needs, for so many taps along each axis."""
    count, most = math.prod(counts), max(counts)
    return (4 + (1 + kinds) * count + len(counts) * 2 * most) * width, (
        2 + count + len(counts) * most
    ) * width


def carve(description: Array, kinds: int, width: int, reals: Array, indices: Array) -> Block:
    """Cut the two arrays into the pieces of a block."""
    count = 1
    for a in range(len(description)):
        count *= description[a, COUNT]
    size = count * width
    free = 4 * width + size
    return Block(
        width,
        count,
        indices[:width],
        indices[width : 2 * width],
        indices[2 * width : 2 * width + size],
        indices[2 * width + size :],
        reals[:width],
        reals[width : 2 * width],
        reals[2 * width : 3 * width],
        reals[3 * width : 4 * width],
        reals[4 * width : free],
        reals[free : free + kinds * size],
        reals[free + kinds * size :],
    )


def read(coordinates: Array, step: int, pos: Array, n: int) -> None:
    """Coordinates of one axis, side by side."""
    for i in range(n):
        pos[i] = real(load(coordinates[i * step]))


def locate(axis: Array, n: int, pos: Array, base: Array, slopes: Array, lost: Array) -> bool:
    """Coordinates -> base indices, fractions (in the coordinates' place) and slopes.

    True where some point may be lost.

    slopes get d position / d coordinate, the fold's sign included; lost marks the points that are
    nowhere.
    """
    boundary, last, edge, reach = (
        axis[BOUNDARY],
        real(axis[SIZE] - 1),
        real(axis[EDGE]),
        real(axis[COUNT] + 1),
    )
    if axis[ALIGNED]:
        for i in range(n):
            pos[i] = position(pos[i], last, True)
    else:
        for i in range(n):
            pos[i] = position(pos[i], last, False)
    some_lost = find_lost(pos, boundary, lost, n)
    steep = slope(last, axis[ALIGNED] != 0)
    # A loop for each boundary: one loop that chooses inside is not lifted, and runs at a third of
    # the speed.
    if boundary == ZEROS or not axis[FOLDS]:
        for i in range(n):
            slopes[i] = steep
    if boundary == ZEROS:
        for i in range(n):
            pos[i] = confine(pos[i], last, reach, ZEROS, edge)
    elif boundary == BORDER and axis[FOLDS]:
        for i in range(n):
            folded, sign = fold(pos[i], last, reach, BORDER, edge)
            pos[i] = folded
            slopes[i] = sign * steep
    elif boundary == BORDER:
        for i in range(n):
            pos[i] = confine(pos[i], last, reach, BORDER, edge)
    elif axis[FOLDS]:
        for i in range(n):
            folded, sign = fold(pos[i], last, reach, REFLECTION, edge)
            pos[i] = folded
            slopes[i] = sign * steep
    else:
        for i in range(n):
            pos[i] = confine(pos[i], last, reach, REFLECTION, edge)
    if axis[ROUNDS]:
        for i in range(n):
            whole, part = split(pos[i], True)
            base[i] = integer(whole)
            pos[i] = part
    else:
        for i in range(n):
            whole, part = split(pos[i], False)
            base[i] = integer(whole)
            pos[i] = part
    return some_lost


def find_lost(pos: Array, boundary: int, lost: Array, n: int) -> bool:
    """Mark the points whose position is nowhere, and put them at pixel 0.

    True where there may be any.
    """
    some: Any = integer(0)
    for i in range(n):
        some |= where(pos[i] - pos[i] == ZERO, integer(0), integer(1))
    if some:  # NaN or infinite: rare, and only the first is nowhere under every boundary
        for i in range(n):
            sure = known(pos[i], boundary)
            lost[i] |= where(sure, integer(0), integer(1))
            pos[i] = where(sure, pos[i], ZERO)
    return bool(some)


def lay_taps(axis: Array, base: Array, stride: int, offset: Array, width: int, n: int) -> int:
    """Base indices -> offset of each tap along one axis; how much of the block's taps is kept."""
    size, boundary, edge, step = axis[SIZE], axis[BOUNDARY], axis[EDGE], integer(stride)
    low, high = base[0], base[0]
    for i in range(n):
        low = min(low, base[i])
        high = max(high, base[i])
    first, after = axis[FIRST], axis[FIRST] + axis[COUNT]
    inside = low + first >= 0 and high + after <= size
    dropping = boundary == ZEROS or axis[FOLDS] != 0
    if dropping and (high + after <= 0 or low + first >= size):
        return NONE
    for k in range(axis[COUNT]):
        begin = unsigned(k) * width
        shift: Any = integer(first + k)
        if inside:
            for i in range(n):
                offset[begin + i] = (base[i] + shift) * step
        elif dropping:
            for i in range(n):
                index: Any = integer(base[i] + shift)
                offset[begin + i] = where(
                    (index >= 0) & (index < size), integer(index * step), integer(DROPPED)
                )
        else:
            for i in range(n):
                offset[begin + i] = fold_index(base[i] + shift, size, boundary, edge) * step
    return ALL if inside or not dropping else SOME


def weigh_taps(
    axis: Array,
    table: Array,
    order: int,
    t: Array,
    slopes: Array,
    weight: Array,
    width: int,
    n: int,
) -> None:
    """Weights of all taps of an axis at the fractions t, times slope ** order.

    ``table`` (tap, power) is that of the order; the power of the slope is the chain rule's, from
    position to coordinate.
    """
    powers = axis[POWERS]
    for k in range(axis[COUNT]):
        top, begin = table[k, powers - 1], unsigned(k) * width
        if powers == 1:
            for i in range(n):
                weight[begin + i] = top
        else:
            below = table[k, powers - 2]
            for i in range(n):
                weight[begin + i] = top * t[i] + below
        for power in range(powers - 3, -1, -1):
            coefficient = table[k, power]
            for i in range(n):
                weight[begin + i] = weight[begin + i] * t[i] + coefficient
        for _ in range(order):
            for i in range(n):
                weight[begin + i] *= slopes[i]


def join(at: Array, taps: int, offset: Array, more: int, clean: bool, width: int, n: int) -> None:
    """Offsets of ``taps`` taps -> those of taps * more taps: one more axis is multiplied out.

    Downwards, because the first taps are read until they are made, last.
    """
    for k in range(more - 1, -1, -1):
        along = unsigned(k) * width
        for t in range(taps):
            old, new = unsigned(t) * width, unsigned(k * taps + t) * width
            if k and clean:
                for i in range(n):
                    at[new + i] = at[old + i] + offset[along + i]
            elif clean:
                for i in range(n):
                    at[old + i] += offset[i]
            elif k:
                for i in range(n):
                    dropped = (at[old + i] | offset[along + i]) < 0
                    at[new + i] = where(
                        dropped, integer(DROPPED), integer(at[old + i] + offset[along + i])
                    )
            else:
                for i in range(n):
                    dropped = (at[old + i] | offset[i]) < 0
                    at[old + i] = where(dropped, integer(DROPPED), integer(at[old + i] + offset[i]))


def multiply(amount: Array, taps: int, weight: Array, more: int, width: int, n: int) -> None:
    """As join, for the products of the weights."""
    for k in range(more - 1, -1, -1):
        along = unsigned(k) * width
        for t in range(taps):
            old, new = unsigned(t) * width, unsigned(k * taps + t) * width
            if k:
                for i in range(n):
                    amount[new + i] = amount[old + i] * weight[along + i]
            else:
                for i in range(n):
                    amount[old + i] *= weight[i]


def prepare(
    description: Array, tables: Array, orders: int, kinds: int, strides: Array,
    grid: Array, axis_step: int, point_step: int, n: int, block: Block,
) -> int:  # fmt: skip
    """List the taps of the ``n`` points that ``grid`` starts with; how much of them is kept.

    Weights are worked out for ``orders`` successive orders, and ``kinds`` kinds of products are
    made of them.  Lost points are nowhere: all their taps are dropped.  Where none is kept, no tap
    is listed.
    """
    axes, width, most = len(description), unsigned(block.width), 1
    for a in range(axes):
        most = max(most, description[a, COUNT])
    size, kind = most * block.width, block.each * block.width
    for i in range(n):
        block.lost[i] = integer(0)
    kept, some_lost = ALL, False
    for a in range(axes):
        axis = description[a]
        # What belongs to x is worked out where the other axes' is joined to it.
        offset = block.offset[a * size :] if a else block.at
        weight, next_order = (block.weight[2 * a * size :], size) if a else (block.amount, kind)
        read(grid[a * axis_step :], unsigned(point_step), block.fraction, n)
        some_lost |= locate(axis, n, block.fraction, block.base, block.slopes, block.lost)
        kept = min(kept, lay_taps(axis, block.base, strides[a], offset, width, n))
        for o in range(orders):
            order = axis[ORDER] + o
            weigh_taps(
                axis,
                tables[a, o],
                order,
                block.fraction,
                block.slopes,
                weight[o * next_order :],
                width,
                n,
            )
    if kept != NONE:
        if some_lost:
            drop_lost(block.lost, block.at, description[0, COUNT], width, n)
            kept = SOME
        expand(description, kinds, size, kept == ALL, block, n)
    return kept


def expand(description: Array, kinds: int, size: int, clean: bool, block: Block, n: int) -> None:
    """Taps along each axis -> taps of the points."""
    width, along_x = unsigned(block.width), description[0, COUNT]
    count = along_x
    for a in range(1, len(description)):
        join(block.at, count, block.offset[a * size :], description[a, COUNT], clean, width, n)
        count *= description[a, COUNT]
    for kind in range(kinds - 1, -1, -1):
        # Kind 0 is the plain product; in kind 1 + a the order of axis a is raised.
        amount, count = block.amount[kind * block.each * block.width :], along_x
        if kind > 1:
            copy(block.amount, amount, along_x * block.width)
        for a in range(1, len(description)):
            weight = block.weight[(2 * a + (1 if kind == 1 + a else 0)) * size :]
            multiply(amount, count, weight, description[a, COUNT], width, n)
            count *= description[a, COUNT]


def copy(source: Array, target: Array, n: int) -> None:
    """Copy the first ``n`` entries."""
    for j in range(unsigned(n)):
        target[j] = source[j]


def drop_lost(lost: Array, offset: Array, taps: int, width: int, n: int) -> None:
    """Drop every tap of the lost points."""
    for k in range(taps):
        for i in range(n):
            if lost[i]:
                offset[unsigned(k) * width + i] = integer(DROPPED)


# What lowering compiles from axis.py, and then from here, in an order in which each uses only
# those before it.
ELEMENTWISE = (position, slope, known, confine, fold, split, fold_index)
LOOPS = (find_lost, locate, lay_taps, weigh_taps, drop_lost, copy, join, multiply)
