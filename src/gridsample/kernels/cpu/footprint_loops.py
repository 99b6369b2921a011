"""Loops over the footprints of output points; see `gridsample.kernels.cpu.footprints`.

A grid is (points, D) here, with the points of all items one after the other, in the order of their
axes; `footprint_maps` has the functions for affine maps in place of a grid.  Points are processed
in pieces of a row, because the neighbours of all points of a row are equally far away, and loops
over them vectorise.  The sides of a piece's footprints are in an array (3, D, points), with one
entry for each of the output's last three axes, of which there are D.

The samples of a run, which are points with equal numbers of samples, are in this order: first the
first sample of every point, then the second one of every point, and so on.  All functions are
lowered for a rank D and a dtype.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any

# Bound by lowering.
RANK = 2
ZERO, HALF, ONE, SLACK, HUGE = 0.0, 0.5, 1.0, 0.0, 1e9
real = float

# The columns of the table of runs: the number of points, and of samples along each side.
LENGTH, COUNT = 0, 1
# What `spread` returns: the point after the last one, and the numbers of runs and samples.
STOP, RUNS, USED = 0, 1, 2


class Frame(NamedTuple):
    """What all footprints of a call have in common.

    Attributes:
        shape: the output's shape, one entry for each of the D axes.
        steps: the number of points between neighbours along each axis.
        unit: pixels per unit of coordinates, x first.
        gain: the factor of coordinates in the image of this level, x first.
        shift: the summand.
        levels: the number of times that the image can be halved.
        level: the image that is sampled.
        most: the maximum number of samples along a side.
        displaced: whether coordinates are relative to the output point's own index.
        attached: whether the sides have a gradient.
        origin: the coordinates of the first output point that affine maps are applied to, x first.
        spacing: the differences of these coordinates between neighbours.
    """

    shape: Array
    steps: Array
    unit: Array
    gain: Array
    shift: Array
    levels: int
    level: int
    most: int
    displaced: bool
    attached: bool
    origin: Array
    spacing: Array


class Piece(NamedTuple):
    """Memory for a piece of a row.

    Attributes:
        sides: the sides of footprints, (3, D, points).
        base: the coordinates of the points, (D, points).
        sums: sums of slopes, weighted by the places of samples along each side, and not weighted,
            (4, D, points).
        counts: the numbers of samples along the sides, (3, points).
        levels: the levels of the points.
        ends: a point's neighbours, before and after along each axis, (D, 2).
    """

    sides: Array
    base: Array
    sums: Array
    counts: Array
    levels: Array
    ends: Array


# Footprints ---------------------------------------------------------------------------------------


def is_finite(grid: Array, p: int) -> bool:
    """Whether all coordinates of a point are finite."""
    total = ZERO
    for d in range(RANK):
        total += grid[p, d] - grid[p, d]
    return total == ZERO


def find_ends(grid: Array, p: int, shape: Array, steps: Array, ends: Array) -> None:
    """Store the points before and after along each axis; the point itself if there is none."""
    finite = is_finite(grid, p)
    for k in range(RANK):
        step, size = steps[k], shape[k]
        place = p // step % size
        before, after = p - step, p + step
        ends[k, 0] = before if finite and place > 0 and is_finite(grid, before) else p
        ends[k, 1] = after if finite and place < size - 1 and is_finite(grid, after) else p


def span(grid: Array, p: int, i: int, ends: Array, sides: Array, displaced: bool) -> None:
    """Store the differences of a grid at one point along each axis, as entry ``i``."""
    for k in range(RANK):
        before, after = ends[k, 0], ends[k, 1]
        scale = HALF if before != p and after != p else ONE
        for d in range(RANK):
            # Infinity minus itself is not zero.
            side = grid[after, d] - grid[before, d] if before != after else ZERO
            sides[3 - RANK + k, d, i] = scale * side
        if displaced and before != after:
            sides[3 - RANK + k, RANK - 1 - k, i] += ONE


def subtract(
    grid: Array, p: int, before: int, after: int, scale: float, own: float, axis: int, side: Array,
    first: int, last: int,
) -> None:  # fmt: skip
    """Store scaled differences of the neighbours of points p + first to p + last.

    ``own`` is added along ``axis``.
    """
    for d in range(RANK):
        more = own if d == axis else ZERO
        line = side[d]
        for i in range(first, last):
            line[i] = scale * (grid[p + i + after, d] - grid[p + i - before, d]) + more


def span_row(
    grid: Array, p: int, n: int, shape: Array, steps: Array, sides: Array, displaced: bool
) -> None:
    """Store the differences of a grid at n points of a row, as if all coordinates were finite."""
    own = ONE if displaced else ZERO
    for k in range(RANK):
        step, size = steps[k], shape[k]
        side, axis = sides[3 - RANK + k], RANK - 1 - k
        if size == 1:
            subtract(grid, p, 0, 0, ONE, ZERO, axis, side, 0, n)
        elif step > 1:
            place = p // step % size
            before, after = step if place > 0 else 0, step if place < size - 1 else 0
            scale = HALF if before and after else ONE
            subtract(grid, p, before, after, scale, own, axis, side, 0, n)
        else:
            place = p % size
            start, stop = 0, n
            if place == 0:
                subtract(grid, p, 0, 1, ONE, own, axis, side, 0, 1)
                start = 1
            if place + n == size:
                stop = max(n - 1, start)
                if stop < n:
                    subtract(grid, p, 1, 0, ONE, own, axis, side, stop, n)
            subtract(grid, p, 1, 1, HALF, own, axis, side, start, stop)


def is_regular(grid: Array, p: int, n: int, sides: Array) -> bool:
    """Whether all coordinates and differences of a piece are finite."""
    total = ZERO
    for i in range(n):
        for d in range(RANK):
            total += grid[p + i, d] - grid[p + i, d]
    for k in range(3 - RANK, 3):
        for d in range(RANK):
            for i in range(n):
                total += sides[k, d, i] - sides[k, d, i]
    return total == ZERO


def measure(sides: Array, unit: Array, k: int, i: int) -> float:
    """The squared length of side ``k`` of entry ``i``, in pixels."""
    total = ZERO
    for d in range(RANK):
        length = sides[k, d, i] * unit[d]
        total += length * length
    return total


def count_row(sides: Array, n: int, frame: Frame, counts: Array, levels: Array) -> float:
    """Store the numbers of samples and the levels of a piece; return its longest squared side."""
    longest = ZERO
    for k in range(3 - RANK, 3):
        for i in range(n):
            longest = max(longest, measure(sides, frame.unit, k, i))
    for i in range(n):
        levels[i] = 0
    for k in range(3):
        for i in range(n):
            counts[k, i] = 1
    if longest <= ONE:
        return longest
    if min(longest, HUGE * HUGE) ** HALF - SLACK > real(frame.most):
        find_levels(sides, n, frame, levels)
    for k in range(3 - RANK, 3):
        for i in range(n):
            length = min(measure(sides, frame.unit, k, i), HUGE * HUGE) ** HALF
            whole = length * HALF ** real(levels[i]) - SLACK if levels[i] else length - SLACK
            m = int(whole)
            m += int(whole > real(m))
            counts[k, i] = max(1, min(m, frame.most))
    return longest


def find_levels(sides: Array, n: int, frame: Frame, levels: Array) -> None:
    """Store how often the image is halved for each point."""
    for i in range(n):
        longest = ZERO
        for k in range(3 - RANK, 3):
            longest = max(longest, measure(sides, frame.unit, k, i))
        longest = min(longest, HUGE * HUGE) ** HALF
        level = 0
        while level < frame.levels and longest - SLACK > real(frame.most):
            level += 1
            longest *= HALF
        levels[i] = level


def find_footprints(grid: Array, p: int, n: int, frame: Frame, piece: Piece) -> None:
    """Store the sides, numbers of samples and levels of a piece."""
    span_row(grid, p, n, frame.shape, frame.steps, piece.sides, frame.displaced)
    if not is_regular(grid, p, n, piece.sides):
        for i in range(n):
            find_ends(grid, p + i, frame.shape, frame.steps, piece.ends)
            span(grid, p + i, i, piece.ends, piece.sides, frame.displaced)
    count_row(piece.sides, n, frame, piece.counts, piece.levels)


def row_end(p: int, last: int, frame: Frame, piece: Piece) -> int:
    """The number of points of the piece of a row that starts at ``p``."""
    size = frame.shape[RANK - 1]
    n: int = min(size - p % size, last - p, piece.levels.size)
    return n


def survey(grid: Array, frame: Frame, piece: Piece, found: Array) -> None:
    """Find the levels of all points, as bits, and the most samples of a point."""
    found[0], found[1] = 0, 1
    p, last = 0, len(grid)
    while p < last:
        n = row_end(p, last, frame, piece)
        find_footprints(grid, p, n, frame, piece)
        counts = piece.counts
        for i in range(n):
            found[0] |= 1 << piece.levels[i]
            found[1] = max(found[1], counts[0, i] * counts[1, i] * counts[2, i])
        p += n


# Samples ------------------------------------------------------------------------------------------


def along(j: int, n: int) -> float:
    """The place of sample j of n along a side, from -1/2 to 1/2."""
    return (real(j) + HALF) / real(n) - HALF


def copy_base(grid: Array, p: int, n: int, own: bool, frame: Frame, base: Array) -> None:
    """Store the coordinates of points; ``own`` adds the indices of the output points."""
    for d in range(RANK):
        step, size = frame.steps[RANK - 1 - d], frame.shape[RANK - 1 - d]
        for i in range(n):
            base[d, i] = grid[p + i, d]
        if own:
            for i in range(n):
                base[d, i] += real((p + i) // step % size)


def line_up(
    base: Array, side0: Array, side1: Array, side2: Array, a0: float, a1: float, a2: float,
    gain: float, shift: float, line: Array, n: int,
) -> None:  # fmt: skip
    """Store one coordinate of one sample of n points; a side with one sample adds exactly 0."""
    for q in range(n):
        x = base[q]
        if RANK > 2:
            x += a0 * side0[q]
        if RANK > 1:
            x += a1 * side1[q]
        x += a2 * side2[q]
        line[q] = x * gain + shift


def lay_out(
    i: int, frame: Frame, shifted: bool, piece: Piece, run: Array, samples: Array, at: int
) -> None:
    """Store the coordinates of the samples of a run of points, from entry ``i`` of a piece on.

    ``shifted`` adds the level's shift.
    """
    n, n0, n1, n2 = run[LENGTH], run[COUNT], run[COUNT + 1], run[COUNT + 2]
    sides = piece.sides
    for d in range(RANK):
        gain, shift = frame.gain[d], frame.shift[d] if shifted else ZERO
        base, to = piece.base[d, i:], at
        side0, side1, side2 = sides[0, d, i:], sides[1, d, i:], sides[2, d, i:]
        for j0 in range(n0):
            for j1 in range(n1):
                for j2 in range(n2):
                    line_up(
                        base, side0, side1, side2, along(j0, n0), along(j1, n1), along(j2, n2),
                        gain, shift, samples[d, to:], n,
                    )  # fmt: skip
                    to += n


def run_length(i: int, n: int, room: int, frame: Frame, piece: Piece) -> int:
    """The number of points from entry ``i`` on with equal counts and levels, that fit."""
    counts, levels = piece.counts, piece.levels
    total = counts[0, i] * counts[1, i] * counts[2, i] if levels[i] == frame.level else 0
    most = n - i if total == 0 else min(n - i, room // total)
    q = min(1, most)
    while (
        q < most and levels[i + q] == levels[i] and counts[0, i + q] == counts[0, i]
        and counts[1, i + q] == counts[1, i] and counts[2, i + q] == counts[2, i]
    ):  # fmt: skip
        q += 1
    return q


def spread(
    grid: Array, frame: Frame, piece: Piece, first: int, last: int, samples: Array, runs: Array,
    found: Array,
) -> None:  # fmt: skip
    """Store the samples of points from ``first`` on, (D, samples), as many as there is room for.

    A run whose points belong to another level has no samples.
    """
    at, p, r, room, stopped = 0, first, 0, samples.shape[1], False
    while p < last and not stopped:
        n = row_end(p, last, frame, piece)
        copy_base(grid, p, n, frame.displaced, frame, piece.base)
        find_footprints(grid, p, n, frame, piece)
        i = 0
        while i < n and not stopped:
            q = run_length(i, n, room - at, frame, piece)
            stopped = q == 0 or r == len(runs)
            if not stopped:
                here = piece.levels[i] == frame.level
                run = runs[r]
                run[LENGTH] = q
                for k in range(3):
                    run[COUNT + k] = piece.counts[k, i] if here else 0
                if here:
                    lay_out(i, frame, True, piece, run, samples, at)
                at += q * run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
                r += 1
                i += q
        p += i
    found[STOP], found[RUNS], found[USED] = p, r, at


def spread_moves(
    grid: Array, moves: Array, frame: Frame, piece: Piece, first: int, runs: Array, moved: Array
) -> None:
    """Store the same sums of ``moves``, directions in the space of grids, as `spread` of a grid."""
    p, at = first, 0
    for r in range(len(runs)):
        run = runs[r]
        n, total = run[LENGTH], run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
        if total:
            for i in range(n):
                find_ends(grid, p + i, frame.shape, frame.steps, piece.ends)
                span(moves, p + i, i, piece.ends, piece.sides, False)
            copy_base(moves, p, n, False, frame, piece.base)
            lay_out(0, frame, False, piece, run, moved, at)
        p += n
        at += n * total


def add_slopes(slopes: Array, at: int, run: Array, sums: Array) -> None:
    """Sum the slopes of the samples of a run, with the weights that its sides have, and without."""
    n, n0, n1, n2 = run[LENGTH], run[COUNT], run[COUNT + 1], run[COUNT + 2]
    for d in range(RANK):
        for k in range(4):
            for q in range(n):
                sums[k, d, q] = ZERO
        to = at
        for j0 in range(n0):
            for j1 in range(n1):
                for j2 in range(n2):
                    a0, a1, a2 = along(j0, n0), along(j1, n1), along(j2, n2)
                    for q in range(n):
                        slope = slopes[to + q, d]
                        sums[3, d, q] += slope
                        sums[0, d, q] += a0 * slope
                        sums[1, d, q] += a1 * slope
                        sums[2, d, q] += a2 * slope
                    to += n


def collect(
    grid: Array, frame: Frame, piece: Piece, first: int, slopes: Array, runs: Array, gradient: Array
) -> None:
    """Add the gradients of samples to those of grid points, by the transpose of `spread`."""
    p, at, sums, ends = first, 0, piece.sums, piece.ends
    for r in range(len(runs)):
        run = runs[r]
        n, total = run[LENGTH], run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
        if total:
            add_slopes(slopes, at, run, sums)
        for q in range(n if total else 0):
            find_ends(grid, p + q, frame.shape, frame.steps, ends)
            for d in range(RANK):
                gain = frame.gain[d]
                gradient[p + q, d] += sums[3, d, q] * gain
                for k in range(RANK if frame.attached else 0):
                    before, after = ends[k, 0], ends[k, 1]
                    slope = sums[3 - RANK + k, d, q] * gain
                    if before != p + q and after != p + q:
                        slope *= HALF
                    gradient[after, d] += slope
                    gradient[before, d] -= slope
        p += n
        at += n * total


# Values -------------------------------------------------------------------------------------------


def copy(onto: Array, line: Array, n: int) -> None:
    """onto = line."""
    for i in range(n):
        onto[i] = line[i]


def add(onto: Array, line: Array, n: int) -> None:
    """onto = onto + line."""
    for i in range(n):
        onto[i] += line[i]


def divide(onto: Array, by: float, n: int) -> None:
    """onto = onto / by."""
    for i in range(n):
        onto[i] /= by


def average(values: Array, runs: Array, size: int, means: Array) -> None:
    """Store the mean over each point's samples.

    Values are (P, samples * R) and means are (P, points * R), with R = ``size`` contiguous numbers
    for each.  Points without samples keep their numbers.
    """
    for plane in range(len(values)):
        line, onto = values[plane], means[plane]
        at, to = 0, 0
        for r in range(len(runs)):
            run = runs[r]
            n, total = run[LENGTH] * size, run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
            if total:
                copy(onto[to:], line[at:], n)
            for j in range(1, total):
                add(onto[to:], line[at + j * n :], n)
            if total > 1:
                divide(onto[to:], real(total), n)
            at += n * total
            to += n


def repeat(means: Array, runs: Array, size: int, values: Array) -> None:
    """Store each point's numbers, divided by the number of its samples, for each sample.

    This is the transpose of `average`.  What is left of ``values`` becomes 0.
    """
    for plane in range(len(values)):
        line, onto = means[plane], values[plane]
        at, to = 0, 0
        for r in range(len(runs)):
            run = runs[r]
            n, total = run[LENGTH] * size, run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
            for j in range(total):
                for i in range(n):
                    onto[to + j * n + i] = line[at + i] / real(total)
            at += n
            to += n * total
        for i in range(to, len(onto)):
            onto[i] = ZERO
