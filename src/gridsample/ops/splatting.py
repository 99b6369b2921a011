"""Splatting, the transpose of sampling, for every array library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridsample.backends import Backend, backend_of, operation
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import without_missing
from gridsample.definitions.checks import check_flag
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.dtypes import NARROW_TYPES, WIDE_TYPES
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.knots import Coords
from gridsample.definitions.labels import refuse_labels
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FootprintName, MissingName
from gridsample.definitions.options import Options
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape, channels_last, check_size, check_values
from gridsample.ops.arrays import (
    Array,
    as_grid,
    back,
    coefficient_type,
    filtered,
    is_differentiable,
    named_arrays,
    planes,
    sum_type,
)
from gridsample.ops.missing import (
    CountingRule,
    as_rule,
    check_entries,
    check_weights,
    masked_planes,
)
from gridsample.ops.quotients import repeat_weight

# What to do instead of splatting labels.
OTHERS = "; splat each label's (values == label) by itself, or use 'nearest' or 'bilinear'"


def run_splat(
    request: Request, *, values: Any, grid: Any, size: Any, weights: Any, normalize: bool
) -> Any:
    """Compute the result of `splat`."""
    request = request.changed(padding_mode=without_missing(request.padding_mode, "constant"))
    arrays = named_arrays(weights, values=values, grid=grid)
    backend = backend_of(**arrays)
    normalized = check_flag(normalize, "normalize")
    return scatter_values(backend, arrays, size, request, normalized, as_rule(request, weights))


@operation(run_splat, arrays=2)
def splat(
    values: ArrayT,
    grid: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    footprint: FootprintName = ATTACH,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    normalize: bool = False,
    return_weight: bool = False,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Add values to an image at the coordinates of a grid: the exact transpose of `grid_sample`.

    Each value is added to the pixels that `grid_sample` would read at its point, with the same
    weights:

        out[n, c, pixel] = sum over points of weight(point, pixel) * values[n, c, point]

    Hence sum(splat(v, grid, size) * image) = sum(v * grid_sample(image, grid)) for every image of
    this size, with the same options and the fill value 0.  If `grid_sample` prefilters the image,
    the transpose of that filter is applied last.  This operation is also known as scattering or
    pushing.

    Args:
        values: (N, C, *out); bool, any integer dtype, float16 to float64, complex64 or complex128.
            Tensors may also be bfloat16, and the result is differentiable.
        grid: the coordinates of the values, (N, *out, D), as in `grid_sample`.  If N is 1 here or
            in the values, it is broadcast.  A point with a NaN coordinate contributes nothing.
        size: the spatial shape of the result, such as (height, width); a number for one axis.
        mode: the interpolation method, as in `grid_sample`, but not "label".
        padding_mode: the boundary, as in `grid_sample`, which folds values outside into the image.
            Under "zeros", "constant" and "missing", they are dropped.
        prefilter: whether to apply the transpose of the prefilter; False adds to the coefficients
            of a spline.
        antialias: whether each value is spread evenly over the footprint of its point, as in
            `grid_sample`, so that an enlarged image has no gaps.
        align_corners, coords, extrapolate, max_samples, footprint: as in `grid_sample`.
        missing: how NaN values are treated: "propagate", or "ignore" to add nothing for them, and
            not to count them for ``normalize``.
        weights: how much each value counts, (N or 1, C or 1, *out), in the layout of the values:
            finite, non-negative numbers of any real dtype, or bool.  Values are multiplied by them.
        normalize: whether to divide by the sum of weights on each pixel where that is not 0, so
            that the result of equal values is that value.  The sum is `splat_count` if every value
            counts once.
        return_weight: whether to also return that sum, (N, C, *size), in float32 or float64.
        channel_axis: 1, or -1 for channels-last values and result, (N, *out, C) and (N, *size, C).
        threads: the maximum number of threads, as in `grid_sample`.  The result is bitwise
            identical for every number.

    Returns:
        (N, C, *size), with the dtype of the values; float32 for bool and 8- and 16-bit integers,
        float64 for other integers.  With return_weight=True, a tuple of that and the weights.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: shapes do not match, a name is unknown or ambiguous, or a weight is negative or
            not finite.

    Example:
        >>> import numpy as np, gridsample
        >>> values, grid = np.array([[[8.0, 1.0]]]), np.array([[[0.25], [2.0]]])
        >>> gridsample.splat(values, grid, 4, coords="pixel")
        array([[[6., 2., 1., 0.]]])
        >>> gridsample.splat(values, grid, 4, coords="pixel", normalize=True)
        array([[[8., 8., 1., 0.]]])
        >>> values[0, 0, 0] = np.nan
        >>> gridsample.splat(values, grid, 4, coords="pixel", missing="ignore")
        array([[[0., 0., 1., 0.]]])
    """


def run_splat_count(request: Request, *, grid: Any, size: Any) -> Any:
    """Compute the result of `splat_count`."""
    return count_weights(backend_of(grid=grid), grid, size, request)


