"""The operators as torch knows them: their schemas, what they compute, and what shape that has.

``torch.ops.gridsample`` holds the two primitives and the fused backward of `gridsample.kernels`:

    gather(input, grid, ...)                  (N, C, *out)
    scatter(values, grid, size, ...)          size = (N, C, *spatial)
    backward(grad_output, input, grid, ...)   both gradients of gather; one that is not needed is
                                              an empty tensor
    backward_twice(grad_output, input, grid, by_input, by_grid, ...)
                                              the gradients of that, likewise; it has no derivative

``mode`` and ``padding_mode`` have a name for each axis, x first, and ``order`` a derivative order.
A CPU tensor's memory is handed to the kernels as it lies.  A result is channels-last in memory
where the tensor that it is made from is, and contiguous elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from gridsample.plan import (
    BFLOAT16,
    Plan,
    Shape,
    check_grid_type,
    check_image_type,
    check_shapes,
    make_plan,
)

# What all operators take at the end; in this order, it is what the code calls options.
SCHEMA = "str[] mode, str[] padding_mode, bool align_corners, int[] order, int? threads=None"

# Annotated because torch gives its methods no types.
LIBRARY: Any = torch.library.Library("gridsample", "DEF")  # type: ignore[no-untyped-call]
for signature in (
    f"gather(Tensor input, Tensor grid, {SCHEMA}) -> Tensor",
    f"scatter(Tensor values, Tensor grid, SymInt[] size, {SCHEMA}) -> Tensor",
    "backward(Tensor grad_output, Tensor input, Tensor grid, bool need_input, bool need_grid, "
    f"{SCHEMA}) -> (Tensor, Tensor)",
    "backward_twice(Tensor grad_output, Tensor input, Tensor grid, Tensor? by_input, "
    f"Tensor? by_grid, bool need_values, bool need_input, bool need_grid, {SCHEMA}) "
    "-> (Tensor, Tensor, Tensor)",
):
    LIBRARY.define(signature, tags=torch.Tag.pt2_compliant_tag)

gather = torch.ops.gridsample.gather.default
scatter = torch.ops.gridsample.scatter.default
backward = torch.ops.gridsample.backward.default
backward_twice = torch.ops.gridsample.backward_twice.default

Names = Sequence[str]
Maybe = Tensor | None
Order = Sequence[int]

TYPES: dict[torch.dtype, np.dtype[Any]] = {torch.bfloat16: BFLOAT16} | {
    getattr(torch, name): np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}


def numpy_type(given: torch.dtype, name: str) -> np.dtype[Any]:
    """The kernels' type for a tensor's."""
    found = TYPES.get(given)
    if found is None:
        accepted = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise TypeError(f"{name} has dtype {given}; accepted: {accepted}")
    return found


def differentiable(tensor: Tensor) -> bool:
    """Whether a tensor's numbers are real or complex, rather than integers."""
    return tensor.is_floating_point() or tensor.is_complex()


# Layout -----------------------------------------------------------------------------------------


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side in memory."""
    return not tensor.is_contiguous() and tensor.shape[1] > 1 and tensor.stride(1) == 1


def empty(shape: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """An empty tensor (N, C, *rest), laid out in memory as another."""
    if not is_channels_last(like):
        return torch.empty(shape, dtype=dtype, device=like.device)
    layout = (0, *range(2, len(shape)), 1)
    return torch.empty_permuted(shape, layout, dtype=dtype, device=like.device)


def gathered_type(image: torch.dtype, grid: torch.dtype, order: Order) -> torch.dtype:
    """The type of what gather gives: the image's.

    A derivative has the type of a product of both arguments' numbers: it may be too large for the
    image's, and an integer image's is no integer.
    """
    return torch.promote_types(image, grid) if any(order) else image


def empty_gather(image: Tensor, grid: Tensor, order: Order) -> Tensor:
    """An empty output of gather."""
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    dtype = gathered_type(image.dtype, grid.dtype, order)
    return empty((items, image.shape[1], *grid.shape[1:-1]), image, dtype)


def empty_backward(
    image: Tensor, grid: Tensor, need_input: bool, need_grid: bool
) -> tuple[Tensor, Tensor]:
    """Empty outputs of backward."""
    return (
        empty(image.shape, image, image.dtype) if need_input else image.new_empty(0),
        grid.new_empty(grid.shape if need_grid else 0),
    )


# What is computed for CPU tensors -----------------------------------------------------------------


def memory(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor's memory as an array; a copy only where numbers are to be conjugated or negated."""
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
    """An array as a tensor of a type, contiguous or laid out as another; copied only if it must."""
    result = torch.from_numpy(array)
    result = result if result.dtype == dtype else result.to(dtype)
    if like is None or not is_channels_last(like):
        return result.contiguous()
    laid_out = empty(result.shape, like, dtype)
    return result if result.stride() == laid_out.stride() else laid_out.copy_(result)


