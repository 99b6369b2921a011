"""The operators that torch knows: their schemas, CPU implementations, and output shapes.

``torch.ops.gridsample`` contains the primitives and fused operators of `gridsample.kernels`:

    gather(input, grid, ...)                  (N, C, *out)
    scatter(values, grid, size, ...)          size = (N, C, *spatial)
    backward(grad_output, input, grid, ...)   both gradients of gather; one that is not needed is
                                              an empty tensor
    backward_twice(grad_output, input, grid, by_input, by_grid, ...)
                                              the gradients of backward, likewise; it has no
                                              derivative

The last arguments are the fields of one record, `Options` (see `schemas`).  Gather is linear in the
input except for the fill, which its transpose, scatter, does not have.  The memory of CPU tensors
is passed to the kernels without copying.  A result is channels-last in memory if its input is, and
contiguous otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gridsample.backends.base import Gradients, Needed
from gridsample.backends.torch import fast_path
from gridsample.backends.torch.fast_path import TYPES
from gridsample.backends.torch.internals import dispatch_keys, eager_keys, is_observed
from gridsample.backends.torch.schemas import SAMPLING, as_operator
from gridsample.definitions.caches import cached_call
from gridsample.definitions.dtypes import BFLOAT16, check_grid_type, check_image_type
from gridsample.definitions.options import Averaging, Options, checked, plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import as_request
from gridsample.definitions.shapes import Shape, check_shapes
from gridsample.kernels import on_cpu
from gridsample.kernels.memory import is_even_layout

Maybe = Tensor | None
Order = Sequence[int]


# Annotated because torch gives its methods no types.
LIBRARY: Any = torch.library.Library("gridsample", "DEF")  # type: ignore[no-untyped-call]
for signature in (
    f"gather(Tensor input, Tensor grid, {SAMPLING}) -> Tensor",
    f"scatter(Tensor values, Tensor grid, SymInt[] size, {SAMPLING}) -> Tensor",
    "backward(Tensor grad_output, Tensor input, Tensor grid, bool need_input, bool need_grid, "
    f"{SAMPLING}) -> (Tensor, Tensor)",
    "backward_twice(Tensor grad_output, Tensor input, Tensor grid, Tensor? by_input, "
    f"Tensor? by_grid, bool need_values, bool need_input, bool need_grid, {SAMPLING}) "
    "-> (Tensor, Tensor, Tensor)",
):
    LIBRARY.define(signature, tags=torch.Tag.pt2_compliant_tag)

gather = torch.ops.gridsample.gather.default
scatter = torch.ops.gridsample.scatter.default
backward = torch.ops.gridsample.backward.default
backward_twice = torch.ops.gridsample.backward_twice.default


def numpy_type(dtype: torch.dtype, name: str) -> np.dtype[Any]:
    """Convert a tensor's dtype to the kernels' dtype, or raise an error if it is not supported."""
    array_type = TYPES.get(dtype)
    if array_type is None:
        accepted = ", ".join(str(accepted_type).removeprefix("torch.") for accepted_type in TYPES)
        raise TypeError(f"{name} has dtype {dtype}; accepted: {accepted}")
    return array_type


def differentiable(tensor: Tensor) -> bool:
    """Whether a tensor is floating-point or complex."""
    return tensor.is_floating_point() or tensor.is_complex()


def check_differentiable(image: Tensor) -> None:
    """Raise an error if the gradient of an integer image is requested."""
    if not differentiable(image):
        raise TypeError(
            f"input has dtype {image.dtype}, which has no gradient; "
            "pass need_input=False to get only the grid's gradient"
        )


# Layout -------------------------------------------------------------------------------------------


def is_channels_last(tensor: Tensor) -> bool:
    """Whether all channels of a pixel are contiguous, and pixels follow each other without gaps.

    In one of several attention heads, channels are contiguous, too, but there are gaps between
    pixels.  Results are then contiguous, because most operations are fastest on such tensors.
    """
    return (
        not tensor.is_contiguous()
        and tensor.dim() > 1
        and tensor.stride(1) == 1 < tensor.shape[1]
        and (tensor.shape[-1] == 1 or tensor.stride(-1) == tensor.shape[1])
    )


def empty(
    shape: Sequence[int], like: Tensor, dtype: torch.dtype, last: bool | None = None
) -> Tensor:
    """Allocate a tensor (N, C, *rest), channels-last if ``last``, by default as another is."""
    if not (is_channels_last(like) if last is None else last):
        return torch.empty(shape, dtype=dtype, device=like.device)
    layout = (0, *range(2, len(shape)), 1)
    return torch.empty_permuted(shape, layout, dtype=dtype, device=like.device)


def gathered_type(image: torch.dtype, grid: torch.dtype, order: Order) -> torch.dtype:
    """The dtype of the result of gather, which is the image's.

    A derivative has the dtype of a product of both arguments.  It may be out of the range of the
    image's dtype, and that of an integer image is not an integer.
    """
    return torch.promote_types(image, grid) if any(order) else image


def empty_gather(image: Tensor, grid: Tensor, order: Order) -> Tensor:
    """Allocate the output of gather."""
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    dtype = gathered_type(image.dtype, grid.dtype, order)
    return empty((items, image.shape[1], *grid.shape[1:-1]), image, dtype)


def empty_backward(image: Tensor, grid: Tensor, needed: Needed) -> tuple[Tensor, Tensor]:
    """Allocate the outputs of backward."""
    return (
        empty(image.shape, image, image.dtype) if needed[0] else image.new_empty(0),
        grid.new_empty(grid.shape if needed[1] else 0),
    )


def empty_backward_twice(
    values: Tensor, image: Tensor, grid: Tensor, needed: Needed
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate the outputs of backward_twice."""
    first = empty(values.shape, values, values.dtype) if needed[0] else values.new_empty(0)
    return first, *empty_backward(image, grid, needed[1:])


