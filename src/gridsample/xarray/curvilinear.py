"""Curvilinear coordinates, with several dimensions: where they are those of a target."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridsample.backends import backend_of
from gridsample.fields.arrays import cells_of, determinant, solve
from gridsample.ops.derivatives import grid_gradient
from gridsample.ops.sampling import grid_sample
from gridsample.xarray.coordinates import Positions, as_numbers

if TYPE_CHECKING:
    import xarray

# The inversion of curvilinear coordinates, in pixels: it ends at this residual, or after so many
# steps, or with a step this short; a point with a larger residual than that counts as outside, and
# one as near to a pixel's centre as that is moved there; a cell with less area has none.
TOLERANCE, MAX_STEPS, SHORTEST, MAX_RESIDUAL, SNAP_DISTANCE = 1e-9, 50, 1e-6, 1e-3, 1e-7
SLIVER = 1e-9
# By the number of dimensions, how many pixels along each of them the inversion may start from, and
# how many are looked up to see whether coordinates overlap.
STARTS, CHECKED = {2: 16, 3: 7}, {2: 150, 3: 28}
# How many targets are compared with these pixels at once.
BLOCK = 4096


def curvilinear(
    coordinates: Sequence[xarray.DataArray],
    targets: Sequence[xarray.DataArray],
    dims: tuple[Hashable, ...],
) -> dict[Hashable, xarray.DataArray]:
    """Invert coordinates with as many dimensions as there are of them.

    Coordinates are interpolated linearly between pixels, and extended linearly beyond the image.
    """
    import xarray

    pairs = [as_numbers(*pair) for pair in zip(coordinates, targets, strict=True)]
    sources = np.stack([source.transpose(*dims).values for source, _ in pairs], -1)
    target_arrays = xarray.broadcast(*(target for _, target in pairs))
    names = [coordinate.name for coordinate in coordinates]
    if not np.isfinite(sources).all() or min(sources.shape[:-1]) < 2:
        raise ValueError(
            f"the image's coordinates {names} must be finite, and have two pixels or more along "
            f"each dimension, got the shape {sources.shape[:-1]} and {np.isnan(sources).sum()} NaN"
        )
    unit = pixel_size(sources)
    sources = sources / unit
    check_folds(sources, names)
    points = np.stack([array.values for array in target_arrays], -1) / unit
    points[~np.isfinite(points)] = np.nan
    positions, residual = located(sources, points.reshape(-1, len(dims)))
    positions = np.where(residual[:, np.newaxis] <= MAX_RESIDUAL, positions, np.nan)
    # The coordinates of a pixel at the edge are not outside.
    nearest = np.rint(positions)
    positions = np.where(np.abs(positions - nearest) < SNAP_DISTANCE, nearest, positions)
    positions = positions.reshape(points.shape)
    return {
        dim: target_arrays[0].copy(data=positions[..., k]).reset_coords(drop=True)
        for k, dim in enumerate(dims)
    }


def pixel_size(sources: Positions) -> Positions:
    """Return the root mean square of the steps of each coordinate (*shape, D) to a neighbour."""
    rank = sources.shape[-1]
    steps = [np.diff(sources, axis=k).reshape(-1, rank) for k in range(rank)]
    sizes: Positions = np.sqrt(np.square(np.concatenate(steps)).mean(0))
    return np.where(sizes > 0, sizes, 1.0)


def check_folds(sources: Positions, names: Sequence[Hashable]) -> None:
    """Raise an error unless each position (*shape, D) has its own coordinates.

    The cells between pixels must have the same orientation, at each of their corners, and some of
    the pixels are looked up by their coordinates, as coordinates may also overlap from afar.
    """
    rank, shape = sources.shape[-1], sources.shape[:-1]
    most, least = 0.0, 0.0
    for corner in itertools.product((0, 1), repeat=rank):
        sides = []
        for k in range(rank):
            part = [slice(c, c + n - 1) for c, n in zip(corner, shape, strict=True)]
            part[k] = slice(None)
            sides.append(np.diff(sources[tuple(part)], axis=k))
        areas = determinant(cells_of(np.stack(sides, -1), rank))
        most, least = max(most, float(areas.max())), min(least, float(areas.min()))
    if min(most, -least) > SLIVER or max(most, -least) <= SLIVER:
        raise ValueError(
            f"the image's coordinates {names} fold, or do not vary: several pixels have the same "
            "coordinates; longitudes must not jump, as from 180 to -180; otherwise resample the "
            "parts of the image that do not fold"
        )
    indices = spread(shape, CHECKED[rank])
    positions, _ = located(sources, sources[tuple(indices.T)])
    last = np.array(shape) - 1
    # The ends of a closed ring have the same coordinates, but no area in common.
    is_inner = ((indices > 0) & (indices < last)).all(-1)
    lost = is_inner & (np.abs(positions - indices) > MAX_RESIDUAL).any(-1)
    if lost.any():
        raise ValueError(
            f"the image's coordinates {names} overlap, or bend too much to be inverted: those of "
            f"the pixel {tuple(indices[lost][0].tolist())} are also those of another one, or are "
            "not found again; resample parts of the image"
        )


def located(sources: Positions, targets: Positions) -> tuple[Positions, Positions]:
    """Return where coordinates (*shape, D) are targets (n, D), and how far they are from them."""
    last = np.array(sources.shape[:-1]) - 1
    positions, distance = descended(sources, targets, nearest_pixels(sources, targets))

    def retry(chosen: NDArray[np.bool_], starts: Positions) -> None:
        """Look for some targets from other positions, which are accepted in the image only."""
        found, rest = descended(sources, targets[chosen], starts)
        inside = ((found >= 0) & (found <= last)).all(-1) & (rest <= MAX_RESIDUAL)
        better = np.flatnonzero(chosen)[inside]
        positions[better], distance[better] = found[inside], rest[inside]

    # A position beyond an end of the image, where coordinates are extended, may also be at the
    # other end: rings are closed.
    for axis, size in enumerate(last + 1):
        for beyond, half in (
            (positions[:, axis] < 0, slice(size // 2, size)),
            (positions[:, axis] > size - 1, slice(0, size // 2)),
        ):
            part = sources[(slice(None),) * axis + (half,)]
            offset = np.eye(len(last))[axis] * half.start
            retry(beyond, nearest_pixels(part, targets[beyond]) + offset)
    # A descent may end where slopes change; it does not from the centre of the right cell.
    for step in itertools.product((0, -1, 1), repeat=len(last)):
        stuck = distance > MAX_RESIDUAL
        retry(stuck, np.clip(np.floor(positions[stuck]) + step, 0, last - 1) + 0.5)
    return positions, distance


def descended(
    sources: Positions, targets: Positions, positions: Positions
) -> tuple[Positions, Positions]:
    """Find positions by Newton's method from given ones; see `located`.

    A step is taken where it brings the coordinates nearer; elsewhere the next one is half as long.
    """
    values, slopes = coordinates_at(sources, positions)
    error, length = values - targets, np.ones(len(targets))
    distance = np.linalg.norm(error, axis=-1)
    for _ in range(MAX_STEPS):
        active = np.flatnonzero((distance > TOLERANCE) & (length > SHORTEST))
        if not active.size:
            break
        backend = backend_of(targets=targets)
        cells = cells_of(slopes[active], len(sources.shape) - 1)
        steps = np.stack(solve(backend, cells, [*error[active].T]), -1)
        trial = positions[active] - length[active, np.newaxis] * steps
        values, new_slopes = coordinates_at(sources, trial)
        new_error = values - targets[active]
        new_distance = np.linalg.norm(new_error, axis=-1)
        better = new_distance < distance[active]
        taken = active[better]
        positions[taken], slopes[taken] = trial[better], new_slopes[better]
        error[taken], distance[taken] = new_error[better], new_distance[better]
        length[active] = np.minimum(1.0, length[active] * np.where(better, 2.0, 0.5))
    return positions, distance


def nearest_pixels(sources: Positions, targets: Positions) -> Positions:
    """Return the index of the pixel nearest to each target (n, D), of some that are spread out."""
    rank, shape = sources.shape[-1], sources.shape[:-1]
    indices = spread(shape, STARTS[rank])
    known = sources[tuple(indices.T)]
    result = np.zeros(targets.shape)
    half = np.square(known).sum(-1) / 2
    for start in range(0, len(targets), BLOCK):
        part = slice(start, start + BLOCK)
        result[part] = indices[np.argmin(half - targets[part] @ known.T, axis=-1)]
    return result


def spread(shape: Sequence[int], count: int) -> NDArray[np.intp]:
    """Return the indices (n, D) of pixels, ``count`` along an axis at most, with those at its ends.

    >>> spread((7,), 3).tolist()
    [[0], [3], [6]]
    """
    lines = [np.unique(np.linspace(0, n - 1, count).round().astype(int)) for n in shape]
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, len(shape))


def coordinates_at(sources: Positions, positions: Positions) -> tuple[Positions, Positions]:
    """Return coordinates at positions (n, D), and their derivatives (n, D, D), axes last."""
    last = np.array(sources.shape[:-1], np.float64) - 1
    inside = np.clip(positions, 0, last)
    values = at(grid_sample, sources, inside)
    # At the edge, those of the cell beside it.
    in_cells = np.clip(positions, SLIVER, last - SLIVER)
    slopes = at(grid_gradient, sources, in_cells)[..., ::-1]
    beyond = (positions - inside)[..., np.newaxis]
    return values + (slopes @ beyond)[..., 0], slopes


def at(operation: Callable[..., Any], sources: Positions, positions: Positions) -> Positions:
    """Interpolate coordinates linearly, or their derivatives, at positions (n, D) in pixels."""
    grid = np.ascontiguousarray(positions[np.newaxis, :, ::-1])
    options: dict[str, Any] = {"coords": "pixel", "channel_axis": -1}
    sampled: Positions = operation(sources[np.newaxis], grid, "linear", "border", **options)[0]
    return sampled
