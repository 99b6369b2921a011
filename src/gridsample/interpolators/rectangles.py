"""Splines on a rectangular grid, like SciPy's `RectBivariateSpline`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.checks import as_reals
from gridsample.definitions.coords import CONTINUE
from gridsample.definitions.knots import Axes
from gridsample.definitions.methods import check_whole, spline_on_knots
from gridsample.interpolators.arrays import Array, HostArray, as_library, broadcast_shape, in_float
from gridsample.interpolators.splines import SplineAxis, spline_coefficients
from gridsample.ops.arrays import exact_type
from gridsample.ops.sampling import sample_at_pixels


class RectBivariateSpline:
    """Interpolate a table by a spline of two variables, like SciPy's `RectBivariateSpline`.

    The spline is that of `scipy.interpolate.RectBivariateSpline` with s=0, which meets all values.
    Points outside are moved to the edge.

    Args:
        x: the coordinates of the first axis, 1-D, which increase throughout.
        y: those of the second axis.
        z: the values, (len(x), len(y)), of real numbers.  A tensor or a JAX array has a gradient.
        bbox: the ends of both axes, (x first, x last, y first, y last); None for those of x and y.
        kx: the degree along x, from 1 to 5; there are more coordinates than that.
        ky: the degree along y.
        s: 0; SciPy's has smoothing splines.
        maxit: as in SciPy; it has no effect.

    Attributes:
        degrees: (kx, ky).

    Raises:
        ValueError: coordinates do not increase or do not match the values, there are too few of
            them, a degree is out of range, or s is not 0.

    Example:
        >>> import numpy as np
        >>> from gridsample.interpolators import RectBivariateSpline
        >>> x, y = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 1.0, 3.0, 4.0, 6.0])
        >>> spline = RectBivariateSpline(x, y, x[:, None] ** 2 * y)
        >>> spline.ev(3.0, [2.0, 5.0]).round(9)
        array([18., 45.])
        >>> spline(3.0, 2.0, dx=1).round(9)
        array([[12.]])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        bbox: Sequence[Any] = (None,) * 4,
        kx: int = 3,
        ky: int = 3,
        s: float = 0,
        maxit: int = 20,
    ) -> None:
        self._backend = backend_of(z=z)
        (values,) = self._backend.asarrays(z=z)
        if self._backend.is_host:
            values = np.array(values, dtype=np.float64)
        self._values = in_float(self._backend, values, "z")
        check_smoothing(s)
        self.degrees = kx, ky
        ends = list(np.ravel(np.asarray(bbox, dtype=object)))
        if len(ends) != 4:
            raise ValueError("bbox shape should be (4,)")
        shape = self._backend.shape(self._values)
        if len(shape) != 2:
            raise ValueError(f"z must have two axes, got shape {shape}")
        self._lines = [
            BivariateAxis(name, coordinates, size, degree, limits)
            for name, coordinates, size, degree, limits in zip(
                "xy", (x, y), shape, self.degrees, (ends[:2], ends[2:]), strict=True
            )
        ]
        self._axes = Axes(*[line.spline.knots for line in self._lines[::-1]])
        self._order = 0, 0
        self._kept: HostArray | None = None

    @property
    def _coefficients(self) -> Array:
        """The coefficients, (len(x), len(y)); those of NumPy arrays are computed once."""
        if self._kept is not None:
            return self._kept
        backend, image = self._backend, self._values
        image = backend.astype(image, exact_type(backend, image))[None, ..., None]
        splines = [line.spline for line in self._lines]
        image = spline_coefficients(backend, splines, image)[0, ..., 0]
        if backend.is_host:
            self._kept = image
        return image

    @property
    def tck(self) -> tuple[HostArray, HostArray, Array]:
        """The knots along x and y, with those at the ends repeated, and the coefficients, 1-D."""
        return *self.get_knots(), self.get_coeffs()

    def get_knots(self) -> tuple[HostArray, HostArray]:
        """Return the knots along x and y, with those at the ends repeated."""
        along_x, along_y = self._lines
        return along_x.repeated_knots(), along_y.repeated_knots()

    def get_coeffs(self) -> Array:
        """Return the coefficients, 1-D."""
        return self._coefficients.reshape(-1)

    def partial_derivative(self, dx: int, dy: int) -> RectBivariateSpline:
        """Return the derivative of the spline, of order ``dx`` along x and ``dy`` along y."""
        check_derivatives(dx, dy)
        order = self._order[0] + dx, self._order[1] + dy
        if any(n and n >= degree for n, degree in zip(order, self.degrees, strict=True)):
            raise ValueError("order of derivative must be less than degree of spline")
        derivative = copy.copy(self)
        derivative._order = order
        return derivative

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """Interpolate at points; see `__call__` with grid=False."""
        return self(xi, yi, dx, dy, grid=False)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        """Interpolate, or compute a derivative, on a grid or at points.

        Args:
            x: the first coordinates; for a grid, 1-D or a number, and in increasing order.  Tensors
                and JAX arrays have a gradient.
            y: the second coordinates; without a grid, broadcast with x.
            dx: the order of the derivative along x; at the edge, it is that of the inside.
            dy: the same along y.
            grid: whether results are those of all pairs of coordinates.

        Returns:
            (len(x), len(y)) for a grid, otherwise the shape of x and y; float64 for NumPy arrays,
            and the dtype of the values for tensors and JAX arrays.

        Raises:
            ValueError: coordinates of a grid are not in order, or an order is negative.
        """
        check_derivatives(dx, dy)
        order = self._order[0] + dx, self._order[1] + dy
        backend, (x, y) = self._common(x, y)
        table = self._coefficients
        if backend is not self._backend:  # the table is NumPy's
            table = backend.asarray(table, x)
        along_x, along_y = self._lines
        if grid:
            check_sorted(backend, x=x, y=y)
            rows = along_x.sample(backend, table, x.reshape(-1), order[0])
            result = along_y.sample(backend, rows.T, y.reshape(-1), order[1]).T
        else:
            shape = broadcast_shape(backend, (x, y))
            parts = [
                line.inside(backend, backend.xp.broadcast_to(part, shape).reshape(-1))
                for line, part in zip(self._lines, (x, y), strict=True)
            ]
            # Coordinates of one axis are next to each other in memory.
            points = backend.xp.stack(parts[::-1], 0).T[None]
            result = sample_at_pixels(
                table[None, None], points, mode=(along_y.mode, along_x.mode),
                padding_mode="border", extrapolate=CONTINUE,
                coords=self._axes, order=order[::-1],
            )[0, 0]  # fmt: skip
            if any(order):  # otherwise, samples at NaN are NaN
                unknown = (parts[0] != parts[0]) | (parts[1] != parts[1])
                result = backend.xp.where(unknown, np.nan, result)
            result = result.reshape(shape)
        return result if self._backend.is_host else backend.astype(result, self._values.dtype)

    def _common(self, x: Any, y: Any) -> tuple[Backend, list[Array]]:
        """Return the library of the result, and coordinates in floating point."""
        own, other = self._backend, backend_of(x=x, y=y)
        arrays = as_library(other, x=x, y=y)
        arrays = [in_float(other, part, name) for name, part in zip("xy", arrays, strict=True)]
        if own.is_host or other is own:
            return other, arrays
        return own, [own.asarray(array, self._values) for array in arrays]


