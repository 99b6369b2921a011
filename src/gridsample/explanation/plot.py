"""Pictures of explanations; Matplotlib is imported when the first one is drawn.

`explain` draws one sample.  An image with two axes is drawn as a plane of pixels.  An image with
one or three axes is drawn as one strip of pixels per axis, below the curve of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.footprints import pixels_per_unit
from gridsample.definitions.plan import BOUNDARIES
from gridsample.explanation.tapwise import AxisSteps, Explanation, Tap
from gridsample.io import replacing, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, PALE = "#1e293b", "#8592a6", "#c3cddb"
LOW, HIGH = (0.95, 0.965, 0.985), (0.72, 0.79, 0.88)  # the smallest and the largest pixel
POSITIVE, NEGATIVE = "#2563eb", "#ea580c"  # weights
POINT = "#be123c"  # the point and its folds
CORNERS = "#047857"  # the positions of -1 and 1
SAMPLES = "#7c3aed"  # the footprint and its samples

MOST = 16  # the maximum number of pixels that are drawn along an axis
RADIUS = 0.44  # of the disc of a weight of 1, in pixels
# Heights in a strip relative to its row of pixels: its ends, the weight 0, and a weight of 1.
BOTTOM, TOP, FLOOR, RISE = -0.75, 3.2, 1.1, 1.7
SHARE = 0.74  # the share of the height that remains for strips next to their scales


def explain(
    explanation: Explanation, path: str | Path | None = None, *, ax: Axes | None = None
) -> Figure:
    """Draw one sample, tap by tap.

    Discs are the taps; their areas are the weights.  Squares are pixels with their values.  If taps
    weigh the coefficients of a spline instead, the coefficient is written below the value and
    determines the shade of the square.  A cross is the given point, and a dot the sampled position;
    an arrow is a fold or clamp.  Dashed lines show the coordinates -1 and 1.  Pixels outside the
    image, as the boundary defines them, are paler.  Only the surroundings of the taps are drawn if
    the image is large.  The footprint, if its sides were given, is drawn as a parallelogram with a
    plus at each sample, for images with two axes.

    Args:
        explanation: the result of `gridsample.explain`.
        path: a file to write, whose suffix determines the format.  An existing file is replaced.
            The file appears complete or not at all.
        ax: Matplotlib's axes to draw in; None for a new figure.

    Returns:
        The figure.

    Raises:
        ImportError: Matplotlib is not installed; the message says how to install it.
        OSError: the file cannot be written.

    Example:
        >>> import gridsample, gridsample.explanation.plot
        >>> one = gridsample.explain((4, 4), (-1.2, 1.3), padding_mode="reflection")
        >>> figure = gridsample.explanation.plot.explain(one)
        >>> figure.axes[0].get_title(loc="left")
        'linear, reflection, align_corners=False'
    """
    require("matplotlib")
    if ax is None:
        ax = _new_axes(explanation)
    if len(explanation.axes) == 2:
        _draw_plane(ax, explanation)
    else:
        _draw_strips(ax, explanation)
    _entitle(ax, explanation)
    figure: Figure = ax.figure.figure  # for a subfigure, the figure that contains it
    if path is not None:
        with replacing(Path(path), overwrite=True) as beside:
            figure.savefig(beside, dpi=160, bbox_inches="tight", pad_inches=0.2, facecolor="white")
    return figure


def _new_axes(one: Explanation) -> Axes:
    """Create a new figure with the proportions of the drawing, and its axes."""
    from matplotlib.figure import Figure

    widths = [len(window(steps)) for steps in one.axes]
    strips = (TOP - BOTTOM) * (1 if len(widths) == 1 else len(widths) / SHARE)
    wide, high = widths if len(widths) == 2 else (max(widths), strips)
    pixel = min(0.8, 7.2 / wide, 8.0 / high)  # in inches
    return Figure((wide * pixel, high * pixel)).add_axes((0.0, 0.0, 1.0, 1.0))


def window(steps: AxisSteps) -> range:
    """Choose the pixels to draw: those around the taps, and the image and path if there is room.

    >>> import gridsample
    >>> window(gridsample.explain((4,), (0.9,)).axes[0])
    range(-1, 6)
    >>> window(gridsample.explain((1000,), (0.9,)).axes[0])
    range(945, 955)
    """
    places = [float(tap.index) for tap in steps.taps] or [0.0]
    near = [min(places) - 3, max(places) + 3]
    image = [0.0, steps.size - 1.0]
    read = [float(tap.pixel) for tap in steps.taps if tap.pixel is not None]
    for more in (read, image if steps.size <= MOST - 2 else near, *([p] for p in steps.path[::-1])):
        wider = [*places, *more]
        if all(map(math.isfinite, more)) and max(wider) - min(wider) < MOST - 2:
            places = wider
    return range(round(min(places)) - 1, round(max(places)) + 2)


def _drawn(steps: AxisSteps, place: float) -> bool:
    pixels = window(steps)
    return pixels[0] - 0.5 <= place <= pixels[-1] + 0.5


# ---- two axes: a plane --------------------------------------------------------------------------


def _draw_plane(ax: Axes, one: Explanation) -> None:
    x, y = one.axes
    columns, rows = window(x), window(y)
    _open(ax, columns, rows[-1] + 0.5, rows[0] - 0.5)
    _draw_pixels(ax, [[_square(one, (i, j)) for i in columns] for j in rows], x, y)
    _draw_extremes(ax, x, y)
    for tap in one.taps:
        place = tuple(along.index for along in tap.along)
        _draw_tap(ax, place, tap.pixel, tap.weight)
        _write_weight(ax, tap, (x.sampled, y.sampled))
    if one.nowhere or one.outside:
        _draw_nowhere(ax, one.axes)
    else:
        first = [(place, y.position) for place in _stations(x)]
        _draw_path(ax, first + [(x.sampled, place) for place in _stations(y)[1:]])
    if one.samples:
        _draw_footprint(ax, one)
    _draw_scales(ax, x, y)


def _draw_footprint(ax: Axes, one: Explanation) -> None:
    """Draw the parallelogram of the footprint, and its samples."""
    from matplotlib.patches import Polygon

    units = pixels_per_unit(one.size[::-1], one.axes[0].coords, one.axes[0].align_corners)
    first, second = ([x * unit for x, unit in zip(s, units, strict=True)] for s in one.sides)
    middle = [steps.position for steps in one.axes]
    around = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    corners = [
        [m + a * u + b * v for m, u, v in zip(middle, first, second, strict=True)]
        for a, b in around
    ]
    ax.add_patch(Polygon(corners, facecolor="none", edgecolor=SAMPLES, linewidth=1.5, zorder=6))
    for sample in one.samples:
        place = [steps.position for steps in sample.axes]
        ax.plot(*place, "+", color=SAMPLES, markersize=9, markeredgewidth=1.8, zorder=7)


class Square(NamedTuple):
    """A drawn pixel: the number that shades it, if there is one, and its text."""

    value: float | None
    text: str = ""


def _square(one: Explanation, index: Sequence[int]) -> Square:
    """Return the square of the pixel that a tap at this index reads; empty if it is dropped."""
    pixel = [_fold(steps, i) for steps, i in zip(one.axes, index, strict=True)]
    inside = [i for i in pixel if i is not None]
    if len(inside) < len(pixel):
        return Square(one.fill, _value_text(one.fill)) if one.filled else Square(None)
    text, weighed = _value_text(one.read(inside)), one.weighed(inside)
    if one.coefficients is not None:
        text += f"\n→ {_number(weighed, 3)}"
    return Square(weighed, text)


def _numbered(steps: AxisSteps, index: int) -> Square:
    """Return the square of the pixel along one axis that a tap reads, with its index as text."""
    pixel = _fold(steps, index)
    return Square(None) if pixel is None else Square(float(pixel), str(pixel))


def _fold(steps: AxisSteps, index: int) -> int | None:
    """Return the pixel along one axis that a tap at this index reads; None if it is dropped."""
    boundary = BOUNDARIES[steps.boundary]
    edge = boundary.edge_for(steps.align_corners)
    pixel = int(axis.fold_index(index, steps.size, boundary.code, edge))
    return None if pixel == axis.DROPPED else pixel


def _write_weight(ax: Axes, tap: Tap, sampled: tuple[float, float]) -> None:
    """Write a weight into its disc, or above a small disc, away from the sampled point."""
    (i, j), (x, y) = (along.index for along in tap.along), sampled
    radius = _radius(tap.weight)
    fits = radius > 0.27
    up = 0.0 if fits else radius + 0.15
    if abs(x - i) < 0.4 and abs(y - j + up) < 0.25:
        up = math.copysign(0.24, y - j) if fits else -up
    on_disc = fits and tap.pixel is not None
    ax.annotate(
        _weight(tap.weight),
        (i, j - up),
        ha="center",
        va="center_baseline",
        fontsize=min(9.5, _points(ax, 0.2)),
        color="white" if on_disc else INK if tap.weight and tap.pixel else GREY,
        fontweight="bold" if on_disc else "normal",
        zorder=8,
        path_effects=_halo(_colour(tap.weight) if on_disc else "white"),
    )


# ---- one or three axes: strips ------------------------------------------------------------------


def _draw_strips(ax: Axes, one: Explanation) -> None:
    """Draw a strip for each axis, below each other and in the same scale."""
    count = len(one.axes)
    wide = max(len(window(steps)) for steps in one.axes)
    ax.axis("off")
    for k, steps in enumerate(one.axes):
        height = 1.0 if count == 1 else SHARE / count
        strip = ax.inset_axes((0.0, 1 - (k + 1) / count, 1.0, height))
        pixels = window(steps)
        if count == 1:
            row = [_square(one, (i,)) for i in pixels]
        else:
            row = [_numbered(steps, i) for i in pixels]
            name = f"{steps.name}:  {steps.method.name}, {steps.boundary}"
            strip.set_title(name, loc="left", fontsize=10, color=INK, pad=8)
        _open(strip, range(pixels[0], pixels[0] + wide), BOTTOM, TOP)
        _draw_strip(strip, steps, row)


def _draw_strip(ax: Axes, steps: AxisSteps, row: Sequence[Square]) -> None:
    _draw_pixels(ax, [row], steps, None)
    _draw_extremes(ax, steps, None)
    _draw_scales(ax, steps, None)
    if not steps.taps:
        _draw_nowhere(ax, [steps])
        return
    _draw_curve(ax, steps)
    for tap in steps.taps:
        pixel = None if tap.pixel is None else (tap.pixel, 0)
        _draw_tap(ax, (tap.index, 0), pixel, tap.weight)
    _draw_path(ax, [(place, 0.0) for place in _stations(steps)])


def _draw_curve(ax: Axes, steps: AxisSteps) -> None:
    """Draw the weight as a function of the tap's position, and the taps on the curve."""
    method, pixels = steps.method, window(steps)
    t = np.linspace(-0.5, 0.5, 41) if method.rounds else np.linspace(0.0, 1.0, 41)
    ax.plot((pixels[0] - 0.5, pixels[-1] + 0.5), (FLOOR, FLOOR), color=PALE, lw=1, zorder=1)
    for k, row in enumerate(method.table):
        place = steps.sampled + method.first + k - t
        height = FLOOR + RISE * np.polynomial.polynomial.polyval(t, row)
        ax.plot(place, height, color=POSITIVE, lw=1.4, alpha=0.6, zorder=2)
        ax.fill_between(place, height, FLOOR, color=POSITIVE, alpha=0.08, lw=0, zorder=1)
    for tap in steps.taps:
        colour = GREY if tap.pixel is None else _colour(tap.weight)
        top = FLOOR + RISE * tap.weight
        ax.plot((tap.index, tap.index), (FLOOR, top), color=colour, lw=1.2, ls=":", zorder=2)
        ax.plot(tap.index, top, "o", color=colour, ms=5, zorder=3)
        ax.annotate(
            _weight(tap.weight),
            (tap.index, top),
            (0, 6 if tap.weight >= 0 else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if tap.weight >= 0 else "top",
            fontsize=min(9.5, _points(ax, 0.22)),
            color=INK,
            zorder=8,
            path_effects=_halo(),
        )


# ---- parts of planes and strips -----------------------------------------------------------------


def _open(ax: Axes, columns: range, bottom: float, top: float) -> None:
    """Prepare axes that show these columns of pixels as squares, without a frame."""
    ax.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)
    locator: Any = ax.get_axes_locator()
    ax.apply_aspect(locator and locator(ax, None))  # determines the size of the axes


