"""Windows of dot products: each program processes the window of one query in one level.

The samples of a window are whole pixels apart, and so share their taps: along each axis, the
2 r + 1 of them are blends of 2 r + 2 pixels, with the same two weights.  `window_dots` computes the
dot product of the query's features with each of these pixels, and `blend_dots` the samples from
these products.  `window_gradients` blends upstream values in the transposed way, which gives the
weight of each pixel, and its derivatives.

A tile has taps and channels.  Taps and samples of a window are numbered with the last axis fastest.

As in `taps`, kernels are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import FLOOR, ONE, ZERO, ZEROS, confine, fold_index, known, split
from gridsample.definitions.operators import LookupOptions, correlation_scale
from gridsample.definitions.shapes import Shape
from gridsample.kernels.gpu import NO_SUMS, index_type, real_type
from gridsample.kernels.gpu.choices import ALONE, IN_PIXELS
from gridsample.kernels.gpu.flattening import Function, flat_values, parameters
from gridsample.kernels.gpu.launching import Call, Layout, Tensor, layouts, power_of_two
from gridsample.kernels.gpu.operators import Context, Total, pixels_of, planes_of
from gridsample.kernels.gpu.parts import AS_THEY_COME, GIVEN, channels_of, plus
from gridsample.kernels.gpu.records import (
    GradImage,
    Grid,
    Planes,
    Static,
    Tile,
    Values,
    WindowNeeds,
    Windows,
    Work,
)
from gridsample.kernels.gpu.sums import add
from gridsample.kernels.gpu.taps import tl, where


def digit(number: Any, BASE: Static, AXIS: Static, RANK: Static) -> Any:
    """Return the place along an axis, of BASE places, of a number; the last axis is fastest."""
    for _ in tl.static_range(tl.constexpr(RANK - 1 - AXIS)):
        number = number // BASE
    return number % BASE


def window_taps(
    positions: Any, tap: Any, present: Any, windows: Windows, work: Work, tile: Tile
) -> Any:
    """Find taps of windows around positions: their pixels along each axis.

    Also return which are in the image, the fractions of the positions, and which of these are
    valid.
    """
    TAPS: Static = 2 * windows.RADIUS + 2
    pixels: Any = ()
    fractions: Any = ()
    valid = present
    sizes = (work.size_x, work.size_y, work.size_z)
    for axis in tl.static_range(3):
        if axis < tile.RANK:
            place = positions[axis].to(tile.REAL) * windows.shrink
            valid = valid & known(place, ZEROS)
            last = tl.cast(sizes[axis] - 1, tile.REAL)
            base, t = split(confine(place, last, windows.RADIUS + ONE + ONE, ZEROS, ZERO), FLOOR)
            at = base.to(tile.INDEX) + digit(tap, TAPS, axis, tile.RANK) - windows.RADIUS
            index = fold_index(at, sizes[axis], ZEROS, ZERO)
            present = present & (index >= 0)
            pixels = pixels + (where(index >= 0, index, 0),)
            fractions = fractions + (t,)
        else:
            pixels = pixels + (tap * 0,)
            fractions = fractions + (ZERO,)
    return pixels, present & valid, fractions, valid


def window_dots(
    source: Values,
    image: Planes,
    grid: Grid,
    dots: Values,
    windows: Windows,
    work: Work,
    tile: Tile,
) -> None:
    """Store the correlation of a query with some taps of its window; 0 outside the image."""
    TAPS: Static = (2 * windows.RADIUS + 2) ** tile.RANK
    blocks: Static = (TAPS + tile.BLOCK - 1) // tile.BLOCK
    number = tl.program_id(0)
    tap = number % blocks * tile.BLOCK + tl.arange(0, tile.BLOCK)
    query = number // blocks % work.points
    n = (number // blocks // work.points).to(tl.int64)
    present = tap < TAPS
    query = query.to(tile.INDEX)
    here = grid.memory + n * grid.item + query * grid.point + tap * 0
    x = tl.load(here, mask=present, other=0)
    y = tl.load(here + grid.axis, mask=present & (tile.RANK > 1), other=0)
    z = tl.load(here + 2 * grid.axis, mask=present & (tile.RANK > 2), other=0)
    pixels, inside, _, _ = window_taps((x, y, z), tap, present, windows, work, tile)
    at = pixels[2] * image.z + pixels[1] * image.y + pixels[0] * image.x
    products = tl.full([tile.BLOCK, tile.DEPTH], 0, tile.REAL)
    for chunk in tl.range(0, work.units):
        channel, real = channels_of(chunk, work, tile)
        features = source.memory + n * source.item + query * source.point
        own = tl.load(features + channel * source.channel, mask=real, other=0).to(tile.REAL)
        pixel = image.memory + n * image.item + at[:, None] + channel * image.channel
        value = tl.load(pixel, mask=inside[:, None] & real, other=0).to(tile.REAL)
        products += value * own
    total = tl.reduce(products, 1, plus) * tl.full([], windows.SCALE, tile.REAL)
    total = where(inside, total, 0)
    target = dots.memory + n * dots.item + query * dots.point + tap
    tl.store(target, total, mask=present)


def blend_dots(
    dots: Values, grid: Grid, out: Values, windows: Windows, work: Work, tile: Tile
) -> None:
    """Store samples of windows, of a block of all those of an item."""
    SIDE: Static = 2 * windows.RADIUS + 1
    SAMPLES: Static = SIDE**tile.RANK
    blocks = (work.points * SAMPLES + tile.BLOCK - 1) // tile.BLOCK
    number = tl.program_id(0)
    sample = number % blocks * tile.BLOCK + tl.arange(0, tile.BLOCK)
    n = (number // blocks).to(tl.int64)
    query = (sample // SAMPLES).to(tile.INDEX)
    sample = sample % SAMPLES
    present = query < work.points
    here = grid.memory + n * grid.item + query * grid.point
    x = tl.load(here, mask=present, other=0)
    y = tl.load(here + grid.axis, mask=present & (tile.RANK > 1), other=0)
    z = tl.load(here + 2 * grid.axis, mask=present & (tile.RANK > 2), other=0)
    _, _, t, valid = window_taps((x, y, z), sample * 0, present, windows, work, tile)
    source = dots.memory + n * dots.item + query * dots.point
    total = tl.full([tile.BLOCK], 0, tile.REAL)
    for corner in tl.static_range(tl.constexpr(2**tile.RANK)):
        tap = sample * 0
        weight = tl.full([tile.BLOCK], 1, tile.REAL)
        for axis in tl.static_range(tile.RANK):
            along = digit(sample, SIDE, axis, tile.RANK) + (corner >> axis) % 2
            tap = tap * (SIDE + 1) + along
            weight = weight * (t[axis] if (corner >> axis) % 2 else 1 - t[axis])
        total += weight * tl.load(source + tap, mask=present, other=0)
    total = where(valid, total, tl.full([], float("nan"), tile.REAL))
    target = out.memory + n * out.item + query * out.point + sample * out.channel
    tl.store(target, total, mask=present)


def tap_weights(
    upstream: Any, step: Any, tap: Any, inside: Any, t: Any, windows: Windows, tile: Tile
) -> Any:
    """Return the weights of taps: sums of upstream values; and their derivatives along each axis.

    ``step`` is the distance between the samples of a window.
    """
    SIDE: Static = 2 * windows.RADIUS + 1
    zero = tl.full([tile.BLOCK], 0, tile.REAL)
    total = zero
    by_x = zero
    by_y = zero
    by_z = zero
    for corner in tl.static_range(tl.constexpr(2**tile.RANK)):
        sample = tap * 0
        there = inside
        weights: Any = ()
        slopes: Any = ()
        for axis in tl.static_range(3):
            if axis < tile.RANK:
                along = digit(tap, SIDE + 1, axis, tile.RANK) - (corner >> axis) % 2
                there = there & (along >= 0) & (along < SIDE)
                sample = sample * SIDE + along
                weights = weights + (t[axis] if (corner >> axis) % 2 else 1 - t[axis],)
                slopes = slopes + (ONE if (corner >> axis) % 2 else -ONE,)
            else:
                weights = weights + (ONE,)
                slopes = slopes + (ZERO,)
        value = tl.load(upstream + sample * step, mask=there, other=0).to(tile.REAL)
        total += value * (weights[0] * weights[1] * weights[2])
        by_x += value * (slopes[0] * weights[1] * weights[2])
        by_y += value * (weights[0] * slopes[1] * weights[2])
        by_z += value * (weights[0] * weights[1] * slopes[2])
    scale = tl.full([], windows.SCALE, tile.REAL)
    return total * scale, by_x * scale, by_y * scale, by_z * scale


def window_gradients(
    upstream: Values,
    source: Values,
    image: Planes,
    grid: Grid,
    grad_source: Values,
    grad_image: GradImage,
    grad_grid: Grid,
    windows: Windows,
    work: Work,
    tile: Tile,
    needs: WindowNeeds,
) -> None:
    """Add the gradients of a query and its position, and those of the pixels of its window."""
    TAPS: Static = (2 * windows.RADIUS + 2) ** tile.RANK
    number = tl.program_id(0)
    query = (number % work.points).to(tile.INDEX)
    n = (number // work.points).to(tl.int64)
    index = tl.arange(0, tile.BLOCK)
    here = grid.memory + n * grid.item + query * grid.point + index * 0
    x = tl.load(here)
    y = tl.load(here + grid.axis, mask=(index >= 0) & (tile.RANK > 1), other=0)
    z = tl.load(here + 2 * grid.axis, mask=(index >= 0) & (tile.RANK > 2), other=0)
    zero = tl.full([tile.BLOCK], 0, tile.REAL)
    by_x = zero
    by_y = zero
    by_z = zero
    values = upstream.memory + n * upstream.item + query * upstream.point
    for chunk in tl.range(0, work.units):
        channel, real = channels_of(chunk, work, tile)
        features = source.memory + n * source.item + query * source.point
        own = tl.load(features + channel * source.channel, mask=real, other=0).to(tile.REAL)
        total = tl.full([tile.BLOCK, tile.DEPTH], 0, tile.REAL)
        for first in tl.range(0, TAPS, tile.BLOCK):
            tap = first + index
            pixels, inside, t, _ = window_taps((x, y, z), tap, tap < TAPS, windows, work, tile)
            weight, along_x, along_y, along_z = tap_weights(
                values, upstream.channel, tap, inside, t, windows, tile
            )
            if needs.IMAGE:
                to = pixels[2] * grad_image.z + pixels[1] * grad_image.y + pixels[0] * grad_image.x
                offset = n * grad_image.item + channel * grad_image.channel
                value = weight[:, None] * own
                add(grad_image, offset, to, value, inside, real, tile, False, needs.SUMS)
            if needs.VALUES or needs.GRID:
                at = pixels[2] * image.z + pixels[1] * image.y + pixels[0] * image.x
                pixel = image.memory + n * image.item + at[:, None] + channel * image.channel
                value = tl.load(pixel, mask=inside[:, None] & real, other=0).to(tile.REAL)
                total += weight[:, None] * value
                if needs.GRID:
                    dot = where(inside, tl.reduce(value * own, 1, plus), 0)
                    by_x += along_x * dot
                    by_y += along_y * dot
                    by_z += along_z * dot
        if needs.VALUES:
            target = grad_source.memory + n * grad_source.item + query * grad_source.point
            target += channel * grad_source.channel
            before = tl.load(target, mask=real, other=0)
            tl.store(target, before + tl.reduce(total, 0, plus)[None, :], mask=real)
    if needs.GRID:
        target = grad_grid.memory + n * grad_grid.item + query * grad_grid.point
        slopes = (by_x, by_y, by_z)
        for axis in tl.static_range(tile.RANK):
            place = target + axis * grad_grid.axis
            slope = tl.reduce(slopes[axis], 0, plus) * windows.shrink
            tl.store(place, tl.load(place) + slope)


FUNCTIONS = (digit, window_taps, tap_weights)
KERNELS = (window_dots, blend_dots, window_gradients)


# Calls --------------------------------------------------------------------------------------------

INITIAL = 0.0
# The most taps of a tile, warps of a program, and numbers of a tile, of single precision, for each
# thread, which then fit in its registers.
BLOCK, WARPS, EACH = 128, 4, 32
# The samples that a program blends.
BLENDED = 256


class Level(NamedTuple):
    """One level of a lookup.

    Attributes:
        number: its number.
        size: its spatial shape.
        pixels: the first of its pixels in the images, and the end of them.
        radius: how many pixels a window extends from its centre.
        real: the dtype of sums.
    """

    number: int
    size: Shape
    pixels: tuple[int, int]
    radius: int
    real: np.dtype[Any]

    def part(self) -> tuple[slice, slice]:
        """Return where its pixels are in the images."""
        return slice(None), slice(*self.pixels)

    def samples(self, array: Tensor) -> Tensor:
        """Return its part of the result, or of the upstream gradient."""
        count = (2 * self.radius + 1) ** len(self.size)
        return array[:, :, self.number * count : (self.number + 1) * count]

    def taps(self) -> int:
        """Return the number of taps of a window."""
        return int((2 * self.radius + 2) ** len(self.size))


def levels_of(options: LookupOptions, real: np.dtype[Any]) -> Iterator[Level]:
    """Yield the levels of a lookup."""
    sizes = options.levels()
    for number, (size, pixels) in enumerate(zip(sizes, pixels_of(sizes), strict=True)):
        yield Level(number, tuple(size), pixels, options.radius, real)


def additions(name: str, sizes: Mapping[str, int], options: LookupOptions) -> int:
    """Return how many values are added to a number; see `gridsample.kernels.gpu.operators`."""
    return sizes["q"] if name == "images" else 0


def compute(
    arrays: Mapping[str, Tensor], options: LookupOptions, result: Total, context: Context
) -> None:
    """Compute the result; see `gridsample.kernels.gpu.operators`."""
    source, images, positions = arrays["source"], arrays["images"], arrays["positions"]
    levels = [*levels_of(options, result.real)]
    dots = context.empty((*source.shape[:2], levels[0].taps()))
    for level in levels:
        image, out = images[level.part()], level.samples(result.memory)
        kinds = layouts(source, image, positions, dots)
        tensors = {"source": source, "image": image, "grid": positions, "dots": dots}
        dots_call(level, *kinds).run(context.launch, **tensors)
        blending = blend_call(level, *layouts(dots, positions, out))
        blending.run(context.launch, dots=dots, grid=positions, out=out)


def differentiate(
    arrays: Mapping[str, Tensor],
    options: LookupOptions,
    gradients: Mapping[str, Total],
    context: Context,
) -> None:
    """Compute gradients; see `gridsample.kernels.gpu.operators`."""
    source, positions = arrays["source"], arrays["positions"]
    targets = {name: total.memory for name, total in gradients.items()}
    by_source, by_positions = targets.get("source"), targets.get("positions")
    for level in levels_of(options, next(iter(gradients.values())).real):
        image, values = arrays["images"][level.part()], level.samples(arrays["upstream"])
        by_image, sums = None, None
        if "images" in gradients:
            by_image, sums = gradients["images"].part(*level.part())
        kinds = layouts(values, source, image, positions, by_source, by_image, by_positions)
        gradients_call(level, *kinds).add_up(
            context.launch,
            sums,
            by_image,
            upstream=values,
            source=source,
            image=image,
            grid=positions,
            grad_source=by_source,
            grad_grid=by_positions,
        )


@functools.lru_cache(maxsize=1024)
def dots_call(level: Level, source: Layout, image: Layout, grid: Layout, dots: Layout) -> Call:
    """Make the call for `window_dots`."""
    call = Windowed(level, source.shape, (source, image, grid, dots))
    blocks = -(-level.taps() // call.tile.BLOCK)
    return call.make(
        window_dots,
        call.queries * blocks,
        source=values_of(source),
        image=planes_of(image.strides, level.size),
        grid=Grid(None, *grid.strides),
        dots=values_of(dots),
    )


@functools.lru_cache(maxsize=1024)
def blend_call(level: Level, dots: Layout, grid: Layout, out: Layout) -> Call:
    """Make the call for `blend_dots`."""
    call = Windowed(level, dots.shape, (dots, grid, out))
    call.tile = call.tile._replace(BLOCK=BLENDED, DEPTH=1)
    blocks = -(-dots.shape[1] * out.shape[2] // BLENDED)
    return call.make(
        blend_dots,
        dots.shape[0] * blocks,
        dots=values_of(dots),
        grid=Grid(None, *grid.strides),
        out=values_of(out),
    )


@functools.lru_cache(maxsize=1024)
def gradients_call(
    level: Level,
    upstream: Layout,
    source: Layout,
    image: Layout,
    grid: Layout,
    by_source: Layout | None,
    by_image: Layout | None,
    by_grid: Layout | None,
) -> Call:
    """Make the call for `window_gradients`; gradients that are not needed are None."""
    needs = WindowNeeds(
        by_image is not None, by_grid is not None, by_source is not None, AS_THEY_COME
    )
    targets = by_source or source, by_image or image, by_grid or grid
    call = Windowed(level, source.shape, (upstream, source, image, grid, *targets))
    pixels = planes_of(targets[1].strides, level.size)
    return call.make(
        window_gradients,
        call.queries,
        upstream=values_of(upstream),
        source=values_of(source),
        image=planes_of(image.strides, level.size),
        grid=Grid(None, *grid.strides),
        grad_source=values_of(targets[0]),
        grad_image=GradImage(*pixels, **NO_SUMS),
        grad_grid=Grid(None, *targets[2].strides),
        needs=needs,
    )


class Windowed:
    """What the calls of a level have in common.

    Args:
        level: the level.
        shape: the number of items, of queries of an item, and of channels.
        tensors: the layouts of all tensors.
    """

    def __init__(self, level: Level, shape: Shape, tensors: tuple[Layout, ...]) -> None:
        items, queries, channels = shape
        self.queries = items * queries
        block = min(BLOCK, power_of_two(level.taps()))
        each = EACH if level.real.itemsize == 4 else EACH // 4
        depth = min(power_of_two(channels), max(1, WARPS * 32 * each // block), BLOCK)
        self.warps = max(1, min(WARPS, block * depth // (32 * each)))
        x, y, z = (*level.size[::-1], 1, 1)[:3]
        self.windows = Windows(
            shrink=0.5**level.number, RADIUS=level.radius, SCALE=correlation_scale(channels)
        )
        self.work = Work(
            x,
            y,
            z,
            0,
            0,
            0,
            channels=channels,
            points=queries,
            grid_items=items,
            units=-(-channels // depth),
            splits=1,
        )
        self.tile = Tile(
            X=(*ALONE,),
            Y=(*ALONE,),
            Z=(*ALONE,),
            RANK=len(level.size),
            SOURCE=GIVEN,
            LAST=True,
            REAL=real_type(level.real),
            INDEX=index_type(tensors),
            BLOCK=block,
            WIDTH=block,
            DEPTH=depth,
            FILLED=False,
            UNITS=IN_PIXELS,
            SPREAD=False,
        )

    def make(self, kernel: Function, programs: int, **records: Any) -> Call:
        """Make the call of a kernel."""
        known = {"windows": self.windows, "work": self.work, "tile": self.tile, **records}
        arguments = flat_values(**{name: known[name] for name in parameters(kernel)})
        return Call(kernel.__name__, programs, self.warps, arguments)


def values_of(values: Layout) -> Values:
    """Describe (N, Q, C) to kernels, without its memory."""
    item, query, channel = values.strides
    return Values(None, item, channel, query)
