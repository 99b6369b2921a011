"""Functions whose intermediate results are not kept for derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import checkpoint as checkpoints

from gridsample.backends.torch import derivatives, internals

Compute = Callable[[Sequence[Tensor], bool], Tensor]
Differentiate = Callable[[Tensor, Sequence[bool], Sequence[Tensor]], Sequence[Tensor | None]]


class CustomVjp(torch.autograd.Function):
    """A function that keeps only its arguments, and computes its gradients from them."""

    @staticmethod
    def forward(
        ctx: Any, compute: Compute, differentiate: Differentiate, *arrays: Tensor
    ) -> Tensor:
        """Compute the function, without a record of its operations."""
        ctx.save_for_backward(*arrays)
        ctx.differentiate = differentiate
        return compute(arrays, True)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Compute the gradients of the arrays that need one."""
        needed = ctx.needs_input_grad[2:]
        return None, None, *ctx.differentiate(upstream, needed, ctx.saved_tensors)


def custom_vjp(compute: Compute, differentiate: Differentiate, arrays: Sequence[Tensor]) -> Tensor:
    """Compute a function of tensors; see `gridsample.backends.base.Backend.custom_vjp`."""
    if internals.is_observed():
        return compute(arrays, False)
    if not derivatives.needs_gradient(*arrays):
        with torch.no_grad():
            return compute(arrays, True)
    result: Tensor = CustomVjp.apply(compute, differentiate, *arrays)  # type: ignore[no-untyped-call]
    return result


def checkpoint(function: Callable[..., Tensor], arrays: Sequence[Tensor]) -> Tensor:
    """Compute a function of tensors; see `gridsample.backends.base.Backend.checkpoint`."""
    if internals.is_observed() or not torch.is_grad_enabled():
        return function(*arrays)
    result: Tensor = checkpoints.checkpoint(function, *arrays, use_reentrant=False)
    return result
