"""Missing pixels and weights: means over the pixels that count."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from missing_images import IGNORE, pixel_grid, pixels_with_nan
from oracles import Array, assert_close, finite_difference, mean_output

import gridsample


def test_results_without_channels_or_items_have_weights_of_their_shape() -> None:
    for items, channels in ((1, 0), (0, 2), (0, 0)):
        image, grid = np.ones((items, channels, 4, 5)), np.zeros((1, 3, 2))
        for options in ({}, IGNORE, {"weights": np.ones((1, 1, 4, 5))}):
            for result in gridsample.grid_sample(image, grid, return_weight=True, **options):
                assert result.shape == (items, channels, 3)


# Against the definition ---------------------------------------------------------------------------


CALLS = [
    # image, weights or None, grid's N, mode, boundary
    ((1, 1, 7), None, 1, "linear", "zeros"),
    ((2, 3, 7), (2, 1, 7), 2, "cubic", "missing"),
    ((1, 2, 5, 6), None, 2, "bilinear", "border"),
    ((1, 2, 5, 6), (2, 2, 5, 6), 2, "bilinear", "constant"),
    ((2, 1, 5, 6), (1, 1, 5, 6), 1, "bicubic", "zeros"),
    ((1, 2, 5, 6), (1, 1, 5, 6), 1, ("cubic", "linear"), ("missing", "wrap")),
    ((1, 2, 5, 6), None, 1, "bilinear", ("missing", "constant")),
    ((1, 1, 5, 6), (1, 1, 5, 6), 1, "bilinear", ("zeros", "missing")),
    ((1, 1, 1, 4, 5), None, 1, "trilinear", "missing"),
    ((1, 3, 3, 4, 5), (1, 3, 3, 4, 5), 1, "nearest", "mirror"),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_means_match_the_weighted_taps(call: Any) -> None:
    shape, weighted, items, mode, boundary = call
    rng = cases.generator("missing", str(call))
    image, grid = pixels_with_nan(rng, shape), pixel_grid(rng, items, (11,), shape[2:])
    weights = rng.uniform(0, 2, weighted) if weighted else None
    fill = 2.5 if "constant" in boundary else 0
    expected, share = mean_output(image, grid, mode, boundary, weights, fill)
    if "constant" in boundary:
        expected = np.where(np.isnan(expected), fill, expected)
    options = {"mode": mode, "padding_mode": boundary, "coords": "pixel", **IGNORE}
    options |= {"weights": weights, "fill_value": fill}
    result, weight = gridsample.grid_sample(image, grid, **options, return_weight=True)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weight, share, rtol=1e-12, atol=1e-14)
    again = gridsample.grid_sample(image, grid, **options)
    np.testing.assert_allclose(again, expected, rtol=1e-10, atol=1e-12)
    last = {"channel_axis": -1, "weights": None if weights is None else np.moveaxis(weights, 1, -1)}
    again = gridsample.grid_sample(np.moveaxis(image, 1, -1), grid, **(options | last))
    np.testing.assert_allclose(np.moveaxis(again, -1, 1), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("odd", "even"), [("antisymmetric", "symmetric"), ("antimirror", "mirror")]
)
def test_signs_change_outside_but_weights_do_not(odd: str, even: str) -> None:
    rng = cases.generator("missing", odd)
    image, grid = pixels_with_nan(rng, (1, 2, 5, 6)), pixel_grid(rng, 1, (20,), (5, 6))
    known = ~np.isnan(image)
    above = gridsample.grid_sample(np.where(known, image, 0), grid, "bicubic", odd, coords="pixel")
    below = gridsample.grid_sample(known.astype(float), grid, "bicubic", even, coords="pixel")
    result = gridsample.grid_sample(image, grid, "bicubic", odd, coords="pixel", **IGNORE)
    expected = np.where(below > 0, above / np.where(below > 0, below, 1), np.nan)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


def test_a_complex_pixel_is_missing_if_either_part_is() -> None:
    image = np.array([[[1 + 2j, complex(np.nan, 1), complex(3, np.nan), 5 - 1j]]])
    points = np.array([[[0.75], [1.5], [2.25]]])
    result, weight = gridsample.grid_sample(
        image, points, coords="pixel", return_weight=True, **IGNORE
    )
    np.testing.assert_allclose(result, [[[1 + 2j, np.nan, 5 - 1j]]])
    np.testing.assert_allclose(weight, [[[0.25, 0, 0.25]]])


@pytest.mark.parametrize("boundary", ["border", "antimirror"])
def test_the_dtype_of_weights_does_not_depend_on_the_pixels(boundary: str) -> None:
    image, grid = np.ones((1, 1, 33), np.float32), np.linspace(-1, 1, 4).reshape(1, 4, 1)
    options = {"antialias": True, "return_weight": True, **IGNORE}
    for pixel in (1.0, np.nan):  # a value, and one that is missing
        image[0, 0, 3] = pixel
        result, weight = gridsample.grid_sample(image, grid, "linear", boundary, **options)
        assert (result.dtype, weight.dtype) == (np.float32, np.float64)


def test_a_constant_image_stays_constant() -> None:
    rng = cases.generator("missing", "constant")
    image = np.full((1, 1, 63, 65), 0.7, np.float32)
    image[rng.random(image.shape) < 0.3] = np.nan
    grid = rng.uniform(-1.2, 1.2, (1, 40, 50, 2)).astype(np.float32)
    for boundary in ("missing", "reflection"):
        result = gridsample.grid_sample(image, grid, padding_mode=boundary, **IGNORE)
        known = ~np.isnan(result)
        assert known.mean() > 0.6
        np.testing.assert_allclose(result[known], 0.7, rtol=1e-6)
    small = gridsample.interpolate(image, (31, 40), mode="bilinear", antialias=True, **IGNORE)
    np.testing.assert_allclose(small, 0.7, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "complex64"])
@pytest.mark.parametrize("boundary", ["zeros", "mirror"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_without_missing_pixels_the_bits_are_those_of_plain_sampling(
    mode: str, dtype: str, boundary: str
) -> None:
    rng = cases.generator("missing", dtype, boundary)
    image = cases.pixels(rng, (2, 3, 13, 17), dtype)
    grid = rng.uniform(-1.3, 1.3, (2, 9, 11, 2)).astype(np.float32)
    theta = rng.uniform(-1, 1, (2, 2, 3)).astype(np.float32)
    options = {"mode": mode, "padding_mode": boundary}
    for name, arguments in (("grid_sample", (grid,)), ("affine_sample", (theta, (2, 3, 4, 5)))):
        function = getattr(gridsample, name)
        unweighted, result = (
            function(image, *arguments, **options),
            function(image, *arguments, **options, **IGNORE),
        )
        np.testing.assert_array_equal(result, unweighted)
        result, weight = function(image, *arguments, **options, **IGNORE, return_weight=True)
        np.testing.assert_array_equal(result, unweighted)
        np.testing.assert_allclose(weight, 1, rtol=1e-6)
        assert weight.shape == unweighted.shape
    unweighted = gridsample.interpolate(image, (5, 20), mode="bicubic")
    np.testing.assert_array_equal(
        gridsample.interpolate(image, (5, 20), mode="bicubic", **IGNORE), unweighted
    )


# Which results are missing ------------------------------------------------------------------------


def test_missing_results_have_the_fill_value_if_there_is_one() -> None:
    image = np.array([[[1.0, np.nan, np.nan, np.nan, 4.0]]])
    points = np.array([[[0.0], [0.5], [2.0], [-0.5], [-3.0], [np.nan]]])

    def sample(boundary: str, **options: Any) -> list[float]:
        options = {"coords": "pixel", **IGNORE, **options}
        return gridsample.grid_sample(image, points, "linear", boundary, **options)[0, 0].tolist()

    nan = np.nan
    np.testing.assert_equal(sample("zeros"), [1, 1, nan, 0.5, 0, nan])
    np.testing.assert_equal(sample("missing"), [1, 1, nan, 1, nan, nan])
    np.testing.assert_equal(sample("zeros", fill_value=7), [1, 1, 7, 0.5, 0, nan])
    np.testing.assert_equal(sample("missing", fill_value=7), [1, 1, 7, 1, 7, nan])
    np.testing.assert_equal(sample("constant"), [1, 1, 0, 0.5, 0, nan])
    np.testing.assert_equal(sample("constant", fill_value=7), [1, 1, 7, 4, 7, nan])
    np.testing.assert_equal(sample("zeros", fill_value=nan), [1, 1, nan, 0.5, 0, nan])
    outside = {"extrapolate": False, "fill_value": 7}
    for boundary in ("zeros", "border", "missing", "constant"):
        np.testing.assert_equal(sample(boundary, **outside), [1, 1, 7, 7, 7, nan])


@pytest.mark.covering
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "constant", "missing"])
@pytest.mark.parametrize("extrapolate", [True, False, "edges"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fill_of_nan_is_any_other_fill(
    padding_mode: str, extrapolate: bool | str, weighted: bool
) -> None:
    rng = cases.generator("fill of nan", padding_mode)
    image = cases.pixels(rng, (1, 2, 6, 7))
    image[rng.random(image.shape) < 0.1] = np.nan
    weights = rng.uniform(0, 1, (1, 1, 6, 7)) if weighted else None
    grid = rng.uniform(-1.5, 1.5, (1, 5, 8, 2))
    rows = ["bilinear", padding_mode]
    nan, number = (
        gridsample.grid_sample(
            image, grid, *rows, extrapolate=extrapolate, fill_value=fill,
            missing="ignore", weights=weights,
        )
        for fill in (np.nan, 1e6)
    )  # fmt: skip
    outside = np.isnan(nan)
    assert_close(nan[~outside], number[~outside], 1e-12)
    # One in a thousand of the fill, at least, is in each of the others.
    assert (abs(number[outside]) > 1e3).all()


def test_min_weight_is_a_share_of_the_weight() -> None:
    image = np.array([[[1.0, np.nan, 3.0]]])
    points = np.array([[[0.0], [0.4], [0.5], [0.6], [1.75]]])
    result = gridsample.grid_sample(image, points, coords="pixel", min_weight=0.5, **IGNORE)
    np.testing.assert_equal(result, [[[1, 1, np.nan, np.nan, 3]]])


def test_pixels_of_weight_zero_are_ignored() -> None:
    image = np.array([[[1.0, np.inf, np.nan, 3.0, np.nan]]])
    weights = np.array([[[1, 0, 0, 2, 1]]])
    points = np.array([[[0.5], [1.5], [2.5], [3.5]]])
    result = gridsample.grid_sample(image, points, coords="pixel", weights=weights)
    np.testing.assert_equal(result, [[[1, np.nan, 3, np.nan]]])
    result = gridsample.grid_sample(image, points, coords="pixel", weights=weights, **IGNORE)
    np.testing.assert_equal(result, [[[1, np.nan, 3, 3]]])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64"])
def test_integers_are_rounded_and_missing_ones_are_filled(dtype: str) -> None:
    rng = cases.generator("missing", dtype)
    image = cases.pixels(rng, (1, 2, 6, 7), dtype)
    weights, grid = rng.random((1, 1, 6, 7)) < 0.5, pixel_grid(rng, 1, (40,), (6, 7))
    expected, _ = mean_output(np.asarray(image, float), grid, "bicubic", "missing", weights)
    fill = 1 if dtype == "bool" else 3
    result = gridsample.grid_sample(
        image, grid, "bicubic", "missing", coords="pixel", weights=weights, fill_value=fill
    )
    assert result.dtype == image.dtype
    if dtype == "bool":
        rounded = np.rint(expected) > 0
    else:
        limits = np.iinfo(dtype)
        rounded = np.rint(expected).clip(limits.min, limits.max)
    expected = np.where(np.isnan(expected), fill, rounded).astype(float)
    np.testing.assert_allclose(result.astype(float), expected, rtol=1e-12)
    assert (result == fill).any()


def test_integers_saturate() -> None:
    image = np.array([[[np.iinfo(np.int64).max, np.iinfo(np.int64).min]]])
    points = np.array([[[0.0], [1.0]]])
    weights = np.array([[[1.0, 1.0]]])
    result = gridsample.grid_sample(image, points, coords="pixel", weights=weights)
    np.testing.assert_array_equal(result, image)


@pytest.mark.parametrize("boundary", ["dst1", ("dst1", "zeros"), ("antimirror", "dst1")])
@pytest.mark.parametrize("options", [IGNORE, {}], ids=str)
def test_all_taps_of_plain_samples_have_weight(boundary: Any, options: dict[str, Any]) -> None:
    rng = cases.generator("all taps", str(boundary))
    image, grid = cases.pixels(rng, (1, 2, 5, 6), "int16"), pixel_grid(rng, 1, (20,), (5, 6))
    plain = gridsample.grid_sample(image, grid, padding_mode=boundary, coords="pixel")
    result, weight = gridsample.grid_sample(
        image, grid, padding_mode=boundary, coords="pixel", return_weight=True, **options
    )
    np.testing.assert_array_equal(result, plain)
    np.testing.assert_allclose(weight, 1, rtol=1e-12)


def test_out_receives_the_result() -> None:
    rng = cases.generator("missing", "out")
    image, grid = pixels_with_nan(rng, (1, 2, 5, 6)), pixel_grid(rng, 1, (3, 4), (5, 6))
    out = np.empty((1, 2, 3, 4))
    expected = gridsample.grid_sample(image, grid, coords="pixel", **IGNORE)
    assert gridsample.grid_sample(image, grid, coords="pixel", out=out, **IGNORE) is out
    np.testing.assert_array_equal(out, expected)
    result, mask, weight = gridsample.grid_sample(
        image, grid, coords="pixel", out=out, return_mask=True, return_weight=True, **IGNORE
    )
    assert result is out
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert mask.shape == (1, 1, 3, 4) and weight.shape == out.shape


# Gradients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [CALLS[k] for k in (1, 3, 5, 6, 8)], ids=str)
def test_gradients_match_finite_differences(call: Any) -> None:
    shape, weighted, items, mode, boundary = call
    rng = cases.generator("missing gradients", str(call))
    image, grid = pixels_with_nan(rng, shape), pixel_grid(rng, items, (4,), shape[2:])
    weights = rng.uniform(0.5, 2, weighted) if weighted else None
    options: Any = {"mode": mode, "padding_mode": boundary, "coords": "pixel", "min_weight": 0.2}
    options |= {"fill_value": 2.5 if "constant" in boundary else 0, **IGNORE}

    def sample(image: Array, grid: Array, weights: Array | None) -> Array:
        return np.nan_to_num(gridsample.grid_sample(image, grid, weights=weights, **options))

    upstream = cases.pixels(rng, sample(image, grid, weights).shape)
    result = gridsample.grid_sample_vjp(upstream, image, grid, weights=weights, **options)
    assert len(result) == (2 if weights is None else 3)
    full = np.nan_to_num(image)
    missing = np.isnan(image)
    expected = [
        finite_difference(
            lambda pixels: np.sum(
                upstream * sample(np.where(missing, np.nan, pixels), grid, weights)
            ),
            full,
        ),
        finite_difference(lambda points: np.sum(upstream * sample(image, points, weights)), grid),
    ]
    if weights is not None:
        expected.append(
            finite_difference(
                lambda factors: np.sum(upstream * sample(image, grid, factors)), weights
            )
        )
    for mine, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
    assert not result[0][missing].any()


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["zeros", "antimirror", ("missing", "constant"), "missing"])
@pytest.mark.parametrize("name", ["grid", "theta"])
def test_gradients_do_not_depend_on_which_are_needed(name: str, boundary: Any) -> None:
    rng = cases.generator("missing needed", name, boundary)
    image, upstream = pixels_with_nan(rng, (1, 2, 5, 6)), rng.normal(size=(1, 2, 3, 4))
    points: Any = (pixel_grid(rng, 1, (3, 4), (5, 6)),)
    if name == "theta":
        points = rng.uniform(-1, 1, (1, 2, 3)), (1, 2, 3, 4)
    function = {"grid": gridsample.grid_sample_vjp, "theta": gridsample.affine_sample_vjp}[name]
    options = {"padding_mode": boundary, "weights": rng.uniform(0.5, 1, image.shape), **IGNORE}
    options["fill_value"] = 2 * ("constant" in boundary)
    expected = function(upstream, image, *points, **options)
    for needed in [(True, False, False), (False, True, False), (False, False, True)]:
        flags = dict(zip(("need_input", f"need_{name}", "need_weights"), needed, strict=True))
        gradients = function(upstream, image, *points, **options, **flags)
        for gradient, desired, need in zip(gradients, expected, needed, strict=True):
            assert (gradient is not None) == need
            np.testing.assert_allclose(gradient, desired, atol=1e-13) if need else None


def test_gradients_without_missing_pixels_have_the_same_bits() -> None:
    rng = cases.generator("missing", "bits")
    image, grid = cases.pixels(rng, (1, 2, 5, 6)), rng.uniform(-1, 1, (1, 7, 2))
    upstream = cases.pixels(rng, (1, 2, 7))
    expected = gridsample.grid_sample_vjp(upstream, image, grid)
    for actual, other in zip(
        gridsample.grid_sample_vjp(upstream, image, grid, **IGNORE), expected, strict=True
    ):
        np.testing.assert_array_equal(actual, other)


# Affine maps, resizing, splatting -----------------------------------------------------------------


def test_affine_maps_match_their_grids() -> None:
    rng = cases.generator("missing", "affine")
    image, weights = pixels_with_nan(rng, (1, 2, 6, 7)), rng.uniform(0, 2, (1, 2, 6, 7))
    theta, size = rng.uniform(-1, 1, (2, 2, 3)), (2, 2, 5, 4)
    grid, options = gridsample.affine_grid(theta, size), {"padding_mode": "missing", **IGNORE}
    result = gridsample.affine_sample(
        image, theta, size, weights=weights, return_weight=True, **options
    )
    expected = gridsample.grid_sample(image, grid, weights=weights, return_weight=True, **options)
    for actual, other in zip(result, expected, strict=True):
        assert_close(actual, other, 1e-10)
    upstream = cases.pixels(rng, result[0].shape)
    mine = gridsample.affine_sample_vjp(upstream, image, theta, size, weights=weights, **options)
    theirs = gridsample.grid_sample_vjp(upstream, image, grid, weights=weights, **options)
    assert_close(mine[0], theirs[0], 1e-10)
    assert_close(mine[2], theirs[2], 1e-10)
    rows = np.concatenate(
        [gridsample.affine_grid(np.eye(2, 3)[None], (1, 1, 5, 4)), np.ones((1, 5, 4, 1))], -1
    )
    assert_close(mine[1], np.einsum("nhwd,mhwe->nde", theirs[1], rows), 1e-10)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("mode", ["linear", "area", "bicubic"])
@pytest.mark.parametrize("weighted", [None, (1, 1, 6, 7), (1, 2, 6, 7)])
def test_weighted_resizing_is_a_quotient_of_two_images(mode: str, weighted: Any) -> None:
    rng = cases.generator("missing", mode, str(weighted))
    image = pixels_with_nan(rng, (1, 2, 6, 7))
    weights = rng.uniform(0.5, 2, weighted) if weighted else None
    options = {"size": (4, 9), "mode": mode, "antialias": mode == "linear"}
    missing = np.isnan(image)
    counts = np.where(missing, 0, 1.0 if weights is None else weights)
    above = gridsample.interpolate(np.where(missing, 0, image) * counts, **options)
    below = gridsample.interpolate(counts, **options)
    expected = np.where(below > 0.1, above / np.where(below > 0.1, below, 1), np.nan)
    options |= {"weights": weights, "min_weight": 0.1, **IGNORE}
    result, weight = gridsample.interpolate(image, **options, return_weight=True)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weight, below, rtol=1e-12, atol=1e-14)
    upstream = cases.pixels(rng, result.shape)
    mine = gridsample.interpolate_vjp(upstream, image, **options)
    mine = mine if weighted else (mine,)

    def total(**other: Any) -> Any:
        arguments = {"input": image, **options, **other}
        return np.sum(upstream * np.nan_to_num(gridsample.interpolate(**arguments)))

    full = np.nan_to_num(image)
    by_image = finite_difference(
        lambda pixels: total(input=np.where(missing, np.nan, pixels)), full
    )
    np.testing.assert_allclose(mine[0], by_image, rtol=1e-6, atol=1e-6)
    if weights is not None:
        by_weights = finite_difference(lambda factors: total(weights=factors), weights)
        np.testing.assert_allclose(mine[1], by_weights, rtol=1e-6, atol=1e-6)


def test_a_weighted_mean_of_integers_is_resized() -> None:
    image = np.array([[[10, 20, 31, 40]]], np.uint8)
    weights = np.array([[[True, True, True, False]]])
    result = gridsample.interpolate(image, 2, mode="area", weights=weights)
    np.testing.assert_array_equal(result, [[[15, 31]]])
    result = gridsample.interpolate(image, 2, mode="area", weights=np.zeros((1, 1, 4)))
    np.testing.assert_array_equal(result, [[[0, 0]]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_missing_values_are_not_splatted(dtype: str) -> None:
    rng = cases.generator("missing", "splat")
    values, grid = pixels_with_nan(rng, (2, 2, 9)).astype(dtype), rng.uniform(-1.2, 1.2, (2, 9, 2))
    weights = rng.uniform(0, 1, (2, 1, 9))
    counts = np.where(np.isnan(values), 0, 1)
    cleaned = np.where(counts, values, 0)
    result = gridsample.splat(values, grid, (4, 5), **IGNORE)
    np.testing.assert_array_equal(result, gridsample.splat(cleaned, grid, (4, 5)))
    above = gridsample.splat(cleaned.astype(float) * weights, grid, (4, 5))
    below = gridsample.splat(counts * weights, grid, (4, 5))
    result, weight = gridsample.splat(
        values,
        grid,
        (4, 5),
        padding_mode="missing",
        weights=weights,
        normalize=True,
        return_weight=True,
        **IGNORE,
    )
    unit = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(weight, below, rtol=unit, atol=unit)
    np.testing.assert_allclose(result, above / np.where(below == 0, 1, below), rtol=unit, atol=unit)
    expected = gridsample.splat(cleaned, grid, (4, 5), normalize=True)
    result = gridsample.splat(cleaned, grid, (4, 5), normalize=True, **IGNORE)
    np.testing.assert_array_equal(result, expected)


# Errors -------------------------------------------------------------------------------------------


IMAGE, GRID = np.zeros((1, 2, 3, 4)), np.zeros((1, 5, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "skip"}, "missing 'skip' is not known; accepted: 'propagate', 'ignore'"),
        ({"min_weight": 1, **IGNORE}, "min_weight must be at least 0 and below 1, got 1"),
        ({"min_weight": 0.5}, "min_weight 0.5 has no effect here"),
        ({"weights": np.ones((1, 3, 3, 4))}, r"weights must be \(N or 1, 2 or 1, \*\(3, 4\)\)"),
        ({"weights": np.ones((2, 1, 3, 4))}, "weights must be"),
        ({"weights": np.full((1, 1, 3, 4), -1)}, "weights must be finite and not negative"),
        ({"weights": np.full((1, 1, 3, 4), np.nan)}, "weights must be finite and not negative"),
        ({"mode": "spline3", **IGNORE}, "mode .*'spline3'.* would prefilter the image"),
        ({"padding_mode": ("dst1", "missing")}, "padding_mode 'dst1' has zeros"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gridsample.grid_sample(IMAGE, GRID, **options)


def test_wrong_argument_types_are_rejected() -> None:
    with pytest.raises(TypeError, match="missing must be one of 'propagate', 'ignore', got None"):
        gridsample.grid_sample(IMAGE, GRID, missing=None)
    with pytest.raises(TypeError, match="min_weight must be a number"):
        gridsample.grid_sample(IMAGE, GRID, missing="ignore", min_weight="half")
    with pytest.raises(TypeError, match="weights has dtype complex128"):
        gridsample.grid_sample(IMAGE, GRID, weights=np.ones((1, 1, 3, 4), complex))


def test_methods_without_means_are_rejected() -> None:
    method = gridsample.methods.Method("twice", ((2.0,),), 0, rounds=True, normalized=False)
    with pytest.raises(ValueError, match="mode 'twice' has weights that do not sum to one"):
        gridsample.grid_sample(IMAGE, GRID, method, **IGNORE)
    with pytest.raises(ValueError, match="would prefilter the image"):
        gridsample.interpolate(IMAGE, 5, mode="spline3", **IGNORE)
    coefficients = gridsample.grid_sample(IMAGE, GRID, "spline3", prefilter=False, **IGNORE)
    assert not coefficients.any()


def test_rounding_after_each_axis_is_rejected_for_means() -> None:
    image = IMAGE.astype(np.uint8)
    with pytest.raises(ValueError, match="accepted with weights: 'exact'"):
        gridsample.interpolate(image, 5, mode="linear", rounding="pillow", weights=image)


def test_missing_boundary_is_limited_to_some_functions() -> None:
    with pytest.raises(ValueError, match="'missing' is for grid_sample, affine_sample"):
        gridsample.grid_gradient(IMAGE, GRID, padding_mode="missing")
