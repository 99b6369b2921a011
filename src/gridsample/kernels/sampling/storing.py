"""Sums of gradients in the dtype in which they are asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16
from gridsample.kernels.memory import converted, dense_order, layout_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.vector import Function, Record, compile, host, kind_of

Array = np.ndarray[Any, Any]

# The numbers that are stored at a time: those of a task, and of a copy by NumPy.
STORED_AT_ONCE = 1 << 16
# NumPy converts to these number by number, or in several steps.
HALVES = (np.dtype(np.float16), BFLOAT16)

NUMBERS = Record(count="int64")


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
