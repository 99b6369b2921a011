"""Copies of arrays: in another order of memory, in another dtype.

Which copies pay is decided in `paying`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import converted, dense_order, layout_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.sampling.paying import COPIED_AT_ONCE, MAX_MOVED, pays_contiguous
from gridsample.kernels.vector import Function, Record, compile, host, kind_of, transpose

Array = np.ndarray[Any, Any]

MATRICES = Record(rows="int64", columns="int64", parts="int64")
NUMBERS = Record(count="int64")

# The numbers that are stored at a time: those of a task, and of a copy by NumPy.
STORED_AT_ONCE = 1 << 16
# NumPy converts to these number by number, or in several steps.
HALVES = (np.dtype(np.float16), BFLOAT16)

# Another order of memory --------------------------------------------------------------------------


def contiguous(plan: Plan, image: Array, threads: int) -> Array:
    """Return an image itself, or a copy whose neighbours along x are neighbours if that pays."""
    layout = layout_of(image)
    if not pays_contiguous(plan, layout):
        return image
    order = dense_order(layout)
    if order is None or image.itemsize > MAX_MOVED:
        return np.ascontiguousarray(image)
    x = image.ndim - 1
    place = order.index(x)
    before, after = order[:place], order[place + 1 :]
    memory = np.empty([image.shape[a] for a in (*before, *after, x)], image.dtype)
    count, rows = (math.prod([image.shape[a] for a in axes]) for axes in (before, after))
    transpose_matrices(image, memory, (count, image.shape[x], rows), threads)
    return memory.transpose(np.argsort((*before, *after, x)))


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


# Another dtype ------------------------------------------------------------------------------------


def store(sums: Array, result: Array, threads: int) -> None:
    """Convert sums (N, C, *spatial) to another dtype, a few at a time to save memory."""
    halves, order = result.dtype in HALVES, dense_order(layout_of(sums))
    alike = order is not None and result.transpose(order).flags.c_contiguous
    converts = halves and alike and sums.dtype == np.float32
    if converts and sums.size >= host().lanes("float32"):
        launch = prepare_conversion(sums.size, element(result.dtype))
        launch.run({"source": sums, "target": result}, threads)
        return
    rows = sums.shape[2]
    some = max(1, rows * STORED_AT_ONCE // max(1, sums.size))
    for first in range(0, rows, some):
        here = np.s_[:, :, first : first + some]
        result[here] = converted(sums[here], result.dtype)


def stored(sums: Array, dtype: np.dtype[Any], threads: int) -> Array:
    """Return sums (N, C, *spatial) in a dtype: themselves, or a copy."""
    if sums.dtype == dtype:
        return sums
    result = np.empty_like(sums, dtype)
    store(sums, result, threads)
    return result


@functools.lru_cache(maxsize=256)
def prepare_conversion(count: int, kind: str) -> Launch:
    """Prepare the conversion of float32 numbers to another kind."""
    return Launch(conversion_program(kind), NUMBERS.pack(count=count), -(-count // STORED_AT_ONCE))


@functools.cache
def conversion_program(kind: str) -> Any:
    """Write and compile the program that converts float32 numbers to a kind."""
    lanes = host().lanes("float32")
    function = Function("convert", lanes)
    with entry(function, {"source": "float32", "target": kind}, NUMBERS) as (task, call):
        first = task * STORED_AT_ONCE
        with function.loop(first, (first + STORED_AT_ONCE).minimum(call.count), lanes) as loop:
            # The last numbers are converted together with some before them.
            begin = loop.index.minimum(call.count - lanes)
            call.target.store(call.source.load(begin, lanes).to(kind_of(kind)), begin)
    return compile(function)
