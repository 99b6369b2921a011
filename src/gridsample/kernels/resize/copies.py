"""Resizing by copies: each output is one input, so the bits of pixels are copied.

A pixel is a group of contiguous numbers.  If there are few of them, lanes pick the numbers of
neighbouring pixels from registers.  Pixels that are far apart are copied one by one: a power of two
of numbers at a time, where the memory next to the pixel belongs to a later pixel.
"""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.tables import AxisMap
from gridsample.kernels.resize import planning
from gridsample.kernels.resize.picking import picking_of
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
    depth="int64",
    height="int64",
    width="int64",  # of the image; the width counts numbers
    slices="int64",
    rows="int64",
    columns="int64",  # of the result
    part="int64",
    bands="int64",  # the rows of a piece, of all slices; the pieces of a plane
    slice_of="*int64",
    row_of="*int64",
    column_of="*int64",  # the inputs
    safe="int64",  # columns with others next to them, in the image and in the result
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
        with function.loop(first, last) as plane, function.loop(begin, end) as row:
            offset, repeats = input_of_row(function, call, plane.index, row.index, begin)
            target = call.target.at((plane.index * (call.slices * call.rows) + row.index) * line)

            def repeat(target: Pointer = target) -> list[Value]:
                target.copy(target.at(-line), line, function.lanes)
                return []

            def copy_row(offset: Value = offset, target: Pointer = target) -> list[Value]:
                source = call.source.at(offset)
                if window:
                    pick_numbers(function, call, source, target, window)
                else:
                    pick_columns(function, call, source, target, group)
                return []

            function.choose(repeats, repeat, copy_row)
    return compile(function)


def input_of_row(
    function: Function, call: SimpleNamespace, plane: Value, row: Value, begin: Value
) -> tuple[Value, Value]:
    """Return where the input of a row begins, and whether it is that of the row before."""
    z = row // call.rows
    y = row - z * call.rows
    input_row = call.row_of.load(y)
    offset = ((plane * call.depth + call.slice_of.load(z)) * call.height + input_row) * call.width
    before = call.row_of.load((y - 1).maximum(0))
    return offset, (y > 0) & (row > begin) & (before == input_row)


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
    tail = call.safe // unrolled * unrolled
    with function.loop(0, tail, unrolled) as loop:
        for k in range(unrolled):
            copy(loop.index + k, wide)
    with function.loop(tail, call.columns) as loop:
        copy(loop.index, 1)


@cached_by_size(CACHE_BYTES, planning.kept_bytes)
def prepare(maps: tuple[AxisMap, ...], shape: Shape, size: int, threads: int) -> Launch:
    """Prepare copies of planes (outer, *spatial, inner) whose numbers have ``size`` bytes."""
    outer, numbers = shape[0], shape[-1]
    absent_axes = 3 - len(maps)
    depth, height, width = [1] * absent_axes + list(shape[1:-1])
    tables = [np.zeros(1, np.int64)] * absent_axes + [axis_map.band.first for axis_map in maps]
    tables[2] = tables[2] * numbers
    inputs = [np.ascontiguousarray(table, np.int64) for table in tables]
    slices, rows, columns = map(len, inputs)
    group = numbers if numbers in GROUPS else 0
    ahead = 1 << (group - 1).bit_length() if group else 0
    safe = int(np.searchsorted(inputs[2], width * numbers - ahead, side="right"))
    plane = slices * rows * columns * numbers
    target = min(planning.PIECE, max(planning.SHARE, outer * plane // threads))
    pieces = planning.cut(outer, plane, slices * rows, 1, target)
    picking, wide = None, picked_as(f"uint{8 * size}")
    if group and wide:
        picking = picking_of(maps[-1].band, numbers, host().lanes(wide))
    picked_from, places = NOTHING, NOTHING
    if picking is not None:
        picked_from = np.ascontiguousarray(picking.groups, np.int64)
        places = np.ascontiguousarray(picking.places, wide)
    settings = SETTINGS.pack(
        outer=outer,
        planes=pieces.planes,
        depth=depth,
        height=height,
        width=width * numbers,
        slices=slices,
        rows=rows,
        columns=columns,
        part=pieces.rows,
        bands=pieces.bands,
        slice_of=inputs[0],
        row_of=inputs[1],
        column_of=inputs[2],
        safe=min(safe, columns - 1),
        group=numbers,
        picked=len(picked_from),
        picked_from=picked_from,
        places=places.view(np.uint8),
    )
    tasks = math.ceil(outer / pieces.planes) * pieces.bands
    threads_worth = max(1, outer * plane // planning.PRODUCTS_OF_THREAD)
    program = compiled(f"uint{8 * size}", group, picking.window if picking else 0)
    return Launch(program, settings, tasks, threads=threads_worth)
