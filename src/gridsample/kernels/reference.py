"""Grid sampling in plain loops: the oracle for every kernel, and the page to learn from.

Nothing here is fast and nothing is shared with the kernels that are. Read it from the top; it
follows one coordinate until it has become a number:

1.  `position` turns a coordinate, in which -1 and 1 are the extremes of the image, into pixels.
2.  The boundary folds what lies outside back in: `fold_position` for the methods nearest and
    linear, `fold_index` for cubic.
3.  `weigh` says how much each pixel near the position counts: the weights, or a derivative of them.
4.  `axis_taps` joins these three steps into the taps of one axis: (index, weight) pairs.
5.  `point_taps` multiplies the axes out: the taps of one point of the grid.
6.  `gather` sums weight * pixel over the taps, `scatter` adds weight * value to the same taps, and
    `gradients` does both for the two gradients of sampling.

A photo of one row, sampled a quarter of a pixel to the right of its middle pixel, by hand: the size
is 3, so the coordinate 1/6 has the position ((1/6 + 1) * 3 - 1) / 2 = 1.25; the taps are pixel 1
with weight 0.75 and pixel 2 with weight 0.25; the sum is 0.75 * 20 + 0.25 * 40 = 25.

>>> import numpy as np
>>> position(1 / 6, size=3, align_corners=False)
1.25
>>> axis_taps(1 / 6, 3, "linear", "zeros", align_corners=False)
[(1, 0.75), (2, 0.25)]
>>> row = np.array([[[10.0, 20.0, 40.0]]])
>>> gather(row, np.array([[[1 / 6]]]), ("linear",), ("zeros",), align_corners=False)
array([[[25.]]])

Shapes, everywhere: an image is (N, C, *spatial) and a grid (N, *out, D), for any D >= 1 and any
`out`. The last axis of the grid is ordered x, y, z, and x runs along the LAST axis of the image;
`modes`, `boundaries` and `order` have one entry per axis in that same order. An image and a grid
whose N differ broadcast where one of them is 1. All arithmetic is in float64.

A coordinate that is NaN has no position, nor has an infinite one that reflects for ever. A point
with such a coordinate is undefined: it gathers NaN, adds nothing to what is scattered, and has
derivatives of 0, so that masking its output is enough to keep a gradient clean.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "axis_taps",
    "clamp",
    "fold_index",
    "fold_position",
    "gather",
    "gradients",
    "point_taps",
    "position",
    "reflect",
    "scatter",
    "slope",
    "weigh",
]

Array = npt.NDArray[Any]

BOUNDARIES = ("zeros", "border", "reflection")

DEGREE = {"nearest": 0, "linear": 1, "cubic": 3}
"""The degree of each method's weights as polynomials; every derivative above it is 0."""


# 1. One coordinate ------------------------------------------------------------------------------


def position(x: float, size: int, align_corners: bool) -> float:
    """Turn a coordinate into a position: where it falls along an axis, in pixels.

    Pixel i has its centre at position i. With `align_corners` the coordinates -1 and 1 are the
    centres of the first and last pixel; without, they are the outer edges of those pixels, half a
    pixel further out. A single pixel whose corners are aligned is where every coordinate falls.

    >>> [position(x, 4, align_corners=True) for x in (-1, 0, 1)]
    [0.0, 1.5, 3.0]
    >>> [position(x, 4, align_corners=False) for x in (-1, 0, 1)]
    [-0.5, 1.5, 3.5]
    """
    if align_corners and size == 1 and not math.isnan(x):
        return 0.0
    if align_corners:
        return (x + 1) / 2 * (size - 1)
    return ((x + 1) * size - 1) / 2


def slope(size: int, align_corners: bool) -> float:
    """Return d position / d coordinate: how many pixels one unit of coordinate spans.

    >>> slope(4, align_corners=True), slope(4, align_corners=False)
    (1.5, 2.0)
    """
    return (size - 1) / 2 if align_corners else size / 2


# 2. The boundary --------------------------------------------------------------------------------


