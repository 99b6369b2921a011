"""Missing pixels and weights: which pixels count, and how much.

With m the weight of a pixel v (0 where it is missing) and w the weights of a point's taps, a sample
is the mean

    out = sum(w m v) / sum(w m)

This module has the options, and lays an image out as the two images m v and m (`Planes`), whose
samples are both sums.  `gridsample.ops.quotients` samples them, and divides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend
from gridsample.backends.rounding import as_integers
from gridsample.definitions.boundaries import BOUNDARIES, MISSING, has_missing
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import require_boundary
from gridsample.definitions.methods import Method
from gridsample.definitions.request import Request, ResizeRequest
from gridsample.definitions.shapes import Shape
from gridsample.messages.links import about, unknown_name
from gridsample.ops.arrays import Array, is_differentiable, sum_type

# What happens to a pixel that is NaN.
RULES = ("propagate", "ignore")


# The options --------------------------------------------------------------------------------------


class CountingRule(NamedTuple):
    """Which pixels count, and how much.

    Attributes:
        ignore: whether a NaN pixel counts for nothing.
        weights: the caller's weights of pixels, or None.
        min_weight: a result is missing unless the sum of weights is above this.
        weighted: whether the sum of weights is returned, too.
        missing: the boundaries under which what is outside counts for nothing: an option
            ``padding_mode`` in which `MISSING` occurs, or None.
    """

    ignore: bool
    weights: Any
    min_weight: float
    weighted: bool
    missing: Any = None

    def counts(self) -> bool:
        """Whether some pixel or tap may count less than others."""
        return self.ignore or self.weights is not None or self.missing is not None


def as_rule(
    request: Request | ResizeRequest, weights: Any, padding_mode: Any = "zeros"
) -> CountingRule | None:
    """Return the rule of a request; None if every pixel counts as it is and no weight is returned.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a name is unknown, or ``min_weight`` is out of range or has no effect.
    """
    missing: Any = request.missing
    min_weight: Any = request.min_weight
    is_default = missing is RULES[0] and weights is None and request.return_weight is False
    named = type(padding_mode) is str and padding_mode != MISSING
    if is_default and named and type(min_weight) is float and min_weight == 0:
        return None  # quickly
    ignores, min_weight = check_ignore(missing), check_min_weight(min_weight)
    outside = padding_mode if has_missing(padding_mode) else None
    weighted = check_flag(request.return_weight, "return_weight")
    rule = CountingRule(ignores, weights, min_weight, weighted, outside)
    if rule.min_weight and not rule.counts():
        raise ValueError(
            f"min_weight {min_weight!r} has no effect here; accepted with missing='ignore', "
            f"weights, or padding_mode {MISSING!r}"
        )
    if not (rule.counts() or rule.weighted):
        return None
    if isinstance(request, Request):
        require_boundary(request.extrapolate, "missing='ignore' or weights")
    return rule


def check_ignore(missing: Any) -> bool:
    """Return whether NaN pixels are left out, given the argument ``missing``."""
    if not isinstance(missing, str):
        raise TypeError(f"missing must be one of {', '.join(map(repr, RULES))}, got {missing!r}")
    if missing not in RULES:
        raise unknown_name("missing", missing, RULES)
    return missing == "ignore"


def check_min_weight(min_weight: Any) -> float:
    """Return the argument ``min_weight`` as a float."""
    if not isinstance(min_weight, (int, float, np.number)) or isinstance(min_weight, bool):
        raise TypeError(f"min_weight must be a number from 0 to below 1, got {min_weight!r}")
    if not 0 <= min_weight < 1:
        raise ValueError(f"min_weight must be at least 0 and below 1, got {min_weight!r}")
    return float(min_weight)


# The image as planes of m v and m -----------------------------------------------------------------


class Planes(NamedTuple):
    """An image as the two images of which samples are taken.

    Attributes:
        values: m v, (N, C, *spatial), and 0 where nothing counts.
        mask: m, (N or 1, 1 or C, *spatial), real; it has one channel if all channels share it.
        pixels: v, with 0 in place of what is not a number and does not count.
        missing: where a pixel is missing, (N, C, *spatial), or None if none can be.
        any_missing: whether any pixel is missing: True, or an array of one flag where the values of
            arrays cannot be inspected; False if no pixel is.
        weights: the caller's weights in the dtype of the sums, or None.
    """

    values: Array
    mask: Array
    pixels: Array
    missing: Array | None
    any_missing: Any
    weights: Array | None


def has_no_nan(backend: Backend, image: Array) -> bool:
    """Whether the values of an image can be inspected and are all numbers."""
    if not is_differentiable(backend, image) or 0 in backend.shape(image):
        return True
    if not backend.inspects(image):
        return False
    xp, name = backend.xp, backend.type_name(image.dtype)
    if name == "bfloat16":  # NumPy does not know it
        image = backend.astype(image, backend.type("float32"))
    complex_ = name.startswith("complex")
    # The smallest number of a list with a NaN is NaN, and is found without another array.
    flag = xp.any(xp.isnan(image)) if complex_ else xp.isnan(xp.min(image))
    return not bool(flag)


def masked_planes(
    backend: Backend, image: Array, weights: Array | None, ignore: bool, dtype: Any
) -> Planes:
    """Compute the planes of an image (N, C, *spatial) in the ``dtype`` of the sums."""
    xp, real = backend.xp, sum_type(backend, backend.full((), 0, dtype, image))
    pixels = backend.astype(image, dtype)
    excluded: Any = xp.isnan(pixels) if ignore else None
    any_missing: Any = False
    if excluded is not None:
        any_missing = xp.any(excluded)
        if backend.inspects(any_missing):
            any_missing = bool(any_missing)
            excluded = excluded if any_missing else None
    missing = excluded
    narrow = weights is None or weights.shape[1] == 1
    if weights is not None:
        weights = backend.astype(weights, real)
        # A pixel of weight 0 is not read into the sum, whatever it holds.
        skipped = xp.logical_and(weights == 0, xp.logical_not(xp.isfinite(pixels)))
        excluded = skipped if excluded is None else xp.logical_or(excluded, skipped)
    if excluded is not None:
        pixels = xp.where(excluded, 0, pixels)
    if missing is None:
        mask = backend.full((1, 1, *pixels.shape[2:]), 1, real, image)
        mask = mask if weights is None else weights
    else:
        missing_pixels = missing
        if narrow and missing.shape[1] > 1 and backend.inspects(missing):
            first = missing[:, :1]
            missing_pixels = first if bool(xp.all(missing == first)) else missing
        if weights is None:
            mask = backend.astype(xp.logical_not(missing_pixels), real)
        else:
            mask = xp.where(missing_pixels, 0, weights)
    with backend.quiet():
        values = pixels if weights is None else by_parts(backend, xp.multiply, pixels, weights)
    return Planes(values, mask, pixels, missing, any_missing, weights)


def by_parts(
    backend: Backend, operation: Callable[[Array, Array], Array], values: Array, others: Array
) -> Array:
    """Add values of one dtype, or multiply or divide values by real numbers.

    Real and imaginary parts are separate: where one of them is infinite, a product of complex
    numbers would be NaN in the other, and torch multiplies to add.
    """
    xp = backend.xp
    if not backend.type_name(values.dtype).startswith("complex"):
        return operation(values, others)
    is_real = not backend.type_name(others.dtype).startswith("complex")
    real, imaginary = (others, others) if is_real else (xp.real(others), xp.imag(others))
    return backend.complex(operation(xp.real(values), real), operation(xp.imag(values), imaginary))


def check_weights(
    backend: Backend, weights: Array, image: Shape, items: int, last: bool, name: str = "input"
) -> None:
    """Raise an error if the caller's weights do not match an image, in shape or dtype.

    Args:
        backend: the backend.
        weights: the weights in the caller's layout.
        image: the shape of the image in the caller's layout.
        items: N of the result.
        last: whether the channels come last.
        name: the name of the argument that holds the image.

    Raises:
        TypeError: the weights are complex.
        ValueError: the shape does not match.
    """
    if backend.type_name(weights.dtype, "weights").startswith("complex"):
        raise TypeError(f"weights has dtype {weights.dtype}; accepted: real numbers and bool")
    shape, channel = backend.shape(weights), len(image) - 1 if last else 1
    accepted: list[tuple[int, ...]] = [(n,) for n in image]
    accepted[0], accepted[channel] = (1, image[0], items), (1, image[channel])
    if len(shape) != len(image) or any([n not in accepted[k] for k, n in enumerate(shape)]):
        spatial, channels = image[1:-1] if last else image[2:], f"{image[channel]} or 1"
        layout = f"*{spatial}, {channels}" if last else f"{channels}, *{spatial}"
        hint = "; pass weights[None, None]" if shape == spatial and not last else ""
        hint = "; pass weights[None, ..., None]" if shape == spatial and last else hint
        if len(shape) == len(image) - 1 and shape[0] in accepted[0] and shape[1:] == spatial:
            hint = "; pass weights[..., None]" if last else "; pass weights[:, None]"
        raise ValueError(
            f"weights must be (N or 1, {layout}) for {name} of shape {image}, got shape {shape}"
            f"{hint}"
        )


def check_entries(backend: Backend, weights: Array) -> None:
    """Raise an error if one of the caller's weights is negative or not finite.

    Raises:
        ValueError: a weight is negative or not finite.
    """
    name = backend.type_name(weights.dtype, "weights")
    if name in ("bool", "uint8", "uint16", "uint32", "uint64") or 0 in backend.shape(weights):
        return
    if not backend.inspects(weights):
        return
    xp = backend.xp
    converted = backend.astype(weights, sum_type(backend, weights))
    valid = xp.logical_and(
        xp.greater_equal(xp.min(converted), 0), xp.less(xp.max(converted), math.inf)
    )
    if not bool(valid):
        raise ValueError("weights must be finite and not negative; some are not")


def check_rule(methods: Sequence[Method], boundaries: Sequence[str], prefilter: bool) -> None:
    """Raise an error if methods or boundaries do not go with missing pixels and weights.

    Args:
        methods: the methods.
        boundaries: the names of boundaries.
        prefilter: whether the image would be prefiltered.
    """
    if prefilter:
        raise ValueError(
            f"mode {tuple([method.name for method in methods])!r} would prefilter the image, and "
            "each coefficient of a spline depends on all pixels, also on missing ones; accepted "
            f"with missing='ignore', weights or padding_mode {MISSING!r}: a mode without a "
            "prefilter, such as 'bicubic' or 'catmull-rom', or an image of coefficients with "
            "prefilter=False"
            f"{about('missing')}"
        )
    for method in methods:
        if method.votes:
            raise ValueError(
                "mode 'label' does not average pixels; accepted with missing='ignore', weights or "
                f"padding_mode {MISSING!r}: modes that blend pixels, and 'nearest'"
            )
        if not method.normalized:
            raise ValueError(
                f"mode {method.name!r} has weights that do not sum to one, so they "
                "give no mean; accepted with missing='ignore', weights or padding_mode "
                f"{MISSING!r}: methods that are normalized"
            )
    for name in boundaries:
        if BOUNDARIES[name].may_drop and not BOUNDARIES[name].drops:
            raise ValueError(
                f"padding_mode {name!r} has zeros beside the image, which are not pixels; accepted "
                f"with missing='ignore' and weights: every other boundary, and {MISSING!r}"
            )


# Arrays -------------------------------------------------------------------------------------------


def stacked(backend: Backend, parts: Planes) -> Array:
    """Stack m v and m as the channels of one image."""
    values, mask, xp = parts.values, parts.mask, backend.xp
    items = mask.shape[0] if values.shape[0] == 1 else values.shape[0]
    images = [
        array if array.shape[0] == items else xp.broadcast_to(array, (items, *array.shape[1:]))
        for array in (values, backend.astype(mask, values.dtype))
    ]
    return backend.concatenate(images, 1)


def as_image_type(backend: Backend, result: Array, dtype: Any, fill: Sequence[Any]) -> Array:
    """Convert means to the image's dtype; integers are the fill value at NaN."""
    if backend.type_name(dtype).startswith(("bool", "int", "uint")):
        return as_integers(backend, result, dtype, fill)
    return backend.astype(result, dtype)
