"""From a block of coordinates to taps: where each is, and how much it weighs.

A block is a few hundred output points, so that everything worked out here stays in cache and is
then used for every plane.  Its points are of three kinds, which `survey` tells apart:

    inside   all taps are pixels of the image, wherever the boundary would fold others: the taps
             are at the same distances from the first one for every point, and need no check
    out      no tap counts: nothing is read
    edges    all others, among them the coordinates that are nowhere: these few points are listed
             until there are enough of them for a block of their own, and then they are folded, and
             each tap has an offset of its own, or none

Arrays over a block's points are flat: entry i of tap t is at ``t * width + i``.  Each loop runs
over the points of a few such arrays with unsigned counters: that is the form LLVM vectorises.
What is the same for the whole block (alignment, boundary, method) is decided outside the loops.

The functions are plain Python; `gridsample.kernels.cpu.build` lowers them to Numba with the names
below bound for a precision (``real``), an index width (``integer``) and a storage type (``load``).
"""

from __future__ import annotations

import math
from typing import Any

from gridsample.definitions.axis import (
    DROPPED,
    HALF,
    HALF_UP,
    ONE,
    REFLECTION,
    ZERO,
    ZEROS,
    confine,
    floor,
    fold,
    fold_index,
    fold_sign,
    known,
    maximum,
    minimum,
    rint,
    split,
    where,
)
from gridsample.kernels.axes import (
    AFTER,
    BEFORE,
    BOUNDARY,
    BY,
    COLUMNS,
    COORDS,
    COUNT,
    EDGED,
    EXTENT,
    FIRST,
    FOLDS,
    FROM,
    IN_PIXELS,
    INNER,
    LIMIT,
    MEASURES,
    MINUS,
    MIRROR,
    ODD,
    ORDER,
    PLUS,
    POWERS,
    ROUNDING,
    SIZE,
    START,
    STEEP,
    STEP,
    TIMES,
    TO,
    TO_CENTRES,
)
from gridsample.kernels.cpu.records import Block, Line

Array = Any

# Bound by lowering.
real = float
integer = int
unsigned = int
double = float
int64 = int
ROUNDED = 0  # whether methods round the position to its base index: 0 none, 1 all, 2 some do
DISPLACED = SIGNED = False  # whether coordinates are displacements; whether a boundary is odd
PACKED = 0  # the distance between points of a grid, where it is always the same
PLANAR = False  # whether it has all points' coordinates along one axis side by side
AFFINE = False  # whether a grid's memory holds affine maps instead, rows of D + 1 numbers
LINEAR = 0  # the rank, where all axes are linear
LINE = 16  # coordinates in a line of the processor's cache

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
ENTRIES = 40


