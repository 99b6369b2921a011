"""Intrinsics of undistorted images, against OpenCV."""

from __future__ import annotations

import cases
import cv2
import numpy as np
import pytest

from gridsample import cameras
from gridsample.cameras import framing

SIZE = (63, 90)


def lens(rng: np.random.Generator) -> np.ndarray:
    focal = rng.uniform(0.8, 1.5) * SIZE[1]
    x, y = SIZE[1] / 2 + rng.uniform(-5, 5), SIZE[0] / 2 + rng.uniform(-5, 5)
    return np.array([[focal, 0, x], [0, focal * rng.uniform(0.9, 1.1), y], [0, 0, 1]])


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("count", [4, 5, 8, 12, 14])
def test_intrinsics_match_opencv(count: int) -> None:
    scale = [0.1, 0.03, 0.01, 0.01, 0.02, 0.1, 0.02, 0.01, *[0.01] * 4, 0.05, 0.05][:count]
    for seed, (alpha, new), centred in cases.covering(
        range(3), ((0, None), (0.3, (100, 80)), (1, None)), (False, True)
    ):
        rng = np.random.default_rng(seed)
        matrix, k = lens(rng), rng.uniform(-1, 1, count) * scale
        result = cameras.optimal_intrinsics(SIZE, matrix, k, alpha, new, centred=centred)
        expected, _ = cv2.getOptimalNewCameraMatrix(
            matrix, k, SIZE[::-1], alpha, (new or SIZE)[::-1], centerPrincipalPoint=centred
        )
        # OpenCV stops looking for rays after a few steps.
        np.testing.assert_allclose(result, expected, rtol=0, atol=0.02)


@pytest.mark.slow
def test_fisheye_intrinsics_match_opencv() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matrix, k = lens(rng), rng.uniform(-1, 1, 4) * [0.05, 0.02, 0.01, 0.002]
        for balance, new in ((0, None), (0.3, (100, 80)), (1, None)):
            result = cameras.optimal_intrinsics(SIZE, matrix, k, balance, new, model="fisheye")
            expected = cv2.fisheye.estimateNewCameraMatrixForUndistortRectify(
                matrix, k, SIZE[::-1], np.eye(3), balance=balance, new_size=(new or SIZE)[::-1]
            )
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def test_alpha_zero_hides_missing_pixels_and_alpha_one_shows_all() -> None:
    matrix, k = lens(np.random.default_rng(0)), [-0.3, 0.08, 0.01, -0.01]
    all_pixels, valid_pixels = (
        cameras.optimal_intrinsics(SIZE, matrix, k, alpha) for alpha in (1, 0)
    )
    grid = cameras.undistort_grid(SIZE, matrix, k, new_intrinsics=valid_pixels)[0]
    # Between the points of the edges that are looked at, rays may be a little farther out.
    assert grid.min() > -0.05
    assert (grid.max((0, 1)) < np.array(SIZE[::-1]) - 0.95).all()
    corners = np.array([[0, 0], [SIZE[1] - 1, 0], [0, SIZE[0] - 1], [SIZE[1] - 1, SIZE[0] - 1.0]])
    rays = framing.undistort_pixels(corners, matrix, np.array(k), "opencv")
    shown = rays @ all_pixels[:2, :2].T + all_pixels[:2, 2]
    assert shown.min() > -1e-6
    assert (shown.max(0) < np.array(SIZE[::-1]) - 1 + 1e-6).all()
    np.testing.assert_allclose(cameras.distort_points(rays, k, matrix), corners, rtol=0, atol=1e-6)


def test_invalid_lenses_and_sizes_are_rejected() -> None:
    matrix = lens(np.random.default_rng(0))
    for arguments, message in (
        ((SIZE, matrix[:2], [0, 0, 0, 0]), r"intrinsics must have the shape \(3, 3\)"),
        ((SIZE, matrix, [0, 0, 0, 0], 2), "alpha must be from 0 to 1, got 2"),
        (((0, 5), matrix, None), r"size must be positive, got \(0, 5\)"),
        ((SIZE, matrix, [0] * 4, 0, (4, 0)), r"new_size must be positive, got \(4, 0\)"),
        ((SIZE, matrix, [-2.0, 0, 0, 0]), "the lens model maps no ray in front of the camera"),
    ):
        with pytest.raises(ValueError, match=message):
            cameras.optimal_intrinsics(*arguments)
    with pytest.raises(ValueError, match="centred is accepted for the model 'opencv' only"):
        cameras.optimal_intrinsics(SIZE, matrix, [0] * 4, centred=True, model="fisheye")
