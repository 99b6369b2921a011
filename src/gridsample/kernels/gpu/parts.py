"""What the kernels share: which points and channels a program takes, and where their taps are.

These are plain Python, lowered to Triton by `build`; see `gridsample.kernels.gpu.sweeps`.
"""

from __future__ import annotations

from typing import Any

from gridsample.kernels.axes import BACKED, COORDS, COUNT, ORDER, POWERS, TO_CENTRES
from gridsample.kernels.gpu.records import Grid, Static, Tile, Work
from gridsample.kernels.gpu.taps import (
    any_kept,
    lay,
    locate,
    maximum,
    minimum,
    rint,
    tl,
    weigh,
    where,
)

# Where coordinates are from: a grid; a map, of the output's own places; or they are to be added to
# those, counted in pixels.
GIVEN, MAPPED, DISPLACED = range(3)


# How values are added to pixels: as they come; not at all, but the largest one is found; exactly.
AS_THEY_COME, MEASURED, EXACT = range(3)


def plus(a: Any, b: Any) -> Any:
    """The sum of two numbers, to reduce by."""
    return a + b


def over_points(vector: Any, LAST: Static) -> Any:
    """A number for each point, as a tile."""
    if LAST:
        return vector[:, None]
    else:
        return vector[None, :]


def over_channels(vector: Any, LAST: Static) -> Any:
    """A number for each channel, as a tile."""
    if LAST:
        return vector[None, :]
    else:
        return vector[:, None]


def assignment(work: Work, BLOCK: Static) -> Any:
    """What this program is to do: its points, those that there are, their item, and its split."""
    blocks = (work.points + BLOCK - 1) // BLOCK
    number = tl.program_id(0)
    point = (number % blocks) * BLOCK + tl.arange(0, BLOCK)
    rest = number // blocks
    return (
        point,
        point < work.points,
        (rest % work.grid_items).to(tl.int64),
        rest // work.grid_items,
    )


def place(point: Any, out: Any, AXIS: Static) -> Any:
    """The points' index along an axis of an output of ``out`` (x, y, z) points."""
    index = point
    for before in tl.static_range(AXIS):
        index = index // out[before]
    return index % out[AXIS]


def ruler(point: Any, out: Any, AXIS: Static, tile: Tile) -> Any:
    """Where the points are along an axis of the output, from -1 to 1.

    As `gridsample.identity_grid`: (2 i + 1 - n) / n, or over n - 1 for aligned corners.
    """
    span = maximum(out[AXIS] - (1 if tile.X[COORDS] == TO_CENTRES else 0), 1)
    return (2 * place(point, out, AXIS) + 1 - out[AXIS]).to(tile.REAL) / tl.cast(span, tile.REAL)


def mapped(maps: Grid, item: Any, point: Any, out: Any, tile: Tile) -> Any:
    """The points' coordinates, made of affine maps (item, D, D + 1) of the output's own places."""
    coordinates: Any = ()
    for axis in tl.static_range(tile.RANK):
        start = maps.memory + item * maps.item + axis * maps.axis
        made = tl.full(point.shape, 0, tile.REAL)
        made += tl.load(start + tile.RANK * maps.point).to(tile.REAL)
        for along in tl.static_range(tile.RANK):
            factor = tl.load(start + along * maps.point).to(tile.REAL)
            made += factor * ruler(point, out, along, tile)
        coordinates = coordinates + (made,)
    return coordinates


