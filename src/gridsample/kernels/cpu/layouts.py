"""Layouts of arrays as drivers take them, and what is compiled for them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.methods import LINEAR
from gridsample.definitions.plan import BOUNDARIES, Plan
from gridsample.kernels.cpu import records
from gridsample.kernels.cpu.build import Spec
from gridsample.kernels.cpu.records import Lattice, Planes, Points, Values
from gridsample.kernels.cpu.work import ALONE, CROWDED, Group, Work, shifts
from gridsample.kernels.memory import Flat, Layout, Memory, describe, flat_of, kind_of, spacing

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

# Channels side by side from which it pays to work along them; numbers of a row of taps that are
# worked on together, at most, where pixels have fewer channels; and rows that are written out.
LONG_RUN, LONG_ROW, MANY_ROWS = 8, 16, 16


# Bytes from which an image is asked for ahead: it will not be in the second-level cache.
FAR = 1 << 21


# Storage types that have loops made for a rank and a method; of others, fewer are compiled.
QUICK = {"f4", "f8", "f2", "V2", "u1", "u2", "u4", "u8"}


def code(dtype: np.dtype[Any]) -> str:
    """A storage type as Spec writes it; a complex type is stored as its parts."""
    return f"f{dtype.itemsize // 2}" if dtype.kind == "c" else f"{dtype.kind}{dtype.itemsize}"


class GridLayout(NamedTuple):
    """A grid as flat memory: distances between items, between axes and between points."""

    flat: Flat
    begin: int  # where the first coordinate is
    item: int
    axis: int
    point: int
    code: str
    rank: int  # of points that lie as usual, side by side, or coordinates that do; else 0
    planar: bool

    @property
    def record(self) -> Points:
        """As drivers take it, but for its memory."""
        return Points(None, begin=self.begin, item=self.item, axis=self.axis, point=self.point)


def read_points(grid: Layout, plan: Plan, affine: bool = False) -> GridLayout:
    """An even grid (N, *out, D), or affine maps (N, D, D + 1), as the drivers take it."""
    shape, strides, dtype = grid
    axes, kind = len(plan.spatial), kind_of(dtype)
    if affine:
        item = axes * (axes + 1) if plan.grid_items > 1 else 0
        return GridLayout(flat_of(grid, kind), 0, item, 0, 0, code(dtype), axes, True)
    upward, backward = grid, strides[-1] < 0
    if backward:
        upward = shape, (*strides[:-1], -strides[-1]), dtype
    distances = spacing(upward)
    assert distances is not None
    item, point, axis = distances
    begin, axis = ((axes - 1) * axis, -axis) if backward else (0, axis)
    still = plan.coords != "displacement"
    planar = still and point == 1 and axes > 1
    usual = still and point == axes and (axis == 1 or axes == 1)
    item = item if plan.grid_items > 1 else 0
    return GridLayout(
        flat_of(upward, kind), begin, item, axis, point, code(dtype),
        axes if usual or planar else 0, planar,
    )  # fmt: skip


def read_values(values: Layout, plan: Plan, as_bits: bool = False) -> Memory:
    """Even values (N, C, *out) as the drivers take them, as (N, C, points)."""
    shape, strides, dtype = values
    distances = spacing(((1, *shape[2:], 1), (0, *strides[2:], dtype.itemsize), dtype))
    assert distances is not None
    point = distances[1] * dtype.itemsize
    one = describe(((*shape[:2], plan.points), (*strides[:2], point), dtype), plan.items, as_bits)
    return one._replace(flat=flat_of(values, one.flat.kind or dtype))


def specify(
    plan: Plan,
    driver: str,
    bits: int,
    points: GridLayout,
    image: np.dtype[Any],
    values: np.dtype[Any],
    **more: Any,
) -> Spec:
    """What is compiled for a call."""
    return Spec(
        driver,
        code(plan.real),
        bits,
        points.code,
        code(image),
        code(values),
        displaced=plan.coords == "displacement",
        signed=any(BOUNDARIES[name].odd for name in plan.boundaries),
        packed=points.rank if is_quick(points, image) else 0,
        planar=points.planar and is_quick(points, image),
        **more,
    )


def is_quick(points: GridLayout, image: np.dtype[Any]) -> bool:
    """Whether there are loops for a case of these types alone."""
    return {points.code, code(image)} <= QUICK


def in_pairs(plan: Plan, memory: Memory, dtype: np.dtype[Any]) -> bool:
    """Whether taps come in pairs that are neighbours in memory, as numbers."""
    return (
        plan.methods[0].taps % 2 == 0 and memory.strides[0] == 1 and code(dtype) == code(plan.real)
    )


def pixels_together(plan: Plan, memory: Memory) -> int:
    """How many taps along x are read together, where a pixel has few channels."""
    count = plan.methods[0].taps
    fits = count in (2, 4) and count * memory.run <= LONG_ROW
    return count if fits and memory.strides[0] == memory.run else 1


def written_out(plan: Plan, length: int) -> int:
    """How many rows of taps of a length a point has, if loops over them are written out; else 0.

    Where methods are mixed they are not, so that mixes share a driver.
    """
    rows = math.prod(method.taps for method in plan.methods) // length
    return rows if len({method.taps for method in plan.methods}) == 1 and rows <= MANY_ROWS else 0


def bytes_of(memory: Memory, dtype: np.dtype[Any]) -> int:
    """Bytes of a pixel that is read by words, if taps come in pairs; 0 where it is not.

    Pixels lie one after the other: of one channel, or of three or four that are bytes.
    """
    step = memory.strides[0]
    if code(dtype) in ("f2", "V2"):
        return 2 if step == 1 else 0
    return step if code(dtype) == "u1" and (step == 1 or step == memory.run in (3, 4)) else 0


def is_linear(plan: Plan, order: Order) -> bool:
    """Whether taps are weighed by distance alone, along every axis."""
    return not any(order) and all(method.table == LINEAR.table for method in plan.methods)


def index_bits(plan: Plan, memory: Memory, group: Group = ALONE) -> int:
    """Width of indices and offsets: 32 bits while they fit, else 64."""
    most = max(*plan.spatial, extent(plan, memory, group), group.items * (group.shared + group.gap))
    return 32 if most < 2**31 - 64 else 64


def group_items(
    plan: Plan, place: Memory, points: GridLayout, values: Memory, run: int, affine: bool
) -> Group:
    """How items share blocks, where each has few points in an image of its own."""
    step = values.strides[0]
    listed = points.item == plan.points * points.point
    gap = 0 if step == values.item == 0 else -1  # one number stands for all values
    if step > 0 and values.item % step == 0:
        gap = values.item // step - plan.points
    if (
        affine or plan.grid_items == 1 or plan.points >= CROWDED or not listed or gap < 0
        or (run and gap)
    ):  # fmt: skip
        return ALONE
    return Group(plan.points, place.item, gap, plan.grid_items)


def extent(plan: Plan, memory: Memory, group: Group = ALONE) -> int:
    """The greatest offset in a plane of an image, or of a group's images, plus one."""
    steps = zip((*plan.spatial[::-1], group.items), (*memory.strides, group.apart), strict=True)
    return 1 + sum((n - 1) * stride for n, stride in steps)


