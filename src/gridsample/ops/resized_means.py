"""Resizing with missing pixels and weights: means over the pixels that count.

    out = sum(w m v) / sum(w m)

As in `gridsample.ops.quotients`, both sums come from one image, whose channels are m v and m.
Outside the image, both continue with their edge pixels.
"""

from __future__ import annotations

from typing import Any

from gridsample.backends import Backend
from gridsample.definitions.options import Resizing, changed
from gridsample.ops.arrays import Array, coefficient_type, is_differentiable, planes, sum_type
from gridsample.ops.missing import (
    Planes,
    Rule,
    check_entries,
    check_rule,
    check_weights,
    has_no_nan,
    laid_out,
    stacked,
    stored,
)
from gridsample.ops.quotients import Mean, by_pixels, divided, of_sums, widened


def prepared(
    backend: Backend, image: Array, weights: Array | None, resizing: Resizing, rule: Rule
) -> Planes | None:
    """Check a call, and lay out its image; None if resizing is plain.

    Args:
        backend: the backend.
        image: the image in the caller's layout.
        weights: the weights in the caller's layout, or None.
        resizing: the options of resizing.
        rule: the rule.

    Raises:
        TypeError: the weights have the wrong type.
        ValueError: the method or the rounding does not go with the rule, or the weights are not
            valid.
    """
    last, shape = resizing.channel_axis == -1, backend.shape(image)
    real = is_differentiable(backend, image)
    ignore = rule.ignore and real
    if ignore or weights is not None:
        methods: list[Any] = list(resizing.methods[::-1])
        check_rule(methods, (), any([method.prefilter > 1 for method in methods]))
    if weights is None and (not ignore or has_no_nan(backend, image)):
        return None
    if weights is not None:
        check_weights(backend, weights, shape, shape[0], last)
        check_entries(backend, weights)
        if resizing.rounding != "exact" and not real:
            raise ValueError(
                f"rounding {resizing.rounding!r} rounds after each axis, but weighted means are "
                "divided before they are rounded; accepted with weights: 'exact'"
            )
        weights = planes(backend, weights, last)
    pixels = planes(backend, image, last)
    dtype = pixels.dtype
    if backend.type_name(dtype) not in ("float32", "float64", "complex64", "complex128"):
        dtype = coefficient_type(backend, image)
    return laid_out(backend, pixels, weights, ignore, dtype)


def mean_of(backend: Backend, parts: Planes, resizing: Resizing, rule: Rule) -> Mean:
    """Compute the means of a call that is not plain."""
    channels = parts.values.shape[1]
    sums = backend.resize(stacked(backend, parts), changed(resizing, rounding="exact"), False)
    above, below = sums[:, :channels], backend.xp.real(sums[:, channels:])
    always = parts.any_missing if parts.weights is None else True
    return divided(backend, above, below, rule, (), always)


def resize(
    backend: Backend, image: Array, weights: Array | None, resizing: Resizing, rule: Rule
) -> tuple[Array, Array | None]:
    """Resize an image with a rule; the arguments are those of `prepared`.

    Returns:
        The result (N, C, *size), and the sum of weights, of the same shape, if the rule asks for
        it, else None.
    """
    parts = prepared(backend, image, weights, resizing, rule)
    pixels = planes(backend, image, resizing.channel_axis == -1)
    if parts is None:
        result, weight = backend.resize(pixels, resizing, False), None
        if rule.weighted:
            real = sum_type(backend, image)
            ones = backend.full((1, 1, *pixels.shape[2:]), 1, real, image)
            weight = backend.resize(ones, resizing, False)
    else:
        mean = mean_of(backend, parts, resizing, rule)
        result, weight = stored(backend, mean.result, image.dtype, (0,)), mean.weight
    if weight is None or not rule.weighted:
        return result, None
    return result, widened(backend, weight, result.shape)


def resize_vjp(
    backend: Backend, upstream: Array, image: Array, weights: Array | None, resizing: Resizing,
    rule: Rule, needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute the vector-Jacobian product of `resize` with an upstream gradient (N, C, *size).

    Returns:
        The needed gradients of the image (N, C, *spatial) and the weights
        (N or 1, 1 or C, *spatial), in their dtypes.
    """
    parts = prepared(backend, image, weights, resizing, rule)
    shape = planes(backend, image, resizing.channel_axis == -1).shape
    back = changed(resizing, size=tuple(shape[2:]))
    if parts is None:
        first = backend.resize(upstream, back, True) if needed[0] else None
        return None if first is None else backend.astype(first, image.dtype), None
    mean = mean_of(backend, parts, resizing, rule)
    both = backend.xp.concatenate(of_sums(backend, parts, mean, rule, upstream), 1)
    both = backend.resize(both, back, True)
    channels = shape[1]
    first, second = by_pixels(backend, parts, both[:, :channels], both[:, channels:], shape, needed)
    if first is not None:
        first = backend.astype(first, image.dtype)
    if second is not None and weights is not None and is_differentiable(backend, weights):
        second = backend.astype(second, weights.dtype)
    return first, second
