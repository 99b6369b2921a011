"""Calls of the drivers: all that depends only on a plan and the layouts of arrays.

A prepared call needs only the arrays' flat memory; all other arguments of its drivers are computed
here.  The ``plan_*`` functions are cached by layouts, so that repeated calls cost little more than
the drivers' own work.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels.cpu import records
from gridsample.kernels.cpu.build import driver_for
from gridsample.kernels.cpu.entry import Batch, Part
from gridsample.kernels.cpu.gradients import CHUNK, MAP
from gridsample.kernels.cpu.layouts import (
    AROUND,
    LONG_RUN,
    QUICK,
    GridLayout,
    around_of,
    bytes_of,
    code,
    common_run,
    complex_of,
    extent,
    group_items,
    in_pairs,
    index_bits,
    is_far,
    is_linear,
    is_quick,
    lattice_of,
    pixels_together,
    planes_of,
    read_points,
    read_values,
    specify,
    starts,
    values_of,
    written_out,
)
from gridsample.kernels.cpu.outside import Outside, bits_outside, numbers_outside
from gridsample.kernels.cpu.records import Gradient, Needs, SecondNeeds
from gridsample.kernels.cpu.tilings import (
    pays_to_tile,
    pays_to_tile_back,
    tile_back,
    tile_of,
    tiling_of,
)
from gridsample.kernels.cpu.work import (
    ALONE,
    FEW,
    Group,
    Work,
    describe_axes,
    divide,
    divide_group,
    fair,
    few_threads,
    organize,
    portions,
)
from gridsample.kernels.memory import Flat, Layout, Memory, describe, sign_bit

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# The caller's arrays that drivers take, in the order in which calls pass their addresses.
GATHERED = (
    "image_memory",
    "grid_memory",
    "out_memory",
    *(f"around_{n}" for n in records.Outside._fields),
)
AVERAGED = (*GATHERED, "around_least", "around_absent")


DERIVED = (
    *("image_memory", "grid_memory", "values_memory", "shadow_memory", "gradient_memory"),
    "dropped",
)


DERIVED_TWICE = tuple(f"{name}_memory" for name in (
    "image", "upstream", "grid", "moves", "values", "results", "shadow", "gradient",
))  # fmt: skip


class Gathering(NamedTuple):
    """A prepared gather: the memories, the values outside if there is no fill, and the calls."""

    image: Flat
    grid: Flat
    out: Flat
    bits: np.dtype[Any] | None  # the dtype as which pixels are copied; None if they are summed
    times: int  # the number of items that a point serves
    outside: Outside
    batch: Batch


@functools.lru_cache(maxsize=256)
def plan_gather(
    plan: Plan,
    order: Order,
    image: Layout,
    grid: Layout,
    values: Layout,
    affine: bool,
    threads: int,
    means: bool = False,
) -> Gathering:
    """Prepare a gather for arrays of these layouts, of ``means`` if NaN pixels do not count."""
    bits = plan.nearest or plan.votes
    points = read_points(grid, plan, affine)
    source, target = describe(image, plan.items, bits), read_values(values, plan, bits)
    run = common_run(source, target, 2)
    kind = (source.flat.kind or image[2]) if bits else None
    times = plan.items if plan.grid_items == 1 else 1
    outside = find_outside(plan, None, kind, any(order)).repeat(times)
    if kind is None and not run and pays_to_tile(plan, source, image[2], values[2]):
        sweep = sweep_tiles(plan, order, source, points, target, image[2], affine, means)
    else:
        sweep = sweep_gather(
            plan, order, source, points, target, run, kind, (image[2], values[2]), affine, threads,
            means,
        )  # fmt: skip
    batch = Batch([sweep], AVERAGED if means else GATHERED)
    return Gathering(source.flat, points.flat, target.flat, kind, times, outside, batch)


def find_outside(
    plan: Plan, fill: Array | None, bits: np.dtype[Any] | None, differentiated: bool
) -> Outside:
    """Return the values outside the image, for one item."""
    if bits is None:
        return numbers_outside(plan, fill, differentiated)
    return bits_outside(plan, fill, bits)


def sweep_gather(
    plan: Plan, order: Order, source: Memory, points: GridLayout, target: Memory, run: int,
    kind: np.dtype[Any] | None, types: tuple[np.dtype[Any], np.dtype[Any]], affine: bool,
    threads: int, means: bool,
) -> Part:  # fmt: skip
    """Prepare the sweep that gathers; ``types`` are those of the image and the values."""
    image, values = types
    group = group_items(plan, source, points, target, run, affine)
    bits = index_bits(plan, source, group)
    if kind is not None and plan.votes:
        return sweep_labels(plan, order, source, points, target, group, kind, affine, threads)
    if kind is not None:
        spec = specify(
            plan, "gather_nearest", bits, points, kind, kind, affine=affine, runs=run > 0,
            pixel=run if run in (3, 4) else 0,
        )  # fmt: skip
    else:
        few = run if run < LONG_RUN else 0
        quick, linear = not run and code(image) in QUICK, is_linear(plan, order)
        fours = quick and plan.methods[0].taps == 4
        together = pixels_together(plan, source) if few else 1
        direct = linear and not run and bits == 32 and samples_directly(plan, source, points, image)
        direct &= image.itemsize < 8  # two doubles are a register: lists of taps load them faster
        name = ("gather_means" if means else "gather") + (
            "_runs" if run else "_direct" if direct else ""
        )
        spec = specify(
            plan, name, bits, points, image, values,
            pairs=not run and not fours and in_pairs(plan, source, image),
            linear=len(plan.spatial) if quick and linear else 0,
            fours=fours,
            beside=fours and source.strides[0] == 1,
            few=few,
            together=together,
            rows=written_out(plan, 4 if fours else together) if few or fours else 0,
            pixel=bytes_of(source, image) if quick and linear else 0,
            affine=affine,
        )  # fmt: skip
    slides = spec.linear > 0 and spec.packed
    work = organize(
        plan, order, 0 if kind is not None else 1, bits, run, group=group, slides=slides,
        means=means,
    )  # fmt: skip
    far = is_far(plan, source, 1) and group == ALONE
    kinds: Any = (records.Gather, records.GatherRuns)
    if means:
        kinds = (records.GatherMeans, records.GatherMeansRuns)
    job: Any = kinds[0](
        planes_of(source, plan, run > 0), values_of(target, plan, run > 0), around_of(means)
    )
    if run or kind is not None:
        job = kinds[1](**job._asdict(), length=run)
    given: dict[str, Any] = {
        "grid": points.record, "lattice": lattice_of(source.strides, work, far),
        "block": work.record,
        **(job._asdict() if spec.driver.endswith("_direct") else {"job": job}),
    }  # fmt: skip
    tasks = parts_of(plan, work, group, len(job.image.starts), max(1, run), threads)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)


def parts_of(
    plan: Plan, work: Work, group: Group, planes: int, run: int, threads: int
) -> list[list[tuple[int, ...]]]:
    """The tasks of a sweep that gathers planes, or runs of channels."""
    cost = planes * run * work.taps
    if group != ALONE:
        return [[one] for one in divide_group(group, range(planes), cost)]
    ideal = fair(cost * plan.points * plan.grid_items, threads)
    items = range(plan.grid_items)
    return [[one] for one in divide(items, plan.points, range(planes), cost, work.step, ideal)]


def sweep_labels(
    plan: Plan, order: Order, source: Memory, points: GridLayout, target: Memory, group: Group,
    kind: np.dtype[Any], affine: bool, threads: int,
) -> Part:  # fmt: skip
    """The sweep that gathers labels, as bits of a ``kind``."""
    bits = index_bits(plan, source, group)
    linear = all(method.votes for method in plan.methods)
    spec = specify(
        plan, "gather_labels", bits, points, kind, kind, affine=affine,
        linear=len(plan.spatial) if linear else 0,
        pixel=kind.itemsize if linear and kind.itemsize < 4 and source.strides[0] == 1 else 0,
    )  # fmt: skip
    work = organize(plan, order, 1, bits, 0, group=group)
    job = records.Votes(
        planes_of(source, plan, False), values_of(target, plan, False), AROUND,
        flip=sign_bit(plan.dtype, 64 if kind.itemsize == 8 else bits),
    )  # fmt: skip
    given: dict[str, Any] = {
        "job": job, "grid": points.record,
        "lattice": lattice_of(source.strides, work, is_far(plan, source, 1) and group == ALONE),
        "block": work.record,
    }  # fmt: skip
    tasks = parts_of(plan, work, group, len(job.image.starts), 1, threads)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)


def samples_directly(plan: Plan, memory: Memory, points: GridLayout, image: np.dtype[Any]) -> bool:
    """Whether linear samples need no list of taps: see `gridsample.kernels.cpu.linear_lanes`.

    This requires that pixels are numbers, that neighbours along x are contiguous in memory, and
    that taps outside are 0 or the edge pixel.
    """
    stored = code(image) in (code(plan.real), "f2", "V2") and code(plan.dtype)[0] in "fV"
    usual = points.packed and is_quick(points, image) and plan.coords != "displacement"
    outside = plan.extrapolate and all(
        name == "zeros" or (name == "border" and folds)
        for name, folds in zip(plan.boundaries, plan.folds, strict=True)
    )
    sizes = all(2 <= n < 1 << 22 for n in plan.spatial)
    return stored and usual and outside and sizes and memory.strides[0] == 1


def sweep_tiles(
    plan: Plan, order: Order, source: Memory, points: GridLayout, target: Memory,
    image: np.dtype[Any], affine: bool, means: bool,
) -> Part:  # fmt: skip
    """Prepare the sweep that gathers from tiles."""
    planes = len(starts(source, plan, False)[0])
    few = tile_of(plan, planes)
    spec = specify(
        plan, "gather_means_tiles" if means else "gather_tiles", 32, points, image, image, few=few,
        rows=written_out(plan, 1), affine=affine,
    )  # fmt: skip
    margins, strides, tiling = tiling_of(plan, few, planes)
    work = organize(plan, order, 1, 32, 0, in_rows=False).with_margins(margins)
    given: dict[str, Any] = {
        "image": planes_of(source, plan, False), "grid": points.record,
        "out": values_of(target, plan, False), "around": around_of(means),
        "lattice": lattice_of(strides, work, False),
        "tiling": tiling, "block": work.record,
    }  # fmt: skip
    some = max(1, FEW // (plan.points * few * work.taps))
    tasks = [
        [(item, min(item + some, plan.grid_items), 0, plan.points, tile, tile + 1)]
        for item in range(0, plan.grid_items, some)
        for tile in range(-(-planes // few))
    ]
    work = work.tiled(tiling.whole, few)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)


class Shadow(NamedTuple):
    """A new array to scatter to, with an image's shape and memory order, in the dtype of the sums.

    Attributes:
        layout: shape, strides and dtype.
        shape: its shape, slowest axis first.
        back: the permutation from those axes to the image's.
    """

    layout: Layout
    shape: tuple[int, ...]
    back: tuple[int, ...]

    def zeros(self) -> Array:
        """Return zeros; the system allocates their pages when they are first written to."""
        return np.zeros(self.shape, self.layout[2]).transpose(self.back)

    def of(self, dtype: np.dtype[Any]) -> Array:
        """Return an uninitialised array of the same memory order and another dtype."""
        return np.empty(self.shape, dtype).transpose(self.back)


@functools.lru_cache(maxsize=256)
def plan_shadow(plan: Plan, image: Layout) -> Shadow:
    """Describe the shadow of an image."""
    shape, strides, dtype = image
    kind = complex_of(plan.real) if dtype.kind == "c" else plan.real
    slowest_first = sorted(range(len(shape)), key=lambda a: -strides[a])
    steps, step = [0] * len(shape), kind.itemsize
    for a in reversed(slowest_first):
        steps[a] = step
        step *= max(1, shape[a])
    back = tuple(slowest_first.index(a) for a in range(len(shape)))
    return Shadow((shape, tuple(steps), kind), tuple(shape[a] for a in slowest_first), back)


class Scattering(NamedTuple):
    """Prepared gradients: the memories, the values of dropped taps, and the calls."""

    image: Flat
    grid: Flat
    values: Flat
    shadow: Flat
    dropped: Array
    times: int  # the number of items that a point serves
    batch: Batch
    chunks: int  # the number of partial sums of a map's gradient


@functools.lru_cache(maxsize=256)
def plan_backward(
    plan: Plan, order: Order, image: Layout, grid: Layout, values: Layout,
    needed: tuple[bool, bool], affine: bool, threads: int, adds: bool = False,
) -> Scattering:  # fmt: skip
    """Prepare the needed gradients for arrays of these layouts.

    The image's gradient is added to memory that already holds sums if ``adds``, otherwise to zeros.
    """
    points, target = read_points(grid, plan, affine), read_values(values, plan)
    source = describe(image, plan.items)
    shadow = describe(plan_shadow(plan, image).layout, plan.items)
    count = few_threads(
        plan.items * plan.channels * plan.points * math.prod(describe_axes(plan, order).counts),
        threads,
    )
    alike = source.strides == shadow.strides and source.run == shadow.run
    group = group_items(plan, shadow, points, target, common_run(shadow, target), affine)
    # In a group, the distance between items is part of an offset, which must suit both images.
    alike &= group == ALONE or source.item == shadow.item
    apart = plan.grid_items > 1 and shadow.item != 0
    even = apart and (group != ALONE or plan.grid_items % count == 0)
    if needed == (True, True) and not (alike and (count == 1 or even)):
        passes = [(True, False), (False, True)]
    else:
        passes = [needed]
    times = plan.items if plan.grid_items == 1 else 1
    return Scattering(
        source.flat, points.flat, target.flat, shadow.flat,
        np.tile(numbers_outside(plan, None).dropped, times), times,
        Batch([
            sweep_backward(plan, order, source, shadow, points, target, one, affine, count,
                           image[2], values[2], adds)
            for one in passes
        ], DERIVED),
        -(-plan.points // (CHUNK * width_of(plan, order))),
    )  # fmt: skip


def width_of(plan: Plan, order: Order) -> int:
    """Return the number of points in a block of backward."""
    return organize(plan, order, 1 + len(plan.spatial), 32, 0).width


def sweep_backward(
    plan: Plan, order: Order, source: Memory, shadow: Memory, points: GridLayout, target: Memory,
    needed: tuple[bool, bool], affine: bool, threads: int, image: np.dtype[Any],
    values: np.dtype[Any], adds: bool,
) -> Part:  # fmt: skip
    """Prepare a sweep for the needed gradients; drivers of tiles do not add to sums."""
    need_image, need_grid = needed
    place = shadow if need_image else source  # the array for which the taps' offsets are computed
    run = common_run(place, target)
    if (
        not affine
        and not run
        and not adds
        and pays_to_tile_back(plan, source, shadow, image, values)
    ):
        return sweep_backward_tiles(
            plan, order, source, shadow, points, target, needed, threads, image
        )
    group = group_items(plan, place, points, target, run, affine)
    bits = index_bits(plan, place, group)
    # This depends on the image's dtype even if it is not read: any number of threads must agree.
    quick = not run and code(image) in QUICK
    fours = need_grid and quick and plan.methods[0].taps == 4
    direct = quick and not affine and bits == 32 and is_linear(plan, order)
    direct = direct and samples_directly(plan, source, points, image)
    name = "backward_runs" if run else "backward_direct" if direct else "backward"
    spec = specify(
        plan, name, bits, points,
        image if need_grid else plan.real, values,
        pairs=need_grid and not run and not fours and in_pairs(plan, source, image),
        joined=need_image and not run and in_pairs(plan, shadow, plan.real),
        linear=len(plan.spatial) if quick and is_linear(plan, order) else 0,
        fours=fours,
        beside=fours and source.strides[0] == 1,
        rows=written_out(plan, 4) if fours else 0,
        pixel=bytes_of(source, image) if need_grid and quick and is_linear(plan, order) else 0,
        affine=affine,
    )  # fmt: skip
    # The width does not depend on what is needed, because the order of sums depends on the blocks.
    slides = spec.linear > 0 and spec.packed
    work = organize(plan, order, 1 + len(plan.spatial), bits, run, False, not affine, group, slides)
    width = CHUNK * work.width if affine else work.step
    each = 2 * MAP * -(-plan.points // width) if affine else plan.points * len(plan.spatial)
    far = is_far(plan, place, need_image + need_grid) and group == ALONE
    job: Any = records.Backward(
        image=planes_of(source, plan, run > 0, need_grid),
        values=values_of(target, plan, run > 0),
        shadow=planes_of(shadow, plan, run > 0, need_image),
        gradient=Gradient(None, each), dropped=None, needs=Needs(need_image, need_grid),
    )  # fmt: skip
    if run:
        job = records.BackwardRuns(**job._asdict(), length=run)
    given: dict[str, Any] = {
        "grid": points.record, "lattice": lattice_of(place.strides, work, far),
        "block": work.record,
        **(job._asdict() if spec.driver == "backward_direct" else {"job": job}),
    }  # fmt: skip
    planes, each = len(starts(target, plan, run > 0)[0]), max(1, run) * work.taps
    tasks: list[list[tuple[int, ...]]]
    if group != ALONE and (group.apart or not need_image):
        whole = False, 0, extent(plan, place, group)
        tasks = [[(*one, *whole)] for one in divide_group(group, range(planes), planes * each)]
    else:
        tasks = share_out(plan, place, group, need_image, planes, each, width, threads)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)


def sweep_backward_tiles(
    plan: Plan, order: Order, source: Memory, shadow: Memory, points: GridLayout, target: Memory,
    needed: tuple[bool, bool], threads: int, image: np.dtype[Any],
) -> Part:  # fmt: skip
    """Prepare the sweep that computes gradients tile by tile."""
    need_image, need_grid = needed
    planes, rank = len(starts(source, plan, False)[0]), len(plan.spatial)
    few = tile_back(plan, planes)
    spec = specify(
        plan, "backward_tiles", 32, points, image, image, few=few, rows=written_out(plan, 1)
    )
    margins, strides, tiling = tiling_of(plan, few, planes)
    work = organize(plan, order, 1 + rank, 32, 0, in_rows=False).with_margins(margins)
    given: dict[str, Any] = {
        "image": planes_of(source, plan, False, need_grid), "grid": points.record,
        "values": values_of(target, plan, False),
        "shadow": planes_of(shadow, plan, False, need_image),
        "gradient": Gradient(None, plan.points * rank), "dropped": None,
        "lattice": lattice_of(strides, work, False), "needs": Needs(need_image, need_grid),
        "tiling": tiling, "block": work.record,
    }  # fmt: skip
    tiles = -(-planes // few)
    if need_image and need_grid:  # tiles add to the grid's gradient one after the other
        tasks = [[(item, item + 1, 0, plan.points, 0, tiles)] for item in range(plan.grid_items)]
    elif need_image:
        tasks = [
            [(item, item + 1, 0, plan.points, tile, tile + 1)]
            for item in range(plan.grid_items)
            for tile in range(tiles)
        ]
    else:
        ideal = fair(plan.grid_items * plan.points * planes * work.taps, threads)
        cost = planes * work.taps
        ranges = divide(range(plan.grid_items), plan.points, range(tiles), cost, work.step, ideal)
        tasks = [[one] for one in ranges]
    work = work.tiled(2 * tiling.whole, few)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)


def share_out(
    plan: Plan, place: Memory, group: Group, need_image: bool, planes: int, each: int, width: int,
    threads: int,
) -> list[list[tuple[int, ...]]]:  # fmt: skip
    """Return the tasks of a sweep, which scatters to ``place`` if ``need_image``.

    A point has ``each`` taps in every plane.  Ranges start at multiples of ``width`` points.
    """
    items, whole = range(plan.grid_items), extent(plan, place)
    cost = planes * each
    if not need_image:
        ideal = fair(len(items) * plan.points * cost, threads)
        ranges = divide(items, plan.points, range(planes), cost, width, ideal)
        return [[(*one, False, 0, whole)] for one in ranges]
    # Sums over ranges depend on the ranges, which must not depend on the number of threads.
    ideal = fair(plan.points * cost, 1)
    return [
        [(*one, *band) for one in divide(part, plan.points, some, cost, width, ideal)]
        if group == ALONE
        else [(*one, *band) for one in divide_group(group, some, cost)]
        for part, some, band in portions(
            items, plan.grid_items > 1 and place.item != 0, planes, whole, threads
        )
    ]


class Second(NamedTuple):
    """Prepared second derivatives: the memories and the calls."""

    image: Flat  # also for the upstream image
    grid: Flat
    moves: Flat
    values: Flat
    shadow: Flat
    batch: Batch


@functools.lru_cache(maxsize=256)
def plan_second(
    plan: Plan, order: Order, image: Layout, grid: Layout, moves: Layout, values: Layout,
    has_image: bool, needed: tuple[bool, bool, bool], threads: int,
) -> Second:  # fmt: skip
    """Prepare the needed second derivatives for arrays of these layouts.

    The image and the upstream image have the layout of the shadow.
    """
    points, shifted = read_points(grid, plan), read_points(moves, plan)
    target, source = read_values(values, plan), describe(image, plan.items)
    shadow = describe(plan_shadow(plan, image).layout, plan.items)
    count = few_threads(
        plan.items * plan.channels * plan.points * math.prod(describe_axes(plan, order).counts),
        threads,
    )
    need_values, need_image, need_grid = needed
    passes = [needed]
    if count > 1 and need_image and (need_values or need_grid):
        passes = [(False, True, False), (need_values, False, need_grid)]
    return Second(
        source.flat, points.flat, shifted.flat, target.flat, shadow.flat,
        Batch([
            sweep_second(plan, order, source, points, shifted, target, has_image, one, count,
                         image[2], values[2])
            for one in passes
        ], DERIVED_TWICE),
    )  # fmt: skip


def sweep_second(
    plan: Plan, order: Order, source: Memory, points: GridLayout, moves: GridLayout, target: Memory,
    has_image: bool, needed: tuple[bool, bool, bool], threads: int, image: np.dtype[Any],
    values: np.dtype[Any],
) -> Part:  # fmt: skip
    """Prepare a sweep for the needed second derivatives; results have the layout (N, C, points)."""
    need_values, need_image, _ = needed
    axes, bits = len(plan.spatial), index_bits(plan, source)
    work = organize(plan, order, 2 * (1 + axes), bits, 0, True)
    spec = specify(
        plan, "backward_twice", bits, points, image, values,
        pairs=in_pairs(plan, source, image),
        joined=need_image and in_pairs(plan, source, plan.real),
        linear=axes if code(image) in QUICK and is_linear(plan, order) else 0,
    )  # fmt: skip
    parts = 2 if values.kind == "c" else 1
    shape = (plan.items, plan.channels, plan.points)
    kind = complex_of(plan.real) if parts == 2 else plan.real
    steps = (math.prod(shape[1:]) * kind.itemsize, plan.points * kind.itemsize, kind.itemsize)
    results = describe((shape, steps, kind), plan.items)
    far = is_far(plan, source, 1 + has_image + need_image)
    job = records.Second(
        image=planes_of(source, plan, False), upstream=planes_of(source, plan, False),
        moves=moves.record, values=values_of(target, plan, False),
        results=values_of(results, plan, False, need_values),
        shadow=planes_of(source, plan, False, need_image),
        gradient=Gradient(None, plan.points * axes), needs=SecondNeeds(has_image, *needed),
    )  # fmt: skip
    given: dict[str, Any] = {
        "job": job, "grid": points.record, "lattice": lattice_of(source.strides, work, far),
        "block": work.record,
    }  # fmt: skip
    planes = len(starts(target, plan, False)[0])
    tasks = share_out(plan, source, ALONE, need_image, planes, work.taps, work.step, threads)
    return Part(driver_for(spec), given, work.scratch_bytes, tasks)