def plan_block(
    counts: tuple[int, ...],
    powers: int,
    fits: bool,
    kinds: int,
    width: int,
    run: int,
    twice: bool = False,
) -> tuple[list[int], int, int]:
    """The table of a block, and how many indices and reals it needs.

    ``counts`` are the taps of each axis, ``kinds`` the kinds of products of weights; ``twice`` adds
    what second derivatives need.
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


def stretch(coordinate: Any, measure: Any, m: int) -> Any:
    """The position in pixels of a coordinate along the axis whose measures begin at ``m``.

    It is rounded as `gridsample.definitions.axis.position` is: of its factors, one is a power of
    two.  Along an axis of a single pixel, -1 and 1 may be the same place, and infinity is nowhere.
    """
    shifted = (coordinate + measure[m + PLUS]) * measure[m + TIMES] - measure[m + MINUS]
    return shifted * measure[m + BY]


def stand(
    coordinate: Any, measure: Array, a: int, stride: int, rounding: int
) -> tuple[Any, Any, Any, Any, Any]:
    """One coordinate along axis ``a``: its fraction, and the base index's offset.

    Then whether it is anywhere, inside, and out.
    """
    m = a * MEASURES
    pos = stretch(coordinate, measure, m)
    # As `fold` rounds it, which decides on which side of a pixel it is.
    pos = (pos - measure[m + MIRROR]) + measure[m + MIRROR]
    near = minimum(maximum(pos, measure[m + FROM]), measure[m + TO])
    whole = snap(near, rounding)
    out = (pos < measure[m + BEFORE]) | (pos > measure[m + AFTER])
    sure = maximum(pos, -pos) <= measure[m + LIMIT]
    return near - whole, integer(integer(whole) * integer(stride)), sure, near == pos, out


def slide(coordinate: Any, measure: Array, size: Any, a: int, stride: int) -> Any:
    """As stand, for two taps along an axis outside of which is 0.

    Two pixels are read, wherever the point is: its taps, if both are pixels; else the two that are
    next to the edge, and how its taps slide against them is told.  So its fraction, the offset,
    whether it is anywhere, whether any tap is a pixel, and how they slide.
    """
    m = a * MEASURES
    pos = stretch(coordinate, measure, m)
    near = minimum(maximum(pos, -ONE), size)  # a number, whatever the coordinate is
    whole = floor(near)
    base = minimum(maximum(whole, ZERO), size - ONE - ONE)
    by = where(whole < base, integer(UP), where(whole > base, integer(DOWN), integer(STAYS)))
    reached = (pos >= -ONE) & (pos < size)
    return near - whole, integer(integer(base) * integer(stride)), pos == pos, reached, by


def place_sliding(
    grid: Array, measure: Array, sizes: Array, strides: Array, at: Array, state: Array,
    slid: Array, x: Array, y: Array, z: Array, gap: int, n: int,
) -> None:  # fmt: skip
    """As place, where every axis is linear, and outside of all is 0; and how far taps slide."""
    if PACKED == 1:
        size = real(sizes[SIZE])
        for i in range(n):
            part, offset, sure, reached, by = slide(
                real(load(grid[i])), measure, size, unsigned(0), strides[0]
            )
            x[i], at[i], slid[i] = part, offset, by
            state[i] = kind(reached, not reached, sure)
    elif PACKED == 2:
        wide, high = real(sizes[SIZE]), real(sizes[COLUMNS + SIZE])
        for i in range(n):
            if PLANAR:
                first, second = grid[i], grid[gap + i]
            else:
                first, second = grid[unsigned(2) * i], grid[unsigned(2) * i + unsigned(1)]
            part, offset, across, reached, by = slide(
                real(load(first)), measure, wide, unsigned(0), strides[0]
            )
            lower, more, down, within, fall = slide(
                real(load(second)), measure, high, unsigned(1), strides[1]
            )
            reached &= within
            x[i], y[i], at[i] = part, lower, integer(offset + more)
            slid[i] = integer(by | (fall << integer(2)))
            state[i] = kind(reached, not reached, across & down)
    elif PACKED == 3:
        wide, high, deep = (
            real(sizes[SIZE]),
            real(sizes[COLUMNS + SIZE]),
            real(sizes[2 * COLUMNS + SIZE]),
        )
        for i in range(n):
            if PLANAR:
                first, second, third = grid[i], grid[gap + i], grid[gap + gap + i]
            else:
                j = unsigned(3) * i
                first, second, third = grid[j], grid[j + unsigned(1)], grid[j + unsigned(2)]
            part, offset, across, reached, by = slide(
                real(load(first)), measure, wide, unsigned(0), strides[0]
            )
            lower, more, down, within, fall = slide(
                real(load(second)), measure, high, unsigned(1), strides[1]
            )
            deeper, most, inward, between, sink = slide(
                real(load(third)), measure, deep, unsigned(2), strides[2]
            )
            reached &= within & between
            x[i], y[i], z[i] = part, lower, deeper
            at[i] = integer(integer(offset + more) + most)
            slid[i] = integer(by | (fall << integer(2)) | (sink << integer(4)))
            state[i] = kind(reached, not reached, across & down & inward)


def any_slide(slid: Array, n: int) -> Any:
    """Whether the taps of any point slide."""
    bits: Any = integer(0)
    for i in range(n):
        bits |= slid[i]
    return bits != integer(0)


def snap(position: Any, rounding: int) -> Any:
    """The base index of a position, as `split` has it, where all methods are not alike."""
    nearest = where(rounding & HALF_UP != 0, floor(position + HALF), rint(position))
    if ROUNDED == 1:
        return nearest
    return where(rounding != 0, nearest, floor(position)) if ROUNDED else floor(position)


def place(
    grid: Array, measure: Array, strides: Array, begin: int, corner: int, rounding: int,
    at: Array, state: Array, x: Array, y: Array, z: Array, gap: int, n: int,
) -> None:  # fmt: skip
    """Coordinates -> fractions along each axis, offsets of the first taps, and kinds.

    ``begin`` is the offset of the first tap from the base index's, ``rounding`` has two bits for
    each axis.  What is not inside has the first inside point's offset, ``corner``: its taps
    are read as well, to no end, and so from one place that is always at hand.  Where points lie as
    usual, all axes are read in one loop of constant strides: whole vectors are then loaded and
    parted.  In a planar grid the axes are ``gap`` apart.  Where all axes round, pixels are copied,
    and fractions are of no use.
    """
    if PACKED == 1:
        for i in range(n):
            part, offset, sure, inside, out = stand(
                real(load(grid[i])), measure, unsigned(0), strides[0], rounding & 3
            )
            at[i] = where(inside, integer(offset + integer(begin)), integer(corner))
            state[i] = kind(inside, out, sure)
            if ROUNDED != 1:
                x[i] = part
    elif PACKED == 2:
        for i in range(n):
            if PLANAR:
                first, second = grid[i], grid[gap + i]
            else:
                first, second = grid[unsigned(2) * i], grid[unsigned(2) * i + unsigned(1)]
            part, offset, across, inside, out = stand(
                real(load(first)), measure, unsigned(0), strides[0], rounding & 3
            )
            lower, more, down, within, beyond = stand(
                real(load(second)), measure, unsigned(1), strides[1], (rounding >> 2) & 3
            )
            inside &= within
            at[i] = where(inside, integer(integer(offset + more) + integer(begin)), integer(corner))
            state[i] = kind(inside, out | beyond, across & down)
            if ROUNDED != 1:
                x[i], y[i] = part, lower
    elif PACKED == 3:
        for i in range(n):
            if PLANAR:
                first, second, third = grid[i], grid[gap + i], grid[gap + gap + i]
            else:
                j = unsigned(3) * i
                first, second, third = grid[j], grid[j + unsigned(1)], grid[j + unsigned(2)]
            part, offset, across, inside, out = stand(
                real(load(first)), measure, unsigned(0), strides[0], rounding & 3
            )
            lower, more, down, within, beyond = stand(
                real(load(second)), measure, unsigned(1), strides[1], (rounding >> 2) & 3
            )
            deeper, most, deep, between, behind = stand(
                real(load(third)), measure, unsigned(2), strides[2], (rounding >> 4) & 3
            )
            inside &= within & between
            offset = integer(integer(integer(offset + more) + most) + integer(begin))
            at[i] = where(inside, offset, integer(corner))
            state[i] = kind(inside, out | beyond | behind, across & down & deep)
            if ROUNDED != 1:
                x[i], y[i], z[i] = part, lower, deeper


def read_ahead(grid: Array, gap: int, n: int) -> None:
    """Ask for the coordinates of ``n`` points, the next ones.

    They come in while this block's pixels are read and written, when nothing else would ask: a
    grid is read but once, and a block of it is too short for the processor to see that it goes on.
    """
    line = unsigned(LINE)
    if PLANAR:
        for i in range(unsigned(0), n, line):
            for a in range(unsigned(PACKED)):
                prefetch(grid, a * gap + i)
    else:
        for i in range(unsigned(0), n * unsigned(PACKED), line):
            prefetch(grid, i)


def kind(inside: bool, out: bool, sure: bool) -> Any:
    """What a point is; ``sure`` unless its position is nowhere."""
    return where(inside, integer(INSIDE), where(out & sure, integer(OUT), integer(EDGE)))


def place_axis(
    pos: Array, measure: Array, stride: int, begin: int, rounding: int,
    at: Array, state: Array, t: Array, n: int,
) -> None:  # fmt: skip
    """As place, for one axis; what other axes gave is kept, and the kinds are bits."""
    for i in range(n):
        t[i], offset, sure, inside, out = stand(pos[i], measure, unsigned(0), stride, rounding)
        at[i] = integer(at[i] + integer(offset + integer(begin)))
        bits = where(sure, where(out, integer(OUT), integer(EDGE)), integer(NOWHERE))
        state[i] = integer(state[i] | where(inside, integer(INSIDE), bits))


def settle_kinds(state: Array, n: int) -> None:
    """Bits that axes have set -> kinds."""
    for i in range(n):
        out = where(state[i] & integer(NOWHERE) != 0, integer(EDGE), integer(OUT))
        state[i] = where(state[i] >= integer(OUT), out, state[i])


def read(coordinates: Array, step: int, pos: Array, n: int) -> None:
    """Coordinates of one axis, side by side."""
    for i in range(n):
        pos[i] = real(load(coordinates[i * step]))


def read_edges(coordinates: Array, step: int, which: Array, pos: Array, n: int) -> None:
    """As read, at the listed points."""
    for j in range(n):
        pos[j] = real(load(coordinates[unsigned(which[j]) * step]))


def count_kind(state: Array, sought: int, n: int) -> Any:
    """How many points are of a kind."""
    count: Any = integer(0)
    for i in range(n):
        count += where(state[i] == integer(sought), integer(1), integer(0))
    return count


def list_edges(state: Array, first: int, which: Array, edges: int, n: int) -> int:
    """Add the points that are neither inside nor out to a list; how long it is then."""
    for i in range(n):
        if state[i] == integer(EDGE):
            which[edges] = integer(first + i)
            edges += unsigned(1)
    return edges


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


def survey(
    block: Block,
    points: Line,
    strides: Array,
    task: int,
    first: int,
    edges: int,
    ahead: int,
    n: int,
) -> tuple[int, int]:
    """Fractions and kinds of ``n`` points from the ``first`` on; ``ahead`` are the next.

    Points are counted from the ``task``'s first, with which the line of ``points`` begins.  Returns
    how many are inside, and how many edges are listed: those of earlier blocks, and now those of
    this one.
    """
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    x, pos = tail(block.reals, block.table[FRACTION]), tail(block.reals, block.table[POS])
    width = block.table[WIDTH]
    if AFFINE:
        grid = tail(block.reals, block.table[COORDINATES])
        axis_step, point_step = width, 1
        axes = block.table[AXES]
        lay_points(points.memory, block.axes, block.measures, axes, task + first, grid, width, n)
    else:
        grid = tail(points.memory, first * points.point)
        axis_step, point_step = points.axis, points.point
    if PACKED:
        begin, corner, rounding = int64(0), int64(0), int64(0)
        for a in range(PACKED):
            axis_rounding = block.axes[a * COLUMNS + ROUNDING]
            near = snap(block.measures[a * MEASURES + FROM], axis_rounding)
            begin += block.axes[a * COLUMNS + FIRST] * strides[a]
            corner += (block.axes[a * COLUMNS + FIRST] + int64(near)) * strides[a]
            rounding |= axis_rounding << (a + a)
        y, z = tail(x, width), tail(x, 2 * width)
        gap = unsigned(axis_step)
        if LINEAR and block.table[SLIDES]:
            slid = tail(block.indices, block.table[SLID])
            place_sliding(
                grid, block.measures, block.axes, strides, at, state, slid, x, y, z, gap, n
            )
        else:
            place(
                grid, block.measures, strides, begin, corner, rounding, at, state, x, y, z, gap, n
            )
        if not AFFINE and ROUNDED != 1:
            read_ahead(tail(grid, ahead * point_step), gap, n)
    else:
        zero(at, n)
        zero(state, n)
        for a in range(block.table[AXES]):
            read(tail(grid, a * axis_step), unsigned(point_step), pos, n)
            inner, extent = block.axes[a * COLUMNS + INNER], block.axes[a * COLUMNS + EXTENT]
            if DISPLACED:
                add_places(pos, task + first, inner, extent, n)
            begin = block.axes[a * COLUMNS + FIRST] * strides[a]
            measure = tail(block.measures, a * MEASURES)
            rounding = block.axes[a * COLUMNS + ROUNDING]
            place_axis(pos, measure, strides[a], begin, rounding, at, state, tail(x, a * width), n)
        settle_kinds(state, n)
    if block.table[SHARED]:
        visit_items(at, task + first, block.table[SHARED], block.table[APART], n)
    inside = unsigned(count_kind(state, int64(INSIDE), n))
    if not block.table[FITS]:
        inside = unsigned(0)
        mark(state, n)
    if inside < n and count_kind(state, int64(EDGE), n):  # most have none
        edges = list_edges(state, first, tail(block.indices, block.table[WHICH]), edges, n)
    return inside, edges


def visit_items(at: Array, first: int, shared: int, apart: int, n: int) -> None:
    """Offsets in an item's image -> offsets in the first item's, which others are ``apart`` from.

    There are ``shared`` points of each item, and ``first`` is counted over all items.  A point's
    item is a quotient of integers; half a point more is too far from the next integer for rounding
    to matter.
    """
    item = first // shared
    within, part = real(first - item * shared) + HALF, ONE / real(shared)
    begin, distance = integer(item * apart), integer(apart)
    for i in range(n):
        at[i] = integer(at[i] + begin) + integer(
            integer((real(integer(i)) + within) * part) * distance
        )


def visit_edges(
    which: Array, first: int, shared: int, apart: int, gap: int, offset: Array, put: Array, n: int
) -> None:
    """The offset of each edge's image from the first item's, and where the edge's value is."""
    part, begin = double(1) / double(shared), double(first) + double(HALF)
    for j in range(n):
        item = int64((double(which[j]) + begin) * part)
        offset[j] = integer(item * apart)
        put[j] = integer(which[j] + item * gap)


