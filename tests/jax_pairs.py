"""Functions of JAX arrays are compared with the same functions of NumPy arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gridsample


def as_jax(value: Any) -> Any:
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def close(result: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """A result is like NumPy's, whose largest number is the unit of the tolerance."""
    if expected is None:
        assert result is None
        return
    assert isinstance(result, jax.Array)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    range_ = max(1.0, float(np.nanmax(np.abs(expected), initial=0)))
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * range_)


def pair(function: str, *arrays: Any, tolerance: float = 1e-12, **options: Any) -> None:
    """A function gives for JAX arrays what it gives for NumPy's."""
    call = getattr(gridsample, function)
    expected = call(*arrays, **options)
    result = call(*map(as_jax, arrays), **{k: as_jax(option) for k, option in options.items()})
    if not isinstance(expected, tuple):
        expected, result = (expected,), (result,)
    for ours, numpys in zip(result, expected, strict=True):
        close(ours, numpys, tolerance)
