"""Splines under "constant": the fill value's part of the coefficients."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch
from oracles import assert_close

import gridsample
from gridsample import grid_sample, grid_sample_vjp
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels.reference import splines

Array = np.ndarray[Any, Any]


def at_pixels(image: Array, mode: Any, boundary: Any, **more: Any) -> Array:
    """An image, sampled at the centres of its own pixels."""
    zeros = np.zeros((1, *image.shape[2:], image.ndim - 2))
    result: Array = grid_sample(image, zeros, mode, boundary, coords="displacement", **more)
    return result


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("other", [name for name in BOUNDARIES if name != "zeros"])
@pytest.mark.parametrize("mode", ["spline3", ("spline6", "linear"), ("linear", "spline5")], ids=str)
@pytest.mark.parametrize("first", [True, False])
def test_splines_with_fill_values_solve_the_dense_system(
    other: str, dtype: str, mode: Any, first: bool
) -> None:
    """The other axis has every boundary, and also methods without a prefilter."""
    rng = cases.generator("fill", other, dtype)
    image = cases.pixels(rng, (2, 2, 4, 5), dtype)
    fill = (0.5, -3.0) if dtype == "float64" else (0.5 - 1j, 2j)
    points = rng.uniform(-2, 6, (1, 30, 2))
    boundary = ("constant", other) if first else (other, "constant")
    modes = (mode, mode) if mode == "spline3" else mode
    assert_close(at_pixels(image, mode, boundary, fill_value=fill), image)
    exact = splines.coefficients(image, modes, boundary, False, fill=fill)
    more = {"coords": "pixel", "fill_value": fill}
    expected = grid_sample(exact, points, mode, boundary, prefilter=False, **more)
    result = grid_sample(image, points, mode, boundary, **more)
    assert_close(result, expected)
    tensors = torch.from_numpy(image), torch.from_numpy(points)
    assert_close(grid_sample(*tensors, mode, boundary, **more).numpy(), result)


def test_affine_maps_and_gradients_use_fill_coefficients() -> None:
    rng = cases.generator("fill's coefficients")
    image, values = cases.pixels(rng, (1, 2, 5, 7)), cases.pixels(rng, (1, 2, 5, 7))
    options: dict[str, Any] = {
        "mode": "spline5",
        "padding_mode": "constant",
        "fill_value": (1.5, 9.0),
    }
    theta = np.eye(2, 3)[np.newaxis]
    assert_close(gridsample.affine_sample(image, theta, image.shape, **options), image)
    # The gradient by the image does not depend on the fill; that by the grid is the difference
    # of samples of the image, which the fill's coefficients are a part of.
    grid = rng.uniform(-0.9, 0.9, (1, 5, 7, 2))
    by_image, by_grid = grid_sample_vjp(values, image, grid, **options)
    options["fill_value"] = 0
    assert_close(grid_sample_vjp(values, image, grid, **options)[0], by_image)
    options["fill_value"] = (1.5, 9.0)
    for k in (0, 1):
        step = np.zeros(2)
        step[k] = 1e-5
        ends = (grid_sample(image, grid + s, **options) for s in (step, -step))
        slope = (values * np.subtract(*ends)).sum(axis=1) / 2e-5
        assert_close(by_grid[..., k], slope, 1e-6, 100.0)


@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e20])
def test_huge_fill_values_affect_only_the_edges(fill: float) -> None:
    image = cases.pixels(cases.generator("measure"), (1, 1, 200))
    grid = np.arange(200.0).reshape(1, 200, 1)
    for arrays in ((image, grid), (torch.from_numpy(image), torch.from_numpy(grid))):
        options = {"padding_mode": "constant", "coords": "pixel", "fill_value": fill}
        result = np.asarray(grid_sample(*arrays, "spline3", **options))
        assert_close(result[..., 60:-60], image[..., 60:-60])
