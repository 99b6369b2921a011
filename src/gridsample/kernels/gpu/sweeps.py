"""The kernels: each program processes a block of points, one chunk of channels after another.

All have the same structure.  A program finds its points' taps once, axis by axis, and uses them for
every chunk: ``BLOCK`` points by ``DEPTH`` channels make a tile.  Contiguous numbers are adjacent in
a tile: its second axis is that of channels if they are contiguous (``LAST``), so that a thread
loads several with one instruction, and otherwise that of points.

    item, split     the item of these points, and which of the chunks to process: from ``split``
                    on, every ``splits``-th, so that few points with many channels also fill a
                    GPU

A dropped tap is neither read (a masked load gives 0 in its place) nor written to, and no product is
taken of it with a value that may be infinite.  An invalid point is one whose taps are all
dropped.

Kernels load coordinates themselves: torch.compile looks for the pointers that a kernel writes to,
and assumes that a pointer passed to a function is part of its result.  A tensor that a launch does
not need is None, and the static choices exclude its use.

As in `taps`, the functions are plain Python, lowered to Triton by `build`, which binds their names.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ZERO
from gridsample.kernels.gpu import footprints, sums
from gridsample.kernels.gpu.choices import COUNT
from gridsample.kernels.gpu.footprints import (
    add_sample,
    find_footprints,
    fractions_along,
    keep_sums,
    measure_footprints,
    none_yet,
    quotient,
    sample_at,
)
from gridsample.kernels.gpu.parts import (
    MAPPED,
    assignment,
    blank,
    blocks_of,
    channels_of,
    entry,
    find,
    first_unit,
    larger,
    line_kept,
    line_of,
    line_start,
    line_weight,
    look_up,
    mapped,
    next_unit,
    over_channels,
    over_points,
    place,
    plus,
    rises,
    ruler,
    to_integers,
    vote,
    weigh_all,
)
from gridsample.kernels.gpu.records import (
    Fill,
    FootprintParams,
    GradImage,
    Grid,
    Needs,
    Outputs,
    Planes,
    SecondNeeds,
    Static,
    Tile,
    Values,
    Work,
)
from gridsample.kernels.gpu.sums import add, collect
from gridsample.kernels.gpu.taps import tl, where
from gridsample.kernels.gpu.transposing import transpose


def value_of(
    source: Any, image: Planes, taps: Any, weights: Any, real: Any, backdrop: Any, tile: Tile,
    outputs: Outputs,
) -> Any:  # fmt: skip
    """Return a tile of samples.

    taps: the points' pixels, whether they are kept, and which points may have taps and are
        valid; see `find`.
    """
    pixels, kept, near, valid = taps
    wx, wy, wz = weights
    if outputs.COPY:
        at = pixels[2][0] * image.z + pixels[1][0] * image.y + pixels[0][0] * image.x
        there = over_points(kept[2][0] & kept[1][0] & kept[0][0] & near, tile.LAST)
        total = tl.load(source + over_points(at, tile.LAST), mask=there & real, other=0)
        if tile.SPREAD:
            total = total.to(tile.REAL)
        if tile.FILLED:
            total = where(there, total, backdrop)
    elif outputs.VOTE:
        steps = (image.x, image.y, image.z)
        total = vote(source, steps, pixels, kept, near, (wx, wy, wz), real, backdrop, tile)
    else:
        total = tl.full(
            [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 0, tile.REAL
        )
        for line in range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
            start = line_start(pixels, image.y, image.z, line, tile.Y, tile.Z)
            inside = line_kept(kept, near, line, tile.Y, tile.Z)
            w = line_weight(wy, wz, line, tile.Y, tile.Z)
            for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
                there = inside & kept[0][i]
                pixel = look_up(
                    source, start + pixels[0][i] * image.x, there, real, backdrop, tile,
                    tile.FILLED,
                )  # fmt: skip
                part = over_points(w * wx[i], tile.LAST) * pixel
                if tile.FILLED:  # an infinite fill value with weight 0 contributes nothing
                    part = where(over_points(there | (w * wx[i] != 0), tile.LAST), part, 0)
                total += part
    if outputs.BACKED:
        total = where(over_points(near, tile.LAST), total, backdrop)
    if outputs.NAN:
        total = blank(total, valid, tile)
    return total


def gather(
    image: Planes, grid: Grid, out: Values, fill: Fill, work: Work, footprint: FootprintParams,
    tile: Tile,
    outputs: Outputs,
) -> None:  # fmt: skip
    """Sample: out = sum over taps of weight * pixel, or their vote; see `Outputs`.

    If points have footprints, it is the mean of that over their samples.
    """
    point, present, item, split = assignment(work, tile)
    if tile.SOURCE == MAPPED:
        coordinates = mapped(grid, item, point, (work.out_x, work.out_y, work.out_z), tile)
    else:
        here = item * grid.item + point.to(tile.INDEX) * grid.point
        coordinates = (
            tl.load(grid.memory + here, mask=present, other=0),
            tl.load(grid.memory + here + grid.axis, mask=present & (tile.RANK > 1), other=0),
            tl.load(grid.memory + here + 2 * grid.axis, mask=present & (tile.RANK > 2), other=0),
        )
    units = work.units
    if tile.SPREAD:
        base, sides, counts, samples, present = find_footprints(
            grid, item, point, coordinates, present, work, tile, footprint
        )
        highest_count = tl.reduce(where(present, samples, 0), 0, larger)
        units = where(highest_count > 0, units, 0)
    else:
        pixels, kept, scales, valid, near = find(coordinates, point, present, work, tile)
        weights = weigh_all(scales, tile, 0, 0, 0)
    n, chunk = first_unit(item, split, work, tile)
    for _unit in tl.range(split, units, work.splits):
        channel, real = channels_of(chunk, work, tile)
        source = image.memory + n * image.item + channel.to(tile.INDEX) * image.channel
        backdrop = ZERO
        if tile.FILLED or outputs.BACKED:
            backdrop = tl.load(fill.memory + channel * fill.channel, mask=real, other=0)
        if tile.SPREAD:
            total = tl.full(
                [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 0, tile.REAL
            )
            for j in tl.range(0, highest_count):
                mine = present & (j < samples)
                along = fractions_along(j, counts, tile)
                at = sample_at(base, sides, counts, along, work, tile, footprint)
                pixels, kept, scales, valid, near = find(at, point, mine, work, tile)
                weights = weigh_all(scales, tile, 0, 0, 0)
                value = value_of(
                    source, image, (pixels, kept, near, valid), weights, real, backdrop, tile,
                    outputs,
                )  # fmt: skip
                # The bits of a single sample, such as the sign of a zero, remain.
                value = where(j > 0, total + value, value)
                total = where(over_points(mine, tile.LAST), value, total)
            total = quotient(total, over_points(samples, tile.LAST), tile.REAL)
        else:
            total = value_of(
                source, image, (pixels, kept, near, valid), weights, real, backdrop, tile, outputs
            )
        if outputs.ROUND:
            total = to_integers(total, outputs.LOW, outputs.HIGH, out.memory.dtype.element_ty)
        target = out.memory + n * out.item + channel.to(tile.INDEX) * out.channel
        target += over_points(point.to(tile.INDEX) * out.point, tile.LAST)
        tl.store(
            target,
            total.to(out.memory.dtype.element_ty),
            mask=over_points(present, tile.LAST) & real,
        )
        n, chunk = next_unit(n, chunk, work, tile)


def backward(
    values: Values, image: Planes, grid: Grid, grad_image: GradImage, gradient: Any, fill: Fill,
    work: Work, footprint: FootprintParams, tile: Tile, needs: Needs,
) -> None:  # fmt: skip
    """Compute both gradients of gather: add to the image's in ``grad_image``, store the grid's.

    The grid's ``gradient`` (splits, item, point, axis) has a separate place for each split.  For
    affine maps, it is (splits, item, block, axis, column).  For footprints, see `keep_sums`.
    """
    point, present, item, split = assignment(work, tile)
    if tile.SOURCE == MAPPED:
        coordinates = mapped(grid, item, point, (work.out_x, work.out_y, work.out_z), tile)
    else:
        here = item * grid.item + point.to(tile.INDEX) * grid.point
        coordinates = (
            tl.load(grid.memory + here, mask=present, other=0),
            tl.load(grid.memory + here + grid.axis, mask=present & (tile.RANK > 1), other=0),
            tl.load(grid.memory + here + 2 * grid.axis, mask=present & (tile.RANK > 2), other=0),
        )
    units = work.units
    if tile.SPREAD:
        base, sides, counts, samples, present = find_footprints(
            grid, item, point, coordinates, present, work, tile, footprint
        )
        highest_count = tl.reduce(where(present, samples, 0), 0, larger)
        units = where(highest_count > 0, units, 0)
        near = present
        sums = none_yet(tile)
    else:
        pixels, kept, scales, _, near = find(coordinates, point, present, work, tile)
        weights = weigh_all(scales, tile, 0, 0, 0)
        slopes = weights
        if needs.GRID:
            slopes = weigh_all(scales, tile, 1, 1, 1)
    zero = tl.full([tile.BLOCK], 0, tile.REAL)
    by = (zero, zero, zero)
    n, chunk = first_unit(item, split, work, tile)
    for _unit in tl.range(split, units, work.splits):
        channel, real = channels_of(chunk, work, tile)
        upstream = values.memory + n * values.item + channel.to(tile.INDEX) * values.channel
        upstream += over_points(point.to(tile.INDEX) * values.point, tile.LAST)
        g = tl.load(upstream, mask=over_points(near, tile.LAST) & real, other=0).to(tile.REAL)
        offset = n * grad_image.item + channel.to(tile.INDEX) * grad_image.channel
        source = image.memory
        backdrop = ZERO
        if needs.GRID:
            source = image.memory + n * image.item + channel.to(tile.INDEX) * image.channel
            if tile.FILLED:
                backdrop = tl.load(fill.memory + channel * fill.channel, mask=real, other=0)
        if tile.SPREAD:
            g = quotient(g, over_points(samples, tile.LAST), tile.REAL)
            for j in tl.range(0, highest_count):
                along = fractions_along(j, counts, tile)
                at = sample_at(base, sides, counts, along, work, tile, footprint)
                pixels, kept, scales, _, close = find(
                    at, point, present & (j < samples), work, tile
                )
                weights = weigh_all(scales, tile, 0, 0, 0)
                slopes = weights
                if needs.GRID:
                    slopes = weigh_all(scales, tile, 1, 1, 1)
                sample_slopes = return_taps(
                    g, real, source, image, backdrop, grad_image, offset, (pixels, kept, close),
                    (weights, slopes), (zero, zero, zero), tile, needs,
                )  # fmt: skip
                if needs.GRID:
                    point_slopes = steepened(sample_slopes, scales)
                    sums = add_sample(sums, point_slopes, along, tile, footprint)
        else:
            by = return_taps(
                g, real, source, image, backdrop, grad_image, offset, (pixels, kept, near),
                (weights, slopes), by, tile, needs,
            )  # fmt: skip
        n, chunk = next_unit(n, chunk, work, tile)
    if needs.GRID:
        row = split * work.grid_items + item
        if tile.SPREAD:
            keep_sums(gradient, sums, row, point, present, work, tile, footprint)
        else:
            point_slopes = steepened(by, scales)
            keep_gradient(gradient, point_slopes, row, point, present, work, tile)


def share(products: Any, counted: Any, LAST: Static) -> Any:
    """Return the sums of a tile over channels, for points that count."""
    return where(counted, tl.reduce(products, 1 if LAST else 0, plus), 0)


def add_slopes(
    x: Any, y: Any, z: Any, shared: Any, along_x: Any, along_y: Any, along_z: Any, tile: Tile
) -> Any:
    """Add a tap's contribution along each axis: its share times its weight's derivative.

    If the weights have no derivative, nothing is added, not even a share that is NaN.
    """
    if rises(tile.X, 1):
        x += shared * along_x
    if rises(tile.Y, 1):
        y += shared * along_y
    if rises(tile.Z, 1):
        z += shared * along_z
    return x, y, z


def steepened(slopes: Any, scales: Any) -> Any:
    """Convert slopes along positions to slopes along coordinates."""
    return (
        slopes[0] * scales[0][1],
        slopes[1] * scales[1][1],
        slopes[2] * scales[2][1],
    )


def return_taps(
    g: Any, real: Any, source: Any, image: Planes, backdrop: Any, grad_image: GradImage,
    offset: Any, taps: Any, weights: Any, slopes: Any, tile: Tile, needs: Needs,
) -> Any:  # fmt: skip
    """Add a tile of upstream values to their taps; return slopes with what they contribute.

    taps: the points' pixels, whether they are kept, and which points may have taps; see `find`.
    weights: the taps' weights, and these differentiated.
    """
    pixels, kept, near = taps
    wx, wy, wz = weights[0]
    dx, dy, dz = weights[1]
    by_x, by_y, by_z = slopes
    for line in range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
        inside = line_kept(kept, near, line, tile.Y, tile.Z)
        start = line_start(pixels, image.y, image.z, line, tile.Y, tile.Z)
        to = line_start(pixels, grad_image.y, grad_image.z, line, tile.Y, tile.Z)
        w = line_weight(wy, wz, line, tile.Y, tile.Z)
        w_y = line_weight(dy, wz, line, tile.Y, tile.Z)
        w_z = line_weight(wy, dz, line, tile.Y, tile.Z)
        for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
            there = inside & kept[0][i]
            if needs.IMAGE:
                value = g * over_points(w * wx[i], tile.LAST)
                at = to + pixels[0][i] * grad_image.x
                add(grad_image, offset, at, value, there, real, tile, needs.JOIN, needs.SUMS)
            if needs.GRID:
                pixel = look_up(
                    source, start + pixels[0][i] * image.x, there, real, backdrop, tile,
                    tile.FILLED,
                )  # fmt: skip
                shared = share(g * pixel, near if tile.FILLED else there, tile.LAST)
                by_x, by_y, by_z = add_slopes(
                    by_x, by_y, by_z, shared, w * dx[i], w_y * wx[i], w_z * wx[i], tile
                )
    return by_x, by_y, by_z


def keep_gradient(
    gradient: Any, gradients: Any, row: Any, point: Any, present: Any, work: Work, tile: Tile
) -> None:
    """Store the points' gradients; for an affine map, their sums for each entry of the map."""
    out = (work.out_x, work.out_y, work.out_z)
    for axis in tl.static_range(tile.RANK):
        if tile.SOURCE == MAPPED:
            blocks = blocks_of(work, tile)
            block = tl.program_id(0) % blocks
            entry = gradient + ((row * blocks + block) * tile.RANK + axis) * (tile.RANK + 1)
            mine = where(present, gradients[axis], 0)
            for column in tl.static_range(tile.RANK):
                part = mine * ruler(point, out, column, tile)
                tl.store(entry + column, tl.reduce(part, 0, plus))
            tl.store(entry + tile.RANK, tl.reduce(mine, 0, plus))
        else:
            entry = gradient + (row * work.points + point) * tile.RANK + axis
            tl.store(entry, gradients[axis], mask=present)


