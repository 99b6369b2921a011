"""Conservative regridding: means over cells, weighted by how they overlap.

With w the measure of the overlap of an output cell with a cell of the image, v the value there, and
m how much it counts (0 where it is missing), a result is

    out = sum(w m v) / sum(w m)

What is outside of the image counts for nothing.  Overlaps are products over axes, so that both sums
are resizing along one axis after the other, by the bands of `definitions.cells`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gridsample.backends import Backend, backend_of, operation
from gridsample.backends.base import Gradients, Needed, concatenate
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import MISSING
from gridsample.definitions.cells import CellOverlaps
from gridsample.definitions.checks import check_flag
from gridsample.definitions.names import MissingName
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest, changed
from gridsample.definitions.resizing import check_image
from gridsample.definitions.shapes import Shape
from gridsample.definitions.tables import Window
from gridsample.ops.arrays import (
    Array,
    as_type_of,
    back,
    check_differentiable,
    check_upstream,
    exact_type,
    is_differentiable,
    named_arrays,
    part,
    planes,
    sum_type,
)
from gridsample.ops.missing import (
    CountingRule,
    as_image_type,
    as_rule,
    check_entries,
    check_weights,
    masked_planes,
)
from gridsample.ops.quotients import Mean, Quotient, divided, mean_gradients, repeat_weight
from gridsample.ops.resized_means import Resized
from gridsample.ops.resized_parts import resize_block


def run_regrid(request: ResizeRequest, *, input: Any, overlaps: Any, weights: Any = None) -> Any:
    """Compute the result of `regrid_conservative`."""
    rule = rule_of(request, weights)
    arrays = named_arrays(weights, input=input)
    backend = backend_of(**arrays)
    image, *others = backend.asarrays(**arrays)
    last = check_cells(backend, request, image, overlaps, others)
    resizing = resizing_of(request, overlaps, last)
    pixels, *counts = [
        in_order(backend.xp, planes(backend, array, last), overlaps) for array in (image, *others)
    ]
    mean = means_of(
        backend,
        pixels,
        counts[0] if counts else None,
        rule,
        lambda array: backend.resize(array, resizing, False),
        None if overlaps.covers else share_of(backend, pixels, overlaps.share()),
    )
    result = as_image_type(backend, mean.result, image.dtype, (0,))
    results = [result]
    if rule.weighted:
        results.append(repeat_weight(backend, mean.weight, result.shape))
    restored = [backend.restore(back(backend, array, last), input) for array in results]
    return tuple(restored) if rule.weighted else restored[0]


@operation(run_regrid, arrays=1, record=ResizeRequest)
def regrid_conservative(
    input: ArrayT,
    overlaps: CellOverlaps,
    *,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Compute the means of an image over the cells of another grid, along rectilinear axes.

    With w the measure of the overlap of an output cell with a cell of the image, v the value there,
    and m the entry of ``weights`` (1 if not given), or 0 if v is NaN and ignored,

        out = sum(w m v) / sum(w m)

    What is outside of the image counts for nothing.  Where output cells cover the image, the
    integral is preserved: the sum of the results, each times the measure of its cell and its weight
    (``return_weight``), is that of the image.  This is first-order conservative remapping (P. W.
    Jones, "First- and second-order conservative remapping schemes for grids in spherical
    coordinates", 1999).

    Args:
        input: the image, (N, C, *spatial) with 1 to 8 spatial axes; an array or a tensor of bool,
            any integer dtype, float16 to float64 (tensors also bfloat16), complex64 or complex128.
            bool and integers are rounded, as in `interpolate`.
        overlaps: the cells of the image and of the result.
        missing: how NaN pixels are treated: "propagate" makes every result that reads one NaN,
            "ignore" takes the mean of the other pixels.
        weights: how much each pixel counts, as in `interpolate`.
        min_weight: a result is missing (NaN, or 0 in integers) unless more than this share of its
            cell, from 0 to below 1, is covered by pixels that count.
        return_weight: whether to also return this share, sum(w m) divided by the measure of the
            cell.
        channel_axis, threads: as in `interpolate`.

    Returns:
        (N, C, *overlaps.shape), with the input's dtype.  With return_weight=True, a tuple of that
        and the weight of each result, of the same shape, float32 or float64.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: the shape of the image is not that of ``overlaps``, a name is unknown, or a
            weight is negative or not finite.

    Example:
        Ten pixels become four. `interpolate` with mode="area" takes whole pixels, as PyTorch does.

        >>> import numpy as np, gridsample
        >>> image = np.arange(10.0).reshape(1, 1, 10)
        >>> cells = gridsample.CellOverlaps([np.arange(11)], [np.linspace(0, 10, 5)])
        >>> gridsample.regrid_conservative(image, cells)
        array([[[0.8, 3.2, 5.8, 8.2]]])
        >>> gridsample.interpolate(image, 4, mode="area")
        array([[[1., 3., 6., 8.]]])
    """


