"""Displacement fields: composition, inversion, exponentials.

A field f maps the pixel p to the position p + f(p).  Between pixels it is interpolated, and outside
it keeps the displacement of its edge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FieldCoordsName
from gridsample.fields.arrays import (
    Array,
    as_displacements,
    as_wide_arrays,
    cells_of,
    check_count,
    check_field,
    check_field_coords,
    check_positive,
    components,
    from_displacements,
    norm,
    restore_dtype,
    solve,
    squared_norm,
)
from gridsample.ops.derivatives import grid_gradient
from gridsample.ops.sampling import grid_sample, grid_sample_vjp


class Inverse(NamedTuple):
    """The result of `invert`.

    Attributes:
        field: the inverse, (N, *spatial, D), in the units of the field.
        residual: the length of inverse(q) + field(q + inverse(q)) in pixels, (N, *spatial).
        converged: whether the residual is at most the tolerance, a bool for each point.
    """

    field: Any
    residual: Any
    converged: Any


# Composition --------------------------------------------------------------------------------------


@overridable(arrays=2)
def compose(
    outer: ArrayT,
    inner: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
    *,
    coords: FieldCoordsName = "displacement",
) -> ArrayT:
    """Compose two fields: the map that applies ``inner`` first, then ``outer``.

    As displacements in pixels, with the outer field interpolated:

        result(p) = inner(p) + outer(p + inner(p))

    Warping an image by ``outer``, and the result by ``inner``, warps the image by the
    composition: ``flow_warp(flow_warp(image, outer), inner)`` is ``flow_warp(image, compose(outer,
    inner))``, up to interpolation.

    Args:
        outer: (N, *spatial, D) in pixels, components in x, y, z order, D = 1 to 8.
        inner: (N, *out, D) in pixels; its positions are in the outer field.  If N is 1 here or in
            the outer field, it is broadcast.
        mode: the method that interpolates the outer field's displacements, as in `grid_sample`.
        padding_mode: the boundary that extends the outer field's displacements; "border" repeats
            those at the edge, "zeros" means no displacement outside.
        coords: what the fields and the result hold: "displacement" (pixels from each pixel's own
            position) or "pixel" (positions).

    Returns:
        (N, *out, D), in the dtype of the sum of both fields.

    Raises:
        TypeError: a field does not hold real numbers.
        ValueError: the shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import compose
        >>> left, right = np.full((1, 3, 1), -1.0), np.full((1, 3, 1), 1.0)
        >>> compose(left, right)[0, :, 0]
        array([0., 0., 0.])
    """
    backend, (second, first) = as_pair(coords, outer=outer, inner=inner)
    result = composed(second, first, mode, padding_mode)
    return restore_dtype(backend, from_displacements(backend, result, coords), outer, inner)


@overridable(arrays=3)
def compose_vjp(
    grad_output: ArrayT,
    outer: ArrayT,
    inner: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
    *,
    coords: FieldCoordsName = "displacement",
) -> tuple[ArrayT, ArrayT]:
    """Compute both gradients of `compose`: the vector-Jacobian product with ``grad_output``.

    Args:
        grad_output: the upstream gradient, of the shape of the composition.
        outer: as in `compose`.
        inner: as in `compose`.
        mode, padding_mode, coords: as in `compose`.

    Returns:
        (grad_outer, grad_inner), with the shapes of the fields.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: the shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import compose_vjp
        >>> field, ones = np.zeros((1, 3, 1)), np.ones((1, 3, 1))
        >>> grad_outer, grad_inner = compose_vjp(ones, field, field)
        >>> grad_outer[0, :, 0], grad_inner[0, :, 0]
        (array([1., 1., 1.]), array([1., 1., 1.]))
    """
    backend, (upstream, second, first) = as_wide_arrays(
        grad_output=grad_output, outer=outer, inner=inner
    )
    check_pair(backend, second, first, "outer", "inner")
    # The gradient is the same for positions: they differ from displacements by constants.
    second, first = (
        as_displacements(backend, field, check_field_coords(coords)) for field in (second, first)
    )
    grad_outer, grad_inner = composed_vjp(backend, upstream, second, first, mode, padding_mode)
    return restore_dtype(backend, grad_outer, outer), restore_dtype(backend, grad_inner, inner)


# Inversion ----------------------------------------------------------------------------------------


@overridable(arrays=1)
def invert(
    field: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
    *,
    iterations: int = 20,
    tolerance: float = 1e-3,
    coords: FieldCoordsName = "displacement",
) -> Inverse:
    """Invert a field: where the field maps p to q, the inverse maps q to p.

    The inverse v solves v(q) + f(q + v(q)) = 0 at every pixel q, where f is the interpolated field.
    It is found by Newton's method, which starts from v = -f and takes shorter steps wherever a full
    step would increase the residual |v(q) + f(q + v(q))|.  Unlike the fixed-point iteration
    v <- -f(q + v), it also converges where the field stretches by more than a factor of 2.

    The inverse is unique where the field does not fold; see `jacobian_determinant`.  Where it
    folds, the result is one of several inverses, or the iteration stops with a large residual, and
    ``converged`` is false.

    Args:
        field: (N, *spatial, D) in pixels, components in x, y, z order, D = 1 to 8.
        mode: the method that interpolates the displacements, as in `grid_sample`.
        iterations: the maximum number of steps.  The iteration ends early when every residual is
            below a hundredth of the tolerance, except for tensors that record derivatives, are
            traced, or are on a GPU.
        tolerance: the largest residual, in pixels, at which a point counts as converged.
        padding_mode, coords: as in `compose`.

    Returns:
        The inverse, the residual and whether it converged, as an `Inverse`.  For tensors, the
        inverse is differentiable; so is the residual.

    Raises:
        TypeError: the field does not hold real numbers, or iterations is not an integer.
        ValueError: the field has another shape, or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import invert
        >>> stretch = 0.5 * np.arange(5.0).reshape(1, 5, 1)  # p -> 1.5 p
        >>> inverse, residual, converged = invert(stretch)
        >>> inverse[0, 1:, 0].round(3)
        array([-0.333, -0.667, -1.   , -1.333])
        >>> bool(converged.all())
        True
    """
    count, limit = check_count(iterations, "iterations"), check_positive(tolerance, "tolerance")
    backend, (array,) = as_wide_arrays(field=field)
    check_field(backend, array, "field")
    units = check_field_coords(coords)
    forward = as_displacements(backend, array, units)
    with backend.quiet():  # NaN stays NaN
        inverse, error = newton(backend, forward, mode, padding_mode, count, limit / 100)
        residual = norm(backend, error, backend.shape(forward)[-1])
    return Inverse(
        restore_dtype(backend, from_displacements(backend, inverse, units), field),
        restore_dtype(backend, residual, field),
        backend.restore(residual <= limit, field),
    )


@overridable(arrays=3)
def invert_vjp(
    grad_output: ArrayT,
    field: ArrayT,
    inverse: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
    *,
    coords: FieldCoordsName = "displacement",
) -> ArrayT:
    """Compute the gradient of `invert`: the vector-Jacobian product with ``grad_output``.

    By the implicit function theorem, for the Jacobian J of the field's map at q + v(q), the
    gradient is the exact transpose of sampling at these points, applied to
    -transpose(inverse(J)) @ grad_output.  It is as exact as the inverse is.

    Args:
        grad_output: the upstream gradient of the inverse, (N, *spatial, D).
        field: as in `invert`.
        inverse: the inverse, as found by `invert`.
        mode, padding_mode, coords: as in `invert`.

    Returns:
        The gradient of the field, (N, *spatial, D).

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: the shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import invert, invert_vjp
        >>> shift, ones = np.full((1, 3, 1), 1.0), np.ones((1, 3, 1))
        >>> invert_vjp(ones, shift, invert(shift).field)[0, :, 0]  # the inverse is -f(q - 1)
        array([-2., -1.,  0.])
    """
    backend, (upstream, array, inverse_field) = as_wide_arrays(
        grad_output=grad_output, field=field, inverse=inverse
    )
    check_pair(backend, array, inverse_field, "field", "inverse")
    check_upstream(backend, upstream, backend.shape(inverse_field))
    units, rank = check_field_coords(coords), backend.shape(array)[-1]
    forward, positions = (
        as_displacements(backend, field, units) for field in (array, inverse_field)
    )
    slopes = slopes_at(forward, positions, mode, padding_mode)
    transposed = [[slopes[j][i] for j in range(rank)] for i in range(rank)]
    shares = solve(backend, transposed, components(upstream, rank))
    grad_field = scatter_add(
        backend.xp.stack(shares, -1) * -1, forward, positions, mode, padding_mode
    )
    return restore_dtype(backend, grad_field, field)


# Exponentials -------------------------------------------------------------------------------------


@overridable(arrays=1)
def exp(
    velocity: ArrayT, steps: int = 7, mode: Mode = "bilinear", padding_mode: Padding = "border"
) -> ArrayT:
    """Integrate a stationary velocity field over unit time, by scaling and squaring.

    The result maps each pixel to where the flow dp/dt = velocity(p) takes it from t = 0 to 1.  The
    flow over the time 2^-steps is approximated by a midpoint step, w(p + w(p) / 2) with
    w = velocity / 2^steps, and is then composed with itself ``steps`` times.  The inverse of
    exp(v) is exp(-v), and the map does not fold if the first step does not.

    Args:
        velocity: (N, *spatial, D) in pixels per unit time, components in x, y, z order, D = 1 to 8.
        steps: the number of compositions.  2^steps should be several times the largest difference
            between the velocities of neighbouring pixels; 7 is sufficient for most fields.
        mode: the method that interpolates the displacements, as in `grid_sample`.
        padding_mode: the boundary that extends the displacements, as in `compose`.

    Returns:
        The displacements in pixels, (N, *spatial, D), in the velocity's dtype.

    Raises:
        TypeError: the velocity does not hold real numbers, or steps is not an integer.
        ValueError: the velocity has another shape, or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import exp
        >>> growth = np.log(2) * np.arange(-8, 9).reshape(1, 17, 1)  # twice as far from the centre
        >>> exp(growth)[0, 7:10, 0].round(4)
        array([-1.,  0.,  1.])
    """
    count = check_count(steps, "steps")
    backend, (array,) = as_wide_arrays(velocity=velocity)
    check_field(backend, array, "velocity")
    result = first_step(backend, array, count, mode, padding_mode)
    for _ in range(count):
        result = composed(result, result, mode, padding_mode)
    return restore_dtype(backend, result, velocity)


@overridable(arrays=2)
def exp_vjp(
    grad_output: ArrayT,
    velocity: ArrayT,
    steps: int = 7,
    mode: Mode = "bilinear",
    padding_mode: Padding = "border",
) -> ArrayT:
    """Compute the gradient of `exp`: the vector-Jacobian product with ``grad_output``.

    It keeps the displacements of all steps in memory.

    Args:
        grad_output: the upstream gradient, (N, *spatial, D).
        velocity: as in `exp`.
        steps, mode, padding_mode: as in `exp`.

    Returns:
        The gradient of the velocity, (N, *spatial, D).

    Raises:
        TypeError: an argument does not hold real numbers, or steps is not an integer.
        ValueError: the shapes do not match, or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import exp_vjp
        >>> exp_vjp(np.ones((1, 3, 1)), np.zeros((1, 3, 1)))[0, :, 0]
        array([1., 1., 1.])
    """
    count = check_count(steps, "steps")
    backend, (upstream, array) = as_wide_arrays(grad_output=grad_output, velocity=velocity)
    check_field(backend, array, "velocity")
    check_upstream(backend, upstream, backend.shape(array))
    options: tuple[Mode, Padding] = mode, padding_mode
    stages = [first_step(backend, array, count, *options)]
    for _ in range(count - 1):
        stages.append(composed(stages[-1], stages[-1], *options))
    for stage in reversed(stages[:count]):
        both = composed_vjp(backend, upstream, stage, stage, *options)
        upstream = both[0] + both[1]
    small = array * 0.5**count
    grad_field, grad_places = sample_vjp(upstream, small, small * 0.5, *options)
    return restore_dtype(backend, (grad_field + grad_places * 0.5) * 0.5**count, velocity)


# Arguments ----------------------------------------------------------------------------------------


def check_pair(backend: Backend, first: Array, second: Array, *names: str) -> None:
    """Raise an error unless two fields have the same rank, and N that can be broadcast."""
    shapes = [backend.shape(array) for array in (first, second)]
    for array, name in zip((first, second), names, strict=True):
        check_field(backend, array, name)
    items = {shapes[0][0], shapes[1][0]}
    if shapes[0][-1] != shapes[1][-1] or (len(items) == 2 and 1 not in items):
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same number of spatial axes, and the same N "
            f"or N = 1; got shapes {shapes[0]} and {shapes[1]}"
        )


def as_pair(coords: Any, **arguments: Any) -> tuple[Backend, list[Array]]:
    """Convert two fields of the caller to displacements that match."""
    units = check_field_coords(coords)
    backend, arrays = as_wide_arrays(**arguments)
    check_pair(backend, *arrays, *arguments)
    return backend, [as_displacements(backend, array, units) for array in arrays]


def check_upstream(backend: Backend, upstream: Array, shape: tuple[int, ...]) -> None:
    """Raise an error if an upstream gradient does not have the shape of the result."""
    actual = backend.shape(upstream)
    if actual != tuple(shape):
        raise ValueError(f"grad_output must have the result's shape {tuple(shape)}, got {actual}")


# Over a backend -----------------------------------------------------------------------------------


def sampled(field: Array, positions: Array, mode: Mode, padding: Padding) -> Array:
    """Interpolate a field at each pixel's position plus ``positions``."""
    return grid_sample(field, positions, mode, padding, coords="displacement", channel_axis=-1)


