"""`gridsample.operators.roi_align`, against the published algorithm in plain loops."""

from __future__ import annotations

import math
from typing import Any

import cases
import numpy as np
import pytest

from gridsample.operators import ps_roi_align, roi_align, rotated_roi_align


def bilinear(image: Any, y: float, x: float) -> Any:
    """The sample of an image (C, H, W), extended by its edge, and 0 beyond a pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    t, s = y - top, x - left
    upper = image[:, top, left] * (1 - s) + image[:, top, right] * s
    lower = image[:, below, left] * (1 - s) + image[:, below, right] * s
    return upper * (1 - t) + lower * t


def defined(image: Any, boxes: Any, size: Any, scale: float, ratio: int, aligned: bool) -> Any:
    """Means over the bins of boxes (K, 5), or of rotated boxes (K, 6)."""
    rows, columns = size
    result = np.zeros((len(boxes), image.shape[1], rows, columns))
    for k, (index, *box) in enumerate(boxes):
        shift = 0.5 if aligned else 0
        cosine, sine, centre = 1.0, 0.0, (0.0, 0.0)
        if len(box) == 5:
            centre = box[0] * scale - shift, box[1] * scale - shift
            width, height = box[2] * scale, box[3] * scale
            left, top = -width / 2, -height / 2
            angle = math.radians(box[4])
            cosine, sine = math.cos(angle), math.sin(angle)
        else:
            left, top, right, bottom = (n * scale - shift for n in box)
            width, height = right - left, bottom - top
            if not aligned:
                width, height = max(width, 1), max(height, 1)
        down = ratio if ratio > 0 else math.ceil(height / rows)
        across = ratio if ratio > 0 else math.ceil(width / columns)
        for i, j in np.ndindex(rows, columns):
            for a, b in np.ndindex(max(down, 0), max(across, 0)):
                y = top + (i + (a + 0.5) / down) * height / rows
                x = left + (j + (b + 0.5) / across) * width / columns
                place = y * cosine - x * sine + centre[1], y * sine + x * cosine + centre[0]
                result[k, :, i, j] += bilinear(image[int(index)], *place)
        result[k] /= max(down * across, 1)
    return result


def inputs(channels: int = 3) -> Any:
    """Two images, and boxes: inside, partly outside, small, outside, with ends exchanged."""
    image = cases.generator("regions").standard_normal((2, channels, 7, 9))
    boxes = [
        [0, 1.0, 2.0, 9.0, 11.0],
        [1, -3.0, -4.0, 8.0, 6.5],
        [1, 5.0, 5.0, 5.2, 5.1],
        [0, 40.0, 40.0, 50.0, 60.0],
        [1, 9.0, 8.0, 3.0, 2.0],
    ]
    return image, np.array(boxes)


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_boxes(ratio: int, aligned: bool) -> None:
    image, boxes = inputs()
    result = roi_align(image, boxes, (3, 2), 0.7, ratio, aligned)
    expected = defined(image, boxes, (3, 2), 0.7, ratio, aligned)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)
    lists = [boxes[boxes[:, 0] == k, 1:] for k in range(2)]
    order = [*np.flatnonzero(boxes[:, 0] == 0), *np.flatnonzero(boxes[:, 0] == 1)]
    separate = roi_align(image, lists, (3, 2), 0.7, ratio, aligned)
    np.testing.assert_array_equal(separate, result[order])


@pytest.mark.parametrize("ratio", [2, -1])
def test_bins_with_own_channels(ratio: int) -> None:
    """Those of boxes of any size, as torchvision: a bin has every sixth channel."""
    image, boxes = inputs(12)
    result = ps_roi_align(image, boxes, (3, 2), 0.7, ratio)
    assert result.shape == (5, 2, 3, 2)
    every = defined(image, boxes, (3, 2), 0.7, ratio, True)
    for i, j in np.ndindex(3, 2):
        expected = every[:, i * 2 + j :: 6, i, j]
        np.testing.assert_allclose(result[:, :, i, j], expected, rtol=1e-12, atol=1e-13)
    lists = [boxes[boxes[:, 0] == k, 1:] for k in range(2)]
    order = [*np.flatnonzero(boxes[:, 0] == 0), *np.flatnonzero(boxes[:, 0] == 1)]
    np.testing.assert_array_equal(ps_roi_align(image, lists, (3, 2), 0.7, ratio), result[order])
    assert ps_roi_align(image, boxes[:0], (3, 2)).shape == (0, 2, 3, 2)
    with pytest.raises(ValueError, match="input must have 6 channels for each of the output"):
        ps_roi_align(image[:, :4], boxes, (3, 2))


def test_rotated_boxes_and_heads() -> None:
    image, _ = inputs(128)
    boxes = np.array([[0, 4.0, 3.0, 6.0, 5.0, 30.0], [1, 5.0, 2.0, 4.0, 3.0, -100.0]])
    for ratio in (2, 0):
        result = rotated_roi_align(image, boxes, 2, 1.1, ratio)
        expected = defined(image, boxes, (2, 2), 1.1, ratio, True)
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    image, boxes = (torch.from_numpy(array) for array in inputs())
    single = roi_align(image.float(), boxes.float(), 2, sampling_ratio=2)
    expected = roi_align(image, boxes, 2, sampling_ratio=2)
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-5)
    image, boxes = image[:, :1].clone().requires_grad_(), boxes[:2].clone().requires_grad_()

    def align(image: Any, boxes: Any) -> Any:
        return roi_align(image, boxes, 2, 0.7, 2, True)

    # The index of the image has no gradient.
    assert torch.autograd.gradcheck(lambda *a: align(a[0], a[1].clone()), (image, boxes.detach()))
    bins = torch.rand(2, 4, 7, 9, dtype=torch.float64, requires_grad=True)
    sensitive = lambda image: ps_roi_align(image, boxes, 2, 0.7, 2)  # noqa: E731
    assert torch.autograd.gradcheck(sensitive, bins, fast_mode=True)
    (gradient,) = torch.autograd.grad(align(image, boxes).sum(), boxes)
    step = 1e-6
    for k in range(1, 5):
        moved = torch.zeros_like(boxes)
        moved[0, k] = step
        slope = (align(image, boxes + moved) - align(image, boxes - moved)).sum() / (2 * step)
        torch.testing.assert_close(gradient[0, k], slope, rtol=1e-5, atol=1e-6)
    assert not gradient[:, 0].any()


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    image, boxes = (array.astype(np.float32) for array in inputs())

    def align(boxes: Any, ratio: int) -> Any:
        return roi_align(image, boxes, 2, 0.7, ratio)

    for ratio in (2, -1):
        result = align(jax.numpy.asarray(boxes), ratio)
        np.testing.assert_allclose(result, align(boxes, ratio), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="sampling_ratio must be positive"):
        jax.jit(align, static_argnums=1)(boxes, -1)


def test_errors_and_no_boxes() -> None:
    image, boxes = inputs()
    assert roi_align(image, boxes[:0], 2).shape == (0, 3, 2, 2)
    with pytest.raises(ValueError, match="boxes must have an array for each of 2 images, got 1"):
        roi_align(image, [boxes[:, 1:]], 2)
    with pytest.raises(ValueError, match=r"boxes must be \(K, 5\)"):
        roi_align(image, boxes[:, 1:], 2)
    with pytest.raises(TypeError, match="output_size must be an integer or two"):
        roi_align(image, boxes, (2, 2, 2))
    with pytest.raises(ValueError, match="output_size must be at least 1, got 0"):
        roi_align(image, boxes, 0)
    with pytest.raises(TypeError, match=r"sampling_ratio must be an integer, got 1\.5"):
        roi_align(image, boxes, 2, 1.0, 1.5)
    with pytest.raises(ValueError, match="input must be"):
        roi_align(image[0], boxes, 2)
    with pytest.raises(TypeError, match="spatial_scale must be a number, got '4'"):
        roi_align(image, boxes, 2, "4")  # type: ignore[arg-type]
    for number in (np.nan, np.inf):
        boxes[1, 3] = number
        with pytest.raises(ValueError, match="boxes must be finite where sampling_ratio is not"):
            roi_align(image, boxes, 2)


def test_no_images() -> None:
    image, boxes = inputs()
    for none in (boxes[:0], []):
        assert roi_align(image[:0], none, 2).shape == (0, 3, 2, 2)
    assert np.isnan(roi_align(image[:0], boxes, 2, sampling_ratio=1)).all()
    torch = pytest.importorskip("torch")
    empty = torch.zeros(0, 4, 5, 6, requires_grad=True)
    ps_roi_align(empty, torch.zeros(0, 5), 2).sum().backward()
    assert empty.grad is not None and empty.grad.shape == empty.shape


@pytest.mark.parametrize("index", [-1, 2])
def test_boxes_of_images_that_do_not_exist_are_nan(index: int) -> None:
    image, boxes = inputs()
    expected = roi_align(image, boxes, 2, sampling_ratio=2)
    boxes[1, 0] = index
    result = roi_align(image, boxes, 2, sampling_ratio=2)
    assert np.isnan(result[1]).all()
    np.testing.assert_array_equal(np.delete(result, 1, 0), np.delete(expected, 1, 0))
