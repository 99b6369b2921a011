"""Sampling axis by axis: `shift` and `zoom`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of
from gridsample.chunked.strips import sample_axis
from gridsample.definitions.checks import as_reals
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    as_numbers,
    as_real,
    check_rank,
    new_output,
    one_each,
    restored,
    store,
)
from gridsample.ndimage.modes import Spline, spline_of
from gridsample.ndimage.positions import constant
from gridsample.ndimage.prefilter import prepared


def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Shift an image along its axes, like `scipy.ndimage.shift`.

    Output pixel o is the input at ``o - shift``.

    Args:
        input: an image of any rank.
        shift: the shift in pixels, a number or one per axis.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.

    Returns:
        An array of the input's shape, or ``output``.  For tensors, it is differentiable in the
        shift.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.shift(np.array([4.0, 1.0, 3.0, 2.0]), 1.5, order=1, cval=9)
        array([9. , 9. , 2.5, 2. ])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    shifts = [as_numbers(value, image, "shift") for value in one_each(shift, image.ndim, "shift")]
    result = new_output(output, image, tuple(image.shape))
    steps = zip(shifts, image.shape, strict=True)
    positions = [as_like(np.arange(n), by) - by for by, n in steps]
    return restored(store(separable(image, positions, spline), result), input)


def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """Resize an image, like `scipy.ndimage.zoom`.

    The output has ``round(n * zoom)`` pixels along an axis of n pixels.  Output pixel o is the
    input at

        o * (n - 1) / (outputs - 1)             grid_mode=False: corner pixels' centres stay
        (o + 1/2) * n / outputs - 1/2           grid_mode=True: their outer edges stay

    Args:
        input: an image of any rank.
        zoom: a factor, or one per axis.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.
        grid_mode: whether the outer edges of the corner pixels stay in place, see above.

    Returns:
        The resized image, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.zoom(np.array([0.0, 6.0]), 2, order=1)
        array([0., 2., 4., 6.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    factors = one_each(as_reals(zoom, "zoom").tolist(), image.ndim, "zoom")
    shape = tuple(round(n * factor) for n, factor in zip(image.shape, factors, strict=True))
    result = new_output(output, image, shape)
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=2,
        )
    positions = [
        resized_positions(n, outputs, bool(grid_mode))
        for n, outputs in zip(image.shape, shape, strict=True)
    ]
    return restored(store(separable(image, positions, spline), result), input)


def separable(image: Any, positions: Sequence[Any], spline: Spline) -> Any:
    """Sample an image of any rank at the product of separate positions along each axis."""
    backend, outside = backend_of(image=image), []
    shape = tuple(len(place) for place in positions)
    if 0 in image.shape or 0 in shape:
        return constant(shape, spline, image)
    values, inner = image, [slice(0, n) for n in shape]
    for axis, place in enumerate(positions):
        n, x = image.shape[axis], as_real(place, image)
        if at_rest(place, n) and (spline.filters or spline.order < 2):
            continue  # every pixel of the axis is copied
        source = prepared(values, (axis,), spline)
        if spline.mode.fills:
            inside = spline.inside(x, n)
            if backend.is_host:
                inner[axis] = span(inside)
                x, inside = x[inner[axis]], inside[inner[axis]]
            outside.append((axis, ~inside))
        sampled_positions = spline.sampled_positions(backend.xp, x, source.shape[axis])
        values = sample_axis(source, axis, sampled_positions, **spline.options)
    if values is image:
        return values
    for axis, beyond in outside:
        values = filled(backend, values, axis, beyond, spline.cval)
    if tuple(values.shape) == shape:
        return values
    result = np.empty(shape, values.dtype)
    result[...] = spline.cval
    result[tuple(inner)] = values
    return result


def span(inside: Any) -> slice:
    """Return the part of an axis that contains all positions inside the image, or one position."""
    (found,) = np.nonzero(inside)
    return slice(found[0], found[-1] + 1) if len(found) else slice(0, 1)


def at_rest(x: Any, n: int) -> bool:
    """Whether positions are those of the pixels, and need no derivatives."""
    return backend_of(x=x).is_host and len(x) == n and bool((x == np.arange(n)).all())


def filled(backend: Backend, values: Any, axis: int, beyond: Any, cval: Any) -> Any:
    """Replace values by ``cval`` where the position along an axis is outside (``beyond``)."""
    if backend.is_host:
        if beyond.any():
            values[(slice(None),) * axis + (beyond,)] = cval
        return values
    shape = [-1 if k == axis else 1 for k in range(values.ndim)]
    outside = backend.full((), cval, values.dtype, values)
    return backend.xp.where(beyond.reshape(shape), outside, values)


def resized_positions(n: int, outputs: int, edges: bool) -> Any:
    """Compute the positions of outputs over n pixels: between outer centres, or outer edges."""
    at = np.arange(outputs)
    if edges:
        return (at + 0.5) * (n / outputs) - 0.5 if outputs else at
    return at * ((n - 1) / (outputs - 1) if outputs > 1 else 1.0)
