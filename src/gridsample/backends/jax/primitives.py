"""Primitives of JAX: gather and its transpose, what differentiates them, and what batches them.

    gather_p      samples of an image at a grid's points
    scatter_p     its transpose: the image's gradient
    tangent_p     the derivative of gather along tangents of the grid, or of image and grid
    backward_p    the transpose of that: both gradients, in one sweep

The derivatives are those of `gridsample.kernels`: along the image, gather is itself; along the
grid, it is gather with an order raised by one; the same holds for scatter.  Derivatives of
`tangent_p` and `backward_p` are those of their formulas in terms of gather and scatter.

On the CPU, these are programs (`programs`), on a GPU kernels (`gpu`); elsewhere, and where a size
is not known or a program is exported, operations of `jax.numpy` (`fallback`).  Images are real.
With footprints, derivatives of higher order are those of these operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad

from gridsample.backends.jax import fallback, gpu, programs
from gridsample.backends.jax.lowering import bind, lower, type_like
from gridsample.backends.jax.taps import Array, TracedCall, output_shape, real_type

# Calls --------------------------------------------------------------------------------------------


def linear(call: TracedCall) -> TracedCall:
    """The call whose samples are linear in the image."""
    return call._replace(fill=(), tangent=True)


def raised(call: TracedCall, axis: int) -> TracedCall:
    """The call with the order along an axis raised by one, x first."""
    order = tuple(n + (k == axis) for k, n in enumerate(call.order))
    return call._replace(order=order)


def in_dtype(call: TracedCall, dtype: Any) -> TracedCall:
    """The call with samples in another dtype."""
    return call._replace(plan=replace(call.plan, dtype=np.dtype(dtype)))


# Formulas -----------------------------------------------------------------------------------------


def gather(image: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Sample a real image, in a dtype."""
    return bind(gather_p, image, grid, call=in_dtype(call, dtype), dtype=np.dtype(dtype))


def scatter(values: Array, grid: Array, call: TracedCall) -> Array:
    """Add values to the taps: (N, C, *spatial) in the dtype of sums."""
    return bind(scatter_p, values, grid, call=linear(call))


def raised_sum(function: Callable[[int, TracedCall], Array], call: TracedCall) -> Array:
    """Sum a function of the axes, and of the calls with their order raised."""
    terms = [function(k, raised(call, k)) for k in range(len(call.order))]
    return functools.reduce(jnp.add, terms)


def as_factor(points: Array, axis: int) -> Array:
    """An entry of (N, *out, D) as a factor of samples (N, C, *out)."""
    return points[..., axis][:, jnp.newaxis]


def tangent_formula(
    image: Array,
    grid: Array,
    *tangents: Array,
    call: TracedCall,
    dtype: Any,
    needed: tuple[bool, bool],
) -> Array:
    """The derivative of gather along tangents of the grid, and of the image if it is needed."""
    if call.plan.footprint is not None:
        return fallback.tangent(image, grid, *tangents, call=call, dtype=dtype, needed=needed)
    real = real_type(call)
    total: Any = 0
    if needed[0]:
        total = gather(tangents[0], grid, linear(call), real)
    points = tangents[-1].astype(real)
    slopes = raised_sum(
        lambda k, call: gather(image, grid, call, real) * as_factor(points, k), call
    )
    return (total + slopes).astype(dtype)


def backward_formula(
    values: Array, image: Array, grid: Array, *, call: TracedCall, needed: tuple[bool, bool]
) -> list[Array]:
    """The gradients of gather, in the dtype of sums."""
    if call.plan.footprint is not None:
        return fallback.backward(values, image, grid, call, needed)
    real = real_type(call)
    results = [scatter(values, grid, call)] if needed[0] else []
    if needed[1]:
        values = values.astype(real)
        slopes = [
            (gather(image, grid, raised(call, k), real) * values).sum(1)
            for k in range(len(call.order))
        ]
        gradient = jnp.stack(slopes, -1)
        if gradient.shape[0] != grid.shape[0]:
            gradient = gradient.sum(0, keepdims=True)
        results.append(gradient)
    return results


