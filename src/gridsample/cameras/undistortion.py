"""The inverse of lens distortion: the rays that a lens images at given points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gridsample.backends import Backend
from gridsample.cameras.arrays import (
    Array,
    as_arrays,
    check_batches,
    check_shape,
    first_array,
    flip_axes,
    signs_of,
    transform,
)
from gridsample.cameras.lenses import (
    as_coefficients,
    check_model,
    fisheye_field,
    last_increase,
    polynomial,
    radial_polynomial,
    rotated_sensor,
)
from gridsample.definitions.arrays import ArrayLike, ArrayT
from gridsample.definitions.shapes import bands_along

# The iterations that bracket a ray's angle, and those of Newton's method from there.
HALVINGS, STEPS = 8, 12
# The points of a part: finding the field of the lens anew costs as much as some hundred of them.
PART = 1 << 14
# The largest angle between a ray and the viewing direction in the model "opencv": 0.1 degrees less
# than a right angle, whose tangent is not finite.
WIDEST = math.radians(89.9)


def undistort_points(
    points: ArrayT,
    distortion: ArrayLike,
    intrinsics: ArrayLike | None = None,
    *,
    model: str = "opencv",
    axes: str = "opencv",
    max_angle: float | None = None,
    rays: bool = False,
) -> ArrayT:
    """Find the rays that a lens images at given points: the inverse of `distort_points`.

    A model is inverted within the field of the lens.  It ends at the first angle from the viewing
    direction at which the radial distortion stops increasing, because the same points are reached
    again beyond.  The angle of a ray is bracketed by its distance from the axis; Newton's method
    follows, also for the tangential terms.  The sensor's tilt is inverted in closed form.

    Points without a ray in the field are NaN.  (``cv2.undistortPoints`` takes five steps of a
    fixed-point iteration, and returns where these arrive, also if it is far from the solution.)

    Args:
        points: (..., P, 2) distorted normalized coordinates, or pixels if intrinsics are given; or
            a single point, (2,).
        distortion: (..., K) coefficients, or None, as in `distort_points`.
        intrinsics: (..., 3, 3), in pixels, as in `distort_points`.
        model: "opencv" or "fisheye", as in `distort_points`.
        axes: the axes of the resulting rays, as in `distort_points`.
        max_angle: the angle in radians at which the field of the lens ends at the latest.
        rays: whether to return rays, which may also point backwards, in place of normalized
            coordinates.

    Returns:
        (..., P, 2): normalized coordinates (x / z, y / z), y down; NaN for points without a ray in
        the field, or whose ray has z <= 0.  With rays=True, (..., P, 3): rays of length 1.
        Float64 if an argument is float64, otherwise float32.  For tensors, the result is
        differentiable with respect to all arguments.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: a shape or a name is not accepted.

    Example:
        >>> from gridsample import cameras
        >>> cameras.undistort_points([[0.475, 0.0], [0.9, 0.0]], [-0.2, 0, 0, 0])
        array([[0.5, 0. ],
               [nan, nan]])
        >>> cameras.distort_points([[0.5, 0.0]], [-0.2, 0, 0, 0])
        array([[0.475, 0.   ]])
    """
    backend, (array, coefficients, matrix) = as_arrays(
        points=points, distortion=as_coefficients(distortion), intrinsics=intrinsics
    )
    check_shape(backend, "points", array, (2,))
    signs_of(axes)
    check_model(backend, coefficients, model, max_angle)
    if matrix is not None:
        check_shape(backend, "intrinsics", matrix, (3, 3))
    check_batches(backend, points=(array, 2), distortion=(coefficients, 1), intrinsics=(matrix, 2))
    is_single = len(array.shape) == 1
    inverse = None if matrix is None else backend.xp.linalg.inv(matrix[..., :2, :2])

    def result_of(array: Array) -> Array:
        if matrix is not None:
            array = transform(backend, inverse, array - matrix[..., None, :2, 2])
        with backend.quiet():  # NaN stays NaN
            found = undistort(backend, array, coefficients, model, max_angle)
        if rays:
            return flip_axes(backend, found, axes, -1)
        z = found[..., 2:]
        in_front = z > 0
        plane = found[..., :2] / backend.xp.where(in_front, z, 1)
        return backend.xp.where(in_front, plane, float("nan"))

    result = in_parts(backend, array[None] if is_single else array, result_of)
    result = result[..., 0, :] if is_single else result
    return backend.restore(result, first_array(points, distortion, intrinsics))


def in_parts(backend: Backend, points: Array, compute: Callable[[Array], Array]) -> Array:
    """Compute a function of points (..., P, 2) in parts whose arrays stay in the cache."""
    parts = [*bands_along(points.shape[:-1], PART, -1)] if backend.is_host else []
    if len(parts) < 2:
        return compute(points)
    return backend.concatenate([compute(points[..., part, :]) for part in parts], -2)


def undistort(
    backend: Backend, points: Array, coefficients: Array, model: str, max_angle: float | None
) -> Array:
    """Find the rays (..., P, 3), of length 1, for distorted coordinates (..., P, 2)."""
    k = [coefficients[..., None, i] for i in range(coefficients.shape[-1])]
    x, y = points[..., 0], points[..., 1]
    if model == "fisheye":
        return undistort_fisheye(backend, x, y, k, max_angle)
    xp, inside = backend.xp, (x == x) & (y == y)
    if len(k) == 14:
        x, y, in_front = untilt_sensor(backend, x, y, k[12], k[13])
        inside = inside & in_front
    u, v = xp.where(inside, x, 0), xp.where(inside, y, 0)
    if k:
        u, v, is_solved = undistort_polynomial(backend, u, v, k, max_angle)
        inside = inside & is_solved
    if max_angle is not None and max_angle < math.pi / 2:
        inside = inside & (u * u + v * v <= math.tan(max_angle) ** 2)
    length = xp.sqrt(u * u + v * v + 1)
    ray = xp.stack((u / length, v / length, 1 / length), -1)
    return xp.where(inside[..., None], ray, float("nan"))


def undistort_fisheye(
    backend: Backend, x: Array, y: Array, k: Sequence[Array], max_angle: float | None
) -> Array:
    """Invert the model "fisheye": find the angle of each ray by its distance from the axis."""
    xp = backend.xp
    square = x * x + y * y
    off_axis = square > 0
    distance = xp.where(off_axis, xp.sqrt(xp.where(off_axis, square, 1)), square)
    one = 0 * distance + 1
    limit = math.pi * one
    limit = xp.minimum(fisheye_field(backend, k) * one, limit) if k else limit
    limit = limit if max_angle is None else xp.minimum(limit, max_angle * one)

    def image_of(angle: Array) -> Array:
        return angle * radial_polynomial(angle * angle, k, (1, 1, 1, 1)) if k else angle

    inside = distance <= image_of(limit)
    target = xp.where(inside, distance, 0)
    angle = bracketed(backend, image_of, target, limit)
    for _ in range(STEPS if k else 1):
        slope = radial_polynomial(angle * angle, k, (3, 5, 7, 9)) if k else one
        slope = xp.where(slope > 0, slope, 1)
        angle = angle - (image_of(angle) - target) / slope
        angle = xp.minimum(xp.where(angle > 0, angle, 0), limit)
    scale = xp.where(off_axis, xp.sin(angle) / xp.where(off_axis, distance, 1), 1)
    ray = xp.stack((x * scale, y * scale, xp.cos(angle)), -1)
    return xp.where(inside[..., None], ray, float("nan"))


def undistort_polynomial(
    backend: Backend, x: Array, y: Array, k: Sequence[Array], max_angle: float | None
) -> tuple[Array, Array, Array]:
    """Invert the model "opencv" but for the tilt; returns x, y, and where they are solutions."""
    xp = backend.xp
    u, v, farthest = by_distance(backend, x, y, k, max_angle)
    # Rounding leaves errors of a few units in the last place of the largest term.
    single = backend.type_name(x.dtype) == "float32"
    tolerance = (1e-5 if single else 1e-10) * (1 + xp.abs(x) + xp.abs(y))
    # Each step of a recorded iteration improves the derivatives, too.
    may_stop = backend.inspects(x) and not getattr(x + k[0], "requires_grad", False)
    last_step = STEPS
    for step in range(STEPS + 1):
        (a, b, c, d), p, q = linearized(u, v, k)
        determinant = a * d - b * c
        p, q = p - x, q - y
        is_close = (xp.abs(p) <= tolerance) & (xp.abs(q) <= tolerance)
        if step == last_step:
            break
        if may_stop and bool(xp.all(is_close)):
            last_step = step + 1  # this one is quadratically closer
        determinant = xp.where(determinant != 0, determinant, 1)
        u, v = u - (d * p - b * q) / determinant, v - (a * q - c * p) / determinant
        square = u * u + v * v
        is_beyond = square > farthest * farthest
        shorter = farthest / xp.sqrt(xp.where(is_beyond, square, 1))
        u, v = xp.where(is_beyond, u * shorter, u), xp.where(is_beyond, v * shorter, v)
    return u, v, is_close & (a * d - b * c > 0) & (a + d > 0)


def by_distance(
    backend: Backend, x: Array, y: Array, k: Sequence[Array], max_angle: float | None
) -> tuple[Array, Array, Array]:
    """Invert about the radial factor alone; returns x, y, and the largest radius of the field."""
    xp = backend.xp
    one = x * 0 + 1

    def image_of(angle: Array) -> Array:
        tangent = xp.tan(angle)
        numerator, denominator = radial_factor(tangent * tangent, k)
        return tangent * numerator / denominator

    def decreases(angle: Array) -> Array:
        """Whether the derivative of r numerator / denominator is negative, or there is a pole."""
        square = xp.tan(angle) ** 2
        top, bottom, d_top, d_bottom = radial_terms(square, k)
        slope = (top + 2 * square * d_top) * bottom - 2 * square * top * d_bottom
        return (slope <= 0) | (bottom <= 0)

    last = WIDEST if max_angle is None else min(WIDEST, max_angle)
    limit = xp.minimum(last_increase(backend, decreases, k[0], last) * one, last * one)
    distance = xp.sqrt(xp.where(x * x + y * y > 0, x * x + y * y, 1))
    radius = xp.tan(bracketed(backend, image_of, distance, limit))
    return x / distance * radius, y / distance * radius, xp.tan(limit)


def bracketed(
    backend: Backend, function: Callable[[Array], Array], target: Array, limit: Array
) -> Array:
    """Find about where a function that increases from 0 to ``limit`` has the values ``target``."""
    xp = backend.xp
    low, high = limit * 0, limit
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_below = function(middle) < target
        low, high = xp.where(is_below, middle, low), xp.where(is_below, high, middle)
    return (low + high) / 2


def radial_factor(square: Array, k: Sequence[Array]) -> tuple[Array, Array]:
    """Return the radial factor's numerator and denominator."""
    top = 1 + square * (k[0] + square * (k[1] + square * k[4] if len(k) > 4 else k[1]))
    if len(k) <= 5:
        return top, square * 0 + 1
    return top, 1 + square * (k[5] + square * (k[6] + square * k[7]))


