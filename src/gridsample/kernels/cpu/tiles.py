"""Drivers that first copy an image so that channels are contiguous, a tile of them at a time.

If a pixel's channels are contiguous, one load reads a tap of all channels, and one weight serves
them all.  This is several times as fast as processing plane after plane, so it pays to transpose
an image first if there are more points than pixels, or nearly so.  Results are transposed back, a
block of points at a time.

Under `zeros`, a tile has a margin of zeros as wide as the taps reach, so that there are no edges.

Arguments are those of `gridsample.kernels.cpu.sweeps`, with these differences: the lattice's
distances are those in a tile; a plane consists of ``tiling.many`` lines of ``pixels`` pixels, and
``tiling.lines`` lists where each starts in a tile of ``whole`` pixels; ``planes`` and ``end`` of a
task count tiles of ``FEW`` of the ``channels``.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import minimum
from gridsample.kernels.cpu.blocks import (
    AMOUNT,
    AT,
    AXES,
    BASE,
    EACH,
    FILLS,
    LOST,
    PLACES,
    STATE,
    SUMS,
    TILED,
    WHICH,
    WIDTH,
    fill,
    tail,
)
from gridsample.kernels.cpu.gradients import clear_sums, raises
from gridsample.kernels.cpu.means import absent_of, average_few, average_few_edges, least_of
from gridsample.kernels.cpu.positions import survey
from gridsample.kernels.cpu.records import (
    Block,
    Gradient,
    Lattice,
    Line,
    Memory,
    Needs,
    Outside,
    Planes,
    Points,
    Task,
    Tiling,
    Values,
)
from gridsample.kernels.cpu.runs import blend_few, blend_few_edges
from gridsample.kernels.cpu.sweeps import enough
from gridsample.kernels.cpu.taps import multiply_out, prepare_edges, weigh_inside

Array = Any

# Bound by lowering.
real = float
integer = int
int64 = int
unsigned = int
TILE = 1  # the side of a square that is transposed in registers
FEW = 1  # the channels of a tile
ROWS = 0  # the number of taps of a point, or 0 if it is an argument
MEANS = False  # whether NaN pixels do not count
address = int


def turn_tile(src: Array, at: int, pitch: int, dst: Array, to: int, dst_pitch: int) -> None:
    """Transpose TILE x TILE numbers."""


def no_pixel() -> Any:
    """Return a pixel whose channels are all 0."""


def read_pixel(numbers: Array, at: int) -> Any:
    """Load the FEW numbers from a place on."""


def store_pixel(numbers: Array, at: int, pixel: Any) -> None:
    """Store FEW numbers."""


def weigh_lanes(total: Any, weight: Any, pixel: Any) -> Any:
    """Return total + weight * pixel."""


def dot_lanes(pixel: Any, other: Any) -> Any:
    """Return the dot product of two pixels' channels."""


def turn(
    src: Array, at: int, pitch: int, dst: Array, to: int, dst_pitch: int, rows: int, columns: int
) -> None:
    """Transpose: dst[to + column * dst_pitch + row] = src[at + row * pitch + column]."""
    whole_rows, whole_columns = rows - rows % TILE, columns - columns % TILE
    # Columns are the inner loop, so that a cache line that a row has begun to fill is soon full:
    # rows whose pitch is a power of two all map to the same few lines.
    for row in range(0, whole_rows, TILE):
        for column in range(0, whole_columns, TILE):
            here, there = at + row * pitch + column, to + column * dst_pitch + row
            turn_tile(src, here, pitch, dst, there, dst_pitch)
        for j in range(whole_columns, columns):
            for k in range(row, row + TILE):
                dst[to + j * dst_pitch + k] = src[at + k * pitch + j]
    for j in range(columns):
        for k in range(whole_rows, rows):
            dst[to + j * dst_pitch + k] = src[at + k * pitch + j]


def even_planes(starts: Array, first: int, many: int) -> bool:
    """Whether planes are equally far apart."""
    pitch, same = starts[first + 1] - starts[first], True
    for k in range(first + 2, first + many):
        same &= starts[k] - starts[k - 1] == pitch
    return same


