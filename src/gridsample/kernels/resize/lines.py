"""Resizing of a few long lines, whose weights are computed and not read from tables.

A table of weights is many times as long as a line, and making it takes many times as long as
resizing the line.  Where few lines share it, weights are therefore computed in registers, by the
formulas of `gridsample.definitions.tables`, and nothing is stored.

    OutputLanes    lanes are outputs, each of which reads its own inputs
    InputLanes     lanes are the inputs of one output, of which there are many
    RowLanes       the transpose: lanes are rows of the matrix, whose products are added to columns
    ColumnLanes    the transpose with many columns in each row: lanes are these

A task is a part of a line's outputs.  The transposes add up in scratch memory, in the type of sums.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsample.definitions.methods import Method
from gridsample.definitions.tables import (
    Axis,
    AxisMap,
    formula_of,
    tap_offsets,
)
from gridsample.kernels.resize.copies import picked_as
from gridsample.kernels.resize.formulas import LineDescription, MatrixRows, Taps
from gridsample.kernels.resize.picking import repeated
from gridsample.kernels.resize.planning import PART, prepare_repeated
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
    kind_of,
    picks,
)

Array = np.ndarray[Any, Any]

# A line is long from this number of pixels on.
LONG_LINE = 1024
# Lines are few if all of them together have fewer numbers at each place.
FEW_LINES = 16
# Inputs of an output from which on lanes are inputs.
MANY_INPUTS = 64
# The registers of inputs that are summed in the type of sums.
BLOCK = 256
# Numbers that are worth a thread.
NUMBERS_OF_THREAD = 1 << 18

SETTINGS = Record(
    inputs="int64",
    outputs="int64",  # of the matrix: columns and rows, also for the transpose
    inner="int64",  # neighbouring numbers at each place of a line
    part="int64",
    parts="int64",  # the places of a task, and the tasks of a line
    max_taps="int64",  # a bound of the inputs of an output
    share="float64",  # 1 / outputs
    step="float64",
    reach="float64",
    stretch="float64",  # of a smoothed axis
    low="*int64",
    high="*int64",  # for the transpose: the rows whose products reach a part
)


@functools.lru_cache(maxsize=256)
def compiled(description: LineDescription) -> Program:
    """Compile the program for a description."""
    name = f"lines_{description.kind}_{description.source}_{description.target}"
    function = Function(name, host().lanes(description.sums), "float64")
    arrays = {"source": description.source, "target": description.target}
    write = {
        (False, False): OutputLanes, (False, True): InputLanes,
        (True, False): RowLanes, (True, True): ColumnLanes,
    }[description.transposed, description.many]  # fmt: skip
    with entry(function, arrays, SETTINGS) as (task, call):
        line = task // call.parts
        begin = (task - line * call.parts) * call.part
        write(function, description, call).write(line, task - line * call.parts, begin)
    return compile(function)


# Programs -----------------------------------------------------------------------------------------


class Line:
    """Writes a task: a part of a line's outputs."""

    def __init__(
        self, function: Function, description: LineDescription, call: SimpleNamespace
    ) -> None:
        self.function, self.description, self.call = function, description, call
        self.lanes, self.sums = function.lanes, kind_of(description.sums)
        self.rows = MatrixRows(description, call)

    def write(self, line: Value, part: Value, begin: Value) -> None:
        """Write the task of a line and of its part, which begins at ``begin``."""
        raise NotImplementedError

    def split(self, offsets: Value) -> tuple[Value, Value]:
        """Split offsets into indices along the line and components, the numbers at an index."""
        if self.description.single:
            return offsets, offsets * 0
        indices = offsets // self.call.inner
        return indices, offsets - indices * self.call.inner

    def offset(self, index: Value, component: Value) -> Value:
        """Return the offset of a component in a line; the inverse of `split`."""
        return index if self.description.single else index * self.call.inner + component

    def lane(self) -> Value:
        """Return the index of each lane."""
        return self.function.vector(range(self.lanes), "int64")

    def factor(self, weight: Value) -> Value:
        """Convert a weight to the type of sums."""
        return weight.to(self.sums)


