"""Fixtures of the tests of backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def double_jax() -> Iterator[None]:
    """Let JAX compute in double precision."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)  # in all threads
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def optimizing_jax() -> Iterator[None]:
    """Let JAX optimize programs as it does for users."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)  # as in tests/conftest.py


@pytest.fixture
def without_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let JAX compute with its own operations, as on devices without programs of ours."""
    jax = pytest.importorskip("jax")
    from gridsample.backends.jax import handler

    monkeypatch.setattr(handler, "is_available", lambda: False)
    jax.clear_caches()
    yield
    jax.clear_caches()
