"""Antialiased sampling in plain loops: means over the footprints of output points.

An output point covers a parallelogram of the image.  Its sides are the differences of the grid
along the output's axes: half the difference of the two neighbours, or the whole difference of the
point and its only neighbour.  Neighbours that are not finite are ignored.

`samples` places n_k points along side k, one in the middle of each of n_k equal parts, where n_k
is the length of the side in pixels, rounded up.  The result is their mean.  Where a side would get
more than ``max_samples``, all samples are taken from an image that is halved until it does not.

>>> import numpy as np
>>> grid = np.array([[[0.5], [2.5], [4.5]]])  # steps of two pixels
>>> stripes = np.array([[[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]])
>>> gather(stripes, grid, ("linear",), ("border",), False, coords="pixel")
array([[[0.5, 0.5, 0.5]]])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.kernels.reference import broadcast_items, saturate, sum_items
from gridsample.kernels.reference import gather as sample_once
from gridsample.kernels.reference import gradients as derive_once
from gridsample.kernels.reference.axis import Ends

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]

# A side may be longer than a whole number of pixels by this much without another sample.
SLACK = 1 / 64


class Side(NamedTuple):
    """One side of a footprint: weight * (grid[upper] - grid[lower]), plus ``displacement``."""

    lower: Index
    upper: Index
    weight: float
    displacement: Array


class Sample(NamedTuple):
    """A sample of an output point.

    Attributes:
        level: how often the image is halved.
        number: the number of samples of the point.
        coordinates: the coordinates in the halved image, x first.
        parts: the grid points of which they are a weighted sum, with their weights.
        gain: the factor of that sum, x first.
    """

    level: int
    number: int
    coordinates: Array
    parts: list[tuple[Index, float]]
    gain: Array


def sides(grid: Array, point: Index, coords: str) -> list[Side]:
    """Return the sides of the footprint of a point of one grid (*out, D), first axis first."""
    rank = grid.shape[-1]
    result = []
    for axis in range(rank):
        ends = []
        for step in (-1, 1):
            there = tuple(i + step * (k == axis) for k, i in enumerate(point))
            inside = 0 <= there[axis] < grid.shape[axis]
            known = inside and np.isfinite(grid[there]).all() and np.isfinite(grid[point]).all()
            ends.append(there if known else point)
        apart = (ends[0] != point) + (ends[1] != point)
        # In the axis's own direction, displacements are relative to points one pixel apart.
        displacement = np.zeros(rank)
        displacement[rank - 1 - axis] = coords == "displacement" and apart > 0
        result.append(Side(ends[0], ends[1], 1 / max(apart, 1), displacement))
    return result


def in_pixels(vector: Array, spatial: Sequence[int], align_corners: bool, coords: str) -> Array:
    """Convert a difference of coordinates to pixels."""
    if coords != "normalized":
        return vector
    return vector * [(n - align_corners) / 2 for n in reversed(spatial)]


def across_seams(back: float, ahead: float, period: float) -> float:
    """Return the sum of two steps along a circle, from the point before and to the point after.

    If the longer one is longer than half the circle, it is replaced by the step to the same place
    that is most like the shorter one. In this way, a step across the seam, where positions jump by
    the period, is a short one, and steps that are all large remain as they are.

    >>> across_seams(1, -7, period=8), across_seams(0, -7, period=8), across_seams(6, 5, period=8)
    (2, 1, 11)
    """
    shorter, longer = sorted((back, ahead), key=abs)
    if abs(longer) > period / 2:
        longer -= period * math.floor((longer - shorter) / period + 0.5)
    return shorter + longer


def distance(grid: Array, point: Index, edge: Side, periods: Sequence[float]) -> Array:
    """Return the difference of the grid points of a side, 0 if they are the same.

    periods: those of the coordinates, x first; 0 along axes that do not wrap around.
    """
    if edge.lower == edge.upper:  # also where the point is infinite
        return np.zeros(len(periods))
    result: Array = grid[edge.upper] - grid[edge.lower]
    for a, period in enumerate(periods):
        if period:
            # Along its own axis, a displacement is relative to a point one pixel further.
            pixel = edge.displacement[a]
            back = grid[point][a] - grid[edge.lower][a] + pixel * (edge.lower != point)
            ahead = grid[edge.upper][a] - grid[point][a] + pixel * (edge.upper != point)
            result[a] = across_seams(back, ahead, period) - pixel / edge.weight
    return result


def samples(
    grid: Array,
    point: Index,
    spatial: Sequence[int],
    align_corners: bool,
    coords: str,
    max_samples: int,
    boundaries: Sequence[str],
    halves: bool = True,
) -> Iterator[Sample]:
    """Yield the samples of a point of one grid (*out, D); ``halves`` allows halved images."""
    rank = grid.shape[-1]
    edges = sides(grid, point, coords)
    per_unit = in_pixels(np.ones(rank), spatial, align_corners, coords).tolist()
    periods = [
        n / unit if name == "wrap" and unit else 0.0
        for n, unit, name in zip(spatial[::-1], per_unit, boundaries, strict=True)
    ]
    apart = [distance(grid, point, edge, periods) for edge in edges]
    vectors = [e.weight * part + e.displacement for e, part in zip(edges, apart, strict=True)]
    lengths = [math.hypot(*in_pixels(v, spatial, align_corners, coords)) for v in vectors]
    level, sizes = 0, tuple(spatial)
    while halves and max(lengths) / 2**level - SLACK > max_samples and max(sizes) > 1:
        level, sizes = level + 1, tuple((n + 1) // 2 for n in sizes)
    counts = [min(max(math.ceil(n / 2**level - SLACK), 1), max_samples) for n in lengths]
    indices = np.array(point[::-1], float) if coords == "displacement" else np.zeros(rank)
    gain, shift = smaller(spatial, sizes, align_corners, coords) if level else (1.0, 0.0)
    for index in itertools.product(*map(range, counts)):
        along = [(j + 0.5) / n - 0.5 for j, n in zip(index, counts, strict=True)]
        coordinates = grid[point] + indices
        parts = [(point, 1.0)]
        for c, edge, vector in zip(along, edges, vectors, strict=True):
            coordinates = coordinates + c * vector if c else coordinates
            parts += [(edge.upper, c * edge.weight), (edge.lower, -c * edge.weight)]
        gains = np.broadcast_to(gain, rank)
        yield Sample(level, math.prod(counts), gain * coordinates + shift, parts, gains)


def smaller(
    spatial: Sequence[int], sizes: Sequence[int], align_corners: bool, coords: str
) -> tuple[Array, Array]:
    """Return the factor and the summand that convert coordinates to those of a halved image.

    They are pixels there, unless -1 and 1 are the outer edges, which are those of both images.
    """
    n, m = np.array(spatial[::-1], float), np.array(sizes[::-1], float)
    if coords != "normalized":
        return m / n, m / n / 2 - 0.5
    if align_corners:
        return m / n * (n - 1) / 2, m / 2 - 0.5
    return np.ones(len(n)), np.zeros(len(n))


def halve(image: Array) -> Array:
    """Halve an image (N, C, *spatial): a pixel is the mean over the area that it covers."""
    for axis in range(2, image.ndim):
        matrix = halving(image.shape[axis])
        image = np.moveaxis(np.tensordot(image, matrix, (axis, 1)), -1, axis)
    return image


def halving(n: int) -> Array:
    """The matrix (m, n) that halves a line of n entries: the share of each entry in each half.

    >>> 3 * halving(3)
    array([[2., 1., 0.],
           [0., 1., 2.]])
    """
    m = (n + 1) // 2
    matrix = np.zeros((m, n))
    for i in range(m):
        for k in range(n):
            matrix[i, k] = max(0.0, min((i + 1) * n, (k + 1) * m) - max(i * n, k * m)) / n
    return matrix


def walk(
    grid: Array,
    spatial: Sequence[int],
    align_corners: bool,
    coords: str,
    max_samples: int,
    boundaries: Sequence[str],
    halves: bool = True,
) -> Iterator[tuple[int, Index, Sample]]:
    """Yield all samples of all points of a grid (N, *out, D), with the item and the point."""
    for n in range(len(grid)):
        for point in np.ndindex(grid.shape[1:-1]):
            for sample in samples(
                grid[n], point, spatial, align_corners, coords, max_samples, boundaries, halves
            ):
                yield n, point, sample


def at(sample: Sample, align_corners: bool, coords: str) -> tuple[Array, str]:
    """Return a sample's coordinates as a grid (1, 1, D) of a single point, and their units."""
    scaled = coords == "normalized" and (sample.level == 0 or not align_corners)
    return sample.coordinates[np.newaxis, np.newaxis], "normalized" if scaled else "pixel"


