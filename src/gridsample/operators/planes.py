"""Features of points from planes and from grids of several resolutions."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_threads
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import SumCoordsName
from gridsample.definitions.operators import check_types
from gridsample.definitions.shapes import Shape, as_whole
from gridsample.messages.links import unknown_name
from gridsample.operators.sums import arrays_of, weighted_sum
from gridsample.ops.arrays import Array, sum_type

COMBINATIONS = ("sum", "concatenate")


@overridable(arrays=2)
def point_features(
    grids: Sequence[ArrayT],
    points: ArrayT,
    axes: Sequence[Sequence[int]] | None = None,
    combine: Literal["sum", "concatenate"] = "sum",
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
    align_corners: bool = True,
    *,
    coords: SumCoordsName = "normalized",
    threads: int | None = None,
) -> ArrayT:
    """Sample several grids at the same points, and sum or concatenate their features.

    Each grid has one to three axes, which are some of those of the points.  Three planes, along
    (x, y), (x, z) and (y, z), are a tri-plane; grids along all axes, in several sizes, are a dense
    grid of several resolutions:

        result[n, p] = sum over k of grids[k][n](points[n, p, axes[k]])

    or these samples one after the other.  A sum of grids of the same rank is one call of
    `weighted_sum`, in which no sample is kept.  The source of tri-planes is E. Chan et al.,
    "Efficient geometry-aware 3D generative adversarial networks", 2022.

    Args:
        grids: the grids, each (N or 1, C, *size) with one to three spatial axes; any floating-point
            dtype.  Grids that are summed have the same number of channels.
        points: the points, (N, P, D).
        axes: for each grid, the numbers of the coordinates of points along its axes, that of its
            last axis first, as in x, y, z; by default all of them, or, if grids have fewer axes,
            one grid for each choice in the order of `itertools.combinations`: (0, 1), (0, 2),
            (1, 2) for three planes.
        combine: "sum" or "concatenate".
        mode: as in `weighted_sum`, for each axis of a grid.
        padding_mode: likewise.
        align_corners: whether -1 and 1 are the centres of the corner pixels, which are then in the
            same place at every resolution.
        coords: as in `weighted_sum`.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, P, C), where C is the sum of the channels of all grids if they are concatenated, in the
        dtype of the first grid.  Half precision is summed in float32.  Results of tensors and JAX
        arrays have derivatives of any order.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import point_features
        >>> ramp = np.array([[0.0, 1.0], [10.0, 11.0]]).reshape(1, 1, 2, 2)  # x + 10 y, from 0 to 1
        >>> point = np.array([[[1.0, 0.0, -1.0]]])
        >>> point_features([ramp, ramp, ramp], point, combine="concatenate")
        array([[[6. , 1. , 0.5]]])
        >>> point_features([ramp, ramp, ramp], point).item()
        7.5
    """
    check_threads(threads)
    if combine not in COMBINATIONS:
        raise unknown_name("combine", combine, COMBINATIONS)
    if not isinstance(grids, (list, tuple)) or not grids:
        raise TypeError(f"grids must be a list of at least one array, got {type(grids).__name__}")
    names = [f"grids_{k}" for k in range(len(grids))]
    named = {"points": points, **dict(zip(names, grids, strict=True))}
    backend, (places, *images) = arrays_of(named)
    given = {"points": places, **dict(zip(names, images, strict=True))}
    check_types(**{name: backend.type_name(array.dtype, name) for name, array in given.items()})
    shapes = [backend.shape(image) for image in images]
    check_shapes(backend.shape(places), shapes, combine)
    along = check_axes(axes, [len(shape) - 2 for shape in shapes], backend.shape(places)[2])
    real = sum_type(backend, *images)
    wide = [backend.astype(image, real) for image in images]
    rules: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
        "coords": coords,
        "threads": threads,
    }
    if combine == "concatenate":
        groups = [[k] for k in range(len(images))]
    else:  # those with the same number of axes and of items at once
        keys = [(len(shape), shape[0]) for shape in shapes]
        groups = [[k for k, own in enumerate(keys) if own == key] for key in dict.fromkeys(keys)]
    parts = [
        sums_of(backend, [wide[k] for k in group], places, [along[k] for k in group], rules)
        for group in groups
    ]
    if combine == "concatenate":
        result = backend.concatenate(parts, -1)
    else:
        result = functools.reduce(operator.add, parts)
    return backend.restore(backend.astype(result, images[0].dtype), grids[0])


def sums_of(
    backend: Backend,
    images: Sequence[Array],
    points: Array,
    axes: Sequence[Sequence[int]],
    rules: dict[str, Any],
) -> Array:
    """Sum samples of images of one rank at points (N, P, D): (N, P, C)."""
    xp, (items, count, _) = backend.xp, points.shape
    own, channels, *size = images[0].shape
    rank, queries = len(size), items * count // max(own, 1)
    levels = []
    for image in images:
        last = backend.permute(image, (0, *range(2, rank + 2), 1))
        levels.append(xp.reshape(last, (own, math.prod(image.shape[2:]), 1, channels)))
    places = [xp.stack([points[..., axis] for axis in each], -1) for each in axes]
    places = xp.reshape(xp.stack(places, 2), (own, queries, 1, len(images), 1, rank))
    weights = backend.full(places.shape[:-1], 1, places.dtype, places)
    sizes = [tuple(backend.shape(image)[2:]) for image in images]
    sums = weighted_sum(backend.concatenate(levels, 1), places, weights, sizes, **rules)
    return xp.reshape(sums, (items, count, channels))


def check_shapes(points: Shape, grids: Sequence[Shape], combine: str) -> None:
    """Check the shapes of points and grids.

    Raises:
        ValueError: they do not match.
    """
    if len(points) != 3:
        raise ValueError(f"points must be (N, P, D), got shape {points}")
    for k, shape in enumerate(grids):
        if not 3 <= len(shape) <= 5 or shape[0] not in (1, points[0]) or 0 in shape[2:]:
            raise ValueError(
                f"grids[{k}] must be (N or 1, C, *size) with 1 to 3 spatial axes and N = "
                f"{points[0]}, as points have; got shape {shape}"
            )
        if combine == "sum" and shape[1] != grids[0][1]:
            raise ValueError(
                f"grids that are summed must have the same number of channels, but grids[0] has "
                f"{grids[0][1]} and grids[{k}] has {shape[1]}"
            )


def check_axes(axes: Any, ranks: Sequence[int], dimensions: int) -> list[tuple[int, ...]]:
    """Return the coordinates of points along the axes of each grid.

    Raises:
        TypeError: axes are not integers.
        ValueError: they do not match the grids and the points.
    """
    if axes is None:
        if set(ranks) == {dimensions}:
            return [tuple(range(dimensions)) for _ in ranks]
        choices = list(itertools.combinations(range(dimensions), ranks[0]))
        if len(set(ranks)) == 1 and len(choices) == len(ranks):
            return choices
        raise ValueError(
            f"axes must say which of the {dimensions} coordinates of points are along the axes of "
            f"each grid; they are known only for grids with {dimensions} axes, or for one grid for "
            "each choice of axes"
        )
    try:
        along = [tuple([as_whole(n) for n in each]) for each in axes]
    except TypeError:
        raise TypeError(f"axes must be a tuple of integers for each grid, got {axes!r}") from None
    fits = [*map(len, along)] == [*ranks]
    if not fits or any([not 0 <= n < dimensions for each in along for n in each]):
        raise ValueError(
            f"axes must have {' and '.join(map(str, ranks))} numbers from 0 to {dimensions - 1} "
            f"for the {len(ranks)} grids, got {axes!r}"
        )
    return along
