"""Sampling under matrices: `affine_transform` and `rotate`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    as_numbers,
    as_real,
    check_rank,
    new_output,
    per_axis,
    restored,
    store,
)
from gridsample.ndimage.axes import sample_separably
from gridsample.ndimage.maps import transform_affine
from gridsample.ndimage.modes import spline_of
from gridsample.ndimage.positions import as_channel
from gridsample.ndimage.scipys import goes_to_scipy, scipy_function


def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Sample an image under an affine map, like `scipy.ndimage.affine_transform`.

    Output pixel o is the input at ``matrix @ o + offset``, in pixels and in the order of the
    array's axes: z, y, x.  The matrix maps the output to the input.

    Args:
        input: the image, as in `map_coordinates`.
        matrix: (rank, out_rank); or (rank,), the diagonal of a diagonal matrix, for which axes are
            processed one after the other, for any rank; or (rank, rank + 1) or
            (rank + 1, rank + 1), whose last column is the offset.
        offset: a number, or one per axis of the input.
        output_shape: the output's shape; None for that of ``output``, or the input's.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.

    Returns:
        An array of ``output_shape``, or ``output``.  For tensors, it is differentiable in the
        input, the matrix and the offset.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`, or the shape of the matrix
            does not match the ranks.
        ValueError: the last row of a homogeneous matrix is not 0 ... 0 1.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(6.0).reshape(2, 3)
        >>> ndimage.affine_transform(image, [[0, 1], [1, 0]], output_shape=(3, 2), order=1)
        array([[0., 3.],
               [1., 4.],
               [2., 5.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    if output_shape is None:
        output_shape = output.shape if isinstance(output, np.ndarray) else image.shape
    shape = tuple(map(operator.index, output_shape))
    check_rank(image.shape, shape)
    result = new_output(output, image, shape)
    matrix = as_numbers(matrix, image, "matrix")
    matrix, offset = split_matrix(matrix, offset, image.ndim, len(shape))
    if matrix.ndim == 1:
        matrix, offset = (
            [as_numbers(numbers, image, name) for numbers in each]
            for name, each in (("matrix", matrix), ("offset", offset))
        )
        positions = [scaled_positions(*each) for each in zip(shape, matrix, offset, strict=True)]
        return restored(sample_separably(image, positions, spline, result), input)
    matrix, offset = as_real(matrix, image), [as_real(numbers, image) for numbers in offset]
    if goes_to_scipy(image):
        of_scipy = scipy_function("affine_transform", "an input with more than eight axes")
        of_scipy(image, matrix, offset, shape, result, order, mode, cval, prefilter)
        return result
    is_new = not isinstance(output, np.ndarray)

    def sampled(pixels: Any, place: Any) -> Any:
        return transform_affine(pixels, matrix, offset, shape, spline, place)

    values = as_channel(sampled, image, result, is_new)
    return restored(values, input)


def rotate(
    input: Any,
    angle: float,
    axes: Sequence[int] = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Rotate an image in the plane of two axes, like `scipy.ndimage.rotate`.

    All other axes are treated as channels, which share the same taps.

    Args:
        input: an image with at least two axes.
        angle: the angle in degrees, from the first of the axes to the second: with the default
            axes, counter-clockwise in a picture whose first row is on top.
        axes: the two axes of the plane.
        reshape: whether to enlarge the output so that it contains the whole input.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.

    Returns:
        The rotated image, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.
        ValueError: the axes are not two axes of the input.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.rotate(np.arange(6.0).reshape(2, 3), 90, order=1)
        array([[2., 5.],
               [1., 4.],
               [0., 3.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    plane = rotation_plane(axes, image.ndim)
    c, s = cosine_and_sine(angle)
    matrix = np.array([[c, s], [-s, c]])
    sizes = np.array([image.shape[axis] for axis in plane])
    y, x = sizes
    bounds = np.ptp(matrix @ [[0, 0, y, y], [0, x, 0, x]], axis=1)
    new = (bounds + 0.5).astype(int) if reshape else sizes
    offset = (sizes - 1) / 2 - matrix @ ((new - 1) / 2)
    affine = as_real(matrix, image), as_real(offset, image), tuple(new.tolist()), spline
    if image.ndim == 2:
        is_new = not isinstance(output, np.ndarray)
        values = as_channel(
            lambda pixels, place: transform_affine(pixels, *affine, place),
            image,
            new_output(output, image, affine[2]),
            is_new,
        )
        return restored(values, input)
    others = [axis for axis in range(image.ndim) if axis not in plane]
    shape = tuple(int(new[plane.index(k)]) if k in plane else n for k, n in enumerate(image.shape))
    result = new_output(output, image, shape)
    to = [*plane, *others]
    back = sorted(range(image.ndim), key=to.__getitem__)
    backend = backend_of(input=image)
    moved = backend.permute(image, to)
    flat = moved.reshape(*moved.shape[:2], -1)
    values = transform_affine(flat, *affine)
    values = backend.permute(values.reshape(*values.shape[:2], *moved.shape[2:]), back)
    return restored(store(values, result), input)


def split_matrix(matrix: Any, offset: Any, rank: int, out_rank: int) -> tuple[Any, Any]:
    """Normalise all accepted forms of a matrix and an offset: a matrix or its diagonal, an offset.

    Raises:
        RuntimeError: the shapes do not match the ranks of the input and the output.
        ValueError: the last row of a homogeneous matrix is not 0 ... 0 1.
    """
    if matrix.ndim not in (1, 2) or matrix.shape[0] < 1:
        raise RuntimeError(f"matrix: no proper affine matrix provided: shape {matrix.shape}")
    if matrix.ndim == 2 and tuple(matrix.shape) in ((rank, rank + 1), (rank + 1, rank + 1)):
        expected = [0] * rank + [1]
        if matrix.shape[0] == rank + 1 and matrix[rank].tolist() != expected:
            raise ValueError(
                f"matrix: a homogeneous matrix of shape {tuple(matrix.shape)} must have "
                f"{expected} as its bottom row, got {matrix[rank].tolist()}"
            )
        matrix, offset = matrix[:rank, :rank], matrix[:rank, rank]
    if matrix.shape[0] != rank:
        raise RuntimeError(
            f"affine matrix has wrong number of rows: {matrix.shape[0]}, "
            f"for an input of rank {rank}"
        )
    if matrix.ndim == 2 and matrix.shape[1] != out_rank:
        raise RuntimeError(
            f"affine matrix has wrong number of columns: {matrix.shape[1]}, "
            f"for an output of rank {out_rank}"
        )
    return matrix, per_axis(offset, rank, "offset")


def scaled_positions(n: int, step: Any, offset: Any) -> Any:
    """Compute step * index + offset like SciPy, because the last bit matters at an edge."""
    differentiable = [not backend_of(value=value).is_host for value in (step, offset)]
    step = step if differentiable[0] else float(step)
    offset = offset if differentiable[1] else float(offset)
    at = as_like(np.arange(n), step if differentiable[0] else offset)
    return (at + offset / step) * step if step != 0 else at * step + offset


def cosine_and_sine(angle: float) -> tuple[float, float]:
    """Compute the cosine and sine of an angle in degrees, exact at every quarter turn.

    The angle is reduced to the nearest quarter turn; ties go up, which reproduces SciPy's last bit.
    """
    quarters = math.floor(abs(angle) / 90 + 0.5)
    rest = math.radians(abs(angle) - 90 * quarters)
    c, s = math.cos(rest), math.sin(rest)
    c, s = ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]
    return c, s if angle >= 0 else -s


def rotation_plane(axes: Any, rank: int) -> list[int]:
    """Return two axes in increasing order.

    Raises:
        ValueError: they are not two axes of the input.
    """
    if rank < 2:
        raise ValueError(f"input array should be at least 2D, got {rank} axes")
    entries = list(axes)
    if len(entries) != 2:
        raise ValueError(f"axes should contain exactly two values, got {axes!r}")
    if not all(float(axis).is_integer() for axis in entries):
        raise ValueError(f"axes should contain only integer values, got {axes!r}")
    plane = sorted(int(axis) + rank * (axis < 0) for axis in entries)
    if plane[0] < 0 or plane[1] >= rank:
        raise ValueError(f"axes: invalid rotation plane specified: {axes!r}, of {rank} axes")
    return plane