def gather(
    image: Array,
    grid: Array,
    modes: Sequence[Any],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: Any = 0,
    max_samples: int = 16,
    halves: bool = True,
) -> Array:
    """Sample an image like `gridsample.kernels.reference.gather`, over each point's footprint.

    An integer image is rounded once, at the end.  Unless ``halves``, long sides have
    ``max_samples`` samples of the image itself.
    """
    integer = image.dtype.kind in "biu"
    dtype = image.dtype
    image, grid = broadcast_items(image.astype(float) if integer else image, grid)
    pyramid = [image]
    number_type = complex if np.iscomplexobj(image) else float
    out = np.zeros((*image.shape[:2], *grid.shape[1:-1]), number_type)
    for n, point, sample in walk(
        grid, image.shape[2:], align_corners, coords, max_samples, boundaries, halves
    ):
        while len(pyramid) <= sample.level:
            pyramid.append(halve(pyramid[-1]))
        place, units = at(sample, align_corners, coords)
        value = sample_once(
            pyramid[sample.level][n : n + 1],
            place,
            modes,
            boundaries,
            align_corners,
            coords=units,
            extrapolate=extrapolate,
            fill=fill,
        )
        here: Any = (n, slice(None), *point)
        out[here] += value[0, :, 0] / sample.number
    if not integer:
        return out
    fills = np.broadcast_to(fill, image.shape[1:2]).reshape(1, -1, *(1,) * (out.ndim - 2))
    known = np.where(np.isnan(out), fills, out)
    integers = [saturate(value, dtype) for value in known.ravel().tolist()]
    return np.array(integers, dtype).reshape(out.shape)


