"""One sample, tap by tap: all numbers that a kernel computes for one point.

`explain` uses the functions of `gridsample.definitions.axis` and the tables of methods, from which
the kernels are made, and stores every step in an `Explanation`.  `gridsample.explanation.table`
prints it, with numbers inserted into the formulas, and `gridsample.explanation.plot` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.checks import as_array, check_constant
from gridsample.definitions.labels import has_labels
from gridsample.definitions.methods import Method
from gridsample.definitions.plan import (
    AXES,
    BOUNDARIES,
    Mode,
    Plan,
    as_whole,
    check_flag,
    hashable,
    make_plan,
)
from gridsample.ops.filtering import spline_filter

Array = np.ndarray[Any, Any]

# More folds than this are shown as one step.
FEW_FOLDS = 4


@dataclass(frozen=True)
class AxisTap:
    """One tap along one axis.

    Attributes:
        index: the index of the tap, which may be outside the image.
        pixel: the index of the pixel that it reads, after the fold; None if it is dropped.
        weight: its weight at the fraction t.
        derivative: d weight / dt.
    """

    index: int
    pixel: int | None
    weight: float
    derivative: float


@dataclass(frozen=True)
class AxisSteps:
    """The steps from one coordinate to the taps of its axis.

    Attributes:
        name: "x", "y" or "z".
        size: the number of pixels along the axis.
        method: the interpolation method.
        boundary: the name of the boundary.
        align_corners: the meaning of -1 and 1.
        coordinate: the coordinate as given.
        path: the position in pixels (pixel i has its centre at i), followed by the positions after
            each fold, clamp, or shift that does not change the taps' pixels.  More than four folds
            are combined into one step.
        folds: how often the position is mirrored along the path.
        sign: 1; -1 after an odd number of folds; 0 at and beyond a clamp, and if the coordinate is
            nowhere.
        base: the base index: the end of the path, rounded down, or to nearest if the method rounds.
        taps: one per row of the method's table; none if the coordinate is nowhere or outside.
        coords: the units of the coordinate: "normalized", "pixel" or "displacement".
        index: the index of the output pixel along the axis, to which a displacement is added.
        outside: whether the position is outside the image and the call does not extrapolate.
    """

    name: str
    size: int
    method: Method
    boundary: str
    align_corners: bool
    coordinate: float
    path: tuple[float, ...]
    folds: int = 0
    sign: int = 0
    base: int = 0
    taps: tuple[AxisTap, ...] = ()
    coords: str = "normalized"
    index: int = 0
    outside: bool = False

    @property
    def nowhere(self) -> bool:
        """Whether the coordinate has no valid position: NaN, or infinite if the image repeats."""
        return not self.taps and not self.outside

    @property
    def position(self) -> float:
        """The position of the coordinate, in pixels."""
        return self.path[0]

    @property
    def sampled(self) -> float:
        """The position that is sampled, at the end of the path."""
        return self.path[-1]

    @property
    def t(self) -> float:
        """The fraction: the sampled position minus the base index."""
        return self.sampled - self.base

    @property
    def scale(self) -> float:
        """Pixels per unit of coordinate."""
        if self.coords == "normalized":
            return float(axis.slope(self.size - 1.0, self.align_corners))
        return 1.0

    @property
    def slope(self) -> float:
        """The derivative of the sampled position: pixels per unit of coordinate, times the sign."""
        return self.sign * self.scale

    @property
    def corners(self) -> tuple[float, float]:
        """The positions of the coordinates -1 and 1, which are the mirrors of "reflection"."""
        return corners(self.size, self.align_corners)


@dataclass(frozen=True)
class Tap:
    """One tap of the point: the product of one tap per axis.

    Attributes:
        along: the taps of the axes, in x, y, z order.
        weight: the product of their weights.
        value: the value that is multiplied by the weight: that of the pixel, or its coefficient.
            For a dropped tap, it is the fill value if the boundary has one, otherwise 0.
    """

    along: tuple[AxisTap, ...]
    weight: float
    value: float

    @property
    def pixel(self) -> tuple[int, ...] | None:
        """The pixel that it reads, in x, y, z order; None if it is dropped."""
        pixel = tuple(tap.pixel for tap in self.along if tap.pixel is not None)
        return pixel if len(pixel) == len(self.along) else None

    @property
    def product(self) -> float:
        """Its contribution to the sample, weight * value; 0 for a dropped tap without a fill."""
        return 0.0 if self.pixel is None and not self.value else self.weight * self.value


Reader = Callable[[Sequence[int]], float]


@dataclass(frozen=True)
class Explanation:
    """One sample and all steps that lead to it; ``print`` shows a table.

    Attributes:
        axes: the steps along each axis, in x, y, z order.
        taps: the taps of the point, x fastest; none if a coordinate is nowhere or outside.
        value: the sum of the taps' products, or the winner of their vote (mode "label"); NaN if a
            coordinate is nowhere (the fill value for labels), and the fill value if one is outside.
        per_pixel: d value / d sampled position, for each axis.
        gradient: d value / d coordinate, for each axis: the slope times ``per_pixel``.
        image: the sampled image, with axes in the array's order (z, y, x); None for numbered
            pixels.
        fill: the fill value.
        filled: whether dropped taps have the fill value.
        prefilters: the order of the spline prefilter along each axis, or 0.
        coefficients: a function that returns the coefficient of the pixel at x, y, z; None if
            there is no prefilter.
    """

    axes: tuple[AxisSteps, ...]
    taps: tuple[Tap, ...]
    value: float
    per_pixel: tuple[float, ...]
    gradient: tuple[float, ...]
    image: Array | None = field(default=None, repr=False, compare=False)
    fill: float = 0.0
    filled: bool = False
    prefilters: tuple[int, ...] = ()
    coefficients: Reader | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> tuple[int, ...]:
        """The image's size, in x, y, z order."""
        return tuple(steps.size for steps in self.axes)

    @property
    def nowhere(self) -> str:
        """The names of the axes whose coordinate is nowhere; if there are any, the value is NaN."""
        return " and ".join(steps.name for steps in self.axes if steps.nowhere)

    @property
    def outside(self) -> str:
        """The names of the axes along which the point is outside, so it has the fill value."""
        return " and ".join(steps.name for steps in self.axes if steps.outside)

    def read(self, pixel: Sequence[int]) -> float:
        """The value of the pixel at x, y, z."""
        return read(self.image, self.size, pixel)

    def weighed(self, pixel: Sequence[int]) -> float:
        """The value that taps at x, y, z weigh: the coefficient, or the pixel's value."""
        return self.read(pixel) if self.coefficients is None else self.coefficients(pixel)

    def __str__(self) -> str:
        """Format a table of the axes, the taps and the results.

        It has less than 100 columns unless the image has a billion pixels.
        """
        from gridsample.explanation.table import page

        return "\n".join(line.rstrip() for line in page(self))

    def _repr_html_(self) -> str:
        """Show tables, and in 1-D and 2-D a drawing, in a notebook."""
        from gridsample.explanation.notebook import as_html

        return as_html(self)


