"""Shapes of images, grids and values that must match, and sizes of outputs as callers give them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from gridsample.definitions.checks import check_extent
from gridsample.messages.links import about

Shape = tuple[int, ...]
# The most spatial axes of an image, and the names of the first ones; others have numbers.
MAX_RANK = 8
AXES = "xyz"


def axis_name(axis: int) -> str:
    """Return what messages call an axis of coordinates: x, y, z, and then its number from 0.

    Example:
        >>> from gridsample.definitions.shapes import axis_name
        >>> axis_name(1), axis_name(3)
        ('y', 'axis 3')
    """
    return AXES[axis] if axis < len(AXES) else f"axis {axis}"


def bands_along(shape: Shape, numbers: int, axis: int = 0) -> Iterator[slice]:
    """Divide an axis of an array into bands of at most ``numbers`` numbers, or of a single entry.

    Example:
        >>> from gridsample.definitions.shapes import bands_along
        >>> [(band.start, band.stop) for band in bands_along((5, 100), 250)]
        [(0, 2), (2, 4), (4, 5)]
    """
    each = math.prod(shape) // max(1, shape[axis])
    step = max(1, numbers // max(1, each))
    for first in range(0, shape[axis], step):
        yield slice(first, min(first + step, shape[axis]))


def axis_names(rank: int) -> str:
    """Return what messages call all axes of coordinates.

    Example:
        >>> from gridsample.definitions.shapes import axis_names
        >>> axis_names(2), axis_names(4)
        ('x, y', 'x, y, z, axis 3')
    """
    return ", ".join([axis_name(axis) for axis in range(rank)])


def is_image(shape: Shape) -> bool:
    """Whether a shape has as many axes as that of an image, (N, C, *spatial)."""
    return 3 <= len(shape) <= MAX_RANK + 2


def channels_last(channel_axis: Any, dimensions: int) -> bool:
    """Whether channels are the last axis; otherwise they are the second."""
    if isinstance(channel_axis, (int, np.integer)) and not isinstance(channel_axis, bool):
        if channel_axis in (1, 1 - dimensions):
            return False
        if channel_axis in (-1, dimensions - 1):
            return True
    raise ValueError(
        f"channel_axis must be 1 (N, C, *spatial) or -1 (N, *spatial, C), got {channel_axis!r}"
    )


def check_shapes(image: Shape, grid: Shape, last: bool) -> int:
    """Return the spatial rank, or raise an error if the shapes do not match."""
    layout = "(N, *spatial, C)" if last else "(N, C, *spatial)"
    unbatched = image_hint(image, grid)
    if not is_image(image):
        raise ValueError(
            f"input must have 3 to {MAX_RANK + 2} dimensions, {layout} with 1 to {MAX_RANK} "
            f"spatial axes, got {len(image)} in shape {image}{unbatched}"
        )
    rank = len(image) - 2
    if len(grid) < 2 or grid[-1] != rank:
        if unbatched:
            raise ValueError(f"input must be {layout}, got shape {image}{unbatched}")
        second = len(grid) == rank + 2 and grid[1] == rank
        hint = "; its components come second: pass grid.movedim(1, -1)" if second else ""
        hint += ", or np.moveaxis(grid, 1, -1) for an array" if second else ""
        if is_image(grid) and image[-1] == len(grid) - 2:
            hint = "; the two seem to be exchanged: the image comes first, then the grid"
        raise ValueError(
            f"grid must be (N, *out, {rank}) for an input with {rank} spatial "
            f"{'axis' if rank == 1 else 'axes'}: its last axis holds {axis_names(rank)}; "
            f"got grid shape {grid} for input shape {image}{hint}{about('grid')}"
        )
    if image[0] != grid[0] and 1 not in (image[0], grid[0]):
        raise ValueError(
            f"input and grid must have the same N, or one of them N = 1, "
            f"got N = {image[0]} in input shape {image} and N = {grid[0]} in grid shape {grid}"
        )
    spatial = image[1:-1] if last else image[2:]
    if 0 in spatial:
        raise ValueError(
            f"input has an empty spatial axis: shape {image}, {layout}; there is nothing to sample"
        )
    return rank


def image_hint(image: Shape, grid: Shape) -> str:
    """Say how to pass an image without a batch that is meant by a grid of points (x, y)."""
    if not grid or grid[-1] != 2:
        return ""
    if len(image) == 2:
        return "; an image (H, W) is given as input[None, None]"
    if len(image) == 3 and image[-1] <= 4 < min(image[:2]):
        return "; a colour image (H, W, C) is given as input[None], with channel_axis=-1"
    if len(image) == 3 and image[0] <= 4 < min(image[1:]):
        return "; an image (C, H, W) is given as input[None]"
    return ""


def check_size(size: Any, grid: Shape) -> Shape:
    """Return the spatial shape to splat to, or raise an error if it does not match the grid."""
    try:
        is_number = hasattr(size, "__index__") and not getattr(size, "ndim", 0)
        sizes = (size,) if is_number else size
        spatial = tuple([as_whole(n) for n in sizes])
    except TypeError:
        raise TypeError(f"size must be a tuple of integers, *spatial, got {size!r}") from None
    if not 1 <= len(spatial) <= MAX_RANK or min(spatial) < 1:
        raise ValueError(f"size must hold 1 to {MAX_RANK} positive numbers, *spatial, got {size!r}")
    check_extent("the result", spatial, 1)
    if len(grid) < 2 or grid[-1] != len(spatial):
        raise ValueError(
            f"grid must be (N, *out, {len(spatial)}) for size {spatial}: its last axis holds "
            f"{axis_names(len(spatial))}; got grid shape {grid}"
        )
    return spatial


def check_values(values: Shape, grid: Shape, last: bool) -> int:
    """Return N of the result, or raise an error if the values do not match the grid's points."""
    out, layout = grid[1:-1], "(N, *out, C)" if last else "(N, C, *out)"
    points = values[1:-1] if last else values[2:]
    if len(values) < 2 or points != out:
        raise ValueError(
            f"values must be {layout} for a grid (N, *out, D) of shape {grid}, got shape {values}"
        )
    if values[0] != grid[0] and 1 not in (values[0], grid[0]):
        raise ValueError(
            f"values and grid must have the same N, or one of them N = 1, got N = "
            f"{values[0]} in values shape {values} and N = {grid[0]} in grid shape {grid}"
        )
    return grid[0] if values[0] == 1 else values[0]


