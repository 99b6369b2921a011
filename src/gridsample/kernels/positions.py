"""The positions of coordinates among those of an axis's pixels, in pixels: `Backend.positions`.

The formula there defines the result.  Here, the coordinates are lanes, and are found by the search
of the sampling programs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gridsample.definitions.knots import Knots
from gridsample.kernels import threads as pool
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.programs.searches import KnotsInMemory, search
from gridsample.kernels.sampling.searching import knot_settings
from gridsample.kernels.sampling.settings import knot_fields
from gridsample.kernels.vector import Function, Program, Record, compile, host

Array = np.ndarray[Any, Any]

REAL = "float64"
# The points of a task.
SHARE = 1 << 14
SETTINGS = Record(count="int64", sizes=("int64", 1), **knot_fields(1))


def compute(axis: Array, points: Array) -> Array:
    """Return the positions of points, of any shape, among the coordinates of an axis, in float64.

    At a coordinate of the axis, the position is its number, exactly.
    """
    points = np.ascontiguousarray(points, np.float64)
    result = np.empty_like(points)
    tables = knot_settings([Knots(np.array(axis), searched=True)])
    settings = SETTINGS.pack(count=points.size, sizes=[len(axis)], **tables)
    launch = Launch(program(), settings, -(-points.size // SHARE))
    launch.run({"points": points, "result": result}, pool.cores())
    return result


@functools.cache
def program() -> Program:
    """Write and compile the program."""
    lanes = host().lanes(REAL)
    function = Function("positions", lanes, REAL)
    with entry(function, {"points": REAL, "result": REAL}, SETTINGS) as (task, call):
        knots, first = KnotsInMemory.of(call, 0), task * SHARE
        end = (first + SHARE).minimum(call.count)
        whole = first + (end - first) // lanes * lanes
        for start, stop, count in ((first, whole, lanes), (whole, end, 1)):
            with function.loop(start, stop, count) as loop:
                position, _ = search(knots, call.points.load(loop.index, count))
                call.result.store(position, loop.index)
    return compile(function)
