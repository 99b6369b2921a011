"""`torch.vmap` over the operators: one more axis, which need not be looped over.

The operands get two axes before all others, (B, N, ...): the batch that vmap adds, and the items.
The kernels have one, so the two are made one, in the way that costs least:

    an axis along which the grid is the same joins the channels, so that taps are found once;
    one along which the image is the same joins the points;
    otherwise both together become the items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.bindings.torch.operators import LIBRARY, backward, gather, scatter

CHANNELS, POINTS, ITEMS = "channels", "points", "items"


def to_front(tensor: Tensor, axis: int | None) -> Tensor:
    """The batch as the first axis, of length 1 where all of it shares the tensor."""
    return tensor.unsqueeze(0) if axis is None else tensor.movedim(axis, 0)


def spread(tensor: Tensor, batch: int) -> Tensor:
    """The batch at its full length; no memory is taken."""
    return tensor.expand(batch, *tensor.shape[1:])


class Join(NamedTuple):
    """How the two leading axes become one: ``axis`` joins ``into`` something, the other stays."""

    axis: int
    into: str
    lengths: tuple[int, int]

    def planes(self, image: Tensor) -> Tensor:
        """An image (B, N, C, *spatial), or its gradient's size, as the kernels take it."""
        if self.into == CHANNELS:
            return image.movedim(self.axis, 1).flatten(1, 2)
        return image.squeeze(self.axis) if self.into == POINTS else image.flatten(0, 1)

    def grid(self, grid: Tensor) -> Tensor:
        """A grid (B, N, *out, D)."""
        if self.into == CHANNELS:
            return grid.squeeze(self.axis)
        return grid.movedim(self.axis, 1) if self.into == POINTS else grid.flatten(0, 1)

    def values(self, values: Tensor) -> Tensor:
        """Values (B, N, C, *out)."""
        if self.into == POINTS:
            return values.movedim(self.axis, 2)
        return self.planes(values)

    def planes_back(self, image: Tensor) -> Tensor:
        """The inverse of planes."""
        if self.into == CHANNELS:
            n = self.lengths[self.axis]
            return image.unflatten(1, (n, image.shape[1] // n)).movedim(1, self.axis)
        if self.into == POINTS:
            return image.unsqueeze(self.axis)
        return image.unflatten(0, self.lengths)

    def grid_back(self, grid: Tensor) -> Tensor:
        """The inverse of grid."""
        if self.into == CHANNELS:
            return grid.unsqueeze(self.axis)
        return grid.movedim(1, self.axis) if self.into == POINTS else grid.unflatten(0, self.lengths)

    def values_back(self, values: Tensor) -> Tensor:
        """The inverse of values."""
        if self.into == POINTS:
            return values.movedim(2, self.axis)
        return self.planes_back(values)


def find_join(image: Sequence[int], grid: Sequence[int]) -> Join:
    """The best join for an image and a grid of shapes (B or 1, N or 1, ...)."""
    lengths = (max(image[0], grid[0]), max(image[1], grid[1]))
    for axis in (0, 1):
        if grid[axis] == 1:
            return Join(axis, CHANNELS, lengths)
        if image[axis] == 1:
            return Join(axis, POINTS, lengths)
    return Join(0, ITEMS, lengths)
