"""The formulas of interpolation weights.

A weight can be written in two ways:

* as a *table* of polynomials in the fraction ``t``, with one row per tap.  Sampling uses tables.
  Row ``k`` holds the coefficients of tap ``k``'s weight, lowest power first, so that

      weight_k(t) = sum over p of table[k][p] * t**p

* as a *kernel*, a function of the distance between a tap and the position.  Most methods are
  published as kernels, and antialiasing stretches kernels.

The functions here create tables and evaluate kernels.  `gridsample.definitions.methods` creates
methods from them, and `gridsample.definitions.tables` the matrices of resizing.  Kernels accept
arrays and, like the functions of `gridsample.definitions.axis`, values of the vector language; so
they consist of arithmetic, comparisons, ``where``, ``floor``, ``rint`` and ``abs``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gridsample.definitions.axis import weight

Array = np.ndarray[Any, Any]
Table = tuple[tuple[float, ...], ...]
Kernel = Callable[[Array], Array]
# The name of a family of kernels, and its parameters: see `kernel`.
Formula = tuple[Any, ...]


# Tables of polynomials ----------------------------------------------------------------------------


def keys_cubic(a: float) -> Table:
    """The cubic convolution weights of Keys (1981), with the free parameter ``a``.

    With the distance s = abs(position - tap):

        (a + 2) s^3 - (a + 3) s^2 + 1            for s <= 1
        a s^3 - 5 a s^2 + 8 a s - 4 a            for 1 < s < 2

    The table expands this in t for taps at -1, 0, 1, 2 from the base index.  Source: R. Keys,
    "Cubic convolution interpolation for digital image processing", IEEE Trans. ASSP 29 (6), 1981.

    Example:
        >>> from gridsample.definitions.weights import keys_cubic
        >>> [row[0] for row in keys_cubic(-0.75)]  # at t = 0 only the tap at the base index counts
        [0.0, 1.0, 0.0, 0.0]
    """
    return (
        (0.0, a, -2 * a, a),
        (1.0, 0.0, -(a + 3), a + 2),
        (0.0, -a, 2 * a + 3, -(a + 2)),
        (0.0, 0.0, a, -a),
    )


def bc_table(b: float, c: float) -> Table:
    """The cubic weights of Mitchell and Netravali (1988), with the parameters B and C.

    With the distance s = abs(position - tap), six times the weight is

        (12 - 9 B - 6 C) s^3 + (-18 + 12 B + 6 C) s^2 + (6 - 2 B)                for s < 1
        (-B - 6 C) s^3 + (6 B + 30 C) s^2 + (-12 B - 48 C) s + (8 B + 24 C)      for 1 <= s < 2

    Source: D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics", SIGGRAPH
    1988.

    Example:
        >>> from gridsample.definitions.weights import bc_table
        >>> [row[0] for row in bc_table(0, 0.5)]  # B = 0: pixels keep their values
        [0.0, 1.0, 0.0, 0.0]
    """
    near = (6 - 2 * b, 0.0, -18 + 12 * b + 6 * c, 12 - 9 * b - 6 * c)
    far = (8 * b + 24 * c, -12 * b - 48 * c, 6 * b + 30 * c, -b - 6 * c)
    # The distances of the taps from the position are 1 + t, t, 1 - t, 2 - t.
    pieces = ((far, 1, 1), (near, 0, 1), (near, 1, -1), (far, 2, -1))
    rows = [substitute(piece, start, factor)[1:] for piece, start, factor in pieces]
    # The sums for t = 0, without rounding: what is 0 there does not count, not even beside NaN.
    at_zero = (b, 6 - 2 * b, b, 0.0)
    return tuple(
        tuple(x / 6 for x in (first, *others)) for first, others in zip(at_zero, rows, strict=True)
    )


def substitute(coefficients: tuple[float, ...], start: float, factor: float) -> list[float]:
    """Expand p(start + factor * t) in powers of t, for a polynomial p given by its coefficients.

    Example:
        >>> from gridsample.definitions.weights import substitute
        >>> substitute((0, 0, 1), 1, -1)  # (1 - t)^2
        [1, -2, 1]
    """
    result = [coefficients[-1]]
    for coefficient in coefficients[-2::-1]:  # Horner's rule: result * (start + factor * t) + ...
        result = [
            start * here + factor * before
            for here, before in zip([*result, 0], [0, *result], strict=True)
        ]
        result[0] += coefficient
    return result


def bspline_table(order: int) -> Table:
    """The weights of the B-spline of an order, each coefficient rounded once.

    The B-spline on [0, n + 1] is a sum of one-sided powers,

        b(s) = 1 / n! * sum over j of (-1)^j binomial(n + 1, j) max(s - j, 0)^n,

    and tap k of the n + 1 taps lies at s = u + n - k, where u ranges from 0 to 1: u is t if the
    base index is a floor (n odd), and t + 1/2 if it is rounded (n even).  The powers with
    j <= n - k are positive there, and the others are 0.  Source: I. Schoenberg, "Contributions to
    the problem of approximation of equidistant data by analytic functions", 1946.

    Example:
        >>> from gridsample.definitions.weights import bspline_table
        >>> [round(6 * c) for c in bspline_table(3)[0]]  # (1 - t)^3 / 6
        [1, -3, 3, -1]
    """
    n, table = order, []
    for k in range(n + 1):
        row = [0] * (n + 1)  # times 2^n n!, a whole number
        for j in range(n - k + 1):
            sign, start = (-1) ** j * math.comb(n + 1, j), 2 * (n - k - j) + 1 - n % 2
            for power in range(n + 1):  # of (start / 2 + t)^n
                row[power] += sign * math.comb(n, power) * start ** (n - power) * 2**power
        table.append(tuple(number / (2**n * math.factorial(n)) for number in row))
    return tuple(table)


LANCZOS_DEGREE = 13  # of the fitted weights: their error is below 1e-9


def lanczos_table(a: int) -> Table:
    """Polynomials that approximate the weights of the Lanczos-windowed sinc with ``a`` lobes.

    With sinc(s) = sin(pi s) / (pi s) and s the distance to a tap, the weight is

        sinc(s) sinc(s / a), divided by the sum of that over all taps,

    Without the division, the weights would not sum to one.  The polynomials of degree 13 equal the
    weights at the Chebyshev points of [0, 1], including both ends.  The method is therefore
    interpolating and continuous.  Source: C. Duchon, "Lanczos filtering in one and two dimensions",
    J. Applied Meteorology 18, 1979.

    Example:
        >>> from gridsample.definitions.weights import lanczos_table
        >>> len(lanczos_table(3)), len(lanczos_table(3)[0])
        (6, 14)
    """
    nodes = (1 - np.cos(np.pi * np.arange(LANCZOS_DEGREE + 1) / LANCZOS_DEGREE)) / 2
    s = nodes[:, np.newaxis] - np.arange(1 - a, a + 1)
    weights = np.sinc(s) * np.sinc(s / a)
    weights /= weights.sum(axis=1, keepdims=True)
    table = np.linalg.solve(np.vander(nodes, increasing=True), weights).T
    table[:, 0] = 0  # exactly, so that a tap without weight does not count, not even beside NaN
    # The rounding errors of the sums go to the tap at the base index, coefficient by coefficient.
    table[a - 1] -= table.sum(axis=0)
    table[a - 1, 0] += 1
    return tuple(map(tuple, table.tolist()))


# Kernels: functions of the signed distance x of a tap from the position ---------------------------


def box(x: Array) -> Array:
    """The box: 1 within half a pixel, including the right end but not the left."""
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def triangle(x: Array) -> Array:
    """Linear interpolation: 1 - |x|."""
    return np.where(np.abs(x) < 1, 1 - np.abs(x), 0.0)


def bc(x: Array, b: float, c: float) -> Array:
    """Mitchell and Netravali's cubics: see `bc_table`.

    (0, -a) is Keys' kernel with that a, (1, 0) the cubic B-spline.
    """
    near = (6 - 2 * b) / 6, 0.0, (-18 + 12 * b + 6 * c) / 6, (12 - 9 * b - 6 * c) / 6
    far = (8 * b + 24 * c) / 6, (-12 * b - 48 * c) / 6, (6 * b + 30 * c) / 6, (-b - 6 * c) / 6
    s = np.abs(x)
    return np.where(s < 1, weight(s, near, 4), np.where(s < 2, weight(s, far, 4), 0.0))


# Taylor series in r^2: of sin(pi r) / r, which is exact for |r| <= 1/2 from 12 terms on, and of
# sin(pi r) / (pi r), exact for |r| <= 1 from 15 terms on; and that of exp, exact for |x| <= 1/2.
SINE = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12)]
SINC = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(15)]
EXP = [1 / math.factorial(k) for k in range(15)]


def lanczos_window(x: Array, a: float) -> Array:
    """The Lanczos window: sinc(x) sinc(x / a) within a pixels; exactly 0 at integers except 0."""
    nearest, y = np.rint(x), x * (1 / a)
    r, odd = x - nearest, nearest - 2 * np.floor(nearest * 0.5)
    sine = r * weight(r * r, SINE, len(SINE)) * (1 - 2 * odd)
    between = sine * weight(y * y, SINC, len(SINC)) / np.where(x == 0, 1.0, math.pi * x)
    return np.where(r == 0, np.where(x == 0, 1.0, 0.0), np.where(np.abs(x) < a, between, 0.0))


def lanczos_taps(t: Array, a: int) -> list[Array]:
    """The weights of the taps 1 - a to a at fractions t: `lanczos_window`, divided by its sum.

    The sine of all distances is the same but for its sign, so that the division removes it.
    """
    taps = range(1 - a, a + 1)
    terms = []
    for k in taps:
        x = t - k
        y = x * (1 / a)
        # One division for each tap: 1 / x, which is not needed where x is 0.
        term = weight(y * y, SINC, len(SINC)) / np.where(x == 0, 1.0, x)
        terms.append(-term if k % 2 else term)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    share, inside = 1.0 / total, (t != 0) & (t != 1)
    return [
        np.where(inside, term * share, np.where(t == k, 1.0, t * 0))
        for k, term in zip(taps, terms, strict=True)
    ]


def gaussian(x: Array) -> Array:
    """The Gaussian exp(-2 x^2), with a deviation of half a pixel, cut off at 2 pixels."""
    inside = np.abs(x) < 2
    power = weight(np.where(inside, x * x, 0.0) * (-2 / 16), EXP, len(EXP))
    for _ in range(4):  # exp(s) = exp(s / 16)^16
        power = power * power
    return np.where(inside, power, 0.0)


# The families of kernels: the function, and its support; None if the support is the parameter.
FAMILIES: dict[str, tuple[Callable[..., Array], float | None]] = {
    "box": (box, 0.5),
    "triangle": (triangle, 1),
    "bc": (bc, 2),
    "lanczos": (lanczos_window, None),
    "gaussian": (gaussian, 2),
}


def kernel(formula: Formula) -> tuple[float, Kernel]:
    """Return the support of a kernel (the distance from 0 at which it ends) and the kernel.

    Example:
        >>> import numpy as np
        >>> from gridsample.definitions.weights import kernel
        >>> support, triangle = kernel(("triangle",))
        >>> support, triangle(np.array([0.0, -0.25]))
        (1, array([1.  , 0.75]))
    """
    family, *parameters = formula
    function, support = FAMILIES[family]
    weigh = (lambda x: function(x, *parameters)) if parameters else function
    return (parameters[0] if support is None else support), weigh


def pieces(table: Table, first: int, rounds: bool) -> Kernel:
    """The kernel of a table: the tap at distance x = k - t from the position has row k's weight.

    It is a polynomial between neighbouring integers, or between neighbouring half-integers if base
    indices are rounded.

    Example:
        >>> import numpy as np
        >>> from gridsample.definitions.weights import pieces
        >>> pieces(((1.0, -1.0), (0.0, 1.0)), 0, False)(np.array([0.0, -0.25, 1.5]))
        array([1.  , 0.75, 0.  ])
    """

    def weigh(x: Array) -> Array:
        tap = -np.floor(0.5 - x if rounds else -x)
        t, total = tap - x, x * 0
        for k, row in enumerate(table, first):
            total = np.where(tap == k, weight(t, row, len(row)), total)
        return total

    return weigh
