"""Interpolation methods as data.

A method weighs the taps around a position by polynomials of the fraction ``t``.  It is nothing but
a table: row ``k`` holds the coefficients of tap ``k``'s weight, lowest power first, so that

    weight_k(t) = sum over p of table[k][p] * t**p

Derivatives are derived from the same table, so they cannot drift from the values.  Tables are
checked when they are made: at every ``t`` the weights sum to one (a constant image stays
constant), hence the column sums must be 1, 0, 0, ...
"""

from __future__ import annotations

from dataclasses import dataclass

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Method:
    """How the taps of one axis are weighed.

    Attributes:
        name: the canonical name.
        table: ``taps`` rows of ``degree + 1`` coefficients, lowest power of ``t`` first.
        first: the first tap is at ``base index + first``.
        rounds: the base index is the position rounded half to even, and ``t`` is in [-1/2, 1/2];
            otherwise it is the position's floor, and ``t`` is in [0, 1).
        folds_position: the boundary folds the position before taps are taken, and a tap that is
            outside all the same is dropped; otherwise each tap's index is folded.

    Raises:
        ValueError: the table is ragged or empty, or its weights do not sum to one.

    Example:
        >>> from gridsample.weights import LINEAR
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

    def __post_init__(self) -> None:
        """Refuse a table that does not keep a constant image constant."""
        powers = {len(row) for row in self.table}
        if len(powers) != 1 or 0 in powers:
            raise ValueError(
                f"method {self.name!r}: every tap needs the same number of coefficients, "
                f"at least one; got rows of lengths {[len(row) for row in self.table]}"
            )
        for power, column in enumerate(zip(*self.table, strict=True)):
            expected = 1.0 if power == 0 else 0.0
            if abs(sum(column) - expected) > 1e-12 * max(1.0, *map(abs, column)):
                raise ValueError(
                    f"method {self.name!r}: the weights must sum to one at every t, but the "
                    f"coefficients of t**{power} sum to {sum(column)!r} instead of {expected}"
                )

    @property
    def taps(self) -> int:
        """Number of taps along the axis."""
        return len(self.table)

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
        >>> from gridsample.weights import keys_cubic
        >>> [row[0] for row in keys_cubic(-0.75)]  # at t = 0 only the tap at the base index counts
        [0.0, 1.0, 0.0, 0.0]
    """
    return (
        (0.0, a, -2 * a, a),
        (1.0, 0.0, -(a + 3), a + 2),
        (0.0, -a, 2 * a + 3, -(a + 2)),
        (0.0, 0.0, a, -a),
    )


NEAREST = Method("nearest", ((1.0,),), first=0, rounds=True, folds_position=True)
LINEAR = Method("linear", ((1.0, -1.0), (0.0, 1.0)), first=0, folds_position=True)
CUBIC = Method("cubic", keys_cubic(-0.75), first=-1)

METHODS = {method.name: method for method in (NEAREST, LINEAR, CUBIC)}

# Names that each rank's users know; the method is the same in every rank.
ALIASES = {
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
    "tricubic": "cubic",
}
