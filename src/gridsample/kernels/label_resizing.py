"""Resizing of labels: the inputs of an output vote with the products of their weights.

A vote is not separable, so all axes are resized at once.  There are always three.

    lists    a few inputs: lanes are outputs, each with a list of the labels that have votes
    tables   many inputs: one output at a time, with a sum for each label of the image

Labels of a table count from 0.  If they are too far apart, their ranks are resized instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES, Band, copying_band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout, layout_of, native
from gridsample.kernels.resize import planning
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import planes_of
from gridsample.kernels.sampling.programs.footprint_labels import LabelList
from gridsample.kernels.sampling.programs.labels import as_key, key_kind
from gridsample.kernels.vector import (
    Function,
    Pointer,
    Program,
    Record,
    Value,
    compile,
    host,
    kind_of,
)

Array = np.ndarray[Any, Any]

# Inputs of an output up to which there are lists.
FEW = 64
# The range of labels up to which there are tables.
RANGE = 1 << 20
# Inputs that a task reads.
TASK = 1 << 16
# The size of a table of two axes that are joined to one.
JOINED = 1 << 14
# The difference of two sums of weights up to which they tie: exact sums would be equal.
TIE = 1e-9

SETTINGS = Record(
    rows="int64",
    share="int64",  # rows of outputs of all planes, and those of a task
    channels="int64",
    source_item="int64",
    target_item="int64",
    source_planes="*int64",
    target_planes="*int64",  # where the channels of an item begin
    # Of the axes z, y and x:
    sizes=("int64", 3),  # outputs
    steps=("int64", 3),  # the distance of neighbours in the result
    taps=("int64", 3),
    distances=("int64", 3),  # of neighbouring taps in the tables, which are (tap, output):
    offsets=("*int64", 3),  # of inputs
    weights=("*float64", 3),  # 0 for a tap that an output does not have
    low="int64",
    range="int64",  # of labels
)


# Programs -----------------------------------------------------------------------------------------


@functools.cache
def compiled(kind: str, few: bool) -> Program:
    """Compile a program for labels of a type."""
    function = Function(f"vote_{kind}", lanes_of(few), "float64")
    with entry(function, {"source": kind, "target": kind}, SETTINGS) as (task, call):
        first = task * call.share
        last = (first + call.share).minimum(call.rows)
        write = write_lists if few else write_table
        with function.loop(first, last) as loop:
            row = Row(call, loop.index)
            with function.loop(0, row.size, function.lanes) as outputs:
                write(function, row, outputs.index)
    return compile(function)


def lanes_of(few: bool) -> int:
    """Return the number of outputs that are worked on together."""
    return host().bits // 32 if few else 1


class Row:
    """A row of outputs; they read the same rows of inputs, and have the same taps there."""

    def __init__(self, call: SimpleNamespace, number: Value) -> None:
        self.call = call
        (depth, height, self.size), (step_z, step_y, self.step) = call.sizes, call.steps
        rest, self.y = number // height, number % height
        rest, self.z = rest // depth, rest % depth
        channel, item = rest % call.channels, rest // call.channels
        begin = item * call.source_item + call.source_planes.load(channel)
        self.source = call.source.at(begin)
        begin = item * call.target_item + call.target_planes.load(channel)
        self.target = call.target.at(begin + self.y * step_y + self.z * step_z)
        taps_z, self.taps_y, self.taps = call.taps
        self.inputs = taps_z * self.taps_y

    def input(self, number: Value) -> tuple[Pointer, Value]:
        """Return a row of inputs, and its weight."""
        call = self.call
        tap_z = number // self.taps_y
        tap_y = number - tap_z * self.taps_y
        z = self.z + tap_z * call.distances[0]
        y = self.y + tap_y * call.distances[1]
        row = self.source.at(call.offsets[0].load(z) + call.offsets[1].load(y))
        return row, call.weights[0].load(z) * call.weights[1].load(y)

    def place(self, x: Value, tap: Any) -> Value:
        """Return where the tables have a tap of output x."""
        place: Value = x + self.call.distances[2] * tap
        return place


def write_lists(function: Function, row: Row, x: Value) -> None:
    """Find the labels of neighbouring outputs together, from output x on."""
    call, lanes, key = row.call, function.lanes, key_kind(row.call.source.kind)
    labels = call.scratch.cast(key)
    votes = LabelList(function, labels.at(row.inputs * row.taps * lanes).cast("uint8"), key)

    def read(source: Pointer, tap: Any) -> Value:
        offsets = call.offsets[2].at(row.place(x, tap))
        return as_key(source.load_each([offsets.load(lane) for lane in range(lanes)]))

    first = read(row.input(row.taps * 0)[0], 0)
    with function.loop(0, row.inputs, carry=[first != first]) as line:
        source, entries = row.input(line.index)[0], labels.at(line.index * row.taps * lanes)
        with function.loop(0, row.taps, carry=line.carried) as tap:
            label = read(source, tap.index)
            entries.store(label, tap.index * lanes)
            tap.carry(tap.carried[0] | (label != first))
        line.carry(*tap.carried)

    def count() -> list[Value]:
        zero, everywhere = function.constant(0, "int64"), first == first
        with function.loop(0, row.inputs, carry=[zero]) as line:
            weight, entries = row.input(line.index)[1], labels.at(line.index * row.taps * lanes)
            with function.loop(0, row.taps, carry=line.carried) as tap:
                label = entries.load(tap.index * lanes, lanes)
                share = weight * call.weights[2].load(row.place(x, tap.index), lanes)
                tap.carry(votes.add(label, share, everywhere, tap.carried[0]))
            line.carry(*tap.carried)
        return [votes.winner(line.carried[0], function.constant(TIE, "float64", lanes))]

    (winner,) = function.choose(line.carried[0].any(), count, lambda: [first])
    store(function, row, x, winner.to(call.target.kind))


def store(function: Function, row: Row, x: Value, labels: Value) -> None:
    """Write the labels of neighbouring outputs, of which the row may have fewer."""
    lanes = function.lanes
    fits = (row.size - x >= lanes) & (row.step == 1)
    with function.when(fits):
        row.target.store(labels, x)
    with function.when(~fits):
        numbers = function.spill(labels)
        with function.loop(x, (x + lanes).minimum(row.size)) as loop:
            row.target.store(numbers.load(loop.index - x), loop.index * row.step)


def write_table(function: Function, row: Row, x: Value) -> None:
    """Find the label of output x; neighbouring inputs mostly agree and vote together."""
    call, zero = row.call, function.constant(0, "int64")
    table = Table(call.scratch, call.range)

    def read(source: Pointer, tap: Value) -> tuple[Value, Value]:
        place = row.place(x, tap)
        label = source.load(call.offsets[2].load(place)).to("int64") - call.low
        return label, call.weights[2].load(place)

    with function.loop(0, row.inputs, carry=[zero]) as line:
        source, weight = row.input(line.index)
        with function.loop(1, row.taps, carry=[*line.carried, *read(source, zero)]) as tap:
            count, label, share = tap.carried
            other, more = read(source, tap.index)
            same = other == label

            def add(count: Value = count, label: Value = label, share: Value = share) -> Any:
                return [table.add(label, share * weight, count)]

            (count,) = function.choose(same, lambda: [tap.carried[0]], add, likely=True)
            tap.carry(count, other, same.select(share, 0.0) + more)
        count, label, share = tap.carried
        line.carry(table.add(label, share * weight, count))
    winner = table.winner(line.carried[0]) + call.low
    row.target.store(winner.to(call.target.kind), x * row.step)


class Table:
    """The labels that have votes, and their sums; and for each label of a range, its entry there.

    A label has votes if its entry has that label, so that the memory need not be initialized.
    """

    def __init__(self, memory: Pointer, range_: Value) -> None:
        self.function = memory.function
        self.entries = memory.cast("int64")
        self.labels = self.entries.at(range_)
        self.sums = self.labels.at(range_).cast("float64")

    def add(self, label: Value, weight: Value, count: Value) -> Value:
        """Add a vote to the ``count`` labels; return how many there are now."""
        entry = self.entries.load(label)
        known = (entry >= 0) & (entry < count)
        entry = known.select(entry, 0)
        known = known & (self.labels.load(entry) == label)
        entry = known.select(entry, count)
        with self.function.when(~known):
            self.entries.store(count, label)
            self.labels.store(label, count)
        before = known.select(self.sums.load(entry), 0.0)
        self.sums.store(before + weight, entry)
        return count + known.select(0, self.function.constant(1, "int64"))

    def winner(self, count: Value) -> Value:
        """Return the label with the greatest sum, or the smallest of those."""
        with self.function.loop(1, count, carry=[self.labels.load(0), self.sums.load(0)]) as loop:
            best, highest = loop.carried
            label, total = self.labels.load(loop.index), self.sums.load(loop.index)
            more = total - highest
            wins = (more > TIE) | ((more >= -TIE) & (label < best))
            loop.carry(wins.select(label, best), wins.select(total, highest))
        return loop.carried[0]


# Plans --------------------------------------------------------------------------------------------


class Taps(NamedTuple):
    """An axis: its outputs, the distance between them in the result, and their inputs."""

    step: int
    offsets: Array  # (tap, output): of an input in a plane
    weights: Array  # its weight; 0 for a tap that an output does not have

    @property
    def size(self) -> int:
        """The number of outputs."""
        return int(self.offsets.shape[1])

    def padded(self) -> Taps:
        """Return the tables with whole registers of outputs."""
        padding = (0, 0), (0, -self.size % lanes_of(True))
        return Taps(self.step, *[np.pad(table, padding, "edge") for table in self[1:]])


def taps_of(band: Band, stride: int, step: int) -> Taps:
    """Return the inputs of an axis, given the distances of neighbours in the image and result."""
    taps = np.arange(max(1, band.taps))[:, np.newaxis]
    places = band.first + np.minimum(taps, np.maximum(band.count, 1) - 1)
    weights = np.where(taps < band.count, band.weights.T[: len(taps)], 0.0)
    return Taps(step, places.astype(np.int64) * stride, weights)


def joined(outer: Taps, inner: Taps) -> Taps | None:
    """Return two axes as a single one if the inner one is too short to fill registers."""
    if inner.size >= lanes_of(True) or outer.offsets.size * inner.offsets.size > JOINED:
        return None
    if outer.size > 1 and outer.step != inner.size * inner.step:
        return None
    offsets = outer.offsets[:, np.newaxis, :, np.newaxis] + inner.offsets[:, np.newaxis]
    weights = outer.weights[:, np.newaxis, :, np.newaxis] * inner.weights[:, np.newaxis]
    shape = len(outer.offsets) * len(inner.offsets), outer.size * inner.size
    return Taps(inner.step, offsets.reshape(shape), weights.reshape(shape))


@cached_by_size(CACHE_BYTES, planning.kept_bytes)
def prepare(
    bands: tuple[Band, ...], source: Layout, target: Layout, low: int, range_: int
) -> Launch:
    """Prepare the resizing of labels (N, C, *spatial) in a range from ``low`` on."""
    (items, channels, *_), _, dtype = source
    images, results = (planes_of(layout, items, 1) for layout in (source, target))
    strides, steps = (planes.strides[::-1] for planes in (images, results))
    axes = [taps_of(*axis) for axis in zip(bands, strides, steps, strict=True)]
    single = taps_of(copying_band(np.zeros(1, np.int64), 1), 0, 0)
    while len(axes) > 1 and (last := joined(*axes[-2:])):
        axes[-2:] = [last]
    axes = [single] * (3 - len(axes)) + axes
    sizes, taps = [axis.size for axis in axes], [len(axis.offsets) for axis in axes]
    few, rows = math.prod(taps) <= FEW, items * channels * sizes[0] * sizes[1]
    share = min(rows, max(1, TASK // (sizes[2] * math.prod(taps))))
    axes = [axis.padded() for axis in axes]
    settings = SETTINGS.pack(
        rows=rows,
        share=share,
        channels=items * channels,
        source_item=images.item,
        source_planes=images.starts,
        target_item=results.item,
        target_planes=results.starts,
        sizes=sizes,
        steps=[axis.step for axis in axes],
        taps=taps,
        distances=[axis.size for axis in axes],
        offsets=[axis.offsets for axis in axes],
        weights=[axis.weights for axis in axes],
        # The program computes modulo 2**64.
        low=low if low < 1 << 63 else low - (1 << 64),
        range=range_,
    )
    kind = type_name(dtype)
    key = key_kind(kind_of(kind)).size
    scratch = lanes_of(True) * (2 * key + 8) * math.prod(taps) if few else 24 * range_
    return Launch(compiled(kind, few), settings, -(-rows // share), scratch)


def resize(maps: Sequence[AxisMap], source: Array, out: Array, threads: int | None = None) -> None:
    """Resize labels (N, C, *spatial) into ``out``, both with any strides.

    Args:
        maps: the map of each spatial axis, in the array's order.
        source: the labels: bool or integers.
        out: receives the result, of the same dtype.
        threads: the maximum number of threads.
    """
    if native(out) is not out:
        result = np.empty(out.shape, out.dtype.newbyteorder("="))
        resize(maps, source, result, threads)
        out[...] = result
        return
    source, bands = native(source), tuple([axis_map.band for axis_map in maps])
    low, range_ = 0, 0
    if math.prod(max(1, band.taps) for band in bands) > FEW:
        low, range_ = range_of(source)
        if range_ > max(RANGE, 2 * source.size):
            labels, ranks = np.unique(source, return_inverse=True)
            winners = np.empty(out.shape, np.int64)
            resize(maps, ranks.reshape(source.shape), winners, threads)
            out[...] = labels[winners]
            return
    launch = prepare(bands, layout_of(source), layout_of(out), low, range_)
    launch.run({"source": source, "target": out}, threads or pool.cores())


def range_of(source: Array) -> tuple[int, int]:
    """Return the begin and the size of a range that has all labels.

    It often begins at 0, and its size is a power of two, so that images share prepared launches.
    """
    if source.dtype == np.bool_:
        return 0, 2
    if source.dtype.itemsize <= 2:
        limits = np.iinfo(source.dtype)
        return limits.min, limits.max - limits.min + 1
    low, high = int(source.min()), int(source.max())
    if low >= 0 and high < RANGE:
        low = 0
    return low, 1 << (high - low).bit_length()
