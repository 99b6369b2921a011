"""Area-halved copies of images, for footprints with long sides.

Copies are made a few rows at a time, so that little else than the result is in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import footprints as definitions
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import as_float
from gridsample.kernels.sampling.layouts import complex_of

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# Numbers of an image that are converted at a time.
BAND = 1 << 16


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

        A copy is made from the one before it, which is then no longer needed.
        """
        source, done = image, 0
        for level in self.used:
            if level > done:
                kind = copy_type(image.dtype, level, self.real)
                onto = zeros(image, self.spatial[level], kind)
                halve(source, level - done, onto, self.real, self.threads)
                source, done = onto, level
                del onto
            yield level, source

    def zeros(self, image: Array, dtype: np.dtype[Any]) -> dict[int, Array]:
        """Return zeros for the gradients of the image's copies."""
        return {level: zeros(image, self.spatial[level], dtype) for level in self.used}

    def add_back(self, sums: Array, smaller: dict[int, Array]) -> None:
        """Add the gradients of the copies to that of the image."""
        total: Array | float = 0.0
        for level in range(max(self.used), 0, -1):
            if level in smaller:
                total = smaller.pop(level) + total
            assert isinstance(total, np.ndarray)
            total = unhalve(total, self.spatial[level - 1])
        sums += total


def copy_type(dtype: np.dtype[Any], level: int, real: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the copy of a level.

    It is that of sums, except for the largest copy of 8-bit integers.  The mean of four pixels (of
    eight in a volume) is exact in float16, and other means are within 1/16.  In float32, the copy
    would be as large as the image.
    """
    if level == 1 and dtype.kind in "iub" and dtype.itemsize == 1:
        return np.dtype(np.float16)
    return complex_of(real) if dtype.kind == "c" else real


def zeros(image: Array, spatial: Shape, kind: np.dtype[Any]) -> Array:
    """Allocate a copy of an image; its channels are contiguous if they are in the image."""
    items, channels = image.shape[:2]
    if channels > 1 and image.strides[1] == image.itemsize:
        memory: Array = np.zeros((items, *spatial, channels), kind)
        return memory.transpose(0, -1, *range(1, memory.ndim - 1))
    return np.zeros((items, channels, *spatial), kind)


def halve(image: Array, times: int, onto: Array, real: np.dtype[Any], threads: int) -> None:
    """Halve an image (N, C, *spatial) along all axes some times: see `definitions.halving`.

    Sums are computed in the dtype ``real``, or the complex dtype of that precision.
    """
    wide, height = complex_of(real) if image.dtype.kind == "c" else real, onto.shape[2]
    rows = max(1, BAND * height * len(image) // max(image.size, 1))
    pool.run(
        [
            functools.partial(halve_rows, image[n : n + 1], times, wide, onto[n : n + 1], row, rows)
            for n in range(len(image))
            for row in range(0, height, rows)
        ],
        threads,
    )


def halve_rows(
    image: Array, times: int, wide: np.dtype[Any], result: Array, first: int, rows: int
) -> None:
    """Compute some rows of a halved image."""
    last = min(first + rows, result.shape[2])
    result[:, :, first:last] = halved_rows(image, times, wide, first, last)


def halved_rows(image: Array, times: int, wide: np.dtype[Any], first: int, last: int) -> Array:
    """Return the rows from first to last of an image that is halved some times."""
    if not times:
        return as_float(image[:, :, first:last]).astype(wide)
    n = image.shape[2]
    for _ in range(times - 1):
        n = (n + 1) // 2
    places, weights = definitions.halving(n)
    places, weights = places[first:last], weights[first:last]
    low = int(places.min())
    found = halved_rows(image, times - 1, wide, low, int(places.max()) + 1)
    found = weighed(found, 2, places - low, weights)
    for axis in range(3, image.ndim):
        found = weighed(found, axis, *definitions.halving(found.shape[axis]))
    return found


def unhalve(image: Array, spatial: Shape) -> Array:
    """Apply the transpose of halving once, to an image that came from a spatial shape."""
    for axis, n in enumerate(spatial, start=2):
        image = weighed(image, axis, *definitions.unhalving(n))
    return image


def weighed(image: Array, axis: int, places: Array, weights: Array) -> Array:
    """Sum the entries at ``places`` along an axis, with ``weights``, both (entries, terms)."""
    factors = weights.astype(image.real.dtype).reshape(
        *weights.shape, *(1,) * (image.ndim - 1 - axis)
    )
    total: Array = image.take(places[:, 0], axis) * factors[:, 0]
    for k in range(1, places.shape[1]):
        total += image.take(places[:, k], axis) * factors[:, k]
    return total
