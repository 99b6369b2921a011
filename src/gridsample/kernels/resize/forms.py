"""The forms of a stage, which resizes one axis: (outer, n, inner) to (outer, outputs, inner).

rows      `inner` is long: lanes are neighbours in a row, and all have the same weights
picked    `inner` is short: lanes are neighbours in a line, which pick inputs from a few registers
transposed   the same for many inputs: lanes are lines, which are transposed before and after
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from gridsample.kernels import transposing
from gridsample.kernels.vector import Function, Kind, Pointer, Value, pick

# The registers of a block of a row.
WIDE = 4
# The numbers of a row that are processed before the next output.
PART_OF_ROW = 8192


class Stage(NamedTuple):
    """What a stage is compiled for.

    Attributes:
        form: "rows", "picked" or "transposed".
        leading: whether it resizes the first axis, of which a piece may have a part.
        taps: the number of inputs of most outputs if it is small, otherwise 0.
        inner: the contiguous numbers at each place of the axis if they are few, otherwise 0.
        registers: those that hold a number of each line that is transposed, or a window.
        repeats: whether many groups of lanes share the tables of one.
        copies: whether outputs are copies of inputs.
    """

    form: str
    leading: bool
    taps: int
    inner: int = 0
    registers: int = 1
    repeats: bool = False
    copies: bool = False


class Work(NamedTuple):
    """The data of a stage: ``outer`` lines of ``n`` inputs, of which the first has index ``base``.

    The outputs are those from ``begin`` to ``end``.
    """

    source: Pointer
    target: Pointer
    scratch: Pointer
    outer: Value
    n: Value
    base: Value
    begin: Value
    end: Value


# Reads the numbers of a tap, as one value or several.
Read = Callable[[Any], Sequence[Value]]


class Form:
    """Writes a stage.

    Which form is chosen depends on the number of threads, so all round in the same way: the sum of
    any taps starts at 0, and each tap is one fused operation.
    """

    def __init__(
        self, function: Function, stage: Stage, fields: SimpleNamespace, work: Work
    ) -> None:
        self.function, self.stage, self.fields, self.work = function, stage, fields, work
        self.lanes = function.lanes
        self.sums: Kind = fields.weights.kind

    def write(self) -> None:
        """Write the loops of the stage."""
        raise NotImplementedError

    def stored(self, total: Value) -> Value:
        """Convert sums to the type of the target."""
        kind = self.work.target.kind
        if not self.sums.is_integer or kind is self.sums:
            return total.round_to(kind)
        shift: Value = self.fields.shift.to(self.sums)
        half = total.like(1) << (shift - 1)
        if self.fields.rounding == "dyadic":  # halves to even, as floats round
            return ((total + half - 1 + ((total >> shift) & 1)) >> shift).to(kind)
        total = (total + half) >> shift
        return total.maximum(0).minimum((1 << kind.bits) - 1).to(kind)

    def weights(self, i: Value) -> Pointer:
        """Return the weights of an output's taps."""
        weights: Pointer = self.fields.weights.at(i * self.fields.taps)
        return weights

    def sum_few(self, read: Read, weights: Pointer) -> list[Value]:
        """Return the weighted sums over the usual number of taps, rounded as those of `sum_any`."""
        totals: list[Value] = []
        for t in range(self.stage.taps):
            terms = [numbers.to(self.sums) * weights.load(t) for numbers in read(t)]
            totals = totals or [term.like(0) for term in terms]
            totals = [a + b for a, b in zip(totals, terms, strict=True)]
        return totals

    def sum_any(self, read: Read, weights: Pointer, taps: Value, widths: list[int]) -> list[Value]:
        """Return the weighted sums over any number of taps."""
        zeros = [self.function.constant(0, self.sums, width) for width in widths]
        with self.function.loop(0, taps, carry=zeros) as tap:
            weight = weights.load(tap.index)
            terms = [numbers.to(self.sums) * weight for numbers in read(tap.index)]
            tap.carry(*[a + b for a, b in zip(tap.carried, terms, strict=True)])
        return tap.carried

    def sum_lines(self, i: Value, source: Pointer, step: Value, blocks: Any, store: Any) -> None:
        """Sum lines that are a step apart for output i, block by block: ``store(sum, place)``.

        ``source`` is the first line, and ``blocks`` yields (places of registers, their lanes).
        """
        function, few, weights = self.function, self.stage.taps, self.weights(i)
        taps = self.fields.count.load(i)

        def sum_blocks(written_out: bool) -> None:
            lines = [source.at(step * t) for t in range(few if written_out else 0)]
            for places, width in blocks():

                def read(tap: Any, places: Any = places, width: int = width) -> list[Value]:
                    line = lines[tap] if written_out else source.at(step * tap)
                    return [line.load(place, width) for place in places]

                widths = [width] * len(places)
                totals = (
                    self.sum_few(read, weights)
                    if written_out
                    else self.sum_any(read, weights, taps, widths)
                )
                for total, place in zip(totals, places, strict=True):
                    store(total, place)

        if not few:
            sum_blocks(False)
            return
        with function.when(taps == few):
            sum_blocks(True)
        with function.when(taps != few):
            sum_blocks(False)


