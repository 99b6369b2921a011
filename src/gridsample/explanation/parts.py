"""Parts of the pictures of explanations: pixels, taps, paths, scales, titles and legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridsample.explanation.records import AxisSteps, Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY, PALE = "#1e293b", "#8592a6", "#c3cddb"
LIGHT, DARK = (0.95, 0.965, 0.985), (0.72, 0.79, 0.88)  # the smallest and the largest pixel
POSITIVE, NEGATIVE = "#2563eb", "#ea580c"  # weights
POINT = "#be123c"  # the point and its folds
CORNERS = "#047857"  # the positions of -1 and 1
SAMPLES = "#7c3aed"  # the footprint and its samples

MAX_PIXELS = 16  # the maximum number of pixels that are drawn along an axis
FULL_RADIUS = 0.44  # of the disc of a weight of 1, in pixels


def window(steps: AxisSteps) -> range:
    """Choose the pixels to draw: those around the taps, and the image and path if there is room.

    >>> import gridsample
    >>> window(gridsample.explain((4,), (0.9,)).axes[0])
    range(-1, 6)
    >>> window(gridsample.explain((1000,), (0.9,)).axes[0])
    range(945, 955)
    """
    indices = [float(tap.index) for tap in steps.taps] or [0.0]
    around_taps = [min(indices) - 3, max(indices) + 3]
    image = [0.0, steps.size - 1.0]
    read = [float(tap.pixel) for tap in steps.taps if tap.pixel is not None]
    for more in (
        read,
        image if steps.size <= MAX_PIXELS - 2 else around_taps,
        *([p] for p in steps.path[::-1]),
    ):
        wider = [*indices, *more]
        if all(map(math.isfinite, more)) and max(wider) - min(wider) < MAX_PIXELS - 2:
            indices = wider
    return range(round(min(indices)) - 1, round(max(indices)) + 2)


def _is_drawn(steps: AxisSteps, position: float) -> bool:
    pixels = window(steps)
    return pixels[0] - 0.5 <= position <= pixels[-1] + 0.5


class Square(NamedTuple):
    """A drawn pixel: the number that shades it, if there is one, and its text."""

    value: float | None
    text: str = ""


def open_axes(ax: Axes, columns: range, bottom: float, top: float) -> None:
    """Prepare axes that show these columns of pixels as squares, without a frame."""
    ax.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)
    locator: Any = ax.get_axes_locator()
    ax.apply_aspect(locator and locator(ax, None))  # determines the size of the axes


def in_points(ax: Axes, pixels: float) -> float:
    """Convert a length in pixels of the image to points, for sizes of text."""
    low, high = ax.get_xlim()
    return pixels * ax.bbox.width / (high - low) * 72 / ax.figure.dpi


def draw_pixels(
    ax: Axes, rows: Sequence[Sequence[Square]], x: AxisSteps, y: AxisSteps | None
) -> None:
    """Draw pixels, shaded by their values; those outside are paler."""
    from matplotlib.patches import Rectangle

    shading = [pixel.value for row in rows for pixel in row if pixel.value is not None]
    known = list(filter(math.isfinite, shading))
    low, high = min(known, default=0.0), max(known, default=0.0)
    below = 0.44 if y else -0.44
    lines = [line for row in rows for pixel in row for line in pixel.text.splitlines()]
    is_legible = in_points(ax, 1) > 5 * max(map(len, lines), default=0)
    # Two lines of text reach under the discs of taps, and are hence drawn above them.
    above: dict[str, Any] = {"zorder": 8, "path_effects": text_outline()}
    for j, row in enumerate(rows, window(y)[0] if y else 0):
        for i, pixel in zip(window(x), row, strict=True):
            inside = 0 <= i < x.size and (y is None or 0 <= j < y.size)
            colour = _shade(pixel.value, low, high)
            if not inside:
                colour = 0.4 * colour + 0.6
            square = Rectangle((i - 0.5, j - 0.5), 1, 1, facecolor=colour, edgecolor="white", lw=1)
            ax.add_patch(square)
            if pixel.text and is_legible:
                ax.annotate(
                    pixel.text,
                    (i + 0.45, j + below),
                    ha="right",
                    va="bottom",
                    fontsize=min(8, in_points(ax, 0.17)),
                    color=GREY if inside else PALE,
                    **(above if "\n" in pixel.text else {}),
                )
    height = y.size if y else 1
    ax.add_patch(Rectangle((-0.5, -0.5), x.size, height, fill=False, edgecolor=INK, lw=1.3))


def value_text(value: float) -> str:
    """Format a pixel's value: three significant digits, or six if it has at most three decimals."""
    return number_text(value, 6 if value == round(value, 3) else 3)


