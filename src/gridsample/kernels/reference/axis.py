"""One axis of the reference: positions, folds, taps and their weights, one number at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

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
"""The values outside an image a b c d; f is the fill value."""


MODES: dict[str, tuple[Any, ...]] = {
    "nearest": ("nearest",),
    "linear": ("linear",),
    "cubic": ("cubic", 0, 0.75),
    "catmull-rom": ("cubic", 0, 0.5),
    "mitchell": ("cubic", 1 / 3, 1 / 3),
    **{f"spline{n}": ("spline", n) for n in range(8)},
    **{f"lanczos{a}": ("lanczos", a) for a in (2, 3, 4)},
}
"""The methods: a family and its parameters. Such a tuple is also a valid mode."""


ENDS = ("zeros", "constant", "border")
"""The boundaries under which sampling at an infinite position has a limit."""


FOLDS_POSITION = ("zeros", "border", "reflection")
"""The boundaries that fold the position for nearest and linear, as PyTorch does."""


Mode = str | tuple[Any, ...]


Index = tuple[int, ...]


Ends = bool | str | Sequence[bool | str]
"""Where an image ends: for all axes, or in a tuple for each one, in the order x, y, z."""


def ends_of(extrapolate: Ends, rank: int) -> Sequence[bool | str]:
    """Return where an image ends along each axis.

    >>> ends_of("edges", 2), ends_of((True, "edges"), 2)
    (('edges', 'edges'), (True, 'edges'))
    """
    return (extrapolate,) * rank if isinstance(extrapolate, (bool, str)) else extrapolate


def family(mode: Mode) -> tuple[Any, ...]:
    """Return a method's family and its parameters."""
    return MODES[mode] if isinstance(mode, str) else mode


def degree(mode: Mode) -> float:
    """Return the degree of a method's weights as polynomials; every derivative above it is 0."""
    name, *parameters = family(mode)
    if name == "spline":
        return float(parameters[0])
    return {"nearest": 0, "linear": 1, "cubic": 3, "lanczos": math.inf}[name]


