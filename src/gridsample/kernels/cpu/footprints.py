"""Antialiased sampling on the CPU: the functions of `gridsample.kernels`, over footprints.

Every output point becomes the samples of its footprint.  That is a linear map E of the grid once
the numbers of samples are known, because the footprint's sides are differences of grid points.
The mean M over each point's samples is linear, too.  Hence, with plain sampling A,

    gather(image, grid) = M A(E grid) image

and all derivatives are those of A, with M and E, or their transposes, before and after.  A few
thousand samples are made at a time, sampled by the plain kernels, and reduced, while they are in
the cache; no array of all samples exists.  Points whose sides are too long are sampled in a
smaller copy of the image, which is linear in the image.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np

from gridsample.definitions import footprints as definitions
from gridsample.definitions.plan import Plan
from gridsample.kernels import cpu
from gridsample.kernels import threads as pool
from gridsample.kernels.compile import jit
from gridsample.kernels.compile.lower import fingerprint, lower, rebind
from gridsample.kernels.cpu import footprint_loops as loops
from gridsample.kernels.cpu.calls import plan_shadow
from gridsample.kernels.cpu.footprint_loops import Frame, Piece
from gridsample.kernels.cpu.layouts import complex_of
from gridsample.kernels.memory import as_float, converted, is_even, layout_of, plain

Array = np.ndarray[Any, Any]
Driver = Any

# Samples that are made at a time, and numbers that are read from the image at a time.
SAMPLES, NUMBERS = 1 << 15, 1 << 18
# Output points that are worth a task of their own.
TASK = 1 << 12


# The points of a piece of a row, and the runs of a part.
PIECE, MANY = 32, 4096

# The loops ----------------------------------------------------------------------------------------

PARTS = (
    loops.is_finite, loops.find_ends, loops.span, loops.subtract, loops.span_row, loops.is_regular,
    loops.measure, loops.find_levels, loops.count_row, loops.find_footprints, loops.row_end,
    loops.along, loops.copy_base, loops.lay_out, loops.run_length, loops.add_slopes,
)  # fmt: skip
LINES = loops.line_up, loops.copy, loops.add, loops.divide


@functools.cache
def driver(name: str, rank: int, real: np.dtype[Any]) -> Driver:
    """Compile a loop for a rank and a dtype."""
    tag = f"{rank}_{real.name}_{fingerprint()}"
    names: dict[str, Any] = {
        "RANK": rank, "real": numba.float32 if real.itemsize == 4 else numba.float64,
        "ZERO": real.type(0), "HALF": real.type(0.5), "ONE": real.type(1),
        "SLACK": real.type(definitions.SLACK), "HUGE": real.type(1e9),
    }  # fmt: skip
    names.update(lower(LINES, names, jit.compile_piece, tag))
    names.update(lower(PARTS, names, jit.compile_inner, tag))
    return jit.compile_driver(rebind(getattr(loops, name), names, f"footprints_{name}_{tag}"))


class Call(NamedTuple):
    """A call, prepared for the loops.

    Attributes:
        plan: the plan.
        points: the grid as (points, D) in the dtype of the sums, with all items.
        frame: what footprints have in common, for level 0.
        levels: the image and its halved copies, as many as points need.
        largest: the most samples of a point.
    """

    plan: Plan
    points: Array
    frame: Frame
    levels: tuple[definitions.Level, ...]
    largest: int

    @property
    def shrinks(self) -> bool:
        """Whether any point has more than one sample, or one in a smaller copy."""
        return self.largest > 1 or len(self.levels) > 1

    def frame_at(self, level: int) -> Frame:
        """The frame for the samples of a level."""
        how, real = self.levels[level], self.plan.real
        return self.frame._replace(
            gain=np.array(how.gain, real), shift=np.array(how.shift, real), level=level
        )


def prepare(plan: Plan, grid: Array) -> Call:
    """Prepare a call, and find out what its points need."""
    assert plan.footprint is not None
    rank, real = len(plan.spatial), plan.real
    points = np.ascontiguousarray(as_float(plain(grid)), real).reshape(-1, rank)
    shape = np.array(plan.out[-rank:])
    unit = definitions.pixels_per_unit(plan.spatial, plan.coords, plan.align_corners)
    frame = Frame(
        shape=shape,
        steps=np.array([math.prod(shape[k + 1 :]) for k in range(rank)]),
        unit=np.array(unit, real),
        gain=np.ones(rank, real),
        shift=np.zeros(rank, real),
        levels=definitions.deepest(plan.spatial),
        level=0,
        most=plan.footprint.most,
        displaced=plan.coords == "displacement",
        attached=plan.footprint.attached,
    )
    found: Array = np.zeros(2, np.int64)
    driver("survey", rank, real)(points, *frame, *new_piece(rank, real), found)
    deepest, largest = found.tolist()
    levels = definitions.levels(plan.spatial, plan.coords, plan.align_corners, deepest)
    return Call(plan, points, frame, levels, largest)


def new_piece(rank: int, real: np.dtype[Any]) -> Piece:
    """Allocate the memory of a piece of a row."""
    return Piece(
        np.zeros((3, rank, PIECE), real), np.zeros((rank, PIECE), real),
        np.zeros((4, rank, PIECE), real),
        np.ones((3, PIECE), np.int64), np.zeros(PIECE, np.int64), np.zeros((rank, 2), np.int64),
    )  # fmt: skip


def without(plan: Plan) -> Plan:
    """The plan of plain sampling."""
    return replace(plan, footprint=None)


@functools.lru_cache(maxsize=1024)
def plan_of_samples(
    plan: Plan, level: definitions.Level, images: int, samples: int, dtype: np.dtype[Any]
) -> Plan:
    """The plan of plain sampling at a list of samples, for the image of a level."""
    return replace(
        plan, footprint=None, spatial=level.spatial, coords=level.coords, image_items=images,
        grid_items=1, out=(samples,), dtype=dtype,
    )  # fmt: skip


# Samples, a few at a time -------------------------------------------------------------------------


class Part(NamedTuple):
    """The samples of a range of points.

    Attributes:
        first: the first point.
        last: the point after the last one.
        runs: the runs of points with equal numbers of samples, as the loops describe them.
        samples: their coordinates, (1, samples, D), with unused ones at the end.
        moved: the same sums of a direction in the space of grids, or None.
    """

    first: int
    last: int
    runs: Array
    samples: Array
    moved: Array | None

    def chosen(self) -> Array:
        """Whether each point has samples."""
        return np.repeat(self.runs[:, loops.COUNT] > 0, self.runs[:, loops.LENGTH])


def parts(
    call: Call, level: int, first: int, last: int, channels: int, moves: Array | None = None
) -> Iterator[Part]:
    """Yield the samples of a range of points that belong to a level.

    The arrays are overwritten by the next part.  Their length has few different values, so that
    the plans for them are found in the cache.
    """
    rank, real = len(call.plan.spatial), call.plan.real
    room = max(min(SAMPLES, NUMBERS // max(channels, 1)), 256, call.largest)
    room = min(room, padded((last - first) * call.largest, room))
    samples, runs = np.zeros((rank, room), real), np.zeros((MANY, 4), np.int64)
    moved = None if moves is None else np.zeros((rank, room), real)
    found: Array = np.zeros(3, np.int64)
    frame, piece = call.frame_at(level), new_piece(rank, real)
    while first < last:
        driver("spread", rank, real)(call.points, *frame, *piece, first, last, samples, runs, found)
        stop, count, used = found.tolist()
        if used:
            size = padded(used, room)
            samples[:, used:size] = samples[:, used - 1 : used]
            if moved is not None:
                driver("spread_moves", rank, real)(
                    call.points, moves, *frame, *piece, first, runs[:count], moved
                )
            yield Part(
                first, stop, runs[:count], as_grid(samples, size),
                None if moved is None else as_grid(moved, size),
            )  # fmt: skip
        first = stop


def as_grid(samples: Array, size: int) -> Array:
    """View the first samples of (D, samples) as a grid (1, samples, D)."""
    return samples[:, :size].T[np.newaxis]


def padded(used: int, room: int) -> int:
    """Round a number of samples up to one of few numbers."""
    step = max(64, room // 8)
    return min(-(-used // step) * step, room)


class Planes(NamedTuple):
    """Numbers (images, channels, samples or points) as the loops see them: (P, entries * R).

    Channels are contiguous if they are in the image, and so are the two parts of a complex number.
    """

    images: int
    channels: int
    last: bool
    dtype: np.dtype[Any]
    real: np.dtype[Any]

    def empty(self, entries: int) -> tuple[Array, Array]:
        """Allocate an array (images, channels, entries), and view it as (P, entries * R)."""
        if self.last:
            memory: Array = np.empty((self.images, entries, self.channels), self.dtype)
            return memory.transpose(0, 2, 1), self.view(memory)
        memory = np.empty((self.images, self.channels, entries), self.dtype)
        return memory, self.view(memory)

    def view(self, memory: Array) -> Array:
        """View contiguous memory as (P, entries * R)."""
        planes = self.images if self.last else self.images * self.channels
        return memory.view(self.real).reshape(planes, -1)

    @property
    def size(self) -> int:
        """R: the contiguous numbers of a sample."""
        return (self.channels if self.last else 1) * self.dtype.itemsize // self.real.itemsize


def planes_of(call: Call, images: int, like: Array) -> Planes:
    """Describe the numbers of a call that are laid out like values (N, C, *out)."""
    plan = call.plan
    last = plan.channels > 1 and like.strides[1] == like.itemsize
    dtype = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    return Planes(images, plan.channels, last, dtype, plan.real)


class Item(NamedTuple):
    """One item of the grid: a range of points, and the items of the image that it samples."""

    first: int
    last: int
    images: slice
    values: slice


def items_of(plan: Plan) -> list[Item]:
    """List the items of the grid."""
    size = plan.points
    if plan.grid_items == 1:
        return [Item(0, size, slice(None), slice(None))]
    shared = plan.image_items == 1
    return [
        Item(n * size, (n + 1) * size, slice(None) if shared else slice(n, n + 1), slice(n, n + 1))
        for n in range(plan.grid_items)
    ]


def pyramid(image: Array, call: Call) -> list[Array]:
    """Return the image and its halved copies."""
    found = [image]
    for _ in call.levels[1:]:
        found.append(halve(found[-1], call.plan.real))
    return found


def halve(image: Array, real: np.dtype[Any]) -> Array:
    """Halve an image (N, C, *spatial) along all axes: see `definitions.halving`."""
    kind = complex_of(real) if image.dtype.kind == "c" else real
    result: Array = as_float(image).astype(kind)
    for axis in range(2, image.ndim):
        result = weighed(result, axis, *definitions.halving(image.shape[axis]))
    return result


def unhalve(image: Array, spatial: tuple[int, ...]) -> Array:
    """Apply the transpose of `halve`."""
    for axis, n in enumerate(spatial, start=2):
        image = weighed(image, axis, *definitions.unhalving(n))
    return image


def weighed(image: Array, axis: int, places: Array, weights: Array) -> Array:
    """Sum the entries at ``places`` along an axis, with ``weights``, both (entries, terms)."""
    factors = weights.astype(image.real.dtype).reshape(
        *weights.shape, *(1,) * (image.ndim - 1 - axis)
    )
    total: Array = image.take(places[:, 0], axis) * factors[:, 0]
    for k in range(1, places.shape[1]):
        total += image.take(places[:, k], axis) * factors[:, k]
    return total


# Sampling -----------------------------------------------------------------------------------------


def gather(
    plan: Plan, image: Array, grid: Array, out: Array, *, fill: Array | None = None,
    threads: int | None = None,
) -> None:  # fmt: skip
    """Sample the image over the footprints of the grid's points, into ``out``."""
    call = prepare(plan, grid)
    if not call.shrinks:
        cpu.gather(without(plan), image, grid, out, fill=fill, threads=threads)
        return
    image, count = plain(image), threads or pool.cores()
    target = out if is_even(out) else np.empty_like(out, order="C", subok=False)
    tasks = []
    for item in items_of(plan):
        images = pyramid(image[item.images], call)
        values = points_last(target[item.values])
        share = max(TASK, -(-plan.points // (4 * count)))
        tasks += [
            functools.partial(
                sample, call, item, images, values, fill, first, min(first + share, plan.points)
            )
            for first in range(0, plan.points, share)
        ]
    pool.run(tasks, count)
    if target is not out:
        out[...] = target


def points_last(values: Array) -> Array:
    """View evenly spaced values (N, C, *out) as (N, C, points)."""
    return values.reshape(*values.shape[:2], -1)


def sample(
    call: Call, item: Item, images: list[Array], values: Array, fill: Array | None, first: int,
    last: int,
) -> None:  # fmt: skip
    """Sample a range of points of an item, on one thread."""
    several = planes_of(call, len(values), values)
    average = driver("average", len(call.plan.spatial), call.plan.real)
    channels = len(values) * call.plan.channels
    for level, image in enumerate(images):
        for part in parts(call, level, item.first + first, item.first + last, channels):
            taken, flat = several.empty(part.samples.shape[1])
            plan = plan_of_samples(
                call.plan, call.levels[level], len(image), part.samples.shape[1], several.dtype
            )
            cpu.gather(plan, image, part.samples, taken, fill=fill, threads=1)
            means, onto = several.empty(part.last - part.first)
            average(flat, part.runs, several.size, onto)
            here = slice(part.first - item.first, part.last - item.first)
            store(means, fill, values[..., here], part.chosen() if len(images) > 1 else None)


def store(means: Array, fill: Array | None, out: Array, chosen: Array | None) -> None:
    """Store means in the dtype of the result; only those that are chosen, if not all are.

    Integers are rounded half to even and saturate; NaN becomes the fill value.
    """
    kind = out.dtype
    if kind.kind in "biu":
        hole = np.float64(0) if fill is None else fill.reshape(1, -1, 1)
        means = np.rint(np.where(np.isnan(means), hole, means))
        means = means > 0 if kind.kind == "b" else saturated(means, kind)
    else:
        means = converted(means, kind)
    if chosen is None:
        out[...] = means
    else:
        out[..., chosen] = means[..., chosen]


def saturated(whole: Array, kind: np.dtype[Any]) -> Array:
    """Convert whole numbers to an integer dtype; what is out of range becomes its limit."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    with np.errstate(all="ignore"):
        found = np.where(whole <= low, low, whole).astype(kind)
    # The largest integer may not be representable as a float.
    found[whole >= high] = high
    return found


# Derivatives --------------------------------------------------------------------------------------


def backward(
    plan: Plan, values: Array, image: Array, grid: Array, *, need_image: bool, need_grid: bool,
    fill: Array | None, dtype: np.dtype[Any] | None, threads: int | None,
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute both gradients of gather."""
    call = prepare(plan, grid)
    if not call.shrinks:
        return cpu.backward(
            without(plan), values, image, grid, need_image=need_image, need_grid=need_grid,
            fill=fill, dtype=dtype, threads=threads,
        )  # fmt: skip
    image = plain(image)
    like = plan_shadow(plan, layout_of(image))
    shadow = like.zeros() if need_image else None
    gradient = np.zeros(call.points.shape, plan.real) if need_grid else None
    how: Any = {"fill": fill, "threads": threads}
    for item in items_of(plan):
        onto = None if shadow is None else shadow[item.images]
        differentiate(call, item, values[item.values], image[item.images], onto, gradient, how)
    if shadow is not None and dtype is not None and dtype != shadow.dtype:
        result = like.of(dtype)
        cpu.store(shadow, result)
        shadow = result
    return shadow, None if gradient is None else gradient.reshape(grid.shape)


def differentiate(
    call: Call, item: Item, values: Array, image: Array, shadow: Array | None,
    gradient: Array | None, how: Any,
) -> None:  # fmt: skip
    """Add both gradients of one item's samples."""
    images = pyramid(image, call)
    shadows = [shadow] + [None if shadow is None else np.zeros_like(one) for one in images[1:]]
    given = cpu.even_values(values).reshape(*values.shape[:2], -1)
    several = planes_of(call, len(given), given)
    rank, real = len(call.plan.spatial), call.plan.real
    piece = new_piece(rank, real)
    for level, source in enumerate(images):
        frame = call.frame_at(level)
        for part in parts(call, level, item.first, item.last, several.images * several.channels):
            size = part.samples.shape[1]
            upstream = shared_out(given, several, part, item, call)
            plan = plan_of_samples(call.plan, call.levels[level], len(source), size, several.dtype)
            _, slopes = cpu.backward(
                plan, upstream, source, part.samples, need_image=shadow is not None,
                need_grid=gradient is not None, onto=shadows[level], **how,
            )  # fmt: skip
            if gradient is not None and slopes is not None:
                driver("collect", rank, real)(
                    call.points, *frame, *piece, part.first, slopes[0], part.runs, gradient
                )
    add_back(shadows)


def shared_out(given: Array, several: Planes, part: Part, item: Item, call: Call) -> Array:
    """Return upstream values (N, C, samples): each point's, divided by its number of samples."""
    means, flat = several.empty(part.last - part.first)
    means[...] = as_float(given[..., part.first - item.first : part.last - item.first])
    upstream, onto = several.empty(part.samples.shape[1])
    driver("repeat", len(call.plan.spatial), call.plan.real)(
        flat, part.runs, several.size, onto
    )  # fmt: skip
    return upstream


def add_back(shadows: list[Array | None]) -> None:
    """Add the gradients of halved images to that of the image."""
    while len(shadows) > 1:
        smaller, larger = shadows.pop(), shadows[-1]
        if smaller is not None and larger is not None:
            larger += unhalve(smaller, larger.shape[2:])


def backward_twice(
    plan: Plan, values: Array, image: Array, grid: Array, upstream: Array | None, moves: Array, *,
    need_values: bool, need_image: bool, need_grid: bool, threads: int | None,
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the gradients of backward."""
    call = prepare(plan, grid)
    if not call.shrinks:
        return cpu.backward_twice(
            without(plan), values, image, grid, upstream, moves, need_values=need_values,
            need_image=need_image, need_grid=need_grid, threads=threads,
        )  # fmt: skip
    like = plan_shadow(plan, layout_of(image))
    image = cpu.in_order(image, like.layout)
    upstream = None if upstream is None else cpu.in_order(upstream, like.layout)
    shadow = like.zeros() if need_image else None
    gradient = np.zeros(call.points.shape, plan.real) if need_grid else None
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    results = np.zeros(plan.shape, kind) if need_values else None
    along = np.ascontiguousarray(as_float(plain(moves)), plan.real).reshape(call.points.shape)
    for item in items_of(plan):
        second = Second(
            values[item.values], image[item.images],
            None if upstream is None else upstream[item.images], along,
            None if results is None else points_last(results[item.values]),
            None if shadow is None else shadow[item.images], gradient,
        )  # fmt: skip
        differentiate_twice(call, item, second, threads)
    return results, shadow, None if gradient is None else gradient.reshape(grid.shape)


class Second(NamedTuple):
    """The arrays of `backward_twice` for one item; what is not needed is None."""

    values: Array
    image: Array
    upstream: Array | None
    moves: Array
    results: Array | None
    shadow: Array | None
    gradient: Array | None


def differentiate_twice(call: Call, item: Item, one: Second, threads: int | None) -> None:
    """Add the second derivatives of one item's samples."""
    images = pyramid(one.image, call)
    others = [None] * len(images) if one.upstream is None else pyramid(one.upstream, call)
    shadow = one.shadow
    shadows = [shadow] + [None if shadow is None else np.zeros_like(img) for img in images[1:]]
    given = cpu.even_values(one.values).reshape(*one.values.shape[:2], -1)
    several = planes_of(call, len(given), given)._replace(last=False)
    rank, real = len(call.plan.spatial), call.plan.real
    piece = new_piece(rank, real)
    entries = several.images * several.channels
    for level, source in enumerate(images):
        frame = call.frame_at(level)
        for part in parts(call, level, item.first, item.last, entries, one.moves):
            assert part.moved is not None
            size = part.samples.shape[1]
            plan = plan_of_samples(call.plan, call.levels[level], len(source), size, several.dtype)
            bar, _, slopes = cpu.backward_twice(
                plan, shared_out(given, several, part, item, call), source, part.samples,
                others[level], part.moved, need_values=one.results is not None,
                need_image=shadow is not None, need_grid=one.gradient is not None,
                onto=shadows[level], threads=threads,
            )  # fmt: skip
            if one.results is not None and bar is not None:
                means, onto = several.empty(part.last - part.first)
                driver("average", rank, real)(several.view(bar), part.runs, several.size, onto)
                here = one.results[..., part.first - item.first : part.last - item.first]
                store(means, None, here, part.chosen())
            if one.gradient is not None and slopes is not None:
                driver("collect", rank, real)(
                    call.points, *frame, *piece, part.first, slopes[0], part.runs, one.gradient
                )
    add_back(shadows)
