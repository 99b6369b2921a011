"""Methods as tables: their properties, and invalid tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gridsample import methods
from gridsample.definitions.methods import (
    ALIASES,
    CUBIC,
    LINEAR,
    METHODS,
    NEAREST,
    Method,
    bc_spline,
    bspline,
    find_method,
    keys,
    lanczos,
    sampling_names,
)
from gridsample.definitions.weights import bspline_table, keys_cubic

T = np.linspace(0, 1, 41)
SAMPLING = sampling_names()


def evaluate(table: tuple[tuple[float, ...], ...], t: np.ndarray) -> np.ndarray:
    """Every tap's weight at t, (tap, t)."""
    return np.array([np.polynomial.polynomial.polyval(t, row) for row in table])


@pytest.mark.parametrize("method", [METHODS[name] for name in SAMPLING], ids=SAMPLING)
def test_weights_sum_to_one_and_their_derivatives_to_zero(method: Method) -> None:
    for order in range(5):
        total = evaluate(method.derivative(order), T).sum(axis=0)
        scale = max(1.0, np.abs(method.derivative(order)).max())
        np.testing.assert_allclose(total, float(order == 0), atol=1e-14 * scale)


@pytest.mark.parametrize("method", [METHODS[name] for name in SAMPLING], ids=SAMPLING)
@pytest.mark.parametrize("order", range(4))
def test_derivative_tables_are_derivatives(method: Method, order: int) -> None:
    step = 1e-5
    ahead = evaluate(method.derivative(order), T + step)
    behind = evaluate(method.derivative(order), T - step)
    expected = evaluate(method.derivative(order + 1), T)
    # A central difference errs by step**2 * f''' / 6, and by roundings that are divided by step.
    third = np.abs(evaluate(method.derivative(order + 3), T)).max()
    rounding = 4 * np.finfo(float).eps * max(1.0, np.abs(method.derivative(order)).max())
    bound = step**2 * third / 6 * 1.01 + rounding / step
    np.testing.assert_allclose((ahead - behind) / (2 * step), expected, rtol=0, atol=bound)


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
def test_invalid_tables_are_rejected_by_name(
    table: tuple[tuple[float, ...], ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Method("mine", table, first=0)
    assert "'mine'" in str(caught.value)


def test_a_table_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        Method("mine", ((math.nan,),), first=0, normalized=False)
    with pytest.raises(ValueError, match="finite"):
        keys(math.inf)


@pytest.mark.parametrize(("b", "c"), [(1 / 3, 1 / 3), (0, 0.5), (1, 0), (0.2, -0.3)])
def test_bc_splines_are_the_formula_in_the_distance(b: float, c: float) -> None:
    for k, weight in zip((-1, 0, 1, 2), evaluate(bc_spline(b, c).table, T), strict=True):
        s = np.abs(T - k)
        near = (12 - 9 * b - 6 * c) * s**3 + (-18 + 12 * b + 6 * c) * s**2 + (6 - 2 * b)
        far = (-b - 6 * c) * s**3 + (6 * b + 30 * c) * s**2 + (-12 * b - 48 * c) * s
        far += 8 * b + 24 * c
        np.testing.assert_allclose(weight, np.where(s <= 1, near, far) / 6, atol=1e-14)


def test_families_agree_at_shared_parameters() -> None:
    for table, other in (
        (bc_spline(0, 0.75).table, keys_cubic(-0.75)),
        (bc_spline(1, 0).table, bspline(3).table),
        (bspline_table(1), LINEAR.table),
        (bspline_table(0), NEAREST.table),
    ):
        np.testing.assert_allclose(np.array(table, float), other, atol=1e-15)


@pytest.mark.parametrize("order", range(2, 8))
def test_bsplines_are_repeated_integrals_of_a_box(order: int) -> None:
    # b_n is b_(n-1) averaged over one pixel, here by Gauss and Legendre's rule, which is exact.
    points, shares = np.polynomial.legendre.leggauss(8)

    def b(n: int, x: np.ndarray) -> np.ndarray:
        """The centred B-spline of order n, from its table."""
        centre = np.round(x) if n % 2 == 0 else np.floor(x)
        total = np.zeros_like(x)
        for row, k in zip(bspline_table(n), range(-(n // 2), n + 1), strict=False):
            # A tap at `centre + k` weighs the spline's value at its distance from x.
            t = x - centre
            total += np.where(
                centre == -k, np.polynomial.polynomial.polyval(t, np.array(row, float)), 0
            )
        return total

    x = np.linspace(-order, order, 53) + 0.003
    # The integrand has a knot in the interval: halves are integrated on each side of it.
    expected = np.zeros_like(x)
    low, high = x - 0.5, x + 0.5
    knot = np.floor(low) + 1 if order % 2 == 0 else np.round(low) + 0.5
    for start, stop in ((low, knot), (knot, high)):
        for point, share in zip(points, shares, strict=True):
            at = (start + stop) / 2 + point * (stop - start) / 2
            expected += share * (stop - start) / 2 * b(order - 1, at)
    np.testing.assert_allclose(b(order, x), expected, atol=1e-14)


@pytest.mark.parametrize("order", range(2, 8))
def test_bsplines_are_smooth_across_pixels(order: int) -> None:
    method = bspline(order)
    low, high = (-0.5, 0.5) if method.rounds else (0.0, 1.0)
    for derivative in range(order):
        ends = evaluate(method.derivative(derivative), np.array([low, high]))
        # The tap k to the left of a pixel's border is the tap k - 1 to the right of it.
        np.testing.assert_allclose(ends[1:, 1], ends[:-1, 0], atol=1e-12)
        np.testing.assert_allclose([ends[0, 1], ends[-1, 0]], 0, atol=1e-12)


def test_catmull_rom_reproduces_parabolas_and_mitchell_lines() -> None:
    for name, degree in (("catmull-rom", 2), ("mitchell", 1)):
        method = METHODS[name]
        taps = method.first + np.arange(method.taps)
        for power in range(degree + 1):
            result = taps.astype(float) ** power @ evaluate(method.table, T)
            np.testing.assert_allclose(result, T**power, atol=1e-14)


@pytest.mark.parametrize("a", [2, 3, 4])
def test_lanczos_is_its_formula_to_the_error_that_is_stated(a: int) -> None:
    t = np.linspace(0, 1, 1001)
    s = t - np.arange(1 - a, a + 1)[:, np.newaxis]
    weights = np.sinc(s) * np.sinc(s / a)
    result = evaluate(lanczos(a).table, t)
    assert np.abs(result - weights / weights.sum(axis=0)).max() < 1e-9
    np.testing.assert_allclose(result[:, 0], np.eye(2 * a)[a - 1], atol=1e-13)
    np.testing.assert_allclose(result[:, -1], np.eye(2 * a)[a], atol=1e-13)
    np.testing.assert_allclose(result, result[::-1, ::-1], atol=1e-13)  # left and right are alike


@pytest.mark.parametrize(
    "call", [lambda: bspline(8), lambda: bspline(1), lambda: lanczos(1), lambda: lanczos(2.5)]
)
def test_factories_reject_unknown_parameters(call: Callable[[], Method]) -> None:
    with pytest.raises(ValueError, match="must be an integer from"):
        call()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the methods that a test registers."""
    before = dict(METHODS)
    yield
    for name in METHODS.keys() - before.keys():
        del METHODS[name]


def test_a_method_can_be_registered(registry: None) -> None:
    result = methods.register("steps", [[1, 0, -3, 2], [0, 0, 3, -2]], 0)
    assert result is methods.get("steps") is find_method("steps")
    assert result.table == ((1.0, 0.0, -3.0, 2.0), (0.0, 0.0, 3.0, -2.0))
    assert methods.names()[-1] == "steps"
    with pytest.raises(ValueError, match="'steps' is taken"):
        methods.register("steps", [[1.0]], 0)


@pytest.mark.parametrize("name", ["linear", "bicubic", "spline0", "lanczos3"])
def test_names_in_use_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is taken"):
        methods.register(name, [[1.0]], 0)


def test_weights_that_do_not_sum_to_one_are_rejected_by_default(registry: None) -> None:
    difference = [[-1.0], [1.0]]
    with pytest.raises(ValueError, match="sum to one"):
        methods.register("difference", difference, 0)
    assert "difference" not in methods.names()
    result = methods.register("difference", difference, 0, normalized=False)
    assert not result.normalized
    assert methods.get("difference") is result


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((1, [[1.0]], 0), "name"),
        (("n", [1.0], 0), "table"),
        (("n", [["a"]], 0), "table"),
        (("n", [[1.0]], 0.5), "first"),
        (("n", [[1.0]], True), "first"),
    ],
)
def test_invalid_registrations_are_rejected(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(TypeError, match=word):
        methods.register(*arguments)  # type: ignore[arg-type]


# What resizing makes of a method -----------------------------------------------------------------

SMOOTH = Method("smooth", ((1, 0, -3, 2), (0, 0, 3, -2)), first=0)
LOPSIDED = Method("lopsided", ((0.5, -0.5), (0.5, 0.0), (0.0, 0.5)), first=0)
EVERY = [METHODS[name] for name in SAMPLING] + [keys(-1.1), bc_spline(0.2, 0.9), lanczos(5), SMOOTH]


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
def test_kernels_are_the_weights_by_distance(method: Method) -> None:
    assert method.by_distance
    assert method.stretches
    support, kernel = method.kernel()
    t = T[:-1] - 0.49 if method.rounds else T[:-1]
    weights = kernel(method.offsets - t[:, np.newaxis])
    weights /= weights.sum(axis=1, keepdims=True)
    # Lanczos' table is a fit, with an error below 1e-9 for up to four lobes.
    bound = 1e-8 if method.name.startswith("lanczos") else 1e-14 * method.powers
    np.testing.assert_allclose(weights, method.weights(t), rtol=0, atol=bound)
    outside_support = np.array([-support - 0.01, support + 0.01, 1e9])
    assert not kernel(outside_support).any()
    assert kernel(np.array([-support + 0.01, support - 0.01])).all()


def test_only_cubic_has_a_different_kernel_for_antialiasing() -> None:
    places = np.linspace(-2, 2, 33)
    for method in METHODS.values():
        unstretched, stretched = (method.kernel(smooth)[1](places) for smooth in (False, True))
        assert (unstretched == stretched).all() == (method is not CUBIC)
    np.testing.assert_allclose(
        stretched_cubic := CUBIC.kernel(True)[1](places),
        keys(-0.5).kernel()[1](places),
        rtol=0,
        atol=1e-15,
    )
    assert stretched_cubic.max() == 1


@pytest.mark.parametrize(
    ("method", "by_distance"),
    [
        (LOPSIDED, False),
        (Method("behind", ((1.0,),), first=0), False),  # the pixel to the left
        (Method("slope", ((-1.0,), (1.0,)), first=0, normalized=False), False),
        (Method("curve", ((1.0,), (-2.0,), (1.0,)), first=-1, rounds=True, normalized=False), True),
    ],
)
def test_methods_without_antialiasing_are_rejected(method: Method, by_distance: bool) -> None:
    assert method.by_distance == by_distance
    assert not method.stretches


@pytest.mark.parametrize("method", [*METHODS.values(), *EVERY[-4:], LOPSIDED])
def test_methods_round_trip_through_text(method: Method) -> None:
    again = Method.of_text(method.text)
    assert again == method and hash(again) == hash(method)
    assert again.text == method.text


def test_formulas_must_match_the_table() -> None:
    with pytest.raises(ValueError, match="'mine': the table's weights are not those of"):
        Method("mine", keys_cubic(-0.5), first=-1, formula=("bc", 0, 0.75))
    with pytest.raises(ValueError, match="no known family; accepted: 'box'"):
        Method("mine", keys_cubic(-0.5), first=-1, formula=("sinc",))
    with pytest.raises(ValueError, match="every tap needs"):
        Method("mine", (), first=0)


def test_sampling_with_a_resizing_method_is_refused() -> None:
    only = set(methods.names(resizing=True)) - set(methods.names())
    assert only == {"nearest-exact", "area", "gaussian"}
    for name in sorted(only):
        assert find_method(name, resizing=True) is methods.get(name)
        for method in (name, methods.get(name)):
            with pytest.raises(ValueError, match=f"{name}' only resizes, in interpolate.*accepted"):
                find_method(method)


@pytest.mark.parametrize(
    "method", [keys(-0.6), *(bc_spline(0, c / 7) for c in range(8)), *map(lanczos, range(2, 9))]
)
def test_at_a_pixel_other_taps_of_interpolating_methods_have_exactly_no_weight(method):
    constants = [row[0] for row in method.table]
    assert sorted(constants) == [0] * (len(constants) - 1) + [1]