def double_backward(
    values: Values, image: Planes, grid: Grid, by_image: Planes, by_grid: Grid, grad_values: Values,
    grad_image: GradImage, gradient: Any, fill: Fill, work: Work, tile: Tile, needs: SecondNeeds,
) -> None:  # fmt: skip
    """Compute the derivatives of `backward` in one sweep.

    The upstream gradients are u, an image (``by_image``), and m, a direction for each point
    (``by_grid``).  With w a tap's weight, w_k its derivative along axis k, and Dw = sum over k of
    m_k w_k,

        grad_values  = sum over taps of u w + v Dw       for the values g
        grad_image  += g Dw                              for the image v
        gradient_j   = sum over channels of g * sum over taps of u w_j + v (Dw)_j

    In v, dropped taps have the fill value.  In u, a change of the image, they do not.  All results
    are 0 at invalid points.
    """
    point, present, item, split = assignment(work, tile)
    here = item * grid.item + point.to(tile.INDEX) * grid.point
    coordinates = (
        tl.load(grid.memory + here, mask=present, other=0),
        tl.load(grid.memory + here + grid.axis, mask=present & (tile.RANK > 1), other=0),
        tl.load(grid.memory + here + 2 * grid.axis, mask=present & (tile.RANK > 2), other=0),
    )
    pixels, kept, scales, _, near = find(coordinates, point, present, work, tile)
    wx, wy, wz = weigh_all(scales, tile, 0, 0, 0)
    dx, dy, dz = weigh_all(scales, tile, 1, 1, 1)
    ex, ey, ez = weigh_all(scales, tile, 2, 2, 2)
    mx, my, mz = direction(by_grid, item, point, present, scales, tile, needs.FROM_GRID)
    g_x = tl.full([tile.BLOCK], 0, tile.REAL)
    g_y = tl.full([tile.BLOCK], 0, tile.REAL)
    g_z = tl.full([tile.BLOCK], 0, tile.REAL)
    n, chunk = first_unit(item, split, work, tile)
    for _unit in tl.range(split, work.units, work.splits):
        channel, real = channels_of(chunk, work, tile)
        upstream = values.memory + n * values.item + channel.to(tile.INDEX) * values.channel
        upstream += over_points(point.to(tile.INDEX) * values.point, tile.LAST)
        g = tl.load(upstream, mask=over_points(near, tile.LAST) & real, other=0).to(tile.REAL)
        source = image.memory + n * image.item + channel.to(tile.INDEX) * image.channel
        if needs.FROM_IMAGE:
            second = by_image.memory + n * by_image.item + channel.to(tile.INDEX) * by_image.channel
        to = n * grad_image.item + channel.to(tile.INDEX) * grad_image.channel
        backdrop = ZERO
        if tile.FILLED:
            backdrop = tl.load(fill.memory + channel * fill.channel, mask=real, other=0)
        total = tl.full(
            [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 0, tile.REAL
        )
        for line in range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
            inside = line_kept(kept, near, line, tile.Y, tile.Z)
            start_u = line_start(pixels, by_image.y, by_image.z, line, tile.Y, tile.Z)
            start_v = line_start(pixels, image.y, image.z, line, tile.Y, tile.Z)
            start_s = line_start(pixels, grad_image.y, grad_image.z, line, tile.Y, tile.Z)
            w = line_weight(wy, wz, line, tile.Y, tile.Z)
            w_y = line_weight(dy, wz, line, tile.Y, tile.Z)
            w_z = line_weight(wy, dz, line, tile.Y, tile.Z)
            # A line's weights under m: as they are, and differentiated along each axis.
            m = my * w_y + mz * w_z
            w_yz = line_weight(dy, dz, line, tile.Y, tile.Z)
            m_y = my * line_weight(ey, wz, line, tile.Y, tile.Z) + mz * w_yz
            m_z = my * w_yz + mz * line_weight(wy, ez, line, tile.Y, tile.Z)
            for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
                there = inside & kept[0][i]
                counted = near if tile.FILLED else there
                if needs.FROM_IMAGE:
                    u = look_up(
                        second, start_u + pixels[0][i] * by_image.x, there, real, ZERO, tile, False
                    )
                    total += u * over_points(w * wx[i], tile.LAST)
                    if needs.GRID:
                        shared = share(g * u, there, tile.LAST)
                        g_x, g_y, g_z = add_slopes(
                            g_x, g_y, g_z, shared, w * dx[i], w_y * wx[i], w_z * wx[i], tile
                        )
                if needs.FROM_GRID:
                    weight_jvp = where(counted, mx * w * dx[i] + m * wx[i], 0)
                    v = look_up(
                        source, start_v + pixels[0][i] * image.x, there, real, backdrop, tile,
                        tile.FILLED,
                    )  # fmt: skip
                    total += v * over_points(weight_jvp, tile.LAST)
                    if needs.IMAGE:
                        value = g * over_points(weight_jvp, tile.LAST)
                        at = start_s + pixels[0][i] * grad_image.x
                        add(grad_image, to, at, value, there, real, tile, needs.JOIN, needs.SUMS)
                    if needs.GRID:
                        shared = share(g * v, counted, tile.LAST)
                        g_x, g_y, g_z = add_bends(
                            g_x, g_y, g_z, shared, mx * w * ex[i] + m * dx[i],
                            mx * w_y * dx[i] + m_y * wx[i], mx * w_z * dx[i] + m_z * wx[i], tile,
                        )  # fmt: skip
        if needs.VALUES:
            target = (
                grad_values.memory
                + n * grad_values.item
                + channel.to(tile.INDEX) * grad_values.channel
            )
            target += over_points(point.to(tile.INDEX) * grad_values.point, tile.LAST)
            tl.store(
                target,
                total.to(grad_values.memory.dtype.element_ty),
                mask=over_points(present, tile.LAST) & real,
            )
        n, chunk = next_unit(n, chunk, work, tile)
    if needs.GRID:
        # Invalid points are masked here: Triton 3.6 does not compile some maps with the directions
        # masked instead.
        gradient_at_points = (
            where(near, g_x * scales[0][1], 0), where(near, g_y * scales[1][1], 0),
            where(near, g_z * scales[2][1], 0),
        )  # fmt: skip
        row = split * work.grid_items + item
        keep_gradient(gradient, gradient_at_points, row, point, present, work, tile)


def direction(
    by_grid: Grid, item: Any, point: Any, present: Any, scales: Any, tile: Tile, THERE: Static
) -> Any:
    """Return the upstream gradient of the grid's gradient, in pixels: 0 along constant axes."""
    parts: Any = ()
    for axis in tl.static_range(3):
        part = tl.full(point.shape, 0, tile.REAL)
        if (
            THERE
            and axis < tile.RANK
            and rises(tile.X if axis == 0 else tile.Y if axis == 1 else tile.Z, 1)
        ):
            at = item * by_grid.item + point.to(tile.INDEX) * by_grid.point + axis * by_grid.axis
            part = tl.load(by_grid.memory + at, mask=present, other=0).to(tile.REAL)
            part *= scales[axis][1]
        parts = parts + (part,)
    return parts


def add_bends(
    x: Any, y: Any, z: Any, shared: Any, along_x: Any, along_y: Any, along_z: Any, tile: Tile
) -> Any:
    """Add second derivatives as `add_slopes` adds first ones, along axes where some is not zero."""
    if rises(tile.X, 1) and (rises(tile.X, 2) or rises(tile.Y, 1) or rises(tile.Z, 1)):
        x += shared * along_x
    if rises(tile.Y, 1) and (rises(tile.Y, 2) or rises(tile.X, 1) or rises(tile.Z, 1)):
        y += shared * along_y
    if rises(tile.Z, 1) and (rises(tile.Z, 2) or rises(tile.X, 1) or rises(tile.Y, 1)):
        z += shared * along_z
    return x, y, z


# Ordered so that each function uses only those before it.
FUNCTIONS = (
    *(plus, larger, over_points, over_channels, blocks_of, assignment, place, ruler, mapped, find),
    *(weigh_all, rises),
    *(entry, line_of, line_start, line_weight, line_kept),
    *(first_unit, next_unit, channels_of, look_up, vote),
    *(to_integers, blank, *sums.FUNCTIONS, share, add_slopes),
    *(value_of, steepened, return_taps, keep_gradient, direction, add_bends),
    *footprints.FUNCTIONS,
)

# Those that loop over lines of taps, at compile time or not, as kernels do.
LOOPS = (value_of, return_taps)

KERNELS = (gather, backward, double_backward, collect, measure_footprints, transpose)
