"""The reference's boundaries, single pixels and fill values, worked out on paper."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from cases import BOUNDARIES, generator, identity
from hypothesis import example, given
from hypothesis import strategies as st
from rows import ALIGN, BOUNDARY, INF, MODE, NAN, REPEATING, coordinate, grid_1d, image_1d, line

from gridsample.kernels import reference

# Worked out on paper: boundaries ----------------------------------------------------------------


@BOUNDARY
@ALIGN
def test_folded_indices_match_numpy_pad(boundary, align_corners):
    for size in (2, 3, 7):
        margin = 5 * size
        if boundary == "zeros":
            expected = [None] * margin + list(range(size)) + [None] * margin
        else:
            reflection = "reflect" if align_corners else "symmetric"
            pad = "edge" if boundary == "border" else reflection
            expected = np.pad(np.arange(size), margin, mode=pad).tolist()
        actual = [
            reference.fold_index(i, size, boundary, align_corners)
            for i in range(-margin, size + margin)
        ]
        assert actual == expected


@ALIGN
@given(
    i=st.integers(-100, 100), turns=st.integers(-(10**18), 10**18), size=st.sampled_from([1, 2, 7])
)
def test_folded_indices_are_periodic(align_corners, i, turns, size):
    period = 2 * (size - 1) if align_corners else 2 * size
    near = reference.fold_index(i, size, "reflection", align_corners)
    far = reference.fold_index(i + turns * period, size, "reflection", align_corners)
    assert far == near
    assert 0 <= far < size


@ALIGN
@given(
    p=st.floats(-1e300, 1e300) | st.floats(-100, 100) | st.integers(-(2**53), 2**53).map(float),
    size=st.sampled_from([1, 2, 7, 63]),
)
@example(p=1.75, size=1)
@example(p=1e15 + 0.5, size=7)
@example(p=2.0**53, size=7)
@example(p=-3e9 - 0.25, size=63)
def test_reflection_is_exact_at_any_distance(align_corners, p, size):
    position, sign = reference.reflect(p, size, align_corners)
    low, span = (Fraction(0), size - 1) if align_corners else (Fraction(-1, 2), size)
    if span == 0:
        assert (position, sign) == (0, 0)
        return
    beyond = (Fraction(p) - low) % (2 * span)
    expected = low + min(beyond, 2 * span - beyond)
    rounding = 4 * size * np.finfo(float).eps
    assert abs(Fraction(position) - expected) <= rounding
    if rounding < beyond < span - rounding:
        assert sign == 1
    if span + rounding < beyond < 2 * span - rounding:
        assert sign == -1


def test_reflection_about_edges_and_about_centres():
    pixels = (10, 20, 30, 40)
    positions = (-1.25, -0.5, 3.25, 3.5, 4.25, 7.5, 8.75)
    edges = [coordinate(p, 4, False) for p in positions]
    assert line(pixels, edges, "linear", "reflection") == [12.5, 10, 40, 40, 37.5, 10, 17.5]
    positions = (-1.25, -0.5, 3.25, 3.5, 4.25, 7.5)
    centres = [coordinate(p, 4, True) for p in positions]
    assert line(pixels, centres, "linear", "reflection", True) == pytest.approx(
        [22.5, 15, 37.5, 35, 27.5, 25], rel=1e-14
    )


def test_border_stops_the_gradient_at_and_beyond_the_edge():
    # positions -1, 0, 0.25, 2.75, 3, 4; between pixels the derivative is 10 * 4 / 2
    xs = (-1.25, -0.75, -0.625, 0.625, 0.75, 1.25)
    pixels = (10, 20, 30, 40)
    assert line(pixels, xs, "linear", "border") == [10, 10, 12.5, 37.5, 40, 40]
    assert line(pixels, xs, "linear", "border", order=1) == [0, 0, 20, 20, 0, 0]


def test_reflection_flips_the_gradient_at_folds_and_zeroes_it_at_edges():
    pixels = (10, 20, 30, 40)
    positions = np.array(
        [-4.75, -1, -0.75, -0.5, -0.25, 0, 0.25, 3, 3.25, 3.5, 3.75, 4, 4.25, 8.75]
    )
    expected = [0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, -20, 20]
    assert line(pixels, positions / 2 - 0.75, "linear", "reflection", order=1) == expected
    # with corners aligned, in an image of size 5
    xs = np.array([-4.5, -4, -1, 0, 0.5, 4, 4.5, 8, 8.5]) / 2 - 1
    expected = [20, 0, -20, 0, 20, 0, -20, 0, 20]
    assert line((10, 20, 30, 40, 50), xs, "linear", "reflection", True, order=1) == expected


def test_identity_grid_has_no_gradient_on_the_clamp():
    image = generator("clamp").standard_normal((1, 1, 3, 5))
    grid = identity((3, 5), True)
    for boundary in ("border", "reflection"):
        options = (("linear", "linear"), (boundary, boundary), True)
        _, grad_grid = reference.gradients(np.ones((1, 1, 3, 5)), image, grid, *options)
        assert not grad_grid[0, :, [0, -1], 0].any()
        assert not grad_grid[0, [0, -1], :, 1].any()
        assert grad_grid[0, :, 1:-1, 0].all()
        assert grad_grid[0, 1:-1, :, 1].all()


# Worked out on paper: a single pixel ------------------------------------------------------------


@MODE
@BOUNDARY
def test_a_single_aligned_pixel_extends_everywhere(mode, boundary):
    xs = (-1e300, -7.3, -1, 0, 0.4, 1, 1e300, -INF, INF)
    assert line((5,), xs, mode, boundary, align_corners=True) == [5] * len(xs)
    assert line((5,), xs, mode, boundary, align_corners=True, order=1) == [0] * len(xs)
    assert np.isnan(line((5,), (NAN,), mode, boundary, align_corners=True)).all()


def test_a_single_pixel_has_edges_without_aligned_corners():
    # position x / 2
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "zeros") == [0, 4, 8, 6, 0]
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "border") == [8] * 5
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "reflection") == [8] * 5
    assert line((8,), (-1.5, -1, 1, 1.5), "nearest", "zeros") == [0, 8, 8, 0]


# Beyond PyTorch: boundaries ---------------------------------------------------------------------


def letters(boundary, count=6):
    """What is `count` pixels to each side of an image a b c d, as letters with signs."""
    cells = []
    for i in range(-count, 4 + count):
        pixel = reference.fold_index(i, 4, boundary, False)
        sign = "-" if reference.fold_sign(i, 4, boundary) < 0 else ""
        cells.append("0" if pixel is None else sign + "abcd"[pixel])
    return " ".join((*cells[:count], "|", *cells[count : count + 4], "|", *cells[count + 4 :]))


@pytest.mark.parametrize(
    ("boundary", "drawn"),
    [
        ("symmetric", "c d d c b a | a b c d | d c b a a b"),
        ("mirror", "a b c d c b | a b c d | c b a b c d"),
        ("wrap", "c d a b c d | a b c d | a b c d a b"),
        ("antisymmetric", "c d -d -c -b -a | a b c d | -d -c -b -a a b"),
        ("antimirror", "a b c d -c -b | a b c d | -c -b a b c d"),
        ("dst1", "0 -d -c -b -a 0 | a b c d | 0 -d -c -b -a 0"),
        ("constant", "0 0 0 0 0 0 | a b c d | 0 0 0 0 0 0"),
    ],
)
def test_boundaries_match_patterns_of_letters(boundary, drawn):
    assert letters(boundary) == drawn
    three = drawn.replace("0", "f" if boundary == "constant" else "0").split(" ")[3:-3]
    assert reference.BOUNDARIES[boundary] == " ".join(three)


@pytest.mark.parametrize("boundary", REPEATING)
def test_repeating_boundaries_repeat(boundary):
    for size in (1, 2, 7):
        period = {"wrap": size, "mirror": 2 * size - 2, "antimirror": 2 * size - 2}
        period["dst1"] = 2 * size + 2
        shift = period.get(boundary, 2 * size) or 1
        for i, turns in itertools.product(range(-9, 9), (1, -3, 10**18)):
            far = i + turns * shift
            for fold in (
                lambda i, n=size: reference.fold_index(i, n, boundary, False),
                lambda i, n=size: reference.fold_sign(i, n, boundary),
            ):
                assert fold(far) == fold(i)


def test_signs_apply_to_gradients_too():
    # position -0.75: pixel -1, which is -10, with weight 0.75, and pixel 0 with weight 0.25
    row = image_1d(10, 20)
    options = (("linear",), ("antisymmetric",), False)
    assert reference.gather(row, grid_1d(-0.75), *options, coords="pixel").tolist() == [[[-5]]]
    grad_input, grad_grid = reference.gradients(
        np.full((1, 1, 1), 2.0), row, grid_1d(-0.75), *options, coords="pixel"
    )
    assert grad_input.tolist() == [[[2 * (0.25 - 0.75), 0]]]
    assert grad_grid.tolist() == [[[2 * (10 + 10)]]]


@pytest.mark.parametrize("boundary", REPEATING)
def test_infinity_is_invalid_in_an_image_that_repeats(boundary):
    assert np.isnan(line((1, 2, 3), (-INF, INF), "linear", boundary)).all()
    assert line((1, 2, 3), (-INF, INF), "cubic", boundary, order=1) == [0, 0]


# Beyond PyTorch: fill values --------------------------------------------------------------------


def fill_1d(pixels, positions, mode, boundary, fill, **more):
    out = reference.gather(
        image_1d(*pixels),
        grid_1d(*positions),
        (mode,),
        (boundary,),
        False,
        coords="pixel",
        fill=fill,
        **more,
    )
    return out[0, 0].tolist()


def test_constant_blends_with_the_fill_value():
    positions = (-2, -0.25, 0, 2, 2.75, 9, INF, -INF)
    expected = [8, 0.25 * 8 + 0.75 * 1, 1, 3, 0.25 * 3 + 0.75 * 8, 8, 8, 8]
    assert fill_1d((1, 2, 3), positions, "linear", "constant", 8) == expected
    assert fill_1d((1, 2, 3), (-0.25,), "linear", "constant", 8, order=(1,)) == [1 - 8]
    assert fill_1d((1, 2, 3), (INF,), "linear", "constant", 8, order=(1,)) == [0]


def test_a_fill_value_of_weight_zero_is_not_read():
    # on the last pixel the tap beyond has weight 0
    assert fill_1d((1, 2, 3), (0, 2), "linear", "constant", NAN) == [1, 3]
    assert fill_1d((1, 2, 3), (0, 2), "cubic", "constant", NAN) == [1, 3]
    assert np.isnan(fill_1d((1, 2, 3), (2.25,), "linear", "constant", NAN)).all()


def test_a_fill_value_per_channel_and_of_an_integer_image():
    image = np.array([[[10, 20], [30, 40]]], dtype=np.uint8)
    options = (("nearest",), ("constant",), False)
    out = reference.gather(image, grid_1d(0, 5, NAN), *options, coords="pixel", fill=(7, 300))
    assert out.tolist() == [[[10, 7, 7], [30, 255, 255]]]


def test_a_fill_value_has_no_gradient_of_the_image_but_one_of_the_grid():
    image, grid = image_1d(1, 2, 3), grid_1d(-0.25, -7)
    grad_input, grad_grid = reference.gradients(
        np.ones((1, 1, 2)), image, grid, ("linear",), ("constant",), False, coords="pixel", fill=8
    )
    assert grad_input.tolist() == [[[0.75, 0, 0]]]
    assert grad_grid.ravel().tolist() == [1 - 8, 0]


@pytest.mark.parametrize("boundary", (*BOUNDARIES, "constant", "mirror", "wrap"))
@ALIGN
def test_without_extrapolation_the_outside_is_filled(boundary, align_corners):
    positions = np.array([-0.75, -0.25, 0, 1.5, 2, 2.25, 2.75])
    xs = [coordinate(p, 3, align_corners) for p in positions]
    options = (image_1d(1, 2, 3), grid_1d(*xs, INF, NAN), ("linear",), (boundary,), align_corners)
    free = reference.gather(*options, fill=8)[0, 0]
    inside_values = reference.gather(*options, fill=8, extrapolate=False)[0, 0]
    outside = [0, 6] if not align_corners else [0, 1, 5, 6]
    for i in range(9):
        expected = 8 if i in outside or i == 7 else free[i]
        np.testing.assert_equal(inside_values[i], expected)
    grad_input, grad_grid = reference.gradients(
        np.ones((1, 1, 9)), *options, fill=8, extrapolate=False
    )
    assert not grad_grid[0, [*outside, 7, 8]].any()
    inside = [i for i in range(7) if i not in outside]
    assert grad_input.sum() == pytest.approx(
        sum(
            w
            for i in inside
            for j, w in reference.point_taps(
                (xs[i],), (3,), ("linear",), (boundary,), align_corners, (0,)
            )
            if j is not None
        )
    )
