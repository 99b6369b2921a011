"""Convert a block of coordinates to positions, and classify its points.

`survey` separates inside points, edges and points that are out; see
`gridsample.kernels.cpu.taps`.  Each loop runs over the points of a few arrays with
unsigned counters, which is the form that LLVM vectorises.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import (
    HALF,
    HALF_UP,
    ONE,
    ZERO,
    floor,
    maximum,
    minimum,
    rint,
    where,
)
from gridsample.kernels.axes import (
    AFTER,
    BEFORE,
    BY,
    COLUMNS,
    EXTENT,
    FIRST,
    FROM,
    INNER,
    LIMIT,
    MEASURES,
    MINUS,
    MIRROR,
    PLUS,
    ROUNDING,
    SIZE,
    START,
    STEP,
    TIMES,
    TO,
)
from gridsample.kernels.cpu.blocks import (
    APART,
    AT,
    AXES,
    COORDINATES,
    DOWN,
    EDGE,
    FITS,
    FRACTION,
    INSIDE,
    NOWHERE,
    OUT,
    POS,
    SHARED,
    SLID,
    SLIDES,
    STATE,
    STAYS,
    UP,
    WHICH,
    WIDTH,
    load,
    prefetch,
    tail,
    zero,
)
from gridsample.kernels.cpu.records import Block, First, Line

Array = Any
# Bound by lowering.
real = float
integer = int
unsigned = int
int64 = int
ROUNDED = 0  # whether methods round positions to base indices: 0 none, 1 all, 2 some do
DISPLACED = SIGNED = False  # whether coordinates are displacements; whether a boundary is odd
PACKED = False  # whether the points, or their coordinates along one axis, are contiguous
PLANAR = False  # whether the points' coordinates along one axis are contiguous
AFFINE = False  # whether a grid's memory holds affine maps, as rows of D + 1 numbers
LINEAR = 0  # the rank if all axes are linear
RANK_1 = RANK_2 = RANK_3 = True  # whether images may have this rank
LINE = 16  # coordinates in a cache line


def stretch(coordinate: Any, measure: Any, m: int) -> Any:
    """Convert a coordinate to a position in pixels; the axis's measures start at ``m``.

    It is rounded like `gridsample.definitions.axis.position`, because one of its factors is a power
    of two.  Along an axis of a single pixel, -1 and 1 may be the same place, and infinity is
    nowhere.
    """
    shifted = (coordinate + measure[m + PLUS]) * measure[m + TIMES] - measure[m + MINUS]
    return shifted * measure[m + BY]


def stand(
    coordinate: Any, measure: Array, a: int, stride: int, rounding: int
) -> tuple[Any, Any, Any, Any, Any]:
    """Return the fraction of a coordinate along axis ``a``, and the base index's offset.

    Also return whether the position is valid, whether it is inside, and whether it is out.
    """
    m = a * MEASURES
    pos = stretch(coordinate, measure, m)
    # Round as `fold` does, because the rounding decides on which side of a pixel the position is.
    pos = (pos - measure[m + MIRROR]) + measure[m + MIRROR]
    near = minimum(maximum(pos, measure[m + FROM]), measure[m + TO])
    whole = snap(near, rounding)
    out = (pos < measure[m + BEFORE]) | (pos > measure[m + AFTER])
    sure = maximum(pos, -pos) <= measure[m + LIMIT]
    return near - whole, integer(integer(whole) * integer(stride)), sure, near == pos, out


def slide(coordinate: Any, measure: Array, size: Any, a: int, stride: int) -> Any:
    """Place two taps along an axis under the boundary `zeros`; `stand` does so in general.

    Two pixels are read for every point: its taps if both are pixels, otherwise the two pixels next
    to the edge.  Return the fraction, the offset, whether the position is valid, whether any tap is
    a pixel, and how the taps slide onto the pixels that are read.
    """
    m = a * MEASURES
    pos = stretch(coordinate, measure, m)
    near = minimum(maximum(pos, -ONE), size)  # a number, also if the coordinate is NaN
    whole = floor(near)
    base = minimum(maximum(whole, ZERO), size - ONE - ONE)
    by = where(whole < base, integer(UP), where(whole > base, integer(DOWN), integer(STAYS)))
    reached = (pos >= -ONE) & (pos < size)
    return near - whole, integer(integer(base) * integer(stride)), pos == pos, reached, by


def place_sliding(
    grid: Array, measure: Array, sizes: Array, strides: Array, at: Array, state: Array,
    slid: Array, x: Array, y: Array, z: Array, gap: int, n: int,
) -> None:  # fmt: skip
    """Place points as `place` does, if every axis is linear under `zeros`; store how taps slide."""
    if LINEAR == 1:
        size = real(sizes[SIZE])
        for i in range(n):
            part, offset, sure, reached, by = slide(
                real(load(grid[i])), measure, size, unsigned(0), strides[0]
            )
            x[i], at[i], slid[i] = part, offset, by
            state[i] = kind(reached, not reached, sure)
    elif LINEAR == 2:
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
    elif LINEAR == 3:
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
    """Return the base index of a position, as `split` does; the rounding may vary by axis."""
    nearest = where(rounding & HALF_UP != 0, floor(position + HALF), rint(position))
    if ROUNDED == 1:
        return nearest
    return where(rounding != 0, nearest, floor(position)) if ROUNDED else floor(position)


def place(
    grid: Array, measure: Array, strides: Array, taps: First, at: Array, state: Array,
    x: Array, y: Array, z: Array, gap: int, axes: int, n: int,
) -> None:  # fmt: skip
    """Convert coordinates to fractions along each axis, offsets of the first taps, and classes.

    Points that are not inside get the offset of the first inside point.  Their taps are read too
    and the values ignored, so one place that is always in cache is used for all of them.  A single
    loop with constant strides reads all ``axes``, so that whole vectors are loaded and then split.
    In a planar grid, the axes are ``gap`` apart.  If all axes round, pixels are copied, and
    fractions are not needed.
    """
    if RANK_1 and axes == 1:
        for i in range(n):
            part, offset, sure, inside, out = stand(
                real(load(grid[i])), measure, unsigned(0), strides[0], taps.rounding & 3
            )
            at[i] = where(inside, integer(offset + integer(taps.begin)), integer(taps.corner))
            state[i] = kind(inside, out, sure)
            if ROUNDED != 1:
                x[i] = part
    elif RANK_2 and axes == 2:
        for i in range(n):
            if PLANAR:
                first, second = grid[i], grid[gap + i]
            else:
                first, second = grid[unsigned(2) * i], grid[unsigned(2) * i + unsigned(1)]
            part, offset, across, inside, out = stand(
                real(load(first)), measure, unsigned(0), strides[0], taps.rounding & 3
            )
            lower, more, down, within, beyond = stand(
                real(load(second)), measure, unsigned(1), strides[1], (taps.rounding >> 2) & 3
            )
            inside &= within
            at[i] = where(
                inside, integer(integer(offset + more) + integer(taps.begin)), integer(taps.corner)
            )
            state[i] = kind(inside, out | beyond, across & down)
            if ROUNDED != 1:
                x[i], y[i] = part, lower
    elif RANK_3 and axes == 3:
        for i in range(n):
            if PLANAR:
                first, second, third = grid[i], grid[gap + i], grid[gap + gap + i]
            else:
                j = unsigned(3) * i
                first, second, third = grid[j], grid[j + unsigned(1)], grid[j + unsigned(2)]
            part, offset, across, inside, out = stand(
                real(load(first)), measure, unsigned(0), strides[0], taps.rounding & 3
            )
            lower, more, down, within, beyond = stand(
                real(load(second)), measure, unsigned(1), strides[1], (taps.rounding >> 2) & 3
            )
            deeper, most, deep, between, behind = stand(
                real(load(third)), measure, unsigned(2), strides[2], (taps.rounding >> 4) & 3
            )
            inside &= within & between
            offset = integer(integer(integer(offset + more) + most) + integer(taps.begin))
            at[i] = where(inside, offset, integer(taps.corner))
            state[i] = kind(inside, out | beyond | behind, across & down & deep)
            if ROUNDED != 1:
                x[i], y[i], z[i] = part, lower, deeper


def read_ahead(grid: Array, gap: int, axes: int, n: int) -> None:
    """Prefetch the coordinates of the next ``n`` points along all ``axes``.

    They are loaded while this block's pixels are read and written, when nothing else would request
    them: a grid is read only once, and a block of it is too short for the hardware prefetcher.
    """
    line = unsigned(LINE)
    if PLANAR:
        for i in range(unsigned(0), n, line):
            for a in range(unsigned(axes)):
                prefetch(grid, a * gap + i)
    else:
        for i in range(unsigned(0), n * unsigned(axes), line):
            prefetch(grid, i)


def kind(inside: bool, out: bool, sure: bool) -> Any:
    """Return the class of a point; ``sure`` means that its position is valid."""
    return where(inside, integer(INSIDE), where(out & sure, integer(OUT), integer(EDGE)))


def place_axis(
    pos: Array, measure: Array, stride: int, begin: int, rounding: int,
    at: Array, state: Array, t: Array, n: int,
) -> None:  # fmt: skip
    """Place points along one axis; add to offsets, and collect the classes as bits."""
    for i in range(n):
        t[i], offset, sure, inside, out = stand(pos[i], measure, unsigned(0), stride, rounding)
        at[i] = integer(at[i] + integer(offset + integer(begin)))
        bits = where(sure, where(out, integer(OUT), integer(EDGE)), integer(NOWHERE))
        state[i] = integer(state[i] | where(inside, integer(INSIDE), bits))


def settle_kinds(state: Array, n: int) -> None:
    """Convert the bits that axes have set to classes."""
    for i in range(n):
        out = where(state[i] & integer(NOWHERE) != 0, integer(EDGE), integer(OUT))
        state[i] = where(state[i] >= integer(OUT), out, state[i])


def read(coordinates: Array, step: int, pos: Array, n: int) -> None:
    """Read the coordinates along one axis."""
    for i in range(n):
        pos[i] = real(load(coordinates[i * step]))


def read_edges(coordinates: Array, step: int, which: Array, pos: Array, n: int) -> None:
    """Read the coordinates of the listed points along one axis."""
    for j in range(n):
        pos[j] = real(load(coordinates[unsigned(which[j]) * step]))


def count_kind(state: Array, sought: int, n: int) -> Any:
    """Return the number of points in a class."""
    count: Any = integer(0)
    for i in range(n):
        count += where(state[i] == integer(sought), integer(1), integer(0))
    return count


def list_edges(state: Array, first: int, which: Array, edges: int, n: int) -> int:
    """Append the points that are neither inside nor out to a list; return its length."""
    for i in range(n):
        if state[i] == integer(EDGE):
            which[edges] = integer(first + i)
            edges += unsigned(1)
    return edges


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
    """Compute fractions and classes of ``n`` points from the ``first`` on; ``ahead`` are the next.

    Points are counted from the first point of the ``task``, with which the line of ``points``
    starts.  Return how many points are inside, and how many edges are listed, including those of
    earlier blocks.
    """
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    x, pos = tail(block.reals, block.table[FRACTION]), tail(block.reals, block.table[POS])
    width = block.table[WIDTH]
    if AFFINE:
        grid = tail(block.reals, block.table[COORDINATES])
        axis_step, point_step = width, 1
        count = block.table[AXES]
        lay_points(points.memory, block.axes, block.measures, count, task + first, grid, width, n)
    else:
        grid = tail(points.memory, first * points.point)
        axis_step, point_step = points.axis, points.point
    if PACKED:
        axes, begin, corner, rounding = block.table[AXES], int64(0), int64(0), int64(0)
        for a in range(axes):
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
            taps = First(begin, corner, rounding)
            place(grid, block.measures, strides, taps, at, state, x, y, z, gap, axes, n)
        if not AFFINE and ROUNDED != 1:
            read_ahead(tail(grid, ahead * point_step), gap, axes, n)
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
    if inside < n and count_kind(state, int64(EDGE), n):  # most blocks have no edges
        edges = list_edges(state, first, tail(block.indices, block.table[WHICH]), edges, n)
    return inside, edges


def visit_items(at: Array, first: int, shared: int, apart: int, n: int) -> None:
    """Convert offsets in an item's image to offsets from the first item's image.

    The images are ``apart`` from one another.  There are ``shared`` points per item, and ``first``
    is counted over all items.  A point's item is an integer quotient.  The division is done half a
    point further, which is too far from the next integer for rounding to matter.
    """
    item = first // shared
    within, part = real(first - item * shared) + HALF, ONE / real(shared)
    begin, distance = integer(item * apart), integer(apart)
    for i in range(n):
        at[i] = integer(at[i] + begin) + integer(
            integer((real(integer(i)) + within) * part) * distance
        )


def mark(state: Array, n: int) -> None:
    """Make all inside points edges."""
    for i in range(n):
        state[i] = where(state[i] == integer(INSIDE), integer(EDGE), state[i])


def own_coordinate(axes: Array, measures: Array, a: int, point: int) -> Any:
    """Return the own coordinate of an output point along an axis."""
    return coordinate_at(
        measures, a, point // axes[a * COLUMNS + INNER] % axes[a * COLUMNS + EXTENT]
    )


def coordinate_at(measures: Array, a: int, place: int) -> Any:
    """Return the own coordinate of the output points at a place along an axis."""
    return measures[a * MEASURES + START] + real(place) * measures[a * MEASURES + STEP]


def lay_line(
    coordinates: Array, begin: Any, slope: Any, start: Any, step: Any, place: int, n: int
) -> None:
    """Compute the coordinates of ``n`` adjacent points along x, from ``place`` on."""
    for i in range(n):
        coordinates[i] = begin + slope * (start + real(integer(place) + integer(i)) * step)


def lay_points(
    theta: Array, axes: Array, measures: Array, count: int, first: int, coordinates: Array,
    width: int, n: int,
) -> None:  # fmt: skip
    """Apply an affine map to the output points from ``first`` on: coordinates (axis, point)."""
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


def add_places(pos: Array, first: int, inner: int, extent: int, n: int) -> None:
    """Convert displacements to positions: add each point's index, beginning with that of ``first``.

    The index grows by one every ``inner`` points, and is taken modulo ``extent``.
    """
    place, left, i = first // inner % extent, inner - first % inner, 0
    while i < n:
        many = minimum(left, int64(n) - i)
        for k in range(unsigned(many)):
            pos[unsigned(i) + k] += real(place)
        place, left, i = (place + 1) % extent, inner, i + many
