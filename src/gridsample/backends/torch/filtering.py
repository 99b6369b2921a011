"""The prefilter of B-splines for tensors: one operator, which is also its own derivative.

    prefilter(input, order, extended, axes, adjoint)

It is linear in the input.  ``extended`` determines how lines along ``axes`` are extended
(`gridsample.kernels.spline`).  The transpose is the same operator with the opposite ``adjoint``.
Sums are computed in float64 or float32, which is also the dtype of the result; see `COEFFICIENTS`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.derivatives import tracked
from gridsample.backends.torch.fast_path import TYPES
from gridsample.backends.torch.internals import SingleLevelFunction as Function
from gridsample.backends.torch.internals import below, forward_gradients, inside, recorded
from gridsample.backends.torch.operators import (
    LIBRARY,
    count,
    empty,
    memory,
    numpy_type,
)
from gridsample.backends.torch.traced import traceable
from gridsample.definitions.plan import WIDE_TYPES, check_image_type, type_name
from gridsample.kernels.spline import coefficients

LIBRARY.define(
    "prefilter(Tensor input, int order, str[] extended, int[] axes, bool adjoint, "
    "int? threads=None) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
operator = torch.ops.gridsample.prefilter.default
prefilter = traceable(operator)

Options = tuple[Any, ...]


# The dtypes of the coefficients, and the corresponding real dtypes.
REALS = {
    dtype: torch.float64 if type_name(array) in WIDE_TYPES else torch.float32
    for dtype, array in TYPES.items()
}
COEFFICIENTS = {
    dtype: real.to_complex() if dtype.is_complex else real for dtype, real in REALS.items()
}


# Computation --------------------------------------------------------------------------------------


def cpu_prefilter(
    image: Tensor, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool,
    threads: int | None = None,
) -> Tensor:  # fmt: skip
    """Prefilter CPU tensors."""
    result = fake_prefilter(image)
    coefficients(
        memory(image), order, extended, axes, memory(result),
        adjoint=adjoint, threads=count(threads),
    )  # fmt: skip
    return result


@functools.lru_cache(maxsize=8)
def matrix(
    n: int, order: int, extended: str, adjoint: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Compute the filter of lines of n entries as a matrix."""
    identity = torch.eye(n, dtype=torch.float64)
    return cpu_prefilter(identity, order, [extended], [0], adjoint).to(device, dtype)


def prefilter_by_matrices(
    image: Tensor, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool,
    threads: int | None = None,
) -> Tensor:  # fmt: skip
    """Prefilter on a device that multiplies matrices faster than it evaluates recursions."""
    result = fake_prefilter(image).copy_(image)
    for axis, extension in zip(axes, extended, strict=True) if order > 1 else ():
        weights = matrix(result.shape[axis], order, extension, adjoint, result.dtype, result.device)
        result = result.copy_(torch.tensordot(weights, result, ([1], [axis])).movedim(0, axis))
    return result


def fake_prefilter(image: Tensor, *options: Any) -> Tensor:
    """Allocate the output of prefilter, for tensors without data."""
    check_image_type(numpy_type(image.dtype, "input"))
    dtype = COEFFICIENTS[image.dtype]
    if image.dim() < 2:
        return torch.empty(image.shape, dtype=dtype, device=image.device)
    return empty(image.shape, image, dtype)


# Derivatives and batches --------------------------------------------------------------------------


class Prefilter(Function):
    """The derivatives of prefilter."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, options: Options, keys: Any) -> Any:
        """Compute prefilter."""
        ctx.dtype, ctx.options = image.dtype, options
        ctx.set_materialize_grads(False)
        return inside(operator, keys, image, *options)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Apply the transpose."""
        if upstream is None:
            return None, None, None
        *options, adjoint, threads = ctx.options
        return operator(upstream, *options, not adjoint, threads).to(ctx.dtype), None, None

    @staticmethod
    def jvp(ctx: Any, along: Tensor | None, *_: Any) -> Any:
        """Compute the tangent; prefilter is linear."""
        with forward_gradients(True):  # outer transforms need it
            return None if along is None else operator(along, *ctx.options)


def autograd_prefilter(
    keys: Any, image: Tensor, order: int, extended: Any, axes: Any, adjoint: bool,
    threads: int | None = None,
) -> Any:  # fmt: skip
    """Call prefilter, recorded by autograd if necessary."""
    options = order, extended, axes, adjoint, threads
    if tracked(image):
        return recorded(Prefilter, image, options, keys)
    return below(operator, keys, image, *options)


def batched_prefilter(
    info: Any, at: Any, image: Tensor, order: int, extended: Any, axes: Sequence[int], *options: Any
) -> Any:
    """Prefilter a batch, which is an additional axis without a filter."""
    image = image.movedim(at[0], 0)
    return operator(image, order, extended, [a + 1 for a in axes], *options), 0


LIBRARY.impl("prefilter", cpu_prefilter, "CPU")
LIBRARY.impl("prefilter", prefilter_by_matrices, "CUDA")
LIBRARY.impl("prefilter", autograd_prefilter, "Autograd", with_keyset=True)
torch.library.register_fake("gridsample::prefilter", fake_prefilter, lib=LIBRARY)
torch.library.register_vmap("gridsample::prefilter", batched_prefilter, lib=LIBRARY)
