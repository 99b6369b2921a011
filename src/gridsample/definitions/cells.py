"""Cells along axes, and how those of one grid overlap those of another.

Along an axis, the mean over an output cell is a sum over the cells of the image that it overlaps,
weighted by the measure of each overlap.  The weights are a band, like those of resizing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions.bands import Band
from gridsample.definitions.caches import cached_call
from gridsample.definitions.control_points import ControlAxis
from gridsample.definitions.methods import Method
from gridsample.definitions.shapes import MAX_RANK, Shape, axis_name
from gridsample.definitions.zooming import Zoom
from gridsample.messages.links import unknown_name

Array = np.ndarray[Any, Any]
# Parts of an axis, in the order in which they are read.
Pieces = tuple[tuple[int, int], ...]

# How large an interval is: its length, or the area on a sphere between two latitudes in degrees.
MEASURES = ("length", "latitude")
# Bounds that differ by less are equal: units in the last place of the largest one, but no more than
# a share of the smallest cell.
ROUNDING, SHARE = 4.0, 1e-3
# Cells of which so much is covered are covered.
COVERED = 1 - 1e-10
# How the text of `CellMeans` begins.
CELLS_PREFIX = "cells:"


class CellMeans:
    """Means over cells along an axis, a way to resize it.

    Cells increase, and do not overlap each other.

    Attributes:
        source: the cells of the image, (n, 2) float64: their lower and upper bounds.
        target: the cells of the result, (m, 2).
        measure: a name in `MEASURES`.
        band: the weights of the image's cells for each of the result's; those of a row sum to its
            share.
        share: the share of each cell of the result that is covered, exactly 1 where all is.
        text: a description from which `means_of_text` makes an equal record.
    """

    def __init__(self, source: Array, target: Array, measure: str) -> None:
        self.source, self.target, self.measure = source, target, measure
        # What torch.compile cannot compute later.
        self.band, self.share = tables_of(source, target, measure)
        numbers = [base64.b64encode(cells.astype("<f8").tobytes()) for cells in (source, target)]
        self.text = ":".join([CELLS_PREFIX + measure, *[part.decode() for part in numbers]])
        self.digest = hashlib.blake2b(self.text.encode(), digest_size=16).digest()

    def __eq__(self, other: Any) -> bool:
        """Whether another record has the same cells."""
        return isinstance(other, CellMeans) and self.digest == other.digest

    def __hash__(self) -> int:
        """The hash of the cells."""
        return hash(self.digest)

    def __reduce__(self) -> Any:
        """Pickle the text."""
        return means_of_text, (self.text,)

    def __repr__(self) -> str:
        """The numbers of cells."""
        return f"<means of {len(self.source)} cells over {len(self.target)}>"


def tables_of(source: Array, target: Array, measure: str) -> tuple[Band, Array]:
    """Return the band of means over cells, and the covered shares; see `CellMeans`."""
    (low, high), (begin, end) = source.T, target.T
    first = np.searchsorted(high, begin, side="right")
    count = np.searchsorted(low, end, side="left") - first
    first = np.minimum(first, len(low) - 1)
    # Every output reads something, with the weight 0 where it overlaps nothing.
    count = np.maximum(count, 1)
    index = first[:, np.newaxis] + np.arange(count.max())
    inside = index < (first + count)[:, np.newaxis]
    index = np.minimum(index, len(low) - 1)
    below = np.maximum(low[index], begin[:, np.newaxis])
    above = np.minimum(high[index], end[:, np.newaxis])
    overlaps = np.where(inside & (above > below), measured(below, above, measure), 0.0)
    total, whole = overlaps.sum(axis=1), measured(begin, end, measure)
    covered = total >= COVERED * whole
    weights = overlaps / np.where(covered, total, whole)[:, np.newaxis]
    return Band(len(low), first, count, weights), np.where(covered, 1.0, total / whole)


@cached_call(64)
def means_of_text(text: str) -> CellMeans:
    """Return the record of which this is the text."""
    measure, *numbers = text.removeprefix(CELLS_PREFIX).split(":")
    source, target = [np.frombuffer(base64.b64decode(part), "<f8") for part in numbers]
    old, new = [cells.astype(np.float64).reshape(-1, 2) for cells in (source, target)]
    return CellMeans(old, new, measure)


# How an axis is resized.
AxisMethod = Method | Zoom | CellMeans | ControlAxis


def measured(low: Any, high: Any, measure: str) -> Any:
    """Return the measure of intervals.

    The difference of sines is computed without cancellation, which would show near poles.
    """
    if measure == "length":
        return high - low
    low, high = np.radians(low), np.radians(high)
    return 2 * np.cos((low + high) / 2) * np.sin((high - low) / 2)


# Several axes -------------------------------------------------------------------------------------


class CellOverlaps:
    """How the cells of an image overlap those of a result, along each axis.

    Tuples have an entry for each axis, x (the last axis of the image) first.  The bounds of cells
    are (n + 1,), of neighbouring cells, or (n, 2), of each cell, and increase or decrease
    throughout.  Those of the image and of the result need not go the same way.  Bounds that differ
    by the rounding of their dtype are equal.

    Args:
        source: the bounds of the image's cells.
        target: the bounds of the result's cells.
        measure: "length", or "latitude": degrees, between which the area of a sphere counts, which
            is proportional to the difference of sines; a name, or one for each axis.
        period: the period of an axis, such as 360 of longitudes, or None; also one for each axis.

    Attributes:
        shape: the number of the result's cells along each axis, in the array's order.
        source_shape: the number of the image's cells along each axis, in the array's order.
        covers: whether the image covers all cells of the result.

    Raises:
        TypeError: bounds are not real numbers.
        ValueError: bounds have a wrong shape, are not finite, do not increase or decrease
            throughout, or overlap; latitudes are beyond the poles; the image's cells cover more
            than a period; there is not an entry for each axis; or a name is unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> thirds = gridsample.CellOverlaps([np.arange(4.0)], [np.array([0.0, 1.5, 3.0])])
        >>> gridsample.regrid_conservative(np.array([[[0.0, 3.0, 6.0]]]), thirds)
        array([[[1., 5.]]])
    """

    def __init__(
        self,
        source: Sequence[Any],
        target: Sequence[Any],
        measure: str | Sequence[str] = "length",
        period: float | Sequence[float | None] | None = None,
    ) -> None:
        rank = len(source)
        if not 1 <= rank <= MAX_RANK:
            raise ValueError(f"source must have 1 to {MAX_RANK} axes, got {rank}")
        targets = entries(target, rank, "target")
        measures, periods = (
            entries(given if isinstance(given, (tuple, list)) else [given] * rank, rank, name)
            for given, name in ((measure, "measure"), (period, "period"))
        )
        axes = [
            overlap_of(*given, axis_name(k))
            for k, given in enumerate(zip(source, targets, measures, periods, strict=True))
        ][::-1]
        self.means, self.flips, self.pieces = (tuple(column) for column in zip(*axes, strict=True))
        self.source_shape: Shape = tuple([cell_count(bounds) for bounds in source[::-1]])
        self.shape: Shape = tuple([len(means.target) for means in self.means])
        self.covers = all([bool((means.share == 1).all()) for means in self.means])

    @classmethod
    def of_centers(
        cls,
        source: Sequence[Any],
        target: Sequence[Any],
        measure: str | Sequence[str] = "length",
        period: float | Sequence[float | None] | None = None,
    ) -> CellOverlaps:
        """Describe cells by their centres: bounds are in the middle between two.

        The first and the last cell are as long on both sides of their centres; latitudes end at the
        poles.

        Args:
            source: the centres of the image's cells, two or more along each axis.
            target: the centres of the result's cells.
            measure, period: as in `CellOverlaps`.

        Returns:
            The record.

        Raises:
            TypeError, ValueError: as in `CellOverlaps`.

        Example:
            >>> import gridsample
            >>> lat, coarse = [-67.5, -22.5, 22.5, 67.5], [-45.0, 45.0]
            >>> overlaps = gridsample.CellOverlaps.of_centers([lat], [coarse], "latitude")
            >>> overlaps.source_shape, overlaps.shape
            ((4,), (2,))
        """
        rank = len(source)
        names = measure if isinstance(measure, (tuple, list)) else [measure] * rank
        bounds = [
            [
                bounds_between(centers, name, f"{what} along {axis_name(k)}")
                for k, (centers, name) in enumerate(zip(axes, names, strict=False))
            ]
            for axes, what in ((source, "source"), (target, "target"))
        ]
        return cls(bounds[0], bounds[1], measure, period)

    def share(self, block: Sequence[slice] | None = None) -> Array:
        """Return the share of each output cell that is covered, of a block if that is given."""
        parts = [slice(None)] * len(self.means) if block is None else block
        lines = [means.share[part] for means, part in zip(self.means, parts, strict=True)]
        result: Array = lines[0]
        for line in lines[1:]:
            result = result[..., np.newaxis] * line
        return result

    def __eq__(self, other: Any) -> bool:
        """Whether another record describes the same cells."""
        return isinstance(other, CellOverlaps) and self._key() == other._key()

    def __hash__(self) -> int:
        """The hash of the cells."""
        return hash(self._key())

    def __repr__(self) -> str:
        """The numbers of cells."""
        return f"<CellOverlaps of {self.source_shape} cells with {self.shape}>"

    def _key(self) -> Any:
        return self.means, self.flips, self.pieces, self.source_shape


def entries(given: Sequence[Any], rank: int, name: str) -> Sequence[Any]:
    """Return a sequence, or raise an error if it has not an entry for each axis."""
    if len(given) != rank:
        raise ValueError(f"{name} must have an entry for each of {rank} axes, got {len(given)}")
    return given


def cell_count(bounds: Any) -> int:
    """Return the number of cells with these bounds."""
    shape = np.shape(bounds)
    return int(shape[0] - 1 if len(shape) == 1 else shape[0])


def overlap_of(
    source: Any, target: Any, measure: str, period: Any, axis: str
) -> tuple[CellMeans, bool, Pieces]:
    """Return the means along an axis, whether the image is flipped before, and what is then read.

    Args:
        source: the bounds of the image's cells.
        target: the bounds of the result's cells.
        measure: the measure.
        period: the period, or None.
        axis: the name of the axis, for messages.
    """
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)
    old, old_falls, tolerance = checked_cells(source, measure, f"source along {axis}")
    new, new_falls, rounding = checked_cells(target, measure, f"target along {axis}")
    tolerance = max(tolerance, rounding)
    pieces: Pieces = ((0, len(old)),)
    if new_falls:  # means are of increasing cells
        old, new = -old[::-1, ::-1], -new[::-1, ::-1]
    if period is not None:
        old, pieces = unrolled(old, new, period, tolerance, f"source along {axis}")
    new = snapped(new, old, tolerance)
    return CellMeans(old, new, measure), old_falls != new_falls, pieces


def checked_cells(bounds: Any, measure: str, name: str) -> tuple[Array, bool, float]:
    """Return increasing cells (n, 2), whether they decreased, and the rounding of their bounds."""
    given = np.asarray(bounds)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be bounds of real numbers, got dtype {given.dtype}")
    pairs = given.astype(np.float64)
    if pairs.ndim == 1 and len(pairs) > 1:
        pairs = np.stack([pairs[:-1], pairs[1:]], axis=1)
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or not len(pairs):
        raise ValueError(f"{name} must be bounds (n + 1,) or (n, 2), got shape {given.shape}")
    if not np.isfinite(pairs).all():
        raise ValueError(f"{name} must be finite")
    falls = bool(pairs[-1].sum() < pairs[0].sum() or (len(pairs) == 1 and np.diff(pairs) < 0))
    pairs = np.sort(pairs[::-1] if falls else pairs, axis=1)
    widths = pairs[:, 1] - pairs[:, 0]
    unit = np.finfo(given.dtype if given.dtype.kind == "f" else np.float64).eps
    tolerance = min(ROUNDING * float(unit * np.abs(pairs).max()), SHARE * float(widths.min()))
    gaps = pairs[1:, 0] - pairs[:-1, 1]
    if not (widths > 0).all() or (gaps < -tolerance).any():
        raise ValueError(f"{name} must be of cells that increase, or decrease, and do not overlap")
    touching = np.flatnonzero(np.abs(gaps) <= tolerance)
    pairs[touching + 1, 0] = pairs[touching, 1]
    if measure == "latitude":
        if np.abs(pairs).max() > 90 + tolerance:
            raise ValueError(f"{name} must be latitudes from -90 to 90, got {np.abs(pairs).max()}")
        pairs = np.clip(pairs, -90, 90)
    return pairs, falls, tolerance


def unrolled(
    old: Array, new: Array, period: Any, tolerance: float, name: str
) -> tuple[Array, Pieces]:
    """Repeat the cells of a periodic axis where others are, and return which are read in order."""
    if not np.isreal(period) or not 0 < period < np.inf:
        raise ValueError(f"the period of {name} must be greater than 0, got {period!r}")
    start, end, n = old[0, 0], old[-1, 1], len(old)
    close = max(tolerance, SHARE * float((old[:, 1] - old[:, 0]).min()))
    if end - start > period + close:
        raise ValueError(f"{name} covers {end - start}, which is more than its period {period}")
    if abs(end - start - period) <= close:  # such as numbers that were rounded to float32
        old = old.copy()
        old[-1, 1] = start + period
    turns = range(
        int(np.floor((new[0, 0] - end) / period)), int(np.ceil((new[-1, 1] - start) / period)) + 1
    )
    pieces, parts = list[tuple[int, int]](), list[Array]()
    for turn in turns:
        cells = old + turn * period
        first = int(np.searchsorted(cells[:, 1], new[0, 0] + tolerance, side="right"))
        stop = int(np.searchsorted(cells[:, 0], new[-1, 1] - tolerance, side="left"))
        if first < stop:
            pieces.append((first, stop))
            parts.append(cells[first:stop])
    if not parts:
        return old, ((0, n),)
    cells = np.concatenate(parts)
    touching = np.flatnonzero(np.abs(cells[1:, 0] - cells[:-1, 1]) <= tolerance)
    cells[touching + 1, 0] = cells[touching, 1]
    return cells, tuple(pieces)


def snapped(cells: Array, others: Array, tolerance: float) -> Array:
    """Move bounds of cells to those of others that are equal but for rounding."""
    edges = np.sort(others.reshape(-1))
    after = np.searchsorted(edges, cells).clip(1, len(edges) - 1)
    low, high = edges[after - 1], edges[after]
    nearest = np.where(cells - low < high - cells, low, high)
    result: Array = np.where(np.abs(nearest - cells) <= tolerance, nearest, cells)
    return result


def bounds_between(centers: Any, measure: str, name: str) -> Array:
    """Return the bounds (n + 1,) between centres, in their dtype; latitudes end at the poles."""
    given = np.asarray(centers)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be centers of real numbers, got dtype {given.dtype}")
    if given.ndim != 1 or len(given) < 2:
        raise ValueError(f"{name} must be two centers or more (or give bounds), got {given.shape}")
    line = given.astype(np.float64)
    middles = (line[:-1] + line[1:]) / 2
    ends = 2 * line[0] - middles[0], 2 * line[-1] - middles[-1]
    bounds = np.concatenate([ends[:1], middles, ends[1:]])
    bounds = bounds.clip(-90, 90) if measure == "latitude" else bounds
    return bounds.astype(given.dtype) if given.dtype.kind == "f" else bounds
