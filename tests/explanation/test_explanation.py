"""A sample, tap by tap: against numbers worked out by hand, and against the kernels."""

import itertools
import math
import pickle
from dataclasses import FrozenInstanceError
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsample
from gridsample.definitions import boundaries
from gridsample.definitions.coords import COORDS
from gridsample.definitions.methods import Method
from gridsample.kernels import reference

MODES = {"nearest": "nearest", "bilinear": "linear", "tricubic": "cubic"}
BOUNDARIES = ["zeros", "border", "reflection"]
SPECIAL = [nan, inf, -inf, -1.0, 1.0, 0.0, 1e6, -1e15, 1e300]

axes = st.tuples(st.integers(1, 5), st.sampled_from(sorted(MODES)), st.sampled_from(BOUNDARIES))
axes_of_an_image = st.lists(axes, min_size=1, max_size=3).map(lambda each: zip(*each, strict=True))


def noise(size):
    return np.random.default_rng(5).normal(size=size[::-1])


def explained(axes, at, align_corners, image=None):
    """The explanation of a point, and the arrays and options of the same call."""
    size, modes, boundaries = axes
    at = at[: len(size)]
    explanation = gridsample.explain(size, at, modes, boundaries, align_corners, image=image)
    pixels = np.arange(math.prod(size), dtype=float).reshape(size[::-1]) if image is None else image
    return (
        explanation,
        (pixels[None, None], np.array([at], float)),
        (modes, boundaries, align_corners),
    )


# ---- the numbers ------------------------------------------------------------------------------


def test_a_point_by_hand():
    explanation = gridsample.explain((4, 4), (-1.2, 1.3), "bilinear", "reflection")
    x, y = explanation.axes
    # x: ((-1.2 + 1) * 4 - 1) / 2 = -0.9, mirrored about -0.5 to -0.1, clamped to 0.
    assert x.path == pytest.approx((-0.9, -0.1, 0.0), abs=1e-15)
    assert (x.position, x.sampled) == (x.path[0], x.path[-1])
    assert (x.folds, x.sign, x.base, x.t, x.slope) == (1, 0, 0, 0.0, 0.0)
    # y: ((1.3 + 1) * 4 - 1) / 2 = 4.1, mirrored about 3.5 to 2.9.
    assert y.path == pytest.approx((4.1, 2.9))
    assert (y.folds, y.sign, y.base, y.slope) == (1, -1, 2, -2.0)
    assert y.t == pytest.approx(0.9)
    assert x.corners == y.corners == (-0.5, 3.5)
    assert [tap.pixel for tap in explanation.taps] == [(0, 2), (1, 2), (0, 3), (1, 3)]
    assert [tap.weight for tap in explanation.taps] == pytest.approx([0.1, 0.0, 0.9, 0.0])
    assert [tap.value for tap in explanation.taps] == [8, 9, 12, 13]
    assert [tap.product for tap in explanation.taps] == pytest.approx([0.8, 0.0, 10.8, 0.0])
    assert explanation.value == pytest.approx(11.6)
    assert explanation.per_pixel == pytest.approx((1.0, 4.0))
    assert explanation.gradient == pytest.approx((0.0, -8.0))


def test_a_row_of_pixels_by_hand():
    # Position 1.25 between the pixels 20 and 40; a coordinate of 1 spans 1.5 pixels.
    explanation = gridsample.explain((3,), (0.5,), "linear", image=[10, 20, 40])
    (x,) = explanation.axes
    assert (x.position, x.base, x.t, x.slope) == (1.75, 1, 0.75, 1.5)
    assert [(tap.index, tap.pixel, tap.weight, tap.derivative) for tap in x.taps] == [
        (1, 1, 0.25, -1.0),
        (2, 2, 0.75, 1.0),
    ]
    assert (explanation.value, explanation.per_pixel, explanation.gradient) == (
        35.0,
        (20.0,),
        (30.0,),
    )


