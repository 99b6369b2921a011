"""Splats in which values compete for a pixel: each program processes a block of points.

`splat_maximum` finds the greatest metric that reaches each pixel, by an atomic maximum; `splat`
adds the weights, or the values times these; `splat_gradients` reads the pixels around each point.
Points are those of `sweeps`, with bilinear weights.

As in `taps`, kernels are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import ONE, ZERO
from gridsample.definitions.methods import LINEAR
from gridsample.definitions.operators import SplatOptions
from gridsample.definitions.options import Options, plan_of
from gridsample.definitions.plan import Plan
from gridsample.kernels.gpu import NO_SUMS, crowded, sampling_call
from gridsample.kernels.gpu.choices import COUNT
from gridsample.kernels.gpu.flattening import Function
from gridsample.kernels.gpu.launching import Call, Layout, Tensor, layouts
from gridsample.kernels.gpu.operators import Context, Total, planes_of, undivided
from gridsample.kernels.gpu.parts import (
    AS_THEY_COME,
    assignment,
    channels_of,
    find,
    line_kept,
    line_start,
    line_weight,
    look_up,
    over_points,
    weigh_all,
)
from gridsample.kernels.gpu.records import (
    GradImage,
    Grid,
    Needs,
    Planes,
    Splat,
    SplatNeeds,
    SplatPixels,
    SplatPoints,
    Static,
    Tile,
    Values,
    Work,
)
from gridsample.kernels.gpu.sums import add
from gridsample.kernels.gpu.sweeps import add_slopes, share, steepened
from gridsample.kernels.gpu.taps import maximum, tl, where


def counted(coordinates: Any, metric: Any, present: Any, tile: Tile) -> Any:
    """Return which points count: those whose coordinates are finite, with a metric."""
    present = present & (metric == metric)
    for axis in tl.static_range(tile.RANK):
        present = present & (coordinates[axis] - coordinates[axis] == ZERO)
    return present


def splat_maximum(points: SplatPoints, out: Planes, work: Work, tile: Tile) -> None:
    """Find the greatest metric of the points with a weight at each pixel of ``out``."""
    point, present, item, _ = assignment(work, tile)
    here = item * points.grid.item + point.to(tile.INDEX) * points.grid.point
    x = tl.load(points.grid.memory + here, mask=present, other=0)
    y = tl.load(
        points.grid.memory + here + points.grid.axis, mask=present & (tile.RANK > 1), other=0
    )
    z = tl.load(
        points.grid.memory + here + 2 * points.grid.axis, mask=present & (tile.RANK > 2), other=0
    )
    own = (
        points.metric.memory
        + item * points.metric.item
        + point.to(tile.INDEX) * points.metric.point
    )
    number = tl.load(own, mask=present, other=0).to(tile.REAL)
    present = counted((x, y, z), number, present, tile)
    pixels, kept, scales, _, near = find((x, y, z), point, present, work, tile)
    wx, wy, wz = weigh_all(scales, tile, 0, 0, 0)
    for line in tl.static_range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
        inside = line_kept(kept, near, line, tile.Y, tile.Z)
        start = line_start(pixels, out.y, out.z, line, tile.Y, tile.Z)
        w = line_weight(wy, wz, line, tile.Y, tile.Z)
        for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
            there = inside & kept[0][i] & (w * wx[i] > 0)
            target = out.memory + item * out.item + start + pixels[0][i] * out.x
            tl.atomic_max(target, number, mask=there, sem="relaxed")


def shares_of(
    metric: Any,
    item: Any,
    image: SplatPixels,
    pixels: Any,
    kept: Any,
    near: Any,
    splat: Splat,
    tile: Tile,
) -> Any:
    """Return the factors of the bilinear weights of all taps, and the sums of their pixels.

    A factor is relative to the greatest metric of its pixel; the sum is 1 if weights are not
    divided by it.
    """
    factors: Any = ()
    sums: Any = ()
    for line in tl.static_range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
        inside = line_kept(kept, near, line, tile.Y, tile.Z)
        start = line_start(pixels, image.greatest.y, image.greatest.z, line, tile.Y, tile.Z)
        other = line_start(pixels, image.total.y, image.total.z, line, tile.Y, tile.Z)
        for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
            there = inside & kept[0][i]
            at = (
                image.greatest.memory
                + item * image.greatest.item
                + start
                + pixels[0][i] * image.greatest.x
            )
            difference = metric - tl.load(at, mask=there, other=0)
            if splat.HARD:
                factor = where(difference < 0, ZERO, ONE)
            else:
                # A point whose weight is 0 may have a greater metric than its pixel.
                factor = tl.exp(where(difference <= 0, difference, 0))
            factors = factors + (factor,)
            whole = tl.full([tile.BLOCK], 1, tile.REAL)
            if splat.DIVIDED:
                at = (
                    image.total.memory
                    + item * image.total.item
                    + other
                    + pixels[0][i] * image.total.x
                )
                whole = tl.load(at, mask=there, other=0)
            sums = sums + (whole,)
    return factors, sums


def at_tap(shares: Any, LINE: Static, TAP: Static, tile: Tile) -> Any:
    """Return the factor of a tap, and the sum of its pixel."""
    return shares[0][LINE * tile.X[COUNT] + TAP], shares[1][LINE * tile.X[COUNT] + TAP]


def quotient_of(factor: Any, whole: Any, least: Any) -> Any:
    """Divide a factor by the sum of a pixel, or by ``least``; return 0 if the sum is 0."""
    return where(whole > 0, factor / maximum(where(whole > 0, whole, 1), least), 0)


def splat(
    points: SplatPoints,
    image: SplatPixels,
    grad_image: GradImage,
    work: Work,
    tile: Tile,
    splat: Splat,
    needs: Needs,
) -> None:
    """Add the weights of points to the pixels around them; or values times these, if DIVIDED."""
    point, present, item, split = assignment(work, tile)
    here = item * points.grid.item + point.to(tile.INDEX) * points.grid.point
    x = tl.load(points.grid.memory + here, mask=present, other=0)
    y = tl.load(
        points.grid.memory + here + points.grid.axis, mask=present & (tile.RANK > 1), other=0
    )
    z = tl.load(
        points.grid.memory + here + 2 * points.grid.axis, mask=present & (tile.RANK > 2), other=0
    )
    own = (
        points.metric.memory
        + item * points.metric.item
        + point.to(tile.INDEX) * points.metric.point
    )
    number = tl.load(own, mask=present, other=0).to(tile.REAL)
    present = counted((x, y, z), number, present, tile)
    pixels, kept, scales, _, near = find((x, y, z), point, present, work, tile)
    wx, wy, wz = weigh_all(scales, tile, 0, 0, 0)
    shares = shares_of(number, item, image, pixels, kept, near, splat, tile)
    for chunk in tl.range(split, work.units, work.splits):
        channel, real = channels_of(chunk, work, tile)
        value = tl.full(
            [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 1, tile.REAL
        )
        if splat.DIVIDED:
            source = (
                points.values.memory
                + item * points.values.item
                + channel.to(tile.INDEX) * points.values.channel
            )
            source += over_points(point.to(tile.INDEX) * points.values.point, tile.LAST)
            value = tl.load(source, mask=over_points(near, tile.LAST) & real, other=0)
        offset = item * grad_image.item + channel.to(tile.INDEX) * grad_image.channel
        for line in tl.static_range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
            inside = line_kept(kept, near, line, tile.Y, tile.Z)
            start = line_start(pixels, grad_image.y, grad_image.z, line, tile.Y, tile.Z)
            w = line_weight(wy, wz, line, tile.Y, tile.Z)
            for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
                factor, whole = at_tap(shares, line, i, tile)
                weight = quotient_of(w * wx[i] * factor, whole, ZERO)
                # Values without a weight are left out: they may be NaN.
                there = inside & kept[0][i] & (weight > 0)
                at = start + pixels[0][i] * grad_image.x
                part = value * over_points(weight, tile.LAST)
                add(grad_image, offset, at, part, there, real, tile, needs.JOIN, needs.SUMS)


def splat_gradients(
    points: SplatPoints,
    image: SplatPixels,
    upstream: Planes,
    mean: Planes,
    gradients: SplatPoints,
    work: Work,
    tile: Tile,
    splat: Splat,
    needs: SplatNeeds,
) -> None:
    """Store the gradients of values, metrics and positions, given the means of all pixels.

    A pixel adds its upstream value, times the difference of a point's value from the mean.
    """
    point, present, item, _ = assignment(work, tile)
    query = point.to(tile.INDEX)
    here = item * points.grid.item + query * points.grid.point
    x = tl.load(points.grid.memory + here, mask=present, other=0)
    y = tl.load(
        points.grid.memory + here + points.grid.axis, mask=present & (tile.RANK > 1), other=0
    )
    z = tl.load(
        points.grid.memory + here + 2 * points.grid.axis, mask=present & (tile.RANK > 2), other=0
    )
    own = points.metric.memory + item * points.metric.item + query * points.metric.point
    number = tl.load(own, mask=present, other=0).to(tile.REAL)
    present = counted((x, y, z), number, present, tile)
    pixels, kept, scales, _, near = find((x, y, z), point, present, work, tile)
    wx, wy, wz = weigh_all(scales, tile, 0, 0, 0)
    dx, dy, dz = weigh_all(scales, tile, 1, 1, 1)
    shares = shares_of(number, item, image, pixels, kept, near, splat, tile)
    zero = tl.full([tile.BLOCK], 0, tile.REAL)
    tiny = tl.full([], splat.TINY, tile.REAL)
    by_metric = zero
    by_x = zero
    by_y = zero
    by_z = zero
    for chunk in tl.range(0, work.units):
        channel, real = channels_of(chunk, work, tile)
        channel = channel.to(tile.INDEX)
        source = points.values.memory + item * points.values.item + channel * points.values.channel
        source += over_points(query * points.values.point, tile.LAST)
        value = tl.load(source, mask=over_points(near, tile.LAST) & real, other=0)
        mine = tl.full(
            [tile.BLOCK, tile.DEPTH] if tile.LAST else [tile.DEPTH, tile.BLOCK], 0, tile.REAL
        )
        above = upstream.memory + item * upstream.item + channel * upstream.channel
        means = mean.memory + item * mean.item + channel * mean.channel
        for line in tl.static_range(tl.constexpr(tile.Y[COUNT] * tile.Z[COUNT])):
            inside = line_kept(kept, near, line, tile.Y, tile.Z)
            start = line_start(pixels, upstream.y, upstream.z, line, tile.Y, tile.Z)
            other = line_start(pixels, mean.y, mean.z, line, tile.Y, tile.Z)
            w = line_weight(wy, wz, line, tile.Y, tile.Z)
            w_y = line_weight(dy, wz, line, tile.Y, tile.Z)
            w_z = line_weight(wy, dz, line, tile.Y, tile.Z)
            for i in tl.static_range(tl.constexpr(tile.X[COUNT])):
                factor, whole = at_tap(shares, line, i, tile)
                weight = quotient_of(w * wx[i] * factor, whole, ZERO)
                # The sum of tiny weights may be so small that its inverse overflows.
                slope = quotient_of(factor, whole, tiny)
                there = inside & kept[0][i] & (slope > 0)
                at = start + pixels[0][i] * upstream.x
                g = look_up(above, at, there, real, ZERO, tile, False)
                mine += g * over_points(weight, tile.LAST)
                if needs.METRIC or needs.GRID:
                    at = other + pixels[0][i] * mean.x
                    centre = look_up(means, at, there, real, ZERO, tile, False)
                    product = share(g * (value - centre), there, tile.LAST)
                    by_metric += weight * product
                    by_x, by_y, by_z = add_slopes(
                        by_x,
                        by_y,
                        by_z,
                        slope * product,
                        w * dx[i],
                        w_y * wx[i],
                        w_z * wx[i],
                        tile,
                    )
        if needs.VALUES:
            target = gradients.values.memory + item * gradients.values.item
            target += channel * gradients.values.channel
            target += over_points(query * gradients.values.point, tile.LAST)
            tl.store(target, mine, mask=over_points(near, tile.LAST) & real)
    if needs.METRIC:
        target = gradients.metric.memory + item * gradients.metric.item
        target += query * gradients.metric.point
        tl.store(target, by_metric, mask=near)
    if needs.GRID:
        slopes = steepened((by_x, by_y, by_z), scales)
        target = gradients.grid.memory + item * gradients.grid.item + query * gradients.grid.point
        for axis in tl.static_range(tile.RANK):
            tl.store(target + axis * gradients.grid.axis, slopes[axis], mask=near)


FUNCTIONS = (counted, shares_of, at_tap, quotient_of)
KERNELS = (splat_maximum, splat, splat_gradients)


# Calls --------------------------------------------------------------------------------------------

INITIAL = 0.0


class SplatCall(NamedTuple):
    """What a splat is, apart from the memory of its arrays.

    Attributes:
        plan: the plan of the samples whose transpose it is.
        hard: whether only values of the greatest metric of a pixel count.
    """

    plan: Plan
    hard: bool

    def make(
        self,
        kernel: Function,
        points: Points,
        tensors: Sequence[Layout],
        last: bool,
        visits: int,
        **records: Any,
    ) -> Call:
        """Make the call of a kernel that takes points; the other arguments as `sampling_call`."""
        order, grid = (0,) * len(self.plan.spatial), points.grid
        given = [*tensors, *points.present()]
        records["points"] = points.record()
        call = self.plan, order, grid, given, last, False, None, visits, 2
        return sampling_call(kernel, *call, **records)


class Points(NamedTuple):
    """Points that are splatted, their gradients, or the layouts of either; None if not needed.

    Attributes:
        grid: (N, P, D).
        metric: (N, P).
        values: (N, P, C).
    """

    grid: Any
    metric: Any
    values: Any = None

    def named(self, name: str) -> dict[str, Any]:
        """Return the tensors by the names of the arguments that take them."""
        return {f"{name}_{field}": tensor for field, tensor in self._asdict().items()}

    def layouts(self) -> Points:
        """Return the layouts of the tensors."""
        return Points(*layouts(*self))

    def present(self) -> list[Layout]:
        """Return the layouts that there are."""
        return [layout for layout in self if layout is not None]

    def record(self) -> SplatPoints:
        """Describe layouts to kernels."""
        none = Layout((0, 0, 0), (0, 0, 0))
        grid, metric, values = [layout or none for layout in self]
        return SplatPoints(Grid(None, *grid.strides), values_of(metric), values_of(values))


def points_of(arrays: Mapping[str, Tensor]) -> Points:
    """Return the points among arrays."""
    return Points(arrays.get("positions"), arrays.get("metric"), arrays.get("values"))


def call_of(arrays: Mapping[str, Tensor], options: SplatOptions, real: np.dtype[Any]) -> SplatCall:
    """Describe the call for arrays."""
    grid = tuple(arrays["positions"].shape)
    channels = arrays["values"].shape[2] if "values" in arrays else 1
    rules = (LINEAR,) * len(options.size), options.padding_mode
    checked = Options(*rules, align_corners=False, coords="pixel")
    image = grid[0], channels, *options.size
    return SplatCall(plan_of(image, real, grid, real, checked), options.hard)


def no_additions(name: str, sizes: Mapping[str, int], options: SplatOptions) -> int:
    """Return that nothing is added; see `gridsample.kernels.gpu.operators`."""
    return 0


def no_gradients(
    arrays: Mapping[str, Tensor],
    options: SplatOptions,
    gradients: Mapping[str, Total],
    context: Context,
) -> None:
    """Leave gradients at 0; see `gridsample.kernels.gpu.operators`."""


def additions(name: str, sizes: Mapping[str, int], options: SplatOptions) -> int:
    """Return how many values are added to a number; see `gridsample.kernels.gpu.operators`."""
    return sizes["p"] << len(options.size) if name == "result" else 0


def find_maximum(
    arrays: Mapping[str, Tensor], options: SplatOptions, result: Total, context: Context
) -> None:
    """Compute the greatest metric of each pixel; see `gridsample.kernels.gpu.operators`."""
    points, call = points_of(arrays), call_of(arrays, options, result.real)
    made = maximum_call(call, points.layouts(), *layouts(result.memory))
    made.run(context.launch, **points.named("points"), out=result.memory)


@functools.lru_cache(maxsize=1024)
def maximum_call(call: SplatCall, points: Points, out: Layout) -> Call:
    """Make the call for `splat_maximum`."""
    return call.make(splat_maximum, points, [out], False, 1, out=pixels(out, call.plan))


def compute(
    arrays: Mapping[str, Tensor], options: SplatOptions, result: Total, context: Context
) -> None:
    """Compute the result, or the sums of weights; see `gridsample.kernels.gpu.operators`."""
    points, call = points_of(arrays), call_of(arrays, options, result.real)
    greatest, total, sums = arrays["greatest"], arrays.get("total"), result.sums
    kinds = layouts(greatest, total, result.memory)
    made = splat_call(call, points.layouts(), *kinds, sums is not None)
    tensors = {**points.named("points"), "image_greatest": greatest, "image_total": total}
    made.add_up(context.launch, sums, result.memory, **tensors)


@functools.lru_cache(maxsize=1024)
def splat_call(
    call: SplatCall,
    points: Points,
    greatest: Layout,
    total: Layout | None,
    out: Layout,
    exact: bool,
) -> Call:
    """Make the call for `splat`; for the sums of weights, there are neither values nor totals."""
    plan = call.plan
    joins = crowded(plan, Layout((1, 1, *plan.spatial), ()))
    image = SplatPixels(pixels(greatest, plan), pixels(total or greatest, plan))
    return call.make(
        splat,
        points,
        [greatest, out],
        is_last(out),
        3 if exact else 2,
        image=image,
        grad_image=GradImage(*pixels(out, plan), **NO_SUMS),
        splat=splat_of(call, points.values is not None),
        needs=Needs(IMAGE=True, GRID=False, JOIN=joins, SUMS=AS_THEY_COME),
    )


def differentiate(
    arrays: Mapping[str, Tensor],
    options: SplatOptions,
    gradients: Mapping[str, Total],
    context: Context,
) -> None:
    """Compute gradients; see `gridsample.kernels.gpu.operators`."""
    call = call_of(arrays, options, next(iter(gradients.values())).real)
    points = points_of(arrays)
    targets = points_of({name: total.memory for name, total in gradients.items()})
    if options.hard:  # the metric then has no gradient
        targets = targets._replace(metric=None)
    images = [arrays[name] for name in ("upstream", "result", "greatest", "total")]
    made = gradients_call(call, points.layouts(), tuple(layouts(*images)), targets.layouts())
    fields = "upstream", "mean", "image_greatest", "image_total"
    tensors = points.named("points") | dict(zip(fields, images, strict=True))
    made.run(context.launch, **tensors, **targets.named("gradients"))


@functools.lru_cache(maxsize=1024)
def gradients_call(
    call: SplatCall, points: Points, images: tuple[Layout, ...], gradients: Points
) -> Call:
    """Make the call for `splat_gradients`; gradients that are not needed are None.

    ``images`` are the layouts of the upstream values, the means, the greatest metrics and the sums.
    """
    upstream, mean, greatest, total = [pixels(image, call.plan) for image in images]
    made = call.make(
        splat_gradients,
        points,
        [*images, *gradients.present()],
        is_last(images[0]),
        2,
        image=SplatPixels(greatest, total),
        upstream=upstream,
        mean=mean,
        gradients=gradients.record(),
        splat=splat_of(call, True),
        needs=SplatNeeds(
            VALUES=gradients.values is not None,
            METRIC=gradients.metric is not None,
            GRID=gradients.grid is not None,
        ),
    )
    return undivided(made)


# The records of arrays ----------------------------------------------------------------------------


def splat_of(call: SplatCall, is_divided: bool) -> Splat:
    """Describe the weights of a call to kernels."""
    return Splat(call.hard, is_divided, float(np.finfo(call.plan.real).tiny))


def is_last(pixels: Layout) -> bool:
    """Whether the channels of (N, Q, C) are contiguous in memory; (N, Q) has none."""
    return len(pixels.shape) > 2 and pixels.shape[2] > 1 and pixels.strides[2] == 1


def values_of(values: Layout) -> Values:
    """Describe the points of (N, P, C) or (N, P) to kernels, without their memory."""
    item, point, channel = (*values.strides, 0)[:3]
    return Values(None, item, channel, point)


def pixels(image: Layout, plan: Plan) -> Planes:
    """Describe the pixels of (N, Q, C) or (N, Q) to kernels, without their memory."""
    return planes_of((*image.strides, 0)[:3], plan.spatial)
