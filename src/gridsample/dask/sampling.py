"""Sampling of chunked images, at grids and under maps.

A task samples one chunk of the result.  It depends on the chunks of the image that
`gridsample.chunked.regions` says it reads, and copies what it reads of them to a window.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gridsample.backends import backend_of
from gridsample.chunked.blocks import sample_block, with_neighbours
from gridsample.chunked.means import check_means
from gridsample.chunked.pixels import Coefficients, Pixels
from gridsample.chunked.regions import (
    Array,
    Block,
    Bounds,
    Extent,
    Region,
    Sampling,
    bounds_of_extents,
    bounds_of_grid,
    extent_along,
    lengths_of,
    level_of,
    real_type,
    region_of,
    sum_type,
)
from gridsample.chunked.splines import Line, region_around
from gridsample.dask.graphs import ChunkLayout, Chunks, array_of_tasks, blocks_of, item_of, parts_of
from gridsample.definitions.shapes import Shape, check_shapes
from gridsample.ndimage.arrays import store
from gridsample.ops.missing import check_weights


class Points(NamedTuple):
    """A function of output pixels, in place of a grid.

    Attributes:
        function: takes the indices of a block's pixels along each axis, x first: float64 arrays
            that broadcast to the block, such as (1, 1, W) for x.  It returns their coordinates
            along each axis of the image, x first, as arrays that broadcast to the block, too.
        bounds: takes the first and the last index of a block along each axis, x first, and returns
            the least and the greatest coordinate of its pixels along each axis, x first, or numbers
            beyond them.
    """

    function: Callable[..., Sequence[Any]]
    bounds: Callable[[Sequence[int], Sequence[int]], tuple[Sequence[float], Sequence[float]]]

    def grid(self, block: Block, dtype: np.dtype[Any]) -> Array:
        """Compute the coordinates of a block that is not empty, (1, *block, D)."""
        points = np.empty((1, *lengths_of(block), len(block)), dtype)
        indices = np.ogrid[block][::-1]
        lines = self.function(*[index.astype(np.float64) for index in indices])
        for d, line in enumerate(lines):
            points[0, ..., d] = line
        return points


class PlannedPoints(NamedTuple):
    """The points of a plan, whose bounds hold without being checked.

    Attributes:
        plan: computes the coordinates of a block, (1, *block, D), and bounds them, as
            `gridsample.geo.Positions` does.
    """

    plan: Any

    @property
    def bounds(self) -> Any:
        """The bounds of a block, as those of `Points`."""
        return self.plan.bounds

    def grid(self, block: Block, dtype: np.dtype[Any]) -> Array:
        """Compute the coordinates of a block, (1, *block, D)."""
        points: Array = self.plan(*block, threads=1).astype(dtype, copy=False)
        return points


class Placement(Protocol):
    """Moves points before they are sampled, such as into a padded image."""

    def points(self, grid: Array) -> Array:
        """Return the coordinates that are sampled for a grid (N, *points, D)."""
        ...

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return the bounds of these, given those of the grid."""
        ...


class Preparation(NamedTuple):
    """What else the functions with SciPy's names do before and after an image is sampled.

    Attributes:
        lines: how the image is filtered although the mode needs no filter.
        dtype: the dtype in which the image is sampled; None for its own.
        output: the dtype to which results are rounded as SciPy rounds them; None if they are not.
        placement: how points are moved, or None.
    """

    lines: tuple[Line, ...] = ()
    dtype: np.dtype[Any] | None = None
    output: np.dtype[Any] | None = None
    placement: Placement | None = None


AS_IT_IS = Preparation()