def test_a_cubic_point_by_hand():
    # Half way, Keys' weights are -3/32, 19/32, 19/32, -3/32; taps fold, the position does not.
    explanation = gridsample.explain((4,), (-1.0,), "cubic", "reflection")
    (x,) = explanation.axes
    assert (x.path, x.folds, x.sign, x.base, x.t, x.slope) == ((-0.5,), 0, 1, -1, 0.5, 2.0)
    assert [(tap.index, tap.pixel) for tap in x.taps] == [(-2, 1), (-1, 0), (0, 0), (1, 1)]
    assert [tap.weight * 32 for tap in x.taps] == [-3, 19, 19, -3]
    assert explanation.value == pytest.approx(-6 / 32)
    assert explanation.gradient == pytest.approx((0.0,), abs=1e-15)  # a mirror's middle is flat


def test_dropped_taps_read_nothing():
    image = np.array([nan, 2.0, 3.0])
    explanation = gridsample.explain((3,), (1.0,), "linear", "zeros", image=image)
    assert [(tap.pixel, tap.weight, tap.value, tap.product) for tap in explanation.taps] == [
        ((2,), 0.5, 3.0, 1.5),
        (None, 0.5, 0.0, 0.0),
    ]
    assert (explanation.value, explanation.gradient) == (1.5, (-4.5,))


@pytest.mark.parametrize("boundary", ["border", "reflection"])
def test_the_tap_past_a_folded_position_is_dropped(boundary):
    image = np.array([1.0, nan, 3.0])
    explanation = gridsample.explain((3,), (1.0,), "linear", boundary, True, image=image)
    assert [(tap.pixel, tap.weight) for tap in explanation.taps] == [((2,), 1.0), (None, 0.0)]
    assert (explanation.value, explanation.gradient) == (3.0, (0.0,))


def test_nearest_takes_the_even_pixel_of_two():
    (x,) = gridsample.explain((4,), (0.5,), "nearest").axes
    assert (x.position, x.base, x.t, x.taps[0].derivative) == (2.5, 2, 0.5, 0.0)
    (x,) = gridsample.explain((4,), (0.0,), "nearest").axes
    assert (x.position, x.base, x.t) == (1.5, 2, -0.5)


def test_each_pixel_has_a_number():
    explanation = gridsample.explain((5, 3, 2), (0.0, 0.0, 0.0))
    numbers = np.arange(30).reshape(2, 3, 5)
    for x, y, z in itertools.product(range(5), range(3), range(2)):
        assert explanation.read((x, y, z)) == numbers[z, y, x]
    # No pixels are stored for it.
    vast = gridsample.explain((10**8, 10**8), (1.0, 1.0), padding_mode="border")
    assert vast.value == 10.0**16 - 1


# ---- against the kernels and the oracle -------------------------------------------------------


coordinates = st.floats(-6, 6) | st.sampled_from(SPECIAL)


@pytest.mark.slow
@given(axes_of_an_image, st.tuples(*[coordinates] * 3), st.booleans())
def test_values_match_grid_sample(axes, at, align_corners):
    axes = tuple(axes)
    image = noise(axes[0])
    explanation, arrays, options = explained(axes, at, align_corners, image)
    value = gridsample.grid_sample(*arrays, *options)
    _, gradient = gridsample.grid_sample_vjp(np.ones((1, 1)), *arrays, *options, need_input=False)
    scale = np.abs(image).max() * max(axes[0])
    assert explanation.value == pytest.approx(value.item(), abs=1e-13 * scale, nan_ok=True)
    assert explanation.gradient == pytest.approx(gradient[0].tolist(), abs=1e-12 * scale)
    assert bool(explanation.nowhere) == math.isnan(value.item())


OWN = Method("lopsided", ((0.5, -0.5), (0.5, 0.0), (0.0, 0.5)), first=0)
BLENDING = [name for name in gridsample.methods.names() if name != "label"]
EVERY_METHOD = [*BLENDING, gridsample.methods.keys(-1.1), OWN]
# Inside, on an edge, one and many image sizes away, on ties, NaN and infinite; in sizes.
PLACES = np.array([-0.2, 0.3, -1.0, 1.4, -2.75, 5.3, inf, nan])


