"""Means over the bins of boxes: RoIAlign, also of rotated boxes and of bins with own channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag, check_number
from gridsample.definitions.shapes import as_whole
from gridsample.operators.convolution import pair
from gridsample.operators.sums import weighted_sum
from gridsample.ops.arrays import Array, sum_type

# The fewest channels of a head, if channels are divided among heads so that threads share them.
HEAD = 32
MAX_HEADS = 4


@overridable(arrays=1)
def roi_align(
    input: ArrayT,
    boxes: ArrayT | Sequence[ArrayT],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Compute means over the bins of boxes, as `torchvision.ops.roi_align` does.

    A box is divided into bins, and a bin has samples at the centres of a grid of cells:

        result[k, c, i, j] = mean over the samples of bin (i, j) of box k of input[b_k, c](x, y)

    The samples are bilinear and extended by the edge pixels; a sample that is more than a pixel
    beyond the centre of an edge pixel counts as 0.  The source is K. He et al., "Mask R-CNN", 2017.

    Args:
        input: the features, (N, C, H, W); any floating-point dtype.
        boxes: (K, 5): the index of an image, from 0 to N - 1, and x1, y1, x2, y2; or a list of N
            arrays (L, 4).
        output_size: the number of bins: (height, width), or one number for both.
        spatial_scale: the factor from the units of boxes to pixels of the input.
        sampling_ratio: the number of samples of a bin along each axis.  If it is not positive, it
            is the size of the box's bins in pixels, rounded up; arrays are then as large as the
            largest box needs, and boxes must have known values: they cannot be traced by JAX.
        aligned: whether the coordinate 0 is the outer edge of the first pixel, rather than its
            centre.  If not, boxes have at least the size of a pixel.
        threads: the maximum number of threads; None for the default.

    Returns:
        (K, C, *output_size), in the dtype of the input; NaN for a box of an image that does not
        exist.  Unlike in torchvision, there are gradients for the boxes, too; pass boxes.detach()
        to have none.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: a shape or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import roi_align
        >>> image = np.arange(16.0).reshape(1, 1, 4, 4)
        >>> roi_align(image, np.array([[0, 0, 0, 4, 4.0]]), 2, sampling_ratio=2, aligned=True)
        array([[[[ 2.5,  4.5],
                 [10.5, 12.5]]]])
    """
    check_number(spatial_scale, "spatial_scale")
    backend, image, rois = arguments(input, boxes, 4)
    aligned = check_flag(aligned, "aligned")
    shift = 0.5 if aligned else 0.0
    ends = rois[:, 1:] * spatial_scale - shift
    starts, sizes = ends[:, :2], ends[:, 2:] - ends[:, :2]
    if not aligned:
        sizes = backend.xp.clip(sizes, 1, None)
    bins = bins_of(backend, sizes, output_size, sampling_ratio)
    samples = samples_of(backend, image, rois[:, 0], places_of(bins, starts), bins)
    return backend.restore(means(backend, image, samples, threads), input)


