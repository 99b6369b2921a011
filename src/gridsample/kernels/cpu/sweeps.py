"""The drivers: loops over items, blocks of points, and planes.  One call is one task of one thread.

All have the same structure.  For each block of points, `survey` separates inside points and edges.
The weights of the inside points' taps are computed once and used for every plane, or every run of
channels; the same is then done for the few edges.  Memory is flat and described by numbers (see
`gridsample.kernels.memory`): ``starts`` lists where each plane starts, ``item`` is the distance
from one item of the batch to the next (0 if the batch is broadcast), and strides count elements.
A task's points are first..last of items first_item..last_item, in the planes (or runs) from
``planes`` to ``end``.  ``shifts`` lists the distance of each tap from the first.  For each plane,
``outside`` lists the value of points that are out, ``dropped`` that of dropped taps, and ``holes``
that of points that are nowhere.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import minimum
from gridsample.kernels.axes import COUNT
from gridsample.kernels.cpu.blocks import (
    AMOUNT,
    AT,
    BASE,
    EACH,
    FRACTION,
    GAP,
    HERE,
    LISTED,
    LOST,
    NUMBERS,
    PIXELS,
    PLACES,
    PUT,
    RUN,
    SLID,
    SLIDES,
    STATE,
    WEIGHT,
    WHICH,
    WIDTH,
    find_piece,
    lay_blocks,
    next_block,
    next_piece,
    tail,
)
from gridsample.kernels.cpu.gradients import (
    add_to_map,
    clear_sums,
    fetch_block,
    settle_map,
    settle_map_edges,
    settle_sums,
    settle_sums_edges,
    steepen,
)
from gridsample.kernels.cpu.means import (
    absent_of,
    average_edges,
    average_few,
    average_few_edges,
    average_inside,
    average_run,
    average_run_edge,
    average_runs,
    least_of,
)
from gridsample.kernels.cpu.passes import (
    blend,
    blend_across,
    blend_linear,
    blend_pairs,
    blend_sliding,
    collect,
    collect_channel,
    collect_pairs,
    collect_present,
    fetch_ahead,
    mask_weighed,
    pick,
    pick_edges,
    pick_runs,
    pick_runs_edges,
    replace,
    replace_bits,
    round_off,
    settle,
    settle_edges,
    settle_run,
    settle_whole,
    sum_rows,
)
from gridsample.kernels.cpu.positions import any_slide, survey
from gridsample.kernels.cpu.records import (
    Block,
    Gather,
    GatherRuns,
    Lattice,
    Line,
    Points,
    Span,
    Task,
)
from gridsample.kernels.cpu.runs import (
    add_outside,
    blend_few,
    blend_few_edges,
    blend_inside,
    blend_present,
    copy_run,
    list_present,
)
from gridsample.kernels.cpu.taps import multiply_out, multiply_rows, prepare_edges, weigh_inside

Array = Any
int64 = int
unsigned = int
PAIRS = JOINED = False
IN_PLACE = False  # whether sums are stored without conversion
LINEAR = 0  # the rank if all axes are linear
FOURS = False  # whether there are four taps along x
PIXEL = 0  # bytes of a pixel that is read by words, or numbers of one that is copied; or 0
FEW = 0  # how many contiguous channels of a pixel fit a register
TOGETHER = 1  # how many pixels along x are read together
RUNS = False  # whether a pixel's contiguous channels are copied together
MEANS = False  # whether NaN pixels do not count
HIGH = 0  # the greatest stored value, if it is an integer of few bits


def work_inside(*arguments: Any) -> None:
    """Process the points of a block that are not edges; bound by lowering."""


def work_edges(*arguments: Any) -> None:
    """Process listed edges; bound by lowering."""


def sweep(job: Any, grid: Points, lattice: Lattice, block: Block, task: Any) -> None:
    """Run a driver: its work for all blocks of a task's points, item by item.

    The records of the ``job`` and the ``task`` are specific to the driver: see `DRIVERS`.
    """
    wide = unsigned(block.table[WIDTH])
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        row, strip, ahead = lay_blocks(block, points, task.last - task.first)
        edges, start, begins = unsigned(0), int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            before = edges
            inside, edges = survey(
                block, points, lattice.strides, task.first, start, edges, ahead, n
            )
            span = Span(item, start, ahead, inside, edges - before, n)
            work_inside(job, lattice, block, task, points, span)
            start, begins = next_block(start, begins, task.last - task.first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which = tail(block.indices, block.table[WHICH] + int64(begin))
                listed = minimum(wide, many - begin)
                work_edges(job, lattice, block, task, points, item, which, listed)
            edges -= many


def gather_inside(
    job: Gather, lattice: Lattice, block: Block, task: Task, points: Line, span: Span
) -> None:
    """Sample points first..last of items first_item..last_item in every plane."""
    item = span.item
    start = span.start
    inside = span.inside
    n = span.n
    width = block.table[WIDTH]
    count = block.table[EACH]
    wide = unsigned(width)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    places = tail(block.indices, block.table[PLACES])
    pixels = tail(block.reals, block.table[PIXELS])
    amount = tail(block.reals, block.table[AMOUNT])
    room = tail(block.reals, block.table[NUMBERS])
    gap = unsigned(lattice.strides[0])
    slid = tail(block.indices, block.table[SLID])
    x = tail(block.reals, block.table[FRACTION])
    across = tail(block.reals, block.table[WEIGHT])
    y = tail(x, width)
    z = tail(x, 2 * width)
    begin = task.first + start
    slides = LINEAR and block.table[SLIDES] and any_slide(slid, n)
    if inside and not LINEAR:
        weigh_inside(block, 1, n)
        if FOURS:
            multiply_rows(block, block.table[AMOUNT], 1, n)
        else:
            multiply_out(block, 1, n)
    for p in range(task.planes, task.end if span.listed < n else task.planes):
        plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        values = tail(job.out.memory, job.out.starts[p] + item * job.out.item)
        numbers, stay = window(block.table, job.out.step, tail(values, begin * job.out.step), room)
        if inside:
            if lattice.far:
                fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, n)
            if PIXEL:
                collect_channel(plane, at, lattice.shifts, places, pixels, p, count, wide, n)
            elif LINEAR:
                collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
            if LINEAR:
                if slides:
                    blend_sliding(numbers, pixels, x, y, z, slid, wide, n)
                else:
                    blend_linear(numbers, pixels, x, y, z, slid, wide, n)
            elif FOURS:
                sum_rows(plane, at, lattice.shifts, gap, amount, pixels, count // 4, wide, n)
                blend_across(numbers, pixels, across, wide, n)
            elif PAIRS:
                collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
                blend_pairs(numbers, pixels, amount, count, wide, n)
            else:
                collect(plane, at, lattice.shifts, pixels, count, wide, n)
                blend(numbers, pixels, amount, count, wide, n)
            if MEANS:
                least, absent = least_of(job.around), absent_of(job.around, p)[0]
                average_inside(numbers, plane, lattice, block, slid, slides, least, absent, n)
        if inside < n:
            replace(state, numbers, job.around.outside[p], n)
        if not stay:
            settle_block(block.table, numbers, values, begin, job.out.step, block.indices, n)


def gather_edges(
    job: Gather,
    lattice: Lattice,
    block: Block,
    task: Task,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Sample at the ``n`` listed edges of an item."""
    width = block.table[WIDTH]
    count = block.table[EACH]
    wide = unsigned(width)
    places = tail(block.indices, block.table[PLACES])
    lost = tail(block.indices, block.table[LOST])
    pixels = tail(block.reals, block.table[PIXELS])
    amount = tail(block.reals, block.table[AMOUNT])
    room = tail(block.reals, block.table[NUMBERS])
    step = unsigned(job.out.step)
    put = tail(block.indices, block.table[PUT])
    prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
    for p in range(task.planes, task.end):
        plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        here = tail(
            job.out.memory, job.out.starts[p] + item * job.out.item + task.first * job.out.step
        )
        collect_present(plane, places, pixels, count, wide, n)
        mask_weighed(places, amount, pixels, job.around.dropped[p], count, wide, n)
        blend(room, pixels, amount, count, wide, n)
        if MEANS:
            average_edges(block, least_of(job.around), absent_of(job.around, p)[0], n)
        settle_edges(room, lost, job.around.holes[p], put, here, step, n)


