"""Footprints of points: their sides, their samples, and the gradients of both.

The definition is `gridsample.definitions.footprints`; the CPU's programs are in
`gridsample.kernels.sampling.programs.footprints`.  A program finds the sides of its points'
footprints once, from the points and their neighbours, or from the columns of an affine map.
Samples are numbered, first along x, then along y and z, and a program goes through as many as some
point has.  So no sample is ever stored.

Points are processed in several launches if some of them need smaller copies of the image: one for
each `level`, in which the other points have no samples.

As in `taps`, the functions are plain Python, lowered to Triton by `build`.  Axes are in the order
of coordinates, x first, for sides, too.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import HALF, ZERO, turns
from gridsample.definitions.footprints import SLACK
from gridsample.kernels.gpu.choices import IN_PIXELS, TO_CENTRES
from gridsample.kernels.gpu.parts import (
    DISPLACED,
    MAPPED,
    assignment,
    blocks_of,
    larger,
    place,
    plus,
    ruler,
)
from gridsample.kernels.gpu.records import FootprintParams, Grid, Static, Tile, Work
from gridsample.kernels.gpu.taps import floor, maximum, minimum, tl, where

# The square of the greatest length of a side, in pixels.
HUGE = 1e18


def quotient(a: Any, b: Any, REAL: Static) -> Any:
    """Return a / b, rounded correctly: Triton's own division in single precision is not."""
    if REAL.primitive_bitwidth == 64:
        return a.to(REAL) / b.to(REAL)
    else:
        return tl.div_rn(a.to(REAL), b.to(REAL))


# Sides --------------------------------------------------------------------------------------------


def is_finite(coordinates: Any, RANK: Static) -> Any:
    """Whether all coordinates of the points are finite."""
    finite = coordinates[0] - coordinates[0] == ZERO
    for axis in tl.static_range(1, RANK):
        finite = finite & (coordinates[axis] - coordinates[axis] == ZERO)
    return finite


def load_points(grid: Grid, item: Any, point: Any, there: Any, tile: Tile) -> Any:
    """Load the coordinates of points of a grid; 0 along axes that it lacks."""
    at = grid.memory + item * grid.item + point.to(tile.INDEX) * grid.point
    return (
        tl.load(at, mask=there, other=0).to(tile.REAL),
        tl.load(at + grid.axis, mask=there & (tile.RANK > 1), other=0).to(tile.REAL),
        tl.load(at + 2 * grid.axis, mask=there & (tile.RANK > 2), other=0).to(tile.REAL),
    )


def in_real(coordinates: Any, tile: Tile) -> Any:
    """Convert coordinates to the type in which footprints are computed; 0 along absent axes."""
    result: Any = ()
    for axis in tl.static_range(3):
        if axis < tile.RANK:
            result = result + (coordinates[axis].to(tile.REAL),)
        else:
            result = result + (tl.full(coordinates[0].shape, 0, tile.REAL),)
    return result


def side(
    grid: Grid,
    item: Any,
    point: Any,
    own_coordinates: Any,
    there: Any,
    work: Work,
    tile: Tile,
    footprint: FootprintParams,
    AXIS: Static,
) -> Any:
    """Return the differences of a grid along an axis of the output, for points that are finite.

    They are half the difference of both neighbours, or the whole difference to the only one.
    """
    out = (work.out_x, work.out_y, work.out_z)
    step = 1
    for before in tl.static_range(AXIS):
        step = step * out[before]
    index = place(point, out, AXIS)
    lower = there & (index > 0)
    upper = there & (index < out[AXIS] - 1)
    first = load_points(grid, item, point - step, lower, tile)
    last = load_points(grid, item, point + step, upper, tile)
    lower = lower & is_finite(first, tile.RANK)
    upper = upper & is_finite(last, tile.RANK)
    result: Any = ()
    for axis in tl.static_range(3):
        # An infinite point has no neighbours, and infinity minus itself is not zero.
        after = where(upper, last[axis], own_coordinates[axis])
        before = where(lower, first[axis], own_coordinates[axis])
        apart = after - before
        apart = where(lower | upper, where(lower & upper, apart * HALF, apart), 0)
        if (footprint.WRAPPED >> axis) & 1:
            back = where(lower, own_coordinates[axis] - before, 0)
            ahead = where(upper, after - own_coordinates[axis], 0)
            if tile.SOURCE == DISPLACED and axis == AXIS:
                back += where(lower, 1, 0).to(tile.REAL)
                ahead += where(upper, 1, 0).to(tile.REAL)
            period = period_of(tile, footprint, axis)
            number = turns(back, ahead, period) * where(lower & upper, HALF, 1)
            apart -= number * period
        if tile.SOURCE == DISPLACED and axis == AXIS:
            apart += where(lower | upper, 1, 0).to(tile.REAL)
        result = result + (apart,)
    return result


