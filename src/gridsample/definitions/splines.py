"""B-splines and their inverse as numbers: values at pixels, poles, recursions and corrections.

The inverse, called the prefilter, converts pixels to the coefficients of the interpolating spline.

A spline of order n is a sum of B-splines b, one for each pixel, with coefficients c.  At the pixels
it is the convolution of c with the few values of b there, and the prefilter inverts that
convolution.  The inverse factors into pairs of recursions, one pair for each root ("pole") z of the
polynomial of b inside the unit circle.  One runs forward along the line, the other backward:

    f[k] = s[k] + z f[k - 1],        c[k] = z (c[k + 1] - f[k]),

and a gain, the product of (1 - z)(1 - 1 / z).  Source: M. Unser, A. Aldroubi, M. Eden, "B-spline
signal processing", IEEE Trans. Signal Processing 41, 1993.

A boundary determines where the recursions start.  If it extends the line to a periodic one, all
that comes before the first entry is a geometric series in the line's own entries, which is summed
exactly.  The first entry of each recursion is then a weighted sum of the line (`ends`).

The other boundaries ("zeros", "border", "antimirror") have no such series.  The spline's values at
the pixels are A c, where A is a banded matrix, and A differs from the matrix S of a recursive
boundary (`recursive`) only in the first and last few rows.  Hence

    c = A^-1 s = S^-1 (S A^-1) s,        S A^-1 = 1 - (A - S) A^-1,

so the first and last few entries of the line are replaced by weighted sums of the line, and then it
is filtered as under the recursive boundary (`correction`).  The weights decrease from the ends as
fast as the largest pole's powers.

The matrix of each recursion is symmetric, except for "mirror", where it is symmetric after the two
edge pixels are halved.  The adjoint is therefore the same filter with its edges scaled before and
after, and the transpose of the weighted sums comes last.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import DROPPED, fold_sign
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.weights import bspline_table

Array = np.ndarray[Any, Any]

# The boundaries whose recursions are exact.  Others are corrected at the ends.
RECURSIVE = ("mirror", "symmetric", "wrap", "antisymmetric", "dst1")


def extension(boundary: str, align_corners: bool) -> Any:
    """Return the boundary of the filter under a boundary of sampling.

    "constant" is filtered as "zeros": what its fill value adds does not depend on the image
    (`gridsample.ops.arrays.add_fill`).
    """
    if boundary == "reflection":
        return "mirror" if align_corners else "symmetric"
    return "zeros" if BOUNDARIES[boundary].drops else boundary


def recursive(extended: str) -> str:
    """The boundary whose recursion is used; if a boundary has none, that of a similar boundary.

    The fewer pixels outside differ between the two, the fewer entries must be corrected.
    """
    if extended in RECURSIVE:
        return extended
    if BOUNDARIES[extended].joins_ends:
        raise NotImplementedError(
            f"there is no recursion for splines under the boundary {extended!r}, which joins the "
            "ends of a line; add an exact recursion to RECURSIVE and `ends`"
        )
    return "dst1" if extended == "zeros" else "symmetric"


@functools.cache
def poles(order: int) -> tuple[float, ...]:
    """Return the roots z, -1 < z < 0, of the polynomial with b's values as coefficients.

    Example:
        >>> from gridsample.definitions.splines import poles
        >>> [round(z, 12) for z in poles(3)]  # sqrt(3) - 2
        [-0.267949192431]
    """
    values = [row[0] for row in bspline_table(order)]
    values = values if order % 2 == 0 else values[:-1]  # the last value is 0 for odd orders
    roots = np.roots(values)
    polynomial = np.polynomial.Polynomial(values)
    inner = sorted(root.real for root in roots if abs(root) < 1)
    slope = polynomial.deriv()
    for _ in range(3):  # Newton's method removes rounding errors
        inner = [root - polynomial(root) / slope(root) for root in inner]
    return tuple(float(root) for root in inner)


def ends(z: float, n: int, extended: str) -> tuple[Array, Array]:
    """Return the weights of a line's n entries in the first entry of each recursion.

    Forward: the sum over j >= 0 of z^j s[-j], where s[-j] is again an entry of the line, and each
    recurs after every period.  Backward: c[n - 1], by the symmetry of c about the line's end, or
    for "wrap" the sum over j >= 0 of -z^(j + 1) f[n - 1 + j].
    """
    k = np.arange(n)
    forward: Array = np.zeros(n)
    backward: Array = np.zeros(n)
    if extended == "wrap":
        forward = z ** ((n - k) % n) / (1 - z**n)
        backward = -z * z ** ((k + 1) % n) / (1 - z**n)
    elif extended == "mirror" and n > 1:
        forward = z**k + np.where((k > 0) & (k < n - 1), z ** (2 * n - 2 - k), 0.0)
        forward /= 1 - z ** (2 * n - 2)
        backward[-2:] = z * z / (z * z - 1), z / (z * z - 1)
    elif extended == "dst1":  # the mirrors are at zeros, where c is 0 too
        forward = (z ** (2 * n + 2 - k) - z ** (k + 2)) / (1 - z ** (2 * n + 2))
        forward[0] += 1
        backward[-1] = -z
    else:  # the mirror is half a pixel outside; for one pixel, all mirrors give the same
        sign = -1 if extended == "antisymmetric" else 1
        forward = (z ** (2 * n - k) + sign * z ** (k + 1)) / (1 - z ** (2 * n))
        forward[0] += 1
        backward[-1] = -z / (1 - sign * z)
    return forward, backward


def at_pixels(order: int, n: int, extended: str) -> Array:
    """The matrix (pixel, coefficient) of a spline's values at the n pixels of a line.

    Example:
        >>> from gridsample.definitions.splines import at_pixels
        >>> 6 * at_pixels(3, 3, "border")
        array([[5., 1., 0.],
               [1., 4., 1.],
               [0., 1., 5.]])
    """
    boundary, matrix, pixels = BOUNDARIES[extended], np.zeros((n, n)), np.arange(n)
    for k, row in enumerate(bspline_table(order), start=-(order // 2)):
        tap, sign = boundary.fold_index(pixels + k, n), np.ones(n)
        if boundary.odd:
            sign = fold_sign(pixels + k, n, boundary.code, boundary.edge)
        read = tap != DROPPED
        np.add.at(matrix, (pixels[read], tap[read]), row[0] * sign[read])
    return matrix


@functools.lru_cache(maxsize=64)
def correction(order: int, n: int, extended: str) -> tuple[Array, Array]:
    """The entries of a line that are replaced, and what is added to them, (entry, weight).

    The weights are rows of (S - A) A^-1; see the docstring of this module.
    """
    ours = at_pixels(order, n, extended)
    difference = at_pixels(order, n, recursive(extended)) - ours
    changed = np.flatnonzero(np.abs(difference).max(axis=1) > np.finfo(float).eps)
    added: Array = np.linalg.solve(ours.T, difference[changed].T).T
    return changed, added


@functools.lru_cache
def cardinal(order: int, distance: int) -> Array:
    """The coefficients, up to a distance, of the spline that is 1 at one pixel and 0 at others."""
    n = 2 * (distance + 48) + 1  # the ends are too far away to count
    line = np.linalg.solve(at_pixels(order, n, "zeros"), np.arange(n) == n // 2)
    coefficients: Array = line[n // 2 - distance : n // 2 + distance + 1]
    return coefficients


@dataclass(frozen=True)
class Prefilter:
    """The map from pixels to the coefficients of a spline of any order, or its transpose.

    The spline is a sum of B-splines b times coefficients c, which solve

        sum over k of b(k) c[i + k] = pixel[i];    for the cubic, b is 1/6, 4/6, 1/6.

    Attributes:
        order: the order of the spline.
        n: the number of pixels along the axis.
        extended: the boundary, as `extension` returns it.
        adjoint: whether this is the transpose.
    """

    order: int
    n: int
    extended: str
    adjoint: bool = False

    @property
    def options(self) -> tuple[int, str, bool]:
        """The order, the boundary, and whether it is transposed."""
        return self.order, self.extended, self.adjoint

    def dense(self) -> Array:
        """The dense matrix, which is the inverse of the spline's values at the pixels."""
        inverse: Array = np.linalg.inv(at_pixels(self.order, self.n, self.extended))
        return inverse.T if self.adjoint else inverse

    def transpose(self) -> Prefilter:
        """The transpose."""
        return replace(self, adjoint=not self.adjoint)


