"""CPU kernels for sampling, as programs of the vector language.

The functions are those of `gridsample.kernels`.  They make arrays readable, allocate results, and
run the programs that `calls` prepares: `gathering` for samples, `derivatives`, and `averages` for
means over the pixels that count.  This module prepares calls that are repeated.

The other modules here run at each call, or once for each layout of arrays, and compute with arrays
and numbers: `layouts`, `division`, `preparing`, `calls`, `levels`, `gathering`, `derivatives`,
`averages`, `antialiasing`, `paying`, `copies`, `steps`, `halving`, `settings`.
The functions that write programs are in `gridsample.kernels.sampling.programs`.
"""

from __future__ import annotations

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
    is_even,
    is_even_layout,
    is_native,
    layout_of,
)
from gridsample.kernels.run import Ready
from gridsample.kernels.sampling.antialiasing import ReadyFootprints, zero_order
from gridsample.kernels.sampling.averages import average as average
from gridsample.kernels.sampling.averages import average_backward as average_backward
from gridsample.kernels.sampling.averages import averages as averages
from gridsample.kernels.sampling.control_points import padded as padded
from gridsample.kernels.sampling.control_points import reads_lattices as reads_lattices
from gridsample.kernels.sampling.derivatives import backward as backward
from gridsample.kernels.sampling.derivatives import backward_twice as backward_twice
from gridsample.kernels.sampling.derivatives import scatter as scatter
from gridsample.kernels.sampling.division import Averages, Layouts, with_own_grids
from gridsample.kernels.sampling.gathering import Gathering
from gridsample.kernels.sampling.layouts import gradient_layout
from gridsample.kernels.sampling.paying import is_readable, pays_contiguous
from gridsample.kernels.sampling.preparing import CallArrays as CallArrays
from gridsample.kernels.sampling.preparing import Gradients as Gradients
from gridsample.kernels.sampling.preparing import NeededGradients as NeededGradients
from gridsample.kernels.sampling.preparing import (
    are_readable,
    dropped_of,
    readable,
    readable_points,
)
from gridsample.kernels.sampling.preparing import fills_of_planes as fills_of_planes
from gridsample.kernels.sampling.programs.operations import BACKWARD
from gridsample.kernels.sampling.steps import derivative_steps, gather_steps, grid_gradients

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# The arrays whose addresses the run of `ReadyBackward` takes, in their order.
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
    (coordinates are 0 where it is); or, for ``plan.lattice``, control points as `padded` lays them
    out.
    """
    if plan.footprint is not None:
        if gather_footprints(plan, image, grid, out, fill, threads):
            return
        plan = replace(plan, footprint=None)
    order, count = order or zero_order(plan), threads or pool.cores()
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
    Gathering(order, count).sample(plan, CallArrays(image, grid, out, fill=fill))


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
    if means and means.returns_weights:
        return None
    special = None if means is None else Averages(means)
    steps = gather_steps(plan, order, Layouts(image, grid, out, filled, means=special))
    names = ["image", "grid", "out"]
    if filled:
        return steps.ready(threads, [*names, *FillValues._fields])
    return steps.ready(threads, names, fills_of_planes(plan, order, image[2], None, means))


class ReadyBackward(NamedTuple):
    """A prepared call of `backward`.

    Attributes:
        sweeps: the run, which takes the addresses of the image, the grid, the upstream values, and
            the sums for both gradients, which are 0 before.
        shape: the shape of the image's gradient, slowest axis first; empty if there is none.
        back: the permutation from those axes to the image's; empty if they are in its order.
    """

    sweeps: Ready
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
    if plan.lattice is not None:
        return None  # whose gradient is not that of the grid
    layouts = Layouts(image, grid, values, False, BACKWARD.chosen(*needed), threads)
    summed = with_own_grids(plan, grid)[0] is not plan
    if summed or grid_gradients(BACKWARD, plan, layouts) != plan.grid_items:
        return None
    steps, dropped = derivative_steps(BACKWARD, plan, order, layouts), dropped_of(plan, None)
    back = () if [*like.back] == sorted(like.back) else like.back
    sweeps = steps.ready(threads, BACKWARD_ARRAYS, {"dropped": dropped})
    return ReadyBackward(sweeps, like.shape, back)
