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


@pytest.fixture
def without_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let JAX compute with its own operations, as on devices without programs of ours."""
    jax = pytest.importorskip("jax")
    from gridsample.backends.jax import handler

    monkeypatch.setattr(handler, "is_available", lambda: False)
    jax.clear_caches()
    yield
    jax.clear_caches()
