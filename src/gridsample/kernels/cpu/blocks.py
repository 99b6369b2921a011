"""Blocks of points: what describes one to the kernels, and how points are cut into them.

A block is a few hundred output points, so that everything worked out for it stays in cache and is
then used for every plane.  Arrays over a block's points are flat: entry i of tap t is at
``t * width + i``.
"""

from __future__ import annotations

import math
from typing import Any

from gridsample.definitions.axis import HALF, maximum, minimum
from gridsample.kernels.axes import MEASURES, STEEP, STEP
from gridsample.kernels.cpu.records import Block, Line

Array = Any
# Bound by lowering.
real = float
integer = int
unsigned = int
AFFINE = False  # whether a grid's memory holds affine maps instead, rows of D + 1 numbers

# Orders of derivative that there are tables for: the one asked for, and the next two.
ORDERS = 3


# What a point is.
INSIDE, EDGE, OUT, NOWHERE = 0, 1, 2, 4


# How two taps slide along an axis: where the first is dropped, the second is the first pixel that
# is read; where the second is dropped, the first is the second one.
STAYS, UP, DOWN = 0, 1, 2


# A block as the kernels know it: a table of numbers that hold for all of it, and of where its
# pieces begin in one array of indices and one of reals.
AXES, MOST, EACH, PITCH, WIDTH = range(5)  # axes; most taps of one, of all; powers; points


FITS = 24  # whether the image has as many pixels as taps along each axis: otherwise none is inside


AT = 5  # (point) inside: offset of the first tap in the plane


STATE = 6  # (point) what kind of point it is


WHICH = 7  # (edge) which point of the task it is; room for those of one block more


LOST = 8  # (edge) the coordinate is nowhere


BASE = 9  # (edge) base index along the axis in hand


PLACES = 10  # (tap, edge) offset in the plane, or DROPPED; x runs fastest over the taps


OFFSET = 11  # (axis, tap, edge) along one axis, or DROPPED


HERE, LISTED = 12, 13  # (tap) of one point: where each is, and which it is


POS = 14  # (point) coordinate


FRACTION = 15  # (axis, point)


SLOPES = 16  # (point) d position / d coordinate


NUMBERS = 17  # (point) values that come in or go out


ALONG = 18  # (point)


SUMS = 19  # (axis, point) gradient of the grid


PIXELS = 20  # (tap, point)


AMOUNT = 21  # (0: plain, 1 + a: the order of axis a raised; tap, point) products of weights


WEIGHT = 22  # (axis, 0: the order asked for, 1, 2: the next ones; tap, point) along one axis


RUN = 23  # (channel) of one point


LEANS = 25  # (axis, 0: the order asked for, 1: the next one; tap, point) how weights change


OTHERS = 26  # (tap, point) pixels of another image


COORDINATES = 27  # (axis, point) that a map sends the points to


ROW, STRIP = 28, 29  # points in a row that may be cut into strips, or 0; and those of a strip


DEEP = 31  # rows of the image that a row crosses from which it is cut


FILLS = 30  # whether a fill counts at points without a tap: weights do not sum to one


# Where a block holds points of several items, which then are one list of points: the points of an
# item, or 0; from one item's image to the next one's; and how many more points apart the items'
# values are than if they came one after the other.
SHARED, APART, GAP = 32, 33, 34


PUT = 35  # (edge) where its value is, in points from the task's first


# Whether points of which some taps are dropped count as inside: then their taps slide, see `slide`;
# and (point) by how much, two bits for each axis.
SLIDES, SLID = 36, 37


TILED = 38  # (channel; point, channel; pixel, channel) what channels have that are side by side


PLACED = 39  # (weight, point) or (axis, point), see `gridsample.kernels.cpu.linear_lanes`


KEYS = 40  # (tap, point) labels that vote, see `gridsample.kernels.cpu.labels`


ENTRIES = 41


