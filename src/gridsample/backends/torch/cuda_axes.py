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
from gridsample.definitions.knots import Axes, Knots, SplineKnots
from gridsample.definitions.options import Options
from gridsample.definitions.shapes import axis_name

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
        """Convert a grid, for an image (*spatial).

        Raises:
            ValueError: splines are sampled.
        """
        assert isinstance(options.coords, Axes)
        columns = []
        for a, entry in enumerate(options.coords.entries):
            coordinate = grid.detach()[..., a].double()
            if isinstance(entry, SplineKnots):
                raise ValueError(
                    f"splines of degree {entry.degree} on knots, along {axis_name(a)}, have no GPU "
                    "kernel; move the table and the points to the CPU"
                )
            if isinstance(entry, Knots):
                ends = options.ends and options.ends[a] == "centers"
                columns.append(positions_along(options.coords, a, coordinate, bool(ends)))
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


def positions_along(axes: Axes, a: int, coordinate: Tensor, ends: bool) -> tuple[Tensor, Tensor]:
    """Return the positions of coordinates along an axis, and their derivatives.

    ends: whether the axis ends at its first and its last coordinate, so that the position of every
        other coordinate outside must be outside, although it may be rounded.
    """
    entry, knots = axes.entries[a], knots_on(axes, a, coordinate.device)
    assert isinstance(entry, Knots)
    if entry.is_even:
        position = (coordinate - float(entry.coordinates[0])) * entry.scale
        slope = torch.full_like(coordinate, entry.scale)
    else:
        sign = 1 if entry.scale > 0 else -1
        sought = coordinate * sign
        interval = torch.searchsorted(knots, sought.contiguous(), right=True) - 1
        interval = interval.clamp(0, entry.size - 2)
        left, right = knots[interval], knots[interval + 1]
        position = interval + (sought - left) / (right - left)
        slope = sign / (right - left)
    if ends:
        least, greatest = sorted((float(entry.coordinates[0]), float(entry.coordinates[-1])))
        outside = (coordinate < least) | (coordinate > greatest)
        position = torch.where(outside, -1.0, position)
    return position, slope
