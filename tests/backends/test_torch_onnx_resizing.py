"""Models that resize, as ONNX files: the standard operator Resize, and the same numbers."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import onnx
import pytest
import torch
from onnx_models import export, operators, run
from torch import Tensor, nn
from torch.nn import functional

import gridsample.nn
import gridsample.onnx
import gridsample.torch_compat
from gridsample.backends.torch import onnx_resizing

OPEN = torch.export.Dim.DYNAMIC


class Resize(nn.Module):
    """Several ways of resizing in one model, as each export takes its time."""

    def __init__(self, *ways: dict[str, Any]) -> None:
        super().__init__()
        self.ways = ways

    def forward(self, image: Tensor) -> list[Tensor]:
        return [gridsample.interpolate(image, **options) for options in self.ways]


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(cases.generator(shape).standard_normal(shape)).to(dtype)


def check(model: nn.Module, image: Tensor, atol: float = 1e-5, **options: Any) -> onnx.ModelProto:
    """The file's numbers are those of the model, for its sizes and where they are open for others.

    Positions are worked out in float32 by runtimes and in float64 here: near 10 pixels that is
    1e-6 of a pixel, times slopes of up to 10.
    """
    model = model.eval()
    exported = export(model, (image,), **options)
    shapes = [tuple(image.shape)]
    if options:
        shapes.append((image.shape[0] + 1, image.shape[1], *(n + 3 for n in image.shape[2:])))
    for sample in (image, *(tensor(*shape, dtype=image.dtype) for shape in shapes[1:])):
        with torch.no_grad():
            expected = model(sample)
        expected = expected if isinstance(expected, list) else [expected]
        for mine, theirs in zip(expected, run(exported, (sample,)), strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            torch.testing.assert_close(mine.double(), theirs.double(), rtol=0, atol=atol)
    return exported


def ways(rank: int, **both: Any) -> list[dict[str, Any]]:
    """Sizes and factors of so many axes, up and down."""
    return [
        {"size": (9, 4, 11)[:rank], **both},
        {"scale_factor": (0.7, 2.3, 1.6)[:rank], **both},
        {"scale_factor": 2, **both},
    ]


@pytest.mark.parametrize("rank", cases.slow_after(1, [2, 1, 3]))
def test_every_mode_and_rank_is_a_standard_node_with_the_same_numbers(rank: int) -> None:
    image = tensor(2, 3, *(10, 7, 6)[:rank])
    every = [
        *(options for mode in ("nearest", "nearest-exact") for options in ways(rank, mode=mode)),
        *(
            options
            for mode, corners in itertools.product(("linear", "cubic"), (False, True))
            for options in ways(rank, mode=mode, align_corners=corners)
        ),
        *(options for m in ("linear", "cubic") for options in ways(rank, mode=m, antialias=True)),
    ]
    exported = check(Resize(*every), image)
    used = set(operators(exported)) - {"Reshape", "Gather"}
    assert used == {"Resize"}
    names = operators(exported)
    # Cubic along one axis is that of an image; of three axes, of two and then of the third.
    assert names.count("Resize") >= len(every) - 4 + (9 if rank == 3 else 0)
    assert names.count("Reshape") <= (0 if rank == 2 else 36)


@pytest.mark.slow
def test_a_mode_for_each_axis() -> None:
    model = Resize({"size": (9, 4, 11), "mode": ("nearest", "cubic", "linear")})
    check(model, tensor(1, 2, 10, 7, 6))


@pytest.mark.slow
def test_nearest_selects_the_same_pixels_as_the_library() -> None:
    """They divide by 2 / 14 in single precision, which is not 7."""
    image = torch.arange(14.0).reshape(1, 1, 14)
    exported = check(Resize({"size": 2, "mode": "nearest"}), image, atol=0)
    assert operators(exported) == ["Gather"]
    exported = check(Resize({"size": 28, "mode": "nearest"}), image, atol=0)
    assert operators(exported) == ["Resize"]


@pytest.mark.parametrize("rank", cases.slow_after(1, [2, 1, 3]))
def test_dynamic_sizes_stay_dynamic(rank: int) -> None:
    modes = ("nearest", "linear", "cubic")
    model = Resize(
        *({"scale_factor": 2, "mode": mode} for mode in modes),
        *({"scale_factor": 1.7, "mode": mode} for mode in modes[1:]),
        *({"size": (9, 4, 11)[:rank], "mode": mode} for mode in modes),
    )
    check(
        model,
        tensor(2, 3, *(10, 7, 6)[:rank]),
        atol=3e-5,
        dynamic_shapes=({0: OPEN, **{k + 2: OPEN for k in range(rank)}},),
    )


class UNet(nn.Module):
    """Two levels; the upper one meets whatever size the lower one leaves, as is usual."""

    def __init__(self, up: Any) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.last = up, nn.Conv2d(8, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        above = self.first(image).relu()
        below = self.second(functional.max_pool2d(above, 2)).relu()
        below = self.up(below)
        if below.shape != above.shape:
            below = functional.interpolate(
                below, size=above.shape[2:], mode="bilinear", align_corners=True
            )
        return self.last(torch.cat([above, below], 1))


@pytest.mark.parametrize("variant", cases.slow_after(1, ["ours", "patched", "open"]))
def test_a_u_net_is_exported(variant: str) -> None:
    torch.manual_seed(0)
    image = tensor(2, 3, 12, 17)
    options = {"dynamic_shapes": ({0: OPEN, 2: OPEN, 3: OPEN},)} if variant == "open" else {}
    up: nn.Module = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
    if variant == "ours":
        up = gridsample.nn.Upsample(scale_factor=2, mode="bilinear")
    model = UNet(up).eval()
    with torch.no_grad():
        expected = model(image)
        with gridsample.torch_compat.patch():
            torch.testing.assert_close(model(image), expected)
            exported = check(model, image, **options)
    assert operators(exported).count("Resize") >= 1


@pytest.mark.slow
def test_a_program_is_lowered() -> None:
    image = tensor(2, 3, 9, 7)
    model = Resize(*ways(2, mode="cubic"), *ways(2, mode="nearest"))
    program = torch.export.export(model, (image,))
    exported = export(gridsample.onnx.lower(program))
    for mine, theirs in zip(model(image), run(exported, (image,)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"pass .* to gridsample\.onnx\.lower"):
        export(program)


@pytest.mark.slow
def test_integer_area_downscaling_exports_as_pooling() -> None:
    model = Resize({"size": (3, 7), "mode": "area"})
    assert operators(check(model, tensor(1, 2, 9, 14))) == ["AveragePool"]


DTYPES = (torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.bool)


class Several(nn.Module):
    """Resizes images of several types."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *images: Tensor) -> list[Tensor]:
        return [result for image in images for result in self.model(image)]


