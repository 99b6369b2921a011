"""Means over the pixels that count, where no kernel computes them: quotients of two sums.

Both sums are samples of images, m v and m (`gridsample.ops.missing`).  They are stacked as channels
of one image, so that they take one sweep over the taps.  A tap that the boundary drops is a known
number, with m = 1, or counts for nothing under the boundary "missing".  Everything here is plain
array work on samples; where an array library differentiates those, its derivatives of any order
follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.options import Options
from gridsample.definitions.plan import BOUNDARIES, MISSING, Shape, per_axis
from gridsample.ops.arrays import Array, back
from gridsample.ops.missing import Planes, Rule, numbers, stacked
from gridsample.ops.points import SamplePoints

# The even boundary that folds like an odd one, of each that has one.
EVEN = {
    odd.name: even.name
    for odd, even in itertools.product(BOUNDARIES.values(), repeat=2)
    if odd.odd and not even.odd and (odd.code, odd.edge) == (even.code, even.edge)
}


# The boundaries of both images --------------------------------------------------------------------


class Term(NamedTuple):
    """An image whose samples are sums, and the options of its samples."""

    image: Array
    options: Options


class Terms(NamedTuple):
    """What is sampled to get both sums.

    Attributes:
        sums: images whose samples are, one after the other, the sums of m v and m.
        share: two images of ones; the difference of their samples is the share of each point's
            weight that is on known numbers outside, if that takes samples of its own.
        signed_share: the same with the signs of odd boundaries, which fill values have, too.
        fill: the known number outside of each channel, for ``share``.
    """

    sums: Sequence[Term]
    share: Sequence[Term] = ()
    signed_share: Sequence[Term] = ()
    fill: Sequence[Any] = ()


def terms_of(
    points: SamplePoints, parts: Planes, options: Options, rule: Rule, fill: Sequence[Any],
    last: bool,
) -> Terms:  # fmt: skip
    """Decide how both images continue outside, and whether one sweep can sample them.

    A weight has no sign to change, so m continues as under an even boundary.

    Args:
        points: the points.
        parts: both images.
        options: the options as the caller gave them.
        rule: the rule.
        fill: the fill value: one number, one per channel, or empty for 0.
        last: whether the caller's channels come last.
    """
    backend = points.backend
    both, channels = stacked(backend, parts), parts.values.shape[1]
    masks = parts.mask.shape[1]
    boundaries = per_axis(options.padding_mode if rule.missing is None else rule.missing,
                     len(both.shape) - 2, "padding_mode")  # fmt: skip
    known_names = [name for name in boundaries if name != MISSING]
    dropping = {*boundaries} - {name for name in known_names if not BOUNDARIES[name].drops}
    used = any([BOUNDARIES[name].filled for name in known_names]) or not options.extrapolates()
    fills = list(fill) * (channels if len(fill) == 1 else 1) if fill and used else [0] * channels

    def term(image: Array, fills: Sequence[Any] = (), **names: str) -> Term:
        term_options = options.changed(
            padding_mode=tuple([names.get(name, name) for name in boundaries]),
            fill_value=list(fills) if any([fill != 0 for fill in fills]) else 0,
            prefilter=False,
        )
        return Term(image, points.resolve_options(back(backend, image, last), term_options))

    if MISSING in dropping:
        share, signed_share = list[Term](), list[Term]()
        odd = bool({*boundaries} & EVEN.keys())
        if len(dropping) > 1:  # what is dropped along one axis is known, along another it is not
            ones = backend.full((1, 1, *both.shape[2:]), 1, parts.mask.dtype, both)
            extended = {"zeros": "border", "constant": "border", "missing": "zeros"}
            dropped = {"constant": "zeros", "missing": "zeros"}
            share = [term(ones, **names, **EVEN) for names in (extended, dropped)]
            if odd and any(fills):
                signed_share = [term(ones, **names) for names in (extended, dropped)]
        names = {"constant": "zeros", "missing": "zeros"}
        if not odd:
            return Terms([term(both, **names)], share, signed_share, fills)
        mask = backend.xp.real(both[:, channels:])
        sums = [term(both[:, :channels], **names), term(mask, **names, **EVEN)]
        return Terms(sums, share, signed_share, fills)
    known = [1] * masks if dropping or not options.extrapolates() else []
    # Under "zeros", fills are of positions outside, not of dropped taps.  Values change their sign
    # outside where weights do not.  And where it is not known whether any pixel is missing, values
    # are sampled exactly as if none were, so that they get the same bits.
    apart = ("zeros" in dropping and any(fills)) or bool({*boundaries} & EVEN.keys())
    if apart or not isinstance(parts.any_missing, bool):
        mask = backend.xp.real(both[:, channels:])
        return Terms([term(both[:, :channels], fills), term(mask, known, zeros="constant", **EVEN)])
    return Terms([term(both, [*fills, *known] if known else (), zeros="constant")])


# Means --------------------------------------------------------------------------------------------


class Mean(NamedTuple):
    """The means of all points, and what their gradients need.

    Attributes:
        result: sum(w m v) / sum(w m), (N, C, *out), or the number of missing results.
        weight: sum(w m), (N, 1 or C, *out), real; NaN where a coordinate is NaN.
        known: where that is large enough; False where a coordinate is NaN.
    """

    result: Array
    weight: Array
    known: Array


class Quotient(NamedTuple):
    """The means of an image at points, as quotients of sums.

    Attributes:
        points: the points.
        parts: the images m v and m.
        terms: what is sampled.
        rule: the rule.
        fill: the number of missing results, or one per channel; empty for NaN.
    """

    points: SamplePoints
    parts: Planes
    terms: Terms
    rule: Rule
    fill: Sequence[Any]


def mean_of(quotient: Quotient) -> Mean:
    """Compute the means."""
    points, parts, terms, rule, fill = quotient
    above, below = sums_of(points, terms, parts.values.shape[1])
    unweighted = parts.weights is None and rule.missing is None
    always = parts.any_missing if unweighted else True
    return divided(points.backend, above, below, rule, fill, always)


def sums_of(points: SamplePoints, terms: Terms, channels: int) -> tuple[Array, Array]:
    """Sample both images: sum(w m v), (N, C, *out), and sum(w m), (N, 1 or C, *out)."""
    backend = points.backend
    parts = [points.gather(term.image, term.options, term.image.dtype) for term in terms.sums]
    if len(parts) == 1:
        parts = [parts[0][:, :channels], parts[0][:, channels:]]
    above, below = parts[0], backend.xp.real(parts[1])
    if terms.share:
        share = share_of(points, terms.share)
        signed = share_of(points, terms.signed_share) if terms.signed_share else share
        below = backend.xp.add(below, share)
        above = backend.xp.add(
            above, backend.xp.multiply(numbers(backend, terms.fill, above), signed)
        )
    return above, below


def share_of(points: SamplePoints, terms: Sequence[Term]) -> Array:
    """Compute the share of each point's weight that is on known numbers outside; see `Terms`."""
    backend, xp = points.backend, points.backend.xp
    first, second = [points.gather(term.image, term.options, term.image.dtype) for term in terms]
    share = xp.subtract(first, second)
    # The difference of equal shares is only rounding.
    unit = np.finfo(backend.type_name(share.dtype)).eps
    rounded = xp.less_equal(xp.abs(share), 16 * float(unit))
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
    return Mean(result, below, known)


