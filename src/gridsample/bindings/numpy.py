"""NumPy arrays: from what the user gives to what the kernels take, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.plan import (
    GRID_TYPES,
    Mode,
    Plan,
    channels_last,
    check_threads,
    hashable,
    is_differentiable,
    make_plan,
    type_name,
)

Array = np.ndarray[Any, Any]

UPSTREAM_TYPES = (*GRID_TYPES, "complex64", "complex128")


def as_array(given: Any, name: str) -> Array:
    """An array, if it is one or nests numbers."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost; fill it first: {name}.filled(0)"
        )
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}") from None


def plan_call(
    image: Array,
    grid: Array,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    channel_axis: int,
) -> tuple[Plan, Array]:
    """The plan, and the image with its channels first."""
    if not 3 <= image.ndim <= 5:
        channel_axis = 1  # the plan has the error for it
    last = channels_last(channel_axis, image.ndim)
    plan = make_plan(
        image.shape,
        image.dtype,
        grid.shape,
        grid.dtype,
        hashable(mode),
        hashable(padding_mode),
        align_corners,
        last,
    )
    return plan, np.moveaxis(image, -1, 1) if last else image


def new_output(plan: Plan, last: bool) -> Array:
    """An empty output, laid out in memory as the caller reads it."""
    if last:
        return np.empty((plan.items, *plan.out, plan.channels), plan.dtype)
    return np.empty(plan.shape, plan.dtype)


def check_output(out: Any, plan: Plan, last: bool, image: Array, grid: Array) -> None:
    """Refuse an ``out`` that cannot take the result, or is memory of the inputs."""
    shape = (plan.items, *plan.out, plan.channels) if last else plan.shape
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != plan.dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {plan.dtype}, "
            f"got shape {out.shape} and dtype {out.dtype}"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    for name, array in (("input", image), ("grid", grid)):
        if shares_memory(out, array):
            raise ValueError(
                f"out shares memory with {name}, which would be overwritten while it is read"
            )
    if shares_memory_with_itself(out):
        raise ValueError(
            f"out has entries that share memory: strides {out.strides} for shape {out.shape}"
        )


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have a byte in common, or it is too hard to tell."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def shares_memory_with_itself(array: Array) -> bool:
    """Whether two entries of an array may be the same memory, as in a broadcast view."""
    steps = sorted(
        (abs(stride), n) for stride, n in zip(array.strides, array.shape, strict=True) if n > 1
    )
    reach = array.itemsize
    for stride, n in steps:
        if stride < reach:
            return array.size > 0
        reach = stride * (n - 1) + reach
    return False


def grid_sample(
    image: Any,
    grid: Any,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    channel_axis: int,
    out: Any,
    threads: int | None,
) -> Array:
    """`gridsample.grid_sample` for NumPy arrays."""
    from gridsample.kernels import cpu

    check_threads(threads)
    image, grid = as_array(image, "input"), as_array(grid, "grid")
    plan, planes = plan_call(image, grid, mode, padding_mode, align_corners, channel_axis)
    last = planes is not image
    if out is not None:
        check_output(out, plan, last, image, grid)
    result: Array = new_output(plan, last) if out is None else out
    if result.size:
        channels_first = np.moveaxis(result, -1, 1) if last else result
        cpu.gather(plan, planes, grid, channels_first, threads=threads)
    return result


def grid_sample_vjp(
    grad_output: Any,
    image: Any,
    grid: Any,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    need_input: bool,
    need_grid: bool,
    channel_axis: int,
    threads: int | None,
) -> tuple[Array | None, Array | None]:
    """`gridsample.grid_sample_vjp` for NumPy arrays."""
    from gridsample.kernels import cpu

    check_threads(threads)
    image, grid, upstream = (
        as_array(image, "input"),
        as_array(grid, "grid"),
        as_array(grad_output, "grad_output"),
    )
    plan, planes = plan_call(image, grid, mode, padding_mode, align_corners, channel_axis)
    last = planes is not image
    check_upstream(upstream, plan, last)
    if need_input and not is_differentiable(plan.dtype):
        raise TypeError(
            f"input has dtype {plan.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )
    values = np.moveaxis(upstream, -1, 1) if last else upstream
    if upstream.dtype.kind == "c" and plan.dtype.kind != "c":
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}, but the output is real: {plan.dtype}"
        )
    if plan.dtype.kind == "c" and upstream.dtype.kind != "c":
        values = values.astype(np.result_type(upstream.dtype, np.complex64))
    if not values.size:
        return (
            np.zeros(image.shape, plan.dtype) if need_input else None,
            np.zeros(grid.shape, grid.dtype.newbyteorder("=")) if need_grid else None,
        )
    shadow, gradient = cpu.backward(
        plan,
        values,
        planes,
        grid,
        need_image=bool(need_input),
        need_grid=bool(need_grid),
        threads=threads,
    )
    with np.errstate(
        all="ignore"
    ):  # a gradient too large for its type is infinite, as in any arithmetic
        if shadow is not None:
            shadow = shadow.astype(plan.dtype, copy=False)
            shadow = np.moveaxis(shadow, 1, -1) if last else shadow
        if gradient is not None:
            gradient = gradient.astype(grid.dtype.newbyteorder("="), copy=False)
    return shadow, gradient


def check_upstream(upstream: Array, plan: Plan, last: bool) -> None:
    """Refuse upstream values that are not of the output's shape, or not floating."""
    shape = (plan.items, *plan.out, plan.channels) if last else plan.shape
    if upstream.shape != shape:
        raise ValueError(f"grad_output must have the output's shape {shape}, got {upstream.shape}")
    if type_name(upstream.dtype) not in UPSTREAM_TYPES:
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}; accepted: {', '.join(UPSTREAM_TYPES)}"
        )
