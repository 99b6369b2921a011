"""`gridsample.operators.softmax_splat` on JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from gridsample.operators import softmax_splat  # noqa: E402


def inputs(dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    image, flow = rng.standard_normal((1, 3, 3, 4)), rng.uniform(-1.5, 1.5, (1, 2, 3, 4))
    return [a.astype(dtype) for a in (image, flow, rng.standard_normal((1, 1, 3, 4)))]


def loss(*arrays: Any) -> Any:
    return jnp.sum(softmax_splat(*arrays) ** 2)


def test_means_are_those_of_numpy_arrays() -> None:
    arrays = inputs()
    given = [jnp.asarray(array) for array in arrays]
    expected = softmax_splat(*arrays)
    np.testing.assert_allclose(jax.jit(softmax_splat)(*given), expected, rtol=1e-6, atol=1e-6)
    batch = [jnp.stack([array, 0.5 * array]) for array in given]
    each = jnp.stack([softmax_splat(*[array[k] for array in batch]) for k in range(2)])
    np.testing.assert_array_equal(jax.vmap(softmax_splat)(*batch), each)
    gradients = jax.vmap(jax.grad(loss, (0, 1, 2)))(*batch)
    for k in range(2):
        own = jax.grad(loss, (0, 1, 2))(*[array[k] for array in batch])
        for a, b in zip(gradients, own, strict=True):
            np.testing.assert_allclose(a[k], b, rtol=1e-5, atol=1e-5)


def test_derivatives() -> None:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        arrays = [jnp.asarray(array) for array in inputs(np.float64)]
        check_grads(loss, arrays, order=1, modes=["fwd", "rev"])


@pytest.mark.slow
def test_second_derivatives() -> None:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        arrays = [jnp.asarray(array) for array in inputs(np.float64)]
        check_grads(loss, arrays, order=2, modes=["rev"])
