"""Functions built on the operations, with JAX arrays: fields, volumes in millimetres, cameras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample import cameras, fields
from gridsample.world import Displacement

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("double_jax")

FIELDS: dict[str, Callable[..., Any]] = {
    "compose": fields.compose,
    "invert": lambda f, g: fields.invert(f, iterations=3, tolerance=1e-12)[:2],
    "exp": lambda f, g: fields.exp(f, 2),
    "consistency": lambda f, g: fields.consistency(f, g).error,
    "jacobian": lambda f, g: fields.jacobian(f, "bicubic"),
    "regularity": lambda f, g: tuple(fields.regularity(f)),
    "units": lambda f, g: fields.to_normalized(f, f.shape[1:-1], True, coords="displacement"),
    "theta": lambda f, g: fields.theta_from_grid(f),
    "compose_vjp": lambda f, g: fields.compose_vjp(g, f, g),
    "invert_vjp": lambda f, g: fields.invert_vjp(g, f, g),
    "exp_vjp": lambda f, g: fields.exp_vjp(g, f, 2),
    "thin_plate": lambda f, g: fields.thin_plate(f[0, 0], g[0, 0]).grid((3, 4)),
}


def as_jax(value: Any) -> Any:
    """JAX arrays for NumPy's, in tuples and lists, too."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_jax, value))
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def assert_same_for_jax(call: Callable[..., Any], *arguments: Any, compiled: bool = False) -> None:
    """Assert that a function returns for JAX arrays what it does for NumPy's.

    A function that does not look at values may be compiled: one program takes JAX a quarter of the
    time that its operations do one by one.
    """
    expected = call(*arguments)
    result = (jax.jit(call) if compiled else call)(*map(as_jax, arguments))
    several = isinstance(expected, tuple)
    pairs = zip(result, expected, strict=True) if several else [(result, expected)]
    for ours, theirs in pairs:
        if theirs is None:
            assert ours is None
            continue
        assert isinstance(ours, jax.Array) or np.ndim(theirs) == 0
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        name if k < 1 else pytest.param(name, marks=pytest.mark.slow)
        for k, name in enumerate(FIELDS)
    ],
)
def test_fields(name: str) -> None:
    rng = cases.generator("jax fields")
    arrays = [rng.uniform(-0.4, 0.4, (1, 3, 4, 2)) for _ in range(2)]
    assert_same_for_jax(FIELDS[name], *arrays, compiled=name in ("regularity", "theta"))


def test_volumes_in_millimetres() -> None:
    rng = cases.generator("jax worlds")
    image, upstream = rng.normal(size=(4, 5)), rng.normal(size=(3, 4))
    affine, other, matrix = (np.eye(3) + rng.uniform(-0.1, 0.1, (3, 3)) for _ in range(3))
    for matrices in (affine, other, matrix):
        matrices[2] = 0, 0, 1
    vectors = rng.uniform(-0.3, 0.3, (3, 4, 2))

    def resample(*arrays: Any) -> Any:
        image, affine, other, matrix, vectors, upstream = arrays
        transform = [matrix, Displacement(vectors, other)]
        return (
            gridsample.resample(image, affine, ((3, 4), other), transform, "cubic"),
            *gridsample.resample_vjp(upstream, image, affine, ((3, 4), other), matrix)[:1],
        )

    assert_same_for_jax(resample, image, affine, other, matrix, vectors, upstream)


@pytest.mark.slow
def test_cameras() -> None:
    rng = cases.generator("jax cameras")
    lens, pose = np.array([[9.0, 0, 4], [0, 9, 3], [0, 0, 1]]), np.eye(4)
    moved = pose.copy()
    moved[0, 3] = -0.3
    points = rng.uniform(-1, 1, (6, 3))
    points[:, 2] += 3
    assert_same_for_jax(cameras.project, points, lens, moved, compiled=True)
    assert_same_for_jax(cameras.distort_points, points[:, :2] / 5, np.array([-0.2, 0.1, 0, 0]))
    assert_same_for_jax(cameras.undistort_points, points[:, :2] / 5, np.array([-0.2, 0.1, 0, 0]))
    assert_same_for_jax(
        lambda lens: cameras.undistort_grid((6, 8), lens, [-0.3, 0.1, 0, 0]), lens, compiled=True
    )
    images = rng.normal(size=(2, 3, 6, 8))
    assert_same_for_jax(
        lambda *arrays: cameras.plane_sweep(
            arrays[0][:1], arrays[0][None, 1:], arrays[1:], [2.0, 3.0, 5.0]
        ),
        images,
        np.stack([lens, lens]),
        np.stack([pose, moved]),
        compiled=True,
    )
    assert_same_for_jax(
        lambda *arrays: tuple(cameras.sample_views(*arrays[:2], None, *arrays[2:]))[:1],
        points,
        images,
        np.stack([lens, lens]),
        np.stack([pose, moved]),
        compiled=True,
    )
    source, target = cameras.equirectangular((8, 16)), cameras.perspective((3, 3), fov=90)
    panorama = rng.normal(size=(1, 2, 8, 16))
    assert_same_for_jax(
        lambda image: cameras.convert_panorama(image, source, target), panorama, compiled=True
    )
    gradient = jax.jit(
        jax.grad(lambda image: cameras.convert_panorama(image, source, target).sum())
    )
    expected = cameras.convert_panorama_vjp(np.ones((1, 2, 3, 3)), panorama, source, target)
    np.testing.assert_allclose(
        jax.jit(gradient)(jnp.asarray(panorama)), np.asarray(expected), atol=1e-12
    )
