"""Interpolation of tables with axes of their own, like SciPy's `RegularGridInterpolator`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import GenericAlias
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.caches import cached_property
from gridsample.definitions.checks import as_array
from gridsample.definitions.coords import CONTINUE
from gridsample.definitions.knots import Axes
from gridsample.definitions.methods import LINEAR, NEAREST_UP
from gridsample.definitions.shapes import MAX_RANK
from gridsample.interpolators.arrays import Array, HostArray, as_points, scipys
from gridsample.ops.sampling import sample_at_pixels

# The methods that are not SciPy's own.  Ties of nearest go to the lower coordinate: it samples the
# table in the order of decreasing coordinates, and rounds half up.
METHODS = {"linear": LINEAR, "nearest": NEAREST_UP}
LEGACY = ("slinear_legacy", "cubic_legacy", "quintic_legacy")
SPLINES = ("slinear", "cubic", "quintic", "pchip", *LEGACY)


class RegularGridInterpolator:
    """Interpolate a table at points, like `scipy.interpolate.RegularGridInterpolator`.

    The axes of the table have coordinates at any distances, increasing or decreasing.

    Args:
        points: the coordinates of each axis, in the order of the axes of ``values``: 1-D arrays
            that increase or decrease throughout.
        values: the table, (m1, ..., mn, ...): real or complex, of n = 1 to 8 axes with coordinates.
            Each point has a result for every entry of the other axes.  A tensor or a JAX array has
            a gradient.
        method: "linear"; "nearest", with ties to the lower coordinate; or "slinear", "cubic",
            "quintic" and "pchip", which are SciPy's own, for NumPy arrays.
        bounds_error: whether a point outside is an error.
        fill_value: the result outside if it is not; None to extrapolate.
        solver: as in SciPy, for its own splines.
        solver_args: likewise.

    Attributes:
        grid: the coordinates, increasing.
        values: the table, in the order of the grid.
        method, bounds_error, fill_value: the arguments.

    Raises:
        ValueError: as in SciPy: the method is unknown, the coordinates do not match the table or do
            not increase or decrease throughout, or the fill value does not go with the table.
        TypeError: the table is a tensor or a JAX array, and the method is SciPy's own.
        ImportError: the method is SciPy's own, and SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> from gridsample.interpolators import RegularGridInterpolator
        >>> pressure, latitude = np.array([1000.0, 850.0, 500.0]), np.array([0.0, 10.0])
        >>> table = np.array([[27.0, 25.0], [18.0, 16.0], [-5.0, -7.0]])
        >>> temperature = RegularGridInterpolator((pressure, latitude), table)
        >>> temperature([[925.0, 5.0], [500.0, 0.0]])
        array([21.5, -5. ])
    """

    # As in SciPy, for annotations.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        check_method(method)
        self.method, self.bounds_error = method, bounds_error
        self.fill_value = fill_value
        self._arguments = points, values
        self._original: Any = None
        self._backend = None if is_duck(values) else backend_of(values=values)
        if self._backend is None or self._goes_to_scipy(values, len(points), method):
            self._original = self._scipys(method, solver=solver, solver_args=solver_args)
            self.grid = self._original.grid
            return
        if solver is not None or solver_args:
            raise ValueError(
                f"{method =} does not accept the 'solver' argument. Got "
                f" {solver = } and with arguments {solver_args}."
            )
        (table,) = self._backend.asarrays(values=values)
        table = as_table(self._backend, table, "values")
        grid = [np.asarray(as_array(p, f"points[{k}]"), dtype=float) for k, p in enumerate(points)]
        self._falling = check_grid(self._backend, grid, table)
        self.grid = tuple(
            np.ascontiguousarray(a[:: -1 if k in self._falling else 1]) for k, a in enumerate(grid)
        )
        # The caller's own array, so that tensors that change, or are differentiated later, are
        # those of each call.
        self._table = table
        check_fill(self._backend, table, fill_value)
        self._lookups = {method: TableSampler(self.grid, self._falling, method)}

    @property
    def values(self) -> Any:
        """The table, in the order of the grid."""
        if self._original is not None:
            return self._original.values
        assert self._backend is not None
        return reversed_along(self._backend, self._table, self._falling)

    @cached_property
    def _doubles(self) -> HostArray:
        """A NumPy table in double precision, as linear results are."""
        kind = np.complex128 if self._table.dtype.kind == "c" else np.float64
        return np.asarray(self._table, dtype=kind)

    def _scipys(self, method: str, **options: Any) -> Any:
        """Make SciPy's interpolator."""
        interpolator = scipys("RegularGridInterpolator", f"method {method!r}")
        return interpolator(*self._arguments, method, self.bounds_error, self.fill_value, **options)

    def _goes_to_scipy(self, values: Any, rank: int, method: str) -> bool:
        """Whether SciPy interpolates; tensors and JAX arrays cannot go there."""
        assert self._backend is not None
        if method in METHODS and rank <= MAX_RANK:
            # Numbers of more than double precision, or of Python.
            return self._backend.is_host and np.asarray(values).dtype.char in "gGO"
        if not self._backend.is_host:
            raise TypeError(
                f"method {method!r} with {rank} axes is SciPy's own, for NumPy arrays; accepted "
                f"for tensors and JAX arrays: {', '.join(map(repr, METHODS))}, of up to "
                f"{MAX_RANK} axes"
            )
        return True

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """Interpolate at points.

        Args:
            xi: the points, (..., n), or a tuple of n arrays that are broadcast.  Tensors and JAX
                arrays have a gradient.
            method: another method than that of the interpolator.
            nu: orders of derivatives, for "slinear", "cubic" and "quintic", as in SciPy.

        Returns:
            (..., *rest), rest being the shape of the table after its first n axes; float64, or
            complex128, of NumPy arrays with linear interpolation, otherwise in the dtype of the
            table.  The result of a NaN point is NaN.

        Raises:
            ValueError: a point is outside, or NaN, with bounds_error=True; or as in SciPy.
        """
        name = self.method if method is None else method
        check_method(name)
        if self._original is not None:
            return self._original(xi, name, nu=nu)
        assert self._backend is not None
        if name in SPLINES:
            self._goes_to_scipy(self._table, len(self.grid), name)
            return self._scipys(self.method)(xi, name, nu=nu)
        if nu is not None:
            raise ValueError(
                "Can only compute derivatives for methods "
                f"{{'cubic', 'slinear', 'quintic'}}, got method ={name!r}."
            )
        backend, points = as_common(self._backend, self._table, xi, len(self.grid))
        check_dimension(points, len(self.grid))
        rows = points.reshape(-1, len(self.grid))
        if self.bounds_error:
            check_bounds(backend, self.grid, rows)
        table = self._doubles if backend.is_host and name == "linear" else self._table
        if backend is not self._backend:  # the table is NumPy's
            table = backend.asarray(table, rows)
        if name not in self._lookups:
            self._lookups[name] = TableSampler(self.grid, self._falling, name)
        result = self._lookups[name](backend, table, rows, self.fill_value, not self.bounds_error)
        return result.reshape((*points.shape[:-1], *self._table.shape[len(self.grid) :]))


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """Interpolate a table at points, like `scipy.interpolate.interpn`.

    Args:
        points, values, bounds_error, fill_value: as in `RegularGridInterpolator`.
        xi: the points, as in a call of an interpolator.
        method: as in `RegularGridInterpolator`, or "splinef2d", which is SciPy's own.

    Returns:
        The results, as those of a `RegularGridInterpolator`.

    Raises:
        ValueError, TypeError, ImportError: as in `RegularGridInterpolator`.

    Example:
        >>> import numpy as np
        >>> from gridsample.interpolators import interpn
        >>> interpn(([0.0, 1.0, 3.0],), np.array([0.0, 10.0, 20.0]), [0.5, 2.0])
        array([ 5., 15.])
    """
    if method not in METHODS:
        of_scipy = scipys("interpn", f"method {method!r}")
        if not is_duck(values) and not backend_of(values=values).is_host:
            raise TypeError(
                f"method {method!r} is SciPy's own, for NumPy arrays; accepted for tensors and JAX "
                f"arrays: {', '.join(map(repr, METHODS))}"
            )
        return of_scipy(points, values, xi, method, bounds_error, fill_value)
    interpolator = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    if not isinstance(xi, tuple):
        check_dimension(xi, len(points), ",")
    return interpolator(xi)


