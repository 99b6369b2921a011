"""Arrays in the forms that programs take."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import is_even, plain
from gridsample.kernels.outside import bits_outside, means_outside, numbers_outside
from gridsample.kernels.sampling.layouts import GradientLayout

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


def numbers_of_planes(
    plan: Plan, order: Order, dtype: np.dtype[Any], fill: Array | None, means: Averaging | None
) -> tuple[Array, ...]:
    """Return the arrays with a number for each plane, in the order of `Gather.numbers`."""
    times = plan.items if plan.grid_items == 1 else 1
    if means is not None:
        outside, others = means_outside(plan, fill, means)
        return tuple([np.tile(numbers, times) for numbers in (*outside, *others)])
    copies = plan.nearest and not any(order) and plan.footprint is None
    if plan.votes or copies:
        size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        return bits_outside(plan, fill, np.dtype(f"u{size}")).repeat(times)
    return numbers_outside(plan, fill, any(order)).repeat(times)


def dropped_of(plan: Plan, fill: Array | None) -> Array:
    """Return the value of each plane's dropped taps, in the dtype of sums."""
    times = plan.items if plan.grid_items == 1 else 1
    return np.tile(numbers_outside(plan, fill).dropped, times)


def as_maps(theta: Array, plan: Plan) -> Array:
    """Return affine maps (N, D, D + 1) in the form that programs take."""
    return np.ascontiguousarray(theta, plan.real)


def vanishes(plan: Plan, order: Order) -> bool:
    """Whether the derivatives of the weights along some axis are all zero."""
    return any(order) and any(
        n >= method.powers for n, method in zip(order, plan.methods, strict=True)
    )


def even_values(values: Array) -> Array:
    """Return values (N, C, *out) themselves if a kernel can read them, otherwise a copy."""
    if is_even(values):
        return values
    return np.array(values, values.dtype.newbyteorder("="), order="C")


def in_order(array: Array, like: GradientLayout) -> Array:
    """Return an array with the memory order of an image's gradient: itself, or else a copy."""
    _, strides, dtype = like.layout
    if plain(array) is array and all(
        a * dtype.itemsize == b * array.itemsize
        for a, b, n in zip(array.strides, strides, array.shape, strict=True)
        if n > 1
    ):
        return array
    copy = like.of(array.dtype.newbyteorder("="))
    copy[...] = array
    return copy
