"""CUDA tensors: the operators, computed by the kernels of `gridsample.kernels.gpu`.

A launch is put on the tensors' device and torch's current stream; nothing waits for it, and no
number comes back to the host, so that calls can be captured in a CUDA graph once their kernels are
compiled.  A complex tensor is two real ones.

The functions take CPU tensors too: Triton's interpreter then runs the kernels, slowly.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.bindings.torch.operators import (
    LIBRARY,
    Call,
    How,
    Order,
    call_for,
    check_values,
    differentiable,
    empty,
    empty_backward,
    empty_gather,
    fake_backward_twice,
)
from gridsample.kernels import gpu
from gridsample.kernels.gpu.sweeps import FINER
from gridsample.plan import Plan

# The devices that there are kernels for.
DEVICES = ("cuda",) if importlib.util.find_spec("triton") else ()


# Tensors as the kernels take them -----------------------------------------------------------------


def parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The real tensors that a tensor is made of, in the same memory."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        return torch.view_as_real(tensor).unbind(-1)
    return (tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor,)


def at_points(tensor: Tensor, plan: Plan) -> Tensor:
    """(N, C, *out) with one axis of points; copied only where those are unevenly spaced."""
    return tensor.reshape(*tensor.shape[:2], plan.points)


def points_of(grid: Tensor, plan: Plan) -> Tensor:
    """(N, *out, D) with one axis of points."""
    return grid.detach().reshape(grid.shape[0], plan.points, grid.shape[-1])


def real_type(plan: Plan) -> torch.dtype:
    """The type of sums."""
    return torch.float64 if plan.real.itemsize == 8 else torch.float32


def interpreted(tensor: Tensor) -> bool:
    """Whether there is no GPU under a tensor."""
    return tensor.device.type == "cpu"


def on_device(tensor: Tensor) -> Any:
    """Launch where a tensor is."""
    guard: Any = torch.cuda.device_of
    return guard(tensor)


# The operators ------------------------------------------------------------------------------------


def check_known(call: Call, how: How) -> Call:
    """Refuse options that the kernels do not know."""
    if how.blends or not call.plan.extrapolate:
        raise ValueError(
            "on a GPU, accepted: fill_value=0 and extrapolate=True, got fill_value "
            f"{tuple(how.fill)} and extrapolate={how.extrapolate}"
        )
    return call


def cuda_gather(image: Tensor, grid: Tensor, *options: Any) -> Tensor:
    """Gather, for CUDA tensors."""
    call = check_known(call_for(image.shape, image, grid, *options), How(*options))
    order, plan = call.order, call.plan
    out = empty_gather(image, grid, order)
    if call.zero:
        return out.zero_()
    if not out.numel():
        return out
    points = points_of(grid, plan)
    with on_device(image):
        for source, target in zip(parts(image), parts(out), strict=True):
            gpu.gather(
                plan, source, points, at_points(target, plan), tuple(order),
                interpreted=interpreted(image),
            )  # fmt: skip
    return out


def cuda_scatter(values: Tensor, grid: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """Scatter, for CUDA tensors."""
    call = check_known(call_for(size, values, grid, *options), How(*options).linear)
    plan = call.plan
    check_values(values, plan, "values")
    out = empty(size, values, values.dtype)
    return sweep(plan, values, None, grid, (out, grid.new_empty(0)), (True, False), call)[0]


def cuda_backward(
    values: Tensor, image: Tensor, grid: Tensor, need_input: bool, need_grid: bool, *options: Any
) -> tuple[Tensor, Tensor]:
    """Backward, for CUDA tensors."""
    call = check_known(call_for(image.shape, image, grid, *options), How(*options))
    plan = call.plan
    check_values(values, plan, "grad_output")
    if need_input and not differentiable(image):
        raise TypeError(
            f"input has dtype {image.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )
    empties = empty_backward(image, grid, need_input, need_grid)
    return sweep(plan, values, image, grid, empties, (need_input, need_grid), call)


def sweep(
    plan: Plan, values: Tensor, image: Tensor | None, grid: Tensor,
    outputs: tuple[Tensor, Tensor], needed: tuple[bool, bool], call: Call,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Run the fused kernel for the needed ones of ``outputs``: the gradients of image and grid."""
    first, second = outputs
    order = call.order
    if not values.numel() or call.zero or not any(needed):
        return first.zero_(), second.zero_()
    if not any(n + 1 < method.powers for n, method in zip(order, plan.methods, strict=True)):
        second.zero_()
        needed = needed[0], False
    points, shadows, gradients = points_of(grid, plan), [], []
    sources = (None,) * len(parts(values)) if image is None else parts(image)
    with on_device(values):
        for part, source in zip(parts(values), sources, strict=True):
            shadow = empty(first.shape, first, real_type(plan)).zero_() if needed[0] else None
            if shadow is None and not needed[1]:
                continue
            each = at_points(part, plan)
            sums = None
            if shadow is not None and torch.are_deterministic_algorithms_enabled():
                sums = exact_sums(plan, each, points, shadow, order)
            gradient = gpu.backward(
                plan, each, source, points, shadow, tuple(order), sums=sums,
                empty=functools.partial(values.new_empty, dtype=real_type(plan))
                if needed[1] else None,
                interpreted=interpreted(values),
            )  # fmt: skip
            if shadow is not None:
                shadows.append(shadow if sums is None else resolve(sums, shadow))
            if gradient is not None:
                gradients.append(add_up(gradient))
    if shadows:
        first = (torch.complex(*shadows) if len(shadows) == 2 else shadows[0]).to(first.dtype)
    if gradients:
        second = sum(gradients[1:], gradients[0]).reshape(grid.shape).to(grid.dtype)
    return first, second


