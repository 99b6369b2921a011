"""Resizing of a few long lines, whose weights are computed and not read from tables.

A table of weights is many times as long as a line, and takes many times as long as to resize it.
Where there are few lines that share it, weights are therefore computed in registers, by the
formulas of `gridsample.definitions.tables`, and nothing is stored.

    OutputLanes    lanes are outputs, each of which reads its own inputs
    InputLanes     lanes are the inputs of one output, of which there are many

A task is a part of a line's outputs.  The outputs of the transpose are columns of the matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.methods import NEAREST_EXACT, Method
from gridsample.definitions.plan import type_name
from gridsample.definitions.tables import (
    Axis,
    AxisMap,
    kind_of,
    tap_offsets,
)
from gridsample.definitions.zooming import Zoom
from gridsample.kernels.memory import addresses_of
from gridsample.kernels.resize.formulas import LineDescription, Matrix, Taps
from gridsample.kernels.resize.periodic import periods_of
from gridsample.kernels.resize.planning import prepare_periods
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
from gridsample.kernels.vector import (
    kind_of as kind_named,
)

Array = np.ndarray[Any, Any]

# A line is long if it has so many pixels.
LONG = 1024
# Lines are few if a place of all of them has fewer numbers.
FEW = 16
# The outputs of a task.
PART = 1 << 13
# Inputs of an output from which on lanes are inputs.
MANY_INPUTS = 64
# The registers of inputs that are summed in the type of sums.
BLOCK = 256
# The numbers that are worth a thread.
WORTH = 1 << 18

SETTINGS = Record(
    inputs="int64", outputs="int64",  # of the matrix: columns and rows, also for the transpose
    inner="int64",  # neighbouring numbers at each place of a line
    part="int64", parts="int64",  # the places of a task, and the tasks of a line
    most="int64",  # a bound of the inputs of an output
    share="float64",  # 1 / outputs
    step="float64", reach="float64", stretch="float64",  # of a smoothed axis
    # For the transpose: output i is at i / rate + offset, and reads inputs up to a radius away.
    offset="float64", radius="float64", rate="float64", margin="float64",
)  # fmt: skip


@functools.lru_cache(maxsize=256)
def compiled(description: LineDescription) -> Program:
    """Compile the program for a description."""
    name = f"lines_{description.kind}_{description.source}_{description.target}"
    function = Function(name, host().lanes(description.sums), "float64")
    arrays = {"source": description.source, "target": description.target}
    write = InputLanes if description.many else OutputLanes
    with entry(function, arrays, SETTINGS) as (task, call):
        line = task // call.parts
        write(function, description, call).write(line, (task - line * call.parts) * call.part)
    return compile(function)


# Programs -----------------------------------------------------------------------------------------


class Line:
    """Writes a task: a part of a line's outputs."""

    def __init__(
        self, function: Function, description: LineDescription, call: SimpleNamespace
    ) -> None:
        self.function, self.description, self.call = function, description, call
        self.lanes, self.sums = function.lanes, kind_named(description.sums)
        self.matrix = Matrix(description, call)
        self.inputs, self.outputs = call.inputs, call.outputs
        if description.transposed:
            self.inputs, self.outputs = self.outputs, self.inputs

    def write(self, line: Value, begin: Value) -> None:
        """Write the part of a line that begins at ``begin``."""
        function, call, step = self.function, self.call, 1 if self.description.many else self.lanes
        source = call.source.at(line * (self.inputs * call.inner))
        target = call.target.at(line * (self.outputs * call.inner))
        stop = (begin + call.part).minimum(self.outputs) * call.inner
        with function.loop(begin * call.inner, stop, step) as loop:
            self.write_outputs(source, target, loop.index, stop)

    def write_outputs(self, source: Pointer, target: Pointer, first: Value, stop: Value) -> None:
        """Write some of the numbers from ``first`` to ``stop`` of a line."""
        raise NotImplementedError

    def split(self, offsets: Value) -> tuple[Value, Value]:
        """Split offsets into indices along the line and components, the numbers at an index."""
        if self.description.single:
            return offsets, offsets * 0
        indices = offsets // self.call.inner
        return indices, offsets - indices * self.call.inner

    def offset(self, index: Value, component: Value) -> Value:
        """Return the offset of a component in a line; the reverse of `split`."""
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

    def write_outputs(self, source: Pointer, target: Pointer, first: Value, stop: Value) -> None:
        """Write a register of outputs."""
        function, lanes = self.function, self.lanes
        i, component = self.split((self.lane() + first).minimum(stop - 1))
        result = self.result(source, i, component).round_to(target.kind)
        with function.when(first + lanes <= stop):
            target.store(result, first)
        with function.when(first + lanes > stop, rare=True):
            memory = function.spill(result)
            with function.loop(first, stop) as rest:
                target.store(memory.load(rest.index - first), rest.index)

    def result(self, source: Pointer, i: Value, component: Value) -> Value:
        """Return the numbers of outputs i."""
        taps = self.matrix.taps(i)
        if self.description.kind == "copies" and not self.description.transposed:
            return self.read(source, self.offset(taps.first, component))
        if isinstance(taps.count, int):
            return self.sum_few(source, component, taps)
        return self.sum_any(source, component, taps)

    def read(self, source: Pointer, numbers: Value) -> Value:
        """Read a number for each lane."""
        offsets = self.function.spill(numbers)
        return source.load_each([offsets.load(lane) for lane in range(self.lanes)])

    def sum_few(self, source: Pointer, component: Value, taps: Taps) -> Value:
        """Return the sums over the inputs around positions."""
        weights = [self.factor(taps.tap(t)[0]) for t in range(taps.count)]
        inside = (taps.first >= 0) & (taps.first + taps.count <= self.inputs)

        def total(numbers: Sequence[Value]) -> list[Value]:
            terms = [n.to(self.sums) * w for n, w in zip(numbers, weights, strict=True)]
            result = terms[0]
            for term in terms[1:]:
                result = result + term
            return [result]

        def neighbours() -> list[Value]:
            return total(self.neighbours(source, self.offset(taps.first, component), taps.count))

        def folded() -> list[Value]:
            indices = [self.matrix.folded(taps.first + t) for t in range(taps.count)]
            return total([source.gather(self.offset(index, component)) for index in indices])

        return self.function.choose(inside.all(), neighbours, folded, likely=True)[0]

    def neighbours(self, source: Pointer, first: Value, count: int) -> list[Value]:
        """Read ``count`` neighbouring inputs for each lane."""
        offsets = self.function.spill(first)
        begins = [offsets.load(lane) for lane in range(self.lanes)]
        if self.description.single and count in (2, 4):
            words = joined([source.load(begin, count) for begin in begins])
            return [words.shuffle(range(t, count * self.lanes, count)) for t in range(count)]
        sources = [source.at(self.call.inner * t) for t in range(count)]
        return [memory.load_each(begins) for memory in sources]

    def sum_any(self, source: Pointer, component: Value, taps: Taps) -> Value:
        """Return the sums over any number of inputs."""
        zeros = [self.function.constant(0, kind, self.lanes) for kind in (self.sums, "float64")]
        with self.function.loop(0, taps.most, carry=zeros) as loop:
            total, sum_of_weights = loop.carried
            weight, taken = taps.tap(loop.index)
            numbers = source.gather(self.offset(taps.first + loop.index, component), taken)
            added = total + numbers.to(self.sums) * self.factor(weight)
            loop.carry(
                taken.select(added, total), taken.select(sum_of_weights + weight, sum_of_weights)
            )
        total, sum_of_weights = loop.carried
        return divided(total, sum_of_weights) if taps.divides else total


