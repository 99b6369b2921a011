"""Splines on the knots of axes, of CUDA tensors, composed of torch's own operations.

A search finds the interval of each coordinate, whose B-splines are polynomials in the fraction of
the interval; see `gridsample.definitions.knots.SplineKnots`.  Each of the taps is gathered, or
added to, in one operation for all points.  The operators are sums of these two, as in
`gridsample.kernels.sampling.programs.operations`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch.cuda_axes import Located, locate
from gridsample.backends.torch.operators import Maybe, gathered_type
from gridsample.definitions.caches import MAX_AXES_BYTES, cached_by_size
from gridsample.definitions.knots import Axes, SplineKnots
from gridsample.definitions.options import Options

Order = tuple[int, ...]


def samples_splines(options: Options) -> bool:
    """Whether axes have the knots of splines."""
    entries = options.coords.entries if isinstance(options.coords, Axes) else ()
    return any(isinstance(entry, SplineKnots) for entry in entries)


@cached_by_size(MAX_AXES_BYTES, lambda weights: weights.numel() * weights.element_size())
def weights_on(axes: Axes, a: int, device: torch.device) -> Tensor:
    """Return the B-splines on each interval of an axis, (intervals, taps, powers), on a device."""
    entry = axes.entries[a]
    assert isinstance(entry, SplineKnots)
    return torch.from_numpy(entry.weights).to(device)


class SplinePoints(NamedTuple):
    """Points among the knots of axes, x first.

    Attributes:
        axes: the axes.
        located: where the points (N, P) are along each axis; those without taps, anywhere.
        valid: which points have taps, (N, P): neither NaN nor outside.
        outside: which points have the fill value.
        order: the order of the derivative along each axis.
        fill: the fill value, as in `Options`.
        out: the shape of the output, without N and C.
    """

    axes: Axes
    located: Sequence[Located]
    valid: Tensor
    outside: Tensor
    order: Order
    fill: Sequence[float]
    out: tuple[int, ...]

    @classmethod
    def of(cls, grid: Tensor, options: Options) -> SplinePoints:
        """Find the points of a grid (N, *out, D).

        Raises:
            ValueError: splines are along some axes only.
        """
        axes = options.coords
        assert isinstance(axes, Axes)
        if not all(isinstance(entry, SplineKnots) for entry in axes.entries):
            raise ValueError(
                "splines on knots along some axes, and other methods along others, are not "
                "accepted on a GPU; move the table and the points to the CPU"
            )
        located, known, outside = list[Located](), list[Tensor](), list[Tensor]()
        for a, end in enumerate(options.ends):
            coordinate = grid.detach()[..., a].double().flatten(1)
            located.append(locate(axes, a, coordinate))
            known.append(coordinate == coordinate)
            outside.append(located[-1].outside & (end == "centers"))
        valid = functools.reduce(operator.and_, known)
        beyond = functools.reduce(operator.or_, outside) & valid
        valid &= ~beyond
        located = [
            along._replace(fraction=torch.where(valid, along.fraction, 0)) for along in located
        ]
        order, fill = tuple(options.order), options.fill_value
        return cls(axes, located, valid, beyond, order, fill, tuple(grid.shape[1:-1]))

    def raised(self, *axes: int) -> Order:
        """Return the order, raised by one along each of some axes."""
        return tuple([n + axes.count(a) for a, n in enumerate(self.order)])

    def weights(self, a: int, order: int) -> Tensor:
        """Return the weights of taps along an axis, or their derivatives: (taps, N, P)."""
        interval, t, slope, _ = self.located[a]
        table = weights_on(self.axes, a, t.device)[interval]  # (N, P, taps, powers)
        total = torch.zeros_like(table[..., 0])
        for power in reversed(range(order, table.shape[-1])):
            total = total * t[..., None] + table[..., power] * math.perm(power, order)
        return (total * slope[..., None] ** order).movedim(-1, 0)

    def taps(self, size: Sequence[int], order: Order) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the place of each tap in a plane of an image (*size), and its weight: (N, P)."""
        columns = [self.weights(a, n) for a, n in enumerate(order)]
        strides = [math.prod(size[len(size) - a :]) for a in range(len(size))]
        first = torch.zeros_like(self.located[0].interval)
        for stride, (interval, *_) in zip(strides, self.located, strict=True):
            first = first + interval * stride
        for numbers in itertools.product(*[range(len(column)) for column in columns]):
            offset = sum(map(operator.mul, numbers, strides))
            chosen = [column[k] for column, k in zip(columns, numbers, strict=True)]
            yield first + offset, functools.reduce(operator.mul, chosen)

    def gather(self, image: Tensor, order: Order) -> Tensor:
        """Sum the taps of an image (N, C, *size): (N, C, P)."""
        pixels = image.detach().flatten(2)
        total: Tensor = torch.zeros((), device=image.device)
        for place, weight in self.taps(image.shape[2:], order):
            items = max(len(pixels), len(place))
            index = place[:, None].expand(items, pixels.shape[1], -1)
            total = total + weight[:, None] * pixels.expand(items, -1, -1).gather(2, index)
        return total

    def scatter(self, values: Tensor, size: Sequence[int], order: Order) -> Tensor:
        """Add values (N, C, P) to the taps of an image of a size (N, C, *spatial)."""
        values = torch.where(self.valid[:, None], values, 0)
        shape = len(values), values.shape[1], math.prod(size[2:])
        wide = torch.promote_types(values.dtype, torch.float64)
        total = torch.zeros(shape, dtype=wide, device=values.device)
        for place, weight in self.taps(size[2:], order):
            total.scatter_add_(2, place[:, None].expand_as(values), weight[:, None] * values)
        if size[0] == 1 < len(values):
            total = total.sum(0, keepdim=True)
        return total.reshape(tuple(size))

    def slopes(self, values: Tensor, sums: Sequence[Tensor]) -> Tensor:
        """Return the gradient of a grid, given the sums along each axis: (N, *out, D)."""
        columns = [(values.conj() * total).real.sum(1) for total in sums]
        gradient = torch.where(self.valid[..., None], torch.stack(columns, -1), 0)
        return gradient.reshape(*gradient.shape[:1], *self.out, -1)

    def filled(self, samples: Tensor) -> Tensor:
        """Return samples (N, C, P) with the fill value outside, and NaN; derivatives are 0."""
        if any(self.order):
            return torch.where(self.valid[:, None], samples, 0)
        fill = torch.zeros(1, dtype=samples.dtype, device=samples.device)
        if self.fill:
            numbers = torch.tensor(self.fill, dtype=samples.real.dtype, device=samples.device)
            is_complex = samples.is_complex()
            fill = torch.view_as_complex(numbers.view(-1, 2)) if is_complex else numbers
        samples = torch.where(self.valid[:, None], samples, torch.nan)
        return torch.where(self.outside[:, None], fill[:, None], samples)


