"""One sample, tap by tap: all numbers that a kernel computes for one point.

`explain` uses the functions of `gridsample.definitions.axis` and the tables of methods, from which
the kernels are made, and stores every step in an `Explanation`.  `gridsample.explanation.table`
prints it, with numbers inserted into the formulas, and `gridsample.explanation.plot` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.checks import as_array, check_constant
from gridsample.definitions.coords import Extrapolate, require_boundary
from gridsample.definitions.footprints import MAX_SAMPLES
from gridsample.definitions.knots import require_name
from gridsample.definitions.labels import has_labels
from gridsample.definitions.methods import Method, Mode, Padding
from gridsample.definitions.options import checked, plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import MAX_RANK, as_whole, axis_name
from gridsample.explanation.explanation import Explanation
from gridsample.explanation.records import AxisSteps, AxisTap, Reader, Tap, corners, read, winner
from gridsample.explanation.table import MAX_FOLDS_SHOWN
from gridsample.ops.filtering import spline_filter

Array = np.ndarray[Any, Any]


def explain(
    size: Sequence[int],
    at: Sequence[float],
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    index: Sequence[int] | None = None,
    fill_value: float = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    image: ArrayT | None = None,
    sides: Sequence[Sequence[float]] | None = None,
) -> Explanation:
    """Sample one point and keep every step: position, folds, taps, weights, value and gradient.

    The steps and numbers are those of `gridsample.grid_sample` and its gradient in float64.  For
    splines, they include the coefficients.

    Args:
        size: the image's size in x, y, z order: (W,), (W, H) or (W, H, D), each at least 1.
        at: the coordinate along each axis, in the same order; NaN and infinity are accepted.
        index: the index of the output pixel, in x, y, z order, to which coords="displacement" is
            relative; None for the first pixel.
        fill_value: the value outside, a number.
        mode, padding_mode, align_corners, coords, extrapolate, prefilter: as in `grid_sample`.
        image: the image, (W,), (H, W) or (D, H, W); bool, any integer dtype or floating-point,
            converted to float64.  If it is None, the pixels are numbered 0, 1, 2, ... row by row:
            the value increases by 1 per pixel to the right and by W per pixel down.
        sides: the sides of the point's footprint, for antialias=True: a vector (x, y, z) in units
            of coordinates for each of the output's axes, no longer than 16 pixels.

    Returns:
        An `Explanation`.

    Raises:
        TypeError: the type of an argument is not accepted.
        ValueError: arguments do not match, or a name is unknown or ambiguous.

    Example:
        >>> import gridsample
        >>> point = gridsample.explain((4, 4), (-1.5, 0.25), padding_mode="reflection")
        >>> x, y = point.axes
        >>> x.position, x.sampled, x.slope  # beyond the mirror at -0.5, therefore mirrored
        (-1.5, 0.5, -2.0)
        >>> [(tap.pixel, tap.weight, tap.value) for tap in point.taps]
        [((0, 2), 0.5, 8.0), ((1, 2), 0.5, 9.0), ((0, 3), 0.0, 12.0), ((1, 3), 0.0, 13.0)]
        >>> point.value, point.gradient
        (8.5, (-2.0, 8.0))
        >>> spline = gridsample.explain((5,), (0,), "spline3", image=[0, 0, 1, 0, 0])
        >>> round(spline.coefficients((2,)), 3), round(spline.value, 12)
        (1.731, 1.0)
        >>> wide = gridsample.explain((9,), (4,), coords="pixel", image=range(9), sides=[(2.4,)])
        >>> [round(sample.value, 6) for sample in wide.samples], round(wide.mean, 6)
        ([3.2, 4.0, 4.8], 4.0)
    """
    sizes = _check_size(size)
    coordinates = _check_coordinates(at, sizes)
    rank, real = len(sizes), np.dtype(np.float64)
    votes = has_labels(mode)
    dtype = np.dtype(np.int64) if image is None else as_array(image, "image").dtype
    request = Request(
        mode, padding_mode, align_corners, coords, extrapolate=extrapolate, prefilter=prefilter
    )
    shape, grid = (1, 1, *sizes[::-1]), (1, *(1,) * rank, rank)
    resolved = checked(request, shape, grid)
    plan = plan_of(shape, dtype if votes else real, grid, real, resolved)
    call = ExplainedCall(
        plan,
        _check_index(index, plan),
        _check_fill(fill_value, plan),
        tuple(method.prefilter if prefilter else 0 for method in plan.methods),
        None if image is None else _check_image(image, sizes),
    )
    explanation = explain_point(call, coordinates)
    if sides is None:
        return explanation
    explanation = replace(explanation, sides=_check_sides(sides, explanation))
    points = _sample_coordinates(explanation)
    return replace(explanation, samples=tuple(explain_point(call, point) for point in points))


class ExplainedCall(NamedTuple):
    """The checked arguments of `explain`, except for the point.

    Attributes:
        plan: the plan of sampling a point.
        output_index: the index of the output pixel, in x, y, z order.
        fill: the fill value.
        orders: the order of the spline prefilter along each axis, or 0.
        pixels: the image in float64; None for numbered pixels.
    """

    plan: Plan
    output_index: tuple[int, ...]
    fill: float
    orders: tuple[int, ...]
    pixels: Array | None


def explain_point(call: ExplainedCall, at: Sequence[float]) -> Explanation:
    """Explain the sample at a coordinate."""
    plan = call.plan
    with np.errstate(all="ignore"):  # a distant coordinate may overflow, as in a kernel
        points = zip(at, call.output_index, strict=True)
        axes = tuple(follow(plan, a, *point) for a, point in enumerate(points))
        none = (0.0,) * len(axes)
        outcome = (), math.nan, none, none
        explanation = Explanation(axes, *outcome, call.pixels, call.fill, plan.filled, call.orders)
        if explanation.nowhere:
            return replace(explanation, value=call.fill) if plan.votes else explanation
        if explanation.outside:
            return replace(explanation, value=call.fill)
        if max(call.orders) > 1:
            coefficients = _find_coefficients(plan, call.pixels, call.orders, call.fill)
            explanation = replace(explanation, coefficients=coefficients)
        return _with_results(explanation)


def _sample_coordinates(explanation: Explanation) -> Iterator[tuple[float, ...]]:
    """Yield the coordinates of the samples of a footprint: see `gridsample.grid_sample`."""
    at = [steps.coordinate for steps in explanation.axes]
    for indices in product(*map(range, explanation.counts)):
        shares = [(j + 0.5) / n - 0.5 for j, n in zip(indices, explanation.counts, strict=True)]
        yield tuple(
            x + sum(share * side[a] for share, side in zip(shares, explanation.sides, strict=True))
            for a, x in enumerate(at)
        )


# ---- the steps ----------------------------------------------------------------------------------


def follow(plan: Plan, a: int, coordinate: float, index: int = 0) -> AxisSteps:
    """Follow a coordinate to the taps of axis ``a``, as a kernel does."""
    method, name, aligned = plan.methods[a], plan.boundaries[a], plan.align_corners
    boundary, size, edge = BOUNDARIES[name].code, plan.spatial[::-1][a], plan.edges[a]
    last, reach = size - 1.0, method.taps + 1
    position, coords = coordinate, require_name(plan.coords, "explain")
    require_boundary(plan.ends, "explain")
    if coords == "normalized":
        position = float(axis.position(coordinate, last, aligned))
    elif coords == "displacement":
        position = coordinate + index
    start = AxisSteps(
        axis_name(a),
        size,
        method,
        name,
        aligned,
        coordinate,
        (position,),
        coords=coords,
        index=index,
    )
    margin = plan.margins[a]
    if margin is not None and not math.isnan(position):
        start = replace(start, outside=not axis.inside(position, last, margin))
    if start.outside or not axis.known(position, boundary):
        return start

    mirrors = None
    if plan.folds[a]:
        end, sign = axis.fold(position, last, reach, boundary, edge)
        mirrors = corners(size, aligned) if boundary == axis.REFLECTION else None
        boundary = axis.ZEROS  # a tap that is still outside is dropped
    else:
        end, sign = axis.confine(position, last, reach, boundary, edge), 1
    path, folds = trace(position, float(end), mirrors)
    base = int(axis.split(path[-1], method.rounding)[0])
    odd = BOUNDARIES[name].odd
    taps = weigh(method, base, path[-1] - base, size, boundary, edge, odd)
    return replace(start, path=path, folds=folds, sign=int(sign), base=base, taps=taps)


def trace(
    position: float, end: float, mirrors: tuple[float, float] | None
) -> tuple[tuple[float, ...], int]:
    """Compute the positions on the path of a position to its end, and the number of folds.

    The position is mirrored about the mirror that it is beyond, until it is between the two.

    >>> trace(-5.75, 2.25, (-0.5, 3.5))
    ((-5.75, 4.75, 2.25), 2)
    >>> trace(3.25, 3.0, (-0.5, 3.5))
    ((3.25, 3.0), 0)
    """
    path, folds = [position], 0
    if mirrors is not None and mirrors[0] < mirrors[1]:
        low, high = mirrors
        folds = math.ceil(max(low - position, position - high, 0.0) / (high - low))
        for _ in range(folds if folds <= MAX_FOLDS_SHOWN else 0):
            path.append(2 * (low if path[-1] < low else high) - path[-1])
    if len(path) > 1 and math.isclose(path[-1], end, rel_tol=0, abs_tol=1e-6):
        path.pop()  # the same position up to the rounding of each fold
    if path[-1] != end:
        path.append(end)
    return tuple(path), folds


def weigh(
    method: Method, base: int, t: float, size: int, boundary: int, edge: int, odd: bool
) -> tuple[AxisTap, ...]:
    """Compute the taps of one axis, from base index + first on; weights include a fold's sign."""
    taps = []
    for k, (row, slopes) in enumerate(zip(method.table, method.derivative(1), strict=True)):
        index = base + method.first + k
        pixel = int(axis.fold_index(index, size, boundary, edge))
        sign = float(axis.fold_sign(index, size, boundary, edge)) if odd else 1.0
        weight, derivative = (sign * float(axis.weight(t, c, method.powers)) for c in (row, slopes))
        taps.append(AxisTap(index, None if pixel == axis.DROPPED else pixel, weight, derivative))
    return tuple(taps)


