"""What is written once must mean the same on every target."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from gridsample.definitions import axis
from gridsample.kernels.compile.jit import OPTIONS
from gridsample.kernels.compile.lower import fingerprint, lower, rebind
from gridsample.kernels.cpu import passes, runs, second, sweeps, taps
from gridsample.kernels.cpu.build import Spec, bindings
from gridsample.kernels.cpu.taps import (
    ELEMENTWISE,
)

BOUNDARIES = (axis.ZEROS, axis.BORDER, axis.REFLECTION, axis.WRAP)


def test_a_twin_sees_the_names_it_was_given_and_leaves_the_original_alone() -> None:
    twin = rebind(axis.slope, {"HALF": 3.0}, "slope_3")
    assert twin(5.0, True) == 15.0
    assert axis.slope(5.0, True) == 2.5
    assert twin.__qualname__ == "slope_3"


def test_lowered_functions_see_those_before_them_and_their_own_flags() -> None:
    def base(x: float) -> float:
        return x + FLAG  # type: ignore[name-defined]  # noqa: F821

    def user(x: float) -> float:
        return 2 * one(x)  # type: ignore[name-defined]  # noqa: F821

    made = lower([("one", base, {"FLAG": 1}), user], {}, lambda function: function, "tag")
    assert made["user"](3) == 8
    assert made["one"].__qualname__ == "one_tag"


def test_twins_whose_names_mean_the_same_are_compiled_once() -> None:
    def base(x: float) -> float:
        return x * FACTOR  # type: ignore[name-defined]  # noqa: F821

    def whole(x: float) -> float:
        return part(x)  # type: ignore[name-defined]  # noqa: F821

    def compile_(function: Any) -> Any:
        return function

    def make(**names: Any) -> Any:
        return lower([("part", base, {}), whole], names, compile_, str(names))["whole"]

    first = make(FACTOR=2.0, UNUSED=1)
    assert make(FACTOR=2.0, UNUSED=2) is first
    others = [make(FACTOR=3.0), make(FACTOR=np.float64(2))]  # equal, but of another type
    assert len({first, *others}) == 3
    assert [one(4.0) for one in others] == [12.0, 8.0]


def test_a_name_that_is_bound_is_no_entry_of_a_table() -> None:
    """Whoever meant the entry would get what is bound, in any module."""
    for module in (passes, runs, second, sweeps, taps):
        for name in bindings(Spec("gather", "f4", 32, "f4")).keys() - {"LINE"}:
            meant = vars(module).get(name, 0)
            assert not isinstance(meant, int) or meant in (0, 1), f"{module.__name__}.{name}"


def test_the_fingerprint_is_of_the_sources() -> None:
    assert len(fingerprint()) == 12
    assert fingerprint() == fingerprint()


@pytest.fixture(scope="module", params=["f4", "f8"])
def lowered(request: pytest.FixtureRequest) -> tuple[np.dtype[Any], dict[str, Any]]:
    """axis.py for Numba, in one precision."""
    spec = Spec("none", request.param, 64, request.param)
    functions = dict.fromkeys((*ELEMENTWISE, axis.position, axis.slope, axis.inside))  # each once
    return np.dtype(request.param), lower(functions, bindings(spec), compile_outer, "test")


def compile_outer(function: Any) -> Any:
    """As drivers are compiled, but from any types, and not kept."""
    return numba.njit(function, fastmath={"contract"}, **OPTIONS)


def positions(kind: np.dtype[Any], size: int) -> np.ndarray:
    rng = np.random.default_rng(size)
    edges = np.array([-1, -0.5, 0, 0.5, size - 1, size - 0.5, size, -size, 2 * size, 3 * size])
    return np.concatenate([edges, rng.uniform(-4 * size, 4 * size, 200)]).astype(kind)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_axis_functions_lower_to_the_same_numbers(
    lowered: tuple[np.dtype[Any], dict[str, Any]], size: int
) -> None:
    kind, numba = lowered
    last, reach = kind.type(size - 1), kind.type(5)
    tolerance = 4 * np.finfo(kind).eps * 8 * size
    for value in positions(kind, size):
        for aligned in (False, True):
            edge = kind.type(not aligned)
            coordinate = kind.type(value / size)
            here = numba["position"](coordinate, last, aligned)
            assert abs(here - axis.position(coordinate, last, aligned)) <= tolerance
            assert numba["slope"](last, aligned) == axis.slope(last, aligned)
            for boundary in BOUNDARIES:
                for name in ("fold", "confine") if boundary != axis.WRAP else ("confine",):
                    mine = np.array(numba[name](value, last, reach, boundary, edge), float)
                    theirs = getattr(axis, name)(value, last, reach, boundary, edge)
                    assert np.abs(mine - np.array(theirs, float)).max() <= tolerance
                index = int(np.floor(value))
                for name in ("fold_index", "fold_sign"):
                    theirs = getattr(axis, name)(index, size, boundary, int(edge))
                    assert numba[name](index, size, boundary, int(edge)) == theirs
            assert bool(numba["inside"](value, last, edge)) == axis.inside(value, last, edge)
        for rounds in (False, True):
            assert numba["split"](value, rounds) == axis.split(value, rounds)


def test_positions_without_meaning_are_the_same_ones(
    lowered: tuple[np.dtype[Any], dict[str, Any]],
) -> None:
    kind, numba = lowered
    for value in (0.0, 1e30, np.inf, -np.inf, np.nan):
        for boundary in BOUNDARIES:
            given = kind.type(value)
            with np.errstate(invalid="ignore"):
                assert bool(numba["known"](given, boundary)) == bool(axis.known(given, boundary))


def test_single_precision_stays_single(lowered: tuple[np.dtype[Any], dict[str, Any]]) -> None:
    kind, numba = lowered
    value, last = kind.type(0.3), kind.type(6)
    numba["position"](value, last, True)
    numba["confine"](value, last, last, axis.REFLECTION, last)
    numba["fold_sign"](-1, 7, axis.REFLECTION, 1)
    for name in ("position", "confine", "fold_sign"):
        for signature in numba[name].nopython_signatures:
            assert str(signature.return_type) == str(kind)
