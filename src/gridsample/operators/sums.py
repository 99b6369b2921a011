"""Weighted sums of the samples of several points, in images of several sizes."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import check_boundaries
from gridsample.definitions.checks import check_flag, check_threads
from gridsample.definitions.methods import Mode, Padding, find_method, per_axis
from gridsample.definitions.names import SumCoordsName
from gridsample.definitions.operators import UNITS, Operator, SumOptions, check_types, declare
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape, as_whole
from gridsample.messages.links import unknown_name
from gridsample.ops.arrays import Array, as_type_of, check_upstream, sum_type
from gridsample.ops.sampling import sample, sample_vjp

Maybe = Array | None


@overridable(arrays=3)
def weighted_sum(
    images: ArrayT,
    points: ArrayT,
    weights: ArrayT | None,
    sizes: Any,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: SumCoordsName = "normalized",
    threads: int | None = None,
) -> ArrayT:
    """Sample images of several sizes at several points each, and sum the weighted samples.

    For each item n, query q, head h and channel c, over the levels l and their points p:

        result[n, q, h, c] = sum over l and p of
            weights[n, q, h, l, p] * level_l[n, h, c](points[n, q, h, l, p])

    where level(x) is the sample of an image as `gridsample.grid_sample` computes it.  On the CPU,
    no sample is kept in memory.  Half precision is summed in float32.

    Args:
        images: the pixels of all levels, one level after the other, each in C order:
            (N, S, H, C), where S is the number of pixels of all levels; any floating-point dtype.
        points: the points, (N, Q, H, L, P, D) for L levels of D axes; the last axis holds x, y, z,
            where x runs along the last axis of a level.
        weights: the weight of each sample, (N, Q, H, L, P).
        sizes: the spatial shape of each level, slowest axis first: (height, width) in two
            dimensions.  L of them.
        mode: the interpolation method, as in `gridsample.grid_sample`; not "label".
        padding_mode, align_corners: as in `gridsample.grid_sample`.
        coords: "normalized" or "pixel", as there; or "unit": 0 and 1 are the outer edges of the
            image, as in detectors.
        threads: the maximum number of threads; None for the default.

    Returns:
        The sums, (N, Q, H, C), in the dtype of the images.  Those of tensors and JAX arrays have
        derivatives of any order.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import weighted_sum
        >>> images = np.array([1.0, 2.0, 3.0, 4.0, 10.0]).reshape(1, 5, 1, 1)  # 2 x 2, and 1 x 1
        >>> points = np.full((1, 1, 1, 2, 1, 2), 0.5)  # the middle of both levels
        >>> weights = np.array([1.0, 0.1]).reshape(1, 1, 1, 2, 1)
        >>> weighted_sum(images, points, weights, [(2, 2), (1, 1)], coords="unit").item()
        3.5
    """
    arrays = {"images": images, "points": points, "weights": weights}
    backend, given = arrays_of(arrays)
    known = dict(zip(arrays, given, strict=True))
    rules = mode, padding_mode, align_corners, coords
    options = options_for(backend, known, {"sizes": sizes}, *rules, threads=threads)
    return backend.restore(backend.fused(WEIGHTED_SUM, given, options), images)


@overridable(arrays=4)
def weighted_sum_vjp(
    grad_output: ArrayT,
    images: ArrayT,
    points: ArrayT,
    weights: ArrayT | None,
    sizes: Any,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: SumCoordsName = "normalized",
    need_images: bool = True,
    need_points: bool = True,
    need_weights: bool = True,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute the gradients of `weighted_sum` in one sweep.

    Args:
        grad_output: the upstream gradient, (N, Q, H, C).
        images, points, weights, sizes: as in `weighted_sum`.
        mode, padding_mode, align_corners, coords: as in `weighted_sum`.
        need_images: whether the gradient of the images is needed.
        need_points: whether that of the points is.
        need_weights: whether that of the weights is.
        threads: the maximum number of threads; None for the default.

    Returns:
        The gradients of the images, the points and the weights, in their shapes and dtypes; None
        in place of those that are not needed.  At a NaN coordinate, the gradient of the point is 0
        and that of the weight is NaN.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import weighted_sum_vjp
        >>> images = np.array([1.0, 3.0]).reshape(1, 2, 1, 1)
        >>> points, weights = np.full((1, 1, 1, 1, 1, 1), 0.25), np.full((1, 1, 1, 1, 1), 2.0)
        >>> gradients = weighted_sum_vjp(np.ones((1, 1, 1, 1)), images, points, weights, [(2,)])
        >>> [gradient.ravel().tolist() for gradient in gradients]
        [[0.5, 1.5], [4.0], [2.5]]
    """
    arrays = {"images": images, "points": points, "weights": weights}
    backend, (upstream, *given) = arrays_of({"grad_output": grad_output, **arrays})
    flags = {"need_images": need_images, "need_points": need_points, "need_weights": need_weights}
    needed = tuple([check_flag(flag, name) for name, flag in flags.items()])
    known = dict(zip(arrays, given, strict=True))
    rules = mode, padding_mode, align_corners, coords
    options = options_for(backend, known, {"sizes": sizes}, *rules, threads=threads)
    shapes = [backend.shape(array) for array in given]
    shape = WEIGHTED_SUM.shape(WEIGHTED_SUM.sizes(shapes), options)
    upstream = check_upstream(backend, upstream, given[0], shape)
    gradients = backend.fused_vjp(WEIGHTED_SUM, upstream, given, options, needed)
    return tuple([backend.restore(gradient, images) for gradient in gradients])