def find(coordinates: Any, point: Any, present: Any, work: Work, tile: Tile) -> Any:
    """The points' taps on every axis: pixels, which are kept, and what they are weighed by.

    Also which points are somewhere, and which of those may have taps: no tap of others is kept.
    On an axis that the image has not there is a single pixel, and all points are on it.
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
        if tile.SOURCE == DISPLACED and axis < tile.RANK:
            x += place(point, out, axis).to(tile.REAL)
        size = sizes[axis] if axis < tile.RANK else 1
        base, t, steep, sure, within = locate(
            x, size, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z, tile.REAL
        )
        at, there, signs = lay(
            base.to(tile.INDEX), size, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z
        )
        present = present & sure
        near = near & sure & within
        if (tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z)[BACKED]:
            near = near & any_kept(there, tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z)
        pixels = pixels + (at,)
        kept = kept + (there,)
        scales = scales + ((t, steep, signs),)
    return pixels, kept, scales, present, near


def weigh_all(scales: Any, tile: Tile, RX: Static, RY: Static, RZ: Static) -> Any:
    """The weights of all axes' taps, each axis's order raised by so much."""
    return (
        weigh(scales[0][0], scales[0][1], scales[0][2], tile.X, RX),
        weigh(scales[1][0], scales[1][1], scales[1][2], tile.Y, RY),
        weigh(scales[2][0], scales[2][1], scales[2][2], tile.Z, RZ),
    )


def rises(METHOD: Static, BY: Static) -> Any:
    """Whether an axis's weights have a derivative, of its order raised by so much, but zero.

    Where they have none, no pixel has a part in it, not even one that is NaN.
    """
    return METHOD[ORDER] + BY < METHOD[POWERS]


def lines(Y: Static, Z: Static) -> Any:
    """How many lines of taps a point has."""
    return Y[COUNT] * Z[COUNT]


def entry(choices: Any, k: Any, SIZE: Static) -> Any:
    """An entry of a tuple, of a number that is known when compiling."""
    return choices[k]


def entry_rolled(choices: Any, k: Any, SIZE: Static) -> Any:
    """An entry of a tuple, of any number."""
    chosen = choices[0]
    for other in tl.static_range(1, SIZE):
        chosen = where(k == other, choices[other], chosen)
    return chosen


def line_of(y: Any, z: Any, line: Any, Y: Static, Z: Static) -> Any:
    """What belongs to a line, of what belongs to the taps of y and to those of z."""
    return entry(y, line % Y[COUNT], Y[COUNT]), entry(z, line // Y[COUNT], Z[COUNT])


def line_start(pixels: Any, y_step: Any, z_step: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Where a line is in a plane."""
    y, z = line_of(pixels[1], pixels[2], line, Y, Z)
    return z * z_step + y * y_step


def line_weight(y: Any, z: Any, line: Any, Y: Static, Z: Static) -> Any:
    """The weight of a line: the product of those of its taps."""
    one, other = line_of(y, z, line, Y, Z)
    return one * other


def line_kept(kept: Any, near: Any, line: Any, Y: Static, Z: Static) -> Any:
    """Where a line is kept."""
    one, other = line_of(kept[1], kept[2], line, Y, Z)
    return one & other & near


def channels_of(unit: Any, item: Any, work: Work, tile: Tile) -> Any:
    """The item that a unit of work belongs to, its channels, and those that there are, as tiles."""
    chunks = (work.channels + tile.DEPTH - 1) // tile.DEPTH
    channel = (unit % chunks) * tile.DEPTH + tl.arange(0, tile.DEPTH)
    return (
        item + unit // chunks,
        over_channels(channel, tile.LAST),
        over_channels(channel < work.channels, tile.LAST),
    )


def look_up(
    source: Any, at: Any, there: Any, real: Any, backdrop: Any, tile: Tile, FILLED: Static
) -> Any:
    """A tile of pixels; in the place of dropped ones, 0 or, where it is FILLED, the fill value."""
    mask = over_points(there, tile.LAST) & real
    pixel = tl.load(source + over_points(at, tile.LAST), mask=mask, other=0).to(tile.REAL)
    if FILLED:
        pixel = where(over_points(there, tile.LAST), pixel, backdrop)
    return pixel


def vote(
    source: Any, steps: Any, pixels: Any, kept: Any, near: Any, weights: Any, real: Any,
    backdrop: Any, tile: Tile,
) -> Any:  # fmt: skip
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
    most = tl.full(winner.shape, -1, tile.REAL)
    for t in tl.static_range(TAPS):
        total = tl.full(winner.shape, 0, tile.REAL) + shares[t]
        for other in tl.static_range(TAPS):
            if other > t:
                total += where(labels[other] == labels[t], shares[other], 0)
        wins = (total > most) | ((total == most) & (labels[t] < winner))
        winner = where(wins, labels[t], winner)
        most = where(wins, total, most)
    return winner


def settle(total: Any, LOW: Static, HIGH: Static, KIND: Static) -> Any:
    """Sums as an integer type stores them: rounded, half to even, and saturated."""
    whole = rint(total)
    # NaN, which only a fill value can be, is 0.
    inside = minimum(maximum(where(whole == whole, whole, 0), LOW), HIGH).to(KIND)
    # The limits of 64 bits are no floats: what reaches them is not converted.
    return where(whole >= HIGH, HIGH, where(whole <= LOW, LOW, inside))


def blank(total: Any, sure: Any, tile: Tile) -> Any:
    """NaN in the place of points that are nowhere."""
    nothing = tl.full([], float("nan"), tile.REAL).to(total.dtype)
    return where(over_points(sure, tile.LAST), total, nothing)
