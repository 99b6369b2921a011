"""Means of runs of channels over the pixels that count, and their gradients; see `runs`.

All channels share the weights of pixels, which are multiplied into the weights of taps where taps
are listed (`Counting.weight`), and so is their sum.  Only pixels that may be missing are counted
channel by channel, and only where a plain sum is NaN.  The parts of a complex pixel are two
channels, which are missing together.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

from gridsample.kernels.sampling.programs.counting import (
    COUNTED,
    SUMMED,
    WEIGHT,
    CountedPixels,
    Counting,
)
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.loads import Image
from gridsample.kernels.sampling.programs.mean_gradients import MeanBackward
from gridsample.kernels.sampling.programs.missing import Counts, Means
from gridsample.kernels.sampling.programs.run_gradients import (
    BackwardRuns,
    PartOfRun,
    RunOfPlanes,
    SamplePoints,
)
from gridsample.kernels.sampling.programs.runs import GatherRuns, Order, Runs, list_bytes
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.sums import Registers
from gridsample.kernels.sampling.programs.tap_lists import TapList
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value


class MeanSums:
    """Sums runs over the taps that count.

    Attributes:
        counts: how pixels count.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs, self.function = runs, runs.function
        self.description = runs.sampler.description
        self.counts = Counts(runs.function, self.description, runs.call)
        self.weighs_taps = self.description.tap_rule.differ

    def counting(self, state: State, points: Strip | Group, plane: Value) -> Counting | None:
        """Return how taps are listed."""
        if not self.weighs_taps:
            return None
        return self.counts.of(state, self.counts.plane(points, plane))

    def sums(
        self,
        taps: TapList,
        orders: Sequence[Order],
        source: Pointer,
        lane: Value,
        dropped: Sequence[Value] | None,
    ) -> Registers:
        """Sum m v and m over the taps, for each order of derivatives.

        Args:
            taps: the taps.
            orders: the orders of derivatives, of which the first is 0.
            source: the image, from the first channel on.
            lane: the first of the points.
            dropped: the values of dropped taps, for one point, or None for a register of points.
        """
        runs, known = self.runs, self.description.known
        pixels = CountedPixels(self.description.tap_rule.ignores_nan, self.weighs_taps, known.parts)
        numbered = [(*number, *order) for order in orders for number in SUMMED]

        def counted() -> list[Value]:
            sums = runs.sum(taps, numbered, source, lane, dropped, pixels)
            return [register for order in numbered for register in sums[order]]

        multiplied = (
            pixels._replace(ignores=False, numbers=SUMMED[:1]) if self.weighs_taps else None
        )
        prefix = (COUNTED,) if self.weighs_taps else ()
        weighted = runs.sum(
            taps, [(*prefix, *order) for order in orders], source, lane, dropped, multiplied
        )
        first = weighted[*prefix, *orders[0]]
        complete = [
            register
            for order in orders
            for register in (
                *weighted[*prefix, *order], *self.sums_of_weights(taps, order, lane, first)
            )
        ]  # fmt: skip
        if not self.description.tap_rule.ignores_nan:
            return self.by_order(numbered, complete)

        def where_known() -> list[Value]:
            # What is complete keeps its bits.
            known = [pixels.known(register) for register in first] * len(numbered)
            return [*map(Value.select, known, complete, counted())]

        missing = [~pixels.known(self.defined(register)) for register in first]
        some = functools.reduce(operator.or_, missing).any()
        return self.by_order(
            numbered, self.function.choose(some, where_known, lambda: complete, likely=False)
        )

    def sums_of_weights(
        self, taps: TapList, order: Order, lane: Value, like: Sequence[Value]
    ) -> list[Value]:
        """Return the sums of the weights of taps, where all pixels are numbers."""
        if not self.weighs_taps:
            return [register.like(0.0 if any(order) else 1.0) for register in like]
        points = like[0].lanes // self.runs.run.length
        return [self.runs.run.repeat_for_channels(taps.sums[order], lane, points)] * len(like)

    def defined(self, register: Value) -> Value:
        """Return a register with numbers in place of lanes that are no channels."""
        run = self.runs.run
        if run.kept == run.length:
            return register
        lanes = [lane % run.length < run.kept for lane in range(register.lanes)]
        return self.function.vector(lanes, "bool").select(register, 0.0)

    def by_order(self, orders: Sequence[Order], registers: Sequence[Value]) -> Registers:
        """Assign registers in a row to orders."""
        each = len(registers) // len(orders)
        return {o: [*registers[k * each : (k + 1) * each]] for k, o in enumerate(orders)}

    def repeat_for_points(self, register: Value, like: Value) -> Value:
        """Repeat the numbers of one point's channels for all points of a register."""
        return register.shuffle([lane % register.lanes for lane in range(like.lanes)])


