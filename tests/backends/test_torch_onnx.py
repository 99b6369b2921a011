"""Models that sample, as ONNX files: a standard operator, and the same numbers."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import onnx
import pytest
import torch
from onnx_models import export, operators, run
from torch import Tensor, nn

import gridsample.nn
import gridsample.onnx


class Sample(nn.Module):
    def __init__(self, *options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, *self.options)


class Chain(nn.Module):
    """Many samples in one model, as each export takes its time."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, image: Tensor, grid: Tensor) -> list[Tensor]:
        return [
            gridsample.grid_sample(image, grid, self.mode, boundary, corners)
            for boundary, corners in itertools.product(cases.BOUNDARIES, (False, True))
        ]


def tensors(image: tuple[int, ...], grid: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    rng = cases.generator(image, grid)
    return (
        torch.from_numpy(rng.standard_normal(image).astype("f4")),
        torch.from_numpy(rng.uniform(-1.3, 1.3, grid).astype("f4")),
    )


def check(model: nn.Module, arguments: tuple[Tensor, ...], **options: Any) -> onnx.ModelProto:
    """The file's numbers are those of the model, but for a few roundings of float32."""
    exported = export(model, arguments, **options)
    with torch.no_grad():
        expected = model(*arguments)
    expected = expected if isinstance(expected, list) else [expected]
    for mine, theirs in zip(expected, run(exported, arguments), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=0, atol=3e-5)
    return exported


@pytest.mark.parametrize(
    ("rank", "mode", "name"),
    cases.slow_after(
        1,
        [
            (2, "bilinear", "linear"),
            (3, "nearest", "nearest"),
            (2, "nearest", "nearest"),
            (2, "bicubic", "cubic"),
            (3, "trilinear", "linear"),
        ],
    ),
)
def test_every_boundary_is_a_standard_node_with_the_same_numbers(
    rank: int, mode: str, name: str
) -> None:
    arguments = tensors((2, 3, *(5, 7, 4)[:rank]), (2, *(4, 6, 3)[:rank], rank))
    exported = check(Chain(mode), arguments)
    assert operators(exported) == ["GridSample"] * 6
    attributes = [
        {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        for node in exported.graph.node
    ]
    assert [a["mode"] for a in attributes] == [name.encode()] * 6
    assert [(a["padding_mode"].decode(), bool(a["align_corners"])) for a in attributes] == [
        *itertools.product(cases.BOUNDARIES, (False, True))
    ]


@pytest.mark.slow
def test_older_opsets_use_the_older_operator_names() -> None:
    exported = check(Sample("bicubic"), tensors((1, 1, 5, 7), (1, 4, 6, 2)), opset_version=18)
    (node,) = exported.graph.node
    assert b"bicubic" in [attribute.s for attribute in node.attribute]


@pytest.mark.parametrize(
    ("image", "grid"),
    cases.slow_after(
        1,
        [
            ((1, 3, 5, 7), (2, 4, 6, 2)),
            ((2, 3, 5, 7), (1, 11, 2)),
            ((2, 3, 5, 7, 3), (2, 4, 6, 3)),
        ],
    ),
    ids=["one image", "one list of points", "surfaces"],
)
def test_shapes_are_adapted_to_the_operator(image: tuple[int, ...], grid: tuple[int, ...]) -> None:
    assert "GridSample" in operators(check(Sample("bilinear", "border"), tensors(image, grid)))


@pytest.mark.parametrize(
    ("image_type", "grid_type"),
    cases.slow_after(
        1, [(torch.float16, torch.float32), (torch.float32, torch.float64), (torch.float64,) * 2]
    ),
    ids=str,
)
def test_dtypes_are_kept(image_type: torch.dtype, grid_type: torch.dtype) -> None:
    image, grid = tensors((2, 3, 5, 7), (2, 4, 6, 2))
    check(Sample("bicubic", "border"), (image.to(image_type), grid.to(grid_type)))


@pytest.mark.slow
def test_dynamic_sizes_stay_dynamic() -> None:
    open_ = torch.export.Dim.DYNAMIC
    model = Sample("bilinear", "border")
    exported = export(
        model,
        tensors((2, 3, 5, 7), (2, 11, 2)),
        dynamic_shapes=({0: open_, 2: open_}, {0: open_, 1: open_}),
    )
    others = tensors((3, 3, 9, 7), (3, 5, 2))
    torch.testing.assert_close(run(exported, others)[0], model(*others), rtol=0, atol=3e-5)


@pytest.mark.slow
def test_modules_and_affine_grids() -> None:
    torch.manual_seed(0)
    image, grid = tensors((2, 5, 7, 3), (2, 4, 6, 2))
    check(gridsample.nn.GridSample("bicubic", channel_axis=-1), (image, grid))
    look = nn.Sequential(nn.Flatten(), nn.Linear(105, 6))
    assert "GridSample" in operators(check(gridsample.nn.SpatialTransformer(look), (image,)))
    check(gridsample.nn.AffineGrid((4, 5, 6), True), (torch.randn(2, 3, 4),))


def test_a_program_is_lowered() -> None:
    arguments = tensors((2, 3, 5, 7), (2, 4, 6, 2))
    model = Sample("bicubic", "reflection")
    program = torch.export.export(model, arguments)
    exported = export(gridsample.onnx.lower(program))
    torch.testing.assert_close(run(exported, arguments)[0], model(*arguments), rtol=0, atol=3e-5)
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"pass .* to gridsample\.onnx\.lower"):
        export(program)
    with pytest.raises(ValueError, match=r"one mode .* got mode \('cubic', 'linear'\)"):
        gridsample.onnx.lower(torch.export.export(Sample(("cubic", "linear")), arguments))


@pytest.mark.parametrize(
    ("options", "image", "grid", "message"),
    cases.slow_after(
        1,
        [
            ((("linear", "nearest"),), (1, 1, 5, 7), (1, 4, 6, 2), r"mode \('linear', 'nearest'\)"),
            (
                ("linear", ("zeros", "border")),
                (1, 1, 5, 7),
                (1, 4, 6, 2),
                r"padding_mode \('zeros', 'border'\)",
            ),
            (("cubic",), (1, 1, 5, 7, 3), (1, 4, 6, 2, 3), "3 axes"),
            (("linear",), (1, 1, 5), (1, 4, 1), "1 axis"),
        ],
    ),
    ids=["modes", "boundaries", "cubic in 3-D", "1-D"],
)
def test_unsupported_options_are_named(
    options: tuple[Any, ...], image: tuple[int, ...], grid: tuple[int, ...], message: str
) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=f"ONNX's GridSample has .* {message}"):
        export(Sample(*options), tensors(image, grid))