def explain(
    size: Sequence[int],
    at: Sequence[float],
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    index: Sequence[int] | None = None,
    fill_value: float = 0,
    extrapolate: bool = True,
    prefilter: bool = True,
    image: Any = None,
) -> Explanation:
    """Sample one point and keep every step: position, folds, taps, weights, value and gradient.

    The steps and numbers are those of `gridsample.grid_sample` and its gradient in float64.  For
    splines, they include the coefficients.

    Args:
        size: the image's size in x, y, z order: (W,), (W, H) or (W, H, D), each at least 1.
        at: the coordinate along each axis, in the same order; NaN and infinity are accepted.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of coordinates, as in `grid_sample`.
        index: the index of the output pixel, in x, y, z order, to which coords="displacement" is
            relative; None for the first pixel.
        fill_value: the value outside, a number.
        extrapolate: whether to extend the image, as in `grid_sample`.
        prefilter: whether to prefilter splines, as in `grid_sample`.
        image: the image, (W,), (H, W) or (D, H, W); bool, any integer dtype or floating-point,
            converted to float64.  If it is None, the pixels are numbered 0, 1, 2, ... row by row:
            the value increases by 1 per pixel to the right and by W per pixel down.

    Returns:
        An `Explanation`.

    Raises:
        TypeError: the type of an argument is not accepted.
        ValueError: arguments do not match, or a name is unknown or ambiguous.

    Example:
        >>> import gridsample
        >>> one = gridsample.explain((4, 4), (-1.5, 0.25), padding_mode="reflection")
        >>> x, y = one.axes
        >>> x.position, x.sampled, x.slope  # beyond the mirror at -0.5, therefore mirrored
        (-1.5, 0.5, -2.0)
        >>> [(tap.pixel, tap.weight, tap.value) for tap in one.taps]
        [((0, 2), 0.5, 8.0), ((1, 2), 0.5, 9.0), ((0, 3), 0.0, 12.0), ((1, 3), 0.0, 13.0)]
        >>> one.value, one.gradient
        (8.5, (-2.0, 8.0))
        >>> spline = gridsample.explain((5,), (0,), "spline3", image=[0, 0, 1, 0, 0])
        >>> round(spline.coefficients((2,)), 3), round(spline.value, 12)
        (1.731, 1.0)
    """
    sizes, coordinates = _check_size(size), _check_coordinates(at)
    if len(coordinates) != len(sizes):
        raise ValueError(
            f"at must have a coordinate for each axis of size {sizes}, {len(sizes)} in all, "
            f"got {len(coordinates)}: {coordinates}"
        )
    real, ones = np.dtype(np.float64), (1,) * len(sizes)
    kind = real if image is None else as_array(image, "image").dtype
    if image is None and has_labels(mode):
        kind = np.dtype(np.int64)
    plan = make_plan(
        (1, 1, *sizes[::-1]),
        kind if has_labels(mode) else real,
        (1, *ones, len(sizes)),
        real,
        hashable(mode),
        hashable(padding_mode),
        align_corners,
        False,
        coords=coords,
        extrapolate=extrapolate,
    )
    places = _check_index(index, plan)
    fill = _check_fill(fill_value, plan)
    orders = tuple(method.prefilter if prefilter else 0 for method in plan.methods)
    check_flag(prefilter, "prefilter")
    pixels = None if image is None else _check_image(image, sizes)
    with np.errstate(all="ignore"):  # a distant coordinate may overflow, as in a kernel
        axes = tuple(
            follow(plan, a, *given) for a, given in enumerate(zip(coordinates, places, strict=True))
        )
        one = Explanation(
            axes, (), math.nan, (0.0,) * len(axes), (0.0,) * len(axes), pixels,
            fill, plan.filled, orders, None,
        )  # fmt: skip
        if one.nowhere:
            return replace(one, value=fill) if plan.votes else one
        if one.outside:
            return replace(one, value=fill)
        if max(orders) > 1:
            one = replace(one, coefficients=_find_coefficients(plan, pixels, orders, fill))
        return _add_up(one)


