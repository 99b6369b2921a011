"""Grid sampling in plain loops: the reference for every kernel, and the best place to learn from.

Nothing here is fast, and no code is shared with the fast kernels. Read it from the top; it follows
one coordinate until it has become a number:

1.  `position` converts a coordinate, in which -1 and 1 are the ends of the image, to pixels. A
    coordinate may also be a position already, or a distance in pixels from the output's own
    position: `locate`.
2.  The boundary folds positions and taps outside the image back into it: `fold_position` for the
    methods nearest and linear under PyTorch's three boundaries, `fold_index` for all others. A
    boundary may also change the sign of pixels outside: `fold_sign`.
3.  `weigh` computes the weights of the pixels near the position, or derivatives of the weights.
4.  `axis_taps` combines these three steps into the taps of one axis: (index, weight) pairs.
5.  `point_taps` combines the taps of all axes into the taps of one point of the grid.
6.  `gather` sums weight * pixel over the taps, `scatter` adds weight * value to the same taps, and
    `gradients` does both to compute the two gradients of sampling.

An example by hand: in a photo of one row, we sample a quarter of a pixel to the right of the middle
pixel. The size is 3, so the coordinate 1/6 has the position ((1/6 + 1) * 3 - 1) / 2 = 1.25. The
taps are pixel 1 with weight 0.75 and pixel 2 with weight 0.25. The sum is 0.75 * 20 + 0.25 * 40 =
25.

>>> import numpy as np
>>> position(1 / 6, size=3, align_corners=False)
1.25
>>> axis_taps(1 / 6, 3, "linear", "zeros", align_corners=False)
[(1, 0.75), (2, 0.25)]
>>> row = np.array([[[10.0, 20.0, 40.0]]])
>>> gather(row, np.array([[[1 / 6]]]), ("linear",), ("zeros",), align_corners=False)
array([[[25.]]])

Shapes: an image is (N, C, *spatial) and a grid (N, *out, D), for any D >= 1 and any `out`. The last
axis of the grid is ordered x, y, z, and x runs along the LAST axis of the image. `modes`,
`boundaries` and `order` have one entry per axis in that same order. If the N of image and grid
differ, one of them must be 1 and is broadcast. All arithmetic is in float64.

A NaN coordinate has no position, nor has an infinite one if the image repeats. A point with such a
coordinate is undefined: it gathers NaN, scatters nothing, and has derivatives of 0, so that masking
its output is enough to keep a gradient free of NaN.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridsample.kernels.reference.axis import (
    BOUNDARIES,
    ENDS,
    MODES,
    Ends,
    Index,
    Mode,
    axis_taps,
    clamp,
    degree,
    ends_of,
    fold_index,
    fold_position,
    fold_sign,
    locate,
    outside,
    position,
    reflect,
    slope,
    weigh,
)

Array = npt.NDArray[Any]

__all__ = [
    "BOUNDARIES",
    "ENDS",
    "MODES",
    "axis_taps",
    "clamp",
    "degree",
    "fold_index",
    "fold_position",
    "fold_sign",
    "gather",
    "gradients",
    "outside",
    "point_taps",
    "position",
    "reflect",
    "scatter",
    "slope",
    "weigh",
]


def point_taps(
    point: Sequence[float],
    spatial: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    *,
    coords: str = "normalized",
    indices: Sequence[int] | None = None,
    extrapolate: Ends = True,
) -> list[tuple[Index | None, float]] | None:
    """List the taps of one point of the grid: every combination of one tap from each axis.

    The weight of a combination is the product of the weights. A combination is dropped if one of
    its taps is not on a pixel, but not if its weight happens to be 0. Under the boundary
    "constant", it contributes the fill value instead, unless its weight is 0.

    Args:
        point: the coordinates of the point, in the order x, y, z.
        spatial: the sizes of the image, as in its shape: the size along x is the last.
        modes: a method per axis, in the order x, y, z.
        boundaries: a boundary per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, in the order x, y, z.
        coords: the units of coordinates; see `locate`.
        indices: the indices of the output's own position, for displacements, in the order x, y, z.
        extrapolate: True if positions outside the image have taps; "continue" if they have those
            of the first or the last interval; otherwise they have the fill value and no other tap,
            see `outside`. One for all axes, or one for each, in the order x, y, z.

    Returns:
        (index, weight) pairs; an index is ordered like the image's shape, and None stands for
        the fill value. The result is None if the point is undefined.

    >>> linear, zeros = ("linear", "linear"), ("zeros", "zeros")
    >>> for tap in point_taps((0.5, 0.0), (2, 2), linear, zeros, True, (0, 0)):
    ...     print(tap)
    ((0, 0), 0.125)
    ((0, 1), 0.375)
    ((1, 0), 0.125)
    ((1, 1), 0.375)
    >>> point_taps((-1.0,), (2,), ("linear",), ("constant",), False, (0,))
    [(None, 0.5), ((0,), 0.5)]
    """
    sizes, indices = spatial[::-1], indices or [0] * len(spatial)
    positions = [
        locate(x, place, size, align_corners, coords)[0]
        for x, place, size in zip(point, indices, sizes, strict=True)
    ]
    if any(math.isnan(p) for p in positions):
        return None
    ends = ends_of(extrapolate, len(spatial))
    if any(
        outside(p, size, align_corners, coords, end)
        for p, size, end in zip(positions, sizes, ends, strict=True)
    ):
        return [] if any(order) else [(None, 1)]

    axes = [
        axis_taps(
            x,
            size,
            mode,
            boundary,
            align_corners,
            k,
            coords=coords,
            index=place,
            continues=end == "continue",
        )
        for x, size, mode, boundary, k, place, end in zip(
            point, sizes, modes, boundaries, order, indices, ends, strict=True
        )
    ]
    defined = [taps for taps in axes if taps is not None]
    if len(defined) < len(axes):
        return None
    result: list[tuple[Index | None, float]] = []
    for combination in itertools.product(*reversed(defined)):
        index = tuple(i for i, _ in combination if i is not None)
        weight = math.prod(weight for _, weight in combination)
        if len(index) == len(combination):
            result.append((index, weight))
        elif "constant" in boundaries and weight != 0:
            result.append((None, weight))
    return result


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings for overflow and inf - inf; the result shows them as inf and NaN."""
    with np.errstate(all="ignore"):
        yield


