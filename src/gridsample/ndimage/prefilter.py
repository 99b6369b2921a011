"""The prefilter: `spline_filter`, `spline_filter1d`, and what is sampled in an image's place."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.ndimage.arrays import as_image, as_like, given_back, kind, new_output, store
from gridsample.ndimage.modes import PAD, Spline, check_order, find_mode
from gridsample.ops.filtering import spline_filter as coefficients


def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Spline coefficients along all axes: `scipy.ndimage.spline_filter`.

    What lies between two axes' passes has the output's type, as in SciPy: keep float64.

    Args:
        input: as in `spline_filter1d`.
        order: of the spline, 2 to 5.
        output: as in `spline_filter1d`.
        mode: as in `spline_filter1d`.

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.

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
        return given_back(store(image, result), input)
    for axis in range(image.ndim):
        image = spline_filter1d(image, order, axis, result, mode)
    return given_back(image, input)


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Spline coefficients along one axis: `scipy.ndimage.spline_filter1d`.

    Args:
        input: an image of any rank.
        order: of the spline, 0 to 5; 0 and 1 leave the image as it is.
        axis: the axis.
        output: as in `map_coordinates`; float64 if left out, a tensor's own type for a tensor.
        mode: what is outside, as in `map_coordinates`; exact for "mirror", "reflect",
            "grid-mirror" and "grid-wrap"; "nearest" is filtered as "reflect", others as "mirror".

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> c = ndimage.spline_filter1d(np.array([0.0, 0.0, 6.0, 0.0, 0.0]))
        >>> (c[1:-3] + 4 * c[2:-2] + c[3:-1]) / 6  # the spline at the middle pixel
        array([6.])
    """
    image = as_image(input)
    order, how = check_order(order), find_mode(mode)
    result = filter_output(output, image)
    if order > 1 and image.ndim:
        axis = check_axis(axis, image.ndim)
        image = prepared(image, (axis,), Spline(order, how._replace(pad=""), 0.0, True))
    if not backend_of(input=image).plain:
        return given_back(store(image, result), input)
    result[...] = np.trunc(image) if image.dtype.kind == "f" and kind(result) == "i" else image
    return result


def prepared(image: Any, axes: Sequence[int], spline: Spline, kept: bool = False) -> Any:
    """What is sampled in an image's place: its coefficients along some axes."""
    image = working(padded(image, axes, spline), spline, kept)
    if spline.filters:
        image = coefficients(image, spline.order, spline.mode.prefilter, tuple(axes))
    return image


def working(image: Any, spline: Spline, kept: bool) -> Any:
    """The image in the type that it is sampled in.

    Elsewhere than in NumPy numbers keep their precision.  Copied numbers do, too; sums are made in
    float64, which single precision is brought to as it is read, if the result is ``kept`` in the
    image's type.
    """
    backend = backend_of(image=image)
    if not backend.plain:
        whole = kind(image) == "i" and spline.order
        return backend.astype(image, backend.type("float64")) if whole else image
    if spline.order == 0:
        return image.astype(np.float32) if image.dtype == np.float16 else image
    if kept and spline.order == 1 and image.dtype in (np.float32, np.complex64):
        return image
    return image.astype(np.complex128 if image.dtype.kind == "c" else np.float64, copy=False)


def padded(image: Any, axes: Sequence[int], spline: Spline) -> Any:
    """The image with `PAD` more pixels at both ends of some axes, if the mode has it so."""
    if not spline.pad:
        return image
    backend = backend_of(image=image)
    for axis in axes:
        n, rank = image.shape[axis], image.ndim
        at = np.arange(-PAD, n + PAD)
        nearest = backend.asarray(np.clip(at, 0, n - 1), image)
        image = image[(*(slice(None),) * axis, nearest)]
        if spline.mode.pad == "constant":
            inside = ((at >= 0) & (at < n)).reshape([-1 if k == axis else 1 for k in range(rank)])
            outside = backend.full((), spline.cval, image.dtype, image)
            image = backend.xp.where(backend.asarray(inside, image), image, outside)
    return image


def filter_output(output: Any, image: Any) -> Any:
    """As `new_output`; SciPy's default stands for a tensor's own type."""
    if backend_of(input=image).plain:
        return new_output(output, image, image.shape)
    own = image.dtype if kind(image) in "fc" else as_like(image, image).dtype
    return own if output is np.float64 else new_output(output, image, image.shape)


def check_axis(axis: Any, rank: int) -> int:
    """An axis, counted from the front."""
    given = operator.index(axis)
    if not -rank <= given < rank:
        raise np.exceptions.AxisError(given, rank)
    return given % rank
