"""Interpolation of rows of values along an axis, like `numpy.interp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.caches import MAX_AXES_BYTES, cached_by_size
from gridsample.definitions.checks import as_reals
from gridsample.definitions.knots import Axes
from gridsample.interpolators.arrays import Array, HostArray, as_library, in_float
from gridsample.interpolators.tables import as_table
from gridsample.ops.sampling import sample_at_pixels

# The most points of one row that NumPy interpolates in less time than a program is started.
FEW_POINTS = 500


def interp(
    x: Any,
    xp: Any,
    fp: Any,
    left: Any = None,
    right: Any = None,
    period: float | None = None,
) -> Any:
    """Interpolate linearly between points of a line, like `numpy.interp`, for many rows at once.

    Args:
        x: where to interpolate, an array of any shape, or a number.
        xp: the coordinates of the values, 1-D and finite.  They increase throughout; with a
            period, they may have any order, but no two may be equal modulo the period.  They have
            no gradient.
        fp: the values, (..., len(xp)), real or complex.  A row is interpolated for each entry of
            the first axes.
        left: the result below the first coordinate; None for the first value.
        right: the result above the last coordinate; None for the last value.
        period: the period of x and xp, with which left and right have no effect.

    Returns:
        (*fp.shape[:-1], *x.shape).  It is float64 or complex128 for NumPy arrays; tensors and JAX
        arrays keep the dtype of ``fp``, and have gradients in x and fp.

    Raises:
        ValueError: the shapes do not match, the coordinates do not increase, or the period is 0.
        TypeError: an argument does not hold numbers.

    Example:
        >>> from gridsample.interpolators import interp
        >>> interp([0.5, 2.5, 9.0], [0.0, 1.0, 3.0], [[0.0, 10.0, 20.0], [1.0, 2.0, 3.0]])
        array([[ 5.  , 17.5 , 20.  ],
               [ 1.5 ,  2.75,  3.  ]])
        >>> interp([350.0, 100.0], [10.0, 90.0, 180.0], [1.0, 2.0, 3.0], period=360).round(3)
        array([1.211, 2.111])
    """
    backend = backend_of(x=x, fp=fp)
    points, values = as_library(backend, x=x, fp=fp)
    points, values = in_float(backend, points, "x"), as_table(backend, values, "fp")
    if backend.is_host:
        values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    knots = as_reals(xp, "xp")
    shape = backend.shape(values)
    if knots.ndim != 1 or not shape or shape[-1] != len(knots) or not len(knots):
        raise ValueError(
            "xp must be 1-D, not empty, and as long as the last axis of fp; got shapes "
            f"{knots.shape} and {shape}"
        )
    if period is not None:
        knots, values, points = wrapped(backend, knots, values, points, period)
        left = right = None
    axes = axes_of(knots.tobytes())
    if backend.is_host and len(shape) == 1 and points.size <= FEW_POINTS:
        return np.interp(points, knots, values, left, right)
    rows = values.reshape(1, -1, len(knots))
    if len(knots) == 1:
        line: Any = axes.entries[0]
        rows, knots = backend.concatenate([rows, rows], 2), line.coordinates
    sampled = sample_at_pixels(
        rows, points.reshape(1, -1, 1), mode="linear", padding_mode="border", coords=axes
    )
    if backend.is_host:
        sampled = with_knots(sampled, rows, knots, points)
    result = sampled.reshape((*shape[:-1], *backend.shape(points)))
    last = float(knots[shape[-1] - 1]) if period is None else np.inf
    for beyond, value in ((points < float(knots[0]), left), (points > last, right)):
        if value is not None:
            result = backend.xp.where(beyond, value, result)
    return result[()] if backend.is_host else result


@cached_by_size(MAX_AXES_BYTES, lambda axes: 8 * len(axes.text))
def axes_of(content: bytes) -> Axes:
    """Return the axis with these coordinates, of float64; a single one begins an interval.

    Making it takes as long as sampling thousands of points.
    """
    knots = np.frombuffer(content)
    if not (np.isfinite(knots).all() and (np.diff(knots) > 0).all()):
        raise ValueError("xp must be finite and increase throughout; sort it, and fp with it")
    if len(knots) == 1:
        knots = np.append(knots, knots + np.maximum(1, abs(knots)))
    return Axes(knots)


def with_knots(sampled: HostArray, rows: HostArray, knots: HostArray, points: HostArray) -> Any:
    """Return samples (1, C, P) that are the values of rows (1, C, n) at coordinates of the axis.

    Such a sample is NaN if the next value is infinite or NaN, which has the weight 0.
    """
    lost = np.flatnonzero(~np.isfinite(sampled).all((0, 1)))
    if len(lost):
        places = np.clip(points.reshape(-1)[lost], knots[0], knots[-1])
        numbers = np.minimum(np.searchsorted(knots, places), len(knots) - 1)
        at_knot = knots[numbers] == places
        sampled[..., lost[at_knot]] = rows[..., numbers[at_knot]]
    return sampled


def wrapped(
    backend: Backend, knots: HostArray, values: Array, points: Array, period: Any
) -> tuple[HostArray, Array, Array]:
    """Return coordinates over a period and beyond its ends, their values, and points in it."""
    length = abs(float(period))
    if not 0 < length < np.inf:
        raise ValueError(f"period must be a number other than 0, got {period!r}")
    knots = knots % length
    order = np.argsort(knots, kind="stable")
    knots = knots[order]
    if not (np.isfinite(knots).all() and (np.diff(knots) > 0).all()):
        raise ValueError("xp must be finite, and no two entries may be equal modulo the period")
    around = np.concatenate([order[-1:], order, order[:1]])
    knots = np.concatenate([knots[-1:] - length, knots, knots[:1] + length])
    index = backend.asarray(around, values)
    return knots, values[..., index], points % length
