"""The program of the B-spline prefilter: it filters many lines of an array at a time.

Lines are taken in groups, one line for each lane.  A group is processed in scratch memory, where
row k holds the entries k of all its lines: rows are loaded, corrected, run through the recursions,
and stored.  So the recursions, each of whose steps waits for the one before, are the same for every
memory layout.  Only loading and storing differ:

    contiguous lines   blocks of lines and entries are transposed in registers
    contiguous rows    neighbouring lanes are neighbours in memory, and rows are read as they are
    anything else      each number is read on its own

The second and third may change from group to group, and the machine code decides.

A line may also be one of several overlapping windows of a longer line (`windows` in the settings),
so that few long lines fill all lanes.  Entries near the ends of a window are wrong, and are not
stored.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import NamedTuple

from gridsample.kernels import transposing
from gridsample.kernels.run import entry
from gridsample.kernels.vector import (
    Function,
    Program,
    Record,
    Value,
    compile,
    host,
)


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        source: the dtype that is read, as the vector language names it.
        real: "float32" or "float64", the dtype of sums and of the result.
        loads_lines: whether the source's lines are contiguous.
        stores_lines: whether the target's lines are contiguous.
        registers: how many registers hold an entry of each line of a group.
    """

    source: str
    real: str
    loads_lines: bool
    stores_lines: bool
    registers: int

    @property
    def lanes(self) -> int:
        """The number of lines of a group."""
        return self.registers * host().lanes(self.real)


def settings(real: str) -> Record:
    """Return the layout of the settings for a dtype of sums."""
    return Record(
        groups="int64",
        share="int64",  # groups of lines; those of each task
        lines="int64",  # windows count as lines
        count="int64",  # the entries of a line
        low="int64",
        high="int64",  # the entries that every window stores
        windows="int64",  # the windows of each longer line
        source_step="int64",
        target_step="int64",  # between the entries of a line
        source_window="int64",
        target_window="int64",  # between windows of a line
        axes="int64",
        strides="*int64",  # the other axes: (size, source stride, target stride)
        gain="float64",
        before="float64",
        after="float64",  # see `splines.Design`
        poles="int64",
        roots=f"*{real}",
        bounds="*int64",
        places="*int64",
        weights=f"*{real}",
        corrected="int64",
        corrected_after="int64",
        changed="*int64",
    )


@functools.lru_cache(maxsize=256)
def compiled(description: Description) -> Program:
    """Compile the program for a description."""
    real = description.real
    function = Function(f"spline_{description.source}_{real}", description.lanes, real)
    memory = "uint8" if description.source == "bool" else description.source
    arrays = {"source": memory, "target": real}
    with entry(function, arrays, settings(real)) as (task, call):
        first = task * call.share
        last = (first + call.share).minimum(call.groups)
        with function.loop(first, last) as loop:
            group = Group(function, call, loop.index)
            group.load(description.loads_lines, description.source == "bool")
            group.scale_ends(call.before)
            group.correct()
            group.filter()
            group.correct_transposed()
            group.scale_ends(call.after)
            group.store(description.stores_lines)
    return compile(function, reduces_strength=False)


