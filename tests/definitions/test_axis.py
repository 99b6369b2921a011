"""The formulas of an axis, which every target compiles, in NumPy against the reference."""

import cases
import numpy as np
import pytest

from gridsample.definitions import axis
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.methods import METHODS, sampling_names
from gridsample.kernels import reference

ALIGN = pytest.mark.parametrize("aligned", [False, True], ids=["edges", "centres"])
BOUNDARY = pytest.mark.parametrize("boundary", BOUNDARIES)
SIZE = pytest.mark.parametrize("size", [1, 2, 7, 63])
REACH = 5


def kind(boundary, aligned):
    """A boundary's code and edge, as the functions take them."""
    return BOUNDARIES[boundary].code, BOUNDARIES[boundary].edge_for(aligned)


def coordinates(size):
    """Pixels' centres and edges, what lies between and far outside, as coordinates."""
    rng = cases.generator("coordinates", size)
    exact = [-3, -1, -0.5, 0, 0.25, 1, 2, 1e6, -1e9]
    return np.concatenate([exact, rng.uniform(-3, 3, 63), rng.uniform(-1e3, 1e3, 7)])


def positions(size):
    """Multiples of a quarter, on which every fold is exact, from three images before to after."""
    return np.arange(-12 * size - 8, 12 * size + 8) / 4


@SIZE
@ALIGN
def test_position_and_slope(size, aligned):
    x = coordinates(size)
    expected = [reference.position(coordinate, size, aligned) for coordinate in x.tolist()]
    np.testing.assert_array_equal(axis.position(x, size - 1, aligned), expected)
    assert axis.slope(size - 1, aligned) == reference.slope(size, aligned)


def test_a_single_pixel_extends_everywhere_except_nan():
    x = np.array([-np.inf, -3, 0, np.inf, np.nan])
    with np.errstate(invalid="ignore"):  # both sides of a choice are computed
        np.testing.assert_array_equal(axis.position(x, 0, True), [0, 0, 0, 0, np.nan])


