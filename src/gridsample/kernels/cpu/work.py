"""How a call is divided: into blocks that stay in cache, and into tasks for threads.

A task is a list of ranges of items, points and planes, each for one call of a driver.  Ranges of
points start at multiples of a block.  No two tasks write to the same place, so that results do
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

# The number of taps that justifies a thread of its own, and the most taps that are processed
# between two checks for Ctrl-C.
FEW, MANY = 1 << 16, 1 << 25
# The most points of a block, and the most reals for it: it should stay in the second-level cache.
BLOCK, BLOCK_REALS = 512, 16384
# The most points of a block whose pixels are only copied: the more rows of an image are read in one
# go, the fewer are read again.
COPIED = 8192
# The points of a strip of a row, for one tap per point and for more: the pixels that they need
# should stay in the first-level cache.
STRIPS = 512, 256
# The number of image rows that a row of points must cross to be cut into strips; and the same
# number for points that are copied in one go, for which longer blocks are better.
DEEP, DEEPER = 128, 1024


class Axes(NamedTuple):
    """The axes as the drivers take them."""

    integers: Array  # (axis, COLUMNS), flat
    reals: Array  # (axis, MEASURES), flat
    tables: Array  # (axis, 0: the order asked for, 1, 2: the next ones; tap, power), flat
    counts: tuple[int, ...]  # taps of each axis


@functools.lru_cache(maxsize=256)
def describe_axes(plan: Plan, order: tuple[int, ...]) -> Axes:
    """Describe a plan's axes to the drivers, for a derivative order along each."""
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
    """Return the distances of an inside point's taps from the first tap, with x running fastest."""
    along = [np.arange(n, dtype=np.int64) * s for n, s in zip(counts, strides, strict=True)]
    return frozen(functools.reduce(lambda at, one: np.add.outer(one, at), along).reshape(-1))


class Group(NamedTuple):
    """Items that share blocks because they have few points; their points form one list.

    Attributes:
        shared: points of an item.
        apart: distance from one item's image to the next one's.
        gap: by how many points the distance of two items' values exceeds the points of an item.
        items: the number of items.
    """

    shared: int = 0
    apart: int = 0
    gap: int = 0
    items: int = 1


# Each item has its own blocks.
ALONE = Group()
# The number of points from which an item does: the overhead of a block is then small.
CROWDED = 2048


