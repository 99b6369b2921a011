"""PyTorch tensors: differentiable to any order, in every transform that torch has.

Operators are registered with torch (`operators`, and `filtering` for splines), each with rules for
derivatives (`derivatives`) and for batches (`batching`).  Here is how the public functions call
them, with what they are asked for (`asked`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch import batching, derivatives, elsewhere, onnx, operators  # noqa: F401
from gridsample.backends.torch.affine import affine_grid, affine_sample, affine_sample_vjp
from gridsample.backends.torch.asked import (
    as_fill,
    as_grid,
    check_call,
    check_tensors,
    keyed,
    prepare,
)
from gridsample.backends.torch.contacts import shape_of
from gridsample.backends.torch.elsewhere import by_cpu, is_elsewhere
from gridsample.backends.torch.filtering import REALS, prefilter, spline_filter
from gridsample.backends.torch.operators import How
from gridsample.backends.torch.traced import traceable
from gridsample.backends.torch.transpose import splat, splat_count
from gridsample.definitions.options import Options
from gridsample.definitions.plan import check_flag, check_grid_gradient, check_threads

__all__ = [
    "affine_grid",
    "affine_sample",
    "affine_sample_vjp",
    "grid_derivatives",
    "grid_sample",
    "grid_sample_vjp",
    "splat",
    "splat_count",
    "spline_filter",
]


# Sampling, without a look for a shorter way.
gather: Callable[..., Tensor] = traceable(operators.gather)


# The functions ------------------------------------------------------------------------------------


def grid_sample(
    image: Tensor, grid: Tensor, options: Options, return_mask: bool = False, out: Any = None
) -> Any:
    """`gridsample.grid_sample` for tensors."""
    threads = options.threads
    check_threads(threads)
    masked = check_flag(return_mask, "return_mask")
    if out is not None:
        raise TypeError("out is taken with NumPy arrays only; tensors get a new tensor")
    call, plain = None, operators.is_plain(image, grid)
    if not plain:
        check_tensors(input=image, grid=grid)
        if is_elsewhere(image):
            found = None if masked else elsewhere.grid_sample(image, grid, options)
            return by_cpu(grid_sample, image, grid, options, masked) if found is None else found
    if not grid.is_floating_point():
        grid = as_grid(grid, options)
    if plain:
        asked, call = prepare(image.shape, image.dtype, grid.shape, grid.dtype, *keyed(options))
    else:
        asked = check_call(shape_of(image), shape_of(grid), options)
    how = asked.how if threads is None else asked.how.changed(threads=threads)
    if options.fill_value.__class__ is not int or options.fill_value:
        how = how.changed(fill=as_fill(image, options, asked))
    last = asked.last
    planes = image.movedim(-1, 1) if last else image
    if asked.orders:
        result = sample_spline(planes, grid, asked.orders, how)
    elif call is not None:
        result = derivatives.plain_gather(planes, grid, how, call)
    else:
        result = find_sampler()(planes, grid, *how)
    result = result.movedim(1, -1) if last else result
    return (result, share_inside(planes, grid, how, last)) if masked else result


def find_sampler() -> Callable[..., Tensor]:
    """What samples an image: a kernel, or a node of the model that is being written."""
    return onnx.gather_as_node if onnx.exporting() else gather


def sample_spline(image: Tensor, grid: Tensor, orders: Sequence[int], how: How) -> Tensor:
    """Sample the spline that meets an image."""
    result = find_sampler()(prefilter(image, grid, orders, how), grid, *how)
    if operators.differentiable(image):
        return result.to(image.dtype)
    return operators.as_integers(result, image.dtype, how.fill)


def share_inside(image: Tensor, grid: Tensor, how: How, last: bool) -> Tensor:
    """The share of each point's weight that is on an image: a sample of ones among zeros."""
    wide = torch.float64 in (REALS[image.dtype], grid.dtype)
    one = torch.ones((), dtype=torch.float64 if wide else torch.float32, device=image.device)
    how = how.changed(padding_mode=("constant",) * len(how.mode), fill=())
    mask = find_sampler()(one.expand(1, 1, *image.shape[2:]), grid, *how)
    mask = torch.where(mask.isnan(), 0, mask)  # a point that is nowhere
    return mask.movedim(1, -1) if last else mask


