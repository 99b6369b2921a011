"""Grids of affine maps, and sampling tensors under affine maps without a grid where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gridsample.backends import maps
from gridsample.backends.torch import cuda, derivatives, operators
from gridsample.backends.torch.operators import (
    Call,
    call_for,
    check_values,
    count,
    empty,
    fill_of,
    memory,
    tensor_of,
)
from gridsample.definitions.labels import has_labels
from gridsample.definitions.options import Options
from gridsample.definitions.plan import coordinates
from gridsample.kernels import on_cpu

Size = Sequence[int]


def line(n: Any, align_corners: bool | None) -> Tensor:
    """Compute `plan.coordinates` as a tensor; the size may be symbolic.

    If ``align_corners`` is None, the result is the indices.
    """
    if align_corners is None:
        return torch.arange(n, dtype=torch.float64)
    if isinstance(n, int):
        return torch.from_numpy(coordinates(n, align_corners))
    last = n - 1
    steps: Tensor = 2 * torch.arange(n, dtype=torch.float64) - last
    if not align_corners:
        return torch.div(steps, n)
    return torch.div(steps, last.clamp(min=1) if isinstance(last, Tensor) else max(last, 1))


def grid(theta: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Create the grid of affine maps, (N, *out, D); ``out`` may be symbolic."""
    return linear(Grid, maps.grid_along, theta, out, align_corners)


