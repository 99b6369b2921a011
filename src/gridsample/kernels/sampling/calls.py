"""Prepared calls: which program a plan and the layouts of arrays need, and its settings.

What is computed here is cached by layouts, so that a repeated call only passes addresses.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.plan import OutputBlock, Plan
from gridsample.kernels.memory import Layout, frozen, spacing
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.division import (
    Averages,
    Outputs,
    Sweep,
    cached_share,
    divide,
    divide_points,
    divide_sums,
    lanes_of,
    passes,
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
from gridsample.kernels.sampling.programs.axes import AxisRule, rules_of
from gridsample.kernels.sampling.programs.body import Body
from gridsample.kernels.sampling.programs.footprint_gradients import (
    FootprintBackward,
    FootprintDoubleBackward,
)
from gridsample.kernels.sampling.programs.footprint_labels import FootprintLabels
from gridsample.kernels.sampling.programs.footprint_words import FootprintWords
from gridsample.kernels.sampling.programs.footprints import FootprintMeans
from gridsample.kernels.sampling.programs.gather import Gather
from gridsample.kernels.sampling.programs.gradients import Backward, DoubleBackward
from gridsample.kernels.sampling.programs.labels import Labels
from gridsample.kernels.sampling.programs.mean_gradients import MeanBackward
from gridsample.kernels.sampling.programs.mean_runs import MeanBackwardRuns, MeanRuns
from gridsample.kernels.sampling.programs.missing import Means
from gridsample.kernels.sampling.programs.points import (
    AFFINE,
    INTERLEAVED,
    PLANAR,
    PROJECTIVE,
    STRIDED,
    PointSource,
)
from gridsample.kernels.sampling.programs.rows import Rows
from gridsample.kernels.sampling.programs.run_gradients import BackwardRuns
from gridsample.kernels.sampling.programs.runs import GatherRuns, list_bytes, run_for
from gridsample.kernels.sampling.programs.sampler import (
    Description,
    KnownStrides,
    TapRule,
)
from gridsample.kernels.sampling.programs.ways import Copies, way_for
from gridsample.kernels.sampling.programs.words import GatherWords, last_word, reads_words
from gridsample.kernels.sampling.settings import settings_of
from gridsample.kernels.vector import Function, Program, compile, host, kind_of

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


# What is done with the pixels of a group of points.
BODIES: dict[str, type[Body]] = {
    "gather": Gather,
    "labels": Labels,
    "means": Means,
    "footprints": FootprintMeans,
    "footprint labels": FootprintLabels,
    "backward": Backward,
    "mean backward": MeanBackward,
    "double backward": DoubleBackward,
    "footprint backward": FootprintBackward,
    "footprint double backward": FootprintDoubleBackward,
}
# The same for runs of channels.
RUNS: dict[str, type[Body]] = {
    "gather": GatherRuns,
    "means": MeanRuns,
    "backward": BackwardRuns,
    "mean backward": MeanBackwardRuns,
}
# The same for words.
WORDS: dict[str, type[Body]] = {"gather": GatherWords, "footprints": FootprintWords}


# A program takes 50 to 150 kB.
@functools.lru_cache(maxsize=512)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    known = description.known
    bodies = WORDS if known.words else RUNS if known.channels > 1 else BODIES
    body = bodies[description.sweep]
    name, real = description.sweep.replace(" ", "_"), description.real
    function = Function(name, host().lanes(real), real)
    settings = settings_of(len(description.axes), body.footprints)
    with entry(function, body.arrays(description), settings) as (task, call):
        body(function, description, call).write(task)
    return compile(function, reduces_strength=known.channels > 1 and not known.words)


def describe_source(
    plan: Plan, grid: Layout, outputs: Outputs, extent: int
) -> tuple[PointSource, tuple[int, int, int]]:
    """Describe where points come from, and the distances in a grid's memory."""
    rank = len(plan.spatial)
    wide = outputs.listed and (extent >= 1 << 31)
    if plan.are_maps(grid[0]):
        rows = grid[0][1]
        kind_of_maps = AFFINE if rows == rank else PROJECTIVE
        # In a halved image, positions count its pixels, but maps have the units of the whole.
        pixels = plan.coords == "pixel" and plan.footprint is None
        source = PointSource(kind_of_maps, element(plan.real), outputs.listed, wide, pixels)
        return source, (rows * (rank + 1), 0, 0)
    spaces = spacing(grid)
    assert spaces is not None
    item, point, axis = spaces
    item = item if plan.grid_items > 1 else 0
    grid_layout = STRIDED
    if outputs.listed:
        pass
    elif point == rank and (axis == 1 or rank == 1):
        grid_layout = INTERLEAVED
    elif point == 1:
        grid_layout = PLANAR
    return PointSource(grid_layout, element(grid[2]), outputs.listed, wide), (item, point, axis)


class Frame(NamedTuple):
    """How the points of a call are divided, where they come from, and the settings for both.

    Attributes:
        outputs: how points are divided into rows.
        points: where they come from.
        settings: the settings that do not depend on ranges.
    """

    outputs: Outputs
    points: PointSource
    settings: dict[str, Any]