def _points(ax: Axes, pixels: float) -> float:
    """Convert a length in pixels of the image to points, for sizes of text."""
    low, high = ax.get_xlim()
    return pixels * ax.bbox.width / (high - low) * 72 / ax.figure.dpi


def _draw_pixels(
    ax: Axes, rows: Sequence[Sequence[Square]], x: AxisSteps, y: AxisSteps | None
) -> None:
    """Draw pixels, shaded by their values; those outside are paler."""
    from matplotlib.patches import Rectangle

    shading = [one.value for row in rows for one in row if one.value is not None]
    known = list(filter(math.isfinite, shading))
    low, high = min(known, default=0.0), max(known, default=0.0)
    below = 0.44 if y else -0.44
    lines = [line for row in rows for one in row for line in one.text.splitlines()]
    legible = _points(ax, 1) > 5 * max(map(len, lines), default=0)
    above: dict[str, Any] = {"zorder": 8, "path_effects": _halo()}  # two lines reach under discs
    for j, row in enumerate(rows, window(y)[0] if y else 0):
        for i, one in zip(window(x), row, strict=True):
            inside = 0 <= i < x.size and (y is None or 0 <= j < y.size)
            colour = _shade(one.value, low, high)
            if not inside:
                colour = 0.4 * colour + 0.6
            square = Rectangle((i - 0.5, j - 0.5), 1, 1, facecolor=colour, edgecolor="white", lw=1)
            ax.add_patch(square)
            if one.text and legible:
                ax.annotate(
                    one.text,
                    (i + 0.45, j + below),
                    ha="right",
                    va="bottom",
                    fontsize=min(8, _points(ax, 0.17)),
                    color=GREY if inside else PALE,
                    **(above if "\n" in one.text else {}),
                )
    height = y.size if y else 1
    ax.add_patch(Rectangle((-0.5, -0.5), x.size, height, fill=False, edgecolor=INK, lw=1.3))