def _find_coefficients(
    plan: Plan, image: Array | None, orders: Sequence[int], fill: float
) -> Reader:
    """Return a function of x, y, z that returns the coefficient of the pixel there."""
    rank = len(plan.spatial)
    names = plan.boundaries
    size = plan.spatial[::-1]

    def filtered(values: Array, axes: Sequence[int]) -> Array:
        """Apply the prefilters of some axes to an image, or to a line of one axis."""
        for order in sorted({orders[a] for a in axes} - {0, 1}):
            axes_of_order = [a for a in axes if orders[a] == order]
            boundaries: list[Any] = [names[a] for a in axes_of_order]
            values = spline_filter(
                values,
                order,
                boundaries,
                [rank - 1 - a if values.ndim == rank else 0 for a in axes_of_order],
                align_corners=plan.align_corners,
            )
        return values

    # The weights of the dropped taps of each pixel; see `gridsample.ops.arrays.add_fill`.
    shares = {
        a: filtered(_dropped_weights(plan.methods[a], n), [a])
        for a, n in enumerate(size)
        if fill and math.isfinite(fill) and orders[a] > 1 and BOUNDARIES[names[a]].filled
    }
    if image is not None:
        read_inside = partial(read, filtered(image, range(rank)), size)
    else:
        # Numbered pixels are a sum of ramps, one along each axis, and filters are linear.
        lines = []
        for a, n in enumerate(size):
            ramp = np.arange(n) * float(math.prod(size[:a]))
            lines.append((filtered(np.ones(n), [a]), filtered(ramp, [a])))
        read_inside = partial(_read_ramps, tuple(lines))
    return partial(_read_filled, read_inside, shares, fill) if shares else read_inside


