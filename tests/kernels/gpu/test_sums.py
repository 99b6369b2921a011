"""Exact sums of the GPU kernels, which do not depend on the order of the additions."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from interpreted import DOUBLE, deterministic, inputs, operator_options

from gridsample.backends.torch import cuda, operators

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


NEAREST = operator_options(1, "nearest", "zeros")


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_exact_sums_do_not_depend_on_the_order_at_any_magnitude(dtype: torch.dtype) -> None:
    _, grid, values = inputs(2, 40, 2)
    wide = torch.promote_types(dtype, torch.float32)
    grid = grid.to(wide)
    # Each quarter of the points goes to a row of its own, and the rows differ in size by far.
    rows = torch.arange(4).repeat_interleave(10)
    grid[..., 1] = (2 * rows + 1) / 4 - 1
    reach = 2 if dtype == torch.float16 else 40 if dtype == torch.float32 else 300
    values = (values * torch.logspace(-reach, 0.9 * reach, 4, dtype=torch.float64)[rows]).to(dtype)
    options = operator_options(2, "linear", "border")
    size, turned = (2, 2, 4, 3), torch.randperm(40, generator=torch.Generator().manual_seed(1))
    with deterministic():
        results = [
            cuda.cuda_scatter(values[..., p].contiguous(), grid[:, p].contiguous(), size, *options)
            for p in (torch.arange(40), turned)
        ]
    assert torch.equal(results[0].view(torch.uint8), results[1].view(torch.uint8))
    exact, sizes = (
        operators.cpu_scatter(v.double(), grid.double(), size, *options)
        for v in (values, values.abs())
    )
    # Coordinates, weights and products are rounded some ten times, relative to each pixel's own.
    slack = 10 * torch.finfo(wide).eps * sizes + torch.finfo(dtype).eps * exact.abs()
    slack += torch.finfo(wide).tiny + (1e-7 if dtype == torch.float16 else 0)
    assert ((results[0].double() - exact).abs() <= slack).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exact_sums_survive_cancellation(dtype: torch.dtype) -> None:
    large = 2.0 ** (30 if dtype == torch.float32 else 60)
    values = torch.tensor([large, 1.0, -large], dtype=dtype).reshape(1, 1, 3)
    with deterministic():
        result = cuda.cuda_scatter(values, torch.zeros(1, 3, 1, dtype=dtype), (1, 1, 1), *NEAREST)
    assert result.item() == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exact_sums_of_nonfinite_and_tiny_numbers(dtype: torch.dtype) -> None:
    inf, nan, tiny = torch.inf, torch.nan, torch.finfo(dtype).smallest_normal
    most = torch.finfo(dtype).max
    pairs = [(inf, 1), (inf, -inf), (nan, 2), (-inf, most), (tiny / 8, tiny / 4), (most, most / 2)]
    values = torch.tensor(pairs, dtype=dtype).reshape(1, 1, -1)
    grid = ((2 * torch.arange(6, dtype=dtype) + 1) / 6 - 1).repeat_interleave(2).reshape(1, -1, 1)
    with deterministic():
        result = cuda.cuda_scatter(values, grid, (1, 1, 6), *NEAREST)
    expected = torch.tensor([sum(pair) for pair in pairs], dtype=dtype)
    torch.testing.assert_close(result[0, 0], expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.slow
def test_first_and_second_derivatives_have_exact_sums() -> None:
    image, grid, values = inputs(2, 9)
    grid[:, :3] = 0.1
    options = operator_options(2, ("linear", "cubic"), "border")
    upstream = image.flip(-1), grid.nan_to_num(0, 0, 0)
    calls = (
        lambda: cuda.cuda_backward(values, image, grid, True, True, *options),
        lambda: cuda.cuda_double_backward(
            values, image, grid, *upstream, True, True, True, *options
        ),
    )
    for call in calls:
        expected = call()
        with deterministic():
            result = call()
        for actual, other in zip(result, expected, strict=True):
            torch.testing.assert_close(actual, other, rtol=0, atol=64 * DOUBLE, equal_nan=True)


def test_plain_sums_depend_on_the_order() -> None:  # or the test above could not fail
    values = torch.tensor([1e8, 1.0, -1e8], dtype=torch.float32).reshape(1, 1, 3)
    grid = torch.zeros(1, 3, 1)
    options = operator_options(1, "nearest", "zeros")
    turned = values[..., [0, 2, 1]].contiguous()
    results = [cuda.cuda_scatter(v, grid, (1, 1, 1), *options) for v in (values, turned)]
    assert not torch.equal(*results)
