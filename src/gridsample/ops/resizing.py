"""Resizing: sampling on a regular grid, one axis after the other.

Resizing along an axis is a product with a matrix (`tables`), and the kernels apply one matrix after
the other (`kernels.resize`).  Resizing is linear in the image, so its gradient is the same
operation with the transposed matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of, is_traced, operation
from gridsample.backends.base import PreparedCall, prepared_call
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag
from gridsample.definitions.labels import check_labels, refuse_labels
from gridsample.definitions.methods import ResizingMode
from gridsample.definitions.names import MissingName
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest, changed, shared
from gridsample.definitions.resizing import (
    Sizes,
    check_image,
    check_scales,
    check_size,
    checked_resizing,
)
from gridsample.ops import resized_means
from gridsample.ops.arrays import back, is_differentiable, named_arrays, planes
from gridsample.ops.missing import as_rule
from gridsample.ops.misuse import check_layout, has_channels_last, is_photo

Factor = float | Sequence[float]

# The types of sizes and factors that prepared calls are found by.
NUMBERS = {int, float, np.int64, np.float64, type(None)}


def plan_resizing(
    spatial: Sequence[int],
    size: Any,
    scale_factor: Any,
    request: ResizeRequest,
    last: bool = False,
) -> Resizing:
    """Validate a call for an image of a spatial shape; see `checked_resizing`."""
    rank = len(spatial)
    outputs = None if size is None else check_size(size, rank)
    scales = None if scale_factor is None else check_scales(scale_factor, rank)
    # In a trace, sizes may be tensors or symbols, and compilers see through no cache.
    known = None if is_traced() or not all([type(n) is int for n in spatial]) else shared(request)
    check = checked_resizing if known is None else kept_resizing
    return check(tuple(spatial), outputs, scales, known or request, last)


kept_resizing = functools.lru_cache(maxsize=1024)(checked_resizing)


def repeat(
    backend: Backend,
    request: ResizeRequest,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    *,
    weights: Any = None,
) -> Any:
    """Compute `interpolate` by a prepared call; None if there is none.  ``request`` is `shared`."""
    call = None
    if weights is None:
        call = prepared_resizing(backend, request, input, size, scale_factor)
    if call is None:
        return None
    if not call.checked:
        call.checked = not (has_channels_last(input.shape) or is_photo(input.shape))
        check_layout(backend, input, backend.shape(input), False)
    return call.run(input)


def prepared_resizing(
    backend: Backend, request: ResizeRequest, input: Any, size: Any, scale_factor: Any
) -> PreparedCall | None:
    """Return the prepared call of `interpolate` for an image, or None; ``request`` is `shared`."""
    size = tuple(size) if type(size) is list else size
    scale_factor = tuple(scale_factor) if type(scale_factor) is list else scale_factor
    sizes = size if type(size) is tuple else (size,)
    factors = scale_factor if type(scale_factor) is tuple else (scale_factor,)
    types = tuple(map(type, (*sizes, *factors)))
    if not NUMBERS.issuperset(types):
        return None
    layouts = backend.layouts(input)
    return prepared_call(backend, request, layouts, Sizes(size, scale_factor, types))


def run_interpolate(
    request: ResizeRequest, *, input: Any, size: Any, scale_factor: Any, weights: Any = None
) -> Any:
    """Compute the result of `interpolate`."""
    rule = as_rule(request, weights)
    arrays = named_arrays(weights, input=input)
    backend = backend_of(**arrays)
    image, *others = backend.asarrays(**arrays)
    shape = backend.shape(image)
    last = check_image(shape, request.channel_axis, request.threads)
    check_layout(backend, image, shape, last)
    pixels = planes(backend, image, last)
    resizing = plan_resizing(pixels.shape[2:], size, scale_factor, request, last)
    name = backend.type_name(image.dtype)
    integer = name == "bool" or name.startswith(("int", "uint"))
    check_labels(resizing.methods[::-1], image.dtype, integer)
    if rule is None:
        return backend.restore(back(backend, backend.resize(pixels, resizing, False), last), input)
    means = resized_means.resize(backend, image, others[0] if others else None, resizing, rule)
    results = [
        backend.restore(back(backend, array, last), input) for array in means if array is not None
    ]
    return tuple(results) if rule.weighted else results[0]


@operation(run_interpolate, arrays=1, record=ResizeRequest, shortcut=repeat)
def interpolate(
    input: ArrayT,
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: ResizingMode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    rounding: str = "exact",
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Resize an image to a size or by a factor.

    The arguments are those of `torch.nn.functional.interpolate`, and the results are the same
    wherever it supports the call.  The step is the distance between two outputs in input pixels.
    Output i has the position

        i * (inputs - 1) / (outputs - 1)       align_corners=True
        (i + 1/2) * step - 1/2                 align_corners=False; the step is inputs / outputs,
                                               or 1 / scale_factor if that is given

    and is a weighted sum of the pixels around that, along one axis after the other.  The method
    determines the weights.  Every mode of `grid_sample` is accepted, and also "area", "gaussian"
    and "nearest-exact".  If s is the distance of a pixel from the position along an axis:

    ========================  ==================================================================
    "nearest"                 pixel floor(i * step), as in PyTorch
    "nearest-exact"           pixel floor((i + 1/2) * step)
    "linear"                  1 - s; also "bilinear", "trilinear"
    "cubic"                   Keys, a = -0.75 (antialiased -0.5); also "bicubic", "tricubic"
    "catmull-rom"             Keys, a = -0.5
    "mitchell"                Mitchell and Netravali, B = C = 1/3
    "lanczos2" to "lanczos4"  sinc(s) sinc(s / a), divided by the sum of all; "lanczos" has a = 3
    "spline2" to "spline7"    the spline through all pixels, mirrored at the ends:
                              `scipy.ndimage.zoom` with mode="reflect", grid_mode=True, and with
                              mode="mirror", grid_mode=False for align_corners=True
    "area"                    the mean of all pixels that the output pixel overlaps
    "gaussian"                exp(-2 s^2), divided by the sum of all
    "label"                   for labels, bool or integers: the value with the largest sum of the
                              weights of "linear"; the smallest value wins a tie
    ========================  ==================================================================

    Outside the image, all methods except splines repeat the edge pixel.  Without antialias, the
    result of any method other than "nearest", "nearest-exact", "area" and "gaussian" is therefore
    that of `grid_sample` at these positions with padding_mode="border" (for splines "symmetric", or
    "mirror" with align_corners=True).

    Every method works with any number of axes.

    With missing="ignore" or weights, a result is a weighted mean.  Let w be its weights, and m the
    entry of ``weights`` (1 if not given) of a pixel v, or 0 if the pixel is NaN and ignored.  Then

        out = sum(w m v) / sum(w m)

    and it is NaN (0 in integers) where sum(w m) is not above ``min_weight``.  Without NaN pixels
    and weights, the result is bitwise that of plain resizing.

    Args:
        input: the image, (N, C, *spatial) with 1 to 8 spatial axes; an array or a tensor of
            bool, any integer dtype, float16 to float64 (tensors also bfloat16), complex64 or
            complex128; any strides.  bool and integers are rounded and saturate.  uint8 images are
            summed in fixed point; the result is within 1 of the rounded exact result.
        size: the output's spatial shape, slowest axis first; a single number applies to all axes.
        scale_factor: outputs per input, a single number or one per axis, slowest first.  The size
            is then floor(inputs * scale_factor).
        mode: a name from the table, any other of `gridsample.methods.names()`, or a
            `gridsample.methods.Method`; or a tuple with one per axis, in x, y, z order.
        align_corners: whether the centres of the corner pixels stay in place, instead of their
            outer edges; None means False.  It has no meaning for nearest and area.
        recompute_scale_factor: whether the step follows from the sizes although scale_factor is
            given.
        antialias: whether the weights are stretched by the step where it exceeds 1, so that no
            pixels are skipped (as in Pillow).  "nearest" then computes the mean of a box; "label"
            gives a weighted majority; "area" needs no antialiasing.  A custom method can be
            stretched if its weights sum to one and depend only on the distance
            (`Method.stretches`).
        rounding: when integers are rounded.  "exact": once, at the end.  "pillow", "torch": after
            each axis, to integers within the range of the dtype (uint8: 0 to 255).  For uint8, the
            result then equals that of Pillow, or of PyTorch on the CPU, for the methods that they
            have.  Where a method overshoots, it can differ from the exact result by 60.  The two
            differ in the precision of their weights.  Also, Pillow (since 13) begins with the
            height if the image loses more than twice as many rows as columns, whereas PyTorch
            always begins with the width.  Floating-point images are not rounded.  On a GPU,
            PyTorch's own functions are used, which round once.
        missing: how NaN pixels are treated: "propagate" makes every result that reads one NaN,
            "ignore" takes the mean of the other pixels.
        weights: how much each pixel counts, (N or 1, C or 1, *spatial), in the layout of the input:
            finite, non-negative numbers of any real dtype, or bool.
        min_weight: a result is missing unless more than this share of its weight, from 0 to below
            1, falls on pixels that are not ignored.
        return_weight: whether to also return sum(w m).
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C).
        threads: the maximum number of threads; None for one per core or, for tensors, torch's
            number of threads.  The result does not depend on it.

    Returns:
        (N, C, *size), with the input's dtype.  With return_weight=True, a tuple of that and the
        weight of each result, of the same shape, float32 or float64.

    Raises:
        TypeError: a dtype or the type of an option is not accepted; "label" is given with an image
            that is not bool or integer.
        ValueError: a shape or size is not valid, options contradict each other, a name is unknown,
            a weight is negative or not finite, a spline would have to be prefiltered although
            pixels may be missing or weighted, or "label" is combined with a mode that blends.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 4.0], [8.0, 12.0]]]])
        >>> gridsample.interpolate(image, scale_factor=2, mode="bilinear")[0, 0]
        array([[ 0.,  1.,  3.,  4.],
               [ 2.,  3.,  5.,  6.],
               [ 6.,  7.,  9., 10.],
               [ 8.,  9., 11., 12.]])
        >>> gridsample.interpolate(image, size=(1, 2), mode="area")
        array([[[[4., 8.]]]])
        >>> image[0, 0, 0, 0] = np.nan
        >>> gridsample.interpolate(image, size=(1, 2), mode="area", missing="ignore")
        array([[[[8., 8.]]]])
    """


