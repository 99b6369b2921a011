"""Footprints of tensors: derivatives of higher order, one sample of all points at a time.

The samples of all points with the same place in their footprints form a grid.  There are as many
such grids as the largest footprint has samples.  Memory is therefore that of a few grids and
outputs, but everything is read several times.  The kernels (`gridsample.kernels.gpu.footprints`,
`gridsample.kernels.sampling.antialiasing`) make no such grids, but only the CPU's compute second
derivatives.  Those of GPUs, forward-mode derivatives and transforms are computed here; every
function can be differentiated if plain sampling can.

Labels are counted one label at a time (`vote`), again without arrays of all samples.

`HalvedImage`, and the gradient of a grid from those of sides, serve the GPU kernels, too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.backends.footprints import Neighbours, measure
from gridsample.backends.torch import internals
from gridsample.definitions import footprints as definitions
from gridsample.definitions.axis import bound
from gridsample.definitions.coords import MARGINS
from gridsample.definitions.labels import has_labels, without_labels
from gridsample.definitions.options import Options

Maybe = Tensor | None
Size = Sequence[Any]
# The formulas of one axis, over torch.
AXIS = bound(torch)


class FootprintSample(NamedTuple):
    """One sample of every point.

    Attributes:
        level: how often the image is halved.
        spatial: the spatial shape of that image.
        options: the options of plain sampling.
        grid: the coordinates, (N, *out, D).
        exists: whether the point has this sample, (N, *out).
        share: one divided by the number of samples of the point, (N, *out).
        along: the place in the footprint along each side, from -1/2 to 1/2, (N, *out, 1).
        gain: the factor of coordinates, (D,).
    """

    level: int
    spatial: Sequence[int]
    options: Options
    grid: Tensor
    exists: Tensor
    share: Tensor
    along: Sequence[Tensor]
    gain: Tensor

    def values(self, values: Tensor) -> Tensor:
        """Each point's share of values (N, C, *out); 0 for points without the sample."""
        present = torch.where(self.exists.unsqueeze(1), values, 0)
        return present * self.share.unsqueeze(1).to(present.real.dtype)


