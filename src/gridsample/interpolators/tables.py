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
from gridsample.definitions.methods import LINEAR, NEAREST_UP, Method, spline_on_knots
from gridsample.definitions.request import Request, sampling_request
from gridsample.definitions.shapes import MAX_RANK, Shape
from gridsample.interpolators import hermite
from gridsample.interpolators.arrays import Array, HostArray, as_common, scipys
from gridsample.interpolators.rectangles import RectBivariateSpline
from gridsample.interpolators.splines import (
    NOT_A_KNOT,
    PERIODIC,
    Ends,
    SplineAxis,
    ends_along,
    least_size,
    spline_coefficients,
)
from gridsample.ops.arrays import exact_type
from gridsample.ops.sampling import sample_as_known, sample_at_pixels

# The methods that are not SciPy's own.  Ties of nearest go to the lower coordinate: it samples the
# table in the order of decreasing coordinates, and rounds half up.  None are those of `hermite`.
METHODS: dict[str, Method | None] = {
    "linear": LINEAR,
    "nearest": NEAREST_UP,
    "slinear": LINEAR,
    "quadratic": spline_on_knots(2),
    "cubic": spline_on_knots(3),
    "quintic": spline_on_knots(5),
    **dict.fromkeys(hermite.METHODS),
}
# What points outside have, if they are an error.
OUTSIDE = float("nan")
# A number that no dtype is too small for.
SMALL = 60_000.0
# The splines among them, which have derivatives of any order, and all that need more coordinates
# than their degree.
SPLINES = ("slinear", "quadratic", "cubic", "quintic")
DEGREES = {
    "slinear": 1,
    "quadratic": 2,
    "cubic": 3,
    "quintic": 5,
    "pchip": 3,
    "akima": 1,
    "makima": 1,
}
DEGREES |= {"slinear_legacy": 1, "cubic_legacy": 3, "quintic_legacy": 5}
# Those whose coefficients solve equations, which the ends are part of.
SOLVED = ("cubic", "quintic")