def clamp(p: float, size: int) -> tuple[float, int]:
    """Clamp a position to [0, size - 1]; return it with d clamped / d p.

    At the two ends themselves the derivative counts as 0.

    >>> clamp(-0.3, 4), clamp(1.2, 4), clamp(3.0, 4)
    ((0.0, 0), (1.2, 1), (3.0, 0))
    """
    if p <= 0:
        return 0.0, 0
    if p >= size - 1:
        return float(size - 1), 0
    return p, 1


def reflect(p: float, size: int, align_corners: bool) -> tuple[float, int]:
    """Mirror a position into the image; return it with d mirrored / d p.

    That derivative is 1 or -1, or 0 between two mirrors in the same place: a single aligned pixel.

    The mirrors stand where the coordinates -1 and 1 are: at the centres of the outermost pixels,
    or at their outer edges. Two reflections make a shift by twice the span between the mirrors. So
    we take the nearest number of whole shifts out, which `math.remainder` does exactly however far
    p is, and then again counted from the lower mirror: what is left is a distance of at most the
    span to the right of that mirror, or to its left, behind it.

    >>> [reflect(p, 4, align_corners=True) for p in (-1.0, 4.0, 7.0)]
    [(1.0, -1), (2.0, -1), (1.0, 1)]
    >>> [reflect(p, 4, align_corners=False) for p in (-1.0, 4.0, 7.0)]
    [(0.0, -1), (3.0, -1), (0.0, -1)]
    """
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return 0.0, 0
    near = math.remainder(p, 2 * span)
    beyond = math.remainder(near - low, 2 * span)
    return low + abs(beyond), -1 if beyond < 0 else 1


def fold_position(p: float, size: int, boundary: str, align_corners: bool) -> tuple[float, int]:
    """Fold a position as nearest and linear need it; return it with d folded / d p.

    After a reflection about the pixels' outer edges the position may still lie up to half a pixel
    outside the outermost centres; it is clamped there, and the derivative is 0 over that rim.

    >>> fold_position(-1.25, 4, "zeros", align_corners=False)
    (-1.25, 1)
    >>> fold_position(-1.25, 4, "border", align_corners=False)
    (0.0, 0)
    >>> fold_position(-1.25, 4, "reflection", align_corners=False)
    (0.25, -1)
    """
    if boundary == "zeros":
        return p, 1
    if boundary == "border":
        return clamp(p, size)
    mirrored, sign = reflect(p, size, align_corners)
    clamped, inside = clamp(mirrored, size)
    return clamped, sign * inside


def fold_index(i: int, size: int, boundary: str, align_corners: bool) -> int | None:
    """Fold the index of a tap, as cubic needs it; None is a tap that the boundary drops.

    >>> [fold_index(i, 4, "zeros", align_corners=False) for i in range(-3, 7)]
    [None, None, None, 0, 1, 2, 3, None, None, None]
    >>> [fold_index(i, 4, "border", align_corners=False) for i in range(-3, 7)]
    [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]
    >>> [fold_index(i, 4, "reflection", align_corners=False) for i in range(-3, 7)]
    [2, 1, 0, 0, 1, 2, 3, 3, 2, 1]
    >>> [fold_index(i, 4, "reflection", align_corners=True) for i in range(-3, 7)]
    [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    """
    if boundary == "zeros":
        return i if 0 <= i < size else None
    if boundary == "border":
        return min(max(i, 0), size - 1)
    if align_corners:
        period = 2 * (size - 1)
        i = i % period if period else 0
        return i if i < size else period - i
    period = 2 * size
    i = i % period
    return i if i < size else period - 1 - i


# 3. The weights ---------------------------------------------------------------------------------

# Keys' cubic convolution (R. Keys, "Cubic convolution interpolation for digital image processing",
# IEEE Trans. ASSP 29, 1981) with the free parameter a = -0.75: coefficients of 1, d, d**2, d**3.
A = -0.75
CUBIC_NEAR = (1, 0, -(A + 3), A + 2)  # distance d of the tap from 0 to 1
CUBIC_FAR = (-4 * A, 8 * A, -5 * A, A)  # distance d of the tap from 1 to 2