class InputLanes(Line):
    """Lanes are the inputs of one output."""

    def write_outputs(self, source: Pointer, target: Pointer, first: Value, stop: Value) -> None:
        """Write one output."""
        function, length = self.function, BLOCK * self.lanes
        i, component = self.split(first)
        taps = self.matrix.taps(i)
        zeros = [function.constant(0, "float64")] * 2
        with function.loop(0, taps.count, length, carry=zeros) as block:
            end = (block.index + length).minimum(taps.count)
            sums = self.sum_block(source, component, taps, block.index, end)
            block.carry(*[a + b for a, b in zip(block.carried, sums, strict=True)])
        total, weight = block.carried
        total = divided(total, weight) if taps.divides else total
        target.store(total.round_to(target.kind), first)

    def sum_block(
        self, source: Pointer, component: Value, taps: Taps, begin: Value, end: Value
    ) -> list[Value]:
        """Return the sum over some inputs, and that of their weights."""
        function, lanes = self.function, self.lanes
        carry = [function.constant(0, kind, lanes) for kind in (self.sums, "float64")]
        whole = begin + (end - begin) // lanes * lanes
        for start, stop, full in ((begin, whole, True), (whole, end, False)):
            with function.loop(start, stop, lanes, carry=carry) as loop:
                tap = self.lane() + loop.index
                weight, taken = taps.tap(tap)
                if full and self.description.single:
                    numbers = source.load(taps.first + loop.index, lanes)
                else:
                    numbers = source.gather(self.offset(taps.first + tap, component), taken)
                weight = taken.select(weight.splat(lanes), 0.0)
                total = loop.carried[0] + numbers.to(self.sums) * self.factor(weight)
                loop.carry(taken.select(total, loop.carried[0]), loop.carried[1] + weight)
            carry = loop.carried
        return [total.to("float64").sum() for total in carry]


# Calls --------------------------------------------------------------------------------------------


def is_long(axis_map: AxisMap, others: int) -> bool:
    """Whether the lines of an axis are long and few; ``others`` is the size of all other axes."""
    axis = axis_map.axis
    if axis is None or others >= FEW or max(axis.inputs, axis.outputs) < LONG:
        return False
    return not (isinstance(axis.method, Zoom) or axis_map.is_identity)


def copies(axis_map: AxisMap) -> bool:
    """Whether the formulas of an axis copy pixels."""
    axis = axis_map.axis
    if axis is None or axis_map.transposed or isinstance(axis.method, Zoom):
        return False
    return kind_of(axis) == "copies"


