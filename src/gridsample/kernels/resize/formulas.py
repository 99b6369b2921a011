"""The rows of a matrix of resizing, computed in a program: inputs of outputs, and weights.

These are the formulas of `gridsample.definitions.tables`, on values of the vector language.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from gridsample.definitions.axis import BORDER, split
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.methods import NEAREST_EXACT, Method
from gridsample.definitions.tables import (
    boundary_of,
    covered_inputs,
    follows_formula,
    position,
    tap_offsets,
    tap_weights,
)
from gridsample.kernels.vector import Value


class LineDescription(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kind: by which formulas weights are computed; see `definitions.tables.formula_of`.
        method: the method.
        align_corners: whether the centres of the corner pixels stay in place.
        transposed: whether the matrix is transposed.
        many: whether lanes are the inputs of an output, because there are many.
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
    single: bool
    source: str
    target: str
    sums: str


class Taps(NamedTuple):
    """The inputs of some outputs.

    Attributes:
        count: how many there are: a number for all outputs, or a value.
        max_count: the bound of a loop over them.
        tap: returns the input (int64) and the weight (float32 or float64) of a tap.
        divides: whether the sum must be divided by that of the weights.
    """

    count: Any
    max_count: Any
    tap: Callable[[Any], tuple[Value, Value]]
    divides: bool = False


class MatrixRows:
    """The rows of a matrix: the inputs of outputs, and their weights."""

    def __init__(self, description: LineDescription, call: SimpleNamespace) -> None:
        self.description, self.call = description, call
        self.method = description.method
        self.inputs = call.inputs.to("float64")
        # Some kernels end abruptly, so that positions are those of tables to the last bit.
        self.exactly = self.inputs.function.exactly

    def taps(self, i: Value) -> Taps:
        """Return the inputs of outputs i, an int64."""
        taps: Taps = getattr(self, self.description.kind)(i)
        return taps

    def copies(self, i: Value) -> Taps:
        """One input; see `gridsample.definitions.tables.copies`."""
        middle = 0.5 if self.method == NEAREST_EXACT else 0.0
        index = ((i.to("float32") + middle) * self.call.step.to("float32")).floor()
        index = index.to("int64").maximum(0).minimum(self.call.inputs - 1)
        return Taps(1, 1, lambda _: (index, i.to("float64") * 0.0 + 1.0))

    def averages(self, i: Value) -> Taps:
        """The inputs that an output overlaps; see `gridsample.definitions.tables.averages`."""
        call = self.call
        first, end = self.quotient(i, 0), self.quotient(i + 1, call.outputs - 1)
        share = 1.0 / (end - first).to("float64")
        return Taps(end - first, call.max_taps, lambda tap: (first + tap, share))

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
        """The inputs around a position."""
        call, method = self.call, self.method
        with self.exactly():
            position_of = position(i.to("float64"), call.step, self.description.align_corners)
        if method.folds_position:
            position_of = position_of.maximum(0.0).minimum(self.inputs - 1.0)
        base, t = split(position_of, method.rounding)
        base, offsets = base.to("int64"), tap_offsets(method)
        # A kernel may end abruptly; only polynomials and quotients of them may be rounded.
        if not follows_formula(method) or method.formula[0] == "lanczos":
            t = t.to(self.description.sums)
        weights = tap_weights(method, t)

        def tap(k: int) -> tuple[Value, Value]:
            return base + int(offsets[k]), weights[k]

        return Taps(len(offsets), len(offsets), tap)

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
            centre, first, end = covered_inputs(i.to("float64"), call.step, call.reach, self.inputs)

        def tap(k: Any) -> tuple[Value, Value]:
            index = first + (k.to("float64") if isinstance(k, Value) else float(k))
            weight: Any = kernel((index - centre + 0.5) / call.stretch)
            return index.to("int64"), weight

        return Taps((end - first).to("int64"), call.max_taps, tap, True)
