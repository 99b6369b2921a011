"""Sampling at arbitrary positions: `map_coordinates` and `geometric_transform`."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.shapes import bands_along
from gridsample.ndimage import arrays
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    as_real,
    check_rank,
    kind_of_dtype,
    new_output,
    restored,
    store,
)
from gridsample.ndimage.modes import Spline, is_tie, spline_of
from gridsample.ndimage.prefilter import in_working_type, prepared, working_type
from gridsample.ndimage.scipys import goes_to_scipy, scipy_function
from gridsample.ndimage.strips import POINTS, Positions, is_sparse, sample, sample_sparsely
from gridsample.ops.sampling import sample_at_pixels


def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Sample an image at coordinates by spline interpolation, like `scipy.ndimage.map_coordinates`.

    Output p is the sum over pixels i of c[i] times the product over axes k of
    b(coordinates[k, p] - i[k]), where b is the B-spline of the order and c are the coefficients
    from `spline_filter`.

    Args:
        input: the image, of any rank (SciPy processes more than eight axes), real or complex.
        coordinates: (rank, *out), in pixels, in the order of the image's axes: z, y, x.
        output: an array or a tensor for the result, or its dtype; None for the input's dtype.
        order: the order of the spline, 0 (nearest, ties up) to 5.
        mode: the boundary: "constant" (``cval`` beyond the centres of the outermost pixels),
            "grid-constant" (the image is surrounded by pixels of ``cval``), "nearest", "mirror",
            "reflect" or "grid-mirror", "grid-wrap", "wrap" (with the period n - 1).
        cval: the value outside, for "constant" and "grid-constant".
        prefilter: False if ``input`` already holds coefficients.

    Returns:
        (*out), or ``output``.  For tensors, a tensor that is differentiable in both arguments.

    Raises:
        RuntimeError: a shape, an order or a mode for which SciPy raises this error.
        TypeError: the coordinates are complex.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(12.0).reshape(4, 3)
        >>> ndimage.map_coordinates(image, [[0.5, 2], [0.5, 1]], order=1)
        array([2., 7.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image, positions = as_image(input), as_image(coordinates, "coordinates")
    is_host = backend_of(input=image).is_host
    if is_host and not backend_of(coordinates=positions).is_host:
        raise TypeError(
            "coordinates is a tensor, but input is not; both must be from one library; convert it: "
            "input = torch.as_tensor(input, device=coordinates.device)"
        )
    positions = as_like(positions, image)
    if kind_of_dtype(positions) == "c":
        raise TypeError(f"coordinates: Complex type not supported: {positions.dtype}")
    shape = tuple(positions.shape[1:])
    check_rank(image.shape, shape)
    if positions.shape[0] != image.ndim:
        raise RuntimeError(
            f"coordinates: invalid shape for coordinate array: {tuple(positions.shape)}; "
            f"the first axis must have one entry for each of the input's {image.ndim} axes"
        )
    if goes_to_scipy(image):
        of_scipy = scipy_function("map_coordinates", "an input with more than eight axes")
        return of_scipy(image, positions, output, order, mode, cval, prefilter)
    result = new_output(output, image, shape)

    def sampled(source: Any, rows: slice) -> Any:
        places = positions[:, rows]
        if spline.pad or places.dtype == bool:
            places = spline.padded(doubles(places))
        points = places[::-1, np.newaxis]
        grid = points.transpose(*range(1, points.ndim), 0)  # faster than `np.moveaxis`
        wide = grid.dtype != np.float64  # results are float64 anyway
        return sample_at_pixels(source, grid, wide=wide, **spline.options, **spline.outside)

    def lines(first: int, last: int) -> Any:
        places = positions[:, first:last]
        return doubles(places) if is_host else places

    is_new = not isinstance(output, np.ndarray)
    shows_nan = spline.order > 0 or spline.mode.fills  # whether results show positions of NaN
    # A search for ties finds what is not finite, too.
    finite = shows_nan or not is_host or spline.has_ties or all_finite(positions)
    values = transform_whole(image, sampled, lines, shape, spline, result, is_new, finite)
    return restored(values, input)


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
    """Sample an image at the coordinates of a function, like `scipy.ndimage.geometric_transform`.

    The function is called once for each output pixel, which takes most of the time.  If the
    coordinates can be computed as arrays, use `map_coordinates`.

    Args:
        input: the image, as in `map_coordinates`.
        mapping: a function that takes an output pixel's indices as a tuple, and returns its
            coordinates in the input as a sequence.  Calls with a `scipy.LowLevelCallable` are
            passed to SciPy.
        output_shape: the output's shape; None for the input's.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.
        extra_arguments: additional positional arguments of the function.
        extra_keywords: additional keyword arguments of the function.

    Returns:
        An array of ``output_shape``, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.
        TypeError: the function returns the wrong number of coordinates.

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
        of_scipy = scipy_function("geometric_transform", "more than eight axes, or a C function,")
        options = (order, mode, cval, prefilter, extra_arguments, extra_keywords)
        return of_scipy(image, mapping, shape, output, *options)
    result = new_output(output, image, shape)
    keywords = extra_keywords or {}
    positions = [tuple(mapping(at, *extra_arguments, **keywords)) for at in np.ndindex(shape)]
    if any(len(place) != image.ndim for place in positions):
        raise TypeError(
            f"mapping must give {image.ndim} coordinates, one for each axis of the input, "
            f"got {next(len(place) for place in positions if len(place) != image.ndim)}"
        )
    if not all(backend_of(x=x).is_host for place in positions for x in place):
        xp = backend_of(input=image).xp
        table = xp.stack(
            [as_real(x, image) for x in itertools.chain(*zip(*positions, strict=True))]
        )
    else:
        table = as_real(np.ascontiguousarray(np.array(positions, np.float64).T), image)
    table = table.reshape(image.ndim, *shape)
    values = transform_plain(image, lambda a, b: table[:, a:b], shape, spline, result)
    return restored(values, input)