def widened(backend: Backend, weight: Array, shape: Shape) -> Array:
    """Repeat the weights of results where items or channels share them; NaN becomes 0."""
    weight = backend.xp.where(backend.xp.isnan(weight), 0, weight)
    for axis in (0, 1):
        if weight.shape[axis] != shape[axis]:
            weight = backend.xp.concatenate([weight] * shape[axis], axis)
    return weight


# Gradients ----------------------------------------------------------------------------------------


def mean_gradients(
    quotient: Quotient, upstream: Array, shape: Shape, needed: tuple[bool, bool, bool]
) -> tuple[Array | None, Array | None, Array | None]:
    """Compute the needed gradients of means.

    With n and d the sums of m v and m, the quotient rule gives the gradients of both,

        g / d   and   - sum over the channels that share d of Re(conj(g) n / d) / d

    and sampling's own gradients take them on to m v, m and the points.

    Args:
        quotient: the means.
        upstream: the upstream gradient g, (N, C, *out), real for a real image.
        shape: the shape of the image, (N, C, *spatial).
        needed: whether the gradients of the image, the points and the weights are needed.

    Returns:
        The gradients of the image (N, C, *spatial), the points, and the weights
        (N or 1, 1 or C, *spatial).
    """
    points, parts, terms, rule, _ = quotient
    backend = points.backend
    of_values, of_mask = of_sums(backend, parts, mean_of(quotient), rule, upstream)
    by_values, by_mask, by_points = swept(
        points, terms, of_values, of_mask, (needed[0] or needed[2], needed[1])
    )
    pair = by_pixels(backend, parts, by_values, by_mask, shape, (needed[0], needed[2]))
    return pair[0], by_points, pair[1]


