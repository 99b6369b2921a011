"""Operators that are linear in their only tensor, and whose derivatives are calls of the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.derivatives import needs_derivative
from gridsample.backends.torch.internals import SingleLevelFunction as Function
from gridsample.backends.torch.internals import (
    apply_rule,
    forward_gradients,
    redispatch,
    redispatch_forward,
)
from gridsample.backends.torch.operators import LIBRARY

Compute = Callable[..., Tensor]
Transpose = Callable[[tuple[Any, ...], torch.Size], tuple[Any, ...]]


def define(schema: str, cpu: Compute, fake: Compute, transpose: Transpose, batched: Compute) -> Any:
    """Define an operator of torch, and return it.

    Args:
        schema: its schema, which begins with its name.
        cpu: computes it for CPU tensors.
        fake: allocates its output, for tensors without data.
        transpose: returns the options of the transpose from those of a call and the image's shape.
        batched: computes it for a batch, whose axis comes first.
    """
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    name = schema.partition("(")[0]
    operator = getattr(torch.ops.gridsample, name).default

    def autograd(keys: Any, image: Tensor, *options: Any) -> Any:
        if needs_derivative(image):
            return apply_rule(Linear, image, options, (operator, transpose), keys)
        return redispatch(operator, keys, image, *options)

    def of_batch(info: Any, axes: Any, image: Tensor, *options: Any) -> Any:
        return batched(image.movedim(axes[0], 0), *options), 0

    LIBRARY.impl(name, cpu, "CPU")
    LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"gridsample::{name}", fake, lib=LIBRARY)
    torch.library.register_vmap(f"gridsample::{name}", of_batch, lib=LIBRARY)
    return operator


class Linear(Function):
    """The derivatives of an operator."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, options: Any, rule: Any, keys: Any) -> Any:
        """Compute the operator; ``rule`` is that, and how its options are transposed."""
        ctx.dtype, ctx.shape, ctx.options, ctx.rule = image.dtype, image.shape, options, rule
        ctx.set_materialize_grads(False)
        return redispatch_forward(rule[0], keys, image, *options)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Apply the transpose."""
        if upstream is None:
            return (None,) * 4
        operator, transpose = ctx.rule
        options = transpose(ctx.options, ctx.shape)
        return operator(upstream, *options).to(ctx.dtype), *(None,) * 3

    @staticmethod
    def jvp(ctx: Any, along: Tensor | None, *_: Any) -> Any:
        """Compute the tangent."""
        with forward_gradients(True):  # outer transforms need it
            return None if along is None else ctx.rule[0](along, *ctx.options)
