"""Resampling of chunked images in millimetres, through matrices, fields and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import backend_of
from gridsample.chunked.regions import Array, real_type, sampling_of
from gridsample.dask.graphs import as_dask
from gridsample.dask.grids import at_grid
from gridsample.dask.maps import under_maps
from gridsample.dask.sampling import Points
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.methods import Mode
from gridsample.definitions.shapes import Shape
from gridsample.world import Field, VoxelPath, apply_steps, prepare, to_edges


@dataclass(frozen=True)
class BoundedTransform:
    """A function as a transform of `resample`, with its bounds.

    Attributes:
        function: takes points of the world (1, *shape, D), and returns points of this shape.
        bounds: takes the least and the greatest coordinates (D,) of some points, and returns the
            bounds of the points to which the function maps them, or wider ones.
    """

    function: Callable[[Array], Array]
    bounds: Callable[[Array, Array], tuple[Any, Any]]

    def __call__(self, points: Array) -> Array:
        """Apply the function."""
        return self.function(points)


def resample(
    image: Any,
    affine: Any,
    like: tuple[Sequence[int], Any],
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Any = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: str = ATTACH,
    missing: str = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Resample a chunked image to the voxels of another one: `gridsample.resample`.

    Under matrices, the bits are those in memory.  With fields and functions, no grid is stored:
    tasks compute the positions of their voxels, up to the rounding of products of matrices.

    Args:
        image: (*spatial), (C, *spatial) or (N, C, *spatial): a dask array, or one with chunks.
        affine, like, mode, padding_mode, axes: as in `gridsample.resample`.
        fill_value, extrapolate, prefilter: as in `gridsample.resample`.
        antialias, max_samples, footprint: as in `gridsample.resample`.
        missing, min_weight, return_weight: as in `gridsample.resample`.
        transform: in millimetres; None for the identity, or one of these, or a list of them, of
            which the first is applied first: a matrix, a `gridsample.world.Displacement` whose
            vectors are in memory, a `BoundedTransform`.
        chunks: the chunks of the output's spatial axes; None for the size of the image's.
        weights: the weights of voxels, with as many axes as the image, and any chunks or none.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array with the axes of the image, or a tuple if ``return_weight`` is set.

    Raises:
        TypeError, ValueError: as in `gridsample.resample`; or a transform is a function without
            bounds, or one of several fields for a batch.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.from_array([0.0, 10.0, 20.0], chunks=2)  # a voxel every 2 mm
        >>> affine, each_mm = [[2.0, 0.0], [0.0, 1.0]], ((4,), [[1.0, 1.0], [0.0, 1.0]])
        >>> gridsample.dask.resample(image, affine, each_mm).compute()
        array([ 5., 10., 15., 20.])
        >>> mirrored = gridsample.dask.BoundedTransform(
        ...     lambda points: 5 - points, lambda low, high: (5 - high, 5 - low)
        ... )
        >>> gridsample.dask.resample(image, affine, each_mm, mirrored).compute()
        array([20., 15., 10.,  5.])
    """
    array = as_dask(image, "image")
    placeholder = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    call = prepare(placeholder, affine, like, transform, axes, {}, split_path)
    assert call.theta is not None
    new_axes = (np.newaxis,) * (2 - call.lead)
    pixels = array[new_axes]
    weight_array = None if weights is None else as_dask(weights, "weights")[new_axes]
    keywords: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "fill_value": fill_value,
        "extrapolate": to_edges(extrapolate),
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "footprint": footprint,
        "missing": missing,
        "min_weight": min_weight,
        "return_weight": return_weight,
        "threads": threads,
    }
    if call.grid is None:
        keywords |= {"coords": "pixel", "real": real_type(array.dtype, call.theta.dtype)}
        sampling = sampling_of(pixels.shape, call.size[2:], **keywords)
        result = under_maps(pixels, call.theta, sampling, chunks, weight_array)
    else:
        points = Points(call.grid.positions, call.grid.bounds)
        result = at_grid(
            pixels, points, "pixel", None, chunks, call.size[2:], weight_array, **keywords
        )
    first: Shape = (0,) * (2 - call.lead)
    return tuple(part[first] for part in result) if isinstance(result, tuple) else result[first]


