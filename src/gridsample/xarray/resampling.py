"""Resampling of DataArrays by their coordinates, of one or of several dimensions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.methods import Mode, Padding, listed
from gridsample.definitions.names import MissingName
from gridsample.xarray.coordinates import as_numbers, check_monotonic, index_of
from gridsample.xarray.curvilinear import curvilinear
from gridsample.xarray.values import axis_array, sampled_values

if TYPE_CHECKING:
    import xarray


def resample(
    image: xarray.DataArray,
    like: Any,
    mode: Mode = "linear",
    padding_mode: Padding = "constant",
    *,
    fill_value: Any = None,
    extrapolate: Extrapolate = "centers",
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
            "continue": everywhere, from the first and the last interval; or several, as ``mode``.
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
    ends = extrapolate if isinstance(extrapolate, (tuple, list)) else (extrapolate,)
    has_ends = any(end in ("centers", "edges", False) for end in ends)
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