# Computation for CPU tensors ----------------------------------------------------------------------


def memory(tensor: Tensor) -> np.ndarray[Any, Any]:
    """View a tensor's memory as an array; copy it only if it must be conjugated or negated."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy().view(BFLOAT16)
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def tensor_of(
    array: np.ndarray[Any, Any], dtype: torch.dtype, like: Tensor | None = None
) -> Tensor:
    """Convert an array to a tensor with a dtype and the layout of ``like``; avoid copies."""
    if array.dtype == BFLOAT16:
        result = torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    else:
        result = torch.from_numpy(array)
        result = result if result.dtype == dtype else result.to(dtype)
    return match_layout(result, like)


def match_layout(result: Tensor, like: Tensor | None) -> Tensor:
    """Give a tensor the layout of ``like``, or make it contiguous; copy only if necessary."""
    if like is None or not is_channels_last(like):
        return result.contiguous()
    laid_out = empty(result.shape, like, result.dtype)
    return result if result.stride() == laid_out.stride() else laid_out.copy_(result)


class OperatorCall(NamedTuple):
    """The data of a call that depend only on shapes, dtypes and options; they are cached.

    Attributes:
        plan: the plan for the image and the grid.
        order: the derivative order along each axis.
        vanishes: whether the derivative is 0 everywhere; see `Plan.vanishes`.
        dtype: the dtype of the result of gather.
    """

    plan: Plan
    order: Shape
    vanishes: bool
    dtype: torch.dtype


def call_of(
    size: Shape, image_type: torch.dtype, grid: Shape, grid_type: torch.dtype, options: Options
) -> OperatorCall:
    """Describe a call with checked options for an image (N, C, *spatial) of the given size."""
    types = numpy_type(image_type, "input"), numpy_type(grid_type, "grid")
    plan, order = plan_of(size, types[0], grid, types[1], options), tuple(options.order)
    return OperatorCall(
        plan, order, plan.vanishes(order), gathered_type(image_type, grid_type, order)
    )


@cached_call(1024)
def find_call(
    size: Shape, image_type: torch.dtype, grid: Shape, grid_type: torch.dtype, options: Options
) -> OperatorCall:
    """Check the options of an operator, and describe its call."""
    # Displacements are relative to the last axes of the output, which may have more axes.
    displaced = options.coords == "displacement" and len(grid) > len(size)
    coords, order, footprint = options.coords, options.order, options.footprint
    request = as_request(options.changed(coords="pixel" if displaced else coords))
    resolved = checked(request, size, grid)
    if len(order) != len(resolved.mode) or min(order) < 0:
        raise ValueError(
            f"order must hold a derivative order, 0 or more, for each of the image's "
            f"{len(resolved.mode)} axes, got {order}"
        )
    resolved = resolved.changed(order=order, footprint=footprint, wide=options.wide)
    call = call_of(size, image_type, grid, grid_type, resolved)
    return call._replace(plan=replace(call.plan, coords=coords)) if displaced else call


def call_for(size: Sequence[int], image: Tensor, grid: Tensor, options: Options) -> OperatorCall:
    """Find the call for an image of the given size and the dtype of ``image``."""
    order = tuple(options.order)
    key = options.changed(fill_value=(), channel_axis=1, threads=None, block=None, order=order)
    return find_call(tuple(size), image.dtype, tuple(grid.shape), grid.dtype, key)


def fill_of(fill: Sequence[float], plan: Plan) -> np.ndarray[Any, Any] | None:
    """Return the fill of each channel, or None for 0."""
    if not fill:
        return None
    numbers = np.array(fill, np.float64)
    numbers = numbers.view(np.complex128) if plan.dtype.kind == "c" else numbers
    if len(numbers) not in (1, plan.channels):
        raise ValueError(
            f"fill must hold a number, or one for each of {plan.channels} channels, "
            f"got {len(numbers)}"
        )
    return np.broadcast_to(numbers, (plan.channels,))


def check_values(values: Tensor, plan: Plan, name: str) -> None:
    """Raise an error if upstream values do not match the output of a plan."""
    if tuple(values.shape) != plan.shape:
        raise ValueError(
            f"{name} must have the output's shape {plan.shape}, got {tuple(values.shape)}"
        )
    if not differentiable(values):
        raise TypeError(f"{name} has dtype {values.dtype}; accepted: floating and complex types")
    if values.is_complex() != (plan.dtype.kind == "c"):
        raise TypeError(f"{name} has dtype {values.dtype}, but the output has {plan.dtype}")


def thread_count(threads: int | None) -> int:
    """The number of threads to use; torch's number by default."""
    return threads or torch.get_num_threads()


