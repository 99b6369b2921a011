"""The inverse of lens distortion: round trips, the end of the field, derivatives, OpenCV."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from gridsample import cameras

# All terms; the first 4, 5, 8 or 12 of them, too.
TERMS = np.array(
    [-0.3, 0.12, 2e-3, -1e-3, -0.02, 0.05, 0.02, 3e-3, 1e-3, 2e-3, -1e-3, 1e-3, 0.03, -0.02]
)
CAMERA = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
FISHEYE = np.array([0.1, -0.01, 0.002, 0.001])


def plane(count: int = 200) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-0.6, 0.6, (count, 2))


@pytest.mark.parametrize("count", [0, 4, 5, 8, 12, 14])
def test_distorted_points_are_undistorted(count: int) -> None:
    points, k = plane(), TERMS[:count]
    pixels = cameras.distort_points(points, k, CAMERA)
    result = cameras.undistort_points(pixels, k, CAMERA)
    np.testing.assert_allclose(result, points, rtol=0, atol=1e-13)
    theirs = cv2.undistortPoints(pixels[:, None], CAMERA, k if count else None)
    np.testing.assert_allclose(result, theirs[:, 0], rtol=0, atol=2e-3)  # after five steps
    single = cameras.undistort_points(*(a.astype("f4") for a in (pixels, k, CAMERA)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, points, rtol=0, atol=2e-5)
    rays = cameras.undistort_points(pixels, k, CAMERA, rays=True, axes="opengl")
    np.testing.assert_allclose(np.linalg.norm(rays, axis=-1), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(-rays[:, :2] * [1, -1] / rays[:, 2:], points, rtol=0, atol=1e-13)


@pytest.mark.parametrize("k", [FISHEYE, []])
def test_fisheye_lenses_see_behind_themselves(k: Any) -> None:
    rays = np.random.default_rng(1).normal(size=(100, 3))
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    pixels = cameras.distort_points(rays, k, CAMERA, model="fisheye")
    result = cameras.undistort_points(pixels, k, CAMERA, model="fisheye", rays=True)
    np.testing.assert_allclose(result, rays, rtol=0, atol=1e-13)
    points = cameras.undistort_points(pixels, k, CAMERA, model="fisheye")
    in_front = rays[:, 2] > 0
    assert np.isnan(points[~in_front]).all()
    expected = rays[in_front, :2] / rays[in_front, 2:]
    np.testing.assert_allclose(points[in_front], expected, rtol=1e-10)


def test_points_that_the_lens_does_not_image_are_nan() -> None:
    """r (1 - 0.2 r^2) increases up to r = sqrt(5 / 3), and reaches 0.86 there."""
    last = math.sqrt(5 / 3)
    distances = np.array([0.0, 0.5, last - 1e-4, last + 0.2, 2.0])
    points = np.stack([distances * 0.6, distances * 0.8], -1)
    result = cameras.undistort_points(
        cameras.distort_points(points, [-0.2, 0, 0, 0]), [-0.2, 0, 0, 0]
    )
    # The derivative at the third point is 4e-4, so that rounding is amplified.
    np.testing.assert_allclose(result[:3], points[:3], rtol=0, atol=1e-6)
    inner = np.linalg.norm(result[3:], axis=-1)  # other points with the same image
    assert (inner < last).all() and (abs(inner - distances[3:]) > 0.1).all()
    too_far = [[0.9, 0.0], [np.nan, 0.0], [0.0, -5.0], [1e30, 0.0]]
    assert np.isnan(cameras.undistort_points(too_far, [-0.2, 0, 0, 0])).all()
    folding = [-0.1, 0.0, 0.0, 0.0]  # a fisheye whose angle increases up to sqrt(10 / 3)
    assert np.isnan(cameras.undistort_points([1.3, 0.0], folding, model="fisheye", rays=True)).all()
    for model in ("opencv", "fisheye"):
        seen = cameras.undistort_points([[0.3, 0], [0.9, 0]], [], model=model, max_angle=0.5)
        assert np.isnan(seen).any(-1).tolist() == [False, True]


def test_cameras_and_lenses_in_batches() -> None:
    points = plane(12).reshape(3, 4, 2)
    lenses = TERMS[:5] * np.array([[1.0], [0.5], [-1.0]])
    intrinsics = CAMERA * np.array([1.0, 2.0, 3.0])[:, None, None]
    result = cameras.undistort_points(points * 300, lenses, intrinsics)
    for item in range(3):
        alone = cameras.undistort_points(points[item] * 300, lenses[item], intrinsics[item])
        np.testing.assert_allclose(result[item], alone, rtol=0, atol=1e-13)
    single = cameras.undistort_points(points[0, 0], TERMS[:5])
    assert single.shape == (2,)


def test_many_points_are_undistorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).uniform(-0.4, 0.4, (2, 31, 2))
    points[0, 3], points[1, 30] = np.nan, 9.0
    for model, k in (("opencv", TERMS), ("fisheye", FISHEYE)):
        lenses = k * np.array([[1.0], [0.5]])
        whole = cameras.undistort_points(points, lenses, model=model, rays=True)
        with monkeypatch.context() as patch:
            patch.setattr("gridsample.cameras.undistortion.PART", 14)
            parts = cameras.undistort_points(points, lenses, model=model, rays=True)
        assert np.isnan(parts[0, 3]).all()
        np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("model", "k"), [("opencv", TERMS), ("opencv", TERMS[:5]), ("fisheye", FISHEYE)]
)
def test_derivatives(model: str, k: Any) -> None:
    pixels = cameras.distort_points(plane(3), k, CAMERA / 400, model=model)
    points = torch.from_numpy(pixels).requires_grad_()
    lens, camera = (
        torch.tensor(k, requires_grad=True),
        torch.tensor(CAMERA / 400, requires_grad=True),
    )

    def undistorted(points: Any, lens: Any, camera: Any) -> Any:
        return cameras.undistort_points(points, lens, camera, model=model)

    assert torch.autograd.gradcheck(undistorted, (points, lens, camera))
    assert torch.autograd.gradgradcheck(undistorted, (points, lens, camera), fast_mode=True)


def test_points_without_a_ray_have_no_gradient() -> None:
    points = torch.tensor([[0.1, 0.1], [50.0, 5.0], [0.0, 0.0]], dtype=torch.float64)
    for model, k in (("opencv", TERMS), ("fisheye", -FISHEYE)):
        places, lens = points.clone().requires_grad_(), torch.tensor(k, requires_grad=True)
        result = cameras.undistort_points(places, lens, model=model)
        gradients = torch.autograd.grad(result.nansum(), (places, lens))
        assert bool(result[1].isnan().all()) and not gradients[0][1].any()
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_wrong_arguments_are_refused() -> None:
    for arguments, options, message in (
        (([[0.0, 0, 1]], None), {}, r"points must have the shape \(\.\.\., 2\), got \(1, 3\)"),
        (([0.0, 0], [0.1]), {}, "distortion must have the shape"),
        (([0.0, 0], None), {"model": "pinhole"}, "model must be 'opencv' or 'fisheye'"),
        (([0.0, 0], None), {"max_angle": 4}, "max_angle must be an angle in radians"),
        (([0.0, 0], None), {"axes": "nerf"}, "axes must be 'opencv' or 'opengl'"),
    ):
        with pytest.raises(ValueError, match=message):
            cameras.undistort_points(*arguments, **options)
