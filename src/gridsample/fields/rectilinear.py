"""Axes with coordinates of their own, for arrays of every library, which may be traced or learned.

`gridsample.definitions.knots` defines them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.coords import COORDS
from gridsample.definitions.knots import (
    Axes,
    Knots,
    check_count,
    check_length,
    check_order,
    check_unit,
)
from gridsample.definitions.shapes import axis_name, axis_names
from gridsample.fields.arrays import Array, as_wide_arrays


def check_axes(coords: Any, rank: int) -> tuple[Any, ...]:
    """Return an entry for each axis, a name or coordinates, or raise an error for others."""
    if isinstance(coords, Axes):
        coords = coords.entries
    if not isinstance(coords, (tuple, list)):
        raise TypeError(
            f"coords must be one of {', '.join(map(repr, COORDS))}, or a tuple with the "
            f"coordinates of each axis ({axis_names(rank)}), got a {type(coords).__name__}"
        )
    check_count(coords, rank)
    for entry in coords:
        if isinstance(entry, str):
            check_unit(entry)
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
    if isinstance(values, Knots):
        values = values.coordinates
    source = backend_of(**{name: values})
    if source is not backend and not source.is_host:
        raise TypeError(
            f"{name} is a {type(values).__name__}, but grid is not; both must be from one library"
        )
    _, (array,) = as_wide_arrays(**{name: values})
    axis = backend.astype(backend.asarray(array, like), backend.type("float64"))
    check_length(backend.shape(axis), name, size)
    # Arrays are known, even where a program that converts them is being traced.
    dtype = backend.type_name(axis.dtype)
    numbers = array.astype(dtype) if source.is_host else known_numbers(backend, axis)
    if numbers is not None:
        check_order(numbers, name)
    return axis


def known_numbers(backend: Backend, array: Array) -> Any:
    """Return the numbers of an array; None on another device, or while a program is traced."""
    numbers = backend.host_view(array)
    if numbers is None and backend.is_concrete(array):
        with contextlib.suppress(TypeError):  # JAX's, of arrays without numbers
            numbers = np.asarray(array)
    return numbers
