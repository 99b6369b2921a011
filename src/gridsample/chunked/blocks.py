"""Blocks of a result, computed from windows of the image: with the bits of the whole result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gridsample.backends import backend_of
from gridsample.chunked.means import means_of_region
from gridsample.chunked.pixels import Pixels
from gridsample.chunked.regions import (
    Array,
    Block,
    Region,
    Sampling,
    bounds_of_grid,
    bounds_of_maps,
    least_and_greatest,
    lengths_of,
    level_of,
    region_of,
    whole_shape,
)
from gridsample.chunked.windows import ImageWindow
from gridsample.definitions.footprints import MAX_SAMPLES_LIMIT, SLACK, deepest, pixels_per_unit
from gridsample.definitions.labels import has_labels
from gridsample.definitions.plan import OutputBlock
from gridsample.definitions.request import Request
from gridsample.ops.arrays import as_grid, back, planes
from gridsample.ops.footprints import measured
from gridsample.ops.means import average, check_call, unweighted_options, weight_of_all_taps
from gridsample.ops.missing import as_rule
from gridsample.ops.points import points_of
from gridsample.ops.quotients import repeat_weight
from gridsample.ops.sampling import share_inside


def with_neighbours(call: Sampling, block: Block) -> Block:
    """Return the points whose coordinates a block needs: for footprints, also those beside it.

    Example:
        >>> from gridsample.chunked.blocks import with_neighbours
        >>> from gridsample.chunked.regions import sampling_of
        >>> call = sampling_of((1, 1, 9), (9,), antialias=True)
        >>> with_neighbours(call, (slice(0, 4),))
        (slice(0, 5, None),)
    """
    if call.options.footprint is None:
        return block
    return tuple(
        slice(max(part.start - 1, 0), min(part.stop + 1, n))
        for part, n in zip(block, call.out, strict=True)
    )


def are_maps(call: Sampling, points: Array) -> bool:
    """Whether an array holds affine maps (N, D, D + 1), rather than coordinates (N, *points, D)."""
    return int(points.shape[-1]) == len(call.spatial) + 1


def sample_block(
    call: Sampling,
    block: Block,
    points: Array,
    image: Pixels,
    dtype: np.dtype[Any],
    *,
    weights: Pixels | None = None,
    region: Region | None = None,
) -> Any:
    """Sample the points of a block, and read only the pixels that these need.

    The caller chooses the level of an image that is sampled under maps, once for all blocks:
    `with_level`.

    Args:
        call: the call.
        block: the block.
        points: affine maps (N, D, D + 1), or the coordinates of the points `with_neighbours` of the
            block, (N, *points, D).
        image: the image, its spline coefficients, or its copy at the level of the call.
        dtype: the dtype of the image itself.
        weights: the weights of pixels, as the call has them.
        region: the region of the image that is read, if it is known already.

    Returns:
        What `gridsample.grid_sample` returns for the block: an array, or a tuple.

    Raises:
        ValueError: footprints at coordinates are too long; see `check_footprints`.
    """
    maps = are_maps(call, points)
    if not maps:
        check_footprints(call, points, block)  # before much of the image is read
    expanded = block if maps else with_neighbours(call, block)
    if region is None:
        bounds = bounds_of_maps(call, points, block) if maps else bounds_of_grid(call, points)
        region = region_of(call, bounds, expanded)
    window = image.window(region)
    shares = None if weights is None else weights.window(region)
    results = compute_block(call, window, points, expanded, dtype, shares)
    lead = (slice(None),) * (1 if call.options.channels_last() else 2)
    inner = within(block, expanded)
    parts = [result[(*lead, *inner)] for result in results]
    return parts[0] if len(parts) == 1 else tuple(parts)


def compute_block(
    call: Sampling,
    window: ImageWindow,
    array: Array,
    block: Block,
    dtype: np.dtype[Any],
    weights: ImageWindow | None,
) -> Sequence[Array]:
    """Compute the results of a block's points, given maps or the coordinates of all of them."""
    maps = are_maps(call, array)
    first = OutputBlock(tuple(part.start for part in block), call.out)
    request = Request(**call.keywords, block=first)
    pixel_weights = None if weights is None else weights.array
    rule = as_rule(request, pixel_weights, request.padding_mode)
    if call.options.footprint is not None:
        # A halved copy would be made from all of the image's shape, of which little is in memory.
        request = request.changed(level=level_of(call))
    # The plan is that of the image, also where its coefficients, or a copy of it, are sampled.
    whole = whole_shape(call, window.array.shape)
    source = as_strided(window.array, whole, window.array.strides)
    like = np.broadcast_to(np.zeros((), dtype), whole)
    backend = backend_of(input=source, **{"theta" if maps else "grid": array})
    shape = (len(array), 1, *lengths_of(block)) if maps else None
    points = points_of(backend, array, request.coords, shape)
    checked = None if rule is None else check_call(points, like, pixel_weights, request, rule)
    if checked is None or checked.counts_all():
        resolved = unweighted_options(checked) if checked else points.resolve_options(like, request)
        source = planes(backend, source, resolved.channels_last())
        result, weight = points.gather(source, resolved, like.dtype), None
        if checked is not None and checked.rule.weighted:
            weight = repeat_weight(backend, weight_of_all_taps(checked), result.shape)
    else:
        resolved, with_pixels = checked.options, checked._replace(image=source)
        result, weight = average(with_pixels) or means_of_region(checked, call, window, weights)
    last = resolved.channels_last()
    results = [back(backend, result, last)]
    if request.return_mask:
        results.append(share_inside(points, planes(backend, like, last), resolved))
    if weight is not None:
        results.append(back(backend, weight, last))
    return results