# Arbitrary positions ------------------------------------------------------------------------------


def doubles(positions: Any) -> Any:
    """Convert an array of positions to float64, in which SciPy computes."""
    return positions.astype(np.float64, copy=False)


def transform(
    image: Any,
    positions: Positions,
    shape: tuple[int, ...],
    spline: Spline,
    out: Any = None,
    finite: bool = False,
) -> Any:
    """Sample an image (*spatial, C) at positions; the result is (*shape, C).

    The result is written to ``out``, an array of this shape, if possible; otherwise ``out`` does
    not change.  Positions that are known to be ``finite`` need fewer steps.
    """
    backend, rank = backend_of(image=image), image.ndim - 1
    if 0 in image.shape[:rank] and spline.mode.boundary != "constant" and not spline.mode.fills:
        raise RuntimeError(f"input is empty, with shape {image.shape[:rank]}, and has no edge")
    if 0 in image.shape[:rank] or 0 in shape:
        return constant((*shape, image.shape[-1]), spline, image)
    sizes = [n + 2 * spline.pad for n in image.shape[:rank]]

    def sampled_positions(first: int, last: int) -> list[Any]:
        lines = zip(positions(first, last), sizes, strict=True)
        if finite and not (spline.mode.fold or spline.has_ties):
            return [spline.padded(x) for x, _ in lines]
        return [spline.sampled_positions(backend.xp, x, n) for x, n in lines]

    if is_sparse_for(image, rank, shape, spline):
        options = {**spline.options, **spline.outside}
        dtype = working_type(image, spline, False)
        values = sample_sparsely(
            image, sampled_positions, shape, 2, lambda pixels: pixels.astype(dtype), **options
        )
        if values is not None:
            return values
    source = prepared(image, range(rank), spline)
    direct = isinstance(out, np.ndarray) and out.dtype == source.dtype and out.dtype.isnative
    if direct and out.flags.writeable and not np.may_share_memory(out, source):
        return sample(source, sampled_positions, shape, out, **spline.options, **spline.outside)
    return sample(source, sampled_positions, shape, **spline.options, **spline.outside)


def is_sparse_for(image: Any, rank: int, shape: Sequence[int], spline: Spline) -> bool:
    """Whether an image (*spatial, C) is converted to be sampled, and is large beside the output."""
    if spline.order > 1 or not backend_of(image=image).is_host:
        return False
    pixels = math.prod(image.shape[:rank])
    sparse = is_sparse(pixels, math.prod(shape), 2, rank)
    return sparse and working_type(image, spline, False) != image.dtype


