"""`gridsample.operators.softmax_splat` on NumPy arrays, against the reference."""

from __future__ import annotations

import math
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample.backends import backend_of
from gridsample.definitions.operators import SplatOptions
from gridsample.kernels.reference import operators as reference
from gridsample.operators import softmax_splat, softmax_splat_vjp
from gridsample.operators.splatting import (
    MAXIMUM,
    SPLAT,
    TOTAL,
    composed,
    composed_vjp,
    greatest_of,
    total_of,
)

# Size, channels, boundary, hard: one channel, a few, and blocks that overlap; an axis of one pixel.
CASES = [
    ((9, 13), 33, "zeros", False),
    ((40,), 70, "wrap", False),
    ((3, 4, 5), 3, "reflection", True),
    ((1, 7), 1, "border", False),
]


def inputs(case: Any, dtype: Any = np.float64) -> tuple[list[Any], Any]:
    """Values, metric, positions and options; some points are NaN or infinite."""
    size, channels, boundary, hard = case
    rng, points = cases.generator("splats", *size), int(np.prod(size))
    values = rng.standard_normal((2, points, channels))
    metric = rng.standard_normal((2, points)) * 100  # exp overflows float32
    positions = rng.uniform(-2, max(size) + 1, (2, points, len(size)))
    positions[0, 0, 0], positions[0, 1, -1], metric[1, 2] = np.nan, np.inf, np.nan
    positions[1, 3, 0], metric[1, 4:6] = -1000.3, metric[1, 4]
    options = SplatOptions(size, (boundary,) * len(size), hard, None)
    return [array.astype(dtype) for array in (values, metric, positions)], options


def prepared(arrays: Any, options: Any) -> list[Any]:
    """The arrays of the operator."""
    backend, (values, *points) = backend_of(input=arrays[0]), arrays
    points.append(backend.fused(MAXIMUM, points, options))
    points.append(backend.fused(TOTAL, points, options))
    return [values, *points]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_means_are_those_of_the_reference(case: Any) -> None:
    arrays, options = inputs(case)
    backend, every = backend_of(input=arrays[0]), prepared(arrays, options)
    np.testing.assert_array_equal(every[3], greatest_of(backend, arrays[1:], options))
    total = total_of(backend, every[1:4], options)
    np.testing.assert_allclose(every[4], total, rtol=1e-12, atol=1e-15)
    expected = reference.softmax_splat(*arrays, options.size, options.padding_mode, options.hard)
    assert expected.any()
    for result in (
        backend.fused(SPLAT, every, options),
        composed(backend, every, options),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_the_composition(case: Any) -> None:
    arrays, options = inputs(case)
    backend, every = backend_of(input=arrays[0]), prepared(arrays, options)
    upstream = cases.generator("upstream").standard_normal((*every[3].shape, case[1]))
    needed = (True,) * 5
    expected = composed_vjp(backend, upstream, every, options, needed)
    gradients = backend.fused_vjp(SPLAT, upstream, every, options, needed)
    for gradient, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-9, atol=1e-11)
    for k in range(3) if case == CASES[0] else ():
        alone = backend.fused_vjp(SPLAT, upstream, every, options, tuple(n == k for n in range(5)))
        np.testing.assert_array_equal(alone[k], gradients[k])
    zeros = backend.fused_vjp(MAXIMUM, every[3], arrays[1:], options, (True, True))
    assert not any(zero.any() for zero in zeros)


def test_gradients_are_slopes_of_the_means() -> None:
    rng = cases.generator("slopes")
    image, flow = rng.standard_normal((1, 3, 5, 6)), rng.uniform(-2, 2, (1, 2, 5, 6))
    arrays, options = inputs(((5, 6), 3, "zeros", False))
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(5)), -1) + np.moveaxis(flow, 1, -1)
    metric = rng.standard_normal((1, 30))
    arrays = [np.moveaxis(image, 1, -1).reshape(1, 30, 3), metric, grid.reshape(1, 30, 2)]
    backend = backend_of(input=image)

    def splatted(*given: Any) -> Any:
        return backend.fused(SPLAT, prepared(given, options), options)

    upstream = rng.standard_normal((1, 30, 3))
    needed = (True, True, True, False, False)
    gradients = backend.fused_vjp(SPLAT, upstream, prepared(arrays, options), options, needed)
    for k in range(3):
        direction, step = rng.standard_normal(arrays[k].shape), 1e-7
        ends = [[*arrays[:k], arrays[k] + s * direction, *arrays[k + 1 :]] for s in (step, -step)]
        slope = np.sum((splatted(*ends[0]) - splatted(*ends[1])) * upstream) / (2 * step)
        np.testing.assert_allclose(slope, np.sum(gradients[k] * direction), rtol=1e-6)
    full = softmax_splat(image, flow, metric.reshape(1, 1, 5, 6))
    np.testing.assert_array_equal(np.moveaxis(full, 1, -1).reshape(1, 30, 3), splatted(*arrays))


