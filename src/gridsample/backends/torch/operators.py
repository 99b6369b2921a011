"""The operators as torch knows them: their schemas, what they compute, and what shape that has.

``torch.ops.gridsample`` holds the two primitives and the fused backward of `gridsample.kernels`:

    gather(input, grid, ...)                  (N, C, *out)
    scatter(values, grid, size, ...)          size = (N, C, *spatial)
    backward(grad_output, input, grid, ...)   both gradients of gather; one that is not needed is
                                              an empty tensor
    backward_twice(grad_output, input, grid, by_input, by_grid, ...)
                                              the gradients of that, likewise; it has no derivative

At the end of each stand the fields of one record, `Options` (`schemas`).  Gather is linear in the
input but for the fill; the transpose, scatter, has none.  A CPU tensor's memory is handed to the
kernels as it lies.  A result is channels-last in memory where the tensor that it is made from is,
and contiguous elsewhere.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gridsample.backends.torch import quick
from gridsample.backends.torch.contacts import is_overheard, kind
from gridsample.backends.torch.quick import TYPES
from gridsample.backends.torch.schemas import SAMPLING, on_record, record
from gridsample.definitions.methods import Method
from gridsample.definitions.options import Options
from gridsample.definitions.plan import (
    BFLOAT16,
    Plan,
    Shape,
    check_grid_type,
    check_image_type,
    check_shapes,
    make_plan,
    method_of,
)
from gridsample.kernels import on_cpu

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


def check_differentiable(image: Tensor) -> None:
    """Refuse an image of integers."""
    if not differentiable(image):
        raise TypeError(
            f"input has dtype {image.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )


def as_integers(values: Tensor, dtype: torch.dtype, fill: Sequence[float]) -> Tensor:
    """Samples (N, C, *out) as integers: rounded half to even, saturated, and the fill for NaN."""
    hole = values.new_tensor(list(fill) or [0.0]).reshape(1, -1, *(1,) * (values.dim() - 2))
    values = torch.where(values.isnan(), hole, values).nan_to_num(0, math.inf, -math.inf).round()
    if dtype == torch.bool:
        return values > 0
    limits = torch.iinfo(dtype)
    # The largest integer may be no float: what is past it is told apart before.
    inside = values.clamp(limits.min, math.nextafter(float(limits.max), 0)).to(dtype)
    return torch.where(values >= limits.max, torch.full_like(inside, limits.max), inside)


# Layout -----------------------------------------------------------------------------------------


def is_channels_last(tensor: Tensor) -> bool:
    """Whether memory holds pixel after pixel, each with all its channels.

    Channels that are one of several heads' are side by side, too, but pixels are further apart:
    results are contiguous then, as most operations are fastest on such tensors.
    """
    return (
        not tensor.is_contiguous()
        and tensor.stride(1) == 1 < tensor.shape[1]
        and (tensor.shape[-1] == 1 or tensor.stride(-1) == tensor.shape[1])
    )


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
    if array.dtype == BFLOAT16:
        result = torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    else:
        result = torch.from_numpy(array)
        result = result if result.dtype == dtype else result.to(dtype)
    return lay_out(result, like)


def lay_out(result: Tensor, like: Tensor | None) -> Tensor:
    """A tensor that is contiguous or laid out as another; copied only if it must."""
    if like is None or not is_channels_last(like):
        return result.contiguous()
    laid_out = empty(result.shape, like, result.dtype)
    return result if result.stride() == laid_out.stride() else laid_out.copy_(result)


class Call(NamedTuple):
    """What follows from shapes, types and options alone, so that a small call need not wait for it.

    Attributes:
        plan: for an image and a grid.
        order: the derivative order along each axis.
        zero: whether such a derivative is zero everywhere: the weights' degree is less.
        dtype: what gather gives.
        known: what is known of tensors by how they lie in memory.
    """

    plan: Plan
    order: Shape
    zero: bool
    dtype: torch.dtype
    known: quick.Known


@functools.lru_cache(maxsize=1024)
def find_call(
    size: Shape, image_type: torch.dtype, grid_shape: Shape, grid_type: torch.dtype,
    mode: tuple[str | Method, ...], padding: tuple[str, ...], corners: bool, order: Shape,
    coords: str, extrapolate: bool,
) -> Call:  # fmt: skip
    """The call for an image (N, C, *spatial) of the given size."""
    image_kind, grid_kind = numpy_type(image_type, "input"), numpy_type(grid_type, "grid")
    # A plan counts displacements from the last axes of the output, however many there are.
    displaced = coords == "displacement" and len(grid_shape) > len(size)
    methods = tuple(map(method_of, mode))
    plan = make_plan(
        size, image_kind, grid_shape, grid_kind, methods, padding, corners, False,
        coords="pixel" if displaced else coords, extrapolate=extrapolate,
    )  # fmt: skip
    plan = replace(plan, coords=coords) if displaced else plan
    if len(order) != len(plan.methods) or min(order) < 0:
        raise ValueError(
            f"order must hold a derivative order, 0 or more, for each of the image's "
            f"{len(plan.methods)} axes, got {order}"
        )
    zero = any(n >= method.powers for n, method in zip(order, plan.methods, strict=True))
    return Call(plan, order, zero, gathered_type(image_type, grid_type, order), {})


def find_call_for(
    size: Shape, image_type: torch.dtype, grid: Shape, grid_type: torch.dtype, how: Options
) -> Call:
    """As `find_call`, of a checked record."""
    return find_call(
        size, image_type, grid, grid_type, how.mode, how.padding_mode, how.align_corners,
        tuple(how.order), how.coords, how.extrapolate,
    )  # fmt: skip


def call_for(size: Sequence[int], image: Tensor, grid: Tensor, how: Options) -> Call:
    """The call for an image of the given size, in the type of another tensor."""
    return find_call_for(tuple(size), image.dtype, tuple(grid.shape), grid.dtype, how)


def fill_of(fill: Sequence[float], plan: Plan) -> np.ndarray[Any, Any] | None:
    """The fill of each channel, or None for 0."""
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


def gather_on_cpu(image: Tensor, grid: Tensor, how: Options) -> Tensor:
    """Gather, for CPU tensors."""
    return run_gather(call_for(image.shape, image, grid, how), image, grid, how)


def run_gather(call: Call, image: Tensor, grid: Tensor, how: Options) -> Tensor:
    """Gather, for CPU tensors of which all is known."""
    out, threads = empty(call.plan.shape, image, call.dtype), count(how.threads)
    if call.zero:
        return out.zero_()
    if not out.numel():
        return out
    known, plan = call.known, call.plan
    if how.fill_value or not quick.gather(known, plan, call.order, image, grid, out, threads):
        on_cpu().gather(
            call.plan, memory(image), memory(grid), memory(out), order=call.order,
            fill=fill_of(how.fill_value, call.plan), threads=threads,
        )  # fmt: skip
    return out


def scatter_on_cpu(values: Tensor, grid: Tensor, size: Sequence[int], how: Options) -> Tensor:
    """Scatter, for CPU tensors."""
    cpu = on_cpu()
    call = call_for(size, values, grid, how)
    check_values(values, call.plan, "values")
    if call.zero or not values.numel():
        return empty(size, values, values.dtype).zero_()
    shadow = cpu.scatter(
        call.plan, memory(values), memory(grid), order=call.order, dtype=call.plan.dtype,
        threads=count(how.threads),
    )  # fmt: skip
    return tensor_of(shadow, values.dtype, values)


def backward_on_cpu(
    values: Tensor, image: Tensor, grid: Tensor, need_input: bool, need_grid: bool, how: Options
) -> tuple[Tensor, Tensor]:
    """Backward, for CPU tensors."""
    call = call_for(image.shape, image, grid, how)
    check_values(values, call.plan, "grad_output")
    if need_input:
        check_differentiable(image)
    return run_backward(call, values, image, grid, need_input, need_grid, how)


def run_backward(
    call: Call, values: Tensor, image: Tensor, grid: Tensor, need_input: bool, need_grid: bool,
    how: Options,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Backward, for CPU tensors of which all is known."""
    if call.zero or not values.numel():
        first, second = empty_backward(image, grid, need_input, need_grid)
        return first.zero_(), second.zero_()
    threads, needed = count(how.threads), (need_input, need_grid)
    if not how.fill_value and values.dtype == image.dtype:
        found = quick.backward(
            call.known, call.plan, call.order, values, image, grid, needed, threads
        )
        if found is not None:
            return (
                image.new_empty(0) if found[0] is None else lay_out(found[0], image),
                grid.new_empty(0) if found[1] is None else found[1],
            )
    shadow, gradient = on_cpu().backward(
        call.plan, memory(values), memory(image), memory(grid), need_image=need_input,
        need_grid=need_grid, order=call.order, fill=fill_of(how.fill_value, call.plan),
        dtype=call.plan.dtype, threads=threads,
    )  # fmt: skip
    return (
        image.new_empty(0) if shadow is None else tensor_of(shadow, image.dtype, image),
        grid.new_empty(0) if gradient is None else tensor_of(gradient, grid.dtype),
    )


