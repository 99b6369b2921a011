"""Triton kernels as calls that XLA makes, on a GPU where `jax-triton` is installed.

They are compiled to PTX while a program is lowered.  Points are flattened to one axis.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax.taps import Array, TracedCall, output_shape, real_type
from gridsample.kernels import gpu
from gridsample.kernels.gpu import launching


@functools.cache
def is_available() -> bool:
    """Whether `jax-triton` is installed and there is only one device."""
    return importlib.util.find_spec("jax_triton") is not None and jax.device_count() == 1


def supports(*avals: Any, call: TracedCall, **_: Any) -> bool:
    """Whether the kernels can compute a call."""
    plan = call.plan
    few_axes = len(plan.spatial) <= gpu.MAX_RANK
    return few_axes and plan.footprint is None and not plan.vanishes(call.order)


def layout(shape: Sequence[int]) -> launching.Layout:
    """The layout of an array in C order."""
    return launching.Layout(
        tuple(shape), tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    )


def launch(
    call: launching.Call, arrays: Mapping[str, Array | None], outputs: Mapping[str, Any]
) -> list[Array]:
    """Call a kernel.

    Args:
        call: the call.
        arrays: what the kernel reads, by name.
        outputs: the shape and dtype of each array that it writes, which is set to 0 before; None
            for one that it does not need.
    """
    import jax_triton  # type: ignore[import-untyped]

    from gridsample.kernels.gpu.build import with_outputs_last

    kernel = with_outputs_last(call.name, tuple(outputs), call.rolled)
    values_by_name = {**call.arguments, **arrays}
    read = [p.name for p in kernel.params if not p.is_constexpr and p.name not in outputs]
    unused = next(array for array in arrays.values() if array is not None)
    results = jax_triton.triton_call(
        *[unused if values_by_name[name] is None else values_by_name[name] for name in read],
        kernel=kernel,
        out_shape=[output or jax.ShapeDtypeStruct((1,), np.uint8) for output in outputs.values()],
        grid=(call.programs,),
        num_warps=call.warps,
        num_stages=1,
        zeroed_outputs=tuple(range(len(outputs))),
        **{p.name: values_by_name[p.name] for p in kernel.params if p.is_constexpr},
    )
    return list(results)


def as_bytes(array: Array) -> Array:
    """An array of bool as bytes, which the kernels read."""
    return array.astype(np.uint8) if array.dtype == np.bool_ else array


def with_sum_type(call: TracedCall) -> Any:
    """The plan of a call, with sums in a dtype that JAX has."""
    return replace(call.plan, real=np.dtype(real_type(call)))


def flatten_points(grid: Array, plan: Any) -> Array:
    """A grid with one axis of points, (N, points, D)."""
    return grid.reshape(grid.shape[0], plan.points, grid.shape[-1])


def fill_argument(call: TracedCall, dtype: Any) -> tuple[Array | None, launching.Layout | None]:
    """The fill value, as an array of its own; None if it is 0."""
    if not call.fill:
        return None, None
    return jnp.asarray(np.array(call.fill).astype(dtype)), layout((len(call.fill),))


def gather(image: Array, grid: Array, call: TracedCall, dtype: Any) -> Array:
    """Sample a real image at a grid's points, in a dtype."""
    plan, points = with_sum_type(call), flatten_points(grid, call.plan)
    copies = gpu.copies(plan, call.order)
    source = as_bytes(image.astype(dtype) if copies else image)
    out_type = np.uint8 if dtype == np.bool_ else dtype
    shape = output_shape(image, points.shape[:-1])
    fill, fill_layout = fill_argument(call, out_type if copies else plan.real)
    layouts = layout(image.shape), layout(points.shape), layout(shape)
    kernel = gpu.gather_call(plan, call.order, *layouts, fill_layout, 0, False)
    if call.tangent:
        kernel = kernel.but(outputs_NAN=False)
    arrays = {"image_memory": source, "grid_memory": points, "fill_memory": fill}
    (out,) = launch(kernel, arrays, {"out_memory": jax.ShapeDtypeStruct(shape, out_type)})
    return out.astype(dtype).reshape(output_shape(image, grid.shape[:-1]))


def backward(
    values: Array, image: Array | None, grid: Array, call: TracedCall, needed: tuple[bool, bool]
) -> list[Array]:
    """Compute the needed gradients of gather, in the dtype of sums.

    The image may be None if only its own gradient is needed.
    """
    plan, points = with_sum_type(call), flatten_points(grid, call.plan)
    shape = (plan.image_items, plan.channels, *plan.spatial)
    upstream = values.reshape(*values.shape[:2], plan.points)
    has_slopes = needed[1] and not plan.nearest
    fill, fill_layout = fill_argument(call, plan.real)
    image_layout = layout(shape)
    layouts = layout(upstream.shape), image_layout, layout(points.shape)
    sums_layout, needs = image_layout if needed[0] else None, (needed[0], has_slopes, False)
    kernel = gpu.backward_call(
        plan, call.order, *layouts, sums_layout, fill_layout, needs, 0, False
    )
    image_result = jax.ShapeDtypeStruct(shape, plan.real) if needed[0] else None
    grid_result = jax.ShapeDtypeStruct(kernel.gradient_shape, plan.real) if has_slopes else None
    source = None if image is None else as_bytes(image)
    arrays = {"values_memory": upstream, "image_memory": source, "grid_memory": points}
    arrays |= {"fill_memory": fill, "grad_image_bounds": None, "grad_image_limbs": None}
    first, second = launch(
        kernel, arrays, {"grad_image_memory": image_result, "gradient": grid_result}
    )
    slopes = second.sum(0).reshape(grid.shape) if has_slopes else jnp.zeros(grid.shape, plan.real)
    return [first] * needed[0] + [slopes] * needed[1]


def scatter(values: Array, grid: Array, call: TracedCall) -> Array:
    """Apply the transpose of gather: (N, C, *spatial) in the dtype of sums."""
    return backward(values, None, grid, call, (True, False))[0]
