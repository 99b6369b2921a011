"""`torch.vmap` over the operators: an additional axis, handled without a loop.

The operands have two leading axes, (B, N, ...): the batch that vmap adds, and the items.  The
kernels have only one, so the two are merged in the cheapest way:

    an axis along which the grid is constant joins the channels, so that taps are computed once;
    an axis along which the image is constant joins the points;
    otherwise, both together become the items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch.operators import LIBRARY, backward, gather, scatter
from gridsample.backends.torch.schemas import as_operator, flat_options, operator_arguments
from gridsample.definitions.options import Options

CHANNELS, POINTS, ITEMS = "channels", "points", "items"


def to_front(tensor: Tensor, axis: int | None) -> Tensor:
    """Move the batch axis to the front; it has length 1 if the whole batch shares the tensor."""
    return tensor.unsqueeze(0) if axis is None else tensor.movedim(axis, 0)


def expand_batch(tensor: Tensor, batch: int) -> Tensor:
    """Expand the batch axis to its full length, without allocating memory."""
    return tensor.expand(batch, *tensor.shape[1:])


class Join(NamedTuple):
    """How the two leading axes, of the given lengths, are merged.

    ``axis`` joins the channels, points or items (``into``), and the other axis stays.
    """

    axis: int
    into: str
    lengths: tuple[int, int]
    channels: int

    def planes(self, image: Tensor) -> Tensor:
        """Merge the axes of an image (B, N, C, *spatial)."""
        if self.into == CHANNELS:
            return image.movedim(self.axis, 1).flatten(1, 2)
        return image.squeeze(self.axis) if self.into == POINTS else image.flatten(0, 1)

    def size(self, size: Sequence[int]) -> tuple[int, ...]:
        """The shape of an image after `planes`."""
        batch, items, channels, *spatial = size
        stays, joins = (batch, items) if self.axis else (items, batch)
        if self.into == CHANNELS:
            return (stays, joins * channels, *spatial)
        return (stays if self.into == POINTS else batch * items, channels, *spatial)

    def grid(self, grid: Tensor) -> Tensor:
        """Merge the axes of a grid (B, N, *out, D)."""
        if self.into == CHANNELS:
            return grid.squeeze(self.axis)
        return grid.movedim(self.axis, 1) if self.into == POINTS else grid.flatten(0, 1)

    def values(self, values: Tensor) -> Tensor:
        """Merge the axes of values (B, N, C, *out)."""
        if self.into == POINTS:
            return values.movedim(self.axis, 2)
        return self.planes(values)

    def restore_planes(self, image: Tensor) -> Tensor:
        """Invert `planes`."""
        if self.into == CHANNELS:
            lengths = (self.lengths[self.axis], self.channels)
            return torch.unflatten(image, 1, lengths).movedim(1, self.axis)
        if self.into == POINTS:
            return image.unsqueeze(self.axis)
        return torch.unflatten(image, 0, self.lengths)

    def restore_grid(self, grid: Tensor) -> Tensor:
        """Invert `grid`."""
        if self.into == CHANNELS:
            return grid.unsqueeze(self.axis)
        if self.into == POINTS:
            return grid.movedim(1, self.axis)
        return torch.unflatten(grid, 0, self.lengths)

    def options(self, options: Options, is_complex: bool) -> Options:
        """Return the options, with a fill value per channel repeated for the new channels."""
        each = len(options.fill_value) > 1 + is_complex
        return options.changed(fill_value=options.fill_value * self.joined) if each else options

    @property
    def joined(self) -> int:
        """The number of images whose channels are merged."""
        return self.lengths[self.axis] if self.into == CHANNELS else 1

    def restore_values(self, values: Tensor) -> Tensor:
        """Invert `values`."""
        if self.into == POINTS:
            return values.movedim(2, self.axis)
        return self.restore_planes(values)


def find_join(image: Sequence[int], grid: Sequence[int]) -> Join:
    """Find the cheapest join for an image and a grid of shapes (B or 1, N or 1, C or *out, ...)."""
    batch, items = (g if i == 1 else i for i, g in zip(image[:2], grid[:2], strict=True))
    for axis in (0, 1):
        if grid[axis] == 1:
            return Join(axis, CHANNELS, (batch, items), image[2])
        if image[axis] == 1:
            return Join(axis, POINTS, (batch, items), image[2])
    return Join(0, ITEMS, (batch, items), image[2])


def batched_gather(info: Any, axes: Any, image: Tensor, grid: Tensor, options: Options) -> Any:
    """Gather a batch."""
    image, grid = to_front(image, axes[0]), to_front(grid, axes[1])
    join = find_join(image.shape, grid.shape)
    options = join.options(options, image.is_complex())
    return join.restore_values(
        gather(join.planes(image), join.grid(grid), *flat_options(options))
    ), 0


def batched_scatter(
    info: Any, axes: Any, values: Tensor, grid: Tensor, size: Sequence[int], options: Options
) -> Any:
    """Scatter a batch."""
    values, grid = expand_batch(to_front(values, axes[0]), info.batch_size), to_front(grid, axes[1])
    full_size = (info.batch_size, *size)
    join = find_join(full_size, grid.shape)
    image = scatter(
        join.values(values), join.grid(grid), join.size(full_size), *flat_options(options)
    )
    return join.restore_planes(image), 0


def batched_backward(
    info: Any,
    axes: Any,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    needed: Needed,
    options: Options,
) -> Any:
    """Compute both gradients of a batch.

    A tensor that the whole batch shares also has one gradient per element.
    """
    image, (need_input, need_grid) = to_front(image, axes[1]), needed
    if not need_grid:
        grad_image, _ = batched_scatter(
            info, (axes[0], axes[2]), values, grid, image.shape[1:], options
        )
        return (grad_image.to(image.dtype), values.new_empty(0)), (0, None)
    image = expand_batch(image, info.batch_size) if need_input else image
    values, grid = (
        expand_batch(to_front(tensor, axis), info.batch_size)
        for tensor, axis in ((values, axes[0]), (grid, axes[2]))
    )
    join = find_join(image.shape, grid.shape)
    tensors = join.values(values), join.planes(image), join.grid(grid)
    options = join.options(options, image.is_complex())
    grad_image, gradient = backward(*operator_arguments("backward", *tensors, needed, options))
    if not need_input:
        return (grad_image, join.restore_grid(gradient)), (None, 0)
    return (join.restore_planes(grad_image), join.restore_grid(gradient)), (0, 0)


for name, rule in (
    ("gather", batched_gather),
    ("scatter", batched_scatter),
    ("backward", batched_backward),
):
    torch.library.register_vmap(f"gridsample::{name}", as_operator(name, rule, more=2), lib=LIBRARY)
