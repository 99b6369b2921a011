"""The GPU kernels of correlation lookups without a GPU, in Triton's interpreter."""

from __future__ import annotations

import math
from typing import Any

import cases
import pytest
import torch

pytest.importorskip("triton")

from interpreted import deterministic, spaced

from gridsample.backends.torch import BACKEND, cuda_operators
from gridsample.definitions.operators import LookupOptions
from gridsample.operators.correlation import LOOKUP

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

SIZES: dict[int, tuple[int, ...]] = {1: (7, 3), 2: (4, 5, 1, 2), 3: (3, 2, 4, 1, 1, 2)}
EVERY = (True, True, True)


def inputs(
    rank: int, radius: int, channels: int, dtype: Any = torch.float64, queries: int = 3
) -> tuple[list[Any], LookupOptions]:
    """The three tensors and the options; some positions are NaN, infinite, or far outside."""
    rng = cases.generator("gpu lookup", rank, radius, channels)
    options = LookupOptions(SIZES[rank], rank, radius, None)
    pixels = sum(math.prod(size) for size in options.levels())
    source = rng.standard_normal((2, queries, channels))
    images = rng.standard_normal((2, pixels, channels))
    positions = rng.uniform(-2, 6, (2, queries, rank))
    positions[0, 0, 0], positions[1, 0, -1], positions[1, 1, 0] = math.nan, math.inf, 1e30
    positions[0, 1] = 1
    return [torch.from_numpy(array).to(dtype) for array in (source, images, positions)], options


def close(actual: Any, expected: Any, limit: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize(
    ("rank", "radius", "channels"), cases.slow_after(1, [(2, 1, 3), (1, 2, 1), (3, 1, 2)])
)
def test_lookups_and_gradients_are_those_of_the_composition(
    rank: int, radius: int, channels: int
) -> None:
    tensors, options = inputs(rank, radius, channels)
    expected = LOOKUP.composed(BACKEND, tensors, options)
    upstream = torch.from_numpy(cases.generator("up", rank).standard_normal(tuple(expected.shape)))
    upstream[0, 0] = math.nan  # of the window around NaN
    exact = LOOKUP.composed_vjp(BACKEND, upstream.nan_to_num(), tensors, options, EVERY)
    given = [spaced(tensor) for tensor in tensors]  # as strided tensors come
    close(cuda_operators.compute(LOOKUP, given, options), expected)
    gradients = cuda_operators.differentiate(LOOKUP, upstream, given, options, EVERY)
    for gradient, other in zip(gradients, exact, strict=True):
        close(gradient, other)


@pytest.mark.slow
def test_windows_of_several_tiles_and_narrow_dtypes() -> None:
    """Of taps and of channels, of which the last are incomplete; sums are in float32."""
    tensors, options = inputs(2, 5, 40, torch.float16, 2)
    narrow = [tensors[0], tensors[1].bfloat16(), tensors[2].float()]
    wide = [tensor.double() for tensor in narrow]
    result = cuda_operators.compute(LOOKUP, narrow, options)
    expected = LOOKUP.composed(BACKEND, wide, options)
    assert result.dtype == torch.float16
    close(result, expected.half(), 1e-3)
    upstream = torch.ones_like(expected)
    gradients = cuda_operators.differentiate(LOOKUP, upstream.half(), narrow, options, EVERY)
    exact = LOOKUP.composed_vjp(BACKEND, upstream, wide, options, EVERY)
    for gradient, other, tensor in zip(gradients, exact, narrow, strict=True):
        limit = 2e-2 if tensor.dtype == torch.bfloat16 else 2e-3  # the interpreter truncates it
        close(gradient, other.to(tensor.dtype), limit)


@pytest.mark.slow
def test_gradients_do_not_depend_on_the_order_of_queries() -> None:
    """Under deterministic algorithms; the others are computed once."""
    tensors, options = inputs(2, 1, 3, torch.float32, 5)
    upstream = torch.ones_like(LOOKUP.composed(BACKEND, tensors, options))
    turned = torch.tensor([3, 1, 4, 0, 2])
    results = []
    for order in (torch.arange(5), turned):
        given = tensors[0][:, order], tensors[1], tensors[2][:, order]
        with deterministic():
            call = LOOKUP, upstream, given, options, EVERY
            results.append(cuda_operators.differentiate(*call))
    assert torch.equal(results[0][1], results[1][1])
    exact = LOOKUP.composed_vjp(BACKEND, upstream, tensors, options, EVERY)
    for gradient, other in zip(results[0], exact, strict=True):
        close(gradient, other, 1e-5)