def _value_text(value: float) -> str:
    return _number(value, 6 if value == round(value, 3) else 3)


def _shade(value: float | None, low: float, high: float) -> Any:
    """The colour of a pixel; a dropped pixel is white."""
    if value is None:
        return np.ones(3)
    share = 0.0
    if high > low and math.isfinite(value):
        share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves avoid overflow
    return np.array(LOW) + (np.array(HIGH) - LOW) * share


def _draw_extremes(ax: Axes, x: AxisSteps, y: AxisSteps | None) -> None:
    """Draw lines at the coordinates -1 and 1, which are also the mirrors of "reflection".

    Coordinates that count pixels mean neither.
    """
    if not any(_has_extremes(steps) for steps in (x, y) if steps):
        return
    (left, right), dashed = x.corners, (0, (4, 3))
    if y is None:
        for place in {left, right}:
            ax.plot((place, place), (-0.5, ax.get_ylim()[1]), color=CORNERS, lw=1.5, ls=dashed)
        return
    top, bottom = y.corners
    for place in {left, right}:
        ax.axvline(place, color=CORNERS, lw=0.8, alpha=0.35)
    for place in {top, bottom}:
        ax.axhline(place, color=CORNERS, lw=0.8, alpha=0.35)
    box = (left, right, right, left, left), (top, top, bottom, bottom, top)
    ax.plot(*box, color=CORNERS, lw=1.5, ls=dashed, zorder=4)
    ax.plot((left, right), (top, bottom), "o", color=CORNERS, ms=5, zorder=4)