def vote(
    image: Array,
    grid: Array,
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: int = 0,
    max_samples: int = 16,
    margin: float = 1e-9,
) -> Array:
    """Sample labels: the smallest of those whose images have the largest mean within ``margin``.

    The image of a label is 1 where the image has it, and 0 elsewhere.  Dropped taps have the label
    0 under "zeros", otherwise the fill; so do points with a coordinate that is NaN.
    """
    weights = ["linear" if mode == "label" else mode for mode in modes]
    known = sorted({int(value) for value in image.ravel().tolist()} | {0, int(fill)})

    def mean_of(pixels: Array, outside: bool) -> Array:
        return gather(
            pixels.astype(float),
            grid,
            weights,
            boundaries,
            align_corners,
            coords=coords,
            extrapolate=extrapolate,
            fill=float(outside),
            max_samples=max_samples,
            halves=False,
        )

    # Under "zeros", a dropped tap votes for 0.
    dropped = 1 - mean_of(np.ones(image.shape), True)
    shares = []
    for label in known:
        mean = mean_of(image == np.array(label, image.dtype), label == fill)
        mean = mean + dropped if label == 0 else mean
        shares.append(np.where(np.isnan(mean), float(label == fill), mean))
    largest = np.max(shares, 0)
    first = np.argmax([share >= largest - margin for share in shares], 0)
    winners: Array = np.array(known, image.dtype)[first]
    return winners


def gradients(
    grad_output: Array,
    image: Array,
    grid: Array,
    modes: Sequence[Any],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: Any = 0,
    max_samples: int = 16,
    attached: bool = True,
) -> tuple[Array, Array]:
    """Return both gradients of `gather`, as `gridsample.kernels.reference.gradients` does.

    The gradient of a sample's coordinates goes to the grid points of which they are a sum; only to
    the point itself unless ``attached``.
    """
    items, grid_items = len(image), len(grid)
    image, grid = broadcast_items(image, grid)
    pyramid = [image]
    by_image: list[Array] = []
    by_grid = np.zeros(grid.shape)
    for n, point, sample in walk(
        grid, image.shape[2:], align_corners, coords, max_samples, boundaries
    ):
        while len(pyramid) <= sample.level:
            pyramid.append(halve(pyramid[-1]))
        while len(by_image) < len(pyramid):
            by_image.append(np.zeros(pyramid[len(by_image)].shape, grad_output.dtype))
        place, units = at(sample, align_corners, coords)
        first, second = derive_once(
            grad_output[(slice(n, n + 1), slice(None), *point, np.newaxis)] / sample.number,
            pyramid[sample.level][n : n + 1],
            place,
            modes,
            boundaries,
            align_corners,
            coords=units,
            extrapolate=extrapolate,
            fill=fill,
        )
        by_image[sample.level][n : n + 1] += first
        for index, weight in sample.parts if attached else sample.parts[:1]:
            by_grid[n, *index] += weight * sample.gain * second[0, 0]
    total = by_image.pop()
    while by_image:
        for axis in range(2, total.ndim):
            matrix = halving(by_image[-1].shape[axis])
            total = np.moveaxis(np.tensordot(total, matrix, (axis, 0)), -1, axis)
        total = total + by_image.pop()
    return sum_items(total, items), sum_items(by_grid, grid_items)
