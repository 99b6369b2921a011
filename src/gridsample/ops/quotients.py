"""Means over the pixels that count, where no kernel computes them: quotients of two sums.

    out = sum(w m v) / sum(w m)

Both sums are the same linear operator applied to two images, m v and m (`gridsample.ops.missing`):
`PointSampling` here, and resizing in `gridsample.ops.resized_means`.  The images are stacked as
channels of one image, so that they take one sweep over the taps.  A tap that the boundary drops is
a known number, with m = 1, or counts for nothing under the boundary "missing".  Everything here is
plain array work on the sums; where an array library differentiates those, its derivatives of any
order follow.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from gridsample.backends.base import Backend, Gradients, Needed
from gridsample.backends.rounding import numbers
from gridsample.definitions.boundaries import BOUNDARIES, MISSING
from gridsample.definitions.coords import find_ends
from gridsample.definitions.methods import per_axis
from gridsample.definitions.options import Options
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.ops.arrays import Array, back
from gridsample.ops.missing import CountingRule, Planes, by_parts, stacked
from gridsample.ops.points import SamplePoints

# For each odd boundary, the even one that folds in the same way, if there is one.
EVEN = {
    odd.name: even.name
    for odd, even in itertools.product(BOUNDARIES.values(), repeat=2)
    if odd.odd and not even.odd and (odd.code, odd.edge) == (even.code, even.edge)
}
# Other boundaries in place of those that drop taps: with a fill value; without; with edge pixels.
DROPPING = [boundary.name for boundary in BOUNDARIES.values() if boundary.drops]
KNOWN = dict.fromkeys(DROPPING, "constant")
DROPPED = dict.fromkeys([*DROPPING, MISSING], "zeros")
EXTENDED = dict.fromkeys(DROPPING, "border") | {MISSING: "zeros"}


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
    points: SamplePoints,
    parts: Planes,
    request: Request,
    rule: CountingRule,
    fill: Sequence[Any],
    last: bool,
) -> Terms:
    """Choose the boundaries of both images, and whether one sweep can sample them.

    A weight has no sign to change, so m continues as under an even boundary.

    Args:
        points: the points.
        parts: both images.
        request: the options as the caller gave them.
        rule: the rule.
        fill: the fill value: one number, one per channel, or empty for 0.
        last: whether the caller's channels come last.
    """
    backend = points.backend
    stacked_planes, channels = stacked(backend, parts), parts.values.shape[1]
    masks = parts.mask.shape[1]
    boundaries = per_axis(
        request.padding_mode if rule.missing is None else rule.missing,
        len(stacked_planes.shape) - 2,
        "padding_mode",
    )
    known_names = [name for name in boundaries if name != MISSING]
    dropping = {*boundaries} - {name for name in known_names if not BOUNDARIES[name].drops}
    extrapolates = not find_ends(
        request.extrapolate, request.coords, request.align_corners, len(boundaries)
    )
    blends = any([BOUNDARIES[name].filled for name in known_names])
    used = bool(fill) and (blends or not (extrapolates or MISSING in dropping))
    fills = list(fill) * (channels if len(fill) == 1 else 1) if used else [0] * channels

    def term(image: Array, fills: Sequence[Any] = (), **names: str) -> Term:
        term_request = request.changed(
            padding_mode=tuple([names.get(name, name) for name in boundaries]),
            fill_value=list(fills) if any([fill != 0 for fill in fills]) else 0,
            prefilter=False,
        )
        return Term(image, points.resolve_options(back(backend, image, last), term_request))

    if MISSING in dropping:
        share, signed_share = list[Term](), list[Term]()
        odd = bool({*boundaries} & EVEN.keys())
        if len(dropping) > 1:  # what is dropped along one axis is known, along another it is not
            ones = backend.full(
                (1, 1, *stacked_planes.shape[2:]), 1, parts.mask.dtype, stacked_planes
            )
            share = [term(ones, **names, **EVEN) for names in (EXTENDED, DROPPED)]
            if odd and any(fills):
                signed_share = [term(ones, **names) for names in (EXTENDED, DROPPED)]
        if not odd:
            return Terms([term(stacked_planes, **DROPPED)], share, signed_share, fills)
        mask = backend.xp.real(stacked_planes[:, channels:])
        sums = [term(stacked_planes[:, :channels], **DROPPED), term(mask, **DROPPED, **EVEN)]
        return Terms(sums, share, signed_share, fills)
    known = [1] * masks if dropping or not extrapolates else []
    # Under "zeros", fills are of positions outside, not of dropped taps.  Values change their sign
    # outside where weights do not.  And where it is not known whether any pixel is missing, values
    # are sampled exactly as if none were, so that they get the same bits.
    unfilled = any([not BOUNDARIES[name].filled for name in dropping])
    separate = (unfilled and any(fills)) or bool({*boundaries} & EVEN.keys())
    if separate or not isinstance(parts.any_missing, bool):
        mask = backend.xp.real(stacked_planes[:, channels:])
        return Terms(
            [term(stacked_planes[:, :channels], fills), term(mask, known, **KNOWN, **EVEN)]
        )
    return Terms([term(stacked_planes, [*fills, *known] if known else (), **KNOWN)])


# The operators ------------------------------------------------------------------------------------


class LinearOperator(Protocol):
    """A linear operator, which is applied to both images."""

    def sums(self, parts: Planes) -> tuple[Array, Array]:
        """Compute sum(w m v), (N, C, *out), and sum(w m), (N, 1 or C, *out)."""
        ...

    def adjoint(self, grad_numerator: Array, grad_denominator: Array, needed: Needed) -> Gradients:
        """Compute the gradients of both images and of the points from those of both sums."""
        ...


class PointSampling(NamedTuple):
    """Sampling at points; the samples of some images are both sums."""

    points: SamplePoints
    terms: Terms

    def sums(self, parts: Planes) -> tuple[Array, Array]:
        """Sample both images."""
        points, terms = self
        backend, channels = points.backend, parts.values.shape[1]
        samples = [points.gather(term.image, term.options, term.image.dtype) for term in terms.sums]
        numerator, denominator = samples if len(samples) == 2 else split(samples[0], channels)
        denominator = backend.xp.real(denominator)
        if not terms.share:
            return numerator, denominator
        share = share_of(points, terms.share)
        signed = share_of(points, terms.signed_share) if terms.signed_share else share
        # A share of 0 adds nothing, not even of NaN, and has no NaN as its gradient.
        fill = backend.xp.where(share == 0, 0, numbers(backend, terms.fill, numerator))
        with backend.quiet():
            filled = by_parts(backend, backend.xp.multiply, fill, signed)
            numerator = by_parts(backend, backend.xp.add, numerator, filled)
        return numerator, backend.xp.add(denominator, share)

    def adjoint(self, grad_numerator: Array, grad_denominator: Array, needed: Needed) -> Gradients:
        """Compute the gradients of both images, and of the points, from those of the samples."""
        points, terms = self
        xp, single = points.backend.xp, len(terms.sums) == 1
        upstreams = (
            [points.backend.concatenate([grad_numerator, grad_denominator], 1)]
            if single
            else [grad_numerator, xp.real(grad_denominator)]
        )
        gradients = [
            points.backward(upstream, term.image, term.options, needed, term.image.dtype)
            for term, upstream in zip(terms.sums, upstreams, strict=True)
        ]
        images, grad_points = map(list, zip(*gradients, strict=True))
        if terms.share and needed[1]:
            grad_points += self.share_adjoint(grad_numerator, grad_denominator)
        total = functools.reduce(xp.add, grad_points) if needed[1] else None
        if images[0] is None:
            return None, None, total
        grad_values, grad_mask = split(images[0], grad_numerator.shape[1]) if single else images
        return grad_values, grad_mask, total

    def share_adjoint(self, grad_numerator: Array, grad_denominator: Array) -> list[Array]:
        """Compute the gradient of the points from those of the shares, as summands."""
        points, terms = self
        xp, fill = points.backend.xp, numbers(points.backend, terms.fill, grad_numerator)
        fill = xp.where(grad_numerator == 0, 0, fill)
        with points.backend.quiet():  # fills may be infinite
            grad_fill = xp.sum(xp.real(xp.multiply(xp.conj(grad_numerator), fill)), 1)[:, None]
            grad_share = xp.sum(xp.real(grad_denominator), 1)[:, None]
            if points.shape()[0] == 1:  # all items share the points, and so their shares
                grad_fill, grad_share = [xp.sum(a, 0)[None] for a in (grad_fill, grad_share)]
        inside, summands = share_of(points, terms.share) == 0, list[Array]()
        if terms.signed_share:
            grad_fill = xp.where(inside, 0, grad_fill)
            summands = share_backward(points, terms.signed_share, grad_fill, xp)
        else:
            with points.backend.quiet():
                grad_share = xp.add(grad_fill, grad_share)
        grad_share = xp.where(inside, 0, grad_share)
        return summands + share_backward(points, terms.share, grad_share, xp)


def split(stacked_planes: Array, channels: int) -> tuple[Array, Array]:
    """Divide an array into the channels of m v and those of m."""
    return stacked_planes[:, :channels], stacked_planes[:, channels:]


def share_of(points: SamplePoints, terms: Sequence[Term]) -> Array:
    """Compute the share of each point's weight that is on known numbers outside; see `Terms`."""
    backend, xp = points.backend, points.backend.xp
    first, second = [points.gather(term.image, term.options, term.image.dtype) for term in terms]
    share = xp.subtract(first, second)
    # The difference of equal shares is only rounding.
    unit = np.finfo(backend.type_name(share.dtype)).eps
    rounded = xp.less_equal(xp.abs(share), 16 * float(unit))
    return xp.where(rounded, 0, share)


