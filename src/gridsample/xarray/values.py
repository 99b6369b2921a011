"""Values of arrays with named dimensions, sampled at positions in pixels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.ops.sampling import grid_sample

if TYPE_CHECKING:
    import xarray


def axis_array(positions: xarray.DataArray | xarray.Variable, new_dims: Sequence[Hashable]) -> Any:
    """Return positions with an axis for each new dimension, of length 1 where they are equal."""
    data = positions.transpose(*[dim for dim in new_dims if dim in positions.dims]).data
    return data[tuple([slice(None) if dim in positions.dims else None for dim in new_dims])]


def sampled_values(
    image: xarray.DataArray | xarray.Variable,
    positions: Mapping[Hashable, Any],
    new_dims: Sequence[Hashable],
    options: dict[str, Any],
) -> Any:
    """Sample the last dimensions of an image at positions in pixels.

    Args:
        image: the image, whose last dimensions are those of ``positions``, in this order.
        positions: for each dimension, the positions of all outputs.
        new_dims: the dimensions of the outputs.
        options: options of `grid_sample`.
    """
    data, rank = image.data, len(positions)
    leading, spatial = data.shape[: data.ndim - rank], data.shape[data.ndim - rank :]
    shape = np.broadcast_shapes(*(array.shape for array in positions.values()))
    is_lazy = any(hasattr(array, "dask") for array in positions.values())
    planes = data.reshape(1, -1, *spatial)
    if image.chunks is None and not is_lazy:
        lines = [np.broadcast_to(array, shape) for array in positions.values()][::-1]
        grid = np.stack(lines, -1)[np.newaxis]
        result = grid_sample(planes, grid, coords="pixel", **options)
    else:
        result = sampled_chunks(image, planes, [*positions.values()][::-1], new_dims, options)
    return result.reshape(*leading, *shape)


def sampled_chunks(
    image: xarray.DataArray | xarray.Variable,
    planes: Any,
    lines: Sequence[Any],
    new_dims: Sequence[Hashable],
    options: dict[str, Any],
) -> Any:
    """Sample a Dask array; the grid is made chunk by chunk, in chunks of about the image's size.

    The positions along each axis, ``lines``, are x first, and broadcast to the outputs.
    """
    import dask.array as da

    from gridsample import dask

    shape = np.broadcast_shapes(*(line.shape for line in lines))
    sizes = dict(zip(image.dims, getattr(image.data, "chunksize", image.shape), strict=True))
    others = [sizes[dim] for dim in image.dims[-len(lines) :]]
    defaults = (others[min(k, len(others) - 1)] for k in range(len(new_dims)))
    along = [sizes.get(dim, n) for dim, n in zip(new_dims, defaults, strict=True)]
    chunks = da.core.normalize_chunks(list(map(min, along, shape)), shape)
    broadcast_lines = [
        da.broadcast_to(line, shape).rechunk(chunks)
        if isinstance(line, da.Array)
        else da.from_array(np.broadcast_to(line, shape), chunks, name=False)
        for line in lines
    ]
    grid = da.stack(broadcast_lines, -1)[np.newaxis]
    bounds = dask.coordinate_bounds(grid, coords="pixel", antialias=options["antialias"])
    in_memory = not any(isinstance(line, da.Array) for line in lines)
    bounds = bounds.compute(**({"scheduler": "sync"} if in_memory else {}))
    if options["threads"] is None:
        options = {name: value for name, value in options.items() if name != "threads"}
    return dask.grid_sample(planes, grid, coords="pixel", bounds=bounds, **options)
