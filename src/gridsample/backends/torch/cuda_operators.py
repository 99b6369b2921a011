"""Fused operators of CUDA tensors, computed by the kernels of `gridsample.kernels.gpu.operators`.

As in `cuda`, the functions also accept CPU tensors, for Triton's interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch.cuda import exact_sums, launch_options, on_device
from gridsample.backends.torch.operators import numpy_type
from gridsample.definitions.operators import SumOptions
from gridsample.kernels.gpu import collect, operators

Maybe = Tensor | None


class SumLevel(NamedTuple):
    """One level of weighted sums.

    Attributes:
        number: its number.
        pixels: its pixels in the images.
        call: what its sums are.
    """

    number: int
    pixels: slice
    call: operators.SumCall

    def part(self, tensors: Sequence[Maybe]) -> Sequence[Maybe]:
        """Return its part of tensors like the images, the points and the weights."""
        images, points, weights = tensors
        return (
            None if images is None else images[:, self.pixels],
            None if points is None else points[:, :, :, self.number],
            None if weights is None else weights[:, :, :, self.number],
        )


def levels_of(tensors: Sequence[Tensor], options: SumOptions) -> Iterator[SumLevel]:
    """Yield the levels of weighted sums."""
    images, queries, begin = tensors[0], tensors[1].shape[1], 0
    types = numpy_type(images.dtype, "images"), numpy_type(real_of(tensors), "real")
    for number, size in enumerate(options.levels()):
        plan = operators.sum_plan(options, size, tuple(images.shape), queries, *types)
        pixels = slice(begin, begin + math.prod(size))
        yield SumLevel(
            number, pixels, operators.SumCall(plan, options.coords == "unit", number > 0)
        )
        begin = pixels.stop


def real_of(tensors: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype of sums."""
    wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if wide else torch.float32


def compute_sums(tensors: Sequence[Tensor], options: SumOptions) -> Tensor:
    """Compute the result of `gridsample.operators.weighted_sum`."""
    images, points, _ = tensors = [tensor.detach() for tensor in tensors]
    items, queries, heads = points.shape[:3]
    shape = items, queries, heads, images.shape[3]
    out = images.new_empty(shape, dtype=real_of(tensors))
    if not out.numel() or not all(tensor.numel() for tensor in tensors):
        return out.zero_().to(images.dtype)
    launch = launch_options(images)
    with on_device(images):
        for level in levels_of(tensors, options):
            arrays = operators.SumArrays(*level.part(tensors))
            operators.weighted_sum(level.call, arrays, out, options=launch)
    return out.to(images.dtype)


def differentiate_sums(
    upstream: Tensor, tensors: Sequence[Tensor], options: SumOptions, needed: Needed
) -> list[Maybe]:
    """Compute the needed gradients of `gridsample.operators.weighted_sum`."""
    tensors, real = [tensor.detach() for tensor in tensors], real_of(tensors)
    gradients = [
        torch.zeros_like(tensor, dtype=real) if need else None
        for tensor, need in zip(tensors, needed, strict=True)
    ]
    if any(needed) and all(tensor.numel() for tensor in (upstream, *tensors)):
        with on_device(upstream):
            for level in levels_of(tensors, options):
                differentiate_level(level, upstream.detach(), tensors, gradients)
    return [
        None if gradient is None else gradient.to(tensor.dtype)
        for gradient, tensor in zip(gradients, tensors, strict=True)
    ]


def differentiate_level(
    level: SumLevel, upstream: Tensor, tensors: Sequence[Tensor], gradients: Sequence[Maybe]
) -> None:
    """Compute the gradients of one level.

    Under torch's deterministic algorithms, that of the pixels is a sum of integers.
    """
    launch, arrays = launch_options(upstream), operators.SumArrays(*level.part(tensors))
    targets = operators.SumGradients(*level.part(gradients))
    call = level.call, upstream, arrays
    if targets.image is None or not torch.are_deterministic_algorithms_enabled():
        operators.weighted_sum_backward(*call, targets, options=launch)
        return
    wide = torch.zeros_like(targets.image, memory_format=torch.contiguous_format)
    sums = exact_sums(level.call.plan, wide, arrays.points.shape[3])
    own = targets._replace(image=wide)
    operators.weighted_sum_backward(*call, own, sums=sums, options=launch)
    total = torch.empty_like(wide)
    collect(sums, wide, total, options=launch)
    targets.image.copy_(total)


class Programs(NamedTuple):
    """The functions that compute an operator: its result, and its gradients."""

    result: Callable[[Sequence[Tensor], Any], Tensor]
    gradients: Callable[[Tensor, Sequence[Tensor], Any, Needed], Sequence[Maybe]]


# By the name of the operator.
PROGRAMS = {"weighted_sum": Programs(compute_sums, differentiate_sums)}