def gather(
    image: Array,
    grid: Array,
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: Any = 0,
) -> Array:
    """Sample an image: out[n, c, point] = sum over the point's taps of weight * image[n, c, tap].

    Args:
        image: (N, C, *spatial), of any real, integer, bool or complex dtype.
        grid: (N, *out, D), the coordinates.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; plain sampling,
            which is all zeros, if None.
        coords: the units of coordinates: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: True, or where the image ends, beyond which the fill value is; see `outside`.
        fill: the fill value, a number or one per channel, for "constant" and for
            extrapolate=False.

    Returns:
        (N, C, *out) in float64, or complex128 for a complex image. Plain sampling of an integer
        or bool image returns the image's dtype, rounded half to even and saturated. An
        undefined point gives NaN, the fill value in an integer image, and 0 in a derivative.

    Raises:
        ValueError: the shapes do not match, a mode, boundary or order is unknown, or the image
            has an empty spatial axis.

    >>> import numpy as np
    >>> image = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> middle = np.array([[[0.0, 0.0]]])
    >>> linear, zeros = ("linear", "linear"), ("zeros", "zeros")
    >>> gather(image, middle, linear, zeros, align_corners=True)
    array([[[2.5]]])
    >>> gather(image, middle, linear, zeros, align_corners=True, order=(1, 0))
    array([[[0.5]]])
    """
    if np.iscomplexobj(image):  # the weights are real: each part is an image of its own
        real, imag = (
            gather(
                part(image),
                grid,
                modes,
                boundaries,
                align_corners,
                order,
                coords=coords,
                extrapolate=extrapolate,
                fill=part(fill),
            )
            for part in (np.real, np.imag)
        )
        return join(real, imag)
    spatial = image.shape[2:]
    order = check(grid, spatial, modes, boundaries, order, coords)
    integer = image.dtype.kind in "biu" and not any(order)
    fills = np.broadcast_to(fill, image.shape[1:2]).tolist()

    image, grid = broadcast_items(image, grid)
    out = np.empty((*image.shape[:2], *grid.shape[1:-1]), image.dtype if integer else np.float64)
    for n, point, taps in walk(
        grid, spatial, modes, boundaries, align_corners, order, coords, extrapolate
    ):
        for c in range(image.shape[1]):
            value = fills[c] if integer else 0 if any(order) else math.nan
            if taps is not None:
                value = add_up(taps, image[n, c], fills[c])
            out[n, c, *point] = saturate(value, out.dtype) if integer else value
    return out