def _shade(value: float | None, low: float, high: float) -> Any:
    """The colour of a pixel; a dropped pixel is white."""
    if value is None:
        return np.ones(3)
    share = 0.0
    if high > low and math.isfinite(value):
        share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves avoid overflow
    return np.array(LIGHT) + (np.array(DARK) - LIGHT) * share


def draw_extremes(ax: Axes, x: AxisSteps, y: AxisSteps | None) -> None:
    """Draw lines at the coordinates -1 and 1, which are also the mirrors of "reflection".

    Coordinates in pixels have no such lines, except for the mirrors.
    """
    if not any(_has_extremes(steps) for steps in (x, y) if steps):
        return
    (left, right), dashed = x.corners, (0, (4, 3))
    if y is None:
        for position in {left, right}:
            ax.plot(
                (position, position), (-0.5, ax.get_ylim()[1]), color=CORNERS, lw=1.5, ls=dashed
            )
        return
    top, bottom = y.corners
    for position in {left, right}:
        ax.axvline(position, color=CORNERS, lw=0.8, alpha=0.35)
    for position in {top, bottom}:
        ax.axhline(position, color=CORNERS, lw=0.8, alpha=0.35)
    box = (left, right, right, left, left), (top, top, bottom, bottom, top)
    ax.plot(*box, color=CORNERS, lw=1.5, ls=dashed, zorder=4)
    ax.plot((left, right), (top, bottom), "o", color=CORNERS, ms=5, zorder=4)


def _has_extremes(steps: AxisSteps) -> bool:
    return steps.coords == "normalized" or steps.boundary == "reflection"


def draw_tap(ax: Axes, position: Any, pixel: Any, weight: float) -> None:
    """Draw a disc whose area is the weight, with a line to the pixel if that is elsewhere."""
    from matplotlib.patches import Circle, FancyArrowPatch

    style: dict[str, Any] = {"facecolor": weight_colour(weight), "edgecolor": "white", "lw": 0.8}
    if pixel is None:
        dashed = (0, (3, 2)) if abs(weight) > 0.1 else "-"
        style = {"facecolor": "none", "edgecolor": GREY, "ls": dashed, "lw": 1.2}
    elif pixel != position and weight:
        line: dict[str, Any] = {
            "arrowstyle": "-|>",
            "connectionstyle": "arc3,rad=0.25",
            "mutation_scale": 7,
        }
        ax.add_patch(
            FancyArrowPatch(position, pixel, **line, color=GREY, lw=0.8, alpha=0.7, zorder=5)
        )
    ax.add_patch(Circle(position, disc_radius(weight), zorder=5, alpha=0.85, **style))


def disc_radius(weight: float) -> float:
    """The radius of a disc whose area is the weight; it is positive even for a weight of 0."""
    return max(FULL_RADIUS * math.sqrt(abs(weight)), 0.05)


def drawn_path(steps: AxisSteps) -> tuple[float, ...]:
    """The positions of a path, or only its ends if it leaves the drawing in between."""
    if all(_is_drawn(steps, position) for position in steps.path[1:]):
        return steps.path
    return steps.position, steps.sampled


def draw_path(ax: Axes, path: Sequence[tuple[float, float]]) -> None:
    """Draw arrows from the given point, fold by fold, to the sampled position."""
    from matplotlib.patches import FancyArrowPatch

    limits = np.sort([ax.get_xlim(), ax.get_ylim()])
    points = np.clip(path, limits[:, 0] + 0.2, limits[:, 1] - 0.2)
    for before, after in pairwise(points):
        length = max(float(np.abs(after - before).sum()), 0.01)
        long = length > 0.5
        arrow = FancyArrowPatch(
            before,
            after,
            arrowstyle="-|>" if long else "-",
            connectionstyle=f"arc3,rad={_bend(ax, before, after, min(0.4, 1.2 / length))}",
            mutation_scale=12,
            shrinkB=5 if long else 0,
            color=POINT,
            lw=1.5,
            zorder=6,
        )
        ax.add_patch(arrow)
    ax.plot(*points[1:-1].T, "o", color=POINT, ms=4, zorder=7)
    ax.plot(*points[0], "x", color=POINT, ms=9, mew=2.2, zorder=7)
    ax.plot(*points[-1], "o", color=POINT, ms=7, mec="white", mew=1.2, zorder=7)


