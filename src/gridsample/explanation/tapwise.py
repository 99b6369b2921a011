"""One sample, tap by tap: the numbers that a kernel goes through for one point, kept and shown.

`explain` follows a point with the functions of `gridsample.definitions.axis` and the tables of
`gridsample.definitions.weights`, of which the kernels are made, and keeps every step in an
`Explanation`.  Printed, that is a table with the numbers put into the formulas;
`gridsample.explanation.plot.explain` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.checks import as_array
from gridsample.definitions.methods import Method
from gridsample.definitions.plan import AXES, BOUNDARIES, Mode, Plan, hashable, make_plan

Array = np.ndarray[Any, Any]

# More folds than this are shown as one step.
FEW_FOLDS = 4


@dataclass(frozen=True)
class AxisTap:
    """One tap along one axis.

    Attributes:
        index: the pixel that the tap asks for; it may be outside.
        pixel: the pixel that it reads, after the boundary's fold; None if it is dropped.
        weight: its weight at the fraction t.
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
        path: the position in pixels (pixel i has its centre at i), then each place to which it is
            sent by a fold, a clamp, or a shift that changes no tap's pixel.  More than four folds
            are one step.
        folds: how often the position is mirrored on its path.
        sign: 1; -1 after an odd number of folds; 0 at and beyond a clamp, and if it is nowhere.
        base: base index: where the path ends, rounded down, or to the nearest if the method rounds.
        taps: one for each row of the method's table; none if the coordinate is nowhere.
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

    @property
    def nowhere(self) -> bool:
        """Whether the coordinate has no place: it is NaN, or infinite between mirrors."""
        return not self.taps

    @property
    def position(self) -> float:
        """Where the coordinate is, in pixels."""
        return self.path[0]

    @property
    def sampled(self) -> float:
        """The position around which taps are taken."""
        return self.path[-1]

    @property
    def t(self) -> float:
        """The fraction: how far the sampled position is past the base index."""
        return self.sampled - self.base

    @property
    def slope(self) -> float:
        """The sampled position's derivative: pixels per unit of coordinate, times the sign."""
        return self.sign * float(axis.slope(self.size - 1.0, self.align_corners))

    @property
    def corners(self) -> tuple[float, float]:
        """The positions that the coordinates -1 and 1 mean; a reflection's mirrors are there."""
        return corners(self.size, self.align_corners)


