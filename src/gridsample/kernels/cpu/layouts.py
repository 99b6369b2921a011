"""Layouts of arrays in the form that drivers take, and the choice of what is compiled for them."""

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

# The number of contiguous channels from which loops run along them; if pixels have fewer channels,
# the most numbers of a row of taps that are processed together; and the most rows that are
# unrolled.
LONG_RUN, LONG_ROW, MANY_ROWS = 8, 16, 16


# The size of an image, in bytes, from which it is prefetched: it exceeds the second-level cache.
FAR = 1 << 21


# Storage types with loops specialised for rank and method; others share more general loops.
QUICK = {"f4", "f8", "f2", "V2", "u1", "u2", "u4", "u8"}


def code(dtype: np.dtype[Any]) -> str:
    """Return the code of a storage type in a Spec; a complex type is stored as its parts."""
    return f"f{dtype.itemsize // 2}" if dtype.kind == "c" else f"{dtype.kind}{dtype.itemsize}"


class GridLayout(NamedTuple):
    """A grid as flat memory: the distances between items, between axes and between points."""

    flat: Flat
    begin: int  # the offset of the first coordinate
    item: int
    axis: int
    point: int
    code: str
    packed: bool  # whether the points, or the coordinates along each axis, are contiguous
    planar: bool  # whether the latter are

    @property
    def record(self) -> Points:
        """Return the record that drivers take, without the memory."""
        return Points(None, begin=self.begin, item=self.item, axis=self.axis, point=self.point)


def read_points(grid: Layout, plan: Plan, affine: bool = False) -> GridLayout:
    """Describe an even grid (N, *out, D), or affine maps (N, D, D + 1), to the drivers."""
    shape, strides, dtype = grid
    axes, kind = len(plan.spatial), kind_of(dtype)
    if affine:
        item = axes * (axes + 1) if plan.grid_items > 1 else 0
        return GridLayout(flat_of(grid, kind), 0, item, 0, 0, code(dtype), True, True)
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
        usual or planar, planar,
    )  # fmt: skip


def read_values(values: Layout, plan: Plan, as_bits: bool = False) -> Memory:
    """Describe even values (N, C, *out) to the drivers, as (N, C, points)."""
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
    """Return what to compile for a call."""
    return Spec(
        driver,
        code(plan.real),
        bits,
        points.code,
        code(image),
        code(values),
        displaced=plan.coords == "displacement",
        signed=any(BOUNDARIES[name].odd for name in plan.boundaries),
        packed=points.packed and is_quick(points, image),
        planar=points.planar and is_quick(points, image),
        **more,
    )


def is_quick(points: GridLayout, image: np.dtype[Any]) -> bool:
    """Whether there are specialised loops for these types."""
    return {points.code, code(image)} <= QUICK


def in_pairs(plan: Plan, memory: Memory, dtype: np.dtype[Any]) -> bool:
    """Whether taps are processed in pairs that are contiguous in memory, without conversion."""
    return (
        plan.methods[0].taps % 2 == 0 and memory.strides[0] == 1 and code(dtype) == code(plan.real)
    )


def pixels_together(plan: Plan, memory: Memory) -> int:
    """Return how many taps along x are read together, if a pixel has few channels."""
    count = plan.methods[0].taps
    fits = count in (2, 4) and count * memory.run <= LONG_ROW
    return count if fits and memory.strides[0] == memory.run else 1


def written_out(plan: Plan, length: int) -> int:
    """Return how many rows of taps a point has, if loops over them are unrolled; otherwise 0.

    They are not unrolled if methods are mixed, so that all mixtures share a driver.
    """
    rows = math.prod(method.taps for method in plan.methods) // length
    return rows if len({method.taps for method in plan.methods}) == 1 and rows <= MANY_ROWS else 0


def bytes_of(memory: Memory, dtype: np.dtype[Any]) -> int:
    """Return the bytes of a pixel that is read by words, if taps come in pairs; otherwise 0.

    Such pixels are contiguous, and have one channel, or three or four channels of one byte.
    """
    step = memory.strides[0]
    if code(dtype) in ("f2", "V2"):
        return 2 if step == 1 else 0
    return step if code(dtype) == "u1" and (step == 1 or step == memory.run in (3, 4)) else 0


