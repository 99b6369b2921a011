"""Sampling of chunked images under affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.chunked.blocks import with_level
from gridsample.chunked.regions import Sampling, level_of, real_type, sampling_of, sum_type
from gridsample.dask.graphs import ChunkLayout, as_dask, chunks_for
from gridsample.dask.lines import filtered, halved
from gridsample.dask.sampling import (
    AS_IT_IS,
    Preparation,
    SamplingCall,
    dry_run,
    map_bounds,
    sampled,
)
from gridsample.dask.splines import image_lines
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MapCoordsName, MissingName
from gridsample.definitions.shapes import check_output, check_theta
from gridsample.ops.affine import check_map_coords


def affine_sample(
    input: Any,
    theta: Any,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: MapCoordsName = "normalized",
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
    channel_axis: int = 1,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Sample a chunked image under an affine map, bitwise as `gridsample.affine_sample` does.

    Args:
        input: the image, (N, C, *spatial): a dask array, or an array with chunks.
        theta: (N, D, D + 1) maps, as in `gridsample.affine_sample`; a NumPy array.
        size: the output's shape, (N, C, *out); C is not used.
        mode, padding_mode, align_corners, coords: as in `gridsample.affine_sample`.
        fill_value, extrapolate, prefilter: as in `gridsample.affine_sample`.
        antialias, max_samples, footprint: as in `gridsample.affine_sample`.
        missing, min_weight, return_weight, channel_axis: as in `gridsample.affine_sample`.
        weights: the weights of pixels, as in `gridsample.grid_sample`, with any chunks or none.
        chunks: the chunks of ``out``, as dask takes them; None for the size of the image's.
        threads: the maximum number of threads of each task; workers have threads of their own.

    Returns:
        A dask array (N, C, *out), or a tuple if ``return_weight`` is set.  N and C have the chunks
        of the image.

    Raises:
        TypeError, ValueError: as in `gridsample.affine_sample`; or the footprints of several maps
            need copies of the image that have been halved more and less often, or missing pixels
            are combined with such copies.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.from_array(np.arange(16.0).reshape(1, 1, 4, 4), chunks=(1, 1, 2, 2))
        >>> mirror = np.array([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> gridsample.dask.affine_sample(image, mirror, (1, 1, 4, 4))[0, 0, 0].compute()
        array([3., 2., 1., 0.])
    """
    image, maps = as_dask(input, "input"), np.asarray(theta)
    shape = check_output(size)
    check_theta(maps.shape, shape)
    check_map_coords(coords)
    options = {
        "coords": coords,
        "fill_value": fill_value,
        "extrapolate": extrapolate,
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "footprint": footprint,
        "missing": missing,
        "min_weight": min_weight,
        "return_weight": return_weight,
        "channel_axis": channel_axis,
        "threads": threads,
        "real": real_type(image.dtype, maps.dtype),
    }
    sampling = sampling_of(image.shape, shape[2:], mode, padding_mode, align_corners, **options)
    return under_maps(image, maps, sampling, chunks, weights)


def under_maps(
    image: Any,
    theta: Any,
    sampling: Sampling,
    chunks: Any,
    weights: Any = None,
    preparation: Preparation = AS_IT_IS,
) -> Any:
    """Make the array of a call with maps."""
    channel_axis = -1 if sampling.options.channels_last() else 1
    first = 1 if channel_axis == -1 else 2
    spatial = image.chunks[first : first + len(sampling.spatial)]
    weight_array = None if weights is None else as_dask(weights, "weights")
    sampling = with_level(sampling, steps_of(theta, sampling))
    dtype = (preparation.dtype or image.dtype).newbyteorder("=")
    lines = preparation.lines or image_lines(sampling, image)
    if level_of(sampling):
        wide = sum_type(dtype, theta.dtype == np.float64)
        image, lines = halved(filtered(image, lines, wide), sampling, first), ()
    layout = ChunkLayout.of(image, channel_axis)
    weight_layout = None if weight_array is None else ChunkLayout.of(weight_array, channel_axis)
    output = preparation.output
    call = SamplingCall(
        sampling, layout, dtype, theta.dtype, theta, None, weight_layout, lines, output
    )
    dry_run(call, image, len(theta), weight_array)
    out_chunks = chunks_for(chunks, sampling.out, spatial, image.dtype)
    bounds = map_bounds(sampling, theta, out_chunks)
    return sampled(image, call, out_chunks, bounds, len(theta), weights=weight_array)


def steps_of(theta: Any, sampling: Sampling) -> list[Any]:
    """Return the differences of coordinates of neighbours along each axis of the result."""
    rank, aligned = len(sampling.out), sampling.options.align_corners
    pixel = sampling.options.coords == "pixel"
    return [
        theta[..., rank - 1 - k].astype(np.float64) * (1.0 if pixel else 2 / max(n - aligned, 1))
        for k, n in enumerate(sampling.out)
    ]
