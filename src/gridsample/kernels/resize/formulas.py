"""The rows of a matrix of resizing, computed in a program: inputs of outputs, and weights.

These are the formulas of `gridsample.definitions.tables`, on values of the vector language.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from gridsample.definitions.axis import BORDER, split
from gridsample.definitions.methods import NEAREST_EXACT, Method
from gridsample.definitions.plan import BOUNDARIES
from gridsample.definitions.tables import (
    boundary_of,
    covered,
    follows_formula,
    position,
    tap_offsets,
    tap_weights,
)
from gridsample.kernels.vector import Value


class LineDescription(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kind: by which formulas weights are computed; see `gridsample.definitions.tables.kind_of`.
        method: the method.
        align_corners: whether the centres of the corner pixels stay in place.
        transposed: whether the matrix is transposed.
        many: whether lanes are the inputs of an output, because there are many.
        divides: whether sums are divided by those of weights that need it.
        single: whether there is a single number at each place of a line.
        source: the type of the image.
        target: the type of the result.
        sums: the type of sums.
    """

    kind: str
    method: Method
    align_corners: bool
    transposed: bool
    many: bool
    divides: bool
    single: bool
    source: str
    target: str
    sums: str


class Taps(NamedTuple):
    """The entries of some rows of a matrix, or of some columns.

    Attributes:
        first: the index of the first entry, an int64.
        count: how many there are: a number for all rows, or a value.
        most: the bound of a loop over them.
        tap: returns the weight of entry k (float32 or float64), and whether there is one.
        divides: whether the sum must be divided by that of the weights.
    """

    first: Value
    count: Any
    most: Any
    tap: Callable[[Any], tuple[Value, Value]]
    divides: bool = False


class Matrix:
    """The entries of a matrix, by rows, which are outputs, and by columns."""

    def __init__(self, description: LineDescription, call: SimpleNamespace) -> None:
        self.description, self.call = description, call
        self.method = description.method
        self.inputs = call.inputs.to("float64")
        # Some kernels end abruptly, so that positions are those of tables to the last bit.
        self.exactly = self.inputs.function.exactly

    def taps(self, k: Value) -> Taps:
        """Return the entries of rows k, or of columns k if the matrix is transposed."""
        return self.columns(k) if self.description.transposed else self.rows(k)

    def rows(self, i: Value) -> Taps:
        """Return the inputs of outputs i, an int64."""
        taps: Taps = getattr(self, self.description.kind)(i)
        return taps

    def columns(self, j: Value) -> Taps:
        """Return the outputs that read inputs j, an int64: those whose centres are near."""
        call = self.call
        distance = j.to("float64") - call.offset
        low = -((call.radius - distance) * call.rate + call.margin).floor()
        end = ((distance + call.radius) * call.rate + call.margin).floor() + 1.0
        first, end = low.maximum(0.0).to("int64"), end.to("int64").minimum(call.outputs)

        def tap(k: Any) -> tuple[Value, Value]:
            weight, known = self.entry(first + k, j)
            return weight, known & (end - first > k)

        return Taps(first, end - first, call.most, tap)

    def entry(self, i: Value, j: Value) -> tuple[Value, Value]:
        """Return the weights in rows i and columns j, and where output i reads input j."""
        row = self.rows(i)
        if not isinstance(row.count, int):
            return row.tap(j - row.first)
        hits = [self.folded(row.first + t) == j for t in range(row.count)]
        weights = [row.tap(t)[0].to("float64") for t in range(row.count)]
        total, known = weights[0].like(0.0), hits[0]
        for hit, weight in zip(hits, weights, strict=True):
            total, known = hit.select(total + weight, total), known | hit
        return total, known

    def copies(self, i: Value) -> Taps:
        """One input; see `gridsample.definitions.tables.copies`."""
        middle = 0.5 if self.method == NEAREST_EXACT else 0.0
        index = ((i.to("float32") + middle) * self.call.step.to("float32")).floor()
        index = index.to("int64").maximum(0).minimum(self.call.inputs - 1)
        return Taps(index, 1, 1, lambda _: (i.to("float64") * 0.0 + 1.0, i == i))

    def averages(self, i: Value) -> Taps:
        """The inputs that an output overlaps; see `gridsample.definitions.tables.averages`."""
        call = self.call
        first, end = self.quotient(i, 0), self.quotient(i + 1, call.outputs - 1)
        count = end - first
        share = 1.0 / count.to("float64")
        return Taps(first, count, call.most, lambda k: (share, within(k, count)))

    def quotient(self, i: Value, addend: Any) -> Value:
        """(i * inputs + more) // outputs.

        The quotient in float64 may be off by one, the remainder is exact.
        """
        call = self.call
        product = i * call.inputs + addend
        quotient: Value = (product.to("float64") * call.share).floor().to("int64")
        rest = product - quotient * call.outputs
        unit = rest.like(1)
        quotient = quotient + (rest >= call.outputs).select(unit, 0)
        quotient = quotient - (rest < 0).select(unit, 0)
        return quotient

    def interpolated(self, i: Value) -> Taps:
        """The inputs around a position; those outside are `folded`."""
        call, method = self.call, self.method
        with self.exactly():
            position_of = position(i.to("float64"), call.step, self.description.align_corners)
        if method.folds_position:
            position_of = position_of.maximum(0.0).minimum(self.inputs - 1.0)
        base, t = split(position_of, method.rounding)
        # A kernel may end abruptly; only polynomials and quotients of them may be rounded.
        if not follows_formula(method) or method.formula[0] == "lanczos":
            t = t.to(self.description.sums)
        offsets, weights = tap_offsets(method), tap_weights(method, t)
        first, count = base.to("int64") + int(offsets[0]), len(offsets)
        return Taps(first, count, count, lambda k: (weights[k], i == i))

    def folded(self, index: Value) -> Value:
        """Return the input to which an index outside is folded."""
        boundary = BOUNDARIES[boundary_of(self.method, self.description.align_corners)]
        folded: Value = boundary.fold_index(index, self.call.inputs)
        if boundary.code == BORDER:
            return folded
        return folded.maximum(0).minimum(self.call.inputs - 1)

    def smoothed(self, i: Value) -> Taps:
        """The inputs under a stretched kernel."""
        call, kernel = self.call, self.method.kernel(antialias=True)[1]
        with self.exactly():
            centre, first, end = covered(i.to("float64"), call.step, call.reach, self.inputs)
        start, count = first.to("int64"), (end - first).to("int64")

        def tap(k: Value) -> tuple[Value, Value]:
            weight: Any = kernel((first + k.to("float64") - centre + 0.5) / call.stretch)
            return weight, within(k, count)

        return Taps(start, count, call.most, tap, self.description.divides)


def within(k: Any, count: Value) -> Value:
    """Whether there is an entry k among so many."""
    known: Value = (count > k) & (k >= count.like(0))
    return known
