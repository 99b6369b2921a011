"""``extrapolate="continue"``: the first and the last interval between pixels continue outside."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

import gridsample
from gridsample.definitions.options import checked, plan_of
from gridsample.definitions.request import Request
from gridsample.kernels.gpu.choices import describe

Array = np.ndarray[Any, Any]
X, Y = np.array([0.0, 1.0, 1.5, 4.0, 9.0, 9.5, 10.0]), np.array([0.0, 3.0, 4.0, 4.5, 7.0])
COORDS: Any = (X, Y)


def points(count: int = 60) -> Array:
    """Points (1, n, 2), most of them outside."""
    rng = np.random.default_rng(0)
    return np.stack([rng.uniform(-20, 30, (1, count)), rng.uniform(-20, 30, (1, count))], -1)


def table(channels: int) -> Array:
    return np.random.default_rng(1).standard_normal((1, 5, 7, channels))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("channels", [1, 2, 12])
def test_samples_are_those_of_scipy(mode: str, channels: int) -> None:
    """Also where channels are lanes."""
    grid, values = points(), table(channels)
    interpolator = RegularGridInterpolator(
        (Y, X), values[0], mode, bounds_error=False, fill_value=None
    )
    actual = gridsample.grid_sample(
        values, grid, mode, coords=COORDS, extrapolate="continue", channel_axis=-1
    )
    np.testing.assert_allclose(actual[0], interpolator(grid[0, :, ::-1]), rtol=0, atol=1e-12)


def test_axes_of_several_methods() -> None:
    grid, values = points(), table(3)
    grid[..., 1] = np.random.default_rng(2).choice(Y, grid.shape[1])  # where both are alike
    options: Any = {"coords": COORDS, "extrapolate": "continue", "channel_axis": -1}
    np.testing.assert_allclose(
        gridsample.grid_sample(values, grid, ("linear", "nearest"), **options),
        gridsample.grid_sample(values, grid, "linear", **options),
        rtol=0,
        atol=1e-12,
    )


def test_a_plane_is_the_same_everywhere() -> None:
    """In the units of every kind, and in single precision."""
    columns, rows = np.meshgrid(np.arange(6.0), np.arange(4.0))
    plane = (3 * columns - 2 * rows + 1)[None, None]
    at = np.random.default_rng(0).uniform(-30, 30, (1, 4, 6, 2))
    expected = (3 * at[..., 0] - 2 * at[..., 1] + 1)[:, None]
    index = np.stack([columns, rows], -1)
    for coords, grid in (
        ("pixel", at),
        ("displacement", at - index),
        ("normalized", gridsample.fields.to_normalized(at, (4, 6), coords="pixel")),
    ):
        for dtype, bound in (("float64", 1e-12), ("float32", 1e-3)):
            actual = gridsample.grid_sample(
                plane.astype(dtype), grid.astype(dtype), coords=coords, extrapolate="continue"
            )
            np.testing.assert_allclose(actual, expected, rtol=0, atol=bound)
    theta = np.array([[[2.0, 0.5, -9.0], [-1.0, 3.0, 7.0]]])
    mapped = gridsample.affine_sample(
        plane, theta, (1, 1, 4, 6), coords="pixel", extrapolate="continue"
    )
    x, y = (theta[0, k, 0] * columns + theta[0, k, 1] * rows + theta[0, k, 2] for k in (0, 1))
    np.testing.assert_allclose(mapped[0, 0], 3 * x - 2 * y + 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("coords", [COORDS, "normalized"])
def test_derivatives_agree_with_differences(coords: Any) -> None:
    def sample(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, coords=coords, extrapolate="continue")

    image = torch.tensor(table(2).transpose(0, 3, 1, 2).copy(), requires_grad=True)
    grid = torch.tensor(points(9), requires_grad=True)
    assert torch.autograd.gradcheck(sample, (image, grid))
    assert torch.autograd.gradgradcheck(sample, (image, grid))
    sums = (sample(image, grid) ** 2).sum()
    expected = torch.autograd.grad(sums, (image, grid))
    with jax.enable_x64(True):
        arrays = [jnp.asarray(tensor.detach().numpy()) for tensor in (image, grid)]
        gradients = jax.grad(lambda *arrays: (sample(*arrays) ** 2).sum(), (0, 1))(*arrays)
    for actual, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_jax_has_second_derivatives() -> None:
    values, grid = np.random.default_rng(1).standard_normal((1, 1, 5, 7)), points(4)
    options: Any = {"coords": "pixel", "extrapolate": "continue"}
    expected = gridsample.grid_hessian(values, grid, **options)
    with jax.enable_x64(True):
        image, places = jnp.asarray(values), jnp.asarray(grid)
        actual = gridsample.grid_hessian(image, places, **options)
        hessian = jax.hessian(
            lambda point: gridsample.grid_sample(image, point[None, None], **options)[0, 0, 0]
        )
        for result in (actual[0, 0], jax.vmap(hessian)(places[0])):
            np.testing.assert_allclose(result, expected[0, 0], rtol=0, atol=1e-12)


def test_single_pixels_nan_and_masks() -> None:
    at = np.array([[[-1.0], [5.0], [np.nan], [1e30]]])
    options: Any = {"coords": "pixel", "extrapolate": "continue"}
    sampled, mask = gridsample.grid_sample(
        np.array([[[1.0, 3.0, 4.0]]]), at, return_mask=True, **options
    )
    np.testing.assert_allclose(sampled[0, 0], [-1, 7, np.nan, 1e30], rtol=1e-15)
    np.testing.assert_array_equal(mask[0, 0], [1, 1, 0, 1])
    single = gridsample.grid_sample(np.full((1, 1, 1), 2.0), at, **options)
    np.testing.assert_array_equal(single[0, 0], [2, 2, np.nan, 2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "cubic"}, "does not accept mode 'cubic'; accepted: 'linear'"),
        ({"padding_mode": ("border", "wrap")}, "place of a boundary; .* got 'wrap' along y"),
        ({"fill_value": 3}, "fill_value 3 has no effect here"),
        ({"missing": "ignore"}, "missing='ignore' or weights does not accept extrapolate"),
        ({"antialias": True}, "'continue' does not accept antialias=True"),
    ],
)
def test_options_that_do_not_go_with_it(options: Any, words: str) -> None:
    grid = points(24).reshape(1, 4, 6, 2)
    with pytest.raises(ValueError, match=words):
        gridsample.grid_sample(np.zeros((1, 1, 5, 7)), grid, extrapolate="continue", **options)


def test_targets_without_it_or_without_axes_say_so() -> None:
    with pytest.raises(ValueError, match="explain does not accept extrapolate 'continue'"):
        gridsample.explain((5,), (0.5,), extrapolate="continue")
    real, shapes = np.dtype(float), ((1, 1, 5, 7), (1, 9, 2))
    options = checked(Request(coords=COORDS), *shapes)
    plan = plan_of(shapes[0], real, shapes[1], real, options)
    words = "a GPU does not accept the coordinates of axes in coords; .*to_pixel"
    with pytest.raises(ValueError, match=words):
        describe(plan, 0, 0)
