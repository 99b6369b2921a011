"""Resizing of a few long lines: without tables, or with those of one period."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cases
import numpy as np
import pytest
import resized
from resized import described

import gridsample
from gridsample.definitions.bands import CACHE_BYTES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.tables import axis_map, band_of
from gridsample.kernels.resize import chains, lines, picking, planning
from gridsample.kernels.vector import host

Array = np.ndarray[Any, Any]

# Methods for each way to compute weights; a longer list would only compile more programs.
METHODS = ("nearest", "nearest-exact", "linear", "cubic", "lanczos3", "gaussian", "area", "spline2")
OTHERS = tuple(name for name in resized.METHODS if name not in METHODS)
# Its dense matrices take long.
SLOW_SPLINE = pytest.param("spline2", marks=pytest.mark.slow)
METHODS_AND_OTHERS = (*METHODS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS))
# Longer and shorter; few outputs of many inputs, and the reverse.
SIZES = ((1030, 1201), (1201, 1030), (1101, 20), (20, 1101))
# The weights of the last repeat but for rounding.
FACTORS = ((1200, 600), (1026, 2052), (600, 2400), (900, 1200), (1200, 400))


def matrix(n: int, m: int, method: str, align: bool, smooth: bool) -> Array:
    return resized.matrices((n,), (m,), method, align, smooth)[0]


def check(method: str, n: int, m: int, align: bool, smooth: bool, dtype: str = "float32") -> None:
    """Compare a line and its gradient with the dense matrix."""
    rng = cases.generator(method, n, m)
    image, upstream = (cases.pixels(rng, (1, 2, size), dtype) for size in (n, m))
    options = {"mode": method, "antialias": smooth, **resized.corners(method, align)}
    dense = matrix(n, m, method, align, smooth)
    gain = np.abs(dense).sum(axis=0).max() + np.abs(dense).sum(axis=1).max()
    prefilter = 16.0 if method.startswith("spline") else 1.0
    atol = resized.scale_of(np.dtype(dtype)) * gain * prefilter * np.abs(image).max()
    for result, expected in (
        (gridsample.interpolate(image, m, **options), image @ dense.T),
        (gridsample.interpolate_vjp(upstream, image, m, **options), upstream @ dense),
    ):
        assert result.dtype == dtype
        np.testing.assert_allclose(
            result, expected, rtol=0, atol=atol, err_msg=f"{n} {m} {options}"
        )


@pytest.mark.covering
@pytest.mark.parametrize("method", METHODS_AND_OTHERS)
@pytest.mark.parametrize("smooth", [False, True])
def test_a_line_is_multiplied_by_its_matrix(method: str, smooth: bool) -> None:
    assert not (smooth and method == "area") or matrix(9, 4, method, False, True).shape == (4, 9)
    for n, m in SIZES:
        assert lines.is_long(axis_map(described(n, m, method, antialias=smooth)), 2)
        check(method, n, m, False, smooth)


@pytest.mark.parametrize("method", ["linear", "gaussian", SLOW_SPLINE])
def test_corners_are_aligned(method: str) -> None:
    for n, m in ((1030, 1201), (1101, 700), (1025, 2049), (1, 1030), (1030, 1)):
        check(method, n, m, True, False)


@pytest.mark.parametrize("method", (*METHODS[:-1], SLOW_SPLINE))
def test_weights_repeat_for_simple_factors(method: str) -> None:
    lanes = host().lanes("float32")
    for n, m in FACTORS:
        for smooth in (False, True):
            axis = described(n, m, method, antialias=smooth)
            if method in ("linear", "cubic") and m != 400:
                assert picking.repeated(axis, False, lanes)
            check(method, n, m, False, smooth)


def test_factors_that_are_rounded_do_not_repeat() -> None:
    lanes = host().lanes("float32")
    for axis in (
        described(1000, 1500, "linear"),
        described(2000, 2600, "linear", scale=1.3),
    ):
        for transposed in (False, True):
            assert picking.repeated(axis, transposed, lanes) is None
    assert picking.repeated(described(2001, 4003, "linear", scale=2.0), False, lanes)


def test_lines_that_are_shorter_than_a_register() -> None:
    """A window must not be wider than a line."""
    lanes = host().lanes("float32")
    for n, m in ((1, 1000), (3, 3000)):
        for method in ("nearest", "linear", "area"):
            assert picking.picking_of(axis_map(described(n, m, method)).band, 1, lanes) is None
            check(method, n, m, False, False)
    image = np.ones((1, 1, 1, 5), np.float32)
    result = gridsample.interpolate(image, (7, 900), mode="linear")
    np.testing.assert_array_equal(result, np.ones((1, 1, 7, 900)))


@pytest.mark.parametrize("scale", [2.0, 0.5, 1.3, 0.37])
def test_a_scale_sets_the_positions(scale: float) -> None:
    image = cases.pixels(cases.generator(scale), (1, 1, 2501), "float64")
    options: dict[str, Any] = {"scale_factor": scale, "mode": "linear"}
    result = gridsample.interpolate(image, **options)
    dense = axis_map(described(2501, result.shape[-1], "linear", scale=scale)).dense()
    # Positions of a few thousand have twelve bits less than weights.
    atol = 2501 * np.finfo(float).eps * np.abs(image).max()
    np.testing.assert_allclose(result, image @ dense.T, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int32", "bool", "complex64"])
@pytest.mark.parametrize(("n", "m"), [(1030, 1201), (1100, 2200)])
def test_every_dtype(dtype: str, n: int, m: int) -> None:
    image = cases.pixels(cases.generator(dtype), (1, 2, n), dtype)
    for method in ("nearest", "linear"):
        result = gridsample.interpolate(image, m, mode=method)
        dense = matrix(n, m, method, False, False)
        wide = image.astype(complex if dtype == "complex64" else float)
        expected = wide @ dense.T
        assert result.dtype == dtype
        if np.dtype(dtype).kind in "fc" and method == "linear":
            atol = resized.scale_of(np.dtype(dtype)) * np.abs(wide).max()
            np.testing.assert_allclose(result, expected, rtol=0, atol=atol)
        elif method == "nearest":
            np.testing.assert_array_equal(result, expected.astype(dtype))
        else:  # sums near a half may be rounded to either side
            assert np.abs(result.astype(float) - expected).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("inner", [1, 3, 5])
@pytest.mark.parametrize("method", ["nearest", "cubic", "area"])
def test_channels_may_come_last(method: str, inner: int) -> None:
    for n, m in ((1030, 1201), (2000, 1000), (5000, 30)):
        image = cases.pixels(cases.generator(inner), (1, n, inner), "float32")
        upstream = cases.pixels(cases.generator(m), (1, m, inner), "float32")
        options: dict[str, Any] = {"mode": method}
        first = gridsample.interpolate(image.transpose(0, 2, 1), m, **options)
        last = gridsample.interpolate(image, m, **options, channel_axis=-1)
        atol = 4 * resized.scale_of(image.dtype) * np.abs(image).max() * max(1, m / n)
        np.testing.assert_allclose(last.transpose(0, 2, 1), first, rtol=0, atol=atol)
        last = gridsample.interpolate_vjp(upstream, image, m, **options, channel_axis=-1)
        expected = upstream[0].T @ matrix(n, m, method, False, False)
        np.testing.assert_allclose(last[0].T, expected, rtol=0, atol=8 * atol)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "spline3"])
@pytest.mark.parametrize(("spatial", "size"), [((2, 1100), (3, 700)), ((1030, 2), (2060, 1))])
def test_other_axes_are_resized_too(
    method: str, spatial: tuple[int, int], size: tuple[int, int]
) -> None:
    image = cases.pixels(cases.generator(method), (1, 2, *spatial), "float64")
    result = gridsample.interpolate(image, size, mode=method)
    expected = resized.dense(image, resized.matrices(spatial, size, method, False, False))
    atol = 64 * resized.scale_of(image.dtype) * np.abs(image).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(("n", "m"), [(40_000, 50_001), (40_000, 20_000), (50_001, 40_000)])
def test_results_do_not_depend_on_threads(n: int, m: int) -> None:
    image = cases.pixels(cases.generator(n, m), (2, 3, n), "float32")
    upstream = cases.pixels(cases.generator(m), (2, 3, m), "float32")
    for method, smooth in (("linear", False), ("lanczos3", True), ("area", False)):
        options = {"mode": method, "antialias": smooth}
        both = [
            (
                gridsample.interpolate(image, m, **options, threads=threads),
                gridsample.interpolate_vjp(upstream, image, m, **options, threads=threads),
            )
            for threads in (1, 3)
        ]
        for alone, together in zip(*both, strict=True):
            np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize(("n", "m"), [(1030, 1201), (2000, 1000), (1100, 2200), (5000, 30)])
def test_nan_reaches_only_the_outputs_that_read_it(n: int, m: int) -> None:
    image = cases.pixels(cases.generator(n), (1, 1, n), "float32")
    image[0, 0, [0, 17, n // 2, n - 1]] = [np.nan, np.inf, np.nan, np.nan]
    upstream = cases.pixels(cases.generator(m), (1, 1, m), "float32")
    upstream[0, 0, [0, m // 2]] = np.nan, np.inf
    calls = [
        lambda method=method: np.stack(
            [
                np.isfinite(gridsample.interpolate(image, m, mode=method)).sum(),
                np.isfinite(gridsample.interpolate_vjp(upstream, image, m, mode=method)).sum(),
            ]
        )
        for method in ("nearest", "linear", "cubic", "area")
    ]
    computed = [call() for call in calls]
    with resized.planned_with(lines, "LONG_LINE", n + m + 1):
        for call, result in zip(calls, computed, strict=True):
            np.testing.assert_array_equal(result, call())


def peak(call: Any) -> int:
    """The peak memory of a call, in bytes."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", ["nearest", "linear", "lanczos4", "area"])
