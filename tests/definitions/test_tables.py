"""The matrices of resizing, against PyTorch, SciPy, Pillow and the formulas written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image
from resized import described
from torch.nn import functional

from gridsample.definitions.bands import Band
from gridsample.definitions.methods import METHODS, Method, find_method
from gridsample.definitions.splines import Prefilter
from gridsample.definitions.tables import aligns, axis_map, window
from gridsample.definitions.weights import keys_cubic
from gridsample.kernels.spline import filter_axis

Array = np.ndarray[Any, Any]

SIZES = (1, 2, 3, 5, 7, 16, 31)
PAIRS = [(n, m) for n in SIZES for m in (1, 2, 3, 4, 7, 13, 31, 64)]
TORCH = {
    "nearest": ["nearest"],
    "nearest-exact": ["nearest-exact"],
    "area": ["area"],
    "linear": ["bilinear", False, True],
    "cubic": ["bicubic", False, True],
}
# Sums of a few terms below 2 in size, each of a few roundings.
ROUNDING = 64 * np.finfo(float).eps


def torchs(n: int, m: int, mode: str, **options: Any) -> Array:
    """Torch's matrix: the results for all unit vectors, along the last of two axes."""
    units = torch.eye(n, dtype=torch.float64).reshape(n, 1, 1, n)
    rows = functional.interpolate(units, size=(1, m), mode=mode, **options)
    return rows[:, 0, 0].numpy().T


@pytest.mark.parametrize("method", TORCH)
def test_matrices_match_torch(method: str) -> None:
    mode, *corners = TORCH[method]
    for n, m in PAIRS:
        for align in corners or [None]:
            mine = axis_map(described(n, m, method, bool(align))).dense()
            theirs = torchs(n, m, mode, **({} if align is None else {"align_corners": align}))
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=ROUNDING, err_msg=f"{n} {m}")


@pytest.mark.parametrize(
    ("method", "align"),
    [("linear", False), ("linear", True), ("cubic", False), ("cubic", True), ("lanczos3", False)],
)
def test_antialiased_matrices_match_torch(method: str, align: bool) -> None:
    mode = {"linear": "bilinear", "cubic": "bicubic", "lanczos3": "lanczos"}[method]
    for n, m in PAIRS:
        mine = axis_map(described(n, m, method, align, True)).dense()
        theirs = torchs(n, m, mode, align_corners=align, antialias=True)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=ROUNDING, err_msg=f"{n} {m}")


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_inexact_scales_set_the_positions(method: str) -> None:
    mode = {"linear": "bilinear", "cubic": "bicubic"}[method]
    for n, scale in ((7, 1.3), (10, 0.37), (31, 2.6), (5, 1.0), (3, 0.4)):
        m = math.floor(n * scale)
        units = torch.eye(n, dtype=torch.float64).reshape(n, 1, 1, n)
        for smooth in (False, True):
            rows = functional.interpolate(
                units, scale_factor=(1, scale), mode=mode, antialias=smooth
            )
            mine = axis_map(described(n, m, method, antialias=smooth, scale=scale)).dense()
            np.testing.assert_allclose(mine, rows[:, 0, 0].numpy().T, rtol=0, atol=ROUNDING)


def test_boxes_match_pillow() -> None:
    for n, m in PAIRS:
        units = np.eye(n, dtype=np.float32)
        theirs = np.array(Image.fromarray(units).resize((m, n), Image.Resampling.BOX)).T
        mine = axis_map(described(n, m, "nearest", antialias=True)).dense()
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-7)


