"""Conservative regridding of DataArrays and Datasets along rectilinear coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from gridsample.definitions.cells import CellOverlaps, bounds_between
from gridsample.ops.conservative import regrid_conservative as regrid
from gridsample.xarray.axes import is_latitude, is_longitude
from gridsample.xarray.coordinates import as_floats

if TYPE_CHECKING:
    import xarray

    T = TypeVar("T", xarray.DataArray, xarray.Dataset)

TURN = 360.0
# The kinds of dtypes of which means are computed.
NUMBERS = "biufc"
ARRAY = "<this array>"


def regrid_conservative(
    obj: T,
    target: Any,
    *,
    spherical: bool = True,
    skipna: bool = True,
    min_weight: float = 0.0,
    chunks: Mapping[Any, int] | None = None,
    threads: int | None = None,
) -> T:
    """Compute means over the cells of another rectilinear grid, which preserve integrals.

    A result is the mean of the values that its cell overlaps, weighted by the areas of the overlaps
    (`gridsample.regrid_conservative`).  Every dimension is regridded whose coordinate ``target``
    also has, with other numbers.  Arrays of Dask stay lazy, and each chunk reads the chunks that it
    needs; its values do not depend on how arrays are divided.

    Bounds of cells are those that a coordinate's attribute "bounds" names, as in the CF
    conventions, or a variable such as ``lat_b`` for ``lat``, as for xESMF; otherwise they are in
    the middle between coordinates.

    Args:
        obj: the DataArray or Dataset.  Coordinates increase or decrease.
        target: a Dataset or a DataArray with the new coordinates, or a dictionary of them.
        spherical: whether the areas of a sphere count: along latitudes in degrees, differences of
            their sines, and longitudes have the period 360.  They are recognized by their names
            ("lat", "latitude", "lon", "longitude"), standard names or units.
        skipna: whether NaN is left out of means.
        min_weight: a result is NaN unless more than this share of its cell, from 0 to below 1, is
            covered by values; 1 minus the ``nan_threshold`` of xarray-regrid.
        chunks: the sizes of the chunks of a lazy result along new coordinates, by name; by default
            as much of an axis as the chunks of ``obj``.
        threads: as in `gridsample.grid_sample`; with Dask, the threads of each task (by default 1).

    Returns:
        An object like ``obj``, with its name, attributes and other coordinates.  bool and integers
        become float64.  Variables of a Dataset that are not numbers are left out if they have a
        dimension that is regridded.

    Raises:
        TypeError: obj is no DataArray or Dataset, or does not hold numbers.
        ValueError: there is no common coordinate, or coordinates do not increase or decrease.

    Example:
        >>> import numpy as np, xarray, gridsample.xarray
        >>> lat, lon = [-67.5, -22.5, 22.5, 67.5], np.arange(0.0, 360, 90)
        >>> heat = xarray.DataArray(np.ones((4, 4)), {"lat": lat, "lon": lon}, name="heat")
        >>> heat[0] = np.nan
        >>> target = {"lat": [-45.0, 45.0], "lon": [-90.0, 90.0]}
        >>> gridsample.xarray.regrid_conservative(heat, target).values
        array([[1., 1.],
               [1., 1.]])
        >>> gridsample.xarray.regrid_conservative(heat, target, skipna=False).values
        array([[nan, nan],
               [ 1.,  1.]])
    """
    import xarray

    source: Any = obj
    is_dataset = isinstance(source, xarray.Dataset)
    if not is_dataset and not isinstance(source, xarray.DataArray):
        raise TypeError(f"obj must be a DataArray or a Dataset, got {type(source).__name__}")
    if not is_dataset and source.dtype.kind not in NUMBERS:
        raise TypeError(f"means are of numbers, got a DataArray of {source.dtype}")
    dataset: xarray.Dataset = source if is_dataset else source.to_dataset(name=ARRAY)
    goal: xarray.Dataset = dataset_of(target)
    axes = axes_of(dataset, goal, spherical)
    regridding = Regridding(axes, skipna, min_weight, dict(chunks or {}), threads, {})
    bounds = {bounds_name(dataset, name) for name in axes}
    kept: dict[Hashable, Any] = {}
    for name, variable in dataset.variables.items():
        if set(variable.dims).isdisjoint(axes) or name in axes:
            kept[name] = variable
        elif name in dataset.data_vars and name not in bounds and variable.dtype.kind in NUMBERS:
            kept[name] = regridding(variable)
    for name in axes:
        kept[name] = goal.variables[name]
        other = bounds_name(goal, name)
        if is_dataset and other is not None:
            kept[other] = goal.variables[other]
    coordinates = {name for name in kept if name in dataset.coords or name not in dataset}
    result: Any = xarray.Dataset(
        {name: value for name, value in kept.items() if name not in coordinates},
        {name: kept[name] for name in coordinates},
        dataset.attrs,
    )
    return cast("T", result if is_dataset else result[ARRAY].rename(source.name))


# Cells --------------------------------------------------------------------------------------------


class CellAxis(NamedTuple):
    """A dimension that is regridded: the arguments of `CellOverlaps` for an axis."""

    source: Any
    target: Any
    measure: str
    period: float | None


def dataset_of(target: Any) -> xarray.Dataset:
    """Return the new coordinates as a Dataset."""
    import xarray

    if isinstance(target, xarray.DataArray):
        return target.coords.to_dataset()
    if isinstance(target, xarray.Dataset):
        return target
    if isinstance(target, Mapping):
        return xarray.Dataset(coords=target)
    raise TypeError(
        f"target must be a Dataset, a DataArray or a dictionary, got {type(target).__name__}"
    )


def axes_of(
    dataset: xarray.Dataset, goal: xarray.Dataset, spherical: bool
) -> dict[Hashable, CellAxis]:
    """Return the dimensions that are regridded, by name."""
    axes = {}
    common = [name for name in dataset.dims if name in dataset.indexes and name in goal.indexes]
    for name in common:
        given = [bounds_name(each, name) for each in (dataset, goal)]
        if given == [None, None] and dataset.indexes[name].equals(goal.indexes[name]):
            continue
        is_degree = str(dataset[name].attrs.get("units", "degree")).startswith("degree")
        on_sphere = spherical and is_degree
        measure = "latitude" if on_sphere and is_latitude(dataset, name) else "length"
        period = TURN if on_sphere and is_longitude(dataset, name) else None
        start = dataset.variables[name].values[0]
        source, target = (bounds_of(each, name, start, measure) for each in (dataset, goal))
        axes[name] = CellAxis(source, target, measure, period)
    if not axes and not common:
        raise ValueError(
            f"target has none of the coordinates of obj's dimensions, {tuple(dataset.dims)}; got "
            f"{tuple(goal.coords)}"
        )
    return axes


def bounds_name(dataset: xarray.Dataset, name: Hashable) -> Hashable | None:
    """Return the name of the variable with the bounds of a coordinate's cells, or None."""
    coordinate = dataset.variables[name]
    stated = coordinate.attrs.get("bounds", coordinate.encoding.get("bounds"))
    found = [each for each in (stated, f"{name}_b") if each in dataset.variables]
    return found[0] if found else None


