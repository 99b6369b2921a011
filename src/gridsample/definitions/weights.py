"""Interpolation methods as data.

A method weighs the taps around a position by polynomials of the fraction ``t``.  It is nothing but
a table: row ``k`` holds the coefficients of tap ``k``'s weight, lowest power first, so that

    weight_k(t) = sum over p of table[k][p] * t**p

Derivatives are derived from the same table, so they cannot drift from the values.  Tables are
checked when they are made: at every ``t`` the weights sum to one (a constant image stays
constant), hence the column sums must be 1, 0, 0, ...

What a published formula says of the distance between position and tap is expanded here in powers
of t, tap by tap.  The public home of all this is `gridsample.methods`.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gridsample.definitions.axis import FLOOR, HALF_EVEN, HALF_UP

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Method:
    """How the taps of one axis are weighed.

    Attributes:
        name: the canonical name.
        table: ``taps`` rows of ``degree + 1`` coefficients, lowest power of ``t`` first.
        first: the first tap is at ``base index + first``.
        rounds: the base index is the nearest to the position, and ``t`` is in [-1/2, 1/2];
            otherwise it is the position's floor, and ``t`` is in [0, 1).
        folds_position: a boundary of PyTorch's folds the position before taps are taken, and a
            tap that is outside all the same is dropped; otherwise each tap's index is folded.
        prefilter: the order of the B-spline whose coefficients the method weighs in place of
            pixels (`gridsample.spline_filter` makes them); 0 for a method that weighs pixels.
        normalized: the weights sum to one at every t, so that a constant image stays constant;
            a table that breaks this is refused unless it says False here.
        ties_up: a method that rounds takes the upper of two base indices that are as near,
            floor(position + 1/2), as SciPy does; otherwise the even one, as PyTorch does.
        text: all of the above as a string, of which `of_text` makes the method again.

    Raises:
        ValueError: the table is empty, ragged, or not finite, or its weights do not sum to one.

    Example:
        >>> from gridsample.definitions.weights import LINEAR
        >>> LINEAR.taps, LINEAR.table
        (2, ((1.0, -1.0), (0.0, 1.0)))
        >>> LINEAR.derivative(1)
        ((-1.0, 0.0), (1.0, 0.0))
    """

    name: str
    table: Table
    first: int
    rounds: bool = False
    folds_position: bool = False
    prefilter: int = 0
    normalized: bool = True
    ties_up: bool = False
    text: str = field(init=False, repr=False, compare=False)

    @classmethod
    def of_text(cls, text: str) -> Method:
        """The method that a ``text`` is of."""
        return cls(*ast.literal_eval(text))

    def __post_init__(self) -> None:
        """Refuse a table that is none, or does not keep a constant image constant."""
        powers = {len(row) for row in self.table}
        if len(powers) != 1 or 0 in powers:
            raise ValueError(
                f"method {self.name!r}: every tap needs the same number of coefficients, "
                f"at least one; got rows of lengths {[len(row) for row in self.table]}"
            )
        if not all(math.isfinite(c) for row in self.table for c in row):
            raise ValueError(f"method {self.name!r}: every coefficient must be a finite number")
        for power, column in enumerate(zip(*self.table, strict=True) if self.normalized else ()):
            expected = 1.0 if power == 0 else 0.0
            if abs(sum(column) - expected) > 1e-12 * max(1.0, *map(abs, column)):
                raise ValueError(
                    f"method {self.name!r}: the weights must sum to one at every t, but the "
                    f"coefficients of t**{power} sum to {sum(column)!r} instead of {expected}"
                )
        table = tuple(tuple(float(c) for c in row) for row in self.table)
        _, _, *others = [getattr(self, one.name) for one in fields(self) if one.init]
        object.__setattr__(self, "text", str([self.name, table, *others]))

    @property
    def taps(self) -> int:
        """Number of taps along the axis."""
        return len(self.table)

    @property
    def rounding(self) -> int:
        """How a position becomes the base index: one of `gridsample.definitions.axis`'s codes."""
        return (HALF_UP if self.ties_up else HALF_EVEN) if self.rounds else FLOOR

    @property
    def powers(self) -> int:
        """Number of coefficients of each weight: the polynomials' degree plus one."""
        return len(self.table[0])

    def derivative(self, order: int) -> Table:
        """The table of the weights' derivative of the given order with respect to ``t``.

        Rows keep their length (padded with zeros), so that every order of one method runs in the
        same compiled kernel.
        """
        table = self.table
        for _ in range(order):
            table = tuple((*(p * row[p] for p in range(1, len(row))), 0.0) for row in table)
        return table


