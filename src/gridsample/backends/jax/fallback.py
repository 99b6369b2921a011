"""Gather, its transpose and its gradients as operations of `jax.numpy`, for real images.

They serve devices other than the CPU, programs that are exported, and sizes that are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import footprints, labels
from gridsample.backends.jax.taps import (
    Array,
    TracedCall,
    copied,
    fill_of,
    output_shape,
    points_of,
    real_type,
    summed,
)


def is_integer(dtype: Any) -> bool:
    """Whether a dtype is bool or an integer dtype."""
    return bool(jnp.issubdtype(dtype, jnp.integer)) or dtype == np.bool_


def vanishes(call: TracedCall) -> bool:
    """Whether all samples of a call are 0, because its derivatives of the weights are."""
    return call.plan.footprint is None and call.plan.vanishes(call.order)


def gather(image: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Sample an image (N, C, *spatial) at a grid's points: (N, C, *out) in a dtype."""
    shape = output_shape(image, grid.shape[:-1])
    if 0 in shape or vanishes(call):
        return jnp.zeros(shape, dtype)
    if call.plan.footprint is not None:
        if call.plan.votes:
            return footprints.vote(image, grid, call)
        return convert_sums(footprints.mean(image, grid, call), dtype, call)
    if call.plan.votes:
        return labels.vote(image, grid, call)
    real = real_type(call)
    points = points_of(grid, call, real)
    if image.dtype == dtype and is_integer(dtype) and call.plan.nearest:
        return copied(image, points, call)
    return convert_sums(summed(image, points, call, real), dtype, call)


def scatter(values: Array, grid: Array, call: TracedCall) -> Array:
    """Apply the transpose of `gather`, in the dtype of sums."""
    plan, real = call.plan, real_type(call)
    image = jax.ShapeDtypeStruct((plan.image_items, plan.channels, *plan.spatial), real)
    if vanishes(call):
        return jnp.zeros(image.shape, real)
    transpose = jax.linear_transpose(lambda image: gather(image, grid, call, real), image)
    result: Array = transpose(values.astype(real))[0]
    return result


def backward(
    values: Array, image: Array, grid: Array, call: TracedCall, needed: tuple[bool, bool]
) -> list[Array]:
    """Compute the needed gradients of `gather`, in the dtype of sums."""
    real = real_type(call)
    sampled, arrays = as_function(gather, image, grid.astype(real), call, needed)
    _, transpose = jax.vjp(sampled, *arrays)
    return [*transpose(values.astype(real))]


def tangent(
    image: Array,
    grid: Array,
    *tangents: Array,
    call: TracedCall,
    dtype: Any,
    needed: tuple[bool, bool],
) -> Array:
    """The derivative of `gather` along tangents of the grid, and of the image if it is needed."""
    real = real_type(call)
    sampled, arrays = as_function(gather, image, grid.astype(real), call, (needed[0], True))
    converted = [tangent.astype(real) for tangent in tangents]
    return jax.jvp(sampled, arrays, converted)[1].astype(dtype)


def as_function(
    gather: Callable[..., Array],
    image: Array,
    grid: Array,
    call: TracedCall,
    needed: tuple[bool, bool],
) -> tuple[Callable[..., Array], list[Array]]:
    """Return sampling as a function of the arrays that are needed, and these.

    Images that are needed, and samples, are in the dtype of sums.
    """
    real = real_type(call)
    arrays = [image.astype(real)] * needed[0] + [grid] * needed[1]

    def sampled(*arrays: Array) -> Array:
        source = arrays[0] if needed[0] else image
        return gather(source, arrays[-1] if needed[1] else grid, call, real)

    return sampled, arrays


# Integers -----------------------------------------------------------------------------------------


def convert_sums(sums: Array, dtype: Any, call: TracedCall) -> Array:
    """Convert sums to a dtype; integers are rounded, and the fill value replaces NaN."""
    if not is_integer(dtype):
        return sums.astype(dtype)
    return jnp.where(jnp.isnan(sums), fill_of(call, dtype), saturated(sums, dtype))


def saturated(values: Array, dtype: Any) -> Array:
    """Round values half to even, and saturate them."""
    if dtype == np.bool_:
        return jnp.rint(values) > 0
    limits, values = np.iinfo(dtype), jnp.rint(values)
    low, high = (np.array(float(limit), values.dtype) for limit in (limits.min, limits.max))
    # The largest integer may not be a number of the sums' dtype, which is then larger.
    below = np.nextafter(high, low) if int(high) > limits.max else high
    integers = jnp.clip(jnp.nan_to_num(values), low, below).astype(dtype)
    return jnp.where(values >= high, np.array(limits.max, dtype), integers)
