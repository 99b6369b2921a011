"""Resizing by copies: each output is one input, so the bits of pixels are copied.

The image may have any strides.  If the pixels of a row are near each other in memory, lanes pick
the numbers of neighbouring pixels from registers.  Pixels that are far apart are copied one by one:
a power of two of numbers at a time, where the memory next to the pixel belongs to the row.  Numbers
of a pixel that are not contiguous are copied as pixels.
"""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES, copying_band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.tables import AxisMap
from gridsample.kernels.resize import planning
from gridsample.kernels.resize.picking import Picking, picking_of
from gridsample.kernels.resize.planning import NOTHING
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.vector import (
    Function,
    Pointer,
    Program,
    Record,
    Value,
    compile,
    host,
    kind_of,
    pick,
    picks,
)

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# Numbers that are copied together; more are copied in blocks of registers.
GROUPS = (1, 2, 3, 4, 6, 8, 12, 16)
SETTINGS = Record(
    outer="int64",
    planes="int64",  # all planes, and those of a piece
    channels="int64",
    item_step="int64",
    channel_step="int64",  # of the image
    slices="int64",
    rows="int64",
    columns="int64",  # of the result
    part="int64",
    bands="int64",  # the rows of a piece, of all slices; the pieces of a plane
    slice_of="*int64",
    row_of="*int64",
    column_of="*int64",  # where the inputs are in a plane
    wide="int64",
    wide_end="int64",  # columns that have others next to them, in the image and in the result
    group="int64",  # numbers of a pixel
    # Where lanes pick their numbers: see `picking.Picking`.
    picked="int64",
    picked_from="*int64",
    places="*uint8",
)


