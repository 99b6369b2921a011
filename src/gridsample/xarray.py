"""Resampling of xarray's DataArrays by their coordinates.

A DataArray goes in and comes out: its name, attributes and all coordinates that are not resampled
are kept, and the new coordinates are those of ``like``.  Arrays of Dask stay lazy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridsample.backends import backend_of
from gridsample.definitions.knots import is_monotonic
from gridsample.definitions.methods import Mode, Padding, listed
from gridsample.definitions.names import EndName, MissingName
from gridsample.fields.arrays import cells_of, determinant, solve
from gridsample.fields.conversions import to_pixel
from gridsample.ops.derivatives import grid_gradient
from gridsample.ops.sampling import grid_sample

if TYPE_CHECKING:
    import xarray

__all__ = ["resample"]

Positions = NDArray[np.float64]

# The inversion of curvilinear coordinates, in pixels: it ends at this residual, or after so many
# steps, or with a step this short; a point with a larger residual than that counts as outside, and
# one as near to a pixel's centre as that is moved there; a cell with less area has none.
TOLERANCE, MAX_STEPS, SHORTEST, MAX_RESIDUAL, SNAP_DISTANCE = 1e-9, 50, 1e-6, 1e-3, 1e-7
SLIVER = 1e-9
# By the number of dimensions, how many pixels along each of them the inversion may start from, and
# how many are looked up to see whether coordinates overlap.
STARTS, CHECKED = {2: 16, 3: 7}, {2: 150, 3: 28}
# How many targets are compared with these pixels at once.
BLOCK = 4096


def resample(
    image: xarray.DataArray,
    like: Any,
    mode: Mode = "linear",
    padding_mode: Padding = "constant",
    *,
    fill_value: Any = None,
    extrapolate: bool | EndName = "centers",
    antialias: bool = False,
    missing: MissingName = "propagate",
    threads: int | None = None,
) -> xarray.DataArray:
    """Resample a DataArray to the coordinates of another one.

    Every coordinate that ``image`` and ``like`` both have is resampled, as by
    `xarray.DataArray.interp_like`: an output shows the image where the image's coordinates are
    those of the output.  Between neighbouring coordinates of the image, positions are interpolated
    linearly, so coordinates need not be equidistant.

    * A coordinate with one dimension, such as ``lat(lat)``, must increase or decrease throughout.
    * Coordinates with several dimensions, such as ``lat(y, x)`` and ``lon(y, x)`` of a curvilinear
      grid, are inverted by Newton's method.  There must be as many of them as dimensions, and
      different pixels must have different coordinates: the grid must not fold or overlap.
    * Those of ``like`` may have any dimensions: along tracks, or curvilinear.  If they are Dask
      arrays, their bounds are computed at once, and the result is lazy.

    Args:
        image: real or complex numbers, bool or labels, in a NumPy or Dask array.  Up to
            three dimensions are resampled, the others are kept.
        like: a DataArray or a Dataset, or a dictionary of coordinates, whose values are arrays with
            one dimension or DataArrays.
        mode: the interpolation method, as in `gridsample.grid_sample`; "label" for classes.
            Several are in the *opposite* order of the image's dimensions, as x, y, z.
        padding_mode: the boundary, as in `grid_sample`, such as "border" or "wrap".
        fill_value: the value outside; None for NaN, or 0 for integers.
        extrapolate: whether there are values beyond the outermost coordinates, as in `grid_sample`:
            "centers": none, as in xarray; "edges": up to half a pixel beyond; True: everywhere;
            "continue": everywhere, from the first and the last interval.
        antialias, missing, threads: as in `grid_sample`.

    Returns:
        A DataArray with the dtype, name and attributes of the image.  A dimension of ``like``
        stands where the image's dimension of that name was, or else where the first dimension was
        that the result does not have.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`, or image is not a DataArray.
        ValueError: there is no common coordinate, or one cannot be inverted.

    Example:
        >>> import numpy as np, xarray, gridsample.xarray
        >>> image = xarray.DataArray([0.0, 10.0, 40.0], {"x": [0.0, 1.0, 3.0]})
        >>> gridsample.xarray.resample(image, {"x": [0.5, 2.0, 4.0]}).values
        array([ 5., 25., nan])
    """
    import xarray

    if not isinstance(image, xarray.DataArray):
        raise TypeError(f"image must be an xarray.DataArray, got {type(image).__name__}")
    targets = targets_of(image, like)
    positions = positions_of(image, targets)
    sampled_dims = [dim for dim in image.dims if dim in positions]
    new_dims = list(dict.fromkeys(name for dim in sampled_dims for name in positions[dim].dims))
    kept_dims = [dim for dim in image.dims if dim not in positions]
    if common := set(new_dims) & set(kept_dims):
        raise ValueError(
            f"like's coordinates have the dimensions {sorted(map(str, common))}, which the image "
            "keeps; rename them in like"
        )
    has_ends = extrapolate in ("centers", "edges", False)
    is_filled = has_ends or "constant" in listed(padding_mode)
    if fill_value is None:
        fill_value = np.nan if image.dtype.kind in "fc" and is_filled else 0
    order = output_dims(list(image.dims), sampled_dims, new_dims)
    values = sampled_values(
        image.transpose(*kept_dims, *sampled_dims),
        {dim: axis_array(positions[dim], new_dims) for dim in sampled_dims},
        new_dims,
        {
            "mode": mode,
            "padding_mode": padding_mode,
            "fill_value": fill_value,
            "extrapolate": extrapolate,
            "antialias": antialias,
            "missing": missing,
            "threads": threads,
        },
    )
    coordinates = {
        name: coordinate
        for name, coordinate in image.coords.items()
        if name not in targets and not set(coordinate.dims) & set(sampled_dims)
    }
    coordinates |= new_coordinates(like, targets, new_dims)
    result = xarray.DataArray(
        values, coordinates, (*kept_dims, *new_dims), name=image.name, attrs=dict(image.attrs)
    )
    return result.transpose(*order)


# Coordinates --------------------------------------------------------------------------------------


def targets_of(image: xarray.DataArray, like: Any) -> dict[Hashable, xarray.DataArray]:
    """Return the coordinates of ``like`` that the image also has, by name."""
    import xarray

    if isinstance(like, Mapping) and not isinstance(like, xarray.Dataset):
        named = {
            name: value
            if isinstance(value, xarray.DataArray)
            else xarray.DataArray(np.asarray(value), dims=(name,) * np.ndim(value))
            for name, value in like.items()
        }
        unknown = [name for name in named if name not in image.coords]
        if unknown:
            raise ValueError(
                f"like has coordinates {unknown}, but the image has {list(image.coords)}"
            )
    elif isinstance(like, (xarray.DataArray, xarray.Dataset)):
        named = {name: like.coords[name] for name in like.coords if name in image.coords}
    else:
        raise TypeError(
            "like must be a DataArray, a Dataset or a dictionary of coordinates, got "
            f"{type(like).__name__}"
        )
    chosen = {name: value for name, value in named.items() if image.coords[name].ndim > 0}
    # Names such as "station" are no positions.
    chosen = {name: value for name, value in chosen.items() if value.dtype.kind in "biufmM"}
    if not chosen:
        raise ValueError(
            f"like has none of the image's coordinates {list(image.coords)} that are numbers or "
            "times"
        )
    return chosen


def positions_of(
    image: xarray.DataArray, targets: Mapping[Hashable, xarray.DataArray]
) -> dict[Hashable, xarray.DataArray]:
    """Return the positions in pixels along each dimension that is resampled."""
    positions: dict[Hashable, xarray.DataArray] = {}
    groups: dict[tuple[Hashable, ...], list[Hashable]] = {}
    for name, target in targets.items():
        groups.setdefault(tuple(image.coords[name].dims), []).append(name)
        if image.coords[name].dtype.kind != target.dtype.kind and target.dtype.kind in "mM":
            raise ValueError(f"the coordinate {name!r} is a time in like, but not in the image")
    if (rank := sum(map(len, groups))) > 3:
        raise ValueError(
            f"at most 3 dimensions are resampled at once, got {rank}: resample one after the other"
        )
    for dims, names in groups.items():
        if len(names) != len(dims) or any(dim in positions for dim in dims):
            raise ValueError(
                f"the coordinates {names} have the dimensions {list(dims)}; there must be one "
                "coordinate for each dimension: leave some out of like, such as by drop_vars"
            )
        coordinates = [image.coords[name] for name in names]
        if len(dims) == 1:
            source, target = as_numbers(coordinates[0], targets[names[0]])
            check_monotonic(source.values, names[0])
            index = partial(index_of, source.values)
            lazy = target.chunks is not None
            position = target.copy(
                data=target.data.map_blocks(index, dtype=np.float64) if lazy else index(target.data)
            )
            positions[dims[0]] = position.reset_coords(drop=True)
        else:
            positions |= curvilinear(coordinates, [targets[name] for name in names], dims)
    return positions


def as_numbers(*arrays: xarray.DataArray) -> list[xarray.DataArray]:
    """Convert coordinates to float64; times to seconds since the first coordinate's first."""
    if arrays[0].dtype.kind not in "mM":
        return [array.astype(np.float64) for array in arrays]
    start = arrays[0].values.flat[0]
    return [
        array.copy(data=(array.data - start) / np.timedelta64(1, "s")).astype(np.float64)
        for array in arrays
    ]


def check_monotonic(values: Positions, name: Hashable) -> None:
    """Raise an error unless coordinates increase, or decrease, throughout."""
    if not is_monotonic(values):
        raise ValueError(
            f"the image's coordinate {name!r} must increase or decrease throughout; sort it by "
            f"image.sortby({name!r})"
        )


def index_of(values: Positions, targets: Positions) -> Positions:
    """Return the positions of targets among values, in pixels, also beyond the ends.

    >>> index_of(np.array([0.0, 1.0, 3.0]), np.array([-1.0, 2.0, 3.0, 5.0]))
    array([-1. ,  1.5,  2. ,  3. ])
    """
    if len(values) == 1:  # only the coordinate itself has a position
        index: Positions = np.where(targets == values[0], 0.0, np.inf)
        return np.where(np.isnan(targets), np.nan, index)
    positions: Positions = to_pixel(targets[..., np.newaxis], coords=(values,))[..., 0]
    return positions


def curvilinear(
    coordinates: Sequence[xarray.DataArray],
    targets: Sequence[xarray.DataArray],
    dims: tuple[Hashable, ...],
) -> dict[Hashable, xarray.DataArray]:
    """Invert coordinates with as many dimensions as there are of them.

    Coordinates are interpolated linearly between pixels, and extended linearly beyond the image.
    """
    import xarray

    pairs = [as_numbers(*pair) for pair in zip(coordinates, targets, strict=True)]
    sources = np.stack([source.transpose(*dims).values for source, _ in pairs], -1)
    target_arrays = xarray.broadcast(*(target for _, target in pairs))
    names = [coordinate.name for coordinate in coordinates]
    if not np.isfinite(sources).all() or min(sources.shape[:-1]) < 2:
        raise ValueError(
            f"the image's coordinates {names} must be finite, and have two pixels or more along "
            f"each dimension, got the shape {sources.shape[:-1]} and {np.isnan(sources).sum()} NaN"
        )
    unit = pixel_size(sources)
    sources = sources / unit
    check_folds(sources, names)
    points = np.stack([array.values for array in target_arrays], -1) / unit
    points[~np.isfinite(points)] = np.nan
    positions, residual = located(sources, points.reshape(-1, len(dims)))
    positions = np.where(residual[:, np.newaxis] <= MAX_RESIDUAL, positions, np.nan)
    # The coordinates of a pixel at the edge are not outside.
    nearest = np.rint(positions)
    positions = np.where(np.abs(positions - nearest) < SNAP_DISTANCE, nearest, positions)
    positions = positions.reshape(points.shape)
    return {
        dim: target_arrays[0].copy(data=positions[..., k]).reset_coords(drop=True)
        for k, dim in enumerate(dims)
    }


def pixel_size(sources: Positions) -> Positions:
    """Return the root mean square of the steps of each coordinate (*shape, D) to a neighbour."""
    rank = sources.shape[-1]
    steps = [np.diff(sources, axis=k).reshape(-1, rank) for k in range(rank)]
    sizes: Positions = np.sqrt(np.square(np.concatenate(steps)).mean(0))
    return np.where(sizes > 0, sizes, 1.0)


def check_folds(sources: Positions, names: Sequence[Hashable]) -> None:
    """Raise an error unless each position (*shape, D) has its own coordinates.

    The cells between pixels must have the same orientation, at each of their corners, and some of
    the pixels are looked up by their coordinates, as coordinates may also overlap from afar.
    """
    rank, shape = sources.shape[-1], sources.shape[:-1]
    most, least = 0.0, 0.0
    for corner in itertools.product((0, 1), repeat=rank):
        sides = []
        for k in range(rank):
            part = [slice(c, c + n - 1) for c, n in zip(corner, shape, strict=True)]
            part[k] = slice(None)
            sides.append(np.diff(sources[tuple(part)], axis=k))
        areas = determinant(cells_of(np.stack(sides, -1), rank))
        most, least = max(most, float(areas.max())), min(least, float(areas.min()))
    if min(most, -least) > SLIVER or max(most, -least) <= SLIVER:
        raise ValueError(
            f"the image's coordinates {names} fold, or do not vary: several pixels have the same "
            "coordinates; longitudes must not jump, as from 180 to -180; otherwise resample the "
            "parts of the image that do not fold"
        )
    indices = spread(shape, CHECKED[rank])
    positions, _ = located(sources, sources[tuple(indices.T)])
    last = np.array(shape) - 1
    # The ends of a closed ring have the same coordinates, but no area in common.
    is_inner = ((indices > 0) & (indices < last)).all(-1)
    lost = is_inner & (np.abs(positions - indices) > MAX_RESIDUAL).any(-1)
    if lost.any():
        raise ValueError(
            f"the image's coordinates {names} overlap, or bend too much to be inverted: those of "
            f"the pixel {tuple(indices[lost][0].tolist())} are also those of another one, or are "
            "not found again; resample parts of the image"
        )


def located(sources: Positions, targets: Positions) -> tuple[Positions, Positions]:
    """Return where coordinates (*shape, D) are targets (n, D), and how far they are from them."""
    last = np.array(sources.shape[:-1]) - 1
    positions, distance = descended(sources, targets, nearest_pixels(sources, targets))

    def retry(chosen: NDArray[np.bool_], starts: Positions) -> None:
        """Look for some targets from other positions, which are accepted in the image only."""
        found, rest = descended(sources, targets[chosen], starts)
        inside = ((found >= 0) & (found <= last)).all(-1) & (rest <= MAX_RESIDUAL)
        better = np.flatnonzero(chosen)[inside]
        positions[better], distance[better] = found[inside], rest[inside]

    # A position beyond an end of the image, where coordinates are extended, may also be at the
    # other end: rings are closed.
    for axis, size in enumerate(last + 1):
        for beyond, half in (
            (positions[:, axis] < 0, slice(size // 2, size)),
            (positions[:, axis] > size - 1, slice(0, size // 2)),
        ):
            part = sources[(slice(None),) * axis + (half,)]
            offset = np.eye(len(last))[axis] * half.start
            retry(beyond, nearest_pixels(part, targets[beyond]) + offset)
    # A descent may end where slopes change; it does not from the centre of the right cell.
    for step in itertools.product((0, -1, 1), repeat=len(last)):
        stuck = distance > MAX_RESIDUAL
        retry(stuck, np.clip(np.floor(positions[stuck]) + step, 0, last - 1) + 0.5)
    return positions, distance


def descended(
    sources: Positions, targets: Positions, positions: Positions
) -> tuple[Positions, Positions]:
    """Find positions by Newton's method from given ones; see `located`.

    A step is taken where it brings the coordinates nearer; elsewhere the next one is half as long.
    """
    values, slopes = coordinates_at(sources, positions)
    error, length = values - targets, np.ones(len(targets))
    distance = np.linalg.norm(error, axis=-1)
    for _ in range(MAX_STEPS):
        active = np.flatnonzero((distance > TOLERANCE) & (length > SHORTEST))
        if not active.size:
            break
        backend = backend_of(targets=targets)
        cells = cells_of(slopes[active], len(sources.shape) - 1)
        steps = np.stack(solve(backend, cells, [*error[active].T]), -1)
        trial = positions[active] - length[active, np.newaxis] * steps
        values, new_slopes = coordinates_at(sources, trial)
        new_error = values - targets[active]
        new_distance = np.linalg.norm(new_error, axis=-1)
        better = new_distance < distance[active]
        taken = active[better]
        positions[taken], slopes[taken] = trial[better], new_slopes[better]
        error[taken], distance[taken] = new_error[better], new_distance[better]
        length[active] = np.minimum(1.0, length[active] * np.where(better, 2.0, 0.5))
    return positions, distance


def nearest_pixels(sources: Positions, targets: Positions) -> Positions:
    """Return the index of the pixel nearest to each target (n, D), of some that are spread out."""
    rank, shape = sources.shape[-1], sources.shape[:-1]
    indices = spread(shape, STARTS[rank])
    known = sources[tuple(indices.T)]
    result = np.zeros(targets.shape)
    half = np.square(known).sum(-1) / 2
    for start in range(0, len(targets), BLOCK):
        part = slice(start, start + BLOCK)
        result[part] = indices[np.argmin(half - targets[part] @ known.T, axis=-1)]
    return result


def spread(shape: Sequence[int], count: int) -> NDArray[np.intp]:
    """Return the indices (n, D) of pixels, ``count`` along an axis at most, with those at its ends.

    >>> spread((7,), 3).tolist()
    [[0], [3], [6]]
    """
    lines = [np.unique(np.linspace(0, n - 1, count).round().astype(int)) for n in shape]
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, len(shape))


def coordinates_at(sources: Positions, positions: Positions) -> tuple[Positions, Positions]:
    """Return coordinates at positions (n, D), and their derivatives (n, D, D), axes last."""
    last = np.array(sources.shape[:-1], np.float64) - 1
    inside = np.clip(positions, 0, last)
    values = at(grid_sample, sources, inside)
    # At the edge, those of the cell beside it.
    in_cells = np.clip(positions, SLIVER, last - SLIVER)
    slopes = at(grid_gradient, sources, in_cells)[..., ::-1]
    beyond = (positions - inside)[..., np.newaxis]
    return values + (slopes @ beyond)[..., 0], slopes


def at(operation: Callable[..., Any], sources: Positions, positions: Positions) -> Positions:
    """Interpolate coordinates linearly, or their derivatives, at positions (n, D) in pixels."""
    grid = np.ascontiguousarray(positions[np.newaxis, :, ::-1])
    options: dict[str, Any] = {"coords": "pixel", "channel_axis": -1}
    sampled: Positions = operation(sources[np.newaxis], grid, "linear", "border", **options)[0]
    return sampled


def new_coordinates(
    like: Any, targets: Mapping[Hashable, xarray.DataArray], new_dims: Sequence[Hashable]
) -> dict[Hashable, xarray.DataArray]:
    """Return the coordinates of the result that come from ``like``."""
    others = getattr(like, "coords", {})
    along = {
        name: coordinate
        for name, coordinate in others.items()
        if coordinate.dims and set(coordinate.dims) <= set(new_dims)
    }
    return {name: value.variable for name, value in {**along, **targets}.items()}


# Values -------------------------------------------------------------------------------------------


def output_dims(
    dims: Sequence[Hashable], sampled_dims: Sequence[Hashable], new_dims: Sequence[Hashable]
) -> list[Hashable]:
    """Return the order of the result's dimensions.

    >>> output_dims(["t", "lat", "lon"], ["lat", "lon"], ["lon", "lat"])
    ['t', 'lat', 'lon']
    >>> output_dims(["lat", "lon", "t"], ["lat", "lon"], ["point"])
    ['point', 't']
    >>> output_dims(["t", "lat", "lon"], ["t", "lat", "lon"], ["t", "y", "x"])
    ['t', 'y', 'x']
    """
    order: list[Hashable] = []
    replaced = [dim for dim in sampled_dims if dim not in new_dims] or sampled_dims
    for dim in dims:
        if dim == replaced[0]:
            order += [name for name in new_dims if name not in sampled_dims]
        if dim not in sampled_dims or dim in new_dims:
            order.append(dim)
    return order


def axis_array(positions: xarray.DataArray, new_dims: Sequence[Hashable]) -> Any:
    """Return positions with an axis for each new dimension, of length 1 where they are equal."""
    data = positions.transpose(*[dim for dim in new_dims if dim in positions.dims]).data
    return data[tuple([slice(None) if dim in positions.dims else None for dim in new_dims])]


def sampled_values(
    image: xarray.DataArray,
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
    image: xarray.DataArray,
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
