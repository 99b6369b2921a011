"""Coordinates that are not numbers, infinite or far away; axes of one pixel and of billions."""

import itertools

import cases
import numpy as np
import oracles
import pytest
from oracles import assert_close

import gridsample

ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", cases.MODES)
BOUNDARY = pytest.mark.parametrize("boundary", cases.BOUNDARIES)
RANK = pytest.mark.parametrize("rank", [1, 2, 3])
NAN, INF = np.nan, np.inf


def line(pixels, xs, mode, boundary, align_corners=False, dtype=float, grid_type=float):
    """Sample a row of pixels at the coordinates xs; return a list of numbers."""
    image = np.array(pixels, dtype).reshape(1, 1, -1)
    grid = np.array(xs, grid_type).reshape(1, -1, 1)
    return gridsample.grid_sample(image, grid, mode, boundary, align_corners)[0, 0].tolist()


# Not a number, and infinite ---------------------------------------------------------------------


@pytest.mark.covering
@RANK
@ALIGN
@BOUNDARY
@MODE
@pytest.mark.parametrize("layout", ["planes", "runs"])
def test_unusual_coordinates_match_the_reference(mode, boundary, align_corners, rank, layout):
    rng = cases.generator("odd", mode, boundary, align_corners, rank)
    channels = 2 if layout == "planes" else 8
    per_axis = [-1.0, 0.25, NAN, INF, -INF][: 5 if rank < 3 else 4]
    grid = np.array([*itertools.product(per_axis, repeat=rank)])[np.newaxis]
    options = (mode, boundary, align_corners)
    for spatial in ((3, 4, 5)[:rank], (1, 1, 3)[:rank]):
        image = cases.pixels(rng, (1, channels, *spatial))
        values = cases.pixels(rng, (1, channels, grid.shape[1]))
        axis = 1 if layout == "planes" else -1
        arrays = [np.ascontiguousarray(np.moveaxis(array, 1, axis)) for array in (values, image)]
        out = gridsample.grid_sample(arrays[1], grid, *options, channel_axis=axis)
        assert_close(np.moveaxis(out, axis, 1), oracles.reference_output(image, grid, *options))
        expected = oracles.reference_gradients(values, image, grid, *options)
        grad_input, grad_grid = gridsample.grid_sample_vjp(
            *arrays, grid, *options, channel_axis=axis
        )
        assert_close(np.moveaxis(grad_input, axis, 1), expected[0])
        assert_close(grad_grid, expected[1])


@pytest.mark.parametrize("grid_type", cases.REALS)
def test_nan_and_infinite_coordinates_by_hand(grid_type):
    pixels, xs = (1, 2, 4), (NAN, -INF, INF)
    image_type = float if grid_type == "float64" else "float32"
    for mode, align_corners in zip(cases.MODES, (False, True, False), strict=True):
        options = (align_corners, image_type, grid_type)
        zeros, border, reflection = (
            line(pixels, xs, mode, boundary, *options) for boundary in cases.BOUNDARIES
        )
        np.testing.assert_array_equal(zeros, [NAN, 0, 0])
        np.testing.assert_allclose(border, [NAN, 1, 4], rtol=1e-6)
        np.testing.assert_array_equal(reflection, [NAN, NAN, NAN])


@MODE
def test_nan_coordinates_are_zero_in_an_integer_image(mode):
    for dtype in ("uint8", "bool"):
        pixels, xs = (1, 1, 1), (NAN, 0, NAN)
        out = line(pixels, xs, mode, "border", dtype=dtype, grid_type="float32")
        assert out == [0, 1, 0]


@MODE
def test_nan_coordinates_are_nan_in_both_parts_of_a_complex_image(mode):
    image = np.full((1, 1, 3), 1 + 2j)
    out = gridsample.grid_sample(image, np.full((1, 1, 1), NAN), mode)
    assert np.isnan(out.real).all()
    assert np.isnan(out.imag).all()


