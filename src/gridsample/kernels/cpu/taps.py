"""Convert a block of coordinates to taps: where each tap is, and its weight.

A block is a few hundred output points, so that everything computed here stays in cache and is
then used for every plane.  Its points fall into three classes, which `survey` separates:

    inside   all taps are pixels of the image, without folding: for every point, the taps are
             at the same distances from the first one, and need no check
    out      no tap counts: nothing is read
    edges    all others, including coordinates that are nowhere: these few points are listed
             until they fill a block of their own.  Then their taps are folded, and each tap
             has an offset of its own, or is dropped

Arrays over a block's points are flat: entry i of tap t is at ``t * width + i``.  Each loop runs
over the points of a few such arrays with unsigned counters, which is the form that LLVM vectorises.
What is the same for the whole block (alignment, boundary, method) is decided outside the loops.

The functions are plain Python; `gridsample.kernels.cpu.build` lowers them to Numba with the names
below bound for a precision (``real``), an index width (``integer``) and a storage type (``load``).
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import (
    DROPPED,
    HALF,
    REFLECTION,
    ZERO,
    ZEROS,
    confine,
    fold,
    fold_index,
    fold_sign,
    known,
    split,
    where,
)
from gridsample.kernels.axes import (
    BOUNDARY,
    COLUMNS,
    COORDS,
    COUNT,
    EDGED,
    EXTENT,
    FIRST,
    FOLDS,
    IN_PIXELS,
    INNER,
    MEASURES,
    ODD,
    ORDER,
    POWERS,
    ROUNDING,
    SIZE,
    STEEP,
    TO_CENTRES,
)
from gridsample.kernels.cpu.blocks import (
    AMOUNT,
    APART,
    AXES,
    BASE,
    COORDINATES,
    EACH,
    FRACTION,
    GAP,
    LOST,
    MOST,
    OFFSET,
    ORDERS,
    PITCH,
    PLACES,
    PUT,
    SHARED,
    SLOPES,
    WEIGHT,
    WIDTH,
    copy,
    fill,
    tail,
    zero,
)
from gridsample.kernels.cpu.positions import (
    add_places,
    coordinate_at,
    count_kind,
    lay_line,
    lay_points,
    list_edges,
    mark,
    own_coordinate,
    place_axis,
    read_ahead,
    read_edges,
    settle_kinds,
    stretch,
    survey,
    visit_items,
)
from gridsample.kernels.cpu.records import Block, Line

Array = Any
# Bound by lowering.
real = float
integer = int
unsigned = int
double = float
int64 = int
DISPLACED = SIGNED = False  # whether coordinates are displacements; whether a boundary is odd
AFFINE = False  # whether a grid's memory holds affine maps, as rows of D + 1 numbers
LINEAR = 0  # the rank if all axes are linear


def visit_edges(
    which: Array, first: int, shared: int, apart: int, gap: int, offset: Array, put: Array, n: int
) -> None:
    """Compute the offset of each edge's image from the first item's, and the index of its value."""
    part, begin = double(1) / double(shared), double(first) + double(HALF)
    for j in range(n):
        item = int64((double(which[j]) + begin) * part)
        offset[j] = integer(item * apart)
        put[j] = integer(which[j] + item * gap)


def add_offsets(places: Array, offset: Array, taps: int, width: int, n: int) -> None:
    """Add the offset of each edge's image to its taps' places; dropped taps stay dropped."""
    for t in range(taps):
        begin = unsigned(t) * width
        for j in range(n):
            here = places[begin + j]
            places[begin + j] = where(here >= 0, integer(here + offset[j]), here)


def lay_own(
    axes: Array, measures: Array, count: int, first: int, which: Array, own: Array, width: int,
    n: int,
) -> None:  # fmt: skip
    """Compute the own coordinates of the listed output points: (axis, point)."""
    for j in range(n):
        rest = unsigned(first + int64(which[j]))
        for a in range(count):
            extent = unsigned(axes[a * COLUMNS + EXTENT])
            place, rest = rest % extent, rest // extent
            own[unsigned(a) * width + j] = coordinate_at(measures, a, place)


def lay_edges(row: Array, own: Array, count: int, coordinates: Array, width: int, n: int) -> None:
    """Apply one row of an affine map to listed points with known own coordinates."""
    for j in range(n):
        at = row[count]
        for b in range(count - 1, 0, -1):
            at += row[b] * own[unsigned(b) * width + j]
        coordinates[j] = at + row[0] * own[j]


def find_positions(axis: Array, measure: Array, pos: Array, n: int) -> None:
    """Convert coordinates to positions in place; along one aligned pixel, all positions are 0."""
    if axis[COORDS] == TO_CENTRES and axis[SIZE] == 1:
        for i in range(n):
            pos[i] = where(pos[i] == pos[i], ZERO, pos[i])
    elif axis[COORDS] != IN_PIXELS:
        for i in range(n):
            pos[i] = stretch(pos[i], measure, unsigned(0))


def add_places_edges(pos: Array, which: Array, first: int, inner: int, extent: int, n: int) -> None:
    """Convert displacements of listed points, counted from ``first``, to positions."""
    for j in range(n):
        pos[j] += real((first + int64(which[j])) // inner % extent)


def bend(
    axis: Array, steep: Any, pos: Array, base: Array, slopes: Array, lost: Array, n: int
) -> None:
    """Convert positions to base indices, fractions (in place) and slopes.

    ``slopes`` receives d position / d coordinate, including the sign of the fold.  ``lost`` marks
    the points that are nowhere.
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
    """Mark the points that are nowhere, and set their positions to 0."""
    for i in range(n):
        finite = where(pos[i] - pos[i] == ZERO, integer(0), integer(1))
        sure = where(known(pos[i], ZEROS), integer(0), integer(1))
        gone = finite if boundary >= REFLECTION else sure
        lost[i] |= gone
        pos[i] = where(gone == integer(0), pos[i], ZERO)


