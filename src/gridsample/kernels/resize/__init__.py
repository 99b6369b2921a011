"""CPU kernels for resizing: one axis after the other, one piece of the image at a time.

    resize(maps, source, out)     out = (map of the last axis x ... x map of the first) source

with an `AxisMap` for each spatial axis.  The adjoint uses the adjoint maps in the same way.

    chains    the launches of a call
    planning  the order of axes, pieces, and the settings of programs
    program   the program that takes a piece through all axes
    forms     the loops of one axis
    copies    methods that copy pixels
    lines     a few long lines, whose weights are computed and not read from tables
    formulas  their inputs and weights
    packing   copies of pieces that are not contiguous
    picking   tables of lanes that pick their inputs from a few registers

A piece passes through all axes before the next piece is started, so that intermediate results stay
in cache and need little memory.  No two pieces write to the same place, and results do not depend
on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions import tables
from gridsample.definitions.bands import CACHE_BYTES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap, rounded_order
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import (
    Layout,
    address_of,
    as_parts,
    is_dense,
    is_native,
    layout_of,
    native,
)
from gridsample.kernels.resize import planning
from gridsample.kernels.resize.chains import MAX_AXES, Planes, chain_of, is_chain, steps_of
from gridsample.kernels.resize.planning import Numbers
from gridsample.kernels.run import Ready
from gridsample.kernels.spline import coefficients, filter_axis

Array = np.ndarray[Any, Any]


# Layout -------------------------------------------------------------------------------------------


def packed(array: Array) -> Array:
    """Return the array, or a copy that is contiguous and in native byte order."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def is_channels_last(layout: Layout) -> bool:
    """Whether the channels of a pixel of (N, C, *spatial) are next to each other in memory."""
    shape, strides, _ = layout
    steps = [abs(step) for n, step in zip(shape[1:], strides[1:], strict=True) if n > 1]
    return shape[1] > 1 and steps[0] == min(steps) and not is_dense(layout)


def as_planes(array: Array, last: bool) -> Array:
    """View (N, C, *spatial) as (N, 1, *spatial, C) if channels are last, or (N, C, *spatial, 1)."""
    if last:
        return array[:, np.newaxis].transpose(0, 1, *range(3, array.ndim + 1), 2)
    return array[..., np.newaxis]


def of_planes(numbers: tuple[int, ...], last: bool, single: int) -> tuple[int, ...]:
    """Return the sizes, or strides, of such a view, given those of its axis with one entry."""
    n, channels, *spatial = numbers
    return (n, single, *spatial, channels) if last else (n, channels, *spatial, single)


def as_reals(planes: Array) -> Array:
    """View planes of complex numbers, whose inner axis is contiguous, as their parts."""
    if planes.dtype.kind != "c":
        return planes
    return as_parts(planes).reshape(*planes.shape[:-1], 2 * planes.shape[-1])


# Routes ----------------------------------------------------------------------------------------


def resize(
    maps: Sequence[AxisMap],
    source: Array,
    out: Array,
    real: np.dtype[Any],
    threads: int | None = None,
    rounding: str = "exact",
) -> None:
    """Resize (N, C, *spatial) into ``out``, which has the same dtype; see above.

    Args:
        maps: the map of each spatial axis, in the array's order.
        source: the image, with any strides; if it is not packed, it is copied, one piece at a time
            where possible.
        out: receives the result.
        real: the dtype of sums.
        threads: the maximum number of threads.
        rounding: "exact", or "pillow" or "torch" to round integers after each axis.
    """
    threads = threads or pool.cores()
    layouts = layout_of(source), layout_of(out)
    direct = direct_run(tuple(maps), *layouts, type_name(real), threads, rounding)
    if direct is not None:
        direct.run(address_of(source), address_of(out))
        return
    # If channels come last in one array alone, the smaller one is copied.
    last = is_channels_last(layouts[0])
    last = last and (is_channels_last(layouts[1]) or out.size <= source.size)
    rounding = rounding if source.dtype.kind in "iub" else "exact"
    target = as_planes(out, last)
    packed_target = target
    if not is_dense(layout_of(target)):
        packed_target = np.empty(target.shape, target.dtype.newbyteorder("="))
    planes = as_reals(as_planes(spaced_evenly(source), last))
    resize_planes(maps, planes, as_reals(packed_target), real, threads, rounding)
    if packed_target is not target:
        target[...] = packed_target


