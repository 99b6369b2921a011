"""Resizing of long lines by simple factors, such as 2, 1/2 or 3/4.

Then the weights repeat from register to register of outputs, whose inputs lie at the same places of
a window that moves along the line.  One period of weights is stored; a constant shuffle picks the
inputs of each tap from the window.  The outputs near the ends have other weights, which are those
of a short axis with the same step.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import Band
from gridsample.definitions.methods import AREA
from gridsample.definitions.tables import Axis, band_of, kind_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.vector import (
    Function,
    Pointer,
    Program,
    Record,
    Value,
    compile,
    host,
    joined,
)
from gridsample.kernels.vector import kind_of as kind_named

Array = np.ndarray[Any, Any]

# Registers of outputs in the short axis, and those before its period.
SHORT, HEAD = 12, 4
# The greatest window, in registers, and the greatest number of taps.
WINDOW, MOST_TAPS = 6, 16
# Single precision, in which nearest pixels are computed, is exact up to this size.
EXACT = 1 << 22

SETTINGS = Record(
    inputs="int64", outputs="int64",
    part="int64", parts="int64",  # the outputs of a task, and the tasks of a line
    tail="int64",  # the first output after the periods
    step="int64", origin="int64",  # the inputs of a period, and the window of output 0
    less_inputs="int64", less_outputs="int64",  # by which the axis of the tables is shorter
    first="*int64", count="*int64", weights="*float64", taps="int64",  # the tables of that axis
    period="*float64",  # (taps, lanes): the weights of a register of outputs
)  # fmt: skip


class PeriodDescription(NamedTuple):
    """What a program is compiled for.

    Attributes:
        places: where the first input of each lane lies in the window.
        taps: the number of inputs of an output.
        copies: whether outputs are copies of inputs.
        source: the type of the image.
        target: the type of the result.
        sums: the type of sums.
    """

    places: tuple[int, ...]
    taps: int
    copies: bool
    source: str
    target: str
    sums: str


class Period(NamedTuple):
    """The weights of a long axis, as those of a short one.

    Attributes:
        band: the band of the short axis.
        places: see `PeriodDescription`.
        taps: see `PeriodDescription`.
        step: the inputs of a period of outputs.
        origin: the first input of the window that output 0 would have.
    """

    band: Band
    places: tuple[int, ...]
    taps: int
    step: int
    origin: int


@functools.lru_cache(maxsize=256)
def period_of(axis: Axis, transposed: bool, lanes: int) -> Period | None:
    """Return the period of an axis, or None if it has none that fills a register."""
    n, m = axis.inputs, axis.outputs
    ratio = Fraction(n, m) if axis.method == AREA else Fraction(axis.step)
    exact = ratio * (m - 1) == n - 1 if axis.align_corners else axis.scale or ratio * m == n
    if not exact or not ratio:  # positions are rounded, and do not repeat
        return None
    columns, rows = (lanes, lanes / ratio) if transposed else (lanes * ratio, lanes)
    if not Fraction(columns).denominator == 1 == Fraction(rows).denominator:
        return None
    # Of the matrix, which maps columns to rows: so many periods are left out.
    less = min(n // int(columns), m // int(rows)) - SHORT
    if less < 1 or (kind_of(axis) == "copies" and max(n, m) > EXACT):
        return None
    short = axis._replace(inputs=n - less * int(columns), outputs=m - less * int(rows))
    if short.step != axis.step:
        return None
    band = band_of(short, transposed)
    step = int(rows if transposed else columns)
    first, count, weights = band.first, band.count, band.weights
    begin, end = HEAD * lanes, band.outputs - (HEAD + 1) * lanes
    period, next_period = slice(begin, end), slice(begin + lanes, end + lanes)
    repeats = (
        (count[period] == count[begin]).all()
        and np.array_equal(first[period] + step, first[next_period])
        and np.array_equal(weights[period], weights[next_period])
    )
    first_of_period, taps = first[begin : begin + lanes], int(count[begin])
    places = tuple([int(k) for k in first_of_period - first_of_period[0]])
    window = max(places[-1] + taps, lanes)
    if not repeats or not 0 < taps <= MOST_TAPS or not window <= min(WINDOW * lanes, HEAD * step):
        return None
    return Period(band, places, taps, step, int(first_of_period[0]) - HEAD * step)


@functools.lru_cache(maxsize=256)
def compiled(description: PeriodDescription) -> Program:
    """Compile the program for a description."""
    name = f"periodic_{description.source}_{description.target}"
    function = Function(name, len(description.places), description.sums)
    arrays = {"source": description.source, "target": description.target}
    with entry(function, arrays, SETTINGS) as (task, call):
        line = task // call.parts
        Periods(function, description, call).write(line, (task - line * call.parts) * call.part)
    return compile(function)


class Periods:
    """Writes a task: a part of a line, which begins with a register of outputs."""

    def __init__(
        self, function: Function, description: PeriodDescription, call: SimpleNamespace
    ) -> None:
        self.function, self.description, self.call = function, description, call
        self.lanes, self.sums = function.lanes, kind_named(description.sums)

    def write(self, line: Value, begin: Value) -> None:
        """Write the outputs from ``begin`` on: those at the ends one by one."""
        function, call, head = self.function, self.call, HEAD * self.lanes
        source, target = call.source.at(line * call.inputs), call.target.at(line * call.outputs)
        end = (begin + call.part).minimum(call.outputs)
        with function.loop(begin, end.minimum(head)) as loop:
            target.store(self.single(source, loop.index), loop.index)
        with function.loop(begin.maximum(head), end.minimum(call.tail), self.lanes) as loop:
            window = source.at(loop.index // self.lanes * call.step + call.origin)
            target.store(self.register(window), loop.index)
        with function.loop(begin.maximum(call.tail), end) as loop:
            shifted, row = source.at(call.less_inputs), loop.index - call.less_outputs
            target.store(self.single(shifted, row), loop.index)

    def single(self, source: Pointer, row: Value) -> Value:
        """Return one output, given its row in the tables."""
        function, call = self.function, self.call
        inputs, weights = source.at(call.first.load(row)), call.weights.at(row * call.taps)
        if self.description.copies:
            return inputs.load()
        zero = [function.constant(0, self.sums)]
        with function.loop(0, call.count.load(row), carry=zero) as tap:
            term = inputs.load(tap.index).to(self.sums) * weights.load(tap.index).to(self.sums)
            tap.carry(tap.carried[0] + term)
        return tap.carried[0].round_to(self.description.target)

    def register(self, window: Pointer) -> Value:
        """Return a register of outputs from their window."""
        lanes, (places, taps, copies, *_) = self.lanes, self.description
        size = max(places[-1] + taps, lanes)
        starts = [min(k, size - lanes) for k in range(0, size, lanes)]
        numbers = [window.load(start, lanes) for start in starts]
        if copies:
            return self.picked(numbers, starts, 0)
        numbers = [register.to(self.sums) for register in numbers]
        total = numbers[0].like(0)
        for t in range(taps):
            weights = self.call.period.load(t * lanes, lanes).to(self.sums)
            total = total + self.picked(numbers, starts, t) * weights
        return total.round_to(self.description.target)

    def picked(self, numbers: list[Value], starts: list[int], tap: int) -> Value:
        """Return the inputs of a tap, from registers that begin at ``starts`` in the window."""
        registers = [(place + tap) // self.lanes for place in self.description.places]
        lanes = [
            k * self.lanes + place + tap - starts[k]
            for k, place in zip(registers, self.description.places, strict=True)
        ]
        count = 1 << (len(numbers) - 1).bit_length()
        return joined([*numbers, *numbers[:1] * (count - len(numbers))]).shuffle(lanes)


@functools.lru_cache(maxsize=128)
def prepare(
    axis: Axis, transposed: bool, lines: int, kinds: tuple[str, str], sums: str, part: int
) -> Launch | None:
    """Prepare the resizing of lines in parts of outputs; None if weights do not repeat."""
    lanes = host().lanes(sums)
    period = period_of(axis, transposed, lanes)
    if period is None:
        return None
    band, (inputs, outputs) = period.band, (axis.inputs, axis.outputs)
    if transposed:
        inputs, outputs = outputs, inputs
    parts = -(-outputs // part)
    begin = HEAD * lanes
    settings = SETTINGS.pack(
        inputs=inputs, outputs=outputs, part=part, parts=parts,
        tail=(outputs - begin) // lanes * lanes, step=period.step, origin=period.origin,
        less_inputs=inputs - band.inputs, less_outputs=outputs - band.outputs,
        taps=band.weights.shape[1],
        first=np.ascontiguousarray(band.first), count=np.ascontiguousarray(band.count),
        weights=np.ascontiguousarray(band.weights),
        period=np.ascontiguousarray(band.weights[begin : begin + lanes, : period.taps].T),
    )  # fmt: skip
    copies = kind_of(axis) == "copies" and not transposed and kinds[0] == kinds[1]
    description = PeriodDescription(period.places, period.taps, copies, *kinds, sums)
    return Launch(compiled(description), settings, lines * parts)