def run_interpolate_vjp(
    request: ResizeRequest,
    *,
    grad_output: Any,
    input: Any,
    size: Any,
    scale_factor: Any,
    weights: Any,
    need_input: bool,
    need_weights: bool,
) -> Any:
    """Compute the result of `interpolate_vjp`."""
    refuse_labels(request.mode, "labels have no gradient")
    rule = as_rule(request, weights)
    needed = check_flag(need_input, "need_input"), check_flag(need_weights, "need_weights")
    arrays = named_arrays(weights, input=input, grad_output=grad_output)
    backend = backend_of(**arrays)
    image, values, *others = backend.asarrays(**arrays)
    for name, array in (("input", image), ("grad_output", values)):
        if not is_differentiable(backend, array):
            raise TypeError(f"{name} has dtype {array.dtype}, which has no gradient")
    names = [backend.type_name(array.dtype) for array in (image, values)]
    if [name.startswith("complex") for name in names] == [False, True]:
        raise TypeError(f"grad_output has dtype {values.dtype}, but input is real: {image.dtype}")
    last = check_image(backend.shape(image), request.channel_axis, request.threads)
    check_image(backend.shape(values), request.channel_axis, request.threads)
    pixels, values = planes(backend, image, last), planes(backend, values, last)
    resizing = plan_resizing(pixels.shape[2:], size, scale_factor, request, last)
    check_upstream(values.shape, pixels.shape, resizing)
    if rule is None:
        if not needed[0]:
            return None
        resizing = changed(resizing, size=tuple(pixels.shape[2:]))
        result = backend.astype(backend.resize(values, resizing, True), image.dtype)
        return backend.restore(back(backend, result, last), input)
    gradients = resized_means.resize_vjp(
        backend, values, image, others[0] if others else None, resizing, rule, needed
    )
    restored = [
        backend.restore(None if gradient is None else back(backend, gradient, last), like)
        for gradient, like in zip(gradients, (input, weights), strict=True)
    ]
    return tuple(restored) if others else restored[0]