class RowForm(Form):
    """Lanes are neighbours in a row, whose length is at least that of a register."""

    def write(self) -> None:
        """Sum a row block by block, for each output."""
        function, work, inner = self.function, self.work, self.fields.inner
        outputs = work.end - work.begin
        with (
            function.loop(0, work.outer) as outer,
            function.loop(0, inner, PART_OF_ROW) as part,
            function.loop(work.begin, work.end) as output,
        ):
            first = outer.index * work.n + self.fields.first.load(output.index) - work.base
            row = outer.index * outputs + output.index - work.begin
            target = work.target.at(row * inner + part.index)
            length = (inner - part.index).minimum(PART_OF_ROW)
            self.sum_lines(
                output.index,
                work.source.at(first * inner + part.index),
                inner,
                functools.partial(self.blocks, length),
                lambda total, place: target.store(self.stored(total), place),
            )

    def blocks(self, length: Value) -> Iterator[tuple[list[Value], int]]:
        """Yield where the registers of a block begin, and their lanes; the last may overlap."""
        width = WIDE * self.lanes
        tail = length // width * width
        with self.function.loop(0, tail, width) as loop:
            yield [loop.index], width
        with self.function.loop(tail, length, self.lanes) as loop:
            yield [loop.index.minimum(length - self.lanes)], self.lanes


class Tables(NamedTuple):
    """The tables of a group of lanes; see `picking.Picking`."""

    begin: Value
    first: Value
    counts: Value
    weights: list[Value]


class PickedForm(Form):
    """Lanes are neighbouring numbers of a line, each of which picks its inputs from a window.

    A few lines are worked on together, because they share tables (`picking`).
    """

    def write(self) -> None:
        """Sum the groups of a few lines: in the middle, all lanes have all taps.

        If groups share tables, those in the middle have the tables of the first of them, moved
        along the line.
        """
        function, work, fields, inner = self.function, self.work, self.fields, self.stage.inner
        count = 1 if self.stage.repeats else 4 if self.stage.registers <= 2 else 2
        begin = work.begin * inner // self.lanes
        end = (work.end * inner + (self.lanes - 1)) // self.lanes
        middle = fields.start.maximum(begin), fields.stop.minimum(end)
        with function.loop(0, work.outer, count) as block:
            lines = [(block.index + k).minimum(work.outer - 1) for k in range(count)]
            sources = [work.source.at((line * work.n - work.base) * inner) for line in lines]
            outputs = work.end - work.begin
            targets = [work.target.at((line * outputs - work.begin) * inner) for line in lines]
            with function.loop(begin, fields.start.minimum(end)) as group:
                tables = self.tables(group.index)
                self.sum_group(group.index, tables, sources, targets, full=False)
            first = self.tables(fields.start) if self.stage.repeats else None
            with function.loop(*middle) as group:
                tables = first or self.tables(group.index)
                if self.stage.repeats:
                    shift = (group.index - fields.start) * fields.step
                    tables = tables._replace(begin=tables.begin + shift)
                self.sum_group(group.index, tables, sources, targets, full=True)
            with function.loop(fields.stop.maximum(begin), end) as group:
                tables = self.tables(group.index)
                if self.stage.repeats:
                    skipped = fields.stop - fields.start - 1
                    tables = self.tables(group.index - skipped)
                    tables = tables._replace(begin=tables.begin + skipped * fields.step)
                self.sum_group(group.index, tables, sources, targets, full=False)

    def tables(self, group: Value) -> Tables:
        """Read the tables of a group."""
        fields, lanes, stage = self.fields, self.lanes, self.stage
        begin, row = (fields.groups.load(group * 2 + k) for k in range(2))
        places, weights = (
            fields.places.at(row * (2 * lanes)),
            fields.picked.at(row * (stage.taps * lanes)),
        )
        first, count = (places.load(k, lanes) for k in (0, lanes))
        return Tables(
            begin, first, count, [weights.load(t * lanes, lanes) for t in range(stage.taps)]
        )

    def sum_group(
        self,
        group: Value,
        tables: Tables,
        sources: Sequence[Pointer],
        targets: Sequence[Pointer],
        full: bool,
    ) -> None:
        """Compute a group of each line; ``full`` if all lanes have all taps."""
        windows = [
            [
                source.load(tables.begin + k * self.lanes, self.lanes).to(self.sums)
                for k in range(self.stage.registers)
            ]
            for source in sources
        ]
        for window, target in zip(windows, targets, strict=True):
            if self.stage.copies:
                result = pick(window, tables.first).to(target.kind)
            else:
                result = self.stored(self.sum_window(window, tables, full))
            self.store(result, target, group)

    def sum_window(self, window: Sequence[Value], tables: Tables, full: bool) -> Value:
        """Return the sums of a group's lanes."""
        total = window[0].like(0)
        for tap, weight in enumerate(tables.weights):
            added = total + pick(window, tables.first + tap * self.stage.inner) * weight
            total = added if full else (tables.counts > tap).select(added, total)
        return total

    def store(self, total: Value, target: Pointer, group: Value) -> None:
        """Store a group; the last one begins in the one before, which may be another task's."""
        function, lanes = self.function, self.lanes
        begin = group * lanes
        place = begin.minimum(self.fields.outputs * self.stage.inner - lanes)
        if not self.stage.leading:
            target.store(total, place)
            return
        with function.when(place == begin):
            target.store(total, place)
        with function.when(place != begin, rare=True):
            memory = function.spill(total)
            with function.loop(begin - place, lanes) as lane:
                target.store(memory.load(lane.index), place + lane.index)