def of_sums(
    backend: Backend, parts: Planes, mean: Mean, rule: Rule, upstream: Array
) -> tuple[Array, Array]:
    """Compute the gradients of both sums from that of the means, by the quotient rule."""
    xp, dtype = backend.xp, parts.values.dtype
    weight = xp.where(mean.known, mean.weight, 1)
    with backend.quiet():
        of_values = xp.where(mean.known, xp.divide(backend.astype(upstream, dtype), weight), 0)
        product = xp.multiply(xp.conj(of_values), mean.result)
        of_mask = xp.negative(xp.real(xp.where(mean.known, product, 0)))
    if parts.weights is None and rule.missing is None and parts.any_missing is not True:
        of_mask = xp.where(parts.any_missing, of_mask, 0)
    if parts.mask.shape[1] == 1:
        of_mask = xp.sum(of_mask, 1)[:, None]
    return of_values, backend.astype(of_mask, dtype)


def by_pixels(
    backend: Backend, parts: Planes, by_values: Array, by_mask: Array, shape: Shape,
    needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute the gradients of an image of a shape, and of its weights, from those of m v and m."""
    xp, missing, weights = backend.xp, parts.missing, parts.weights
    by_image = by_weights = None
    if needed[0]:
        by_image = by_values if weights is None else xp.multiply(by_values, weights)
        if missing is not None:
            by_image = xp.where(missing, 0, by_image)
        by_image = summed(backend, by_image, shape)
    if needed[1] and weights is not None:
        by_mask = xp.real(by_mask)
        if missing is not None:
            by_mask = xp.where(missing[:, : by_mask.shape[1]], 0, by_mask)
        product = xp.real(xp.multiply(by_values, xp.conj(parts.pixels)))
        if by_mask.shape[1] != product.shape[1]:
            product = xp.sum(product, 1)[:, None]
        by_weights = summed(backend, xp.add(by_mask, product), weights.shape)
    return by_image, by_weights


def swept(
    points: SamplePoints, terms: Terms, of_values: Array, of_mask: Array, needed: tuple[bool, bool]
) -> tuple[Array | None, Array | None, Array | None]:
    """Compute the gradients of m v, m and the points from those of the samples of both images."""
    backend, channels, by_points = points.backend, of_values.shape[1], []
    xp = backend.xp
    if len(terms.sums) == 1:
        upstreams = [xp.concatenate([of_values, of_mask], 1)]
    else:
        upstreams = [of_values, xp.real(of_mask)]
    images = []
    for term, upstream in zip(terms.sums, upstreams, strict=True):
        first, second = points.backward(
            upstream, term.image, term.options, needed, term.image.dtype
        )
        images.append(first)
        by_points.append(second)
    if terms.share and needed[1]:
        fill = numbers(backend, terms.fill, of_values)
        by_fill = xp.sum(xp.real(xp.multiply(xp.conj(of_values), fill)), 1)[:, None]
        by_share = xp.sum(xp.real(of_mask), 1)[:, None]
        inside = share_of(points, terms.share) == 0
        if terms.signed_share:
            by_fill = xp.where(inside, 0, by_fill)
            by_points += share_backward(points, terms.signed_share, by_fill, xp)
        else:
            by_share = xp.add(by_fill, by_share)
        by_points += share_backward(points, terms.share, xp.where(inside, 0, by_share), xp)
    total = by_points[0]
    for other in by_points[1:]:
        total = xp.add(total, other)
    if images[0] is None:
        return None, None, total
    if len(images) == 1:
        images = [images[0][:, :channels], images[0][:, channels:]]
    return images[0], images[1], total


def share_backward(
    points: SamplePoints, terms: Sequence[Term], upstream: Array, xp: Any
) -> list[Array]:
    """Compute the gradient of `share_of` with respect to the points, as two summands."""
    return [
        points.backward(sign(upstream), term.image, term.options, (False, True), term.image.dtype)[
            1
        ]
        for term, sign in zip(terms, (xp.positive, xp.negative), strict=True)
    ]


def summed(backend: Backend, gradient: Array, shape: Shape) -> Array:
    """Sum a gradient over the axes N and C along which an array of a shape was broadcast."""
    xp = backend.xp
    for axis in (0, 1):
        if gradient.shape[axis] != shape[axis]:
            gradient = xp.sum(gradient, axis)[None] if axis == 0 else xp.sum(gradient, 1)[:, None]
    return gradient