class RegularGridInterpolator:
    """Interpolate a table at points, like `scipy.interpolate.RegularGridInterpolator`.

    The axes of the table have coordinates at any distances, increasing or decreasing.

    Args:
        points: the coordinates of each axis, in the order of the axes of ``values``: 1-D arrays
            that increase or decrease throughout.
        values: the table, (m1, ..., mn, ...): real or complex, of n = 1 to 8 axes with coordinates.
            Each point has a result for every entry of the other axes.  A tensor or a JAX array has
            a gradient.
        method: "linear"; "nearest", with ties to the lower coordinate; "cubic" and "quintic", which
            are splines of degree 3 and 5; "quadratic", of degree 2, with knots half way between
            coordinates, as in `scipy.interpolate.make_interp_spline`; "slinear", of degree 1; or
            one of three cubics that follow real values locally: "pchip", which is monotone
            where values are, and "akima" and "makima", which are those of
            `scipy.interpolate.Akima1DInterpolator` along each axis, the last one first.
        bounds_error: whether a point outside is an error.
        fill_value: the result outside if it is not; None to extrapolate.
        solver: the solver of SciPy's splines, which then interpolate; NumPy arrays only.
        solver_args: its arguments.
        ends: what holds at the ends of the splines "cubic" and "quintic", of degree 2 m - 1, beside
            the values: "not-a-knot", as in SciPy's class, the first m intervals have one
            polynomial; "natural", derivatives of the orders m to 2 m - 2 are 0; "clamped", those
            of the orders 1 to m - 1 are 0; "periodic", all are those of the other end.  For cubic
            splines these are the boundary conditions of `scipy.interpolate.CubicSpline`.  A list
            has an entry for each axis: a name, or a pair for the first and the last coordinate.
            Along a periodic axis, the last values count as the first ones, which those of a NumPy
            array must equal, and no point is outside: points are taken modulo the axis's length.
        dtype: the dtype in which a NumPy table is interpolated, and that of results: float16 to
            float64, or a complex one; None for double precision, as in SciPy.

    Attributes:
        grid: the coordinates, increasing.
        values: the table, in the order of the grid.
        method, bounds_error, fill_value: the arguments.
        samplers: how the table is sampled, by the method.

    Raises:
        ValueError: as in SciPy: the method is unknown, the coordinates do not match the table or do
            not increase or decrease throughout, or the fill value does not go with the table.  Or
            ``ends`` has an unknown name, has not an entry for each axis, goes with a method other
            than "cubic" and "quintic" or with a solver, or an axis is not periodic.
        TypeError: ``ends`` is neither a name nor a list of names and pairs.  Or the table is a
            tensor or a JAX array, and the method is SciPy's own, or a dtype is given.  Or that is
            no floating-point dtype, or real for a complex table.
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
        ends: str | Sequence[str | Sequence[str]] = NOT_A_KNOT,
        dtype: Any = None,
    ) -> None:
        check_method(method)
        self.method, self.bounds_error = method, bounds_error
        self.fill_value = fill_value
        self._ends = ends_along(ends, len(points))
        check_ends(self._ends, method, solver is not None or bool(solver_args))
        self._arguments = points, values
        self._original: Any = None
        self._backend = None if is_duck(values) else backend_of(values=values)
        if method in DEGREES:
            lengths = [len(np.atleast_1d(axis)) for axis in points]
            check_lengths(lengths, method, f"method {method}", self._ends)
        solved = method in SPLINES and (solver is not None or bool(solver_args))
        if self._backend is None or self._goes_to_scipy(values, len(points), method, solved):
            if dtype is not None:
                raise TypeError(f"dtype is not accepted where SciPy interpolates, got {dtype!r}")
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
        self._dtype = exact_dtype(self._backend, table, dtype)
        grid = [np.asarray(as_array(p, f"points[{k}]"), dtype=float) for k, p in enumerate(points)]
        self._falling = check_grid(self._backend, grid, table)
        self.grid = tuple(
            np.ascontiguousarray(a[:: -1 if k in self._falling else 1]) for k, a in enumerate(grid)
        )
        # The caller's own array, so that tensors that change, or are differentiated later, are
        # those of each call.
        self._table = table
        check_fill(self._backend, table, fill_value)
        check_real(self._backend, table, method)
        for k in self._falling:
            self._ends[k] = self._ends[k][::-1]
        check_period(self._backend, table, self._ends)
        self.samplers = {method: TableSampler(self.grid, self._falling, method, self._ends)}
        # What is sampled of a NumPy table, by the method: coefficients, or views of the table.
        self._images = dict[str, HostArray]()
        if self._backend.is_host and self.samplers[method].solves:
            self._image(method, self._backend, None)

    @property
    def values(self) -> Any:
        """The table, in the order of the grid."""
        if self._original is not None:
            return self._original.values
        assert self._backend is not None
        return reversed_along(self._backend, self._table, self._falling)

    @cached_property
    def _numbers(self) -> HostArray:
        """A NumPy table in the dtype of results."""
        return np.asarray(self._table, dtype=self._dtype)

    def _scipys(self, method: str, **options: Any) -> Any:
        """Make SciPy's interpolator."""
        interpolator = scipys("RegularGridInterpolator", f"method {method!r}")
        return interpolator(*self._arguments, method, self.bounds_error, self.fill_value, **options)

    def _goes_to_scipy(self, values: Any, rank: int, method: str, solved: bool = False) -> bool:
        """Whether SciPy interpolates; tensors and JAX arrays cannot go there.

        solved: whether SciPy's splines are wanted, by a solver.
        """
        assert self._backend is not None
        if method in METHODS and rank <= MAX_RANK and not (solved and self._backend.is_host):
            # Numbers of more than double precision, or of Python.
            found = self._backend.is_host and np.asarray(values).dtype.char in "gGO"
            if found:
                check_ends(self._ends, "", True)
            return found
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
            nu: orders of derivatives, for "slinear", "quadratic", "cubic" and "quintic", as in
                SciPy.

        Returns:
            (..., *rest), rest being the shape of the table after its first n axes; in the dtype of
            the table, but of NumPy arrays in ``dtype`` unless the method is "nearest".
            The result of a NaN point is NaN.

        Raises:
            ValueError: a point is outside, or NaN, with bounds_error=True; or as in SciPy.
        """
        name = self.method if method is None else method
        check_method(name)
        if self._original is not None:
            check_ends(self._ends, name)
            return self._original(xi, name, nu=nu)
        assert self._backend is not None
        sampler = self.samplers.get(name) or self._sampler(name)
        if sampler is None:
            return self._scipys(self.method)(xi, name, nu=nu)
        rank = len(self.grid)
        order = order_of(nu, name, rank)
        backend, points = as_common(self._backend, self._table, xi, rank)
        check_dimension(points, rank)
        rows = sampler.within_periods(backend, points.reshape(-1, rank))
        image, rest = self._image(name, backend, rows), self._table.shape[rank:]
        if self.bounds_error:
            result = self._inside(sampler, backend, image, rows, order)
        else:
            fill = as_fill(self.fill_value, rest, backend.type_name(image.dtype))
            result = sampler(backend, image, rows, fill, order=order)
        if not self._backend.is_host:
            result = backend.astype(result, self._table.dtype)
        return result.reshape((*points.shape[:-1], *rest))

    def _sampler(self, name: str) -> TableSampler | None:
        """Return how the table is sampled by a method, which is checked; None if SciPy does it."""
        assert self._backend is not None
        check_ends(self._ends, name)
        if name not in METHODS:
            self._goes_to_scipy(self._table, len(self.grid), name)
            return None
        if name in DEGREES:
            lengths = [len(axis) for axis in self.grid]
            check_lengths(lengths, name, f"order {DEGREES[name]}", self._ends)
        check_real(self._backend, self._table, name)
        self.samplers[name] = TableSampler(self.grid, self._falling, name, self._ends)
        return self.samplers[name]

    def _inside(
        self,
        sampler: TableSampler,
        backend: Backend,
        image: Array,
        rows: Array,
        order: tuple[int, ...],
    ) -> Array:
        """Sample at points (P, n), or raise an error if one of them is outside, or NaN."""
        if not (backend.is_host and sampler.fills(order)):
            check_bounds(backend, self.grid, rows)
            return sampler(backend, image, rows, reaches_out=False, order=order)
        # The program tells by NaN which points may be outside.
        result = sampler(backend, image, rows, OUTSIDE, order=order)
        if has_nan(result):
            check_bounds(backend, self.grid, rows)
        return result

    def _image(self, name: str, backend: Backend, points: Any) -> Array:
        """Return what a method samples at points: the table as an image, or its coefficients."""
        own, sampler = self._backend, self.samplers[name]
        assert own is not None
        if name in self._images and backend.is_host:
            return self._images[name]
        if own.is_host and sampler.solves:
            if name not in self._images:
                self._images[name] = sampler.image_of(own, self._numbers)
            image = self._images[name]
            return image if backend.is_host else backend.asarray(image, points)
        table = self._numbers if backend.is_host and name != "nearest" else self._table
        if backend is not own:  # the table is NumPy's
            table = backend.asarray(table, points)
        image = sampler.image_of(backend, table)
        if backend.is_host and np.may_share_memory(image, table):
            # A copy would not have what is later written to the table.
            self._images[name] = image
        return image


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
    *,
    ends: str | Sequence[str | Sequence[str]] = NOT_A_KNOT,
) -> Any:
    """Interpolate a table at points, like `scipy.interpolate.interpn`.

    Args:
        points, values, bounds_error, fill_value, ends: as in `RegularGridInterpolator`.
        xi: the points, as in a call of an interpolator.
        method: as in `RegularGridInterpolator`, or "splinef2d", the cubic
            `RectBivariateSpline` of two increasing axes, which does not extrapolate.

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
        check_ends(ends_along(ends, len(points)), method)
        if method == "splinef2d" and not is_duck(values):
            return spline_of_rectangle(points, values, xi, bounds_error, fill_value)
        of_scipy = scipys("interpn", f"method {method!r}")
        if not is_duck(values) and not backend_of(values=values).is_host:
            raise TypeError(
                f"method {method!r} is SciPy's own, for NumPy arrays; accepted for tensors and JAX "
                f"arrays: {', '.join(map(repr, METHODS))}, 'splinef2d'"
            )
        return of_scipy(points, values, xi, method, bounds_error, fill_value)
    interpolator = RegularGridInterpolator(
        points, values, method, bounds_error, fill_value, ends=ends
    )
    if not isinstance(xi, tuple):
        check_dimension(xi, len(points), ",")
    return interpolator(xi)


