"""Images with many channels: copies whose channels are neighbours in memory.

With many taps, or for gradients, it takes less time to copy the channels of each pixel side by
side, to process runs of channels (see `runs`), and to copy the results back than to process planes
one by one.  This is done a few items at a time, while they are in the cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout, addresses_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.preparing import Gradients, Needs, Samples
from gridsample.kernels.vector import Function, Record, compile, host, transpose

Array = np.ndarray[Any, Any]

# The fewest channels that are turned, and the bytes of images that are turned at a time.
LEAST, AT_ONCE = 8, 1 << 20
# The largest image that is turned, in bytes.
LARGEST = 1 << 25

MATRICES = Record(rows="int64", columns="int64", parts="int64")


@functools.lru_cache(maxsize=256)
def pays_to_turn(plan: Plan, image: Layout, values: Layout, gathers: bool) -> bool:
    """Whether to make channels neighbours first, for arrays of these layouts.

    Of two taps along an axis, the sum alone takes less time in planes, but not its gradients.
    """
    pixels = math.prod(plan.spatial)
    return (
        plan.channels >= LEAST
        and (not gathers or max(method.taps for method in plan.methods) > 2)
        and plan.image_items == plan.items
        and not (plan.votes or plan.footprint)
        and is_planar(image)
        and is_planar(values)
        and image[2] == values[2] == plan.real
        and min(plan.points, pixels) >= LEAST
        and 4 * plan.points >= pixels
        and plan.channels * pixels * plan.real.itemsize <= LARGEST
    )


def is_planar(layout: Layout) -> bool:
    """Whether the entries of each item of an array (N, C, ...) fill memory in this order."""
    shape, strides, dtype = layout
    size = dtype.itemsize
    for n, stride in zip(shape[:0:-1], strides[:0:-1], strict=True):
        if n > 1 and stride != size:
            return False
        size *= n
    return shape[0] == 1 or strides[0] == size


class Part(NamedTuple):
    """Items that are turned together.

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
    some = max(1, AT_ONCE // size)
    for first in range(0, plan.items, some):
        items = slice(first, min(first + some, plan.items))
        count, grids = items.stop - first, items if plan.grid_items > 1 else slice(None)
        grid_items = count if plan.grid_items > 1 else 1
        yield Part(replace(plan, image_items=count, grid_items=grid_items), items, grids)


def gather_turned(
    plan: Plan, arrays: Samples, compute: Callable[[Plan, Samples], bool | None], threads: int
) -> bool:
    """Compute samples of planes as runs of channels, a few items at a time.

    Args:
        plan: the plan.
        arrays: the arrays.
        compute: computes the samples of a part, and returns whether some weight is doubtful.
        threads: the maximum number of threads.
    """
    doubtful = False
    for part in parts_of(plan):
        values = arrays.values[part.items]
        shares = None if arrays.shares is None else arrays.shares[part.items]
        runs = turned_part(arrays, part, True, threads)._replace(
            values=empty_runs(values), shares=None if shares is None else empty_runs(shares)
        )
        doubtful |= bool(compute(part.plan, runs))
        turn_back(runs.values, values, threads)
        if shares is not None and runs.shares is not None:
            turn_back(runs.shares, shares, threads)
    return doubtful


def backward_turned(
    plan: Plan, arrays: Samples, needs: Needs, compute: Callable[[Plan, Samples], Gradients],
    threads: int,
) -> Gradients:  # fmt: skip
    """Compute gradients of planes as runs of channels, a few items at a time.

    Args:
        plan: the plan.
        arrays: the arrays.
        needs: which gradients are needed.
        compute: computes them for a part.
        threads: the maximum number of threads.
    """
    kind = needs.dtype or plan.real
    grad_image = np.empty(arrays.image.shape, kind) if needs.image else None
    by_grid, by_weights, doubtful = list[Array](), list[Array](), False
    for part in parts_of(plan):
        runs = turned_part(arrays, part, needs.grid or arrays.weights is not None, threads)
        runs = runs._replace(values=turned(arrays.values[part.items], threads))
        gradients = compute(part.plan, runs)
        if grad_image is not None and gradients.image is not None:
            turn_back(gradients.image, grad_image[part.items], threads)
        by_grid += [] if gradients.grid is None else [gradients.grid]
        by_weights += [] if gradients.weights is None else [gradients.weights]
        doubtful |= gradients.doubtful
    shared = arrays.weights is not None and len(arrays.weights) == 1
    return Gradients(
        grad_image, joined(by_grid, plan.grid_items == 1), joined(by_weights, shared), doubtful
    )


def turned_part(arrays: Samples, part: Part, reads: bool, threads: int) -> Samples:
    """Copy the image and the weights of a part, so that channels are neighbours.

    The image's numbers are copied only if the call ``reads`` them.
    """
    weights, planes = arrays.weights, arrays.image[part.items]
    if weights is not None:
        weights = weights[part.items] if len(weights) > 1 else weights
        if weights.shape[1] > 1:
            weights = turned(np.ascontiguousarray(weights), threads)
    image = turned(planes, threads) if reads else empty_runs(planes)
    return arrays._replace(image=image, grid=arrays.grid[part.grids], weights=weights)


def joined(parts: Sequence[Array], shared: bool) -> Array | None:
    """Join the gradients of some items, or sum those of what all items share."""
    if not parts:
        return None
    return functools.reduce(np.add, parts) if shared else np.concatenate(parts)


def empty_runs(planes: Array) -> Array:
    """Return a new array of the shape and dtype of planes (N, C, ...) for runs of channels."""
    items, channels, *shape = planes.shape
    memory = np.empty((items, *shape, channels), planes.dtype)
    return memory.transpose(0, -1, *range(1, memory.ndim - 1))


def turned(planes: Array, threads: int) -> Array:
    """Return a copy of planes (N, C, ...), as runs of channels."""
    items, channels, *shape = planes.shape
    runs = empty_runs(planes)
    turn(planes, runs, (items, channels, math.prod(shape)), threads)
    return runs


def turn_back(runs: Array, planes: Array, threads: int) -> None:
    """Copy runs of channels to planes (N, C, ...)."""
    items, channels, *shape = planes.shape
    turn(runs, planes, (items, math.prod(shape), channels), threads)


def turn(source: Array, target: Array, shape: tuple[int, int, int], threads: int) -> None:
    """Transpose matrices that follow each other in memory."""
    plan_turn(*shape, source.dtype.itemsize).run(addresses_of((source, target)), threads)


@functools.lru_cache(maxsize=256)
def plan_turn(count: int, rows: int, columns: int, size: int) -> Launch:
    """Prepare the transposition of matrices with elements of so many bytes."""
    lanes = host().bits // (8 * size)
    block = min(lanes, 1 << (min(rows, columns).bit_length() - 1))
    parts = max(1, rows * columns * size // AT_ONCE)
    settings = MATRICES.pack(rows=rows, columns=columns, parts=parts)
    return Launch(turning_program(f"uint{8 * size}", block), settings, count * parts)


@functools.cache
def turning_program(kind: str, block: int) -> Any:
    """Write and compile the program that transposes matrices, a square of a side at a time."""
    function = Function("turn", block)
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
            here = source.at(row * call.columns + column)
            there = target.at(column * call.rows + row)
            lines = [here.load(call.columns * k, block) for k in range(block)]
            for k, line in enumerate(transpose(lines)):
                there.store(line, call.rows * k)
    return compile(function)
