"""Grids of CUDA tensors on axes that have coordinates of their own, as positions in pixels.

The kernels take positions.  A search on the GPU finds the interval of each coordinate, in double
precision, and the derivatives of positions, which do not change within an interval, multiply those
with respect to positions.  So every operator is that of pixels, between two products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gridsample.definitions.axis import bound
from gridsample.definitions.caches import MAX_AXES_BYTES, cached_by_size
from gridsample.definitions.knots import Axes, Knots, interval_of
from gridsample.definitions.options import Options

formulas = bound(torch)


class InPixels(NamedTuple):
    """A grid in pixels.

    Attributes:
        grid: the positions (N, *out, D), float64.
        slopes: d position / d coordinate, of the same shape.
        options: the options for them.
    """

    grid: Tensor
    slopes: Tensor
    options: Options

    @classmethod
    def of(cls, grid: Tensor, spatial: Sequence[int], options: Options) -> InPixels:
        """Convert a grid, for an image (*spatial)."""
        assert isinstance(options.coords, Axes)
        columns = []
        for a, entry in enumerate(options.coords.entries):
            coordinate = grid.detach()[..., a].double()
            if isinstance(entry, Knots):
                found = locate(options.coords, a, coordinate)
                position = found.interval + found.fraction
                if options.ends and options.ends[a] == "centers":
                    # The position of a coordinate next to an end may be rounded to that of the end.
                    position = torch.where(found.outside, -1.0, position)
                columns.append((position, found.slope))
            elif entry == "normalized":
                last = torch.full_like(coordinate, spatial[-1 - a] - 1)
                known = last, options.align_corners
                columns.append((formulas.position(coordinate, *known), formulas.slope(*known)))
            else:
                columns.append((coordinate, torch.ones_like(coordinate)))
        positions, slopes = [torch.stack(part, -1) for part in zip(*columns, strict=True)]
        return cls(positions, slopes, options.changed(coords="pixel", plan=None))

    def scaled(self, values: Tensor) -> Tensor:
        """Multiply values (N, C, *out) by the slopes, as often as the order of the options says."""
        order = self.options.order
        if not any(order):
            return values
        factors = [self.slopes[..., a] ** n for a, n in enumerate(order) if n]
        return values * torch.stack(factors).prod(0)[:, None].to(values.real.dtype)

    def per_unit(self, gradient: Tensor, like: Tensor) -> Tensor:
        """Convert a gradient of positions, which may be empty, to that of a grid."""
        return (gradient * self.slopes if gradient.numel() else gradient).to(like.dtype)


@cached_by_size(MAX_AXES_BYTES, lambda knots: knots.numel() * knots.element_size())
def knots_on(axes: Axes, a: int, device: torch.device) -> Tensor:
    """Return the coordinates of an axis, increasing, on a device."""
    entry = axes.entries[a]
    assert isinstance(entry, Knots)
    sign = 1 if entry.scale > 0 else -1
    return torch.from_numpy(sign * entry.coordinates).to(device)


class Located(NamedTuple):
    """Where coordinates are along an axis.

    Attributes:
        interval: the number of the interval.
        fraction: that of the interval; below 0 or above 1 outside.
        slope: intervals per unit of the coordinates.
        outside: whether they are beyond the first or the last coordinate of the axis.
    """

    interval: Tensor
    fraction: Tensor
    slope: Tensor
    outside: Tensor


def locate(axes: Axes, a: int, coordinate: Tensor) -> Located:
    """Find coordinates, float64, among those of an axis."""
    entry, knots = axes.entries[a], knots_on(axes, a, coordinate.device)
    assert isinstance(entry, Knots)
    sign = 1 if entry.scale > 0 else -1
    sought = (coordinate * sign).contiguous()
    outside = (sought < knots[0]) | (sought > knots[-1])
    if entry.is_even:
        position = (coordinate - float(entry.coordinates[0])) * entry.scale
        zero = torch.zeros_like(coordinate)
        return Located(zero, position, torch.full_like(coordinate, entry.scale), outside)
    interval = interval_of(torch, knots, sought)
    left, right = knots[interval], knots[interval + 1]
    return Located(interval, (sought - left) / (right - left), sign / (right - left), outside)
