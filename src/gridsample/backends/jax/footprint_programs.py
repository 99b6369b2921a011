"""Antialiased sampling on the CPU: launches for each level of an image that points may need.

A launch samples the points of one level, in a copy of the image that is halved so many times, and
reports which levels there are.  Copies are made and sampled only where points need them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.footprints import neighbour
from gridsample.backends.jax import footprints
from gridsample.backends.jax.handler import ARGUMENT, RESULT, LaunchStep, Place
from gridsample.backends.jax.launches import (
    ArrayType,
    KeptLaunches,
    StepArrays,
    layout_of,
    named_needs,
    type_of,
    values_outside,
)
from gridsample.backends.jax.taps import Array, TracedCall, real_type
from gridsample.definitions import footprints as definitions
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.options import fill_of_channels
from gridsample.kernels import of_resizing
from gridsample.kernels import threads as pool
from gridsample.kernels.run import Launch, Steps

# The bytes of what a task reports: a bit for each level that its points need, and others.
WORD = 8


def copies_of(
    call: TracedCall, image: ArrayType, place: Place | None, results: StepArrays
) -> tuple[list[ArrayType], list[Place | None], list[LaunchStep]]:
    """Return the image and its halved copies, and the steps that make each from the one before.

    Only the types of the copies are returned if the image has no ``place``.
    """
    from gridsample.kernels.sampling.halving import copy_type

    types, places, steps = [image], [place], list[LaunchStep]()
    for level in range(1, footprints.deepest_level(call) + 1):
        shape = (*image.shape[:2], *definitions.halved(types[-1].shape[2:]))
        dtype = copy_type(image.dtype, level, np.dtype(call.plan.real))
        types.append(ArrayType(shape, dtype))
        if place is not None:
            place = results.add_intermediate(types[-1].nbytes)
            launch = halving(types[-2], types[-1], np.dtype(call.plan.real))
            deeper_levels = (1 << 32) - (1 << level)
            steps.append(
                LaunchStep(
                    launch, {"source": places[-1], "target": place}, {}, condition=deeper_levels
                )
            )
        places.append(place)
    return types, places, steps


def halving(source: ArrayType, target: ArrayType, real: np.dtype[Any]) -> Launch:
    """Prepare the halving of an image, or its transpose if the result is larger."""
    from gridsample.kernels.sampling.halving import halving_map

    pairs = zip(source.shape[2:], target.shape[2:], strict=True)
    maps = [halving_map(n, 1) if n >= m else halving_map(m, 1).transpose() for n, m in pairs]
    planning = of_resizing().planning
    numbers = planning.Numbers(type_name(real), type_name(real))
    kinds, planes = (type_name(source.dtype), type_name(target.dtype)), (*source.shape, 1)
    launch: Launch = planning.prepare(tuple(maps), planes, None, kinds, numbers, pool.cores())
    return launch


def steps_of(
    levels: Sequence[Steps],
    places: Sequence[Mapping[str, Place | Any]],
    halvings: Sequence[LaunchStep],
    results: StepArrays,
    report: Place,
    cleared: Mapping[int, int] = MappingProxyType({}),
) -> list[LaunchStep]:
    """Return the steps of all levels: the copy of each, if there is one, and its own steps."""
    steps = list[LaunchStep]()
    for level, (own, arrays) in enumerate(zip(levels, places, strict=True)):
        if level and halvings:
            steps.append(halvings[level - 1])
        located = results.located(own, {**arrays, "report": report}, {} if steps else cleared)
        condition = 1 << level if level else 0
        for launch, arrays_of_step, clears, *_ in located:
            reported = report.number if "report" in launch.program.arrays else None
            if reported is not None:
                clears[reported] = WORD * launch.tasks
            steps.append(LaunchStep(launch, arrays_of_step, clears, reported, condition))
    return steps


@functools.cache
def gather_steps(
    call: TracedCall, image: ArrayType, grid: ArrayType, out: ArrayType
) -> KeptLaunches:
    """Prepare the means, or votes, over footprints."""
    from gridsample.kernels.sampling import steps
    from gridsample.kernels.sampling.division import Layouts

    results, order = StepArrays(out), (0,) * len(call.plan.spatial)
    types, copies, halvings = copies_of(call, image, Place(ARGUMENT, 0), results)
    layouts = layout_of(grid), layout_of(out)
    filled = bool(call.fill)
    levels = [
        steps.gather_steps(call.plan, order, Layouts(layout_of(copy), *layouts, filled), level)
        for level, copy in enumerate(types)
    ]
    report = results.add_intermediate(WORD * max(own.tasks for own in levels))
    others: dict[str, Any] = {"grid": Place(ARGUMENT, 1), "out": Place(RESULT, 0)}
    others |= values_outside(call, image.dtype)
    places = [{"image": copy, **others} for copy in copies]
    return results.prepare(steps_of(levels, places, halvings, results, report))


@functools.cache
def gradient_steps(
    call: TracedCall,
    image: ArrayType,
    grid: ArrayType,
    values: ArrayType,
    needed: tuple[bool, bool],
) -> KeptLaunches:
    """Prepare the needed gradients.

    The results are those of the image and of its copies, those of the grid and of the footprints'
    sides, and a report.
    """
    from gridsample.kernels.sampling import steps
    from gridsample.kernels.sampling.division import Layouts
    from gridsample.kernels.sampling.preparing import dropped_of
    from gridsample.kernels.sampling.programs.operations import BACKWARD

    plan = replace(call.plan, real=np.dtype(real_type(call)))
    call, rank = call._replace(plan=plan), len(plan.spatial)
    count, order = footprints.deepest_level(call) + 1, (0,) * rank
    source = Place(ARGUMENT, 2) if needed[1] else None
    gradient_type = ArrayType(grid.shape, plan.real)
    types, _, _ = copies_of(call, image, None, StepArrays())
    results = [ArrayType(shape, plan.real) for shape, _ in types] * needed[0]
    results += [gradient_type] * ((1 + rank) * needed[1])
    sums = [Place(RESULT, k) if needed[0] else None for k in range(count)]
    first = count * needed[0]
    point_places = [Place(RESULT, first + k) if needed[1] else None for k in range(1 + rank)]
    layouts = layout_of(image), layout_of(grid), layout_of(values)
    names = named_needs(needed)
    sweep = Layouts(*layouts, bool(call.fill), names, pool.cores())
    levels = [
        steps.derivative_steps(BACKWARD, plan, order, sweep._replace(image=layout_of(copy)), level)
        for level, copy in enumerate(types)
    ]
    tasks = max(own.tasks for own in levels)
    arrays = StepArrays(*results, ArrayType((tasks, WORD), np.dtype(np.uint8)))
    _, copies, halvings = copies_of(call, image, source, arrays)
    dropped = dropped_of(plan, fill_of_channels(call.fill, plan))
    others = {"grid": Place(ARGUMENT, 1), "values": Place(ARGUMENT, 0), "dropped": dropped}
    others |= {"gradient": point_places[0]}
    others |= {f"side{a}": place for a, place in enumerate(point_places[1:])}
    places = [
        {"image": copy, "sums": total, **others} for copy, total in zip(copies, sums, strict=True)
    ]
    report = Place(RESULT, arrays.number - 1)
    return arrays.prepare(steps_of(levels, places, halvings, arrays, report, arrays.cleared()))


def gradients(
    call: TracedCall,
    image: ArrayType,
    grid: ArrayType,
    values: ArrayType,
    needed: tuple[bool, bool],
    *arrays: Array,
) -> list[Array]:
    """Compute the needed gradients of means; the arrays are values, grid and, for both, image."""
    *results, report = gradient_steps(call, image, grid, values, needed).call(
        *arrays[: 2 + needed[1]]
    )
    levels, gradients = footprints.deepest_level(call) + 1, []
    if needed[0]:
        sums = results[:levels]
        # The bits of all levels but the first; without arrays of constants, which
        # `custom_partitioning` refuses.
        used = jnp.any(report[:, 0] > 1) | jnp.any(report[:, 1:4] != 0)
        total = sums[0]
        if levels > 1:
            total = jax.lax.cond(used, lambda: add_back(sums), lambda: total)
        gradients.append(total)
    if needed[1]:
        gradient, *sides = results[levels * needed[0] :]
        assert call.plan.footprint is not None
        attached = call.plan.footprint.attached
        gradients.append(add_sides(gradient, sides, arrays[1]) if attached else gradient)
    return gradients


def add_back(sums: Sequence[Array]) -> Array:
    """Add the gradients of halved copies to that of the image, which comes first."""
    total = sums[-1]
    for larger in sums[-2::-1]:
        types = type_of(total), type_of(larger)
        results, launch = StepArrays(types[1]), halving(*types, np.dtype(total.dtype))
        step = LaunchStep(launch, {"source": Place(ARGUMENT, 0), "target": Place(RESULT, 0)}, {})
        total = larger + results.prepare([step]).call(total)[0]
    return total


def add_sides(gradient: Array, sides: Sequence[Array], grid: Array) -> Array:
    """Add the gradients of sides, x first, to that of a grid: each is a difference of neighbours.

    Points that are not finite are neighbours of none.
    """
    total = gradient
    for k, side in enumerate(sides):
        axis = grid.ndim - 2 - k
        before, after = (neighbour(jnp, side, axis, step, 0) for step in (-1, 1))
        total = total + before - after
    return jnp.where(jnp.isfinite(grid).all(-1, keepdims=True), total, gradient)
