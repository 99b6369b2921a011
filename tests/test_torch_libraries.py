"""`gridsample.torch_compat.patch(libraries=...)`, on modules that stand in for the libraries'."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fused_tensors import close  # noqa: E402

from gridsample import operators  # noqa: E402
from gridsample.torch_compat import LIBRARIES, patch  # noqa: E402

SIZES = [(3, 4), (2, 2)]
SOURCE = """
calls = []

class MultiScaleDeformableAttention:
    def forward(self, value, value_spatial_shapes, value_spatial_shapes_list, level_start_index,
                sampling_locations, attention_weights, im2col_step):
        return theirs("forward")

def multi_scale_deformable_attention(value, value_spatial_shapes, sampling_locations,
                                     attention_weights):
    return theirs("attention")

def multi_scale_deformable_attention_v2(value, value_spatial_shapes, sampling_locations,
                                        attention_weights, num_points_list, method="default"):
    return theirs("uneven")

def multi_scale_deformable_attn_pytorch(value, value_spatial_shapes, sampling_locations,
                                        attention_weights):
    return theirs("mmcv")

def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    return theirs("regions")

def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1):
    return theirs("bins")

def deform_conv2d(input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0),
                  dilation=(1, 1), mask=None):
    return theirs("convolution")

class CorrBlock:
    def __init__(self, *, num_levels=4, radius=4):
        self.num_levels, self.radius = num_levels, radius

    def build_pyramid(self, fmap1, fmap2):
        self.corr_pyramid = ["volume"]
        return theirs("pyramid")

    def index_pyramid(self, centroids_coords):
        return theirs(self.corr_pyramid[0])

def theirs(name):
    calls.append(name)
    return name
"""


@pytest.fixture
def module(monkeypatch: Any) -> Iterator[Any]:
    """One module in the place of all those with functions that are replaced."""
    own = types.ModuleType("stand_in")
    exec(SOURCE, vars(own))
    for name in (
        "transformers.models.own.modeling_own",
        "mmcv.ops.multi_scale_deform_attn",
        "torchvision.ops.roi_align",
        "torchvision.ops.ps_roi_align",
        "torchvision.ops.deform_conv",
        "torchvision.models.optical_flow.raft",
    ):
        monkeypatch.setitem(sys.modules, name, own)
    yield own


def inputs() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(2, 16, 2, 3, generator=generator)
    places = torch.rand(2, 5, 2, 2, 3, 2, generator=generator)
    return [value, places, torch.rand(2, 5, 2, 2, 3, generator=generator)]


def test_attention(module: Any) -> None:
    value, places, weights = inputs()
    forward = module.MultiScaleDeformableAttention().forward  # bound before the patch
    expected = operators.deformable_attention(value, SIZES, places, weights)
    starts = torch.tensor([0, 12])
    with patch(libraries=["transformers", "mmcv"]):
        close(forward(value, None, SIZES, starts, places, weights, im2col_step=64), expected)
        close(module.multi_scale_deformable_attention(value, SIZES, places, weights), expected)
        close(module.multi_scale_deformable_attn_pytorch(value, SIZES, places, weights), expected)
        assert module.roi_align(value, [], 2) == "regions"
    assert module.calls == ["regions"]
    assert forward(value, None, SIZES, starts, places, weights, 64) == "forward"


def test_levels_with_different_numbers_of_points(module: Any) -> None:
    value, places, weights = inputs()
    uneven = torch.cat([places[:, :, :, 0, :2], places[:, :, :, 1]], 3)
    shares = torch.cat([weights[:, :, :, 0, :2], weights[:, :, :, 1]], 3)
    weights[:, :, :, 0, 2] = 0
    expected = operators.deformable_attention(value, SIZES, places, weights)
    with patch(libraries=["transformers"]):
        attend = module.multi_scale_deformable_attention_v2
        close(attend(value, SIZES, uneven, shares, [2, 3]), expected)
        assert attend(value, SIZES, uneven, shares, [2, 3], method="discrete") == "uneven"


def test_torchvision(module: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(1, 2, 5, 6, generator=generator)
    boxes = torch.tensor([[0, 1.0, 1.0, 4.0, 4.0]], requires_grad=True)
    offset, weight = torch.randn(1, 18, 3, 4, generator=generator), torch.ones(2, 2, 3, 3)
    with patch(libraries=["torchvision"]):
        bins = module.roi_align(image, boxes, 2, sampling_ratio=2)
        assert not bins.requires_grad and bins.is_contiguous()  # torchvision has no gradient, too
        close(bins, operators.roi_align(image, boxes.detach(), 2, sampling_ratio=2))
        own = module.ps_roi_align(image, [boxes[:, 1:]], (2, 1), sampling_ratio=2)
        assert not own.requires_grad and own.is_contiguous()
        close(own, operators.ps_roi_align(image, boxes.detach(), (2, 1), sampling_ratio=2))
        result = module.deform_conv2d(image, offset, weight, stride=1)
        close(result, operators.deform_conv2d(image, offset, weight))
        assert module.calls == []
        # What ours do not accept is theirs.
        assert module.deform_conv2d(image, offset[:, :5], weight) == "convolution"
        with torch.autocast("cpu"):
            assert module.deform_conv2d(image, offset, weight) == "convolution"
        with pytest.raises(
            TypeError, match="missing 1 required positional argument: 'output_size'"
        ):
            module.roi_align(image, boxes)
        with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
            module.roi_align(image, boxes, 2, size=2)
    assert module.roi_align(image, boxes, 2) == "regions"
    assert module.roi_align.__defaults__ == (1.0, -1, False)


def test_raft(module: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    first, second = torch.randn(2, 1, 8, 16, 24, generator=generator).requires_grad_()
    places = torch.rand(1, 2, 16, 24, generator=generator) * 20 - 2
    block = module.CorrBlock(num_levels=3, radius=2)
    with patch(libraries=["torchvision"]):
        assert block.build_pyramid(first, second) is None
        result = block.index_pyramid(centroids_coords=places)
        expected = operators.correlation_lookup(first, second, places, radius=2, levels=3)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
        assert module.calls == []
        # What torchvision refuses, or computes otherwise, is its own, and so is what follows.
        for maps in ((first, second[..., 1:]), (first[..., :7, :], second[..., :7, :])):
            assert block.build_pyramid(*maps) == "pyramid"
            assert block.index_pyramid(places) == "volume"
        with torch.autocast("cpu"):
            assert block.build_pyramid(first, second) == "pyramid"
        block.build_pyramid(first, second)
        assert block.index_pyramid(places).shape == result.shape
    block.build_pyramid(first, second)
    assert block.index_pyramid(places) == "volume"


def test_what_is_not_there(module: Any) -> None:
    with pytest.raises(ValueError, match=r"torchvison.*did you mean 'torchvision'"):
        patch(libraries=["torchvison"])
    with pytest.raises(TypeError, match="libraries must be a list of names"):
        patch(libraries="mmcv")
    exec("def multi_scale_deformable_attn_pytorch(value, sizes): pass", vars(module))
    with pytest.raises(RuntimeError, match="nothing of mmcv is replaced"):
        patch(libraries=["mmcv"])
    assert torch.nn.functional.grid_sample.__code__.co_name == "grid_sample"
    assert {*LIBRARIES} == {"transformers", "mmcv", "torchvision"}
