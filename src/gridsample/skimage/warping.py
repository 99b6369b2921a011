"""Warping: `warp` and `rotate`."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.checks import as_array
from gridsample.ndimage.arrays import as_like, as_numbers, as_real, new_output, store
from gridsample.ndimage.modes import Spline, spline_of
from gridsample.ndimage.positions import map_coordinates, transform
from gridsample.ndimage.strips import Positions, is_sparse, sample, sample_sparsely
from gridsample.ops.affine import affine_sample
from gridsample.skimage.images import (
    Array,
    SkimageMode,
    as_float,
    as_image,
    as_integers,
    as_single,
    check_cval,
    check_order,
    clip_range,
    extremes,
    find_mode,
)

# The orders for which scikit-image samples under a matrix without SciPy, and the methods that it
# uses: its cubic is not a spline.
METHODS = {1: "linear", 3: "catmull-rom"}


class WarpSampling(NamedTuple):
    """How an image is sampled.

    Attributes:
        order: the order of the interpolation.
        boundary: what is outside.
        cval: the value outside.
        convert: converts pixels to the dtype in which they are sampled.
    """

    order: int
    boundary: SkimageMode
    cval: float
    convert: Callable[[Any], Any]

    @property
    def spline(self) -> Spline:
        """The options of `gridsample.ndimage`."""
        return spline_of(self.order, self.boundary.ndimage, self.cval, True)


def unchanged(image: Array) -> Array:
    """Return an image whose pixels need no conversion."""
    return image


def warp(
    image: Any,
    inverse_map: Any,
    map_args: dict[str, Any] | None = None,
    output_shape: Sequence[int] | None = None,
    order: int | None = None,
    mode: str = "constant",
    cval: float = 0.0,
    clip: bool = True,
    preserve_range: bool = False,
) -> Any:
    """Warp an image by a map from the output to the input, like `skimage.transform.warp`.

    The position of output pixel (column, row) in the input is

        (x / w, y / w),  (x, y, w) = matrix @ (column, row, 1)          for a matrix
        inverse_map([[column, row]])                                    for a function
        inverse_map[:, row, column], in the order of the image's axes   for coordinates

    For a matrix and order 1 or 3, pixels are interpolated linearly or by Keys' cubic with a = -1/2,
    and pixels outside count one by one.  Otherwise, the result is that of
    `gridsample.ndimage.map_coordinates`, in which orders 2 to 5 are splines.

    Args:
        image: (rows, columns), (rows, columns, channels), or for coordinates an image of any rank;
            an array or a tensor, real.
        inverse_map: a (3, 3) matrix; one of scikit-image's projective transforms, or its inverse;
            a function of coordinates (P, 2), columns first, all of them in one call, or any other
            transform object; or coordinates (rank, *out).  If the image is a tensor, functions
            are called with a tensor, and scikit-image's transforms with an array.
        map_args: keyword arguments of the function.
        output_shape: the output's (rows, columns); None for the image's.  Not used for coordinates.
        order: the order of the interpolation, 0 (nearest) to 5; None for 1, or 0 for bool.
        mode: the boundary: "constant" (pixels of ``cval``), "edge", "symmetric", "reflect" or
            "wrap", as in `numpy.pad`.
        cval: the value outside, for "constant".
        clip: whether to clip the result to the range of the image's values, and of ``cval`` if it
            is in the result.
        preserve_range: whether integers keep their values; otherwise they are divided by the
            largest number of their dtype.

    Returns:
        The warped image: float64, or float32 for an image of half or single precision; of the
        image's dtype for ``order=0``.  For tensors, it is differentiable in the image, and in the
        matrix or coordinates if they are tensors.

    Raises:
        ValueError: the image is empty or complex, its rank does not suit a matrix or a function,
            or an order, a mode or a shape is not accepted.
        RuntimeError: the shape of coordinates does not match the image.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> shift = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> skimage.warp(np.array([[0.0, 4.0, 8.0]]), shift)
        array([[2., 6., 4.]])
    """
    source, cval = as_image(image), check_cval(cval)
    if 0 in source.shape:
        raise ValueError(f"Cannot warp empty image with dimensions {tuple(source.shape)}")
    order = check_order(source, order)
    boundary = find_mode(mode)
    convert = functools.partial(as_float, preserve_range=preserve_range) if order > 0 else unchanged
    if not backend_of(image=image).is_host:
        source = convert(source)
    shape = (
        tuple(source.shape) if output_shape is None else as_integers(output_shape, "output_shape")
    )
    if order == 2:
        warnings.warn(
            "Bi-quadratic interpolation is SciPy's spline of order 2, for matrices, too, because "
            "of a bug in scikit-image's own; order 1 or 3 is recommended instead",
            stacklevel=2,
        )
    sampling = WarpSampling(order, boundary, cval, convert)
    result = warp_by_map(source, inverse_map, map_args, shape, sampling)
    if clip and order > 0:  # otherwise, every pixel is one of the image's
        result = clip_range(convert(extremes(source)), result, mode, cval)
    return backend_of(image=image).restore(result, image)


def warp_by_map(
    source: Array,
    inverse_map: Any,
    map_args: dict[str, Any] | None,
    shape: tuple[int, ...],
    sampling: WarpSampling,
) -> Array:
    """Sample an image, which is not converted yet, under a map of any type; see `warp`."""
    order, boundary, cval, convert = sampling
    matrix, flat = matrix_of(inverse_map), source.ndim in (2, 3)
    if matrix is not None and order in METHODS and not map_args and flat and len(shape) > 1:
        options: dict[str, Any] = {"mode": METHODS[order], "padding_mode": boundary.boundary}
        if boundary.boundary == "constant":
            options["fill_value"] = cval
        return sample_under_matrix(source, matrix, shape[:2], options, convert)
    if matrix is None and not callable(inverse_map):
        return at_coordinates(source, inverse_map, sampling)
    if not flat:
        raise ValueError(
            "Only 2-D images (grayscale or color) are supported if inverse_map is a function or a "
            f"matrix, got shape {tuple(source.shape)}"
        )
    if len(shape) < 2:
        raise ValueError(f"output_shape must be (rows, columns), got {shape}")
    if matrix is not None and order == 0 and not map_args and keeps_ties(matrix, boundary):
        check_channels(source, shape)
        options = spline_of(order, boundary.ndimage, cval, True).options
        return sample_under_matrix(source, matrix, shape[:2], options, convert)
    if matrix is None or map_args:
        positions = map_pixels(source, inverse_map, map_args or {}, shape)
    else:
        positions = map_pixels(source, lambda xy: apply_homography(matrix, xy), {}, shape)
    return at_positions(source, positions, shape, sampling)


def rotate(
    image: Any,
    angle: float,
    resize: bool = False,
    center: Sequence[float] | None = None,
    order: int | None = None,
    mode: str = "constant",
    cval: float = 0,
    clip: bool = True,
    preserve_range: bool = False,
) -> Any:
    """Rotate an image about a point, like `skimage.transform.rotate`.

    Args:
        image: (rows, columns) or (rows, columns, channels), as in `warp`.
        angle: the angle in degrees, counter-clockwise.
        resize: whether the output's shape is such that it contains the whole image.
        center: (column, row) of the point; None for the image's centre.
        order: the order of the interpolation, as in `warp`.
        mode, cval, clip, preserve_range: as in `warp`.

    Returns:
        The rotated image, as in `warp`.

    Raises:
        ValueError: an argument is not accepted by `warp`.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> skimage.rotate(np.arange(6.0).reshape(2, 3), 90, resize=True).round(9)
        array([[2., 5.],
               [1., 4.],
               [0., 3.]])
    """
    source = as_single(as_image(image))
    if source.ndim < 2:
        raise ValueError(f"image must have at least two axes, got shape {tuple(source.shape)}")
    rows, columns = source.shape[:2]
    middle = np.array((columns, rows)) / 2.0 - 0.5 if center is None else np.asarray(center, float)
    radians = np.deg2rad(float(angle))
    c, s = math.cos(radians), math.sin(radians)
    rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    matrix = translation(middle) @ (rotation @ translation(-middle))
    shape = None
    if resize:
        ends = [[0, 0], [0, rows - 1], [columns - 1, rows - 1], [columns - 1, 0]]
        corners = apply_homography(np.linalg.inv(matrix), np.array(ends, float))
        low, high = corners.min(axis=0), corners.max(axis=0)
        shape = np.around((high - low + 1)[::-1]).tolist()
        matrix = matrix @ translation(low)
    matrix[2] = (0, 0, 1)
    result = warp(source, matrix, None, shape, order, mode, cval, clip, preserve_range)
    return backend_of(image=image).restore(result, image)


# Maps ---------------------------------------------------------------------------------------------


def translation(by: Any) -> Any:
    """The matrix of a shift (x, y)."""
    return np.array([[1.0, 0.0, by[0]], [0.0, 1.0, by[1]], [0.0, 0.0, 1.0]])


def is_skimage_class(cls: type, *names: str) -> bool:
    """Whether a class is, or derives from, one of scikit-image's, or from one of certain names."""
    return any(
        base.__module__.startswith("skimage.") and base.__name__ in (names or (base.__name__,))
        for base in cls.__mro__
    )


