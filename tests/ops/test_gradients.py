"""Gradients: against finite differences where no peer has them, and their documented properties."""

import itertools

import cases
import ml_dtypes
import numpy as np
import oracles
import pytest
from oracles import assert_close

import gridsample

ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", cases.MODES)
BOUNDARY = pytest.mark.parametrize("boundary", cases.BOUNDARIES)


def smooth_grid(rng, shape, spatial, align_corners):
    """Coordinates in and around an image, with positions away from all pixels, edges and ties."""
    base = rng.integers(-3, np.array(spatial[::-1]) + 3, shape)
    positions = base + rng.choice([0.0, 0.5], shape) + rng.uniform(0.1, 0.4, shape)
    return cases.coordinates(positions, spatial, align_corners)


def assert_gradients_are_differences(rng, spatial, mode, boundary, align_corners):
    options = (mode, boundary, align_corners)
    image = cases.pixels(rng, (1, 2, *spatial))
    grid = smooth_grid(rng, (2, 3, len(spatial)), spatial, align_corners)
    values = cases.pixels(rng, (2, 2, 3))
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *options)

    def loss_of_grid(grid):
        return np.sum(values * gridsample.grid_sample(image, grid, *options))

    def loss_of_image(image):
        return np.sum(values * gridsample.grid_sample(image, grid, *options))

    assert_close(grad_grid, oracles.finite_difference(loss_of_grid, grid), 1e-8)
    assert_close(grad_input, oracles.finite_difference(loss_of_image, image), 1e-8)


@pytest.mark.covering
@ALIGN
@BOUNDARY
@MODE
def test_one_dimensional_gradients(mode, boundary, align_corners):
    rng = cases.generator("line", mode, boundary, align_corners)
    for size in (1, 2, 7):
        assert_gradients_are_differences(rng, (size,), mode, boundary, align_corners)


@pytest.mark.covering(ordinary=0)
@ALIGN
@BOUNDARY
def test_cubic_in_a_volume(boundary, align_corners):
    rng = cases.generator("volume", boundary, align_corners)
    assert_gradients_are_differences(rng, (2, 3, 5), "cubic", boundary, align_corners)


@pytest.mark.covering(ordinary=0)
@ALIGN
@pytest.mark.parametrize("rank", [2, 3])
def test_with_another_mode_and_boundary_on_each_axis(rank, align_corners):
    rng = cases.generator("mix", rank, align_corners)
    for k, modes in enumerate(itertools.permutations(cases.MODES)):
        boundaries = np.roll(cases.BOUNDARIES, k).tolist()
        assert_gradients_are_differences(
            rng, (3, 4, 5)[:rank], modes[:rank], boundaries[:rank], align_corners
        )


# What is promised -------------------------------------------------------------------------------


@pytest.fixture(params=[1, -1], ids=["first", "last"])
def call(request):
    """Upstream values, an image of nine channels, a grid, and the channel axis."""
    rng = cases.generator("promises")
    axis = request.param
    image = np.moveaxis(cases.pixels(rng, (2, 9, 5, 7)), 1, axis)
    values = np.moveaxis(cases.pixels(rng, (2, 9, 63)), 1, axis)
    return (values, image, rng.uniform(-1.2, 1.2, (2, 63, 2))), {"channel_axis": axis}


@MODE
def test_only_what_is_needed(mode, call):
    arrays, options = call
    both = gridsample.grid_sample_vjp(*arrays, mode, **options)
    grad_input, nothing = gridsample.grid_sample_vjp(*arrays, mode, need_grid=False, **options)
    assert nothing is None
    assert_close(grad_input, both[0])
    nothing, grad_grid = gridsample.grid_sample_vjp(*arrays, mode, need_input=False, **options)
    assert nothing is None
    assert_close(grad_grid, both[1])
    neither = {"need_input": False, "need_grid": False}
    assert gridsample.grid_sample_vjp(*arrays, mode, **neither, **options) == (None, None)


