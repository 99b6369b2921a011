"""Pictures of explanations; Matplotlib is imported when the first one is drawn.

`explain` draws one sample.  An image with two axes is drawn as a plane of pixels.  An image with
one or three axes is drawn as one strip of pixels per axis, below the curve of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.footprints import pixels_per_unit
from gridsample.explanation.parts import (
    GREY,
    INK,
    PALE,
    POSITIVE,
    SAMPLES,
    Square,
    add_title,
    disc_radius,
    draw_extremes,
    draw_invalid,
    draw_path,
    draw_pixels,
    draw_scales,
    draw_tap,
    drawn_path,
    in_points,
    number_text,
    open_axes,
    text_outline,
    value_text,
    weight_colour,
    weight_text,
    window,
)
from gridsample.explanation.records import AxisSteps, Sample, Tap
from gridsample.io import replacing, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Heights in a strip relative to its row of pixels: its ends, and where the weight 0 is; RISE is how
# far above that a weight of 1 is.
BOTTOM, TOP, FLOOR, RISE = -0.75, 3.2, 1.1, 1.7
STRIP_SHARE = 0.74  # the share of the height that remains for strips next to their scales


def explain(
    explanation: Sample, path: str | Path | None = None, *, ax: Axes | None = None
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
    add_title(ax, explanation)
    figure: Figure = ax.figure.figure  # for a subfigure, the figure that contains it
    if path is not None:
        with replacing(Path(path), overwrite=True) as temporary:
            figure.savefig(
                temporary, dpi=160, bbox_inches="tight", pad_inches=0.2, facecolor="white"
            )
    return figure


def _new_axes(explanation: Sample) -> Axes:
    """Create a new figure with the proportions of the drawing, and its axes."""
    from matplotlib.figure import Figure

    widths = [len(window(steps)) for steps in explanation.axes]
    strips = (TOP - BOTTOM) * (1 if len(widths) == 1 else len(widths) / STRIP_SHARE)
    wide, high = widths if len(widths) == 2 else (max(widths), strips)
    pixel = min(0.8, 7.2 / wide, 8.0 / high)  # in inches
    return Figure((wide * pixel, high * pixel)).add_axes((0.0, 0.0, 1.0, 1.0))


# ---- two axes: a plane --------------------------------------------------------------------------


def _draw_plane(ax: Axes, explanation: Sample) -> None:
    x, y = explanation.axes
    columns, rows = window(x), window(y)
    open_axes(ax, columns, rows[-1] + 0.5, rows[0] - 0.5)
    draw_pixels(ax, [[_square(explanation, (i, j)) for i in columns] for j in rows], x, y)
    draw_extremes(ax, x, y)
    for tap in explanation.taps:
        position = tuple(along.index for along in tap.along)
        draw_tap(ax, position, tap.pixel, tap.weight)
        _write_weight(ax, tap, (x.sampled, y.sampled))
    if explanation.nowhere or explanation.outside:
        draw_invalid(ax, explanation.axes)
    else:
        first = [(position, y.position) for position in drawn_path(x)]
        draw_path(ax, first + [(x.sampled, position) for position in drawn_path(y)[1:]])
    if explanation.samples:
        _draw_footprint(ax, explanation)
    draw_scales(ax, x, y)


def _draw_footprint(ax: Axes, explanation: Sample) -> None:
    """Draw the parallelogram of the footprint, and its samples."""
    from matplotlib.patches import Polygon

    steps = explanation.axes[0]
    units = pixels_per_unit(explanation.size[::-1], steps.coords, steps.align_corners)
    first, second = np.array(explanation.sides) * units
    middle = [steps.position for steps in explanation.axes]
    around = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    corners = [
        [m + a * u + b * v for m, u, v in zip(middle, first, second, strict=True)]
        for a, b in around
    ]
    ax.add_patch(Polygon(corners, facecolor="none", edgecolor=SAMPLES, linewidth=1.5, zorder=6))
    for sample in explanation.samples:
        position = [steps.position for steps in sample.axes]
        ax.plot(*position, "+", color=SAMPLES, markersize=9, markeredgewidth=1.8, zorder=7)


def _square(explanation: Sample, index: Sequence[int]) -> Square:
    """Return the square of the pixel that a tap at this index reads; empty if it is dropped."""
    pixel = [_fold(steps, i) for steps, i in zip(explanation.axes, index, strict=True)]
    inside = [i for i in pixel if i is not None]
    if len(inside) < len(pixel):
        fill = explanation.fill
        return Square(fill, value_text(fill)) if explanation.filled else Square(None)
    text, weighed = value_text(explanation.read(inside)), explanation.weighed(inside)
    if explanation.coefficients is not None:
        text += f"\n→ {number_text(weighed, 3)}"
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
    radius = disc_radius(tap.weight)
    fits = radius > 0.27
    up = 0.0 if fits else radius + 0.15
    if abs(x - i) < 0.4 and abs(y - j + up) < 0.25:
        up = math.copysign(0.24, y - j) if fits else -up
    on_disc = fits and tap.pixel is not None
    ax.annotate(
        weight_text(tap.weight),
        (i, j - up),
        ha="center",
        va="center_baseline",
        fontsize=min(9.5, in_points(ax, 0.2)),
        color="white" if on_disc else INK if tap.weight and tap.pixel else GREY,
        fontweight="bold" if on_disc else "normal",
        zorder=8,
        path_effects=text_outline(weight_colour(tap.weight) if on_disc else "white"),
    )


# ---- one or three axes: strips ------------------------------------------------------------------


def _draw_strips(ax: Axes, explanation: Sample) -> None:
    """Draw a strip for each axis, below each other and in the same scale."""
    count = len(explanation.axes)
    wide = max(len(window(steps)) for steps in explanation.axes)
    ax.axis("off")
    for k, steps in enumerate(explanation.axes):
        height = 1.0 if count == 1 else STRIP_SHARE / count
        strip = ax.inset_axes((0.0, 1 - (k + 1) / count, 1.0, height))
        pixels = window(steps)
        if count == 1:
            row = [_square(explanation, (i,)) for i in pixels]
        else:
            row = [_numbered(steps, i) for i in pixels]
            name = f"{steps.name}:  {steps.method.name}, {steps.boundary}"
            strip.set_title(name, loc="left", fontsize=10, color=INK, pad=8)
        open_axes(strip, range(pixels[0], pixels[0] + wide), BOTTOM, TOP)
        _draw_strip(strip, steps, row)


def _draw_strip(ax: Axes, steps: AxisSteps, row: Sequence[Square]) -> None:
    draw_pixels(ax, [row], steps, None)
    draw_extremes(ax, steps, None)
    draw_scales(ax, steps, None)
    if not steps.taps:
        draw_invalid(ax, [steps])
        return
    _draw_curve(ax, steps)
    for tap in steps.taps:
        pixel = None if tap.pixel is None else (tap.pixel, 0)
        draw_tap(ax, (tap.index, 0), pixel, tap.weight)
    draw_path(ax, [(position, 0.0) for position in drawn_path(steps)])


def _draw_curve(ax: Axes, steps: AxisSteps) -> None:
    """Draw the weight as a function of the tap's position, and the taps on the curve."""
    method, pixels = steps.method, window(steps)
    t = np.linspace(-0.5, 0.5, 41) if method.rounds else np.linspace(0.0, 1.0, 41)
    ax.plot((pixels[0] - 0.5, pixels[-1] + 0.5), (FLOOR, FLOOR), color=PALE, lw=1, zorder=1)
    for k, row in enumerate(method.table):
        position = steps.sampled + method.first + k - t
        height = FLOOR + RISE * np.polynomial.polynomial.polyval(t, row)
        ax.plot(position, height, color=POSITIVE, lw=1.4, alpha=0.6, zorder=2)
        ax.fill_between(position, height, FLOOR, color=POSITIVE, alpha=0.08, lw=0, zorder=1)
    for tap in steps.taps:
        colour = GREY if tap.pixel is None else weight_colour(tap.weight)
        top = FLOOR + RISE * tap.weight
        ax.plot((tap.index, tap.index), (FLOOR, top), color=colour, lw=1.2, ls=":", zorder=2)
        ax.plot(tap.index, top, "o", color=colour, ms=5, zorder=3)
        ax.annotate(
            weight_text(tap.weight),
            (tap.index, top),
            (0, 6 if tap.weight >= 0 else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if tap.weight >= 0 else "top",
            fontsize=min(9.5, in_points(ax, 0.22)),
            color=INK,
            zorder=8,
            path_effects=text_outline(),
        )
