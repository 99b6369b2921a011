"""Models that use torch's functions, scripted, traced and exported while these are patched.

What they do is written as other projects write it: sizes are taken from tensors, options are given
by name, and modules of torch's call the functions for them.
"""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import gridsample
from gridsample.torch_compat import patch

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
    pytest.mark.filterwarnings("ignore:`?nn.functional.upsample:UserWarning"),
]
STRICT = pytest.mark.parametrize("strict", [False, True])


class Warp(nn.Module):
    """A spatial transformer, followed by all calls of `interpolate` that projects script."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)
        self.again = nn.UpsamplingNearest2d(scale_factor=2.0)

    def forward(self, image: Tensor, theta: Tensor) -> Tensor:
        n, c, h, w = image.shape
        grid = functional.affine_grid(theta, [n, c, h * 2, w], align_corners=False)
        out = functional.grid_sample(
            image, grid, mode="bilinear", padding_mode="border", align_corners=False
        )
        out = self.again(self.up(out))
        out = functional.interpolate(out, size=[7, 5], mode="bicubic", align_corners=False)
        return functional.upsample(out, scale_factor=2.0)


def tensors(height: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(height)
    image = torch.rand(1, 2, height, 6, generator=generator)
    return image, torch.rand(1, 2, 3, generator=generator)


def check(model: Any, *heights: int) -> None:
    """A model's results match those of the unpatched model, for images of some heights."""
    for height in heights:
        tensors_used = tensors(height)
        torch.testing.assert_close(
            model(*tensors_used), Warp()(*tensors_used), rtol=1e-4, atol=1e-5
        )


