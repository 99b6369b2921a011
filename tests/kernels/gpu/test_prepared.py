"""Calls for CUDA tensors that are prepared once, in Triton's interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from interpreted import DOUBLE, deterministic, inputs, operator_options, rolled, spaced

from gridsample.backends.torch import cuda, cuda_calls
from gridsample.backends.torch.fast_path import without_data
from gridsample.backends.torch.operators import call_for
from gridsample.backends.torch.schemas import options_of

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

LAYOUTS = ("contiguous", "channels last", "spaced", "shared image", "shared grid", "values of one")


def arranged(layout: str, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """An image, a grid and an upstream gradient in a layout."""
    image, grid, values = inputs(rank)
    if layout == "channels last":
        return rolled(image), grid, rolled(values)
    if layout == "spaced":
        return spaced(image), spaced(grid), spaced(values)
    if layout == "shared image":
        return image[:1], grid, values
    if layout == "shared grid":
        return image, grid[:1], values
    if layout == "values of one":
        return image, grid, values[:1, :1, :1].expand(values.shape)
    return image, grid, values


def prepared(image: Tensor, grid: Tensor, *options: Any) -> cuda_calls.PreparedOnGPU:
    """Prepare a call for the layouts of an image and a grid."""
    call = call_for(image.shape, image, grid, options_of(*options))
    shells = [without_data(t.shape, t.stride(), t.dtype) for t in (image, grid)]
    out, ready = cuda_calls.ready_gather(call, *shells)
    return cuda_calls.PreparedOnGPU(ready, out, options_of(*options).changed(plan=call))


@pytest.mark.covering
@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_prepared_calls_match_others(
    layout: str, rank: int, mode: str, needed: tuple[bool, bool]
) -> None:
    image, grid, values = arranged(layout, rank)
    options = operator_options(rank, mode, "border")
    call = prepared(image, grid, *options)
    expected = cuda.cuda_gather(image, grid, *options)
    out = call.run(image, grid)
    assert out.stride() == expected.stride()
    assert torch.equal(out.nan_to_num(7), expected.nan_to_num(7))

    gradients = call.run_backward(values, image, grid, needed)
    assert gradients is not None
    others = cuda.cuda_backward(values, image, grid, *needed, *options)
    for gradient, other, need in zip(gradients, others, needed, strict=True):
        assert (gradient is not None) == need
        if gradient is not None:
            assert gradient.stride() == other.stride()
            torch.testing.assert_close(gradient, other, rtol=0, atol=DOUBLE, equal_nan=True)


def test_calls_that_are_not_a_single_launch_are_not_prepared() -> None:
    image, grid, values = inputs(2)
    options = operator_options(2, "linear", "zeros")
    uneven = grid.reshape(2, 11, 1, 2).expand(2, 11, 3, 2)[:, :, :2]
    assert prepared(image + 1j, grid, *options).ready is None
    assert prepared(image > 0, grid, *options).ready is None
    assert prepared(image, uneven, *options).ready is None
    assert prepared(image, grid[:, :0], *options).ready is None
    assert prepared(image, grid, *operator_options(2, "nearest", "zeros", 1, 0)).ready is None
    # Sums in single precision, rounded at the end; a step's slope, which is zero; exact sums.
    half = prepared(image.half(), grid.float(), *options)
    assert half.ready is not None
    arguments = values.half(), image.half(), grid.float(), (True, True)
    assert half.run_backward(*arguments) is None
    steps = prepared(image, grid, *operator_options(2, "nearest", "zeros"))
    assert steps.run_backward(values, image, grid, (True, True)) is None
    assert steps.run_backward(values, image, grid, (True, False)) is not None
    with deterministic():
        call = prepared(image, grid, *options)
        assert call.run_backward(values, image, grid, (True, True)) is None


def test_calls_that_first_copy_an_image_are_not_prepared() -> None:
    image = torch.zeros(1, 16, 4, 4)
    grid = torch.zeros(1, 1 << 16, 2)
    options = operator_options(2, "linear", "zeros")
    assert prepared(image, grid, *options).ready is None
    assert prepared(rolled(image), grid, *options).ready is not None