def _has_extremes(steps: AxisSteps) -> bool:
    return steps.coords == "normalized" or steps.boundary == "reflection"


def _draw_tap(ax: Axes, place: Any, pixel: Any, weight: float) -> None:
    """Draw a disc whose area is the weight, with a line to the pixel if that is elsewhere."""
    from matplotlib.patches import Circle, FancyArrowPatch

    look: dict[str, Any] = {"facecolor": _colour(weight), "edgecolor": "white", "lw": 0.8}
    if pixel is None:
        dashed = (0, (3, 2)) if abs(weight) > 0.1 else "-"
        look = {"facecolor": "none", "edgecolor": GREY, "ls": dashed, "lw": 1.2}
    elif pixel != place and weight:
        line: dict[str, Any] = {
            "arrowstyle": "-|>",
            "connectionstyle": "arc3,rad=0.25",
            "mutation_scale": 7,
        }
        ax.add_patch(FancyArrowPatch(place, pixel, **line, color=GREY, lw=0.8, alpha=0.7, zorder=5))
    ax.add_patch(Circle(place, _radius(weight), zorder=5, alpha=0.85, **look))


def _radius(weight: float) -> float:
    """The radius of a disc whose area is the weight; it is positive even for a weight of 0."""
    return max(RADIUS * math.sqrt(abs(weight)), 0.05)