def is_linear(plan: Plan, order: Order) -> bool:
    """Whether weights depend linearly on the distance along every axis."""
    return not any(order) and all(method.table == LINEAR.table for method in plan.methods)


def index_bits(plan: Plan, memory: Memory, group: Group = ALONE) -> int:
    """Return the width of indices and offsets: 32 bits if they fit, otherwise 64."""
    most = max(*plan.spatial, extent(plan, memory, group), group.items * (group.shared + group.gap))
    return 32 if most < 2**31 - 64 else 64


def group_items(
    plan: Plan, place: Memory, points: GridLayout, values: Memory, run: int, affine: bool
) -> Group:
    """Determine how items share blocks, if each has few points and an image of its own."""
    step = values.strides[0]
    listed = points.item == plan.points * points.point
    gap = 0 if step == values.item == 0 else -1  # one number is broadcast to all values
    if step > 0 and values.item % step == 0:
        gap = values.item // step - plan.points
    if (
        affine or plan.grid_items == 1 or plan.points >= CROWDED or not listed or gap < 0
        or (run and gap)
    ):  # fmt: skip
        return ALONE
    return Group(plan.points, place.item, gap, plan.grid_items)


def extent(plan: Plan, memory: Memory, group: Group = ALONE) -> int:
    """Return the greatest offset in a plane of an image, or of a group's images, plus one."""
    steps = zip((*plan.spatial[::-1], group.items), (*memory.strides, group.apart), strict=True)
    return 1 + sum((n - 1) * stride for n, stride in steps)


def starts(memory: Memory, plan: Plan, as_runs: bool) -> tuple[Array, int]:
    """Return where a grid item's planes (or runs) start, and the distance to the next item's.

    A grid that serves the whole batch has the planes of all items, so that its taps are computed
    once.
    """
    planes = memory.planes[:1] if as_runs else memory.planes
    if plan.grid_items > 1:
        return planes, memory.item
    if plan.items == 1:
        return planes, 0
    items = np.arange(plan.items, dtype=np.int64)[:, np.newaxis] * memory.item
    return (items + planes).reshape(-1), 0


def planes_of(memory: Memory, plan: Plan, as_runs: bool, needed: bool = True) -> Planes:
    """Describe an image to the drivers, without its memory.

    If it is not needed, all offsets are 0, within the one number that replaces it.
    """
    begins, item = starts(memory, plan, as_runs)
    return Planes(None, begins, item) if needed else Planes(None, np.zeros_like(begins), 0)


def values_of(memory: Memory, plan: Plan, as_runs: bool, needed: bool = True) -> Values:
    """Describe values to the drivers, without their memory; see `planes_of`."""
    _, begins, item = planes_of(memory, plan, as_runs, needed)
    return Values(None, begins, item, memory.strides[0])


def lattice_of(strides: tuple[int, ...], work: Work, far: bool) -> Lattice:
    """Return the distances between pixels, x first."""
    table = np.array(strides, np.int64)
    return Lattice(strides=table, shifts=shifts(work.axes.counts, strides), far=far)


# The values outside the image; their addresses are passed with those of the caller's arrays.
AROUND = records.Outside(None, None, None)


def around_of(means: bool) -> Any:
    """Return the record of these values, of ``means`` if NaN pixels do not count."""
    return records.Surroundings(*AROUND, None, None) if means else AROUND


def common_run(place: Memory, values: Memory, least: int = LONG_RUN) -> int:
    """Return how many contiguous channels are processed together; 0 to process planes."""
    return place.run if place.run == values.run >= least else 0


def is_far(plan: Plan, memory: Memory, count: int) -> bool:
    """Whether ``count`` such images exceed the second-level cache."""
    return memory.flat.extent * plan.real.itemsize * count > FAR


def complex_of(real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype whose parts have a real dtype."""
    return np.dtype(f"c{real.itemsize * 2}")
