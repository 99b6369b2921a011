"""Conversions: between units of coordinates, and between matrices of other libraries and theta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, overridable
from gridsample.backends.maps import grid_along
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import COORDS
from gridsample.definitions.knots import Coords
from gridsample.definitions.names import CoordsName
from gridsample.definitions.shapes import MAX_RANK
from gridsample.fields.arrays import (
    Array,
    as_wide_arrays,
    assembled,
    check_field,
    check_name,
    check_size,
    components,
    restore_dtype,
    to_displacements,
    to_positions,
)
from gridsample.fields.rectilinear import as_axis, check_axes

# Maps of single axes, x -> factor * x + shift.
AxisMaps = list[tuple[Any, Any]]

# Units of all axes by name, or an entry for each axis: a name, or the coordinates of its pixels.

CONVENTIONS = ("opencv", "skimage", "scipy", "pixel")


# Coordinates --------------------------------------------------------------------------------------


@overridable(arrays=1)
def to_pixel(
    grid: ArrayT,
    size: Sequence[int] | None = None,
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
) -> ArrayT:
    """Convert coordinates to positions in pixels, counted from the centre of the first pixel.

        (x + 1) / 2 * (size - 1)     from "normalized" with align_corners=True
        ((x + 1) * size - 1) / 2     from "normalized" with align_corners=False
        x + i                        from "displacement", at the pixel's own index i
        i + (x - a[i]) / (a[i + 1] - a[i])    from the coordinates a of an axis's pixels

    On an axis of one pixel with align_corners=True, every coordinate is the position 0, as in
    `grid_sample`.  Coordinates of an axis may be at any distances: i is the interval that holds x,
    and the first and the last continue beyond the ends.  The position of a[i] is exactly i.

    Args:
        grid: (..., D) coordinates for D = 1 to 8, in x, y, z order; (N, *spatial, D) for
            displacements.  Integers are converted to float64.
        size: the spatial shape of the image that is sampled, (height, width) or
            (depth, height, width); needed for normalized coordinates only.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of ``grid``: "normalized", "displacement" or "pixel"; or a tuple with an
            entry for each axis, x first: "normalized", "pixel", or the coordinates of its pixels,
            1-D with two or more, finite, and increasing or decreasing throughout.

    Returns:
        An array of the grid's shape and dtype: pixels, in x, y, z order.  From coordinates of axes,
        float64 (float32 in JAX without 64 bits), as a fraction of a pixel needs it on a long axis.
        Tensors and JAX arrays are differentiable with respect to the grid and to the coordinates of
        axes, which are not checked on a GPU and while a program is traced.

    Raises:
        TypeError: grid or coords does not hold real numbers, or size does not consist of integers.
        ValueError: the shapes do not match, a name is unknown, or the coordinates of an axis do not
            increase or decrease throughout.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import to_pixel
        >>> to_pixel(np.array([[-1.0, 0.0]]), (4, 6))
        array([[-0.5,  1.5]])
        >>> time, depth = np.array([0.0, 1.0, 2.0]), np.array([500.0, 100.0, 10.0])
        >>> to_pixel(np.array([[0.5, 300.0]]), coords=(time, depth))
        array([[0.5, 0.5]])
    """
    backend, (array,) = as_wide_arrays(grid=grid)
    return restored(backend, pixels_of(backend, array, size, align_corners, coords), grid, coords)


@overridable(arrays=1)
def to_normalized(
    grid: ArrayT, size: Sequence[int], align_corners: bool = False, *, coords: Coords = "pixel"
) -> ArrayT:
    """Convert positions or displacements in pixels to normalized coordinates, from -1 to 1.

        2 * x / (size - 1) - 1       align_corners=True: -1 and 1 are the corner pixels' centres
        (2 * x + 1) / size - 1       align_corners=False: they are the corner pixels' outer edges

    The result can be passed to `grid_sample`, and to `torch.nn.functional.grid_sample`.  On an axis
    of one pixel with align_corners=True, the result is 2 * x, and `grid_sample` reads that
    pixel at every coordinate.

    Args:
        grid: (..., D) positions for D = 1 to 8, in x, y, z order; (N, *spatial, D) for
            displacements.  Integers are converted to float64.
        size: the spatial shape of the image that is sampled, (height, width) or
            (depth, height, width).
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of ``grid``: "pixel", "displacement" or "normalized", or an entry for
            each axis, as in `to_pixel`.

    Returns:
        An array of the grid's shape and dtype: normalized, in x, y, z order; from coordinates of
        axes, as in `to_pixel`.

    Raises:
        TypeError: grid does not hold real numbers, or size does not consist of integers.
        ValueError: the shapes do not match, or coords is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import to_normalized
        >>> flow = np.zeros((1, 2, 2, 2))  # a displacement of 0 is the identity
        >>> to_normalized(flow, (2, 2), coords="displacement")[0, 0]
        array([[-0.5, -0.5],
               [ 0.5, -0.5]])
    """
    backend, (array,) = as_wide_arrays(grid=grid)
    corners = check_flag(align_corners, "align_corners")
    rank = rank_of(backend, array)
    spatial = check_size(size, rank)
    if isinstance(coords, str) and coords == "normalized":
        return restored(backend, array, grid, coords)
    positions = pixels_of(backend, array, spatial, corners, coords)
    return restored(backend, normalized_of(backend, positions, spatial, corners), grid, coords)


@overridable(arrays=1)
def to_displacement(
    grid: ArrayT,
    size: Sequence[int] | None = None,
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
) -> ArrayT:
    """Convert a grid to displacements: pixels from each output pixel's own position.

    Args:
        grid: (N, *spatial, D) coordinates for D = 1 to 8, in x, y, z order.
        size: the spatial shape of the image that is sampled, (height, width) or
            (depth, height, width); needed for normalized coordinates only.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of ``grid``: "normalized", "pixel" or "displacement", or an entry for
            each axis, as in `to_pixel`.

    Returns:
        An array of the grid's shape and dtype: displacements in pixels, in x, y, z order; from
        coordinates of axes, as in `to_pixel`.

    Raises:
        TypeError: grid does not hold real numbers, or size does not consist of integers.
        ValueError: the shapes do not match, or coords is unknown.

    Example:
        >>> import gridsample
        >>> from gridsample.fields import to_displacement
        >>> identity = gridsample.identity_grid((1, 1, 2, 3), dtype="float64")
        >>> float(abs(to_displacement(identity, (2, 3))).max())
        0.0
    """
    backend, (array,) = as_wide_arrays(grid=grid)
    check_field(backend, array, "grid")
    positions = pixels_of(backend, array, size, align_corners, coords)
    return restored(backend, to_displacements(backend, positions), grid, coords)


# Matrices -----------------------------------------------------------------------------------------


@overridable(arrays=1)
def theta_from_matrix(
    matrix: ArrayT,
    input_size: Sequence[int],
    output_size: Sequence[int],
    align_corners: bool = False,
    convention: str = "opencv",
) -> ArrayT:
    """Convert an affine matrix of another library to the theta of `affine_grid`.

    | convention | the matrix maps           | axes      | as given to                            |
    |------------|---------------------------|-----------|----------------------------------------|
    | "opencv"   | input pixel to output     | x, y, z   | `cv2.warpAffine`                       |
    | "skimage"  | output pixel to input     | x, y      | `skimage.transform.warp`, 2-D only     |
    | "scipy"    | output pixel to input     | z, y, x   | `scipy.ndimage.affine_transform`       |
    | "pixel"    | output pixel to input     | x, y, z   | `affine_sample` with coords="pixel"    |

    All of them count pixels from the centre of the first pixel.  With OpenCV's flag
    ``WARP_INVERSE_MAP``, the convention is "pixel".  A transform object ``t`` of scikit-image that
    maps input to output is ``t.inverse.params``; SciPy's ``offset`` is the matrix's last column.

    Args:
        matrix: (D, D + 1) or (D + 1, D + 1), or a batch of them with N in front; D = 1 to 8.
            Integers are converted to float64.  The last row must be 0 ... 0 1, which is not
            checked for tensors; see `homography_grid` for others.
        input_size: the spatial shape of the image, (height, width) or (depth, height, width).
        output_size: the spatial shape of the result; OpenCV's ``dsize`` reversed.
        align_corners: the meaning of -1 and 1, as in `affine_grid`.
        convention: the name of the convention.

    Returns:
        theta, (N, D, D + 1) with N = 1 for a single matrix, in the matrix's dtype: it maps
        normalized coordinates of the output to those of the input.

    Raises:
        TypeError: the matrix does not hold real numbers, or a size does not consist of integers.
        ValueError: the shapes do not match, the matrix is not affine, or it is singular although
            it must be inverted.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.fields import theta_from_matrix
        >>> shift = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])  # one pixel to the right
        >>> theta = theta_from_matrix(shift, (1, 4), (1, 4))
        >>> image = np.array([[[[1.0, 2.0, 3.0, 4.0]]]])
        >>> gridsample.grid_sample(image, gridsample.affine_grid(theta, image.shape))
        array([[[[0., 1., 2., 3.]]]])
    """
    backend, (array,) = as_wide_arrays(matrix=matrix)
    source, target = checked_sizes(input_size, output_size)
    corners = check_flag(align_corners, "align_corners")
    square = homogeneous(backend, array, len(source), "matrix")
    check_affine(backend, square, "matrix", "; for a homography, use homography_grid")
    pixel = as_pixel_map(backend, square, convention)
    before, after = normalized_to_pixels(target, corners), pixels_to_normalized(source, corners)
    theta = with_axis_maps(backend, pixel, before, after)
    return restore_dtype(backend, theta, matrix)


@overridable(arrays=1)
def matrix_from_theta(
    theta: ArrayT,
    input_size: Sequence[int],
    output_size: Sequence[int],
    align_corners: bool = False,
    convention: str = "opencv",
) -> ArrayT:
    """Convert the theta of `affine_grid` to an affine matrix of another library.

    This is the inverse of `theta_from_matrix`, which explains the conventions.

    Args:
        theta: (N, D, D + 1) or (D, D + 1): maps normalized coordinates of the output to those of
            the input.
        input_size: the spatial shape of the image, (height, width) or (depth, height, width).
        output_size: the spatial shape of the result.
        align_corners: the meaning of -1 and 1, as in `affine_grid`.
        convention: the name of the convention, as in `theta_from_matrix`.

    Returns:
        (N, D + 1, D + 1) matrices in pixels, in theta's dtype; the last row is 0 ... 0 1.
        `cv2.warpAffine` takes the first two rows.

    Raises:
        TypeError: theta does not hold real numbers, or a size does not consist of integers.
        ValueError: the shapes do not match, or the matrix is singular although it must be inverted.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import matrix_from_theta
        >>> half = np.array([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])  # a quarter of the width
        >>> matrix_from_theta(half, (4, 8), (4, 8), convention="pixel")[0]
        array([[1., 0., 2.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    backend, (array,) = as_wide_arrays(theta=theta)
    source, target = checked_sizes(input_size, output_size)
    corners = check_flag(align_corners, "align_corners")
    square = homogeneous(backend, array, len(source), "theta")
    before, after = pixels_to_normalized(target, corners), normalized_to_pixels(source, corners)
    rows = with_axis_maps(backend, square, before, after)
    pixel = homogeneous(backend, rows, len(source), "theta")
    # The conversion undoes itself: it inverts or reverses, or does nothing.
    return restore_dtype(backend, as_pixel_map(backend, pixel, convention, "theta"), theta)


@overridable(arrays=1)
def invert_theta(theta: ArrayT) -> ArrayT:
    """Invert affine maps: where theta maps output to input, the result maps input to output.

    The matrix A and the shift b of theta become inverse(A) and -inverse(A) @ b.  The units do not
    change: normalized for the theta of `affine_grid`, pixels for matrices in pixels.

    Args:
        theta: (N, D, D + 1) or (D, D + 1) affine maps, D = 1 to 8.

    Returns:
        (N, D, D + 1) in theta's dtype, with N = 1 for a single map.

    Raises:
        TypeError: theta does not hold real numbers.
        ValueError: theta has another shape, or is singular.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import invert_theta
        >>> invert_theta(np.array([[[2.0, 1.0]]]))
        array([[[ 0.5, -0.5]]])
    """
    backend, (array,) = as_wide_arrays(theta=theta)
    shape = backend.shape(array)
    rank = shape[-1] - 1 if len(shape) in (2, 3) else 0
    square = homogeneous(backend, array, rank, "theta")
    return restore_dtype(backend, inverse(backend, square, "theta")[:, :rank], theta)


@overridable(arrays=1)
def theta_from_grid(grid: ArrayT, align_corners: bool = False) -> ArrayT:
    """Find the theta whose `affine_grid` is a given grid, or is closest to it.

    The result minimizes the sum of squared differences between the grid and `affine_grid(theta)`.
    An axis with one point does not determine its column of theta, which is then 0.

    Args:
        grid: (N, *out, D) normalized coordinates in x, y, z order, D = 1 to 8.
        align_corners: the meaning of -1 and 1 on the output's side, as in `affine_grid`.

    Returns:
        theta, (N, D, D + 1) in the grid's dtype.

    Raises:
        TypeError: grid does not hold real numbers.
        ValueError: grid has another shape.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.fields import theta_from_grid
        >>> theta = np.array([[[0.5, 0.0, 0.25], [0.0, 2.0, 0.0]]])
        >>> fitted = theta_from_grid(gridsample.affine_grid(theta, (1, 1, 3, 4)))
        >>> float(abs(fitted - theta).max().round(12))
        0.0
    """
    backend, (array,) = as_wide_arrays(grid=grid)
    spatial = check_field(backend, array, "grid")
    corners, rank = check_flag(align_corners, "align_corners"), len(spatial)
    over, xp = tuple(range(1, rank + 1)), backend.xp
    columns = []
    # Each axis's coordinates are symmetric about 0, so the columns of the fit are independent.
    for axis in range(rank):
        line = backend.line(spatial[rank - 1 - axis], corners, array.dtype, array)
        weights = line.reshape(-1, *(1,) * (axis + 1))
        variance = xp.mean(line * line)
        columns.append(xp.mean(array * weights, over) / (variance + (variance == 0)))
    columns.append(xp.mean(array, over))
    return restore_dtype(backend, xp.stack(columns, -1), grid)


@overridable(arrays=1)
def homography_grid(
    matrix: ArrayT,
    input_size: Sequence[int],
    output_size: Sequence[int],
    align_corners: bool = False,
    convention: str = "opencv",
    *,
    coords: CoordsName = "normalized",
) -> ArrayT:
    """Make the grid of a homography, a projective map of pixels.

    With rows m of the matrix that maps output pixels to input pixels, the position in the input of
    the output pixel p = (x, y, 1) is (m[0] @ p, m[1] @ p) / (m[2] @ p).  Where the denominator is
    exactly 0, the point is at infinity, and its coordinates are NaN.

    Args:
        matrix: (D + 1, D + 1), or a batch of them with N in front; D = 1 to 8.  Affine matrices,
            (D, D + 1), are accepted, too.  Integers are converted to float64.
        input_size: the spatial shape of the image, (height, width) or (depth, height, width).
        output_size: the spatial shape of the result; OpenCV's ``dsize`` reversed.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        convention: the matrix's convention, as in `theta_from_matrix`: "opencv" is that of
            `cv2.warpPerspective`, "skimage" that of `skimage.transform.warp`.
        coords: the units of the result: "normalized" or "pixel".

    Returns:
        The grid, (N, *output_size, D) in the matrix's dtype and x, y, z order, with N = 1 for a
        single matrix.

    Raises:
        TypeError: the matrix does not hold real numbers, or a size does not consist of integers.
        ValueError: the shapes do not match, or the matrix is singular although it must be inverted.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import homography_grid
        >>> tilt = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
        >>> homography_grid(tilt, (1, 3), (1, 3), convention="pixel", coords="pixel")[0, 0, :, 0]
        array([0.        , 0.66666667, 1.        ])
    """
    backend, (array,) = as_wide_arrays(matrix=matrix)
    source, target = checked_sizes(input_size, output_size)
    corners = check_flag(align_corners, "align_corners")
    units = check_name(coords, COORDS[:2], "coords")
    square = homogeneous(backend, array, len(source), "matrix")
    maps = as_pixel_map(backend, square, convention)
    xp, rank = backend.xp, len(source)
    projected = grid_along(backend, maps, target, None)
    depth = projected[..., rank]
    infinite = depth == 0
    divisor = xp.where(infinite, backend.full((), 1, depth.dtype, depth), depth)
    nan = backend.full((), float("nan"), depth.dtype, depth)
    parts = components(projected, rank)
    grid = xp.stack([xp.where(infinite, nan, part / divisor) for part in parts], -1)
    if units == "normalized":
        grid = normalized_of(backend, grid, source, corners)
    return restore_dtype(backend, grid, matrix)


# Coordinates, over a backend ----------------------------------------------------------------------


def restored(backend: Backend, result: Array, grid: Any, coords: Coords) -> Any:
    """Return converted coordinates to the caller; those on axes of their own keep their dtype."""
    if isinstance(coords, str):
        return restore_dtype(backend, result, grid)
    return backend.restore(result, grid)


def rank_of(backend: Backend, grid: Array) -> int:
    """The number of components of a grid, or an error."""
    shape = backend.shape(grid)
    if not shape or not 1 <= shape[-1] <= MAX_RANK:
        raise ValueError(
            f"grid must be (..., D), with the 1 to {MAX_RANK} components x, y, z, ... last; "
            f"got shape {shape}"
        )
    return shape[-1]


def scale(n: Any, align_corners: bool) -> Any:
    """Pixels per unit of a normalized coordinate on an axis of n pixels.

    On an axis of one pixel with align_corners=True, a coordinate has no meaning: half a pixel then,
    so that maps stay invertible.
    """
    return (n - 1) / 2 if align_corners and n > 1 else n / 2


def normalized_to_pixels(size: Sequence[Any], align_corners: bool) -> AxisMaps:
    """The maps from normalized coordinates to pixels along x, y, z, as factors and shifts."""
    return [(scale(n, align_corners), (n - 1) / 2) for n in reversed(size)]


def pixels_to_normalized(size: Sequence[Any], align_corners: bool) -> AxisMaps:
    """The maps from pixels to normalized coordinates along x, y, z, as factors and shifts."""
    return [(1 / a, -b / a) for a, b in normalized_to_pixels(size, align_corners)]


def pixels_of(
    backend: Backend, grid: Array, size: Any, align_corners: bool, coords: Coords
) -> Array:
    """Compute `to_pixel` for an array of the backend."""
    rank, corners = rank_of(backend, grid), check_flag(align_corners, "align_corners")
    spatial = None if size is None else check_size(size, rank)
    if isinstance(coords, str):
        entries: tuple[Any, ...] = (check_name(coords, COORDS, "coords"),) * rank
    else:
        entries = check_axes(coords, rank)
        grid = backend.astype(grid, backend.type("float64"))
    if isinstance(coords, str) and coords == "displacement":
        check_field(backend, grid, "grid")
        return to_positions(backend, grid)
    converted = [
        pixels_along(backend, component, entry, number, spatial, corners)
        for number, (component, entry) in enumerate(
            zip(components(grid, rank), entries, strict=True)
        )
    ]
    return backend.xp.stack(converted, -1)


def pixels_along(
    backend: Backend, points: Array, units: Any, number: int, size: Any, align_corners: bool
) -> Array:
    """Convert one component of a grid, in the units of its axis: a name, or an array."""
    n = None if size is None else size[-1 - number]
    if not isinstance(units, str):
        return backend.positions(as_axis(backend, units, number, n, points), points)
    if units == "pixel":
        return points
    if n is None:
        raise ValueError(
            "size is missing: give the spatial shape of the image that is sampled, "
            "which is what normalized coordinates refer to"
        )
    factor = 0 if align_corners and n == 1 else scale(n, align_corners)
    return points * factor + (n - 1) / 2


def normalized_of(
    backend: Backend, positions: Array, size: Sequence[Any], align_corners: bool
) -> Array:
    """Convert positions in pixels to normalized coordinates."""
    parts, maps = components(positions, len(size)), pixels_to_normalized(size, align_corners)
    converted = [part * factor + shift for part, (factor, shift) in zip(parts, maps, strict=True)]
    return backend.xp.stack(converted, -1)


# Matrices, over a backend -------------------------------------------------------------------------


def checked_sizes(input_size: Any, output_size: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return both spatial shapes, or raise an error if they do not match."""
    source = check_size(input_size, None, "input_size")
    return source, check_size(output_size, len(source), "output_size")


def homogeneous(backend: Backend, matrix: Array, rank: int, name: str) -> Array:
    """Return matrices as (N, D + 1, D + 1), or raise an error if they have another shape."""
    shape = backend.shape(matrix)
    if not (
        1 <= rank <= MAX_RANK
        and len(shape) in (2, 3)
        and shape[-1] == rank + 1
        and shape[-2] in (rank, rank + 1)
    ):
        expected = f"({rank}, {rank + 1}) or ({rank + 1}, {rank + 1})" if rank else "(D, D + 1)"
        raise ValueError(
            f"{name} must be {expected}, or a batch of such matrices with N in front; got shape "
            f"{shape}"
        )
    if len(shape) == 2:
        matrix = matrix.reshape(1, *shape)
    if shape[-2] == rank + 1:
        return matrix
    items = shape[0] if len(shape) == 3 else 1
    last = [
        backend.full((items, 1, n), number, matrix.dtype, matrix)
        for n, number in ((rank, 0), (1, 1))
    ]
    return backend.concatenate([matrix, backend.concatenate(last, -1)], 1)


def check_affine(backend: Backend, matrix: Array, name: str, remark: str = "") -> None:
    """Raise an error if the last row is not 0 ... 0 1, where values can be inspected."""
    if not backend.is_host:
        return
    last = np.asarray(matrix[:, -1])
    if not np.allclose(last, np.eye(last.shape[-1])[-1], rtol=0, atol=1e-6):
        raise ValueError(
            f"{name} is not affine: its last row must be 0 ... 0 1, got {last[0].tolist()}{remark}"
        )


def with_axis_maps(backend: Backend, maps: Array, before: AxisMaps, after: AxisMaps) -> Array:
    """Multiply affine maps by maps of single axes, before and after: (N, D, D + 1)."""
    rank, rows = len(before), []
    for i, (factor, shift) in enumerate(after):
        row = [maps[:, i, j] * (before[j][0] * factor) for j in range(rank)]
        total = maps[:, i, rank]
        for j in range(rank):
            total = total + maps[:, i, j] * before[j][1]
        rows.append([*row, total * factor + shift])
    return assembled(backend, rows)


def inverse(backend: Backend, matrix: Array, name: str) -> Array:
    """Invert matrices, or raise an error that names the argument."""
    try:
        return backend.xp.linalg.inv(matrix)
    except np.linalg.LinAlgError:  # torch has an error of its own, which says the same
        raise ValueError(f"{name} is singular and cannot be inverted") from None


def in_array_order(matrix: Array, rank: int) -> Array:
    """Exchange x, y, z order and the order of the array's axes, on both sides of matrices."""
    order = [*range(rank - 1, -1, -1), rank]
    return matrix[:, order][:, :, order]


def check_convention(convention: Any, rank: int) -> str:
    """Return the name of a convention, or raise an error if it is unknown or has another rank."""
    name = check_name(convention, CONVENTIONS, "convention")
    if name == "skimage" and rank != 2:
        raise ValueError(
            "convention 'skimage' is that of skimage.transform.warp, which takes matrices of "
            f"pictures (2-D) only; got {rank} spatial axes; accepted: 'scipy' for a matrix whose "
            "axes are ordered as the array's, 'pixel' for x, y, z"
        )
    return name


def as_pixel_map(
    backend: Backend, matrix: Array, convention: Any, argument: str = "matrix"
) -> Array:
    """Convert homogeneous matrices to maps from output pixel to input pixel, in x, y, z order."""
    rank = backend.shape(matrix)[-1] - 1
    name = check_convention(convention, rank)
    if name == "opencv":
        return inverse(backend, matrix, argument)
    return in_array_order(matrix, rank) if name == "scipy" else matrix
