"""Interpolation of tables with axes of their own, like SciPy's `RegularGridInterpolator`."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.checks import as_array
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
        solver, solver_args: as in SciPy, for its own splines.

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
        table = as_table(self._backend, values)
        grid = [np.asarray(as_array(p, f"points[{k}]"), dtype=float) for k, p in enumerate(points)]
        falling = check_grid(self._backend, grid, table)
        self.grid = tuple(
            np.ascontiguousarray(a[:: -1 if k in falling else 1]) for k, a in enumerate(grid)
        )
        self._values = self._backend.xp.flip(table, falling) if falling else table
        check_fill(self._backend, self._values, fill_value)
        self._tables = dict[Any, Table]()

    @property
    def values(self) -> Any:
        """The table, in the order of the grid."""
        return self._values if self._original is None else self._original.values

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
            self._goes_to_scipy(self.values, len(self.grid), name)
            return self._scipys(self.method)(xi, name, nu=nu)
        if nu is not None:
            raise ValueError(
                "Can only compute derivatives for methods "
                f"{{'cubic', 'slinear', 'quintic'}}, got method ={name!r}."
            )
        backend, points = as_common(self._backend, self.values, xi, len(self.grid))
        check_dimension(points, len(self.grid))
        key = name, type(backend)
        if key not in self._tables:
            values = self.values
            if type(backend) is not type(self._backend):  # the table is NumPy's
                values = backend.asarray(np.ascontiguousarray(values), points)
            self._tables[key] = Table(backend, self.grid, values, name)
        rows = points.reshape(-1, len(self.grid))
        if self.bounds_error:
            check_bounds(backend, self.grid, rows)
        outside = None if self.bounds_error else self.fill_value
        result = self._tables[key](rows, outside, self.fill_value is None)
        return result.reshape((*points.shape[:-1], *self.values.shape[len(self.grid) :]))


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


class Table:
    """A table as an image of which samples are taken by one method.

    Axes with one coordinate, which have no interval, are left out: results do not depend on it.

    Attributes:
        grid: the coordinates of all axes, increasing.
        kept: the numbers of the axes with several coordinates.
        image: (1, *spatial, C).
        axes: the units of points, x first.
    """

    def __init__(
        self, backend: Backend, grid: Sequence[HostArray], values: Array, method: str
    ) -> None:
        self.backend, self.grid, self.method = backend, grid, method
        self.kept = [k for k, axis in enumerate(grid) if len(axis) > 1]
        if backend.is_host and method == "linear":
            kind = np.complex128 if values.dtype.kind == "c" else np.float64
            values = values.astype(kind, copy=False)
        step = -1 if method == "nearest" else 1  # see `METHODS`
        xp, rank = backend.xp, len(grid)
        self.rest = tuple(values.shape[rank:])
        values = values[tuple([slice(None) if k in self.kept else 0 for k in range(rank)])]
        if step < 0 and self.kept:
            values = xp.flip(values, tuple(range(len(self.kept))))
        shape = tuple(values.shape[: len(self.kept)])
        channels = int(np.prod(self.rest, dtype=int))
        self.image = values.reshape((1, *shape, channels))
        self.axes = Axes(*[grid[k][::step] for k in reversed(self.kept)]) if self.kept else None

    def __call__(self, points: Array, fill: Any, continues: bool) -> Array:
        """Sample at points (P, n): (P, C).

        Args:
            points: the points.
            fill: the value outside; None if no point is outside, or for ``continues``.
            continues: whether to extrapolate.
        """
        backend, dropped = self.backend, [k for k in range(len(self.grid)) if k not in self.kept]
        filled = not continues and fill is not None
        if self.axes is None:
            shape = points.shape[0], self.image.shape[-1]
            result = backend.xp.broadcast_to(self.image, shape) + 0
        else:
            grid = points[:, [*reversed(self.kept)]][None]
            options: dict[str, Any] = {"padding_mode": "border"}
            if filled:
                options |= {"extrapolate": "centers", "fill_value": fill}
            elif continues:
                options |= {"extrapolate": "continue"}
            result = sample_at_pixels(
                self.image, grid, mode=METHODS[self.method], coords=self.axes, channel_axis=-1,
                **options,
            )[0]  # fmt: skip
        return self.with_single(result, points, dropped, fill if filled else None)

    def with_single(self, result: Array, points: Array, dropped: Sequence[int], fill: Any) -> Array:
        """Fill in results of points that are outside, or NaN, along axes of one coordinate."""
        xp = self.backend.xp
        if fill is not None:
            for k in dropped:
                result = xp.where(points[:, k, None] == float(self.grid[k][0]), result, fill)
        if dropped:
            result = xp.where(xp.any(xp.isnan(points), axis=-1)[:, None], np.nan, result)
        return result


# Checks, with SciPy's messages --------------------------------------------------------------------


def check_method(method: Any) -> None:
    """Raise an error if a method is unknown."""
    if method not in METHODS and method not in SPLINES:
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


def as_table(backend: Backend, values: Any) -> Array:
    """Return the values as an array of floating-point or complex numbers."""
    (table,) = backend.asarrays(values=values)
    name = backend.type_name(table.dtype, "values")
    if name.startswith(("float", "bfloat", "complex")):
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
    if backend.is_host or other is backend:
        return other if backend.is_host else backend, as_points(other, xi, rank)
    return backend, backend.asarray(as_points(other, xi, rank), values)