def add_offsets(places: Array, offset: Array, taps: int, width: int, n: int) -> None:
    """Add the offset of each edge's image to the places of its taps; dropped ones stay dropped."""
    for t in range(taps):
        begin = unsigned(t) * width
        for j in range(n):
            here = places[begin + j]
            places[begin + j] = where(here >= 0, integer(here + offset[j]), here)


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


def mark(state: Array, n: int) -> None:
    """No point is inside."""
    for i in range(n):
        state[i] = where(state[i] == integer(INSIDE), integer(EDGE), state[i])


def own_coordinate(axes: Array, measures: Array, a: int, point: int) -> Any:
    """The coordinate that an output point has itself along an axis."""
    return coordinate_at(
        measures, a, point // axes[a * COLUMNS + INNER] % axes[a * COLUMNS + EXTENT]
    )


def coordinate_at(measures: Array, a: int, place: int) -> Any:
    """The coordinate that the output points at a place along an axis have themselves."""
    return measures[a * MEASURES + START] + real(place) * measures[a * MEASURES + STEP]


def lay_line(
    coordinates: Array, begin: Any, slope: Any, start: Any, step: Any, place: int, n: int
) -> None:
    """Coordinates of points side by side along x, of which the first is at ``place``."""
    for i in range(n):
        coordinates[i] = begin + slope * (start + real(integer(place) + integer(i)) * step)


