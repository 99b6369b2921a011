"""The double backward: second derivatives in one sweep.

Backward computes two gradients from upstream values g, an image v and a grid.  Given an upstream
image u and an upstream grid d, its own gradients are as follows, with w the weights of a point's
taps, and w_a the weights with the order of axis a raised by one:

    of g      sum over taps of w u + W v                       W = sum over a of d_a w_a
    of v      g W, added to each tap's pixel
    of grid   along b: g * sum over taps of w_b u + W_b v      W_b = sum over a of d_a w_ab

W is thus the change of w as the point moves by d.  The products of weights are computed together
with their changes, like dual numbers, (w, W) -> (w p, W p + w P): once plainly and once for each b.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ONE, where
from gridsample.kernels.axes import COLUMNS, COUNT, MEASURES, STEEP
from gridsample.kernels.cpu.blocks import (
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
    WIDTH,
    copy,
    fill,
    tail,
)
from gridsample.kernels.cpu.gradients import (
    add_shares,
    clear_sums,
    settle_sums,
    settle_sums_edges,
    steepen,
)
from gridsample.kernels.cpu.passes import (
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
)
from gridsample.kernels.cpu.positions import read, read_edges
from gridsample.kernels.cpu.records import BandedTask, Block, Lattice, Line, Second, Span
from gridsample.kernels.cpu.scatter import (
    accumulate,
    accumulate_edges,
    add,
    settle_axis,
    settle_axis_edges,
    share,
    silence,
    spread_present,
)
from gridsample.kernels.cpu.taps import prepare_edges, weigh_inside

Array = Any

# Bound by lowering.
real = float
int64 = int
unsigned = int
LINEAR = 0  # the rank if all axes are linear
JOINED = False  # whether pairs of taps are contiguous in memory


def weigh_moves(block: Block, moves: Line, upstream: bool, raised: int, n: int) -> None:
    """Compute the weights of inside points, and their changes as the points move.

    ``upstream`` is set if there is an upstream image; ``raised`` axes have a gradient.
    """
    along, moved = tail(block.reals, block.table[ALONG]), tail(block.reals, block.table[LEANS])
    if not LINEAR:
        weigh_inside(block, ORDERS, n)
    for a in range(block.table[AXES]):
        read(tail(moves.memory, a * moves.axis), unsigned(moves.point), along, n)
        if LINEAR:
            steep = block.measures[a * MEASURES + STEEP]
            measure_move(along, steep, tail(moved, a * block.table[WIDTH]), n)
        else:
            lean(block, a, along, n)
    if not LINEAR:
        multiply_twice(block, raised, n)
    elif not upstream:
        others = tail(block.reals, block.table[OTHERS])
        fill(others, real(0), unsigned(block.table[EACH]) * unsigned(block.table[WIDTH]))


def fetch_all_ahead(job: Second, lattice: Lattice, block: Block, p: int, item: int, n: int) -> None:
    """Prefetch a block's pixels in each of the planes that are read or added to."""
    at, row, taps = tail(block.indices, block.table[AT]), block.axes[COUNT], block.table[EACH]
    plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
    fetch_ahead(plane, at, lattice.shifts, row, taps, n)
    if job.needs.upstream:
        plane = tail(job.upstream.memory, job.upstream.starts[p] + item * job.upstream.item)
        fetch_ahead(plane, at, lattice.shifts, row, taps, n)
    if job.needs.image:
        plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
        fetch_ahead(plane, at, lattice.shifts, row, taps, n)