def tiny(real: np.dtype[Any]) -> float:
    """Return the factor below which a term is lost in the rounding of a sum."""
    return float(np.finfo(real).eps) / 64


def decay(order: int, factor: float) -> int:
    """The distance, in pixels, over which a spline's coefficients decrease by a factor.

    They decrease by the largest pole from pixel to pixel.

    Example:
        >>> from gridsample.definitions.splines import decay
        >>> [decay(order, 1e-8) for order in (2, 3, 4, 5)]
        [11, 14, 19, 22]
    """
    return math.ceil(math.log(factor) / math.log(abs(poles(order)[0])))


def reach(order: int, real: np.dtype[Any]) -> int:
    """The number of entries at an end of a line that influence the end, above rounding."""
    return decay(order, tiny(real)) + order


class Sums(NamedTuple):
    """Weighted sums of a line's entries; sum j has the terms bounds[j] to bounds[j + 1]."""

    bounds: Array
    places: Array
    weights: Array


def sums_of(rows: list[tuple[Array, Array]], real: np.dtype[Any]) -> Sums:
    """Collect sums, each with its places and weights; weights below rounding are dropped."""
    bounds, places, weights = [0], [np.zeros(0, np.int64)], [np.zeros(0)]
    for at, row in rows:
        kept = np.abs(row) > tiny(real) * np.abs(row).max(initial=0)
        places.append(at[kept])
        weights.append(row[kept])
        bounds.append(bounds[-1] + len(places[-1]))
    return Sums(np.array(bounds), np.concatenate(places), np.concatenate(weights).astype(real))