def lay_points(
    theta: Array, axes: Array, measures: Array, count: int, first: int, coordinates: Array,
    width: int, n: int,
) -> None:  # fmt: skip
    """Where an affine map sends the output points from ``first`` on: (axis, point)."""
    extent, i = axes[EXTENT], 0
    while i < n:
        place = (first + i) % extent
        many = minimum(extent - place, int64(n) - i)
        for a in range(count):
            row = tail(theta, a * (count + 1))
            begin = row[count]
            for b in range(count - 1, 0, -1):
                begin += row[b] * own_coordinate(axes, measures, b, first + i)
            lay_line(
                tail(coordinates, a * width + i), begin, row[0], measures[START], measures[STEP],
                place, unsigned(many),
            )  # fmt: skip
        i += many


def lay_own(
    axes: Array, measures: Array, count: int, first: int, which: Array, own: Array, width: int,
    n: int,
) -> None:  # fmt: skip
    """The coordinates that the listed output points have themselves: (axis, point)."""
    for j in range(n):
        rest = unsigned(first + int64(which[j]))
        for a in range(count):
            extent = unsigned(axes[a * COLUMNS + EXTENT])
            place, rest = rest % extent, rest // extent
            own[unsigned(a) * width + j] = coordinate_at(measures, a, place)


