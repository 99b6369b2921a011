"""Prepared calls: which program an operation on arrays needs, and its settings.

What is computed here is cached by the layouts of arrays, so that a repeated call only passes
addresses.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_property
from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.plan import OutputBlock, Plan
from gridsample.kernels.memory import Layout, frozen, spacing
from gridsample.kernels.run import BATCH, Launch, entry
from gridsample.kernels.sampling.division import (
    DENSE,
    LINE_BYTES,
    Blocks,
    Sweep,
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
    Planes,
    block_of,
    channels_with_weights,
    element,
    gradient_layout,
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
from gridsample.kernels.sampling.programs.axes import rules_of
from gridsample.kernels.sampling.programs.bodies import RUNS, WORDS, body_of
from gridsample.kernels.sampling.programs.pairs import Pairs
from gridsample.kernels.sampling.programs.points import (
    AFFINE,
    INTERLEAVED,
    PLANAR,
    PROJECTIVE,
    STRIDED,
    PointSource,
)
from gridsample.kernels.sampling.programs.rows import Rows
from gridsample.kernels.sampling.programs.runs import list_bytes, run_for
from gridsample.kernels.sampling.programs.sampler import (
    Description,
    KnownStrides,
    Sampler,
    TapRule,
    holds_indices,
)
from gridsample.kernels.sampling.programs.ways import Copies, way_for
from gridsample.kernels.sampling.programs.words import last_word, reads_words
from gridsample.kernels.sampling.settings import settings_of
from gridsample.kernels.vector import Function, Program, compile, kind_of

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


# The arrays of pixels of those that may process some planes at all points before the others.
ARRAYS_OF_PIXELS = {
    **dict.fromkeys(("gather", "labels"), 1),
    **dict.fromkeys(("backward", "mean backward", "double backward"), 2),
}
# The most points of a group of several registers.
LARGE_GROUP = 32


# A program takes 50 to 150 kB.
@functools.lru_cache(maxsize=512)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    body, known = body_of(description), description.known
    name, real = description.operation.replace(" ", "_"), description.real
    function = Function(name, description.points.lanes, real)
    settings = settings_of(len(description.axes), body.footprints)
    with entry(function, body.arrays(description), settings) as (task, call):
        body(function, description, call).write(task)
    return compile(function, reduces_strength=known.channels > 1 and not known.words)


@functools.lru_cache(maxsize=256)
def prepare_gather(plan: Plan, order: Order, sweep: Sweep, level: int | None = None) -> Launch:
    """Prepare the sampling of an image; over footprints, of the points that belong to a level."""
    operation = "labels" if plan.votes else "means" if sweep.means else "gather"
    if level is not None:
        operation = "footprint labels" if plan.votes else "footprints"
    plan, grid = with_own_grids(plan, sweep.grid)
    return Preparation(operation, plan, order, sweep._replace(grid=grid), level).launch()


@functools.lru_cache(maxsize=256)
def prepare_derivatives(
    operation: str, plan: Plan, order: Order, sweep: Sweep, level: int | None = None
) -> tuple[Launch, ...]:
    """Prepare derivatives: one launch, or one for each of `passes`."""
    image_plan = plan if level is None else plan_at(plan, level)
    return tuple(
        Preparation(operation, plan, order, sweep._replace(needs=some), level).launch()
        for some in passes(image_plan, sweep)
    )


class Preparation:
    """Prepares one launch: its program, its settings and its tasks.

    Attributes:
        operation: what the program does: a key of `bodies.BODIES`.
        whole: the plan.
        plan: the same; over footprints, for the image of one level.
        level: the number of that level, or None without footprints.
        sweep: what is read and written.
        rules: what happens along each axis, x first.
        gradient: the layout of the image's gradient; None if the operation does not differentiate.
        image: the image, or what is read or added to in its place.
        values: the results, or the upstream values.
        outputs: how points are divided into rows.
        blocks: how many planes are processed together.
        points: where points come from.
        grid_distances: those of items, points and axes in the memory of a grid.
        channels: how many channels of a pixel are processed together.
        known: what the program knows of strides.
        way: how it reads pixels.
    """

    def __init__(
        self, operation: str, plan: Plan, order: Order, sweep: Sweep, level: int | None
    ) -> None:
        self.operation, self.sweep, self.level, self.whole = operation, sweep, level, plan
        self.plan = plan = plan if level is None else plan_at(plan, level)
        self.rules = rules_of(plan, order, sweep.filled)
        self.gradient = None
        if operation.endswith("backward"):
            self.gradient = gradient_layout(plan, sweep.image).layout
        self.image = self.planes(sweep.image if self.reads_image else self.gradient)
        self.values = self.planes(sweep.values)
        self.outputs = divide_points(plan, lanes_of(plan))
        self.channels, self.known, self.way = self.choose_reading()
        self.blocks = self.blocks_of_planes()
        self.points, self.grid_distances = self.describe_points()

    def planes(self, layout: Layout | None) -> Planes:
        """Describe an array of the call."""
        assert layout is not None
        return planes_of(layout, self.plan.items, self.plan.grid_items)

    @property
    def adds(self) -> bool:
        """Whether the operation adds to the gradient of the image."""
        return self.gradient is not None and self.sweep.needs[0]

    @property
    def reads_image(self) -> bool:
        """Whether the operation reads the image: to compute its gradient, it need not."""
        others = self.sweep.needs[1:3]
        return self.gradient is None or any(others) or self.sweep.means is not None

    @cached_property
    def pixel_weights(self) -> Planes | None:
        """The weights of pixels, if there are any."""
        means = self.sweep.means
        return self.planes(means.weights) if means and means.weights else None

    # What the program depends on ------------------------------------------------------------------

    def choose_reading(self) -> tuple[int, KnownStrides, type[Sampler]]:
        """Choose how many channels of a pixel are read together, and how pixels are read."""
        channels = 1
        if self.operation in RUNS or self.operation in WORDS:
            arrays = self.sweep.image, self.sweep.values, self.gradient
            weights = self.sweep.means.weights if self.sweep.means else None
            channels = channels_with_weights(weights, *filter(None, arrays))
        known = self.known_strides(block_of(channels, lanes_of(self.plan)))
        way = way_for(self.plan, self.rules, known, self.operation)
        fits = self.operation in WORDS and not self.outputs.listed
        if fits and reads_words(self.plan, self.image, known, way):
            return channels, known._replace(words=True), way
        if self.operation in RUNS or channels == 1:
            keeps = self.operation in ("gather", "means") and way is Rows
            keeps = keeps and Rows.pays_to_keep_weights(self.plan, len(self.image.starts))
            return channels, known._replace(keeps_weights=keeps), way
        known = self.known_strides(1)
        return 1, known, way_for(self.plan, self.rules, known, self.operation)

    def known_strides(self, channels: int) -> KnownStrides:
        """Describe the strides of arrays whose channels are read so many at a time."""
        image, weights = self.image, self.pixel_weights
        x_contiguous = image.strides[0] == channels and not kind_of(image.kind).packed
        # The longest axis may be broadcast.
        extent = max(self.extent_of(image), *self.plan.spatial)
        if weights is not None:
            extent = max(extent, self.extent_of(weights))
            if channels == 1 and (kind_of(weights.kind).packed or weights.strides[0] != 1):
                # Pixels and weights are read alike: one by one.
                x_contiguous = False
        return KnownStrides(
            x_contiguous,
            contiguous=spacing_of(self.sweep.values) == channels
            and self.items_follow(self.values.item, channels),
            wide=extent + channels >= (1 << 31) - 2 or not holds_indices(self.plan),
            channels=channels,
            parts=self.plan.dtype.kind == "c",
        )

    def items_follow(self, item: int, point: int) -> bool:
        """Whether points of two items are as far apart as those of one, if these form one list.

        Args:
            item: the distance of items in memory.
            point: that of points.
        """
        single = not self.outputs.listed or self.plan.grid_items == 1
        return single or item == self.plan.points * point

    def extent_of(self, array: Planes) -> int:
        """Return the greatest offset of a pixel."""
        extent = reach_of(self.plan.spatial[::-1], array.strides)
        if self.outputs.listed:
            extent += (self.plan.grid_items - 1) * abs(array.item)
        return extent

    def tap_rule(self) -> TapRule:
        """Say what taps count for."""
        means, weights = self.sweep.means, self.pixel_weights
        filled = self.sweep.filled and (self.gradient is None or self.plan.filled)
        if means is None:
            return TapRule(filled)
        averaging, shared = means.averaging, False
        if weights is not None and self.known.channels == 1:
            shared = len(weights.starts) > 1 and not np.ptp(weights.starts)
        return TapRule(
            filled or (self.gradient is None and averaging.ignores_dropped),
            averaging.ignores_dropped,
            averaging.ignores_nan,
            "" if weights is None else weights.kind,
            shared,
        )

    def describe(self) -> Description:
        """Describe the program."""
        image, values = storage_of(self.image.kind), self.values.kind
        if self.gradient is not None or self.plan.votes:
            values = storage_of(values)
        if self.way is Copies:
            # Pixels are copied as unsigned integers of their size.
            order, _, kind = self.image.kind.rpartition(" ")
            image = f"{order} uint{kind_of(kind).bits}".lstrip()
            values = kind_of(image).loaded.name
        needs, means = self.sweep.needs, self.sweep.means
        if means is not None:
            weights = means.need_weights and self.adds
            needs = (*needs, weights) if needs else (means.averaging.returns_weights,)
        return Description(
            operation=self.operation,
            axes=self.rules,
            points=self.points,
            image=image,
            values=values,
            real=element(self.plan.real),
            way=self.way,
            known=self.known,
            tap_rule=self.tap_rule(),
            needs=needs,
        )

    def group_size(self) -> int:
        """Return the number of points of a group.

        Where points take few instructions, groups of several registers spend less on loops and
        addresses.  But the last group of a row must not repeat many points of the one before.
        """
        lanes, columns = lanes_of(self.plan), self.outputs.columns
        light = self.operation == "gather" and self.way in (Copies, Pairs)
        if not light or self.outputs.listed or self.known.channels > 1:
            return lanes
        size = kind_of(self.image.kind if self.way is Copies else element(self.plan.real)).size
        group = max(lanes, min(LARGE_GROUP, LINE_BYTES // size))
        fits = group <= columns and -columns % group <= columns // 16
        return group if fits else lanes

    def describe_points(self) -> tuple[PointSource, tuple[int, int, int]]:
        """Describe where points come from, and the distances in a grid's memory."""
        plan, grid, listed = self.plan, self.sweep.grid, self.outputs.listed
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
                # In a halved image, positions count its pixels, but maps have the whole's units.
                pixels=plan.coords == "pixel" and plan.footprint is None,
            )
            return source, (rows * (rank + 1), 0, 0)
        spaces = spacing(grid)
        assert spaces is not None
        item, point, axis = spaces
        if point == rank and (axis == 1 or rank == 1) and self.items_follow(item, rank):
            source = source._replace(grid_layout=INTERLEAVED)
        elif not listed and point == 1:
            source = source._replace(grid_layout=PLANAR)
        return source, (item if plan.grid_items > 1 else 0, point, axis)

    def reach_of_points(self) -> int:
        """Return a bound of the distances in the memory of a list of points and their values."""
        plan, (_, strides, dtype) = self.plan, self.sweep.grid
        rank, steps = len(plan.spatial), [abs(stride) // dtype.itemsize for stride in strides]
        results = plan.points * max(len(self.values.starts), rank * (rank + 1))
        item = max(steps[0], abs(self.values.item), results)
        point = max(1, spacing_of(self.sweep.values), *steps[1:])
        return plan.grid_items * item + plan.points * point

    # What it is told when it runs -----------------------------------------------------------------

    def launch(self) -> Launch:
        """Prepare the launch."""
        description, ranges = self.describe(), self.ranges()
        record = settings_of(len(self.rules), body_of(description).footprints)
        row = record.pack(**self.settings(description), ranges=ranges)
        program, scratch = program_for(description), self.scratch(description)
        # Of the tasks of a block, all but one may have nothing to do.
        batch = BATCH * -(-self.blocks.near // max(1, self.blocks.far))
        return Launch(program, row, len(ranges), scratch, batch=batch)

    def ranges(self) -> Array:
        """Divide the call into tasks."""
        plan, outputs, planes = self.plan, self.outputs, len(self.values.starts)
        if not self.adds and self.operation in ("gather", "labels"):
            return divide(plan, outputs, planes, self.blocks)
        if not self.adds:
            # Each task goes through the blocks.
            points = 0 if self.blocks.far == planes else math.prod(plan.spatial) // DENSE
            return divide(plan, outputs, planes, Blocks(planes, planes), points)
        unit = self.channels if planes > self.channels else self.known.channels
        apart = self.planes(self.gradient).item != 0
        return divide_sums(plan, outputs, planes, unit, self.sweep, apart)

    def blocks_of_planes(self) -> Blocks:
        """Divide the planes into blocks, if the operation can process them in blocks."""
        planes, arrays = len(self.values.starts), ARRAYS_OF_PIXELS.get(self.operation)
        if arrays is None or self.known.channels > 1 or self.outputs.listed:
            return Blocks(planes, planes)
        return blocks_of(self.plan, self.image.kind, planes, arrays)

    def scratch(self, description: Description) -> int:
        """Return the bytes of scratch memory that a thread needs."""
        if self.operation == "footprint labels":
            return scratch_of(self.whole)
        lanes, means = lanes_of(self.plan), self.sweep.means is not None
        if self.gradient is None:
            return list_bytes(description, lanes, 1)
        scratch = list_bytes(description, lanes, len(self.rules) + means)
        if means and self.known.channels > 1:
            scratch += 2 * self.channels * lanes * self.plan.real.itemsize
        return scratch

    def settings(self, description: Description) -> dict[str, Any]:
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
            "last_load": self.last_load(description),
            "image_item": image.item,
            "image_planes": image.starts,
            "weights_strides": weights.strides if weights else [0] * len(plan.spatial),
            "weights_item": weights.item if weights else 0,
            "weights_planes": self.starts_of_weights(),
            "grid_item": grid_item,
            "grid_point": grid_point,
            "grid_axis": grid_axis,
            "out_item": values.item,
            "out_point": spacing_of(self.sweep.values),
            "out_planes": values.starts,
            "sums_item": sums.item if sums else 0,
            "sums_planes": sums.starts if sums else 0,
            **output_axes(self.whole),
            **({} if self.level is None else footprint_settings(self.whole, self.level)),
        }

    def starts_of_weights(self) -> Array | int:
        """Return where the weights of each plane of an item begin."""
        if self.pixel_weights is None:
            return 0
        return frozen(self.pixel_weights.starts.repeat(2 if self.plan.dtype.kind == "c" else 1))

    def last_load(self, description: Description) -> int:
        """Return the last place in an item at which loads of words, or of runs, may begin."""
        if self.known.words:
            return last_word(self.plan, self.image, self.channels, self.way)
        image = self.image
        upward = image._replace(
            item=max(0, image.item), strides=tuple([max(0, stride) for stride in image.strides])
        )
        end = self.extent_of(upward) + self.channels  # of an item's memory
        return end - run_for(description, lanes_of(self.plan)).length


def output_axes(plan: Plan) -> dict[str, list[int]]:
    """Return the settings of the output's last axes, for displacements and affine maps."""
    rank, normalized = len(plan.spatial), plan.coords == "normalized"
    sizes, full_sizes, firsts = [1] * rank, [1] * rank, [0] * rank
    if len(plan.out) >= rank:
        block = plan.block or OutputBlock((0,) * len(plan.out), plan.out)
        sizes, full_sizes, firsts = (
            [*numbers[: -rank - 1 : -1]] for numbers in (plan.out, block.whole, block.first)
        )
    gaps = [max(n - plan.align_corners, 1) for n in full_sizes]
    return {
        "out_sizes": sizes,
        "out_step": [2 if normalized else 1] * rank,
        "out_start": [
            2 * first + 1 - n if normalized else first
            for first, n in zip(firsts, full_sizes, strict=True)
        ],
        "out_gap": gaps if normalized else [1] * rank,
    }
