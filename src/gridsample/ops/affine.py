"""Sampling under affine maps, without storing a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

from gridsample.backends import Backend, backend_of, operation
from gridsample.backends.base import prepared_call
from gridsample.definitions.arrays import ArrayT, Fill
from gridsample.definitions.checks import check_dense
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.keywords import MapKeywords
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MapCoordsName, MissingName
from gridsample.definitions.request import NO_FILL, Request, is_default_fill, sampling_request
from gridsample.definitions.shapes import check_output, check_theta
from gridsample.ops.arrays import back, named_arrays
from gridsample.ops.missing import as_rule
from gridsample.ops.misuse import check_layout, has_channels_last, is_photo
from gridsample.ops.points import SamplePoints
from gridsample.ops.sampling import sample, sample_vjp, unweighted_sample


def repeat(
    backend: Backend,
    request: Request,
    input: Any,
    theta: Any,
    size: Sequence[int],
    *,
    fill_value: Any = NO_FILL,
    weights: Any = None,
) -> Any:
    """Compute `affine_sample` by a prepared call; None if there is none.

    ``request`` is `shared`, and the fill value is not in it.
    """
    layouts = backend.layouts(input, theta) if weights is None else None
    if layouts is None:
        return None
    check_map_coords(request.coords)
    shape = check_output(size)
    check_theta(backend.shape(theta), shape)
    filled = fill_value is not NO_FILL and not is_default_fill(fill_value)
    call = prepared_call(backend, request, layouts, shape[2:], filled)
    if call is None:
        return None
    if not call.checked:
        call.checked = not (has_channels_last(input.shape) or is_photo(input.shape))
        check_layout(backend, input, backend.shape(input), request.channel_axis != 1)
    return call.run(input, theta, fill_value=fill_value)


def run_affine_sample(
    request: Request, *, input: Any, theta: Any, size: Sequence[int], weights: Any = None
) -> Any:
    """Compute the result of `affine_sample`."""
    check_map_coords(request.coords)
    rule = as_rule(request, weights, request.padding_mode)
    arrays = named_arrays(weights, input=input, theta=theta)
    backend = backend_of(**arrays)
    check_dense(input=input)  # a nested tensor has no shape
    if request.channel_axis == 1 and hasattr(input, "shape"):
        image = backend.asarrays(**arrays)[0]
        check_layout(backend, image, backend.shape(image), False)
    return sample(backend, arrays, request, rule, size=check_output(size))


@overload
def affine_sample(
    input: ArrayT,
    theta: ArrayT,
    size: Sequence[int],
    mode: Mode = ...,
    padding_mode: Padding = ...,
    align_corners: bool = ...,
    *,
    return_weight: Literal[False] = ...,
    **options: Unpack[MapKeywords],
) -> ArrayT: ...
@overload
def affine_sample(
    input: ArrayT,
    theta: ArrayT,
    size: Sequence[int],
    mode: Mode = ...,
    padding_mode: Padding = ...,
    align_corners: bool = ...,
    *,
    return_weight: bool = ...,
    **options: Unpack[MapKeywords],
) -> Any: ...
@operation(run_affine_sample, arrays=2, shortcut=repeat)
def affine_sample(
    input: ArrayT,
    theta: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: MapCoordsName = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Sample an image under an affine map: `grid_sample` on the grid ``affine_grid(theta, size)``.

    The coordinates are computed a few hundred points at a time, while they are sampled.  A stored
    grid would be as large as two or three channels of the output.  The results agree up to the
    rounding of a grid's coordinates, which maps do not have: in float32, too, the identity returns
    the image.

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
        align_corners: the meaning of -1 and 1, as in `grid_sample`, in the input and the output.
        coords: "normalized", or "pixel" for maps from the indices x, y, z of output pixels to
            positions in pixels.
        antialias: whether footprints are sampled, as in `grid_sample`.  Their sides are the columns
            of the map, times the distance between neighbours along the output's axes.
        return_weight: whether to also return the weight of each result, as in `grid_sample`.
        channel_axis: 1, or -1 for channels-last input and output.
        mode, padding_mode, fill_value, extrapolate, prefilter, max_samples, footprint, missing,
            weights, min_weight, threads: as in `grid_sample`.

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


def run_affine_sample_vjp(
    request: Request,
    *,
    size: Sequence[int],
    need_input: bool,
    need_theta: bool,
    need_weights: bool,
    weights: Any = None,
    **arrays: Any,
) -> tuple[Any, ...]:
    """Compute the result of `affine_sample_vjp`."""
    check_map_coords(request.coords)
    flags = {"need_input": need_input, "need_theta": need_theta, "need_weights": need_weights}
    rule = as_rule(request, weights, request.padding_mode)
    arrays = named_arrays(weights, **arrays)
    return sample_vjp(arrays, request, rule, flags, check_output(size))


@operation(run_affine_sample_vjp, arrays=3)
def affine_sample_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    theta: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: MapCoordsName = "normalized",
    fill_value: Fill = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
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
        align_corners, coords, antialias: as in `affine_sample`.
        mode, padding_mode, fill_value, extrapolate, prefilter, max_samples, footprint, weights: as
            in `grid_sample`.
        missing, min_weight: as in `grid_sample_vjp`.
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


def sample_under_maps(input: Any, maps: Any, size: Sequence[int], **options: Any) -> Any:
    """Sample host arrays under affine or projective maps of pixels, without a grid or derivatives.

    The position of the output pixel with index (x, y, z) is maps[:, :D] @ (x, y, z, 1), divided by
    maps[:, D] @ (x, y, z, 1) if there is such a row, and 0 where that is 0.

    Args:
        input: the image, (N, C, *spatial), or with channels last.
        maps: (N, D, D + 1) or (N, D + 1, D + 1), float32 or float64.
        size: the output's shape, (N, C, *out).
        options: fields of `Request` except for antialiasing.

    Returns:
        (N, C, *out), or (N, *out, C) for channel_axis=-1, with the input's dtype.
    """
    fill_value = options.pop("fill_value", 0)
    backend, known = backend_of(input=input, maps=maps), sampling_request(coords="pixel", **options)
    if known is not None:
        filled = not is_default_fill(fill_value)
        layouts = backend.layouts(input, maps)
        call = prepared_call(backend, known, layouts, tuple(size[2:]), filled)
        if call is not None:
            return call.run(input, maps, fill_value=fill_value)
    request = Request(coords="pixel", fill_value=fill_value, **options)
    image, matrices = backend.to_device(input=input, maps=maps)
    points = SamplePoints(backend, matrices, tuple(size[2:]))
    samples, resolved = unweighted_sample(points, image, request)
    return backend.restore(back(backend, samples, resolved.channels_last()), input)


# Arguments ----------------------------------------------------------------------------------------


def check_map_coords(coords: Any) -> None:
    """Raise an error for units of coordinates that maps do not have."""
    if coords not in ("normalized", "pixel"):
        raise ValueError(f"coords must be 'normalized' or 'pixel', got {coords!r}")
