"""The formulas of one axis give the same bits as machine code, on NumPy arrays and as `Lanes`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from vector_programs import LANES, Array, evaluate, padded

from gridsample.definitions import axis, boundaries
from gridsample.kernels.vector import Function, Value
from gridsample.kernels.vector.numpy_target import Lanes

FLOATS = ("float32", "float64")
SIZES = (1, 2, 7, 2**24 + 1)
BOUNDARIES = sorted({boundary.code for boundary in boundaries.BOUNDARIES.values()})
EDGES = (0, 1, 2)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and NaN


def coordinates(kind: str) -> Array:
    rng = np.random.default_rng(0)
    info = np.finfo(kind)
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1 + info.eps, -1 - info.eps, np.nan, np.inf, -np.inf]
    special += [info.max, -info.max, 1e10, -1e10, 1e18, info.tiny, info.smallest_subnormal]
    return padded(np.concatenate([special, rng.uniform(-4, 4, 238)]), kind)


def positions(kind: str, size: int) -> Array:
    """Positions in and around an image: pixels, borders, mirrors, far away, and no numbers."""
    near = np.array([k + d for k in (-size, -1, 0, size - 1, size, 2 * size) for d in DISTANCES])
    at = axis.position(coordinates(kind), np.dtype(kind).type(size - 1), True)
    return padded(np.concatenate([near.astype(kind), at]), kind)


DISTANCES = (-1.5, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5)


def agree(formula: Callable[..., Any], *arrays: Array, lanes: int = 8) -> None:
    """Compare machine code with NumPy; the sign of a zero may differ."""
    expected = formula(*arrays)
    result = evaluate(lambda *values: as_values(formula(*values), values[0]), *arrays, lanes=lanes)
    for name, other in (("machine code", result), ("Lanes", formula(*map(Lanes.of, arrays)))):
        results = other if isinstance(other, tuple) else (other,)
        for a, b in zip(results, as_tuple(expected), strict=True):
            np.testing.assert_array_equal(np.broadcast_to(a, arrays[0].shape), b, name)


def as_values(results: Any, like: Value) -> tuple[Value, ...]:
    """Numbers of Python's among the results, as values."""
    return tuple(x if isinstance(x, Value) else like.like(x) for x in as_tuple(results))


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS)
def test_coordinates_become_positions(kind: str, lanes: int) -> None:
    x = coordinates(kind)
    real = np.dtype(kind).type
    for size, aligned in itertools.product(SIZES, (True, False)):
        last = real(size - 1)
        agree(lambda x, last=last, aligned=aligned: axis.position(x, last, aligned), x, lanes=lanes)


@pytest.mark.covering
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_positions_are_folded(kind: str, boundary: int) -> None:
    real = np.dtype(kind).type
    for size, edge in itertools.product(SIZES, EDGES):
        x, last, reach, edge_ = positions(kind, size), real(size - 1), real(3), real(edge)

        def formulas(
            x: Any, last: Any = last, reach: Any = reach, edge: Any = edge_
        ) -> tuple[Any, ...]:
            if boundary == axis.WRAP:  # never folds a position, but confines it
                return (axis.confine(x, last, reach, boundary, edge),)
            folded = axis.fold(x, last, reach, boundary, edge)
            return *folded, axis.confine(x, last, reach, boundary, edge)

        agree(formulas, x)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("lanes", LANES)
def test_sizes_that_are_known_at_run_time(kind: str, lanes: int) -> None:
    """They are values with one lane, as in a program that serves every size."""
    real = np.dtype(kind).type
    for size in SIZES:
        x, last = positions(kind, size), real(size - 1)

        def formulas(x: Any, last: Any) -> tuple[Any, ...]:
            at = axis.position(x, last, True), axis.position(x, last, False)
            folded = axis.fold(at[1], last, real(2), axis.REFLECTION, real(1))
            wrapped = axis.confine(at[1], last, real(2), axis.WRAP, real(1))
            return *at, *folded, wrapped, axis.known(at[1], axis.WRAP), axis.inside(x, last, 0.5)

        def program(x: Value, lasts: Value, formulas: Any = formulas) -> Any:
            return formulas(x, lasts[0])

        result = evaluate(program, x, np.full_like(x, last), lanes=lanes)
        for a, b in zip(result, formulas(x, last), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("rounding", (axis.FLOOR, axis.HALF_EVEN, axis.HALF_UP))
def test_positions_are_split(kind: str, rounding: int) -> None:
    for size in SIZES:
        agree(lambda x: axis.split(x, rounding), positions(kind, size))


def indices(kind: str, size: int) -> Array:
    """Indices of taps as far from the image as a confined position leaves them, and farther."""
    near = [k + d for k in (-2 * size, -size, 0, size, 2 * size, 3 * size) for d in range(-3, 4)]
    small = np.array(near, np.int64)
    return padded(small[np.abs(small) < np.iinfo(kind).max // 2], kind)


@pytest.mark.covering
@pytest.mark.parametrize("kind", ("int32", "int64"))
@pytest.mark.parametrize("lanes", LANES)
def test_indices_are_folded(kind: str, lanes: int) -> None:
    integer = np.dtype(kind).type
    cases = list(itertools.product(BOUNDARIES, EDGES))
    for size in SIZES:
        index, n = indices(kind, size), integer(size)
        for some in (cases[:6], cases[6:]):
            agree(
                lambda i, n=n, some=some: tuple(axis.fold_index(i, n, b, e) for b, e in some),
                index,
                lanes=lanes,
            )

        def program(i: Value, sizes: Value) -> tuple[Value, ...]:
            return tuple(axis.fold_index(i, sizes[0], b, e) for b, e in cases)

        result = evaluate(program, index, np.full_like(index, size), lanes=lanes)
        for a, (boundary, edge) in zip(result, cases, strict=True):
            assert (a == axis.fold_index(index, n, boundary, edge)).all()
            assert ((a >= axis.DROPPED) & (a < size)).all()


@pytest.mark.parametrize("kind", ("int32", "int64"))
@pytest.mark.parametrize("real", FLOATS)
def test_signs_of_taps(kind: str, real: str) -> None:
    for size in SIZES:
        i, n = indices(kind, size), np.dtype(kind).type(size)
        result = evaluate(
            lambda i, n=n: tuple(axis.fold_sign(i, n, axis.REFLECTION, e) for e in EDGES),
            i,
            real=real,
        )
        for a, edge in zip(result, EDGES, strict=True):
            assert a.dtype == real
            assert (a == axis.fold_sign(i, n, axis.REFLECTION, edge)).all()
    assert axis.fold_sign(i, n, axis.WRAP, 0) == 1


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("lanes", LANES)
def test_weights_by_horners_rule(kind: str, lanes: int) -> None:
    row = np.array([0.5, -1.25, 0.1, 0.75], kind)
    t = padded(np.linspace(0, 1, 100), kind)
    for powers in (1, 2, 4):
        expected = np.broadcast_to(axis.weight(t, row, powers), t.shape)

        def constant(f: Function, t: Value, powers: int = powers) -> Value:
            coefficients = [f.constant(x, kind, t.lanes) for x in row]
            return axis.weight(t, coefficients, powers)

        np.testing.assert_array_equal(
            evaluate(constant, t, lanes=lanes, pass_function=True), expected
        )
