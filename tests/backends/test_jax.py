"""JAX arrays: every operation against NumPy's results, and under JAX's transforms."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import cases
import numpy as np
import pytest
from jax_assertions import assert_jax_close, assert_jax_matches_numpy

import gridsample

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax.test_util import check_grads  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_jax")
SLOW = pytest.mark.slow
BOUNDARIES = (
    *("zeros", "constant", "border", "reflection", "symmetric", "mirror", "wrap"),
    *("antisymmetric", "antimirror", "dst1"),
)


# Values -------------------------------------------------------------------------------------------


# Pairs are those of the kernels, which other tests compare.
@pytest.mark.covering(slow=1)
@pytest.mark.parametrize("coords", ["normalized", "pixel", "displacement"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline3", "spline4", "lanczos3"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("programs", [True, False])
def test_samples_and_gradients(
    programs: bool,
    dtype: str,
    rank: int,
    mode: str,
    boundary: str,
    align_corners: bool,
    coords: str,
    request: pytest.FixtureRequest,
) -> None:
    if not programs:  # but operations of `jax.numpy`, as on other devices
        request.getfixturevalue("without_programs")
    rng = cases.generator("jax", rank, mode, boundary, align_corners, coords)
    spatial = (5, 6, 7)[-rank:]
    image = cases.pixels(rng, (1, 2, *spatial), dtype)
    out = spatial if coords == "displacement" else (3, 4)
    grid = rng.uniform(-1.6, 1.6, (2, *out, rank))
    if coords != "normalized":
        grid = 4 * grid + 2 * (coords == "pixel")
    grid.reshape(-1)[[3, 8]] = np.nan, np.inf
    grid = grid.astype(dtype)
    options = {
        "mode": mode,
        "padding_mode": boundary,
        "align_corners": align_corners,
        "coords": coords,
        "fill_value": (2.5, -1) if boundary == "constant" else 0,
        "extrapolate": tuple([bool(each < 0.7) for each in rng.random(rank)]),
    }
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    assert_jax_matches_numpy("grid_sample", image, grid, **options, tolerance=tolerance)
    values = cases.pixels(rng, (2, 2, *out), dtype)
    assert_jax_matches_numpy(
        "grid_sample_vjp", values, image, grid, **options, tolerance=4 * tolerance
    )


def test_derivatives_along_coordinates() -> None:
    rng = cases.generator("jax", "derivatives")
    image, grid = cases.pixels(rng, (2, 2, 5, 6)), rng.uniform(-1.3, 1.3, (2, 3, 4, 2))
    assert_jax_matches_numpy("grid_gradient", image, grid, "cubic", "reflection")
    assert_jax_matches_numpy(
        "grid_hessian", image, grid, ("spline3", "linear"), ("constant", "wrap"), fill_value=3
    )


def test_other_operations() -> None:
    rng = cases.generator("jax", "others")
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    values, theta = cases.pixels(rng, (2, 2, 3, 2)), rng.uniform(-1, 1, (2, 2, 3))
    size = (2, 2, 3, 2)
    assert_jax_matches_numpy(
        "grid_sample", np.moveaxis(image, 1, -1), grid, channel_axis=-1, return_mask=True
    )
    assert_jax_matches_numpy("affine_grid", theta, size)
    assert_jax_matches_numpy("affine_sample", image, theta, size, "cubic", "border")
    assert_jax_matches_numpy("affine_sample_vjp", values, image, theta, size)
    assert_jax_matches_numpy(
        "splat", values, grid, (4, 5), "cubic", "mirror", normalize=True, return_weight=True
    )
    assert_jax_matches_numpy("splat_count", grid, (4, 5), "spline2", "wrap")


def test_missing_pixels_and_weights() -> None:
    rng = cases.generator("jax", "missing")
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2))
    image[rng.random(image.shape) < 0.3] = np.nan
    values, weights = cases.pixels(rng, (2, 2, 3)), rng.random((1, 1, 4, 5))
    options = {"padding_mode": "missing", "missing": "ignore", "weights": weights}
    assert_jax_matches_numpy("grid_sample", image, grid, **options, return_weight=True)
    assert_jax_matches_numpy("grid_sample_vjp", values, image, grid, **options)
    assert_jax_matches_numpy(
        "interpolate", image, (5, 3), mode="linear", missing="ignore", return_weight=True
    )


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int64", *[pytest.param(name, marks=SLOW) for name in ("bool", "int16", "uint64")]],
)
def test_integers_and_labels(dtype: str) -> None:
    rng = cases.generator("jax", dtype)
    image, grid = cases.pixels(rng, (2, 1, 4, 5), dtype), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    grid[0, 0, 0] = np.nan
    fill = {"padding_mode": "constant", "fill_value": 1}
    assert_jax_matches_numpy("grid_sample", image, grid, "nearest", **fill)
    if dtype not in ("int64", "uint64"):  # whose sums are rounded
        assert_jax_matches_numpy("grid_sample", image, grid, "cubic", **fill)
        assert_jax_matches_numpy("interpolate", image, (3, 7), mode="cubic", antialias=True)
    labels = image if dtype == "bool" else image % 3
    assert_jax_matches_numpy("grid_sample", labels, grid, "label", **fill)
    assert_jax_matches_numpy("grid_sample", labels, grid, "label", antialias=True, max_samples=2)
    assert_jax_matches_numpy("interpolate", labels, (3, 7), mode="label")


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128", "bfloat16"])
def test_precisions(dtype: str) -> None:
    rng = cases.generator("jax", dtype)
    image, grid = cases.pixels(rng, (2, 1, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    image_type = jnp.dtype(dtype)
    if image_type.kind == "c":
        image = image + 1j * image[::-1]
    sample = gridsample.grid_sample
    result = sample(jnp.asarray(image, image_type), jnp.asarray(grid), "cubic", "mirror")
    expected = sample(
        np.asarray(jnp.asarray(image, image_type)).astype(image.dtype), grid, "cubic", "mirror"
    )
    assert result.dtype == image_type
    eps = float(jnp.finfo(image_type).eps)
    np.testing.assert_allclose(
        np.asarray(result).astype(image.dtype), expected, rtol=0, atol=16 * eps
    )


@pytest.mark.covering(ordinary=0, slow=2)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("order", "axes"), [(3, (0, 1)), (6, (0,))])
@pytest.mark.parametrize("adjoint", [True, False])
def test_prefilter(adjoint: bool, order: int, axes: tuple[int, ...], boundary: str) -> None:
    image = cases.pixels(cases.generator("jax", boundary), (40, 3))
    assert_jax_matches_numpy("spline_filter", image, order, boundary, axes=axes, adjoint=adjoint)


# Transforms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "boundary", "rank"),
    [
        ("cubic", "wrap", 1),
        pytest.param("cubic", "border", 2, marks=SLOW),
        pytest.param("spline3", "constant", 2, marks=SLOW),
    ],
)
def test_derivatives_of_second_order(mode: str, boundary: str, rank: int) -> None:
    rng = cases.generator("jax", "grads", mode)
    image = cases.pixels(rng, (1, 1, 4, 5)[: 2 + rank])
    grid = rng.uniform(-0.9, 0.9, (1, 3, rank))

    def sampled(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, mode, boundary)

    check_grads(sampled, (image, grid), order=2, rtol=1e-5, eps=1e-5)


def test_gradients_are_zero_where_nothing_is_sampled() -> None:
    image, grid = jnp.ones((1, 1, 3, 3)), jnp.array([[[jnp.nan, 0.1], [0.2, jnp.inf], [0, 5]]])
    for boundary in ("zeros", "mirror", "border", "constant"):
        loss = lambda grid, name=boundary: jnp.nansum(  # noqa: E731
            gridsample.grid_sample(image, grid, "cubic", name)
        )
        assert not np.isnan(jax.grad(loss)(grid)).any()
    edge = jnp.array([[[1.0]]])  # clamped: the derivative is 0 at the end, as in PyTorch
    line = jnp.array([[[0.0, 1.0]]])
    slope = jax.grad(lambda at: gridsample.grid_sample(line, at, "linear", "border", True).sum())
    assert slope(edge) == 0


def test_transforms() -> None:
    rng = cases.generator("jax", "transforms")
    image = jnp.asarray(cases.pixels(rng, (1, 2, 5, 6)))
    grids = jnp.asarray(rng.uniform(-0.9, 0.9, (3, 2, 3, 2, 2)))

    def sampled(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, "linear", "border")

    expected = jnp.stack([sampled(image, grid) for grid in grids])
    assert_jax_close(jax.jit(jax.vmap(sampled, (None, 0)))(image, grids), np.asarray(expected))
    images = jnp.stack([image, 2 * image, 3 * image])
    batches = jax.vmap(jax.vmap(sampled, (None, 0)), (0, None))(images, grids)
    assert_jax_close(batches[2], 3 * np.asarray(expected))

    def add(total: Any, grid: Any) -> Any:
        return total + sampled(image, grid).sum(), None

    total, _ = jax.lax.scan(add, 0.0, grids)
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-12)
    forward = jax.jacfwd(sampled, 1)(image, grids[0])
    np.testing.assert_allclose(forward, jax.jacrev(sampled, 1)(image, grids[0]), atol=1e-12)
    checkpointed = jax.checkpoint(lambda grid: sampled(image, grid).sum())
    np.testing.assert_allclose(
        jax.grad(checkpointed)(grids[0]),
        jax.grad(lambda grid: sampled(image, grid).sum())(grids[0]),
    )
    assert jax.eval_shape(sampled, image, grids[0]).shape == (2, 2, 3, 2)


def test_a_program_is_exported_for_any_batch() -> None:
    rng = cases.generator("jax", "export")
    image, grid = cases.pixels(rng, (3, 1, 4, 5)), rng.uniform(-1, 1, (3, 2, 2))
    (n,) = jax.export.symbolic_shape("n")
    shapes = [jax.ShapeDtypeStruct((n, *a.shape[1:]), a.dtype) for a in (image, grid)]
    exported = jax.export.export(jax.jit(gridsample.grid_sample))(*shapes)
    assert_jax_close(exported.call(image, grid), gridsample.grid_sample(image, grid))


def test_constants_in_a_trace() -> None:
    # Their values are there, but what is computed from them is traced.
    image, grid = jnp.array([[[1.0, jnp.nan, 3.0]]]), jnp.array([[[0.0], [0.5]]])
    result = jax.jit(lambda: gridsample.grid_sample(image, grid, missing="ignore"))()
    assert_jax_close(
        result, gridsample.grid_sample(np.asarray(image), np.asarray(grid), missing="ignore")
    )


def test_single_precision() -> None:
    jax.config.update("jax_enable_x64", False)
    rng = cases.generator("jax", "single")
    image, grid = cases.pixels(rng, (1, 1, 4, 5), "int32"), rng.uniform(-1, 1, (1, 3, 2))
    result = gridsample.grid_sample(jnp.asarray(image), jnp.asarray(grid), "nearest", "border")
    np.testing.assert_array_equal(
        result, gridsample.grid_sample(image, grid.astype("f4"), "nearest", "border")
    )
    real = image / 2**31
    result = gridsample.grid_sample(jnp.asarray(real), jnp.asarray(grid), "spline3", "mirror")
    assert result.dtype == np.float32
    expected = gridsample.grid_sample(real.astype("f4"), grid.astype("f4"), "spline3", "mirror")
    np.testing.assert_allclose(result, expected, atol=2e-6)


THREADS = """
import threading
import jax, numpy as np
import gridsample

