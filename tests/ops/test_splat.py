"""Splatting and derivatives along coordinates, in addition to test_options.py."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
from oracles import assert_close, finite_difference

import gridsample
from gridsample.kernels import reference

BOUNDARIES = tuple(reference.BOUNDARIES)


# The transpose ------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize(
    "more",
    [{}, {"extrapolate": False}, {"prefilter": False}, {"coords": "pixel"}],
    ids=lambda more: next(iter(more), "plain"),
)
@pytest.mark.parametrize(("items", "grid_items"), [(2, 2), (2, 1)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline3", "lanczos2"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_splat_is_the_transpose_of_grid_sample(
    rank: int, boundary: str, mode: str, items: int, grid_items: int, more: dict[str, Any]
) -> None:
    rng = cases.generator("transpose", rank, boundary, mode)
    spatial = (3, 4, 5)[:rank]
    image, grid = (
        cases.pixels(rng, (items, 2, *spatial)),
        rng.uniform(-2, 2, (grid_items, 20, rank)),
    )
    values = cases.pixels(rng, (items, 2, 20))
    sampled = gridsample.grid_sample(image, grid, mode, boundary, **more)
    pushed = gridsample.splat(values, grid, spatial, mode, boundary, **more)
    terms = np.abs(sampled * values).sum() + 1
    assert abs(np.sum(sampled * values) - np.sum(image * pushed)) < 1e-12 * terms


def test_one_item_of_values_is_broadcast_to_every_grid() -> None:
    rng = cases.generator("items")
    values, grid = cases.pixels(rng, (1, 2, 9)), rng.uniform(-1, 1, (3, 9, 2))
    result = gridsample.splat(values, grid, (4, 5))
    expected = gridsample.splat(np.repeat(values, 3, axis=0), grid, (4, 5))
    np.testing.assert_array_equal(result, expected)


def test_displacement_fields_are_splatted_along_themselves() -> None:
    values, field = np.arange(1.0, 7.0).reshape(1, 1, 2, 3), np.zeros((1, 2, 3, 2))
    same = gridsample.splat(values, field, (2, 3), coords="displacement")
    np.testing.assert_array_equal(same, values)
    field[..., 0] = 1
    moved = gridsample.splat(values, field, (2, 3), coords="displacement")
    np.testing.assert_array_equal(moved, [[[[0, 1, 2], [0, 4, 5]]]])
    around = gridsample.splat(values, field, (2, 3), padding_mode="wrap", coords="displacement")
    np.testing.assert_array_equal(around, [[[[3, 1, 2], [6, 4, 5]]]])


@pytest.mark.parametrize("mode", ["linear", "cubic", "spline3"])
@pytest.mark.parametrize("channel_axis", [1, -1])
def test_counts_are_splats_of_ones_and_equal_values_are_kept(mode: str, channel_axis: int) -> None:
    rng = cases.generator("count", mode)
    grid = rng.uniform(-1.2, 0.2, (2, 11, 2))
    more: dict[str, Any] = {"mode": mode, "padding_mode": "zeros", "channel_axis": channel_axis}
    shape = (2, 11, 3) if channel_axis == -1 else (2, 3, 11)
    count = gridsample.splat_count(grid, (6, 7), **more)
    assert count.shape == ((2, 6, 7, 1) if channel_axis == -1 else (2, 1, 6, 7))
    summed = gridsample.splat(np.ones(shape), grid, (6, 7), **more)
    assert_close(summed, np.broadcast_to(count, summed.shape))
    result = gridsample.splat(np.full(shape, 2.5), grid, (6, 7), **more, normalize=True)
    expected = np.broadcast_to(np.where(count == 0, 0.0, 2.5), result.shape)
    # Where weights cancel, the count is only as exact as the weights that it sums.
    certain = np.broadcast_to((np.abs(count) > 1e-3) | (count == 0), result.shape)
    assert_close(result[certain], expected[certain], 1e-11)
    assert mode == "spline3" or (count == 0).any()


@pytest.mark.parametrize("channels", [2, 9])
def test_channels_may_come_last(channels: int) -> None:
    rng = cases.generator("last", channels)
    values, grid = cases.pixels(rng, (2, 4, 5, channels)), rng.uniform(-1.5, 1.5, (2, 4, 5, 2))
    options: dict[str, Any] = {"mode": "spline2", "padding_mode": "wrap"}
    result = gridsample.splat(values, grid, (6, 7), channel_axis=-1, **options)
    expected = gridsample.splat(np.moveaxis(values, -1, 1), grid, (6, 7), **options)
    assert_close(np.moveaxis(result, -1, 1), expected)
    assert result.flags.c_contiguous


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("uint8", "float32"),
        ("int64", "float64"),
        ("float16", "float16"),
        ("complex64", "complex64"),
    ],
)
def test_dtypes_of_sums(dtype: str, expected: str) -> None:
    values, grid = np.full((1, 1, 3), 100, dtype), np.zeros((1, 3, 1), np.float32)
    result = gridsample.splat(values, grid, 3, "nearest", normalize=False)
    assert result.dtype == expected
    assert result.tolist() == [[[0, 300, 0]]]


def test_invalid_points_and_empty_arrays() -> None:
    grid = np.array([[[np.nan], [0.0]]])
    assert gridsample.splat(np.array([[[np.nan, 1.0]]]), grid, 3).tolist() == [[[0, 1, 0]]]
    assert gridsample.splat_count(grid, 3).tolist() == [[[0, 1, 0]]]
    assert not gridsample.splat(np.ones((1, 2, 0)), np.ones((1, 0, 1)), 3).any()
    assert gridsample.splat(np.ones((0, 2, 4)), np.ones((1, 4, 1)), 3).shape == (0, 2, 3)
    assert gridsample.splat_count(np.ones((0, 4, 1)), 3).shape == (0, 1, 3)


def test_results_do_not_depend_on_threads() -> None:
    rng = cases.generator("threads")
    values, grid = cases.pixels(rng, (1, 1, 5000)), rng.uniform(-1, 1, (1, 5000, 2))
    serial, four = (gridsample.splat(values, grid, (20, 30), "cubic", threads=n) for n in (1, 4))
    np.testing.assert_array_equal(serial, four)


VALUES, GRID = np.ones((2, 3, 4)), np.zeros((2, 4, 2))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"size": 5}, ValueError, ["grid", "(N, *out, 1)", "(2, 4, 2)"]),
        ({"size": (2,) * 9}, ValueError, ["size", "1 to 8", "(2, 2, 2, 2, 2, 2, 2, 2, 2)"]),
        ({"size": ()}, ValueError, ["size", "()"]),
        ({"size": (5, 0)}, ValueError, ["size", "positive", "(5, 0)"]),
        ({"size": (5, 6.0)}, TypeError, ["size", "(5, 6.0)"]),
        ({"size": (True, 5)}, TypeError, ["size", "True"]),
        ({"size": None}, TypeError, ["size", "None"]),
        ({"values": np.ones((2, 3, 5))}, ValueError, ["values", "(2, 3, 5)", "(2, 4, 2)"]),
        ({"values": np.ones(4)}, ValueError, ["values", "(N, C, *out)", "(4,)"]),
        ({"values": np.ones((3, 3, 4))}, ValueError, ["values", "N = 3", "N = 2"]),
        ({"values": np.full((2, 3, 4), "a")}, TypeError, ["values", "<U1", "float32"]),
        ({"grid": GRID.astype(int)}, TypeError, ["grid", "int64"]),
        ({"mode": "bilinaer"}, ValueError, ["did you mean 'bilinear'"]),
        ({"channel_axis": 0}, ValueError, ["channel_axis", "0"]),
        ({"coords": "px"}, ValueError, ["coords 'px'"]),
        ({"threads": 0}, ValueError, ["threads", "0"]),
        ({"normalize": 2}, TypeError, ["normalize", "2"]),
        ({"prefilter": "no"}, TypeError, ["prefilter", "'no'"]),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
def test_invalid_input_is_rejected(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    arguments: dict[str, Any] = {"values": VALUES, "grid": GRID, "size": (5, 6), **changes}
    calls = [lambda: gridsample.splat(**arguments)]
    if not {"values", "normalize"} & set(changes):
        counted = {name: value for name, value in arguments.items() if name != "values"}
        calls.append(lambda: gridsample.splat_count(**counted))
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value)


# Derivatives along coordinates --------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["cubic", "spline4"])
def test_gradient_and_hessian_are_differences(mode: str, rank: int) -> None:
    rng = cases.generator("differences", mode, rank)
    spatial = (4, 5, 6)[:rank]
    image, grid = cases.pixels(rng, (1, 2, *spatial)), rng.uniform(-1.5, 1.5, (1, 3, rank))
    options = {"mode": mode, "padding_mode": "mirror"}

    def at_its_own_point(jacobian: np.ndarray) -> np.ndarray:
        """The derivative of every entry along its own point's coordinates."""
        return np.stack([jacobian[0, :, p, ..., 0, p, :] for p in range(3)], axis=1)[np.newaxis]

    slope = gridsample.grid_gradient(image, grid, **options)
    assert slope.shape == (1, 2, 3, rank)
    difference = finite_difference(lambda at: gridsample.grid_sample(image, at, **options), grid)
    assert_close(slope, at_its_own_point(difference), 1e-7)
    # Of the cubic, second derivatives jump at pixels, which random points are not near.
    curve = gridsample.grid_hessian(image, grid, **options)
    assert curve.shape == (1, 2, 3, rank, rank)
    np.testing.assert_array_equal(curve, np.swapaxes(curve, -1, -2))
    difference = finite_difference(lambda at: gridsample.grid_gradient(image, at, **options), grid)
    assert_close(curve, at_its_own_point(difference), 1e-7)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_hessians_match_the_reference(boundary: str) -> None:
    rng = cases.generator("hessian", boundary)
    image, grid = cases.pixels(rng, (2, 2, 4, 5)), rng.uniform(-2, 2, (2, 6, 2))
    names = ("cubic", "mitchell"), (boundary,) * 2, False
    fill = {"fill_value": 2.5} if boundary == "constant" else {}
    result = gridsample.grid_hessian(image, grid, *names, **fill)
    for j, k in itertools.product(range(2), repeat=2):
        order = (2 - j - k, j + k)
        fills = fill.get("fill_value", 0)
        assert_close(result[..., j, k], reference.gather(image, grid, *names, order, fill=fills))


