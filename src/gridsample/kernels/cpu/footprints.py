"""Antialiased sampling on the CPU: the functions of `gridsample.kernels`, over footprints.

Every output point becomes the samples of its footprint.  That is a linear map E of the grid once
the numbers of samples are known, because the footprint's sides are differences of grid points.
The mean M over each point's samples is linear, too.  Hence, with plain sampling A,

    gather(image, grid) = M A(E grid) image

and all derivatives are those of A, with M and E, or their transposes, before and after.  A few
thousand samples are made at a time, sampled by the plain kernels, and reduced, while they are in
the cache; no array of all samples exists.  Points whose sides are too long are sampled in a
smaller copy of the image, which is linear in the image.  Affine maps take the place of a grid in
E, so that no grid exists either.  Labels have no mean: see `footprint_labels`.
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
from gridsample.definitions.integers import saturated
from gridsample.definitions.plan import Plan
from gridsample.kernels import axes, cpu
from gridsample.kernels import threads as pool
from gridsample.kernels.compile import jit
from gridsample.kernels.compile.lower import fingerprint, lower, rebind
from gridsample.kernels.cpu import footprint_labels as labels
from gridsample.kernels.cpu import footprint_loops as loops
from gridsample.kernels.cpu import footprint_maps as maps
from gridsample.kernels.cpu.calls import plan_shadow
from gridsample.kernels.cpu.footprint_loops import Frame, Piece
from gridsample.kernels.cpu.halving import Halves
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
# For affine maps.
MAP_PARTS = (
    loops.measure, loops.find_levels, loops.count_row, maps.own_place, maps.find_sides,
    maps.find_footprints, loops.row_end, loops.along, maps.copy_base, loops.lay_out,
    loops.run_length, loops.add_slopes, maps.add_to_map,
)  # fmt: skip
LINES = loops.line_up, loops.copy, loops.add, loops.divide
VOTES = labels.add_vote, labels.take_winner

DRIVERS = {
    (one.__name__, affine): one
    for affine, several in (
        (False, (loops.survey, loops.spread, loops.spread_moves, loops.collect)),
        (True, (maps.survey, loops.spread, maps.collect)),
    )
    for one in (*several, loops.average, loops.repeat, labels.locate, labels.elect)
}


@functools.cache
def driver(name: str, rank: int, real: np.dtype[Any], affine: bool) -> Driver:
    """Compile a loop for a rank and a dtype, over a grid or affine maps."""
    tag = f"{rank}_{real.name}_{'maps_' if affine else ''}{fingerprint()}"
    names: dict[str, Any] = {
        "RANK": rank, "real": numba.float32 if real.itemsize == 4 else numba.float64,
        "ZERO": real.type(0), "HALF": real.type(0.5), "ONE": real.type(1),
        "SLACK": real.type(definitions.SLACK), "HUGE": real.type(1e9),
        "NOWHERE": real.type(math.nan), "floor": np.floor,
    }  # fmt: skip
    names.update(lower(LINES, names, jit.compile_piece, tag))
    parts = (*(MAP_PARTS if affine else PARTS), *VOTES)
    names.update(lower(parts, names, jit.compile_inner, tag))
    return jit.compile_driver(rebind(DRIVERS[name, affine], names, f"footprints_{name}_{tag}"))


class Call(NamedTuple):
    """A call, prepared for the loops.

    Attributes:
        plan: the plan.
        points: the grid as (points, D), with all items, or affine maps (items, D, D + 1), in the
            dtype of the sums.
        affine: whether these are maps.
        frame: what footprints have in common, for level 0.
        levels: the image and its halved copies, down to the smallest that a point needs.
        used: the levels that points need.
        largest: the most samples of a point.
    """

    plan: Plan
    points: Array
    affine: bool
    frame: Frame
    levels: tuple[definitions.Level, ...]
    used: tuple[int, ...]
    largest: int

    @property
    def shrinks(self) -> bool:
        """Whether any point has more than one sample, or one in a smaller copy."""
        return self.largest > 1 or self.used != (0,)

    def frame_at(self, level: int) -> Frame:
        """The frame for the samples of a level."""
        how, real = self.levels[level], self.plan.real
        return self.frame._replace(
            gain=np.array(how.gain, real), shift=np.array(how.shift, real), level=level
        )

    def loop(self, name: str) -> Driver:
        """The driver of a name for this call."""
        return driver(name, len(self.plan.spatial), self.plan.real, self.affine)

    def halves(self, threads: int | None) -> Halves:
        """What halves images for this call."""
        spatial = tuple(level.spatial for level in self.levels)
        return Halves(spatial, self.used, self.plan.real, threads or pool.cores())

    def no_slopes(self) -> Array:
        """Allocate the gradient of the points; that of maps is a sum in double precision."""
        return np.zeros(self.points.shape, np.float64 if self.affine else self.plan.real)


def prepare(plan: Plan, grid: Array, affine: bool = False) -> Call:
    """Prepare a call, and find out what its points need."""
    assert plan.footprint is not None
    rank, real = len(plan.spatial), plan.real
    points = np.ascontiguousarray(as_float(plain(grid)), real)
    points = points if affine else points.reshape(-1, rank)
    frame = frame_of(plan, affine)
    found: Array = np.zeros(2, np.int64)
    if len(points):
        survey = driver("survey", rank, real, affine)
        survey(points, *frame, *new_piece(rank, real), found)
    bits, largest = found.tolist()
    used = tuple(n for n in range(64) if bits >> n & 1) or (0,)
    levels = definitions.levels(plan.spatial, plan.coords, plan.align_corners, used[-1])
    return Call(plan, points, affine, frame, levels, used, largest)


def frame_of(plan: Plan, affine: bool) -> Frame:
    """Return what the footprints of a call have in common; labels are never halved."""
    assert plan.footprint is not None
    rank, real = len(plan.spatial), plan.real
    shape = np.array(plan.out[-rank:])
    unit = definitions.pixels_per_unit(plan.spatial, plan.coords, plan.align_corners)
    own = [axes.describe(plan, d, 0).measures for d in range(rank)] if affine else []
    # The coordinates -1 and 1 of a single corner pixel are the same place.
    corners = plan.align_corners and plan.coords == "normalized"
    alone = [corners and plan.out[-1 - d] == 1 for d in range(rank)]
    spacing = [0.0 if one else m.step for m, one in zip(own, alone, strict=False)]
    return Frame(
        shape=shape,
        steps=np.array([math.prod(shape[k + 1 :]) for k in range(rank)]),
        unit=np.array(unit, real),
        gain=np.ones(rank, real),
        shift=np.zeros(rank, real),
        levels=0 if plan.votes else definitions.deepest(plan.spatial),
        level=0,
        most=plan.footprint.most,
        displaced=plan.coords == "displacement",
        attached=plan.footprint.attached,
        origin=np.array([m.start for m in own], real),
        spacing=np.array(spacing, real),
    )


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

    A sample needs scratch memory for ``channels`` numbers.  The arrays are overwritten by the next
    part.  Their length has few different values, so that the plans for them are found in the cache.
    """
    rank, real = len(call.plan.spatial), call.plan.real
    room = max(min(SAMPLES, NUMBERS // max(channels, 1)), 256, call.largest)
    room = min(room, padded((last - first) * call.largest, room))
    samples, runs = np.zeros((rank, room), real), np.zeros((MANY, 4), np.int64)
    moved = None if moves is None else np.zeros((rank, room), real)
    found: Array = np.zeros(3, np.int64)
    frame, piece = call.frame_at(level), new_piece(rank, real)
    while first < last:
        call.loop("spread")(
            call.points, *frame, *piece, first, last, samples, runs, found
        )  # fmt: skip
        stop, count, used = found.tolist()
        if used:
            size = padded(used, room)
            samples[:, used:size] = samples[:, used - 1 : used]
            if moved is not None:
                call.loop("spread_moves")(
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


# Sampling -----------------------------------------------------------------------------------------


def gather(
    plan: Plan, image: Array, grid: Array, out: Array, *, fill: Array | None = None,
    affine: bool = False, threads: int | None = None,
) -> None:  # fmt: skip
    """Sample the image over the footprints of the points of a grid or of maps, into ``out``."""
    call = prepare(plan, grid, affine)
    if not call.shrinks:
        cpu.gather(
            without(plan), image, grid, out, fill=fill, affine=affine, threads=threads
        )  # fmt: skip
        return
    image, count = plain(image), threads or pool.cores()
    target = out if is_even(out) else np.empty_like(out, order="C", subok=False)
    share, compute = max(TASK, -(-plan.points // (4 * count))), vote if plan.votes else sample
    for level, source in call.halves(count).of(image):
        tasks = [
            functools.partial(
                compute, call, item, level, source[item.images], points_last(target[item.values]),
                fill, first, min(first + share, plan.points),
            )
            for item in items_of(plan)
            for first in range(0, plan.points, share)
        ]  # fmt: skip
        pool.run(tasks, count)
        del tasks  # which hold the image of this level
    if target is not out:
        out[...] = target


def points_last(values: Array) -> Array:
    """View evenly spaced values (N, C, *out) as (N, C, points)."""
    return values.reshape(*values.shape[:2], -1)


def sample(
    call: Call, item: Item, level: int, image: Array, values: Array, fill: Array | None, first: int,
    last: int,
) -> None:  # fmt: skip
    """Sample a range of points of an item that belong to a level, on one thread."""
    several, average = planes_of(call, len(values), values), call.loop("average")
    channels = len(values) * call.plan.channels
    for part in parts(call, level, item.first + first, item.first + last, channels):
        taken, flat = several.empty(part.samples.shape[1])
        # Nearest pixels are copied as they are stored.
        copied = call.plan.nearest and image.dtype != taken.dtype
        target = np.empty_like(taken, image.dtype) if copied else taken
        plan = plan_of_samples(
            call.plan, call.levels[level], len(image), target.shape[2], target.dtype
        )
        cpu.gather(plan, image, part.samples, target, fill=fill, threads=1)
        if copied:
            taken[...] = as_float(target)
        means, onto = several.empty(part.last - part.first)
        average(flat, part.runs, several.size, onto)
        here = slice(part.first - item.first, part.last - item.first)
        store(means, fill, values[..., here], part.chosen() if len(call.used) > 1 else None)


def vote(
    call: Call, item: Item, level: int, image: Array, values: Array, fill: Array | None, first: int,
    last: int,
) -> None:  # fmt: skip
    """Find the labels of a range of points of an item, on one thread."""
    ballot = labels.Ballot(call.plan, call.largest, call.loop)
    numbers = 6 * ballot.taps * (len(values) * call.plan.channels + len(call.plan.spatial))
    for part in parts(call, level, item.first + first, item.first + last, numbers):
        here = slice(part.first - item.first, part.last - item.first)
        values[..., here] = ballot.decide(image, part.samples[0].T, part.runs, fill)


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


# Derivatives --------------------------------------------------------------------------------------


def backward(
    plan: Plan, values: Array, image: Array, grid: Array, *, need_image: bool, need_grid: bool,
    fill: Array | None, dtype: np.dtype[Any] | None, affine: bool, threads: int | None,
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute both gradients of gather."""
    if not (need_image or need_grid):
        return None, None
    call = prepare(plan, grid, affine)
    if not call.shrinks:
        return cpu.backward(
            without(plan), values, image, grid, need_image=need_image, need_grid=need_grid,
            fill=fill, dtype=dtype, affine=affine, threads=threads,
        )  # fmt: skip
    image = plain(image)
    like = plan_shadow(plan, layout_of(image))
    shadow = like.zeros() if need_image else None
    gradient = call.no_slopes() if need_grid else None
    halves = call.halves(threads)
    shadows = halves.zeros(image, shadow)
    # Only the gradient of the grid depends on the image.
    images = shadows if gradient is None else dict(halves.of(image))
    how: Any = {"fill": fill, "threads": threads}
    for item in items_of(plan):
        differentiate(call, item, values[item.values], (images, shadows), gradient, how)
    halves.add_back(shadow, shadows)
    if shadow is not None and dtype is not None and dtype != shadow.dtype:
        result = like.of(dtype)
        cpu.store(shadow, result)
        shadow = result
    return shadow, slopes_of(gradient, grid, plan)


def slopes_of(gradient: Array | None, grid: Array, plan: Plan) -> Array | None:
    """Return the gradient of points in the shape of the grid or the maps, or None."""
    return None if gradient is None else gradient.reshape(grid.shape).astype(plan.real, copy=False)


def differentiate(
    call: Call, item: Item, values: Array, images: tuple[dict[int, Array], dict[int, Array]],
    gradient: Array | None, how: Any,
) -> None:  # fmt: skip
    """Add both gradients of one item's samples; ``images`` and their gradients are by level."""
    given = cpu.even_values(values).reshape(*values.shape[:2], -1)
    several = planes_of(call, len(given), given)
    piece = new_piece(len(call.plan.spatial), call.plan.real)
    sources, shadows = images
    for level in call.used:
        frame, source = call.frame_at(level), sources[level][item.images]
        onto = shadows[level][item.images] if shadows else None
        for part in parts(call, level, item.first, item.last, several.images * several.channels):
            size = part.samples.shape[1]
            upstream = shared_out(given, several, part, item, call)
            plan = plan_of_samples(call.plan, call.levels[level], len(source), size, several.dtype)
            _, slopes = cpu.backward(
                plan, upstream, source, part.samples, need_image=onto is not None,
                need_grid=gradient is not None, onto=onto, **how,
            )  # fmt: skip
            if gradient is not None and slopes is not None:
                call.loop("collect")(
                    call.points, *frame, *piece, part.first, slopes[0], part.runs, gradient
                )


def shared_out(given: Array, several: Planes, part: Part, item: Item, call: Call) -> Array:
    """Return upstream values (N, C, samples): each point's, divided by its number of samples."""
    means, flat = several.empty(part.last - part.first)
    means[...] = as_float(given[..., part.first - item.first : part.last - item.first])
    upstream, onto = several.empty(part.samples.shape[1])
    call.loop("repeat")(flat, part.runs, several.size, onto)
    return upstream


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
    gradient = call.no_slopes() if need_grid else None
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    results = np.zeros(plan.shape, kind) if need_values else None
    along = np.ascontiguousarray(as_float(plain(moves)), plan.real).reshape(call.points.shape)
    halves = call.halves(threads)
    shadows, images = halves.zeros(image, shadow), dict(halves.of(image))
    others = {} if upstream is None else dict(halves.of(upstream))
    for item in items_of(plan):
        second = Second(
            values[item.values], images, others, along,
            None if results is None else points_last(results[item.values]), shadows, gradient,
        )  # fmt: skip
        differentiate_twice(call, item, second, threads)
    halves.add_back(shadow, shadows)
    return results, shadow, slopes_of(gradient, grid, plan)


class Second(NamedTuple):
    """The arrays of `backward_twice` for one item; what is not needed is None, or empty.

    The images, the upstream images and the gradients of images are by level, and have all items.
    """

    values: Array
    images: dict[int, Array]
    upstream: dict[int, Array]
    moves: Array
    results: Array | None
    shadows: dict[int, Array]
    gradient: Array | None


def differentiate_twice(call: Call, item: Item, one: Second, threads: int | None) -> None:
    """Add the second derivatives of one item's samples."""
    given = cpu.even_values(one.values).reshape(*one.values.shape[:2], -1)
    several = planes_of(call, len(given), given)._replace(last=False)
    piece = new_piece(len(call.plan.spatial), call.plan.real)
    entries = several.images * several.channels
    for level in call.used:
        frame, source = call.frame_at(level), one.images[level][item.images]
        other = one.upstream[level][item.images] if one.upstream else None
        onto = one.shadows[level][item.images] if one.shadows else None
        for part in parts(call, level, item.first, item.last, entries, one.moves):
            assert part.moved is not None
            size = part.samples.shape[1]
            plan = plan_of_samples(call.plan, call.levels[level], len(source), size, several.dtype)
            bar, _, slopes = cpu.backward_twice(
                plan, shared_out(given, several, part, item, call), source, part.samples,
                other, part.moved, need_values=one.results is not None,
                need_image=onto is not None, need_grid=one.gradient is not None,
                onto=onto, threads=threads,
            )  # fmt: skip
            if one.results is not None and bar is not None:
                means, lines = several.empty(part.last - part.first)
                call.loop("average")(several.view(bar), part.runs, several.size, lines)
                here = one.results[..., part.first - item.first : part.last - item.first]
                store(means, None, here, part.chosen())
            if one.gradient is not None and slopes is not None:
                call.loop("collect")(
                    call.points, *frame, *piece, part.first, slopes[0], part.runs, one.gradient
                )
