"""The prefilter of B-splines for tensors: one operator, which is also its own derivative.

    prefilter(input, order, extended, axes, adjoint)

It is linear in the input.  ``extended`` determines how lines along ``axes`` are extended
(`gridsample.kernels.spline`).  The transpose is the same operator with the opposite ``adjoint``.
Sums are computed in float64 or float32, which is also the dtype of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.fast_path import TYPES
from gridsample.backends.torch.linear import define
from gridsample.backends.torch.operators import (
    LIBRARY,
    empty,
    memory,
    numpy_type,
    thread_count,
)
from gridsample.backends.torch.traced import traceable
from gridsample.definitions.dtypes import WIDE_TYPES, check_image_type, type_name
from gridsample.kernels.spline import coefficients

Options = tuple[Any, ...]


# Computation --------------------------------------------------------------------------------------


def cpu_prefilter(
    image: Tensor,
    order: int,
    extended: Sequence[str],
    axes: Sequence[int],
    adjoint: bool,
    threads: int | None = None,
) -> Tensor:
    """Prefilter CPU tensors."""
    result = fake_prefilter(image)
    coefficients(
        memory(image),
        order,
        extended,
        axes,
        memory(result),
        adjoint=adjoint,
        threads=thread_count(threads),
    )
    return result


@functools.lru_cache(maxsize=8)
def matrix(
    n: int, order: int, extended: str, adjoint: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Compute the filter of lines of n entries as a matrix."""
    identity = torch.eye(n, dtype=torch.float64)
    return cpu_prefilter(identity, order, [extended], [0], adjoint).to(device, dtype)


def prefilter_by_matrices(
    image: Tensor,
    order: int,
    extended: Sequence[str],
    axes: Sequence[int],
    adjoint: bool,
    threads: int | None = None,
) -> Tensor:
    """Prefilter on a device that multiplies matrices faster than it evaluates recursions."""
    result = fake_prefilter(image).copy_(image)
    for axis, extension in zip(axes, extended, strict=True) if order > 1 else ():
        weights = matrix(result.shape[axis], order, extension, adjoint, result.dtype, result.device)
        result = result.copy_(torch.tensordot(weights, result, ([1], [axis])).movedim(0, axis))
    return result


def fake_prefilter(image: Tensor, *options: Any) -> Tensor:
    """Allocate the output of prefilter, for tensors without data."""
    check_image_type(numpy_type(image.dtype, "input"))
    real = torch.float64 if type_name(TYPES[image.dtype]) in WIDE_TYPES else torch.float32
    dtype = real.to_complex() if image.is_complex() else real
    if image.dim() < 2:
        return torch.empty(image.shape, dtype=dtype, device=image.device)
    return empty(image.shape, image, dtype)


# The operator -------------------------------------------------------------------------------------


def transposed_options(options: Options, shape: torch.Size) -> Options:
    """The options of the transpose."""
    order, extended, axes, adjoint, *threads = options
    return order, extended, axes, not adjoint, *threads


def batched_prefilter(
    image: Tensor, order: int, extended: Any, axes: Sequence[int], *options: Any
) -> Tensor:
    """Prefilter a batch, which is an additional axis without a filter."""
    result: Tensor = operator(image, order, extended, [axis + 1 for axis in axes], *options)
    return result


operator = define(
    "prefilter(Tensor input, int order, str[] extended, int[] axes, bool adjoint, "
    "int? threads=None) -> Tensor",
    cpu_prefilter,
    fake_prefilter,
    transposed_options,
    batched_prefilter,
)
LIBRARY.impl("prefilter", prefilter_by_matrices, "CUDA")
prefilter = traceable(operator)