def is_projective(cls: type) -> bool:
    """Whether a class is one of scikit-image's transforms whose parameters are a matrix."""
    return is_skimage_class(cls, "ProjectiveTransform")


def as_real_numbers(values: Any, like: Any) -> Any:
    """Convert a matrix or coordinates to real numbers of the library and device of an image."""
    return as_real(as_numbers(values, like, "inverse_map"), like)


def matrix_of(inverse_map: Any) -> Any:
    """The (3, 3) matrix of a map; None if it has none."""
    if is_projective(type(inverse_map)):
        return as_homography(inverse_map.params)
    owner: Any = getattr(inverse_map, "__self__", None)  # in old versions, `inverse` is a method
    if getattr(inverse_map, "__name__", "") == "inverse" and is_projective(type(owner)):
        return as_homography(np.linalg.inv(owner.params))
    if callable(inverse_map) and not hasattr(inverse_map, "shape"):
        return None
    return as_homography(inverse_map)


def as_homography(matrix: Any) -> Any:
    """An array of numbers if its shape is (3, 3); otherwise None."""
    matrix = matrix if hasattr(matrix, "shape") else np.asarray(matrix)
    return matrix if tuple(matrix.shape) == (3, 3) else None


def apply_homography(matrix: Any, xy: Any) -> Any:
    """Apply a matrix to points (P, 2), computed as in scikit-image."""
    xp, matrix = backend_of(xy=xy).xp, as_real_numbers(matrix, xy)
    ones = xp.ones_like(xy[:, 0])
    homogeneous = xp.stack([xy[:, 0], xy[:, 1], ones], -1) @ matrix.T
    return homogeneous[:, :-1] / without_zeros(xp, homogeneous[:, -1:])


