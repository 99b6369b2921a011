"""Copies of arrays in another order of memory."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.plan import Plan
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout, dense_order, layout_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import channels_together
from gridsample.kernels.vector import Function, Record, compile, host, transpose

Array = np.ndarray[Any, Any]

# The largest image that is copied for its layout, and what a task copies of it, in bytes.
LARGEST_COPY, COPIED_AT_ONCE = 1 << 25, 1 << 20

MATRICES = Record(rows="int64", columns="int64", parts="int64")


def contiguous(plan: Plan, image: Array, threads: int) -> Array:
    """Return an image itself, or a copy whose neighbours along x are neighbours if that pays."""
    layout = layout_of(image)
    if not pays_contiguous(plan, layout):
        return image
    order = dense_order(layout)
    if order is None or image.itemsize > 8:
        return np.ascontiguousarray(image)
    x = image.ndim - 1
    place = order.index(x)
    before, after = order[:place], order[place + 1 :]
    memory = np.empty([image.shape[a] for a in (*before, *after, x)], image.dtype)
    count, rows = (math.prod([image.shape[a] for a in axes]) for axes in (before, after))
    transpose_matrices(image, memory, (count, image.shape[x], rows), threads)
    return memory.transpose(np.argsort((*before, *after, x)))


@cached_call(256)
def pays_contiguous(plan: Plan, image: Layout) -> bool:
    """Whether to copy an image in which neither columns nor channels are neighbours in memory.

    If points are nearly as many as pixels, reading rows of the copy saves more time than the copy
    takes, for methods of more than two taps.  For two, this is so if the image is large, or its
    columns are pages apart, of which caches hold few.
    """
    shape, strides, dtype = image
    pixels, taps = math.prod(plan.spatial), max(method.taps for method in plan.methods)
    large = math.prod(shape) * dtype.itemsize >= CACHES.own or strides[-1] % CACHES.page == 0
    few = plan.points * plan.items < pixels * plan.image_items
    pays_for_two = large and not few and dense_order(image) is not None
    return (
        (taps > 2 or (taps == 2 and pays_for_two))
        and dtype.isnative
        and strides[-1] != dtype.itemsize
        and channels_together(image) == 1
        and all(stride or n == 1 for n, stride in zip(shape, strides, strict=True))
        and 4 * plan.points * plan.items >= pixels * plan.image_items
        and math.prod(shape) * dtype.itemsize <= LARGEST_COPY
    )


def transpose_matrices(
    source: Array, target: Array, shape: tuple[int, int, int], threads: int
) -> None:
    """Transpose matrices that follow each other in memory."""
    launch = prepare_transposition(*shape, source.dtype.itemsize)
    launch.run({"source": source, "target": target}, threads)


@functools.lru_cache(maxsize=256)
def prepare_transposition(count: int, rows: int, columns: int, size: int) -> Launch:
    """Prepare the transposition of matrices with elements of so many bytes."""
    lanes = host().bits // (8 * size)
    block = min(lanes, 1 << (min(rows, columns).bit_length() - 1))
    parts = max(1, rows * columns * size // COPIED_AT_ONCE)
    settings = MATRICES.pack(rows=rows, columns=columns, parts=parts)
    return Launch(transposition_program(f"uint{8 * size}", block), settings, count * parts)


@functools.cache
def transposition_program(kind: str, block: int) -> Any:
    """Write and compile the program that transposes matrices, a square of a side at a time."""
    function = Function("transpose", block)
    with entry(function, {"source": kind, "target": kind}, MATRICES) as (task, call):
        matrix, part = task // call.parts, task % call.parts
        begin = matrix * call.rows * call.columns
        source, target = call.source.at(begin), call.target.at(begin)
        first, last = (call.columns * k // (call.parts * block) * block for k in (part, part + 1))
        end = (part + 1 == call.parts).select(call.columns, last)
        with (
            function.loop(first, end, block) as across,
            function.loop(0, call.rows, block) as down,
        ):
            # The last squares overlap the ones before them.
            column = across.index.minimum(call.columns - block)
            row = down.index.minimum(call.rows - block)
            square = source.at(row * call.columns + column)
            transposed = target.at(column * call.rows + row)
            lines = [square.load(call.columns * k, block) for k in range(block)]
            for k, line in enumerate(transpose(lines)):
                transposed.store(line, call.rows * k)
    return compile(function)
