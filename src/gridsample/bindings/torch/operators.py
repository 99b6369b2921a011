"""The operators as torch knows them: their schemas, what they compute, and what shape that has.

``torch.ops.gridsample`` holds the two primitives and the fused backward of `gridsample.kernels`:

    gather(input, grid, ...)                  (N, C, *out)
    scatter(values, grid, size, ...)          size = (N, C, *spatial)
    backward(grad_output, input, grid, ...)   both gradients of gather; one that is not needed is
                                              an empty tensor

``mode`` and ``padding_mode`` have a name for each axis, x first, and ``order`` a derivative order.
A CPU tensor's memory is handed to the kernels as it lies.  A result is channels-last in memory
where the tensor that it is made from is, and contiguous elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridsample.plan import (
    BFLOAT16,
    Plan,
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
):
    LIBRARY.define(signature, tags=torch.Tag.pt2_compliant_tag)

gather = torch.ops.gridsample.gather.default
scatter = torch.ops.gridsample.scatter.default
backward = torch.ops.gridsample.backward.default

Names = Sequence[str]
Order = Sequence[int]

TYPES: dict[torch.dtype, np.dtype[Any]] = {torch.bfloat16: BFLOAT16} | {
    getattr(torch, name): np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}


def numpy_type(tensor: Tensor, name: str) -> np.dtype[Any]:
    """The kernels' type for a tensor's."""
    found = TYPES.get(tensor.dtype)
    if found is None:
        accepted = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise TypeError(f"{name} has dtype {tensor.dtype}; accepted: {accepted}")
    return found


def differentiable(tensor: Tensor) -> bool:
    """Whether a tensor's numbers are real or complex, rather than integers."""
    return tensor.is_floating_point() or tensor.is_complex()


# Layout -----------------------------------------------------------------------------------------


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side in memory."""
    return tensor.shape[1] > 1 and tensor.stride(1) == 1 and not tensor.is_contiguous()


def empty(shape: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """An empty tensor (N, C, *rest), laid out in memory as another."""
    axes = tuple(range(len(shape)))
    layout = (0, *axes[2:], 1) if is_channels_last(like) else axes
    return torch.empty_permuted(shape, layout, dtype=dtype, device=like.device)


def empty_gather(image: Tensor, grid: Tensor, order: Order) -> Tensor:
    """An empty output of gather.

    A derivative has the type of a product of both arguments' numbers: it may be too large for the
    image's, and an integer image's is no integer.
    """
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    dtype = torch.promote_types(image.dtype, grid.dtype) if any(order) else image.dtype
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
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy().view(BFLOAT16)
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def tensor_of(array: np.ndarray[Any, Any], like: Tensor) -> Tensor:
    """An array as a tensor with the type and the layout of another; copied only if it must be."""
    result = torch.from_numpy(array).to(like.dtype)
    return result if result.stride() == like.stride() else like.copy_(result)


def plan_call(
    size: Sequence[int], image: Tensor, grid: Tensor, mode: Names, padding: Names, corners: bool
) -> Plan:
    """The plan for an image of the given size, in the type of another tensor."""
    return make_plan(
        tuple(size), numpy_type(image, "input"), tuple(grid.shape), numpy_type(grid, "grid"),
        tuple(mode), tuple(padding), corners, False,
    )  # fmt: skip


def vanishes(plan: Plan, order: Order) -> bool:
    """Whether a derivative is zero everywhere: the weights' degree is less than its order."""
    if len(order) != len(plan.methods) or min(order) < 0:
        raise ValueError(
            f"order must hold a derivative order, 0 or more, for each of the image's "
            f"{len(plan.methods)} axes, got {tuple(order)}"
        )
    return any(n >= method.powers for n, method in zip(order, plan.methods, strict=True))


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
    from gridsample.kernels import cpu

    plan = plan_call(image.shape, image, grid, mode, padding, corners)
    out = empty_gather(image, grid, order)
    if vanishes(plan, order):
        return out.zero_()
    if out.numel():
        cpu.gather(
            plan, memory(image), memory(grid), memory(out),
            order=tuple(order), threads=count(threads),
        )  # fmt: skip
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
    plan = plan_call(size, values, grid, mode, padding, corners)
    check_values(values, plan, "values")
    out = empty(size, values, values.dtype)  # its shape and layout are those of the image
    return sweep(plan, values, out, grid, (out, grid.new_empty(0)), (True, False), order, threads)[
        0
    ]


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
    plan = plan_call(image.shape, image, grid, mode, padding, corners)
    check_values(values, plan, "grad_output")
    if need_input and not differentiable(image):
        raise TypeError(
            f"input has dtype {image.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )
    empties = empty_backward(image, grid, need_input, need_grid)
    return sweep(plan, values, image, grid, empties, (need_input, need_grid), order, threads)


def sweep(
    plan: Plan,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    outputs: tuple[Tensor, Tensor],
    needed: tuple[bool, bool],
    order: Order,
    threads: int | None,
) -> tuple[Tensor, Tensor]:
    """Run the fused kernel, for the needed ones of ``outputs``: the gradients of image and grid."""
    from gridsample.kernels import cpu

    first, second = outputs
    if not values.numel() or vanishes(plan, order):
        return first.zero_(), second.zero_()
    shadow, gradient = cpu.backward(
        plan, memory(values), memory(image), memory(grid), need_image=needed[0],
        need_grid=needed[1], order=tuple(order), threads=count(threads),
    )  # fmt: skip
    return (
        first if shadow is None else tensor_of(shadow, first),
        second if gradient is None else tensor_of(gradient, second),
    )


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
    check_image_type(numpy_type(image, "input"))
    check_grid_type(numpy_type(grid, "grid"))
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


for name, compute, fake in (
    ("gather", cpu_gather, fake_gather),
    ("scatter", cpu_scatter, fake_scatter),
    ("backward", cpu_backward, fake_backward),
):
    LIBRARY.impl(name, compute, "CPU")
    torch.library.register_fake(f"gridsample::{name}", fake, lib=LIBRARY)