def test_known_positions():
    p = np.array([0, -1e300, np.inf, -np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        for boundary, expected in (
            (axis.ZEROS, [True, True, True, True, False]),
            (axis.BORDER, [True, True, True, True, False]),
            (axis.REFLECTION, [True, True, False, False, False]),
            (axis.WRAP, [True, True, False, False, False]),
        ):
            assert axis.known(p, boundary).tolist() == expected


def test_inside_matches_the_reference():
    p = np.array([-np.inf, -1, -0.5, -0.25, 0, 3, 3.5, 4, np.inf, np.nan])
    assert axis.inside(p, 3, 0.5).tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0, 0]
    assert axis.inside(p, 3, 0).tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    for aligned, coords in ((False, "normalized"), (True, "normalized"), (False, "pixel")):
        margin = 0.5 if (aligned, coords) == (False, "normalized") else 0
        expected = [
            not reference.outside(position, 4, aligned, coords) for position in p[:-1].tolist()
        ]
        assert axis.inside(p[:-1], 3, margin).tolist() == expected


@SIZE
@pytest.mark.parametrize("boundary", ["zeros", "border", "reflection"])
@ALIGN
def test_folded_positions_match_the_reference(size, boundary, aligned):
    p = positions(size)
    folded, sign = axis.fold(p, size - 1, REACH, *kind(boundary, aligned))
    expected = [
        reference.fold_position(position, size, boundary, aligned) for position in p.tolist()
    ]
    if boundary == "zeros":  # not folded, only kept near: all taps are outside either way
        p = np.clip(p, -REACH, size - 1 + REACH)
        expected = [(position, 1) for position in p.tolist()]
    np.testing.assert_array_equal(folded, [position for position, _ in expected])
    signs = np.broadcast_to(sign, p.shape)
    if size > 1:
        np.testing.assert_array_equal(signs, [position for _, position in expected])
    else:  # between two ends in one place: no slope, but for what zeros leaves
        np.testing.assert_array_equal(signs, 1 if boundary == "zeros" else 0)


@SIZE
@BOUNDARY
@ALIGN
def test_confine_keeps_every_tap(size, boundary, aligned):
    p, (code, edge) = positions(size), kind(boundary, aligned)
    near = axis.confine(p, size - 1, REACH, code, edge)
    assert np.abs(near).max() <= 2 * size + REACH
    for tap in range(-1, 3):
        before = np.floor(p).astype(int) + tap
        after = np.floor(near).astype(int) + tap
        expected = [reference.fold_index(i, size, boundary, aligned) for i in before.tolist()]
        actual = axis.fold_index(after, size, code, edge)
        assert [None if i == axis.DROPPED else i for i in actual.tolist()] == expected
        if size >= 4:  # as many pixels as taps
            nearby = axis.fold_nearby(after, size, code, edge)
            np.testing.assert_array_equal(nearby, actual)
        if BOUNDARIES[boundary].odd:
            signs = [reference.fold_sign(i, size, boundary) for i in before.tolist()]
            np.testing.assert_array_equal(axis.fold_sign(after, size, code, edge), signs)
    if code >= axis.REFLECTION:
        np.testing.assert_array_equal(near - np.floor(near), p - np.floor(p))


@SIZE
@BOUNDARY
@ALIGN
def test_folded_indices_match_the_reference(size, boundary, aligned):
    index = np.arange(-5 * size - 3, 6 * size + 3)
    expected = [reference.fold_index(i, size, boundary, aligned) for i in index.tolist()]
    for integer in (np.int32, np.int64):
        actual = axis.fold_index(index.astype(integer), size, *kind(boundary, aligned))
        assert [None if i == axis.DROPPED else i for i in actual.tolist()] == expected


@pytest.mark.parametrize("size", range(2, 10))
@BOUNDARY
@ALIGN
def test_nearby_indices_are_folded_without_a_remainder(size, boundary, aligned):
    code, edge = kind(boundary, aligned)
    period = BOUNDARIES[boundary].period(size, aligned) or 2 * size
    # A position that was confined is less than a period from 0, but may be rounded to one.
    for taps in range(1, size + 1):
        index = np.arange(-period - taps + 1, period + taps)
        expected = axis.fold_index(index, size, code, edge)
        np.testing.assert_array_equal(axis.fold_nearby(index, size, code, edge), expected)


@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@ALIGN
def test_any_index_is_folded_to_a_pixel_or_dropped(boundary, aligned):
    index = np.array([-(2**31), -(2**30), -1000, 1000, 2**30, 2**31 - 1], np.int32)
    with np.errstate(over="ignore"):
        folded = axis.fold_nearby(index, np.int32(5), *kind(boundary, aligned))
    assert ((folded >= axis.DROPPED) & (folded < 5)).all()


@SIZE
@pytest.mark.parametrize("boundary", [name for name, i in BOUNDARIES.items() if i.odd])
def test_signs_match_the_reference(size, boundary):
    index = np.arange(-5 * size - 3, 6 * size + 3)
    expected = [reference.fold_sign(i, size, boundary) for i in index.tolist()]
    for integer in (np.int32, np.int64):
        actual = axis.fold_sign(index.astype(integer), size, *kind(boundary, False))
        np.testing.assert_array_equal(actual, expected)


def test_boundaries_without_signs():
    signed = {boundary.code for boundary in BOUNDARIES.values() if boundary.odd}
    for code in {boundary.code for boundary in BOUNDARIES.values()} - signed:
        assert axis.fold_sign(np.arange(-3, 3), 2, code, 0) == 1


def test_positions_are_rounded_to_base_indices():
    p = np.array([-1.5, -0.5, 0.0, 0.5, 1.5, 2.25, 2.5, 3.0])
    base, t = axis.split(p, axis.HALF_EVEN)
    assert base.tolist() == [-2, 0, 0, 0, 2, 2, 2, 3]
    assert t.tolist() == [0.5, -0.5, 0, 0.5, -0.5, 0.25, 0.5, 0]
    base, t = axis.split(p, axis.HALF_UP)
    assert base.tolist() == [-1, 0, 0, 1, 2, 2, 3, 3]
    assert t.tolist() == [-0.5, -0.5, 0, -0.5, -0.5, 0.25, -0.5, 0]
    base, t = axis.split(p, axis.FLOOR)
    assert base.tolist() == [-2, -1, 0, 0, 1, 2, 2, 3]
    assert t.tolist() == [0.5, 0.5, 0, 0.5, 0.5, 0.25, 0.5, 0]


# Polynomials are exact; of Lanczos' fitted ones the docstring states the errors.
FIT = {0: 1e-9, 1: 1e-7, 2: 2e-5}


@pytest.mark.parametrize("mode", [name for name in sampling_names() if name != "label"])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_weights_match_the_reference(mode, order):
    method = METHODS[mode]
    if mode.startswith("lanczos") and order not in FIT:
        return
    t = np.linspace(0, 1, 17)[:-1]
    if method.rounds:
        t = t - 0.5
        t[0] = 0.5
    table = method.derivative(order)
    actual = np.array(
        [np.broadcast_to(axis.weight(t, row, method.powers), t.shape) for row in table]
    )
    # From an even pixel, which is the near one of 1/2 too.
    expected = [
        [w for _, w in reference.weigh(8 + fraction, mode, order)] for fraction in t.tolist()
    ]
    if not any(expected):  # above the method's degree there are no taps
        assert not actual.any()
        return
    # A few roundings of coefficients that derivatives make larger.
    fit = FIT[order] if mode.startswith("lanczos") else 64 * np.finfo(float).eps
    np.testing.assert_allclose(actual.T, expected, rtol=0, atol=fit * max(1, np.abs(table).max()))
    if order == 0:
        first = [reference.weigh(7.25, mode)[0][0]]
        assert first == [7 + method.first]
