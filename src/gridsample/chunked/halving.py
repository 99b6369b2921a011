"""Halved copies of an image, for footprints that are longer than ``max_samples``: part by part.

A pixel of a copy is the mean of the image over an interval of n / m pixels along each axis, where n
pixels become m (`gridsample.definitions.footprints.halving`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import (
    Array,
    Interval,
    Intervals,
    Sampling,
    level_of,
    sum_type,
)
from gridsample.definitions.footprints import halved_type, halving
from gridsample.definitions.shapes import Shape


def copy_type(call: Sampling, image: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the copies of an image: that in which a call computes sums."""
    return sum_type(image, wide=call.epsilon <= float(np.finfo(np.float64).eps))


def stored_type(call: Sampling, image: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the copy that is sampled."""
    return halved_type(image, level_of(call), copy_type(call, image))


def pixels_of(size: int, start: int, stop: int) -> Interval:
    """Return the pixels of a line whose means are the entries ``start`` to ``stop`` of its half.

    Example:
        >>> from gridsample.chunked.halving import pixels_of
        >>> pixels_of(7, 1, 3)
        (1, 6)
    """
    pixels, weights = halving(size)
    used = pixels[start:stop][weights[start:stop] > 0]
    return int(used.min()), int(used.max()) + 1


def halved_part(pixels: Array, axis: int, size: int, start: int, stop: int) -> Array:
    """Halve a part of a line.

    Args:
        pixels: those of `pixels_of` along ``axis``, as real or complex numbers.
        axis: the axis.
        size: the size of the whole line.
        start, stop: the entries of its half.

    Example:
        >>> import numpy as np
        >>> from gridsample.chunked.halving import halved_part
        >>> halved_part(np.array([1.0, 3.0, 5.0]), 0, 3, 0, 2)
        array([1.66666667, 4.33333333])
    """
    rows, weights = (table[start:stop] for table in halving(size))
    # Entries with a weight of 0 may be NaN, or not be there.
    rows = np.where(weights > 0, rows, rows[:, :1]) - pixels_of(size, start, stop)[0]
    shape = [-1 if k == axis else 1 for k in range(pixels.ndim)]
    taps = [
        pixels.take(rows[:, k], axis) * weights[:, k].reshape(shape).astype(pixels.real.dtype)
        for k in range(rows.shape[1])
        if weights[:, k].any()
    ]
    total: Array = sum(taps[1:], taps[0])
    return total


@dataclass(frozen=True)
class Halving:
    """A halved copy along an axis.

    Attributes:
        axis: the axis.
        size: the size of a line before.
        dtype: the dtype of the copy.
    """

    axis: int
    size: int
    dtype: np.dtype[Any]

    def intervals(self, start: int, stop: int) -> Intervals:
        """Return the inputs of the entries ``start`` to ``stop``, which `compute` takes."""
        return (pixels_of(self.size, start, stop),)

    def compute(self, inputs: Array, start: int, stop: int) -> Array:
        """Compute some entries of all lines from their inputs."""
        return halved_part(inputs, self.axis, self.size, start, stop)


def halvings_of(
    call: Sampling, axes: Sequence[int], shape: Shape, dtype: np.dtype[Any]
) -> list[list[Halving]]:
    """Return how an image becomes its copy at the level of a call: for each level, axis by axis.

    Args:
        call: the call.
        axes: the spatial axes of the array.
        shape: the shape of the array.
        dtype: its dtype.
    """
    sizes, levels = list(shape), list[list[Halving]]()
    for _ in range(level_of(call)):
        levels.append([Halving(k, sizes[k], copy_type(call, dtype)) for k in axes if sizes[k] > 1])
        for k in axes:
            sizes[k] = (sizes[k] + 1) // 2
    return levels
