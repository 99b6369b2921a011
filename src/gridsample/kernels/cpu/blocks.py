"""Blocks of points: how a block is described to the kernels, and how points are cut into blocks.

A block is a few hundred output points, so that everything computed for it stays in cache and is
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
AFFINE = False  # whether a grid's memory holds affine maps, as rows of D + 1 numbers

# The number of derivative orders with tables: the requested order and the next two.
ORDERS = 3


# The classes of points.
INSIDE, EDGE, OUT, NOWHERE = 0, 1, 2, 4


# How two taps slide along an axis.  UP: the first is dropped, and the second is the first of the
# two pixels that are read.  DOWN: the second is dropped, and the first is the second of the pixels.
STAYS, UP, DOWN = 0, 1, 2


# A block is described by a table: numbers that hold for the whole block, and the offsets of its
# pieces in one array of indices and one of reals.
AXES, MOST, EACH, PITCH, WIDTH = range(5)  # axes; most taps of an axis, taps of all; powers; points


FITS = 24  # whether each axis has at least as many pixels as taps; if not, no point is inside


AT = 5  # (point) of inside points: offset of the first tap in the plane


STATE = 6  # (point) its class


WHICH = 7  # (edge) its point's index in the task; there is room for the edges of one more block


LOST = 8  # (edge) whether the point is nowhere


BASE = 9  # (edge) base index along the current axis


PLACES = 10  # (tap, edge) offset in the plane, or DROPPED; x runs fastest over the taps


OFFSET = 11  # (axis, tap, edge) along one axis, or DROPPED


HERE, LISTED = 12, 13  # (tap) for one point: the offset of each kept tap, and the tap's index


POS = 14  # (point) coordinate


FRACTION = 15  # (axis, point)


SLOPES = 16  # (point) d position / d coordinate


NUMBERS = 17  # (point) input or output values


ALONG = 18  # (point)


SUMS = 19  # (axis, point) gradient of the grid


PIXELS = 20  # (tap, point)


AMOUNT = 21  # (0: plain, 1 + a: the order of axis a raised; tap, point) products of weights


WEIGHT = 22  # (axis, 0: the requested order, 1, 2: the next ones; tap, point) along one axis


RUN = 23  # (channel) of one point


LEANS = 25  # (axis, 0: the requested order, 1: the next one; tap, point) the weights' leans


OTHERS = 26  # (tap, point) pixels of the other image


COORDINATES = 27  # (axis, point) the coordinates that a map gives the points


ROW, STRIP = 28, 29  # points in a row that may be cut into strips, or 0; and points of a strip


DEEP = 31  # the number of image rows that a row must cross to be cut


FILLS = 30  # whether the fill value counts at points without taps: weights do not sum to one


# If a block holds points of several items, which form one list: the points of an item, or 0; the
# distance from one item's image to the next; and by how many points the distance of the items'
# values exceeds the points of an item.
SHARED, APART, GAP = 32, 33, 34


PUT = 35  # (edge) the index of its value, in points from the task's first


# Whether points with some dropped taps count as inside because their taps slide, see `slide`;
# and (point) by how much, two bits for each axis.
SLIDES, SLID = 36, 37


TILED = 38  # (channel; point, channel; pixel, channel) values whose channels are contiguous


PLACED = 39  # (weight, point) or (axis, point), see `gridsample.kernels.cpu.linear_lanes`


# (tap, point) labels that vote, and (point) those with the most votes, see
# `gridsample.kernels.cpu.labels`.
KEYS, WINNERS = 40, 44


# For means: (tap, point) 1 for pixels that are numbers, otherwise 0; (point) both sums; see
# `gridsample.kernels.cpu.means`.
MARKS, ABOVE, BELOW = 41, 42, 43


ENTRIES = 45


def plan_block(
    counts: tuple[int, ...],
    powers: int,
    fits: bool,
    kinds: int,
    width: int,
    run: int,
    twice: bool = False,
    votes: int = 0,
    means: bool = False,
) -> tuple[list[int], int, int]:
    """Return the table of a block, and the number of indices and reals that it needs.

    ``counts`` are the taps of each axis, ``kinds`` the kinds of products of weights; ``twice`` adds
    what second derivatives need, ``votes`` what labels do, of which each takes so many indices, and
    ``means`` what means do.
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
        AMOUNT: kinds * each, WEIGHT: ORDERS * axes * most, COORDINATES: axes, PLACED: 3 * axes,
    }  # fmt: skip
    if votes:
        indices |= {KEYS: each * votes, WINNERS: votes}
    if twice:
        reals |= {LEANS: 2 * axes * most, OTHERS: each}
    if means:
        reals |= {MARKS: each, ABOVE: 1, BELOW: 1}
    ends = []
    for rows in (indices, reals):
        end = 0
        for piece, count in rows.items():
            table[piece] = end
            end += count * width
        ends.append(end)
    table[HERE], table[LISTED], table[RUN] = ends[0], ends[0] + each, ends[1]
    room = 3 * run if means else run  # for a run, and for both of its sums
    table[TILED] = -(-(ends[1] + room) // 16) * 16
    return table, ends[0] + 2 * each, table[TILED]


def load(value: Any) -> Any:
    """Convert a stored value to a number; lowering binds this if the target lacks the type."""
    return value


def tail(array: Array, start: int) -> Array:
    """Return the rest of a flat array; lowering binds this to one instruction."""
    return array[start:]


def prefetch(memory: Array, at: int) -> None:
    """Prefetch the memory of an entry, which will soon be read; bound by lowering."""


def lay_blocks(block: Block, points: Line, count: int) -> tuple[int, int, int]:
    """Determine how ``count`` points are cut into blocks, from the first row of points.

    Blocks follow one another.  But if a row of points crosses many rows of the image, the rows of
    points are cut into strips, and each block in a strip shares most of its pixels with the next
    one below.  A whole row of points would need more of the image than fits in the first-level
    cache.

    Return the points in a row that is cut, and in a block, and the distance to the next block.
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
    """Return where the next block starts, and where its strip starts.

    The next block is below this one, or else at the top of the next strip.  There is none when a
    strip would start at the end of the row.
    """
    below = start + row < points
    begins = begins if below else begins + strip
    return (start + row if below else begins), begins


def next_piece(block: Array, point: int, left: int) -> Any:
    """Return how many of the ``left`` points from ``point`` on have contiguous values."""
    if block[GAP] == 0:
        return left
    return minimum(left, block[SHARED] - point % block[SHARED])


def find_piece(block: Array, point: int) -> Any:
    """Return the index of a point's value; both are counted in points over all items."""
    if block[GAP] == 0:
        return point
    return point + point // block[SHARED] * block[GAP]


def zero(numbers: Array, n: int) -> None:
    """Set indices to 0."""
    for i in range(n):
        numbers[i] = integer(0)


def fill(numbers: Array, value: Any, n: int) -> None:
    """Set numbers to a value."""
    for i in range(n):
        numbers[i] = value


def copy(source: Array, target: Array, taps: int, width: int, n: int) -> None:
    """Copy the entries of a number of taps."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            target[begin + i] = source[begin + i]
