"""How the work of a call is divided: into rows, sweeps, and the ranges of tasks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout
from gridsample.kernels.sampling.layouts import ArrayPlanes, element, gradient_layout, planes_of
from gridsample.kernels.sampling.settings import STRIP
from gridsample.kernels.vector import host, kind_of

Array = np.ndarray[Any, Any]

# The number of taps that justifies a thread of its own, and the most taps of a task.
TAPS_OF_THREAD, MAX_TAPS_OF_TASK = 1 << 16, 1 << 22
# What a footprint is assumed to cost, in points, where a call is divided into tasks.
FOOTPRINT = 8
# Pixels of a plane from which sweeps over footprints compute one gradient at a time.
LARGE_PLANE = 1 << 16
# Rows of a task, if there are enough of them for as many tasks: see `cached_share`.
TALL, BANDS = 128, 16
# Lines of the near cache that may hold pixels between two rows of points.
LINES_BETWEEN_ROWS = 896
# The pixels for each point from which points are far apart.
SPARSE = 64
# Points of a row from which rows are processed in strips, one below the other.
LONG_ROW = 128
# The fewest planes of a block of which points are near each other.
FEW_PLANES = 4
# The fewest taps of a block of which points are far apart.
FEW_READ = 1 << 12
# The most pixels for each point at which points read every line of the cache several times.
DENSE = 8
# The most tasks of a call with blocks.
MANY_TASKS = 1 << 12

# The gradients that are added to pixels, and those, and what they need, that are read from pixels.
ADDED, READ = frozenset({"image", "weights"}), frozenset({"grid", "values", "upstream"})


class Outputs(NamedTuple):
    """How the points of an output are divided into rows.

    Attributes:
        listed: whether points of all items form one list.
        rows: the rows of an item.
        columns: the points of a row, or of the list.
    """

    listed: bool
    rows: int
    columns: int


def divide_points(plan: Plan, lanes: int) -> Outputs:
    """Choose how the points of a call are divided."""
    if plan.points < lanes:
        return Outputs(True, 1, plan.points * plan.grid_items)
    # A lattice is interpolated row by row.
    long = LONG_ROW if plan.lattice is None else lanes
    if len(plan.out) > 1 and plan.out[-1] >= max(long, lanes):
        return Outputs(False, plan.points // plan.out[-1], plan.out[-1])
    return Outputs(False, 1, plan.points)


def cached_share(plan: Plan, source: ArrayPlanes, channels: int) -> list[float]:
    """Return the share of the cache that points touch per unit of each coordinate, x first.

    The pixels that a row of points reads should still be in cache when the row below reads nearly
    the same ones.  If a row touches more lines of the cache, as where the image is turned, programs
    cut rows into blocks, each of which is followed by the block below (`Points.block_length`).
    """
    size, runs = kind_of(source.kind).bits // 8, len(source.starts) // channels
    max_bytes = max(CACHES.line, channels * size)  # a pixel of many channels has several lines
    units = pixels_per_unit(plan.spatial, plan.coords, plan.align_corners)
    return [
        abs(unit) * min(abs(stride) * size, max_bytes) * runs / (CACHES.line * LINES_BETWEEN_ROWS)
        for unit, stride in zip(units, source.strides, strict=True)
    ]


def pays_prefetching(plan: Plan, source: ArrayPlanes) -> bool:
    """Whether an image is larger than the cache of a core, and points are not far apart.

    Where neighbouring points are far apart, what the next ones read cannot be foreseen; but
    samples of a footprint are neighbours.
    """
    items = plan.grid_items if source.item else 1
    pixels = math.prod(plan.spatial)
    size = items * len(source.starts) * pixels * kind_of(source.kind).bits // 8
    far_apart = plan.footprint is None and SPARSE * plan.points < pixels
    return size > CACHES.own and not far_apart


def pays_asking_at_once(plan: Plan, source: ArrayPlanes) -> bool:
    """Whether to ask for pixels as soon as points at random places have been located.

    Waiting for pixels and computing positions then overlap.  More taps, or planes of which many
    pixels are in cache, gain nothing, and gradients lose.
    """
    size = math.prod(plan.spatial) * kind_of(source.kind).bits // 8
    return plan.footprint is None and taps_of(plan) == 1 and size > CACHES.own


def with_own_grids(plan: Plan, grid: Layout) -> tuple[Plan, Layout]:
    """Return the plan and the grid's layout as if each item had a grid of its own, if that pays.

    Where items share a grid of a few points, the points of all items then fill registers.
    """
    few = 2 * plan.points <= lanes_of(plan) and plan.footprint is None
    if not few or plan.grid_items > 1 or plan.items == 1 or plan.are_maps(grid[0]):
        return plan, grid
    (_, *shape), (_, *strides), dtype = grid
    own = (plan.items, *shape), (0, *strides), dtype
    return replace(plan, grid_items=plan.items), own


def lanes_of(plan: Plan) -> int:
    """Return how many numbers of a plan fill a register; see also `Preparation.group_size`."""
    return host().lanes(element(plan.real))


def taps_of(plan: Plan) -> int:
    """Return the number of taps of a sample."""
    return math.prod(method.taps for method in plan.methods)


def cost_of(plan: Plan) -> int:
    """Return the number of taps of a point, roughly."""
    return taps_of(plan) * (1 if plan.footprint is None else FOOTPRINT)


def reads_of(plan: Plan) -> int:
    """Return the number of pixels that a call reads, counted as often as it reads them."""
    return plan.items * plan.channels * plan.points * cost_of(plan)


def worthwhile_threads(plan: Plan, threads: int) -> int:
    """Return the number of threads that pays for a plan."""
    return max(1, min(threads, reads_of(plan) // TAPS_OF_THREAD))


class Blocks(NamedTuple):
    """How many planes are processed at all points before the others are.

    Points are located once for each block.  But if all planes are larger than the cache of a core,
    and points read them in any order, each plane has left the cache whenever the next points read
    it.

    Attributes:
        near: the planes of a block if neighbouring points are near each other in the image.
        far: those if they are far from each other; ``near`` is a multiple of it, or all planes.
    """

    near: int
    far: int


def blocks_of(plan: Plan, kind: str, planes: int, arrays: int) -> Blocks:
    """Divide planes into blocks.

    Args:
        plan: the plan of the call.
        kind: the kind of the image's numbers.
        planes: the number of planes.
        arrays: the arrays that are read or added to at the pixels: the image, its gradient.
    """
    pixels = math.prod(plan.spatial)
    size = arrays * pixels * kind_of(kind).bits // 8
    if planes * size <= CACHES.own:
        return Blocks(planes, planes)
    far = max(1, CACHES.own // (2 * size), FEW_READ // (plan.points * taps_of(plan) or 1))
    near = max(FEW_PLANES // arrays, far)
    if DENSE * plan.points < pixels or not fit_together(plan, kind):
        near = planes
    return Blocks(min(planes, -(-near // far) * far), min(planes, far))


def fit_together(plan: Plan, kind: str) -> bool:
    """Whether enough planes fit in the cache of a core to locate all points once for these."""
    return FEW_PLANES * math.prod(plan.spatial) * kind_of(kind).bits // 8 <= CACHES.own


def divide(plan: Plan, outputs: Outputs, planes: int, blocks: Blocks, points: int = 0) -> Array:
    """Divide a call into the ranges of its tasks, a row of `groups.TaskRange` each.

    Args:
        plan: the plan of the call.
        outputs: the rows of points.
        planes: the number of planes.
        blocks: those that are processed together.  If points are near each other, the first task of
            a block has all of its planes, and the others of the block have nothing to do.
        points: the points of a task, at least, if there are as many.
    """
    cost = blocks.near * cost_of(plan)
    total = plan.points * plan.grid_items * planes * cost_of(plan)
    fair = max(cost * points, min(MAX_TAPS_OF_TASK, max(TAPS_OF_THREAD, total // 64)))
    if outputs.listed:
        step = even_step(outputs.columns, fair // cost, STRIP)
        begins = range(0, outputs.columns, step)
        return np.array(
            [(0, 1, 0, 1, x, min(x + step, outputs.columns), 0, planes) for x in begins], np.int64
        )
    items, rows, columns, several = plan.grid_items, outputs.rows, outputs.columns, 1
    each = rows * columns * cost
    if each <= fair:
        several = even_step(items, fair // each)
        parts = [(0, rows, 0, columns)]
    elif rows > 1:
        length = min(columns, even_step(columns, fair // cost, STRIP))
        step = even_step(rows, max(min(TALL, rows // BANDS), fair // (length * cost)))
        parts = [
            (y, min(y + step, rows), x, min(x + length, columns))
            for x in range(0, columns, length)
            for y in range(0, rows, step)
        ]
    else:
        step = even_step(columns, fair // cost, STRIP)
        parts = [(0, 1, x, min(x + step, columns)) for x in range(0, columns, step)]
    far = blocks.far
    tasks = -(-items // several) * len(parts) * -(-planes // far)
    if tasks > MANY_TASKS:  # most of which may have nothing to do
        far = blocks.near if blocks.near < planes else far * -(-tasks // MANY_TASKS)
    ranges = [
        (n, min(n + several, items), *part, plane, min(plane + far, planes))
        for n in range(0, items, several)
        for plane in range(0, planes, far)
        for part in parts
    ]
    return np.array(ranges, np.int64)


def even_step(length: int, max_step: int, unit: int = 1) -> int:
    """Return the length of parts of nearly the same length, which is at most ``max_step``.

    It is a multiple of a unit, and at least one.
    """
    parts = -(-length // (max(1, max_step // unit) * unit))
    return -(-length // (max(1, parts) * unit)) * unit


class Averages(NamedTuple):
    """What operations that compute means also need to know.

    Attributes:
        averaging: which pixels count.
        weights: the layout of the weights of pixels, (N or 1, C, *spatial), or None.
        multiplied: whether pixels are already multiplied by their weights.
    """

    averaging: Averaging
    weights: Layout | None = None
    multiplied: bool = False


class Layouts(NamedTuple):
    """What an operation on the points of a call reads and writes.

    Attributes:
        image: the layout of the image; also of the upstream image of second derivatives.
        grid: the layout of the grid, or of affine maps.
        values: the layout of the results, or of the upstream values.
        filled: whether there is a fill value other than 0.
        needs: which of the operation's choices are needed.
        threads: the most threads, on which the division of derivatives depends.
        means: what means need to know besides, or None.
        sums: the layout of the image's gradient; None for that of `gradient_layout`.
    """

    image: Layout
    grid: Layout
    values: Layout
    filled: bool = False
    needs: frozenset[str] = frozenset()
    threads: int = 1
    means: Averages | None = None
    sums: Layout | None = None

    def gradient(self, plan: Plan) -> Layout:
        """Return the layout of the image's gradient."""
        return self.sums or gradient_layout(plan, self.image).layout


