"""The taps of points on JAX arrays, and their sums, as operations of `jax.numpy`.

The weights of an axis's taps are a function of its coordinates whose derivative is given by the
method's table (`fraction`).  Everything else is sums and products of weights and pixels, which
JAX differentiates, batches and compiles.  Derivatives of any order, and the transpose, follow.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.definitions.axis import ZEROS, bound
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.coords import require_boundary
from gridsample.definitions.knots import require_name
from gridsample.definitions.options import fill_array
from gridsample.definitions.plan import Plan

Array = Any
# The formulas of one axis, over `jax.numpy`.
AXIS = bound(jnp)


Function = TypeVar("Function", bound=Callable[..., Any])


def with_promotion(function: Function) -> Function:
    """Let a function promote dtypes and ranks, also where JAX is told to promote none by itself."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return function(*args, **options)

    return cast(Function, call)


class TracedCall(NamedTuple):
    """What is known about a call before it is traced.

    Attributes:
        plan: the plan.
        order: the order of the derivative along each axis, x first.
        fill: the fill value: empty for 0, one number, or one per channel.
        tangent: whether the call is linear in the image: what is outside, or has no position, is 0.
        last: whether channels come last in memory, in the caller's image and in the result.
    """

    plan: Plan
    order: tuple[int, ...]
    fill: tuple[Any, ...] = ()
    tangent: bool = False
    last: bool = False


def with_sizes(call: TracedCall, image: Sequence[int], grid: Sequence[int]) -> TracedCall:
    """The call for an image and a grid of other shapes, whose channels may be repeated."""
    channels, fill = call.plan.channels, call.fill
    if len(fill) > 1:
        fill *= image[1] // channels
    sizes: dict[str, Any] = {"image_items": image[0], "channels": image[1], "grid_items": grid[0]}
    plan = replace(call.plan, **sizes, out=tuple(grid[1:-1]))
    return call._replace(plan=plan, fill=fill)


class TracedAxis(NamedTuple):
    """An axis of the image, its method and its boundary.

    Attributes:
        size: the number of pixels.
        table: the coefficients of each tap's weight, lowest power first.
        first: the first tap, relative to the base index.
        rounding: how a position is rounded to the base index.
        boundary: the code of the boundary.
        edge: the place of the mirrors.
        odd: whether signs change.
        folds: whether the position is folded, instead of each tap's index.
        aligned: the meaning of -1 and 1; None if coordinates are positions.
        margin: the extent of the image beyond its outermost pixel centres; None if points beyond it
            have taps, too.
        order: the order of the derivative.
    """

    size: int
    table: tuple[tuple[float, ...], ...]
    first: int
    rounding: int
    boundary: int
    edge: int
    odd: bool
    folds: bool
    aligned: bool | None
    margin: float | None
    order: int


class Position(NamedTuple):
    """The positions of all points along an axis, (N, *out).

    Attributes:
        axis: the axis.
        base: the base indices.
        t: the fractions, as functions of the coordinates.
        slope: d position / d coordinate.
    """

    axis: TracedAxis
    base: Array
    t: Array
    slope: Array


class TracedTap(NamedTuple):
    """A tap of each point, (N, *out).

    Attributes:
        pixels: its index along each axis of the image; 0 if it is dropped.
        kept: whether it reads a pixel.
        weights: its weight.
    """

    pixels: list[Array]
    kept: Array
    weights: Array


class TracedPoints(NamedTuple):
    """All points.

    Attributes:
        axes: the positions along each axis, x first.
        valid: where all coordinates have positions.
        inside: where a point has taps.
    """

    axes: list[Position]
    valid: Array
    inside: Array


# One axis -----------------------------------------------------------------------------------------


# What messages call these functions.
TARGET = "XLA without this library's kernels"


def axes_of(call: TracedCall) -> list[TracedAxis]:
    """Describe all axes of a call, x first."""
    plan = call.plan
    normalized = require_name(plan.coords, TARGET) == "normalized"
    require_boundary(plan.ends, TARGET)
    return [
        TracedAxis(
            size, method.derivative(order), method.first, method.rounding, BOUNDARIES[name].code,
            edge, BOUNDARIES[name].odd, folds, plan.align_corners if normalized else None,
            margin, order,
        )
        for size, method, name, edge, folds, margin, order in zip(
            plan.spatial[::-1], plan.methods, plan.boundaries, plan.edges, plan.folds,
            plan.margins, call.order, strict=True,
        )
    ]  # fmt: skip


def unnormalize(coordinate: Array, axis: TracedAxis) -> tuple[Array, Array]:
    """Return the positions of coordinates, and where they are in the image."""
    position, last = coordinate, float(axis.size - 1)
    if axis.aligned is not None:
        position = AXIS.position(coordinate, last, axis.aligned)
    if axis.margin is None:
        return position, AXIS.known(position, axis.boundary)
    return position, AXIS.inside(position, last, axis.margin)