def spline_of_rectangle(
    points: Sequence[Any], values: Any, xi: Any, bounds_error: bool, fill_value: Any
) -> Any:
    """Compute `interpn` with the method "splinef2d"."""
    name = "The method splinef2d"
    own = backend_of(values=values)
    (table,) = own.asarrays(values=values)
    rank = len(own.shape(table))
    if rank > 2:
        raise ValueError(f"{name} can only be used for 2-dimensional input data")
    if not bounds_error and fill_value is None:
        raise ValueError(f"{name} does not support extrapolation.")
    if len(points) > rank:
        raise ValueError(f"There are {len(points)} point arrays, but values has {rank} dimensions")
    if len(points) != rank:
        raise ValueError(f"{name} can only be used for scalar data with one point per coordinate")
    grid = [np.asarray(as_array(p, f"points[{k}]"), dtype=float) for k, p in enumerate(points)]
    check_grid(own, grid, table)
    ends = [np.sort(axis) for axis in grid]
    backend, found = as_common(own, table, xi, rank)
    check_dimension(found, rank, ",")
    rows = found.reshape(-1, rank)
    if bounds_error:
        check_bounds(backend, ends, rows)
    sampled = RectBivariateSpline(grid[0], grid[1], table).ev(rows[:, 0], rows[:, 1])
    result = backend.xp.where(is_inside(ends, rows), sampled, fill_value)
    return result.reshape(found.shape[:-1])