def lay_edges(row: Array, own: Array, count: int, coordinates: Array, width: int, n: int) -> None:
    """As lay_points, at points whose own coordinates are known, along the axis of a map's row."""
    for j in range(n):
        at = row[count]
        for b in range(count - 1, 0, -1):
            at += row[b] * own[unsigned(b) * width + j]
        coordinates[j] = at + row[0] * own[j]


def find_positions(axis: Array, measure: Array, pos: Array, n: int) -> None:
    """Coordinates -> positions, in their place; a single pixel may be everywhere."""
    if axis[COORDS] == TO_CENTRES and axis[SIZE] == 1:
        for i in range(n):
            pos[i] = where(pos[i] == pos[i], ZERO, pos[i])
    elif axis[COORDS] != IN_PIXELS:
        for i in range(n):
            pos[i] = stretch(pos[i], measure, unsigned(0))


def add_places(pos: Array, first: int, inner: int, extent: int, n: int) -> None:
    """Displacements -> positions: add the index of each point, of which ``first`` is the first.

    The index grows every ``inner`` points, and starts again after ``extent`` of them.
    """
    place, left, i = first // inner % extent, inner - first % inner, 0
    while i < n:
        many = minimum(left, int64(n) - i)
        for k in range(unsigned(many)):
            pos[unsigned(i) + k] += real(place)
        place, left, i = (place + 1) % extent, inner, i + many