def _stations(steps: AxisSteps) -> tuple[float, ...]:
    """The positions of a path, or only its ends if it leaves the drawing in between."""
    if all(_drawn(steps, place) for place in steps.path[1:]):
        return steps.path
    return steps.position, steps.sampled


def _draw_path(ax: Axes, path: Sequence[tuple[float, float]]) -> None:
    """Draw arrows from the given point, fold by fold, to the sampled position."""
    from matplotlib.patches import FancyArrowPatch

    limits = np.sort([ax.get_xlim(), ax.get_ylim()])
    places = np.clip(path, limits[:, 0] + 0.2, limits[:, 1] - 0.2)
    for before, after in pairwise(places):
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
    ax.plot(*places[1:-1].T, "o", color=POINT, ms=4, zorder=7)
    ax.plot(*places[0], "x", color=POINT, ms=9, mew=2.2, zorder=7)
    ax.plot(*places[-1], "o", color=POINT, ms=7, mec="white", mew=1.2, zorder=7)


def _bend(ax: Axes, before: Any, after: Any, bend: float) -> float:
    """The curvature of an arrow, towards the side on which it stays in the drawing."""
    turn = np.array((-1, 1) if ax.yaxis_inverted() else (1, -1))
    peak = (before + after) / 2 + bend / 2 * turn * (after - before)[::-1]
    low, high = np.sort([ax.get_xlim(), ax.get_ylim()]).T
    return bend if np.all((low < peak) & (peak < high)) else -bend


def _draw_nowhere(ax: Axes, axes: Sequence[AxisSteps]) -> None:
    """Write which coordinates are nowhere or outside."""
    ax.annotate(
        "\n".join(
            f"{steps.name} = {_number(steps.coordinate)} is "
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
        path_effects=_halo(),
    )


def _draw_scales(ax: Axes, x: AxisSteps, y: AxisSteps | None) -> None:
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
    ax: Axes, name: str, corner: tuple[int, int], offset: tuple[int, int], **look: Any
) -> None:
    units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(name, corner, offset, fontsize=8, **units, **look)


def _coordinates(steps: AxisSteps) -> tuple[list[float], list[str]]:
    """Choose positions and their coordinates: -1, 0 and 1 if at least two of them are drawn.

    If coordinates are in pixels, the first and the last pixel of the image are chosen.
    """
    if steps.coords != "normalized":
        ends = [float(place) for place in {0, steps.size - 1} if _drawn(steps, place)]
        drawn = ends or [float(window(steps)[0])]
        zero = steps.index if steps.coords == "displacement" else 0
        return drawn, [_number(place - zero) for place in drawn]
    low, high = steps.corners
    if low == high:
        return [low], ["−1 to 1"]
    drawn = [place for place in (low, (low + high) / 2, high) if _drawn(steps, place)]
    if len(drawn) < 2:
        pixels = window(steps)
        drawn = [float(pixels[1]), float(pixels[-2])]
    return drawn, [_number(2 * (place - low) / (high - low) - 1, 4) for place in drawn]