def gather_nearest_inside(
    job: GatherRuns, lattice: Lattice, block: Block, task: Task, points: Line, span: Span
) -> None:
    """Copy bits, if each axis has one tap of weight one."""
    item = span.item
    start = span.start
    inside = span.inside
    n = span.n
    step = unsigned(job.out.step)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    for p in range(task.planes, task.end if span.listed < n else task.planes):
        plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        values = tail(job.out.memory, job.out.starts[p] + item * job.out.item)
        if lattice.far and inside:
            fetch_ahead(plane, at, lattice.shifts, 1, 1, n)
        if RUNS:
            empty, here = (
                tail(job.around.outside, p * job.length),
                tail(values, (task.first + start) * job.out.step),
            )
            pick_runs(plane, at, state, here, step, empty, unsigned(job.length), n)
            continue
        coming = tail(points.memory, (start + span.ahead) * points.point)
        each = unsigned(points.point) if p == task.planes else unsigned(0)
        done = int64(0)
        while done < int64(n):
            point = task.first + start + done
            many = unsigned(next_piece(block.table, point, int64(n) - done))
            here = tail(values, find_piece(block.table, point) * job.out.step)
            if inside:
                pick(plane, tail(at, done), here, step, coming, each, many)
            if inside < n:
                replace_bits(tail(state, done), here, job.around.outside[p], step, many)
            done += int64(many)


