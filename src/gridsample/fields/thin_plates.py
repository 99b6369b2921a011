"""Thin-plate splines: smooth maps through landmarks."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of, overridable
from gridsample.backends.maps import grid_along
from gridsample.definitions.arrays import ArrayT
from gridsample.fields.arrays import (
    Array,
    as_wide_arrays,
    check_size,
    components,
    restore_dtype,
)

# The most distances between points and landmarks that are computed at once.
BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class ThinPlate:
    """A thin-plate spline, a function of points; `thin_plate` makes it.

    It maps a point p to ``p + [1, q] @ affine + sum_i k(|q - q_i|) weights_i`` with
    ``q = (p - centre) / scale``, the landmarks q_i, and the kernel k of `thin_plate`.

    Attributes:
        landmarks: (N, M, D), scaled: the points q_i.
        weights: (N, M, D).
        affine: (N, D + 1, D).
        centre: (N, 1, D), the mean of the landmarks.
        scale: (N, 1, 1), the largest distance of a landmark's coordinates from it.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import thin_plate
        >>> corners = np.array([[0.0, 0], [3, 0], [0, 3], [3, 3]])
        >>> spline = thin_plate(corners, 2 * corners + 1)
        >>> spline(np.array([[1.0, 1.0], [1.5, 0.0]])).round(9)
        array([[3., 3.],
               [4., 1.]])
    """

    landmarks: Any
    weights: Any
    affine: Any
    centre: Any
    scale: Any

    def __call__(self, points: Any) -> Any:
        """Map points.

        Args:
            points: (..., D); for N splines (N, ..., D), or (1, ..., D) for the same points under
                each.  Landmarks that are NumPy arrays suit points of any library.

        Returns:
            The mapped points; in the dtype of the wider of points and landmarks.

        Raises:
            TypeError: the points do not hold real numbers, or are from another library.
            ValueError: their shape does not suit the splines.
        """
        backend, (positions, *numbers) = self._numbers(points)
        items, _, rank = backend.shape(numbers[0])
        shape = backend.shape(positions)
        is_batch = items > 1
        if not shape or shape[-1] != rank or (is_batch and shape[0] not in (1, items)):
            lead = f"{items} or 1, ..." if is_batch else "..."
            raise ValueError(f"points must have the shape ({lead}, {rank}), got {shape}")
        flat = positions.reshape(shape[0] if is_batch else 1, -1, rank)
        result = evaluate(backend, flat, numbers)
        lead_axes = (items, *shape[1:]) if is_batch else shape
        return restore_dtype(backend, result.reshape(*lead_axes), points)

    def grid(self, size: Sequence[int]) -> Any:
        """Map the pixels of an output, whose landmarks are pixels.

        Args:
            size: the output's spatial shape, (height, width) or (depth, height, width).

        Returns:
            (N, *size, D): positions in pixels for ``grid_sample(image, grid, coords="pixel")``.

        Raises:
            TypeError: size does not consist of integers.
            ValueError: it does not have D positive entries.
        """
        backend = backend_of(points=self.landmarks)
        rank = backend.shape(self.landmarks)[-1]
        sizes = check_size(size, rank)
        identity = np.eye(rank, rank + 1)[np.newaxis]
        maps = backend.astype(backend.asarray(identity, self.landmarks), self.landmarks.dtype)
        return self(grid_along(backend, maps, sizes, None))

    def _numbers(self, points: Any) -> tuple[Backend, list[Array]]:
        """Convert points and the spline's numbers to arrays of one library and dtype."""
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        if backend_of(points=self.landmarks).is_host:
            backend = backend_of(points=points)
            (like,) = backend.asarrays(points=points)
            fields = [backend.asarray(value, like) for value in fields]
        names = [field.name for field in dataclasses.fields(self)]
        return as_wide_arrays(points=points, **dict(zip(names, fields, strict=True)))