def _bend(ax: Axes, before: Any, after: Any, bend: float) -> float:
    """The curvature of an arrow, towards the side on which it stays in the drawing."""
    direction = np.array((-1, 1) if ax.yaxis_inverted() else (1, -1))
    peak = (before + after) / 2 + bend / 2 * direction * (after - before)[::-1]
    low, high = np.sort([ax.get_xlim(), ax.get_ylim()]).T
    return bend if np.all((low < peak) & (peak < high)) else -bend


def draw_invalid(ax: Axes, axes: Sequence[AxisSteps]) -> None:
    """Write which coordinates are nowhere or outside."""
    ax.annotate(
        "\n".join(
            f"{steps.name} = {number_text(steps.coordinate)} is "
            + ("nowhere" if steps.nowhere else "outside")
            for steps in axes
            if not steps.taps
        ),
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        va="center",
        fontsize=14,
        color=POINT,
        zorder=8,
        path_effects=text_outline(),
    )


def draw_scales(ax: Axes, x: AxisSteps, y: AxisSteps | None) -> None:
    """Draw scales: positions below and on the left, coordinates above and on the right."""
    ax.set_xticks(window(x))
    ax.set_yticks(window(y) if y else [])
    ax.tick_params(length=0, labelsize=8, labelcolor=GREY)
    _name_scale(ax, "position", (0, 0), (-7, -5), ha="right", va="top", color=GREY)
    _name_scale(ax, "coordinate", (0, 1), (-7, 5), ha="right", va="bottom", color=CORNERS)
    scales = [ax.secondary_xaxis("top")]
    scales[0].set_xticks(*_coordinates(x))
    if y is not None:
        scales.append(ax.secondary_yaxis("right"))
        scales[1].set_yticks(*_coordinates(y))
    for scale in scales:
        scale.tick_params(length=0, labelsize=9, labelcolor=CORNERS)
        scale.spines[:].set_visible(False)


def _name_scale(
    ax: Axes, name: str, corner: tuple[int, int], offset: tuple[int, int], **style: Any
) -> None:
    units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(name, corner, offset, fontsize=8, **units, **style)


def _coordinates(steps: AxisSteps) -> tuple[list[float], list[str]]:
    """Choose positions and their coordinates: -1, 0 and 1 if at least two of them are drawn.

    If coordinates are in pixels, the first and the last pixel of the image are chosen.
    """
    if steps.coords != "normalized":
        ends = [float(position) for position in {0, steps.size - 1} if _is_drawn(steps, position)]
        drawn = ends or [float(window(steps)[0])]
        zero = steps.index if steps.coords == "displacement" else 0
        return drawn, [number_text(position - zero) for position in drawn]
    low, high = steps.corners
    if low == high:
        return [low], ["−1 to 1"]
    drawn = [position for position in (low, (low + high) / 2, high) if _is_drawn(steps, position)]
    if len(drawn) < 2:
        pixels = window(steps)
        drawn = [float(pixels[1]), float(pixels[-2])]
    return drawn, [number_text(2 * (position - low) / (high - low) - 1, 4) for position in drawn]


def add_title(ax: Axes, explanation: Sample) -> None:
    """Write the title, the results and the legend."""
    from matplotlib.transforms import offset_copy

    first, options = explanation.axes[0], []
    if len(explanation.axes) < 3:
        options = [
            " / ".join(dict.fromkeys(steps.method.name for steps in explanation.axes)),
            " / ".join(dict.fromkeys(steps.boundary for steps in explanation.axes)),
        ]
    if any(map(_has_extremes, explanation.axes)):
        options.append(f"align_corners={first.align_corners}")
    if first.coords != "normalized":
        options.append(f"coords={first.coords}")
    title = ", ".join(options)
    # Room for the scale, which three strips have below their names.
    pad = 24 if len(explanation.axes) < 3 else 0
    ax.set_title(title, loc="left", fontsize=12, color=INK, pad=pad, fontweight="bold")
    results = (
        f"value = {number_text(explanation.value)}      gradient = {_tuple(explanation.gradient)}"
    )
    figure = ax.figure.figure
    below = offset_copy(ax.transAxes, figure, 0, -26, units="points")
    ax.text(0, 0, results, transform=below, va="top", fontsize=11, color=INK)
    ax.legend(
        handles=_legend_handles(explanation),
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=offset_copy(ax.transAxes, figure, 0, -46, units="points"),
        ncols=2 if ax.bbox.width > 5 * ax.figure.dpi else 1,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        borderpad=0,
        borderaxespad=0,
        columnspacing=3,
    )


