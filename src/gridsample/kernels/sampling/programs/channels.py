"""Pixels of many channels, which are neighbours in memory: lanes are the channels of one point.

One load reads many channels, and offsets and weights are computed once for all.  The taps of a
group are first listed in memory (`TapList`); then its points are processed one by one, and each
some channels at a time: a *block* (`listed`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from gridsample.definitions.caches import cached_property
from gridsample.kernels.sampling.programs.counting import Counting
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.interleaving import sum_neighbours
from gridsample.kernels.sampling.programs.listed import (
    Block,
    CountedChannels,
    ListedTaps,
    Point,
    Register,
    blocks,
    padded,
)
from gridsample.kernels.sampling.programs.operation import Order, Results, Terms
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State, value_of
from gridsample.kernels.sampling.programs.sums import Registers, no_pixel
from gridsample.kernels.sampling.programs.sweep import Sweep
from gridsample.kernels.sampling.programs.tap_lists import (
    TapList,
    inside,
    list_bytes,
    list_taps,
)
from gridsample.kernels.sampling.programs.ways import Copies
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value


class ChannelPlanes(NamedTuple):
    """The planes of the channels of a pixel.

    Attributes:
        first: the first plane.
        channels: their number, or how many of them belong to the task.
        pixels: the memory of arrays of pixels.
        points: that of arrays of points.
    """

    first: Value
    channels: Value
    pixels: Mapping[str, Pointer]
    points: Mapping[str, Pointer]


class Channels(Sweep):
    """Writes the loops over points, and over their channels in registers.

    Attributes:
        listed: the orders of derivatives of the weights that are listed, for reading and adding.
        tangents: the directions in which the points of a group move, in memory.
    """

    tangents: list[Pointer]

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        channels, rank = description.pixels.channels, self.points.rank
        # The lanes of a point's products: a power of two, so that they can be summed by halves.
        self.length = min(function.lanes, 1 << (channels - 1).bit_length())
        read = [order[-rank:] for orders in self.reads.values() for order in orders]
        added = [order for orders in self.adds.values() for order in orders]
        self.listed = [[*dict.fromkeys(self.live(orders))] for orders in (read, added)]
        self.counted = None
        if self.operation.counts:
            self.counted = CountedChannels(description.tap_rule, description.pixels.parts)
        # The products of the points of a group, along each axis, which are then summed over lanes.
        self.products = [
            function.scratch(function.real, self.length, function.lanes)
            for _ in range(rank if self.gradient else 0)
        ]

    @property
    def bytes_of_lists(self) -> int:
        """The scratch memory of the lists of taps, or more."""
        axes, real, wide = (
            self.description.axes,
            self.description.real,
            self.description.pixels.wide,
        )
        counts = [len(orders) for orders in self.listed if orders]
        return sum(list_bytes(axes, self.function.lanes, real, wide, count) for count in counts)

    def live(self, orders: Sequence[Order]) -> list[Order]:
        """Return the orders of which weights do not vanish."""
        return [order for order in orders if not self.sampler.vanishes(order)]

    @property
    def step(self) -> int | Value:
        """The number of planes that are processed together: all channels of a pixel."""
        channels: Value = self.call.channels
        return channels

    # Loops ----------------------------------------------------------------------------------------

    def process_planes(self, strip: Strip, plane: Value, end: Value) -> None:
        """Process the planes of a pixel's channels at the points of a strip."""
        planes = self.planes_at(strip, plane, end)
        with self.prefetch.groups(strip) as (number, group):
            self.process_group(number, group, planes)

    def planes_at(self, points: Strip | Group, plane: Value, end: Value) -> ChannelPlanes:
        """Return where the planes of a pixel's channels are, of which the first is given."""
        begin = self.call.out_planes.load(plane)
        of_points = self.named("points", "read") + self.named("points", "store")
        return ChannelPlanes(
            plane,
            (end - plane).minimum(self.call.channels),
            {name: image.plane(points, plane) for name, image in self.images.items()},
            {name: getattr(self.call, name).at(begin) for name in of_points},
        )

    def process_group(self, number: Value, group: Group, planes: ChannelPlanes) -> None:
        """Process the points of a group, which has a number."""
        function, state = self.function, self.states.load(number)
        reads, adds = self.list_taps(state, group, planes.first)
        self.tangents = [function.spill(x) for x in state.tangents]
        place = self.points.place_of_value(group)
        conditions = [reads.inside, state.valid.all()]
        conditions += [adds.inside, group.fresh.all()] if self.adds else []
        conditions += [] if state.outside is None else [~state.outside.any()]
        if self.longer_block is not None:
            conditions.append((state.first.value <= self.last_of(self.longer_block)).all())

        def together() -> list[Value]:
            if isinstance(self.sampler, Copies):  # a few instructions each
                for lane in range(function.lanes):
                    point = Point(function.as_index(lane), place(lane))
                    if self.longer_block is not None and lane < function.lanes - 1:
                        self.process_block(point, self.longer_block, reads, adds, planes)
                    else:
                        self.process_point(point, reads, adds, planes)
                return []
            with function.loop(0, function.lanes) as loop:
                self.process_point(Point(loop.index, place(loop.index)), reads, adds, planes)
            return []

        def one_by_one() -> list[Value]:
            known = {"valid": state.valid, "outside": state.outside, "fresh": group.fresh}
            notes = {
                name: function.spill(condition.to("int32"))
                for name, condition in known.items()
                if condition is not None
            }
            with function.loop(0, function.lanes) as loop:
                marks = {name: note.load(loop.index) != 0 for name, note in notes.items()}
                point = Point(loop.index, place(loop.index), **marks)
                self.process_point(point, reads, adds, planes)
            return []

        usual = functools.reduce(operator.and_, conditions)
        function.choose(usual, together, one_by_one, likely=True)
        if self.gradient:
            self.gradient.totals.add(number, self.sums_of_products())

    def process_point(
        self, point: Point, reads: TapList, adds: TapList, planes: ChannelPlanes
    ) -> None:
        """Process one point, block after block."""
        self.clear_products(point)
        with self.blocks(planes.channels) as block:
            self.process_block(point, block, reads, adds, planes)

    def process_block(
        self, point: Point, block: Block, reads: TapList, adds: TapList, planes: ChannelPlanes
    ) -> None:
        """Process some channels of one point."""
        values = self.upstream(point, block, planes)
        results = self.results(point, block, values, reads, planes)
        self.add_products(point, block, results)
        self.store_results(point, block, [each.stored for each in results], planes)
        for name in self.adds:
            orders = self.live([*results[0].shares[name]])
            shares = {o: block.counted([r.shares[name][o] for r in results]) for o in orders}
            if shares:
                ListedTaps(point, block, adds, planes.pixels[name]).add(shares)

    def upstream(self, point: Point, block: Block, planes: ChannelPlanes) -> dict[str, list[Value]]:
        """Read the numbers of arrays of points."""
        return {
            name: [
                value.to(self.function.real)
                for value in block.load(planes.points[name].at(point.place))
            ]
            for name in self.named("points", "read")
        }

    def store_results(
        self,
        point: Point,
        block: Block,
        results: Sequence[Mapping[str, Value]],
        planes: ChannelPlanes,
    ) -> None:
        """Store the results of a point in each register of a block."""
        for name in self.named("points", "store"):
            target = planes.points[name].at(point.place).at(block.first)
            for (first, lanes), each in zip(block.registers, results, strict=True):
                target.store(self.stored(each[name], name, lanes), first)

    def blocks(self, count: Value) -> AbstractContextManager[Block]:
        """Loop over the blocks of ``count`` channels; the last one may overlap the one before."""
        lanes, channels = self.function.lanes, self.description.pixels.channels
        return blocks(self.function, lanes, channels, count)

    @cached_property
    def longer_block(self) -> Block | None:
        """The channels of a pixel that is copied, and what follows it, up to a power of two.

        A group's next point overwrites that.  None if it must not be read, or written.
        """
        pixels = self.description.pixels
        length = 1 << (pixels.channels - 1).bit_length()
        upwards = pixels.fills_words and pixels.contiguous and not self.points.source.listed
        fits = pixels.channels < length <= self.function.lanes
        copied = isinstance(self.sampler, Copies)
        return Block(0, [Register(0, length)]) if copied and upwards and fits else None

    def last_of(self, block: Block) -> Value:
        """Return the last offset at which a longer block is in the image."""
        steps = [
            (size - 1) * stride
            for size, stride in zip(self.call.sizes, self.call.strides, strict=True)
        ]
        longer = block.registers[0].lanes - self.description.pixels.channels
        last: Value = functools.reduce(operator.add, steps) - longer
        return last.to(self.sampler.offset_kind)

    # The formula ----------------------------------------------------------------------------------

    def results(
        self,
        point: Point,
        block: Block,
        values: Mapping[str, Sequence[Value]],
        reads: TapList,
        planes: ChannelPlanes,
    ) -> list[Results]:
        """Compute the results of a point in each register of a block."""
        plane, results = planes.first + block.first, list[Results]()
        numbers = self.numbers_of_block(plane, block, point)
        dropped = None
        if point.valid is not None:  # some taps may be dropped; they are 0 if they have no value
            zeros = block.splat(self.function.constant(0.0, self.function.real))
            dropped = numbers.get("dropped", zeros)
        sums = {
            name: self.guarded_sums(
                ListedTaps(point, block, reads, planes.pixels[name], dropped, self.counted), name
            )
            for name in self.reads
        }
        valid = self.function.constant(True, "bool") if point.valid is None else point.valid
        tangents = [block.splat(x.load(point.lane)) for x in self.tangents]
        weight = self.counts.dropped_weight if self.counts else 1.0
        for r in range(len(block.registers)):
            upstream = {name: valid.select(each[r], 0.0) for name, each in values.items()}
            vectors = {
                name: [each[r] for each in tangents] for name in self.named("vectors", "read")
            }
            terms = Terms(
                {name: {o: each[r] for o, each in own.items()} for name, own in sums.items()},
                upstream, vectors, {name: each[r] for name, each in numbers.items()},
                self.needs, self.orders, valid, point.outside, weight,
            )  # fmt: skip
            results.append(self.formula(terms))
        return results

    def numbers_of_block(
        self, plane: int | Value, block: Block, point: Point
    ) -> dict[str, list[Value]]:
        """Read the numbers of the planes of a block, whose first plane is given."""
        return {n: self.fills(n, plane, block, point) for n in self.named("planes", "read")}

    def fills(self, name: str, plane: int | Value, block: Block, point: Point) -> list[Value]:
        """Read the numbers of the planes of a block.

        Those of points without taps, and of dropped taps, are needed only where there are such.
        """
        memory: Pointer = getattr(self.call, name)
        if self.is_zero(name) or (point.valid is None and self.uses[name].kind == "fill"):
            return block.splat(self.function.constant(0, memory.kind))
        return [memory.load(plane + first, lanes) for first, lanes in block.registers]

    def guarded_sums(self, taps: ListedTaps, name: str) -> Registers:
        """Sum the taps of a point in an array of pixels; of one that has none, nothing is read.

        Where pixels are copied, points without any have the offset of some pixel.  Sums that vanish
        are constants.
        """
        point, function = taps.point, self.function
        orders = self.live(self.reads[name])

        def read() -> list[Value]:
            sums = taps.sums(orders)
            return [value for order in orders for value in sums[order]]

        flat = list[Value]()

        def present() -> list[Value]:
            flat.extend(read())
            return flat

        if point.valid is None or not orders or isinstance(self.sampler, Copies):
            values = read()
        else:
            here = point.valid if point.outside is None else point.valid & ~point.outside
            values = function.choose(
                here, present, lambda: [value.like(0) for value in flat], likely=True
            )
        sums = taps.block.by_key(orders, values)
        zeros = [function.constant(0.0, function.real, n) for _, n in taps.block.registers]
        return {order: sums.get(order, zeros) for order in self.reads[name]}

    def list_taps(self, state: State, group: Group, plane: Value) -> tuple[TapList, TapList]:
        """List the taps of a group, to read them and to add to them."""
        sampler, function = self.sampler, self.function
        if isinstance(sampler, Copies):
            ((tap,),) = sampler.taps(state, 0)
            place = state.first.in_memory()
            if tap.present is not None:
                place = function.spill(tap.present.select(tap.offset, no_pixel(tap.offset.kind)))
            listed = TapList(1, 1, place, {}, inside([[tap]], function))
            return listed, listed
        (read, added), begin = self.listed, value_of(state.offset)
        counting = None
        if self.counts is not None and self.description.tap_rule.differ:
            weights = self.counts.plane(group, plane)
            counting = Counting(self.counts, weights, state.weight_offset)
        taps, memory = sampler.taps(state, self.derivatives), self.call.scratch
        if counting is None:
            orders = [*dict.fromkeys([*read, *added])]
            listed = list_taps(memory, begin, taps, orders)
            return listed, listed
        reads = list_taps(memory, begin, taps, read, counting)
        axes, real, wide = (
            self.description.axes,
            self.description.real,
            self.description.pixels.wide,
        )
        memory = memory.at(list_bytes(axes, function.lanes, real, wide, len(read)))
        return reads, list_taps(memory, begin, taps, added) if added else reads

    # The gradient of the grid ---------------------------------------------------------------------

    def clear_products(self, point: Point) -> None:
        """Set the products of a point to 0."""
        zero = self.function.constant(0.0, self.function.real, self.length)
        for memory in self.products:
            memory.store(zero, point.lane * self.length)

    def add_products(self, point: Point, block: Block, results: Sequence[Results]) -> None:
        """Add the summands of a block to the products of a point."""
        for a, memory in enumerate(self.products):
            terms = [functools.reduce(operator.add, [row[a] for row in r.totals]) for r in results]
            counted = [padded(term, self.length) for term in block.counted(terms)]
            product = functools.reduce(operator.add, counted)
            begin = point.lane * self.length
            memory.store(memory.load(begin, self.length) + product, begin)

    def sums_of_products(self) -> list[Value]:
        """Sum the products of each point over lanes, along each axis."""
        lanes = self.function.lanes
        places = range(0, self.length * lanes, lanes)
        return [
            sum_neighbours([memory.load(k, lanes, aligned=True) for k in places])
            for memory in self.products
        ]
