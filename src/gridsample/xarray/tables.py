"""Lines of values interpolated by methods that depend on the distances of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.interpolators.hermite import METHODS as HERMITE
from gridsample.interpolators.splines import (
    PERIODIC,
    least_size,
    spline_coefficients,
)
from gridsample.interpolators.tables import DEGREES, SOLVED, TableSampler, reversed_along
from gridsample.xarray.axes import CoordinateAxis

Array = np.ndarray[Any, Any]

# How many coordinates before and after a period decide about it.
AROUND = max(rule.taps // 2 for rule in HERMITE.values())


def sample_lines(
    lines: Array, points: Array, group: Sequence[CoordinateAxis], method: str, threads: int | None
) -> Array:
    """Interpolate lines at points; outside, the ends continue.

    Args:
        lines: the values, (items, C, *axes), with the coordinates of the axes of a group.
        points: the coordinates of points, (items, P, axes).
        group: the axes.
        method: a method of tables.
        threads: the maximum number of threads; None for all.

    Returns:
        (items, C, P), in the dtype of the lines.
    """
    if method in HERMITE and lines.dtype.kind == "c":
        raise TypeError(f"method {method!r} interpolates real numbers, got {lines.dtype}")
    grid, falling, ends = list[Array](), list[int](), [axis.ends for axis in group]
    for k, axis in enumerate(group):
        knots, index = axis.knots, np.arange(len(axis.knots))
        if axis.period is not None:
            count = len(knots)
            index = np.arange(-AROUND, count + AROUND)
            if method in SOLVED:
                index, ends[k] = np.arange(count + 1), (PERIODIC, PERIODIC)
            knots = knots[index % count] + index // count * axis.period
            lines = lines.take(index % count, 2 + k)
        check_count(axis, len(knots), method, ends[k])
        if knots[0] > knots[-1]:
            knots = knots[::-1]
            falling.append(k)
        grid.append(np.ascontiguousarray(knots))
    sampler = TableSampler(grid, falling, method, ends)
    backend = backend_of(lines=lines)
    results = []
    for item, places in zip(lines.astype(np.result_type(lines, 1.0)), points, strict=True):
        if sampler.solves:  # by line, so that results do not depend on chunks
            turned = reversed_along(backend, item, [1 + k for k in sampler.reversed])
            coefficients = spline_coefficients(backend, sampler.splines, turned[..., None])
            image = np.moveaxis(coefficients, 0, -1).reshape(1, *coefficients.shape[1:-1], -1)
        else:
            image = sampler.image_of(backend, np.moveaxis(item, 0, -1))
        results.append(sampler(backend, image, places, threads=threads).T)
    return np.stack(results).astype(lines.dtype, copy=False)


def check_count(axis: CoordinateAxis, count: int, method: str, ends: tuple[str, str]) -> None:
    """Raise an error if an axis has too few coordinates for a method."""
    least = 2 if method in HERMITE else least_size(DEGREES[method], ends)
    if count < least:
        raise ValueError(
            f"method {method!r} needs {least} coordinates or more, but {axis.name!r} has {count}"
        )
