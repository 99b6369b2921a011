"""The programs of `gridsample.operators.weighted_sum`: points are lanes, and then channels are.

    result       sum over the levels and points of a query of weight * level[point]
    gradients    of the images, the points and the weights, in one sweep

The points of one query and one head are a *group*, of all levels together.  Their taps are located
some at a time, a point in each lane, for which the sizes of levels differ from lane to lane.  They
are listed in memory, and each point then reads or adds to some channels of its pixels at a time.

A task of the gradients has one head of one item, so that no other task adds to the same pixels, and
results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.operators import SumOptions
from gridsample.definitions.options import Options, plan_of
from gridsample.kernels.caches import whole_lines
from gridsample.kernels.memory import Layout, is_dense
from gridsample.kernels.operators import elements, real_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.sampling.programs.axes import (
    SHORT,
    Axis,
    AxisPixels,
    AxisRule,
    Tap,
    rules_of,
)
from gridsample.kernels.sampling.programs.interleaving import sum_neighbours
from gridsample.kernels.sampling.programs.listed import Block, blocks, padded, whole_block
from gridsample.kernels.sampling.programs.sums import WRITTEN_OUT, no_pixel
from gridsample.kernels.sampling.programs.tap_lists import TapList, block_of, list_bytes, list_taps
from gridsample.kernels.vector import Function, Pointer, Program, Record, Value, compile, host

Array = np.ndarray[Any, Any]
# How many axes at the end of each array must be in C order, without gaps.
CONTIGUOUS = {"images": 1, "points": 3, "weights": 2, "upstream": 1}
# The least number of queries of a task, and about how many tasks an item has.
LEAST_QUERIES, TASKS = 8, 32
# About how many registers hold sums that do not wait for each other.
CHAINS = 8


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kinds: the kinds of the images, points, weights and the upstream gradient.
        real: the kind of sums.
        rules: the rules of the axes, x first.
        is_unit: whether points are from 0 to 1 between the outer edges.
        lanes: how many points are located at a time.
        rest: how many there are in the last, incomplete register; 0 if it is complete.
        channels: how many channels are processed at a time.
        offsets: the kind of offsets in an image.
        needed: the arrays whose gradients are needed; none for the result.
        is_dense: whether the images are in C order, as their gradient is.
        is_whole: whether all channels are processed at a time.
    """

    kinds: tuple[str, ...]
    real: str
    rules: tuple[AxisRule, ...]
    is_unit: bool
    lanes: int
    rest: int
    channels: int
    offsets: str
    needed: frozenset[str]
    is_dense: bool
    is_whole: bool

    @property
    def arrays(self) -> dict[str, str]:
        """The kinds of all arrays that the program takes, by name."""
        images, points, weights, *upstream = self.kinds
        kinds = {"images": images, "points": points, "weights": weights}
        if not upstream:
            return {**kinds, "result": images}
        gradients = {"images": self.real, "points": points, "weights": weights}
        written = {f"{n}_gradient": kind for n, kind in gradients.items() if n in self.needed}
        return {**kinds, "upstream": upstream[0], **written}


def settings_of(description: Description) -> Record:
    """Return the layout of the settings."""
    axes, kind = len(description.rules), f"*{description.offsets}"
    return Record(
        queries="int64",
        heads="int64",
        count="int64",  # the points of a group
        registers="int64",  # of points of a group
        channels="int64",
        share="int64",  # queries of a task
        shares="int64",  # tasks of an item
        # Distances in elements: between items, queries and heads; of images: items, heads.
        image_steps=("int64", 2),
        point_steps=("int64", 3),
        weight_steps=("int64", 3),
        upstream_steps=("int64", 3),
        gradient_steps=("int64", 2),
        # Of each point of a group, in whole registers: the sizes of its level and the distances of
        # its pixels along each axis, x first, and where the level begins.
        sizes=(kind, axes),
        strides=(kind, axes),
        gradient_strides=(kind, axes),
        begins=kind,
        gradient_begins=kind,
        sums_bytes="int64",  # of the sums of all channels, which the list of taps follows
    )


class Group(NamedTuple):
    """A group of points.

    Attributes:
        place: the number of the group among all, in C order.
        images: the pixels of its item and head.
        points, weights: the numbers of its points.
        gradient: the gradient of these pixels, if it is needed.
    """

    place: Value
    images: Pointer
    points: Pointer
    weights: Pointer
    gradient: Pointer | None = None


