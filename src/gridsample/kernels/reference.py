"""Grid sampling in plain loops: the oracle for every kernel, and the page to learn from.

Nothing here is fast and nothing is shared with the kernels that are. Read it from the top; it
follows one coordinate until it has become a number:

1.  `position` turns a coordinate, in which -1 and 1 are the extremes of the image, into pixels.
    A coordinate may also be a position already, or count pixels from the output's own place:
    `locate`.
2.  The boundary folds what lies outside back in: `fold_position` for the methods nearest and
    linear under PyTorch's three boundaries, `fold_index` for all others. A boundary may also turn
    the sign of what is outside: `fold_sign`.
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

A coordinate that is NaN has no position, nor has an infinite one that repeats for ever. A point
with such a coordinate is undefined: it gathers NaN, adds nothing to what is scattered, and has
derivatives of 0, so that masking its output is enough to keep a gradient clean.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
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

BOUNDARIES = {
    "zeros": "0 0 0 | a b c d | 0 0 0",
    "constant": "f f f | a b c d | f f f",
    "border": "a a a | a b c d | d d d",
    "reflection": "as symmetric, or as mirror with align_corners",
    "symmetric": "c b a | a b c d | d c b",
    "mirror": "d c b | a b c d | c b a",
    "wrap": "b c d | a b c d | a b c",
    "antisymmetric": "-c -b -a | a b c d | -d -c -b",
    "antimirror": "d -c -b | a b c d | -c -b a",
    "dst1": "-b -a 0 | a b c d | 0 -d -c",
}
"""What is outside an image a b c d; f is the fill value."""

MODES: dict[str, tuple[Any, ...]] = {
    "nearest": ("nearest",),
    "linear": ("linear",),
    "cubic": ("cubic", 0, 0.75),
    "catmull-rom": ("cubic", 0, 0.5),
    "mitchell": ("cubic", 1 / 3, 1 / 3),
    **{f"spline{n}": ("spline", n) for n in range(8)},
    **{f"lanczos{a}": ("lanczos", a) for a in (2, 3, 4)},
}
"""The methods: a family, and its parameters. Such a tuple can be a mode itself."""

ENDS = ("zeros", "constant", "border")
"""The boundaries under which an infinite position has a limit."""

FOLDS_POSITION = ("zeros", "border", "reflection")
"""The boundaries that fold the position for nearest and linear, as PyTorch does."""

Mode = str | tuple[Any, ...]
Index = tuple[int, ...]


def family(mode: Mode) -> tuple[Any, ...]:
    """Return a method's family and its parameters."""
    return MODES[mode] if isinstance(mode, str) else mode


def degree(mode: Mode) -> float:
    """Return the degree of a method's weights as polynomials; every derivative above it is 0."""
    name, *parameters = family(mode)
    if name == "spline":
        return float(parameters[0])
    return {"nearest": 0, "linear": 1, "cubic": 3, "lanczos": math.inf}[name]


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


def locate(
    x: float, own: int, size: int, align_corners: bool, coords: str = "normalized"
) -> tuple[float, float]:
    """Return a coordinate's position and d position / d coordinate, whatever coordinates count.

    Args:
        x: the coordinate.
        own: the index of the output's own place along this axis, from which a displacement counts.
        size: the number of pixels along the axis.
        align_corners: what -1 and 1 mean, of a normalized coordinate; see `position`.
        coords: "normalized", "pixel" or "displacement".

    >>> locate(0.5, 3, 8, False), locate(0.5, 3, 8, False, "pixel")
    ((5.5, 4.0), (0.5, 1.0))
    >>> locate(0.5, 3, 8, False, "displacement")
    (3.5, 1.0)
    """
    if coords == "normalized":
        return position(x, size, align_corners), slope(size, align_corners)
    return (x + own if coords == "displacement" else x), 1.0


