"""The areas of an image that the points of a grid cover, and how densely they are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, backend_of, overridable
from gridsample.backends.footprints import Neighbours, measure
from gridsample.definitions import footprints as definitions
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import check_boundaries
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import check_coords, find_coords
from gridsample.definitions.knots import Axes
from gridsample.definitions.methods import Padding, per_axis
from gridsample.definitions.names import CoordsName
from gridsample.definitions.shapes import Shape, check_size
from gridsample.ops.arrays import Array, as_grid


class Footprints(NamedTuple):
    """The footprints of a grid's points.

    Attributes:
        lengths: the lengths of the sides in pixels of the image, (N, *out, D), in the order of the
            output's axes.
        counts: the numbers of samples along the sides, (N, *out, D); their product is the number of
            samples of a point.
        levels: how often the image is halved for the samples of a point, (N, *out).  Labels are
            never halved: sides that are too long then have ``max_samples`` samples.
    """

    lengths: Any
    counts: Any
    levels: Any


@overridable(arrays=1)
def footprint(
    grid: ArrayT,
    size: Sequence[int],
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
    max_samples: int = definitions.MAX_SAMPLES,
    padding_mode: Padding = "zeros",
) -> Footprints:
    """Compute the area that each point of a grid covers in an image, for antialiased sampling.

    `grid_sample` with antialias=True takes the mean of counts[..., 0] * counts[..., 1] * ...
    samples for each point.  Its time is proportional to the total number of samples.  Where all
    lengths are at most 1, the grid skips no pixels, and antialiasing changes nothing.

    Args:
        grid: the coordinates, (N, *out, D), as in `grid_sample`, with as many axes in ``out`` as
            the image has.
        size: the spatial shape of the image, such as (height, width); a number for one axis.
        align_corners, coords, max_samples: as in `grid_sample`.
        padding_mode: the boundary, or a tuple with one per axis.  Along an axis with "wrap",
            neighbours on both sides of the seam are next to each other.

    Returns:
        A named tuple with ``lengths`` in pixels (N, *out, D), in the dtype of the grid, float32 for
        16-bit grids; ``counts``, the numbers of samples, int64 of the same shape; and ``levels``,
        the number of times that the image is halved for a point, int64 (N, *out).

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: the grid does not match the size, or a name is unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> half = gridsample.affine_grid(np.array([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 4, 6))
        >>> footprints = gridsample.footprint(half, (8, 12))
        >>> footprints.lengths[0, 0, 0], footprints.counts[0, 0, 0]
        (array([2., 2.]), array([2, 2]))
    """
    backend = backend_of(grid=grid)
    (array,) = backend.to_device(grid=grid)
    points = as_grid(backend, array, coords)
    shape = backend.shape(points)
    spatial = check_size(size, shape)
    check_coords(find_coords(coords), spatial, shape[1:-1])
    parameters = definitions.as_footprint(True, max_samples)
    assert parameters is not None
    definitions.check_footprint(parameters, len(spatial), shape)
    corners = check_flag(align_corners, "align_corners")
    boundaries = check_boundaries(per_axis(padding_mode, len(spatial), "padding_mode"))
    with backend.quiet():  # coordinates may be infinite
        units = spatial, coords, corners
        arrays = measured(backend, points, units, boundaries, parameters.max_samples)
    return Footprints(*[backend.restore(array, grid) for array in arrays])


def measured(
    backend: Backend,
    grid: Array,
    units: tuple[Shape, str | Axes, bool],
    padding_mode: Sequence[str],
    max_samples: int,
) -> Footprints:
    """Compute the footprints of checked points.

    units: the spatial shape of the image, the units of coordinates, and the meaning of -1 and 1.
    """
    if backend.type_name(grid.dtype, "grid") in ("float16", "bfloat16"):
        grid = backend.astype(grid, backend.type("float32"))
    xp, integer_type = backend.xp, backend.type("int64")
    periods = definitions.periods(*units, padding_mode)
    sides = Neighbours(xp, grid).sides(grid, units[1] == "displacement", periods)
    unit, deepest = definitions.pixels_per_unit(*units), definitions.deepest(units[0])
    lengths, level, counts = measure(xp, sides, unit, max_samples, deepest)
    integers = [backend.astype(array, integer_type) for array in (xp.stack(counts, -1), level)]
    return Footprints(xp.stack(lengths, -1), *integers)
