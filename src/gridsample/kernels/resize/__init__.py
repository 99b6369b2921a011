"""CPU kernels for resizing: one axis after the other, one piece of the image at a time.

    resize(maps, source, out)     out = (map of the last axis x ... x map of the first) source

with an `AxisMap` for each spatial axis.  The adjoint uses the adjoint maps in the same way.

    planning  the order of axes, pieces, and the settings of programs
    program   the program that takes a piece through all axes
    forms     the loops of one axis
    copies    methods that copy pixels
    lines     a few long lines, whose weights are computed and not read from tables
    formulas  their inputs and weights
    periodic  the same by simple factors, whose weights repeat

A piece passes through all axes before the next piece is started, so that intermediate results stay
in cache and need little memory.  No two pieces write to the same place, and results do not depend
on the number of threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import type_name
from gridsample.definitions.tables import Axis, AxisMap, axis_map, picked, rounded_order, skips
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import addresses_of, as_parts
from gridsample.kernels.resize import planning
from gridsample.kernels.resize.copies import copy_pixels
from gridsample.kernels.resize.lines import copies, is_long, resize_lines
from gridsample.kernels.resize.planning import Numbers, are_fixed, prepare
from gridsample.kernels.spline import coefficients, filter_axis

Array = np.ndarray[Any, Any]


# Layout -------------------------------------------------------------------------------------------


def is_channels_last(array: Array) -> bool:
    """Whether the channels of a pixel of (N, C, *spatial) are contiguous in memory."""
    return array.shape[1] > 1 and array.strides[1] == array.itemsize and not is_packed(array)


def is_packed(array: Array) -> bool:
    """Whether an array is contiguous, aligned and in native byte order."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def packed(array: Array) -> Array:
    """Return the array itself if it is packed, otherwise a packed copy."""
    if is_packed(array):
        return array
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def readable(array: Array) -> Array:
    """Return the array itself if programs can read it, otherwise a packed copy."""
    aligned = array.flags.aligned and array.dtype.isnative
    if aligned and all(stride % array.itemsize == 0 for stride in array.strides):
        return array
    return packed(array)


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


# The whole ----------------------------------------------------------------------------------------


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
    # If channels come last in one array alone, the smaller one is copied.
    last = is_channels_last(source) and (is_channels_last(out) or out.size <= source.size)
    if not is_packed(source):
        maps, source = pick(maps, source)
    wanted, threads = as_planes(out, last), threads or pool.cores()
    result = wanted if is_packed(wanted) else np.empty(wanted.shape, wanted.dtype.newbyteorder("="))
    given = as_reals(as_planes(readable(source), last))
    run(maps, given, as_reals(result), real, threads, rounding)
    if result is not wanted:
        wanted[...] = result


def pick(maps: Sequence[AxisMap], source: Array) -> tuple[list[AxisMap], Array]:
    """Copy the pixels that are read, if these are few: others would be copied for nothing."""
    maps = list(maps)
    for k, one in enumerate(maps):
        if skips(one):
            assert one.axis is not None
            inputs, maps[k] = picked(one.axis)
            source = source[(slice(None),) * (k + 2) + (inputs,)]
    return maps, source


def run(
    maps: Sequence[AxisMap], given: Array, result: Array, real: np.dtype[Any], threads: int,
    rounding: str = "exact",
) -> None:  # fmt: skip
    """Resize planes (N, C, *spatial, inner) into packed planes."""
    route, numbers = route_of(tuple(maps), given.shape), Numbers(*[type_name(real)] * 2)
    if route.identity and given.dtype == result.dtype:
        result[...] = given
        return
    if route.copies and given.dtype == result.dtype:
        if route.place is None:
            copy_pixels(tuple(maps), packed(given), result, threads)
        else:
            resize_long(maps, route.place, given, result, numbers, threads)
        return
    if rounding != "exact" and given.dtype.kind in "iub":
        if not (route.plain and are_fixed(given.dtype, [one.band for one in maps])):
            run_stepwise(maps, given, result, real, threads, rounding)
            return
        resize_bands(maps, given, result, Numbers("int32", "uint8", rounding), threads)
        return
    if any([one.before for one in maps]):
        given = prefiltered(maps, given, real, threads)
    ends = any([one.after for one in maps])
    wide = np.empty(result.shape, real) if ends and result.dtype != real else result
    if route.place is None:
        resize_bands(maps, given, wide, numbers, threads)
    else:
        resize_long(maps, route.place, given, wide, numbers, threads)
    for axis, one in enumerate(maps if ends else (), start=2):
        if one.after:
            filter_axis(wide, axis, *one.after.options, threads)
    if wide is not result:
        shape = -1, 1, 1, math.prod(wide.shape[3:])
        resize_bands([unchanged(1)], wide.reshape(shape), result.reshape(shape), numbers, threads)


