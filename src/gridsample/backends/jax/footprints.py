"""Antialiased sampling on JAX arrays: a loop over the samples of all points' footprints.

The samples of all points with the same indices in their footprints form a grid.  A loop visits all
indices that are possible, skips those that no footprint has, and computes a sample again for
derivatives instead of keeping it, so that memory is that of a few grids.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.footprints import Neighbours, measure
from gridsample.backends.jax.labels import elect
from gridsample.backends.jax.taps import (
    Array,
    TracedCall,
    accumulate,
    axes_of,
    copied,
    output_shape,
    own_index,
    points_of,
    real_type,
    summed,
    unnormalize,
)
from gridsample.definitions import footprints as definitions
from gridsample.definitions.axis import HALF
from gridsample.definitions.methods import METHODS


class TracedFootprints(NamedTuple):
    """The footprints of all points.

    Attributes:
        grid: the coordinates, (N, *out, D), in the dtype of sums; displacements are added to the
            output points' own indices.
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


def footprints_of(grid: Array, call: TracedCall) -> TracedFootprints:
    """Measure the footprints of a grid's points."""
    plan, grid = call.plan, grid.astype(real_type(call))
    assert plan.footprint is not None
    geometry = grid if plan.footprint.attached else jax.lax.stop_gradient(grid)
    options = plan.spatial, plan.coords, plan.align_corners
    periods = definitions.periods(*options, plan.boundaries)
    sides = Neighbours(jnp, geometry).sides(geometry, plan.coords == "displacement", periods)
    unit = definitions.pixels_per_unit(*options)
    constants = [jax.lax.stop_gradient(side) for side in sides]
    _, level, counts = measure(
        jnp, constants, unit, plan.footprint.max_samples, deepest_level(call)
    )
    if plan.coords == "displacement":
        grid = grid + jnp.stack([own_index(grid[..., k], k) for k in range(grid.shape[-1])], -1)
    return TracedFootprints(grid, sides, counts, level, 1 / functools.reduce(jnp.multiply, counts))


def deepest_level(call: TracedCall) -> int:
    """How often an image may be halved; labels never are."""
    return 0 if call.plan.votes else definitions.deepest(call.plan.spatial)


def samples_of(call: TracedCall) -> list[tuple[int, ...]]:
    """The indices of all samples that a footprint may have."""
    assert call.plan.footprint is not None
    return indices_of((call.plan.footprint.max_samples,) * len(call.plan.spatial))


def coordinates(footprints: TracedFootprints, index: Sequence[Any]) -> tuple[Array, Array]:
    """The coordinates of the samples with an index along each side, and where they exist."""
    exists, grid = jnp.ones(footprints.level.shape, bool), footprints.grid
    for k, (count, side) in enumerate(zip(footprints.counts, footprints.sides, strict=True)):
        exists = exists & (count > index[k])
        along = (index[k] + HALF) / count - HALF
        # A point with one sample keeps its bits.
        grid = grid + jnp.where((count > 1)[..., np.newaxis], along[..., np.newaxis] * side, 0)
    return grid, exists


def mean(image: Array, grid: Array, call: TracedCall) -> Array:
    """Compute the means of a real image's samples over footprints, in the dtype of sums."""
    plan, footprints = call.plan, footprints_of(grid, call)
    total = jnp.zeros(output_shape(image, grid.shape[:-1]), footprints.grid.dtype)
    levels = definitions.levels(plan.spatial, plan.coords, plan.align_corners, deepest_level(call))
    for n, level in enumerate(levels):
        if n:
            image = halved(image.astype(total.dtype))
        total = add_level(total, image, footprints, call, n, level)
    return total


