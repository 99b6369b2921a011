"""The B-spline prefilter on JAX arrays.

Each recursion y[k] = x[k] + z y[k - 1] is a sum of earlier entries times powers of z.  Sums of 1,
2, 4, ... entries are computed, until further powers are lost in rounding, so that a line takes few
operations on whole arrays instead of one step per entry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from gridsample.backends.jax import programs
from gridsample.backends.jax.lowering import bind, lower, type_like
from gridsample.backends.jax.taps import with_promotion
from gridsample.definitions.splines import Design, Prefilter, design, tiny

Array = Any


def recursion(line: Array, z: float, forward: bool) -> Array:
    """Compute y[k] = x[k] + z y[k - 1] along the last axis, or y[k] = x[k] + z y[k + 1]."""
    n, step, limit = line.shape[-1], 1, tiny(np.dtype(line.real.dtype))
    while step < n and abs(z) ** step > limit:
        pad = [(0, 0)] * (line.ndim - 1) + [(step, 0) if forward else (0, step)]
        part = line[..., :-step] if forward else line[..., step:]
        line = line + z**step * jnp.pad(part, pad)
        step *= 2
    return line


def weighted(line: Array, filter_: Design, number: int) -> Array:
    """One of the filter's sums of a line's entries (..., n): (..., 1)."""
    sums = filter_.sums
    terms = slice(sums.bounds[number], sums.bounds[number + 1])
    weights = sums.weights[terms].astype(line.real.dtype)
    return jnp.sum(line[..., sums.places[terms]] * weights, -1, keepdims=True)


def filtered(line: Array, order: int, extended: str) -> Array:
    """Filter the last axis of an array."""
    n = line.shape[-1]
    filter_ = design(order, n, extended, False, np.dtype(line.real.dtype))
    poles = len(filter_.poles)
    if len(filter_.changed):
        added = [weighted(line, filter_, 2 * poles + k) for k in range(len(filter_.changed))]
        line = line.at[..., filter_.changed].add(jnp.concatenate(added, -1))
    line = line * filter_.gain
    for k, root in enumerate(filter_.poles):
        z = float(root)
        line = jnp.concatenate([weighted(line, filter_, 2 * k), line[..., 1:]], -1)
        line = recursion(line, z, True)
        end = weighted(line, filter_, 2 * k + 1)
        line = recursion(jnp.concatenate([-z * line[..., :-1], end], -1), z, False)
    return line


@with_promotion
@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def coefficients(
    image: Array, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool
) -> Array:
    """Compute the spline coefficients of a floating-point or complex array, or the transpose.

    extended: the boundary for each of the axes, as `gridsample.definitions.splines.extension`
        returns it.
    """
    if order < 2 or 0 in image.shape:
        return image
    options = {"order": order, "extended": extended, "axes": axes, "adjoint": adjoint}
    if jnp.issubdtype(image.dtype, jnp.complexfloating):
        parts = jnp.real(image), jnp.imag(image)
        return jax.lax.complex(*[bind(prefilter_p, part, **options) for part in parts])
    return bind(prefilter_p, image, **options)


def filtered_by(image: Array, axis: int, prefilter: Prefilter) -> Array:
    """Apply a prefilter to an axis."""
    order, extended, adjoint = prefilter.options
    result: Array = coefficients(image, order, (extended,), (axis,), adjoint)
    return result


# The primitive ------------------------------------------------------------------------------------

prefilter_p = Primitive("gridsample_prefilter")


def prefilter_shape(image: Any, **options: Any) -> Any:
    """The coefficients."""
    return type_like(image)


def fallback(
    image: Array, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool
) -> Array:
    """Compute the coefficients by operations of `jax.numpy`."""
    if adjoint:
        transpose = jax.linear_transpose(
            lambda image: fallback(image, order, extended, axes, False), image
        )
        return transpose(image)[0]
    for name, axis in zip(extended, axes, strict=True):
        image = jnp.moveaxis(filtered(jnp.moveaxis(image, axis, -1), order, name), -1, axis)
    return image


def transpose(ct: Any, image: Any, *, adjoint: bool, devices: Any, **options: Any) -> Any:
    """Transpose the filter."""
    return [bind(prefilter_p, ct, adjoint=not adjoint, **options)]


def batch(arrays: Sequence[Array], batches: Sequence[int], *, devices: Any, **options: Any) -> Any:
    """Filter a batch as one array."""
    axes = tuple(axis + 1 for axis in options.pop("axes"))
    return bind(prefilter_p, jnp.moveaxis(arrays[0], batches[0], 0), axes=axes, **options), 0


prefilter_p.def_abstract_eval(prefilter_shape)
ad.deflinear2(prefilter_p, transpose)
batching.primitive_batchers[prefilter_p] = batch
lower(prefilter_p, programs.prefilter, fallback, programs.supports_prefilter)