def outside(p: float, size: int, align_corners: bool, coords: str = "normalized") -> bool:
    """Tell whether a position lies outside the image, as it counts where nothing is extrapolated.

    The image ends at the outer edges of its outermost pixels where -1 and 1 mean those, and at the
    centres of these pixels otherwise.

    >>> [outside(-0.4, 8, align_corners) for align_corners in (False, True)]
    [False, True]
    >>> outside(-0.4, 8, False, "pixel")
    True
    """
    rim = 0.5 if coords == "normalized" and not align_corners else 0
    return p < -rim or p > size - 1 + rim


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
    """Fold the index of a tap; None is a tap that is not on a pixel.

    >>> [fold_index(i, 4, "zeros", align_corners=False) for i in range(-3, 7)]
    [None, None, None, 0, 1, 2, 3, None, None, None]
    >>> [fold_index(i, 4, "border", align_corners=False) for i in range(-3, 7)]
    [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]
    >>> [fold_index(i, 4, "reflection", align_corners=False) for i in range(-3, 7)]
    [2, 1, 0, 0, 1, 2, 3, 3, 2, 1]
    >>> [fold_index(i, 4, "reflection", align_corners=True) for i in range(-3, 7)]
    [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    >>> [fold_index(i, 4, "wrap", align_corners=False) for i in range(-3, 7)]
    [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    """
    if boundary in ("zeros", "constant"):
        return i if 0 <= i < size else None
    if boundary == "border":
        return min(max(i, 0), size - 1)
    return images(size, boundary, align_corners, i)[0]


def fold_sign(i: int, size: int, boundary: str) -> int:
    """Return the sign that a boundary gives to the pixel at the index of a tap.

    >>> [fold_sign(i, 4, "antisymmetric") for i in range(-3, 7)]
    [-1, -1, -1, 1, 1, 1, 1, -1, -1, -1]
    >>> [fold_sign(i, 4, "antimirror") for i in range(-3, 7)]
    [1, -1, -1, 1, 1, 1, 1, -1, -1, 1]
    >>> [fold_sign(i, 4, "dst1") for i in range(-3, 7)]
    [-1, -1, 0, 1, 1, 1, 1, 0, -1, -1]
    """
    odd = boundary.startswith("anti") or boundary == "dst1"
    return images(size, boundary, False, i)[1] if odd else 1


def images(size: int, boundary: str, align_corners: bool, i: int) -> tuple[int | None, int]:
    """Find the pixel and the sign at index i of an image that repeats for ever.

    One period is written down pixel by pixel: the image, and behind it what its mirror image adds,
    which is all of it, or without the two pixels that the mirrors stand on, or with a pixel of 0 on
    each side, which is no pixel of the image and has no sign.

    >>> [images(3, "antimirror", False, i) for i in range(5)]
    [(0, 1), (1, 1), (2, 1), (1, -1), (0, 1)]
    >>> [images(2, "dst1", False, i) for i in range(6)]
    [(0, 1), (1, 1), (None, 0), (1, -1), (0, -1), (None, 0)]
    """
    if boundary == "reflection":
        boundary = "mirror" if align_corners else "symmetric"
    image = list(range(size))
    if boundary == "dst1":
        line: list[tuple[int | None, int]] = [(pixel, 1) for pixel in image]
        line += [(None, 0), *((pixel, -1) for pixel in image[::-1]), (None, 0)]
        return line[i % len(line)]
    back = {"symmetric": image[::-1], "mirror": image[-2:0:-1], "wrap": []}
    sign = -1 if boundary.startswith("anti") else 1
    period = [(pixel, 1) for pixel in image]
    period += [(pixel, sign) for pixel in back[boundary.removeprefix("anti")]]
    return period[i % len(period)]


# 3. The weights ---------------------------------------------------------------------------------


