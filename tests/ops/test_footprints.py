"""Antialiased sampling: means over the footprints of output points."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
import torch
from oracles import Array, assert_close, magnitude, per_axis, ulp
from torch.autograd import gradcheck, gradgradcheck

import gridsample.nn
from gridsample import cv, torch_compat
from gridsample.explanation import plot
from gridsample.kernels.reference import footprints as reference


def shrinking(
    rng: np.random.Generator,
    items: int,
    out: tuple[int, ...],
    spatial: tuple[int, ...],
    coords: str = "normalized",
    noise: float = 0.1,
) -> Array:
    """A grid that covers an image of a spatial shape with fewer points, unevenly."""
    lines = [np.linspace(-1, 1, n) for n in out]
    grid = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1)
    grid = grid + noise * rng.standard_normal((items, *grid.shape))
    if coords != "normalized":
        grid = (grid + 1) / 2 * (np.array(spatial[::-1]) - 1)
    if coords == "displacement":
        grid -= np.stack(np.meshgrid(*map(np.arange, out), indexing="ij")[::-1], -1)
    return grid


# Against the reference ----------------------------------------------------------------------------


CALLS = [
    # image, grid's N, out, mode, boundary, align_corners, coords, max_samples
    ((1, 2, 9), 2, (4,), "linear", "wrap", False, "displacement", 2),
    ((2, 1, 9), 1, (3,), "cubic", "zeros", True, "normalized", 16),
    ((2, 2, 9, 7), 2, (4, 3), "linear", "zeros", False, "normalized", 16),
    ((2, 2, 9, 7), 1, (4, 3), "linear", "constant", True, "normalized", 2),
    ((1, 3, 9, 7), 2, (4, 3), "cubic", "border", False, "pixel", 1),
    ((1, 1, 8, 17), 1, (3, 3), ("cubic", "nearest"), "reflection", True, "displacement", 3),
    ((1, 2, 5, 6, 7), 1, (2, 3, 3), "linear", "mirror", False, "normalized", 2),
]


@pytest.mark.covering
@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_results_and_gradients_match_the_reference(call: Any, last: bool) -> None:
    shape, items, out, mode, boundary, corners, coords, most = call
    rng = cases.generator("footprints", str(call))
    image, grid = cases.pixels(rng, shape), shrinking(rng, items, out, shape[2:], coords)
    names = per_axis(mode, len(out)), per_axis(boundary, len(out)), corners
    fill = 2.5 if boundary == "constant" else 0
    more: Any = {"coords": coords, "fill": fill, "max_samples": most}
    expected = reference.gather(image, grid, *names, **more)
    values = cases.pixels(rng, expected.shape)
    by_image, by_grid = reference.gradients(values, image, grid, *names, **more)
    _, only = reference.gradients(values, image, grid, *names, **more, attached=False)

    options: Any = {"mode": mode, "padding_mode": boundary, "align_corners": corners}
    options |= {"coords": coords, "fill_value": fill, "antialias": True, "max_samples": most}
    if last:
        image, values = (np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (image, values))
        options["channel_axis"] = -1
    result = gridsample.grid_sample(image, grid, **options)
    first, second = gridsample.grid_sample_vjp(values, image, grid, **options)
    _, third = gridsample.grid_sample_vjp(values, image, grid, **options, footprint="detach")
    if last:
        result, first = np.moveaxis(result, -1, 1), np.moveaxis(first, -1, 1)
    assert_close(result, expected, 64 * ulp(float))
    assert_close(first, by_image, 64 * ulp(float))
    assert_close(second, by_grid, 256 * ulp(float))
    assert_close(third, only, 256 * ulp(float))


@pytest.mark.covering
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32"])
def test_means_of_nearest_pixels(dtype: str, last: bool) -> None:
    """Nearest pixels are copied in the image's dtype, and their mean is rounded once."""
    rng = cases.generator("footprints", "nearest")
    image = cases.pixels(rng, (1, 2, 12, 13), dtype)
    image = np.ascontiguousarray(np.moveaxis(image, 1, -1)) if last else image
    grid, fill = shrinking(rng, 1, (4, 4), (12, 13)), 1
    options: Any = {"mode": "nearest", "padding_mode": "constant", "fill_value": fill}
    options |= {"antialias": True, "channel_axis": -1 if last else 1}
    result = gridsample.grid_sample(image, grid, **options)
    exact = gridsample.grid_sample(image.astype(float), grid, **options)
    assert result.dtype == image.dtype
    if result.dtype.kind == "f":
        assert_close(result, exact, ulp(result.dtype) + 8 * ulp(np.float32))
    else:
        np.testing.assert_array_equal(result, np.rint(exact))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "complex128"])