# Tables -------------------------------------------------------------------------------------------


class TableSampler:
    """How a table is sampled by one method, as an image.

    It holds no array of a table, which may be a tensor that changes, or is traced.  Axes with one
    coordinate, which have no interval, are left out: results do not depend on it.

    Attributes:
        grid: the coordinates of all axes, increasing.
        method: the name of the method.
        periodic: the numbers of the periodic axes.
        kept: the numbers of the axes with several coordinates.
        reversed: those among the kept axes along which the table is reversed.
        sampled: the method that samples the image; None for those of `hermite`.
        solves: whether coefficients are sampled, rather than values.
        whole: whether no axis is left out.
        splines: for coefficients, the splines along the axes.
        axes: the units of points, x first; None if no axis is kept.
        requests: the options of sampling, by what a call decides of them.
    """

    def __init__(
        self,
        grid: Sequence[HostArray],
        falling: Sequence[int],
        method: str,
        ends: Sequence[Ends],
    ) -> None:
        self.grid, self.method = grid, method
        self.periodic = [k for k, pair in enumerate(ends) if PERIODIC in pair]
        self.kept = [k for k, axis in enumerate(grid) if len(axis) > 1]
        self.whole = len(self.kept) == len(grid)
        # The order of nearest: see `METHODS`; that of linear: results have SciPy's bits.
        decreasing = self.kept if method == "nearest" else []
        steps = [-1 if k in decreasing else 1 for k in self.kept]
        axes: list[Any] = [grid[k][::step] for k, step in zip(self.kept, steps, strict=True)]
        self.reversed = [n for n, k in enumerate(self.kept) if (k in decreasing) != (k in falling)]
        self.sampled = METHODS[method]
        self.solves = self.sampled is not None and self.sampled.by_interval
        self.splines = list[SplineAxis]()
        if self.solves:
            self.splines = [
                SplineAxis(axis, DEGREES[method], f"points[{k}]", ends=ends[k])
                for k, axis in enumerate(grid)
            ]
            axes = [spline.knots for spline in self.splines]
        self.axes = Axes(*axes[::-1]) if axes else None
        self.requests = dict[tuple[Any, ...], Request | None]()

    def __call__(
        self,
        backend: Backend,
        image: Array,
        points: Array,
        fill: HostArray | float | None = None,
        reaches_out: bool = True,
        order: tuple[int, ...] = (),
        threads: int | None = None,
    ) -> Array:
        """Sample a table at points (P, n): (P, C).

        Args:
            backend: the backend of all arrays.
            image: the result of `image_of`.
            points: the points.
            fill: the value outside, or the values, (C,); None to extrapolate.
            reaches_out: whether points may be outside.
            order: the order of the derivative along each axis; () for samples.
            threads: the maximum number of threads; None for all.
        """
        if not reaches_out:
            fill = None
        if fill is not None and self.fills(order):
            return self.sample(backend, image, points, (False, (), threads), fill)
        xp = backend.xp
        outside, sought = None, points
        if fill is not None:
            outside = ~is_inside(self.grid, points, self.periodic)[:, None]
            if self.method in DEGREES and not backend.is_host:
                # Far outside, cubics are infinite, and what is replaced may have no NaN gradient.
                sought = xp.where(outside, float(self.grid[0][0]), points)
        if self.axes is None:
            result = xp.broadcast_to(image, (points.shape[0], image.shape[-1])) + 0
        elif self.sampled is None:
            result = hermite.hermite(backend, self.grid, image[0], sought, self.method)
        else:
            continues = self.method in SPLINES or (reaches_out and fill is None)
            decided = CONTINUE if continues else True, order[::-1], threads
            result = self.sample(backend, image, sought, decided)
        if outside is not None and fill is not None:
            values = backend.asarray(np.broadcast_to(fill, image.shape[-1:]).copy(), result)
            values = backend.astype(values, result.dtype)
            result = xp.where(outside, values, result)
        elif self.whole and not any(order):
            return result  # NaN where a point is
        unknown = xp.any(xp.isnan(points), -1)
        return xp.where(unknown[:, None], np.nan, result)

    def fills(self, order: tuple[int, ...] = ()) -> bool:
        """Whether programs find out which points are outside; derivatives there are 0 for them."""
        return self.whole and self.sampled is not None and not any(order)

    def sample(
        self,
        backend: Backend,
        image: Array,
        points: Array,
        decided: tuple[Any, ...],
        fill: Any = 0,
    ) -> Array:
        """Sample an image at points (P, n), whose last axis is x: (P, C).

        decided: the options ``extrapolate``, ``order`` and ``threads``.
        """
        grid = self.grid_of(backend, points)
        samples: Array
        known = self.requests.get(decided) if backend.is_host else None
        if known is not None:
            samples = sample_as_known(backend, image, grid, known, fill)
            return samples[0]
        extrapolate, order, threads = decided
        options = {
            "mode": self.sampled, "padding_mode": "border", "extrapolate": extrapolate,
            "coords": self.axes, "channel_axis": -1, "order": order, "threads": threads,
        }  # fmt: skip
        samples = sample_at_pixels(image, grid, fill_value=fill, **options)
        if backend.is_host:
            self.requests[decided] = sampling_request(wide=False, **options)
        return samples[0]

    def grid_of(self, backend: Backend, points: Array) -> Array:
        """Return points (P, n) as a grid (1, P, n), x first, without axes of one coordinate.

        Not by a list of numbers, which XLA looks up, and whose gradient it adds, one by one.
        """
        if not self.whole:
            return backend.xp.stack([points[:, k] for k in self.kept[::-1]], -1)[None]
        if backend.is_host:  # a view, as NumPy's may be reversed
            return points[None, :, ::-1]
        return backend.xp.flip(points, (1,))[None]

    def image_of(self, backend: Backend, table: Array) -> Array:
        """Return a table as an image (1, *spatial, C), without axes of one coordinate.

        Splines have coefficients in place of values.
        """
        rank = len(self.grid)
        channels = math.prod(table.shape[rank:])
        table = table[tuple([slice(None) if k in self.kept else 0 for k in range(rank)])]
        table = reversed_along(backend, table, self.reversed)
        table = table.reshape((1, *table.shape[: len(self.kept)], channels))
        if self.method in DEGREES:
            table = backend.astype(table, exact_type(backend, table))
        if self.solves:
            table = spline_coefficients(backend, self.splines, table)
        return table

    def within_periods(self, backend: Backend, points: Array) -> Array:
        """Return points (P, n) within the axes that are periodic."""
        if not self.periodic:
            return points
        columns = [points[:, k] for k in range(len(self.grid))]
        with backend.quiet():  # infinite ones are NaN then
            for k in self.periodic:
                first, last = float(self.grid[k][0]), float(self.grid[k][-1])
                wrapped = first + (columns[k] - first) % (last - first)
                columns[k] = backend.xp.where(wrapped > last, last, wrapped)  # by rounding
        return backend.xp.stack(columns, -1)


