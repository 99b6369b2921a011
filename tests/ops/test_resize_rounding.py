"""`rounding` of `interpolate`: bytes as Pillow and as PyTorch round them, after each axis."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from PIL import Image
from resized import pieces_of

import gridsample

FILTERS = {
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.BOX,
}
SIZES = [(20, 90), (90, 20), (9, 7), (63, 30), (1, 1), (41, 64)]


def extremes(*shape: int) -> Any:
    """Black and white pixels, between which methods overshoot most."""
    return cases.generator("extremes", shape).integers(0, 2, shape, np.uint8) * np.uint8(255)


@pytest.mark.covering
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("method", FILTERS)
def test_bytes_match_pillow(method: str, size: tuple[int, int]) -> None:
    """Results are equal to Pillow 13's; earlier versions always resize the width first."""
    image = extremes(63, 41, 3)
    theirs = np.array(Image.fromarray(image).resize(size[::-1], FILTERS[method]))
    options: dict[str, Any] = {"mode": method, "antialias": True, "rounding": "pillow"}
    last = gridsample.interpolate(image[np.newaxis], size, channel_axis=-1, **options)[0]
    np.testing.assert_array_equal(last, theirs)
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))[np.newaxis]
    first = gridsample.interpolate(planes, size, threads=1, **options)[0]
    np.testing.assert_array_equal(first.transpose(1, 2, 0), theirs)


@pytest.mark.covering
@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos"])
def test_bytes_match_torch(method: str, channels: int) -> None:
    """Results are equal for tensors and arrays in every layout."""
    torch = pytest.importorskip("torch")
    images = torch.from_numpy(extremes(2, channels, 23, 40))
    for memory, size, options in cases.covering(
        (torch.contiguous_format, torch.channels_last),
        ((8, 90), (61, 7), (23, 11), (50, 50)),
        ({"antialias": True}, *(({}, {"align_corners": True}) if method != "lanczos" else ())),
        strength=1,
    ):
        image = images.contiguous(memory_format=memory)
        theirs = torch.nn.functional.interpolate(image, size, mode=method, **options)
        ours = gridsample.interpolate(image, size, mode=method, rounding="torch", **options)
        assert torch.equal(ours, theirs)
        arrays = gridsample.interpolate(
            image.numpy(), size, mode=method, rounding="torch", **options
        )
        np.testing.assert_array_equal(arrays, theirs.numpy())


def test_only_rounding_between_axes_differs() -> None:
    image = extremes(1, 2, 23, 40)
    options: dict[str, Any] = {"mode": "lanczos3", "antialias": True}
    exact = gridsample.interpolate(image, (50, 60), **options)
    rounded = gridsample.interpolate(image, (50, 60), rounding="torch", **options)
    assert abs(exact.astype(int) - rounded).max() > 20
    alone = [
        gridsample.interpolate(image, (50, 40), **options, rounding=rounding).astype(int)
        for rounding in ("exact", "pillow", "torch")
    ]
    assert max(abs(image - alone[0]).max() for image in alone) <= 1


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("rounding", ["pillow", "torch"])
def test_other_integers_are_rounded_axis_by_axis(dtype: str, rounding: str) -> None:
    image = (extremes(1, 2, 5, 9, 6) // 2).astype(dtype)
    result = gridsample.interpolate(image, (7, 4, 11), mode="cubic", rounding=rounding)
    expected = image
    for size in ((5, 9, 11), (5, 4, 11), (7, 4, 11)):
        expected = gridsample.interpolate(expected, size, mode="cubic")
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == dtype


def test_bytes_of_splines_are_rounded_axis_by_axis() -> None:
    image = extremes(1, 1, 9, 12)
    result = gridsample.interpolate(image, (20, 20), mode="spline3", rounding="pillow")
    across = gridsample.interpolate(image, (9, 20), mode="spline3")
    expected = gridsample.interpolate(across, (20, 20), mode="spline3")
    np.testing.assert_array_equal(result, expected)


def test_copies_and_floats_are_not_rounded() -> None:
    image = extremes(1, 3, 9, 12)
    for pixels, mode in ((image, "nearest"), (image / np.float32(7), "cubic")):
        expected = gridsample.interpolate(pixels, (20, 7), mode=mode)
        result = gridsample.interpolate(pixels, (20, 7), mode=mode, rounding="pillow")
        np.testing.assert_array_equal(result, expected)


def test_results_do_not_depend_on_pieces() -> None:
    image = extremes(2, 3, 70, 50)
    options: dict[str, Any] = {"mode": "cubic", "antialias": True, "rounding": "pillow"}
    for size in ((40, 80), (20, 30)):
        expected = gridsample.interpolate(image, size, threads=1, **options)
        with pieces_of(500):
            parts = gridsample.interpolate(image, size, threads=2, **options)
        np.testing.assert_array_equal(parts, expected)


def test_results_do_not_depend_on_strides() -> None:
    """Few pixels are read, of which one axis has more: the order of axes is that of all."""
    image = extremes(1, 300, 200, 3)
    options = {"mode": "linear", "rounding": "pillow", "channel_axis": -1}
    results = [
        gridsample.interpolate(view, (30, 150), **options)
        for view in (image, image[:, :, ::-1].copy()[:, :, ::-1])
    ]
    np.testing.assert_array_equal(*results)


def test_rounding_does_not_affect_derivatives() -> None:
    torch = pytest.importorskip("torch")
    image = torch.randn(1, 1, 5, 6, dtype=torch.float64, requires_grad=True)

    def function(pixels: Any) -> Any:
        return gridsample.interpolate(pixels, (3, 9), mode="cubic", rounding="torch")

    assert torch.autograd.gradcheck(function, image, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize(
    ("rounding", "error", "message"),
    [
        ("pilow", ValueError, "rounding 'pilow' is not known.*did you mean 'pillow'"),
        (None, TypeError, "rounding must be one of 'exact', 'pillow', 'torch', got None"),
    ],
)
def test_invalid_roundings_are_rejected(
    rounding: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gridsample.interpolate(extremes(1, 1, 4, 4), 2, rounding=rounding)