class Route(NamedTuple):
    """What the maps of all axes have in common.

    Attributes:
        identity: whether the image stays as it is.
        plain: whether there are no prefilters.
        copies: whether every output is a copy of one input.
        place: an axis whose lines are long and few (`lines`), or None.
    """

    identity: bool
    plain: bool
    copies: bool
    place: int | None


@functools.lru_cache(maxsize=512)
def route_of(maps: tuple[AxisMap, ...], shape: tuple[int, ...]) -> Route:
    """Determine how planes (N, C, *spatial, inner) are resized."""
    plain = all(one.before is one.after is None for one in maps)
    return Route(
        all(one.is_identity for one in maps),
        plain,
        plain and all(map(only_copies, maps)),
        long_axis(maps, shape),
    )


def only_copies(one: AxisMap) -> bool:
    """Whether every output along an axis is a copy of one input."""
    return one.is_identity or copies(one) or (not is_long(one, 1) and one.band.copies)


def long_axis(maps: Sequence[AxisMap], shape: tuple[int, ...]) -> int | None:
    """Return the place of an axis of (N, C, *spatial, inner) whose lines are long and few."""
    for k, one in enumerate(maps):
        larger = [max(each.inputs, each.outputs) for each in maps]
        others = math.prod([*larger[:k], *larger[k + 1 :], shape[0], shape[1], shape[-1]])
        if is_long(one, others):
            return k
    return None


def resize_long(
    maps: Sequence[AxisMap], place: int, given: Array, result: Array, numbers: Numbers, threads: int
) -> None:
    """Resize planes with an axis whose lines are long and few, first if they become shorter."""
    others = [one if k != place else None for k, one in enumerate(maps)]
    if all(one is None or one.is_identity for one in others):
        resize_lines(maps[place], place + 2, packed(given), result, numbers.sums, threads)
        return
    kind = given.dtype if all(map(only_copies, maps)) else np.dtype(numbers.sums)
    shorter = maps[place].outputs < maps[place].inputs
    sizes = [
        one.outputs if (k == place) == shorter else one.inputs for k, one in enumerate(maps)
    ]  # fmt: skip
    between = np.empty((*given.shape[:2], *sizes, given.shape[-1]), kind)
    alone = [unchanged(sizes[place]) if one is None else one for one in others]
    if shorter:
        resize_lines(maps[place], place + 2, packed(given), between, numbers.sums, threads)
        resize_rest(alone, between, result, numbers, threads)
    else:
        resize_rest(alone, given, between, numbers, threads)
        resize_lines(maps[place], place + 2, between, result, numbers.sums, threads)


def resize_rest(
    maps: Sequence[AxisMap], given: Array, result: Array, numbers: Numbers, threads: int
) -> None:
    """Resize the axes that are not long, whose prefilters have been applied."""
    bare = [AxisMap(None, None, one.axis, one.transposed, one.table) for one in maps]
    run(bare, given, result, np.dtype(numbers.sums), threads)


def run_stepwise(
    maps: Sequence[AxisMap], given: Array, result: Array, real: np.dtype[Any], threads: int,
    rounding: str,
) -> None:  # fmt: skip
    """Resize as `run` does, but one whole axis after the other, with a separate result for each."""
    sizes = given.shape[2:-1], result.shape[2:-1]
    changed = [not one.is_identity for one in maps]
    axes = [axis for axis in rounded_order(*sizes, rounding) if changed[axis]]
    for axis in axes:
        alone = [unchanged(n) for n in given.shape[2:-1]]
        alone[axis] = maps[axis]
        shape = list(given.shape)
        shape[axis + 2] = maps[axis].outputs
        made = result if axis == axes[-1] else np.empty(shape, result.dtype)
        run(alone, given, made, real, threads)
        given = made


def unchanged(n: int) -> AxisMap:
    """Return the identity map of an axis."""
    return axis_map(Axis(n, n, "nearest"))


def prefiltered(maps: Sequence[AxisMap], source: Array, real: np.dtype[Any], threads: int) -> Array:
    """Apply the prefilters that come before the bands to planes (N, C, *spatial, inner)."""
    wide = np.empty(source.shape, real)
    axes = [axis for axis, one in enumerate(maps) if one.before]
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
    launch = prepare(tuple(maps), source.shape, strides, kinds, numbers, threads, planning.PIECE)
    launch.run(addresses_of((source, target)), threads)