def _read_filled(
    read_inside: Reader, shares: Mapping[int, Array], fill: float, pixel: Sequence[int]
) -> float:
    """Return the coefficient at x, y, z, given those for the fill value 0."""
    total = 0.0
    for a, line in shares.items():
        total += float(line[pixel[a]]) * (1 + total)
    return read_inside(pixel) - fill * total


def _dropped_weights(method: Method, n: int) -> Array:
    """Return the sum of the weights of the taps outside a line, at the centre of each pixel."""
    pixels, total = np.arange(n), np.zeros(n)
    for k, row in enumerate(method.table, start=method.first):
        total += np.where((pixels + k >= 0) & (pixels + k < n), 0.0, row[0])
    return total


def _read_ramps(lines: Sequence[tuple[Array, Array]], pixel: Sequence[int]) -> float:
    """Return the coefficient at x, y, z of a sum of ramps, given filtered ones and ramps."""
    total = 0.0
    for a in range(len(lines)):
        along = [line[int(a == b)][i] for b, (line, i) in enumerate(zip(lines, pixel, strict=True))]
        total += math.prod(map(float, along))
    return total


def _with_results(explanation: Explanation) -> Explanation:
    """Multiply the taps of the axes, and compute the value and the gradient."""
    taps, outside = [], explanation.fill if explanation.filled else 0.0
    for slowest_first in product(*(steps.taps for steps in reversed(explanation.axes))):
        along = slowest_first[::-1]
        tap = Tap(along, math.prod(tap.weight for tap in along), outside)
        if tap.pixel is not None:
            tap = replace(tap, value=explanation.weighed(tap.pixel))
        taps.append(tap)
    per_pixel = [
        _per_pixel(taps, a) if steps.method.powers > 1 and not explanation.votes else 0.0
        for a, steps in enumerate(explanation.axes)
    ]
    explanation = replace(explanation, taps=tuple(taps))
    votes = explanation.votes
    value = winner(explanation.ballots()) if votes else sum(tap.product for tap in taps)
    pairs = zip(explanation.axes, per_pixel, strict=True)
    gradient = tuple(steps.slope * derivative for steps, derivative in pairs)
    return replace(explanation, value=value, per_pixel=tuple(per_pixel), gradient=gradient)


