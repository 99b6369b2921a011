"""Methods as tables: what they must be, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gridsample.weights import ALIASES, CUBIC, LINEAR, METHODS, NEAREST, Method, keys_cubic

T = np.linspace(0, 1, 41)


def evaluate(table: tuple[tuple[float, ...], ...], t: np.ndarray) -> np.ndarray:
    """Every tap's weight at t, (tap, t)."""
    return np.array([np.polynomial.polynomial.polyval(t, row) for row in table])


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_weights_sum_to_one_and_their_derivatives_to_zero(method: Method) -> None:
    for order in range(5):
        total = evaluate(method.derivative(order), T).sum(axis=0)
        scale = max(1.0, np.abs(method.derivative(order)).max())
        np.testing.assert_allclose(total, float(order == 0), atol=1e-14 * scale)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("order", range(4))
def test_derivative_tables_are_derivatives(method: Method, order: int) -> None:
    step = 1e-5
    ahead = evaluate(method.derivative(order), T + step)
    behind = evaluate(method.derivative(order), T - step)
    expected = evaluate(method.derivative(order + 1), T)
    # A central difference of a cubic errs by step**2 * f''' / 6, and rounds at eps / step.
    np.testing.assert_allclose((ahead - behind) / (2 * step), expected, atol=2e-10)


@pytest.mark.parametrize("a", [-0.75, -0.5, -1.0, 0.0])
def test_keys_cubic_is_the_formula_in_the_distance(a: float) -> None:
    for k, weight in zip((-1, 0, 1, 2), evaluate(keys_cubic(a), T), strict=True):
        s = np.abs(T - k)
        near = (a + 2) * s**3 - (a + 3) * s**2 + 1
        far = a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a
        np.testing.assert_allclose(weight, np.where(s <= 1, near, far), atol=1e-14)


def test_linear_reproduces_lines_and_so_does_keys_at_a_half() -> None:
    half = Method("half", keys_cubic(-0.5), first=-1)
    for method in (LINEAR, half):
        taps = method.first + np.arange(method.taps)
        np.testing.assert_allclose(taps @ evaluate(method.table, T), T, atol=1e-14)


def test_derivatives_keep_the_shape_of_the_table() -> None:
    for method in (NEAREST, LINEAR, CUBIC):
        for order in range(6):
            assert np.shape(method.derivative(order)) == (method.taps, method.powers)


def test_aliases_lead_to_methods() -> None:
    assert set(ALIASES.values()) <= set(METHODS)
    assert not set(ALIASES) & set(METHODS)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (((1.0, -1.0), (0.0, 1.1)), "sum to one"),
        (((0.5,), (0.4,)), "sum to one"),
        (((1.0, 0.0), (0.0,)), "same number of coefficients"),
        (((),), "at least one"),
        ((), "at least one"),
    ],
)
def test_a_bad_table_is_refused_by_name(
    table: tuple[tuple[float, ...], ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Method("mine", table, first=0)
    assert "'mine'" in str(caught.value)