def gather_on_cpu(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Compute gather for CPU tensors."""
    return run_gather(call_for(image.shape, image, grid, options), image, grid, options)


def run_gather(call: OperatorCall, image: Tensor, points: Tensor, options: Options) -> Tensor:
    """Compute gather for CPU tensors, at the points of a grid or of affine maps."""
    out, threads = empty(call.plan.shape, image, call.dtype), thread_count(options.threads)
    if call.vanishes:
        return out.zero_()
    if not out.numel():
        return out
    plan, fill = call.plan, options.fill_value
    if plan.are_maps(points.shape):
        points = as_maps(points)
    elif not fill and fast_path.gather(plan, call.order, image, points, out, threads):
        return out
    arrays = memory(image), memory(points), memory(out)
    outside = fill_of(fill, plan)
    on_cpu().gather(plan, *arrays, order=call.order, fill=outside, threads=threads)
    return out


def ready_gather(
    call: OperatorCall, image: Tensor, grid: Tensor, threads: int
) -> tuple[Tensor, Any]:
    """Prepare gather for eager tensors without data: the output, and the kernel's prepared call.

    The latter is None if there is nothing to compute, or tensors are first copied.
    """
    out = empty(call.plan.shape, image, call.dtype)
    if call.vanishes or not out.numel() or fast_path.contiguous_if_faster(image, out) is not image:
        return out, None
    layouts = [fast_path.layout_of(tensor) for tensor in (image, grid, out)]
    return out, on_cpu().ready_gather(call.plan, call.order, *layouts, threads)


def as_maps(theta: Tensor) -> Tensor:
    """Convert affine maps to the dtype in which kernels compute coordinates."""
    return theta.to(torch.float64 if theta.dtype == torch.float64 else torch.float32)


def call_arrays_of(
    plan: Plan, options: Options, image: Tensor, points: Tensor, values: Tensor, *more: Maybe
) -> Any:
    """Collect the memory of tensors for kernels; ``more`` are weights, and sums of weights."""
    arrays = [None if tensor is None else memory(tensor) for tensor in more]
    fill = fill_of(options.fill_value, plan)
    cpu = on_cpu()
    return cpu.CallArrays(memory(image), memory(points), memory(values), *arrays, fill=fill)


def run_average(
    call: OperatorCall, arrays: Sequence[Tensor], options: Options, averaging: Averaging
) -> tuple[Tensor, Tensor | None, bool]:
    """Compute means over the pixels that count, for CPU tensors, given their call."""
    image, points, *weights = arrays
    threads, plan, shares = thread_count(options.threads), call.plan, None
    out = empty(plan.shape, image, call.dtype)
    if averaging.returns_weights:
        shares = empty(plan.shape, image, sum_type(plan))
    if not out.numel():
        return out, shares, False
    if plan.are_maps(points.shape):
        points = as_maps(points)
    elif not (options.fill_value or weights) and fast_path.gather(
        plan, call.order, image, points, out, threads, averaging
    ):
        return out, shares, False
    weight = weights[0] if weights else None
    call_arrays = call_arrays_of(plan, options, image, points, out, weight, shares)
    invalid_weights = on_cpu().average(plan, call_arrays, averaging, threads)
    return out, shares, invalid_weights


def run_average_backward(
    values: Tensor,
    arrays: Sequence[Tensor],
    options: Options,
    averaging: Averaging,
    needed: Needed,
) -> tuple[Gradients, bool]:
    """Compute the gradients of `run_average` for CPU tensors."""
    image, positions, *weights = arrays
    plan, weight = options.plan.plan, weights[0] if weights else None
    points = as_maps(positions) if plan.are_maps(positions.shape) else positions
    call_arrays = call_arrays_of(plan, options, image, points, values, weight)
    needs = on_cpu().NeededGradients(*needed, dtype=plan.dtype)
    threads = thread_count(options.threads)
    results = on_cpu().average_backward(plan, call_arrays, averaging, needs, threads)
    likes = (image.dtype, image), (positions.dtype, None), (sum_type(plan), weight)
    gradients = [
        None if gradient is None else tensor_of(gradient, dtype, like)
        for gradient, (dtype, like) in zip(results[:3], likes, strict=True)
    ]
    return tuple(gradients), results.invalid_weights


def sum_type(plan: Plan) -> torch.dtype:
    """The dtype of sums."""
    return torch.float64 if plan.real.itemsize == 8 else torch.float32


def scatter_on_cpu(values: Tensor, grid: Tensor, size: Sequence[int], options: Options) -> Tensor:
    """Compute scatter for CPU tensors."""
    call, threads = call_for(size, values, grid, options), thread_count(options.threads)
    plan = call.plan
    check_values(values, plan, "values")
    if call.vanishes or not values.numel():
        return empty(size, values, values.dtype).zero_()
    arrays = memory(values), memory(grid)
    sums = on_cpu().scatter(plan, *arrays, order=call.order, dtype=plan.dtype, threads=threads)
    return tensor_of(sums, values.dtype, values)


def backward_on_cpu(
    values: Tensor, image: Tensor, grid: Tensor, needed: Needed, options: Options
) -> tuple[Tensor, Tensor]:
    """Compute backward for CPU tensors."""
    call = call_for(image.shape, image, grid, options)
    check_values(values, call.plan, "grad_output")
    if needed[0]:
        check_differentiable(image)
    return run_backward(call, values, image, grid, needed, options)


def run_backward(
    call: OperatorCall,
    values: Tensor,
    image: Tensor,
    points: Tensor,
    needed: Needed,
    options: Options,
) -> tuple[Tensor, Tensor]:
    """Compute backward for CPU tensors, at the points of a grid or of affine maps."""
    if call.vanishes or not values.numel():
        by_image, by_points = empty_backward(image, points, needed)
        return by_image.zero_(), by_points.zero_()
    plan, order, threads = call.plan, call.order, thread_count(options.threads)
    gradients: tuple[Maybe, Maybe] | None = None
    affine = plan.are_maps(points.shape)
    if not is_even_layout(fast_path.layout_of(values)):
        values = values.contiguous()  # once, and torch copies faster than NumPy
    if not affine and not options.fill_value and values.dtype == image.dtype:
        gradients = fast_path.backward(plan, order, values, image, points, needed, threads)
    if gradients is None:
        cpu, maps = on_cpu(), as_maps(points) if affine else points
        call_arrays = call_arrays_of(plan, options, image, maps, values)
        needs = cpu.NeededGradients(*needed, dtype=plan.dtype)
        sums = cpu.backward(plan, call_arrays, needs, order=order, threads=threads)
        gradients = (
            None if sums.image is None else tensor_of(sums.image, image.dtype, image),
            None if sums.grid is None else tensor_of(sums.grid, points.dtype),
        )
    first, second = gradients
    return (
        image.new_empty(0) if first is None else match_layout(first, image),
        points.new_empty(0) if second is None else second,
    )


def double_backward_on_cpu(
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    upstream_image: Maybe,
    upstream_grid: Maybe,
    needed: Needed,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of backward for CPU tensors; unneeded ones are empty tensors."""
    call, cpu = call_for(image.shape, image, grid, options), on_cpu()
    check_values(values, call.plan, "grad_output")
    if options.blends():
        raise ValueError(
            f"backward_twice takes no fill value; accepted: none, got {options.fill_value}"
        )
    results = empty_backward_twice(values, image, grid, needed)
    if call.vanishes or not values.numel() or (upstream_image is None and upstream_grid is None):
        first, second, third = results
        return first.zero_(), second.zero_(), third.zero_()
    upstream = None if upstream_image is None else memory(upstream_image.to(image.dtype))
    grid_tangent = memory(
        torch.zeros_like(grid) if upstream_grid is None else upstream_grid.to(grid.dtype)
    )
    call_arrays = call_arrays_of(call.plan, options.linear(), image, grid, values)
    needs = cpu.NeededGradients(*needed[1:], values=needed[0])
    gradients = cpu.backward_twice(
        call.plan,
        call_arrays,
        upstream,
        grid_tangent,
        needs,
        order=call.order,
        threads=thread_count(options.threads),
    )
    likes = (values, values), (image, image), (grid, None)
    first, second, third = (
        result if gradient is None else tensor_of(gradient, like.dtype, layout)
        for result, gradient, (like, layout) in zip(results, gradients, likes, strict=True)
    )
    return first, second, third


# Output shapes, for tensors without data ----------------------------------------------------------


def check_target() -> None:
    """Raise an error if an ONNX model is being exported.

    Where possible, `onnx.gather_as_node` has replaced gather before this is reached.
    """
    if torch.onnx.is_in_onnx_export():
        raise ValueError(
            "ONNX has no equivalent of the operators in torch.ops.gridsample; first pass the "
            "program from torch.export to gridsample.onnx.lower; gradients cannot be exported"
        )


def check_call(image: Tensor, grid: Tensor) -> None:
    """Perform the checks of a plan that do not depend on sizes."""
    check_target()
    check_image_type(numpy_type(image.dtype, "input"))
    check_grid_type(numpy_type(grid.dtype, "grid"))
    check_shapes(tuple(image.shape), tuple(grid.shape), False)


def fake_gather(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Allocate the output of gather, for tensors without data."""
    check_call(image, grid)
    return empty_gather(image, grid, options.order)


def fake_scatter(values: Tensor, grid: Tensor, size: Sequence[int], options: Options) -> Tensor:
    """Allocate the output of scatter, for tensors without data."""
    check_target()
    return empty(size, values, values.dtype)


def fake_backward(
    values: Tensor, image: Tensor, grid: Tensor, needed: Needed, options: Options
) -> tuple[Tensor, Tensor]:
    """Allocate the outputs of backward, for tensors without data."""
    check_call(image, grid)
    return empty_backward(image, grid, needed)


def fake_backward_twice(
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    upstream_image: Maybe,
    upstream_grid: Maybe,
    needed: Needed,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate the outputs of backward_twice, for tensors without data."""
    check_call(image, grid)
    return empty_backward_twice(values, image, grid, needed)


cpu_gather = as_operator("gather", gather_on_cpu)
cpu_scatter = as_operator("scatter", scatter_on_cpu)
cpu_backward = as_operator("backward", backward_on_cpu)
cpu_backward_twice = as_operator("backward_twice", double_backward_on_cpu)

for name, compute, fake in (
    ("gather", cpu_gather, fake_gather),
    ("scatter", cpu_scatter, fake_scatter),
    ("backward", cpu_backward, fake_backward),
    ("backward_twice", cpu_backward_twice, fake_backward_twice),
):
    LIBRARY.impl(name, compute, "CPU")
    torch.library.register_fake(f"gridsample::{name}", as_operator(name, fake), lib=LIBRARY)


# Without the dispatcher ---------------------------------------------------------------------------


CLASSES = frozenset((Tensor, torch.nn.Parameter))
EAGER_KEYS = frozenset(eager_keys("cpu"))


def is_eager_on_cpu(*tensors: Tensor) -> bool:
    """Whether CPU tensors are eager: ordinary ones, while no transform, mode or trace is active.

    The implementation of an operator may then be called directly.  Torch's dispatcher takes as long
    as a few hundred samples.
    """
    return not is_observed() and have_eager_cpu_keys(*tensors)


def have_eager_cpu_keys(*tensors: Tensor) -> bool:
    """Whether tensors are ordinary ones on the CPU."""
    for tensor in tensors:
        if type(tensor) not in CLASSES or dispatch_keys(tensor).raw_repr() not in EAGER_KEYS:
            return False
    return True


def is_eager(*tensors: Tensor) -> bool:
    """Whether tensors are eager (`is_eager_on_cpu`), on the CPU or on another device."""
    if is_observed():
        return False
    return have_eager_cpu_keys(*tensors) or all(
        type(tensor) in CLASSES and tensor.device.type not in ("cpu", "meta") for tensor in tensors
    )
