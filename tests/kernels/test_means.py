"""The kernels for missing pixels and weights, against quotients of two sampled images."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from missing_images import IGNORE, pixel_grid, pixels_with_nan, without_kernels
from oracles import Array, assert_close

import gridsample

# Shapes and layouts that have kernels of their own: tiles, runs of few and of many channels, four
# taps along x, taps that slide, items that share blocks, and indices of a strided image.
LAYOUTS = [
    # image, whether channels come last, mode, boundary, dtype
    ((1, 1, 63), False, "linear", "zeros", "float32"),
    ((2, 7, 20, 21), False, "bilinear", "zeros", "float32"),
    ((1, 3, 20, 21), True, "bilinear", "missing", "float64"),
    ((1, 3, 20, 21), True, "bicubic", "zeros", "float32"),
    ((1, 9, 7, 8), True, "bilinear", "border", "float16"),
    ((1, 9, 7, 8), True, "bilinear", "missing", "float64"),
    ((3, 1, 7, 8), False, "bicubic", ("missing", "border"), "float32"),
    ((1, 2, 7, 8), False, "lanczos3", "constant", "float64"),
    ((1, 1, 5, 6, 7), False, "trilinear", "reflection", "float32"),
]


@pytest.mark.parametrize("call", LAYOUTS, ids=str)
def test_kernels_handle_missing_pixels(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, last, mode, boundary, dtype = call
    rng = cases.generator("missing kernels", str(call))
    image, grid = (
        pixels_with_nan(rng, shape).astype(dtype),
        pixel_grid(rng, shape[0], (25, 17), shape[2:]),
    )
    image[0, 0, 2] = np.nan  # so that some results are missing
    grid = grid.astype(np.float64 if dtype == "float64" else np.float32)
    grid[0, 3, 5] = np.nan
    options: Any = {"mode": mode, "padding_mode": boundary, "coords": "pixel", "min_weight": 0.15}
    options |= {"fill_value": 2.5 if boundary == "constant" else 0, **IGNORE}
    with without_kernels():
        expected = gridsample.grid_sample(image, grid, **options)
    monkeypatch.setattr("gridsample.ops.means.masked_planes", None)  # which is not needed
    laid_out = np.ascontiguousarray(np.moveaxis(image, 1, -1)) if last else image
    result = gridsample.grid_sample(laid_out, grid, **options, channel_axis=-1 if last else 1)
    assert result.dtype == image.dtype
    result = np.moveaxis(result, -1, 1) if last else result
    unit = np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=200 * unit, atol=200 * unit)
    assert np.isnan(expected).any() and not np.isnan(expected).all()
    if boundary not in ("missing", ("missing", "border")):
        full = np.nan_to_num(laid_out)
        unweighted = {k: v for k, v in options.items() if k not in ("missing", "min_weight")}
        unweighted["channel_axis"] = options["channel_axis"] = -1 if last else 1
        mine, theirs = (
            gridsample.grid_sample(full, grid, **keywords) for keywords in (options, unweighted)
        )
        np.testing.assert_array_equal(mine, theirs)
        # The samples that have no missing pixel among their taps have the same bits, too.
        unweighted = gridsample.grid_sample(laid_out, grid, **unweighted)
        result = gridsample.grid_sample(laid_out, grid, **options)
        known = ~np.isnan(unweighted)
        np.testing.assert_array_equal(result[known], unweighted[known])


def test_strided_images_match_contiguous_ones() -> None:
    rng = cases.generator("missing", "strided")
    image = pixels_with_nan(rng, (1, 2, 9, 10)).astype(np.float32)
    grid = pixel_grid(rng, 1, (30,), (9, 10)).astype(np.float32)
    strided = np.zeros((1, 2, 9, 20), np.float32)[..., ::2]
    strided[...] = image
    for boundary in ("zeros", "border"):
        options: Any = {"padding_mode": boundary, "coords": "pixel", **IGNORE}
        expected = gridsample.grid_sample(image, grid, **options)
        result = gridsample.grid_sample(strided, grid, **options)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_infinite_pixels_stay_infinite() -> None:
    image = np.array([[[1.0, np.inf, np.nan, 3.0, 5.0, np.nan, -np.inf, 2.0]]], np.float32)
    points = np.array([[[0.5], [1.5], [2.5], [3.5], [5.5], [6.5], [-0.5], [7.5]]], np.float32)
    result = gridsample.grid_sample(image, points, coords="pixel", **IGNORE)
    inf = np.inf
    np.testing.assert_equal(result, [[np.float32([inf, inf, 3, 4, -inf, -inf, 0.5, 1])]])


def test_maps_are_averaged_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = cases.generator("missing", "maps in kernels")
    image, theta = pixels_with_nan(rng, (2, 2, 9, 10)), rng.uniform(-1, 1, (2, 2, 3))
    size = (2, 2, 6, 5)
    with without_kernels():
        expected = gridsample.affine_sample(image, theta, size, **IGNORE)
    monkeypatch.setattr("gridsample.ops.means.masked_planes", None)
    result = gridsample.affine_sample(image, theta, size, **IGNORE)
    assert_close(result, expected, 1e-10)


WEIGHTED = [
    # image, weights or None, grid's N, mode, boundary, dtype, dtype of weights, channels come last
    ((1, 3, 20, 21), (1, 1, 20, 21), 1, "bilinear", "zeros", "float32", "float32", False),
    ((2, 3, 20, 21), (1, 3, 20, 21), 2, "bicubic", "constant", "float32", "bool", False),
    ((1, 2, 9, 10), (3, 1, 9, 10), 3, "bilinear", "missing", "float64", "float64", False),
    ((3, 9, 7, 8), (3, 9, 7, 8), 1, "bicubic", "border", "float64", "uint8", True),
    ((2, 3, 20, 21), (2, 1, 20, 21), 2, "bicubic", "wrap", "float32", "float64", True),
    ((2, 3, 9, 10), (2, 3, 9, 10), 2, "bicubic", "zeros", "float32", "float16", True),
    ((2, 8, 9, 10), (1, 1, 9, 10), 1, "bilinear", "missing", "float32", "float32", True),
    ((1, 2, 9, 10), (1, 2, 9, 10), 2, "nearest", "zeros", "float32", "float32", False),
    ((1, 2, 9, 10), (1, 1, 9, 10), 1, ("nearest", "cubic"), "missing", "float16", "float16", False),
    ((2, 1, 5, 6, 7), (1, 1, 5, 6, 7), 1, "trilinear", "reflection", "float32", "int8", False),
    ((1, 1, 5, 6, 7), None, 1, "tricubic", "missing", "float64", "", False),
    ((1, 2, 40), None, 1, "linear", "zeros", "float32", "", False),
    ((1, 12, 7, 8), None, 1, "bicubic", "border", "float32", "", True),
    ((1, 2, 9, 10), (1, 1, 9, 10), 1, "bilinear", "zeros", "int16", "float32", False),
    ((1, 2, 9, 10), None, 1, "bilinear", "missing", "uint8", "", False),
    ((2, 1, 9, 10), (1, 1, 9, 10), 1, "bilinear", "zeros", "complex64", "float32", False),
    ((2, 2, 9, 10), (2, 2, 9, 10), 2, "bicubic", "missing", "complex128", "uint8", False),
    ((1, 3, 5, 6, 7), (1, 3, 5, 6, 7), 1, "trilinear", "border", "complex64", "float32", True),
    ((2, 9, 7, 8), None, 1, "bicubic", "constant", "complex128", "", True),
    ((3, 17, 7, 8), (3, 17, 7, 8), 3, "linear", ("border", "missing"), "float32", "float32", True),
    ((1, 33, 7, 8), (1, 33, 7, 8), 1, "bicubic", "zeros", "float64", "float64", False),
]


@pytest.mark.covering
@pytest.mark.parametrize(
    "call",
    [pytest.param(c, marks=[pytest.mark.slow] * (i % 3 == 0)) for i, c in enumerate(WEIGHTED)],
    ids=str,
)
@pytest.mark.parametrize("missing", ["ignore", "propagate"])
def test_means_match_the_quotient_of_two_sums(call: Any, missing: str) -> None:
    shape, weighted, items, mode, boundary, dtype, kind, last = call
    rng = cases.generator("weighted kernels", str(call))
    real = np.dtype(dtype).kind in "fc"
    image = (
        cases.pixels(rng, shape, dtype) if not real else pixels_with_nan(rng, shape).astype(dtype)
    )
    if np.iscomplexobj(image):
        image.imag = pixels_with_nan(rng, shape, 0.1)
    image = np.nan_to_num(image) if missing == "propagate" else image
    weights = None if weighted is None else rng.integers(0, 4, weighted).astype(kind)
    wide = dtype in ("float64", "complex128")
    grid = pixel_grid(rng, items, (13, 5), shape[2:]).astype("float64" if wide else "f4")
    grid[0, 2, 3] = np.nan
    sampling: Any = {"mode": mode, "padding_mode": boundary, "coords": "pixel", "min_weight": 0.15}
    sampling |= {"missing": missing, "fill_value": 2.5 if boundary == "constant" else 0}
    if last:
        image = np.ascontiguousarray(np.moveaxis(image, 1, -1))
        weights = None if weights is None else np.ascontiguousarray(np.moveaxis(weights, 1, -1))
        sampling["channel_axis"] = -1
    if weights is None and missing == "propagate" and boundary != "missing":
        return  # plain sampling
    sampling["weights"] = weights

    def results(**options: Any) -> list[Array]:
        result = gridsample.grid_sample(image, grid, **sampling, return_weight=True, **options)
        upstream = cases.pixels(cases.generator("upstream"), result[0].shape).astype("f8")
        if np.iscomplexobj(image):
            upstream = (upstream + 1j * upstream[::-1, ..., ::-1]).astype(image.dtype)
        gradients = gridsample.grid_sample_vjp(
            upstream, image, grid, need_input=real, **sampling, **options
        )
        return [*result, *(array for array in gradients if array is not None)]

    alone, together = results(threads=1), results(threads=3)
    with without_kernels():
        expected = results()
    unit = max(np.finfo(array.dtype).eps for array in (grid, *expected[1 : 2 + real]))
    for mine, other, theirs in zip(alone, together, expected, strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        number = complex if np.iscomplexobj(theirs) else float
        scale = np.abs(np.nan_to_num(theirs.astype(number))).max(initial=1)
        slack = scale * 1000 * unit if theirs.dtype.kind in "fc" else 1
        np.testing.assert_allclose(
            mine.astype(number), theirs.astype(number), rtol=0, atol=slack, equal_nan=True
        )


@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_many_pixels_and_weights_on_several_threads(last: bool) -> None:
    """The points are too many for one sweep, if several threads share the work."""
    rng = cases.generator("weighted kernels", "threads")
    shape = (1, 140, 150, 2) if last else (1, 2, 140, 150)
    image, upstream = rng.random(shape), rng.random(shape)
    weights, grid = rng.random(shape), pixel_grid(rng, 1, (140, 150), (140, 150))
    options: Any = {"coords": "pixel", "channel_axis": -1 if last else 1, "weights": weights}
    alone, together = (
        gridsample.grid_sample_vjp(upstream, image, grid, **options, threads=threads)
        for threads in (1, 2)
    )
    for mine, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)


def test_weights_may_have_any_layout() -> None:
    rng = cases.generator("weighted kernels", "memory")
    image, weights = pixels_with_nan(rng, (2, 2, 9, 10)), rng.uniform(0, 2, (2, 2, 9, 10))
    grid, upstream = pixel_grid(rng, 2, (30,), (9, 10)), cases.pixels(rng, (2, 2, 30))
    wide = np.zeros((2, 2, 9, 20))
    wide[..., ::2] = weights
    forms = [
        (image, wide[..., ::2]),
        (image, np.ascontiguousarray(weights[:, :, ::-1, ::-1])[:, :, ::-1, ::-1]),
        (image, np.moveaxis(np.ascontiguousarray(np.moveaxis(weights, 1, -1)), -1, 1)),
        (image, weights.astype(">f8")),
        (np.asfortranarray(image), weights),
        (np.ascontiguousarray(image[..., ::-1])[..., ::-1], weights),
    ]
    for mode in ("bilinear", "bicubic"):
        options: Any = {"mode": mode, "coords": "pixel", **IGNORE}
        expected = gridsample.grid_sample(image, grid, weights=weights, **options)
        gradients = gridsample.grid_sample_vjp(upstream, image, grid, weights=weights, **options)
        for pixels, counts in forms:
            result = gridsample.grid_sample(pixels, grid, weights=counts, **options)
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
            mine = gridsample.grid_sample_vjp(upstream, pixels, grid, weights=counts, **options)
            for gradient, other in zip(mine, gradients, strict=True):
                np.testing.assert_allclose(gradient, other, rtol=1e-10, atol=1e-10)


def test_empty_arrays() -> None:
    image, weights = np.ones((0, 2, 4, 5)), np.ones((1, 1, 4, 5))
    for items, out in ((0, (3,)), (1, (0,))):
        grid = np.zeros((items, *out, 2))
        result, weight = gridsample.grid_sample(
            image if items == 0 else image[:0], grid, weights=weights, return_weight=True, **IGNORE
        )
        assert result.shape == weight.shape == (0, 2, *out)


def test_a_weight_that_is_read_must_be_valid() -> None:
    image, weights = np.ones((1, 1, 4, 50)), np.ones((1, 1, 4, 50))
    grid, upstream = np.array([[[2.5, 1.5], [0.0, 0.0]]]), np.ones((1, 1, 2))
    for wrong in (-1, np.nan, np.inf):
        bad = weights.copy()
        bad[0, 0, 1, 3] = wrong
        for dtype in ("float32", "float64"):
            options: Any = {"coords": "pixel", "weights": bad.astype(dtype)}
            with pytest.raises(ValueError, match="weights must be finite and not negative"):
                gridsample.grid_sample(image, grid, **options)
            with pytest.raises(ValueError, match="weights must be finite and not negative"):
                gridsample.grid_sample_vjp(upstream, image, grid, **options)
    zero = -np.zeros_like(weights)
    result = gridsample.grid_sample(image, grid, coords="pixel", weights=zero, fill_value=0)
    assert np.isnan(result).all()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_without_missing_pixels_match_plain_sampling_bit_for_bit(mode: str) -> None:
    rng = cases.generator("bits of gradients", mode)
    image, grid = cases.pixels(rng, (1, 2, 20, 21), "float32"), pixel_grid(rng, 1, (90,), (20, 21))
    image[:, 1, 3:9, 4:8] = np.nan
    upstream, options = cases.pixels(rng, (1, 2, 90), "float32"), {"mode": mode, "coords": "pixel"}
    grid = grid.astype(np.float32)
    _, expected = gridsample.grid_sample_vjp(upstream, image, grid, **options)
    _, result = gridsample.grid_sample_vjp(upstream, image, grid, **options, **IGNORE)
    known = ~np.isnan(expected)
    assert 0.3 < known.mean() < 1
    np.testing.assert_array_equal(result[known], expected[known])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_one_pixel_of_many_channels(mode: str) -> None:
    image, grid = np.full((1, 9, 1, 1), 3, np.float32), np.zeros((1, 1, 1, 2), np.float32)
    for options in ({"missing": "ignore"}, {"weights": np.full((1, 1, 1, 1), 2, np.float32)}):
        result, share = gridsample.grid_sample(
            image, grid, mode, "border", **options, return_weight=True
        )
        assert (result == 3).all() and np.allclose(share, 2 if "weights" in options else 1)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("channels", [3, 8, 16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.covering
def test_means_without_missing_pixels_match_samples_bit_for_bit(
    mode: str, last: bool, channels: int, dtype: str
) -> None:
    rng = cases.generator("whole", channels)
    image = cases.pixels(rng, (2, channels, 13, 17), dtype)
    if last:
        image = np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 1, -1)), -1, 1)
    grid = rng.uniform(-1.2, 1.2, (2, 9, 21, 2)).astype(np.float32)
    expected = gridsample.grid_sample(image, grid, mode)
    alone = gridsample.grid_sample(image, grid, mode, missing="ignore")
    result, _ = gridsample.grid_sample(image, grid, mode, missing="ignore", return_weight=True)
    np.testing.assert_array_equal(alone, expected)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("mode", "spatial"), [("nearest", (13, 2)), ("spline2", (40,)), ("bicubic", (13, 8))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_long_pixels_are_those_of_their_channels(
    mode: str, spatial: tuple[int, ...], dtype: str
) -> None:
    """Their taps are listed twice, to be read and added to: lists of any length follow another."""
    rng = cases.generator("lists that follow another", mode, dtype)
    out, rank = (25, 17), len(spatial)
    image = rng.normal(size=(2, *spatial, 9)).astype(dtype)
    upstream = rng.normal(size=(2, *out, 9)).astype(dtype)
    grid = rng.uniform(-1.3, 1.3, (2, *out, rank)).astype(dtype)
    image[rng.random(image.shape) < 0.1] = np.nan
    options: Any = {**IGNORE, "prefilter": False}
    planes = [np.ascontiguousarray(np.moveaxis(array, -1, 1)) for array in (upstream, image)]
    results = gridsample.grid_sample_vjp(*planes, grid, mode, "missing", **options)
    each = [
        gridsample.grid_sample_vjp(
            planes[0][:, c, None], planes[1][:, c, None], grid, mode, "missing", **options
        )
        for c in range(9)
    ]
    unit = np.finfo(dtype).eps
    last = gridsample.grid_sample_vjp(
        upstream, image, grid, mode, "missing", **options, channel_axis=-1
    )
    by_image = np.concatenate([one[0] for one in each], 1)
    by_grid = np.sum([one[1] for one in each], 0)
    for mine, theirs in (
        (results[0], by_image),
        (results[1], by_grid),
        (np.moveaxis(last[0], -1, 1), by_image),
        (last[1], by_grid),
    ):
        assert_close(mine, theirs, tolerance=2000 * unit)
