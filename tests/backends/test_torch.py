"""Tensors through the public functions: values, types, layout and errors."""

from __future__ import annotations

import cases
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import gridsample

SIZES = {1: (7,), 2: (5, 7), 3: (3, 5, 4)}


def image_and_grid(
    rank: int, dtype: torch.dtype = torch.float64, grid_name: str = "random", corners: bool = False
) -> tuple[Tensor, Tensor]:
    rng = cases.generator(rank, grid_name)
    image = torch.from_numpy(cases.pixels(rng, (2, 3, *SIZES[rank]))).to(dtype)
    grid = torch.from_numpy(cases.GRIDS[grid_name](rng, SIZES[rank], corners, 2)).to(dtype)
    return image, grid


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    upstream = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad(output, inputs, upstream)


@pytest.mark.covering
@pytest.mark.parametrize("grid_name", ["random", "identity", "far"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize(
    ("rank", "mode"),
    [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")],
)
def test_values_and_gradients_match_torch(
    rank: int, mode: str, boundary: str, corners: bool, grid_name: str
) -> None:
    image, grid = (
        t.requires_grad_() for t in image_and_grid(rank, grid_name=grid_name, corners=corners)
    )
    ours = gridsample.grid_sample(image, grid, mode, boundary, corners)
    theirs = functional.grid_sample(image, grid, mode, boundary, corners)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (by_image, by_grid), expected = gradients(ours, image, grid), gradients(theirs, image, grid)
    torch.testing.assert_close(by_image, expected[0], rtol=1e-12, atol=1e-12)
    if (rank, grid_name) != (
        3,
        "identity",
    ):  # there a rounding decides on which side of a pixel one is
        torch.testing.assert_close(by_grid, expected[1], rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_tensors_match_arrays(rank: int, last: bool) -> None:
    image, grid = image_and_grid(rank, torch.float32)
    axis = -1 if last else 1
    image = image.movedim(1, -1).contiguous() if last else image
    modes = ("linear", "cubic", "nearest")[:rank]
    ours = gridsample.grid_sample(image, grid, modes, "border", channel_axis=axis)
    arrays = gridsample.grid_sample(image.numpy(), grid.numpy(), modes, "border", channel_axis=axis)
    np.testing.assert_array_equal(ours.numpy(), arrays)
    assert ours.is_contiguous()
    upstream = torch.ones_like(ours)
    for mine, other in zip(
        gridsample.grid_sample_vjp(upstream, image, grid, modes, "border", channel_axis=axis),
        gridsample.grid_sample_vjp(
            upstream.numpy(), image.numpy(), grid.numpy(), modes, "border", channel_axis=axis
        ),
        strict=True,
    ):
        np.testing.assert_array_equal(mine.numpy(), other)


def test_vjp_computes_what_is_needed_and_can_be_differentiated() -> None:
    image, grid = image_and_grid(2)
    upstream = torch.ones(2, 3, *grid.shape[1:-1], dtype=torch.float64)
    assert gridsample.grid_sample_vjp(upstream, image, grid, need_grid=False)[1] is None
    assert gridsample.grid_sample_vjp(upstream, image, grid, need_input=False)[0] is None
    image.requires_grad_()
    _, by_grid = gridsample.grid_sample_vjp(upstream, image, grid)
    assert torch.autograd.grad(by_grid.sum(), image)[0].abs().sum() > 0


# Types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image_type", "grid_type"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.bfloat16),
        (torch.complex64, torch.float32),
    ],
    ids=str,
)
def test_image_and_grid_may_have_different_dtypes(
    image_type: torch.dtype, grid_type: torch.dtype
) -> None:
    image, grid = image_and_grid(2)
    image, grid = (
        (image * (1 + 1j) if image_type.is_complex else image).to(image_type),
        grid.to(grid_type),
    )
    wide = torch.complex128 if image_type.is_complex else torch.float64
    low, exact = (image, grid), (image.to(wide), grid.double())
    outputs = []
    for pair in (low, exact):
        for tensor in pair:
            tensor.requires_grad_()
        out = gridsample.grid_sample(*pair)
        outputs.append((out, *torch.autograd.grad(out.abs().sum(), pair)))
    assert [t.dtype for t in outputs[0]] == [image_type, image_type, grid_type]
    error = torch.finfo(image_type).eps
    for mine, truth in zip(*outputs, strict=True):
        assert (mine.to(truth.dtype) - truth).abs().max() <= 8 * error * truth.abs().max()


@pytest.mark.slow
def test_integer_image_has_a_gradient_in_the_grid() -> None:
    image = (torch.arange(24).reshape(1, 1, 4, 6) * 10).to(torch.uint8)
    grid = torch.tensor([[[[0.1, 0.2], [-0.3, 0.4]]]], requires_grad=True)
    out = gridsample.grid_sample(image, grid)
    assert out.dtype == torch.uint8 and not out.requires_grad
    ones = torch.ones(out.shape)
    none, by_grid = gridsample.grid_sample_vjp(ones, image, grid, need_input=False)
    (expected,) = torch.autograd.grad(gridsample.grid_sample(image.float(), grid).sum(), grid)
    assert none is None
    torch.testing.assert_close(by_grid, expected, rtol=1e-5, atol=1e-4)
    with pytest.raises(TypeError, match=r"input has dtype torch\.uint8, which has no grad"):
        gridsample.grid_sample_vjp(ones, image, grid)


def test_conjugate_and_negative_views_are_resolved() -> None:
    image, grid = image_and_grid(2)
    turned = torch.complex(image, image.flip(-1))
    expected = gridsample.grid_sample(turned, grid)
    torch.testing.assert_close(gridsample.grid_sample(turned.conj(), grid), expected.conj())
    torch.testing.assert_close(gridsample.grid_sample(turned.conj().imag, grid), -expected.imag)


def test_autocast_casts_nothing() -> None:
    image, grid = image_and_grid(2, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = gridsample.grid_sample(image.bfloat16(), grid)
        assert gridsample.grid_sample(image, grid).dtype == torch.float32
    assert out.dtype == torch.bfloat16


# Layout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [2, 3])
def test_channels_last_stays_channels_last(rank: int) -> None:
    form = {2: torch.channels_last, 3: torch.channels_last_3d}[rank]
    image, grid = (t.requires_grad_() for t in image_and_grid(rank))
    rolled = image.detach().to(memory_format=form).requires_grad_()
    out = gridsample.grid_sample(rolled, grid, "bicubic")
    assert out.is_contiguous(memory_format=form)
    (by_image,) = torch.autograd.grad(out.square().sum(), rolled)
    assert by_image.is_contiguous(memory_format=form)
    expected = gridsample.grid_sample(image, grid, "bicubic")
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        by_image, torch.autograd.grad(expected.square().sum(), image)[0], rtol=1e-12, atol=1e-12
    )


@pytest.mark.slow
def test_strided_tensors_are_not_copied() -> None:
    image, grid = image_and_grid(2)
    expected = gridsample.grid_sample(image, grid)
    wide = torch.full((2, 3, 10, 14), torch.nan, dtype=torch.float64)
    wide[:, :, ::2, 1::2] = image
    with_gaps = torch.full((*grid.shape[:-1], 4), torch.nan, dtype=torch.float64)
    with_gaps[..., ::2] = grid
    for view in (wide[:, :, ::2, 1::2], image.transpose(2, 3).contiguous().transpose(2, 3)):
        leaf = view.detach().requires_grad_()
        out = gridsample.grid_sample(leaf, with_gaps[..., ::2])
        torch.testing.assert_close(out, expected, rtol=1e-14, atol=1e-14)
        (gradient,) = torch.autograd.grad(out.sum(), leaf)
        assert gradient.is_contiguous()


@pytest.mark.parametrize(("items", "grids"), [(1, 3), (3, 1)])
def test_items_are_broadcast_and_gradients_summed(items: int, grids: int) -> None:
    image, grid = image_and_grid(2)
    image = image[:1] * torch.arange(1, items + 1).reshape(-1, 1, 1, 1)
    grid = grid[:1] * torch.linspace(0.5, 1, grids).reshape(-1, 1, 1, 1)
    both = image.requires_grad_(), grid.requires_grad_()
    full = (t.expand(3, -1, -1, -1) for t in both)
    out = gridsample.grid_sample(*both, "bicubic")
    expected = functional.grid_sample(*full, "bicubic", align_corners=False)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    for mine, other in zip(gradients(out, *both), gradients(expected, *both), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", range(4))
def test_gradients_of_tensors_that_are_expanded(axis: int) -> None:
    image, grid = image_and_grid(2)
    leaf = image.narrow(axis, 0, 1).clone().requires_grad_()
    expanded = leaf.expand(image.shape)
    mine = gridsample.grid_sample(expanded, grid).square().sum()
    other = functional.grid_sample(expanded, grid, align_corners=False).square().sum()
    for result, expected in zip(gradients(mine, leaf), gradients(other, leaf), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("items", "grids"), [(0, 1), (1, 0), (0, 0)])
def test_empty_batches(items: int, grids: int) -> None:
    image, grid = image_and_grid(2)
    image, grid = image[:items].requires_grad_(), grid[:grids].requires_grad_()
    out = gridsample.grid_sample(image, grid)
    assert out.shape == (0, 3, *grid.shape[1:-1])
    for gradient, tensor in zip(gradients(out, image, grid), (image, grid), strict=True):
        assert gradient.shape == tensor.shape and (gradient == 0).all()


def test_gradients_do_not_depend_on_the_threads() -> None:
    rng = cases.generator("threads")
    image = torch.from_numpy(cases.pixels(rng, (1, 2, 63, 65), "float32")).requires_grad_()
    grid = torch.from_numpy(rng.uniform(-1.1, 1.1, (1, 300, 301, 2)).astype(np.float32))
    grid.requires_grad_()
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(gradients(gridsample.grid_sample(image, grid), image, grid))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", [*cases.MODES, "spline3"])
def test_second_derivatives_of_all_gradients_together(mode: str, dtype: torch.dtype) -> None:
    """Of a function of both gradients; those of `nearest` depend on the upstream gradient alone."""
    generator = torch.Generator().manual_seed(1)
    shapes = (2, 3, 9, 8), (2, 4, 5, 2), (2, 3, 4, 5)
    # Eighths between -2 and 2, so that every dtype holds the same numbers.
    tensors = [(torch.rand(size, generator=generator) * 32 - 16).round() / 8 for size in shapes]
    tensors[1] = tensors[1] / 2 + 1 / 32
    results = []
    for kind in (dtype, torch.float64):
        leaves = [tensor.to(kind).requires_grad_() for tensor in tensors]
        out = gridsample.grid_sample(*leaves[:2], mode, "border", prefilter=False)
        first = torch.autograd.grad(out, leaves[:2], leaves[2], create_graph=True)
        total = sum((gradient.double() * gradient.double().cos()).sum() for gradient in first)
        results.append(torch.autograd.grad(total, leaves, materialize_grads=True))
    assert results[1][2].abs().max() > 0.1
    # Sums, in single precision, have 48 terms: 16 taps of three channels.
    roundings = 48 if dtype == torch.float32 else 16
    for mine, exact in zip(*results, strict=True):
        scale = max(1.0, float(exact.abs().max()))
        torch.testing.assert_close(
            mine.double(), exact, rtol=0, atol=roundings * torch.finfo(dtype).eps * scale
        )


# What is nowhere, and what is wrong ---------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize("mode", cases.MODES)
def test_invalid_points_are_nan_and_have_no_gradients(mode: str, boundary: str) -> None:
    image, grid = image_and_grid(2)
    grid[:, 0, 0] = torch.nan
    grid[:, 1, 1] = torch.inf
    image.requires_grad_(), grid.requires_grad_()
    out = gridsample.grid_sample(image, grid, mode, boundary)
    assert out[:, :, 0, 0].isnan().all()
    by_image, by_grid = torch.autograd.grad(out.nansum(), (image, grid), create_graph=True)
    assert by_image.isfinite().all() and by_grid.isfinite().all()
    assert (by_grid[:, 0, 0] == 0).all()
    (second,) = torch.autograd.grad((by_grid.square().sum() + by_image.square().sum()), grid)
    assert second.isfinite().all() and (second[:, 0, 0] == 0).all()


def test_errors_name_the_argument() -> None:
    image, grid = image_and_grid(2)
    with pytest.raises(TypeError, match=r"grid is a numpy\.ndarray"):
        gridsample.grid_sample(image, grid.numpy())
    with pytest.raises(TypeError, match="out is accepted with NumPy arrays only"):
        gridsample.grid_sample(image, grid, out=torch.empty(0))
    with pytest.raises(TypeError, match=r"grid has dtype int64"):
        gridsample.grid_sample(image, grid.long())
    with pytest.raises(TypeError, match=r"input has dtype torch\.float8_e5m2; accepted"):
        gridsample.grid_sample(image.to(torch.float8_e5m2), grid)
    with pytest.raises(ValueError, match=r"grid must be \(N, \*out, 2\)"):
        gridsample.grid_sample(image, grid[..., :1])
    with pytest.raises(ValueError, match="same N"):
        gridsample.grid_sample(image, grid.repeat(2, 1, 1, 1)[:3])
    with pytest.raises(ValueError, match="mode 'cubics' is not known"):
        gridsample.grid_sample(image, grid, "cubics")
    with pytest.raises(ValueError, match="one device"):
        gridsample.grid_sample(image, grid.to("meta"))
    with pytest.raises(ValueError, match="grad_output must have the output's shape"):
        gridsample.grid_sample_vjp(torch.ones(2, 3, 1, 1), image, grid)
    with pytest.raises(TypeError, match=r"grad_output has dtype torch\.int64"):
        gridsample.grid_sample_vjp(
            torch.ones(2, 3, *grid.shape[1:-1], dtype=torch.int64), image, grid
        )


def test_meta_tensors_have_the_right_shape() -> None:
    out = gridsample.grid_sample(
        torch.empty(1, 3, 5, 7, device="meta", dtype=torch.float16),
        torch.empty(4, 9, 2, device="meta"),
    )
    assert (out.shape, out.dtype, out.device.type) == ((4, 3, 9), torch.float16, "meta")


# Affine grids -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid:UserWarning")
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 5, 7), (2, 3, 4, 1, 7)])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str
)
def test_affine_grid_matches_torch(
    dtype: torch.dtype, tolerance: float, size: tuple[int, ...], corners: bool
) -> None:
    rank = len(size) - 2
    rng = cases.generator("theta", rank)
    theta = torch.from_numpy(rng.standard_normal((2, rank, rank + 1))).to(dtype).requires_grad_()
    ours, theirs = (
        gridsample.affine_grid(theta, size, corners),
        functional.affine_grid(theta, size, corners),
    )
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        gradients(ours, theta), gradients(theirs, theta), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(2, 3, 7), (2, 3, 5, 1), (2, 3, 4, 1, 7)], ids=str)
def test_affine_grid_graph_can_be_differentiated_twice(
    size: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Like that of torch's own, it saves nothing but sizes; nor does the gradient's."""
    rank = len(size) - 2
    theta = torch.randn(2, rank, rank + 1).to(dtype).requires_grad_()
    grid = gridsample.affine_grid(theta, size)
    upstream = torch.randn(grid.shape).to(dtype).requires_grad_()
    for create in (False, True):
        first, second = (
            torch.autograd.grad(grid, theta, upstream, retain_graph=keep, create_graph=create)[0]
            for keep in (None, True)
        )
        assert torch.equal(first, second)
    back = [torch.autograd.grad(first, upstream, theta)[0] for _ in range(2)]
    assert torch.equal(*back)
    assert torch.equal(back[0], gridsample.affine_grid(theta, size))  # linear, so the same again


def test_affine_grids_have_every_derivative() -> None:
    theta = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)

    def cube(theta: Tensor) -> Tensor:
        return gridsample.affine_grid(theta, (2, 1, 3, 2)) ** 3

    every = {"check_batched_grad": True, "check_fwd_over_rev": True, "check_rev_over_rev": True}
    torch.autograd.gradcheck(cube, theta, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(cube, theta, **every)
    torch.testing.assert_close(
        torch.func.hessian(lambda tensor: cube(tensor).sum())(theta),
        torch.autograd.functional.hessian(lambda tensor: cube(tensor).sum(), theta),  # type: ignore[no-untyped-call]
    )


def test_affine_grid_accepts_1d_and_half_precision_and_rejects_the_rest() -> None:
    theta = torch.tensor([[[2.0, 0.5]]], dtype=torch.bfloat16)
    grid = gridsample.affine_grid(theta, (1, 1, 3), align_corners=True)
    assert grid.dtype == torch.bfloat16
    assert grid.flatten().tolist() == [-1.5, 0.5, 2.5]
    with pytest.raises(TypeError, match=r"theta has dtype torch\.int64"):
        gridsample.affine_grid(theta.long(), (1, 1, 3))
    with pytest.raises(ValueError, match=r"theta must be \(N, D, D \+ 1\) = \(1, 2, 3\)"):
        gridsample.affine_grid(theta, (1, 1, 3, 3))
