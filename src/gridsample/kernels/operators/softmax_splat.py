"""The programs of `gridsample.operators.softmax_splat`: values splatted with exponential weights.

    result       the means of the values that reach each pixel, with the weights w
    gradients    of the values, the positions and the metric
    total        the sums of the weights w = b * exp(metric - greatest[pixel])
    maximum      the greatest metric of the values that reach each pixel

The last two are programs of operators of their own, `splat_total` and `splat_maximum`, whose
results the first two read.

Points are lanes while their taps are located and weighted.  These are listed in memory, and each
point then adds its channels to its pixels, or reads the upstream values there.

A task of the result has a band of the pixels of an item and looks at all points, so that no other
task adds to the same pixels; there is one for each thread.  A task of the gradients has some
points.  Results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from gridsample.definitions.methods import LINEAR
from gridsample.definitions.operators import SplatOptions, SumOptions
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout
from gridsample.kernels.operators import elements, real_of
from gridsample.kernels.operators.weighted_sum import rules_for
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.sampling.programs.axes import Axis, AxisPixels, AxisRule, Tap
from gridsample.kernels.sampling.programs.interleaving import sum_neighbours
from gridsample.kernels.sampling.programs.listed import Block, blocks, padded, whole_block
from gridsample.kernels.sampling.programs.sums import no_pixel
from gridsample.kernels.sampling.programs.tap_lists import block_of
from gridsample.kernels.vector import Function, Pointer, Program, Record, Value, compile, host

# How many axes at the end of each array must be in C order, without gaps.
CONTIGUOUS = {
    "values": 2, "positions": 2, "metric": 1, "greatest": 1, "total": 1, "upstream": 2, "result": 2,
}  # fmt: skip
# The least numbers of a band of pixels, as each task looks at all points; how many points a task of
# the gradients has.
BAND, POINTS = 1 << 14, 1 << 12


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kinds: the kind of each array that the program takes, by name, in pairs.
        real: the kind of sums.
        rules: the rules of the axes, x first.
        channels: how many channels of the values are processed at a time.
        is_whole: whether these are all channels.
        hard: whether only values of the greatest metric count.
        offsets: the kind of the numbers of pixels.
        needed: the arrays whose gradients are needed; none for the result.
    """

    kinds: tuple[tuple[str, str], ...]
    real: str
    rules: tuple[AxisRule, ...]
    channels: int
    is_whole: bool
    hard: bool
    offsets: str
    needed: frozenset[str]


def settings_of(description: Description) -> Record:
    """Return the layout of the settings."""
    axes = len(description.rules)
    return Record(
        points="int64",
        pixels="int64",
        channels="int64",
        parts="int64",  # tasks of an item
        part="int64",  # pixels of a band, or points of a task
        # Distances of items, in elements.
        steps=("int64", len(CONTIGUOUS)),
        sizes=("int64", axes),
    )


class Corner(NamedTuple):
    """A tap of each point of a register.

    Attributes:
        offset: the number of its pixel.
        present: whether it has one.
        weights: its weight, and the derivatives of this along each axis.
    """

    offset: Value
    present: Value
    weights: Sequence[Value]


# Returns the weight of a tap, and its derivative by the bilinear weight, given the metric, the tap,
# and where it is read.
Weigh = Callable[[Value, Corner, Value], tuple[Value, Value]]