# Primitives ---------------------------------------------------------------------------------------

gather_p = Primitive("gridsample_gather")
scatter_p = Primitive("gridsample_scatter")
tangent_p = Primitive("gridsample_tangent")
backward_p = Primitive("gridsample_backward")
backward_p.multiple_results = True


def gather_shape(image: Any, grid: Any, *, dtype: Any, **_: Any) -> Any:
    """The samples (N, C, *out)."""
    return type_like(image, shape=output_shape(image, grid.shape[:-1]), dtype=dtype)


def scatter_shape(values: Any, grid: Any, *, call: TracedCall, **_: Any) -> Any:
    """The image's gradient."""
    plan = call.plan
    shape = plan.image_items, plan.channels, *plan.spatial
    return type_like(values, shape=shape, dtype=real_type(call))


def tangent_shape(image: Any, grid: Any, *tangents: Any, dtype: Any, **parameters: Any) -> Any:
    """The tangent of the samples."""
    shape = output_shape(image, grid.shape[:-1])
    return type_like(image, shape=shape, dtype=dtype)


def backward_shape(
    values: Any, image: Any, grid: Any, *, call: TracedCall, needed: tuple[bool, bool], **_: Any
) -> Any:
    """The needed gradients."""
    arrays = [array for array, need in zip((image, grid), needed, strict=True) if need]
    real = real_type(call)
    return [type_like(values, shape=array.shape, dtype=real) for array in arrays]


gather_p.def_abstract_eval(gather_shape)
scatter_p.def_abstract_eval(scatter_shape)
tangent_p.def_abstract_eval(tangent_shape)
backward_p.def_abstract_eval(backward_shape)


# Derivatives --------------------------------------------------------------------------------------

Zero: Any = ad.Zero


def is_zero(tangent: Any) -> bool:
    """Whether a tangent is known to be 0, as those of integers are."""
    return type(tangent) is Zero


def gather_jvp(primals: Any, tangents: Any, *, call: TracedCall, dtype: Any, **_: Any) -> Any:
    """Differentiate gather."""
    image, grid = primals
    samples = bind(gather_p, image, grid, call=call, dtype=dtype)
    nonzero = [tangent for tangent in tangents if not is_zero(tangent)]
    if not nonzero or not jnp.issubdtype(dtype, jnp.floating):
        return samples, Zero.from_primal_value(samples)
    needed = not is_zero(tangents[0]), not is_zero(tangents[1])
    if not needed[1]:  # then the gradient needs no image
        return samples, gather(nonzero[0], grid, linear(call), dtype)
    tangent = bind(tangent_p, image, grid, *nonzero, call=call, dtype=dtype, needed=needed)
    return samples, tangent


def gather_transpose(
    ct: Any, image: Any, grid: Array, *, call: TracedCall, dtype: Any, **_: Any
) -> Any:
    """Transpose gather along the image."""
    aval = image.aval
    if is_zero(ct):
        return Zero(aval), None
    return scatter(ct, grid, call).astype(aval.dtype), None


def tangent_transpose(
    ct: Any,
    image: Array,
    grid: Array,
    *tangents: Any,
    call: TracedCall,
    dtype: Any,
    needed: tuple[bool, bool],
    **_: Any,
) -> Any:
    """Transpose the derivative of gather along tangents: both gradients in one sweep."""
    if ad.is_undefined_primal(image):
        return formula_transpose(
            tangent_formula, ct, image, grid, *tangents, call=call, dtype=dtype, needed=needed
        )
    avals = [tangent.aval for tangent in tangents]
    if is_zero(ct):
        return None, None, *map(Zero, avals)
    gradients = bind(backward_p, ct, image, grid, call=call, needed=needed)
    return (
        None,
        None,
        *[gradient.astype(aval.dtype) for gradient, aval in zip(gradients, avals, strict=True)],
    )