def is_inside(grid: Sequence[HostArray], points: Array, periodic: Sequence[int] = ()) -> Array:
    """Whether points (P, n) are inside, which NaN is not: (P,)."""
    inside = points[:, 0] == points[:, 0]
    for k, axis in enumerate(grid):
        column = points[:, k]
        if k in periodic:
            inside = inside & (column == column)
        else:
            inside = inside & (column >= float(axis[0])) & (column <= float(axis[-1]))
    return inside


def reversed_along(backend: Backend, table: Array, axes: Sequence[int]) -> Array:
    """Return a table whose order is reversed along some axes."""
    return backend.xp.flip(table, tuple(axes)) if axes else table


# Checks, with SciPy's messages --------------------------------------------------------------------


def check_method(method: Any) -> None:
    """Raise an error if a method is unknown."""
    if not isinstance(method, str) or (method not in METHODS and method not in DEGREES):
        raise ValueError(f"Method '{method}' is not defined")


def check_lengths(lengths: Sequence[int], method: str, name: str, ends: Sequence[Ends]) -> None:
    """Raise an error if an axis has too few coordinates for a method.

    name: what SciPy's message calls the method.
    """
    degree = DEGREES[method]
    for k, (length, pair) in enumerate(zip(lengths, ends, strict=True)):
        least = least_size(degree, pair) if method in SOLVED else degree + 1
        if length < least:
            raise ValueError(
                f"There are {length} points in dimension {k}, but {name} requires at least "
                f" {least} points per dimension."
            )