@pytest.mark.slow
@pytest.mark.parametrize("mode", EVERY_METHOD, ids=lambda mode: getattr(mode, "name", mode))
def test_every_method_boundary_and_unit_matches_grid_sample(mode):
    # With other units for each boundary than other methods have.
    units = itertools.islice(itertools.cycle(COORDS), EVERY_METHOD.index(mode), None)
    rows = list(zip(boundaries.BOUNDARIES, units, itertools.repeat(5), strict=False))
    if EVERY_METHOD.index(mode) % 3 == 0:
        rows += zip(boundaries.BOUNDARIES, itertools.cycle(COORDS), itertools.repeat(1))
    for case, (boundary, coords, size) in enumerate(rows):
        image = noise((size,))
        places = PLACES[case % 2 :: 2] * (1 if coords == "normalized" else size / 2)
        options = {
            "align_corners": bool(case // 2 % 2),
            "coords": coords,
            "extrapolate": bool(case % 5),
        }
        if boundary == "constant" or not options["extrapolate"]:
            options["fill_value"] = 1.5
        grid = places[np.newaxis, :, np.newaxis]
        arrays = image[np.newaxis, np.newaxis], grid, mode, boundary
        values = gridsample.grid_sample(*arrays, **options)[0, 0]
        upstream = np.ones((1, 1, len(places)))
        _, slopes = gridsample.grid_sample_vjp(upstream, *arrays, **options, need_input=False)
        for i, (place, value) in enumerate(zip(places, values, strict=True)):
            index = (i,) if coords == "displacement" else None
            explanation = gridsample.explain(
                (size,), (place,), mode, boundary, image=image, index=index, **options
            )
            assert explanation.value == pytest.approx(value, abs=1e-11, nan_ok=True), (
                place,
                boundary,
                options,
            )
            assert explanation.gradient == pytest.approx(slopes[0, i], abs=1e-10), (
                place,
                boundary,
                options,
            )


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("case", range(12))
def test_several_axes_match_grid_sample(case):
    rng = np.random.default_rng(case)
    size = (4, 6) if case % 2 else (3, 5, 2)
    names = [name for name in boundaries.BOUNDARIES if name != "zeros"]
    modes = tuple(EVERY_METHOD[i] for i in rng.integers(len(EVERY_METHOD), size=len(size)))
    padding_mode = tuple(names[i] for i in rng.integers(len(names), size=len(size)))
    fill = 2.5 if "constant" in padding_mode else 0
    image, at, index = noise(size), rng.uniform(-2, 6, len(size)), rng.integers(3, size=len(size))
    coords = COORDS[case % 3]
    grid = np.zeros((1, *(index[::-1] + 1), len(size)))
    grid[(0, *index[::-1])] = at
    options = {"coords": coords, "fill_value": fill, "align_corners": case % 4 < 2}
    call = image[np.newaxis, np.newaxis], grid, modes, padding_mode
    value = gridsample.grid_sample(*call, **options)[(0, 0, *index[::-1])]
    upstream = np.ones((1, 1, *(index[::-1] + 1)))
    _, slopes = gridsample.grid_sample_vjp(upstream, *call, **options, need_input=False)
    place = {"index": index} if coords == "displacement" else {}
    explanation = gridsample.explain(size, at, modes, padding_mode, image=image, **options, **place)
    assert explanation.value == pytest.approx(value, abs=1e-11)
    assert explanation.gradient == pytest.approx(slopes[(0, *index[::-1])], abs=1e-10)


# ---- pixels and coefficients ------------------------------------------------------------------


def test_a_spline_interpolates_its_pixel():
    explanation = gridsample.explain((5,), (0.0,), "spline3", image=[0, 0, 1, 0, 0])
    assert explanation.value == pytest.approx(1, abs=1e-15)
    filtered = gridsample.spline_filter(np.array([0.0, 0, 1, 0, 0]), 3, "zeros", 0)
    assert [explanation.coefficients((i,)) for i in range(5)] == pytest.approx(filtered, abs=1e-15)
    assert [tap.value for tap in explanation.taps] == pytest.approx(filtered[1:], abs=1e-15)
    assert [explanation.read((i,)) for i in range(5)] == [0, 0, 1, 0, 0]
    assert explanation.prefilters == (3,)
    unfiltered = gridsample.explain((5,), (0.0,), "spline3", image=[0, 0, 1, 0, 0], prefilter=False)
    assert unfiltered.value == pytest.approx(2 / 3)
    assert unfiltered.coefficients is None


@pytest.mark.parametrize("boundary", ["mirror", "wrap", "dst1", "border", "constant"])
def test_coefficients_of_numbered_pixels(boundary):
    size, modes = (5, 4, 3), ("spline3", "linear", "spline4")
    numbers = np.arange(60.0).reshape(size[::-1])
    more = {"fill_value": -7} if boundary == "constant" else {}
    pixels = numbers[np.newaxis, np.newaxis]
    for at in ((0.1, -0.3, 0.9), (-1.2, 0.2, -0.4)):
        explanation = gridsample.explain(size, at, modes, boundary, **more)
        same = gridsample.explain(size, at, modes, boundary, image=numbers, **more)
        sampled = gridsample.grid_sample(pixels, np.array([[at]]), modes, boundary, **more)
        assert explanation.value == pytest.approx(sampled.item(), abs=1e-12)
        assert explanation.value == pytest.approx(same.value, abs=1e-12)
        assert [t.value for t in explanation.taps] == pytest.approx(
            [t.value for t in same.taps], abs=1e-12
        )
    assert pickle.loads(pickle.dumps(explanation)).weighed((1, 2, 0)) == explanation.weighed(
        (1, 2, 0)
    )


def test_the_table_shows_the_coefficients():
    lines = str(
        gridsample.explain((5,), (0.0,), "spline3", "mirror", image=[0, 0, 1, 0, 0])
    ).splitlines()
    at = lines.index("pixels -> coefficients of the spline through them")
    assert lines[at + 1 : at + 7] == [
        "  prefilter along x: order 3, mirror",
        "  pixel (x)   value    coefficient",
        "  (1)             0 ->       -0.50",
        "  (2)             1 ->        1.75",
        "  (3)             0 ->       -0.50",
        "  (4)             0 ->        0.25",
    ]
    assert lines[at + 8 : at + 11 : 2] == [
        "  pixel (x)   weight x   coefficient       adds",
        "  (2)          0.66667 *        1.75 =  1.16667",
    ]


@given(axes_of_an_image, st.tuples(*[st.integers(-48, 48)] * 3), st.booleans())
def test_values_match_the_reference(axes, eighths, align_corners):
    # Eighths have exact positions: on knots, mirrors and clamps as well.
    axes = tuple(axes)
    at = [n / 8 for n in eighths]
    explanation, arrays, (modes, boundaries, aligned) = explained(
        axes, at, align_corners, noise(axes[0])
    )
    options = [MODES[mode] for mode in modes], boundaries, aligned
    value = reference.gather(*arrays, *options)
    _, gradient = reference.gradients(np.ones((1, 1)), *arrays, *options)
    assert explanation.value == pytest.approx(value.item(), abs=1e-12)
    assert explanation.gradient == pytest.approx(gradient[0].tolist(), abs=1e-11)


@given(axes_of_an_image, st.tuples(*[st.floats(-9, 9)] * 3), st.booleans())
def test_steps_are_consistent(axes, at, align_corners):
    axes = tuple(axes)
    explanation, _, _ = explained(axes, at, align_corners)
    for steps, size, x in zip(explanation.axes, axes[0], at, strict=False):
        assert (steps.size, steps.coordinate, steps.align_corners) == (size, x, align_corners)
        assert steps.t == pytest.approx(steps.sampled - steps.base)
        assert abs(steps.t) <= 0.5 if steps.method.rounds else 0 <= steps.t < 1
        assert sum(tap.weight for tap in steps.taps) == pytest.approx(1)
        assert sum(tap.derivative for tap in steps.taps) == pytest.approx(0)
        assert all(tap.pixel is None or 0 <= tap.pixel < size for tap in steps.taps)
        assert abs(steps.slope) in (0, size / 2, (size - 1) / 2)
    assert explanation.gradient == tuple(
        steps.slope * g for steps, g in zip(explanation.axes, explanation.per_pixel, strict=True)
    )
    assert explanation.value == pytest.approx(sum(tap.product for tap in explanation.taps))


@given(st.integers(1, 6), st.floats(-3, 3), st.booleans())
def test_a_path_goes_from_mirror_to_mirror(size, x, align_corners):
    (steps,) = gridsample.explain((size,), (x,), "linear", "reflection", align_corners).axes
    mirrored = steps.path[1 : steps.folds + 1]
    for before, after in itertools.pairwise((steps.position, *mirrored)):
        assert (before + after) / 2 == pytest.approx(
            steps.corners[0] if before < steps.corners[0] else steps.corners[1], abs=1e-12
        )
    assert len(steps.path) <= steps.folds + 2
    if steps.sign:
        assert steps.sign == (-1) ** steps.folds
        assert len(steps.path) == steps.folds + 1
    assert 0 <= steps.sampled <= size - 1


def test_many_folds_are_one_step():
    (x,) = gridsample.explain((4,), (-30.7,), "linear", "reflection").axes
    assert x.position == pytest.approx(-59.9)
    assert (x.folds, x.sign, len(x.path)) == (15, -1, 2)
    assert x.sampled == pytest.approx(2.9)
    (x,) = gridsample.explain((4,), (1e300,), "linear", "reflection").axes
    assert x.folds > 10**299
    assert 0 <= x.sampled <= 3


# ---- nowhere and far --------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("mode", MODES)
def test_a_point_is_invalid_with_one_coordinate(mode, boundary):
    explanation = gridsample.explain((4, 3), (nan, 0.3), mode, boundary)
    x, y = explanation.axes
    assert (x.nowhere, y.nowhere, explanation.nowhere) == (True, False, "x")
    assert (x.taps, x.slope, explanation.taps) == ((), 0.0, ())
    assert math.isnan(explanation.value)
    assert explanation.gradient == (0.0, 0.0)
    assert "nowhere in x: value = nan, gradient = 0" in str(explanation)


def test_infinite_coordinates_have_a_limit_or_are_invalid():
    last = 2.0
    assert gridsample.explain((3,), (inf,), "cubic", "zeros").value == 0
    assert gridsample.explain((3,), (inf,), "cubic", "border").value == last
    assert gridsample.explain((3,), (-inf,), "linear", "border").value == 0
    assert gridsample.explain((3,), (-inf,), "linear", "reflection").nowhere == "x"
    assert gridsample.explain((1,), (inf,), "linear", "reflection", True).value == 0


# ---- the table --------------------------------------------------------------------------------


def test_the_table():
    assert (
        str(gridsample.explain((4, 4), (-1.2, 1.3), "bilinear", "reflection"))
        == """\
4 x 4 pixels, numbered 0, 1, 2, ... row by row
align_corners=False: -1 and 1 are the outer edges of the corner pixels

x axis: 4 pixels, linear, reflection
  coordinate  x                        = -1.2
  position    ((-1.2 + 1) * 4 - 1) / 2 = -0.9   outside the image
  fold        2 * (-0.5) - (-0.9)      = -0.1   mirrored about -0.5
  clamp       -0.1 into [0, 3]         = 0      an edge pixel's centre
  base index  floor(0)                 = 0
  fraction t  0 - 0                    = 0
  slope       4 / 2 * 0                = 0      d position / d x, clamped

  tap   reads   weight       d weight / dt
    0   0       1 - t  = 1   -1            = -1
    1   1       t      = 0   1             =  1

y axis: 4 pixels, linear, reflection
  coordinate  y                       = 1.3
  position    ((1.3 + 1) * 4 - 1) / 2 = 4.1   outside the image
  fold        2 * 3.5 - 4.1           = 2.9   mirrored about 3.5
  base index  floor(2.9)              = 2
  fraction t  2.9 - 2                 = 0.9
  slope       4 / 2 * (-1)            = -2    d position / d y, turned by folds

  tap   reads   weight         d weight / dt
    2   2       1 - t  = 0.1   -1            = -1
    3   3       t      = 0.9   1             =  1

  pixel (x, y)   weight x   weight y   weight   value   adds
  (0, 2)                1 *      0.1 =    0.1 *     8 =  0.8
  (1, 2)                0 *      0.1 =    0.0 *     9 =  0.0
  (0, 3)                1 *      0.9 =    0.9 *    12 = 10.8
  (1, 3)                0 *      0.9 =    0.0 *    13 =  0.0

  value         the sum of the taps = 11.6
  d value / dx  0 * 1               = 0      slope x * the sum with d weight x / dt
  d value / dy  -2 * 4              = -8     slope y * the sum with d weight y / dt"""
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (((4,), (0.5,), "linear", "zeros", True), "position    (0.5 + 1) / 2 * (4 - 1) = 2.25"),
        (((4,), (0.5,), "linear", "zeros", True), "slope       (4 - 1) / 2             = 1.5"),
        (((4,), (0.5,), "nearest"), "base index  round(2.5)              = 2     a tie goes"),
        (((4,), (-1.0,)), "-1   none    1 - t  = 0.5"),
        (((4,), (-1.0,)), "none (-1)        0.5"),
        (((4,), (-1.0,), "cubic"), "-2   none    -0.75 t + 1.5 t^2 - 0.75 t^3 = -0.09375"),
        (((4,), (-9.0,), "linear"), "confine     -16.5, but no farther than = -3"),
        (((4,), (-9.0,), "linear", "border"), "clamp       -16.5 into [0, 3]"),
        (((4,), (-9.0,), "cubic", "reflection"), "shift       by whole periods of 8"),
        (((4,), (-3.7,), "linear", "reflection"), "fold        2 * 3.5 - 4.9            = 2.1"),
        (((4,), (-19.0,), "linear", "reflection"), "9 times about -0.5 and 3.5"),
        (((1,), (9.0,), "linear", "zeros", True), "position    the only pixel's centre = 0"),
        (((1,), (nan,), "linear", "zeros", True), "position    (nan + 1) / 2 * (1 - 1) = nan"),
        (((3,), (inf,), "linear", "reflection"), "nowhere: the folds never end"),
    ],
)
def test_lines_of_the_table(arguments, line):
    assert line in str(gridsample.explain(*arguments))


