"""Sampling under affine maps, without storing a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.backends import Backend, backend_of, overridable
from gridsample.backends.maps import through_grid
from gridsample.definitions.footprints import ATTACH, MOST, as_footprint
from gridsample.definitions.options import Averaging, Options
from gridsample.definitions.plan import GRID_TYPES, Mode, Shape, check_flag
from gridsample.definitions.sizes import check_output, check_theta
from gridsample.ops import means
from gridsample.ops.arrays import (
    Array,
    back,
    filtered,
    planes,
)
from gridsample.ops.missing import Rule, as_rule
from gridsample.ops.vjps import sample_vjp


@overridable(arrays=2)
def affine_sample(
    input: Any,
    theta: Any,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MOST,
    footprint: str = ATTACH,
    missing: str = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Sample an image under an affine map: `grid_sample` on the grid ``affine_grid(theta, size)``.

    The coordinates are computed a few hundred points at a time, while they are sampled.  A stored
    grid would be as large as two or three channels of the output.  The results agree up to the
    rounding of coordinates.

    For torch tensors, the result is a tensor with derivatives of any order in input and theta.
    First derivatives need no grid either.  Derivatives of higher order, `torch.func` transforms and
    compiled functions create one.

    Args:
        input: the image, as in `grid_sample`.
        theta: (N, D, D + 1) maps, float16 to float64.  They map the normalized coordinates
            (x, y, z) of each output pixel's centre to theta[:, :D] @ (x, y, z) + theta[:, D].  N
            may be 1 here or in the input.
        size: the output's shape, (N, C, *out) with D axes after the first two, as in
            `affine_grid`.  N is theta's, and C is not used.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`, also for the output's
            coordinates.
        coords: "normalized", or "pixel" for maps from the indices x, y, z of output pixels to
            positions in pixels.
        fill_value: the value outside, as in `grid_sample`.
        extrapolate: whether to extend the image, as in `grid_sample`.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        antialias: whether footprints are sampled, as in `grid_sample`.  Their sides are the columns
            of the map, times the distance between neighbours along the output's axes.
        max_samples: the maximum number of samples along a side, as in `grid_sample`.
        footprint: "attach" or "detach", as in `grid_sample`.
        missing: "propagate" or "ignore", as in `grid_sample`.
        weights: weights of pixels, as in `grid_sample`.
        min_weight: the least share of weights, as in `grid_sample`.
        return_weight: whether to also return the weight of each result, as in `grid_sample`.
        channel_axis: 1, or -1 for channels-last input and output.
        threads: the maximum number of threads, as in `grid_sample`.

    Returns:
        (N, C, *out), or (N, *out, C) for channel_axis=-1, with the input's dtype.  With
        return_weight=True, a tuple of that and the weight, of the same shape.

    Raises:
        TypeError: an argument is not accepted by `grid_sample`, or size does not consist of
            integers.
        ValueError: an argument is not accepted by `grid_sample`, or theta does not match size.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> mirror = np.array([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> gridsample.affine_sample(image, mirror, (1, 1, 2, 2))
        array([[[[10.,  0.],
                 [30., 20.]]]])
    """
    options = Options(
        mode=mode, padding_mode=padding_mode, align_corners=align_corners,
        coords=check_map_coords(coords), fill_value=fill_value, extrapolate=extrapolate,
        prefilter=prefilter, channel_axis=channel_axis, threads=threads,
        footprint=as_footprint(antialias, max_samples, footprint),
    )  # fmt: skip
    rule = as_rule(missing, weights, min_weight, return_weight, padding_mode)
    optional = {} if weights is None else {"weights": weights}
    backend = backend_of(input=input, theta=theta, **optional)
    return sample(backend, input, theta, size, options, rule)


