"""Parts of resized images: bands of rows, or blocks, of images that need not fit in memory.

Parts are NumPy arrays, which go to the kernels as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.backends.resizing import apply, order_of, real_type
from gridsample.definitions import tables
from gridsample.definitions.checks import check_extent
from gridsample.definitions.labels import check_labels
from gridsample.definitions.methods import ResizingMode
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest
from gridsample.definitions.resizing import check_image
from gridsample.ops.resizing import Factor, plan_resizing

Array = np.ndarray[Any, Any]

# The number of values in a band of rows of the input or the output.
BAND_NUMBERS = 1 << 23


# A band of rows at a time -------------------------------------------------------------------------


def resize_rows(
    read: Callable[[int, int], Array],
    shape: Sequence[int],
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: ResizingMode = "nearest",
    align_corners: bool | None = None,
    antialias: bool = False,
    *,
    rows: int = 0,
    threads: int | None = None,
) -> Iterator[Array]:
    """Resize a channels-last image in bands of rows, so that it need not fit in memory.

    Args:
        read: a function that returns rows ``begin`` to ``end`` of the image (slices of a volume),
            (end - begin, ..., C).  It is called with overlapping bands from top to bottom.
        shape: the image's shape, (H, W, C) or (D, H, W, C).
        size: the output's spatial shape, as in `interpolate`.
        align_corners: whether the centres of the corner pixels stay in place, as in `interpolate`.
        rows: the number of output rows per band; 0 for bands of a few million numbers.
        scale_factor, mode, antialias, threads: as in `interpolate`.

    Yields:
        The output's rows from first to last, one band at a time: (rows, ..., C).

    Raises:
        TypeError: an argument is not accepted by `interpolate`.
        ValueError: an argument is not accepted by `interpolate`.

    Example:
        >>> import numpy as np
        >>> from gridsample.ops.resized_parts import resize_rows
        >>> image = np.arange(24.0).reshape(6, 4, 1)
        >>> bands = resize_rows(lambda a, b: image[a:b], (6, 4, 1), (3, 2), mode="area", rows=2)
        >>> [band[..., 0].tolist() for band in bands]
        [[[2.5, 4.5], [10.5, 12.5]], [[18.5, 20.5]]]
    """
    check_image((1, *shape), -1, threads)
    spatial = tuple(shape[:-1])
    request = ResizeRequest(mode, align_corners, antialias=antialias, threads=threads)
    resizing = plan_resizing(spatial, size, scale_factor, request)
    check_extent("a row of the result", (*resizing.size[1:], shape[-1]), 16)
    leading, *others = tables.axes_of(spatial, resizing)
    maps = [tables.axis_map(axis) for axis in others]
    row_in, row_out = math.prod(shape[1:]), math.prod(resizing.size[1:]) * shape[-1]
    rows = rows or max(1, int(BAND_NUMBERS / max(row_out, row_in * spatial[0] / resizing.size[0])))
    for begin in range(0, resizing.size[0], rows):
        part = tables.window(leading, slice(begin, min(begin + rows, resizing.size[0])))
        band = read(part.inputs.start, part.inputs.stop)
        check_labels(resizing.methods[::-1], band.dtype, band.dtype.kind in "biu")
        result = np.empty((1, part.map.band.outputs, *resizing.size[1:], shape[-1]), band.dtype)
        source, target = (np.moveaxis(array, -1, 1) for array in (band[np.newaxis], result))
        apply([part.map, *maps], source, target, resizing)
        yield result[0, part.keep]


# A block at a time --------------------------------------------------------------------------------


def windows_of(
    resizing: Resizing, spatial: Sequence[int], block: Sequence[slice]
) -> list[tables.Window]:
    """Return what a block of the result needs along each axis of an image of some shape."""
    axes = zip(tables.axes_of(spatial, resizing), block, strict=True)
    return [tables.window(axis, outputs) for axis, outputs in axes]


def resize_block(
    image: Array, windows: Sequence[tables.Window], resizing: Resizing, spatial: Sequence[int]
) -> Array:
    """Compute a block of the result from the inputs of its windows, (N, C, *inputs).

    The block has the bits of the whole result, except for splines, of which it is within rounding.
    To that end, axes are resized one after the other, in the order in which the whole image is.
    """
    maps, dtype = [window.map for window in windows], image.dtype.newbyteorder("=")
    order = order_of(resizing, tuple(spatial), dtype)
    if len(order) < 2 or 0 in image.shape or tables.votes(resizing.methods):
        return kept_of(image, maps, [window.keep for window in windows], resizing, dtype)
    real = real_type(dtype)
    between = np.result_type(dtype, real) if dtype.kind in "fc" else real
    for k in order:
        single = [tables.unchanged(n) for n in image.shape[2:]]
        single[k] = maps[k]
        keep = [slice(None)] * len(single)
        keep[k] = windows[k].keep
        image = kept_of(image, single, keep, resizing, dtype if k == order[-1] else between)
    return image


def kept_of(
    image: Array,
    maps: Sequence[tables.AxisMap],
    keep: Sequence[slice],
    resizing: Resizing,
    dtype: np.dtype[Any],
) -> Array:
    """Resize an image by maps, and return the part of the result that is needed."""
    result = np.empty((*image.shape[:2], *[axis_map.outputs for axis_map in maps]), dtype)
    if result.size:
        apply(maps, image, result, resizing)
    kept: Array = result[(slice(None), slice(None), *keep)]
    return kept
