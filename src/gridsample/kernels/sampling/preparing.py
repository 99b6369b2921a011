"""Arrays in the forms that programs take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.coords import map_factors
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.fill_values import (
    fill_of_planes,
    fill_values_of_bits,
    fill_values_of_means,
    fill_values_of_sums,
)
from gridsample.kernels.memory import (
    Layout,
    is_dense,
    is_even,
    is_native,
    layout_of,
    native,
    spacing,
)
from gridsample.kernels.sampling.copies import contiguous
from gridsample.kernels.sampling.division import divide_points, lanes_of, with_own_grids
from gridsample.kernels.sampling.layouts import GradientLayout
from gridsample.kernels.sampling.paying import is_readable
from gridsample.kernels.sampling.settings import STRIP

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


class CallArrays(NamedTuple):
    """The arrays of a call.

    Attributes:
        image: the image, (N, C, *spatial).
        grid: the grid, (N, *out, D), or affine maps, (N, D, D + 1); or projective ones,
            (N, D + 1, D + 1), which have no gradient.
        values: the array of the samples, (N, C, *out), or their upstream gradient.
        weights: how much pixels count, (N or 1, 1 or C, *spatial), or None.
        shares: the array of the sums of weights, (N, C, *out), in the dtype of sums, with the
            strides of ``values``; for means that ask for it.
        fill: the fill value of each channel, or None.
    """

    image: Array
    grid: Array
    values: Array
    weights: Array | None = None
    shares: Array | None = None
    fill: Array | None = None


class NeededGradients(NamedTuple):
    """Which gradients are needed.

    Attributes:
        image: whether that of the image is.
        grid: whether that of the grid or of affine maps is.
        weights: whether that of the weights is.
        values: whether that of the upstream values is, in a double backward.
        dtype: the dtype of the image's gradient, if not that of the sums.
    """

    image: bool = True
    grid: bool = True
    weights: bool = False
    values: bool = False
    dtype: np.dtype[Any] | None = None


class Gradients(NamedTuple):
    """The gradients of samples; None where they are not needed.

    Attributes:
        image: that of the image.
        grid: that of the grid or of affine maps, in the dtype of sums.
        weights: that of the weights, in the dtype of sums.
        invalid_weights: whether some weight that was read may be negative or not finite.
    """

    image: Array | None
    grid: Array | None
    weights: Array | None = None
    invalid_weights: bool = False


def fills_of_planes(
    plan: Plan, order: Order, dtype: np.dtype[Any], fill: Array | None, means: Averaging | None
) -> dict[str, Array]:
    """Return the arrays with a value for each plane, by name."""
    times = plan.items if plan.grid_items == 1 else 1
    if means is not None:
        around, others = fill_values_of_means(plan, fill, means)
        numbers = around._asdict() | others._asdict()
        return {name: np.tile(values, times) for name, values in numbers.items()}
    copies = plan.nearest and not any(order) and plan.footprint is None
    if plan.votes or copies:
        size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        return fill_values_of_bits(plan, fill, np.dtype(f"u{size}")).repeat(times)._asdict()
    return fill_values_of_sums(plan, fill, any(order)).repeat(times)._asdict()


def dropped_of(plan: Plan, fill: Array | None) -> Array:
    """Return the value of each plane's dropped taps, in the dtype of sums."""
    numbers = fill_of_planes(fill if plan.filled else None, plan)
    times = plan.items if plan.grid_items == 1 else 1
    return numbers if times == 1 else np.tile(numbers, times)


def readable_points(plan: Plan, points: Array) -> Array:
    """Return a grid, or maps, in a form that programs read: itself, or else a copy."""
    if are_readable(plan, layout_of(points)):
        return points
    kind = plan.real if plan.are_maps(points.shape) else points.dtype.newbyteorder("=")
    return np.ascontiguousarray(points, kind)


@cached_call(256)
def are_readable(plan: Plan, points: Layout) -> bool:
    """Whether programs can read a grid, or maps, of this layout."""
    if plan.are_maps(points[0]):
        return points[2] == plan.real and is_dense(points)
    return is_native(*points[1:]) and spacing(points) is not None


def own_grids(plan: Plan, grid: Array) -> tuple[Plan, Array]:
    """Return the plan and the grid as if each item had a grid of its own, if that pays."""
    own, (shape, _, _) = with_own_grids(plan, layout_of(grid))
    return own, grid if own is plan else np.broadcast_to(grid, shape)


def grid_sums_type(plan: Plan, points: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the dtype of what sweeps store of the gradient of points of some shape.

    It is the gradient of a grid, or of affine maps by strips.
    """
    rank = len(plan.spatial)
    if not plan.are_maps(points):
        return (plan.grid_items, *plan.out, rank), plan.real
    outputs = divide_points(plan, lanes_of(plan))
    strips = plan.points if outputs.listed else outputs.rows * -(-outputs.columns // STRIP)
    return (plan.grid_items, strips, rank, rank + 1), np.dtype(np.float64)


def grid_gradient(sums: Array, plan: Plan) -> Array:
    """Return the gradient of a plan's grid or affine maps, given what sweeps stored."""
    if plan.are_maps(sums.shape):
        scale, _ = map_factors(plan.spatial, plan.whole, plan.coords, plan.align_corners)
        gradient: Array = sums.sum(1) * scale
        return gradient.astype(plan.real)
    if len(sums) == plan.grid_items:
        return sums
    lines = np.ascontiguousarray(sums.reshape(len(sums), -1).T, np.float64)  # faster than columns
    total: Array = lines.sum(1)
    return total.astype(sums.dtype).reshape(1, *sums.shape[1:])


def readable(plan: Plan, image: Array, threads: int) -> Array:
    """Return an image that programs which gather should read: itself, or else a copy."""
    if is_readable(plan, layout_of(image)):
        return image
    return contiguous(plan, native(image), threads)


def even_values(values: Array) -> Array:
    """Return values (N, C, *out) themselves if a kernel can read them, otherwise a copy."""
    values = native(values)
    return values if is_even(values) else np.array(values, order="C")


def same_layout(a: Layout, b: Layout) -> bool:
    """Whether arrays of one shape have the same strides, counted in elements."""
    (shape, strides, dtype), (_, others, other) = a, b
    steps = zip(shape, strides, others, strict=True)
    return all(n < 2 or x * other.itemsize == y * dtype.itemsize for n, x, y in steps)


def in_layout(array: Array, like: GradientLayout) -> Array:
    """Return an array with the memory order of an image's gradient: itself, or else a copy."""
    if native(array) is array and same_layout(layout_of(array), like.layout):
        return array
    copy = like.of(array.dtype.newbyteorder("="))
    copy[...] = array
    return copy