class TensorFootprints(Neighbours):
    """The footprints of a grid's points.

    The grid may have more axes between its first and last than the image; they come first, and
    footprints do not extend along them.
    """

    def __init__(self, grid: Tensor, spatial: Sequence[int], options: Options) -> None:
        """Find each point's neighbours, its level, and the numbers of its samples."""
        assert options.footprint is not None
        self.options, self.spatial = options, tuple(spatial)
        self.grid = grid if grid.dtype == torch.float64 else grid.float()
        super().__init__(torch, self.grid)
        displaced = options.coords == "displacement"
        self.indices_grid = self.indices() if displaced else None
        units = self.spatial, options.coords, options.align_corners
        periods = definitions.periods(*units, options.padding_mode)
        self.side_vectors = self.sides(self.grid, displaced, periods)
        self.count([side.detach() for side in self.side_vectors])

    def indices(self) -> Tensor:
        """The indices of the output points, x first: (*out, D)."""
        lines = [
            torch.arange(self.grid.shape[a], dtype=self.grid.dtype, device=self.grid.device)
            for a in range(self.grid.ndim - 1 - self.rank, self.grid.ndim - 1)
        ]
        return torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], -1)

    def count(self, sides: Sequence[Tensor]) -> None:
        """Find the levels and the numbers of samples, all (N, *out, 1)."""
        options, footprint = self.options, self.options.footprint
        assert footprint is not None
        most = footprint.max_samples
        unit = definitions.pixels_per_unit(self.spatial, options.coords, options.align_corners)
        # Labels are never halved.
        deepest = 0 if has_labels(options.mode) else definitions.deepest(self.spatial)
        _, level, counts = measure(torch, sides, unit, most, deepest)
        self.level, self.counts = level.unsqueeze(-1), [n.unsqueeze(-1) for n in counts]
        self.share = 1 / functools.reduce(torch.mul, self.counts)
        # Without the values, all that is possible.
        self.largest, self.deepest = [most] * self.rank, deepest
        known = type(self.grid) is Tensor and not internals.is_observed()
        if known and self.grid.numel():
            self.largest = [int(n.max()) for n in self.counts]
            self.deepest = int(self.level.max())

    def samples(self) -> Iterator[FootprintSample]:
        """Yield the samples of all points, level by level."""
        options, base = (
            self.options,
            self.grid if self.indices_grid is None else self.grid + self.indices_grid,
        )
        levels = definitions.levels(
            self.spatial, options.coords, options.align_corners, self.deepest
        )
        for n, level in enumerate(levels):
            sampling = options.changed(footprint=None, coords=level.coords)
            gain, shift = (base.new_tensor(numbers) for numbers in (level.gain, level.shift))
            for index in itertools.product(*map(range, self.largest)):
                exists, along, grid = self.level == n, [], base
                for j, count, side in zip(index, self.counts, self.side_vectors, strict=True):
                    exists = exists & (count > j)
                    along.append((j + 0.5) / count - 0.5)
                    # A point with one sample keeps its bits.
                    grid = grid + torch.where(count > 1, along[-1] * side, 0)
                yield FootprintSample(
                    n,
                    level.spatial,
                    sampling,
                    gain * grid + shift if n else grid,
                    exists.squeeze(-1),
                    self.share.squeeze(-1),
                    along,
                    gain,
                )

    def coordinate_jvp(self, grid_tangent: Tensor, sample: FootprintSample) -> Tensor:
        """The change of a sample's coordinates as the grid changes by ``grid_tangent``."""
        grid_tangent = grid_tangent.to(self.grid.dtype)
        result = grid_tangent
        if self.options.footprint.attached:  # type: ignore[union-attr]
            for k, along in enumerate(sample.along):
                result = result + along * self.difference(grid_tangent, k)
        return sample.gain * result

    def coordinate_vjp(self, slopes: Tensor, sample: FootprintSample) -> Tensor:
        """Apply the transpose of `coordinate_jvp`, for the points that have the sample."""
        slopes = torch.where(sample.exists.unsqueeze(-1), sample.gain * slopes, 0)
        result = slopes
        if self.options.footprint.attached:  # type: ignore[union-attr]
            for k, along in enumerate(sample.along):
                result = result + self.difference_vjp(along * slopes, k)
        return result


def grid_gradient(grid: Tensor, slopes: Tensor) -> Tensor:
    """Sum the gradients of a grid's points and of the sides of their footprints.

    slopes: (N, *out, 1 + D, D), with the points first and then the sides, those along the last axis
        of the output first; or (N, *out, 1, D) if sides have no gradient.
    """
    neighbours, total = Neighbours(torch, grid), slopes[..., 0, :]
    for part in range(1, slopes.shape[-2]):
        side = slopes[..., part, :]
        total = total + neighbours.difference_vjp(side, neighbours.rank - part)
    return total


# Halved images ------------------------------------------------------------------------------------


class HalvedImage:
    """An image (N, C, *spatial), halved by area as samples go from level to level."""

    def __init__(self, image: Tensor) -> None:
        """Start with the image itself."""
        self.image = image

    def at(self, spatial: Sequence[int]) -> Tensor:
        """The copy with a spatial shape; shapes must not grow from one call to the next."""
        while tuple(self.image.shape[2:]) != tuple(spatial):
            for axis in range(2, self.image.dim()):
                halves = definitions.halving(self.image.shape[axis])
                self.image = weighed(self.image, axis, *halves)
        return self.image


def unhalve(image: Tensor, spatial: Sequence[int]) -> Tensor:
    """Apply the transpose of halving, to an image that came from a spatial shape."""
    sizes = [tuple(spatial)]
    while sizes[-1] != tuple(image.shape[2:]):
        sizes.append(definitions.halved(sizes[-1]))
    for size in reversed(sizes[:-1]):
        for axis, n in enumerate(size, start=2):
            image = weighed(image, axis, *definitions.unhalving(n))
    return image


def weighed(image: Tensor, axis: int, indices: Any, weights: Any) -> Tensor:
    """Sum the entries at ``indices`` along an axis, with ``weights``, both (entries, terms)."""
    shape = (-1, *(1,) * (image.dim() - 1 - axis))
    total: Any = 0
    for k in range(indices.shape[1]):
        entries = image.index_select(axis, torch.as_tensor(indices[:, k], device=image.device))
        factors = torch.as_tensor(weights[:, k], dtype=image.real.dtype, device=image.device)
        total = total + entries * factors.reshape(shape)
    result: Tensor = total
    return result


