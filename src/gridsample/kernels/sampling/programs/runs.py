"""Sampling the channels of a pixel together, where they are neighbours in memory: a *run*.

Lanes are channels, so that one load reads many of them, and offsets and weights are computed once
for all.  Pixels with few channels share a register:

    register, lane (p, c):  channel c of point p

The taps of a group are first listed in memory (`TapList`).  If all of them are in the image, and
reading a whole number of lanes touches nothing else, the points are then taken several at a time,
otherwise one by one.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.counting import CountedPixels, Counting
from gridsample.kernels.sampling.programs.gather import Gather
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.interleaving import interleave
from gridsample.kernels.sampling.programs.loads import load_words
from gridsample.kernels.sampling.programs.sampler import Description, Sampler
from gridsample.kernels.sampling.programs.states import State, value_of
from gridsample.kernels.sampling.programs.sums import (
    WRITTEN_OUT,
    Registers,
    added,
    no_pixel,
    with_product,
)
from gridsample.kernels.sampling.programs.tap_lists import TapList, inside, list_taps
from gridsample.kernels.sampling.programs.ways import Copies
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value, joined, kind_of

Order = tuple[int, ...]


class Run(NamedTuple):
    """How runs fill registers.

    Attributes:
        channels: the channels that are read at a time: all of them, or a multiple of the lanes.
        lanes: the lanes of a register.
        row: how many neighbouring pixels are read together: all taps along x, or 1.
    """

    channels: int
    lanes: int
    row: int = 1

    @property
    def length(self) -> int:
        """The lanes of a point in a register: a power of two."""
        return min(self.lanes, 1 << (self.channels * self.row - 1).bit_length())

    @property
    def points(self) -> int:
        """The points of a register."""
        return self.lanes // self.length

    @property
    def registers(self) -> int:
        """The registers that are read at a time, of one point if there are several."""
        return max(1, self.channels // self.lanes)

    @property
    def exact(self) -> bool:
        """Whether a load of all lanes of a point reads nothing else."""
        return self.channels * self.row % self.length == 0

    @property
    def kept(self) -> int:
        """The channels of a point in a register."""
        return min(self.channels, self.length)

    # Memory ---------------------------------------------------------------------------------------

    def load_exactly(self, memory: Pointer) -> list[Value]:
        """Read the channels of one pixel and nothing else, in registers that have no other lane."""
        return [memory.load(part, self.kept) for part in range(0, self.channels, self.kept)]

    def load(self, memory: Pointer, index: int | Value = 0) -> list[Value]:
        """Read the channels of one pixel and nothing else."""
        parts, rest = self.load_exactly(memory.at(index)), self.length - self.kept
        # Means branch on further lanes.  They are frozen, as LLVM gave every channel the fill of
        # the first where they repeated a channel.
        return [widened(part, [None] * rest).freeze() for part in parts] if rest else parts

    def load_points(
        self, memory: Pointer, places: Callable[[Value], Value], lane: Value, points: int,
        packed: bool,
    ) -> list[Value]:  # fmt: skip
        """Read the values of a register of points, or of one point; the reverse of `store`."""
        if points == 1:
            return self.load(memory.at(places(lane)))
        if not packed:
            parts = [self.load(memory.at(places(lane + p)))[0] for p in range(points)]
            return [joined(parts)]
        numbers = memory.load(places(lane), points * self.kept)
        lanes = [
            p * self.kept + min(c, self.kept - 1) for p in range(points) for c in range(self.length)
        ]
        return [shortened(numbers, lanes)]

    def load_all(self, memory: Pointer, offsets: Sequence[Value]) -> list[Value]:
        """Read the rows of a register of points; what lies beyond them may be read, too."""
        if len(offsets) == 1:
            first = memory.at(offsets[0])
            return [first.load(r * self.lanes, self.length) for r in range(self.registers)]
        bits = memory.kind.bits * self.length
        if bits <= 64 and memory.kind.bits < 64:
            words = load_words(memory, offsets, kind_of(f"uint{bits}"))
            return [words.bitcast(memory.kind)]
        return [joined([memory.load(offset, self.length) for offset in offsets])]

    def store(
        self, registers: Sequence[Value], target: Pointer, places: Callable[[Value], Value],
        lane: Value, packed: bool,
    ) -> None:  # fmt: skip
        """Write the channels of a register of points, or of one point.

        Args:
            registers: the registers.
            target: the memory of the channels.
            places: returns the place of a point's results.
            lane: the first point.
            packed: whether there are no gaps between the results of points.
        """
        points = registers[0].lanes // self.length
        begins = [p * self.length for p in range(points)]
        if packed and points > 1:
            picked = [begin + c for begin in begins for c in range(self.kept)]
            target.store(shortened(registers[0], picked), places(lane))
            return
        for point, begin in enumerate(begins):
            home = target.at(places(lane + point))
            for r, register in enumerate(registers):
                picked = [begin + c for c in range(self.kept)]
                home.store(shortened(register, picked), r * self.lanes)

    # Registers ------------------------------------------------------------------------------------

    def repeat_for_channels(self, numbers: Pointer, lane: Value, points: int) -> Value:
        """Repeat the numbers of the points from ``lane`` on for all their lanes."""
        if points == 1:
            return numbers.load(lane).splat(self.length)
        return numbers.load(lane, points).shuffle(
            [p for p in range(points) for _ in range(self.length)]
        )

    def repeat_for_rows(self, numbers: Pointer, lane: Value, width: int) -> Value:
        """Repeat numbers of the pixels of rows, ``width`` of each point, for all their channels."""
        points, length = range(self.points), range(self.length)
        picked = [p * width + min(k // self.channels, self.row - 1) for p in points for k in length]
        return numbers.load(lane * width, self.points * width).shuffle(picked)

    def sum_rows(self, register: Value) -> Value:
        """Sum the pixels of each row, in the order of `sum_columns`."""
        left = self.row
        while left % 2 == 0:
            left //= 2
            register = register + shifted(register, left * self.channels)
        return functools.reduce(
            operator.add, [shifted(register, k * self.channels) for k in range(left)]
        )


def sum_columns(columns: Sequence[Value]) -> Value:
    """Sum the columns of rows: halves first, as lanes of a register are summed."""
    while len(columns) % 2 == 0:
        half = len(columns) // 2
        columns = [*map(operator.add, columns[:half], columns[half:])]
    return functools.reduce(operator.add, columns)


def shifted(value: Value, by: int) -> Value:
    """Move lanes down; those at the end become any numbers."""
    rest: list[int | None] = [None] * by
    return value.shuffle([*range(by, value.lanes), *rest]) if by else value


def widened(value: Value, rest: list[int | None]) -> Value:
    """Append lanes with any numbers."""
    return value.shuffle([*range(value.lanes), *rest]) if rest else value


def shortened(value: Value, lanes: Sequence[int]) -> Value:
    """Pick lanes, unless they are all."""
    return value if [*lanes] == [*range(value.lanes)] else value.shuffle(lanes)


class Block(NamedTuple):
    """Channels that are processed at a time.

    Attributes:
        first: the first.
        overlap: how many of them are in the block before, too; None if none ever is.
    """

    first: int | Value
    overlap: Value | None


class Choice(NamedTuple):
    """The taps of a group of points.

    Attributes:
        inside: whether points may be taken together; a condition with one lane.
        together: lists the taps, or rows of them, for that.
        alone: lists the taps to take the points one by one.
    """

    inside: Value
    together: Callable[[], TapList]
    alone: Callable[[], TapList]


def run_for(description: Description, lanes: int) -> Run:
    """Return how runs fill the registers of a program."""
    channels, taps = description.known.channels, description.axes[0].method.taps
    joins = description.known.x_contiguous and len(description.axes) > 1
    joins &= description.way is not Copies and channels * taps <= lanes
    joins &= not description.axes[0].single
    # Weights of pixels belong to taps, not to rows.
    joins &= not description.tap_rule.differ
    return Run(channels, lanes, taps if joins else 1)


def list_bytes(description: Description, lanes: int, orders: int) -> int:
    """Return the bytes of a list of taps with weights for so many orders of derivatives."""
    known = description.known
    if known.channels == 1 or known.words:
        return 0
    taps = math.prod(rule.method.taps for rule in description.axes)
    offset = 8 if known.wide else 4
    return taps * lanes * (kind_of(description.real).size * orders + offset)


class Runs:
    """Lists the taps of groups, and sums runs over them.

    Attributes:
        run: how runs fill registers.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler, self.function, self.call = sampler, sampler.function, sampler.call
        self.run = run_for(sampler.description, self.function.lanes)
        self.last = None if self.run.exact else self.call.last_load.to(sampler.offset_kind)

    def taps(
        self, state: State, orders: Sequence[Order], counting: Counting | None = None
    ) -> Choice:
        """List the taps of a group, with weights for these orders of derivatives."""
        sampler, memory, begin = self.sampler, self.call.scratch, value_of(state.offset)
        if isinstance(sampler, Copies):
            fit = inside(None, sampler.taps(state, 0), self.last, self.function)
            listed = TapList(1, 1, state.first.in_memory(), {}, fit)
            return Choice(fit, lambda: listed, lambda: listed)
        max_order = max(map(max, orders))
        if self.run.row == 1:
            taps = sampler.taps(state, max_order)
            listed = list_taps(memory, begin, taps, orders, self.last, counting)
            return Choice(listed.inside, lambda: listed, lambda: listed)
        rows, all_inside = sampler.neighbours(state, max_order)
        conditions = [inside(begin, [rows[0][:1], *rows[1:]], self.last, self.function), all_inside]
        conditions += [tap.present.all() for tap in rows[0] if tap.present is not None]
        return Choice(
            functools.reduce(operator.and_, conditions),
            lambda: self.list_rows(state, rows, orders),
            lambda: list_taps(memory, begin, sampler.taps(state, max_order), orders, self.last),
        )

    def list_all(self, state: State, orders: Sequence[Order]) -> TapList:
        """List the taps of a group to add to them."""
        taps = self.sampler.taps(state, max(map(max, orders)))
        return list_taps(self.call.scratch, value_of(state.offset), taps, orders, None)

    def list_rows(
        self, state: State, taps: Sequence[Sequence[Tap]], orders: Sequence[Order]
    ) -> TapList:
        """List rows of neighbouring pixels of the image."""
        function, lanes = self.function, self.function.lanes
        begin = added(value_of(state.offset), taps[0][0].offset)
        outer = [*dict.fromkeys(order[1:] for order in orders)]
        listed = list_taps(self.call.scratch, begin, taps[1:], outer, None)
        across = []
        for n in range(max(order[0] for order in orders) + 1):
            columns = [tap.weights[n].splat(lanes) for tap in taps[0]]
            columns += columns[:1] * (self.width - len(columns))
            memory = function.scratch(function.real, self.width, lanes)
            for k, mixed in enumerate(interleave(columns)):
                memory.store_in_parts(mixed, k * lanes)
            across.append(memory)
        return listed._replace(across=tuple(across))

    @property
    def width(self) -> int:
        """The distance between the weights along x of points: a power of two."""
        return 1 << (self.run.row - 1).bit_length()

    @contextlib.contextmanager
    def blocks(self, count: Value) -> Iterator[Block]:
        """Loop over the blocks of ``count`` channels; the last one may overlap the one before."""
        if self.run.channels < self.run.lanes:
            yield Block(0, None)
            return
        with self.function.loop(0, count, self.run.channels) as loop:
            first = loop.index.minimum(count - self.run.channels)
            yield Block(first, loop.index - first if self.run.registers == 1 else None)

    def again(self, block: Block) -> Value | None:
        """Whether the lanes of a block are not in the one before; None if all are not."""
        if block.overlap is None:
            return None
        return self.function.vector(range(self.run.lanes), "int32") >= block.overlap.to("int32")

    def counted(self, block: Block, points: int) -> Value | None:
        """Whether lanes are channels that the block before has not; None if all are."""
        run = self.run
        if run.kept == run.length:
            return self.again(block)
        lanes = [c < run.kept for _ in range(points) for c in range(run.length)]
        return self.function.vector(lanes, "bool")

    def sum(
        self, taps: TapList, orders: Sequence[Order], memory: Pointer, lane: Value,
        dropped: Sequence[Value] | None = None, counting: CountedPixels | None = None,
    ) -> Registers:  # fmt: skip
        """Sum the weighted pixels of all taps, for each order of derivatives.

        Args:
            taps: the taps.
            orders: the orders of derivatives; after the number of a pixel, if it has several.
            memory: the first channel of the image's first pixel.
            lane: the first of a register of points, all of whose taps are in the image.
            dropped: the values of dropped taps; then only one point is summed, wherever it is.
            counting: how pixels count, if not all alike.
        """
        if not taps.weights:
            return {(): self.read(taps, 0, memory, lane, dropped is not None)[0]}
        weights_of = self.weights_of(taps, orders, lane, dropped is not None)

        def add(totals: Registers, place: int | Value) -> Registers:
            pixels, present = self.read(taps, place, memory, lane, dropped is not None)
            pixels, sums = [pixel.to(self.function.real) for pixel in pixels], Registers()
            for order, weight in weights_of(place).items():
                values = pixels
                if present is not None and dropped is not None:
                    # A fill value of NaN must not count where the weight is 0.
                    fills = [(weight == 0.0).select(0.0, value) for value in dropped]
                    values = [present.select(*both) for both in zip(pixels, fills, strict=True)]
                if counting is None:
                    before = totals.get(order, [None] * len(values))
                    pairs = zip(before, values, strict=True)
                    sums[order] = [with_product(total, value, weight) for total, value in pairs]
                    continue
                for number, terms in counting.terms(values, weight, place, lane).items():
                    key = (*number, *order)
                    sums[key] = [*map(operator.add, totals[key], terms)] if totals else terms
            return sums

        return self.over_taps(taps, orders, add, alone=dropped is not None)

    def weights_of(
        self, taps: TapList, orders: Sequence[Order], lane: Value, alone: bool
    ) -> Callable[[int | Value], dict[Order, Value]]:
        """Return what reads the weights of a tap, or of a row of them, at a place in the list."""
        rank, points = len(self.sampler.axes), 1 if alone else self.run.points
        across = [self.run.repeat_for_rows(memory, lane, self.width) for memory in taps.across]

        def read(place: int | Value) -> dict[Order, Value]:
            weights = {
                order: self.run.repeat_for_channels(numbers.at(place), lane, points)
                for order, numbers in taps.weights.items()
            }
            if not across:
                return weights
            return {o: weights[o[1:]] * across[o[0]] for o in (order[-rank:] for order in orders)}

        return read

    def each_tap(
        self, taps: TapList, body: Callable[[int | Value], None], written_out: int
    ) -> None:
        """Run a body for each tap, given the place of its numbers in the list."""
        lanes = self.function.lanes
        if taps.taps <= written_out:
            for tap in range(taps.taps):
                body(tap * lanes)
            return
        with self.function.loop(0, taps.rows) as loop:
            for tap in range(taps.row):
                body((loop.index * taps.row + tap) * lanes)

    def over_taps(
        self, taps: TapList, keys: Sequence[Order],
        add: Callable[[Registers, int | Value], Registers], alone: bool,
    ) -> Registers:  # fmt: skip
        """Call ``add`` with the sums so far and the place of each tap's numbers in the list.

        The sums have these ``keys``.  There is a loop over the rows of many taps, or of those of a
        point ``alone``.  Where taps along x can be lanes of a register, their sums are added up in
        the end, so that the bits of a sample do not depend on how it was read.
        """
        function, lanes, each = self.function, self.function.lanes, self.run.registers
        columns = taps.row if alone and self.run.row > 1 else 1
        totals = [Registers() for _ in range(columns)]

        def add_taps(count: int, first: int | Value = 0) -> None:
            for k in range(count):
                totals[k % columns] = add(totals[k % columns], (first + k) * lanes)

        if taps.taps <= (1 if alone else WRITTEN_OUT):
            add_taps(taps.taps)
        else:
            width = self.run.length * (1 if alone else self.run.points)
            zero = function.constant(0.0, function.real, width)
            places = [(column, key) for column in range(columns) for key in keys]

            def unpack(values: Sequence[Value]) -> None:
                for k, (column, key) in enumerate(places):
                    totals[column][key] = [*values[k * each : (k + 1) * each]]

            with function.loop(0, taps.rows, carry=[zero] * (each * len(places))) as loop:
                unpack(loop.carried)
                add_taps(taps.row, loop.index * taps.row)
                loop.carry(*(value for column, key in places for value in totals[column][key]))
            unpack(loop.carried)
        if self.run.row == 1:
            return totals[0]
        if not alone:
            return {
                key: [self.run.sum_rows(register) for register in totals[0][key]] for key in keys
            }
        return {key: [sum_columns([total[key][0] for total in totals])] for key in keys}

    def read(
        self, taps: TapList, place: int | Value, memory: Pointer, lane: Value, alone: bool
    ) -> tuple[list[Value], Value | None]:
        """Read the pixels of a tap; of a point ``alone``, also return whether it is present."""
        offsets = taps.offsets.at(place)
        if not alone:
            places = [offsets.at(p).load(lane).to("int64") for p in range(self.run.points)]
            return self.run.load_all(memory, places), None
        offset = offsets.load(lane)
        present = offset != no_pixel(offset.kind)
        return self.run.load(memory.at(present.select(offset, 0))), present


