"""Warping: `remap`, `warpAffine` and `warpPerspective`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gridsample.backends.fixed_point import positions
from gridsample.cv.arguments import (
    BORDER_CONSTANT,
    BORDER_ISOLATED,
    BORDERS,
    INTER_AREA,
    INTER_LINEAR,
    INTER_NEAREST,
    MODES,
    WARP_INVERSE_MAP,
    WARP_RELATIVE_MAP,
    Array,
    as_flags,
    as_image,
    as_size,
    border_values,
    destination,
    name_of,
    with_channels,
)
from gridsample.definitions.checks import as_array, as_reals
from gridsample.definitions.dtypes import NARROW_TYPES, type_name
from gridsample.definitions.integers import saturated
from gridsample.definitions.names import CoordsName
from gridsample.ops.affine import affine_sample, sample_under_maps
from gridsample.ops.sampling import sample_at_pixels

# A function that samples an image (H, W, C) with options of `gridsample.grid_sample`, and returns
# (h, w, C): ``out``, or a new array if that is None.
Sampler = Callable[..., Array]

# The largest size at which positions in single precision are a thousandth of a pixel apart.
MAX_SINGLE_SIZE = 1 << 13

# Fewer points are copied, because each distance between two arrays adds an entry to the cache of
# calls.
MIN_VIEWED_POINTS = 1 << 15


def warp(
    src: Any, sampler: Sampler, size: tuple[int, int], flags: int, border: int, value: Any, dst: Any
) -> Array:
    """Sample an image with OpenCV's options."""
    image = as_image(src)
    options: dict[str, Any] = {
        "mode": name_of(as_flags(flags, "flags") & 7, MODES, "interpolation"),
        "padding_mode": name_of(
            as_flags(border, "borderMode") & ~BORDER_ISOLATED, BORDERS, "borderMode"
        ),
    }
    if options["padding_mode"] == "constant":
        options["fill_value"] = border_values(value, image.shape[2])
    shape = (*size, *np.shape(src)[2:])
    if as_flags(flags, "flags") & 7 == INTER_AREA:
        sampler = functools.partial(sampler, antialias=True)
    if options["padding_mode"] == "transparent":
        result = destination(dst, shape, image.dtype, True)
        blend_into(with_channels(result), image, sampler, options["mode"])
        return result
    if dst is None:
        result = sampler(image, None, **options)
        result = result if result.ndim == len(shape) else result[..., 0]
        return result if result.dtype == image.dtype else result.astype(image.dtype)
    result = destination(dst, shape, image.dtype, False)
    target = with_channels(result)
    is_direct = result.dtype.isnative and not np.may_share_memory(result, image)
    values = sampler(image, target if is_direct else None, **options)
    if values is not target:
        target[...] = values
    return result


def sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which the pixels of an image are summed."""
    return np.dtype(np.float64 if dtype.itemsize > 4 or dtype.kind in "iu" else np.float32)


def blend_into(target: Array, image: Array, sampler: Sampler, mode: str) -> None:
    """Sample an image over previous values, as OpenCV 5 does with BORDER_TRANSPARENT.

    Taps outside the image read the previous values, so that nearest writes up to half a pixel
    beyond the outermost pixels' centres, linear up to one, and cubic up to two.  Lanczos, and
    linear of int16 and float64, write where the integer part of the position is a pixel; lanczos
    mirrors the image there, linear repeats its edge.
    """
    real = image if mode == "nearest" else image.astype(sum_type(image.dtype))
    dtype = np.result_type(real, np.float32)
    if mode == "lanczos4" or (mode == "linear" and image.dtype in (np.int16, np.float64)):
        outside = "mirror" if mode == "lanczos4" else "border"
        values = sampler(real, None, mode=mode, padding_mode=outside)
        # It is 1 from the first pixel's centre on, and falls to 0 within a pixel after the last.
        reach = np.pad(np.ones(image.shape[:2], dtype), (0, 1))[..., np.newaxis]
        options = {"mode": "linear", "padding_mode": "constant", "extrapolate": False}
        written = sampler(reach, None, **options) > 0
    else:
        options = {"mode": mode, "padding_mode": "constant"}
        values = sampler(real, None, **options)
        share = sampler(np.ones((*image.shape[:2], 1), dtype), None, **options)
        share = np.where(np.isnan(share), 0, share)  # an invalid position
        written = share != 0
        # Where all taps are in the image, up to rounding, previous values may be NaN.
        rest = np.where(abs(1 - share) <= 16 * np.finfo(dtype).eps, 0, 1 - share)
        if mode != "nearest":
            values += np.multiply(rest, target, out=np.zeros_like(values), where=rest != 0)
    if values.dtype != image.dtype:
        values = np.rint(values) if image.dtype.kind in "iub" else values
        values = saturated(values, image.dtype) if image.dtype.kind in "iu" else values
    np.copyto(target, values, where=written, casting="unsafe")


def at_points(grid: Array, coords: CoordsName = "pixel") -> Sampler:
    """Make a sampler at points (h, w, 2): positions (x, y) in pixels, or displacements."""

    def sampler(image: Array, out: Array | None, **options: Any) -> Array:
        options |= {"coords": coords, "channel_axis": -1}
        target = None if out is None else out[np.newaxis]
        values: Array = sample_at_pixels(image[None], grid[None], out=target, **options)[0]
        return values

    return sampler


def under_map(matrix: Array, size: tuple[int, int]) -> Sampler:
    """Make a sampler at the output's pixels (x, y, 1) times a matrix (2, 3) or (3, 3)."""

    def sampler(image: Array, out: Array | None, **options: Any) -> Array:
        antialias = options.pop("antialias", False)
        if len(matrix) == 3 and antialias:
            return at_points(projected(matrix, size))(image, out, antialias=True, **options)
        is_single = (
            max(*size, *image.shape[:2]) <= MAX_SINGLE_SIZE
            and type_name(image.dtype) in NARROW_TYPES
        )
        maps = matrix[np.newaxis].astype(np.float32 if is_single else np.float64)
        arrays = image[np.newaxis], maps, (1, image.shape[2], *size)
        options["channel_axis"] = -1
        if antialias:
            values = affine_sample(*arrays, coords="pixel", antialias=True, **options)
        else:
            values = sample_under_maps(*arrays, **options)
        samples: Array = values[0]
        return samples

    return sampler


def projected(matrix: Array, size: tuple[int, int]) -> Array:
    """Return the positions (h, w, 2) to which a (3, 3) matrix maps the output's pixels."""
    columns, rows = np.arange(size[1]), np.arange(size[0])[:, np.newaxis]
    u, v, w = ((a * columns + c) + b * rows for a, b, c in matrix)
    scale = np.divide(1.0, w, out=np.zeros_like(w), where=w != 0)
    return np.stack([u * scale, v * scale], -1)