def radial_terms(square: Array, k: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Return the radial factor's numerator and denominator, and their derivatives.

    The derivatives are those along the square of the radius.
    """
    top, bottom = radial_factor(square, k)
    d_top = k[0] + square * (2 * k[1] + 3 * square * k[4] if len(k) > 4 else 2 * k[1])
    if len(k) <= 5:
        return top, bottom, d_top, square * 0
    return top, bottom, d_top, k[5] + square * (2 * k[6] + 3 * square * k[7])


def linearized(
    x: Array, y: Array, k: Sequence[Array]
) -> tuple[tuple[Array, Array, Array, Array], Array, Array]:
    """Return the Jacobian of the polynomial model by rows, and the model's x' and y'."""
    p1, p2 = k[2:4]
    square = x * x + y * y
    top, bottom, d_top, d_bottom = radial_terms(square, k)
    radial = top / bottom
    bend = 2 * (d_top * bottom - top * d_bottom) / (bottom * bottom)
    across = bend * x * y + 2 * (p1 * x + p2 * y)
    a = radial + bend * x * x + 2 * p1 * y + 6 * p2 * x
    d = radial + bend * y * y + 6 * p1 * y + 2 * p2 * x
    if len(k) <= 8:
        return (a, across, across, d), *polynomial(x, y, k)
    s1, s2, s3, s4 = k[8:12]
    along_u, along_v = 2 * (s1 + 2 * s2 * square), 2 * (s3 + 2 * s4 * square)
    rows = (a + x * along_u, across + y * along_u, across + x * along_v, d + y * along_v)
    return rows, *polynomial(x, y, k)


def untilt_sensor(
    backend: Backend, u: Array, v: Array, tx: Array, ty: Array
) -> tuple[Array, Array, Array]:
    """Project from a tilted sensor to that of an ideal camera; also whether points are in front."""
    rows = rotated_sensor(backend, tx, ty)
    corner = rows[2][2]
    # The point of the sensor in the plane of the rotated axes, then the rotation's transpose.
    a, b = (u + rows[0][2]) / corner, (v + rows[1][2]) / corner
    x, y, z = (rows[0][i] * a + rows[1][i] * b + rows[2][i] for i in range(3))
    in_front = z > 0
    z = backend.xp.where(in_front, z, 1)
    return x / z, y / z, in_front
