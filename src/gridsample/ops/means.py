"""Means over the pixels that count: sampling with missing pixels and weights.

    out = sum(w m v) / sum(w m)

One kernel computes both sums and divides them, if the backend has one that can do what the call
asks for.  Otherwise, and for derivatives that are differentiated again, both sums are samples of
images of their own (`gridsample.ops.quotients`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend
from gridsample.definitions.options import Averaging, Options, fill_numbers
from gridsample.definitions.plan import BOUNDARIES, MISSING, find_method, per_axis
from gridsample.ops.arrays import (
    Array,
    back,
    check_differentiable,
    check_upstream,
    coefficient_type,
    is_differentiable,
    out_shape,
    planes,
    sum_type,
)
from gridsample.ops.missing import (
    Rule,
    check_entries,
    check_rule,
    check_weights,
    has_no_nan,
    laid_out,
    stored,
    without_missing,
)
from gridsample.ops.points import SamplePoints, coefficients_at, gradients_at
from gridsample.ops.quotients import (
    EVEN,
    Call,
    Terms,
    gradients,
    mean_of,
    terms_of,
    widened,
)


class CheckedCall(NamedTuple):
    """A call of sampling with a rule, after the checks of its options.

    Attributes:
        image: the image, (N, C, *spatial).
        weights: the weights of pixels, (N or 1, 1 or C, *spatial), or None.
        options: the checked options of plain sampling.
        ignore: whether pixels may be missing.
        fill: the fill value: one number, one per channel, or empty for 0.
        filled: whether the outside may have it.
        absent: the number of missing results, or one per channel; empty for NaN.
        last: whether the caller's channels come last.
    """

    image: Array
    weights: Array | None
    options: Options
    ignore: bool
    fill: Sequence[Any]
    filled: bool
    absent: Sequence[Any]
    last: bool


def is_plain(options: Options, rule: Rule) -> bool:
    """Whether the options are those of plain sampling without a fill value."""
    return rule.missing is None and type(options.fill_value) is int and not options.fill_value


def check_call(
    backend: Backend, points: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> CheckedCall:  # fmt: skip
    """Check the options of a call; the arguments are those of `prepared`."""
    plain = options if is_plain(options, rule) else options.changed(
        padding_mode=without_missing(options.padding_mode, "border"), fill_value=0
    )  # fmt: skip
    resolved = points.resolve_options(image, plain)
    last = resolved.channels_last()
    fill: Sequence[Any] = ()
    real = is_differentiable(backend, image)
    if not is_plain(options, rule):
        channels = backend.shape(image)[-1 if last else 1]
        fill = fill_numbers(options, True, image.dtype, channels)
    filled = not resolved.extrapolates() or any(
        [BOUNDARIES[name].filled for name in resolved.padding_mode]
    )
    ignore = rule.ignore and real
    if ignore or rule.weights is not None or rule.missing is not None:
        check_rule(
            [find_method(name) for name in resolved.mode], resolved.padding_mode, resolved.prefilter
        )
    # A missing result has the fill value if the call has one, which may be 0 if it is used.
    absent: Sequence[Any] = fill or ((0,) if filled or not real else ())
    if weights is not None:
        shape, items = backend.shape(image), backend.shape(points.array)[0]
        check_weights(backend, weights, shape, max(shape[0], items), last)
        weights = planes(backend, weights, last)
    return CheckedCall(
        planes(backend, image, last), weights, resolved, ignore, fill, filled, absent, last
    )


def prepared(
    backend: Backend, points: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> Call:  # fmt: skip
    """Check a call of sampling with a rule, and lay out its image.

    Args:
        backend: the backend.
        points: the points.
        image: the image in the caller's layout.
        weights: the weights in the caller's layout, or None.
        options: the options as the caller gave them.
        rule: the rule.

    Raises:
        TypeError: an option or the weights have the wrong type.
        ValueError: an option is not valid, does not go with the rule, or the weights are not valid.
    """
    checked = check_call(backend, points, image, weights, options, rule)
    pixels, resolved, last = checked.image, checked.options, checked.last
    weights = checked.weights
    if weights is not None:
        check_entries(backend, weights)
    unweighted = weights is None and rule.missing is None
    if unweighted and (not checked.ignore or has_no_nan(backend, image)):
        if checked.fill and checked.filled:
            resolved = points.resolve_options(image, options)
        return Call(pixels, resolved, None, Terms(()), (), last)
    dtype = pixels.dtype
    if backend.type_name(dtype) not in ("float32", "float64", "complex64", "complex128"):
        dtype = coefficient_type(backend, image, points.array)
    parts = laid_out(backend, pixels, weights, checked.ignore, dtype)
    terms = terms_of(backend, points, parts, options, rule, checked.fill, last)
    return Call(pixels, resolved, parts, terms, checked.absent, last)


def sample(
    backend: Backend, points: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> tuple[Array, Array | None, Options]:  # fmt: skip
    """Sample an image with a rule; the arguments are those of `prepared`.

    Returns:
        The result (N, C, *out) in the image's dtype; the sum of weights, (N, C, *out), if the rule
        asks for it, else None; and the checked options of plain sampling.
    """
    averages = averaged(backend, points, image, weights, options, rule)
    if averages is not None:
        return averages
    call = prepared(backend, points, image, weights, options, rule)
    pixels, resolved = call.image, call.options
    if call.parts is None:
        source = coefficients_at(points, pixels, resolved)
        result = points.gather(source, resolved, image.dtype)
        weight = weight_of_all_taps(backend, points, call) if rule.weighted else None
    else:
        mean = mean_of(backend, points, call, rule)
        result, weight = stored(backend, mean.result, image.dtype, call.fill), mean.weight
    if not rule.weighted:
        return result, None, resolved
    return result, widened(backend, weight, result.shape), resolved


def averaged(
    backend: Backend, points: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> tuple[Array, Array | None, Options] | None:  # fmt: skip
    """Do the same as `sample` by one kernel; None if the backend has none."""
    checked = check_call(backend, points, image, weights, options, rule)
    resolution = resolve_averaging(backend, points, image, checked, options, rule)
    if resolution is None:
        return None
    resolved, averaging = resolution
    arrays = [
        checked.image,
        points.array,
        *([] if checked.weights is None else [checked.weights]),
    ]
    if not backend.averages(arrays, resolved, rule.weighted):
        return None

    def compute(arrays: Sequence[Array], writes: bool) -> Array:
        return mean(arrays)[0]

    def mean(arrays: Sequence[Array]) -> tuple[Array, Array | None]:
        result, shares, doubtful = points.at(arrays[1]).average(arrays, resolved, averaging)
        if doubtful:
            check_entries(backend, arrays[2])
        return result, shares

    def differentiate(
        upstream: Array, needed: Sequence[bool], arrays: Sequence[Array]
    ) -> Sequence[Array | None]:
        values, *inputs = [back(backend, array, checked.last) for array in (upstream, *arrays[::2])]
        gradients = sample_vjp(
            backend, points.at(arrays[1]), values, inputs[0], inputs[1] if inputs[1:] else None,
            options, rule, (needed[0], needed[1], needed[-1] and bool(inputs[1:])),
        )  # fmt: skip
        first, second, third = gradients
        results = [first, second, third][: len(arrays)]
        return [
            gradient if gradient is None or k == 1 else planes(backend, gradient, checked.last)
            for k, gradient in enumerate(results)
        ]

    if rule.weighted:
        return *mean(arrays), checked.options
    return backend.custom_vjp(compute, differentiate, arrays), None, checked.options


def resolve_averaging(
    backend: Backend,
    points: SamplePoints,
    image: Array,
    checked: CheckedCall,
    options: Options,
    rule: Rule,
) -> tuple[Options, Averaging] | None:
    """Return the options of one kernel for a call, or None if none can do what it asks for."""
    resolved, drops = checked.options, rule.missing is not None
    names = per_axis(rule.missing, len(resolved.mode), "padding_mode") if drops else ()
    # What is dropped is either known or not.
    mixed = any([name != MISSING and BOUNDARIES[name].drops for name in names])
    plain = not checked.ignore and checked.weights is None and not drops
    if plain or mixed or any([number != number for number in checked.fill]):
        return None
    if not is_plain(options, rule):
        resolved = points.resolve_options(image, options.changed(
            padding_mode=without_missing(options.padding_mode, "constant"),
            fill_value=options.fill_value if checked.filled and not drops else 0,
        ))  # fmt: skip
    least, absent = rule.least, tuple(checked.absent)
    return resolved, Averaging(least, absent, drops, checked.ignore, rule.weighted)


def averaged_vjp(
    backend: Backend, points: SamplePoints, upstream: Array, image: Array, checked: CheckedCall,
    options: Options, rule: Rule, needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None] | None:  # fmt: skip
    """Compute the gradients of `averaged` by one kernel; None if the backend has none."""
    resolution = resolve_averaging(backend, points, image, checked, options, rule)
    if resolution is None or 0 in upstream.shape:
        return None
    resolved, averaging = resolution
    arrays = [
        checked.image,
        points.array,
        *([] if checked.weights is None else [checked.weights]),
    ]
    if not backend.averages([*arrays, upstream], resolved, True):
        return None
    if len(arrays) == 2 and not averaging.drops and has_no_nan(backend, image):
        return None  # plain gradients are faster
    needed = needed[0], needed[1], needed[2] and len(arrays) > 2
    *gradients, doubtful = points.average_backward(upstream, arrays, resolved, averaging, needed)
    if doubtful:
        check_entries(backend, arrays[2])
    first, second, third = gradients
    return first, second, third


def weight_of_all_taps(backend: Backend, points: SamplePoints, call: Call) -> Array:
    """Sum the weights of all taps, known numbers outside included: 1 for most methods."""
    image, resolved = call.image, call.options
    boundaries = [BOUNDARIES[name] for name in resolved.padding_mode]
    names = ["constant" if one.drops else EVEN.get(one.name, one.name) for one in boundaries]
    fill = 1 if "constant" in names or not resolved.extrapolates() else 0
    ones = backend.full((1, 1, *image.shape[2:]), 1, sum_type(backend, image, points.array), image)
    resolved = points.resolve_options(
        back(backend, ones, call.last),
        resolved.changed(padding_mode=tuple(names), fill_value=fill, prefilter=False),
    )
    return points.gather(ones, resolved, ones.dtype)


# Gradients ----------------------------------------------------------------------------------------


def sample_vjp(
    backend: Backend, points: SamplePoints, upstream: Array, image: Array, weights: Array | None,
    options: Options, rule: Rule, needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the vector-Jacobian product of `sample` with an upstream gradient.

    Returns:
        The needed gradients of the image, the points and the weights, in the caller's layout.
    """
    checked = check_call(backend, points, image, weights, options, rule)
    last = checked.last
    shape = out_shape(backend.shape(image), points.shape(), last)
    upstream = planes(backend, check_upstream(backend, upstream, image, shape), last)
    if needed[0]:
        check_differentiable(backend, image)
    gradients_found = averaged_vjp(backend, points, upstream, image, checked, options, rule, needed)
    if gradients_found is None:
        call = prepared(backend, points, image, weights, options, rule)
        if call.parts is None:
            pair = gradients_at(points, upstream, call.image, call.options, needed[:2])
            gradients_found = *pair, None
        else:
            gradients_found = gradients(backend, points, call, rule, upstream, needed)
    first, second, third = gradients_found
    if first is not None:
        first = back(backend, backend.astype(first, image.dtype), last)
    if third is not None and weights is not None:
        dtype = weights.dtype if is_differentiable(backend, weights) else third.dtype
        third = back(backend, backend.astype(third, dtype), last)
    return first, second, third
