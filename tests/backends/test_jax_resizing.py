"""JAX arrays: resizing, and images with channels last, by programs and by operations of JAX."""

from __future__ import annotations

import re
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


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.slow)])
def programs(request: pytest.FixtureRequest) -> bool:
    """Whether programs of ours compute, or operations of JAX as on other devices."""
    if not request.param:
        request.getfixturevalue("without_programs")
    return bool(request.param)


def calls_programs(function: Any, *arrays: Any) -> bool:
    return handler.NAME in jax.jit(function).lower(*arrays).as_text()


# Values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "antialias"),
    [("nearest", False), ("area", False), ("linear", True), ("lanczos3", True), ("spline3", True),
     ("cubic", False), ("spline3", False)],
)  # fmt: skip
def test_resizing(mode: str, antialias: bool, programs: bool) -> None:
    rng = cases.generator("jax", mode)
    image = cases.pixels(rng, (1, 2, 5, 30))
    image[0, 0, 0, 0] = np.nan
    assert_jax_matches_numpy("interpolate", image, (7, 4), mode=mode, antialias=antialias)
    assert_jax_matches_numpy(
        "interpolate_vjp",
        cases.pixels(rng, (1, 2, 7, 4)),
        image,
        (7, 4),
        mode=mode,
        antialias=antialias,
    )


@pytest.mark.parametrize("rounding", ["pillow", "torch"])
def test_bytes_are_rounded_after_each_axis(rounding: str, programs: bool) -> None:
    image = cases.pixels(cases.generator("jax", rounding), (1, 3, 20, 17), "uint8")
    assert_jax_matches_numpy(
        "interpolate", image, (9, 6), mode="bicubic", antialias=True, rounding=rounding
    )


@pytest.mark.parametrize("size", [(700,), (1500,)])
@pytest.mark.parametrize("mode", ["nearest", "lanczos3"])
def test_long_lines_have_the_bits_of_numpy(mode: str, size: tuple[int, ...]) -> None:
    line = cases.pixels(cases.generator("jax lines", mode), (1, 2, 1100))
    for image, shape in ((line, size), (line[..., np.newaxis].repeat(2, -1), (*size, 3))):
        result = gridsample.interpolate(jnp.asarray(image), shape, mode=mode)
        np.testing.assert_array_equal(result, gridsample.interpolate(image, shape, mode=mode))


@pytest.mark.parametrize("dtype", ["float16", "bool", "uint8", "int32", "complex64"])
def test_dtypes_are_converted_by_programs(dtype: str) -> None:
    image = cases.pixels(cases.generator("jax resized", dtype), (2, 3, 9, 8), dtype)

    def resized(image: Any) -> Any:
        return gridsample.interpolate(image, (4, 11), mode="cubic", antialias=True)

    assert calls_programs(resized, jnp.asarray(image))
    np.testing.assert_array_equal(resized(jnp.asarray(image)), resized(image))


def test_many_votes_need_a_known_range() -> None:
    labels = cases.pixels(cases.generator("jax labels"), (1, 1, 40, 50), "uint8") % 5

    def elected(labels: Any) -> Any:
        return gridsample.interpolate(labels, (3, 4), mode="label", antialias=True)

    assert calls_programs(elected, jnp.asarray(labels))
    assert not calls_programs(elected, jnp.asarray(labels, "int32"))
    for dtype in ("uint8", "int32"):
        typed = labels.astype(dtype)
        np.testing.assert_array_equal(elected(jnp.asarray(typed)), elected(typed))


# Transforms ---------------------------------------------------------------------------------------


def test_resizing_is_differentiated_and_batched() -> None:
    images = jnp.asarray(cases.pixels(cases.generator("jax batch"), (2, 1, 3, 5, 6)))

    def resized(image: Any) -> Any:
        return gridsample.interpolate(image, (3, 8), mode="spline3")

    check_grads(resized, (images[:, 0],), order=2)
    expected = np.stack([resized(np.asarray(image)) for image in images])
    for axis in (0, 3):
        moved = jnp.moveaxis(images, 0, axis)
        assert_jax_close(jax.vmap(resized, axis)(moved), expected)
        assert "scan" not in str(jax.make_jaxpr(jax.vmap(resized, axis))(moved))
    doubled = jax.vmap(jax.grad(lambda image: (resized(image) ** 2).sum()))(images)
    for slope, image in zip(doubled, images, strict=True):
        upstream = 2 * np.asarray(resized(image))
        reference = gridsample.interpolate_vjp(upstream, np.asarray(image), (3, 8), mode="spline3")
        assert_jax_close(slope, reference)


@pytest.mark.usefixtures("optimizing_jax")
def test_channels_last_need_no_transposition() -> None:
    rng = cases.generator("jax last")
    image, grid = cases.pixels(rng, (2, 9, 8, 3)), rng.uniform(-1, 1, (2, 4, 5, 2))

    def sampled(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, "cubic", "border", channel_axis=-1)

    def resized(image: Any, grid: Any) -> Any:
        return gridsample.interpolate(image, (4, 5), mode="linear", channel_axis=-1)

    upstream = cases.pixels(rng, (2, 4, 5, 3))
    gradients = gridsample.grid_sample_vjp(
        upstream, image, grid, "cubic", "border", channel_axis=-1
    )
    slopes = jax.grad(lambda *arrays: (sampled(*arrays) * upstream).sum(), (0, 1))
    results = [sampled, resized, slopes]
    expected = [sampled(image, grid), resized(image, grid), gradients]
    arrays = jnp.asarray(image), jnp.asarray(grid)
    for function, references in zip(results, expected, strict=True):
        program = jax.jit(function).lower(*arrays).compile()
        assert not re.search(r"= \S+ (transpose|copy)\(", program.as_text())
        for result, reference in zip(
            *map(jax.tree.leaves, (program(*arrays), references)), strict=True
        ):
            np.testing.assert_array_equal(result, reference)
