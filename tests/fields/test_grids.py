"""Grids: against torch, and as coordinates of `grid_sample`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gridsample
from gridsample.definitions.coords import coordinates

SIZES = [(2, 3, 5), (1, 1, 1), (2, 1, 4, 7), (1, 3, 1, 63), (2, 1, 3, 4, 5), (1, 1, 1, 7, 2)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
def test_affine_grid_matches_torch(size: tuple[int, ...], align: bool, dtype: str) -> None:
    rank = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((size[0], rank, rank + 1)).astype(dtype)
    grid = gridsample.affine_grid(theta, size, align)
    assert grid.dtype == dtype
    assert grid.shape == (size[0], *size[2:], rank)
    # Torch has no affine_grid in 1-D: every axis's coordinates, homogeneous, times theta.
    mesh = np.meshgrid(*(coordinates(n, align) for n in size[2:]), indexing="ij")[::-1]
    points = np.stack([*mesh, np.ones(size[2:])], -1)
    truth = np.einsum("nij,...j->n...i", theta.astype(float), points)
    scale = np.abs(truth).max()
    np.testing.assert_allclose(grid, truth, rtol=0, atol=8 * np.finfo(dtype).eps * scale)
    if rank > 1:
        theirs = torch.nn.functional.affine_grid(torch.from_numpy(theta), size, align_corners=align)
        np.testing.assert_allclose(grid, theirs, rtol=0, atol=8 * np.finfo(dtype).eps * scale)


@pytest.mark.covering
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("align", [False, True])
def test_the_identity_returns_the_image(size: tuple[int, ...], align: bool) -> None:
    image = np.random.default_rng(0).standard_normal(size)
    grid = gridsample.identity_grid(size, align, dtype="float64")
    for mode in ("nearest", "linear", "cubic"):
        out = gridsample.grid_sample(image, grid, mode, "border", align)
        np.testing.assert_allclose(out, image, rtol=0, atol=1e-13)


def test_identity_grid_is_a_broadcast_view() -> None:
    grid = gridsample.identity_grid((1000, 3, 64, 64))
    assert grid.shape == (1000, 64, 64, 2)
    assert grid.strides[0] == 0
    assert not grid.flags.writeable


def test_coordinates_are_symmetric_and_exact_at_the_ends() -> None:
    for n in (2, 3, 63, 64, 1000):
        for align in (False, True):
            along = coordinates(n, align)
            np.testing.assert_array_equal(along, -along[::-1])
        assert coordinates(n, True)[-1] == 1
    assert coordinates(1, True) == coordinates(1, False) == 0


def test_half_precision_affine_grids_are_rounded_once() -> None:
    theta = np.array([[[0.5, 0.25, 0.125], [0.0, 1.0, -0.5]]], np.float16)
    grid = gridsample.affine_grid(theta, (1, 1, 4, 5))
    exact = gridsample.affine_grid(theta.astype(np.float64), (1, 1, 4, 5))
    assert grid.dtype == np.float16
    np.testing.assert_array_equal(grid, exact.astype(np.float32).astype(np.float16))


def test_sizes_of_zero_make_empty_grids() -> None:
    assert gridsample.affine_grid(np.zeros((0, 2, 3)), (0, 3, 4, 5)).shape == (0, 4, 5, 2)
    assert gridsample.affine_grid(np.zeros((1, 2, 3)), (1, 3, 0, 5)).shape == (1, 0, 5, 2)
    assert gridsample.identity_grid((1, 3, 0)).shape == (1, 0, 1)


@pytest.mark.parametrize(
    ("theta", "size", "error", "words"),
    [
        (np.zeros((2, 3)), (1, 1, 4, 4), ValueError, ["theta", "(1, 2, 3)", "(2, 3)"]),
        (np.zeros((1, 2, 3)), (2, 1, 4, 4), ValueError, ["theta", "(2, 2, 3)"]),
        (np.zeros((1, 2, 3), int), (1, 1, 4, 4), TypeError, ["theta", "int64", "float32"]),
        (np.zeros((1, 2, 3)), (1, 1), ValueError, ["size", "3 to 10"]),
        (np.zeros((1, 2, 3)), (1, 1, -4, 4), ValueError, ["size", "negative"]),
        (np.zeros((1, 2, 3)), (1, 1, 4.5, 4), TypeError, ["size", "integers"]),
        (np.zeros((1, 2, 3)), 4, TypeError, ["size", "sequence"]),
    ],
)
def test_invalid_arguments_of_affine_grid_are_rejected(
    theta: np.ndarray, size: tuple[int, ...], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        gridsample.affine_grid(theta, size)
    for word in words:
        assert word in str(caught.value)


def test_invalid_arguments_of_identity_grid_are_rejected() -> None:
    with pytest.raises(TypeError, match="dtype must be float16, float32 or float64, got int32"):
        gridsample.identity_grid((1, 1, 4), dtype="int32")
    with pytest.raises(ValueError, match=r"\(N, C, \*out\), .* got 2: .*: \(1, 1, 48, 64\)$"):
        gridsample.identity_grid((48, 64))
