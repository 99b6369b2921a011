"""Resizing."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends.resizing import apply_matrices
from gridsample.cv.arguments import (
    INTER_AREA,
    INTER_LINEAR,
    RESIZING,
    Array,
    as_flags,
    as_image,
    as_size,
    destination,
    is_open,
    name_of,
    with_channels,
)
from gridsample.cv.axes import axis_map
from gridsample.definitions.tables import AxisMap


def resize(
    src: Any,
    dsize: Sequence[int] | None,
    dst: Any = None,
    fx: float = 0,
    fy: float = 0,
    interpolation: int = INTER_LINEAR,
) -> Array:
    """Resize an image, like `cv2.resize`.

    Let the step s be the distance between two output pixels in source pixels.  Along each axis,
    output i lies at (i + 1/2) s - 1/2, and the image is extended by its edge pixels.  s is 1 / fx
    or 1 / fy if dsize is not given, otherwise the ratio of the sizes.  INTER_NEAREST selects pixel
    floor(i s).  INTER_NEAREST_EXACT selects pixel floor((i + 1/2) s), always with the ratio of the
    sizes.  INTER_AREA is the mean of the source over the output pixel if no axis grows.  Otherwise
    it blends two pixels along each axis, but only in outputs that cover the edge between them.

    Args:
        dsize: the output's (width, height); None for the size times ``fx`` and ``fy``, rounded.
        src: the image, as in `remap`.
        dst: an array for the result, as in `remap`.
        fx: output width divided by source width, if dsize is None.
        fy: output height divided by source height, if dsize is None.
        interpolation: INTER_NEAREST, INTER_NEAREST_EXACT, INTER_LINEAR, INTER_LINEAR_EXACT,
            INTER_CUBIC, INTER_AREA or INTER_LANCZOS4.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape or a constant is invalid, or no size is given.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> image = np.array([[0, 100]], np.uint8)
        >>> cv.resize(image, (4, 1))
        array([[  0,  25,  75, 100]], dtype=uint8)
        >>> cv.resize(image, (1, 1), interpolation=cv.INTER_AREA)
        array([[50]], dtype=uint8)
    """
    image, flags = as_image(src), as_flags(interpolation, "interpolation")
    size = None if is_open(dsize) else as_size(dsize)
    maps = maps_of(image.shape[:2], size, (fy, fx), flags)
    return resize_by(maps, image, src, dst)


def resize_by(maps: tuple[AxisMap, ...], image: Array, src: Any, dst: Any) -> Array:
    """Apply a matrix to each axis of an image (H, W, C), and return a result for ``src``.

    It is ``dst``, or a new array if that is None.
    """
    shape = (maps[0].outputs, maps[1].outputs, *np.shape(src)[2:])
    result = destination(dst, shape, image.dtype, False)
    is_direct = result.flags.c_contiguous and not (
        dst is not None and np.may_share_memory(dst, image)
    )
    target = result if is_direct else np.empty(result.shape, result.dtype)
    # The order of sums follows from memory, so that of all images is the same.
    if image.shape[2] > 1 and abs(image.strides[2]) > abs(image.strides[1]):
        image = np.ascontiguousarray(image)
    apply_matrices(maps, as_planes(image), as_planes(with_channels(target)))
    if not is_direct:
        result[...] = target
    return result


@functools.lru_cache(maxsize=512)
def maps_of(
    shape: tuple[int, int], size: tuple[int, int] | None, factors: tuple[float, float], flags: int
) -> tuple[AxisMap, ...]:
    """Return the matrices that resize both axes to a size, or by factors."""
    rule = name_of(flags, RESIZING, "interpolation")
    if size is None:
        fy, fx = factors
        if not (fx > 0 and fy > 0):
            raise ValueError(f"give dsize, or fx and fy above 0; got {fx!r} and {fy!r}")
        size = as_size([round(shape[1] * fx), round(shape[0] * fy)])
    else:
        factors = size[0] / shape[0], size[1] / shape[1]
    if flags == INTER_AREA:
        rule = "area" if max(factors) <= 1 else "sharp"
    return tuple([axis_map(*axis, rule) for axis in zip(shape, size, factors, strict=True)])


def as_planes(image: Array) -> Array:
    """View an image (H, W, C) as (1, C, H, W)."""
    return image.transpose(2, 0, 1)[np.newaxis]
