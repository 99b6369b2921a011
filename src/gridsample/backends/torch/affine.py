"""Grids of affine maps, and sampling tensors under affine maps without a grid where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from gridsample.backends import maps
from gridsample.backends.base import Backend
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


def grid(backend: Backend, theta: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Create the grid of affine maps, (N, *out, D); ``out`` may be symbolic."""
    return linear(Grid, maps.grid_along, theta, backend, out, align_corners)


def gradient(backend: Backend, by_grid: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Compute the gradient of maps from that of their grid: the transpose of `grid`."""
    return linear(GridGradient, maps.gradient_along, by_grid, backend, out, align_corners)


def linear(
    rule: Any, compute: Any, array: Tensor, backend: Backend, out: Size, align_corners: bool | None
) -> Tensor:
    """Call a linear function; autograd records the rule, or elsewhere the single operations."""
    if derivatives.has_record(array) and operators.is_plain_anywhere(array):
        return rule.apply(array, backend, tuple(out), align_corners)  # type: ignore[no-any-return]
    return compute(backend, array, out, align_corners)  # type: ignore[no-any-return]


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


class AffineCall(NamedTuple):
    """Sampling under affine maps, for tensors of known shapes and dtypes.

    Attributes:
        backend: the backend of tensors.
        out: the output's spatial shape.
        options: the options.
        call: the call for the grid that the maps represent.
        on_gpu: whether the GPU kernels are used.
    """

    backend: Backend
    out: Size
    options: Options
    call: Call
    on_gpu: bool

    def sample(self, image: Tensor, theta: Tensor) -> Tensor:
        """Sample an image, without derivatives."""
        call, fill = self.call, self.options.fill_value
        result = empty(call.plan.shape, image, call.dtype)
        if not result.numel():
            return result
        if self.on_gpu:
            cuda.run_affine(call, image, theta, result, fill)
        else:
            on_cpu().gather(
                call.plan, memory(image), memory(theta.to(real_type(theta))), memory(result),
                fill=fill_of(fill, call.plan), affine=True, threads=count(self.options.threads),
            )  # fmt: skip
        return result

    def gradients(
        self, values: Tensor, image: Tensor, theta: Tensor, needed: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute the needed gradients; by way of a grid if they will be differentiated again."""
        tensors = values, image, theta
        if derivatives.has_record(*tensors) or not operators.is_plain_anywhere(*tensors):
            both = self.gradients_by_grid(*tensors, needed)
        elif self.on_gpu:
            both = cuda.run_affine_backward(self.call, *tensors, needed, self.options.fill_value)
        else:
            both = self.gradients_on_cpu(*tensors, needed)
        return both[0] if needed[0] else None, both[1] if needed[1] else None

    def gradients_by_grid(
        self, values: Tensor, image: Tensor, theta: Tensor, needed: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute the needed gradients with operators that are differentiable.

        This also works for tensors that are not plain.
        """
        points = maps.through_grid(self.backend, theta, self.out, self.options)
        first, second = derivatives.backward(
            points.extend(values), image, points.grid(), *needed, points.options
        )
        return first, points.gradient(second) if needed[1] else None

    def gradients_on_cpu(
        self, values: Tensor, image: Tensor, theta: Tensor, needed: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute both gradients of CPU tensors in one sweep."""
        if not values.numel():
            return image.new_zeros(image.shape), theta.new_zeros(theta.shape)
        cpu, plan = on_cpu(), self.call.plan
        maps, fill = memory(theta.to(real_type(theta))), fill_of(self.options.fill_value, plan)
        samples = cpu.Samples(memory(image), maps, memory(values), fill=fill)
        grad_image, grad_theta, *_ = cpu.backward(
            plan, samples, cpu.Needs(*needed, dtype=plan.dtype), affine=True,
            threads=count(self.options.threads),
        )  # fmt: skip
        return (
            None if grad_image is None else tensor_of(grad_image, image.dtype, image),
            None if grad_theta is None else tensor_of(grad_theta, theta.dtype),
        )


def call_of_maps(
    backend: Backend, image: Tensor, theta: Tensor, out: Size, options: Options
) -> AffineCall:
    """Describe a call; of the grid that the maps represent, only the shape is used."""
    call = options.plan
    if call is None:
        grid = theta.new_empty(()).expand(len(theta), *out, theta.shape[1])
        call = call_for(image.shape, image, grid, options)
    return AffineCall(backend, tuple(out), options, call, image.device.type != "cpu")


def sample(call: AffineCall, image: Tensor, theta: Tensor) -> Tensor:
    """Sample an image under affine maps; the result has derivatives of any order."""
    result: Tensor = Affine.apply(image, theta, call)  # type: ignore[no-untyped-call]
    return result


def gradients(
    call: AffineCall, values: Tensor, image: Tensor, theta: Tensor, needed: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Compute the needed gradients, which can be differentiated again."""
    check_values(values, call.call.plan, "grad_output")
    return call.gradients(values, image, theta, needed)


def real_type(theta: Tensor) -> torch.dtype:
    """The dtype in which coordinates are computed."""
    return torch.float64 if theta.dtype == torch.float64 else torch.float32


class Affine(Function):
    """The derivatives of sampling under affine maps, for plain tensors."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, theta: Tensor, call: AffineCall) -> Any:
        """Sample the image."""
        ctx.save_for_backward(image, theta)
        ctx.set_materialize_grads(False)
        ctx.call = call
        return call.sample(image, theta)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Compute both gradients."""
        if upstream is None:
            return (None,) * 3
        return *ctx.call.gradients(upstream, *ctx.saved_tensors, ctx.needs_input_grad[:2]), None


class Grid(Function):
    """The derivatives of `grid` for plain tensors.

    Nothing but sizes is saved.  Like the graph of torch's own function, that of a grid therefore
    serves any number of backward passes.
    """

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, backend: Backend, out: Size, align_corners: bool | None
    ) -> Any:
        """Create the grid."""
        ctx.backend, ctx.arguments = backend, (out, align_corners)
        return grid(backend, theta, out, align_corners)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Compute the gradient of the maps."""
        return gradient(ctx.backend, upstream, *ctx.arguments), None, None, None


class GridGradient(Function):
    """The derivatives of `gradient` for plain tensors."""

    @staticmethod
    def forward(
        ctx: Any, by_grid: Tensor, backend: Backend, out: Size, align_corners: bool | None
    ) -> Any:
        """Compute the gradient of the maps."""
        ctx.backend, ctx.arguments = backend, (out, align_corners)
        return gradient(backend, by_grid, out, align_corners)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Create the grid of the gradient."""
        return grid(ctx.backend, upstream, *ctx.arguments), None, None, None