# Tables -------------------------------------------------------------------------------------------


class TableSampler:
    """How a table is sampled by one method, as an image.

    It holds no array of a table, which may be a tensor that changes, or is traced.  Axes with one
    coordinate, which have no interval, are left out: results do not depend on it.

    Attributes:
        grid: the coordinates of all axes, increasing.
        method: "linear" or "nearest".
        kept: the numbers of the axes with several coordinates.
        reversed: those among the kept axes along which the table is reversed.
        axes: the units of points, x first; None if no axis is kept.
    """

    def __init__(self, grid: Sequence[HostArray], falling: Sequence[int], method: str) -> None:
        self.grid, self.method = grid, method
        self.kept = [k for k, axis in enumerate(grid) if len(axis) > 1]
        # The order of nearest: see `METHODS`; that of linear: results have SciPy's bits.
        decreasing = self.kept if method == "nearest" else []
        steps = [-1 if k in decreasing else 1 for k in self.kept]
        axes = [grid[k][::step] for k, step in zip(self.kept, steps, strict=True)]
        self.axes = Axes(*axes[::-1]) if axes else None
        self.reversed = [n for n, k in enumerate(self.kept) if (k in decreasing) != (k in falling)]

    def __call__(
        self, backend: Backend, table: Array, points: Array, fill_value: Any, reaches_out: bool
    ) -> Array:
        """Sample a table at points (P, n): (P, C).

        Args:
            backend: the backend of all arrays.
            table: the table, in the caller's order.
            points: the points.
            fill_value: the value outside; None to extrapolate.
            reaches_out: whether points may be outside.
        """
        image = self.image_of(backend, table)
        if self.axes is None:
            shape = points.shape[0], image.shape[-1]
            result = backend.xp.broadcast_to(image, shape) + 0
        else:
            continues = reaches_out and fill_value is None
            result = sample_at_pixels(
                image, points[:, self.kept[::-1]][None], mode=METHODS[self.method],
                padding_mode="border", extrapolate=CONTINUE if continues else True,
                coords=self.axes, channel_axis=-1,
            )[0]  # fmt: skip
        if reaches_out and fill_value is not None:
            fill = np.full(table.shape[len(self.grid) :], fill_value).reshape(-1)
            fill = backend.astype(backend.asarray(fill, result), result.dtype)
            result = backend.xp.where(self.is_outside(points)[:, None], fill, result)
        elif len(self.kept) == len(self.grid):
            return result  # NaN where a point is
        unknown = backend.xp.any(backend.xp.isnan(points), -1)
        return backend.xp.where(unknown[:, None], np.nan, result)

    def image_of(self, backend: Backend, table: Array) -> Array:
        """Return a table as an image (1, *spatial, C), without axes of one coordinate."""
        rank = len(self.grid)
        channels = math.prod(table.shape[rank:])
        table = table[tuple([slice(None) if k in self.kept else 0 for k in range(rank)])]
        table = reversed_along(backend, table, self.reversed)
        return table.reshape((1, *table.shape[: len(self.kept)], channels))

    def is_outside(self, points: Array) -> Array:
        """Whether points (P, n) are outside: (P,)."""
        outside = points[:, 0] != points[:, 0]
        for k, axis in enumerate(self.grid):
            column = points[:, k]
            outside = outside | (column < float(axis[0])) | (column > float(axis[-1]))
        return outside


