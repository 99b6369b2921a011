"""Antialiased sampling on JAX arrays: a loop over the samples of all points' footprints.

The samples of all points with the same place in their footprints form a grid.  A loop visits the
places that some footprint has, and derivatives compute a sample again instead of keeping it, so
that memory is that of a few grids.  The numbers of samples depend on the values of the grid: a
trace, where these are not known, visits every place that is possible.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax.taps import Array, Call, copied, points_of, real_type, summed
from gridsample.definitions import footprints as definitions
from gridsample.definitions.axis import HALF
from gridsample.definitions.methods import METHODS


class Bounds(NamedTuple):
    """How many samples there can be.

    Attributes:
        most: the maximum number of samples along each side.
        deepest: how often the image is halved at most.
    """

    most: tuple[int, ...]
    deepest: int


class Footprints(NamedTuple):
    """The footprints of all points.

    Attributes:
        grid: the coordinates, (N, *out, D), in the dtype of sums.
        sides: the sides, which are such arrays.
        counts: the number of samples along each side, (N, *out).
        level: how often the image is halved for a point, (N, *out).
        share: one divided by the number of samples.
    """

    grid: Array
    sides: Sequence[Array]
    counts: Sequence[Array]
    level: Array
    share: Array


def neighbour(array: Array, axis: int, by: int, beyond: Any) -> Array:
    """The entry of each point's neighbour along an axis, or ``beyond`` where there is none.

    by: -1 for the point before, 1 for the point after.
    """
    edge = jnp.full_like(jax.lax.slice_in_dim(array, 0, 1, axis=axis), beyond)
    n = array.shape[axis]
    if by > 0:
        kept = jax.lax.slice_in_dim(array, 1, n, axis=axis)
        return jnp.concatenate([kept, edge], axis)
    return jnp.concatenate([edge, jax.lax.slice_in_dim(array, 0, n - 1, axis=axis)], axis)


def sides_of(grid: Array, call: Call) -> list[Array]:
    """The sides of all footprints: differences between neighbours that are finite."""
    rank = grid.shape[-1]
    finite = jnp.isfinite(jax.lax.stop_gradient(grid)).all(-1, keepdims=True)
    found = []
    for k in range(rank):
        axis = grid.ndim - 1 - rank + k
        before, after = (finite & neighbour(finite, axis, by, False) for by in (-1, 1))
        upper = jnp.where(after, neighbour(grid, axis, 1, 0), grid)
        lower = jnp.where(before, neighbour(grid, axis, -1, 0), grid)
        side = jnp.where(before | after, upper - lower, 0) * jnp.where(before & after, 0.5, 1.0)
        if call.plan.coords == "displacement":
            unit = np.eye(rank, dtype=grid.dtype)[rank - 1 - k]
            side = side + (before | after).astype(grid.dtype) * unit
        found.append(side.astype(grid.dtype))
    return found


def footprints_of(grid: Array, call: Call) -> Footprints:
    """Measure the footprints of a grid's points."""
    plan, grid = call.plan, grid.astype(real_type(call))
    assert plan.footprint is not None
    most = plan.footprint.most
    sides = sides_of(grid if plan.footprint.attached else jax.lax.stop_gradient(grid), call)
    pixels = np.array(
        definitions.pixels_per_unit(plan.spatial, plan.coords, plan.align_corners), grid.dtype
    )
    lengths = [
        jnp.sqrt(jnp.sum(jnp.square(jax.lax.stop_gradient(side) * pixels), -1)) for side in sides
    ]
    longest = functools.reduce(jnp.maximum, lengths)
    level = jnp.zeros(longest.shape, np.int32)
    for n in range(deepest_of(call)):
        level = level + (longest * 0.5**n - definitions.SLACK > most)
    scale = jnp.exp2(-level.astype(grid.dtype))
    counts = [jnp.clip(jnp.ceil(n * scale - definitions.SLACK), 1, most) for n in lengths]
    return Footprints(grid, sides, counts, level, 1 / functools.reduce(jnp.multiply, counts))


def deepest_of(call: Call) -> int:
    """How often an image may be halved; labels never are."""
    return 0 if call.plan.votes else definitions.deepest(call.plan.spatial)


