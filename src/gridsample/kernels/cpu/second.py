"""The backward of backward: second derivatives in one sweep.

Backward takes upstream values g, an image v and a grid to two gradients.  With an upstream image u
and an upstream grid d, its own gradients are, for weights w of a point's taps and w_a the same with
axis a differentiated once more,

    of g      sum over taps of w u + W v                       W = sum over a of d_a w_a
    of v      g W, added to each tap's pixel
    of grid   along b: g * sum over taps of w_b u + W_b v      W_b = sum over a of d_a w_ab

So W is how w changes as the point moves by d: the products of weights are worked out with their
change, as dual numbers are multiplied (w, W) -> (w p, W p + w P), once plainly and once for each b.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ONE, minimum, where
from gridsample.kernels.axes import (
    COLUMNS,
    COUNT,
    MEASURES,
    STEEP,
)
from gridsample.kernels.cpu.passes import (
    accumulate,
    accumulate_edges,
    add,
    between,
    blend,
    collect,
    collect_pairs,
    collect_present,
    fetch,
    fetch_ahead,
    fetch_edges,
    mask,
    replace,
    settle_axis,
    settle_axis_edges,
    share,
    silence,
    spread,
    spread_band,
    spread_pairs,
    spread_present,
)
from gridsample.kernels.cpu.sweeps import (
    clear_sums,
    enough,
    settle_sums,
    settle_sums_edges,
    steepen,
)
from gridsample.kernels.cpu.taps import (
    ALONG,
    AMOUNT,
    AT,
    AXES,
    EACH,
    FRACTION,
    LEANS,
    LOST,
    MOST,
    NUMBERS,
    ORDERS,
    OTHERS,
    PIXELS,
    PLACES,
    POS,
    STATE,
    SUMS,
    WEIGHT,
    WHICH,
    WIDTH,
    copy,
    fill,
    lay_blocks,
    next_block,
    prepare_edges,
    read,
    read_edges,
    survey,
    tail,
    weigh_inside,
)

Array = Any

# Bound by lowering.
real = float
int64 = int
unsigned = int
LINEAR = 0  # the rank, where all axes are linear
JOINED = False  # whether taps come in pairs that are neighbours in memory


def backward_twice(
    image: Array, upstream: Array, grid: Array, moves: Array, values: Array,
    results: Array, shadow: Array, gradient: Array,
    strides: Array, shifts: Array, source: Array, image_item: int,
    upstream_source: Array, upstream_item: int, shadow_source: Array, shadow_item: int,
    grid_begin: int, grid_item: int, axis_step: int, point_step: int,
    moves_begin: int, moves_item: int, moves_axis: int, moves_point: int,
    target: Array, values_item: int, values_step: int,
    results_target: Array, results_item: int, results_step: int, gradient_item: int,
    far: bool, has_image: bool, need_values: bool, need_image: bool, need_grid: bool,
    block: Array, axes: Array, measures: Array, tables: Array, indices: Array, reals: Array,
    first_item: int, last_item: int, first: int, last: int, planes: int, end: int,
    banded: bool, low: int, high: int,
) -> None:  # fmt: skip
    """Second derivatives of the points first..last of items first_item..last_item.

    ``upstream`` is the image u, if the call ``has_image``; ``moves`` the grid d.  What becomes of g
    goes to ``results``, of v to ``shadow`` and of the grid to
    ``gradient``; bands and order of summation as in `gridsample.kernels.cpu.sweeps.backward`.
    """
    width, count, step = block[WIDTH], block[EACH], unsigned(values_step)
    wide, at, state = unsigned(width), tail(indices, block[AT]), tail(indices, block[STATE])
    places, lost = tail(indices, block[PLACES]), tail(indices, block[LOST])
    sums = tail(reals, block[SUMS])
    pixels, others = tail(reals, block[PIXELS]), tail(reals, block[OTHERS])
    amount, g = tail(reals, block[AMOUNT]), tail(reals, block[NUMBERS])
    along, more = tail(reals, block[ALONG]), tail(reals, block[POS])
    raised, size = block[AXES] if need_grid else 0, 2 * count * width
    x, moved = tail(reals, block[FRACTION]), tail(reals, block[LEANS])
    y, z = tail(x, width), tail(x, 2 * width)
    for item in range(first_item, last_item):
        points, edges = tail(grid, grid_begin + item * grid_item + first * point_step), unsigned(0)
        shifted = tail(moves, moves_begin + item * moves_item + first * moves_point)
        slopes = tail(gradient, item * gradient_item + first * raised)
        row, strip, ahead = lay_blocks(block, measures, points, axis_step, point_step, last - first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = unsigned(minimum(strip, row - begins))
            inside, edges = survey(
                block, axes, measures, strides, tail(points, start * point_step), axis_step,
                point_step, indices, reals, first, start, edges, ahead, n,
            )  # fmt: skip
            if inside:
                clear_sums(sums, raised, width, n)
                if not LINEAR:
                    weigh_inside(block, axes, measures, tables, ORDERS, reals, n)
                for a in range(block[AXES]):
                    here = tail(shifted, start * moves_point + a * moves_axis)
                    read(here, unsigned(moves_point), along, n)
                    if LINEAR:
                        steep = measures[a * MEASURES + STEEP]
                        measure_move(along, steep, tail(moved, a * width), n)
                    else:
                        lean(block, axes, a, along, reals, n)
                if not LINEAR:
                    multiply_twice(block, axes, raised, reals, n)
                elif not has_image:
                    fill(others, real(0), unsigned(count) * wide)
            for p in range(planes, end if inside else planes):
                here = target[p] + item * values_item + (first + start) * values_step
                fetch(tail(values, here), step, g, n)
                if inside < n:
                    replace(state, g, real(0), n)
                out = results_target[p] + item * results_item + (first + start) * results_step
                if far:
                    plane = tail(image, source[p] + item * image_item)
                    fetch_ahead(plane, at, shifts, axes[COUNT], count, n)
                    if has_image:
                        plane = tail(upstream, upstream_source[p] + item * upstream_item)
                        fetch_ahead(plane, at, shifts, axes[COUNT], count, n)
                    if need_image:
                        plane = tail(shadow, shadow_source[p] + item * shadow_item)
                        fetch_ahead(plane, at, shifts, axes[COUNT], count, n)
                if LINEAR and (need_values or need_grid):
                    plane = tail(image, source[p] + item * image_item)
                    collect_pairs(plane, at, shifts, pixels, count, wide, n)
                    if has_image:
                        plane = tail(upstream, upstream_source[p] + item * upstream_item)
                        collect_pairs(plane, at, shifts, others, count, wide, n)
                    slope_twice(along, sums, g, pixels, others, x, y, z, moved, state, wide, n)
                    if need_values:
                        settle_axis(along, tail(results, out), unsigned(results_step), n)
                elif need_values or need_grid:
                    plane = tail(image, source[p] + item * image_item)
                    collect(plane, at, shifts, pixels, count, wide, n)
                    if has_image:
                        plane = tail(upstream, upstream_source[p] + item * upstream_item)
                        collect(plane, at, shifts, others, count, wide, n)
                    for b in range(0 if need_values else 1, 1 + raised):
                        weights = tail(amount, b * size)
                        blend(along, pixels, tail(weights, count * width), count, wide, n)
                        if has_image:
                            blend(more, others, weights, count, wide, n)
                            add(along, more, n)
                        if b:
                            accumulate(tail(sums, (b - 1) * width), g, along, state, n)
                        else:
                            replace(state, along, real(0), n)
                            settle_axis(along, tail(results, out), unsigned(results_step), n)
                if need_image:
                    plane = tail(shadow, shadow_source[p] + item * shadow_item)
                    if LINEAR:
                        share_twice(g, pixels, x, y, z, moved, wide, n)
                    else:
                        share(g, tail(amount, count * width), pixels, count, wide, n)
                    if banded:
                        spread_band(plane, at, shifts, pixels, low, high, count, wide, n)
                    elif JOINED:
                        spread_pairs(plane, at, shifts, pixels, count, wide, n)
                    else:
                        spread(plane, at, shifts, pixels, count, wide, n)
            if need_grid and inside:
                if LINEAR:
                    steepen(sums, measures, block[AXES], width, n)
                settle_sums(sums, tail(slopes, start * block[AXES]), block[AXES], width, n)
            start, begins = next_block(start, begins, last - first, row, strip)
            many = enough(edges, wide, begins >= row)
            for begin in range(unsigned(0), many, wide):
                which, n = tail(indices, block[WHICH] + int64(begin)), minimum(wide, many - begin)
                prepare_edges(
                    block, axes, measures, tables, ORDERS, 0, strides, points, axis_step,
                    point_step, first, which, indices, reals, n,
                )  # fmt: skip
                for a in range(block[AXES]):
                    here = tail(shifted, a * moves_axis)
                    read_edges(here, unsigned(moves_point), which, along, n)
                    lean(block, axes, a, along, reals, n)
                multiply_twice(block, axes, raised, reals, n)
                clear_sums(sums, raised, width, n)
                for p in range(planes, end):
                    here = target[p] + item * values_item + first * values_step
                    fetch_edges(tail(values, here), step, which, g, n)
                    silence(places, lost, g, False, count, wide, n)
                    if need_values or need_grid:
                        plane = tail(image, source[p] + item * image_item)
                        collect_present(plane, places, pixels, count, wide, n)
                        mask(places, pixels, real(0), count, wide, n)
                        if has_image:
                            plane = tail(upstream, upstream_source[p] + item * upstream_item)
                            collect_present(plane, places, others, count, wide, n)
                            mask(places, others, real(0), count, wide, n)
                    for b in range(0 if need_values else 1, 1 + raised):
                        weights = tail(amount, b * size)
                        blend(along, pixels, tail(weights, count * width), count, wide, n)
                        if has_image:
                            blend(more, others, weights, count, wide, n)
                            add(along, more, n)
                        if b:
                            accumulate_edges(tail(sums, (b - 1) * width), g, along, n)
                        else:
                            silence(places, lost, along, False, count, wide, n)
                            out = results_target[p] + item * results_item + first * results_step
                            settle_axis_edges(
                                along, which, tail(results, out), unsigned(results_step), n
                            )
                    if need_image:
                        plane = tail(shadow, shadow_source[p] + item * shadow_item)
                        share(g, tail(amount, count * width), pixels, count, wide, n)
                        spread_present(plane, places, pixels, low, high, count, wide, n)
                if need_grid:
                    settle_sums_edges(sums, slopes, which, block[AXES], width, n)
            edges -= many


def measure_move(move: Array, steep: Any, moved: Array, n: int) -> None:
    """A move along an axis, in pixels."""
    for i in range(n):
        moved[i] = move[i] * steep


def slope_twice(
    result: Array, sums: Array, g: Array, pixels: Array, others: Array, x: Array, y: Array,
    z: Array, moved: Array, state: Array, width: int, n: int,
) -> None:  # fmt: skip
    """Where every axis is linear: what becomes of g, and of the grid, at inside points.

    ``pixels`` are the image's, ``others`` the upstream one's, both collected in pairs.  Along one
    axis a linear image has no second derivative: only mixed ones are left.
    """
    one, b = unsigned(1), width + width
    c, d = b + b, b + b + b
    if LINEAR == 1:
        for i in range(n):
            j, inside = i + i, state[i] == 0
            slope = pixels[j + one] - pixels[j]
            value = between(others[j], others[j + one], x[i]) + moved[i] * slope
            result[i] = where(inside, value, real(0))
            sums[i] += where(inside, g[i] * (others[j + one] - others[j]), real(0))
    elif LINEAR == 2:
        for i in range(n):
            j, inside = i + i, state[i] == 0
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            e, f, h, k = others[j], others[j + one], others[b + j], others[b + j + one]
            upper, lower = q - p, s - r
            along, down = between(upper, lower, y[i]), between(r - p, s - q, x[i])
            value = between(between(e, f, x[i]), between(h, k, x[i]), y[i])
            value += moved[i] * along + moved[width + i] * down
            result[i] = where(inside, value, real(0))
            along = between(f - e, k - h, y[i]) + moved[width + i] * (lower - upper)
            down = between(h - e, k - f, x[i]) + moved[i] * (lower - upper)
            sums[i] += where(inside, g[i] * along, real(0))
            sums[width + i] += where(inside, g[i] * down, real(0))
    else:
        for i in range(n):
            j, inside = i + i, state[i] == 0
            across, under, beyond = moved[i], moved[width + i], moved[b + i]
            # Blended along x, then y, then z; and how that changes along x.
            p, q, r, s = pixels[j], pixels[j + one], pixels[b + j], pixels[b + j + one]
            t, u, v, w = pixels[c + j], pixels[c + j + one], pixels[d + j], pixels[d + j + one]
            p, q = between(p, q, x[i]), q - p
            r, s = between(r, s, x[i]), s - r
            t, u = between(t, u, x[i]), u - t
            v, w = between(v, w, x[i]), w - v
            near, far = between(q, s, y[i]), between(u, w, y[i])
            first, last = r - p, v - t
            value = across * between(near, far, z[i]) + under * between(first, last, z[i])
            value += beyond * (between(t, v, y[i]) - between(p, r, y[i]))
            xy, xz, yz = between(s - q, w - u, z[i]), far - near, last - first
            along, down, deep = (
                under * xy + beyond * xz, across * xy + beyond * yz, across * xz + under * yz
            )  # fmt: skip
            p, q, r, s = others[j], others[j + one], others[b + j], others[b + j + one]
            t, u, v, w = others[c + j], others[c + j + one], others[d + j], others[d + j + one]
            p, q = between(p, q, x[i]), q - p
            r, s = between(r, s, x[i]), s - r
            t, u = between(t, u, x[i]), u - t
            v, w = between(v, w, x[i]), w - v
            near, far = between(p, r, y[i]), between(t, v, y[i])
            result[i] = where(inside, value + between(near, far, z[i]), real(0))
            along += between(between(q, s, y[i]), between(u, w, y[i]), z[i])
            down += between(r - p, v - t, z[i])
            deep += far - near
            sums[i] += where(inside, g[i] * along, real(0))
            sums[width + i] += where(inside, g[i] * down, real(0))
            sums[b + i] += where(inside, g[i] * deep, real(0))


def share_twice(
    g: Array, shares: Array, x: Array, y: Array, z: Array, moved: Array, width: int, n: int
) -> None:
    """What each tap gets of g where its weight changes so, where every axis is linear."""
    b = width + width
    c, d = b + b, b + b + b
    if LINEAR == 1:
        for i in range(n):
            change = g[i] * moved[i]
            shares[i], shares[width + i] = -change, change
    elif LINEAR == 2:
        for i in range(n):
            across, down = g[i] * moved[i], g[i] * moved[width + i]
            left, right = down * (ONE - x[i]), down * x[i]
            upper, lower = across * (ONE - y[i]), across * y[i]
            shares[i], shares[width + i] = -upper - left, upper - right
            shares[b + i], shares[b + width + i] = left - lower, right + lower
    else:
        for i in range(n):
            across, down, deep = g[i] * moved[i], g[i] * moved[width + i], g[i] * moved[b + i]
            left, right, upper, lower = ONE - x[i], x[i], ONE - y[i], y[i]
            near, far = ONE - z[i], z[i]
            # How the product of the weights along y and z changes, and that product.
            change = -down * near - deep * upper
            shares[i] = change * left - across * upper * near
            shares[width + i] = change * right + across * upper * near
            change = down * near - deep * lower
            shares[b + i] = change * left - across * lower * near
            shares[b + width + i] = change * right + across * lower * near
            change = deep * upper - down * far
            shares[c + i] = change * left - across * upper * far
            shares[c + width + i] = change * right + across * upper * far
            change = deep * lower + down * far
            shares[d + i] = change * left - across * lower * far
            shares[d + width + i] = change * right + across * lower * far


def lean(block: Array, axes: Array, a: int, move: Array, reals: Array, n: int) -> None:
    """How the weights along one axis change as the points move along it: w' times the move."""
    width, size = block[WIDTH], block[MOST] * block[WIDTH]
    for o in range(2):
        leans = tail(reals, block[LEANS] + (2 * a + o) * size)
        weight = tail(reals, block[WEIGHT] + (ORDERS * a + o + 1) * size)
        share(move, weight, leans, axes[a * COLUMNS + COUNT], unsigned(width), n)


