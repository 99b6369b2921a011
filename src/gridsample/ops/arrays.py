"""Functions that the operations share: channels, dtypes, and the prefilter."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.dtypes import DIFFERENTIABLE_TYPES, WIDE_TYPES
from gridsample.definitions.options import Options
from gridsample.definitions.shapes import Shape
from gridsample.definitions.splines import extension

Array = Any


def named_arrays(weights: Any, **arrays: Any) -> dict[str, Any]:
    """Return the arrays of a call by name, with the weights of pixels if there are any."""
    return arrays if weights is None else {**arrays, "weights": weights}


# Channels -----------------------------------------------------------------------------------------


def planes(backend: Backend, array: Array, last: bool) -> Array:
    """View the caller's array with its channels on the second axis."""
    if not last:
        return array
    n = len(array.shape)
    return backend.permute(array, (0, n - 1, *range(1, n - 1)))


def back(backend: Backend, array: Array, last: bool, after: int = 0) -> Array:
    """View a result (N, C, *rest) in the caller's layout; the last ``after`` axes stay last."""
    if not last:
        return array
    n = len(array.shape)
    return backend.permute(array, (0, *range(2, n - after), 1, *range(n - after, n)))


def out_shape(image: Shape, grid: Shape, last: bool) -> Shape:
    """The shape of the sampled output in the caller's layout."""
    items = grid[0] if image[0] == 1 else image[0]
    return (items, *grid[1:-1], image[-1]) if last else (items, image[1], *grid[1:-1])


# Types --------------------------------------------------------------------------------------------


def sum_type(backend: Backend, *arrays: Array) -> Any:
    """The real dtype in which sums over these arrays are computed."""
    names = [backend.type_name(array.dtype) for array in arrays]
    return backend.type("float64" if any([name in WIDE_TYPES for name in names]) else "float32")


def coefficient_type(backend: Backend, image: Array, *others: Array) -> Any:
    """The dtype of sums over these arrays, which is complex for a complex image."""
    is_double = backend.type_name(sum_type(backend, image, *others)) == "float64"
    if backend.type_name(image.dtype).startswith("complex"):
        return backend.type("complex128" if is_double else "complex64")
    return backend.type("float64" if is_double else "float32")


def exact_type(backend: Backend, image: Array, *others: Array) -> Any:
    """The dtype of an image if sums have it, too; otherwise that of sums over these arrays."""
    exact = backend.type_name(image.dtype) in ("float32", "float64", "complex64", "complex128")
    return image.dtype if exact else coefficient_type(backend, image, *others)


def as_type_of(backend: Backend, gradient: Array | None, like: Array | None) -> Array | None:
    """Convert a gradient to the dtype of an array, unless that has none."""
    if gradient is None or like is None or not is_differentiable(backend, like):
        return gradient
    return backend.astype(gradient, like.dtype)


def is_differentiable(backend: Backend, array: Array) -> bool:
    """Whether an array is floating-point or complex."""
    return backend.type_name(array.dtype) in DIFFERENTIABLE_TYPES


def check_differentiable(backend: Backend, image: Array) -> None:
    """Raise an error if the gradient of an integer image is requested."""
    if not is_differentiable(backend, image):
        raise TypeError(
            f"input has dtype {image.dtype}, which has no gradient; "
            "pass need_input=False to get only the grid's gradient"
        )


def check_upstream(backend: Backend, upstream: Array, image: Array, shape: Shape) -> Array:
    """Check an upstream gradient, and convert it to complex for a complex image.

    Raises:
        TypeError: it is an integer array, or complex although the image is real.
        ValueError: it does not have the output's shape.
    """
    actual = backend.shape(upstream)
    if actual != tuple(shape):
        raise ValueError(f"grad_output must have the output's shape {tuple(shape)}, got {actual}")
    name = backend.type_name(upstream.dtype, "grad_output")
    if name not in DIFFERENTIABLE_TYPES:
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}; accepted: {', '.join(DIFFERENTIABLE_TYPES)}"
        )
    real = not name.startswith("complex")
    if not backend.type_name(image.dtype).startswith("complex"):
        if not real:
            raise TypeError(
                f"grad_output has dtype {upstream.dtype}, but the output is real: {image.dtype}"
            )
        return upstream
    if not real:
        return upstream
    return backend.astype(upstream, backend.promote(upstream.dtype, backend.type("complex64")))


def as_grid(backend: Backend, grid: Array, coords: Any) -> Array:
    """Convert a grid of integers, which may be coordinates in pixels, to floating point.

    8- and 16-bit integers become float32, which represents them exactly; others become float64.
    """
    in_pixels = isinstance(coords, str) and coords == "pixel"
    if backend.is_host and not in_pixels:
        return grid  # quickly: every dtype has a name, and plans check it
    is_integer = backend.type_name(grid.dtype, "grid").startswith(("int", "uint"))
    return backend.astype(grid, sum_type(backend, grid)) if in_pixels and is_integer else grid


