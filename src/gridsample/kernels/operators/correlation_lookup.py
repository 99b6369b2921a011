"""The programs of `gridsample.operators.correlation_lookup`: windows of dot products.

    result       windows of samples of the correlation, around each query's position in each level
    gradients    of the source, the images and the positions

The samples of a window are whole pixels apart, and so share their taps: along each axis, the K of
them are blends of T = K + 1 pixels, with the same two weights.  A program therefore computes T**D
dot products of channels, and then blends them, or blends upstream values in the transposed way and
multiplies pixels by these.  The numbers of a window are in memory with the last axis (z, or y, or
x) fastest, as those of the result are.

A task of the gradients has some queries, whose gradients of the source and the positions are its
own; or some channels of an item, to whose pixels it adds for all queries.  No two tasks add to the
same numbers, so results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.operators import LookupOptions, correlation_scale
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout
from gridsample.kernels.operators import elements, real_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.sampling.programs.interleaving import sum_neighbours
from gridsample.kernels.sampling.programs.listed import Block, blocks, padded, whole_block
from gridsample.kernels.sampling.programs.tap_lists import block_of
from gridsample.kernels.vector import Function, Pointer, Program, Record, Value, compile, host

# How many axes at the end of each array must be in C order, without gaps.
CONTIGUOUS = {"source": 1, "images": 2, "positions": 1, "upstream": 1}
# The least number of queries of a task, and about how many tasks an item has.
LEAST_QUERIES, TASKS = 8, 32


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kinds: the kinds of the source, images, positions and the upstream gradient.
        real: the kind of sums.
        rank: the number of axes.
        radius: the radius of windows.
        channels: how many channels are processed at a time where pixels are multiplied by weights.
        is_whole: whether these are all channels.
        is_divided: whether tasks of the images' gradient have these channels each.
        rest: how many channels there are beyond whole registers.
        needed: the arrays whose gradients are needed; none for the result.
    """

    kinds: tuple[str, ...]
    real: str
    rank: int
    radius: int
    channels: int
    is_whole: bool
    is_divided: bool
    rest: int
    needed: frozenset[str]

    @property
    def arrays(self) -> dict[str, str]:
        """The kinds of all arrays that the program takes, by name."""
        names = ("source", "images", "positions", "upstream")
        kinds = dict(zip(names, self.kinds, strict=False))
        if not self.needed:
            return {**kinds, "result": kinds["source"]}
        gradients = {**kinds, "images": self.real}
        return {**kinds, **{f"{n}_gradient": gradients[n] for n in names if n in self.needed}}

    @property
    def samples(self) -> int:
        """The number of samples of a window along each axis."""
        return 2 * self.radius + 1

    @property
    def taps(self) -> int:
        """The number of taps of a window along each axis."""
        return self.samples + 1

    @property
    def steps(self) -> list[int]:
        """The distances of taps along each axis, in memory of all taps of a window."""
        return [self.taps ** (self.rank - 1 - axis) for axis in range(self.rank)]


def settings_of(description: Description) -> Record:
    """Return the layout of the settings."""
    return Record(
        queries="int64",
        share="int64",  # queries of a task
        shares="int64",  # tasks of the queries of an item
        parts="int64",  # tasks of the channels of an item
        image_tasks="int64",  # tasks of channels, which are the first
        channels="int64",
        samples="int64",  # of a window
        levels="int64",
        # Distances in elements: between items, and between queries.
        source_steps=("int64", 2),
        image_step="int64",
        gradient_step="int64",
        position_steps=("int64", 2),
        upstream_steps=("int64", 2),
        pixels="int64",  # of all levels
        # Of each level: its sizes and the distances of its pixels along each axis, x first; its
        # first pixel; and its pixels for each pixel of the first level along an axis.
        sizes=("*int64", description.rank),
        strides=("*int64", description.rank),
        begins="*int64",
        shrinks=f"*{description.real}",
        scale="float64",  # of dot products
    )