@overridable(arrays=3)
def affine_sample_vjp(
    grad_output: Any,
    input: Any,
    theta: Any,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MOST,
    footprint: str = ATTACH,
    missing: str = "propagate",
    weights: Any = None,
    min_weight: float = 0.0,
    need_input: bool = True,
    need_theta: bool = True,
    need_weights: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute both gradients of `affine_sample`: the vector-Jacobian product with ``grad_output``.

    grad_input is that of `grid_sample_vjp`.  grad_theta follows from its grad_grid and the
    coordinates (x, y, z) of each output pixel:

        grad_theta = sum over the pixels of grad_grid (x, y, z, 1)^T

    Args:
        grad_output: the upstream gradient, of the output's shape; floating-point, or complex for a
            complex input.
        input: the image, as in `affine_sample`.
        theta: the maps, as in `affine_sample`.
        size: the output's shape, as in `affine_sample`.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `affine_sample`.
        coords: "normalized" or "pixel", as in `affine_sample`.
        fill_value: the value outside, as in `grid_sample`.
        extrapolate: whether to extend the image, as in `grid_sample`.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        antialias: whether footprints are sampled, as in `affine_sample`.
        max_samples: the maximum number of samples along a side, as in `grid_sample`.
        footprint: "attach" or "detach", as in `grid_sample`.
        missing: "propagate" or "ignore", as in `grid_sample_vjp`.
        weights: weights of pixels, as in `grid_sample`.
        min_weight: the least share of weights, as in `grid_sample_vjp`.
        need_input: whether to compute grad_input; an integer input has none.
        need_theta: whether to compute grad_theta.
        need_weights: whether to compute grad_weights, if there are weights.
        channel_axis: 1 or -1, as in `affine_sample`; it also applies to grad_output and grad_input.
        threads: the maximum number of threads, as in `grid_sample`.  The gradients are bitwise
            identical for every number.

    Returns:
        (grad_input, grad_theta), with the shapes and dtypes of input and theta; None for a gradient
        that is not needed.  If N was broadcast, the gradient is the sum.  If weights are given,
        (grad_input, grad_theta, grad_weights), as in `grid_sample_vjp`.

    Raises:
        TypeError: an argument is not accepted by `affine_sample`, or the gradient of an integer
            input is requested.
        ValueError: an argument is not accepted by `affine_sample`, or grad_output does not have the
            output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[0.0, 10.0, 20.0]]])
        >>> whole = np.array([[[1.0, 0.0]]])
        >>> ones = np.ones((1, 1, 3))
        >>> grad_input, grad_theta = gridsample.affine_sample_vjp(ones, image, whole, (1, 1, 3))
        >>> grad_input
        array([[[1., 1., 1.]]])
        >>> grad_theta.shape
        (1, 1, 2)
    """
    options = Options(
        mode=mode, padding_mode=padding_mode, align_corners=align_corners,
        coords=check_map_coords(coords), fill_value=fill_value, extrapolate=extrapolate,
        prefilter=prefilter, channel_axis=channel_axis, threads=threads,
        footprint=as_footprint(antialias, max_samples, footprint),
    )  # fmt: skip
    optional = {} if weights is None else {"weights": weights}
    backend = backend_of(grad_output=grad_output, input=input, theta=theta, **optional)
    flags = {"need_input": need_input, "need_theta": need_theta, "need_weights": need_weights}
    first, second, third = [check_flag(flag, name) for name, flag in flags.items()]
    rule = as_rule(missing, weights, min_weight, False, padding_mode)
    arrays = {"grad_output": grad_output, "input": input, "theta": theta}

    def place(maps: Array) -> AffinePoints:
        return AffinePoints(backend, maps, size)

    return sample_vjp(backend, arrays, place, options, rule, (first, second, third))


def projective_sample(input: Any, maps: Any, size: Sequence[int], **options: Any) -> Any:
    """Sample host arrays under projective maps of pixels, without a grid or derivatives.

    The position of the output pixel with index (x, y, z) is (maps[:, :D] @ (x, y, z, 1)) divided by
    maps[:, D] @ (x, y, z, 1), or 0 where that is 0.

    Args:
        input: the image, (N, C, *spatial), or with channels last.
        maps: (N, D + 1, D + 1), float32 or float64.
        size: the output's shape, (N, C, *out).
        options: `Options` except for antialiasing.

    Returns:
        (N, C, *out), or (N, *out, C) for channel_axis=-1, with the input's dtype.
    """
    backend = backend_of(input=input, maps=maps)
    return sample(
        backend, input, maps, size, Options(coords="pixel", **options), None, ProjectivePoints
    )


# Arguments ----------------------------------------------------------------------------------------


def check_map_coords(coords: Any) -> str:
    """Return the units of coordinates on both sides of a map, or raise an error."""
    if coords not in ("normalized", "pixel"):
        raise ValueError(f"coords must be 'normalized' or 'pixel', got {coords!r}")
    return str(coords)


def check_maps(backend: Backend, theta: Array, size: Sequence[int]) -> Shape:
    """Return the spatial shape of the output, or raise an error if the maps do not match it."""
    shape = check_output(size, 3, 5)
    check_theta(backend.shape(theta), shape)
    if backend.type_name(theta.dtype, "theta") not in GRID_TYPES:
        raise TypeError(
            f"theta has dtype {theta.dtype}; accepted: float16, float32, float64, and bfloat16 "
            "for tensors"
        )
    return shape[2:]


# Over a backend -----------------------------------------------------------------------------------


class AffinePoints:
    """The points of affine maps (`gridsample.ops.points.SamplePoints`)."""

    def __init__(self, backend: Backend, theta: Array, size: Sequence[int]) -> None:
        self.backend, self.array, self.size = backend, theta, size
        self.out = check_maps(backend, theta, size)
        items, rank, _ = backend.shape(theta)
        self.points = (items, *self.out, rank)

    def at(self, array: Array) -> AffinePoints:
        """Return the points of other maps."""
        return AffinePoints(self.backend, array, self.size)

    def average(
        self, arrays: Sequence[Array], options: Options, averaging: Averaging
    ) -> tuple[Array, Array | None, bool]:
        """Compute means over the pixels that count."""
        return self.backend.average(arrays, options, averaging, self.out)

    def average_backward(
        self, values: Array, arrays: Sequence[Array], options: Options, averaging: Averaging,
        needed: tuple[bool, bool, bool],
    ) -> tuple[Array | None, Array | None, Array | None, bool]:  # fmt: skip
        """Compute the needed gradients of means."""
        return self.backend.average_backward(values, arrays, options, averaging, needed, self.out)

    def resolve_options(self, image: Array, options: Options) -> Options:
        """Return the checked options, for the grid that the maps represent."""
        backend, theta = self.backend, self.array
        dtype = backend.type(backend.type_name(theta.dtype, "theta"))
        stand_in = backend.full(self.points, 0, dtype, theta)  # takes no memory
        return backend.resolve_options(image, stand_in, options)

    def gather(self, image: Array, options: Options, dtype: Any) -> Array:
        """Sample an image, without a grid if the backend can."""
        result = self.backend.affine(image, self.array, self.out, options, dtype)
        if result is None:
            points = through_grid(self.backend, self.array, self.out, options)
            result = points.cut(self.backend.gather(image, points.grid(), points.options, dtype))
        return result

    def backward(
        self, values: Array, image: Array, options: Options, needed: tuple[bool, bool], dtype: Any
    ) -> tuple[Array | None, Array | None]:
        """Compute the needed gradients of image and maps, without a grid if the backend can."""
        backend, theta, out = self.backend, self.array, self.out
        gradients = backend.affine_backward(values, image, theta, out, options, needed, dtype)
        if gradients is None:
            points = through_grid(backend, theta, out, options)
            upstream = points.extend(values)
            gradients = backend.backward(
                upstream, image, points.grid(), points.options, needed, dtype
            )
            if needed[1]:
                gradients = gradients[0], points.gradient(gradients[1])
        return gradients


class ProjectivePoints(AffinePoints):
    """The points of projective maps (N, D + 1, D + 1), which have no gradient."""

    def __init__(self, backend: Backend, maps: Array, size: Sequence[int]) -> None:
        """Take maps that match an output's shape."""
        self.backend, self.array, self.size, self.out = backend, maps, size, tuple(size[2:])
        self.points = (len(maps), *self.out, maps.shape[2] - 1)


def sample(
    backend: Backend, input: Any, theta: Any, size: Sequence[int], options: Options,
    rule: Rule | None, points_of: type[AffinePoints] = AffinePoints,
) -> Any:  # fmt: skip
    """Compute the result of `affine_sample`."""
    optional = {} if rule is None or rule.weights is None else {"weights": rule.weights}
    image, maps, *weights = backend.to_device(input=input, theta=theta, **optional)
    points = points_of(backend, maps, size)
    if rule is not None:
        mean, weight, resolved = means.sample(
            backend, points, image, weights[0] if weights else None, options, rule
        )
        last = resolved.channels_last()
        result = backend.restore(back(backend, mean, last), input)
        if weight is None:
            return result
        return result, backend.restore(back(backend, weight, last), input)
    resolved = points.resolve_options(image, options)
    last = resolved.channel_axis == -1
    pixels = planes(backend, image, last)
    source = filtered(backend, pixels, maps, resolved) if resolved.prefilter else pixels
    return backend.restore(back(backend, points.gather(source, resolved, image.dtype), last), input)