@pytest.mark.parametrize(
    ("arguments", "options", "line"),
    [
        (((4,), (1.5,)), {"coords": "pixel"}, "position    1.5        = 1.5"),
        (((4,), (1.5,)), {"coords": "pixel"}, "0 is the centre of the first pixel"),
        (((4,), (-0.5,)), {"coords": "displacement", "index": [2]}, "position    -0.5 + 2   = 1.5"),
        (((4,), (-0.5,)), {"coords": "displacement", "index": [2]}, "from the output's pixel (2)"),
        (((4,), (-0.5,)), {"coords": "displacement"}, "slope       1           = 1"),
        (
            ((4,), (9,)),
            {"extrapolate": False, "fill_value": 3},
            "outside in x: value = fill value = 3, gradient = 0",
        ),
        (
            ((4,), (-1,), "linear", "constant"),
            {"fill_value": 3},
            "fill (-1)        0.5 *     3 =  1.5",
        ),
        (((4,), (-9,), "spline2"), {}, "every tap is dropped, and reads none"),
    ],
)
def test_lines_of_other_coordinates_and_fills(arguments, options, line):
    assert line in str(gridsample.explain(*arguments, **options))


@given(
    st.lists(st.integers(1, 999), min_size=1, max_size=3),
    st.tuples(*[coordinates] * 3),
    st.sampled_from([*MODES, "spline3", "lanczos3"]),
    st.sampled_from(BOUNDARIES),
    st.booleans(),
)
def test_the_table_is_ascii_and_fits_a_terminal(size, at, mode, boundary, align_corners):
    text = str(gridsample.explain(size, at[: len(size)], mode, boundary, align_corners))
    assert text.isascii()
    for line in text.splitlines():
        assert len(line) < 100
        assert line == line.rstrip()
        assert "-0 " not in f"{line} "