def add_places_edges(pos: Array, which: Array, first: int, inner: int, extent: int, n: int) -> None:
    """As add_places, for listed points, counted from ``first``."""
    for j in range(n):
        pos[j] += real((first + int64(which[j])) // inner % extent)


def fill(numbers: Array, value: Any, n: int) -> None:
    """Numbers that are all the same."""
    for i in range(n):
        numbers[i] = value


def bend(
    axis: Array, steep: Any, pos: Array, base: Array, slopes: Array, lost: Array, n: int
) -> None:
    """Positions -> base indices, fractions (in the positions' place) and slopes.

    slopes get d position / d coordinate, the fold's sign included; lost marks the points that are
    nowhere.
    """
    boundary, last, edge, reach = (
        axis[BOUNDARY],
        real(axis[SIZE] - 1),
        real(axis[EDGED]),
        real(axis[COUNT] + 1),
    )
    find_lost(pos, boundary, lost, n)
    if axis[FOLDS] and boundary != ZEROS:
        for i in range(n):
            folded, sign = fold(pos[i], last, reach, boundary, edge)
            pos[i] = folded
            slopes[i] = sign * steep
    else:
        for i in range(n):
            pos[i] = confine(pos[i], last, reach, boundary, edge)
            slopes[i] = steep
    rounding = axis[ROUNDING]
    for i in range(n):
        whole, part = split(pos[i], rounding)
        base[i] = integer(whole)
        pos[i] = part


def find_lost(pos: Array, boundary: int, lost: Array, n: int) -> None:
    """Mark the points whose position is nowhere, and put them at pixel 0."""
    for i in range(n):
        finite = where(pos[i] - pos[i] == ZERO, integer(0), integer(1))
        sure = where(known(pos[i], ZEROS), integer(0), integer(1))
        gone = finite if boundary >= REFLECTION else sure
        lost[i] |= gone
        pos[i] = where(gone == integer(0), pos[i], ZERO)


def remainder(index: Any, period: Any) -> Any:
    """What is left of an index that is not negative.

    Divided as real numbers, which is exact enough for any size of memory, and done for several
    indices at once: processors divide integers one by one.
    """
    return index - int64(double(index) / double(period)) * period


def lay_taps(axis: Array, base: Array, stride: int, offset: Array, width: int, n: int) -> None:
    """Base indices -> offset of each tap along one axis, or DROPPED."""
    size, boundary, edge, step = axis[SIZE], axis[BOUNDARY], axis[EDGED], integer(stride)
    for k in range(axis[COUNT]):
        begin = unsigned(k) * width
        shift: Any = integer(axis[FIRST] + k)
        if boundary == ZEROS or axis[FOLDS]:
            for i in range(n):
                index: Any = integer(base[i] + shift)
                offset[begin + i] = where(
                    (index >= 0) & (index < size), integer(index * step), integer(DROPPED)
                )
        else:
            for i in range(n):
                index = fold_index(base[i] + shift, size, boundary, edge)
                offset[begin + i] = where(index >= 0, integer(index * step), integer(DROPPED))


def sign_taps(axis: Array, base: Array, weight: Array, width: int, n: int) -> None:
    """Give each weight along one axis the sign that an odd boundary gives its tap."""
    size, edge = axis[SIZE], axis[EDGED]
    for k in range(axis[COUNT]):
        begin, shift = unsigned(k) * width, axis[FIRST] + k
        for i in range(n):
            weight[begin + i] *= fold_sign(base[i] + shift, size, REFLECTION, edge)


def weigh_taps(
    axis: Array, table: Array, pitch: int, t: Array, weight: Array, width: int, n: int
) -> None:
    """Weights of all taps of an axis at the fractions t.

    They are polynomials, whose ``table`` (tap, power) has rows ``pitch`` apart.
    """
    powers = axis[POWERS]
    for k in range(axis[COUNT]):
        row, begin = k * pitch, unsigned(k) * width
        top = table[row + powers - 1]
        if powers == 1:
            for i in range(n):
                weight[begin + i] = top
        else:
            below = table[row + powers - 2]
            for i in range(n):
                weight[begin + i] = top * t[i] + below
        power = powers - 3
        while power >= 1:  # two at a time: each pass loads and stores the sum
            upper, lower = table[row + power], table[row + power - 1]
            for i in range(n):
                weight[begin + i] = (weight[begin + i] * t[i] + upper) * t[i] + lower
            power -= 2
        if power == 0:
            last = table[row]
            for i in range(n):
                weight[begin + i] = weight[begin + i] * t[i] + last


def weigh_cubic(table: Array, pitch: int, t: Array, weight: Array, width: int, n: int) -> None:
    """As weigh_taps, for four taps of four powers: all in one pass."""
    second, third, fourth = pitch, pitch + pitch, pitch + pitch + pitch
    a, b, c, d = table[0], table[1], table[2], table[3]
    e, f, g, h = table[second], table[second + 1], table[second + 2], table[second + 3]
    p, q, r, s = table[third], table[third + 1], table[third + 2], table[third + 3]
    u, v, w, z = table[fourth], table[fourth + 1], table[fourth + 2], table[fourth + 3]
    for i in range(n):
        weight[i] = ((d * t[i] + c) * t[i] + b) * t[i] + a
        weight[width + i] = ((h * t[i] + g) * t[i] + f) * t[i] + e
        weight[width + width + i] = ((s * t[i] + r) * t[i] + q) * t[i] + p
        weight[width + width + width + i] = ((z * t[i] + w) * t[i] + v) * t[i] + u


def chain(weight: Array, slopes: Array, taps: int, order: int, width: int, n: int) -> None:
    """Weights times slope ** order: the chain rule, from position to coordinate."""
    for _ in range(order):
        for k in range(taps):
            begin = unsigned(k) * width
            for i in range(n):
                weight[begin + i] *= slopes[i]


def join(at: Array, taps: int, offset: Array, more: int, width: int, n: int) -> None:
    """Offsets of ``taps`` taps -> those of taps * more taps: one more axis is multiplied out.

    Downwards, because the first taps are read until they are made, last.
    """
    for k in range(more - 1, -1, -1):
        along = unsigned(k) * width
        for t in range(taps):
            old, new = unsigned(t) * width, unsigned(k * taps + t) * width
            if k:
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


def weigh(block: Block, orders: int, a: int, t: Array, n: int) -> None:
    """Weights of one axis, for ``orders`` successive orders."""
    axis, width, pitch = tail(block.axes, a * COLUMNS), block.table[WIDTH], block.table[PITCH]
    size, slopes = block.table[MOST] * width, tail(block.reals, block.table[SLOPES])
    for o in range(orders):
        weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + o) * size)
        table = tail(block.tables, (ORDERS * a + o) * block.table[MOST] * pitch)
        if not LINEAR and axis[COUNT] == 4 and axis[POWERS] == 4:
            weigh_cubic(table, pitch, t, weight, unsigned(width), n)
        else:
            weigh_taps(axis, table, pitch, t, weight, unsigned(width), n)
        chain(weight, slopes, axis[COUNT], axis[ORDER] + o, unsigned(width), n)


