"""Fused operators for tensors: each is an operator of torch, and so are its first derivatives.

    NAME(array, ..., options) -> Tensor
    NAME_backward(upstream, array, ..., needed, options) -> the gradient of each array

A gradient that is not needed is an empty tensor.  Everything else follows from the record
(`gridsample.definitions.operators`).  Where an operator would be differentiated in forward mode, or
its gradients once more, autograd records the composition instead, which has all derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gridsample.backends.base import Backend, Needed
from gridsample.backends.torch import cuda, cuda_operators
from gridsample.backends.torch.derivatives import (
    needs_derivative,
    needs_gradient,
    only_needed,
    unpack,
)
from gridsample.backends.torch.internals import SingleLevelFunction as Function
from gridsample.backends.torch.internals import apply_rule, redispatch, redispatch_forward
from gridsample.backends.torch.operators import (
    LIBRARY,
    check_target,
    is_eager_on_cpu,
    memory,
    tensor_of,
    thread_count,
)
from gridsample.backends.torch.schemas import method_of, text_of
from gridsample.backends.torch.traced import traceable
from gridsample.definitions.operators import Operator
from gridsample.kernels import of_operators
from gridsample.kernels.gpu.programs import NAMES

Array = np.ndarray[Any, Any]
Maybe = Tensor | None
# The types of options in schemas.
SCHEMAS = {
    "bool": "bool",
    "float": "float",
    "int": "int",
    "int | None": "int?",
    "str": "str",
    "tuple[int, ...]": "SymInt[]",
    "tuple[Method, ...]": "str[]",
    "tuple[str, ...]": "str[]",
}


class Defined(NamedTuple):
    """The operators of torch: that of the result, and that of the gradients."""

    result: Any
    gradients: Any


# By the name of the operator.
DEFINED: dict[str, Defined] = {}


# Options ------------------------------------------------------------------------------------------


def flat(options: Any) -> list[Any]:
    """Convert options to the arguments of operators."""
    return [
        [n if isinstance(n, (int, str)) else text_of(n) for n in option]
        if isinstance(option, tuple)
        else option
        for option in options
    ]


def kinds_of(operator: Operator) -> dict[str, str]:
    """Return the types of options as they are written, by name."""
    annotations = operator.options.__annotations__.items()
    return {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in annotations}


def options_of(operator: Operator, arguments: Sequence[Any]) -> Any:
    """Convert the arguments of operators to options."""
    values = list[Any]()
    for kind, value in zip(kinds_of(operator).values(), arguments, strict=True):
        if kind == "tuple[Method, ...]":
            values.append(tuple([method_of(text) for text in value]))
        else:
            values.append(tuple(value) if kind.startswith("tuple") else value)
    return operator.options(*values)


def schemas_of(operator: Operator) -> tuple[str, str]:
    """Return the schemas of both operators."""
    arrays = ", ".join(f"Tensor {name}" for name in operator.names)
    options = ", ".join(f"{SCHEMAS[kind]} {name}" for name, kind in kinds_of(operator).items())
    results = ", ".join("Tensor" for _ in operator.names)
    return (
        f"{operator.name}({arrays}, {options}) -> Tensor",
        f"{operator.name}_backward(Tensor upstream, {arrays}, bool[] needed, {options}) "
        f"-> ({results})",
    )


# Computation for CPU tensors ----------------------------------------------------------------------


def named(operator: Operator, tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Return the memory of tensors by the names of the arrays."""
    return {name: memory(tensor) for name, tensor in zip(operator.names, tensors, strict=True)}


def shape_of(operator: Operator, tensors: Sequence[Tensor], options: Any) -> tuple[int, ...]:
    """Return the shape of the result."""
    return operator.shape(operator.sizes([tensor.shape for tensor in tensors]), options)


def compute(operator: Operator, tensors: Sequence[Tensor], options: Any) -> Tensor:
    """Compute the result."""
    out = torch.empty(shape_of(operator, tensors, options), dtype=tensors[0].dtype)
    arrays, threads = named(operator, tensors), thread_count(options.threads)
    of_operators().compute(operator, arrays, options, memory(out), threads)
    return out


def differentiate(
    operator: Operator, upstream: Tensor, tensors: Sequence[Tensor], options: Any, needed: Needed
) -> list[Tensor]:
    """Compute the gradients; those that are not needed are empty tensors."""
    arrays, threads = named(operator, tensors), thread_count(options.threads)
    gradients = of_operators().differentiate(
        operator, memory(upstream), arrays, options, needed, threads
    )
    return [
        tensor.new_empty(0) if gradient is None else laid_out(gradient, tensor, threads)
        for gradient, tensor in zip(gradients, tensors, strict=True)
    ]


