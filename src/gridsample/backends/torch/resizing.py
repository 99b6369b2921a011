"""Resizing of tensors: one operator, which is also its own derivative.

    resize(input, size, method, align_corners, antialias, scale, transposed)

with the methods and scales of each spatial axis, slowest first.  It is linear in the input.  The
adjoint is the same operator with the opposite ``transposed``, and with the image's ``size``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends import resizing as host
from gridsample.backends.base import PreparedCall
from gridsample.backends.torch.derivatives import needs_gradient
from gridsample.backends.torch.fast_path import PreparedTensorCall, layout_of, without_data
from gridsample.backends.torch.internals import SingleLevelFunction as Function
from gridsample.backends.torch.internals import originals
from gridsample.backends.torch.linear import define
from gridsample.backends.torch.onnx import exporting
from gridsample.backends.torch.onnx_resizing import resize_as_node
from gridsample.backends.torch.operators import (
    check_target,
    empty,
    is_eager_on_cpu,
    memory,
    numpy_type,
    thread_count,
)
from gridsample.backends.torch.other_devices import call_on_cpu, try_torch
from gridsample.backends.torch.schemas import RESIZING, flat_resizing, resizing_of, text_of
from gridsample.backends.torch.traced import traceable
from gridsample.definitions import tables
from gridsample.definitions.control_points import ControlAxis
from gridsample.definitions.dtypes import check_image_type
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest, changed
from gridsample.definitions.resizing import Sizes, plain_resizing

Options = tuple[Any, ...]

# Torch's names of the methods that it supports, for each number of spatial axes.
TORCH_NAMES = {
    "linear": {1: "linear", 2: "bilinear", 3: "trilinear"},
    "cubic": {2: "bicubic"},
    **{name: dict.fromkeys((1, 2, 3), name) for name in ("nearest", "nearest-exact", "area")},
}


def resize(image: Tensor, resizing: Resizing, transposed: bool) -> Tensor:
    """Resize (N, C, *spatial); on devices without kernels, with torch's own operators."""
    if is_eager_on_cpu(image) and not needs_gradient(image):
        return resize_on_cpu(image, resizing, transposed)
    options = flat_resizing(resizing, transposed)
    if exporting():
        return resize_as_node(image, *options)
    if image.device.type in ("cpu", "meta"):
        result: Tensor = resize_operator(image, *options)
        return result
    resized = None if transposed else resize_with_torch(image, resizing)
    if resized is None and all(isinstance(m, ControlAxis) for m in resizing.methods):
        return resize_by_matrices(image, resizing, transposed)
    if resized is None:
        resized = call_on_cpu(resize, image, resizing, transposed)
    return resized


def resize_with_torch(image: Tensor, resizing: Resizing) -> Tensor | None:
    """Resize with torch's own operator; None if that does not support the call."""
    size, methods, scales = list(resizing.size), resizing.methods, list(resizing.scales)
    rank = len(size)
    name = TORCH_NAMES.get(text_of(methods[0]), {}).get(rank)
    smooths = resizing.antialias and name != "area"
    if (
        name is None
        or len(set(methods)) > 1
        or (smooths and name not in ("bilinear", "bicubic"))
        or not (image.is_floating_point() or name.startswith("nearest"))
    ):
        return None
    by_scale = any(scales) and name != "area"
    return try_torch(
        lambda: originals.interpolate(
            image,
            None if by_scale else size,
            scales if by_scale else None,
            name,
            resizing.align_corners if tables.aligns(methods[0]) else None,
            antialias=smooths,
        ),
        image,
        operator_of_torch(name, rank, smooths),
        with_gradient=torch.is_grad_enabled() and image.requires_grad,
    )


def resize_by_matrices(image: Tensor, resizing: Resizing, transposed: bool) -> Tensor:
    """Interpolate lattices of a few control points, or apply the transpose, by dense matrices."""
    for k, axis in enumerate(tables.axis_maps(image.shape[2:], resizing, transposed), 2):
        matrix = torch.from_numpy(axis.dense()).to(image)
        image = torch.tensordot(image, matrix, ([k], [1])).movedim(-1, k)
    return image


def operator_of_torch(name: str, rank: int, smooths: bool) -> str:
    """Return the name of the operator that torch's interpolate calls."""
    if name == "area":
        return f"_adaptive_avg_pool{max(rank, 2)}d"  # torch treats one axis as two
    hidden = smooths or name == "nearest-exact"
    return f"{'_' * hidden}upsample_{name.replace('-', '_')}{rank}d{'_aa' * smooths}"


# Computation --------------------------------------------------------------------------------------


def cpu_resize(image: Tensor, *options: Any) -> Tensor:
    """Resize CPU tensors; the operator."""
    check_target()
    return resize_on_cpu(image, *resizing_of(*options))


