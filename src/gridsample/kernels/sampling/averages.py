"""Means over the pixels that count, and their gradients, on arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import BOUNDARIES, Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import addresses_of, as_float, converted, even, layout_of, plain
from gridsample.kernels.sampling.calls import parts_of_maps, plan_derivatives, plan_gather
from gridsample.kernels.sampling.channels_last import (
    LEAST,
    empty_channels_last,
    parts_of,
    pays_channels_last,
    to_channels_first,
    to_channels_last,
    transpose_matrices,
)
from gridsample.kernels.sampling.division import Averages, Sweep
from gridsample.kernels.sampling.layouts import (
    channels_together,
    gradient_layout,
)
from gridsample.kernels.sampling.preparing import (
    as_maps,
    dropped_of,
    even_values,
    in_order,
    numbers_of_planes,
)

Array = np.ndarray[Any, Any]


def averages(plan: Plan) -> bool:
    """Whether `average` has programs: real pixels, no boundary with signs, no footprints."""
    odd = any(BOUNDARIES[name].odd for name in plan.boundaries)
    return plan.dtype.kind != "c" and not (odd or plan.votes or plan.footprint)


def average(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    averaging: Averaging,
    *,
    weights: Array | None = None,
    shares: Array | None = None,
    fill: Array | None = None,
    affine: bool = False,
    threads: int | None = None,
) -> bool:
    """Sample means over the pixels that count, for plans that `averages`.

    Args:
        plan: the plan.
        image: the image, (N, C, *spatial).
        grid: the grid, or affine maps, as in `gather`.
        out: the array of the means, (N, C, *out).
        averaging: which pixels count.
        weights: how much, (N or 1, 1 or C, *spatial), or None.
        shares: the array of the sums of weights, (N, C, *out), in the dtype of sums, with the
            strides of ``out``; for ``averaging.shares``.
        fill: the fill value of each channel, or None.
        affine: whether the grid contains affine maps.
        threads: the maximum number of threads.

    Returns:
        Whether some weight that was read may be negative or not finite.
    """
    image, count = plain(image), threads or pool.cores()
    layout = None
    if weights is not None:
        weights = plain_weights(plan, weights, image)
        layout = layout_of(weights)
    elif shares is not None and sums_runs(plan, image, out):
        # Where nothing is missing, means have the bits of plain samples, which are sums in runs.
        alone = averaging._replace(shares=False)
        average(plan, image, grid, out, alone, fill=fill, affine=affine, threads=count)
        out = np.empty_like(out)
    means = Averages(averaging, layout)
    # Wherever nothing is missing, means have the bits of plain samples, which are turned likewise.
    if means.runs and pays_channels_last(plan, layout_of(image), layout_of(out), True):
        for part in parts_of(plan):
            runs, values = (
                to_channels_last(image[part.items], count),
                empty_channels_last(out[part.items]),
            )
            average(
                part.plan, runs, grid[part.grids], values, averaging, fill=fill, affine=affine,
                threads=count,
            )  # fmt: skip
            to_channels_first(values, out[part.items], count)
        return False
    if not means.runs and in_runs(out) and pays_to_separate(plan, image):
        separate = separated(image, count)
        values = np.empty(out.shape, out.dtype)
        sums = None if shares is None else np.empty(shares.shape, shares.dtype)
        is_doubtful = average(
            plan, separate, grid, values, averaging, weights=weights, shares=sums, fill=fill,
            affine=affine, threads=count,
        )  # fmt: skip
        join(values, out, count)
        if sums is not None and shares is not None:
            join(sums, shares, count)
        return is_doubtful
    grid = as_maps(grid, plan) if affine else even(grid)
    layouts = layout_of(image), layout_of(grid), layout_of(out)
    launch = plan_gather(plan, (0,) * len(plan.spatial), *layouts, affine, fill is not None, means)
    outside = numbers_of_planes(plan, (), image.dtype, fill, averaging)
    doubtful = np.zeros(1, np.int64)
    others = [] if weights is None else [weights, doubtful]
    others += [] if shares is None else [shares]
    launch.run(addresses_of((image, grid, out, *outside, *others)), count)
    return bool(doubtful[0])


def sums_runs(plan: Plan, image: Array, out: Array) -> bool:
    """Whether plain samples are sums of runs of channels."""
    layouts = layout_of(image), layout_of(out)
    return channels_together(*layouts) > 1 or pays_channels_last(plan, *layouts, True)


def in_runs(array: Array) -> bool:
    """Whether channels are neighbours in the memory of an array (N, C, ...) without gaps."""
    return array.shape[1] > 1 and np.moveaxis(array, 1, -1).flags.c_contiguous


def pays_to_separate(plan: Plan, image: Array) -> bool:
    """Whether to separate the channels of an image: programs for weights process planes."""
    many = plan.channels >= LEAST or max(method.taps for method in plan.methods) > 2
    pixels = math.prod(plan.spatial)
    # Memory of one pixel, or of one point, is in runs and in planes alike.
    return many and in_runs(image) and min(plan.points, pixels) > 1 and 4 * plan.points >= pixels


def separated(runs: Array, threads: int) -> Array:
    """Return a copy of runs of channels as planes."""
    planes = np.empty(runs.shape, runs.dtype)
    to_channels_first(runs, planes, threads)
    return planes


def join(planes: Array, runs: Array, threads: int) -> None:
    """Copy planes to runs of channels."""
    items, channels, *shape = planes.shape
    transpose_matrices(planes, runs, (items, channels, math.prod(shape)), threads)


def plain_weights(plan: Plan, weights: Array, image: Array) -> Array:
    """Return weights as a kernel reads them: (N or 1, C, *spatial), copied only if necessary.

    If rows of the image are contiguous, so are those of the weights.
    """
    weights = plain(weights)
    if weights.strides[-1] != weights.itemsize and image.strides[-1] == image.itemsize:
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


def average_backward(
    plan: Plan,
    values: Array,
    image: Array,
    grid: Array,
    averaging: Averaging,
    *,
    weights: Array | None,
    needed: tuple[bool, bool, bool],
    fill: Array | None,
    affine: bool,
    dtype: np.dtype[Any],
    threads: int | None,
) -> Gradients:
    """Compute the gradients of `average`, for plans that `averages`.

    Args:
        plan: the plan.
        values: the upstream gradient, (N, C, *out).
        image: the image, as in `average`.
        grid: the grid or affine maps, as in `average`.
        averaging: which pixels count.
        weights: how much, as in `average`.
        needed: whether the gradients of the image, the grid and the weights are needed.
        fill: the fill value of each channel, or None.
        affine: whether the grid contains affine maps.
        dtype: the dtype of the image's gradient.
        threads: the maximum number of threads.
    """
    need_image, need_grid, need_weights = needed
    given, own = weights, image.shape
    if weights is not None and len(weights) > len(image):
        image = np.broadcast_to(image, (plan.items, *own[1:]))
        plan = replace(plan, image_items=plan.items)
    image, count = plain(image), threads or pool.cores()
    if pays_to_separate(plan, image):
        image = separated(image, count)
        values = separated(values, count) if in_runs(values) else values
    like = gradient_layout(plan, layout_of(image))
    image = in_order(image, like)
    layout = None
    if weights is not None:
        weights = plain_weights(plan, weights, image)
        layout = layout_of(weights)
    grid, values = as_maps(grid, plan) if affine else even(grid), even_values(values)
    needs = need_image or need_weights, need_grid and any(m.powers > 1 for m in plan.methods)
    gradient = None
    if need_grid:
        points = (plan.grid_items, *plan.out, len(plan.spatial))
        gradient = np.zeros(parts_of_maps(plan)) if affine else np.zeros(points, plan.real)
    sums = like.zeros() if needs[0] else None
    of_weights = like.zeros() if need_weights else None
    dropped, doubtful = dropped_of(plan, fill), np.zeros(1, np.int64)
    least = np.full(len(dropped), averaging.least, plan.real)
    arrays = [image, grid, values, sums, gradient, dropped, least]
    arrays += [] if weights is None else [weights, doubtful]
    arrays += [] if of_weights is None else [of_weights]
    layouts = layout_of(image), layout_of(grid), layout_of(values)
    means = Averages(averaging, layout, need_weights)
    sweep = Sweep(*layouts, affine, fill is not None, needs, count, means)
    if any(needs):
        for launch in plan_derivatives("mean backward", plan, (0,) * len(plan.spatial), sweep):
            launch.run(addresses_of(arrays), count)
    if gradient is not None and affine:
        gradient = gradient.sum(1).astype(plan.real)
    known = None
    if averaging.ignores and image.dtype.kind not in "biu" and sums is not None:
        pixels = as_float(image)
        known = pixels == pixels
        clear(sums, known)
    by_weights = None
    if of_weights is not None and sums is not None and weights is not None and given is not None:
        through_weights(sums, of_weights, image, weights, known)
        by_weights = summed(of_weights, given.shape)
    by_image = None
    if need_image and sums is not None:
        if weights is not None:
            with np.errstate(all="ignore"):  # a weight may turn out to be wrong
                np.multiply(sums, as_float(weights), out=sums, casting="unsafe")
        by_image = converted(summed(sums, own), dtype)
    return Gradients(by_image, gradient, by_weights, bool(doubtful[0]))


def through_weights(
    sums: Array, of_weights: Array, image: Array, weights: Array, known: Array | None
) -> None:
    """Compute the gradient of weights from those of m v and m, in place of the latter.

    Args:
        sums: the gradient of m v, 0 where a pixel is missing.
        of_weights: the gradient of m.
        image: the image.
        weights: the weights.
        known: where no pixel is missing, or None for everywhere.
    """
    pixels = as_float(image)
    if known is not None:
        clear(of_weights, known)
        # Bits are faster than choices, of which a processor guesses many wrong.
        kind = f"i{pixels.dtype.itemsize}"
        mask = np.negative(known.view(np.int8)).astype(kind)
        pixels = np.bitwise_and(pixels.view(kind), mask).view(pixels.dtype)
    with np.errstate(all="ignore"):
        terms = np.multiply(sums, pixels, dtype=sums.dtype)
        if not np.isfinite(terms.sum()):
            # A pixel without weight is not read.
            np.copyto(terms, 0, where=~np.isfinite(pixels) & (as_float(weights) == 0))
        of_weights += terms


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