@overridable(arrays=1)
def ps_roi_align(
    input: ArrayT,
    boxes: ArrayT | Sequence[ArrayT],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Compute means over the bins of boxes, each of channels of its own.

    It is `torchvision.ops.ps_roi_align`, which is position-sensitive: with B = rows * columns bins,

        result[k, c, i, j] = mean over the samples of bin (i, j) of box k of
            input[b_k, c * B + i * columns + j](x, y)

    with the samples of `roi_align` with ``aligned=True``.  The sources are J. Dai et al., "R-FCN",
    2016, for the channels, and Z. Li et al., "Light-Head R-CNN", 2017, for the samples.

    Args:
        input: the features, (N, C * B, H, W); any floating-point dtype.
        boxes: as in `roi_align`.
        output_size: the number of bins: (rows, columns), or one number for both.
        spatial_scale, sampling_ratio: as in `roi_align`.
        threads: the maximum number of threads; None for the default.

    Returns:
        (K, C, *output_size), in the dtype of the input, with gradients for the boxes, too.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: a shape or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import ps_roi_align
        >>> image = np.zeros((1, 4, 4, 4)) + np.arange(4.0)[:, None, None]
        >>> ps_roi_align(image, np.array([[0, 0, 0, 4, 4.0]]), 2, sampling_ratio=2)
        array([[[[0., 1.],
                 [2., 3.]]]])
    """
    check_number(spatial_scale, "spatial_scale")
    backend, image, rois = arguments(input, boxes, 4)
    ends = rois[:, 1:] * spatial_scale - 0.5
    bins = bins_of(backend, ends[:, 2:] - ends[:, :2], output_size, sampling_ratio)
    samples = samples_of(backend, image, rois[:, 0], places_of(bins, ends[:, :2]), bins)
    xp, (boxes_count, rows, columns, number, _) = backend.xp, samples.points.shape
    (items, channels, height, width), heads = image.shape, rows * columns
    if channels % heads:
        raise ValueError(
            f"input must have {heads} channels for each of the output, one for each of {rows} x "
            f"{columns} bins; got {channels} channels"
        )
    pixels = xp.reshape(image, (items, channels // heads, heads, height, width))
    pixels = backend.permute(pixels, (0, 3, 4, 2, 1))
    sums = summed(
        xp.reshape(pixels, (1, items * height * width, heads, channels // heads)),
        xp.reshape(samples.points, (1, boxes_count, heads, 1, number, 3)),
        xp.reshape(samples.weights, (1, boxes_count, heads, 1, number)),
        (items, height, width),
        threads,
    )
    sums = xp.reshape(sums, (boxes_count, rows, columns, channels // heads))
    return backend.restore(backend.permute(sums, (0, 3, 1, 2)), input)


@overridable(arrays=1)
def rotated_roi_align(
    input: ArrayT,
    boxes: ArrayT | Sequence[ArrayT],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Compute means over the bins of rotated boxes, as Detectron2's ``ROIAlignRotated`` does.

    Args:
        input: the features, (N, C, H, W); any floating-point dtype.
        boxes: (K, 6): the index of an image, the centre x, y, the width, the height, and the angle
            in degrees, counter-clockwise as seen with y downwards.  The coordinate 0 is the outer
            edge of the first pixel.
        output_size, spatial_scale, sampling_ratio: as in `roi_align`.
        threads: the maximum number of threads; None for the default.

    Returns:
        (K, C, *output_size), in the dtype of the input, with gradients for the boxes, too.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: a shape or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import rotated_roi_align
        >>> image = np.arange(16.0).reshape(1, 1, 4, 4)
        >>> box = np.array([[0, 2, 2, 4, 4, 90.0]])
        >>> rotated_roi_align(image, box, 2, sampling_ratio=2).round(9)
        array([[[[10.5,  2.5],
                 [12.5,  4.5]]]])
    """
    check_number(spatial_scale, "spatial_scale")
    backend, image, rois = arguments(input, boxes, 5)
    centres, sizes = rois[:, 1:3] * spatial_scale - 0.5, rois[:, 3:5] * spatial_scale
    angle = (rois[:, 5] * (math.pi / 180))[:, None, None, None, None]
    cosine, sine = backend.xp.cos(angle), backend.xp.sin(angle)
    y, x = bins_of(backend, sizes, output_size, sampling_ratio)
    half = (sizes * 0.5)[:, :, None, None, None, None]
    across = x.places[:, None, :, None, :] - half[:, 0]
    down = y.places[:, :, None, :, None] - half[:, 1]
    centre = centres[:, :, None, None, None, None]
    places = (
        across * cosine + down * sine + centre[:, 0],
        down * cosine - across * sine + centre[:, 1],
    )
    samples = samples_of(backend, image, rois[:, 0], places, (y, x))
    return backend.restore(means(backend, image, samples, threads), input)


class Bins(NamedTuple):
    """The samples of boxes along one axis.

    Attributes:
        places: the distance of each sample from the begin of its box, (K, bins, samples).
        used: which samples count, (K, 1, samples) or None for all.
        counts: how many there are in a bin, (K,) or one number for all.
    """

    places: Array
    used: Array | None
    counts: Any


def arguments(input: Any, boxes: Any, numbers: int) -> tuple[Backend, Array, Array]:
    """Return the backend, the image, and the boxes (K, 1 + numbers) in a dtype of sums.

    Raises:
        ValueError: an array has the wrong shape, or there is not a list of boxes for each image.
    """
    separate = isinstance(boxes, (list, tuple))
    given = [*boxes] if separate else [boxes]
    named = {
        "input": input,
        **{f"boxes_{k}" if separate else "boxes": b for k, b in enumerate(given)},
    }
    backend = backend_of(**named)
    image, *lists = backend.to_device(**named)
    if len(image.shape) != 4:
        raise ValueError(f"input must be (N, C, H, W), got shape {backend.shape(image)}")
    if separate and len(lists) != image.shape[0]:
        raise ValueError(
            f"boxes must have an array for each of {image.shape[0]} images, got {len(lists)}"
        )
    width = numbers + (not separate)
    for array in lists:
        if len(array.shape) != 2 or array.shape[1] != width:
            raise ValueError(
                f"boxes must be (K, {numbers + 1}) with the index of an image first, or a list of "
                f"arrays (L, {numbers}); got shape {backend.shape(array)}"
            )
    lists = [backend.astype(array, sum_type(backend, image, array)) for array in lists]
    if not image.shape[0]:  # an image without number, as a level has pixels
        missing = backend.full((1, *backend.shape(image)[1:]), math.nan, image.dtype, image)
        image = backend.concatenate([image, missing], 0)
    if not separate:
        return backend, image, lists[0]
    parts = [backend.full((0, numbers + 1), 0, sum_type(backend, image, *lists), image)]
    for k, array in enumerate(lists):
        index = backend.full((array.shape[0], 1), k, array.dtype, array)
        parts.append(backend.concatenate([index, array], 1))
    return backend, image, backend.concatenate(parts, 0)


def bins_of(
    backend: Backend, sizes: Array, output_size: int | Sequence[int], ratio: int
) -> tuple[Bins, Bins]:
    """Divide boxes of sizes (K, 2), x first, into bins; return those along y and along x."""
    height, width = pair(output_size, "output_size", 1)
    try:
        ratio = as_whole(ratio)
    except TypeError:
        raise TypeError(f"sampling_ratio must be an integer, got {ratio!r}") from None
    return (
        bins_along(backend, sizes[:, 1], height, ratio),
        bins_along(backend, sizes[:, 0], width, ratio),
    )


def bins_along(backend: Backend, sizes: Array, count: int, ratio: int) -> Bins:
    """Divide boxes of sizes (K,) into bins along one axis."""
    xp, each = backend.xp, (sizes / count)[:, None, None]
    starts = backend.line(count, None, sizes.dtype, sizes)[None, :, None]
    if ratio > 0:
        numbers = backend.line(ratio, None, sizes.dtype, sizes)[None, None, :]
        return Bins((starts + (numbers + 0.5) / ratio) * each, None, ratio)
    counts = xp.clip(xp.ceil(sizes / count), 0, None)
    numbers = backend.line(largest(backend, counts), None, sizes.dtype, sizes)[None, None, :]
    cells = xp.clip(counts, 1, None)[:, None, None]
    used = numbers < counts[:, None, None]
    return Bins((starts + (numbers + 0.5) / cells) * each, used, counts)


def largest(backend: Backend, counts: Array) -> int:
    """Return the largest number of samples of a bin, at least 1.

    Raises:
        ValueError: the values of boxes are not known, or not finite.
    """
    if not counts.shape[0]:
        return 1
    try:
        most = float(backend.xp.max(counts))
    except (TypeError, RuntimeError) as error:  # of JAX, and of a transform of torch
        raise ValueError(
            "sampling_ratio must be positive where the values of boxes are not known, as in a "
            "program that is traced"
        ) from error
    if not math.isfinite(most):
        raise ValueError("boxes must be finite where sampling_ratio is not positive")
    return max(1, int(most))


class RegionSamples(NamedTuple):
    """The samples of the bins of all boxes.

    Attributes:
        points: (K, rows, columns, samples, 3): x, y and the image, in pixels.
        weights: (K, rows, columns, samples).
    """

    points: Array
    weights: Array


def places_of(bins: tuple[Bins, Bins], starts: Array) -> Sequence[Array]:
    """Return x and y of the samples of boxes along the axes of the image, which begin at (K, 2)."""
    (y, x), begin = bins, starts[:, :, None, None, None, None]
    return (
        x.places[:, None, :, None, :] + begin[:, 0],
        y.places[:, :, None, :, None] + begin[:, 1],
    )


def samples_of(
    backend: Backend,
    image: Array,
    index: Array,
    places: Sequence[Array],
    bins: tuple[Bins, Bins],
) -> RegionSamples:
    """Return samples at places x, y, which broadcast to (K, *bins, *samples), for their means."""
    xp, (height, width) = backend.xp, image.shape[2:]
    x, y = (xp.broadcast_to(place, shape_of(bins)) for place in places)
    inside = (x >= -1) & (x <= width) & (y >= -1) & (y <= height)
    y_bins, x_bins = bins
    number: Any = y_bins.counts * x_bins.counts
    if y_bins.used is not None and x_bins.used is not None:
        inside = inside & y_bins.used[:, :, None, :, None] & x_bins.used[:, None, :, None, :]
        number = xp.clip(number, 1, None)[:, None, None, None, None]
    weights = backend.astype(xp.where(inside, 1.0, 0.0), x.dtype) / number
    # Boxes of images that do not exist are NaN.
    index = xp.where((index >= 0) & (index <= image.shape[0] - 1), index, math.nan)
    z = xp.broadcast_to(index[:, None, None, None, None], x.shape)
    boxes, rows, columns, down, across = x.shape
    shape = boxes, rows, columns, down * across
    points = xp.reshape(xp.stack([x, y, z], -1), (*shape, 3))
    return RegionSamples(points, xp.reshape(weights, shape))


def means(backend: Backend, image: Array, samples: RegionSamples, threads: int | None) -> Array:
    """Compute the means of the samples of all channels, (K, C, rows, columns)."""
    xp, (items, channels, height, width) = backend.xp, image.shape
    boxes, rows, columns, number = samples.weights.shape
    heads = math.gcd(channels, MAX_HEADS) if channels >= MAX_HEADS * HEAD else 1
    queries = boxes * rows * columns
    points = xp.reshape(samples.points, (1, queries, 1, 1, number, 3))
    weights = xp.reshape(samples.weights, (1, queries, 1, 1, number))
    pixels = xp.reshape(
        backend.permute(image, (0, 2, 3, 1)),
        (1, items * height * width, heads, channels // heads),
    )
    sums = summed(
        pixels,
        xp.broadcast_to(points, (1, queries, heads, 1, number, 3)),
        xp.broadcast_to(weights, (1, queries, heads, 1, number)),
        (items, height, width),
        threads,
    )
    return backend.permute(xp.reshape(sums, (boxes, rows, columns, channels)), (0, 3, 1, 2))


def summed(
    pixels: Array,
    points: Array,
    weights: Array,
    size: Sequence[int],
    threads: int | None,
) -> Array:
    """Compute weighted sums of samples, extended by the edge pixels of an image."""
    modes: tuple[Any, ...] = "bilinear", "bilinear", "nearest"
    sums: Array = weighted_sum(
        pixels, points, weights, [size], modes, "border", coords="pixel", threads=threads
    )
    return sums


def shape_of(bins: Sequence[Bins]) -> tuple[int, ...]:
    """Return the shape of all samples: boxes, bins along y and x, samples along y and x."""
    (boxes, rows, down), (_, columns, across) = (each.places.shape for each in bins)
    return boxes, rows, columns, down, across
