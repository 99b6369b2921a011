"""The prefilter of B-splines, which prepares an image for sampling."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from gridsample.backends import backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import check_boundary
from gridsample.definitions.checks import check_flag, check_threads
from gridsample.definitions.methods import Padding
from gridsample.definitions.splines import extension


@overridable(arrays=1)
def spline_filter(
    input: ArrayT,
    order: int = 3,
    boundary: Padding = "mirror",
    axes: int | Sequence[int] | None = None,
    *,
    align_corners: bool = False,
    adjoint: bool = False,
    threads: int | None = None,
) -> ArrayT:
    """Compute the coefficients of the B-spline that passes through an image's pixels.

    A spline of order n is a sum of B-splines b, one per pixel, with coefficients c.  In 1-D, its
    value at pixel k is

        sum over i of b(k - i) c[i]

    and along several axes it is the tensor product of such sums.  The boundary determines c outside
    the image.  The filter chooses c so that the value at every pixel k is that of the image.  The
    modes "spline2" to "spline7" sample such coefficients.  Source: M. Unser, A. Aldroubi, M. Eden,
    "B-spline signal processing", IEEE Trans. Signal Processing 41, 1993.

    The filter makes one forward and one backward pass for each pole.  It is exact for every
    boundary.  (SciPy's filter is not exact for "grid-constant" and "nearest"; see
    `gridsample.ndimage.spline_filter`.)  For "constant", the fill value is 0; for another fill
    value f, the coefficients are f + spline_filter(input - f).

    Args:
        input: an image of any shape: bool, any integer dtype, float16 to float64, complex; an array
            or a tensor (also bfloat16), for which the result is differentiable.  It is not
            modified.
        order: the order of the spline, 0 to 7.  Orders 0 and 1 need no filter and return the image.
        boundary: the boundary, as padding_mode in `grid_sample`, or one for each of ``axes``.
        axes: the axes to filter along; None for the spatial axes of an image (N, C, *spatial).
        align_corners: whether "reflection" means "mirror" (True) or "symmetric" (False).
        adjoint: whether to apply the transpose of the filter, which is its vector-Jacobian product.
        threads: the maximum number of threads; None for one per core or, for tensors, torch's
            number of threads.

    Returns:
        A new array or tensor of the input's shape: float32 for bool, 8- and 16-bit integers,
        float16 and float32; float64 for other integers and float64; and the corresponding complex
        dtypes.

    Raises:
        TypeError: the type of an argument is not accepted.
        ValueError: the order, a boundary or an axis does not exist.

    Example:
        >>> import numpy as np, gridsample
        >>> row = np.array([0.0, 0.0, 6.0, 0.0, 0.0])
        >>> c = gridsample.spline_filter(row, 3, "mirror", axes=0)
        >>> (c[1:-3] + 4 * c[2:-2] + c[3:-1]) / 6  # the spline at the middle pixel
        array([6.])
        >>> c = gridsample.spline_filter(row[2:], 3, "border", axes=0)
        >>> (5 * c[:1] + c[1:2]) / 6  # the spline at the first pixel, with c[0] outside
        array([6.])
    """
    backend = backend_of(input=input)
    (image,) = backend.to_device(input=input)
    check_threads(threads)
    chosen = check_axes(axes, len(image.shape))
    corners = check_flag(align_corners, "align_corners")
    needed = check_order(order) > 1
    names = check_names(boundary, chosen) if needed else []
    extended = [extension(name, corners) for name in names]
    transposed = check_flag(adjoint, "adjoint")
    result = backend.prefilter(image, order, extended, chosen, transposed, threads)
    return backend.restore(result, input)


def check_order(order: Any) -> int:
    """Return the order of a spline as an int, or raise an error if it is not valid."""
    if isinstance(order, bool) or not hasattr(order, "__index__"):
        raise TypeError(f"order must be an integer from 0 to 7, got {order!r}")
    if not 0 <= order <= 7:
        raise ValueError(f"order must be from 0 to 7, got {order}")
    return operator.index(order)


def check_axes(axes: Any, dimensions: int) -> tuple[int, ...]:
    """Return axes as non-negative integers, or raise an error if they are missing or repeated."""
    if axes is None:
        return tuple(range(2, dimensions))
    try:
        indices = [
            operator.index(axis) for axis in ((axes,) if hasattr(axes, "__index__") else axes)
        ]
    except TypeError:
        raise TypeError(f"axes must be integers, or None, got {axes!r}") from None
    chosen = tuple(axis + dimensions if axis < 0 else axis for axis in indices)
    if not all(0 <= axis < dimensions for axis in chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"axes must be different axes of the input, from {-dimensions} to {dimensions - 1}, "
            f"got {axes!r}"
        )
    return chosen


def check_names(boundary: Any, axes: Sequence[int]) -> list[str]:
    """Return the boundary of each axis, or raise an error if a name is unknown."""
    names = [boundary] * len(axes) if isinstance(boundary, str) else boundary
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"boundary must be a string, or a tuple with one for each of axes, got {boundary!r}"
        )
    if len(names) != len(axes):
        raise ValueError(
            f"boundary needs one entry for each of axes {tuple(axes)}, got {len(names)}: {names!r}"
        )
    return [check_boundary(name, "boundary") for name in names]