assert len(jax.devices()) == 2
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
image = jax.device_put(np.arange(24.0, dtype="f4").reshape(2, 1, 3, 4), rows)
grid = np.zeros((2, 1, 2), "f4")
call = jax.jit(gridsample.grid_sample)
slope = jax.jit(jax.grad(lambda image: gridsample.grid_sample(image, grid).sum()))
done = []

def work():
    for k in range(40):
        assert call(image, grid).reshape(-1).tolist() == [5.5, 17.5]
        assert slope(image).sum() == 2
        try:
            call(image, grid[..., :1])
        except ValueError:
            pass
    done.append(1)

def back(image):
    return gridsample.grid_sample(image, grid)

@jax.jit
def nested(image):
    shape = jax.ShapeDtypeStruct((2, 1, 1), image.dtype)
    return jax.pure_callback(back, shape, image) + call(image, grid)

threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(done) == 8
assert nested(np.asarray(image)).reshape(-1).tolist() == [11, 35]
"""


@pytest.mark.slow
def test_threads_devices_and_callbacks() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", THREADS], env={**os.environ, **flags}, check=True)


# Errors -------------------------------------------------------------------------------------------


def test_errors() -> None:
    image, grid = jnp.ones((1, 1, 3, 3)), jnp.zeros((1, 2, 2))
    with pytest.raises(TypeError, match="out is accepted with NumPy arrays only"):
        gridsample.grid_sample(image, grid, out=np.ones((1, 1, 2)))
    with pytest.raises(TypeError, match=r"grid is a builtins\.list"):
        gridsample.grid_sample(image, [[[0.0, 0.0]]])
    with pytest.raises(TypeError, match="grid has dtype int"):
        gridsample.grid_sample(image, grid.astype(int))
    with pytest.raises(TypeError, match="input has dtype float8"):
        gridsample.grid_sample(image.astype(jnp.float8_e4m3fn), grid)
    with pytest.raises(ValueError, match="grid"):
        gridsample.grid_sample(image, grid[..., :1])
    with pytest.raises(TypeError, match="no gradient"):
        gridsample.grid_sample_vjp(jnp.ones((1, 1, 2)), image.astype(int), grid)


def test_empty_arrays() -> None:
    for image, grid in (((0, 1, 3), (0, 2, 1)), ((1, 0, 3), (1, 2, 1)), ((1, 1, 3), (1, 0, 1))):
        assert_jax_matches_numpy("grid_sample", np.ones(image), np.zeros(grid))


def test_mixed_arrays() -> None:
    image, grid = np.ones((1, 1, 3, 3)), np.zeros((1, 2, 2))
    for arrays in itertools.product((image, jnp.asarray(image)), (grid, jnp.asarray(grid))):
        assert (gridsample.grid_sample(*arrays) == 1).all()