@overridable(arrays=2)
def thin_plate(
    points: ArrayT, targets: ArrayT, smoothing: float | Sequence[float] = 0.0
) -> ThinPlate:
    """Find the smoothest map that takes landmarks to given positions: a thin-plate spline.

    Among all maps f, it minimizes

        sum_i |f(p_i) - t_i|^2 / smoothing_i + bending

    where the bending is the integral of the squares of all second derivatives, up to a constant
    factor; for smoothing = 0, f(p_i) = t_i.  The solution is an affine map plus a sum of
    k(|p - p_i|) over the landmarks, with k(r) = r^2 log r in two dimensions, r^3 in one and -r in
    three (Duchon, 1977; Bookstein, 1989).

    To warp an image, ``points`` are landmarks of the output, and ``targets`` where they are in the
    input:

        grid_sample(image, thin_plate(points, targets).grid(size), coords="pixel")

    In millimetres, it is a transform of `gridsample.resample`.  With M landmarks, M^3 operations
    find the spline, and M for each point evaluate it.

    Args:
        points: (M, D) or (N, M, D), components in x, y, z order (or in that of the affines, for
            `resample`), D = 1 to 3; at least D + 1 landmarks that are not all on a line or in a
            plane.
        targets: of the same shape.
        smoothing: how far the map may miss the targets, in favour of less bending: 0 or more; or M
            numbers.  Its unit is that of k, as in `scipy.interpolate.RBFInterpolator`.

    Returns:
        A `ThinPlate`.  For tensors, what it returns is differentiable with respect to the
        landmarks, the targets and the points.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: the shapes do not match, the landmarks are too few, on a line, in a plane or,
            without smoothing, at the same point, or the smoothing is negative.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.fields import thin_plate
        >>> corners = np.array([[0.0, 0], [4, 0], [0, 4], [4, 4], [2, 2]])
        >>> moved = corners + [[0, 0], [0, 0], [0, 0], [0, 0], [1, 0]]  # the centre, to the right
        >>> grid = thin_plate(corners, moved).grid((5, 5))
        >>> grid[0, 2, :, 0].round(3)
        array([0.366, 1.756, 3.   , 3.756, 4.366])
        >>> gridsample.grid_sample(np.ones((1, 3, 5, 5)), grid, coords="pixel").shape
        (1, 3, 5, 5)
    """
    backend, (landmarks, values) = as_wide_arrays(points=points, targets=targets)
    shape = backend.shape(landmarks)
    if len(shape) not in (2, 3) or not 1 <= shape[-1] <= 3 or shape != backend.shape(values):
        raise ValueError(
            "points and targets must both be (M, D) or (N, M, D) with D = 1 to 3, got shapes "
            f"{shape} and {backend.shape(values)}"
        )
    count, rank = shape[-2:]
    if count <= rank:
        raise ValueError(
            f"points must be at least {rank + 1} landmarks in {rank} dimensions, got {count}"
        )
    penalty = check_smoothing(smoothing, count)
    landmarks, values = landmarks.reshape(-1, count, rank), values.reshape(-1, count, rank)
    check_landmarks(backend, landmarks, bool(penalty.all()))
    return solved(backend, landmarks, values, penalty)


# Arguments ----------------------------------------------------------------------------------------


def check_smoothing(smoothing: Any, count: int) -> np.ndarray[Any, Any]:
    """Return a non-negative number for each landmark, or raise an error."""
    try:
        numbers = np.asarray(smoothing, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"smoothing must be a number, or {count} of them, got {smoothing!r}"
        ) from None
    if numbers.shape not in ((), (count,)):
        raise ValueError(f"smoothing must be a number, or {count} of them, got {smoothing!r}")
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError(f"smoothing must be finite and not negative, got {smoothing!r}")
    return np.broadcast_to(numbers, (count,))