class Register(NamedTuple):
    """Points of a group in the lanes of a register.

    Attributes:
        first: the first point.
        number: their number.
        is_last: whether some lanes have no point of their own; None if that is known not to be.
        weights: their weights.
        valid: whether all coordinates are valid; otherwise, all taps are dropped.
        reads: their taps in the images.
        adds: their taps in the gradient of the images.
    """

    first: Value
    number: Value
    is_last: Value | None
    weights: Value
    valid: Value
    reads: TapList
    adds: TapList


class Writer:
    """Writes a program."""

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        self.real, self.lanes = function.real, description.lanes
        self.width = host().lanes(description.real)  # the lanes of channels
        self.rank = len(description.rules)
        self.sums = call.scratch.cast(self.real)
        self.list: Pointer = call.scratch.at(call.sums_bytes)
        # What is read in place of dropped pixels, and what is added to in place of them.
        kinds = function.scratch("float64", description.channels), description.arrays["images"]
        self.nothing = kinds[0].cast(kinds[1])
        self.nowhere = function.scratch(self.real, description.channels)
        zero = function.constant(0.0, "float64")
        kinds[0].fill(zero, function.as_index(description.channels), 1)

    # Points ---------------------------------------------------------------------------------------

    def group(self, item: Value, query: Value, head: Value) -> Group:
        """Return a group."""
        call = self.call
        place = (item * call.queries + query) * call.heads + head
        images = call.images.at(item * call.image_steps[0] + head * call.image_steps[1])
        points = at(call.points, call.point_steps, item, query, head)
        return Group(place, images, points, at(call.weights, call.weight_steps, item, query, head))

    def load(self, memory: Pointer, first: Value, each: int, is_last: Value | None) -> list[Value]:
        """Read ``each`` numbers of every point of a register: a value for each of them.

        Lanes beyond the last point repeat it.
        """
        lanes = self.lanes

        def read(count: int) -> list[Value]:
            numbers = memory.load(first * each, count * each).to(self.real)
            return [
                numbers.shuffle([min(lane, count - 1) * each + k for lane in range(lanes)])
                for k in range(each)
            ]

        if is_last is None:
            return read(lanes)
        rest = self.description.rest
        return self.function.choose(is_last, lambda: read(rest), lambda: read(lanes))

    def store(self, values: Sequence[Value], memory: Pointer, register: Register) -> None:
        """Write a number, or some, of every point of a register."""
        each = len(values)
        mixed = mixed_lanes(values).to(memory.kind)
        target = memory.at(register.first * each)
        if register.is_last is None:
            target.store(mixed)
            return
        with self.function.when(~register.is_last):
            target.store(mixed)
        with self.function.when(register.is_last):
            target.store(mixed.shuffle(range(self.description.rest * each)))

    def register(self, group: Group, number: Value, derivatives: int) -> Register:
        """Locate the points of a register, and list their taps."""
        call, lanes = self.call, self.lanes
        first = number * lanes
        is_last = None
        if self.description.rest:
            is_last = number == call.registers - 1
        coordinates = self.load(group.points, first, self.rank, is_last)
        (weights,) = self.load(group.weights, first, 1, is_last)
        orders = self.orders(derivatives)
        # Sums are those of weighted samples.
        share = weights if not self.needed else None
        valid, reads = self.taps(coordinates, first, derivatives, share, orders, self.list, "")
        adds = reads
        if "images" in self.description.needed and not self.description.is_dense:
            memory = self.second_list()
            _, adds = self.taps(coordinates, first, 0, None, orders[:1], memory, "gradient_")
        count = (call.count - first).minimum(lanes)
        return Register(first, count, is_last, weights, valid, reads, adds)

    def second_list(self) -> Pointer:
        """Return the memory of the list of taps in the gradient of the images."""
        return self.list.at(bytes_of(self.description, len(self.orders(1))))

    def orders(self, derivatives: int) -> list[tuple[int, ...]]:
        """Return the orders of derivatives of weights: none, and once along each axis."""
        none = (0,) * self.rank
        raised = [tuple(int(k == a) for k in range(self.rank)) for a in range(self.rank)]
        return [none, *(raised if derivatives else [])]

    def taps(
        self,
        coordinates: Sequence[Value],
        first: Value,
        derivatives: int,
        share: Value | None,
        orders: Sequence[tuple[int, ...]],
        memory: Pointer,
        prefix: str,
    ) -> tuple[Value, TapList]:
        """List the taps of points, times a share; also return where all coordinates are valid."""
        call, taps, conditions = self.call, [], []
        for a, rule in enumerate(self.description.rules):
            size = call.sizes[a].load(first, self.lanes)
            stride = getattr(call, f"{prefix}strides")[a].load(first, self.lanes)
            last = (size - 1).to(self.real)
            pixels = AxisPixels(size, stride, last)
            axis = Axis(
                self.function, rule, pixels,
                unit_stride=False, skips_missed=False, counts_dropped=False,
            )  # fmt: skip
            if self.description.is_unit:
                extent = last + 1.0
                located = axis.locate(coordinates[a] * extent - 0.5)
                located = located._replace(slope=located.slope * extent)
            else:
                located = axis.locate(coordinates[a])
            base, t = axis.split(located)
            weights = axis.weights(base, t, located.slope, derivatives)
            taps.append(axis.resolve_boundary(base, weights))
            conditions.append(located.valid)
        begin = getattr(call, f"{prefix}begins").load(first, self.lanes)
        valid = functools.reduce(operator.and_, conditions)
        taps[0] = [counted(tap, valid, share) for tap in taps[0]]
        written_out = taps_of(self.description) <= WRITTEN_OUT
        return valid, list_taps(memory, begin, taps, orders, written_out=written_out)

    def pixel(self, memory: Pointer, offset: Value, dropped: Pointer) -> Pointer:
        """Return the pixel at an offset, or other memory in place of one that is dropped."""
        present = offset != no_pixel(offset.kind)
        address = memory.at(offset.to("int64")).address
        return Pointer(present.select(address, dropped.address), memory.kind)

    def over_taps(
        self, carried: Sequence[Value], add: Callable[[Any, Sequence[Value]], Sequence[Value]]
    ) -> list[Value]:
        """Call ``add`` with the place of each tap in the list, and what the one before returned."""
        values, taps = [*carried], taps_of(self.description)
        if taps <= WRITTEN_OUT:
            for k in range(taps):
                values = [*add(k * self.lanes, values)]
            return values
        with self.function.loop(0, taps, carry=values) as loop:
            loop.carry(*add(loop.index * self.lanes, loop.carried))
        return loop.carried

    def each_block(self) -> AbstractContextManager[Block]:
        """Loop over the channels, some at a time; usually, all at once."""
        channels = self.description.channels
        if self.description.is_whole:
            return nullcontext(whole_block(self.width, channels))
        return blocks(self.function, self.width, channels, self.call.channels)

    # The result -----------------------------------------------------------------------------------

    def write_result(self, task: Value) -> None:
        """Write the program of a task: some queries of an item, with all heads."""
        call = self.call
        item, part = task // call.shares, task % call.shares
        first = part * call.share
        end = (first + call.share).minimum(call.queries)
        with self.function.loop(first, end) as query, self.function.loop(0, call.heads) as head:
            group = self.group(item, query.index, head.index)
            target = call.result.at(group.place * call.channels)
            if self.description.is_whole:
                self.sum_group(group, target)
            else:
                self.sum_blocks(group, target)

    def sum_group(self, group: Group, target: Pointer) -> None:
        """Sum the samples of a group, with all channels in registers."""
        block = whole_block(self.width, self.description.channels)
        zeros = block.splat(self.function.constant(0.0, self.real))
        start = [self.function.constant(True, "bool"), *zeros]
        with self.function.loop(0, self.call.registers, carry=start) as loop:
            register = self.register(group, loop.index, 0)
            valid, *totals = loop.carried
            totals = self.sum_points(group, register, block, totals)
            loop.carry(valid & register.valid.all(), *totals)
        valid, *totals = loop.carried
        self.store_block(block, target, valid, totals)

    def sum_blocks(self, group: Group, target: Pointer) -> None:
        """Sum the samples of a group, with the sums of channels in memory."""
        zero = self.function.constant(0.0, self.real)
        self.sums.fill(zero, self.call.channels, self.width)
        start = [self.function.constant(True, "bool")]
        with self.function.loop(0, self.call.registers, carry=start) as loop:
            register = self.register(group, loop.index, 0)
            with self.each_block() as block:
                added = self.sum_points(group, register, block, block.splat(zero))
                before, memory = block.load(self.sums), self.sums.at(block.first)
                pairs = zip(block.registers, before, block.counted(added), strict=True)
                for (first, _), total, own in pairs:
                    memory.store(total + own, first)
            loop.carry(loop.carried[0] & register.valid.all())
        with self.each_block() as block:
            self.store_block(block, target, loop.carried[0], block.load(self.sums))

    def store_block(
        self, block: Block, target: Pointer, valid: Value, totals: Sequence[Value]
    ) -> None:
        """Store the sums of a block, or NaN where a coordinate is not valid."""
        memory = target.at(block.first)
        for (first, _), total in zip(block.registers, totals, strict=True):
            memory.store(valid.select(total, math.nan).to(memory.kind), first)

    def sum_points(
        self, group: Group, register: Register, block: Block, totals: Sequence[Value]
    ) -> list[Value]:
        """Add the weighted samples of the points of a register to sums of a block."""
        function, count = self.function, len(totals)
        # Several sums, because each waits for the product before it.
        taps = taps_of(self.description)
        chains = max(1, min(taps, CHAINS // count)) if taps <= WRITTEN_OUT else 1
        zeros = block.splat(function.constant(0.0, self.real)) * (chains - 1)
        images, taps_list = group.images.at(block.first), register.reads
        (weights,) = taps_list.weights.values()
        with function.loop(0, register.number, carry=[*totals, *zeros]) as loop:

            def add(place: Any, sums: Sequence[Value]) -> list[Value]:
                at_tap = loop.index + place
                pixel = self.pixel(images, taps_list.offsets.load(at_tap), self.nothing)
                weight, own = weights.load(at_tap), []
                for (first, lanes), total in zip(block.registers, sums, strict=False):
                    value = pixel.load(first, lanes).to(self.real)
                    own.append(value.mul_add(weight.splat(lanes), total))
                return [*sums[count:], *own]  # the sums take turns

            loop.carry(*self.over_taps(loop.carried, add))
        sums = [loop.carried[k : k + count] for k in range(0, chains * count, count)]
        while len(sums) > 1:
            sums = [[*map(operator.add, sums[0], sums[1])], *sums[2:]]
        return [*sums[0]]

    # The gradients --------------------------------------------------------------------------------

    def write_gradients(self, task: Value) -> None:
        """Write the program of a task: all queries of one head of an item."""
        call, function = self.call, self.function
        item, head = task // call.heads, task % call.heads
        products = [
            function.scratch(self.real, self.length, self.lanes) for _ in range(len(self.slopes))
        ]
        with function.loop(0, call.queries) as query:
            group = self.group(item, query.index, head)
            upstream = at(call.upstream, call.upstream_steps, item, query.index, head)
            if "images" in self.needed:
                begin = item * call.gradient_steps[0] + head * call.gradient_steps[1]
                group = group._replace(gradient=call.images_gradient.at(begin))
            with function.loop(0, call.registers) as loop:
                register = self.register(group, loop.index, int(len(self.slopes) > 0))
                self.differentiate(group, register, upstream, products)
                self.store_gradients(group, register, self.totals(products))

    @property
    def length(self) -> int:
        """The lanes of a point's products: a power of two, so that they can be summed by halves."""
        return min(self.width, 1 << (self.description.channels - 1).bit_length())

    @property
    def slopes(self) -> list[tuple[int, ...]]:
        """The orders of the sums for the gradient of the weight, and for that of the point."""
        none, *raised = self.orders(1)
        return [none] * ("weights" in self.needed) + raised * ("points" in self.needed)

    @property
    def needed(self) -> frozenset[str]:
        """The names of the arrays whose gradients are needed."""
        return self.description.needed

    def differentiate(
        self,
        group: Group,
        register: Register,
        upstream: Pointer,
        products: Sequence[Pointer],
    ) -> None:
        """Compute the products of the points of a register, and add to the images' gradient."""
        function, length = self.function, self.length
        weights = function.spill(register.weights, soon=True)
        zero = function.constant(0.0, self.real, length)
        if not self.description.is_whole:
            for memory in products:
                with function.loop(0, self.lanes) as point:
                    memory.store(zero, point.index * length)
        with self.each_block() as block:
            values = block.counted([value.to(self.real) for value in block.load(upstream)])
            images = group.images.at(block.first)
            with function.loop(0, register.number) as loop:
                weight = weights.load(loop.index)

                def add(place: Any, sums: Sequence[Value]) -> list[Value]:
                    at_tap = loop.index + place
                    if "images" in self.needed:
                        self.add_tap(group, register, block, at_tap, values, weight)
                    if not sums:
                        return []
                    pixel = self.pixel(images, register.reads.offsets.load(at_tap), self.nothing)
                    terms = []
                    for (first, lanes), value in zip(block.registers, values, strict=True):
                        number = pixel.load(first, lanes).to(self.real)
                        terms.append(padded(number * value, length))
                    product = functools.reduce(operator.add, terms)
                    shares = [register.reads.weights[order].load(at_tap) for order in self.slopes]
                    pairs = zip(shares, sums, strict=True)
                    return [product.mul_add(share.splat(length), own) for share, own in pairs]

                sums = self.over_taps([zero] * len(products), add)
                for memory, total in zip(products, sums, strict=True):
                    row = memory.at(loop.index * length)
                    before = zero if self.description.is_whole else row.load(0, length)
                    row.store(before + total)

    def add_tap(
        self,
        group: Group,
        register: Register,
        block: Block,
        place: Value,
        values: Sequence[Value],
        weight: Value,
    ) -> None:
        """Add the shares of a tap to its pixel."""
        assert group.gradient is not None
        taps, gradient = register.adds, group.gradient.at(block.first)
        none = self.orders(0)[0]
        pixel = self.pixel(gradient, taps.offsets.load(place), self.nowhere)
        share = taps.weights[none].load(place) * weight
        for (first, lanes), value in zip(block.registers, values, strict=True):
            before = pixel.load(first, lanes)
            pixel.store(value.mul_add(share.splat(lanes), before), first)

    def totals(self, products: Sequence[Pointer]) -> list[Value]:
        """Sum the products of each point over lanes."""
        lanes = self.lanes
        places = range(0, self.length * lanes, lanes)
        return [
            sum_neighbours([memory.load(k, lanes, aligned=True) for k in places])
            for memory in products
        ]

    def store_gradients(self, group: Group, register: Register, totals: list[Value]) -> None:
        """Store the gradients of the weights and of the points of a register."""
        call, valid = self.call, register.valid
        first = group.place * call.count
        if "weights" in self.needed:
            slope, *totals = totals
            self.store([valid.select(slope, math.nan)], call.weights_gradient.at(first), register)
        if "points" in self.needed:
            slopes = [valid.select(slope * register.weights, 0.0) for slope in totals]
            self.store(slopes, call.points_gradient.at(first * self.rank), register)


def taps_of(description: Description) -> int:
    """Return the number of taps of a point."""
    return math.prod(rule.method.taps for rule in description.rules)


def counted(tap: Tap, valid: Value, share: Value | None) -> Tap:
    """Return a tap that is dropped unless ``valid``, and whose weight is times a share."""
    present = valid if tap.present is None else tap.present & valid
    weights = tap.weights if share is None else tuple([share * w for w in tap.weights])
    return tap._replace(present=present, weights=weights)


def at(memory: Pointer, steps: Sequence[Value], *places: Value) -> Pointer:
    """Return the memory from a place along the first axes on, given the distances along them."""
    products = [step * place for step, place in zip(steps, places, strict=True)]
    return memory.at(functools.reduce(operator.add, products))


def mixed_lanes(values: Sequence[Value]) -> Value:
    """Return the first lane of each value, then the second of each, and so on, as one value."""
    result, lanes = values[0], values[0].lanes
    for value in values[1:]:
        count = result.lanes
        wide = (
            value if lanes == count else value.shuffle([*range(lanes), *[None] * (count - lanes)])
        )
        result = result.shuffle(range(count + lanes), wide)
    each = len(values)
    return result.shuffle([k % each * lanes + k // each for k in range(each * lanes)])


# Preparation --------------------------------------------------------------------------------------


def bytes_of(description: Description, orders: int) -> int:
    """Return the bytes of a list of taps with weights of so many orders of derivatives."""
    wide = description.offsets == "int64"
    return list_bytes(description.rules, description.lanes, description.real, wide, orders)


@functools.lru_cache(maxsize=256)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    name = "weighted_sum_gradients" if description.needed else "weighted_sum"
    function = Function(name, description.lanes, description.real)
    with entry(function, description.arrays, settings_of(description)) as (task, call):
        writer = Writer(function, description, call)
        (writer.write_gradients if description.needed else writer.write_result)(task)
    return compile(function)


@functools.lru_cache(maxsize=256)
def rules_for(options: SumOptions, real: str) -> tuple[AxisRule, ...]:
    """Return the rules of the axes of images of any sizes."""
    size, dtype = options.levels()[0], np.dtype(real)
    coords = "pixel" if options.coords == "unit" else options.coords
    checked = Options(options.mode, options.padding_mode, options.align_corners, coords)
    plan = plan_of((1, 1, *size), dtype, (1, 1, options.rank), dtype, checked)
    rules = rules_of(plan, (0,) * options.rank, False)
    return tuple([rule._replace(length=SHORT) for rule in rules])


@functools.lru_cache(maxsize=256)
def prepare(
    layouts: tuple[tuple[str, Layout], ...], options: SumOptions, needed: frozenset[str]
) -> Launch:
    """Prepare a program; see `gridsample.kernels.operators`."""
    known = dict(layouts)
    (items, _, heads, channels), *_ = known["images"]
    queries = known["points"][0][1]
    share = max(LEAST_QUERIES, -(-queries // TASKS))
    shares = -(-queries // share)
    description = describe(known, options, needed)
    real = np.dtype(description.real)
    sums_bytes = whole_lines(channels * real.itemsize)
    steps = {name: elements(known[name]) for name in ("images", "points", "weights")}
    record = settings_of(description).pack(
        queries=queries,
        heads=heads,
        count=points_of(known),
        registers=-(-points_of(known) // description.lanes),
        channels=channels,
        share=share,
        shares=shares,
        image_steps=[steps["images"][0], steps["images"][2]],
        point_steps=steps["points"][:3],
        weight_steps=steps["weights"][:3],
        upstream_steps=elements(known["upstream"])[:3] if needed else [0] * 3,
        gradient_steps=[known["images"][0][1] * heads * channels, channels],
        sums_bytes=sums_bytes,
        **levels_of(
            options, description, known["points"][0][4], steps["images"][1], heads * channels
        ),
    )
    tasks = items * (heads if needed else shares)
    scratch = sums_bytes + 2 * bytes_of(description, 1 + options.rank)
    return Launch(program_for(description), record, tasks, scratch)


def describe(
    known: Mapping[str, Layout], options: SumOptions, needed: frozenset[str]
) -> Description:
    """Describe the program for arrays of layouts, by their names."""
    names = ["images", "points", "weights", *(["upstream"] if needed else [])]
    types = [known[name][2] for name in names]
    real = element(real_of(*types[:3]))
    width, points = host().lanes(real), points_of(known)
    lanes = min(width, 1 << (points - 1).bit_length())
    (_, pixels, heads, channels), *_ = known["images"]
    extent = pixels * max(abs(elements(known["images"])[1]), heads * channels)
    return Description(
        kinds=tuple([element(dtype) for dtype in types]),
        real=real,
        rules=rules_for(options, real),
        is_unit=options.coords == "unit",
        lanes=lanes,
        rest=points % lanes,
        channels=block_of(channels, width),
        offsets="int32" if extent < 1 << 31 else "int64",
        needed=needed,
        is_dense=is_dense(known["images"]),
        is_whole=block_of(channels, width) == channels,
    )


def points_of(known: Mapping[str, Layout]) -> int:
    """Return the number of points of a group."""
    shape = known["points"][0]
    return shape[3] * shape[4]


def levels_of(
    options: SumOptions, description: Description, each: int, pixel: int, gradient_pixel: int
) -> dict[str, Any]:
    """Return the settings of the levels of points, for whole registers of points.

    Args:
        options: the options.
        description: the description of the program.
        each: the number of points in each level.
        pixel: the distance between pixels of the images, in elements.
        gradient_pixel: that of their gradient.
    """
    sizes = np.array(options.levels(), np.int64)[:, ::-1]  # x first
    counts, lanes = sizes.prod(1), description.lanes
    begins = np.cumsum(counts) - counts
    steps = np.cumprod(np.insert(sizes[:, :-1], 0, 1, axis=1), 1)

    def of_points(numbers: Array) -> Array:
        points = np.repeat(numbers, each)
        padded = np.pad(points, (0, -len(points) % lanes), "edge")
        return padded.astype(description.offsets)

    def of_axes(numbers: Array) -> list[Array]:
        return [of_points(column) for column in numbers.T]

    return {
        "sizes": of_axes(sizes),
        "strides": of_axes(steps * pixel),
        "gradient_strides": of_axes(steps * gradient_pixel),
        "begins": of_points(begins * pixel),
        "gradient_begins": of_points(begins * gradient_pixel),
    }
