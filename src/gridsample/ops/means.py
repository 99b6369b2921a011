"""Means over the pixels that count: sampling with missing pixels and weights.

    out = sum(w m v) / sum(w m)

Both sums are samples of images, m v and m (`gridsample.ops.missing`).  They are stacked as channels
of one image, so that they take one sweep over the taps.  A tap that the boundary drops is a known
number, with m = 1, or counts for nothing under the boundary "missing".  Everything here is plain
array work on samples; where an array library differentiates those, its derivatives of any order
follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from gridsample.backends import Backend
from gridsample.definitions.options import Options, fill_numbers
from gridsample.definitions.plan import BOUNDARIES, MISSING, Shape, per_axis
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
    Planes,
    Rule,
    check_rule,
    check_weights,
    has_no_nan,
    laid_out,
    numbers,
    stored,
    without_missing,
)

# The even boundary that folds like an odd one.  A weight has no sign to change.
EVEN = {"antisymmetric": "symmetric", "antimirror": "mirror"}


# Where samples are taken --------------------------------------------------------------------------


class Places(Protocol):
    """Points at which images are sampled.

    Attributes:
        array: a grid or affine maps.
        points: the shape of the grid, (N, *out, D), also of one that maps represent.
    """

    array: Array
    points: Shape

    def settle(self, image: Array, options: Options) -> Options:
        """Check the options for an image in the caller's layout."""
        ...

    def gather(self, image: Array, how: Options, dtype: Any) -> Array:
        """Sample an image (N, C, *spatial)."""
        ...

    def backward(
        self, values: Array, image: Array, how: Options, needed: tuple[bool, bool], dtype: Any
    ) -> tuple[Array | None, Array | None]:
        """Compute the needed gradients of gather with respect to the image and the points."""
        ...


class OnGrid:
    """The points of a grid."""

    def __init__(self, backend: Backend, grid: Array) -> None:
        self.backend, self.array, self.points = backend, grid, backend.shape(grid)

    def settle(self, image: Array, options: Options) -> Options:
        """Check the options."""
        return self.backend.settle(image, self.array, options)

    def gather(self, image: Array, how: Options, dtype: Any) -> Array:
        """Sample an image."""
        return self.backend.gather(image, self.array, how, dtype)

    def backward(
        self, values: Array, image: Array, how: Options, needed: tuple[bool, bool], dtype: Any
    ) -> tuple[Array | None, Array | None]:
        """Compute the needed gradients of image and grid."""
        return self.backend.backward(values, image, self.array, how, needed, dtype)


# The boundaries of both images --------------------------------------------------------------------


class Term(NamedTuple):
    """An image whose samples are sums, and the options of its samples."""

    image: Array
    how: Options


class Terms(NamedTuple):
    """What is sampled to get both sums.

    Attributes:
        sums: images whose samples are, one after the other, the sums of m v and m.
        share: two images of ones; the difference of their samples is the share of each point's
            weight that is on known numbers outside, if that takes samples of its own.
        fill: the known number outside of each channel, (1, C, 1, ...), for ``share``.
        inside: an image of ones, whose sample is 0 where a position is outside and has the fill
            value; None if no such position is to be found.
    """

    sums: Sequence[Term]
    share: Sequence[Term] = ()
    fill: Array | None = None
    inside: Term | None = None


def terms_of(
    backend: Backend, places: Places, parts: Planes, options: Options, rule: Rule,
    fill: Sequence[Any], last: bool,
) -> Terms:  # fmt: skip
    """Decide how both images continue outside; see `Rule` and `Terms`."""
    values, mask = parts.values, parts.mask
    xp, rank = backend.xp, len(values.shape) - 2
    given = per_axis(options.padding_mode if rule.missing is None else rule.missing, rank, "")
    dropping = {name for name in given if name in ("zeros", "constant", MISSING)}
    plain = options.changed(prefilter=False, fill_value=0)

    def term(image: Array, names: Sequence[str], fills: Any = 0, **more: Any) -> Term:
        how = plain.changed(padding_mode=tuple(names), fill_value=fills, **more)
        return Term(image, places.settle(back(backend, image, last), how))

    def swapped(names: Sequence[str], **by: str) -> list[str]:
        return [by.get(name, name) for name in names]

    channels, masks = values.shape[1], mask.shape[1]
    fills = list(fill) * (channels if len(fill) == 1 else 1) or [0] * channels
    outer = fills if "constant" in dropping else [0] * channels
    ones = backend.full((1, 1, *values.shape[2:]), 1, mask.dtype, values)
    share: Sequence[Term] = ()
    inside = None
    by_channel = None
    if len(dropping) > 1:  # what is dropped along one axis is known, along another it is not
        names = swapped(given, zeros="zeros", constant="zeros", missing="zeros")
        first = swapped(given, zeros="border", constant="border", missing="zeros", **EVEN)
        share = term(ones, first), term(ones, swapped(names, **EVEN))
        by_channel = numbers(backend, outer, values)
        after: tuple[Any, Any] = 0, 0
    elif MISSING in dropping:
        names, after = swapped(given, missing="zeros"), (0, 0)
    elif dropping or not options.extrapolate:
        names = swapped(given, zeros="constant")
        beyond = fills if not dropping else outer
        after = beyond, [1] * masks
        if "zeros" in dropping and not options.extrapolate and any(fills):
            inside = term(ones, ["border"] * rank, mode="nearest")
    else:
        names, after = list(given), (0, 0)
    even = swapped(names, **EVEN)
    if even != names:  # values change their sign outside, weights do not
        sums = [term(values, names, after[0]), term(mask, even, after[1])]
    else:
        items = max(values.shape[0], mask.shape[0])
        each = [
            one if one.shape[0] == items else xp.broadcast_to(one, (items, *one.shape[1:]))
            for one in (values, backend.astype(mask, values.dtype))
        ]
        both = [*after[0], *after[1]] if after[0] or after[1] else 0
        sums = [term(xp.concatenate(each, 1), names, both)]
    return Terms(sums, share, by_channel, inside)


