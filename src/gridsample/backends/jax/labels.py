"""Votes of labels on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gridsample.backends.jax.taps import (
    Array,
    TracedCall,
    fill_of,
    points_of,
    read,
    real_type,
    row_of,
    rows_of,
)


def vote(image: Array, grid: Array, call: TracedCall) -> Array:
    """Return the label with the largest weight among the taps of each point: (N, C, *out)."""
    points, fill = points_of(grid, call, real_type(call)), fill_of(call, image.dtype)
    dropped = fill if call.plan.filled else jnp.zeros_like(fill)
    ballots = []
    for numbers in rows_of(points):
        for pixels, kept, weights in row_of(points, numbers):
            label = jnp.where(kept[:, jnp.newaxis], read(image, pixels), dropped)
            ballots.append((label, weights[:, jnp.newaxis]))
    winner = ballots[0][0]
    highest = weight_of(winner, ballots)
    for label, _ in ballots[1:]:
        total = weight_of(label, ballots)
        wins = (total > highest) | ((total == highest) & (label < winner))
        winner, highest = jnp.where(wins, label, winner), jnp.where(wins, total, highest)
    return jnp.where((points.valid & points.inside)[:, jnp.newaxis], winner, fill)


def weight_of(label: Array, ballots: Sequence[tuple[Array, Array]]) -> Array:
    """Sum the weights of a label, in the order of taps so that equal sums have equal bits."""
    total: Any = 0
    for other, weight in ballots:
        total = total + jnp.where(other == label, weight, 0)
    return total


def elect(
    first: Array,
    weigh: Callable[[Array], tuple[Array, Array, Array]],
    shape: Sequence[int],
    margin: Array,
) -> Array:
    """Weigh labels one after the other, from the smallest; return the one with the largest weight.

    Args:
        first: the smallest labels.
        weigh: a function of labels that returns their weights, where there is a greater label, and
            the next greater one.
        shape: the shape of the result.
        margin: how much more than that of a smaller label a weight must be.
    """

    def step(state: Any) -> Any:
        label, winner, highest, _ = state
        weight, has_next, next_label = weigh(label)
        wins = weight > highest + margin
        return (
            jnp.where(has_next, next_label, label),
            jnp.where(wins, label, winner),
            jnp.where(wins, weight, highest),
            jnp.any(has_next),
        )

    winner, highest = jnp.broadcast_to(first, shape), jnp.full(shape, -1, margin.dtype)
    state = first, winner, highest, jnp.ones((), bool)
    elected: Array = jax.lax.while_loop(lambda state: state[-1], step, state)[1]
    return elected