# Derivatives --------------------------------------------------------------------------------------


def summed(
    footprints: TensorFootprints,
    image: Tensor,
    needed: Sequence[bool],
    gradients_of: Callable[[FootprintSample, Tensor], tuple[Maybe, Maybe]],
) -> tuple[Maybe, Maybe]:
    """Sum the gradients of an image and of coordinates over all samples."""
    grad_image: Any = 0
    grad_grid: Any = 0
    images = HalvedImage(image)
    for sample in footprints.samples():
        first, second = gradients_of(sample, images.at(sample.spatial))
        if needed[0] and first is not None:
            grad_image = grad_image + unhalve(first, image.shape[2:])
        if needed[1] and second is not None:
            grad_grid = grad_grid + footprints.coordinate_vjp(second, sample)
    return grad_image if needed[0] else None, grad_grid if needed[1] else None


def gather_along(
    jvp: Any, image: Tensor, grid: Tensor, grid_tangent: Tensor, options: Options
) -> Tensor:
    """Compute the directional derivative of gather by that of plain sampling, ``jvp``."""
    footprints, images = TensorFootprints(grid, image.shape[2:], options), HalvedImage(image)
    total: Any = 0
    for sample in footprints.samples():
        tangent = footprints.coordinate_jvp(grid_tangent, sample)
        values = jvp(images.at(sample.spatial), sample.grid, tangent, sample.options)
        total = total + sample.values(values)
    result: Tensor = total
    return result


def scatter_along(
    jvp: Any, values: Tensor, grid: Tensor, grid_tangent: Tensor, size: Size, options: Options
) -> Tensor:
    """Compute the directional derivative of scatter by that of plain sampling, ``jvp``."""
    footprints = TensorFootprints(grid, size[2:], options)
    total: Any = 0
    for sample in footprints.samples():
        level_size = (*size[:2], *sample.spatial)
        tangent = footprints.coordinate_jvp(grid_tangent, sample)
        arguments = sample.values(values), sample.grid, tangent, level_size
        total = total + unhalve(jvp(*arguments, sample.options), size[2:])
    result: Tensor = total
    return result


def backward_along(
    jvp: Any,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    grid_tangent: Tensor,
    needed: Sequence[bool],
    options: Options,
) -> tuple[Maybe, Maybe]:
    """Compute the directional derivatives of backward by those of plain sampling, ``jvp``."""
    footprints = TensorFootprints(grid, image.shape[2:], options)

    def gradients_of(sample: FootprintSample, source: Tensor) -> tuple[Maybe, Maybe]:
        tangent = footprints.coordinate_jvp(grid_tangent, sample)
        arguments = sample.values(values), source, sample.grid, tangent, needed
        gradients: tuple[Maybe, Maybe] = jvp(*arguments, sample.options)
        return gradients

    return summed(footprints, image, needed, gradients_of)


def double_backward(
    compute: Callable[..., Sequence[Tensor]],
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    upstream_image: Maybe,
    upstream_grid: Maybe,
    needed: Sequence[bool],
    options: Options,
) -> list[Maybe]:
    """Compute the needed gradients of backward in their dtypes, by those of plain sampling."""
    footprints, sources = TensorFootprints(grid, image.shape[2:], options), HalvedImage(image)
    upstreams = None if upstream_image is None else HalvedImage(upstream_image)
    totals: list[Any] = [0, 0, 0]
    for sample in footprints.samples():
        source = sources.at(sample.spatial)
        upstream = None if upstreams is None else upstreams.at(sample.spatial)
        tangent = (
            None if upstream_grid is None else footprints.coordinate_jvp(upstream_grid, sample)
        )
        arguments = sample.values(values), source, sample.grid, upstream, tangent, needed
        parts = compute(*arguments, sample.options)
        if needed[0]:
            totals[0] = totals[0] + sample.values(parts[0])
        if needed[1]:
            totals[1] = totals[1] + unhalve(parts[1], image.shape[2:])
        if needed[2]:
            totals[2] = totals[2] + footprints.coordinate_vjp(parts[2], sample)
    likes = (values, image, grid)
    return [
        total.to(like.dtype) if need else None
        for total, like, need in zip(totals, likes, needed, strict=True)
    ]