class Call(NamedTuple):
    """What follows from shapes, types and options alone, so that a small call need not wait for it.

    Attributes:
        plan: for an image and a grid.
        order: the derivative order along each axis.
        zero: whether such a derivative is zero everywhere: the weights' degree is less.
        dtype: what gather gives.
    """

    plan: Plan
    order: Shape
    zero: bool
    dtype: torch.dtype


@functools.lru_cache(maxsize=1024)
def find_call(
    size: Shape, image_type: torch.dtype, grid_shape: Shape, grid_type: torch.dtype,
    mode: tuple[str, ...], padding: tuple[str, ...], corners: bool, order: Shape,
) -> Call:  # fmt: skip
    """The call for an image (N, C, *spatial) of the given size."""
    image_kind, grid_kind = numpy_type(image_type, "input"), numpy_type(grid_type, "grid")
    plan = make_plan(size, image_kind, grid_shape, grid_kind, mode, padding, corners, False)
    if len(order) != len(plan.methods) or min(order) < 0:
        raise ValueError(
            f"order must hold a derivative order, 0 or more, for each of the image's "
            f"{len(plan.methods)} axes, got {order}"
        )
    zero = any(n >= method.powers for n, method in zip(order, plan.methods, strict=True))
    return Call(plan, order, zero, gathered_type(image_type, grid_type, order))


def call_for(
    size: Sequence[int], image: Tensor, grid: Tensor, mode: Names, padding: Names, corners: bool,
    order: Order,
) -> Call:  # fmt: skip
    """The call for an image of the given size, in the type of another tensor."""
    return find_call(
        tuple(size), image.dtype, tuple(grid.shape), grid.dtype,
        tuple(mode), tuple(padding), corners, tuple(order),
    )  # fmt: skip


def check_values(values: Tensor, plan: Plan, name: str) -> None:
    """Refuse upstream values that do not go with a plan's output."""
    if tuple(values.shape) != plan.shape:
        raise ValueError(
            f"{name} must have the output's shape {plan.shape}, got {tuple(values.shape)}"
        )
    if not differentiable(values):
        raise TypeError(f"{name} has dtype {values.dtype}; accepted: floating and complex types")
    if values.is_complex() != (plan.dtype.kind == "c"):
        raise TypeError(f"{name} has dtype {values.dtype}, but the output has {plan.dtype}")


def count(threads: int | None) -> int:
    """How many threads to use: as many as torch does, unless told."""
    return threads or torch.get_num_threads()


def cpu_gather(
    image: Tensor,
    grid: Tensor,
    mode: Names,
    padding: Names,
    corners: bool,
    order: Order,
    threads: int | None = None,
) -> Tensor:
    """Gather, for CPU tensors."""
    call = call_for(image.shape, image, grid, mode, padding, corners, order)
    return run_gather(call, image, grid, threads)


def run_gather(call: Call, image: Tensor, grid: Tensor, threads: int | None) -> Tensor:
    """Gather, for CPU tensors of which all is known."""
    from gridsample.kernels import cpu

    out = empty(call.plan.shape, image, call.dtype)
    if call.zero:
        return out.zero_()
    if out.numel():
        arrays = memory(image), memory(grid), memory(out)
        cpu.gather(call.plan, *arrays, order=call.order, threads=count(threads))
    return out


def cpu_scatter(
    values: Tensor,
    grid: Tensor,
    size: Sequence[int],
    mode: Names,
    padding: Names,
    corners: bool,
    order: Order,
    threads: int | None = None,
) -> Tensor:
    """Scatter, for CPU tensors."""
    from gridsample.kernels import cpu

    call = call_for(size, values, grid, mode, padding, corners, order)
    check_values(values, call.plan, "values")
    if call.zero or not values.numel():
        return empty(size, values, values.dtype).zero_()
    shadow = cpu.scatter(
        call.plan, memory(values), memory(grid), order=call.order, threads=count(threads)
    )
    return tensor_of(shadow, values.dtype, values)


