"""NumPy arrays: from what the user gives to what the kernels take, and back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.definitions.checks import as_array, check_constant
from gridsample.definitions.options import Options, check_fill
from gridsample.definitions.plan import (
    BFLOAT16,
    GRID_TYPES,
    NARROW_TYPES,
    WIDE_TYPES,
    Plan,
    channels_last,
    check_coords,
    check_flag,
    check_grid_gradient,
    check_image_type,
    check_size,
    check_threads,
    check_values,
    grid_type,
    hashable,
    is_differentiable,
    make_plan,
    type_name,
)
from gridsample.kernels import on_cpu
from gridsample.kernels.memory import converted

Array = np.ndarray[Any, Any]

UPSTREAM_TYPES = (*GRID_TYPES, "complex64", "complex128")
SPLAT_TYPES = tuple(name for name in WIDE_TYPES + NARROW_TYPES if name != "bfloat16")


def as_grid(given: Any, options: Options) -> Array:
    """A grid as an array; one of integers that count pixels becomes floating."""
    grid = as_array(given, "grid")
    kind = grid_type(grid.dtype, options.coords)
    return grid if kind is grid.dtype else grid.astype(kind)


def plan_call(image: Array, grid: Array, options: Options) -> tuple[Plan, bool]:
    """The plan, and whether the channels are the image's last axis."""
    check_threads(options.threads)
    check_coords(options.coords, grid.ndim - 2, grid.shape[1:-1])  # what is no name has no hash
    last = has_channels_last(image, options)
    plan = make_plan(
        image.shape,
        image.dtype,
        grid.shape,
        grid.dtype,
        hashable(options.mode),
        hashable(options.padding_mode),
        check_flag(options.align_corners, "align_corners"),
        last,
        coords=options.coords,
        extrapolate=check_flag(options.extrapolate, "extrapolate"),
    )
    return plan, last


def has_channels_last(image: Array, options: Options) -> bool:
    """Whether channels are the last axis; False for a rank that the plan has an error for."""
    return channels_last(options.channel_axis if 3 <= image.ndim <= 5 else 1, image.ndim)


def channels_first(array: Array, last: bool, axis: int = -1) -> Array:
    """An array of the caller's with its channels first, as the kernels take it: a view."""
    return np.moveaxis(array, axis, 1) if last else array


def as_fill(options: Options, plan: Plan) -> Array | None:
    """The fill value of each channel; None if it is 0.

    Raises:
        TypeError: it is not made of numbers, or is complex and the image is not.
        ValueError: its shape is another, or nothing uses it.
    """
    if type(options.fill_value) in (int, float) and options.fill_value == 0:
        return None
    check_constant(fill_value=options.fill_value)
    fill = as_array(options.fill_value, "fill_value")
    # A broadcast array can have more entries than anybody can look at.
    few = fill.size <= max(1, plan.channels)
    used = few and fill.dtype.kind in "biufc" and bool(fill.any())
    sizes = fill.shape, used, plan.dtype, plan.channels, plan.filled
    check_fill(options, fill.dtype.kind, *sizes)
    if not used:
        return None
    return np.broadcast_to(fill, (plan.channels,))


# The prefilter ------------------------------------------------------------------------------------


def prefilters(plan: Plan, options: Options) -> bool:
    """Whether some axis weighs coefficients, and they are to be made of the image."""
    return check_flag(options.prefilter, "prefilter") and plan.prefilters


def prefilter(
    image: Array, plan: Plan, last: bool, threads: int | None, adjoint: bool = False
) -> Array:
    """The coefficients that the plan's methods weigh, or the adjoint of that; channels stay."""
    from gridsample.kernels.prefilter import coefficients, extension

    image = as_float(image)
    slowest = 1 if last else 2
    for order in sorted({method.prefilter for method in plan.methods} - {0, 1}):
        axes = [a for a, method in enumerate(plan.methods) if method.prefilter == order]
        image = coefficients(
            image,
            order,
            [extension(plan.boundaries[a], plan.align_corners) for a in axes],
            [slowest + len(plan.spatial) - 1 - a for a in axes],
            real=plan.real,
            adjoint=adjoint,
            threads=threads,
        )
    return image


