"""Derivatives of antialiased sampling: sweeps over the levels of an image.

A sweep (`footprint_gradients`) processes the points of one level, and reports which others there
are.  The halved images and their gradients are made for these alone.  What a sweep stores for each
point of a grid are the gradients of its base and its sides; those of sides are then added to the
point's neighbours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import as_float, layout_of
from gridsample.kernels.run import Launch
from gridsample.kernels.sampling.calls import launch_backward
from gridsample.kernels.sampling.division import Sweep, passes
from gridsample.kernels.sampling.footprint_calls import (
    halves_for,
    plan_at,
    run_reporting,
    settings_at,
)
from gridsample.kernels.sampling.programs.axes import rules_of
from gridsample.kernels.sampling.programs.footprints import SHRINKS

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array | None]

# Numbers of a gradient that sides are added to at a time.
BAND = 1 << 16


@functools.lru_cache(maxsize=256)
def plan_sweep(name: str, plan: Plan, level: int, sweep: Sweep) -> tuple[Launch, ...]:
    """Prepare a sweep over the points of a level."""
    smaller, settings = plan_at(plan, level), settings_at(plan, level)
    rules = rules_of(smaller, (0,) * len(plan.spatial), sweep.filled)
    return tuple(
        launch_backward(name, smaller, rules, sweep._replace(needs=needs), **settings)
        for needs in passes(smaller, sweep)
    )


def run(name: str, plan: Plan, sweep: Sweep, arrays: Arrays) -> list[Array]:
    """Run a sweep of derivatives over footprints.

    Args:
        name: the name of the sweep.
        plan: the plan.
        sweep: what is read and written.
        arrays: the arrays of the program, by name.

    Returns:
        The gradients of the footprints' sides along the output's axes, x first, as
        `Sides.transposed` describes them; none if they are not needed, or all 0, or those of maps.
    """
    assert plan.footprint is not None
    sides = list[Array]()
    if sweep.needs[1] and not plan.are_maps(sweep.grid[0]):
        shape = len(plan.spatial), plan.grid_items, *plan.out, len(plan.spatial)
        sides = [*np.zeros(shape, plan.real)]
    arrays = {**arrays, **{f"side{a}": None for a in range(len(plan.spatial))}}
    arrays |= {f"side{a}": side for a, side in enumerate(sides)}
    used = run_level(name, plan, 0, sweep, arrays)
    halves = halves_for(plan, used, sweep.threads)
    image, sums, upstream = arrays["image"], arrays["sums"], arrays.get("upstream")
    assert image is not None
    smaller = {} if sums is None else halves.zeros(image, sums.dtype)
    # Only the gradients of the grid and of upstream values depend on the image.
    reads = any(sweep.needs[1:3])
    copies: dict[str, Iterable[tuple[int, Array]]]
    copies = {"image": halves.of(image) if reads else smaller.items()}
    if sums is not None:
        copies["sums"] = smaller.items()
    if upstream is not None:
        copies["upstream"] = halves.of(upstream)
    for level, *halved in zip(halves.used, *copies.values(), strict=True):
        arrays_of_level = {key: copy for key, (_, copy) in zip(copies, halved, strict=True)}
        used |= run_level(name, plan, level, sweep, {**arrays, **arrays_of_level})
    if sums is not None and smaller:
        halves.add_back(sums, smaller)
    return sides if plan.footprint.attached and used >> SHRINKS else []


def run_level(name: str, plan: Plan, level: int, sweep: Sweep, arrays: Arrays) -> int:
    """Run a sweep over the points of one level; return the bits that tasks report."""
    image, used = arrays["image"], 0
    assert image is not None
    for launch in plan_sweep(name, plan, level, sweep._replace(image=layout_of(image))):
        used |= run_reporting(launch, arrays.values(), sweep.threads)
    return used


def add_sides(sides: Sequence[Array], grid: Array, gradient: Array, threads: int) -> None:
    """Add the gradients of sides to that of a grid."""
    if not sides:
        return
    points, rows = as_float(grid).astype(gradient.dtype, copy=False), gradient.shape[1]
    # Points that are not finite are neighbours of none.
    missing = None if np.isfinite(points).all() else ~np.isfinite(points).all(-1)
    kept = gradient[missing] if missing is not None else None
    step = max(1, BAND * rows // gradient.size)
    bands = [(first, min(first + step, rows)) for first in range(0, rows, step)]
    pool.run([functools.partial(add_band, sides, gradient, *band) for band in bands], threads)
    if missing is not None:
        gradient[missing] = kept


def add_band(sides: Sequence[Array], gradient: Array, first: int, last: int) -> None:
    """Add to some rows of a grid's gradient, which are along its slowest axis."""
    *others, slowest = sides
    begin, end = max(first, 1), min(last, len(gradient[0]) - 1)
    gradient[:, begin:last] += slowest[:, begin - 1 : last - 1]
    gradient[:, first:end] -= slowest[:, first + 1 : end + 1]
    for a, side in enumerate(others):
        # The axis comes first here.
        target, band = (np.moveaxis(array[:, first:last], -2 - a, 0) for array in (gradient, side))
        target[1:] += band[:-1]
        target[:-1] -= band[1:]