def arrays_of(arrays: dict[str, Any]) -> tuple[Backend, Sequence[Array]]:
    """Return the backend of arrays, and the arrays where it has kernels."""
    backend = backend_of(**arrays)
    return backend, backend.to_device(**arrays)


def options_for(
    backend: Backend,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, Any],
    mode: Mode,
    padding_mode: Padding,
    align_corners: bool,
    coords: str,
    *,
    threads: int | None,
) -> SumOptions:
    """Check the arrays and the options of `weighted_sum`.

    ``arrays`` and ``sizes`` have the names of the caller's arguments.
    """
    axes = WEIGHTED_SUM.sizes([backend.shape(array) for array in arrays.values()], [*arrays])
    types = {name: backend.type_name(array.dtype, name) for name, array in arrays.items()}
    check_types(**types)
    rank = axes["d"]
    levels = check_levels(sizes, axes)
    if coords not in UNITS:
        raise unknown_name("coords", coords, UNITS)
    check_threads(threads)
    methods = tuple([find_method(name) for name in per_axis(mode, rank, "mode")])
    if any([method.votes for method in methods]):
        raise ValueError(
            f"mode {mode!r} is for labels, which have no weighted sum; accepted: other modes"
        )
    return SumOptions(
        sizes=levels,
        rank=rank,
        mode=methods,
        padding_mode=check_boundaries(per_axis(padding_mode, rank, "padding_mode")),
        align_corners=check_flag(align_corners, "align_corners"),
        coords=coords,
        threads=threads,
    )