def test_every_dtype_is_rounded_once(dtype: str) -> None:
    rng = cases.generator("footprints", dtype)
    image = cases.pixels(rng, (1, 2, 12, 13), dtype)
    grid = shrinking(rng, 1, (4, 4), (12, 13)).astype(np.float32)
    grid[0, 1, 2] = np.nan
    result = gridsample.grid_sample(
        image, grid, padding_mode="constant", fill_value=3, antialias=True
    )
    linear, constant = ("linear", "linear"), ("constant", "constant")
    exact = reference.gather(image, grid.astype(float), linear, constant, False, fill=3)
    assert result.dtype == image.dtype
    if result.dtype.kind == "u":
        # Ties may be rounded differently with float32 coordinates.
        assert np.abs(result.astype(int) - exact.astype(int)).max() <= 1
        assert (result == exact).mean() > 0.9 and (result[..., 1, 2] == 3).all()
    else:
        rounding = ulp(image.real.dtype) if dtype != "complex128" else 0
        assert_close(result, exact, 2 * rounding + 64 * ulp(np.float32))


# What the definition says -------------------------------------------------------------------------


def test_a_grid_that_shrinks_nothing_gives_the_bits_of_plain_sampling() -> None:
    rng = cases.generator("footprints", "bits")
    image = cases.pixels(rng, (1, 2, 17, 19), np.float32)
    theta = np.array([[[0.6, -0.8, 0.1], [0.8, 0.6, 0.0]]])
    grid = gridsample.affine_grid(theta, (1, 1, 19, 19)).astype(np.float32)
    grid[..., 1] *= 19 / 17
    grid *= 0.94
    assert (gridsample.footprint(grid, (17, 19)).counts == 1).all()
    expected = gridsample.grid_sample(image, grid, "bicubic")
    assert (gridsample.grid_sample(image, grid, "bicubic", antialias=True) == expected).all()


def test_nonfinite_neighbouring_points_are_ignored() -> None:
    rng = cases.generator("footprints", "nan")
    image, grid = cases.pixels(rng, (1, 1, 20, 20)), shrinking(rng, 1, (5, 5), (20, 20))
    grid[0, 2, 2], grid[0, 0, 4], grid[0, 4, 0, 1] = np.nan, np.inf, -np.inf
    names = ("linear", "linear"), ("border", "border"), False
    expected = reference.gather(image, grid, *names)
    result = gridsample.grid_sample(image, grid, padding_mode="border", antialias=True)
    assert np.isnan(result[0, 0, 2, 2]) and np.isfinite(result).sum() == 24
    assert_close(result, expected, 64 * ulp(float))
    lengths = gridsample.footprint(grid, (20, 20)).lengths
    assert np.isfinite(lengths).all() and (lengths[0, 2, 2] == 0).all()


def test_stripes_are_averaged_only_across() -> None:
    stripes = np.broadcast_to(np.arange(64) % 2.0, (1, 1, 64, 64))
    for turned in (False, True):
        image = stripes.swapaxes(2, 3) if turned else stripes
        across = gridsample.affine_grid(np.eye(2, 3)[None], (1, 1, 32, 32))
        result = gridsample.grid_sample(image, across, padding_mode="border", antialias=True)
        np.testing.assert_allclose(result, 0.5, atol=1e-12)
    # Points are two pixels apart along the stripes, and one across.
    along = gridsample.affine_grid(np.eye(2, 3)[None], (1, 1, 32, 64))
    result = gridsample.grid_sample(stripes, along, antialias=True)
    np.testing.assert_allclose(result[..., 1:-1, :], stripes[..., 1:31, :], atol=1e-12)


