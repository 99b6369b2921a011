"""The prefilter: its coefficients for every order, boundary, shape and type."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import oracles
import pytest
import scipy.ndimage

import gridsample
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.splines import at_pixels, bspline_table, poles, reach
from gridsample.kernels import reference
from gridsample.kernels.reference import splines

ORDERS = (2, 3, 4, 5, 6, 7)
NAMES = tuple(name for name in BOUNDARIES if name != "reflection")  # it is one of two others
EPS = np.finfo(float).eps


def sampled_at_pixels(line: np.ndarray, order: int, boundary: str) -> np.ndarray:
    """The spline with these coefficients at its pixels, (item, entry), by the reference."""
    n = line.shape[-1]
    grid = np.arange(float(n)).reshape(1, n, 1)
    options = ((f"spline{order}",), (boundary,), False)
    return reference.gather(line[:, np.newaxis], grid, *options, coords="pixel")[:, 0]


@pytest.mark.covering
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 30, 63])
@pytest.mark.parametrize("boundary", NAMES)
@pytest.mark.parametrize("order", ORDERS)
def test_splines_interpolate_pixels(order: int, boundary: str, n: int) -> None:
    line = cases.pixels(cases.generator(order, boundary, n), (2, n))
    result = gridsample.spline_filter(line, order, boundary, axes=1)
    again = sampled_at_pixels(result, order, boundary)
    # Coefficients are larger than the pixels, and the rounding with them.
    assert np.abs(again - line).max() <= 1e-14 * np.abs(result).max()
    assert np.abs(again - line).max() <= 1e-12 * np.abs(line).max()


@pytest.mark.covering
@pytest.mark.parametrize("boundary", NAMES)
@pytest.mark.parametrize("order", ORDERS)
def test_solves_the_dense_system(order: int, boundary: str) -> None:
    """The filter and its adjoint, along neighbours in memory and across lines."""
    # Every length with each order and each boundary, but not with each pair of them.
    index = order + NAMES.index(boundary)
    for n in (n for n in range(1, 41) if n < 4 or (n + index) % 3 == 0):
        image = cases.pixels(cases.generator(order, boundary, n), (n, 17))
        matrix, _ = splines.at_pixels((n,), (f"spline{order}",), (boundary,), False)
        for adjoint in (False, True):
            expected = np.linalg.solve(matrix.T if adjoint else matrix, image)
            across = gridsample.spline_filter(image, order, boundary, 0, adjoint=adjoint)
            along = gridsample.spline_filter(image.T, order, boundary, 1, adjoint=adjoint)
            slack = 1e-13 * np.abs(expected).max()
            np.testing.assert_allclose(across, expected, rtol=0, atol=slack)
            np.testing.assert_allclose(along.T, expected, rtol=0, atol=slack)


@pytest.mark.parametrize("boundary", ["zeros", "border", "antimirror"])
@pytest.mark.parametrize("order", ORDERS)
def test_long_lines_are_corrected_as_short_ones(order: int, boundary: str) -> None:
    """Beyond some length, the correction of one end is that of a shorter line."""
    least = 2 * reach(order, np.dtype(float))
    for n in (least - 1, least, least + 1, 300):
        line = cases.pixels(cases.generator(order, boundary, n), (1, n))
        result = gridsample.spline_filter(line, order, boundary, 1)
        again = at_pixels(order, n, boundary) @ result[0]
        np.testing.assert_allclose(again, line[0], rtol=0, atol=1e-13 * np.abs(result).max())


@pytest.mark.parametrize("aligned", [False, True])
def test_reflection_goes_by_the_alignment(aligned: bool) -> None:
    image = cases.pixels(cases.generator("reflection"), (1, 1, 5, 7))
    result = gridsample.spline_filter(image, 3, "reflection", align_corners=aligned)
    same = gridsample.spline_filter(image, 3, "mirror" if aligned else "symmetric")
    np.testing.assert_array_equal(result, same)
    grid = cases.identity((5, 7), aligned)
    options = (("spline3",) * 2, ("reflection",) * 2, aligned)
    np.testing.assert_allclose(reference.gather(result, grid, *options), image, atol=1e-13)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (63,), (5, 40), (4, 1, 9), (3, 2, 17)])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(("boundary", "mode"), [("mirror", "mirror"), ("wrap", "grid-wrap")])
def test_equals_scipy(order: int, boundary: str, mode: str, shape: tuple[int, ...]) -> None:
    image = cases.pixels(cases.generator(order, mode, shape), shape)
    expected = scipy.ndimage.spline_filter(image, order, mode=mode) if order > 1 else image
    result = gridsample.spline_filter(image, order, boundary, range(len(shape)))
    np.testing.assert_allclose(result, expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_equals_scipy_where_its_sum_is_exact(order: int) -> None:
    # Its first entry under "reflect" has one wrong term, of the size of z^(2 n - 1).
    image = cases.pixels(cases.generator(order), (40, 50))
    expected = scipy.ndimage.spline_filter(image, order, mode="reflect")
    result = gridsample.spline_filter(image, order, "symmetric", (0, 1))
    np.testing.assert_allclose(result, expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("boundary", NAMES)
@pytest.mark.parametrize("order", ORDERS)
def test_adjoint_matches_the_transpose(order: int, boundary: str) -> None:
    for n in (1, 2, 3, 7, 40):
        rng = cases.generator(order, boundary, n)
        x, y = cases.pixels(rng, (n, 3)), cases.pixels(rng, (n, 3))
        ahead = gridsample.spline_filter(x, order, boundary, 0)
        back = gridsample.spline_filter(y, order, boundary, 0, adjoint=True)
        left, right = np.vdot(ahead, y), np.vdot(x, back)
        assert abs(left - right) <= 64 * EPS * (np.abs(ahead * y).sum() + np.abs(x * back).sum())


@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (2, 33, 1, 4), (2, 3, 129), (1, 70, 300)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis_of_every_shape(shape: tuple[int, ...], axis: int) -> None:
    # Few neighbours, many, and more than fill a block.
    image = cases.pixels(cases.generator(shape, axis), shape)
    result = gridsample.spline_filter(image, 5, "mirror", axis)
    lines = np.moveaxis(image, axis, -1)
    expected = gridsample.spline_filter(lines, 5, "mirror", -1)
    again = np.moveaxis(result, axis, -1)
    # By doubling, and row by row: sums in another order.
    np.testing.assert_allclose(again, expected, atol=64 * EPS * np.abs(result).max())


def test_axes_and_boundaries_of_each() -> None:
    image = cases.pixels(cases.generator("axes"), (2, 3, 9, 11))
    alone = gridsample.spline_filter(image, 3, "wrap", 3)
    both = gridsample.spline_filter(alone, 3, "mirror", -2)
    together = gridsample.spline_filter(image, 3, ("mirror", "wrap"), (-2, -1))
    np.testing.assert_allclose(both, together, atol=64 * EPS * np.abs(both).max())
    spatial = gridsample.spline_filter(image, 3, ("mirror", "wrap"))
    np.testing.assert_array_equal(spatial, together)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_coefficients_have_the_dtype_of_sums(dtype: str) -> None:
    image = cases.pixels(cases.generator(dtype), (1, 1, 12, 9), dtype)
    result = gridsample.spline_filter(image, 3, "symmetric")
    wide = dtype in ("float64", "complex128", "int32", "int64", "uint32", "uint64")
    parts = "complex" if dtype.startswith("complex") else "float"
    assert result.dtype == f"{parts}{(128 if wide else 64) // (1 if parts == 'complex' else 2)}"
    exact = complex if parts == "complex" else float
    expected = gridsample.spline_filter(image.astype(exact), 3, "symmetric")
    # Two passes with a gain of 6 each, whose rounding the recursions carry along.
    eps = np.finfo(result.dtype).eps
    np.testing.assert_allclose(result, expected, atol=64 * eps * np.abs(expected).max())


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_pixels_may_have_any_layout(layout: str) -> None:
    image = cases.pixels(cases.generator("layouts"), (1, 2, 6, 8))
    stored = cases.LAYOUTS[layout](image)
    with oracles.unchanged(stored):
        result = gridsample.spline_filter(stored, 3, "mirror")
    expected = gridsample.spline_filter(np.array(stored, float), 3, "mirror")
    np.testing.assert_array_equal(result, expected)


def test_threads_do_not_change_the_result() -> None:
    image = cases.pixels(cases.generator("threads"), (3, 4, 130, 170))
    serial = gridsample.spline_filter(image, 4, "wrap", threads=1)
    for threads in (2, 3):
        np.testing.assert_array_equal(
            gridsample.spline_filter(image, 4, "wrap", threads=threads), serial
        )


def test_orders_that_need_no_filter_give_a_copy() -> None:
    image = cases.pixels(cases.generator("copy"), (1, 1, 4, 4))
    for order in (0, 1):
        result = gridsample.spline_filter(image, order)
        np.testing.assert_array_equal(result, image)
        assert not np.shares_memory(result, image)


@pytest.mark.parametrize("shape", [(0, 1, 4, 4), (1, 1, 0, 4), (1, 1, 4, 0)])
def test_empty_arrays_give_empty_results(shape: tuple[int, ...]) -> None:
    assert gridsample.spline_filter(np.zeros(shape)).shape == shape


def test_a_constant_stays_constant() -> None:
    for order, boundary in itertools.product(ORDERS, ("mirror", "symmetric", "wrap")):
        result = gridsample.spline_filter(np.full((7, 9), 3.0), order, boundary, (0, 1))
        np.testing.assert_allclose(result, 3, rtol=256 * EPS)


@pytest.mark.parametrize("order", ORDERS)
def test_poles_are_roots(order: int) -> None:
    values = [float(row[0]) for row in bspline_table(order)]
    for z in poles(order):
        assert -1 < z < 0
        assert abs(np.polyval(values, z)) <= 8 * EPS * max(values)
    assert len(poles(order)) == order // 2


BAD: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"order": 8}, ValueError, ["order", "0 to 7", "8"]),
    ({"order": -1}, ValueError, ["order", "-1"]),
    ({"order": 2.5}, TypeError, ["order", "2.5"]),
    ({"order": True}, TypeError, ["order", "True"]),
    ({"boundary": "reflect"}, ValueError, ["boundary", "ambiguous", "'symmetric'"]),
    ({"boundary": "miror"}, ValueError, ["boundary 'miror'", "did you mean 'mirror'"]),
    ({"boundary": ("mirror",)}, ValueError, ["boundary", "axes (2, 3)", "1"]),
    ({"boundary": 3}, TypeError, ["boundary", "3"]),
    ({"axes": 4}, ValueError, ["axes", "-4 to 3", "4"]),
    ({"axes": (0, -4)}, ValueError, ["axes", "different", "(0, -4)"]),
    ({"axes": "x"}, TypeError, ["axes", "'x'"]),
    ({"align_corners": "no", "boundary": "reflection"}, TypeError, ["align_corners", "'no'"]),
    ({"adjoint": 1}, TypeError, ["adjoint", "1"]),
    ({"threads": 0}, ValueError, ["threads", "0"]),
    ({"input": np.zeros((2, 2), object)}, TypeError, ["input", "object"]),
    ({"input": np.ma.masked_array(np.zeros((1, 1, 2, 2)))}, TypeError, ["input", "mask"]),
]


@pytest.mark.parametrize(("changes", "error", "words"), BAD)
def test_invalid_arguments_are_rejected(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        gridsample.spline_filter(**{"input": np.zeros((1, 1, 4, 4)), **changes})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