def period_of(tile: Tile, footprint: FootprintParams, AXIS: Static) -> Any:
    """Return the period of coordinates along an axis whose positions are a circle."""
    pixels = (footprint.full_x, footprint.full_y, footprint.full_z)[AXIS]
    if tile.UNITS == IN_PIXELS:
        return tl.cast(pixels, tile.REAL)
    else:
        gaps = pixels - (1 if tile.UNITS == TO_CENTRES else 0)
        result = tl.cast(2 * pixels, tile.REAL) / tl.cast(maximum(gaps, 1), tile.REAL)
        return where(gaps > 0, result, 1)


def pace(out: Any, tile: Tile, AXIS: Static) -> Any:
    """Return the step of `ruler` along an axis of the output, which may have only one point."""
    if tile.UNITS == IN_PIXELS:
        return tl.full([], 1, tile.REAL)
    else:
        gaps = out[AXIS] - (1 if tile.UNITS == TO_CENTRES else 0)
        step = tl.full([], 2, tile.REAL) / tl.cast(maximum(gaps, 1), tile.REAL)
        return where(gaps > 0, step, 0)


def side_of_map(
    maps: Grid, item: Any, point: Any, there: Any, work: Work, tile: Tile, AXIS: Static
) -> Any:
    """Return a side of all points of an affine map: a column times the step between points."""
    step = pace((work.out_x, work.out_y, work.out_z), tile, AXIS)
    result: Any = ()
    for axis in tl.static_range(3):
        length = tl.full(point.shape, 0, tile.REAL)
        if axis < tile.RANK:
            at = maps.memory + item * maps.item + axis * maps.axis + AXIS * maps.point
            length = where(there, tl.load(at).to(tile.REAL) * step, length)
        result = result + (length,)
    return result


def sides_of(
    grid: Grid,
    item: Any,
    point: Any,
    own_coordinates: Any,
    there: Any,
    work: Work,
    tile: Tile,
    footprint: FootprintParams,
) -> Any:
    """Return the sides of the points' footprints, one for each axis of the output.

    own_coordinates: the points' coordinates.
    there: which points exist and are finite.
    """
    sides: Any = ()
    for axis in tl.static_range(tile.RANK):
        if tile.SOURCE == MAPPED:
            sides = sides + (side_of_map(grid, item, point, there, work, tile, axis),)
        else:
            sides = sides + (
                side(grid, item, point, own_coordinates, there, work, tile, footprint, axis),
            )
    return sides