def gather(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Compute gather."""
    points = SplinePoints.of(grid, options)
    samples = points.filled(points.gather(image, points.order))
    dtype = gathered_type(image.dtype, grid.dtype, options.order)
    return samples.to(dtype).reshape(*samples.shape[:2], *points.out)


def scatter(values: Tensor, grid: Tensor, size: Sequence[int], options: Options) -> Tensor:
    """Compute scatter."""
    points = SplinePoints.of(grid, options)
    return points.scatter(values.detach().flatten(2), size, points.order).to(values.dtype)


def backward(
    values: Tensor, image: Tensor, grid: Tensor, needed: Needed, options: Options
) -> tuple[Tensor, Tensor]:
    """Compute the needed gradients of gather; others are empty."""
    points, values = SplinePoints.of(grid, options), values.detach().flatten(2)
    first, second = image.new_empty(0), grid.new_empty(0)
    if needed[0]:
        first = points.scatter(values, image.shape, points.order).to(image.dtype)
    if needed[1]:
        sums = [points.gather(image, points.raised(a)) for a in range(grid.shape[-1])]
        second = points.slopes(values, sums).to(grid.dtype)
    return first, second


def double_backward(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe, by_grid: Maybe, needed: Needed,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the needed gradients of backward; others are empty."""
    points, flat = SplinePoints.of(grid, options), values.detach().flatten(2)
    axes, tangents = range(grid.shape[-1]), list[Tensor]()
    if by_grid is not None:
        tangents = [by_grid.detach()[..., a].flatten(1).double()[:, None] for a in axes]

    def directional(*raised: int) -> Tensor:
        """Return (tap sum of u) + sum over a of d_a * (tap sum of v with a raised)."""
        total = torch.zeros_like(flat, dtype=torch.promote_types(flat.dtype, torch.float64))
        if by_image is not None:
            total = total + points.gather(by_image, points.raised(*raised))
        for a, tangent in enumerate(tangents):
            total = total + tangent * points.gather(image, points.raised(a, *raised))
        return total

    first, second, third = values.new_empty(0), image.new_empty(0), grid.new_empty(0)
    if needed[0]:
        sums = torch.where(points.valid[:, None], directional(), 0)
        first = sums.to(values.dtype).reshape(values.shape)
    if needed[1]:
        total = torch.zeros_like(image)
        for a, tangent in enumerate(tangents):
            total = total + points.scatter(flat * tangent, image.shape, points.raised(a))
        second = total.to(image.dtype)
    if needed[2]:
        third = points.slopes(flat, [directional(b) for b in axes]).to(grid.dtype)
    return first, second, third