def divided(total: Value, weight: Value) -> Value:
    """Divide by a sum of weights, which may be 0."""
    return total / (weight == 0).select(1.0, weight).to(total.kind)


class OutputLanes(Line):
    """Lanes are outputs, each of which reads its own inputs."""

    def write(self, line: Value, part: Value, begin: Value) -> None:
        """Sum a register of outputs at a time."""
        function, call, lanes = self.function, self.call, self.lanes
        source = call.source.at(line * (call.inputs * call.inner))
        target = call.target.at(line * (call.outputs * call.inner))
        stop = (begin + call.part).minimum(call.outputs) * call.inner
        with function.loop(begin * call.inner, stop, lanes) as loop:
            i, component = self.split((self.lane() + loop.index).minimum(stop - 1))
            result = self.result(source, i, component).round_to(target.kind)
            with function.when(loop.index + lanes <= stop):
                target.store(result, loop.index)
            with function.when(loop.index + lanes > stop, rare=True):
                memory = function.spill(result)
                with function.loop(loop.index, stop) as rest:
                    target.store(memory.load(rest.index - loop.index), rest.index)

    def result(self, source: Pointer, i: Value, component: Value) -> Value:
        """Return the numbers of outputs i."""
        taps = self.rows.taps(i)
        if self.description.kind == "copies":
            return self.read(source, self.offset(taps.tap(0)[0], component))
        if isinstance(taps.count, int):
            return self.sum_few(source, component, taps)
        return self.sum_any(source, component, taps)

    def read(self, source: Pointer, numbers: Value) -> Value:
        """Read a number for each lane."""
        offsets = self.function.spill(numbers, soon=True)
        return source.load_each([offsets.load(lane) for lane in range(self.lanes)])

    def sum_few(self, source: Pointer, component: Value, taps: Taps) -> Value:
        """Return the sums over the inputs around positions."""
        pairs = [taps.tap(t) for t in range(taps.count)]
        indices, weights = [index for index, _ in pairs], [self.factor(w) for _, w in pairs]
        inside = (indices[0] >= 0) & (indices[-1] < self.call.inputs)

        def total(numbers: Sequence[Value]) -> list[Value]:
            terms = [n.to(self.sums) * w for n, w in zip(numbers, weights, strict=True)]
            result = terms[0]
            for term in terms[1:]:
                result = result + term
            return [result]

        def neighbours() -> list[Value]:
            return total(self.neighbours(source, self.offset(indices[0], component), len(pairs)))

        def folded() -> list[Value]:
            numbers = [self.offset(self.rows.folded(index), component) for index in indices]
            return total([source.gather(offsets) for offsets in numbers])

        return self.function.choose(inside.all(), neighbours, folded, likely=True)[0]

    def neighbours(self, source: Pointer, first: Value, count: int) -> list[Value]:
        """Read ``count`` neighbouring inputs for each lane."""
        offsets = self.function.spill(first, soon=True)
        begins = [offsets.load(lane) for lane in range(self.lanes)]
        if self.description.single and count in (2, 4):
            words = joined([source.load(begin, count) for begin in begins])
            return [words.shuffle(range(t, count * self.lanes, count)) for t in range(count)]
        sources = [source.at(self.call.inner * t) for t in range(count)]
        return [memory.load_each(begins) for memory in sources]

    def sum_any(self, source: Pointer, component: Value, taps: Taps) -> Value:
        """Return the sums over any number of inputs."""
        zeros = [self.function.constant(0, kind, self.lanes) for kind in (self.sums, "float64")]
        with self.function.loop(0, taps.max_count, carry=zeros) as loop:
            total, sum_of_weights = loop.carried
            taken = taps.count > loop.index
            index, weight = taps.tap(loop.index)
            numbers = source.gather(self.offset(index, component), taken)
            added = total + numbers.to(self.sums) * self.factor(weight)
            loop.carry(
                taken.select(added, total), taken.select(sum_of_weights + weight, sum_of_weights)
            )
        total, sum_of_weights = loop.carried
        return divided(total, sum_of_weights) if taps.divides else total


