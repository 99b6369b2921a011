"""Colours looked up in a table, in one pass over an image: `gridsample.operators.apply_lut`.

The composition there defines the result.  Here, pixels are lanes.  Their positions in the table are
computed from the values of the image, and 2**D entries are read for each; or D + 1 of a simplex,
for which fractions are sorted in registers, together with the steps along their axes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16, GRID_TYPES
from gridsample.definitions.shapes import Shape
from gridsample.kernels import threads as pool
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.sampling.programs.interleaving import deinterleave, interleave
from gridsample.kernels.vector import Function, Pointer, Program, Record, Value, compile, host

Array = np.ndarray[Any, Any]
# What programs write out: channels of the table, and entries of one channel.
MAX_CHANNELS, MAX_ENTRIES = 8, 16
# The pixels of a task.
SHARE = 1 << 14


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        kind: the kind of the image and of the result.
        real: the kind of the table and of sums.
        inputs, channels: the numbers of channels of the image and of the result.
        axes, rows: the numbers of axes and of channels of the table.  A table of one axis has a
            curve for each channel of the image, or one for all.
        last: whether channels are the last axis in memory.
        on_simplices: whether to interpolate on simplices.
    """

    kind: str
    real: str
    inputs: int
    channels: int
    axes: int
    rows: int
    last: bool
    on_simplices: bool

    @property
    def arrays(self) -> dict[str, str]:
        """The kinds of all arrays, by name."""
        return {"image": self.kind, "table": self.real, "result": self.kind}

    @property
    def settings(self) -> Record:
        """The layout of the settings."""
        return Record(
            pixels="int64",  # of an item
            shares="int64",  # tasks of an item
            table_step="int64",  # the distance between the tables of items; 0 if they share one
            scale=("float64", self.inputs),
            shift=("float64", self.inputs),
            ends=("float64", self.axes),  # the last entry along each axis, x first
            steps=("int64", self.axes),  # the distance of entries along each axis
            top="float64",  # what 1 is in the result
        )


def look_up(
    image: Array,
    table: Array,
    on_simplices: bool,
    factors: tuple[Sequence[float], Sequence[float], float],
    threads: int | None,
) -> Array | None:
    """Look every pixel up in a table: (N, K, *spatial), in the dtype of the image.

    Args:
        image: (N, C, *spatial).
        table: (N or 1, K, *sizes) with C sizes, or with one, float32 or float64.
        on_simplices: whether to interpolate on simplices.
        factors: for each channel, the factor and the summand that make positions of values; and the
            factor of results.
        threads: the maximum number of threads.

    Returns:
        The result; or None if no program is written for the number of channels or entries, or for
        the order of bytes.
    """
    (items, inputs, *spatial), rows, axes = image.shape, table.shape[1], table.ndim - 2
    channels = rows if axes == inputs else inputs
    entries = axes + 1 if on_simplices else 2**axes
    is_large = channels > MAX_CHANNELS or entries > MAX_ENTRIES or table.size >= 1 << 31
    if is_large or not (image.dtype == BFLOAT16 or image.dtype.isnative):
        return None
    backwards = 0, *range(2, image.ndim), 1  # channels last
    last = not image.flags.c_contiguous and image.transpose(backwards).flags.c_contiguous
    shape = (items, *spatial, channels) if last else (items, channels, *spatial)
    result = np.empty(shape, image.dtype)
    if result.size:
        arrays = {
            "image": image.transpose(backwards) if last else np.ascontiguousarray(image),
            "table": np.ascontiguousarray(table.transpose(0, *range(2, table.ndim), 1)),
            "result": result,
        }
        kinds = element(image.dtype), table.dtype.name
        description = Description(*kinds, inputs, channels, axes, rows, last, on_simplices)
        prepare(description, image.shape, table.shape, factors).run(arrays, threads or pool.cores())
    return result.transpose(0, -1, *range(1, result.ndim - 1)) if last else result