def lay_tile(
    image: Array, starts: Array, first: int, many: int, tile: Array, lines: Array, count: int,
    pixels: int, whole: int,
) -> None:  # fmt: skip
    """Transpose planes to pixels of ``FEW`` channels; channels beyond the ``many`` planes are 0."""
    few = int64(FEW)
    if many < few or whole > count * pixels:
        for i in range(unsigned(whole) * unsigned(FEW)):
            tile[i] = real(0)
    together = many > 1 and even_planes(starts, first, many)
    for k in range(count):
        at, to = starts[first] + k * pixels, lines[k] * few
        if together:
            turn(image, at, starts[first + 1] - starts[first], tile, to, few, many, pixels)
        else:
            for c in range(many):
                at = starts[first + c] + k * pixels
                turn(image, at, int64(0), tile, to + c, few, int64(1), pixels)


def settle_tile(
    rows: Array, out: Array, starts: Array, first: int, many: int, at: int, step: int, n: int
) -> None:
    """Transpose pixels to planes of an output; its points are ``step`` apart, from ``at`` on."""
    few = int64(FEW)
    if step == 1 and many > 1 and even_planes(starts, first, many):
        pitch = starts[first + 1] - starts[first]
        turn(rows, int64(0), few, out, starts[first] + at, pitch, int64(n), many)
    else:
        for c in range(many):
            plane = tail(out, starts[first + c] + at)
            for i in range(n):
                plane[i * unsigned(step)] = rows[i * unsigned(FEW) + unsigned(c)]


def settle_tile_edges(
    rows: Array, out: Array, starts: Array, first: int, many: int, at: int, step: int,
    which: Array, n: int,
) -> None:  # fmt: skip
    """Store the pixels of listed points in the planes of an output."""
    for c in range(many):
        plane = tail(out, starts[first + c] + at)
        for j in range(n):
            plane[unsigned(which[j]) * unsigned(step)] = rows[j * unsigned(FEW) + unsigned(c)]


def few_of(numbers: Array, first: int, many: int, kept: Array) -> None:
    """Copy the numbers of a tile's channels, and 0 for channels beyond ``many``."""
    for c in range(FEW):
        kept[c] = numbers[first + c] if c < many else real(0)


def count_up(numbers: Array, n: int) -> None:
    """Store 0, 1, 2 and so on."""
    for i in range(n):
        numbers[i] = integer(i)


def gather_tiles(
    image: Planes, grid: Points, out: Values, around: Outside, lattice: Lattice, tiling: Tiling,
    block: Block, task: Task,
) -> None:  # fmt: skip
    """Sample as `sweeps.gather_inside` and `sweeps.gather_edges` do, tile by tile."""
    width, taps, few = block.table[WIDTH], unsigned(block.table[EACH]), unsigned(FEW)
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    order, amount = tail(block.indices, block.table[BASE]), tail(block.reals, block.table[AMOUNT])
    empty = tail(
        block.reals, block.table[TILED]
    )  # then values of dropped taps, and of points that are nowhere
    under, hole, rows = tail(empty, FEW), tail(empty, 2 * FEW), tail(empty, 3 * FEW)
    tile = tail(rows, width * FEW)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        for p in range(task.planes, task.end):
            channel = p * FEW
            many, place = (
                minimum(int64(FEW), tiling.channels - channel),
                item * out.item + task.first * out.step,
            )
            lay_tile(
                tail(image.memory, item * image.item),
                image.starts,
                channel,
                many,
                tile,
                tiling.lines,
                tiling.many,
                tiling.pixels,
                tiling.whole,
            )
            few_of(around.outside, channel, many, empty)
            few_of(around.dropped, channel, many, under)
            few_of(around.holes, channel, many, hole)
            absent = tail(tile, tiling.whole * FEW)
            if MEANS:
                few_of(absent_of(around, 0), channel, many, absent)
            edges, start = unsigned(0), int64(0)
            while start < task.last - task.first:
                n, before = unsigned(minimum(width, task.last - task.first - start)), edges
                inside, edges = survey(
                    block, points, lattice.strides, task.first, start, edges, width, n
                )
                if inside:
                    weigh_inside(block, 1, n)
                    multiply_out(block, 1, n)
                if edges - before < n:
                    if MEANS:
                        least = least_of(around)
                        average_few(
                            rows, few, tile, lattice.shifts, block, empty, least, absent, taps, n
                        )
                    else:
                        blend_few(
                            rows, few, tile, at, state, lattice.shifts, amount, amount, empty,
                            wide, taps, n,
                        )  # fmt: skip
                    here = place + start * out.step
                    settle_tile(rows, out.memory, out.starts, channel, many, here, out.step, n)
                start += int64(n)
                ready = enough(edges, wide, start >= task.last - task.first)
                for begin in range(unsigned(0), ready, wide):
                    which, n = (
                        tail(block.indices, block.table[WHICH] + int64(begin)),
                        minimum(wide, ready - begin),
                    )
                    prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
                    count_up(order, n)
                    if MEANS:
                        least = least_of(around)
                        average_few_edges(
                            rows, few, tile, block, order, under, hole, least, absent, n
                        )
                    else:
                        blend_few_edges(
                            rows, few, tile, places, lost, order, amount, under, hole, wide, taps, n
                        )
                    settle_tile_edges(
                        rows, out.memory, out.starts, channel, many, place, out.step, which, n
                    )
                edges -= ready


