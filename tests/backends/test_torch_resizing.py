"""Resizing of tensors: derivatives, batches, compilers, layouts."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import gridsample
import gridsample.backends.torch.resizing  # registers the operator
from gridsample.torch_compat import patch

OPERATOR = torch.ops.gridsample.resize.default


def image(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(len(shape))
    return torch.randn(*shape, dtype=dtype)


CASES: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((2, 2, 5), 7, {"mode": "lanczos3"}),
    ((1, 2, 4, 5), (7, 3), {"mode": ("cubic", "linear"), "align_corners": True}),
    ((1, 2, 6, 5), (3, 9), {"mode": "spline3", "antialias": True}),
    ((1, 1, 3, 4, 2), (2, 5, 3), {"mode": "area"}),
    ((2, 1, 3, 4), (5, 2), {"mode": "nearest"}),
    ((1, 1, 6, 4), (3, 7), {"mode": ("spline4", "spline5"), "align_corners": True}),
    ((1, 2, 6, 5), (3, 9), {"mode": "spline6", "antialias": True}),
    ((1, 1, 5, 4), (3, 6), {"mode": (gridsample.methods.keys(-0.6), "catmull-rom")}),
]
OWN = gridsample.methods.Method("own-table", ((1, 0, -3, 2), (0, 0, 3, -2)), first=0)


@pytest.mark.parametrize(("shape", "size", "options"), cases.slow_after(4, CASES))
@pytest.mark.parametrize("dtype", cases.slow_after(1, [torch.float64, torch.complex128]))
def test_derivatives_of_both_modes_and_their_batches(
    shape: tuple[int, ...], size: Any, options: dict[str, Any], dtype: torch.dtype
) -> None:
    def function(tensor: Tensor) -> Tensor:
        result: Tensor = gridsample.interpolate(tensor, size, **options)
        return result

    leaf = image(*shape, dtype=dtype).requires_grad_()
    everything = {"check_forward_ad": True, "check_batched_grad": True}
    assert torch.autograd.gradcheck(function, leaf, check_batched_forward_grad=True, **everything)
    assert torch.autograd.gradgradcheck(function, leaf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(("shape", "size"), [((2, 3, 9), 5), ((2, 3, 6, 7), (9, 4))], ids=str)
def test_training_steps_are_prepared_once(
    shape: tuple[int, ...], size: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the memory layouts, and with the bits of the operator."""

    def operator(tensor: Tensor) -> Tensor:
        with torch.enable_grad(), monkeypatch.context() as patched:
            patched.setattr(gridsample.backends.torch.resizing, "prepared", lambda *_: None)
            result: Tensor = gridsample.interpolate(tensor, size, threads=1, **options)
        return result

    for options in ({"mode": "linear"}, {"mode": "cubic", "align_corners": True}):
        for last in (False, True) if len(shape) == 4 else (False,):
            pixels = image(*shape, dtype=dtype)
            leaf = pixels.contiguous(memory_format=torch.channels_last) if last else pixels
            leaf = leaf.clone().requires_grad_()
            first, other = gridsample.interpolate(leaf, size, **options), operator(leaf)
            assert type(first.grad_fn).__name__ == "EagerResizeBackward"
            assert type(other.grad_fn).__name__ == "LinearBackward"
            dense, single = torch.randn_like(first), torch.ones((), dtype=dtype)
            for upstream in (dense, single.expand_as(first), dense.mT.clone().mT):
                (mine,) = torch.autograd.grad(first, leaf, upstream, retain_graph=True)
                (theirs,) = torch.autograd.grad(other, leaf, upstream, retain_graph=True)
                torch.testing.assert_close(mine, theirs)


def test_double_backward_propagates_through_later_operations() -> None:
    leaf = image(1, 1, 4, 4).requires_grad_()
    out = gridsample.interpolate(leaf, 7, mode="cubic").pow(3).sum()
    (grad,) = torch.autograd.grad(out, leaf, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), leaf)
    matrix = torch.autograd.functional.jacobian(
        lambda x: gridsample.interpolate(x, 7, mode="cubic").flatten(), leaf.detach()
    ).reshape(49, 16)
    x = leaf.detach().flatten()
    first = matrix.T @ (3 * (matrix @ x) ** 2)
    expected = 2 * matrix.T @ (6 * (matrix @ x) * (matrix @ first))
    torch.testing.assert_close(second.flatten(), expected)