def add_level(
    total: Array,
    image: Array,
    footprints: TracedFootprints,
    call: TracedCall,
    number: int,
    level: definitions.Level,
) -> Array:
    """Add all samples of the points of a level to a total, by a call of plain sampling."""
    real, at_level = total.dtype, footprints.level == number
    plan = dataclasses.replace(
        call.plan, spatial=level.spatial, coords=level.coords, footprint=None
    )
    point_call = call._replace(plan=plan)

    def add(total: Array, index: Sequence[Any]) -> Array:
        points, exists = coordinates(footprints, index)
        exists = exists & at_level
        if number:
            points = np.array(level.gain, real) * points + np.array(level.shift, real)

        def sampled() -> Array:
            samples = summed(image, points_of(points, point_call, real), point_call, real)
            shares = footprints.share[:, np.newaxis]
            return total + jnp.where(exists[:, np.newaxis], samples, 0) * shares

        return jax.lax.cond(jnp.any(exists), sampled, lambda: total)

    return accumulate(add, total, samples_of(call), 1)


def indices_of(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """All indices along axes of some numbers of entries."""
    return list(itertools.product(*map(range, counts)))


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


def vote(image: Array, grid: Array, call: TracedCall) -> Array:
    """Return the label with the largest weight over all samples of each point.

    A round over all samples sums the weights of one label per point, and finds the point's next
    greater label.  There are as many rounds as a footprint has different labels, and one more.
    """
    plan, real, footprints = call.plan, real_type(call), footprints_of(grid, call)
    shape = output_shape(image, grid.shape[:-1])
    axes = [k for k, method in enumerate(plan.methods) if method.votes]
    neighbours = indices_of((2,) * len(axes))
    corners = [(*index, *upper) for index in samples_of(call) for upper in neighbours]
    margin = definitions.tie(plan.spatial, float(np.finfo(real).eps))
    margins = jnp.where(footprints.share < 1, margin, 0.0).astype(real)[:, np.newaxis]

    def ballot(index: Sequence[Any]) -> tuple[Array, Array]:
        """Return the labels of a neighbour of each sample, and their weights."""
        points, exists = coordinates(footprints, index)
        positions, share = positions_of(points, call), footprints.share * exists
        for k, upper in zip(axes, index[len(footprints.sides) :], strict=True):
            position, is_finite = positions[k], jnp.isfinite(positions[k])
            base = jnp.where(is_finite, jnp.floor(position), position)
            t = jnp.where(is_finite, position - base, 0)
            share = share * jnp.where(upper == 1, t, 1 - t)
            positions[k] = base + upper
        return labels_at(image, jnp.stack(positions, -1), call), share[:, np.newaxis]

    def weigh(label: Array | None) -> tuple[Array, Array, Array]:
        """The weights of labels, where there is a greater label, and the next greater one.

        If there are no labels, the last are the smallest ones.
        """

        def add(state: Any, index: Sequence[Any]) -> Any:
            total, has_next, next_label = state
            other, weight = ballot(index)
            is_greater = weight > 0
            if label is not None:
                total = total + jnp.where(other == label, weight, 0)
                is_greater = is_greater & (other > label)
            is_closer = is_greater & (~has_next | (other < next_label))
            return total, has_next | is_greater, jnp.where(is_closer, other, next_label)

        start = jnp.zeros(shape, real), jnp.zeros(shape, bool), jnp.zeros(shape, image.dtype)
        total, has_next, next_label = accumulate(add, start, corners, 1)
        return total, has_next, next_label

    return elect(weigh(None)[-1], weigh, shape, margins)


def labels_at(image: Array, positions: Array, call: TracedCall) -> Array:
    """Read the labels of pixels."""
    methods = tuple([METHODS["nearest"] if m.votes else m for m in call.plan.methods])
    plan = dataclasses.replace(call.plan, methods=methods, coords="pixel", ends=(), footprint=None)
    call = call._replace(plan=plan)
    return copied(image, points_of(positions, call, positions.dtype), call)


def positions_of(points: Array, call: TracedCall) -> list[Array]:
    """The positions of samples along each axis, x first; NaN where a sample has no taps."""
    positions, inside = [], jnp.ones((), bool)
    for k, axis in enumerate(axes_of(call)):
        position, axis_inside = unnormalize(points[..., k], axis)
        positions.append(position)
        inside = inside & axis_inside
    return [jnp.where(inside, position, jnp.nan) for position in positions]