# Differences --------------------------------------------------------------------------------------


def part(array: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """A slice of an array along one axis."""
    return array[(*(slice(None),) * axis, slice(start, stop))]


def difference(backend: Backend, array: Array, axis: int) -> Array:
    """Central differences along an axis, one-sided at its ends; 0 if it has one entry."""
    n = backend.shape(array)[axis]
    if n == 1:
        return array * 0
    first = part(array, axis, 1, 2) - part(array, axis, 0, 1)
    if n == 2:
        return backend.concatenate([first, first], axis)
    inner = (part(array, axis, 2, None) - part(array, axis, None, -2)) * 0.5
    last = part(array, axis, n - 1, None) - part(array, axis, n - 2, n - 1)
    return backend.concatenate([first, inner, last], axis)


# The prefilter ------------------------------------------------------------------------------------


def filtered(
    backend: Backend, image: Array, grid: Array, options: Options, adjoint: bool = False
) -> Array:
    """Compute the spline coefficients of an image, or apply the transpose of the linear part.

    The result has the dtype of the sums, which also depends on the dtype of ``grid`` (a grid, or
    affine maps).

    Under "constant", the coefficients also contain a part of the fill value, which does not depend
    on the image; see `add_fill`.
    """
    if backend.type_name(grid.dtype, "grid") == "float64":
        image = backend.astype(image, coefficient_type(backend, image, grid))
    splines, n = options.splines(), len(image.shape)
    for order in sorted({*splines} - {0, 1}):
        axes = [a for a, spline in enumerate(splines) if spline == order]
        extended = [extension(options.padding_mode[a], options.align_corners) for a in axes]
        last_first = [n - 1 - a for a in axes]
        image = backend.prefilter(image, order, extended, last_first, adjoint, options.threads)
    return add_fill(backend, image, options) if options.blends() and not adjoint else image


def add_fill(backend: Backend, image: Array, options: Options) -> Array:
    """Add the fill value's part to the coefficients of an image with zeros outside.

    Let F be the prefilter with zeros outside, s the image, and f the fill value.  The weights of
    all taps sum to one, so the coefficients f + F(s) - F(f) have f outside and meet s.  Along an
    axis with a spline under "constant", F(1) = 1 + F(d), where d is the weight of the dropped taps
    of each pixel.  Along other axes, f itself may be extended.  Hence the part is

        f - f (1 + F_x d_x) (1 + F_y d_y) (1 + F_z d_z)

    over the axes with a spline under "constant".  It is added axis by axis, multiplied out, because
    F d decreases to 0 away from the ends, and then does so even for a large fill value.
    """
    fill = backend.fill(image, options)
    # With an infinite or NaN fill value, no coefficients meet the pixels at the edges.
    factor = backend.xp.where(backend.xp.isfinite(fill), fill, 0) * -1
    n, dtype, before = len(image.shape), sum_type(backend, image), None
    for a, (order, name) in enumerate(zip(options.splines(), options.padding_mode, strict=True)):
        if order < 2 or not BOUNDARIES[name].filled:
            continue
        axis = n - 1 - a
        key = options.mode[a], order, name, image.shape[axis], dtype
        hashable: Any = backend  # the cache wants it to be hashable, which a protocol does not say
        line = cached_line(hashable, *key) if backend.is_host else fill_line(backend, image, *key)
        line = line.reshape(tuple([-1 if k == axis else 1 for k in range(n)]))
        factor = factor if before is None else factor * (before + 1)
        if backend.is_host:  # the coefficients are a new array, and few of them change
            for part in ends_of(line, axis):
                ends = image[part]
                ends += factor * line[part]
        else:
            image = image + factor * line
        before = line
    return image


def fill_line(
    backend: Backend, like: Array, mode: Any, order: int, name: str, size: Any, dtype: Any
) -> Array:
    """Compute F d of `add_fill` for an axis of a size: (1, 1, size)."""
    options = Options(
        (mode,), (name,), coords="pixel", fill_value=(1.0,), prefilter=False, order=(0,)
    )
    pixels = backend.line(size, None, dtype, like).reshape((1, size, 1))
    dropped = backend.gather(backend.full((1, 1, size), 0, dtype, like), pixels, options, dtype)
    return backend.prefilter(dropped, order, [extension(name, False)], [2], False, None)


@functools.lru_cache(maxsize=64)
def cached_line(backend: Backend, *key: Any) -> Array:
    """Return `fill_line` for arrays of the host, which need no device; it is computed once."""
    return fill_line(backend, None, *key)


def ends_of(line: Array, axis: int) -> list[tuple[slice, ...]]:
    """Index the two ends of an axis of a NumPy array, without the entries between that are 0."""
    n = line.size
    entries = np.flatnonzero(line)
    head = entries[entries < n // 2].max(initial=-1) + 1
    tail = entries[entries >= n // 2].min(initial=n)
    return [(*(slice(None),) * axis, part) for part in (slice(0, head), slice(tail, n))]
