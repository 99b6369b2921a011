"""Splines of `gridsample.interpolators` against SciPy's, for arrays, tensors and JAX arrays."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate as scipys
import torch
from jax.test_util import check_grads
from scipy.sparse.linalg import spsolve

from gridsample.backends import backend_of
from gridsample.definitions.coords import CONTINUE
from gridsample.definitions.knots import Axes, Knots, SplineKnots, bsplines_on
from gridsample.definitions.methods import LINEAR, Method, spline_on_knots
from gridsample.interpolators import RegularGridInterpolator, interpn
from gridsample.interpolators.splines import SplineAxis
from gridsample.ops.sampling import sample_at_pixels

Array = np.ndarray[Any, Any]

# The second axis decreases.
GRID: Any = (np.array([0.0, 1.0, 2.5, 3.0, 5.0, 5.5]), np.array([9.0, 8.0, 6.5, 4.0, 3.5, 1.0, 0]))
VALUES = np.random.default_rng(0).standard_normal((6, 7, 2))


def points_around(count: int = 30) -> Array:
    """Points, some of them outside, and one at the coordinates of the table."""
    rng = np.random.default_rng(1)
    points = np.stack([rng.uniform(-1, 6, count), rng.uniform(-1, 10, count)], -1)
    points[:2] = [[2.5, 4.0], [5.5, 9.0]]
    return points


def compare(method: str, points: Array, grid: Any, values: Array, nu: Any, **options: Any) -> None:
    ours = RegularGridInterpolator(grid, values, method, bounds_error=False, **options)
    theirs = scipys.RegularGridInterpolator(
        grid, values, method, bounds_error=False, solver=spsolve, **options
    )
    actual, expected = ours(points, nu=nu), theirs(points, nu=nu)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    # The condition of the systems times the rounding of values; derivatives are larger.
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nu", [None, (0, 1), (2, 1), (0, 6)])
@pytest.mark.parametrize("method", ["slinear", "cubic", "quintic"])
def test_splines_are_those_of_scipy(method: str, nu: Any) -> None:
    points = points_around()
    compare(method, points, GRID, VALUES, nu, fill_value=None)
    points[3, 0] = np.nan
    compare(method, points, GRID, VALUES, nu, fill_value=7.0)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
def test_results_are_in_double_precision(dtype: str) -> None:
    values = (10 * VALUES[:, 0]).astype(dtype)
    compare("cubic", points_around()[:, :1], GRID[:1], values, None)


def test_more_axes() -> None:
    grid = (*GRID, np.array([0.0, 1, 4, 5]))
    values = np.random.default_rng(2).standard_normal((6, 7, 4))
    points = np.concatenate([points_around(), np.linspace(-1, 6, 30)[:, None]], 1)
    compare("cubic", points, grid, values, (1, 0, 1), fill_value=None)


def test_another_method_of_a_call() -> None:
    points = points_around()[:2]
    ours = RegularGridInterpolator(GRID, VALUES)
    for _ in range(2):
        np.testing.assert_allclose(ours(points, "cubic"), VALUES[[2, 5], [3, 0]], atol=1e-13)
    np.testing.assert_allclose(interpn(GRID, VALUES, points, "cubic"), VALUES[[2, 5], [3, 0]])


def test_a_solver_is_passed_to_scipy() -> None:
    calls = []

    def solver(*arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return spsolve(*arguments), 0

    RegularGridInterpolator(GRID, VALUES, "cubic", solver=solver)
    assert calls


def test_derivatives_have_whole_orders() -> None:
    with pytest.raises(TypeError, match="nu must hold integers, got dtype float64"):
        RegularGridInterpolator(GRID, VALUES, "cubic")([[1.0, 1.0]], nu=(0.5, 1))


# Coefficients -------------------------------------------------------------------------------------


def axes_of(size: int) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    around = rng.normal(0.5, 0.01, size - size // 2)
    return {
        "even": np.arange(float(size)),
        "uneven": np.cumsum(rng.uniform(0.1, 2, size)),
        "logarithmic": np.logspace(-3, 5, size),
        "clustered": np.sort(np.concatenate([rng.uniform(0, 1, size // 2), around])),
    }


@pytest.mark.parametrize("size", [7, 230, 600])  # solved at once, and in windows
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_coefficients_are_those_of_scipy(degree: int, size: int) -> None:
    rng = np.random.default_rng(4)
    for name, axis in axes_of(size).items():
        if size == 7 and name == "logarithmic":  # of a condition that leaves no digits
            continue
        values = rng.standard_normal((size, 2))
        spline = SplineAxis(axis, degree, "x")
        expected = scipys.make_interp_spline(axis, values, degree)
        np.testing.assert_allclose(spline.knots.coordinates, expected.t[degree:-degree])
        actual = spline.coefficients(backend_of(values=values), values[None])[0]
        error = np.abs(actual - expected.c).max() / np.abs(expected.c).max()
        assert error < 1e-10, name


def test_coefficients_of_a_line_do_not_depend_on_others() -> None:
    lines = np.random.default_rng(6).standard_normal((6, 7, 1))
    spline = SplineAxis(np.linspace(0, 1, 7), 3, "x")
    every = spline.coefficients(backend_of(lines=lines), lines)
    for order in "CF":
        for k, line in enumerate(np.asarray(lines, order=order)):
            alone = spline.coefficients(backend_of(line=line), line[None])
            np.testing.assert_array_equal(alone[0], every[k])


OF_SCIPY: dict[tuple[int, str], Any] = {
    (5, "natural"): ([(3, 0.0), (4, 0.0)],) * 2,
    (5, "clamped"): ([(1, 0.0), (2, 0.0)],) * 2,
}


@pytest.mark.parametrize("size", [3, 7, 230, 600])
@pytest.mark.parametrize("ends", ["natural", "clamped", "periodic"])
@pytest.mark.parametrize("degree", [3, 5])
def test_ends_are_those_of_scipy(degree: int, ends: str, size: int) -> None:
    rng = np.random.default_rng(5)
    for name in ("even", "uneven"):
        axis, values = axes_of(size)[name], rng.standard_normal((size, 2))
        values[-1] = values[0]
        spline = SplineAxis(axis, degree, "x", ends=(ends, ends))
        coefficients = spline.coefficients(backend_of(values=values), values[None])[0]
        knots = np.pad(spline.knots.coordinates, degree, mode="edge")
        actual = scipys.BSpline(knots, coefficients, degree)
        condition = OF_SCIPY.get((degree, ends), ends)
        expected = scipys.make_interp_spline(axis, values, degree, bc_type=condition)
        points = np.linspace(axis[0], axis[-1], 999)
        scale = np.abs(expected(points)).max()
        # The condition of SciPy's systems leaves fewer digits of the values, too.
        np.testing.assert_allclose(actual(points), expected(points), rtol=0, atol=2e-13 * scale)
        if size == 600:
            assert max(matrix.shape[1] for _, matrix in spline.blocks) < size


def test_few_coordinates_suffice_for_other_ends() -> None:
    line = ([1.0, 3.0],)
    for ends in ("natural", "clamped"):
        expected = scipys.CubicSpline(*line, [5.0, 9.0], bc_type=ends)([1.25, 2.5])
        actual = RegularGridInterpolator(line, [5.0, 9.0], "cubic", ends=ends)([1.25, 2.5])
        np.testing.assert_allclose(actual, expected)
    parabola = RegularGridInterpolator(([0, 1, 3],), [0.0, 1, 9], "quintic", ends="natural")
    np.testing.assert_allclose(parabola([0.5, 2.0]), [0.25, 4.0])
    cases: list[tuple[Any, str, int]] = [
        ("natural", "quintic", 3),
        (["natural", ("clamped", "not-a-knot")], "cubic", 3),
    ]
    for ends, method, least in cases:
        grid: Any = line if ends == "natural" else ([0.0, 1.0, 2.0], *line)
        with pytest.raises(ValueError, match=rf"2 points in dimension .* at least +{least} points"):
            RegularGridInterpolator(grid, np.ones([len(axis) for axis in grid]), method, ends=ends)


# Ends of each axis of `GRID`, in its order.
MIXED = ["periodic", ("clamped", "natural")]
PERIODIC = np.concatenate([VALUES, VALUES[:1]])
PERIODIC_GRID: Any = (np.append(GRID[0], 7.0), GRID[1])


@pytest.mark.parametrize("nu", [(0, 0), (1, 0), (2, 1)])
def test_each_axis_has_ends(nu: Any) -> None:
    points = points_around() + [[14.0, 0.0]] * np.arange(-1, 2)[:, None].repeat(10, 0)
    interpolator = RegularGridInterpolator(
        PERIODIC_GRID, PERIODIC, "cubic", False, None, ends=MIXED
    )
    lines = scipys.CubicSpline(PERIODIC_GRID[0], PERIODIC, bc_type="periodic")(points[:, 0], nu[0])
    rising = GRID[1][::-1], lines[:, ::-1]
    along = scipys.CubicSpline(*rising, axis=1, bc_type=("natural", "clamped"))(points[:, 1], nu[1])
    expected = along[np.arange(len(points)), np.arange(len(points))]
    np.testing.assert_allclose(interpolator(points, nu=nu), expected, rtol=1e-12, atol=1e-12)


def test_interpn_has_ends() -> None:
    points, options = [[2.0, 3.0]], {"ends": ["natural", "clamped"]}
    expected = RegularGridInterpolator(GRID, VALUES, "cubic", **options)(points)
    np.testing.assert_array_equal(interpn(GRID, VALUES, points, "cubic", **options), expected)
    for method in ("linear", "splinef2d"):
        with pytest.raises(ValueError, match="ends must be 'not-a-knot' for methods other than"):
            interpn(GRID, VALUES, points, method, **options)


def test_nothing_is_outside_of_periodic_ends() -> None:
    interpolator = RegularGridInterpolator(PERIODIC_GRID, PERIODIC, "cubic", ends=MIXED)
    np.testing.assert_allclose(interpolator([[7e5 + 2.5, 4.0]])[0], VALUES[2, 3], rtol=1e-9)
    for number in (np.nan, np.inf):
        with pytest.raises(ValueError, match="out of bounds in dimension 0"):
            interpolator([[number, 4.0]])
    with pytest.raises(ValueError, match="out of bounds in dimension 1"):
        interpolator([[1.0, 10.0]])


@pytest.mark.parametrize(
    ("ends", "options", "error", "message"),
    [
        ("natual", {}, ValueError, "ends 'natual' is not known; did you mean 'natural'"),
        (["natural"], {}, ValueError, "ends needs an entry for each axis, 2, got 1"),
        (3, {}, TypeError, "ends must be a name, or a list with an entry for each axis, got 3"),
        (["natural", 3], {}, TypeError, "an entry of ends must be a name or a pair of names"),
        ([("natural", "periodic"), "natural"], {}, ValueError, "both ends of an axis"),
        ("periodic", {}, ValueError, "first and the last coordinate of axis 0"),
        ("natural", {"method": "slinear"}, ValueError, "for methods other than 'cubic', 'quintic'"),
        ("natural", {"solver": spsolve}, ValueError, "where SciPy interpolates, with a solver"),
    ],
)
def test_ends_are_checked(ends: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        RegularGridInterpolator(GRID, VALUES, **{"method": "cubic", **options}, ends=ends)
    natural = RegularGridInterpolator(GRID, VALUES, "cubic", ends="natural")
    with pytest.raises(ValueError, match="for methods other than"):
        natural([[1.0, 1.0]], "linear")


def test_windows_do_not_cover_long_axes() -> None:
    blocks = SplineAxis(np.arange(600.0), 3, "x").blocks
    assert max(matrix.shape[1] for _, matrix in blocks) < 600


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_weights_are_bsplines(degree: int) -> None:
    knots = np.array([0.0, 1.0, 1.5, 4.0, 4.25])
    padded = np.concatenate([knots[:1].repeat(degree), knots, knots[-1:].repeat(degree)])
    weights = bsplines_on(knots, degree)
    for k, (left, right) in enumerate(itertools.pairwise(knots)):
        x = np.linspace(left, right, 9)[:-1]
        powers = np.linspace(0, 1, 9)[:-1, None] ** np.arange(degree + 1)
        expected = scipys.BSpline.design_matrix(x, padded, degree).toarray()[:, k : k + degree + 1]
        np.testing.assert_allclose(powers @ weights[k].T, expected, atol=1e-14)


def test_records_are_restored_from_their_texts() -> None:
    cubic, quintic = (Axes(SplineKnots(GRID[0], degree), "pixel") for degree in (3, 5))
    assert cubic != quintic != Axes(Knots(GRID[0]), "pixel")
    restored = Axes.of_text(cubic.text)
    assert restored == cubic
    np.testing.assert_array_equal(restored.entries[0].weights, cubic.entries[0].weights)
    assert Method.of_text(spline_on_knots(3).text) == spline_on_knots(3)


@pytest.mark.parametrize(
    ("mode", "entry", "extrapolate"),
    [
        (LINEAR, SplineKnots(GRID[0], 3), CONTINUE),
        (spline_on_knots(5), SplineKnots(GRID[0], 3), CONTINUE),
        (spline_on_knots(3), Knots(GRID[0]), CONTINUE),
        (spline_on_knots(3), "pixel", CONTINUE),
        (spline_on_knots(3), SplineKnots(GRID[0], 3), True),
    ],
)
def test_splines_and_knots_belong_together(mode: Any, entry: Any, extrapolate: Any) -> None:
    pixels = entry.pixels if isinstance(entry, Knots) else 8
    options: Any = {"padding_mode": "border", "extrapolate": extrapolate}
    with pytest.raises(ValueError, match="splines on knots need the knots of their degree"):
        sample_at_pixels(
            np.zeros((1, 1, pixels)), np.zeros((1, 1, 1)), mode=mode, coords=Axes(entry), **options
        )


# Other libraries ----------------------------------------------------------------------------------


def extrapolated(values: Any, points: Any, nu: Any = None) -> Any:
    interpolator = RegularGridInterpolator(GRID, values, "cubic", False, None)
    return interpolator(points, nu=nu)


def mixed(values: Any, points: Any) -> Any:
    return RegularGridInterpolator(PERIODIC_GRID, values, "cubic", False, None, ends=MIXED)(points)


def test_tensors_have_derivatives() -> None:
    points = points_around(5)[2:]
    arrays = [torch.tensor(array, requires_grad=True) for array in (VALUES[..., :1], points)]
    assert torch.autograd.gradcheck(extrapolated, arrays)
    assert torch.autograd.gradgradcheck(extrapolated, arrays)
    result = extrapolated(*arrays)
    np.testing.assert_allclose(result.detach(), extrapolated(VALUES[..., :1], points), atol=1e-12)
    (slopes,) = torch.autograd.grad(result.sum(), arrays[1])
    expected = extrapolated(VALUES[..., :1], points, (1, 0))
    np.testing.assert_allclose(slopes[:, :1], expected, atol=1e-12)
    half = extrapolated(arrays[0].detach().half(), arrays[1].detach().float())
    assert half.dtype == torch.float16


def test_tensors_have_ends() -> None:
    points = points_around(5)[2:]
    points[0, 0] += 7
    arrays = [torch.tensor(array, requires_grad=True) for array in (PERIODIC[..., :1], points)]
    assert torch.autograd.gradcheck(mixed, arrays)
    assert torch.autograd.gradgradcheck(mixed, arrays)
    result = mixed(*arrays)
    np.testing.assert_allclose(result.detach(), mixed(PERIODIC[..., :1], points), atol=1e-12)
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda *a: mixed(*a).sum(), (0, 1)))(PERIODIC[..., 0], points)
    for gradient, other in zip(
        torch.autograd.grad(result.sum(), arrays), (found[0][..., None], found[1]), strict=True
    ):
        np.testing.assert_allclose(gradient, other, rtol=1e-12, atol=1e-12)


def test_gradients_outside_are_zero() -> None:
    points = torch.tensor([[2.0, 3.0], [1e200, 3.0], [np.inf, 3.0]], requires_grad=True)
    interpolator = RegularGridInterpolator(GRID, torch.tensor(VALUES), "cubic", False, 7.0)
    result = interpolator(points.double())
    result.sum().backward()
    assert (result[1:] == 7).all()
    assert points.grad is not None
    assert (points.grad[0] != 0).all()
    assert (points.grad[1:] == 0).all()


def test_jax_compiles_and_differentiates() -> None:
    with jax.enable_x64(True):
        arrays = jnp.asarray(VALUES[..., 0]), jnp.asarray(points_around(5)[2:])
        expected = extrapolated(VALUES[..., 0], points_around(5)[2:])
        np.testing.assert_allclose(jax.jit(extrapolated)(*arrays), expected, atol=1e-12)
        check_grads(jax.jit(extrapolated), arrays, order=2)