def reversed_along(backend: Backend, table: Array, axes: Sequence[int]) -> Array:
    """Return a table whose order is reversed along some axes."""
    return backend.xp.flip(table, tuple(axes)) if axes else table


# Checks, with SciPy's messages --------------------------------------------------------------------


def check_method(method: Any) -> None:
    """Raise an error if a method is unknown."""
    if not isinstance(method, str) or (method not in METHODS and method not in SPLINES):
        raise ValueError(f"Method '{method}' is not defined")


def is_duck(values: Any) -> bool:
    """Whether a table is an object that only behaves like an array, which SciPy interpolates."""
    if type(values) is np.ndarray or not hasattr(values, "ndim"):
        return False
    if not backend_of(values=values).is_host:
        return False
    try:
        np.asarray(values)
    except Exception:  # of any kind, as it is the object's own
        return True
    return False


def as_table(backend: Backend, table: Array, name: str) -> Array:
    """Return an array of floating-point or complex numbers; integers become float64."""
    if backend.type_name(table.dtype, name).startswith(("float", "bfloat", "complex")):
        return table
    return backend.astype(table, backend.type("float64"))


def check_grid(backend: Backend, grid: Sequence[HostArray], table: Array) -> tuple[int, ...]:
    """Check coordinates, and return the numbers of the axes along which they decrease."""
    falling, shape = list[int](), backend.shape(table)
    for k, axis in enumerate(grid):
        if np.all(axis[1:] > axis[:-1]):
            continue
        if not np.all(axis[1:] < axis[:-1]):
            raise ValueError(
                f"The points in dimension {k} must be strictly ascending or descending"
            )
        falling.append(k)
    if len(grid) > len(shape):
        raise ValueError(
            f"There are {len(grid)} point arrays, but values has {len(shape)} dimensions"
        )
    for k, axis in enumerate(grid):
        if axis.ndim != 1:
            raise ValueError(f"The points in dimension {k} must be 1-dimensional")
        if shape[k] != len(axis):
            raise ValueError(f"There are {len(axis)} points and {shape[k]} values in dimension {k}")
    return tuple(falling)


