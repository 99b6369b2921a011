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
from gridsample.definitions.checks import check_flag, check_threads
from gridsample.definitions.methods import Padding, per_axis
from gridsample.definitions.names import SplatName
from gridsample.definitions.operators import Operator, SplatOptions, check_types, declare
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.messages.links import unknown_name
from gridsample.operators.sums import arrays_of, planes_of, shaped
from gridsample.ops.arrays import Array, as_type_of, sum_type
from gridsample.ops.sampling import sample, sample_vjp
from gridsample.ops.splatting import scatter_values

Maybe = Array | None
# How the values of a pixel are combined; those that need a metric come last.
MODES = ("sum", "average", "linear", "soft", "maximum")
# Those whose weights are relative to the greatest metric of a pixel.
RELATIVE = MODES[3:]
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
    arrays = {"input": input, "flow": flow, "metric": metric}
    backend, call = checked_call(arrays, mode, padding_mode, threads)
    splat = splat_exponentials if mode in RELATIVE else splat_products
    result = backend.astype(splat(backend, call), call.types["input"])
    return backend.restore(result, input)


@overridable(arrays=4)
def softmax_splat_vjp(
    grad_output: ArrayT,
    input: ArrayT,
    flow: ArrayT,
    metric: ArrayT | None = None,
    mode: SplatName = "soft",
    padding_mode: Padding = "zeros",
    *,
    need_input: bool = True,
    need_flow: bool = True,
    need_metric: bool = True,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute the gradients of `softmax_splat`.

    Args:
        grad_output: the upstream gradient, (N, C, *size).
        input, flow, metric, mode, padding_mode: as in `softmax_splat`.
        need_input: whether the gradient of the input is needed.
        need_flow: whether that of the flow is.
        need_metric: whether that of the metric is, if there is one.
        threads: the maximum number of threads; None for the default.

    Returns:
        The gradients of the input, the flow and the metric, in their shapes and dtypes; None in
        place of those that are not needed, and of a metric that is not given.  With "maximum", that
        of the metric is 0.  A pixel that contributes nothing has gradients of 0.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, a name is unknown, or the metric is missing or not used.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import softmax_splat_vjp
        >>> image, flow = np.array([[[8.0, 4.0]]]), np.array([[[0.75, 0.25]]])
        >>> metric, upstream = np.zeros((1, 1, 2)), np.array([[[0.0, 1.0]]])
        >>> gradients = softmax_splat_vjp(upstream, image, flow, metric)
        >>> [gradient.ravel().tolist() for gradient in gradients]
        [[0.5, 0.5], [1.3333333333333333, 1.3333333333333333], [1.0, -1.0]]
    """
    flags = {"need_input": need_input, "need_flow": need_flow, "need_metric": need_metric}
    needed = [check_flag(flag, name) for name, flag in flags.items()]
    arrays = {"input": input, "flow": flow, "metric": metric, "grad_output": grad_output}
    backend, call = checked_call(arrays, mode, padding_mode, threads)
    needed[2] = needed[2] and metric is not None
    differentiate = exponentials_vjp if mode in RELATIVE else products_vjp
    gradients = differentiate(backend, call, needed)
    types = [call.types.get(name) for name in ("input", "flow", "metric")]
    results = zip(gradients, types, needed, strict=True)
    return tuple(
        [
            backend.restore(backend.astype(gradient, dtype), input) if need else None
            for gradient, dtype, need in results
        ]
    )


class SplatCall(NamedTuple):
    """A checked call.

    Attributes:
        arrays: the arrays by name, in the dtype of sums.
        types: their own dtypes by name.
        mode: how values are combined.
        request: how an image is sampled at the new positions of pixels.
    """

    arrays: dict[str, Array]
    types: dict[str, Any]
    mode: str
    request: Request

    def shape(self) -> Shape:
        """Return the number of items, and the spatial shape."""
        items, _, *size = self.arrays["input"].shape
        return items, *size

    def size(self) -> Shape:
        """Return the spatial shape."""
        return self.shape()[1:]

    def options(self) -> SplatOptions:
        """Return the options of the operators."""
        boundaries: Any = self.request.padding_mode
        return SplatOptions(self.size(), boundaries, self.mode == "maximum", self.request.threads)


def checked_call(
    arrays: dict[str, Any], mode: Any, padding_mode: Any, threads: int | None
) -> tuple[Backend, SplatCall]:
    """Check a call, given its arrays by name, of which the metric may be None.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, a name is unknown, or the metric is missing or not used.
    """
    check_mode(mode)
    check_threads(threads)
    has_metric = arrays["metric"] is not None
    if has_metric != (mode not in MODES[:2]):
        raise ValueError(
            f'mode "{mode}" {"has no" if has_metric else "needs a"} metric; those that '
            f"have one: {', '.join(MODES[2:])}"
        )
    named = {name: array for name, array in arrays.items() if array is not None}
    backend, given = arrays_of(named)
    known = dict(zip(named, given, strict=True))
    check_types(**{k: backend.type_name(array.dtype, k) for k, array in known.items()})
    size = check_shapes({name: backend.shape(array) for name, array in known.items()})
    boundaries = check_boundaries(per_axis(padding_mode, len(size), "padding_mode"))
    if any([BOUNDARIES[name].odd for name in boundaries]):
        raise ValueError(f"padding_mode {padding_mode!r} changes the signs of pixels")
    types = {name: array.dtype for name, array in known.items()}
    real = sum_type(backend, *[array for name, array in known.items() if name != "grad_output"])
    wide = {name: backend.astype(array, real) for name, array in known.items()}
    request = Request("bilinear", boundaries, coords="pixel", threads=threads)
    return backend, SplatCall(wide, types, mode, request)


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
    for name, channels in (("flow", rank), ("metric", 1), ("grad_output", image[1])):
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


class Products(NamedTuple):
    """Values times weights that do not depend on the target.

    Attributes:
        image: (N, C, *size); 0 where pixels with a metric do not count.
        values: the image times the metric, and the metric, (N, C + 1, *size); for sums, the image
            alone.
        metric: (N, 1, *size); None for sums, which have no weights.
        grid: the new positions, (N, *size, D); NaN where pixels do not count.
        counts: which pixels count, (N, *size).
    """

    image: Array
    values: Array
    metric: Maybe
    grid: Array
    counts: Array

    def scattered(self, backend: Backend, call: SplatCall) -> Array:
        """Return the sums of the values, (N, C or C + 1, *size)."""
        inputs = {"values": self.values, "grid": self.grid}
        sums: Array = scatter_values(backend, inputs, call.size(), call.request, False, None)
        return sums


def products_of(backend: Backend, call: SplatCall) -> Products:
    """Multiply the values of a call by their weights."""
    xp, image = backend.xp, call.arrays["input"]
    grid = moved_pixels(backend, call.arrays["flow"])
    conditions = [xp.isfinite(places) for places in unstacked(grid)]
    metric = call.arrays.get("metric")
    if metric is not None:
        conditions.append((metric == metric)[:, 0])
    counts = functools.reduce(operator.and_, conditions)
    # Values without a position are left out, also those that are not finite.
    grid = xp.where(counts[..., None], grid, math.nan)
    if metric is not None:
        image, metric = (xp.where(counts[:, None], array, 0) for array in (image, metric))
    elif call.mode == "average":
        metric = backend.full((image.shape[0], 1, *call.size()), 1, image.dtype, image)
    values = image if metric is None else backend.concatenate([image * metric, metric], 1)
    return Products(image, values, metric, grid, counts)


def splat_products(backend: Backend, call: SplatCall) -> Array:
    """Splat values times weights that do not depend on the target."""
    products = products_of(backend, call)
    sums = products.scattered(backend, call)
    return sums if products.metric is None else divided(backend, sums)


def products_vjp(backend: Backend, call: SplatCall, needed: Sequence[bool]) -> Sequence[Maybe]:
    """Compute the gradients of `splat_products` by sampling those of the sums."""
    xp, products = backend.xp, products_of(backend, call)
    pixels, counts = call.arrays["grad_output"], products.counts[:, None]
    if products.metric is not None:
        sums = products.scattered(backend, call)
        quotients = divided(backend, backend.concatenate([pixels, sums[:, -1:]], 1))
        by_total = xp.sum(quotients * divided(backend, sums), 1)[:, None] * -1
        pixels = backend.concatenate([quotients, by_total], 1)
    inputs = {"input": pixels, "grid": products.grid}
    by_flow: Maybe = None
    if needed[1]:
        flags = {"need_input": False, "need_grid": True}
        given = {"grad_output": products.values, **inputs}
        _, by_grid = sample_vjp(given, call.request, None, flags)
        rank = by_grid.shape[-1]
        by_grid = backend.permute(by_grid, (0, rank + 1, *range(1, rank + 1)))
        by_flow = xp.where(counts, by_grid, 0)
    if not needed[0] and not needed[2]:
        return None, by_flow, None
    samples = xp.where(counts, sample(backend, inputs, call.request, None), 0)
    if products.metric is None:
        return samples, by_flow, None
    by_metric = xp.sum(samples[:, :-1] * products.image, 1)[:, None] + samples[:, -1:]
    return samples[:, :-1] * products.metric, by_flow, by_metric


def unstacked(grid: Array) -> list[Array]:
    """Return the coordinates along each axis."""
    return [grid[..., axis] for axis in range(grid.shape[-1])]


def divided(backend: Backend, sums: Array) -> Array:
    """Divide sums (N, C + 1, ...) by the last of them, where that is not 0."""
    total = sums[:, -1:]
    is_empty = total == 0
    return backend.xp.where(is_empty, 0, sums[:, :-1]) / backend.xp.where(is_empty, 1, total)


def listed_pixels(backend: Backend, array: Array) -> Array:
    """Return the pixels of an array (N, C, *size), one after the other: (N, P, C)."""
    items, channels, *size = array.shape
    axes = 0, *range(2, len(size) + 2), 1
    return shaped(backend, array, axes, (items, math.prod(size), channels))


def splat_arrays(backend: Backend, call: SplatCall) -> list[Array]:
    """Return the arrays of the operator `SPLAT`."""
    arrays, options = call.arrays, call.options()
    (items, _, *size), rank = arrays["input"].shape, len(options.size)
    moved = moved_pixels(backend, arrays["flow"])
    positions = backend.xp.reshape(moved, (items, math.prod(size), rank))
    metric = backend.xp.reshape(arrays["metric"], (items, math.prod(size)))
    # As constants: the result, as a quotient, takes care of all derivatives.
    points = [backend.detached(metric), backend.detached(positions)]
    points.append(backend.fused(MAXIMUM, points, options))
    points.append(backend.fused(TOTAL, points, options))
    return [listed_pixels(backend, arrays["input"]), metric, positions, *points[2:]]


def splat_exponentials(backend: Backend, call: SplatCall) -> Array:
    """Splat values with weights that depend on the greatest metric of the target."""
    result = backend.fused(SPLAT, splat_arrays(backend, call), call.options())
    return planes_of(backend, result, call.shape())


def exponentials_vjp(backend: Backend, call: SplatCall, needed: Sequence[bool]) -> Sequence[Maybe]:
    """Compute the needed gradients of `splat_exponentials`."""
    by_input, by_flow, by_metric = needed
    upstream, arrays = (
        listed_pixels(backend, call.arrays["grad_output"]),
        splat_arrays(backend, call),
    )
    flags = by_input, by_metric, by_flow, False, False
    values, metric, positions, *_ = backend.fused_vjp(
        SPLAT, upstream, arrays, call.options(), flags
    )
    if metric is not None:
        metric = metric[..., None]
    return [
        None if gradient is None else planes_of(backend, gradient, call.shape())
        for gradient in (values, positions, metric)
    ]


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
