"""Vector-Jacobian products of sampling, for grids and affine maps alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gridsample.backends import Backend
from gridsample.definitions.options import Options
from gridsample.ops import means
from gridsample.ops.arrays import (
    Array,
    back,
    check_differentiable,
    check_upstream,
    out_shape,
    planes,
)
from gridsample.ops.missing import Rule
from gridsample.ops.points import SamplePoints, gradients_at

Needed = tuple[bool, bool, bool]  # gradients of the image, the points and the weights


def sample_vjp(
    backend: Backend, arrays: Mapping[str, Any], place: Callable[[Array], SamplePoints],
    options: Options, rule: Rule | None, needed: Needed,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute the vector-Jacobian product of sampling with an upstream gradient.

    Args:
        backend: the backend.
        arrays: the arguments grad_output, input, and grid or theta, by name and in this order.
        place: makes the points of a grid or of maps.
        options: the options of sampling.
        rule: the rule for missing pixels and weights, or None.
        needed: which gradients are needed.

    Returns:
        The gradients of the image, of the points, and of the weights if there are any, like the
        arguments; None in place of those that are not needed.
    """
    weights = None if rule is None else rule.weights
    inputs = dict(arrays) if weights is None else {**arrays, "weights": weights}
    upstream, image, points, *more = backend.to_device(**inputs)
    sample_points = place(points)
    gradients: tuple[Array | None, ...]
    if rule is None:
        gradients = plain_vjp(backend, sample_points, upstream, image, options, needed[:2])
    else:
        weighted = more[0] if more else None
        gradients = means.sample_vjp(
            backend, sample_points, upstream, image, weighted, options, rule, needed
        )
    _, *likes = inputs.values()
    return tuple(
        backend.restore(gradient, like) for gradient, like in zip(gradients, likes, strict=False)
    )


def plain_vjp(
    backend: Backend, points: SamplePoints, upstream: Array, image: Array, options: Options,
    needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute the gradients of image and points, in the caller's layout, if all pixels count."""
    resolved = points.resolve_options(image, options)
    last = resolved.channel_axis == -1
    shape = out_shape(backend.shape(image), points.points, last)
    upstream = check_upstream(backend, upstream, image, shape)
    if needed[0]:
        check_differentiable(backend, image)
    values, pixels = planes(backend, upstream, last), planes(backend, image, last)
    first, second = gradients_at(backend, points, values, pixels, resolved, needed)
    return None if first is None else back(backend, first, last), second
