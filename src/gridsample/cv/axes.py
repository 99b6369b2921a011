"""The axes of OpenCV's `resize`: which pixels an output reads, and their weights, as tables."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import tables
from gridsample.definitions.bands import CACHE_BYTES, Band, copying_band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.methods import METHODS
from gridsample.definitions.tables import Axis, AxisMap

Array = np.ndarray[Any, Any]


class ResizedAxis(NamedTuple):
    """An axis of an image that is resized.

    Attributes:
        inputs: the number of pixels.
        outputs: the number of pixels of the result.
        factor: the outputs per pixel, which determine positions.
    """

    inputs: int
    outputs: int
    factor: float


@functools.lru_cache(maxsize=512)
def axis_map(inputs: int, outputs: int, factor: float, rule: str) -> AxisMap:
    """Return the matrix of an axis: by one of OpenCV's rules, or a mode of `interpolate`."""
    if rule == "area" and (inputs % outputs or not math.isclose(inputs * factor, outputs)):
        rule = "mean"
    if rule in RULES:
        return table_of(ResizedAxis(inputs, outputs, factor), rule)
    scale = 0.0 if rule == "area" else factor
    return tables.axis_map(Axis(inputs, outputs, METHODS[rule], scale=scale))


@cached_by_size(CACHE_BYTES, lambda axis_map: axis_map.table.bytes)
def table_of(axis: ResizedAxis, rule: str) -> AxisMap:
    """Return the matrix of an axis by one of OpenCV's rules."""
    return tables.map_of_band(RULES[rule](axis))


def nearest(axis: ResizedAxis) -> Band:
    """Copy pixel floor(i / factor)."""
    index = np.floor(np.arange(axis.outputs) * (1 / axis.factor))
    return copy_pixels(index, axis.inputs)


def nearest_exact(axis: ResizedAxis) -> Band:
    """Copy pixel floor((i + 1/2) step), where steps are added up and follow from the sizes."""
    steps = np.full(axis.outputs, axis.inputs / axis.outputs)
    steps[0] /= 2
    return copy_pixels(np.floor(np.cumsum(steps)), axis.inputs)


def copy_pixels(index: Array, inputs: int) -> Band:
    """Copy the pixels with some indices, or the last one."""
    return copying_band(np.clip(index, 0, inputs - 1).astype(np.int64), inputs)


def mean(axis: ResizedAxis) -> Band:
    """Average over [i / factor, (i + 1) / factor], pixel k being [k, k + 1]."""
    step = 1 / axis.factor
    start = np.minimum(np.arange(axis.outputs) * step, axis.inputs - 1)
    stop = np.minimum(start + step, axis.inputs)
    first = np.floor(start).astype(np.int64)
    pixel = first[:, np.newaxis] + np.arange(math.ceil(step) + 1)
    low, high = start[:, np.newaxis], stop[:, np.newaxis]
    share = np.maximum(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0)
    count = (share > 0).sum(axis=1)
    return Band(axis.inputs, first, count, share[:, : count.max()] / (high - low))


def sharp(axis: ResizedAxis) -> Band:
    """Interpolate between two pixels only if the edge between them is in the output."""
    last, index = axis.inputs - 1, np.arange(axis.outputs, dtype=np.float64)
    base = np.floor(index * (1 / axis.factor))
    share = np.maximum((index + 1 - (base + 1) * axis.factor).astype(np.float32), 0)
    share = np.where(base < last, share - np.floor(share), 0).astype(np.float64)
    count = 1 + (share > 0)
    weights = np.stack([1 - share, share], axis=1)[:, : count.max()]
    return Band(axis.inputs, np.minimum(base, last).astype(np.int64), count, weights)


RULES = {"nearest": nearest, "nearest-exact": nearest_exact, "mean": mean, "sharp": sharp}
