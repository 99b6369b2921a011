"""`gridsample.jax` against SciPy, and against the functions of JAX whose names it has."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
import scipy.ndimage

import gridsample
from gridsample.definitions.methods import bspline

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax.test_util import check_grads  # noqa: E402

import gridsample.jax as names  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_jax")
# SciPy's name of each mode.
MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
    "scipy-constant": "constant",
    "scipy-wrap": "wrap",
}


# The pairs are shown for NumPy's arrays, whose modes and splines these are (tests/ndimage).
@pytest.mark.covering(slow=1)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("prefilter", [True, False])
def test_map_coordinates_matches_scipy(prefilter: bool, order: int, mode: str, rank: int) -> None:
    rng = cases.generator("jax", rank, mode, order)
    # SciPy's "reflect" prefilter is inexact for short lines.
    image = cases.pixels(rng, ((22, 23, 22) if mode == "reflect" else (6, 7, 5))[:rank])
    at = [rng.uniform(-3, n + 3, (2, 5)) for n in image.shape]
    result = names.map_coordinates(jnp.asarray(image), at, order, mode, 2.5, prefilter=prefilter)
    expected = scipy.ndimage.map_coordinates(
        image, at, order=order, mode=MODES[mode], cval=2.5, prefilter=prefilter
    )
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11 * (1 + abs(expected).max()))


@pytest.mark.covering(ordinary=0, slow=0)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32"])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates_matches_jax(order: int, mode: str, dtype: str) -> None:
    rng = cases.generator("jax", mode, order, dtype)
    image = jnp.asarray(cases.pixels(rng, (6, 7), dtype))
    if dtype != "float32":
        image = image % 100
    at = [jnp.asarray(rng.uniform(-4, 10, 9), "f4") for _ in range(2)]
    result = names.map_coordinates(image, at, order, mode, 3)
    expected = jax.scipy.ndimage.map_coordinates(image, at, order, mode, 3)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)


@pytest.mark.covering(ordinary=0, slow=0)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [6, 7])
def test_high_order_splines_interpolate_pixels(order: int, mode: str) -> None:
    image = cases.pixels(cases.generator("jax", mode), (9,))
    result = names.map_coordinates(jnp.asarray(image), [np.arange(9.0)], order, mode)
    np.testing.assert_allclose(result, image, rtol=0, atol=1e-11)
    # Between pixels, a spline of coefficients is a sum of B-splines.
    impulse = jnp.zeros(19).at[9].set(1)
    result = names.map_coordinates(impulse, [jnp.array([9.25])], order, mode, prefilter=False)
    weights = np.array(bspline(order).table) @ 0.25 ** np.arange(order + 1)
    near = weights[-bspline(order).first] if not order % 2 else weights[order // 2]
    np.testing.assert_allclose(result, [near], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["mirror", "scipy-constant"])
def test_derivatives(mode: str) -> None:
    rng = cases.generator("jax", mode)
    image, at = jnp.asarray(cases.pixels(rng, (5,))), jnp.asarray(rng.uniform(0.2, 3.8, 3))
    call = jax.jit(lambda image, at: names.map_coordinates(image, [at], 3, mode))
    check_grads(call, (image, at), order=2, rtol=1e-5, eps=1e-5)


@pytest.mark.parametrize("order", [1, 3])
def test_affine_transform_and_zoom_match_scipy(order: int) -> None:
    rng = cases.generator("jax", order)
    image, matrix = cases.pixels(rng, (6, 7)), np.array([[0.9, 0.2], [-0.3, 1.1]])
    options: dict[str, Any] = {"order": order, "cval": 1.5}
    expected = scipy.ndimage.affine_transform(
        image, matrix, (0.5, -1), (5, 4), mode="mirror", **options
    )
    arrays = [jnp.asarray(numbers) for numbers in (image, matrix, (0.5, -1))]
    result = names.affine_transform(*arrays, (5, 4), mode="mirror", **options)
    np.testing.assert_allclose(result, expected, atol=1e-11)
    with_offset = jnp.concatenate([arrays[1], arrays[2][:, None]], 1)
    again = names.affine_transform(arrays[0], with_offset, 7.0, (5, 4), mode="mirror", **options)
    np.testing.assert_array_equal(again, result)
    for grid_mode in (False, True):
        expected = scipy.ndimage.zoom(
            image, (1.5, 0.7), mode="grid-constant", grid_mode=grid_mode, **options
        )
        zoomed = jax.jit(names.zoom, static_argnames=("zoom", "order", "mode", "cval", "grid_mode"))
        result = zoomed(image, (1.5, 0.7), mode="constant", grid_mode=grid_mode, **options)
        np.testing.assert_allclose(result, expected, atol=1e-11)


METHODS = ["nearest", "linear", "cubic", "lanczos3", "lanczos5"]


# The pairs are shown for NumPy's arrays, which the same programs resize (tests/ops).
@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(2, 12, 9), (3, 7, 4), (2, 12, 4)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
def test_resize_matches_jax(dtype: str, shape: tuple[int, ...], method: str) -> None:
    image = jnp.asarray(cases.pixels(cases.generator("jax", dtype, method), (2, 7, 9), dtype))
    resized(image, shape, method, True)


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize("method", METHODS)
def test_resize_without_antialias(method: str) -> None:
    image = jnp.asarray(cases.pixels(cases.generator("jax", method), (2, 7, 9)))
    for shape in [(3, 4, 9), (1, 9, 5)]:
        resized(image, shape, method, False)


def test_resize_like_torch() -> None:
    image = jnp.asarray(cases.pixels(cases.generator("jax torch"), (7, 9)))
    for shape, antialias in itertools.product([(4, 5), (12, 11)], [True, False]):
        result = names.resize(image, shape, "cubic-pytorch", antialias)
        expected = gridsample.interpolate(
            np.asarray(image)[None, None], shape, mode="bicubic", antialias=antialias
        )
        np.testing.assert_allclose(result, expected[0, 0], rtol=0, atol=1e-12)
    assert names.resize(image, (0, 9)).shape == (0, 9)


def resized(image: Any, shape: tuple[int, ...], method: str, antialias: bool) -> None:
    """An image is resized like by JAX."""
    result = names.resize(image, shape, method, antialias)
    expected = jax.image.resize(image, shape, method, antialias)
    assert result.dtype == expected.dtype
    tolerance = 1e-12 if result.dtype == np.float64 else 2e-6 * (1 + abs(expected).max())
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)
    by_name = names.resize(image, shape, jax.image.ResizeMethod.from_string(method), antialias)
    np.testing.assert_array_equal(by_name, result)


def test_dtypes_may_differ_under_strict_promotion() -> None:
    image, at = jnp.arange(12.0, dtype="f4").reshape(3, 4), [jnp.array([0.5, 1.5])] * 2
    integers = image.astype(int)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        for array in (image, integers):
            result = names.map_coordinates(array, at, 1)
            np.testing.assert_allclose(result, [2.5, 7.5] if array is image else [3, 8])
        names.map_coordinates(image, at, 3, "mirror")
        assert names.resize(integers, (3, 2), "linear").dtype == np.float32  # as JAX promotes
        loss = lambda image, grid: gridsample.grid_sample(image, grid, "cubic").sum()  # noqa: E731
        arrays = image[None, None], jnp.zeros((1, 2, 2))
        first, second = jax.grad(loss, (0, 1))(*arrays)
    assert (first.dtype, second.dtype) == (np.float32, np.float64)


def test_errors() -> None:
    image, at = jnp.ones((3, 3)), [jnp.zeros(2)] * 2
    with pytest.raises(ValueError, match="order must be from 0 to 7, got 8"):
        names.map_coordinates(image, at, 8)
    with pytest.raises(TypeError, match="order must be an integer"):
        names.map_coordinates(image, at, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode"):
        names.map_coordinates(image, at, 1, "mirrors")
    with pytest.raises(ValueError, match="one array for each of the input's 2 axes, got 1"):
        names.map_coordinates(image, at[:1], 1)
    with pytest.raises(TypeError, match="real numbers"):
        names.map_coordinates(image, [1j, 1j], 1)
    with pytest.raises(ValueError, match=r"matrix must be \(2, 2\) or \(2, 3\)"):
        names.affine_transform(image, jnp.eye(3))
    with pytest.raises(ValueError, match="zoom must be a number or one for each"):
        names.zoom(image, (1, 2, 3))
    with pytest.raises(ValueError, match="shape must have 2 entries"):
        names.resize(image, (3,))
    with pytest.raises(ValueError, match="method"):
        names.resize(image, (3, 4), "splines")
    with pytest.raises(TypeError, match="method must be a string"):
        names.resize(image, (3, 4), 3)
