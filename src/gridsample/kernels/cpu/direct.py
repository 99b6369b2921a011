"""The drivers that need no list of taps: see `gridsample.kernels.cpu.linear_lanes`.

Arguments are those of `gridsample.kernels.cpu.sweeps`.  One plane is sampled in one loop, from
coordinates to values.  Several share what is worked out from the coordinates: offsets and
distances are stored for a block of points, and each plane is sampled from there.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import HALF, ONE, minimum
from gridsample.kernels.cpu.passes import fetch_ahead, spread, spread_band, spread_pairs
from gridsample.kernels.cpu.sweeps import clear_sums, fetch_block, settle_block, window
from gridsample.kernels.cpu.taps import (
    APART,
    AT,
    AXES,
    COORDINATES,
    COUNT,
    EACH,
    FRACTION,
    NUMBERS,
    PIXELS,
    PLACED,
    SHARED,
    SUMS,
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
JOINED = False  # whether neighbours along x are side by side in what is scattered to
LANES = 1  # how many points are worked on at once


def place_points(*arguments: Any) -> None:
    """Store the offsets and distances of LANES points; with ``_one``, of one."""


def sample_plane(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by offsets and distances; whether all values are finite."""
    return True


def sample_points(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by coordinates; whether all values are finite."""
    return True


def derive(*arguments: Any) -> None:
    """Both gradients of LANES points of a plane, by offsets and distances."""


def settle_slopes(*arguments: Any) -> None:
    """Store the grid's gradient of LANES points."""


place_points_one = place_slopes = place_slopes_one = place_points
derive_image = derive_grid = derive_both = derive
derive_image_one = derive_grid_one = derive_both_one = derive
settle_slopes_one = settle_slopes
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


def place_block_slopes(
    grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any, apart: int,
    at: Array, x: Array, width: int, n: int,
) -> None:  # fmt: skip
    """As place_block, and then how positions change with the coordinates."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        place_slopes(grid, i, gap, measures, strides, within, share, apart, at, x, width)
    for i in range(whole, n):
        place_slopes_one(grid, i, gap, measures, strides, within, share, apart, at, x, width)


def derive_block(
    plane: Array, strides: Array, at: Array, x: Array, width: int, g: Array, sums: Array,
    shares: Array, need_image: bool, need_grid: bool, n: int,
) -> None:  # fmt: skip
    """Add to the sums of a block's points, and make the pixels' shares of their values."""
    whole = n // LANES * LANES
    if need_image and need_grid:
        for i in range(0, whole, LANES):
            derive_both(plane, i, strides, at, x, width, g, sums, shares)
        for i in range(whole, n):
            derive_both_one(plane, i, strides, at, x, width, g, sums, shares)
    elif need_grid:
        for i in range(0, whole, LANES):
            derive_grid(plane, i, strides, at, x, width, g, sums, shares)
        for i in range(whole, n):
            derive_grid_one(plane, i, strides, at, x, width, g, sums, shares)
    else:
        for i in range(0, whole, LANES):
            derive_image(plane, i, strides, at, x, width, g, sums, shares)
        for i in range(whole, n):
            derive_image_one(plane, i, strides, at, x, width, g, sums, shares)


def settle_block_slopes(sums: Array, x: Array, width: int, gradient: Array, n: int) -> None:
    """The sums of a block -> the grid's gradient."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        settle_slopes(sums, x, i, width, gradient)
    for i in range(whole, n):
        settle_slopes_one(sums, x, i, width, gradient)


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
    room, one = tail(reals, block[NUMBERS]), end - planes == 1
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
                    sample_placed(plane, strides, at, x, width, numbers, n)
                settle_block(block, numbers, values, begin, out_step, indices, many)
            start, begins = next_block(start, begins, last - first, row, strip)


def backward_direct(
    image: Array, grid: Array, values: Array, shadow: Array, gradient: Array, dropped: Array,
    strides: Array, shifts: Array, source: Array, image_item: int,
    shadow_source: Array, shadow_item: int,
    grid_begin: int, grid_item: int, axis_step: int, point_step: int,
    target: Array, values_item: int, values_step: int, gradient_item: int,
    far: bool, need_image: bool, need_grid: bool,
    block: Array, axes: Array, measures: Array, tables: Array, indices: Array, reals: Array,
    first_item: int, last_item: int, first: int, last: int, planes: int, end: int,
    banded: bool, low: int, high: int,
) -> None:  # fmt: skip
    """As `gridsample.kernels.cpu.sweeps.backward`, where points need no list of taps."""
    width, shared, count = block[WIDTH], block[SHARED], block[EACH]
    wide, at, x = unsigned(width), tail(indices, block[AT]), tail(reals, block[PLACED])
    g, sums, shares = (
        tail(reals, block[NUMBERS]),
        tail(reals, block[SUMS]),
        tail(reals, block[PIXELS]),
    )
    share = ONE / real(shared) if shared else real(0)
    for item in range(first_item, last_item):
        points = tail(grid, grid_begin + item * grid_item + first * point_step)
        slopes = tail(gradient, item * gradient_item + first * block[AXES] * need_grid)
        row, strip, _ = lay_blocks(block, measures, points, axis_step, point_step, last - first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = minimum(strip, row - begins)
            begin, many = first + start, unsigned(n)
            here = tail(points, start * point_step)
            item_of = begin // shared if shared else int64(0)
            within, moved = real(begin - item_of * shared) + HALF, item_of * block[APART]
            place_block_slopes(
                here, axis_step, measures, strides, within, share, block[APART], at, x, width, n
            )
            clear_sums(sums, block[AXES] * need_grid, width, many)
            for p in range(planes, end):
                onto = tail(values, target[p] + item * values_item)
                fetch_block(block, onto, begin, values_step, g, many)
                plane = tail(image, source[p] + item * image_item + moved * need_grid)
                shade = tail(shadow, shadow_source[p] + item * shadow_item + moved * need_image)
                if far and need_image:
                    fetch_ahead(shade, at, shifts, axes[COUNT], count, many)
                if far and need_grid:
                    fetch_ahead(plane, at, shifts, axes[COUNT], count, many)
                derive_block(
                    plane, strides, at, x, width, g, sums, shares, need_image, need_grid, n
                )
                if need_image:
                    if banded:
                        spread_band(
                            shade, at, shifts, shares, low - moved, high - moved, count, wide, many
                        )
                    elif JOINED:
                        spread_pairs(shade, at, shifts, shares, count, wide, many)
                    else:
                        spread(shade, at, shifts, shares, count, wide, many)
            if need_grid:
                settle_block_slopes(sums, x, width, tail(slopes, start * block[AXES]), n)
            start, begins = next_block(start, begins, last - first, row, strip)


# What lowering compiles before the drivers.
LOOPS = (
    place_block,
    place_block_slopes,
    sample_placed,
    sample_block,
    derive_block,
    settle_block_slopes,
)