@BOUNDARY
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_masking_the_loss_keeps_gradients_clean(mode, boundary):
    rng = cases.generator("mask", mode, boundary)
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), rng.uniform(-1, 1, (1, 9, 2))
    values = cases.pixels(rng, (1, 2, 9))
    values[..., 4] = 0
    clean = gridsample.grid_sample_vjp(values, image, grid, mode, boundary)
    grid[:, 4, 1] = NAN
    masked = gridsample.grid_sample_vjp(values, image, grid, mode, boundary)
    np.testing.assert_array_equal(masked[0], clean[0])
    np.testing.assert_array_equal(masked[1][:, 4], 0)
    np.testing.assert_array_equal(np.delete(masked[1], 4, 1), np.delete(clean[1], 4, 1))


# Pixels that are not numbers --------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("channels", [1, 8])
@ALIGN
@BOUNDARY
@MODE
def test_nonfinite_pixels_reach_only_their_samples(mode, boundary, align_corners, channels):
    rng = cases.generator("pixels", mode, boundary, align_corners)
    image = cases.pixels(rng, (1, channels, 5, 8))
    image[:, :, [0, 2, 4], [3, 0, 7]] = NAN
    # Multiples of 1 / 16: pixel centres, where some weights are exactly 0, are among them.
    grid = rng.integers(-24, 25, (1, 240, 2)) / 16
    options = (mode, boundary, align_corners)
    expected = oracles.reference_output(image, grid, *options)
    assert 0.01 < np.isnan(expected).mean() < 0.99
    assert_close(gridsample.grid_sample(image, grid, *options), expected)
    last = gridsample.grid_sample(
        np.ascontiguousarray(np.moveaxis(image, 1, -1)), grid, *options, channel_axis=-1
    )
    assert_close(np.moveaxis(last, -1, 1), expected)

    values = cases.pixels(rng, (1, channels, 240))
    expected = oracles.reference_gradients(values, image, grid, *options)
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *options)
    assert_close(grad_input, expected[0])
    assert_close(grad_grid, expected[1])


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_dropped_tap_is_never_read(bad):
    # Half a pixel outside on the left: the dropped tap would read pixel 0 if it were dropped by a
    # weight of zero.
    for pixels in ((bad, 1, 1), (1, 1, bad)):
        xs = (-1.4, 1.4)  # at -1.1 and 3.1
        assert line(pixels, xs, "linear", "zeros") == [0, 0]
        assert line(pixels, (100, -100), "cubic", "zeros") == [0, 0]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_tap_inside_of_weight_zero_is_read(bad):
    assert np.isnan(line((1, 1, bad), (0,), "linear", "zeros")).all()


# Far away ---------------------------------------------------------------------------------------


@ALIGN
@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 63])
@MODE
def test_reflection_counts_folds_however_far(mode, size, align_corners):
    # Whole coordinates have positions that are multiples of one half, which float64 holds up to
    # 2**52: the pixels, and the side of every fold, are known exactly.
    rng = cases.generator("far", mode, size, align_corners)
    xs = np.concatenate([10.0**k + rng.integers(0, 100, 9) for k in (3, 6, 9, 12, 13)])
    grid = (xs * rng.choice([-1, 1], xs.shape)).reshape(1, -1, 1)
    image, values = cases.pixels(rng, (1, 2, size)), cases.pixels(rng, (1, 2, xs.size))
    options = (mode, "reflection", align_corners)
    out = gridsample.grid_sample(image, grid, *options)
    assert_close(out, oracles.reference_output(image, grid, *options))
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *options)
    expected = oracles.reference_gradients(values, image, grid, *options)
    assert_close(grad_input, expected[0])
    assert_close(grad_grid, expected[1])


