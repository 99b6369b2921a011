"""Footprints of affine maps, which need no grid, and halved copies of images."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
import torch
from oracles import Array, assert_close, ulp
from torch.autograd import gradcheck, gradgradcheck

import gridsample
from gridsample.backends.numpy import NumPy
from gridsample.definitions.integers import saturated
from gridsample.kernels.sampling import halving


def peak_of(call: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a call, and its peak memory without the result, in bytes."""
    call()
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak - result.nbytes


def turned(shrink: float = 1.0) -> Array:
    """A rotation by 30 degrees, which shrinks images that are larger than outputs."""
    cos, sin = np.sqrt(3) / 2, 0.5
    return shrink * np.array([[[cos, -sin, 0.0123], [sin, cos, -0.037]]])


# Affine maps --------------------------------------------------------------------------------------


CALLS = [
    # image, N of the maps, out, mode, boundary, align_corners, coords, max_samples
    ((2, 2, 33), 1, (5,), "bicubic", "wrap", True, "normalized", 16),
    ((1, 2, 31, 38), 2, (7, 9), "bilinear", "zeros", False, "normalized", 16),
    ((2, 1, 31, 38), 2, (1, 6), "bilinear", "border", False, "normalized", 3),
    ((1, 1, 31, 38), 1, (6, 1), "bicubic", "border", True, "normalized", 2),
    ((1, 1, 31, 38), 1, (1, 9), "bilinear", "constant", False, "pixel", 16),
    ((1, 1, 53, 34), 2, (8, 16), "bilinear", "border", True, "normalized", 2),
    ((1, 1, 15, 17, 12), 2, (3, 4, 3), "bilinear", "mirror", False, "normalized", 3),
]


