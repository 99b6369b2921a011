"""One sample, tap by tap: the numbers that a kernel goes through for a single point, kept.

`explain` follows one point with the functions of `gridsample.axis` and the tables of `gridsample.weights`,
which are what the kernels are made of, and returns every step as an `Explanation`.  Printed, it is a table
with the formulas and the numbers put in; `gridsample.plot.explain` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from gridsample import axis
from gridsample.plan import AXES, BOUNDARIES, Mode, Plan, hashable, make_plan
from gridsample.weights import Method

Array = np.ndarray[Any, Any]

# A path with more folds than this is told by its ends and its number of folds.
FEW_FOLDS = 4


@dataclass(frozen=True)
class AxisTap:
    """One tap along one axis.

    Attributes:
        index: which pixel the tap asks for; it may be outside.
        pixel: which pixel it reads once the boundary has folded the index; None if it is dropped.
        weight: the tap's weight at the fraction t.
        derivative: d weight / dt.
    """

    index: int
    pixel: int | None
    weight: float
    derivative: float


@dataclass(frozen=True)
class AxisSteps:
    """One coordinate on its way to the taps of its axis.

    Attributes:
        name: "x", "y" or "z".
        size: pixels along the axis.
        method: how the taps are weighed.
        boundary: what is outside.
        align_corners: what -1 and 1 mean.
        coordinate: what was given.
        position: where that is in pixels; pixel i has its centre at i.
        path: the position and each place that a fold or clamp sends it to, in order; the ends alone where
            it is folded more than four times.  A method that folds its taps' indices leaves it where it is.
        sampled: the position around which taps are taken: the end of the path, brought near where it is so
            far away that all taps read the same as from there.
        folds: how often the position is mirrored on its path.
        sign: d sampled / d position: 1, -1 after an odd number of folds, 0 at and beyond a clamp.
        base: base index: the position's floor, or the nearest integer for a method that rounds.
        t: the fraction, sampled - base.
        slope: d sampled / d coordinate, in pixels per unit of coordinate, the sign included.
        taps: one for each row of the method's table; none if the coordinate is nowhere.
    """

    name: str
    size: int
    method: Method
    boundary: str
    align_corners: bool
    coordinate: float
    position: float
    path: tuple[float, ...]
    sampled: float
    folds: int
    sign: int
    base: int
    t: float
    slope: float
    taps: tuple[AxisTap, ...]

    @property
    def nowhere(self) -> bool:
        """Whether the coordinate has no place: it is NaN, or infinite between mirrors."""
        return not self.taps

    @property
    def corners(self) -> tuple[float, float]:
        """The positions that the coordinates -1 and 1 mean; a reflection has its mirrors there."""
        return corners(self.size, self.align_corners)


@dataclass(frozen=True)
class Tap:
    """One tap of the point: a tap of each axis, multiplied.

    Attributes:
        along: the taps of the axes that it is made of, in x, y, z order.
        weight: the product of their weights.
        value: the pixel that is read; 0 for a dropped tap, which reads none.
    """

    along: tuple[AxisTap, ...]
    weight: float
    value: float

    @property
    def pixel(self) -> tuple[int, ...] | None:
        """The pixel that is read, in x, y, z order (``image[tap.pixel[::-1]]``); None if it is dropped."""
        pixel = tuple(tap.pixel for tap in self.along if tap.pixel is not None)
        return pixel if len(pixel) == len(self.along) else None

    @property
    def product(self) -> float:
        """What the tap adds to the value: weight * value, or 0 if it is dropped."""
        return 0.0 if self.pixel is None else self.weight * self.value


@dataclass(frozen=True)
class Explanation:
    """One sample, with every step that led to it; ``print`` it for a table.

    Attributes:
        axes: the steps along each axis, in x, y, z order.
        taps: the taps of the point, x fastest; none if a coordinate is nowhere.
        value: the sum of the taps' products; NaN if a coordinate is nowhere.
        per_pixel: d value / d sampled position for each axis, in x, y, z order.
        gradient: d value / d coordinate for each axis: its slope times ``per_pixel``.
        image: what was sampled, in the array's order (z, y, x) of axes; None for the numbered pixels.
    """

    axes: tuple[AxisSteps, ...]
    taps: tuple[Tap, ...]
    value: float
    per_pixel: tuple[float, ...]
    gradient: tuple[float, ...]
    image: Array | None = field(default=None, repr=False, compare=False)

    @property
    def nowhere(self) -> tuple[AxisSteps, ...]:
        """The axes on which the point has no place; if there is one, nothing is sampled."""
        return tuple(steps for steps in self.axes if steps.nowhere)

    def read(self, pixel: Sequence[int]) -> float:
        """The value of the pixel at x, y, z."""
        return read(self.image, [steps.size for steps in self.axes], pixel)

    def __str__(self) -> str:
        """The table: a title, each axis, the taps, and what they add up to; under 100 columns wide."""
        return "\n".join(line.rstrip() for line in _page(self))


def explain(
    size: Sequence[int],
    at: Sequence[float],
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    image: Any = None,
) -> Explanation:
    """Sample one point and keep every step: position, fold, taps, weights, value and gradient.

    The numbers are those of `gridsample.grid_sample` and `gridsample.grid_sample_vjp` in float64.

    Args:
        size: the image's size in x, y, z order: (W,), (W, H) or (W, H, D), each at least 1.
        at: the coordinate on each axis, in the same order; NaN and infinity are explained too.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        image: what to sample, (W,), (H, W) or (D, H, W), bool, integer or floating; read as float64.  If it
            is None, the pixels are numbered 0, 1, 2, ... row by row, so that the value grows by 1 for each
            pixel to the right and by W for each pixel down.

    Returns:
        An `Explanation`.

    Raises:
        TypeError: an argument of a type that is not accepted.
        ValueError: arguments that do not go together, or a name that is unknown or ambiguous.

    Example:
        >>> import gridsample
        >>> one = gridsample.explain((4, 4), (-1.5, 0.25), padding_mode="reflection")
        >>> x, y = one.axes
        >>> x.position, x.sampled, x.slope
        (-1.5, 0.5, -2.0)
        >>> [(tap.pixel, tap.weight) for tap in one.taps]
        [((0, 2), 0.5), ((1, 2), 0.5), ((0, 3), 0.0), ((1, 3), 0.0)]
        >>> one.value, one.gradient
        (8.5, (-2.0, 8.0))
    """
    sizes, coordinates = _check_size(size), _check_coordinates(at)
    if len(coordinates) != len(sizes):
        raise ValueError(
            f"at must have one coordinate for each axis of size {sizes}: {len(sizes)}, "
            f"got {len(coordinates)}: {coordinates}"
        )
    pixels = None if image is None else _check_image(image, sizes)
    plan = make_plan(
        (1, 1, *reversed(sizes)),
        np.dtype(np.float64),
        (1, len(sizes)),
        np.dtype(np.float64),
        hashable(mode),
        hashable(padding_mode),
        align_corners,
        False,
    )
    with np.errstate(all="ignore"):  # far coordinates may overflow, as they may in a kernel
        axes = tuple(follow(plan, a, coordinate) for a, coordinate in enumerate(coordinates))
        return _join(axes, pixels)


def follow(plan: Plan, a: int, coordinate: float) -> AxisSteps:
    """Follow a coordinate to the taps of axis ``a``, as a kernel does."""
    method, boundary, aligned = plan.methods[a], BOUNDARIES[plan.boundaries[a]], plan.align_corners
    size, edge, reach = plan.spatial[::-1][a], int(not aligned), method.taps + 1
    last, position = float(size - 1), float(axis.position(coordinate, float(size - 1), aligned))
    known = bool(axis.known(position, boundary))
    path, sampled, folds, sign = (position,), position if known else math.nan, 0, 1
    base, t, taps = 0, math.nan, ()

    if known and method.folds_position:
        folded, factor = axis.fold(position, last, reach, boundary, edge)
        sampled, sign = float(folded), int(factor)
        if boundary != axis.ZEROS:
            mirrors = corners(size, aligned) if boundary == axis.REFLECTION else None
            path, folds = trace(position, sampled, mirrors)
    elif known:
        sampled = float(axis.confine(position, last, reach, boundary, edge))
    if known:
        whole, part = axis.split(sampled, method.rounds)
        base, t = int(whole), float(part)
        taps = weigh(method, base, t, size, axis.ZEROS if method.folds_position else boundary, edge)
    return AxisSteps(
        name=AXES[a],
        size=size,
        method=method,
        boundary=plan.boundaries[a],
        align_corners=aligned,
        coordinate=coordinate,
        position=position,
        path=path,
        sampled=sampled,
        folds=folds,
        sign=sign if known else 0,
        base=base,
        t=t,
        slope=float(axis.slope(last, aligned)) * sign if known else 0.0,
        taps=taps,
    )


def corners(size: int, align_corners: bool) -> tuple[float, float]:
    """The positions of the coordinates -1 and 1: the corner pixels' centres, or their outer edges.

    >>> corners(4, align_corners=True), corners(4, align_corners=False)
    ((0.0, 3.0), (-0.5, 3.5))
    """
    last = float(size - 1)
    return float(axis.position(-1.0, last, align_corners)), float(axis.position(1.0, last, align_corners))


def trace(
    position: float, end: float, mirrors: tuple[float, float] | None
) -> tuple[tuple[float, ...], int]:
    """The places that a folded position passes on its way to its ``end``, and how often it is mirrored.

    Each fold is about the mirror in front of which the position is still outside.  What is outside after
    the last fold is clamped.

    >>> trace(-5.75, 2.25, (-0.5, 3.5))
    ((-5.75, 4.75, 2.25), 2)
    >>> trace(3.25, 3.0, (-0.5, 3.5))
    ((3.25, 3.0), 0)
    """
    path, folds = [position], 0
    if mirrors is not None and mirrors[0] < mirrors[1]:
        low, high = mirrors
        beyond = max(low - position, position - high, 0.0)
        folds = math.ceil(beyond / (high - low))
        for _ in range(folds if folds <= FEW_FOLDS else 0):
            path.append(2 * (low if path[-1] < low else high) - path[-1])
    if folds and folds <= FEW_FOLDS and math.isclose(path[-1], end, abs_tol=1e-6):
        path[-1] = end  # one fold at a time rounds differently
    elif path[-1] != end:
        path.append(end)
    return tuple(path), folds


def weigh(
    method: Method, base: int, t: float, size: int, boundary: int, edge: int
) -> tuple[AxisTap, ...]:
    """The taps of one axis around a base index."""
    taps = []
    for k, (row, slopes) in enumerate(zip(method.table, method.derivative(1), strict=True)):
        index = base + method.first + k
        pixel = int(axis.fold_index(index, size, boundary, edge))
        taps.append(
            AxisTap(
                index,
                None if pixel == axis.DROPPED else pixel,
                float(axis.weight(t, row, method.powers)),
                float(axis.weight(t, slopes, method.powers)),
            )
        )
    return tuple(taps)


def read(image: Array | None, size: Sequence[int], pixel: Sequence[int]) -> float:
    """The value of a pixel at x, y, z; without an image, its number.

    >>> read(None, (4, 3), (2, 1))
    6.0
    """
    if image is not None:
        return float(image[tuple(reversed(pixel))])
    number = 0
    for n, i in zip(reversed(size), reversed(pixel), strict=True):
        number = number * n + i
    return float(number)


def _join(axes: tuple[AxisSteps, ...], image: Array | None) -> Explanation:
    """Multiply the axes' taps out, and add up."""
    if any(steps.nowhere for steps in axes):
        zeros = (0.0,) * len(axes)
        return Explanation(axes, (), math.nan, zeros, zeros, image)
    size = [steps.size for steps in axes]
    taps = []
    for combination in product(*(steps.taps for steps in reversed(axes))):
        along = combination[::-1]
        weight = math.prod(tap.weight for tap in along)
        tap = Tap(along, weight, 0.0)
        taps.append(tap if tap.pixel is None else Tap(along, weight, read(image, size, tap.pixel)))
    per_pixel = tuple(_per_pixel(taps, a) if axes[a].method.powers > 1 else 0.0 for a in range(len(axes)))
    return Explanation(
        axes=axes,
        taps=tuple(taps),
        value=sum(tap.product for tap in taps),
        per_pixel=per_pixel,
        gradient=tuple(steps.slope * g for steps, g in zip(axes, per_pixel, strict=True)),
        image=image,
    )


