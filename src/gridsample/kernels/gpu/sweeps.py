"""The kernels: one program works on a block of points, and on one chunk of channels after another.

All share one shape.  A program finds its points' taps once, axis by axis, and uses them for every
chunk: ``BLOCK`` points by ``DEPTH`` channels make a tile.  Numbers that are neighbours in memory
are neighbours in a tile: its second axis is the channels' where they lie side by side (``LAST``),
so that a thread loads several with one instruction, and otherwise the points'.

    item, split     which item's points these are, and which of the chunks: from ``split`` on, every
                    ``splits``-th, so that few points with many channels fill a GPU too
    units           the chunks; those of all items, where the grid is one for the whole batch
    *_item, *_z     distances in memory, counted in numbers; 0 where an item or an axis is broadcast
    INDEX           the integers that offsets within an item are worked out in
    REAL            the type of positions, weights and sums

A dropped tap is not read (a masked load gives 0 in its place) and not written to, and where it
would be multiplied by what may be infinite, the product is not taken.  A point that is nowhere is
one whose taps are all dropped.

Kernels load coordinates themselves: torch.compile looks for what a kernel writes to, and takes a
pointer that is handed to a function for part of all that comes back.  A tensor that a launch does
not need is None, and the static choices see to it that it is not used.

As in `taps`, these are plain Python, lowered to Triton by `build`; what it binds is named there.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ZERO
from gridsample.kernels.gpu.taps import (
    COUNTS,
    FILLS,
    ORDER,
    POWERS,
    TAPS,
    TO_CENTRES,
    Static,
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


# Where and what -----------------------------------------------------------------------------------


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


def assignment(points: Any, grid_items: Any, BLOCK: Static) -> Any:
    """What this program is to do: its points, those that there are, their item, and its split."""
    blocks = (points + BLOCK - 1) // BLOCK
    number = tl.program_id(0)
    point = (number % blocks) * BLOCK + tl.arange(0, BLOCK)
    rest = number // blocks
    return point, point < points, (rest % grid_items).to(tl.int64), rest // grid_items


def place(point: Any, out: Any, AXIS: Static) -> Any:
    """The points' index along an axis of an output of ``out`` (x, y, z) points."""
    index = point
    for before in tl.static_range(AXIS):
        index = index // out[before]
    return index % out[AXIS]


def ruler(point: Any, out: Any, AXIS: Static, X: Static, REAL: Static) -> Any:
    """Where the points are along an axis of the output, from -1 to 1.

    As `gridsample.identity_grid`: (2 i + 1 - n) / n, or over n - 1 for aligned corners.
    """
    span = maximum(out[AXIS] - (1 if X[COUNTS] == TO_CENTRES else 0), 1)
    return (2 * place(point, out, AXIS) + 1 - out[AXIS]).to(REAL) / tl.cast(span, REAL)


def mapped(
    maps: Any, item: Any, point: Any, steps: Any, out: Any, X: Static, RANK: Static, REAL: Static
) -> Any:
    """The points' coordinates, made of affine maps (item, D, D + 1) of the output's own places.

    ``steps`` are the distances of items, columns and rows.
    """
    coordinates: Any = ()
    for axis in tl.static_range(RANK):
        start = maps + item * steps[0] + axis * steps[2]
        made = tl.full(point.shape, 0, REAL) + tl.load(start + RANK * steps[1]).to(REAL)
        for along in tl.static_range(RANK):
            factor = tl.load(start + along * steps[1]).to(REAL)
            made += factor * ruler(point, out, along, X, REAL)
        coordinates = coordinates + (made,)
    return coordinates


