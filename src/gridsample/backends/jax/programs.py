"""The CPU kernels as calls that XLA makes: prepared launches behind a typed FFI target.

A function here is traced by JAX.  It prepares the launches of `gridsample.kernels` for the shapes
of its arrays, which XLA stores in C order, and calls the handler with their address.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.backends.jax import footprint_programs
from gridsample.backends.jax.handler import ARGUMENT, RESULT, LaunchStep, Place
from gridsample.backends.jax.launches import (
    ArrayType,
    KeptLaunches,
    StepArrays,
    layout_of,
    named_needs,
    type_of,
    values_outside,
)
from gridsample.backends.jax.sharding import AxisNames, Names, partitioned
from gridsample.backends.jax.taps import Array, TracedCall, real_type, with_sizes
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.options import fill_of_channels
from gridsample.kernels import forks, on_cpu
from gridsample.kernels import threads as pool

# Gather -------------------------------------------------------------------------------------------


@functools.cache
def gather_steps(
    call: TracedCall, image: ArrayType, grid: ArrayType, out: ArrayType
) -> KeptLaunches:
    """Prepare a gather."""
    from gridsample.kernels.sampling import division, steps

    planes = [layout_of(array, call.last) for array in (image, out)]
    layouts = division.Layouts(planes[0], layout_of(grid), planes[1], bool(call.fill))
    places = {"image": Place(ARGUMENT, 0), "grid": Place(ARGUMENT, 1), "out": Place(RESULT, 0)}
    outside, results = values_outside(call, image.dtype), StepArrays(out)
    prepared = steps.gather_steps(call.plan, call.order, layouts)
    return results.prepare(results.located(prepared, {**places, **outside}))


def gather(image: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Sample a real image at a grid's points, in a dtype: see `sampling.gather`."""
    footprint = call.plan.footprint is not None
    if call.plan.nearest and image.dtype != dtype and not footprint:
        image = image.astype(dtype)

    def sample(image: Array, grid: Array) -> list[Array]:
        part = with_sizes(call, image.shape, grid.shape)
        types = type_of(image), type_of(grid), ArrayType(part.plan.shape, np.dtype(dtype))
        if footprint:
            return footprint_programs.gather_steps(part, *types).call(image, grid)
        return gather_steps(part, *types).call(image, grid, last=(0, 2) if call.last else ())

    image_axes, grid_axes, value_axes, replicated = axes_of(call)
    axes = AxisNames((image_axes, grid_axes), (value_axes,), replicated)
    return partitioned(sample, axes, (image, grid))[0]


def axes_of(call: TracedCall) -> tuple[Names, Names, Names, Names]:
    """The names of the axes of images, grids and samples, and of those that are not sharded."""
    plan = call.plan
    spatial = tuple(f"s{k}" for k in range(len(plan.spatial)))
    points = tuple(f"p{k}" for k in range(len(plan.out)))
    image_axes = ("n" if plan.image_items == plan.items else "i", "c", *spatial)
    grid_axes = ("n" if plan.grid_items == plan.items else "g", *points, "d")
    replicated = [*spatial, "d", *({"i", "g"} & {image_axes[0], grid_axes[0]})]
    if plan.coords == "displacement" or plan.footprint is not None:
        replicated += points  # they depend on the points' own indices, or on neighbours
    if len(call.fill) > 1:
        replicated.append("c")
    return image_axes, grid_axes, ("n", "c", *points), tuple(replicated)


# Gradients ----------------------------------------------------------------------------------------


@functools.cache
def backward_steps(
    call: TracedCall,
    image: ArrayType,
    grid: ArrayType,
    values: ArrayType,
    needed: tuple[bool, bool],
) -> KeptLaunches:
    """Prepare the needed gradients of gather; of the image's alone, the image is no argument.

    The gradient of a grid that all items share may be the sum of several.
    """
    from gridsample.kernels.sampling import division, steps
    from gridsample.kernels.sampling.preparing import dropped_of
    from gridsample.kernels.sampling.programs.operations import BACKWARD

    plan = replace(call.plan, real=np.dtype(real_type(call)))
    plan, points = division.with_own_grids(plan, layout_of(grid))
    planes = [layout_of(array, call.last) for array in (image, values)]
    layouts = division.Layouts(
        planes[0], points, planes[1], bool(call.fill), named_needs(needed), pool.cores()
    )
    sums = ArrayType(image.shape, plan.real)
    grids = steps.grid_gradients(BACKWARD, plan, layouts)
    gradient = ArrayType((grids, *plan.out, len(plan.spatial)), plan.real)
    results = StepArrays(*[sums] * needed[0], *[gradient] * needed[1])
    places = {
        "image": Place(ARGUMENT, 2) if needed[1] else None,
        "grid": Place(ARGUMENT, 1),
        "values": Place(ARGUMENT, 0),
        "sums": Place(RESULT, 0) if needed[0] else None,
        "gradient": Place(RESULT, int(needed[0])) if needed[1] else None,
        "dropped": dropped_of(plan, fill_of_channels(call.fill, plan)),
    }
    prepared = steps.derivative_steps(BACKWARD, plan, call.order, layouts)
    return results.prepare(results.located(prepared, places, results.cleared()))


