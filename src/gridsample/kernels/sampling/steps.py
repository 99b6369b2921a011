"""The steps of a call: its launches and, for images with many channels, copies around them.

With many taps, or for gradients, it takes less time to copy the channels of each pixel side by
side, to process pixels with all their channels (see `programs.channels`), and to copy the results
back than to process planes one by one.  This is done a few items at a time, while they are in the
cache.  Of an image, or of values, whose channels are neighbours, nothing is copied.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout
from gridsample.kernels.run import Launch, Place, Step, Steps
from gridsample.kernels.sampling.calls import gathered, prepare_derivatives, prepare_gather
from gridsample.kernels.sampling.copies import prepare_transposition
from gridsample.kernels.sampling.division import Layouts
from gridsample.kernels.sampling.layouts import (
    are_runs,
    complex_of,
    shares_weights,
)
from gridsample.kernels.sampling.levels import plan_at
from gridsample.kernels.sampling.paying import COPIED_AT_ONCE, pays_channels_last
from gridsample.kernels.sampling.preparing import grid_sums_type
from gridsample.kernels.sampling.programs.operation import Operation, Orders

Order = tuple[int, ...]
Prepare = Callable[[Plan, Layouts], Sequence[Launch]]


@cached_call(256)
def gather_steps(plan: Plan, order: Order, layouts: Layouts, level: int | None = None) -> Steps:
    """Prepare the sampling of an image; over footprints, of the points that belong to a level."""
    operation, layouts = gathered(plan, layouts)

    def prepare(plan: Plan, layouts: Layouts) -> Sequence[Launch]:
        return (prepare_gather(plan, order, layouts, level),)

    return steps_of(operation, plan, layouts, prepare, level)


@cached_call(256)
def derivative_steps(
    operation: Operation, plan: Plan, order: Order, layouts: Layouts, level: int | None = None
) -> Steps:
    """Prepare derivatives; over footprints, of the points that belong to a level.

    See also `grid_gradients`.
    """

    def prepare(plan: Plan, layouts: Layouts) -> Sequence[Launch]:
        return prepare_derivatives(operation, plan, order, layouts, level)

    return steps_of(operation, plan, layouts, prepare, level)


def steps_of(
    operation: Operation, plan: Plan, layouts: Layouts, prepare: Prepare, level: int | None
) -> Steps:
    """Return the launches of a call, or of its parts between copies if these pay."""
    parts = copied_parts(operation, plan, layouts, level)
    if not parts:
        return Steps(tuple([Step(launch) for launch in prepare(plan, layouts)]))
    copied, steps = Copied(operation, plan, layouts, parts[0], bool(level)), list[Step]()
    for part in parts:
        steps += copied.around(part, prepare(part.plan, copied.layouts_of(part)))
    return Steps(tuple(steps), copied.between)


@cached_call(256)
def grid_gradients(operation: Operation, plan: Plan, layouts: Layouts) -> int:
    """Return how many gradients of grids `derivative_steps` store.

    They are one of each grid or, of a grid that all items share, one of each part, to be summed.
    """
    shared = plan.grid_items == 1 and not plan.are_maps(layouts.grid[0])
    return max(1, len(copied_parts(operation, plan, layouts))) if shared else plan.grid_items


class Part(NamedTuple):
    """Items that are copied together.

    Attributes:
        plan: their plan.
        items: their place in arrays of all items.
        grids: the place of their grids.
        gradient: the number of the first gradient of their grids.
    """

    plan: Plan
    items: slice
    grids: slice
    gradient: int


def copied_parts(
    operation: Operation, plan: Plan, layouts: Layouts, level: int | None = None
) -> list[Part]:
    """Divide a call into parts of a few items, if it pays to copy them; otherwise return none."""
    at_level = plan if level is None else plan_at(plan, level)
    adds = bool(operation.adds(Orders.of(len(plan.spatial)), layouts.needs))
    weights = layouts.means.weights if layouts.means else None
    together = weights is None or shares_weights(weights)
    if not (together and pays_channels_last(at_level, layouts.image, layouts.values, adds)):
        return []
    maps = plan.are_maps(layouts.grid[0])
    size = plan.channels * math.prod(at_level.spatial) * plan.real.itemsize
    step, parts = max(1, COPIED_AT_ONCE // size), list[Part]()
    for number, first in enumerate(range(0, plan.items, step)):
        items = slice(first, min(first + step, plan.items))
        own, count = plan.grid_items > 1, items.stop - first
        part = replace(plan, image_items=count, grid_items=count if own else 1)
        # The gradients of maps are added to what is there.
        gradient = first if own else 0 if maps else number
        parts.append(Part(part, items, items if own else slice(None), gradient))
    # Gradients of sides are not summed over parts.
    summed = plan.footprint is not None and "grid" in layouts.needs and plan.grid_items == 1
    return [] if summed and len(parts) > 1 else parts


class Copied:
    """The arrays of a call, of which planes are copied to runs of channels.

    Attributes:
        layouts: what the call reads and writes.
        sums: the layout of the image's gradient.
        uses: how its arrays are used, by name.
        planes: the layouts of arrays of pixels and of points, by name.
        vectors: the bytes of an item's array of vectors.
        between: the bytes of the runs that take the place of planes, by name.
        keeps: whether results that are not stored, as those of another level, stay as they are.
    """

    def __init__(
        self, operation: Operation, plan: Plan, layouts: Layouts, first: Part, keeps: bool
    ) -> None:
        self.keeps = keeps
        self.layouts, self.sums = layouts, layouts.gradient(plan)
        self.uses = operation.uses(layouts.needs)
        kind = complex_of(plan.real) if plan.dtype.kind == "c" else plan.real
        known = {"image": layouts.image, "out": layouts.values, "values": layouts.values}
        others = {"pixels": self.sums, "points": of_type(layouts.values, kind)}
        self.planes = {
            name: known.get(name) or others[use.place]
            for name, use in self.uses.items()
            if use.place in others
        }
        (_, *shape), dtype = grid_sums_type(plan, layouts.grid[0])
        self.vectors = math.prod(shape) * dtype.itemsize
        self.between = {
            f"{name} in runs": size_of(items_of(layout, first.items))
            for name, layout in self.planes.items()
            if not are_runs(layout)
        }

    def layouts_of(self, part: Part) -> Layouts:
        """Return what the launches of a part read and write."""
        image, values, sums = (
            in_runs(items_of(layout, part.items))
            for layout in (self.layouts.image, self.layouts.values, self.sums)
        )
        means = self.layouts.means
        if means is not None and means.weights is not None:
            means = means._replace(weights=items_of(means.weights, part.items))
        grid = items_of(self.layouts.grid, part.grids)
        layouts = self.layouts._replace(image=image, grid=grid, values=values)
        return layouts._replace(means=means, sums=sums)

    def around(self, part: Part, launches: Sequence[Launch]) -> Iterator[Step]:
        """Yield the steps of a part: copies, launches, and copies of results."""
        before, after, places, cleared = list[Step](), list[Step](), {}, {}
        for name, use in self.uses.items():
            if use.place == "grid":
                places[name] = Place(name, offset_of(self.layouts.grid, part.grids))
            elif use.place == "vectors":
                first = part.gradient if use.access == "total" else part.grids.start or 0
                places[name] = Place(name, first * self.vectors)
            elif name in self.planes:
                layout, runs = items_of(self.planes[name], part.items), f"{name} in runs"
                places[name] = place = Place(name, offset_of(self.planes[name], part.items))
                if runs not in self.between:
                    continue
                places[name] = Place(runs)
                if use.access == "read" or (use.access == "store" and self.keeps):
                    before.append(interleaving(layout, place, Place(runs)))
                if use.access != "read":
                    after.append(separation(layout, Place(runs), place))
                if use.access == "add":
                    cleared[runs] = size_of(layout)
        for a in range(len(part.plan.spatial)):  # of footprints
            places[f"side{a}"] = Place(f"side{a}", (part.grids.start or 0) * self.vectors)
        means = self.layouts.means
        if means is not None and means.weights is not None:
            places["weights"] = Place("weights", offset_of(means.weights, part.items))
        yield from before
        for launch in launches:
            yield Step(launch, places, cleared)
            cleared = {}
        yield from after


def items_of(layout: Layout, items: slice) -> Layout:
    """Return the layout of some items of an array; those of a single item are itself."""
    (count, *shape), strides, dtype = layout
    return (len(range(*items.indices(count))) if count > 1 else 1, *shape), strides, dtype


def offset_of(layout: Layout, items: slice) -> int:
    """Return how many bytes after the beginning of an array some of its items begin."""
    shape, strides, _ = layout
    return (items.start or 0) * strides[0] if shape[0] > 1 else 0


def size_of(layout: Layout) -> int:
    """Return the bytes of the entries of an array."""
    shape, _, dtype = layout
    return math.prod(shape) * dtype.itemsize


def of_type(layout: Layout, dtype: np.dtype[Any]) -> Layout:
    """Return the layout of an array of another dtype, with the same strides in elements."""
    shape, strides, old = layout
    return shape, tuple([stride // old.itemsize * dtype.itemsize for stride in strides]), dtype


def in_runs(layout: Layout) -> Layout:
    """Return the layout of an array (N, C, ...), or of its copy, in runs of channels."""
    if are_runs(layout):
        return layout
    (_, channels, *rest), _, dtype = layout
    steps = [*itertools.accumulate([dtype.itemsize, channels, *reversed(rest)], operator.mul)]
    return layout[0], (steps[-1], dtype.itemsize, *steps[-2:0:-1]), dtype


def interleaving(planes: Layout, source: Place, target: Place) -> Step:
    """Copy planes (N, C, ...) to runs of channels."""
    (items, channels, *shape), _, dtype = planes
    launch = prepare_transposition(items, channels, math.prod(shape), dtype.itemsize)
    return Step(launch, {"source": source, "target": target})


def separation(planes: Layout, source: Place, target: Place) -> Step:
    """Copy runs of channels to planes (N, C, ...)."""
    (items, channels, *shape), _, dtype = planes
    launch = prepare_transposition(items, math.prod(shape), channels, dtype.itemsize)
    return Step(launch, {"source": source, "target": target})