@pytest.mark.slow
def test_integers_are_refused() -> None:
    image, grid = tensors((1, 1, 5, 7), (1, 4, 6, 2))
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"input torch\.uint8"):
        export(Sample(), (image.to(torch.uint8), grid))


@pytest.mark.slow
def test_gradients_are_refused() -> None:
    class Gradient(nn.Module):
        def forward(self, image: Tensor, grid: Tensor) -> Tensor:
            ones = torch.ones(1, 1, *grid.shape[1:-1])
            return gridsample.grid_sample_vjp(ones, image, grid)[1]

    with pytest.raises(torch.onnx.OnnxExporterError, match="gradients cannot be exported"):
        export(Gradient(), tensors((1, 1, 5, 7), (1, 4, 6, 2)))


def test_an_exported_model_that_is_not_written_keeps_the_operator() -> None:
    program = torch.export.export(Sample(), tensors((1, 1, 5, 7), (1, 4, 6, 2)))
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets == [torch.ops.gridsample.gather.default]


def test_too_old_a_torch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
    program = torch.export.export(Sample(), arguments)
    monkeypatch.delattr(torch.onnx, "ops")
    with pytest.raises(ValueError, match=r"torch 2\.8 or newer, this is 2\."):
        gridsample.onnx.lower(program)


@pytest.mark.parametrize(
    "options", [{"coords": "pixel"}, {"ends": (True, "edges")}, {"padding_mode": ["constant"] * 2}]
)
def test_unsupported_options_are_rejected(options: dict[str, Any]) -> None:
    from gridsample.backends.torch.onnx import check_expressible
    from gridsample.backends.torch.schemas import options_of

    node_options = options_of(["linear"] * 2, ["zeros"] * 2, False, [0, 0])
    image, grid = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
    assert check_expressible(image, grid, node_options) == ("bilinear", "zeros")
    with pytest.raises(ValueError, match="ONNX's GridSample has one mode"):
        check_expressible(image, grid, node_options._replace(**options))