def backward_twice_inside(
    job: Second, lattice: Lattice, block: Block, task: BandedTask, points: Line, span: Span
) -> None:
    """Compute second derivatives of points first..last of items first_item..last_item.

    ``upstream`` is the image u, if there is one, and ``moves`` the grid d.  The gradient of g is
    stored in ``results``, that of v in ``shadow`` and that of the grid in ``gradient``.  Bands and
    the order of summation are as in `gridsample.kernels.cpu.gradients.backward_inside`.
    """
    item, start, inside, n = span.item, span.start, span.inside, span.n
    width, count = block.table[WIDTH], block.table[EACH]
    step = unsigned(job.values.step)
    wide = unsigned(width)
    at = tail(block.indices, block.table[AT])
    state = tail(block.indices, block.table[STATE])
    sums = tail(block.reals, block.table[SUMS])
    pixels = tail(block.reals, block.table[PIXELS])
    others = tail(block.reals, block.table[OTHERS])
    amount = tail(block.reals, block.table[AMOUNT])
    g = tail(block.reals, block.table[NUMBERS])
    along = tail(block.reals, block.table[ALONG])
    more = tail(block.reals, block.table[POS])
    raised = block.table[AXES] if job.needs.grid else 0
    size = 2 * count * width
    x = tail(block.reals, block.table[FRACTION])
    moved = tail(block.reals, block.table[LEANS])
    y, z = tail(x, width), tail(x, 2 * width)
    shifted = tail(
        job.moves.memory, job.moves.begin + item * job.moves.item + task.first * job.moves.point
    )
    slopes = tail(job.gradient.memory, item * job.gradient.item + task.first * raised)
    if inside:
        clear_sums(sums, raised, width, n)
        moves = Line(tail(shifted, start * job.moves.point), job.moves.axis, job.moves.point)
        weigh_moves(block, moves, job.needs.upstream, raised, n)
    for p in range(task.planes, task.end if inside else task.planes):
        here = (
            job.values.starts[p] + item * job.values.item + (task.first + start) * job.values.step
        )
        fetch(tail(job.values.memory, here), step, g, n)
        if inside < n:
            replace(state, g, real(0), n)
        out = (
            job.results.starts[p]
            + item * job.results.item
            + (task.first + start) * job.results.step
        )
        if lattice.far:
            fetch_all_ahead(job, lattice, block, p, item, n)
        if LINEAR and (job.needs.values or job.needs.grid):
            plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            collect_pairs(plane, at, lattice.shifts, pixels, count, wide, n)
            if job.needs.upstream:
                plane = tail(job.upstream.memory, job.upstream.starts[p] + item * job.upstream.item)
                collect_pairs(plane, at, lattice.shifts, others, count, wide, n)
            slope_twice(along, sums, g, pixels, others, x, y, z, moved, state, wide, n)
            if job.needs.values:
                settle_axis(along, tail(job.results.memory, out), unsigned(job.results.step), n)
        elif job.needs.values or job.needs.grid:
            plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            collect(plane, at, lattice.shifts, pixels, count, wide, n)
            if job.needs.upstream:
                plane = tail(job.upstream.memory, job.upstream.starts[p] + item * job.upstream.item)
                collect(plane, at, lattice.shifts, others, count, wide, n)
            for b in range(0 if job.needs.values else 1, 1 + raised):
                weights = tail(amount, b * size)
                blend(along, pixels, tail(weights, count * width), count, wide, n)
                if job.needs.upstream:
                    blend(more, others, weights, count, wide, n)
                    add(along, more, n)
                if b:
                    accumulate(tail(sums, (b - 1) * width), g, along, state, n)
                else:
                    replace(state, along, real(0), n)
                    settle_axis(along, tail(job.results.memory, out), unsigned(job.results.step), n)
        if job.needs.image:
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            if LINEAR:
                share_twice(g, pixels, x, y, z, moved, wide, n)
            else:
                share(g, tail(amount, count * width), pixels, count, wide, n)
            add_shares(plane, lattice, block, task, int64(0), n)
    if job.needs.grid and inside:
        if LINEAR:
            steepen(sums, block.measures, block.table[AXES], width, n)
        settle_sums(sums, tail(slopes, start * block.table[AXES]), block.table[AXES], width, n)


def backward_twice_edges(
    job: Second,
    lattice: Lattice,
    block: Block,
    task: BandedTask,
    points: Line,
    item: int,
    which: Array,
    n: int,
) -> None:
    """Compute second derivatives at the ``n`` listed edges of an item."""
    width = block.table[WIDTH]
    count = block.table[EACH]
    step = unsigned(job.values.step)
    wide = unsigned(width)
    places = tail(block.indices, block.table[PLACES])
    lost = tail(block.indices, block.table[LOST])
    sums = tail(block.reals, block.table[SUMS])
    pixels = tail(block.reals, block.table[PIXELS])
    others = tail(block.reals, block.table[OTHERS])
    amount = tail(block.reals, block.table[AMOUNT])
    g = tail(block.reals, block.table[NUMBERS])
    along = tail(block.reals, block.table[ALONG])
    more = tail(block.reals, block.table[POS])
    raised = block.table[AXES] if job.needs.grid else 0
    size = 2 * count * width
    shifted = tail(
        job.moves.memory, job.moves.begin + item * job.moves.item + task.first * job.moves.point
    )
    slopes = tail(job.gradient.memory, item * job.gradient.item + task.first * raised)
    prepare_edges(block, points, ORDERS, 0, lattice.strides, task.first, which, n)
    for a in range(block.table[AXES]):
        here = tail(shifted, a * job.moves.axis)
        read_edges(here, unsigned(job.moves.point), which, along, n)
        lean(block, a, along, n)
    multiply_twice(block, raised, n)
    clear_sums(sums, raised, width, n)
    for p in range(task.planes, task.end):
        here = job.values.starts[p] + item * job.values.item + task.first * job.values.step
        fetch_edges(tail(job.values.memory, here), step, which, g, n)
        silence(places, lost, g, False, count, wide, n)
        if job.needs.values or job.needs.grid:
            plane = tail(job.image.memory, job.image.starts[p] + item * job.image.item)
            collect_present(plane, places, pixels, count, wide, n)
            mask(places, pixels, real(0), count, wide, n)
            if job.needs.upstream:
                plane = tail(job.upstream.memory, job.upstream.starts[p] + item * job.upstream.item)
                collect_present(plane, places, others, count, wide, n)
                mask(places, others, real(0), count, wide, n)
        for b in range(0 if job.needs.values else 1, 1 + raised):
            weights = tail(amount, b * size)
            blend(along, pixels, tail(weights, count * width), count, wide, n)
            if job.needs.upstream:
                blend(more, others, weights, count, wide, n)
                add(along, more, n)
            if b:
                accumulate_edges(tail(sums, (b - 1) * width), g, along, n)
            else:
                silence(places, lost, along, False, count, wide, n)
                out = (
                    job.results.starts[p] + item * job.results.item + task.first * job.results.step
                )
                settle_axis_edges(
                    along, which, tail(job.results.memory, out), unsigned(job.results.step), n
                )
        if job.needs.image:
            plane = tail(job.shadow.memory, job.shadow.starts[p] + item * job.shadow.item)
            share(g, tail(amount, count * width), pixels, count, wide, n)
            spread_present(plane, places, pixels, task.low, task.high, count, wide, n)
    if job.needs.grid:
        settle_sums_edges(sums, slopes, which, block.table[AXES], width, n)