def find(
    coordinates: Any, point: Any, present: Any, out: Any, sizes: Any, X: Static, Y: Static,
    Z: Static, RANK: Static, SOURCE: Static, REAL: Static, INDEX: Static,
) -> Any:  # fmt: skip
    """The points' taps on every axis: pixels, which are kept, and what they are weighed by.

    Also which points are somewhere, and which of those may have taps: no tap of others is kept.
    On an axis that the image has not there is a single pixel, and all points are on it.
    """
    pixels: Any = ()
    kept: Any = ()
    scales: Any = ()
    near = present
    for axis in tl.static_range(3):
        x = coordinates[axis].to(REAL) if axis < RANK else tl.full(point.shape, 0, REAL)
        if SOURCE == DISPLACED and axis < RANK:
            x += place(point, out, axis).to(REAL)
        size = sizes[axis] if axis < RANK else 1
        base, t, steep, sure, within = locate(
            x, size, X if axis == 0 else Y if axis == 1 else Z, REAL
        )
        at, there, signs = lay(base.to(INDEX), size, X if axis == 0 else Y if axis == 1 else Z)
        present = present & sure
        near = near & sure & within
        if (X if axis == 0 else Y if axis == 1 else Z)[FILLS]:
            near = near & any_kept(there, X if axis == 0 else Y if axis == 1 else Z)
        pixels = pixels + (at,)
        kept = kept + (there,)
        scales = scales + ((t, steep, signs),)
    return pixels, kept, scales, present, near


def weigh_all(
    scales: Any, X: Static, Y: Static, Z: Static, RX: Static, RY: Static, RZ: Static
) -> Any:
    """The weights of all axes' taps, each axis's order raised by so much."""
    return (
        weigh(scales[0][0], scales[0][1], scales[0][2], X, RX),
        weigh(scales[1][0], scales[1][1], scales[1][2], Y, RY),
        weigh(scales[2][0], scales[2][1], scales[2][2], Z, RZ),
    )


def rises(METHOD: Static, BY: Static) -> Any:
    """Whether an axis's weights have a derivative, of its order raised by so much, but zero.

    Where they have none, no pixel has a part in it, not even one that is NaN.
    """
    return METHOD[ORDER] + BY < METHOD[POWERS]


# A point's taps are gone through in lines along x: one for each tap of y and z.  There are two
# twins of each kernel.  In one, ``range`` unrolls the loop over lines, and `entry` finds what it
# knows; in the other, for methods of many taps, the loop is one, and `entry` chooses.


def lines(Y: Static, Z: Static) -> Any:
    """How many lines of taps a point has."""
    return Y[TAPS] * Z[TAPS]


def entry(choices: Any, k: Any, COUNT: Static) -> Any:
    """An entry of a tuple, of a number that is known when compiling."""
    return choices[k]


def entry_rolled(choices: Any, k: Any, COUNT: Static) -> Any:
    """An entry of a tuple, of any number."""
    chosen = choices[0]
    for other in tl.static_range(1, COUNT):
        chosen = where(k == other, choices[other], chosen)
    return chosen