def count_samples(sides: Any, tile: Tile, footprint: FootprintParams) -> Any:
    """Return how often the image is halved for each point, and its samples along each axis."""
    sizes = (footprint.full_x, footprint.full_y, footprint.full_z)
    lengths: Any = ()
    longest = tl.full(sides[0][0].shape, 0, tile.REAL)
    for axis in tl.static_range(tile.RANK):
        total = tl.full(longest.shape, 0, tile.REAL)
        for part in tl.static_range(tile.RANK):
            length = sides[axis][part]
            if tile.UNITS != IN_PIXELS:
                pixels = sizes[part] - (1 if tile.UNITS == TO_CENTRES else 0)
                length = length * (tl.cast(pixels, tile.REAL) * HALF)
            total += length * length
        length = tl.sqrt(minimum(total, HUGE))
        lengths = lengths + (length,)
        longest = maximum(longest, length)
    level = tl.full(longest.shape, 0, tl.int32)
    scale = tl.full(longest.shape, 1, tile.REAL)
    for _ in tl.range(0, footprint.levels):
        more = longest - SLACK > footprint.max_samples
        level += where(more, 1, 0)
        longest = where(more, longest * HALF, longest)
        scale = where(more, scale * HALF, scale)
    counts: Any = ()
    for axis in tl.static_range(3):
        number = tl.full(longest.shape, 1, tl.int32)
        if axis < tile.RANK:
            needed = lengths[axis] * scale - SLACK
            rounded_up = floor(needed)
            rounded_up += where(needed > rounded_up, 1, 0).to(tile.REAL)
            number = minimum(maximum(rounded_up, 1), footprint.max_samples).to(tl.int32)
        counts = counts + (number,)
    return level, counts


def measure_footprints(
    grid: Grid, extent: Any, work: Work, tile: Tile, footprint: FootprintParams
) -> None:
    """Find the deepest level of all points, and the most samples of a point.

    All points of an affine map have the same sides, so that one point of each is enough.
    """
    point, present, item, _ = assignment(work, tile)
    own_coordinates = load_points(grid, item, point, present & (tile.SOURCE != MAPPED), tile)
    there = present & is_finite(own_coordinates, tile.RANK)
    level, counts = count_samples(
        sides_of(grid, item, point, own_coordinates, there, work, tile, footprint), tile, footprint
    )
    tl.atomic_max(extent, tl.reduce(level, 0, larger), sem="relaxed")
    tl.atomic_max(
        extent + 1, tl.reduce(counts[0] * counts[1] * counts[2], 0, larger), sem="relaxed"
    )


# Samples ------------------------------------------------------------------------------------------


def base_of(coordinates: Any, point: Any, work: Work, tile: Tile) -> Any:
    """Return the points' coordinates, to which those of samples are relative."""
    out = (work.out_x, work.out_y, work.out_z)
    result: Any = ()
    for axis in tl.static_range(tile.RANK):
        x = coordinates[axis]
        if tile.SOURCE == DISPLACED:
            x += place(point, out, axis).to(tile.REAL)
        result = result + (x,)
    return result


def find_footprints(
    grid: Grid,
    item: Any,
    point: Any,
    coordinates: Any,
    present: Any,
    work: Work,
    tile: Tile,
    footprint: FootprintParams,
) -> Any:
    """Find the footprints of points.

    Return what the coordinates of samples are relative to, the sides, the samples along each side,
    their product, and which points are present and belong to the launch's level.
    """
    own_coordinates = in_real(coordinates, tile)
    there = present & is_finite(own_coordinates, tile.RANK)
    sides = sides_of(grid, item, point, own_coordinates, there, work, tile, footprint)
    level, counts = count_samples(sides, tile, footprint)
    samples = counts[0] * counts[1] * counts[2]
    return (
        base_of(own_coordinates, point, work, tile),
        sides,
        counts,
        samples,
        present & (level == footprint.level),
    )


def fractions_along(j: Any, counts: Any, tile: Tile) -> Any:
    """Return the place of sample ``j`` along each side, from -1/2 to 1/2."""
    result: Any = ()
    rest = j
    for axis in tl.static_range(3):
        here = (rest % counts[axis]).to(tile.REAL) + HALF
        result = result + (quotient(here, counts[axis], tile.REAL) - HALF,)
        rest = rest // counts[axis]
    return result


def gain(work: Work, tile: Tile, footprint: FootprintParams, AXIS: Static) -> Any:
    """Return the factor of coordinates along an axis, and the summand, in a halved image."""
    size = (work.size_x, work.size_y, work.size_z)[AXIS]
    full = (footprint.full_x, footprint.full_y, footprint.full_z)[AXIS]
    ratio = quotient(tl.cast(size, tile.REAL), tl.cast(full, tile.REAL), tile.REAL)
    if tile.UNITS == TO_CENTRES:
        pixels = tl.cast(full - 1, tile.REAL) * HALF
        return ratio * pixels, tl.cast(size, tile.REAL) * HALF - HALF
    else:
        return ratio, ratio * HALF - HALF


