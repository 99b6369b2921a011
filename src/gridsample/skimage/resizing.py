"""Resizing: `resize`, `rescale` and `downscale_local_mean`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.ops.zooming import zoom_axes, zooms_of
from gridsample.skimage.images import (
    Array,
    as_float,
    as_image,
    as_single,
    check_cval,
    check_order,
    clip_range,
    copy_image,
    find_mode,
    is_integer,
    type_of,
)


def resize(
    image: Any,
    output_shape: Iterable[int],
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0,
    clip: bool = True,
    preserve_range: bool = False,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: Any = None,
) -> Any:
    """Resize an image to a shape, like `skimage.transform.resize`.

    Output pixel o along an axis has the position ``(o + 1/2) * inputs / outputs - 1/2``.  The image
    is first smoothed by a Gaussian, if ``anti_aliasing`` says so, and then interpolated by a spline
    through its pixels.  Along each axis, both are one weighted sum.

    Args:
        image: an image of any rank, an array or a tensor; real.
        output_shape: the output's shape.  If it has one entry less than the image has axes, the
            last axis stays; if it has more, the image gets axes of length 1 at its end.
        order: the order of the spline, 0 (nearest) to 5; None for 1, or 0 for bool.
        mode: the boundary: "constant" (pixels of ``cval``), "edge", "symmetric", "reflect" or
            "wrap", as in `numpy.pad`.
        cval: the value outside, for "constant".
        clip: whether to clip the result to the range of the image's values.
        preserve_range: whether integers keep their values; otherwise they are divided by the
            largest number of their dtype.
        anti_aliasing: whether to smooth the image first; None to do so if an axis shrinks, unless
            the image is of bool, or of integers with ``order=0``.
        anti_aliasing_sigma: the standard deviation of the Gaussian in pixels, a number or one per
            axis; None for ``max(0, (inputs / outputs - 1) / 2)``.

    Returns:
        The resized image: float64, or float32 for an image of half or single precision; of the
        image's dtype for ``order=0``.  For tensors, it is differentiable.

    Raises:
        ValueError: a shape, an order, a mode or a standard deviation is not accepted, an image of
            bool is given with anti_aliasing=True, or the image is complex.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> skimage.resize(np.array([0, 255], np.uint8), (4,), mode="edge")
        array([0.  , 0.25, 0.75, 1.  ])
    """
    source, shape = with_equal_ranks(as_image(image), tuple(output_shape))
    sizes = [rounded_size(n, m) for n, m in zip(source.shape, shape, strict=True)]
    original, source, cval = source, as_single(source), check_cval(cval)
    if anti_aliasing is None:
        shrinks = any(m < n for m, n in zip(shape, source.shape, strict=True))
        copied = type_of(source) == "bool" or (is_integer(source) and order == 0)
        anti_aliasing = shrinks and not copied
    if anti_aliasing and type_of(source) == "bool":
        raise ValueError("anti_aliasing must be False for boolean images")
    order = check_order(source, order)
    if order > 0:
        source = as_float(source, preserve_range)
    boundary = find_mode(mode).boundary
    sigmas = gaussian_sigmas(source.shape, shape, anti_aliasing_sigma) if anti_aliasing else None
    pixels = source
    if sigmas and is_integer(source):
        pixels, sigmas = smooth_integers(source, sigmas, boundary, cval), None
    zooms = zooms_of(source.shape, sizes, order, boundary, sigmas, type_of(source))
    result = zoom_axes(pixels, zooms, cval)
    if result is original:
        result = copy_image(result)
    if clip and (order > 0 or sigmas):  # otherwise, every pixel is one of the image's
        result = clip_range(source, result, mode, cval)
    return backend_of(image=image).restore(result, image)


def rescale(
    image: Any,
    scale: Any,
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0,
    clip: bool = True,
    preserve_range: bool = False,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: Any = None,
    *,
    channel_axis: int | None = None,
) -> Any:
    """Resize an image by a factor, like `skimage.transform.rescale`.

    The output has ``round(n * scale)`` pixels along an axis of n pixels, and at least one; ties
    round to even.

    Args:
        image: the image, as in `resize`.
        scale: the factor, or one per axis without that of channels.
        order: the order of the spline, as in `resize`.
        mode, cval, clip, preserve_range, anti_aliasing: as in `resize`.
        anti_aliasing_sigma: the standard deviation of the Gaussian, as in `resize`.
        channel_axis: the axis of channels, which is not resized; None if there is none.

    Returns:
        The resized image, as in `resize`.

    Raises:
        ValueError: the number of factors is wrong, or an argument is not accepted by `resize`.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> skimage.rescale(np.ones((4, 6, 3)), 0.5, channel_axis=-1).shape
        (2, 3, 3)
    """
    source = as_image(image)
    backend, axis = backend_of(image=image), channel_of(channel_axis, source.ndim)
    order_of_axes = [k for k in range(source.ndim) if k != axis] + ([] if axis is None else [axis])
    source = backend.permute(source, order_of_axes)
    factors = np.atleast_1d(scale)
    spatial = source.ndim - (axis is not None)
    if len(factors) not in (1, spatial):
        raise ValueError(
            f"scale: supply a single scale, or one value per spatial axis; the image has {spatial} "
            f"of them, got {scale!r}"
        )
    shape = np.maximum(np.round(factors * np.array(source.shape[:spatial])), 1)
    result = resize(
        source,
        (*shape.tolist(), *source.shape[spatial:]),
        order,
        mode,
        cval,
        clip,
        preserve_range,
        anti_aliasing,
        anti_aliasing_sigma,
    )
    back = sorted(range(source.ndim), key=order_of_axes.__getitem__)
    return backend.restore(backend.permute(result, back), image)


def downscale_local_mean(image: Any, factors: Any, cval: float = 0, clip: bool = True) -> Any:
    """Average blocks of pixels, like `skimage.transform.downscale_local_mean`.

    If the length of an axis is not a multiple of its factor, pixels of ``cval`` are appended.

    Args:
        image: an image of any rank, an array or a tensor.
        factors: the size of a block, an integer, or one per axis.
        cval: the value of pixels after the end; it is converted to the image's dtype.
        clip: not used.

    Returns:
        The means: float64 for integers and bool, otherwise of the image's dtype.

    Raises:
        ValueError: a factor is not a positive integer, or their number is wrong.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> skimage.downscale_local_mean(np.arange(15).reshape(3, 5), (2, 3))
        array([[3.5, 4. ],
               [5.5, 4.5]])
    """
    source = as_image(image)
    backend = backend_of(image=image)
    blocks = [factors] * source.ndim if np.ndim(factors) == 0 else list(factors)
    if len(blocks) != source.ndim:
        raise ValueError(
            f"factors must be an integer, or one for each of the image's {source.ndim} axes, got "
            f"{factors!r}"
        )
    if any(length != int(length) or length < 1 for length in blocks):
        raise ValueError(
            f"Down-sampling factors must be integers >= 1, got {factors!r}; use "
            "`gridsample.skimage.resize` to up-sample an image"
        )
    padding_value = check_cval(cval)
    if is_integer(source) or type_of(source) == "bool":
        padding_value = float(int(padding_value) if is_integer(source) else bool(padding_value))
        source = backend.astype(source, backend.type("float64"))
    lengths = [int(length) for length in blocks]
    sizes = [-(-n // length) for n, length in zip(source.shape, lengths, strict=True)]
    widths = [float(length) for length in lengths]
    zooms = zooms_of(source.shape, sizes, -1, "constant", widths, type_of(source))
    result = zoom_axes(source, zooms, padding_value)
    return backend.restore(copy_image(result) if result is source else result, image)


# What the arguments mean --------------------------------------------------------------------------


def with_equal_ranks(image: Array, shape: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
    """Give an image and the output's shape equally many axes; see `resize`.

    Raises:
        ValueError: the shape has too few entries.
    """
    if len(shape) > image.ndim:
        missing = len(shape) - image.ndim
        return image.reshape((*image.shape, *(1,) * missing)), shape
    if len(shape) == image.ndim - 1:
        return image, (*shape, image.shape[-1])
    if len(shape) < image.ndim:
        raise ValueError(
            "output_shape length cannot be smaller than the image number of dimensions, "
            f"{image.ndim}, except without the last axis; got {shape}"
        )
    return image, shape


def rounded_size(n: int, outputs: Any) -> int:
    """The number of outputs along an axis; like scikit-image, rounded by way of the factor.

    Raises:
        ValueError: the input or the output has no pixels.
    """
    size = round(n * (1 / (n / outputs))) if n > 0 and outputs > 0 else 0
    if size < 1:
        raise ValueError(
            f"image and output_shape must have at least one pixel along each axis; cannot resize "
            f"{n} to {outputs}"
        )
    return size


def gaussian_sigmas(inputs: Any, outputs: Any, sigma: Any) -> list[float]:
    """The standard deviation of the Gaussian along each axis.

    Raises:
        ValueError: one is negative, or their number is wrong.
    """
    factors = np.divide(inputs, outputs)
    if sigma is None:
        widths = np.maximum(0, (factors - 1) / 2)
    else:
        widths = np.atleast_1d(sigma) * np.ones_like(factors)
        if np.any(widths < 0):
            raise ValueError(
                "anti_aliasing_sigma: Anti-aliasing standard deviation must be greater than or "
                f"equal to zero, got {sigma!r}"
            )
        if np.any((widths > 0) & (factors <= 1)):
            warnings.warn(
                "Anti-aliasing standard deviation greater than zero but not down-sampling along "
                "all axes",
                stacklevel=3,
            )
    sigmas: list[float] = np.where(widths > 1e-15, widths, 0).tolist()
    return sigmas


def smooth_integers(image: Array, sigmas: list[float], boundary: str, cval: float) -> Array:
    """Smooth an image of integers, like SciPy: after each axis, numbers lose their fractions."""
    backend, shape = backend_of(image=image), image.shape
    values = backend.astype(image, backend.type("float64"))
    for axis, sigma in enumerate(sigmas):
        if sigma:
            sigmas_of_axis = [sigma if k == axis else 0.0 for k in range(len(shape))]
            values = zoom_axes(values, zooms_of(shape, shape, 0, boundary, sigmas_of_axis), cval)
            # A sum that rounding left just below an integer counts as that.
            values = backend.xp.trunc(values + 1e-9 * backend.xp.sign(values))
    return backend.astype(values, image.dtype)


def channel_of(channel_axis: Any, rank: int) -> int | None:
    """The axis of channels as a number from 0 on.

    Raises:
        ValueError: there are several, or there is no such axis.
    """
    if channel_axis is None:
        return None
    if np.iterable(channel_axis):
        axes = list(channel_axis)
        if len(axes) != 1:
            raise ValueError(f"channel_axis: only a single axis is supported, got {channel_axis!r}")
        (channel_axis,) = axes
    axis = operator.index(channel_axis)
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank, "channel_axis")
    return axis % rank