def locate(coordinate: Array, axis: TracedAxis) -> tuple[Array, Array, Array, Array, Array]:
    """Return base indices, fractions, slopes, and where points are valid and have taps."""
    last, reach = float(axis.size - 1), float(len(axis.table) + 1)
    position, inside = unnormalize(coordinate, axis)
    valid = inside if axis.margin is None else AXIS.known(position, ZEROS)
    slope = jnp.ones((), coordinate.dtype)
    if axis.aligned is not None:
        slope = slope * AXIS.slope(last, axis.aligned)
    position = jnp.where(inside, position, 0)
    mirrors = axis.boundary, float(axis.edge)
    if axis.folds:
        position, sign = AXIS.fold(position, last, reach, *mirrors)
        slope = slope * sign
    else:
        position = AXIS.confine(position, last, reach, *mirrors)
    base, t = AXIS.split(position, axis.rounding)
    return base.astype(np.int32), t, slope, valid, inside


@jax.custom_jvp
def fraction(coordinate: Array, t: Array, slope: Array) -> Array:
    """Return t, as a function of the coordinate whose derivative is ``slope``."""
    return t


@fraction.defjvp
def fraction_jvp(primals: Any, tangents: Any) -> Any:
    """Differentiate `fraction`; its value can be differentiated again."""
    slope = primals[-1]
    return fraction(*primals), tangents[0] * slope


def position_of(coordinate: Array, axis: TracedAxis) -> tuple[Position, Array, Array]:
    """Find the positions along an axis, and where points are valid and have taps."""
    base, t, slope, valid, inside = locate(jax.lax.stop_gradient(coordinate), axis)
    slope = jnp.broadcast_to(slope, t.shape)
    return Position(axis, base, fraction(coordinate, t, slope), slope), valid, inside


def tap_of(position: Position, number: Any) -> TracedTap:
    """Compute one of the taps along an axis; its number may be traced.

    The weights are polynomials in t, so that JAX differentiates them.
    """
    axis, base, t, slope = position
    index = base + (axis.first + number)
    pixel = AXIS.fold_index(index, axis.size, ZEROS if axis.folds else axis.boundary, axis.edge)
    table = np.array(axis.table, t.dtype)
    powers = table.shape[1]
    row = table[number] if isinstance(number, int) else jnp.asarray(table)[number]
    weights = AXIS.weight(t, [row[k] for k in range(powers)], powers)
    if axis.order:
        weights = weights * slope**axis.order
    if axis.odd:
        weights = weights * AXIS.fold_sign(index, axis.size, axis.boundary, axis.edge)
    weights = jnp.broadcast_to(weights, index.shape).astype(t.dtype)
    return TracedTap([jnp.maximum(pixel, 0)], pixel >= 0, weights)


# All axes -----------------------------------------------------------------------------------------


def points_of(grid: Array, call: TracedCall, real: Any) -> TracedPoints:
    """Find the taps of a grid's points (N, *out, D)."""
    coordinates = grid.astype(real)
    axes, valid, inside = [], jnp.ones((), bool), jnp.ones((), bool)
    for k, axis in enumerate(axes_of(call)):
        # A shared grid has one item: XLA then reads arrays that the caller stacked, not the stack.
        coordinate = coordinates[..., k] if grid.shape[0] != 1 else coordinates[0][..., k][None]
        if call.plan.coords == "displacement":
            coordinate = coordinate + own_index(coordinate, k)
        position, axis_valid, axis_inside = position_of(coordinate, axis)
        axes.append(position)
        valid, inside = valid & axis_valid, inside & axis_inside
    return TracedPoints(axes, valid, inside)


def own_index(coordinate: Array, k: int) -> Array:
    """The output points' own indices along axis k, x first, as displacements (N, *out) have."""
    return jax.lax.broadcasted_iota(coordinate.dtype, coordinate.shape, coordinate.ndim - 1 - k)


# Rows of taps that are summed one by one in the program; more of them are summed by a loop.
UNROLLED = 4


def rows_of(points: TracedPoints) -> list[tuple[int, ...]]:
    """The rows of taps along x: the number of each among the taps of the other axes."""
    return list(
        itertools.product(*[range(len(position.axis.table)) for position in points.axes[1:]])
    )


def row_of(points: TracedPoints, numbers: Sequence[Any]) -> list[TracedTap]:
    """The taps of a row along x.

    Each is an array of its own: XLA then computes a sum of taps in one loop over the points, which
    takes a hundredth of the time of a sum along an axis.
    """
    x, *others = points.axes
    pixels: list[Array] = []
    kept, weights = jnp.ones((), bool), jnp.ones((), x.t.dtype)
    for number, position in zip(numbers, others, strict=True):
        tap = tap_of(position, number)
        pixels = [*tap.pixels, *pixels]
        kept, weights = kept & tap.kept, weights * tap.weights
    row = [tap_of(x, k) for k in range(len(x.axis.table))]
    return [
        TracedTap([*pixels, *tap.pixels], kept & tap.kept, weights * tap.weights) for tap in row
    ]


