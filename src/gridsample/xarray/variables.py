"""Interpolation of a variable along its axes: those that are independent one after the other."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.chunked.interpolation import Interpolation
from gridsample.definitions.coords import CONTINUE
from gridsample.ops.sampling import grid_sample
from gridsample.xarray.axes import CoordinateAxis, InterpolationRules
from gridsample.xarray.coordinates import Positions
from gridsample.xarray.tables import sample_lines
from gridsample.xarray.values import axis_array, sampled_values

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]
NO_TIME = np.iinfo(np.int64).min


def interpolated(
    variable: xarray.Variable, axes: Mapping[Hashable, CoordinateAxis], rules: InterpolationRules
) -> xarray.Variable:
    """Interpolate a variable along those of its dimensions that are axes."""
    dtype = variable.dtype
    if dtype.kind in "mM":
        variable = elementwise(numbers_of_times, variable, np.float64)
    elif dtype.kind in "iu":
        variable = variable.astype(np.float64)
    along = [axis for name, axis in axes.items() if name in variable.dims]
    sorting = {axis.name: axis.order for axis in along if axis.order is not None}
    variable = variable.isel(sorting) if sorting else variable
    dims, groups = list(variable.dims), independent(along)
    for group in groups:
        dims = dims_after(dims, group)
    if not rules.of_pixels:
        groups.reverse()  # the order of `RegularGridInterpolator`
    elif all(is_line(variable, group) for group in groups):
        # Those that make the variable smaller first: what is between two is no larger than both.
        groups = sorted(groups, key=lambda group: group[0].points.size / len(group[0].knots))
    for group in groups:
        if rules.of_pixels and is_line(variable, group):
            variable = along_line(variable, group[0], rules)
        else:
            variable = at_points(variable, group, rules)
    variable = variable.transpose(*dims)
    if dtype.kind in "mM":
        return elementwise(functools.partial(times_of_numbers, dtype=dtype), variable, dtype)
    return variable


def independent(axes: Sequence[CoordinateAxis]) -> list[list[CoordinateAxis]]:
    """Divide axes into groups whose points have no dimension in common."""
    groups, group = list[list[CoordinateAxis]](), list[CoordinateAxis]()
    for k, axis in enumerate(axes):
        group.append(axis)
        later = {dim for other in axes[k + 1 :] for dim in other.dims}
        if later.isdisjoint(dim for member in group for dim in member.dims):
            groups.append(group)
            group = []
    return groups


def dims_after(dims: Sequence[Hashable], group: Sequence[CoordinateAxis]) -> list[Hashable]:
    """Return the dimensions after the interpolation of a group, in xarray's order."""
    by_name = {axis.name: axis for axis in group}
    order = dict[Hashable, None]()
    for dim in dims:
        order.update(dict.fromkeys(by_name[dim].points.dims if dim in by_name else [dim]))
    return list(order)


def is_line(variable: xarray.Variable, group: Sequence[CoordinateAxis]) -> bool:
    """Whether a group is an axis along which all lines have the same points, which are known."""
    (axis, *others), kept = group, set(variable.dims)
    dims = axis.points.dims
    return (
        not others
        and len(dims) < 2
        and kept.isdisjoint(set(dims) - {axis.name})
        and not hasattr(axis.points.data, "dask")
    )


def along_line(
    variable: xarray.Variable, axis: CoordinateAxis, rules: InterpolationRules
) -> xarray.Variable:
    """Interpolate along an axis."""
    import xarray

    continues, *constants = rules.outside(1)
    positions, below, above = axis.positions(axis.points.values.reshape(-1), rules, continues)
    number = variable.dims.index(axis.name)
    operation = Interpolation(
        axis=number,
        size=len(axis.knots),
        positions=positions,
        constants=np.select([below, above], constants, np.nan),
        mode="nearest" if rules.method == "nearest" else "linear",
        wraps=axis.period is not None,
        dtype=variable.dtype,
        threads=None if variable.chunks is None else 1,
    )
    if variable.chunks is not None:
        from gridsample.dask.lines import along_axis

        step, count = max(variable.chunks[number]), len(positions)
        chunks = [min(step, count - k) for k in range(0, count, step)] or [0]
        data = along_axis(variable.data, operation, chunks)
    else:
        data = operation.whole(variable.data)
    if not axis.points.dims:
        data = data[(slice(None),) * number + (0,)]
    dims = (*variable.dims[:number], *axis.points.dims, *variable.dims[number + 1 :])
    return xarray.Variable(dims, data, variable.attrs)


