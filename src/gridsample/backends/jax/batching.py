"""How `jax.vmap` batches the primitives: the batch becomes items, channels or points of one call.

No loop runs.  An array that is not batched is not repeated if the call has an axis for the batch:

    image   grid    becomes
    batched shared  items, if one grid serves all; otherwise channels
    shared  batched items, if one image serves all; otherwise points
    batched batched items
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from gridsample.backends.jax import primitives
from gridsample.backends.jax.lowering import bind
from gridsample.backends.jax.primitives import backward_p, gather_p, scatter_p, tangent_p
from gridsample.backends.jax.taps import Array, TracedCall, with_sizes


def merge_batch(array: Array, axis: int) -> Array:
    """Merge the batch, the first axis of an array, with another axis; the batch varies slower."""
    array = jnp.moveaxis(array, 0, axis)
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def split_batch(array: Array, axis: int, size: int) -> Array:
    """Apply the inverse of `merge_batch`: split the batch off an axis, as the first axis."""
    shape = array.shape
    array = array.reshape(*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :])
    return jnp.moveaxis(array, axis, 0)


def repeat_batch(array: Array, axis: Any, size: int, items: int) -> Array:
    """Return an array with its batch first, and ``items`` items each, repeated if it has fewer."""
    batched = array[None] if axis is None else jnp.moveaxis(array, axis, 0)
    return jnp.broadcast_to(batched, (size, items, *batched.shape[2:]))


def size_of(arrays: Sequence[Array], axes: Sequence[Any]) -> int:
    """The size of the batch."""
    pairs = zip(arrays, axes, strict=True)
    return int(next(array.shape[axis] for array, axis in pairs if axis is not None))


def gather_batch(
    arrays: Sequence[Array], axes: Sequence[Any], *, call: TracedCall, dtype: Any, **_: Any
) -> Any:
    """Batch gather."""
    plan, size = call.plan, size_of(arrays, axes)
    image, grid = (
        array if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    )
    images, grids = plan.image_items, plan.grid_items

    def sampled(image: Array, grid: Array) -> Array:
        changed = with_sizes(call, image.shape, grid.shape)
        return primitives.gather(image, grid, changed, dtype)

    if axes[1] is None:
        axis = 0 if grids == 1 else 1
        return split_batch(sampled(merge_batch(image, axis), grid), axis, size), 0
    if axes[0] is None and images == 1:
        return split_batch(sampled(image, merge_batch(grid, 0)), 0, size), 0
    if axes[0] is None:  # points come after the batch: displacements refer to the last axes
        return sampled(image, jnp.moveaxis(grid, 0, 1)), 2
    if grids == 1 and images > 1:
        return sampled(image.reshape(size, -1, *image.shape[3:]), grid[:, 0]).reshape(
            size, images, plan.channels, *plan.out
        ), 0
    if images == 1:
        return jnp.moveaxis(sampled(image[:, 0], grid), 2, 1), 0
    return split_batch(sampled(merge_batch(image, 0), merge_batch(grid, 0)), 0, size), 0


def scatter_batch(
    arrays: Sequence[Array], axes: Sequence[Any], *, call: TracedCall, **_: Any
) -> Any:
    """Batch scatter: the transpose of each case of `gather_batch`."""
    plan, size = call.plan, size_of(arrays, axes)
    images, grids, items = plan.image_items, plan.grid_items, plan.items

    def added(values: Array, grid: Array, images: int) -> Array:
        changed = with_sizes(call, (images, values.shape[1]), grid.shape)
        return primitives.scatter(values, grid, changed)

    if axes[1] is None:
        values = jnp.moveaxis(arrays[0], axes[0], 0)
        return split_batch(added(merge_batch(values, 1), arrays[1], images), 1, size), 0
    values = repeat_batch(arrays[0], axes[0], size, items)
    grid = jnp.moveaxis(arrays[1], axes[1], 0)
    if grids == 1 and images > 1:
        image = added(values.reshape(size, -1, *values.shape[3:]), grid[:, 0], size)
        return image.reshape(size, images, plan.channels, *plan.spatial), 0
    if images == 1 and items > 1:
        image = added(jnp.moveaxis(values, 1, 2), grid, size)
        return image[:, None], 0
    grid = repeat_batch(grid, 0, size, items)
    image = split_batch(added(merge_batch(values, 0), merge_batch(grid, 0), size * items), 0, size)
    return image if images == items else image.sum(1, keepdims=True), 0


def backward_batch(
    arrays: Sequence[Array],
    axes: Sequence[Any],
    *,
    call: TracedCall,
    needed: tuple[bool, bool],
    **_: Any,
) -> Any:
    """Batch the gradients of gather: as items in one sweep, or else as their formula."""
    plan, size = call.plan, size_of(arrays, axes)
    shares_image = axes[1] is None and plan.image_items == 1 and not needed[0]
    batched = axes[0] is not None and axes[2] is not None and (axes[1] is not None or shares_image)
    if not batched or plan.image_items != plan.grid_items:
        formula = primitives.backward_formula
        return formula_batch(formula, arrays, axes, call=call, needed=needed)
    values, image, grid = (
        array if axis is None else merge_batch(jnp.moveaxis(array, axis, 0), 0)
        for array, axis in zip(arrays, axes, strict=True)
    )
    changed = with_sizes(call, image.shape, grid.shape)
    gradients = bind(backward_p, values, image, grid, call=changed, needed=needed)
    return [split_batch(gradient, 0, size) for gradient in gradients], [0] * len(gradients)


def formula_batch(
    formula: Callable[..., Any],
    arrays: Sequence[Array],
    axes: Sequence[Any],
    *,
    devices: Any = None,
    **parameters: Any,
) -> Any:
    """Batch a primitive as its formula is batched."""
    compute = functools.partial(formula, **parameters)
    results = jax.vmap(compute, tuple(axes))(*arrays)
    return results, jax.tree.map(lambda _: 0, results)


def register() -> None:
    """Tell JAX how to batch the primitives."""
    rules = batching.primitive_batchers
    rules[gather_p], rules[scatter_p] = gather_batch, scatter_batch
    rules[backward_p] = backward_batch
    rules[tangent_p] = functools.partial(formula_batch, primitives.tangent_formula)
