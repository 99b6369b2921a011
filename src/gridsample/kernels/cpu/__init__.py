"""CPU kernels: gather, scatter, and the backward that does both in one sweep.

This file divides the work into tasks and hands them to the compiled drivers.  A task is a range of
items, of points and of planes; ranges of points begin at multiples of a block, and no two tasks
write to the same place, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.kernels import threads as pool
from gridsample.kernels.cpu import taps
from gridsample.kernels.cpu.build import Spec, driver_for
from gridsample.kernels.memory import Memory, describe, flatten, frozen, plain, stored
from gridsample.plan import BOUNDARIES, Plan, is_differentiable, type_name
from gridsample.weights import LINEAR

Array = np.ndarray[Any, Any]

# Taps that are worth a thread of their own, and at most how many are worked on between two looks
# at Ctrl-C.
FEW, MANY = 1 << 17, 1 << 25
# Channels side by side from which it pays to work along them.
LONG_RUN = 8
# Points of a block, and reals that it works on, at most: it should stay in the second-level cache.
BLOCK, BLOCK_REALS = 512, 16384
# Bytes from which an image is asked for ahead: it will not be in the second-level cache.
FAR = 1 << 21


class Axes(NamedTuple):
    """The axes as the drivers know them."""

    integers: Array  # (axis, taps.COLUMNS), flat
    reals: Array  # (axis, taps.MEASURES), flat
    tables: Array  # (axis, 0: the order asked for, 1, 2: the next ones; tap, power), flat
    counts: tuple[int, ...]  # taps of each axis


@functools.lru_cache(maxsize=256)
def describe_axes(plan: Plan, order: tuple[int, ...]) -> Axes:
    """A plan's axes, for a derivative order along each."""
    counts = tuple(method.taps for method in plan.methods)
    powers = max(method.powers for method in plan.methods)
    tables = np.zeros((len(counts), taps.ORDERS, max(counts), powers), plan.real)
    rows = []
    for a, method in enumerate(plan.methods):
        rows.append(taps.describe(plan, a, order[a]))
        for raised in range(taps.ORDERS):
            tables[a, raised, : method.taps, : method.powers] = method.derivative(order[a] + raised)
    integers, reals = zip(*rows, strict=True)
    return Axes(
        frozen(np.array(integers, np.int64).reshape(-1)),
        frozen(np.array(reals, plan.real).reshape(-1)),
        frozen(tables.reshape(-1)),
        counts,
    )


class Points(NamedTuple):
    """A grid as flat memory: distances between items, between axes and between points."""

    flat: Array
    item: int
    axis: int
    point: int
    code: str
    packed: int  # the distance between points where they lie as usual, else 0


