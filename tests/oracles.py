"""Expected results and tolerances: from PyTorch, the reference's loops, and rounding."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.kernels import reference

Array = np.ndarray[Any, Any]
Names = str | Sequence[str]

TORCH_NAMES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
REFERENCE_NAMES = {
    **{name: name for name in TORCH_NAMES},
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
    "tricubic": "cubic",
}


# PyTorch ----------------------------------------------------------------------------------------


def torch_results(
    values: Array, image: Array, grid: Array, mode: str, boundary: str, align_corners: bool
) -> tuple[Array, Array, Array]:
    """PyTorch's output, and its gradients of the image and the grid for the upstream ``values``."""
    import torch  # processes that compare with the reference alone do without it

    leaves = [torch.tensor(array, requires_grad=True) for array in (image, grid)]
    items = max(len(image), len(grid))
    out = torch.nn.functional.grid_sample(
        *(leaf.expand(items, *leaf.shape[1:]) for leaf in leaves),
        TORCH_NAMES[mode],
        boundary,
        align_corners,
    )
    gradients = torch.autograd.grad(out, leaves, torch.tensor(values), allow_unused=True)
    return (
        out.detach().numpy(),
        *(
            np.zeros(leaf.shape) if gradient is None else gradient.numpy()
            for leaf, gradient in zip(leaves, gradients, strict=True)
        ),
    )


# The reference ----------------------------------------------------------------------------------


def per_axis(names: Names, rank: int) -> tuple[str, ...]:
    """One name for each axis, from one or as many."""
    each_axis = (names,) * rank if isinstance(names, str) else names
    return tuple(REFERENCE_NAMES.get(name, name) for name in each_axis)


def reference_output(
    image: Array,
    grid: Array,
    mode: Names,
    boundary: Names,
    align_corners: bool,
    order: Sequence[int] | None = None,
) -> Array:
    """The reference's results before they are rounded to a dtype: float64 or complex128."""
    rank = grid.shape[-1]
    numbers = image.astype(complex if image.dtype.kind == "c" else float)
    names = per_axis(mode, rank), per_axis(boundary, rank)
    return reference.gather(numbers, grid.astype(float), *names, align_corners, order)


def reference_gradients(
    values: Array, image: Array, grid: Array, mode: Names, boundary: Names, align_corners: bool
) -> tuple[Array, Array]:
    """The reference's gradients of the image and the grid."""
    rank = grid.shape[-1]
    numbers = image.astype(complex if image.dtype.kind == "c" else float)
    names = per_axis(mode, rank), per_axis(boundary, rank)
    return reference.gradients(values, numbers, grid.astype(float), *names, align_corners)


def mean_output(
    image: Array,
    grid: Array,
    mode: Names,
    boundary: Names,
    weights: Array | None = None,
    fill: float = 0,
    least: float = 0,
) -> tuple[Array, Array]:
    """The means over pixels that are not NaN, and their weights, tap by tap.

    Grids are in pixels.  A mean is NaN where it is missing.
    """
    names = per_axis(mode, grid.shape[-1]), per_axis(boundary, grid.shape[-1])
    sizes, n_items = image.shape[:1:-1], max(len(image), len(grid))
    result = np.full((n_items, image.shape[1], *grid.shape[1:-1]), np.nan, image.dtype)
    share = np.zeros(result.shape)
    factors = np.broadcast_to(1.0 if weights is None else weights, (n_items, *image.shape[1:]))
    for n, c, *point in np.ndindex(*result.shape):
        at = grid[n if len(grid) > 1 else 0, *point]
        pixels = image[n if len(image) > 1 else 0, c]
        axes = [
            reference.axis_taps(
                x, size, boundary, "zeros" if name == "missing" else name, False, coords="pixel"
            )
            for x, size, boundary, name in zip(at, sizes, *names, strict=True)
        ]
        above, below = 0.0, 0.0
        for taps in itertools.product(*map(list, filter(None, axes))):
            weight = math.prod(factor for _, factor in taps)
            index = tuple(i for i, _ in taps)[::-1]
            outside = [name for name, i in zip(names[1], index[::-1], strict=True) if i is None]
            if "missing" in outside:
                continue
            if outside:
                above += weight * fill if weight and "constant" in names[1] else 0
                below += weight
            elif not np.isnan(pixels[index]):
                above += weight * factors[n, c, *index] * pixels[index]
                below += weight * factors[n, c, *index]
        share[n, c, *point] = below
        if below > least:
            result[n, c, *point] = above / below
    return result, share