def share_backward(
    points: SamplePoints, terms: Sequence[Term], upstream: Array, xp: Any
) -> list[Array]:
    """Compute the gradient of `share_of` with respect to the points, as two summands."""
    summands = []
    for term, sign in zip(terms, (xp.positive, xp.negative), strict=True):
        values, dtype = sign(upstream), term.image.dtype
        _, gradient = points.backward(values, term.image, term.options, (False, True), dtype)
        summands.append(gradient)
    return summands


# Means --------------------------------------------------------------------------------------------


class Mean(NamedTuple):
    """The means of all points, and what their gradients need.

    Attributes:
        result: sum(w m v) / sum(w m), (N, C, *out), or the value of missing results.
        weight: sum(w m), (N, 1 or C, *out), real; NaN where a coordinate is NaN.
        known: where that is large enough; False where a coordinate is NaN.
    """

    result: Array
    weight: Array
    known: Array


class Quotient(NamedTuple):
    """The means of an image, as quotients of sums.

    Attributes:
        backend: the backend.
        parts: the images m v and m.
        operator: the operator that sums.
        rule: the rule.
        fill: the value of missing results, or one per channel; empty for NaN.
    """

    backend: Backend
    parts: Planes
    operator: LinearOperator
    rule: CountingRule
    fill: Sequence[Any] = ()

    def counts_all(self) -> bool:
        """Whether the sums of weights differ from 1 only if some pixel is missing."""
        return self.parts.weights is None and self.rule.missing is None

    def mean(self) -> Mean:
        """Compute the means."""
        numerator, denominator = self.operator.sums(self.parts)
        any_missing = self.parts.any_missing if self.counts_all() else True
        return divided(self.backend, numerator, denominator, self.rule, self.fill, any_missing)


