"""Means over the pixels that count, and their gradients, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import as_float, layout_of, native
from gridsample.kernels.sampling.antialiasing import LEVELS, halves_for, zero_order
from gridsample.kernels.sampling.copies import contiguous, stored
from gridsample.kernels.sampling.derivatives import Derivatives
from gridsample.kernels.sampling.division import Averages
from gridsample.kernels.sampling.gathering import Gathering, plain_weights
from gridsample.kernels.sampling.layouts import complex_of, gradient_layout
from gridsample.kernels.sampling.preparing import (
    CallArrays,
    Gradients,
    NeededGradients,
    even_values,
    in_layout,
)
from gridsample.kernels.sampling.programs.operations import MEAN_BACKWARD

Array = np.ndarray[Any, Any]


def averages(plan: Plan) -> bool:
    """Whether `average` has programs: no boundary with signs, no labels."""
    odd = any(BOUNDARIES[name].odd for name in plan.boundaries)
    return not (odd or plan.votes)


def average(plan: Plan, arrays: CallArrays, averaging: Averaging, threads: int | None) -> bool:
    """Sample means over the pixels that count, for plans that `averages`.

    Args:
        plan: the plan.
        arrays: the arrays.
        averaging: which pixels count.
        threads: the maximum number of threads.

    Returns:
        Whether some weight that was read may be negative or not finite.
    """
    shares = arrays.shares
    if shares is not None and plan.dtype.kind == "c" and shares.dtype.kind != "c":
        # Both parts of a complex mean have the same sum.
        sums = np.empty_like(arrays.values, complex_of(plan.real))
        invalid_weights = average(plan, arrays._replace(shares=sums), averaging, threads)
        shares[...] = sums.real
        return invalid_weights
    if plan.footprint is not None:
        return average_footprints(plan, arrays, averaging, threads)
    return Gathering(zero_order(plan), threads or pool.cores(), averaging).sample(plan, arrays)


def average_footprints(
    plan: Plan, arrays: CallArrays, averaging: Averaging, threads: int | None
) -> bool:
    """Sample means over footprints: see `average`.

    A halved image has the means of m v and of m.
    """
    assert plan.footprint is not None
    first = plan.footprint.level or 0
    count, pixels, weights = threads or pool.cores(), arrays.image, arrays.weights
    if weights is not None and len(weights) > len(pixels):
        pixels = np.broadcast_to(pixels, (plan.items, *pixels.shape[1:]))
        plan = replace(plan, image_items=plan.items)
    gathering = Gathering(zero_order(plan), count, averaging)
    arrays = arrays._replace(image=gathering.readable(plan, pixels))
    invalid, used = gathering.sweep(plan, arrays, first)
    if not used and plan.nearest and pixels.dtype.kind in "iu":
        # Plain samples are the same, and more exact, as sums do not represent all integers.
        return average(replace(plan, footprint=None), arrays, averaging, count)
    if used & LEVELS:
        halves = halves_for(plan, used, count)
        products, factors = multiplied_pixels(pixels, weights, averaging.ignores_nan, plan.real)
        invalid = invalid or not ((factors >= 0) & (factors < np.inf)).all()
        for (level, image), (_, halved) in zip(
            halves.of(products), halves.of(factors), strict=True
        ):
            smaller = arrays._replace(image=image, weights=halved)
            gathering.sweep(plan, smaller, level, multiplied=True)
    return invalid


def multiplied_pixels(
    image: Array, weights: Array | None, ignores_nan: bool, real: np.dtype[Any]
) -> tuple[Array, Array]:
    """Return m v and m of pixels v, where m is a pixel's weight, or 0 if it is missing."""
    values = as_float(image)
    factors = np.ones((1, 1, *image.shape[2:]), real)
    if weights is not None:
        factors = as_float(weights).astype(real)
    if ignores_nan:
        factors = np.where(np.isnan(values), 0, factors)
    with np.errstate(all="ignore"):  # a pixel without weight may be infinite
        products = np.multiply(values, factors, dtype=np.result_type(values.dtype, real))
    return np.where(factors == 0, 0, products), factors


