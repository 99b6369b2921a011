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

    Every output pixel is a weighted sum of the input's pixels (its taps) around one position, the
    same taps for every channel.  Along each axis the position in pixels of a coordinate x is

        (x + 1) / 2 * (size - 1)     align_corners=True: -1 and 1 are the corner pixels' centres
        ((x + 1) * size - 1) / 2     align_corners=False: they are the corner pixels' outer edges
        x                            coords="pixel"
        x + i                        coords="displacement", at the output's index i along the axis

    as in `torch.nn.functional.grid_sample`, whose results these are wherever it has any.

    Torch tensors give tensors (also bfloat16), with derivatives of any order; memory is not
    copied, and channels-last tensors give channels-last ones.  An integer tensor's output carries
    no derivative, as always in torch: `grid_sample_vjp` has the grid's gradient.  A fill value has
    none.

    Args:
        input: the image, (N, C, *spatial) with 1 to 3 spatial axes; bool, any integer type,
            float16 to float64, complex64 or complex128; any strides and byte order.  It is never
            changed.
        grid: where to sample, (N, *out, D) for D spatial axes, float16 to float64.  The last axis
            holds x, y, z; x runs along the *last* spatial axis.  ``out`` may have any rank.  N may
            be 1 here or in the input, and is then broadcast.  A NaN coordinate gives NaN, or the
            fill value in an integer image.  With coords="pixel" it may hold integers, which count
            as float32 (8 and 16 bits) or float64 and have no gradient.
        mode: how pixels are weighed: "nearest" (ties to even), "bilinear" (also "linear",
            "trilinear"), "bicubic" (also "cubic", "tricubic": Keys, a = -0.75), or any other of
            `gridsample.methods.names()`, in every rank; or a `gridsample.methods.Method`; or a
            tuple, one for each axis in x, y, z order.
        padding_mode: what is outside: "zeros", "constant" (``fill_value``), "border" (the edge
            pixel), "reflection" (mirrored about what -1 and 1 stand for), "symmetric" (mirrored,
            with the edge pixel twice), "mirror" (with it once), "wrap" (repeated), "antisymmetric",
            "antimirror" or "dst1" (mirrored with the opposite sign, about the outer edges, the edge
            pixels, or zeros beside the image); or a tuple, one for each axis.
        align_corners: what -1 and 1 mean, see above.
        coords: what coordinates count: "normalized", from -1 to 1; "pixel", pixels from the centre
            of the first; or "displacement", pixels from the output's own place, where a grid of
            zeros is the identity and ``out`` has as many axes as the image.
        fill_value: what is outside under "constant" and with extrapolate=False: a number, or one
            for each channel; complex only for a complex image; for tensors exact in float64.
        extrapolate: False to give the fill value wherever the position itself is outside the image,
            which ends at the outermost pixels' centres, or at their outer edges where -1 and 1 are
            those.
        prefilter: whether "spline2" to "spline7" first make B-spline coefficients of the image, so
            that the spline passes through its pixels (`spline_filter`); False where the input holds
            such coefficients already.
        return_mask: whether to return the share of each point's weight that fell on the image too.
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C) and
            (N, *out, C).
        out: an array to put the result in, of its shape and dtype, apart from the inputs; tensors
            get a new tensor.
        threads: how many threads to use at most; None for one a core, or as many as torch uses
            for tensors.  The result does not depend on it.

    Returns:
        (N, C, *out), with the input's dtype.  Integers are rounded half to even and saturate.

        With return_mask=True that and the mask, (N of the grid, 1, *out), float32 or float64: what
        an image of ones among zeros would give without the prefilter, whatever the padding_mode is;
        0 where a coordinate is NaN.

    Raises:
        TypeError: a dtype, or an option of a type, that is not accepted.
        ValueError: shapes that do not go together, a name that is unknown or ambiguous, or a fill
            value other than 0 that nothing uses.

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
    """Both gradients of `grid_sample`: the vector-Jacobian product with ``grad_output``.

    With pixels v and weights w of a sample's taps, and g its upstream gradient,

        grad_input: g * w is added to each tap's pixel, the exact transpose of sampling;
        grad_grid: g * sum of v * (w with one axis's factor differentiated) * d position / d
            coordinate, summed over the channels.

    d position / d coordinate is size / 2 or (size - 1) / 2, or 1 where coordinates count pixels,
    times the sign of the boundary's fold, and 0 where the boundary clamps.  "nearest" has a zero
    gradient in the grid.  For a complex image, grad_grid is the real part of conj(g) times the
    above.  Where the image is filtered first, v are the coefficients, and the transpose of the
    filter ends in grad_input.

    Args:
        grad_output: upstream gradient, of the output's shape; floating, or complex for a complex
            input.
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.  A point with a NaN coordinate adds nothing to
            grad_input and its grad_grid is 0.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        coords: as in `grid_sample`; grad_grid is in the units of the grid.
        fill_value: as in `grid_sample`.
        extrapolate: as in `grid_sample`.
        prefilter: as in `grid_sample`.
        need_input: whether to compute grad_input; an integer input has none.
        need_grid: whether to compute grad_grid.
        channel_axis: as in `grid_sample`; it holds for grad_output and grad_input too.
        threads: as in `grid_sample`; gradients are the same bit for bit, whatever it is.

    Returns:
        (grad_input, grad_grid), with the shapes and dtypes of input and grid; None for one not
        needed.  Where N was broadcast, the gradient is the sum.

    Raises:
        TypeError: as `grid_sample`, or the gradient of an integer input is asked for.
        ValueError: as `grid_sample`, or grad_output has not the output's shape.

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
    """The gradient of a sampled image at the coordinates of a grid: its slope along each of them.

    The derivative of `grid_sample`'s sum along a coordinate is the same sum with that axis's
    weights differentiated:

        out[n, c, point, k] = d grid_sample(input, grid)[n, c, point] / d grid[n, point, k]

    per unit of the coordinate: times 2 / size (2 / (size - 1) with align_corners) it is per pixel,
    which is what it is with coords="pixel" or "displacement".

    Args:
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.
        mode: as in `grid_sample`; the gradient of "nearest" is 0.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        coords: as in `grid_sample`.
        fill_value: as in `grid_sample`.
        extrapolate: as in `grid_sample`; the gradient of the fill value is 0.
        prefilter: as in `grid_sample`.
        channel_axis: as in `grid_sample`; the axes x, y, z come after the channels.
        threads: as in `grid_sample`.

    Returns:
        (N, C, *out, D), or (N, *out, C, D) for channel_axis=-1; the last axis in x, y, z order.
        Its dtype is NumPy's, or torch's, for the product of an entry of input and one of grid.  It
        is 0 where a coordinate is NaN.

    Raises:
        TypeError: as `grid_sample`.
        ValueError: as `grid_sample`.

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
    """The second derivatives of a sampled image at the coordinates of a grid.

        out[n, c, point, j, k] =
            d^2 grid_sample(input, grid)[n, c, point] / d grid[n, point, j] d grid[n, point, k]

    per unit of both coordinates: see `grid_gradient`.  It is symmetric in j and k.  Of "linear"
    only what mixes axes is not 0.

    Args:
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        coords: as in `grid_sample`.
        fill_value: as in `grid_sample`.
        extrapolate: as in `grid_sample`.
        prefilter: as in `grid_sample`.
        channel_axis: as in `grid_gradient`.
        threads: as in `grid_sample`.

    Returns:
        (N, C, *out, D, D), or (N, *out, C, D, D) for channel_axis=-1; otherwise as `grid_gradient`.

    Raises:
        TypeError: as `grid_gradient`.
        ValueError: as `grid_sample`.

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

    Each value goes to the pixels that `grid_sample` would read at its point, times their weights:

        out[n, c, pixel] = sum over points of weight(point, pixel) * values[n, c, point]

    so that sum(splat(v, grid, size) * image) = sum(v * grid_sample(image, grid)) for every image of
    the size, with the same options and the fill value 0.  Where `grid_sample` filters the image
    first, the transpose of that filter comes last here.  It is also called scattering, or a push.

    Args:
        values: (N, C, *out); bool, any integer type, float16 to float64, complex64 or complex128;
            a tensor may be bfloat16 too, and has derivatives.
        grid: where they go, (N, *out, D), as in `grid_sample`; N may be 1 here or in the values,
            and is then broadcast.  A point with a NaN coordinate adds nothing.
        size: the spatial shape of the result, such as (height, width); a number for one axis.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`: where values outside go.  Under "zeros" and "constant"
            they are lost.
        align_corners: as in `grid_sample`.
        coords: as in `grid_sample`.
        extrapolate: False to lose the values whose position itself is outside.
        prefilter: as in `grid_sample`; False adds to the coefficients of a spline.
        normalize: whether to divide by `splat_count`, where that is not 0, so that equal values
            give just that value.
        channel_axis: 1, or -1 for channels-last values and result, (N, *out, C) and (N, *size, C).
        threads: as in `grid_sample`; the result is the same bit for bit, whatever it is.

    Returns:
        (N, C, *size), with the dtype of the values; float32 for bool and integers of 8 and 16 bits,
        float64 for other integers.

    Raises:
        TypeError: a dtype, or an option of a type, that is not accepted.
        ValueError: shapes that do not go together, or a name that is unknown or ambiguous.

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
    """How much weight falls on each pixel of an image: the `splat` of ones.

        out[n, 0, pixel] = sum over points of weight(point, pixel)

    Args:
        grid: where the points are, (N, *out, D), as in `grid_sample`.
        size: the spatial shape of the result, as in `splat`.
        mode: as in `grid_sample`.
        padding_mode: as in `splat`.
        align_corners: as in `grid_sample`.
        coords: as in `grid_sample`.
        extrapolate: as in `splat`.
        prefilter: as in `splat`.
        channel_axis: 1, or -1 for (N, *size, 1).
        threads: as in `grid_sample`.

    Returns:
        (N, 1, *size), float64 for a grid of float64 and float32 for others.

    Raises:
        TypeError: as `splat`.
        ValueError: as `splat`.

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