def _per_pixel(taps: Iterable[Tap], a: int) -> float:
    """Sum the taps with the weights of axis ``a`` differentiated."""
    total = 0.0
    for tap in taps:
        if tap.pixel is not None or tap.value:
            factors = [along.weight for along in tap.along]
            factors[a] = tap.along[a].derivative
            total += math.prod(factors) * tap.value
    return total


# ---- arguments ----------------------------------------------------------------------------------


def _check_size(size: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(size)
    except TypeError:
        sizes = (None,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in sizes):
        raise TypeError(f"size must be integers, (W,), (W, H), (W, H, D), ..., got {size!r}")
    if not 1 <= len(sizes) <= MAX_RANK or min(sizes) < 1:
        raise ValueError(
            f"size must be (W,), (W, H), (W, H, D), ..., with 1 to {MAX_RANK} numbers, each at "
            f"least 1, got {size!r}"
        )
    return tuple(int(n) for n in sizes)


def _check_coordinates(at: Any, size: tuple[int, ...]) -> tuple[float, ...]:
    try:
        coordinates = tuple(float(coordinate) for coordinate in at)
    except (TypeError, ValueError):
        raise TypeError(f"at must be one number for each axis, x first, got {at!r}") from None
    if len(coordinates) != len(size):
        raise ValueError(
            f"at must have a coordinate for each axis of size {size}, {len(size)} in all, "
            f"got {len(coordinates)}: {coordinates}"
        )
    return coordinates


def _check_sides(sides: Any, explanation: Explanation) -> tuple[tuple[float, ...], ...]:
    """Return the sides of a footprint, or raise an error if they are not what is needed."""
    rank = len(explanation.axes)
    try:
        vectors = tuple(tuple(float(x) for x in side) for side in sides)
    except TypeError:
        raise TypeError(f"sides must be vectors of numbers, got {sides!r}") from None
    if len(vectors) != rank or any(len(side) != rank for side in vectors):
        raise ValueError(
            f"sides must be {rank} vectors of {rank} numbers each, for size {explanation.size}, "
            f"got {sides!r}"
        )
    if not all(math.isfinite(x) for side in vectors for x in side):
        raise ValueError(f"sides must be finite, got {sides!r}")
    counts = replace(explanation, sides=vectors).counts
    if max(counts) > MAX_SAMPLES:
        raise ValueError(f"sides must be at most {MAX_SAMPLES} pixels long, got {sides!r}")
    return vectors


def _check_index(index: Any, plan: Plan) -> tuple[int, ...]:
    rank = len(plan.spatial)
    if index is None:
        return (0,) * rank
    if plan.coords != "displacement":
        raise ValueError(
            f"index is the origin of a displacement; accepted with coords='displacement', "
            f"got index {index!r} and coords {plan.coords!r}"
        )
    try:
        output_index = tuple(as_whole(n) for n in index)
    except TypeError:
        raise TypeError(
            f"index must be one integer for each axis, x first, got {index!r}"
        ) from None
    if len(output_index) != rank:
        raise ValueError(f"index must have one entry for each of {rank} axes, got {output_index}")
    return output_index


def _check_fill(fill_value: Any, plan: Plan) -> float:
    check_constant(fill_value=fill_value)
    if isinstance(fill_value, (complex, str)) or not hasattr(fill_value, "__float__"):
        raise TypeError(f"fill_value must be a real number, got {fill_value!r}")
    fill = float(fill_value)
    if fill and plan.extrapolate and not plan.filled:
        raise ValueError(
            f"fill_value {fill_value!r} has no effect here; accepted with padding_mode "
            f"'constant' or extrapolate=False, got padding_mode {plan.boundaries!r}"
        )
    return fill


def _check_image(image: Any, size: tuple[int, ...]) -> Array:
    array = as_array(image, "image")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"image has dtype {array.dtype}; accepted: bool, integers, floating point")
    if array.shape != size[::-1]:
        raise ValueError(f"image must have shape {size[::-1]} for size {size}, got {array.shape}")
    pixels = array.astype(np.float64)
    pixels.flags.writeable = False
    return pixels