def average_backward(
    plan: Plan,
    arrays: CallArrays,
    averaging: Averaging,
    needs: NeededGradients,
    threads: int | None,
) -> Gradients:
    """Compute the gradients of `average`, for plans that `averages` and have no footprint.

    Args:
        plan: the plan.
        arrays: the arrays, of which ``values`` is the upstream gradient.
        averaging: which pixels count.
        needs: which gradients are needed.
        threads: the maximum number of threads.
    """
    count = threads or pool.cores()
    image, weights = contiguous(plan, native(arrays.image), count), arrays.weights
    if weights is not None and len(weights) > len(image):
        image = np.broadcast_to(image, (plan.items, *image.shape[1:]))
        plan = replace(plan, image_items=plan.items)
    like, values = gradient_layout(plan, layout_of(image)), even_values(arrays.values)
    adds, image = needs.image or needs.weights, in_layout(image, like)
    weights = plain_weights(plan, weights, image)
    sums = like.zeros() if adds else None
    of_weights = like.zeros() if needs.weights else None
    invalid_weights = np.zeros(1, np.int64)
    slopes = needs.grid and any(method.powers > 1 for method in plan.methods)
    needed = MEAN_BACKWARD.chosen(adds, slopes, needs.weights)
    means = Averages(averaging, None if weights is None else layout_of(weights))
    order = zero_order(plan)
    sweeps = Derivatives(MEAN_BACKWARD, plan, order, needed, count, arrays.fill, means)
    places = {
        "image": image, "grid": arrays.grid, "values": values, "sums": sums, "weights": weights,
        "invalid_weights": invalid_weights, "sums_of_weights": of_weights,
    }  # fmt: skip
    gradient = sweeps.compute(places, needs.grid)
    known = None
    if averaging.ignores_nan and image.dtype.kind not in "biu" and sums is not None:
        known = mask_of_known(image, plan.real)
        clear(sums, known)
    by_weights = None
    if of_weights is not None and sums is not None and weights is not None:
        assert arrays.weights is not None
        weighted = Pixels(image, weights, known)
        by_weights = weighted.through_weights(sums, of_weights, arrays.weights.shape)
    by_image = None
    if needs.image and sums is not None:
        if weights is not None:
            with np.errstate(all="ignore"):  # invalid weights are reported afterwards
                np.multiply(sums, as_float(weights), out=sums, casting="unsafe")
        by_image = stored(summed(sums, arrays.image.shape), needs.dtype or sums.dtype, count)
    return Gradients(by_image, gradient, by_weights, bool(invalid_weights[0]))


class Pixels(NamedTuple):
    """The pixels of an image with weights, (N, C, *spatial).

    Attributes:
        image: the image.
        weights: their weights.
        known: the mask of those that are not missing, or None for all.
    """

    image: Array
    weights: Array
    known: Array | None

    def through_weights(self, sums: Array, of_weights: Array, shape: tuple[int, ...]) -> Array:
        """Compute the gradient of weights from those of m v and m.

        Args:
            sums: the gradient of m v, 0 where a pixel is missing.
            of_weights: the gradient of m, which is overwritten.
            shape: the shape of the weights, (N or 1, 1 or C, *spatial).
        """
        values, known = as_float(self.image), self.known
        if known is not None:
            clear(of_weights, known)
            values = values.astype(sums.dtype)
            clear(values, known)
        with np.errstate(all="ignore"):
            total = summed_products((sums, values), shape)
            if not np.isfinite(total.sum()):
                # A pixel without weight is not read.
                unread = ~np.isfinite(values) & (as_float(self.weights) == 0)
                total = summed_products((sums, np.where(unread, 0, values)), shape)
            total += summed_products((of_weights,), shape)
        return total


def summed_products(factors: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Sum products (N, C, *spatial) to a shape (N or 1, 1 or C, *spatial).

    Those of complex numbers are products of their parts, which are summed, too.
    """
    if factors[0].dtype.kind == "c":
        of_real = summed_products([array.real for array in factors], shape)
        return of_real + summed_products([array.imag for array in factors], shape)
    kept = [axis for axis, n, m in zip("nc", factors[0].shape, shape, strict=False) if n == m]
    terms, result = ",".join(["nc..."] * len(factors)), f"{''.join(kept)}..."
    kind = factors[0].dtype
    sums: Array = np.einsum(f"{terms}->{result}", *factors, dtype=kind, casting="unsafe")
    return sums.reshape(shape)


def mask_of_known(image: Array, real: np.dtype[Any]) -> Array:
    """Return integers of the size of reals: all bits are set where a pixel is known, else none.

    Operations on bits are faster than branches, many of which a processor would mispredict.
    """
    pixels = as_float(image)
    mask: Array = (pixels == pixels).astype(f"i{real.itemsize}")
    return np.negative(mask, out=mask)


def clear(numbers: Array, mask: Array) -> None:
    """Set numbers to 0 where a mask is 0; elsewhere, all of its bits are set."""
    parts = (numbers.real, numbers.imag) if numbers.dtype.kind == "c" else (numbers,)
    for part in parts:
        bits = part.view(mask.dtype)
        np.bitwise_and(bits, mask, out=bits)


def summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the items and channels along which an array of a shape was broadcast."""
    for axis in (0, 1):
        if gradient.shape[axis] != shape[axis]:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient
