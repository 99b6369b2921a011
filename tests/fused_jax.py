"""Checks of fused operators on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

Function = Callable[..., Any]


def check_batches(operator: Function, arrays: Sequence[Any], limit: float = 1e-5) -> None:
    """Results and gradients under `jax.vmap` are those of each case."""

    def loss(*arrays: Any) -> Any:
        return jnp.sum(operator(*arrays) ** 2)

    batch = [jnp.stack([array, 0.5 * array]) for array in map(jnp.asarray, arrays)]
    cases = [[array[k] for array in batch] for k in range(2)]
    each = jnp.stack([operator(*case) for case in cases])
    np.testing.assert_array_equal(jax.vmap(operator)(*batch), each)
    gradients = jax.vmap(jax.grad(loss, (0, 1, 2)))(*batch)
    for k, case in enumerate(cases):
        for a, b in zip(gradients, jax.grad(loss, (0, 1, 2))(*case), strict=True):
            np.testing.assert_allclose(a[k], b, rtol=limit, atol=limit)


def check_derivatives(operator: Function, arrays: Sequence[Any], order: int, *modes: str) -> None:
    """Derivatives up to an order, in double precision."""

    def loss(*arrays: Any) -> Any:
        return jnp.sum(operator(*arrays) ** 2)

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        check_grads(loss, [*map(jnp.asarray, arrays)], order=order, modes=[*modes])