def position(x: float, size: int, align_corners: bool) -> float:
    """Convert a coordinate to a position along an axis, in pixels.

    Pixel i has its centre at position i. With `align_corners` the coordinates -1 and 1 are the
    centres of the first and last pixel; without, they are the outer edges of those pixels, half a
    pixel further out. With aligned corners and a single pixel, every coordinate has the position 0.

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
    x: float, index: int, size: int, align_corners: bool, coords: str = "normalized"
) -> tuple[float, float]:
    """Return a coordinate's position and d position / d coordinate, in any units of coordinates.

    Args:
        x: the coordinate.
        index: the index of the output's own position along this axis, to which displacements are
            added.
        size: the number of pixels along the axis.
        align_corners: what -1 and 1 mean for normalized coordinates; see `position`.
        coords: "normalized", "pixel" or "displacement".

    >>> locate(0.5, 3, 8, False), locate(0.5, 3, 8, False, "pixel")
    ((5.5, 4.0), (0.5, 1.0))
    >>> locate(0.5, 3, 8, False, "displacement")
    (3.5, 1.0)
    """
    if coords == "normalized":
        return position(x, size, align_corners), slope(size, align_corners)
    return (x + index if coords == "displacement" else x), 1.0


def outside(
    p: float,
    size: int,
    align_corners: bool,
    coords: str = "normalized",
    extrapolate: bool | str = False,
) -> bool:
    """Return whether a position is outside an image that ends along its axis.

    The image ends at the "edges" or the "centers" of its outermost pixels, as `extrapolate` says.
    False means the edges if these are the coordinates -1 and 1, and the centres otherwise. True and
    "continue" mean that it does not end.

    >>> [outside(-0.4, 8, align_corners) for align_corners in (False, True)]
    [False, True]
    >>> outside(-9, 8, False, extrapolate=True)
    False
    >>> outside(-0.4, 8, False, "pixel"), outside(-0.4, 8, False, "pixel", "edges")
    (True, False)
    """
    if extrapolate in (True, "continue"):
        return False
    to_edges = coords == "normalized" and not align_corners
    if isinstance(extrapolate, str):
        to_edges = extrapolate == "edges"
    margin = 0.5 if to_edges else 0
    return p < -margin or p > size - 1 + margin


def clamp(p: float, size: int) -> tuple[float, int]:
    """Clamp a position to [0, size - 1]; return it with d clamped / d p.

    The derivative is 0 at the two ends themselves.

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

    That derivative is 1 or -1, or 0 if both mirrors are at the same place: a single aligned pixel.

    The mirrors are at the coordinates -1 and 1: at the centres of the outermost pixels, or at their
    outer edges. Two reflections add up to a shift by twice the distance between the mirrors, the
    span. So we first remove the nearest number of whole shifts, which `math.remainder` does exactly
    for any p, and then do so again relative to the lower mirror. What remains is a distance of at
    most the span, to the right of that mirror or to its left, behind it.

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
    """Fold a position for nearest and linear; return it with d folded / d p.

    After a reflection at the outer edges of pixels, the position may still be up to half a pixel
    outside the outermost centres. It is clamped there, and the derivative in this rim is 0.

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
    """Fold the index of a tap; the result is None if the tap is not on a pixel.

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
    """Return the pixel and the sign at index i of an image that repeats for ever.

    One period is listed pixel by pixel: the image, followed by the part of its mirror image that is
    repeated. That is all of it, or all but the two pixels at the mirrors; or there is a pixel of 0
    on each side, which is not a pixel of the image and has no sign.

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
    jumps, which is at pixel centres, it takes the value just to the right. That of a spline of even
    order jumps half way between pixels, where the even pixel is treated as the nearer one. A
    derivative above the method's degree has no taps at all: it does not depend on any pixel.

    Nearest rounds a position half way between two pixels to the even one. The weight is the integer
    1, so that integer pixels stay exact.

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
        # The distance to a tap on the left grows with the position; the distance to one on the
        # right shrinks, so that each derivative changes the sign.
        sign = (-1) ** order
        return [
            (base - 1, polynomial(far, 1 + t, order)),
            (base, polynomial(near, t, order)),
            (base + 1, polynomial(near, 1 - t, order) * sign),
            (base + 2, polynomial(far, 2 - t, order) * sign),
        ]
    if name == "spline":
        (n,) = parameters
        if n % 2 == 0:  # the middle tap is the nearest pixel: t starts half a pixel before
            base, t = round(p), p - round(p) + 0.5
        return list(enumerate(spline(n, t, order), base - n // 2))
    (a,) = parameters
    return list(enumerate(lanczos(a, t, order), base - a + 1))


def spline(n: int, t: float, order: int) -> list[float]:
    """Return the n + 1 weights of a B-spline of order n at the fraction t of an interval.

    A B-spline is a sum of two of one order less, weighted by the distances to the ends of its
    support; its derivative is their difference (C. de Boor, "A practical guide to splines", 1978).
    On this interval the lower-order splines have n taps, and no further taps on either side.

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
    """Return the 2 a weights of Lanczos' windowed sinc, normalised to a sum of one.

    The weight of a tap at the distance s is w(s) = sinc(s) sinc(s / a), divided by the sum W of
    all: r = w / W. Its derivatives follow from r W = w by Leibniz' rule, which gives each order
        from the lower ones.

    >>> [round(weight, 4) for weight in lanczos(2, 0.5, order=0)]
    [-0.0625, 0.5625, 0.5625, -0.0625]
    """
    taps = [t - k for k in range(1 - a, a + 1)]
    products = [[product(sinc, s, a, k) for s in taps] for k in range(order + 1)]
    sums = [sum(weights) for weights in products]
    ratio: list[list[float]] = []
    for k in range(order + 1):
        lower = [math.comb(k, j) * sums[k - j] for j in range(k)]
        ratio.append(
            [
                (w - sum(c * ratio[j][i] for j, c in enumerate(lower))) / sums[0]
                for i, w in enumerate(products[k])
            ]
        )
    return ratio[order]


def product(f: Callable[[float, int], float], s: float, a: float, order: int) -> float:
    """Return a derivative of f(s) f(s / a) by Leibniz' rule; f(s, k) is f's k-th derivative."""
    return sum(math.comb(order, k) * f(s, order - k) * f(s / a, k) / a**k for k in range(order + 1))