class InputLanes(Line):
    """Lanes are the inputs of one output."""

    def write(self, line: Value, part: Value, begin: Value) -> None:
        """Sum one output after the other."""
        function, call = self.function, self.call
        source = call.source.at(line * (call.inputs * call.inner))
        target = call.target.at(line * (call.outputs * call.inner))
        stop = (begin + call.part).minimum(call.outputs) * call.inner
        with function.loop(begin * call.inner, stop) as loop:
            i, component = self.split(loop.index)
            taps = self.rows.taps(i)
            zeros = [function.constant(0, "float64")] * 2
            with function.loop(0, taps.count, BLOCK * self.lanes, carry=zeros) as block:
                end = (block.index + BLOCK * self.lanes).minimum(taps.count)
                sums = self.sum_block(source, component, taps, block.index, end)
                block.carry(*[a + b for a, b in zip(block.carried, sums, strict=True)])
            total, weight = block.carried
            total = divided(total, weight) if taps.divides else total
            target.store(total.round_to(target.kind), loop.index)

    def sum_block(
        self, source: Pointer, component: Value, taps: Taps, begin: Value, end: Value
    ) -> list[Value]:
        """Return the sum over some inputs, and that of their weights."""
        function, lanes = self.function, self.lanes
        carry = [function.constant(0, kind, lanes) for kind in (self.sums, "float64")]
        tail = begin + (end - begin) // lanes * lanes
        for start, stop, full in ((begin, tail, True), (tail, end, False)):
            with function.loop(start, stop, lanes, carry=carry) as loop:
                tap = self.lane() + loop.index
                index, weight = taps.tap(tap)
                number = self.offset(index, component)
                if full and self.description.single:
                    numbers, taken = source.load(number[0], lanes), tap >= 0
                else:
                    taken = tap < end
                    numbers = source.gather(number, taken)
                weight = taken.select(weight.splat(lanes), 0.0)
                total = loop.carried[0] + numbers.to(self.sums) * self.factor(weight)
                loop.carry(taken.select(total, loop.carried[0]), loop.carried[1] + weight)
            carry = loop.carried
        return [total.to("float64").sum() for total in carry]


class Transposed(Line):
    """Adds up the columns of a part in scratch memory.

    There, a column has a place for each of a line's numbers, and these places are ``plane`` apart.
    Place 0 takes what belongs to other parts, and those after the last column are not used, either.
    """

    def write(self, line: Value, part: Value, begin: Value) -> None:
        """Add rows to the columns from ``begin`` on, and store them."""
        function, call = self.function, self.call
        source = call.source.at(line * (call.outputs * call.inner))
        target = call.target.at((line * call.inputs + begin) * call.inner)
        self.plane = call.part + (1 + self.lanes)
        self.begin, self.end = begin, (begin + call.part).minimum(call.inputs)
        self.memory = call.scratch.cast(self.sums)
        zero = function.constant(0, self.sums)
        self.memory.fill(zero, self.plane * call.inner, self.lanes)
        self.add_rows(source, call.low.load(part) * call.inner, call.high.load(part) * call.inner)
        count = self.end - begin
        tail = count // self.lanes * self.lanes if self.description.single else count * 0
        with function.loop(0, tail, self.lanes) as loop:
            totals = self.memory.load(loop.index + 1, self.lanes)
            target.store(totals.round_to(target.kind), loop.index)
        with function.loop(tail * call.inner, count * call.inner) as loop:
            index, component = self.split(loop.index)
            total = self.memory.load(component * self.plane + index + 1)
            target.store(total.round_to(target.kind), loop.index)

    def add_rows(self, source: Pointer, start: Value, stop: Value) -> None:
        """Add the products of the rows to which some numbers of a line belong."""
        raise NotImplementedError