@operation(run_interpolate_vjp, arrays=2, record=ResizeRequest)
def interpolate_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: ResizingMode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    need_input: bool = True,
    need_weights: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Compute the gradient of `interpolate`: the vector-Jacobian product with ``grad_output``.

    Resizing is linear in the image, with one matrix per axis.  The gradient is the same operation
    with each matrix transposed: each input pixel receives the weighted sum of the outputs to which
    it contributed.  With missing pixels or weights, the quotient rule is applied first.

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `interpolate`; its values are only used if pixels may be missing or
            weighted.
        size: the output's spatial shape, as in `interpolate`.
        align_corners: whether the centres of the corner pixels stay in place, as in `interpolate`.
        missing: "propagate" or "ignore", as in `interpolate`.  A missing pixel has the gradient 0.
        need_input: whether to compute the gradient of the input.
        need_weights: whether to compute the gradient of the weights, if there are weights.
        channel_axis: 1 or -1, as in `interpolate`; it also applies to grad_output and the result.
        scale_factor, mode, recompute_scale_factor, antialias, weights, min_weight, threads: as in
            `interpolate`.

    Returns:
        The gradient, with the input's shape and dtype.  If weights are given, a tuple of that and
        the gradient of the weights, with their shape, in their dtype, or that of the sums if they
        are not floating-point; None for a gradient that is not needed.

    Raises:
        TypeError: an argument is not accepted by `interpolate`, or the dtype of the input or of
            grad_output has no gradient.
        ValueError: an argument is not accepted by `interpolate`, or grad_output does not have the
            output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.zeros((1, 1, 3))
        >>> gridsample.interpolate_vjp(np.ones((1, 1, 5)), image, 5, mode="linear")
        array([[[1.6, 1.8, 1.6]]])
    """


def check_upstream(values: Sequence[int], image: Sequence[int], resizing: Resizing) -> None:
    """Raise an error if an upstream gradient does not have the output's shape."""
    shape = (*image[:2], *resizing.size)
    if tuple(values) != shape:
        raise ValueError(
            f"grad_output must have the output's shape, {shape} with the channels first, "
            f"got {tuple(values)}"
        )