def backward(
    values: Array, image: Array, grid: Array, call: TracedCall, needed: tuple[bool, bool]
) -> list[Array]:
    """Compute the needed gradients of gather, in the dtype of sums."""

    def differentiate(values: Array, image: Array, grid: Array) -> list[Array]:
        part = with_sizes(call, image.shape, grid.shape)
        return gradients(part, type_of(image), needed, values, grid, image)

    image_axes, grid_axes, value_axes, replicated = axes_of(call)
    results = [names for names, need in zip((image_axes, grid_axes), needed, strict=True) if need]
    axes = AxisNames((value_axes, image_axes, grid_axes), tuple(results), replicated)
    return partitioned(differentiate, axes, (values, image, grid))


def scatter(values: Array, grid: Array, call: TracedCall) -> Array:
    """Apply the transpose of gather: (N, C, *spatial) in the dtype of sums."""

    def add(values: Array, grid: Array) -> list[Array]:
        items = 1 if call.plan.image_items == 1 else values.shape[0]
        shape = items, values.shape[1], *call.plan.spatial
        image = ArrayType(shape, np.dtype(real_type(call)))  # it is not read
        part = with_sizes(call, shape, grid.shape)
        return gradients(part, image, (True, False), values, grid)

    image_axes, grid_axes, value_axes, replicated = axes_of(call)
    axes = AxisNames((value_axes, grid_axes), (image_axes,), replicated)
    return partitioned(add, axes, (values, grid))[0]


def gradients(
    call: TracedCall,
    image: ArrayType,
    needed: tuple[bool, bool],
    values: Array,
    grid: Array,
    *images: Array,
) -> list[Array]:
    """Call the handler for the needed gradients of gather; for the grid's, with the image."""
    types = image, type_of(grid), type_of(values)
    if call.plan.footprint is not None:
        return footprint_programs.gradients(call, *types, needed, values, grid, *images)
    arrays = values, grid, *images[: needed[1]]
    last = (0, *range(2, len(arrays) + needed[0])) if call.last else ()
    results = backward_steps(call, *types, needed).call(*arrays, last=last)
    if needed[1] and results[-1].shape[0] != grid.shape[0]:
        results[-1] = results[-1].sum(0, keepdims=True)
    return results


def supports(*avals: Any, call: TracedCall, dtype: Any = None, **parameters: Any) -> bool:
    """Whether the CPU kernels compute a call as launches that are known before it runs."""
    on_cpu()  # the kernels are imported here, while forks wait
    plan = call.plan
    if plan.footprint is None:
        return not plan.vanishes(call.order)
    # Large integers are copied where a footprint is a single pixel, and are no sums.
    return not (plan.nearest and avals[0].dtype.kind in "iu" and avals[0].dtype.itemsize > 2)


# The prefilter ------------------------------------------------------------------------------------


@functools.cache
def prefilter_steps(
    image: ArrayType, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool
) -> KeptLaunches | None:
    """Prepare the prefilter along some axes; None if it is not a row of launches."""
    with forks.held():
        from gridsample.kernels.spline.planning import Filter, passes

    layout = layout_of(image)
    filters = [
        Filter(axis, name, order, adjoint) for axis, name in zip(axes, extended, strict=True)
    ]
    steps = []
    for k, step in enumerate(passes(layout, layout, tuple(filters))):
        # Windows of lines read what others store, and where ends are joined, those are not all.
        if step.windows.number > 1 and (k or BOUNDARIES[step.filter.extended].joins_ends):
            return None
        source = Place(RESULT, 0) if k else Place(ARGUMENT, 0)
        steps.append(LaunchStep(step.launch, {"source": source, "target": Place(RESULT, 0)}, {}))
    return StepArrays(image).prepare(steps) if steps else None


def prefilter(image: Array, **options: Any) -> Array:
    """Compute B-spline coefficients, or the transpose, of a real array in the dtype of sums."""

    def compute(image: Array) -> list[Array]:
        steps = prefilter_steps(type_of(image), **options)
        return [image] if steps is None else steps.call(image)

    names = tuple(f"a{k}" for k in range(image.ndim))
    replicated = tuple(names[k] for k in sorted(options["axes"]))
    return partitioned(compute, AxisNames((names,), (names,), replicated), [image])[0]


def supports_prefilter(image: Any, **options: Any) -> bool:
    """Whether the CPU kernels prefilter an array as launches that are known before they run."""
    return prefilter_steps(type_of(image), **options) is not None
