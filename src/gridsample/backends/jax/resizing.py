"""Resizing of JAX arrays: each axis is multiplied by its band of weights.

The bands of all axes, and votes of labels, are primitives: on the CPU, these are programs
(`resizing_programs`), elsewhere operations of `jax.numpy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from gridsample.backends.jax import filtering, resizing_programs
from gridsample.backends.jax.fallback import is_integer, saturated
from gridsample.backends.jax.labels import elect
from gridsample.backends.jax.launches import type_of
from gridsample.backends.jax.lowering import bind, lower, type_like
from gridsample.backends.jax.resizing_programs import Maps
from gridsample.backends.jax.sampling import is_complex, to_complex, to_real
from gridsample.backends.jax.sharding import AxisNames, partitioned
from gridsample.backends.jax.taps import with_promotion
from gridsample.definitions import tables
from gridsample.definitions.bands import Band
from gridsample.definitions.dtypes import WIDE_TYPES
from gridsample.definitions.options import Resizing
from gridsample.definitions.tables import AxisMap, unchanged
from gridsample.kernels import of_resizing

Array = Any
# More taps than these are summed by a loop.
UNROLLED = 8
# Labels tie if their sums of weights differ by at most this, in units of the sums' rounding.
TIE = 64


@with_promotion
@functools.partial(jax.jit, static_argnums=(1, 2))
def resize(image: Array, options: Resizing, transposed: bool) -> Array:
    """Resize (N, C, *spatial) by one matrix per axis, or by their transposes, in its dtype."""
    if 0 in image.shape:
        return jnp.zeros((*image.shape[:2], *options.size), image.dtype)
    if is_complex(image.dtype):
        return to_complex(resize(to_real(image), options, transposed))
    spatial, dtype = tuple(image.shape[2:]), image.dtype
    if tables.votes(options.methods):
        return bind(vote_p, image, options=options)
    maps = maps_of(spatial, options, transposed)
    if options.rounding != "exact" and is_integer(dtype):
        if not of_resizing().planning.are_fixed(dtype, [axis_map.band for axis_map in maps]):
            options = options._replace(rounding="exact")
        for axis in tables.rounded_order(spatial, options.size, options.rounding):
            image = apply_maps(image, [axis], options, transposed, dtype)
        return image
    options = options._replace(rounding="exact")
    return apply_maps(image, range(len(maps)), options, transposed, dtype)


def apply_maps(
    image: Array, axes: Sequence[int], options: Resizing, transposed: bool, dtype: Any
) -> Array:
    """Apply the maps of some axes: after @ band @ before; the result has a dtype."""
    maps, real = maps_of(tuple(image.shape[2:]), options, transposed), sum_type(dtype)
    for axis in axes:
        if before := maps[axis].before:
            image = filtering.filtered_by(image.astype(real), axis + 2, before)
    filters = {axis: after for axis in axes if (after := maps[axis].after)}
    parameters = {"options": options, "transposed": transposed, "axes": tuple(axes)}
    image = bind(bands_p, image, **parameters, dtype=np.dtype(real if filters else dtype))
    for axis, after in filters.items():
        image = filtering.filtered_by(image, axis + 2, after)
    return convert_sums(image, dtype)


def convert_sums(image: Array, dtype: Any) -> Array:
    """Convert sums to a dtype; integers are rounded and saturate."""
    if image.dtype == dtype:
        return image
    return saturated(image, dtype) if is_integer(dtype) else image.astype(dtype)


def maps_of(spatial: tuple[int, ...], options: Resizing, transposed: bool) -> Sequence[AxisMap]:
    """The map of each axis of an image."""
    return tables.axis_maps(spatial, options, transposed)


@functools.lru_cache(maxsize=256)
def bands_of(
    spatial: tuple[int, ...], options: Resizing, transposed: bool, axes: tuple[int, ...]
) -> tuple[AxisMap, ...]:
    """The maps of some axes of an image without their prefilters; other axes do not change."""
    return tuple(
        AxisMap(None, None, axis_map.axis, axis_map.transposed, axis_map.table)
        if k in axes
        else unchanged(spatial[k])
        for k, axis_map in enumerate(maps_of(spatial, options, transposed))
    )


def sum_type(dtype: Any) -> Any:
    """The dtype of sums over an image."""
    is_wide = np.dtype(dtype).name in WIDE_TYPES
    return jax.dtypes.canonicalize_dtype(np.float64 if is_wide else np.float32)


# Operations of `jax.numpy` ------------------------------------------------------------------------


def fallback(
    image: Array, *, options: Resizing, transposed: bool, axes: tuple[int, ...], dtype: Any
) -> Array:
    """Multiply the axes of an image by their bands."""
    return apply_bands(image, bands_of(tuple(image.shape[2:]), options, transposed, axes), dtype)


def apply_bands(image: Array, maps: Sequence[AxisMap], dtype: Any) -> Array:
    """Multiply the axes of an image by the bands of maps; the result has a dtype."""
    # Axes that shrink come first, because less is left to do for the others.
    axes = sorted(range(len(maps)), key=lambda k: maps[k].outputs / maps[k].inputs)
    axes = [axis for axis in axes if not maps[axis].is_identity]
    if image.dtype != dtype or not all(maps[axis].band.copies for axis in axes):
        image = image.astype(sum_type(image.dtype))
    for axis in axes:
        image = apply_band(image, axis + 2, maps[axis].band)
    return convert_sums(image, dtype)


def apply_band(image: Array, axis: int, band: Band) -> Array:
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
        index, weights, in_row = term
        pixels = jnp.take(lines, index, -1, mode="clip")
        return total + jnp.where(in_row, pixels * weights, 0), None

    total = jnp.zeros((*lines.shape[:-1], band.outputs), lines.dtype)
    if band.taps > UNROLLED:
        total, _ = jax.lax.scan(add, total, terms)
    else:
        for term in zip(*terms, strict=True):
            total, _ = add(total, term)
    return jnp.moveaxis(total, -1, axis)


# Labels -------------------------------------------------------------------------------------------


def vote(image: Array, *, options: Resizing) -> Array:
    """Return the label with the largest sum of weights; the smallest one of several wins.

    The labels of the image are weighed one after the other.
    """
    maps, real = vote_maps(image, options), jax.dtypes.canonicalize_dtype(np.float64)
    shape = (*image.shape[:2], *[axis_map.outputs for axis_map in maps])

    def weigh(label: Array) -> tuple[Array, Array, Array]:
        greater = image > label
        next_label = jnp.min(jnp.where(greater, image, jnp.max(image)))
        return apply_bands((image == label).astype(real), maps, real), jnp.any(greater), next_label

    return elect(jnp.min(image), weigh, shape, jnp.asarray(TIE * np.finfo(real).eps, real))


def vote_maps(image: Any, options: Resizing) -> tuple[AxisMap, ...]:
    """The maps by which labels are weighed."""
    return bands_of(tuple(image.shape[2:]), options, False, tuple(range(len(options.size))))


# Programs -----------------------------------------------------------------------------------------


def program(
    image: Array, *, options: Resizing, transposed: bool, axes: tuple[int, ...], dtype: Any
) -> Array:
    """Multiply the axes of an image by their bands."""
    last, maps = options.channel_axis == -1, bands_of(image.shape[2:], options, transposed, axes)
    real = np.dtype(sum_type(image.dtype))

    def compute(image: Array, maps: Maps) -> list[Array]:
        steps = resizing_programs.steps_of(
            maps, type_of(image), np.dtype(dtype), real, options.rounding, last
        )
        return [image] if steps is None else steps.call(image, last=(0, 1) if last else ())

    return on_shards(compute, image, maps)


def vote_program(image: Array, *, options: Resizing) -> Array:
    """Return the label with the largest sum of weights; the smallest one of several wins."""
    last, maps = options.channel_axis == -1, vote_maps(image, options)

    def compute(image: Array, maps: Maps) -> list[Array]:
        steps = resizing_programs.vote_steps(maps, type_of(image), last)
        return steps.call(image, last=(0, 1) if last else ())

    return on_shards(compute, image, maps)


def on_shards(
    compute: Callable[[Array, Maps], list[Array]], image: Array, maps: Sequence[AxisMap]
) -> Array:
    """Resize the shards of an image; an axis that changes is needed as a whole."""

    def resized(shard: Array) -> list[Array]:
        sizes = zip(maps, shard.shape[2:], strict=True)
        own = tuple(unchanged(n) if along.is_identity else along for along, n in sizes)
        return compute(shard, own)

    changing = [k for k, axis_map in enumerate(maps) if not axis_map.is_identity]
    names = ("n", "c", *[f"s{k}" for k in range(len(maps))])
    results = (*names[:2], *[f"r{k}" if k in changing else f"s{k}" for k in range(len(maps))])
    replicated = tuple(f"{prefix}{k}" for k in changing for prefix in "sr")
    return partitioned(resized, AxisNames((names,), (results,), replicated), [image])[0]


# The primitives -----------------------------------------------------------------------------------

Zero: Any = ad.Zero
bands_p = Primitive("gridsample_resize")
vote_p = Primitive("gridsample_resize_labels")


def shape_of(
    image: Any, *, options: Resizing, dtype: Any = None, axes: Any = None, **_: Any
) -> Any:
    """The resized image."""
    size = [
        m if axes is None or k in axes else n
        for k, (n, m) in enumerate(zip(image.shape[2:], options.size, strict=True))
    ]
    return type_like(image, (*image.shape[:2], *size), dtype)


def transpose(
    ct: Any,
    image: Any,
    *,
    options: Resizing,
    transposed: bool,
    dtype: Any,
    devices: Any,
    **parameters: Any,
) -> Any:
    """Transpose the bands."""
    options = options._replace(size=tuple(image.aval.shape[2:]))
    parameters |= {"options": options, "transposed": not transposed, "dtype": image.aval.dtype}
    return [bind(bands_p, ct, **parameters)]


def batch(
    primitive: Primitive,
    arrays: Sequence[Array],
    batches: Sequence[int],
    *,
    devices: Any,
    **parameters: Any,
) -> Any:
    """Resize a batch as items."""
    image = jnp.moveaxis(arrays[0], batches[0], 0)
    result = bind(primitive, image.reshape(-1, *image.shape[2:]), **parameters)
    return result.reshape(*image.shape[:2], *result.shape[1:]), 0


def vote_jvp(primals: Any, _: Any, *, devices: Any, **parameters: Any) -> Any:
    """Labels have no derivative."""
    labels = bind(vote_p, *primals, **parameters)
    return labels, Zero.from_primal_value(labels)


def supports_votes(image: Any, *, options: Resizing, **_: Any) -> bool:
    """Whether the CPU kernels resize labels without knowing their values."""
    return resizing_programs.range_of(vote_maps(image, options), np.dtype(image.dtype)) is not None


for primitive in (bands_p, vote_p):
    primitive.def_abstract_eval(shape_of)
    batching.primitive_batchers[primitive] = functools.partial(batch, primitive)
ad.deflinear2(bands_p, transpose)
ad.primitive_jvps[vote_p] = vote_jvp
lower(bands_p, program, fallback, lambda *avals, **parameters: True)
lower(vote_p, vote_program, vote, supports_votes)
