"""Means over the pixels that count: sampling with missing pixels and weights.

    out = sum(w m v) / sum(w m)

One kernel computes both sums and divides them, if the backend has one that can do what the call
asks for.  Otherwise, and for derivatives that are differentiated again, both sums are samples of
images of their own (`gridsample.ops.quotients`).
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.backends.base import Gradients, Needed
from gridsample.definitions.boundaries import BOUNDARIES, MISSING, without_missing
from gridsample.definitions.methods import find_method, per_axis
from gridsample.definitions.options import Averaging, Options, fill_numbers
from gridsample.definitions.request import Request
from gridsample.ops.arrays import (
    Array,
    as_type_of,
    back,
    check_differentiable,
    check_upstream,
    exact_type,
    is_differentiable,
    out_shape,
    planes,
    sum_type,
)
from gridsample.ops.missing import (
    CountingRule,
    as_image_type,
    check_entries,
    check_rule,
    check_weights,
    has_no_nan,
    masked_planes,
)
from gridsample.ops.points import SamplePoints, coefficients_at, gradients_at
from gridsample.ops.quotients import (
    EVEN,
    KNOWN,
    PointSampling,
    Quotient,
    mean_gradients,
    repeat_weight,
    terms_of,
)


class CheckedCall(NamedTuple):
    """A call of sampling with a rule, after the checks of its options.

    Attributes:
        points: the points.
        image: the image in the caller's layout.
        weights: the weights of pixels, (N or 1, 1 or C, *spatial), or None.
        requested: the options as the caller gave them.
        rule: the rule.
        options: the checked options of plain sampling, without a fill value.
        ignore: whether pixels may be missing.
        fill: the fill value: one number, one per channel, or empty for 0.
        filled: whether the outside may have it.
        missing_value: the value of missing results, or one per channel; empty for NaN.
    """

    points: SamplePoints
    image: Array
    weights: Array | None
    requested: Request
    rule: CountingRule
    options: Options
    ignore: bool
    fill: Sequence[Any]
    filled: bool
    missing_value: Sequence[Any]

    def last(self) -> bool:
        """Whether the caller's channels come last."""
        return self.options.channels_last()

    def pixels(self) -> Array:
        """The image as (N, C, *spatial)."""
        return planes(self.points.backend, self.image, self.last())

    def counts_all(self) -> bool:
        """Whether all pixels of any image, and what is outside, count alike."""
        return not self.ignore and self.weights is None and self.rule.missing is None


def is_default(request: Request, rule: CountingRule) -> bool:
    """Whether a request is for plain sampling without a fill value."""
    return rule.missing is None and type(request.fill_value) is int and not request.fill_value


def check_call(
    points: SamplePoints, image: Array, weights: Array | None, request: Request, rule: CountingRule
) -> CheckedCall:
    """Check the options of a call of sampling with a rule.

    Args:
        points: the points.
        image: the image in the caller's layout.
        weights: the weights in the caller's layout, or None.
        request: the options as the caller gave them.
        rule: the rule.

    Raises:
        TypeError: an option or the weights have the wrong type.
        ValueError: an option is not valid, or does not go with the rule.
    """
    backend = points.backend
    known = request
    if not is_default(request, rule):
        padding_mode = without_missing(request.padding_mode, "border")
        known = request.changed(padding_mode=padding_mode, fill_value=0)
    resolved = points.resolve_options(image, known)
    last = resolved.channels_last()
    fill: Sequence[Any] = ()
    real = is_differentiable(backend, image)
    if not is_default(request, rule):
        channels = backend.shape(image)[-1 if last else 1]
        fill = fill_numbers(request.fill_value, request, True, image.dtype, channels)
    filled = resolved.may_fill()
    ignore = rule.ignore and real
    if ignore or rule.weights is not None or rule.missing is not None:
        check_rule(
            [find_method(name) for name in resolved.mode], resolved.padding_mode, resolved.prefilter
        )
    # A missing result has the fill value if the call has one, which may be 0 if it is used.
    missing_value: Sequence[Any] = fill or ((0,) if filled or not real else ())
    if weights is not None:
        shape, items = backend.shape(image), backend.shape(points.array)[0]
        check_weights(backend, weights, shape, max(shape[0], items), last)
        weights = planes(backend, weights, last)
    return CheckedCall(
        points, image, weights, request, rule, resolved, ignore, fill, filled, missing_value
    )