def run_regrid_vjp(
    request: ResizeRequest,
    *,
    grad_output: Any,
    input: Any,
    overlaps: Any,
    weights: Any,
    need_input: bool,
    need_weights: bool,
) -> Any:
    """Compute the result of `regrid_conservative_vjp`."""
    rule = rule_of(request, weights)
    needed = check_flag(need_input, "need_input"), check_flag(need_weights, "need_weights")
    arrays = named_arrays(weights, input=input, grad_output=grad_output)
    backend = backend_of(**arrays)
    image, values, *others = backend.asarrays(**arrays)
    check_differentiable(backend, image)
    last = check_cells(backend, request, image, overlaps, others)
    shape = backend.shape(planes(backend, image, last))
    out = (*shape[:2], *overlaps.shape)
    caller = (out[0], *out[2:], out[1]) if last else out
    values = planes(backend, check_upstream(backend, values, image, caller), last)
    pixels, *counts = [
        in_order(backend.xp, planes(backend, array, last), overlaps) for array in (image, *others)
    ]
    gradients = gradients_of(
        backend,
        values,
        (pixels, counts[0] if counts else None),
        rule,
        resizing_of(request, overlaps, last),
        None if overlaps.covers else share_of(backend, pixels, overlaps.share()),
        needed,
    )
    restored = [
        backend.restore(
            None if gradient is None else given_order(backend, gradient, array, overlaps, last),
            like,
        )
        for gradient, array, like in zip(
            gradients, (image, *others), (input, weights), strict=False
        )
    ]
    return tuple(restored) if others else restored[0]


