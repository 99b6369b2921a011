"""What the kernels share: a program's points and channels, and the places of their taps.

The functions are plain Python, lowered to Triton by `build`; see `gridsample.kernels.gpu.sweeps`.
"""

from __future__ import annotations

from typing import Any

from gridsample.kernels.gpu.choices import BACKED, COUNT, IN_PIXELS, ORDER, POWERS, TO_CENTRES
from gridsample.kernels.gpu.records import Grid, Static, Tile, Work
from gridsample.kernels.gpu.taps import (
    any_kept,
    fold_taps,
    locate,
    maximum,
    minimum,
    rint,
    tl,
    weigh,
    where,
)

# Where coordinates come from: a grid; affine maps of the output's own positions; or a grid of
# displacements, which are added to those positions and count pixels.
GIVEN, MAPPED, DISPLACED = range(3)


# How values are added to pixels: directly; only the greatest magnitude is recorded; exactly.
AS_THEY_COME, MEASURED, EXACT = range(3)


def plus(a: Any, b: Any) -> Any:
    """Return the sum of two numbers, for reductions."""
    return a + b


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, for reductions."""
    return maximum(a, b)


def over_points(vector: Any, LAST: Static) -> Any:
    """Return one number per point as a tile."""
    if LAST:
        return vector[:, None]
    else:
        return vector[None, :]


def over_channels(vector: Any, LAST: Static) -> Any:
    """Return one number per channel as a tile."""
    if LAST:
        return vector[None, :]
    else:
        return vector[:, None]


def blocks_of(work: Work, tile: Tile) -> Any:
    """Return the number of blocks of an item's points."""
    if tile.WIDTH == tile.BLOCK:
        return (work.points + tile.BLOCK - 1) // tile.BLOCK
    else:
        rows: Static = tile.BLOCK // tile.WIDTH
        across = (work.out_x + tile.WIDTH - 1) // tile.WIDTH
        return across * ((work.points // work.out_x + rows - 1) // rows)


def assignment(work: Work, tile: Tile) -> Any:
    """Return this program's points, a mask of those that exist, their item, and the split.

    A block is a part of a row of the output, or WIDTH points of successive rows.
    """
    blocks = blocks_of(work, tile)
    number = tl.program_id(0)
    block, rest = number % blocks, number // blocks
    index = tl.arange(0, tile.BLOCK)
    if tile.WIDTH == tile.BLOCK:
        point = block * tile.BLOCK + index
        present = point < work.points
    else:
        rows: Static = tile.BLOCK // tile.WIDTH
        across = (work.out_x + tile.WIDTH - 1) // tile.WIDTH
        x = block % across * tile.WIDTH + index % tile.WIDTH
        point = (block // across * rows + index // tile.WIDTH) * work.out_x + x
        present = (x < work.out_x) & (point < work.points)
    return point, present, (rest % work.grid_items).to(tl.int64), rest // work.grid_items


def place(point: Any, out: Any, AXIS: Static) -> Any:
    """Return the points' index along an axis of an output of ``out`` (x, y, z) points."""
    index = point
    for before in tl.static_range(AXIS):
        index = index // out[before]
    return index % out[AXIS]


def ruler(point: Any, out: Any, AXIS: Static, tile: Tile) -> Any:
    """Return where the points are along an axis of the output: from -1 to 1, or their indices.

    As in `gridsample.identity_grid`: (2 i + 1 - n) / n, or over n - 1 for aligned corners.
    """
    if tile.UNITS == IN_PIXELS:
        return place(point, out, AXIS).to(tile.REAL)
    else:
        span = maximum(out[AXIS] - (1 if tile.UNITS == TO_CENTRES else 0), 1)
        steps = 2 * place(point, out, AXIS) + 1 - out[AXIS]
        return steps.to(tile.REAL) / tl.cast(span, tile.REAL)


def mapped(maps: Grid, item: Any, point: Any, out: Any, tile: Tile) -> Any:
    """Compute the points' coordinates by affine maps (item, D, D + 1) of the output's positions."""
    coordinates: Any = ()
    for axis in tl.static_range(tile.RANK):
        start = maps.memory + item * maps.item + axis * maps.axis
        coordinate = tl.full(point.shape, 0, tile.REAL)
        coordinate += tl.load(start + tile.RANK * maps.point).to(tile.REAL)
        for along in tl.static_range(tile.RANK):
            factor = tl.load(start + along * maps.point).to(tile.REAL)
            coordinate += factor * ruler(point, out, along, tile)
        coordinates = coordinates + (coordinate,)
    return coordinates


def find(coordinates: Any, point: Any, present: Any, work: Work, tile: Tile) -> Any:
    """Find the points' taps along every axis: pixels, whether they are kept, and their scales.

    Also return which points are valid, and which of these may have taps: no tap of the others
    is kept.  An axis that the image lacks has a single pixel, at which all points are.
    """
    pixels: Any = ()
    kept: Any = ()
    scales: Any = ()
    near = present
    sizes = (work.size_x, work.size_y, work.size_z)
    out = (work.out_x, work.out_y, work.out_z)
    for axis in tl.static_range(3):
        x = (
            coordinates[axis].to(tile.REAL)
            if axis < tile.RANK
            else tl.full(point.shape, 0, tile.REAL)
        )
        if tile.SOURCE == DISPLACED and axis < tile.RANK and not tile.SPREAD:
            x += place(point, out, axis).to(tile.REAL)
        size = sizes[axis] if axis < tile.RANK else 1
        base, t, pixels_per_unit, valid, within = locate(
            x, size, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z, tile.REAL
        )
        at, there, signs = fold_taps(
            base.to(tile.INDEX), size, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z
        )
        present = present & valid
        near = near & valid & within
        if (tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z)[BACKED]:
            near = near & any_kept(there, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z)
        pixels = pixels + (at,)
        kept = kept + (there,)
        scales = scales + ((t, pixels_per_unit, signs),)
    return pixels, kept, scales, present, near


def weigh_all(scales: Any, tile: Tile, RX: Static, RY: Static, RZ: Static) -> Any:
    """Return the weights of all axes' taps, for orders raised by RX, RY and RZ."""
    return (
        weigh(scales[0][0], scales[0][1], scales[0][2], tile.X, RX),
        weigh(scales[1][0], scales[1][1], scales[1][2], tile.Y, RY),
        weigh(scales[2][0], scales[2][1], scales[2][2], tile.Z, RZ),
    )


def rises(METHOD: Static, BY: Static) -> Any:
    """Whether the derivative of an axis's weights, for its order raised by BY, is not always zero.

    If it is zero, no pixel takes part in it, not even one that is NaN.
    """
    return METHOD[ORDER] + BY < METHOD[POWERS]


def entry(choices: Any, k: Any, SIZE: Static) -> Any:
    """Return an entry of a tuple, for an index that is known at compile time."""
    return choices[k]


def entry_rolled(choices: Any, k: Any, SIZE: Static) -> Any:
    """Return an entry of a tuple, for any index."""
    chosen = choices[0]
    for other in tl.static_range(1, SIZE):
        chosen = where(k == other, choices[other], chosen)
    return chosen


def line_of(y: Any, z: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Select a line's entries from those of the taps along y and along z."""
    return entry(y, line % Y[COUNT], Y[COUNT]), entry(z, line // Y[COUNT], Z[COUNT])


def line_start(pixels: Any, y_step: Any, z_step: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Return the offset of a line in a plane."""
    y, z = line_of(pixels[1], pixels[2], line, Y, Z)
    return z * z_step + y * y_step


def line_weight(y: Any, z: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Return the weight of a line: the product of its taps' weights along y and z."""
    first, other = line_of(y, z, line, Y, Z)
    return first * other


def line_kept(kept: Any, near: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Return for which points a line is kept."""
    first, other = line_of(kept[1], kept[2], line, Y, Z)
    return first & other & near


def first_unit(item: Any, split: Any, work: Work, tile: Tile) -> Any:
    """Return the item and the chunk of channels with which a program begins."""
    chunks = (work.channels + tile.DEPTH - 1) // tile.DEPTH
    return item + split // chunks, split % chunks


def next_unit(n: Any, chunk: Any, work: Work, tile: Tile) -> Any:
    """Return the item and the chunk of channels that follow, ``work.splits`` chunks later."""
    chunks = (work.channels + tile.DEPTH - 1) // tile.DEPTH
    chunk += work.splits % chunks
    wraps = chunk >= chunks
    return n + work.splits // chunks + where(wraps, 1, 0), where(wraps, chunk - chunks, chunk)


def channels_of(chunk: Any, work: Work, tile: Tile) -> Any:
    """Return the channels of a chunk, and a mask of those that exist, as tiles."""
    channel = chunk * tile.DEPTH + tl.arange(0, tile.DEPTH)
    return over_channels(channel, tile.LAST), over_channels(channel < work.channels, tile.LAST)


def look_up(
    source: Any, at: Any, there: Any, real: Any, backdrop: Any, tile: Tile, FILLED: Static
) -> Any:
    """Load a tile of pixels; dropped ones become 0, or the fill value if FILLED."""
    mask = over_points(there, tile.LAST) & real
    pixel = tl.load(source + over_points(at, tile.LAST), mask=mask, other=0).to(tile.REAL)
    if FILLED:
        pixel = where(over_points(there, tile.LAST), pixel, backdrop)
    return pixel


def vote(
    source: Any,
    steps: Any,
    pixels: Any,
    kept: Any,
    near: Any,
    weights: Any,
    real: Any,
    backdrop: Any,
    tile: Tile,
) -> Any:
    """A tile of labels: those with the largest sums of weights, and the smallest that tie.

    The total of a tap is the sum of the weights of all from it on that have its label.  So the
    first tap of a label has the whole sum, and the others have no more.
    """
    labels: Any = ()
    shares: Any = ()
    for line in tl.static_range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
        start = line_start(pixels, steps[1], steps[2], line, tile.Y, tile.Z)
        inside = line_kept(kept, near, line, tile.Y, tile.Z)
        w = line_weight(weights[1], weights[2], line, tile.Y, tile.Z)
        for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
            there = over_points(inside & kept[0][i], tile.LAST)
            at = over_points(start + pixels[0][i] * steps[0], tile.LAST)
            label = tl.load(source + at, mask=there & real, other=0)
            if tile.FILLED:
                label = where(there, label, backdrop)
            labels = labels + (label,)
            shares = shares + (over_points(w * weights[0][i], tile.LAST),)
    TAPS: Static = tile.X[COUNT] * tile.Y[COUNT] * tile.Z[COUNT]
    winner = labels[0]
    highest = tl.full(winner.shape, -1, tile.REAL)
    for t in tl.static_range(TAPS):
        total = tl.full(winner.shape, 0, tile.REAL) + shares[t]
        for other in tl.static_range(TAPS):
            if other > t:
                total += where(labels[other] == labels[t], shares[other], 0)
        wins = (total > highest) | ((total == highest) & (labels[t] < winner))
        winner = where(wins, labels[t], winner)
        highest = where(wins, total, highest)
    return winner


def to_integers(total: Any, LOW: Static, HIGH: Static, KIND: Static) -> Any:
    """Convert sums to an integer type: round half to even, and saturate."""
    rounded = rint(total)
    # NaN, which only a fill value can be, becomes 0.
    inside = minimum(maximum(where(rounded == rounded, rounded, 0), LOW), HIGH).to(KIND)
    # The limits of 64-bit integers are not floats: values that reach them are not converted.
    return where(rounded >= HIGH, HIGH, where(rounded <= LOW, LOW, inside))


def blank(total: Any, valid: Any, tile: Tile) -> Any:
    """Replace invalid points by NaN."""
    nothing = tl.full([], float("nan"), tile.REAL).to(total.dtype)
    return where(over_points(valid, tile.LAST), total, nothing)
