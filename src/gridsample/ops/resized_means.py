"""Resizing with missing pixels and weights: means over the pixels that count.

    out = sum(w m v) / sum(w m)

As in `gridsample.ops.quotients`, both sums come from one image, whose channels are m v and m.
Outside the image, both continue with their edge pixels.
"""

from __future__ import annotations

from gridsample.backends import Backend
from gridsample.definitions.options import Resizing, changed
from gridsample.definitions.plan import method_of
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
    backend: Backend, image: Array, weights: Array | None, asked: Resizing, rule: Rule
) -> Planes | None:
    """Check a call, and lay out its image; None if resizing is plain.

    Args:
        backend: the backend.
        image: the image in the caller's layout.
        weights: the weights in the caller's layout, or None.
        asked: the options of resizing.
        rule: the rule.

    Raises:
        TypeError: the weights have the wrong type.
        ValueError: the method or the rounding does not go with the rule, or the weights are not
            valid.
    """
    last, shape = asked.channel_axis == -1, backend.shape(image)
    real = is_differentiable(backend, image)
    ignore = rule.ignore and real
    if ignore or weights is not None:
        # Without its cache, of which `torch.compile` would warn.
        methods = [method_of.__wrapped__(one) for one in asked.methods[::-1]]
        check_rule(methods, (), any([one.prefilter > 1 for one in methods]))
    if weights is None and (not ignore or has_no_nan(backend, image)):
        return None
    if weights is not None:
        check_weights(backend, weights, shape, shape[0], last)
        check_entries(backend, weights)
        if asked.rounding != "exact" and not real:
            raise ValueError(
                f"rounding {asked.rounding!r} rounds after each axis, but weighted means are "
                "divided before they are rounded; accepted with weights: 'exact'"
            )
        weights = planes(backend, weights, last)
    pixels = planes(backend, image, last)
    kind = pixels.dtype
    if backend.type_name(kind) not in ("float32", "float64", "complex64", "complex128"):
        kind = coefficient_type(backend, image)
    return laid_out(backend, pixels, weights, ignore, kind)


def mean_of(backend: Backend, parts: Planes, asked: Resizing, rule: Rule) -> Mean:
    """Compute the means of a call that is not plain."""
    channels = parts.values.shape[1]
    sums = backend.resize(stacked(backend, parts), changed(asked, rounding="exact"), False)
    above, below = sums[:, :channels], backend.xp.real(sums[:, channels:])
    always = parts.holes if parts.weights is None else True
    return divided(backend, above, below, rule, (), always)


def resize(
    backend: Backend, image: Array, weights: Array | None, asked: Resizing, rule: Rule
) -> tuple[Array, Array | None]:
    """Resize an image with a rule; the arguments are those of `prepared`.

    Returns:
        The result (N, C, *size), and the sum of weights, of the same shape, if the rule asks for
        it, else None.
    """
    parts = prepared(backend, image, weights, asked, rule)
    pixels = planes(backend, image, asked.channel_axis == -1)
    if parts is None:
        result, weight = backend.resize(pixels, asked, False), None
        if rule.weighted:
            real = sum_type(backend, image)
            ones = backend.full((1, 1, *pixels.shape[2:]), 1, real, image)
            weight = backend.resize(ones, asked, False)
    else:
        mean = mean_of(backend, parts, asked, rule)
        result, weight = stored(backend, mean.result, image.dtype, (0,)), mean.weight
    if weight is None or not rule.weighted:
        return result, None
    return result, widened(backend, weight, result.shape)


def resize_vjp(
    backend: Backend, upstream: Array, image: Array, weights: Array | None, asked: Resizing,
    rule: Rule, needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute the vector-Jacobian product of `resize` with an upstream gradient (N, C, *size).

    Returns:
        The needed gradients of the image (N, C, *spatial) and the weights
        (N or 1, 1 or C, *spatial), in their dtypes.
    """
    parts = prepared(backend, image, weights, asked, rule)
    shape = planes(backend, image, asked.channel_axis == -1).shape
    back = changed(asked, size=tuple(shape[2:]))
    if parts is None:
        first = backend.resize(upstream, back, True) if needed[0] else None
        return None if first is None else backend.astype(first, image.dtype), None
    mean = mean_of(backend, parts, asked, rule)
    both = backend.xp.concatenate(of_sums(backend, parts, mean, rule, upstream), 1)
    both = backend.resize(both, back, True)
    channels = shape[1]
    first, second = by_pixels(backend, parts, both[:, :channels], both[:, channels:], shape, needed)
    if first is not None:
        first = backend.astype(first, image.dtype)
    if second is not None and weights is not None and is_differentiable(backend, weights):
        second = backend.astype(second, weights.dtype)
    return first, second
