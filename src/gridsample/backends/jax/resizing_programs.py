"""Resizing on the CPU: the launches of all axes, which need no table of weights for long lines."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends.jax.handler import ARGUMENT, RESULT, Place, Step
from gridsample.backends.jax.launches import ArrayType, Prepared, Results, layout_of
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap, unchanged
from gridsample.kernels import of_labels, of_resizing
from gridsample.kernels import threads as pool
from gridsample.kernels.run import Launch

Maps = tuple[AxisMap, ...]


def planes_of(array_type: ArrayType, last: bool) -> tuple[int, ...]:
    """The shape (N, C, *spatial, inner) of an image; with its channels as ``inner`` or not."""
    items, channels, *spatial = array_type.shape
    return (items, 1, *spatial, channels) if last else (items, channels, *spatial, 1)


def band_launch(
    maps: Sequence[AxisMap],
    source: ArrayType,
    target: ArrayType,
    real: np.dtype[Any],
    *,
    last: bool = False,
    rounding: str = "exact",
) -> Launch:
    """Prepare the bands of all axes, as one program."""
    of_resizing()
    from gridsample.kernels.resize import planning

    numbers = planning.Numbers(type_name(real), type_name(real))
    if rounding != "exact":
        numbers = planning.Numbers("int32", "uint8", rounding)
    kinds = type_name(source.dtype), type_name(target.dtype)
    planes = planes_of(source, last)
    return planning.prepare(tuple(maps), planes, None, kinds, numbers, pool.cores())


def result_of(maps: Sequence[AxisMap], source: ArrayType, dtype: Any) -> ArrayType:
    """The type of an image to which maps are applied."""
    outputs = [axis_map.outputs for axis_map in maps]
    return ArrayType((*source.shape[:2], *outputs), np.dtype(dtype))


def launch_chain(
    maps: Maps, source: ArrayType, target: ArrayType, real: np.dtype[Any], rounding: str, last: bool
) -> list[tuple[Launch, ArrayType]]:
    """Return launches, each of which reads what the one before it writes, and their results."""
    resize = of_resizing()
    from gridsample.kernels.resize import lines
    from gridsample.kernels.resize.copies import prepare as prepare_copies

    planes, same_dtype = planes_of(source, last), source.dtype == target.dtype
    route = resize.route_of(maps, planes)
    if route.identity and same_dtype:
        return []
    axis = route.long_axis
    if rounding != "exact" or (axis is None and not (route.copies and same_dtype)):
        launch = band_launch(maps, source, target, real, last=last, rounding=rounding)
        return [(launch, target)]
    if axis is None:
        shape = planes[0] * planes[1], *planes[2:]
        return [(prepare_copies(maps, shape, source.dtype.itemsize, pool.cores()), target)]
    if any(not axis_map.is_identity for k, axis_map in enumerate(maps) if k != axis):
        middle_dtype = source.dtype if all(map(resize.only_copies, maps)) else real
        first, rest = split_long_axis(maps, axis)
        middle = result_of(first, source, middle_dtype)
        return [
            *launch_chain(first, source, middle, real, rounding, last),
            *launch_chain(rest, middle, target, real, rounding, last),
        ]
    kinds = type_name(source.dtype), type_name(target.dtype)
    if lines.copies_pixels(maps[axis]) and same_dtype:
        kinds = (f"uint{8 * source.dtype.itemsize}",) * 2
    outer, inner = math.prod(planes[: axis + 2]), math.prod(planes[axis + 3 :])
    along = maps[axis]
    launch = lines.prepare(along.axis, along.transposed, outer, inner, kinds, type_name(real))
    return [(launch, target)]


def split_long_axis(maps: Maps, axis: int) -> tuple[Maps, Maps]:
    """Split maps into that of a long axis and the others.

    The long axis comes first if its lines become shorter, otherwise last.
    """
    long_first = maps[axis].outputs < maps[axis].inputs
    pairs = [
        (axis_map, unchanged(axis_map.outputs))
        if (k == axis) == long_first
        else (unchanged(axis_map.inputs), axis_map)
        for k, axis_map in enumerate(maps)
    ]
    return tuple(first for first, _ in pairs), tuple(rest for _, rest in pairs)


@functools.cache
def steps_of(
    maps: Maps,
    source: ArrayType,
    dtype: np.dtype[Any],
    real: np.dtype[Any],
    rounding: str,
    last: bool,
) -> Prepared | None:
    """Prepare the bands of maps; None if nothing changes."""
    chain = launch_chain(maps, source, result_of(maps, source, dtype), real, rounding, last)
    if not chain:
        return None
    results, place, steps = Results(chain[-1][1]), Place(ARGUMENT, 0), []
    for k, (launch, array_type) in enumerate(chain, start=1):
        is_last = k == len(chain)
        target = Place(RESULT, 0) if is_last else results.add_intermediate(array_type.nbytes)
        steps.append(Step(launch, [place, target], {}))
        place = target
    return results.prepare(steps)


# Labels -------------------------------------------------------------------------------------------


def range_of(maps: Maps, dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return a range of all labels, which programs need for many taps; None if it is too long."""
    labels = of_labels()
    if math.prod(max(1, axis_map.band.taps) for axis_map in maps) <= labels.FEW:
        return 0, 0
    if dtype.itemsize > 2:
        return None
    return labels.range_of(np.zeros(1, dtype))  # type: ignore[no-any-return]


@functools.cache
def vote_steps(maps: Maps, source: ArrayType, last: bool) -> Prepared:
    """Prepare the resizing of labels, of which `range_of` is known."""
    labels, target = of_labels(), result_of(maps, source, source.dtype)
    bands = tuple([axis_map.band for axis_map in maps])
    range_ = range_of(maps, source.dtype)
    assert range_ is not None
    launch = labels.prepare(bands, layout_of(source, last), layout_of(target, last), *range_)
    step = Step(launch, [Place(ARGUMENT, 0), Place(RESULT, 0)], {})
    return Results(target).prepare([step])