# ---- the steps ----------------------------------------------------------------------------------


def follow(plan: Plan, a: int, coordinate: float, index: int = 0) -> AxisSteps:
    """Follow a coordinate to the taps of axis ``a``, as a kernel does."""
    method, name, aligned = plan.methods[a], plan.boundaries[a], plan.align_corners
    boundary, size, edge = BOUNDARIES[name].code, plan.spatial[::-1][a], plan.edges[a]
    last, reach = size - 1.0, method.taps + 1
    position = coordinate
    if plan.coords == "normalized":
        position = float(axis.position(coordinate, last, aligned))
    elif plan.coords == "displacement":
        position = coordinate + index
    start = AxisSteps(
        AXES[a], size, method, name, aligned, coordinate, (position,),
        coords=plan.coords, index=index,
    )  # fmt: skip
    if not plan.extrapolate and not math.isnan(position):
        start = replace(start, outside=not axis.inside(position, last, plan.rim))
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


def corners(size: int, align_corners: bool) -> tuple[float, float]:
    """The positions of -1 and 1: the centres of the corner pixels, or their outer edges.

    >>> corners(4, align_corners=True), corners(4, align_corners=False)
    ((0.0, 3.0), (-0.5, 3.5))
    """
    low, high = (axis.position(x, size - 1.0, align_corners) for x in (-1.0, 1.0))
    return float(low), float(high)


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
        for _ in range(folds if folds <= FEW_FOLDS else 0):
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


def read(image: Array | None, size: Sequence[int], pixel: Sequence[int]) -> float:
    """Return the value of the pixel at x, y, z; without an image, the number of the pixel.

    >>> read(None, (4, 3), (2, 1))
    6.0
    """
    if image is not None:
        return float(image[tuple(reversed(pixel))])
    number = 0
    for n, i in zip(reversed(size), reversed(pixel), strict=True):
        number = number * n + i
    return float(number)


