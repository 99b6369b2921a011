"""Halved copies of images, for footprints with long sides: resized by means over areas."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import Band, collect
from gridsample.definitions.footprints import halved_type, halving
from gridsample.definitions.tables import AxisMap, map_of_band
from gridsample.kernels import forks
from gridsample.kernels.sampling.layouts import complex_of

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Halves(NamedTuple):
    """The levels of a call.

    Attributes:
        spatial: the spatial shape of each level, beginning with that of the image.
        used: the levels that points need, in ascending order; 0 excepted.
        real: the dtype in which sums are computed.
        threads: the maximum number of threads.
    """

    spatial: tuple[Shape, ...]
    used: tuple[int, ...]
    real: np.dtype[Any]
    threads: int

    def of(self, image: Array) -> Iterator[tuple[int, Array]]:
        """Yield the levels that points need, each with the image (N, C, *spatial) or its copy.

        A copy is made from the one before it, which is then no longer needed.  Axes along which
        memory runs backwards are turned, as halving is symmetric and reads memory forwards.
        """
        turned = tuple([slice(None, None, -1 if step < 0 else 1) for step in image.strides])
        source, done = image[turned], 0
        for level in self.used:
            if level > done:
                kind = copy_type(image.dtype, level, self.real)
                smaller = zeros(image, self.spatial[level], kind)
                self.resize(source, level - done, smaller)
                source, done = smaller, level
                del smaller
            yield level, source[turned]

    def zeros(self, image: Array, dtype: np.dtype[Any]) -> dict[int, Array]:
        """Return zeros for the gradients of the image's copies."""
        return {level: zeros(image, self.spatial[level], dtype) for level in self.used}

    def add_back(self, sums: Array, smaller: dict[int, Array]) -> None:
        """Add the gradients of the copies to that of the image."""
        total: Array | None = None
        for level in range(max(self.used), 0, -1):
            if level in smaller:
                total = smaller.pop(level) if total is None else smaller.pop(level) + total
            assert total is not None
            larger = zeros(sums, self.spatial[level - 1], sums.dtype)
            self.resize(total, -1, larger)
            total = larger
        sums += total

    def resize(self, image: Array, times: int, result: Array) -> None:
        """Halve an image (N, C, *spatial) some times, or apply the transpose if negative."""
        sizes = image.shape[2:] if times > 0 else result.shape[2:]
        maps = [halving_map(n, abs(times)) for n in sizes]
        maps = [axis_map if times > 0 else axis_map.transpose() for axis_map in maps]
        resizing().resize(maps, image, result, self.real, self.threads)


@functools.cache
def resizing() -> ModuleType:
    """Return the resizing kernels, which are imported on first use."""
    with forks.held():
        from gridsample.kernels import resize

    return resize


@functools.lru_cache(maxsize=64)
def halving_map(n: int, times: int) -> AxisMap:
    """Return the matrix that halves a line of n pixels some times."""
    pixels = np.arange(n)
    band = Band(n, pixels, np.ones_like(pixels), np.ones((n, 1)))
    for _ in range(times):
        rows, shares = halving(band.outputs)
        # Entries with a weight of 0 may be NaN.
        rows = np.where(shares > 0, rows, rows[:, :1])
        index = band.first[rows][..., np.newaxis] + np.arange(band.taps)
        weights = shares[..., np.newaxis] * band.weights[rows]
        index = np.where(weights > 0, index, index[:, :1, :1])
        band = collect(index.reshape(len(rows), -1), weights.reshape(len(rows), -1), n)
    return map_of_band(band)


def copy_type(dtype: np.dtype[Any], level: int, real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the copy of a level, where sums of real numbers are in another dtype."""
    return halved_type(dtype, level, complex_of(real) if dtype.kind == "c" else real)


def zeros(image: Array, spatial: Shape, kind: np.dtype[Any]) -> Array:
    """Allocate a copy of an image; its channels are contiguous if they are in the image."""
    items, channels = image.shape[:2]
    if channels > 1 and image.strides[1] == image.itemsize:
        memory: Array = np.zeros((items, *spatial, channels), kind)
        return memory.transpose(0, -1, *range(1, memory.ndim - 1))
    return np.zeros((items, channels, *spatial), kind)
