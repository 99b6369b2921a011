"""`gridsample.operators.correlation_lookup` on JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from fused_jax import check_batches, check_derivatives  # noqa: E402

from gridsample.operators import correlation_lookup, correlation_lookup_vjp  # noqa: E402


def inputs(dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    f1, f2 = rng.standard_normal((1, 5, 2, 3)), rng.standard_normal((1, 5, 4, 6))
    positions = rng.uniform(-1, 6, (1, 2, 2, 3))
    return [array.astype(dtype) for array in (f1, f2, positions)]


def look_up(*arrays: Any) -> Any:
    return correlation_lookup(*arrays, 1, 2)


def test_windows_are_those_of_numpy_arrays() -> None:
    arrays = inputs()
    result = jax.jit(look_up)(*map(jnp.asarray, arrays))
    np.testing.assert_allclose(result, look_up(*arrays), rtol=1e-6, atol=1e-6)
    check_batches(look_up, arrays)


def test_gradients_are_those_of_numpy_arrays() -> None:
    def gradients(*arrays: Any) -> Any:
        return correlation_lookup_vjp(*arrays, 1, 2)

    arrays = [np.ones((1, 18, 2, 3), np.float32), *inputs()]
    results = jax.jit(gradients)(*map(jnp.asarray, arrays))
    for own, other in zip(results, gradients(*arrays), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)


def test_derivatives() -> None:
    check_derivatives(look_up, inputs(np.float64), 1, "fwd", "rev")


@pytest.mark.slow
def test_second_derivatives() -> None:
    check_derivatives(look_up, inputs(np.float64), 2, "rev")
