"""Fixtures of the tests of backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def quick_jax() -> Iterator[None]:
    """Let JAX compute in double precision, and compile programs quickly."""
    jax = pytest.importorskip("jax")
    options = "jax_enable_x64", "jax_disable_most_optimizations"
    for name in options:
        jax.config.update(name, True)
    yield
    for name in options:
        jax.config.update(name, False)
