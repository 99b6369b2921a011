"""CPU kernels: the four functions of `gridsample.kernels`, as compiled drivers over flat memory.

What depends only on a plan and the arrays' layouts is computed once (`calls`, `work`, `outside`).
This module makes arrays readable, allocates results, and runs the drivers (`sweeps`, `second`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import BOUNDARIES, Plan, is_differentiable
from gridsample.kernels import threads as pool
from gridsample.kernels.cpu.build import worker
from gridsample.kernels.cpu.calls import (
    find_outside,
    plan_backward,
    plan_gather,
    plan_second,
    plan_shadow,
)
from gridsample.kernels.cpu.entry import Batch
from gridsample.kernels.cpu.gradients import MAP
from gridsample.kernels.cpu.layouts import complex_of
from gridsample.kernels.cpu.outside import means_outside, numbers_outside
from gridsample.kernels.memory import (
    Layout,
    converted,
    even,
    is_even,
    is_even_layout,
    is_plain,
    layout_of,
    plain,
    raised,
    spacing,
)

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# A placeholder for memory that is neither read nor written.
NOTHING = {kind: np.zeros(1, kind) for kind in (np.dtype(np.float32), np.dtype(np.float64))}

# The numbers that are summed at a time if results have another dtype than sums: 2 MB in single
# precision, or one plane.
PART = 1 << 19


def gather(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    *,
    order: Order | None = None,
    fill: Array | None = None,
    affine: bool = False,
    means: Averaging | None = None,
    threads: int | None = None,
) -> None:
    """Sample the image at the grid's points, into ``out``: see `gridsample.kernels`.

    If ``affine``, the grid contains affine maps (N, D, D + 1), which map every point of the output
    to its coordinates.  With ``means``, NaN pixels do not count; this is for plans that `averages`.
    """
    if plan.footprint is not None:
        over_footprints().gather(
            plan, image, grid, out, fill=fill, affine=affine, threads=threads
        )  # fmt: skip
        return
    order = order or (0,) * len(plan.spatial)
    if vanishes(plan, order):
        out[...] = 0
        return
    if not is_even(out):
        values = np.empty_like(out, order="C", subok=False)
        how: Any = {"order": order, "fill": fill, "affine": affine, "threads": threads}
        gather(plan, image, grid, values, means=means, **how)
        out[...] = values
        return
    image, count = plain(image), threads or pool.cores()
    grid = as_maps(grid, plan) if affine else even(grid)
    call = plan_gather(
        plan, order, layout_of(image), layout_of(grid), layout_of(out), affine, count,
        means is not None,
    )  # fmt: skip
    outside: Sequence[Array] = call.outside
    if means is not None:
        outside = means_outside(plan, fill, means).repeat(call.times)
    elif fill is not None:
        outside = find_outside(plan, fill, call.bits, any(order)).repeat(call.times)
    memories = call.image.view(image), call.grid.view(raised(grid)), call.out.view(out)
    run(call.batch, (*memories, *outside), count)


def over_footprints() -> ModuleType:
    """Return the same functions over footprints, which call the functions here for samples."""
    from gridsample.kernels.cpu import footprints as module

    return module


def averages(plan: Plan) -> bool:
    """Whether `gather` can average: real pixels, no boundary with signs, no footprints."""
    floating = is_differentiable(plan.dtype) and plan.dtype.kind != "c"
    odd = any(BOUNDARIES[name].odd for name in plan.boundaries)
    return floating and not (odd or plan.nearest or plan.votes or plan.footprint)


def run(batch: Batch, arrays: Sequence[Array], threads: int) -> None:
    """Run a batch on arrays."""
    batch.run(addresses_of(arrays), threads, worker())


class Ready(NamedTuple):
    """A prepared call of a kernel, which only needs the addresses of the caller's arrays.

    Attributes:
        batch: the calls of drivers.
        threads: the maximum number of threads.
        worker: the function that processes tasks.
        outside: the addresses of the values outside the image.
        kept: the arrays at these addresses.
        shape: the shape of the image's gradient, slowest axis first; empty if there is none.
        back: the permutation from those axes to the image's.
    """

    batch: Batch
    threads: int
    worker: pool.Worker
    outside: tuple[int, ...]
    kept: tuple[Array, ...]
    shape: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    def run(self, *addresses: int) -> None:
        """Run the call on arrays at these addresses, with the layouts it was prepared for."""
        self.batch.run((*addresses, *self.outside), self.threads, self.worker)


def ready_gather(
    plan: Plan, order: Order, image: Layout, grid: Layout, out: Layout, threads: int,
    means: Averaging | None = None,
) -> Ready | None:  # fmt: skip
    """Prepare a call of gather without a fill, for some layouts; None if a copy is needed."""
    ready = is_plain(*image[1:]) and spacing(grid) is not None and is_even_layout(out)
    if not ready or vanishes(plan, order) or plan.footprint is not None:
        return None
    call = plan_gather(plan, order, image, grid, out, False, threads, means is not None)
    outside: tuple[Array, ...] = call.outside
    if means is not None:
        outside = means_outside(plan, None, means).repeat(call.times)
    return Ready(call.batch, threads, worker(), addresses_of(outside), outside)


def ready_backward(
    plan: Plan, order: Order, values: Layout, image: Layout, grid: Layout,
    needed: tuple[bool, bool], threads: int,
) -> Ready | None:  # fmt: skip
    """Prepare a call of backward without a fill, for some layouts; None if a copy is needed.

    The result is also None if the dtype of a gradient is not that of the sums.
    """
    like = plan_shadow(plan, image)
    alike = [sorted(zip(one[1], one[0], strict=True)) for one in (image, like.layout)]
    ready = (
        is_plain(*image[1:]) and spacing(grid) is not None and is_even_layout(values)
        and like.layout[2] == image[2] and plan.real == grid[2] and alike[0] == alike[1]
    )  # fmt: skip
    if not ready or plan.nearest or vanishes(plan, order) or plan.footprint is not None:
        return None
    call = plan_backward(plan, order, image, grid, values, needed, False, threads)
    kept = (call.dropped,)
    return Ready(call.batch, threads, worker(), addresses_of(kept), kept, like.shape, like.back)


def addresses_of(arrays: Sequence[Array]) -> tuple[int, ...]:
    """Return the addresses of arrays."""
    return tuple([array.__array_interface__["data"][0] for array in arrays])


def as_maps(theta: Array, plan: Plan) -> Array:
    """Return affine maps (N, D, D + 1) in the form that drivers take."""
    return np.ascontiguousarray(theta, plan.real)


def vanishes(plan: Plan, order: Order) -> bool:
    """Whether the derivatives of the weights along some axis are all zero."""
    return any(order) and any(
        n >= method.powers for n, method in zip(order, plan.methods, strict=True)
    )


def backward(
    plan: Plan,
    values: Array,
    image: Array,
    grid: Array,
    *,
    need_image: bool = True,
    need_grid: bool = True,
    order: Order | None = None,
    fill: Array | None = None,
    affine: bool = False,
    dtype: np.dtype[Any] | None = None,
    onto: Array | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None]:
    """Compute both gradients of gather: see `gridsample.kernels`; if ``affine``, that of the maps.

    dtype: the dtype of the image's gradient, if not that of the sums.
    onto: sums with the memory order of the image, to which the image's gradient is added.
    """
    if plan.footprint is not None:
        how = {"need_image": need_image, "need_grid": need_grid, "fill": fill, "dtype": dtype}
        found: tuple[Array | None, Array | None] = over_footprints().backward(
            plan, values, image, grid, **how, affine=affine, threads=threads
        )
        return found
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    image = plain(image)
    layout = layout_of(image)
    like = plan_shadow(plan, layout) if need_image else None
    if like is not None and dtype is not None and dtype != like.layout[2]:
        more: Any = {"order": order, "fill": fill, "affine": affine, "threads": threads}
        return backward_stored(plan, values, image, grid, like.of(dtype), need_grid, more)
    shadow = onto if like is None or onto is not None else like.zeros()
    rank, needed = len(plan.spatial), (need_image, need_grid and not plan.nearest)
    shape = (plan.grid_items, *((rank, rank + 1) if affine else (*plan.out, rank)))
    gradient = np.zeros(shape, plan.real) if need_grid else None
    if any(needed) and not vanishes(plan, order):
        grid = as_maps(grid, plan) if affine else even(grid)
        values = even_values(values)
        call = plan_backward(
            plan,
            order,
            layout,
            layout_of(grid),
            layout_of(values),
            needed,
            affine,
            count,
            onto is not None,
        )
        dropped, nothing = call.dropped, NOTHING[plan.real]
        if fill is not None:
            dropped = np.tile(numbers_outside(plan, fill).dropped, call.times)
        slopes = nothing if gradient is None else gradient.reshape(-1)
        if affine and needed[1]:
            slopes = np.zeros(plan.grid_items * call.chunks * 2 * MAP, plan.real)
        source = call.image.view(image)
        points, target = call.grid.view(raised(grid)), call.values.view(values)
        sums = nothing if shadow is None else call.shadow.view(shadow)
        run(call.batch, (source, points, target, sums, slopes, dropped), count)
        if affine and gradient is not None and needed[1]:
            total = slopes.reshape(plan.grid_items, -1, MAP).sum(1, np.float64)
            gradient[...] = total[:, : rank * (rank + 1)].reshape(shape)
    return shadow, gradient


def backward_stored(
    plan: Plan, values: Array, image: Array, grid: Array, result: Array, need_grid: bool, how: Any
) -> tuple[Array, Array | None]:
    """Compute `backward` with the image's gradient in ``result``, which has another dtype.

    For a large image, sums are computed and stored a few planes at a time, and the grid's gradient
    separately.
    """
    small, fill = result.size <= PART, how["fill"]
    gradient = None
    for items, channels in [(slice(None), slice(None))] if small else parts(plan, result):
        some, points = image[items, channels], grid[items] if plan.grid_items > 1 else grid
        piece = replace(plan, image_items=len(some), grid_items=len(points), channels=some.shape[1])
        more = how | {"fill": fill if fill is None else fill[channels]}
        shadow, gradient = backward(
            piece, values[items, channels], some, points, need_grid=need_grid and small, **more
        )
        assert shadow is not None
        store(shadow, result[items, channels])
        del shadow  # before the next one is allocated
    if need_grid and not small:
        _, gradient = backward(plan, values, image, grid, need_image=False, **how)
    return result, gradient


def store(sums: Array, result: Array) -> None:
    """Convert sums (N, C, *spatial) to another dtype, a few rows at a time to save memory."""
    rows = sums.shape[2]
    some = max(1, rows * PART // 8 // sums.size)
    for first in range(0, rows, some):
        here = np.s_[:, :, first : first + some]
        result[here] = converted(sums[here], result.dtype)


def parts(plan: Plan, image: Array) -> list[tuple[slice, slice]]:
    """Divide an image into parts of a few items and channels; runs of channels stay together."""
    planes = max(1, PART // math.prod(plan.spatial))
    runs = image.strides[1] == image.itemsize
    channels = plan.channels if runs else min(plan.channels, planes)
    items = max(1, planes // channels) if plan.image_items > 1 else plan.items
    return [
        (slice(i, i + items), slice(c, c + channels))
        for i in range(0, plan.items, items)
        for c in range(0, plan.channels, channels)
    ]


def even_values(values: Array) -> Array:
    """Return values (N, C, *out) themselves if a kernel can read them, otherwise a copy."""
    return (
        values if is_even(values) else np.array(values, values.dtype.newbyteorder("="), order="C")
    )


def scatter(
    plan: Plan,
    values: Array,
    grid: Array,
    *,
    order: Order | None = None,
    dtype: np.dtype[Any] | None = None,
    threads: int | None = None,
) -> Array:
    """Compute the transpose of gather: see `gridsample.kernels`; ``dtype`` as in `backward`."""
    kind = complex_of(plan.real) if values.dtype.kind == "c" else plan.real
    shape = plan.image_items, plan.channels, *plan.spatial
    nothing = np.broadcast_to(np.zeros((), kind), shape)
    shadow, _ = backward(
        plan, values, nothing, grid, need_grid=False, order=order, dtype=dtype, threads=threads
    )
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
    order: Order | None = None,
    onto: Array | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """Compute the gradients of backward: see `gridsample.kernels`; ``onto`` as in `backward`."""
    if plan.footprint is not None:
        how = {"need_values": need_values, "need_image": need_image, "need_grid": need_grid}
        found: tuple[Array | None, Array | None, Array | None] = over_footprints().backward_twice(
            plan, values, image, grid, upstream, moves, **how, threads=threads
        )
        return found
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    like = plan_shadow(plan, layout_of(image))
    results = np.zeros(plan.shape, kind) if need_values else None
    shadow = None if not need_image else like.zeros() if onto is None else onto
    gradient = np.zeros((plan.grid_items, *plan.out, len(plan.spatial)), plan.real)
    if not (vanishes(plan, order) or plan.nearest):
        image, grid, moves = in_order(image, like.layout), even(grid), even(moves)
        other = image if upstream is None else in_order(upstream, like.layout)
        values, needed = even_values(values), (need_values, need_image, need_grid)
        call = plan_second(
            plan, order, layout_of(image), layout_of(grid), layout_of(moves), layout_of(values),
            upstream is not None, needed, count,
        )  # fmt: skip
        nothing = NOTHING[plan.real]
        given = (
            call.image.view(image), call.image.view(other),
            call.grid.view(raised(grid)), call.moves.view(raised(moves)), call.values.view(values),
        )  # fmt: skip
        bar = nothing if results is None else results.reshape(-1).view(plan.real)
        sums = nothing if shadow is None else call.shadow.view(shadow)
        run(call.batch, (*given, bar, sums, gradient.reshape(-1)), count)
    return results, shadow, gradient if need_grid else None


def in_order(array: Array, layout: Any) -> Array:
    """Return an array with the memory order of a layout: itself, or else a copy."""
    strides, size = layout[1], layout[2].itemsize
    if plain(array) is array and all(
        a * size == b * array.itemsize
        for a, b, n in zip(array.strides, strides, array.shape, strict=True)
        if n > 1
    ):
        return array
    slowest_first = sorted(range(array.ndim), key=lambda a: -strides[a])
    copy = np.empty([array.shape[a] for a in slowest_first], array.dtype.newbyteorder("="))
    copy = copy.transpose(np.argsort(slowest_first))
    copy[...] = array
    return copy