@pytest.mark.covering
@ALIGN
@RANK
@MODE
@pytest.mark.parametrize(
    ("dtype", "far"),
    [
        *(("float64", x) for x in (1e9, 1e15, 1e30, 1e300, 1.7e308)),
        *(("float32", x) for x in (1e9, 1e15, 1e30, 3e38)),
    ],
)
def test_far_coordinates(mode, rank, align_corners, dtype, far):
    rng = cases.generator("far", mode, rank, align_corners, far)
    spatial = (7, 5, 63)[:rank]
    image = cases.pixels(rng, (1, 2, *spatial), dtype)
    grid = np.array([*itertools.product([-far, far], repeat=rank)], dtype)[np.newaxis]
    values = np.ones((1, 2, grid.shape[1]), dtype)

    assert not gridsample.grid_sample(image, grid, mode, "zeros", align_corners).any()
    gradients = gridsample.grid_sample_vjp(values, image, grid, mode, "zeros", align_corners)
    assert not any(gradient.any() for gradient in gradients)

    corners = np.array([*itertools.product([0, -1], repeat=rank)])[:, ::-1]
    edges = gridsample.grid_sample(image, grid, mode, "border", align_corners)
    expected = image[(slice(None), slice(None), *corners.T)]
    assert_close(edges, expected, 8 * oracles.ulp(dtype))
    gradients = gridsample.grid_sample_vjp(values, image, grid, mode, "border", align_corners)
    assert_close(gradients[0].sum(), values.sum(), 1e-5)
    assert_close(gradients[1], np.zeros_like(grid), 64 * oracles.ulp(dtype), 64)

    if far < 1e38:  # beyond, the position in pixels is infinite
        mirrored = gridsample.grid_sample(image, grid, mode, "reflection", align_corners)
        gradients = gridsample.grid_sample_vjp(
            values, image, grid, mode, "reflection", align_corners
        )
        assert np.isfinite(gradients[1]).all()
        assert_close(gradients[0].sum(), values.sum(), 1e-5)
        if mode == "cubic":
            assert np.isfinite(mirrored).all()
        else:
            assert (image.min() <= mirrored).all()
            assert (mirrored <= image.max()).all()


# One pixel --------------------------------------------------------------------------------------


@BOUNDARY
@MODE
def test_a_single_aligned_pixel_extends_everywhere(mode, boundary):
    xs = (-1e300, -5, -1, 0, 0.3, 1, 7, INF, -INF)
    np.testing.assert_allclose(line((3,), xs, mode, boundary, True), 3, rtol=1e-15)
    image, grid = np.full((1, 1, 1), 3.0), np.array(xs).reshape(1, -1, 1)
    values = np.ones((1, 1, len(xs)))
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, mode, boundary, True)
    assert grad_input.item() == pytest.approx(len(xs))
    assert not grad_grid.any()
    assert np.isnan(line((3,), (NAN,), mode, boundary, True)).all()


def test_a_single_pixel_has_edges():
    assert line((8,), (-2, -1, 0, 1, 1.5), "linear", "zeros") == [0, 4, 8, 4, 2]
    assert line((8,), (-2, -1, 0, 1, 1.5), "linear", "reflection") == [8] * 5
    assert line((8,), (-2, 1.01, 1), "nearest", "zeros") == [0, 0, 8]  # 0.5 rounds to 0


# Axes and planes too long for 32 bits, or for single precision -----------------------------------


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@BOUNDARY
def test_the_last_of_more_pixels_than_single_precision_counts(mode, boundary):
    image = np.zeros((1, 1, 2**24 + 1), np.uint8)
    image[..., -1], image[..., -2], image[..., 0] = 200, 100, 50
    grid = np.array([-1, 1, 1 - 2**-23, 0], np.float32).reshape(1, -1, 1)
    out = gridsample.grid_sample(image, grid, mode, boundary, True)
    assert out[0, 0].tolist() == [50, 200, 100, 0]


def test_gradients_of_the_last_of_more_pixels_than_single_precision_counts():
    image = np.zeros((1, 1, 2**24 + 1), np.float32)
    image[..., -1] = 1
    grid, values = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32)
    for boundary in ("zeros", "reflection"):
        grad_input, _ = gridsample.grid_sample_vjp(values, image, grid, "linear", boundary, True)
        assert np.flatnonzero(grad_input).tolist() == [2**24]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_axis_of_more_pixels_than_32_bits_count(mode):
    size = 2**31 + 100
    image = np.broadcast_to(np.uint8(200), (1, 1, size))
    positions = np.array([0, 7, 2**31 - 1, 2**31, size - 1, size, -1, 2.0**40])
    grid = cases.coordinates(positions.reshape(1, -1, 1), (size,), True)
    out = gridsample.grid_sample(image, grid, mode, "zeros", True)
    assert out[0, 0].tolist() == [200] * 5 + [0] * 3
    out = gridsample.grid_sample(image, grid, mode, "reflection", True)
    assert out[0, 0].tolist() == [200] * 8