def test_long_lines_need_no_more_memory_than_their_results(method: str) -> None:
    short = np.ones((1, 1, 100), np.float32)
    assert peak(lambda: gridsample.interpolate(short, 1 << 20, mode=method)) < 1.2 * (4 << 20)
    long = np.ones((1, 1, 1 << 20), np.float32)
    for smooth in (False, True):
        options = {"mode": method, "antialias": smooth}
        assert peak(lambda options=options: gridsample.interpolate(long, 2, **options)) < 1 << 18


def test_tables_are_kept_up_to_a_number_of_bytes() -> None:
    for n in range(60_000, 60_040):  # a megabyte each
        gridsample.interpolate(np.ones((20, 1, n), np.float32), n // 2 + 1, mode="linear")
    assert 0 < band_of.cache_bytes() <= CACHE_BYTES
    assert 0 < planning.prepare.cache_bytes() <= CACHE_BYTES


def test_few_pixels_of_an_image_are_not_copied_with_all_others() -> None:
    image = np.asfortranarray(np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024))
    for method in ("nearest", "linear", "cubic"):
        options = {"mode": method}
        batch = image[np.newaxis, np.newaxis]
        packed = np.ascontiguousarray(batch)
        for size in ((2, 3), (5, 1000), (1000, 5)):
            result = gridsample.interpolate(batch, size, **options)
            # The axes may be resized in another order, which rounds differently.
            np.testing.assert_allclose(
                result,
                gridsample.interpolate(packed, size, **options),
                rtol=resized.scale_of(image.dtype),
            )
        needed = peak(
            lambda batch=batch, options=options: gridsample.interpolate(batch, (2, 3), **options)
        )
        assert needed < 1 << 18