def test_values_that_do_not_count_change_nothing() -> None:
    """Not even with the weight 0 times NaN, nor where the sum of weights has no inverse."""
    nan, inf = math.nan, math.inf
    for values, metric, positions, hard, expected in (
        ([inf, 7, 9], [0, 0, 0], [0, 6, 7], False, [inf, 0, 0]),  # a tap of the weight 0
        ([nan, 7, 9], [nan, 5, 5], [0, 1, 2], False, [0, 7, 9]),
        ([nan, 7, 9], [1, 0, 0], [nan, 1, 2], False, [0, 7, 9]),
        ([nan, 7, 9], [0, 1, 5], [1, 1, 2], True, [0, 7, 9]),  # a smaller metric
        ([5, 7, 9], [0, 0, 0], [2.0**-1072, 6, 7], False, [5, 5, 0]),
    ):
        options = SplatOptions((3,), ("zeros",), hard, None)
        arrays = [np.reshape(values, (1, 3, 1)), np.reshape(metric, (1, 3))]
        arrays = [np.asarray(a, float) for a in (*arrays, np.reshape(positions, (1, 3, 1)))]
        every, backend = prepared(arrays, options), backend_of(input=arrays[0])
        given = np.ones((1, 3, 1)), every, options, (True,) * 5
        with np.errstate(invalid="ignore"):
            results = backend.fused(SPLAT, every, options), composed(backend, every, options)
            pairs = zip(
                backend.fused_vjp(SPLAT, *given), composed_vjp(backend, *given), strict=True
            )
        for result in results:
            np.testing.assert_array_equal(result.ravel(), expected)
        for own, other in pairs:
            np.testing.assert_array_equal(own, other)
            assert inf in values or np.isfinite(own).all()
    image, flow = np.array([[[nan, 7, 9]]]), np.zeros((1, 1, 3))
    linear = softmax_splat(image, flow, np.array([[[nan, 5, 5]]]), "linear")
    np.testing.assert_array_equal(linear.ravel(), [0, 7, 9])


def test_numbers_of_pixels_that_float32_does_not_hold() -> None:
    options = SplatOptions((4100, 4100), ("zeros",) * 2, False, None)
    metric, places = np.float32([[3, 5]]), np.float32([[[4097, 4099], [4096, 4099]]])
    greatest = greatest_of(backend_of(input=metric), [metric, places], options)
    np.testing.assert_array_equal(greatest[0, -5:], np.float32([-math.inf, 5, 3, *[-math.inf] * 2]))


def test_exponentials() -> None:
    """A value that meets another one with the metric 0, on a line of two pixels."""
    exponents = np.concatenate([np.linspace(-720, 0, 1001), [-1e9, -1e-9]])
    for dtype, limit in ((np.float64, 1e-15), (np.float32, 3e-7)):
        image = np.broadcast_to(np.array([1.0, 0.0], dtype), (len(exponents), 1, 2))
        flow = np.broadcast_to(np.array([0.0, -1.0], dtype), (len(exponents), 1, 2))
        metric = np.stack([exponents, np.zeros_like(exponents)], -1)[:, None].astype(dtype)
        result = softmax_splat(image, flow, metric)[:, 0, 0].astype(np.float64)
        exact = np.exp(metric[:, 0, 0].astype(np.float64))
        normal = np.finfo(dtype).tiny * 2
        np.testing.assert_allclose(result, exact / (1 + exact), rtol=4 * limit, atol=normal)


def test_modes() -> None:
    rng = cases.generator("modes")
    image, flow = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-2, 2, (2, 2, 5, 6))
    metric = rng.uniform(0.5, 2, (2, 1, 5, 6))
    grid = np.moveaxis(flow, 1, -1)

    def splat(values: Any, **options: Any) -> Any:
        return gridsample.splat(values, grid, (5, 6), coords="displacement", **options)

    close = {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(softmax_splat(image, flow, mode="sum"), splat(image), **close)
    average = softmax_splat(image, flow, mode="average")
    np.testing.assert_allclose(average, splat(image, normalize=True), **close)
    sums, totals = splat(image * metric), splat(metric)
    linear = np.where(totals == 0, 0, sums) / np.where(totals == 0, 1, totals)
    np.testing.assert_allclose(softmax_splat(image, flow, metric, "linear"), linear, **close)
    # Weights whose logarithms are the metric.
    soft = softmax_splat(image, flow, np.log(metric))
    np.testing.assert_allclose(soft, linear, **close)
    equal = softmax_splat(image, flow, np.zeros_like(metric))
    np.testing.assert_allclose(equal, average, **close)
    np.testing.assert_array_equal(
        softmax_splat(image, flow, np.zeros_like(metric), "maximum"), equal
    )
    hard = softmax_splat(image, flow, metric, "maximum")
    np.testing.assert_allclose(softmax_splat(image, flow, metric * 1e6), hard, **close)
    assert np.abs(hard - average).max() > 0.1


def test_dtypes_and_layouts() -> None:
    rng = cases.generator("layouts")
    image, flow = rng.standard_normal((1, 5, 40, 50)), rng.uniform(-2, 2, (1, 2, 40, 50))
    metric = rng.standard_normal((1, 1, 40, 50))
    arrays = image, flow, metric
    result = softmax_splat(*arrays, threads=1)
    np.testing.assert_array_equal(softmax_splat(*arrays, threads=3), result)
    others = [np.asfortranarray(array) for array in arrays]
    np.testing.assert_array_equal(softmax_splat(*others), result)
    narrow = [array.astype(np.float16) for array in arrays]
    single = softmax_splat(*[array.astype(np.float32) for array in narrow])
    half = softmax_splat(*narrow)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, single.astype(np.float16))


