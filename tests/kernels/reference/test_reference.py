"""The reference against numbers worked out on paper: positions, NaN and infinity, coordinates."""

import math

import numpy as np
import pytest
from cases import BOUNDARIES, MODES, coordinates, generator
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_close
from rows import ALIGN, BOUNDARY, INF, MODE, NAN, grid_1d, image_1d, line

from gridsample.kernels import reference

# Worked out on paper: positions and ties --------------------------------------------------------


def test_positions_of_corners_and_centre():
    assert [reference.position(x, 5, True) for x in (-1, -0.5, 0, 1, 2)] == [0, 1, 2, 4, 6]
    assert [reference.position(x, 5, False) for x in (-1, 0, 1, 2)] == [-0.5, 2, 4.5, 7]
    assert reference.slope(5, True) == 2
    assert reference.slope(5, False) == 2.5


def test_nearest_rounds_half_to_even():
    xs = (-1, -0.5, 0, 0.5, 1)  # the positions -0.5, 0.5, 1.5, 2.5, 3.5 in an image of size 4
    assert line((10, 20, 30, 40), xs, "nearest", "zeros") == [10, 10, 30, 30, 0]
    assert line((10, 20, 30, 40), xs, "nearest", "border") == [10, 10, 30, 30, 40]
    assert line((10, 20, 30, 40), xs, "nearest", "reflection") == [10, 10, 30, 30, 40]


# Worked out on paper: NaN and infinity ----------------------------------------------------------


@MODE
@BOUNDARY
@ALIGN
def test_nan_coordinate(mode, boundary, align_corners):
    rng = generator("nan")
    image = rng.standard_normal((1, 2, 3, 4))
    grid = np.array([[[NAN, 0.1], [0.1, NAN], [NAN, INF], [0.1, 0.2]]])
    options = ((mode, mode), (boundary, boundary), align_corners)

    out = reference.gather(image, grid, *options)
    assert np.isnan(out[:, :, :3]).all()
    assert np.isfinite(out[:, :, 3]).all()
    assert not reference.gather(image, grid, *options, (1, 0))[:, :, :3].any()

    grad_output = rng.standard_normal((1, 2, 4))
    grad_output[:, 0, :3] = NAN  # the upstream gradient of a NaN output
    grad_input, grad_grid = reference.gradients(grad_output, image, grid, *options)
    alone, _ = reference.gradients(grad_output[:, :, 3:], image, grid[:, 3:], *options)
    assert np.array_equal(grad_input, alone)
    assert not grad_grid[:, :3].any()
    assert grad_grid[:, 3].any() == (mode != "nearest")


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_nan_coordinate_in_an_integer_image_is_zero(dtype):
    out = reference.gather(
        image_1d(1, 1, dtype=dtype), grid_1d(NAN, 0.0), ("linear",), ("border",), False
    )
    assert out.dtype == dtype
    assert out.tolist() == [[[0, 1]]]


@MODE
@ALIGN
def test_infinite_coordinate(mode, align_corners):
    pixels = (10, 20, 30)
    assert line(pixels, (-INF, INF), mode, "zeros", align_corners) == [0, 0]
    assert line(pixels, (-INF, INF), mode, "border", align_corners) == [10, 30]
    assert np.isnan(line(pixels, (-INF, INF), mode, "reflection", align_corners)).all()
    for boundary in BOUNDARIES:
        assert line(pixels, (-INF, INF), mode, boundary, align_corners, order=1) == [0, 0]


@MODE
def test_gradients_of_infinite_coordinates(mode):
    image = image_1d(10, 20, 30)
    grid = grid_1d(-INF, INF)
    g = np.array([[[3.0, 5.0]]])
    expected = {"zeros": [0, 0, 0], "border": [3, 0, 5], "reflection": [0, 0, 0]}
    for boundary in BOUNDARIES:
        grad_input, grad_grid = reference.gradients(g, image, grid, (mode,), (boundary,), False)
        assert grad_input[0, 0].tolist() == expected[boundary]
        assert grad_grid.ravel().tolist() == [0, 0]