def _per_pixel(taps: Iterable[Tap], a: int) -> float:
    """The sum again, with the weights of axis ``a`` differentiated."""
    return sum(
        math.prod(one.derivative if b == a else one.weight for b, one in enumerate(tap.along)) * tap.value
        for tap in taps
        if tap.pixel is not None
    )


# ---- what is accepted ---------------------------------------------------------------------------


def _check_size(size: Any) -> tuple[int, ...]:
    if not isinstance(size, Sequence) or not all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in size
    ):
        raise TypeError(f"size must be integers, (W,), (W, H) or (W, H, D), got {size!r}")
    if not 1 <= len(size) <= len(AXES) or min(size) < 1:
        raise ValueError(f"size must be (W,), (W, H) or (W, H, D), each at least 1, got {size!r}")
    return tuple(int(n) for n in size)


def _check_coordinates(at: Any) -> tuple[float, ...]:
    try:
        return tuple(float(coordinate) for coordinate in at)
    except (TypeError, ValueError):
        raise TypeError(f"at must be one number for each axis, x first, got {at!r}") from None


def _check_image(image: Any, size: tuple[int, ...]) -> Array:
    array = np.asarray(image)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"image has dtype {array.dtype}; accepted: bool, integers, floating point")
    if array.shape != size[::-1]:
        raise ValueError(f"image must have shape {size[::-1]} for size {size}, got {array.shape}")
    pixels = array.astype(np.float64)
    pixels.flags.writeable = False
    return pixels