@quietly()
def scatter(
    values: Array,
    grid: Array,
    spatial_size: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int] | None = None,
    batch: int | None = None,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
) -> Array:
    """Add values to an image: result[n, c, tap] += weight * values[n, c, point] at every tap.

    This is the transpose of `gather` with the same grid, methods, boundaries and order, and the
    fill value 0: sum(gather(image) * values) = sum(image * scatter(values)). It is therefore the
    gradient of `gather` with respect to the image. The operation is also called splatting.

    Args:
        values: (N, C, *out), real or complex.
        grid: (N, *out, D), the coordinates.
        spatial_size: the spatial shape of the result.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        order: the order of derivative per axis, with respect to the coordinates; all zeros if None.
        batch: N of the result; if None, the broadcast N. If it is 1, all items are summed.
        coords: the units of coordinates: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: True, or where the image ends, beyond which the fill value is; see `outside`.

    Returns:
        (batch, C, *spatial_size) in float64, or complex128 for complex values. An undefined
        point adds nothing.

    Raises:
        ValueError: the shapes do not match, a mode, boundary or order is unknown, or a spatial
            size is 0.

    >>> import numpy as np
    >>> values, point = np.array([[[8.0]]]), np.array([[[0.5]]])
    >>> scatter(values, point, (3,), ("linear",), ("zeros",), align_corners=True)
    array([[[0., 4., 4.]]])
    """
    if np.iscomplexobj(values):
        real, imag = (
            scatter(
                part,
                grid,
                spatial_size,
                modes,
                boundaries,
                align_corners,
                order,
                batch,
                coords=coords,
                extrapolate=extrapolate,
            )
            for part in (values.real, values.imag)
        )
        return join(real, imag)
    order = check(grid, spatial_size, modes, boundaries, order, coords)
    if values.ndim < 2 or values.shape[2:] != grid.shape[1:-1]:
        raise ValueError(f"values has shape {values.shape}; the points of grid are {grid.shape}")

    values, grid = broadcast_items(values, grid)
    result = np.zeros((*values.shape[:2], *spatial_size))
    for n, point, taps in walk(
        grid, spatial_size, modes, boundaries, align_corners, order, coords, extrapolate
    ):
        for c in range(values.shape[1]):
            for index, weight in taps or ():
                if index is not None:
                    result[n, c, *index] += weight * values[n, c, *point].item()
    return sum_items(result, result.shape[0] if batch is None else batch)


@quietly()
def gradients(
    grad_output: Array,
    image: Array,
    grid: Array,
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: Any = 0,
) -> tuple[Array, Array]:
    """Return the gradients of plain sampling with respect to the image and to the grid.

    With g the gradient of the output, for every point and every tap:

        grad_input[n, c, tap]     += g[n, c, point] * weight
        grad_grid[n, point, axis] += g[n, c, point] * (weight differentiated along axis)
                                                    * image[n, c, tap]

    A complex image is treated as two real ones, its real and imaginary parts. Its grad_grid is the
    sum of theirs, the real part of conj(g) * d output / d coordinate.

    Args:
        grad_output: (N, C, *out), complex if the image is.
        image: (N, C, *spatial), of any real, integer, bool or complex dtype.
        grid: (N, *out, D), the coordinates.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: what -1 and 1 mean; see `position`.
        coords: the units of coordinates: "normalized", "pixel" or "displacement"; see `locate`.
        extrapolate: True, or where the image ends, beyond which the fill value is; see `outside`.
        fill: the fill value, a number or one per channel, for "constant" and for
            extrapolate=False.

    Returns:
        (grad_input, grad_grid) with the shapes of the image and the grid; the gradient of a
        broadcast array is summed over items. Both are float64, but grad_input is complex128 for
        a complex image. An undefined point adds nothing to grad_input and has a grad_grid of 0.

    Raises:
        ValueError: the shapes do not match, a mode or boundary is unknown, or the image has an
            empty spatial axis.

    >>> import numpy as np
    >>> image, point = np.array([[[10.0, 20.0, 40.0]]]), np.array([[[0.5]]])
    >>> grad_input, grad_grid = gradients(
    ...     np.ones((1, 1, 1)), image, point, ("linear",), ("zeros",), align_corners=True
    ... )
    >>> grad_input, grad_grid
    (array([[[0. , 0.5, 0.5]]]), array([[[20.]]]))
    """
    if np.iscomplexobj(image):
        (input_real, grid_real), (input_imag, grid_imag) = (
            gradients(
                part(grad_output),
                part(image),
                grid,
                modes,
                boundaries,
                align_corners,
                coords=coords,
                extrapolate=extrapolate,
                fill=part(fill),
            )
            for part in (np.real, np.imag)
        )
        return join(input_real, input_imag), grid_real + grid_imag
    spatial, items, grid_items = image.shape[2:], image.shape[0], grid.shape[0]
    check(grid, spatial, modes, boundaries, None, coords)
    fills = np.broadcast_to(fill, image.shape[1:2]).tolist()
    image, grid = broadcast_items(image, grid)
    expected = (*image.shape[:2], *grid.shape[1:-1])
    if grad_output.shape != expected:
        raise ValueError(f"grad_output has shape {grad_output.shape}; accepted is {expected}")

    grad_input = scatter(
        grad_output,
        grid,
        spatial,
        modes,
        boundaries,
        align_corners,
        batch=items,
        coords=coords,
        extrapolate=extrapolate,
    )
    grad_grid = np.zeros(grid.shape)
    for axis in range(len(spatial)):
        order = [int(k == axis) for k in range(len(spatial))]
        for n, point, taps in walk(
            grid, spatial, modes, boundaries, align_corners, order, coords, extrapolate
        ):
            grad_grid[n, *point, axis] = sum(
                grad_output[n, c, *point].item() * add_up(taps, image[n, c], fills[c])
                for c in range(image.shape[1])
                if taps
            )
    return grad_input, sum_items(grad_grid, grid_items)