def test_infinite_coordinates_combine_with_other_axes():
    image = np.arange(6.0).reshape(1, 1, 2, 3)
    grid = np.array([[[INF, -0.5], [-INF, INF], [INF, NAN]]])
    linear = ("linear", "linear")
    out = reference.gather(image, grid, linear, ("border", "border"), False)
    np.testing.assert_array_equal(out, [[[2, 3, NAN]]])
    out = reference.gather(image, grid, linear, ("zeros", "border"), False)
    np.testing.assert_array_equal(out, [[[0, 0, NAN]]])
    out = reference.gather(image, grid, linear, ("zeros", "reflection"), False)
    np.testing.assert_array_equal(out, [[[0, NAN, NAN]]])
    # The edge still has a gradient along the other axis: y = 0 lies between rows 2 and 5.
    _, grad_grid = reference.gradients(
        np.ones((1, 1, 1)), image, np.array([[[INF, 0.0]]]), linear, ("border", "border"), False
    )
    assert grad_grid.tolist() == [[[0, 3]]]


def test_a_dropped_tap_is_never_read():
    # position -0.5: pixel 0 with half its weight, and nothing else
    assert line((6, NAN), (-1,), "linear", "zeros") == [3]
    # position 1 of size 2, clamped: pixel 1 with weight 1, and index 2, dropped
    assert line((NAN, 6), (9,), "linear", "border") == [6]
    assert line((NAN, 6), (9,), "linear", "zeros") == [0]
    assert line((NAN, 6), (1,), "linear", "reflection", align_corners=True) == [6]
    assert line((6, INF), (9,), "linear", "border") == [INF]
    # a point outside along y drops every tap, whatever x does
    image = np.full((1, 1, 2, 2), NAN)
    grid = np.array([[[0.0, -9.0]]])
    for mode in MODES:
        options = ((mode, mode), ("zeros", "zeros"), False)
        assert reference.gather(image, grid, *options).tolist() == [[[0]]]
        _, grad_grid = reference.gradients(np.ones((1, 1, 1)), image, grid, *options)
        assert grad_grid.tolist() == [[[0, 0]]]


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_tap_inside_with_weight_zero_is_read(bad):
    # position 0 of size 2: pixel 0 with weight 1, and pixel 1 with weight 0
    assert np.isnan(line((6, bad), (-1,), "linear", "zeros", align_corners=True)).all()
    assert line((bad, 6), (1,), "linear", "zeros", align_corners=True) == [6]
    assert np.isnan(line((bad, 6, 6), (0,), "cubic", "zeros")).all()


def test_nearest_has_no_gradient_even_on_a_nan_pixel():
    assert line((NAN, NAN), (-0.5,), "nearest", "zeros", order=1) == [0]
    assert line((NAN, NAN), (INF,), "nearest", "border", order=1) == [0]
    assert line((NAN, NAN), (-0.5,), "linear", "zeros", order=2) == [0]
    assert line((NAN, NAN), (-0.5,), "cubic", "zeros", order=4) == [0]
    image = np.array([[[[NAN, 1.0], [2.0, 3.0]]]])
    _, grad_grid = reference.gradients(
        np.ones((1, 1, 1)),
        image,
        np.array([[[0.4, 0.4]]]),
        ("nearest", "linear"),
        ("zeros", "zeros"),
        True,
    )
    assert grad_grid.tolist() == [[[0, 1]]]


# Against itself: what must be true of any sampling ----------------------------------------------


@MODE
@BOUNDARY
@ALIGN
def test_a_line_is_an_image_of_one_row(mode, boundary, align_corners):
    rng = generator(mode, boundary, align_corners)
    image = rng.standard_normal((2, 2, 7))
    x = rng.uniform(-2, 2, (2, 5, 1))
    y = np.zeros_like(x)  # the centre of the row
    g = rng.standard_normal((2, 2, 5))
    names = ((mode,), (boundary,), align_corners)
    two = ((mode, mode), (boundary, boundary), align_corners)
    wide, points = image[:, :, None, :], np.concatenate([x, y], axis=-1)
    tall, swapped = image[:, :, :, None], np.concatenate([y, x], axis=-1)

    expected = reference.gather(image, x, *names)
    assert np.array_equal(reference.gather(wide, points, *two), expected)
    assert np.array_equal(reference.gather(tall, swapped, *two), expected)
    grad_input, grad_grid = reference.gradients(g, image, x, *names)
    wide_input, wide_grid = reference.gradients(g, wide, points, *two)
    tall_input, tall_grid = reference.gradients(g, tall, swapped, *two)
    assert_close(wide_input[:, :, 0, :], grad_input)
    assert_close(tall_input[:, :, :, 0], grad_input)
    assert_close(wide_grid[..., :1], grad_grid)
    assert_close(tall_grid[..., 1:], grad_grid)