# ---- the table ----------------------------------------------------------------------------------


def _page(one: Explanation) -> Iterator[str]:
    """The lines of the printed explanation."""
    yield from _title(one)
    for steps in one.axes:
        yield ""
        yield from _axis_lines(steps)
    yield ""
    if not one.nowhere:
        yield from _tap_lines(one)
        yield ""
    yield from _result_lines(one)


def _title(one: Explanation) -> Iterator[str]:
    size = " x ".join(str(steps.size) for steps in one.axes)
    at = ", ".join(show(steps.coordinate) for steps in one.axes)
    aligned = one.axes[0].align_corners
    yield f"One sample of {size} pixels at ({at}), align_corners={aligned}"
    yield f"-1 and 1 are the {'centres' if aligned else 'outer edges'} of the corner pixels" + (
        "; pixels are numbered 0, 1, 2, ... row by row" if one.image is None else ""
    )


def _axis_lines(steps: AxisSteps) -> Iterator[str]:
    """One axis: its steps, each a formula with the numbers put in, and its taps."""
    pixels = "1 pixel" if steps.size == 1 else f"{steps.size} pixels"
    yield f"{steps.name} axis: {pixels}, {steps.method.name}, {steps.boundary}"
    rows = list(_steps(steps))
    wide = max(len(formula) for _, formula, _, _ in rows)
    long = max(len(result) for _, _, result, _ in rows)
    for name, formula, result, remark in rows:
        yield f"  {name:<10}  {formula:<{wide}}  =  {result:<{long}}  {remark}"
    if steps.nowhere:
        return
    yield ""
    yield from _columns(
        ("tap", [str(tap.index) for tap in steps.taps]),
        ("reads", [_pixel_name(tap) for tap in steps.taps]),
        ("weight", [polynomial(row) for row in steps.method.table]),
        ("at t", aligned_numbers(tap.weight for tap in steps.taps)),
        ("d weight / dt", [polynomial(row) for row in steps.method.derivative(1)]),
        ("at t", aligned_numbers(tap.derivative for tap in steps.taps)),
    )