def gradient(by_grid: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Compute the gradient of maps from that of their grid: the transpose of `grid`."""
    return linear(GridGradient, maps.gradient_along, by_grid, out, align_corners)


def linear(rule: Any, compute: Any, array: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Call a linear function; autograd records the rule, or elsewhere the single operations."""
    from gridsample.backends.torch import BACKEND

    if derivatives.has_record(array) and operators.is_plain_anywhere(array):
        return rule.apply(array, tuple(out), align_corners)  # type: ignore[no-any-return]
    return compute(BACKEND, array, out, align_corners)  # type: ignore[no-any-return]


def sample(image: Tensor, theta: Tensor, out: Size, options: Options) -> Tensor:
    """Sample an image under affine maps; ``out`` is the output's spatial shape."""
    if image.device.type == "cpu":
        call = options.plan or find_call(image, theta, out, options)
        result: Tensor = Affine.apply(image, theta, tuple(out), options, call)  # type: ignore[no-untyped-call]
        return result
    return cuda.affine(image, theta, (len(theta), image.shape[1], *out), options)


def gradients(
    values: Tensor, image: Tensor, theta: Tensor, out: Size, options: Options,
    needed: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """Compute the needed gradients, which can be differentiated again."""
    call = find_call(image, theta, out, options)
    check_values(values, call.plan, "grad_output")
    first, second = both_gradients(call, values, image, theta, out, options, *needed)
    return first if needed[0] else None, second if needed[1] else None


def can_fuse(image: Tensor, theta: Tensor, options: Options, dtype: torch.dtype) -> bool:
    """Whether a kernel can compute the coordinates; not if samples are rounded to integers."""
    if not operators.is_plain_anywhere(image, theta) or (
        image.dtype != dtype and not (dtype.is_floating_point or dtype.is_complex)
    ):
        return False
    # The GPU kernels do not count the votes of footprints.
    known = options.footprint is None or not has_labels(options.mode)
    return image.device.type == "cpu" or (image.device.type in cuda.DEVICES and known)


def can_fuse_gradients(values: Tensor, image: Tensor, theta: Tensor, options: Options) -> bool:
    """Whether a kernel can compute the gradients from the maps."""
    return operators.is_plain_anywhere(values) and can_fuse(image, theta, options, image.dtype)


def find_call(image: Tensor, theta: Tensor, out: Size, options: Options) -> Call:
    """Find the call for the grid that maps represent; only the shape of the grid is used."""
    grid = theta.new_empty(()).expand(len(theta), *out, theta.shape[1])
    return call_for(image.shape, image, grid, options)


def both_gradients(
    call: Call, values: Tensor, image: Tensor, theta: Tensor, out: Size, options: Options,
    need_image: bool, need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute the needed gradients; a gradient that is not needed is empty."""
    tensors = values, image, theta
    if operators.is_plain(*tensors) and not derivatives.has_record(*tensors):
        return run_backward(call, values, image, theta, options, need_image, need_theta)
    if image.device.type in cuda.DEVICES and not derivatives.has_record(*tensors):
        needed = need_image, need_theta
        first, second = cuda.run_affine_backward(call, *tensors, needed, options.fill_value)
        return image.new_empty(0) if first is None else first, second
    return gradients_by_grid(*tensors, out, options, need_image, need_theta)


def gradients_by_grid(
    values: Tensor, image: Tensor, theta: Tensor, out: Size, options: Options, need_image: bool,
    need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute the needed gradients by way of a grid, with operators that are differentiable.

    This also works for tensors that are not plain, and for symbolic sizes.
    """
    from gridsample.backends.torch import BACKEND

    points = maps.through_grid(BACKEND, theta, out, options)
    first, second = derivatives.backward(
        points.extend(values), image, points.grid(), need_image, need_theta, points.options
    )
    return first, points.gradient(second) if need_theta else second


def run_backward(
    call: Call, values: Tensor, image: Tensor, theta: Tensor, options: Options, need_image: bool,
    need_theta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute both gradients of CPU tensors in one sweep."""
    if not values.numel():
        shapes = (image.shape if need_image else (0,)), (theta.shape if need_theta else (0,))
        return image.new_zeros(shapes[0]), theta.new_zeros(shapes[1])
    cpu, fill = on_cpu(), fill_of(options.fill_value, call.plan)
    maps = memory(theta.to(real_type(theta)))
    samples = cpu.Samples(memory(image), maps, memory(values), fill=fill)
    needs = cpu.Needs(need_image, need_theta, dtype=call.plan.dtype)
    grad_image, gradient, *_ = cpu.backward(
        call.plan, samples, needs, affine=True, threads=count(options.threads)
    )
    return (
        image.new_empty(0) if grad_image is None else tensor_of(grad_image, image.dtype, image),
        theta.new_empty(0) if gradient is None else tensor_of(gradient, theta.dtype),
    )


def real_type(theta: Tensor) -> torch.dtype:
    """The dtype in which coordinates are computed."""
    return torch.float64 if theta.dtype == torch.float64 else torch.float32


class Affine(Function):
    """The derivatives of sampling under affine maps, for plain CPU tensors."""

    @staticmethod
    def forward(
        ctx: Any, image: Tensor, theta: Tensor, out: Size, options: Options, call: Call
    ) -> Any:
        """Sample the image."""
        ctx.save_for_backward(image, theta)
        ctx.set_materialize_grads(False)
        ctx.arguments = out, options, call
        result = empty(call.plan.shape, image, call.dtype)
        if result.numel():
            on_cpu().gather(
                call.plan, memory(image), memory(theta.to(real_type(theta))), memory(result),
                fill=fill_of(options.fill_value, call.plan), affine=True,
                threads=count(options.threads),
            )  # fmt: skip
        return result

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Compute both gradients; by way of a grid if they will be differentiated again."""
        if upstream is None:
            return (None,) * 5
        image, theta = ctx.saved_tensors
        out, options, call = ctx.arguments
        needed = ctx.needs_input_grad[:2]
        results = both_gradients(call, upstream, image, theta, out, options, *needed)
        gradients = (
            gradient if need else None for gradient, need in zip(results, needed, strict=True)
        )
        return (*gradients, None, None, None)


class Grid(Function):
    """The derivatives of `grid` for plain tensors.

    Nothing but sizes is saved.  Like the graph of torch's own function, that of a grid therefore
    serves any number of backward passes.
    """

    @staticmethod
    def forward(ctx: Any, theta: Tensor, out: Size, align_corners: bool | None) -> Any:
        """Create the grid."""
        ctx.arguments = out, align_corners
        return grid(theta, out, align_corners)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Compute the gradient of the maps."""
        return gradient(upstream, *ctx.arguments), None, None


class GridGradient(Function):
    """The derivatives of `gradient` for plain tensors."""

    @staticmethod
    def forward(ctx: Any, by_grid: Tensor, out: Size, align_corners: bool | None) -> Any:
        """Compute the gradient of the maps."""
        ctx.arguments = out, align_corners
        return gradient(by_grid, out, align_corners)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Create the grid of the gradient."""
        return grid(upstream, *ctx.arguments), None, None
