"""CPU kernels for resizing: one axis after the other, one piece of the image at a time.

    resize(maps, source, out)     out = (map of the last axis x ... x map of the first) source

with an `AxisMap` for each spatial axis.  The adjoint uses the adjoint maps in the same way.

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

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import tables
from gridsample.definitions.bands import CACHE_BYTES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap, rounded_order, skips_inputs, used_inputs
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import (
    Layout,
    address_of,
    addresses_of,
    as_parts,
    is_dense,
    layout_of,
    native,
)
from gridsample.kernels.resize import planning
from gridsample.kernels.resize.copies import copy_pixels
from gridsample.kernels.resize.copies import prepare as copies_launch
from gridsample.kernels.resize.lines import copies_pixels, is_long, resize_lines
from gridsample.kernels.resize.packing import is_packed, packed
from gridsample.kernels.resize.planning import Numbers, are_fixed, prepare
from gridsample.kernels.run import Ready
from gridsample.kernels.spline import coefficients, filter_axis

Array = np.ndarray[Any, Any]


# Layout -------------------------------------------------------------------------------------------


def is_channels_last(array: Array) -> bool:
    """Whether the channels of a pixel of (N, C, *spatial) are next to each other in memory."""
    steps = [abs(step) for n, step in zip(array.shape[1:], array.strides[1:], strict=True) if n > 1]
    return array.shape[1] > 1 and steps[0] == min(steps) and not is_packed(array)


def as_planes(array: Array, last: bool) -> Array:
    """View (N, C, *spatial) as (N, 1, *spatial, C) if channels are last, or (N, C, *spatial, 1)."""
    if last:
        return array[:, np.newaxis].transpose(0, 1, *range(3, array.ndim + 1), 2)
    return array[..., np.newaxis]


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
    last = is_channels_last(source) and (is_channels_last(out) or out.size <= source.size)
    if not is_packed(source):
        maps, source = pick_pixels(maps, source)
    target = as_planes(out, last)
    packed_target = target
    if not is_packed(target):
        packed_target = np.empty(target.shape, target.dtype.newbyteorder("="))
    planes = as_reals(as_planes(native(source), last))
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
    """Prepare a call that is one program on packed arrays; return None for any other.

    Python's part of such a call is then to find it here, which takes less than a small image does.
    """
    dtype = source[2]
    last = source[0][1] > 1 and source[1][1] == dtype.itemsize and target[1][1] == dtype.itemsize
    if dtype != target[2] or dtype.kind not in "biuf" or 0 in (*source[0], *target[0]):
        return None
    if not (is_dense(source, last) and is_dense(target, last)):
        return None
    n, channels, *spatial = source[0]
    shape = (n, 1, *spatial, channels) if last else (n, channels, *spatial, 1)
    route = route_of(maps, shape)
    if route.identity or route.long_axis is not None:
        return None
    if route.copies:
        planes = shape[0] * shape[1], *shape[2:]
        return copies_launch(maps, planes, dtype.itemsize, threads).ready(threads)
    if not route.unfiltered or (rounding != "exact" and dtype.kind != "f"):
        return None
    kinds = (type_name(dtype),) * 2
    numbers = Numbers(real, real)
    return prepare(maps, shape, None, kinds, numbers, threads).ready(threads)


def pick_pixels(maps: Sequence[AxisMap], source: Array) -> tuple[list[AxisMap], Array]:
    """Copy the pixels that are read, if these are few: others would be copied for nothing."""
    maps = list(maps)
    for k, axis_map in enumerate(maps):
        if skips_inputs(axis_map):
            assert axis_map.axis is not None
            inputs, maps[k] = used_inputs(axis_map.axis)
            source = source[(slice(None),) * (k + 2) + (inputs,)]
    return maps, source


class Route(NamedTuple):
    """What the maps of all axes have in common.

    Attributes:
        identity: whether the image stays as it is.
        unfiltered: whether there are no prefilters.
        copies: whether every output is a copy of one input.
        long_axis: an axis whose lines are long and few (`lines`), or None.
    """

    identity: bool
    unfiltered: bool
    copies: bool
    long_axis: int | None


@functools.lru_cache(maxsize=512)
def route_of(maps: tuple[AxisMap, ...], shape: tuple[int, ...]) -> Route:
    """Determine how planes (N, C, *spatial, inner) are resized."""
    unfiltered = all(axis_map.before is axis_map.after is None for axis_map in maps)
    return Route(
        all(axis_map.is_identity for axis_map in maps),
        unfiltered,
        unfiltered and all(map(only_copies, maps)),
        find_long_axis(maps, shape),
    )


def only_copies(axis_map: AxisMap) -> bool:
    """Whether every output along an axis is a copy of one input."""
    if axis_map.is_identity or copies_pixels(axis_map):
        return True
    return not is_long(axis_map, 1) and axis_map.band.copies


def find_long_axis(maps: Sequence[AxisMap], shape: tuple[int, ...]) -> int | None:
    """Return an axis of (N, C, *spatial, inner) whose lines are long and few; None if none is."""
    larger = [max(axis_map.inputs, axis_map.outputs) for axis_map in maps]
    for k, axis_map in enumerate(maps):
        others = math.prod([*larger[:k], *larger[k + 1 :], shape[0], shape[1], shape[-1]])
        if is_long(axis_map, others):
            return k
    return None


def resize_planes(
    maps: Sequence[AxisMap],
    source: Array,
    target: Array,
    real: np.dtype[Any],
    threads: int,
    rounding: str = "exact",
) -> None:
    """Resize planes (N, C, *spatial, inner) into packed planes."""
    route, numbers = route_of(tuple(maps), source.shape), Numbers(type_name(real), type_name(real))
    keeps_dtype = source.dtype == target.dtype
    if route.identity and keeps_dtype:
        target[...] = source
    elif route.copies and keeps_dtype and route.long_axis is None:
        copy_pixels(tuple(maps), packed(source), target, threads)
    elif route.copies and keeps_dtype:
        resize_bands_or_lines(maps, route, source, target, numbers, threads)
    elif rounding == "exact" or source.dtype.kind not in "iub":
        resize_exactly(maps, route, source, target, numbers, threads)
    elif route.unfiltered and are_fixed(source.dtype, [axis_map.band for axis_map in maps]):
        resize_bands(maps, source, target, Numbers("int32", "uint8", rounding), threads)
    else:
        order = rounded_order(source.shape[2:-1], target.shape[2:-1], rounding)
        steps = [[axis] for axis in order if not maps[axis].is_identity]
        resize_in_steps(maps, steps, source, target, (real, target.dtype), threads)


def resize_exactly(
    maps: Sequence[AxisMap],
    route: Route,
    source: Array,
    target: Array,
    numbers: Numbers,
    threads: int,
) -> None:
    """Resize planes without rounding between axes: prefilters, bands, prefilters again."""
    real = np.dtype(numbers.sums)
    if any([axis_map.before for axis_map in maps]):
        source = prefiltered(maps, source, real, threads)
    if not any([axis_map.after for axis_map in maps]):
        resize_bands_or_lines(maps, route, source, target, numbers, threads)
        return
    sums = target if target.dtype == real else np.empty(target.shape, real)
    resize_bands_or_lines(maps, route, source, sums, numbers, threads)
    for axis, axis_map in enumerate(maps, start=2):
        if axis_map.after:
            filter_axis(sums, axis, *axis_map.after.options, threads)
    if sums is not target:
        shape = -1, 1, 1, math.prod(sums.shape[3:])
        resize_bands(
            [tables.unchanged(1)], sums.reshape(shape), target.reshape(shape), numbers, threads
        )


def resize_bands_or_lines(
    maps: Sequence[AxisMap],
    route: Route,
    source: Array,
    target: Array,
    numbers: Numbers,
    threads: int,
) -> None:
    """Apply the bands of maps; along an axis whose lines are long and few, without tables."""
    k = route.long_axis
    if k is None:
        resize_bands(maps, source, target, numbers, threads)
        return
    if all(axis_map.is_identity for j, axis_map in enumerate(maps) if j != k):
        resize_lines(maps[k], k + 2, packed(source), target, numbers.sums, threads)
        return
    # That axis comes first if its lines become shorter, otherwise last.
    steps = [[k], [j for j in range(len(maps)) if j != k]]
    if maps[k].outputs >= maps[k].inputs:
        steps.reverse()
    if not route.unfiltered:  # prefilters have been applied, or will be
        maps = [replace(axis_map, before=None, after=None) for axis_map in maps]
    real = np.dtype(numbers.sums)
    between = source.dtype if all(map(only_copies, maps)) else real
    resize_in_steps(maps, steps, source, target, (real, between), threads)


def resize_in_steps(
    maps: Sequence[AxisMap],
    steps: Sequence[Sequence[int]],
    source: Array,
    target: Array,
    kinds: tuple[np.dtype[Any], np.dtype[Any]],
    threads: int,
) -> None:
    """Resize some axes in each step; ``kinds`` are those of sums, and of results between steps."""
    real, between = kinds
    for axes in steps:
        shape = list(source.shape)
        step = [tables.unchanged(n) for n in shape[2:-1]]
        for axis in axes:
            step[axis], shape[axis + 2] = maps[axis], maps[axis].outputs
        result = target if axes is steps[-1] else np.empty(shape, between)
        resize_planes(step, source, result, real, threads)
        source = result


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
    bands = tuple(axis_map.band for axis_map in maps)
    return planning.order_of(bands, shape, Numbers(type_name(real), type_name(real)))


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


def resize_bands(
    maps: Sequence[AxisMap], source: Array, target: Array, numbers: Numbers, threads: int
) -> None:
    """Apply the bands as tables to planes (N, C, *spatial, inner); the target's are packed."""
    kinds = type_name(source.dtype), type_name(target.dtype)
    strides = None
    if not source.flags.c_contiguous:
        strides = tuple([stride // source.itemsize for stride in source.strides])
    launch = prepare(tuple(maps), source.shape, strides, kinds, numbers, threads)
    launch.run(addresses_of((source, target)), threads)
