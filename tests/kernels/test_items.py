"""Calls of several items, planes that are copied to runs of channels, and the edges of zeros."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import gridsample

CASES = (("bilinear", "zeros"), ("bicubic", "reflection"), ("nearest", "border"))


def drawn(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def coordinates(*shape, dtype=np.float32):
    """Coordinates inside, near the edges, far outside, and invalid."""
    grid = np.random.default_rng(7).random(shape).astype(dtype) * dtype(2.6) - dtype(1.3)
    points = grid.reshape(-1, shape[-1])
    points[3::41], points[5::37], points[7::43] = np.nan, np.inf, 1
    return grid


# Items of few points ----------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1, 3, 10])
def test_gradients_of_few_points_do_not_depend_on_threads(points):
    """Lanes of a group add together to a pixel, so groups must be the same."""
    image, upstream = drawn(900, 2, 2, 2, 2), drawn(900, 2, points)
    grid = coordinates(900, points, 3)
    results = [
        gridsample.grid_sample_vjp(upstream, image, grid, "bicubic", "reflection", threads=threads)
        for threads in (1, 2, 3)
    ]
    for other in results[1:]:
        for gradient, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(gradient, first)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("points", [1, 3, 8, 15])
def test_items_that_follow_each_other_match_those_apart(points, channels):
    image, upstream = drawn(37, channels, 4, 5), drawn(37, channels, points, seed=1)
    grid = coordinates(37, points, 2)
    apart = np.concatenate([grid, grid], 1)[:, :points]
    assert apart.strides[0] == 2 * grid.strides[0]
    for mode in ("nearest", "linear", "cubic"):
        together = gridsample.grid_sample(image, grid, mode)
        np.testing.assert_array_equal(together, gridsample.grid_sample(image, apart, mode))
        out = np.empty((37, channels, 2 * points), np.float32)[..., :points]
        np.testing.assert_array_equal(gridsample.grid_sample(image, grid, mode, out=out), together)
        values = np.concatenate([upstream, upstream], -1)[..., :points]
        gradients = gridsample.grid_sample_vjp(upstream, image, grid, mode)
        others = gridsample.grid_sample_vjp(values, image, apart, mode)
        for gradient, other in zip(gradients, others, strict=True):
            np.testing.assert_array_equal(gradient, other)


@pytest.mark.covering
@pytest.mark.parametrize(("mode", "boundary"), CASES, ids=["linear", "cubic", "nearest"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8], ids=["float32", "uint8"])
@pytest.mark.parametrize(("channels", "axis"), [(1, 1), (3, 1), (3, -1), (9, -1)])
def test_items_do_not_affect_each_other(mode, boundary, dtype, channels, axis):
    image = np.moveaxis(drawn(67, channels, 7, 9) * 50 + 100, 1, axis).clip(0, 255).astype(dtype)
    grid = coordinates(67, 3, 5, 2)
    options = {"mode": mode, "padding_mode": boundary, "channel_axis": axis}
    out = gridsample.grid_sample(image, grid, **options)
    alone = [
        gridsample.grid_sample(image[n : n + 1], grid[n : n + 1], **options) for n in range(67)
    ]
    np.testing.assert_array_equal(out, np.concatenate(alone))


@pytest.mark.covering
@pytest.mark.parametrize(("mode", "boundary"), CASES, ids=["linear", "cubic", "nearest"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.parametrize(("channels", "axis"), [(1, 1), (3, 1), (9, -1)])
@pytest.mark.parametrize("points", [1, 3, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_items_that_share_a_grid(mode, boundary, dtype, channels, axis, points, weighted):
    real = type(dtype(0).real)
    image = np.moveaxis(drawn(67, channels, 7, 9, dtype=real), 1, axis).astype(dtype)
    image *= 1 if real == dtype else dtype(1 + 0.5j)
    grid = coordinates(1, points, 2, dtype=real)
    options = {"mode": mode, "padding_mode": boundary, "channel_axis": axis}
    if weighted:
        options["weights"] = np.abs(np.moveaxis(drawn(67, 1, 7, 9, seed=2, dtype=real), 1, axis))
    own = np.repeat(grid, 67, 0)
    out = gridsample.grid_sample(image, grid, **options)
    np.testing.assert_array_equal(out, gridsample.grid_sample(image, own, **options))
    values = drawn(*out.shape, seed=1, dtype=real).astype(dtype)
    shared = gridsample.grid_sample_vjp(values, image, grid, **options)
    expected = gridsample.grid_sample_vjp(values, image, own, **options)
    slack = 1e3 * np.finfo(real).eps
    for mine, theirs in zip(shared, expected, strict=True):
        total = theirs.sum(0, keepdims=True) if theirs.shape == own.shape else theirs
        scale = np.nan_to_num(np.abs(total)).max(initial=1)
        np.testing.assert_allclose(mine, total, rtol=0, atol=slack * scale)
        assert mine.dtype == theirs.dtype


@pytest.mark.covering
@pytest.mark.parametrize(("mode", "boundary"), CASES[:2], ids=["linear", "cubic"])
@pytest.mark.parametrize(("channels", "axis"), [(1, 1), (3, 1), (9, -1)])
@pytest.mark.parametrize(("images", "grids"), [(67, 67), (1, 67), (67, 1)])
def test_gradients_of_items_are_separate(mode, boundary, channels, axis, images, grids):
    image = np.moveaxis(drawn(images, channels, 7, 9, dtype=np.float64), 1, axis)
    grid = coordinates(grids, 3, 5, 2, dtype=np.float64)
    options = {"mode": mode, "padding_mode": boundary, "channel_axis": axis}
    values = drawn(*gridsample.grid_sample(image, grid, **options).shape, seed=1, dtype=np.float64)
    alone = [
        gridsample.grid_sample_vjp(
            values[n : n + 1], image[n % images][None], grid[n % grids][None], **options
        )
        for n in range(67)
    ]
    expected = [np.concatenate(each) for each in zip(*alone, strict=True)]
    for k, count in enumerate((images, grids)):
        expected[k] = expected[k] if count > 1 else expected[k].sum(0, keepdims=True)
    result = gridsample.grid_sample_vjp(values, image, grid, **options, threads=1)
    for actual, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-12 * np.abs(other).max())
    for threads in (2, 3):
        again = gridsample.grid_sample_vjp(values, image, grid, **options, threads=threads)
        for actual, other in zip(result, again, strict=True):
            np.testing.assert_array_equal(actual, other)


def test_items_of_an_image_may_be_farther_apart_than_those_of_its_gradient():
    image, grid = drawn(67, 4, 7, 9)[:, :1], coordinates(67, 3, 5, 2)
    values = drawn(67, 1, 3, 5)
    result = gridsample.grid_sample_vjp(values, image, grid, threads=1)
    expected = gridsample.grid_sample_vjp(values, image.copy(), grid, threads=1)
    for actual, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(actual, other)


def test_values_may_be_a_broadcast_number():
    image, grid = drawn(67, 3, 7, 9), coordinates(67, 3, 5, 2)
    ones = np.ones((67, 3, 3, 5), np.float32)
    expected = gridsample.grid_sample_vjp(ones, image, grid)
    result = gridsample.grid_sample_vjp(np.broadcast_to(np.float32(1), ones.shape), image, grid)
    for actual, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(actual, other)


def test_displacements_restart_with_each_item():
    image, field = drawn(67, 2, 4, 5), drawn(67, 4, 5, 2) * np.float32(2)
    out = gridsample.grid_sample(image, field, coords="displacement")
    places = field + np.stack(np.meshgrid(np.arange(5), np.arange(4)), -1).astype(np.float32)
    expected = gridsample.grid_sample(image, places, coords="pixel")
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_gaps_between_items_are_not_written():
    # An output whose items have gaps between them.
    memory = np.full((67, 5, 3, 5), 7, np.float32)
    image, grid = drawn(67, 3, 7, 9), coordinates(67, 3, 5, 2)
    gridsample.grid_sample(image, grid, out=memory[:, 1:4])
    np.testing.assert_array_equal(memory[:, 1:4], gridsample.grid_sample(image, grid))
    assert (memory[:, [0, 4]] == 7).all()


def test_items_may_begin_beyond_32_bits():
    """Groups of few points belong to several items, whose offsets are vectors."""
    image = np.zeros((40, 64, 1024, 1024), np.uint8)[:, :1]  # zeros take no memory
    image[:, 0, 0, 0] = np.arange(40)
    grid = np.full((40, 3, 2), -1, np.float32)
    for mode in ("nearest", "bilinear"):
        out = gridsample.grid_sample(image, grid, mode, "border", True)
        assert out[:, 0, 0].tolist() == list(range(40))


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("axis", [1, -1])
def test_dropped_taps_add_nothing_to_other_items(axis):
    """Items are added to by different threads; the first has most of the work."""
    channels = 800
    shape = (512, channels, 2, 2) if axis == 1 else (512, 2, 2, channels)
    image, grid = np.zeros(shape, np.float32), np.full((512, 16, 1, 2), -0.5, np.float32)
    grid[256:] = 3
    values = np.ones((512, channels, 16, 1) if axis == 1 else (512, 16, 1, channels), np.float32)
    for _ in range(3):
        serial, two = (
            gridsample.grid_sample_vjp(
                values, image, grid, "bicubic", channel_axis=axis, threads=threads, need_grid=False
            )[0]
            for threads in (1, 2)
        )
        np.testing.assert_array_equal(serial, two)


# Runs of channels -------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["zeros", "constant", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", ("nearest", "cubic")])
@pytest.mark.parametrize("channels", [6, 8, 9, 16, 37])
def test_interleaved_channels_match_planes(boundary, mode, channels):
    sizes = itertools.product([np.float32, np.float64], [(9, 11), (1, 9), (7, 1)], [1, 2])
    for dtype, size, items in sizes:
        image = drawn(items, channels, *size, dtype=dtype)
        image[0, 0, 0, 0] = np.nan
        grid = coordinates(2, 13, 9, 2, dtype=dtype)
        options = {"mode": mode, "padding_mode": boundary}
        options["fill_value"] = 2.5 if boundary == "constant" else 0
        out = gridsample.grid_sample(image, grid, **options)
        planes = [
            gridsample.grid_sample(image[:, c : c + 1], grid, **options) for c in range(channels)
        ]
        eps = 16 * np.finfo(dtype).eps
        np.testing.assert_allclose(out, np.concatenate(planes, 1), rtol=eps, atol=eps * 4)


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["zeros", "constant", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", ("nearest", "cubic")])
@pytest.mark.parametrize(("channels", "items", "odd"), [(6, 1, 0), (9, 2, 1), (37, 3, 0)])
def test_gradients_of_interleaved_channels_match_planes(boundary, mode, channels, items, odd):
    for size in ((9, 11), (1, 9), (7, 1)):
        image = drawn(items, channels, *size, dtype=np.float64)
        grid = coordinates(items, 13, 9, 2, dtype=np.float64)
        values = drawn(items, channels, 13, 9, seed=2, dtype=np.float64)
        if odd:
            image[0, 0, 0, 0] = values[0, 1, 3, 3] = np.nan
        options = {"mode": mode, "padding_mode": boundary}
        options["fill_value"] = 2.5 if boundary == "constant" else 0
        planes = [
            gridsample.grid_sample_vjp(values[:, c : c + 1], image[:, c : c + 1], grid, **options)
            for c in range(channels)
        ]
        expected = (
            np.concatenate([gradient for gradient, _ in planes], 1),
            sum(gradient for _, gradient in planes),
        )
        result = gridsample.grid_sample_vjp(values, image, grid, **options, threads=1)
        for actual, other in zip(result, expected, strict=True):
            scale = max(1, np.nanmax(np.abs(other)))
            np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-13 * scale)
        # The grid's gradient alone may be computed plane by plane.
        alone = gridsample.grid_sample_vjp(
            values, image, grid, **options, threads=1, need_input=False
        )[1]
        scale = max(1, np.nanmax(np.abs(expected[1])))
        np.testing.assert_allclose(alone, expected[1], rtol=1e-12, atol=1e-13 * scale)
        for threads, *needed in ((2, True, True), (3, True, False), (2, False, True)):
            again = gridsample.grid_sample_vjp(
                values,
                image,
                grid,
                **options,
                threads=threads,
                need_input=needed[0],
                need_grid=needed[1],
            )
            like = result if needed[0] else (None, alone)
            for actual, other, need in zip(again, like, needed, strict=True):
                assert (actual is not None) == need
                if need:
                    np.testing.assert_array_equal(actual, other)


# Taps at the edges of zeros ---------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_a_pixel_beside_a_dropped_tap_is_not_read(rank, dtype):
    # Pixels next to the outermost ones are NaN: points half outside have them for no tap.
    image = np.ones((1, 1, *(6,) * rank), dtype)
    inner = (slice(None), slice(None), *(slice(1, -1),) * rank)
    image[inner] = np.nan
    positions = np.array([-1, -0.75, -0.25, 5.25, 5.75, np.nextafter(dtype(6), dtype(0)), 6], dtype)
    places = np.array([*itertools.product(positions, repeat=rank)], dtype)[None]
    out = gridsample.grid_sample(image, places, coords="pixel")[0, 0]
    weight = np.minimum(1 - np.maximum(-positions, 0), 1 - np.maximum(positions - 5, 0)).clip(0)
    expected = np.array([np.prod(each) for each in itertools.product(weight, repeat=rank)])
    np.testing.assert_allclose(out, expected, rtol=0, atol=8 * np.finfo(dtype).eps)
    values = np.ones((1, 1, len(places[0])), dtype)
    grad_image, slope = gridsample.grid_sample_vjp(values, image, places, coords="pixel")
    assert (grad_image[inner] == 0).all() and np.isfinite(slope).all()


def test_a_tap_of_weight_zero_is_read():
    image = np.array([[[1.0, np.nan, 3.0]]])
    out = gridsample.grid_sample(image, np.array([[[0.0], [2.0]]]), coords="pixel")
    assert np.isnan(out[0, 0, 0]) and out[0, 0, 1] == 3


# Threads ----------------------------------------------------------------------------------------

FORKED = """
import os, signal, numpy as np, torch, gridsample
image, grid = torch.rand(64, 4, 32, 32), torch.rand(64, 64, 64, 2)
torch.set_num_threads(2)
expected = gridsample.grid_sample(image, grid)
child = os.fork()
if not child:
    signal.alarm(100)
    same = np.array_equal(
        gridsample.grid_sample(image.numpy(), grid.numpy(), threads=2), expected.numpy()
    )
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_do_not_use_openmp():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("points", [1, 3])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_second_derivatives_of_items_that_share_a_grid(mode, points):
    rng = np.random.default_rng(3)
    image = torch.from_numpy(rng.standard_normal((67, 2, 7, 9))).requires_grad_()
    grid = torch.from_numpy(coordinates(1, points, 2, dtype=np.float64)).requires_grad_()
    upstream = torch.from_numpy(rng.standard_normal((67, 2, points))).requires_grad_()
    directions = [torch.from_numpy(rng.standard_normal(x.shape)) for x in (image, grid)]

    def second(points):
        values = gridsample.grid_sample(image, points, mode=mode)
        first = torch.autograd.grad(values, (image, grid), upstream, create_graph=True)
        return torch.autograd.grad(first, (image, grid, upstream), directions)

    for mine, other in zip(second(grid), second(grid.expand(67, -1, -1)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)
