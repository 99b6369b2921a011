"""Where images are sampled: at the points of a grid, or of maps."""

from __future__ import annotations

from typing import Any

from gridsample.backends.base import Backend, Gradients, Needed
from gridsample.backends.maps import through_grid
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.labels import has_labels, without_labels
from gridsample.definitions.options import Options
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape, check_theta
from gridsample.ops.arrays import Array, as_grid, coefficient_type, filtered


class SamplePoints:
    """Points at which images are sampled.

    Attributes:
        backend: the backend of the arrays.
        array: a grid, (N, *out, D); affine maps, (N, D, D + 1); or projective ones,
            (N, D + 1, D + 1), which have no gradient.
        out: the spatial shape of the output if there are maps, otherwise None.
    """

    def __init__(self, backend: Backend, array: Array, out: Shape | None = None) -> None:
        self.backend = backend
        self.array = array
        self.out = out

    def at(self, array: Array) -> SamplePoints:
        """Return points of the same kind for another grid, or other maps."""
        return SamplePoints(self.backend, array, self.out)

    def shape(self) -> Shape:
        """The shape of the grid, (N, *out, D), also of one that maps represent."""
        shape = self.backend.shape(self.array)
        return shape if self.out is None else (shape[0], *self.out, shape[2] - 1)

    def resolve_options(self, image: Array, request: Request) -> Options:
        """Return the checked options for an image in the caller's layout."""
        if self.out is None:
            return self.backend.resolve_options(image, self.array, request)
        backend, maps = self.backend, self.array
        dtype = backend.type(backend.type_name(maps.dtype, "theta"))
        grid = backend.full(self.shape(), 0, dtype, maps)  # takes no memory
        return backend.resolve_options(image, grid, request)

    def gather(
        self, image: Array, options: Options, dtype: Any, result: Array | None = None
    ) -> Array:
        """Sample an image (N, C, *spatial); a ``result`` to write to is for grids only."""
        if self.out is None:
            return self.backend.gather(image, self.array, options, dtype, result)
        backend, out = self.backend, self.out
        samples = backend.affine(image, self.array, out, options, dtype)
        if samples is None:
            grid = through_grid(backend, self.array, image.shape[2:], out, options)
            samples = grid.remove_added(backend.gather(image, grid.grid(), grid.options, dtype))
        return samples

    def backward(
        self, values: Array, image: Array, options: Options, needed: Needed, dtype: Any
    ) -> Gradients:
        """Compute the needed gradients of gather with respect to the image and the points."""
        backend, array, out = self.backend, self.array, self.out
        if out is None:
            return backend.backward(values, image, array, options, needed, dtype)
        gradients = backend.affine_backward(values, image, array, out, options, needed, dtype)
        if gradients is not None:
            return gradients
        grid = through_grid(backend, array, image.shape[2:], out, options)
        upstream = grid.extend(values)
        first, second = backend.backward(upstream, image, grid.grid(), grid.options, needed, dtype)
        return first, grid.gradient(second) if needed[1] else second


def points_of(
    backend: Backend, array: Array, coords: Any, size: Shape | None = None
) -> SamplePoints:
    """Return the points of a grid or, if there is a size (N, C, *out), of affine maps to it.

    Raises:
        TypeError: maps have a dtype that is not accepted.
        ValueError: maps do not match the size.
    """
    if size is None:
        return SamplePoints(backend, as_grid(backend, array, coords))
    check_theta(backend.shape(array), size)
    if backend.type_name(array.dtype, "theta") not in GRID_TYPES:
        raise TypeError(
            f"theta has dtype {array.dtype}; accepted: float16, float32, float64, and bfloat16 "
            "for tensors"
        )
    return SamplePoints(backend, array, size[2:])


def coefficients_at(points: SamplePoints, image: Array, options: Options) -> Array:
    """Return what is sampled: the spline coefficients of an image if that is prefiltered."""
    return filtered(points.backend, image, points.array, options) if options.prefilter else image


def gradients_at(
    points: SamplePoints, upstream: Array, image: Array, options: Options, needed: Needed
) -> Gradients:
    """Compute the needed gradients of sampling an image (N, C, *spatial) at the points.

    They include the prefilter's, and the image's gradient has its dtype.  Only the gradient of the
    points depends on the values of the image.
    """
    backend = points.backend
    source = coefficients_at(points, image, options) if needed[1] else image
    dtype = coefficient_type(backend, image, points.array) if options.prefilter else image.dtype
    if has_labels(options.mode):  # labels jump: the gradient is that of nearest, 0
        options = options.changed(mode=without_labels(options.mode, "nearest"))
    first, second = points.backward(upstream, source, options, needed, dtype)
    if first is not None and options.prefilter:
        first = filtered(backend, first, points.array, options, adjoint=True)
        first = backend.astype(first, image.dtype)
    return first, second