def remainder(index: Any, period: Any) -> Any:
    """Return the remainder of a nonnegative index.

    The division is done with real numbers, which is exact enough for any size of memory, and
    vectorises, unlike the division of integers.
    """
    return index - int64(double(index) / double(period)) * period


def lay_taps(axis: Array, base: Array, stride: int, offset: Array, width: int, n: int) -> None:
    """Convert base indices to the offset of each tap along one axis, or DROPPED."""
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
    """Multiply each weight along one axis by the sign that an odd boundary gives its tap."""
    size, edge = axis[SIZE], axis[EDGED]
    for k in range(axis[COUNT]):
        begin, shift = unsigned(k) * width, axis[FIRST] + k
        for i in range(n):
            weight[begin + i] *= fold_sign(base[i] + shift, size, REFLECTION, edge)


def weigh_taps(
    axis: Array, table: Array, pitch: int, t: Array, weight: Array, width: int, n: int
) -> None:
    """Compute the weights of all taps along an axis at the fractions t.

    They are polynomials; the rows of their ``table`` (tap, power) are ``pitch`` apart.
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
        while power >= 1:  # two powers at a time, because each pass loads and stores the sum
            upper, lower = table[row + power], table[row + power - 1]
            for i in range(n):
                weight[begin + i] = (weight[begin + i] * t[i] + upper) * t[i] + lower
            power -= 2
        if power == 0:
            last = table[row]
            for i in range(n):
                weight[begin + i] = weight[begin + i] * t[i] + last


def weigh_cubic(table: Array, pitch: int, t: Array, weight: Array, width: int, n: int) -> None:
    """Compute the weights of four taps of four coefficients each, in one pass."""
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
    """Multiply weights by slope ** order: the chain rule, from position to coordinate."""
    for _ in range(order):
        for k in range(taps):
            begin = unsigned(k) * width
            for i in range(n):
                weight[begin + i] *= slopes[i]


def join(at: Array, taps: int, offset: Array, more: int, width: int, n: int) -> None:
    """Combine the offsets of ``taps`` taps with those along one more axis: taps * more offsets.

    The loop runs downwards, because the first taps are read until they are overwritten last.
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
    """Combine the products of weights with the weights along one more axis; see `join`."""
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
    """Compute the weights along one axis, for ``orders`` successive orders."""
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
    """Compute the weights along each axis for the points that `survey` has placed."""
    for a in range(block.table[AXES]):
        if orders > 1 or block.axes[a * COLUMNS + ORDER]:
            fill(tail(block.reals, block.table[SLOPES]), block.measures[a * MEASURES + STEEP], n)
        t = tail(block.reals, block.table[FRACTION] + a * block.table[WIDTH])
        weigh(block, orders, a, t, n)


def multiply_rows(block: Block, begin: int, kinds: int, n: int) -> None:
    """Multiply the weights along y and z to those of rows of taps, stored from ``begin`` on.

    Kind 0 is the plain product; in kind a the order of axis a is raised.  If x is the only axis,
    the weights are 1.
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
    """List the taps of the first ``n`` edges in ``which``; lost points have none."""
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
    """Multiply the weights along each axis to the weights of taps, for each kind of product."""
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


def drop_lost(lost: Array, offset: Array, taps: int, width: int, n: int) -> None:
    """Drop every tap of the lost points."""
    for k in range(taps):
        for i in range(n):
            if lost[i]:
                offset[unsigned(k) * width + i] = integer(DROPPED)


# The functions of axis.py and of this module that lowering compiles, ordered so that each uses only
# those before it.
ELEMENTWISE = (remainder, known, confine, fold, split, fold_index, fold_sign)


LOOPS = (
    place_axis, settle_kinds, count_kind, zero, mark, fill, find_positions, add_places_edges,
    find_lost, bend, lay_taps, sign_taps, weigh_cubic, weigh_taps, chain, drop_lost, copy, join,
    multiply, visit_items, visit_edges, add_offsets,
)  # fmt: skip


# The remaining loops do not vectorise.
SCATTERED = (read_ahead, list_edges, add_places)


# These compute the coordinates of affine maps with exactly the rounding of a precomputed grid,
# because the last bit decides at an edge of the image.
LAID = (coordinate_at, own_coordinate, lay_line, lay_points, lay_own, lay_edges)


STEPS = (survey, weigh, weigh_inside, multiply_out, multiply_rows, prepare_edges)
