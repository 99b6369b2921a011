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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax.formulas import AXIS
from gridsample.definitions.axis import ZEROS
from gridsample.definitions.plan import BOUNDARIES, Plan

Array = Any


class Call(NamedTuple):
    """What is known about a call before it is traced.

    Attributes:
        plan: the plan.
        order: the order of the derivative along each axis, x first.
        fill: the fill value: empty for 0, one number, or one per channel.
        bounds: how many samples footprints can have (`footprints.Bounds`).
    """

    plan: Plan
    order: tuple[int, ...]
    fill: tuple[Any, ...] = ()
    bounds: Any = None


class Axis(NamedTuple):
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
        steep: d position / d coordinate.
    """

    axis: Axis
    base: Array
    t: Array
    steep: Array


class Tap(NamedTuple):
    """A tap of each point, (N, *out).

    Attributes:
        pixels: its index along each axis of the image; 0 if it is dropped.
        kept: whether it reads a pixel.
        weights: its weight.
    """

    pixels: list[Array]
    kept: Array
    weights: Array


class Points(NamedTuple):
    """All points.

    Attributes:
        axes: the positions along each axis, x first.
        valid: where all coordinates have positions.
        within: where a point has taps.
    """

    axes: list[Position]
    valid: Array
    within: Array


# One axis -----------------------------------------------------------------------------------------


def axes_of(call: Call) -> list[Axis]:
    """Describe all axes of a call, x first."""
    plan = call.plan
    normalized = plan.coords == "normalized"
    return [
        Axis(
            size, method.derivative(order), method.first, method.rounding, BOUNDARIES[name].code,
            edge, BOUNDARIES[name].odd, folds, plan.align_corners if normalized else None,
            plan.margin, order,
        )
        for size, method, name, edge, folds, order in zip(
            plan.spatial[::-1], plan.methods, plan.boundaries, plan.edges, plan.folds, call.order,
            strict=True,
        )
    ]  # fmt: skip


def locate(coordinate: Array, axis: Axis) -> tuple[Array, Array, Array, Array, Array]:
    """Return base indices, fractions, slopes, and where points are valid and have taps."""
    last, reach = float(axis.size - 1), float(len(axis.table) + 1)
    position, steep = coordinate, jnp.ones((), coordinate.dtype)
    if axis.aligned is not None:
        position = AXIS.position(coordinate, last, axis.aligned)
        steep = steep * AXIS.slope(last, axis.aligned)
    bounded = axis.margin is not None
    valid = AXIS.known(position, ZEROS if bounded else axis.boundary)
    within = AXIS.inside(position, last, axis.margin) if bounded else valid
    position = jnp.where(within, position, 0)
    where = axis.boundary, float(axis.edge)
    if axis.folds:
        position, sign = AXIS.fold(position, last, reach, *where)
        steep = steep * sign
    else:
        position = AXIS.confine(position, last, reach, *where)
    base, t = AXIS.split(position, axis.rounding)
    return base.astype(np.int32), t, steep, valid, within


@jax.custom_jvp
def fraction(coordinate: Array, t: Array, steep: Array) -> Array:
    """Return t, as a function of the coordinate whose derivative is ``steep``."""
    return t


@fraction.defjvp
def fraction_along(primals: Any, tangents: Any) -> Any:
    """Differentiate `fraction`; its value can be differentiated again."""
    steep = primals[-1]
    return fraction(*primals), tangents[0] * steep


def position_of(coordinate: Array, axis: Axis) -> tuple[Position, Array, Array]:
    """Find the positions along an axis, and where points are valid and have taps."""
    base, t, steep, valid, within = locate(jax.lax.stop_gradient(coordinate), axis)
    steep = jnp.broadcast_to(steep, t.shape)
    return Position(axis, base, fraction(coordinate, t, steep), steep), valid, within


def tap_of(position: Position, number: Any) -> Tap:
    """Compute one of the taps along an axis; its number may be traced.

    The weights are polynomials in t, so that JAX differentiates them.
    """
    axis, base, t, steep = position
    at = base + (axis.first + number)
    index = AXIS.fold_index(at, axis.size, ZEROS if axis.folds else axis.boundary, axis.edge)
    table = np.array(axis.table, t.dtype)
    powers = table.shape[1]
    row = table[number] if isinstance(number, int) else jnp.asarray(table)[number]
    weights = AXIS.weight(t, [row[k] for k in range(powers)], powers)
    if axis.order:
        weights = weights * steep**axis.order
    if axis.odd:
        weights = weights * AXIS.fold_sign(at, axis.size, axis.boundary, axis.edge)
    weights = jnp.broadcast_to(weights, at.shape).astype(t.dtype)
    return Tap([jnp.maximum(index, 0)], index >= 0, weights)


# All axes -----------------------------------------------------------------------------------------


def points_of(grid: Array, call: Call, real: Any) -> Points:
    """Find the taps of a grid's points (N, *out, D)."""
    coordinates = grid.astype(real)
    axes, valid, within = [], jnp.ones((), bool), jnp.ones((), bool)
    for k, axis in enumerate(axes_of(call)):
        coordinate = coordinates[..., k]
        if call.plan.coords == "displacement":
            own = jax.lax.broadcasted_iota(real, coordinate.shape, coordinate.ndim - 1 - k)
            coordinate = coordinate + own
        position, here, there = position_of(coordinate, axis)
        axes.append(position)
        valid, within = valid & here, within & there
    return Points(axes, valid, within)


