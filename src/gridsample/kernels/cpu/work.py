"""How a call is cut up: into blocks that stay in cache, and into tasks for threads.

A task is a list of ranges, of items, points and planes, each for one call of a driver.  Ranges of
points begin at multiples of a block, and no two tasks write to the same place, so that results do
not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels.axes import AFTER, BEFORE, COLUMNS, FIRST, FROM, MEASURES, TO, describe
from gridsample.kernels.cpu import blocks
from gridsample.kernels.cpu.records import Block
from gridsample.kernels.memory import frozen

Array = np.ndarray[Any, Any]

# Taps that are worth a thread of their own, and at most how many are worked on between two looks
# at Ctrl-C.
FEW, MANY = 1 << 16, 1 << 25
# Points of a block, and reals that it works on, at most: it should stay in the second-level cache.
BLOCK, BLOCK_REALS = 512, 16384
# Points of a block that are copied and no more: the more of an image's rows are read in one go, the
# fewer are read again.
COPIED = 8192
# Points of a strip of a row, where each has one tap or more: what they need of an image should stay
# in the first-level cache.
STRIPS = 512, 256
# Rows of an image that a row of points crosses from which it is cut into strips; and where points
# are copied in one go, which a longer block serves better.
DEEP, DEEPER = 128, 1024


class Axes(NamedTuple):
    """The axes as the drivers know them."""

    integers: Array  # (axis, COLUMNS), flat
    reals: Array  # (axis, MEASURES), flat
    tables: Array  # (axis, 0: the order asked for, 1, 2: the next ones; tap, power), flat
    counts: tuple[int, ...]  # taps of each axis


@functools.lru_cache(maxsize=256)
def describe_axes(plan: Plan, order: tuple[int, ...]) -> Axes:
    """A plan's axes, for a derivative order along each."""
    counts = tuple(method.taps for method in plan.methods)
    powers = max(method.powers for method in plan.methods)
    tables = np.zeros((len(counts), blocks.ORDERS, max(counts), powers), plan.real)
    rows = []
    for a, method in enumerate(plan.methods):
        rows.append(describe(plan, a, order[a]))
        for raised in range(blocks.ORDERS):
            tables[a, raised, : method.taps, : method.powers] = method.derivative(order[a] + raised)
    return Axes(
        frozen(np.array([row.integers for row in rows], np.int64).reshape(-1)),
        frozen(np.array([row.measures for row in rows], plan.real).reshape(-1)),
        frozen(tables.reshape(-1)),
        counts,
    )


