"""Resizing the axes of an array of any rank, each by the band of a `Zoom`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.definitions import zooming
from gridsample.definitions.options import Resizing
from gridsample.definitions.zooming import Zoom

Array = Any
# Decimal digits of weights in single and in double precision, and axes that are resized at once.
DIGITS = {"float32": 8, "float64": 17}
AXES = 3


def zooms_of(
    shape: Sequence[int],
    size: Sequence[int],
    order: int,
    boundary: str,
    sigmas: Sequence[float] | None = None,
    dtype: str = "float64",
) -> list[Zoom]:
    """Describe how each axis of an image is resized.

    Args:
        shape: the image's shape.
        size: the output's shape.
        order: the order of the spline, 0 to 5; -1 for means of blocks.
        boundary: the boundary; see `gridsample.definitions.zooming.Zoom`.
        sigmas: the standard deviation of the Gaussian along each axis, or the length of its blocks.
        dtype: the name of the dtype of sums, which says how exact weights have to be.
    """
    digits = DIGITS.get(dtype, DIGITS["float64"])
    widths = sigmas or [0.0] * len(shape)
    axes = zip(widths, shape, size, strict=True)
    return [Zoom(order, boundary, float(width), digits, n, m) for width, n, m in axes]


def zoom_axes(
    image: Array,
    zooms: Sequence[Zoom],
    cval: float = 0.0,
    rows: slice | None = None,
    threads: int | None = None,
) -> Array:
    """Resize each axis of an image by its `Zoom`.

    The image is read as it is, and little more than the result is allocated, except for the
    boundary "wrap", under which the image is first extended.

    Args:
        image: an array or a tensor of its library, of any rank, with floating-point numbers, or of
            any dtype if pixels are only copied.
        zooms: one for each axis, with the sizes of the whole axes.
        cval: the value of pixels outside under the boundary "constant".
        rows: the outputs along the first axis that are wanted; None for all.  If they are given,
            the image has only the pixels that they need; see `definitions.zooming.inputs_of`.
        threads: the maximum number of threads.

    Returns:
        The result, with the image's dtype; the image itself if no axis changes.

    Raises:
        ValueError: the image or the result has no pixels along an axis.
    """
    backend = backend_of(image=image)
    part = list(zooms)
    size = [zoom.outputs for zoom in zooms]
    if 0 in image.shape or 0 in size:
        raise ValueError(
            "image and result must have at least one pixel along each axis, got the shapes "
            f"{tuple(image.shape)} and {tuple(size)}"
        )
    if rows is not None:
        size[0] = rows.stop - rows.start
        low = zooming.inputs_of(zooms[0], rows).start
        part[0] = zooms[0]._replace(first_input=low, first_output=rows.start)
    values = image
    for axes in groups(zooms):
        values, part = extended(backend, values, part, axes)
        values = zoom_group(backend, values, part, axes, size, threads)
    if zooms and zooms[0].boundary == "constant" and cval != 0:
        inside = [zooming.shares_inside(zoom) for zoom in zooms]
        inside[0] = inside[0][rows or slice(None)]
        if any((share != 1).any() for share in inside):
            values = add_outside(backend, values, inside, cval)
    return values


def groups(zooms: Sequence[Zoom]) -> Iterator[range]:
    """Yield the axes that are resized at once: neighbours, the first and the last of which change.

    An axis that does not change needs no work unless it lies between two others.
    """
    changing = [axis for axis, zoom in enumerate(zooms) if not zoom.is_identity]
    while changing:
        first = changing[0]
        last = max(axis for axis in changing if axis < first + AXES)
        changing = [axis for axis in changing if axis > last]
        yield range(first, last + 1)


def extended(
    backend: Backend, image: Array, zooms: Sequence[Zoom], axes: Sequence[int]
) -> tuple[Array, list[Zoom]]:
    """Extend the axes with the boundary "wrap" by all pixels that are read."""
    zooms = list(zooms)
    for axis in axes:
        zoom = zooms[axis]
        if zoom.boundary == "wrap" and not zoom.is_identity:
            ends = zooming.inputs_of(zoom, slice(0, zoom.outputs))
            index = backend.asarray(np.arange(ends.start, ends.stop) % zoom.inputs, image)
            image = image[(*(slice(None),) * axis, index)]
            zooms[axis] = zoom._replace(first_input=ends.start)
    return image, zooms


def zoom_group(
    backend: Backend,
    image: Array,
    zooms: Sequence[Zoom],
    axes: range,
    size: Sequence[int],
    threads: int | None,
) -> Array:
    """Resize up to three neighbouring axes; those before are items, and those after channels."""
    first, end, rank = axes.start, axes.stop, len(axes)
    before, spatial, after = image.shape[:first], image.shape[first:end], image.shape[end:]
    items, channels = math.prod(before), math.prod(after)
    last = channels > 1
    resizing = Resizing(
        size=tuple(size[first:end]),
        methods=tuple(zooms[first:end]),
        align_corners=False,
        antialias=False,
        scales=(0.0,) * rank,
        channel_axis=-1 if last else 1,
        threads=threads,
    )
    planes = image.reshape((items, *spatial, channels) if last else (items, 1, *spatial))
    if last:
        planes = backend.permute(planes, [0, rank + 1, *range(1, rank + 1)])
    result = backend.resize(planes, resizing, False)
    if last:
        result = backend.permute(result, [0, *range(2, rank + 2), 1])
    return result.reshape((*before, *resizing.size, *after))


def add_outside(backend: Backend, values: Array, inside: Sequence[Any], cval: float) -> Array:
    """Add the share of pixels outside, of the value ``cval``; ``inside`` is that of the image."""
    first, *others = inside
    rest = np.ones(())
    for share in others:
        rest = rest[..., np.newaxis] * share

    def outside(share: Any) -> Any:
        missing = 1 - share * rest
        with np.errstate(invalid="ignore"):
            return np.where(missing == 0, 0, cval * missing)

    if not backend.is_host:
        added = np.stack([outside(share) for share in first])
        return values + backend.astype(backend.asarray(added, values), values.dtype)
    for row, share in enumerate(first):  # one at a time, which needs little memory
        values[row] += outside(share)
    return values