def check_fill(backend: Backend, table: Array, fill_value: Any) -> None:
    """Raise an error if a fill value has another kind of numbers than the table."""
    if fill_value is None:
        return
    name = backend.type_name(table.dtype)
    kind = np.dtype("float32" if name == "bfloat16" else name)
    if not np.can_cast(np.asarray(fill_value).dtype, kind, casting="same_kind"):
        raise ValueError("fill_value must be either 'None' or of a type compatible with values")


def check_dimension(points: Any, rank: int, comma: str = "") -> None:
    """Raise an error if points do not have a coordinate for each axis.

    comma: what SciPy's message of `interpn` has, and that of the interpolator has not.
    """
    shape = tuple(getattr(points, "shape", ()))
    if len(shape) > 1 and shape[-1] != rank:
        raise ValueError(
            f"The requested sample points xi have dimension {shape[-1]}{comma} but this "
            f"RegularGridInterpolator has dimension {rank}"
        )


def check_bounds(backend: Backend, grid: Sequence[HostArray], points: Array) -> None:
    """Raise an error if a point is outside, or NaN; points of a traced program are not checked."""
    if not points.shape[0] or not backend.inspects(points):
        return
    for k, axis in enumerate(grid):
        column = points[:, k]
        if not (axis[0] <= column.min() and column.max() <= axis[-1]):
            raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")


def as_common(backend: Backend, values: Array, xi: Any, rank: int) -> tuple[Backend, Array]:
    """Return the backend of a table and points of which one may be NumPy's, and the points."""
    parts = xi if isinstance(xi, tuple) else (xi,)
    other = backend_of(**{f"xi[{k}]": part for k, part in enumerate(parts)})
    found = as_points(other, xi, rank)
    if backend.is_host or other is backend:
        return other, found
    return backend, backend.asarray(found, values)
