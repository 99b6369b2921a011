"""Resizing on the CPU: the launches of all axes, which need no table of weights for long lines."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends.jax.handler import ARGUMENT, RESULT, LaunchStep, Place
from gridsample.backends.jax.launches import ArrayType, KeptLaunches, StepArrays, layout_of
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap
from gridsample.kernels import of_labels, of_resizing
from gridsample.kernels import threads as pool

Maps = tuple[AxisMap, ...]


def planes_of(array_type: ArrayType, last: bool) -> tuple[int, ...]:
    """The shape (N, C, *spatial, inner) of an image; with its channels as ``inner`` or not."""
    items, channels, *spatial = array_type.shape
    return (items, 1, *spatial, channels) if last else (items, channels, *spatial, 1)


def result_of(maps: Sequence[AxisMap], source: ArrayType, dtype: Any) -> ArrayType:
    """The type of an image to which maps are applied."""
    outputs = [axis_map.outputs for axis_map in maps]
    return ArrayType((*source.shape[:2], *outputs), np.dtype(dtype))


@functools.cache
def steps_of(
    maps: Maps,
    source: ArrayType,
    dtype: np.dtype[Any],
    real: np.dtype[Any],
    rounding: str,
    last: bool,
) -> KeptLaunches | None:
    """Prepare the bands of maps; None if nothing changes."""
    chains = of_resizing().chains
    planes = chains.Planes(planes_of(source, last), source.dtype)
    links = chains.chain_of(maps, planes, dtype, type_name(real), pool.cores(), rounding)
    if not links:
        return None
    results = StepArrays(result_of(maps, source, dtype))
    places = {"source": Place(ARGUMENT, 0), "target": Place(RESULT, 0)}
    return results.prepare(results.located(chains.steps_of(links), places))


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
def vote_steps(maps: Maps, source: ArrayType, last: bool) -> KeptLaunches:
    """Prepare the resizing of labels, of which `range_of` is known."""
    labels, target = of_labels(), result_of(maps, source, source.dtype)
    bands = tuple([axis_map.band for axis_map in maps])
    range_ = range_of(maps, source.dtype)
    assert range_ is not None
    launch = labels.prepare(bands, layout_of(source, last), layout_of(target, last), *range_)
    step = LaunchStep(launch, {"source": Place(ARGUMENT, 0), "target": Place(RESULT, 0)}, {})
    return StepArrays(target).prepare([step])