# Mitchell and Netravali's cubics (D. Mitchell and A. Netravali, "Reconstruction filters in computer
# graphics", SIGGRAPH 1988): six times the coefficients of 1, d, d**2, d**3, for a distance d of the
# tap from 0 to 1, and from 1 to 2. With B = 0 and C = -a they are those of Keys (R. Keys, "Cubic
# convolution interpolation for digital image processing", IEEE Trans. ASSP 29, 1981): "cubic" has
# a = -0.75.
def cubic_near(b: float, c: float) -> tuple[float, ...]:
    """Return a cubic's polynomial within one pixel."""
    return ((6 - 2 * b) / 6, 0, (-18 + 12 * b + 6 * c) / 6, (12 - 9 * b - 6 * c) / 6)


def cubic_far(b: float, c: float) -> tuple[float, ...]:
    """Return a cubic's polynomial beyond one pixel."""
    return (
        (8 * b + 24 * c) / 6,
        (-12 * b - 48 * c) / 6,
        (6 * b + 30 * c) / 6,
        (-b - 6 * c) / 6,
    )


def polynomial(coefficients: Sequence[float], d: float, order: int) -> float:
    """Evaluate the derivative of the given order of a polynomial, lowest power first, at d.

    >>> polynomial((5, 0, 2), 3.0, order=0), polynomial((5, 0, 2), 3.0, order=1)
    (23.0, 12.0)
    """
    for _ in range(order):
        coefficients = [power * c for power, c in enumerate(coefficients)][1:]
    return sum(c * d**power for power, c in enumerate(coefficients))


