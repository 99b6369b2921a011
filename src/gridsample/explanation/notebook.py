"""Explanations in notebooks: tables, and a small drawing as SVG, without Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from gridsample.definitions import html
from gridsample.explanation.parts import NEGATIVE, POINT, POSITIVE, window
from gridsample.explanation.records import Sample, Tap
from gridsample.explanation.table import decimals, show

CELL = 44  # the side of a pixel, in the drawing's units
MOST_TAPS = 32  # the maximum number of rows of the table


def as_html(explanation: Sample) -> str:
    """Return tables of the axes and the taps, a drawing in 1-D and 2-D, and the printed text."""
    parts = [
        html.table(
            _axis_rows(explanation), ("axis", "coordinate", "position", "sampled", "t", "slope")
        )
    ]
    if explanation.taps:
        taps = sorted(explanation.taps, key=lambda tap: -abs(tap.weight))[:MOST_TAPS]
        names = ", ".join(steps.name for steps in explanation.axes)
        quantity = "value" if explanation.coefficients is None else "coefficient"
        parts.append(html.table(_tap_rows(taps), (f"pixel ({names})", "weight", quantity, "adds")))
        if len(taps) < len(explanation.taps):
            parts.append(
                html.paragraph(f"and {len(explanation.taps) - len(taps)} taps of smaller weight")
            )
    gradient = ", ".join(
        f"d/d{steps.name} = {show(slope)}"
        for steps, slope in zip(explanation.axes, explanation.gradient, strict=True)
    )
    parts.append(html.paragraph(f"value = {show(explanation.value)}, {gradient}"))
    drawing = _drawing(explanation) if explanation.taps and len(explanation.axes) < 3 else ""
    text = f"<details><summary>all steps</summary><pre>{escape(str(explanation))}</pre></details>"
    return f"<div>{drawing}{''.join(parts)}{text}</div>"


def _axis_rows(explanation: Sample) -> Iterator[tuple[str, ...]]:
    for steps in explanation.axes:
        numbers = ("", "", "")
        if steps.taps:
            numbers = show(steps.sampled), show(steps.t), show(steps.slope)
        place = "nowhere" if steps.nowhere else show(steps.position)
        yield (
            f"{steps.name}: {steps.size} px, {steps.method.name}, {steps.boundary}",
            show(steps.coordinate),
            place,
            *numbers,
        )


def _tap_rows(taps: list[Tap]) -> Iterator[tuple[str, ...]]:
    weights, values, products = (
        decimals(numbers)
        for numbers in (
            [tap.weight for tap in taps],
            [tap.value for tap in taps],
            [tap.product for tap in taps],
        )
    )
    for tap, weight, value, product in zip(taps, weights, values, products, strict=True):
        place = ", ".join(str(along.index) for along in tap.along)
        pixel = "dropped" if tap.pixel is None else ", ".join(map(str, tap.pixel))
        yield f"({place})" if pixel == place else f"({place}): {pixel}", weight, value, product


# The drawing --------------------------------------------------------------------------------------


def _drawing(explanation: Sample) -> str:
    """Draw the pixels around the taps, the taps as discs, and the point as SVG."""
    columns = window(explanation.axes[0])
    rows = window(explanation.axes[1]) if len(explanation.axes) == 2 else range(1)

    def place(x: float, y: float) -> tuple[float, float]:
        return (x - columns[0] + 0.5) * CELL, (y - rows[0] + 0.5) * CELL

    shapes = [*_pixels(explanation, columns, rows)]
    for tap in explanation.taps:
        x, y = place(tap.along[0].index, tap.along[1].index if len(tap.along) == 2 else 0)
        radius = 0.44 * CELL * math.sqrt(min(abs(tap.weight), 1.0))
        colour = NEGATIVE if tap.weight < 0 else POSITIVE
        filled = f'fill="{colour}" fill-opacity="0.35"' if tap.pixel is not None else 'fill="none"'
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {filled} stroke="{colour}"/>'
        )
    (x, y), dot = (
        place(quantities[0], quantities[1] if len(quantities) == 2 else 0)
        for quantities in (
            [steps.position for steps in explanation.axes],
            [steps.sampled for steps in explanation.axes],
        )
    )
    if max(map(abs, (x, y, *dot))) < 1e6:  # else far outside, or infinite
        shapes.append(
            f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10" stroke="{POINT}" '
            'stroke-width="2" fill="none"/>'
            f'<circle cx="{dot[0]:.1f}" cy="{dot[1]:.1f}" r="3" fill="{POINT}"/>'
        )
    width, height = len(columns) * CELL, len(rows) * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="10">'
        f"<title>{escape(_title(explanation))}</title>"
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(shapes)}</svg>'
    )


def _pixels(explanation: Sample, columns: range, rows: range) -> Iterator[str]:
    """Yield the squares of pixels with their values; those outside are pale and empty."""
    for j, y in enumerate(rows):
        for i, x in enumerate(columns):
            pixel = (x, y)[: len(explanation.axes)]
            inside = all(0 <= p < n for p, n in zip(pixel, explanation.size, strict=True))
            yield (
                f'<rect x="{i * CELL + 1}" y="{j * CELL + 1}" width="{CELL - 2}" '
                f'height="{CELL - 2}" fill="{"#dce6f2" if inside else "#f6f8fb"}" '
                f'stroke="#c3cddb"/>'
            )
            if inside:
                yield (
                    f'<text x="{i * CELL + 4}" y="{j * CELL + 12}" fill="#1e293b">'
                    f"{explanation.read(pixel):.4g}</text>"
                )


def _title(explanation: Sample) -> str:
    at = ", ".join(f"{steps.name} = {show(steps.position)}" for steps in explanation.axes)
    return f"A sample at the position {at}, in pixels: squares are pixels, discs are taps"
