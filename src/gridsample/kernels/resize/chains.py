"""The launches that resize an image one after the other, without prefilters.

Mostly, one program takes an image through all axes, or copies its pixels.  Only an axis whose lines
are long and few (`lines`) has a launch of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.tables import AxisMap, skips_inputs, split_off_copies, unchanged
from gridsample.kernels.resize import copies, lines, planning
from gridsample.kernels.resize.planning import Numbers, are_fixed
from gridsample.kernels.run import Launch, Place, Step, Steps

DType = np.dtype[Any]
Maps = tuple[AxisMap, ...]
Shape = tuple[int, ...]

# The most axes of planes with strides, and of those whose pixels one launch copies.
MAX_AXES = 3


# Routes -------------------------------------------------------------------------------------------


class Route(NamedTuple):
    """What the maps of all axes have in common.

    Attributes:
        identity: whether the image stays as it is.
        unfiltered: whether there are no prefilters.
        copies: whether every output is a copy of one input.
        long_axis: an axis whose lines are long and few (`lines`), or None.
    """

    identity: bool
    unfiltered: bool
    copies: bool
    long_axis: int | None


@functools.lru_cache(maxsize=512)
def route_of(maps: Maps, shape: Shape) -> Route:
    """Determine how planes (N, C, *spatial, inner) are resized."""
    unfiltered = all(axis_map.before is axis_map.after is None for axis_map in maps)
    return Route(
        all(axis_map.is_identity for axis_map in maps),
        unfiltered,
        unfiltered and all(map(only_copies, maps)),
        find_long_axis(maps, shape),
    )


def only_copies(axis_map: AxisMap) -> bool:
    """Whether every output along an axis is a copy of one input."""
    if axis_map.is_identity or lines.copies_pixels(axis_map):
        return True
    return not lines.is_long(axis_map, 1) and axis_map.band.copies


def find_long_axis(maps: Sequence[AxisMap], shape: Shape) -> int | None:
    """Return an axis of (N, C, *spatial, inner) whose lines are long and few; None if none is."""
    larger = [max(axis_map.inputs, axis_map.outputs) for axis_map in maps]
    for k, axis_map in enumerate(maps):
        others = math.prod([*larger[:k], *larger[k + 1 :], shape[0], shape[1], shape[-1]])
        if lines.is_long(axis_map, others):
            return k
    return None


def is_chain(maps: Maps, shape: Shape, dtype: DType, rounding: str) -> bool:
    """Whether launches alone resize planes: there are no prefilters, and no rounding between axes.

    ``rounding`` is "exact" unless the dtype is rounded.
    """
    route = route_of(maps, shape)
    if rounding == "exact" or route.copies:
        return route.unfiltered
    return route.unfiltered and are_fixed(dtype, [axis_map.band for axis_map in maps])


# Chains -------------------------------------------------------------------------------------------


class Planes(NamedTuple):
    """Planes (N, C, *spatial, inner) of an image.

    Attributes:
        shape: their shape.
        dtype: the dtype of their numbers, in native byte order.
        strides: the strides, which count numbers; None if they are packed.
        swapped: whether they are in the other byte order.
    """

    shape: Shape
    dtype: DType
    strides: Shape | None = None
    swapped: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of packed planes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def resized(self, maps: Maps, dtype: DType) -> Planes:
        """Return the packed planes that maps make of these."""
        outputs = [axis_map.outputs for axis_map in maps]
        return Planes((*self.shape[:2], *outputs, self.shape[-1]), dtype)


class Link(NamedTuple):
    """A launch that reads an image, or what the link before it wrote.

    Attributes:
        launch: the launch.
        result: what it writes, which is packed.
        packs: whether it needs packed planes in native byte order; others read an image as it is.
    """

    launch: Launch
    result: Planes
    packs: bool = False


def kept_bytes(links: Sequence[Link]) -> int:
    """The memory of the tables of a chain."""
    return sum([planning.kept_bytes(link.launch) for link in links])


def steps_of(links: Sequence[Link]) -> Steps:
    """Return the steps from planes "source" to planes "target", with packed planes between them."""
    results = [f"result {k}" for k in range(1, len(links))]
    sources, targets = ["source", *results], [*results, "target"]
    steps = [
        Step(link.launch, {"source": Place(source), "target": Place(target)})
        for link, source, target in zip(links, sources, targets, strict=True)
    ]
    sizes = [link.result.nbytes for link in links[:-1]]
    return Steps(tuple(steps), dict(zip(results, sizes, strict=True)))


@cached_by_size(CACHE_BYTES, kept_bytes)
def chain_of(
    maps: Maps, source: Planes, dtype: DType, real: str, threads: int, rounding: str
) -> tuple[Link, ...]:
    """Return the launches that apply the bands of maps; none if the image stays as it is.

    Args:
        maps: the map of each axis, whose prefilters are left out.
        source: the image.
        dtype: the dtype of the result.
        real: the type of sums, except where results are rounded.
        threads: the maximum number of threads.
        rounding: "exact", or "pillow" or "torch" for bytes that are rounded after each axis.
    """
    route, result = route_of(maps, source.shape), source.resized(maps, dtype)
    copied, k = route.copies and source.dtype == dtype, route.long_axis
    if route.identity and source.dtype == dtype:
        return ()
    if copied and k is None:
        return copy_links(maps, source, threads)
    if rounding != "exact" and not copied:
        numbers = Numbers("int32", "uint8", rounding)
        return (Link(bands_of(maps, source, dtype, numbers, threads), result),)
    if source.strides and any(map(skips_inputs, maps)):
        return pick_first(maps, source, dtype, real, threads)
    if k is None:
        numbers = Numbers(real, real)
        return (Link(bands_of(maps, source, dtype, numbers, threads), result),)
    if all(axis_map.is_identity for j, axis_map in enumerate(maps) if j != k):
        return (Link(lines_of(maps[k], k + 2, source, dtype, real), result, packs=True),)
    between = source.dtype if all(map(only_copies, maps)) else np.dtype(real)
    first, rest = split_long_axis(maps, k)
    links = chain_of(first, source, between, real, threads, "exact")
    middle = links[-1].result if links else source
    return links + chain_of(rest, middle, dtype, real, threads, "exact")


def pick_first(
    maps: Maps, source: Planes, dtype: DType, real: str, threads: int
) -> tuple[Link, ...]:
    """Return the launches that copy the pixels that are read, if these are few, and resize them."""
    copied, rest = (tuple(part) for part in zip(*map(split_off_copies, maps), strict=True))
    links = chain_of(copied, source, source.dtype, real, threads, "exact")
    return links + chain_of(rest, links[-1].result, dtype, real, threads, "exact")


def split_long_axis(maps: Maps, k: int) -> tuple[Maps, Maps]:
    """Split maps into that of a long axis and the others, without prefilters.

    The long axis comes first if its lines become shorter, otherwise last.
    """
    long_first = maps[k].outputs < maps[k].inputs
    pairs = [
        (replace(axis_map, before=None, after=None), unchanged(axis_map.outputs))
        if (j == k) == long_first
        else (unchanged(axis_map.inputs), replace(axis_map, before=None, after=None))
        for j, axis_map in enumerate(maps)
    ]
    return tuple([first for first, _ in pairs]), tuple([rest for _, rest in pairs])


def copy_links(maps: Maps, source: Planes, threads: int) -> tuple[Link, ...]:
    """Return the launches that copy pixels along all axes, a few at a time, the last ones first.

    The axes before those are planes of a launch, and the axes after them the numbers of a pixel.
    """
    result = source.resized(maps, source.dtype)
    if len(maps) <= MAX_AXES:
        return (Link(copies_of(maps, source, threads), result, packs=source.swapped),)
    others, last = maps[:-MAX_AXES], maps[-MAX_AXES:]
    n, *channels = source.shape[: -MAX_AXES - 1]
    planes = Planes((n, math.prod(channels), *source.shape[-MAX_AXES - 1 :]), source.dtype)
    between = planes.resized(last, source.dtype)
    inner = math.prod(between.shape[2:])
    rest = Planes((*source.shape[: -MAX_AXES - 1], inner), source.dtype)
    first = Link(copies_of(last, planes, threads), between)
    *links, final = copy_links(others, rest, threads)
    return (first, *links, final._replace(result=result))


def copies_of(maps: Maps, source: Planes, threads: int) -> Launch:
    """Prepare copies of pixels, whatever the dtype; of swapped numbers, those of a packed copy."""
    strides = None if source.swapped else source.strides
    return copies.prepare(maps, source.shape, strides, source.dtype.itemsize, threads)


def bands_of(maps: Maps, source: Planes, dtype: DType, numbers: Numbers, threads: int) -> Launch:
    """Prepare the bands of all axes as one program."""
    kinds = "swapped " * source.swapped + type_name(source.dtype), type_name(dtype)
    return planning.prepare(maps, source.shape, source.strides, kinds, numbers, threads)


def lines_of(axis_map: AxisMap, axis: int, source: Planes, dtype: DType, real: str) -> Launch:
    """Prepare the resizing of one axis of planes, whose lines are long and few."""
    assert axis_map.axis is not None
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    kinds = type_name(source.dtype), type_name(dtype)
    if lines.copies_pixels(axis_map) and source.dtype == dtype:
        kinds = (f"uint{8 * dtype.itemsize}",) * 2
    return lines.prepare(axis_map.axis, axis_map.transposed, outer, inner, kinds, real)