def sample_vjp(
    upstream: Array, field: Array, positions: Array, mode: Mode, padding: Padding
) -> tuple[Array, Array]:
    """Compute both gradients of `sampled`."""
    return grid_sample_vjp(
        upstream, field, positions, mode, padding, coords="displacement", channel_axis=-1
    )


def scatter_add(
    upstream: Array, field: Array, positions: Array, mode: Mode, padding: Padding
) -> Array:
    """Compute the gradient of `sampled` with respect to the field."""
    return grid_sample_vjp(
        upstream,
        field,
        positions,
        mode,
        padding,
        coords="displacement",
        channel_axis=-1,
        need_grid=False,
    )[0]


def composed(outer: Array, inner: Array, mode: Mode, padding: Padding) -> Array:
    """Compose displacements."""
    return inner + sampled(outer, inner, mode, padding)


def composed_vjp(
    backend: Backend, upstream: Array, outer: Array, inner: Array, mode: Mode, padding: Padding
) -> tuple[Array, Array]:
    """Compute both gradients of `composed`; the inner one is summed over a broadcast N."""
    grad_outer, grad_places = sample_vjp(upstream, outer, inner, mode, padding)
    direct = upstream
    if backend.shape(upstream)[0] != backend.shape(inner)[0]:
        direct = upstream.sum(0).reshape(backend.shape(inner))
    return grad_outer, grad_places + direct


