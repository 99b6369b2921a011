"""Interpolation along an axis at positions that are known, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, Intervals
from gridsample.definitions.names import MethodName
from gridsample.ops.sampling import grid_sample

# Pixels between two that are read are read, too, if there are not more of them.
GAP = 64


@dataclass(frozen=True, eq=False)
class Interpolation:
    """Interpolation along an axis.

    A result at a whole position is the pixel there, even if the next one is NaN.

    Attributes:
        axis: the axis.
        size: the size of a line before.
        positions: (P,) float64, in pixels; beyond the ends, the first or the last interval
            continues.
        constants: (P,) results where positions are NaN.
        mode: "linear" or "nearest".
        wraps: whether the first pixel follows the last one; positions are then 0 to ``size``.
        dtype: the dtype of lines and results.
        threads: the maximum number of threads; None for all.
    """

    axis: int
    size: int
    positions: Array
    constants: Array
    mode: MethodName
    wraps: bool
    dtype: np.dtype[Any]
    threads: int | None

    def spans(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return where spans of pixels that are read begin and end; the first follows the last."""
        places = self.positions[start:stop]
        last = max(self.size - (1 if self.wraps else 2), 0)
        places = np.clip(np.floor(places[~np.isnan(places)]), 0, last)
        first = np.unique(places.astype(np.int64))
        if not len(first):
            return np.array([0]), np.array([1])
        ends = np.flatnonzero(np.diff(first) > GAP)
        stops = first[np.append(ends, len(first) - 1)] + 2
        return first[np.append(0, ends + 1)], stops if self.wraps else np.minimum(stops, self.size)

    def intervals(self, start: int, stop: int) -> Intervals:
        """Return the inputs of the entries ``start`` to ``stop``, which `compute` takes."""
        intervals = list[tuple[int, int]]()
        for first, end in zip(*(ends.tolist() for ends in self.spans(start, stop)), strict=True):
            intervals.append((first, min(end, self.size)))
            if end > self.size:
                intervals.append((0, end - self.size))
        return tuple(intervals)

    def compute(self, inputs: Array, start: int, stop: int) -> Array:
        """Compute some entries of all lines from their inputs."""
        begins, ends = self.spans(start, stop)
        positions = self.positions[start:stop]
        numbers = np.searchsorted(begins, positions, "right") - 1  # of NaN: the last span
        places = np.append(0, np.cumsum(ends - begins)[:-1])
        local = positions - (begins - places)[np.maximum(numbers, 0)]
        return self.sampled(inputs, local, self.constants[start:stop], False)

    def whole(self, lines: Array) -> Array:
        """Compute all entries of whole lines, which are not copied."""
        return self.sampled(lines, self.positions, self.constants, self.wraps)

    def sampled(self, lines: Array, positions: Array, constants: Array, wraps: bool) -> Array:
        """Interpolate lines; see `Interpolation`."""
        outer, size, inner = np.split(np.array(lines.shape), [self.axis, self.axis + 1])
        items, channels = int(outer.prod()), int(inner.prod())
        # What is next in memory are a point's channels: nothing is transposed.
        alone = channels == 1
        result: Array = grid_sample(
            lines.reshape((1, items, *size) if alone else (items, *size, channels)),
            positions.reshape(1, -1, 1),
            self.mode,
            "wrap" if wraps else "border",
            coords="pixel",
            extrapolate=True if wraps or size[0] == 1 else "continue",
            channel_axis=1 if alone else -1,
            threads=self.threads,
        )
        result = result.reshape(*outer, len(positions), *inner)
        before: tuple[Any, ...] = (slice(None),) * self.axis
        if self.mode == "linear":
            last = size[0] if wraps else size[0] - 1
            whole = (positions >= 0) & (positions <= last) & (positions == np.floor(positions))
            pixels = positions[whole].astype(np.int64) % size[0]
            result[(*before, whole)] = lines.take(pixels, self.axis)
        beyond = np.isnan(positions) & ~np.isnan(constants)
        after = (1,) * len(inner)
        result[(*before, beyond)] = constants[beyond].astype(result.dtype).reshape(-1, *after)
        return result
