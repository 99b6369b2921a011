"""Helpers shared by all functions: ranges and dtypes of images, orders, modes, and clipping."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions.checks import check_constant

Array = Any


class SkimageMode(NamedTuple):
    """A mode of scikit-image.

    Attributes:
        boundary: a ``padding_mode`` of `gridsample.grid_sample`.
        ndimage: a ``mode`` of `gridsample.ndimage`.
    """

    boundary: str
    ndimage: str


# The comments show the pixels outside an image a b c d.
MODES = {
    "constant": SkimageMode("constant", "grid-constant"),  # v v v | a b c d | v v v
    "edge": SkimageMode("border", "nearest"),  # a a a | a b c d | d d d
    "symmetric": SkimageMode("symmetric", "reflect"),  # c b a | a b c d | d c b
    "reflect": SkimageMode("mirror", "mirror"),  # d c b | a b c d | c b a
    "wrap": SkimageMode("wrap", "grid-wrap"),  # b c d | a b c d | a b c
}


def find_mode(mode: Any) -> SkimageMode:
    """Find the mode of a name.

    Raises:
        ValueError: there is no such mode.
    """
    if not isinstance(mode, str) or mode not in MODES:
        known = ", ".join(map(repr, MODES))
        raise ValueError(f"mode: unknown mode {mode!r}; accepted: {known}")
    return MODES[mode]


def as_image(value: Any) -> Array:
    """Return a dense array of its own library; convert other objects to NumPy arrays."""
    (image,) = backend_of(image=value).asarrays(image=value)
    return image


def type_of(image: Array) -> str:
    """The name of an image's dtype."""
    return backend_of(image=image).type_name(image.dtype, "image")


def is_integer(image: Array) -> bool:
    """Whether an image holds integers; bool does not count."""
    return type_of(image).startswith(("int", "uint"))


def check_order(image: Array, order: Any) -> int:
    """Return the order of the spline; for None 1, or 0 for an image of bool.

    Raises:
        ValueError: the order is not 0 to 5, or not 0 for an image of bool.
    """
    is_bool = type_of(image) == "bool"
    if order is None:
        return 0 if is_bool else 1
    if not 0 <= order <= 5:
        raise ValueError(f"order: spline interpolation order has to be 0 to 5, got {order!r}")
    if is_bool and order != 0:
        raise ValueError(
            f"order: an image of dtype bool has no values in between, so it must be 0, got "
            f"{order!r}; or convert the image first: image.astype(float)"
        )
    return operator.index(order)


def check_cval(cval: Any) -> float:
    """Return the value outside as a number."""
    check_constant(cval=cval)
    return float(cval)


def as_single(image: Array) -> Array:
    """Convert half precision to float32, in which it is computed."""
    backend = backend_of(image=image)
    if type_of(image) in ("float16", "bfloat16"):
        return backend.astype(image, backend.type("float32"))
    return image


def as_float(image: Array, preserve_range: bool) -> Array:
    """Convert an image to floating point: integers to the range [0, 1] or [-1, 1].

    Args:
        image: the image; float32 and float64 stay as they are.
        preserve_range: whether integers keep their values.

    Raises:
        ValueError: the image is complex.
    """
    backend, name = backend_of(image=image), type_of(image)
    if name.startswith("complex"):
        raise ValueError(f"image: cannot convert {name} to floating point; resize its parts")
    if "float" in name:
        return as_single(image)
    values64 = backend.astype(image, backend.type("float64"))
    if preserve_range or name == "bool":
        return values64
    scale = 1.0 / np.iinfo(name).max
    if backend.is_host:
        values64 *= scale
        return np.maximum(values64, -1.0, out=values64) if name.startswith("int") else values64
    values64 = values64 * scale
    return backend.xp.clip(values64, -1.0, None) if name.startswith("int") else values64


def clip_range(image: Array, values: Array, mode: str, cval: float) -> Array:
    """Clip a result to the range of the image's values.

    If ``cval`` is outside the image's range but inside that of the result, as where pixels outside
    count, then the range is extended to it.  NaN does not count.
    """
    backend = backend_of(image=image)
    low, high = limits(backend, image)
    if mode == "constant" and not low <= cval <= high:
        lowest, highest = limits(backend, values)
        if lowest <= cval <= highest:
            low, high = min(low, cval), max(high, cval)
    if not backend.is_host:
        return backend.xp.clip(values, low, high) if low <= high else values
    if low <= high:
        values.clip(*np.array([low, high]).astype(values.dtype), out=values)
    return values


def extremes(image: Array) -> Array:
    """An array of the smallest and the largest pixel, if they are integers; other images as is."""
    if not backend_of(image=image).is_host or image.dtype.kind not in "biu":
        return image
    return np.array([image.min(), image.max()])


def limits(backend: Backend, image: Array) -> tuple[float, float]:
    """The smallest and the largest number of an image that are not NaN; NaN if there is none."""
    if backend.is_host:
        low = image.min()
        if np.isnan(low):
            return float(np.fmin.reduce(image, None)), float(np.fmax.reduce(image, None))
        return float(low), float(image.max())
    xp, image = backend.xp, image.detach()
    low, high = image.min(), image.max()
    if bool(xp.isnan(low)):
        known = ~xp.isnan(image)
        if not bool(known.any()):
            return float("nan"), float("nan")
        low = xp.where(known, image, float("inf")).min()
        high = xp.where(known, image, -float("inf")).max()
    return float(low), float(high)


def copy_image(image: Array) -> Array:
    """Copy an image."""
    return backend_of(image=image).xp.stack([image])[0]


def as_integers(shape: Any, name: str) -> tuple[int, ...]:
    """Return a shape as integers; numbers that are nearly integers count as such.

    Raises:
        ValueError: a number is not an integer.
    """
    numbers: Sequence[float] = np.asarray(shape, float).reshape(-1).tolist()
    if any(abs(number - round(number)) > 1e-3 for number in numbers):
        raise ValueError(f"{name} must consist of integers, got {shape!r}")
    return tuple([round(number) for number in numbers])