def polynomial(coefficients: Sequence[float], d: float, order: int) -> float:
    """Evaluate the derivative of the given order of a polynomial, lowest power first, at d.

    >>> polynomial((5, 0, 2), 3.0, order=0), polynomial((5, 0, 2), 3.0, order=1)
    (23.0, 12.0)
    """
    for _ in range(order):
        coefficients = [power * c for power, c in enumerate(coefficients)][1:]
    return sum(c * d**power for power, c in enumerate(coefficients))


def weigh(p: float, mode: str, order: int = 0) -> list[tuple[int, float]]:
    """List the taps of a position before its boundary: (index, weight) pairs.

    The weight is differentiated `order` times with respect to the position. Where a derivative
    jumps, which is at pixel centres, the value just to the right counts. A derivative above the
    method's degree has no taps at all: no pixel has a part in it.

    Nearest rounds a position half way between two pixels to the even one, and weighs it with the
    integer 1, so that integer pixels stay exact.

    >>> weigh(2.5, "nearest"), weigh(3.5, "nearest")
    ([(2, 1)], [(4, 1)])
    >>> weigh(2.25, "linear")
    [(2, 0.75), (3, 0.25)]
    >>> weigh(2.25, "linear", order=1)
    [(2, -1), (3, 1)]
    >>> weigh(2.5, "cubic")
    [(1, -0.09375), (2, 0.59375), (3, 0.59375), (4, -0.09375)]
    """
    if order > DEGREE[mode]:
        return []
    if mode == "nearest":
        return [(round(p), 1)]
    base = math.floor(p)
    t = p - base
    if mode == "linear":
        low, high = (1 - t, t) if order == 0 else (-1, 1)
        return [(base, low), (base + 1, high)]
    # The distance to a tap on the left grows with the position; to one on the right it shrinks,
    # and each derivative turns the sign.
    turn = (-1) ** order
    return [
        (base - 1, polynomial(CUBIC_FAR, 1 + t, order)),
        (base, polynomial(CUBIC_NEAR, t, order)),
        (base + 1, polynomial(CUBIC_NEAR, 1 - t, order) * turn),
        (base + 2, polynomial(CUBIC_FAR, 2 - t, order) * turn),
    ]


# 4. One axis ------------------------------------------------------------------------------------


def axis_taps(
    x: float, size: int, mode: str, boundary: str, align_corners: bool, order: int = 0
) -> list[tuple[int | None, float]] | None:
    """List the taps of one coordinate along one axis.

    Args:
        x: the coordinate.
        size: the number of pixels along the axis, at least 1.
        mode: "nearest", "linear" or "cubic".
        boundary: "zeros", "border" or "reflection".
        align_corners: what -1 and 1 mean; see `position`.
        order: how many times the weights are differentiated with respect to the coordinate.

    Returns:
        (index, weight) pairs, in which the index None marks a tap that is dropped. None in place
        of the list says that the coordinate is undefined.

    >>> axis_taps(-1.0, 4, "linear", "zeros", align_corners=False)
    [(None, 0.5), (0, 0.5)]
    >>> axis_taps(-0.5, 4, "linear", "zeros", align_corners=False, order=1)
    [(0, -2.0), (1, 2.0)]
    >>> axis_taps(float("inf"), 4, "cubic", "border", align_corners=False)
    [(3, 1)]
    >>> axis_taps(float("nan"), 4, "linear", "zeros", align_corners=False) is None
    True
    """
    p = position(x, size, align_corners)
    if math.isnan(p) or (math.isinf(p) and boundary == "reflection"):
        return None
    if math.isinf(p):
        return infinite_taps(p, size, mode, boundary, order)

    multiplier = 1
    if mode != "cubic":
        p, multiplier = fold_position(p, size, boundary, align_corners)
        boundary = "zeros"  # a tap still outside, to the right of the last pixel, is dropped
    chain = (multiplier * slope(size, align_corners)) ** order if order else 1
    return [
        (fold_index(i, size, boundary, align_corners), weight * chain)
        for i, weight in weigh(p, mode, order)
    ]


def infinite_taps(
    p: float, size: int, mode: str, boundary: str, order: int
) -> list[tuple[int | None, float]]:
    """List the taps infinitely far outside, as the limit of ever farther ones.

    Zeros has none; border has the edge pixel with weight 1, which does not change from there on.
    """
    if boundary == "zeros" or order > DEGREE[mode]:
        return []
    return [(0 if p < 0 else size - 1, 0 if order else 1)]


