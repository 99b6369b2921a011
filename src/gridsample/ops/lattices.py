"""Sampling at the points of a coarse lattice, without storing a grid where kernels read it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gridsample.backends import Backend, backend_of, operation, overridable
from gridsample.backends.base import Gradients, Needed
from gridsample.definitions.arrays import AnyArray, ArrayT, Fill
from gridsample.definitions.checks import check_dense, check_flag, check_threads
from gridsample.definitions.control_points import ControlAxis, ControlPoints
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.knots import Coords
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, LatticeName, MissingName
from gridsample.definitions.options import Options, Resizing
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.ops.arrays import back, named_arrays
from gridsample.ops.missing import as_rule
from gridsample.ops.misuse import check_layout
from gridsample.ops.points import SamplePoints
from gridsample.ops.sampling import sample, sample_vjp, unweighted_sample, unweighted_vjp

Array = Any
Steps = float | Sequence[float] | None


@overridable(arrays=1)
def lattice_grid(
    lattice: ArrayT,
    size: Sequence[int],
    interpolation: LatticeName = "catmull-rom",
    *,
    spacing: Steps = None,
    origin: Steps = None,
    threads: int | None = None,
) -> ArrayT:
    """Interpolate a lattice, a coarse grid of coordinates or displacements, to a full grid.

    Along each axis, output pixel i is at the place

        q = (i - origin) / spacing

    among the control points of the lattice, which are at 0, 1, 2, ...  By default, the first and
    the last control point are at the centres of the corner pixels: origin is 0, and spacing is
    (n - 1) / (points - 1) for n output pixels.  The grid is a product of the weights of all axes.
    Beyond its ends, a lattice continues linearly: p[-1] = 2 p[0] - p[1].  Lattices of an affine map
    therefore give the grid of that map everywhere, by every interpolation.  A block of a grid,
    which has another origin, has the bits of the whole where (i - origin) / spacing has.

    Three uses: a coarse grid whose points are known at every s-th pixel has spacing=s; the field of
    a volume whose voxels are s times as large has the origin (s - 1) / 2 and the spacing s, as the
    outer edges of both coincide; B-spline free-form deformations, whose control points begin one
    spacing before the first pixel, have spacing=s and origin=-s.

    Args:
        lattice: (N, *points, D) control points, with D axes between the first and the last, and the
            components x, y, z; float16 to float64.
        size: the output's shape, (N, C, *out) with D axes after the first two, as in
            `affine_grid`.  N is the lattice's, and C is not used.
        interpolation: "linear"; "catmull-rom", smooth cubics through the control points; or
            "spline3", the cubic B-spline with the control points as coefficients, which is twice
            continuously differentiable but does not pass through them (`spline_filter` computes
            the coefficients of a spline that does).
        spacing: the distance between control points in output pixels, or one for each axis, x
            first.
        origin: the index of the output pixel at the first control point, which may be any number,
            or one for each axis, x first; 0 by default.
        threads: the maximum number of threads; the number of cores by default.

    Returns:
        (N, *out, D) in the lattice's dtype.  For torch tensors and JAX arrays, it is differentiable
        in the lattice.

    Raises:
        TypeError: the lattice is not floating-point, or an argument has the wrong type.
        ValueError: the lattice does not match size, or an argument is not accepted.

    Example:
        >>> import numpy as np, gridsample
        >>> lattice = np.array([[[0.0], [4.0], [12.0]]])
        >>> gridsample.lattice_grid(lattice, (1, 1, 5), "linear")[0, :, 0]
        array([ 0.,  2.,  4.,  8., 12.])
    """
    check_threads(threads)
    backend = backend_of(lattice=lattice)
    check_dense(lattice=lattice)
    (points,) = backend.asarrays(lattice=lattice)
    places = places_of(backend, points, size, interpolation, spacing, origin)
    return backend.restore(spread(backend, points, places, threads), lattice)


def places_of(
    backend: Backend, lattice: Array, size: Any, interpolation: Any, spacing: Any, origin: Any
) -> ControlPoints:
    """Check a lattice and the arguments that say where its points are."""
    shape = tuple(map(int, backend.shape(lattice)))
    places = ControlPoints.checked(shape, size, interpolation, spacing, origin)
    if backend.type_name(lattice.dtype, "lattice") not in GRID_TYPES:
        raise TypeError(
            f"lattice has dtype {lattice.dtype}; accepted: float16, float32, float64, and bfloat16 "
            "for tensors"
        )
    return places


def spread(
    backend: Backend, lattice: Array, places: ControlPoints, threads: int | None = None
) -> Array:
    """Interpolate a lattice (N, *points, D) to a grid (N, *out, D).

    Along x first, so that sums do not depend on sizes: blocks of a grid have the bits of the whole.
    """
    for a, axis in enumerate(places.axes):
        lattice = along_axis(backend, lattice, len(places.axes) - a, axis, threads, False)
    return lattice


def spread_adjoint(
    backend: Backend, gradient: Array, places: ControlPoints, threads: int | None = None
) -> Array:
    """Apply the transpose of `spread` to the gradient of a grid."""
    for k, axis in enumerate(places.axes[::-1], 1):
        gradient = along_axis(backend, gradient, k, axis, threads, True)
    return gradient


def along_axis(
    backend: Backend,
    array: Array,
    k: int,
    axis: ControlAxis,
    threads: int | None,
    transposed: bool,
) -> Array:
    """Multiply an axis of an array by its matrix, or by the transpose."""
    size = axis.points if transposed else axis.outputs
    resizing = Resizing((size,), (axis,), False, False, (0.0,), channel_axis=-1, threads=threads)
    before, (n, *after) = array.shape[:k], array.shape[k:]
    lines = array.reshape((math.prod(before), n, math.prod(after)))
    planes = backend.resize(backend.permute(lines, [0, 2, 1]), resizing, transposed)
    return backend.permute(planes, [0, 2, 1]).reshape((*before, size, *after))


# Sampling -----------------------------------------------------------------------------------------


class LatticePoints(SamplePoints):
    """The points of a lattice at which images are sampled.

    Attributes:
        places: where the points are among the control points, which are the array.
        threads: the maximum number of threads.
    """

    def __init__(
        self, backend: Backend, array: Array, places: ControlPoints, threads: int | None
    ) -> None:
        super().__init__(backend, array)
        self.places, self.threads = places, threads

    def at(self, array: Array) -> LatticePoints:
        """Return points of the same kind for other control points."""
        return LatticePoints(self.backend, array, self.places, self.threads)

    def shape(self) -> Shape:
        """The shape of the grid, (N, *out, D)."""
        return (self.backend.shape(self.array)[0], *self.places.out, len(self.places.axes))

    def grid(self) -> Array:
        """Interpolate the grid (N, *out, D)."""
        return spread(self.backend, self.array, self.places, self.threads)

    def resolve_options(self, image: Array, request: Request) -> Options:
        """Return the checked options for an image in the caller's layout."""
        # Only the shape and the dtype of the grid count; a constant takes no memory.
        grid = self.backend.full(self.shape(), 0, self.array.dtype, self.array)
        return self.backend.resolve_options(image, grid, request)

    def gather(
        self, image: Array, options: Options, dtype: Any, result: Array | None = None
    ) -> Array:
        """Sample an image (N, C, *spatial); without a grid if a kernel reads the lattice."""
        backend, places = self.backend, self.places

        def compute(arrays: Sequence[Array], alone: bool) -> Array:
            source, lattice = arrays
            samples = None
            if alone:
                samples = backend.lattice(source, lattice, places, options, dtype)
            if samples is None:
                samples = backend.gather(source, self.at(lattice).grid(), options, dtype)
            return samples

        def differentiate(
            upstream: Array, needed: Sequence[bool], arrays: Sequence[Array]
        ) -> Gradients:
            source, lattice = arrays
            # A fill value has no gradient; that of an image is in its dtype.
            return self.at(lattice).backward(upstream, source, options, tuple(needed), source.dtype)

        return backend.custom_vjp(compute, differentiate, [image, self.array])

    def backward(
        self, values: Array, image: Array, options: Options, needed: Needed, dtype: Any
    ) -> Gradients:
        """Compute the needed gradients of gather with respect to the image and the lattice."""
        backend, lattice, places = self.backend, self.array, self.places
        gradients = backend.lattice_backward(values, image, lattice, places, options, needed, dtype)
        if gradients is None:
            gradients = backend.backward(values, image, self.grid(), options, needed, dtype)
        first, second = gradients
        if second is not None and needed[1]:
            second = spread_adjoint(backend, second, places, self.threads)
        return first, second