# Rows of taps that are summed one by one in the program; more of them are summed by a loop.
UNROLLED = 4


def rows_of(points: Points) -> list[tuple[int, ...]]:
    """The rows of taps along x: the number of each among the taps of the other axes."""
    return list(itertools.product(*[range(len(one.axis.table)) for one in points.axes[1:]]))


def row_of(points: Points, numbers: Sequence[Any]) -> list[Tap]:
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
    along = [tap_of(x, k) for k in range(len(x.axis.table))]
    return [Tap([*pixels, *one.pixels], kept & one.kept, weights * one.weights) for one in along]


def added(points: Points, total: Any, add: Callable[[Any, Tap], Any]) -> Any:
    """Add all taps to a total."""

    def add_row(total: Any, numbers: Sequence[Any]) -> Any:
        return functools.reduce(add, row_of(points, numbers), total)

    rows = rows_of(points)
    if len(rows) <= UNROLLED:
        return functools.reduce(add_row, rows, total)

    @jax.checkpoint
    def step(total: Any, numbers: Array) -> tuple[Any, None]:
        return add_row(total, [*numbers]), None

    return jax.lax.scan(step, total, np.array(rows, np.int32))[0]


def read(image: Array, pixels: Sequence[Array]) -> Array:
    """Read the pixels (N, *points) of an image: (N, C, *points).

    Each is found by one number, because XLA fuses such reads with the sums of their results.
    """
    spatial, size = image.shape[2:], math.prod(image.shape[2:])
    wide = jnp.promote_types(np.int64 if size > np.iinfo(np.int32).max else np.int32, np.int32)
    index: Any = 0
    for n, along in zip(spatial, pixels, strict=True):
        index = index * n + along.astype(wide)
    planes = image.reshape(*image.shape[:2], size)

    def read_item(planes: Array, index: Array) -> Array:
        return planes.at[:, index].get(mode="promise_in_bounds")

    if planes.shape[0] == index.shape[0]:
        return jax.vmap(read_item)(planes, index)
    if planes.shape[0] == 1:
        return jax.vmap(read_item, (None, 0))(planes[0], index)
    return jax.vmap(read_item, (0, None))(planes, index[0])


def fills_of(call: Call, kind: Any) -> Array:
    """The fill value as an array that broadcasts over (N, C, *out)."""
    numbers = np.array(call.fill or (0,))
    return jnp.asarray(numbers.astype(kind)).reshape(1, -1, *(1,) * len(call.plan.out))


def summed(image: Array, points: Points, call: Call, real: Any) -> Array:
    """Sum the taps of all points of a real image: (N, C, *out) in the dtype of sums."""
    blends, zero = bool(call.fill) and call.plan.filled, jnp.zeros((), image.dtype)
    plain, fill = not any(call.order), fills_of(call, real)

    def add(sums: Any, tap: Tap) -> Any:
        total, share, some = sums
        kept, weights = tap.kept[:, np.newaxis], tap.weights[:, np.newaxis]
        values = jnp.where(kept, read(image, tap.pixels), zero).astype(real)
        total = total + values * weights
        if blends:
            share = share + jnp.where(kept, 0, weights)
            some = some | kept
        return total, share, some

    shape = points.valid.shape
    items = shape[0] if image.shape[0] == 1 else image.shape[0]
    alone = (shape[0], 1, *shape[1:])
    start = (
        jnp.zeros((items, image.shape[1], *shape[1:]), real),
        jnp.zeros(alone, real), jnp.zeros(alone, bool),
    )  # fmt: skip
    total, share, some = added(points, start, add)
    if blends:
        total = total + share * jnp.where(share == 0, 0, fill)
        if call.plan.sums_to_one:  # no tap is on the image: exactly the fill value
            total = jnp.where(some, total, fill if plain else 0)
    if not call.plan.extrapolate:
        total = jnp.where(points.within[:, np.newaxis], total, fill if plain else 0)
    return jnp.where(points.valid[:, np.newaxis], total, math.nan if plain else 0)


def copied(image: Array, points: Points, call: Call) -> Array:
    """Copy the pixel of each point, which is exact for integers of any size."""
    (tap,) = row_of(points, [0] * (len(points.axes) - 1))
    fill = fills_of(call, image.dtype)
    zero = fill if call.plan.filled else jnp.zeros((), image.dtype)
    values = jnp.where(tap.kept[:, np.newaxis], read(image, tap.pixels), zero)
    return jnp.where((points.within & points.valid)[:, np.newaxis], values, fill)


def real_type(call: Call) -> Any:
    """The dtype of sums, which is single precision where JAX has no double precision."""
    return jax.dtypes.canonicalize_dtype(call.plan.real)