def quotient_of(call: CheckedCall) -> Quotient | None:
    """Lay the image of a call out as m v and m; None if sampling is plain, as no pixel is missing.

    Raises:
        ValueError: a weight is negative or not finite.
    """
    points, weights, rule = call.points, call.weights, call.rule
    backend = points.backend
    if weights is not None:
        check_entries(backend, weights)
    elif rule.missing is None and (not call.ignore or has_no_nan(backend, call.image)):
        return None
    dtype = exact_type(backend, call.image, points.array)
    parts = masked_planes(backend, call.pixels(), weights, call.ignore, dtype)
    terms = terms_of(points, parts, call.requested, rule, call.fill, call.last())
    return Quotient(backend, parts, PointSampling(points, terms), rule, call.missing_value)


def unweighted_options(call: CheckedCall) -> Options:
    """Return the checked options of plain sampling, with the fill value if that is used."""
    if call.fill and call.filled:
        return call.points.resolve_options(call.image, call.requested)
    return call.options


def sample(
    points: SamplePoints, image: Array, weights: Array | None, request: Request, rule: CountingRule
) -> tuple[Array, Array | None, Options]:
    """Sample an image with a rule; the arguments are those of `check_call`.

    Returns:
        The result (N, C, *out) in the image's dtype; the sum of weights, (N, C, *out), if the rule
        asks for it, else None; and the checked options of plain sampling.
    """
    call, backend = check_call(points, image, weights, request, rule), points.backend
    averages = average(call)
    if averages is not None:
        return *averages, call.options
    quotient = quotient_of(call)
    if quotient is None:
        resolved = unweighted_options(call)
        source = coefficients_at(points, call.pixels(), resolved)
        result = points.gather(source, resolved, image.dtype)
        weight = weight_of_all_taps(call) if rule.weighted else None
    else:
        mean = quotient.mean()
        result = as_image_type(backend, mean.result, image.dtype, call.missing_value)
        weight = mean.weight
    if not rule.weighted:
        return result, None, call.options
    weight = backend.astype(weight, sum_type(backend, image, points.array))
    return result, repeat_weight(backend, weight, result.shape), call.options


def average(call: CheckedCall) -> tuple[Array, Array | None] | None:
    """Compute the result and the sum of weights by one kernel; None if the backend has none."""
    points, rule, backend = call.points, call.rule, call.points.backend
    resolution = resolve_averaging(call)
    if resolution is None:
        return None
    resolved, averaging = resolution
    arrays = arrays_of(call)
    if not backend.averages(arrays, resolved, rule.weighted):
        return None

    def compute(arrays: Sequence[Array], in_place: bool) -> Array:
        return mean(arrays)[0]

    def mean(arrays: Sequence[Array]) -> tuple[Array, Array | None]:
        result, shares, invalid_weights = backend.average(arrays, resolved, averaging)
        if invalid_weights:
            check_entries(backend, arrays[2])
        return result, shares

    def differentiate(
        upstream: Array, needed: Sequence[bool], arrays: Sequence[Array]
    ) -> Sequence[Array | None]:
        last, weighted = call.last(), len(arrays) > 2
        values, *inputs = [back(backend, array, last) for array in (upstream, *arrays[::2])]
        pair = inputs[0], inputs[1] if weighted else None
        needs = needed[0], needed[1], needed[-1] and weighted
        new_points = points.at(arrays[1])
        gradients = sample_vjp(new_points, values, *pair, call.requested, rule, needs)
        return [
            gradient if gradient is None or k == 1 else planes(backend, gradient, last)
            for k, gradient in enumerate(gradients[: len(arrays)])
        ]

    if rule.weighted:
        return mean(arrays)
    return backend.custom_vjp(compute, differentiate, arrays), None


def arrays_of(call: CheckedCall) -> list[Array]:
    """Return the image, the points and, if there are any, the weights, as kernels take them."""
    return [call.pixels(), call.points.array, *([] if call.weights is None else [call.weights])]