@dataclass(frozen=True)
class SamplingCall:
    """What all tasks of a call share.

    Attributes:
        sampling: the call.
        layout: how the image is divided.
        dtype: the dtype in which the image is sampled.
        coordinates: their dtype.
        points: maps (N, D, D + 1), a `Points` or `PlannedPoints`, or None for a grid that is
            divided, too.
        grid: how the grid is divided; its last axis are channels.
        weights: how the weights of pixels are divided.
        lines: how the image is filtered before it is sampled.
        output: the dtype to which results are rounded as SciPy rounds them; None if they are not.
        placement: how the points are moved before they are sampled, or None.
    """

    sampling: Sampling
    layout: ChunkLayout
    dtype: np.dtype[Any]
    coordinates: np.dtype[Any]
    points: Any = None
    grid: ChunkLayout | None = None
    weights: ChunkLayout | None = None
    lines: tuple[Line, ...] = ()
    output: np.dtype[Any] | None = None
    placement: Placement | None = None

    @property
    def coefficient_dtype(self) -> np.dtype[Any]:
        """The dtype of coefficients."""
        return sum_type(self.dtype, self.coordinates == np.float64)

    def of_channels(self, part: slice) -> SamplingCall:
        """Return the call for some channels, which may have fill values of their own."""
        keywords = self.sampling.keywords
        if np.ndim(keywords.get("fill_value", 0)) == 0:
            return self
        fill = np.asarray(keywords["fill_value"])[part].tolist()
        sampling = self.sampling._replace(keywords={**keywords, "fill_value": fill})
        lines = [
            line._replace(fill=line.fill[part]) if np.size(line.fill) > 1 else line
            for line in self.lines
        ]
        return dataclasses.replace(self, sampling=sampling, lines=tuple(lines))

    def reads(self, region: Region) -> Region:
        """Return the pixels that are read for a region, with a halo if the image is filtered."""
        if not self.lines or not all(region.axes):
            return region
        layout, dtype = self.layout, self.coefficient_dtype
        return region_around(region, self.lines, layout.shape, dtype, layout.first_axis)


@dataclass(frozen=True, slots=True)
class SamplingTask:
    """What a task computes, and reads.

    Attributes:
        block: the points.
        region: the pixels.
        leading: N and C of the image's chunks.
        channels: which channels of the image these are.
        items: the items of maps.
        bounds: the bounds that the caller states for the block, to be checked; None without any.
    """

    block: Block
    region: Region
    leading: tuple[int, int]
    channels: slice
    items: slice
    bounds: Bounds | None = None


def compute(
    call: SamplingCall,
    task: SamplingTask,
    image: Sequence[Array],
    grid: Sequence[Array],
    weights: Sequence[Array],
) -> Any:
    """Compute one chunk of a result; what a task runs."""
    call = call.of_channels(task.channels)
    sampling, last = call.sampling, call.sampling.options.channels_last()
    pixels, shares = read(call, task, image), None
    if call.weights is not None:
        leading = weights[0].shape[0], weights[0].shape[-1 if last else 1]
        shares = call.weights.loaded(task.region, weights, leading, weights[0].dtype)
    if isinstance(call.points, np.ndarray):
        points = call.points[task.items]
    else:
        expanded = with_neighbours(sampling, task.block)
        points = (
            evaluate_points(call, expanded)
            if call.grid is None
            else grid_points(call, expanded, grid)[task.items]
        )
        if task.bounds is not None:
            check_bounds(sampling, expanded, points, task.bounds)
        if call.placement is not None:
            points = call.placement.points(points)
    options: dict[str, Any] = {"weights": shares, "region": task.region}
    return stored(call, sample_block(sampling, task.block, points, pixels, call.dtype, **options))


def stored(call: SamplingCall, result: Any) -> Any:
    """Return the result of a task in the dtype of the output."""
    if call.output is None or result.dtype == call.output:
        return result
    return store(result, np.empty(result.shape, call.output))


def read(call: SamplingCall, task: SamplingTask, image: Sequence[Array]) -> Pixels:
    """Return what a task samples: the chunks of the image that it has, or their coefficients."""
    # A halved copy is of sums, and has the dtype in which it was computed.
    dtype = image[0].dtype if image and level_of(call.sampling) else call.dtype
    pixels = call.layout.loaded(call.reads(task.region), image, task.leading, dtype)
    if not call.lines:
        return pixels
    return Coefficients(pixels, call.lines, call.coefficient_dtype, call.layout.first_axis)


def grid_keys(layout: ChunkLayout, name: str, expanded: Block) -> list[Any]:
    """Return the keys of the chunks of a grid that a block overlaps, in the order of `grid_points`.

    An empty block overlaps none; it has the first one, for the number of items.
    """
    keys = layout.keys(name, Region.of_box(expanded), 0, 0)
    return keys or [(name, 0, *(0,) * len(expanded), 0)]


def grid_points(call: SamplingCall, expanded: Block, chunks: Sequence[Array]) -> Array:
    """Return the coordinates of a block, given the chunks of the grid that it overlaps."""
    assert call.grid is not None
    region, leading = Region.of_box(expanded), (chunks[0].shape[0], chunks[0].shape[-1])
    if 0 in lengths_of(expanded):
        return np.empty((leading[0], *lengths_of(expanded), leading[1]), chunks[0].dtype)
    grid = call.grid.loaded(region, chunks, leading, chunks[0].dtype)
    return grid[grid.box(expanded)]