def test_small_images_use_one_thread() -> None:
    numbers = planning.Numbers("float32", "float32")
    kinds = "float32", "float32"
    for n, threads in ((64, 1), (2048, 8)):
        maps = (axis_map(described(n, n // 2, "linear")),) * 2
        launch = planning.prepare(maps, (1, 1, n, n, 1), None, kinds, numbers, 8)
        assert min(8, launch.threads) == threads


def test_the_latest_tables_are_cached() -> None:
    calls: list[int] = []

    @cached_by_size(100, len)
    def text(n: int) -> str:
        calls.append(n)
        return "x" * n

    for n in (20, 25, 20, 22, 21, 24, 20, 25, 60, 60):
        assert text(n) == "x" * n
    # 25 is the oldest when 112 bytes are too many; 60 are more than a quarter of the limit.
    assert calls == [20, 25, 22, 21, 24, 25, 60, 60]


@pytest.mark.parametrize(
    ("spatial", "size", "between"),
    [((2, 3000), (3, 1000), (2, 1000)), ((2, 1000), (3, 3000), (3, 1000))],
)
def test_a_long_axis_has_a_launch_of_its_own_where_less_is_left(
    spatial: tuple[int, ...], size: tuple[int, ...], between: tuple[int, ...]
) -> None:
    pairs = [*zip(spatial, size, strict=True)]
    for method, dtype in (("linear", "float32"), ("nearest", "uint8")):
        maps = tuple([axis_map(described(n, m, method)) for n, m in pairs])
        source = chains.Planes((1, 1, *spatial, 1), np.dtype("uint8"))
        links = chains.chain_of(maps, source, source.dtype, "float32", 1, "exact")
        assert [link.result for link in links] == [
            chains.Planes((1, 1, *between, 1), np.dtype(dtype)),
            chains.Planes((1, 1, *size, 1), source.dtype),
        ]