def test_gradients_have_the_dtypes_of_their_arrays() -> None:
    rng = cases.generator("narrow")
    image, flow = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-2, 2, (2, 2, 5, 6))
    metric, upstream = rng.uniform(0.5, 2, (2, 1, 5, 6)), rng.standard_normal((2, 3, 5, 6))
    types = np.float32, np.float32, np.float16, np.float64
    arrays = [
        array.astype(dtype)
        for array, dtype in zip((upstream, image, flow, metric), types, strict=True)
    ]
    for mode in ("linear", "soft"):
        gradients = softmax_splat_vjp(*arrays, mode)
        exact = softmax_splat_vjp(*[array.astype(np.float64) for array in arrays], mode)
        for gradient, other, array in zip(gradients, exact, arrays[1:], strict=True):
            assert gradient.dtype == array.dtype
            tolerance = 4 * float(np.finfo(array.dtype).eps)
            np.testing.assert_allclose(gradient, other, rtol=tolerance, atol=1e-6)


def test_empty_arrays() -> None:
    for shape in ((0, 3, 4, 5), (2, 0, 4, 5)):
        items = shape[0]
        flow, metric = np.zeros((items, 2, 4, 5)), np.zeros((items, 1, 4, 5))
        for mode in ("soft", "linear"):
            assert softmax_splat(np.ones(shape), flow, metric, mode).shape == shape
            gradients = softmax_splat_vjp(np.ones(shape), np.ones(shape), flow, metric, mode)
            assert [g.shape for g in gradients] == [shape, flow.shape, metric.shape]
            assert not any(g.any() for g in gradients)
    none = np.ones((1, 2, 0, 4))
    for mode in ("soft", "sum"):
        with pytest.raises(ValueError, match="input has an empty spatial axis"):
            softmax_splat(none, none, none[:, :1] if mode == "soft" else None, mode)


def test_errors() -> None:
    image, flow, metric = np.ones((1, 3, 4, 5)), np.zeros((1, 2, 4, 5)), np.zeros((1, 1, 4, 5))
    for arguments, words in (
        ((image, flow, metric, "best"), "mode .*best.*accepted: .*soft"),
        ((image, flow), 'mode "soft" needs a metric; those that have one: linear, soft, maximum'),
        ((image, flow, metric, "sum"), 'mode "sum" has no metric'),
        ((image, flow[:, :1], metric), r"flow must have the shape \(1, 2, 4, 5\)"),
        ((image, flow, metric[..., 1:]), r"metric must have the shape \(1, 1, 4, 5\)"),
        ((image[0], flow[0], metric[0]), r"flow must have the shape \(3, 1, 5\)"),
        ((image[0, 0], flow, metric), r"input must be \(N, C, \*size\) with 1 to 3 spatial axes"),
        ((image, flow, metric, "soft", "antimirror"), "'antimirror' changes the signs of pixels"),
    ):
        with pytest.raises(ValueError, match=words):
            softmax_splat(*arguments)
        with pytest.raises(ValueError, match=words):
            softmax_splat_vjp(image, *arguments)
    with pytest.raises(ValueError, match=r"grad_output must have the shape \(1, 3, 4, 5\)"):
        softmax_splat_vjp(flow, image, flow, metric)
    with pytest.raises(TypeError, match="need_flow must be True or False"):
        softmax_splat_vjp(image, image, flow, metric, need_flow=1)
    with pytest.raises(TypeError, match="flow has dtype int64; accepted: float16"):
        softmax_splat(image, flow.astype(int), metric)
    with pytest.raises(TypeError, match="mode must be a str, got NoneType"):
        softmax_splat(image, flow, metric, None)
    with pytest.raises(TypeError, match="mode must be a str, got ndarray"):
        softmax_splat(image, flow, metric, image)
    with pytest.raises(ValueError, match="threads"):
        softmax_splat(image, flow, metric, threads=0)