def without_zeros(xp: Any, w: Any) -> Any:
    """Replace zeros by the smallest difference from 1, like scikit-image."""
    return xp.where(w == 0, float(np.finfo(float).eps), w)


def map_pixels(
    image: Array, function: Any, map_args: dict[str, Any], shape: Sequence[int]
) -> tuple[Any, Any]:
    """Call a function on the coordinates of all output pixels; returns rows and columns."""
    rows, columns = shape[:2]
    backend = backend_of(image=image)
    xy = np.indices((columns, rows), np.float64).reshape(2, -1).T
    takes_arrays = backend.is_host or is_skimage_class(
        type(getattr(function, "__self__", function))
    )
    coordinates = function(xy if takes_arrays else as_like(xy, image), **map_args)
    coordinates = as_real_numbers(coordinates, image)
    if tuple(coordinates.shape) != (rows * columns, 2):
        raise ValueError(
            f"inverse_map must return coordinates of shape {(rows * columns, 2)}, one for each "
            f"output pixel, got {tuple(coordinates.shape)}"
        )
    return tuple([coordinates[:, k].reshape(columns, rows).T for k in (1, 0)])


def at_positions(
    image: Array, positions: Sequence[Any], shape: tuple[int, ...], sampling: WarpSampling
) -> Array:
    """Sample (rows, columns) or (rows, columns, channels) at positions along rows and columns."""
    check_channels(image, shape)
    if image.ndim == 2:
        return at_coordinates(image, backend_of(image=image).xp.stack(list(positions)), sampling)
    spline = sampling.spline
    if sampling.order == 1:
        sparse = sparsely(image, rows_of(positions), shape[:2], spline.options, sampling.convert)
        if sparse is not None:
            return sparse
    image = sampling.convert(image)
    shape = (*shape[:2], image.shape[2])
    result = new_output(None, image, shape)
    values = transform(image, rows_of(positions), shape[:2], spline, result)
    return values if values is result else store(values, result)


def at_coordinates(image: Array, coordinates: Any, sampling: WarpSampling) -> Array:
    """Sample an image of any rank at coordinates (rank, *out)."""
    if backend_of(image=image, coordinates=coordinates).is_host and sampling.order == 1:
        places = as_array(coordinates, "inverse_map")
        if places.dtype.kind in "iuf" and places.ndim > 1 and len(places) == image.ndim:
            options, shape = sampling.spline.options, places.shape[1:]
            values = sparsely(image, rows_of(places), shape, options, sampling.convert)
            if values is not None:
                return values
    order, boundary, cval, convert = sampling
    return map_coordinates(
        convert(image), coordinates, order=order, mode=boundary.ndimage, cval=cval
    )