def at_points(
    variable: xarray.Variable, group: Sequence[CoordinateAxis], rules: InterpolationRules
) -> xarray.Variable:
    """Interpolate at points, whose coordinates along each axis are those of a group."""
    import xarray

    names = [axis.name for axis in group]
    sizes = {dim: n for axis in group for dim, n in axis.points.sizes.items()}
    kept = [dim for dim in variable.dims if dim not in names]
    core = [dim for dim in sizes if dim not in kept]  # lines may have points of their own
    _, fill_value, _ = rules.outside(len(group))
    in_memory = not any(hasattr(axis.points.data, "dask") for axis in group)
    is_lazy = variable.chunks is not None
    if is_lazy and in_memory and core == list(sizes) and can_be_divided(group, rules):
        lines, options = {}, options_of(group, False, 1, rules.method)
        if not np.isnan(fill_value):
            ends = {"extrapolate": "centers", "padding_mode": "constant", "fill_value": fill_value}
            options |= ends
        for axis in group:
            positions, is_below, is_above = axis.positions(axis.points.values, rules, False)
            if not np.isnan(fill_value):
                positions = np.where(is_below | is_above, np.inf, positions)
            lines[axis.name] = axis_array(axis.points.copy(data=positions), core)
        source = variable.transpose(*kept, *names)
        data = sampled_values(source, lines, core, options)
        return xarray.Variable((*kept, *core), data, variable.attrs)
    threads = None if in_memory and not is_lazy else 1
    given: Any = [axis.points for axis in group]
    wide = [
        points.set_dims(
            {dim: n for dim, n in sizes.items() if dim in core or dim in points.dims}
        ).transpose(..., *core)
        for points in given
    ]
    result: xarray.Variable = xarray.apply_ufunc(
        functools.partial(
            sample_points, group=tuple(group), rules=rules, rank=len(core), threads=threads
        ),
        variable,
        *wide,
        input_core_dims=[names, *[core] * len(group)],
        output_core_dims=[core],
        exclude_dims=set(names),
        dask="parallelized",
        keep_attrs=True,
        output_dtypes=[variable.dtype],
        dask_gufunc_kwargs={
            "output_sizes": {dim: sizes[dim] for dim in core},
            "allow_rechunk": True,
        },
    )
    return result


def can_be_divided(group: Sequence[CoordinateAxis], rules: InterpolationRules) -> bool:
    """Whether options of `grid_sample` say how values are interpolated, and what is outside."""
    continues, below, above = rules.outside(len(group))
    if continues or below is not above or not rules.of_pixels:
        return False
    return all(axis.period is None for axis in group) or bool(np.isnan(below))


def options_of(
    group: Sequence[CoordinateAxis], continues: bool, threads: int | None, mode: str
) -> dict[str, Any]:
    """Return the options of `grid_sample` for a group; positions outside are NaN, or continue."""
    wraps = [axis.period is not None for axis in reversed(group)]
    return {
        "mode": mode,
        "padding_mode": tuple(["wrap" if wrap else "border" for wrap in wraps]),
        "extrapolate": tuple([CONTINUE if continues and not wrap else True for wrap in wraps]),
        "antialias": False,
        "threads": threads,
    }


def sample_points(
    data: Array,
    *points: Positions,
    group: Sequence[CoordinateAxis],
    rules: InterpolationRules,
    rank: int,
    threads: int | None,
) -> Array:
    """Interpolate an array at points.

    Args:
        data: the array, (*lines, *axes).
        points: the coordinates along each axis, (*lines, *shared); the first axes of lines may be
            missing, or have the length 1.
        group: the axes.
        rules: how values are interpolated.
        rank: the number of shared axes.
        threads: the maximum number of threads; None for all.
    """
    continues, below, above = rules.outside(len(group))
    count = data.ndim - len(group)

    def stacked(arrays: Sequence[Array]) -> Array:
        ranks = [count + rank - array.ndim for array in arrays]
        padded = [a.reshape((1,) * n + a.shape) for a, n in zip(arrays, ranks, strict=True)]
        return np.stack(np.broadcast_arrays(*padded), -1)

    found = [
        axis.positions(coordinates, rules, continues)
        for axis, coordinates in zip(group, points, strict=True)
    ]
    positions, is_below, is_above = (stacked([each[k] for each in found]) for k in range(3))
    shape = positions.shape[:-1]
    # Lines that have points of their own are items of a batch, the others channels.
    order = sorted(range(count), key=lambda k: shape[k] == 1)
    items = math.prod(shape[:count])
    lines = data.transpose(*order, *range(count, data.ndim))
    images = lines.reshape(items, -1, *data.shape[count:])
    places = positions.reshape(items, -1, len(group))
    if rules.of_pixels:
        options = options_of(group, continues, threads, rules.method)
        result = sample_images(images, places, group, options)
    else:
        result = sample_lines(images, places, group, rules.method, threads)
    for outside, value in ((is_below, below), (is_above, above)):
        if not continues and not np.isnan(value):
            chosen = outside.any(-1).reshape(items, 1, -1)
            np.copyto(result, np.asarray(value, result.dtype), where=chosen)
    result = result.reshape((*lines.shape[:count], *shape[count:]))
    return result.transpose(*np.argsort(order), *range(count, result.ndim))


def sample_images(
    images: Array, positions: Positions, group: Sequence[CoordinateAxis], options: dict[str, Any]
) -> Array:
    """Sample images (items, C, *axes) at positions (items, P, axes) in pixels: (items, C, P)."""
    for k, axis in enumerate(group):
        if axis.period is not None and options["extrapolate"] == CONTINUE:
            first = images[(slice(None),) * (2 + k) + (slice(1),)]
            images = np.concatenate([images, first], 2 + k)
    grid = np.ascontiguousarray(positions[..., ::-1])
    result: Array = grid_sample(images, grid, coords="pixel", **options)
    return result


# Times --------------------------------------------------------------------------------------------


def elementwise(function: Any, variable: xarray.Variable, dtype: Any) -> xarray.Variable:
    """Apply a function to each value."""
    import xarray

    result: xarray.Variable = xarray.apply_ufunc(
        function, variable, dask="parallelized", keep_attrs=True, output_dtypes=[dtype]
    )
    return result


def numbers_of_times(times: Array) -> Array:
    """Return times as float64, NaN for NaT."""
    return np.where(np.isnat(times), np.nan, times.astype(np.int64))


def times_of_numbers(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers as times, NaT for NaN."""
    missing = np.isnan(numbers)
    whole = np.rint(np.where(missing, 0, numbers)).astype(np.int64)
    return np.where(missing, NO_TIME, whole).astype(dtype)
