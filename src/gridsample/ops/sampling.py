"""Sampling at the coordinates of a grid, and its gradients, for every array library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack, overload

from gridsample.backends import Backend, backend_of, is_traced, operation
from gridsample.backends.base import Gradients, Needed, prepared_call
from gridsample.definitions.arrays import AnyArray, ArrayT, Fill
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import CONTINUE, Extrapolate
from gridsample.definitions.dtypes import check_grid_gradient
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.keywords import GridKeywords
from gridsample.definitions.knots import Coords
from gridsample.definitions.labels import without_labels
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MissingName
from gridsample.definitions.options import Options
from gridsample.definitions.request import NO_FILL, Request, is_default_fill, sampling_request
from gridsample.definitions.shapes import Shape
from gridsample.ops import means
from gridsample.ops.arrays import (
    Array,
    back,
    check_differentiable,
    check_upstream,
    filtered,
    named_arrays,
    out_shape,
    planes,
    sum_type,
)
from gridsample.ops.missing import CountingRule, as_rule
from gridsample.ops.misuse import check_use
from gridsample.ops.points import SamplePoints, gradients_at, points_of


def repeat(
    backend: Backend,
    request: Request,
    input: Any,
    grid: Any,
    *,
    fill_value: Any = NO_FILL,
    weights: Any = None,
    out: Any = None,
) -> Any:
    """Compute `grid_sample` by a prepared call; None if there is none.

    ``request`` is `shared`, and the fill value is not in it.
    """
    filled = fill_value is not NO_FILL and not is_default_fill(fill_value)
    call = None
    if weights is None:
        call = prepared_call(backend, request, backend.layouts(input, grid), None, filled)
    if call is None or not (out is None or call.stores_into(out, input, grid)):
        return None
    if not call.checked:
        call.checked = check_use(backend, input, grid, request)
    return call.run(input, grid, fill_value=fill_value, out=out)


def run_grid_sample(
    request: Request, *, input: Any, grid: Any, weights: Any = None, out: Any = None
) -> Any:
    """Compute the result of `grid_sample`."""
    arrays = named_arrays(weights, input=input, grid=grid)
    backend = backend_of(**arrays)
    masked = check_flag(request.return_mask, "return_mask")
    rule = as_rule(request, weights, request.padding_mode)
    if rule is None and not masked and out is None:
        sampled = backend.by_library(input, grid, request)
        if sampled is not None:
            check_use(backend, input, grid, request)
            return sampled
    check_use(backend, input, grid, request)
    return sample(backend, arrays, request, rule, masked=masked, out=out)


@overload
def grid_sample(
    input: ArrayT,
    grid: ArrayT,
    mode: Mode = ...,
    padding_mode: Padding = ...,
    align_corners: bool = ...,
    *,
    return_mask: Literal[False] = ...,
    return_weight: Literal[False] = ...,
    **options: Unpack[GridKeywords],
) -> ArrayT: ...
@overload
def grid_sample(
    input: ArrayT,
    grid: ArrayT,
    mode: Mode = ...,
    padding_mode: Padding = ...,
    align_corners: bool = ...,
    *,
    return_mask: bool = ...,
    return_weight: bool = ...,
    **options: Unpack[GridKeywords],
) -> Any: ...
@operation(run_grid_sample, arrays=2, shortcut=repeat)
def grid_sample(
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
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    return_mask: bool = False,
    return_weight: bool = False,
    channel_axis: int = 1,
    out: AnyArray | None = None,
    threads: int | None = None,
) -> ArrayT:
    """Sample an image at the coordinates of a grid.

    Every output pixel is a weighted sum of the input's pixels (the taps) around one position.  All
    channels use the same taps.  Along each axis, a coordinate x has the position, in pixels,

        (x + 1) / 2 * (size - 1)     align_corners=True: -1 and 1 are the corner pixels' centres
        ((x + 1) * size - 1) / 2     align_corners=False: they are the corner pixels' outer edges
        x                            coords="pixel"
        x + i                        coords="displacement", at the output's index i along the axis

    or, if the pixels along the axis have coordinates a[0], a[1], ... of their own, as those of
    tables do, i + (x - a[i]) / (a[i + 1] - a[i]), where x is between the two.

    The results are those of `torch.nn.functional.grid_sample` wherever it supports the call.  Those
    of tensors have derivatives of any order, except by the fill value.  `gridsample.help()` lists
    the options and values that have a page, and `gridsample.help("missing")` prints one.

    Args:
        input: the image, (N, C, *spatial) with 1 to 8 spatial axes; bool, any integer dtype,
            float16 to float64, bfloat16 in torch and JAX, complex64 or complex128; any strides and
            byte order.  It is never modified.
        grid: the coordinates, (N, *out, D) for D spatial axes, float16 to float64.  The last axis
            holds x, y, z, where x runs along the *last* spatial axis.  ``out`` may have any rank.
            If N is 1 here or in the input, it is broadcast.  A NaN coordinate gives NaN, or the
            fill value for an integer image.  With coords="pixel", integers are accepted, too.
        mode: the interpolation method: "nearest" (ties to even), "bilinear" (also "linear",
            "trilinear"), "bicubic" (also "cubic", "tricubic": Keys, a = -0.75), or any other of
            `gridsample.methods.names()`, for every number of axes; "label" for images of bool or
            integer labels, whose taps vote; a `gridsample.methods.Method`; or a tuple with one per
            axis, in x, y, z order.
        padding_mode: the boundary, which determines the values outside the image: "zeros",
            "constant" (``fill_value``), "border" (the edge pixel), "reflection" (mirrored about the
            points -1 and 1), "symmetric" (mirrored, repeating the edge pixel), "mirror" (mirrored
            without repeating it), "wrap" (periodic), "missing" (not counted); "antisymmetric",
            "antimirror" or "dst1", which mirror and change the sign; or a tuple with one per axis.
        align_corners: the meaning of -1 and 1, see above.
        coords: the units of coordinates: "normalized", from -1 to 1; "pixel", pixels from the
            centre of the first pixel; "displacement", pixels from the output's own position, for
            which ``out`` has as many axes as the image; or a tuple with an entry for each axis, in
            x, y, z order: the coordinates of its pixels, a 1-D array that increases or decreases
            at any distances, or "normalized" or "pixel".  `Axes` checks such entries once for many
            calls.  Positions outside the image are counted on in the widths of the first and the
            last interval; the boundary applies to them.  Where distances are not
            equal, methods read one pixel or two along the axis.
        fill_value: the value outside for "constant" and extrapolate=False: a number, or one per
            channel; complex only for a complex image.  In integer images, it is rounded and
            saturates, as results do, and NaN is 0.
        extrapolate: whether to extend the image by the boundary.  With "edges" or "centers", every
            position beyond the outer edges, or the centres, of the outermost pixels gives the fill
            value; False means "edges" if coordinates are normalized with align_corners=False, and
            "centers" otherwise.  With "continue", the first and the last interval between pixels
            continue instead, as SciPy's fill_value=None does; for linear and one-pixel methods,
            the latter of which give the pixel at the edge.  Or a tuple with one per axis: a
            position beyond an end along any axis gives the fill value.
        prefilter: whether "spline2" to "spline7" first compute B-spline coefficients from the
            image, so that the spline passes through the pixels (`spline_filter`).  Set it to False
            if the input already holds such coefficients.
        antialias: whether a result is the mean over its point's footprint, the parallelogram that
            the differences to its neighbours in the grid span, so that no pixel is skipped where
            the grid shrinks the image.  ``out`` then has as many axes as the image, 1 to 3.
        max_samples: the maximum number of samples along a side of a footprint, 1 to 64.
        footprint: "attach" for the exact gradient of the grid, in which the sides of footprints
            move with their grid points, or "detach" to treat them as constants.
        missing: "propagate" makes every result that reads a NaN pixel NaN, "ignore" takes the mean
            of the other pixels, sum(w m v) / sum(w m) for taps of weights w and values v, where m
            is the pixel's entry in ``weights``, or 0 if it is NaN.
        weights: how much each pixel counts, m above: (N or 1, C or 1, *spatial), or with the
            channels last for channel_axis=-1; finite, non-negative numbers of any real dtype, or
            bool.
        min_weight: a result is missing, NaN or the fill value, unless more than this share of its
            weight, from 0 to below 1, falls on pixels that count.
        return_mask: whether to also return the share of each point's weight that is on the image.
        return_weight: whether to also return the weight of each result, sum(w m) above.
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C) and
            (N, *out, C).
        out: an array for the result, with its shape and dtype, which shares no memory with the
            inputs.  It is not supported for tensors.
        threads: the maximum number of threads; None for one per core or, for tensors, torch's
            number of threads.  The result does not depend on it.

    Returns:
        (N, C, *out), with the input's dtype.  Integers are rounded half to even and saturate.

        With return_mask=True, a tuple of that and the mask, (N of the grid, 1, *out), float32 or
        float64: the sample of an image of ones surrounded by zeros.  With return_weight=True, the
        last entry of the tuple is the weight, (N, C, *out).

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: shapes do not match, a name is unknown, a number is out of range, or options
            exclude each other or have no effect.  The message names the argument, its value, and
            what is accepted.

    Warns:
        MisuseWarning: the call is probably a mistake; see `gridsample.MisuseWarning`.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> grid = np.array([[[[0.0, 0.0], [-0.5, -0.5], [1.0, 0.5]]]])
        >>> gridsample.grid_sample(image, grid)  # the middle, a pixel's centre, half outside
        array([[[[15.,  0., 15.]]]])
        >>> gridsample.grid_sample(image, grid, padding_mode="border")
        array([[[[15.,  0., 30.]]]])
        >>> image[0, 0, 0, 0] = np.nan
        >>> gridsample.grid_sample(image, grid, missing="ignore")  # the mean of 10, 20 and 30
        array([[[[20., nan, 15.]]]])
        >>> pressure, table = np.array([1000.0, 850.0, 500.0]), np.array([[[15.0, 5.0, -20.0]]])
        >>> gridsample.grid_sample(table, np.array([[[700.0]]]), coords=(pressure,))
        array([[[-5.71428571]]])
        >>> tissue = np.array([[[[3, 3], [3, 9]]]])
        >>> gridsample.grid_sample(tissue, np.array([[[0.6, 0.6]]]), "label", coords="pixel")
        array([[[3]]])
        >>> stripes = np.array([[[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]])
        >>> coarse = np.array([[[0.5], [2.5], [4.5]]])  # steps of two pixels
        >>> gridsample.grid_sample(stripes, coarse, "nearest", coords="pixel", antialias=True)
        array([[[0.5, 0.5, 0.5]]])
    """


def run_grid_sample_vjp(
    request: Request,
    *,
    need_input: bool,
    need_grid: bool,
    need_weights: bool,
    weights: Any = None,
    **arrays: Any,
) -> tuple[Any, ...]:
    """Compute the result of `grid_sample_vjp`."""
    flags = {"need_input": need_input, "need_grid": need_grid, "need_weights": need_weights}
    rule = as_rule(request, weights, request.padding_mode)
    return sample_vjp(named_arrays(weights, **arrays), request, rule, flags)


@operation(run_grid_sample_vjp, arrays=3)
def grid_sample_vjp(
    grad_output: ArrayT,
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
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    need_input: bool = True,
    need_grid: bool = True,
    need_weights: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute both gradients of `grid_sample`: the vector-Jacobian product with ``grad_output``.

    Let v be the pixels and w the weights of a sample's taps, and g its upstream gradient.  Then

        grad_input: g * w is added to each tap's pixel, the exact transpose of sampling;
        grad_grid: g * sum of v * (w with one axis's factor differentiated) * d position / d
            coordinate, summed over the channels.

    d position / d coordinate is size / 2 or (size - 1) / 2, or 1 for coordinates in pixels, times
    the sign of the boundary's fold; it is 0 where the boundary clamps.  The grid's gradient is zero
    for "nearest" and "label".  For a complex image, grad_grid is the real part of conj(g) times the
    above.  If the image is prefiltered, v are the coefficients, and the transpose of the filter is
    applied to grad_input.

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.  A point with a NaN coordinate contributes
            nothing to grad_input, and its grad_grid is 0.
        coords: the units of coordinates, as in `grid_sample`; grad_grid is per unit.
        missing: "propagate" or "ignore", as in `grid_sample`.  A missing pixel has the gradient 0.
        mode, padding_mode, align_corners, fill_value, extrapolate, prefilter, antialias,
            max_samples, footprint, weights: as in `grid_sample`.
        min_weight: the least share of weights, as in `grid_sample`.  A missing result contributes
            nothing to any gradient.
        need_input: whether to compute grad_input; an integer input has none.
        need_grid: whether to compute grad_grid.
        need_weights: whether to compute grad_weights, if there are weights.
        channel_axis: 1 or -1, as in `grid_sample`; it also applies to grad_output and grad_input.
        threads: the maximum number of threads, as in `grid_sample`.  The gradients are bitwise
            identical for every number.

    Returns:
        (grad_input, grad_grid), with the shapes and dtypes of input and grid; None for a gradient
        that is not needed.  If N was broadcast, the gradient is the sum.  If weights are given,
        (grad_input, grad_grid, grad_weights), the last with the shape of the weights, in their
        dtype, or that of the sums if they are not floating-point.

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


# Over a backend -----------------------------------------------------------------------------------


def sample(
    backend: Backend,
    arrays: Mapping[str, Any],
    request: Request,
    rule: CountingRule | None,
    *,
    size: Shape | None = None,
    masked: bool = False,
    out: Any = None,
) -> Any:
    """Compute the result of `grid_sample` or `affine_sample`.

    Args:
        backend: the backend.
        arrays: input, grid or theta, and weights if there are any, by name and in this order.
        request: the options of sampling, as the caller gave them.
        rule: the rule for missing pixels and weights, or None.
        size: the output's shape (N, C, *out) for affine maps; None for a grid.
        masked: whether the mask is also returned.
        out: an array for the result, or None.
    """
    image, array, *weights = backend.to_device(**arrays)
    points = points_of(backend, array, request.coords, size)
    if rule is None:
        result, resolved = unweighted_sample(points, image, request, out)
        weight = None
    else:
        mean = means.sample(points, image, weights[0] if weights else None, request, rule)
        result, weight, resolved = mean
        if out is not None:
            result = back(backend, result, resolved.channels_last())
            backend.check_out(out, backend.shape(result), image, points.array)
            out[...] = result
    last, like = resolved.channel_axis == -1, arrays["input"]
    result = out if out is not None else backend.restore(back(backend, result, last), like)
    if not masked and weight is None:
        return result
    results = [result]
    if masked:
        mask = share_inside(points, planes(backend, image, last), resolved)
        results.append(backend.restore(mask, like))
    if weight is not None:
        results.append(backend.restore(back(backend, weight, last), like))
    return tuple(results)


def sample_at_pixels(
    image: Array, grid: Array, *, out: Any = None, wide: bool = False, **options: Any
) -> Any:
    """Compute `grid_sample` for the drop-ins of other libraries, whose calls are no misuse.

    Args:
        image: the image.
        grid: the grid; its coordinates are in pixels unless ``options`` say otherwise.
        out: as in `grid_sample`.
        wide: whether to compute in float64, whatever the dtypes of the image and the grid.
        options: fields of `Request`.
    """
    options = {"coords": "pixel", "wide": wide, **options}
    fill_value = options.pop("fill_value", 0)
    arrays = {"input": image, "grid": grid}
    # A compiler cannot follow caches.
    backend, known = backend_of(**arrays), None if is_traced() else sampling_request(**options)
    if known is not None:
        return sample_as_known(backend, image, grid, known, fill_value, out)
    return sample(backend, arrays, Request(fill_value=fill_value, **options), None, out=out)


def sample_as_known(
    backend: Backend,
    image: Array,
    grid: Array,
    request: Request,
    fill_value: Any = 0,
    out: Any = None,
) -> Any:
    """Compute the result of `sample_at_pixels` for a request of `sampling_request`."""
    filled = not is_default_fill(fill_value)
    call = prepared_call(backend, request, backend.layouts(image, grid), None, filled)
    if call is not None and (out is None or call.stores_into(out, image, grid)):
        return call.run(image, grid, fill_value=fill_value, out=out)
    arrays = {"input": image, "grid": grid}
    return sample(backend, arrays, request.changed(fill_value=fill_value), None, out=out)


def unweighted_sample(
    points: SamplePoints, image: Array, request: Request, out: Any = None
) -> tuple[Array, Options]:
    """Sample an image of which all pixels count: (N, C, *out), and the checked options."""
    backend = points.backend
    resolved = points.resolve_options(image, request)
    last = resolved.channel_axis == -1
    if out is not None:
        shape = out_shape(backend.shape(image), points.shape(), last)
        backend.check_out(out, shape, image, points.array)
        out = planes(backend, out, last)
    source = planes(backend, image, last)
    if resolved.prefilter:
        source = filtered(backend, source, points.array, resolved)
    return points.gather(source, resolved, image.dtype, out), resolved


def share_inside(points: SamplePoints, image: Array, options: Options) -> Array:
    """Compute the mask: a sample of an image of ones surrounded by zeros."""
    backend = points.backend
    dtype = sum_type(backend, image, points.array)
    mode = without_labels(options.mode, "linear")
    ends = options.ends or (True,) * len(mode)
    # Where intervals continue, all taps are in the image.
    outside = tuple(["border" if end == CONTINUE else "constant" for end in ends])
    ends = tuple([True if end == CONTINUE else end for end in ends])
    options = options.changed(mode=mode, padding_mode=outside, fill_value=(), ends=ends)
    ones = backend.full((1, 1, *image.shape[2:]), 1, dtype, image)
    mask = points.gather(ones, options, dtype)
    mask = backend.xp.where(backend.xp.isnan(mask), 0, mask)  # NaN coordinates
    return back(backend, mask, options.channel_axis == -1)


def sample_vjp(
    arrays: Mapping[str, Any],
    request: Request,
    rule: CountingRule | None,
    flags: Mapping[str, Any],
    size: Shape | None = None,
) -> tuple[Any, ...]:
    """Compute the result of `grid_sample_vjp` or `affine_sample_vjp`.

    Args:
        arrays: grad_output, and those of `sample`, by name and in this order.
        request: the options of sampling, as the caller gave them.
        rule: the rule for missing pixels and weights, or None.
        flags: whether the gradients of the image, the points and the weights are needed, by the
            names of the arguments.
        size: the output's shape (N, C, *out) for affine maps; None for a grid.

    Returns:
        The gradients of the image, of the points, and of the weights if there are any, like the
        arguments; None in place of those that are not needed.
    """
    backend = backend_of(**arrays)
    needed = tuple([check_flag(flag, name) for name, flag in flags.items()])
    upstream, image, array, *weights = backend.to_device(**arrays)
    points = points_of(backend, array, request.coords, size)
    check_grid_gradient(array.dtype, needed[1] and points.array is not array)
    gradients: Gradients
    if rule is None:
        gradients = unweighted_vjp(points, upstream, image, request, needed[:2])
    else:
        weighted = weights[0] if weights else None
        gradients = means.sample_vjp(points, upstream, image, weighted, request, rule, needed)
    _, *likes = arrays.values()
    return tuple(
        backend.restore(gradient, like) for gradient, like in zip(gradients, likes, strict=False)
    )


def unweighted_vjp(
    points: SamplePoints, upstream: Array, image: Array, request: Request, needed: Needed
) -> Gradients:
    """Compute the gradients of image and points, in the caller's layout, if all pixels count."""
    backend = points.backend
    resolved = points.resolve_options(image, request)
    last = resolved.channel_axis == -1
    shape = out_shape(backend.shape(image), points.shape(), last)
    upstream = check_upstream(backend, upstream, image, shape)
    if needed[0]:
        check_differentiable(backend, image)
    values, pixels = planes(backend, upstream, last), planes(backend, image, last)
    first, second = gradients_at(points, values, pixels, resolved, needed)
    return None if first is None else back(backend, first, last), second