def sample_at(
    base: Any,
    sides: Any,
    counts: Any,
    along: Any,
    work: Work,
    tile: Tile,
    footprint: FootprintParams,
) -> Any:
    """Return the coordinates of a sample of each point; a point's only sample is the point."""
    result: Any = ()
    for axis in tl.static_range(tile.RANK):
        x = base[axis]
        for back in tl.static_range(tile.RANK):
            move = along[tile.RANK - 1 - back] * sides[tile.RANK - 1 - back][axis]
            x += where(counts[tile.RANK - 1 - back] > 1, move, 0)
        if footprint.SCALED:
            factor, summand = gain(work, tile, footprint, axis)
            x = x * factor + summand
        result = result + (x,)
    return result


# Gradients ----------------------------------------------------------------------------------------


def none_yet(tile: Tile) -> Any:
    """Return the sums of `add_sample` before the first sample, all 0."""
    sums: Any = ()
    for _ in tl.static_range(3 * (tile.RANK + 1)):
        sums = sums + (tl.full([tile.BLOCK], 0, tile.REAL),)
    return sums


def add_sample(sums: Any, slopes: Any, along: Any, tile: Tile, footprint: FootprintParams) -> Any:
    """Add a sample's slopes to the sums: as they are, and times its place along each side."""
    result: Any = ()
    for part in tl.static_range(tile.RANK + 1):
        for axis in tl.static_range(3):
            total = sums[3 * part + axis]
            if axis < tile.RANK:
                if part == 0:
                    total += slopes[axis]
                elif footprint.ATTACHED:
                    total += slopes[axis] * along[part - 1]
            result = result + (total,)
    return result


def keep_sums(
    gradient: Any,
    sums: Any,
    row: Any,
    point: Any,
    mine: Any,
    work: Work,
    tile: Tile,
    footprint: FootprintParams,
) -> None:
    """Add the sums to ``gradient``: (splits, items, points, parts, D) for the points of a grid.

    The first part is the gradient of the points, the others those of their sides.  Those of an
    affine map's points are summed for each entry of the map: (splits, items, blocks, D, D + 1).
    """
    out = (work.out_x, work.out_y, work.out_z)
    for axis in tl.static_range(tile.RANK):
        factor = tl.full([], 1, tile.REAL)
        if footprint.SCALED:
            factor = gain(work, tile, footprint, axis)[0]
        slope = where(mine, sums[axis] * factor, 0)
        if tile.SOURCE == MAPPED:
            blocks = blocks_of(work, tile)
            block = tl.program_id(0) % blocks
            entry = gradient + ((row * blocks + block) * tile.RANK + axis) * (tile.RANK + 1)
            for column in tl.static_range(tile.RANK):
                part = slope * ruler(point, out, column, tile)
                if footprint.ATTACHED:
                    by_side = where(mine, sums[3 * (column + 1) + axis] * factor, 0)
                    part += by_side * pace(out, tile, column)
                tl.store(entry + column, tl.load(entry + column) + tl.reduce(part, 0, plus))
            last = entry + tile.RANK
            tl.store(last, tl.load(last) + tl.reduce(slope, 0, plus))
        else:
            parts = tile.RANK + 1 if footprint.ATTACHED else 1
            entry = gradient + (row * work.points + point) * (parts * tile.RANK) + axis
            for part in tl.static_range(tile.RANK + 1):
                if part == 0 or footprint.ATTACHED:
                    at = entry + part * tile.RANK
                    more = sums[3 * part + axis] * factor
                    tl.store(at, tl.load(at, mask=mine, other=0) + more, mask=mine)


# Ordered so that each function uses only those before it.
FUNCTIONS = (
    *(
        quotient,
        is_finite,
        load_points,
        in_real,
        turns,
        period_of,
        side,
        pace,
        side_of_map,
        sides_of,
        count_samples,
    ),
    *(base_of, find_footprints, fractions_along, gain, sample_at, none_yet, add_sample, keep_sums),
)
