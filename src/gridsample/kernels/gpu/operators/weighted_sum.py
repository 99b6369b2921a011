"""Weighted sums of samples: each program processes a block of queries of one item and head.

The points of a query are processed one after the other, those of one level in a launch, which adds
to the sums of the levels before.  Samples and their gradients are those of `sweeps`.

As in `taps`, kernels are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import ZERO
from gridsample.definitions.methods import find_method
from gridsample.definitions.operators import SumOptions
from gridsample.definitions.options import Options, plan_of
from gridsample.definitions.plan import Plan
from gridsample.kernels.gpu import NO_SUMS, copies, crowded, sampling_call
from gridsample.kernels.gpu.launching import Call, Layout, Tensor, layouts
from gridsample.kernels.gpu.operators import Context, Total, pixels_of, planes_of, undivided
from gridsample.kernels.gpu.parts import (
    AS_THEY_COME,
    assignment,
    channels_of,
    find,
    over_points,
    weigh_all,
)
from gridsample.kernels.gpu.records import (
    GradImage,
    Grid,
    Heads,
    Needs,
    Outputs,
    Planes,
    Static,
    SumPoints,
    Tile,
    Values,
    Work,
)
from gridsample.kernels.gpu.sweeps import return_taps, share, steepened, value_of
from gridsample.kernels.gpu.taps import tl, where


def unit_scaled(coordinates: Any, tile: Tile, UNIT: Static) -> Any:
    """Return normalized coordinates of those from 0 to 1, if coordinates are such."""
    result: Any = ()
    for axis in tl.static_range(3):
        coordinate = coordinates[axis].to(tile.REAL)
        if UNIT:
            coordinate = coordinate * 2 - 1
        result = result + (coordinate,)
    return result


def weighted_sum(
    image: Planes, points: SumPoints, out: Values, heads: Heads, work: Work, tile: Tile,
    outputs: Outputs,
) -> None:  # fmt: skip
    """Sum: out += sum over the points of a query of weight * sample; see `Heads`."""
    point, present, item, split = assignment(work, tile)
    n, head = item // heads.count, item % heads.count
    query = point.to(tile.INDEX)
    places = points.grid.memory + n * points.grid.item + head * heads.grid
    places += query * points.grid.point
    shares = points.weights.memory + n * points.weights.item + head * heads.weights
    shares += query * points.weights.point
    for chunk in tl.range(split, work.units, work.splits):
        channel, real = channels_of(chunk, work, tile)
        source = image.memory + n * image.item + head * heads.image
        source += channel.to(tile.INDEX) * image.channel
        there = over_points(present, tile.LAST) & real
        target = out.memory + n * out.item + head * heads.values
        target += channel.to(tile.INDEX) * out.channel + over_points(query * out.point, tile.LAST)
        total = tl.load(target, mask=there, other=0)
        for k in tl.range(0, heads.points):
            here = places + k * heads.grid_point
            x = tl.load(here, mask=present, other=0)
            y = tl.load(here + points.grid.axis, mask=present & (tile.RANK > 1), other=0)
            z = tl.load(here + 2 * points.grid.axis, mask=present & (tile.RANK > 2), other=0)
            coordinates = unit_scaled((x, y, z), tile, heads.UNIT)
            pixels, kept, scales, valid, near = find(coordinates, point, present, work, tile)
            value = value_of(
                source, image, (pixels, kept, near, valid), weigh_all(scales, tile, 0, 0, 0), real,
                ZERO, tile, outputs,
            )  # fmt: skip
            w = tl.load(shares + k * points.weights.channel, mask=present, other=0).to(tile.REAL)
            total += over_points(w, tile.LAST) * value.to(tile.REAL)
        tl.store(target, total, mask=there)


def weighted_sum_backward(
    values: Values, image: Planes, points: SumPoints, grad_image: GradImage, gradients: SumPoints,
    heads: Heads, grad_heads: Heads, work: Work, tile: Tile, outputs: Outputs, needs: Needs,
) -> None:  # fmt: skip
    """Compute the gradients of `weighted_sum`: add to that of the image, store the others."""
    point, present, item, _ = assignment(work, tile)
    n, head = item // heads.count, item % heads.count
    query = point.to(tile.INDEX)
    places = points.grid.memory + n * points.grid.item + head * heads.grid
    places += query * points.grid.point
    shares = points.weights.memory + n * points.weights.item + head * heads.weights
    shares += query * points.weights.point
    zero = tl.full([tile.BLOCK], 0, tile.REAL)
    for k in tl.range(0, heads.points):
        here = places + k * heads.grid_point
        x = tl.load(here, mask=present, other=0)
        y = tl.load(here + points.grid.axis, mask=present & (tile.RANK > 1), other=0)
        z = tl.load(here + 2 * points.grid.axis, mask=present & (tile.RANK > 2), other=0)
        coordinates = unit_scaled((x, y, z), tile, heads.UNIT)
        pixels, kept, scales, valid, near = find(coordinates, point, present, work, tile)
        tap_weights = weigh_all(scales, tile, 0, 0, 0)
        slopes = tap_weights
        if needs.GRID:
            slopes = weigh_all(scales, tile, 1, 1, 1)
        w = tl.load(shares + k * points.weights.channel, mask=present, other=0).to(tile.REAL)
        by = (zero, zero, zero)
        by_weight = zero
        for chunk in tl.range(0, work.units):
            channel, real = channels_of(chunk, work, tile)
            upstream = values.memory + n * values.item + head * heads.values
            upstream += channel.to(tile.INDEX) * values.channel
            upstream += over_points(query * values.point, tile.LAST)
            there = over_points(present, tile.LAST) & real
            g = tl.load(upstream, mask=there, other=0).to(tile.REAL)
            source = image.memory + n * image.item + head * heads.image
            source += channel.to(tile.INDEX) * image.channel
            if heads.WEIGHTS:
                value = value_of(
                    source, image, (pixels, kept, near, valid), tap_weights, real, ZERO, tile,
                    outputs,
                )  # fmt: skip
                by_weight += share(g * value.to(tile.REAL), present, tile.LAST)
            offset = n * grad_image.item + head * grad_heads.image
            by = return_taps(
                g * over_points(w, tile.LAST), real, source, image, ZERO, grad_image,
                offset + channel.to(tile.INDEX) * grad_image.channel, (pixels, kept, near),
                (tap_weights, slopes), by, tile, needs,
            )  # fmt: skip
        if needs.GRID:
            slopes_at_points = steepened(by, scales)
            to = gradients.grid.memory + n * gradients.grid.item + head * grad_heads.grid
            to += query * gradients.grid.point + k * grad_heads.grid_point
            for axis in tl.static_range(tile.RANK):
                slope = where(near, slopes_at_points[axis], 0)
                if heads.UNIT:
                    slope = slope * 2
                tl.store(to + axis * gradients.grid.axis, slope, mask=present)
        if heads.WEIGHTS:
            to = gradients.weights.memory + n * gradients.weights.item
            to += head * grad_heads.weights + query * gradients.weights.point
            to += k * gradients.weights.channel
            tl.store(to, by_weight, mask=present)


FUNCTIONS = (unit_scaled,)
KERNELS = (weighted_sum, weighted_sum_backward)


# Calls --------------------------------------------------------------------------------------------

INITIAL = 0.0
ARRAYS = ("images", "points", "weights")


class Arrays(NamedTuple):
    """The arrays of one level, their gradients, or the layouts of either.

    Attributes:
        image: (N, S, H, C), where S are the pixels of the level.
        points: (N, Q, H, P, D).
        weights: (N, Q, H, P).
    """

    image: Any
    points: Any
    weights: Any


class Level(NamedTuple):
    """One level of weighted sums.

    Attributes:
        number: its number.
        pixels: the first of its pixels in the images, and the end of them.
        plan: the plan of its samples, whose items are the heads of all items.
        is_unit: whether coordinates are from 0 to 1.
    """

    number: int
    pixels: tuple[int, int]
    plan: Plan
    is_unit: bool

    def places(self) -> list[tuple[Any, ...]]:
        """Return where the part of a level is in each array."""
        points = slice(None), slice(None), slice(None), self.number
        return [(slice(None), slice(*self.pixels)), points, points]

    def parts(self, arrays: Mapping[str, Tensor]) -> Arrays:
        """Return the parts of the arrays."""
        pairs = zip(ARRAYS, self.places(), strict=True)
        return Arrays(*[arrays[name][place] for name, place in pairs])


def levels_of(
    arrays: Mapping[str, Tensor], options: SumOptions, real: np.dtype[Any]
) -> Iterator[Level]:
    """Yield the levels of weighted sums."""
    (items, _, heads, channels), queries = arrays["images"].shape, arrays["points"].shape[1]
    coords = "pixel" if options.coords == "pixel" else "normalized"
    checked = Options(options.mode, options.padding_mode, options.align_corners, coords)
    grid, sizes = (items * heads, queries, options.rank), options.levels()
    for number, (size, pixels) in enumerate(zip(sizes, pixels_of(sizes), strict=True)):
        plan = plan_of((items * heads, channels, *size), real, grid, real, checked)
        yield Level(number, pixels, plan, options.coords == "unit")


def additions(name: str, sizes: Mapping[str, int], options: SumOptions) -> int:
    """Return how many values are added to a number; see `gridsample.kernels.gpu.operators`."""
    taps = math.prod(find_method(method).taps for method in options.mode)
    return sizes["q"] * sizes["p"] * taps if name == "images" else 0


def compute(
    arrays: Mapping[str, Tensor], options: SumOptions, result: Total, context: Context
) -> None:
    """Compute the result; see `gridsample.kernels.gpu.operators`."""
    for level in levels_of(arrays, options, result.real):
        image, points, weights = parts = level.parts(arrays)
        call = sum_call(level, Arrays(*layouts(*parts)), *layouts(result.memory))
        call.run(
            context.launch, image=image, points_grid=points, points_weights=weights,
            out=result.memory,
        )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def sum_call(level: Level, arrays: Arrays, out: Layout) -> Call:
    """Make the call for the result of a level."""
    plan, order = level.plan, (0,) * len(level.plan.spatial)
    return sampling_call(
        weighted_sum, plan, order, grid_of(arrays.points), (*arrays, out), side_by_side(arrays),
        False, None, 1, 1, image=pixels(arrays.image, plan),
        points=points_of(arrays), out=values_of(out), heads=heads_of(level, arrays, out),
        outputs=outputs_of(plan),
    )  # fmt: skip


def differentiate(
    arrays: Mapping[str, Tensor],
    options: SumOptions,
    gradients: Mapping[str, Total],
    context: Context,
) -> None:
    """Compute gradients; see `gridsample.kernels.gpu.operators`."""
    real, upstream = next(iter(gradients.values())).real, arrays["upstream"]
    for level in levels_of(arrays, options, real):
        image, points, weights = parts = level.parts(arrays)
        totals = {
            name: gradients[name].part(*place)
            for name, place in zip(ARRAYS, level.places(), strict=True)
            if name in gradients
        }
        targets = Arrays(*[totals[name].memory if name in totals else None for name in ARRAYS])
        sums = totals["images"].sums if "images" in totals else None
        kinds = Arrays(*layouts(*parts)), Arrays(*layouts(*targets))
        call = sum_gradients_call(level, *kinds, *layouts(upstream), sums is not None)
        call.add_up(
            context.launch, sums, targets.image, values=upstream, image=image, points_grid=points,
            points_weights=weights, gradients_grid=targets.points,
            gradients_weights=targets.weights,
        )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def sum_gradients_call(
    level: Level, arrays: Arrays, gradients: Arrays, upstream: Layout, exact: bool
) -> Call:
    """Make the call for the gradients of a level; those that are not needed are None."""
    plan, order = level.plan, (0,) * len(level.plan.spatial)
    needs = [layout is not None for layout in gradients]
    targets = Arrays(*[mine or theirs for mine, theirs in zip(gradients, arrays, strict=True)])
    image = pixels(targets.image, plan)
    made = sampling_call(
        weighted_sum_backward, plan, order, grid_of(arrays.points),
        (*arrays, *targets, upstream), side_by_side(targets), False, None, 4 if exact else 3,
        2 if needs[1] else 1, image=pixels(arrays.image, plan), values=values_of(upstream),
        points=points_of(arrays), grad_image=GradImage(*image, **NO_SUMS),
        gradients=points_of(targets),
        heads=heads_of(level, arrays, upstream)._replace(WEIGHTS=needs[2]),
        grad_heads=heads_of(level, targets, upstream), outputs=outputs_of(plan),
        needs=Needs(
            IMAGE=needs[0], GRID=needs[1],
            JOIN=crowded(plan, Layout((1, 1, *plan.spatial), ())), SUMS=AS_THEY_COME,
        ),
    )  # fmt: skip
    return undivided(made)


# The records of arrays ----------------------------------------------------------------------------


def side_by_side(arrays: Arrays) -> bool:
    """Whether the channels of a pixel are contiguous in memory."""
    last: bool = arrays.image.shape[3] > 1 and arrays.image.strides[3] == 1
    return last


def pixels(image: Layout, plan: Plan) -> Planes:
    """Describe the pixels of the first head of (N, S, H, C) to kernels, without their memory."""
    item, pixel, _, channel = image.strides
    return planes_of((item, pixel, channel), plan.spatial)


def grid_of(points: Layout) -> Layout:
    """Return the layout of (N, Q, D), of the first head and point of (N, Q, H, P, D)."""
    (items, queries, _, _, rank), (item, query, _, _, axis) = points
    return Layout((items, queries, rank), (item, query, axis))


def points_of(arrays: Arrays) -> SumPoints:
    """Describe (N, Q, H, P, D) and (N, Q, H, P) to kernels, without their memory."""
    item, query, _, point = arrays.weights.strides
    grid = Grid(None, *grid_of(arrays.points).strides)
    return SumPoints(grid, Values(None, item, point, query))


def values_of(values: Layout) -> Values:
    """Describe (N, Q, H, C) to kernels."""
    item, query, _, channel = values.strides
    return Values(None, item, channel, query)


def heads_of(level: Level, arrays: Arrays, values: Layout) -> Heads:
    """Describe the heads and the points of queries to kernels."""
    points = arrays.points
    return Heads(
        count=points.shape[2], points=points.shape[3], image=arrays.image.strides[2],
        grid=points.strides[2], weights=arrays.weights.strides[2], values=values.strides[2],
        grid_point=points.strides[3], UNIT=level.is_unit, WEIGHTS=False,
    )  # fmt: skip


def outputs_of(plan: Plan) -> Outputs:
    """Describe samples to kernels: those of invalid points are NaN."""
    return Outputs(
        COPY=copies(plan, (0,) * len(plan.spatial)), VOTE=False, BACKED=False, NAN=True,
        ROUND=False, LOW=0, HIGH=0,
    )  # fmt: skip
