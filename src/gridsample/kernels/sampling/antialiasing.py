"""Antialiased sampling and its derivatives: sweeps over the levels of an image.

A sweep (`samples`) processes the points of one level, and reports which
others there are.  The halved images and their gradients are made for these alone.  What a sweep of
derivatives stores for each point of a grid are the gradients of its base and its sides; those of
sides are then added to the point's neighbours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import footprints as definitions
from gridsample.definitions.plan import Plan
from gridsample.definitions.shapes import bands_along
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import address_of, array_at, as_float, layout_of
from gridsample.kernels.run import Ready
from gridsample.kernels.sampling.division import READ, Layouts
from gridsample.kernels.sampling.halving import Halves
from gridsample.kernels.sampling.programs.operation import Operation
from gridsample.kernels.sampling.settings import SHRINKS
from gridsample.kernels.sampling.steps import derivative_steps, gather_steps

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array | None]

# The arrays that a prepared run over footprints takes.
NAMES = "image", "grid", "out", "report"
# The bits of a report that stand for the levels of halved images: all between 0 and SHRINKS.
LEVELS = (1 << SHRINKS) - 2
# Numbers of a gradient that sides are added to at a time.
BAND = 1 << 16


class ReadyFootprints(NamedTuple):
    """A prepared call of gather over footprints, which only needs the addresses of arrays.

    Attributes:
        plan: the plan.
        layouts: what is read and written.
        numbers: the numbers of each plane outside the image, by name.
        threads: the maximum number of threads.
        first: the sweep over the points that are sampled in the image itself.
        tasks: its tasks.
    """

    plan: Plan
    layouts: Layouts
    numbers: dict[str, Array]
    threads: int
    first: Ready
    tasks: int

    @classmethod
    def of(
        cls, plan: Plan, layouts: Layouts, numbers: dict[str, Array], threads: int
    ) -> ReadyFootprints:
        """Prepare a call whose image and points programs can read."""
        assert plan.footprint is not None
        steps = gather_steps(plan, zero_order(plan), layouts, plan.footprint.level or 0)
        first = steps.ready(threads, NAMES, numbers)
        return cls(plan, layouts, numbers, threads, first, steps.tasks)

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        return self.first.nbytes

    def run(self, image: int, grid: int, out: int) -> bool:
        """Sample an image at some address; return whether any point has more than one sample."""
        used = run_reporting(self.first, self.tasks, (image, grid, out))
        if used & LEVELS:
            self.sample_halves(used, array_at(image, self.layouts.image), grid, out)
        return bool(used & LEVELS) or bool(used >> SHRINKS)

    def sample_halves(self, used: int, image: Array, grid: int, out: int) -> None:
        """Sample the points that belong to halved images."""
        plan, order, threads = self.plan, zero_order(self.plan), self.threads
        for level, smaller in halves_for(plan, used, threads).of(image):
            layouts = self.layouts._replace(image=layout_of(smaller))
            steps = gather_steps(plan, order, layouts, level)
            ready = steps.ready(threads, NAMES, self.numbers)
            run_reporting(ready, steps.tasks, (address_of(smaller), grid, out))


def zero_order(plan: Plan) -> tuple[int, ...]:
    """Return the orders of samples that are not derivatives."""
    return (0,) * len(plan.spatial)


def halves_for(plan: Plan, used: int, threads: int) -> Halves:
    """Return what halves images for the levels that tasks report, 0 excepted."""
    levels = tuple(n for n in range(1, SHRINKS) if used >> n & 1)
    pyramid = definitions.levels(plan.spatial, plan.coords, plan.align_corners, max((0, *levels)))
    return Halves(tuple(level.spatial for level in pyramid), levels, plan.real, threads)


def run_reporting(ready: Ready, tasks: int, addresses: Sequence[int]) -> int:
    """Run a program over footprints on arrays; return the bits that its tasks report.

    The addresses are those of the first names of `NAMES`.
    """
    report = np.zeros(tasks, np.int64)
    ready.run(*addresses, address_of(report))
    return int(np.bitwise_or.reduce(report))


def run(operation: Operation, plan: Plan, layouts: Layouts, arrays: Arrays) -> list[Array]:
    """Run a sweep of derivatives over footprints.

    Args:
        operation: what the sweep computes.
        plan: the plan.
        layouts: what is read and written.
        arrays: the arrays of the program, by name.

    Returns:
        The gradients of the footprints' sides along the output's axes, x first, as
        `Sides.transposed` describes them; none if they are not needed, or all 0, or those of maps.
    """
    assert plan.footprint is not None
    sides = list[Array]()
    if "grid" in layouts.needs and not plan.are_maps(layouts.grid[0]):
        shape = len(plan.spatial), plan.grid_items, *plan.out, len(plan.spatial)
        sides = [*np.zeros(shape, plan.real)]
    arrays = {**arrays, **{f"side{a}": side for a, side in enumerate(sides)}}
    used = sweep_level(operation, plan, 0, layouts, arrays)
    halves = halves_for(plan, used, layouts.threads)
    image, sums, upstream = arrays["image"], arrays["sums"], arrays.get("upstream")
    assert image is not None
    smaller = {} if sums is None else halves.zeros(image, sums.dtype)
    # Only the gradients of the grid and of upstream values depend on the image.
    reads = layouts.needs & READ
    copies: dict[str, Iterable[tuple[int, Array]]]
    copies = {"image": halves.of(image) if reads else smaller.items()}
    if sums is not None:
        copies["sums"] = smaller.items()
    if upstream is not None:
        copies["upstream"] = halves.of(upstream)
    for level, *halved in zip(halves.used, *copies.values(), strict=True):
        arrays_of_level = {key: copy for key, (_, copy) in zip(copies, halved, strict=True)}
        used |= sweep_level(operation, plan, level, layouts, {**arrays, **arrays_of_level})
    if sums is not None and smaller:
        halves.add_back(sums, smaller)
    return sides if plan.footprint.attached and used >> SHRINKS else []


def sweep_level(
    operation: Operation, plan: Plan, level: int, layouts: Layouts, arrays: Arrays
) -> int:
    """Run a sweep of derivatives over the points of a level; return the bits that tasks report."""
    image = arrays["image"]
    assert image is not None
    layouts = layouts._replace(image=layout_of(image))
    steps = derivative_steps(operation, plan, zero_order(plan), layouts, level)
    report = np.zeros(steps.tasks, np.int64)
    steps.run({**arrays, "report": report}, layouts.threads)
    return int(np.bitwise_or.reduce(report))


def add_sides(sides: Sequence[Array], grid: Array, gradient: Array, threads: int) -> None:
    """Add the gradients of sides to that of a grid."""
    if not sides:
        return
    points = as_float(grid).astype(gradient.dtype, copy=False)
    # Points that are not finite are neighbours of none.
    missing = None if np.isfinite(points).all() else ~np.isfinite(points).all(-1)
    kept = gradient[missing] if missing is not None else None
    bands = bands_along(gradient.shape, BAND, 1)
    pool.run([functools.partial(add_band, sides, gradient, band) for band in bands], threads)
    if missing is not None:
        gradient[missing] = kept


def add_band(sides: Sequence[Array], gradient: Array, rows: slice) -> None:
    """Add to some rows of a grid's gradient, which are along its slowest axis."""
    (*others, slowest), first, last = sides, rows.start, rows.stop
    begin, end = max(first, 1), min(last, len(gradient[0]) - 1)
    gradient[:, begin:last] += slowest[:, begin - 1 : last - 1]
    gradient[:, first:end] -= slowest[:, first + 1 : end + 1]
    for a, side in enumerate(others):
        # The axis comes first here.
        target, band = (np.moveaxis(array[:, rows], -2 - a, 0) for array in (gradient, side))
        target[1:] += band[:-1]
        target[:-1] -= band[1:]
