"""Checks of fused operators on tensors: gradients, transforms, and compilers of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


def leaves(tensors: Sequence[Any]) -> list[Any]:
    """Copies that need gradients."""
    return [tensor.clone().requires_grad_() for tensor in tensors]


def close(actual: Any, expected: Any, limit: float = 1e-11) -> None:
    torch.testing.assert_close(actual, expected, rtol=limit, atol=limit)


def check_gradients(operator: Function, plain: Function, tensors: Sequence[Any]) -> None:
    """The result and the gradients of an operator are those of a plain version."""
    given, reference = leaves(tensors), leaves(tensors)
    result, expected = operator(*given), plain(*reference)
    close(result, expected)
    upstream = torch.randn_like(expected)
    result.backward(upstream)
    expected.backward(upstream)
    for tensor, other in zip(given, reference, strict=True):
        close(tensor.grad, other.grad)


def check_derivatives(operator: Function, tensors: Sequence[Any]) -> None:
    """First and second derivatives, forward and reverse, along random directions."""
    fast: dict[str, Any] = {"fast_mode": True}
    assert torch.autograd.gradcheck(operator, leaves(tensors), check_forward_ad=True, **fast)
    assert torch.autograd.gradgradcheck(operator, leaves(tensors), check_fwd_over_rev=True, **fast)


def check_compilers(operator: Function, tensors: Sequence[Any], nodes: Sequence[str]) -> None:
    """Compiled and exported programs contain the operators ``nodes``, with the same numbers."""
    compiled = torch.compile(operator, fullgraph=True, backend="aot_eager")
    given, reference = leaves(tensors), leaves(tensors)
    compiled(*given).square().sum().backward()
    operator(*reference).square().sum().backward()
    for tensor, other in zip(given, reference, strict=True):
        close(tensor.grad, other.grad)

    class Model(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return operator(*tensors)

    program = torch.export.export(Model(), tuple(tensors))
    names = [str(node.target) for node in program.graph.nodes if "gridsample" in str(node.target)]
    assert names == [f"gridsample.{name}.default" for name in nodes]
    close(program.module()(*tensors), operator(*tensors))
