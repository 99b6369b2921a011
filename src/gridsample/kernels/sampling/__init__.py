"""CPU kernels for sampling, as programs of the vector language.

The functions are those of `gridsample.kernels`.  This module makes arrays readable, allocates
results, and runs the programs that `calls` prepares.

The other modules here run at each call, or once for each layout of arrays, and compute with arrays
and numbers: `layouts`, `division`, `preparing`, `calls`, `levels`, `averages`,
`antialiasing`, `channels_last`, `memory_order`, `storing`, `halving`, `settings`.  The functions
that write programs are in `gridsample.kernels.sampling.programs`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.fill_values import FillValues
from gridsample.kernels.memory import (
    Layout,
    addresses_of,
    converted,
    is_even,
    is_even_layout,
    is_native,
    layout_of,
    native,
)
from gridsample.kernels.run import Ready
from gridsample.kernels.sampling import antialiasing
from gridsample.kernels.sampling.antialiasing import ReadyFootprints
from gridsample.kernels.sampling.averages import average as average
from gridsample.kernels.sampling.averages import average_backward as average_backward
from gridsample.kernels.sampling.averages import averages as averages
from gridsample.kernels.sampling.calls import prepare_derivatives, prepare_gather
from gridsample.kernels.sampling.channels_last import (
    backward_channels_last,
    gather_channels_last,
    pays_channels_last,
)
from gridsample.kernels.sampling.division import Averages, Layouts, with_own_grids
from gridsample.kernels.sampling.layouts import complex_of, gradient_layout
from gridsample.kernels.sampling.memory_order import contiguous, pays_contiguous
from gridsample.kernels.sampling.preparing import Gradients as Gradients
from gridsample.kernels.sampling.preparing import Needs as Needs
from gridsample.kernels.sampling.preparing import Samples as Samples
from gridsample.kernels.sampling.preparing import (
    are_readable,
    dropped_of,
    even_values,
    grid_gradient,
    grid_sums,
    in_layout,
    is_readable,
    own_grids,
    readable,
    readable_points,
    same_layout,
    zeros_for,
)
from gridsample.kernels.sampling.preparing import fills_of_planes as fills_of_planes
from gridsample.kernels.sampling.programs.operations import BACKWARD, DOUBLE_BACKWARD
from gridsample.kernels.sampling.storing import store

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# The numbers that are summed at a time if results have another dtype than sums: 2 MB in single
# precision, or one plane.
PART = 1 << 19
# The arrays whose addresses the runs of `ReadyBackward` take, in their order.
BACKWARD_ARRAYS = "image", "grid", "values", "sums", "gradient"


def gather(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    *,
    order: Order | None = None,
    fill: Array | None = None,
    threads: int | None = None,
) -> None:
    """Sample the image at the grid's points, into ``out``: see `gridsample.kernels`.

    The grid may also be affine maps (N, D, D + 1), which map every point of the output to its
    coordinates, or projective ones, (N, D + 1, D + 1), whose last row is that of the divisor
    (coordinates are 0 where it is).
    """
    if plan.footprint is not None:
        if gather_footprints(plan, image, grid, out, fill, threads):
            return
        plan = replace(plan, footprint=None)
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    if fill is None:
        layouts = layout_of(image), layout_of(grid), layout_of(out)
        ready = ready_gather(plan, order, *layouts, count)
        if ready:
            ready.run(*addresses_of((image, grid, out)))
            return
    if plan.vanishes(order):
        out[...] = 0
        return
    if not is_even(out):
        values = np.empty_like(out, order="C", subok=False)
        gather(plan, image, grid, values, order=order, fill=fill, threads=threads)
        out[...] = values
        return
    image = readable(plan, image, count)
    if pays_channels_last(plan, layout_of(image), layout_of(out), False):

        def compute(part: Plan, runs: Samples) -> None:
            gather(part, runs.image, runs.grid, runs.values, order=order, fill=fill, threads=count)

        gather_channels_last(plan, Samples(image, grid, out), compute, count)
        return
    grid = readable_points(plan, grid)
    layouts = layout_of(image), layout_of(grid), layout_of(out)
    launch = prepare_gather(plan, order, Layouts(*layouts, fill is not None))
    fills = fills_of_planes(plan, order, image.dtype, fill, None)
    launch.run({"image": image, "grid": grid, "out": out, **fills}, count)


def gather_footprints(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    fill: Array | None,
    threads: int | None,
) -> bool:
    """Sample over footprints.

    Returns:
        Whether that is done.  It is not if plain sampling gives the same, and more exactly, because
        sums do not represent all integers.
    """
    count = threads or pool.cores()
    image, grid = readable(plan, image, count), readable_points(plan, grid)
    target = out if is_even(out) else np.empty_like(out, order="C", subok=False)
    numbers = fills_of_planes(plan, (), image.dtype, fill, None)
    layouts = layout_of(image), layout_of(grid), layout_of(target)
    ready = ReadyFootprints.of(plan, Layouts(*layouts, fill is not None), numbers, count)
    shrinks = ready.run(*addresses_of((image, grid, target)))
    if target is not out:
        out[...] = target
    return shrinks or not plan.nearest or image.dtype.kind not in "iu"


@cached_call(256)
def ready_gather(
    plan: Plan,
    order: Order,
    image: Layout,
    grid: Layout,
    out: Layout,
    threads: int,
    means: Averaging | None = None,
    filled: bool = False,
) -> Ready | ReadyFootprints | None:
    """Prepare a call of gather for some layouts; None if a copy is needed.

    It takes the addresses of the image, the grid and the output and, if there is a fill, of the
    numbers of `fills_of_planes`.
    """
    ready = are_readable(plan, grid) and is_readable(plan, image) and is_even_layout(out)
    if not ready or plan.vanishes(order):
        return None
    if plan.footprint is not None:
        if filled or (plan.nearest and image[2].kind in "iu"):
            return None  # see `gather_footprints`
        numbers = fills_of_planes(plan, (), image[2], None, None)
        return ReadyFootprints.of(plan, Layouts(image, grid, out), numbers, threads)
    special = None if means is None else Averages(means)
    if pays_channels_last(plan, image, out, False) or (means and means.returns_weights):
        return None
    launch = prepare_gather(plan, order, Layouts(image, grid, out, filled, means=special))
    names = ["image", "grid", "out"]
    if filled:
        return launch.ready(threads, [*names, *FillValues._fields])
    return launch.ready(threads, names, fills_of_planes(plan, order, image[2], None, means))


class ReadyBackward(NamedTuple):
    """A prepared call of `backward`.

    Attributes:
        sweeps: the runs, which take the addresses of the image, the grid, the upstream values, and
            the sums for both gradients, which are 0 before.
        shape: the shape of the image's gradient, slowest axis first; empty if there is none.
        back: the permutation from those axes to the image's; empty if they are in its order.
    """

    sweeps: tuple[Ready, ...]
    shape: tuple[int, ...]
    back: tuple[int, ...]


@cached_call(256)
def ready_backward(
    plan: Plan,
    order: Order,
    values: Layout,
    image: Layout,
    grid: Layout,
    needed: tuple[bool, bool],
    threads: int,
) -> ReadyBackward | None:
    """Prepare a call of backward without a fill, for some layouts; None if a copy is needed.

    The result is also None if the dtype of a gradient is not that of the sums.
    """
    like = gradient_layout(plan, image)
    orders = [
        sorted(zip(strides, shape, strict=True)) for shape, strides, _ in (image, like.layout)
    ]
    ready = is_native(*image[1:]) and are_readable(plan, grid) and is_even_layout(values)
    ready &= not pays_contiguous(plan, image)
    ready &= like.layout[2] == image[2] and plan.real == grid[2] and orders[0] == orders[1]
    if not ready or plan.nearest or plan.vanishes(order) or plan.footprint is not None:
        return None
    if with_own_grids(plan, grid)[0] is not plan:
        return None  # whose gradients are summed
    if pays_channels_last(plan, image, values, needed[0]):
        return None
    needs = frozenset(name for name, need in zip(("image", "grid"), needed, strict=True) if need)
    layouts = Layouts(image, grid, values, False, needs, threads)
    launches = prepare_derivatives(BACKWARD, plan, order, layouts)
    names, fixed = BACKWARD_ARRAYS, {"dropped": dropped_of(plan, None)}
    back = () if [*like.back] == sorted(like.back) else like.back
    sweeps = tuple([launch.ready(threads, names, fixed) for launch in launches])
    return ReadyBackward(sweeps, like.shape, back)


def backward(
    plan: Plan,
    arrays: Samples,
    needs: Needs,
    *,
    order: Order | None = None,
    threads: int | None = None,
) -> Gradients:
    """Compute both gradients of gather, that of maps included: see `gridsample.kernels`.

    Args:
        plan: the plan.
        arrays: the arrays, of which ``values`` is the upstream gradient.
        needs: which gradients are needed.
        order: the order of derivatives along each axis, x first; None for 0.
        threads: the maximum number of threads.
    """
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    image = contiguous(plan, native(arrays.image), count)
    values, fill, layout = native(arrays.values), arrays.fill, layout_of(image)
    like = gradient_layout(plan, layout) if needs.image else None
    if like is not None and needs.dtype is not None and needs.dtype != like.layout[2]:
        result = like.of(needs.dtype)
        return backward_stored(plan, arrays, needs, result, order, count)
    if pays_channels_last(plan, layout, layout_of(values), needs.image):
        return backward_channels_last(
            plan,
            arrays._replace(image=image, values=values),
            needs,
            lambda part, runs: backward(part, runs, needs, order=order, threads=count),
            count,
            reads_image=needs.grid,
        )
    grad_image = None if like is None else zeros_for(like, arrays.sums)
    needed, shared = {"image"} if needs.image else set(), plan
    needed |= {"grid"} if needs.grid and not plan.nearest else set()
    plan, grid = own_grids(plan, arrays.grid)
    gradient, sides = grid_sums(plan, grid) if needs.grid else None, list[Array]()
    if needed and not plan.vanishes(order):
        grid = readable_points(plan, grid)
        values = even_values(values)
        of_arrays = layout, layout_of(grid), layout_of(values)
        layouts = Layouts(*of_arrays, fill is not None, frozenset(needed), count)
        places = {
            "image": image, "grid": grid, "values": values, "sums": grad_image,
            "gradient": gradient, "dropped": dropped_of(plan, fill),
        }  # fmt: skip
        if plan.footprint is not None:
            sides = antialiasing.run(BACKWARD, plan, layouts, places)
        else:
            for launch in prepare_derivatives(BACKWARD, plan, order, layouts):
                launch.run(places, count)
    if gradient is not None:
        antialiasing.add_sides(sides, grid, gradient, count)
        gradient = grid_gradient(gradient, shared)
    return Gradients(grad_image, gradient)


def backward_stored(
    plan: Plan, arrays: Samples, needs: Needs, result: Array, order: Order, threads: int
) -> Gradients:
    """Compute `backward` with the image's gradient in ``result``, which has another dtype.

    For a large image, sums are computed and stored a few planes at a time, and the grid's gradient
    separately.
    """
    image, grid, values, fill = arrays.image, arrays.grid, arrays.values, arrays.fill
    compute = functools.partial(backward, order=order, threads=threads)
    small, gradient = result.size <= PART, None
    some = Needs(True, needs.grid and small)
    for items, channels in [(slice(None), slice(None))] if small else parts(plan, result):
        part = arrays._replace(
            image=image[items, channels],
            grid=grid[items] if plan.grid_items > 1 else grid,
            values=values[items, channels],
            fill=None if fill is None else fill[channels],
        )
        count, planes = part.image.shape[:2]
        piece = replace(plan, image_items=count, grid_items=len(part.grid), channels=planes)
        gradients = compute(piece, part, some)
        assert gradients.image is not None
        store(gradients.image, result[items, channels], threads)
        gradient = gradients.grid
        del gradients  # before the next sums are allocated
    if needs.grid and not small:
        gradient = compute(plan, arrays, Needs(False, True)).grid
    return Gradients(result, gradient)


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
    needs = Needs(True, False, dtype=dtype)
    gradients = backward(plan, Samples(nothing, grid, values), needs, order=order, threads=threads)
    assert gradients.image is not None
    return gradients.image


def backward_twice(
    plan: Plan,
    arrays: Samples,
    upstream: Array | None,
    grid_tangent: Array,
    needs: Needs,
    *,
    order: Order | None = None,
    threads: int | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """Compute the gradients of backward: see `gridsample.kernels`.

    Args:
        plan: the plan.
        arrays: the arrays, of which ``values`` is the upstream gradient of the samples.
        upstream: the upstream gradient of the image's gradient, or None for 0.
        grid_tangent: that of the grid's gradient.
        needs: which gradients are needed.
        order: the order of derivatives along each axis, x first; None for 0.
        threads: the maximum number of threads.

    Returns:
        The gradients of the values, the image and the grid; None where they are not needed.
    """
    image, grid, values = arrays[:3]
    order, count = order or (0,) * len(plan.spatial), threads or pool.cores()
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    like = gradient_layout(plan, layout_of(image))
    values = even_values(values)
    results = np.zeros_like(values, kind) if needs.values else None
    if results is not None and not same_layout(layout_of(values), layout_of(results)):
        values = values.copy(order="K")  # of an array with gaps, or broadcast
    grad_image, shared = like.zeros() if needs.image else None, plan
    plan, grid = own_grids(plan, grid)
    gradient = grid_sums(plan, grid)
    if not plan.vanishes(order):
        image, grid = in_layout(image, like), readable_points(plan, grid)
        tangents = np.broadcast_to(converted(grid_tangent, plan.real), grid.shape)
        tangents = np.ascontiguousarray(tangents)
        other = None
        if upstream is not None:
            other = in_layout(converted(upstream, kind), like)
        flags = needs.image, needs.grid, needs.values, upstream is not None
        choices = zip(DOUBLE_BACKWARD.choices, flags, strict=True)
        needed = frozenset(name for name, need in choices if need)
        of_arrays = layout_of(image), layout_of(grid), layout_of(values)
        layouts = Layouts(*of_arrays, False, needed, count)
        places = {
            "image": image, "upstream": other, "grid": grid, "tangents": tangents,
            "values": values, "results": results, "sums": grad_image, "gradient": gradient,
        }  # fmt: skip
        if plan.footprint is not None:
            sides = antialiasing.run(DOUBLE_BACKWARD, plan, layouts, places)
            antialiasing.add_sides(sides, grid, gradient, count)
        else:
            for launch in prepare_derivatives(DOUBLE_BACKWARD, plan, order, layouts):
                launch.run(places, count)
    return results, grad_image, grid_gradient(gradient, shared) if needs.grid else None
