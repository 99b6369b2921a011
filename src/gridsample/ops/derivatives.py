"""Derivatives of a sampled image along its coordinates, for every array library."""

from __future__ import annotations

from typing import Any

from gridsample.backends import Backend, backend_of, operation
from gridsample.definitions.arrays import ArrayT, Fill
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.knots import Coords
from gridsample.definitions.labels import has_labels, without_labels
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.request import Request
from gridsample.ops.arrays import back, planes
from gridsample.ops.points import coefficients_at, points_of


def run_grid_gradient(request: Request, *, input: Any, grid: Any) -> Any:
    """Compute the result of `grid_gradient`."""
    return derivatives(backend_of(input=input, grid=grid), input, grid, request, 1)


@operation(run_grid_gradient, arrays=2)
def grid_gradient(
    input: ArrayT,
    grid: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Compute the derivatives of a sampled image along each coordinate of a grid.

    The derivative of `grid_sample`'s sum along a coordinate is the same sum with that axis's
    weights differentiated:

        out[n, c, point, k] = d grid_sample(input, grid)[n, c, point] / d grid[n, point, k]

    It is per unit of the coordinate.  For normalized coordinates, multiply it by 2 / size, or by
    2 / (size - 1) with align_corners, to get the derivative per pixel.  With coords="pixel" or
    "displacement", it is per pixel already.

    Args:
        mode: the interpolation method, as in `grid_sample`; the gradients of "nearest"
            and "label" are 0.
        extrapolate: whether to extend the image, as in `grid_sample`; the gradient of the fill
            value is 0.
        channel_axis: 1 or -1, as in `grid_sample`; the axis of x, y, z comes after the channels.
        input, grid, padding_mode, align_corners, coords, fill_value, prefilter, threads: as in
            `grid_sample`.

    Returns:
        (N, C, *out, D), or (N, *out, C, D) for channel_axis=-1, with the last axis in x, y, z
        order.  The dtype is that of the product of an entry of input and an entry of grid.  It is 0
        where a coordinate is NaN.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`.
        ValueError: an argument is not accepted by `grid_sample`.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> gridsample.grid_gradient(image, np.array([[[0.5, 0.5]]]), coords="pixel")
        array([[[[10., 20.]]]])
    """


def run_grid_hessian(request: Request, *, input: Any, grid: Any) -> Any:
    """Compute the result of `grid_hessian`."""
    return derivatives(backend_of(input=input, grid=grid), input, grid, request, 2)


@operation(run_grid_hessian, arrays=2)
def grid_hessian(
    input: ArrayT,
    grid: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Compute the second derivatives of a sampled image along the coordinates of a grid.

        out[n, c, point, j, k] =
            d^2 grid_sample(input, grid)[n, c, point] / d grid[n, point, j] d grid[n, point, k]

    They are per unit of both coordinates; see `grid_gradient`.  The result is symmetric in j and k.
    For "linear", only the mixed derivatives differ from 0.

    Args:
        input, grid: as in `grid_sample`.
        extrapolate, channel_axis: as in `grid_gradient`.
        mode, padding_mode, align_corners, coords, fill_value, prefilter, threads: as in
            `grid_sample`.

    Returns:
        (N, C, *out, D, D), or (N, *out, C, D, D) for channel_axis=-1, with the dtype of
        `grid_gradient`.  It is 0 where a coordinate is NaN.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`.
        ValueError: an argument is not accepted by `grid_sample`.

    Example:
        >>> import numpy as np, gridsample
        >>> parabola = np.arange(8.0)[np.newaxis, np.newaxis] ** 2
        >>> gridsample.grid_hessian(
        ...     parabola, np.array([[[3.3]]]), "catmull-rom", coords="pixel"
        ... ).round(12)
        array([[[[[2.]]]]])
    """


# Over a backend -----------------------------------------------------------------------------------


def derivatives(backend: Backend, input: Any, grid: Any, request: Request, degree: int) -> Any:
    """Compute all derivatives of one degree along the coordinates, on ``degree`` extra axes."""
    image, array = backend.to_device(input=input, grid=grid)
    points = points_of(backend, array, request.coords)
    resolved = points.resolve_options(image, request)
    last, rank = resolved.channel_axis == -1, len(resolved.mode)
    if has_labels(resolved.mode):  # labels jump: derivatives are those of nearest, 0
        resolved = resolved.changed(mode=without_labels(resolved.mode, "nearest"))
    source = coefficients_at(points, planes(backend, image, last), resolved)
    single = [(a,) for a in range(rank)]
    directions: Any = single if degree == 1 else [(*j, *k) for j in single for k in single]
    # Before torch 2.9, torch.compile supports neither a tuple's count nor itertools.product.
    orders = [tuple([sum([a == k for a in axes]) for k in range(rank)]) for axes in directions]
    dtype = backend.promote(image.dtype, points.array.dtype)
    results = backend.gathers(source, points.array, resolved, orders, dtype)
    result = results.reshape(*results.shape[:-1], *(rank,) * degree)
    return backend.restore(back(backend, result, last, degree), input)