def frame_of(plan: Plan, source: Planes, target: Planes, grid: Layout, out: Layout) -> Frame:
    """Describe the points of a call, the image they are sampled from, and their values."""
    outputs = divide_points(plan, lanes_of(plan))
    out_point = spacing_of(out)
    reach = plan.points
    if outputs.listed:
        rank, size = len(plan.spatial), grid[2].itemsize
        results = plan.points * max(len(target.starts), rank * (rank + 1))
        item = max(abs(grid[1][0]) // size, abs(target.item), results)
        point = max(1, out_point, *(abs(stride) // size for stride in grid[1][1:]))
        reach = plan.grid_items * item + plan.points * point
    points, distances = describe_source(plan, grid, outputs, reach)
    settings = {
        "columns": outputs.columns,
        "points": plan.points,
        "cached_share": cached_share(plan, source, 1),
        "unit": pixels_per_unit(plan.spatial, plan.coords, plan.align_corners),
        "prefetches": pays_prefetching(plan, source),
        "sizes": plan.spatial[::-1],
        "strides": source.strides,
        "channels": 1,
        "last_load": 0,
        "image_item": source.item,
        "image_planes": source.starts,
        "weights_strides": [0] * len(plan.spatial),
        "weights_item": 0,
        "weights_planes": 0,
        "grid_item": distances[0],
        "grid_point": distances[1],
        "grid_axis": distances[2],
        "out_item": target.item,
        "out_point": out_point,
        "out_planes": target.starts,
        "sums_item": 0,
        "sums_planes": 0,
        **output_axes(plan),
    }
    return Frame(outputs, points, settings)


def with_pixel_weights(
    rule: TapRule,
    known: KnownStrides,
    frame: Frame,
    plan: Plan,
    layout: Layout | None,
    channels: int,
) -> tuple[TapRule, KnownStrides, Frame]:
    """Add weights of pixels to the tap rule, the strides and the settings, unless they are None.

    ``channels`` are those of a run.
    """
    if layout is None:
        return rule, known, frame
    weights = planes_of(layout, plan.items, plan.grid_items)
    starts = frozen(weights.starts.repeat(2 if plan.dtype.kind == "c" else 1))
    settings = {
        "weights_strides": weights.strides,
        "weights_item": weights.item,
        "weights_planes": starts,
    }
    wide = extent_of(plan, weights, frame.outputs) >= (1 << 31) - 2
    alike = starts.reshape(-1, len(starts) if known.channels == 1 else channels)
    shared = alike.shape[1] > 1 and not np.ptp(alike, 1).any()
    rule = rule._replace(weight_kind=weights.kind, shared=shared)
    known = known._replace(wide=known.wide or wide)
    if known.channels == 1 and (kind_of(weights.kind).packed or weights.strides[0] != 1):
        # Pixels and weights are read alike: one by one.
        known = known._replace(x_contiguous=False)
    return rule, known, frame._replace(settings={**frame.settings, **settings})


def bits_of(kind: str) -> str:
    """Return the unsigned integer of the size of a kind, which holds pixels that are copied."""
    order, _, _ = kind.rpartition(" ")
    return f"{order} uint{kind_of(kind).bits}".lstrip()


def known_strides(
    plan: Plan, source: Planes, outputs: Outputs, out: Layout, channels: int = 1
) -> KnownStrides:
    """Describe the strides of a call to its program.

    ``channels`` are processed together, or read at a time if they are many.
    """
    x_contiguous = source.strides[0] == channels and not kind_of(source.kind).packed
    # The longest axis may be broadcast.
    extent = max(extent_of(plan, source, outputs), *plan.spatial)
    wide = extent + channels >= (1 << 31) - 2
    parts = plan.dtype.kind == "c"
    return KnownStrides(x_contiguous, spacing_of(out) == channels, wide, channels, parts)


def extent_of(plan: Plan, source: Planes, outputs: Outputs) -> int:
    """Return the greatest offset of a pixel."""
    extent = reach_of(plan.spatial[::-1], source.strides)
    if outputs.listed:
        extent += (plan.grid_items - 1) * abs(source.item)
    return extent


def run_settings(
    plan: Plan, source: Planes, outputs: Outputs, description: Description, channels: int
) -> dict[str, Any]:
    """Return the settings of programs for runs of so many channels."""
    upward = source._replace(
        item=max(0, source.item), strides=tuple([max(0, stride) for stride in source.strides])
    )
    end = extent_of(plan, upward, outputs) + channels  # of an item's memory
    length = run_for(description, lanes_of(plan)).length
    share = cached_share(plan, source, channels)
    return {"channels": channels, "last_load": end - length, "cached_share": share}


def launch_for(
    description: Description,
    plan: Plan,
    frame: Frame,
    ranges: Array,
    scratch: int = 0,
    **settings: Any,
) -> Launch:
    """Prepare a launch of the program of a description."""
    footprints = BODIES[description.sweep].footprints
    row = settings_of(len(plan.spatial), footprints).pack(
        **{**frame.settings, **settings, "ranges": ranges}
    )
    return Launch(program_for(description), row, len(ranges), scratch)


@functools.lru_cache(maxsize=256)
def prepare_gather(
    plan: Plan,
    order: Order,
    image: Layout,
    grid: Layout,
    out: Layout,
    filled: bool,
    means: Averages | None = None,
) -> Launch:
    """Prepare a gather for arrays of these layouts."""
    plan, grid = with_own_grids(plan, grid)
    rules = rules_of(plan, order, filled)
    source = planes_of(image, plan.items, plan.grid_items)
    target = planes_of(out, plan.items, plan.grid_items)
    frame = frame_of(plan, source, target, grid, out)
    channels = 1
    if not plan.votes:
        channels = channels_with_weights(means.weights if means else None, image, out)
    known = known_strides(plan, source, frame.outputs, out, block_of(channels, lanes_of(plan)))
    rule = TapRule(filled)
    if means:
        drops = means.averaging.ignores_dropped
        rule = TapRule(filled or drops, drops, means.averaging.ignores_nan)
        rule, known, frame = with_pixel_weights(rule, known, frame, plan, means.weights, channels)
    sweep = "labels" if plan.votes else "means" if means else "gather"
    way = way_for(plan, rules, known, sweep)
    copies = way is Copies
    words = means is None and not frame.outputs.listed and reads_words(plan, source, known, way)
    keeps = way is Rows and Rows.pays_to_keep_weights(plan, len(source.starts))
    known = known._replace(words=words, keeps_weights=keeps)
    bits = bits_of(source.kind)
    stored = storage_of(target.kind) if plan.votes else target.kind
    description = Description(
        sweep=sweep,
        axes=rules,
        points=frame.points,
        image=bits if copies else storage_of(source.kind),
        values=kind_of(bits).loaded.name if copies else stored,
        real=element(plan.real),
        way=way,
        known=known,
        tap_rule=rule,
        needs=(means.averaging.returns_weights,) if means else (),
    )
    ranges = divide(plan, frame.outputs, len(target.starts))
    settings = run_settings(plan, source, frame.outputs, description, channels)
    if words:
        settings["last_load"] = last_word(plan, source, channels, way)
    scratch = list_bytes(description, lanes_of(plan), 1)
    return launch_for(description, plan, frame, ranges, scratch, **settings)


# Gradients ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def prepare_derivatives(name: str, plan: Plan, order: Order, sweep: Sweep) -> tuple[Launch, ...]:
    """Prepare the gradients of gather ("backward"), or of these ("double backward")."""
    rules = rules_of(plan, order, sweep.filled)
    return tuple(
        launch_backward(name, plan, rules, sweep._replace(needs=some))
        for some in passes(plan, sweep)
    )


def launch_backward(
    name: str, plan: Plan, rules: tuple[AxisRule, ...], sweep: Sweep, **settings: Any
) -> Launch:
    """Prepare one sweep of derivatives."""
    need_image, *others = sweep.needs
    image = planes_of(sweep.image, plan.items, plan.grid_items)
    like = gradient_layout(plan, sweep.image).layout
    sums = planes_of(like, plan.items, plan.grid_items)
    means = sweep.means
    reads = any(others[:2]) or means is not None
    source = image if reads else sums
    target = planes_of(sweep.values, plan.items, plan.grid_items)
    frame = frame_of(plan, source, target, sweep.grid, sweep.values)
    channels, weights = 1, means.weights if means else None
    if name in RUNS:
        channels = channels_with_weights(weights, sweep.image, like, sweep.values)
    block = block_of(channels, lanes_of(plan))
    known = known_strides(plan, source, frame.outputs, sweep.values, block)
    rule = TapRule(sweep.filled and plan.filled)
    if means:
        averaging = means.averaging
        rule = rule._replace(
            ignores_dropped=averaging.ignores_dropped, ignores_nan=averaging.ignores_nan
        )
    rule, known, frame = with_pixel_weights(rule, known, frame, plan, weights, channels)
    way = way_for(plan, rules, known, name)
    description = Description(
        sweep=name,
        axes=rules,
        points=frame.points,
        image=storage_of(image.kind) if reads else element(plan.real),
        values=storage_of(target.kind),
        real=element(plan.real),
        way=way,
        known=known,
        tap_rule=rule,
        needs=(*sweep.needs, means.need_weights and need_image) if means else sweep.needs,
    )
    planes = len(target.starts)
    if need_image:
        unit = channels if planes > channels else block
        ranges = divide_sums(plan, frame.outputs, planes, unit, sweep, sums.item != 0)
    else:
        ranges = divide(plan, frame.outputs, planes)
    scratch = list_bytes(description, lanes_of(plan), len(plan.spatial) + (means is not None))
    if means and known.channels > 1:
        scratch += 2 * channels * lanes_of(plan) * plan.real.itemsize
    return launch_for(
        description,
        plan,
        frame,
        ranges,
        scratch,
        **run_settings(plan, source, frame.outputs, description, channels),
        sums_item=sums.item,
        sums_planes=sums.starts,
        **settings,
    )


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