# 5. One point -----------------------------------------------------------------------------------


def point_taps(
    point: Sequence[float],
    spatial: Sequence[int],
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
) -> list[tuple[tuple[int, ...], float]] | None:
    """List the taps of one point of the grid: every combination of one tap from each axis.

    The weight of a combination is the product of the weights. A combination with a dropped tap in
    it is dropped; one whose weight happens to be 0 is not.

    Args:
        point: the coordinates of the point, in the order x, y, z.
        spatial: the sizes of the image, as in its shape: the size along x is the last.
        modes: a method per axis, in the order x, y, z.
        boundaries: a boundary per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, in the order x, y, z.

    Returns:
        (index, weight) pairs; an index is ordered as the image's shape is. None in place of the
        list says that the point is undefined.

    >>> linear, zeros = ("linear", "linear"), ("zeros", "zeros")
    >>> for tap in point_taps((0.5, 0.0), (2, 2), linear, zeros, True, (0, 0)):
    ...     print(tap)
    ((0, 0), 0.125)
    ((0, 1), 0.375)
    ((1, 0), 0.125)
    ((1, 1), 0.375)
    """
    axes = [
        axis_taps(x, size, mode, boundary, align_corners, k)
        for x, size, mode, boundary, k in zip(
            point, reversed(spatial), modes, boundaries, order, strict=True
        )
    ]
    defined = [taps for taps in axes if taps is not None]
    if len(defined) < len(axes):
        return None
    result = []
    for combination in itertools.product(*reversed(defined)):
        index = tuple(i for i, _ in combination if i is not None)
        if len(index) == len(combination):
            result.append((index, math.prod(weight for _, weight in combination)))
    return result


