"""`RectBivariateSpline` against SciPy's, for arrays, tensors and JAX arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate as scipys
import torch
from jax.test_util import check_grads

from gridsample.interpolators import RectBivariateSpline, interpn

Array = np.ndarray[Any, Any]

X, Y = np.array([0.0, 1.0, 2.5, 3.0, 5.0, 5.5, 7.0]), np.array([-1.0, 0.0, 0.5, 2.0, 2.25, 4.0])
Z = np.random.default_rng(0).standard_normal((7, 6))
# On knots, at the ends, and outside.
PLACES = np.array([-2.0, 0.0, 0.3, 2.5, 4.9, 7.0, 9.0]), np.array([-3.0, -1.0, 0.1, 2.0, 3.9, 6.0])


@pytest.mark.parametrize(
    ("kx", "ky", "bbox"),
    [(3, 3, [None] * 4), (1, 2, [None] * 4), (5, 4, [None] * 4), (3, 1, [-1, 7.5, None, 5])],
)
def test_results_are_those_of_scipy(kx: int, ky: int, bbox: Any) -> None:
    ours, theirs = [of(X, Y, Z, bbox, kx, ky) for of in CLASSES]
    x, y = PLACES
    for dx, dy in ((0, 0), (kx - 1, 0), (0, ky - 1)):
        expected = theirs(x, y, dx, dy)
        np.testing.assert_allclose(ours(x, y, dx, dy), expected, rtol=1e-11, atol=1e-11)
        pairs = ours.ev(x[:, None], y, dx, dy)
        np.testing.assert_allclose(pairs, expected, rtol=1e-11, atol=1e-11)
    for actual, part in zip(ours.tck, theirs.tck, strict=True):
        np.testing.assert_allclose(actual, part, rtol=1e-11, atol=1e-11)


CLASSES: Any = (RectBivariateSpline, scipys.RectBivariateSpline)


def test_partial_derivatives() -> None:
    ours, theirs = [of(X, Y, Z).partial_derivative(1, 2) for of in CLASSES]
    np.testing.assert_allclose(ours(*PLACES), theirs(*PLACES), rtol=1e-11, atol=1e-11)
    with pytest.raises(ValueError, match="order of derivative must be less than degree of spline"):
        ours.partial_derivative(0, 1)


def test_shapes() -> None:
    ours, theirs = [of(X, Y, Z) for of in CLASSES]
    for x, y in ((1.0, 2.0), ([], [1.0]), ([1.0, 2.0], 3.0)):
        assert ours(x, y).shape == theirs(x, y).shape
        assert ours.ev(x, y).shape == theirs.ev(x, y).shape
    assert np.isnan(ours.ev([1.0, np.nan], [np.nan, 1.0])).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda of: of(X[::-1], Y, Z),
        lambda of: of(X, Y, Z[:-1]),
        lambda of: of(X, Y, Z, bbox=[0, 1]),
        lambda of: of(X, Y, Z, s=-1),
        lambda of: of(X, Y, Z)([2.0, 1.0], [1.0]),
        lambda of: of(X, Y, Z)([1.0], [2.0, 1.0]),
    ],
)
def test_errors_are_those_of_scipy(call: Any) -> None:
    messages = []
    for of in CLASSES:
        with pytest.raises(ValueError, match=r".") as error:
            call(of)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"s": 1.0}, "smoothing splines are those of scipy.interpolate.RectBivariateSpline"),
        ({"kx": 6}, "kx must be an integer from 1 to 5, got 6"),
        ({"bbox": [1, None, None, None]}, "bbox must contain x"),
        ({"ky": 5, "y": Y[:5], "z": Z[:, :5]}, "y has 5 coordinates, but degree 5 needs more"),
        ({"z": Z[0]}, "z must have two axes"),
    ],
)
def test_errors(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RectBivariateSpline(**{"x": X, "y": Y, "z": Z, **options})
    with pytest.raises(ValueError, match="dx must be an integer from 0 on, got -1"):
        RectBivariateSpline(X, Y, Z).ev(1.0, 1.0, dx=-1)


def test_interpn_has_splines_of_two_axes() -> None:
    points = np.stack([np.linspace(-1, 8, 9), np.linspace(-1, 4, 9)], -1)
    points[4] = np.nan
    options: Any = {"method": "splinef2d", "bounds_error": False, "fill_value": 7.0}
    expected = scipys.interpn((X, Y), Z, points, **options)
    np.testing.assert_allclose(interpn((X, Y), Z, points, **options), expected, atol=1e-12)
    tensor = interpn((X, Y), torch.tensor(Z), torch.tensor(points), **options)
    np.testing.assert_allclose(tensor, expected, atol=1e-12)


@pytest.mark.parametrize(
    "arguments",
    [
        ((X, Y), Z[..., None], [[1.0, 1.0]], "splinef2d"),
        ((X, Y), Z, [[1.0, 1.0]], "splinef2d", False, None),
        ((X,), Z, [[1.0]], "splinef2d"),
        ((X[::-1], Y), Z, [[1.0, 1.0]], "splinef2d"),
        ((X, Y), Z, [[1.0, 99.0]], "splinef2d"),
        ((X, Y), Z, [[1.0, 1.0, 1.0]], "splinef2d"),
    ],
)
def test_errors_of_interpn_are_those_of_scipy(arguments: Any) -> None:
    messages = []
    for call in (interpn, scipys.interpn):
        with pytest.raises(ValueError, match=r".") as error:
            call(*arguments)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_tensors_have_derivatives() -> None:
    arrays = [
        torch.tensor(a, requires_grad=True)
        for a in (Z, PLACES[0][1:4] + 0.1, PLACES[1][2:5] - 0.07)
    ]
    for grid in (True, False):
        function = lambda z, x, y: RectBivariateSpline(X, Y, z)(x, y, grid=grid)  # noqa: B023, E731
        assert torch.autograd.gradcheck(function, arrays)
        assert torch.autograd.gradgradcheck(function, arrays)
    half = RectBivariateSpline(X, Y, arrays[0].detach().half())
    assert half.ev(arrays[1].detach(), 1.0).dtype == torch.float16


def test_jax_compiles_and_differentiates() -> None:
    with jax.enable_x64(True):
        arrays = (
            jnp.asarray(Z),
            jnp.asarray(PLACES[0][1:4] + 0.1),
            jnp.asarray(PLACES[1][2:5] - 0.07),
        )
        function = jax.jit(lambda z, x, y: RectBivariateSpline(X, Y, z).ev(x, y))
        np.testing.assert_allclose(
            function(*arrays), RectBivariateSpline(X, Y, Z).ev(*arrays[1:]), atol=1e-12
        )
        check_grads(function, arrays, order=2)