def scatter_jvp(primals: Any, tangents: Any, *, call: TracedCall, **_: Any) -> Any:
    """Differentiate scatter."""
    if call.plan.footprint is not None:
        return formula_jvp(scatter_p, fallback.scatter, primals, tangents, call=call)
    (values, grid), (values_tangent, grid_tangent) = primals, tangents
    image, terms = bind(scatter_p, values, grid, call=call), []
    if not is_zero(values_tangent):
        terms.append(bind(scatter_p, values_tangent, grid, call=call))
    if not is_zero(grid_tangent):
        points, wide = grid_tangent.astype(image.dtype), values.astype(image.dtype)
        terms.append(
            raised_sum(lambda k, call: scatter(wide * as_factor(points, k), grid, call), call)
        )
    tangent = functools.reduce(jnp.add, terms) if terms else Zero.from_primal_value(image)
    return image, tangent


def scatter_transpose(ct: Any, values: Any, grid: Array, *, call: TracedCall, **_: Any) -> Any:
    """Transpose scatter along the values."""
    aval = values.aval
    if is_zero(ct):
        return Zero(aval), None
    return gather(ct, grid, call, aval.dtype), None


def formula_jvp(
    primitive: Primitive,
    formula: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    devices: Any = None,
    **parameters: Any,
) -> Any:
    """Differentiate a primitive as its formula is differentiated."""
    results = bind(primitive, *primals, **parameters)
    varied = [k for k, tangent in enumerate(tangents) if not is_zero(tangent)]

    def compute(*arguments: Array) -> Any:
        arrays = [*primals]
        for k, argument in zip(varied, arguments, strict=True):
            arrays[k] = argument
        return formula(*arrays, **parameters)

    _, out = jax.jvp(compute, [primals[k] for k in varied], [tangents[k] for k in varied])
    return results, out


def formula_transpose(
    formula: Callable[..., Any], cts: Any, *arguments: Any, devices: Any = None, **parameters: Any
) -> Any:
    """Transpose a primitive as its formula is transposed, along the argument that is not known."""
    (unknown,) = [k for k, argument in enumerate(arguments) if ad.is_undefined_primal(argument)]
    aval = arguments[unknown].aval

    def compute(argument: Array) -> Any:
        arrays = [*arguments]
        arrays[unknown] = argument
        return formula(*arrays, **parameters)

    cts = jax.tree.map(ad.instantiate_zeros, cts, is_leaf=is_zero)
    result: list[Any] = [None] * len(arguments)
    (result[unknown],) = jax.linear_transpose(compute, aval)(cts)
    return result


ad.primitive_jvps[gather_p] = gather_jvp
ad.primitive_transposes[gather_p] = gather_transpose
ad.primitive_jvps[scatter_p] = scatter_jvp
ad.primitive_transposes[scatter_p] = scatter_transpose
ad.primitive_jvps[tangent_p] = functools.partial(formula_jvp, tangent_p, tangent_formula)
ad.primitive_transposes[tangent_p] = tangent_transpose
ad.primitive_jvps[backward_p] = functools.partial(formula_jvp, backward_p, backward_formula)
ad.primitive_transposes[backward_p] = functools.partial(formula_transpose, backward_formula)


# Lowering -----------------------------------------------------------------------------------------

lower(gather_p, programs.gather, fallback.gather, programs.supports, gpu.gather)
lower(scatter_p, programs.scatter, fallback.scatter, programs.supports, gpu.scatter)
lower(backward_p, programs.backward, fallback.backward, programs.supports, gpu.backward)
# Its formula consists of gathers, which are lowered in turn.
lower(tangent_p, tangent_formula, tangent_formula, lambda *avals, **parameters: True)
