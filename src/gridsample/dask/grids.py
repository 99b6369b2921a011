"""Sampling of chunked images at grids: in memory, chunked, or functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from gridsample.chunked.blocks import with_neighbours
from gridsample.chunked.regions import (
    Array,
    Block,
    Bounds,
    Sampling,
    bounds_of_grid,
    lengths_of,
    real_type,
    sampling_of,
)
from gridsample.dask.graphs import (
    ChunkLayout,
    Chunks,
    array_of_tasks,
    as_dask,
    blocks_of,
    chunks_for,
)
from gridsample.dask.sampling import (
    AS_IT_IS,
    PlannedPoints,
    Points,
    Preparation,
    SamplingCall,
    dry_run,
    grid_keys,
    grid_points,
    sampled,
)
from gridsample.dask.splines import image_lines
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.knots import Axes, Coords
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import CoordsName, FootprintName, MissingName
from gridsample.definitions.shapes import Shape
from gridsample.fields import to_pixel


def grid_sample(
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    fill_value: Any = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    return_mask: bool = False,
    return_weight: bool = False,
    channel_axis: int = 1,
    bounds: Any = None,
    size: Sequence[int] | None = None,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Sample a chunked image at the points of a grid, bitwise as `gridsample.grid_sample` does.

    What a chunk of the result reads is known before anything is read.  For a grid in memory, it
    follows from the coordinates, which are scanned once.  For a chunked grid, compute their
    bounds first, which is a pass over the grid that keeps two numbers for each chunk and axis:

        bounds = gridsample.dask.coordinate_bounds(grid).compute()
        result = gridsample.dask.grid_sample(image, grid, bounds=bounds)

    Args:
        input: the image, (N, C, *spatial): a dask array, or an array with chunks.
        grid: the coordinates, (N, *out, D), with ``out`` of any rank: an array, a dask array, or a
            `Points`, a function of output pixels.
        mode, padding_mode, align_corners, coords: as in `gridsample.grid_sample`.
        fill_value, extrapolate, prefilter: as in `gridsample.grid_sample`.
        antialias, max_samples, footprint: as in `gridsample.grid_sample`.
        missing, min_weight, return_mask, return_weight: as in `gridsample.grid_sample`.
        channel_axis: as in `gridsample.grid_sample`.
        weights: the weights of pixels, as in `gridsample.grid_sample`, with any chunks or none.
        bounds: for a dask array, the result of `coordinate_bounds`; or a pair of the least and the
            greatest coordinates of the whole grid along each axis, x first, such as
            ([-20, -20], [20, 20]) for displacements of up to 20 pixels.  Tasks check that no
            coordinate is beyond them.
        size: the shape of ``out``, for a function.
        chunks: the chunks of ``out``; None for the grid's if that is a dask array, otherwise for
            the size of the image's chunks.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array (N, C, *out), or a tuple as in `gridsample.grid_sample`.  N and C have the
        chunks of the image.

    Raises:
        TypeError, ValueError: as in `gridsample.grid_sample`; or a dask array comes without bounds,
            a function without a size, or the bounds do not match the grid.  Computing the result
            raises a ValueError if a coordinate is beyond the bounds, or with antialias if the side
            of a footprint is longer than ``max_samples`` pixels.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.from_array(np.arange(16.0).reshape(1, 1, 4, 4), chunks=(1, 1, 2, 2))
        >>> grid = np.array([[[[0.0, 0.0], [0.5, 0.5]]]])
        >>> gridsample.dask.grid_sample(image, grid).compute()
        array([[[[ 7.5, 12.5]]]])
        >>> turned = gridsample.dask.Points(
        ...     lambda x, y: (y, x), lambda low, high: (low[::-1], high[::-1])
        ... )
        >>> result = gridsample.dask.grid_sample(image, turned, coords="pixel", size=(4, 4))
        >>> result[0, 0, 0].compute()
        array([ 0.,  4.,  8., 12.])
    """
    options = {
        "mode": mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
        "fill_value": fill_value,
        "extrapolate": extrapolate,
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "footprint": footprint,
        "missing": missing,
        "min_weight": min_weight,
        "return_mask": return_mask,
        "return_weight": return_weight,
        "channel_axis": channel_axis,
        "threads": threads,
    }
    image = as_dask(input, "input")
    return at_grid(image, grid, coords, bounds, chunks, size, weights, **options)