def evaluate_points(call: SamplingCall, expanded: Block) -> Array:
    """Compute the coordinates of a block by the function or the plan of a call."""
    if 0 in lengths_of(expanded):
        return np.empty((1, *lengths_of(expanded), len(expanded)), call.coordinates)
    points: Array = call.points.grid(expanded, call.coordinates)
    return points


def check_bounds(sampling: Sampling, expanded: Block, points: Array, stated: Bounds) -> None:
    """Raise an error if the coordinates of a block are beyond the bounds that decide what it reads.

    Args:
        sampling: the call.
        expanded: the block, with its neighbours for footprints.
        points: the coordinates of these points.
        stated: the bounds.

    Raises:
        ValueError: a coordinate is beyond them by more than rounding.
    """
    actual = bounds_of_grid(sampling, points)
    ends = np.abs(np.stack([stated.low, stated.high]))
    tolerance = 8 * sampling.epsilon * np.where(np.isfinite(ends), ends, 0).max(0)
    within = (actual.low >= stated.low - tolerance) & (actual.high <= stated.high + tolerance)
    if not (within | np.isnan(actual.low)).all():
        block = ", ".join(f"{part.start}:{part.stop}" for part in expanded)
        raise ValueError(
            f"bounds must be beyond all coordinates, with those between which footprints reach for "
            f"antialias=True; for the points [{block}] they are {listed(stated)}, but the "
            f"coordinates are within {listed(actual)}"
        )


def listed(bounds: Bounds) -> str:
    """Return bounds as text."""
    low, high = (np.asarray(x, np.float64).tolist() for x in bounds)
    return f"{low} to {high}"


# The graph ----------------------------------------------------------------------------------------


def sampled(
    image: Any,
    call: SamplingCall,
    chunks: Chunks,
    bounds: Callable[[Shape, Block, slice], Bounds],
    items: int,
    grid: Any = None,
    weights: Any = None,
    stated: bool = False,
) -> Any:
    """Make the array of a call, or a tuple of arrays.

    Args:
        image: the image, a dask array.
        call: what all tasks share.
        chunks: the chunks of the result, without N and C.
        bounds: returns the bounds of a chunk, given its index, its points, and the items.
        items: N of the points.
        grid: a dask array (N, *out, D) with a single chunk along N and D, or None.
        weights: the weights of pixels, a dask array, or None.
        stated: whether bounds are what the caller states, so that tasks check them.
    """
    last = call.sampling.options.channels_last()
    channel_axis = -1 if last else 1
    batched = image.shape[0] != 1
    weights = None if weights is None else divided_like(weights, image, channel_axis)
    inputs = [array for array in (image, grid, weights) if array is not None]
    item_parts, channel_parts = parts_of(image.chunks[0]), parts_of(image.chunks[channel_axis])

    def keys(array: Any, layout: ChunkLayout, region: Region, n: int, c: int) -> list[Any]:
        n = min(n, len(array.chunks[0]) - 1)  # a single chunk is shared
        return layout.keys(array.name, region, n, min(c, len(array.chunks[channel_axis]) - 1))

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for n, part in enumerate(item_parts):
            item_part = part if batched and items > 1 else slice(None)
            for index, block in blocks_of(chunks):
                expanded = with_neighbours(call.sampling, block)
                limits = bounds(index, block, item_part)
                placed = limits if call.placement is None else call.placement.bounds(limits)
                region = region_of(call.sampling, placed, expanded)
                if weights is not None:
                    region = nonempty(region)
                points = []
                if grid is not None and call.grid is not None:
                    points = grid_keys(call.grid, grid.name, expanded)
                stated_bounds = limits if stated else None
                for c, channels in enumerate(channel_parts):
                    leading = part.stop - part.start, channels.stop - channels.start
                    task = SamplingTask(block, region, leading, channels, item_part, stated_bounds)
                    pixels = keys(image, call.layout, call.reads(region), n, c)
                    weight_keys = []
                    if weights is not None and call.weights is not None:
                        weight_keys = keys(weights, call.weights, region, n, c)
                    key = (n, *index, c) if last else (n, c, *index)
                    yield key, (compute, common, task, pixels, points, weight_keys)

    item_chunks = image.chunks[0] if batched else (items,)
    planes = image.chunks[channel_axis]
    all_chunks = (item_chunks, *chunks, planes) if last else (item_chunks, planes, *chunks)
    dtype = call.output or call.dtype
    array = array_of_tasks("sample", call, tasks, all_chunks, dtype, inputs)
    keywords, real = call.sampling.keywords, real_type(call.dtype, call.coordinates)
    masked, weighted = keywords.get("return_mask"), keywords.get("return_weight")
    if not masked and not weighted:
        return array
    results = [item_of(array, 0, all_chunks, call.dtype)]
    if masked:
        item_chunks = (1,) if items == 1 and batched else item_chunks
        single = (item_chunks, *chunks, (1,)) if last else (item_chunks, (1,), *chunks)
        results.append(item_of(array, 1, single, real))
    if weighted:
        results.append(item_of(array, len(results), all_chunks, real))
    return tuple(results)


