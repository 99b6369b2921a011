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

from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import layout_of
from gridsample.kernels.sampling.copies import copy_channels, memory_for_runs
from gridsample.kernels.sampling.layouts import gradient_layout
from gridsample.kernels.sampling.paying import COPIED_AT_ONCE
from gridsample.kernels.sampling.preparing import Gradients, Needs, Samples

Array = np.ndarray[Any, Any]


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
