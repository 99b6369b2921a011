"""The reference's methods: weights worked out on paper, their sums, derivatives and polynomials."""

import numpy as np
import pytest
from cases import MODES
from oracles import assert_close
from rows import coordinate, line

from gridsample.kernels import reference

# Worked out on paper: linear --------------------------------------------------------------------


def test_linear_zeros_blends_with_zero_within_a_pixel_of_the_edge():
    # positions -1.5, -1, -0.5, 0, 0.25, 3, 3.5, 4
    xs = (-1.5, -1.25, -1, -0.75, -0.625, 0.75, 1, 1.25)
    assert line((10, 20, 30, 40), xs, "linear", "zeros") == [0, 0, 5, 10, 12.5, 40, 20, 0]


def test_bilinear_is_the_textbook_formula():
    nw, ne, sw, se = 1.0, 2.0, 5.0, 11.0
    image = np.array([[[[nw, ne], [sw, se]]]])
    tx, ty = 0.75, 0.25  # x = 2 tx - 1 and y = 2 ty - 1 with corners aligned: slope 1 / 2
    grid = np.array([[[0.5, -0.5]]])
    options = (("linear", "linear"), ("zeros", "zeros"), True)

    out = reference.gather(image, grid, *options)
    assert out.tolist() == [[[(nw * 0.25 + ne * 0.75) * 0.75 + (sw * 0.25 + se * 0.75) * 0.25]]]

    grad_input, grad_grid = reference.gradients(np.full((1, 1, 1), 8.0), image, grid, *options)
    assert grad_input.tolist() == [[[[1.5, 4.5], [0.5, 1.5]]]]
    gx = 8 * ((ne - nw) * (1 - ty) + (se - sw) * ty) / 2
    gy = 8 * ((sw - nw) * (1 - tx) + (se - ne) * tx) / 2
    assert grad_grid.tolist() == [[[gx, gy]]]
    assert reference.gather(image, grid, *options, (1, 1)).item() == (nw - ne - sw + se) / 4


def test_linear_derivative_on_a_pixel_centre_is_the_one_to_its_right():
    # position 1, with a rise of 10 to its left and of 30 to its right, and a slope of 1
    assert line((10, 20, 50), (0,), "linear", "zeros", True, order=1) == [30]


# Worked out on paper: cubic ---------------------------------------------------------------------


def test_cubic_weights_at_a_quarter():
    weights = [-0.10546875, 0.87890625, 0.26171875, -0.03515625]
    assert reference.weigh(3.25, "cubic") == list(zip((2, 3, 4, 5), weights, strict=True))
    mirrored = [weight for _, weight in reference.weigh(3.75, "cubic")]
    assert mirrored == weights[::-1]


def test_cubic_weights_on_a_pixel_centre():
    def weights(order):
        return [weight for _, weight in reference.weigh(2.0, "cubic", order)]

    assert weights(0) == [0, 1, 0, 0]
    assert weights(1) == [-0.75, 0, 0.75, 0]  # a (-1, 0, 1, 0): a central difference
    assert weights(2) == [3, -4.5, 3, -1.5]
    assert weights(3) == [-4.5, 7.5, -7.5, 4.5]
    assert weights(4) == []


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("t", [0, 0.25, 0.5, 0.875])
def test_weights_sum_to_one_and_their_derivatives_to_zero(t, order):
    for mode in MODES:
        weights = [weight for _, weight in reference.weigh(5 + t, mode, order)]
        assert sum(weights) == (order == 0)


def test_cubic_folds_its_taps_one_by_one():
    # position -0.5, between pixels -1 and 0: the weights (-3, 19, 19, -3) / 32 of -2, -1, 0, 1
    pixels = (32, 64, 128, 256)
    assert line(pixels, (-1,), "cubic", "zeros") == [19 * 1 - 3 * 2]
    assert line(pixels, (-1,), "cubic", "border") == [(-3 + 19 + 19) * 1 - 3 * 2]
    assert line(pixels, (-1,), "cubic", "reflection") == [-3 * 2 + 19 + 19 - 3 * 2]
    # with corners aligned that position is -4 / 3, and the mirror is pixel 0: 2, 1, 0, 1
    x = coordinate(-0.5, 4, True)
    assert line(pixels, (x,), "cubic", "reflection", True) == pytest.approx(
        [-3 * 4 + 19 * 2 + 19 - 3 * 2], rel=1e-14
    )


def test_cubic_gradient_has_no_clamp():
    # position -0.5: only the last tap lies on pixel 1. Its distance d is 1.5, and with a slope of 2
    # its weight changes by -2 a (8 - 10 d + 3 d**2).
    assert line((0, 1, 0, 0), (-1,), "cubic", "border", order=1) == [-0.375]


# Beyond PyTorch: methods ------------------------------------------------------------------------

WIDE = (
    "catmull-rom",
    "mitchell",
    *(f"spline{n}" for n in range(2, 8)),
    "lanczos2",
    "lanczos3",
    "lanczos4",
)


@pytest.mark.parametrize("mode", WIDE)
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_are_differences(mode, order):
    step = 1e-3
    if order >= reference.degree(mode):
        return

    def weights(p, n):
        return np.array([weight for _, weight in reference.weigh(p, mode, n)])

    for p in (7.2, 6.81, 7.45):
        slopes = (8 * (weights(p + step, order) - weights(p - step, order))) / (12 * step)
        slopes -= (weights(p + 2 * step, order) - weights(p - 2 * step, order)) / (12 * step)
        # The error is step**4 / 30 of the fifth derivative above, at most 5**10 of Lanczos'.
        assert_close(weights(p, order + 1), slopes, 1e-7)


@pytest.mark.parametrize("mode", WIDE)
@pytest.mark.parametrize("t", [0, 0.25, 0.5, 0.875])
def test_weights_of_wide_methods_sum_to_one(mode, t):
    for order in range(3):
        weights = [weight for _, weight in reference.weigh(6 + t, mode, order)]
        assert sum(weights) == pytest.approx(float(order == 0), abs=1e-12)


@pytest.mark.parametrize("n", range(2, 8))
def test_splines_reproduce_polynomials(n):
    # Samples of a polynomial of degree n, through coefficients that solve for them.
    far, k = 30, np.arange(-30.0, 31.0)
    value = np.polynomial.Polynomial([0.3, -1, 0.5, 0.25, -0.1, 0.05, 0.02, -0.01][: n + 1])
    matrix = np.zeros((61, 61))
    for row in range(61):
        for i, weight in reference.weigh(float(row), f"spline{n}"):
            matrix[row, min(max(i, 0), 60)] += weight
    # Polynomials' coefficients are polynomials: fit one in place of solving at the far ends.
    inner = slice(n, 61 - n)
    basis = np.polynomial.polynomial.polyvander(k / far, n)
    fit = np.linalg.lstsq((matrix @ basis)[inner], value(k / far)[inner], rcond=None)[0]
    for p in (28.3, 31.5, 25.75):
        result = sum(w * (basis[i] @ fit) for i, w in reference.weigh(p, f"spline{n}"))
        assert result == pytest.approx(value((p - 30) / far), abs=1e-12)
