"""What the interpolators share: points and values of any library, and SciPy's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.checks import as_array, as_reals
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
        parts = as_library(backend, **{f"xi[{k}]": part for k, part in enumerate(points)})
        parts = [in_float(backend, part, f"xi[{k}]") for k, part in enumerate(parts)]
        shape = broadcast_shape(backend, parts)
        xp = backend.xp
        return xp.stack([xp.broadcast_to(part, shape) for part in parts], -1)
    (array,) = as_library(backend, xi=points)
    array = in_float(backend, array, "xi")
    if len(backend.shape(array)) == 1:
        array = array.reshape(-1, rank)
    return array


def as_common(backend: Backend, values: Array, xi: Any, rank: int) -> tuple[Backend, Array]:
    """Return the backend of a table and points of which one may be NumPy's, and the points."""
    if backend.is_host and type(xi) is np.ndarray and xi.ndim > 1 and xi.dtype.type is np.float64:
        return backend, xi
    parts = xi if isinstance(xi, tuple) else (xi,)
    other = backend_of(**{f"xi[{k}]": part for k, part in enumerate(parts)})
    found = as_points(other, xi, rank)
    if backend.is_host or other is backend:
        return other, found
    return backend, backend.asarray(found, values)


def broadcast_shape(backend: Backend, parts: Sequence[Array]) -> tuple[int, ...]:
    """Return the shape to which arrays are broadcast, or raise NumPy's error."""
    return np.broadcast_shapes(*[backend.shape(part) for part in parts])


def as_library(backend: Backend, **arguments: Any) -> Sequence[Array]:
    """Convert arguments to arrays of a library, to which one of them belongs.

    The others may be NumPy arrays, lists and numbers, which go to the device of that one.
    """
    own = {name for name, value in arguments.items() if backend_of(**{name: value}) is backend}
    like = next(value for name, value in arguments.items() if name in own)
    for name in [name for name in arguments if name not in own]:
        array = as_array(arguments[name], name)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
        array = array.astype(np.float64) if array.dtype.kind in "biu" else array
        arguments[name] = backend.asarray(np.ascontiguousarray(array), like)
    return backend.asarrays(**arguments)


def in_float(backend: Backend, array: Array, name: str) -> Array:
    """Convert an array of real numbers: NumPy's to float64, others only if they are integers."""
    if backend.is_host:
        return as_reals(array, name)
    type_name = backend.type_name(array.dtype, name)
    if type_name.startswith(("float", "bfloat")):
        return array
    if type_name.startswith("complex"):
        raise TypeError(f"{name} must hold real numbers, got dtype {type_name}")
    return backend.astype(array, backend.type("float64"))