def fetch_tile(
    values: Array, starts: Array, first: int, many: int, at: int, step: int, rows: Array, n: int
) -> None:
    """Transpose planes to pixels; keep what ``rows`` has in channels beyond ``many``."""
    few = int64(FEW)
    if step == 1 and many > 1 and even_planes(starts, first, many):
        pitch = starts[first + 1] - starts[first]
        turn(values, starts[first] + at, pitch, rows, int64(0), few, many, int64(n))
    else:
        for c in range(many):
            plane = tail(values, starts[first + c] + at)
            for i in range(n):
                rows[i * unsigned(FEW) + unsigned(c)] = plane[i * unsigned(step)]


def fetch_tile_edges(
    values: Array, starts: Array, first: int, many: int, at: int, step: int, which: Array,
    rows: Array, n: int,
) -> None:  # fmt: skip
    """Copy the listed points of planes to pixels."""
    for c in range(many):
        plane = tail(values, starts[first + c] + at)
        for j in range(n):
            rows[j * unsigned(FEW) + unsigned(c)] = plane[unsigned(which[j]) * unsigned(step)]


def derive_tile(
    block: Block, tile: Array, shade: Array, rows: Array, shifts: Array, needs: Needs, n: int
) -> None:
    """Add the contributions of inside points to a tile of an image's gradient, and to sums."""
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    amount, sums = tail(block.reals, block.table[AMOUNT]), tail(block.reals, block.table[SUMS])
    width, few = unsigned(block.table[WIDTH]), unsigned(FEW)
    taps = unsigned(ROWS) if ROWS else unsigned(block.table[EACH])
    for i in range(n):
        if state[i] == 0:
            here, g = address(at[i]), read_pixel(rows, i * few)
            for a in range(unsigned(block.table[AXES]) if needs.grid else unsigned(0)):
                if raises(block.axes, a):
                    total, kind = no_pixel(), (a + unsigned(1)) * taps * width + i
                    for t in range(taps):
                        row = read_pixel(tile, here + address(shifts[t]))
                        total = weigh_lanes(total, amount[kind + t * width], row)
                    sums[a * width + i] += dot_lanes(total, g)
            for t in range(taps if needs.image else unsigned(0)):
                place = here + address(shifts[t])
                before = read_pixel(shade, place)
                store_pixel(shade, place, weigh_lanes(before, amount[t * width + i], g))


def pixel_or(tile: Array, place: int, nothing: Any) -> Any:
    """Return the pixel at a place, or ``nothing`` if the tap is dropped."""
    return read_pixel(tile, address(place)) if place >= 0 else nothing


def derive_tile_edges(
    block: Block, tile: Array, shade: Array, rows: Array, dropped: Array, needs: Needs, n: int
) -> None:
    """Add the contributions of edges; ``dropped`` contains the channels' values of dropped taps."""
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    amount, sums = tail(block.reals, block.table[AMOUNT]), tail(block.reals, block.table[SUMS])
    width, few, taps = unsigned(block.table[WIDTH]), unsigned(FEW), unsigned(block.table[EACH])
    nothing = read_pixel(dropped, unsigned(0))
    for j in range(n):
        present, g = False, read_pixel(rows, j * few)
        for t in range(taps):
            present |= places[t * width + j] >= 0
        if present or (block.table[FILLS] and not lost[j]):
            for a in range(unsigned(block.table[AXES]) if needs.grid else unsigned(0)):
                if raises(block.axes, a):
                    kind, total = (a + unsigned(1)) * taps * width + j, no_pixel()
                    for t in range(taps):
                        pixel = pixel_or(tile, places[t * width + j], nothing)
                        total = weigh_lanes(total, amount[kind + t * width], pixel)
                    sums[a * width + j] += dot_lanes(total, g)
            for t in range(taps if needs.image else unsigned(0)):
                place = places[t * width + j]
                if place >= 0:
                    here = address(place)
                    before = read_pixel(shade, here)
                    store_pixel(shade, here, weigh_lanes(before, amount[t * width + j], g))


