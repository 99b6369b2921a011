"""interpolate against torch, Pillow and SciPy; bytes in fixed point."""

from __future__ import annotations

import itertools
import math
from typing import Any

import cases
import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image
from resized import METHODS, SHAPES
from torch.nn import functional

import gridsample

# Fixed point ------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 64, 48, 3), (23, 90)),
        ((2, 40, 30, 1), (80, 12)),
        ((1, 9, 300, 4), (9, 40)),
        ((1, 12, 11, 10, 2), (7, 15, 21)),
    ],
)
def test_bytes_are_within_one_of_the_real_result(
    shape: tuple[int, ...], size: tuple[int, ...], smooth: bool, method: str
) -> None:
    # Extremes, where weights below 0 overshoot most.
    rng = cases.generator("bytes", method, shape)
    image = rng.choice(np.array([0, 0, 255, 255, 1, 97], np.uint8), shape)
    options = {"mode": method, "antialias": smooth, "channel_axis": -1}
    out = gridsample.interpolate(image, size, **options).astype(int)
    exact = gridsample.interpolate(image.astype(float), size, **options)
    assert np.abs(out - np.clip(np.rint(exact), 0, 255)).max() <= 1


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("value", [0, 1, 127, 255])
def test_a_constant_byte_stays_constant(value: int) -> None:
    image = np.full((1, 3, 50, 41), value, np.uint8)
    for method, smooth in itertools.product(METHODS, (False, True)):
        out = gridsample.interpolate(image, (19, 97), mode=method, antialias=smooth)
        assert (out == value).all()


PILLOW = {
    "nearest": Image.Resampling.BOX,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
}


@pytest.mark.parametrize("method", PILLOW)
@pytest.mark.parametrize("size", [(20, 31), (64, 200), (129, 17), (1, 1)])
def test_antialiased_bytes_match_pillow(method: str, size: tuple[int, int]) -> None:
    # Pillow confines the numbers between two axes to 0 ... 255; in this range none is beyond.
    image = cases.generator(size).integers(64, 192, (83, 61, 3), np.uint8)
    theirs = np.array(Image.fromarray(image).resize(size[::-1], PILLOW[method])).astype(int)
    mine = gridsample.interpolate(image[None], size, mode=method, antialias=True, channel_axis=-1)
    assert np.abs(mine[0] - theirs).max() <= 1


# Other libraries --------------------------------------------------------------------------------


def torch_cases() -> list[tuple[int, str, dict[str, Any]]]:
    """The modes and options of `torch.nn.functional.interpolate`."""
    calls: list[tuple[int, str, dict[str, Any]]] = [
        (rank, mode, {}) for rank in (1, 2, 3) for mode in ("nearest", "nearest-exact", "area")
    ]
    for rank, mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")):
        calls += [(rank, mode, {"align_corners": align}) for align in (False, True)]
    calls += [(2, mode, {"antialias": True}) for mode in ("bilinear", "bicubic", "lanczos")]
    return calls


# All calls in slow runs, each with one of the types of 16 bits, and each mode with both of them.
@pytest.mark.parametrize(
    ("rank", "mode", "options", "dtype"),
    [
        pytest.param(*case, dtype, marks=[pytest.mark.slow] * ((i + k) % 16 != 0))
        for i, case in enumerate(torch_cases())
        for k, dtype in enumerate((torch.float64, torch.float32, torch.float16, torch.bfloat16))
        if k < 2 or (i + k) % 2 == 0
    ],
)
def test_forward_and_backward_match_torch(
    rank: int, mode: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    # Torch computes positions in single precision, except for doubles.
    eps = torch.finfo(dtype).eps
    if "antialias" in options and eps > 1e-6:
        with pytest.raises(NotImplementedError):  # once torch supports these, compare them
            functional.interpolate(torch.ones(1, 1, 4, 4, dtype=dtype), 2, mode=mode, **options)
        return
    tolerance = 1e-12 if dtype == torch.float64 else 16 * max(eps, 64 * 2.0**-24)
    scale = [0.6, 1.7, 2.3][:rank]
    for i, (spatial, size) in enumerate(SHAPES[rank]):
        # Sizes for every second shape and factors for the others; of 16 bits the other way around.
        both: tuple[dict[str, Any], ...] = ({"size": size}, {"scale_factor": scale})
        sizing = both[(i + (eps < 1e-6)) % 2]
        if "scale_factor" in sizing and min(math.floor(n * 0.6) for n in spatial) < 1:
            continue
        image = torch.randn(2, 3, *spatial, dtype=dtype)
        results = []
        for function in (gridsample.interpolate, functional.interpolate):
            leaf = image.clone().requires_grad_()
            out = function(leaf, mode=mode, **sizing, **options)
            grad = torch.autograd.grad(out, leaf, torch.ones_like(out))[0]
            # Torch's gradient uses the wrong factor for x here.
            wrong = (rank, mode) == (3, "nearest") and "scale_factor" in sizing
            results.append((out.detach(), out.detach() if wrong else grad))
        for mine, theirs in zip(*results, strict=True):
            assert mine.dtype == theirs.dtype
            # A gradient sums up as many terms as an input has outputs.
            bound = tolerance * max(1.0, float(theirs.abs().max()))
            torch.testing.assert_close(mine, theirs, rtol=0, atol=bound)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_bytes_match_torch(mode: str) -> None:
    torch.manual_seed(0)
    image = torch.randint(64, 192, (2, 3, 30, 41), dtype=torch.uint8)
    for last, smooth in itertools.product((False, True), (False, True)):
        if smooth and mode.startswith("nearest"):
            continue
        tensor = image.contiguous(memory_format=torch.channels_last) if last else image
        for size in ((17, 53), (60, 20), (30, 41)):
            options: dict[str, Any] = {"size": size, "mode": mode, "antialias": smooth}
            mine = gridsample.interpolate(tensor, **options)
            theirs = functional.interpolate(tensor, **options)
            # Both are within one of the exact result; nearest is exact.
            error = (mine.int() - theirs.int()).abs().max()
            assert error <= (0 if mode.startswith("nearest") else 1)
            assert mine.is_contiguous(memory_format=torch.channels_last) == last


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize(("align", "mode"), [(True, "mirror"), (False, "reflect")])
def test_splines_match_scipy(align: bool, mode: str, order: int) -> None:
    # SciPy's filter for "reflect" omits the reflection at the other end: 0.44 ** size.
    image = cases.pixels(cases.generator("zoom"), (47, 51))
    for factor in (2, 0.5, (1.5, 0.7)):
        zoomed = scipy.ndimage.zoom(image, factor, order=order, mode=mode, grid_mode=not align)
        mine = gridsample.interpolate(
            image[None, None], zoomed.shape, mode=f"spline{order}", align_corners=align
        )
        np.testing.assert_allclose(mine[0, 0], zoomed, rtol=0, atol=1e-13)