def weigh(p: float, mode: Mode, order: int = 0) -> list[tuple[int, float]]:
    """List the taps of a position before its boundary: (index, weight) pairs.

    The weight is differentiated `order` times with respect to the position. Where a derivative
    jumps, which is at pixel centres, the value just to the right counts; that of a spline of even
    order jumps half way between pixels, and there the even pixel counts as the near one. A
    derivative above the method's degree has no taps at all: no pixel has a part in it.

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
    >>> weigh(3.0, "spline2")
    [(2, 0.125), (3, 0.75), (4, 0.125)]
    """
    name, *parameters = family(mode)
    if order > degree(mode):
        return []
    base, t = math.floor(p), p - math.floor(p)
    if name == "nearest":
        return [(round(p), 1)]
    if name == "linear":
        low, high = (1 - t, t) if order == 0 else (-1, 1)
        return [(base, low), (base + 1, high)]
    if name == "cubic":
        near, far = cubic_near(*parameters), cubic_far(*parameters)
        # The distance to a tap on the left grows with the position; to one on the right it
        # shrinks, and each derivative turns the sign.
        turn = (-1) ** order
        return [
            (base - 1, polynomial(far, 1 + t, order)),
            (base, polynomial(near, t, order)),
            (base + 1, polynomial(near, 1 - t, order) * turn),
            (base + 2, polynomial(far, 2 - t, order) * turn),
        ]
    if name == "spline":
        (n,) = parameters
        if n % 2 == 0:  # the middle tap is the nearest pixel: t is counted from half a pixel before
            base, t = round(p), p - round(p) + 0.5
        return list(enumerate(spline(n, t, order), base - n // 2))
    (a,) = parameters
    return list(enumerate(lanczos(a, t, order), base - a + 1))


def spline(n: int, t: float, order: int) -> list[float]:
    """Weigh the n + 1 taps of a B-spline of order n, t of the way through its interval.

    A B-spline is made of two of one order less, which are weighed by the distances to the ends of
    its support; its derivative is their difference (C. de Boor, "A practical guide to splines",
    1978). On this interval the shorter ones have n taps, and their neighbours to both sides none.

    >>> spline(1, 0.25, order=0), spline(3, 0.0, order=1)
    ([0.75, 0.25], [-0.5, 0.0, 0.5, 0.0])
    """
    if n == 0:
        return [1.0]
    shorter = [0.0, *spline(n - 1, t, max(order - 1, 0)), 0.0]
    pairs = list(itertools.pairwise(shorter))
    if order:
        return [left - right for left, right in pairs]
    return [((t + n - k) * left + (k + 1 - t) * right) / n for k, (left, right) in enumerate(pairs)]


def lanczos(a: int, t: float, order: int) -> list[float]:
    """Weigh the 2 a taps of Lanczos' windowed sinc, so that they sum to one.

    The weight of a tap at the distance s is w(s) = sinc(s) sinc(s / a), divided by the sum W of
    all: r = w / W. To differentiate it, differentiate r W = w by Leibniz' rule, which gives r's
    derivative of each order from those below.

    >>> [round(weight, 4) for weight in lanczos(2, 0.5, order=0)]
    [-0.0625, 0.5625, 0.5625, -0.0625]
    """
    taps = [t - k for k in range(1 - a, a + 1)]
    plain = [[product(sinc, s, a, k) for s in taps] for k in range(order + 1)]
    whole = [sum(weights) for weights in plain]
    ratio: list[list[float]] = []
    for k in range(order + 1):
        lower = [math.comb(k, j) * whole[k - j] for j in range(k)]
        ratio.append(
            [
                (w - sum(c * ratio[j][i] for j, c in enumerate(lower))) / whole[0]
                for i, w in enumerate(plain[k])
            ]
        )
    return ratio[order]


def product(f: Callable[[float, int], float], s: float, a: float, order: int) -> float:
    """Differentiate f(s) f(s / a): Leibniz' rule, for an f that knows its own derivatives."""
    return sum(math.comb(order, k) * f(s, order - k) * f(s / a, k) / a**k for k in range(order + 1))


def sinc(s: float, order: int) -> float:
    """Return the derivative of the given order of sin(pi s) / (pi s).

    Far from 0 it follows from s sinc(s) = sin(pi s) / pi, differentiated by Leibniz' rule; near 0,
    where that would divide by little, it is the power series' derivative.

    >>> round(sinc(0.5, 0) * math.pi, 12), sinc(0.0, 0), sinc(0.0, 1)
    (2.0, 1.0, 0.0)
    """
    if abs(s) < 1:
        series = [
            (-1) ** (k // 2) * math.pi**k / math.factorial(k + 1) if k % 2 == 0 else 0.0
            for k in range(40)
        ]
        return polynomial(series, s, order)
    value = math.sin(math.pi * s) / (math.pi * s)
    for k in range(1, order + 1):
        value = (math.pi ** (k - 1) * math.sin(math.pi * s + k * math.pi / 2) - k * value) / s
    return value


# 4. One axis ------------------------------------------------------------------------------------


def axis_taps(
    x: float,
    size: int,
    mode: Mode,
    boundary: str,
    align_corners: bool,
    order: int = 0,
    *,
    coords: str = "normalized",
    own: int = 0,
) -> list[tuple[int | None, float]] | None:
    """List the taps of one coordinate along one axis.

    Args:
        x: the coordinate.
        size: the number of pixels along the axis, at least 1.
        mode: a name in `MODES`, or a family and its parameters.
        boundary: a name in `BOUNDARIES`.
        align_corners: what -1 and 1 mean; see `position`.
        order: how many times the weights are differentiated with respect to the coordinate.
        coords: what a coordinate counts; see `locate`.
        own: the index of the output's own place along the axis, for displacements.

    Returns:
        (index, weight) pairs, in which the index None marks a tap that is on no pixel. None in
        place of the list says that the coordinate is undefined.

    >>> axis_taps(-1.0, 4, "linear", "zeros", align_corners=False)
    [(None, 0.5), (0, 0.5)]
    >>> axis_taps(-0.5, 4, "linear", "zeros", align_corners=False, order=1)
    [(0, -2.0), (1, 2.0)]
    >>> axis_taps(-1.0, 4, "linear", "antisymmetric", align_corners=False)
    [(0, -0.5), (0, 0.5)]
    >>> axis_taps(float("inf"), 4, "cubic", "border", align_corners=False)
    [(3, 1)]
    >>> axis_taps(float("nan"), 4, "linear", "zeros", align_corners=False) is None
    True
    """
    p, steep = locate(x, own, size, align_corners, coords)
    if math.isnan(p) or (math.isinf(p) and boundary not in ENDS):
        return None
    if math.isinf(p):
        return infinite_taps(p, size, mode, boundary, order)

    multiplier = 1
    if family(mode)[0] in ("nearest", "linear") and boundary in FOLDS_POSITION:
        p, multiplier = fold_position(p, size, boundary, align_corners)
        boundary = "zeros"  # a tap still outside, to the right of the last pixel, is dropped
    chain = (multiplier * steep) ** order if order else 1
    return [
        (
            fold_index(i, size, boundary, align_corners),
            weight * chain * fold_sign(i, size, boundary),
        )
        for i, weight in weigh(p, mode, order)
    ]


def infinite_taps(
    p: float, size: int, mode: Mode, boundary: str, order: int
) -> list[tuple[int | None, float]]:
    """List the taps infinitely far outside, as the limit of ever farther ones.

    Zeros has none; border has the edge pixel with weight 1, which does not change from there on,
    and constant the fill value.
    """
    if boundary == "zeros" or order > degree(mode):
        return []
    edge = 0 if p < 0 else size - 1
    return [(None if boundary == "constant" else edge, 0 if order else 1)]


# 5. One point -----------------------------------------------------------------------------------


def point_taps(
    point: Sequence[float],
    spatial: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    *,
    coords: str = "normalized",
    own: Sequence[int] | None = None,
    extrapolate: bool = True,
) -> list[tuple[Index | None, float]] | None:
    """List the taps of one point of the grid: every combination of one tap from each axis.

    The weight of a combination is the product of the weights. A combination with a tap on no pixel
    is dropped; one whose weight happens to be 0 is not. Under the boundary "constant" it counts
    with the fill value instead, unless its weight is 0.

    Args:
        point: the coordinates of the point, in the order x, y, z.
        spatial: the sizes of the image, as in its shape: the size along x is the last.
        modes: a method per axis, in the order x, y, z.
        boundaries: a boundary per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, in the order x, y, z.
        coords: what coordinates count; see `locate`.
        own: the indices of the output's own place, for displacements, in the order x, y, z.
        extrapolate: False if a position outside the image has the fill value and no other tap.

    Returns:
        (index, weight) pairs; an index is ordered as the image's shape is, and None stands for the
        fill value. None in place of the list says that the point is undefined.

    >>> linear, zeros = ("linear", "linear"), ("zeros", "zeros")
    >>> for tap in point_taps((0.5, 0.0), (2, 2), linear, zeros, True, (0, 0)):
    ...     print(tap)
    ((0, 0), 0.125)
    ((0, 1), 0.375)
    ((1, 0), 0.125)
    ((1, 1), 0.375)
    >>> point_taps((-1.0,), (2,), ("linear",), ("constant",), False, (0,))
    [(None, 0.5), ((0,), 0.5)]
    """
    sizes, own = spatial[::-1], own or [0] * len(spatial)
    positions = [
        locate(x, place, size, align_corners, coords)[0]
        for x, place, size in zip(point, own, sizes, strict=True)
    ]
    if any(math.isnan(p) for p in positions):
        return None
    if not extrapolate and any(
        outside(p, size, align_corners, coords) for p, size in zip(positions, sizes, strict=True)
    ):
        return [] if any(order) else [(None, 1)]

    axes = [
        axis_taps(x, size, mode, boundary, align_corners, k, coords=coords, own=place)
        for x, size, mode, boundary, k, place in zip(
            point, sizes, modes, boundaries, order, own, strict=True
        )
    ]
    defined = [taps for taps in axes if taps is not None]
    if len(defined) < len(axes):
        return None
    result: list[tuple[Index | None, float]] = []
    for combination in itertools.product(*reversed(defined)):
        index = tuple(i for i, _ in combination if i is not None)
        weight = math.prod(weight for _, weight in combination)
        if len(index) == len(combination):
            result.append((index, weight))
        elif "constant" in boundaries and weight != 0:
            result.append((None, weight))
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
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
    fill: Any = 0,
) -> Array:
    """Sample an image: out[n, c, point] = sum over the point's taps of weight * image[n, c, tap].

    Args:
        image: (N, C, *spatial), of any real, integer, bool or complex dtype.
        grid: (N, *out, D), the coordinates.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; plain sampling,
            which is all zeros, if None.
        coords: what coordinates count: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: False if a position outside the image has the fill value; see `outside`.
        fill: the fill value, a number or one per channel, of "constant" and where nothing is
            extrapolated.

    Returns:
        (N, C, *out) in float64, or complex128 for a complex image. Plain sampling of an integer or
        bool image has the image's dtype: it is rounded half to even and saturates. An undefined
        point gives NaN, the fill value in an integer image, and 0 in a derivative.

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
            gather(
                part(image), grid, modes, boundaries, align_corners, order,
                coords=coords, extrapolate=extrapolate, fill=part(fill),
            )
            for part in (np.real, np.imag)
        )  # fmt: skip
        return join(real, imag)
    spatial = image.shape[2:]
    order = check(grid, spatial, modes, boundaries, order, coords)
    integer = image.dtype.kind in "biu" and not any(order)
    fills = np.broadcast_to(fill, image.shape[1:2]).tolist()

    image, grid = broadcast_items(image, grid)
    out = np.empty((*image.shape[:2], *grid.shape[1:-1]), image.dtype if integer else np.float64)
    for n, point, taps in walk(
        grid, spatial, modes, boundaries, align_corners, order, coords, extrapolate
    ):
        for c in range(image.shape[1]):
            value = fills[c] if integer else 0 if any(order) else math.nan
            if taps is not None:
                value = add_up(taps, image[n, c], fills[c])
            out[n, c, *point] = saturate(value, out.dtype) if integer else value
    return out


@quietly()
def scatter(
    values: Array,
    grid: Array,
    spatial_size: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
    batch: int | None = None,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
) -> Array:
    """Add values to an image: result[n, c, tap] += weight * values[n, c, point] at every tap.

    This is the transpose of `gather` with the same grid, methods, boundaries and order, and the
    fill value 0: sum(gather(image) * values) = sum(image * scatter(values)), and so the gradient of
    `gather` with respect to the image. It is also what is called splatting.

    Args:
        values: (N, C, *out), real or complex.
        grid: (N, *out, D), the coordinates.
        spatial_size: the spatial shape of the result.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; all zeros if None.
        batch: N of the result, the broadcast N if None; with 1 all items are added together.
        coords: what coordinates count: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: False if a position outside the image has the fill value; see `outside`.

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
            scatter(
                part, grid, spatial_size, modes, boundaries, align_corners, order, batch,
                coords=coords, extrapolate=extrapolate,
            )
            for part in (values.real, values.imag)
        )  # fmt: skip
        return join(real, imag)
    order = check(grid, spatial_size, modes, boundaries, order, coords)
    if values.ndim < 2 or values.shape[2:] != grid.shape[1:-1]:
        raise ValueError(f"values has shape {values.shape}; the points of grid are {grid.shape}")

    values, grid = broadcast_items(values, grid)
    result = np.zeros((*values.shape[:2], *spatial_size))
    for n, point, taps in walk(
        grid, spatial_size, modes, boundaries, align_corners, order, coords, extrapolate
    ):
        for c in range(values.shape[1]):
            for index, weight in taps or ():
                if index is not None:
                    result[n, c, *index] += weight * values[n, c, *point].item()
    return sum_items(result, result.shape[0] if batch is None else batch)


@quietly()
def gradients(
    grad_output: Array,
    image: Array,
    grid: Array,
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
    fill: Any = 0,
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
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        coords: what coordinates count: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: False if a position outside the image has the fill value; see `outside`.
        fill: the fill value, a number or one per channel, of "constant" and where nothing is
            extrapolated.

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
            gradients(
                part(grad_output), part(image), grid, modes, boundaries, align_corners,
                coords=coords, extrapolate=extrapolate, fill=part(fill),
            )
            for part in (np.real, np.imag)
        )  # fmt: skip
        return join(input_real, input_imag), grid_real + grid_imag
    spatial, items, grid_items = image.shape[2:], image.shape[0], grid.shape[0]
    check(grid, spatial, modes, boundaries, None, coords)
    fills = np.broadcast_to(fill, image.shape[1:2]).tolist()
    image, grid = broadcast_items(image, grid)
    expected = (*image.shape[:2], *grid.shape[1:-1])
    if grad_output.shape != expected:
        raise ValueError(f"grad_output has shape {grad_output.shape}; accepted is {expected}")

    grad_input = scatter(
        grad_output, grid, spatial, modes, boundaries, align_corners, batch=items,
        coords=coords, extrapolate=extrapolate,
    )  # fmt: skip
    grad_grid = np.zeros(grid.shape)
    for axis in range(len(spatial)):
        order = [int(k == axis) for k in range(len(spatial))]
        for n, point, taps in walk(
            grid, spatial, modes, boundaries, align_corners, order, coords, extrapolate
        ):
            grad_grid[n, *point, axis] = sum(
                grad_output[n, c, *point].item() * add_up(taps, image[n, c], fills[c])
                for c in range(image.shape[1])
                if taps
            )
    return grad_input, sum_items(grad_grid, grid_items)


# What the three loops have in common ------------------------------------------------------------


Taps = list[tuple[Index | None, float]]


def walk(
    grid: Array,
    spatial: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    coords: str,
    extrapolate: bool,
) -> Iterator[tuple[int, Index, Taps | None]]:
    """Yield each point of a grid: its item n, its index in `out`, and its taps."""
    for n, *point in np.ndindex(grid.shape[:-1]):
        coordinates = grid[n, *point].tolist()
        own = point[::-1] if coords == "displacement" else None
        taps = point_taps(
            coordinates, spatial, modes, boundaries, align_corners, order,
            coords=coords, own=own, extrapolate=extrapolate,
        )  # fmt: skip
        yield n, tuple(point), taps


def add_up(taps: Taps, plane: Array, fill: float) -> float:
    """Sum weight * pixel over the taps, with the fill value for a tap that is on no pixel."""
    return sum(weight * (fill if i is None else plane[*i].item()) for i, weight in taps)


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
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    order: Sequence[int] | None,
    coords: str,
) -> tuple[int, ...]:
    """Refuse arguments that do not belong together; return the order with its default filled in."""
    rank = len(spatial)
    order = (0,) * rank if order is None else tuple(order)
    if rank == 0 or 0 in spatial:
        raise ValueError(f"spatial sizes are {tuple(spatial)}; accepted are sizes of 1 or more")
    if grid.ndim < 2 or grid.shape[-1] != rank:
        raise ValueError(f"grid has shape {grid.shape}; accepted is (N, *out, {rank})")
    for name, given, accepted in (
        ("modes", [mode for mode in modes if isinstance(mode, str)], MODES),
        ("boundaries", boundaries, BOUNDARIES),
    ):
        if len(modes) != rank or len(boundaries) != rank or not set(given) <= set(accepted):
            raise ValueError(f"{name} is {given!r}; accepted are {rank} of {', '.join(accepted)}")
    if coords == "displacement" and grid.ndim != rank + 2:
        raise ValueError(f"grid has shape {grid.shape}; accepted is (N, *out, {rank}), {rank} out")
    if len(order) != rank or min(order) < 0:
        raise ValueError(f"order is {order}; accepted are {rank} integers of 0 or more")
    return order