def check_ends(ends: Sequence[Ends], method: str, solved: bool = False) -> None:
    """Raise an error if splines are not to have SciPy's ends, but others interpolate.

    solved: whether SciPy does, with a solver or because of the table's dtype.
    """
    if all(pair == (NOT_A_KNOT, NOT_A_KNOT) for pair in ends):
        return
    if solved:
        raise ValueError(
            f"ends must be {NOT_A_KNOT!r} where SciPy interpolates, with a solver or for a table "
            f"of more than double precision; got {ends}"
        )
    if method not in SOLVED:
        raise ValueError(
            f"ends must be {NOT_A_KNOT!r} for methods other than {', '.join(map(repr, SOLVED))}; "
            f"got {ends} with method {method!r}"
        )


def check_period(backend: Backend, table: Array, ends: Sequence[Ends]) -> None:
    """Raise an error if the last values along a periodic axis of a NumPy table differ."""
    for k, pair in enumerate(ends):
        if PERIODIC in pair and backend.is_host:
            first, last = (table.take(place, k) for place in (0, -1))
            if not np.allclose(first, last, rtol=1e-15, atol=1e-15, equal_nan=True):
                raise ValueError(
                    f"values must be equal at the first and the last coordinate of axis {k}, whose "
                    "ends are periodic"
                )