def _steps(steps: AxisSteps) -> Iterator[tuple[str, str, str, str]]:
    """Rows of (step, formula, result, remark)."""
    x, n, aligned = show(steps.coordinate), steps.size, steps.align_corners
    yield "coordinate", steps.name, x, ""
    if aligned and n == 1:
        formula = "the only pixel there is"
    elif aligned:
        formula = f"({x} + 1) / 2 * ({n} - 1)"
    else:
        formula = f"(({x} + 1) * {n} - 1) / 2"
    yield "position", formula, show(steps.position), _where(steps)
    if steps.nowhere:
        return
    yield from _folds(steps)
    around = show(steps.sampled)
    rounded = "half to even" if abs(steps.t) == 0.5 and steps.method.rounds else ""
    yield "base index", f"{'round' if steps.method.rounds else 'floor'}({around})", show(steps.base), rounded
    yield "fraction t", f"{around} - {term(steps.base)}", show(steps.t), ""
    slope = f"({n} - 1) / 2" if aligned else f"{n} / 2"
    factor = "" if steps.sign == 1 else f" * {term(steps.sign)}"
    why = {1: "", -1: ", turned by the fold", 0: ", 0 at and beyond a clamp"}[steps.sign]
    yield "slope", slope + factor, show(steps.slope), f"pixels per unit of {steps.name}{why}"


