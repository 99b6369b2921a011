"""Gather, its transpose and its gradients on JAX arrays: what is compiled once for a call.

Complex images are sampled as twice as many real channels.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import batching, primitives
from gridsample.backends.jax.fallback import as_function
from gridsample.backends.jax.taps import Array, TracedCall, output_shape, real_type, with_promotion

batching.register()


def is_complex(dtype: Any) -> bool:
    """Whether a dtype is complex."""
    return bool(jnp.issubdtype(dtype, jnp.complexfloating))


def to_real(array: Array) -> Array:
    """The parts of complex channels, as twice as many real ones."""
    return jnp.concatenate([jnp.real(array), jnp.imag(array)], 1)


def to_complex(array: Array) -> Array:
    """Apply the inverse of `to_real`."""
    real, imaginary = jnp.split(array, 2, 1)
    return jax.lax.complex(real, imaginary)


def real_call(call: TracedCall) -> TracedCall:
    """The call for the parts of a complex image."""
    plan, channels = call.plan, call.plan.channels
    call = call._replace(plan=replace(plan, channels=2 * channels, dtype=plan.real))
    if not call.fill:
        return call
    numbers = call.fill if len(call.fill) > 1 else call.fill * channels
    reals = [complex(number).real for number in numbers]
    return call._replace(fill=(*reals, *[complex(number).imag for number in numbers]))


@with_promotion
@functools.partial(jax.jit, static_argnums=(2, 3))
def gather(image: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Sample an image (N, C, *spatial) at a grid's points: (N, C, *out) in a dtype."""
    real = real_type(call)
    shape = output_shape(image, grid.shape[:-1])
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    if is_complex(image.dtype):
        samples = gather(to_real(image), grid, real_call(call), real)
        return to_complex(samples).astype(dtype)
    return primitives.gather(image, grid, call, dtype)


@with_promotion
@functools.partial(jax.jit, static_argnums=(2, 3))
def scatter(values: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Apply the transpose of `gather`, for a call without a fill value: (N, C, *spatial)."""
    real = real_type(call)
    sum_type = np.result_type(real, np.complex64) if is_complex(values.dtype) else real
    image = jax.ShapeDtypeStruct((*values.shape[:2], *call.plan.spatial), sum_type)
    transpose = jax.linear_transpose(lambda image: gather(image, grid, call, sum_type), image)
    return transpose(values.astype(sum_type))[0].astype(dtype)


@with_promotion
@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def backward(
    values: Array,
    image: Array,
    grid: Array,
    call: TracedCall,
    needed: tuple[bool, bool],
    dtype: Any,
) -> tuple[Array | None, Array | None]:
    """Compute the needed gradients of `gather`: the image's in a dtype, the grid's in its own."""
    real = real_type(call)
    if is_complex(image.dtype):
        parts = to_real(values), to_real(image)
        first, second = backward(*parts, grid, real_call(call), needed, real)
        return to_complex(first).astype(dtype) if needed[0] else None, second
    sampled, arrays = as_function(gather, image, grid, call, needed)
    _, transpose = jax.vjp(sampled, *arrays)
    gradients = transpose(values.astype(real))
    first = gradients[0].astype(dtype) if needed[0] else None
    return first, gradients[-1] if needed[1] else None
