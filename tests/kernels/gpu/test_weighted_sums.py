"""The GPU kernels of weighted sums without a GPU: interpreted, and compiled."""

from __future__ import annotations

import itertools
import math
from typing import Any

import cases
import pytest
import torch

pytest.importorskip("triton")

from interpreted import deterministic, spaced

from gridsample.backends.torch import BACKEND, cuda_operators
from gridsample.kernels.gpu.programs import NAMES
from gridsample.operators import weighted_sum
from gridsample.operators.sums import WEIGHTED_SUM, options_for

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

SIZES: dict[int, list[tuple[int, ...]]] = {
    1: [(5,), (3,)],
    2: [(3, 4), (1, 1)],
    3: [(2, 3, 4), (1, 2, 2)],
}
# Rank, methods, boundaries, units, aligned corners.
CASES = [
    (2, "bilinear", "zeros", "unit", False),
    (2, ("bilinear", "nearest"), ("antimirror", "border"), "normalized", True),
    (2, "nearest", "wrap", "pixel", False),
    (1, "bicubic", "reflection", "unit", True),
    (3, "bilinear", ("border", "zeros", "mirror"), "pixel", False),
]


def inputs(
    case: Any, channels: int = 3, dtype: Any = torch.float64, items: int = 1
) -> tuple[list[Any], Any]:
    """The three tensors and the options; some points are NaN or infinite."""
    rank, mode, boundary, coords, aligned = case
    rng = cases.generator("gpu sums", *case)
    pixels = sum(math.prod(size) for size in SIZES[rank])
    images = rng.standard_normal((items, pixels, 2, channels))
    points = rng.uniform(-0.5, 1.5, (items, 5, 2, 2, 2, rank)) * (4 if coords == "pixel" else 1)
    points[0, 0, 0, 0, 0, 0], points[-1, 1, 1, 1, 1, -1] = math.nan, math.inf
    weights = rng.standard_normal((items, 5, 2, 2, 2))
    tensors = [torch.from_numpy(array).to(dtype) for array in (images, points, weights)]
    known = dict(zip(WEIGHTED_SUM.names, tensors, strict=True))
    sizes = {"sizes": SIZES[rank]}
    rules = mode, boundary, aligned, coords
    return tensors, options_for(BACKEND, known, sizes, *rules, threads=None)


def close(actual: Any, expected: Any, limit: float = 1e-11) -> None:
    torch.testing.assert_close(actual, expected, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize(
    ("rank", "mode", "boundary", "coords", "aligned"), cases.slow_after(1, CASES)
)
def test_sums_and_gradients_are_those_of_the_composition(
    rank: int, mode: Any, boundary: Any, coords: str, aligned: bool
) -> None:
    case = rank, mode, boundary, coords, aligned
    tensors, options = inputs(case, items=2)
    tensors[1] = spaced(tensors[1])  # as strided tensors come
    tensors[0] = tensors[0].transpose(1, 2).contiguous().transpose(1, 2)
    expected = WEIGHTED_SUM.composed(BACKEND, tensors, options)
    close(cuda_operators.compute(WEIGHTED_SUM, tensors, options), expected)
    upstream = torch.from_numpy(cases.generator("up").standard_normal(tuple(expected.shape)))
    every = (True, True, True)
    gradients = cuda_operators.differentiate(WEIGHTED_SUM, upstream, tensors, options, every)
    others = WEIGHTED_SUM.composed_vjp(BACKEND, upstream, tensors, options, every)
    for gradient, other in zip(gradients, others, strict=True):
        close(gradient, other)
    if case == CASES[0]:
        needed = (False, False, True)
        alone = cuda_operators.differentiate(WEIGHTED_SUM, upstream, tensors, options, needed)
        assert alone[:2] == [None, None]
        close(alone[2], others[2])


def test_many_channels_and_narrow_dtypes() -> None:
    """Channels of several tiles, of which the last is incomplete; sums are in float32."""
    tensors, options = inputs(CASES[0], 70, torch.float16)
    tensors[1] = tensors[1].float()
    result = cuda_operators.compute(WEIGHTED_SUM, tensors, options)
    expected = cuda_operators.compute(WEIGHTED_SUM, [t.float() for t in tensors], options)
    assert result.dtype == torch.float16
    close(result, expected.half())
    wide = [tensor.double() for tensor in tensors]
    close(expected.double(), WEIGHTED_SUM.composed(BACKEND, wide, options), 1e-5)
    upstream, every = torch.ones_like(expected), (True, True, True)
    gradients = cuda_operators.differentiate(WEIGHTED_SUM, upstream, tensors, options, every)
    exact = WEIGHTED_SUM.composed_vjp(BACKEND, upstream.double(), wide, options, every)
    for gradient, other, tensor in zip(gradients, exact, tensors, strict=True):
        close(gradient, other.to(tensor.dtype), 1e-2 if tensor.dtype == torch.float16 else 1e-3)


def test_gradients_do_not_depend_on_the_order_of_queries() -> None:
    """Under deterministic algorithms."""
    tensors, options = inputs(CASES[0], dtype=torch.float32)
    upstream, needed = torch.ones(1, 5, 2, 3), (True, False, False)
    turned = torch.tensor([3, 1, 4, 0, 2])
    results = []
    for order in (torch.arange(5), turned):
        given = [tensors[0], tensors[1][:, order], tensors[2][:, order]]
        with deterministic():
            call = upstream, given, options, needed
            results.append(cuda_operators.differentiate(WEIGHTED_SUM, *call)[0])
    assert torch.equal(*results)
    close(
        results[0], WEIGHTED_SUM.composed_vjp(BACKEND, upstream, tensors, options, needed)[0], 1e-5
    )


def test_empty_tensors() -> None:
    tensors, options = inputs(CASES[0])
    none = [tensors[0], *[tensor[:, :0] for tensor in tensors[1:]]]
    assert cuda_operators.compute(WEIGHTED_SUM, none, options).shape == (1, 0, 2, 3)
    upstream, needed = tensors[0].new_ones(1, 0, 2, 3), (True, True, False)
    gradients = cuda_operators.differentiate(WEIGHTED_SUM, upstream, none, options, needed)
    assert not gradients[0].any() and gradients[1].shape == none[1].shape
    lone = [tensors[0], tensors[1][..., :0, :], tensors[2][..., :0]]
    assert not cuda_operators.compute(WEIGHTED_SUM, lone, options).any()


def test_tensors_on_a_gpu_are_computed_by_one_operator() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        shapes = (1, 5, 1, 2), (1, 3, 1, 2, 1, 2), (1, 3, 1, 2, 1)
        tensors = [torch.empty(shape, device="cuda") for shape in shapes]

        def call(*tensors: Any) -> Any:
            return weighted_sum(*tensors, [(2, 2), (1, 1)])

        graph = make_fx(call, tracing_mode="fake")(*tensors)
    targets = [str(node.target) for node in graph.graph.nodes]
    assert "gridsample.weighted_sum.default" in targets
    for name, suffix in itertools.product(NAMES, ("", "_backward")):
        operator = f"gridsample::{name}{suffix}"
        assert torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CUDA")
