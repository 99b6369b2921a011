"""The prefilter: `spline_filter`, `spline_filter1d`, and the coefficients that are sampled."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.splines import extension
from gridsample.ndimage import arrays
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    bands,
    kind_of_dtype,
    new_output,
    restored,
    store,
)
from gridsample.ndimage.modes import Spline, check_order, find_mode
from gridsample.ops.filtering import spline_filter as coefficients


def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Compute spline coefficients along all axes, like `scipy.ndimage.spline_filter`.

    Intermediate results have the dtype of the output, as in SciPy, so float64 is recommended.

    Args:
        input: the image, as in `spline_filter1d`.
        order: the order of the spline, 2 to 5.
        output, mode: as in `spline_filter1d`.

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.spline_filter(np.ones((2, 2)))
        array([[1., 1.],
               [1., 1.]])
    """
    image = as_image(input)
    check_order(order, 2)
    find_mode(mode)
    result = filter_output(output, image)
    if image.ndim == 0:
        return restored(store(image, result), input)
    for axis in range(image.ndim):
        image = spline_filter1d(image, order, axis, result, mode)
    return restored(image, input)


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Compute spline coefficients along one axis, like `scipy.ndimage.spline_filter1d`.

    Args:
        input: an image of any rank.
        order: the order of the spline, 0 to 5; orders 0 and 1 do not change the image.
        axis: the axis.
        output: an array for the result, or its dtype, as in `map_coordinates`; the default is
            float64, or for tensors the dtype of the input.
        mode: the boundary, as in `map_coordinates`.  The filter is exact for "mirror", "reflect",
            "grid-mirror" and "grid-wrap"; "nearest" is filtered as "reflect", others as "mirror".

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> c = ndimage.spline_filter1d(np.array([0.0, 0.0, 6.0, 0.0, 0.0]))
        >>> (c[1:-3] + 4 * c[2:-2] + c[3:-1]) / 6  # the spline at the middle pixel
        array([6.])
    """
    image = as_image(input)
    order, boundary = check_order(order), find_mode(mode)
    result = filter_output(output, image)
    if order > 1 and image.ndim:
        axis = check_axis(axis, image.ndim)
        image = prepared(image, (axis,), Spline(order, boundary._replace(pad=""), 0.0, True))
    if not backend_of(input=image).is_host:
        return restored(store(image, result), input)
    result[...] = (
        np.trunc(image) if image.dtype.kind == "f" and kind_of_dtype(result) == "i" else image
    )
    return result


def prepared(image: Any, axes: Sequence[int], spline: Spline, keeps_dtype: bool = False) -> Any:
    """Pad an image and compute its coefficients along some axes, if the spline needs them."""
    pixels = padded(in_working_type(image, spline, keeps_dtype), axes, spline)
    if not spline.filters:
        return pixels
    backend, order, boundary = backend_of(input=pixels), spline.order, spline.mode.prefilter
    if not backend.is_host:
        return coefficients(pixels, order, boundary, tuple(axes))

    def filtered(part: Any, along: Sequence[int]) -> Any:
        extended = [extension(boundary, False)] * len(along)
        return backend.prefilter(part, order, extended, along, False, None)

    if pixels.size <= arrays.BAND or np.may_share_memory(pixels, image):
        return filtered(pixels, axes)
    for axis in axes:
        for band in bands(pixels.shape, axis):
            pixels[band] = filtered(pixels[band], (axis,))
    return pixels


def in_working_type(image: Any, spline: Spline, keeps_dtype: bool) -> Any:
    """Convert an image to the dtype in which it is sampled.

    Arrays of libraries other than NumPy keep their precision, and so do pixels that are only
    copied, unless their dtype cannot represent ``cval``.  Sums are computed in float64.  If the
    result ``keeps_dtype``, that of the image, single precision is converted only when it is read.
    """
    backend = backend_of(image=image)
    if not backend.is_host:
        is_summed = kind_of_dtype(image) == "i" and (spline.order > 0 or not spline.suits(image))
        return backend.astype(image, backend.type("float64")) if is_summed else image
    return image.astype(working_type(image, spline, keeps_dtype), copy=False)


def working_type(image: Any, spline: Spline, keeps_dtype: bool) -> Any:
    """The dtype in which an array in host memory is sampled; see `in_working_type`."""
    dtype = image.dtype
    if spline.order == 0 and (dtype.kind in "fc" or spline.suits(image)):
        return np.dtype(np.float32) if dtype == np.float16 else dtype
    if keeps_dtype and spline.order == 1 and dtype in (np.float32, np.complex64):
        return dtype
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def padded(image: Any, axes: Sequence[int], spline: Spline) -> Any:
    """Add pixels at both ends of some axes, if the mode requires it."""
    if not spline.pad:
        return image
    backend = backend_of(image=image)
    if backend.is_host:
        widths = [(spline.pad if axis in axes else 0,) * 2 for axis in range(image.ndim)]
        mode: Any = spline.mode.pad
        outside = {"constant_values": spline.cval} if mode == "constant" else {}
        return np.pad(image, widths, mode, **outside)
    for axis in axes:
        n, rank = image.shape[axis], image.ndim
        at = np.arange(-spline.pad, n + spline.pad)
        nearest = backend.asarray(np.clip(at, 0, n - 1), image)
        image = image[(*(slice(None),) * axis, nearest)]
        if spline.mode.pad == "constant":
            inside = ((at >= 0) & (at < n)).reshape([-1 if k == axis else 1 for k in range(rank)])
            outside = backend.full((), spline.cval, image.dtype, image)
            image = backend.xp.where(backend.asarray(inside, image), image, outside)
    return image


def filter_output(output: Any, image: Any) -> Any:
    """Return the output of a filter; see `new_output`.

    For tensors, SciPy's default dtype means the dtype of the input.
    """
    if backend_of(input=image).is_host:
        return new_output(output, image, image.shape)
    dtype = image.dtype if kind_of_dtype(image) in "fc" else as_like(image, image).dtype
    return dtype if output is np.float64 else new_output(output, image, image.shape)


def check_axis(axis: Any, rank: int) -> int:
    """Return an axis as a non-negative integer, or raise an error if there is no such axis."""
    index = operator.index(axis)
    if not -rank <= index < rank:
        raise np.exceptions.AxisError(index, rank)
    return index % rank
