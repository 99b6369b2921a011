"""What the interpolators share: points and values of any library, and SciPy's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.checks import as_array
from gridsample.definitions.originals import originals

Array = Any
HostArray = np.ndarray[Any, Any]


def scipys(name: str, reason: str) -> Any:
    """Return a function or class of `scipy.interpolate`, for calls that are not supported here."""
    try:
        return getattr(originals("scipy.interpolate._rgi", "scipy.interpolate"), name)
    except ImportError:
        raise ImportError(f"{reason} requires SciPy, which is not installed") from None


def as_points(backend: Backend, points: Any, rank: int) -> Array:
    """Return points (..., rank) in floating point, as SciPy's interpolators take them.

    Args:
        backend: the backend of the result.
        points: an array (..., rank), or a tuple of arrays that are broadcast, one for each axis.
        rank: the number of axes.
    """
    if isinstance(points, tuple) and len(points) == 1:
        points = points[0]
    if isinstance(points, tuple):
        parts = [in_float(backend, part) for part in points]
        shape = broadcast_shape(backend, parts)
        xp = backend.xp
        return xp.stack([xp.broadcast_to(part, shape) for part in parts], -1)
    array = in_float(backend, points)
    if len(backend.shape(array)) == 1:
        array = array.reshape(-1, rank)
    return array


def broadcast_shape(backend: Backend, parts: Sequence[Array]) -> tuple[int, ...]:
    """Return the shape to which arrays are broadcast, or raise NumPy's error."""
    return np.broadcast_shapes(*[backend.shape(part) for part in parts])


def in_float(backend: Backend, array: Any) -> Array:
    """Convert an array of any library: NumPy's to float64, others only if they are integers."""
    if backend.is_host:
        return np.asarray(as_array(array, "xi"), dtype=float)
    (converted,) = backend.asarrays(xi=array)
    name = backend.type_name(converted.dtype, "xi")
    if name.startswith(("float", "bfloat")):
        return converted
    return backend.astype(converted, backend.type("float64"))