def gather_nearest_edges(
    job: GatherRuns,
    lattice: Lattice,
    block: Block,
    task: Task,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Copy bits at the ``n`` listed edges of an item."""
    step = unsigned(job.out.step)
    places = tail(block.indices, block.table[PLACES])
    lost = tail(block.indices, block.table[LOST])
    put = tail(block.indices, block.table[PUT])
    prepare_edges(block, points, 0, 0, lattice.strides, task.first, which, n)
    for p in range(task.planes, task.end):
        plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        here = tail(
            job.out.memory, job.out.starts[p] + item * job.out.item + task.first * job.out.step
        )
        if RUNS:
            pick_runs_edges(
                plane,
                places,
                lost,
                tail(job.around.dropped, p * job.length),
                tail(job.around.holes, p * job.length),
                which,
                here,
                step,
                unsigned(job.length),
                n,
            )
        else:
            pick_edges(
                plane,
                places,
                lost,
                job.around.dropped[p],
                job.around.holes[p],
                put,
                here,
                step,
                n,
            )


def gather_runs_inside(
    job: GatherRuns, lattice: Lattice, block: Block, task: Task, points: Line, span: Span
) -> None:
    """Sample if a pixel's channels are contiguous: a tap reads a run of ``length`` channels."""
    item = span.item
    start = span.start
    inside = span.inside
    n = span.n
    width = block.table[WIDTH]
    taps = unsigned(block.table[EACH])
    size = unsigned(job.length)
    wide = unsigned(width)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    amount = tail(block.reals, block.table[AMOUNT])
    run = tail(block.reals, block.table[RUN])
    step = unsigned(job.out.step)
    across = tail(block.reals, block.table[WEIGHT])
    rows = taps // unsigned(TOGETHER)
    if inside:
        weigh_inside(block, 1, n)
        if TOGETHER > 1:
            multiply_rows(block, block.table[AMOUNT], 1, n)
        else:
            multiply_out(block, 1, n)
    for p in range(task.planes, task.end if span.listed < n else task.planes):
        pixels = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        place = tail(
            job.out.memory,
            job.out.starts[p] + item * job.out.item + (task.first + start) * job.out.step,
        )
        empty = tail(job.around.outside, p * job.length)
        if FEW:
            if lattice.far and inside:
                fetch_ahead(pixels, at, lattice.shifts, block.axes[COUNT], block.table[EACH], n)
            if MEANS:
                least, absent = least_of(job.around), absent_of(job.around, p * job.length)
                average_few(
                    place, step, pixels, lattice.shifts, block, empty, least, absent, rows, n
                )
            else:
                blend_few(
                    place, step, pixels, at, state, lattice.shifts, amount, across, empty, wide,
                    rows, n,
                )  # fmt: skip
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
            if MEANS:
                least, absent = least_of(job.around), absent_of(job.around, p * job.length)
                average_runs(place, step, pixels, lattice.shifts, block, least, absent, size, n)
        else:
            for i in range(n):
                blend_inside(
                    run, step, pixels, tail(at, i), tail(state, i), lattice.shifts,
                    tail(amount, i), empty, wide, taps, size, unsigned(1),
                )  # fmt: skip
                if MEANS:
                    least, absent = least_of(job.around), absent_of(job.around, p * job.length)
                    average_run(run, pixels, lattice.shifts, block, least, absent, size, i)
                settle(run, tail(place, i * step), unsigned(1), size)


def gather_runs_edges(
    job: GatherRuns,
    lattice: Lattice,
    block: Block,
    task: Task,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Sample runs of channels at the ``n`` listed edges of an item."""
    width = block.table[WIDTH]
    taps = unsigned(block.table[EACH])
    size = unsigned(job.length)
    wide = unsigned(width)
    places = tail(block.indices, block.table[PLACES])
    lost = tail(block.indices, block.table[LOST])
    here = tail(block.indices, block.table[HERE])
    tap = tail(block.indices, block.table[LISTED])
    amount = tail(block.reals, block.table[AMOUNT])
    run = tail(block.reals, block.table[RUN])
    step = unsigned(job.out.step)
    prepare_edges(block, points, 1, 1, lattice.strides, task.first, which, n)
    for p in range(task.planes, task.end):
        pixels = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
        place = tail(
            job.out.memory, job.out.starts[p] + item * job.out.item + task.first * job.out.step
        )
        under, hole = (
            tail(job.around.dropped, p * job.length),
            tail(job.around.holes, p * job.length),
        )
        if FEW and MEANS:
            least, absent = least_of(job.around), absent_of(job.around, p * job.length)
            average_few_edges(place, step, pixels, block, which, under, hole, least, absent, n)
            continue
        if FEW:
            blend_few_edges(
                place, step, pixels, places, lost, which, amount, under, hole, wide, taps, n
            )
            continue
        for j in range(n):
            count = list_present(places, taps, wide, j, here, tap)
            blend_present(run, pixels, here, amount, tap, count, size)
            add_outside(run, under, amount, tap, count, taps, size)
            if MEANS:
                least, absent = least_of(job.around), absent_of(job.around, p * job.length)
                average_run_edge(pixels, block, under, least, absent, count, size)
            if lost[j]:
                copy_run(run, unsigned(0), hole, size)
            settle_run(run, tail(place, unsigned(which[j]) * step), size)


def enough(edges: int, width: int, closing: bool) -> int:
    """Return how many listed edges to process now: all if they fill a block, or at the end."""
    return edges if edges >= width or closing else unsigned(0)


def window(block: Array, step: int, out: Array, scratch: Array) -> tuple[Array, bool]:
    """Return where to compute sums, and whether they stay there.

    They do in an output of their dtype, if a block's points are contiguous; otherwise, they are
    computed in scratch memory, and `settle_block` stores them.
    """
    if IN_PLACE and step == 1 and not block[GAP]:
        return out, True
    return scratch, False


def settle_block(
    block: Array, numbers: Array, values: Array, begin: int, step: int, indices: Array, n: int
) -> None:
    """Store the numbers of a block's points, the first of which is ``begin``, in a plane."""
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
