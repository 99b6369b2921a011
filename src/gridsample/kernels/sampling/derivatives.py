"""First and second derivatives of samples, on arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import converted, layout_of, native
from gridsample.kernels.sampling import antialiasing
from gridsample.kernels.sampling.copies import contiguous, store
from gridsample.kernels.sampling.division import Averages, Layouts
from gridsample.kernels.sampling.layouts import complex_of, gradient_layout
from gridsample.kernels.sampling.preparing import (
    CallArrays,
    Gradients,
    NeededGradients,
    dropped_of,
    even_values,
    grid_gradient,
    grid_sums_type,
    in_layout,
    own_grids,
    readable_points,
    same_layout,
)
from gridsample.kernels.sampling.programs.operation import Operation
from gridsample.kernels.sampling.programs.operations import BACKWARD, DOUBLE_BACKWARD
from gridsample.kernels.sampling.steps import derivative_steps, grid_gradients

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# The numbers that are summed at a time if results have another dtype than sums: 2 MB in single
# precision, or one plane.
PART = 1 << 19


class Derivatives(NamedTuple):
    """Derivatives that sweeps over the points of a plan compute.

    Attributes:
        operation: what is computed.
        plan: the plan.
        order: the order of derivatives along each axis, x first.
        needs: which of the operation's choices are needed; without any, there are no sweeps.
        threads: the maximum number of threads.
        fill: the fill value of each channel, or None.
        means: what means need to know besides, or None.
    """

    operation: Operation
    plan: Plan
    order: Order
    needs: frozenset[str]
    threads: int
    fill: Array | None = None
    means: Averages | None = None

    def compute(self, arrays: Mapping[str, Array | None], of_grid: bool) -> Array | None:
        """Add to the sums among some arrays, and store the results.

        Args:
            arrays: the operation's arrays by name, except the gradient of the grid and those with a
                number for each plane.
            of_grid: whether that gradient is returned, which is 0 if no sweep computes it.

        Returns:
            The gradient of the grid or of affine maps, in the dtype of sums, or None.
        """
        image, points, values = arrays["image"], arrays["grid"], arrays["values"]
        assert image is not None and points is not None and values is not None
        plan, grid = own_grids(self.plan, points)
        grid, sides = readable_points(plan, grid), list[Array]()
        layouts = Layouts(
            layout_of(image),
            layout_of(grid),
            layout_of(values),
            self.fill is not None,
            self.needs,
            self.threads,
            self.means,
        )
        gradient = None
        if of_grid:
            (_, *shape), dtype = grid_sums_type(plan, grid.shape)
            gradient = np.zeros((grid_gradients(self.operation, plan, layouts), *shape), dtype)
        if self.needs and not plan.vanishes(self.order):
            dropped = dropped_of(plan, self.fill)
            places = {**arrays, "grid": grid, "gradient": gradient, "dropped": dropped}
            if self.means is not None:
                least = self.means.averaging.min_weight
                places["min_weights"] = np.full(len(dropped), least, plan.real)
            if plan.footprint is not None:
                sides = antialiasing.run(self.operation, plan, layouts, places)
            else:
                steps = derivative_steps(self.operation, plan, self.order, layouts)
                steps.run(places, self.threads)
        if gradient is None:
            return None
        antialiasing.add_sides(sides, grid, gradient, self.threads)
        return grid_gradient(gradient, self.plan)


def backward(
    plan: Plan,
    arrays: CallArrays,
    needs: NeededGradients,
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
    order, count = order or antialiasing.zero_order(plan), threads or pool.cores()
    image = contiguous(plan, native(arrays.image), count)
    like = gradient_layout(plan, layout_of(image)) if needs.image else None
    if like is not None and needs.dtype is not None and needs.dtype != like.layout[2]:
        result = like.of(needs.dtype)
        return backward_stored(plan, arrays, needs, result, order, count)
    grad_image = None if like is None else like.zeros()
    needed = BACKWARD.chosen(needs.image, needs.grid and not plan.nearest)
    sweeps = Derivatives(BACKWARD, plan, order, needed, count, arrays.fill)
    values = even_values(arrays.values)
    places = {"image": image, "grid": arrays.grid, "values": values, "sums": grad_image}
    return Gradients(grad_image, sweeps.compute(places, needs.grid))


def backward_stored(
    plan: Plan,
    arrays: CallArrays,
    needs: NeededGradients,
    result: Array,
    order: Order,
    threads: int,
) -> Gradients:
    """Compute `backward` with the image's gradient in ``result``, which has another dtype.

    For a large image, sums are computed and stored a few planes at a time, and the grid's gradient
    separately.
    """
    image, grid, values, fill = arrays.image, arrays.grid, arrays.values, arrays.fill
    compute = functools.partial(backward, order=order, threads=threads)
    small, gradient = result.size <= PART, None
    some = NeededGradients(True, needs.grid and small)
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
        gradient = compute(plan, arrays, NeededGradients(False, True)).grid
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
    needs = NeededGradients(True, False, dtype=dtype)
    gradients = backward(
        plan, CallArrays(nothing, grid, values), needs, order=order, threads=threads
    )
    assert gradients.image is not None
    return gradients.image


def backward_twice(
    plan: Plan,
    arrays: CallArrays,
    upstream: Array | None,
    grid_tangent: Array,
    needs: NeededGradients,
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
    order, count = order or antialiasing.zero_order(plan), threads or pool.cores()
    kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
    like = gradient_layout(plan, layout_of(image))
    values = even_values(values)
    results = np.zeros_like(values, kind) if needs.values else None
    if results is not None and not same_layout(layout_of(values), layout_of(results)):
        values = values.copy(order="K")  # of an array with gaps, or broadcast
    grad_image = like.zeros() if needs.image else None
    # Like the grid, tangents are repeated where each item should have a grid of its own.
    _, tangents = own_grids(plan, converted(grid_tangent, plan.real))
    places = {
        "image": in_layout(image, like), "grid": grid, "values": values, "results": results,
        "sums": grad_image, "tangents": np.ascontiguousarray(tangents),
        "upstream": None if upstream is None else in_layout(converted(upstream, kind), like),
    }  # fmt: skip
    flags = needs.image, needs.grid, needs.values, upstream is not None
    needed = DOUBLE_BACKWARD.chosen(*flags)
    sweeps = Derivatives(DOUBLE_BACKWARD, plan, order, needed, count)
    return results, grad_image, sweeps.compute(places, needs.grid)