class BivariateAxis:
    """One axis of a `RectBivariateSpline`.

    Attributes:
        spline: the spline along the axis.
        mode: the method that samples its coefficients.
        axes: the units of coordinates along the axis alone.
        low, high: where the axis ends.
    """

    def __init__(self, name: str, coordinates: Any, size: int, degree: Any, ends: Any) -> None:
        check_whole(f"k{name}", degree, 1, 5)
        numbers = as_reals(coordinates, name).reshape(-1).astype(np.float64)
        if not np.all(np.diff(numbers) > 0):
            raise ValueError(f"{name} must be strictly increasing")
        if len(numbers) != size:
            raise ValueError(f"{name} dimension of z must have same number of elements as {name}")
        if size <= degree:
            raise ValueError(f"{name} has {size} coordinates, but degree {degree} needs more")
        self.low, self.high = (
            float(own if end is None else end)
            for own, end in zip((numbers[0], numbers[-1]), ends, strict=True)
        )
        if not (self.low <= numbers[0] and numbers[-1] <= self.high):
            raise ValueError(
                f"bbox must contain {name}, which is from {numbers[0]} to {numbers[-1]}; got "
                f"{self.low} to {self.high}"
            )
        self.spline = SplineAxis(numbers, degree, name, (self.low, self.high))
        self.mode, self.axes = spline_on_knots(degree), Axes(self.spline.knots)

    def repeated_knots(self) -> HostArray:
        """Return the knots, with those at the ends degree + 1 times."""
        knots = self.spline.knots.coordinates
        return np.pad(knots, self.spline.degree, mode="edge")

    def inside(self, backend: Backend, points: Array) -> Array:
        """Move points outside to the ends of the axis."""
        if backend.is_host and points.size:
            least, greatest = points.min(), points.max()
            if self.low <= least <= greatest <= self.high:
                return points  # reading them takes less time than writing others
        return backend.xp.clip(points, self.low, self.high)

    def sample(self, backend: Backend, table: Array, points: Array, order: int) -> Array:
        """Sample coefficients (n, C) at points (P) of this axis: (P, C)."""
        points = self.inside(backend, points)
        result = sample_at_pixels(
            table[None], points[None, :, None], mode=self.mode, padding_mode="border",
            extrapolate=CONTINUE, coords=self.axes, channel_axis=-1, order=(order,),
        )[0]  # fmt: skip
        return backend.xp.where((points != points)[:, None], np.nan, result)


def check_smoothing(s: Any) -> None:
    """Raise an error if a spline is to smooth values."""
    if s is not None and not s >= 0.0:
        raise ValueError("s should be s >= 0.0")
    if s is None or s > 0:
        raise ValueError(
            f"s must be 0, for a spline that meets all values, got {s!r}; smoothing splines are "
            "those of scipy.interpolate.RectBivariateSpline"
        )


def check_derivatives(dx: Any, dy: Any) -> None:
    """Raise an error if orders of derivatives are not whole numbers from 0 on."""
    for name, order in (("dx", dx), ("dy", dy)):
        if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order < 0:
            raise ValueError(f"{name} must be an integer from 0 on, got {order!r}")


def check_sorted(backend: Backend, **coordinates: Array) -> None:
    """Raise an error if the coordinates of a grid decrease, unless a program is traced."""
    for name, array in coordinates.items():
        if len(backend.shape(array)) > 1:
            raise ValueError(
                f"{name} must be 1-D when `grid` is True, got shape {backend.shape(array)}"
            )
        line = array.reshape(-1)
        if backend.inspects(array) and not bool((line[1:] >= line[:-1]).all()):
            raise ValueError(f"{name} must be strictly increasing when `grid` is True")