@pytest.mark.parametrize(
    "call",
    [pytest.param(call, marks=[pytest.mark.slow] * (i > 2)) for i, call in enumerate(CALLS)],
    ids=str,
)
def test_maps_are_sampled_and_differentiated_as_their_grid(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, items, out, mode, boundary, corners, coords, max_samples = call
    rng, rank = cases.generator("footprints of maps", str(call)), len(out)
    image = cases.pixels(rng, shape)
    theta = np.eye(rank, rank + 1) + 0.1 * rng.standard_normal((items, rank, rank + 1))
    if coords == "pixel":
        theta[:, :, :rank] *= 3.7
    size = max(items, shape[0]), shape[1], *out
    up = cases.pixels(rng, size)
    options: Any = {"mode": mode, "padding_mode": boundary, "align_corners": corners}
    options |= {"coords": coords, "antialias": True, "max_samples": max_samples}
    options |= {"fill_value": 1.5} if boundary == "constant" else {}

    def results() -> list[Array]:
        result = gridsample.affine_sample(image, theta, (items, *size[1:]), **options)
        each = [result]
        for name in ("attach", "detach"):
            each += gridsample.affine_sample_vjp(
                up, image, theta, (items, *size[1:]), **options, footprint=name
            )
        return each

    ours = results()
    monkeypatch.setattr(NumPy, "affine", lambda *arguments: None)
    monkeypatch.setattr(NumPy, "affine_backward", lambda *arguments: None)
    by_grid = results()
    assert (ours[0] != gridsample.affine_sample(image, theta, (items, *size[1:]))).any()
    for actual, two in zip(ours, by_grid, strict=True):
        assert_close(actual, two, 512 * ulp(float))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_maps_that_shrink_nothing_give_the_bits_of_plain_sampling(dtype: str) -> None:
    rng = cases.generator("footprints of maps", "bits")
    image, theta = cases.pixels(rng, (1, 2, 23, 23), np.float32), turned(0.9).astype(dtype)
    size = (1, 2, 23, 23)
    up = cases.pixels(rng, size, np.float32)
    expected = gridsample.affine_sample(image, theta, size, "bicubic")
    assert (
        gridsample.affine_sample(image, theta, size, "bicubic", antialias=True) == expected
    ).all()
    first = gridsample.affine_sample_vjp(up, image, theta, size)
    second = gridsample.affine_sample_vjp(up, image, theta, size, antialias=True)
    assert all((actual == two).all() for actual, two in zip(first, second, strict=True))


def test_maps_that_are_not_finite_have_no_footprint() -> None:
    rng = cases.generator("footprints of maps", "nan")
    image, theta = cases.pixels(rng, (1, 1, 20, 20)), np.repeat(turned(), 4, 0)
    theta[0, 0, 1], theta[1, 0, 2], theta[2, 1, 0] = np.nan, np.inf, -np.inf
    options: Any = {"padding_mode": "border", "antialias": True}
    result = gridsample.affine_sample(image, theta, (4, 1, 5, 5), **options)
    grid = gridsample.affine_grid(theta, (4, 1, 5, 5))
    assert_close(result, gridsample.grid_sample(image, grid, **options), 64 * ulp(float))
    assert np.isnan(result[0]).all() and np.isfinite(result[3]).all()


@pytest.mark.slow
def test_tensors_and_derivatives_of_maps() -> None:
    rng = cases.generator("footprints of maps", "tensors")
    pixels, maps, size = cases.pixels(rng, (2, 3, 17, 16)), turned(1.1), (1, 3, 5, 6)
    expected = gridsample.affine_sample(pixels, maps, size, antialias=True)
    result = gridsample.affine_sample(*map(torch.tensor, (pixels, maps)), size, antialias=True)
    assert (result.numpy() == expected).all()
    # Coordinates are not rounded to the dtype of maps.
    half = torch.tensor(maps).bfloat16()
    rough = gridsample.affine_sample(torch.tensor(pixels).float(), half, size, antialias=True)
    exact = gridsample.affine_sample(torch.tensor(pixels), half.double(), size, antialias=True)
    assert_close(rough.numpy(), exact.numpy(), 64 * ulp(np.float32))

    image = torch.tensor(cases.pixels(rng, (1, 1, 6, 7)), requires_grad=True)
    theta = torch.tensor(maps, requires_grad=True)
    for out in ((3, 2), (1, 2)):

        def sample(image: torch.Tensor, theta: torch.Tensor, out: Any = out) -> Any:
            return gridsample.affine_sample(
                image, theta, (1, 1, *out), antialias=True, max_samples=2
            )

        assert gradcheck(sample, (image, theta)) and gradgradcheck(sample, (image, theta))


def test_no_grid_of_a_map_is_in_memory() -> None:
    image = np.zeros((1, 3, 1024, 1024), np.uint8)
    theta, size = turned().astype(np.float32), (1, 3, 512, 512)
    _, peak = peak_of(
        lambda: gridsample.affine_sample(image, theta, size, antialias=True, threads=1)
    )
    assert peak < 2 << 20  # the size of the grid


# Halved images ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2048, 2043])
def test_small_integers_are_halved_in_little_memory(n: int) -> None:
    rng = cases.generator("halved", n)
    image = rng.integers(0, 256, (1, 1, n, n), np.uint8)
    image[..., : n // 2] = (image[..., : n // 2] > 127) * 255
    theta = turned().astype(np.float32)
    for out, share in ((80, 1 / 2), (40, 1 / 4)):  # the first and the second copy
        size = (1, 1, out, out)
        options: Any = {"padding_mode": "border", "antialias": True, "threads": 1}
        result, peak = peak_of(
            lambda size=size, options=options: gridsample.affine_sample(
                image, theta, size, **options
            )
        )
        assert peak < share * image.nbytes + (3 << 19)
        exact = gridsample.affine_sample(image.astype(np.float32), theta, size, **options)
        error = np.abs(result.astype(int) - np.rint(exact))
        assert error.max() <= 1 and (error == 0).mean() > 0.98
        if n == 2048 or out == 40:  # the same sums of the same copies
            assert (error == 0).all()


def test_images_are_halved_once_for_all_grids_but_not_for_splatting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, halved = cases.generator("halved", "once"), []
    resize = halving.Halves.resize

    def counted(halves: Any, image: Any, times: int, result: Any) -> None:
        if times > 0:  # the adjoint has no copies
            halved.append(times)
        resize(halves, image, times, result)

    monkeypatch.setattr(halving.Halves, "resize", counted)
    image, theta = cases.pixels(rng, (1, 2, 40, 40)), np.repeat(turned(), 3, 0)
    options: Any = {"antialias": True, "max_samples": 2}
    grid = gridsample.affine_grid(theta, (3, 2, 5, 5))
    sampled = gridsample.grid_sample(image, grid, **options)
    assert len(halved) == 1
    up = cases.pixels(rng, sampled.shape)
    gridsample.grid_sample_vjp(up, image, grid, **options)
    assert len(halved) == 2
    none = gridsample.grid_sample_vjp(up, image, grid, **options, need_input=False, need_grid=False)
    assert none == (None, None)
    # Only the grid's gradient depends on the image.
    gridsample.grid_sample_vjp(up, image, grid, **options, need_grid=False)
    ours = gridsample.splat(up, grid, (40, 40), **options)
    assert len(halved) == 2
    each = gridsample.grid_sample(np.repeat(image, 3, 0), grid, **options)
    np.testing.assert_allclose((ours * image).sum(), (each * up).sum(), rtol=1e-12)


def test_integers_saturate_at_limits_that_floats_do_not_have() -> None:
    values = np.array([2.0**63, np.inf, -np.inf, np.nan, 2.0**62])
    result = saturated(values, np.dtype(np.int64))
    assert result.tolist() == [2**63 - 1, 2**63 - 1, -(2**63), 0, 2**62]
    assert saturated(values, np.dtype(np.uint64))[1] == 2**64 - 1
    assert saturated(np.array([-1.0, 256.0]), np.dtype(np.uint8)).tolist() == [0, 255]
