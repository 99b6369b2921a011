"""`pchip`, `akima` and `makima` against SciPy's, for arrays, tensors and JAX arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate as scipys
import torch
from jax.test_util import check_grads

from gridsample.interpolators import RegularGridInterpolator, hermite

Array = np.ndarray[Any, Any]

AXES = [np.array([0.0, 1.0, 2.5, 3.0, 5.0]), np.array([9.0, 8.0, 6.5, 4.0]), np.arange(6.0)]


def table_of(rank: int) -> tuple[Any, Array, Array]:
    """Axes, values that are equal or rise in a row in places, and points, some outside."""
    rng = np.random.default_rng(rank)
    grid = tuple(AXES[:rank])
    values = rng.standard_normal((*map(len, grid), 2))
    values[2] = values[1]
    values[3] = values[2] + 1
    points = np.stack([rng.uniform(a.min() - 1, a.max() + 1, 40) for a in grid], -1)
    points[:4] = np.stack([a[:4] for a in grid], -1)
    return grid, values, points


def compare(grid: Any, values: Array, points: Array, **options: Any) -> None:
    options = {"bounds_error": False, **options}
    actual = RegularGridInterpolator(grid, values, "pchip", **options)(points)
    expected = scipys.RegularGridInterpolator(grid, values, "pchip", **options)(points)
    assert (actual.shape, actual.dtype) == (expected.shape, np.float64)
    atol = 4e-15 * np.nanmax(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=2e-15, atol=atol)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_results_are_those_of_scipy(rank: int, monkeypatch: Any) -> None:
    grid, values, points = table_of(rank)
    compare(grid, values, points, fill_value=None)
    monkeypatch.setattr(hermite, "VALUES", 200)  # a few points at once
    compare(grid, values[..., 0], points, fill_value=7.0)
    points[5] = np.nan  # an error of SciPy's for some numbers of axes
    found = RegularGridInterpolator(grid, values, "pchip", bounds_error=False, fill_value=7)(points)
    assert np.isnan(found[5]).all()
    assert np.isnan(found).sum() == 2


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 30])
@pytest.mark.parametrize("method", ["akima", "makima"])
def test_akima_is_scipys(method: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    bends = np.abs(np.arange(size) - size // 2) * 0.1  # between two lines, to which slopes are 0/0
    for axis, values in (
        (np.cumsum(rng.uniform(0.1, 2, size)), rng.standard_normal((size, 3))),
        (np.cumsum(rng.uniform(0.1, 2, size)), np.round(rng.standard_normal((size, 3)))),
        (np.arange(float(size)), bends[:, None] * [1, 1e-10, 3]),
    ):
        points = np.concatenate([axis, rng.uniform(axis[0], axis[-1], 200)])
        expected = scipys.Akima1DInterpolator(axis, values, method=method)(points)
        actual = RegularGridInterpolator((axis,), values, method)(points[:, None])
        scale = np.maximum(np.abs(expected).max(0), 1e-300)
        np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=8e-15)


@pytest.mark.parametrize("method", ["akima", "makima"])
def test_the_last_axis_is_interpolated_first(method: Any) -> None:
    grid, values, points = table_of(2)
    points = np.clip(points, [axis.min() for axis in grid], [axis.max() for axis in grid])
    falling = grid[1][::-1], values[:, ::-1]
    lines = scipys.Akima1DInterpolator(*falling, axis=1, method=method)(points[:, 1])
    each = [
        scipys.Akima1DInterpolator(grid[0], lines[:, k], method=method)(point[0])
        for k, point in enumerate(points)
    ]
    actual = RegularGridInterpolator(grid, values, method)(points)
    np.testing.assert_allclose(actual, each, rtol=4e-15, atol=1e-14)


def test_unknown_values_count_for_their_neighbours() -> None:
    known = np.array([1.0, 2.0, 4.0, 4.5, 5.0, 6.0, 6.5, 8.0])
    points = np.linspace(0, 7, 29)
    values = np.where(known == 4.5, np.nan, known)
    actual, expected = [
        RegularGridInterpolator((np.arange(8.0),), v, "pchip")(points[:, None])
        for v in (values, known)
    ]
    near = (points >= 1) & (points < 5)  # of whose two slopes one depends on the value
    np.testing.assert_allclose(actual, np.where(near, np.nan, expected), rtol=1e-14)
    values, other = np.append(values, known), np.append(known, known)
    actual, expected = [
        RegularGridInterpolator((np.arange(16.0),), v, "akima")(points[:, None] + 4)
        for v in (values, other)
    ]
    assert np.isnan(actual[points < 2]).all()  # of six values, one is unknown
    np.testing.assert_allclose(actual[points >= 2], expected[points >= 2], rtol=1e-14)


def test_errors() -> None:
    grid, values, points = table_of(1)
    for of in (RegularGridInterpolator, scipys.RegularGridInterpolator):
        with pytest.raises(ValueError, match="only works with real values"):
            of(grid, values * 1j, "pchip")
        with pytest.raises(ValueError, match="There are 3 points in dimension 0, but method pchip"):
            of((grid[0][:3],), values[:3], "pchip")
        with pytest.raises(ValueError, match="Can only compute derivatives for methods"):
            of(grid, values, "pchip")(points[:1], nu=(1,))
    with pytest.raises(ValueError, match="only works with real values"):
        RegularGridInterpolator(grid, values * 1j)(points[:1], "pchip")


def smooth_table() -> tuple[Array, Array]:
    """Values without equal neighbours, where derivatives jump, and points."""
    return np.random.default_rng(5).standard_normal((5, 4)), table_of(2)[2][4:9]


def extrapolated(values: Any, points: Any, method: str = "pchip") -> Any:
    return RegularGridInterpolator(AXES[:2], values, method, False, None)(points)


@pytest.mark.parametrize("method", ["pchip", pytest.param("akima", marks=pytest.mark.slow)])
def test_tensors_have_derivatives(method: str) -> None:
    values, points = smooth_table()
    arrays = [torch.tensor(array, requires_grad=True) for array in (values[..., None], points)]
    assert torch.autograd.gradcheck(lambda *a: extrapolated(*a, method), arrays)
    assert torch.autograd.gradgradcheck(lambda *a: extrapolated(*a, method), arrays)
    single = extrapolated(*[array.detach().float() for array in arrays], method)
    assert single.dtype == torch.float32
    expected = extrapolated(*arrays, method).detach()
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["pchip", pytest.param("makima", marks=pytest.mark.slow)])
def test_jax_compiles_and_differentiates(method: str) -> None:
    arrays = smooth_table()
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    result = extrapolated(*tensors, method)
    expected = torch.autograd.grad((result**2).sum(), tensors)

    def total(*arrays: Any) -> Any:
        return (extrapolated(*arrays, method) ** 2).sum()

    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(total, (0, 1)))(*arrays)
    for actual, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_jax_has_second_derivatives() -> None:
    values, points = smooth_table()
    with jax.enable_x64(True):
        arrays = jnp.asarray(values), jnp.asarray(points)
        check_grads(jax.jit(extrapolated), arrays, order=2, modes=["rev"])
        check_grads(jax.jit(extrapolated), arrays, order=1, modes=["fwd"])
