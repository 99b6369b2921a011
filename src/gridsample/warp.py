"""Pixel matrices: from the steps of a warp to the grid that samples the picture.

The steps of a warp are given as forward maps, *input pixel to output pixel*: rotate the picture,
then move it. Sampling needs the inverse map, from each output pixel to its position in the input.
The steps are therefore multiplied into one matrix, the matrix is inverted once, and the inverse is
applied to the output's pixels in bands of rows.

Pixels are counted from the centre of the first one: x to the right, y **down**, z through the
slices. Matrices are homogeneous, `(D + 1, D + 1)`, and act on columns `(x, y[, z], 1)`. Sizes are
in the order of the grid, x first: `(W, H)` or `(W, H, D)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha, divide, multiply
from gridsample.backends import backend_of
from gridsample.definitions.boundaries import has_missing
from gridsample.definitions.methods import Mode, Padding, ResizingMode, find_method, per_axis
from gridsample.definitions.names import MissingName
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import bands_along
from gridsample.ops.arrays import filtered, planes
from gridsample.ops.sampling import grid_sample

Matrix = NDArray[np.float64]
Step = tuple[str, Sequence[float]]
Size = tuple[int, ...]

_BAND_POINTS = 1 << 19
"""Number of points sampled at a time: a few megabytes of grid, and enough work for every thread."""


def rotation(numbers: Sequence[float], rank: int) -> Matrix:
    """Rotate by `numbers[0]` degrees in the x-y plane, counter-clockwise as seen on a screen.

    Multiples of 90 degrees are exact: they move pixels onto pixels.

    >>> rotation([90], 2).astype(int)[:2, :2].tolist()
    [[0, 1], [-1, 0]]
    """
    (degrees,) = _checked_numbers("rotate", numbers, {1})
    quarters, rest = divmod(degrees, 90)
    cosine, sine = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters % 4)):
        cosine, sine = -sine, cosine
    matrix = np.eye(rank + 1)
    matrix[:2, :2] = [[cosine, sine], [-sine, cosine]]
    return matrix


def scaling(numbers: Sequence[float], rank: int) -> Matrix:
    """Enlarge by one factor along every axis, or by one factor per axis in x, y, z order.

    With two factors, a volume keeps its size along z. A negative factor mirrors.
    """
    factors = _checked_numbers("scale", numbers, {1, 2, rank})
    if len(factors) == 1:
        factors = factors * rank
    return np.diag([*factors, *[1.0] * (rank + 1 - len(factors))])


def shearing(numbers: Sequence[float], rank: int) -> Matrix:
    """Shear by `numbers[0]` degrees: rows move along x, the upper ones to the right."""
    (degrees,) = _checked_numbers("shear", numbers, {1})
    if degrees % 180 == 90:
        raise ValueError(f"--shear {degrees:g} flattens the picture; give an angle within ±90")
    matrix = np.eye(rank + 1)
    matrix[0, 1] = -math.tan(math.radians(degrees))
    return matrix


def translation(numbers: Sequence[float], rank: int) -> Matrix:
    """Move by x pixels right, y down and z along the slices; z may be omitted and is then 0."""
    shift = _checked_numbers("translate", numbers, {2, rank})
    matrix = np.eye(rank + 1)
    matrix[: len(shift), rank] = shift
    return matrix


def affine(numbers: Sequence[float], rank: int) -> Matrix:
    """Read the rows of a pixel matrix: `a, b, c, d, e, f` maps (x, y) to (ax+by+c, dx+ey+f).

    For a volume the six numbers act in the x-y plane; twelve give all three rows.
    """
    rows = _checked_numbers("affine", numbers, {6, rank * (rank + 1)})
    matrix = np.eye(rank + 1)
    if len(rows) == 6:
        matrix[np.ix_([0, 1], [0, 1, rank])] = np.reshape(rows, (2, 3))
    else:
        matrix[:rank] = np.reshape(rows, (rank, rank + 1))
    return matrix


def homography(numbers: Sequence[float], rank: int) -> Matrix:
    """Read the nine numbers of a projective pixel matrix, row by row; pictures only."""
    if rank != 2:
        raise ValueError("--homography maps pictures (2-D); the input is a volume (3-D)")
    return np.reshape(_checked_numbers("homography", numbers, {9}), (3, 3)).astype(np.float64)


_ABOUT_THE_CENTRE: dict[str, Callable[[Sequence[float], int], Matrix]] = {
    "rotate": rotation,
    "scale": scaling,
    "shear": shearing,
}
_ABOUT_PIXEL_ZERO: dict[str, Callable[[Sequence[float], int], Matrix]] = {
    "translate": translation,
    "affine": affine,
    "homography": homography,
}
_FIXES_THE_CANVAS = {"affine", "homography"}

STEPS = (*_ABOUT_THE_CENTRE, *_ABOUT_PIXEL_ZERO)
"""The accepted names of steps."""


def window(steps: Sequence[Step], size: Size, canvas: Size) -> Matrix:
    """Return the matrix that maps a canvas pixel to the pixel of the warped picture that it shows.

    A canvas whose size differs from the input's is centred on the input, so it crops or extends all
    sides equally. The matrices of `affine` and `homography` already refer to output pixels: if one
    of them is among the steps, the canvas starts at pixel (0, 0).

    >>> window([("rotate", [45])], (4, 4), (8, 6))[:2, 2]
    array([-2., -1.])
    """
    if any(name in _FIXES_THE_CANVAS for name, _ in steps):
        return np.eye(len(size) + 1)
    return translation((np.subtract(size, canvas) / 2).tolist(), len(size))


def fitted(size: Size, canvas: Size, align_corners: bool) -> Matrix:
    """Stretch the canvas over the whole input, like a normalized grid: canvas -> input pixel.

    >>> fitted((8,), (4,), align_corners=False)
    array([[2. , 0.5],
           [0. , 1. ]])
    """
    matrix = np.eye(len(size) + 1)
    for k, (n, m) in enumerate(zip(size, canvas, strict=True)):
        between_centres = align_corners and min(n, m) > 1
        matrix[k, k] = (n - 1) / (m - 1) if between_centres else n / m
        matrix[k, -1] = 0 if between_centres else (n / m - 1) / 2
    return matrix


def inverse_map(steps: Sequence[Step], size: Size, canvas: Size) -> Matrix:
    """Return the matrix that maps a canvas pixel to the input pixel that it shows.

    Args:
        steps: `(name, numbers)` in the order of application; names as in `STEPS`.
        size: The input's size in pixels, `(W, H)` or `(W, H, D)`.
        canvas: The output's size in pixels, in the same order.

    Returns:
        `(D + 1, D + 1)`, scaled so that the last row of an affine map is `0 ... 0 1`.

    Raises:
        ValueError: The count of numbers is wrong, a number is not finite, or the matrix is
            singular.

    >>> inverse_map([("translate", [2, 1])], (5, 5), (5, 5))[:2, 2]
    array([-2., -1.])
    """
    rank = len(size)
    centre = translation([(n - 1) / 2 for n in size], rank)
    from_centre = translation([(1 - n) / 2 for n in size], rank)
    forward = np.eye(rank + 1)
    for name, numbers in steps:
        if name in _ABOUT_THE_CENTRE:
            forward = centre @ _ABOUT_THE_CENTRE[name](numbers, rank) @ from_centre @ forward
        else:
            forward = _ABOUT_PIXEL_ZERO[name](numbers, rank) @ forward
    if np.linalg.matrix_rank(forward) <= rank:
        raise ValueError(
            "the warp flattens the picture: its matrix "
            f"{np.array2string(forward, precision=4, separator=', ').replace(chr(10), '')} "
            "is singular and has no inverse"
        )
    inverse: Matrix = np.linalg.inv(forward) @ window(steps, size, canvas)
    if not inverse[rank, :rank].any():
        inverse /= inverse[rank, rank]
    return inverse


def lands_on_pixels(inverse: Matrix) -> bool:
    """Return whether every output pixel shows exactly one input pixel.

    This is the case for affine maps with integer entries that do not shrink: shifts by whole
    pixels, rotations by multiples of 90 degrees, and reflections.
    """
    is_integer = not inverse[-1, :-1].any() and np.array_equal(inverse, np.rint(inverse))
    return bool(is_integer and np.abs(inverse[:-1, :-1]).sum(0).max() <= 1)


def exact_mode(mode: Mode, rank: int) -> Mode:
    """Choose the mode for a map whose positions are all at pixel centres.

    At pixel centres (t = 0), all methods with the weight 1 for one tap and 0 for the others agree.
    "nearest" copies the value: without rounding, and without NaN from a neighbour of weight 0.

    >>> exact_mode("bicubic", 2)
    'nearest'
    """
    methods = [find_method(name) for name in per_axis(mode, rank, "mode")]
    interpolating = all(
        sorted(row[0] for row in method.table) == [0.0] * (method.taps - 1) + [1.0]
        for method in methods
    )
    return "nearest" if interpolating else mode


def copies_pixels(
    mode: ResizingMode, rank: int, *, antialias: bool = False, padding_mode: Padding = "zeros"
) -> bool:
    """Return whether each result is a copy of one pixel, also of a missing one.

    Labels are copied whatever the options are; other pixels are averaged by ``antialias``, and
    under the boundary "missing". Methods that only resize are accepted, too.

    >>> copies_pixels("nearest", 2), copies_pixels(("nearest", "linear"), 2)
    (True, False)
    >>> copies_pixels("nearest", 2, antialias=True), copies_pixels("label", 2, antialias=True)
    (False, True)
    """
    methods = [find_method(name, resizing=True) for name in per_axis(mode, rank, "mode")]
    if any(method.votes for method in methods):
        return True
    single = [
        method.name == "nearest-exact" or (method.taps == 1 and method.normalized)
        for method in methods
    ]
    return all(single) and not antialias and not has_missing(padding_mode)


def normalization(size: Size, align_corners: bool) -> Matrix:
    """Return the matrix that maps a position in pixels to its normalized coordinate.

    >>> normalization((8,), align_corners=False)
    array([[ 0.25 , -0.875],
           [ 0.   ,  1.   ]])
    """
    matrix = np.eye(len(size) + 1)
    for k, n in enumerate(size):
        matrix[k, k] = 2 / max(n - 1, 1) if align_corners else 2 / n
        matrix[k, -1] = -1 if align_corners else 1 / n - 1
    return matrix


def grid_band(
    inverse: Matrix, rows: slice, size: Size, canvas: Size, align_corners: bool
) -> NDArray[np.float64]:
    """Compute the normalized grid for some rows (slices, for a volume) of the canvas.

    Args:
        inverse: Canvas pixel -> input pixel, from `inverse_map`.
        rows: A slice of the canvas's leading axis.
        size: The input's size, x first.
        canvas: The output's size, x first.
        align_corners: The convention of the normalized coordinates.

    Returns:
        float64 grid `(rows, W', 2)` or `(rows, H', W', 3)`. Points on a homography's horizon have
        coordinates that are not finite.

    >>> grid_band(np.eye(3), slice(0, 1), (4, 2), (4, 2), align_corners=False)[..., 0]
    array([[-0.75, -0.25,  0.25,  0.75]])
    """
    rank = len(size)
    matrix = normalization(size, align_corners) @ inverse
    axes = [np.arange(n, dtype=np.float64) for n in canvas]
    axes[-1] = axes[-1][rows]
    pixels = np.meshgrid(*axes[::-1], indexing="ij", sparse=True)[::-1]

    def applied(row: Matrix) -> NDArray[np.float64]:
        result: NDArray[np.float64] = row[-1] + sum(row[j] * pixels[j] for j in range(rank))
        return result

    grid = np.empty((*(len(axis) for axis in axes[::-1]), rank))
    for k in range(rank):
        grid[..., k] = applied(matrix[k])
    if matrix[rank, :rank].any():
        with np.errstate(divide="ignore", invalid="ignore"):
            grid /= applied(matrix[rank])[..., None]
    return grid


def sample(
    image: NDArray[Any],
    grid_at: Callable[[slice], NDArray[Any]],
    shape: Sequence[int],
    *,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    fill_value: Any = 0,
    missing: MissingName = "propagate",
    antialias: bool = False,
    alpha: Alpha | None = None,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> NDArray[Any]:
    """Sample a channels-last image in bands of rows, so that the whole grid is never in memory.

    Args:
        image: `(H, W, C)` or `(D, H, W, C)`, of any dtype that `grid_sample` accepts.
        grid_at: Returns the grid `(rows, ..., D)` for a slice of the output's leading axis.
        shape: The output's spatial shape, leading axis first.
        align_corners: The convention of the grid's coordinates, as in `grid_sample`.
        missing: "propagate" or "ignore", as in `grid_sample`; missing results are NaN, whatever the
            fill value. Only a floating-point or complex image has missing pixels.
        alpha: The alpha channel, if colours (of the image and of the fill) are to be multiplied by
            it before sampling and divided by it afterwards; see `gridsample.alpha`. It is not used
            where whole pixels are copied: labels, and nearest without antialias.
        antialias: Whether a result is the mean over its pixel's footprint, or its most frequent
            label, as in `grid_sample`.
        mode, padding_mode, fill_value, threads: as in `grid_sample`.
        progress: Called after each band with the share of the work that is done, up to 1.0.

    Returns:
        Array `(*shape, C)` of the image's dtype.

    Raises:
        ValueError: `grid_sample` rejects an argument.
        TypeError: `grid_sample` rejects an argument.
    """
    dtype = image.dtype.newbyteorder("=")
    output = np.empty((*shape, image.shape[-1]), dtype)
    if alpha is not None and copies_pixels(mode, len(shape), antialias=antialias):
        alpha = None
    if alpha is not None:
        image = multiply(image, alpha)
        fill = np.broadcast_to(np.asarray(fill_value, image.dtype), image.shape[-1:])
        fill_value = multiply(fill, alpha, dtype) if fill.any() else 0
    keywords: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
        "fill_value": fill_value,
        "missing": missing,
        "threads": threads,
    }
    sampler = _BandSampler(image, keywords)
    for rows in bands_along(tuple(shape), _BAND_POINTS):
        band = output[rows] if alpha is None else np.empty_like(output[rows], image.dtype)
        # The footprints of a band's first and last rows reach to the rows next to them.
        padded = slice(max(rows.start - antialias, 0), min(rows.stop + antialias, shape[0]))
        grid = grid_at(padded)
        above = rows.start - padded.start
        if antialias:
            padded_band = np.empty((len(grid), *band.shape[1:]), band.dtype)
            sampler.sample(grid, padded_band, antialias=True)
            band[...] = padded_band[above:][: len(band)]
        else:
            sampler.sample(grid, band, antialias=False)
        if alpha is not None:
            output[rows] = divide(band, alpha, dtype)
        progress(rows.stop / shape[0])
    return output


class _BandSampler:
    """An image that is sampled in bands; the coefficients of a spline are computed once."""

    def __init__(self, image: NDArray[Any], keywords: dict[str, Any]) -> None:
        self.image, self.keywords, self.coefficients = image[None], keywords, None
        methods = [find_method(name) for name in per_axis(keywords["mode"], image.ndim - 1, "mode")]
        # `grid_sample` raises the errors for splines with missing pixels or that boundary.
        self.is_filtered = (
            any(method.prefilter > 1 for method in methods)
            and keywords["missing"] == "propagate"
            and not has_missing(keywords["padding_mode"])
        )

    def sample(self, grid: NDArray[Any], band: NDArray[Any], antialias: bool) -> None:
        """Sample at the grid of a band, into the band; missing results become NaN."""
        if not self.is_filtered:
            ignore = self.keywords["missing"] == "ignore"
            result = grid_sample(
                self.image,
                grid[None],
                return_weight=ignore,
                channel_axis=-1,
                out=band[None],
                antialias=antialias,
                **self.keywords,
            )
            if ignore:
                band[result[1][0] <= 0] = np.nan
            return
        backend, points = backend_of(input=self.image, grid=grid), grid[None]
        request = Request(**self.keywords, antialias=antialias, channel_axis=-1)
        options = backend.resolve_options(self.image, points, request)
        if self.coefficients is None:
            pixels = planes(backend, self.image, True)
            self.coefficients = filtered(backend, pixels, points, options)
        out = planes(backend, band[None], True)
        backend.gather(self.coefficients, points, options, self.image.dtype, out)


def _checked_numbers(name: str, numbers: Sequence[float], counts: set[int]) -> list[float]:
    if len(numbers) not in counts:
        accepted = " or ".join(str(count) for count in sorted(counts))
        raise ValueError(f"--{name} takes {accepted} numbers, got {len(numbers)}")
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"--{name} takes finite numbers, got {', '.join(map(str, numbers))}")
    return list(numbers)