def passes(plan: Plan, layouts: Layouts) -> list[frozenset[str]]:
    """Divide what is needed into sweeps.

    One sweep is less work, but it cannot be divided so that several threads add to the image's
    gradient, unless each item has its own; and the image and its gradient must share strides.  Over
    footprints in large images, two sweeps are faster: where samples share pixels, a load
    stalls if it follows a store to the same place in another page.
    """
    added, read = (layouts.needs & names for names in (ADDED, READ))
    if not (added and read - {"upstream"}):
        return [layouts.needs]
    source = planes_of(layouts.image, plan.items, plan.grid_items)
    sums = planes_of(layouts.gradient(plan), plan.items, plan.grid_items)
    lengths = plan.spatial[::-1]
    alike = all(
        a == b for a, b, n in zip(source.strides, sums.strides, lengths, strict=True) if n > 1
    ) and (source.item == sums.item or not divide_points(plan, lanes_of(plan)).listed)
    threads = worthwhile_threads(plan, layouts.threads)
    shared = threads > 1 and (plan.grid_items < threads or sums.item == 0)
    waits = plan.footprint is not None and math.prod(plan.spatial) >= LARGE_PLANE
    return [layouts.needs] if alike and not (shared or waits) else [added, read]


def divide_sums(
    plan: Plan, outputs: Outputs, planes: int, unit: int, layouts: Layouts, apart: bool
) -> Array:
    """Divide a sweep that adds to an image's gradient, so that no two tasks add to one place.

    It is divided by items if each has its own image (``apart``), then by plane, or some planes (a
    ``unit``), if nothing but the image's gradient is needed.  The points of a plane are processed
    in order, so sums do not depend on the number of threads.
    """
    threads = worthwhile_threads(plan, layouts.threads)
    cuts = [0, planes]
    if not layouts.needs & READ and threads > 1:
        groups = plan.grid_items if apart else 1
        units = planes // unit
        count = min(units, -(-threads // groups))
        cuts = [*(units * cut // count * unit for cut in range(count)), planes]
    tasks, items, whole = 1, plan.grid_items, 1
    if outputs.listed:
        # Groups of points must be the same for every number of threads: a pixel's taps in several
        # lanes are added together before they are added to it.
        lanes = lanes_of(plan)
        whole = lanes // math.gcd(plan.points, lanes)
    if apart:
        tasks = min(items, max(1, reads_of(plan) // TAPS_OF_THREAD // threads) * threads)
    firsts = [items * task // tasks // whole * whole for task in range(tasks)]
    ranges = []
    for first, end in itertools.pairwise([*firsts, items]):
        if first == end:
            continue
        points = (first, end, 0, outputs.rows, 0, outputs.columns)
        if outputs.listed:
            points = (0, 1, 0, 1, plan.points * first, plan.points * end)
        ranges += [(*points, *part) for part in itertools.pairwise(cuts)]
    return np.array(ranges, np.int64)
