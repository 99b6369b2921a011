"""The public functions: find the binding of the caller's arrays and hand over.

A framework is used only if an array already came from it; here nothing but NumPy is ever imported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gridsample.backends import numpy as of_numpy
from gridsample.definitions.options import Options
from gridsample.definitions.plan import Mode, check_flag

# Libraries that have a binding, and those that are known to have none.
BINDINGS = ("torch", "cupy")
FOREIGN = ("jax", "jaxlib", "dask", "tensorflow")

# Torch's `has_torch_function`, once it is known: to import it takes longer than its answer.
CHECK: list[Callable[..., bool]] = []


def library(array: Any) -> str:
    """The library that an array's type, or one that it is derived from, comes from."""
    if type(array) is np.ndarray:
        return "numpy"
    for kind in type(array).__mro__:
        name: str = kind.__module__.partition(".")[0]
        if name in BINDINGS or name in FOREIGN:
            return name
    return "numpy"


def is_overridden(*arrays: Any) -> bool:
    """Whether `__torch_function__`, of an argument or of a mode, is to get a call on tensors."""
    for one in arrays:
        if type(one) is not np.ndarray and hasattr(type(one), "__torch_function__"):
            if not CHECK:
                from gridsample.backends.torch import contacts

                CHECK.append(contacts.has_torch_function)
            return CHECK[0](arrays)
    return False


def hand_over(function: Callable[..., Any], given: dict[str, Any], *arrays: Any) -> Any:
    """Let `__torch_function__` do what was asked of one of our functions.

    Args:
        function: the public function.
        given: its arguments by name, in order: what ``locals()`` is where it begins.
        arrays: those of them that may override it, its first ones.
    """
    from gridsample.backends.torch import contacts

    options = [*given.items()][len(arrays) :]
    return contacts.handle_torch_function(function, arrays, *arrays, **dict(options))


def find_binding(**arrays: Any) -> ModuleType:
    """The binding for the library that the arrays come from.

    Raises:
        TypeError: an array comes from a library that has no binding.
    """
    found = "numpy"
    for name, array in arrays.items():
        source = library(array)
        if source in FOREIGN:
            raise TypeError(
                f"{name} is a {type(array).__module__}.{type(array).__qualname__}; "
                "accepted: NumPy arrays, torch tensors and, where torch is installed, CuPy arrays"
            )
        found = source if source in BINDINGS else found
    # Statements that `torch.compile` can follow.
    if found == "torch":
        from gridsample.backends import torch

        return torch
    if found == "cupy":
        from gridsample.backends.torch import dlpack

        return dlpack
    return of_numpy


