"""OpenCV's INTER_AREA: means over intervals that need not begin and end between pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.chunked.strips import sample_axis
from gridsample.definitions.integers import saturated

Array = np.ndarray[Any, Any]


def resize_by_area(image: Array, size: tuple[int, int], factors: Sequence[float]) -> Array:
    """Resize an image (H, W, C): by means if no axis grows, otherwise linearly.

    ``factors`` are the outputs per pixel along both axes.
    """
    values = image.astype(summed_in(image.dtype))
    for axis, (outputs, factor) in enumerate(zip(size, factors, strict=True)):
        if max(factors) <= 1:
            values = mean_along(values, axis, outputs, 1 / factor)
        else:
            x = sharp_positions(outputs, factor)
            values = sample_axis(values, axis, x, mode="linear", padding_mode="border")
    if image.dtype.kind in "iu":
        values = saturated(np.rint(values), image.dtype)
    return values


def summed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of sums of an image's pixels."""
    return np.dtype(np.float64 if dtype.itemsize > 4 or dtype.kind in "iu" else np.float32)


def sharp_positions(outputs: int, factor: float) -> Array:
    """The positions of outputs: between two pixels only if an edge of pixels is in the output."""
    index: Array = np.arange(outputs, dtype=np.float64)
    base = np.floor(index * (1 / factor))
    share = np.maximum((index + 1 - (base + 1) * factor).astype(np.float32), 0)
    positions: Array = base + (share - np.floor(share))
    return positions


def mean_along(image: Array, axis: int, outputs: int, step: float) -> Array:
    """The mean over [i step, (i + 1) step] along an axis, pixel k being [k, k + 1]."""
    n = image.shape[axis]
    start = np.arange(outputs) * step
    stop = np.minimum(start + step, n)
    first = np.floor(start).astype(int)
    side = [-1 if k == axis else 1 for k in range(image.ndim)]
    total: Array = np.zeros(
        [outputs if k == axis else m for k, m in enumerate(image.shape)], image.dtype
    )
    for k in range(math.ceil(step) + 1):
        share = np.minimum(stop, first + k + 1) - np.maximum(start, first + k)
        # A pixel that is not covered may lie outside: the first one is read in its place.
        index = np.where(share > 0, first + k, first)
        weight = (share / (stop - start)).astype(image.dtype).reshape(side)
        taken = np.take(image, index, axis)
        total += np.multiply(taken, weight, out=np.zeros_like(taken), where=weight > 0)
    return total
