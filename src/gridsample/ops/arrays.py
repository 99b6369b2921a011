"""Functions that the operations share: channels, dtypes, and the prefilter."""

from __future__ import annotations

from typing import Any

from gridsample.backends import Backend
from gridsample.definitions.options import Options
from gridsample.definitions.plan import GRID_TYPES, WIDE_TYPES, Shape

Array = Any

UPSTREAM_TYPES = (*GRID_TYPES, "complex64", "complex128")


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
    return backend.type("float64" if any([one in WIDE_TYPES for one in names]) else "float32")


def coefficient_type(backend: Backend, image: Array, *others: Array) -> Any:
    """The dtype of sums over these arrays, which is complex for a complex image."""
    wide = backend.type_name(sum_type(backend, image, *others)) == "float64"
    if backend.type_name(image.dtype).startswith("complex"):
        return backend.type("complex128" if wide else "complex64")
    return backend.type("float64" if wide else "float32")


def is_differentiable(backend: Backend, array: Array) -> bool:
    """Whether an array is floating-point or complex."""
    return backend.type_name(array.dtype) in UPSTREAM_TYPES


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
    found = backend.shape(upstream)
    if found != tuple(shape):
        raise ValueError(f"grad_output must have the output's shape {tuple(shape)}, got {found}")
    name = backend.type_name(upstream.dtype, "grad_output")
    if name not in UPSTREAM_TYPES:
        raise TypeError(
            f"grad_output has dtype {upstream.dtype}; accepted: {', '.join(UPSTREAM_TYPES)}"
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


def as_grid(backend: Backend, grid: Array, options: Options) -> Array:
    """Convert a grid of integers, which may be coordinates in pixels, to floating point.

    8- and 16-bit integers become float32, which represents them exactly; others become float64.
    """
    name, coords = backend.type_name(grid.dtype, "grid"), options.coords
    if name.startswith(("int", "uint")) and isinstance(coords, str) and coords == "pixel":
        return backend.astype(grid, sum_type(backend, grid))
    return grid


# The prefilter ------------------------------------------------------------------------------------


def filtered(
    backend: Backend, image: Array, places: Array, how: Options, adjoint: bool = False
) -> Array:
    """Compute the spline coefficients of an image, or apply the transpose of that filter.

    The result has the dtype of the sums, which also depends on the dtype of ``places`` (a grid, or
    affine maps).
    """
    if backend.type_name(places.dtype) == "float64":
        image = backend.astype(image, coefficient_type(backend, image, places))
    splines, n = how.splines(), len(image.shape)
    for order in sorted({*splines} - {0, 1}):
        axes = [a for a, one in enumerate(splines) if one == order]
        image = backend.prefilter(
            image, order, [how.padding_mode[a] for a in axes], [n - 1 - a for a in axes],
            how.align_corners, adjoint, how.threads,
        )  # fmt: skip
    return image
