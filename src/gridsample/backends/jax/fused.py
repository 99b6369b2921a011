"""Fused operators on JAX arrays: primitives that follow from the record of an operator.

    result       the result
    tangent      its derivative along tangents of some of the arrays
    gradients    the transpose of that: the needed gradients, in one sweep

On the CPU, the first and the last are programs (`gridsample.kernels.operators`); everything else is
the composition.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from gridsample.backends.base import Backend
from gridsample.backends.jax.batching import (
    formula_batch,
    merge_batch,
    repeat_batch,
    size_of,
    split_batch,
)
from gridsample.backends.jax.handler import ARGUMENT, RESULT, LaunchStep, Place
from gridsample.backends.jax.launches import ArrayType, KeptLaunches, StepArrays, layout_of, type_of
from gridsample.backends.jax.lowering import bind, lower, type_like
from gridsample.backends.jax.primitives import Zero, formula_jvp, formula_transpose, is_zero
from gridsample.backends.jax.sharding import AxisNames, partitioned
from gridsample.backends.jax.taps import Array, with_promotion
from gridsample.definitions.operators import Operator
from gridsample.kernels import of_operators

Needed = tuple[bool, ...]


# Programs -----------------------------------------------------------------------------------------


def launch_of(
    operator: Operator, types: Sequence[ArrayType], options: Any, needed: frozenset[str]
) -> tuple[Any, dict[str, Place]]:
    """Return the launch of a program, and the places of the arrays that it reads.

    ``types`` are those of the arrays, of the upstream gradient, and of the result if it is read.
    """
    names = [*operator.names, "upstream", "result"][: len(types)]
    layouts = [(name, layout_of(array)) for name, array in zip(names, types, strict=True)]
    launch = of_operators().programs_of(operator).prepare(tuple(layouts), options, needed)
    return launch, {name: Place(ARGUMENT, k) for k, name in enumerate(names)}


@functools.cache
def result_steps(operator: Operator, types: tuple[ArrayType, ...], options: Any) -> KeptLaunches:
    """Prepare the program of the result."""
    shape = operator.shape(operator.sizes([array.shape for array in types]), options)
    launch, places = launch_of(operator, types, options, frozenset())
    step = LaunchStep(launch, {**places, "result": Place(RESULT, 0)}, {})
    return StepArrays(ArrayType(shape, types[0].dtype)).prepare([step])


@functools.cache
def gradient_steps(
    operator: Operator, types: tuple[ArrayType, ...], options: Any, needed: Needed
) -> KeptLaunches:
    """Prepare the program of the gradients; see `launch_of`."""
    arrays = types[: len(operator.names)]
    real = of_operators().real_of(*[array.dtype for array in arrays])
    pairs = zip(operator.names, arrays, needed, strict=True)
    results = {
        name: ArrayType(array.shape, real if name in operator.sums else array.dtype)
        for name, array, need in pairs
        if need
    }
    launch, places = launch_of(operator, types, options, frozenset(results))
    targets = {f"{name}_gradient": Place(RESULT, k) for k, name in enumerate(results)}
    cleared = {
        k: array.nbytes for k, (name, array) in enumerate(results.items()) if name in operator.sums
    }
    return StepArrays(*results.values()).prepare(
        [LaunchStep(launch, {**places, **targets}, cleared)]
    )


def axes_of(operator: Operator) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the names of the axes of each array, and of the result."""
    return [tuple(axes.split()) for axes in operator.arrays.values()], tuple(
        operator.result.split()
    )


# Primitives ---------------------------------------------------------------------------------------


class Primitives(NamedTuple):
    """The primitives of an operator."""

    result: Primitive
    tangent: Primitive
    gradients: Primitive


