"""Thin-plate splines, against SciPy's and by what defines them."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator

import gridsample
from gridsample.fields import thin_plate, thin_plates

KERNELS = {1: "cubic", 2: "thin_plate_spline", 3: "linear"}


def landmarks(rank: int, count: int = 12) -> tuple[Any, Any, Any]:
    """Landmarks in hundreds of pixels, their targets, and points among them and beyond."""
    rng = cases.generator("thin plates", rank)
    points = rng.uniform(0, 100, (count, rank))
    return points, points + 3 * rng.normal(size=points.shape), rng.uniform(-20, 130, (40, rank))


@pytest.mark.parametrize("smoothing", [0.0, 3.0, "several"])
@pytest.mark.parametrize("rank", KERNELS)
def test_splines_match_scipy(rank: int, smoothing: Any) -> None:
    points, targets, places = landmarks(rank)
    if smoothing == "several":
        smoothing = np.linspace(0, 5, len(points))
    reference = RBFInterpolator(
        points, targets, kernel=KERNELS[rank], degree=1, smoothing=smoothing
    )
    spline = thin_plate(points, targets, smoothing)
    np.testing.assert_allclose(spline(places), reference(places), rtol=0, atol=1e-8)
    if np.all(smoothing == 0):
        np.testing.assert_allclose(spline(points), targets, rtol=0, atol=1e-9)
    single = thin_plate(points.astype("f4"), targets.astype("f4"), smoothing)
    assert single(places).dtype == np.float64
    assert single(places.astype("f4")).dtype == single.grid((3,) * rank).dtype == np.float32


def test_affine_maps_are_kept() -> None:
    """They do not bend, whatever the smoothing."""
    points, _, places = landmarks(2)
    matrix, shift = np.array([[0.9, 0.3], [-0.2, 1.2]]), [5.0, -7.0]
    for smoothing in (0.0, 1e6):
        spline = thin_plate(points, points @ matrix + shift, smoothing)
        np.testing.assert_allclose(spline(places), places @ matrix + shift, rtol=0, atol=1e-9)


def test_much_smoothing_gives_the_affine_map_of_least_squares() -> None:
    points, targets, places = landmarks(2)
    ones = np.ones((len(points), 1))
    fitted, *_ = np.linalg.lstsq(np.hstack([points, ones]), targets)
    result = thin_plate(points, targets, 1e12)(places)
    np.testing.assert_allclose(result, places @ fitted[:2] + fitted[2], rtol=0, atol=1e-5)


def test_grids_are_positions_of_pixels() -> None:
    points, targets, _ = landmarks(2)
    batch = np.stack([points, targets]), np.stack([targets, points])
    splines = thin_plate(*batch)
    grids = splines.grid((4, 5))
    assert grids.shape == (2, 4, 5, 2)
    y, x = np.mgrid[0:4, 0:5].astype(float)
    pixels = np.stack([x, y], -1)
    for item in range(2):
        alone = thin_plate(*(array[item] for array in batch))
        np.testing.assert_allclose(grids[item], alone(pixels), rtol=0, atol=1e-10)
    np.testing.assert_allclose(splines(pixels[None]), grids, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match=r"points must have the shape \(2 or 1, ..., 2\), got"):
        splines(np.zeros((3, 2)))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    points, targets, _ = landmarks(3)
    arrays = [torch.tensor(array, requires_grad=True) for array in (points, targets)]
    whole = thin_plate(*arrays).grid((5, 6, 7))
    expected = torch.autograd.grad(whole.square().sum(), arrays)
    monkeypatch.setattr(thin_plates, "BLOCK", 12 * 50)
    parts = thin_plate(*arrays).grid((5, 6, 7))
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-10)
    for ours, gradient in zip(
        torch.autograd.grad(parts.square().sum(), arrays), expected, strict=True
    ):
        torch.testing.assert_close(ours, gradient, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("rank", KERNELS)
def test_derivatives(rank: int) -> None:
    """Also at the landmarks, where the kernel's logarithm or root has none."""
    arrays = [torch.tensor(array[:5] / 50, requires_grad=True) for array in landmarks(rank)]
    for smoothing in (0.0, 0.1):

        def mapped(points: Any, targets: Any, places: Any, smoothing: float = smoothing) -> Any:
            return thin_plate(points, targets, smoothing)(places)

        assert torch.autograd.gradcheck(mapped, arrays)
        assert torch.autograd.gradgradcheck(mapped, arrays, fast_mode=True)
    points, targets, _ = arrays
    (gradient,) = torch.autograd.grad(thin_plate(points, targets)(points).sum(), targets)
    torch.testing.assert_close(gradient, torch.ones_like(targets), rtol=0, atol=1e-10)


def test_splines_are_transforms_of_resample() -> None:
    points, targets, _ = landmarks(2)
    points, targets = points / 10, targets / 10
    image = cases.generator("thin plates").random((11, 12))
    affine, target = np.diag([2.0, 1, 1]), np.eye(3)
    spline = thin_plate(points, targets)
    rows, columns = np.mgrid[0:7, 0:8].astype(float)
    world = spline(np.stack([rows, columns], -1))
    grid = np.stack([world[..., 1], world[..., 0] / 2], -1)[None]
    expected = gridsample.grid_sample(image[None, None], grid, coords="pixel")[0, 0]
    result = gridsample.resample(image, affine, ((7, 8), target), spline)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    tensors = [torch.from_numpy(array) for array in (image, affine, target)]
    result = gridsample.resample(tensors[0], tensors[1], ((7, 8), tensors[2]), [spline])
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


LINE = np.array([[0.0, 0], [1, 1], [3, 3]])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((LINE, LINE[:2]), r"must both be \(M, D\) or \(N, M, D\) with D = 1 to 3, got shapes"),
        ((LINE[:2], LINE[:2]), "points must be at least 3 landmarks in 2 dimensions, got 2"),
        ((LINE, LINE), "points must not all be on a line, got 3"),
        ((LINE[[0, 0, 0], :1], LINE[:, :1]), "points must not all be at one point, got 3"),
        ((np.eye(4, 2)[[0, 1, 2, 2]], np.eye(4, 2)), "two of the points are the same"),
        ((np.eye(3, 2), np.eye(3, 2), -1), "smoothing must be finite and not negative, got -1"),
        ((np.eye(3, 2), np.eye(3, 2), [1, 2]), "smoothing must be a number, or 3 of them"),
    ],
)
def test_landmarks_that_determine_no_spline_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        thin_plate(*arguments)
    tensors = [torch.tensor(array) for array in arguments[:2]]
    with pytest.raises(ValueError, match=text):
        thin_plate(*tensors, *arguments[2:])


def test_landmarks_at_the_same_point_need_smoothing() -> None:
    points = np.array([[0.0, 0], [4, 0], [0, 4], [0, 4]])
    targets = points + np.array([[0, 0], [0, 0], [0, 0], [0, 1]])
    result = thin_plate(points, targets, 0.1)(points[2:])
    np.testing.assert_allclose(result, [[0, 4.5], [0, 4.5]], rtol=0, atol=1e-9)