def test_the_title_describes_the_call():
    assert str(gridsample.explain((2, 1), (0, 0))).startswith("2 x 1 pixels, numbered 0, 1, 2,")
    assert str(gridsample.explain((1,), (0,), image=[3])).startswith("1 pixel\nalign_corners")


# ---- the object -------------------------------------------------------------------------------


def test_explanations_are_values():
    explanation, same, other = (gridsample.explain((4, 4), (x, 0.3)) for x in (0.1, 0.1, 0.2))
    assert explanation == same != other
    assert hash(explanation) == hash(same)
    assert isinstance(explanation, gridsample.Explanation)
    assert explanation.size == (4, 4)
    with pytest.raises(FrozenInstanceError):
        explanation.value = 3.0


@pytest.mark.parametrize("dtype", ["bool", "u1", ">i2", "f2", "<f8"])
def test_explanations_copy_the_image(dtype):
    image = np.array([[0, 1], [1, 1]], dtype)
    explanation = gridsample.explain((2, 2), (0.0, 0.0), image=image)
    image[...] = 0
    assert explanation.value == 0.75
    assert explanation.read((1, 0)) == 1
    assert explanation.image.dtype == np.float64
    assert not explanation.image.flags.writeable


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (TypeError, r"size must be integers.*got 4", {"size": 4}),
        (TypeError, r"size must be integers.*got \(4, 2\.5\)", {"size": (4, 2.5)}),
        (TypeError, r"size must be integers.*got '44'", {"size": "44"}),
        (ValueError, r"size must be.*at least 1, got \(4, 0\)", {"size": (4, 0)}),
        (ValueError, r"size must be \(W,\).*got \(4, 4, 4, 4, 4", {"size": (4,) * 9}),
        (ValueError, r"size must be \(W,\).*got \(\)", {"size": ()}),
        (ValueError, r"at must have a coordinate for each axis.*got 3", {"at": (1, 2, 3)}),
        (TypeError, r"at must be one number for each axis.*got 'ab'", {"at": "ab"}),
        (TypeError, r"at must be one number for each axis.*got 0\.5", {"at": 0.5}),
        (ValueError, r"mode 'bilinaer'.*did you mean 'bilinear'", {"mode": "bilinaer"}),
        (ValueError, r"mode needs one entry per axis", {"mode": ("linear",)}),
        (ValueError, r"padding_mode 'reflect' is ambiguous", {"padding_mode": "reflect"}),
        (TypeError, r"align_corners must be True or False, got 2", {"align_corners": 2}),
        (TypeError, r"image has dtype complex128", {"image": np.ones((4, 4), complex)}),
        (TypeError, r"image has dtype object", {"image": [[None] * 4] * 4}),
        (ValueError, r"image must have shape \(4, 4\).*got \(4, 3\)", {"image": np.ones((4, 3))}),
        (ValueError, r"coords 'pixels' is not known.*did you mean 'pixel'", {"coords": "pixels"}),
        (ValueError, r"index is the origin of a displacement", {"index": (0, 0)}),
        (ValueError, r"one entry for each of 2", {"index": (0,), "coords": "displacement"}),
        (TypeError, r"index must be one integer", {"index": 1.5, "coords": "displacement"}),
        (ValueError, r"fill_value 2 has no effect here", {"fill_value": 2}),
        (TypeError, r"fill_value must be a real number, got 1j", {"fill_value": 1j}),
        (TypeError, r"prefilter must be True or False", {"prefilter": "no"}),
        (ValueError, r"mode 'area' only resizes", {"mode": "area"}),
    ],
)
def test_invalid_arguments_are_rejected(error, match, arguments):
    with pytest.raises(error, match=match):
        gridsample.explain(**{"size": (4, 4), "at": (0.1, 0.2), **arguments})
