"""Grids in units of axes with coordinates of their own, at any distances."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

import gridsample
from gridsample.backends import numpy as numpy_backend
from gridsample.fields import to_displacement, to_normalized, to_pixel

Array = np.ndarray[Any, Any]
LINEAR: dict[str, Any] = {"mode": "linear", "padding_mode": "border", "coords": "pixel"}

# x increases, y decreases, z is logarithmic.
X = np.array([-3.0, -1.0, 0.5, 0.75, 4.0])
Y = np.array([9.0, 7.5, 7.0, 1.0])
Z = np.geomspace(1e-3, 1e3, 7)


def points(count: int = 200) -> Array:
    """Points (1, n, 3) between the ends of the axes."""
    rng = np.random.default_rng(0)
    return np.stack([rng.uniform(min(a), max(a), (1, count)) for a in (X, Y, Z)], -1)


def table() -> Array:
    return np.random.default_rng(1).standard_normal((1, 2, 7, 4, 5))


def test_linear_samples_are_those_of_scipy() -> None:
    grid, values = points(), table()
    sampled = gridsample.grid_sample(values, to_pixel(grid, coords=(X, Y, Z)), **LINEAR)
    for channel in (0, 1):
        expected = RegularGridInterpolator((Z, Y, X), values[0, channel])(grid[0, :, ::-1])
        np.testing.assert_allclose(sampled[0, channel], expected, rtol=0, atol=1e-13)


def test_the_position_of_a_coordinate_of_the_axis_is_its_number() -> None:
    for axis in (X, Y, Z, X.astype(np.float32), np.array([1, 2, 5]), [3.0, 1.0]):
        np.testing.assert_array_equal(
            to_pixel(np.asarray(axis)[:, np.newaxis], coords=(axis,))[:, 0], np.arange(len(axis))
        )


def test_the_first_and_the_last_interval_continue_and_nan_stays() -> None:
    grid = np.array([[-5.0], [7.25], [np.nan], [np.inf], [-np.inf]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rising = to_pixel(grid, coords=(X,))[:, 0]
        falling = to_pixel(grid, coords=(X[::-1],))[:, 0]
    np.testing.assert_array_equal(rising, [-1, 5, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(falling, [5, -1, np.nan, -np.inf, np.inf])


def test_long_axes_need_no_more_than_the_precision_of_the_points() -> None:
    """The positions of points in single precision are in double precision."""
    axis = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 4000)) / 4000
    single = np.random.default_rng(1).uniform(0, 1, (50, 1)).astype("float32")
    actual = to_pixel(single, coords=(axis,))
    assert actual.dtype == np.float64
    np.testing.assert_array_equal(actual, to_pixel(single.astype(float), coords=(axis,)))
    assert to_pixel(torch.from_numpy(single).half(), coords=(axis,)).dtype == torch.float64


LOGARITHMIC = np.geomspace(1e-8, 1e8, 2000)


@pytest.mark.parametrize(
    "axis",
    [
        *(X, Y, Z, np.linspace(-90, 90, 1801), np.array([2.0, -1.0])),
        # The programs divide the bits of such coordinates.
        *(LOGARITHMIC, np.concatenate([-LOGARITHMIC[::-1], [0.0], LOGARITHMIC])),
        *(np.append(LOGARITHMIC[::-1], 0.0), np.geomspace(1e-290, 1e300, 50)),
    ],
)
def test_programs_find_the_positions_of_the_formula(axis: Array) -> None:
    """Many points of NumPy arrays are found by a program, to the last bit where torch has them."""
    rng, low, high = np.random.default_rng(0), axis.min(), axis.max()
    beside = np.concatenate([axis, np.nextafter(axis, -np.inf), np.nextafter(axis, np.inf)])
    edges = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e308])
    inside = rng.uniform(size=4000)
    among = axis[np.minimum((inside * len(axis)).astype(int), len(axis) - 1)] * (1 + inside / 9)
    grid = np.concatenate([(high - low) * (3 * inside - 1) + low, among, beside, edges])
    assert len(grid) > numpy_backend.FEW_POINTS
    found = to_pixel(grid.reshape(1, -1, 1)[:, ::-1], coords=(axis,))
    expected = to_pixel(torch.from_numpy(grid).reshape(1, -1, 1).flip(1), coords=(axis,))
    np.testing.assert_array_equal(found, expected)


def test_entries_may_be_names() -> None:
    grid = np.array([[[0.5, -0.25, 2.0]]])
    mixed = to_pixel(grid, (7, 8, 5), coords=(X, "normalized", "pixel"))
    np.testing.assert_array_equal(mixed[0, 0], [2, ((-0.25 + 1) * 8 - 1) / 2, 2])
    normalized = to_normalized(points(), (7, 4, 5), coords=(X, Y, Z))
    values = table()
    np.testing.assert_allclose(
        gridsample.grid_sample(values, normalized, "linear", "border"),
        gridsample.grid_sample(values, to_pixel(points(), coords=(X, Y, Z)), **LINEAR),
        rtol=0,
        atol=1e-12,
    )
    line = to_displacement(np.array([[[-3.0], [0.5]]]), coords=(X,))
    np.testing.assert_array_equal(line[0, :, 0], [0, 1])


# Derivatives --------------------------------------------------------------------------------------


def test_tensors_have_derivatives_along_points_and_axes() -> None:
    grid = torch.from_numpy(points(6)).requires_grad_()
    axes = [torch.from_numpy(axis).requires_grad_() for axis in (X, Y, Z)]
    values = torch.from_numpy(table()).requires_grad_()

    def sample(grid: torch.Tensor, *axes: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = gridsample.grid_sample(values, to_pixel(grid, coords=axes), **LINEAR)
        return result

    step = {"eps": 1e-6, "atol": 1e-4, "fast_mode": True}
    assert torch.autograd.gradcheck(sample, (grid, *axes), **step)
    assert torch.autograd.gradgradcheck(sample, (grid, *axes), **step)
    expected = sample(grid, *axes)
    compiled = torch.compile(sample, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(grid, *axes), expected)
    (by_table,) = torch.autograd.grad(expected.sum(), values)
    assert by_table.sum().item() == pytest.approx(12)  # the weights of each point sum to one


def test_tensors_accept_arrays_as_axes() -> None:
    grid = points(6)
    actual = to_pixel(
        torch.from_numpy(grid.transpose(2, 1, 0).copy()).permute(2, 1, 0), coords=(X, Y, Z)
    )
    np.testing.assert_array_equal(actual.numpy(), to_pixel(grid, coords=(X, Y, Z)))
    with pytest.raises(TypeError, match="coords along x is a Tensor, but grid is not"):
        to_pixel(grid[..., :1], coords=(torch.from_numpy(X),))


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    grid = points(6).astype("float32")

    def total(grid: Any, axis: Any) -> Any:
        return to_pixel(grid, coords=(axis, Y, Z)).sum()

    by_grid, by_axis = jax.jit(jax.grad(total, (0, 1)))(grid, X.astype("float32"))
    interval = np.searchsorted(X, grid[0, :, 0], "right") - 1
    np.testing.assert_allclose(by_grid[0, :, 0], 1 / np.diff(X)[interval], rtol=1e-5)
    assert by_axis.shape == X.shape
    assert float(by_axis.sum()) == pytest.approx(-float(by_grid[..., 0].sum()), rel=1e-4)
    with pytest.raises(ValueError, match=r"entry 1 is 1\.0, after 1\.0"):
        to_pixel(jax.numpy.zeros((1, 1)), coords=(jax.numpy.ones(3),))


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coords", "error", "match"),
    [
        (([0.0, 1.0, np.nan],), ValueError, "coords along x must be finite .* entry 2 is nan"),
        (([np.nan, 1.0, 2.0],), ValueError, "entry 0 is nan$"),
        (([0.0, np.inf],), ValueError, "entry 1 is inf, after 0.0"),
        (([0.0, 2.0, 2.0],), ValueError, "entry 2 is 2.0, after 2.0"),
        (([5.0, 3.0, 4.0],), ValueError, "entry 2 is 4.0, after 3.0"),
        (([2**53, 2**53 + 1, 2**54],), ValueError, "entry 1"),
        (([1.0],), ValueError, r"1-D with two entries or more, got shape \(1,\)"),
        ((np.ones((2, 2)),), ValueError, r"1-D .*got shape \(2, 2\)"),
        (([1.0, 2.0, 3.0],), ValueError, "has 3 entries, but the image has 4 pixels there"),
        (([1.0, 2.0], [1.0, 2.0]), ValueError, r"one entry per axis of the image: 1 \(x\), got 2"),
        (("displacement",), ValueError, "'displacement' is not accepted for a single axis"),
        (([1j, 2j],), TypeError, "coords along x has dtype complex128"),
        (np.arange(4.0), TypeError, "or a tuple with the coordinates of each axis"),
        (3, TypeError, "coords must be one of"),
    ],
)
def test_axes_that_are_no_axes(coords: Any, error: type[Exception], match: str) -> None:
    size = (4,) if "4 pixels" in match else None
    for grid in (np.zeros((1, 2, 1)), torch.zeros(1, 2, 1)):
        with pytest.raises(error, match=match):
            to_pixel(grid, size, coords=coords)