@operation(run_regrid_vjp, arrays=2, record=ResizeRequest)
def regrid_conservative_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    overlaps: CellOverlaps,
    *,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    need_input: bool = True,
    need_weights: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Compute the gradient of `regrid_conservative`: the vector-Jacobian product.

    Without missing pixels and weights, it is the transposed operator: each pixel receives the sum
    of the upstream values of the cells that it overlaps, weighted by its share of each.

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `regrid_conservative`.
        overlaps: the cells of the image and of the result.
        need_input: whether to compute the gradient of the input.
        need_weights: whether to compute the gradient of the weights, if there are weights.
        missing, weights, min_weight, channel_axis, threads: as in `regrid_conservative`.

    Returns:
        The gradient, with the input's shape and dtype, and if weights are given a tuple of that and
        the gradient of the weights; as in `interpolate_vjp`.

    Raises:
        TypeError, ValueError: as in `interpolate_vjp`.

    Example:
        >>> import numpy as np, gridsample
        >>> cells = gridsample.CellOverlaps([np.arange(4)], [np.linspace(0, 3, 3)])
        >>> gridsample.regrid_conservative_vjp(np.ones((1, 1, 2)), np.zeros((1, 1, 3)), cells)
        array([[[0.66666667, 0.66666667, 0.66666667]]])
    """


# Options ------------------------------------------------------------------------------------------


def rule_of(request: ResizeRequest, weights: Any) -> CountingRule:
    """Return the rule of a request: what is outside of the image counts for nothing."""
    rule = as_rule(request, weights, MISSING)
    assert rule is not None
    return rule


def resizing_of(request: ResizeRequest, overlaps: CellOverlaps, last: bool) -> Resizing:
    """Return the options by which an image is resized whose cells are in order."""
    return Resizing(
        size=overlaps.shape,
        methods=overlaps.means,
        align_corners=False,
        antialias=False,
        scales=(0.0,) * len(overlaps.shape),
        channel_axis=-1 if last else 1,
        threads=request.threads,
    )


def check_cells(
    backend: Backend, request: ResizeRequest, image: Array, overlaps: Any, others: Sequence[Array]
) -> bool:
    """Return whether channels come last, or raise an error if arrays do not match the cells."""
    if not isinstance(overlaps, CellOverlaps):
        raise TypeError(f"overlaps must be gridsample.CellOverlaps, got {type(overlaps).__name__}")
    shape = backend.shape(image)
    last = check_image(shape, request.channel_axis, request.threads)
    spatial = tuple(shape[1:-1] if last else shape[2:])
    if spatial != overlaps.source_shape:
        raise ValueError(
            f"input has the spatial shape {spatial}, but overlaps describes "
            f"{overlaps.source_shape} cells"
        )
    for weights in others:
        check_weights(backend, weights, shape, shape[0], last)
        check_entries(backend, weights)
    return last


# The order of cells -------------------------------------------------------------------------------


def in_order(xp: Any, pixels: Array, overlaps: CellOverlaps) -> Array:
    """Return an image (N, C, *spatial) of a library with the cells that bands read, in order."""
    flips = tuple([k + 2 for k, flip in enumerate(overlaps.flips) if flip])
    if flips:
        pixels = xp.flip(pixels, flips)
    for k, pieces in enumerate(overlaps.pieces, 2):
        if pieces != ((0, overlaps.source_shape[k - 2]),):
            parts = [part(pixels, k, *piece) for piece in pieces]
            pixels = parts[0] if len(parts) == 1 else concatenate(xp, parts, k)
    return pixels


def in_order_adjoint(backend: Backend, gradient: Array, overlaps: CellOverlaps) -> Array:
    """Apply the transpose of `in_order`."""
    for k, pieces in enumerate(overlaps.pieces, 2):
        n, first, total = overlaps.source_shape[k - 2], 0, None
        for start, stop in pieces if pieces != ((0, n),) else ():
            piece = part(gradient, k, first, first + stop - start)
            around = [
                backend.full((*shape_with(piece, k, size),), 0, piece.dtype, piece)
                for size in (start, n - stop)
            ]
            padded = backend.concatenate([around[0], piece, around[1]], k)
            total = padded if total is None else backend.xp.add(total, padded)
            first += stop - start
        gradient = gradient if total is None else total
    flips = tuple([k + 2 for k, flip in enumerate(overlaps.flips) if flip])
    return backend.xp.flip(gradient, flips) if flips else gradient


def given_order(
    backend: Backend, gradient: Array, array: Array, overlaps: CellOverlaps, last: bool
) -> Array:
    """Return a gradient of cells in order as that of an array of the caller."""
    gradient = in_order_adjoint(backend, gradient, overlaps)
    return back(backend, as_type_of(backend, gradient, array), last)


def shape_with(array: Array, axis: int, size: int) -> Shape:
    """Return the shape of an array with another size along an axis."""
    return (*array.shape[:axis], size, *array.shape[axis + 1 :])


# Means --------------------------------------------------------------------------------------------


def share_of(backend: Backend, pixels: Array, share: Any) -> Array:
    """Return the share of each cell that is covered, (1, 1, *out), as an array of the backend."""
    return backend.astype(backend.asarray(share[None, None], pixels), sum_type(backend, pixels))


def counts_alike(backend: Backend, pixels: Array, weights: Any, rule: CountingRule) -> bool:
    """Whether all pixels count alike."""
    return weights is None and not (rule.ignore and is_differentiable(backend, pixels))


def means_of(
    backend: Backend,
    pixels: Array,
    weights: Array | None,
    rule: CountingRule,
    resize: Callable[[Array], Array],
    share: Array | None,
) -> Mean:
    """Compute means.

    Sums of weights always divide, so that the bits of a result depend on its own cells alone.

    Args:
        backend: the backend.
        pixels: the image (N, C, *spatial), whose cells are in order.
        weights: the weights (N or 1, 1 or C, *spatial), or None.
        rule: the rule.
        resize: applies the bands of all axes to an image.
        share: the share of each output cell that is covered; None if all are.
    """
    dtype = exact_type(backend, pixels)
    if not counts_alike(backend, pixels, weights, rule):
        parts = masked_planes(backend, pixels, weights, rule.ignore, dtype)
        numerator, denominator = resize(parts.values), resize(parts.mask)
    elif share is None:
        result, real = resize(pixels), sum_type(backend, pixels)
        ones = backend.full((1, 1, *result.shape[2:]), 1, real, pixels)
        return Mean(result, ones, ones)
    else:
        numerator, denominator = resize(backend.astype(pixels, dtype)), share
    return divided(backend, numerator, denominator, rule, (), True)


def mean_block(
    pixels: Any,
    windows: Sequence[Window],
    resizing: Resizing,
    overlaps: CellOverlaps,
    block: Sequence[slice],
    rule: CountingRule,
) -> Any:
    """Compute a block of the result from the pixels of its windows, NumPy's (N, C, *inputs).

    It has the bits of the whole result.
    """
    backend = backend_of(input=pixels)
    spatial = tuple([len(means.source) for means in overlaps.means])
    mean = means_of(
        backend,
        pixels,
        None,
        rule,
        lambda array: resize_block(array, windows, resizing, spatial),
        None if overlaps.covers else share_of(backend, pixels, overlaps.share(block)),
    )
    return as_image_type(backend, mean.result, pixels.dtype, (0,))


def gradients_of(
    backend: Backend,
    upstream: Array,
    arrays: tuple[Array, Array | None],
    rule: CountingRule,
    resizing: Resizing,
    share: Array | None,
    needed: Needed,
) -> Gradients:
    """Compute the needed gradients of means with respect to the image and the weights.

    Args:
        backend: the backend.
        upstream: the upstream gradient (N, C, *out).
        arrays: the image and the weights, or None, whose cells are in order.
        rule: the rule.
        resizing: the options of resizing.
        share: the share of each output cell that is covered; None if all are.
        needed: whether each gradient is needed.
    """
    (pixels, weights), dtype = arrays, exact_type(backend, arrays[0])
    spatial = tuple(pixels.shape[2:])
    if not counts_alike(backend, pixels, weights, rule):
        parts = masked_planes(backend, pixels, weights, rule.ignore, dtype)
        quotient = Quotient(backend, parts, Resized(backend, resizing, spatial), rule)
        each = needed[0], False, needed[1]
        first, _, second = mean_gradients(quotient, upstream, pixels.shape, each)
        return first, second
    if not needed[0]:
        return None, None
    upstream = backend.astype(upstream, dtype)
    if share is not None:
        xp, known = backend.xp, share > rule.min_weight
        upstream = xp.where(known, upstream / xp.where(known, share, 1), 0)
    return backend.resize(upstream, changed(resizing, size=spatial), True), None