def test_vmap_and_jacobians() -> None:
    many = image(3, 2, 2, 4, 5)

    def function(tensor: Tensor) -> Tensor:
        result: Tensor = gridsample.interpolate(tensor, (3, 8), mode="bilinear")
        return result

    looped = torch.stack([function(single) for single in many])
    torch.testing.assert_close(torch.vmap(function)(many), looped)
    moved = torch.vmap(function, in_dims=2, out_dims=1)(many.movedim(0, 2))
    torch.testing.assert_close(moved, looped.movedim(0, 1))
    single = many[0, :1, :1]
    forward = torch.func.jacfwd(function)(single)
    torch.testing.assert_close(forward, torch.func.jacrev(function)(single))
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(lambda x: function(x).square().sum()))(many),
        torch.stack(
            [torch.func.grad(lambda x: function(x).square().sum())(single) for single in many]
        ),
    )


def test_the_adjoint_identity_in_float32() -> None:
    for shape, size, options in CASES:
        x = image(*shape, dtype=torch.float32)
        y = gridsample.interpolate(x, size, **options)
        g = torch.randn_like(y)
        back = gridsample.interpolate_vjp(g, x, size, **options)
        left, right = (g.double() * y.double()).sum(), (back.double() * x.double()).sum()
        assert abs(left - right) <= 1e-5 * g.norm() * y.norm()


def test_operator_passes_opcheck() -> None:
    leaf = image(2, 3, 5, 7).requires_grad_()
    for transposed in (False, True):
        methods, scales = [OWN.text, "spline2"], [0.0, 1.3]
        arguments = (leaf, [4, 9], methods, False, False, scales, transposed)
        if transposed:  # then 5 x 7 are the outputs, and 4 x 9 the inputs
            arguments = (leaf, [4, 6], methods, False, False, [0.0, 1.3], True)
        assert set(torch.library.opcheck(OPERATOR, arguments).values()) == {"SUCCESS"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "dynamic", "last"),
    [
        ("aot_eager", False, False),
        ("aot_eager", True, True),
        ("inductor", True, False),
    ],
)
def test_compiles_without_graph_breaks(backend: str, dynamic: bool, last: bool) -> None:
    def function(tensor: Tensor) -> Tensor:
        small = gridsample.interpolate(tensor * 2, scale_factor=0.8, mode=OWN, antialias=True)
        small = gridsample.interpolate(small, scale_factor=0.6, mode="area")
        large: Tensor = gridsample.interpolate(
            small, (9, 8), mode=("cubic", "linear"), align_corners=True
        )
        return large.sin()

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend=backend)
    for spatial in ((5, 7), (6, 9)):
        tensor = image(2, 3, *spatial, dtype=torch.float32)
        if last:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        tensor.requires_grad_()
        results = []
        for call in (compiled, function):
            out = call(tensor)
            results.append([out, *torch.autograd.grad(out.sum(), tensor)])
        for mine, eager in zip(*results, strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-5, atol=1e-5)
            assert mine.stride() == eager.stride()


def layouts(rank: int) -> dict[str, Tensor]:
    """Images (2, 3, 5, 6, ...) with contiguous and with interleaved channels."""
    back = (0, rank + 1, *range(1, rank + 1))
    base = torch.rand(4, *(10, 12, 8)[:rank], 6)
    images = {
        "dense": base[..., :3].contiguous().permute(back),
        "every other column": base[..., ::2, :3].contiguous().permute(back)[..., ::2],
        "some channels": base.permute(back)[:, :3],
        "one channel": base[..., :1].contiguous().permute(back)[..., ::2],
        "a part": base.permute(back)[..., 1:4],
        "channels first, every other column": base.permute(back).contiguous()[..., ::2],
        "one channel first": base.permute(back).contiguous()[:, :1, ..., ::2],
        "one pixel": torch.rand(2, 3, *[1] * rank),
        "transposed": base.permute(back).contiguous().transpose(-1, 1),
    }
    return images


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_results_have_the_memory_format_of_torch(rank: int, strict: bool) -> None:
    """Also where there are gaps between the pixels of a channels-last image."""
    linear = {2: "bilinear", 3: "trilinear"}[rank]
    for name, strided in layouts(rank).items():
        for mode in ("nearest", linear, "area")[: 3 if rank == 2 or strict else 2]:
            theirs = functional.interpolate(strided, scale_factor=2, mode=mode)
            with patch(strict=strict):
                ours = functional.interpolate(strided, scale_factor=2, mode=mode)
            assert ours.stride() == theirs.stride(), (name, mode)
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.float16])
def test_strided_images_of_every_kind_of_dtype(dtype: torch.dtype) -> None:
    strided = (torch.rand(2, 9, 20, 3) * 200).to(dtype).permute(0, 3, 1, 2)[..., ::2]
    for mode in ("nearest", "bilinear"):
        ours = gridsample.interpolate(strided, (7, 8), mode=mode)
        assert ours.is_contiguous(memory_format=torch.channels_last)
        dense = gridsample.interpolate(strided.contiguous(), (7, 8), mode=mode)
        torch.testing.assert_close(ours, dense, rtol=0, atol=1 if dtype == torch.uint8 else 0)


