"""Resizing of JAX arrays: each axis is multiplied by its band of weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import filtering
from gridsample.backends.jax.labels import elect
from gridsample.backends.jax.plain import is_integer, saturated
from gridsample.backends.jax.sampling import is_complex, joined, parted
from gridsample.backends.jax.taps import with_promotion
from gridsample.definitions import tables
from gridsample.definitions.bands import Band
from gridsample.definitions.options import Resizing
from gridsample.definitions.plan import WIDE_TYPES
from gridsample.definitions.splines import Prefilter
from gridsample.definitions.tables import AxisMap

Array = Any
# More taps than these are summed by a loop.
UNROLLED = 8
# The difference of two sums of weights up to which labels tie, in units of the sums' rounding.
TIE = 64


@with_promotion
@functools.partial(jax.jit, static_argnums=(1, 2))
def resize(image: Array, options: Resizing, transposed: bool) -> Array:
    """Resize (N, C, *spatial) by one matrix per axis, or by their transposes, in its dtype."""
    if 0 in image.shape:
        return jnp.zeros((*image.shape[:2], *options.size), image.dtype)
    if is_complex(image.dtype):
        return joined(resize(parted(image), options, transposed))
    maps = tables.axis_maps(image.shape[2:], options, transposed)
    if tables.votes(options.methods):
        return vote(image, maps)
    if options.rounding != "exact" and is_integer(image.dtype):
        for axis in tables.rounded_order(image.shape[2:], options.size, options.rounding):
            image = applied(image, [axis], maps)
        return image
    # Axes that shrink come first, because less is left to do for the others.
    axes = sorted(range(len(maps)), key=lambda k: maps[k].outputs / maps[k].inputs)
    return applied(image, axes, maps)


def applied(image: Array, axes: Sequence[int], maps: Sequence[AxisMap]) -> Array:
    """Apply the maps of some axes, and convert the result to the image's dtype."""
    axes = [axis for axis in axes if not maps[axis].is_identity]
    dtype = image.dtype
    copies = all(maps[k].before is maps[k].after is None and maps[k].band.copies for k in axes)
    if not copies:
        image = image.astype(sum_type(dtype))
    for axis in axes:
        image = mapped(image, axis + 2, maps[axis])
    if copies:
        return image
    return saturated(image, dtype) if is_integer(dtype) else image.astype(dtype)


def sum_type(dtype: Any) -> Any:
    """The dtype of sums over an image."""
    is_wide = np.dtype(dtype).name in WIDE_TYPES
    return jax.dtypes.canonicalize_dtype(np.float64 if is_wide else np.float32)


def mapped(image: Array, axis: int, axis_map: AxisMap) -> Array:
    """Apply the map of an axis: after @ band @ before."""
    image = prefiltered(image, axis, axis_map.before)
    return prefiltered(banded(image, axis, axis_map.band), axis, axis_map.after)


def prefiltered(image: Array, axis: int, prefilter: Prefilter | None) -> Array:
    """Apply a prefilter to an axis, if there is one."""
    if prefilter is None:
        return image
    order, extended, adjoint = prefilter.options
    return filtering.coefficients(image, order, (extended,), (axis,), adjoint)


def banded(image: Array, axis: int, band: Band) -> Array:
    """Multiply an axis by a band."""
    if band.is_identity:
        return image
    if band.copies:
        return jnp.take(image, band.first, axis, mode="clip")
    lines, taps = jnp.moveaxis(image, axis, -1), np.arange(band.taps)[:, np.newaxis]
    index = np.minimum(band.first + taps, band.inputs - 1).astype(np.int32)
    # A weight beyond the row's own ones reads nothing.
    terms = index, band.weights.T.astype(lines.dtype), taps < band.count

    def add(total: Array, term: Any) -> tuple[Array, None]:
        index, weights, reads = term
        pixels = jnp.take(lines, index, -1, mode="clip")
        return total + jnp.where(reads, pixels * weights, 0), None

    total = jnp.zeros((*lines.shape[:-1], band.outputs), lines.dtype)
    if band.taps > UNROLLED:
        total, _ = jax.lax.scan(add, total, terms)
    else:
        for term in zip(*terms, strict=True):
            total, _ = add(total, term)
    return jnp.moveaxis(total, -1, axis)


# Labels -------------------------------------------------------------------------------------------


def vote(image: Array, maps: Sequence[AxisMap]) -> Array:
    """Return the label with the largest sum of weights; the smallest one of several wins.

    One label of the image is weighed after the other.
    """
    shape = (*image.shape[:2], *[axis_map.outputs for axis_map in maps])
    axes, real = range(len(maps)), jax.dtypes.canonicalize_dtype(np.float64)

    def weigh(label: Array) -> tuple[Array, Array, Array]:
        greater = image > label
        following = jnp.min(jnp.where(greater, image, jnp.max(image)))
        return applied((image == label).astype(real), axes, maps), jnp.any(greater), following

    return elect(jnp.min(image), weigh, shape, jnp.asarray(TIE * np.finfo(real).eps, real))
