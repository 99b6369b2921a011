"""Sampling tensors under affine maps, of which no grid is made where that can be avoided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gridsample.backends.torch import contacts, cuda, derivatives, operators
from gridsample.backends.torch.asked import Asked, as_fill, check_call, check_tensors
from gridsample.backends.torch.elsewhere import by_cpu, is_elsewhere
from gridsample.backends.torch.filtering import prefilter
from gridsample.backends.torch.operators import (
    Call,
    How,
    call_for,
    check_values,
    count,
    differentiable,
    empty,
    fill_of,
    memory,
    tensor_of,
)
from gridsample.definitions.options import Options
from gridsample.definitions.plan import check_output, check_theta, check_threads, coordinates
from gridsample.kernels import on_cpu

Size = Sequence[int]

MAP_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def affine_grid(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`gridsample.affine_grid` for tensors: differentiable in theta.

    In a trace the sizes may be tensors, and the program that is made is one for any such size.
    """
    traced = contacts.is_tracing()
    given = tuple(size) if traced else size
    shape = check_output([contacts.known(n) for n in given] if traced else given, 3, 5)
    check_theta(contacts.shape_of(theta), shape)
    if theta.dtype not in MAP_TYPES:
        raise TypeError(
            f"theta has dtype {theta.dtype}; accepted: float16, bfloat16, float32, float64"
        )
    out = given if traced else shape
    return grid_along(theta, [line(n, align_corners) for n in out[2:]])


def grid_along(theta: Tensor, lines: Sequence[Tensor]) -> Tensor:
    """The grid that maps make of an output's own coordinates along each axis, slowest first.

    The slowest axis comes first, so that nothing as large as the grid is made before the last sum.
    """
    rank = len(lines)
    real = torch.float64 if theta.dtype == torch.float64 else torch.float32
    *columns, grid = theta.to(real).reshape(-1, *(1,) * rank, rank, rank + 1).unbind(-1)
    for a, (column, steps) in enumerate(zip(columns[::-1], lines, strict=True)):
        along = steps.to(theta.device, real)
        grid = grid + column * along.reshape(-1, *(1,) * (rank - a))
    return grid.to(theta.dtype)


def line(n: Any, align_corners: bool) -> Tensor:
    """`plan.coordinates` as a tensor, of a size that may stand for one that is not known yet."""
    if isinstance(n, int):
        return torch.from_numpy(coordinates(n, align_corners))
    last = n - 1
    steps: Tensor = 2 * torch.arange(n, dtype=torch.float64) - last
    if not align_corners:
        return torch.div(steps, n)
    return torch.div(steps, last.clamp(min=1) if isinstance(last, Tensor) else max(last, 1))


def affine_sample(image: Tensor, theta: Tensor, out: Size, options: Options) -> Tensor:
    """`gridsample.affine_sample` for tensors; ``out`` is the output's spatial shape."""
    asked, how = ask(image, theta, out, options)
    if not can_fuse(image, theta, asked, how):
        from gridsample.backends.torch import grid_sample

        grid = grid_of(theta, out, how)
        sampled: Tensor = grid_sample(image, grid, options)
        return sampled
    planes = image.movedim(-1, 1) if asked.last else image
    source = prefilter(planes, theta, asked.orders, how) if asked.orders else planes
    if image.device.type == "cpu":
        call = find_call(source, theta, out, how)
        result: Tensor = Affine.apply(source, theta, tuple(out), how, call)  # type: ignore[no-untyped-call]
    else:
        size = len(theta), source.shape[1], *out
        result = cuda.affine(source, theta, size, *how[:3], how.fill)
    result = result.to(image.dtype)
    return result.movedim(1, -1) if asked.last else result


