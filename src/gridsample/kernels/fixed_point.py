"""Positions in fixed point, as in OpenCV's maps: whole pixels, and fractions in 1/32 of a pixel."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gridsample.kernels import threads as pool
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.vector import Function, Program, Record, compile, host

Array = np.ndarray[Any, Any]

SETTINGS = Record(points="int64", step="int64")  # all points, and those of a task
# The points of a task.
STEP = 1 << 16


@functools.cache
def program() -> Program:
    """Compile the program, which converts the x and y of half a register's points at a time."""
    function = Function("fixed_point", host().lanes("float32"), "float32")
    arrays = {"pixels": "int16", "fractions": "uint16", "positions": "float32"}
    lanes, half = function.lanes, function.lanes // 2
    shifts = function.vector([0, 5] * half, "int32")
    with entry(function, arrays, SETTINGS) as (task, call):
        begin = task * call.step
        with function.loop(begin, (begin + call.step).minimum(call.points), half) as loop:
            point = loop.index.minimum(call.points - half)
            bits = call.fractions.load(point, half).to("int32")
            bits = bits.shuffle([lane // 2 for lane in range(lanes)])
            fraction = ((bits >> shifts) & 31).to("float32") * (1 / 32)
            pixel = call.pixels.load(point * 2, lanes).to("float32")
            call.positions.store(pixel + fraction, point * 2)
    return compile(function, reduces_strength=False)


def positions(pixels: Array, fractions: Array) -> Array:
    """Convert positions to single precision.

    Args:
        pixels: whole pixels, an int16 array (h, w, 2), x first.
        fractions: a uint16 array (h, w): the fraction of x in the lowest five bits, and that of y
            in the next five.

    Returns:
        A new float32 array (h, w, 2).
    """
    pixels, fractions = np.ascontiguousarray(pixels), np.ascontiguousarray(fractions)
    if fractions.size < host().lanes("float32") // 2:
        parts = np.stack([fractions & 31, fractions >> 5 & 31], -1)
        return pixels + parts.astype(np.float32) / 32
    result = np.empty(pixels.shape, np.float32)
    settings = SETTINGS.pack(points=fractions.size, step=STEP)
    launch = Launch(program(), settings, -(-fractions.size // STEP))
    arrays = {"pixels": pixels, "fractions": fractions, "positions": result}
    launch.run(arrays, pool.cores())
    return result