axis_case = st.tuples(
    st.integers(1, 4),  # size
    st.sampled_from(MODES),
    st.sampled_from(BOUNDARIES),
    st.integers(0, 3),  # order
    st.floats(-5, 5),  # coordinate
)


@ALIGN
@given(axes=st.lists(axis_case, min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_axes_are_independent(align_corners, axes, seed):
    """A product of lines, at any rank and with any mix, samples to the product of the samples."""
    rng = np.random.default_rng(seed)
    sizes, modes, boundaries, order, point = zip(*axes, strict=True)
    lines = [rng.integers(-3, 4, size).astype(float) for size in sizes]  # in the order x, y, z
    image = np.ones(())
    for pixels in reversed(lines):
        image = np.multiply.outer(image, pixels)

    factors = [
        line(pixels, (x,), mode, boundary, align_corners, k)[0]
        for pixels, x, mode, boundary, k in zip(lines, point, modes, boundaries, order, strict=True)
    ]
    actual = reference.gather(
        image[None, None], np.array([point]), modes, boundaries, align_corners, order
    )
    largest = math.prod(
        reference.slope(size, align_corners) ** k * 200
        for size, k in zip(sizes, order, strict=True)
    )
    assert actual.shape == (1, 1)
    np.testing.assert_allclose(
        actual.item(), math.prod(factors), rtol=1e-12, atol=1e-14 * max(1.0, largest)
    )


# Beyond PyTorch: coordinates --------------------------------------------------------------------


@MODE
@ALIGN
def test_pixels_and_displacements_are_positions(mode, align_corners):
    rng = generator(mode, align_corners)
    image = rng.standard_normal((2, 2, 5, 6))
    positions = rng.uniform(-3, 8, (2, 4, 3, 2))
    options = ((mode, mode), ("reflection", "zeros"), align_corners)
    expected = reference.gather(image, coordinates(positions, (5, 6), align_corners), *options)
    assert_close(reference.gather(image, positions, *options, coords="pixel"), expected)
    own = np.stack(np.indices((4, 3))[::-1], axis=-1)
    offsets = positions - own
    assert_close(reference.gather(image, offsets, *options, coords="displacement"), expected)

    g = rng.standard_normal(expected.shape)
    grids = {"pixel": positions, "displacement": offsets}
    slopes = [reference.slope(size, align_corners) for size in (6, 5)]
    desired = reference.gradients(g, image, coordinates(positions, (5, 6), align_corners), *options)
    for coords, grid in grids.items():
        grad_input, grad_grid = reference.gradients(g, image, grid, *options, coords=coords)
        assert_close(grad_input, desired[0])
        assert_close(grad_grid * slopes, desired[1])


def test_no_displacement_is_the_identity():
    image = generator("identity").standard_normal((1, 2, 3, 4))
    for mode in ("nearest", "linear", "cubic", "catmull-rom"):
        out = reference.gather(
            image,
            np.zeros((1, 3, 4, 2)),
            (mode, mode),
            ("zeros",) * 2,
            False,
            coords="displacement",
        )
        assert np.array_equal(out, image)


def test_displacements_need_a_grid_of_the_image_rank():
    with pytest.raises(ValueError, match="grid has shape"):
        reference.gather(
            np.zeros((1, 1, 3, 4)),
            np.zeros((1, 5, 2)),
            ("linear",) * 2,
            ("zeros",) * 2,
            False,
            coords="displacement",
        )