def check_real(backend: Backend, table: Array, method: str) -> None:
    """Raise an error if a table is complex, and a method is not for such numbers."""
    if method in hermite.METHODS and backend.type_name(table.dtype).startswith("complex"):
        name = "PchipInterpolator" if method == "pchip" else "Akima1DInterpolator"
        raise ValueError(
            f"`{name}` only works with real values. If you are trying to use the real "
            "components of the passed array, use `np.real` on the array before passing to "
            "`RegularGridInterpolator`."
        )


def order_of(nu: Any, method: str, rank: int) -> tuple[int, ...]:
    """Return the order of the derivative along each axis; () for no derivative."""
    if nu is None:
        return ()
    if method not in SPLINES:
        raise ValueError(
            f"Can only compute derivatives for methods {set(SPLINES)}, got {method =}."
        )
    orders = np.asarray(nu)
    if orders.dtype.kind not in "iu":
        raise TypeError(f"nu must hold integers, got dtype {orders.dtype}")
    if orders.shape != (rank,):
        raise ValueError(f"invalid number of derivative orders nu = {orders!r} for ndim = {rank}.")
    if (orders < 0).any():
        raise ValueError(f"derivatives must be positive, got nu = {orders!r}")
    return tuple(orders.tolist())


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


def exact_dtype(backend: Backend, table: Array, dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype in which a NumPy table is interpolated; None for that of other tables."""
    if not backend.is_host:
        if dtype is not None:
            raise TypeError(
                f"dtype is that of results of NumPy arrays, got {dtype!r} for a "
                f"{type(table).__name__}, whose dtype they have; convert it before"
            )
        return None
    kinds = ["complex64", "complex128"]
    if table.dtype.kind != "c":
        kinds = ["float16", "float32", "float64", *kinds]
    if dtype is None:
        return np.dtype("complex128" if table.dtype.kind == "c" else "float64")
    found: np.dtype[Any] = np.dtype(dtype)
    if found.name not in kinds:
        raise TypeError(f"dtype must be one of {', '.join(kinds)}, got {dtype!r}")
    return found


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


def as_fill(fill_value: Any, shape: Shape, type_name: str) -> HostArray | float | None:
    """Return a checked fill value for values (P, *shape): a float, or (C,) in their dtype.

    A number that is too large for the dtype is infinite.
    """
    if fill_value is None or (type(fill_value) is float and not abs(fill_value) > SMALL):
        return fill_value
    with np.errstate(over="ignore"):
        numbers = np.full(shape, fill_value).reshape(-1)
        return numbers.astype("float32" if type_name == "bfloat16" else type_name)


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


def has_nan(values: HostArray) -> bool:
    """Whether some number is NaN."""
    parts = values.view(values.real.dtype) if values.dtype.kind == "c" else values
    least = np.minimum.reduce(parts, None, initial=0)
    return bool(least != least)


def check_bounds(backend: Backend, grid: Sequence[HostArray], points: Array) -> None:
    """Raise an error if a point is outside, or NaN; points of a traced program are not checked."""
    if not points.shape[0] or not backend.inspects(points):
        return
    for k, axis in enumerate(grid):
        column = points[:, k]
        if not (axis[0] <= column.min() and column.max() <= axis[-1]):
            raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")
