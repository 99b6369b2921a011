"""The CPU kernels as calls that XLA makes: prepared launches behind a typed FFI target.

A function here is traced by JAX.  It prepares the launches of `gridsample.kernels` for the shapes
of its arrays, which XLA stores in C order, and calls the handler with their address.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from gridsample.backends.jax import handler
from gridsample.backends.jax.handler import ARGUMENT, RESULT, Place, Step
from gridsample.backends.jax.sharding import Axes, Names, partitioned
from gridsample.backends.jax.taps import Array, Call, real_type, with_sizes
from gridsample.kernels import forks, on_cpu
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout

Shape = tuple[int, ...]
# The shape and the dtype of an array.
Form = tuple[Shape, np.dtype[Any]]


def form_of(array: Array) -> Form:
    """The shape and the dtype of an array."""
    return tuple(array.shape), np.dtype(array.dtype)


def layout_of(form: Form) -> Layout:
    """The layout of an array in C order."""
    shape, dtype = form
    steps = [dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return shape, tuple(steps), dtype


class Prepared(NamedTuple):
    """Launches that are stored for ever, because XLA's programs have their address.

    Attributes:
        address: the address of the first.
        results: the forms of the results; that of scratch memory, if it is needed, comes last.
        number: how many results there are without scratch memory.
    """

    address: int
    results: tuple[Form, ...]
    number: int

    def call(self, *arrays: Array) -> list[Array]:
        """Call the handler."""
        types = [jax.ShapeDtypeStruct(*form) for form in self.results]
        call = jax.ffi.ffi_call(handler.NAME, types)
        return list(call(*arrays, launch=np.int64(self.address)))[: self.number]


def prepared(steps: Sequence[Step], *results: Form) -> Prepared:
    """Store steps, which share scratch memory."""
    size, count = handler.scratch_of(steps), len(results)
    scratch = ((size,), np.dtype(np.uint8))
    return Prepared(
        handler.stored(steps, count), (*results, scratch) if size else tuple(results), count
    )


# Gather -------------------------------------------------------------------------------------------


@functools.cache
def gather_step(call: Call, image: Form, grid: Form, out: Form) -> Prepared:
    """Prepare a gather."""
    from gridsample.kernels.sampling.calls import prepare_gather
    from gridsample.kernels.sampling.preparing import numbers_of_planes

    plan, fill = call.plan, fill_numbers(call)
    launch = prepare_gather(
        plan, call.order, *map(layout_of, (image, grid, out)), False, fill is not None
    )
    outside = numbers_of_planes(plan, call.order, image[1], fill, None)
    if call.tangent:
        outside = tuple(np.zeros_like(numbers) for numbers in outside)
    places: list[Any] = [Place(ARGUMENT, 0), Place(ARGUMENT, 1), Place(RESULT, 0), *outside]
    return prepared([Step(launch, places, {})], out)


def fill_numbers(call: Call) -> np.ndarray[Any, Any] | None:
    """The fill value of each channel; None if it is 0."""
    if not call.fill:
        return None
    return np.broadcast_to(np.array(call.fill), (call.plan.channels,))


def gather(image: Array, grid: Array, call: Call, dtype: Any) -> Array:
    """Sample a real image at a grid's points, in a dtype: see `sampling.gather`."""
    if call.plan.nearest and image.dtype != dtype:
        image = image.astype(dtype)

    def sample(image: Array, grid: Array) -> list[Array]:
        part = with_sizes(call, image.shape, grid.shape)
        form = part.plan.shape, np.dtype(dtype)
        return gather_step(part, form_of(image), form_of(grid), form).call(image, grid)

    of_image, of_grid, of_values, whole = axes_of(call)
    axes = Axes((of_image, of_grid), (of_values,), whole)
    return partitioned(sample, axes, (image, grid))[0]


def axes_of(call: Call) -> tuple[Names, Names, Names, Names]:
    """The names of the axes of images, grids and samples, and of those that are not sharded."""
    plan = call.plan
    spatial = tuple(f"s{k}" for k in range(len(plan.spatial)))
    points = tuple(f"p{k}" for k in range(len(plan.out)))
    of_image = ("n" if plan.image_items == plan.items else "i", "c", *spatial)
    of_grid = ("n" if plan.grid_items == plan.items else "g", *points, "d")
    whole = [*spatial, "d", *({"i", "g"} & {of_image[0], of_grid[0]})]
    if plan.coords == "displacement":  # from the points' own indices
        whole += points
    if len(call.fill) > 1:
        whole.append("c")
    return of_image, of_grid, ("n", "c", *points), tuple(whole)


# Gradients ----------------------------------------------------------------------------------------


