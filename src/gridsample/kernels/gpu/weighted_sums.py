"""Weighted sums of samples: each program processes a block of queries of one item and head.

The points of a query are processed one after the other, those of one level in a launch: the sum of
a query begins with that of the levels before.  Samples and their gradients are those of `sweeps`.

As in `taps`, the functions are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ZERO
from gridsample.kernels.gpu.parts import (
    assignment,
    channels_of,
    find,
    over_points,
    weigh_all,
)
from gridsample.kernels.gpu.records import (
    GradImage,
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
        total = tl.full(
            [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 0, tile.REAL
        )
        if heads.CONTINUES:
            total += tl.load(target, mask=there, other=0)
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
