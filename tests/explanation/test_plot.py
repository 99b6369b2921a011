"""Drawings: what stands in them, and how they are written."""

import itertools
import math
import sys
from math import inf, nan

import cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsample
from gridsample.explanation import parts, plot
from gridsample.io import MissingExtraError

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.colors import same_color, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from PIL import Image


def discs(ax):
    return [patch for patch in ax.patches if isinstance(patch, Circle)]


def arrows(ax, colour):
    patches = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    return [patch for patch in patches if same_color(patch.get_edgecolor(), colour)]


def strips(ax):
    """The strips of a drawing, without the scales above them."""
    return [child for child in ax.child_axes if isinstance(child, Axes)]


def words(ax):
    """All that is written in a drawing."""
    texts = [ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)]
    if ax.get_legend():
        texts += [text.get_text() for text in ax.get_legend().get_texts()]
    return "\n".join([*texts, *map(words, strips(ax))])


def drawn(*arguments, **options):
    explanation = gridsample.explain(*arguments, **options)
    (ax,) = plot.explain(explanation).axes
    return explanation, ax


# ---- what is drawn ----------------------------------------------------------------------------


def test_a_disc_for_each_tap_as_large_as_its_weight():
    explanation, ax = drawn((5, 4), (-0.95, 0.3), "bicubic", "reflection")
    assert len(discs(ax)) == len(explanation.taps) == 16
    for disc, tap in zip(discs(ax), explanation.taps, strict=True):
        assert disc.center == tuple(along.index for along in tap.along)
        if abs(tap.weight) > 0.02:
            area = (disc.radius / parts.FULL_RADIUS) ** 2
            assert area == pytest.approx(abs(tap.weight))
        sign = parts.NEGATIVE if tap.weight < 0 else parts.POSITIVE
        assert same_color(disc.get_facecolor()[:3], sign)
    # Taps outside point to the pixels they read.
    folded = [tap for tap in explanation.taps if tap.pixel != tuple(a.index for a in tap.along)]
    assert len(arrows(ax, (*to_rgb(parts.GREY), 0.7))) == len(folded) == 10


def test_dropped_taps_are_rings():
    explanation, ax = drawn((4, 4), (-1.0, 0.0))
    dropped = [tap.pixel is None for tap in explanation.taps]
    assert dropped == [True, False, True, False]
    assert [disc.get_facecolor()[3] == 0 for disc in discs(ax)] == dropped
    assert "tap that is dropped" in words(ax)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(
    ("at", "steps"),
    [((0.1, 0.2), 0), ((-1.4, 0.2), 1), ((-1.4, 1.4), 2), ((-3.2, 1.4), 4), ((-1.1, 0.2), 2)],
)
def test_an_arrow_for_each_step_of_the_path(at, steps):
    explanation, ax = drawn((4, 4), at, padding_mode="reflection")
    assert sum(len(axis.path) - 1 for axis in explanation.axes) == steps
    path = arrows(ax, parts.POINT)
    assert len(path) == steps
    for before, after in itertools.pairwise(path):
        np.testing.assert_array_equal(before._posA_posB[1], after._posA_posB[0])
    if path:
        start, end = path[0]._posA_posB[0], path[-1]._posA_posB[1]
        np.testing.assert_allclose(start, [axis.position for axis in explanation.axes])
        np.testing.assert_allclose(end, [axis.sampled for axis in explanation.axes])


@pytest.mark.parametrize(("aligned", "low", "high"), [(False, -0.5, 3.5), (True, 0.0, 3.0)])
def test_the_box_from_minus_one_to_one_is_drawn(aligned, low, high):
    _, ax = drawn((4, 4), (0.1, 0.2), "bilinear", "zeros", aligned)
    box = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) == 5]
    assert len(box) == 1
    assert {tuple(corner) for corner in box[0]} == set(itertools.product((low, high), repeat=2))
    above, right = ax.child_axes
    assert list(above.get_xticks()) == list(right.get_yticks()) == [low, 1.5, high]
    assert [tick.get_text() for tick in above.get_xticklabels()] == ["−1", "0", "1"]


def test_title_and_labels():
    _, ax = drawn((4, 4), (-1.65, 1.35), padding_mode="reflection")
    for text in (
        "linear, reflection, align_corners=False",
        "value = 12      gradient = (−2, −8)",
        "coordinate (−1.65, 1.35), position (−1.8, 4.2)\nsampled at (0.8, 2.8)",
        "coordinates −1 and 1, the mirrors",
        "0.64",
    ):
        assert text in words(ax)
    assert "negative" not in words(ax)


