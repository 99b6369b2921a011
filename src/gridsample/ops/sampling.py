"""Sampling at the coordinates of a grid, and both gradients of that, for every array library."""

from __future__ import annotations

from typing import Any

from gridsample.backends import Backend, backend_of, hand_over, is_overridden
from gridsample.definitions.options import Options
from gridsample.definitions.plan import Mode, check_flag, check_grid_gradient
from gridsample.ops.arrays import (
    Array,
    as_grid,
    back,
    check_differentiable,
    check_upstream,
    coefficient_type,
    filtered,
    out_shape,
    planes,
    sum_type,
)


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
        mode=mode, padding_mode=padding_mode, align_corners=align_corners, coords=coords,
        fill_value=fill_value, extrapolate=extrapolate, prefilter=prefilter,
        channel_axis=channel_axis, threads=threads,
    )  # fmt: skip
    backend = backend_of(input=input, grid=grid)
    masked = check_flag(return_mask, "return_mask")
    if out is None and not masked:
        found = backend.whole(input, grid, options)
        if found is not None:
            return found
    result, mask = sample(backend, input, grid, options, masked, out)
    return (result, mask) if masked else result


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
        mode=mode, padding_mode=padding_mode, align_corners=align_corners, coords=coords,
        fill_value=fill_value, extrapolate=extrapolate, prefilter=prefilter,
        channel_axis=channel_axis, threads=threads,
    )  # fmt: skip
    backend = backend_of(grad_output=grad_output, input=input, grid=grid)
    needed = check_flag(need_input, "need_input"), check_flag(need_grid, "need_grid")
    return sample_vjp(backend, grad_output, input, grid, options, needed)


# Over a backend -----------------------------------------------------------------------------------


def sample(
    backend: Backend, input: Any, grid: Any, options: Options, masked: bool, out: Any
) -> tuple[Any, Any]:
    """`grid_sample`, and the mask, or None."""
    image, points = backend.bring(input=input, grid=grid)
    points = as_grid(backend, points, options)
    how = backend.settle(image, points, options)
    last = how.channel_axis == -1
    if out is not None:
        shape = out_shape(backend.shape(image), backend.shape(points), last)
        backend.check_out(out, shape, image, points)
    pixels = planes(backend, image, last)
    source = filtered(backend, pixels, points, how) if how.prefilter else pixels
    if out is None:
        made = backend.gather(source, points, how, image.dtype)
        result = backend.give(back(backend, made, last), input)
    else:
        backend.gather(source, points, how, image.dtype, planes(backend, out, last))
        result = out
    mask = share_inside(backend, pixels, points, how) if masked else None
    return result, backend.give(mask, input)


def share_inside(backend: Backend, image: Array, grid: Array, how: Options) -> Array:
    """The share of each point's weight that is on the image: a sample of ones among zeros."""
    kind = sum_type(backend, image, grid)
    how = how.changed(padding_mode=("constant",) * len(how.mode), fill_value=())
    ones = backend.full((1, 1, *image.shape[2:]), 1, kind, image)
    mask = backend.gather(ones, grid, how, kind)
    mask = backend.xp.where(backend.xp.isnan(mask), 0, mask)  # a point that is nowhere
    return back(backend, mask, how.channel_axis == -1)


def sample_vjp(
    backend: Backend, grad_output: Any, input: Any, grid: Any, options: Options,
    needed: tuple[bool, bool],
) -> tuple[Any, Any]:  # fmt: skip
    """`grid_sample_vjp`."""
    upstream, image, given = backend.bring(grad_output=grad_output, input=input, grid=grid)
    points = as_grid(backend, given, options)
    check_grid_gradient(given.dtype, needed[1] and points is not given)
    how = backend.settle(image, points, options)
    last = how.channel_axis == -1
    shape = out_shape(backend.shape(image), backend.shape(points), last)
    upstream = check_upstream(backend, upstream, image, shape)
    if needed[0]:
        check_differentiable(backend, image)
    values, pixels = planes(backend, upstream, last), planes(backend, image, last)
    # The image's numbers matter to the grid's gradient alone.
    source = filtered(backend, pixels, points, how) if how.prefilter and needed[1] else pixels
    kind = coefficient_type(backend, image, points) if how.prefilter else image.dtype
    first, second = backend.backward(values, source, points, how, needed, kind)
    if first is not None and how.prefilter:
        first = filtered(backend, first, points, how, adjoint=True)
        first = backend.astype(first, image.dtype)
    if first is not None:
        first = back(backend, first, last)
    return backend.give(first, input), backend.give(second, grid)
