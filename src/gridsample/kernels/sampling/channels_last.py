"""Images with many channels: copies whose channels are neighbours in memory.

With many taps, or for gradients, it takes less time to copy the channels of each pixel side by
side, to process pixels with all their channels (see `programs.channels`), and to copy the results
back than to process planes one by one.  This is done a few items at a time, while they are in the
cache.  Images whose channels are neighbours are not copied, only the samples, where these are
planes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.plan import Plan
from gridsample.kernels.caches import whole_lines
from gridsample.kernels.memory import Layout, is_dense, layout_of
from gridsample.kernels.sampling.division import fit_together, taps_of
from gridsample.kernels.sampling.layouts import are_runs, element, gradient_layout
from gridsample.kernels.sampling.memory_order import (
    COPIED_AT_ONCE,
    LARGEST_COPY,
    transpose_matrices,
)
from gridsample.kernels.sampling.preparing import Gradients, Needs, Samples

Array = np.ndarray[Any, Any]

# The fewest channels that are made neighbours.
MIN_CHANNELS = 8
# The fewest samples for which only one of the two, the image or the samples, is copied.
FEW_SAMPLES = 1 << 12
# The fewest taps for each pixel for which an image is copied, if they are read, and if they are
# added to.
TAPS_READ, TAPS_ADDED = 16, 4
# The fewest if these are read from planes of so many pixels, or two along each axis are added to
# planes: such planes are processed in blocks, and stay in the cache (`division.Blocks`).
TAPS_READ_IN_BLOCKS, PLANE_IN_BLOCKS, TAPS_ADDED_IN_BLOCKS = 64, 1 << 15, 16


@cached_call(256)
def pays_channels_last(plan: Plan, image: Layout, values: Layout, adds: bool) -> bool:
    """Whether to copy those of these arrays that are planes, so that all channels are neighbours.

    Runs save time for each tap, most if they are added to, and copies take time for each pixel.  Of
    two taps along an axis, reading takes less time in planes.

    Args:
        plan: the plan.
        image, values: the layouts of both.
        adds: whether pixels are added to, as for the image's gradient.
    """
    image_runs, values_run = are_runs(image), are_runs(values)
    fits = plan.image_items == plan.items and not (plan.votes or plan.footprint)
    copyable = (image_runs or is_dense(image)) and (values_run or is_dense(values))
    if plan.channels == 1 or not (fits and copyable) or (image_runs and values_run):
        return False
    many, numbers = max(method.taps for method in plan.methods) > 2, plan.channels * plan.points
    enough = numbers >= FEW_SAMPLES or not (image_runs or values_run)
    pays = enough and numbers * values[2].itemsize <= LARGEST_COPY and values[2].itemsize <= 8
    if image_runs:
        return pays and not plan.nearest and (many or plan.channels >= MIN_CHANNELS)
    pixels, taps = math.prod(plan.spatial), max(taps_of(plan), TAPS_ADDED)
    if adds:
        blocks = not many and len(plan.spatial) < 3 and fit_together(plan, element(plan.real))
        min_taps = TAPS_ADDED_IN_BLOCKS if blocks else TAPS_ADDED
    else:
        min_taps = TAPS_READ_IN_BLOCKS if pixels >= PLANE_IN_BLOCKS else TAPS_READ
    return (
        pays
        and plan.channels >= MIN_CHANNELS
        and (many or adds)
        and image[2].itemsize <= 8
        and min(plan.points, pixels) >= MIN_CHANNELS
        and taps * plan.points >= min_taps * pixels
        and plan.channels * pixels * plan.real.itemsize <= LARGEST_COPY
    )


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
    step = max(1, COPIED_AT_ONCE // size)
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
    for part, planes, runs in as_runs(plan, arrays):
        copy_channels(planes.image, runs.image, threads)
        invalid_weights |= bool(compute(part.plan, runs))
        copy_channels(runs.values, planes.values, threads)
        if planes.shares is not None and runs.shares is not None:
            copy_channels(runs.shares, planes.shares, threads)
    return invalid_weights


def backward_channels_last(
    plan: Plan,
    arrays: Samples,
    needs: Needs,
    compute: Callable[[Plan, Samples], Gradients],
    threads: int,
    reads_image: bool = True,
) -> Gradients:
    """Compute gradients of planes as runs of channels, a few items at a time.

    Args:
        plan: the plan.
        arrays: the arrays.
        needs: which gradients are needed.
        compute: computes them for a part.
        threads: the maximum number of threads.
        reads_image: whether the pixels of the image are needed.
    """
    kind = gradient_layout(plan, layout_of(arrays.image)).layout[2]
    dtype = needs.dtype or kind
    grad_image = np.empty_like(arrays.image, dtype, subok=False) if needs.image else None
    arrays = arrays._replace(sums=grad_image if dtype == kind else None)
    by_grid, by_weights, invalid_weights = list[Array](), list[Array](), False
    for part, planes, runs in as_runs(plan, arrays):
        if runs.sums is not None:
            runs.sums[...] = 0
        if reads_image:
            copy_channels(planes.image, runs.image, threads)
        copy_channels(planes.values, runs.values, threads)
        gradients = compute(part.plan, runs)
        if grad_image is not None and gradients.image is not None:
            grads = grad_image[part.items] if planes.sums is None else planes.sums
            copy_channels(gradients.image, grads, threads)
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


def as_runs(plan: Plan, arrays: Samples) -> Iterator[tuple[Part, Samples, Samples]]:
    """Yield the parts of a call, their arrays, and what takes the place of these.

    Where they are planes, these are uninitialised runs, whose memory all parts share.
    """
    memory: Sequence[Array | None] = ()
    for part in parts_of(plan):
        planes = arrays_of_part(arrays, part)
        fields = planes.image, planes.values, planes.shares, planes.sums
        memory = memory or memory_for_runs(fields)
        image, values, shares, sums = (
            array if array is None or place is None else place[: len(array)]
            for array, place in zip(fields, memory, strict=True)
        )
        assert image is not None and values is not None
        yield part, planes, planes._replace(image=image, values=values, shares=shares, sums=sums)


def arrays_of_part(arrays: Samples, part: Part) -> Samples:
    """Return the arrays of the items of a part."""
    items, weights = part.items, arrays.weights
    if weights is not None and len(weights) > 1:
        weights = weights[items]
    return arrays._replace(
        image=arrays.image[items],
        grid=arrays.grid[part.grids],
        values=arrays.values[items],
        weights=weights,
        shares=None if arrays.shares is None else arrays.shares[items],
        sums=None if arrays.sums is None else arrays.sums[items],
    )


def joined(parts: Sequence[Array], shared: bool) -> Array | None:
    """Join the gradients of some items, or sum those of what all items share."""
    if not parts:
        return None
    return functools.reduce(np.add, parts) if shared else np.concatenate(parts)


def memory_for_runs(arrays: Sequence[Array | None]) -> list[Array | None]:
    """Return uninitialised runs of channels in place of planes (N, C, ...); None for other arrays.

    They are parts of one block of memory.  Of several blocks, the C library would return most to
    the system after each call, and to get them back takes longer than many a call.
    """
    planes = [None if a is None or are_runs(layout_of(a)) else a for a in arrays]
    sizes = [0 if array is None else whole_lines(array.nbytes) for array in planes]
    block, begin, runs = np.empty(sum(sizes), np.uint8), 0, list[Array | None]()
    for array, size in zip(planes, sizes, strict=True):
        if array is None:
            runs.append(None)
            continue
        items, channels, *shape = array.shape
        memory = block[begin : begin + array.nbytes].view(array.dtype)
        memory = memory.reshape(items, *shape, channels)
        runs.append(memory.transpose(0, -1, *range(1, memory.ndim - 1)))
        begin += size
    return runs


def copy_channels(source: Array, target: Array, threads: int) -> None:
    """Copy an array (N, C, ...) of planes, or of runs of channels, to the other one, or itself."""
    items, channels, *shape = source.shape
    from_runs, to_runs = are_runs(layout_of(source)), are_runs(layout_of(target))
    if from_runs != to_runs:
        matrix = (math.prod(shape), channels) if from_runs else (channels, math.prod(shape))
        transpose_matrices(source, target, (items, *matrix), threads)
    elif source is not target:
        target[...] = source