@functools.cache
def backward_steps(
    call: Call, image: Form, grid: Form, values: Form, needed: tuple[bool, bool]
) -> Prepared:
    """Prepare the needed gradients of gather; of the image's alone, the image is no argument."""
    from gridsample.kernels.sampling.calls import prepare_derivatives
    from gridsample.kernels.sampling.division import Sweep, with_own_grids
    from gridsample.kernels.sampling.preparing import dropped_of

    fill, threads = fill_numbers(call), pool.cores()
    plan = replace(call.plan, real=np.dtype(real_type(call)))
    plan, grid_layout = with_own_grids(plan, layout_of(grid), False)
    sums: Form = image[0], plan.real
    by_points: Form = (plan.grid_items, *plan.out, len(plan.spatial)), plan.real
    results = tuple(form for form, need in zip((sums, by_points), needed, strict=True) if need)
    sweep = Sweep(
        layout_of(image), grid_layout, layout_of(values), False, fill is not None, needed, threads
    )
    launches = prepare_derivatives("backward", plan, call.order, sweep)
    reads = needed[1]
    places = [
        Place(ARGUMENT, 2) if reads else None, Place(ARGUMENT, 1), Place(ARGUMENT, 0),
        Place(RESULT, 0) if needed[0] else None,
        Place(RESULT, int(needed[0])) if needed[1] else None,
        dropped_of(plan, fill),
    ]  # fmt: skip
    cleared = {k: math.prod(form[0]) * form[1].itemsize for k, form in enumerate(results)}
    steps = [Step(launch, places, {} if k else cleared) for k, launch in enumerate(launches)]
    return prepared(steps, *results)


def backward(
    values: Array, image: Array, grid: Array, call: Call, needed: tuple[bool, bool]
) -> list[Array]:
    """Compute the needed gradients of gather, in the dtype of sums."""

    def differentiate(values: Array, image: Array, grid: Array) -> list[Array]:
        part = with_sizes(call, image.shape, grid.shape)
        forms = form_of(image), form_of(grid), form_of(values)
        gradients = backward_steps(part, *forms, needed).call(values, grid, image)
        if needed[1] and gradients[-1].shape[0] != grid.shape[0]:
            gradients[-1] = gradients[-1].sum(0, keepdims=True)
        return gradients

    of_image, of_grid, of_values, whole = axes_of(call)
    results = [names for names, need in zip((of_image, of_grid), needed, strict=True) if need]
    axes = Axes((of_values, of_image, of_grid), tuple(results), whole)
    return partitioned(differentiate, axes, (values, image, grid))


def scatter(values: Array, grid: Array, call: Call) -> Array:
    """Apply the transpose of gather: (N, C, *spatial) in the dtype of sums."""

    def add(values: Array, grid: Array) -> list[Array]:
        items = 1 if call.plan.image_items == 1 else values.shape[0]
        shape = items, values.shape[1], *call.plan.spatial
        part = with_sizes(call, shape, grid.shape)
        image: Form = shape, np.dtype(real_type(call))  # which is not read
        forms = image, form_of(grid), form_of(values)
        return backward_steps(part, *forms, (True, False)).call(values, grid)

    of_image, of_grid, of_values, whole = axes_of(call)
    axes = Axes((of_values, of_grid), (of_image,), whole)
    return partitioned(add, axes, (values, grid))[0]


def serves(*avals: Any, call: Call, **parameters: Any) -> bool:
    """Whether the CPU kernels compute a call as launches that are known before it runs."""
    on_cpu()
    from gridsample.kernels.sampling.preparing import vanishes

    return call.plan.footprint is None and not vanishes(call.plan, call.order)


# The prefilter ------------------------------------------------------------------------------------


@functools.cache
def prefilter_steps(
    image: Form, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool
) -> Prepared | None:
    """Prepare the prefilter along some axes; None if it is not a row of launches."""
    with forks.held():
        from gridsample.kernels.spline.planning import Filter, passes

    layout = layout_of(image)
    filters = [
        Filter(axis, name, order, adjoint) for axis, name in zip(axes, extended, strict=True)
    ]
    steps = []
    for k, step in enumerate(passes(layout, layout, tuple(filters))):
        # Windows of lines read what others store, and those of "wrap" are not all.
        if step.windows.number > 1 and (k or step.filter.extended == "wrap"):
            return None
        source = Place(RESULT, 0) if k else Place(ARGUMENT, 0)
        steps.append(Step(step.launch, [source, Place(RESULT, 0)], {}))
    return prepared(steps, image) if steps else None


def prefilter(image: Array, **options: Any) -> Array:
    """Compute B-spline coefficients, or the transpose, of a real array in the dtype of sums."""

    def compute(image: Array) -> list[Array]:
        steps = prefilter_steps(form_of(image), **options)
        return [image] if steps is None else steps.call(image)

    names = tuple(f"a{k}" for k in range(image.ndim))
    whole = tuple(names[k] for k in sorted(options["axes"]))
    return partitioned(compute, Axes((names,), (names,), whole), [image])[0]


def prefilters(image: Any, **options: Any) -> bool:
    """Whether the CPU kernels prefilter an array as launches that are known before they run."""
    return prefilter_steps(form_of(image), **options) is not None