def magnitude(array: Array) -> float:
    """The largest finite magnitude, at least 1."""
    sizes = np.abs(array.astype(complex if array.dtype.kind == "c" else float))
    return float(np.max(sizes, initial=1.0, where=np.isfinite(sizes)))


# Arithmetic's limits ----------------------------------------------------------------------------


def assert_close(
    actual: Array, expected: Array, tolerance: float = 1e-12, scale: float | None = None
) -> None:
    """Equal within the tolerance times the scale; NaN and infinities in the same places.

    The scale is that of the largest expected number, and at least 1, where it is not given: that of
    the terms, where they cancel.
    """
    assert actual.shape == expected.shape
    if scale is None:
        scale = magnitude(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale, equal_nan=True)


def assert_alike(actual: Array, expected: Array, terms: int = 256) -> None:
    """Equal but for the order of sums of so many terms, and rounding of integers."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if expected.dtype.kind in "iu":
        assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1
        return
    close = terms * float(np.finfo(expected.dtype).eps) * np.nanmax(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=close)


def assert_stored(actual: Array, exact: Array, tolerance: float, scale: float) -> None:
    """``actual`` are ``exact`` numbers rounded to its dtype, within tolerance * scale.

    Integers: rounded, so up to a half away, and saturated; NaN is 0.  Others: rounded.
    """
    dtype, slack = actual.dtype, tolerance * scale
    assert actual.shape == exact.shape
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        expected = np.clip(np.nan_to_num(exact), float(low), float(high))
        np.testing.assert_allclose(actual.astype(float), expected, rtol=0, atol=0.5 + slack)
        return
    slack += ulp(dtype) * scale
    np.testing.assert_allclose(actual, exact, rtol=0, atol=slack, equal_nan=True)


def ulp(dtype: Any) -> float:
    """The distance from 1 to the next number."""
    return float(np.finfo(dtype).eps)


def between(positions: Array, spatial: Sequence[int]) -> Array:
    """Points whose positions are all clearly between jumps, in float32.

    Nearest jumps half way between pixels, a derivative on them, and both folds are at one or the
    other.  ``positions`` (..., D) are in x, y, z order.
    """
    doubled = 2 * positions
    slack = 16 * ulp(np.float32) * np.maximum(np.abs(doubled), 2.0 * np.array(spatial[::-1]))
    return np.all(np.abs(doubled - np.rint(doubled)) > slack, axis=-1)


def finite_difference(function: Callable[[Array], Array], at: Array, step: float = 1e-5) -> Array:
    """d function / d at, entry by entry: the shape of the function's value, then that of ``at``.

    Central, of fourth order: the error is of the order of step**4 and of rounding / step.
    """
    at = at.astype(float)
    columns = []
    for index in np.ndindex(at.shape):
        nudge = np.zeros(at.shape)
        nudge[index] = step
        slope = 8 * (function(at + nudge) - function(at - nudge))
        slope -= function(at + 2 * nudge) - function(at - 2 * nudge)
        columns.append(slope / (12 * step))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *at.shape)


def directional_difference(function: Callable[[Array], Any], at: Array, direction: Array) -> Any:
    """The derivative of a function at a place along a direction, as `finite_difference`.

    Four calls in place of four for each entry: a gradient is checked by its product with a random
    direction.
    """

    def along(step: Array) -> Array:
        return np.asarray(function(at + step * direction))

    return finite_difference(along, np.zeros(1))[..., 0]


# Manners ----------------------------------------------------------------------------------------


def owner(array: Array) -> Array:
    """The array that has the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@contextlib.contextmanager
def unchanged(*arrays: Array) -> Iterator[None]:
    """Check that no byte of the arrays, nor of what they are views of, is changed."""
    before = [owner(array).tobytes() for array in arrays]
    yield
    for array, as_it_was in zip(arrays, before, strict=True):
        assert owner(array).tobytes() == as_it_was, "an input was changed"
