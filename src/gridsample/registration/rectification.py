"""Losses that compare a grid with a known one, for learning rectification grids.

`grid_distance` compares positions; `rectified_distance` compares the samples there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.backends import Backend, backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import COORDS
from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import CoordsName
from gridsample.fields.arrays import (
    Array,
    as_wide_arrays,
    check_name,
    check_size,
    components,
    restore_dtype,
)
from gridsample.ops.sampling import grid_sample, grid_sample_vjp


@overridable(arrays=2)
def grid_distance(
    grid: ArrayT,
    target: ArrayT,
    size: Sequence[int] | None = None,
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
) -> Any:
    """Compute the mean squared distance between the points of two grids, in pixels.

    loss = mean over all points of |grid - target|^2, where the components are converted to pixels
    of the image that is sampled.  Points at which a coordinate of either grid is NaN are ignored;
    if no point remains, the loss is NaN.

    Args:
        grid: (N, *out, D), D = 1 to 3, in x, y, z order.
        target: the same shape, or N = 1.
        size: the spatial shape of the image that is sampled, (height, width) or (depth, height,
            width); needed for normalized coordinates only.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of both grids: "normalized", "pixel" or "displacement".

    Returns:
        A number, in squared pixels: a 0-dimensional array or tensor in the dtype of the grids.  For
        tensors, it is differentiable in both, any number of times.

    Raises:
        TypeError: a grid does not hold real numbers.
        ValueError: the shapes do not match, or size is missing.

    Example:
        >>> import numpy as np
        >>> from gridsample.registration import grid_distance
        >>> grid = np.zeros((1, 4, 5, 2))
        >>> float(grid_distance(grid, grid + [3.0, 4.0], coords="pixel"))
        25.0
    """
    backend, (points, targets) = as_wide_arrays(grid=grid, target=target)
    factors = pixel_factors(backend, points, targets, size, align_corners, coords)
    distances, count = differences(backend, points, targets, factors)
    total = sum(backend.xp.sum(part * part) for part in distances)
    return restore_dtype(backend, total / count, grid)


@overridable(arrays=3)
def grid_distance_vjp(
    grad_output: Any,
    grid: ArrayT,
    target: ArrayT,
    size: Sequence[int] | None = None,
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
) -> ArrayT:
    """Compute the gradient of `grid_distance` with respect to ``grid``, times ``grad_output``.

    Args:
        grad_output: the upstream gradient, a number.
        grid: as in `grid_distance`.
        target: as in `grid_distance`.
        size: as in `grid_distance`.
        align_corners, coords: as in `grid_distance`.

    Returns:
        The gradient, in the shape and dtype of ``grid``; 0 at points that do not count.

    Raises:
        TypeError: a grid does not hold real numbers.
        ValueError: the shapes do not match, or size is missing.

    Example:
        >>> import numpy as np
        >>> from gridsample.registration import grid_distance_vjp
        >>> grid = np.array([[[0.0, 0.0], [1.0, 0.0]]])
        >>> grid_distance_vjp(1.0, grid, np.zeros_like(grid), coords="pixel")
        array([[[0., 0.],
                [1., 0.]]])
    """
    backend, (points, targets) = as_wide_arrays(grid=grid, target=target)
    factors = pixel_factors(backend, points, targets, size, align_corners, coords)
    distances, count = differences(backend, points, targets, factors)
    parts = [
        part * (2 * factor) * grad_output / count
        for part, factor in zip(distances, factors, strict=True)
    ]
    gradient = backend.xp.stack(parts, -1)
    return restore_dtype(backend, summed_to(backend, gradient, points), grid)


@overridable(arrays=3)
def rectified_distance(
    image: ArrayT,
    grid: ArrayT,
    target: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
) -> Any:
    """Compute the mean squared difference between an image sampled with two grids.

    loss = mean of (grid_sample(image, grid) - grid_sample(image, target))^2 over all points and
    channels.  Pixels that are NaN in either sample are ignored; if none remains, the loss is
    NaN.

    Args:
        image: (N, C, *spatial), floating-point.
        grid: (N, *out, D), as in `grid_sample`.
        target: the grid to compare with, with the same number of points.
        mode, padding_mode, align_corners, coords: as in `grid_sample`.

    Returns:
        A number, in squared units of the image: a 0-dimensional array or tensor.  For tensors, it
        is differentiable in the image and both grids, any number of times.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`.
        ValueError: an argument is not accepted by `grid_sample`, or the shapes do not match.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.registration import rectified_distance
        >>> ramp = np.arange(8.0).reshape(1, 1, 1, 8)
        >>> grid = gridsample.identity_grid((1, 1, 1, 4), dtype="float64")
        >>> float(rectified_distance(ramp, grid, grid + [0.25, 0.0], padding_mode="border"))
        0.8125
    """
    options = (mode, padding_mode, align_corners)
    sample, expected = (
        grid_sample(image, points, *options, coords=coords) for points in (grid, target)
    )
    errors, count = sample_differences(sample, expected)
    backend, (wide,) = as_wide_arrays(errors=errors)
    return restore_dtype(backend, backend.xp.sum(wide * wide) / count, sample)


@overridable(arrays=4)
def rectified_distance_vjp(
    grad_output: Any,
    image: ArrayT,
    grid: ArrayT,
    target: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
) -> ArrayT:
    """Compute the gradient of `rectified_distance` with respect to ``grid``, times ``grad_output``.

    Args:
        grad_output: the upstream gradient, a number.
        image: as in `rectified_distance`.
        grid: as in `rectified_distance`.
        target: as in `rectified_distance`.
        mode, padding_mode, align_corners, coords: as in `rectified_distance`.

    Returns:
        The gradient, in the shape and dtype of ``grid``; 0 at points that do not count.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`.
        ValueError: an argument is not accepted by `grid_sample`, or the shapes do not match.

    Example:
        >>> import numpy as np
        >>> from gridsample.registration import rectified_distance_vjp
        >>> ramp = np.arange(8.0).reshape(1, 1, 8)
        >>> grid = np.array([[[3.0], [5.0]]])
        >>> rectified_distance_vjp(1.0, ramp, grid, grid - 1.0, coords="pixel")[0, :, 0]
        array([1., 1.])
    """
    options = (mode, padding_mode, align_corners)
    sample, expected = (
        grid_sample(image, points, *options, coords=coords) for points in (grid, target)
    )
    errors, count = sample_differences(sample, expected)
    upstream = errors * (2 * grad_output / count)
    return grid_sample_vjp(upstream, image, grid, *options, coords=coords, need_input=False)[1]


# Parts --------------------------------------------------------------------------------------------


def pixel_factors(
    backend: Backend, grid: Array, target: Array, size: Any, align_corners: Any, coords: Any
) -> list[float]:
    """Pixels per unit of each component, after checking both grids."""
    shapes = [backend.shape(points) for points in (grid, target)]
    items = {shapes[0][:1], shapes[1][:1]}
    if (
        len(shapes[0]) < 2
        or not 1 <= shapes[0][-1] <= 3
        or shapes[0][1:] != shapes[1][1:]
        or (len(items) == 2 and (1,) not in items)
    ):
        raise ValueError(
            "grid and target must have the same shape (N, *out, D), D = 1 to 3, or one of them "
            f"N = 1; got {shapes[0]} and {shapes[1]}"
        )
    units, corners = (
        check_name(coords, COORDS, "coords"),
        check_flag(align_corners, "align_corners"),
    )
    rank = shapes[0][-1]
    if units != "normalized":
        return [1.0] * rank
    if size is None:
        raise ValueError(
            "size is missing: give the spatial shape of the image that is sampled, which is what "
            "normalized coordinates refer to"
        )
    spatial = check_size(size, rank)
    return list(pixels_per_unit(spatial, units, corners))


def differences(
    backend: Backend, grid: Array, target: Array, factors: Sequence[float]
) -> tuple[list[Array], Array]:
    """The differences of the components in pixels, 0 where they are missing, and how many count."""
    xp, parts = backend.xp, components(grid - target, len(factors))
    missing = xp.isnan(parts[0])
    for part in parts[1:]:
        missing = missing | xp.isnan(part)
    zero = backend.full((), 0, grid.dtype, grid)
    count = xp.sum(backend.astype(~missing, grid.dtype))
    return [
        xp.where(missing, zero, part) * factor for part, factor in zip(parts, factors, strict=True)
    ], count


def sample_differences(sample: Array, expected: Array) -> tuple[Array, Array]:
    """The differences of two samples, 0 where one of them is missing, and how many count."""
    backend = backend_of(sample=sample, expected=expected)
    sample, expected = backend.asarrays(sample=sample, expected=expected)
    if backend.shape(sample)[1:] != backend.shape(expected)[1:]:
        raise ValueError(
            "grid and target must have the same number of points; the samples have the shapes "
            f"{backend.shape(sample)} and {backend.shape(expected)}"
        )
    errors = sample - expected
    missing = backend.xp.isnan(errors)
    zero = backend.full((), 0, errors.dtype, errors)
    count = backend.xp.sum(backend.astype(~missing, errors.dtype))
    return backend.xp.where(missing, zero, errors), count


def summed_to(backend: Backend, gradient: Array, like: Array) -> Array:
    """Sum a gradient over a batch axis along which the grid was broadcast."""
    if backend.shape(gradient)[0] == backend.shape(like)[0]:
        return gradient
    return backend.xp.sum(gradient, 0).reshape(backend.shape(like))