def cpu_backward(
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    need_input: bool,
    need_grid: bool,
    mode: Names,
    padding: Names,
    corners: bool,
    order: Order,
    threads: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Backward, for CPU tensors."""
    call = call_for(image.shape, image, grid, mode, padding, corners, order)
    check_values(values, call.plan, "grad_output")
    if need_input and not differentiable(image):
        raise TypeError(
            f"input has dtype {image.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )
    return run_backward(call, values, image, grid, need_input, need_grid, threads)


def run_backward(
    call: Call, values: Tensor, image: Tensor, grid: Tensor, need_input: bool, need_grid: bool,
    threads: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Backward, for CPU tensors of which all is known."""
    from gridsample.kernels import cpu

    if call.zero or not values.numel():
        first, second = empty_backward(image, grid, need_input, need_grid)
        return first.zero_(), second.zero_()
    shadow, gradient = cpu.backward(
        call.plan, memory(values), memory(image), memory(grid), need_image=need_input,
        need_grid=need_grid, order=call.order, threads=count(threads),
    )  # fmt: skip
    return (
        image.new_empty(0) if shadow is None else tensor_of(shadow, image.dtype, image),
        grid.new_empty(0) if gradient is None else tensor_of(gradient, grid.dtype),
    )


def cpu_backward_twice(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe, by_grid: Maybe,
    need_values: bool, need_image: bool, need_grid: bool,
    mode: Names, padding: Names, corners: bool, order: Order, threads: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of backward, for CPU tensors; one that is not needed is an empty tensor."""
    from gridsample.kernels import cpu

    call = call_for(image.shape, image, grid, mode, padding, corners, order)
    check_values(values, call.plan, "grad_output")
    needed = need_values, need_image, need_grid
    likes = values, image, grid
    if call.zero or not values.numel() or (by_image is None and by_grid is None):
        empties = fake_backward_twice(*likes, by_image, by_grid, *needed)
        return tuple(tensor.zero_() for tensor in empties)  # type: ignore[return-value]
    moves = memory(torch.zeros_like(grid) if by_grid is None else by_grid.to(grid.dtype))
    results = cpu.backward_twice(
        call.plan, memory(values), memory(image), memory(grid),
        None if by_image is None else memory(by_image.to(image.dtype)), moves,
        need_values=need_values, need_image=need_image, need_grid=need_grid,
        order=call.order, threads=count(threads),
    )  # fmt: skip
    first, second, third = (
        like.new_empty(0)
        if one is None
        else tensor_of(one, like.dtype, None if like is grid else like)
        for one, like in zip(results, likes, strict=True)
    )
    return first, second, third


# What shape that has, for tensors without memory --------------------------------------------------


def check_target() -> None:
    """Refuse to become part of an ONNX model.

    `onnx.gather_as_node` takes gather's place before this is reached, where it can.
    """
    if torch.onnx.is_in_onnx_export():
        raise ValueError(
            "ONNX has no operator for torch.ops.gridsample's as they are; give a program that "
            "torch.export made to gridsample.onnx.lower first; gradients cannot be exported"
        )


def check_call(image: Tensor, grid: Tensor) -> None:
    """The part of a plan's checks that needs no numbers."""
    check_target()
    check_image_type(numpy_type(image.dtype, "input"))
    check_grid_type(numpy_type(grid.dtype, "grid"))
    check_shapes(tuple(image.shape), tuple(grid.shape), False)


def fake_gather(
    image: Tensor, grid: Tensor, mode: Names, padding: Names, corners: bool, order: Order,
    threads: int | None = None,
) -> Tensor:  # fmt: skip
    """Gather, of the shapes alone."""
    check_call(image, grid)
    return empty_gather(image, grid, order)


def fake_scatter(values: Tensor, grid: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """Scatter, of the shapes alone."""
    check_target()
    return empty(size, values, values.dtype)


def fake_backward(
    values: Tensor, image: Tensor, grid: Tensor, need_input: bool, need_grid: bool, *options: Any
) -> tuple[Tensor, Tensor]:
    """Backward, of the shapes alone."""
    check_call(image, grid)
    return empty_backward(image, grid, need_input, need_grid)


def fake_backward_twice(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe, by_grid: Maybe,
    need_values: bool, need_image: bool, need_grid: bool, *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Backward_twice, of the shapes alone."""
    first, second = fake_backward(values, image, grid, need_image, need_grid)
    onto = empty(values.shape, values, values.dtype) if need_values else values.new_empty(0)
    return onto, first, second


for name, compute, fake in (
    ("gather", cpu_gather, fake_gather),
    ("scatter", cpu_scatter, fake_scatter),
    ("backward", cpu_backward, fake_backward),
    ("backward_twice", cpu_backward_twice, fake_backward_twice),
):
    LIBRARY.impl(name, compute, "CPU")
    torch.library.register_fake(f"gridsample::{name}", fake, lib=LIBRARY)


# The short way ------------------------------------------------------------------------------------


def kind(tensor: Tensor) -> tuple[type, int]:
    """A tensor's class, and what the dispatcher sees in it: device, layout, batch and more."""
    return type(tensor), torch._C._dispatch_keys(tensor).raw_repr()


KINDS = frozenset(map(kind, (torch.empty(0), torch.nn.Parameter(torch.empty(0)))))


def is_plain(*tensors: Tensor) -> bool:
    """Whether the tensors are CPU memory and no more, and nobody has to hear of what is done.

    Then what computes an operator may be called as the function that it is.  The dispatcher takes
    as long as a few hundred samples do.
    """
    if (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    ):
        return False
    return all([issubclass(type(tensor), Tensor) and kind(tensor) in KINDS for tensor in tensors])
