"""The forms of a stage, which resizes one axis: (outer, n, inner) to (outer, outputs, inner).

rows      `inner` is long: lanes are neighbours in a row, and all have the same weights
periods   weights repeat from register to register: lanes are neighbours in a line
pixels    `inner` is 4, the channels of a pixel: lanes are the pixels of a few lines
transposed   `inner` is short: lanes are lines, which are transposed before and after
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from gridsample.kernels import transposing
from gridsample.kernels.vector import Function, Kind, Pointer, Value, joined

# The registers of a block of a row.
WIDE = 4
# The numbers of a row that are processed before the next output.
PART_OF_ROW = 8192


class Stage(NamedTuple):
    """What a stage is compiled for.

    Attributes:
        form: "rows", "periods", "pixels" or "transposed".
        leading: whether it resizes the first axis, of which a piece may have a part.
        taps: the number of inputs of most outputs if it is small, otherwise 0; of weights that
            repeat, it is 0 if outputs are copies.
        inner: the contiguous numbers at each place of the axis if they are few, otherwise 0.
        registers: how many registers hold a number of each line that is transposed.
        period, places, window: of weights that repeat; see `periodic.Pattern`.
    """

    form: str
    leading: bool
    taps: int
    inner: int = 0
    registers: int = 1
    period: int = 1
    places: tuple[int, ...] = ()
    window: int = 0


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
        kind, shift = self.work.target.kind, self.fields.shift
        if self.sums.is_integer:
            unit = self.function.constant(1, "int64")
            half = (unit << (shift - 1)).to(self.sums)
            total = (total + half) >> shift.to(self.sums)
            return total.maximum(0).minimum((1 << kind.bits) - 1).to(kind)
        return total.round_to(kind)

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
        whole = length // width * width
        with self.function.loop(0, whole, width) as loop:
            yield [loop.index], width
        with self.function.loop(whole, length, self.lanes) as loop:
            yield [loop.index.minimum(length - self.lanes)], self.lanes


class PixelForm(Form):
    """Lanes are a few lines times the numbers of a pixel, of which a register has a multiple."""

    def write(self) -> None:
        """Sum pixels of a few lines together, for each output."""
        function, work, inner = self.function, self.work, self.stage.inner
        outputs, rows = work.end - work.begin, self.lanes // inner
        with function.loop(0, work.outer, rows) as group:
            lines = [(group.index + k).minimum(work.outer - 1) for k in range(rows)]
            sources = [work.source.at((line * work.n - work.base) * inner) for line in lines]
            targets = [work.target.at((line * outputs - work.begin) * inner) for line in lines]
            with function.loop(work.begin, work.end) as output:
                total = self.sum_pixels(output.index, sources)
                for k, target in enumerate(targets):
                    pixel = total.shuffle(range(k * inner, (k + 1) * inner))
                    target.store(pixel, output.index * inner)

    def sum_pixels(self, i: Value, sources: Sequence[Pointer]) -> Value:
        """Return output i of some lines, side by side."""
        weights, inner = self.weights(i), self.stage.inner
        first, taps = self.fields.first.load(i) * inner, self.fields.count.load(i)

        def read(tap: Any) -> list[Value]:
            place = first + inner * tap
            return [joined([source.load(place, inner) for source in sources])]

        def by_any() -> list[Value]:
            return self.sum_any(read, weights, taps, [self.lanes])

        if not self.stage.taps:
            return self.stored(by_any()[0])
        usual = taps == self.stage.taps
        few = functools.partial(self.sum_few, read, weights)
        return self.stored(self.function.choose(usual, few, by_any, likely=True)[0])


class PeriodForm(Form):
    """Lanes are neighbouring numbers of a line whose weights repeat from register to register.

    The inputs of a register lie at the same places of a window, from which constant shuffles pick
    them.  The other outputs are summed one by one.
    """

    def write(self) -> None:
        """Write a line: registers in the middle, and the outputs before and after them."""
        function, work, fields, inner = self.function, self.work, self.fields, self.stage.inner
        period, pixels = self.stage.period, self.lanes // inner
        stride = pixels // period  # of registers, in periods
        skipped = ((work.begin - fields.start).maximum(0) + (period - 1)) // period
        begin = (fields.start + skipped * period).minimum(work.end)
        # A register stores whole pixels, or a part of the next one, too.
        end = (work.end - 1 if self.lanes % inner else work.end).minimum(fields.stop)
        most = (end - begin - (pixels - period)).maximum(0) // period
        with function.loop(0, work.outer) as line:
            source = work.source.at((line.index * work.n - work.base) * inner)
            outputs = work.end - work.begin
            target = work.target.at((line.index * outputs - work.begin) * inner)
            # It also reads its whole window, perhaps beyond the line.
            numbers = work.base + (work.outer - line.index) * work.n - fields.origin
            room = numbers * inner - self.stage.window
            windows = (room.maximum(0) // (fields.step * inner) - skipped).maximum(-1) + 1
            windows = (room >= 0).select(windows.minimum(most), 0)
            last = (windows > 0).select(windows + (stride - 1), 0)
            with function.loop(0, last, stride) as loop:
                number = loop.index.minimum(windows - 1)
                window = (skipped + number) * fields.step + fields.origin
                total = self.sum_window(source.at(window * inner))
                target.store(total, (begin + number * period) * inner)
            middle = begin + (windows > 0).select((windows - 1) * period + pixels, 0)
            for outputs_at_end in ((work.begin, begin), (middle, work.end)):
                with function.loop(*outputs_at_end) as loop:
                    self.sum_numbers(source, target, loop.index)

    def sum_window(self, window: Pointer) -> Value:
        """Return a register of results."""
        lanes, size = self.lanes, self.stage.window
        starts = [min(k, size - lanes) for k in range(0, size, lanes)]
        numbers = [window.load(start, lanes) for start in starts]
        if not self.stage.taps:
            return self.picked(numbers, starts, 0)
        numbers = [register.to(self.sums) for register in numbers]
        total = numbers[0].like(0)
        for tap in range(self.stage.taps):
            weights = self.fields.period.load(tap * lanes, lanes)
            total = total + self.picked(numbers, starts, tap) * weights
        return self.stored(total)

    def picked(self, numbers: list[Value], starts: list[int], tap: int) -> Value:
        """Return the inputs of a tap, from registers that begin at ``starts`` in the window."""
        places = [place + tap * self.stage.inner for place in self.stage.places]
        registers = [place // self.lanes for place in places]
        low, high = min(registers), max(registers) + 1
        count = 1 << (high - low - 1).bit_length()
        joined_numbers = joined([*numbers[low:high], *[numbers[low]] * (count - high + low)])
        return joined_numbers.shuffle(
            [
                (k - low) * self.lanes + place - starts[k]
                for k, place in zip(registers, places, strict=True)
            ]
        )

    def sum_numbers(self, source: Pointer, target: Pointer, i: Value) -> None:
        """Compute output i of a line, number by number."""
        fields, inner = self.fields, self.stage.inner
        number = ((i - fields.start).maximum(0) // self.stage.period).minimum(fields.skipped)
        row = i - number * self.stage.period
        first = fields.first.load(row) + number * fields.step
        for k in range(inner):
            begin = source.at(first * inner + k)

            def read(tap: Any, begin: Pointer = begin) -> list[Value]:
                return [begin.load(inner * tap)]

            if not self.stage.taps:
                target.store(begin.load(), i * inner + k)
                continue
            total = self.sum_any(read, self.weights(row), fields.count.load(row), [1])[0]
            target.store(self.stored(total), i * inner + k)


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
    "periods": PeriodForm,
    "pixels": PixelForm,
    "transposed": TransposedForm,
}
