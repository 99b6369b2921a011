"""Lenses: against OpenCV over random cameras, and against the models' formulas."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

import gridsample
from gridsample import cameras

SIZE = (63, 90)


def rotation(rng: np.random.Generator, angle: float) -> np.ndarray:
    return np.asarray(cv2.Rodrigues(rng.uniform(-angle, angle, 3))[0])


def lens(rng: np.random.Generator) -> np.ndarray:
    height, width = SIZE
    focal = rng.uniform(0.6, 1.5) * width
    x, y = width / 2 + rng.uniform(-5, 5), height / 2 + rng.uniform(-5, 5)
    return np.array([[focal, 0, x], [0, focal * rng.uniform(0.9, 1.1), y], [0, 0, 1]])


def coefficients(rng: np.random.Generator, count: int) -> np.ndarray:
    scale = [0.2, 0.05, 0.01, 0.01, 0.02, 0.1, 0.02, 0.01, *[0.01] * 4, 0.05, 0.05]
    return rng.uniform(-1, 1, count) * scale[:count]


@pytest.mark.parametrize("count", [4, 5, 8, 12, 14])
def test_grids_match_opencv_maps(count: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        matrix, new = lens(rng), lens(rng)
        k, pose = coefficients(rng, count), rotation(rng, 0.2)
        x, y = cv2.initUndistortRectifyMap(matrix, k, pose, new, SIZE[::-1], cv2.CV_32FC1)
        grid = cameras.undistort_grid(SIZE, matrix, k, pose, new)
        assert grid.shape == (1, *SIZE, 2)
        np.testing.assert_allclose(grid[0], np.stack([x, y], -1), rtol=0, atol=1e-3)


def test_fisheye_grids_match_opencv_maps() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        matrix, new = lens(rng), lens(rng)
        k, pose = rng.uniform(-1, 1, 4) * [0.05, 0.02, 0.01, 0.002], rotation(rng, 0.2)
        x, y = cv2.fisheye.initUndistortRectifyMap(matrix, k, pose, new, SIZE[::-1], cv2.CV_32FC1)
        grid = cameras.undistort_grid(SIZE, matrix, k, pose, new, model="fisheye")
        np.testing.assert_allclose(grid[0], np.stack([x, y], -1), rtol=0, atol=1e-3)


@pytest.mark.parametrize("count", [0, 4, 5, 8, 12, 14])
def test_distorted_points_match_opencv(count: int) -> None:
    rng = np.random.default_rng(count)
    matrix, k = lens(rng), coefficients(rng, count)
    rays = rng.uniform(-0.5, 0.5, (50, 3)) + np.array([0, 0, 1.5])
    theirs = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix, k)[0][:, 0]
    np.testing.assert_allclose(cameras.distort_points(rays, k, matrix), theirs, atol=1e-9)
    plane = rays[:, :2] / rays[:, 2:]
    np.testing.assert_allclose(cameras.distort_points(plane, k, matrix), theirs, atol=1e-9)
    flipped = cameras.distort_points(rays * [1, -1, -1], k, matrix, axes="opengl")
    np.testing.assert_allclose(flipped, theirs, atol=1e-9)
    point = cameras.distort_points(plane[7], list(k), matrix.tolist())
    np.testing.assert_allclose(point, theirs[7], atol=1e-9)


def test_distorted_fisheye_points_match_opencv() -> None:
    rng = np.random.default_rng(0)
    matrix, k = lens(rng), np.array([0.03, -0.01, 0.002, -0.0003])
    plane = rng.uniform(-1, 1, (50, 2))
    theirs = cv2.fisheye.distortPoints(plane[:, None], matrix, k)[:, 0]
    result = cameras.distort_points(plane, k, matrix, model="fisheye")
    np.testing.assert_allclose(result, theirs, atol=1e-9)


def test_stereo_rectification_matches_opencv() -> None:
    rng = np.random.default_rng(1)
    lenses, ks = [lens(rng), lens(rng)], [coefficients(rng, 5), coefficients(rng, 8)]
    pose, shift = rotation(rng, 0.1), np.array([-1.0, 0.05, 0.02])
    r1, r2, p1, p2, *_ = cv2.stereoRectify(
        lenses[0], ks[0], lenses[1], ks[1], SIZE[::-1], pose, shift[:, None]
    )
    grids = cameras.stereo_grids(SIZE, lenses, ks, [r1, r2], [p1, p2])
    for grid, matrix, k, r, p in zip(grids, lenses, ks, (r1, r2), (p1, p2), strict=True):
        x, y = cv2.initUndistortRectifyMap(matrix, k, r, p, SIZE[::-1], cv2.CV_32FC1)
        np.testing.assert_allclose(grid[0], np.stack([x, y], -1), rtol=0, atol=1e-3)
    # The two rays of a point are sampled in the same row.
    points = rng.uniform(-1, 1, (30, 3)) + np.array([0, 0, 6])
    left, _ = cameras.project(points @ r1.T, p1[:, :3], np.eye(4))
    right, _ = cameras.project((points @ pose.T + shift) @ r2.T, p2[:, :3], np.eye(4))
    np.testing.assert_allclose(left[:, 1], right[:, 1], atol=1e-9)


def test_rays_outside_the_field_of_view_are_nan() -> None:
    rays = np.array([[0.1, 0, 1], [0.1, 0, 0], [0.1, 0, -1], [0, 0, -1], [0, 0, 2], [0, 0, 0]])
    result = cameras.distort_points(rays, [0.1, 0, 0, 0])
    np.testing.assert_array_equal(np.isnan(result[:, 0]), [0, 1, 1, 1, 0, 1])
    wide = cameras.distort_points(rays, [], model="fisheye")
    np.testing.assert_array_equal(np.isnan(wide[:, 0]), [0, 0, 0, 1, 0, 1])
    np.testing.assert_allclose(wide[:3, 0], [math.atan(0.1), math.pi / 2, math.pi - math.atan(0.1)])
    np.testing.assert_array_equal(wide[4], [0, 0])
    narrow = cameras.distort_points(rays, [], model="fisheye", max_angle=1.6)
    np.testing.assert_array_equal(np.isnan(narrow[:, 0]), [0, 0, 1, 1, 0, 1])
    plane = np.array([[0.9, 0], [1.1, 0]])
    result = cameras.distort_points(plane, [0, 0, 0, 0], max_angle=math.pi / 4)
    np.testing.assert_array_equal(np.isnan(result[:, 0]), [0, 1])


@pytest.mark.parametrize("k1", [-0.2, -0.05, 0.0, 0.1])
def test_fisheye_field_of_view_ends_where_distortion_stops_increasing(k1: float) -> None:
    # The derivative 1 + 3 k1 a^2 is zero at the end of the field.
    end = 1 / math.sqrt(-3 * k1) if k1 < 0 else math.inf
    angles = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.1, end * (1 - 1e-9), end * (1 + 1e-9)])
    angles = angles[angles < math.pi]
    rays = np.stack([np.sin(angles), 0 * angles, np.cos(angles)], -1)
    result = cameras.distort_points(rays, [k1, 0, 0, 0], model="fisheye")
    np.testing.assert_array_equal(np.isnan(result[:, 0]), angles >= end)
    # Without its end, it would show the same pixel twice.
    assert (np.diff(result[~np.isnan(result[:, 0]), 0][:5]) > 0).all()


def test_missing_rays_are_missing_in_the_image() -> None:
    matrix = np.array([[30.0, 0, 45], [0, 30, 31], [0, 0, 1]])
    grid = cameras.undistort_grid(SIZE, matrix, [-0.4, 0, 0, 0], model="fisheye")
    outside = np.isnan(grid).any(-1)
    assert 0.02 < outside.mean() < 0.9
    photo = np.ones((1, 1, *SIZE))
    result = gridsample.grid_sample(photo, grid, padding_mode="border", coords="pixel")
    np.testing.assert_array_equal(np.isnan(result[0]), outside)


def test_a_batch_of_cameras() -> None:
    rng = np.random.default_rng(3)
    matrices = np.stack([lens(rng), lens(rng)])
    ks = np.stack([coefficients(rng, 5), coefficients(rng, 5)])
    batched = cameras.undistort_grid(SIZE, matrices, ks)
    assert batched.shape == (2, *SIZE, 2)
    for n in range(2):
        grid = cameras.undistort_grid(SIZE, matrices[n], ks[n])
        np.testing.assert_allclose(batched[n : n + 1], grid, rtol=0, atol=1e-11)
    same = cameras.undistort_grid(SIZE, matrices[0], ks)
    assert same.shape == (2, *SIZE, 2)


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize(("model", "count"), [("opencv", 14), ("opencv", 5), ("fisheye", 4)])
def test_tensors_have_the_same_grids_and_derivatives(model: str, count: int) -> None:
    rng = np.random.default_rng(4)
    arrays = [lens(rng), 0.1 * coefficients(rng, count), rotation(rng, 0.2), lens(rng)]
    tensors = [torch.from_numpy(array).requires_grad_() for array in arrays]
    grid = cameras.undistort_grid(SIZE, *tensors, model=model)
    theirs = cameras.undistort_grid(SIZE, *arrays, model=model)
    np.testing.assert_allclose(grid.detach(), theirs, rtol=0, atol=1e-10)

    def call(*tensors: Tensor) -> Tensor:
        return cameras.undistort_grid((3, 2), *tensors, model=model)

    assert torch.autograd.gradcheck(call, tensors)
    assert torch.autograd.gradgradcheck(call, tensors)
    # The middle of a fisheye, where an angle and a radius are 0.
    rays = torch.tensor([[0.0, 0, 2], [0.3, -0.2, 1]], dtype=torch.float64, requires_grad=True)

    def middle(rays: Tensor, k: Tensor) -> Tensor:
        return cameras.distort_points(rays, k, model=model)

    assert torch.autograd.gradcheck(middle, (rays, tensors[1]))
    narrow = cameras.undistort_grid(SIZE, *[tensor.float() for tensor in tensors], model=model)
    assert narrow.dtype == torch.float32
    np.testing.assert_allclose(narrow.detach(), theirs, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_compiled_grids_have_no_graph_break() -> None:
    torch.compiler.reset()
    rng = np.random.default_rng(5)
    matrix, k = torch.from_numpy(lens(rng)), torch.from_numpy(coefficients(rng, 4))

    def call(matrix: Tensor, k: Tensor) -> Tensor:
        grid = cameras.undistort_grid((5, 7), matrix, k, model="fisheye")
        return grid + cameras.undistort_grid((5, 7), matrix, k)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(matrix, k), call(matrix, k))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"distortion": np.zeros(6)}, ValueError, ["distortion", "4, 5, 8, 12, 14", "(6,)"]),
        ({"model": "fisheye", "distortion": np.zeros(5)}, ValueError, ["fisheye", "0, 4", "(5,)"]),
        ({"model": "pinhole"}, ValueError, ["model", "'opencv'", "'fisheye'", "'pinhole'"]),
        ({"intrinsics": np.eye(4)}, ValueError, ["intrinsics", "(..., 3, 3)", "(4, 4)"]),
        ({"rotation": np.eye(2)}, ValueError, ["rotation", "(..., 3, 3)", "(2, 2)"]),
        ({"size": (1, 2, 3)}, ValueError, ["size", "height", "(1, 2, 3)"]),
        ({"size": "ab"}, TypeError, ["size", "'ab'"]),
        ({"max_angle": 4}, ValueError, ["max_angle", "radians", "4"]),
        ({"intrinsics": np.zeros((2, 2, 3, 3))}, ValueError, ["intrinsics", "axes"]),
    ],
)
def test_invalid_arguments_are_rejected(
    change: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    arguments: dict[str, Any] = {"size": SIZE, "intrinsics": np.eye(3), "distortion": np.zeros(4)}
    with pytest.raises(error) as caught:
        cameras.undistort_grid(**{**arguments, **change})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("model", ["opencv", "fisheye"])
def test_no_distortion(model: str) -> None:
    """OpenCV's functions take None, too."""
    points = np.random.default_rng(0).normal(size=(7, 2))
    for array in (points, torch.from_numpy(points)):
        result, expected = (
            cameras.distort_points(array, k, None, model=model) for k in (None, [0.0] * 4)
        )
        np.testing.assert_array_equal(result, expected)
    grids = [cameras.undistort_grid((4, 5), np.eye(3), k, model=model) for k in (None, [0] * 4)]
    np.testing.assert_array_equal(*grids)
    assert cameras.stereo_grids(
        (4, 5), [np.eye(3)] * 2, [None, None], [np.eye(3)] * 2, [np.eye(3)] * 2, model=model
    )[1].shape == (1, 4, 5, 2)
    chosen = [cameras.optimal_intrinsics((4, 5), np.eye(3), k) for k in (None, [0] * 4)]
    np.testing.assert_array_equal(*chosen)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("items", [(), (3,)])
def test_the_grid_of_an_empty_image_is_empty(items: tuple[int, ...], make: Any) -> None:
    intrinsics = make(np.broadcast_to(np.eye(3), (*items, 3, 3)).copy())
    for size in ((0, 5), (4, 0)):
        assert cameras.undistort_grid(size, intrinsics, None).shape == (*(items or (1,)), *size, 2)


def test_items_that_do_not_match_are_named() -> None:
    many = np.broadcast_to(np.eye(3), (3, 3, 3))
    for call, words in (
        (
            lambda: cameras.undistort_grid((4, 5), many, np.zeros((2, 4))),
            r"\(3,\) in intrinsics of shape \(3, 3, 3\) and \(2,\) in distortion",
        ),
        (
            lambda: cameras.distort_points(np.zeros((2, 5, 2)), None, many),
            r"\(2,\) in points of shape \(2, 5, 2\) and \(\) in distortion .* and \(3,\) in intr",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
