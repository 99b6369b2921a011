"""Fused operators of CUDA tensors, computed by the programs of `gridsample.kernels.gpu.operators`.

As in `cuda`, the functions also accept CPU tensors, for Triton's interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch.cuda import exact_sums, launch_options, on_device
from gridsample.definitions.operators import Operator
from gridsample.kernels.gpu import collect
from gridsample.kernels.gpu.operators import Context, Total
from gridsample.kernels.gpu.programs import programs_of

Maybe = Tensor | None


class FusedCall:
    """A call of an operator.

    Args:
        operator: its record.
        tensors: the arrays.
        options: its options.
    """

    def __init__(self, operator: Operator, tensors: Sequence[Tensor], options: Any) -> None:
        self.operator, self.options = operator, options
        detached = [tensor.detach() for tensor in tensors]
        self.arrays = dict(zip(operator.names, detached, strict=True))
        self.sizes = operator.sizes([tensor.shape for tensor in tensors])
        self.programs = programs_of(operator.name)
        wide = any(tensor.dtype == torch.float64 for tensor in tensors)
        self.real = torch.float64 if wide else torch.float32
        self.like = detached[0]
        launch = launch_options(self.like)
        self.context = Context(launch, functools.partial(self.like.new_empty, dtype=self.real))

    def is_empty(self) -> bool:
        """Whether some array has no numbers."""
        return not all(tensor.numel() for tensor in self.arrays.values())

    def result(self) -> Tensor:
        """Compute the result."""
        shape = self.operator.shape(self.sizes, self.options)
        memory = self.like.new_full(shape, self.programs.INITIAL, dtype=self.real)
        if memory.numel() and not self.is_empty():
            total = self.total("result", memory)
            with on_device(self.like):
                self.programs.compute(self.arrays, self.options, total, self.context)
                memory = self.collected(total)
        return memory.to(self.like.dtype)

    def gradients(self, upstream: Tensor, needed: Needed) -> list[Maybe]:
        """Compute the needed gradients."""
        given = {**self.arrays, "upstream": upstream.detach()}
        totals = {
            name: self.total(name, torch.zeros_like(tensor, dtype=self.real))
            for (name, tensor), need in zip(self.arrays.items(), needed, strict=True)
            if need
        }
        if totals and upstream.numel() and not self.is_empty():
            if self.operator.reads_result:
                given["result"] = self.result()
            with on_device(self.like):
                self.programs.differentiate(given, self.options, totals, self.context)
        return [
            self.collected(totals[name]).to(tensor.dtype) if name in totals else None
            for name, tensor in self.arrays.items()
        ]

    def total(self, name: str, memory: Tensor) -> Total:
        """Return where values of the result, or of a gradient, go.

        Under torch's deterministic algorithms, sums whose order varies are sums of integers.
        """
        additions = self.programs.additions(name, self.sizes, self.options)
        if not additions or not torch.are_deterministic_algorithms_enabled():
            return Total(memory)
        memory = memory.contiguous()
        return Total(memory, exact_sums(memory, additions))

    def collected(self, total: Total) -> Tensor:
        """Return the tensor of a total after all additions."""
        memory: Tensor = total.memory
        if total.sums is None:
            return memory
        result = torch.empty_like(memory)
        collect(total.sums, memory, result, options=self.context.launch)
        return result


def compute(operator: Operator, tensors: Sequence[Tensor], options: Any) -> Tensor:
    """Compute the result of an operator."""
    return FusedCall(operator, tensors, options).result()


def differentiate(
    operator: Operator, upstream: Tensor, tensors: Sequence[Tensor], options: Any, needed: Needed
) -> list[Maybe]:
    """Compute the needed gradients of an operator."""
    return FusedCall(operator, tensors, options).gradients(upstream, needed)
