"""Coordinates as numbers, and the positions of some among others."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.knots import is_monotonic
from gridsample.fields.conversions import to_pixel

if TYPE_CHECKING:
    import xarray

Positions = NDArray[np.float64]


def as_numbers(*arrays: xarray.DataArray) -> list[xarray.DataArray]:
    """Convert coordinates to float64; times to seconds since the first coordinate's first."""
    start = arrays[0].values.flat[0]
    return [array.copy(data=as_floats(array.data, start)) for array in arrays]


def as_floats(values: Any, start: Any) -> Any:
    """Convert coordinates, also a Dask array, to float64; times to seconds since one of them.

    Times of other calendars are objects.
    """
    if values.dtype.kind in "mM":
        return ((values - start) / np.timedelta64(1, "s")).astype(np.float64)
    if values.dtype.kind == "O":
        return np.vectorize(lambda time: (time - start).total_seconds(), [np.float64])(values)
    return values.astype(np.float64)


def check_monotonic(values: Positions, name: Hashable) -> None:
    """Raise an error unless coordinates increase, or decrease, throughout."""
    if not is_monotonic(values):
        raise ValueError(
            f"the image's coordinate {name!r} must increase or decrease throughout; sort it by "
            f"image.sortby({name!r})"
        )


def index_of(values: Positions, targets: Positions) -> Positions:
    """Return the positions of targets among values, in pixels, also beyond the ends.

    >>> index_of(np.array([0.0, 1.0, 3.0]), np.array([-1.0, 2.0, 3.0, 5.0]))
    array([-1. ,  1.5,  2. ,  3. ])
    """
    if len(values) == 1:  # only the coordinate itself has a position
        index: Positions = np.where(targets == values[0], 0.0, np.inf)
        return np.where(np.isnan(targets), np.nan, index)
    positions: Positions = to_pixel(targets[..., np.newaxis], coords=(values,))[..., 0]
    return positions
