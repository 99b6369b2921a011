"""The taps of points on JAX arrays, and their sums, as operations of `jax.numpy`.

The weights of an axis's taps are a function of its coordinates whose derivative is given by the
method's table (`tap_weights`).  Everything else is sums and products of weights and pixels, which
JAX differentiates, batches and compiles.  Derivatives of any order, and the transpose, follow.
"""

from __future__ import annotations

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


class Taps(NamedTuple):
    """The taps of an axis at all points, (N, *out, taps).

    Attributes:
        pixels: the indices of pixels; 0 for taps that are dropped.
        kept: whether a tap reads a pixel.
        weights: the weights.
    """

    pixels: Array
    kept: Array
    weights: Array


class Points(NamedTuple):
    """The taps of all points.

    Attributes:
        axes: the taps of each axis, x first.
        valid: where all coordinates have positions.
        within: where a point has taps.
    """

    axes: list[Taps]
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


def taps_of(coordinate: Array, axis: Axis) -> tuple[Taps, Array, Array]:
    """Find the taps of an axis, and where points are valid and have taps.

    The weights are polynomials in t, so that JAX differentiates them.
    """
    base, t, steep, valid, within = locate(jax.lax.stop_gradient(coordinate), axis)
    at = base[..., np.newaxis] + np.arange(axis.first, axis.first + len(axis.table), dtype=np.int32)
    boundary = ZEROS if axis.folds else axis.boundary
    index = AXIS.fold_index(at, axis.size, boundary, axis.edge)
    t = fraction(coordinate, t, jnp.broadcast_to(steep, t.shape))[..., np.newaxis]
    columns = np.array(axis.table, t.dtype).T
    weights = AXIS.weight(t, columns, len(columns)) * (steep**axis.order)[..., np.newaxis]
    weights = jnp.broadcast_to(weights, at.shape)
    if axis.odd:
        weights = weights * AXIS.fold_sign(at, axis.size, axis.boundary, axis.edge)
    return Taps(jnp.maximum(index, 0), index >= 0, weights.astype(t.dtype)), valid, within


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
        taps, here, there = taps_of(coordinate, axis)
        axes.append(taps)
        valid, within = valid & here, within & there
    return Points(axes, valid, within)


# Rows of taps that are summed one by one in the program; more of them are summed by a loop.
UNROLLED = 4


def rows_of(points: Points) -> list[tuple[int, ...]]:
    """The rows of taps along x: the place of each among the taps of the other axes."""
    return list(itertools.product(*[range(one.pixels.shape[-1]) for one in points.axes[1:]]))


def row_of(points: Points, places: Sequence[Any]) -> Taps:
    """A row of taps along x; its indices are a list with one array per axis, in their order."""
    x, *others = points.axes
    index, kept, weights = [x.pixels], x.kept, x.weights
    for k, one in zip(places, others, strict=True):
        some = [jax.lax.dynamic_slice_in_dim(array, k, 1, -1) for array in one]
        index.insert(0, some[0])
        kept, weights = kept & some[1], weights * some[2]
    return Taps(index, kept, weights)


def added(points: Points, total: Any, add: Callable[[Any, Taps], Any]) -> Any:
    """Add all rows of taps to a total."""
    rows = rows_of(points)
    if len(rows) <= UNROLLED:
        for places in rows:
            total = add(total, row_of(points, places))
        return total

    @jax.checkpoint
    def step(total: Any, places: Array) -> tuple[Any, None]:
        return add(total, row_of(points, [*places])), None

    return jax.lax.scan(step, total, np.array(rows, np.int32))[0]


def read(image: Array, index: Sequence[Array]) -> Array:
    """Read the pixels at indices (N, *points) of an image: (N, C, *points)."""
    items, points = image.shape[0], jnp.broadcast_shapes(*[one.shape for one in index])
    every = [jnp.broadcast_to(one, points) for one in index]

    def pixels(one: Array, *places: Array) -> Array:
        found = one.at[(slice(None), *places)]
        return found.get(mode="promise_in_bounds")

    if items == points[0]:
        return jax.vmap(pixels)(image, *every)
    if items == 1:
        return jax.vmap(pixels, (None, *(0,) * len(every)))(image[0], *every)
    return jax.vmap(pixels, (0, *(None,) * len(every)))(image, *[one[0] for one in every])


def fills_of(call: Call, kind: Any) -> Array:
    """The fill value as an array that broadcasts over (N, C, *out)."""
    numbers = np.array(call.fill or (0,))
    return jnp.asarray(numbers.astype(kind)).reshape(1, -1, *(1,) * len(call.plan.out))


def summed(image: Array, points: Points, call: Call, real: Any) -> Array:
    """Sum the taps of all points of a real image: (N, C, *out) in the dtype of sums."""
    blends, zero = bool(call.fill) and call.plan.filled, jnp.zeros((), image.dtype)
    plain, fill = not any(call.order), fills_of(call, real)

    def add(sums: Any, row: Taps) -> Any:
        total, share, some = sums
        pixels = jnp.where(row.kept[:, np.newaxis], read(image, row.pixels), zero).astype(real)
        total = total + jnp.sum(pixels * row.weights[:, np.newaxis], -1)
        if blends:
            share = share + jnp.sum(jnp.where(row.kept, 0, row.weights), -1)[:, np.newaxis]
            some = some | jnp.any(row.kept, -1)[:, np.newaxis]
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
    row = row_of(points, [0] * (len(points.axes) - 1))
    fill = fills_of(call, image.dtype)
    pixels = jnp.squeeze(read(image, row.pixels), -1)
    zero = fill if call.plan.filled else jnp.zeros((), image.dtype)
    found = jnp.where(jnp.squeeze(row.kept, -1)[:, np.newaxis], pixels, zero)
    return jnp.where((points.within & points.valid)[:, np.newaxis], found, fill)


def real_type(call: Call) -> Any:
    """The dtype of sums, which is single precision where JAX has no double precision."""
    return jax.dtypes.canonicalize_dtype(call.plan.real)