def first_step(
    backend: Backend, velocity: Array, steps: int, mode: Mode, padding: Padding
) -> Array:
    """Integrate a velocity over the time 2^-steps by a midpoint step."""
    small = velocity * 0.5**steps
    return sampled(small, small * 0.5, mode, padding)


def slopes_at(field: Array, positions: Array, mode: Mode, padding: Padding) -> list[list[Array]]:
    """The Jacobian of the map p + field(p) at each pixel's position plus ``positions``."""
    rank = field.shape[-1]
    slopes = grid_gradient(field, positions, mode, padding, coords="displacement", channel_axis=-1)
    cells = cells_of(slopes, rank)
    return [[cell + 1 if i == j else cell for j, cell in enumerate(r)] for i, r in enumerate(cells)]


def newton(
    backend: Backend, field: Array, mode: Mode, padding: Padding, iterations: int, tolerance: float
) -> tuple[Array, Array]:
    """Solve v + field(q + v) = 0 for every pixel q by Newton's method with shorter steps.

    Returns v and the residual v + field(q + v).  A step is taken where it decreases the residual;
    elsewhere the next one is half as long.
    """
    xp, rank = backend.xp, backend.shape(field)[-1]
    solution = field * -1
    residual = composed(field, solution, mode, padding)
    size = squared_norm(residual, rank)
    unit, half = (backend.full((), n, size.dtype, size) for n in (1, 0.5))
    length = xp.ones_like(size)
    # Each step of a recorded iteration improves the derivatives, too.
    may_stop = backend.inspects(size) and not getattr(size, "requires_grad", False)
    for _ in range(iterations):
        if may_stop and not bool(xp.any(size > tolerance * tolerance)):
            break
        slopes = slopes_at(field, solution, mode, padding)
        steps = solve(backend, slopes, components(residual, rank))
        trial = solution - xp.stack([step * length for step in steps], -1)
        trial_residual = composed(field, trial, mode, padding)
        trial_size = squared_norm(trial_residual, rank)
        better = trial_size < size
        all_better = better.reshape(*backend.shape(better), 1)
        solution = xp.where(all_better, trial, solution)
        residual = xp.where(all_better, trial_residual, residual)
        size = xp.where(better, trial_size, size)
        length = xp.where(better, xp.minimum(unit, length * 2), length * half)
    return solution, residual
