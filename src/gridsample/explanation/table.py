"""The printed explanation of a sample: one line per step, with numbers inserted in formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from gridsample.definitions import axis
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.explanation.records import AxisSteps, Sample

# More folds than this are shown as one step.
MAX_FOLDS_SHOWN = 4
# The maximum width of a polynomial; if it is longer, only its value is shown.
MAX_FORMULA_WIDTH = 40
# One column: the text before each of its cells, its header, its alignment, and its cells.
Column = tuple[str, str, str, Sequence[str]]
# One step: its name, its formula with numbers inserted, its result, and a remark.
Row = tuple[str, str, str, str]


def lines_of(explanation: Sample) -> Iterator[str]:
    """Yield the lines of the printed explanation."""
    pixels = f"{' x '.join(map(str, explanation.size))} pixels"
    pixels = "1 pixel" if explanation.size == (1,) else pixels
    yield pixels + (", numbered 0, 1, 2, ... row by row" if explanation.image is None else "")
    yield _units_line(explanation)
    for steps in explanation.axes:
        yield ""
        yield from _axis_lines(steps)
    yield ""
    if explanation.nowhere:
        yield f"  nowhere in {explanation.nowhere}: value = nan, gradient = 0"
    elif explanation.outside:
        fill = show(explanation.fill)
        yield f"  outside in {explanation.outside}: value = fill value = {fill}, gradient = 0"
    else:
        if explanation.coefficients is not None:
            yield from _coefficient_lines(explanation)
            yield ""
        yield from _tap_lines(explanation)
        yield ""
        yield from _step_table(_result_rows(explanation))
    if explanation.samples:
        yield ""
        yield from _footprint_lines(explanation)


def _units_line(explanation: Sample) -> str:
    """Describe the units of coordinates."""
    first = explanation.axes[0]
    if first.coords == "pixel":
        return "coords=pixel: coordinates are positions, 0 is the centre of the first pixel"
    if first.coords == "displacement":
        place = ", ".join(str(steps.index) for steps in explanation.axes)
        return f"coords=displacement: coordinates count pixels from the output's pixel ({place})"
    extremes = "centres" if first.align_corners else "outer edges"
    return f"align_corners={first.align_corners}: -1 and 1 are the {extremes} of the corner pixels"


def _coefficient_lines(explanation: Sample) -> Iterator[str]:
    """Yield the lines on the prefilter: the coefficients next to the values of the pixels."""
    yield "pixels -> coefficients of the spline through them"
    for steps, order in zip(explanation.axes, explanation.prefilters, strict=True):
        if order > 1:
            yield f"  prefilter along {steps.name}: order {order}, {steps.boundary}"
    # In the order in which pixels are numbered.
    pixels = sorted(
        {tap.pixel for tap in explanation.taps if tap.pixel is not None},
        key=lambda pixel: pixel[::-1],
    )
    if not pixels:
        yield "  every tap is dropped, and reads none"
        return
    names = ", ".join(steps.name for steps in explanation.axes)
    yield from _table(
        ("", f"pixel ({names})", "<", [f"({', '.join(map(str, pixel))})" for pixel in pixels]),
        ("   ", "value", ">", decimals(map(explanation.read, pixels))),
        (" -> ", "coefficient", ">", decimals(map(explanation.weighed, pixels))),
    )


def _axis_lines(steps: AxisSteps) -> Iterator[str]:
    """Yield the lines on one axis: its steps and its taps."""
    pixels = "1 pixel" if steps.size == 1 else f"{steps.size} pixels"
    yield f"{steps.name} axis: {pixels}, {steps.method.name}, {steps.boundary}"
    yield from _step_table(_step_rows(steps))
    if not steps.taps:
        return
    yield ""
    reads = ["none" if tap.pixel is None else str(tap.pixel) for tap in steps.taps]
    columns: list[Column] = [
        ("", "tap", ">", [str(tap.index) for tap in steps.taps]),
        ("   ", "reads", "<", reads),
    ]
    for header, order, numbers in (
        ("weight", 0, decimals(tap.weight for tap in steps.taps)),
        ("d weight / dt", 1, decimals(tap.derivative for tap in steps.taps)),
    ):
        formulas = [polynomial(row) for row in steps.method.derivative(order)]
        if max(map(len, formulas)) <= MAX_FORMULA_WIDTH:
            columns += [("   ", header, "<", formulas), (" = ", "", ">", numbers)]
        else:
            columns.append(("   ", header, ">", numbers))
    yield from _table(*columns)


def _step_rows(steps: AxisSteps) -> Iterator[Row]:
    """Yield the steps from the coordinate to the fraction, and the slope."""
    yield "coordinate", steps.name, show(steps.coordinate), ""
    yield "position", _position_formula(steps), show(steps.position), _position_remark(steps)
    if steps.nowhere or steps.outside:
        return
    yield from _fold_rows(steps)
    at, rounds = show(steps.sampled), steps.method.rounds
    direction = "up" if steps.method.ties_up else "to the even pixel"
    tie = f"a tie goes {direction}" if rounds and abs(steps.t) == 0.5 else ""
    yield "base index", f"{'round' if rounds else 'floor'}({at})", show(steps.base), tie
    yield "fraction t", f"{at} - {term(steps.base)}", show(steps.t), ""
    n, slope = steps.size, "1"
    if steps.coords == "normalized":
        slope = f"({n} - 1) / 2" if steps.align_corners else f"{n} / 2"
    factor = "" if steps.sign == 1 else f" * {term(steps.sign)}"
    why = {1: "", -1: ", turned by folds", 0: ", clamped"}[steps.sign]
    yield "slope", slope + factor, show(steps.slope), f"d position / d {steps.name}{why}"


def _position_formula(steps: AxisSteps) -> str:
    """Write the formula of the position with numbers inserted."""
    x, n = show(steps.coordinate), steps.size
    if steps.coords == "pixel":
        return x
    if steps.coords == "displacement":
        return f"{x} + {term(steps.index)}"
    if not steps.align_corners:
        return f"(({x} + 1) * {n} - 1) / 2"
    if n == 1 and not steps.nowhere:
        return "the only pixel's centre"
    return f"({x} + 1) / 2 * ({n} - 1)"


def _position_remark(steps: AxisSteps) -> str:
    """Describe the position in words."""
    if steps.nowhere:
        return "nowhere" if math.isnan(steps.position) else "nowhere: the folds never end"
    return "" if -0.5 <= steps.position <= steps.size - 0.5 else "outside the image"


def _fold_rows(steps: AxisSteps) -> Iterator[Row]:
    """Yield the folds, clamps and shifts of a position: one row for each step of its path."""
    low, high = steps.corners
    boundary = BOUNDARIES[steps.boundary]
    mirrors = boundary.code == axis.REFLECTION
    for done, (before, after) in enumerate(pairwise(steps.path)):
        start, end, limits = show(before), show(after), f"into [0, {steps.size - 1}]"
        if steps.folds > MAX_FOLDS_SHOWN:
            remark = "" if steps.sign else "then clamped"
            times = f"{steps.folds:.6g} times"
            yield "folds", f"{times} about {show(low)} and {show(high)}", end, remark
        elif done < steps.folds:
            mirror = low if before < low else high
            about = f"mirrored about {show(mirror)}"
            yield "fold", f"2 * {term(mirror)} - {term(before)}", end, about
        elif steps.sign == 0:
            yield "clamp", f"{start} {limits}", end, "an edge pixel's centre"
        elif (period := boundary.period(steps.size, steps.align_corners)) is not None:
            remark = "a period is two folds" if mirrors else "the image repeats"
            yield "shift", f"by whole periods of {period}", end, remark
        else:
            yield "confine", f"{start}, but no farther than", end, "all taps read the same there"


def _tap_lines(explanation: Sample) -> Iterator[str]:
    """Yield the lines on the taps of the point and their contributions to the value."""
    names = [steps.name for steps in explanation.axes]
    dropped = "fill" if explanation.filled else "none"
    pixels = [
        f"({', '.join(map(str, tap.pixel))})"
        if tap.pixel is not None
        else f"{dropped} ({', '.join(str(along.index) for along in tap.along)})"
        for tap in explanation.taps
    ]
    columns: list[Column] = [("", f"pixel ({', '.join(names)})", "<", pixels)]
    for a, name in enumerate(names):
        weights = decimals(tap.along[a].weight for tap in explanation.taps)
        columns.append((" * " if a else "   ", f"weight {name}", ">", weights))
    if len(names) > 1:
        columns.append((" = ", "weight", ">", decimals(tap.weight for tap in explanation.taps)))
    quantity = "value" if explanation.coefficients is None else "coefficient"
    for before, header, numbers in (
        (" * ", quantity, decimals(tap.value for tap in explanation.taps)),
        (" = ", "adds", decimals(tap.product for tap in explanation.taps)),
    ):
        cells = [
            "" if tap.pixel is None and not explanation.filled else number
            for tap, number in zip(explanation.taps, numbers, strict=True)
        ]
        columns.append((before, header, ">", cells))
    yield from _table(*columns)


def _result_rows(explanation: Sample) -> Iterator[Row]:
    """Yield the lines on the value and the gradient."""
    winner = "the value with the largest sum of weights"
    source = winner if explanation.votes else "the sum of the taps"
    yield "value", source, show(explanation.value), ""
    for steps, per_pixel, derivative in zip(
        explanation.axes, explanation.per_pixel, explanation.gradient, strict=True
    ):
        formula = f"{show(steps.slope)} * {term(per_pixel)}"
        remark = f"slope {steps.name} * the sum with d weight {steps.name} / dt"
        yield f"d value / d{steps.name}", formula, show(derivative), remark


def _footprint_lines(explanation: Sample) -> Iterator[str]:
    """Yield the lines on the footprint: its sides, the samples, and their mean."""
    for k, (side, n) in enumerate(zip(explanation.sides, explanation.counts, strict=True), start=1):
        vector = ", ".join(show(x) for x in side)
        yield f"  side {k} of the footprint: ({vector}), {n} sample{'s' if n > 1 else ''}"
    positions = [
        f"({', '.join(show(steps.position) for steps in each.axes)})"
        for each in explanation.samples
    ]
    values = decimals(each.value for each in explanation.samples)
    yield from _table(("", "position", "<", positions), ("   ", "value", ">", values))
    name = "winner of the vote of all taps" if explanation.votes else "mean"
    yield f"  {name} = {show(explanation.mean)}, the result with antialias=True"


def _step_table(rows: Iterable[Row]) -> Iterator[str]:
    """Format aligned lines of steps: name  formula = result   remark."""
    names, formulas, results, remarks = zip(*rows, strict=True)
    yield from _table(
        ("", "", "<", names),
        ("  ", "", "<", formulas),
        (" = ", "", "<", results),
        ("   ", "", "<", remarks),
    )


def _table(*columns: Column) -> Iterator[str]:
    """Format indented lines of aligned columns, below a line of headers if there are any."""
    marks, headers, alignments, cells = zip(*columns, strict=True)
    widths = [max(map(len, (header, *below))) for header, below in zip(headers, cells, strict=True)]
    blanks = tuple(" " * len(mark) for mark in marks)
    lines = [(headers, blanks)] if any(headers) else []
    lines += [(row, marks) for row in zip(*cells, strict=True)]
    for texts, between in lines:
        yield "  " + "".join(
            (mark if text else blank) + f"{text:{side}{width}}"
            for text, mark, blank, side, width in zip(
                texts, between, blanks, alignments, widths, strict=True
            )
        )


def show(number: float) -> str:
    """Format a number with up to six digits; zero has no sign.

    >>> show(-0.90000000001), show(-0.0), show(float("inf"))
    ('-0.9', '0', 'inf')
    """
    return f"{number + 0.0:.6g}"


def term(number: float) -> str:
    """Format a number as an operand: in parentheses if it is negative.

    >>> term(0.5), term(-0.5)
    ('0.5', '(-0.5)')
    """
    shown = show(number)
    return f"({shown})" if shown.startswith("-") else shown


def decimals(numbers: Iterable[float]) -> list[str]:
    """Format numbers with the same number of decimals, up to five, so that they align.

    >>> decimals([1, 0.25, -3.5])
    ['1.00', '0.25', '-3.50']
    """
    values = list(numbers)
    finite = [number for number in values if math.isfinite(number)]
    largest = max(map(abs, finite), default=0.0)
    if largest >= 1e7:
        return [show(number) for number in values]
    digits = 0
    while digits < 5 and any(abs(round(n, digits) - n) > 1e-7 * max(1, largest) for n in finite):
        digits += 1
    return [f"{round(number, digits) + 0.0:.{digits}f}" for number in values]


def polynomial(coefficients: Sequence[float]) -> str:
    """Format a polynomial in t, lowest power first.

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