def prepare(
    description: Description,
    image: Shape,
    table: Shape,
    factors: tuple[Sequence[float], Sequence[float], float],
) -> Launch:
    """Prepare the program for an image and a table of some shapes."""
    scale, shift, top = factors
    pixels, sizes = math.prod(image[2:]), table[:1:-1]  # x first
    shares = -(-pixels // SHARE)
    steps = [table[1] * math.prod(sizes[:axis]) for axis in range(len(sizes))]
    settings = description.settings.pack(
        pixels=pixels,
        shares=shares,
        table_step=math.prod(table[1:]) if table[0] > 1 else 0,
        scale=scale,
        shift=shift,
        ends=[float(size - 1) for size in sizes],
        steps=steps,
        top=top,
    )
    return Launch(program_for(description), settings, image[0] * shares)


@functools.lru_cache(maxsize=64)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    lanes = host().lanes(description.real)
    function = Function("look_up", lanes, description.real)
    with entry(function, description.arrays, description.settings) as (task, call):
        item, part = task // call.shares, task % call.shares
        first = part * SHARE
        end = (first + SHARE).minimum(call.pixels)
        whole = first + (end - first) // lanes * lanes
        writer = Writer(function, description, call, item)
        for start, stop, count in ((first, whole, lanes), (whole, end, 1)):
            with function.loop(start, stop, count) as loop:
                writer.store(loop.index, writer.sums(writer.load(loop.index, count)))
    return compile(function)


class Writer:
    """Writes what happens to some pixels of an item."""

    def __init__(
        self, function: Function, description: Description, call: SimpleNamespace, item: Value
    ) -> None:
        self.function, self.description, self.call = function, description, call
        self.image: Pointer = call.image.at(item * call.pixels * description.inputs)
        self.result: Pointer = call.result.at(item * call.pixels * description.channels)
        self.table: Pointer = call.table.at(item * call.table_step)

    def number(self, numbers: Sequence[Value], place: int, lanes: int) -> Value:
        """Return a setting for each lane."""
        return numbers[place].to(self.description.real).splat(lanes)

    def load(self, first: Value, lanes: int) -> list[Value]:
        """Read the channels of pixels, as positions along each axis."""
        inputs, real = self.description.inputs, self.description.real
        if self.description.last:
            mixed = [self.image.load(first * inputs + k * lanes, lanes) for k in range(inputs)]
            values = [part.to(real) for part in mixed]
            values = deinterleave(values) if lanes > 1 else values
        else:
            values = [
                self.image.load(first + self.call.pixels * k, lanes).to(real) for k in range(inputs)
            ]
        return [
            value.mul_add(
                self.number(self.call.scale, k, lanes), self.number(self.call.shift, k, lanes)
            )
            for k, value in enumerate(values)
        ]

    def sums(self, positions: Sequence[Value]) -> list[Value]:
        """Interpolate at positions: a value for each channel of the result."""
        rows = self.description.rows
        if self.description.axes == len(positions):
            return self.means(positions, range(rows))
        return [self.means([x], [k % rows])[0] for k, x in enumerate(positions)]

    def means(self, positions: Sequence[Value], rows: Sequence[int]) -> list[Value]:
        """Interpolate some rows of the table at positions along its axes."""
        lanes, call = positions[0].lanes, self.call
        place = self.function.constant(0, "int32", lanes)
        fractions, steps = [], []
        for axis, position in enumerate(positions):
            end = self.number(call.ends, axis, lanes)
            inside = position.maximum(0.0).minimum(end)
            base = (inside == inside).select(inside.floor(), 0.0)
            step = call.steps[axis].to("int32").splat(lanes)
            place = place + base.to("int32") * step
            fractions.append(inside - base)
            # The last entry has no next one, but the fraction is 0 there.
            steps.append((base < end).select(step, 0))
        corners = simplex if self.description.on_simplices else cell
        taps = [*corners(place, fractions, steps)]
        totals = []
        for row in rows:
            total = fractions[0].like(0)
            for at, share in taps:
                # One instruction, also for the last pixels, whose results are then the same.
                total = self.table.gather(at + row).mul_add(share, total)
            totals.append(total)
        return totals

    def store(self, first: Value, values: Sequence[Value]) -> None:
        """Store the results of pixels."""
        kind, channels, lanes = self.description.kind, len(values), values[0].lanes
        top = self.call.top.to(self.description.real).splat(lanes)
        is_float = kind in GRID_TYPES
        stored = [value.to(kind) if is_float else (value * top).round_to(kind) for value in values]
        if not self.description.last:
            for k, value in enumerate(stored):
                self.result.store(value, first + self.call.pixels * k)
            return
        mixed = interleave(stored) if lanes > 1 else stored
        for k, value in enumerate(mixed):
            self.result.store(value, first * channels + k * lanes)


def cell(
    place: Value, fractions: Sequence[Value], steps: Sequence[Value]
) -> Iterator[tuple[Value, Value]]:
    """Yield the place of each entry around a position, and its share."""
    corners = [(place, fractions[0].like(1))]
    for t, step in zip(fractions, steps, strict=True):
        corners = [
            *[(at, share * (1.0 - t)) for at, share in corners],
            *[(at + step, share * t) for at, share in corners],
        ]
    yield from corners


def simplex(
    place: Value, fractions: Sequence[Value], steps: Sequence[Value]
) -> Iterator[tuple[Value, Value]]:
    """Yield the place of each entry of the simplex around a position, and its share."""
    falling, ordered = [*fractions], [*steps]
    sort_falling(falling, ordered)
    yield place, 1.0 - falling[0]
    for k, step in enumerate(ordered):
        place = place + step
        yield place, falling[k] - falling[k + 1] if k + 1 < len(falling) else falling[k]


def sort_falling(keys: list[Value], values: list[Value]) -> None:
    """Sort keys in each lane, and with them the values, by exchanges of neighbours."""
    for end in range(len(keys) - 1, 0, -1):
        for k in range(end):
            (a, b), (first, second) = keys[k : k + 2], values[k : k + 2]
            rises = b > a
            keys[k : k + 2] = rises.select(b, a), rises.select(a, b)
            values[k : k + 2] = rises.select(second, first), rises.select(first, second)
