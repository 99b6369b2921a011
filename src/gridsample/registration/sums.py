"""Sums whose rounding does not depend on the number of threads.

`torch.sum` of a whole tensor adds one part for each thread.  A sum along the last axis has many
results, each of which one thread computes.
"""

from __future__ import annotations

from torch import Tensor


def total(values: Tensor, axes: int | None = None) -> Tensor:
    """Sum a tensor along its last axes, by default along all of them."""
    for _ in range(values.ndim if axes is None else axes):
        values = values.contiguous().sum(-1)
    return values