@functools.partial(jax.jit, static_argnums=1)
def measured(grid: Array, call: Call) -> tuple[Array, Array]:
    """The largest number of samples along each side, and the deepest level."""
    feet = footprints_of(grid, call)
    return jnp.stack([jnp.max(one, initial=1) for one in feet.counts]), jnp.max(
        feet.level, initial=0
    )


def bounds_of(grid: Array, call: Call, known: bool) -> Bounds:
    """Return how many samples there can be; the values of the grid are inspected if ``known``.

    The numbers of samples are rounded up to powers of two, so that few programs are compiled.
    """
    footprint = call.plan.footprint
    assert footprint is not None
    if not known:
        return Bounds((footprint.most,) * grid.shape[-1], deepest_of(call))
    counts, level = measured(grid, call)
    rounded = [1 << (int(n) - 1).bit_length() for n in np.asarray(counts)]
    return Bounds(tuple(min(n, footprint.most) for n in rounded), int(level))


def looped(total: Any, places: Array, body: Callable[[Any, Array], Any]) -> Any:
    """Add to a total at each of some places."""
    if len(places) == 1:
        return body(total, places[0])

    @jax.checkpoint
    def step(total: Any, place: Array) -> tuple[Any, None]:
        return body(total, place), None

    return jax.lax.scan(step, total, places)[0]


def coordinates(feet: Footprints, place: Array) -> tuple[Array, Array]:
    """The coordinates of the samples at a place of all footprints, and which points have them."""
    here, grid = jnp.ones(feet.level.shape, bool), feet.grid
    for k, (count, side) in enumerate(zip(feet.counts, feet.sides, strict=True)):
        here = here & (count > place[k])
        along = (place[k] + HALF) / count - HALF
        # A point with one sample keeps its bits.
        grid = grid + jnp.where((count > 1)[..., np.newaxis], along[..., np.newaxis] * side, 0)
    return grid, here


def own_indices(grid: Array) -> Array:
    """The indices of the output points, x first, to which displacements are relative."""
    rank = grid.shape[-1]
    every = [
        jax.lax.broadcasted_iota(grid.dtype, grid.shape[:-1], grid.ndim - 2 - k)
        for k in range(rank)
    ]
    return jnp.stack(every, -1)


def mean(image: Array, grid: Array, call: Call) -> Array:
    """Compute the means of a real image's samples over footprints, in the dtype of sums."""
    plan, real, feet = call.plan, real_type(call), footprints_of(grid, call)
    if plan.coords == "displacement":
        feet = feet._replace(grid=feet.grid + own_indices(feet.grid))
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    total: Any = jnp.zeros((items, image.shape[1], *grid.shape[1:-1]), real)
    places = jnp.asarray(list(itertools.product(*map(range, call.bounds.most))), np.int32)
    levels = definitions.levels(plan.spatial, plan.coords, plan.align_corners, call.bounds.deepest)
    for n, level in enumerate(levels):
        if n:
            image = halved(image.astype(real))
        single = call._replace(
            plan=dataclasses.replace(
                plan, spatial=level.spatial, coords=level.coords, footprint=None
            )
        )
        gain, shift = (np.array(one, real) for one in (level.gain, level.shift))

        def add(total: Array, place: Array, image: Array = image, n: int = n,
                single: Call = single, gain: Any = gain, shift: Any = shift) -> Array:  # fmt: skip
            points, here = coordinates(feet, place)
            here = here & (feet.level == n)
            points = gain * points + shift if n else points

            def sampled() -> Array:
                found = summed(image, points_of(points, single, real), single, real)
                return jnp.where(here[:, np.newaxis], found, 0) * feet.share[:, np.newaxis]

            return jax.lax.cond(jnp.any(here), lambda: total + sampled(), lambda: total)

        total = looped(total, places, add)
    return total


def halved(image: Array) -> Array:
    """Halve an image (N, C, *spatial) by area."""
    for axis in range(2, image.ndim):
        pixels, weights = definitions.halving(image.shape[axis])
        total: Any = 0
        for k in range(pixels.shape[1]):
            factors = weights[:, k].astype(image.dtype)
            factors = factors.reshape((-1, *(1,) * (image.ndim - 1 - axis)))
            total = total + jnp.take(image, pixels[:, k], axis) * factors
        image = total
    return image


