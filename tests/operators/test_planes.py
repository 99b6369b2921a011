"""`gridsample.operators.point_features`, against a sample of each grid."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample.operators import point_features

PLANES = [*itertools.combinations(range(3), 2)]


def inputs(items: int = 2) -> tuple[list[Any], Any]:
    """Three planes of different sizes, and points, some of them outside."""
    rng = cases.generator("planes", items)
    planes = [rng.standard_normal((items, 4, *size)) for size in ((3, 5), (4, 2), (6, 1))]
    return planes, rng.uniform(-1.2, 1.2, (2, 7, 3))


def sampled(grids: Any, points: Any, axes: Any) -> list[Any]:
    """The samples (N, P, C) of each grid."""
    samples = []
    for grid, each in zip(grids, axes, strict=True):
        image = np.broadcast_to(grid, (points.shape[0], *grid.shape[1:]))
        sample = gridsample.grid_sample(image, points[..., list(each)], "bilinear", "border", True)
        samples.append(np.moveaxis(sample, 1, -1))
    return samples


@pytest.mark.parametrize("items", [1, 2])
def test_planes_and_volumes(items: int) -> None:
    planes, points = inputs(items)
    samples = sampled(planes, points, PLANES)
    np.testing.assert_allclose(point_features(planes, points), sum(samples), atol=1e-13)
    joined = point_features(planes, points, combine="concatenate")
    np.testing.assert_allclose(joined, np.concatenate(samples, -1), atol=1e-13)
    # With a volume of one item, and axes in another order.
    volume = cases.generator("volume").standard_normal((1, 4, 2, 3, 4))
    axes = [(2, 1), (0, 1, 2)]
    expected = sum(sampled([planes[0], volume], points, axes))
    result = point_features([planes[0], volume], points, axes)
    np.testing.assert_allclose(result, expected, atol=1e-13)
    half = [plane.astype(np.float16) for plane in planes]
    assert point_features(half, points).dtype == np.float16


def test_tensors_and_jax_arrays() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from fused_tensors import check_derivatives

    planes, points = inputs(1)
    tensors = [torch.from_numpy(array) for array in (*planes, points)]
    check_derivatives(lambda *arrays: point_features(arrays[:-1], arrays[-1]), tensors)
    single = [jax.numpy.asarray(array, np.float32) for array in (*planes, points)]
    result = jax.jit(lambda *arrays: point_features(arrays[:-1], arrays[-1]))(*single)
    np.testing.assert_allclose(result, point_features(planes, points), rtol=1e-4, atol=1e-5)


def test_errors() -> None:
    planes, points = inputs()
    with pytest.raises(ValueError, match="axes must say which of the 3 coordinates"):
        point_features(planes[:2], points)
    with pytest.raises(ValueError, match="axes must have 2 and 2 numbers from 0 to 2"):
        point_features(planes[:2], points, [(0, 1), (0, 3)])
    with pytest.raises(ValueError, match=r"grids\[1\] has 3"):
        point_features([planes[0], planes[1][:, :3]], points, PLANES[:2])
    with pytest.raises(TypeError, match="grids must be a list"):
        point_features(planes[0], points)
    with pytest.raises(ValueError, match="combine"):
        point_features(planes, points, combine="product")