def remap(
    src: Any,
    map1: Any,
    map2: Any,
    interpolation: int,
    dst: Any = None,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
) -> Array:
    """Sample an image at given positions, like `cv2.remap`.

    The result is ``dst(x, y) = src(map_x(x, y), map_y(x, y))``.

    Args:
        src: the image, (H, W) or (H, W, C), real.
        map1: the x positions, (h, w) floating-point; or x and y, (h, w, 2) floating-point; or the
            integer parts of x and y, (h, w, 2) int16.
        map2: the y positions, (h, w) floating-point; None if map1 has both; or, for int16, None or
            the fractions, (h, w) uint16 or int16: 32 times that of x plus 1024 times that of y.
        interpolation: INTER_NEAREST (ties to even; up for int16), INTER_LINEAR, INTER_CUBIC (Keys,
            a = -0.75), INTER_LANCZOS4, or INTER_AREA, which is linear but takes the mean over each
            pixel's footprint where the image shrinks (in OpenCV, it is linear).  With
            WARP_RELATIVE_MAP, the maps are offsets from the pixel's own position.
        dst: an array for the result, (h, w) or (h, w, C), of the image's dtype; None for a new one.
            It is required with BORDER_TRANSPARENT.
        borderMode: the boundary: BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT,
            BORDER_REFLECT_101, BORDER_WRAP or BORDER_TRANSPARENT.  With the last, taps outside the
            image read the output pixel's previous value in ``dst``, so the image is blended into
            it.
        borderValue: for BORDER_CONSTANT, up to four numbers, one per channel.  Missing numbers are
            0, so a single number applies to the first channel only.

    Returns:
        (h, w) or (h, w, C), of the image's dtype.  Integers are rounded half to even and saturate.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape or a constant is invalid.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> image = np.array([[0, 10], [20, 30]], np.uint8)
        >>> x, y = np.float32([[0.5, 1.5]]), np.float32([[0, 0]])
        >>> cv.remap(image, x, y, cv.INTER_LINEAR)
        array([[5, 5]], dtype=uint8)
    """
    flags = as_flags(interpolation, "interpolation")
    x, y = split_maps(map1, map2, flags & 7 == INTER_NEAREST)
    grid = as_grid_view(x, y)
    if grid is None or (dst is not None and np.may_share_memory(dst, grid)):
        grid = np.stack([x, y], -1)
    sampler = at_points(grid, "displacement" if flags & WARP_RELATIVE_MAP else "pixel")
    return warp(src, sampler, x.shape, flags, borderMode, borderValue, dst)


def as_grid_view(x: Array, y: Array) -> Array | None:
    """View two arrays of positions as one grid (*shape, 2), without a copy.

    The distance between the two arrays in memory becomes the stride of the last axis.  The result
    is None if the layouts of the arrays differ, or if there are few points.  The grid keeps only
    ``x`` alive.
    """
    gap = y.ctypes.data - x.ctypes.data
    alike = x.shape == y.shape and x.strides == y.strides and x.dtype == y.dtype
    if not alike or x.size < MIN_VIEWED_POINTS or gap == 0 or gap % x.itemsize:
        return None
    return as_strided(x, (*x.shape, 2), (*x.strides, gap), writeable=False)


def split_maps(map1: Any, map2: Any, nearest: bool) -> tuple[Array, Array]:
    """Return the positions x and y, (h, w) each, for maps in one of OpenCV's three forms.

    With ``nearest``, fractions of half a pixel and more are rounded up, as in OpenCV 4.14.
    """
    first, second = as_array(map1, "map1"), None if map2 is None else as_array(map2, "map2")
    second = None if second is not None and second.size == 0 < first.size else second
    pair = first.ndim == 3 and first.shape[2] == 2
    if pair and first.dtype == np.int16:
        if second is None:
            pixels = first.astype(np.float32, order="C")
            return pixels[..., 0], pixels[..., 1]
        size = first.shape[:2]
        if second.shape != size or second.dtype not in (np.uint16, np.int16):
            raise ValueError(
                f"map2 must be (h, w) = {size} of uint16 or int16 for an int16 map1, "
                f"got shape {second.shape} and {second.dtype}"
            )
        grid = positions(first, second.view(np.uint16))
        if nearest:
            np.floor(grid + np.float32(0.5), out=grid)  # exact: a fraction has five bits
        return grid[..., 0], grid[..., 1]
    if pair and second is None and first.dtype.kind == "f":
        return first[..., 0], first[..., 1]
    floats = second is not None and first.dtype.kind == second.dtype.kind == "f"
    if second is not None and floats and first.ndim == 2 and first.shape == second.shape:
        return first, second
    raise ValueError(
        "map1 and map2 must be two (h, w) floating arrays, or one of (h, w, 2) and None, or int16 "
        f"(h, w, 2) and uint16 (h, w); got shape {first.shape} and {first.dtype}, and "
        + ("None" if second is None else f"shape {second.shape} and {second.dtype}")
    )