# Means --------------------------------------------------------------------------------------------


class Mean(NamedTuple):
    """The means of all points, and what their gradients need.

    Attributes:
        result: sum(w m v) / sum(w m), (N, C, *out), or the number of missing results.
        weight: sum(w m), (N, 1 or C, *out), real.
        known: where that is large enough; False where a coordinate is NaN.
    """

    result: Array
    weight: Array
    known: Array


def sums_of(backend: Backend, places: Places, terms: Terms, channels: int) -> tuple[Array, Array]:
    """Sample both images: sum(w m v), (N, C, *out), and sum(w m), (N, 1 or C, *out)."""
    parts = [places.gather(one.image, one.how, one.image.dtype) for one in terms.sums]
    if len(parts) == 1:
        parts = [parts[0][:, :channels], parts[0][:, channels:]]
    above, below = parts[0], backend.xp.real(parts[1])
    if terms.share:
        share = share_of(backend, places, terms)
        below = backend.xp.add(below, share)
        above = backend.xp.add(above, backend.xp.multiply(terms.fill, share))
    return above, below


def share_of(backend: Backend, places: Places, terms: Terms) -> Array:
    """Compute the share of each point's weight that is on known numbers outside."""
    xp = backend.xp
    first, second = [places.gather(one.image, one.how, one.image.dtype) for one in terms.share]
    share = xp.subtract(first, second)
    # Both are rounded: what remains of equal shares is none.
    rounded = xp.less_equal(xp.abs(share), 16 * float(xp.finfo(share.dtype).eps))
    return xp.where(rounded, 0, share)


def divided(
    backend: Backend, above: Array, below: Array, rule: Rule, fill: Sequence[Any], always: Any
) -> Mean:
    """Divide both sums where a result is not missing.

    Args:
        backend: the backend.
        above: sum(w m v).
        below: sum(w m).
        rule: the rule.
        fill: the number of missing results, or one per channel; empty for NaN.
        always: an array of one flag: whether any pixel is missing.  If not, the sum is not divided,
            so that it stays what it is.  True if it is to be divided anyway.
    """
    xp = backend.xp
    if always is not True:
        below = xp.where(always, below, xp.where(xp.isnan(below), below, 1))
    known, missing = xp.greater(below, rule.least), xp.less_equal(below, rule.least)
    with backend.quiet():
        # A divisor of 0 is replaced, so that no derivative is NaN.
        quotient = xp.divide(above, xp.where(known, below, 1))
    other = numbers(backend, fill, above) if fill else math.nan
    result = backend.astype(xp.where(missing, other, quotient), above.dtype)
    return Mean(result, xp.where(xp.isnan(below), 0, below), known)


class Call(NamedTuple):
    """A call of sampling with a rule, after all checks.

    Attributes:
        image: the image, (N, C, *spatial).
        how: the checked options of plain sampling.
        parts: the planes; None if nothing is missing or weighted, and sampling is plain.
        terms: what is sampled.
        fill: the number of missing results, or one per channel; empty for NaN.
        last: whether the caller's channels come last.
    """

    image: Array
    how: Options
    parts: Planes | None
    terms: Terms
    fill: Sequence[Any]
    last: bool