def laid_out(gradient: Array, tensor: Tensor, threads: int) -> Tensor:
    """Return a gradient as a tensor with the strides of the one that it belongs to.

    Otherwise, autograd would copy that of a tensor whose channels come first once more, slowly.
    """
    result = torch.empty_like(tensor)
    if result.is_contiguous():
        return tensor_of(gradient, tensor.dtype)
    of_operators().copy_into(memory(result), gradient, threads)
    return result


# The operators ------------------------------------------------------------------------------------


class TorchOperator(NamedTuple):
    """What the derivatives of an operator need.

    Attributes:
        operator: the record.
        backend: the backend of tensors, for the composition.
        arrays: the number of arrays.
    """

    operator: Operator
    backend: Backend
    arrays: int

    def defined(self) -> Defined:
        """Return the operators of torch."""
        overloads = torch.ops.gridsample
        name = self.operator.name
        return Defined(
            getattr(overloads, name).default, getattr(overloads, f"{name}_backward").default
        )

    # The implementations, given the arguments of the operators

    def cpu(self, *arguments: Any) -> Tensor:
        """Compute the result for CPU tensors."""
        tensors, options = arguments[: self.arrays], arguments[self.arrays :]
        return compute(self.operator, tensors, options_of(self.operator, options))

    def cpu_backward(self, upstream: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Compute the gradients for CPU tensors."""
        tensors, needed, options = self.split(arguments)
        return tuple(differentiate(self.operator, upstream, tensors, options, needed))

    def cuda(self, *arguments: Any) -> Tensor:
        """Compute the result for CUDA tensors."""
        tensors, options = arguments[: self.arrays], arguments[self.arrays :]
        return cuda_operators.compute(self.operator, tensors, options_of(self.operator, options))

    def cuda_backward(self, upstream: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Compute the gradients for CUDA tensors."""
        tensors, needed, options = self.split(arguments)
        call = self.operator, upstream, tensors, options, needed
        return with_empty(tensors, cuda_operators.differentiate(*call))

    def fake(self, *arguments: Any) -> Tensor:
        """Allocate the result, for tensors without data."""
        check_target()
        tensors = arguments[: self.arrays]
        options = options_of(self.operator, arguments[self.arrays :])
        result: Tensor = tensors[0].new_empty(shape_of(self.operator, tensors, options))
        return result

    def fake_backward(self, upstream: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Allocate the gradients, for tensors without data."""
        check_target()
        tensors, needed = arguments[: self.arrays], arguments[self.arrays]
        return tuple(
            [
                torch.empty_like(tensor) if need else tensor.new_empty(0)
                for tensor, need in zip(tensors, needed, strict=True)
            ]
        )

    def autograd(self, keys: Any, *arguments: Any) -> Any:
        """Compute the result, recorded by autograd if necessary."""
        tensors, defined = arguments[: self.arrays], self.defined()
        if any(unpack(tensor).tangent is not None for tensor in tensors):
            options = options_of(self.operator, arguments[self.arrays :])
            return self.operator.composed(self.backend, tensors, options)
        if needs_gradient(*tensors):
            return apply_rule(Fused, *arguments, self, keys)
        return redispatch(defined.result, keys, *arguments)

    def autograd_backward(self, keys: Any, upstream: Tensor, *arguments: Any) -> Any:
        """Compute the gradients; by the composition if they are differentiated once more."""
        tensors, needed, options = self.split(arguments)
        if not needs_derivative(upstream, *tensors):
            return redispatch(self.defined().gradients, keys, upstream, *arguments)
        gradients = self.operator.composed_vjp(self.backend, upstream, tensors, options, needed)
        return with_empty(tensors, gradients)

    def split(self, arguments: Sequence[Any]) -> tuple[Sequence[Tensor], Needed, Any]:
        """Return the arrays, which gradients are needed, and the options."""
        n = self.arrays
        options = options_of(self.operator, arguments[n + 1 :])
        return arguments[:n], tuple(arguments[n]), options

    # Batches join the first axis of each array

    def batched(self, info: Any, axes: Any, *arguments: Any) -> Any:
        """Compute the results of a batch."""
        tensors = joined(info.batch_size, axes, arguments[: self.arrays])
        result = self.defined().result(*tensors, *arguments[self.arrays :])
        return torch.unflatten(result, 0, (info.batch_size, -1)), 0

    def batched_backward(self, info: Any, axes: Any, *arguments: Any) -> Any:
        """Compute the gradients of a batch; an array that it shares has one for each entry."""
        n, needed = self.arrays + 1, arguments[self.arrays + 1]
        tensors = joined(info.batch_size, axes, arguments[:n])
        gradients = self.defined().gradients(*tensors, *arguments[n:])
        results = [
            torch.unflatten(gradient, 0, (info.batch_size, -1)) if need else gradient
            for gradient, need in zip(gradients, needed, strict=True)
        ]
        return tuple(results), tuple([0 if need else None for need in needed])


def with_empty(tensors: Sequence[Tensor], gradients: Sequence[Maybe]) -> tuple[Tensor, ...]:
    """Return gradients, with empty tensors in place of those that are not needed."""
    return tuple(
        [
            tensor.new_empty(0) if gradient is None else gradient
            for gradient, tensor in zip(gradients, tensors, strict=True)
        ]
    )


def joined(batch: int, axes: Sequence[Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Join the axis of a batch with the first axis of each tensor."""
    moved = [
        tensor.expand(batch, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        for tensor, axis in zip(tensors, axes, strict=False)
    ]
    return [tensor.flatten(0, 1) for tensor in moved]


class Fused(Function):
    """The first derivatives of a fused operator."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        """Compute the operator; the last arguments are a `TorchOperator` and dispatch keys."""
        *inputs, rule, keys = arguments
        ctx.save_for_backward(*inputs[: rule.arrays])
        ctx.set_materialize_grads(False)
        ctx.options, ctx.rule, ctx.count = inputs[rule.arrays :], rule, len(arguments)
        return redispatch_forward(rule.defined().result, keys, *inputs)

    @staticmethod
    def backward(ctx: Any, upstream: Maybe) -> Any:
        """Compute all gradients in one sweep."""
        rule = ctx.rule
        needed = ctx.needs_input_grad[: rule.arrays]
        if upstream is None or not any(needed):
            return (None,) * ctx.count
        call = rule.defined().gradients
        gradients = call(upstream, *ctx.saved_tensors, list(needed), *ctx.options)
        return *only_needed(gradients, needed), *(None,) * (ctx.count - rule.arrays)


def define(operator: Operator, backend: Backend) -> None:
    """Define the operators of torch for an operator."""
    rule, name = TorchOperator(operator, backend, len(operator.arrays)), operator.name
    backward = f"{name}_backward"
    for schema in schemas_of(operator):
        LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    LIBRARY.impl(name, rule.cpu, "CPU")
    LIBRARY.impl(backward, rule.cpu_backward, "CPU")
    if name in NAMES and cuda.DEVICES:
        LIBRARY.impl(name, rule.cuda, "CUDA")
        LIBRARY.impl(backward, rule.cuda_backward, "CUDA")
    LIBRARY.impl(name, rule.autograd, "Autograd", with_keyset=True)
    LIBRARY.impl(backward, rule.autograd_backward, "Autograd", with_keyset=True)
    torch.library.register_fake(f"gridsample::{name}", rule.fake, lib=LIBRARY)
    torch.library.register_fake(f"gridsample::{backward}", rule.fake_backward, lib=LIBRARY)
    torch.library.register_vmap(f"gridsample::{name}", rule.batched, lib=LIBRARY)
    torch.library.register_vmap(f"gridsample::{backward}", rule.batched_backward, lib=LIBRARY)
    defined = rule.defined()
    DEFINED[name] = Defined(traceable(defined.result), traceable(defined.gradients))


def has_program(operator: Operator, tensors: Sequence[Tensor], options: Any) -> bool:
    """Whether programs compute an operator for tensors."""
    devices = ("cpu", *cuda.DEVICES) if operator.name in NAMES else ("cpu",)
    return tensors[0].device.type in devices and operator.is_fused(options)


def call(operator: Operator, tensors: Sequence[Tensor], options: Any) -> Tensor:
    """Compute the result of an operator that has a program."""
    if is_eager_on_cpu(*tensors) and not needs_gradient(*tensors):
        return compute(operator, tensors, options)
    result: Tensor = DEFINED[operator.name].result(*tensors, *flat(options))
    return result


def call_vjp(
    operator: Operator, upstream: Tensor, tensors: Sequence[Tensor], options: Any, needed: Needed
) -> Sequence[Maybe]:
    """Compute the needed gradients of an operator that has a program."""
    gradients = DEFINED[operator.name].gradients(upstream, *tensors, list(needed), *flat(options))
    return only_needed(gradients, needed)
