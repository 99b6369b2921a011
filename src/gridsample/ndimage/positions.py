"""Sampling at any positions: `map_coordinates` and `geometric_transform`."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.chunked.strips import POINTS, Positions, sample
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    as_real,
    check_rank,
    given_back,
    kind,
    new_output,
    store,
)
from gridsample.ndimage.modes import Spline, spline_of
from gridsample.ndimage.prefilter import prepared
from gridsample.ndimage.scipys import goes_to_scipy, scipy_function
from gridsample.ops.sampling import grid_sample


def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image at given coordinates, by spline interpolation: `scipy.ndimage.map_coordinates`.

    Output p is the sum over pixels i of c[i] times the product over axes k of
    b(coordinates[k, p] - i[k]), with the B-spline b of the order and the coefficients c that
    `spline_filter` makes.

    Args:
        input: the image, of any rank (more than three axes go to SciPy), real or complex.
        coordinates: (rank, *out), in pixels, along the image's axes in their order: z, y, x.
        output: an array or a tensor for the result, or its dtype; None for the input's.
        order: of the spline, 0 (nearest, ties up) to 5.
        mode: what is outside: "constant" (``cval`` beyond the outermost pixels' centres),
            "grid-constant" (the image is surrounded by pixels of ``cval``), "nearest", "mirror",
            "reflect" or "grid-mirror", "grid-wrap", "wrap" (with the period n - 1).
        cval: the value outside, for the modes with "constant".
        prefilter: False if ``input`` holds coefficients already.

    Returns:
        (*out), or ``output``.  For tensors, a tensor, differentiable in both arguments.

    Raises:
        RuntimeError: shapes, an order or a mode that SciPy refuses with this error.
        TypeError: complex coordinates.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(12.0).reshape(4, 3)
        >>> ndimage.map_coordinates(image, [[0.5, 2], [0.5, 1]], order=1)
        array([2., 7.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image, places = as_image(input), as_image(coordinates, "coordinates")
    if backend_of(input=image).plain and not backend_of(coordinates=places).plain:
        raise TypeError(
            "coordinates are a tensor and input is none; both must be of one library; make it one: "
            "input = torch.as_tensor(input, device=coordinates.device)"
        )
    places = as_like(places, image)
    if kind(places) == "c":
        raise TypeError(f"coordinates: Complex type not supported: {places.dtype}")
    shape = tuple(places.shape[1:])
    check_rank(image.shape, shape)
    if places.shape[0] != image.ndim:
        raise RuntimeError(
            f"coordinates: invalid shape for coordinate array: {tuple(places.shape)}; "
            f"the first axis must have one entry for each of the input's {image.ndim} axes"
        )
    if goes_to_scipy(image):
        elsewhere = scipy_function("map_coordinates", "an input with more than three axes")
        return elsewhere(image, places, output, order, mode, cval, prefilter)
    result = new_output(output, image, shape)

    def sampled(source: Any) -> Any:
        grid = np.moveaxis(spline.padded(places.astype(np.float64, copy=False)), 0, -1)
        return grid_sample(
            source, grid[np.newaxis, ..., ::-1], coords="pixel", **spline.options, **spline.beyond
        )

    fresh = not isinstance(output, np.ndarray)
    finite = spline.order > 0 or not backend_of(input=image).plain or all_finite(places)
    values = transform_whole(
        image, sampled, lambda a, b: places[:, a:b], shape, spline, result, fresh, finite
    )
    return given_back(values, input)


def geometric_transform(
    input: Any,
    mapping: Any,
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Any, ...] = (),
    extra_keywords: dict[str, Any] | None = None,
) -> Any:
    """The image where a function says: `scipy.ndimage.geometric_transform`.

    The function is called once for each output pixel, which takes most of the time; coordinates
    that can be computed as arrays belong in `map_coordinates`.

    Args:
        input: as in `map_coordinates`.
        mapping: takes an output pixel's indices as a tuple, and gives its coordinates in the
            input as a sequence.  A `scipy.LowLevelCallable` goes to SciPy, with all the rest.
        output_shape: the output's shape; None for the input's.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.
        extra_arguments: more arguments for the function.
        extra_keywords: and by name.

    Returns:
        An array of ``output_shape``, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.
        TypeError: the function gives too many or too few coordinates.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(6.0).reshape(2, 3)
        >>> ndimage.geometric_transform(image, lambda at: (at[1], at[0]), (3, 2), order=1)
        array([[0., 3.],
               [1., 4.],
               [2., 5.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    shape = tuple(map(operator.index, image.shape if output_shape is None else output_shape))
    check_rank(image.shape, shape)
    if goes_to_scipy(image) or type(mapping).__name__ == "LowLevelCallable":
        elsewhere = scipy_function("geometric_transform", "more than three axes, or a C function,")
        how = (order, mode, cval, prefilter, extra_arguments, extra_keywords)
        return elsewhere(image, mapping, shape, output, *how)
    result = new_output(output, image, shape)
    given = extra_keywords or {}
    places = [tuple(mapping(at, *extra_arguments, **given)) for at in np.ndindex(shape)]
    if any(len(place) != image.ndim for place in places):
        raise TypeError(
            f"mapping must give {image.ndim} coordinates, one for each axis of the input, "
            f"got {next(len(place) for place in places if len(place) != image.ndim)}"
        )
    if not all(backend_of(x=x).plain for place in places for x in place):
        xp = backend_of(input=image).xp
        table = xp.stack([as_real(x, image) for x in itertools.chain(*zip(*places, strict=True))])
    else:
        table = as_real(np.ascontiguousarray(np.array(places, np.float64).T), image)
    table = table.reshape(image.ndim, *shape)
    values = transform_plain(image, lambda a, b: table[:, a:b], shape, spline, result)
    return given_back(values, input)


# Any positions ------------------------------------------------------------------------------------


def transform(
    image: Any, positions: Positions, shape: tuple[int, ...], spline: Spline, out: Any = None,
    finite: bool = False,
) -> Any:  # fmt: skip
    """An image (*spatial, C) sampled at positions: (*shape, C).

    ``out``, an array of this shape, is filled where it can be, and else left alone.  Positions
    that are known to be ``finite`` need less to be done.
    """
    backend, rank = backend_of(image=image), image.ndim - 1
    if 0 in image.shape[:rank] and spline.mode.boundary != "constant" and not spline.mode.fills:
        raise RuntimeError(f"input is empty, with shape {image.shape[:rank]}, and has no edge")
    if 0 in image.shape[:rank] or 0 in shape:
        return constant((*shape, image.shape[-1]), spline, image)
    source = prepared(image, range(rank), spline)

    def settled(first: int, last: int) -> list[Any]:
        places = zip(positions(first, last), source.shape, strict=False)
        if finite and spline.order and not spline.mode.folds:
            return [spline.padded(x) for x, _ in places]
        return [spline.settle(backend.xp, x, n) for x, n in places]

    direct = isinstance(out, np.ndarray) and out.dtype == source.dtype and out.dtype.isnative
    if direct and out.flags.writeable and not np.may_share_memory(out, source):
        return sample(source, settled, shape, out, **spline.options, **spline.beyond)
    return sample(source, settled, shape, **spline.options, **spline.beyond)


def transform_whole(
    image: Any, sampled: Callable[[Any], Any], positions: Positions, shape: tuple[int, ...],
    spline: Spline, output: Any, fresh: bool, finite: bool,
) -> Any:  # fmt: skip
    """`transform_plain`, where nothing is to be done to the positions: ``sampled`` in one piece.

    It takes the coefficients (1, 1, *spatial).  What comes out as no number is done again the long
    way, by which a position that is none is outside; so is all, unless positions are ``finite``
    where they would not show.  A ``fresh`` output is nobody else's.
    """
    plain = backend_of(image=image).plain and not spline.mode.folds and finite
    empty = 0 in image.shape or 0 in shape
    if not plain or empty or meets_tie(positions, shape, image.shape, spline):
        return transform_plain(image, positions, shape, spline, output)
    kept = output.dtype == image.dtype
    source = prepared(image[..., np.newaxis], range(image.ndim), spline, kept)[..., 0]
    values = sampled(source[np.newaxis, np.newaxis])[0, 0]
    if spline.mode.fills and may_be_no_number(values):
        return transform_plain(image, positions, shape, spline, output)
    return values if fresh and values.dtype == output.dtype else store(values, output)


def may_be_no_number(values: Any) -> bool:
    """Whether any of the values is NaN; or infinities are, of which the sum may be."""
    with np.errstate(all="ignore"):
        return bool(np.isnan(values.sum()))


def meets_tie(
    positions: Positions, shape: Sequence[int], sizes: Sequence[int], spline: Spline
) -> bool:
    """Whether a position is half way between the last pixel of an axis and its first mirror image.

    There SciPy takes the pixel of the latter, although it mirrors the position, and all other ties
    with it.
    """
    if spline.order or spline.mode.fills or spline.mode.boundary != "mirror":
        return False

    def among(x: Any, n: int) -> bool:
        beyond = float(x.max()) - (n - 0.5)
        if n == 1 or beyond < 0:
            return False
        return bool((np.fmod(x - (n - 0.5), 2 * n - 2) == 0 if beyond >= n else x == n - 0.5).any())

    rows = max(1, POINTS // max(1, math.prod(shape[1:])))
    return any(
        among(x, n)
        for first in range(0, shape[0], rows)
        for x, n in zip(positions(first, min(first + rows, shape[0])), sizes, strict=True)
    )


def all_finite(numbers: Any) -> bool:
    """Whether all are, as far as their sum tells; it may be infinite where none of them is."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(numbers.sum()))


def constant(shape: Sequence[int], spline: Spline, image: Any) -> Any:
    """An image of nothing but the value outside."""
    backend = backend_of(image=image)
    number = backend.full(tuple(shape), spline.cval, image.dtype, image)
    return number + backend.xp.zeros_like(number)  # in memory of its own


def transform_plain(
    image: Any, positions: Positions, shape: tuple[int, ...], spline: Spline, output: Any
) -> Any:
    """`transform` of an image without channels, into an output from `new_output`."""
    return as_channel(
        lambda pixels, place: transform(pixels, positions, shape, spline, place), image, output
    )


def as_channel(
    sampled: Callable[[Any, Any], Any], image: Any, output: Any, fresh: bool = False
) -> Any:
    """What is ``sampled`` of an image with one channel, perhaps into an output with one.

    A ``fresh`` output is nobody else's.
    """
    if not backend_of(image=image).plain:
        return store(sampled(image[..., None], None)[..., 0], output)
    place = output[..., np.newaxis]
    values = sampled(image[..., np.newaxis], place)
    if values is place:
        return output
    kept = fresh and values.dtype == output.dtype
    return values[..., 0] if kept else store(values[..., 0], output)