class Reach(NamedTuple):
    """Which inputs the outputs of an axis read, in numbers.

    Attributes:
        most: a bound of the inputs of an output.
        reach, stretch: of a smoothed axis: that of its kernel, and the factor that stretches it.
        offset: the position of output 0 among the inputs; others are a step apart.
        radius: the greatest distance of an input.
    """

    most: int
    reach: float
    stretch: float
    offset: float
    radius: float


def reach_of(axis: Axis, step: float) -> Reach:
    """Return which inputs the outputs of an axis read, whose outputs are a step apart."""
    kind, method = kind_of(axis), axis.method
    assert isinstance(method, Method)
    middle = step / 2 - 0.5
    if kind == "copies":
        return Reach(1, 0.0, 1.0, middle if method == NEAREST_EXACT else -0.5, 0.5)
    if kind == "averages":
        whole, rest = divmod(axis.inputs, axis.outputs)
        most = whole + 2 if rest and axis.outputs % axis.inputs else max(1, whole)
        return Reach(most, 0.0, 1.0, middle, 0.5 + step / 2)
    if kind == "smoothed":
        stretch = max(step, 1.0)
        reach = method.kernel(antialias=True)[0] * stretch
        return Reach(min(axis.inputs, math.ceil(2 * reach) + 2), reach, stretch, middle, reach + 1)
    offsets = tap_offsets(method)
    # Positions half a pixel outside are folded to the edge.
    radius = max(1 - offsets[0], offsets[-1], 1) + 0.5 * method.folds_position
    return Reach(len(offsets), 0.0, 1.0, 0.0 if axis.align_corners else middle, radius)


@functools.lru_cache(maxsize=128)
def prepare(
    axis: Axis, transposed: bool, lines: int, inner: int, kinds: tuple[str, str], sums: str,
    divides: bool = True,
) -> Launch:  # fmt: skip
    """Prepare the resizing of lines of an axis, whose places have ``inner`` numbers."""
    threads = max(1, lines * inner * (axis.inputs + axis.outputs) // WORTH)
    if inner == 1 and divides:
        periods = periods_of(axis, transposed, host().lanes(sums))
        if periods is not None:
            copied = kind_of(axis) == "copies" and not transposed and kinds[0] == kinds[1]
            launch = prepare_periods(periods, lines, PART, kinds, sums, copied)
            return launch._replace(threads=threads)
    assert isinstance(axis.method, Method)
    step = axis.inputs / axis.outputs if kind_of(axis) == "averages" else axis.step
    numbers, rate = reach_of(axis, step), 1 / step if step else 0.0
    # Positions of nearest pixels are rounded to single precision.
    margin = (1e-3 + 2e-7 * axis.outputs) if step else axis.outputs
    most, outputs = numbers.most, axis.outputs
    if transposed:
        most = min(outputs, math.ceil(2 * (numbers.radius * rate + margin)) + 1)
        outputs = axis.inputs
    many = most >= MANY_INPUTS
    part = min(outputs, max(1, PART * 8 // most) if many else PART)
    parts = -(-outputs // part)
    description = LineDescription(
        kind_of(axis), axis.method, axis.align_corners, transposed, many, divides, inner == 1,
        *kinds, sums,
    )  # fmt: skip
    settings = SETTINGS.pack(
        inputs=axis.inputs, outputs=axis.outputs, inner=inner, part=part, parts=parts, most=most,
        share=1 / axis.outputs, step=step, reach=numbers.reach, stretch=numbers.stretch,
        offset=numbers.offset, radius=numbers.radius, rate=rate, margin=margin,
    )  # fmt: skip
    return Launch(compiled(description), settings, lines * parts, threads=threads)


def resize_lines(
    axis_map: AxisMap, axis_index: int, source: Array, target: Array, real: str, threads: int
) -> None:
    """Resize the axis at ``place`` of packed planes, all other axes of which stay as they are."""
    axis, transposed = axis_map.axis, axis_map.transposed
    assert axis is not None
    lines, inner = math.prod(source.shape[:axis_index]), math.prod(source.shape[axis_index + 1 :])
    repeats = inner == 1 and periods_of(axis, transposed, host().lanes(real))
    if transposed and kind_of(axis) == "smoothed" and not repeats:
        source = normalized(axis, source.reshape(lines, -1, inner), real, threads)
    kinds = type_name(source.dtype), type_name(target.dtype)
    if copies(axis_map) and source.dtype == target.dtype:
        kinds = (f"uint{8 * source.itemsize}",) * 2
    launch = prepare(axis, transposed, lines, inner, kinds, real)
    launch.run(addresses_of((source, target)), threads)


def normalized(axis: Axis, source: Array, real: str, threads: int) -> Array:
    """Divide outputs (lines, n, inner) of an axis by the sums of their weights."""
    ones, sums = np.ones(axis.inputs, np.float32), np.empty(axis.outputs)
    launch = prepare(axis, False, 1, 1, ("float32", "float64"), "float64", False)
    launch.run(addresses_of((ones, sums)), threads)
    sums[sums == 0] = 1
    return (source / sums[:, np.newaxis]).astype(real)