@pytest.mark.parametrize("shear", np.linspace(-0.6, 0.6, 8).round(2))
def test_sheared_stripes_become_grey(shear: float) -> None:
    stripes = np.broadcast_to(np.arange(128) % 2.0, (1, 1, 128, 128))
    theta = np.array([[[0.5, shear, 0.0], [0.0, 0.5, 0.0]]])  # two pixels to the right
    result = gridsample.affine_sample(
        stripes, theta, (1, 1, 32, 32), "bilinear", "wrap", antialias=True
    )
    np.testing.assert_allclose(result, 0.5, atol=1e-12)


@pytest.mark.parametrize("angle", [0, 10, 30, 45, 80])
@pytest.mark.parametrize("shrink", [1.7, 2.5, 4])
def test_a_point_source_keeps_its_flux(angle: float, shrink: float) -> None:
    y, x = np.mgrid[:96, :96]
    image = np.exp(-((x - 50.3) ** 2 + (y - 47.6) ** 2) / (2 * 1.5**2))[np.newaxis, np.newaxis]
    image /= image.sum()
    radians = np.deg2rad(angle)
    cos, sin = np.cos(radians), np.sin(radians)
    size = 80
    scale = shrink * size / 96
    theta = scale * np.array([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
    result = gridsample.affine_sample(image, theta, (1, 1, size, size), antialias=True)
    np.testing.assert_allclose(result.sum() * shrink**2, 1, rtol=4e-3)


@pytest.mark.parametrize("size", [(4, 5), (2, 10), (1, 1)])
def test_aligned_blocks_match_area_means(size: tuple[int, int]) -> None:
    rng = cases.generator("footprints", "areas")
    image = cases.pixels(rng, (1, 2, 8, 10))
    theta = np.eye(2, 3)[np.newaxis]
    expected = gridsample.interpolate(image, size, mode="area")
    result = gridsample.affine_sample(image, theta, (1, 2, *size), "nearest", antialias=True)
    assert_close(result, expected, 16 * ulp(float))
    up = cases.pixels(rng, result.shape)
    first, second = gridsample.affine_sample_vjp(
        up, image, theta, (1, 2, *size), antialias=True, padding_mode="border"
    )
    affine_result = gridsample.affine_sample(
        image, theta, (1, 2, *size), antialias=True, padding_mode="border"
    )
    np.testing.assert_allclose((first * image).sum(), (affine_result * up).sum(), rtol=1e-12)
    assert second.shape == theta.shape and np.isfinite(second).all()


def test_long_footprints_are_sampled_in_halved_images() -> None:
    rng = cases.generator("footprints", "levels")
    image = cases.pixels(rng, (1, 1, 67, 64))
    theta = np.eye(2, 3)[np.newaxis]
    result = gridsample.footprint(
        gridsample.affine_grid(theta, (1, 1, 2, 2)), (67, 64), max_samples=4
    )
    assert (result.levels == 4).all() and (result.counts <= 4).all()
    few = gridsample.affine_sample(image, theta, (1, 1, 2, 2), antialias=True, max_samples=4)
    exact = gridsample.interpolate(image, (2, 2), mode="area")
    aliased = gridsample.affine_sample(image, theta, (1, 1, 2, 2))
    assert np.abs(few - exact).max() < 0.1 * np.abs(aliased - exact).max() + 0.05 * magnitude(image)


# With everything else -----------------------------------------------------------------------------


def test_splatting_matches_the_transpose() -> None:
    rng = cases.generator("footprints", "splat")
    for most in (2, 16):
        image, grid = cases.pixels(rng, (2, 3, 21, 18)), shrinking(rng, 2, (5, 4), (21, 18))
        values = cases.pixels(rng, (2, 3, 5, 4))
        options: Any = {"padding_mode": "border", "antialias": True, "max_samples": most}
        sampled = gridsample.grid_sample(image, grid, "spline3", **options)
        splatted = gridsample.splat(values, grid, (21, 18), "spline3", **options)
        ours, theirs = (sampled * values).sum(), (splatted * image).sum()
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    # Each value is spread over its footprint, so that an enlarged image has no gaps.
    count = gridsample.splat_count(cases.identity((8, 8), False), (32, 32), antialias=True)
    np.testing.assert_allclose(count[..., 2:-2, 2:-2], 1 / 16, rtol=0.3)


def test_masks_missing_pixels_and_weights() -> None:
    rng = cases.generator("footprints", "missing")
    image, grid = cases.pixels(rng, (1, 2, 20, 21)), 1.2 * shrinking(rng, 1, (5, 5), (20, 21))
    weights = rng.uniform(0, 2, (1, 1, 20, 21))
    masked = image.copy()
    masked[rng.random(image.shape) < 0.3] = np.nan
    known = np.isfinite(masked)
    options: Any = {"antialias": True}
    _, mask = gridsample.grid_sample(image, grid, return_mask=True, **options)
    ones = gridsample.grid_sample(np.ones((1, 1, 20, 21)), grid, **options)
    assert_close(mask, ones, 16 * ulp(float))
    below = gridsample.grid_sample(weights * known, grid, **options)
    above = gridsample.grid_sample(np.where(known, weights * image, 0), grid, **options)
    result = gridsample.grid_sample(
        masked, grid, missing="ignore", weights=weights, padding_mode="missing", **options
    )
    inside = below > 1e-9
    np.testing.assert_allclose(result[inside], (above / np.where(inside, below, 1))[inside], 1e-10)
    constant = np.where(known, 7.0, np.nan)
    result = gridsample.grid_sample(
        constant, grid, missing="ignore", padding_mode="missing", **options
    )
    np.testing.assert_allclose(result[np.isfinite(result)], 7, rtol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "complex64", "uint8"])
@pytest.mark.parametrize("padding_mode", ["missing", "constant"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("axis", [1, -1])
def test_means_over_footprints_of_any_length(
    dtype: str, padding_mode: str, weighted: bool, axis: int
) -> None:
    """Footprints are so different that some points are sampled in the image, others in its half."""
    rng = cases.generator("footprints", "means")
    channels = 5 if dtype == "complex64" else 3
    image = (cases.pixels(rng, (2, channels, 40, 41)) * 20 + 128).astype(dtype)
    if dtype == "complex64":
        image.imag = cases.pixels(rng, image.shape)
    if dtype != "uint8":
        image[rng.random(image.shape) < 0.2] = np.nan
    weights = rng.uniform(0, 2, (2, 1, 40, 41)) * (rng.random((2, 1, 40, 41)) < 0.9)
    known = np.isfinite(image) * (weights if weighted else np.ones_like(weights))
    x, y = np.meshgrid(np.linspace(-1.2, 1.2, 9) ** 3, np.linspace(-1, 1, 7))
    grid = np.stack([x, y], -1)[None]
    options: Any = {"antialias": True, "max_samples": 2}
    assert gridsample.footprint(grid, (40, 41)).lengths.max() > 8
    # The same sums, one after the other; what is outside is a known 7, or unknown.
    outside: Any = (
        {} if padding_mode == "missing" else {"fill_value": 7, "padding_mode": "constant"}
    )
    values = np.where(known > 0, image.astype("complex128") * known, 0)
    above = gridsample.grid_sample(values, grid, **options, **outside)
    below = gridsample.grid_sample(
        known, grid, **options, **(outside and outside | {"fill_value": 1})
    )
    enough = below > 0.1
    expected = np.where(enough, above / np.where(enough, below, 1), np.nan)
    result, weight = gridsample.grid_sample(
        np.moveaxis(image, 1, axis),
        grid,
        padding_mode=padding_mode,
        missing="ignore",
        weights=np.moveaxis(weights, 1, axis) if weighted else None,
        min_weight=0.1,
        return_weight=True,
        channel_axis=axis,
        fill_value=outside.get("fill_value", 0),
        **options,
    )
    result, weight = np.moveaxis(result, axis, 1), np.moveaxis(weight, axis, 1)
    np.testing.assert_allclose(weight, below, atol=2e-6)
    if dtype == "uint8":
        assert abs(result - np.nan_to_num(expected.real)).max() < 0.5 + 1e-3
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_out_threads_and_layouts_do_not_change_the_result() -> None:
    rng = cases.generator("footprints", "layouts")
    image, grid = cases.pixels(rng, (2, 2, 30, 31)), shrinking(rng, 2, (7, 9), (30, 31))
    expected = gridsample.grid_sample(image, grid, antialias=True, threads=1)
    assert (gridsample.grid_sample(image, grid, antialias=True, threads=3) == expected).all()
    out = np.empty_like(expected)
    gridsample.grid_sample(image, grid, antialias=True, out=out)
    assert (out == expected).all()
    views = cases.spaced(image), cases.reversed_axes(grid)
    result = gridsample.grid_sample(*views, antialias=True)
    assert_close(result, expected, 4 * ulp(float))
    none = gridsample.grid_sample(image[:0], grid[:0], antialias=True)
    assert none.shape == (0, *expected.shape[1:])


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("axes", [*itertools.permutations(range(4))], ids=str)
def test_gradients_of_images_in_any_memory_order(axes: tuple[int, ...]) -> None:
    """Also with items that are not apart in memory, and with a grid for all items."""
    rng = cases.generator("footprints", "memory order")
    planes = cases.pixels(rng, (2, 3, 12, 11))
    image = torch.from_numpy(planes.transpose(axes).copy()).permute(*np.argsort(axes).tolist())
    grid = torch.from_numpy(shrinking(rng, 2, (3, 4), (12, 11)))
    for points in (grid, grid[:1]):
        results = []
        for same in (image, image.contiguous()):
            leaves = same.detach().requires_grad_(), points.clone().requires_grad_()
            out = gridsample.grid_sample(*leaves, antialias=True)
            first = torch.autograd.grad((out**3).sum(), leaves, create_graph=True)
            second = torch.autograd.grad(sum((gradient**2).sum() for gradient in first), leaves)
            results.append((*first, *second))
        for result, expected in zip(*results, strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.covering
@pytest.mark.parametrize("out", [(2, 3), (5, 33)], ids=str)
@pytest.mark.parametrize("boundary", ["zeros", "border", "constant", ("wrap", "zeros")], ids=str)
@pytest.mark.parametrize("pixel", ["2 uint8", "3 uint8", "4 int8", "2 uint16", "3 bool"])
@pytest.mark.parametrize("size", [(1, 2, 2), (2, 9, 11), (2, 30, 41), (1, 1, 7), (1, 7, 1)])
@pytest.mark.parametrize("shared", [False, True])
def test_channels_that_are_read_together_give_the_bits_of_planes(
    shared: bool, size: tuple[int, int, int], pixel: str, boundary: Any, out: tuple[int, int]
) -> None:
    rng = cases.generator("words", pixel)
    (channels, dtype), (items, *spatial) = pixel.split(), size
    options: Any = {"antialias": True, "fill_value": 1 if boundary == "constant" else 0}
    image = (rng.random((items, *spatial, int(channels))) * 255).astype(dtype)
    grid = 1.2 * shrinking(rng, items, out, spatial)
    grid[0, 0, 0, 0] = np.nan
    points = grid[:1].astype(np.float32) if shared else grid
    planes = np.ascontiguousarray(np.moveaxis(image, -1, 1))
    expected = gridsample.grid_sample(planes, points, "linear", boundary, **options)
    result = gridsample.grid_sample(image, points, "linear", boundary, **options, channel_axis=-1)
    np.testing.assert_array_equal(np.moveaxis(result, -1, 1), expected)


@pytest.mark.parametrize("axes", [(2,), (3,), (2, 3), (1, 3)], ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 20, 24), (2, 3, 9, 17)], ids=str)
def test_images_whose_memory_runs_backwards(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    rng = cases.generator("backwards", str(shape))
    image, grid = cases.pixels(rng, shape), shrinking(rng, 1, (3, 4), shape[2:])
    backwards = np.flip(np.flip(image, axes).copy(), axes)
    options: Any = {"antialias": True, "max_samples": 1}  # halved copies only
    expected = gridsample.grid_sample(image, grid, **options)
    assert_close(gridsample.grid_sample(backwards, grid, **options), expected, 1e-13)
    upstream = rng.standard_normal(expected.shape)
    wanted = gridsample.grid_sample_vjp(upstream, image, grid, **options)
    gradients = gridsample.grid_sample_vjp(upstream, backwards, grid, **options)
    for gradient, like in zip(gradients, wanted, strict=True):
        assert_close(gradient, like, 1e-12)


def test_invalid_options_are_rejected() -> None:
    image, grid = np.zeros((1, 1, 4, 4)), np.zeros((1, 3, 3, 2))
    with pytest.raises(ValueError, match=r"image's 2 axes between its first and its\s+last"):
        gridsample.grid_sample(image, grid[:, 0], antialias=True)
    with pytest.raises(ValueError, match="max_samples must be from 1 to 64, got 0"):
        gridsample.grid_sample(image, grid, antialias=True, max_samples=0)
    with pytest.raises(TypeError, match=r"max_samples must be an integer, got 2\.5"):
        gridsample.grid_sample(image, grid, antialias=True, max_samples=2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="antialias must be True or False, got 1"):
        gridsample.grid_sample(image, grid, antialias=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="footprint must be 'attach' or 'detach', got 'none'"):
        gridsample.grid_sample(image, grid, antialias=True, footprint="none")


# Tensors ------------------------------------------------------------------------------------------


CHECKED = [
    ((1, 1, 6, 5), (3, 2), "bilinear", "zeros", False, "normalized", 2),
    ((1, 2, 9), (3,), "bicubic", "wrap", True, "displacement", 2),
    pytest.param(
        (1, 1, 5, 4, 6), (2, 2, 2), "bilinear", "border", False, "normalized", 2,
        marks=pytest.mark.slow,
    ),
]  # fmt: skip


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(("shape", "out", "mode", "boundary", "corners", "coords", "most"), CHECKED)
def test_derivatives(
    shape: tuple[int, ...],
    out: tuple[int, ...],
    mode: str,
    boundary: str,
    corners: bool,
    coords: str,
    most: int,
) -> None:
    rng = cases.generator("footprints", str(shape))
    image = torch.tensor(cases.pixels(rng, shape), requires_grad=True)
    grid = torch.tensor(shrinking(rng, shape[0], out, shape[2:], coords, 0.05), requires_grad=True)

    def sample(image: torch.Tensor, grid: torch.Tensor) -> Any:
        return gridsample.grid_sample(
            image, grid, mode, boundary, corners, coords=coords, antialias=True, max_samples=most
        )

    def splat(values: torch.Tensor, grid: torch.Tensor) -> Any:
        return gridsample.splat(
            values, grid, shape[2:], mode, boundary, corners, coords=coords, antialias=True,
            max_samples=most,
        )  # fmt: skip

    values = torch.tensor(cases.pixels(rng, (*shape[:2], *out)), requires_grad=True)
    for function, inputs in ((sample, (image, grid)), (splat, (values, grid))):
        assert gradcheck(function, inputs)
        # Along random directions: each entry of these matrices by itself takes long.
        assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.slow
def test_third_derivatives() -> None:
    rng = cases.generator("footprints", "third")
    image = torch.tensor(cases.pixels(rng, (1, 1, 7, 6)), requires_grad=True)
    grid = torch.tensor(shrinking(rng, 1, (2, 2), (7, 6)), requires_grad=True)

    def second(*tensors: torch.Tensor) -> Any:
        out = gridsample.grid_sample(*tensors, "bicubic", antialias=True, max_samples=2).sin().sum()
        gradients = torch.autograd.grad(out, tensors, create_graph=True)
        return torch.autograd.grad(
            sum((gradient**2).sum() for gradient in gradients), tensors, create_graph=True
        )

    assert gradcheck(second, (image, grid), atol=1e-4, fast_mode=True)


@pytest.mark.slow
def test_tensors_give_the_bits_of_arrays_under_every_transform() -> None:
    rng = cases.generator("footprints", "transforms")
    image, grid = cases.pixels(rng, (2, 3, 17, 16)), shrinking(rng, 2, (4, 5), (17, 16))
    expected = gridsample.grid_sample(image, grid, antialias=True)

    def sample(image: torch.Tensor, grid: torch.Tensor) -> Any:
        return gridsample.grid_sample(image, grid, antialias=True)

    tensors = torch.tensor(image), torch.tensor(grid)
    assert (sample(*tensors).numpy() == expected).all()
    mapped = torch.vmap(lambda tangent, two: sample(tangent[None], two[None])[0])(*tensors)
    assert_close(mapped.numpy(), expected, 16 * ulp(float))
    grids = torch.vmap(lambda two: sample(tensors[0][:1], two[None])[0])(tensors[1])
    assert_close(grids.numpy()[0], expected[0], 16 * ulp(float))
    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    leaf = tensors[1].clone().requires_grad_()
    (ours,) = torch.autograd.grad(compiled(tensors[0], leaf).sum(), leaf)
    (unreduced,) = torch.autograd.grad(sample(tensors[0], leaf).sum(), leaf)
    assert_close(ours.numpy(), unreduced.numpy(), 16 * ulp(float))
    tangents = torch.tensor(cases.pixels(rng, image.shape)), torch.ones_like(tensors[1])
    _, moved = torch.func.jvp(sample, tensors, tangents)
    values = torch.tensor(cases.pixels(rng, expected.shape))
    _, pull = torch.func.vjp(sample, *tensors)
    both = sum((gradient * two).sum() for gradient, two in zip(pull(values), tangents, strict=True))
    np.testing.assert_allclose((moved * values).sum(), both, rtol=1e-12)
    half = sample(tensors[0].bfloat16(), tensors[1].float())
    assert_close(half.float().numpy(), expected, 2**-7)
    coarse = tensors[1].bfloat16()
    rough = sample(tensors[0].float(), coarse)
    assert_close(rough.numpy(), sample(tensors[0], coarse.double()).numpy(), 64 * ulp(np.float32))


def test_modules_the_patch_and_opencv() -> None:
    rng = cases.generator("footprints", "drop-ins")
    image = torch.tensor(cases.pixels(rng, (1, 3, 24, 20)))
    grid = torch.tensor(shrinking(rng, 1, (6, 5), (24, 20)))
    expected = gridsample.grid_sample(image, grid, antialias=True, max_samples=2)
    module = gridsample.nn.GridSample(antialias=True, max_samples=2)
    assert "antialias=True, max_samples=2" in repr(module)
    assert torch.equal(module(image, grid), expected)
    with torch_compat.patch(antialias=True, max_samples=2):
        result = torch.nn.functional.grid_sample(image, grid, align_corners=False)
        points = torch.nn.functional.grid_sample(image, grid[:, :1], align_corners=False)
    assert torch.equal(result, expected)
    row = gridsample.grid_sample(image, grid[:, :1], antialias=True, max_samples=2)
    assert torch.equal(points, row)
    with pytest.raises(ValueError, match="strict=True accepts what torch does"):
        torch_compat.patch(strict=True, antialias=True)

    photo = rng.integers(0, 256, (60, 50, 3), np.uint8)
    matrix = np.array([[0.25, 0.05, 1.0], [-0.05, 0.3, 2.0]])
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    x, y = np.meshgrid(np.arange(12.0), np.arange(15.0))
    across, down = (inverse[k, 0] * x + inverse[k, 1] * y + inverse[k, 2] for k in (0, 1))
    pixels = np.stack([across, down], -1)[np.newaxis]
    mean = gridsample.grid_sample(
        photo[np.newaxis],
        pixels,
        padding_mode="constant",
        coords="pixel",
        antialias=True,
        channel_axis=-1,
    )[0]
    assert (cv.remap(photo, across, down, cv.INTER_AREA) == mean).all()
    for result in (
        cv.warpAffine(photo, matrix, (12, 15), flags=cv.INTER_AREA),
        cv.warpPerspective(photo, np.linalg.inv(inverse), (12, 15), flags=cv.INTER_AREA),
    ):
        assert np.abs(result.astype(int) - mean).max() <= 1


@pytest.mark.parametrize("coords", ["normalized", "displacement"])
@pytest.mark.parametrize("most", [2, 16])
def test_samples_as_tensors_have_the_mean_and_its_derivatives(coords: str, most: int) -> None:
    from gridsample.backends.torch import derivatives, footprints
    from gridsample.definitions.footprints import Footprint
    from gridsample.definitions.options import Options

    rng = cases.generator("footprints", coords, most)
    image = torch.tensor(cases.pixels(rng, (2, 2, 15, 14)), requires_grad=True)
    grid = torch.tensor(shrinking(rng, 2, (4, 3), (15, 14), coords))
    grid[0, 1, 1] = np.nan
    grid.requires_grad_()
    values = torch.tensor(cases.pixels(rng, (2, 2, 4, 3)))
    options = Options(
        mode=("linear",) * 2,
        padding_mode=("border",) * 2,
        coords=coords,
        fill_value=(),
        order=(0, 0),
        footprint=Footprint(most),
    )
    feet, images = (
        footprints.TensorFootprints(grid, image.shape[2:], options),
        footprints.HalvedImage(image),
    )
    mean: Any = 0
    for sample in feet.samples():
        mean = mean + sample.values(
            derivatives.gather(images.at(sample.spatial), sample.grid, sample.options)
        )
    result = mean, *torch.autograd.grad(mean, (image, grid), values)
    with torch.no_grad():
        expected = (
            derivatives.gather(image, grid, options),
            *derivatives.backward(values, image, grid, (True, True), options),
        )
    for actual, two in zip(result, expected, strict=True):
        assert_close(actual.detach().numpy(), two.numpy(), 256 * ulp(float))


# Explained ----------------------------------------------------------------------------------------


def test_explanations_contain_the_samples() -> None:
    rng = cases.generator("footprints", "explain")
    image = cases.pixels(rng, (1, 1, 12, 14))
    theta = np.array([[[0.4, 0.1, 0.05], [-0.2, 0.5, 0.1]]])
    grid = gridsample.affine_grid(theta, (1, 1, 5, 5))
    expected = gridsample.grid_sample(image, grid, "bicubic", antialias=True)
    step = 2 / 5
    sides = [tuple(step * theta[0, :, 1]), tuple(step * theta[0, :, 0])]
    explanation = gridsample.explain(
        (14, 12), grid[0, 2, 3], "bicubic", image=image[0, 0], sides=sides
    )
    assert explanation.counts == tuple(gridsample.footprint(grid, (12, 14)).counts[0, 2, 3])
    np.testing.assert_allclose(explanation.mean, expected[0, 0, 2, 3], rtol=1e-12)
    assert (
        explanation.value
        == gridsample.explain((14, 12), grid[0, 2, 3], "bicubic", image=image[0, 0]).value
    )
    text = str(explanation)
    assert "side 1 of the footprint" in text and "the result with antialias=True" in text
    figure = plot.explain(explanation)
    assert len(figure.axes[0].patches) > 0
    with pytest.raises(ValueError, match="sides must be 2 vectors of 2 numbers each"):
        gridsample.explain((4, 4), (0, 0), sides=[(1, 0)])
    with pytest.raises(ValueError, match="at most 16 pixels long"):
        gridsample.explain((4, 400), (0, 0), sides=[(1, 0), (0, 2)])


def test_explanations_of_labels_count_all_votes() -> None:
    rng = cases.generator("footprints", "explain labels")
    labels = rng.integers(0, 4, (1, 1, 12, 14))
    theta = np.array([[[0.9, 0.2, 0.05], [-0.4, 1.1, 0.1]]])
    grid = gridsample.affine_grid(theta, (1, 1, 5, 5))
    sides = [tuple(2 / 5 * theta[0, :, 1]), tuple(2 / 5 * theta[0, :, 0])]
    agreements = set()
    for extrapolate in (True, False):
        options = {"extrapolate": extrapolate, "fill_value": 3, "mode": "label"}
        out = gridsample.grid_sample(
            labels, grid, padding_mode="constant", antialias=True, **options
        )
        for y, x in itertools.product(range(5), range(5)):
            explanation = gridsample.explain(
                (14, 12),
                grid[0, y, x],
                padding_mode="constant",
                image=labels[0, 0],
                sides=sides,
                **options,
            )
            assert explanation.mean == out[0, 0, y, x]
            agreements.add(explanation.mean == explanation.value)
    assert agreements == {True, False}  # otherwise one sample would have sufficed
    assert "winner of the vote of all taps = " in str(explanation)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("corners", [False, True])
def test_arbitrary_bits_are_sampled_within_the_image(corners: bool) -> None:
    rng = cases.generator("footprints", "bits", corners)
    for spatial in ((1, 5), (6, 7)):
        image = cases.pixels(rng, (1, 2, *spatial), np.float32)
        grid = rng.integers(0, 1 << 32, (1, 9, 11, 2), np.uint32).view(np.float32)
        grid[:, ::2] = rng.uniform(-2, 2, grid[:, ::2].shape)
        options: Any = {"align_corners": corners, "padding_mode": "border", "antialias": True}
        with np.errstate(all="ignore"):
            result = gridsample.grid_sample(image, grid, **options)
            first, second = gridsample.grid_sample_vjp(result * 0 + 1, image, grid, **options)
        inside = result[np.isfinite(result)]
        assert inside.min() >= image.min() - 1e-5 and inside.max() <= image.max() + 1e-5
        assert first.shape == image.shape and second.shape == grid.shape