@dataclass(frozen=True)
class Tap:
    """One tap of the point: a tap of each axis, multiplied.

    Attributes:
        along: the taps that it is made of, in x, y, z order.
        weight: the product of their weights.
        value: the value of the pixel that it reads; 0 for a dropped tap, which reads none.
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
        """What it adds to the sample: weight * value, and nothing if it is dropped."""
        return 0.0 if self.pixel is None else self.weight * self.value


@dataclass(frozen=True)
class Explanation:
    """One sample and every step that led to it; ``print`` it for a table.

    Attributes:
        axes: the steps along each axis, in x, y, z order.
        taps: the taps of the point, x fastest; none if a coordinate is nowhere.
        value: the sum of the taps' products; NaN if a coordinate is nowhere.
        per_pixel: d value / d sampled position, for each axis.
        gradient: d value / d coordinate, for each axis: its slope times its ``per_pixel``.
        image: what was sampled, its axes in the array's order (z, y, x); None for numbered pixels.
    """

    axes: tuple[AxisSteps, ...]
    taps: tuple[Tap, ...]
    value: float
    per_pixel: tuple[float, ...]
    gradient: tuple[float, ...]
    image: Array | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> tuple[int, ...]:
        """The image's size, in x, y, z order."""
        return tuple(steps.size for steps in self.axes)

    @property
    def nowhere(self) -> str:
        """The names of the axes on which the point has no place; with one, nothing is sampled."""
        return " and ".join(steps.name for steps in self.axes if steps.nowhere)

    def read(self, pixel: Sequence[int]) -> float:
        """The value of the pixel at x, y, z."""
        return read(self.image, self.size, pixel)

    def __str__(self) -> str:
        """A table of the axes, the taps, and what they add up to, in under 100 columns.

        Only an image of a billion pixels may need more.
        """
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
    """Sample one point and keep every step: position, folds, taps, weights, value and gradient.

    They are the steps, and the numbers, of `gridsample.grid_sample` and its gradient in float64.

    Args:
        size: the image's size in x, y, z order: (W,), (W, H) or (W, H, D), each at least 1.
        at: the coordinate on each axis, in the same order; NaN and infinity are explained too.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        image: what to sample, (W,), (H, W) or (D, H, W); bool, any integer type or floating, and
            read as float64.  If it is None the pixels are numbered 0, 1, 2, ... row by row: the
            value grows by 1 for each pixel to the right and by W for each pixel down.

    Returns:
        An `Explanation`.

    Raises:
        TypeError: an argument of a type that is not accepted.
        ValueError: arguments that do not go together, or a name that is unknown or ambiguous.

    Example:
        >>> import gridsample
        >>> one = gridsample.explain((4, 4), (-1.5, 0.25), padding_mode="reflection")
        >>> x, y = one.axes
        >>> x.position, x.sampled, x.slope  # beyond the mirror at -0.5, and so turned round
        (-1.5, 0.5, -2.0)
        >>> [(tap.pixel, tap.weight, tap.value) for tap in one.taps]
        [((0, 2), 0.5, 8.0), ((1, 2), 0.5, 9.0), ((0, 3), 0.0, 12.0), ((1, 3), 0.0, 13.0)]
        >>> one.value, one.gradient
        (8.5, (-2.0, 8.0))
    """
    sizes, coordinates = _check_size(size), _check_coordinates(at)
    if len(coordinates) != len(sizes):
        raise ValueError(
            f"at must have a coordinate for each axis of size {sizes}, {len(sizes)} in all, "
            f"got {len(coordinates)}: {coordinates}"
        )
    real = np.dtype(np.float64)
    plan = make_plan(
        (1, 1, *sizes[::-1]),
        real,
        (1, len(sizes)),
        real,
        hashable(mode),
        hashable(padding_mode),
        align_corners,
        False,
    )
    pixels = None if image is None else _check_image(image, sizes)
    with np.errstate(all="ignore"):  # a far coordinate may overflow here, as it may in a kernel
        axes = tuple(follow(plan, a, coordinate) for a, coordinate in enumerate(coordinates))
        return _add_up(axes, pixels)


# ---- the steps ----------------------------------------------------------------------------------


def follow(plan: Plan, a: int, coordinate: float) -> AxisSteps:
    """Follow a coordinate to the taps of axis ``a``, as a kernel does."""
    method, name, aligned = plan.methods[a], plan.boundaries[a], plan.align_corners
    boundary, size, edge = BOUNDARIES[name].code, plan.spatial[::-1][a], plan.edges[a]
    last, reach = size - 1.0, method.taps + 1
    position = float(axis.position(coordinate, last, aligned))
    if not axis.known(position, boundary):
        return AxisSteps(AXES[a], size, method, name, aligned, coordinate, (position,))

    mirrors = None
    if plan.folds[a]:
        end, sign = axis.fold(position, last, reach, boundary, edge)
        mirrors = corners(size, aligned) if boundary == axis.REFLECTION else None
        boundary = axis.ZEROS  # a tap that is outside all the same is dropped
    else:
        end, sign = axis.confine(position, last, reach, boundary, edge), 1
    path, folds = trace(position, float(end), mirrors)
    base = int(axis.split(path[-1], method.rounding)[0])
    odd = BOUNDARIES[name].odd
    taps = weigh(method, base, path[-1] - base, size, boundary, edge, odd)
    return AxisSteps(
        AXES[a], size, method, name, aligned, coordinate, path, folds, int(sign), base, taps
    )


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
    """The places that a position passes on its way to its end, and how often it is mirrored.

    It is mirrored about the mirror that it is beyond, until it is between the two.

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
        path.pop()  # the same place, but for the rounding of each fold
    if path[-1] != end:
        path.append(end)
    return tuple(path), folds


def weigh(
    method: Method, base: int, t: float, size: int, boundary: int, edge: int, odd: bool
) -> tuple[AxisTap, ...]:
    """The taps of one axis: base index + first, and so on; the weights have an odd fold's sign."""
    taps = []
    for k, (row, slopes) in enumerate(zip(method.table, method.derivative(1), strict=True)):
        index = base + method.first + k
        pixel = int(axis.fold_index(index, size, boundary, edge))
        sign = float(axis.fold_sign(index, size, boundary, edge)) if odd else 1.0
        weight, derivative = (sign * float(axis.weight(t, c, method.powers)) for c in (row, slopes))
        taps.append(AxisTap(index, None if pixel == axis.DROPPED else pixel, weight, derivative))
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