class Writer:
    """Writes a program."""

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        self.width, self.real = function.lanes, function.real
        self.rank = len(description.rules)
        self.zero, self.one = function.constant(0.0, self.real), function.as_index(1)
        corners = 1 << self.rank
        self.offsets = function.scratch(description.offsets, corners, self.width)
        self.weights = function.scratch(self.real, corners, self.width)

    # Points ---------------------------------------------------------------------------------------

    def item(self, name: str, item: Value) -> Pointer:
        """Return an item of an array."""
        place = list(CONTIGUOUS).index(name)
        memory: Pointer = getattr(self.call, name).at(item * self.call.steps[place])
        return memory

    @contextmanager
    def each_register(self, begin: Value, end: Value) -> Iterator[tuple[Value, Value, Value]]:
        """Loop over points, a register of them at a time.

        Yields the first point, their number, and the place of each from there; lanes beyond the
        last point repeat it.
        """
        lane = self.function.vector(range(self.width), "int32")
        with self.function.loop(begin, end, self.width) as loop:
            count = (end - loop.index).minimum(self.width)
            yield loop.index, count, lane.minimum((count - 1).to("int32").splat(self.width))

    def corners(
        self, positions: Pointer, first: Value, places: Value, metric: Value, derivatives: int
    ) -> list[Corner]:
        """Locate the points of a register with a metric, and return their taps."""
        memory, taps, conditions = positions.at(first * self.rank), [], [metric == metric]
        stride: Value = self.function.constant(1, self.description.offsets)
        for axis, rule in enumerate(self.description.rules):
            place = memory.gather(places * self.rank + axis).to(self.real)
            size = self.call.sizes[axis].to(self.description.offsets)
            last = (size - 1).to(self.real)
            pixels = [value.splat(self.width) for value in (size, stride, last)]
            along = Axis(
                self.function, rule, AxisPixels(*pixels),
                unit_stride=False, skips_missed=False, counts_dropped=False,
            )  # fmt: skip
            located = along.locate(place)
            base, t = along.split(located)
            weights = along.weights(base, t, located.slope, derivatives)
            taps.append(along.resolve_boundary(base, weights))
            conditions += [located.valid, place.abs() < math.inf]
            stride = stride * size
        valid = functools.reduce(operator.and_, conditions)
        combined = itertools.product(*reversed(taps))  # x fastest
        return [self.corner(tuple(reversed(each)), valid, derivatives) for each in combined]

    def corner(self, taps: Sequence[Tap], valid: Value, derivatives: int) -> Corner:
        """Combine the taps along each axis."""
        offset = functools.reduce(operator.add, [tap.offset for tap in taps])
        conditions = [valid, *[tap.present for tap in taps if tap.present is not None]]
        none = [0] * self.rank
        orders = [none, *[[int(a == b) for b in range(self.rank)] for a in range(self.rank)]]
        weights = [
            functools.reduce(
                operator.mul,
                [tap.weights[n].splat(self.width) for tap, n in zip(taps, order, strict=True)],
            )
            for order in orders[: 1 + derivatives * self.rank]
        ]
        return Corner(offset, functools.reduce(operator.and_, conditions), weights)

    def share(self, metric: Value, greatest: Value) -> Value:
        """Return the weight of points with a metric, given the greatest one of their pixels."""
        difference = metric - greatest
        if self.description.hard:
            return (difference < 0.0).select(0.0, metric.like(1.0))
        # A point whose weight is 0 may have a greater one.
        return exp((difference <= 0.0).select(difference, 0.0))

    def store(self, k: int, corner: Corner, present: Value, weight: Value) -> None:
        """List a tap of each point of a register."""
        missing = no_pixel(self.offsets.kind)
        self.offsets.store_in_parts(present.select(corner.offset, missing), k * self.width)
        self.weights.store_in_parts(present.select(weight, 0.0), k * self.width)

    def each_block(self) -> AbstractContextManager[Block]:
        """Loop over the channels, some at a time; usually, all at once."""
        if self.description.is_whole:
            return nullcontext(whole_block(self.width, self.description.channels))
        return blocks(self.function, self.width, self.description.channels, self.call.channels)

    # The result -----------------------------------------------------------------------------------

    def write_result(self, task: Value) -> None:
        """Write the program of a task: the means of a band of the pixels of an item."""
        call = self.call
        item = task // call.parts
        values, total = self.item("values", item), self.item("total", item)
        target = call.result.at(item * call.pixels * call.channels)

        def add(point: Value, lane: Value) -> None:
            with self.each_block() as block:
                own = block.counted(block.load(values.at(point * call.channels)))
                with self.each_tap(lane) as (offset, weight):
                    pixel = target.at(offset * call.channels).at(block.first)
                    for (first, lanes), value in zip(block.registers, own, strict=True):
                        before = pixel.load(first, lanes)
                        pixel.store(value.mul_add(weight.splat(lanes), before), first)

        self.scatter(task, target, 0.0, call.channels, self.weigher(item, total), add)

    def weigher(self, item: Value, total: Pointer | None) -> Weigh:
        """Return what weighs the taps of an item, relative to the sums of weights if given."""
        greatest, tiny = self.item("greatest", item), float(np.finfo(self.real.name).tiny)

        def weigh(metric: Value, corner: Corner, inside: Value) -> tuple[Value, Value]:
            share = self.share(metric, greatest.gather(corner.offset, inside))
            weight = corner.weights[0] * share
            if total is None:
                return weight, share
            sums = total.gather(corner.offset, inside)
            # A pixel with only a tap of the weight 0 has no value.
            has_value = sums > 0.0
            # The sum of tiny weights may be so small that its inverse overflows.
            slope = share / sums.maximum(tiny)
            return has_value.select(weight / sums, 0.0), has_value.select(slope, 0.0)

        return weigh

    def write_total(self, task: Value) -> None:
        """Write the program of a task: the sums of the weights of a band of pixels."""
        item = task // self.call.parts
        target = self.call.result.at(item * self.call.pixels)

        def add(point: Value, lane: Value) -> None:
            with self.each_tap(lane) as (offset, weight):
                target.store(target.load(offset) + weight, offset)

        self.scatter(task, target, 0.0, self.one, self.weigher(item, None), add)

    def write_maximum(self, task: Value) -> None:
        """Write the program of a task: the greatest metric of a band of pixels."""
        target = self.call.result.at(task // self.call.parts * self.call.pixels)

        def add(point: Value, lane: Value) -> None:
            with self.each_tap(lane) as (offset, metric):
                target.store(metric.maximum(target.load(offset)), offset)

        self.scatter(task, target, -math.inf, self.one, None, add)

    def scatter(
        self,
        task: Value,
        target: Pointer,
        initial: float,
        width: Value,
        weigh: Weigh | None,
        add: Callable[[Value, Value], None],
    ) -> None:
        """Set a band of pixels to a number, and call ``add`` for each point with a tap in it.

        Args:
            task: the task.
            target: the pixels of its item.
            initial: the number.
            width: the channels of a pixel.
            weigh: returns the weight of a tap; None to list the metric itself.
            add: takes a point, and its lane in the list.
        """
        call, function = self.call, self.function
        item, part = task // call.parts, task % call.parts
        begin = part * call.part
        end = (begin + call.part).minimum(call.pixels)
        number = function.constant(initial, self.real)
        target.at(begin * width).fill(number, (end - begin) * width, self.width)
        positions, metric = self.item("positions", item), self.item("metric", item)
        limits = [limit.to(self.offsets.kind).splat(self.width) for limit in (begin, end)]
        with self.each_register(function.as_index(0), call.points) as (first, count, places):
            numbers = metric.at(first).gather(places)
            corners = self.corners(positions, first, places, numbers, 0)
            conditions = [
                corner.present
                & (corner.weights[0] > 0.0)
                & (corner.offset >= limits[0])
                & (corner.offset < limits[1])
                for corner in corners
            ]
            with function.when(functools.reduce(operator.or_, conditions).any()):
                for k, (corner, inside) in enumerate(zip(corners, conditions, strict=True)):
                    if weigh is None:
                        self.store(k, corner, inside, numbers)
                        continue
                    weight, _ = weigh(numbers, corner, inside)
                    # Values without a weight are left out: they may be NaN.
                    self.store(k, corner, inside & (weight > 0.0), weight)
                with function.loop(0, count) as loop:
                    add(first + loop.index, loop.index)

    @contextmanager
    def each_tap(self, lane: Value) -> Iterator[tuple[Value, Value]]:
        """Loop over the taps of a point that are listed: their pixels and weights."""
        function = self.function
        with function.loop(lane, (1 << self.rank) * self.width, self.width) as loop:
            offset, weight = self.offsets.load(loop.index), self.weights.load(loop.index)
            with function.when(offset != no_pixel(offset.kind)):
                yield offset.to("int64"), weight

    # The gradients --------------------------------------------------------------------------------

    def write_nothing(self, task: Value) -> None:
        """Write the program of gradients that are all 0."""

    def write_gradients(self, task: Value) -> None:
        """Write the program of a task: some points of an item."""
        call, function, corners = self.call, self.function, range(1 << self.rank)
        item, part = task // call.parts, task % call.parts
        positions, metric = self.item("positions", item), self.item("metric", item)
        weigh = self.weigher(item, self.item("total", item))
        names = ("values", "upstream", "result")
        values, upstream, result = (self.item(name, item) for name in names)
        nothing = function.scratch(self.real, self.description.channels)
        nothing.fill(self.zero, self.description.channels, 1)
        products = function.scratch(self.real, len(corners) * self.width, self.width)
        begin = part * call.part
        end = (begin + call.part).minimum(call.points)
        with self.each_register(begin, end) as (first, count, places):
            numbers = metric.at(first).gather(places)
            taps = self.corners(positions, first, places, numbers, 1)
            weights = [weigh(numbers, tap, tap.present) for tap in taps]
            for k, (tap, (weight, _)) in enumerate(zip(taps, weights, strict=True)):
                self.store(k, tap, tap.present, weight)
            with function.loop(0, count) as loop:
                point = first + loop.index
                place = (item * call.points + point) * call.channels
                own = values.at(point * call.channels)
                memories = own, upstream, result, nothing, products
                self.differentiate_point(loop.index, *memories, place)
            totals = []
            for k in corners:
                rows = range(k * self.width, (k + 1) * self.width)
                registers = [products.load(row * self.width, self.width) for row in rows]
                totals.append(sum_neighbours(registers))
            self.store_gradients(taps, weights, totals, item * call.points + first, count)

    def differentiate_point(
        self,
        lane: Value,
        values: Pointer,
        upstream: Pointer,
        result: Pointer,
        nothing: Pointer,
        products: Pointer,
        place: Value,
    ) -> None:
        """Store the gradient of a point's values, and what its taps add to the other gradients.

        That is the product of upstream values with the difference of the point from the mean.
        """
        call, width, needed = self.call, self.width, self.description.needed
        with self.each_block() as block:
            own = block.load(values)
            totals = block.splat(self.zero)
            for k in range(1 << self.rank):
                at_tap = lane + k * width
                offset, weight = self.offsets.load(at_tap), self.weights.load(at_tap)
                pixel = (offset.to("int64") * call.channels, offset != no_pixel(offset.kind))
                numbers = self.read(block, upstream, *pixel, nothing)
                totals = [
                    number.mul_add(weight.splat(number.lanes), total)
                    for number, total in zip(numbers, totals, strict=True)
                ]
                if needed <= {"values"}:
                    continue
                means = self.read(block, result, *pixel, nothing)
                terms = [
                    padded((value - mean) * number, width)
                    for value, mean, number in zip(own, means, block.counted(numbers), strict=True)
                ]
                product = functools.reduce(operator.add, terms)
                if not self.description.is_whole:
                    before = products.load(at_tap * width, width)
                    is_first = self.function.as_index(block.first) == 0
                    product = product + is_first.splat(width).select(0.0, before)
                products.store(product, at_tap * width)
            if "values" in needed:
                target = call.values_gradient.at(place).at(block.first)
                for (first, _), total in zip(block.registers, totals, strict=True):
                    target.store(total, first)

    def read(
        self, block: Block, memory: Pointer, offset: Value, present: Value, nothing: Pointer
    ) -> list[Value]:
        """Read some channels of a pixel; 0 if it is not present."""
        address = present.select(memory.at(offset).at(block.first).address, nothing.address)
        pixel = Pointer(address, self.real)
        return [pixel.load(first, lanes) for first, lanes in block.registers]

    def store_gradients(
        self,
        taps: Sequence[Corner],
        weights: Sequence[tuple[Value, Value]],
        totals: Sequence[Value],
        place: Value,
        count: Value,
    ) -> None:
        """Store the gradients of the metric and the positions of the points of a register."""
        call, needed = self.call, self.description.needed
        zero = self.zero.splat(self.width)
        columns = [zero] * (1 + self.rank)
        for tap, (weight, slope), total in zip(taps, weights, totals, strict=True):
            is_used = tap.present & (slope > 0.0)
            factors = [weight, *[slope * derivative for derivative in tap.weights[1:]]]
            for n, factor in enumerate(factors):
                columns[n] = columns[n] + is_used.select(factor * total, 0.0)
        if self.description.hard:
            columns[0] = zero
        memories = [self.function.spill(column) for column in columns]
        with self.function.loop(0, count) as loop:
            if "metric" in needed:
                call.metric_gradient.store(memories[0].load(loop.index), place + loop.index)
            for axis in range(self.rank if "positions" in needed else 0):
                number = memories[1 + axis].load(loop.index)
                call.positions_gradient.store(number, (place + loop.index) * self.rank + axis)


def exp(x: Value) -> Value:
    """Return e to the power of numbers that are at most 0; 0 if the result is not normal."""
    is_double = x.kind.name == "float64"
    least, terms = (-708.0, 14) if is_double else (-87.0, 8)
    small, x = x < least, x.maximum(least)
    # x = n log 2 + f, where the first part of log 2 has few bits, so that its product is exact.
    n = (x * (1 / math.log(2))).rint()
    f = n.mul_add(-1.42860682030941723212e-6, n.mul_add(-0.693145751953125, x))
    power = x.like(1 / math.factorial(terms - 1))
    for k in range(terms - 2, -1, -1):
        power = power.mul_add(f, 1 / math.factorial(k))
    kind, bias, bits = ("int64", 1023, 52) if is_double else ("int32", 127, 23)
    scale = ((n.to(kind) + bias) << bits).bitcast(x.kind)
    return small.select(0.0, power * scale)


# Preparation --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def program_for(description: Description, name: str) -> Program:
    """Write and compile a program: a method of `Writer`."""
    function = Function(name, host().lanes(description.real), description.real)
    with entry(function, dict(description.kinds), settings_of(description)) as (task, call):
        getattr(Writer(function, description, call), name)(task)
    return compile(function)


@functools.lru_cache(maxsize=256)
def prepare(
    layouts: tuple[tuple[str, Layout], ...], options: SplatOptions, needed: frozenset[str]
) -> Launch:
    """Prepare a program; see `gridsample.kernels.operators`.

    The gradient of ``greatest`` is 0: results do not depend on it after they are divided by the sum
    of their weights.
    """
    return launch_of(layouts, options, needed, "write_gradients" if needed else "write_result")


@functools.lru_cache(maxsize=256)
def prepare_constant(
    layouts: tuple[tuple[str, Layout], ...],
    options: SplatOptions,
    needed: frozenset[str],
    name: str,
) -> Launch:
    """Prepare a method of `Writer` whose result has no gradients: these are 0, and no task runs."""
    launch = launch_of(layouts, options, needed, "write_nothing" if needed else name)
    return launch._replace(tasks=0) if needed else launch


def launch_of(
    layouts: tuple[tuple[str, Layout], ...],
    options: SplatOptions,
    needed: frozenset[str],
    name: str,
) -> Launch:
    """Prepare a method of `Writer` for arrays of layouts."""
    known = dict(layouts)
    description = describe(known, options, needed)
    pixels, (items, points) = math.prod(options.size), known["metric"][0]
    channels = known["values"][0][2] if "values" in known else 1
    if needed:
        part = POINTS
        parts = -(-points // part)
    else:
        # Pixels have the same numbers in any band, whose number therefore need not be fixed.
        threads = options.threads or pool.cores()
        bands = max(1, min(-(-threads // items), pixels * channels // BAND))
        part = -(-pixels // bands)
        parts = -(-pixels // part)
    steps = [elements(known[array])[0] if array in known else 0 for array in CONTIGUOUS]
    record = settings_of(description).pack(
        points=points,
        pixels=pixels,
        channels=channels,
        parts=parts,
        part=part,
        steps=steps,
        sizes=options.size[::-1],
    )
    return Launch(program_for(description, name), record, items * parts)


def describe(
    known: Mapping[str, Layout], options: SplatOptions, needed: frozenset[str]
) -> Description:
    """Describe the program for arrays of layouts, by their names."""
    real = element(real_of(*[layout[2] for layout in known.values()]))
    if {element(layout[2]) for layout in known.values()} != {real}:
        raise TypeError(f"all arrays must be {real}")
    results = [f"{array}_gradient" for array in CONTIGUOUS if array in needed] or ["result"]
    kinds = {name: element(layout[2]) for name, layout in known.items()}
    kinds |= dict.fromkeys(results, real)
    channels = known["values"][0][2] if "values" in known else 1
    block, rank = block_of(channels, host().lanes(real)), len(options.size)
    rules = SumOptions(
        options.size, rank, (LINEAR,) * rank, options.padding_mode, False, "pixel", None
    )
    return Description(
        kinds=tuple(kinds.items()),
        real=real,
        rules=rules_for(rules, real),
        channels=block,
        is_whole=block == channels,
        hard=options.hard,
        offsets="int32" if math.prod(options.size) < 1 << 31 else "int64",
        needed=needed,
    )