def bounds_of(dataset: xarray.Dataset, name: Hashable, start: Any, measure: str) -> Any:
    """Return the bounds of the cells of a coordinate as numbers; times are since a start."""
    given = bounds_name(dataset, name)
    values = dataset.variables[name if given is None else given].values
    numbers = values if values.dtype.kind in "iuf" else as_floats(values, start)
    if given is not None:
        return numbers
    return bounds_between(numbers, measure, f"the coordinate {name!r}")


# Values -------------------------------------------------------------------------------------------


class Regridding(NamedTuple):
    """How variables are regridded.

    Attributes:
        axes: the dimensions that are regridded, by name.
        skipna, min_weight, chunks, threads: as in `regrid_conservative`.
        overlaps: those of dimensions that other variables have had.
    """

    axes: Mapping[Hashable, CellAxis]
    skipna: bool
    min_weight: float
    chunks: Mapping[Hashable, Any]
    threads: int | None
    overlaps: dict[tuple[Hashable, ...], CellOverlaps]

    def __call__(self, variable: xarray.Variable) -> xarray.Variable:
        """Regrid a variable that has some of the dimensions."""
        import xarray

        dims = [dim for dim in variable.dims if dim in self.axes]
        kept = [dim for dim in variable.dims if dim not in self.axes]
        if variable.dtype.kind in "biu":
            variable = variable.astype(np.float64)
        data = variable.transpose(*kept, *dims).data
        leading, spatial = data.shape[: len(kept)], data.shape[len(kept) :]
        overlaps = self.overlaps.get(tuple(dims))
        if overlaps is None:
            columns = zip(*[self.axes[dim] for dim in reversed(dims)], strict=True)
            overlaps = CellOverlaps(*[tuple(column) for column in columns])
            self.overlaps[tuple(dims)] = overlaps
        options: dict[str, Any] = {
            "missing": "ignore" if self.skipna else "propagate",
            "min_weight": self.min_weight,
        }
        planes = data.reshape(1, -1, *spatial)
        if variable.chunks is None:
            result = regrid(planes, overlaps, **options, threads=self.threads)
        else:
            from gridsample.dask import regrid_conservative as regrid_lazily

            options |= {"chunks": tuple([self.chunks.get(dim) for dim in dims])}
            result = regrid_lazily(planes, overlaps, **options, threads=self.threads or 1)
        whole = xarray.Variable(
            (*kept, *dims), result.reshape(*leading, *overlaps.shape), variable.attrs
        )
        return whole.transpose(*variable.dims)