def _add_up(axes: tuple[AxisSteps, ...], image: Array | None) -> Explanation:
    """Multiply the axes' taps out, and add up what they read."""
    if any(steps.nowhere for steps in axes):
        nothing = (0.0,) * len(axes)
        return Explanation(axes, (), math.nan, nothing, nothing, image)
    size = [steps.size for steps in axes]
    taps = []
    for slowest_first in product(*(steps.taps for steps in reversed(axes))):
        along = slowest_first[::-1]
        weight = math.prod(tap.weight for tap in along)
        tap = Tap(along, weight, 0.0)
        taps.append(tap if tap.pixel is None else Tap(along, weight, read(image, size, tap.pixel)))
    per_pixel = [
        _per_pixel(taps, a) if one.method.powers > 1 else 0.0 for a, one in enumerate(axes)
    ]
    return Explanation(
        axes=axes,
        taps=tuple(taps),
        value=sum(tap.product for tap in taps),
        per_pixel=tuple(per_pixel),
        gradient=tuple(steps.slope * g for steps, g in zip(axes, per_pixel, strict=True)),
        image=image,
    )


def _per_pixel(taps: Iterable[Tap], a: int) -> float:
    """The sum over the taps with the weights of axis ``a`` differentiated."""
    total = 0.0
    for tap in taps:
        if tap.pixel is not None:
            factors = [one.derivative if b == a else one.weight for b, one in enumerate(tap.along)]
            total += math.prod(factors) * tap.value
    return total


# ---- what is accepted ---------------------------------------------------------------------------


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


def _check_image(image: Any, size: tuple[int, ...]) -> Array:
    array = as_array(image, "image")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"image has dtype {array.dtype}; accepted: bool, integers, floating point")
    if array.shape != size[::-1]:
        raise ValueError(f"image must have shape {size[::-1]} for size {size}, got {array.shape}")
    pixels = array.astype(np.float64)
    pixels.flags.writeable = False
    return pixels


# ---- the table ----------------------------------------------------------------------------------

# One column: what stands before each of its cells, its header, "<" or ">", and its cells.
Column = tuple[str, str, str, Sequence[str]]
# One step: its name, its formula with the numbers put in, what comes out, and a remark.
Row = tuple[str, str, str, str]


def _page(one: Explanation) -> Iterator[str]:
    """The lines of the printed explanation."""
    aligned = one.axes[0].align_corners
    pixels = "1 pixel" if one.size == (1,) else f"{' x '.join(map(str, one.size))} pixels"
    yield pixels + (", numbered 0, 1, 2, ... row by row" if one.image is None else "")
    extremes = "centres" if aligned else "outer edges"
    yield f"align_corners={aligned}: -1 and 1 are the {extremes} of the corner pixels"
    for steps in one.axes:
        yield ""
        yield from _axis_lines(steps)
    yield ""
    if one.nowhere:
        yield f"  nowhere in {one.nowhere}: value = nan, gradient = 0"
    else:
        yield from _tap_lines(one)
        yield ""
        yield from _step_table(_result_rows(one))