@cached_by_size(CACHE_BYTES, lambda direct: 2 * direct.nbytes if direct else 0)
def direct_run(
    maps: tuple[AxisMap, ...],
    source: Layout,
    target: Layout,
    real: str,
    threads: int,
    rounding: str,
) -> Ready | None:
    """Prepare a call that is a chain of programs, without a copy; return None for any other.

    Python's part of such a call is then to find it here, which takes less than a small image does.
    """
    dtype = source[2]
    last = source[0][1] > 1 and source[1][1] == dtype.itemsize and target[1][1] == dtype.itemsize
    if dtype != target[2] or dtype.kind not in "biuf" or 0 in (*source[0], *target[0]):
        return None
    strides = None
    if not is_dense(target, last):
        return None
    if not is_dense(source, last):
        if is_channels_last(source) != last or not is_native(*source[1:]) or len(maps) > MAX_AXES:
            return None
        strides = of_planes(tuple([step // dtype.itemsize for step in source[1]]), last, 0)
    shape = of_planes(source[0], last, 1)
    rounding = rounding if dtype.kind in "iub" else "exact"
    if not is_chain(maps, shape, dtype, rounding):
        return None
    links = chain_of(maps, Planes(shape, dtype, strides), dtype, real, threads, rounding)
    if not links or (strides and links[0].packs):
        return None
    return steps_of(links).ready(threads, ["source", "target"])


def spaced_evenly(array: Array) -> Array:
    """Return the array, or a native copy if its strides are no multiples of its numbers' size."""
    even = is_native(array.strides, array.dtype.newbyteorder("="))
    return array if even else native(array)


def resize_planes(
    maps: Sequence[AxisMap],
    source: Array,
    target: Array,
    real: np.dtype[Any],
    threads: int,
    rounding: str = "exact",
) -> None:
    """Resize planes (N, C, *spatial, inner) into packed planes.

    ``rounding`` is "exact" unless the image has integers.
    """
    if is_chain(tuple(maps), source.shape, source.dtype, rounding):
        run_chain(maps, source, target, real, threads, rounding)
    elif rounding == "exact":
        resize_exactly(maps, source, target, real, threads)
    else:
        resize_each_axis(maps, source, target, real, threads, rounding)


def resize_each_axis(
    maps: Sequence[AxisMap],
    source: Array,
    target: Array,
    real: np.dtype[Any],
    threads: int,
    rounding: str,
) -> None:
    """Resize planes one axis after the other, with results in the dtype of the target."""
    order = rounded_order(source.shape[2:-1], target.shape[2:-1], rounding)
    order = [axis for axis in order if not maps[axis].is_identity]
    for axis in order:
        shape = list(source.shape)
        step = [tables.unchanged(n) for n in shape[2:-1]]
        step[axis], shape[axis + 2] = maps[axis], maps[axis].outputs
        result = target if axis == order[-1] else np.empty(shape, target.dtype)
        resize_planes(step, source, result, real, threads)
        source = result


def resize_exactly(
    maps: Sequence[AxisMap], source: Array, target: Array, real: np.dtype[Any], threads: int
) -> None:
    """Resize planes without rounding between axes: prefilters, bands, prefilters again."""
    if any([axis_map.before for axis_map in maps]):
        source = prefiltered(maps, source, real, threads)
    if not any([axis_map.after for axis_map in maps]):
        run_chain(maps, source, target, real, threads)
        return
    sums = target if target.dtype == real else np.empty(target.shape, real)
    run_chain(maps, source, sums, real, threads)
    for axis, axis_map in enumerate(maps, start=2):
        if axis_map.after:
            filter_axis(sums, axis, *axis_map.after.options, threads)
    if sums is not target:
        shape = -1, 1, 1, math.prod(sums.shape[3:])
        same = [tables.unchanged(1)]
        run_chain(same, sums.reshape(shape), target.reshape(shape), real, threads)


def run_chain(
    maps: Sequence[AxisMap],
    source: Array,
    target: Array,
    real: np.dtype[Any],
    threads: int,
    rounding: str = "exact",
) -> None:
    """Apply the bands of maps to planes (N, C, *spatial, inner); the target's are packed."""
    strides = None
    if len(maps) > MAX_AXES:
        source = packed(source)
    if not source.flags.c_contiguous:
        strides = tuple([stride // source.itemsize for stride in source.strides])
    dtype = source.dtype.newbyteorder("=")
    planes = Planes(source.shape, dtype, strides, swapped=not source.dtype.isnative)
    links = chain_of(tuple(maps), planes, target.dtype, type_name(real), threads, rounding)
    if not links:
        target[...] = source
        return
    read = packed(source) if links[0].packs else source
    steps_of(links).run({"source": read, "target": target}, threads)


def order_of_axes(maps: Sequence[AxisMap], dtype: Any, real: np.dtype[Any]) -> list[int]:
    """Return the order in which the axes of an image are resized whose channels do not come last.

    Axes that do not change are left out.

    Args:
        maps: the map of each axis.
        dtype: the dtype of the image.
        real: the dtype of sums.
    """
    changing = [k for k, axis_map in enumerate(maps) if not axis_map.is_identity]
    if len(changing) < 2:
        return changing
    shape = (1, *(axis_map.inputs for axis_map in maps), 2 if dtype.kind == "c" else 1)
    return planning.order_of(maps, shape, Numbers(type_name(real), type_name(real)))


def prefiltered(maps: Sequence[AxisMap], source: Array, real: np.dtype[Any], threads: int) -> Array:
    """Apply the prefilters that come before the bands to planes (N, C, *spatial, inner)."""
    wide = np.empty(source.shape, real)
    axes = [axis for axis, axis_map in enumerate(maps) if axis_map.before]
    for axis in axes:
        filter_ = maps[axis].before
        assert filter_ is not None
        if axis == axes[0]:
            order, extended, adjoint = filter_.options
            coefficients(
                source, order, [extended], [axis + 2], wide, adjoint=adjoint, threads=threads
            )
        else:
            filter_axis(wide, axis + 2, *filter_.options, threads)
    return wide
