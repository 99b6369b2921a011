"""The gradients of gathers of runs; see `runs` and `gradients`.

Of the image: upstream channels times the tap's weight are added to each tap's pixel, point after
point, so that sums are reproducible.  Of the grid: sums over taps are multiplied by the upstream
channels and added up over channels, in registers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.gradients import Backward
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.row_sums import sum_neighbours
from gridsample.kernels.sampling.programs.runs import Block, Runs
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.sums import WRITTEN_OUT, Registers, no_pixel
from gridsample.kernels.sampling.programs.tap_lists import TapList
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value


class RunOfPlanes(NamedTuple):
    """The planes that are processed together, or as many as belong to a task.

    Attributes:
        plane: the first.
        channels: their number.
        source: the image, from the first one on.
        sums: the image's gradient.
        upstream: the upstream values.
    """

    plane: Value
    channels: Value
    source: Pointer
    sums: Pointer
    upstream: Pointer


class PartOfRun(NamedTuple):
    """A block of the channels of a register of points, or of one point.

    Attributes:
        run: the run.
        block: which of its channels.
        lane: the first of the points.
        source: the image, from the first channel on.
        dropped: the values of dropped taps for one point, or None for a register of points.
    """

    run: RunOfPlanes
    block: Block
    lane: Value
    source: Pointer
    dropped: Sequence[Value] | None


class BackwardRuns(Backward):
    """Writes the loops of the sweep of first derivatives of runs.

    Attributes:
        orders: the orders of derivatives of the grid's gradient.
        listed: the orders of which sums are computed.
    """

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.runs = Runs(self.sampler)
        self.orders = [o for o in self.raised if not self.sampler.vanishes(o)]
        self.listed = self.orders
        # The products of the points of a group, which are then summed over lanes.
        length = self.runs.run.length
        self.products = {
            order: function.scratch(function.real, length, function.lanes) for order in self.orders
        }

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Process the run that begins with a plane at the points of a strip."""
        call = self.call
        run = RunOfPlanes(
            plane,
            (end - plane).minimum(call.channels),
            self.image.plane(strip, plane),
            self.sums.plane(strip, plane),
            call.values.at(call.out_planes.load(plane)),
        )
        with self.prefetch.groups(strip) as (number, group):
            state = self.states.load(number)
            places = self.points.place_of_value(group)
            if self.need_products:
                self.multiply(run, group, state, places)
            if self.need_grid and self.orders:
                self.totals.add(number, self.sums_of_products())
            if self.need_image and not self.sampler.vanishes(self.value_order):
                self.scatter_run(run, group, state, places)

    @property
    def need_products(self) -> bool:
        """Whether tap_sums are multiplied by upstream values."""
        return self.need_grid and bool(self.orders)

    # The gradient of the grid ---------------------------------------------------------------------

    def multiply(self, run: RunOfPlanes, group: Group, state: State, places: SamplePoints) -> None:
        """Multiply the tap_sums of a group by the upstream values, and keep the products."""
        function, length = self.function, self.runs.run.length
        taps = self.runs.taps(state, self.listed, self.counting(state, group, run.plane))
        packed = self.points.contiguous and not group.listed

        def process(listed: TapList, points: int, alone: bool) -> list[Value]:
            with function.loop(0, function.lanes, points) as loop:
                begin = loop.index * length
                for memory in self.products.values():
                    zero = function.constant(0.0, function.real, points * length)
                    memory.store(zero, begin)
                with self.runs.blocks(run.channels) as block:
                    dropped = None
                    if alone:
                        dropped = self.runs.run.load(self.call.dropped, run.plane + block.first)
                    source, upstream = run.source.at(block.first), run.upstream.at(block.first)
                    values = self.runs.run.load_points(upstream, places, loop.index, points, packed)
                    g = [register.to(function.real) for register in values]
                    part = PartOfRun(run, block, loop.index, source, dropped)
                    products = self.products_of(part, listed, g)
                    self.add_products(products, self.runs.counted(block, points), begin)
            return []

        function.choose(
            taps.inside,
            lambda: process(taps.together(), self.runs.run.points, False),
            lambda: process(taps.alone(), 1, True),
            likely=True,
        )

    def counting(self, state: State, points: Strip | Group, plane: Value) -> Counting | None:
        """Return how the pixels of a run count; None if all count alike."""
        return None

    def products_of(self, part: PartOfRun, taps: TapList, upstream: Sequence[Value]) -> Registers:
        """Multiply the tap_sums of a part by upstream values."""
        tap_sums = self.runs.sum(taps, self.listed, part.source, part.lane, part.dropped)
        return {
            order: [a * b for a, b in zip(registers, upstream, strict=True)]
            for order, registers in tap_sums.items()
        }

    def add_products(self, products: Registers, counted: Value | None, begin: Value) -> None:
        """Add the products of a register of points, at their place in memory."""
        for order, memory in self.products.items() if products else ():
            product = functools.reduce(operator.add, products[order])
            if counted is not None:
                product = counted.select(product, 0.0)
            memory.store(memory.load(begin, product.lanes) + product, begin)

    def sums_of_products(self) -> list[Value]:
        """Sum the products of each point over lanes, along each axis."""
        lanes, sums = self.function.lanes, []
        for order in self.raised:
            if order in self.products:
                places = range(0, self.runs.run.length * lanes, lanes)
                products = [self.products[order].load(k, lanes, aligned=True) for k in places]
                sums.append(sum_neighbours(products))
            else:
                sums.append(self.function.constant(0.0, self.function.real, lanes))
        return sums

    # The gradient of the image --------------------------------------------------------------------

    def scatter_run(
        self, run: RunOfPlanes, group: Group, state: State, places: SamplePoints
    ) -> None:
        """Add the gradient of a run at a group to its pixels."""
        self.scatter([run], group, state, places)

    def scatter(
        self, runs: Sequence[RunOfPlanes], group: Group, state: State, places: SamplePoints
    ) -> None:
        """Add to the pixels of a group, point after point, in the sums of each of some runs."""
        function, counts = self.function, state.valid & group.fresh
        taps = self.runs.list_all(state, [self.value_order])

        def process(counts: Pointer | None) -> list[Value]:
            with (
                function.loop(0, function.lanes) as loop,
                self.runs.blocks(runs[0].channels) as block,
            ):
                shares, alone = [], counts is not None
                for run in runs:
                    share = self.share(run, block, places(loop.index))
                    if counts is not None:
                        point = counts.load(loop.index) != 0
                        share = [point.select(g, 0.0) for g in share]
                    shares.append((run.sums.at(block.first), share))
                self.runs.each_tap(
                    taps,
                    lambda place: self.add_tap(taps, place, loop.index, shares, alone),
                    1 if alone else WRITTEN_OUT,
                )
            return []

        function.choose(
            taps.inside & counts.all(),
            lambda: process(None),
            lambda: process(function.spill(counts.to("int32"))),
            likely=True,
        )

    def share(self, run: RunOfPlanes, block: Block, place: Value) -> list[Value]:
        """Read the upstream channels of a point; those that another block has, too, are 0."""
        upstream = run.upstream.at(place).at(block.first)
        values = [part.to(self.function.real) for part in self.runs.run.load_exactly(upstream)]
        counted = self.runs.again(block)
        return values if counted is None else [counted.select(part, 0.0) for part in values]

    def add_tap(
        self,
        taps: TapList,
        place: int | Value,
        lane: Value,
        shares: Sequence[tuple[Pointer, Sequence[Value]]],
        alone: bool,
    ) -> None:
        """Add channels of a point to the pixel of a tap, which is present unless ``alone``."""
        (weights,) = taps.weights.values()
        offset, weight = taps.offsets.at(place).load(lane), weights.at(place).load(lane)

        def add() -> None:
            for sums, upstream in shares:
                for r, g in enumerate(upstream):
                    home = sums.at(offset).at(r * self.function.lanes)
                    home.store(home.load(0, g.lanes) + g * weight)

        if not alone:
            add()
            return
        with self.function.when(offset != no_pixel(offset.kind)):
            add()


# Returns the place of a point's values, given its lane.
SamplePoints = Callable[[int | Value], Value]