def read_points(grid: Array, plan: Plan) -> Points:
    """A grid (N, *out, D) as the drivers take it; copied where its points are unevenly spaced."""
    even = stored(plain(grid.reshape(grid.shape[0], plan.points, grid.shape[-1])))
    item, point, axis = (stride // even.itemsize for stride in even.strides)
    axes = len(plan.spatial)
    usual = point == axes and (axis == 1 or axes == 1) and plan.coords != "displacement"
    return Points(
        frozen(flatten(even)),
        item if plan.grid_items > 1 else 0,
        axis,
        point,
        code(grid.dtype),
        axes if usual else 0,
    )


def code(dtype: np.dtype[Any]) -> str:
    """A storage type as Spec writes it; a complex type is stored as its parts."""
    return f"f{dtype.itemsize // 2}" if dtype.kind == "c" else f"{dtype.kind}{dtype.itemsize}"


def starts(memory: Memory, plan: Plan, as_runs: bool) -> tuple[Array, int]:
    """Where the planes (or runs) begin that one grid item serves; the distance to the next item's.

    A grid that serves the whole batch has every item's planes at once, and works its taps out once.
    """
    planes = memory.planes[:1] if as_runs else memory.planes
    if plan.grid_items > 1:
        return planes, memory.item
    if plan.items == 1:
        return planes, 0
    items = np.arange(plan.items, dtype=np.int64)[:, np.newaxis] * memory.item
    return (items + planes).reshape(-1), 0


@functools.lru_cache(maxsize=256)
def shifts(counts: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """How far each tap of an inside point is from the first, x running fastest."""
    along = [np.arange(n, dtype=np.int64) * s for n, s in zip(counts, strides, strict=True)]
    return frozen(functools.reduce(lambda at, one: np.add.outer(one, at), along).reshape(-1))


@functools.lru_cache(maxsize=256)
def zeros(planes: int, kind: np.dtype[Any]) -> Array:
    """Zero, for each plane."""
    return frozen(np.zeros(planes, kind))


class Outside(NamedTuple):
    """What each plane has where there is no image, for one item."""

    out: Array  # at points that are out
    dropped: Array  # under dropped taps
    holes: Array  # at points that are nowhere

    def repeat(self, times: int) -> Outside:
        """The same for so many items."""
        return self if times == 1 else Outside(*(np.tile(one, times) for one in self))


def surroundings(plan: Plan, fill: Array, hole: Any, differentiated: bool = False) -> Outside:
    """What is outside, from the planes' ``fill`` and the ``hole`` of a type that has one.

    The derivative of a fill is zero.
    """
    nothing = zeros(len(fill), fill.dtype)
    if hole is None and not differentiated:
        holes = fill
    else:
        holes = np.full(len(fill), 0 if hole is None or differentiated else hole, fill.dtype)
    filled = plan.filled or not plan.extrapolate
    return Outside(
        fill if filled and not differentiated else nothing,
        fill if plan.filled else nothing,
        holes,
    )


def as_parts(fill: Array | None, plan: Plan) -> Array:
    """The fill of each plane, in the type of the sums; zeros where there is none."""
    parts = 2 if plan.dtype.kind == "c" else 1
    if fill is None:
        return zeros(plan.channels * parts, plan.real)
    return fill.astype(complex_of(plan.real) if parts == 2 else plan.real).view(plan.real)


def as_bits(fill: Array | None, plan: Plan, kind: np.dtype[Any]) -> Array:
    """The fill of each plane as it is stored, rounded and saturated; zeros where there is none."""
    dtype = plan.dtype
    if fill is None:
        return zeros(plan.channels * (dtype.itemsize // kind.itemsize), kind)
    if type_name(dtype) == "bfloat16":
        wide = fill.astype(np.float32).view(np.uint32)
        rounded = (wide + 0x7FFF + (wide >> 16 & 1)) >> 16
        return np.where(np.isnan(fill), 0x7FC0, rounded).astype(kind)
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        # Python's numbers compare exactly, and infinity is rounded only when it is none any more.
        numbers = [0 if number != number else number for number in fill.tolist()]
        whole = [round(min(max(number, low), high)) for number in numbers]
        return np.array(whole, dtype).view(kind)
    with np.errstate(over="ignore"):
        return fill.astype(dtype).view(kind)


def index_bits(plan: Plan, *memories: Memory) -> int:
    """Width of indices and offsets: 32 bits while they fit, else 64."""
    limit = 2**31 - 64
    return 32 if max(*plan.spatial, *(extent(plan, memory) for memory in memories)) < limit else 64


def extent(plan: Plan, memory: Memory) -> int:
    """The greatest offset in a plane of an image, plus one."""
    return 1 + sum(
        (n - 1) * stride for n, stride in zip(plan.spatial[::-1], memory.strides, strict=True)
    )


class Work(NamedTuple):
    """How a call is cut into blocks, and what a block needs."""

    axes: Axes
    taps: int  # of a point
    width: int  # points of a block
    run: int
    block: Array  # the table of a block: see taps
    indices: tuple[int, np.dtype[Any]]
    reals: tuple[int, np.dtype[Any]]

    def scratch(self) -> tuple[Array, Array]:
        """Memory for one task to work in."""
        return np.empty(*self.indices), np.empty(*self.reals)


@functools.lru_cache(maxsize=256)
def organize(
    plan: Plan, order: tuple[int, ...], kinds: int, bits: int, run: int, twice: bool = False
) -> Work:
    """Blocks so wide that what is worked out for one stays in cache."""
    axes = describe_axes(plan, order)
    each = math.prod(axes.counts)
    width = max(16, min(BLOCK, BLOCK_REALS // (each * (2 + kinds)) // 16 * 16))
    powers = max(method.powers for method in plan.methods)
    inside = axes.reals.reshape(len(axes.counts), -1)
    fits = bool((inside[:, taps.FROM] <= inside[:, taps.TO]).all())
    table, indices, reals = taps.plan_block(axes.counts, powers, fits, kinds, width, run, twice)
    kind = np.dtype(np.int32 if bits == 32 else np.int64)
    block = frozen(np.array(table, np.int64))
    return Work(axes, each, width, run, block, (indices, kind), (reals, plan.real))


# Storage types whose grids are read by loops made for their rank; of others, fewer are compiled.
QUICK = {"f4", "f8", "u1", "u4", "u8"}

Range = tuple[int, int, int, int]  # first and last item, first and last point


def divide(items: range, points: int, cost: int, width: int, threads: int) -> list[Range]:
    """Cut items x points, of so many taps a point, into ranges; points at multiples of a block."""
    ideal = min(MANY, max(FEW, len(items) * points * cost // (4 * threads)))
    if points * cost <= ideal:
        step = max(1, ideal // (points * cost))
        return [(item, min(items.stop, item + step), 0, points) for item in items[::step]]
    step = max(1, ideal // cost // width) * width
    return [
        (item, item + 1, first, min(points, first + step))
        for item in items
        for first in range(0, points, step)
    ]


def gather(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    *,
    order: tuple[int, ...] | None = None,
    fill: Array | None = None,
    threads: int | None = None,
) -> None:
    """Sample the image at the grid's points, into ``out``: see `gridsample.kernels`."""
    order = order or (0,) * len(plan.spatial)
    if vanishes(plan, order):
        out[...] = 0
        return
    writable = out if plain(out) is out else np.empty_like(out, order="C", subok=False)
    values = writable.reshape(plan.items, plan.channels, plan.points)
    if plan.nearest:
        gather_bits(plan, plain(image), grid, values, fill, threads)
    else:
        gather_sums(plan, plain(image), grid, values, order, fill, threads)
    if not np.may_share_memory(values, out):  # an output whose points are not evenly spaced
        out[...] = values.reshape(out.shape)


def vanishes(plan: Plan, order: tuple[int, ...]) -> bool:
    """Whether the weights of some axis have no derivative of its order but zero."""
    return any(n >= method.powers for n, method in zip(order, plan.methods, strict=True))


def gather_sums(
    plan: Plan,
    image: Array,
    grid: Array,
    values: Array,
    order: tuple[int, ...],
    fill: Array | None,
    threads: int | None,
) -> None:
    """Gather by summing over taps; values (N, C, points)."""
    points, source, target = (
        read_points(grid, plan),
        describe(image, plan.items),
        describe(values, plan.items),
    )
    bits, real = index_bits(plan, source), code(plan.real)
    run = source.run if source.run == target.run >= LONG_RUN else 0
    neighbours = (
        real == code(image.dtype) and source.strides[0] == 1 and plan.methods[0].taps % 2 == 0
    )
    spec = specify(
        plan, "gather_runs" if run else "gather", bits, points, image.dtype, values.dtype,
        pairs=neighbours and not run,
        linear=len(plan.spatial) if neighbours and not run and is_linear(plan, order) else 0,
        in_place=code(values.dtype) == real and (run > 0 or target.strides[0] == 1),
    )  # fmt: skip
    hole = math.nan if is_differentiable(plan.dtype) else None
    outside = surroundings(plan, as_parts(fill, plan), hole, any(order))
    work = organize(plan, order, 1, bits, run)
    launch(plan, driver_for(spec), source, points, target, work, outside, threads)


def specify(
    plan: Plan,
    driver: str,
    bits: int,
    points: Points,
    image: np.dtype[Any],
    values: np.dtype[Any],
    **more: Any,
) -> Spec:
    """What is compiled for a call."""
    return Spec(
        driver,
        code(plan.real),
        bits,
        points.code,
        code(image),
        code(values),
        displaced=plan.coords == "displacement",
        signed=any(BOUNDARIES[name].odd for name in plan.boundaries),
        packed=points.packed if {points.code, code(image)} <= QUICK else 0,
        **more,
    )


def is_linear(plan: Plan, order: tuple[int, ...]) -> bool:
    """Whether taps are weighed by distance alone, along every axis."""
    return not any(order) and all(method.table == LINEAR.table for method in plan.methods)


def gather_bits(
    plan: Plan, image: Array, grid: Array, values: Array, fill: Array | None, threads: int | None
) -> None:
    """Gather by copying the bits of one pixel a point, whatever they mean."""
    points = read_points(grid, plan)
    source, target = (describe(array, plan.items, as_bits=True) for array in (image, values))
    bits, kind = index_bits(plan, source), source.flat.dtype
    spec = specify(plan, "gather_nearest", bits, points, kind, kind)
    hole: Any = None
    if type_name(plan.dtype) == "bfloat16":
        hole = 0x7FC0
    elif is_differentiable(plan.dtype):
        hole = np.array(math.nan, f"f{kind.itemsize}").view(kind)[()]
    outside = surroundings(plan, as_bits(fill, plan, kind), hole)
    work = organize(plan, (0,) * len(plan.spatial), 0, bits, 0)
    launch(plan, driver_for(spec), source, points, target, work, outside, threads)


def launch(
    plan: Plan,
    driver: Any,
    source: Memory,
    points: Points,
    target: Memory,
    work: Work,
    outside: Outside,
    threads: int | None,
) -> None:
    """Run a gathering driver over all items, points and planes."""
    source_starts, source_item = starts(source, plan, work.run > 0)
    target_starts, target_item = starts(target, plan, work.run > 0)
    run = (work.run,) if work.run else ()
    strides = np.array(source.strides, np.int64)
    fixed = (
        frozen(source.flat), strides, source_starts, source_item,
        shifts(work.axes.counts, source.strides),
        source.flat.nbytes > FAR and not plan.nearest, *run,
        points.flat, points.item, points.axis, points.point,
        target.flat, target_starts, target_item, target.strides[0],
        *outside.repeat(1 if source_item or plan.items == 1 else plan.items),
        work.block, *work.axes[:3],
    )  # fmt: skip
    count = threads or pool.cores()
    cost = len(source_starts) * max(1, work.run) * work.taps

    def task(ranges: Range) -> None:
        driver(*fixed, *work.scratch(), *ranges)

    ranges = divide(range(plan.grid_items), plan.points, cost, work.width, count)
    pool.run([functools.partial(task, one) for one in ranges], count)


def backward(
    plan: Plan,
    values: Array,
    image: Array,
    grid: Array,
    *,
    need_image: bool = True,
    need_grid: bool = True,
    order: tuple[int, ...] | None = None,
    fill: Array | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None]:
    """Both gradients of gather: see `gridsample.kernels`."""
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    shadow = dense_zeros(plan, image) if need_image else None
    gradient = (
        np.zeros((plan.grid_items, plan.points, len(plan.spatial)), plan.real)
        if need_grid
        else None
    )
    needed = need_image, need_grid and not plan.nearest
    if vanishes(plan, order):
        needed = False, False
    if any(needed):
        sweep = Sweep(
            plan,
            plain(image),
            shadow,
            read_points(grid, plan),
            plain(values),
            gradient,
            order,
            fill,
        )
        fused = needed == (True, True) and count == 1 and sweep.fusible
        wanted = (
            [needed]
            if fused
            else [one for one in ((True, False), (False, True)) if needed[one.index(True)]]
        )
        pool.run([task for one in wanted for task in sweep.tasks(*one, count)], count)
    if gradient is not None:
        gradient = gradient.reshape(plan.grid_items, *plan.out, len(plan.spatial))
    return shadow, gradient


def scatter(
    plan: Plan,
    values: Array,
    grid: Array,
    *,
    order: tuple[int, ...] | None = None,
    threads: int | None = None,
) -> Array:
    """The transpose of gather: see `gridsample.kernels`."""
    nothing = np.broadcast_to(
        np.zeros((), plan.real), (plan.image_items, plan.channels, *plan.spatial)
    )
    image = nothing if values.dtype.kind != "c" else nothing + np.zeros((), complex_of(plan.real))
    shadow, _ = backward(plan, values, image, grid, need_grid=False, order=order, threads=threads)
    assert shadow is not None
    return shadow


def backward_twice(
    plan: Plan,
    values: Array,
    image: Array,
    grid: Array,
    upstream: Array | None,
    moves: Array,
    *,
    need_values: bool = True,
    need_image: bool = True,
    need_grid: bool = True,
    order: tuple[int, ...] | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of backward: see `gridsample.kernels`."""
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    results = np.zeros((plan.items, plan.channels, plan.points), kind) if need_values else None
    shadow = dense_zeros(plan, image) if need_image else None
    gradient = np.zeros((plan.grid_items, plan.points, len(plan.spatial)), plan.real)
    if not (vanishes(plan, order) or plan.nearest):
        like = dense_zeros(plan, image) if shadow is None else shadow
        arrays = [None if a is None else in_order(a, like) for a in (image, upstream)]
        sweep = SecondSweep(
            plan, plain(values), arrays, grid, moves, results, shadow, gradient, order
        )
        needed = need_values, need_image, need_grid
        apart = [(False, True, False), (need_values, False, need_grid)]
        wanted = [needed] if count == 1 or not need_image else apart
        pool.run([t for one in wanted if any(one) for t in sweep.tasks(*one, count)], count)
    return (
        None if results is None else results.reshape(plan.shape),
        shadow,
        gradient.reshape(plan.grid_items, *plan.out, -1) if need_grid else None,
    )


def in_order(array: Array, like: Array) -> Array:
    """An array whose elements lie in memory as another's; itself, if they do."""
    if plain(array) is array and all(
        a * like.itemsize == b * array.itemsize
        for a, b, n in zip(array.strides, like.strides, array.shape, strict=True)
        if n > 1
    ):
        return array
    copy = np.empty_like(like, dtype=array.dtype)
    copy[...] = array
    return copy


def dense_zeros(plan: Plan, image: Array) -> Array:
    """Zeros of the image's shape and order in memory, in the type of the sums.

    They are pages that the system gives when they are first written to.
    """
    kind = complex_of(plan.real) if image.dtype.kind == "c" else plan.real
    slowest_first = sorted(range(image.ndim), key=lambda a: -image.strides[a])
    zeros = np.zeros([image.shape[a] for a in slowest_first], kind)
    return zeros.transpose(np.argsort(slowest_first))


def complex_of(real: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type whose parts are of a real type."""
    return np.dtype(f"c{real.itemsize * 2}")


class Sweep:
    """A backward call: its arrays as the drivers take them, and its division into tasks."""

    def __init__(
        self,
        plan: Plan,
        image: Array,
        shadow: Array | None,
        points: Points,
        values: Array,
        gradient: Array | None,
        order: tuple[int, ...],
        fill: Array | None,
    ) -> None:
        """``shadow`` (image's shape) is scattered to; ``gradient`` (N, points, D) is the grid's."""
        self.plan, self.points, self.order = plan, points, order
        self.fill = surroundings(plan, as_parts(fill, plan), None).dropped
        self.image = describe(image, plan.items)
        self.shadow = self.image if shadow is None else describe(shadow, plan.items)
        self.values = describe(values.reshape(*values.shape[:2], plan.points), plan.items)
        self.gradient = np.zeros(1, plan.real) if gradient is None else gradient.reshape(-1)
        self.fusible = (
            self.image.strides == self.shadow.strides and self.image.run == self.shadow.run
        )
        self.types = image.dtype, values.dtype

    def tasks(self, need_image: bool, need_grid: bool, threads: int) -> list[pool.Task]:
        """The tasks of one sweep.  What a task writes to, no other does."""
        plan, values = self.plan, self.values
        place = self.shadow if need_image else self.image  # where the taps are looked up
        run = place.run if place.run == values.run >= LONG_RUN else 0
        bits = index_bits(plan, place)
        driver = driver_for(
            specify(
                plan,
                "backward_runs" if run else "backward",
                bits,
                self.points,
                self.types[0] if need_grid else plan.real,
                self.types[1],
            )
        )
        kinds = 1 + (len(plan.spatial) if need_grid else 0)
        work = organize(plan, self.order, kinds, bits, run)
        strides, points, length = (
            np.array(place.strides, np.int64),
            self.points,
            (run,) if run else (),
        )
        nothing = np.zeros(1, plan.real)
        source, source_item = starts(self.image, plan, run > 0)
        shadow, shadow_item = starts(self.shadow, plan, run > 0)
        target, target_item = starts(values, plan, run > 0)
        each = len(source) * max(1, run)  # of all items, where one item of the grid serves them
        dropped = np.tile(self.fill, each // len(self.fill)).reshape(len(source), -1)
        away = shifts(work.axes.counts, place.strides)
        image = frozen(self.image.flat if need_grid else nothing)
        onto = self.shadow.flat if need_image else nothing
        if not need_image:  # so that the starts lie in what stands for the memory
            shadow, shadow_item = np.zeros_like(shadow), 0
        if not need_grid:
            source, source_item = np.zeros_like(source), 0

        def task(planes: slice, band: tuple[int, int, int], ranges: list[Range]) -> None:
            block = work.scratch()
            for one in ranges:
                driver(
                    image, source[planes], source_item, onto, shadow[planes], shadow_item,
                    strides, away, *length, points.flat, points.item, points.axis, points.point,
                    frozen(values.flat), target[planes], target_item, values.strides[0],
                    dropped[planes].reshape(-1), self.gradient, plan.points * len(plan.spatial),
                    work.block, *work.axes[:3], *block, *one,
                    need_image, need_grid, *band,
                )  # fmt: skip

        cost = len(target) * max(1, run) * work.taps
        items, whole = range(plan.grid_items), extent(plan, place)
        if not need_image:
            ranges = divide(items, plan.points, cost, work.width, threads)
            return [functools.partial(task, slice(None), (0, 0, whole), [one]) for one in ranges]
        return [
            functools.partial(task, planes, band, divide(group, plan.points, cost, work.width, 1))
            for group, planes, band in portions(
                items, shadow_item != 0, len(target), whole, threads
            )
        ]


class SecondSweep:
    """As Sweep, for backward_twice."""

    def __init__(
        self,
        plan: Plan,
        values: Array,
        images: list[Any],
        grid: Array,
        moves: Array,
        results: Array | None,
        shadow: Array | None,
        gradient: Array,
        order: tuple[int, ...],
    ) -> None:
        """``images`` are the image and the upstream one, or None; laid out as ``shadow``."""
        self.plan, self.order = plan, order
        self.points, self.moves = read_points(grid, plan), read_points(moves, plan)
        self.has_image = images[1] is not None
        self.types = images[0].dtype, values.dtype
        self.image = describe(images[0], plan.items)
        self.upstream = describe(images[1], plan.items) if self.has_image else self.image
        self.shadow = self.image if shadow is None else describe(shadow, plan.items)
        self.values = describe(values.reshape(*values.shape[:2], plan.points), plan.items)
        self.results = self.values if results is None else describe(results, plan.items)
        self.gradient = gradient.reshape(-1)

    def tasks(
        self, need_values: bool, need_image: bool, need_grid: bool, threads: int
    ) -> list[pool.Task]:
        """The tasks of one sweep.  What a task writes to, no other does."""
        plan, points, moves = self.plan, self.points, self.moves
        bits = index_bits(plan, self.image)
        driver = driver_for(specify(plan, "backward_twice", bits, points, *self.types))
        axes = len(plan.spatial)
        work = organize(plan, self.order, 2 * (1 + axes), bits, 0, True)
        nothing = np.zeros(1, plan.real)
        source, source_item = starts(self.image, plan, False)
        upstream, upstream_item = starts(self.upstream, plan, False)
        shadow, shadow_item = starts(self.shadow, plan, False)
        target, target_item = starts(self.values, plan, False)
        results, results_item = starts(self.results, plan, False)
        onto = self.shadow.flat if need_image else nothing
        bar = self.results.flat if need_values else nothing
        if not need_image:  # so that the starts lie in what stands for the memory
            shadow, shadow_item = np.zeros_like(shadow), 0
        if not need_values:
            results, results_item = np.zeros_like(results), 0
        strides = np.array(self.image.strides, np.int64)
        away = shifts(work.axes.counts, self.image.strides)

        def task(planes: slice, band: tuple[int, int, int], ranges: list[Range]) -> None:
            block = work.scratch()
            for one in ranges:
                driver(
                    frozen(self.image.flat), source[planes], source_item,
                    frozen(self.upstream.flat), upstream[planes], upstream_item,
                    onto, shadow[planes], shadow_item, strides, away,
                    points.flat, points.item, points.axis, points.point,
                    moves.flat, moves.item, moves.axis, moves.point,
                    frozen(self.values.flat), target[planes], target_item, self.values.strides[0],
                    bar, results[planes], results_item, self.results.strides[0],
                    self.gradient, plan.points * axes,
                    work.block, *work.axes[:3], *block, *one,
                    self.has_image, need_values, need_image, need_grid, *band,
                )  # fmt: skip

        cost = len(target) * work.taps
        items, whole = range(plan.grid_items), extent(plan, self.image)
        if not need_image:
            ranges = divide(items, plan.points, cost, work.width, threads)
            return [functools.partial(task, slice(None), (0, 0, whole), [one]) for one in ranges]
        return [
            functools.partial(task, planes, band, divide(group, plan.points, cost, work.width, 1))
            for group, planes, band in portions(
                items, shadow_item != 0, len(target), whole, threads
            )
        ]


def portions(
    items: range, apart: bool, planes: int, whole: int, threads: int
) -> list[tuple[range, slice, tuple[int, int, int]]]:
    """Share out what is scattered to, so that each thread has places of its own.

    By item where each has its own image (``apart``), then by plane, then by bands of a plane's
    ``whole`` extent; a band is (whether there are several, first offset, last offset).
    """
    groups = [items[i : i + 1] for i in range(len(items))] if apart else [items]
    cuts = min(planes, -(-threads // len(groups)))
    bands = -(-threads // (len(groups) * cuts))
    return [
        (group, slice(planes * cut // cuts, planes * (cut + 1) // cuts), (bands > 1, low, high))
        for group in groups
        for cut in range(cuts)
        for low, high in (
            (whole * band // bands, whole * (band + 1) // bands) for band in range(bands)
        )
    ]