class Along(NamedTuple):
    """A window along one axis.

    Attributes:
        first: the first tap, in pixels.
        begin: the first tap that is inside the image, counted from the first of the window.
        end: the end of these; not after ``begin`` if there is none.
        stride: the distance of pixels along the axis, in pixels.
        weights: the weights of the two taps of a sample.
    """

    first: Value
    begin: Value
    end: Value
    stride: Value
    weights: tuple[Value, Value]


class Window(NamedTuple):
    """A window around a position in a level.

    Attributes:
        axes: the window along each axis, x first.
        begin: the first pixel of the level.
        shrink: the pixels of the level for each pixel of the first one.
        valid: whether the position is; otherwise, no tap is inside.
        number: the number of its first sample among those of all levels.
    """

    axes: Sequence[Along]
    begin: Value
    shrink: Value
    valid: Value
    number: Value


class Writer:
    """Writes a program."""

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        self.width, self.real = function.lanes, function.real
        self.rank, self.steps = description.rank, description.steps
        self.taps, self.samples = description.taps, description.samples
        # The axes in the order of pixels in memory: x is innermost.
        self.memory_order = range(self.rank)[::-1]
        self.zero = function.constant(0.0, self.real)
        # All taps of a window; before them, memory for those before the first of each axis.
        memory = call.scratch.cast(self.real)
        self.spread = memory.at(sum(self.steps))
        self.before = memory
        each = self.size(1)
        self.lists = [memory.at((k + 1) * each) for k in range(1 + self.rank)]
        # Of all channels of a query, or of some channels of all pixels.
        self.sums = memory.at((2 + self.rank) * each)

    def size(self, windows: int) -> int:
        """Return the memory of the taps of windows, in numbers: whole lines, and space around."""
        return windows * numbers_of(self.description)

    # Windows --------------------------------------------------------------------------------------

    def position(self, item: Value, query: Value) -> list[Value]:
        """Read the position of a query, x first."""
        memory = at(self.call.positions, self.call.position_steps, item, query)
        return [memory.load(axis).to(self.real) for axis in range(self.rank)]

    @contextmanager
    def each_window(self, position: Sequence[Value]) -> Iterator[Window]:
        """Loop over the windows of all levels around a position."""
        call, number = self.call, self.description.samples**self.rank
        with self.function.loop(0, call.levels) as loop:
            level = loop.index
            shrink = call.shrinks.load(level)
            places = [coordinate * shrink for coordinate in position]
            valid = functools.reduce(lambda a, b: a & b, [place == place for place in places])
            axes = []
            for axis, place in enumerate(places):
                size, stride = call.sizes[axis].load(level), call.strides[axis].load(level)
                axes.append(self.along(place, size, stride, valid))
            yield Window(axes, call.begins.load(level), shrink, valid, level * number)

    def along(self, place: Value, size: Value, stride: Value, valid: Value) -> Along:
        """Return the window around a place along one axis."""
        # Windows that are far outside are moved close to the image, so that integers hold them.
        limit = size.to(self.real) + float(self.taps + 1)
        near = (place == place).select(place, 0.0).minimum(limit).maximum(-float(self.taps + 1))
        whole = near.floor()
        fraction = near - whole
        first = whole.to("int64") - self.description.radius
        begin, end = (-first).maximum(0), (size - first).minimum(self.taps)
        return Along(first, begin, valid.select(end, 0), stride, (1.0 - fraction, fraction))

    def over_taps(
        self,
        window: Window,
        carried: Sequence[Value],
        add: Callable[[Value, Value, Sequence[Value]], Sequence[Value]],
        axes: Sequence[int],
    ) -> list[Value]:
        """Loop over the taps inside the image along some axes, from the outermost to the innermost.

        ``add`` takes the place of a tap in memory of windows, the number of its pixel, and what the
        call before returned.
        """

        def loop_over(
            rest: Sequence[int], place: Value, number: Value, values: Sequence[Value]
        ) -> list[Value]:
            if not rest:
                return [*add(place, number, values)]
            axis, *inner = rest
            first, begin, end, stride, _ = window.axes[axis]
            with self.function.loop(begin, end, carry=values) as loop:
                pixel = number + (first + loop.index) * stride
                tap = place + loop.index * self.steps[axis]
                loop.carry(*loop_over(inner, tap, pixel, loop.carried))
            return loop.carried

        return loop_over(axes, self.function.as_index(0), window.begin, carried)

    def each_row(self, write: Callable[[Value, Value], None]) -> None:
        """Call ``write`` with the places of each row of samples: among taps, and among samples."""
        steps = [self.samples ** (self.rank - 1 - axis) for axis in range(self.rank)]

        def loop_over(axis: int, tap: Value, sample: Value) -> None:
            if axis == self.rank - 1:
                write(tap, sample)
                return
            with self.function.loop(0, self.samples) as loop:
                index = loop.index
                loop_over(axis + 1, tap + index * self.steps[axis], sample + index * steps[axis])

        zero = self.function.as_index(0)
        loop_over(0, zero, zero)

    def pieces(self) -> list[tuple[int, int]]:
        """Return the pieces of a row of samples: the first of each, and their number."""
        return [(k, min(self.width, self.samples - k)) for k in range(0, self.samples, self.width)]

    # The result -----------------------------------------------------------------------------------

    def write_result(self, task: Value) -> None:
        """Write the program of a task: some queries of an item."""
        call, dots = self.call, self.lists[0]
        with self.each_query(task) as (item, query):
            source = at(call.source, call.source_steps, item, query)
            images = call.images.at(item * call.image_step)
            target = call.result.at((item * call.queries + query) * call.samples)
            with self.each_window(self.position(item, query)) as window:
                dots.fill(self.zero, self.taps**self.rank, self.width)
                self.multiply(window, source, images, dots)
                self.blend(window, dots, target.at(window.number))

    @contextmanager
    def each_query(self, task: Value) -> Iterator[tuple[Value, Value]]:
        """Loop over the queries of a task; also yield the item."""
        call = self.call
        item, part = task // call.shares, task % call.shares
        first = part * call.share
        with self.function.loop(first, (first + call.share).minimum(call.queries)) as loop:
            yield item, loop.index

    def multiply(self, window: Window, source: Pointer, images: Pointer, dots: Pointer) -> None:
        """Store the dot products of the source with the pixels of a window."""
        function, width, last = self.function, self.width, self.rank - 1
        groups = -(-self.taps // width)
        count = -(-self.taps // groups)  # of pixels at a time
        first, begin, end, stride, _ = window.axes[last]
        lane = function.vector(range(width), "int64")

        def add(place: Value, number: Value, _: Sequence[Value]) -> Sequence[Value]:
            with function.loop(begin, end, count) as loop:
                taps = [(loop.index + k).minimum(end - 1) for k in range(count)]
                numbers = [number + (first + tap) * stride for tap in taps]
                pixels = [images.at(pixel * self.call.channels) for pixel in numbers]
                sums = sum_neighbours(self.products(source, pixels))
                inside = lane < (end - loop.index).splat(width)
                # What this writes beyond the row is written again by the next one.
                dots.at(place).store(inside.select(sums, 0.0), loop.index)
            return []

        self.over_taps(window, [], add, range(last))

    def products(self, source: Pointer, pixels: Sequence[Pointer]) -> list[Value]:
        """Return a register for each pixel, whose lanes sum to its dot product; ``width`` of them.

        Registers without a pixel are 0.
        """
        function, width, rest = self.function, self.width, self.description.rest
        zero = self.zero.splat(width)
        whole = self.call.channels - rest
        with function.loop(0, whole, width, carry=[zero] * len(pixels)) as loop:
            own = source.load(loop.index, width).to(self.real)
            loaded = [pixel.load(loop.index, width).to(self.real) for pixel in pixels]
            pairs = zip(loaded, loop.carried, strict=True)
            loop.carry(*[value.mul_add(own, total) for value, total in pairs])
        sums = loop.carried
        if rest:
            own = source.load(whole, rest).to(self.real)
            loaded = [pixel.load(whole, rest).to(self.real) * own for pixel in pixels]
            pairs = zip(loaded, sums, strict=True)
            sums = [total + padded(value, width) for value, total in pairs]
        return [*sums, *[zero] * (width - len(sums))]

    def blend(self, window: Window, dots: Pointer, target: Pointer) -> None:
        """Store the samples of a window, given the dot products of its taps."""
        scale = self.call.scale.to(self.real)

        def write(tap: Value, sample: Value) -> None:
            for first, lanes in self.pieces():
                values = [
                    dots.at(tap + sum(steps)).load(first, lanes) for steps in corners(self.steps)
                ]
                value = blended(values, [along.weights for along in window.axes]) * scale
                value = window.valid.splat(lanes).select(value, math.nan)
                target.at(sample).store(value.to(target.kind), first)

        self.each_row(write)

    # The gradients --------------------------------------------------------------------------------

    def write_gradients(self, task: Value) -> None:
        """Write the program of a task: some channels of the images, or some queries."""
        call, needed = self.call, self.description.needed
        # The places beyond the last sample along an axis stay 0.
        self.before.fill(self.zero, self.size(1), self.width)
        if needed == {"images"}:
            self.differentiate_images(task)
        elif "images" not in needed:
            self.differentiate_queries(task)
        else:
            with self.function.when(task < call.image_tasks):
                self.differentiate_images(task)
            with self.function.when(task >= call.image_tasks):
                self.differentiate_queries(task - call.image_tasks)

    def list_weights(self, window: Window, upstream: Pointer, slopes: bool) -> None:
        """List the weights of a window's taps: upstream values, blended in the transposed way.

        ``slopes`` also lists their derivatives along each axis.
        """
        spread, scale = self.spread, self.call.scale.to(self.real)

        def write(tap: Value, sample: Value) -> None:
            for first, lanes in self.pieces():
                value = upstream.at(sample).load(first, lanes).to(self.real)
                spread.at(tap).store(value * scale, first)

        self.each_row(write)
        weights = [along.weights for along in window.axes]
        slope = self.function.constant(-1.0, self.real), self.function.constant(1.0, self.real)
        with self.function.loop(0, self.taps**self.rank, self.width) as loop:
            values = [
                spread.at(loop.index - sum(steps)).load(0, self.width)
                for steps in corners(self.steps)
            ]
            self.lists[0].store(blended(values, weights), loop.index)
            for axis in range(self.rank if slopes else 0):
                mixed = [*weights[:axis], slope, *weights[axis + 1 :]]
                self.lists[1 + axis].store(blended(values, mixed), loop.index)

    def differentiate_images(self, task: Value) -> None:
        """Compute the gradient of some channels of an item's images.

        Those of a part are added up in memory of their own, in which the pixels of a window are
        closer together, and so stay in the cache.
        """
        call, channels = self.call, self.description.channels
        item, part = task // call.parts, task % call.parts
        gradient = call.images_gradient.at(item * call.gradient_step)
        target, width = gradient, call.channels
        if self.description.is_divided:
            target, width = self.sums, self.function.as_index(channels)
            target.fill(self.zero, call.pixels * channels, self.width)
        with self.function.loop(0, call.queries) as query:
            source = at(call.source, call.source_steps, item, query.index)
            upstream = at(call.upstream, call.upstream_steps, item, query.index)
            with self.each_window(self.position(item, query.index)) as window:
                self.list_weights(window, upstream.at(window.number), slopes=False)
                with self.each_block(part) as block:
                    values = [value.to(self.real) for value in block.load(source)]
                    first = 0 if self.description.is_divided else block.first
                    memory = target.at(first)
                    self.add_pixels(window, memory, width, block, block.counted(values))
        if self.description.is_divided:
            with self.function.loop(0, call.pixels) as pixel, self.each_block(part) as block:
                values = block._replace(first=0).load(target.at(pixel.index * channels))
                home = gradient.at(pixel.index * call.channels).at(block.first)
                for (first, _), value in zip(block.registers, values, strict=True):
                    home.store(value, first)

    def add_pixels(
        self,
        window: Window,
        gradient: Pointer,
        width: Value,
        block: Block,
        values: Sequence[Value],
    ) -> None:
        """Add some values to pixels of a width, times the weights of a window's taps."""

        def add(place: Value, number: Value, _: Sequence[Value]) -> Sequence[Value]:
            pixel, weight = gradient.at(number * width), self.lists[0].load(place)
            for (first, lanes), value in zip(block.registers, values, strict=True):
                pixel.store(value.mul_add(weight.splat(lanes), pixel.load(first, lanes)), first)
            return []

        self.over_taps(window, [], add, self.memory_order)

    def differentiate_queries(self, task: Value) -> None:
        """Store the gradients of the source and the positions of some queries."""
        call, needed = self.call, self.description.needed
        slopes = self.function.scratch(self.real, self.rank)
        with self.each_query(task) as (item, query):
            source = at(call.source, call.source_steps, item, query)
            images = call.images.at(item * call.image_step)
            upstream = at(call.upstream, call.upstream_steps, item, query)
            if "source" in needed:
                self.sums.fill(self.zero, call.channels, self.width)
            for axis in range(self.rank):
                slopes.store(self.zero, axis)
            with self.each_window(self.position(item, query)) as window:
                self.list_weights(window, upstream.at(window.number), "positions" in needed)
                with self.each_block(None) as block:
                    self.sum_pixels(window, images, block, source, slopes)
            place = item * call.queries + query
            if "source" in needed:
                self.store_sums(call.source_gradient.at(place * call.channels))
            if "positions" in needed:
                target = call.positions_gradient.at(place * self.rank)
                for axis in range(self.rank):
                    target.store(slopes.load(axis).to(target.kind), axis)

    def sum_pixels(
        self, window: Window, images: Pointer, block: Block, source: Pointer, slopes: Pointer
    ) -> None:
        """Sum the weighted pixels of a window, and add them to the gradients of a query."""
        needed, width = self.description.needed, self.width
        lists = self.lists[:1] * ("source" in needed)
        lists += self.lists[1:] * ("positions" in needed)
        zeros = block.splat(self.zero)

        def add(place: Value, number: Value, totals: Sequence[Value]) -> Sequence[Value]:
            pixel = images.at(number * self.call.channels).at(block.first)
            weights = [memory.load(place) for memory in lists]
            values = [pixel.load(*register).to(self.real) for register in block.registers]
            products = itertools.product(weights, values)
            return [
                value.mul_add(weight.splat(value.lanes), total)
                for (weight, value), total in zip(products, totals, strict=True)
            ]

        totals = self.over_taps(window, zeros * len(lists), add, self.memory_order)
        each = len(block.registers)
        sums = [block.counted(totals[k : k + each]) for k in range(0, len(totals), each)]
        if "source" in needed:
            memory, (own, *sums) = self.sums.at(block.first), sums
            for (first, lanes), total in zip(block.registers, own, strict=True):
                memory.store(memory.load(first, lanes) + total, first)
        values = [value.to(self.real) for value in block.load(source)]
        for axis, along in enumerate(sums):
            products = [
                padded(value * total, width) for value, total in zip(values, along, strict=True)
            ]
            share = functools.reduce(lambda a, b: a + b, products).sum()
            slopes.store(share.mul_add(window.shrink, slopes.load(axis)), axis)

    def store_sums(self, target: Pointer) -> None:
        """Store the sums of all channels."""
        rest = self.description.rest
        whole = self.call.channels - rest
        with self.function.loop(0, whole, self.width) as loop:
            target.store(self.sums.load(loop.index, self.width).to(target.kind), loop.index)
        if rest:
            target.store(self.sums.load(whole, rest).to(target.kind), whole)

    def each_block(self, part: Value | None) -> AbstractContextManager[Block]:
        """Loop over the channels, some at a time; or over those of a part."""
        channels = self.description.channels
        if self.description.is_whole:
            return nullcontext(whole_block(self.width, channels))
        if part is not None and self.description.is_divided:
            return nullcontext(whole_block(self.width, channels)._replace(first=part * channels))
        return blocks(self.function, self.width, channels, self.call.channels)


def corners(steps: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the steps to both taps along each axis, of all combinations, the last axis fastest."""
    return [*itertools.product(*[(0, step) for step in steps])]


def blended(values: Sequence[Value], weights: Sequence[tuple[Value, Value]]) -> Value:
    """Return the weighted sum of values at `corners`, given the weights along each axis."""
    for near, far in weights:
        half = len(values) // 2
        pairs = zip(values[:half], values[half:], strict=True)
        lanes = values[0].lanes
        values = [b.mul_add(far.splat(lanes), a * near.splat(lanes)) for a, b in pairs]
    return values[0]


def at(memory: Pointer, steps: Sequence[Value], item: Value, query: Value) -> Pointer:
    """Return the memory of a query of an item, given the distances of items and of queries."""
    return memory.at(item * steps[0] + query * steps[1])


# Preparation --------------------------------------------------------------------------------------


def numbers_of(description: Description) -> int:
    """Return the numbers of the memory of a window, with space around for whole registers."""
    line = CACHES.line // np.dtype(description.real).itemsize
    taps = int(description.taps**description.rank)
    return -(-(taps + sum(description.steps) + host().lanes(description.real)) // line) * line


@functools.lru_cache(maxsize=256)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    name = "correlation_lookup_gradients" if description.needed else "correlation_lookup"
    function = Function(name, host().lanes(description.real), description.real)
    with entry(function, description.arrays, settings_of(description)) as (task, call):
        writer = Writer(function, description, call)
        (writer.write_gradients if description.needed else writer.write_result)(task)
    return compile(function)


@functools.lru_cache(maxsize=256)
def prepare(
    layouts: tuple[tuple[str, Layout], ...], options: LookupOptions, needed: frozenset[str]
) -> Launch:
    """Prepare a program; see `gridsample.kernels.operators`."""
    known = dict(layouts)
    description = describe(known, options, needed)
    (items, queries, channels), pixels = known["source"][0], known["images"][0][1]
    steps = {name: elements(layout) for name, layout in known.items()}
    share = max(LEAST_QUERIES, -(-queries // TASKS))
    shares = -(-queries // share)
    parts = channels // description.channels if description.is_divided else 1
    image_tasks = items * parts if "images" in needed else 0
    query_tasks = 0 if needed == {"images"} else items * shares
    record = settings_of(description).pack(
        queries=queries,
        share=share,
        shares=shares,
        parts=parts,
        image_tasks=image_tasks,
        channels=channels,
        samples=options.lengths()["w"],
        source_steps=steps["source"][:2],
        image_step=steps["images"][0],
        gradient_step=pixels * channels,
        pixels=pixels,
        position_steps=steps["positions"][:2],
        upstream_steps=steps["upstream"][:2] if needed else [0, 0],
        scale=correlation_scale(channels),
        **levels_of(options, description.real),
    )
    real = np.dtype(description.real).itemsize
    sums = channels
    if description.is_divided and "images" in needed:
        sums = max(sums, pixels * description.channels)
    scratch = ((2 + options.rank) * numbers_of(description) + sums) * real
    return Launch(program_for(description), record, image_tasks + query_tasks, scratch)


def describe(
    known: Mapping[str, Layout], options: LookupOptions, needed: frozenset[str]
) -> Description:
    """Describe the program for arrays of layouts, by their names."""
    names = ["source", "images", "positions", *(["upstream"] if needed else [])]
    types = [known[name][2] for name in names]
    real = element(real_of(*types[:3]))
    channels, width = known["source"][0][2], host().lanes(real)
    block = block_of(channels, width)
    return Description(
        kinds=tuple([element(dtype) for dtype in types]),
        real=real,
        rank=options.rank,
        radius=options.radius,
        channels=block,
        is_whole=block == channels,
        is_divided=block < channels and channels % block == 0,
        rest=channels % width,
        needed=needed,
    )


def levels_of(options: LookupOptions, real: str) -> dict[str, Any]:
    """Return the settings of the levels."""
    sizes = np.array(options.levels(), np.int64)[:, ::-1]  # x first
    counts = sizes.prod(1)
    steps = np.cumprod(np.insert(sizes[:, :-1], 0, 1, axis=1), 1)
    return {
        "levels": len(sizes),
        "sizes": [column.copy() for column in sizes.T],
        "strides": [column.copy() for column in steps.T],
        "begins": np.cumsum(counts) - counts,
        "shrinks": 0.5 ** np.arange(len(sizes), dtype=real),
    }