class GatherRuns(Gather):
    """Writes the loops of a gather of runs."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.runs = Runs(self.sampler)
        self.orders = [(0,) * len(description.axes)]

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Sample the run that begins with a plane at the points of a strip."""
        function, call, run = self.function, self.call, self.runs.run
        source = self.image.plane(strip, plane)
        begin = call.out_planes.load(plane)
        with self.prefetch.groups(strip) as (number, group):
            state = self.states.load(number)
            taps = self.runs.taps(state, self.orders, self.counting(state, group, plane))
            places = self.points.place_of_value(group)
            marks = {"valid": state.valid}
            if state.outside is not None:
                marks["outside"] = state.outside
            usual = taps.inside & marks["valid"].all()
            if "outside" in marks:
                usual = usual & ~marks["outside"].any()

            packed = self.points.contiguous and not group.listed

            def together(packed: bool = packed) -> list[Value]:
                listed = taps.together()
                with (
                    function.loop(0, function.lanes, run.points) as loop,
                    self.runs.blocks(self.call.channels) as (first, _),
                ):
                    totals = self.totals(listed, source.at(first), loop.index, plane + first)
                    self.store(totals, begin + first, places, loop.index, packed)
                return []

            def point_by_point() -> list[Value]:
                notes = {k: function.spill(mark.to("int32")) for k, mark in marks.items()}
                listed = taps.alone()
                with (
                    function.loop(0, function.lanes) as loop,
                    self.runs.blocks(self.call.channels) as (first, _),
                ):
                    here, channel = source.at(first), plane + first
                    value = self.value_of_point(listed, here, loop.index, channel, notes)
                    self.store(value, begin + first, places, loop.index, False)
                return []

            def elsewhere() -> list[Value]:
                if "outside" not in marks:
                    return point_by_point()
                blank = functools.partial(self.store_outside, begin, plane, places, packed)
                return function.choose(
                    (marks["valid"] & marks["outside"]).all(), blank, point_by_point
                )

            function.choose(usual, together, elsewhere, likely=True)

    def store_outside(
        self, begin: Value, plane: Value, places: Callable[[Value], Value], packed: bool
    ) -> list[Value]:
        """Store the results of points that are all outside."""
        function, points = self.function, self.runs.run.points if packed else 1
        with (
            function.loop(0, function.lanes, points) as loop,
            self.runs.blocks(self.call.channels) as (first, _),
        ):
            fills = self.fills_of_run("outside", plane + first)
            values = [joined([fill] * points) for fill in fills] if points > 1 else fills
            self.store(values, begin + first, places, loop.index, packed)
        return []

    def counting(self, state: State, points: Strip | Group, plane: Value) -> Counting | None:
        """Return how the pixels of a run count; None if all count alike."""
        return None

    def store(
        self, results: Sequence[Value], begin: Value, places: Callable[[Value], Value],
        lane: Value, packed: bool,
    ) -> None:  # fmt: skip
        """Write the results of a register of points, or of one point; see `Run.store`."""
        target = self.call.out.at(begin)
        self.runs.run.store([*map(self.stored, results)], target, places, lane, packed)

    def value_of_point(
        self, taps: TapList, source: Pointer, lane: Value, plane: Value, notes: dict[str, Pointer]
    ) -> list[Value]:
        """Compute the result of one point, wherever it is."""
        dropped = self.fills_of_run("dropped", plane)
        values = self.totals(taps, source, lane, plane, dropped)
        if "outside" in notes:
            outside = notes["outside"].load(lane) != 0
            values = [*map(outside.select, self.fills_of_run("outside", plane), values)]
        valid = notes["valid"].load(lane) != 0
        return [*map(valid.select, values, self.fills_of_run("invalid", plane))]

    def totals(
        self, taps: TapList, source: Pointer, lane: Value, plane: Value,
        dropped: Sequence[Value] | None = None,
    ) -> list[Value]:  # fmt: skip
        """Sum the taps of a register of points, or of one point if there are values for dropped."""
        (values,) = self.runs.sum(taps, self.orders, source, lane, dropped).values()
        return values

    def fills_of_run(self, name: str, plane: Value) -> list[Value]:
        """Read the numbers of a run's planes; see `fills`."""
        memory: Pointer = getattr(self.call, name)
        if self.description.tap_rule.filled or name not in ("outside", "dropped"):
            return self.runs.run.load(memory, plane)
        zero = self.function.constant(0, memory.kind, self.runs.run.length)
        return [zero] * self.runs.run.registers
