"""OpenCV's constants, and the arguments that its functions share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.checks import as_array, as_reals, check_constant, check_dense

Array = np.ndarray[Any, Any]

# OpenCV's values.
INTER_NEAREST, INTER_LINEAR, INTER_CUBIC, INTER_AREA, INTER_LANCZOS4 = 0, 1, 2, 3, 4
INTER_LINEAR_EXACT, INTER_NEAREST_EXACT = 5, 6
WARP_FILL_OUTLIERS, WARP_INVERSE_MAP, WARP_RELATIVE_MAP = 8, 16, 32
WARP_POLAR_LINEAR, WARP_POLAR_LOG = 0, 256
BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT, BORDER_WRAP = 0, 1, 2, 3
BORDER_REFLECT_101 = BORDER_REFLECT101 = BORDER_DEFAULT = 4
BORDER_TRANSPARENT, BORDER_ISOLATED = 5, 16

MODES = {
    INTER_NEAREST: "nearest",
    INTER_LINEAR: "linear",
    INTER_CUBIC: "cubic",
    INTER_AREA: "linear",  # over footprints where an image shrinks
    INTER_LANCZOS4: "lanczos4",
    INTER_LINEAR_EXACT: "linear",
    INTER_NEAREST_EXACT: "nearest",
}
RESIZING = MODES | {INTER_NEAREST_EXACT: "nearest-exact"}
BORDERS = {
    BORDER_CONSTANT: "constant",
    BORDER_REPLICATE: "border",
    BORDER_REFLECT: "symmetric",
    BORDER_WRAP: "wrap",
    BORDER_REFLECT_101: "mirror",
    BORDER_TRANSPARENT: "transparent",
}


def as_image(src: Any) -> Array:
    """Return an image as (H, W, C).

    Raises:
        TypeError: it is no array of numbers.
        ValueError: it has another rank, or no pixels.
    """
    if type(src) is not np.ndarray and not backend_of(src=src).is_host:
        raise TypeError(
            f"src is a {type(src).__module__}.{type(src).__qualname__}; accepted: NumPy arrays; "
            "for tensors, use gridsample.grid_sample or gridsample.ndimage"
        )
    image = src if type(src) is np.ndarray else as_array(src, "src")
    if image.dtype.kind not in "biuf":
        raise TypeError(f"src has dtype {image.dtype}; accepted: bool, integers and floats")
    if image.ndim not in (2, 3) or 0 in image.shape[:2]:
        raise ValueError(f"src must be (H, W) or (H, W, C) and not empty, got shape {image.shape}")
    return with_channels(image)


def with_channels(image: Array) -> Array:
    """View an image (H, W) as (H, W, 1)."""
    return image[..., np.newaxis] if image.ndim == 2 else image


def is_open(dsize: Any) -> bool:
    """Whether a size is not given: None or (0, 0)."""
    return dsize is None or (isinstance(dsize, (tuple, list)) and tuple(dsize) == (0, 0))


def as_flags(value: Any, argument: str) -> int:
    """Return a sum of OpenCV's constants as an integer, or raise an error."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{argument} must be one of OpenCV's constants, such as cv.INTER_LINEAR or "
            f"cv.BORDER_REFLECT, got {value!r}"
        ) from None


def as_size(dsize: Any) -> tuple[int, int]:
    """Return the height and the width of a size (width, height)."""
    try:
        width, height = dsize
        width, height = operator.index(width), operator.index(height)
    except (TypeError, ValueError):
        raise TypeError(f"dsize must be (width, height), two integers, got {dsize!r}") from None
    if width < 1 or height < 1:
        raise ValueError(f"dsize must be positive, (width, height), got {dsize!r}")
    return height, width


def name_of(constant: Any, names: dict[int, str], argument: str) -> str:
    """Return the name of our mode or boundary for one of OpenCV's constants."""
    try:
        return names[as_flags(constant, argument)]
    except KeyError:
        values = ", ".join(map(str, names))
        raise ValueError(f"{argument} is not known: {constant!r}; accepted: {values}") from None


def border_values(value: Any, channels: int) -> tuple[float, ...] | int:
    """Return a number for each channel: OpenCV's scalar, padded to four by 0, and repeated.

    If all are 0, return 0.
    """
    if type(value) is int and value == 0:
        return 0  # the usual case, checked first
    entries = value if type(value) in (tuple, list) else (value,)
    if len(entries) > 4 or not all([is_plain(entry) for entry in entries]):
        check_constant(borderValue=value)
        numbers = np.atleast_1d(as_array(value, "borderValue"))
        if numbers.ndim != 1 or len(numbers) > 4:  # before a copy, which may not fit into memory
            raise ValueError(f"borderValue must be a number or up to four, got {value!r}")
        entries = as_reals(numbers, "borderValue").tolist()
    padded = [float(entry) for entry in entries] + [0.0] * 3
    return tuple([padded[c % 4] for c in range(channels)]) if any(padded) else 0


def is_plain(entry: Any) -> bool:
    """Whether an object is a number of Python's that fits into eight bytes."""
    return type(entry) is float or (type(entry) is int and -(2**63) <= entry < 2**63)


def destination(dst: Any, shape: tuple[int, ...], dtype: np.dtype[Any], is_read: bool) -> Array:
    """Return ``dst`` if it fits the result, or a new array.

    Raises:
        ValueError: ``dst`` has another shape or type, is read-only, or is missing although it
            ``is_read``.
    """
    if dst is None and not is_read:
        return np.empty(shape, dtype)
    check_dense(dst=dst)
    if not isinstance(dst, np.ndarray) or dst.shape != shape or dst.dtype != dtype:
        got = dst.shape if isinstance(dst, np.ndarray) else dst
        needed = " with BORDER_TRANSPARENT" if is_read else ""
        raise ValueError(f"dst must be an array{needed} of shape {shape} and {dtype}, got {got!r}")
    if not dst.flags.writeable:
        raise ValueError("dst is read-only")
    return dst