def _find_coefficients(
    plan: Plan, image: Array | None, orders: Sequence[int], fill: float
) -> Reader:
    """Return a function of x, y, z that returns the coefficient of the pixel there."""
    rank = len(plan.spatial)
    names = plan.boundaries
    size = plan.spatial[::-1]

    def filtered(given: Array, axes: Sequence[int]) -> Array:
        """Apply the prefilters of some axes to an image, or to a line of one axis."""
        for order in sorted({orders[a] for a in axes} - {0, 1}):
            these = [a for a in axes if orders[a] == order]
            given = spline_filter(
                given, order, [names[a] for a in these],
                [rank - 1 - a if given.ndim == rank else 0 for a in these],
                align_corners=plan.align_corners,
            )  # fmt: skip
        return given

    # The weights of the dropped taps of each pixel; see `gridsample.ops.arrays.add_fill`.
    shares = {
        a: filtered(_dropped(plan.methods[a], n), [a])
        for a, n in enumerate(size)
        if fill and math.isfinite(fill) and orders[a] > 1 and BOUNDARIES[names[a]].filled
    }
    if image is not None:
        within = partial(read, filtered(image, range(rank)), size)
    else:
        # Numbered pixels are a sum of ramps, one along each axis, and filters are linear.
        lines = []
        for a, n in enumerate(size):
            ramp = np.arange(n) * float(math.prod(size[:a]))
            lines.append((filtered(np.ones(n), [a]), filtered(ramp, [a])))
        within = partial(_read_ramps, tuple(lines))
    return partial(_read_filled, within, shares, fill) if shares else within


def _read_filled(
    within: Reader, shares: Mapping[int, Array], fill: float, pixel: Sequence[int]
) -> float:
    """Return the coefficient at x, y, z, given those for the fill value 0."""
    total = 0.0
    for a, line in shares.items():
        total += float(line[pixel[a]]) * (1 + total)
    return within(pixel) - fill * total


def _dropped(method: Method, n: int) -> Array:
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


def _add_up(one: Explanation) -> Explanation:
    """Multiply the taps of the axes, and compute the value and the gradient."""
    taps = []
    for slowest_first in product(*(steps.taps for steps in reversed(one.axes))):
        along = slowest_first[::-1]
        tap = Tap(along, math.prod(tap.weight for tap in along), one.fill if one.filled else 0.0)
        taps.append(tap if tap.pixel is None else replace(tap, value=one.weighed(tap.pixel)))
    votes = any(steps.method.votes for steps in one.axes)
    per_pixel = [
        _per_pixel(taps, a) if steps.method.powers > 1 and not votes else 0.0
        for a, steps in enumerate(one.axes)
    ]
    return replace(
        one,
        taps=tuple(taps),
        value=_winner(taps) if votes else sum(tap.product for tap in taps),
        per_pixel=tuple(per_pixel),
        gradient=tuple(steps.slope * g for steps, g in zip(one.axes, per_pixel, strict=True)),
    )


def _winner(taps: Iterable[Tap]) -> float:
    """The value with the largest sum of weights, and the smallest of those that tie."""
    sums: dict[float, float] = {}
    for tap in taps:
        sums[tap.value] = sums.get(tap.value, 0.0) + tap.weight
    return min(sums, key=lambda value: (-sums[value], value))


def _per_pixel(taps: Iterable[Tap], a: int) -> float:
    """Sum the taps with the weights of axis ``a`` differentiated."""
    total = 0.0
    for tap in taps:
        if tap.pixel is not None or tap.value:
            factors = [one.derivative if b == a else one.weight for b, one in enumerate(tap.along)]
            total += math.prod(factors) * tap.value
    return total


# ---- arguments ----------------------------------------------------------------------------------


def _check_size(size: Any) -> tuple[int, ...]:
    try:
        given = tuple(size)
    except TypeError:
        given = (None,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in given):
        raise TypeError(f"size must be integers, (W,), (W, H) or (W, H, D), got {size!r}")
    if not 1 <= len(given) <= len(AXES) or min(given) < 1:
        raise ValueError(f"size must be (W,), (W, H) or (W, H, D), each at least 1, got {size!r}")
    return tuple(int(n) for n in given)


def _check_coordinates(at: Any) -> tuple[float, ...]:
    try:
        return tuple(float(coordinate) for coordinate in at)
    except (TypeError, ValueError):
        raise TypeError(f"at must be one number for each axis, x first, got {at!r}") from None


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
        given = tuple(as_whole(n) for n in index)
    except TypeError:
        raise TypeError(
            f"index must be one integer for each axis, x first, got {index!r}"
        ) from None
    if len(given) != rank:
        raise ValueError(f"index must have one entry for each of {rank} axes, got {given}")
    return given


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