def rows_of(positions: Any) -> Positions:
    """Take rows of arrays of positions."""
    return lambda first, last: [x[first:last] for x in positions]


def sparsely(
    image: Array,
    positions: Positions,
    shape: tuple[int, ...],
    options: dict[str, Any],
    convert: Callable[[Any], Any],
) -> Array | None:
    """Sample an image that has to be converted, if that is many pixels for few points.

    Otherwise, the result is None, and also for a rank or an image that needs more than this.
    """
    channels = image.ndim - len(positions(0, 0))
    rank = image.ndim - channels
    taps = 4 if options["mode"] == "catmull-rom" else 2
    points, pixels = math.prod(shape), math.prod(image.shape[:rank])
    if not (backend_of(image=image).is_host and image.dtype.kind in "biu" and 1 <= rank <= 3):
        return None
    if not (points and is_sparse(pixels, points, taps, rank)):
        return None
    planes = image if channels else image[..., np.newaxis]
    values = sample_sparsely(planes, positions, shape, taps, convert, **options)
    return values if values is None or channels else values[..., 0]


def check_channels(image: Array, shape: tuple[int, ...]) -> None:
    """Raise an error if an output's shape has other channels than the image."""
    if len(shape) > 2 and tuple(shape[2:]) != tuple(image.shape[2:]):
        raise ValueError(
            f"output_shape {shape} must be (rows, columns), or have as many channels as the image, "
            f"whose shape is {tuple(image.shape)}"
        )


def keeps_ties(matrix: Any, boundary: SkimageMode) -> bool:
    """Whether the nearest pixel under a matrix is SciPy's, at ties, too.

    At a mirror through the centre of a pixel, and near the horizon of a projective map, the choice
    depends on SciPy's own arithmetic.  A NaN is outside, which the nearest pixel cannot show.
    """
    if boundary.ndimage == "mirror" or getattr(matrix, "requires_grad", False):
        return False
    rows = matrix.tolist()
    return rows[2] == [0, 0, 1] and all(math.isfinite(n) for row in rows for n in row)


def sample_under_matrix(
    image: Array,
    matrix: Any,
    shape: tuple[int, ...],
    options: dict[str, Any],
    convert: Callable[[Any], Any],
) -> Array:
    """Sample (rows, columns) or (rows, columns, channels) under a matrix.

    ``options`` are those of `grid_sample`; ``convert`` converts pixels to their dtype.
    """
    backend = backend_of(image=image)
    matrix = as_real_numbers(matrix, image)
    if options["mode"] in METHODS.values():
        values = sparsely(image, projected(matrix, shape), shape, options, convert)
        if values is not None:
            return values
    image = convert(image)
    pixels = image[..., None] if image.ndim == 2 else image
    sampled = projective(pixels, matrix, shape, options)
    if options["mode"] == "linear" and backend.is_host and np.isnan(image.min()):
        # A pixel of weight 0 is not read, so that a shift by whole pixels keeps NaN where it is.
        missing = np.isnan(pixels)
        known = np.where(missing, 0, pixels)
        sampled = projective(known, matrix, shape, options)
        inside = {name: value for name, value in options.items() if name != "fill_value"}
        share = projective(missing.astype(pixels.dtype), matrix, shape, inside)
        sampled[share > 0] = np.nan
    return sampled[..., 0] if image.ndim == 2 else sampled


def projective(
    pixels: Array, matrix: Any, shape: tuple[int, ...], options: dict[str, Any]
) -> Array:
    """Sample (rows, columns, C) under a matrix; affine ones are applied as pixels are sampled."""
    needs_gradient = getattr(matrix, "requires_grad", False)
    if not needs_gradient and matrix[2].tolist() == [0, 0, 1]:
        size = (1, pixels.shape[-1], *shape)
        return affine_sample(
            pixels[None], matrix[None, :2], size, coords="pixel", channel_axis=-1, **options
        )[0]
    return sample(pixels, projected(matrix, shape), shape, **options)


def projected(matrix: Any, shape: tuple[int, ...]) -> Positions:
    """Compute the positions to which a matrix (3, 3) maps rows of output pixels."""
    xp, columns = backend_of(matrix=matrix).xp, as_like(np.arange(shape[1]), matrix)

    def positions(first: int, last: int) -> list[Any]:
        rows = as_like(np.arange(first, last)[:, np.newaxis], matrix)
        x, y, w = ((row[0] * columns + row[2]) + row[1] * rows for row in matrix)
        w = without_zeros(xp, w)
        return [y / w, x / w]

    return positions
