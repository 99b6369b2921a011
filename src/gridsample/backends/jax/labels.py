"""Votes of labels on JAX arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from gridsample.backends.jax.taps import (
    Array,
    Call,
    fills_of,
    points_of,
    read,
    real_type,
    row_of,
    rows_of,
)


def vote(image: Array, grid: Array, call: Call) -> Array:
    """Return the label with the largest weight among the taps of each point: (N, C, *out)."""
    points, fill = points_of(grid, call, real_type(call)), fills_of(call, image.dtype)
    dropped = fill if call.plan.filled else jnp.zeros_like(fill)
    ballots = []
    for places in rows_of(points):
        row = row_of(points, places)
        pixels = read(image, row.pixels)
        for k in range(pixels.shape[-1]):
            label = jnp.where(row.kept[:, jnp.newaxis, ..., k], pixels[..., k], dropped)
            ballots.append((label, row.weights[:, jnp.newaxis, ..., k]))
    winner = ballots[0][0]
    most = weight_of(winner, ballots)
    for label, _ in ballots[1:]:
        total = weight_of(label, ballots)
        wins = (total > most) | ((total == most) & (label < winner))
        winner, most = jnp.where(wins, label, winner), jnp.where(wins, total, most)
    return jnp.where((points.valid & points.within)[:, jnp.newaxis], winner, fill)


def weight_of(label: Array, ballots: Sequence[tuple[Array, Array]]) -> Array:
    """Sum the weights of a label, in the order of taps so that equal sums have equal bits."""
    total: Any = 0
    for other, weight in ballots:
        total = total + jnp.where(other == label, weight, 0)
    return total