def keys_cubic(a: float) -> Table:
    """The cubic convolution weights of Keys (1981), with the free parameter ``a``.

    With the distance s = abs(position - tap):

        (a + 2) s^3 - (a + 3) s^2 + 1            for s <= 1
        a s^3 - 5 a s^2 + 8 a s - 4 a            for 1 < s < 2

    expanded in t for taps at -1, 0, 1, 2 from the base index.  Source: R. Keys, "Cubic convolution
    interpolation for digital image processing", IEEE Trans. ASSP 29 (6), 1981.

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


def keys(a: float) -> Method:
    """Keys' cubic convolution with the parameter ``a``: see `keys_cubic`.

    ``a`` = -1/2 (also called Catmull-Rom) reproduces parabolas; PyTorch's bicubic is -3/4.

    Example:
        >>> from gridsample.definitions.weights import keys
        >>> keys(-0.5).name
        'cubic(a=-0.5)'
    """
    return Method(f"cubic(a={a:g})", keys_cubic(a), first=-1)


def bc_spline(b: float, c: float) -> Method:
    """The cubic filters of Mitchell and Netravali, with the parameters B and C.

    With the distance s = abs(position - tap), six times the weight is

        (12 - 9 B - 6 C) s^3 + (-18 + 12 B + 6 C) s^2 + (6 - 2 B)                for s < 1
        (-B - 6 C) s^3 + (6 B + 30 C) s^2 + (-12 B - 48 C) s + (8 B + 24 C)      for 1 <= s < 2

    (1/3, 1/3) is the authors' own choice, "mitchell"; (0, -a) is Keys with that a; (1, 0) is the
    cubic B-spline.  With B other than 0 the image is smoothed: pixels do not keep their values.
    Source: D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics", SIGGRAPH
    1988.

    Example:
        >>> from gridsample.definitions.weights import bc_spline
        >>> [round(row[0], 4) for row in bc_spline(1 / 3, 1 / 3).table[:3]]  # on a pixel
        [0.0556, 0.8889, 0.0556]
    """
    near = (6 - 2 * b, 0.0, -18 + 12 * b + 6 * c, 12 - 9 * b - 6 * c)
    far = (8 * b + 24 * c, -12 * b - 48 * c, 6 * b + 30 * c, -b - 6 * c)
    # Distance of each tap from the position: 1 + t, t, 1 - t, 2 - t.
    pieces = ((far, 1, 1), (near, 0, 1), (near, 1, -1), (far, 2, -1))
    table = tuple(
        tuple(x / 6 for x in substitute(piece, start, turn)) for piece, start, turn in pieces
    )
    return Method(f"bc(b={b:g}, c={c:g})", table, first=-1)


def substitute(coefficients: tuple[float, ...], start: float, turn: float) -> list[float]:
    """The polynomial p(start + turn * t) in powers of t, for p in powers of its own variable.

    Example:
        >>> from gridsample.definitions.weights import substitute
        >>> substitute((0, 0, 1), 1, -1)  # (1 - t)^2
        [1, -2, 1]
    """
    result = [coefficients[-1]]
    for coefficient in coefficients[-2::-1]:  # Horner's rule: result * (start + turn * t) + ...
        result = [
            start * here + turn * before
            for here, before in zip([*result, 0], [0, *result], strict=True)
        ]
        result[0] += coefficient
    return result


def bspline_table(order: int) -> tuple[tuple[Fraction, ...], ...]:
    """The weights of the B-spline of an order, exactly.

    The B-spline on [0, n + 1] is a sum of one-sided powers,

        b(s) = 1 / n! * sum over j of (-1)^j binomial(n + 1, j) max(s - j, 0)^n,

    and tap k of the n + 1 taps lies at s = u + n - k, where u runs from 0 to 1 with t: it is t
    where the base index is a floor (n odd) and t + 1/2 where it is rounded (n even).  There the
    powers with j <= n - k are positive, and the rest is 0.  Source: I. Schoenberg, "Contributions
    to the problem of approximation of equidistant data by analytic functions", 1946.

    Example:
        >>> from gridsample.definitions.weights import bspline_table
        >>> print(*bspline_table(3)[0])  # (1 - t)^3 / 6
        1/6 -1/2 1/2 -1/6
    """
    n, table = order, []
    for k in range(n + 1):
        row = [0] * (n + 1)  # times 2^n n!, a whole number
        for j in range(n - k + 1):
            sign, start = (-1) ** j * math.comb(n + 1, j), 2 * (n - k - j) + 1 - n % 2
            for power in range(n + 1):  # of (start / 2 + t)^n
                row[power] += sign * math.comb(n, power) * start ** (n - power) * 2**power
        table.append(tuple(Fraction(number, 2**n * math.factorial(n)) for number in row))
    return tuple(table)


def check_whole(name: str, given: Any, low: int, high: int) -> None:
    """Refuse what is not a whole number from ``low`` to ``high``."""
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {given!r}")


def bspline(order: int) -> Method:
    """The B-spline of an order from 2 to 7, to be used on coefficients from the prefilter.

    It has order + 1 taps, order - 1 continuous derivatives, and reproduces polynomials up to
    the degree ``order``.  An even order rounds the base index, an odd one takes the floor: see
    `bspline_table`.

    Example:
        >>> from gridsample.definitions.weights import bspline
        >>> bspline(2).taps, bspline(2).rounds, bspline(2).prefilter
        (3, True, 2)
    """
    check_whole("order", order, 2, 7)
    table = tuple(tuple(map(float, row)) for row in bspline_table(order))
    return Method(
        f"spline{order}", table, first=-(order // 2), rounds=order % 2 == 0, prefilter=order
    )


LANCZOS_DEGREE = 13  # of the fitted weights: their error is below 1e-9


def lanczos(a: int) -> Method:
    """The windowed sinc of Lanczos with ``a`` lobes on each side and 2 a taps.

    With sinc(s) = sin(pi s) / (pi s) and s the distance to a tap, the weight is

        sinc(s) sinc(s / a), divided by the sum of that over all taps,

    so that weights sum to one, which the plain window does not give.  The table holds polynomials
    of degree 13 that meet these weights in the Chebyshev points of [0, 1], both ends included: a
    pixel's own place gives its value, and the curve is continuous.  Errors, for a = 2, 3 and 4:
    below 1e-9 in the weights (the rounding of float32 is 6e-8), 1e-7 in their first and 2e-5 in
    their second derivative.  Derivatives are those of the table.  The true first derivative is
    continuous; the table's is within that error.  Source: C. Duchon, "Lanczos filtering in one
    and two dimensions", J. Applied Meteorology 18, 1979.

    Example:
        >>> from gridsample.definitions.weights import lanczos
        >>> lanczos(3).taps, lanczos(3).first, lanczos(3).powers
        (6, -2, 14)
    """
    check_whole("a", a, 2, 8)
    nodes = (1 - np.cos(np.pi * np.arange(LANCZOS_DEGREE + 1) / LANCZOS_DEGREE)) / 2
    s = nodes[:, np.newaxis] - np.arange(1 - a, a + 1)
    weights = np.sinc(s) * np.sinc(s / a)
    weights /= weights.sum(axis=1, keepdims=True)
    table = np.linalg.solve(np.vander(nodes, increasing=True), weights).T
    # What rounding left of the sums goes to the tap at the base index, coefficient by coefficient.
    table[a - 1] -= table.sum(axis=0)
    table[a - 1, 0] += 1
    return Method(f"lanczos{a}", tuple(map(tuple, table.tolist())), first=1 - a)


NEAREST = Method("nearest", ((1.0,),), first=0, rounds=True, folds_position=True)
LINEAR = Method("linear", ((1.0, -1.0), (0.0, 1.0)), first=0, folds_position=True)
CUBIC = Method("cubic", keys_cubic(-0.75), first=-1)

# Every method that has a name; `gridsample.methods.register` adds to them.
METHODS = {
    method.name: method
    for method in (
        NEAREST,
        LINEAR,
        CUBIC,
        replace(keys(-0.5), name="catmull-rom"),
        replace(bc_spline(1 / 3, 1 / 3), name="mitchell"),
        *(bspline(order) for order in range(2, 8)),
        *(lanczos(a) for a in (2, 3, 4)),
    )
}

# Names that each rank's users know; the method is the same in every rank.
ALIASES = {
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
    "tricubic": "cubic",
    # B-splines so short that their coefficients are the pixels.
    "spline0": "nearest",
    "spline1": "linear",
}
