"""CPU kernels for sampling, as programs of the vector language.

The functions are those of `gridsample.kernels`.  This module makes arrays readable, allocates
results, and runs the programs that `calls` prepares.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import (
    Layout,
    addresses_of,
    converted,
    even,
    is_even,
    is_even_layout,
    is_plain,
    layout_of,
    plain,
    spacing,
)
from gridsample.kernels.run import Launch
from gridsample.kernels.sampling import antialiasing, footprint_calls
from gridsample.kernels.sampling.averages import Needs as Needs
from gridsample.kernels.sampling.averages import Samples as Samples
from gridsample.kernels.sampling.averages import average as average
from gridsample.kernels.sampling.averages import average_backward as average_backward
from gridsample.kernels.sampling.averages import averages as averages
from gridsample.kernels.sampling.calls import (
    parts_of_maps,
    plan_derivatives,
    plan_gather,
)
from gridsample.kernels.sampling.division import Averages, Sweep
from gridsample.kernels.sampling.layouts import complex_of, gradient_layout
from gridsample.kernels.sampling.preparing import (
    as_maps,
    dropped_of,
    even_values,
    in_order,
    is_readable,
    numbers_of_planes,
    readable,
    vanishes,
)
from gridsample.kernels.sampling.turning import (
    empty_runs,
    parts_of,
    pays_to_turn,
    turn_back,
    turned,
)

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

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
    threads: int | None = None,
) -> None:
    """Sample the image at the grid's points, into ``out``: see `gridsample.kernels`.

    If ``affine``, the grid contains affine maps (N, D, D + 1), which map every point of the output
    to its coordinates.
    """
    if plan.footprint is not None:
        if gather_footprints(plan, image, grid, out, fill, affine, threads):
            return
        plan = replace(plan, footprint=None)
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    if fill is None and not affine:
        layouts = layout_of(image), layout_of(grid), layout_of(out)
        ready = ready_gather(plan, order, *layouts, count)
        if ready:
            ready.run(*addresses_of((image, grid, out)))
            return
    if vanishes(plan, order):
        out[...] = 0
        return
    if not is_even(out):
        values = np.empty_like(out, order="C", subok=False)
        gather(plan, image, grid, values, order=order, fill=fill, affine=affine, threads=threads)
        out[...] = values
        return
    image = readable(plan, image)
    if pays_to_turn(plan, layout_of(image), layout_of(out), True):
        for part in parts_of(plan):
            runs, values = turned(image[part.items], count), empty_runs(out[part.items])
            gather(
                part.plan, runs, grid[part.grids], values, order=order, fill=fill, affine=affine,
                threads=count,
            )  # fmt: skip
            turn_back(values, out[part.items], count)
        return
    grid = as_maps(grid, plan) if affine else even(grid)
    layouts = layout_of(image), layout_of(grid), layout_of(out)
    launch = plan_gather(plan, order, *layouts, affine, fill is not None)
    outside = numbers_of_planes(plan, order, image.dtype, fill, None)
    launch.run(addresses_of((image, grid, out, *outside)), count)


def gather_footprints(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    fill: Array | None,
    affine: bool,
    threads: int | None,
) -> bool:
    """Sample over footprints.

    Returns:
        Whether that is done.  It is not if plain sampling gives the same, and more exactly, because
        sums do not represent all integers.
    """
    image = plain(image)
    grid = as_maps(grid, plan) if affine else even(grid)
    target = out if is_even(out) else np.empty_like(out, order="C", subok=False)
    numbers = numbers_of_planes(plan, (), image.dtype, fill, None)
    options = affine, fill is not None, threads or pool.cores()
    shrinks = footprint_calls.gather(plan, image, grid, target, numbers, options)
    if target is not out:
        out[...] = target
    return shrinks or not plan.nearest or image.dtype.kind not in "iu"


class Ready(NamedTuple):
    """A prepared call of a kernel, which only needs the addresses of the caller's arrays.

    Attributes:
        launches: the programs to run.
        threads: the maximum number of threads.
        outside: the addresses of the values outside the image.
        kept: the arrays at these addresses.
        shape: the shape of the image's gradient, slowest axis first; empty if there is none.
        back: the permutation from those axes to the image's.
    """

    launches: tuple[Launch, ...]
    threads: int
    outside: Sequence[int]
    kept: tuple[Array, ...]
    shape: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    def run(self, *addresses: int) -> None:
        """Run the call on arrays at these addresses, with the layouts it was prepared for."""
        for launch in self.launches:
            launch.run((*addresses, *self.outside), self.threads)


@functools.lru_cache(maxsize=256)
def ready_gather(
    plan: Plan,
    order: Order,
    image: Layout,
    grid: Layout,
    out: Layout,
    threads: int,
    means: Averaging | None = None,
) -> Ready | None:
    """Prepare a call of gather without a fill, for some layouts; None if a copy is needed."""
    ready = is_readable(plan, image) and is_plain(*grid[1:]) and is_even_layout(out)
    if not ready or spacing(grid) is None or vanishes(plan, order) or plan.footprint is not None:
        return None
    special = None if means is None else Averages(means)
    if pays_to_turn(plan, image, out, True) or (means and means.shares):
        return None
    launch = plan_gather(plan, order, image, grid, out, False, False, special)
    outside = numbers_of_planes(plan, order, image[2], None, means)
    return Ready((launch,), threads, addresses_of(outside), tuple(outside))


def ready_backward(
    plan: Plan,
    order: Order,
    values: Layout,
    image: Layout,
    grid: Layout,
    needed: tuple[bool, bool],
    threads: int,
) -> Any:
    """Prepare a call of backward without a fill, for some layouts; None if a copy is needed.

    The result is also None if the dtype of a gradient is not that of the sums.
    """
    like = gradient_layout(plan, image)
    orders = [sorted(zip(one[1], one[0], strict=True)) for one in (image, like.layout)]
    ready = is_plain(*image[1:]) and spacing(grid) is not None and is_even_layout(values)
    ready &= like.layout[2] == image[2] and plan.real == grid[2] and orders[0] == orders[1]
    if not ready or plan.nearest or vanishes(plan, order) or plan.footprint is not None:
        return None
    if pays_to_turn(plan, image, values, False):
        return None
    sweep = Sweep(image, grid, values, False, False, needed, threads)
    launches = plan_derivatives("backward", plan, order, sweep)
    kept = (dropped_of(plan, None),)
    return Ready(launches, threads, addresses_of(kept), kept, like.shape, like.back)


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
    threads: int | None = None,
) -> tuple[Array | None, Array | None]:
    """Compute both gradients of gather: see `gridsample.kernels`; if ``affine``, that of the maps.

    dtype: the dtype of the image's gradient, if not that of the sums.
    """
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    image = plain(image)
    layout = layout_of(image)
    like = gradient_layout(plan, layout) if need_image else None
    if like is not None and dtype is not None and dtype != like.layout[2]:
        options = {"order": order, "fill": fill, "affine": affine, "threads": threads}
        return backward_stored(plan, values, image, grid, like.of(dtype), need_grid, options)
    if pays_to_turn(plan, layout, layout_of(values), False):
        options = {"order": order, "fill": fill, "affine": affine, "threads": count}
        return backward_turned(plan, values, image, grid, (need_image, need_grid), options)
    grad_image = None if like is None else like.zeros()
    needs = (need_image, need_grid and not plan.nearest)
    gradient, sides = None, list[Array]()
    if need_grid and affine:
        gradient = np.zeros(parts_of_maps(plan))
    elif need_grid:
        gradient = np.zeros((plan.grid_items, *plan.out, len(plan.spatial)), plan.real)
    if any(needs) and not vanishes(plan, order):
        grid = as_maps(grid, plan) if affine else even(grid)
        values = even_values(values)
        layouts = layout, layout_of(grid), layout_of(values)
        sweep = Sweep(*layouts, affine, fill is not None, needs, count)
        arrays = {
            "image": image, "grid": grid, "values": values, "sums": grad_image,
            "gradient": gradient, "dropped": dropped_of(plan, fill),
        }  # fmt: skip
        if plan.footprint is not None:
            sides = antialiasing.run("footprint backward", plan, sweep, arrays)
        else:
            for launch in plan_derivatives("backward", plan, order, sweep):
                launch.run(addresses_of(arrays.values()), count)
    if affine and gradient is not None:
        gradient = gradient.sum(1).astype(plan.real)
    elif gradient is not None:
        antialiasing.add_sides(sides, grid, gradient, count)
    return grad_image, gradient


def backward_turned(
    plan: Plan, values: Array, image: Array, grid: Array, needs: tuple[bool, bool], options: Any
) -> tuple[Array | None, Array | None]:
    """Compute `backward` of planes as runs of channels, a few items at a time."""
    grad_image = np.empty(image.shape, plan.real) if needs[0] else None
    gradients, threads = list[Array](), options["threads"]
    for part in parts_of(plan):
        planes, upstream = image[part.items], turned(values[part.items], threads)
        runs = turned(planes, threads) if needs[1] else empty_runs(planes)
        sums, gradient = backward(
            part.plan, upstream, runs, grid[part.grids], need_image=needs[0], need_grid=needs[1],
            **options,
        )  # fmt: skip
        if grad_image is not None and sums is not None:
            turn_back(sums, grad_image[part.items], threads)
        if gradient is not None:
            gradients.append(gradient)
    if not needs[1]:
        return grad_image, None
    if plan.grid_items > 1:
        return grad_image, np.concatenate(gradients)
    return grad_image, functools.reduce(np.add, gradients)


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
        grad_image, gradient = backward(
            piece, values[items, channels], some, points, need_grid=need_grid and small, **more
        )
        assert grad_image is not None
        store(grad_image, result[items, channels])
        del grad_image  # before the next one is allocated
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
    grad_image, _ = backward(
        plan, values, nothing, grid, need_grid=False, order=order, dtype=dtype, threads=threads
    )
    assert grad_image is not None
    return grad_image


def backward_twice(
    plan: Plan,
    values: Array,
    image: Array,
    grid: Array,
    upstream: Array | None,
    grid_tangent: Array,
    *,
    need_values: bool = True,
    need_image: bool = True,
    need_grid: bool = True,
    order: Order | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """Compute the gradients of backward: see `gridsample.kernels`."""
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    like = gradient_layout(plan, layout_of(image))
    parts = (2,) if kind.kind == "c" else ()
    results = None
    if need_values:
        results = np.zeros((*plan.shape[:2], *parts, *plan.out), plan.real)
    grad_image = like.zeros() if need_image else None
    gradient = np.zeros((plan.grid_items, *plan.out, len(plan.spatial)), plan.real)
    if not (vanishes(plan, order) or plan.nearest):
        image, grid = in_order(image, like), even(grid)
        grid_tangent = np.ascontiguousarray(converted(grid_tangent, plan.real))
        other = None
        if upstream is not None:
            other = in_order(upstream.astype(kind, copy=False), like)
        values = even_values(values)
        needs = need_image, need_grid, need_values, upstream is not None
        layouts = layout_of(image), layout_of(grid), layout_of(values)
        sweep = Sweep(*layouts, False, False, needs, count)
        arrays = {
            "image": image, "upstream": other, "grid": grid, "tangents": grid_tangent,
            "values": values, "results": results, "sums": grad_image, "gradient": gradient,
        }  # fmt: skip
        if plan.footprint is not None:
            sides = antialiasing.run("footprint double backward", plan, sweep, arrays)
            antialiasing.add_sides(sides, grid, gradient, count)
        else:
            for launch in plan_derivatives("double backward", plan, order, sweep):
                launch.run(addresses_of(arrays.values()), count)
    if results is not None and parts:
        results = np.ascontiguousarray(np.moveaxis(results, 2, -1)).view(kind)[..., 0]
    return results, grad_image, gradient if need_grid else None
