"""`gridsample.operators.softmax_splat` on JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from fused_jax import check_batches, check_derivatives  # noqa: E402

from gridsample.operators import softmax_splat, softmax_splat_vjp  # noqa: E402


def inputs(dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    image, flow = rng.standard_normal((1, 3, 3, 4)), rng.uniform(-1.5, 1.5, (1, 2, 3, 4))
    return [a.astype(dtype) for a in (image, flow, rng.standard_normal((1, 1, 3, 4)))]


def test_means_are_those_of_numpy_arrays() -> None:
    arrays = inputs()
    result = jax.jit(softmax_splat)(*map(jnp.asarray, arrays))
    np.testing.assert_allclose(result, softmax_splat(*arrays), rtol=1e-6, atol=1e-6)
    check_batches(softmax_splat, arrays)


@pytest.mark.parametrize("mode", ["linear", "soft"])
def test_gradients_are_those_of_numpy_arrays(mode: str) -> None:
    def gradients(*arrays: Any) -> Any:
        return softmax_splat_vjp(*arrays, mode)

    image, flow, metric = inputs()
    arrays = [image[:, ::-1], image, flow, np.exp(metric)]
    results = jax.jit(gradients)(*map(jnp.asarray, arrays))
    for own, other in zip(results, gradients(*arrays), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)


def test_derivatives() -> None:
    check_derivatives(softmax_splat, inputs(np.float64), 1, "fwd", "rev")


@pytest.mark.slow
def test_second_derivatives() -> None:
    check_derivatives(softmax_splat, inputs(np.float64), 2, "rev")
