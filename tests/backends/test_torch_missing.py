"""Missing pixels and weights of tensors: derivatives, transforms, dtypes."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

import gridsample
from gridsample.nn import GridSample

IGNORE = {"missing": "ignore"}


def random_inputs(
    rng: np.random.Generator, shape: tuple[int, ...], weighted: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """An image, its missing pixels, and weights."""
    image = torch.tensor(cases.pixels(rng, shape), requires_grad=True)
    hole = torch.tensor(rng.random(shape) < 0.3)
    return image, hole, torch.tensor(rng.uniform(0.5, 2, weighted), requires_grad=True)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(
    ("mode", "boundary", "channels"),
    [("bicubic", "zeros", 1), ("bilinear", "missing", 2), ("bicubic", ("missing", "constant"), 1)],
)
def test_derivatives_of_both_orders(mode: str, boundary: Any, channels: int) -> None:
    rng = cases.generator("torch missing", mode, str(boundary))
    image, hole, weights = random_inputs(rng, (1, 2, 4, 5), (1, channels, 4, 5))
    grid = torch.tensor(rng.uniform(-1.2, 1.2, (1, 3, 2)), requires_grad=True)

    def sample(image: Tensor, grid: Tensor, weights: Tensor) -> Tensor:
        image = torch.where(hole, torch.nan, image)
        result = gridsample.grid_sample(
            image, grid, mode, boundary, weights=weights, min_weight=0.2, **IGNORE
        )
        return result.nan_to_num(0)

    inputs = image, grid, weights
    assert torch.autograd.gradcheck(sample, inputs, fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(sample, inputs, fast_mode=True)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "boundary"), [("bilinear", "zeros"), ("bicubic", "missing")])
def test_derivatives_of_means_computed_by_kernels(mode: str, boundary: str) -> None:
    rng = cases.generator("torch missing", "kernels", mode)
    image, hole, _ = random_inputs(rng, (1, 2, 4, 5), (1,))
    grid = torch.tensor(rng.uniform(-1.2, 1.2, (1, 3, 2)), requires_grad=True)
    options: Any = {"padding_mode": boundary, "min_weight": 0.2, **IGNORE}

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        image = torch.where(hole, torch.nan, image)
        return gridsample.grid_sample(image, grid, mode, **options).nan_to_num(0)

    def mapped(image: Tensor, grid: Tensor) -> Tensor:
        image = torch.where(hole, torch.nan, image).movedim(1, -1)
        result = gridsample.affine_sample(
            image, grid[:, :2], (1, 2, 3, 3), mode, channel_axis=-1, **options
        )
        return result.nan_to_num(0)

    theta = torch.tensor(rng.uniform(-1, 1, (1, 2, 3)), requires_grad=True)
    for function, points in ((sample, grid), (mapped, theta)):
        inputs = image, points
        assert torch.autograd.gradcheck(function, inputs, fast_mode=True, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
    bare = torch.where(hole, torch.nan, image).detach(), grid.detach()
    expected = gridsample.grid_sample(*(array.numpy() for array in bare), mode, **options)
    np.testing.assert_array_equal(gridsample.grid_sample(*bare, mode, **options).numpy(), expected)


@pytest.mark.slow
def test_derivatives_of_affine_maps_resizing_and_splatting() -> None:
    rng = cases.generator("torch missing", "others")
    image, hole, weights = random_inputs(rng, (1, 2, 4, 5), (1, 1, 4, 5))
    theta = torch.tensor(rng.uniform(-1, 1, (1, 2, 3)), requires_grad=True)

    def mapped(image: Tensor, theta: Tensor, weights: Tensor) -> Tensor:
        image = torch.where(hole, torch.nan, image)
        result = gridsample.affine_sample(image, theta, (1, 2, 3, 3), weights=weights, **IGNORE)
        return result.nan_to_num(0)

    def resized(image: Tensor, weights: Tensor) -> Tensor:
        image = torch.where(hole, torch.nan, image)
        options = {"mode": "bilinear", "antialias": True}
        result = gridsample.interpolate(image, (3, 7), weights=weights, **options, **IGNORE)
        return result.nan_to_num(0)

    def splatted(values: Tensor, weights: Tensor) -> Tensor:
        values = torch.where(hole, torch.nan, values).flatten(2)
        grid = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(1, 20, 2)
        options = {"weights": weights.flatten(2), "normalize": True}
        return gridsample.splat(values, grid, (3, 3), **options, **IGNORE)

    for function, inputs in (
        (mapped, (image, theta, weights)),
        (resized, (image, weights)),
        (splatted, (image, weights)),
    ):
        assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["missing", "antisymmetric", ("missing", "zeros")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_match_arrays(boundary: Any, dtype: torch.dtype) -> None:
    rng = cases.generator("torch missing", str(boundary), str(dtype))
    image, hole, weights = random_inputs(rng, (1, 2, 4, 5), (2, 2, 4, 5))
    image = torch.where(hole, torch.nan, image).to(dtype).detach().requires_grad_()
    grid = torch.tensor(rng.uniform(-1.2, 1.2, (2, 3, 2)), requires_grad=True)
    options: Any = {"padding_mode": boundary, "min_weight": 0.1, **IGNORE}
    result = gridsample.grid_sample(image, grid, weights=weights, **options)
    upstream = torch.tensor(cases.pixels(rng, result.shape, str(dtype).removeprefix("torch.")))
    by_autograd = torch.autograd.grad(result, (image, grid, weights), upstream)
    bare = [tensor.detach() for tensor in (upstream, image, grid)]
    mine = gridsample.grid_sample_vjp(*bare, weights=weights.detach(), **options)
    arrays = [array.numpy() for array in bare]
    theirs = gridsample.grid_sample_vjp(*arrays, weights=weights.detach().numpy(), **options)
    for autograd, two, three in zip(by_autograd, mine, theirs, strict=True):
        torch.testing.assert_close(two, autograd)
        torch.testing.assert_close(torch.tensor(three), autograd)
    assert not by_autograd[0][hole].any()


def test_invalid_points_do_not_contaminate_gradients() -> None:
    image = torch.tensor([[[1.0, torch.nan, 3.0]]], requires_grad=True)
    grid = torch.tensor([[[0.1], [torch.nan], [0.9]]], requires_grad=True)
    result = gridsample.grid_sample(image, grid, padding_mode="missing", **IGNORE)
    assert result.isnan()[0, 0, 1] and not result.isnan()[0, 0, 2]
    result[~result.isnan()].sum().backward()
    assert image.grad.isfinite().all() and grid.grad.isfinite().all()


@pytest.mark.parametrize("channels", cases.slow_after(1, [1, 5]))
def test_transforms_sample_the_same_bits_where_nothing_is_missing(channels: int) -> None:
    rng = cases.generator("torch missing", channels)
    images = torch.tensor(cases.pixels(rng, (3, 1, channels, 13, 11), "float32"))
    grid = torch.tensor(rng.uniform(-1.2, 1.2, (1, 9, 2)).astype(np.float32))

    def unweighted(image: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid)

    def ignoring(image: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, **IGNORE)

    assert torch.equal(vmap(ignoring)(images), vmap(unweighted)(images))
    images[1, 0, 0, 3, 4] = torch.nan
    expected = torch.stack([ignoring(image) for image in images])
    torch.testing.assert_close(vmap(ignoring)(images), expected, equal_nan=True)
    compiled = torch.compile(ignoring, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images[1]), expected[1], equal_nan=True)
    assert torch.equal(compiled(images[0]), unweighted(images[0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8])
def test_narrow_dtypes_are_divided_in_full_precision(dtype: torch.dtype) -> None:
    rng = cases.generator("torch missing", str(dtype))
    image = torch.tensor(rng.uniform(0, 200, (1, 2, 5, 6))).to(dtype)
    weights, grid = torch.tensor(rng.random((1, 1, 5, 6)) < 0.6), rng.uniform(-1, 1, (1, 9, 2))
    options: Any = {"padding_mode": "missing", "weights": weights}
    grids = torch.tensor(grid)
    expected = gridsample.grid_sample(image.double(), grids, **options)
    result = gridsample.grid_sample(image, grids, **options)
    assert result.dtype == dtype
    if dtype == torch.uint8:
        assert torch.equal(result.double(), expected.nan_to_num(0).round())
    else:
        torch.testing.assert_close(result, expected.to(dtype), equal_nan=True)
    if dtype != torch.uint8:
        image[0, 0, 2, 2] = torch.nan
        result = gridsample.grid_sample(image, grids, **IGNORE)
        expected = gridsample.grid_sample(image.double(), grids, **IGNORE)
        torch.testing.assert_close(result, expected.to(dtype), equal_nan=True)


def test_the_module_takes_weights() -> None:
    rng = cases.generator("torch missing", "module")
    image, hole, weights = random_inputs(rng, (1, 2, 4, 5), (1, 1, 4, 5))
    image, grid = torch.where(hole, torch.nan, image), torch.rand(1, 3, 2, dtype=torch.float64)
    module = GridSample(padding_mode="missing", missing="ignore", min_weight=0.3)
    assert "missing='ignore', min_weight=0.3" in repr(module)
    options: Any = {"padding_mode": "missing", "min_weight": 0.3, **IGNORE}
    torch.testing.assert_close(
        module(image, grid, weights),
        gridsample.grid_sample(image, grid, weights=weights, **options),
        equal_nan=True,
    )
    with pytest.raises(ValueError, match="missing 'skip' is not known"):
        GridSample(missing="skip")


@pytest.mark.parametrize(
    "options", [{}, IGNORE, {"padding_mode": ("missing", "constant"), **IGNORE}], ids=str
)
def test_batches_of_gradients_are_those_one_by_one(options: dict[str, Any]) -> None:
    rng = cases.generator("torch missing", "batched", str(options))
    image, _, weights = random_inputs(rng, (1, 2, 4, 5), (1, 1, 4, 5))
    grid = torch.tensor(rng.uniform(-1.2, 1.2, (1, 3, 2)), requires_grad=True)
    inputs = image, grid, weights

    def sample(image: Tensor, grid: Tensor, weights: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, weights=weights, **options)

    one_by_one = torch.autograd.functional.jacobian(sample, inputs)
    vectorized = torch.autograd.functional.jacobian(sample, inputs, vectorize=True)
    result = sample(*inputs)
    upstream = torch.eye(result.numel(), dtype=result.dtype).reshape(-1, *result.shape)
    batched = torch.autograd.grad(result, inputs, upstream, is_grads_batched=True)
    for first, second, third in zip(one_by_one, vectorized, batched, strict=True):
        torch.testing.assert_close(first, second)
        torch.testing.assert_close(first.reshape(third.shape), third)


def test_batches_of_second_derivatives_over_footprints() -> None:
    rng = cases.generator("torch footprints", "batched")
    image = torch.tensor(cases.pixels(rng, (1, 1, 5, 6)), requires_grad=True)
    grid = torch.tensor(rng.uniform(-1, 1, (1, 2, 3, 2)), requires_grad=True)
    samples = gridsample.grid_sample(image, grid, antialias=True)
    (gradient,) = torch.autograd.grad(samples.sum(), grid, create_graph=True)
    upstream = torch.eye(gradient.numel(), dtype=gradient.dtype).reshape(-1, *gradient.shape)
    (batched,) = torch.autograd.grad(
        gradient, image, upstream, is_grads_batched=True, retain_graph=True
    )
    for row, one in zip(upstream, batched, strict=True):
        (expected,) = torch.autograd.grad(gradient, image, row, retain_graph=True)
        torch.testing.assert_close(one, expected)
