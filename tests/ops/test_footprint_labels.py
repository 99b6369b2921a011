"""Labels over footprints: the label with the largest weight over all samples wins."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch
from oracles import per_axis

import gridsample.nn
from gridsample.backends.torch import derivatives, footprints
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.options import Options
from gridsample.kernels.reference import footprints as reference
from tests.ops.test_footprints import shrinking

CALLS = [
    # image, grid's N, out, mode, boundary, align_corners, coords, max_samples
    ((1, 2, 30), 2, (7,), "label", "wrap", False, "displacement", 16),
    ((2, 1, 17, 14), 2, (5, 4), "label", "zeros", False, "normalized", 16),
    ((2, 2, 17, 14), 1, (5, 4), "label", "constant", True, "normalized", 2),
    ((1, 1, 17, 14), 1, (3, 3), ("nearest", "label"), "reflection", True, "pixel", 3),
    ((1, 1, 7, 9, 8), 1, (2, 3, 3), "label", "border", False, "normalized", 2),
]


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_winners_match_antialiased_one_hot_images(call: Any) -> None:
    shape, items, out, mode, boundary, corners, coords, max_samples = call
    rng = cases.generator("label footprints", str(call))
    labels = rng.integers(-3, 4, shape).astype(np.int16)
    labels = labels.repeat(2, -1)[..., : shape[-1]]
    grid = shrinking(rng, items, out, shape[2:], coords)
    grid[0, ..., 0].ravel()[1] = np.nan
    options: Any = {
        "coords": coords,
        "fill": -2 if boundary == "constant" else 0,
        "max_samples": max_samples,
    }
    names = per_axis(mode, len(out)), per_axis(boundary, len(out)), corners
    expected = reference.vote(labels, grid, *names, **options)
    sampled = gridsample.grid_sample(
        labels, grid, mode, boundary, corners, coords=coords, fill_value=options["fill"]
    )
    assert (sampled != expected).any()  # pixels between the samples count

    more: Any = {"coords": coords, "fill_value": options["fill"], "max_samples": max_samples}
    result = gridsample.grid_sample(labels, grid, mode, boundary, corners, **more, antialias=True)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == labels.dtype
    tensors = torch.tensor(labels), torch.tensor(grid)
    result = gridsample.grid_sample(*tensors, mode, boundary, corners, **more, antialias=True)
    np.testing.assert_array_equal(result.numpy(), expected)
    # The code path of other devices.
    record = Options(
        mode=names[0],
        padding_mode=names[1],
        align_corners=corners,
        coords=coords,
        fill_value=(float(options["fill"]),) if options["fill"] else (),
        order=(0,) * len(out),
        footprint=Footprint(max_samples),
    )
    other = footprints.vote(derivatives.gather, *tensors, record)
    np.testing.assert_array_equal(other.numpy(), expected)


def test_points_outside_have_the_fill_value_unless_the_image_is_extended() -> None:
    rng = cases.generator("label footprints", "outside")
    labels = rng.integers(0, 3, (1, 1, 16, 15))
    grid = 1.3 * shrinking(rng, 1, (6, 5), (16, 15))
    names: Any = ("label",) * 2, ("border",) * 2, False
    expected = reference.vote(labels, grid, *names, extrapolate=False, fill=7)
    options: Any = {"extrapolate": False, "fill_value": 7, "antialias": True}
    result = gridsample.grid_sample(labels, grid, "label", "border", **options)
    np.testing.assert_array_equal(result, expected)
    assert (result == 7).any()
    record = Options(
        mode=names[0],
        padding_mode=names[1],
        fill_value=(7.0,),
        ends=("edges", "edges"),
        order=(0, 0),
        footprint=Footprint(),
    )
    other = footprints.vote(derivatives.gather, torch.tensor(labels), torch.tensor(grid), record)
    np.testing.assert_array_equal(other.numpy(), expected)


def test_infinite_coordinates_along_a_single_pixel() -> None:
    # If corners are aligned, every coordinate of such an axis has the position 0.
    labels = np.array([3, 1, 1, 2]).reshape(1, 1, 4, 1)
    grid = np.array([[[0, -0.9], [np.inf, 0.2]], [[0, 0.5], [-np.inf, 1]]])[np.newaxis]
    names: Any = ("label",) * 2, ("border",) * 2, True
    expected = reference.vote(labels, grid, *names)
    assert expected.ravel().tolist() == [3, 1, 1, 2]
    result = gridsample.grid_sample(labels, grid, "label", "border", True, antialias=True)
    np.testing.assert_array_equal(result, expected)
    record = Options(*names, order=(0, 0), footprint=Footprint())
    other = footprints.vote(derivatives.gather, torch.tensor(labels), torch.tensor(grid), record)
    np.testing.assert_array_equal(other.numpy(), expected)


@pytest.mark.parametrize(
    ("dtype", "small", "large"),
    [
        ("bool", 0, 1),
        ("uint8", 3, 255),
        ("int64", -(2**53) - 1, -(2**53)),
        ("int64", 2**62 + 1, 2**62 + 2),
        ("uint64", 5, 2**64 - 1),
        ("uint32", 1, 2**32 - 1),
    ],
)
def test_ties_go_to_the_smallest_label(dtype: str, small: int, large: int) -> None:
    stripes = np.where(np.arange(12) % 2 == 0, np.array(large, dtype), np.array(small, dtype))
    image = np.broadcast_to(stripes, (1, 1, 12, 12)).copy()
    half = np.eye(2, 3)[np.newaxis]
    options: Any = {"padding_mode": "border", "antialias": True}
    result = gridsample.affine_sample(image, half, (1, 1, 6, 6), "label", **options)
    assert result.dtype == image.dtype and (result == np.array(small, dtype)).all()
    image[..., 0, 1] = large  # three of four pixels
    result = gridsample.affine_sample(image, half, (1, 1, 6, 6), "label", **options)
    assert result[0, 0, 0, 0] == np.array(large, dtype)
    assert (result.ravel()[1:] == np.array(small, dtype)).all()
    tensors = torch.tensor(image), torch.tensor(half)
    same = gridsample.affine_sample(*tensors, (1, 1, 6, 6), "label", **options)
    assert (same.numpy() == result).all()


@pytest.mark.slow
def test_layouts_threads_and_maps_do_not_change_labels() -> None:
    rng = cases.generator("label footprints", "layouts")
    labels = rng.integers(0, 40, (2, 3, 33, 31), np.uint8)
    theta = np.array([[[0.9, 0.4, 0.05], [-0.3, 0.8, 0.02]]])
    grid = gridsample.affine_grid(theta, (1, 3, 7, 9))
    options: Any = {"antialias": True, "max_samples": 3}
    expected = gridsample.grid_sample(labels, grid, "label", **options, threads=1)
    assert (
        gridsample.affine_sample(labels, theta, (1, 3, 7, 9), "label", **options) == expected
    ).all()
    last = np.ascontiguousarray(np.moveaxis(labels, 1, -1))
    result = gridsample.grid_sample(last, grid, "label", **options, channel_axis=-1, threads=3)
    assert (np.moveaxis(result, -1, 1) == expected).all()
    # A copy does not pay for few points.
    few, wide = grid[:, :2, :2], labels.astype(np.int32)
    expected_few = gridsample.grid_sample(wide, few, "label", **options)
    result = gridsample.grid_sample(wide.astype(">i4"), few, "label", **options)
    assert (result == expected_few).all()
    # Without shrinking, footprints have one sample.
    fine = 0.2 * grid
    sampled = gridsample.grid_sample(labels, fine, "label")
    assert (gridsample.grid_sample(labels, fine, "label", antialias=True) == sampled).all()
    module = gridsample.nn.GridSample("label", antialias=True, max_samples=3)
    assert (module(torch.tensor(labels), torch.tensor(grid)).numpy() == expected).all()
    # Winners change in jumps, so the gradient of the grid is 0.
    up = np.ones(expected.shape)
    _, gradient = gridsample.grid_sample_vjp(up, labels, grid, "label", **options, need_input=False)
    assert (gradient == 0).all()
    _, mask = gridsample.grid_sample(labels, grid, "label", **options, return_mask=True)
    ones = gridsample.grid_sample(np.ones((1, 1, 33, 31)), grid, **options)
    np.testing.assert_allclose(mask[:, :1], ones, atol=1e-6)
