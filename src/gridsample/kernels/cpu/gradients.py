"""The work of the drivers of gradients, at a block's points and at edges; see `sweeps.sweep`.

Values are scattered to their taps, and the gradient of the grid, or of affine maps, is summed.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import minimum
from gridsample.kernels.axes import (
    COLUMNS,
    COUNT,
    EXTENT,
    MEASURES,
    ORDER,
    POWERS,
    START,
    STEEP,
    STEP,
)
from gridsample.kernels.cpu.blocks import (
    ALONG,
    AMOUNT,
    AT,
    AXES,
    EACH,
    FILLS,
    FRACTION,
    HERE,
    LISTED,
    LOST,
    MOST,
    NUMBERS,
    PIXELS,
    PLACES,
    PUT,
    RUN,
    SLID,
    SLIDES,
    STATE,
    SUMS,
    WEIGHT,
    WHICH,
    WIDTH,
    fill,
    find_piece,
    next_piece,
    tail,
)
from gridsample.kernels.cpu.passes import (
    blend,
    blend_across,
    collect,
    collect_channel,
    collect_pairs,
    collect_present,
    fetch,
    fetch_ahead,
    fetch_edges,
    mask,
    replace,
    share_sliding,
    slope_linear,
    slope_sliding,
    sum_rows,
)
from gridsample.kernels.cpu.positions import any_slide, own_coordinate
from gridsample.kernels.cpu.records import (
    Backward,
    BackwardRuns,
    BandedTask,
    Block,
    Lattice,
    Line,
    Span,
)
from gridsample.kernels.cpu.runs import add_run, dot, dot_outside, list_inside, list_present
from gridsample.kernels.cpu.scatter import (
    accumulate,
    accumulate_edges,
    scale,
    settle_axis,
    settle_axis_edges,
    share,
    share_linear,
    silence,
    spread,
    spread_band,
    spread_pairs,
    spread_present,
)
from gridsample.kernels.cpu.taps import multiply_out, multiply_rows, prepare_edges, weigh_inside

Array = Any
# Bound by lowering.
real = float
integer = int
int64 = int
unsigned = int
PAIRS = JOINED = False
LINEAR = 0  # the rank if all axes are linear
FOURS = False  # whether there are four taps along x
AFFINE = False  # whether a grid's memory holds affine maps
PIXEL = 0  # bytes of a pixel that is read by words, or numbers of one that are copied; or 0

# The number of blocks that share a partial sum of a map's gradient, and the numbers of one such
# sum.
CHUNK, MAP = 8, 12


def slope_plane(plane: Array, p: int, slides: bool, lattice: Lattice, block: Block, n: int) -> None:
    """Add the contribution of plane ``p`` of the image to the sums of a block's points."""
    width = block.table[WIDTH]
    count = block.table[EACH]
    wide = unsigned(width)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places = tail(block.indices, block.table[PLACES])
    sums = tail(block.reals, block.table[SUMS])
    slid = tail(block.indices, block.table[SLID])
    pixels = tail(block.reals, block.table[PIXELS])
    amount = tail(block.reals, block.table[AMOUNT])
    g = tail(block.reals, block.table[NUMBERS])
    along = tail(block.reals, block.table[ALONG])
    x = tail(block.reals, block.table[FRACTION])
    y = tail(x, width)
    z = tail(x, 2 * width)
    lines = block.table[AMOUNT] + count * width
    size = block.table[MOST] * width
    gap = unsigned(lattice.strides[0])
    if lattice.far:
        fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
    if PIXEL:
        collect_channel(plane, at, lattice.shifts, places, pixels, p, count, wide, n)
    elif LINEAR:
        collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
    if LINEAR:
        if slides:
            slope_sliding(sums, g, pixels, x, y, z, slid, state, wide, n)
        else:
            slope_linear(sums, g, pixels, x, y, z, slid, state, wide, n)
    elif FOURS:
        for a in range(block.table[AXES]):
            if raises(block.axes, a):
                amounts = tail(block.reals, lines + a * count // 4 * width)
                across = tail(block.reals, block.table[WEIGHT] + (0 if a else size))
                sum_rows(
                    plane,
                    at,
                    lattice.shifts,
                    gap,
                    amounts,
                    pixels,
                    count // 4,
                    wide,
                    n,
                )
                blend_across(along, pixels, across, wide, n)
                accumulate(tail(sums, a * width), g, along, state, n)
    else:
        collect(plane, at, lattice.shifts, pixels, count, wide, n)
        for a in range(block.table[AXES]):
            if raises(block.axes, a):
                weights = tail(amount, (1 + a) * count * width)
                blend(along, pixels, weights, count, wide, n)
                accumulate(tail(sums, a * width), g, along, state, n)


def add_shares(
    plane: Array, lattice: Lattice, block: Block, task: BandedTask, moved: int, n: int
) -> None:
    """Add the shares of a block's values to a plane, which starts ``moved`` after the task's."""
    at, shares = tail(block.indices, block.table[AT]), tail(block.reals, block.table[PIXELS])
    count, wide, shifts = block.table[EACH], unsigned(block.table[WIDTH]), lattice.shifts
    if task.banded:
        low, high = task.low - moved, task.high - moved
        spread_band(plane, at, shifts, shares, low, high, count, wide, n)
    elif JOINED:
        spread_pairs(plane, at, shifts, shares, count, wide, n)
    else:
        spread(plane, at, shifts, shares, count, wide, n)


def backward_inside(
    job: Backward, lattice: Lattice, block: Block, task: BandedTask, points: Line, span: Span
) -> None:
    """Scatter the values of every plane to their taps in ``shadow``, and sum the grid's gradient.

    ``strides`` are those of the image, of the shadow, or of both.  If the task is ``banded``, only
    taps whose offset in the shadow's plane is in [low, high) are written; otherwise [low, high) is
    the whole plane.  Values are always added to a pixel in the order of items and ranges of points,
    so that the sums are the same, bit for bit, however the work is divided.
    """
    item = span.item
    start = span.start
    inside = span.inside
    n = span.n
    width = block.table[WIDTH]
    count = block.table[EACH]
    wide = unsigned(width)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    sums = tail(block.reals, block.table[SUMS])
    slid = tail(block.indices, block.table[SLID])
    pixels = tail(block.reals, block.table[PIXELS])
    amount = tail(block.reals, block.table[AMOUNT])
    g = tail(block.reals, block.table[NUMBERS])
    x = tail(block.reals, block.table[FRACTION])
    y = tail(x, width)
    z = tail(x, 2 * width)
    orders = 2 if job.needs.grid else 1
    kinds = 1 + block.table[AXES] if job.needs.grid else 1
    lines = block.table[AMOUNT] + count * width
    sums_of = item * job.gradient.item + (
        0 if AFFINE else task.first * block.table[AXES] * job.needs.grid
    )
    slopes = tail(job.gradient.memory, sums_of)
    slides = LINEAR and block.table[SLIDES] and any_slide(slid, n)
    if inside and not LINEAR:
        weigh_inside(block, orders, n)
        if job.needs.image or not FOURS:
            multiply_out(block, 1 if FOURS else kinds, n)
        if FOURS:
            multiply_rows(block, lines, block.table[AXES], n)
    if inside:
        clear_sums(sums, block.table[AXES] * job.needs.grid, width, n)
    for p in range(task.planes, task.end if inside else task.planes):
        fetch_block(
            block.table,
            tail(job.values.memory, job.values.starts[p] + item * job.values.item),
            task.first + start,
            job.values.step,
            g,
            n,
        )
        if inside < n:
            replace(state, g, real(0), n)
        if lattice.far and job.needs.image:
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
        if job.needs.grid:
            plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            slope_plane(plane, p, bool(slides), lattice, block, n)
        if job.needs.image:
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            if LINEAR:
                if slides:
                    share_sliding(g, pixels, x, y, z, slid, wide, n)
                else:
                    share_linear(g, pixels, x, y, z, slid, wide, n)
            else:
                share(g, amount, pixels, count, wide, n)
            add_shares(plane, lattice, block, task, int64(0), n)
    if job.needs.grid and inside:
        if LINEAR:
            steepen(sums, block.measures, block.table[AXES], width, n)
        if AFFINE:
            some = tail(slopes, chunk(task.first + start, block.table) * MAP)
            settle_map(
                sums,
                block.axes,
                block.measures,
                block.table[AXES],
                task.first + start,
                some,
                width,
                n,
            )
        else:
            settle_sums(sums, tail(slopes, start * block.table[AXES]), block.table[AXES], width, n)


def backward_edges(
    job: Backward,
    lattice: Lattice,
    block: Block,
    task: BandedTask,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Compute gradients at the ``n`` listed edges of an item."""
    width = block.table[WIDTH]
    count = block.table[EACH]
    step = unsigned(job.values.step)
    wide = unsigned(width)
    places = tail(block.indices, block.table[PLACES])
    lost = tail(block.indices, block.table[LOST])
    sums = tail(block.reals, block.table[SUMS])
    put = tail(block.indices, block.table[PUT])
    pixels = tail(block.reals, block.table[PIXELS])
    amount = tail(block.reals, block.table[AMOUNT])
    g = tail(block.reals, block.table[NUMBERS])
    along = tail(block.reals, block.table[ALONG])
    orders = 2 if job.needs.grid else 1
    kinds = 1 + block.table[AXES] if job.needs.grid else 1
    sums_of = item * job.gradient.item + (
        0 if AFFINE else task.first * block.table[AXES] * job.needs.grid
    )
    slopes = tail(job.gradient.memory, sums_of)
    prepare_edges(block, points, orders, kinds, lattice.strides, task.first, which, n)
    clear_sums(sums, block.table[AXES] * job.needs.grid, width, n)
    for p in range(task.planes, task.end):
        here = job.values.starts[p] + item * job.values.item + task.first * job.values.step
        fetch_edges(tail(job.values.memory, here), step, put, g, n)
        fills = block.table[FILLS] and job.dropped[p] != real(0)
        silence(places, lost, g, fills, count, wide, n)
        if job.needs.grid:
            plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            collect_present(plane, places, pixels, count, wide, n)
            mask(places, pixels, job.dropped[p], count, wide, n)
            for a in range(block.table[AXES]):
                if raises(block.axes, a):
                    weights = tail(amount, (1 + a) * count * width)
                    blend(along, pixels, weights, count, wide, n)
                    accumulate_edges(tail(sums, a * width), g, along, n)
        if job.needs.image:
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            share(g, amount, pixels, count, wide, n)
            spread_present(plane, places, pixels, task.low, task.high, count, wide, n)
    if job.needs.grid and AFFINE:
        settle_map_edges(
            sums, block.axes, block.measures, block.table, task.first, which, slopes, n
        )
    elif job.needs.grid:
        settle_sums_edges(sums, slopes, which, block.table[AXES], width, n)


def add_slopes(
    along: Array, product: Any, amount: Array, axes: Array, apart: int, count: int
) -> None:
    """Add a tap's part of the slope along each axis; the weights of the axes are ``apart``."""
    for a in range(count):
        if raises(axes, a):
            along[a] += product * amount[unsigned(1 + a) * apart]


def derive_runs(
    job: BackwardRuns, lattice: Lattice, block: Block, task: BandedTask, item: int, start: int,
    which: Array, listed: bool, n: int,
) -> None:  # fmt: skip
    """Compute both gradients at the inside points of a block, or at its ``n`` listed edges.

    This is one function, and one call for all points, because a call takes as long as a few taps.
    """
    at, state = tail(block.indices, block.table[AT]), tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    width, taps, size = block.table[WIDTH], unsigned(block.table[EACH]), unsigned(job.length)
    wide, here = unsigned(width), tail(block.indices, block.table[HERE])
    tap, amount = tail(block.indices, block.table[LISTED]), tail(block.reals, block.table[AMOUNT])
    g, along = tail(block.reals, block.table[RUN]), tail(block.reals, block.table[SUMS])
    axes, slopes = block.table[AXES], tail(job.gradient.memory, item * job.gradient.item)
    for j in range(n):
        point, fills = start + int64(j), False
        if listed:
            point = int64(which[j])
            count = list_present(places, taps, wide, j, here, tap)
            fills = bool(block.table[FILLS] and not lost[j])
        elif state[j]:
            continue
        else:
            count = list_inside(at[j], lattice.shifts, taps, wide, j, here, tap)
        for a in range(axes):
            along[a] = real(0)
        for p in range(task.planes, task.end if count or fills else task.planes):
            offset = job.values.starts[p] + item * job.values.item
            offset += (task.first + point) * job.values.step
            fetch(tail(job.values.memory, offset), unsigned(1), g, size)
            pixels = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            for k in range(taps):
                if job.needs.grid:
                    if k < count:
                        product = dot(tail(pixels, here[k]), g, size)
                    else:
                        product = dot_outside(tail(job.dropped, p * job.length), g, size)
                    each = tail(amount, int64(tap[k]))
                    add_slopes(along, product, each, block.axes, taps * wide, axes)
                mine = k < count and (not task.banded or task.low <= here[k] < task.high)
                if job.needs.image and mine:
                    add_run(tail(plane, here[k]), g, amount[unsigned(tap[k])], size)
        if job.needs.grid and AFFINE:
            some = tail(slopes, (chunk(task.first + point, block.table) + listed) * MAP)
            add_to_map(along, 1, block.axes, block.measures, axes, task.first + point, some)
        elif job.needs.grid:
            for a in range(axes):
                slopes[(task.first + point) * axes + a] = along[a]


def backward_runs_inside(
    job: BackwardRuns, lattice: Lattice, block: Block, task: BandedTask, points: Line, span: Span
) -> None:
    """Compute gradients at inside points if the channels of a pixel are contiguous."""
    if span.inside:
        weigh_inside(block, 2 if job.needs.grid else 1, span.n)
        multiply_out(block, 1 + block.table[AXES] if job.needs.grid else 1, span.n)
        which = tail(block.indices, block.table[WHICH])
        derive_runs(job, lattice, block, task, span.item, span.start, which, False, span.n)


def backward_runs_edges(
    job: BackwardRuns, lattice: Lattice, block: Block, task: BandedTask, points: Line, item: int,
    which: Array, n: int,
) -> None:  # fmt: skip
    """Compute gradients at listed edges if the channels of a pixel are contiguous."""
    orders = 2 if job.needs.grid else 1
    kinds = 1 + block.table[AXES] if job.needs.grid else 1
    prepare_edges(block, points, orders, kinds, lattice.strides, task.first, which, n)
    derive_runs(job, lattice, block, task, item, int64(0), which, True, n)


def raises(axes: Array, a: int) -> bool:
    """Whether the next derivative along an axis is not zero for every image."""
    return bool(axes[a * COLUMNS + ORDER] + 1 < axes[a * COLUMNS + POWERS])


def chunk(point: int, block: Array) -> int:
    """Return the index of the partial sum of a map's gradient that a point adds to.

    There is one for several blocks.  The sum of edges is next to it, because the edges are
    processed at another time, and the order of additions must not vary.
    """
    first: int = 2 * (point // (CHUNK * block[WIDTH]))
    return first


def add_to_map(
    sums: Array, step: int, axes: Array, measures: Array, count: int, point: int, some: Array
) -> None:
    """Add a point's gradient to that of the rows of a map; its axes are ``step`` apart."""
    for b in range(count):
        own = own_coordinate(axes, measures, b, point)
        for a in range(count):
            some[a * (count + 1) + b] += sums[a * step] * own
    for a in range(count):
        some[a * (count + 1) + count] += sums[a * step]


def settle_map(
    sums: Array, axes: Array, measures: Array, count: int, first: int, some: Array, width: int,
    n: int,
) -> None:  # fmt: skip
    """Add the sums of a block to the gradient of the points' affine map."""
    extent, i = axes[EXTENT], 0
    while i < n:
        place = (first + i) % extent
        many = unsigned(minimum(extent - place, int64(n) - i))
        for a in range(count):
            line = tail(sums, a * width + i)
            whole, row = total(line, many), tail(some, a * (count + 1))
            row[0] += measures[START] * whole + measures[STEP] * moment(line, place, many)
            for b in range(1, count):
                row[b] += whole * own_coordinate(axes, measures, b, first + i)
            row[count] += whole
        i += int64(many)


def settle_map_edges(
    sums: Array, axes: Array, measures: Array, block: Array, first: int, which: Array,
    slopes: Array, n: int,
) -> None:  # fmt: skip
    """Add the sums of listed points to the gradient of their affine map."""
    for j in range(n):
        point = first + int64(which[j])
        some = tail(slopes, (chunk(point, block) + 1) * MAP)
        add_to_map(tail(sums, j), block[WIDTH], axes, measures, block[AXES], point, some)


def total(numbers: Array, n: int) -> Any:
    """Return the sum of ``n`` numbers."""
    result = real(0)
    for i in range(n):
        result += numbers[i]
    return result


def moment(numbers: Array, place: int, n: int) -> Any:
    """Return the sum of numbers times their places, from ``place`` on."""
    result = real(0)
    for i in range(n):
        result += numbers[i] * real(integer(place) + integer(i))
    return result


def fetch_block(block: Array, values: Array, begin: int, step: int, numbers: Array, n: int) -> None:
    """Convert the stored values of a block to numbers; `settle_block` does the reverse."""
    done = int64(0)
    while done < int64(n):
        many = unsigned(next_piece(block, begin + done, int64(n) - done))
        here = tail(values, find_piece(block, begin + done) * step)
        fetch(here, unsigned(step), tail(numbers, done), many)
        done += int64(many)


def clear_sums(sums: Array, axes: int, width: int, n: int) -> None:
    """Set the sums along each axis to 0."""
    for a in range(axes):
        fill(tail(sums, a * width), real(0), n)


def steepen(sums: Array, measures: Array, axes: int, width: int, n: int) -> None:
    """Convert derivatives along the position to derivatives along the coordinate."""
    for a in range(axes):
        scale(tail(sums, a * width), measures[a * MEASURES + STEEP], n)


def settle_sums(sums: Array, gradient: Array, axes: int, width: int, n: int) -> None:
    """Store the sums of a block as the grid's gradient, (point, axis)."""
    for a in range(axes):
        settle_axis(tail(sums, a * width), tail(gradient, a), unsigned(axes), n)


def settle_sums_edges(
    sums: Array, gradient: Array, which: Array, axes: int, width: int, n: int
) -> None:
    """Store the sums of listed points as the grid's gradient."""
    for a in range(axes):
        settle_axis_edges(tail(sums, a * width), which, tail(gradient, a), unsigned(axes), n)


# The functions that lowering compiles before the drivers.
SUMS_OF = (total, moment)
PLANES = (slope_plane, add_shares)