def affine_sample_vjp(
    grad_output: Tensor, image: Tensor, theta: Tensor, out: Size, options: Options,
    need_input: bool, need_theta: bool,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """`gridsample.affine_sample_vjp` for tensors; the gradients can be differentiated again."""
    check_tensors(grad_output=grad_output, input=image, theta=theta)
    asked, how = ask(image, theta, out, options)
    if is_elsewhere(image):
        given = grad_output, image, theta, out, options, need_input, need_theta
        return by_cpu(affine_sample_vjp, *given)  # type: ignore[no-any-return]
    if need_input:
        operators.check_differentiable(image)
    if grad_output.dim() != len(out) + 2:
        raise ValueError(
            f"grad_output must have the output's {len(out) + 2} dimensions, "
            f"got shape {tuple(grad_output.shape)}"
        )
    if image.is_complex() and grad_output.is_floating_point():
        grad_output = grad_output.to(grad_output.dtype.to_complex())
    values, planes = (t.movedim(-1, 1) if asked.last else t for t in (grad_output, image))
    source = prefilter(planes, theta, asked.orders, how) if asked.orders else planes
    needed = need_input, need_theta
    if operators.is_plain(values, source, theta):
        call = find_call(source, theta, out, how)
        check_values(values, call.plan, "grad_output")
        first, second = both_gradients(call, values, source, theta, out, how, *needed)
    else:
        first, second = gradients_by_grid(values, source, theta, out, how, *needed)
    if need_input and asked.orders:
        first = prefilter(first, theta, asked.orders, how, adjoint=True).to(image.dtype)
    if need_input and asked.last:
        first = first.movedim(1, -1)
    return first if need_input else None, second if need_theta else None


def ask(image: Tensor, theta: Tensor, out: Size, options: Options) -> tuple[Asked, How]:
    """How a call samples, if its shapes go together and its options are such."""
    check_threads(options.threads)
    check_tensors(input=image, theta=theta)
    items, rank, _ = contacts.shape_of(theta)
    asked = check_call(contacts.shape_of(image), (items, *out, rank), options)
    fill = as_fill(image, options, asked)
    return asked, asked.how.changed(threads=options.threads, fill=fill)


def can_fuse(image: Tensor, theta: Tensor, asked: Asked, how: How) -> bool:
    """Whether a kernel makes the coordinates: for plain memory, of whatever it samples whole."""
    if not operators.is_plain_anywhere(image, theta) or (
        asked.orders and not differentiable(image)
    ):
        return False
    known = how.extrapolate and how.coords == "normalized"  # to the GPU's kernels
    return image.device.type == "cpu" or (image.device.type in cuda.DEVICES and known)


def find_call(image: Tensor, theta: Tensor, out: Size, how: How) -> Call:
    """The call for the grid that maps stand for, of which there is no more than the shape."""
    grid = theta.new_empty(()).expand(len(theta), *out, theta.shape[1])
    return call_for(image.shape, image, grid, *how)


def own_lines(out: Size, how: How) -> list[Tensor]:
    """The output's own coordinates along each of its axes, slowest first."""
    if how.coords == "pixel":
        return [torch.arange(n, dtype=torch.float64) for n in out]
    return [line(n, how.align_corners) for n in out]


def places(out: Size, how: How, like: Tensor) -> Tensor:
    """The output's own coordinates and 1, (points, D + 1)."""
    lines = [one.to(like.device, like.dtype) for one in own_lines(out, how)]
    axes = torch.meshgrid(*lines, indexing="ij")
    return torch.stack((*axes[::-1], torch.ones_like(axes[0])), -1).flatten(0, -2)


def grid_of(theta: Tensor, out: Size, how: How) -> Tensor:
    """The grid that maps stand for."""
    return grid_along(theta, own_lines(out, how))


def both_gradients(
    call: Call, values: Tensor, image: Tensor, theta: Tensor, out: Size, how: How,
    need_image: bool, need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The needed gradients; one that is not needed is empty."""
    given = values, image, theta
    if operators.is_plain(*given) and not derivatives.has_record(*given):
        return run_backward(call, values, image, theta, how, need_image, need_theta)
    return gradients_by_grid(*given, out, how, need_image, need_theta)


def gradients_by_grid(
    values: Tensor, image: Tensor, theta: Tensor, out: Size, how: How, need_image: bool,
    need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `both_gradients`, where they may be differentiated again or there is no plain memory.

    There sizes may not be known yet, either.
    """
    grid = grid_of(theta, out, how)
    first, second = derivatives.backward(values, image, grid, need_image, need_theta, *how)
    if need_theta:
        flat = second.flatten(1, -2)
        second = flat.mT @ places(out, how, flat)
    return first, second


def run_backward(
    call: Call, values: Tensor, image: Tensor, theta: Tensor, how: How, need_image: bool,
    need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Both gradients in one sweep, for CPU tensors."""
    if not values.numel():
        shapes = (image.shape if need_image else (0,)), (theta.shape if need_theta else (0,))
        return image.new_zeros(shapes[0]), theta.new_zeros(shapes[1])
    shadow, gradient = on_cpu().backward(
        call.plan, memory(values), memory(image), memory(theta.to(real_type(theta))),
        need_image=need_image, need_grid=need_theta, fill=fill_of(how.fill, call.plan),
        affine=True, dtype=call.plan.dtype, threads=count(how.threads),
    )  # fmt: skip
    return (
        image.new_empty(0) if shadow is None else tensor_of(shadow, image.dtype, image),
        theta.new_empty(0) if gradient is None else tensor_of(gradient, theta.dtype),
    )


def real_type(theta: Tensor) -> torch.dtype:
    """The type in which coordinates are made."""
    return torch.float64 if theta.dtype == torch.float64 else torch.float32


class Affine(Function):
    """The rules of sampling under maps, for CPU tensors of plain memory."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, theta: Tensor, out: Size, how: How, call: Call) -> Any:
        """Sample."""
        ctx.save_for_backward(image, theta)
        ctx.set_materialize_grads(False)
        ctx.given = out, how, call
        result = empty(call.plan.shape, image, call.dtype)
        if result.numel():
            on_cpu().gather(
                call.plan, memory(image), memory(theta.to(real_type(theta))), memory(result),
                fill=fill_of(how.fill, call.plan), affine=True, threads=count(how.threads),
            )  # fmt: skip
        return result

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Both gradients; by way of a grid, if they are to be differentiated again."""
        if upstream is None:
            return (None,) * 5
        image, theta = ctx.saved_tensors
        out, how, call = ctx.given
        needed = ctx.needs_input_grad[:2]
        results = both_gradients(call, upstream, image, theta, out, how, *needed)
        gradients = (one if need else None for one, need in zip(results, needed, strict=True))
        return (*gradients, None, None, None)