class RowLanes(Transposed):
    """Lanes are rows, whose products are added one by one."""

    def add_rows(self, source: Pointer, start: Value, stop: Value) -> None:
        """Add a register of rows at a time."""
        function, lanes = self.function, self.lanes
        with function.loop(start, stop, lanes) as loop:
            numbers = self.lane() + loop.index
            known = numbers < stop
            i, component = self.split(numbers.minimum(stop - 1))
            values = function.choose(
                loop.index + lanes <= stop,
                lambda: [source.load(loop.index, lanes)],
                lambda: [source.gather(numbers, known)],
                likely=True,
            )[0].to(self.sums)
            taps = self.rows.taps(i)
            if isinstance(taps.count, int):
                self.add_few(values, component, taps, known)
            else:
                self.add_any(values, component, taps, known)

    def add_few(self, values: Value, component: Value, taps: Taps, known: Value) -> None:
        """Add rows to the inputs around their positions."""
        for t in range(taps.count):
            index, weight = taps.tap(t)
            self.add(values * self.factor(weight), self.rows.folded(index), component, known)

    def add_any(self, values: Value, component: Value, taps: Taps, known: Value) -> None:
        """Add rows to any number of inputs."""
        if taps.divides:
            values = divided(values, self.total(taps))
        with self.function.loop(0, taps.max_count) as tap:
            index, weight = taps.tap(tap.index)
            taken = known & (taps.count > tap.index)
            self.add(values * self.factor(weight), index, component, taken)

    def total(self, taps: Taps) -> Value:
        """Return the sum of the weights of each row."""
        zero = self.function.constant(0, "float64", self.lanes)
        with self.function.loop(0, taps.max_count, carry=[zero]) as loop:
            total = loop.carried[0] + taps.tap(loop.index)[1]
            loop.carry((taps.count > loop.index).select(total, loop.carried[0]))
        return loop.carried[0]

    def add(self, products: Value, index: Value, component: Value, taken: Value) -> None:
        """Add products to the columns of a tap."""
        taken = taken & (index >= self.begin) & (index < self.end)
        cells = taken.select(index - self.begin + 1, index.like(0)) + component * self.plane
        offsets, numbers = (self.function.spill(value, soon=True) for value in (cells, products))
        for lane in range(self.lanes):
            cell = self.memory.at(offsets.load(lane))
            cell.store(cell.load() + numbers.load(lane))


class ColumnLanes(Transposed):
    """Lanes are the columns of one row."""

    def add_rows(self, source: Pointer, start: Value, stop: Value) -> None:
        """Add one row after the other."""
        function, lanes = self.function, self.lanes
        with function.loop(start, stop) as loop:
            i, component = self.split(loop.index)
            taps = self.rows.taps(i)
            value = source.load(loop.index).to(self.sums)
            if taps.divides:
                value = divided(value, self.total(taps))
            first = taps.tap(function.as_index(0))[0]
            begin = (self.begin - first).maximum(0)
            end = (self.end - first).minimum(taps.count)
            memory = self.memory.at(component * self.plane + first - self.begin + 1)
            with function.loop(begin, end, lanes) as columns:
                tap = self.lane() + columns.index
                product = value * self.factor(taps.tap(tap)[1])
                product = (tap < end).select(product, 0.0)
                memory.store(memory.load(columns.index, lanes) + product, columns.index)

    def total(self, taps: Taps) -> Value:
        """Return the sum of a row's weights."""
        zero = self.function.constant(0, "float64", self.lanes)
        with self.function.loop(0, taps.count, self.lanes, carry=[zero]) as loop:
            tap = self.lane() + loop.index
            weight = (tap < taps.count).select(taps.tap(tap)[1], 0.0)
            loop.carry(loop.carried[0] + weight)
        return loop.carried[0].sum()


# Calls --------------------------------------------------------------------------------------------