def weigh_inside(block: Block, orders: int, n: int) -> None:
    """Weights along each axis of the points that `survey` has placed."""
    for a in range(block.table[AXES]):
        if orders > 1 or block.axes[a * COLUMNS + ORDER]:
            fill(tail(block.reals, block.table[SLOPES]), block.measures[a * MEASURES + STEEP], n)
        t = tail(block.reals, block.table[FRACTION] + a * block.table[WIDTH])
        weigh(block, orders, a, t, n)


def multiply_rows(block: Block, begin: int, kinds: int, n: int) -> None:
    """Weights along y and z -> those of rows of taps, from ``begin`` on: 1 if x is the only axis.

    Kind 0 is the plain product; in kind a the order of axis a is raised.
    """
    width, size = block.table[WIDTH], block.table[MOST] * block.table[WIDTH]
    rows = block.table[EACH] // block.axes[COUNT]
    for kind in range(kinds):
        amount, count = tail(block.reals, begin + kind * rows * width), unsigned(1)
        fill(amount, real(1), n)
        for a in range(1, block.table[AXES]):
            raised = 1 if kind == a else 0
            weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + raised) * size)
            more = block.axes[a * COLUMNS + COUNT]
            multiply(amount, count, weight, more, unsigned(width), n)
            count *= unsigned(more)


