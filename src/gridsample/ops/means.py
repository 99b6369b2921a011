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
from gridsample.definitions.plan import BOUNDARIES, find_method, per_axis
from gridsample.ops.arrays import (
    Array,
    back,
    check_differentiable,
    check_upstream,
    coefficient_type,
    filtered,
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
from gridsample.ops.points import SamplePoints, gradients_at
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
        how: the checked options of plain sampling.
        ignore: whether pixels may be missing.
        fill: the fill value: one number, one per channel, or empty for 0.
        filled: whether the outside may have it.
        absent: the number of missing results, or one per channel; empty for NaN.
        last: whether the caller's channels come last.
    """

    image: Array
    weights: Array | None
    how: Options
    ignore: bool
    fill: Sequence[Any]
    filled: bool
    absent: Sequence[Any]
    last: bool


def is_bare(options: Options, rule: Rule) -> bool:
    """Whether the options are those of plain sampling without a fill value."""
    return rule.missing is None and type(options.fill_value) is int and not options.fill_value


def asked_of(
    backend: Backend, places: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> CheckedCall:  # fmt: skip
    """Check the options of a call; the arguments are those of `prepared`."""
    how = places.resolve_options(image, options if is_bare(options, rule) else options.changed(
        padding_mode=without_missing(options.padding_mode, "border"), fill_value=0
    ))  # fmt: skip
    last = how.channels_last()
    fill: Sequence[Any] = ()
    real = is_differentiable(backend, image)
    if not is_bare(options, rule):
        channels = backend.shape(image)[-1 if last else 1]
        fill = fill_numbers(options, True, image.dtype, channels)
    filled = not how.extrapolates() or any([BOUNDARIES[name].filled for name in how.padding_mode])
    ignore = rule.ignore and real
    if ignore or rule.weights is not None or rule.missing is not None:
        check_rule([find_method(one) for one in how.mode], how.padding_mode, how.prefilter)
    # A missing result has the fill value if the call has one, which may be 0 if it is used.
    absent: Sequence[Any] = fill or ((0,) if filled or not real else ())
    if weights is not None:
        shape, items = backend.shape(image), backend.shape(places.array)[0]
        check_weights(backend, weights, shape, max(shape[0], items), last)
        weights = planes(backend, weights, last)
    return CheckedCall(
        planes(backend, image, last), weights, how, ignore, fill, filled, absent, last
    )


def prepared(
    backend: Backend, places: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> Call:  # fmt: skip
    """Check a call of sampling with a rule, and lay out its image.

    Args:
        backend: the backend.
        places: the points.
        image: the image in the caller's layout.
        weights: the weights in the caller's layout, or None.
        options: the options as the caller gave them.
        rule: the rule.

    Raises:
        TypeError: an option or the weights have the wrong type.
        ValueError: an option is not valid, does not go with the rule, or the weights are not valid.
    """
    asked = asked_of(backend, places, image, weights, options, rule)
    pixels, how, last = asked.image, asked.how, asked.last
    weights = asked.weights
    if weights is not None:
        check_entries(backend, weights)
    bare = weights is None and rule.missing is None
    if bare and (not asked.ignore or has_no_nan(backend, image)):
        if asked.fill and asked.filled:
            how = places.resolve_options(image, options)
        return Call(pixels, how, None, Terms(()), (), last)
    kind = pixels.dtype
    if backend.type_name(kind) not in ("float32", "float64", "complex64", "complex128"):
        kind = coefficient_type(backend, image, places.array)
    parts = laid_out(backend, pixels, weights, asked.ignore, kind)
    terms = terms_of(backend, places, parts, options, rule, asked.fill, last)
    return Call(pixels, how, parts, terms, asked.absent, last)


def sample(
    backend: Backend, places: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> tuple[Array, Array | None, Options]:  # fmt: skip
    """Sample an image with a rule; the arguments are those of `prepared`.

    Returns:
        The result (N, C, *out) in the image's dtype; the sum of weights, (N, C, *out), if the rule
        asks for it, else None; and the checked options of plain sampling.
    """
    found = averaged(backend, places, image, weights, options, rule)
    if found is not None:
        return found
    call = prepared(backend, places, image, weights, options, rule)
    pixels, how = call.image, call.how
    if call.parts is None:
        source = filtered(backend, pixels, places.array, how) if how.prefilter else pixels
        result = places.gather(source, how, image.dtype)
        weight = plain_weight(backend, places, call) if rule.weighted else None
    else:
        mean = mean_of(backend, places, call, rule)
        result, weight = stored(backend, mean.result, image.dtype, call.fill), mean.weight
    if not rule.weighted:
        return result, None, how
    return result, widened(backend, weight, result.shape), how


def averaged(
    backend: Backend, places: SamplePoints, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> tuple[Array, Array | None, Options] | None:  # fmt: skip
    """Do the same as `sample` by one kernel; None if the backend has none."""
    asked = asked_of(backend, places, image, weights, options, rule)
    found = averaging_of(backend, places, image, asked, options, rule)
    if found is None:
        return None
    how, averaging = found
    arrays = [asked.image, places.array, *([] if asked.weights is None else [asked.weights])]
    if not backend.averages(arrays, how, rule.weighted):
        return None

    def compute(arrays: Sequence[Array], writes: bool) -> Array:
        return mean(arrays)[0]

    def mean(arrays: Sequence[Array]) -> tuple[Array, Array | None]:
        result, shares, doubtful = places.at(arrays[1]).average(arrays, how, averaging)
        if doubtful:
            check_entries(backend, arrays[2])
        return result, shares

    def differentiate(
        upstream: Array, needed: Sequence[bool], arrays: Sequence[Array]
    ) -> Sequence[Array | None]:
        values, *given = [back(backend, one, asked.last) for one in (upstream, *arrays[::2])]
        gradients = sample_vjp(
            backend, places.at(arrays[1]), values, given[0], given[1] if given[1:] else None,
            options, rule, (needed[0], needed[1], needed[-1] and bool(given[1:])),
        )  # fmt: skip
        first, second, third = gradients
        found = [first, second, third][: len(arrays)]
        return [
            one if one is None or k == 1 else planes(backend, one, asked.last)
            for k, one in enumerate(found)
        ]

    if rule.weighted:
        return *mean(arrays), asked.how
    return backend.custom_vjp(compute, differentiate, arrays), None, asked.how


def averaging_of(
    backend: Backend,
    places: SamplePoints,
    image: Array,
    asked: CheckedCall,
    options: Options,
    rule: Rule,
) -> tuple[Options, Averaging] | None:
    """Return the options of one kernel for a call, or None if none can do what it asks for."""
    how, drops = asked.how, rule.missing is not None
    names = per_axis(rule.missing, len(how.mode), "padding_mode") if drops else how.padding_mode
    # What is dropped is either known or not.
    mixed = drops and ("zeros" in names or "constant" in names)
    plain = not asked.ignore and asked.weights is None and not drops
    if plain or mixed or any([number != number for number in asked.fill]):
        return None
    if not is_bare(options, rule):
        used = "constant" in names or not options.extrapolates()
        how = places.resolve_options(image, options.changed(
            padding_mode=without_missing(options.padding_mode, "constant"),
            fill_value=options.fill_value if used and not drops else 0,
        ))  # fmt: skip
    least, absent = rule.least, tuple(asked.absent)
    return how, Averaging(least, absent, drops, asked.ignore, rule.weighted)


def averaged_vjp(
    backend: Backend, places: SamplePoints, upstream: Array, image: Array, asked: CheckedCall,
    options: Options, rule: Rule, needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None] | None:  # fmt: skip
    """Compute the gradients of `averaged` by one kernel; None if the backend has none."""
    found = averaging_of(backend, places, image, asked, options, rule)
    if found is None or 0 in upstream.shape:
        return None
    how, averaging = found
    arrays = [asked.image, places.array, *([] if asked.weights is None else [asked.weights])]
    if not backend.averages([*arrays, upstream], how, True):
        return None
    if len(arrays) == 2 and not averaging.drops and has_no_nan(backend, image):
        return None  # plain gradients are faster
    needed = needed[0], needed[1], needed[2] and len(arrays) > 2
    *gradients, doubtful = places.average_backward(upstream, arrays, how, averaging, needed)
    if doubtful:
        check_entries(backend, arrays[2])
    first, second, third = gradients
    return first, second, third


def plain_weight(backend: Backend, places: SamplePoints, call: Call) -> Array:
    """Sum the weights of all taps, known numbers outside included: 1 for most methods."""
    image, how = call.image, call.how
    names = [EVEN.get(one, one) for one in how.padding_mode]
    names = ["constant" if one == "zeros" else one for one in names]
    fill = 1 if "constant" in names or not how.extrapolates() else 0
    ones = backend.full((1, 1, *image.shape[2:]), 1, sum_type(backend, image, places.array), image)
    how = places.resolve_options(
        back(backend, ones, call.last),
        how.changed(padding_mode=tuple(names), fill_value=fill, prefilter=False),
    )
    return places.gather(ones, how, ones.dtype)


# Gradients ----------------------------------------------------------------------------------------


def sample_vjp(
    backend: Backend, places: SamplePoints, upstream: Array, image: Array, weights: Array | None,
    options: Options, rule: Rule, needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the vector-Jacobian product of `sample` with an upstream gradient.

    Returns:
        The needed gradients of the image, the points and the weights, in the caller's layout.
    """
    asked = asked_of(backend, places, image, weights, options, rule)
    last = asked.last
    shape = out_shape(backend.shape(image), places.points, last)
    upstream = planes(backend, check_upstream(backend, upstream, image, shape), last)
    if needed[0]:
        check_differentiable(backend, image)
    found = averaged_vjp(backend, places, upstream, image, asked, options, rule, needed)
    if found is None:
        call = prepared(backend, places, image, weights, options, rule)
        if call.parts is None:
            pair = gradients_at(backend, places, upstream, call.image, call.how, needed[:2])
            found = *pair, None
        else:
            found = gradients(backend, places, call, rule, upstream, needed)
    first, second, third = found
    if first is not None:
        first = back(backend, backend.astype(first, image.dtype), last)
    if third is not None and weights is not None:
        kind = weights.dtype if is_differentiable(backend, weights) else third.dtype
        third = back(backend, backend.astype(third, kind), last)
    return first, second, third