def add_sums(block: Block, gradient: Array, n: int) -> None:
    """Add the sums of a block to the grid's gradient, (point, axis)."""
    axes = unsigned(block.table[AXES])
    for a in range(axes):
        line = tail(block.reals, block.table[SUMS] + int64(a) * block.table[WIDTH])
        onto = tail(gradient, int64(a))
        for i in range(n):
            onto[i * axes] += line[i]


def add_sums_edges(block: Block, gradient: Array, which: Array, n: int) -> None:
    """Add the sums of listed points to the grid's gradient."""
    width, axes = unsigned(block.table[WIDTH]), unsigned(block.table[AXES])
    sums = tail(block.reals, block.table[SUMS])
    for j in range(n):
        for a in range(axes):
            gradient[unsigned(which[j]) * axes + a] += sums[a * width + j]


def backward_tiles(
    image: Planes, grid: Points, values: Values, shadow: Planes, gradient: Gradient,
    dropped: Memory, lattice: Lattice, needs: Needs, tiling: Tiling, block: Block, task: Task,
) -> None:  # fmt: skip
    """Compute gradients as `gradients.backward_inside` and `backward_edges` do, tile by tile.

    Channels beyond the last plane have values and pixels of 0, which add nothing.
    """
    width, few, count = block.table[WIDTH], int64(FEW), block.table[AXES] * needs.grid
    wide, under = unsigned(width), tail(block.reals, block.table[TILED])
    rows, sums = tail(under, 3 * FEW), tail(block.reals, block.table[SUMS])
    tile = tail(rows, width * FEW)
    shade = tail(tile, tiling.whole * FEW)
    orders, kinds = (2, 1 + block.table[AXES]) if needs.grid else (1, 1)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        slopes = tail(gradient.memory, item * gradient.item + task.first * count)
        place = item * values.item + task.first * values.step
        for p in range(task.planes, task.end):
            channel = p * FEW
            many = minimum(few, tiling.channels - channel)
            if needs.grid:
                lay_tile(
                    tail(image.memory, item * image.item), image.starts, channel, many, tile,
                    tiling.lines, tiling.many, tiling.pixels, tiling.whole,
                )  # fmt: skip
            if needs.image:
                fill(shade, real(0), unsigned(tiling.whole) * unsigned(FEW))
            if many < few:
                fill(rows, real(0), wide * unsigned(FEW))
            few_of(dropped, channel, many, under)
            edges, start = unsigned(0), int64(0)
            while start < task.last - task.first:
                n = unsigned(minimum(width, task.last - task.first - start))
                inside, edges = survey(
                    block, points, lattice.strides, task.first, start, edges, width, n
                )
                if inside:
                    weigh_inside(block, orders, n)
                    multiply_out(block, kinds, n)
                    clear_sums(sums, count, width, n)
                    here = place + start * values.step
                    fetch_tile(
                        values.memory, values.starts, channel, many, here, values.step, rows, n
                    )
                    derive_tile(block, tile, shade, rows, lattice.shifts, needs, n)
                    if needs.grid:
                        add_sums(block, tail(slopes, start * count), n)
                start += int64(n)
                ready = enough(edges, wide, start >= task.last - task.first)
                for begin in range(unsigned(0), ready, wide):
                    which, n = (
                        tail(block.indices, block.table[WHICH] + int64(begin)),
                        minimum(wide, ready - begin),
                    )
                    prepare_edges(
                        block, points, orders, kinds, lattice.strides, task.first, which, n
                    )
                    clear_sums(sums, count, width, n)
                    fetch_tile_edges(
                        values.memory, values.starts, channel, many, place, values.step, which,
                        rows, n,
                    )  # fmt: skip
                    derive_tile_edges(block, tile, shade, rows, under, needs, n)
                    if needs.grid:
                        add_sums_edges(block, slopes, which, n)
                edges -= ready
            for k in range(tiling.many if needs.image else int64(0)):
                settle_tile(
                    tail(shade, tiling.lines[k] * few), shadow.memory, shadow.starts, channel, many,
                    item * shadow.item + k * tiling.pixels, int64(1), unsigned(tiling.pixels),
                )  # fmt: skip


# What lowering compiles before the drivers.
LOOPS = (
    even_planes, lay_tile, settle_tile, settle_tile_edges, few_of, count_up, fetch_tile,
    fetch_tile_edges, add_sums, add_sums_edges,
)  # fmt: skip
DERIVING = (derive_tile, derive_tile_edges)