def prepare_edges(
    block: Block,
    points: Line,
    orders: int,
    kinds: int,
    strides: Array,
    task: int,
    which: Array,
    n: int,
) -> None:
    """List the taps of the ``n`` edges that ``which`` starts with; lost points have none."""
    width, lost = block.table[WIDTH], tail(block.indices, block.table[LOST])
    size = block.table[MOST] * width
    t, places = tail(block.reals, block.table[FRACTION]), tail(block.indices, block.table[PLACES])
    slopes, base = tail(block.reals, block.table[SLOPES]), tail(block.indices, block.table[BASE])
    own = tail(block.reals, block.table[COORDINATES])
    zero(lost, n)
    if AFFINE:
        lay_own(block.axes, block.measures, block.table[AXES], task, which, own, unsigned(width), n)
    for a in range(block.table[AXES]):
        axis, steep = tail(block.axes, a * COLUMNS), block.measures[a * MEASURES + STEEP]
        if AFFINE:
            row = tail(points.memory, a * (block.table[AXES] + 1))
            lay_edges(row, own, block.table[AXES], t, unsigned(width), n)
        else:
            read_edges(tail(points.memory, a * points.axis), unsigned(points.point), which, t, n)
        if DISPLACED:
            add_places_edges(t, which, task, axis[INNER], axis[EXTENT], n)
        find_positions(axis, tail(block.measures, a * MEASURES), t, n)
        bend(axis, steep, t, base, slopes, lost, n)
        offset = tail(block.indices, block.table[OFFSET] + a * size) if a else places
        lay_taps(axis, base, strides[a], offset, unsigned(width), n)
        weigh(block, orders, a, t, n)
        if SIGNED and axis[ODD]:
            for o in range(orders):
                weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + o) * size)
                sign_taps(axis, base, weight, unsigned(width), n)
    count = block.axes[COUNT]
    drop_lost(lost, places, count, unsigned(width), n)
    for a in range(1, block.table[AXES]):
        more = block.axes[a * COLUMNS + COUNT]
        offset = tail(block.indices, block.table[OFFSET] + a * size)
        join(places, count, offset, more, unsigned(width), n)
        count *= more
    put = tail(block.indices, block.table[PUT])
    if block.table[SHARED]:
        shared, apart, gap = block.table[SHARED], block.table[APART], block.table[GAP]
        visit_edges(which, task, shared, apart, gap, base, put, n)
        add_offsets(places, base, count, unsigned(width), n)
    else:
        copy(which, put, 1, unsigned(width), n)
    multiply_out(block, kinds, n)


def multiply_out(block: Block, kinds: int, n: int) -> None:
    """Weights along each axis -> weights of the taps, for each kind of product."""
    width, size = block.table[WIDTH], block.table[MOST] * block.table[WIDTH]
    for kind in range(kinds):
        # Kind 0 is the plain product; in kind 1 + a the order of axis a is raised.
        amount = tail(block.reals, block.table[AMOUNT] + kind * block.table[EACH] * width)
        count = block.axes[COUNT]
        first = tail(block.reals, block.table[WEIGHT] + (size if kind == 1 else 0))
        copy(first, amount, count, unsigned(width), n)
        for a in range(1, block.table[AXES]):
            raised = 1 if kind == 1 + a else 0
            weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + raised) * size)
            more = block.axes[a * COLUMNS + COUNT]
            multiply(amount, count, weight, more, unsigned(width), n)
            count *= more


def copy(source: Array, target: Array, taps: int, width: int, n: int) -> None:
    """Copy the entries of so many taps."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            target[begin + i] = source[begin + i]


def drop_lost(lost: Array, offset: Array, taps: int, width: int, n: int) -> None:
    """Drop every tap of the lost points."""
    for k in range(taps):
        for i in range(n):
            if lost[i]:
                offset[unsigned(k) * width + i] = integer(DROPPED)


# What lowering compiles from axis.py, and then from here, in an order in which each uses only
# those before it.
ELEMENTWISE = (remainder, known, confine, fold, split, fold_index, fold_sign)
LOOPS = (
    place_axis, settle_kinds, count_kind, zero, mark, fill, find_positions, add_places_edges,
    find_lost, bend, lay_taps, sign_taps, weigh_cubic, weigh_taps, chain, drop_lost, copy, join,
    multiply, visit_items, visit_edges, add_offsets,
)  # fmt: skip
# The remaining loops do not vectorise.
SCATTERED = (read_ahead, list_edges, add_places)
# Where an affine map sends a point, to the last bit as if it were worked out before: at an edge of
# the image that bit decides.
LAID = (coordinate_at, own_coordinate, lay_line, lay_points, lay_own, lay_edges)
STEPS = (survey, weigh, weigh_inside, multiply_out, multiply_rows, prepare_edges)