def divided(
    backend: Backend,
    numerator: Array,
    denominator: Array,
    rule: CountingRule,
    fill: Sequence[Any],
    any_missing: Any,
) -> Mean:
    """Divide both sums where a result is not missing.

    Args:
        backend: the backend.
        numerator: sum(w m v).
        denominator: sum(w m).
        rule: the rule.
        fill: the value of missing results, or one per channel; empty for NaN.
        any_missing: an array of one flag: whether any pixel is missing.  If not, the sum is not
            divided, so that its bits do not change.  True if it is always divided.
    """
    xp = backend.xp
    if any_missing is not True:
        denominator = xp.where(
            any_missing, denominator, xp.where(xp.isnan(denominator), denominator, 1)
        )
    known, missing = (
        xp.greater(denominator, rule.min_weight),
        xp.less_equal(denominator, rule.min_weight),
    )
    with backend.quiet():
        # A divisor of 0 is replaced, so that no derivative is NaN.
        quotient = by_parts(backend, xp.divide, numerator, xp.where(known, denominator, 1))
    missing_value = numbers(backend, fill, numerator) if fill else math.nan
    result = backend.astype(xp.where(missing, missing_value, quotient), numerator.dtype)
    return Mean(result, denominator, known)


def repeat_weight(backend: Backend, weight: Array, shape: Shape) -> Array:
    """Repeat the weights of results where items or channels share them; NaN becomes 0."""
    weight = backend.xp.where(backend.xp.isnan(weight), 0, weight)
    if 0 in shape[:2]:
        return backend.xp.broadcast_to(weight, (*shape[:2], *weight.shape[2:]))
    for axis in (0, 1):
        if weight.shape[axis] != shape[axis]:
            weight = backend.concatenate([weight] * shape[axis], axis)
    return weight