class Work(NamedTuple):
    """How a call is divided into blocks, and what a block needs."""

    axes: Axes
    taps: int  # of a point
    width: int  # points of a block
    block: Array  # the table of a block: see taps
    indices: tuple[int, np.dtype[Any]]
    reals: tuple[int, np.dtype[Any]]

    @property
    def step(self) -> int:
        """The number of points that ranges start at multiples of: a block, or a row that is cut."""
        return int(self.block[blocks.ROW]) or self.width

    @property
    def record(self) -> Block:
        """A block as drivers take it, without its scratch memory."""
        axes = self.axes
        return Block(
            table=self.block, axes=axes.integers, measures=axes.reals, tables=axes.tables,
            indices=None, reals=None,
        )  # fmt: skip

    @property
    def scratch_bytes(self) -> tuple[int, int]:
        """The bytes of a task's scratch memory for indices and for reals, in whole cache lines."""
        indices, reals = (size * kind.itemsize for size, kind in (self.indices, self.reals))
        return -(-indices // 64) * 64, -(-reals // 64) * 64

    def with_margins(self, margins: tuple[int, ...]) -> Work:
        """Adapt to images with margins of zeros that are so wide that no point is an edge."""
        if not any(margins):
            return self
        integers, reals = self.axes.integers.copy(), self.axes.reals.copy()
        for a, margin in enumerate(margins):
            integers[a * COLUMNS + FIRST] += margin
            one = reals[a * MEASURES :][:MEASURES]
            one[FROM] -= margin
            # The greatest number below the first position that would need a tap beyond the margin.
            one[TO] = np.nextafter(np.ceil(one[TO]) + margin, one.dtype.type(0))
            one[BEFORE], one[AFTER] = one[FROM], one[TO]
        block = self.block.copy()
        block[blocks.FITS] = True
        axes = self.axes._replace(integers=frozen(integers), reals=frozen(reals))
        return self._replace(axes=axes, block=frozen(block))

    def tiled(self, pixels: int, channels: int) -> Work:
        """Add scratch memory for a tile of so many pixels and channels, and for its results."""
        size, kind = self.reals
        return self._replace(reals=(size + channels * (4 + self.width + pixels), kind))

    def scratch(self) -> tuple[Array, Array]:
        """Allocate scratch memory for one task."""
        return np.empty(*self.indices), np.empty(*self.reals)


def organize(
    plan: Plan, order: tuple[int, ...], kinds: int, bits: int, run: int, twice: bool = False,
    in_rows: bool = True, group: Group = ALONE, slides: bool = False, means: bool = False,
) -> Work:  # fmt: skip
    """Determine blocks of such a width that their scratch memory stays in cache.

    ``kinds`` is the number of kinds of products of weights, ``bits`` the width of an index, and
    ``run`` the number of contiguous channels, or 0.  ``twice`` is set for second derivatives,
    ``in_rows`` if blocks may be strips of rows, and ``slides`` if there are loops for taps that
    slide.  ``group`` describes the items that share blocks.  ``means`` is set if NaN pixels do not
    count.
    """
    axes = describe_axes(plan, order)
    each = math.prod(axes.counts)
    points = plan.points * group.items
    most = min(COPIED if plan.nearest else BLOCK, -(-points // 16) * 16)
    width = max(16, min(most, BLOCK_REALS // (each * (2 + kinds)) // 16 * 16))
    powers = max(method.powers for method in plan.methods)
    inside = axes.reals.reshape(len(axes.counts), -1)
    fits = bool((inside[:, FROM] <= inside[:, TO]).all())
    votes = max(1, plan.dtype.itemsize * 8 // bits) if plan.votes else 0
    table, indices, reals = blocks.plan_block(
        axes.counts, powers, fits, kinds, width, run, twice, votes, means
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
    """Whether taps may slide: the outside is 0, and sizes are at least 2 and exact in float32."""
    zeros = plan.extrapolate and set(plan.boundaries) == {"zeros"}
    return zeros and all(2 <= n < 1 << 22 for n in plan.spatial)


def cut_row(plan: Plan, width: int) -> tuple[int, int]:
    """Return the points of a row that may be cut into strips (0 if none may), and of a strip."""
    strip = min(width, STRIPS[not plan.nearest])
    if len(plan.spatial) < 2 or len(plan.out) < 2 or plan.out[-1] <= strip:
        return 0, width
    row = plan.out[-1]
    return row, -(-row // -(-row // strip) // 16) * 16


# First and last item, first and last point, first plane and last.
Range = tuple[int, int, int, int, int, int]
# Whether the plane is divided into several bands, first offset, last offset.
Band = tuple[int, int, int]


def few_threads(cost: int, threads: int) -> int:
    """Return the number of threads that is worthwhile for a number of taps."""
    return max(1, min(threads, cost // FEW))


def fair(cost: int, threads: int) -> int:
    """Return the number of taps for a range, such that there are several ranges per thread."""
    return min(MANY, max(FEW, cost // (4 * threads)))


def divide(
    items: range, points: int, planes: range, cost: int, width: int, ideal: int
) -> list[Range]:
    """Divide items x points, at ``cost`` taps per point, into ranges of whole blocks."""
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
    """Divide a group's list of points, at ``cost`` taps per point, into ranges of whole items.

    The ranges do not depend on the number of threads, because the order of sums must not.
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
    """Divide the target of a scatter, so that no two threads write to the same place.

    It is divided by item if each has its own image (``apart``), then by plane, then into bands of a
    plane's ``whole`` extent.
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