def prepared(
    backend: Backend, places: Places, image: Array, weights: Array | None, options: Options,
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
    plain = options.changed(
        padding_mode=without_missing(options.padding_mode, "border"), fill_value=0
    )
    how = places.settle(image, plain)
    last = how.channels_last()
    shape, items = backend.shape(image), backend.shape(places.array)[0]
    channels = shape[-1 if last else 1]
    fill = fill_numbers(options, True, image.dtype, channels)
    filled = not how.extrapolate or any([BOUNDARIES[name].filled for name in how.padding_mode])
    ignore = rule.ignore and is_differentiable(backend, image)
    if rule._replace(ignore=ignore).counts():
        check_rule(how)
    pixels = planes(backend, image, last)
    if weights is not None:
        check_weights(backend, weights, shape, max(shape[0], items), last)
        weights = planes(backend, weights, last)
    bare = weights is None and rule.missing is None
    if bare and (not ignore or has_no_nan(backend, image)):
        if fill and filled:
            how = places.settle(image, options)
        return Call(pixels, how, None, Terms(()), (), last)
    kind = pixels.dtype
    if backend.type_name(kind) not in ("float32", "float64", "complex64", "complex128"):
        kind = coefficient_type(backend, image, places.array)
    parts = laid_out(backend, pixels, weights, ignore, kind)
    terms = terms_of(backend, places, parts, options, rule, fill, last)
    # A missing result has the fill value if the call has one, which may be 0 if it is used.
    other = fill or ((0,) if filled or not is_differentiable(backend, image) else ())
    return Call(pixels, how, parts, terms, other, last)


def mean_of(backend: Backend, places: Places, call: Call, rule: Rule) -> Mean:
    """Compute the means of a call that is not plain."""
    parts, terms = call.parts, call.terms
    assert parts is not None
    above, below = sums_of(backend, places, terms, parts.values.shape[1])
    bare = parts.weights is None and rule.missing is None
    mean = divided(backend, above, below, rule, call.fill, parts.holes if bare else True)
    if terms.inside is None:
        return mean
    inside = places.gather(terms.inside.image, terms.inside.how, terms.inside.image.dtype)
    outside, xp = backend.xp.equal(inside, 0), backend.xp
    other = numbers(backend, call.fill, above)
    return Mean(
        xp.where(outside, other, mean.result),
        mean.weight,
        xp.logical_and(mean.known, xp.logical_not(outside)),
    )


def sample(
    backend: Backend, places: Places, image: Array, weights: Array | None, options: Options,
    rule: Rule,
) -> tuple[Array, Array | None, Options]:  # fmt: skip
    """Sample an image with a rule; the arguments are those of `prepared`.

    Returns:
        The result (N, C, *out) in the image's dtype; the sum of weights, (N, C, *out), if the rule
        asks for it, else None; and the checked options of plain sampling.
    """
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
    if weight.shape[1] != pixels.shape[1]:
        weight = backend.xp.concatenate([weight] * pixels.shape[1], 1)
    return result, weight, how


def plain_weight(backend: Backend, places: Places, call: Call) -> Array:
    """Sum the weights of all taps, known numbers outside included: 1 for most methods."""
    image, how, xp = call.image, call.how, backend.xp
    names = [EVEN.get(one, one) for one in how.padding_mode]
    names = ["constant" if one == "zeros" else one for one in names]
    fill = 1 if "constant" in names or not how.extrapolate else 0
    ones = backend.full((1, 1, *image.shape[2:]), 1, sum_type(backend, image, places.array), image)
    how = places.settle(
        back(backend, ones, call.last),
        how.changed(padding_mode=tuple(names), fill_value=fill, prefilter=False),
    )
    weight = places.gather(ones, how, ones.dtype)
    return xp.where(xp.isnan(weight), 0, weight)


# Gradients ----------------------------------------------------------------------------------------


def sample_vjp(
    backend: Backend, places: Places, upstream: Array, image: Array, weights: Array | None,
    options: Options, rule: Rule, needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the vector-Jacobian product of `sample` with an upstream gradient.

    Returns:
        The needed gradients of the image, the points and the weights, in the caller's layout.
    """
    call = prepared(backend, places, image, weights, options, rule)
    last = call.last
    shape = out_shape(backend.shape(image), places.points, last)
    upstream = planes(backend, check_upstream(backend, upstream, image, shape), last)
    if needed[0]:
        check_differentiable(backend, image)
    if call.parts is None:
        first, second = plain_vjp(backend, places, upstream, call, needed[:2])
        third = None
    else:
        first, second, third = gradients(backend, places, call, rule, upstream, needed)
    if first is not None:
        first = back(backend, backend.astype(first, image.dtype), last)
    if third is not None and weights is not None:
        kind = weights.dtype if is_differentiable(backend, weights) else third.dtype
        third = back(backend, backend.astype(third, kind), last)
    return first, second, third


def plain_vjp(
    backend: Backend, places: Places, upstream: Array, call: Call, needed: tuple[bool, bool]
) -> tuple[Array | None, Array | None]:
    """Compute the gradients of plain sampling, (N, C, *spatial) and those of the points."""
    image, how = call.image, call.how
    if not how.prefilter:
        return places.backward(upstream, image, how, needed, image.dtype)
    kind = coefficient_type(backend, image, places.array)
    source = filtered(backend, image, places.array, how) if needed[1] else image
    first, second = places.backward(upstream, source, how, needed, kind)
    if first is not None:
        first = filtered(backend, first, places.array, how, adjoint=True)
    return first, second


def gradients(
    backend: Backend, places: Places, call: Call, rule: Rule, upstream: Array,
    needed: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the needed gradients of the means of a call that is not plain.

    With n and d the sums of m v and m, the quotient rule gives the gradients of both,

        g / d   and   - sum over the channels that share d of Re(conj(g) n / d) / d

    and sampling's own gradients take them on to m v, m and the points.

    Args:
        backend: the backend.
        places: the points.
        call: the call.
        rule: the rule.
        upstream: the upstream gradient g, (N, C, *out), real for a real image.
        needed: whether the gradients of the image, the points and the weights are needed.

    Returns:
        The gradients of the image (N, C, *spatial), the points, and the weights
        (N or 1, 1 or C, *spatial).
    """
    parts, xp = call.parts, backend.xp
    assert parts is not None
    kind = parts.values.dtype
    mean = mean_of(backend, places, call, rule)
    weight = xp.where(mean.known, mean.weight, 1)
    with backend.quiet():
        of_values = xp.where(mean.known, xp.divide(backend.astype(upstream, kind), weight), 0)
        product = xp.multiply(xp.conj(of_values), mean.result)
        of_mask = xp.negative(xp.real(xp.where(mean.known, product, 0)))
    bare = parts.weights is None and rule.missing is None
    if bare and parts.holes is not True:
        of_mask = xp.where(parts.holes, of_mask, 0)
    if parts.mask.shape[1] == 1:
        of_mask = xp.sum(of_mask, 1)[:, None]
    of_mask = backend.astype(of_mask, kind)
    by_values, by_mask, by_points = swept(
        backend, places, call.terms, of_values, of_mask, (needed[0] or needed[2], needed[1])
    )
    by_image = by_weights = None
    if needed[0]:
        by_image = by_values if parts.weights is None else xp.multiply(by_values, parts.weights)
        if parts.lost is not None:
            by_image = xp.where(parts.lost, 0, by_image)
        by_image = summed(backend, by_image, call.image.shape)
    if needed[2] and parts.weights is not None:
        product = xp.real(xp.multiply(by_values, xp.conj(parts.pixels)))
        by_mask = xp.real(by_mask)
        if by_mask.shape[1] == product.shape[1]:
            both = xp.add(by_mask, product)
        else:
            both = xp.add(by_mask, xp.sum(product, 1)[:, None])
        if parts.lost is not None:
            both = xp.where(parts.lost, 0, both) if parts.mask.shape[1] > 1 else both
        by_weights = summed(backend, both, parts.weights.shape)
    return by_image, by_points, by_weights


def swept(
    backend: Backend, places: Places, terms: Terms, of_values: Array, of_mask: Array,
    needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """Compute the gradients of m v, m and the points from those of the samples of both images."""
    xp, channels, by_points = backend.xp, of_values.shape[1], []
    if len(terms.sums) == 1:
        upstreams = [xp.concatenate([of_values, of_mask], 1)]
    else:
        upstreams = [of_values, xp.real(of_mask)]
    images = []
    for one, upstream in zip(terms.sums, upstreams, strict=True):
        first, second = places.backward(upstream, one.image, one.how, needed, one.image.dtype)
        images.append(first)
        by_points.append(second)
    if terms.share and needed[1]:
        share = share_of(backend, places, terms)
        onto = xp.add(
            xp.sum(xp.real(xp.multiply(xp.conj(of_values), terms.fill)), 1)[:, None],
            xp.sum(xp.real(of_mask), 1)[:, None],
        )
        onto = xp.where(xp.equal(share, 0), 0, onto)
        for one, sign in zip(terms.share, (xp.positive, xp.negative), strict=True):
            found = places.backward(sign(onto), one.image, one.how, (False, True), one.image.dtype)
            by_points.append(found[1])
    total = by_points[0]
    for one in by_points[1:]:
        total = xp.add(total, one)
    if images[0] is None:
        return None, None, total
    if len(images) == 1:
        images = [images[0][:, :channels], images[0][:, channels:]]
    return images[0], images[1], total


def summed(backend: Backend, gradient: Array, shape: Shape) -> Array:
    """Sum a gradient over the axes N and C along which an array of a shape was broadcast."""
    xp = backend.xp
    for axis in (0, 1):
        if gradient.shape[axis] != shape[axis]:
            gradient = xp.sum(gradient, axis)[None] if axis == 0 else xp.sum(gradient, 1)[:, None]
    return gradient