@pytest.mark.parametrize(("align", "mode"), [(True, "mirror"), (False, "reflect")])
def test_splines_match_scipy(align: bool, mode: str) -> None:
    # SciPy's filter for "reflect" omits the reflection at the other end: 0.27 ** n.
    sizes = (2, 3, 5, 17, 30) if align else (30, 33)
    for n in sizes:
        for m in (2, 5, 30, 47):
            zoomed = [
                scipy.ndimage.zoom(unit, m / n, order=3, mode=mode, grid_mode=not align)
                for unit in np.eye(n)
            ]
            mine = axis_map(described(n, m, "spline3", align)).dense()
            np.testing.assert_allclose(mine, np.stack(zoomed).T, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("order", [2, 4, 5])
@pytest.mark.parametrize(("align", "mode"), [(True, "mirror"), (False, "reflect")])
def test_splines_of_other_orders_match_scipy(order: int, align: bool, mode: str) -> None:
    # SciPy's filter for "reflect" omits the reflection at the other end: 0.44 ** n.
    for n, m in ((47, 30), (50, 93)):
        zoomed = [
            scipy.ndimage.zoom(unit, m / n, order=order, mode=mode, grid_mode=not align)
            for unit in np.eye(n)
        ]
        mine = axis_map(described(n, m, f"spline{order}", align)).dense()
        np.testing.assert_allclose(mine, np.stack(zoomed).T, rtol=0, atol=4 * ROUNDING)


@pytest.mark.parametrize("extended", ["mirror", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 63])
def test_prefilters_match_their_dense_matrices(extended: str, n: int) -> None:
    for order in (2, 3, 4, 5, 6, 7):
        prefilter = Prefilter(order, n, extended)
        for filter_ in (prefilter, prefilter.transpose()):
            result = np.eye(n)
            filter_axis(result, 0, order, extended, filter_.adjoint, 1)
            # The gain of the order 7 is above 100.
            np.testing.assert_allclose(result, filter_.dense(), rtol=0, atol=16 * ROUNDING)
        np.testing.assert_array_equal(prefilter.transpose().dense(), prefilter.dense().T)


def kernel(method: str, s: float) -> float:
    """The kernels, written out again."""
    s = abs(s)
    if method == "gaussian":
        return math.exp(-2 * s * s) if s < 2 else 0
    if method == "mitchell":
        if s < 1:
            return (7 * s**3 - 12 * s**2 + 16 / 3) / 6
        return (-7 / 3 * s**3 + 12 * s**2 - 20 * s + 32 / 3) / 6 if s < 2 else 0
    if method == "catmull-rom":
        return np.polyval([1.5, -2.5, 0, 1] if s < 1 else [-0.5, 2.5, -4, 2], s) if s < 2 else 0
    if s == 0:
        return 1
    x, a = math.pi * s, int(method[-1])
    return a * math.sin(x) * math.sin(x / a) / x**2 if s < a else 0


@pytest.mark.parametrize(
    "method", ["mitchell", "catmull-rom", "lanczos2", "lanczos3", "lanczos4", "gaussian"]
)
@pytest.mark.parametrize("align", [False, True])
def test_other_matrices_match_their_formulas(method: str, align: bool) -> None:
    for n, m in ((1, 3), (2, 7), (5, 3), (7, 16), (16, 5)):
        mine = axis_map(described(n, m, method, align)).dense()
        for i in range(m):
            position = i * (n - 1) / max(m - 1, 1) if align else (i + 0.5) * n / m - 0.5
            row = np.zeros(n)
            for tap in range(math.floor(position) - 3, math.floor(position) + 5):
                row[min(max(tap, 0), n - 1)] += kernel(method, tap - position)
            np.testing.assert_allclose(mine[i], row / row.sum(), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("method", ["mitchell", "catmull-rom", "lanczos4", "gaussian"])
def test_other_antialiased_matrices_match_their_formulas(method: str) -> None:
    for n, m in ((16, 5), (9, 4), (5, 9)):
        mine, step = axis_map(described(n, m, method, antialias=True)).dense(), n / m
        stretch = max(step, 1)
        for i in range(m):
            centre = (i + 0.5) * step - 0.5
            row = np.array([kernel(method, (j - centre) / stretch) for j in range(n)])
            np.testing.assert_allclose(mine[i], row / row.sum(), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("method", ["spline2", "spline3", "spline5"])
def test_antialiased_splines_stretch_the_cardinal_spline(method: str) -> None:
    n, m = 120, 40
    spline = axis_map(described(m, 6 * m, method)).dense()  # sampled 6 times as densely
    cardinal = spline[:, m // 2]
    mine = axis_map(described(n, m, method, antialias=True)).dense()[m // 2]
    # Output m/2 lies at 3 (m/2 + 1/2) - 1/2 = 61 in pixels; a pixel is a third of a step.
    centre = 6 * (m // 2) + 2.5
    offsets = (np.arange(n) - 61) * 2 + centre
    expected = np.interp(offsets, np.arange(6 * m), cardinal)
    # Linear interpolation half-way between samples 1/6 apart: the second derivative is below 6.
    np.testing.assert_allclose(mine * 3, expected, rtol=0, atol=6 / 8 / 36)


def test_custom_tables_are_stretched_like_their_formulas() -> None:
    own = Method("own-catmull-rom", keys_cubic(-0.5), first=-1)
    for n, m in ((16, 5), (9, 4), (5, 9), (7, 7)):
        for smooth in (False, True):
            mine = axis_map(described(n, m, own, antialias=smooth)).dense()
            named = axis_map(described(n, m, "catmull-rom", antialias=smooth)).dense()
            np.testing.assert_allclose(mine, named, rtol=0, atol=ROUNDING)


@pytest.mark.covering
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
def test_every_matrix_keeps_a_constant_and_has_its_transpose(method: str, smooth: bool) -> None:
    for n, m in PAIRS[[*METHODS].index(method) % 3 :: 3]:
        for align in (False, True)[: 1 + aligns(find_method(method, resizing=True))]:
            axis = described(n, m, method, align, smooth)
            mine = axis_map(axis)
            matrix = mine.dense()
            assert matrix.shape == (m, n)
            np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=ROUNDING)
            back = axis_map(axis, transposed=True)
            np.testing.assert_allclose(back.dense(), matrix.T, rtol=0, atol=ROUNDING)
            assert (np.diff(mine.band.first) >= 0).all()
            assert (np.diff(back.band.first) >= 0).all()


def test_area_matrices_average() -> None:
    np.testing.assert_array_equal(
        axis_map(described(3, 2, "area")).dense(), [[0.5, 0.5, 0], [0, 0.5, 0.5]]
    )


def test_same_size_is_the_identity_without_neighbours() -> None:
    for method in ("nearest", "linear", "cubic", "area", "lanczos3"):
        band = axis_map(described(9, 9, method)).band
        assert band.is_identity
        assert band.taps == 1
    assert not axis_map(described(9, 9, "mitchell")).band.is_identity


def test_bands_match_their_dense_matrices() -> None:
    band = Band(3, np.array([0, 2]), np.array([2, 1]), np.array([[1.0, 2.0], [3.0, 0.0]]))
    np.testing.assert_array_equal(band.dense(), [[1, 2, 0], [0, 0, 3]])
    gap = axis_map(described(9, 2, "nearest"), transposed=True).band
    np.testing.assert_array_equal(gap.count, [1, 0, 0, 0, 1, 0, 0, 0, 0])


@pytest.mark.covering
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(("n", "m"), [(200, 77), (90, 200)])
def test_windows_are_slices_of_the_matrix(method: str, smooth: bool, n: int, m: int) -> None:
    axis = described(n, m, method, antialias=smooth)
    full = axis_map(axis).dense()
    for rows in (slice(0, 10), slice(33, 34), slice(40, 77), slice(0, m)):
        part = window(axis, rows)
        dense = np.zeros((rows.stop - rows.start, n))
        dense[:, part.inputs] = part.map.dense()[part.keep]
        np.testing.assert_allclose(dense, full[rows], rtol=0, atol=ROUNDING)