def plan_block(
    counts: tuple[int, ...],
    powers: int,
    fits: bool,
    kinds: int,
    width: int,
    run: int,
    twice: bool = False,
    votes: bool = False,
) -> tuple[list[int], int, int]:
    """The table of a block, and how many indices and reals it needs.

    ``counts`` are the taps of each axis, ``kinds`` the kinds of products of weights; ``twice`` adds
    what second derivatives need, ``votes`` what labels do.
    """
    axes, most, each = len(counts), max(counts), math.prod(counts)
    table = [axes, most, each, powers, width] + [0] * (ENTRIES - 5)
    table[FITS] = fits
    indices = {
        AT: 1, STATE: 1, WHICH: 2, LOST: 1, BASE: 1, PUT: 1, SLID: 1, PLACES: each,
        OFFSET: axes * most,
    }  # fmt: skip
    reals = {
        POS: 1, FRACTION: axes, SLOPES: 1, NUMBERS: 1, ALONG: 1, SUMS: axes, PIXELS: each,
        AMOUNT: kinds * each, WEIGHT: ORDERS * axes * most, COORDINATES: axes, PLACED: 2 * axes,
    }  # fmt: skip
    if votes:
        indices[KEYS] = each
    if twice:
        reals |= {LEANS: 2 * axes * most, OTHERS: each}
    ends = []
    for rows in (indices, reals):
        end = 0
        for piece, count in rows.items():
            table[piece] = end
            end += count * width
        ends.append(end)
    table[HERE], table[LISTED], table[RUN] = ends[0], ends[0] + each, ends[1]
    table[TILED] = -(-(ends[1] + run) // 16) * 16
    return table, ends[0] + 2 * each, table[TILED]


def load(value: Any) -> Any:
    """A stored value as a number; bound by lowering for storage that the target has no type for."""
    return value


def tail(array: Array, start: int) -> Array:
    """What follows in a flat array; bound by lowering to what compiles to one instruction."""
    return array[start:]


def prefetch(memory: Array, at: int) -> None:
    """Ask for the memory of an entry, which will soon be read; bound by lowering."""


def lay_blocks(block: Block, points: Line, count: int) -> tuple[int, int, int]:
    """How ``count`` points are cut into blocks, by the row of points that comes first.

    One after the other; or, where a row of points crosses many rows of the image, in strips, down
    which one block shares most of its pixels with the next: a whole row of points would need more
    of the image than the first cache has.

    Returns the points in a row that is cut, and in a block, and how far it is to the next one.
    """
    row, strip, width = block.table[ROW], block.table[STRIP], block.table[WIDTH]
    if row == 0:
        return count, width, width
    steep = block.measures[MEASURES + STEEP]
    if AFFINE:
        fall = real(points.memory[block.table[AXES] + 1]) * block.measures[STEP] * real(row) * steep
        straight = True
    else:
        y, middle = tail(points.memory, points.axis), row // 2 * points.point
        begin, end = real(load(y[0])), real(load(y[middle + middle - points.point]))
        fall, bend = (end - begin) * steep, (begin + end) * HALF - real(load(y[middle]))
        straight = maximum(bend, -bend) * steep <= maximum(fall, -fall) * HALF
    if not (straight and maximum(fall, -fall) > real(block.table[DEEP])):
        return count, width, width
    return row, strip, row


def next_block(start: int, begins: int, points: int, row: int, strip: int) -> tuple[int, int]:
    """Where the next block starts, and its strip begins: below, or else where the next strip does.

    There is none, once a strip would begin where the row ends.
    """
    below = start + row < points
    begins = begins if below else begins + strip
    return (start + row if below else begins), begins


def next_piece(block: Array, point: int, left: int) -> Any:
    """How many of the ``left`` points from ``point`` on have values that come one after another."""
    if block[GAP] == 0:
        return left
    return minimum(left, block[SHARED] - point % block[SHARED])


def find_piece(block: Array, point: int) -> Any:
    """Where the value of a point is, both counted in points over all items."""
    if block[GAP] == 0:
        return point
    return point + point // block[SHARED] * block[GAP]


def zero(numbers: Array, n: int) -> None:
    """Indices that are all 0."""
    for i in range(n):
        numbers[i] = integer(0)


def fill(numbers: Array, value: Any, n: int) -> None:
    """Numbers that are all the same."""
    for i in range(n):
        numbers[i] = value


def copy(source: Array, target: Array, taps: int, width: int, n: int) -> None:
    """Copy the entries of so many taps."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            target[begin + i] = source[begin + i]