def test_exported_programs_know_custom_methods() -> None:
    class Half(torch.nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            result: Tensor = gridsample.interpolate(pixels, (3, 4), mode=OWN, antialias=True)
            return result

    pixels = image(1, 2, 6, 8)
    program = torch.export.export(Half(), (pixels,))
    torch.testing.assert_close(program.module()(pixels), Half()(pixels), rtol=0, atol=0)
    spelled = [node.args[2] for node in program.graph.nodes if node.target is OPERATOR]
    assert spelled == [[OWN.text, OWN.text]]


@pytest.mark.covering
@pytest.mark.parametrize("mode", ["spline2", "spline7", "lanczos4", OWN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.complex64])
def test_new_methods_match_arrays(mode: Any, dtype: torch.dtype) -> None:
    pixels = (image(2, 3, 9, 7).abs() * 50).to(dtype)
    for smooth in (False, True):
        tensor = gridsample.interpolate(pixels, (4, 9), mode=mode, antialias=smooth)
        array = gridsample.interpolate(pixels.numpy(), (4, 9), mode=mode, antialias=smooth)
        np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("mode", cases.slow_after(1, ["linear", "nearest", "cubic"]))
def test_bfloat16_in_any_memory_order(mode: str) -> None:
    pixels = image(2, 3, 12, 10).to(torch.bfloat16)
    views = (
        pixels[..., ::2],
        pixels[:, :, ::2],
        pixels.transpose(2, 3),
        pixels.movedim(1, -1)[:, :3],
    )
    for view in views:
        result = gridsample.interpolate(view, size=(7, 9), mode=mode)
        expected = gridsample.interpolate(view.contiguous(), size=(7, 9), mode=mode)
        torch.testing.assert_close(result, expected, rtol=2**-7, atol=2**-9)


def test_arrays_and_tensors_agree() -> None:
    for dtype in (torch.float32, torch.uint8, torch.int16, torch.bool, torch.complex64):
        pixels = (image(2, 3, 6, 5).abs() * 9).to(dtype)
        for axis in (1, -1):
            tensor = gridsample.interpolate(pixels, (4, 9), mode="mitchell", channel_axis=axis)
            array = gridsample.interpolate(
                pixels.numpy(), (4, 9), mode="mitchell", channel_axis=axis
            )
            assert tensor.dtype == dtype
            np.testing.assert_array_equal(tensor.numpy(), array)
    half = image(1, 1, 6).to(torch.bfloat16)
    exact = gridsample.interpolate(half.double(), 17, mode="linear")
    out = gridsample.interpolate(half, 17, mode="linear")
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, exact.bfloat16(), rtol=2**-7, atol=0)


def test_conjugate_views_and_meta_tensors() -> None:
    pixels = image(1, 2, 4, 5, dtype=torch.complex128)
    out = gridsample.interpolate(pixels.conj(), 3, mode="linear")
    torch.testing.assert_close(out, gridsample.interpolate(pixels, 3, mode="linear").conj())
    meta = torch.empty(2, 3, 4, 5, device="meta", dtype=torch.int16)
    assert gridsample.interpolate(meta, scale_factor=2).shape == (2, 3, 8, 10)
