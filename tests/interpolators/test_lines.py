"""`interp` against `numpy.interp`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gridsample.interpolators import interp

RNG = np.random.default_rng(0)
XP, FP = np.sort(RNG.uniform(0, 9, 30)), RNG.standard_normal((2, 3, 30))
X = RNG.uniform(-3, 12, (4, 20))
X[0, :3] = XP[0], XP[-1], np.nan
CHOICES: Any = [{}, {"left": 3.0}, {"right": -1, "left": np.nan}, {"period": 5}, {"period": -400.0}]


@pytest.mark.parametrize("options", CHOICES)
def test_results_are_those_of_numpy(options: Any) -> None:
    for rows in (FP, FP + 1j * FP[..., ::-1], FP.astype("float32"), (FP * 9).astype(int)):
        actual = interp(X, XP, rows, **options)
        assert actual.shape == (2, 3, 4, 20)
        for k in np.ndindex(2, 3):
            expected = np.interp(X, XP, rows[k], **options)
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual[k], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", CHOICES)
@pytest.mark.parametrize("times", [1, 9])  # by NumPy, and by a program
def test_single_rows_are_those_of_numpy(options: Any, times: int) -> None:
    x = np.tile(X, times)
    for row in (FP[0, 0], FP[0, 0] + 1j):
        actual, expected = interp(x, XP, row, **options), np.interp(x, XP, row, **options)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="xp must be finite"):
        interp(x, np.append(XP[:-1], np.nan), FP[0, 0], **options)


def test_numbers_and_single_coordinates() -> None:
    for arguments in ((1.5, [1.0, 2.0], [3, 4.0]), (1.5, [1.0], [3]), ([], [1.0, 2.0], [3.0, 4.0])):
        actual, expected = interp(*arguments), np.interp(*arguments)
        assert type(actual) is type(expected)
        np.testing.assert_array_equal(actual, expected)
    large = ([-1.0, 1e17, 3e17], [1e17], [7], 1)
    np.testing.assert_array_equal(interp(*large), np.interp(*large))
    np.testing.assert_array_equal(interp([0, 1, 2], [1.0], [3], left=5, right=8), [5, 3, 8])


def test_values_beside_infinite_ones() -> None:
    """A value that has the weight 0 does not count."""
    xp, x = [1.0, 2.5, 10.0], [-np.inf, 0.0, 1.0, 1.5, 2.5, 10.0, 99.0, np.inf, np.nan]
    rows = np.array([[1.0, np.nan, 4.0], [1, np.inf, np.inf], [np.nan, 2, -np.inf]])
    for options in CHOICES[:3]:
        for row, actual in zip(rows, interp(x, xp, rows, **options), strict=True):
            np.testing.assert_allclose(actual, np.interp(x, xp, row, **options), rtol=1e-15)


def test_tensors_and_jax_go_with_numbers() -> None:
    expected = interp(X[1], XP, FP)
    for actual in (interp(X[1], XP, torch.tensor(FP)), interp(torch.tensor(X[1]), XP, FP)):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    assert interp(1.5, [1.0, 2.0], torch.tensor([3, 4])).item() == 3.5
    assert interp(1.5, [1.0, 2.0], jnp.asarray([3.0, 4.0])) == 3.5


@pytest.mark.parametrize("x", [1j, ["1"], [1 + 0j]])
@pytest.mark.parametrize("fp", [[3.0, 4.0], torch.tensor([3.0, 4.0])])
def test_points_are_real_numbers(x: Any, fp: Any) -> None:
    with pytest.raises(TypeError, match=r"^x must hold (real )?numbers, got dtype"):
        interp(x, [1.0, 2.0], fp)


@pytest.mark.parametrize("options", [{}, {"period": 5.0}, {"left": 0.0, "right": 2.0}])
def test_tensors_and_jax_have_derivatives(options: Any) -> None:
    x, rows = (torch.tensor(a, requires_grad=True) for a in (X[1, :6], FP))
    assert torch.autograd.gradcheck(lambda x, rows: interp(x, XP, rows, **options), (x, rows))
    expected = torch.autograd.grad((interp(x, XP, rows, **options) ** 2).sum(), (x, rows))
    with jax.enable_x64(True):
        gradients = jax.grad(lambda x, rows: (interp(x, XP, rows, **options) ** 2).sum(), (0, 1))(
            jnp.asarray(X[1, :6]), jnp.asarray(FP)
        )
        for actual, other in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(actual, other, rtol=1e-12, atol=1e-12)
    assert interp(x.detach().float(), XP, rows.detach().float()).dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, [1, 1.0], [1, 2.0]), "xp must be finite and increase throughout"),
        ((1, [1, np.inf], [1, 2.0]), "xp must be finite and increase throughout"),
        ((1, [1, 2.0], [1, 2.0, 3]), r"shapes \(2,\) and \(3,\)"),
        ((1, [], []), r"not empty, .* \(0,\)"),
        ((1, [1, 2.0], [1, 2.0], None, None, 0), "period must be a number other than 0, got 0"),
        ((1, [1, 3.0], [1, 2.0], None, None, 2), "no two entries may be equal modulo the period"),
    ],
)
def test_wrong_arguments_are_one_error(arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        interp(*arguments)