# 6. All points ----------------------------------------------------------------------------------


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Let a sum overflow or meet inf - inf with no warning: inf and NaN say it in the result."""
    with np.errstate(all="ignore"):
        yield


def gather(
    image: Array,
    grid: Array,
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
) -> Array:
    """Sample an image: out[n, c, point] = sum over the point's taps of weight * image[n, c, tap].

    Args:
        image: (N, C, *spatial), of any real, integer, bool or complex dtype.
        grid: (N, *out, D), the coordinates.
        modes: "nearest", "linear" or "cubic" per axis, in the order x, y, z.
        boundaries: "zeros", "border" or "reflection" per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; plain sampling,
            which is all zeros, if None.

    Returns:
        (N, C, *out) in float64, or complex128 for a complex image. Plain sampling of an integer or
        bool image has the image's dtype: it is rounded half to even and saturates. An undefined
        point gives NaN, 0 in an integer image, and 0 in a derivative.

    Raises:
        ValueError: the shapes do not belong together, a mode, boundary or order is unknown, or the
            image has an empty spatial axis.

    >>> import numpy as np
    >>> image = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> middle = np.array([[[0.0, 0.0]]])
    >>> linear, zeros = ("linear", "linear"), ("zeros", "zeros")
    >>> gather(image, middle, linear, zeros, align_corners=True)
    array([[[2.5]]])
    >>> gather(image, middle, linear, zeros, align_corners=True, order=(1, 0))
    array([[[0.5]]])
    """
    if np.iscomplexobj(image):  # the weights are real: each part is an image of its own
        real, imag = (
            gather(part, grid, modes, boundaries, align_corners, order)
            for part in (image.real, image.imag)
        )
        return join(real, imag)
    spatial = image.shape[2:]
    order = check(grid, spatial, modes, boundaries, order)
    integer = image.dtype.kind in "biu" and not any(order)
    undefined = 0 if integer or any(order) else math.nan

    image, grid = broadcast_items(image, grid)
    out = np.empty((*image.shape[:2], *grid.shape[1:-1]), image.dtype if integer else np.float64)
    for n, point, taps in walk(grid, spatial, modes, boundaries, align_corners, order):
        for c in range(image.shape[1]):
            value = undefined
            if taps is not None:
                value = sum(weight * image[n, c, *index].item() for index, weight in taps)
            out[n, c, *point] = saturate(value, out.dtype) if integer else value
    return out


@quietly()
def scatter(
    values: Array,
    grid: Array,
    spatial_size: Sequence[int],
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
    batch: int | None = None,
) -> Array:
    """Add values to an image: result[n, c, tap] += weight * values[n, c, point] at every tap.

    This is the transpose of `gather` with the same grid, methods, boundaries and order:
    sum(gather(image) * values) = sum(image * scatter(values)), and so the gradient of `gather`
    with respect to the image.

    Args:
        values: (N, C, *out), real or complex.
        grid: (N, *out, D), the coordinates.
        spatial_size: the spatial shape of the result.
        modes: "nearest", "linear" or "cubic" per axis, in the order x, y, z.
        boundaries: "zeros", "border" or "reflection" per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; all zeros if None.
        batch: N of the result, the broadcast N if None; with 1 all items are added together.

    Returns:
        (batch, C, *spatial_size) in float64, or complex128 for complex values. An undefined point
        adds nothing.

    Raises:
        ValueError: the shapes do not belong together, a mode, boundary or order is unknown, or a
            spatial size is 0.

    >>> import numpy as np
    >>> values, point = np.array([[[8.0]]]), np.array([[[0.5]]])
    >>> scatter(values, point, (3,), ("linear",), ("zeros",), align_corners=True)
    array([[[0., 4., 4.]]])
    """
    if np.iscomplexobj(values):
        real, imag = (
            scatter(part, grid, spatial_size, modes, boundaries, align_corners, order, batch)
            for part in (values.real, values.imag)
        )
        return join(real, imag)
    order = check(grid, spatial_size, modes, boundaries, order)
    if values.ndim < 2 or values.shape[2:] != grid.shape[1:-1]:
        raise ValueError(f"values has shape {values.shape}; the points of grid are {grid.shape}")

    values, grid = broadcast_items(values, grid)
    result = np.zeros((*values.shape[:2], *spatial_size))
    for n, point, taps in walk(grid, spatial_size, modes, boundaries, align_corners, order):
        for c in range(values.shape[1]):
            for index, weight in taps or ():
                result[n, c, *index] += weight * values[n, c, *point].item()
    return sum_items(result, result.shape[0] if batch is None else batch)


@quietly()
def gradients(
    grad_output: Array,
    image: Array,
    grid: Array,
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
) -> tuple[Array, Array]:
    """Return the gradients of plain sampling with respect to the image and to the grid.

    With g the gradient of the output, at every point and for every tap:

        grad_input[n, c, tap]     += g[n, c, point] * weight
        grad_grid[n, point, axis] += g[n, c, point] * (weight differentiated along axis)
                                                    * image[n, c, tap]

    A complex image counts as two real ones, its real and imaginary part. Its grad_grid is their
    sum, the real part of conj(g) * d output / d coordinate.

    Args:
        grad_output: (N, C, *out), complex if the image is.
        image: (N, C, *spatial), of any real, integer, bool or complex dtype.
        grid: (N, *out, D), the coordinates.
        modes: "nearest", "linear" or "cubic" per axis, in the order x, y, z.
        boundaries: "zeros", "border" or "reflection" per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.

    Returns:
        (grad_input, grad_grid) of the shapes of the image and the grid, so summed over the items
        of one that was broadcast; float64, but grad_input is complex128 for a complex image. An
        undefined point adds nothing to grad_input and has a grad_grid of 0.

    Raises:
        ValueError: the shapes do not belong together, a mode or boundary is unknown, or the image
            has an empty spatial axis.

    >>> import numpy as np
    >>> image, point = np.array([[[10.0, 20.0, 40.0]]]), np.array([[[0.5]]])
    >>> grad_input, grad_grid = gradients(
    ...     np.ones((1, 1, 1)), image, point, ("linear",), ("zeros",), align_corners=True
    ... )
    >>> grad_input, grad_grid
    (array([[[0. , 0.5, 0.5]]]), array([[[20.]]]))
    """
    if np.iscomplexobj(image):
        (input_real, grid_real), (input_imag, grid_imag) = (
            gradients(part(grad_output), part(image), grid, modes, boundaries, align_corners)
            for part in (np.real, np.imag)
        )
        return join(input_real, input_imag), grid_real + grid_imag
    spatial, items, grid_items = image.shape[2:], image.shape[0], grid.shape[0]
    check(grid, spatial, modes, boundaries, None)
    image, grid = broadcast_items(image, grid)
    expected = (*image.shape[:2], *grid.shape[1:-1])
    if grad_output.shape != expected:
        raise ValueError(f"grad_output has shape {grad_output.shape}; accepted is {expected}")

    grad_input = scatter(grad_output, grid, spatial, modes, boundaries, align_corners, batch=items)
    grad_grid = np.zeros(grid.shape)
    for axis in range(len(spatial)):
        order = [int(k == axis) for k in range(len(spatial))]
        for n, point, taps in walk(grid, spatial, modes, boundaries, align_corners, order):
            grad_grid[n, *point, axis] = sum(
                grad_output[n, c, *point].item() * weight * image[n, c, *index].item()
                for c in range(image.shape[1])
                for index, weight in taps or ()
            )
    return grad_input, sum_items(grad_grid, grid_items)


# What the three loops have in common ------------------------------------------------------------


def walk(
    grid: Array,
    spatial: Sequence[int],
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
) -> Iterator[tuple[int, tuple[int, ...], list[tuple[tuple[int, ...], float]] | None]]:
    """Yield each point of a grid: its item n, its index in `out`, and its taps."""
    for n, *point in np.ndindex(grid.shape[:-1]):
        coordinates = grid[n, *point].tolist()
        taps = point_taps(coordinates, spatial, modes, boundaries, align_corners, order)
        yield n, tuple(point), taps


def broadcast_items(a: Array, b: Array) -> tuple[Array, Array]:
    """Give two arrays one first axis: views of both in which an N of 1 is repeated."""
    (n,) = np.broadcast_shapes(a.shape[:1], b.shape[:1])
    return np.broadcast_to(a, (n, *a.shape[1:])), np.broadcast_to(b, (n, *b.shape[1:]))


def sum_items(array: Array, batch: int) -> Array:
    """Undo `broadcast_items` for a gradient: what one item was repeated for adds up in it."""
    if batch not in (1, array.shape[0]):
        raise ValueError(f"batch is {batch}; accepted are 1 and N = {array.shape[0]}")
    return array if batch == array.shape[0] else array.sum(axis=0, keepdims=True)


def join(real: Array, imag: Array) -> Array:
    """Make complex numbers of two parts, whatever the parts are (1j * inf would add a NaN)."""
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imag
    return result


def saturate(value: float, dtype: np.dtype[Any]) -> int:
    """Round a number half to even, then to the nearest that an integer or bool dtype holds.

    >>> import numpy as np
    >>> [saturate(v, np.dtype(np.uint8)) for v in (-3.7, 2.5, 3.5, 300.2)]
    [0, 2, 4, 255]
    """
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return min(max(round(value), int(low)), int(high))


def check(
    grid: Array,
    spatial: Sequence[int],
    modes: Sequence[str],
    boundaries: Sequence[str],
    order: Sequence[int] | None,
) -> tuple[int, ...]:
    """Refuse arguments that do not belong together; return the order with its default filled in."""
    rank = len(spatial)
    order = (0,) * rank if order is None else tuple(order)
    if rank == 0 or 0 in spatial:
        raise ValueError(f"spatial sizes are {tuple(spatial)}; accepted are sizes of 1 or more")
    if grid.ndim < 2 or grid.shape[-1] != rank:
        raise ValueError(f"grid has shape {grid.shape}; accepted is (N, *out, {rank})")
    for name, given, accepted in (("modes", modes, DEGREE), ("boundaries", boundaries, BOUNDARIES)):
        if len(given) != rank or not set(given) <= set(accepted):
            raise ValueError(f"{name} is {given!r}; accepted are {rank} of {', '.join(accepted)}")
    if len(order) != rank or min(order) < 0:
        raise ValueError(f"order is {order}; accepted are {rank} integers of 0 or more")
    return order
