"""Gradients that are stored in another dtype than that of their sums."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

from gridsample.definitions.dtypes import BFLOAT16
from gridsample.kernels.memory import as_float, converted
from gridsample.kernels.sampling.copies import STORED_AT_ONCE as MANY
from gridsample.kernels.sampling.copies import store, stored

Array = np.ndarray[Any, Any]
HALVES = pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=["half", "bfloat"])


def numbers(shape: tuple[int, ...]) -> Array:
    """Numbers of all magnitudes, ties between halves, numbers that are too large, and NaN."""
    rng = cases.generator("halves", shape)
    sums = rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 20, shape)
    special = [np.nan, np.inf, -np.inf, -0.0, 65520.0, 1e30, 1 + 2.0**-11, 1 + 2.0**-8, 2.0**-25]
    sums.reshape(-1)[: len(special)] = special[: sums.size]
    return sums.astype(np.float32)


@HALVES
@pytest.mark.parametrize("shape", [(1, 1, 16), (2, 3, 5, 7), (1, 2, MANY - 3), (3, 1, 1, 3)])
def test_halves_are_those_of_numpy(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    sums = numbers(shape)
    expected = as_float(converted(sums, dtype))
    for threads in (1, 2):
        np.testing.assert_array_equal(as_float(stored(sums, dtype, threads)), expected)


@HALVES
@pytest.mark.parametrize(
    "shape", [(2, 4, 6, 10), (1, 6, 6, 6), (3, 3, 3, 3), (1, 1, 4, 4)], ids=str
)
def test_every_order_of_memory_is_stored(
    dtype: np.dtype[Any], shape: tuple[int, int, int, int]
) -> None:
    sums, (n, c, y, x) = numbers(shape), shape
    expected = as_float(converted(sums, dtype))
    channels_last = np.moveaxis(np.ascontiguousarray(np.moveaxis(sums, 1, -1)), -1, 1)
    for source in (sums, channels_last, sums[::-1, :, ::-1]):
        results = [
            np.zeros(shape, dtype),
            np.zeros((n, y, x, c), dtype).transpose(0, 3, 1, 2),
            np.zeros((n, c, x, y), dtype).transpose(0, 1, 3, 2),
            np.zeros((n, c, y, 2 * x), dtype)[..., ::2],
        ]
        for result in results:
            store(source, result, 1)
            right = expected[::-1, :, ::-1] if source.strides[0] < 0 else expected
            np.testing.assert_array_equal(as_float(np.ascontiguousarray(result)), right)


def test_sums_of_the_right_dtype_are_not_copied() -> None:
    sums = numbers((1, 2, 3))
    assert stored(sums, sums.dtype, 1) is sums
