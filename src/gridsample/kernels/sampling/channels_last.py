"""Images with many channels: copies whose channels are neighbours in memory.

With many taps, or for gradients, it takes less time to copy the channels of each pixel side by
side, to process runs of channels (see `runs`), and to copy the results back than to process planes
one by one.  This is done a few items at a time, while they are in the cache.  Images whose channels
are neighbours are not copied, only the samples, where these are planes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout, addresses_of, is_dense, layout_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import channels_together
from gridsample.kernels.sampling.preparing import LARGEST, Gradients, Needs, Samples
from gridsample.kernels.vector import Function, Record, compile, host, transpose

Array = np.ndarray[Any, Any]

# The fewest channels that are made neighbours.
LEAST = 8
# The fewest samples for which only one of both, the image or the samples, is copied.
FEW = 1 << 12
# The bytes of images that are copied at a time.
AT_ONCE = 1 << 20

MATRICES = Record(rows="int64", columns="int64", parts="int64")


@functools.lru_cache(maxsize=256)
def pays_channels_last(plan: Plan, image: Layout, values: Layout, gathers: bool) -> bool:
    """Whether to copy what is planes of these arrays, so that all channels are neighbours.

    Of two taps along an axis, the sum alone takes less time in planes, but not its gradients.
    """
    image_runs, values_run = are_runs(image), are_runs(values)
    fits = plan.image_items == plan.items and not (plan.votes or plan.footprint)
    copyable = (image_runs or is_dense(image)) and (values_run or is_dense(values))
    if plan.channels == 1 or not (fits and copyable) or (image_runs and values_run):
        return False
    many, numbers = max(method.taps for method in plan.methods) > 2, plan.channels * plan.points
    enough = numbers >= FEW or not (image_runs or values_run)
    pays = enough and numbers * values[2].itemsize <= LARGEST and values[2].itemsize <= 8
    if image_runs:
        return pays and not plan.nearest and (many or plan.channels >= LEAST)
    pixels = math.prod(plan.spatial)
    return (
        pays
        and plan.channels >= LEAST
        and (many or not gathers)
        and image[2] == plan.real
        and min(plan.points, pixels) >= LEAST
        and 4 * plan.points >= pixels
        and plan.channels * pixels * plan.real.itemsize <= LARGEST
    )


def are_runs(layout: Layout) -> bool:
    """Whether the channels of each pixel are neighbours in memory, in runs of all of them."""
    return channels_together(layout) == layout[0][1]


class Part(NamedTuple):
    """Items that are copied together.

    Attributes:
        plan: their plan.
        items: their place in arrays of all items.
        grids: the place of their grids.
    """

    plan: Plan
    items: slice
    grids: slice


def parts_of(plan: Plan) -> Iterator[Part]:
    """Divide a call into parts of a few items."""
    size = plan.channels * math.prod(plan.spatial) * plan.real.itemsize
    step = max(1, AT_ONCE // size)
    for first in range(0, plan.items, step):
        items = slice(first, min(first + step, plan.items))
        count, grids = items.stop - first, items if plan.grid_items > 1 else slice(None)
        grid_items = count if plan.grid_items > 1 else 1
        yield Part(replace(plan, image_items=count, grid_items=grid_items), items, grids)


def gather_channels_last(
    plan: Plan, arrays: Samples, compute: Callable[[Plan, Samples], bool | None], threads: int
) -> bool:
    """Compute samples of planes as runs of channels, a few items at a time.

    Args:
        plan: the plan.
        arrays: the arrays.
        compute: computes the samples of a part, and returns whether some weight is invalid.
        threads: the maximum number of threads.
    """
    invalid_weights = False
    for part in parts_of(plan):
        values = arrays.values[part.items]
        shares = None if arrays.shares is None else arrays.shares[part.items]
        sums = None if shares is None else place_for_runs(shares)
        runs = part_channels_last(arrays, part, True, threads)
        runs = runs._replace(values=place_for_runs(values), shares=sums)
        invalid_weights |= bool(compute(part.plan, runs))
        store_runs(runs.values, values, threads)
        if shares is not None and sums is not None:
            store_runs(sums, shares, threads)
    return invalid_weights


def backward_channels_last(
    plan: Plan,
    arrays: Samples,
    needs: Needs,
    compute: Callable[[Plan, Samples], Gradients],
    threads: int,
) -> Gradients:
    """Compute gradients of planes as runs of channels, a few items at a time.

    Args:
        plan: the plan.
        arrays: the arrays.
        needs: which gradients are needed.
        compute: computes them for a part.
        threads: the maximum number of threads.
    """
    kind = needs.dtype or plan.real
    grad_image = np.empty_like(arrays.image, kind, subok=False) if needs.image else None
    by_grid, by_weights, invalid_weights = list[Array](), list[Array](), False
    for part in parts_of(plan):
        runs = part_channels_last(arrays, part, needs.grid or arrays.weights is not None, threads)
        runs = runs._replace(values=as_runs(arrays.values[part.items], threads))
        gradients = compute(part.plan, runs)
        if grad_image is not None and gradients.image is not None:
            store_runs(gradients.image, grad_image[part.items], threads)
        by_grid += [] if gradients.grid is None else [gradients.grid]
        by_weights += [] if gradients.weights is None else [gradients.weights]
        invalid_weights |= gradients.invalid_weights
    shared = arrays.weights is not None and len(arrays.weights) == 1
    return Gradients(
        grad_image,
        joined(by_grid, plan.grid_items == 1),
        joined(by_weights, shared),
        invalid_weights,
    )


def part_channels_last(arrays: Samples, part: Part, reads: bool, threads: int) -> Samples:
    """Copy the image of a part, so that channels are neighbours.

    The image's numbers are copied only if the call ``reads`` them.
    """
    weights, planes = arrays.weights, arrays.image[part.items]
    if weights is not None and len(weights) > 1:
        weights = weights[part.items]
    image = as_runs(planes, threads) if reads else place_for_runs(planes)
    return arrays._replace(image=image, grid=arrays.grid[part.grids], weights=weights)


def joined(parts: Sequence[Array], shared: bool) -> Array | None:
    """Join the gradients of some items, or sum those of what all items share."""
    if not parts:
        return None
    return functools.reduce(np.add, parts) if shared else np.concatenate(parts)


def empty_channels_last(planes: Array) -> Array:
    """Return a new array of the shape and dtype of planes (N, C, ...) for runs of channels."""
    items, channels, *shape = planes.shape
    memory = np.empty((items, *shape, channels), planes.dtype)
    return memory.transpose(0, -1, *range(1, memory.ndim - 1))


def place_for_runs(values: Array) -> Array:
    """Return where runs of channels are stored: an array itself if its channels are neighbours."""
    return values if are_runs(layout_of(values)) else empty_channels_last(values)


def as_runs(values: Array, threads: int) -> Array:
    """Return values (N, C, ...) as runs of channels, which are a copy of planes."""
    return values if are_runs(layout_of(values)) else to_channels_last(values, threads)


def store_runs(runs: Array, values: Array, threads: int) -> None:
    """Store runs of channels in an array (N, C, ...), which may have planes."""
    if not are_runs(layout_of(values)):
        to_channels_first(runs, values, threads)
    elif runs is not values:
        values[...] = runs


def to_channels_last(planes: Array, threads: int) -> Array:
    """Return a copy of planes (N, C, ...), as runs of channels."""
    items, channels, *shape = planes.shape
    runs = empty_channels_last(planes)
    transpose_matrices(planes, runs, (items, channels, math.prod(shape)), threads)
    return runs


def to_channels_first(runs: Array, planes: Array, threads: int) -> None:
    """Copy runs of channels to planes (N, C, ...)."""
    items, channels, *shape = planes.shape
    transpose_matrices(runs, planes, (items, math.prod(shape), channels), threads)


def transpose_matrices(
    source: Array, target: Array, shape: tuple[int, int, int], threads: int
) -> None:
    """Transpose matrices that follow each other in memory."""
    prepare_transposition(*shape, source.dtype.itemsize).run(
        addresses_of((source, target)), threads
    )


@functools.lru_cache(maxsize=256)
def prepare_transposition(count: int, rows: int, columns: int, size: int) -> Launch:
    """Prepare the transposition of matrices with elements of so many bytes."""
    lanes = host().bits // (8 * size)
    block = min(lanes, 1 << (min(rows, columns).bit_length() - 1))
    parts = max(1, rows * columns * size // AT_ONCE)
    settings = MATRICES.pack(rows=rows, columns=columns, parts=parts)
    return Launch(transposition_program(f"uint{8 * size}", block), settings, count * parts)


@functools.cache
def transposition_program(kind: str, block: int) -> Any:
    """Write and compile the program that transposes matrices, a square of a side at a time."""
    function = Function("transpose", block)
    with entry(function, {"source": kind, "target": kind}, MATRICES) as (task, call):
        matrix, part = task // call.parts, task % call.parts
        begin = matrix * call.rows * call.columns
        source, target = call.source.at(begin), call.target.at(begin)
        first, last = (call.columns * k // (call.parts * block) * block for k in (part, part + 1))
        end = (part + 1 == call.parts).select(call.columns, last)
        with (
            function.loop(first, end, block) as across,
            function.loop(0, call.rows, block) as down,
        ):
            # The last squares overlap the ones before them.
            column = across.index.minimum(call.columns - block)
            row = down.index.minimum(call.rows - block)
            square = source.at(row * call.columns + column)
            transposed = target.at(column * call.rows + row)
            lines = [square.load(call.columns * k, block) for k in range(block)]
            for k, line in enumerate(transpose(lines)):
                transposed.store(line, call.rows * k)
    return compile(function)