def measure_move(move: Array, steep: Any, moved: Array, n: int) -> None:
    """Convert a move along an axis to pixels."""
    for i in range(n):
        moved[i] = move[i] * steep


def slope_twice(
    result: Array, sums: Array, g: Array, pixels: Array, others: Array, x: Array, y: Array,
    z: Array, moved: Array, state: Array, width: int, n: int,
) -> None:  # fmt: skip
    """Compute the gradients of g and of the grid at inside points, if every axis is linear.

    ``pixels`` are the image's, ``others`` the upstream image's, both collected in pairs.  Along a
    single axis, linear interpolation has no second derivative: only mixed ones remain.
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
            # Blend along x, then y, then z, and compute the derivatives along x.
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
    """Compute each tap's share of g for the change of its weight, if every axis is linear."""
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
            # Each change is that of the product of the weights along y and z.
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


def lean(block: Block, a: int, move: Array, n: int) -> None:
    """Compute the leans along one axis: the derivatives of the weights times the move."""
    width, size = block.table[WIDTH], block.table[MOST] * block.table[WIDTH]
    for o in range(2):
        leans = tail(block.reals, block.table[LEANS] + (2 * a + o) * size)
        weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + o + 1) * size)
        share(move, weight, leans, block.axes[a * COLUMNS + COUNT], unsigned(width), n)


def multiply_twice(block: Block, raised: int, n: int) -> None:
    """Multiply weights and leans along each axis to the taps' weights and changes, for each kind.

    Kind 0 is the plain product; in kind 1 + b the order of axis b is raised, for ``raised`` axes.
    """
    width, size = block.table[WIDTH], block.table[MOST] * block.table[WIDTH]
    each = block.table[EACH] * width
    for kind in range(1 + raised):
        weights = tail(block.reals, block.table[AMOUNT] + 2 * kind * each)
        changes, count = tail(weights, each), block.axes[COUNT]
        o = 1 if kind == 1 else 0
        copy(tail(block.reals, block.table[WEIGHT] + o * size), weights, count, unsigned(width), n)
        copy(tail(block.reals, block.table[LEANS] + o * size), changes, count, unsigned(width), n)
        for a in range(1, block.table[AXES]):
            o = 1 if kind == 1 + a else 0
            weight = tail(block.reals, block.table[WEIGHT] + (ORDERS * a + o) * size)
            leans = tail(block.reals, block.table[LEANS] + (2 * a + o) * size)
            more = block.axes[a * COLUMNS + COUNT]
            multiply_dual(weights, changes, count, weight, leans, more, unsigned(width), n)
            count *= more


def multiply_dual(
    weights: Array, changes: Array, taps: int, weight: Array, leans: Array, more: int, width: int,
    n: int,
) -> None:  # fmt: skip
    """Multiply weights together with their changes; `taps.multiply` does so for weights alone."""
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


# What lowering compiles before the driver: loops over arrays that do not overlap, and their
# callers.
LOOPS = (measure_move, slope_twice, share_twice, multiply_dual)
STEPS = (lean, multiply_twice, weigh_moves, fetch_all_ahead)
