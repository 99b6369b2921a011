"""Labels over footprints: the label with the largest weight over all samples of a point wins.

A sample's taps are its neighbours along the axes that vote.  Their labels are those of the plain
kernel for "nearest" at whole positions, which knows all boundaries and dtypes.  The taps of all
samples of a point then vote, with a table of the labels that they have; no image of each label
exists.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.definitions.footprints import tie
from gridsample.definitions.methods import METHODS
from gridsample.definitions.plan import Plan
from gridsample.kernels import axes, cpu
from gridsample.kernels.cpu.footprint_loops import COUNT, LENGTH

Array = np.ndarray[Any, Any]

# Bound by lowering.
RANK = 2
ZERO, ONE, NOWHERE = 0.0, 1.0, math.nan
floor: Any = math.floor

# The columns of the table of axes: position = ((coordinate + plus) * times - minus) * by, and the
# range of positions that have taps.
PLUS, TIMES, MINUS, BY, LOW, HIGH = range(6)

# Spreads keys over a table.
HASH = -7046029254386353131


# The loops ----------------------------------------------------------------------------------------


def locate(
    samples: Array, n: int, lines: Array, bits: Array, places: Array, weights: Array
) -> None:
    """Compute the positions of the taps of n samples, (D, taps, n), and their weights (taps, n).

    A tap is a corner of the cell of a sample; ``bits`` are the bits of its number that belong to
    each axis, 0 for an axis that does not vote.
    """
    taps = len(weights)
    for c in range(taps):
        for i in range(n):
            weights[c, i] = ONE
    for d in range(RANK):
        line, bit = lines[d], bits[d]
        for i in range(n):
            x = samples[d, i]
            if line[TIMES] == ZERO:  # all coordinates are at the only pixel
                x = ZERO if x == x else x
            else:
                x = ((x + line[PLUS]) * line[TIMES] - line[MINUS]) * line[BY]
            if x < line[LOW] or x > line[HIGH]:
                x = NOWHERE
            t, base = ZERO, x
            if bit and x - x == ZERO:
                base = floor(x)
                t = x - base
            for c in range(taps):
                upper = (c & bit) != 0
                places[d, c, i] = base + ONE if upper else base
                weights[c, i] *= t if upper else ONE - t


def add_vote(
    key: int, weight: float, slots: Array, found: Array, where: Array, totals: Array, count: int
) -> int:
    """Add a weight to the total of a key, and return the number of keys.

    ``slots`` is a hash table of the indices of keys that are ``found``; -1 is an empty slot.
    """
    mask = len(slots) - 1
    slot = ((key * HASH) >> 29) & mask
    while slots[slot] >= 0 and found[slots[slot]] != key:
        slot = (slot + 1) & mask
    which = slots[slot]
    if which < 0:
        which = count
        slots[slot], found[count], where[count], totals[count] = count, key, slot, 0.0
        count += 1
    totals[which] += weight
    return count


def take_winner(
    slots: Array, found: Array, where: Array, totals: Array, count: int, margin: float
) -> int:
    """Return the smallest key whose total is within a margin of the largest; empty the table."""
    most = totals[0]
    for k in range(1, count):
        most = max(most, totals[k])
    best, known = found[0], False
    for k in range(count):
        if totals[k] >= most - margin and (not known or found[k] < best):
            best, known = found[k], True
        slots[where[k]] = -1
    winner: int = best
    return winner


def elect(
    keys: Array, weights: Array, runs: Array, margin: float, slots: Array, found: Array,
    where: Array, totals: Array, winners: Array,
) -> None:  # fmt: skip
    """Store the winning key of each point, (planes, points).

    Keys are (planes, taps, samples), and weights (taps, samples).  Totals of a point differ by more
    than ``margin`` times its number of samples, or tie.
    """
    for plane in range(len(keys)):
        at, to = 0, 0
        for r in range(len(runs)):
            run = runs[r]
            n, total = run[LENGTH], run[COUNT] * run[COUNT + 1] * run[COUNT + 2]
            for q in range(n):
                count = 0
                for j in range(total):
                    s = at + j * n + q
                    for t in range(len(weights)):
                        count = add_vote(
                            keys[plane, t, s], weights[t, s], slots, found, where, totals, count
                        )
                least = margin * total if total > 1 else 0.0
                winners[plane, to + q] = take_winner(slots, found, where, totals, count, least)
            at += n * total
            to += n


# What calls them ----------------------------------------------------------------------------------


class Ballot:
    """Memory and constants for the votes of a call.

    Attributes:
        taps: the number of taps of a sample.
    """

    def __init__(self, plan: Plan, largest: int, loop: Any) -> None:
        """Prepare votes of points with up to ``largest`` samples; ``loop`` finds a driver."""
        self.plan, self.loop, real = plan, loop, plan.real
        voting = [method.votes for method in plan.methods]
        self.bits = np.array([int(v) << sum(voting[:d]) for d, v in enumerate(voting)], np.int64)
        self.taps = 1 << sum(voting)
        self.lines = np.array([line_of(plan, d) for d in range(len(voting))], real)
        size = min(largest * self.taps, math.prod(plan.spatial) + 2)
        self.slots = np.full(1 << (2 * size - 1).bit_length(), -1, np.int64)
        self.found, self.where = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.totals = np.zeros(size)
        self.margin = tie(plan.spatial, float(np.finfo(real).eps))

    def decide(self, image: Array, samples: Array, runs: Array, fill: Array | None) -> Array:
        """Return the labels of the points of runs, (images, channels, points).

        Samples are (D, samples), in the units of the grid; displacements are added to them.
        """
        plan, size = self.plan, samples.shape[1]
        places = np.empty((len(plan.spatial), self.taps, size), plan.real)
        weights: Array = np.empty((self.taps, size), plan.real)
        self.loop("locate")(samples, size, self.lines, self.bits, places, weights)
        labels = np.empty((len(image), plan.channels, self.taps * size), plan.dtype)
        some = plan_of_taps(plan, len(image), self.taps * size)
        points = places.reshape(len(places), -1).T[np.newaxis]
        cpu.gather(some, image, points, labels, fill=fill, threads=1)
        keys = as_keys(labels).reshape(-1, self.taps, size)
        winners = np.empty((len(keys), runs[:, LENGTH].sum()), np.int64)
        self.loop("elect")(
            keys, weights, runs, self.margin, self.slots, self.found, self.where, self.totals,
            winners,
        )  # fmt: skip
        return as_labels(winners, plan.dtype).reshape(len(image), plan.channels, -1)


def line_of(plan: Plan, d: int) -> tuple[float, ...]:
    """Return the row of an axis in the table of axes."""
    measures = axes.describe(plan, d, 0).measures
    rim = math.inf if plan.extrapolate else plan.rim
    last = plan.spatial[-1 - d] - 1
    return (measures.plus, measures.times, measures.minus, measures.by, -rim, last + rim)


@functools.lru_cache(maxsize=1024)
def plan_of_taps(plan: Plan, images: int, taps: int) -> Plan:
    """The plan for the labels at whole positions along the axes that vote."""
    methods = tuple(METHODS["nearest"] if one.votes else one for one in plan.methods)
    return replace(
        plan, footprint=None, methods=methods, coords="pixel", extrapolate=True,
        image_items=images, grid_items=1, out=(taps,),
    )  # fmt: skip


def as_keys(labels: Array) -> Array:
    """Convert labels to int64 in the same order."""
    if labels.dtype == np.uint64:
        return (labels ^ np.uint64(1 << 63)).view(np.int64)
    return labels.astype(np.int64)


def as_labels(keys: Array, dtype: np.dtype[Any]) -> Array:
    """Apply the inverse of `as_keys`."""
    if dtype == np.uint64:
        return keys.view(np.uint64) ^ np.uint64(1 << 63)
    return keys.astype(dtype)