def corrections(order: int, n: int, extended: str, real: np.dtype[Any]) -> tuple[Array, list[Any]]:
    """Compute the entries that change, and the places and weights of what is added to each.

    The weights at one end of a long line depend neither on its length nor on the other end, so that
    they are those of a shorter line.
    """
    if extended in RECURSIVE:
        return np.zeros(0, np.int64), []
    near = reach(order, np.dtype(float))
    short = min(n, 2 * near)
    changed, added = correction(order, short, extended)
    rows: list[Any] = []
    for entry, weights in zip(changed, added, strict=True):
        at = np.arange(short)
        if n > short:
            at = at[near:] if entry >= near else at[:near]
        kept = at[np.abs(weights[at]) > tiny(real)]
        rows.append((kept + (n - short if entry >= near else 0), weights[kept]))
    return changed + np.where(changed >= near, n - short, 0), rows


class Design(NamedTuple):
    """The prefilter for lines of one length.

    Attributes:
        gain: the factor of every entry.
        edges: the factors of the first and the last entry, before and after the recursions.
        poles: the poles.
        sums: for each pole, the first entry of the forward and of the backward recursion; then what
            is added to each corrected entry.
        changed: the entries that are corrected.
    """

    gain: float
    edges: tuple[float, float]
    poles: Array
    sums: Sums
    changed: Array


@functools.lru_cache(maxsize=64)
def design(order: int, n: int, extended: str, adjoint: bool, real: np.dtype[Any]) -> Design:
    """Compute the filter of an order for lines of n entries."""
    roots, every = poles(order), np.arange(n)
    starts = [(every, row) for z in roots for row in ends(z, n, recursive(extended))]
    changed, added = corrections(order, n, extended, real)
    halved = adjoint and extended == "mirror" and n > 1
    return Design(
        gain=math.prod((1 - z) * (1 - 1 / z) for z in roots),
        edges=(2.0, 0.5) if halved else (1.0, 1.0),
        poles=np.array(roots, real),
        sums=sums_of([*starts, *added], real),
        changed=changed,
    )