Taps = list[tuple[Index | None, float]]


def walk(
    grid: Array,
    spatial: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    coords: str,
    extrapolate: Ends,
) -> Iterator[tuple[int, Index, Taps | None]]:
    """Yield each point of a grid: its item n, its index in `out`, and its taps."""
    for n, *point in np.ndindex(grid.shape[:-1]):
        coordinates = grid[n, *point].tolist()
        indices = point[::-1] if coords == "displacement" else None
        taps = point_taps(
            coordinates,
            spatial,
            modes,
            boundaries,
            align_corners,
            order,
            coords=coords,
            indices=indices,
            extrapolate=extrapolate,
        )
        yield n, tuple(point), taps


def add_up(taps: Taps, plane: Array, fill: float) -> float:
    """Sum weight * pixel over the taps, with the fill value for a tap that is not on a pixel."""
    return sum(weight * (fill if i is None else plane[*i].item()) for i, weight in taps)


def broadcast_items(a: Array, b: Array) -> tuple[Array, Array]:
    """Broadcast the first axes of two arrays; the results are views."""
    (n,) = np.broadcast_shapes(a.shape[:1], b.shape[:1])
    return np.broadcast_to(a, (n, *a.shape[1:])), np.broadcast_to(b, (n, *b.shape[1:]))


def sum_items(array: Array, batch: int) -> Array:
    """Sum a gradient over the items that `broadcast_items` repeated."""
    if batch not in (1, array.shape[0]):
        raise ValueError(f"batch is {batch}; accepted are 1 and N = {array.shape[0]}")
    return array if batch == array.shape[0] else array.sum(axis=0, keepdims=True)


def join(real: Array, imag: Array) -> Array:
    """Combine two parts to complex numbers, also infinite ones (for which 1j * inf adds a NaN)."""
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imag
    return result


def saturate(value: float, dtype: np.dtype[Any]) -> int:
    """Round a number half to even, then clamp it to the range of an integer or bool dtype.

    >>> import numpy as np
    >>> [saturate(v, np.dtype(np.uint8)) for v in (-3.7, 2.5, 3.5, 300.2)]
    [0, 2, 4, 255]
    """
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return min(max(round(value), int(low)), int(high))


def check(
    grid: Array,
    spatial: Sequence[int],
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    order: Sequence[int] | None,
    coords: str,
) -> tuple[int, ...]:
    """Reject arguments that do not match; return the order with its default filled in."""
    rank = len(spatial)
    order = (0,) * rank if order is None else tuple(order)
    if rank == 0 or 0 in spatial:
        raise ValueError(f"spatial sizes are {tuple(spatial)}; accepted are sizes of 1 or more")
    if grid.ndim < 2 or grid.shape[-1] != rank:
        raise ValueError(f"grid has shape {grid.shape}; accepted is (N, *out, {rank})")
    for name, names, accepted in (
        ("modes", [mode for mode in modes if isinstance(mode, str)], MODES),
        ("boundaries", boundaries, BOUNDARIES),
    ):
        if len(modes) != rank or len(boundaries) != rank or not set(names) <= set(accepted):
            raise ValueError(f"{name} is {names!r}; accepted are {rank} of {', '.join(accepted)}")
    if coords == "displacement" and grid.ndim != rank + 2:
        raise ValueError(f"grid has shape {grid.shape}; accepted is (N, *out, {rank}), {rank} out")
    if len(order) != rank or min(order) < 0:
        raise ValueError(f"order is {order}; accepted are {rank} integers of 0 or more")
    return order
