"""Resampling of chunked images in millimetres, through matrices, fields and functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, real_type, sampling_of
from gridsample.dask.graphs import as_dask
from gridsample.dask.grids import at_grid
from gridsample.dask.maps import under_maps
from gridsample.dask.sampling import Points
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.lattice import Lattice
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MissingName
from gridsample.definitions.shapes import Shape
from gridsample.fields.arrays import components
from gridsample.fields.paths import BoundedTransform, Path
from gridsample.world import prepare, to_edges


def resample(
    image: Any,
    affine: Any,
    like: tuple[Sequence[int], Any] | Lattice,
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    *,
    axes: str = "ijk",
    fill_value: Any = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Resample a chunked image to the voxels of another one: `gridsample.resample`.

    The bits are those in memory.  No grid is stored: with fields and functions, tasks compute the
    positions of their voxels.

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
    call = prepare(placeholder, affine, like, transform, axes, {})
    check_chunked(call.path)
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
    real = np.dtype(call.path.dtype)
    if call.path.steps:
        points = Points(Follower(call.path, threads), call.path.bounds)
        keywords["real"] = real
        result = at_grid(
            pixels, points, "pixel", None, chunks, call.size[2:], weight_array, **keywords
        )
    else:
        keywords |= {"coords": "pixel", "real": real_type(array.dtype, real)}
        sampling = sampling_of(pixels.shape, call.size[2:], **keywords)
        result = under_maps(pixels, call.path.theta(), sampling, chunks, weight_array)
    first: Shape = (0,) * (2 - call.lead)
    return tuple(part[first] for part in result) if isinstance(result, tuple) else result[first]


def check_chunked(path: Path) -> None:
    """Raise an error unless the bounds of each chunk's positions are known."""
    if not all(isinstance(function, BoundedTransform) for function in path.functions):
        raise ValueError(
            "transform, a function, must state its bounds in chunks: give a "
            "gridsample.world.BoundedTransform(function, bounds)"
        )
    if path.steps and path.items > 1:
        raise ValueError("transform must not be a batch in chunks if it has fields or functions")


@dataclass(frozen=True)
class Follower:
    """The positions of a path, as a function of a `Points`.

    Attributes:
        path: the path.
        threads: the maximum number of threads of a task.
    """

    path: Path
    threads: int | None

    def __call__(self, *indices: Array) -> list[Array]:
        """Return the positions of voxels with some indices; both are x first."""
        ends = [(int(x.flat[0]), int(x.flat[-1])) for x in reversed(indices)]
        block = tuple(slice(first, last + 1) for first, last in ends)
        return components(self.path.positions(block, self.threads)[0], len(indices))
