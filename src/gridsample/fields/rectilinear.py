"""Axes with coordinates of their own, such as the pressures of a table, at any distances.

The position of a coordinate x is the number of the interval of the axis that holds it, and the
fraction of that interval:

    p = i + (x - a[i]) / (a[i + 1] - a[i])        a[i] <= x < a[i + 1] on an increasing axis

At a coordinate of the axis, the fraction is exactly 0.  The first and the last interval continue
beyond the ends.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.coords import COORDS
from gridsample.definitions.links import unknown_name
from gridsample.definitions.shapes import axis_name, axis_names
from gridsample.fields.arrays import Array, as_wide_arrays

# The units that an axis without coordinates of its own may have.
UNITS = ("normalized", "pixel")


def check_axes(coords: Any, rank: int) -> tuple[Any, ...]:
    """Return an entry for each axis, a name or an array, or raise an error if there are others."""
    if not isinstance(coords, (tuple, list)):
        raise TypeError(
            f"coords must be one of {', '.join(map(repr, COORDS))}, or a tuple with the "
            f"coordinates of each axis ({axis_names(rank)}), got a {type(coords).__name__}"
        )
    if len(coords) != rank:
        raise ValueError(
            f"coords needs one entry per axis of the image: {rank} ({axis_names(rank)}), got "
            f"{len(coords)}"
        )
    for entry in coords:
        if isinstance(entry, str) and entry not in UNITS:
            raise unknown_name("coords", entry, UNITS, "is not accepted for a single axis")
    return tuple(coords)


def as_axis(backend: Backend, values: Any, number: int, size: Any, like: Array) -> Array:
    """Return the coordinates of an axis in float64, or raise an error if they are no axis.

    Args:
        backend: the backend of the points.
        values: the coordinates as the caller gave them.
        number: the number of the axis, x first.
        size: the number of pixels along the axis; None if it is not known.
        like: the points, on whose device the coordinates are needed.
    """
    name = f"coords along {axis_name(number)}"
    source = backend_of(**{name: values})
    if source is not backend and not source.is_host:
        raise TypeError(
            f"{name} is a {type(values).__name__}, but grid is not; both must be from one library"
        )
    _, (array,) = as_wide_arrays(**{name: values})
    axis = backend.astype(backend.asarray(array, like), backend.type("float64"))
    shape = backend.shape(axis)
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"{name} must be 1-D with two entries or more, got shape {shape}")
    if size is not None and shape[0] != size:
        raise ValueError(f"{name} has {shape[0]} entries, but the image has {size} pixels there")
    # Arrays are known, even where a program that converts them is being traced.
    dtype = backend.type_name(axis.dtype)
    numbers = array.astype(dtype) if source.is_host else known_numbers(backend, axis)
    if numbers is not None and not is_monotonic(numbers):
        raise ValueError(
            f"{name} must be finite and increase or decrease throughout{first_fault(numbers)}"
        )
    return axis


def known_numbers(backend: Backend, array: Array) -> Any:
    """Return the numbers of an array; None on another device, or while a program is traced."""
    numbers = backend.host_view(array)
    if numbers is None and backend.is_concrete(array):
        with contextlib.suppress(TypeError):  # JAX's, of arrays without numbers
            numbers = np.asarray(array)
    return numbers


def is_monotonic(values: Any) -> bool:
    """Whether numbers are finite, and increase or decrease throughout."""
    steps = np.diff(values)
    return bool(np.isfinite(values).all() and ((steps > 0).all() or (steps < 0).all()))


def first_fault(values: Any) -> str:
    """Say which entry of an axis is the first that is not as it must be."""
    rises = values[1] > values[0]
    follows = np.diff(values) > 0 if rises else np.diff(values) < 0
    valid = np.isfinite(values) & np.concatenate([[True], follows])
    k = int(np.argmin(valid))
    return f"; entry {k} is {values[k]}" + (f", after {values[k - 1]}" if k else "")


def positions_along(backend: Backend, axis: Array, points: Array) -> Array:
    """Return where points are among the coordinates of an axis, in pixels; see this module."""
    xp, shape = backend.xp, backend.shape(points)
    sign = xp.where(axis[-1] > axis[0], 1.0, -1.0)
    sought = xp.reshape(points * sign, (-1,))
    before = xp.searchsorted(axis * sign, sought, side="right") - 1
    index = xp.reshape(xp.clip(before, 0, backend.shape(axis)[0] - 2), shape)
    left, right = xp.take(axis, index), xp.take(axis, index + 1)
    with backend.quiet():  # points may be infinite
        return index + (points - left) / (right - left)