def starts(memory: Memory, plan: Plan, as_runs: bool) -> tuple[Array, int]:
    """Where the planes (or runs) begin that one grid item serves; the distance to the next item's.

    A grid that serves the whole batch has every item's planes at once, and works its taps out once.
    """
    planes = memory.planes[:1] if as_runs else memory.planes
    if plan.grid_items > 1:
        return planes, memory.item
    if plan.items == 1:
        return planes, 0
    items = np.arange(plan.items, dtype=np.int64)[:, np.newaxis] * memory.item
    return (items + planes).reshape(-1), 0


def planes_of(memory: Memory, plan: Plan, as_runs: bool, needed: bool = True) -> Planes:
    """An image as drivers take it, but for its memory.

    Where it is not needed, it stays within the one number that stands for it.
    """
    begins, item = starts(memory, plan, as_runs)
    return Planes(None, begins, item) if needed else Planes(None, np.zeros_like(begins), 0)


def values_of(memory: Memory, plan: Plan, as_runs: bool, needed: bool = True) -> Values:
    """Values as drivers take them, but for their memory; as `planes_of`."""
    _, begins, item = planes_of(memory, plan, as_runs, needed)
    return Values(None, begins, item, memory.strides[0])


def lattice_of(strides: tuple[int, ...], work: Work, far: bool) -> Lattice:
    """How far apart pixels are, x first."""
    table = np.array(strides, np.int64)
    return Lattice(strides=table, shifts=shifts(work.axes.counts, strides), far=far)


# What is outside the image, which is told with the caller's arrays.
AROUND = records.Outside(None, None, None)


def common_run(place: Memory, values: Memory, least: int = LONG_RUN) -> int:
    """How many channels are worked on side by side; 0 where planes are."""
    return place.run if place.run == values.run >= least else 0


def is_far(plan: Plan, memory: Memory, count: int) -> bool:
    """Whether so many images will not be in the second-level cache."""
    return memory.flat.extent * plan.real.itemsize * count > FAR


def complex_of(real: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type whose parts are of a real type."""
    return np.dtype(f"c{real.itemsize * 2}")