def as_whole(n: Any) -> Any:
    """Convert an entry of a size to int; a SymInt, which is symbolic, is returned unchanged.

    Integers of Python and NumPy are accepted, and arrays and tensors that hold a single integer.

    Raises:
        TypeError: it is not an integer.
    """
    if type(n) is int:
        return n
    if isinstance(n, (bool, np.bool_)):
        raise TypeError(f"expected an integer, got {n!r}")
    if type(n).__name__ == "SymInt":
        return n
    operator.index(n)  # raises the error
    return int(n)  # when a tensor is traced, torch warns here that it becomes a constant


def check_whole(number: Any, name: str, least: int) -> int:
    """Return an option that must be an integer.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than ``least``.
    """
    try:
        whole: int = as_whole(number)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an integer, got {number!r}") from None
    if whole < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return whole


def check_output(size: Any, min_length: int = 3, max_length: int = MAX_RANK + 2) -> Shape:
    """Return an output's shape, or raise an error if it does not have an accepted length."""
    try:
        shape = tuple([as_whole(n) for n in size])
    except TypeError:
        raise TypeError(f"size must be a sequence of integers, got {size!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"size must not hold negative sizes, got {shape}")
    if not min_length <= len(shape) <= max_length:
        hint = f"; for one image of this size: {(1, 1, *shape)}" if len(shape) < min_length else ""
        raise ValueError(
            f"size must be the output's shape (N, C, H, W), or (N, C, *out), with {min_length} to "
            f"{max_length} entries, got {len(shape)}: {shape}{hint}"
        )
    return shape


def check_theta(theta: Shape, size: Shape) -> None:
    """Raise an error if the shape of affine maps does not match an output's shape."""
    rank = len(size) - 2
    expected = (size[0], rank, rank + 1)
    if theta != expected:
        hints = {
            (*theta[:1], rank + 1, rank + 1): f"theta[:, :{rank}]",
            (rank + 1, rank + 1): f"theta[None, :{rank}]",
            expected[1:]: "theta[None]",
        }
        hint = f"; pass {hints[theta]}" if theta in hints else ""
        raise ValueError(
            f"theta must be (N, D, D + 1) = {expected} for size {size}, got shape {theta}{hint}"
        )
