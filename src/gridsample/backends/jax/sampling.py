"""Gather, its transpose and its gradients on JAX arrays."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import footprints, labels
from gridsample.backends.jax.taps import (
    Array,
    Call,
    copied,
    fills_of,
    points_of,
    real_type,
    summed,
)


def is_complex(kind: Any) -> bool:
    """Whether a dtype is complex."""
    return bool(jnp.issubdtype(kind, jnp.complexfloating))


def is_integer(kind: Any) -> bool:
    """Whether a dtype is bool or an integer dtype."""
    return bool(jnp.issubdtype(kind, jnp.integer)) or kind == np.bool_


def parted(array: Array) -> Array:
    """The parts of complex channels, as twice as many real ones."""
    return jnp.concatenate([jnp.real(array), jnp.imag(array)], 1)


def joined(array: Array) -> Array:
    """Apply the inverse of `parted`."""
    real, imaginary = jnp.split(array, 2, 1)
    return jax.lax.complex(real, imaginary)


def parts_of(call: Call) -> Call:
    """The call for the parts of a complex image."""
    if not call.fill:
        return call
    numbers = call.fill if len(call.fill) > 1 else call.fill * call.plan.channels
    numbers = tuple(complex(one) for one in numbers)
    fill = (*[one.real for one in numbers], *[one.imag for one in numbers])
    return call._replace(fill=fill)


@functools.partial(jax.jit, static_argnums=(2, 3))
def gather(image: Array, grid: Array, call: Call, dtype: Any) -> Array:
    """Sample an image (N, C, *spatial) at a grid's points: (N, C, *out) in a dtype."""
    real = real_type(call)
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    shape = (items, image.shape[1], *grid.shape[1:-1])
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    if is_complex(image.dtype):
        found = gather(parted(image), grid, parts_of(call), real)
        return joined(found).astype(dtype)
    plain = call.plan.footprint is None
    if call.plan.votes:
        return labels.vote(image, grid, call) if plain else footprints.vote(image, grid, call)
    if plain and image.dtype == dtype and is_integer(dtype) and call.plan.nearest:
        return copied(image, points_of(grid, call, real), call)
    if plain:
        found = summed(image, points_of(grid, call, real), call, real)
    else:
        found = footprints.mean(image, grid, call)
    return as_integers(found, dtype, call) if is_integer(dtype) else found.astype(dtype)


def as_integers(values: Array, dtype: Any, call: Call) -> Array:
    """Round values half to even, and saturate them; the fill value replaces NaN."""
    whole = saturated(values, dtype)
    return jnp.where(jnp.isnan(values), fills_of(call, dtype), whole)


def saturated(values: Array, dtype: Any) -> Array:
    """Round values half to even, and saturate them."""
    if dtype == np.bool_:
        return jnp.rint(values) > 0
    limits, values = np.iinfo(dtype), jnp.rint(values)
    low, high = (np.array(float(one), values.dtype) for one in (limits.min, limits.max))
    # The largest integer may not be a number of the sums' dtype, which is then larger.
    below = np.nextafter(high, low) if int(high) > limits.max else high
    whole = jnp.clip(jnp.nan_to_num(values), low, below).astype(dtype)
    return jnp.where(values >= high, np.array(limits.max, dtype), whole)


@functools.partial(jax.jit, static_argnums=(2, 3))
def scatter(values: Array, grid: Array, call: Call, dtype: Any) -> Array:
    """Apply the transpose of `gather`, without the fill value: (N, C, *spatial)."""
    real = real_type(call)
    kind = jnp.promote_types(real, np.complex64) if is_complex(values.dtype) else real
    call = call._replace(fill=())
    shape = (*values.shape[:2], *call.plan.spatial)
    _, transposed = jax.vjp(lambda image: gather(image, grid, call, kind), jnp.zeros(shape, kind))
    (found,) = transposed(values.astype(kind))
    return found.astype(dtype)


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def backward(
    values: Array, image: Array, grid: Array, call: Call, needed: tuple[bool, bool], dtype: Any
) -> tuple[Array | None, Array | None]:
    """Compute the needed gradients of `gather`: the image's in a dtype, the grid's in its own."""
    real = real_type(call)
    if is_complex(image.dtype):
        first, second = backward(
            parted(values), parted(image), grid, parts_of(call), needed, real
        )  # fmt: skip
        return joined(first).astype(dtype) if needed[0] else None, second
    arrays = [image.astype(real)] * needed[0] + [grid] * needed[1]

    def sampled(*arrays: Array) -> Array:
        source = arrays[0] if needed[0] else image.astype(real)
        return gather(source, arrays[-1] if needed[1] else grid, call, real)

    _, transposed = jax.vjp(sampled, *arrays)
    found = transposed(values.astype(real))
    first = found[0].astype(dtype) if needed[0] else None
    return first, found[-1] if needed[1] else None