def test_pixels_around_the_image_follow_the_boundary():
    for boundary, around in [("zeros", ""), ("border", "0"), ("reflection", "1")]:
        _, ax = drawn((4,), (0.1,), "linear", boundary, True)
        (strip,) = strips(ax)
        outside = [t.get_text() for t in strip.texts if t.xy[0] < -0.5 and t.xy[1] < 0]
        assert "".join(outside) == around


def test_one_axis_is_a_strip_below_the_curve_of_its_weights():
    explanation, ax = drawn((6,), (-0.93,), "cubic", "border")
    (strip,) = strips(ax)
    assert [disc.center for disc in discs(strip)] == [
        (tap.index, 0) for tap in explanation.axes[0].taps
    ]
    floor, rise = plot.FLOOR, plot.RISE
    dots = [line.get_xydata()[0] for line in strip.lines if len(line.get_xdata()) == 1]
    for tap in explanation.axes[0].taps:
        assert any(np.allclose(dot, (tap.index, floor + rise * tap.weight)) for dot in dots)
    curve = np.concatenate([line.get_xydata() for line in strip.lines if len(line.get_xdata()) > 9])
    assert curve[:, 1].max() == pytest.approx(floor + rise)  # above the point itself
    assert curve[curve[:, 1].argmax(), 0] == pytest.approx(explanation.axes[0].sampled)


def test_three_axes_are_three_strips():
    modes, boundaries = ("linear", "cubic", "nearest"), ("reflection", "border", "zeros")
    explanation, ax = drawn((4, 5, 3), (-1.3, 0.37, nan), modes, boundaries)
    assert [len(discs(strip)) for strip in strips(ax)] == [2, 4, 0]
    for steps in explanation.axes:
        assert f"{steps.name}:  {steps.method.name}, {steps.boundary}" in words(ax)
    assert "z = nan is nowhere" in words(ax)


def test_coefficients_are_drawn_below_the_pixels():
    image = [0, 0, 1, 0, 0]
    _, ax = drawn((5,), (0.1,), "spline3", "mirror", image=image)
    filtered = gridsample.spline_filter(np.array(image, float), 3, "mirror", 0)
    output = words(ax).replace("−", "-")
    for pixel, coefficient in zip(image, filtered, strict=True):
        assert f"{pixel}\n→ {coefficient + 0:.3g}" in output
    assert "prefilter of order 3: pixel, and below it the coefficient" in output
    _, ax = drawn((5,), (0.1,), "spline3", "mirror", image=image, prefilter=False)
    assert "→" not in words(ax)
    _, ax = drawn((5, 4, 3), (0.1, 0.2, 0.3), "spline3", "mirror")
    assert "prefilter of order 3: taps weigh coefficients" in words(ax)


def test_pixel_coordinates_are_drawn():
    _, ax = drawn((4, 5), (0.5, 1.0), coords="displacement", index=(2, 3), padding_mode="wrap")
    assert ax.get_title(loc="left") == "linear, wrap, coords=displacement"
    assert "coordinates −1 and 1" not in words(ax)
    labels = [tick.get_text() for tick in ax.child_axes[0].get_xticklabels()]
    assert labels == ["−2", "1"]
    _, ax = drawn((4, 5), (0.5, 1.0), padding_mode="reflection", coords="pixel")
    assert "the mirrors" in words(ax)


def test_fill_values_are_drawn():
    _, ax = drawn((4, 4), (-1.0, 0.0), padding_mode="constant", fill_value=7)
    assert "tap that weighs the fill value" in words(ax)
    assert "7" in [text.get_text() for text in ax.texts]
    _, ax = drawn((4, 4), (-2.0, 0.0), extrapolate=False, fill_value=7)
    assert "x = −2 is outside" in words(ax)
    assert "value = 7" in words(ax)


def test_invalid_points_are_drawn():
    _, ax = drawn((4, 4), (nan, inf), padding_mode="reflection")
    assert discs(ax) == arrows(ax, parts.POINT) == []
    assert "x = nan is nowhere\ny = inf is nowhere" in words(ax)
    assert "value = nan      gradient = (0, 0)" in words(ax)