# Labels -------------------------------------------------------------------------------------------


def vote(image: Array, grid: Array, call: Call) -> Array:
    """Return the label with the largest weight over all samples of each point.

    A round over all samples sums the weights of one label per point, and finds the point's next
    greater label.  There are as many rounds as a footprint has different labels, and one more.
    """
    plan, real, feet = call.plan, real_type(call), footprints_of(grid, call)
    if plan.coords == "displacement":
        feet = feet._replace(grid=feet.grid + own_indices(feet.grid))
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    shape = (items, image.shape[1], *grid.shape[1:-1])
    voting = [k for k, method in enumerate(plan.methods) if method.votes]
    bits = list(itertools.product((0, 1), repeat=len(voting)))
    places = jnp.asarray(
        [(*place, *corner) for place in itertools.product(*map(range, call.bounds.most))
         for corner in bits], np.int32,
    )  # fmt: skip
    margin = definitions.tie(plan.spatial, float(np.finfo(real).eps))
    margins = jnp.where(feet.share < 1, margin, 0.0).astype(real)[:, np.newaxis]
    nearest = tuple([METHODS["nearest"] if one.votes else one for one in plan.methods])
    single = call._replace(
        plan=dataclasses.replace(plan, methods=nearest, coords="pixel", margin=None, footprint=None)
    )

    def ballot(place: Array) -> tuple[Array, Array]:
        points, here = coordinates(feet, place)
        at = in_pixels(points, call)
        share = feet.share * here
        corners = []
        for k in range(at.shape[-1]):
            x, known = at[..., k], jnp.isfinite(at[..., k])
            if k in voting:
                upper = place[len(feet.sides) + voting.index(k)]
                base = jnp.where(known, jnp.floor(x), x)
                t = jnp.where(known, x - base, 0)
                share = share * jnp.where(upper == 1, t, 1 - t)
                x = base + upper
            corners.append(x)
        return labels_at(image, jnp.stack(corners, -1), single), share[:, np.newaxis]

    def round_of(key: Array, first: Array) -> tuple[Array, Array, Array]:
        """The total of a label, whether there is a greater one, and the next greater."""
        start = jnp.zeros(shape, real), jnp.zeros(shape, bool), jnp.zeros(shape, image.dtype)

        def add(state: Any, place: Array) -> Any:
            total, more, following = state
            label, weight = ballot(place)
            total = total + jnp.where(~first & (label == key), weight, 0)
            above = (weight > 0) & (first | (label > key))
            better = above & (~more | (label < following))
            return total, more | above, jnp.where(better, label, following)

        found: tuple[Array, Array, Array] = looped(start, places, add)
        return found

    def step(state: Any) -> Any:
        key, winner, most, _ = state
        total, more, following = round_of(key, jnp.zeros((), bool))
        wins = total > most + margins
        return (
            jnp.where(more, following, key),
            jnp.where(wins, key, winner),
            jnp.where(wins, total, most),
            jnp.any(more),
        )

    key = jnp.zeros(shape, image.dtype)
    _, _, key = round_of(key, jnp.ones((), bool))
    state = key, key, jnp.full(shape, -1, real), jnp.ones((), bool)
    found = jax.lax.while_loop(lambda state: state[-1], step, state)
    return found[1]


def labels_at(image: Array, points: Array, call: Call) -> Array:
    """Read the labels at pixels."""
    return copied(image, points_of(points, call, points.dtype), call)


def in_pixels(points: Array, call: Call) -> Array:
    """The positions of samples, (N, *out, D); NaN where a sample has no taps."""
    plan = call.plan
    sizes = np.array(plan.spatial[::-1], points.dtype)
    if plan.coords == "normalized":
        shifted = points + 1
        points = shifted * (sizes - 1) * HALF if plan.align_corners else (
            (shifted * sizes - 1) * HALF
        )  # fmt: skip
    if plan.margin is None:
        return points
    inside = ((points >= -plan.margin) & (points <= sizes - 1 + plan.margin)).all(-1, keepdims=True)
    return jnp.where(inside, points, jnp.nan)