def saved(model: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(model, file)
    file.seek(0)
    return torch.jit.load(file)


@STRICT
def test_models_can_be_scripted(strict: bool) -> None:
    before = torch.jit.script(Warp())
    with patch(strict=strict):
        model = torch.jit.script(Warp())
        for module in (model, copy.deepcopy(model), saved(model), before):
            check(module, 5, 8)
    check(model, 5)


@STRICT
def test_functions_can_be_scripted(strict: bool) -> None:
    """Each function alone, with every type of size that TorchScript supports."""

    def single_size(image: Tensor) -> Tensor:
        return functional.interpolate(image, size=3)

    def size_of_each_axis(image: Tensor) -> Tensor:
        return functional.interpolate(image, size=[3, 4], mode="bilinear", antialias=True)

    def factor(image: Tensor) -> Tensor:
        return functional.interpolate(
            image, scale_factor=1.5, mode="bicubic", recompute_scale_factor=True
        )

    def factors(image: Tensor) -> Tensor:
        return functional.interpolate(image, scale_factor=[1.5, 2.0], mode="area")

    def sample(image: Tensor) -> Tensor:
        grid = functional.affine_grid(torch.ones(1, 2, 3), image.shape, align_corners=True)
        return functional.grid_sample(image, grid, "nearest", "reflection", True)

    image = tensors()[0]
    with patch(strict=strict):
        for function in (single_size, size_of_each_axis, factor, factors, sample):
            theirs = torch.jit.script(function)(image)
            torch.testing.assert_close(theirs, function(image), rtol=1e-5, atol=1e-5)


@STRICT
def test_traced_models_stay_general(strict: bool) -> None:
    before = torch.jit.trace(Warp(), tensors())
    with patch(strict=strict):
        model = torch.jit.trace(Warp(), tensors())
        assert "gridsample::" not in str(model.graph)
        for module in (model, saved(model), before):
            check(module, 5, 8)
    check(model, 5)


@STRICT
def test_models_are_traced_symbolically(strict: bool) -> None:
    with patch(strict=strict):
        model = torch.fx.symbolic_trace(Warp())
        called = [node.target for node in model.graph.nodes]
        assert {functional.affine_grid, functional.grid_sample, functional.interpolate} <= {*called}
        check(model, 5, 8)
        check(copy.deepcopy(model), 5)
    check(model, 5)


@STRICT
def test_models_become_graphs_of_operators(strict: bool) -> None:
    with patch(strict=strict):
        model = make_fx(Warp(), tracing_mode="symbolic")(*tensors())
        assert torch.ops.gridsample.gather.default in [node.target for node in model.graph.nodes]
    check(model, 5, 8)


@pytest.mark.slow
def test_models_compile_and_export_with_dynamic_sizes() -> None:
    torch.compiler.reset()
    with patch():
        check(torch.compile(Warp(), fullgraph=True, dynamic=True, backend="aot_eager"), 5, 8)
        height = torch.export.Dim("height", min=2, max=100)
        shapes = {"image": {2: height}, "theta": None}
        program = torch.export.export(Warp(), tensors(), dynamic_shapes=shapes, strict=False)
    check(program.module(), 5, 8)


@STRICT
def test_models_are_copied_and_pickled(strict: bool) -> None:
    with patch(strict=strict):
        check(copy.deepcopy(Warp()), 5)
        check(pickle.loads(pickle.dumps(Warp())), 5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@STRICT
def test_the_older_onnx_export_writes_torchs_operators(strict: bool) -> None:
    onnx = pytest.importorskip("onnx")

    def written(opset: int) -> list[str]:
        file = io.BytesIO()
        torch.onnx.export(Warp(), tensors(), file, dynamo=False, opset_version=opset)  # type: ignore[arg-type]
        return [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node]

    theirs = written(20)
    assert {"GridSample", "Resize"} <= {*theirs}
    with patch(strict=strict):
        assert written(20) == theirs


# Our own functions in a trace ---------------------------------------------------------------------


def trace(function: Any, *inputs: Tensor) -> Any:
    return saved(torch.jit.trace(function, inputs))


def test_our_functions_trace_with_dynamic_inputs() -> None:
    image, theta = tensors()
    grid = torch.rand(1, 3, 4, 2)
    larger, points = torch.rand(1, 2, 8, 7), torch.rand(1, 6, 5, 2)
    spline = {"mode": "spline3", "padding_mode": "mirror", "return_mask": True}
    filled = {"padding_mode": "constant", "fill_value": 3}
    for options in ({}, {"mode": ("nearest", "cubic")}, filled, {"mode": "spline2", **filled}):
        traced = trace(lambda *inputs: gridsample.grid_sample(*inputs, **options), image, grid)  # type: ignore[arg-type]  # noqa: B023
        ours = gridsample.grid_sample(larger, points, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(traced(larger, points), ours, rtol=0, atol=0)
    traced = trace(lambda *inputs: gridsample.grid_sample(*inputs, **spline), image, grid)  # type: ignore[arg-type]
    for ours, theirs in zip(
        gridsample.grid_sample(larger, points, **spline),  # type: ignore[arg-type]
        traced(larger, points),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    traced = trace(lambda *inputs: gridsample.affine_grid(inputs[0], inputs[1].shape), theta, image)
    ours = gridsample.affine_grid(theta, larger.shape)
    torch.testing.assert_close(traced(theta, larger), ours)
    for corners in (False, True):
        traced = trace(
            lambda *inputs: gridsample.affine_grid(inputs[0], inputs[1].shape, corners),  # noqa: B023
            theta,
            image,
        )
        ours = gridsample.affine_grid(theta, larger.shape, corners)
        torch.testing.assert_close(traced(theta, larger), ours)


def test_traced_functions_have_derivatives() -> None:
    image, grid = tensors()[0].requires_grad_(), torch.rand(1, 3, 4, 2, requires_grad=True)
    traced = trace(gridsample.grid_sample, image.detach(), grid.detach())
    ours = torch.autograd.grad(gridsample.grid_sample(image, grid).sum(), (image, grid))
    theirs = torch.autograd.grad(traced(image, grid).sum(), (image, grid))
    torch.testing.assert_close(theirs, ours, rtol=0, atol=0)


@pytest.mark.filterwarnings("default::torch.jit.TracerWarning")
def test_tracing_warns_of_sizes_that_become_constants() -> None:
    image = tensors()[0]
    calls = (
        lambda image: gridsample.interpolate(image, image.shape[2] * 2),
        lambda values: gridsample.splat(values, torch.rand(1, 5, 6, 2), (values.shape[2], 3)),
        lambda image: gridsample.affine_sample(image, torch.rand(1, 2, 3), image.shape),
    )
    for call in calls:
        with pytest.warns(torch.jit.TracerWarning, match="Python integer"):
            traced = torch.jit.trace(call, image, check_trace=False)
        assert traced(image).shape == call(image).shape