def test_unneeded_gradients_take_no_memory():
    # A dense gradient of this image would be 64 TiB.
    image = np.broadcast_to(np.float32(2), (1, 1, 2**22, 2**22))
    grid = np.zeros((1, 3, 2), np.float32)
    values = np.ones((1, 1, 3), np.float32)
    _, grad_grid = gridsample.grid_sample_vjp(values, image, grid, need_input=False)
    assert not grad_grid.any()


def test_gradients_are_fresh_arrays(call):
    arrays, options = call
    grad_input, grad_grid = gridsample.grid_sample_vjp(*arrays, **options)
    for gradient in (grad_input, grad_grid):
        assert gradient.flags.writeable
        for array in arrays:
            assert not np.shares_memory(gradient, array)


@pytest.mark.covering
@BOUNDARY
@ALIGN
def test_nearest_has_no_gradient_of_the_grid(boundary, align_corners, call):
    (values, image, grid), options = call
    image = image.copy()
    image[:, 2] = np.nan
    for modes in ("nearest", ("nearest", "linear"), ("cubic", "nearest")):
        names = (modes, boundary, align_corners)
        _, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *names, **options)
        for axis, mode in enumerate(oracles.per_axis(modes, 2)):
            if mode == "nearest":
                np.testing.assert_array_equal(grad_grid[..., axis], 0)


def test_taps_on_the_same_pixel_accumulate(call):
    (values, image, grid), options = call
    middle = np.zeros_like(grid)  # the centre of pixel (2, 3)
    grad_input, _ = gridsample.grid_sample_vjp(values, image, middle, **options)
    gradient = np.moveaxis(grad_input, options["channel_axis"], 1)[:, :, 2, 3]
    point_axis = 2 if options["channel_axis"] == 1 else 1
    assert_close(gradient, values.sum(axis=point_axis), scale=63)
    assert np.count_nonzero(grad_input) == gradient.size


def test_values_of_another_precision():
    rng = cases.generator("precisions")
    image, grid = cases.pixels(rng, (1, 2, 5, 7), "float32"), rng.uniform(-1, 1, (1, 9, 2))
    values = cases.pixels(rng, (1, 2, 9), "float64")
    expected = oracles.reference_gradients(values, image, grid, "linear", "zeros", False)
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid)
    assert (grad_input.dtype, grad_grid.dtype) == (np.float32, np.float64)
    assert_close(grad_input, expected[0], oracles.ulp(np.float32))
    assert_close(grad_grid, expected[1])


def test_derivatives_of_bfloat16_beside_other_dtypes():
    rng = cases.generator("bfloat16 derivatives")
    image, grid = cases.pixels(rng, (1, 2, 5)), rng.uniform(0, 4, (1, 3, 1))
    half = image.astype(ml_dtypes.bfloat16)
    for other in ("float16", "float32", ml_dtypes.bfloat16):
        points = grid.astype(other)
        result = gridsample.grid_gradient(half, points, coords="pixel")
        assert result.dtype == (other if other == ml_dtypes.bfloat16 else "float32")
        wide = half.astype(float), points.astype(float)
        expected = gridsample.grid_gradient(*wide, coords="pixel")
        np.testing.assert_allclose(result.astype(float), expected, rtol=2**-8)


def test_upstream_values_of_points_without_taps_are_ignored(call):
    (values, image, grid), options = call
    values, grid, dropped = values.copy(), grid.copy(), np.zeros((2, 63), bool)
    grid[:, 5], grid[:, 9, 1], grid[:, 17, 0], dropped[:, [5, 9, 17]] = 100, np.inf, np.nan, True
    shape = (2, 1, 63) if options["channel_axis"] == 1 else (2, 63, 1)
    clean = gridsample.grid_sample_vjp(
        np.where(dropped.reshape(shape), 0, values), image, grid, **options
    )
    for odd in (np.nan, np.inf):
        dirty = gridsample.grid_sample_vjp(
            np.where(dropped.reshape(shape), odd, values), image, grid, **options
        )
        for actual, other in zip(dirty, clean, strict=True):
            np.testing.assert_array_equal(actual, other)
    assert not clean[1][dropped].any()