def add_up(gradient: Tensor) -> Tensor:
    """The sum over splits."""
    return gradient[0] if gradient.shape[0] == 1 else gradient.sum(0)


# Sums that are the same in any order --------------------------------------------------------------


def exact_sums(plan: Plan, values: Tensor, grid: Tensor, shadow: Tensor, order: Order) -> gpu.Sums:
    """Integers to add to, and the scale at which no sum of any of the values' parts overflows.

    The scale is a power of two, and is worked out where the values are.
    """
    real, count = shadow.dtype, shadow.element_size() // 4
    bits = torch.int32 if real == torch.float32 else torch.int64
    bound = values.new_zeros(1, dtype=bits)
    gpu.largest(plan, values, grid, bound, interpreted=interpreted(values))
    _, exponent = torch.frexp(bound.view(real))  # the largest is less than 2**exponent
    scales = torch.ldexp(
        torch.ones_like(exponent, dtype=real),
        (62 - crowd(plan, tuple(order)) - exponent).clamp(-100, 100),
    )
    limbs = torch.zeros((count, shadow.numel()), dtype=torch.int64, device=shadow.device)
    return gpu.Sums(limbs, scales, count, shadow.numel())


def crowd(plan: Plan, order: tuple[int, ...]) -> int:
    """Bits of the largest sum of weights that a pixel can get, if every tap of all points is it."""
    total = float(plan.points * plan.items)
    for method, n, size in zip(plan.methods, order, plan.spatial[::-1], strict=True):
        most = max(sum(map(abs, row)) for row in method.derivative(n))
        total *= method.taps * most * max(size / 2, 1.0) ** n
    return math.ceil(math.log2(total)) + 1


def resolve(sums: gpu.Sums, shadow: Tensor) -> Tensor:
    """The sums as floats; what was added to the shadow itself is not finite."""
    whole: Tensor = sums.limbs[0].double()
    if sums.number > 1:
        whole = whole + sums.limbs[1].double() / FINER
    whole = whole / sums.scales.double()
    return shadow + whole.as_strided(shadow.shape, shadow.stride()).to(shadow.dtype)


# The backward of the backward ---------------------------------------------------------------------


def cuda_twice(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Tensor | None, by_grid: Tensor | None,
    need_values: bool, need_image: bool, need_grid: bool, *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The backward of backward, for CUDA tensors; what is not needed is an empty tensor."""
    call = check_known(call_for(image.shape, image, grid, *options), How(*options))
    order, plan, needed = call.order, call.plan, (need_values, need_image, need_grid)
    onto, first, second = fake_backward_twice(values, image, grid, by_image, by_grid, *needed)
    if not values.numel() or call.zero or not any(needed):
        return onto.zero_(), first.zero_(), second.zero_()
    shadow = empty(image.shape, image, real_type(plan)).zero_() if need_image else None
    with on_device(values):
        gradient = gpu.twice(
            plan, at_points(values.detach(), plan), image.detach(), points_of(grid, plan),
            None if by_image is None else by_image.detach(),
            None if by_grid is None else points_of(by_grid, plan),
            at_points(onto, plan) if need_values else None, shadow, tuple(order),
            empty=functools.partial(values.new_empty, dtype=real_type(plan)) if need_grid else None,
            interpreted=interpreted(values),
        )  # fmt: skip
    if need_values and by_image is not None and not any(order):
        # Points that are nowhere are NaN in a sample, and 0 in what is derived by it.
        still = cuda_gather(image.new_zeros(()).expand(1, 1, *image.shape[2:]), grid, *options)
        onto = torch.where(still.isnan(), 0, onto)
    return (
        onto,
        first if shadow is None else shadow.to(first.dtype),
        second if gradient is None else add_up(gradient).reshape(grid.shape).to(grid.dtype),
    )


for name, compute in (
    ("gather", cuda_gather),
    ("scatter", cuda_scatter),
    ("backward", cuda_backward),
    ("backward_twice", cuda_twice),
):
    if DEVICES:
        LIBRARY.impl(name, compute, "CUDA")