def accumulate(
    add: Callable[[Any, Sequence[Any]], Any],
    total: Any,
    terms: Sequence[Sequence[int]],
    unrolled: int,
) -> Any:
    """Add each of some terms, which integers describe, to a total.

    If there are more than ``unrolled``, a loop adds them, which computes each term again for
    derivatives instead of keeping it.
    """
    if len(terms) <= unrolled:
        return functools.reduce(add, terms, total)

    @jax.checkpoint
    def step(total: Any, term: Array) -> tuple[Any, None]:
        return add(total, [*term]), None

    return jax.lax.scan(step, total, np.array(terms, np.int32))[0]


def read(image: Array, pixels: Sequence[Array]) -> Array:
    """Read the pixels (N, *points) of an image: (N, C, *points).

    Each is found by one number, because XLA fuses such reads with the sums of their results.
    """
    spatial, size = image.shape[2:], math.prod(image.shape[2:])
    # Unsigned, because JAX lets negative indices count from the end, which takes time.
    is_large = size > np.iinfo(np.int32).max
    index_type = jax.dtypes.canonicalize_dtype(np.uint64 if is_large else np.uint32)
    index: Any = 0
    for n, axis_index in zip(spatial, pixels, strict=True):
        index = index * n + axis_index.astype(index_type)
    planes = image.reshape(*image.shape[:2], size)

    def read_item(planes: Array, index: Array) -> Array:
        return planes.at[:, index].get(mode="promise_in_bounds")

    if planes.shape[0] == index.shape[0]:
        return jax.vmap(read_item)(planes, index)
    if planes.shape[0] == 1:
        return jax.vmap(read_item, (None, 0))(planes[0], index)
    return jax.vmap(read_item, (0, None))(planes, index[0])


def fill_of(call: TracedCall, dtype: Any) -> Array:
    """The fill value as an array that broadcasts over (N, C, *out)."""
    return jnp.asarray(fill_array(call.fill, dtype, 2 + len(call.plan.out)))


def output_shape(image: Array, points: Sequence[int]) -> tuple[int, ...]:
    """The shape (N, C, *out) of samples of an image at points (N, *out)."""
    return (points[0] if image.shape[0] == 1 else image.shape[0], image.shape[1], *points[1:])


def summed(image: Array, points: TracedPoints, call: TracedCall, real: Any) -> Array:
    """Sum the taps of all points of a real image: (N, C, *out) in the dtype of sums."""
    blends, zero = bool(call.fill) and call.plan.filled, jnp.zeros((), image.dtype)
    fill = fill_of(call, real)
    outside, invalid = (0, 0) if any(call.order) or call.tangent else (fill, math.nan)

    def add(sums: Any, tap: TracedTap) -> Any:
        total, dropped_weight, any_kept = sums
        kept, weights = tap.kept[:, np.newaxis], tap.weights[:, np.newaxis]
        values = jnp.where(kept, read(image, tap.pixels), zero).astype(real)
        total = total + values * weights
        if blends:
            dropped_weight = dropped_weight + jnp.where(kept, 0, weights)
            any_kept = any_kept | kept
        return total, dropped_weight, any_kept

    def add_row(sums: Any, numbers: Sequence[Any]) -> Any:
        return functools.reduce(add, row_of(points, numbers), sums)

    shape = points.valid.shape
    weight_shape = (shape[0], 1, *shape[1:])
    no_weight, none_kept = jnp.zeros(weight_shape, real), jnp.zeros(weight_shape, bool)
    start = jnp.zeros(output_shape(image, shape), real), no_weight, none_kept
    total, dropped_weight, any_kept = accumulate(add_row, start, rows_of(points), UNROLLED)
    if blends:
        total = total + dropped_weight * jnp.where(dropped_weight == 0, 0, fill)
        if call.plan.sums_to_one:  # no tap is on the image: exactly the fill value
            total = jnp.where(any_kept, total, outside)
    if not call.plan.extrapolate:
        total = jnp.where(points.inside[:, np.newaxis], total, outside)
    return jnp.where(points.valid[:, np.newaxis], total, invalid)


def copied(image: Array, points: TracedPoints, call: TracedCall) -> Array:
    """Copy the pixel of each point, which is exact for integers of any size."""
    (tap,) = row_of(points, [0] * (len(points.axes) - 1))
    fill = fill_of(call, image.dtype)
    dropped = fill if call.plan.filled else jnp.zeros((), image.dtype)
    values = jnp.where(tap.kept[:, np.newaxis], read(image, tap.pixels), dropped)
    return jnp.where((points.inside & points.valid)[:, np.newaxis], values, fill)


def real_type(call: TracedCall) -> Any:
    """The dtype of sums, which is single precision where JAX has no double precision."""
    return jax.dtypes.canonicalize_dtype(call.plan.real)