def run_lattice_sample(
    request: Request,
    *,
    input: Any,
    lattice: Any,
    size: Sequence[int],
    interpolation: Any,
    spacing: Any,
    origin: Any,
    weights: Any = None,
) -> Any:
    """Compute the result of `lattice_sample`."""
    rule = as_rule(request, weights, request.padding_mode)
    arrays = named_arrays(weights, input=input, lattice=lattice)
    backend = backend_of(**arrays)
    check_dense(**arrays)  # a nested tensor has no shape
    image, points, *others = backend.to_device(**arrays)
    check_layout(backend, image, backend.shape(image), request.channel_axis != 1)
    places = places_of(backend, points, size, interpolation, spacing, origin)
    at = LatticePoints(backend, points, places, request.threads)
    if rule is None:
        samples, resolved = unweighted_sample(at, image, request)
        return backend.restore(back(backend, samples, resolved.channels_last()), input)
    on_grid = named_arrays(others[0] if others else None, input=image, grid=at.grid())
    result = sample(backend, on_grid, request, rule)
    if isinstance(result, tuple):
        return tuple([backend.restore(array, input) for array in result])
    return backend.restore(result, input)


@operation(run_lattice_sample, arrays=2)
def lattice_sample(
    input: ArrayT,
    lattice: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    interpolation: LatticeName = "catmull-rom",
    spacing: Steps = None,
    origin: Steps = None,
    coords: Coords = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: AnyArray | None = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Sample an image at a coarse lattice of coordinates, which is interpolated between its points.

    The result is that of `grid_sample` at the grid ``lattice_grid(lattice, size, interpolation,
    spacing=spacing, origin=origin)``.

    Args:
        input: the image, as in `grid_sample`.
        lattice: the control points, as in `lattice_grid`, in the units of ``coords``.  N may be 1
            here or in the input.
        size: the output's shape, as in `lattice_grid`.
        interpolation, spacing, origin: as in `lattice_grid`.
        coords: the units of the control points, as in `grid_sample`.  With "displacement", they are
            offsets in pixels from each output pixel, as in a free-form deformation.
        return_weight: whether to also return the weight of each result, as in `grid_sample`.
        channel_axis: 1, or -1 for channels-last input and output.
        mode, padding_mode, align_corners, fill_value, extrapolate, prefilter, antialias,
            max_samples, footprint, missing, weights, min_weight, threads: as in `grid_sample`.

    Returns:
        (N, C, *out), or (N, *out, C) for channel_axis=-1, with the input's dtype.  With
        return_weight=True, a tuple of that and the weight, of the same shape.  For torch tensors
        and JAX arrays, it has derivatives of any order in input and lattice.

    Raises:
        TypeError, ValueError: an argument is not accepted by `grid_sample` or `lattice_grid`.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[0.0, 10.0, 20.0, 30.0, 40.0]]])
        >>> offsets = np.array([[[2.0], [-2.0]]])
        >>> gridsample.lattice_sample(image, offsets, (1, 1, 5), coords="displacement")
        array([[[20., 20., 20., 20., 20.]]])
    """


def run_lattice_sample_vjp(
    request: Request,
    *,
    grad_output: Any,
    input: Any,
    lattice: Any,
    size: Sequence[int],
    interpolation: Any,
    spacing: Any,
    origin: Any,
    need_input: bool,
    need_lattice: bool,
    need_weights: bool,
    weights: Any = None,
) -> tuple[Any, ...]:
    """Compute the result of `lattice_sample_vjp`."""
    flags = {"need_input": need_input, "need_lattice": need_lattice, "need_weights": need_weights}
    rule = as_rule(request, weights, request.padding_mode)
    arrays = named_arrays(weights, grad_output=grad_output, input=input, lattice=lattice)
    backend = backend_of(**arrays)
    check_dense(**arrays)
    upstream, image, points, *others = backend.to_device(**arrays)
    places = places_of(backend, points, size, interpolation, spacing, origin)
    at = LatticePoints(backend, points, places, request.threads)
    gradients: Sequence[Array | None]
    if rule is None:
        needed = tuple([check_flag(flag, name) for name, flag in flags.items()])
        gradients = unweighted_vjp(at, upstream, image, request, needed[:2])
    else:
        weight = others[0] if others else None
        on_grid = named_arrays(weight, grad_output=upstream, input=image, grid=at.grid())
        first, second, *rest = sample_vjp(on_grid, request, rule, flags)
        if second is not None:
            second = spread_adjoint(backend, second, places, request.threads)
        gradients = first, second, *rest
    likes = zip(gradients, (input, lattice, weights), strict=False)
    return tuple([backend.restore(gradient, like) for gradient, like in likes])


@operation(run_lattice_sample_vjp, arrays=3)
def lattice_sample_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    lattice: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    interpolation: LatticeName = "catmull-rom",
    spacing: Steps = None,
    origin: Steps = None,
    coords: Coords = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: AnyArray | None = None,
    min_weight: float = 0.0,
    need_input: bool = True,
    need_lattice: bool = True,
    need_weights: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute both gradients of `lattice_sample`: the vector-Jacobian product with ``grad_output``.

    grad_input is that of `grid_sample_vjp`.  grad_lattice is the transpose of `lattice_grid`,
    applied to its grad_grid.

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `lattice_sample`.
        lattice: the control points, as in `lattice_sample`.
        size: the output's shape, as in `lattice_sample`.
        interpolation, spacing, origin: as in `lattice_grid`.
        coords: the units of the control points, as in `lattice_sample`.
        mode, padding_mode, align_corners, fill_value, extrapolate, prefilter, antialias,
            max_samples, footprint, weights: as in `grid_sample`.
        missing, min_weight: as in `grid_sample_vjp`.
        need_input: whether to compute grad_input; an integer input has none.
        need_lattice: whether to compute grad_lattice.
        need_weights: whether to compute grad_weights, if there are weights.
        channel_axis: 1 or -1, as in `lattice_sample`; it also applies to grad_output and
            grad_input.
        threads: the maximum number of threads, as in `grid_sample`.

    Returns:
        (grad_input, grad_lattice), with the shapes and dtypes of input and lattice; None for a
        gradient that is not needed.  If N was broadcast, the gradient is the sum.  If weights are
        given, (grad_input, grad_lattice, grad_weights), as in `grid_sample_vjp`.

    Raises:
        TypeError: an argument is not accepted by `lattice_sample`, or the gradient of an integer
            input is requested.
        ValueError: an argument is not accepted by `lattice_sample`, or grad_output does not have
            the output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image, ones = np.array([[[0.0, 10.0, 20.0]]]), np.ones((1, 1, 3))
        >>> lattice = np.array([[[0.0], [1.0]]])
        >>> grad_input, grad_lattice = gridsample.lattice_sample_vjp(
        ...     ones, image, lattice, (1, 1, 3), coords="pixel")
        >>> grad_input
        array([[[1.5, 1.5, 0. ]]])
        >>> grad_lattice[0, :, 0]
        array([15., 15.])
    """
