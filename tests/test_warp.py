"""Pixel matrices: the effect of each step on a point, and its inverse."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsample
from gridsample import warp
from gridsample.backends import numpy
from gridsample.definitions.methods import Method
from gridsample.definitions.shapes import bands_along

SIZES = st.tuples(st.integers(1, 70), st.integers(1, 70))


def moved(matrix, *point):
    """Apply a homogeneous matrix to one point."""
    *place, scale = matrix @ [*point, 1]
    return np.array(place) / scale


def shown_at(steps, size, canvas, *point):
    """Where an input pixel is seen on the canvas: the inverse map, inverted again."""
    return moved(np.linalg.inv(warp.inverse_map(steps, size, canvas)), *point)


def test_each_step_moves_pixels_as_a_user_expects():
    # A 5 x 3 picture: its centre is pixel (2, 1); y points down.
    size = (5, 3)
    for steps, point, expected in [
        ([("rotate", [90])], (4, 1), (2, -1)),  # right goes up
        ([("rotate", [-90])], (4, 1), (2, 3)),
        ([("rotate", [30])], (4, 1), (2 + math.sqrt(3), 0)),
        ([("scale", [3])], (3, 2), (5, 4)),
        ([("scale", [3, 1])], (3, 2), (5, 2)),
        ([("scale", [-1, 1])], (0, 2), (4, 2)),
        ([("translate", [1.5, -2])], (0, 0), (1.5, -2)),
        ([("shear", [45])], (2, 0), (3, 0)),  # the top goes right
        ([("shear", [45])], (2, 1), (2, 1)),
        ([("affine", [1, 2, 3, 4, 5, 6])], (10, 20), (53, 146)),
        ([("homography", [1, 0, 0, 0, 1, 0, 0.5, 0, 1])], (2, 4), (1, 2)),
    ]:
        np.testing.assert_allclose(shown_at(steps, size, size, *point), expected, atol=1e-12)


def test_steps_of_a_volume():
    size = (5, 3, 7)
    for steps, point, expected in [
        ([("rotate", [90])], (4, 1, 6), (2, -1, 6)),
        ([("scale", [2])], (2, 1, 6), (2, 1, 9)),
        ([("scale", [2, 2])], (3, 1, 6), (4, 1, 6)),
        ([("scale", [1, 2, 3])], (3, 2, 4), (3, 3, 6)),
        ([("translate", [1, 2])], (0, 0, 0), (1, 2, 0)),
        ([("translate", [1, 2, 3])], (0, 0, 0), (1, 2, 3)),
        ([("affine", [0, 1, 5, 1, 0, 6])], (1, 2, 3), (7, 7, 3)),
        ([("affine", [*[0, 0, 1, 9], *[1, 0, 0, 0], *[0, 1, 0, 0]])], (1, 2, 3), (12, 1, 2)),
    ]:
        np.testing.assert_allclose(shown_at(steps, size, size, *point), expected, atol=1e-12)


def test_steps_happen_in_the_order_given():
    rotate, move = ("rotate", [90]), ("translate", [10, 0])
    np.testing.assert_allclose(shown_at([rotate, move], (5, 5), (5, 5), 4, 2), [12, 0])
    np.testing.assert_allclose(shown_at([move, rotate], (5, 5), (5, 5), 4, 2), [2, -10])


@given(st.lists(st.sampled_from([90, -90, 180, 270, 450, -720]), max_size=5), SIZES)
def test_quarter_turns_are_exact(turns, size):
    inverse = warp.inverse_map([("rotate", [angle]) for angle in turns], size, size)
    quarter = sum(turns) // 90 % 4
    assert np.abs(inverse[:2, :2]).sum() == 2
    assert warp.lands_on_pixels(inverse) == (quarter % 2 == 0 or sum(size) % 2 == 0)
    if quarter == 0:
        np.testing.assert_array_equal(inverse, np.eye(3))


def test_maps_that_land_on_pixels_are_exact():
    lands = {
        (("translate", (3, -2)),): True,
        (("translate", (0.5, 0)),): False,
        (("rotate", (45,)),): False,
        (("scale", (-1, 1)),): True,
        (("scale", (0.5,)), ("translate", (0.25, 0.25))): False,
        (("homography", (1, 0, 0, 0, 1, 0, 1, 0, 1)),): False,
        (("homography", (2, 0, 4, 0, 2, 0, 0, 0, 2)),): True,
        (): True,
    }
    for steps, expected in lands.items():
        assert warp.lands_on_pixels(warp.inverse_map(steps, (5, 5), (5, 5))) == expected, steps


def test_the_exact_mode_is_for_methods_that_pass_through_the_pixels():
    assert warp.exact_mode("bicubic", 2) == "nearest"
    assert warp.exact_mode(("linear", "nearest", "cubic"), 3) == "nearest"
    with pytest.raises(ValueError, match="cubist"):
        warp.exact_mode("cubist", 2)
    with pytest.raises(ValueError, match="got 3"):
        warp.exact_mode(("linear", "linear", "linear"), 2)


def test_a_method_that_smooths_is_not_replaced(monkeypatch):
    # The quadratic B-spline without its prefilter: half and half at t = 0.
    smooth = Method("smooth", ((0.5, -1.0, 0.5), (0.5, 1.0, -1.0), (0.0, 0.0, 0.5)), 0)
    monkeypatch.setattr(warp, "find_method", lambda name: smooth)
    assert warp.exact_mode("smooth", 2) == "smooth"


def test_the_canvas_is_centred_unless_a_matrix_names_its_pixels():
    centred = [("rotate", [0])], [("scale", [1])], [("translate", [0, 0])], [("shear", [0])], []
    for steps in centred:
        np.testing.assert_allclose(shown_at(steps, (9, 9), (5, 13), 4, 4), [2, 6])
    fixed = [("affine", [1, 0, 0, 0, 1, 0])], [("homography", np.eye(3).ravel())]
    for steps in fixed:
        np.testing.assert_allclose(shown_at(steps, (9, 9), (5, 13), 4, 4), [4, 4])
        np.testing.assert_allclose(shown_at([*steps, *steps], (9, 9), (5, 13), 4, 4), [4, 4])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("scale", [0])], "singular"),
        ([("scale", [1, 0])], "singular"),
        ([("affine", [1, 2, 0, 2, 4, 0])], "singular"),
        ([("affine", [0.1, 0.2, 0, 0.3, 0.6, 0])], "singular"),
        ([("homography", [1, 2, 3, 4, 5, 6, 7, 8, 9])], "singular"),
        ([("shear", [90])], "--shear 90 flattens"),
        ([("shear", [-270])], "--shear -270 flattens"),
        ([("rotate", [1, 2])], "--rotate takes 1 numbers, got 2"),
        ([("scale", [1, 2, 3])], "--scale takes 1 or 2 numbers, got 3"),
        ([("translate", [1])], "--translate takes 2 numbers, got 1"),
        ([("affine", [1, 2, 3])], "--affine takes 6 numbers, got 3"),
        ([("homography", [1] * 8)], "--homography takes 9 numbers, got 8"),
        ([("rotate", [math.nan])], "finite"),
        ([("translate", [math.inf, 0])], "finite"),
    ],
)
def test_invalid_steps_are_rejected(steps, message):
    with pytest.raises(ValueError, match=message) as caught:
        warp.inverse_map(steps, (5, 4), (5, 4))
    assert "\n" not in str(caught.value)


def test_a_homography_of_a_volume_is_refused():
    with pytest.raises(ValueError, match="volume"):
        warp.inverse_map([("homography", [1.0] * 9)], (5, 4, 3), (5, 4, 3))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("size", "canvas"), [((7, 4), (5, 6)), ((7, 4, 3), (2, 3, 4))])
def test_grid_bands_are_the_map_at_each_pixel(align_corners, size, canvas):
    rng = np.random.default_rng(0)
    rank = len(size)
    inverse = np.eye(rank + 1)
    inverse[:rank] += rng.normal(size=(rank, rank + 1))
    if rank == 2:
        inverse[2, :2] = 0.01, 0.02
    rows = slice(1, 4)
    grid = warp.grid_band(inverse, rows, size, canvas, align_corners)
    assert grid.shape == (3, *canvas[-2::-1], rank)
    for index in itertools.product(*(range(n) for n in grid.shape[:-1])):
        pixel = (*index[:0:-1], index[0] + rows.start)
        position = moved(inverse, *pixel)
        for k, n in enumerate(size):
            low, high = (0, n - 1) if align_corners else (-0.5, n - 0.5)  # what -1 and 1 mean
            expected = (position[k] - low) / (high - low) * 2 - 1
            assert grid[index][k] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_fitted_canvas_covers_the_input():
    for size, canvas in [((8, 6), (4, 18)), ((1, 5, 3), (7, 1, 3))]:
        edges = warp.fitted(size, canvas, align_corners=False)
        np.testing.assert_allclose(moved(edges, *[-0.5] * len(size)), -0.5)
        np.testing.assert_allclose(moved(edges, *np.array(canvas) - 0.5), np.array(size) - 0.5)
    centres = warp.fitted((8, 6), (4, 18), align_corners=True)
    np.testing.assert_allclose(moved(centres, 0, 0), [0, 0], atol=1e-12)
    np.testing.assert_allclose(moved(centres, 3, 17), [7, 5])
    assert np.linalg.det(warp.fitted((1, 5), (3, 1), align_corners=True)) != 0


@given(st.integers(0, 3_000_000), st.integers(0, 3000))
def test_bands_cover_every_row_once(rows, width):
    pieces = list(bands_along((rows, width), 1 << 19))[:2000]
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert not pieces or pieces[0].start == 0
    for piece in pieces:
        assert piece.stop > piece.start
        assert (piece.stop - piece.start) * width <= max(width, 1 << 19)


@pytest.mark.parametrize("fill", [0, 5])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_spline_is_prefiltered_once_for_all_bands(monkeypatch, dtype, fill):
    image = np.random.default_rng(1).integers(0, 255, (9, 7, 3)).astype(dtype)
    grid = np.random.default_rng(2).uniform(-1.2, 1.2, (9, 7, 2))
    options = {"mode": "spline3", "padding_mode": "constant", "fill_value": fill}
    expected = gridsample.grid_sample(image[None], grid[None], channel_axis=-1, **options)[0]
    calls = []

    def counted(*arguments, **named):
        calls.append(arguments)
        return coefficients(*arguments, **named)

    coefficients = numpy.coefficients
    monkeypatch.setattr(numpy, "coefficients", counted)
    monkeypatch.setattr(warp, "_BAND_POINTS", 14)
    result = warp.sample(image, lambda rows: grid[rows], (9, 7), **options)
    np.testing.assert_array_equal(result, expected)
    assert len([call for call in calls if call[0].size == image.size]) == 1


def test_a_spline_has_no_coefficients_beside_missing_pixels():
    image, grid = np.ones((3, 3, 1)), np.zeros((2, 2, 2))
    for options in ({"padding_mode": "missing"}, {"missing": "ignore"}):
        with pytest.raises(ValueError, match="prefilter"):
            gridsample.grid_sample(image[None], grid[None], "spline3", channel_axis=-1, **options)
        with pytest.raises(ValueError, match="prefilter"):
            warp.sample(image, lambda rows: grid[rows], (2, 2), mode="spline3", **options)
