"""Sums whose rounding does not depend on the number of threads, nor does that of their derivatives.

`torch.sum` of many numbers to a single one adds one part for each thread.  A sum along the last
axis has many results, each of which one thread computes.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROW = 4096
"""Axes that are longer are summed in rows of this length; `torch.sum` uses threads above 32768."""


def total(values: Tensor, axes: int | None = None) -> Tensor:
    """Sum a tensor along its last axes, by default along all of them."""
    for _ in range(values.ndim if axes is None else axes):
        values = values.contiguous()
        if values.shape[-1] > _ROW:
            padded = torch.nn.functional.pad(values, (0, -values.shape[-1] % _ROW))
            values = padded.reshape(*values.shape[:-1], -1, _ROW).sum(-1)
        values = values.sum(-1)
    return values


def broadcast(values: Tensor, like: Tensor) -> Tensor:
    """Expand a tensor with axes of length 1 to the shape of another one.

    The derivative is a sum along one axis after the other, the last one first.
    """
    for axis, n in enumerate(like.shape):
        shape = [-1] * like.ndim
        shape[axis] = n
        values = values.expand(shape)
    return values