class JaxOperator:
    """What JAX is told about the primitives of an operator."""

    def __init__(self, operator: Operator, backend: Backend) -> None:
        self.operator, self.backend, self.arrays = operator, backend, len(operator.names)
        names = [f"gridsample_{operator.name}{part}" for part in ("", "_tangent", "_gradients")]
        self.primitives = Primitives(*map(Primitive, names))
        result, tangent, gradients = self.primitives
        gradients.multiple_results = True
        result.def_abstract_eval(self.result_type)
        tangent.def_abstract_eval(self.result_type)
        gradients.def_abstract_eval(self.gradient_types)
        ad.primitive_jvps[result] = self.result_jvp
        ad.primitive_jvps[tangent] = functools.partial(formula_jvp, tangent, self.compose_tangent)
        ad.primitive_jvps[gradients] = functools.partial(
            formula_jvp, gradients, self.compose_gradients
        )
        ad.primitive_transposes[tangent] = self.tangent_transpose
        ad.primitive_transposes[gradients] = functools.partial(
            formula_transpose, self.compose_gradients
        )
        batching.primitive_batchers[result] = self.batched_result
        batching.primitive_batchers[gradients] = self.batched_gradients
        batching.primitive_batchers[tangent] = functools.partial(
            formula_batch, self.compose_tangent
        )
        lower(result, self.call_result, self.compose, lambda *_, **__: True)
        lower(gradients, self.call_gradients, self.compose_gradients, lambda *_, **__: True)
        lower(tangent, self.compose_tangent, self.compose_tangent, lambda *_, **__: True)

    # Types

    def result_type(self, *arrays: Any, options: Any, **_: Any) -> Any:
        """The type of the result, or of its tangent."""
        sizes = self.operator.sizes([array.shape for array in arrays[: self.arrays]])
        return type_like(arrays[0], shape=self.operator.shape(sizes, options))

    def gradient_types(self, upstream: Any, *arrays: Any, needed: Needed, **_: Any) -> Any:
        """The types of the needed gradients."""
        pairs = zip(arrays, needed, strict=True)
        return [type_like(upstream, array.shape, array.dtype) for array, need in pairs if need]

    # Compositions

    def compose(self, *arrays: Array, options: Any) -> Array:
        """Compute the result."""
        return self.operator.composed(self.backend, arrays, options)

    def compose_tangent(self, *arrays: Array, options: Any, needed: Needed) -> Array:
        """Compute the tangent of the result; the tangents of needed arrays come last."""
        primals, tangents = [*arrays[: self.arrays]], [*arrays[self.arrays :]]
        varied = [k for k, need in enumerate(needed) if need]

        def compute(*changed: Array) -> Array:
            inputs = [*primals]
            for k, array in zip(varied, changed, strict=True):
                inputs[k] = array
            return self.compose(*inputs, options=options)

        tangent: Array = jax.jvp(compute, [primals[k] for k in varied], tangents)[1]
        return tangent

    def compose_gradients(
        self, upstream: Array, *arrays: Array, options: Any, needed: Needed
    ) -> list[Array]:
        """Compute the needed gradients."""
        results = self.operator.composed_vjp(self.backend, upstream, arrays, options, needed)
        return [gradient for gradient in results if gradient is not None]

    # Programs

    def call_result(self, *arrays: Array, options: Any) -> Array:
        """Compute the result by its program."""

        def compute(*shards: Array) -> list[Array]:
            types = tuple(map(type_of, shards))
            return result_steps(self.operator, types, options).call(*shards)

        names, result = axes_of(self.operator)
        axes = AxisNames(tuple(names), (result,), self.operator.whole)
        return partitioned(compute, axes, arrays)[0]

    def call_gradients(
        self, upstream: Array, *arrays: Array, options: Any, needed: Needed
    ) -> list[Array]:
        """Compute the needed gradients by their program."""

        def compute(*shards: Array) -> list[Array]:
            types = tuple(map(type_of, shards))
            return gradient_steps(self.operator, types, options, needed).call(*shards)

        names, result = axes_of(self.operator)
        kept = [own for own, need in zip(names, needed, strict=True) if need]
        inputs, given = [*arrays, upstream], [*names, result]
        if self.operator.reads_result:
            inputs, given = [*inputs, self.call_result(*arrays, options=options)], [*given, result]
        axes = AxisNames(tuple(given), tuple(kept), self.operator.whole)
        results = partitioned(compute, axes, inputs)
        like = [array for array, need in zip(arrays, needed, strict=True) if need]
        pairs = zip(results, like, strict=True)
        return [gradient.astype(array.dtype) for gradient, array in pairs]

    # Derivatives

    def result_jvp(self, primals: Any, tangents: Any, *, options: Any, **_: Any) -> Any:
        """Differentiate the result."""
        result = bind(self.primitives.result, *primals, options=options)
        needed = tuple([not is_zero(tangent) for tangent in tangents])
        if not any(needed):
            return result, Zero.from_primal_value(result)
        nonzero = [tangent for tangent in tangents if not is_zero(tangent)]
        parameters = {"options": options, "needed": needed}
        return result, bind(self.primitives.tangent, *primals, *nonzero, **parameters)

    def tangent_transpose(
        self, ct: Any, *arguments: Any, options: Any, needed: Needed, **_: Any
    ) -> Any:
        """Transpose the tangent: all needed gradients in one sweep."""
        arrays, tangents = arguments[: self.arrays], arguments[self.arrays :]
        parameters = {"options": options, "needed": needed}
        if any(map(ad.is_undefined_primal, arrays)):
            return formula_transpose(self.compose_tangent, ct, *arguments, **parameters)
        none = [None] * self.arrays
        if is_zero(ct):
            return [*none, *[Zero(tangent.aval) for tangent in tangents]]
        return [*none, *bind(self.primitives.gradients, ct, *arrays, **parameters)]

    # Batches join the first axis of each array

    def batched_result(self, arrays: Any, axes: Any, *, options: Any, **_: Any) -> Any:
        """Compute the results of a batch."""
        size = size_of(arrays, axes)
        result = bind(self.primitives.result, *joined(arrays, axes, size), options=options)
        return split_batch(result, 0, size), 0

    def batched_gradients(
        self, arrays: Any, axes: Any, *, options: Any, needed: Needed, **_: Any
    ) -> Any:
        """Compute the gradients of a batch; an array that it shares has one for each entry."""
        size, parameters = size_of(arrays, axes), {"options": options, "needed": needed}
        gradients = bind(self.primitives.gradients, *joined(arrays, axes, size), **parameters)
        return [split_batch(gradient, 0, size) for gradient in gradients], [0] * len(gradients)


def joined(arrays: Sequence[Array], axes: Sequence[Any], size: int) -> list[Array]:
    """Join the axis of a batch with the first axis of each array."""
    merged = []
    for array, axis in zip(arrays, axes, strict=True):
        items = array.shape[0] if axis is None else jnp.moveaxis(array, axis, 0).shape[1]
        merged.append(merge_batch(repeat_batch(array, axis, size, items), 0))
    return merged


@functools.cache
def rules_of(operator: Operator, backend: Any) -> JaxOperator:
    """Return the rules of an operator."""
    return JaxOperator(operator, backend)


# Calls --------------------------------------------------------------------------------------------


@with_promotion
@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def compute(operator: Operator, backend: Any, options: Any, *arrays: Array) -> Array:
    """Compute the result of an operator."""
    return bind(rules_of(operator, backend).primitives.result, *arrays, options=options)


@with_promotion
@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def differentiate(
    operator: Operator, backend: Any, options: Any, needed: Needed, upstream: Array, *arrays: Array
) -> list[Array]:
    """Compute the needed gradients of an operator."""
    primitive = rules_of(operator, backend).primitives.gradients
    gradients: list[Array] = bind(primitive, upstream, *arrays, options=options, needed=needed)
    return gradients