@functools.lru_cache(maxsize=256)
def shifts(counts: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """How far each tap of an inside point is from the first, x running fastest."""
    along = [np.arange(n, dtype=np.int64) * s for n, s in zip(counts, strides, strict=True)]
    return frozen(functools.reduce(lambda at, one: np.add.outer(one, at), along).reshape(-1))


class Group(NamedTuple):
    """How items whose points are few share blocks: their points are one list, item after item.

    Attributes:
        shared: points of an item.
        apart: distance from one item's image to the next one's.
        gap: how many more points apart two items' values are than if they came one after the other.
        items: how many there are.
    """

    shared: int = 0
    apart: int = 0
    gap: int = 0
    items: int = 1


# Each item has blocks of its own.
ALONE = Group()
# Points of an item from which it has: what a block costs is then little beside them.
CROWDED = 2048


class Work(NamedTuple):
    """How a call is cut into blocks, and what a block needs."""

    axes: Axes
    taps: int  # of a point
    width: int  # points of a block
    block: Array  # the table of a block: see taps
    indices: tuple[int, np.dtype[Any]]
    reals: tuple[int, np.dtype[Any]]

    @property
    def step(self) -> int:
        """What ranges of points begin at multiples of: blocks, or rows that blocks are cut from."""
        return int(self.block[blocks.ROW]) or self.width

    @property
    def record(self) -> Block:
        """A block as drivers take it, but for room to work in."""
        axes = self.axes
        return Block(
            table=self.block, axes=axes.integers, measures=axes.reals, tables=axes.tables,
            indices=None, reals=None,
        )  # fmt: skip

    @property
    def scratch_bytes(self) -> tuple[int, int]:
        """The bytes that a task works in: for indices, in whole lines of the cache, and reals."""
        indices, reals = (size * kind.itemsize for size, kind in (self.indices, self.reals))
        return -(-indices // 64) * 64, -(-reals // 64) * 64

    def with_margins(self, margins: tuple[int, ...]) -> Work:
        """For images with margins of zeros, so wide that every point is inside, or out."""
        if not any(margins):
            return self
        integers, reals = self.axes.integers.copy(), self.axes.reals.copy()
        for a, margin in enumerate(margins):
            integers[a * COLUMNS + FIRST] += margin
            one = reals[a * MEASURES :][:MEASURES]
            one[FROM] -= margin
            # The greatest number below that there is a tap for.
            one[TO] = np.nextafter(np.ceil(one[TO]) + margin, one.dtype.type(0))
            one[BEFORE], one[AFTER] = one[FROM], one[TO]
        block = self.block.copy()
        block[blocks.FITS] = True
        axes = self.axes._replace(integers=frozen(integers), reals=frozen(reals))
        return self._replace(axes=axes, block=frozen(block))

    def tiled(self, pixels: int, channels: int) -> Work:
        """With room for a tile of so many pixels and channels, and what is made of it."""
        size, kind = self.reals
        return self._replace(reals=(size + channels * (3 + self.width + pixels), kind))

    def scratch(self) -> tuple[Array, Array]:
        """Memory for one task to work in."""
        return np.empty(*self.indices), np.empty(*self.reals)


def organize(
    plan: Plan, order: tuple[int, ...], kinds: int, bits: int, run: int, twice: bool = False,
    in_rows: bool = True, group: Group = ALONE, slides: bool = False,
) -> Work:  # fmt: skip
    """Blocks so wide that what is worked out for one stays in cache.

    ``kinds`` are the kinds of products of weights, ``bits`` the width of an index, ``run`` the
    channels side by side or 0, ``twice`` whether for second derivatives, ``in_rows`` whether blocks
    may be strips of rows, ``group`` the items that share blocks, ``slides`` whether there are loops
    for taps that slide.
    """
    axes = describe_axes(plan, order)
    each = math.prod(axes.counts)
    points = plan.points * group.items
    most = min(COPIED if plan.nearest else BLOCK, -(-points // 16) * 16)
    width = max(16, min(most, BLOCK_REALS // (each * (2 + kinds)) // 16 * 16))
    powers = max(method.powers for method in plan.methods)
    inside = axes.reals.reshape(len(axes.counts), -1)
    fits = bool((inside[:, FROM] <= inside[:, TO]).all())
    table, indices, reals = blocks.plan_block(
        axes.counts, powers, fits, kinds, width, run, twice, plan.votes
    )
    kind = np.dtype(np.int32 if bits == 32 else np.int64)
    table[blocks.FILLS] = not plan.sums_to_one
    alone = in_rows and group == ALONE
    table[blocks.ROW], table[blocks.STRIP] = cut_row(plan, width) if alone else (0, width)
    table[blocks.SLIDES] = slides and may_slide(plan)
    table[blocks.SHARED], table[blocks.APART], table[blocks.GAP] = group[:3]
    table[blocks.DEEP] = DEEPER if plan.nearest and (run or plan.channels == 1) else DEEP
    block = frozen(np.array(table, np.int64))
    return Work(axes, each, width, block, (indices, kind), (reals, plan.real))


def may_slide(plan: Plan) -> bool:
    """Whether taps may slide: outside is 0, and there are two pixels, exactly counted, to read."""
    zeros = plan.extrapolate and set(plan.boundaries) == {"zeros"}
    return zeros and all(2 <= n < 1 << 22 for n in plan.spatial)


def cut_row(plan: Plan, width: int) -> tuple[int, int]:
    """The points of a row that may be cut into strips, and those of a strip; 0 if none may."""
    strip = min(width, STRIPS[not plan.nearest])
    if len(plan.spatial) < 2 or len(plan.out) < 2 or plan.out[-1] <= strip:
        return 0, width
    row = plan.out[-1]
    return row, -(-row // -(-row // strip) // 16) * 16


# First and last item, first and last point, first plane and last.
Range = tuple[int, int, int, int, int, int]
# Whether a plane has several, first offset, last offset.
Band = tuple[int, int, int]


def few_threads(cost: int, threads: int) -> int:
    """As many threads as there is work for, of so many taps."""
    return max(1, min(threads, cost // FEW))


def fair(cost: int, threads: int) -> int:
    """How many taps a range should have, of so many in all: several ranges for each thread."""
    return min(MANY, max(FEW, cost // (4 * threads)))


def divide(
    items: range, points: int, planes: range, cost: int, width: int, ideal: int
) -> list[Range]:
    """Cut items x points, of so many taps a point, into ranges; points at multiples of a block."""
    ends = planes.start, planes.stop
    if points * cost <= ideal:
        step = max(1, ideal // (points * cost))
        return [(item, min(items.stop, item + step), 0, points, *ends) for item in items[::step]]
    step = max(1, ideal // cost // width) * width
    return [
        (item, item + 1, first, min(points, first + step), *ends)
        for item in items
        for first in range(0, points, step)
    ]


def divide_group(group: Group, planes: range, cost: int) -> list[Range]:
    """Cut the one list of a group's points, of so many taps a point, into ranges of whole items.

    They do not depend on the number of threads, as the order of sums must not.
    """
    each = group.shared * cost
    step = max(1, min(MANY, max(FEW, each * group.items // 64)) // each)
    return [
        (0, 1, first * group.shared, min(first + step, group.items) * group.shared,
         planes.start, planes.stop)
        for first in range(0, group.items, step)
    ]  # fmt: skip


def portions(
    items: range, apart: bool, planes: int, whole: int, threads: int
) -> list[tuple[range, range, Band]]:
    """Share out what is scattered to, so that each thread has places of its own.

    By item where each has its own image (``apart``), then by plane, then by bands of a plane's
    ``whole`` extent.
    """
    groups = [items[i : i + 1] for i in range(len(items))] if apart and threads > 1 else [items]
    cuts = min(planes, -(-threads // len(groups)))
    bands = -(-threads // (len(groups) * cuts))
    return [
        (group, range(planes * cut // cuts, planes * (cut + 1) // cuts), (bands > 1, low, high))
        for group in groups
        for cut in range(cuts)
        for low, high in (
            (whole * band // bands, whole * (band + 1) // bands) for band in range(bands)
        )
    ]