def _axis_lines(steps: AxisSteps) -> Iterator[str]:
    """One axis: its steps and its taps."""
    pixels = "1 pixel" if steps.size == 1 else f"{steps.size} pixels"
    yield f"{steps.name} axis: {pixels}, {steps.method.name}, {steps.boundary}"
    yield from _step_table(_step_rows(steps))
    if steps.nowhere:
        return
    yield ""
    reads = ["none" if tap.pixel is None else str(tap.pixel) for tap in steps.taps]
    yield from _table(
        ("", "tap", ">", [str(tap.index) for tap in steps.taps]),
        ("   ", "reads", "<", reads),
        ("   ", "weight", "<", [polynomial(row) for row in steps.method.table]),
        (" = ", "", ">", decimals(tap.weight for tap in steps.taps)),
        ("   ", "d weight / dt", "<", [polynomial(row) for row in steps.method.derivative(1)]),
        (" = ", "", ">", decimals(tap.derivative for tap in steps.taps)),
    )


def _step_rows(steps: AxisSteps) -> Iterator[Row]:
    """From the coordinate to the fraction, and the slope."""
    x, n, aligned = show(steps.coordinate), steps.size, steps.align_corners
    formula = f"({x} + 1) / 2 * ({n} - 1)" if aligned else f"(({x} + 1) * {n} - 1) / 2"
    if aligned and n == 1 and not steps.nowhere:
        formula = "the only pixel's centre"
    yield "coordinate", steps.name, x, ""
    yield "position", formula, show(steps.position), _whereabouts(steps)
    if steps.nowhere:
        return
    yield from _fold_rows(steps)
    at, rounds = show(steps.sampled), steps.method.rounds
    goes = "up" if steps.method.ties_up else "to the even pixel"
    tie = f"a tie goes {goes}" if rounds and abs(steps.t) == 0.5 else ""
    yield "base index", f"{'round' if rounds else 'floor'}({at})", show(steps.base), tie
    yield "fraction t", f"{at} - {term(steps.base)}", show(steps.t), ""
    slope = f"({n} - 1) / 2" if aligned else f"{n} / 2"
    factor = "" if steps.sign == 1 else f" * {term(steps.sign)}"
    why = {1: "", -1: ", turned by folds", 0: ", clamped"}[steps.sign]
    yield "slope", slope + factor, show(steps.slope), f"d position / d {steps.name}{why}"


def _whereabouts(steps: AxisSteps) -> str:
    """Where the position is, in words."""
    if steps.nowhere:
        return "nowhere" if math.isnan(steps.position) else "nowhere: mirrors fold it for ever"
    low, high = corners(steps.size, align_corners=False)
    return "" if low <= steps.position <= high else "outside the image"


def _fold_rows(steps: AxisSteps) -> Iterator[Row]:
    """What brings a position back, or near: one row for each step of its path."""
    low, high = steps.corners
    for done, (before, after) in enumerate(pairwise(steps.path)):
        here, there, limits = show(before), show(after), f"into [0, {steps.size - 1}]"
        if steps.folds > FEW_FOLDS:
            remark = "" if steps.sign else "then clamped"
            times = f"{steps.folds:.6g} times"
            yield "folds", f"{times} about {show(low)} and {show(high)}", there, remark
        elif done < steps.folds:
            mirror = low if before < low else high
            about = f"mirrored about {show(mirror)}"
            yield "fold", f"2 * {term(mirror)} - {term(before)}", there, about
        elif steps.sign == 0:
            yield "clamp", f"{here} {limits}", there, "an edge pixel's centre"
        elif BOUNDARIES[steps.boundary].code == axis.WRAP:
            yield "shift", f"by whole periods of {steps.size}", there, "the image repeats"
        elif BOUNDARIES[steps.boundary].code == axis.REFLECTION:
            edge = BOUNDARIES[steps.boundary].edge_for(steps.align_corners)
            period = show(max(2 * (steps.size - 1 + edge), 1))
            yield "shift", f"by whole periods of {period}", there, "a period is two folds"
        else:
            yield "confine", f"{here}, but no farther than", there, "all taps read the same there"


