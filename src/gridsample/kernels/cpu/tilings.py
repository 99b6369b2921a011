"""Which images are copied to tiles of channels, and how."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsample.definitions.plan import Plan, Shape
from gridsample.kernels.cpu.layouts import code, starts
from gridsample.kernels.cpu.records import Tiling
from gridsample.kernels.memory import Memory

Array = np.ndarray[Any, Any]

# The channels of a tile, for sums of four bytes and of eight; the least number of channels for
# which tiles pay; and the maximum size of one in bytes: it should stay in the second-level cache.
TILES, LEAST, LARGEST = {4: 16, 8: 8}, 6, 1 << 22


def tile_of(plan: Plan, planes: int) -> int:
    """Return how many channels a tile has."""
    most = TILES[plan.real.itemsize]
    return most if planes > 8 or most == 8 else 8


def tile_back(plan: Plan, planes: int) -> int:
    """Return how many channels each of two tiles has: fewer if both are too large otherwise."""
    few = tile_of(plan, planes)
    return few if size_of_two(plan, few) <= LARGEST else TILES[8]


def size_of_two(plan: Plan, few: int) -> int:
    """Return the bytes of a tile of an image plus one of its gradient, with ``few`` channels."""
    return 2 * math.prod(plan.spatial) * few * plan.real.itemsize


def pays_to_tile(plan: Plan, memory: Memory, image: np.dtype[Any], values: np.dtype[Any]) -> bool:
    """Whether to make channels contiguous first: it pays if points nearly outnumber pixels."""
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
    """Return how wide margins are along each axis, x first: as wide as taps reach, or 0.

    Margins replace edges, under `zeros` only.  No method may round then, because ties are edges.
    """
    zeros = plan.extrapolate and set(plan.boundaries) == {"zeros"}
    margin = zeros and not any(method.rounds for method in plan.methods)
    return tuple((method.taps - 1) * margin for method in plan.methods)


def lay_out(spatial: Shape, margins: Shape, few: int) -> tuple[Shape, Array, int]:
    """Return a tile's strides, x first; the pixel at which each line starts; and its pixels.

    Without margins, all lines are one.
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


def tiling_of(plan: Plan, few: int, planes: int) -> tuple[Shape, Shape, Tiling]:
    """Return the margins of tiles of ``few`` channels, their strides, x first, and their layout."""
    margins = reaches(plan)
    strides, lines, whole = lay_out(plan.spatial, margins, few)
    pixels = math.prod(plan.spatial) // len(lines)
    return margins, strides, Tiling(lines, len(lines), pixels, whole, planes)


def pays_to_tile_back(
    plan: Plan, source: Memory, shadow: Memory, image: np.dtype[Any], values: np.dtype[Any]
) -> bool:
    """Whether to use two tiles: one of the image and one of its gradient; see `pays_to_tile`."""
    return (
        not plan.nearest
        and pays_to_tile(plan, source, image, values)
        and source.strides == shadow.strides
        and (shadow.item != 0 or plan.grid_items == 1)
        and plan.image_items == plan.items
        and size_of_two(plan, TILES[8]) <= LARGEST
    )
