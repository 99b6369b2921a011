"""Arrays in the forms that programs take."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout, is_even, is_plain, layout_of, plain
from gridsample.kernels.outside import bits_outside, means_outside, numbers_outside
from gridsample.kernels.sampling.division import cost_of
from gridsample.kernels.sampling.layouts import GradientLayout

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


def numbers_of_planes(
    plan: Plan, order: Order, dtype: np.dtype[Any], fill: Array | None, means: Averaging | None
) -> tuple[Array, ...]:
    """Return the arrays with a number for each plane, in the order of `Gather.numbers`."""
    times = plan.items if plan.grid_items == 1 else 1
    if means is not None:
        *outside, least, absent = means_outside(plan, fill, means)
        planes = *outside, absent, least.repeat(len(absent))
        return tuple([np.tile(numbers, times) for numbers in planes])
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


def readable(plan: Plan, image: Array) -> Array:
    """Return an image, or weights, that programs which gather can read: itself, or else a copy."""
    return image if is_readable(plan, layout_of(image)) else plain(image)


@functools.lru_cache(maxsize=256)
def is_readable(plan: Plan, image: Layout) -> bool:
    """Whether programs that gather should read an image of this layout.

    If it is not native, they read single bytes in order, which is slower.  It is still faster than
    to copy the image if they read few of its pixels.
    """
    shape, strides, dtype = image
    pixels = math.prod([n for n, stride in zip(shape, strides, strict=True) if stride])
    return is_plain(strides, dtype) or reads_of(plan) <= pixels


def reads_of(plan: Plan) -> int:
    """Return the number of pixels that a call reads, counted as often as it reads them."""
    return plan.items * plan.channels * plan.points * cost_of(plan)


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
