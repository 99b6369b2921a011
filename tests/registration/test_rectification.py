"""The losses of rectification grids: their values, gradients, missing points and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gridsample
from gridsample.registration import (
    grid_distance,
    grid_distance_vjp,
    rectified_distance,
    rectified_distance_vjp,
)

RNG = np.random.default_rng(0)
GRID, TARGET = RNG.uniform(-1, 1, (2, 2, 5, 7, 2))
IMAGE = RNG.normal(size=(2, 3, 9, 11))


@pytest.mark.parametrize("align_corners", [False, True])
def test_distances_are_in_pixels(align_corners: bool) -> None:
    positions = [
        gridsample.fields.to_pixel(array, (9, 11), align_corners) for array in (GRID, TARGET)
    ]
    expected = ((positions[0] - positions[1]) ** 2).sum(-1).mean()
    result = grid_distance(GRID, TARGET, (9, 11), align_corners)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    np.testing.assert_allclose(grid_distance(*positions, coords="pixel"), expected, rtol=1e-12)
    missing = GRID.copy()
    missing[1, 2, 3, 0] = np.nan
    valid = np.isfinite(missing).all(-1)
    expected = ((positions[0] - positions[1]) ** 2).sum(-1)[valid].mean()
    result = grid_distance(missing, TARGET, (9, 11), align_corners)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_the_gradient_of_the_distance() -> None:
    target = torch.from_numpy(TARGET)
    for items in (1, 2):
        grid = torch.from_numpy(GRID[:items].copy()).requires_grad_()
        assert torch.autograd.gradcheck(lambda points: grid_distance(points, target, (9, 11)), grid)
        grid_distance(grid, target, (9, 11)).backward(torch.tensor(3.0))
        result = grid_distance_vjp(3.0, GRID[:items], TARGET, (9, 11))
        np.testing.assert_allclose(result, grid.grad, rtol=1e-12, atol=1e-14)


def test_the_distance_of_images() -> None:
    samples = [gridsample.grid_sample(IMAGE, array) for array in (GRID, TARGET)]
    expected = ((samples[0] - samples[1]) ** 2).mean()
    np.testing.assert_allclose(rectified_distance(IMAGE, GRID, TARGET), expected, rtol=1e-12)
    missing = GRID.copy()
    missing[1, 2, 3, 0] = np.nan
    valid = np.isfinite(missing).all(-1)[:, None].repeat(3, 1)
    expected = ((samples[0] - samples[1]) ** 2)[valid].mean()
    np.testing.assert_allclose(rectified_distance(IMAGE, missing, TARGET), expected, rtol=1e-12)
    result = rectified_distance_vjp(1.0, IMAGE, missing, TARGET)
    assert np.isfinite(result).all()
    assert not result[1, 2, 3].any()


def test_the_gradient_of_the_distance_of_images() -> None:
    image, target = torch.from_numpy(IMAGE), torch.from_numpy(TARGET)
    grid = torch.from_numpy(GRID).requires_grad_()
    options = {"mode": "bicubic", "padding_mode": "border"}
    assert torch.autograd.gradcheck(
        lambda points: rectified_distance(image, points, target, **options), grid
    )
    rectified_distance(image, grid, target, **options).backward(torch.tensor(2.0))
    result = rectified_distance_vjp(2.0, IMAGE, GRID, TARGET, **options)
    np.testing.assert_allclose(result, grid.grad, rtol=1e-10, atol=1e-12)


def test_float32_and_volumes() -> None:
    grid = RNG.uniform(-1, 1, (1, 3, 4, 5, 3)).astype(np.float32)
    result = grid_distance(grid, grid + np.float32(0.5), (8, 8, 8))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, 3 * 4.0, rtol=1e-5)
    assert rectified_distance(np.ones((1, 1, 4, 4, 4), np.float32), grid, grid) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grid_distance(GRID, TARGET), "size is missing"),
        (lambda: grid_distance(GRID, TARGET[:, 1:], (9, 11)), "same shape"),
        (lambda: grid_distance(GRID, TARGET, (9,)), "size must have 2 entries"),
        (lambda: grid_distance(GRID, TARGET, (9, 9), coords="mm"), "coords.*normalized"),
        (lambda: rectified_distance(IMAGE, GRID, TARGET[:, 1:]), "same number of points"),
    ],
)
def test_invalid_cameras_are_rejected(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