def at_grid(
    image: Any,
    grid: Any,
    coords: Coords,
    bounds: Any,
    chunks: Any,
    size: Sequence[int] | None = None,
    weights: Any = None,
    preparation: Preparation = AS_IT_IS,
    real: Any = np.float32,
    **keywords: Any,
) -> Any:
    """Make the array of `grid_sample`.

    Args:
        image, grid, coords, bounds, chunks, size, weights, keywords: as in `grid_sample`; the grid
            may be a `PlannedPoints`.
        preparation: what else is done before and after the image is sampled.
        real: the least dtype of the coordinates of a function or a plan.
    """
    points, grid = (grid, None) if isinstance(grid, (Points, PlannedPoints)) else (None, grid)
    if points is not None:
        out, items, dtype = check_points_size(size), 1, real_type(image.dtype, np.dtype(real))
    elif size is not None:
        raise ValueError(f"size has no effect with a grid, which has its own shape; got {size!r}")
    else:
        out, items, dtype = tuple(grid.shape[1:-1]), grid.shape[0], np.dtype(grid.dtype)
        if dtype.kind in "iu":
            dtype = np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    sampling = sampling_of(
        image.shape, out, coords=coords, real=real_type(image.dtype, dtype), **keywords
    )
    if isinstance(sampling.options.coords, Axes):
        if points is not None:
            raise ValueError("coords of axes need a grid, got a Points")
        grid, bounds = as_pixels(grid, bounds, sampling)
        return at_grid(
            image, grid, "pixel", bounds, chunks, None, weights, preparation, real, **keywords
        )
    channel_axis = -1 if sampling.options.channels_last() else 1
    layout = ChunkLayout.of(image, channel_axis)
    if isinstance(grid, da.Array):
        grid = grid.rechunk({0: -1, grid.ndim - 1: -1})
        out_chunks = grid.chunks[1:-1]
        if chunks is not None and chunks_for(chunks, out, out_chunks, dtype) != out_chunks:
            raise ValueError(
                f"chunks must be None or those of the grid, {out_chunks}, because bounds are those "
                f"of its chunks; rechunk the grid first; got {chunks!r}"
            )
    else:
        out_chunks = chunks_for(chunks, out, layout.chunks, image.dtype)
    chunk_bounds = bounds_function(sampling, grid, points, bounds, out_chunks)
    stated = isinstance(points, Points) or isinstance(grid, da.Array)
    if points is None and not isinstance(grid, da.Array):
        grid = da.from_array(np.asarray(grid), chunks=(-1, *out_chunks, -1))
    weight_array = None if weights is None else as_dask(weights, "weights")
    lines = preparation.lines or image_lines(sampling, image)
    grid_layout = None if grid is None else ChunkLayout.of(grid, -1)
    weight_layout = None if weight_array is None else ChunkLayout.of(weight_array, channel_axis)
    pixel = (preparation.dtype or image.dtype).newbyteorder("=")
    call = SamplingCall(
        sampling,
        layout,
        pixel,
        dtype,
        points,
        grid_layout,
        weight_layout,
        lines,
        preparation.output,
        preparation.placement,
    )
    dry_run(call, image, items, weight_array)
    return sampled(image, call, out_chunks, chunk_bounds, items, grid, weight_array, stated)


def as_pixels(grid: Any, bounds: Any, sampling: Sampling) -> tuple[Any, Any]:
    """Convert a grid in units of axes, chunk by chunk, and its bounds, if there are any."""
    options = sampling.options
    units: Any = options.coords
    convert = functools.partial(
        to_pixel,
        size=sampling.spatial,
        align_corners=options.align_corners,
        coords=units,
    )
    if bounds is not None:
        bounds = np.sort(convert(np.asarray(bounds, np.float64)), -2)  # some axes decrease
    if not isinstance(grid, da.Array):
        return convert(np.asarray(grid)), bounds
    grid = grid.rechunk({grid.ndim - 1: -1})
    return grid.map_blocks(convert, dtype=np.float64), bounds


def check_points_size(size: Any) -> Shape:
    """Return the shape of the result for a `Points`, or raise an error if there is none."""
    if size is None:
        raise ValueError(
            "size must be the shape of the result's spatial axes for a Points, got None"
        )
    return tuple(int(n) for n in size)