# Labels -------------------------------------------------------------------------------------------


def vote(gather: Callable[..., Tensor], image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Find the label with the largest weight over all samples of each point.

    ``gather`` is plain sampling.

    A round over all samples sums the weights of one label per point, and finds the point's next
    greater label.  There are as many rounds as a footprint has different labels, and one more.
    """
    footprints = TensorFootprints(grid, image.shape[2:], options)
    margin = definitions.tie(footprints.spatial, torch.finfo(footprints.grid.dtype).eps)
    margins = torch.where(footprints.share < 1, margin, 0.0).movedim(-1, 1)
    key: Maybe = None
    winner, greatest = image.new_zeros((), dtype=torch.int64), -footprints.grid.new_ones(())
    while True:
        total, has_next, next_key = torch.zeros_like(greatest), None, None
        for keys, weights in ballots(gather, image, footprints):
            is_greater = (weights > 0).expand_as(keys)
            if key is not None:
                total = total + torch.where(keys == key, weights, 0)
                is_greater = is_greater & (keys > key)
            if has_next is None or next_key is None:
                has_next, next_key = is_greater, keys
            else:
                is_closer = is_greater & (~has_next | (keys < next_key))
                has_next, next_key = has_next | is_greater, torch.where(is_closer, keys, next_key)
        if key is not None:
            wins = total > greatest + margins
            winner, greatest = torch.where(wins, key, winner), torch.where(wins, total, greatest)
        if has_next is None or next_key is None or not bool(has_next.any()):
            return of_keys(winner, image.dtype)
        key = next_key if key is None else torch.where(has_next, next_key, key)


def ballots(
    gather: Callable[..., Tensor], image: Tensor, footprints: TensorFootprints
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the labels of each tap of each sample, (N, C, *out), and their weights, (N, 1, *out).

    The taps of a sample are its neighbours along the axes that vote, read by "nearest".
    """
    options = footprints.options
    voting = [d for d, name in enumerate(options.mode) if has_labels(name)]
    mode = without_labels(options.mode, "nearest")
    nearest = options.changed(mode=mode, coords="pixel", ends=(), footprint=None)
    for sample in footprints.samples():
        positions = in_pixels(sample, footprints)
        base = torch.where(positions.isfinite(), positions.floor(), positions)
        t = torch.where(positions.isfinite(), positions - base, 0)
        for bits in itertools.product((0, 1), repeat=len(voting)):
            at, weight = list(positions.unbind(-1)), sample.share * sample.exists
            for d, upper in zip(voting, bits, strict=True):
                at[d] = base[..., d] + upper
                weight = weight * (t[..., d] if upper else 1 - t[..., d])
            keys = gather(image, torch.stack(at, -1), nearest)
            yield as_keys(keys), weight.unsqueeze(1)


def as_keys(labels: Tensor) -> Tensor:
    """Convert labels to int64 in the same order."""
    if labels.dtype == torch.uint64:
        return labels.view(torch.int64) ^ -(1 << 63)
    return labels.to(torch.int64)


def of_keys(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """Apply the inverse of `as_keys`."""
    if dtype == torch.uint64:
        return (keys ^ -(1 << 63)).view(dtype)
    return keys.to(dtype)


def in_pixels(sample: FootprintSample, footprints: TensorFootprints) -> Tensor:
    """The positions of samples in the image, (N, *out, D); NaN where a sample has no taps."""
    options, last = footprints.options, sample.grid.new_tensor(footprints.spatial[::-1]) - 1
    positions: Tensor = sample.grid
    if sample.options.coords == "normalized":
        positions = AXIS.position(positions, last, options.align_corners)
    if options.extrapolates():
        return positions
    margins = [MARGINS[end] if isinstance(end, str) else math.inf for end in options.ends]
    inside = AXIS.inside(positions, last, last.new_tensor(margins)).all(-1, keepdim=True)
    return torch.where(inside, positions, torch.nan)
