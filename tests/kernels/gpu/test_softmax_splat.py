"""The GPU kernels of splats with metrics without a GPU, in Triton's interpreter."""

from __future__ import annotations

import math
from typing import Any

import cases
import pytest
import torch

pytest.importorskip("triton")

from interpreted import deterministic, spaced

from gridsample.backends.torch import BACKEND, cuda_operators
from gridsample.definitions.operators import SplatOptions
from gridsample.operators.splatting import MAXIMUM, SPLAT, TOTAL

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

SIZES: dict[int, tuple[int, ...]] = {1: (7,), 2: (4, 5), 3: (2, 3, 3)}
# Rank, channels, boundaries, whether only values of the greatest metric count.
CASES: list[Any] = [
    (2, 3, ("zeros", "reflection"), False),
    (1, 1, ("wrap",), True),
    (3, 2, ("border", "zeros", "mirror"), False),
]
NEEDED = (True, True, True, False, False)


def inputs(case: Any, dtype: Any = torch.float64) -> tuple[list[Any], SplatOptions]:
    """Values, metrics and positions, and the options; some are NaN, infinite or very large."""
    rank, channels, boundaries, hard = case
    rng = cases.generator("gpu splat", *case)
    points = math.prod(SIZES[rank])
    values, metric = rng.standard_normal((2, points, channels)), rng.normal(0, 3, (2, points))
    positions = rng.uniform(-1, 5, (2, points, rank))
    positions[0, 0, 0], positions[1, 1, -1], metric[0, 2] = math.nan, math.inf, math.nan
    metric[1, 3], metric[0, 4], positions[0, 5] = -1000, 1000, 1
    tensors = [torch.from_numpy(array).to(dtype) for array in (values, metric, positions)]
    return tensors, SplatOptions(SIZES[rank], boundaries, hard, None)


def splatted(tensors: list[Any], options: SplatOptions, compute: Any) -> list[Any]:
    """The greatest metrics, the sums of weights, and the result."""
    values, *points = tensors
    points.append(compute(MAXIMUM, points, options))
    points.append(compute(TOTAL, points, options))
    return [*points[2:], compute(SPLAT, [values, *points], options)]


def composed(operator: Any, tensors: Any, options: Any) -> Any:
    return operator.composed(BACKEND, tensors, options)


def close(actual: Any, expected: Any, limit: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize(
    ("rank", "channels", "boundaries", "hard"), cases.slow_after(1, CASES), ids=str
)
def test_splats_and_gradients_are_those_of_the_composition(
    rank: int, channels: int, boundaries: Any, hard: bool
) -> None:
    case = rank, channels, boundaries, hard
    tensors, options = inputs(case)
    expected = splatted(tensors, options, composed)
    given = [spaced(tensor) for tensor in tensors]  # as strided tensors come
    results = splatted(given, options, cuda_operators.compute)
    assert torch.equal(results[0], expected[0])
    close(results, expected)
    result = expected[2]
    upstream = torch.from_numpy(cases.generator("up", case).standard_normal(tuple(result.shape)))
    arrays = [*given, *results[:2]]
    gradients = cuda_operators.differentiate(SPLAT, upstream, arrays, options, NEEDED)
    exact = SPLAT.composed_vjp(BACKEND, upstream, [*tensors, *expected[:2]], options, NEEDED)
    # Factors of up to 10 more, of the values, of their differences and of the slopes.
    close(gradients[:3], list(exact[:3]), 1e-11)
    assert gradients[3:] == [None, None]


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_of_points() -> None:
    """Under deterministic algorithms; channels of several tiles."""
    tensors, options = inputs((2, 70, ("zeros", "zeros"), False), torch.float32)
    results = []
    for order in (torch.arange(20), torch.arange(20).flip(0)):
        turned = [tensor[:, order] for tensor in tensors]
        with deterministic():
            results.append(splatted(turned, options, cuda_operators.compute))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)
    close(results[0], splatted(tensors, options, composed), 1e-5)


@pytest.mark.slow
def test_values_without_a_weight_are_left_out() -> None:
    """A sum of weights that is not a normal number, too, does not make the gradient infinite."""
    options = SplatOptions((3,), ("zeros",), False, None)
    values = torch.tensor([[[math.nan], [2.0]], [[3.0], [4.0]]])
    metric = torch.tensor([[-200.0, 0.0], [0.0, 0.0]])
    positions = torch.tensor([[[1.0], [1.0]], [[1e-39], [math.nan]]])
    tensors = [values, metric, positions]
    greatest, total, result = splatted(tensors, options, cuda_operators.compute)
    assert result.flatten().tolist() == [0, 2, 0, 3, 3, 0] and greatest[0, 0] == -math.inf
    arrays, upstream = [*tensors, greatest, total], torch.ones(2, 3, 1)
    call = SPLAT, upstream, arrays, options, NEEDED
    gradients = cuda_operators.differentiate(*call)[:3]
    assert all(gradient.isfinite().all() for gradient in gradients)