def check_landmarks(backend: Backend, landmarks: Array, may_repeat: bool) -> None:
    """Raise an error if landmarks do not determine a spline, where values can be inspected."""
    numbers = landmarks if backend.is_host else backend.host_view(landmarks)
    if numbers is None:
        return
    for points in numbers:
        rank = points.shape[-1]
        if np.isfinite(points).all() and np.linalg.matrix_rank(points - points.mean(0)) < rank:
            place = ("at one point", "on a line", "in a plane")[rank - 1]
            raise ValueError(f"points must not all be {place}, got {len(points)} that are")
        if not may_repeat and len(np.unique(points, axis=0)) < len(points):
            raise ValueError("two of the points are the same, which needs smoothing above 0")


# Over a backend -----------------------------------------------------------------------------------


def solved(backend: Backend, landmarks: Array, values: Array, penalty: Any) -> ThinPlate:
    """Find the spline of landmarks (N, M, D) and values (N, M, D).

    Coordinates are scaled to about 1, because the kernel's numbers would be large; up to affine
    maps, which the solution has beside it, the kernel is multiplied by a power of the scale.
    """
    xp, (items, count, rank) = backend.xp, backend.shape(landmarks)
    centre = xp.mean(landmarks, 1).reshape(items, 1, rank)
    shifted = landmarks - centre
    scale = xp.amax(xp.abs(shifted).reshape(items, count * rank), 1).reshape(items, 1, 1)
    scaled = shifted / scale
    weight = backend.astype(backend.asarray(np.diag(penalty), landmarks), landmarks.dtype)
    kernel = kernel_between(backend, scaled, scaled) + weight / power_of(scale, rank)
    affine = with_ones(backend, scaled)
    corner = backend.full((items, rank + 1, rank + 1), 0, landmarks.dtype, landmarks)
    top = backend.concatenate((kernel, affine), 2)
    bottom = backend.concatenate((xp.swapaxes(affine, 1, 2), corner), 2)
    zeros = backend.full((items, rank + 1, rank), 0, landmarks.dtype, landmarks)
    right = backend.concatenate((values - landmarks, zeros), 1)
    solution = xp.linalg.solve(backend.concatenate((top, bottom), 1), right)
    return ThinPlate(scaled, solution[:, :count], solution[:, count:], centre, scale)


def evaluate(backend: Backend, points: Array, numbers: Sequence[Array]) -> Array:
    """Map points (N, P, D), in blocks whose intermediate results are not kept."""
    count, length = backend.shape(numbers[0])[1], backend.shape(points)[1]
    step = max(1, BLOCK // count)

    def map_block(block: Array, *numbers: Array) -> Array:
        landmarks, weights, affine, centre, scale = numbers
        scaled = (block - centre) / scale
        bent = kernel_between(backend, scaled, landmarks) @ weights
        return block + with_ones(backend, scaled) @ affine + bent

    blocks = [
        backend.checkpoint(map_block, (points[:, first : first + step], *numbers))
        for first in range(0, max(length, 1), step)
    ]
    return blocks[0] if len(blocks) == 1 else backend.concatenate(blocks, 1)


def kernel_between(backend: Backend, points: Array, landmarks: Array) -> Array:
    """Return the kernel, (N, P, M), of the distances between points and landmarks."""
    xp, rank = backend.xp, backend.shape(points)[-1]
    pairs = zip(components(points, rank), components(landmarks, rank), strict=True)
    differences = [along[..., None] - others[:, None, :] for along, others in pairs]
    square = functools.reduce(operator.add, [each * each for each in differences])
    is_zero = square == 0  # where a derivative would not be finite
    positive = xp.where(is_zero, backend.full((), 1, square.dtype, square), square)
    zero = backend.full((), 0, square.dtype, square)
    if rank == 2:
        return square * xp.log(positive) * 0.5
    distance = xp.where(is_zero, zero, xp.sqrt(positive))
    return square * distance if rank == 1 else distance * -1


def power_of(scale: Array, rank: int) -> Array:
    """Return the factor of the kernel if distances are multiplied by ``scale``."""
    return (scale * scale * scale, scale * scale, scale)[rank - 1]


def with_ones(backend: Backend, points: Array) -> Array:
    """Return points (N, P, D) with ones before them, (N, P, D + 1)."""
    return backend.concatenate((points[..., :1] * 0 + 1, points), -1)