def sinc(s: float, order: int) -> float:
    """Return the derivative of the given order of sin(pi s) / (pi s).

    Away from 0 it follows from s sinc(s) = sin(pi s) / pi, differentiated by Leibniz' rule. Near 0,
    where that would divide by a small number, it is the derivative of the power series. At other
    integers it is exactly 0.

    >>> round(sinc(0.5, 0) * math.pi, 12), sinc(0.0, 0), sinc(0.0, 1), sinc(3.0, 0)
    (2.0, 1.0, 0.0, 0.0)
    """
    if abs(s) < 1:
        series = [
            (-1) ** (k // 2) * math.pi**k / math.factorial(k + 1) if k % 2 == 0 else 0.0
            for k in range(40)
        ]
        return polynomial(series, s, order)
    value = 0.0 if s == round(s) else math.sin(math.pi * s) / (math.pi * s)
    for k in range(1, order + 1):
        value = (math.pi ** (k - 1) * math.sin(math.pi * s + k * math.pi / 2) - k * value) / s
    return value


def axis_taps(
    x: float,
    size: int,
    mode: Mode,
    boundary: str,
    align_corners: bool,
    order: int = 0,
    *,
    coords: str = "normalized",
    index: int = 0,
    continues: bool = False,
) -> list[tuple[int | None, float]] | None:
    """List the taps of one coordinate along one axis.

    Args:
        x: the coordinate.
        size: the number of pixels along the axis, at least 1.
        mode: a name in `MODES`, or a family and its parameters.
        boundary: a name in `BOUNDARIES`.
        align_corners: what -1 and 1 mean; see `position`.
        order: how many times the weights are differentiated with respect to the coordinate.
        coords: the units of coordinates; see `locate`.
        index: the index of the output's own position along the axis, for displacements.
        continues: whether the first and the last interval continue, in place of a boundary.

    Returns:
        (index, weight) pairs, in which the index None marks a tap that is not on a pixel. The
        result is None if the coordinate is undefined.

    >>> axis_taps(-1.0, 4, "linear", "zeros", align_corners=False)
    [(None, 0.5), (0, 0.5)]
    >>> axis_taps(-0.5, 4, "linear", "zeros", align_corners=False, order=1)
    [(0, -2.0), (1, 2.0)]
    >>> axis_taps(-1.0, 4, "linear", "antisymmetric", align_corners=False)
    [(0, -0.5), (0, 0.5)]
    >>> axis_taps(5.5, 5, "nearest", "wrap", align_corners=False, coords="pixel")
    [(0, 1)]
    >>> axis_taps(float("inf"), 4, "cubic", "border", align_corners=False)
    [(3, 1)]
    >>> axis_taps(4.5, 4, "linear", "border", align_corners=False, coords="pixel", continues=True)
    [(2, -1.5), (3, 2.5)]
    >>> axis_taps(float("nan"), 4, "linear", "zeros", align_corners=False) is None
    True
    """
    p, pixels_per_unit = locate(x, index, size, align_corners, coords)
    if math.isnan(p) or (math.isinf(p) and boundary not in ENDS):
        return None
    if math.isinf(p):
        return infinite_taps(p, size, mode, boundary, order)
    if continues and mode == "linear" and size > 1:
        first = min(max(math.floor(p), 0), size - 2)
        t, chain = p - first, pixels_per_unit**order
        weights = {0: (1 - t, t), 1: (-chain, chain)}.get(order, (0, 0))
        return [(first, weights[0]), (first + 1, weights[1])]
    if boundary == "wrap":
        p = math.fmod(p, size)  # which decides ties if the size is odd

    multiplier = 1
    if family(mode)[0] in ("nearest", "linear") and boundary in FOLDS_POSITION:
        p, multiplier = fold_position(p, size, boundary, align_corners)
        boundary = "zeros"  # a tap still outside, to the right of the last pixel, is dropped
    chain = (multiplier * pixels_per_unit) ** order if order else 1
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
    """List the taps of an infinite position, as the limit of positions ever farther outside.

    Zeros has none. Border has the edge pixel with weight 1, because the sample is constant from
    there on. Constant has the fill value.
    """
    if boundary == "zeros" or order > degree(mode):
        return []
    edge = 0 if p < 0 else size - 1
    return [(None if boundary == "constant" else edge, 0 if order else 1)]
