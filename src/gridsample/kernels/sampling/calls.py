"""Prepared calls: which program an operation on arrays needs, and its settings.

What is computed here is cached by the layouts of arrays, so that a repeated call only passes
addresses.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_call, cached_property
from gridsample.definitions.coords import map_factors
from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.knots import Axes
from gridsample.definitions.plan import OutputBlock, Plan
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout, frozen, spacing
from gridsample.kernels.run import BATCH, Launch, entry
from gridsample.kernels.sampling.control_points import lattice_settings
from gridsample.kernels.sampling.division import (
    DENSE,
    Blocks,
    Layouts,
    blocks_of,
    cached_share,
    divide,
    divide_points,
    divide_sums,
    lanes_of,
    passes,
    pays_asking_at_once,
    pays_prefetching,
    with_own_grids,
)
from gridsample.kernels.sampling.layouts import (
    ArrayPlanes,
    channels_with_weights,
    element,
    planes_of,
    reach_of,
    spacing_of,
    storage_of,
)
from gridsample.kernels.sampling.levels import (
    footprint_settings,
    plan_at,
    scratch_of,
)
from gridsample.kernels.sampling.paying import max_short
from gridsample.kernels.sampling.programs.axes import have_knots, rules_of
from gridsample.kernels.sampling.programs.counting import TapRule
from gridsample.kernels.sampling.programs.loads import MAX_WORD
from gridsample.kernels.sampling.programs.operation import Needs, Operation, Orders
from gridsample.kernels.sampling.programs.operations import GATHER, LABELS, MEANS
from gridsample.kernels.sampling.programs.pairs import Pairs
from gridsample.kernels.sampling.programs.points import (
    AFFINE,
    INTERLEAVED,
    LATTICE,
    PLANAR,
    PROJECTIVE,
    REVERSED,
    STRIDED,
    PointSource,
)
from gridsample.kernels.sampling.programs.rows import Rows
from gridsample.kernels.sampling.programs.sampler import (
    Description,
    KnownPixels,
    Sampler,
    holds_indices,
)
from gridsample.kernels.sampling.programs.sweep import arrays_of, body_of
from gridsample.kernels.sampling.programs.tap_lists import block_of, list_bytes
from gridsample.kernels.sampling.programs.ways import Copies, way_for
from gridsample.kernels.sampling.searching import knot_settings
from gridsample.kernels.sampling.settings import settings_of
from gridsample.kernels.vector import Function, Program, Record, compile, kind_of

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


# The most points of a group of several registers.
LARGE_GROUP = 32


# A program takes 50 to 150 kB.
@functools.lru_cache(maxsize=512)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    name, real = description.operation.name.replace(" ", "_"), description.real
    function = Function(name, description.points.lanes, real)
    with entry(function, arrays_of(description), settings_for(description)) as (task, call):
        body_of(description)(function, description, call).write(task)
    return compile(function, reduces_strength=description.pixels.in_lanes)


def settings_for(description: Description) -> Record:
    """Return the layout of the settings of a program."""
    rules, taps = description.axes, description.points.taps
    kind = description.real if taps else ""
    return settings_of(len(rules), description.footprints, have_knots(rules), kind, taps)


def gathered(plan: Plan, layouts: Layouts) -> tuple[Operation, Layouts]:
    """Return the operation that samples an image, and the layouts with its needs."""
    operation = LABELS if plan.votes else MEANS if layouts.means else GATHER
    if layouts.means is not None and layouts.means.averaging.returns_weights:
        layouts = layouts._replace(needs=layouts.needs | {"shares"})
    return operation, layouts


@cached_call(256)
def prepare_gather(plan: Plan, order: Order, layouts: Layouts, level: int | None = None) -> Launch:
    """Prepare the sampling of an image; over footprints, of the points that belong to a level."""
    operation, layouts = gathered(plan, layouts)
    plan, grid = with_own_grids(plan, layouts.grid)
    return Preparation(operation, plan, order, layouts._replace(grid=grid), level).launch()


@cached_call(256)
def prepare_derivatives(
    operation: Operation, plan: Plan, order: Order, layouts: Layouts, level: int | None = None
) -> tuple[Launch, ...]:
    """Prepare derivatives: one launch, or one for each of `passes`."""
    image_plan = plan if level is None else plan_at(plan, level)
    return tuple(
        Preparation(operation, plan, order, layouts._replace(needs=needs), level).launch()
        for needs in passes(image_plan, layouts)
    )


class Preparation:
    """Prepares one launch: its program, its settings and its tasks.

    Attributes:
        operation: what the program does.
        whole: the plan; positions of maps are in pixels.
        output_axes: the settings of the output's axes.
        plan: the same; over footprints, for the image of one level.
        level: the number of that level, or None without footprints.
        layouts: what is read and written.
        rules: what happens along each axis, x first.
        reads, adds: whether the operation reads the image, and adds to its gradient.
        gradient: the layout of the image's gradient; None if the operation does not differentiate.
        image: the image, or what is added to in its place.
        values: the results, or the upstream values.
        outputs: how points are divided into rows.
        blocks: how many planes are processed together.
        points: where points come from.
        grid_distances: those of items, points and axes in the memory of a grid.
        channels: how many channels of a pixel are neighbours in memory, and processed together.
        pixels: what the program knows of pixels.
        way: how it reads them.
    """

    def __init__(
        self, operation: Operation, plan: Plan, order: Order, layouts: Layouts, level: int | None
    ) -> None:
        self.operation, self.layouts, self.level = operation, layouts, level
        self.output_axes = output_axes(plan)
        if plan.are_maps(layouts.grid[0]):
            plan = replace(plan, coords="pixel")  # see `map_factors`
        self.whole = plan
        self.plan = plan = plan if level is None else plan_at(plan, level)
        self.rules = rules_of(plan, order, layouts.filled)
        orders = Orders.of(len(plan.spatial))
        self.reads = "image" in operation.reads(orders, layouts.needs)
        self.adds = bool(operation.adds(orders, layouts.needs))
        self.gradient = layouts.gradient(plan) if operation.differentiates else None
        self.image = self.planes(layouts.image if self.reads else self.gradient)
        self.values = self.planes(layouts.values)
        self.outputs = divide_points(plan, lanes_of(plan))
        self.channels, self.pixels, self.way = self.choose_reading()
        self.blocks = self.blocks_of_planes()
        self.points, self.grid_distances = self.describe_points()

    def planes(self, layout: Layout | None) -> ArrayPlanes:
        """Describe an array of the call."""
        assert layout is not None
        return planes_of(layout, self.plan.items, self.plan.grid_items)

    @cached_property
    def pixel_weights(self) -> ArrayPlanes | None:
        """The weights of pixels, if there are any."""
        means = self.layouts.means
        return self.planes(means.weights) if means and means.weights else None

    # What the program depends on ------------------------------------------------------------------

    def choose_reading(self) -> tuple[int, KnownPixels, type[Sampler]]:
        """Choose how many channels of a pixel are read together, and how pixels are read.

        Lanes are points, or the channels themselves where pixels are long, or copied.
        """
        weights = self.layouts.means.weights if self.layouts.means else None
        arrays, values = [*filter(None, (self.layouts.image, self.gradient))], self.layouts.values
        votes = self.operation.votes
        channels = 1 if votes else channels_with_weights(weights, *arrays, values)
        alone = 1 if votes else channels_with_weights(weights, *arrays)
        if channels == 1 < alone:
            apart = self.describe_pixels(alone, apart=True)
            way = way_for(self.plan, self.rules, apart, self.operation)
            if way is not Copies and self.are_short(alone, way):
                return alone, apart, way
        short = self.describe_pixels(channels)
        way = way_for(self.plan, self.rules, short, self.operation)
        if channels == 1 or self.are_short(channels, way):
            keeps = channels == 1 and self.operation.fills and way is Rows and self.level is None
            keeps = keeps and Rows.pays_to_keep_weights(self.plan, len(self.image.starts))
            return channels, short._replace(keeps_weights=keeps), way
        pixels = self.describe_pixels(block_of(channels, lanes_of(self.plan)), in_lanes=True)
        return channels, pixels, way_for(self.plan, self.rules, pixels, self.operation)

    def are_short(self, channels: int, way: type[Sampler]) -> bool:
        """Whether it pays to read the channels of pixels into registers whose lanes are points."""
        if way is Copies:
            return channels * kind_of(self.image.kind).bits <= MAX_WORD
        return channels <= max_short(self.adds)

    def describe_pixels(
        self, channels: int, in_lanes: bool = False, apart: bool = False
    ) -> KnownPixels:
        """Describe the strides of arrays whose channels are read so many at a time."""
        image, weights, kind = self.image, self.pixel_weights, kind_of(self.image.kind)
        x_contiguous = image.strides[0] == channels and not kind.packed
        # The longest axis may be broadcast.
        extent = max(self.extent_of(image), *self.plan.spatial)
        if weights is not None:
            extent = max(extent, self.extent_of(weights))
            if not in_lanes and (kind_of(weights.kind).packed or weights.strides[0] != 1):
                # Pixels and weights are read alike: one by one.
                x_contiguous = False
        upwards, point = min(*image.strides, image.item) >= 0, 1 if apart else channels
        return KnownPixels(
            x_contiguous,
            contiguous=spacing_of(self.layouts.values) == point
            and self.items_follow(self.values.item, point),
            wide=extent + channels >= (1 << 31) - 2 or not holds_indices(self.plan),
            channels=channels,
            in_lanes=in_lanes,
            apart=apart,
            parts=self.plan.dtype.kind == "c",
            fills_words=upwards and self.plan.spatial[-1] * channels * kind.bits >= MAX_WORD,
        )

    def items_follow(self, item: int, point: int) -> bool:
        """Whether points of two items are as far apart as those of one, if these form one list.

        Args:
            item: the distance of items in memory.
            point: that of points.
        """
        single = not self.outputs.listed or self.plan.grid_items == 1
        return single or item == self.plan.points * point

    def extent_of(self, array: ArrayPlanes) -> int:
        """Return the greatest offset of a pixel."""
        extent = reach_of(self.plan.spatial[::-1], array.strides)
        if self.outputs.listed:
            extent += (self.plan.grid_items - 1) * abs(array.item)
        return extent

    def tap_rule(self) -> TapRule:
        """Say what taps count for."""
        means, weights = self.layouts.means, self.pixel_weights
        filled = self.layouts.filled and (self.gradient is None or self.plan.filled)
        if means is None:
            return TapRule(filled)
        averaging = means.averaging
        return TapRule(
            filled or (self.gradient is None and averaging.ignores_dropped),
            averaging.ignores_dropped,
            averaging.ignores_nan,
            "" if weights is None else weights.kind,
            means.multiplied,
        )

    def needs(self, rule: TapRule) -> Needs:
        """Say what is needed; where pixels count, also what tells which of them are missing."""
        needs = self.layouts.needs
        if not self.operation.counts:
            return needs
        if rule.weight_kind:
            needs |= {"weighed"}
        # Only if nothing but NaN is missing does a plain sum tell whether anything is.
        differ = bool(rule.weight_kind) if self.operation.fills else rule.differ
        plain = rule.ignores_nan and not differ and not self.pixels.in_lanes
        return needs | {"plain"} if plain else needs

    def describe(self) -> Description:
        """Describe the program."""
        image, values, rule = storage_of(self.image.kind), self.values.kind, self.tap_rule()
        if self.gradient is not None or self.plan.votes:
            values = storage_of(values)
        if self.way is Copies:
            # Pixels are copied as unsigned integers of their size.
            order, _, kind = self.image.kind.rpartition(" ")
            image = f"{order} uint{kind_of(kind).bits}".lstrip()
            values = kind_of(image).loaded.name
        return Description(
            operation=self.operation,
            needs=self.needs(rule),
            footprints=self.level is not None,
            axes=self.rules,
            points=self.points,
            image=image,
            values=values,
            real=element(self.plan.real),
            way=self.way,
            pixels=self.pixels,
            tap_rule=rule,
        )

    def group_size(self) -> int:
        """Return the number of points of a group.

        Where points take few instructions, groups of several registers spend less on loops and
        addresses.  But the last group of a row must not repeat many points of the one before.
        """
        lanes, columns = lanes_of(self.plan), self.outputs.columns
        light = self.operation.copies and self.way in (Copies, Pairs) and self.level is None
        if not light or self.outputs.listed or self.channels > 1:
            return lanes
        size = kind_of(self.image.kind if self.way is Copies else element(self.plan.real)).size
        group = max(lanes, min(LARGE_GROUP, CACHES.line // size))
        fits = group <= columns and -columns % group <= columns // 16
        return group if fits else lanes

    def describe_points(self) -> tuple[PointSource, tuple[int, int, int]]:
        """Describe where points come from, and the distances in a grid's memory."""
        plan, grid, listed = self.plan, self.layouts.grid, self.outputs.listed
        rank = len(plan.spatial)
        source = PointSource(
            grid_layout=STRIDED,
            kind=element(grid[2]),
            listed=listed,
            wide=listed and self.reach_of_points() >= 1 << 31,
            lanes=self.group_size(),
            prefetches=pays_prefetching(plan, self.image),
            asks_at_once=not listed
            and self.gradient is None
            and pays_asking_at_once(plan, self.image),
            in_blocks=self.blocks.far < len(self.values.starts),
        )
        if plan.are_maps(grid[0]):
            rows = grid[0][1]
            source = source._replace(
                grid_layout=AFFINE if rows == rank else PROJECTIVE,
                kind=element(plan.real),
            )
            return source, (rows * (rank + 1), 0, 0)
        spaces = spacing(grid)
        assert spaces is not None
        if plan.lattice is not None:
            row = grid[0][-2] * rank
            taps = plan.lattice.axes[0].method.taps
            source = source._replace(grid_layout=LATTICE, taps=taps)
            return source, (spaces[0] if plan.grid_items > 1 else 0, row, 0)
        item, point, axis = spaces
        if point == rank and (abs(axis) == 1 or rank == 1) and self.items_follow(item, rank):
            order = REVERSED if axis == -1 and rank > 1 else INTERLEAVED
            source = source._replace(grid_layout=order)
        elif not listed and point == 1:
            source = source._replace(grid_layout=PLANAR)
        return source, (item if plan.grid_items > 1 else 0, point, axis)

    def reach_of_points(self) -> int:
        """Return a bound of the distances in the memory of a list of points and their values."""
        plan, (_, strides, dtype) = self.plan, self.layouts.grid
        rank, steps = len(plan.spatial), [abs(stride) // dtype.itemsize for stride in strides]
        results = plan.points * max(len(self.values.starts), rank * (rank + 1))
        item = max(steps[0], abs(self.values.item), results)
        point = max(1, spacing_of(self.layouts.values), *steps[1:])
        return plan.grid_items * item + plan.points * point

    # What it is told when it runs -----------------------------------------------------------------

    def launch(self) -> Launch:
        """Prepare the launch."""
        description, ranges = self.describe(), self.ranges()
        row = settings_for(description).pack(**self.settings(), ranges=ranges)
        program, scratch = program_for(description), self.scratch(description)
        # Of the tasks of a block, all but one may have nothing to do.
        batch = BATCH * -(-self.blocks.near // max(1, self.blocks.far))
        return Launch(program, row, len(ranges), scratch, batch=batch)

    def ranges(self) -> Array:
        """Divide the call into tasks."""
        plan, outputs, planes = self.plan, self.outputs, len(self.values.starts)
        if not self.adds and self.operation.fills:
            return divide(plan, outputs, planes, self.blocks)
        if not self.adds:
            # Each task goes through the blocks.
            points = 0 if self.blocks.far == planes else math.prod(plan.spatial) // DENSE
            return divide(plan, outputs, planes, Blocks(planes, planes), points)
        unit = self.channels if planes > self.channels else self.pixels.channels
        apart = self.planes(self.gradient).item != 0
        return divide_sums(plan, outputs, planes, unit, self.layouts, apart)

    def blocks_of_planes(self) -> Blocks:
        """Divide the planes into blocks, if the operation can process them in blocks."""
        planes = len(self.values.starts)
        if self.level is not None or self.channels > 1 or self.outputs.listed:
            return Blocks(planes, planes)
        return blocks_of(self.plan, self.image.kind, planes, self.operation.arrays_of_pixels)

    def scratch(self, description: Description) -> int:
        """Return the bytes of scratch memory that a thread needs."""
        if self.operation.votes and self.level is not None:
            return scratch_of(self.whole)
        if not self.pixels.in_lanes:
            return 0
        rank, lanes = len(self.rules), lanes_of(self.plan)
        orders = Orders.of(rank)
        reads = self.operation.reads(orders, description.needs)
        adds = self.operation.adds(orders, description.needs)
        counts = [
            len({order[-rank:] for some in each.values() for order in some})
            for each in (reads, adds)
        ]
        known = description.axes, lanes, description.real, description.pixels.wide
        lists = sum(list_bytes(*known, count) for count in counts if count)
        if self.level is None:
            return lists
        sums = len(self.operation.summed(orders, description.needs)) * self.channels * lanes
        return lists + sums * kind_of(description.real).size

    def settings(self) -> dict[str, Any]:
        """Return the settings, the ranges of tasks excepted."""
        plan, image, values, weights = self.plan, self.image, self.values, self.pixel_weights
        grid_item, grid_point, grid_axis = self.grid_distances
        sums = None if self.gradient is None else self.planes(self.gradient)
        return {
            "columns": self.outputs.columns,
            "points": plan.points,
            "cached_share": cached_share(plan, image, self.channels),
            "unit": pixels_per_unit(plan.spatial, plan.coords, plan.align_corners),
            "sizes": plan.spatial[::-1],
            "strides": image.strides,
            "channels": self.channels,
            "planes": len(values.starts),
            "planes_near": self.blocks.near,
            "planes_far": self.blocks.far,
            "image_item": image.item,
            "image_planes": image.starts,
            "weights_strides": weights.strides if weights else [0] * len(plan.spatial),
            "weights_item": weights.item if weights else 0,
            "weights_planes": self.starts_of_weights(),
            "grid_item": grid_item,
            "grid_point": grid_point,
            "grid_axis": grid_axis,
            "out_item": values.item,
            "out_point": spacing_of(self.layouts.values),
            "out_planes": values.starts,
            "sums_item": sums.item if sums else 0,
            "sums_planes": sums.starts if sums else 0,
            **self.output_axes,
            **({} if self.level is None else footprint_settings(self.whole, self.level)),
            **(knot_settings(plan.coords.entries) if isinstance(plan.coords, Axes) else {}),
            **({} if plan.lattice is None else lattice_settings(plan)),
        }

    def starts_of_weights(self) -> Array | int:
        """Return where the weights of each plane of an item begin."""
        if self.pixel_weights is None:
            return 0
        return frozen(self.pixel_weights.starts.repeat(2 if self.plan.dtype.kind == "c" else 1))


def output_axes(plan: Plan) -> dict[str, Any]:
    """Return the settings of the output's last axes, for displacements and affine maps.

    A displacement is added to the index of its point.  The own coordinates that maps of normalized
    coordinates take are integers: 2 i + 1 - n, twice the distance from the centre in pixels.
    """
    rank, normalized = len(plan.spatial), plan.coords == "normalized"
    sizes, full_sizes, firsts = [1] * rank, [1] * rank, [0] * rank
    if len(plan.out) >= rank:
        block = plan.block or OutputBlock((0,) * len(plan.out), plan.out)
        sizes, full_sizes, firsts = (
            [*numbers[: -rank - 1 : -1]] for numbers in (plan.out, block.whole, block.first)
        )
    # The coordinates -1 and 1 of a single corner pixel are the same place.
    steps = [0 if n == 1 and plan.align_corners else 2 for n in full_sizes]
    scale, centre = map_factors(plan.spatial, full_sizes[::-1], plan.coords, plan.align_corners)
    return {
        "out_sizes": sizes,
        "out_step": steps if normalized else [1] * rank,
        "out_start": [
            2 * first + 1 - n if normalized else first
            for first, n in zip(firsts, full_sizes, strict=True)
        ],
        "map_scale": [number for row in scale for number in row],
        "map_centre": centre,
    }