def is_long(axis_map: AxisMap, others: int) -> bool:
    """Whether the lines of an axis are long and few; ``others`` is the size of all other axes."""
    axis = axis_map.axis
    if axis is None or others >= FEW_LINES or max(axis.inputs, axis.outputs) < LONG_LINE:
        return False
    return isinstance(axis.method, Method) and not axis_map.is_identity


def copies_pixels(axis_map: AxisMap) -> bool:
    """Whether the formulas of an axis copy pixels."""
    axis = axis_map.axis
    if axis is None or axis_map.transposed or not isinstance(axis.method, Method):
        return False
    return formula_of(axis) == "copies"


def rows_of_parts(
    axis: Axis, step: float, margin: float, part: int, parts: int
) -> tuple[Array, Array]:
    """Return the rows that reach the columns of each part, and a few more."""
    if step == 0:
        return np.zeros(parts, np.int64), np.full(parts, axis.outputs, np.int64)
    begin = np.arange(parts) * part
    low, high = (begin - margin) / step, (begin + part + margin) / step
    # Nearest pixels are computed in single precision, whose error grows with the position.
    low, high = (
        np.clip(end + sign * (4 + 1e-6 * np.abs(end)), 0, axis.outputs).astype(np.int64)
        for end, sign in ((low, -1), (high, 1))
    )
    high[-1] = axis.outputs
    return low, high


@functools.lru_cache(maxsize=128)
def prepare(
    axis: Axis, transposed: bool, lines: int, inner: int, kinds: tuple[str, str], sums: str
) -> Launch:
    """Prepare the resizing of lines of an axis, whose places have ``inner`` numbers."""
    threads = max(1, lines * inner * (axis.inputs + axis.outputs) // NUMBERS_OF_THREAD)
    copied = formula_of(axis) == "copies" and not transposed and kinds[0] == kinds[1]
    picked_sums = picked_as(kinds[0]) if copied else sums
    if inner == 1 and picked_sums and picks(kind_of(picked_sums)):
        tables = repeated(axis, transposed, host().lanes(picked_sums))
        if tables is not None:
            launch = prepare_repeated(tables, lines, kinds, picked_sums, copied)
            return launch._replace(threads=threads)
    kind, method = formula_of(axis), axis.method
    assert isinstance(method, Method)
    step, stretch, reach, max_taps = axis.step, 1.0, 1.0, 1
    if kind == "averages":
        step = axis.inputs / axis.outputs
        quotient, rest = divmod(axis.inputs, axis.outputs)
        max_taps = quotient + 2 if rest and axis.outputs % axis.inputs else max(1, quotient)
    elif kind == "smoothed":
        stretch = axis.stretch
        reach = method.kernel(antialias=True)[0] * stretch
        max_taps = min(axis.inputs, math.ceil(2 * reach) + 2)
    elif kind == "interpolated":
        reach = 2.0 * len(tap_offsets(method))
    many = max_taps >= MANY_INPUTS
    n, size = (axis.inputs, max(PART, 2 * max_taps)) if transposed else (axis.outputs, PART)
    part = min(n, size if transposed or not many else max(1, PART * 8 // max_taps))
    parts = -(-n // part)
    low, high = rows_of_parts(axis, step, reach + 2, part, parts)
    description = LineDescription(
        kind, method, axis.align_corners, transposed, many, inner == 1, *kinds, sums
    )
    settings = SETTINGS.pack(
        inputs=axis.inputs,
        outputs=axis.outputs,
        inner=inner,
        part=part,
        parts=parts,
        max_taps=max_taps,
        share=1 / axis.outputs,
        step=step,
        reach=reach,
        stretch=stretch,
        low=low,
        high=high,
    )
    scratch = (part + 1 + host().lanes(sums)) * inner * np.dtype(sums).itemsize
    return Launch(
        compiled(description),
        settings,
        lines * parts,
        scratch if transposed else 0,
        threads,
    )