def backward_twice_on_cpu(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe, by_grid: Maybe,
    need_values: bool, need_image: bool, need_grid: bool, how: Options,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of backward, for CPU tensors; one that is not needed is an empty tensor."""
    cpu = on_cpu()
    call = call_for(image.shape, image, grid, how)
    check_values(values, call.plan, "grad_output")
    if how.blends():
        raise ValueError(f"backward_twice sums no fill; accepted: none, got {how.fill_value}")
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
        order=call.order, threads=count(how.threads),
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


def fake_gather(image: Tensor, grid: Tensor, *options: Any) -> Tensor:
    """Gather, of the shapes alone."""
    check_call(image, grid)
    return empty_gather(image, grid, record(*options).order)


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


cpu_gather = on_record("gather", gather_on_cpu)
cpu_scatter = on_record("scatter", scatter_on_cpu)
cpu_backward = on_record("backward", backward_on_cpu)
cpu_backward_twice = on_record("backward_twice", backward_twice_on_cpu)

for name, compute, fake in (
    ("gather", cpu_gather, fake_gather),
    ("scatter", cpu_scatter, fake_scatter),
    ("backward", cpu_backward, fake_backward),
    ("backward_twice", cpu_backward_twice, fake_backward_twice),
):
    LIBRARY.impl(name, compute, "CPU")
    torch.library.register_fake(f"gridsample::{name}", fake, lib=LIBRARY)


# The short way ------------------------------------------------------------------------------------


KINDS = frozenset(map(kind, (torch.empty(0), torch.nn.Parameter(torch.empty(0)))))


def is_plain(*tensors: Tensor) -> bool:
    """Whether the tensors are CPU memory and no more, and nobody has to hear of what is done.

    Then what computes an operator may be called as the function that it is.  The dispatcher takes
    as long as a few hundred samples do.
    """
    if is_overheard():
        return False
    return all([issubclass(type(tensor), Tensor) and kind(tensor) in KINDS for tensor in tensors])


def is_plain_anywhere(*tensors: Tensor) -> bool:
    """As is_plain, or the same on another device."""
    if is_plain(*tensors):
        return True
    return not is_overheard() and all(
        type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type not in ("cpu", "meta")
        for tensor in tensors
    )
