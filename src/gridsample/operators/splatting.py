"""Forward warps in which values compete for a pixel: softmax splatting."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import BOUNDARIES, check_boundaries
from gridsample.definitions.checks import check_threads
from gridsample.definitions.methods import Padding, per_axis
from gridsample.definitions.names import SplatName
from gridsample.definitions.operators import Operator, SplatOptions, check_types, declare
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.messages.links import unknown_name
from gridsample.operators.sums import arrays_of
from gridsample.ops.arrays import Array, as_type_of, sum_type
from gridsample.ops.sampling import sample
from gridsample.ops.splatting import scatter_values

Maybe = Array | None
# How the values of a pixel are combined; those that need a metric come last.
MODES = ("sum", "average", "linear", "soft", "maximum")
# The most spatial axes.
MAX_AXES = 3


@overridable(arrays=3)
def softmax_splat(
    input: ArrayT,
    flow: ArrayT,
    metric: ArrayT | None = None,
    mode: SplatName = "soft",
    padding_mode: Padding = "zeros",
    *,
    threads: int | None = None,
) -> ArrayT:
    """Move the pixels of an image along a flow, and combine those that meet by their metrics.

    Each pixel p is moved by its flow and splatted to the pixels q around its new position, with the
    bilinear weights b of `gridsample.splat`.  The result is the mean of the values that reach q,

        result[q] = sum over p of w * input[p] / (sum over p of w)

    where the weight w depends on the mode:

        "sum"       w = b, and the sum is not divided
        "average"   w = b
        "linear"    w = b * metric[p]
        "soft"      w = b * exp(metric[p])
        "maximum"   w = b for the values with the greatest metric of those that reach q, otherwise 0

    The result is 0 where no value arrives.  With "soft", exponents are relative to the greatest
    metric of the values that reach q, so that metrics of any size neither overflow nor vanish.
    With "linear", metrics should be positive, as the sum of weights of both signs may be near 0.
    "maximum" is its limit for large metrics: nearest values win if the metric is minus the depth.

    The source is S. Niklaus, F. Liu, "Softmax Splatting for Video Frame Interpolation", 2020.

    Args:
        input: the image, (N, C, *size) with one to three spatial axes; any floating-point dtype.
        flow: by how many pixels each pixel moves, (N, D, *size): x, y, z.
        metric: the importance of each pixel, (N, 1, *size); for "linear", "soft" and "maximum".
        mode: how values are combined.
        padding_mode: the boundary, as in `gridsample.splat`, a name or one per axis.  It must not
            change the signs of pixels.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, C, *size), in the dtype of ``input``.  Half precision is summed in float32.  A pixel
        whose flow is not finite, or whose metric is NaN, contributes nothing.  Results of tensors
        and JAX arrays have derivatives of any order; with "maximum", the metric has none.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, a name is unknown, or the metric is missing or not used.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import softmax_splat
        >>> image = np.array([[[1.0, 2.0, 3.0, 4.0]]])
        >>> flow = np.array([[[1.0, 0.0, 0.0, 0.0]]])  # the first pixel moves onto the second
        >>> metric = np.array([[[1000.0, 0.0, 0.0, 0.0]]])
        >>> softmax_splat(image, flow, metric)
        array([[[0., 1., 3., 4.]]])
        >>> softmax_splat(image, flow, mode="average")
        array([[[0. , 1.5, 3. , 4. ]]])
    """
    check_mode(mode)
    check_threads(threads)
    arrays = {"input": input, "flow": flow}
    if (metric is not None) != (mode not in MODES[:2]):
        raise ValueError(
            f'mode "{mode}" {"has no" if metric is not None else "needs a"} metric; those that '
            f"have one: {', '.join(MODES[2:])}"
        )
    if metric is not None:
        arrays["metric"] = metric
    backend, given = arrays_of(arrays)
    known = dict(zip(arrays, given, strict=True))
    check_types(**{k: backend.type_name(array.dtype, k) for k, array in known.items()})
    size = check_shapes({name: backend.shape(array) for name, array in known.items()})
    boundaries = check_boundaries(per_axis(padding_mode, len(size), "padding_mode"))
    if any([BOUNDARIES[name].odd for name in boundaries]):
        raise ValueError(f"padding_mode {padding_mode!r} changes the signs of pixels")
    real = sum_type(backend, *given)
    wide = {name: backend.astype(array, real) for name, array in known.items()}
    request = Request("bilinear", boundaries, coords="pixel", threads=threads)
    splat = {"soft": splat_exponentials, "maximum": splat_exponentials}.get(mode, splat_products)
    result = splat(backend, wide, size, request, mode)
    return backend.restore(backend.astype(result, known["input"].dtype), input)


def check_mode(mode: Any) -> None:
    """Raise an error unless a mode is one of MODES; it may be anything, such as an array."""
    if not isinstance(mode, str) or mode not in MODES:
        raise unknown_name("mode", mode, MODES)


def check_shapes(shapes: dict[str, Shape]) -> Shape:
    """Return the spatial shape, given the shapes of the arrays by name.

    Raises:
        ValueError: they do not match.
    """
    image = shapes["input"]
    rank = len(image) - 2
    if not 1 <= rank <= MAX_AXES:
        raise ValueError(
            f"input must be (N, C, *size) with 1 to {MAX_AXES} spatial axes, got shape {image}"
        )
    if 0 in image[2:]:
        raise ValueError(f"input has an empty spatial axis: shape {image}, (N, C, *size)")
    for name, channels in (("flow", rank), ("metric", 1)):
        expected = image[0], channels, *image[2:]
        if name in shapes and shapes[name] != expected:
            raise ValueError(
                f"{name} must have the shape {expected} for an input of {image}, got {shapes[name]}"
            )
    return image[2:]


def moved_pixels(backend: Backend, flow: Array) -> Array:
    """Return the new positions of all pixels, (N, *size, D), x first."""
    xp, rank = backend.xp, flow.shape[1]
    columns = []
    for axis in range(rank):
        n = flow.shape[-1 - axis]
        line = backend.line(n, None, flow.dtype, flow)
        shape = [1] * (rank + 1)
        shape[-1 - axis] = n
        columns.append(flow[:, axis] + xp.reshape(line, tuple(shape)))
    return xp.stack(columns, -1)


def splat_products(
    backend: Backend, arrays: dict[str, Array], size: Shape, request: Request, mode: str
) -> Array:
    """Splat values times weights that do not depend on the target."""
    image, grid = arrays["input"], moved_pixels(backend, arrays["flow"])
    conditions = [backend.xp.isfinite(places) for places in unstacked(grid)]
    if mode == "linear":
        known = arrays["metric"] == arrays["metric"]
        conditions.append(known[:, 0])
        metric = backend.xp.where(known, arrays["metric"], 0)
        image = backend.concatenate([image * metric, metric], 1)
    # Values without a position are left out, also those that are not finite.
    counts = functools.reduce(operator.and_, conditions)
    inputs = {"values": image, "grid": backend.xp.where(counts[..., None], grid, math.nan)}
    result = scatter_values(backend, inputs, size, request, mode == "average", None)
    return divided(backend, result) if mode == "linear" else result


def unstacked(grid: Array) -> list[Array]:
    """Return the coordinates along each axis."""
    return [grid[..., axis] for axis in range(grid.shape[-1])]


def divided(backend: Backend, sums: Array) -> Array:
    """Divide sums (N, C + 1, ...) by the last of them, where that is not 0."""
    total = sums[:, -1:]
    is_empty = total == 0
    return backend.xp.where(is_empty, 0, sums[:, :-1]) / backend.xp.where(is_empty, 1, total)


def splat_exponentials(
    backend: Backend, arrays: dict[str, Array], size: Shape, request: Request, mode: str
) -> Array:
    """Splat values with weights that depend on the greatest metric of the target."""
    xp, (items, channels) = backend.xp, arrays["input"].shape[:2]
    rank, count = len(size), math.prod(size)
    image = backend.permute(arrays["input"], (0, *range(2, rank + 2), 1))
    values = xp.reshape(image, (items, count, channels))
    positions = xp.reshape(moved_pixels(backend, arrays["flow"]), (items, count, rank))
    metric = xp.reshape(arrays["metric"], (items, count))
    boundaries = check_boundaries(per_axis(request.padding_mode, rank, "padding_mode"))
    options = SplatOptions(tuple(size), boundaries, mode == "maximum", request.threads)
    # As constants: the result, as a quotient, takes care of all derivatives.
    points = [backend.detached(metric), backend.detached(positions)]
    points.append(backend.fused(MAXIMUM, points, options))
    points.append(backend.fused(TOTAL, points, options))
    result = backend.fused(SPLAT, [values, metric, positions, *points[2:]], options)
    result = xp.reshape(result, (items, *size, channels))
    return backend.permute(result, (0, rank + 1, *range(1, rank + 1)))


# The compositions ---------------------------------------------------------------------------------


class Corner(NamedTuple):
    """One of the pixels around each point.

    Attributes:
        grid: where it is, (N, P, D).
        counts: which points count, (N, P).
        weight: its bilinear weight, (N, P); 0 for points that do not count.
        slopes: the derivatives of the weight along each axis.
    """

    grid: Array
    counts: Array
    weight: Array
    slopes: Sequence[Array]


def corners_of(backend: Backend, metric: Array, positions: Array) -> Iterator[Corner]:
    """Yield the pixels around points (N, P, D)."""
    xp, rank = backend.xp, positions.shape[-1]
    axes = unstacked(positions)
    conditions = [metric == metric, *[xp.isfinite(axis) for axis in axes]]
    finite = functools.reduce(operator.and_, conditions)
    places = [xp.where(finite, axis, 0) for axis in axes]
    counted = backend.astype(finite, positions.dtype)
    floors = [xp.floor(place) for place in places]
    fractions = [place - floor for place, floor in zip(places, floors, strict=True)]
    for corner in itertools.product((0, 1), repeat=rank):
        weights = [t if k else 1 - t for k, t in zip(corner, fractions, strict=True)]
        slopes = []
        for axis in range(rank):
            others = [*weights[:axis], *weights[axis + 1 :]]
            sign = counted if corner[axis] else -counted
            slopes.append(functools.reduce(operator.mul, others, sign))
        weight = functools.reduce(operator.mul, weights, counted)
        grid = xp.stack([floor + k for k, floor in zip(corner, floors, strict=True)], -1)
        yield Corner(grid, finite, weight, slopes)


def nearest(options: SplatOptions) -> Request:
    """Return the request of samples at the centres of pixels."""
    return Request("nearest", options.padding_mode, coords="pixel", threads=options.threads)


def read(backend: Backend, image: Array, corner: Corner, options: SplatOptions) -> Array:
    """Read an image (N, K, *size) at a corner of all points: (N, K, P)."""
    inputs = {"input": image, "grid": corner.grid}
    result: Array = sample(backend, inputs, nearest(options), None)
    return result


def shares_of(
    backend: Backend, metric: Array, greatest: Array, corner: Corner, options: SplatOptions
) -> Array:
    """Return the share of the metric of each point at a corner, (N, P)."""
    image = backend.xp.reshape(greatest, (greatest.shape[0], 1, *options.size))
    known = backend.xp.where(metric == metric, metric, 0)
    difference = known - read(backend, image, corner, options)[:, 0]
    if options.hard:
        return backend.astype(~(difference < 0), metric.dtype)
    # A point whose weight is 0 may have a greater metric than its pixel.
    return backend.xp.exp(backend.xp.where(difference <= 0, difference, 0))


def sums_of(
    backend: Backend, image: Array, points: Sequence[Array], options: SplatOptions
) -> Array:
    """Add values (N, K, P), times their weights, to the pixels of all corners: (N, K, Q)."""
    xp, (metric, positions, greatest) = backend.xp, points[:3]
    is_finite, parts = xp.isfinite(image), []
    for corner in corners_of(backend, metric, positions):
        weight = corner.weight * shares_of(backend, metric, greatest, corner, options)
        weight = weight[:, None]
        # Values without a weight are left out, but finite ones have slopes by a weight of 0.
        added = xp.where((weight > 0) | is_finite, image, 0) * weight
        inputs = {"values": added, "grid": corner.grid}
        size, request = options.size, nearest(options)
        parts.append(scatter_values(backend, inputs, size, request, False, None))
    total = functools.reduce(operator.add, parts)
    return xp.reshape(total, (*total.shape[:2], math.prod(options.size)))


def composed(backend: Backend, arrays: Sequence[Array], options: SplatOptions) -> Array:
    """Compute the result by adding to the nearest pixels of each corner."""
    values, *points = arrays
    one = backend.xp.ones_like(points[0])[:, None]
    image = backend.concatenate([backend.permute(values, (0, 2, 1)), one], 1)
    sums = sums_of(backend, image, points, options)
    return backend.permute(divided(backend, sums), (0, 2, 1))


def total_of(backend: Backend, arrays: Sequence[Array], options: SplatOptions) -> Array:
    """Compute the sum of the weights of each pixel."""
    return sums_of(backend, backend.xp.ones_like(arrays[0])[:, None], arrays, options)[:, 0]


def composed_vjp(
    backend: Backend,
    upstream: Array,
    arrays: Sequence[Array],
    options: SplatOptions,
    needed: Sequence[bool],
) -> Sequence[Maybe]:
    """Compute the needed gradients by reading the pixels at each corner.

    All but the values are differentiated by the difference of a value from the mean.
    """
    values, metric, positions, greatest, _ = arrays
    xp, rank = backend.xp, positions.shape[-1]
    total = total_of(backend, arrays[1:], options)
    result = composed(backend, arrays, options)
    # The last channels have what the mean adds, and the sum of the weights.
    channels = [upstream, xp.sum(upstream * result, -1)[..., None], total[..., None]]
    image = backend.permute(backend.concatenate(channels, -1), (0, 2, 1))
    image = xp.reshape(image, (*image.shape[:2], *options.size))
    by_values, by_metric = xp.zeros_like(values), xp.zeros_like(metric)
    by_positions = [xp.zeros_like(metric) for _ in range(rank)]
    tiny = float(np.finfo(backend.type_name(metric.dtype)).tiny)
    for corner in corners_of(backend, metric, positions):
        share = shares_of(backend, metric, greatest, corner, options)
        is_used = (corner.counts & (share > 0))[..., None]
        pixels = backend.permute(read(backend, image, corner, options), (0, 2, 1))
        pixels, own = xp.where(is_used, pixels, 0), xp.where(is_used, values, 0)
        product = xp.sum(pixels[..., :-2] * own, -1) - pixels[..., -2]
        sums = pixels[..., -1]
        share = xp.where(sums > 0, share, 0)
        weight = corner.weight * share / xp.where(sums > 0, sums, 1)
        by_values = by_values + weight[..., None] * pixels[..., :-2]
        by_metric = by_metric + weight * product
        share = share / xp.where(sums < tiny, tiny, sums)  # a share does not overflow
        for axis, slope in enumerate(corner.slopes):
            by_positions[axis] = by_positions[axis] + slope * share * product
    gradients = [
        by_values,
        xp.zeros_like(metric) if options.hard else by_metric,
        xp.stack(by_positions, -1),
    ]
    pairs = zip(gradients, arrays[:3], needed[:3], strict=True)
    first = [as_type_of(backend, a, like) if need else None for a, like, need in pairs]
    return [*first, *no_gradients(backend, upstream, arrays[3:], options, needed[3:])]


def greatest_of(backend: Backend, arrays: Sequence[Array], options: SplatOptions) -> Array:
    """Return the greatest metric of the points around each pixel; -inf if there is none."""
    metric, positions = map(backend.detached, arrays)
    xp, pixels = backend.xp, math.prod(options.size)
    numbers, index, whole = [], [], backend.type("int64")
    for corner in corners_of(backend, metric, positions):
        # Floats hold the numbers along each axis exactly, but not those of all pixels.
        place, present = backend.astype(xp.zeros_like(metric), whole), corner.weight > 0
        stride = 1
        for axis, boundary in enumerate(options.padding_mode):
            n = options.size[-1 - axis]
            line = backend.line(n, None, metric.dtype, metric) + 1  # so that 0 means outside
            image = xp.broadcast_to(line, (metric.shape[0], 1, n))
            grid = corner.grid[..., axis : axis + 1]
            along = {"input": image, "grid": grid}
            request = Request("nearest", boundary, coords="pixel", threads=options.threads)
            number = sample(backend, along, request, None)[:, 0]
            present = present & (number > 0)
            place = place + backend.astype(number - 1, whole) * stride
            stride *= n
        index.append(xp.where(present, place, 0))
        numbers.append(xp.where(present, metric, -math.inf))
    joined = backend.concatenate(numbers, 1), backend.concatenate(index, 1)
    return backend.scatter_maximum(*joined, pixels)


def no_gradients(
    backend: Backend,
    upstream: Array,
    arrays: Sequence[Array],
    options: SplatOptions,
    needed: Sequence[bool],
) -> Sequence[Maybe]:
    """Return gradients of 0: the result, as a quotient, takes care of all derivatives."""
    pairs = zip(arrays, needed, strict=True)
    return [backend.xp.zeros_like(array) if need else None for array, need in pairs]


def always(options: Any) -> bool:
    """Whether there is a program for some options: for all."""
    return True


MAXIMUM = declare(
    Operator(
        name="splat_maximum",
        arrays={"metric": "n p", "positions": "n p d"},
        result="n q",
        sums=("metric", "positions"),
        whole=("p", "d", "q"),
        options=SplatOptions,
        is_fused=always,
        composed=greatest_of,
        composed_vjp=no_gradients,
        lengths=SplatOptions.lengths,
    )
)
TOTAL = declare(
    Operator(
        name="splat_total",
        arrays={"metric": "n p", "positions": "n p d", "greatest": "n q"},
        result="n q",
        sums=("metric", "positions", "greatest"),
        whole=("p", "d", "q"),
        options=SplatOptions,
        is_fused=always,
        composed=total_of,
        composed_vjp=no_gradients,
    )
)
SPLAT = declare(
    Operator(
        name="softmax_splat",
        arrays={
            "values": "n p c", "metric": "n p", "positions": "n p d", "greatest": "n q",
            "total": "n q",
        },
        result="n q c",
        sums=("greatest", "total"),
        whole=("p", "c", "d", "q"),
        options=SplatOptions,
        is_fused=always,
        composed=composed,
        composed_vjp=composed_vjp,
        reads_result=True,
    )
)  # fmt: skip
