"""Where images are sampled, for operations that serve both grids and affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gridsample.backends import Backend
from gridsample.definitions.labels import has_labels, without_labels
from gridsample.definitions.options import Averaging, Options
from gridsample.definitions.plan import Shape
from gridsample.ops.arrays import Array, coefficient_type, filtered


class SamplePoints(Protocol):
    """Points at which images are sampled.

    Attributes:
        array: a grid or affine maps.
        points: the shape of the grid, (N, *out, D), also of one that maps represent.
    """

    array: Array
    points: Shape

    def resolve_options(self, image: Array, options: Options) -> Options:
        """Check the options for an image in the caller's layout."""
        ...

    def gather(self, image: Array, options: Options, dtype: Any) -> Array:
        """Sample an image (N, C, *spatial)."""
        ...

    def at(self, array: Array) -> SamplePoints:
        """Return the points of another array."""
        ...

    def average(
        self, arrays: Sequence[Array], options: Options, averaging: Averaging
    ) -> tuple[Array, Array | None, bool]:
        """Compute means over the pixels that count: see `Backend.average`."""
        ...

    def average_backward(
        self, values: Array, arrays: Sequence[Array], options: Options, averaging: Averaging,
        needed: tuple[bool, bool, bool],
    ) -> tuple[Array | None, Array | None, Array | None, bool]:  # fmt: skip
        """Compute the needed gradients of `average`: see `Backend.average_backward`."""
        ...

    def backward(
        self, values: Array, image: Array, options: Options, needed: tuple[bool, bool], dtype: Any
    ) -> tuple[Array | None, Array | None]:
        """Compute the needed gradients of gather with respect to the image and the points."""
        ...


class GridPoints:
    """The points of a grid."""

    def __init__(self, backend: Backend, grid: Array) -> None:
        self.backend, self.array, self.points = backend, grid, backend.shape(grid)

    def resolve_options(self, image: Array, options: Options) -> Options:
        """Check the options."""
        return self.backend.resolve_options(image, self.array, options)

    def at(self, array: Array) -> GridPoints:
        """Return the points of another grid."""
        return GridPoints(self.backend, array)

    def average(
        self, arrays: Sequence[Array], options: Options, averaging: Averaging
    ) -> tuple[Array, Array | None, bool]:
        """Compute means over the pixels that count."""
        return self.backend.average(arrays, options, averaging, None)

    def average_backward(
        self, values: Array, arrays: Sequence[Array], options: Options, averaging: Averaging,
        needed: tuple[bool, bool, bool],
    ) -> tuple[Array | None, Array | None, Array | None, bool]:  # fmt: skip
        """Compute the needed gradients of means."""
        return self.backend.average_backward(values, arrays, options, averaging, needed, None)

    def gather(self, image: Array, options: Options, dtype: Any) -> Array:
        """Sample an image."""
        return self.backend.gather(image, self.array, options, dtype)

    def backward(
        self, values: Array, image: Array, options: Options, needed: tuple[bool, bool], dtype: Any
    ) -> tuple[Array | None, Array | None]:
        """Compute the needed gradients of image and grid."""
        return self.backend.backward(values, image, self.array, options, needed, dtype)


def gradients_at(
    backend: Backend, points: SamplePoints, upstream: Array, image: Array, options: Options,
    needed: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """Compute the needed gradients of sampling an image (N, C, *spatial) at the points.

    They include the prefilter's, and the image's gradient has its dtype.  Only the gradient of the
    points depends on the values of the image.
    """
    source = (
        filtered(backend, image, points.array, options)
        if options.prefilter and needed[1]
        else image
    )
    dtype = coefficient_type(backend, image, points.array) if options.prefilter else image.dtype
    if has_labels(options.mode):  # which jump, so that the gradient is that of nearest: 0
        options = options.changed(mode=without_labels(options.mode, "nearest"))
    first, second = points.backward(upstream, source, options, needed, dtype)
    if first is not None and options.prefilter:
        first = filtered(backend, first, points.array, options, adjoint=True)
        first = backend.astype(first, image.dtype)
    return first, second