def test_points_beyond_the_drawing_enter_from_its_edge():
    _, ax = drawn((4, 4), (-inf, 0.3), padding_mode="border")
    (arrow,) = arrows(ax, parts.POINT)[:1]
    assert ax.get_xlim()[0] < arrow._posA_posB[0][0] < -0.5
    assert "farther out than drawn" in words(ax)


@given(
    st.integers(1, 10**9),
    st.floats(-5, 5) | st.sampled_from([nan, inf, -inf, 1e9, -1e300]),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
)
def test_few_pixels_are_drawn_with_all_taps_among_them(size, x, mode, boundary, aligned):
    (steps,) = gridsample.explain((size,), (x,), mode, boundary, aligned).axes
    pixels = parts.window(steps)
    assert 3 <= len(pixels) <= parts.MAX_PIXELS + 2
    assert all(tap.index in pixels for tap in steps.taps)
    if size <= 4 and abs(x) < 1.5:
        assert {0, size - 1} <= set(pixels)


@pytest.mark.parametrize(
    ("size", "at", "mode", "boundary", "aligned"),
    cases.slow_after(
        3,
        [
            ((1,), (-7.7,), "cubic", "reflection", True),
            ((1, 1), (inf, 0.9), "linear", "reflection", True),
            ((7, 1), (-7.7, 1e9), "nearest", "zeros", False),
            ((63, 5), (-7.7, 0.9), "cubic", "reflection", False),
            ((2, 3, 1), (inf, 0.9, -0.2), "cubic", "border", False),
            ((10**6, 10**6), (-1.5, 0.3), "cubic", "reflection", False),
            ((10**6, 4), (1e300, -1.0), "linear", "border", True),
        ],
    ),
)
def test_every_explanation_is_drawn_without_an_error(size, at, mode, boundary, aligned):
    explanation = gridsample.explain(size, at, mode, boundary, aligned)
    plot.explain(explanation).draw_without_rendering()


def test_every_value_is_drawn_without_an_error():
    image = np.array([[nan, 1e308, -1e308], [inf, 0.123456, -5]])
    explanation = gridsample.explain((3, 2), (0.3, 0.2), padding_mode="border", image=image)
    plot.explain(explanation).draw_without_rendering()


# ---- where it is drawn, and written -----------------------------------------------------------


def test_a_picture_is_written(tmp_path):
    path = tmp_path / "one.png"
    explanation = gridsample.explain((4, 4), (-1.2, 1.3), padding_mode="reflection")
    figure = plot.explain(explanation, path)
    assert isinstance(figure, Figure)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert 800 <= picture.width <= 1800
        assert 800 <= picture.height <= 1800
        ink = np.asarray(picture.convert("L"))
    assert ink.min() < 80 < ink.max() == 255
    before = path.read_bytes()
    plot.explain(gridsample.explain((4,), (0.3,)), str(path))
    assert path.read_bytes() != before
    assert [file.name for file in tmp_path.iterdir()] == ["one.png"]


def test_failed_writes_leave_no_file(tmp_path):
    path = tmp_path / "one.nonsense"
    path.write_text("old")
    with pytest.raises(ValueError, match="nonsense"):
        plot.explain(gridsample.explain((4,), (0.3,)), path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["one.nonsense"]
    with pytest.raises(ValueError, match="no folder"):
        plot.explain(gridsample.explain((4,), (0.3,)), tmp_path / "none" / "one.png")


def test_axes_of_the_callers_are_drawn_in():
    outer = Figure((10, 4)).subfigures(1, 2)
    for part, aligned in zip(outer, (False, True), strict=True):
        ax = part.subplots()
        explanation = gridsample.explain((4, 4), (0.1, 0.2), align_corners=aligned)
        figure = plot.explain(explanation, ax=ax)
        assert len(discs(ax)) == 4
    assert figure is outer[0].figure
    figure.draw_without_rendering()


def test_no_figure_is_left_open():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    drawn((4, 4), (0.1, 0.2))
    assert pyplot.get_fignums() == before


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gridsample\[cli\]"'):
        plot.explain(gridsample.explain((4,), (0.3,)))


def test_the_largest_disc_fits_its_pixel():
    assert parts.FULL_RADIUS < 0.5
    _, ax = drawn((3,), (0.0,), "linear", "zeros", True)
    (strip,) = strips(ax)
    assert max(disc.radius for disc in discs(strip)) == pytest.approx(parts.FULL_RADIUS)
    assert math.isclose(min(disc.radius for disc in discs(strip)), 0.05)
