"""The arrays of a call as programs see them: planes of numbers, at distances in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.caches import cached_call
from gridsample.definitions.dtypes import type_name
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import Layout, frozen, is_native

Array = np.ndarray[Any, Any]


class ArrayPlanes(NamedTuple):
    """An array (N, C, *rest) as programs see it: planes of real numbers.

    Attributes:
        kind: the name of the kind of its elements; a packed one if the array is not native.
        item: the distance between items, in elements, or in bytes if the kind is packed; 0 if all
            items share one.
        starts: the place of each plane of an item.
        strides: the distance of neighbours along each axis of ``rest``, last axis first.
    """

    kind: str
    item: int
    starts: Array
    strides: tuple[int, ...]


def element(dtype: np.dtype[Any]) -> str:
    """Return the name of the kind of a dtype's elements, which are reals if it is complex."""
    return f"float{dtype.itemsize * 4}" if dtype.kind == "c" else type_name(dtype)


def storage_of(kind: str) -> str:
    """Return the kind of what is loaded and stored: a bool is a byte."""
    return "uint8" if kind == "bool" else kind


def complex_of(real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype with parts of a real dtype."""
    return np.dtype(f"c{2 * real.itemsize}")


@functools.lru_cache(maxsize=256)
def planes_of(layout: Layout, items: int, grids: int) -> ArrayPlanes:
    """Describe an array, for a call with so many items and grids.

    If all items share a grid, their planes count as planes of one item.
    """
    shape, strides, dtype = layout
    parts = 2 if dtype.kind == "c" else 1
    size = dtype.itemsize // parts
    kind, part = element(dtype), 1
    if not is_native(strides, dtype):
        kind = f"{'packed' if dtype.isnative else 'packed swapped'} {kind}"
        part, size = size, 1
    item, channel, *rest = (stride // size for stride in strides)
    item = item if shape[0] == items else 0
    starts = np.arange(shape[1], dtype=np.int64)[:, None] * channel + np.arange(parts) * part
    if grids == 1:
        starts = np.arange(items, dtype=np.int64)[:, None, None] * item + starts
        item = 0
    # Along an axis of one pixel, other than x, it is its own neighbour.
    steps = [0 if n == 1 else step for n, step in zip(shape[2:-1], rest[:-1], strict=True)]
    return ArrayPlanes(kind, item, frozen(starts.reshape(-1)), (*rest[-1:], *steps[::-1]))


def reach_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the distance between the first and the last element of an array, in elements."""
    return sum((n - 1) * abs(stride) for n, stride in zip(shape, strides, strict=True) if n > 0)


def spacing_of(values: Layout) -> int:
    """Return the distance between neighbouring points of evenly spaced values (N, C, *points)."""
    shape, strides, dtype = values
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    steps = [stride for n, stride in zip(shape[2:], strides[2:], strict=True) if n > 1]
    return steps[-1] // size if steps else 1


class GradientLayout(NamedTuple):
    """A new array for the gradient of an image: its shape and memory order, in the dtype of sums.

    Attributes:
        layout: shape, strides and dtype.
        shape: its shape, slowest axis first.
        back: the permutation from those axes to the image's.
    """

    layout: Layout
    shape: tuple[int, ...]
    back: tuple[int, ...]

    def zeros(self) -> Array:
        """Return zeros; the system allocates their pages when they are first written to."""
        return np.zeros(self.shape, self.layout[2]).transpose(self.back)

    def of(self, dtype: np.dtype[Any]) -> Array:
        """Return an uninitialised array of the same memory order and another dtype."""
        return np.empty(self.shape, dtype).transpose(self.back)


@cached_call(256)
def gradient_layout(plan: Plan, image: Layout) -> GradientLayout:
    """Describe the array of an image's gradient.

    It has the image's memory order, unless neither rows nor the channels of a row are contiguous:
    then adding to neighbours along x would touch far too many places of the processor's cache.
    The gradient of an image in this layout has this layout, too.
    """
    shape, strides, dtype = image
    kind = complex_of(plan.real) if dtype.kind == "c" else plan.real
    # Axes along which the image is broadcast are the slowest.
    slowest_first = sorted(range(len(shape)), key=lambda a: (strides[a] != 0, -abs(strides[a])))
    long = [a for a in slowest_first if shape[a] > 1]
    x = len(shape) - 1
    if long and long[-1] == 1 and x in long[:-2]:
        slowest_first = [0, *range(2, len(shape)), 1]
    elif long and long[-1] not in (1, x):
        slowest_first = [*range(len(shape))]
    steps, step = [0] * len(shape), kind.itemsize
    for a in reversed(slowest_first):
        steps[a] = step
        step *= max(1, shape[a])
    back = tuple(slowest_first.index(a) for a in range(len(shape)))
    return GradientLayout((shape, tuple(steps), kind), tuple(shape[a] for a in slowest_first), back)


def are_runs(layout: Layout) -> bool:
    """Whether the channels of each pixel are neighbours in memory, in runs of all of them."""
    shape, strides, dtype = layout
    return is_native(strides, dtype) and (shape[1] == 1 or strides[1] == dtype.itemsize)


def channels_together(*layouts: Layout) -> int:
    """Return the number of channels of a pixel that are processed together, or 1.

    These are all channels if they are neighbours in the memory of all arrays.  The parts of a
    complex number are two channels, and always neighbours.  Numbers that are not native are read
    one by one.
    """
    shape, strides, dtype = layouts[0]
    if not is_native(strides, dtype):
        return 1
    parts = 2 if dtype.kind == "c" else 1
    return shape[1] * parts if all(map(are_runs, layouts)) else parts


def shares_weights(weights: Layout) -> bool:
    """Whether all channels share the weights of pixels (N or 1, C, *spatial)."""
    shape, strides, _ = weights
    return shape[1] == 1 or strides[1] == 0


def channels_with_weights(weights: Layout | None, *layouts: Layout) -> int:
    """Return the same as `channels_together` for pixels that may have weights.

    Channels are processed together if they share weights, as the parts of complex numbers do.
    """
    channels = channels_together(*layouts)
    if weights is None:
        return channels
    if not is_native(*weights[1:]):
        return 1
    if shares_weights(weights):
        return channels
    return 2 if layouts[0][2].kind == "c" else 1
