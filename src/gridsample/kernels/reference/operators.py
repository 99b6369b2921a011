"""Fused operators in plain loops: what their programs must compute.

>>> import numpy as np
>>> images = np.array([1.0, 3.0, 10.0]).reshape(1, 3, 1, 1)  # one level of 2 pixels, one of 1
>>> points = np.array([0.5, 0.0]).reshape(1, 1, 1, 2, 1, 1)  # in pixels
>>> weights = np.array([1.0, 0.5]).reshape(1, 1, 1, 2, 1)
>>> weighted_sum(images, points, weights, [(2,), (1,)], ("linear",), ("zeros",), False, "pixel")
array([[[[7.]]]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gridsample.kernels.reference import Array, gather
from gridsample.kernels.reference.axis import Mode


def weighted_sum(
    images: Array,
    points: Array,
    weights: Array,
    sizes: Sequence[tuple[int, ...]],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    coords: str,
) -> Array:
    """Sum the weighted samples of the points of each query: (N, Q, H, C).

    Args:
        images: (N, S, H, C), the pixels of all levels.
        points: (N, Q, H, L, P, D).
        weights: (N, Q, H, L, P).
        sizes: the spatial shape of each level.
        modes: a method for each axis, x first.
        boundaries: a boundary for each axis, x first.
        align_corners: what -1 and 1 mean.
        coords: the units of points, or "unit": 0 and 1 are the outer edges.
    """
    items, queries, heads, levels, each, _ = points.shape
    result = np.zeros((items, queries, heads, images.shape[-1]))
    begin = 0
    for level in range(levels):
        pixels = math.prod(sizes[level])
        for n, q, h, p in np.ndindex(items, queries, heads, each):
            image = images[n, begin : begin + pixels, h].T.reshape(1, -1, *sizes[level])
            point, units = points[n, q, h, level, p], coords
            if coords == "unit":
                point, units = 2 * point - 1, "normalized"
            grid = point.reshape(1, 1, -1)
            sample = gather(image, grid, modes, boundaries, align_corners, coords=units)
            result[n, q, h] += weights[n, q, h, level, p] * sample[0, :, 0]
        begin += pixels
    return result


def correlation_lookup(
    source: Array,
    images: Array,
    positions: Array,
    sizes: Sequence[tuple[int, ...]],
    radius: int,
) -> Array:
    """Sample the correlation of each query in windows around its positions: (N, Q, L * K**D).

    Args:
        source: (N, Q, C), the features of the queries.
        images: (N, S, C), the pixels of all levels.
        positions: (N, Q, D) in pixels of the first level, x first.
        sizes: the spatial shape of each level.
        radius: that of windows, which have K = 2 * radius + 1 samples along each axis.
    """
    items, queries, channels = source.shape
    rank = positions.shape[-1]
    window = (2 * radius + 1,) * rank
    result = np.zeros((items, queries, len(sizes), math.prod(window)))
    begin = 0
    for level, size in enumerate(sizes):
        end = begin + math.prod(size)
        for n, q in np.ndindex(items, queries):
            image = (images[n, begin:end] @ source[n, q]).reshape(1, 1, *size)
            for k, offset in enumerate(np.ndindex(window)):
                point = positions[n, q] / 2**level + np.array(offset) - radius
                rules = ("linear",) * rank, ("zeros",) * rank, True
                sample = gather(image, point.reshape(1, 1, rank), *rules, coords="pixel")
                result[n, q, level, k] = sample.item() / math.sqrt(channels)
        begin = end
    return result.reshape(items, queries, -1)


def softmax_splat(
    values: Array,
    metric: Array,
    positions: Array,
    size: tuple[int, ...],
    boundaries: Sequence[str],
    hard: bool,
) -> Array:
    """Compute the means of the values that reach each pixel: (N, Q, C).

    Args:
        values: (N, P, C).
        metric: (N, P), the logarithms of the values' weights.
        positions: (N, P, D) in pixels, x first.
        size: the spatial shape of the result.
        boundaries: a boundary for each axis, x first.
        hard: whether only values of the greatest metric count.
    """
    pixels, rank = math.prod(size), positions.shape[-1]
    result = np.zeros((len(values), pixels, values.shape[-1]))
    every = np.eye(pixels).reshape(1, pixels, *size)
    for n in range(len(values)):
        known = np.isfinite(positions[n]).all(-1) & ~np.isnan(metric[n])
        grid = np.where(known[:, None], positions[n], 0)[None]
        bilinear = gather(every, grid, ("linear",) * rank, boundaries, False, coords="pixel")[0]
        for q in range(pixels):
            reaching = np.flatnonzero((bilinear[q] > 0) & known)
            if not len(reaching):
                continue
            metrics = metric[n, reaching]
            greatest = metrics.max()
            shares = metrics == greatest if hard else np.exp(metrics - greatest)
            weights = bilinear[q, reaching] * shares
            result[n, q] = weights @ values[n, reaching] / weights.sum()
    return result