class Group:
    """A group of lines: where they are in memory, and their rows in scratch memory."""

    def __init__(self, function: Function, call: SimpleNamespace, number: Value) -> None:
        self.function, self.call = function, call
        self.lanes, self.width = function.lanes, host().lanes(function.real.name)
        self.rows = call.scratch.cast(function.real)
        self.side = self.rows.at(call.count * self.lanes)  # for corrections
        self.source_at, self.target_at, self.window = (
            function.scratch("int64", self.lanes) for _ in range(3)
        )
        self.loads_rows, self.stores_rows = self.locate(number)

    def locate(self, number: Value) -> list[Value]:
        """Store each line's offsets in the source and in the target, and its window.

        The last group repeats the last line.

        Returns:
            Whether the lines of each register are contiguous in the source, and in the target.
        """
        function, call, width = self.function, self.call, self.width
        across = function.vector(range(width), "int64")
        first = number * self.lanes
        yes = function.constant(True, "bool")
        with function.loop(0, self.lanes, width, carry=[yes, yes]) as part:
            line = across + (first + part.index)
            line = (line < call.lines).select(line, call.lines - 1)
            window, *places = self.offsets(line)
            self.window.store(window, part.index)
            for memory, offsets in zip((self.source_at, self.target_at), places, strict=True):
                memory.store(offsets, part.index)
            part.carry(
                *[
                    before & (offsets == across + offsets[0]).all()
                    for before, offsets in zip(part.carried, places, strict=True)
                ]
            )
        return part.carried

    def offsets(self, line: Value) -> tuple[Value, Value, Value]:
        """Return the windows of some lines, and their offsets in the source and in the target."""
        function, call = self.function, self.call
        zero = function.constant(0, "int64", line.lanes)
        with function.loop(0, call.axes, carry=[line, zero, zero]) as loop:
            line, source, target = loop.carried
            axis = call.strides.at(loop.index * 3)
            size = axis.load(0)
            rest = line // size
            index = line - rest * size
            loop.carry(rest, source + index * axis.load(1), target + index * axis.load(2))
        window, source, target = loop.carried
        return window, source + window * call.source_window, target + window * call.target_window

    # Rows -----------------------------------------------------------------------------------------

    def row(self, k: Value) -> Value:
        """The entries k of all lines."""
        entries: Value = self.rows.load(k * self.lanes, self.lanes)
        return entries

    def set_row(self, k: Value, value: Value) -> None:
        """Set the entries k of all lines."""
        self.rows.store(value, k * self.lanes)

    def scale_ends(self, factor: Value) -> None:
        """Multiply the first and the last entry."""
        factor = factor.to(self.function.real)
        with self.function.when(factor != 1.0):
            for k in (self.call.count * 0, self.call.count - 1):
                self.set_row(k, self.row(k) * factor)

    def sum(self, number: Value, first: Value) -> Value:
        """Add the weighted sum of this number (`splines.Sums`) to some values."""
        call = self.call
        start, stop = call.bounds.load(number), call.bounds.load(number + 1)
        with self.function.loop(start, stop, carry=[first]) as term:
            entries = self.row(call.places.load(term.index))
            term.carry(term.carried[0] + entries * call.weights.load(term.index))
        return term.carried[0]

    def correct(self) -> None:
        """Add weighted sums of all entries to a few; the sums are those before any changes."""
        function, call, lanes = self.function, self.call, self.lanes
        with function.loop(0, call.corrected) as loop:
            entries = self.row(call.changed.load(loop.index))
            self.side.store(self.sum(call.poles * 2 + loop.index, entries), loop.index * lanes)
        with function.loop(0, call.corrected) as loop:
            k = call.changed.load(loop.index)
            self.set_row(k, self.side.load(loop.index * lanes, lanes))

    def correct_transposed(self) -> None:
        """Apply the transpose of `correct`."""
        function, call, lanes = self.function, self.call, self.lanes
        with function.loop(0, call.corrected_after) as loop:
            entries = self.row(call.changed.load(loop.index))
            self.side.store(entries, loop.index * lanes)
        with function.loop(0, call.corrected_after) as loop:
            entries = self.side.load(loop.index * lanes, lanes)
            number = call.poles * 2 + loop.index
            start, stop = call.bounds.load(number), call.bounds.load(number + 1)
            with function.loop(start, stop) as term:
                k = call.places.load(term.index)
                self.set_row(k, self.row(k) + entries * call.weights.load(term.index))

    def filter(self) -> None:
        """Run both recursions, for each pole."""
        function, call, count = self.function, self.call, self.call.count
        zero = function.constant(0.0, function.real, self.lanes)
        with function.loop(0, call.poles) as pole:
            z = call.roots.load(pole.index).splat(self.lanes)
            first = self.sum(pole.index * 2, zero)
            self.set_row(count * 0, first)
            with function.loop(1, count, carry=[first]) as loop:
                entries = self.row(loop.index) + z * loop.carried[0]
                self.set_row(loop.index, entries)
                loop.carry(entries)
            last, minus = self.sum(pole.index * 2 + 1, zero), -z
            self.set_row(count - 1, last)
            with function.loop(1, count, carry=[last]) as loop:
                k = count - 1 - loop.index
                # The product with the entries does not wait for the step before.
                entries = minus * self.row(k) + z * loop.carried[0]
                self.set_row(k, entries)
                loop.carry(entries)

    # Memory ---------------------------------------------------------------------------------------

    def load(self, lines: bool, is_bool: bool) -> None:
        """Read all entries, convert them, and multiply them by the gain."""
        call, function, width = self.call, self.function, self.width
        gain = call.gain.to(function.real)

        def converted(values: Value) -> Value:
            values = values != 0 if is_bool else values
            numbers: Value = values.to(gain.kind) * gain
            return numbers

        if lines:
            for k, size in transposing.blocks(function, call.count * 0, call.count, width):
                with function.loop(0, self.lanes, width) as part:
                    memory, offsets = call.source.at(k), self.source_at.at(part.index)
                    rows = transposing.read_block(memory, offsets, size, width)
                    for j, row in enumerate(rows):
                        self.rows.store(converted(row), (k + j) * self.lanes + part.index)
            return
        with function.when(self.loads_rows), function.loop(0, call.count) as loop:
            row = call.source.at(loop.index * call.source_step)
            for lane in range(0, self.lanes, width):
                values = row.load(self.source_at.load(lane), width)
                self.rows.store(converted(values), loop.index * self.lanes + lane)
        with function.when(~self.loads_rows), function.loop(0, call.count) as loop:
            row = call.source.at(loop.index * call.source_step)
            with function.loop(0, self.lanes, width) as part:
                at = self.source_at.at(part.index)
                values = row.load_each([at.load(lane) for lane in range(width)])
                self.rows.store(converted(values), loop.index * self.lanes + part.index)

    def store(self, lines: bool) -> None:
        """Write the entries that each window stores."""
        call, function, width = self.call, self.function, self.width
        if lines:
            for k, size in transposing.blocks(function, call.low, call.high, width):
                with function.loop(0, self.lanes, width) as part:
                    first = self.rows.at(k * self.lanes + part.index)
                    rows = [first.load(j * self.lanes, width) for j in range(size)]
                    offsets = self.target_at.at(part.index)
                    transposing.write_block(call.target.at(k), offsets, rows)
        else:
            with function.when(self.stores_rows), function.loop(call.low, call.high) as loop:
                row = call.target.at(loop.index * call.target_step)
                for lane in range(0, self.lanes, width):
                    entries = self.rows.load(loop.index * self.lanes + lane, width)
                    row.store(entries, self.target_at.load(lane))
            with function.when(~self.stores_rows), function.loop(call.low, call.high) as loop:
                row = call.target.at(loop.index * call.target_step)
                with function.loop(0, self.lanes, width) as part:
                    at = self.target_at.at(part.index)
                    entries = self.rows.at(loop.index * self.lanes + part.index)
                    for lane in range(width):
                        row.store(entries.load(lane), at.load(lane))
        with function.when(call.windows > 1):
            self.store_ends()

    def store_ends(self) -> None:
        """Write the first entries of the first windows, and the last entries of the last."""
        call, function = self.call, self.function
        with function.loop(0, self.lanes) as lane:
            window = self.window.load(lane.index)
            line = call.target.at(self.target_at.load(lane.index))
            first = (window == 0).select(function.as_index(0), call.low)
            last = (window == call.windows - 1).select(call.count, call.high)
            for start, stop in ((first, call.low), (call.high, last)):
                with function.loop(start, stop) as loop:
                    entry = self.rows.load(loop.index * self.lanes + lane.index)
                    line.store(entry, loop.index * call.target_step)
