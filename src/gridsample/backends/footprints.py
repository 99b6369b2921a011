"""The footprints of a grid's points, for any array library: their sides, and how they are sampled.

The functions take the library's namespace, ``xp``.  What they compute can be differentiated.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from gridsample.backends.base import Array, concatenate
from gridsample.definitions.axis import bound
from gridsample.definitions.footprints import SLACK


def neighbour(xp: Any, array: Array, axis: int, step: int, fill: Any) -> Array:
    """The entry of each point's neighbour along an axis, or ``fill`` where there is none.

    step: -1 for the point before, 1 for the point after.
    """
    before = (slice(None),) * axis
    edge = xp.full_like(array[(*before, slice(1))], fill)
    if step > 0:
        return concatenate(xp, [array[(*before, slice(1, None))], edge], axis)
    return concatenate(xp, [edge, array[(*before, slice(-1))]], axis)


class Neighbours:
    """The neighbours of a grid's points (N, *out, D) along the last D axes of out.

    Neighbours with a coordinate that is not finite are ignored, and such a point has no neighbours.

    Attributes:
        before: for each of the axes, whether there is a point before, (N, *out, 1).
        after: for each of the axes, whether there is a point after, (N, *out, 1).
    """

    def __init__(self, xp: Any, grid: Array) -> None:
        self.xp, self.rank = xp, grid.shape[-1]
        coordinates = [xp.isfinite(grid[..., d : d + 1]) for d in range(self.rank)]
        finite = functools.reduce(operator.and_, coordinates)
        self.before, self.after = (
            [finite & self.neighbour(finite, k, step, False) for k in range(self.rank)]
            for step in (-1, 1)
        )

    def neighbour(self, array: Array, k: int, step: int, fill: Any) -> Array:
        """Return `neighbour` along axis ``k`` of the last axes of out."""
        return neighbour(self.xp, array, array.ndim - 1 - self.rank + k, step, fill)

    def halved(self, steps: Array, k: int) -> Array:
        """Divide differences by 2 where there are neighbours on both sides."""
        return self.xp.where(self.before[k] & self.after[k], 0.5 * steps, steps)

    def difference(self, grid: Array, k: int) -> Array:
        """The difference of a grid along axis ``k``: central, or one-sided, or 0."""
        after = self.xp.where(self.after[k], self.neighbour(grid, k, 1, 0), grid)
        before = self.xp.where(self.before[k], self.neighbour(grid, k, -1, 0), grid)
        steps = self.xp.where(self.before[k] | self.after[k], after - before, 0)
        return self.halved(steps, k)

    def difference_vjp(self, upstream: Array, k: int) -> Array:
        """Apply the transpose of `difference`."""
        xp, upstream = self.xp, self.halved(upstream, k)
        up, down = (xp.where(exists[k], upstream, 0) for exists in (self.after, self.before))
        # A difference without one of the neighbours contains the point itself.
        at_point = xp.where(self.after[k], 0, down) - xp.where(self.before[k], 0, up)
        return self.neighbour(up, k, -1, 0) - self.neighbour(down, k, 1, 0) + at_point

    def sides(
        self, grid: Array, displaced: bool, periods: Sequence[float | None] = ()
    ) -> list[Array]:
        """The sides of footprints along each axis.

        displaced: whether the grid holds displacements, to which the steps from pixel to pixel are
            added.
        periods: those of coordinates; see `gridsample.definitions.footprints.periods`.
        """
        sides = [self.difference(grid, k) for k in range(self.rank)]
        for k in range(self.rank):
            if any(period is not None for period in periods):
                sides[k] = sides[k] - self.halved(self.seams(grid, k, displaced, periods), k)
            if not displaced:
                continue
            apart = self.before[k] | self.after[k]
            pixel = self.xp.where(apart, self.xp.ones_like(grid[..., :1]), 0)
            axes = [pixel if d == self.rank - 1 - k else 0 * pixel for d in range(self.rank)]
            sides[k] = sides[k] + concatenate(self.xp, axes, -1)
        return sides

    def seams(self, grid: Array, k: int, displaced: bool, periods: Sequence[float | None]) -> Array:
        """The whole periods in the sum of both steps along axis ``k``, in units of coordinates."""
        xp, formulas = self.xp, bound(self.xp)
        back = xp.where(self.before[k], grid - self.neighbour(grid, k, -1, 0), 0)
        ahead = xp.where(self.after[k], self.neighbour(grid, k, 1, 0) - grid, 0)
        axes = []
        for d, period in enumerate(periods):
            steps = [step[..., d : d + 1] for step in (back, ahead)]
            if displaced and d == self.rank - 1 - k:
                exist = self.before[k], self.after[k]
                steps = [xp.where(e, step + 1, 0) for e, step in zip(exist, steps, strict=True)]
            none = xp.zeros_like(steps[0])
            axes.append(none if period is None else formulas.turns(*steps, period) * period)
        return concatenate(xp, axes, -1)


def measure(
    xp: Any, sides: Sequence[Array], pixels_per_unit: Sequence[float], most: int, deepest: int
) -> tuple[list[Array], Array, list[Array]]:
    """Return the lengths of sides in pixels, how often to halve the image, and sample counts.

    Args:
        xp: the namespace.
        sides: the sides, (N, *out, D).
        pixels_per_unit: the number of pixels in a unit of each coordinate.
        most: the maximum number of samples along a side.
        deepest: how often the image may be halved.

    Returns:
        (lengths, levels, counts): each (N, *out), in the dtype of the sides; lengths and counts for
        each side.
    """
    lengths = []
    for side in sides:
        squares = [(side[..., d] * n) ** 2 for d, n in enumerate(pixels_per_unit)]
        lengths.append(xp.sqrt(functools.reduce(operator.add, squares)))
    longest = functools.reduce(xp.maximum, lengths)
    level, scale = xp.zeros_like(longest), xp.ones_like(longest)
    for n in range(deepest):
        is_long = longest * 0.5**n - SLACK > most
        level, scale = level + is_long, xp.where(is_long, 0.5 * scale, scale)
    return lengths, level, [xp.clip(xp.ceil(n * scale - SLACK), 1, most) for n in lengths]
