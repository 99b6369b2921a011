"""Means over the pixels that count, and their gradients, on arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import BOUNDARIES, Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import (
    addresses_of,
    as_float,
    as_parts,
    converted,
    even,
    layout_of,
    plain,
)
from gridsample.kernels.sampling.calls import parts_of_maps, plan_derivatives, plan_gather
from gridsample.kernels.sampling.channels import channels_together
from gridsample.kernels.sampling.division import Averages, Sweep
from gridsample.kernels.sampling.layouts import complex_of, gradient_layout
from gridsample.kernels.sampling.preparing import (
    as_maps,
    dropped_of,
    even_values,
    in_order,
    numbers_of_planes,
    readable,
    reads_of,
)
from gridsample.kernels.sampling.turning import (
    Part,
    empty_runs,
    parts_of,
    pays_to_turn,
    turn_back,
    turned,
)

Array = np.ndarray[Any, Any]


def averages(plan: Plan) -> bool:
    """Whether `average` has programs: no boundary with signs, no labels, no footprints."""
    odd = any(BOUNDARIES[name].odd for name in plan.boundaries)
    return not (odd or plan.votes or plan.footprint)


class Samples(NamedTuple):
    """The arrays of means.

    Attributes:
        image: the image, (N, C, *spatial).
        grid: the grid, or affine maps, as in `gather`.
        weights: how much pixels count, (N or 1, 1 or C, *spatial), or None.
        out: the array of the means, (N, C, *out), or their upstream gradient.
        shares: the array of the sums of weights, (N, C, *out), in the dtype of sums, with the
            strides of ``out``; for ``averaging.shares``.
        fill: the fill value of each channel, or None.
    """

    image: Array
    grid: Array
    weights: Array | None
    out: Array
    shares: Array | None = None
    fill: Array | None = None

    def turned(self, part: Part, threads: int) -> Samples:
        """Copy the image and the weights of a part, so that channels are neighbours."""
        weights = self.weights
        if weights is not None:
            weights = weights[part.items] if len(weights) > 1 else weights
            if weights.shape[1] > 1:
                weights = turned(np.ascontiguousarray(weights), threads)
        image, grid = turned(self.image[part.items], threads), self.grid[part.grids]
        return self._replace(image=image, grid=grid, weights=weights)


def average(
    plan: Plan, arrays: Samples, averaging: Averaging, affine: bool, threads: int | None
) -> bool:
    """Sample means over the pixels that count, for plans that `averages`.

    Args:
        plan: the plan.
        arrays: the arrays.
        averaging: which pixels count.
        affine: whether the grid contains affine maps.
        threads: the maximum number of threads.

    Returns:
        Whether some weight that was read may be negative or not finite.
    """
    count = threads or pool.cores()
    # Programs read both parts of a complex number at once.
    image = plain(arrays.image) if plan.dtype.kind == "c" else readable(plan, arrays.image)
    arrays, out, shares = arrays._replace(image=image), arrays.out, arrays.shares
    # Wherever nothing is missing, means have the bits of plain samples, which are turned likewise.
    if pays_to_turn(plan, layout_of(image), layout_of(out), True):
        doubtful = False
        for part in parts_of(plan):
            values = empty_runs(out[part.items])
            sums = None if shares is None else empty_runs(shares[part.items])
            runs = arrays.turned(part, count)._replace(out=values, shares=sums)
            doubtful |= average(part.plan, runs, averaging, affine, count)
            turn_back(values, out[part.items], count)
            if sums is not None and shares is not None:
                turn_back(sums, shares[part.items], count)
        return doubtful
    # Both parts of a complex mean have the same sum.
    both_parts = shares is not None and out.dtype.kind == "c"
    sums = np.empty_like(out, complex_of(plan.real)) if both_parts else shares
    weights = plain_weights(plan, arrays.weights, image, out, True)
    grid = as_maps(arrays.grid, plan) if affine else even(arrays.grid)
    layouts = layout_of(image), layout_of(grid), layout_of(out)
    means = Averages(averaging, None if weights is None else layout_of(weights))
    order, filled = (0,) * len(plan.spatial), arrays.fill is not None
    launch = plan_gather(plan, order, *layouts, affine, filled, means)
    outside = numbers_of_planes(plan, (), image.dtype, arrays.fill, averaging)
    wrong = np.zeros(1, np.int64)
    others = [] if weights is None else [weights, wrong]
    others += [] if sums is None else [sums]
    launch.run(addresses_of((image, grid, out, *outside, *others)), count)
    if both_parts and shares is not None and sums is not None:
        shares[...] = sums.real
    return bool(wrong[0])


def plain_weights(
    plan: Plan, weights: Array | None, image: Array, values: Array, gathers: bool = False
) -> Array | None:
    """Return weights as a kernel reads them: (N or 1, C, *spatial), copied only if necessary.

    If rows of the image are contiguous, so are those of the weights.  If its channels are processed
    together, and each has weights of its own, these are copied side by side, too.  Nothing is
    copied if a few points are sampled.
    """
    if weights is None:
        return None
    few = gathers and reads_of(plan) <= weights.size and plan.dtype.kind != "c"
    weights = weights if few else plain(weights)
    channels = channels_together(layout_of(image), layout_of(values))
    if weights.shape[1] > 1 and channels > 1 and plan.dtype.kind != "c":
        if 4 * plan.points >= math.prod(plan.spatial) and weights.strides[1] != weights.itemsize:
            runs = empty_runs(weights)
            runs[...] = weights
            weights = runs
    elif (
        weights.strides[-1] != weights.itemsize and image.strides[-1] == image.itemsize and not few
    ):
        weights = np.ascontiguousarray(weights)
    return np.broadcast_to(weights, (len(weights), plan.channels, *plan.spatial))


class Gradients(NamedTuple):
    """The gradients of means; None where they are not needed.

    Attributes:
        image: that of the image.
        grid: that of the grid or of affine maps, in the dtype of sums.
        weights: that of the weights, in the dtype of sums.
        doubtful: whether some weight that was read may be negative or not finite.
    """

    image: Array | None
    grid: Array | None
    weights: Array | None
    doubtful: bool


class Needs(NamedTuple):
    """Which gradients of means are needed.

    Attributes:
        image: whether that of the image is.
        grid: whether that of the grid or of affine maps is.
        weights: whether that of the weights is.
        dtype: the dtype of the image's gradient.
    """

    image: bool
    grid: bool
    weights: bool
    dtype: np.dtype[Any]


def average_backward(
    plan: Plan, arrays: Samples, averaging: Averaging, needs: Needs, affine: bool,
    threads: int | None,
) -> Gradients:  # fmt: skip
    """Compute the gradients of `average`, for plans that `averages`.

    Args:
        plan: the plan.
        arrays: the arrays, of which ``out`` is the upstream gradient.
        averaging: which pixels count.
        needs: which gradients are needed.
        affine: whether the grid contains affine maps.
        threads: the maximum number of threads.
    """
    image, weights, count = plain(arrays.image), arrays.weights, threads or pool.cores()
    if weights is not None and len(weights) > len(image):
        image = np.broadcast_to(image, (plan.items, *image.shape[1:]))
        plan = replace(plan, image_items=plan.items)
    like, values = gradient_layout(plan, layout_of(image)), even_values(arrays.out)
    if pays_to_turn(plan, layout_of(image), layout_of(values), False):
        arrays = arrays._replace(image=image, out=values)
        return backward_turned(plan, arrays, averaging, needs, affine, count)
    image = in_order(image, like)
    weights = plain_weights(plan, weights, image, values)
    grid = as_maps(arrays.grid, plan) if affine else even(arrays.grid)
    gradient = None
    if needs.grid:
        points = (plan.grid_items, *plan.out, len(plan.spatial))
        gradient = np.zeros(parts_of_maps(plan)) if affine else np.zeros(points, plan.real)
    sums = like.zeros() if needs.image or needs.weights else None
    of_weights = like.zeros() if needs.weights else None
    dropped, doubtful = dropped_of(plan, arrays.fill), np.zeros(1, np.int64)
    least = np.full(len(dropped), averaging.least, plan.real)
    others = [] if weights is None else [weights, doubtful]
    others += [] if of_weights is None else [of_weights]
    slopes = needs.grid and any(method.powers > 1 for method in plan.methods)
    sweep = Sweep(
        layout_of(image), layout_of(grid), layout_of(values), affine, arrays.fill is not None,
        (sums is not None, slopes), count,
        Averages(averaging, None if weights is None else layout_of(weights), needs.weights),
    )  # fmt: skip
    if any(sweep.needs):
        places = addresses_of((image, grid, values, sums, gradient, dropped, least, *others))
        for launch in plan_derivatives("mean backward", plan, (0,) * len(plan.spatial), sweep):
            launch.run(places, count)
    if gradient is not None and affine:
        gradient = gradient.sum(1).astype(plan.real)
    known = None
    if averaging.ignores and image.dtype.kind not in "biu" and sums is not None:
        pixels = as_float(image)
        known = pixels == pixels
        clear(sums, known)
    by_weights = None
    given = arrays.weights
    if of_weights is not None and sums is not None and weights is not None and given is not None:
        by_weights = through_weights(sums, of_weights, image, weights, known)
        by_weights = summed(by_weights, given.shape)
    by_image = None
    if needs.image and sums is not None:
        if weights is not None:
            with np.errstate(all="ignore"):  # a weight may turn out to be wrong
                np.multiply(sums, as_float(weights), out=sums, casting="unsafe")
        by_image = converted(summed(sums, arrays.image.shape), needs.dtype)
    return Gradients(by_image, gradient, by_weights, bool(doubtful[0]))


def backward_turned(
    plan: Plan, arrays: Samples, averaging: Averaging, needs: Needs, affine: bool, threads: int
) -> Gradients:
    """Compute `average_backward` of planes as runs of channels, a few items at a time."""
    grad_image = np.empty(arrays.image.shape, needs.dtype) if needs.image else None
    by_grid, by_weights, doubtful = list[Array](), list[Array](), False
    for part in parts_of(plan):
        runs = arrays.turned(part, threads)
        runs = runs._replace(out=turned(arrays.out[part.items], threads))
        gradients = average_backward(part.plan, runs, averaging, needs, affine, threads)
        if grad_image is not None and gradients.image is not None:
            turn_back(gradients.image, grad_image[part.items], threads)
        by_grid += [] if gradients.grid is None else [gradients.grid]
        by_weights += [] if gradients.weights is None else [gradients.weights]
        doubtful |= gradients.doubtful
    shared = arrays.weights is not None and len(arrays.weights) == 1
    return Gradients(
        grad_image, joined(by_grid, plan.grid_items == 1), joined(by_weights, shared), doubtful
    )


def joined(parts: Sequence[Array], shared: bool) -> Array | None:
    """Join the gradients of some items, or sum those of what all items share."""
    if not parts:
        return None
    return functools.reduce(np.add, parts) if shared else np.concatenate(parts)


def through_weights(
    sums: Array, of_weights: Array, image: Array, weights: Array, known: Array | None
) -> Array:
    """Compute the gradient of weights, for each channel, from those of m v and m.

    Args:
        sums: the gradient of m v, 0 where a pixel is missing.
        of_weights: the gradient of m, which is overwritten.
        image: the image.
        weights: the weights.
        known: where no pixel is missing, or None for everywhere.
    """
    pixels = as_float(image)
    if image.dtype.kind == "c":
        # The sum over both parts, of which each is a plane.
        sums, of_weights, pixels = as_parts(sums), as_parts(of_weights), as_parts(pixels)
        weights, known = weights[..., None], None if known is None else known[..., None]
    if known is not None:
        clear(of_weights, known)
        # Bits are faster than choices, of which a processor guesses many wrong.
        kind = f"i{pixels.dtype.itemsize}"
        mask = np.negative(known.view(np.int8)).astype(kind)
        pixels = np.bitwise_and(pixels.view(kind), mask).view(pixels.dtype)
    with np.errstate(all="ignore"):
        terms = np.multiply(sums, pixels, dtype=sums.dtype)
        if not np.isfinite(terms.sum()):
            # A pixel without weight is not read, nor is a part of it.
            wrong: Array = ~np.isfinite(pixels)
            if image.dtype.kind == "c":
                wrong |= wrong[..., ::-1]
            np.copyto(terms, 0, where=wrong & (as_float(weights) == 0))
        of_weights += terms
    return of_weights.sum(-1) if image.dtype.kind == "c" else of_weights


def clear(numbers: Array, known: Array) -> None:
    """Set numbers to 0, except where they are ``known``."""
    with np.errstate(all="ignore"):
        np.multiply(numbers, known, out=numbers)
        if not np.isfinite(numbers.sum()):
            np.copyto(numbers, 0, where=~known)


def summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the items and channels along which an array of a shape was broadcast."""
    for axis in (0, 1):
        if gradient.shape[axis] != shape[axis]:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient
