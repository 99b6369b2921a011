"""Loops over the footprints of affine maps; see `gridsample.kernels.cpu.footprint_loops`.

Maps are (items, D, D + 1).  Coordinates are computed for a piece of a row at a time, from the
coordinates of its output points, and no grid is stored.  All points of a map have the same sides:
the columns of the map, times the distance between neighbours along the output's axes.

The functions replace those of the same names in `footprint_loops`, whose other functions then call
them.
"""

from __future__ import annotations

from typing import Any

from gridsample.kernels.cpu.footprint_loops import (
    COUNT,
    LENGTH,
    Frame,
    Piece,
    add_slopes,
    count_row,
)

Array = Any

# Bound by lowering.
RANK = 2
ZERO = 0.0
real = float


def own_place(p: int, axis: int, frame: Frame) -> int:
    """The index of an output point along an axis, x first."""
    k = RANK - 1 - axis
    place: int = p // frame.steps[k] % frame.shape[k]
    return place


def copy_base(maps: Array, p: int, n: int, own: bool, frame: Frame, base: Array) -> None:
    """Compute the coordinates of points, in the order of operations of plain sampling."""
    item, place = p // (frame.shape[0] * frame.steps[0]), own_place(p, 0, frame)
    for d in range(RANK):
        begin, slope = maps[item, d, RANK], maps[item, d, 0]
        for b in range(RANK - 1, 0, -1):
            at = frame.origin[b] + real(own_place(p, b, frame)) * frame.spacing[b]
            begin += maps[item, d, b] * at
        for i in range(n):
            base[d, i] = begin + slope * (frame.origin[0] + real(place + i) * frame.spacing[0])


def find_sides(maps: Array, item: int, n: int, frame: Frame, piece: Piece) -> None:
    """Store the sides, numbers of samples and the level of a map, n times."""
    sides = piece.sides
    for k in range(RANK):
        column = RANK - 1 - k
        for d in range(RANK):
            side = maps[item, d, column] * frame.spacing[column]
            if side - side != ZERO:  # it is infinite or NaN
                side = ZERO
            for i in range(n):
                sides[3 - RANK + k, d, i] = side
    count_row(sides, 1, frame, piece.counts, piece.levels)
    for i in range(1, n):
        piece.levels[i] = piece.levels[0]
        for k in range(3):
            piece.counts[k, i] = piece.counts[k, 0]


def find_footprints(maps: Array, p: int, n: int, frame: Frame, piece: Piece) -> None:
    """Store the sides, numbers of samples and levels of a piece, whose base is known."""
    find_sides(maps, p // (frame.shape[0] * frame.steps[0]), n, frame, piece)
    for i in range(n):
        total = ZERO
        for d in range(RANK):
            total += piece.base[d, i] - piece.base[d, i]
        if total != ZERO:  # a point that is not finite has no sides
            piece.levels[i] = 0
            for k in range(3):
                piece.counts[k, i] = 1
                for d in range(RANK):
                    piece.sides[k, d, i] = ZERO


def survey(maps: Array, frame: Frame, piece: Piece, found: Array) -> None:
    """Find the levels of all maps, as bits, and the most samples of a point."""
    found[0], found[1] = 0, 1
    for item in range(len(maps)):
        find_sides(maps, item, 1, frame, piece)
        counts = piece.counts
        found[0] |= 1 << piece.levels[0]
        found[1] = max(found[1], counts[0, 0] * counts[1, 0] * counts[2, 0])


def add_to_map(p: int, n: int, frame: Frame, sums: Array, gradient: Array) -> None:
    """Add the gradients of the coordinates of n points of a row to that of their map."""
    place = own_place(p, 0, frame)
    for d in range(RANK):
        gain, whole, moment = frame.gain[d], ZERO, ZERO
        for i in range(n):
            whole += sums[3, d, i]
            moment += sums[3, d, i] * (frame.origin[0] + real(place + i) * frame.spacing[0])
        gradient[d, RANK] += gain * whole
        gradient[d, 0] += gain * moment
        for b in range(1, RANK):
            at = frame.origin[b] + real(own_place(p, b, frame)) * frame.spacing[b]
            gradient[d, b] += gain * whole * at
        for k in range(RANK if frame.attached else 0):
            slope = ZERO
            for i in range(n):
                slope += sums[3 - RANK + k, d, i]
            gradient[d, RANK - 1 - k] += gain * slope * frame.spacing[RANK - 1 - k]


def collect(
    maps: Array, frame: Frame, piece: Piece, first: int, slopes: Array, runs: Array, gradient: Array
) -> None:
    """Add the gradients of samples to those of maps, by the transpose of `spread`."""
    p, at, sums = first, 0, piece.sums
    for r in range(len(runs)):
        run = runs[r]
        n, total = run[LENGTH], run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
        if total:
            add_slopes(slopes, at, run, sums)
            add_to_map(p, n, frame, sums, gradient[p // (frame.shape[0] * frame.steps[0])])
        p += n
        at += n * total