def _where(steps: AxisSteps) -> str:
    """Where the position is, in words."""
    if math.isnan(steps.position):
        return "nowhere"
    if steps.nowhere:
        return "nowhere: mirrors fold it for ever"
    low, high = corners(steps.size, align_corners=False)
    return "" if low <= steps.position <= high else "outside"


def _folds(steps: AxisSteps) -> Iterator[tuple[str, str, str, str]]:
    """The rows of what brings the position back."""
    low, high = steps.corners
    about = f"about {show(low)} or {show(high)}"
    each = zip(steps.path, steps.path[1:], strict=False)
    if steps.folds > FEW_FOLDS:
        times = f"{steps.folds:,}" if steps.folds < 1e6 else f"{steps.folds:.3g}"
        yield "folds", f"{times} times {about}", show(steps.sampled), ""
        return
    for fold, (before, after) in enumerate(each):
        if fold < steps.folds:
            mirror = low if before < low else high
            yield "fold", f"2 * {term(mirror)} - {term(before)}", show(after), f"mirrored about {show(mirror)}"
        else:
            yield "clamp", f"{show(before)} into [0, {steps.size - 1}]", show(after), "the edge pixel's centre"
    if steps.sampled != steps.path[-1] and steps.boundary == "reflection":
        period = 2 * (high - low)
        yield "shift", f"by whole periods of {show(period)}", show(steps.sampled), "two mirrorings are a shift"
    elif steps.sampled != steps.path[-1]:
        yield "confine", "as from here on", show(steps.sampled), "all taps farther out are the same"


def _pixel_name(tap: AxisTap) -> str:
    return "dropped" if tap.pixel is None else f"pixel {tap.pixel}"



def _tap_lines(one: Explanation) -> Iterator[str]:
    """The taps of the point, and what each adds to the value."""
    names = [steps.name for steps in one.axes]
    columns = [
        (f"tap ({', '.join(names)})", "<", [_point(along.index for along in tap.along) for tap in one.taps]),
        ("  reads", "<", ["  dropped" if tap.pixel is None else f"  {_point(tap.pixel)}" for tap in one.taps]),
    ]
    for a, name in enumerate(names if len(names) > 1 else []):
        factors = aligned_numbers(tap.along[a].weight for tap in one.taps)
        columns.append((f"{'*' if a else ' '} weight {name}", ">", [f"{'*' if a else ' '} {f}" for f in factors]))
    yield from _columns(columns)
