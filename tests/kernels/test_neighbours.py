"""The result of a point does not depend on the other points of a call."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels import reference


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline5", "lanczos3"])
@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_result_does_not_depend_on_neighbours(
    rank: int, mode: str, boundary: str, dtype: type
) -> None:
    rng = cases.generator(rank, mode, boundary)
    spatial, out = (7, 11, 37)[3 - rank :], (3, 4, 61)[3 - rank :]
    planes = 2 if mode == "lanczos3" else 1  # their weights are computed once for all planes
    image = rng.standard_normal((1, planes, *spatial)).astype(dtype)
    grid = rng.uniform(-1.3, 1.3, (1, *out, rank)).astype(dtype)
    grid[..., 0] = np.sort(grid[..., 0], -1)  # groups at the edges, and groups inside
    options = {"prefilter": False, **({"fill_value": 1.5} if boundary == "constant" else {})}
    expected = gridsample.grid_sample(image, grid, mode, boundary, **options)
    for first, last in ((0, 5), (5, 24), (24, 61)):
        part = gridsample.grid_sample(image, grid[..., first:last, :], mode, boundary, **options)
        np.testing.assert_array_equal(part, expected[..., first:last])


@pytest.mark.covering
@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("mode", ["cubic", "lanczos3", "lanczos4"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pixels_that_are_not_taps_do_not_count_at_edges(
    mode: str, boundary: str, dtype: type
) -> None:
    rng = cases.generator("no taps", mode, boundary)
    taps = {"cubic": 4, "lanczos3": 6, "lanczos4": 8}[mode]
    image = rng.standard_normal((1, 1, 21, 23)).astype(dtype)
    # Around each corner, and the middle of each side: at most half of the taps are in the image.
    x, y = np.meshgrid([-0.3, 11.4, 22.2], [-0.4, 10.3, 20.1])
    grid = np.stack([x.ravel(), y.ravel()], -1).astype(dtype)[None]
    options = {"coords": "pixel", "fill_value": 1.5 if boundary == "constant" else 0}
    expected = gridsample.grid_sample(image, grid, mode, boundary, **options)
    reach = taps // 2
    for k, (column, row) in enumerate(grid[0]):
        is_near = np.zeros((21, 23), bool)
        rows, columns = (
            [i % n for i in range(int(np.floor(p)) - reach, int(np.floor(p)) + reach + 2)]
            if boundary == "wrap"
            else [*range(max(0, int(p) - reach), min(n, int(p) + reach + 2))]
            for p, n in ((row, 21), (column, 23))
        )
        is_near[np.ix_(rows, columns)] = True
        poisoned = np.where(is_near, image, np.nan).astype(dtype)
        result = gridsample.grid_sample(poisoned, grid[:, k : k + 1], mode, boundary, **options)
        np.testing.assert_array_equal(result, expected[..., k : k + 1])


@pytest.mark.parametrize("boundary", ["zeros", "constant"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "lanczos3"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_beside_the_image_may_be_alone(mode: str, boundary: str, dtype: type) -> None:
    rng = cases.generator("beside", mode, boundary)
    image = rng.standard_normal((1, 1, 9, 11)).astype(dtype)
    # Groups of equal points, of which some taps, one, or none are in the image, and all together.
    places = np.arange(-6, 17, 0.25)
    x, y = (a.ravel() for a in np.meshgrid(places, [-3.3, -1.2, 4.4, 9.1, 9.9, 11.2]))
    together = np.stack([x, y], -1).astype(dtype)[None]
    alone = np.repeat(together, 16, 1)
    options = {"coords": "pixel", **({"fill_value": 1.5} if boundary == "constant" else {})}
    upstream = rng.standard_normal((1, 1, len(x))).astype(dtype)
    expected = gridsample.grid_sample(image, together, mode, boundary, **options)
    result = gridsample.grid_sample(image, alone, mode, boundary, **options)
    np.testing.assert_array_equal(result, expected.repeat(16, 2))
    few, many = (
        gridsample.grid_sample_vjp(g, image, grid, mode, boundary, **options)
        for g, grid in ((upstream, together), (upstream.repeat(16, 2), alone))
    )
    np.testing.assert_array_equal(many[1], few[1].repeat(16, 1))
    close = 1e3 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(many[0], 16 * few[0], rtol=close, atol=close)


@pytest.mark.parametrize("boundary", ["mirror", "symmetric"])
@pytest.mark.parametrize("spatial", [(2,), (1, 4), (4, 1), (3, 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["channels-first", "channels-last"])
def test_mirrored_neighbours_are_the_taps_and_no_other_pixel(
    boundary: str, spatial: tuple[int, ...], last: bool
) -> None:
    rng, rank = cases.generator(boundary, spatial), len(spatial)
    image = channels_last((1, 3, *spatial), np.float64) if last else np.zeros((1, 3, *spatial))
    image[:] = rng.standard_normal(image.shape)
    image[rng.random(image.shape) < 0.25] = np.nan
    # Pixel centres and edges of pixels, also beyond several mirrors.
    grid = rng.integers(-36, 36, (1, 64, *(1,) * (rank - 1), rank)) / 2
    names = ("linear",) * rank, (boundary,) * rank, False
    options: dict[str, Any] = {"coords": "pixel", "extrapolate": True}
    expected = reference.gather(image, grid, *names, **options, fill=0)
    result = gridsample.grid_sample(image, grid, *names, **options)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("y", "x"),
    [
        pair
        for pair in itertools.product(
            ["zeros", "border", "reflection", "mirror", "symmetric", "constant"], repeat=2
        )
        if {*pair} != {"zeros", "constant"}  # which is refused
    ],
)
def test_each_boundary_decides_which_neighbours_are_taps(y: str, x: str) -> None:
    rng = cases.generator("two boundaries", y, x)
    image = rng.standard_normal((1, 2, 6, 9))
    image[rng.random(image.shape) < 0.2] = np.nan
    # Groups of pixel centres: inside, on the last pixels, and beyond them.
    columns, rows = np.meshgrid(np.r_[np.full(16, 8), np.arange(-3, 13)], np.arange(-3, 10))
    grid = np.stack([columns, rows], -1)[None].astype(float)
    names, fill = (("linear",) * 2, (y, x), False), 1.5 if "constant" in (y, x) else 0
    expected = reference.gather(image, grid, *names, coords="pixel", fill=fill)
    result = gridsample.grid_sample(image, grid, *names, coords="pixel", fill_value=fill)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def channels_last(shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any]:
    """Return zeros (N, C, *rest) whose channels are neighbours in memory."""
    return np.moveaxis(np.zeros((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos3"])
@pytest.mark.parametrize("boundary", ["zeros", "border", "wrap", "constant", "missing"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128, np.uint8])
def test_a_run_of_channels_does_not_depend_on_neighbours(
    rank: int, mode: str, boundary: str, channels: int, dtype: type
) -> None:
    rng = cases.generator(rank, mode, boundary, channels)
    image = channels_last((1, channels, *(7,) * rank), dtype)
    image[:] = (rng.standard_normal(image.shape) * 40 + 100).astype(dtype)
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "align_corners": False}
    if boundary == "constant":
        options["fill_value"] = 2.5
    elif boundary == "missing":
        options["missing"] = "ignore"
        if dtype != np.uint8:
            image[rng.random(image.shape) < 0.1] = np.nan
    inside = rng.uniform(-0.7, 0.7, (1, 40, *(1,) * (rank - 1), rank)).astype(np.float32)
    mixed = np.repeat(inside, 2, 1)
    mixed[:, 1::2] *= 2.5
    alone, among = (channels_last((1, channels, *g.shape[1:-1]), dtype) for g in (inside, mixed))
    gridsample.grid_sample(image, inside, out=alone, **options)
    gridsample.grid_sample(image, mixed, out=among, **options)
    np.testing.assert_array_equal(alone, among[:, :, ::2])


@pytest.mark.covering
@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("mode", ["cubic", "lanczos3"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_add_only_to_taps_at_edges(mode: str, boundary: str, dtype: type) -> None:
    x, y = np.meshgrid([-0.3, 6.4, 11.2], [-0.4, 5.3, 9.1])
    grid = np.stack([x.ravel(), y.ravel()], -1).astype(dtype)[None, None]
    options: dict[str, Any] = {"coords": "pixel", "prefilter": False}
    # Item i of the images has NaN at pixel i; samples are NaN if it is a tap.
    images = np.zeros((10 * 12, 1, 10, 12), dtype)
    images.reshape(120, 120)[range(120), range(120)] = np.nan
    is_tap = np.isnan(gridsample.grid_sample(images, grid, mode, boundary, **options))[:, 0, 0]
    upstream = np.zeros((9, 1, 1, 9), dtype)
    upstream[range(9), 0, 0, range(9)] = np.nan
    gradient, _ = gridsample.grid_sample_vjp(
        upstream, np.zeros_like(images[:9]), grid.repeat(9, 0), mode, boundary, **options
    )
    np.testing.assert_array_equal(np.isnan(gradient.reshape(9, 120)).T, is_tap)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("channels", [1, 2, 3, 9])
@pytest.mark.parametrize("axis", [1, -1])
def test_samples_beyond_the_image_are_positive_zeros(
    rank: int, mode: str, dtype: str, channels: int, axis: int
) -> None:
    rng = cases.generator("beyond", rank)
    spatial = (6, 7, 9)[-rank:]
    image = (-1 - rng.random((2, channels, *spatial))).astype(dtype)
    image.reshape(2, channels, -1)[..., 0] = np.nan  # the first pixel is not read for such points
    grid = rng.uniform(-9, 18, (2, *(3, 4, 70)[-rank:], rank))
    grid[..., 0] = np.sort(grid[..., 0], -1)  # groups beyond, at the edges, and inside
    reach, last = 2 if mode == "cubic" else 1, np.array(spatial[::-1]) - 1
    beyond = ((grid < -reach) | (grid > last + reach)).any(-1)
    image = np.ascontiguousarray(np.moveaxis(image, 1, axis))
    samples = gridsample.grid_sample(image, grid, mode, coords="pixel", channel_axis=axis)
    zeros = np.moveaxis(samples, axis, -1)[beyond]
    assert zeros.size
    for part in (zeros.real, zeros.imag):
        assert not part.any() and not np.signbit(part).any()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("boundary", ["zeros", "constant"])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("size", [(1 << 24) + 1, (1 << 25) + 1, (1 << 31) - 5])
def test_distant_points_are_outside_where_an_axis_is_longer_than_float32_can_count(
    mode: str, boundary: str, axis: int, size: int
) -> None:
    pixel = np.full((1, 3, 1, 1), 7, np.uint8)
    image = np.broadcast_to(
        np.moveaxis(pixel, 1, axis), (1, 3, 1, size) if axis == 1 else (1, 1, size, 3)
    )
    x = np.array([3.0, 1e30, -1e30, -2.0, 0.0], np.float32)
    grid = np.stack([x, np.zeros_like(x)], -1)[None, None]
    fill = 5 if boundary == "constant" else 0
    samples = gridsample.grid_sample(
        image, grid, mode, boundary, channel_axis=axis, fill_value=fill
    )
    expected = np.broadcast_to([[fill] * 4 + [7]], (3, 1, 5))
    np.testing.assert_array_equal(np.moveaxis(samples, axis, 1)[0], expected)