@pytest.mark.parametrize("channels", [2, 9])
def test_axes_come_after_the_channels(channels: int) -> None:
    rng = cases.generator("axes", channels)
    image, grid = cases.pixels(rng, (2, 5, 6, channels)), rng.uniform(-1, 1, (2, 3, 4, 2))
    planes = np.moveaxis(image, -1, 1)
    for function in (gridsample.grid_gradient, gridsample.grid_hessian):
        result = function(image, grid, "cubic", channel_axis=-1)
        assert_close(np.moveaxis(result, 3, 1), function(planes, grid, "cubic"))


@pytest.mark.slow
def test_derivatives_of_integers_are_floats() -> None:
    image = np.array([[[0, 3]]], np.uint8)
    for grid_type, expected in (("float32", "float32"), ("float64", "float64")):
        slope = gridsample.grid_gradient(image, np.array([[[0.5]]], grid_type), coords="pixel")
        assert slope.item() == 3
        assert slope.dtype == expected


def test_derivatives_are_zero_where_none_exists() -> None:
    image, grid = np.ones((1, 1, 5)) * np.arange(5), np.array([[[np.nan], [9.0], [2.5]]])
    options = {"padding_mode": "border", "coords": "pixel", "extrapolate": False, "fill_value": 7}
    assert gridsample.grid_gradient(image, grid, **options).ravel().tolist() == [0, 0, 1]
    assert not gridsample.grid_gradient(image, grid, "nearest", coords="pixel").any()
    assert gridsample.grid_hessian(image[:0], grid, "cubic").shape == (0, 1, 3, 1, 1)
