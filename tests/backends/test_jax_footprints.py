"""JAX arrays: antialiased sampling, by programs and by operations of JAX."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

import gridsample

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from jax.test_util import check_grads
from jax_assertions import assert_jax_close, assert_jax_matches_numpy

from gridsample.backends.jax import handler

pytestmark = pytest.mark.usefixtures("double_jax")
ANTIALIAS: dict[str, Any] = {"antialias": True, "max_samples": 3}


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.slow)])
def programs(request: pytest.FixtureRequest) -> bool:
    """Whether programs of ours compute, or operations of JAX as on other devices."""
    if not request.param:
        request.getfixturevalue("without_programs")
    return bool(request.param)


def test_footprints(programs: bool) -> None:
    rng = cases.generator("jax", "footprints")
    # XLA compiles operations for each sample along each axis, and for each halved copy.
    size, samples = ((21, 20), 3) if programs else ((6, 5), 2)
    image, grid = cases.pixels(rng, (1, 1, *size)), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    grid[0, 0, 0] = np.nan
    values = cases.pixels(rng, (2, 1, 3, 2))
    options = {"antialias": True, "max_samples": samples}
    assert_jax_matches_numpy("grid_sample", image, grid, "linear", "border", **options)
    assert_jax_matches_numpy("grid_sample_vjp", values, image, grid, **options)
    detached = {"coords": "displacement", "footprint": "detach"}
    assert_jax_matches_numpy("grid_sample_vjp", values, image, 8 * grid, **detached, **options)
    assert_jax_matches_numpy("splat", values, grid, size, **options)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_halved_copies_in_a_trace(dtype: str, rank: int) -> None:
    rng = cases.generator("jax levels", rank, dtype)
    image = cases.pixels(rng, (2, 2, *(22, 19, 60)[-rank:]), dtype)
    # Some points need the image itself, others copies of it.
    grid = rng.uniform(-1, 1, (2, *(4, 3, 12)[-rank:], rank)).astype("f4")
    grid[..., :6, :] *= 0.01

    def sampled(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, "linear", "mirror", **ANTIALIAS)

    arrays = jnp.asarray(image), jnp.asarray(grid)
    assert handler.NAME in jax.jit(sampled).lower(*arrays).as_text()
    result, expected = jax.jit(sampled)(*arrays), sampled(image, grid)
    np.testing.assert_allclose(
        result.astype("f4"), expected.astype("f4"), rtol=0, atol=1e-6 if dtype == "float32" else 0
    )


def test_labels_and_large_integers(programs: bool) -> None:
    rng = cases.generator("jax footprints of labels")
    labels, grid = cases.pixels(rng, (1, 2, 12, 13), "int32"), rng.uniform(-1, 1, (2, 3, 4, 2))
    options = {"antialias": True, "max_samples": 2}
    assert_jax_matches_numpy("grid_sample", labels % 4, grid, "label", **options)
    still = 0.01 * grid  # each footprint is a single pixel
    assert_jax_matches_numpy("grid_sample", labels, still, "nearest", **options)


@pytest.mark.slow
def test_footprints_are_differentiated_twice() -> None:
    rng = cases.generator("jax footprints twice")
    image, grid = cases.pixels(rng, (1, 1, 9)), rng.uniform(-0.9, 0.9, (1, 3, 1))
    options = {"antialias": True, "max_samples": 2}
    sampled = jax.jit(lambda *arrays: gridsample.grid_sample(*arrays, "cubic", **options))
    check_grads(sampled, (image, grid), order=2, modes=["rev"], rtol=1e-5, eps=1e-6)


def test_footprints_are_batched_without_a_loop() -> None:
    rng = cases.generator("jax footprints batched")
    images, grids = cases.pixels(rng, (3, 2, 1, 12, 9)), rng.uniform(-1, 1, (3, 2, 3, 4, 2))

    def sampled(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, "linear", **ANTIALIAS)

    for axes in ((0, 0), (None, 0), (0, None)):
        arrays = [
            array if axis == 0 else array[0]
            for array, axis in zip((images, grids), axes, strict=True)
        ]
        batched = jax.vmap(sampled, axes)
        assert "scan" not in str(jax.make_jaxpr(batched)(*arrays))
        pairs = [
            [array[k] if axis == 0 else array for array, axis in zip(arrays, axes, strict=True)]
            for k in range(3)
        ]
        assert_jax_close(batched(*arrays), np.stack([sampled(*arrays) for arrays in pairs]))