def spline_filter(
    image: Array, order: int, extended: Sequence[str], axes: Sequence[int], adjoint: bool,
    threads: int | None,
) -> Array:  # fmt: skip
    """`gridsample.spline_filter` for NumPy arrays."""
    from gridsample.kernels.prefilter import coefficients

    check_image_type(image.dtype)
    wide = type_name(image.dtype) in WIDE_TYPES
    return coefficients(
        as_float(image), order, extended, axes, real=np.dtype(np.float64 if wide else np.float32),
        adjoint=adjoint, threads=threads,
    )  # fmt: skip


def as_float(image: Array) -> Array:
    """An image; of bfloat16, of which NumPy knows the bits alone, as float32."""
    if image.dtype != BFLOAT16:
        return image
    wide = image.view(np.uint16).astype(np.uint32) << 16  # they are the upper half of a float32
    return wide.view(np.float32)


# Outputs ------------------------------------------------------------------------------------------


def out_shape(plan: Plan, last: bool) -> tuple[int, ...]:
    """The output's shape as the caller has it."""
    return (plan.items, *plan.out, plan.channels) if last else plan.shape


def check_output(out: Any, plan: Plan, last: bool, image: Array, grid: Array) -> None:
    """Refuse an ``out`` that cannot take the result, or is memory of the inputs."""
    shape = out_shape(plan, last)
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


# The functions -----------------------------------------------------------------------------------


def grid_sample(
    image: Any, grid: Any, options: Options, return_mask: bool = False, out: Any = None
) -> Array | tuple[Array, Array]:
    """`gridsample.grid_sample` for NumPy arrays."""
    image, grid = as_array(image, "input"), as_grid(grid, options)
    plan, last = plan_call(image, grid, options)
    fill, filtered = as_fill(options, plan), prefilters(plan, options)
    masked = check_flag(return_mask, "return_mask")
    if out is not None:
        check_output(out, plan, last, image, grid)
    result: Array = np.empty(out_shape(plan, last), plan.dtype) if out is None else out
    if result.size:
        if filtered:
            image = prefilter(image, plan, last, options.threads)
        planes, values = channels_first(image, last), channels_first(result, last)
        on_cpu().gather(plan, planes, grid, values, fill=fill, threads=options.threads)
    return (result, share_inside(plan, grid, last, options.threads)) if masked else result


def share_inside(plan: Plan, grid: Array, last: bool, threads: int | None) -> Array:
    """The share of each point's weight that is on the image: a sample of ones among zeros."""
    plan = replace(
        plan,
        boundaries=("constant",) * len(plan.spatial),
        image_items=1,
        channels=1,
        dtype=plan.real,
    )
    mask: Array = np.empty(out_shape(plan, last), plan.real)
    if mask.size:
        ones = np.broadcast_to(np.ones((), plan.real), (1, 1, *plan.spatial))
        on_cpu().gather(plan, ones, grid, channels_first(mask, last), threads=threads)
        mask[np.isnan(mask)] = 0  # a point that is nowhere
    return mask


def grid_sample_vjp(
    grad_output: Any,
    image: Any,
    grid: Any,
    options: Options,
    need_input: bool = True,
    need_grid: bool = True,
) -> tuple[Array | None, Array | None]:
    """`gridsample.grid_sample_vjp` for NumPy arrays."""
    image, given, upstream = (
        as_array(image, "input"),
        as_array(grid, "grid"),
        as_array(grad_output, "grad_output"),
    )
    grid = as_grid(given, options)
    check_grid_gradient(given.dtype, need_grid and grid is not given)
    return gradients(upstream, image, grid, grid, options, (need_input, need_grid))


