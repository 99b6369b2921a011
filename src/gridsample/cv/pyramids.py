"""Gaussian pyramids: `pyrDown` and `pyrUp`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.cv.arguments import (
    BORDER_DEFAULT,
    BORDER_ISOLATED,
    BORDER_REFLECT,
    BORDER_REFLECT_101,
    BORDER_REPLICATE,
    BORDER_WRAP,
    Array,
    as_flags,
    as_image,
    as_size,
    is_open,
    name_of,
)
from gridsample.cv.resizing import resize_by
from gridsample.definitions.bands import Band
from gridsample.definitions.shapes import Shape
from gridsample.definitions.tables import AxisMap, map_of_band

# Burt and Adelson's filter, and how far it reaches.
FILTER, REACH = np.array([1, 4, 6, 4, 1]) / 16, 2
# The names of the boundaries in `numpy.pad`.
PADDING = {
    BORDER_REPLICATE: "edge",
    BORDER_REFLECT: "symmetric",
    BORDER_WRAP: "wrap",
    BORDER_REFLECT_101: "reflect",
}


def pyrDown(
    src: Any,
    dst: Any = None,
    dstsize: Sequence[int] | None = None,
    borderType: int = BORDER_DEFAULT,
) -> Array:
    """Smooth an image and take every second pixel, like `cv2.pyrDown`.

    Along each axis, output i is the sum of the pixels 2 i - 2 to 2 i + 2 with the weights 1, 4, 6,
    4 and 1, divided by 16 (Burt and Adelson, 1983).

    Args:
        src: the image, as in `remap`.
        dst: an array for the result, as in `remap`.
        dstsize: (width, height), each within 1 of half the image's; None or (0, 0) for half of it,
            rounded up.
        borderType: BORDER_REFLECT_101, BORDER_REFLECT, BORDER_REPLICATE or BORDER_WRAP.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.  Integers are rounded half to
        even (in OpenCV, up).

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape, a size or a constant is invalid.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> cv.pyrDown(np.array([[0.0, 0.0, 16.0, 0.0, 0.0]]))
        array([[2., 6., 2.]])
    """
    border = as_flags(borderType, "borderType") & ~BORDER_ISOLATED
    padding = name_of(border, PADDING, "borderType")
    image = as_image(src)
    size = pyramid_size(dstsize, image.shape[:2], 0.5, "half")
    if padding == "wrap":  # otherwise, the weights of outputs at the edges would have gaps
        image = np.pad(image, [(REACH, REACH), (REACH, REACH), (0, 0)], mode="wrap")
    axes = zip(image.shape[:2], size, strict=True)
    return resize_by(tuple([halving(*axis, padding) for axis in axes]), image, src, dst)


def pyrUp(
    src: Any,
    dst: Any = None,
    dstsize: Sequence[int] | None = None,
    borderType: int = BORDER_DEFAULT,
) -> Array:
    """Double an image and smooth it, like `cv2.pyrUp`.

    Along each axis, output 2 i is the sum of the pixels i - 1, i and i + 1 with the weights 1, 6
    and 1, divided by 8, and output 2 i + 1 the mean of the pixels i and i + 1.  Before the first
    pixel, the image is mirrored at its centre, after the last one, it is repeated.

    Args:
        src: the image, as in `remap`.
        dst: an array for the result, as in `remap`.
        dstsize: (width, height), each twice the image's or, if odd, 1 more or less; None or (0, 0)
            for twice the image's.
        borderType: BORDER_REFLECT_101, the only one that OpenCV accepts.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.  Integers are rounded half to
        even (in OpenCV, up).

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape, a size or a constant is invalid.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> cv.pyrUp(np.array([[0.0, 8.0, 16.0]]))
        array([[ 2.,  4.,  8., 12., 15., 16.],
               [ 2.,  4.,  8., 12., 15., 16.]])
    """
    name_of(as_flags(borderType, "borderType"), {BORDER_REFLECT_101: "reflect"}, "borderType")
    image = as_image(src)
    shape = image.shape[:2]
    size = pyramid_size(dstsize, shape, 2, "twice")
    axes = zip(shape, size, strict=True)
    return resize_by(tuple([doubling(*axis) for axis in axes]), image, src, dst)


def pyramid_size(dstsize: Any, shape: Shape, factor: float, name: str) -> Shape:
    """Return (height, width) of the argument ``dstsize``, or else the image's times a factor.

    Raises:
        ValueError: the argument is not within 1 of that; ``name`` is the factor in words.
    """
    size = tuple([math.ceil(n * factor) for n in shape]) if is_open(dstsize) else as_size(dstsize)
    if any([abs(m - n * factor) > 1 for m, n in zip(size, shape, strict=True)]):
        raise ValueError(
            f"dstsize must be within 1 of {name} the image's (width, height) = {shape[::-1]}, "
            f"got {tuple(dstsize or ())}"
        )
    return size


@functools.lru_cache(maxsize=64)
def halving(inputs: int, outputs: int, padding: str) -> AxisMap:
    """Return the matrix of an axis of `pyrDown`; for "wrap", of an axis that has been extended."""
    reads = 2 * np.arange(outputs)[:, np.newaxis] + np.arange(len(FILTER))
    if padding == "wrap":
        return summed(inputs, reads, np.broadcast_to(FILTER, reads.shape))
    extended = np.pad(np.arange(inputs), (REACH, 2 * REACH), mode=padding)  # type: ignore[call-overload]
    return summed(inputs, extended[reads], np.broadcast_to(FILTER, reads.shape))


@functools.lru_cache(maxsize=64)
def doubling(inputs: int, outputs: int) -> AxisMap:
    """Return the matrix of an axis of `pyrUp`."""
    row = np.arange(outputs)
    row = np.where(row < 2 * inputs, row, 2 * inputs - 2)  # mirrored at row 2 * inputs - 1
    pixel = row[:, np.newaxis] // 2 + np.arange(-1, 2)
    weights = np.where(row[:, np.newaxis] % 2, [0, 0.5, 0.5], [0.125, 0.75, 0.125])
    return summed(inputs, np.minimum(abs(pixel), inputs - 1), weights)


def summed(inputs: int, pixels: Array, weights: Array) -> AxisMap:
    """Return the matrix whose rows add up the weights of pixels, which may occur repeatedly."""
    first = pixels.min(1)
    table = np.zeros((len(pixels), int((pixels.max(1) - first).max()) + 1))
    rows = np.broadcast_to(np.arange(len(pixels))[:, np.newaxis], pixels.shape)
    np.add.at(table, (rows, pixels - first[:, np.newaxis]), weights)
    count = table.shape[1] - (table[:, ::-1] != 0).argmax(1)
    return map_of_band(Band(inputs, first, count, table))