class Typed(Several):
    """Resizes in several types; what goes in and out is float32, as NumPy knows no bfloat16."""

    def forward(self, *images: Tensor) -> list[Tensor]:
        results = super().forward(*(image.to(dtype) for image in images for dtype in DTYPES))
        return [result.float() for result in results]


@pytest.mark.slow
def test_dtypes_are_kept() -> None:
    """But for a rounding of the type, where a sum is just between two numbers: at most 1 here."""
    image = tensor(1, 2, 9, 7) * 50
    model = Resize({"size": (5, 11), "mode": "nearest"}, {"size": (5, 11), "mode": "cubic"})
    images = tuple(image.to(dtype) for dtype in DTYPES)
    program = torch.onnx.export(Several(model).eval(), images, dynamo=True, verbose=False)
    input_types, output_types = (
        [value.type.tensor_type.elem_type for value in values]
        for values in (program.model_proto.graph.input, program.model_proto.graph.output)
    )
    assert output_types == [each for each in input_types for _ in model.ways]
    check(Typed(model), image, atol=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["pillow", "torch"])
def test_bytes_rounded_between_axes(rounding: str) -> None:
    image = (tensor(1, 2, 19, 9) > 0).to(torch.uint8) * 255
    model = Resize({"size": (8, 20), "mode": "cubic", "antialias": True, "rounding": rounding})
    check(model, image, atol=1)


@pytest.mark.parametrize(
    ("options", "dtype", "message"),
    cases.slow_after(
        2,
        [
            ({"mode": "lanczos3"}, torch.float32, r"got mode \('lanczos3', 'lanczos3'\)"),
            ({"mode": "area"}, torch.float32, r"area must divide .* sizes \(9, 7\) to \(5, 4\)"),
            ({"mode": "nearest", "antialias": True}, torch.float32, "antialias=True"),
            (
                {"mode": "linear", "antialias": True, "align_corners": True},
                torch.float32,
                "align_corners=True",
            ),
            ({"mode": "linear"}, torch.float64, r"input torch\.float64"),
            ({"mode": "linear"}, torch.complex64, r"input torch\.complex64"),
        ],
    ),
)
def test_unsupported_options_are_named(
    options: dict[str, Any], dtype: torch.dtype, message: str
) -> None:
    image = torch.ones(1, 1, 9, 7, dtype=dtype)
    program = torch.export.export(Resize({"size": (5, 4), **options}), (image,))
    with pytest.raises(ValueError, match=f"ONNX's Resize has the modes .*{message}"):
        gridsample.onnx.lower(program)


@pytest.mark.parametrize("mode", ["linear", "area"])
def test_more_axes_than_runtimes_have_are_refused(mode: str) -> None:
    image = torch.ones(1, 1, 4, 4, 4, 4)
    program = torch.export.export(Resize({"size": (2, 2, 2, 2), "mode": mode}), (image,))
    with pytest.raises(ValueError, match="runtimes resize up to 3 axes"):
        gridsample.onnx.lower(program)


def test_gradients_are_refused() -> None:
    options = [4, 4], ["linear"] * 2, False, False, [0.0, 0.0], True
    with pytest.raises(ValueError, match="no operator for the gradient of resizing"):
        onnx_resizing.resize_as_node(torch.ones(1, 1, 2, 2), *options)
