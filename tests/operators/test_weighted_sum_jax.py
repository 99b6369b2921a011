"""`gridsample.operators` on JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from fused_jax import check_batches, check_derivatives  # noqa: E402

from gridsample.operators import deformable_attention, weighted_sum, weighted_sum_vjp  # noqa: E402

SIZES = ((3, 4), (2, 1))


def inputs(dtype: Any = np.float32, batch: int = 2) -> list[Any]:
    rng = np.random.default_rng(0)
    pixels, shape = sum(h * w for h, w in SIZES), (batch, 3, 2, len(SIZES), 2)
    value = rng.standard_normal((batch, pixels, 2, 4))
    # Away from the lines between pixels, where slopes jump.
    points = rng.uniform(-0.1, 1.1, (*shape, 2))
    weights = rng.uniform(0, 1, shape)
    return [array.astype(dtype) for array in (value, points, weights)]


def attend(value: Any, points: Any, weights: Any) -> Any:
    return deformable_attention(value, SIZES, points, weights)


def loss(*arrays: Any) -> Any:
    return jnp.sum(attend(*arrays) ** 2)


def test_results_and_gradients_are_those_of_numpy_arrays() -> None:
    arrays = inputs()
    given = [jnp.asarray(array) for array in arrays]
    result = attend(*given)
    np.testing.assert_array_equal(result, attend(*arrays))
    upstream = 2 * np.asarray(result).reshape(2, 3, 2, 4)
    expected = weighted_sum_vjp(upstream, *arrays, SIZES, coords="unit")
    for gradients in (
        jax.jit(jax.grad(loss, (0, 1, 2)))(*given),
        weighted_sum_vjp(jnp.asarray(upstream), *given, SIZES, coords="unit"),
    ):
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    only = jax.grad(loss, 2)(*given)
    np.testing.assert_allclose(only, expected[2], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_derivatives() -> None:
    check_derivatives(attend, inputs(np.float64, batch=1), 2, "fwd", "rev")


def test_batches_are_joined() -> None:
    arrays = [jnp.asarray(array) for array in inputs()]
    batch = [jnp.stack([array, 2 * array]) for array in arrays]
    shared = jax.vmap(attend, (None, 1, None))(arrays[0], jnp.swapaxes(batch[1], 0, 1), arrays[2])
    np.testing.assert_array_equal(shared[1], attend(arrays[0], batch[1][1], arrays[2]))
    check_batches(attend, arrays)


def test_other_dtypes_and_modes() -> None:
    arrays = [jnp.asarray(array, jnp.bfloat16) for array in inputs()]
    result = attend(*arrays)
    assert result.dtype == jnp.bfloat16
    exact = attend(*[array.astype(jnp.float32) for array in arrays])
    np.testing.assert_array_equal(result, exact.astype(jnp.bfloat16))
    plain = inputs()
    composed = weighted_sum(*map(jnp.asarray, plain), SIZES, "spline3", "mirror", coords="unit")
    expected = weighted_sum(*plain, SIZES, "spline3", "mirror", coords="unit")
    np.testing.assert_allclose(composed, expected, rtol=1e-4, atol=1e-5)