def gradients(
    upstream: Array, image: Array, places: Array, grid: Array, options: Options,
    needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """The needed gradients of image and ``places``: a grid, or the affine maps it stands for."""
    plan, last = plan_call(image, grid, options)
    fill, filtered = as_fill(options, plan), prefilters(plan, options)
    need_input, need_places = needed
    check_upstream(upstream, plan, last)
    if need_input and not is_differentiable(plan.dtype):
        raise TypeError(
            f"input has dtype {plan.dtype}, of which there is no gradient; "
            "pass need_input=False to get the grid's alone"
        )
    if not upstream.size:
        return (
            np.zeros(image.shape, plan.dtype) if need_input else None,
            np.zeros(places.shape, places.dtype.newbyteorder("=")) if need_places else None,
        )
    if plan.dtype.kind == "c" and upstream.dtype.kind != "c":
        upstream = upstream.astype(np.result_type(upstream.dtype, np.complex64))
    if filtered and need_places:
        image = prefilter(image, plan, last, options.threads)
    shadow, gradient = on_cpu().backward(
        plan,
        channels_first(upstream, last),
        channels_first(image, last),
        places,
        need_image=need_input,
        need_grid=need_places,
        fill=fill,
        affine=places is not grid,
        dtype=None if filtered else plan.dtype,
        threads=options.threads,
    )
    if shadow is not None:
        shadow = np.moveaxis(shadow, 1, -1) if last else shadow
        if filtered:
            shadow = prefilter(shadow, plan, last, options.threads, adjoint=True)
            shadow = converted(shadow, plan.dtype)
    if gradient is not None:
        gradient = converted(gradient, places.dtype.newbyteorder("="))
    return shadow, gradient


def stand_in(theta: Array, out: Sequence[int]) -> Array:
    """What has the shape and type of the grid that affine maps stand for, and no memory."""
    zero = np.zeros((), theta.dtype.newbyteorder("="))
    return np.broadcast_to(zero, (len(theta), *out, theta.shape[1]))


def affine_sample(image: Any, theta: Array, out: Sequence[int], options: Options) -> Array:
    """`gridsample.affine_sample` for NumPy arrays; ``out`` is the output's spatial shape."""
    image = as_array(image, "input")
    plan, last = plan_call(image, stand_in(theta, out), options)
    fill, filtered = as_fill(options, plan), prefilters(plan, options)
    result: Array = np.empty(out_shape(plan, last), plan.dtype)
    if result.size:
        if filtered:
            image = prefilter(image, plan, last, options.threads)
        planes, values = channels_first(image, last), channels_first(result, last)
        on_cpu().gather(
            plan, planes, theta, values, fill=fill, affine=True, threads=options.threads
        )
    return result


def affine_sample_vjp(
    grad_output: Any,
    image: Any,
    theta: Array,
    out: Sequence[int],
    options: Options,
    need_input: bool = True,
    need_theta: bool = True,
) -> tuple[Array | None, Array | None]:
    """`gridsample.affine_sample_vjp` for NumPy arrays."""
    image, upstream = as_array(image, "input"), as_array(grad_output, "grad_output")
    return gradients(
        upstream, image, theta, stand_in(theta, out), options, (need_input, need_theta)
    )


def grid_derivatives(image: Any, grid: Any, options: Options, degree: int) -> Array:
    """All derivatives of one degree of a sample along its coordinates, on ``degree`` more axes.

    `gridsample.grid_gradient` and `gridsample.grid_hessian` for NumPy arrays.
    """
    image, grid = as_array(image, "input"), as_grid(grid, options)
    plan, last = plan_call(image, grid, options)
    fill, filtered = as_fill(options, plan), prefilters(plan, options)
    rank = len(plan.spatial)
    # A derivative of integers is no integer, and may be too large for the image's type.
    factors = (plan.real if kind == BFLOAT16 else kind for kind in (plan.dtype, grid.dtype))
    shape = (*out_shape(plan, last), *(rank,) * degree)
    result: Array = np.empty(shape, np.result_type(*factors))
    if not result.size:
        return result
    if filtered:
        image = prefilter(image, plan, last, options.threads)
    planes = channels_first(image, last)
    for axes in itertools.combinations_with_replacement(range(rank), degree):
        order = tuple(axes.count(a) for a in range(rank))
        one = entries(result, axes)
        values = channels_first(one, last)
        on_cpu().gather(plan, planes, grid, values, order=order, fill=fill, threads=options.threads)
        for same in set(itertools.permutations(axes)) - {axes}:
            entries(result, same)[...] = one
    return result


def entries(array: Array, last: Sequence[int]) -> Array:
    """The entries of an array at indices of its last axes: a view."""
    at: tuple[Any, ...] = (..., *last)
    view: Array = array[at]
    return view


def check_upstream(upstream: Array, plan: Plan, last: bool) -> None:
    """Refuse upstream values that are not of the output's shape, or not floating."""
    shape = out_shape(plan, last)
    if upstream.shape != shape:
        raise ValueError(f"grad_output must have the output's shape {shape}, got {upstream.shape}")
    if type_name(upstream.dtype) not in UPSTREAM_TYPES:
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}; accepted: {', '.join(UPSTREAM_TYPES)}"
        )
    if upstream.dtype.kind == "c" and plan.dtype.kind != "c":
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}, but the output is real: {plan.dtype}"
        )


