"""Resampling of xarray's DataArrays by their coordinates.

A DataArray goes in and comes out: its name, attributes and all coordinates that are not resampled
are kept, and the new coordinates are those of ``like``.  Arrays of Dask stay lazy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.methods import Mode, listed
from gridsample.fields.displacements import invert
from gridsample.ops.sampling import grid_sample

if TYPE_CHECKING:
    import xarray

__all__ = ["resample"]

Positions = NDArray[np.float64]

# The inversion of curvilinear coordinates, in pixels: it ends at this residual, or after so many
# steps; a point with a larger residual than that counts as outside, and one as near to a pixel's
# centre as that is moved there.
TOLERANCE, MAX_STEPS, MAX_RESIDUAL, SNAP_DISTANCE = 1e-9, 50, 1e-3, 1e-7


def resample(
    image: xarray.DataArray,
    like: Any,
    mode: Mode = "linear",
    padding_mode: Mode = "constant",
    *,
    fill_value: Any = None,
    extrapolate: bool | str = "centers",
    antialias: bool = False,
    missing: str = "propagate",
    threads: int | None = None,
) -> xarray.DataArray:
    """Resample a DataArray to the coordinates of another one.

    Every coordinate that ``image`` and ``like`` both have is resampled, as by
    `xarray.DataArray.interp_like`: an output shows the image where the image's coordinates are
    those of the output.  Between neighbouring coordinates of the image, positions are interpolated
    linearly, so coordinates need not be equidistant.

    * A coordinate with one dimension, such as ``lat(lat)``, must increase or decrease throughout.
    * Coordinates with several dimensions, such as ``lat(y, x)`` and ``lon(y, x)`` of a curvilinear
      grid, are inverted by `gridsample.fields.invert`.  There must be as many of them as
      dimensions, and the grid must not fold.
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
            "centers": none, as in xarray; "edges": up to half a pixel beyond; True: everywhere.
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
    is_filled = extrapolate is not True or "constant" in listed(padding_mode)
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
    if len(positions) > 3:
        raise ValueError(
            f"at most 3 dimensions are resampled at once, got {list(positions)}: resample one "
            "after the other"
        )
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
    steps = np.diff(values)
    if not ((steps > 0).all() or (steps < 0).all()):
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
    sign = 1.0 if values[-1] > values[0] else -1.0
    rising, rising_targets = sign * values, sign * targets
    left = np.clip(np.searchsorted(rising, rising_targets, "right") - 1, 0, len(values) - 2)
    index = left + (rising_targets - rising[left]) / (rising[left + 1] - rising[left])
    return index


def curvilinear(
    coordinates: Sequence[xarray.DataArray],
    targets: Sequence[xarray.DataArray],
    dims: tuple[Hashable, ...],
) -> dict[Hashable, xarray.DataArray]:
    """Invert coordinates with as many dimensions as there are of them.

    An affine map converts coordinates to about the index of their pixel; the rest is a displacement
    field, which `fields.invert` inverts at every pixel.  From there, q <- q + r corrects the
    positions of the targets, r being the residual.
    """
    import xarray

    pairs = [as_numbers(*pair) for pair in zip(coordinates, targets, strict=True)]
    sources = np.stack([source.transpose(*dims).values for source, _ in pairs], -1)
    target_arrays = xarray.broadcast(*(target for _, target in pairs))
    shape = sources.shape[:-1]
    indices = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).astype(np.float64)
    ones = np.ones((*shape, 1))
    known = np.isfinite(sources).all(-1)
    if not known.all():
        raise ValueError(f"the image's coordinates {[c.name for c in coordinates]} have NaN")
    design = np.concatenate([sources, ones], -1).reshape(-1, len(dims) + 1)
    fit, *_ = np.linalg.lstsq(design, indices.reshape(-1, len(dims)), rcond=None)

    def to_pixels(values: Positions) -> Positions:
        result: Positions = values @ fit[:-1] + fit[-1]
        return result

    # Components in x, y order, as fields have them.
    field = (to_pixels(sources) - indices)[..., ::-1][np.newaxis]
    backward = invert(field, iterations=50).field
    target_positions = to_pixels(np.stack([array.values for array in target_arrays], -1))[..., ::-1]
    flat = target_positions.reshape(1, -1, len(dims))
    shifted, inverse, residual = flat.copy(), flat, flat
    for _ in range(MAX_STEPS):
        inverse = shifted + at(backward, shifted)
        residual = flat - inverse - at(field, inverse)
        if not (np.abs(residual) > TOLERANCE).any():
            break
        shifted = shifted + residual
    is_inside = (np.abs(residual) <= MAX_RESIDUAL).all(-1, keepdims=True)
    inverse = np.where(is_inside, inverse, np.nan)
    # The coordinates of a pixel at the edge are not outside.
    nearest = np.rint(inverse)
    inverse = np.where(np.abs(inverse - nearest) < SNAP_DISTANCE, nearest, inverse)
    positions = inverse.reshape(target_positions.shape)[..., ::-1]
    return {
        dim: target_arrays[0].copy(data=positions[..., k]).reset_coords(drop=True)
        for k, dim in enumerate(dims)
    }


def at(field: Positions, points: Positions) -> Positions:
    """Interpolate a displacement field linearly at points (1, n, D) in pixels."""
    sampled: Positions = grid_sample(
        field, points, "linear", "border", coords="pixel", channel_axis=-1
    )
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