@operation(run_splat_count, arrays=1)
def splat_count(
    grid: ArrayT,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: Coords = "normalized",
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Sum the weights that fall on each pixel of an image: the `splat` of ones.

        out[n, 0, pixel] = sum over points of weight(point, pixel)

    Args:
        grid: the coordinates of the points, (N, *out, D), as in `grid_sample`.
        size: the spatial shape of the result, as in `splat`.
        prefilter: whether to apply the transpose of the prefilter, as in `splat`.
        padding_mode, extrapolate, antialias: as in `splat`.
        channel_axis: 1, or -1 for (N, *size, 1).
        mode, align_corners, coords, max_samples, threads: as in `grid_sample`.

    Returns:
        (N, 1, *size), float64 for a float64 grid and float32 otherwise.

    Raises:
        TypeError: an argument is not accepted by `splat`.
        ValueError: an argument is not accepted by `splat`.

    Example:
        >>> import numpy as np, gridsample
        >>> gridsample.splat_count(np.array([[[0.25], [2.0]]]), 4, coords="pixel")
        array([[[0.75, 0.25, 1.  , 0.  ]]])
    """


# Over a backend -----------------------------------------------------------------------------------


def scatter_values(
    backend: Backend,
    arrays: Mapping[str, Any],
    size: Sequence[int],
    request: Request,
    normalize: bool,
    rule: CountingRule | None,
) -> Any:
    """Compute the result of `splat`."""
    refuse_labels(request.mode, "labels cannot be added to pixels" + OTHERS)
    source, coordinates, *weights = backend.to_device(**arrays)
    coordinates = as_grid(backend, coordinates, request.coords)
    spatial = check_size(size, backend.shape(coordinates))
    last = channels_last(request.channel_axis, len(spatial) + 2)
    items = check_values(backend.shape(source), backend.shape(coordinates), last)
    check_values_type(backend, source)
    pixels = planes(backend, source, last)
    dtype = (
        source.dtype if is_differentiable(backend, source) else coefficient_type(backend, source)
    )
    channels = pixels.shape[1]
    size = (items, *spatial, channels) if last else (items, channels, *spatial)
    resolved = backend.resolve_options(
        backend.full(size, 0, dtype, coordinates), coordinates, request
    )
    # Before a division or a filter, the result stays in the dtype of the sums.
    exact = normalize or resolved.prefilter or (rule is not None and rule.counts())
    scatter_type = coefficient_type(backend, source, coordinates) if exact else dtype
    real = sum_type(backend, source, coordinates)
    mask = backend.full((coordinates.shape[0], 1, *coordinates.shape[1:-1]), 1, real, coordinates)
    if rule is not None and rule.counts():
        if weights:
            check_weights(backend, weights[0], backend.shape(source), items, last, "values")
            check_entries(backend, weights[0])
        masked = masked_planes(
            backend,
            pixels,
            planes(backend, weights[0], last) if weights else None,
            rule.ignore and is_differentiable(backend, source),
            scatter_type,
        )
        pixels, mask = masked.values, backend.astype(masked.mask, real)
    result = transpose(backend, pixels, coordinates, spatial, resolved, scatter_type)
    weight = None
    if normalize or (rule is not None and rule.weighted):
        weight = transpose(backend, mask, coordinates, spatial, resolved, real)
    if normalize:
        result = backend.ratio(result, weight)
    like = arrays["values"]
    result = backend.restore(back(backend, backend.astype(result, dtype), last), like)
    if weight is None or rule is None or not rule.weighted:
        return result
    weight = repeat_weight(backend, weight, (items, channels))
    return result, backend.restore(back(backend, weight, last), like)


def count_weights(backend: Backend, grid: Any, size: Any, request: Request) -> Any:
    """Compute the result of `splat_count`."""
    refuse_labels(request.mode, "a vote has no weights to count" + OTHERS)
    (coordinates,) = backend.to_device(grid=grid)
    coordinates = as_grid(backend, coordinates, request.coords)
    spatial = check_size(size, backend.shape(coordinates))
    last = channels_last(request.channel_axis, len(spatial) + 2)
    dtype = sum_type(backend, coordinates)
    items = coordinates.shape[0]
    size = (items, *spatial, 1) if last else (items, 1, *spatial)
    resolved = backend.resolve_options(
        backend.full(size, 0, dtype, coordinates), coordinates, request
    )
    ones = backend.full((coordinates.shape[0], 1, *coordinates.shape[1:-1]), 1, dtype, coordinates)
    result = transpose(backend, ones, coordinates, spatial, resolved, dtype)
    return backend.restore(back(backend, result, last), grid)


def transpose(
    backend: Backend, values: Array, grid: Array, spatial: Shape, options: Options, dtype: Any
) -> Array:
    """Apply the transpose of sampling, including that of the prefilter, to values (N, C, *out).

    N may be 1 although there are several grids.
    """
    values = backend.astype(values, dtype)
    items = backend.shape(grid)[0]
    if backend.shape(values)[0] == 1 != items:
        values = backend.xp.broadcast_to(values, (items, *values.shape[1:]))
    result = backend.scatter(values, grid, spatial, options, dtype)
    return filtered(backend, result, grid, options, adjoint=True) if options.prefilter else result


def check_values_type(backend: Backend, values: Array) -> None:
    """Raise an error for values of a dtype that is not supported."""
    if backend.type_name(values.dtype, "values") not in WIDE_TYPES + NARROW_TYPES:
        accepted = ", ".join(WIDE_TYPES + NARROW_TYPES)
        raise TypeError(f"values has dtype {values.dtype}; accepted: {accepted}")