def resolve_averaging(call: CheckedCall) -> tuple[Options, Averaging] | None:
    """Return the options of one kernel for a call, or None if none can do what it asks for."""
    resolved, requested, rule = call.options, call.requested, call.rule
    drops = rule.missing is not None
    names = per_axis(rule.missing, len(resolved.mode), "padding_mode") if drops else ()
    # The kernel treats all dropped taps alike: their values are all known, or all ignored.
    mixed = any([name != MISSING and BOUNDARIES[name].drops for name in names])
    if call.counts_all() or mixed:
        return None
    if not all([cmath.isfinite(number) for number in call.fill]):
        # Its share has no derivative where it is 0, and integers are finite.
        blends = not drops and any([BOUNDARIES[name].filled for name in resolved.padding_mode])
        if blends or not is_differentiable(call.points.backend, call.image):
            return None
    if not is_default(requested, rule):
        padding_mode = without_missing(requested.padding_mode, "constant")
        fill = requested.fill_value if call.filled and not drops else 0
        filled = requested.changed(padding_mode=padding_mode, fill_value=fill)
        resolved = call.points.resolve_options(call.image, filled)
    averaging = Averaging(
        rule.min_weight, tuple(call.missing_value), drops, call.ignore, rule.weighted
    )
    return resolved, averaging


def average_vjp(call: CheckedCall, upstream: Array, needed: Needed) -> Gradients | None:
    """Compute the gradients of `average` by one kernel; None if the backend has none."""
    backend = call.points.backend
    resolution = resolve_averaging(call)
    # Over footprints, no kernel computes the gradients.
    if resolution is None or 0 in upstream.shape or call.options.footprint is not None:
        return None
    resolved, averaging = resolution
    arrays = arrays_of(call)
    if not backend.averages([*arrays, upstream], resolved, True):
        return None
    if len(arrays) == 2 and not averaging.ignores_dropped and has_no_nan(backend, call.image):
        return None  # plain gradients are faster
    needed = needed[0], needed[1], needed[2] and len(arrays) > 2
    gradients, invalid_weights = backend.average_backward(
        upstream, arrays, resolved, averaging, needed
    )
    if invalid_weights:
        check_entries(backend, arrays[2])
    return gradients


def weight_of_all_taps(call: CheckedCall) -> Array:
    """Sum the weights of all taps, known numbers outside included: 1 for most methods."""
    points, backend = call.points, call.points.backend
    # Zeros beside the image, as of "dst1", are known as well.
    zeros = {b.name: "border" for b in BOUNDARIES.values() if b.may_drop and not b.drops}
    names = [(KNOWN | EVEN | zeros).get(name, name) for name in call.options.padding_mode]
    used = call.options.changed(padding_mode=tuple(names)).may_fill()
    request = call.requested.changed(
        padding_mode=tuple(names), fill_value=int(used), prefilter=False
    )
    real = sum_type(backend, call.image, points.array)
    ones = backend.full((1, 1, *call.pixels().shape[2:]), 1, real, call.image)
    options = points.resolve_options(back(backend, ones, call.last()), request)
    return points.gather(ones, options, real)


# Gradients ----------------------------------------------------------------------------------------


def sample_vjp(
    points: SamplePoints,
    upstream: Array,
    image: Array,
    weights: Array | None,
    request: Request,
    rule: CountingRule,
    needed: Needed,
) -> Gradients:
    """Compute the vector-Jacobian product of `sample` with an upstream gradient.

    Returns:
        The needed gradients of the image, the points and the weights, in the caller's layout.
    """
    call, backend = check_call(points, image, weights, request, rule), points.backend
    last = call.last()
    shape = out_shape(backend.shape(image), points.shape(), last)
    upstream = planes(backend, check_upstream(backend, upstream, image, shape), last)
    if needed[0]:
        check_differentiable(backend, image)
    gradients = average_vjp(call, upstream, needed)
    if gradients is None:
        quotient = quotient_of(call)
        if quotient is None:
            resolved = unweighted_options(call)
            pair = gradients_at(points, upstream, call.pixels(), resolved, needed[:2])
            gradients = *pair, None
        else:
            gradients = mean_gradients(quotient, upstream, call.pixels().shape, needed)
    first, second, third = gradients
    first, third = as_type_of(backend, first, image), as_type_of(backend, third, weights)
    return (
        None if first is None else back(backend, first, last),
        second,
        None if third is None else back(backend, third, last),
    )
