"""The drivers: over items, blocks of points, and planes.  One call is one task of one thread.

All share one shape.  For each block of points `survey` tells inside points and edges apart.  The
taps of the inside points are weighed once and used for every plane, or every run of channels; then
the same is done for the few edges.  Memory is flat and described by numbers (see
`gridsample.kernels.memory`): ``source`` and ``target`` list where each plane starts, ``*_item`` is
the distance from one item of the batch to the next (0 where the batch is broadcast), strides count
elements.  A task's points are first..last of items first_item..last_item, in the planes (or runs)
from ``planes`` to ``end``.  ``shifts`` lists the distance of each tap from the first; ``outside``
what each plane has at points that are out, ``dropped`` what it has under dropped taps, ``holes``
what it has at points that are nowhere.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import maximum, minimum
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
from gridsample.kernels.cpu.passes import (
    accumulate,
    accumulate_edges,
    blend,
    blend_across,
    blend_linear,
    blend_pairs,
    blend_sliding,
    collect,
    collect_channel,
    collect_pairs,
    collect_present,
    fetch,
    fetch_ahead,
    fetch_edges,
    mask,
    mask_weighed,
    pick,
    pick_edges,
    pick_runs,
    pick_runs_edges,
    replace,
    replace_bits,
    round_off,
    scale,
    settle,
    settle_axis,
    settle_axis_edges,
    settle_edges,
    settle_run,
    settle_whole,
    share,
    share_linear,
    share_sliding,
    silence,
    slope_linear,
    slope_sliding,
    spread,
    spread_band,
    spread_pairs,
    spread_present,
    sum_rows,
)
from gridsample.kernels.cpu.records import (
    BandedTask,
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
    Values,
)
from gridsample.kernels.cpu.runs import (
    add_outside,
    add_run,
    blend_few,
    blend_few_edges,
    blend_inside,
    blend_present,
    copy_run,
    dot,
    dot_outside,
    list_inside,
    list_present,
)
from gridsample.kernels.cpu.taps import (
    ALONG,
    AMOUNT,
    AT,
    AXES,
    BASE,
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
    any_slide,
    fill,
    find_piece,
    lay_blocks,
    multiply_out,
    multiply_rows,
    next_block,
    next_piece,
    own_coordinate,
    prepare_edges,
    survey,
    tail,
    weigh_inside,
)

Array = Any

# Bound by lowering.
real = float
integer = int
int64 = int
unsigned = int
PAIRS = JOINED = False
IN_PLACE = False
LINEAR = 0  # the rank, where all axes are linear
FOURS = False  # whether there are four taps along x
AFFINE = False  # whether a grid's memory holds affine maps instead
PIXEL = 0  # bytes of a pixel that is read by words, or numbers of one that are copied; or 0
FEW = 0  # how many channels of a pixel fit a register, where they are side by side
TOGETHER = 1  # how many pixels along x do
RUNS = False  # whether a pixel's channels, side by side, are copied together
HIGH = 0  # the greatest stored value, where it is an integer of few bits

# Blocks whose shares of a map's gradient are summed in one place, and the room that one has.
CHUNK, MAP = 8, 12


def window(out: Array, scratch: Array) -> Array:
    """Where numbers are worked on: in place where they are stored as they are, else in scratch."""
    return scratch


def gather(
    image: Planes, grid: Points, out: Values, around: Outside, lattice: Lattice, block: Block,
    task: Task,
) -> None:  # fmt: skip
    """Sample points first..last of items first_item..last_item in every plane."""
    width, count = block.table[WIDTH], block.table[EACH]
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    pixels, amount = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[AMOUNT])
    room, step, gap = (
        tail(block.reals, block.table[NUMBERS]),
        unsigned(out.step),
        unsigned(lattice.strides[0]),
    )
    put, slid = tail(block.indices, block.table[PUT]), tail(block.indices, block.table[SLID])
    x, across = tail(block.reals, block.table[FRACTION]), tail(block.reals, block.table[WEIGHT])
    y, z = tail(x, width), tail(x, 2 * width)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        edges = unsigned(0)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            before = edges
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            slides = LINEAR and block.table[SLIDES] and any_slide(slid, n)
            if inside and not LINEAR:
                weigh_inside(block, 1, n)
                if FOURS:
                    multiply_rows(block, block.table[AMOUNT], 1, n)
                else:
                    multiply_out(block, 1, n)
            for p in range(task.planes, task.end if edges - before < n else task.planes):
                plane = tail(image.memory, image.starts[p] + item * image.item)
                values = tail(out.memory, out.starts[p] + item * out.item)
                numbers = window(tail(values, (task.first + start) * out.step), room)
                if inside:
                    if lattice.far:
                        fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
                    if PIXEL:
                        collect_channel(
                            plane, at, lattice.shifts, places, pixels, p, count, wide, n
                        )
                    elif LINEAR:
                        collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
                    if LINEAR:
                        if slides:
                            blend_sliding(numbers, pixels, x, y, z, slid, wide, n)
                        else:
                            blend_linear(numbers, pixels, x, y, z, slid, wide, n)
                    elif FOURS:
                        sum_rows(
                            plane, at, lattice.shifts, gap, amount, pixels, count // 4, wide, n
                        )
                        blend_across(numbers, pixels, across, wide, n)
                    elif PAIRS:
                        collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
                        blend_pairs(numbers, pixels, amount, count, wide, n)
                    else:
                        collect(plane, at, lattice.shifts, pixels, count, wide, n)
                        blend(numbers, pixels, amount, count, wide, n)
                if inside < n:
                    replace(state, numbers, around.outside[p], n)
                settle_block(
                    block.table, numbers, values, task.first + start, out.step, block.indices, n
                )
            start, begins = next_block(start, begins, task.last - task.first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which = tail(block.indices, block.table[WHICH] + int64(begin))
                n = minimum(wide, many - begin)
                prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
                for p in range(task.planes, task.end):
                    plane = tail(image.memory, image.starts[p] + item * image.item)
                    here = tail(out.memory, out.starts[p] + item * out.item + task.first * out.step)
                    collect_present(plane, places, pixels, count, wide, n)
                    mask_weighed(places, amount, pixels, around.dropped[p], count, wide, n)
                    blend(room, pixels, amount, count, wide, n)
                    settle_edges(room, lost, around.holes[p], put, here, step, n)
            edges -= many


def gather_nearest(
    image: Planes, grid: Points, out: Values, around: Outside, lattice: Lattice, length: int,
    block: Block, task: Task,
) -> None:  # fmt: skip
    """As gather, where each axis has one tap of weight one: bits are copied, whatever they mean."""
    width, step = block.table[WIDTH], unsigned(out.step)
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    put = tail(block.indices, block.table[PUT])
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        edges = unsigned(0)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            before = edges
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            for p in range(task.planes, task.end if edges - before < n else task.planes):
                plane = tail(image.memory, image.starts[p] + item * image.item)
                values = tail(out.memory, out.starts[p] + item * out.item)
                if lattice.far and inside:
                    fetch_ahead(plane, at, lattice.shifts, 1, 1, n)
                if RUNS:
                    empty, here = (
                        tail(around.outside, p * length),
                        tail(values, (task.first + start) * out.step),
                    )
                    pick_runs(plane, at, state, here, step, empty, unsigned(length), n)
                    continue
                coming = tail(points.memory, (start + ahead) * grid.point)
                each = unsigned(grid.point) if p == task.planes else unsigned(0)
                done = int64(0)
                while done < int64(n):
                    point = task.first + start + done
                    many = unsigned(next_piece(block.table, point, int64(n) - done))
                    here = tail(values, find_piece(block.table, point) * out.step)
                    if inside:
                        pick(plane, tail(at, done), here, step, coming, each, many)
                    if inside < n:
                        replace_bits(tail(state, done), here, around.outside[p], step, many)
                    done += int64(many)
            start, begins = next_block(start, begins, task.last - task.first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which = tail(block.indices, block.table[WHICH] + int64(begin))
                n = minimum(wide, many - begin)
                prepare_edges(block, points, 0, 0, lattice.strides, task.first, which, n)
                for p in range(task.planes, task.end):
                    plane = tail(image.memory, image.starts[p] + item * image.item)
                    here = tail(out.memory, out.starts[p] + item * out.item + task.first * out.step)
                    if RUNS:
                        pick_runs_edges(
                            plane,
                            places,
                            lost,
                            tail(around.dropped, p * length),
                            tail(around.holes, p * length),
                            which,
                            here,
                            step,
                            unsigned(length),
                            n,
                        )
                    else:
                        pick_edges(
                            plane,
                            places,
                            lost,
                            around.dropped[p],
                            around.holes[p],
                            put,
                            here,
                            step,
                            n,
                        )
            edges -= many


def gather_runs(
    image: Planes, grid: Points, out: Values, around: Outside, lattice: Lattice, length: int,
    block: Block, task: Task,
) -> None:  # fmt: skip
    """As gather, where a pixel's channels lie side by side: a tap is a run of ``length``."""
    width, taps, size = block.table[WIDTH], unsigned(block.table[EACH]), unsigned(length)
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    here, tap = tail(block.indices, block.table[HERE]), tail(block.indices, block.table[LISTED])
    amount, run, step = (
        tail(block.reals, block.table[AMOUNT]),
        tail(block.reals, block.table[RUN]),
        unsigned(out.step),
    )
    across, rows = tail(block.reals, block.table[WEIGHT]), taps // unsigned(TOGETHER)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        edges = unsigned(0)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            before = edges
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            if inside:
                weigh_inside(block, 1, n)
                if TOGETHER > 1:
                    multiply_rows(block, block.table[AMOUNT], 1, n)
                else:
                    multiply_out(block, 1, n)
            for p in range(task.planes, task.end if edges - before < n else task.planes):
                pixels = tail(image.memory, image.starts[p] + item * image.item)
                place = tail(
                    out.memory, out.starts[p] + item * out.item + (task.first + start) * out.step
                )
                empty = tail(around.outside, p * length)
                if FEW:
                    if lattice.far and inside:
                        fetch_ahead(
                            pixels, at, lattice.shifts, block.axes[COUNT], block.table[EACH], n
                        )
                    blend_few(
                        place,
                        step,
                        pixels,
                        at,
                        state,
                        lattice.shifts,
                        amount,
                        across,
                        empty,
                        wide,
                        rows,
                        n,
                    )
                elif IN_PLACE:
                    blend_inside(
                        place,
                        step,
                        pixels,
                        at,
                        state,
                        lattice.shifts,
                        amount,
                        empty,
                        wide,
                        taps,
                        size,
                        n,
                    )
                else:
                    for i in range(n):
                        blend_inside(
                            run, step, pixels, tail(at, i), tail(state, i), lattice.shifts,
                            tail(amount, i), empty, wide, taps, size, unsigned(1),
                        )  # fmt: skip
                        settle(run, tail(place, i * step), unsigned(1), size)
            start, begins = next_block(start, begins, task.last - task.first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which = tail(block.indices, block.table[WHICH] + int64(begin))
                n = minimum(wide, many - begin)
                prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
                for p in range(task.planes, task.end):
                    pixels = tail(image.memory, image.starts[p] + item * image.item)
                    place = tail(
                        out.memory, out.starts[p] + item * out.item + task.first * out.step
                    )
                    if FEW:
                        blend_few_edges(
                            place,
                            step,
                            pixels,
                            places,
                            lost,
                            which,
                            amount,
                            tail(around.dropped, p * length),
                            tail(around.holes, p * length),
                            wide,
                            taps,
                            n,
                        )
                        continue
                    for j in range(n):
                        count = list_present(places, taps, wide, j, here, tap)
                        blend_present(run, pixels, here, amount, tap, count, size)
                        add_outside(
                            run, tail(around.dropped, p * length), amount, tap, count, taps, size
                        )
                        if lost[j]:
                            copy_run(run, unsigned(0), tail(around.holes, p * length), size)
                        settle_run(run, tail(place, unsigned(which[j]) * step), size)
            edges -= many


def backward(
    image: Planes,
    grid: Points,
    values: Values,
    shadow: Planes,
    gradient: Gradient,
    dropped: Memory,
    lattice: Lattice,
    needs: Needs,
    block: Block,
    task: BandedTask,
) -> None:
    """Scatter the values of every plane to their taps in ``shadow``, and sum the grid's gradient.

    ``strides`` are the image's, the shadow's, or both's.  Where the call is ``banded``, only taps
    whose offset in the shadow's plane is in [low, high) are written; otherwise [low, high) is the
    whole plane.  A pixel is always added to in the order of items and ranges of points, however
    the work is divided: the sums are the same bit for bit.
    """
    width, count, step = block.table[WIDTH], block.table[EACH], unsigned(values.step)
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, lost = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[LOST])
    sums = tail(block.reals, block.table[SUMS])
    put, slid = tail(block.indices, block.table[PUT]), tail(block.indices, block.table[SLID])
    pixels, amount = tail(block.reals, block.table[PIXELS]), tail(block.reals, block.table[AMOUNT])
    g, along = tail(block.reals, block.table[NUMBERS]), tail(block.reals, block.table[ALONG])
    x = tail(block.reals, block.table[FRACTION])
    y, z = tail(x, width), tail(x, 2 * width)
    orders, kinds = (2, 1 + block.table[AXES]) if needs.grid else (1, 1)
    # Rows of taps are weighed by what follows the weights of single taps.
    lines, size, gap = (
        block.table[AMOUNT] + count * width,
        block.table[MOST] * width,
        unsigned(lattice.strides[0]),
    )
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        edges = unsigned(0)
        sums_of = item * gradient.item + (
            0 if AFFINE else task.first * block.table[AXES] * needs.grid
        )
        slopes = tail(gradient.memory, sums_of)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            slides = LINEAR and block.table[SLIDES] and any_slide(slid, n)
            if inside and not LINEAR:
                weigh_inside(block, orders, n)
                if needs.image or not FOURS:
                    multiply_out(block, 1 if FOURS else kinds, n)
                if FOURS:
                    multiply_rows(block, lines, block.table[AXES], n)
            if inside:
                clear_sums(sums, block.table[AXES] * needs.grid, width, n)
            for p in range(task.planes, task.end if inside else task.planes):
                fetch_block(
                    block.table,
                    tail(values.memory, values.starts[p] + item * values.item),
                    task.first + start,
                    values.step,
                    g,
                    n,
                )
                if inside < n:
                    replace(state, g, real(0), n)
                if lattice.far and needs.image:
                    plane = tail(shadow.memory, shadow.starts[p] + item * shadow.item)
                    fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
                if needs.grid:
                    plane = tail(image.memory, image.starts[p] + item * image.item)
                    if lattice.far:
                        fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
                    if PIXEL:
                        collect_channel(
                            plane, at, lattice.shifts, places, pixels, p, count, wide, n
                        )
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
                if needs.image:
                    plane = tail(shadow.memory, shadow.starts[p] + item * shadow.item)
                    if LINEAR:
                        if slides:
                            share_sliding(g, pixels, x, y, z, slid, wide, n)
                        else:
                            share_linear(g, pixels, x, y, z, slid, wide, n)
                    else:
                        share(g, amount, pixels, count, wide, n)
                    if task.banded:
                        spread_band(
                            plane, at, lattice.shifts, pixels, task.low, task.high, count, wide, n
                        )
                    elif JOINED:
                        spread_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
                    else:
                        spread(plane, at, lattice.shifts, pixels, count, wide, n)
            if needs.grid and inside:
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
                    settle_sums(
                        sums, tail(slopes, start * block.table[AXES]), block.table[AXES], width, n
                    )
            start, begins = next_block(start, begins, task.last - task.first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which = tail(block.indices, block.table[WHICH] + int64(begin))
                n = minimum(wide, many - begin)
                prepare_edges(block, points, orders, kinds, lattice.strides, task.first, which, n)
                clear_sums(sums, block.table[AXES] * needs.grid, width, n)
                for p in range(task.planes, task.end):
                    here = values.starts[p] + item * values.item + task.first * values.step
                    fetch_edges(tail(values.memory, here), step, put, g, n)
                    fills = block.table[FILLS] and dropped[p] != real(0)
                    silence(places, lost, g, fills, count, wide, n)
                    if needs.grid:
                        plane = tail(image.memory, image.starts[p] + item * image.item)
                        collect_present(plane, places, pixels, count, wide, n)
                        mask(places, pixels, dropped[p], count, wide, n)
                        for a in range(block.table[AXES]):
                            if raises(block.axes, a):
                                weights = tail(amount, (1 + a) * count * width)
                                blend(along, pixels, weights, count, wide, n)
                                accumulate_edges(tail(sums, a * width), g, along, n)
                    if needs.image:
                        plane = tail(shadow.memory, shadow.starts[p] + item * shadow.item)
                        share(g, amount, pixels, count, wide, n)
                        spread_present(plane, places, pixels, task.low, task.high, count, wide, n)
                if needs.grid and AFFINE:
                    settle_map_edges(
                        sums, block.axes, block.measures, block.table, task.first, which, slopes, n
                    )
                elif needs.grid:
                    settle_sums_edges(sums, slopes, which, block.table[AXES], width, n)
            edges -= many


def backward_runs(
    image: Planes,
    grid: Points,
    values: Values,
    shadow: Planes,
    gradient: Gradient,
    dropped: Memory,
    lattice: Lattice,
    needs: Needs,
    length: int,
    block: Block,
    task: BandedTask,
) -> None:
    """As backward, where the channels of a pixel lie side by side."""
    width, taps, size = block.table[WIDTH], unsigned(block.table[EACH]), unsigned(length)
    wide, at = unsigned(width), tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places, here = tail(block.indices, block.table[PLACES]), tail(block.indices, block.table[HERE])
    lost = tail(block.indices, block.table[LOST])
    tap, amount = tail(block.indices, block.table[LISTED]), tail(block.reals, block.table[AMOUNT])
    g, along = tail(block.reals, block.table[RUN]), tail(block.reals, block.table[SUMS])
    orders, kinds = (2, 1 + block.table[AXES]) if needs.grid else (1, 1)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        edges = unsigned(0)
        sums_of = item * gradient.item + (
            0 if AFFINE else task.first * block.table[AXES] * needs.grid
        )
        slopes = tail(gradient.memory, sums_of)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            origin, (start, begins) = (
                start,
                next_block(start, begins, task.last - task.first, row, strip),
            )
            many = enough(edges, wide, begins >= row)
            # Inside points first, then edges: the same loop over two kinds of lists.
            for begin in range(-width, int64(many), width):
                which = tail(block.indices, block.table[WHICH] + maximum(begin, int64(0)))
                if begin >= 0:
                    n = unsigned(minimum(width, int64(many) - begin))
                    prepare_edges(
                        block, points, orders, kinds, lattice.strides, task.first, which, n
                    )
                elif inside:
                    weigh_inside(block, orders, n)
                    multiply_out(block, kinds, n)
                else:
                    continue
                for j in range(n):
                    if begin >= 0:
                        point = int64(which[j])
                        count = list_present(places, taps, wide, j, here, tap)
                        fills = block.table[FILLS] and not lost[j]
                    else:
                        point = origin + int64(j)
                        if state[j]:
                            continue
                        count = list_inside(at[j], lattice.shifts, taps, wide, j, here, tap)
                        fills = False
                    for a in range(block.table[AXES]):
                        along[a] = real(0)
                    for p in range(task.planes, task.end if count or fills else task.planes):
                        offset = (
                            values.starts[p]
                            + item * values.item
                            + (task.first + point) * values.step
                        )
                        fetch(tail(values.memory, offset), unsigned(1), g, size)
                        pixels = tail(image.memory, image.starts[p] + item * image.item)
                        plane = tail(shadow.memory, shadow.starts[p] + item * shadow.item)
                        for k in range(taps):
                            if needs.grid:
                                if k < count:
                                    product = dot(tail(pixels, here[k]), g, size)
                                else:
                                    product = dot_outside(tail(dropped, p * length), g, size)
                                for a in range(block.table[AXES]):
                                    if raises(block.axes, a):
                                        kind = unsigned(1 + a) * taps * wide
                                        along[a] += product * amount[kind + unsigned(tap[k])]
                            if (
                                needs.image
                                and k < count
                                and (not task.banded or task.low <= here[k] < task.high)
                            ):
                                add_run(tail(plane, here[k]), g, amount[unsigned(tap[k])], size)
                    if needs.grid and AFFINE:
                        some = tail(
                            slopes, (chunk(task.first + point, block.table) + (begin >= 0)) * MAP
                        )
                        add_to_map(
                            along,
                            1,
                            block.axes,
                            block.measures,
                            block.table[AXES],
                            task.first + point,
                            some,
                        )
                    elif needs.grid:
                        for a in range(block.table[AXES]):
                            slopes[point * block.table[AXES] + a] = along[a]
            edges -= many


def enough(edges: int, width: int, closing: bool) -> int:
    """How many of the listed edges are worked on now: all, once they fill a block or at the end."""
    return edges if edges >= width or closing else unsigned(0)


def raises(axes: Array, a: int) -> bool:
    """Whether the next derivative along an axis is other than zero, whatever the pixels are."""
    return bool(axes[a * COLUMNS + ORDER] + 1 < axes[a * COLUMNS + POWERS])


def chunk(point: int, block: Array) -> int:
    """Where a point's share of the gradient of a map is summed: there is one for several blocks.

    What edges add comes after it, in a place of its own, because it is not known when they do.
    """
    first: int = 2 * (point // (CHUNK * block[WIDTH]))
    return first


def add_to_map(
    sums: Array, step: int, axes: Array, measures: Array, count: int, point: int, some: Array
) -> None:
    """Add what a point's gradient is for the rows of a map; its axes are ``step`` apart."""
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
    """The sums of a block -> the gradient of the map that its points are sent by."""
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
    """As settle_map, at the listed points."""
    for j in range(n):
        point = first + int64(which[j])
        some = tail(slopes, (chunk(point, block) + 1) * MAP)
        add_to_map(tail(sums, j), block[WIDTH], axes, measures, block[AXES], point, some)


def total(numbers: Array, n: int) -> Any:
    """The sum of so many numbers."""
    result = real(0)
    for i in range(n):
        result += numbers[i]
    return result


def moment(numbers: Array, place: int, n: int) -> Any:
    """The sum of numbers times their places, of which the first is ``place``."""
    result = real(0)
    for i in range(n):
        result += numbers[i] * real(integer(place) + integer(i))
    return result


def settle_block(
    block: Array, numbers: Array, values: Array, begin: int, step: int, indices: Array, n: int
) -> None:
    """Store the numbers of a block's points, of which the first is ``begin``, in a plane."""
    whole, done = tail(indices, block[BASE]), int64(0)
    if HIGH:
        round_off(numbers, whole, n)
    while done < int64(n):
        many = unsigned(next_piece(block, begin + done, int64(n) - done))
        here = tail(values, find_piece(block, begin + done) * step)
        if HIGH:
            settle_whole(tail(whole, done), here, unsigned(step), many)
        else:
            settle(tail(numbers, done), here, unsigned(step), many)
        done += int64(many)


def fetch_block(block: Array, values: Array, begin: int, step: int, numbers: Array, n: int) -> None:
    """As settle_block, from stored values to numbers."""
    done = int64(0)
    while done < int64(n):
        many = unsigned(next_piece(block, begin + done, int64(n) - done))
        here = tail(values, find_piece(block, begin + done) * step)
        fetch(here, unsigned(step), tail(numbers, done), many)
        done += int64(many)


def clear_sums(sums: Array, axes: int, width: int, n: int) -> None:
    """Sums along each axis that start at 0."""
    for a in range(axes):
        fill(tail(sums, a * width), real(0), n)


def steepen(sums: Array, measures: Array, axes: int, width: int, n: int) -> None:
    """Sums for each pixel along an axis -> for each unit of the coordinate."""
    for a in range(axes):
        scale(tail(sums, a * width), measures[a * MEASURES + STEEP], n)


def settle_sums(sums: Array, gradient: Array, axes: int, width: int, n: int) -> None:
    """The sums of a block -> the grid's gradient, (point, axis)."""
    for a in range(axes):
        settle_axis(tail(sums, a * width), tail(gradient, a), unsigned(axes), n)


def settle_sums_edges(
    sums: Array, gradient: Array, which: Array, axes: int, width: int, n: int
) -> None:
    """As settle_sums, at the listed points."""
    for a in range(axes):
        settle_axis_edges(tail(sums, a * width), which, tail(gradient, a), unsigned(axes), n)


# What lowering compiles before the drivers.
SUMS_OF = (total, moment)
STEPS = (
    add_to_map,
    settle_map,
    settle_map_edges,
    settle_block,
    fetch_block,
    clear_sums,
    steepen,
    settle_sums,
    settle_sums_edges,
)