# Gradients ----------------------------------------------------------------------------------------


def mean_gradients(quotient: Quotient, upstream: Array, shape: Shape, needed: Needed) -> Gradients:
    """Compute the needed gradients of means.

    With n and d the sums of m v and m, the quotient rule gives the gradients of both,

        g / d   and   - sum over the channels that share d of Re(conj(g) n / d) / d

    and the adjoint of the operator takes them on to m v, m and the points.

    Args:
        quotient: the means.
        upstream: the upstream gradient g, (N, C, *out), real for a real image.
        shape: the shape of the image, (N, C, *spatial).
        needed: whether the gradients of the image, the points and the weights are needed.

    Returns:
        The gradients of the image (N, C, *spatial), the points, and the weights
        (N or 1, 1 or C, *spatial).
    """
    grad_numerator, grad_denominator = sum_gradients(quotient, upstream)
    grad_values, grad_mask, grad_points = quotient.operator.adjoint(
        grad_numerator, grad_denominator, (needed[0] or needed[2], needed[1])
    )
    pair = pixel_gradients(quotient, grad_values, grad_mask, shape, (needed[0], needed[2]))
    return pair[0], grad_points, pair[1]


def sum_gradients(quotient: Quotient, upstream: Array) -> tuple[Array, Array]:
    """Compute the gradients of both sums from that of the means, by the quotient rule."""
    backend, parts, mean = quotient.backend, quotient.parts, quotient.mean()
    xp, dtype = backend.xp, parts.values.dtype
    weight = xp.where(mean.known, mean.weight, 1)
    with backend.quiet():
        quotients = by_parts(backend, xp.divide, backend.astype(upstream, dtype), weight)
        grad_numerator = xp.where(mean.known, quotients, 0)
        product = xp.multiply(xp.conj(grad_numerator), mean.result)
        # Where the upstream gradient is 0, a NaN result adds nothing either.
        grad_denominator = xp.negative(
            xp.real(xp.where(xp.not_equal(grad_numerator, 0), product, 0))
        )
    if quotient.counts_all() and parts.any_missing is not True:
        grad_denominator = xp.where(parts.any_missing, grad_denominator, 0)
    if parts.mask.shape[1] == 1:
        grad_denominator = xp.sum(grad_denominator, 1)[:, None]
    return grad_numerator, backend.astype(grad_denominator, dtype)


def pixel_gradients(
    quotient: Quotient, grad_values: Array, grad_mask: Array, shape: Shape, needed: Needed
) -> Gradients:
    """Compute the gradients of an image of a shape, and of its weights, from those of m v and m."""
    backend, parts = quotient.backend, quotient.parts
    xp, missing, weights = backend.xp, parts.missing, parts.weights
    grad_image = grad_weights = None
    if needed[0]:
        grad_image = grad_values
        if weights is not None:
            grad_image = by_parts(backend, xp.multiply, grad_values, weights)
        if missing is not None:
            grad_image = xp.where(missing, 0, grad_image)
        grad_image = summed(backend, grad_image, shape)
    if needed[1] and weights is not None:
        grad_mask = xp.real(grad_mask)
        if missing is not None:
            grad_mask = xp.where(missing[:, : grad_mask.shape[1]], 0, grad_mask)
        product = xp.real(xp.multiply(grad_values, xp.conj(parts.pixels)))
        if grad_mask.shape[1] != product.shape[1]:
            product = xp.sum(product, 1)[:, None]
        grad_weights = summed(backend, xp.add(grad_mask, product), weights.shape)
    return grad_image, grad_weights


def summed(backend: Backend, gradient: Array, shape: Shape) -> Array:
    """Sum a gradient over the axes N and C along which an array of a shape was broadcast."""
    xp = backend.xp
    for axis in (0, 1):
        if gradient.shape[axis] != shape[axis]:
            gradient = xp.sum(gradient, axis)[None] if axis == 0 else xp.sum(gradient, 1)[:, None]
    return gradient
