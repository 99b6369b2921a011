"""Assertions that functions of JAX arrays return what they return for NumPy arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gridsample


def as_jax(value: Any) -> Any:
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def assert_jax_close(result: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """Assert that a result is NumPy's, within a tolerance relative to the largest number."""
    if expected is None:
        assert result is None
        return
    assert isinstance(result, jax.Array)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    range_ = max(1.0, float(np.nanmax(np.abs(expected), initial=0)))
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * range_)


def assert_jax_matches_numpy(
    function: str, *arrays: Any, tolerance: float = 1e-12, **options: Any
) -> None:
    """Assert that a function of gridsample returns for JAX arrays what it does for NumPy's."""
    call = getattr(gridsample, function)
    expected = call(*arrays, **options)
    result = call(*map(as_jax, arrays), **{k: as_jax(option) for k, option in options.items()})
    if not isinstance(expected, tuple):
        expected, result = (expected,), (result,)
    for ours, theirs in zip(result, expected, strict=True):
        assert_jax_close(ours, theirs, tolerance)