# The transpose ------------------------------------------------------------------------------------


def splat(values: Any, grid: Any, size: Any, options: Options, normalize: bool = False) -> Array:
    """`gridsample.splat` for NumPy arrays."""
    values, grid = as_array(values, "values"), as_grid(grid, options)
    spatial = check_size(size, grid.shape)
    last = channels_last(options.channel_axis, len(spatial) + 2)
    if values.dtype.name not in SPLAT_TYPES:
        raise TypeError(f"values has dtype {values.dtype}; accepted: {', '.join(SPLAT_TYPES)}")
    items = check_values(values.shape, grid.shape, last)
    if values.dtype.kind in "biu":
        wide = type_name(values.dtype) in WIDE_TYPES
        values = values.astype(np.float64 if wide else np.float32)
    channels = values.shape[-1 if last else 1]
    plan = plan_splat(values.dtype, grid, items, channels, spatial, options)
    share = np.broadcast_to(values, (items, *values.shape[1:]))
    result = transpose(channels_first(share, last), plan, grid, last, options)
    if check_flag(normalize, "normalize"):
        alone = replace(plan, image_items=plan.grid_items, channels=1, dtype=plan.real)
        count = transpose_ones(alone, grid, last, options)
        with np.errstate(all="ignore"):
            np.divide(result, count, out=result, where=count != 0)
    return converted(result, plan.dtype)


def splat_count(grid: Any, size: Any, options: Options) -> Array:
    """`gridsample.splat_count` for NumPy arrays."""
    grid = as_grid(grid, options)
    spatial = check_size(size, grid.shape)
    last = channels_last(options.channel_axis, len(spatial) + 2)
    plan = plan_splat(np.dtype(np.float32), grid, grid.shape[0], 1, spatial, options)
    return transpose_ones(plan, grid, last, options)


def plan_splat(
    dtype: np.dtype[Any],
    grid: Array,
    items: int,
    channels: int,
    spatial: tuple[int, ...],
    options: Options,
) -> Plan:
    """The plan of the sampling that a splat is the transpose of."""
    image = np.broadcast_to(np.zeros((), dtype), (items, channels, *spatial))
    return plan_call(image, grid, options._replace(channel_axis=1))[0]


def transpose(values: Array, plan: Plan, grid: Array, last: bool, options: Options) -> Array:
    """The transpose of sampling, the filter's included, of values (N, C, *out).

    In the type of the sums; channels as the caller has them.
    """
    filtered = prefilters(plan, options)
    places = (plan.image_items, *plan.spatial, plan.channels) if last else (
        plan.image_items, plan.channels, *plan.spatial
    )  # fmt: skip
    result: Array = np.zeros(places, np.result_type(values.dtype, plan.real))
    if not values.size:
        return result
    # `backward` lays its result out as the image, which is read for the grid's gradient alone.
    shadow, _ = on_cpu().backward(
        plan, values, channels_first(result, last), grid, need_grid=False, threads=options.threads
    )
    assert shadow is not None
    result = np.moveaxis(shadow, 1, -1) if last else shadow
    return prefilter(result, plan, last, options.threads, adjoint=True) if filtered else result


def transpose_ones(plan: Plan, grid: Array, last: bool, options: Options) -> Array:
    """The transpose of sampling of ones: how much is added to each pixel."""
    return transpose(np.broadcast_to(np.ones((), plan.real), plan.shape), plan, grid, last, options)