def grid_sample(
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool = True,
    prefilter: bool = True,
    return_mask: bool = False,
    channel_axis: int = 1,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """Sample an image at the coordinates of a grid.

    Every output pixel is a weighted sum of the input's pixels (the taps) around one position.  All
    channels use the same taps.  Along each axis, a coordinate x has the position, in pixels,

        (x + 1) / 2 * (size - 1)     align_corners=True: -1 and 1 are the corner pixels' centres
        ((x + 1) * size - 1) / 2     align_corners=False: they are the corner pixels' outer edges
        x                            coords="pixel"
        x + i                        coords="displacement", at the output's index i along the axis

    The results are those of `torch.nn.functional.grid_sample` wherever it supports the call.

    For torch tensors (also bfloat16), the result is a tensor with derivatives of any order.  Memory
    is not copied, and channels-last inputs give channels-last results.  The result of an integer
    tensor has no derivative, as usual in torch; use `grid_sample_vjp` for the grid's gradient.  The
    result is not differentiable with respect to the fill value.

    Args:
        input: the image, (N, C, *spatial) with 1 to 3 spatial axes; bool, any integer dtype,
            float16 to float64, complex64 or complex128; any strides and byte order.  It is never
            modified.
        grid: the coordinates, (N, *out, D) for D spatial axes, float16 to float64.  The last axis
            holds x, y, z, where x runs along the *last* spatial axis.  ``out`` may have any rank.
            If N is 1 here or in the input, it is broadcast.  A NaN coordinate gives NaN, or the
            fill value for an integer image.  With coords="pixel", the grid may hold integers, which
            are converted to float32 (8 and 16 bits) or float64 and have no gradient.
        mode: the interpolation method: "nearest" (ties to even), "bilinear" (also "linear",
            "trilinear"), "bicubic" (also "cubic", "tricubic": Keys, a = -0.75), or any other of
            `gridsample.methods.names()`, for every number of axes; or a
            `gridsample.methods.Method`; or a tuple with one per axis, in x, y, z order.
        padding_mode: the boundary, which determines the values outside the image: "zeros",
            "constant" (``fill_value``), "border" (the edge pixel), "reflection" (mirrored about the
            points -1 and 1), "symmetric" (mirrored, repeating the edge pixel), "mirror" (mirrored
            without repeating it), "wrap" (periodic), or "antisymmetric", "antimirror", "dst1"
            (mirrored with the opposite sign about the outer edges, the edge pixels, or zeros next
            to the image); or a tuple with one per axis.
        align_corners: the meaning of -1 and 1, see above.
        coords: the units of coordinates: "normalized", from -1 to 1; "pixel", pixels from the
            centre of the first pixel; or "displacement", pixels from the output's own position.  A
            displacement grid of zeros is the identity; ``out`` then has as many axes as the image.
        fill_value: the value outside for "constant" and extrapolate=False: a number, or one per
            channel; complex only for a complex image.  For tensors, it must be exact in float64.
        extrapolate: False to return the fill value wherever the position itself is outside the
            image.  The image ends at the centres of its outermost pixels, or at their outer edges
            with normalized coordinates and align_corners=False.
        prefilter: whether "spline2" to "spline7" first compute B-spline coefficients from the
            image, so that the spline passes through the pixels (`spline_filter`).  Set it to False
            if the input already holds such coefficients.
        return_mask: whether to also return the share of each point's weight that is on the image.
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C) and
            (N, *out, C).
        out: an array for the result, with its shape and dtype, which shares no memory with the
            inputs.  It is not supported for tensors.
        threads: the maximum number of threads; None for one per core or, for tensors, torch's
            number of threads.  The result does not depend on it.

    Returns:
        (N, C, *out), with the input's dtype.  Integers are rounded half to even and saturate.

        With return_mask=True, a tuple of that and the mask, (N of the grid, 1, *out), float32 or
        float64.  The mask is the sample of an image of ones surrounded by zeros, for every
        padding_mode, without the prefilter.  It is 0 where a coordinate is NaN.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: shapes do not match, a name is unknown or ambiguous, or a fill value other than
            0 is given but not used.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> grid = np.array([[[[0.0, 0.0], [-0.5, -0.5], [1.0, 0.5]]]])
        >>> gridsample.grid_sample(image, grid)  # the middle, a pixel's centre, half outside
        array([[[[15.,  0., 15.]]]])
        >>> gridsample.grid_sample(image, grid, padding_mode="border")
        array([[[[15.,  0., 30.]]]])
        >>> field = np.zeros((1, 2, 2, 2))
        >>> field[..., 0] = 0.5  # half a pixel to the right
        >>> gridsample.grid_sample(
        ...     image, field, padding_mode="constant", coords="displacement", fill_value=2
        ... )
        array([[[[ 5.,  6.],
                 [25., 16.]]]])
    """
    if is_overridden(input, grid):
        return hand_over(grid_sample, locals(), input, grid)
    options = Options(
        mode, padding_mode, align_corners, coords, fill_value, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    binding = find_binding(input=input, grid=grid)
    return binding.grid_sample(input, grid, options, return_mask, out)


def grid_sample_vjp(
    grad_output: Any,
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool = True,
    prefilter: bool = True,
    need_input: bool = True,
    need_grid: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> tuple[Any, Any]:
    """Compute both gradients of `grid_sample`: the vector-Jacobian product with ``grad_output``.

    Let v be the pixels and w the weights of a sample's taps, and g its upstream gradient.  Then

        grad_input: g * w is added to each tap's pixel, the exact transpose of sampling;
        grad_grid: g * sum of v * (w with one axis's factor differentiated) * d position / d
            coordinate, summed over the channels.

    d position / d coordinate is size / 2 or (size - 1) / 2, or 1 for coordinates in pixels, times
    the sign of the boundary's fold; it is 0 where the boundary clamps.  The grid's gradient is zero
    for "nearest".  For a complex image, grad_grid is the real part of conj(g) times the above.  If
    the image is prefiltered, v are the coefficients, and grad_input is the transpose of the filter,
    applied to the above.

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.  A point with a NaN coordinate contributes
            nothing to grad_input, and its grad_grid is 0.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.  grad_grid is per unit of the grid.
        fill_value: the value outside, as in `grid_sample`.
        extrapolate: whether to extend the image, as in `grid_sample`.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        need_input: whether to compute grad_input; an integer input has none.
        need_grid: whether to compute grad_grid.
        channel_axis: 1 or -1, as in `grid_sample`; it also applies to grad_output and grad_input.
        threads: the maximum number of threads, as in `grid_sample`.  The gradients are bitwise
            identical for every number.

    Returns:
        (grad_input, grad_grid), with the shapes and dtypes of input and grid; None for a gradient
        that is not needed.  If N was broadcast, the gradient is the sum.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`, or the gradient of an integer input
            is requested.
        ValueError: an argument is not accepted by `grid_sample`, or grad_output does not have the
            output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> grid = np.zeros((1, 1, 1, 2))
        >>> grad_input, grad_grid = gridsample.grid_sample_vjp(np.ones((1, 1, 1, 1)), image, grid)
        >>> grad_input
        array([[[[0.25, 0.25],
                 [0.25, 0.25]]]])
        >>> grad_grid  # 10 a pixel to the right, 20 down; a pixel is 1 in coordinates
        array([[[[10., 20.]]]])
    """
    if is_overridden(grad_output, input, grid):
        return hand_over(grid_sample_vjp, locals(), grad_output, input, grid)  # type: ignore[no-any-return]
    options = Options(
        mode, padding_mode, align_corners, coords, fill_value, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    binding = find_binding(grad_output=grad_output, input=input, grid=grid)
    needed = check_flag(need_input, "need_input"), check_flag(need_grid, "need_grid")
    result: tuple[Any, Any] = binding.grid_sample_vjp(grad_output, input, grid, options, *needed)
    return result


def grid_gradient(
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool = True,
    prefilter: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Compute the derivatives of a sampled image along each coordinate of a grid.

    The derivative of `grid_sample`'s sum along a coordinate is the same sum with that axis's
    weights differentiated:

        out[n, c, point, k] = d grid_sample(input, grid)[n, c, point] / d grid[n, point, k]

    It is per unit of the coordinate.  For normalized coordinates, multiply it by 2 / size, or by
    2 / (size - 1) with align_corners, to get the derivative per pixel.  With coords="pixel" or
    "displacement", it is per pixel already.

    Args:
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.
        mode: the interpolation method, as in `grid_sample`; the gradient of "nearest" is 0.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.
        fill_value: the value outside, as in `grid_sample`.
        extrapolate: whether to extend the image, as in `grid_sample`; the gradient of the fill
            value is 0.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        channel_axis: 1 or -1, as in `grid_sample`; the axis of x, y, z comes after the channels.
        threads: the maximum number of threads, as in `grid_sample`.

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
    if is_overridden(input, grid):
        return hand_over(grid_gradient, locals(), input, grid)
    options = Options(
        mode, padding_mode, align_corners, coords, fill_value, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    return find_binding(input=input, grid=grid).grid_derivatives(input, grid, options, 1)


def grid_hessian(
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool = True,
    prefilter: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Compute the second derivatives of a sampled image along the coordinates of a grid.

        out[n, c, point, j, k] =
            d^2 grid_sample(input, grid)[n, c, point] / d grid[n, point, j] d grid[n, point, k]

    They are per unit of both coordinates; see `grid_gradient`.  The result is symmetric in j and k.
    For "linear", only the mixed derivatives differ from 0.

    Args:
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.
        fill_value: the value outside, as in `grid_sample`.
        extrapolate: whether to extend the image, as in `grid_gradient`.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        channel_axis: 1 or -1, as in `grid_gradient`.
        threads: the maximum number of threads, as in `grid_sample`.

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
    if is_overridden(input, grid):
        return hand_over(grid_hessian, locals(), input, grid)
    options = Options(
        mode, padding_mode, align_corners, coords, fill_value, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    return find_binding(input=input, grid=grid).grid_derivatives(input, grid, options, 2)


def splat(
    values: Any,
    grid: Any,
    size: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
    prefilter: bool = True,
    normalize: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Add values to an image at the coordinates of a grid: the exact transpose of `grid_sample`.

    Each value is added to the pixels that `grid_sample` would read at its point, with the same
    weights:

        out[n, c, pixel] = sum over points of weight(point, pixel) * values[n, c, point]

    Hence sum(splat(v, grid, size) * image) = sum(v * grid_sample(image, grid)) for every image of
    this size, with the same options and the fill value 0.  If `grid_sample` prefilters the image,
    the transpose of that filter is applied last.  This operation is also known as scattering or
    pushing.

    Args:
        values: (N, C, *out); bool, any integer dtype, float16 to float64, complex64 or complex128.
            Tensors may also be bfloat16, and the result is differentiable.
        grid: the coordinates of the values, (N, *out, D), as in `grid_sample`.  If N is 1 here or
            in the values, it is broadcast.  A point with a NaN coordinate contributes nothing.
        size: the spatial shape of the result, such as (height, width); a number for one axis.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`, which folds values outside into the image.
            Under "zeros" and "constant", they are dropped.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.
        extrapolate: False to drop values whose position itself is outside the image.
        prefilter: whether to apply the transpose of the prefilter; False adds to the coefficients
            of a spline.
        normalize: whether to divide by `splat_count` where that is not 0, so that the result of
            equal values is that value.
        channel_axis: 1, or -1 for channels-last values and result, (N, *out, C) and (N, *size, C).
        threads: the maximum number of threads, as in `grid_sample`.  The result is bitwise
            identical for every number.

    Returns:
        (N, C, *size), with the dtype of the values; float32 for bool and 8- and 16-bit integers,
        float64 for other integers.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: shapes do not match, or a name is unknown or ambiguous.

    Example:
        >>> import numpy as np, gridsample
        >>> values, grid = np.array([[[8.0, 1.0]]]), np.array([[[0.25], [2.0]]])
        >>> gridsample.splat(values, grid, 4, coords="pixel")
        array([[[6., 2., 1., 0.]]])
        >>> gridsample.splat(values, grid, 4, coords="pixel", normalize=True)
        array([[[8., 8., 1., 0.]]])
    """
    if is_overridden(values, grid):
        return hand_over(splat, locals(), values, grid)
    options = Options(
        mode, padding_mode, align_corners, coords, 0, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    return find_binding(values=values, grid=grid).splat(values, grid, size, options, normalize)


def splat_count(
    grid: Any,
    size: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
    prefilter: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Sum the weights that fall on each pixel of an image: the `splat` of ones.

        out[n, 0, pixel] = sum over points of weight(point, pixel)

    Args:
        grid: the coordinates of the points, (N, *out, D), as in `grid_sample`.
        size: the spatial shape of the result, as in `splat`.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `splat`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.
        extrapolate: False to drop points outside the image, as in `splat`.
        prefilter: whether to apply the transpose of the prefilter, as in `splat`.
        channel_axis: 1, or -1 for (N, *size, 1).
        threads: the maximum number of threads, as in `grid_sample`.

    Returns:
        (N, 1, *size), float64 for a float64 grid and float32 otherwise.

    Raises:
        TypeError: an argument is not accepted by `splat`.
        ValueError: an argument is not accepted by `splat`.

    Example:
        >>> import numpy as np, gridsample
        >>> gridsample.splat_count(np.array([[[0.25], [2.0]]]), 4, coords="pixel")
        array([[[0.75, 0.25, 1.  , 0.  ]]])
    """
    if is_overridden(grid):
        return hand_over(splat_count, locals(), grid)
    options = Options(
        mode, padding_mode, align_corners, coords, 0, extrapolate, prefilter,
        channel_axis, threads,
    )  # fmt: skip
    return find_binding(grid=grid).splat_count(grid, size, options)