def check_levels(sizes: Mapping[str, Any], axes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of all levels, one after the other.

    ``sizes`` has the name of the caller's argument; ``axes`` are the sizes of axes.

    Raises:
        TypeError: a size is not an integer.
        ValueError: there are not as many levels and axes as points have, a size is not positive,
            or the levels do not have as many pixels as the images.
    """
    ((name, given),) = sizes.items()
    rank, count = axes["d"], axes["l"]
    try:
        listed = given.tolist() if hasattr(given, "tolist") else given
        levels = [tuple([as_whole(n) for n in size]) for size in listed]
    except TypeError:
        raise TypeError(
            f"{name} must be the spatial shapes of levels, tuples of integers; got {given!r}"
        ) from None
    if not 1 <= rank <= 3:
        raise ValueError(f"points must have 1 to 3 coordinates on their last axis, got {rank}")
    if len(levels) != count or any([len(level) != rank for level in levels]):
        raise ValueError(
            f"{name} must have {rank} numbers for each of the {count} levels of points, "
            f"got {levels}"
        )
    if any([n < 1 for level in levels for n in level]):
        raise ValueError(f"{name} must be positive, got {levels}")
    pixels = sum([math.prod(level) for level in levels])
    if pixels != axes["s"]:
        raise ValueError(
            f"there are {axes['s']} pixels, but levels with the {name} {levels} have {pixels}"
        )
    return tuple([n for level in levels for n in level])


# The composition ----------------------------------------------------------------------------------


class LevelSamples(NamedTuple):
    """One level as an image and a grid of `grid_sample`, whose items are those of all heads.

    Attributes:
        image: (N * H, C, *size).
        grid: (N * H, Q, P, D), in the units of `request_of`.
        weights: (N * H, 1, Q, P).
    """

    image: Array
    grid: Array
    weights: Array


def shaped(backend: Backend, array: Array, axes: Sequence[int], shape: Sequence[int]) -> Array:
    """Return an array with its axes in another order, and then in another shape."""
    return backend.xp.reshape(backend.permute(array, axes), tuple(shape))


def planes_of(backend: Backend, pixels: Array, shape: Shape) -> Array:
    """Return pixels (..., C) in C order as an array (N, C, *size), given its shape (N, *size)."""
    rank, channels = len(shape) - 1, pixels.shape[-1]
    array = backend.xp.reshape(pixels, (*shape, channels))
    return backend.permute(array, (0, rank + 1, *range(1, rank + 1)))


def wide(backend: Backend, arrays: Sequence[Array]) -> list[Array]:
    """Return arrays in the dtype of sums."""
    real = sum_type(backend, *arrays)
    return [backend.astype(array, real) for array in arrays]


def levels_of(
    backend: Backend, arrays: Sequence[Array], options: SumOptions
) -> Iterator[LevelSamples]:
    """Yield each level."""
    images, points, weights = arrays
    (items, _, heads, channels), queries, each = images.shape, points.shape[1], points.shape[4]
    count, rank, begin = items * heads, options.rank, 0
    for level, size in enumerate(options.levels()):
        end = begin + math.prod(size)
        image = shaped(backend, images[:, begin:end], (0, 2, 3, 1), (count, channels, *size))
        places = points[:, :, :, level]
        grid = shaped(backend, places, (0, 2, 1, 3, 4), (count, queries, each, rank))
        shares = shaped(backend, weights[:, :, :, level], (0, 2, 1, 3), (count, 1, queries, each))
        yield LevelSamples(image, grid * 2 - 1 if options.coords == "unit" else grid, shares)
        begin = end


def request_of(options: SumOptions) -> Request:
    """Return the request of the samples of a level."""
    coords = "pixel" if options.coords == "pixel" else "normalized"
    rules: tuple[Any, Any, bool] = options.mode, options.padding_mode, options.align_corners
    return Request(*rules, coords, threads=options.threads)


def composed(backend: Backend, arrays: Sequence[Array], options: SumOptions) -> Array:
    """Compute the result by sampling each level."""
    images, points = arrays[:2]
    (items, _, heads, channels), queries = images.shape, points.shape[1]
    request, sums = request_of(options), []
    for level in levels_of(backend, wide(backend, arrays), options):
        samples = sample(backend, {"input": level.image, "grid": level.grid}, request, None)
        sums.append(backend.xp.sum(samples * level.weights, -1))
    total = functools.reduce(operator.add, sums)
    total = backend.xp.reshape(total, (items, heads, channels, queries))
    return backend.astype(backend.permute(total, (0, 3, 1, 2)), images.dtype)


def composed_vjp(
    backend: Backend,
    upstream: Array,
    arrays: Sequence[Array],
    options: SumOptions,
    needed: Sequence[bool],
) -> Sequence[Maybe]:
    """Compute the needed gradients by sampling each level and its gradients."""
    images, points = arrays[:2]
    (items, _, heads, channels), queries = images.shape, points.shape[1]
    each, rank, count = points.shape[4], options.rank, items * heads
    sources = wide(backend, arrays)
    values = backend.astype(upstream, sources[0].dtype)
    values = shaped(backend, values, (0, 2, 3, 1), (count, channels, queries, 1))
    request, parts = request_of(options), []
    at_points = items, heads, queries, each

    def back(array: Maybe, shape: Shape, axes: Sequence[int]) -> Maybe:
        """Return a gradient with the axes of its array."""
        if array is None:
            return None
        return backend.permute(backend.xp.reshape(array, shape), axes)

    for size, level in zip(options.levels(), levels_of(backend, sources, options), strict=True):
        pixels = by_points = by_weights = None
        inputs = {"input": level.image, "grid": level.grid}
        if needed[2]:
            samples = sample(backend, inputs, request, None)
            by_weights = backend.xp.sum(values * samples, 1)
        if needed[0] or needed[1]:
            inputs = {"grad_output": values * level.weights, **inputs}
            flags = {"need_input": needed[0], "need_grid": needed[1]}
            pixels, by_points = sample_vjp(inputs, request, None, flags)
        if by_points is not None and options.coords == "unit":
            by_points = by_points * 2
        parts.append(
            [
                back(pixels, (items, heads, channels, math.prod(size)), (0, 3, 1, 2)),
                back(by_points, (*at_points, 1, rank), (0, 2, 1, 4, 3, 5)),
                back(by_weights, (*at_points, 1), (0, 2, 1, 4, 3)),
            ]
        )
    results = []
    for levels, axis, like in zip(zip(*parts, strict=True), (1, 3, 3), arrays, strict=True):
        gradient = None if levels[0] is None else backend.concatenate(levels, axis)
        results.append(as_type_of(backend, gradient, like))
    return results


WEIGHTED_SUM = declare(
    Operator(
        name="weighted_sum",
        arrays={"images": "n s h c", "points": "n q h l p d", "weights": "n q h l p"},
        result="n q h c",
        sums=("images",),
        whole=("s", "l", "p", "d"),
        options=SumOptions,
        is_fused=SumOptions.is_fused,
        composed=composed,
        composed_vjp=composed_vjp,
    )
)