def line_of(y: Any, z: Any, line: Any, Y: Static, Z: Static) -> Any:
    """What belongs to a line, of what belongs to the taps of y and to those of z."""
    return entry(y, line % Y[TAPS], Y[TAPS]), entry(z, line // Y[TAPS], Z[TAPS])


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


def channels_of(unit: Any, item: Any, channels: Any, DEPTH: Static, LAST: Static) -> Any:
    """The item that a unit of work belongs to, its channels, and those that there are, as tiles."""
    chunks = (channels + DEPTH - 1) // DEPTH
    channel = (unit % chunks) * DEPTH + tl.arange(0, DEPTH)
    return (
        item + unit // chunks,
        over_channels(channel, LAST),
        over_channels(channel < channels, LAST),
    )


# Gather -------------------------------------------------------------------------------------------


def look_up(
    source: Any, at: Any, there: Any, real: Any, backdrop: Any, REAL: Static, LAST: Static,
    FILLED: Static,
) -> Any:  # fmt: skip
    """A tile of pixels; in the place of dropped ones, 0 or the fill value."""
    mask = over_points(there, LAST) & real
    pixel = tl.load(source + over_points(at, LAST), mask=mask, other=0).to(REAL)
    if FILLED:
        pixel = where(over_points(there, LAST), pixel, backdrop)
    return pixel


def settle(total: Any, LOW: Static, HIGH: Static, KIND: Static) -> Any:
    """Sums as an integer type stores them: rounded, half to even, and saturated."""
    whole = rint(total)
    # NaN, which only a fill value can be, is 0.
    inside = minimum(maximum(where(whole == whole, whole, 0), LOW), HIGH).to(KIND)
    # The limits of 64 bits are no floats: what reaches them is not converted.
    return where(whole >= HIGH, HIGH, where(whole <= LOW, LOW, inside))


def blank(total: Any, sure: Any, REAL: Static, LAST: Static) -> Any:
    """NaN in the place of points that are nowhere."""
    nothing = tl.full([], float("nan"), REAL).to(total.dtype)
    return where(over_points(sure, LAST), total, nothing)


def gather(
    image: Any, grid: Any, out: Any, fill: Any,
    size_x: Any, size_y: Any, size_z: Any,
    image_item: Any, image_channel: Any, image_x: Any, image_y: Any, image_z: Any,
    grid_item: Any, grid_point: Any, grid_axis: Any, out_x: Any, out_y: Any, out_z: Any,
    out_item: Any, out_channel: Any, out_point: Any, fill_channel: Any,
    channels: Any, points: Any, grid_items: Any, units: Any, splits: Any,
    X: Static, Y: Static, Z: Static, RANK: Static, SOURCE: Static,
    LAST: Static, REAL: Static, INDEX: Static, BLOCK: Static, DEPTH: Static, FILLED: Static,
    COPY: Static, BACKED: Static, HOLE: Static, ROUND: Static, LOW: Static, HIGH: Static,
) -> None:  # fmt: skip
    """Sample: out = sum over taps of weight * pixel.

    ``COPY``: each point has one tap, of weight one, and its number goes from memory to memory as it
    is.  ``FILLED``: dropped taps count with the fill value.  ``BACKED``: so do points without taps.
    Points that are nowhere become NaN if there is a ``HOLE``, and are without taps if not.
    ``ROUND``: the output holds integers, from LOW to HIGH.
    """
    point, present, item, split = assignment(points, grid_items, BLOCK)
    out_sizes, sizes = (out_x, out_y, out_z), (size_x, size_y, size_z)
    if SOURCE == MAPPED:
        steps = grid_item, grid_point, grid_axis
        coordinates = mapped(grid, item, point, steps, out_sizes, X, RANK, REAL)
    else:
        here = item * grid_item + point.to(INDEX) * grid_point
        coordinates = (
            tl.load(grid + here, mask=present, other=0),
            tl.load(grid + here + grid_axis, mask=present & (RANK > 1), other=0),
            tl.load(grid + here + 2 * grid_axis, mask=present & (RANK > 2), other=0),
        )
    pixels, kept, scales, sure, near = find(
        coordinates, point, present, out_sizes, sizes, X, Y, Z, RANK, SOURCE, REAL, INDEX
    )
    wx, wy, wz = weigh_all(scales, X, Y, Z, 0, 0, 0)
    for unit in tl.range(split, units, splits):
        n, channel, real = channels_of(unit, item, channels, DEPTH, LAST)
        source = image + n * image_item + channel.to(INDEX) * image_channel
        backdrop = ZERO
        if FILLED or BACKED:
            backdrop = tl.load(fill + channel * fill_channel, mask=real, other=0)
        if COPY:
            at = pixels[2][0] * image_z + pixels[1][0] * image_y + pixels[0][0] * image_x
            there = over_points(kept[2][0] & kept[1][0] & kept[0][0] & near, LAST)
            total = tl.load(source + over_points(at, LAST), mask=there & real, other=0)
            if FILLED:
                total = where(there, total, backdrop)
        else:
            total = tl.full([BLOCK, DEPTH] if LAST else [DEPTH, BLOCK], 0, REAL)
            for line in range(lines(Y, Z)):
                start = line_start(pixels, image_y, image_z, line, Y, Z)
                inside = line_kept(kept, near, line, Y, Z)
                w = line_weight(wy, wz, line, Y, Z)
                for i in tl.static_range(tl.constexpr(X[TAPS])):
                    there = inside & kept[0][i]
                    pixel = look_up(
                        source, start + pixels[0][i] * image_x, there, real, backdrop, REAL, LAST,
                        FILLED,
                    )  # fmt: skip
                    part = over_points(w * wx[i], LAST) * pixel
                    if FILLED:  # an infinite fill value that weighs nothing counts nothing
                        part = where(over_points(there | (w * wx[i] != 0), LAST), part, 0)
                    total += part
        if BACKED:
            total = where(over_points(near, LAST), total, backdrop)
        if HOLE:
            total = blank(total, sure, REAL, LAST)
        if ROUND:
            total = settle(total, LOW, HIGH, out.dtype.element_ty)
        target = out + n * out_item + channel.to(INDEX) * out_channel
        target += over_points(point.to(INDEX) * out_point, LAST)
        tl.store(target, total.to(out.dtype.element_ty), mask=over_points(present, LAST) & real)


# Scatter ------------------------------------------------------------------------------------------


def follow(run_a: Any, sum_a: Any, run_b: Any, sum_b: Any) -> Any:
    """Sums along runs, to scan by: what comes before is added within one run."""
    return run_b, sum_b + where(run_a == run_b, sum_a, 0)


def join_runs(at: Any, kept: Any, value: Any, BLOCK: Static, LAST: Static) -> Any:
    """Add up the values of successive points that go to one pixel: at the last of them, all are.

    Returns who is to be written, and what.
    """
    value = where(over_points(kept, LAST), value, 0)
    place = tl.arange(0, BLOCK)
    key = where(kept, at, -1)
    before = tl.gather(key, maximum(place - 1, 0), 0)
    run = tl.associative_scan(where((place == 0) | (key != before), 1, 0), 0, plus)
    after = tl.gather(run, minimum(place + 1, BLOCK - 1), 0)
    runs = tl.broadcast(over_points(run, LAST), value)[0]
    _, value = tl.associative_scan((runs, value), 0 if LAST else 1, follow)
    return kept & ((place == BLOCK - 1) | (run != after)), value


def two_to(exponent: Any, REAL: Static) -> Any:
    """Powers of two, as floats whose exponents are of the type's normal ones."""
    if REAL.primitive_bitwidth == 64:
        return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((exponent + 127).to(tl.int32) << 23).to(tl.float32, bitcast=True)


def halves(bound: Any, room: Any, REAL: Static) -> Any:
    """Two exponents that take what is of the size of ``bound``, a float's bits, below 2**room.

    Their sum may be too large for one power of two.
    """
    if REAL.primitive_bitwidth == 64:
        exponent = room + 1022 - (bound >> 52).to(tl.int32)
    else:
        exponent = room + 126 - (bound >> 23)
    return exponent >> 1, exponent - (exponent >> 1)


def add(
    sums: Any, onto: Any, at: Any, value: Any, kept: Any, real: Any, room: Any, limb: Any,
    REAL: Static, BLOCK: Static, LAST: Static, JOIN: Static, SUMS: Static,
) -> None:  # fmt: skip
    """Add a tile of values to pixels, those of kept points and of real channels.

    ``sums`` are the shadow, the bounds and the limbs; planes begin at ``onto`` in each.

    Atomic additions of floats come in any order, and so round in any way; the largest of them, and
    the sum of integers, are the same in any order.  So ``MEASURED`` finds the largest finite size
    of what comes to each pixel (as bits: those of positive floats are in the order of the floats),
    and then ``EXACT`` adds integers: multiples of that size's power of two times 2**-room, and
    what they leave over to a second limb, where REAL has 53 bits.  What is not finite is added to
    the floats, where it wins in any order too.
    """
    if JOIN:
        kept, value = join_runs(at, kept, value, BLOCK, LAST)
    at = over_points(at, LAST)
    there = over_points(kept, LAST) & real
    if SUMS == AS_THEY_COME:
        tl.atomic_add(sums[0] + onto + at, value, mask=there, sem="relaxed")
    else:
        finite = value - value == ZERO
        if SUMS == MEASURED:
            size = tl.abs(value).to(
                tl.int64 if REAL.primitive_bitwidth == 64 else tl.int32, bitcast=True
            )
            tl.atomic_max(sums[1] + onto + at, size, mask=there & finite, sem="relaxed")
        else:
            tl.atomic_add(sums[0] + onto + at, value, mask=there & (finite == 0), sem="relaxed")
            there = there & finite
            bound = tl.load(sums[1] + onto + at, mask=there, other=0)
            one, other = halves(bound, room, REAL)
            rest = where(there, value, 0) * two_to(one, REAL) * two_to(other, REAL)
            whole = rest.to(tl.int64)
            limbs = sums[2] + onto + at
            tl.atomic_add(limbs, whole, mask=there, sem="relaxed")
            if REAL.primitive_bitwidth == 64:
                left = (rest - whole.to(REAL)) * two_to(room, REAL)
                tl.atomic_add(limbs + limb, left.to(tl.int64), mask=there, sem="relaxed")


def collect(
    shadow: Any, bounds: Any, limbs: Any, out: Any, count: Any, limb: Any, room: Any,
    REAL: Static, BLOCK: Static,
) -> None:  # fmt: skip
    """Integer sums -> floats, to which what was not finite is added."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    one, other = halves(tl.load(bounds + at, mask=there, other=0), room, REAL)
    total = tl.load(limbs + at, mask=there, other=0).to(REAL)
    if REAL.primitive_bitwidth == 64:
        second = tl.load(limbs + limb + at, mask=there, other=0).to(REAL)
        total += second * two_to(-room, REAL)
    total = total * two_to(-one, REAL) * two_to(-other, REAL)
    total += tl.load(shadow + at, mask=there, other=0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=there)


def backward(
    values: Any, image: Any, grid: Any, shadow: Any, gradient: Any, fill: Any,
    bounds: Any, limbs: Any,
    size_x: Any, size_y: Any, size_z: Any,
    image_item: Any, image_channel: Any, image_x: Any, image_y: Any, image_z: Any,
    shadow_item: Any, shadow_channel: Any, shadow_x: Any, shadow_y: Any, shadow_z: Any,
    grid_item: Any, grid_point: Any, grid_axis: Any, out_x: Any, out_y: Any, out_z: Any,
    values_item: Any, values_channel: Any, values_point: Any, fill_channel: Any,
    channels: Any, points: Any, grid_items: Any, units: Any, splits: Any, limb: Any, room: Any,
    X: Static, Y: Static, Z: Static, RANK: Static, SOURCE: Static,
    LAST: Static, REAL: Static, INDEX: Static, BLOCK: Static, DEPTH: Static, FILLED: Static,
    NEED_IMAGE: Static, NEED_GRID: Static, JOIN: Static, SUMS: Static,
) -> None:  # fmt: skip
    """Both gradients of gather: values to their taps in ``shadow``, and ``gradient`` of the grid.

    The gradient (splits, item, point, axis) has a place for what each split finds; for an affine
    map it is (splits, item, block, axis, column).
    """
    point, present, item, split = assignment(points, grid_items, BLOCK)
    out, sizes = (out_x, out_y, out_z), (size_x, size_y, size_z)
    if SOURCE == MAPPED:
        steps = grid_item, grid_point, grid_axis
        coordinates = mapped(grid, item, point, steps, out, X, RANK, REAL)
    else:
        here = item * grid_item + point.to(INDEX) * grid_point
        coordinates = (
            tl.load(grid + here, mask=present, other=0),
            tl.load(grid + here + grid_axis, mask=present & (RANK > 1), other=0),
            tl.load(grid + here + 2 * grid_axis, mask=present & (RANK > 2), other=0),
        )
    pixels, kept, scales, _, near = find(
        coordinates, point, present, out, sizes, X, Y, Z, RANK, SOURCE, REAL, INDEX
    )
    wx, wy, wz = weigh_all(scales, X, Y, Z, 0, 0, 0)
    dx, dy, dz = wx, wy, wz
    if NEED_GRID:
        dx, dy, dz = weigh_all(scales, X, Y, Z, 1, 1, 1)
    by_x = tl.full([BLOCK], 0, REAL)
    by_y = tl.full([BLOCK], 0, REAL)
    by_z = tl.full([BLOCK], 0, REAL)
    for unit in tl.range(split, units, splits):
        n, channel, real = channels_of(unit, item, channels, DEPTH, LAST)
        upstream = values + n * values_item + channel.to(INDEX) * values_channel
        upstream += over_points(point.to(INDEX) * values_point, LAST)
        g = tl.load(upstream, mask=over_points(near, LAST) & real, other=0).to(REAL)
        onto = n * shadow_item + channel.to(INDEX) * shadow_channel
        if NEED_GRID:
            source = image + n * image_item + channel.to(INDEX) * image_channel
            backdrop = ZERO
            if FILLED:
                backdrop = tl.load(fill + channel * fill_channel, mask=real, other=0)
        for line in range(lines(Y, Z)):
            inside = line_kept(kept, near, line, Y, Z)
            start = line_start(pixels, image_y, image_z, line, Y, Z)
            to = line_start(pixels, shadow_y, shadow_z, line, Y, Z)
            w = line_weight(wy, wz, line, Y, Z)
            w_y = line_weight(dy, wz, line, Y, Z)
            w_z = line_weight(wy, dz, line, Y, Z)
            for i in tl.static_range(tl.constexpr(X[TAPS])):
                there = inside & kept[0][i]
                if NEED_IMAGE:
                    add(
                        (shadow, bounds, limbs), onto, to + pixels[0][i] * shadow_x,
                        g * over_points(w * wx[i], LAST), there, real, room, limb, REAL, BLOCK,
                        LAST, JOIN, SUMS,
                    )  # fmt: skip
                if NEED_GRID:
                    pixel = look_up(
                        source, start + pixels[0][i] * image_x, there, real, backdrop, REAL, LAST,
                        FILLED,
                    )  # fmt: skip
                    shared = share(g * pixel, near if FILLED else there, LAST)
                    if rises(X, 1):
                        by_x += shared * (w * dx[i])
                    if rises(Y, 1):
                        by_y += shared * (w_y * wx[i])
                    if rises(Z, 1):
                        by_z += shared * (w_z * wx[i])
    if NEED_GRID:
        found = (by_x * scales[0][1], by_y * scales[1][1], by_z * scales[2][1])
        keep_gradient(
            gradient, found, split * grid_items + item, point, present, points, out, X, RANK,
            SOURCE, REAL, BLOCK,
        )  # fmt: skip


def share(products: Any, counted: Any, LAST: Static) -> Any:
    """The sums over channels of a tile, of points that count."""
    return where(counted, tl.reduce(products, 1 if LAST else 0, plus), 0)


def keep_gradient(
    gradient: Any, found: Any, row: Any, point: Any, present: Any, points: Any, out: Any,
    X: Static, RANK: Static, SOURCE: Static, REAL: Static, BLOCK: Static,
) -> None:  # fmt: skip
    """Store the points' gradients; for an affine map, the sums of what they give to its entries."""
    for axis in tl.static_range(RANK):
        if SOURCE == MAPPED:
            blocks = (points + BLOCK - 1) // BLOCK
            block = tl.program_id(0) % blocks
            entry = gradient + ((row * blocks + block) * RANK + axis) * (RANK + 1)
            mine = where(present, found[axis], 0)
            for column in tl.static_range(RANK):
                part = mine * ruler(point, out, column, X, REAL)
                tl.store(entry + column, tl.reduce(part, 0, plus))
            tl.store(entry + RANK, tl.reduce(mine, 0, plus))
        else:
            entry = gradient + (row * points + point) * RANK + axis
            tl.store(entry, found[axis], mask=present)


# The backward of the backward ---------------------------------------------------------------------


def twice(
    values: Any, image: Any, grid: Any, by_image: Any, by_grid: Any,
    onto: Any, shadow: Any, gradient: Any, fill: Any, bounds: Any, limbs: Any,
    size_x: Any, size_y: Any, size_z: Any,
    image_item: Any, image_channel: Any, image_x: Any, image_y: Any, image_z: Any,
    up_item: Any, up_channel: Any, up_x: Any, up_y: Any, up_z: Any,
    shadow_item: Any, shadow_channel: Any, shadow_x: Any, shadow_y: Any, shadow_z: Any,
    grid_item: Any, grid_point: Any, grid_axis: Any,
    along_item: Any, along_point: Any, along_axis: Any, out_x: Any, out_y: Any, out_z: Any,
    values_item: Any, values_channel: Any, values_point: Any, fill_channel: Any,
    onto_item: Any, onto_channel: Any, onto_point: Any,
    channels: Any, points: Any, grid_items: Any, units: Any, splits: Any, limb: Any, room: Any,
    X: Static, Y: Static, Z: Static, RANK: Static, SOURCE: Static,
    LAST: Static, REAL: Static, INDEX: Static, BLOCK: Static, DEPTH: Static, FILLED: Static,
    HAS_IMAGE: Static, HAS_GRID: Static, NEED_VALUES: Static, NEED_IMAGE: Static,
    NEED_GRID: Static, JOIN: Static, SUMS: Static,
) -> None:  # fmt: skip
    """All that backward's own backward gives, in one sweep.

    Upstream are u, an image (``by_image``), and m, a direction for each point (``by_grid``). With
    w a tap's weight, w_k the same differentiated along axis k, and Dw = sum over k of m_k w_k,

        onto     = sum over taps of u w + v Dw       for the values g
        shadow  += g Dw                              for the image v
        gradient_j = sum over channels of g * sum over taps of u w_j + v (Dw)_j

    In v dropped taps count with the fill value; in u, which stands for a change of the image, they
    do not.  All is 0 at points that are nowhere.
    """
    point, present, item, split = assignment(points, grid_items, BLOCK)
    out_sizes, sizes = (out_x, out_y, out_z), (size_x, size_y, size_z)
    here = item * grid_item + point.to(INDEX) * grid_point
    coordinates = (
        tl.load(grid + here, mask=present, other=0),
        tl.load(grid + here + grid_axis, mask=present & (RANK > 1), other=0),
        tl.load(grid + here + 2 * grid_axis, mask=present & (RANK > 2), other=0),
    )
    pixels, kept, scales, _, near = find(
        coordinates, point, present, out_sizes, sizes, X, Y, Z, RANK, SOURCE, REAL, INDEX
    )
    wx, wy, wz = weigh_all(scales, X, Y, Z, 0, 0, 0)
    dx, dy, dz = weigh_all(scales, X, Y, Z, 1, 1, 1)
    ex, ey, ez = weigh_all(scales, X, Y, Z, 2, 2, 2)
    mx, my, mz = direction(
        by_grid, item, point, near, (along_item, along_point, along_axis), scales, X, Y, Z, RANK,
        HAS_GRID, REAL, INDEX,
    )  # fmt: skip
    g_x = tl.full([BLOCK], 0, REAL)
    g_y = tl.full([BLOCK], 0, REAL)
    g_z = tl.full([BLOCK], 0, REAL)
    for unit in tl.range(split, units, splits):
        n, channel, real = channels_of(unit, item, channels, DEPTH, LAST)
        upstream = values + n * values_item + channel.to(INDEX) * values_channel
        upstream += over_points(point.to(INDEX) * values_point, LAST)
        g = tl.load(upstream, mask=over_points(near, LAST) & real, other=0).to(REAL)
        source = image + n * image_item + channel.to(INDEX) * image_channel
        if HAS_IMAGE:
            second = by_image + n * up_item + channel.to(INDEX) * up_channel
        to = n * shadow_item + channel.to(INDEX) * shadow_channel
        backdrop = ZERO
        if FILLED:
            backdrop = tl.load(fill + channel * fill_channel, mask=real, other=0)
        total = tl.full([BLOCK, DEPTH] if LAST else [DEPTH, BLOCK], 0, REAL)
        for line in range(lines(Y, Z)):
            inside = line_kept(kept, near, line, Y, Z)
            start_u = line_start(pixels, up_y, up_z, line, Y, Z)
            start_v = line_start(pixels, image_y, image_z, line, Y, Z)
            start_s = line_start(pixels, shadow_y, shadow_z, line, Y, Z)
            w = line_weight(wy, wz, line, Y, Z)
            w_y = line_weight(dy, wz, line, Y, Z)
            w_z = line_weight(wy, dz, line, Y, Z)
            # What m makes of a line's weights as they are, and differentiated along each axis.
            m = my * w_y + mz * w_z
            m_y = my * line_weight(ey, wz, line, Y, Z) + mz * line_weight(dy, dz, line, Y, Z)
            m_z = my * line_weight(dy, dz, line, Y, Z) + mz * line_weight(wy, ez, line, Y, Z)
            for i in tl.static_range(tl.constexpr(X[TAPS])):
                there = inside & kept[0][i]
                counted = near if FILLED else there
                if HAS_IMAGE:
                    u = look_up(
                        second, start_u + pixels[0][i] * up_x, there, real, ZERO, REAL, LAST, False
                    )
                    total += u * over_points(w * wx[i], LAST)
                    if NEED_GRID:
                        shared = share(g * u, there, LAST)
                        if rises(X, 1):
                            g_x += shared * (w * dx[i])
                        if rises(Y, 1):
                            g_y += shared * (w_y * wx[i])
                        if rises(Z, 1):
                            g_z += shared * (w_z * wx[i])
                if HAS_GRID:
                    turn = where(counted, mx * w * dx[i] + m * wx[i], 0)
                    v = look_up(
                        source, start_v + pixels[0][i] * image_x, there, real, backdrop, REAL, LAST,
                        FILLED,
                    )  # fmt: skip
                    total += v * over_points(turn, LAST)
                    if NEED_IMAGE:
                        add(
                            (shadow, bounds, limbs), to, start_s + pixels[0][i] * shadow_x,
                            g * over_points(turn, LAST), there, real, room, limb, REAL, BLOCK, LAST,
                            JOIN, SUMS,
                        )  # fmt: skip
                    if NEED_GRID:
                        shared = share(g * v, counted, LAST)
                        if rises(X, 1) and (rises(X, 2) or rises(Y, 1) or rises(Z, 1)):
                            g_x += shared * (mx * w * ex[i] + m * dx[i])
                        if rises(Y, 1) and (rises(Y, 2) or rises(X, 1) or rises(Z, 1)):
                            g_y += shared * (mx * w_y * dx[i] + m_y * wx[i])
                        if rises(Z, 1) and (rises(Z, 2) or rises(X, 1) or rises(Y, 1)):
                            g_z += shared * (mx * w_z * dx[i] + m_z * wx[i])
        if NEED_VALUES:
            target = onto + n * onto_item + channel.to(INDEX) * onto_channel
            target += over_points(point.to(INDEX) * onto_point, LAST)
            tl.store(
                target, total.to(onto.dtype.element_ty), mask=over_points(present, LAST) & real
            )
    if NEED_GRID:
        found = (g_x * scales[0][1], g_y * scales[1][1], g_z * scales[2][1])
        keep_gradient(
            gradient, found, split * grid_items + item, point, present, points, (0, 0, 0), X, RANK,
            SOURCE, REAL, BLOCK,
        )  # fmt: skip


def direction(
    by_grid: Any, item: Any, point: Any, near: Any, steps: Any, scales: Any, X: Static, Y: Static,
    Z: Static, RANK: Static, HAS_GRID: Static, REAL: Static, INDEX: Static,
) -> Any:  # fmt: skip
    """Upstream of a grid's gradient, in pixels: 0 where no weight changes along an axis."""
    parts: Any = ()
    for axis in tl.static_range(3):
        part = tl.full(point.shape, 0, REAL)
        if HAS_GRID and axis < RANK and rises(X if axis == 0 else Y if axis == 1 else Z, 1):
            at = item * steps[0] + point.to(INDEX) * steps[1] + axis * steps[2]
            part = tl.load(by_grid + at, mask=near, other=0).to(REAL) * scales[axis][1]
        parts = parts + (part,)
    return parts


# In an order in which each mentions only those before it.
FUNCTIONS = (
    *(plus, over_points, over_channels, assignment, place, ruler, mapped, find, weigh_all, rises),
    *(lines, entry, line_of, line_start, line_weight, line_kept, channels_of, look_up, settle),
    *(blank, follow, join_runs, two_to, halves, add, share, keep_gradient, direction),
)
KERNELS = (gather, backward, twice, collect)