def multiply_twice(block: Array, axes: Array, raised: int, reals: Array, n: int) -> None:
    """Weights along each axis -> the taps' weights and how they change, for each kind of product.

    Kind 0 is the plain product; in kind 1 + b the order of axis b is raised, for ``raised`` axes.
    """
    width, size = block[WIDTH], block[MOST] * block[WIDTH]
    each = block[EACH] * width
    for kind in range(1 + raised):
        weights = tail(reals, block[AMOUNT] + 2 * kind * each)
        changes, count = tail(weights, each), axes[COUNT]
        o = 1 if kind == 1 else 0
        copy(tail(reals, block[WEIGHT] + o * size), weights, count, unsigned(width), n)
        copy(tail(reals, block[LEANS] + o * size), changes, count, unsigned(width), n)
        for a in range(1, block[AXES]):
            o = 1 if kind == 1 + a else 0
            weight = tail(reals, block[WEIGHT] + (ORDERS * a + o) * size)
            leans = tail(reals, block[LEANS] + (2 * a + o) * size)
            more = axes[a * COLUMNS + COUNT]
            multiply_dual(weights, changes, count, weight, leans, more, unsigned(width), n)
            count *= more


def multiply_dual(
    weights: Array, changes: Array, taps: int, weight: Array, leans: Array, more: int, width: int,
    n: int,
) -> None:  # fmt: skip
    """As `gridsample.kernels.cpu.taps.multiply`, for weights and their changes together."""
    for k in range(more - 1, -1, -1):
        along = unsigned(k) * width
        for t in range(taps):
            old, new = unsigned(t) * width, unsigned(k * taps + t) * width
            if k:
                for i in range(n):
                    changes[new + i] = (
                        changes[old + i] * weight[along + i] + weights[old + i] * leans[along + i]
                    )
                    weights[new + i] = weights[old + i] * weight[along + i]
            else:
                for i in range(n):
                    changes[old + i] = changes[old + i] * weight[i] + weights[old + i] * leans[i]
                    weights[old + i] *= weight[i]


# What lowering compiles before the driver: a loop over separate arrays, and what calls loops.
LOOPS = (measure_move, slope_twice, share_twice, multiply_dual)
STEPS = (lean, multiply_twice)
