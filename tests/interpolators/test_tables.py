"""`RegularGridInterpolator` and `interpn` against SciPy's, for arrays, tensors and JAX arrays."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate as scipys
import torch

from gridsample.interpolators import RegularGridInterpolator, interpn

OF_SCIPY = scipys.RegularGridInterpolator
Array = np.ndarray[Any, Any]

# The first axis decreases.
GRID: Any = (np.array([3.0, 2.0, 0.5]), np.array([0.0, 1.0, 4.0, 9.0]))
VALUES = np.random.default_rng(0).standard_normal((3, 4, 2))
# Of splines.
LONG: Any = (np.arange(6.0), np.arange(7.0)[::-1])
MANY = np.random.default_rng(0).standard_normal((6, 7))


def inside(count: int = 40) -> Array:
    rng = np.random.default_rng(1)
    return np.stack([rng.uniform(0.5, 3, count), rng.uniform(0, 9, count)], -1)


def outside() -> Array:
    """Points, most of them outside, some of which are not numbers."""
    rng = np.random.default_rng(2)
    points = np.stack([rng.uniform(-3, 6, 40), rng.uniform(-9, 19, 40)], -1)
    points[:3] = [[np.nan, 1], [np.nan, 99], [99, np.nan]]
    return points


def compare(
    method: str, points: Any, grid: Any = GRID, values: Any = VALUES, **options: Any
) -> None:
    actual = RegularGridInterpolator(grid, values, method, **options)(points)
    expected = scipys.RegularGridInterpolator(grid, values, method, **options)(points)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_results_and_dtypes_are_those_of_scipy(method: str, dtype: str) -> None:
    compare(method, inside(), values=VALUES.astype(dtype))
    compare(method, outside(), values=VALUES.astype(dtype), bounds_error=False)


@pytest.mark.parametrize("fill_value", [np.nan, 7.0, None])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_points_outside(method: str, fill_value: Any) -> None:
    options: Any = {"bounds_error": False, "fill_value": fill_value}
    compare(method, outside(), **options)
    # Axes of one coordinate have no interval.
    compare(method, outside(), (GRID[0], [2.0]), VALUES[:, :1], **options)
    compare(method, outside()[:, :1], ([2.0],), VALUES[0, :1], **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_fill_values_may_be_too_large_for_a_dtype(dtype: str) -> None:
    values, options = VALUES.astype(dtype), {"bounds_error": False, "fill_value": 1e300}
    for method, expected in (("nearest", np.inf), ("linear", 1e300)):
        result = RegularGridInterpolator(GRID, values, method, **options)([[99.0, 1.0]])
        assert (result == expected).all()
    table = torch.from_numpy(values)
    result = RegularGridInterpolator(GRID, table, **options)([[99.0, 1.0]])
    assert (result == np.inf).all()


def test_points_have_any_form() -> None:
    points = inside()
    compare("linear", points.reshape(5, 8, 2))
    compare("linear", (points[:, 0], points[:4, None, 1]))
    compare("linear", [points[0].tolist(), points[1].tolist()])
    compare("linear", points[0])
    compare("linear", points[:0])
    compare("linear", [0.5, 8.0], (GRID[1],), VALUES[0])
    compare("linear", np.stack([points] * 2, -1)[..., 0], values=VALUES[:, :, 0])


@pytest.mark.parametrize("method", ["linear", "nearest", "cubic"])
def test_the_neighbours_of_the_ends_are_outside(method: str) -> None:
    axis = np.array([0.0, 1.0, 3.0, 10.0])
    ends = np.array([[np.nextafter(0.0, -1)], [0.0], [10.0], [np.nextafter(10.0, 99)]])
    compare(method, ends, (axis,), np.arange(4.0), bounds_error=False)
    even = np.linspace(0.0, 10.0, 8)  # whose positions are rounded
    compare(method, ends, (even,), np.arange(8.0), bounds_error=False)
    compare(method, ends, (even[::-1],), np.arange(8.0), bounds_error=False)
    values = np.arange(8.0, dtype="float32").reshape(4, 2)
    fill = np.float64(7)
    compare(method, ends, (axis,), values, bounds_error=False, fill_value=fill)


@pytest.mark.parametrize("method", ["linear", "nearest", "cubic", "pchip"])
def test_an_error_names_the_axis_along_which_a_point_is_outside(method: str) -> None:
    points = np.tile([2.0, 3.0], (63, 1))
    values = MANY.copy()
    interpolator = RegularGridInterpolator(LONG, values, method)
    for number, beyond in ((0, 5.1), (1, -0.1), (1, np.nan)):
        wrong = points.copy()
        wrong[-1, number] = beyond
        for _ in range(2):  # prepared by the first call
            with pytest.raises(ValueError, match=f"out of bounds in dimension {number}"):
                interpolator(wrong)
    values[2, 3] = np.nan  # is no point outside
    assert np.isnan(RegularGridInterpolator(LONG, values, method)(points)).all()


def test_arrays_are_those_at_the_time_of_the_call() -> None:
    for values in (MANY.copy(), MANY.copy().T.reshape(6, 7, order="F")):
        for method in ("linear", "nearest"):
            interpolator = RegularGridInterpolator(LONG, values, method)
            before = interpolator([[1.0, 2.0]])
            np.add(values, 1, out=values)
            assert (interpolator([[1.0, 2.0]]) == before + 1).all()


def test_ties_go_to_the_lower_coordinate() -> None:
    ties = np.array([[2.5, 0.5], [1.25, 2.5], [2.5, 6.5], [1.25, 0.5]])
    compare("nearest", ties)
    compare("nearest", ties, (GRID[0], GRID[1][::-1]))
    even = np.arange(6.0)
    compare("nearest", even[:-1] + 0.5, (even,), even)
    compare("nearest", even[:-1] + 0.5, (even[::-1],), even)


def test_legacy_splines_are_scipys_own() -> None:
    grid, values = (np.arange(6.0), np.arange(5.0)), VALUES[:1, :1].repeat(6, 0).repeat(5, 1)
    values = values * np.arange(1.0, 7)[:, None, None]
    points = inside() / 3
    compare("slinear_legacy", points, grid, values)
    ours, theirs = [of(grid, values) for of in (RegularGridInterpolator, OF_SCIPY)]
    expected = theirs(points, "slinear_legacy")
    np.testing.assert_allclose(ours(points, "slinear_legacy"), expected, atol=1e-12)
    with pytest.raises(TypeError, match=r"method 'cubic_legacy' with 2 axes is SciPy's own"):
        RegularGridInterpolator(grid, torch.tensor(values))(points, "cubic_legacy")
    with pytest.raises(TypeError, match=r"method 'cubic_legacy' is SciPy's own"):
        interpn(grid, torch.tensor(values), points, "cubic_legacy")


def test_attributes_and_copies() -> None:
    interpolator = pickle.loads(pickle.dumps(RegularGridInterpolator(GRID, VALUES)))
    original = scipys.RegularGridInterpolator(GRID, VALUES)
    for ours, theirs in zip(interpolator.grid, original.grid, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(interpolator.values, original.values)
    np.testing.assert_array_equal(
        interpolator(inside()), RegularGridInterpolator(GRID, VALUES)(inside())
    )
    assert (interpolator.method, interpolator.bounds_error) == ("linear", True)


@pytest.mark.parametrize(
    "call",
    [
        lambda of: of((GRID[0][[0, 2, 1]], GRID[1]), VALUES),
        lambda of: of((GRID[0], GRID[1][:3]), VALUES),
        lambda of: of((*GRID, *GRID), VALUES),
        lambda of: of((GRID[0][:, None], GRID[1]), VALUES),
        lambda of: of(GRID, VALUES, "foo"),
        lambda of: of(GRID, VALUES, ["linear"]),
        lambda of: of(GRID, VALUES, fill_value=1j),
        lambda of: of(GRID, VALUES, solver=1),
        lambda of: of(GRID, VALUES)(outside()),
        lambda of: of(GRID, VALUES)([[1.0, 99.0]]),
        lambda of: of(GRID, VALUES)(inside(), "foo"),
        lambda of: of(GRID, VALUES)(np.ones((4, 3))),
        lambda of: of((LONG[0][:3], LONG[1]), MANY[:3], "cubic"),
        lambda of: of((LONG[0][:5], LONG[1]), MANY[:5], "quintic"),
        lambda of: of((LONG[0][:3], LONG[1]), MANY[:3])([[1.0, 1.0]], "cubic"),
        lambda of: of(LONG, MANY, "cubic")([[1.0, 1.0]], nu=(1,)),
        lambda of: of(LONG, MANY, "cubic")([[1.0, 1.0]], nu=(1, -1)),
        lambda of: of(LONG, MANY, "cubic")([[1.0, 99.0]]),
    ],
)
def test_errors_are_those_of_scipy(call: Any) -> None:
    with pytest.raises(ValueError, match=r".") as theirs:
        call(scipys.RegularGridInterpolator)
    with pytest.raises(ValueError, match=r".") as ours:
        call(RegularGridInterpolator)
    assert str(ours.value).split() == str(theirs.value).split()


# Other libraries ----------------------------------------------------------------------------------


def extrapolated(values: Any, points: Any) -> Any:
    return RegularGridInterpolator(GRID, values, bounds_error=False, fill_value=None)(points)


def test_tensors_have_derivatives() -> None:
    points = outside()[3:9]
    arrays = [torch.tensor(array, requires_grad=True) for array in (VALUES, points)]
    assert torch.autograd.gradcheck(extrapolated, arrays)
    assert torch.autograd.gradgradcheck(extrapolated, arrays)
    single = [array.detach().float() for array in arrays]
    assert extrapolated(*single).dtype == torch.float32
    expected = extrapolated(VALUES, points)
    for mixed in ((VALUES, arrays[1]), (arrays[0], points)):  # NumPy's and torch's
        np.testing.assert_allclose(extrapolated(*mixed).detach().numpy(), expected, atol=1e-12)
    with pytest.raises(ValueError, match="out of bounds in dimension 0"):
        RegularGridInterpolator(GRID, arrays[0])(arrays[1])


def test_tensors_are_those_at_the_time_of_the_call() -> None:
    points = torch.tensor(outside()[3:9])
    values = torch.tensor(VALUES, requires_grad=True)
    interpolator = RegularGridInterpolator(GRID, values, bounds_error=False, fill_value=None)
    for method in ("linear", "nearest"):
        with torch.no_grad():
            interpolator(points, method)
            values += 1  # as an optimizer does
        expected = extrapolated(values.detach(), points) if method == "linear" else None
        for _ in range(2):  # each with a graph of its own
            result = interpolator(points, method)
            assert result.requires_grad
            result.sum().backward()
        if expected is not None:
            torch.testing.assert_close(result.detach(), expected)


def test_tensors_go_with_numbers() -> None:
    values, expected = torch.tensor(VALUES), extrapolated(VALUES, (2.25, [0.5, 3.0]))
    for points in ((torch.tensor(2.25), [0.5, 3.0]), (2.25, torch.tensor([0.5, 3.0]))):
        for table in (VALUES, values):
            np.testing.assert_allclose(extrapolated(table, points).numpy(), expected, rtol=1e-6)
    with pytest.raises(TypeError, match="xi must hold real numbers, got dtype complex128"):
        extrapolated(VALUES, inside() * 1j)


def test_jax_compiles_and_differentiates() -> None:
    points = outside()[3:9]
    tensors = [torch.tensor(array, requires_grad=True) for array in (VALUES, points)]
    expected = torch.autograd.grad((extrapolated(*tensors) ** 2).sum(), tensors)
    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(lambda *a: (extrapolated(*a) ** 2).sum(), (0, 1)))(
            jnp.asarray(VALUES), jnp.asarray(points)
        )
        for actual, other in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-9)


def test_jax_keeps_nothing_of_a_program() -> None:
    interpolator = RegularGridInterpolator(GRID, jnp.asarray(VALUES))
    points = jnp.asarray(inside())
    compiled = jax.jit(interpolator)(points)
    np.testing.assert_allclose(interpolator(points), compiled, rtol=1e-6)


# The dtype of results -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["linear", "cubic", "akima", "nearest"])
def test_results_of_arrays_may_have_a_dtype_of_their_own(method: str) -> None:
    axes, rng = [np.linspace(0, 3, 7), np.cumsum(np.arange(1.0, 9.0))], np.random.default_rng(3)
    table = rng.standard_normal((7, 8, 2)).astype(np.float32)
    points = rng.uniform([-0.5, 0.0], [3.5, 40.0], (50, 2))
    options: Any = {"method": method, "bounds_error": False}
    doubles = RegularGridInterpolator(axes, table, **options)(points)
    assert doubles.dtype == (np.float32 if method == "nearest" else np.float64)
    singles = RegularGridInterpolator(axes, table, **options, dtype="float32")(points)
    assert singles.dtype == np.float32
    expected = RegularGridInterpolator(axes, torch.tensor(table), **options)(points)
    for others in (expected, doubles):
        np.testing.assert_allclose(singles, others, rtol=0, atol=2e-6 * np.nanmax(abs(doubles)))


def test_dtypes_of_results_are_checked() -> None:
    axes: Any = [[0.0, 1.0, 2.0, 4.0]]
    for table, options, message in (
        (np.zeros(4), {"dtype": "int32"}, "dtype must be one of float16, float32"),
        (np.zeros(4, complex), {"dtype": "float64"}, "dtype must be one of complex64"),
        (torch.zeros(4), {"dtype": "float32"}, "dtype is that of results of NumPy arrays"),
        (np.zeros(4), {"dtype": "float32", "method": "cubic_legacy"}, "where SciPy interpolates"),
    ):
        with pytest.raises(TypeError, match=message):
            RegularGridInterpolator(axes, table, **options)