def split_path(path: VoxelPath, dtype: Any) -> tuple[Any, PositionFunction | None]:
    """Return the maps that a path begins with, and the positions if it has more steps, or None."""
    maps, steps = path.split()
    if not steps:
        return maps, None
    for step in steps:
        if callable(step) and not isinstance(step, BoundedTransform):
            raise ValueError(
                "transform, a function, must state its bounds in chunks: give a "
                "gridsample.dask.BoundedTransform(function, bounds)"
            )
        arrays = [step.vectors, step.voxels] if isinstance(step, Field) else [step]
        if not callable(step) and any(len(array) > 1 for array in arrays):
            raise ValueError(
                "transform must not be a batch in chunks if it has fields or functions"
            )
    return maps, PositionFunction(np.asarray(maps).astype(dtype), steps)


class PositionFunction(NamedTuple):
    """The positions in the image of the voxels of the output, as a function of their indices.

    Attributes:
        maps: (1, D, D + 1), the first step, in the dtype of the positions.
        steps: matrices (1, D + 1, D + 1), fields and functions.
    """

    maps: Array
    steps: Sequence[Any]

    def positions(self, *indices: Array) -> list[Array]:
        """Return the positions of voxels with some indices; both are x first."""
        rank, dtype = len(indices), self.maps.dtype
        lines = []
        for row in self.maps[0]:
            line = row[rank]
            for d in range(rank - 1, -1, -1):  # in the order of the grid in memory
                line = line + row[d] * indices[d].astype(dtype)
            lines.append(line)
        points = np.stack(np.broadcast_arrays(*lines), -1)[np.newaxis]
        points = apply_steps(backend_of(points=points), self.steps, points)
        return [points[0, ..., d] for d in range(rank)]

    def bounds(self, first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        """Bound the positions of voxels between two indices; all are x first."""
        ends = np.array([first, last], np.float64)
        low, high = self.bounds_under(self.maps[0], *ends)
        for step in self.steps:
            if isinstance(step, Field):
                lowest, highest = extremes(step, *self.bounds_under(step.voxels[0, :-1], low, high))
                low, high = self.widen(low + lowest, high + highest)
            elif callable(step):
                low, high = (np.asarray(x, np.float64) for x in step.bounds(low, high))
            else:
                low, high = self.bounds_under(step[0, :-1], low, high)
        return low, high

    def bounds_under(self, matrix: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Bound the points that a matrix (D, D + 1) maps a box to, given two of its corners."""
        matrix64 = matrix.astype(np.float64)
        terms = np.stack([matrix64[:, :-1] * low, matrix64[:, :-1] * high])
        size = np.abs(terms).max(0).sum(-1) + np.abs(matrix64[:, -1])
        error = 16 * np.finfo(self.maps.dtype).eps * size
        lowest, highest = terms.min(0).sum(-1), terms.max(0).sum(-1)
        return lowest + matrix64[:, -1] - error, highest + matrix64[:, -1] + error

    def widen(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Extend bounds by the rounding of sums."""
        error = 16 * np.finfo(self.maps.dtype).eps * np.maximum(np.abs(low), np.abs(high))
        return low - error, high + error


def extremes(field: Field, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the least and the greatest vectors of a field between voxels, 0 among them."""
    vectors = np.asarray(field.vectors)[0]
    rank = vectors.ndim - 1
    box = tuple(
        slice(max(math.floor(low[rank - 1 - k]), 0), max(math.ceil(high[rank - 1 - k]) + 1, 0))
        for k in range(rank)
    )
    nearby = vectors[box].reshape(-1, rank).astype(np.float64)
    return nearby.min(0, initial=0.0), nearby.max(0, initial=0.0)
