"""Explanations in notebooks: tables, and a small drawing as SVG, without Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from gridsample.explanation.parts import NEGATIVE, POINT, POSITIVE, window
from gridsample.explanation.records import Sample, Tap
from gridsample.explanation.table import decimals, show
from gridsample.messages import html

SIDE = 44  # the side of a pixel, in the drawing's units
MAX_ROWS = 32  # the maximum number of rows of the table


def as_html(explanation: Sample) -> str:
    """Return tables of the axes and the taps, a drawing in 1-D and 2-D, and the printed text."""
    parts = [
        html.table(
            _axis_rows(explanation), ("axis", "coordinate", "position", "sampled", "t", "slope")
        )
    ]
    if explanation.taps:
        taps = sorted(explanation.taps, key=lambda tap: -abs(tap.weight))[:MAX_ROWS]
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
        position = "nowhere" if steps.nowhere else show(steps.position)
        yield (
            f"{steps.name}: {steps.size} px, {steps.method.name}, {steps.boundary}",
            show(steps.coordinate),
            position,
            *numbers,
        )


def _tap_rows(taps: list[Tap]) -> Iterator[tuple[str, ...]]:
    weights = decimals(tap.weight for tap in taps)
    values = decimals(tap.value for tap in taps)
    products = decimals(tap.product for tap in taps)
    for tap, *numbers in zip(taps, weights, values, products, strict=True):
        index = ", ".join(str(along.index) for along in tap.along)
        pixel = "dropped" if tap.pixel is None else ", ".join(map(str, tap.pixel))
        yield f"({index})" if pixel == index else f"({index}): {pixel}", *numbers


# The drawing --------------------------------------------------------------------------------------


def _drawing(explanation: Sample) -> str:
    """Draw the pixels around the taps, the taps as discs, and the point as SVG."""
    columns = window(explanation.axes[0])
    rows = window(explanation.axes[1]) if len(explanation.axes) == 2 else range(1)

    def drawn(position: Sequence[float]) -> tuple[float, float]:
        x, y = (*position, 0.0)[:2]
        return (x - columns[0] + 0.5) * SIDE, (y - rows[0] + 0.5) * SIDE

    shapes = [*_pixels(explanation, columns, rows)]
    for tap in explanation.taps:
        x, y = drawn([along.index for along in tap.along])
        radius = 0.44 * SIDE * math.sqrt(min(abs(tap.weight), 1.0))
        colour = NEGATIVE if tap.weight < 0 else POSITIVE
        filled = f'fill="{colour}" fill-opacity="0.35"' if tap.pixel is not None else 'fill="none"'
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {filled} stroke="{colour}"/>'
        )
    x, y = drawn([steps.position for steps in explanation.axes])
    dot = drawn([steps.sampled for steps in explanation.axes])
    if max(map(abs, (x, y, *dot))) < 1e6:  # else far outside, or infinite
        shapes.append(
            f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10" stroke="{POINT}" '
            'stroke-width="2" fill="none"/>'
            f'<circle cx="{dot[0]:.1f}" cy="{dot[1]:.1f}" r="3" fill="{POINT}"/>'
        )
    width, height = len(columns) * SIDE, len(rows) * SIDE
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
                f'<rect x="{i * SIDE + 1}" y="{j * SIDE + 1}" width="{SIDE - 2}" '
                f'height="{SIDE - 2}" fill="{"#dce6f2" if inside else "#f6f8fb"}" '
                f'stroke="#c3cddb"/>'
            )
            if inside:
                yield (
                    f'<text x="{i * SIDE + 4}" y="{j * SIDE + 12}" fill="#1e293b">'
                    f"{explanation.read(pixel):.4g}</text>"
                )


def _title(explanation: Sample) -> str:
    at = ", ".join(f"{steps.name} = {show(steps.position)}" for steps in explanation.axes)
    return f"A sample at the position {at}, in pixels: squares are pixels, discs are taps"
