"""Resizing with missing pixels and weights: means over the pixels that count.

    out = sum(w m v) / sum(w m)

Outside the image, both images of `gridsample.ops.quotients`, m v and m, continue with their edge
pixels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gridsample.backends.base import Backend, Gradients, Needed
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import changed
from gridsample.definitions.shapes import Shape
from gridsample.ops.arrays import Array, as_type_of, exact_type, is_differentiable, planes, sum_type
from gridsample.ops.missing import (
    CountingRule,
    Planes,
    as_image_type,
    check_entries,
    check_rule,
    check_weights,
    has_no_nan,
    masked_planes,
    stacked,
)
from gridsample.ops.quotients import Quotient, mean_gradients, repeat_weight, split


class Resized(NamedTuple):
    """Resizing as the operator of a `Quotient`, for an image of a spatial shape."""

    backend: Backend
    resizing: Resizing
    spatial: Shape

    def sums(self, parts: Planes) -> tuple[Array, Array]:
        """Resize both images."""
        backend, exact = self.backend, changed(self.resizing, rounding="exact")
        numerator, denominator = split(
            backend.resize(stacked(backend, parts), exact, False), parts.values.shape[1]
        )
        return numerator, backend.xp.real(denominator)

    def adjoint(self, grad_numerator: Array, grad_denominator: Array, needed: Needed) -> Gradients:
        """Compute the gradients of both images from those of the sums; there are no points."""
        both = self.backend.concatenate([grad_numerator, grad_denominator], 1)
        back = changed(self.resizing, size=self.spatial)
        return *split(self.backend.resize(both, back, True), grad_numerator.shape[1]), None


def quotient_of(
    backend: Backend, image: Array, weights: Array | None, resizing: Resizing, rule: CountingRule
) -> Quotient | None:
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
    parts = masked_planes(backend, pixels, weights, ignore, exact_type(backend, image))
    operator = Resized(backend, resizing, tuple(pixels.shape[2:]))
    return Quotient(backend, parts, operator, rule)


def resize(
    backend: Backend, image: Array, weights: Array | None, resizing: Resizing, rule: CountingRule
) -> tuple[Array, Array | None]:
    """Resize an image with a rule; the arguments are those of `quotient_of`.

    Returns:
        The result (N, C, *size), and the sum of weights, of the same shape, if the rule asks for
        it, else None.
    """
    quotient = quotient_of(backend, image, weights, resizing, rule)
    pixels = planes(backend, image, resizing.channel_axis == -1)
    if quotient is None:
        result, weight = backend.resize(pixels, resizing, False), None
        if rule.weighted:
            real = sum_type(backend, image)
            ones = backend.full((1, 1, *pixels.shape[2:]), 1, real, image)
            weight = backend.resize(ones, resizing, False)
    else:
        mean = quotient.mean()
        result, weight = as_image_type(backend, mean.result, image.dtype, (0,)), mean.weight
    if weight is None or not rule.weighted:
        return result, None
    return result, repeat_weight(backend, weight, result.shape)


def resize_vjp(
    backend: Backend,
    upstream: Array,
    image: Array,
    weights: Array | None,
    resizing: Resizing,
    rule: CountingRule,
    needed: Needed,
) -> Gradients:
    """Compute the vector-Jacobian product of `resize` with an upstream gradient (N, C, *size).

    Returns:
        The needed gradients of the image (N, C, *spatial) and the weights
        (N or 1, 1 or C, *spatial), in their dtypes.
    """
    quotient = quotient_of(backend, image, weights, resizing, rule)
    shape = planes(backend, image, resizing.channel_axis == -1).shape
    first = second = None
    if quotient is not None:
        each = needed[0], False, needed[1]
        first, _, second = mean_gradients(quotient, upstream, shape, each)
    elif needed[0]:
        first = backend.resize(upstream, changed(resizing, size=tuple(shape[2:])), True)
    return as_type_of(backend, first, image), as_type_of(backend, second, weights)
