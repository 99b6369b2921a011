"""`gridsample.operators.weighted_sum` on NumPy arrays, against the reference."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

from gridsample.kernels.reference import operators as reference
from gridsample.operators import deformable_attention, weighted_sum, weighted_sum_vjp

LEVELS = ((4, 3, 5), (2, 3, 1), (1, 1, 1))
# Rank, method, boundary, align_corners, units, channels, points of a level: the kinds of registers
# of channels (one number, a few, some registers, blocks that overlap) and of points (fewer than
# lanes, as many, and more, with and without an incomplete register).
CASES = [
    (2, "bilinear", "zeros", False, "unit", 8, 4),
    (2, "bilinear", "border", True, "normalized", 1, 1),
    (1, "bicubic", "reflection", False, "pixel", 5, 11),
    (3, "bilinear", "wrap", False, "normalized", 70, 2),
    (2, "nearest", "antisymmetric", True, "pixel", 33, 3),
]


def inputs(rank: int, channels: int, each: int, dtype: Any = np.float64, queries: int = 3) -> Any:
    """Images, points, weights and sizes; some points are NaN or infinite."""
    rng = cases.generator("operators", rank, channels, each)
    sizes = [level[3 - rank :] for level in LEVELS]
    pixels = sum(int(np.prod(size)) for size in sizes)
    shape = 2, queries, 2, len(LEVELS), each
    images = rng.standard_normal((2, pixels, 2, channels))
    points = rng.uniform(-1.5, 1.5, (*shape, rank))
    if queries:
        points[0, 1, 0, 1, 0, 0] = np.nan
        points[0, 2, 1, 0, 0, 0] = np.inf
    weights = rng.uniform(-1, 1, shape)
    return *[array.astype(dtype) for array in (images, points, weights)], sizes


def defined(images: Any, points: Any, weights: Any, sizes: Any, case: Any) -> Any:
    rank, mode, boundary, aligned, coords, *_ = case
    name = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    rules = (name,) * rank, (boundary,) * rank, aligned, coords
    arrays = [array.astype(np.float64) for array in (images, points, weights)]
    return reference.weighted_sum(*arrays, sizes, *rules)


def options_of(case: Any) -> dict[str, Any]:
    names = ("mode", "padding_mode", "align_corners", "coords")
    return dict(zip(names, case[1:5], strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_are_those_of_the_reference(case: Any) -> None:
    rank, channels, each = case[0], *case[5:]
    *arrays, sizes = inputs(rank, channels, each)
    result = weighted_sum(*arrays, sizes, **options_of(case))
    np.testing.assert_allclose(result, defined(*arrays, sizes, case), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_slopes_of_the_sums(case: Any) -> None:
    rank, channels, each = case[0], *case[5:]
    *arrays, sizes = inputs(rank, channels, each)
    options, rng = options_of(case), cases.generator("slopes")
    upstream = rng.standard_normal((2, 3, 2, channels))
    gradients = weighted_sum_vjp(upstream, *arrays, sizes, **options)
    undefined = np.isnan(arrays[1]).any(-1)
    assert np.isnan(gradients[2][undefined]).all()
    assert not gradients[1][undefined].any()
    assert not gradients[1][np.isinf(arrays[1])].any()
    # Elsewhere, along random directions.  No point is on a pixel, where slopes jump.
    arrays[1] = np.where(np.isfinite(arrays[1]), arrays[1], 0.13)
    gradients = weighted_sum_vjp(upstream, *arrays, sizes, **options)
    for k, step in ((0, 1.0), (1, 1e-6), (2, 1.0)):
        direction = rng.standard_normal(arrays[k].shape)
        if k == 1 and case[1] == "nearest":
            assert not gradients[k].any()
            continue
        ends = [[*arrays[:k], arrays[k] + s * direction, *arrays[k + 1 :]] for s in (step, -step)]
        high, low = (weighted_sum(*end, sizes, **options) for end in ends)
        slope = np.sum((high - low) * upstream) / (2 * step)
        expected = np.sum(gradients[k] * direction)
        np.testing.assert_allclose(slope, expected, rtol=1e-5 if k == 1 else 1e-10)
    needed = {"need_images": False, "need_points": True, "need_weights": False}
    part = weighted_sum_vjp(upstream, *arrays, sizes, **options, **needed)
    assert part[0] is part[2] is None
    np.testing.assert_array_equal(part[1], gradients[1])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_dtypes_are_summed_in_float32(dtype: str) -> None:
    *arrays, sizes = inputs(2, 8, 4, dtype)
    single = [array.astype(np.float32) for array in arrays]
    result, exact = weighted_sum(*arrays, sizes), weighted_sum(*single, sizes)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, exact.astype(dtype))
    case = (2, "bilinear", "zeros", False, "normalized", 8, 4)
    np.testing.assert_allclose(exact, defined(*single, sizes, case), rtol=1e-4, atol=1e-5)
    upstream = np.ones(result.shape, dtype)
    narrow = weighted_sum_vjp(upstream, *arrays, sizes)
    wide = weighted_sum_vjp(upstream.astype(np.float32), *single, sizes)
    for a, b, like in zip(narrow, wide, arrays, strict=True):
        assert a.dtype == like.dtype
        np.testing.assert_array_equal(a, b.astype(dtype))


def test_layouts_and_threads_change_no_bit() -> None:
    *arrays, sizes = inputs(2, 8, 4)
    upstream = np.ones((2, 3, 2, 8))
    result, gradients = weighted_sum(*arrays, sizes), weighted_sum_vjp(upstream, *arrays, sizes)
    others = [
        [np.asfortranarray(array) for array in arrays],
        [array[::-1, :, ::-1].copy()[::-1, :, ::-1] for array in arrays],
        [array.astype(">f8") for array in arrays],
        # Heads that are not neighbours: other distances of pixels than in the gradient.
        [np.repeat(array, 2, axis=2)[:, :, ::2] for array in arrays],
    ]
    for other in others:
        np.testing.assert_array_equal(weighted_sum(*other, sizes, threads=2), result)
        swapped = weighted_sum_vjp(upstream, *other, sizes, threads=2)
        for a, b in zip(swapped, gradients, strict=True):
            np.testing.assert_array_equal(a, b)
    one = weighted_sum_vjp(upstream, *arrays, sizes, threads=1)
    for a, b in zip(one, gradients, strict=True):
        np.testing.assert_array_equal(a, b)


def test_modes_without_a_program_are_composed() -> None:
    *arrays, sizes = inputs(2, 3, 2)
    arrays[1] = np.nan_to_num(arrays[1], posinf=0)
    constant = np.ones_like(arrays[0])
    sums = weighted_sum(constant, *arrays[1:], sizes, "spline3", "mirror")
    np.testing.assert_allclose(sums[..., 0], arrays[2].sum((-1, -2)), rtol=1e-12, atol=1e-13)
    gradients = weighted_sum_vjp(np.ones_like(sums), *arrays, sizes, "spline3", "mirror")
    result = weighted_sum(*arrays, sizes, "spline3", "mirror")
    for k in (0, 2):
        np.testing.assert_allclose(np.sum(gradients[k] * arrays[k]), result.sum(), rtol=1e-10)


def test_empty_arrays() -> None:
    for queries, each, channels in ((0, 2, 3), (3, 0, 3), (3, 2, 0)):
        images, points, weights, sizes = inputs(2, 3, 2, queries=queries)
        images = images[..., :channels]
        points, weights = points[..., :each, :], weights[..., :each]
        result = weighted_sum(images, points, weights, sizes)
        assert result.shape == (2, queries, 2, channels)
        assert not result.any()
        gradients = weighted_sum_vjp(np.ones_like(result), images, points, weights, sizes)
        for gradient, array in zip(gradients, (images, points, weights), strict=True):
            assert gradient.shape == array.shape
            assert not gradient.any()


def test_pixels_outside_the_taps_are_not_read() -> None:
    images, points, weights, sizes = inputs(2, 4, 2)
    points[...], weights[...] = 5.0, 1.0
    images[...] = np.nan
    assert not weighted_sum(images, points, weights, sizes).any()
    gradients = weighted_sum_vjp(np.full((2, 3, 2, 4), np.inf), images, points, weights, sizes)
    assert not gradients[0].any()


def test_offsets_beyond_32_bits() -> None:
    pixel = np.array([1.0, 2.0], np.float32).reshape(1, 1, 1, 2)
    images = np.broadcast_to(pixel, (1, 1 << 31, 1, 2))
    points = cases.generator("far").uniform(0, 1, (1, 4, 1, 1, 3, 2)).astype(np.float32)
    result = weighted_sum(
        images, points, np.ones((1, 4, 1, 1, 3), np.float32), [(1 << 16, 1 << 15)], coords="unit"
    )
    np.testing.assert_allclose(result, np.broadcast_to(3 * pixel, (1, 4, 1, 2)), rtol=1e-6)


@pytest.mark.parametrize("boundary", ["zeros", "border", "wrap"])
def test_undefined_points_add_nothing(boundary: str) -> None:
    images, points, weights, sizes = inputs(2, 8, 4)
    options = {"mode": "bilinear", "padding_mode": boundary, "need_points": False}
    undefined = np.isnan(points).any(-1) | ((boundary == "wrap") & np.isinf(points).any(-1))
    upstream = np.ones((2, 3, 2, 8))
    actual, _, slopes = weighted_sum_vjp(upstream, images, points, weights, sizes, **options)
    defined_points = np.where(undefined[..., None], 0, points)
    counted = np.where(undefined, 0, weights)
    arrays = images, defined_points, counted
    expected, _, others = weighted_sum_vjp(upstream, *arrays, sizes, **options)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(slopes[~undefined], others[~undefined])


def test_errors() -> None:
    images, points, weights, sizes = inputs(2, 4, 2)
    with pytest.raises(
        ValueError,
        match=r"weights with the axes \(n, q, h, l, p\) has 1 .* along p, but points has 2",
    ):
        weighted_sum(images, points, weights[..., :1], sizes)
    with pytest.raises(ValueError, match=r"points must have the axes \(n, q, h, l, p, d\)"):
        weighted_sum(images, points[0], weights, sizes)
    with pytest.raises(ValueError, match="there are 19 pixels, but levels with the sizes"):
        weighted_sum(images, points, weights, [*sizes[:2], (1, 2)])
    with pytest.raises(ValueError, match="sizes must have 2 numbers for each of the 3 levels"):
        weighted_sum(images, points, weights, sizes[:2])
    with pytest.raises(TypeError, match="images has dtype int64; accepted: float16"):
        weighted_sum(images.astype(int), points, weights, sizes)
    with pytest.raises(ValueError, match=r"coords.*accepted: .*unit"):
        weighted_sum(images, points, weights, sizes, coords="displacement")
    with pytest.raises(ValueError, match="labels"):
        weighted_sum(images, points, weights, sizes, "label")
    with pytest.raises(ValueError, match="grad_output must have the output's shape"):
        weighted_sum_vjp(images, images, points, weights, sizes)
    with pytest.raises(TypeError, match="value_spatial_shapes must be the spatial shapes"):
        deformable_attention(images, 3, points, weights)
    with pytest.raises(ValueError, match=r"attention_weights .* sampling_locations has 2"):
        deformable_attention(images, sizes, points, weights[..., :1])
