"""Reductions of the features of a plane sweep's views, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gridsample.backends import Backend
from gridsample.cameras.arrays import Array

# The sampled features of a view, (N, C, planes, H, W), and its mask, (N, 1, planes, H, W), which is
# None for reductions that do not need it.
View = tuple[Array, Array | None]


class Reduction(NamedTuple):
    """A way to reduce the features of the reference, (N, C, 1, H, W), and of all views.

    Attributes:
        forward: reduces the reference and an iterator of views; the flag says whether sums may be
            computed in place.
        backward: takes the upstream gradient, the reference, an iterator of views, which it need
            not read, and their number; returns the gradient of the reference, with an axis of
            planes, and an iterator of those of the views.  None if gradients are not known.
        shape: the shape of the result for (N, C, D, H, W) and a number of views; None if unknown.
    """

    forward: Callable[[Backend, Array, Iterator[View], bool], Array]
    backward: Callable[[Array, Array, Iterator[View], int], tuple[Array, Iterator[Array]]] | None
    shape: Callable[[tuple[int, ...], int], tuple[int, ...] | None]


def add(total: Array | None, term: Array, in_place: bool) -> Array:
    """Add a term to a sum, which is None before the first term."""
    if total is None:
        return term
    if not in_place:
        return total + term
    total += term
    return total


def variance(backend: Backend, reference: Array, views: Iterator[View], in_place: bool) -> Array:
    """Compute the variance of the reference and the views, from differences from the reference."""
    total: Any = None
    square: Any = None
    count = 1
    for warped, _ in views:
        difference = warped - reference
        square = add(square, difference * difference, in_place)
        total = add(total, difference, in_place)
        count += 1
    mean = total / count
    return square / count - mean * mean


def variance_vjp(
    upstream: Array, reference: Array, views: Iterator[View], count: int
) -> tuple[Array, Iterator[Array]]:
    """Compute the gradients of `variance`."""
    differences = [warped - reference for warped, _ in views]
    mean = sum(differences[1:], differences[0]) / (count + 1)
    scaled = upstream * (2 / (count + 1))
    return -scaled * mean, (scaled * (difference - mean) for difference in differences)


def mean(backend: Backend, reference: Array, views: Iterator[View], in_place: bool) -> Array:
    """Compute the mean of the reference and the views."""
    total, count = None, 1
    for warped, _ in views:
        total = add(total, warped, in_place)
        count += 1
    return (total + reference) / count


def mean_vjp(
    upstream: Array, reference: Array, views: Iterator[View], count: int
) -> tuple[Array, Iterator[Array]]:
    """Compute the gradients of `mean`."""
    part = upstream / (count + 1)
    return part, (part for _ in range(count))


def stack_views(backend: Backend, reference: Array, views: Iterator[View], in_place: bool) -> Array:
    """Return the features of the views, (N, V, C, planes, H, W)."""
    return backend.xp.stack([warped for warped, _ in views], 1)


def stack_views_vjp(
    upstream: Array, reference: Array, views: Iterator[View], count: int
) -> tuple[Array, Iterator[Array]]:
    """Compute the gradients of `stack_views`."""
    return 0 * upstream[:, 0], (upstream[:, v] for v in range(count))


def reduced_shape(shape: tuple[int, ...], views: int) -> tuple[int, ...]:
    """The shape (N, C, D, H, W)."""
    return shape


def stacked_shape(shape: tuple[int, ...], views: int) -> tuple[int, ...]:
    """The shape (N, V, C, D, H, W)."""
    return (shape[0], views, *shape[1:])


REDUCTIONS = {
    "variance": Reduction(variance, variance_vjp, reduced_shape),
    "mean": Reduction(mean, mean_vjp, reduced_shape),
    "none": Reduction(stack_views, stack_views_vjp, stacked_shape),
}


def find_reduction(reduction: Any) -> Reduction:
    """Find the reduction of a name, or make one of a function.

    Raises:
        TypeError: it is neither a name nor a function.
        ValueError: there is no such name.
    """
    if isinstance(reduction, str):
        if reduction not in REDUCTIONS:
            names = ", ".join(map(repr, REDUCTIONS))
            raise ValueError(f"reduce must be {names} or a function, got {reduction!r}")
        return REDUCTIONS[reduction]
    if not callable(reduction):
        raise TypeError(f"reduce must be a name or a function, got {reduction!r}")
    return custom(reduction)


def custom(function: Callable[[Any, Any], Any]) -> Reduction:
    """Make a reduction of a function of stacked features and masks; see `plane_sweep`."""

    def forward(backend: Backend, reference: Array, views: Iterator[View], in_place: bool) -> Array:
        pairs = list(views)
        first, first_mask = pairs[0]
        assert first_mask is not None
        features = backend.xp.stack([reference + 0 * first, *[warped for warped, _ in pairs]], 1)
        masks: Array = backend.xp.stack([first_mask | ~first_mask, *[mask for _, mask in pairs]], 1)
        result = function(features, masks)
        shape, expected = tuple(getattr(result, "shape", ())), tuple(features.shape)
        if len(shape) != 5 or (shape[0], *shape[2:]) != (expected[0], *expected[3:]):
            raise ValueError(
                "reduce must return (N, any, planes, H, W) = "
                f"{(expected[0], 'any', *expected[3:])} for features {expected}, "
                f"got {shape or type(result).__name__}"
            )
        return result

    return Reduction(forward, None, lambda shape, views: None)
