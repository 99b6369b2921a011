"""Which images are laid out in tiles of channels, and how."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsample.definitions.plan import Plan, Shape
from gridsample.kernels.cpu.layouts import code, starts
from gridsample.kernels.memory import Memory

Array = np.ndarray[Any, Any]

# Channels of a tile, for sums of four bytes and of eight; of how many a tile is worth its while;
# and bytes of one, at most: it should stay in the second-level cache.
TILES, LEAST, LARGEST = {4: 16, 8: 8}, 6, 1 << 22


def tile_of(plan: Plan, planes: int) -> int:
    """How many channels a tile has."""
    most = TILES[plan.real.itemsize]
    return most if planes > 8 or most == 8 else 8


def pays_to_tile(plan: Plan, memory: Memory, image: np.dtype[Any], values: np.dtype[Any]) -> bool:
    """Whether to lay channels side by side first: points nearly outnumber pixels."""
    planes = len(starts(memory, plan, False)[0])
    pixels, step, expected = math.prod(plan.spatial), 1, []
    for n in plan.spatial[::-1]:
        expected.append(step)
        step *= n
    return (
        planes >= LEAST
        and memory.strides == tuple(expected)
        and code(image) == code(values) == code(plan.real)
        and 2 * plan.points >= pixels
        and pixels * tile_of(plan, planes) * plan.real.itemsize <= LARGEST
    )


def reaches(plan: Plan) -> tuple[int, ...]:
    """How far taps reach beyond an image along each axis, x first, where all find 0 there.

    No method may round: ties are left to the edges, and then there are none.
    """
    zeros = plan.extrapolate and set(plan.boundaries) == {"zeros"}
    margin = zeros and not any(method.rounds for method in plan.methods)
    return tuple((method.taps - 1) * margin for method in plan.methods)


def lay_out(spatial: Shape, margins: Shape, few: int) -> tuple[Shape, Array, int]:
    """A tile with margins: its strides, x first; the pixel where each line begins; its pixels.

    Without margins the lines are one.
    """
    sizes = [n + 2 * margin for n, margin in zip(spatial[::-1], margins, strict=True)]
    steps = [math.prod(sizes[:a]) for a in range(len(sizes))]
    if not any(margins):
        lines = np.zeros(1, np.int64)
    else:
        lines = np.full((1,) * len(spatial), sum(map(math.prod, zip(margins, steps, strict=True))))
        for a, n in enumerate(spatial[:-1]):
            along = np.arange(n, dtype=np.int64) * steps[len(spatial) - 1 - a]
            lines = lines + along.reshape([-1 if k == a else 1 for k in range(len(spatial))])
    return tuple(few * step for step in steps), lines.reshape(-1), math.prod(sizes)


def pays_to_tile_back(
    plan: Plan, source: Memory, shadow: Memory, image: np.dtype[Any], values: np.dtype[Any]
) -> bool:
    """As `pays_to_tile`, for two tiles: one of the image and one of its gradient."""
    return (
        not plan.nearest
        and pays_to_tile(plan, source, image, values)
        and source.strides == shadow.strides
        and (shadow.item != 0 or plan.grid_items == 1)
        and plan.image_items == plan.items
        and 2 * math.prod(plan.spatial) * TILES[8] * plan.real.itemsize <= LARGEST
    )