def _entitle(ax: Axes, one: Explanation) -> None:
    """Write the title, the results and the legend."""
    from matplotlib.transforms import offset_copy

    names = ([steps.method.name for steps in one.axes], [steps.boundary for steps in one.axes])
    words = [" / ".join(dict.fromkeys(each)) for each in names if len(one.axes) < 3]
    first = one.axes[0]
    if any(map(_has_extremes, one.axes)):
        words.append(f"align_corners={first.align_corners}")
    if first.coords != "normalized":
        words.append(f"coords={first.coords}")
    title = ", ".join(words)
    pad = 24 if len(one.axes) < 3 else 0  # room for the scale; three strips have it below names
    ax.set_title(title, loc="left", fontsize=12, color=INK, pad=pad, fontweight="bold")
    results = f"value = {_number(one.value)}      gradient = {_tuple(one.gradient)}"
    figure = ax.figure.figure
    below = offset_copy(ax.transAxes, figure, 0, -26, units="points")
    ax.text(0, 0, results, transform=below, va="top", fontsize=11, color=INK)
    ax.legend(
        handles=_signs(one),
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


def _signs(one: Explanation) -> list[Any]:
    """The legend's entries for everything that is drawn."""
    from matplotlib.lines import Line2D

    def disc(label: str, **look: Any) -> Line2D:
        return Line2D([], [], ls="none", marker="o", ms=9, label=label, **look)

    signs: list[Any] = []
    if one.taps:
        given = f"coordinate {_tuple(steps.coordinate for steps in one.axes)}"
        given += f", position {_tuple(steps.position for steps in one.axes)}"
        if not all(_drawn(steps, steps.position) for steps in one.axes):
            given += ", farther out than drawn"
        cross: dict[str, Any] = {"marker": "x", "ms": 8, "mew": 2.2, "color": POINT, "ls": "none"}
        signs.append(Line2D([], [], label=given, **cross))
        sampled = f"sampled at {_tuple(steps.sampled for steps in one.axes)}"
        signs.append(disc(sampled, color=POINT))
    if one.samples and len(one.axes) == 2:
        look: dict[str, Any] = {"marker": "+", "ms": 9, "mew": 1.8, "color": SAMPLES, "ls": "none"}
        signs.append(Line2D([], [], label="sample of the footprint", **look))
    mirrors = any(steps.boundary == "reflection" for steps in one.axes)
    label = "coordinates −1 and 1" + (", the mirrors" if mirrors else "")
    if one.axes[0].coords != "normalized":
        label = "the mirrors"
    marked = [steps for steps in one.axes if _has_extremes(steps)]
    if any(_drawn(steps, corner) for steps in marked for corner in steps.corners):
        signs.append(Line2D([], [], color=CORNERS, lw=1.5, ls=(0, (4, 3)), label=label))
    if any(tap.pixel is not None and tap.weight >= 0 for tap in one.taps):
        signs.append(disc("tap, as large as its weight", color=POSITIVE))
    if any(tap.pixel is not None and tap.weight < 0 for tap in one.taps):
        signs.append(disc("tap with a negative weight", color=NEGATIVE))
    if any(tap.pixel is None for tap in one.taps):
        label = "tap that weighs the fill value" if one.filled else "tap that is dropped"
        signs.append(disc(label, mfc="none", mec=GREY, mew=1.2))
    if one.coefficients is not None:
        orders = " / ".join(dict.fromkeys(str(n) for n in one.prefilters if n > 1))
        written = "pixel, and below it the coefficient"
        what = written if len(one.axes) < 3 else "taps weigh coefficients"
        label = f"prefilter of order {orders}: {what}"
        signs.append(Line2D([], [], ls="none", marker="$→$", ms=9, color=GREY, label=label))
    return signs


def _colour(weight: float) -> str:
    return NEGATIVE if weight < 0 else POSITIVE


def _weight(weight: float) -> str:
    """Format a weight with three decimals."""
    return "≈ 0" if 0 < abs(weight) < 0.0005 else _number(round(weight, 3))


def _tuple(numbers: Iterable[float]) -> str:
    """Format numbers for typesetting; several are enclosed in brackets."""
    written = [_number(number) for number in numbers]
    return written[0] if len(written) == 1 else f"({', '.join(written)})"


def _number(number: float, digits: int = 6) -> str:
    """Format a number for typesetting."""
    return f"{number + 0.0:.{digits}g}".replace("-", "−")


def _halo(colour: str = "white") -> list[Any]:
    """The outline that keeps text legible on any background."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground=colour, alpha=0.85)]
