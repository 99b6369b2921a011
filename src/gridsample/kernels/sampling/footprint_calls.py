"""Prepared calls of the programs that sample footprints, one for each level of an image."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.definitions import footprints as definitions
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout, addresses_of, layout_of
from gridsample.kernels.run import Launch
from gridsample.kernels.sampling.calls import (
    frame_of,
    known_strides,
    launch_for,
    output_axes,
)
from gridsample.kernels.sampling.division import divide, lanes_of, taps_of
from gridsample.kernels.sampling.halving import Halves
from gridsample.kernels.sampling.layouts import (
    channels_together,
    element,
    planes_of,
    storage_of,
)
from gridsample.kernels.sampling.programs.axes import rules_of
from gridsample.kernels.sampling.programs.footprints import SHRINKS
from gridsample.kernels.sampling.programs.pairs import Pairs
from gridsample.kernels.sampling.programs.sampler import Description, TapRule
from gridsample.kernels.sampling.programs.ways import way_for
from gridsample.kernels.sampling.programs.words import last_word, reads_words

Array = np.ndarray[Any, Any]
# Bytes of a label and of the sum of its weights, at most.
LABEL = 16


@functools.lru_cache(maxsize=256)
def prepare_footprints(
    plan: Plan,
    number: int,
    image: Layout,
    grid: Layout,
    out: Layout,
    filled: bool,
) -> Launch:
    """Prepare the sampling of the points that belong to a level, in the image of that level."""
    assert plan.footprint is not None
    smaller = plan_at(plan, number)
    rules = rules_of(smaller, (0,) * len(plan.spatial), filled)
    source = planes_of(image, plan.items, plan.grid_items)
    target = planes_of(out, plan.items, plan.grid_items)
    frame, settings = frame_of(plan, source, target, grid, out), settings_at(plan, number)
    sweep = "footprint labels" if plan.votes else "footprints"
    known = known_strides(smaller, source, frame.outputs, out)
    channels = 1 if plan.votes else channels_together(image, out)
    runs = known_strides(smaller, source, frame.outputs, out, channels)
    pairs = way_for(smaller, rules, runs, sweep)
    reads = pairs is Pairs and not frame.outputs.listed
    if reads and reads_words(smaller, source, runs, pairs):
        known = runs._replace(words=True)
        settings["last_load"] = last_word(smaller, source, channels, pairs)
    description = Description(
        sweep=sweep,
        axes=rules,
        points=frame.points,
        image=storage_of(source.kind),
        values=storage_of(target.kind) if plan.votes else target.kind,
        real=element(plan.real),
        way=way_for(smaller, rules, known, sweep),
        known=known,
        tap_rule=TapRule(filled),
    )
    ranges, scratch = divide(plan, frame.outputs, len(target.starts)), 0
    if plan.votes:
        scratch = scratch_of(plan)
    return launch_for(description, plan, frame, ranges, scratch, **settings)


def plan_at(plan: Plan, number: int) -> Plan:
    """Return the plan for the image of a level."""
    level = definitions.levels(plan.spatial, plan.coords, plan.align_corners, number)[number]
    coords = plan.coords if plan.coords == "displacement" else level.coords
    return replace(plan, spatial=level.spatial, coords=coords)


def settings_at(plan: Plan, number: int) -> dict[str, Any]:
    """Return the settings of footprints for the image of a level."""
    assert plan.footprint is not None
    level = definitions.levels(plan.spatial, plan.coords, plan.align_corners, number)[number]
    known = plan.footprint.level is not None
    scale = 0.5**number if known else 1.0
    unit = definitions.pixels_per_unit(plan.spatial, plan.coords, plan.align_corners)
    return {
        "sizes": level.spatial[::-1],
        **output_axes(plan),  # maps and grids are in units of level 0
        "unit": [pixels * scale for pixels in unit],
        "spacing": spacing_of_points(plan),
        "gain": level.gain,
        "shift": level.shift,
        "most": plan.footprint.max_samples,
        "levels": 0 if known or plan.votes else definitions.deepest(plan.spatial),
        "level": 0 if known else number,
        "attached": plan.footprint.attached,
        "tie": definitions.tie(plan.spatial, float(np.finfo(plan.real).eps)),
    }


def scratch_of(plan: Plan) -> int:
    """Return the bytes that the labels of a group's footprints need at most."""
    assert plan.footprint is not None
    taps = taps_of(plan)
    for _ in plan.spatial:
        taps *= plan.footprint.max_samples
    labels = lanes_of(plan) * (math.prod(plan.spatial) + 2)
    return min(taps, labels) * lanes_of(plan) * LABEL


def spacing_of_points(plan: Plan) -> list[float]:
    """Return the distance of the output's points along each axis, x first, as maps see it."""
    if plan.coords == "pixel":
        return [1.0] * len(plan.spatial)
    # The coordinates -1 and 1 of a single corner pixel are the same place.
    return [
        0.0 if n == 1 and plan.align_corners else 2 / max(n - plan.align_corners, 1)
        for n in plan.whole[: -len(plan.spatial) - 1 : -1]
    ]


def gather(
    plan: Plan,
    image: Array,
    grid: Array,
    out: Array,
    numbers: tuple[Array, ...],
    filled: bool,
    threads: int,
) -> bool:
    """Sample an image over the footprints of a grid or of affine maps.

    Args:
        plan: the plan.
        image: the image, which programs can read.
        grid: the grid or the maps, which programs can read.
        out: the results, which programs can write.
        numbers: the numbers of each plane outside the image.
        filled: whether there is a fill value.
        threads: the maximum number of threads.

    Returns:
        Whether any point has more than one sample.
    """
    assert plan.footprint is not None
    level = plan.footprint.level or 0
    used = run_level(plan, level, (image, grid, out), numbers, filled, threads)
    halves = halves_for(plan, used, threads)
    for level, smaller in halves.of(image):
        run_level(plan, level, (smaller, grid, out), numbers, filled, threads)
    return bool(halves.used) or bool(used >> SHRINKS)


def halves_for(plan: Plan, used: int, threads: int) -> Halves:
    """Return what halves images for the levels that tasks report, 0 excepted."""
    levels = tuple(n for n in range(1, SHRINKS) if used >> n & 1)
    pyramid = definitions.levels(plan.spatial, plan.coords, plan.align_corners, max((0, *levels)))
    return Halves(tuple(level.spatial for level in pyramid), levels, plan.real, threads)


def run_level(
    plan: Plan,
    level: int,
    arrays: tuple[Array, Array, Array],
    numbers: tuple[Array, ...],
    filled: bool,
    threads: int,
) -> int:
    """Sample the points of one level; return the bits that tasks report."""
    layouts = tuple(layout_of(array) for array in arrays)
    launch = prepare_footprints(plan, level, *layouts, filled)
    return run_reporting(launch, (*arrays, *numbers), threads)


def run_reporting(launch: Launch, arrays: Iterable[Array | None], threads: int) -> int:
    """Run a program over footprints on arrays; return the bits that its tasks report."""
    report = np.zeros(launch.tasks, np.int64)
    launch.run(addresses_of((*arrays, report)), threads)
    return int(np.bitwise_or.reduce(report))