def within(block: Block, expanded: Block) -> Block:
    """Return the slices of a block within a larger one."""
    return tuple(
        slice(part.start - outer.start, part.stop - outer.start)
        for part, outer in zip(block, expanded, strict=True)
    )


# The lengths of footprints ------------------------------------------------------------------------


def longest_side(call: Sampling, steps: Sequence[Array]) -> float:
    """Return the length in pixels of the longest side of footprints.

    Args:
        call: the call.
        steps: for each axis of the result, differences of coordinates (..., D).  Those that are not
            finite count as 0.
    """
    unit = pixels_per_unit(call.spatial, call.options.coords, call.options.align_corners)
    with np.errstate(over="ignore"):
        lengths = [
            np.linalg.norm(np.where(np.isfinite(step), step, 0.0) * unit, axis=-1).max(initial=0.0)
            for step in steps
        ]
    return float(max(lengths, default=0.0))


def with_level(call: Sampling, steps: Sequence[Array]) -> Sampling:
    """Return the call with the level that its affine maps need, which is that of all points.

    Args:
        call: the call.
        steps: for each axis of the result, differences of coordinates (N, D) of maps.

    Raises:
        ValueError: maps of the same call need different levels.
    """
    footprint, limit = call.options.footprint, limit_of_sides(call)
    if footprint is None or math.isinf(limit):
        return call
    # Maps with a number that is not finite show nothing.
    known = [n for n in range(len(steps[0])) if all(np.isfinite(step[n]).all() for step in steps)]
    longest = [longest_side(call, [step[n] for step in steps]) for n in known]
    halvings = {
        sum(length * 0.5**n - SLACK > limit for n in range(deepest(call.spatial)))
        for length in longest
    }
    if len(halvings) > 1:
        raise ValueError(
            f"antialias=True in chunks takes maps whose footprints are of similar size, but those "
            f"of theta are {min(longest):.4g} to {max(longest):.4g} pixels long, with "
            f"max_samples={int(limit)}; accepted: a greater max_samples (up to "
            f"{MAX_SAMPLES_LIMIT}), or a call for each map"
        )
    level = footprint._replace(level=halvings.pop() if halvings else 0)
    return call._replace(options=call.options._replace(footprint=level))


def check_footprints(call: Sampling, grid: Array, block: Block) -> None:
    """Raise an error if footprints need halved copies of the image, which grids do not have here.

    Args:
        call: the call.
        grid: the coordinates of the points `with_neighbours` of the block, (N, *points, D).
        block: the block.

    Raises:
        ValueError: a side is longer than ``max_samples``.
    """
    options, limit = call.options, limit_of_sides(call)
    if math.isinf(limit) or bound_of_sides(call, grid) <= limit:
        return
    backend = backend_of(grid=grid)
    units = call.spatial, options.coords, options.align_corners
    with backend.quiet():  # coordinates may be infinite
        points = as_grid(backend, grid, options.coords)
        lengths = measured(backend, points, units, options.padding_mode, int(limit)).lengths
    inner = within(block, with_neighbours(call, block))
    longest = float(lengths[(slice(None), *inner)].max(initial=0.0))
    if longest - SLACK > limit:
        raise ValueError(
            f"antialias=True in chunks takes up to max_samples={int(limit)} samples a side at a "
            f"grid, but footprints are {longest:.4g} pixels long; accepted: a greater max_samples "
            f"(up to {MAX_SAMPLES_LIMIT}), an affine map, or an image that is first made smaller "
            "by interpolate(antialias=True)"
        )


def limit_of_sides(call: Sampling) -> float:
    """Return the length in pixels up to which sides need no halved copy; labels never need one."""
    options = call.options
    labels = has_labels(options.mode) and not call.keywords.get("return_mask")
    if options.footprint is None or labels or max(call.spatial) == 1:
        return math.inf
    return options.footprint.max_samples


def bound_of_sides(call: Sampling, grid: Array) -> float:
    """Return a length in pixels that no side of a footprint exceeds; quicker than `measured`."""
    rank, displaced = len(call.spatial), call.options.coords == "displacement"
    steps = np.zeros((rank, rank))
    with np.errstate(invalid="ignore", over="ignore"):
        for d in range(rank):
            line = grid[..., d].astype(np.float64)
            for k in range(rank):
                low, high = least_and_greatest(np.diff(line, axis=1 + k))
                steps[k, d] = np.fmax(0.0, max(-low, high))  # these are NaN if no step is finite
                steps[k, d] += displaced and d == rank - 1 - k
        unit = pixels_per_unit(call.spatial, call.options.coords, call.options.align_corners)
        return float(np.linalg.norm(steps * unit, axis=1).max())