class MeanRuns(GatherRuns):
    """Writes the loops that average runs."""

    fill_kinds = Means.fill_kinds
    others = Means.others

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.sums = MeanSums(self.runs)
        (self.shares,) = description.needs

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        with self.sums.counts.watch():
            super().write(task)

    def counting(self, state: State, points: Strip | Group, plane: Value) -> Counting | None:
        """Return how the pixels of a run count; None if all count alike."""
        return self.sums.counting(state, points, plane)

    def totals(
        self,
        taps: TapList,
        source: Pointer,
        lane: Value,
        plane: Value,
        dropped: Sequence[Value] | None = None,
    ) -> list[Value]:
        """Compute the means of a register of points, or of one point, and sums of weights."""
        sums = self.sums.sums(taps, self.orders, source, lane, dropped)
        above, below = (sums[*number, *self.orders[0]] for number in SUMMED)
        min_weight = self.call.min_weights.load(plane)
        missing_values = self.fills_of_run("missing_values", plane)
        means = [
            (b > min_weight).select(a / b, self.sums.repeat_for_points(other, a))
            for a, b, other in zip(above, below, missing_values, strict=True)
        ]
        return [*means, *below] if self.shares else means

    def fills_of_run(self, name: str, plane: Value) -> list[Value]:
        """Read the numbers of a run's planes, and, of points that have no taps, sums of weights."""
        fills = super().fills_of_run(name, plane)
        if not self.shares or name not in ("outside", "invalid"):
            return fills
        share = self.sums.counts.dropped_weight if name == "outside" else 0.0
        return [*fills, *(fill.like(share) for fill in fills)]

    def store(
        self,
        results: Sequence[Value],
        begin: Value,
        places: Callable[[Value], Value],
        lane: Value,
        packed: bool,
    ) -> None:
        """Write the means of a register of points, or of one point, and sums of weights."""
        registers = self.runs.run.registers
        super().store(results[:registers], begin, places, lane, packed)
        if self.shares:
            target = self.call.shares.at(begin)
            self.runs.run.store(results[registers:], target, places, lane, packed)


class MeanBackwardRuns(BackwardRuns):
    """Writes the loops of the sweep of first derivatives of means of runs.

    What is added to the pixels of a group is kept in scratch memory, channel by channel.
    """

    arrays = MeanBackward.arrays

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.means = MeanSums(self.runs)
        _, _, self.need_weights = description.needs
        self.listed = [self.value_order, *(self.orders if self.need_grid else [])]
        if self.need_weights:
            self.sums_of_weights = Image(call.sums_of_weights, call.sums_item, call.sums_planes)
        memory = call.scratch.at(list_bytes(description, function.lanes, len(description.axes) + 1))
        self.onto_above = memory.cast(function.real)

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        with self.means.counts.watch():
            super().write(task)

    def counting(self, state: State, points: Strip | Group, plane: Value) -> Counting | None:
        """Return how the pixels of a run count; None if all count alike."""
        return self.means.counting(state, points, plane)

    def onto_below(self, run: RunOfPlanes) -> Pointer:
        """Where the gradients of sums of weights are kept, after those of the other sums."""
        below: Pointer = self.onto_above.at(run.channels * self.function.lanes)
        return below

    @property
    def need_products(self) -> bool:
        """Whether tap_sums are multiplied by upstream values: what is scattered depends on them."""
        return True

    def scatter_run(
        self, run: RunOfPlanes, group: Group, state: State, places: SamplePoints
    ) -> None:
        """Add the gradients of a run at a group to its pixels, and to their weights."""

        def kept(lane: int | Value) -> Value:
            return run.channels * lane

        runs = [run._replace(upstream=self.onto_above)]
        if self.need_weights:
            sums = self.sums_of_weights.plane(group, run.plane)
            runs.append(run._replace(upstream=self.onto_below(run), sums=sums))
        self.scatter(runs, group, state, kept)

    def products_of(self, part: PartOfRun, taps: TapList, upstream: Sequence[Value]) -> Registers:
        """Multiply tap_sums by upstream values, and keep the gradients of both sums."""
        run, plane = part.run, part.run.plane + part.block.first
        sums = self.means.sums(taps, self.listed, part.source, part.lane, part.dropped)
        min_weight = self.call.min_weights.load(plane)
        above, below = (sums[*number, *self.value_order] for number in SUMMED)
        onto_above, onto_below = [], []
        for n, d, g in zip(above, below, upstream, strict=True):
            onto_above.append((d > min_weight).select(g / d, 0.0))
            onto_below.append((d > min_weight).select(-(onto_above[-1] * (n / d)), 0.0))
        if self.need_image:
            self.keep(part, onto_above, self.onto_above)
        if self.need_weights:
            self.keep(part, onto_below, self.onto_below(run))
        products: Registers = {}
        for order in self.products if self.need_grid else ():
            terms = zip(
                sums[COUNTED, *order], sums[WEIGHT, *order], onto_above, onto_below, strict=True
            )
            # Where nothing is missing, the sum of weights has no derivative.
            products[order] = [a * n + (d == 0.0).select(0.0, b * d) for n, d, a, b in terms]
        return products

    def keep(self, part: PartOfRun, registers: Sequence[Value], memory: Pointer) -> None:
        """Store what is added to the pixels of a part."""
        run, channels = self.runs.run, part.run.channels
        packed = run.channels < run.lanes
        first = memory.at(part.block.first)
        run.store(registers, first, lambda lane: channels * lane, part.lane, packed)