def _tap_lines(one: Explanation) -> Iterator[str]:
    """The taps of the point, and what each adds to the value."""
    names = [steps.name for steps in one.axes]
    places = [
        f"({', '.join(map(str, tap.pixel))})"
        if tap.pixel is not None
        else f"none ({', '.join(str(along.index) for along in tap.along)})"
        for tap in one.taps
    ]
    columns: list[Column] = [("", f"pixel ({', '.join(names)})", "<", places)]
    for a, name in enumerate(names):
        weights = decimals(tap.along[a].weight for tap in one.taps)
        columns.append((" * " if a else "   ", f"weight {name}", ">", weights))
    if len(names) > 1:
        columns.append((" = ", "weight", ">", decimals(tap.weight for tap in one.taps)))
    for before, header, numbers in (
        (" * ", "value", decimals(tap.value for tap in one.taps)),
        (" = ", "adds", decimals(tap.product for tap in one.taps)),
    ):
        cells = ["" if tap.pixel is None else n for tap, n in zip(one.taps, numbers, strict=True)]
        columns.append((before, header, ">", cells))
    yield from _table(*columns)


def _result_rows(one: Explanation) -> Iterator[Row]:
    """The value and the gradient."""
    yield "value", "what the taps add", show(one.value), ""
    for steps, per_pixel, derivative in zip(one.axes, one.per_pixel, one.gradient, strict=True):
        formula = f"{show(steps.slope)} * {term(per_pixel)}"
        remark = f"slope {steps.name} * the sum with d weight {steps.name} / dt"
        yield f"d value / d{steps.name}", formula, show(derivative), remark


def _step_table(rows: Iterable[Row]) -> Iterator[str]:
    """Lines of aligned steps: name  formula = result   remark."""
    names, formulas, results, remarks = zip(*rows, strict=True)
    yield from _table(
        ("", "", "<", names),
        ("  ", "", "<", formulas),
        (" = ", "", "<", results),
        ("   ", "", "<", remarks),
    )


def _table(*columns: Column) -> Iterator[str]:
    """Lines of aligned columns, indented, below a line of headers if there are any."""
    marks, headers, sides, cells = zip(*columns, strict=True)
    widths = [max(map(len, (header, *below))) for header, below in zip(headers, cells, strict=True)]
    blanks = tuple(" " * len(mark) for mark in marks)
    lines = [(headers, blanks)] if any(headers) else []
    lines += [(row, marks) for row in zip(*cells, strict=True)]
    for texts, between in lines:
        yield "  " + "".join(
            (mark if text else blank) + f"{text:{side}{width}}"
            for text, mark, blank, side, width in zip(
                texts, between, blanks, sides, widths, strict=True
            )
        )


def show(number: float) -> str:
    """A number in up to six digits; no zero is negative.

    >>> show(-0.90000000001), show(-0.0), show(float("inf"))
    ('-0.9', '0', 'inf')
    """
    return f"{number + 0.0:.6g}"


def term(number: float) -> str:
    """A number as it stands after an operator.

    >>> term(0.5), term(-0.5)
    ('0.5', '(-0.5)')
    """
    shown = show(number)
    return f"({shown})" if shown.startswith("-") else shown


def decimals(numbers: Iterable[float]) -> list[str]:
    """Numbers with as many decimals as the one that needs most, up to five, so that they align.

    >>> decimals([1, 0.25, -3.5])
    ['1.00', '0.25', '-3.50']
    """
    given = list(numbers)
    finite = [number for number in given if math.isfinite(number)]
    largest = max(map(abs, finite), default=0.0)
    if largest >= 1e7:
        return [show(number) for number in given]
    places = 0
    while places < 5 and any(abs(round(n, places) - n) > 1e-7 * max(1, largest) for n in finite):
        places += 1
    return [f"{round(number, places) + 0.0:.{places}f}" for number in given]


def polynomial(coefficients: Sequence[float]) -> str:
    """A polynomial of t, lowest power first.

    >>> polynomial((1.0, -1.0)), polynomial((0.0, -0.75, 0.0, 2.0)), polynomial((0.0,))
    ('1 - t', '-0.75 t + 2 t^3', '0')
    """
    text = ""
    for power, coefficient in enumerate(coefficients):
        if coefficient:
            letter = ("", "t", f"t^{power}")[min(power, 2)]
            size = "" if letter and abs(coefficient) == 1 else show(abs(coefficient))
            sign = "-" if coefficient < 0 else "+" if text else ""
            text += f" {sign} " if text else sign
            text += f"{size} {letter}".strip()
    return text or "0"