def grid_sample_vjp(
    grad_output: Tensor, image: Tensor, grid: Tensor, options: Options, need_input: bool = True,
    need_grid: bool = True,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """`gridsample.grid_sample_vjp` for tensors; the gradients can be differentiated again."""
    check_threads(options.threads)
    check_tensors(grad_output=grad_output, input=image, grid=grid)
    given, grid = grid, as_grid(grid, options)
    check_grid_gradient(given.dtype, need_grid and grid is not given)
    asked = check_call(shape_of(image), shape_of(grid), options)
    if is_elsewhere(image):
        needed = need_input, need_grid
        found = by_cpu(grid_sample_vjp, grad_output, image, given, options, *needed)
        return found  # type: ignore[no-any-return]
    if grad_output.dim() != grid.dim():
        raise ValueError(
            f"grad_output must have the output's {grid.dim()} dimensions, "
            f"got shape {tuple(grad_output.shape)}"
        )
    if need_input:
        operators.check_differentiable(image)
    if image.is_complex() and grad_output.is_floating_point():
        grad_output = grad_output.to(grad_output.dtype.to_complex())
    how = asked.how.changed(threads=options.threads, fill=as_fill(image, options, asked))
    last, filtered = asked.last, bool(asked.orders)
    values, planes = (tensor.movedim(-1, 1) if last else tensor for tensor in (grad_output, image))
    source = prefilter(planes, grid, asked.orders, how) if filtered else planes
    first, second = derivatives.backward(values, source, grid, need_input, need_grid, *how)
    if need_input and filtered:
        first = prefilter(first, grid, asked.orders, how, adjoint=True).to(image.dtype)
    if last and need_input:
        first = first.movedim(1, -1)
    return first if need_input else None, second if need_grid else None


def grid_derivatives(image: Tensor, grid: Tensor, options: Options, degree: int) -> Tensor:
    """All derivatives of one degree of a sample along its coordinates, on ``degree`` more axes.

    `gridsample.grid_gradient` and `gridsample.grid_hessian` for tensors.  The gradient of one real
    channel is what backward makes of ones, all axes in one sweep.
    """
    check_threads(options.threads)
    check_tensors(input=image, grid=grid)
    grid = as_grid(grid, options)
    if is_elsewhere(image):
        return by_cpu(grid_derivatives, image, grid, options, degree)  # type: ignore[no-any-return]
    asked = check_call(shape_of(image), shape_of(grid), options)
    how = asked.how.changed(threads=options.threads, fill=as_fill(image, options, asked))
    planes = image.movedim(-1, 1) if asked.last else image
    operators.numpy_type(image.dtype, "input")
    rank, kind = grid.shape[-1], torch.promote_types(image.dtype, grid.dtype)
    if asked.orders:
        planes = prefilter(planes, grid, asked.orders, how)
    if degree == 1 and planes.shape[1] == 1 and kind == grid.dtype:
        items = grid.shape[0] if planes.shape[0] == 1 else planes.shape[0]
        points = grid.expand(items, *grid.shape[1:])
        ones = torch.ones((), dtype=kind, device=grid.device).expand(items, 1, *grid.shape[1:-1])
        gradient: Tensor = derivatives.backward(ones, planes, points, False, True, *how)[1]
        result = gradient.unsqueeze(1)
    else:
        single = [(a,) for a in range(rank)]
        every: Any = single if degree == 1 else [(*j, *k) for j in single for k in single]
        parts = {}
        for axes in {tuple(sorted(axes)) for axes in every}:
            # torch.compile cannot follow a tuple's count before torch 2.9, nor itertools.product.
            order = [sum([axis == a for axis in axes]) for a in range(rank)]
            parts[axes] = derivatives.gather(planes, grid, *how.changed(order=order))
        result = torch.stack([parts[tuple(sorted(axes))] for axes in every], -1)
        result = torch.unflatten(result, -1, (rank,) * degree).to(kind)
    return result.movedim(1, -1 - degree) if asked.last else result