def transform_whole(
    image: Any,
    sampled: Callable[[Any, slice], Any],
    positions: Positions,
    shape: tuple[int, ...],
    spline: Spline,
    output: Any,
    is_new: bool,
    finite: bool,
) -> Any:
    """Sample an image in one piece by ``sampled`` if possible, otherwise by `transform_plain`.

    This is possible if the positions need no changes.  ``sampled`` takes the coefficients
    (1, 1, *spatial) and a range of output rows: all, or a few if the result has another dtype.  If
    a result is NaN, `transform_plain` computes everything again, because it treats NaN positions as
    outside.  It is also used if positions are not ``finite`` in a mode in which the results would
    not show it.  ``is_new`` means that the caller does not own the output.
    """
    unchanged = backend_of(image=image).is_host and not spline.mode.fold and finite
    empty = 0 in image.shape or 0 in shape
    sparse = is_sparse_for(image[..., np.newaxis], image.ndim, shape, spline)
    if not unchanged or empty or sparse or any_tie(positions, shape, image.shape, spline):
        return transform_plain(image, positions, shape, spline, output)
    keeps_dtype = output.dtype == image.dtype
    source = prepared(image[..., np.newaxis], range(image.ndim), spline, keeps_dtype)[..., 0]
    at_once = not is_new or source.dtype == output.dtype
    for rows in [slice(None)] if at_once else bands_along(tuple(shape), arrays.BAND):
        values = sampled(source[np.newaxis, np.newaxis], rows)[0, 0]
        lowest = values.min() if spline.mode.fills else 0  # NaN if any value is
        if lowest != lowest:
            return transform_plain(image, positions, shape, spline, output)
        if is_new and at_once:
            return values
        store(values, output[rows])
    return output


def any_tie(
    positions: Positions, shape: Sequence[int], sizes: Sequence[int], spline: Spline
) -> bool:
    """Whether a position is a tie that SciPy breaks differently (see `is_tie`), or not finite.

    Positions are examined only for modes that have such ties.
    """
    if not spline.has_ties:
        return False
    return any(
        has_tie(x, n)
        for rows in bands_along(tuple(shape), POINTS)
        for x, n in zip(positions(rows.start, rows.stop), sizes, strict=True)
    )


def has_tie(x: Any, n: int) -> bool:
    """Whether a position along an axis is a tie, or not finite."""
    greatest = float(x.max())
    if not (greatest < math.inf and float(x.min()) > -math.inf):
        return True
    if greatest < n - 0.5 + 2 * n - 2:  # remainders are slow to compute
        return greatest >= n - 0.5 and bool((x == n - 0.5).any())
    return bool(is_tie(np, x, n).any())


def all_finite(numbers: Any) -> bool:
    """Whether the sum of numbers is finite; if so, all of them are finite."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(numbers.sum()))


def constant(shape: Sequence[int], spline: Spline, image: Any) -> Any:
    """Create an image filled with the value outside."""
    backend = backend_of(image=image)
    dtype = in_working_type(image, spline, False).dtype
    number = backend.full(tuple(shape), spline.cval, dtype, image)
    return number + backend.xp.zeros_like(number)  # allocates memory for all entries


def transform_plain(
    image: Any, positions: Positions, shape: tuple[int, ...], spline: Spline, output: Any
) -> Any:
    """Apply `transform` to an image without channels, with an output from `new_output`."""
    return as_channel(
        lambda pixels, place: transform(pixels, positions, shape, spline, place), image, output
    )


def as_channel(
    sampled: Callable[[Any, Any], Any], image: Any, output: Any, is_new: bool = False
) -> Any:
    """Apply ``sampled`` to an image and an output, both viewed with one channel.

    ``is_new`` means that the caller does not own the output.
    """
    if not backend_of(image=image).is_host:
        return store(sampled(image[..., None], None)[..., 0], output)
    place = output[..., np.newaxis]
    values = sampled(image[..., np.newaxis], place)
    if values is place:
        return output
    stored = is_new and values.dtype == output.dtype
    return values[..., 0] if stored else store(values[..., 0], output)