def resize_on_cpu(image: Tensor, resizing: Resizing, transposed: bool) -> Tensor:
    """Resize CPU tensors."""
    out = empty_resize(image, resizing.size)
    if out.numel():
        resizing = resizing._replace(threads=thread_count(resizing.threads))
        host.resize(memory(image), memory(out), resizing, transposed)
    return out


class TensorResizing(PreparedCall):
    """Resizing of eager tensors of a layout, by one run of a kernel.

    Attributes:
        resizing: the checked options.
        kernel: the prepared run.
    """

    __slots__ = ("kernel", "resizing")

    def __init__(self, resizing: Resizing, kernel: PreparedTensorCall) -> None:
        super().__init__()
        self.resizing, self.kernel = resizing, kernel

    def run(self, image: Tensor, *points: Tensor, fill_value: Any = 0, out: Any = None) -> Tensor:
        """Resize an image; autograd records it if necessary."""
        if needs_gradient(image):
            return record_resize(image, self.resizing, self.kernel)
        return self.kernel.run(image)


def prepare(request: ResizeRequest, layouts: Any, sizes: Sizes) -> TensorResizing | None:
    """Prepare a call for eager tensors on the CPU, if it is one run.

    ``layouts`` are that of the image, and a number of threads.
    """
    layout, threads = layouts
    resizing = plain_resizing(request, layout[0], sizes)
    if resizing is None:
        return None
    kernel = prepared((*layout, threads), resizing, False)
    return None if kernel is None else TensorResizing(resizing, kernel)


def layout_with_threads(tensor: Tensor) -> Any:
    """The layout of a tensor, and torch's number of threads."""
    return tensor.shape, tensor.stride(), tensor.dtype, torch.get_num_threads()


@functools.lru_cache(maxsize=512)
def prepared(layout: Any, resizing: Resizing, transposed: bool) -> PreparedTensorCall | None:
    """Prepare a run for tensors of a layout, if it is one."""
    *of_image, threads = layout
    image = without_data(*of_image)
    out = empty_resize(image, resizing.size)
    layouts = layout_of(image), layout_of(out)
    ready = host.ready(resizing, *layouts, resizing.threads or threads, transposed)
    return None if ready is None else PreparedTensorCall(ready, out)


def fake_resize(image: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """Allocate the output of resize, for tensors without data."""
    check_target()
    return empty_resize(image, size)


def empty_resize(image: Tensor, size: Sequence[int]) -> Tensor:
    """Allocate the output of resize."""
    check_image_type(numpy_type(image.dtype, "input"))
    return empty((*image.shape[:2], *size), image, image.dtype, has_fastest_channels(image))


def has_fastest_channels(image: Tensor) -> bool:
    """Whether a resized image is channels-last: channels are fastest in memory, then x, y and z.

    This is torch's rule, but for the items, whose stride may be anything.  Unlike
    `operators.is_channels_last`, it allows gaps between pixels.
    """
    least = first = image.stride(1)
    if first == 0 or image.is_contiguous():
        return False
    for axis in (1, *range(image.dim() - 1, 1, -1)):
        if image.stride(axis) < least:
            return False
        least = image.stride(axis) * image.shape[axis]
    return bool(least > first)


# The operator -------------------------------------------------------------------------------------


def adjoint_options(options: Options, shape: torch.Size) -> Options:
    """The options of the adjoint, whose output has the image's size."""
    resizing, transposed = resizing_of(*options)
    return flat_resizing(changed(resizing, size=shape[2:]), not transposed)


def batched_resize(image: Tensor, *options: Any) -> Tensor:
    """Resize a batch, which is merged with the items."""
    return torch.unflatten(operator(image.flatten(0, 1), *options), 0, image.shape[:2])


SCHEMA = f"resize(Tensor input, {RESIZING}) -> Tensor"
operator = define(SCHEMA, cpu_resize, fake_resize, adjoint_options, batched_resize)
resize_operator = traceable(operator)


# Without the dispatcher ---------------------------------------------------------------------------


class EagerResize(Function):
    """The derivatives of resizing eager tensors by prepared calls."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, resizing: Resizing, call: PreparedTensorCall) -> Any:
        """Resize an image."""
        ctx.shape, ctx.resizing = image.shape, resizing
        ctx.set_materialize_grads(False)
        return call.run(image)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Apply the transpose."""
        if upstream is None:
            return None, None, None
        transpose, call = ctx.resizing._replace(size=tuple(ctx.shape[2:])), None
        if is_eager_on_cpu(upstream) and not needs_gradient(upstream):
            call = prepared(layout_with_threads(upstream), transpose, True)
            if call is None:  # such as the gradient of a sum, which is a single number
                upstream = upstream.contiguous()
                call = prepared(layout_with_threads(upstream), transpose, True)
        gradient = resize(upstream, transpose, True) if call is None else call.run(upstream)
        return gradient, None, None


record_resize: Callable[[Tensor, Resizing, PreparedTensorCall], Tensor] = EagerResize.apply  # type: ignore[attr-defined]
