"""PyTorch tensors: derivatives of any order, under every transform of torch.

Operators are registered with torch (`operators`, `filtering` for splines, `resizing`), each with
rules for derivatives (`derivatives`) and for batches (`batching`).  This module combines them into
the `Backend` that the operations use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridsample.backends.base import Backend, Gradients, Needed, PreparedCall
from gridsample.backends.rounding import as_integers
from gridsample.backends.torch import (
    affine,
    batching,  # noqa: F401
    cuda_calls,
    derivatives,
    filtering,
    fused,
    internals,
    lattices,
    onnx,
    operators,
    other_devices,
    resizing,
    streaming,
)
from gridsample.backends.torch.fast_path import TYPES, PreparedTensorCall, without_data
from gridsample.backends.torch.operators import numpy_type
from gridsample.backends.torch.schemas import flat_options
from gridsample.backends.torch.traced import traceable
from gridsample.definitions.caches import cached_call
from gridsample.definitions.checks import check_dense
from gridsample.definitions.control_points import ControlPoints
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.operators import Operator, watch
from gridsample.definitions.options import (
    Averaging,
    Options,
    Resizing,
    checked,
    fill_numbers,
)
from gridsample.definitions.request import Request, ResizeRequest, is_default_fill, without_fill
from gridsample.definitions.shapes import Shape
from gridsample.definitions.statistics import Statistic
from gridsample.kernels import of_cell_statistics, on_cpu

# The dtypes by name, and the names by dtype.
NAMED = {type_name(array): dtype for dtype, array in TYPES.items()}
NAMES = {dtype: name for name, dtype in NAMED.items()}

# Sampling without shortcuts.
gather_operator = traceable(operators.gather)


# Arguments ----------------------------------------------------------------------------------------


def check_tensors(arguments: dict[str, Any]) -> None:
    """Raise an error for arguments that are not dense tensors, or are on different devices."""
    check_dense(**arguments)
    first = None
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            tensor = next(key for key in arguments if isinstance(arguments[key], Tensor))
            cls = type(value)
            raise TypeError(
                f"{name} is a {cls.__module__}.{cls.__qualname__}, but {tensor} is a tensor; "
                f"accepted: torch.Tensor for all; convert it: "
                f"{name} = torch.as_tensor({name}, device={tensor}.device)"
            )
        first = (name, value.device) if first is None else first
        if value.device != first[1]:
            raise ValueError(
                f"{first[0]} and {name} must be on one device, got {first[1]} and {value.device}"
            )


@cached_call(1024)
def resolve(
    image: torch.Size,
    image_type: torch.dtype,
    grid: torch.Size,
    grid_type: torch.dtype,
    request: Request,
) -> Options:
    """Compute the checked options for eager tensors; the plan is an `operators.OperatorCall`.

    There is no plan if the image is prefiltered, because the coefficients have another dtype.
    """
    sizes = tuple(image)
    resolved = checked(request, sizes, tuple(grid))
    if resolved.prefilter:
        return resolved
    size = (sizes[0], sizes[-1], *sizes[1:-1]) if resolved.channels_last() else sizes
    call = operators.call_of(size, image_type, tuple(grid), grid_type, resolved)
    return resolved.changed(plan=call)


class TensorSampling(PreparedCall):
    """Sampling of eager tensors of certain layouts at the points of a grid.

    Attributes:
        request: the request.
        options: the checked options with a plan, and without a fill value.
        kernels: the prepared calls of kernels; None if tensors are first copied, or for a fill.
    """

    __slots__ = ("kernels", "options", "request")

    def __init__(
        self, request: Request, options: Options, kernels: PreparedTensorCall | None
    ) -> None:
        super().__init__()
        self.request, self.options, self.kernels = request, options, kernels

    def run(self, image: Tensor, *points: Tensor, fill_value: Any = 0, out: Any = None) -> Tensor:
        """Sample an image at a grid; autograd records it if necessary."""
        (grid,) = points
        options, kernels = self.options, self.kernels
        last = options.channel_axis == -1
        planes = image.movedim(-1, 1) if last else image
        if kernels is None:
            options = with_fill(options, self.request, fill_value, image)
            result = derivatives.eager_gather(planes, grid, options)
        elif torch.is_grad_enabled() and (image.requires_grad or grid.requires_grad):
            result = derivatives.record_gather(planes, grid, options, kernels)
        else:
            result = kernels.run(planes, grid)
        return result.movedim(1, -1) if last else result


def prepare_sampling(request: Request, layouts: Any, filled: bool) -> TensorSampling | None:
    """Prepare sampling at a grid; None if the image or the grid is first converted.

    ``layouts`` are those of the image and the grid, and a number of threads, or a GPU.
    """
    image, grid, processor = layouts
    if not grid[2].is_floating_point or not request.is_plain():
        return None
    resolved = resolve(image[0], image[2], grid[0], grid[2], request)
    if resolved.plan is None:
        return None
    if filled:
        return TensorSampling(request, resolved, None)
    planes, points = without_data(*image), without_data(*grid)
    planes = planes.movedim(-1, 1) if resolved.channels_last() else planes
    kernels: type[PreparedTensorCall] = cuda_calls.PreparedOnGPU
    if isinstance(processor, int):
        kernels, threads = PreparedTensorCall, resolved.threads or processor
        out, ready = operators.ready_gather(resolved.plan, planes, points, threads)
    else:
        out, ready = cuda_calls.ready_gather(resolved.plan, planes, points)
    call = None if ready is None else kernels(ready, out, resolved)
    return TensorSampling(request, resolved, call)


def with_fill(resolved: Options, request: Request, fill_value: Any, image: Tensor) -> Options:
    """Add the fill value to checked options: real numbers, two per value for a complex image."""
    if is_default_fill(fill_value):
        return resolved
    channels = internals.shape_of(image)[-1 if resolved.channels_last() else 1]
    fill = fill_numbers(fill_value, request, resolved.may_fill(), image.dtype, channels)
    if not fill:
        return resolved
    if any([isinstance(number, int) and int(float(number)) != number for number in fill]):
        raise ValueError(f"fill_value for tensors must be exact in float64, got {fill_value!r}")
    parts = (
        [float(number) for number in fill]
        if not image.is_complex()
        else [part for number in fill for part in (complex(number).real, complex(number).imag)]
    )
    return resolved.changed(fill_value=tuple(parts), plan=resolved.plan)


# The backend --------------------------------------------------------------------------------------


class Torch(Backend):
    """The backend for torch's tensors."""

    xp: Any = torch
    is_host = False

    # Arrays and types

    def asarrays(self, **arguments: Any) -> list[Tensor]:
        """Check the tensors and return them."""
        check_tensors(arguments)
        return list(arguments.values())

    def to_device(self, **arguments: Any) -> list[Tensor]:
        """Return the tensors, copied to the CPU if their device has no kernels."""
        tensors = self.asarrays(**arguments)
        if other_devices.lacks_kernels(tensors[0]):
            other_devices.warn_once(tensors[0].device.type)
            return [tensor.cpu() for tensor in tensors]
        return tensors

    def restore(self, result: Tensor | None, like: Tensor) -> Tensor | None:
        """Return the result on the device of the argument."""
        if result is None or result.device == like.device:
            return result
        copy: Tensor = other_devices.back(result, like.device)
        return copy

    def shape(self, array: Tensor) -> Shape:
        """The shape of a tensor as integers, also in a trace."""
        return internals.shape_of(array)

    def extents(self, size: Any) -> tuple[Any, Any]:
        """Return a size as numbers, and in a trace also as tensors, which the program records."""
        if not internals.is_tracing():
            return size, None
        sizes = tuple(size)
        return [internals.as_integer(n) for n in sizes], sizes

    def type_name(self, dtype: torch.dtype, name: str = "input") -> str:
        """NumPy's name of a dtype, or "bfloat16"."""
        named = NAMES.get(dtype)
        if named is None:
            numpy_type(dtype, name)  # raises the error
        return str(named)

    def as_dtype(self, dtype: Any) -> torch.dtype | None:
        """Convert a dtype or a name to torch's dtype; None for an array."""
        if isinstance(dtype, torch.dtype):
            return dtype
        return NAMED[np.dtype(dtype).name] if isinstance(dtype, (type, np.dtype, str)) else None

    def asarray(self, array: Any, like: Tensor) -> Tensor:
        """Convert to a tensor on the device of ``like``."""
        return torch.as_tensor(array, device=like.device)

    def type(self, name: str) -> torch.dtype:
        """The dtype of a name."""
        return NAMED[name]

    def promote(self, *types: torch.dtype) -> torch.dtype:
        """The dtype of a product."""
        return functools.reduce(torch.promote_types, types)

    def astype(self, array: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert a tensor to another dtype."""
        return array if array.dtype == dtype else array.to(dtype)

    def permute(self, array: Tensor, axes: Sequence[int]) -> Tensor:
        """View a tensor with its axes in another order."""
        return array.permute(*axes)

    def full(self, shape: Sequence[int], number: float, dtype: torch.dtype, like: Tensor) -> Tensor:
        """Create a broadcast view of one number."""
        scalar = torch.full((), number, dtype=dtype, device=like.device)
        return scalar.expand(tuple(shape))

    def inspects(self, array: Tensor) -> bool:
        """Whether a tensor is an eager one on the CPU."""
        return operators.is_eager_on_cpu(array)

    def complex(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Join real and imaginary parts."""
        return torch.complex(real, imaginary)

    def line(
        self, size: Any, align_corners: bool | None, dtype: torch.dtype, like: Tensor
    ) -> Tensor:
        """Compute the coordinates of pixel centres, or their indices."""
        return affine.line(size, align_corners).to(like.device, dtype)

    def empty(self, shape: Sequence[int], dtype: torch.dtype, like: Tensor) -> Tensor:
        """Allocate a tensor."""
        return torch.empty(tuple(shape), dtype=dtype, device=like.device)

    def custom_vjp(
        self,
        compute: Callable[[Sequence[Tensor], bool], Tensor],
        differentiate: Callable[..., Sequence[Tensor | None]],
        arrays: Sequence[Tensor],
    ) -> Tensor:
        """Compute a function, whose gradients autograd computes by ``differentiate``.

        Transforms, forward mode and compilers see the operations of ``compute`` instead.
        """
        return streaming.custom_vjp(compute, differentiate, arrays)

    def checkpoint(self, function: Callable[..., Tensor], arrays: Sequence[Tensor]) -> Tensor:
        """Compute a function, and again in the backward pass."""
        return streaming.checkpoint(function, arrays)

    def affine_grid(self, theta: Tensor, out: Sequence[Any], align_corners: bool | None) -> Tensor:
        """Create the grid of affine maps, recorded as a single operation."""
        return affine.grid(self, theta, out, align_corners)

    def is_concrete(self, *arrays: Tensor) -> bool:
        """Whether tensors are eager, on any device."""
        return operators.is_eager(*arrays)

    def host_view(self, array: Tensor) -> Any:
        """View a tensor in host memory as a NumPy array; None if something observes operations."""
        if internals.is_observed() or array.__class__ is not Tensor or not array.is_cpu:
            return None
        try:
            return (array.detach() if array.requires_grad else array).numpy()
        except (RuntimeError, TypeError):  # a transform's tensor, or bfloat16
            return None

    # Sampling

    def resolve_options(self, image: Tensor, grid: Tensor, request: Request) -> Options:
        """Return the checked options; for eager tensors on a CPU, with a plan."""
        known = without_fill(request) if operators.is_eager_on_cpu(image, grid) else None
        if known is not None:
            resolved = resolve(image.shape, image.dtype, grid.shape, grid.dtype, known)
        elif operators.is_eager_on_cpu(image, grid):
            types = image.dtype, grid.dtype
            resolved = resolve.__wrapped__(image.shape, types[0], grid.shape, types[1], request)
        else:
            resolved = checked(request, internals.shape_of(image), internals.shape_of(grid))
        return with_fill(resolved, request, request.fill_value, image)

    def layouts(self, *tensors: Any) -> Any:
        """Return the layouts of eager tensors, and torch's number of threads, or the GPU."""
        if internals.is_observed():
            return None
        processor: int | torch.device
        if operators.have_eager_cpu_keys(*tensors):
            processor = torch.get_num_threads()
        elif len(tensors) == 2 and cuda_calls.have_eager_gpu_keys(*tensors):
            processor = tensors[0].device
        else:
            return None
        layouts: list[Any] = []
        for tensor in tensors:
            layouts.append((tensor.shape, tensor.stride(), tensor.dtype))
        return *layouts, processor

    def prepare(self, request: Any, layouts: Any, size: Any, filled: bool) -> PreparedCall | None:
        """Prepare a call for eager tensors."""
        if isinstance(request, ResizeRequest):
            return resizing.prepare(request, layouts, size)
        return None if size else prepare_sampling(request, layouts, filled)

    def by_library(self, image: Any, grid: Any, request: Request) -> Tensor | None:
        """Sample tensors on devices without kernels by torch's own operator."""
        if not isinstance(image, Tensor) or not other_devices.lacks_kernels(image):
            return None
        check_tensors({"input": image, "grid": grid})
        return other_devices.grid_sample(image, grid, self.resolve_options(image, grid, request))

    def check_out(self, out: Any, shape: Shape, image: Tensor, grid: Tensor) -> None:
        """Raise an error, because a tensor that is written in place has no derivatives."""
        raise TypeError(
            "out is accepted with NumPy arrays only; for tensors, a new one is returned"
        )

    def gather(
        self, image: Tensor, grid: Tensor, options: Options, dtype: torch.dtype, out: Any = None
    ) -> Tensor:
        """Sample with a kernel, or add a node to the ONNX model that is being exported."""
        if onnx.exporting():
            result = onnx.gather_as_node(image, grid, *flat_options(options))
        elif options.plan is not None:
            result = derivatives.eager_gather(image, grid, options)
        else:
            result = gather_operator(image, grid, *flat_options(options))
        if result.dtype == dtype:
            return result
        if dtype.is_floating_point or dtype.is_complex:
            return result.to(dtype)
        integers: Tensor = as_integers(self, result, dtype, options.fill_value)
        return integers

    def gathers(
        self,
        image: Tensor,
        grid: Tensor,
        options: Options,
        orders: Sequence[Shape],
        dtype: torch.dtype,
    ) -> Tensor:
        """Compute derivatives of several orders.

        For a single real channel, all first derivatives are the result of backward for an upstream
        gradient of ones, which is a single sweep.
        """
        numpy_type(image.dtype, "input")
        rank = grid.shape[-1]
        first = [tuple([int(k == a) for k in range(rank)]) for a in range(rank)]
        if image.shape[1] == 1 and dtype == grid.dtype and list(orders) == first:
            items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
            points = grid.expand(items, *grid.shape[1:])
            scalar = torch.ones((), dtype=dtype, device=grid.device)
            ones = scalar.expand(items, 1, *grid.shape[1:-1])
            gradient: Tensor = derivatives.grid_gradient(ones, image, points, options)
            return gradient.unsqueeze(1)
        parts = {}
        for order in orders:
            if order not in parts:
                parts[order] = derivatives.gather(image, grid, options.changed(order=order))
        return torch.stack([parts[order] for order in orders], -1).to(dtype)

    def scatter(
        self, values: Tensor, grid: Tensor, spatial: Shape, options: Options, dtype: torch.dtype
    ) -> Tensor:
        """Apply the transpose of gather."""
        size = (*internals.shape_of(values)[:2], *spatial)
        result: Tensor = derivatives.scatter(self.astype(values, dtype), grid, size, options)
        return result

    def backward(
        self,
        values: Tensor,
        image: Tensor,
        grid: Tensor,
        options: Options,
        needed: Needed,
        dtype: torch.dtype,
    ) -> Gradients:
        """Compute both gradients of gather, which can be differentiated again."""
        if needed[0]:
            operators.check_differentiable(image)
        source = image.to(dtype) if needed[0] else image
        return derivatives.only_needed(
            derivatives.backward(values, source, grid, needed, options), needed
        )

    def affine(
        self, image: Tensor, theta: Tensor, out: Shape, options: Options, dtype: torch.dtype
    ) -> Tensor | None:
        """Sample under affine maps if a kernel can compute the coordinates, otherwise None."""
        if not affine.can_fuse(image, theta, options, dtype):
            return None
        call = affine.call_of_maps(self, image, theta, out, options)
        return affine.sample(call, image, theta).to(dtype)

    def affine_backward(
        self,
        values: Tensor,
        image: Tensor,
        theta: Tensor,
        out: Shape,
        options: Options,
        needed: Needed,
        dtype: torch.dtype,
    ) -> Gradients | None:
        """Compute both gradients if a kernel can compute the coordinates, otherwise None.

        They can be differentiated again.
        """
        source = image.to(dtype) if needed[0] else image
        if not affine.can_fuse_gradients(values, source, theta, options):
            return None
        call = affine.call_of_maps(self, source, theta, out, options.changed())
        return affine.gradients(call, values, source, theta, needed)

    def lattice(
        self,
        image: Tensor,
        lattice: Tensor,
        places: ControlPoints,
        options: Options,
        dtype: torch.dtype,
    ) -> Tensor | None:
        """Sample at the points of a lattice, for eager tensors on a CPU, otherwise None."""
        return lattices.sample(image, lattice, places, options, dtype)

    def lattice_backward(
        self,
        values: Tensor,
        image: Tensor,
        lattice: Tensor,
        places: ControlPoints,
        options: Options,
        needed: Needed,
        dtype: torch.dtype,
    ) -> Gradients | None:
        """Compute both gradients for eager tensors on a CPU without derivatives, otherwise None."""
        if image.dtype != dtype:
            return None
        return lattices.gradients(values, image, lattice, places, options, needed)

    def averages(self, arrays: Sequence[Tensor], options: Options, detached: bool) -> bool:
        """Whether tensors are eager, and the kernels average."""
        if options.plan is None or not operators.is_eager_on_cpu(*arrays):
            return False
        if detached and derivatives.needs_gradient(*arrays):
            return False
        return bool(on_cpu().averages(options.plan.plan))

    def average(
        self, arrays: Sequence[Tensor], options: Options, averaging: Averaging
    ) -> tuple[Tensor, Tensor | None, bool]:
        """Gather means over the pixels that count."""
        return operators.run_average(options.plan, arrays, options, averaging)

    def average_backward(
        self,
        values: Tensor,
        arrays: Sequence[Tensor],
        options: Options,
        averaging: Averaging,
        needed: Needed,
    ) -> tuple[Gradients, bool]:
        """Compute the gradients of means in one sweep."""
        return operators.run_average_backward(values, arrays, options, averaging, needed)

    def detached(self, array: Tensor) -> Tensor:
        """Return a tensor without derivatives."""
        return array.detach()

    def scatter_maximum(self, values: Tensor, index: Tensor, count: int) -> Tensor:
        """Return the greatest value at each index."""
        lowest = torch.full_like(values[:, :1], -math.inf).expand(-1, count)
        return lowest.scatter_reduce(1, index.long(), values, "amax")

    def cell_statistics(
        self,
        image: Tensor,
        corners: Tensor,
        weights: Tensor | None,
        statistic: Statistic,
        threads: int | None,
    ) -> Tensor:
        """Compute a statistic of cells, of eager tensors on the CPU."""
        tensors = [tensor for tensor in (image, corners, weights) if tensor is not None]
        if not operators.is_eager_on_cpu(*tensors):
            raise TypeError(
                "cell_statistics takes eager tensors on the CPU: it is no part of torch.compile, "
                "vmap and other transforms; pass tensor.cpu()"
            )
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise TypeError("cell_statistics has no gradients; pass tensor.detach()")
        pixels, *others = [operators.memory(tensor) for tensor in tensors]
        counts = others[1] if weights is not None else None
        result = of_cell_statistics().compute(pixels, others[0], counts, statistic, threads)
        return operators.tensor_of(result, NAMED[type_name(result.dtype)])

    def fused(self, operator: Operator, arrays: Sequence[Tensor], options: Any) -> Tensor:
        """Compute a fused operator, by its program or by its composition."""
        if fused.has_program(operator, arrays, options):
            return fused.call(operator, arrays, options)
        composed: Tensor = operator.composed(self, arrays, options)
        return composed

    def fused_vjp(
        self,
        operator: Operator,
        upstream: Tensor,
        arrays: Sequence[Tensor],
        options: Any,
        needed: Needed,
    ) -> Sequence[Tensor | None]:
        """Compute the needed gradients of a fused operator, which can be differentiated again."""
        if fused.has_program(operator, arrays, options):
            return fused.call_vjp(operator, upstream, arrays, options, needed)
        return operator.composed_vjp(self, upstream, arrays, options, needed)

    def fill(self, image: Tensor, options: Options) -> Tensor:
        """The fill value as a tensor that broadcasts over an image."""
        numbers: Sequence[Any] = options.fill_value
        if image.is_complex():
            numbers = [complex(*numbers[k : k + 2]) for k in range(0, len(numbers), 2)]
        result = image.new_tensor(numbers)
        return result.reshape(1, -1, *(1,) * (image.dim() - 2))

    def prefilter(
        self,
        image: Tensor,
        order: int,
        extended: Sequence[str],
        axes: Sequence[int],
        adjoint: bool,
        threads: int | None,
    ) -> Tensor:
        """Compute B-spline coefficients, or the transpose."""
        axes, extended = list(axes), list(extended)
        result: Tensor = filtering.prefilter(image, order, extended, axes, adjoint, threads)
        return result

    def resize(self, image: Tensor, options: Resizing, transposed: bool) -> Tensor:
        """Resize with the operator `resize`; on devices without kernels, with torch's own."""
        return resizing.resize(image, options, transposed)


BACKEND = Torch()
watch(functools.partial(fused.define, backend=BACKEND))
