"""Eager CPU tensors, which are passed to the kernels by their addresses.

A whole call of `grid_sample` is prepared once for all tensors with the same layouts
(`PreparedTensorCall`).  A repeated call then takes little longer than its kernels.  This matters
most after a convolution, when Python's objects and functions have left the processor's cache: each
that a call needs costs as much as sampling hundreds of points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.definitions.dtypes import BFLOAT16
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.definitions.shapes import Shape
from gridsample.kernels import on_cpu
from gridsample.kernels.memory import Layout

TYPES: dict[torch.dtype, np.dtype[Any]] = {torch.bfloat16: BFLOAT16} | {
    getattr(torch, name): np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}

Gradients = tuple[Tensor | None, Tensor | None]

address_of: Callable[[Tensor], int] = Tensor.data_ptr

# The number of channels from which kernels loop along the channels.
LONG = 8


def layout_of(tensor: Tensor) -> Layout:
    """The layout of a tensor in the form that the kernels use."""
    dtype = TYPES[tensor.dtype]
    return tuple(tensor.shape), tuple([n * dtype.itemsize for n in tensor.stride()]), dtype


def can_be_read_directly(*tensors: Tensor) -> bool:
    """Whether tensors are aligned, and their values are not lazily negated or conjugated."""
    for tensor in tensors:
        if tensor.is_neg() or tensor.is_conj() or tensor.data_ptr() % tensor.element_size():
            return False
    return True


def contiguous_if_faster(image: Tensor, values: Tensor) -> Tensor:
    """Copy an image to contiguous memory if its channels come last but those of values do not.

    If it has many more pixels than there are points, the copy would cost more than it saves, and
    the image is returned unchanged.
    """
    if image.stride(1) == 1 < values.stride(1) and not image.is_contiguous():
        pixels, points = image.numel() // image.shape[1], values.numel() // values.shape[1]
        if pixels <= 2 * points and values.is_contiguous():
            return image.contiguous()
    return image


def pays_interleaving(values: Tensor, image: Tensor) -> bool:
    """Whether to copy upstream values so that their channels come last, as those of the image do.

    Contiguous channels are several times as fast, which is worth a copy.
    """
    return image.stride(1) == 1 < values.stride(1) and image.shape[1] >= LONG


class PreparedTensorCall:
    """A call for eager tensors with certain layouts, of which all but their addresses is known.

    Attributes:
        ready: the call of a kernel; None if it needs copies or does not exist.
        shape, strides, dtype: the result.
        options: the checked `Options` of sampling, with a plan and without a fill value.
        sweeps: the prepared calls of the needed gradients, for each layout of upstream values;
            None if there is none without copies.
    """

    __slots__ = "dtype", "options", "ready", "shape", "strides", "sweeps"

    def __init__(self, ready: Any, out: Tensor, options: Any = None) -> None:
        self.shape, self.strides, self.dtype = out.shape, out.stride(), out.dtype
        self.ready, self.options = ready, options
        self.sweeps: dict[Any, Any] = {}

    def run(self, *tensors: Tensor) -> Tensor:
        """Compute the result, if the call is ready."""
        out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
        self.ready.run(*map(address_of, tensors), out.data_ptr())
        return out

    def run_backward(
        self, values: Tensor, image: Tensor, grid: Tensor, needed: Needed
    ) -> Gradients | None:
        """Compute the needed gradients of sampling; None if that needs copies."""
        key = values.stride(), values.dtype, needed, torch.get_num_threads()
        if key not in self.sweeps:
            self.sweeps[key] = self.prepare_backward(values, image, grid, needed)
        ready = self.sweeps[key]
        return None if ready is None else run_sweeps(ready, values, image, grid, needed)

    def prepare_backward(self, values: Tensor, image: Tensor, grid: Tensor, needed: Needed) -> Any:
        """Prepare the gradients, that of the image with its strides; None if that needs copies."""
        call, threads = self.options.plan, self.options.threads or torch.get_num_threads()
        if call.vanishes or values.dtype != image.dtype or not values.numel():
            return None
        if pays_interleaving(values, image) or contiguous_if_faster(image, values) is not image:
            return None
        layouts = [layout_of(tensor) for tensor in (values, image, grid)]
        ready = on_cpu().ready_backward(call.plan, call.order, *layouts, needed, threads)
        if ready is not None and needed[0]:
            gradient = torch.empty(ready.shape, device="meta")
            gradient = gradient.permute(ready.back) if ready.back else gradient
            if gradient.stride() != image.stride():
                return None
        return ready


def without_data(shape: Shape, strides: Shape, dtype: torch.dtype) -> Tensor:
    """A tensor that has a layout, but no memory."""
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def gather(
    plan: Plan,
    order: Shape,
    image: Tensor,
    grid: Tensor,
    out: Tensor,
    threads: int,
    means: Averaging | None = None,
) -> bool:
    """Sample into ``out`` if kernels can read the tensors without a copy; return whether it did."""
    image = contiguous_if_faster(image, out)
    layouts = [layout_of(tensor) for tensor in (image, grid, out)]
    ready = on_cpu().ready_gather(plan, order, *layouts, threads, means)
    if ready is None and not grid.is_contiguous():  # torch copies faster than NumPy
        return gather(plan, order, image, grid.contiguous(), out, threads, means)
    if ready is None or not can_be_read_directly(image, grid):
        return False
    ready.run(image.data_ptr(), grid.data_ptr(), out.data_ptr())
    return True


def backward(
    plan: Plan,
    order: Shape,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    needed: Needed,
    threads: int,
) -> Gradients | None:
    """Compute the needed gradients if kernels can read the tensors directly, otherwise None."""
    image = contiguous_if_faster(image, values)
    if pays_interleaving(values, image):
        values = values.movedim(1, -1).contiguous().movedim(-1, 1)
    layouts = [layout_of(tensor) for tensor in (values, image, grid)]
    ready = on_cpu().ready_backward(plan, order, *layouts, needed, threads)
    last = values.stride(1) == 1
    if ready is None and not (grid.is_contiguous() and (last or values.is_contiguous())):
        copies = values if last else values.contiguous(), image, grid.contiguous()
        return backward(plan, order, *copies, needed, threads)
    if ready is None or not can_be_read_directly(values, image, grid):
        return None
    return run_sweeps(ready, values, image, grid, needed)


def run_sweeps(
    ready: Any, values: Tensor, image: Tensor, grid: Tensor, needed: Needed
) -> Gradients:
    """Compute the needed gradients by a prepared call (`gridsample.kernels.sampling`)."""
    grad_image = gradient = None
    if needed[0]:
        grad_image = torch.zeros(ready.shape, dtype=image.dtype)
        grad_image = grad_image.permute(ready.back) if ready.back else grad_image
    if needed[1]:
        gradient = torch.zeros(grid.shape, dtype=grid.dtype)
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in (grad_image, gradient)]
    ready.sweeps.run(image.data_ptr(), grid.data_ptr(), values.data_ptr(), *addresses)
    return grad_image, gradient