def divided_like(weights: Any, image: Any, channel_axis: int) -> Any:
    """Divide the weights of pixels along N and C as an image is, for tasks of a few of its planes.

    What all planes share, and weights of each point's item of an image without a batch, are a
    single chunk.
    """
    chunks = {
        axis: image.chunks[axis] if n == image.shape[axis] else -1
        for axis, n in ((0, weights.shape[0]), (channel_axis, weights.shape[channel_axis]))
    }
    return weights.rechunk({axis % weights.ndim: sizes for axis, sizes in chunks.items()})


def nonempty(region: Region) -> Region:
    """Return the region, or a single pixel if it is empty: weights are checked in any case."""
    if all(region.axes):
        return region
    return Region(tuple([((0, 1),)] * len(region.axes)))


def map_bounds(
    sampling: Sampling, theta: Array, chunks: Chunks
) -> Callable[[Shape, Block, slice], Bounds]:
    """Return ``bounds`` of `sampled` for maps: a function that looks them up in a table."""
    lines = [
        [extent_along(sampling, theta, k, part) for part in parts_of(sizes)]
        for k, sizes in enumerate(chunks)
    ]

    @functools.lru_cache(maxsize=1)
    def table(first: int | None, last: int | None) -> Bounds:
        items, extents = slice(first, last), list[Extent]()
        for k, line in enumerate(lines):
            numbers = [np.stack(arrays)[:, items] for arrays in zip(*line, strict=True)]
            # (blocks along axis k, N, D), with N before the axes of blocks.
            shape = [-1 if axis == k else 1 for axis in range(len(lines))]
            extents.append(Extent(*[np.moveaxis(x, 1, 0) for x in numbers]))
            extents[-1] = Extent(*[x.reshape(len(x), *shape, x.shape[-1]) for x in extents[-1]])
        return bounds_of_extents(sampling, theta[items], extents)

    def bounds(index: Shape, block: Block, items: slice) -> Bounds:
        if not len(theta[items]):
            return Bounds.of_nothing(len(sampling.spatial))
        of_blocks = table(items.start, items.stop)
        return Bounds(of_blocks.low[index], of_blocks.high[index])

    return bounds


def dry_run(call: SamplingCall, image: Any, items: int, weights: Any = None) -> None:
    """Compute a point of an empty image, to raise the errors of a call before its graph is made.

    Args:
        call: the call.
        image: the image, a dask array.
        items: N of the points.
        weights: the weights of pixels, a dask array, or None.
    """
    sampling, shares = call.sampling, None
    grid_shape = (items, *sampling.out, len(sampling.spatial))
    check_shapes(image.shape, grid_shape, sampling.options.channels_last())
    check_means(sampling, call.dtype, weights is not None)
    if weights is not None:
        backend, last = backend_of(theta=np.empty(0)), sampling.options.channels_last()
        check_weights(backend, weights, image.shape, max(image.shape[0], items), last)
        shares = Pixels(weights.shape, weights.dtype, call.layout.first_axis)
    block = tuple([slice(0, min(n, 1)) for n in sampling.out])
    points = call.points
    if not isinstance(points, np.ndarray):
        size = lengths_of(with_neighbours(sampling, block))
        points = np.zeros((items, *size, len(sampling.spatial)), call.coordinates)
    region = Region(((),) * len(sampling.spatial))
    pixels = Pixels(image.shape, call.dtype, call.layout.first_axis)
    sample_block(sampling, block, points, pixels, call.dtype, weights=shares, region=region)
