"""Calls for CUDA tensors that a kernel reads and writes as they are, without copies.

On a GPU, a small call takes as long as the host needs to start it.  Such a call is therefore
prepared once for all tensors of the same layouts; a repeated call allocates its results and
launches a kernel.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch.cuda import (
    DEVICES,
    add_up,
    copies_to_interleave,
    grid_has_gradient,
    launch_options,
    on_device,
)
from gridsample.backends.torch.fast_path import PreparedTensorCall
from gridsample.backends.torch.internals import dispatch_keys, eager_keys
from gridsample.backends.torch.operators import CLASSES, OperatorCall, empty, empty_gather, sum_type
from gridsample.definitions.knots import Axes
from gridsample.kernels import gpu
from gridsample.kernels.gpu import launching


def have_eager_gpu_keys(image: Any, grid: Any) -> bool:
    """Whether tensors are ordinary ones on one GPU."""
    return bool(
        DEVICES
        and type(image) in CLASSES
        and image.is_cuda
        and type(grid) in CLASSES
        and grid.device == image.device
        and dispatch_keys(image).raw_repr() in eager_gpu_keys()
        and dispatch_keys(grid).raw_repr() in eager_gpu_keys()
    )


@functools.cache
def eager_gpu_keys() -> frozenset[int]:
    """The dispatch keys of ordinary CUDA tensors."""
    return frozenset(eager_keys("cuda"))


class BackwardLaunch(NamedTuple):
    """A launch of the kernel for both gradients.

    Attributes:
        call: the kernel's call.
        strides: of the image's gradient.
        real: the dtype of the grid's gradient.
    """

    call: launching.Call
    strides: tuple[int, ...]
    real: torch.dtype


class PreparedOnGPU(PreparedTensorCall):
    """A call of gather for CUDA tensors with certain layouts, and the calls of its gradients."""

    __slots__ = ()

    def run(self, *tensors: Tensor) -> Tensor:
        """Compute the result, if the call is ready."""
        image, grid = tensors
        out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=image.device)
        with on_device(image):
            self.ready.run(launch_options(image), image=image, grid=grid, out=out, fill=None)
        return out

    def run_backward(
        self, values: Tensor, image: Tensor, grid: Tensor, needed: Needed
    ) -> tuple[Tensor | None, Tensor | None] | None:
        """Compute the needed gradients; None if that is not a single launch."""
        if torch.are_deterministic_algorithms_enabled():
            return None
        key = values.stride(), needed
        if key not in self.sweeps:
            tensors = values, image, grid
            self.sweeps[key] = backward_launch(self.options.plan, *tensors, needed)
        launch = self.sweeps[key]
        if launch is None:
            return None
        device, grad_image, gradient = image.device, None, None
        if needed[0]:
            grad_image = torch.empty_strided(
                image.shape, launch.strides, dtype=image.dtype, device=device
            ).zero_()
        if needed[1]:
            gradient = torch.empty(launch.call.gradient_shape, dtype=launch.real, device=device)
        with on_device(image):
            launch.call.run(
                launch_options(image),
                values=values,
                image=image,
                grid=grid,
                gradient=gradient,
                fill=None,
                grad_image=grad_image,
            )
        return grad_image, None if gradient is None else add_up(gradient).view(grid.shape)


def ready_gather(
    call: OperatorCall, image: Tensor, grid: Tensor
) -> tuple[Tensor, launching.Call | None]:
    """Return gather's output and the kernel's call, for an image (N, C, *spatial) and a grid.

    The tensors have layouts, but no memory.  There is no call if it is more than one launch.
    """
    plan, out = call.plan, empty_gather(image, grid, call.order)
    points, values = flat_view(grid, 1, -2), flat_view(out, 2, -1)
    if (
        not is_single_launch(call, image)
        or copies_to_interleave(image, plan, adds=False)
        or points is None
        or values is None
        or not out.numel()
    ):
        return out, None
    layouts = launching.layouts(image, points, values, None)
    return out, gpu.gather_call(plan, call.order, *layouts, 0, False)


def backward_launch(
    call: OperatorCall, values: Tensor, image: Tensor, grid: Tensor, needed: Needed
) -> BackwardLaunch | None:
    """Return the launch for the needed gradients; None if it is more than one launch."""
    plan, real = call.plan, sum_type(call.plan)
    points, upstream = flat_view(grid, 1, -2), flat_view(values, 2, -1)
    if (
        not is_single_launch(call, image)
        or copies_to_interleave(image, plan, adds=needed[0])
        or not image.dtype == values.dtype == grid.dtype == real
        or (needed[1] and not grid_has_gradient(call))
        or points is None
        or upstream is None
        or not values.numel()
    ):
        return None
    grad_image = empty(image.shape, image, real)
    layouts = launching.layouts(upstream, image, points, grad_image if needed[0] else None, None)
    kernel_call = gpu.backward_call(plan, call.order, *layouts, (*needed, False), 0, False)
    return BackwardLaunch(kernel_call, grad_image.stride(), real)


def is_single_launch(call: OperatorCall, image: Tensor) -> bool:
    """Whether one launch samples an image as it is, if that need not be copied."""
    views = image.is_complex() or image.dtype == torch.bool
    plan = call.plan
    copied = call.vanishes or views or plan.footprint is not None or isinstance(plan.coords, Axes)
    return not copied


def flat_view(tensor: Tensor, first: int, last: int) -> Tensor | None:
    """View the axes from ``first`` to ``last`` as one; None if points are unevenly spaced."""
    shape = tensor.shape
    last %= len(shape)
    try:
        return tensor.view(*shape[:first], shape[first : last + 1].numel(), *shape[last + 1 :])
    except RuntimeError:
        return None
