"""The driver that samples without listing taps: see `gridsample.kernels.cpu.linear_lanes`.

Arguments are those of `gridsample.kernels.cpu.sweeps`.  One plane is sampled in one loop, from
coordinates to values.  Several share what is worked out from the coordinates: offsets and
distances are stored for a block of points, and each plane is sampled from there.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import HALF, ONE, minimum
from gridsample.kernels.cpu.passes import fetch_ahead
from gridsample.kernels.cpu.sweeps import settle_block, window
from gridsample.kernels.cpu.taps import (
    APART,
    AT,
    AXES,
    COORDINATES,
    COUNT,
    EACH,
    FRACTION,
    NUMBERS,
    SHARED,
    WIDTH,
    lay_blocks,
    lay_points,
    next_block,
    tail,
)

Array = Any

# Bound by lowering.
real = float
int64 = int
unsigned = int
AFFINE = False  # whether a grid's memory holds affine maps instead
LANES = 1  # how many points are worked on at once


def place_points(*arguments: Any) -> None:
    """Store the offsets and distances of LANES points; with ``_one``, of one."""


def sample_plane(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by offsets and distances; whether all values are finite."""
    return True


def sample_points(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by coordinates; whether all values are finite."""
    return True


place_points_one = place_points
sample_plane_one = sample_plane_carefully = sample_plane_carefully_one = sample_plane
sample_points_one = sample_points_carefully = sample_points_carefully_one = sample_points


def place_block(
    grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any, apart: int,
    at: Array, x: Array, width: int, n: int,
) -> None:  # fmt: skip
    """The offsets and distances of a block of points."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        place_points(grid, i, gap, measures, strides, within, share, apart, at, x, width)
    for i in range(whole, n):
        place_points_one(grid, i, gap, measures, strides, within, share, apart, at, x, width)


def sample_placed(
    plane: Array, strides: Array, at: Array, x: Array, width: int, numbers: Array, n: int
) -> None:
    """A block's values in one plane, from offsets and distances."""
    whole, finite = n // LANES * LANES, True
    for i in range(0, whole, LANES):
        finite &= sample_plane(plane, i, strides, at, x, width, numbers)
    for i in range(whole, n):
        finite &= sample_plane_one(plane, i, strides, at, x, width, numbers)
    if not finite:
        for i in range(0, whole, LANES):
            sample_plane_carefully(plane, i, strides, at, x, width, numbers)
        for i in range(whole, n):
            sample_plane_carefully_one(plane, i, strides, at, x, width, numbers)


def sample_block(
    plane: Array, grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any,
    apart: int, numbers: Array, n: int,
) -> None:  # fmt: skip
    """A block's values in one plane, from coordinates."""
    whole, finite = n // LANES * LANES, True
    for i in range(0, whole, LANES):
        finite &= sample_points(
            plane, grid, i, gap, measures, strides, within, share, apart, numbers
        )
    for i in range(whole, n):
        finite &= sample_points_one(
            plane, grid, i, gap, measures, strides, within, share, apart, numbers
        )
    if not finite:
        for i in range(0, whole, LANES):
            sample_points_carefully(
                plane, grid, i, gap, measures, strides, within, share, apart, numbers
            )
        for i in range(whole, n):
            sample_points_carefully_one(
                plane, grid, i, gap, measures, strides, within, share, apart, numbers
            )


def gather_direct(
    image: Array, grid: Array, out: Array, outside: Array, dropped: Array, holes: Array,
    strides: Array, source: Array, image_item: int, shifts: Array, far: bool,
    grid_begin: int, grid_item: int, axis_step: int, point_step: int,
    target: Array, out_item: int, out_step: int,
    block: Array, axes: Array, measures: Array, tables: Array, indices: Array, reals: Array,
    first_item: int, last_item: int, first: int, last: int, planes: int, end: int,
) -> None:  # fmt: skip
    """As `gridsample.kernels.cpu.sweeps.gather`, where points need no list of taps."""
    width, shared = block[WIDTH], block[SHARED]
    at, x = tail(indices, block[AT]), tail(reals, block[FRACTION])
    room, one = tail(reals, block[NUMBERS]), end - planes == 1 and not far
    share = ONE / real(shared) if shared else real(0)
    for item in range(first_item, last_item):
        points = tail(grid, grid_begin + item * grid_item + first * point_step)
        row, strip, _ = lay_blocks(block, measures, points, axis_step, point_step, last - first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = minimum(strip, row - begins)
            begin, many = first + start, unsigned(n)
            here, gap = tail(points, start * point_step), axis_step
            if AFFINE:
                here, gap = tail(reals, block[COORDINATES]), width
                lay_points(points, axes, measures, block[AXES], begin, here, width, many)
            item_of = begin // shared if shared else int64(0)
            within, moved = real(begin - item_of * shared) + HALF, item_of * block[APART]
            if not one:
                place_block(
                    here, gap, measures, strides, within, share, block[APART], at, x, width, n
                )
            for p in range(planes, end):
                plane = tail(image, source[p] + item * image_item + moved)
                values = tail(out, target[p] + item * out_item)
                numbers = window(tail(values, begin * out_step), room)
                if one:
                    sample_block(
                        plane, here, gap, measures, strides, within, share, block[APART], numbers,
                        n,
                    )  # fmt: skip
                else:
                    if far:
                        fetch_ahead(plane, at, shifts, axes[COUNT], block[EACH], many)
                    sample_placed(plane, strides, at, x, width, numbers, n)
                settle_block(block, numbers, values, begin, out_step, indices, many)
            start, begins = next_block(start, begins, last - first, row, strip)


# What lowering compiles before the driver.
LOOPS = (place_block, sample_placed, sample_block)