@functools.cache
def compiled(kind: str, group: int, window: int) -> Program:
    """Compile the program for pixels of a few numbers, or of any number if ``group`` is 0.

    ``window`` is that of `picking.Picking` if lanes pick their numbers, otherwise 0.
    """
    function = Function(f"copy_{kind}_{group}_{window}", host().bits // 32)
    with entry(function, {"source": kind, "target": kind}, SETTINGS) as (task, call):
        group_of_planes = task // call.bands
        begin = (task - group_of_planes * call.bands) * call.part
        end = (begin + call.part).minimum(call.slices * call.rows)
        first = group_of_planes * call.planes
        last = (first + call.planes).minimum(call.outer)
        line = call.columns * call.group
        with function.loop(first, last) as plane:
            item = plane.index // call.channels
            channel = plane.index - item * call.channels
            image = call.source.at(item * call.item_step + channel * call.channel_step)
            with function.loop(begin, end) as row:
                offset, repeats = input_of_row(call, row.index, begin)
                place = plane.index * (call.slices * call.rows) + row.index
                source, target = image.at(offset), call.target.at(place * line)

                def repeat() -> list[Value]:
                    target.copy(target.at(-line), line, function.lanes)
                    return []

                def copy_row() -> list[Value]:
                    if window:
                        pick_numbers(function, call, source, target, window)
                    else:
                        pick_columns(function, call, source, target, group)
                    return []

                function.choose(repeats, repeat, copy_row)
    return compile(function)


def input_of_row(call: SimpleNamespace, row: Value, begin: Value) -> tuple[Value, Value]:
    """Return where the input of a row begins, and whether it is that of the row before."""
    z = row // call.rows
    y = row - z * call.rows
    input_row = call.row_of.load(y)
    before = call.row_of.load((y - 1).maximum(0))
    repeats = (y > 0) & (row > begin) & (before == input_row)
    return call.slice_of.load(z) + input_row, repeats


def picked_as(kind: str) -> str:
    """Return the integers as which processors pick numbers of a kind, the narrowest there are."""
    wide = ("int16", "int32", "int64")
    return next(
        (k for k in wide if kind_of(k).bits >= kind_of(kind).bits and picks(kind_of(k))), ""
    )


def pick_numbers(
    function: Function, call: SimpleNamespace, source: Pointer, target: Pointer, window: int
) -> None:
    """Copy the numbers of a row, a register of results at a time."""
    kind, wide = source.kind, picked_as(source.kind.name)
    lanes, length = host().lanes(wide), call.columns * call.group
    with function.loop(0, call.picked) as loop:
        begin, row = (call.picked_from.load(loop.index * 2 + k) for k in range(2))
        places = call.places.cast(wide).load(row * (2 * lanes), lanes)
        registers = [source.load(begin + k * lanes, lanes).to(wide) for k in range(window)]
        place = (loop.index * lanes).minimum(length - lanes)
        target.store(pick(registers, places).to(kind), place)


def pick_columns(
    function: Function, call: SimpleNamespace, source: Pointer, target: Pointer, group: int
) -> None:
    """Copy the pixels of a row."""
    if not group:
        with function.loop(0, call.columns) as loop:
            pixel = source.at(call.column_of.load(loop.index))
            target.at(loop.index * call.group).copy(pixel, call.group, function.lanes)
        return
    wide = 1 << (group - 1).bit_length()

    def copy(index: Value, lanes: int) -> None:
        pixel = source.at(call.column_of.load(index))
        result = target.at(index * group)
        for k in range(0, group, lanes):
            result.store(pixel.load(k, lanes), k)

    unrolled = 8
    tail = call.wide + (call.wide_end - call.wide) // unrolled * unrolled
    with function.loop(0, call.wide) as loop:
        copy(loop.index, 1)
    with function.loop(call.wide, tail, unrolled) as loop:
        for k in range(unrolled):
            copy(loop.index + k, wide)
    with function.loop(tail, call.columns) as loop:
        copy(loop.index, 1)


# Calls --------------------------------------------------------------------------------------------


def wide_columns(places: Array, numbers: int, high: int) -> tuple[int, int]:
    """Return the begin and end of the columns that are copied as powers of two of numbers.

    ``places`` are those of their inputs in a row, whose last number is at ``high``.  The numbers
    behind an input must be in the row; those behind its copy are overwritten by the next pixel.
    """
    wide = 1 << (numbers - 1).bit_length()
    columns = np.flatnonzero(places[:-1] + wide - 1 <= high)
    return (int(columns[0]), int(columns[-1]) + 1) if columns.size else (0, 0)


def picking_in_row(places: Array, numbers: int, low: int, high: int, lanes: int) -> Picking | None:
    """Return how lanes pick the numbers of inputs at these places; None if these are far apart.

    The first and the last number of the row in memory are at ``low`` and ``high``.
    """
    each = np.add.outer(places - low, np.arange(numbers)).reshape(-1)
    picking = picking_of(copying_band(each, high - low + 1), 1, lanes)
    return picking and picking._replace(groups=picking.groups + np.array([low, 0]))


@cached_by_size(CACHE_BYTES, planning.kept_bytes)
def prepare(
    maps: tuple[AxisMap, ...], planes: Shape, strides: Shape | None, size: int, threads: int
) -> Launch:
    """Prepare copies of planes (N, C, *spatial, inner) whose numbers have ``size`` bytes.

    The strides count numbers; they are None if the planes are packed.
    """
    outer, numbers = planes[0] * planes[1], planes[-1]
    item_step, channel_step, *steps, number_step = strides or planning.packed_strides(planes)
    first = [axis_map.band.first * step for axis_map, step in zip(maps, steps, strict=True)]
    inputs = [np.zeros(1, np.int64)] * (3 - len(maps))
    inputs += [np.ascontiguousarray(table, np.int64) for table in first]
    ends = (planes[-2] - 1) * steps[-1], (numbers - 1) * number_step
    low, high = (sum([choose(end, 0) for end in ends]) for choose in (min, max))
    if numbers > 1 and number_step != 1:
        offsets = np.arange(numbers) * number_step
        inputs[2], numbers = np.add.outer(inputs[2], offsets).reshape(-1), 1
    slices, rows, columns = map(len, inputs)
    plane = slices * rows * columns * numbers
    target = min(planning.PIECE, max(planning.SHARE, outer * plane // threads))
    pieces = planning.cut(outer, plane, slices * rows, 1, target)
    group = numbers if numbers in GROUPS else 0
    begin, end = wide_columns(inputs[2], numbers, high)
    picking, picked_from, lane_places = None, NOTHING, NOTHING
    if group and (wide := picked_as(f"uint{8 * size}")):
        picking = picking_in_row(inputs[2], numbers, low, high, host().lanes(wide))
    if picking is not None:
        picked_from = np.ascontiguousarray(picking.groups, np.int64)
        lane_places = np.ascontiguousarray(picking.places, wide)
    settings = SETTINGS.pack(
        outer=outer,
        planes=pieces.planes,
        channels=planes[1],
        item_step=item_step,
        channel_step=channel_step,
        slices=slices,
        rows=rows,
        columns=columns,
        part=pieces.rows,
        bands=pieces.bands,
        slice_of=inputs[0],
        row_of=inputs[1],
        column_of=inputs[2],
        wide=begin,
        wide_end=end,
        group=numbers,
        picked=len(picked_from),
        picked_from=picked_from,
        places=lane_places.view(np.uint8),
    )
    tasks = math.ceil(outer / pieces.planes) * pieces.bands
    threads_worth = max(1, outer * plane // planning.PRODUCTS_OF_THREAD)
    program = compiled(f"uint{8 * size}", group, picking.window if picking else 0)
    return Launch(program, settings, tasks, threads=threads_worth)