def _legend_handles(explanation: Sample) -> list[Any]:
    """The legend's entries for everything that is drawn."""
    from matplotlib.lines import Line2D

    def disc(label: str, **style: Any) -> Line2D:
        return Line2D([], [], ls="none", marker="o", ms=9, label=label, **style)

    handles: list[Any] = []
    if explanation.taps:
        text = f"coordinate {_tuple(steps.coordinate for steps in explanation.axes)}"
        text += f", position {_tuple(steps.position for steps in explanation.axes)}"
        if not all(_is_drawn(steps, steps.position) for steps in explanation.axes):
            text += ", farther out than drawn"
        cross: dict[str, Any] = {"marker": "x", "ms": 8, "mew": 2.2, "color": POINT, "ls": "none"}
        handles.append(Line2D([], [], label=text, **cross))
        sampled = f"sampled at {_tuple(steps.sampled for steps in explanation.axes)}"
        handles.append(disc(sampled, color=POINT))
    if explanation.samples and len(explanation.axes) == 2:
        style: dict[str, Any] = {"marker": "+", "ms": 9, "mew": 1.8, "color": SAMPLES, "ls": "none"}
        handles.append(Line2D([], [], label="sample of the footprint", **style))
    mirrors = any(steps.boundary == "reflection" for steps in explanation.axes)
    label = "coordinates −1 and 1" + (", the mirrors" if mirrors else "")
    if explanation.axes[0].coords != "normalized":
        label = "the mirrors"
    marked = [steps for steps in explanation.axes if _has_extremes(steps)]
    if any(_is_drawn(steps, corner) for steps in marked for corner in steps.corners):
        handles.append(Line2D([], [], color=CORNERS, lw=1.5, ls=(0, (4, 3)), label=label))
    if any(tap.pixel is not None and tap.weight >= 0 for tap in explanation.taps):
        handles.append(disc("tap, as large as its weight", color=POSITIVE))
    if any(tap.pixel is not None and tap.weight < 0 for tap in explanation.taps):
        handles.append(disc("tap with a negative weight", color=NEGATIVE))
    if any(tap.pixel is None for tap in explanation.taps):
        label = "tap that weighs the fill value" if explanation.filled else "tap that is dropped"
        handles.append(disc(label, mfc="none", mec=GREY, mew=1.2))
    if explanation.coefficients is not None:
        orders = " / ".join(dict.fromkeys(str(n) for n in explanation.prefilters if n > 1))
        written = "pixel, and below it the coefficient"
        caption = written if len(explanation.axes) < 3 else "taps weigh coefficients"
        label = f"prefilter of order {orders}: {caption}"
        handles.append(Line2D([], [], ls="none", marker="$→$", ms=9, color=GREY, label=label))
    return handles


def weight_colour(weight: float) -> str:
    """The colour of a tap."""
    return NEGATIVE if weight < 0 else POSITIVE


def weight_text(weight: float) -> str:
    """Format a weight with three decimals."""
    return "≈ 0" if 0 < abs(weight) < 0.0005 else number_text(round(weight, 3))


def _tuple(numbers: Iterable[float]) -> str:
    """Format numbers for typesetting; several are enclosed in brackets."""
    written = [number_text(number) for number in numbers]
    return written[0] if len(written) == 1 else f"({', '.join(written)})"


def number_text(number: float, digits: int = 6) -> str:
    """Format a number for typesetting."""
    return f"{number + 0.0:.{digits}g}".replace("-", "−")


def text_outline(colour: str = "white") -> list[Any]:
    """The outline that keeps text legible on any background."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground=colour, alpha=0.85)]