def inverse(matrix: Any, rows: int, flags: int) -> Array:
    """Return the matrix (3, 3) that maps the destination to the source.

    In place of an inverse that does not exist, it is a matrix of zeros, as in OpenCV.
    """
    numbers = as_reals(matrix, "M")
    if numbers.shape != (rows, 3):
        raise ValueError(f"M must be a {rows} x 3 matrix, got shape {numbers.shape}")
    full = [*numbers.tolist(), [0.0, 0.0, 1.0]][:3]
    if flags & WARP_INVERSE_MAP:
        return np.array(full)
    # OpenCV's formulas, because rounding decides which matrices are singular, and determines the
    # inverse of one that is nearly singular.
    (a, b, c), (d, e, f), (g, h, i) = full
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    if not determinant:
        return np.zeros((3, 3))
    scale = 1 / determinant
    return np.array(
        [
            [(e * i - f * h) * scale, (c * h - b * i) * scale, (b * f - c * e) * scale],
            [(f * g - d * i) * scale, (a * i - c * g) * scale, (c * d - a * f) * scale],
            [(d * h - e * g) * scale, (b * g - a * h) * scale, (a * e - b * d) * scale],
        ]
    )


def warpAffine(
    src: Any,
    M: Any,
    dsize: Sequence[int],
    dst: Any = None,
    flags: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
) -> Array:
    """Warp an image by an affine map, like `cv2.warpAffine`.

    With WARP_INVERSE_MAP, ``dst(x, y) = src(M [x, y, 1])``.  Without it, M is inverted first;
    if M is singular, every output pixel is the source's corner pixel (0, 0).

    Args:
        M: (2, 3) matrix, applied to columns (x, y, 1).
        dsize: the output's (width, height).
        flags: an interpolation as in `remap`, and optionally WARP_INVERSE_MAP.
        src: the image, as in `remap`.
        dst, borderMode, borderValue: as in `remap`.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape or a constant is invalid.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> image = np.array([[1, 2, 3]], np.uint8)
        >>> cv.warpAffine(image, np.float64([[1, 0, 1], [0, 1, 0]]), (4, 1))
        array([[0, 1, 2, 3]], dtype=uint8)
    """
    matrix, size = inverse(M, 2, flags)[:2], as_size(dsize)
    return warp(src, under_map(matrix, size), size, flags, borderMode, borderValue, dst)


def warpPerspective(
    src: Any,
    M: Any,
    dsize: Sequence[int],
    dst: Any = None,
    flags: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
) -> Array:
    """Warp an image by a projective map, like `cv2.warpPerspective`.

    With WARP_INVERSE_MAP and (u, v, w) = M [x, y, 1], ``dst(x, y) = src(u / w, v / w)``; where w is
    0, the result is the source's corner pixel (0, 0).  Without it, M is inverted first; if M is
    singular, w is 0 everywhere.

    Args:
        M: (3, 3) matrix, applied to columns (x, y, 1).
        dsize: the output's (width, height).
        flags: an interpolation as in `remap`, and optionally WARP_INVERSE_MAP.
        src: the image, as in `remap`.
        dst, borderMode, borderValue: as in `remap`.

    Returns:
        (height, width) or (height, width, C), of the image's dtype.

    Raises:
        TypeError: an array has an unsupported type.
        ValueError: a shape or a constant is invalid.

    Example:
        >>> import numpy as np
        >>> from gridsample import cv
        >>> image = np.array([[1, 2, 3]], np.uint8)
        >>> cv.warpPerspective(image, np.diag([2.0, 1.0, 1.0]), (5, 1), flags=cv.INTER_NEAREST)
        array([[1, 1, 2, 3, 3]], dtype=uint8)
    """
    matrix, size = inverse(M, 3, flags), as_size(dsize)
    return warp(src, under_map(matrix, size), size, flags, borderMode, borderValue, dst)