class TransposedForm(Form):
    """Lanes are lines: number k of each is in row k of scratch memory."""

    def __init__(
        self, function: Function, stage: Stage, fields: SimpleNamespace, work: Work
    ) -> None:
        super().__init__(function, stage, fields, work)
        self.wide = stage.registers * self.lanes
        self.before, self.after = (
            work.scratch.at(at).cast(self.sums) for at in (fields.before, fields.after)
        )
        self.source_offsets, self.target_offsets = (
            function.scratch("int64", self.wide) for _ in range(2)
        )

    def write(self) -> None:
        """Transpose a few lines, sum them together, and transpose the results."""
        function, fields, work, inner = self.function, self.fields, self.work, self.fields.inner
        step = inner * self.wide
        with function.loop(0, work.outer, self.wide) as group:
            self.locate(group.index)
            with function.loop(work.begin, work.end, fields.chunk) as chunk:
                begin, end = chunk.index, (chunk.index + fields.chunk).minimum(work.end)
                low = fields.first.load(begin)
                high = fields.first.load(end - 1) + fields.count.load(end - 1)
                self.read_lines((low - work.base) * inner, (high - work.base) * inner)
                with function.loop(begin, end) as output:
                    first = fields.first.load(output.index) - low
                    target = self.after.at((output.index - begin) * step)
                    source = self.before.at(first * step)
                    self.sum_lines(output.index, source, step, self.blocks, target.store)
                self.write_lines((begin - work.begin) * inner, (end - begin) * inner)

    def locate(self, first: Value) -> None:
        """Store where the lines of a group begin; it repeats the last line if there are too few."""
        function, work, inner = self.function, self.work, self.fields.inner
        lane = function.vector(range(self.wide), "int64")
        line = (lane + first).minimum(work.outer - 1)
        self.source_offsets.store(line * (work.n * inner), aligned=True)
        self.target_offsets.store(line * ((work.end - work.begin) * inner), aligned=True)

    def blocks(self) -> Iterator[tuple[list[Value], int]]:
        """Yield where the registers of a row of scratch memory begin, and their lanes."""
        function, wide = self.function, self.wide
        if self.stage.inner:
            yield [function.as_index(k * wide) for k in range(self.stage.inner)], wide
            return
        with function.loop(0, self.fields.inner * wide, wide) as loop:
            yield [loop.index], wide

    def read_lines(self, start: Value, stop: Value) -> None:
        """Read the numbers from ``start`` to ``stop`` of each line, as rows."""
        function, lanes = self.function, self.lanes
        for k, size in transposing.blocks(function, start, stop, lanes):
            with function.loop(0, self.wide, lanes) as line:
                memory, offsets = self.work.source.at(k), self.source_offsets.at(line.index)
                rows = transposing.read_block(memory, offsets, size, lanes)
                for j, row in enumerate(rows):
                    self.before.store(row.to(self.sums), (k + j - start) * self.wide + line.index)

    def write_lines(self, start: Value, count: Value) -> None:
        """Write ``count`` rows to the lines, from number ``start`` on."""
        function, lanes = self.function, self.lanes
        for k, size in transposing.blocks(function, count * 0, count, lanes):
            with function.loop(0, self.wide, lanes) as line:
                rows = [
                    self.stored(self.after.load((k + j) * self.wide + line.index, lanes))
                    for j in range(size)
                ]
                memory, offsets = self.work.target.at(start + k), self.target_offsets.at(line.index)
                transposing.write_block(memory, offsets, rows)


FORMS = {
    "rows": RowForm,
    "picked": PickedForm,
    "transposed": TransposedForm,
}