def bounds_function(
    sampling: Sampling,
    grid: Any,
    points: Points | PlannedPoints | None,
    bounds: Any,
    chunks: Chunks,
) -> Callable[[Shape, Block, slice], Bounds]:
    """Return the function of `gridsample.dask.sampling.sampled`."""
    rank = len(sampling.spatial)
    if points is not None:

        def function_bounds(index: Shape, block: Block, items: slice) -> Bounds:
            expanded = with_neighbours(sampling, block)
            if 0 in lengths_of(expanded):
                return Bounds.of_nothing(rank)
            first = [part.start for part in expanded][::-1]
            final = [part.stop - 1 for part in expanded][::-1]
            return widened(
                sampling, *(np.array(x, np.float64) for x in points.bounds(first, final))
            )

        return function_bounds
    if not isinstance(grid, da.Array):
        array = np.asarray(grid)

        def array_bounds(index: Shape, block: Block, items: slice) -> Bounds:
            expanded = with_neighbours(sampling, block)
            return bounds_of_grid(sampling, array[(items, *expanded)])

        return array_bounds
    if bounds is None:
        raise ValueError(
            "bounds must be given for a grid that is a dask array: "
            "gridsample.dask.coordinate_bounds(grid).compute(), or a pair of the least and the "
            "greatest coordinates along each axis, x first"
        )
    blocks = tuple(len(sizes) for sizes in chunks)
    table = np.asarray(bounds, np.float64)
    if table.shape == (2, rank):
        table = np.broadcast_to(np.stack(widened(sampling, *table)), (*blocks, 2, rank))
    if table.shape != (*blocks, 2, rank):
        raise ValueError(
            f"bounds must be (2, {rank}) or, from coordinate_bounds, {(*blocks, 2, rank)} for the "
            f"chunks of this grid, got shape {table.shape}"
        )
    return lambda index, block, items: Bounds(*table[index])


def widened(sampling: Sampling, low: Array, high: Array) -> Bounds:
    """Return the bounds of samples, given those of coordinates: footprints reach beyond these."""
    if sampling.options.footprint is None:
        return Bounds(low, high)
    with np.errstate(invalid="ignore"):
        extent = np.where(low == high, 0, high - low)  # both may be the same infinity
    reach = extent * len(low) / 2 + (sampling.options.coords == "displacement") / 2
    return Bounds(low - reach, high + reach)


def coordinate_bounds(
    grid: Any, *, axis: int = -1, coords: CoordsName = "normalized", antialias: bool = False
) -> Any:
    """Return the least and the greatest coordinates of each chunk of a grid.

    Args:
        grid: a dask array: (N, *out, D), or (D, *out) as `map_coordinates` takes it.
        axis: -1 for a grid; 0 for coordinates of `map_coordinates`.
        coords: the units of coordinates, as in `grid_sample`.
        antialias: whether footprints are sampled, which reach beyond the coordinates.

    Returns:
        A dask array (*blocks, 2, D) of float64, to be computed and given to `grid_sample` or
        `map_coordinates` as ``bounds``; x is first.  NaN coordinates are ignored.

    Raises:
        ValueError: the axis is neither -1 nor 0.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> grid = da.from_array(np.linspace(-1, 1, 6).reshape(1, 6, 1), chunks=(1, 3, 1))
        >>> gridsample.dask.coordinate_bounds(grid).compute().round(1).tolist()
        [[[-1.0], [-0.2]], [[0.2], [1.0]]]
    """
    if axis not in (-1, 0):
        raise ValueError(f"axis must be -1 or 0, got {axis!r}")
    points = as_dask(grid, "grid")
    points = as_points(points) if axis == 0 else points
    points = points.rechunk({0: -1, points.ndim - 1: -1})
    out, rank = tuple(points.shape[1:-1]), points.shape[-1]
    image = (1, 1, *([max(n, 1) for n in out] if len(out) == rank else [1] * rank))
    sampling = sampling_of(image, out, coords=coords, antialias=antialias)
    no_image, layout = ChunkLayout(((),) * rank, 1), ChunkLayout.of(points, -1)
    call = SamplingCall(sampling, no_image, points.dtype, points.dtype, grid=layout)
    assert call.grid is not None
    layout = call.grid

    def tasks(common: str) -> Iterator[tuple[Shape, Any]]:
        for index, block in blocks_of(layout.chunks):
            expanded = with_neighbours(sampling, block)
            keys = grid_keys(layout, points.name, expanded)
            yield (*index, 0, 0), (block_bounds, common, BoundsTask(expanded), keys)

    single = tuple((1,) * len(sizes) for sizes in layout.chunks)
    return array_of_tasks("bounds", call, tasks, (*single, (2,), (rank,)), np.float64, [points])


@dataclass(frozen=True, slots=True)
class BoundsTask:
    """The points whose bounds a task computes."""

    block: Block


def block_bounds(call: SamplingCall, task: BoundsTask, chunks: Sequence[Array]) -> Array:
    """Return the bounds of a block of a grid, (1, ..., 2, D); what a task runs."""
    bounds = bounds_of_grid(call.sampling, grid_points(call, task.block, chunks))
    return np.stack(bounds).reshape((1,) * len(task.block) + (2, -1))


def as_points(coordinates: Any) -> Any:
    """Return the coordinates of `map_coordinates`, (D, *out), as a grid (1, *out, D)."""
    if isinstance(coordinates, da.Array):
        # Dask drops what lies before an empty chunk when it reverses an axis.
        coordinates = coordinates.rechunk({0: -1})
    return np.moveaxis(coordinates[::-1], 0, -1)[np.newaxis].astype(np.float64)