def sparse(path, shape):
    """Zeros in a sparse file; the tests below write to a few of them."""
    return np.memmap(path / "image", np.uint8, "w+", shape=shape)


@pytest.mark.slow
@BOUNDARY
@MODE
def test_planes_of_more_pixels_than_32_bits_count(tmp_path, mode, boundary):
    spatial = (46341, 46350)
    image = sparse(tmp_path, (1, 1, *spatial))
    assert image.size > 2**31
    rng = cases.generator("planes")
    places = [(0, 0), (46340, 46349), (46340, 0), (46334, 46331), (23000, 7)]
    for y, x in places:
        image[0, 0, max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = rng.integers(0, 256)
        image[0, 0, y, x] = rng.integers(0, 256)
    neighbours = [*itertools.product([-0.25, 0.25], repeat=2)]
    positions = np.array([(x + dx, y + dy) for y, x in places for dx, dy in neighbours])
    grid = cases.coordinates(positions[np.newaxis], spatial, False)
    options = (mode, boundary, False)
    out = gridsample.grid_sample(image, grid, *options)

    # The same positions in a crop around each point.
    values = np.ones((1, 1, len(positions)))
    _, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *options, need_input=False)
    for point, (x, y) in enumerate(positions):
        top, left = max(0, round(y) - 5), max(0, round(x) - 5)
        cut = np.asarray(image[:, :, top : top + 12, left : left + 12])
        grid_of_cut = cases.coordinates(np.array([[(x - left, y - top)]]), cut.shape[2:], False)
        exact = oracles.reference_output(cut, grid_of_cut, *options)
        oracles.assert_stored(out[..., point : point + 1], exact, 1e-6, 255)
        ones = np.ones((1, 1, 1))
        slope = oracles.reference_gradients(ones, cut, grid_of_cut, *options)[1]
        scale = np.array(spatial[::-1]) / np.array(cut.shape[:1:-1])
        assert_close(grad_grid[:, point] / scale, slope[:, 0], 1e-6, 255 * 6)


@pytest.mark.slow
@pytest.mark.parametrize("channel_axis", [1, -1])
@MODE
def test_images_of_more_pixels_than_32_bits_count(tmp_path, mode, channel_axis):
    shape = (1, 3, 32000, 32000) if channel_axis == 1 else (1, 16000, 16000, 9)
    image = sparse(tmp_path, shape)
    assert image.size > 2**31
    planes = np.moveaxis(image, channel_axis, 1)
    planes[0, -1, -1, -1], planes[0, 0, 0, 0], planes[0, 1, -1, 0] = 200, 100, 50
    corners = np.array([[(-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]])
    out = gridsample.grid_sample(image, corners, mode, "border", True, channel_axis=channel_axis)
    out = np.moveaxis(out, channel_axis, 1)
    expected = np.zeros(out.shape, np.uint8)
    expected[0, -1, 1], expected[0, 0, 0], expected[0, 1, 2] = 200, 100, 50
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("packed", [True, False])
def test_a_point_with_an_invalid_coordinate_is_invalid_even_if_another_is_outside(packed):
    image = np.ones((1, 1, 3, 3))
    grid = np.array([[[np.inf, 9.0], [9.0, np.nan], [9.0, np.inf]]])
    if not packed:  # each axis by itself
        grid = np.asfortranarray(grid)
    out = gridsample.grid_sample(image, grid, padding_mode=("reflection", "zeros"))
    np.testing.assert_array_equal(out, [[[np.nan, np.nan, 0.0]]])
