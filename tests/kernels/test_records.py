"""Records are equivalent to flat arguments, and mistakes are found before machine code runs."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import pytest

from gridsample.kernels.gpu.flattening import (
    check,
    flat_definition,
    flat_parameters,
    flat_values,
)


class Step(NamedTuple):
    """Two numbers."""

    first: int
    second: int


class Walk(NamedTuple):
    """A record in a record."""

    start: int
    step: Step


def inner(step: Step, times: int) -> int:
    return (step.first - step.second) * times


def outer(walk: Walk, times: int) -> int:
    step = Step(walk.step.second, second=walk.start)
    next_walk = Walk(times, walk.step)
    return inner(step, times) + 10 * inner(next_walk.step, 2) + next_walk.start * walk.step.first


def bare(step: Step) -> Any:
    return [step]


def unknown(step: Step) -> Any:
    return step.third  # type: ignore[attr-defined]


def flat(function: Any, scope: dict[str, Any]) -> Any:
    """Compile a flattened function."""
    definition = flat_definition(function)
    definition.returns = None
    for argument in definition.args.args:
        argument.annotation = None
    module = ast.fix_missing_locations(ast.Module([definition], []))
    exec(compile(module, "<flat>", "exec"), scope)
    return scope[function.__name__]


def test_flattened_functions_match_the_originals() -> None:
    expected = outer(Walk(1, Step(2, 5)), 3)
    function = flat(outer, {"inner": flat(inner, {})})
    names = ["walk_start", "walk_step_first", "walk_step_second", "times"]
    assert [*flat_parameters(outer)] == names
    assert [*function.__code__.co_varnames[:4]] == names
    assert function(**flat_values(walk=Walk(1, Step(2, 5)), times=3)) == expected


def test_records_may_only_be_read_and_passed_on() -> None:
    with pytest.raises(TypeError, match="step is a record, which can only be passed on"):
        flat_definition(bare)
    with pytest.raises(KeyError, match="third"):
        flat_definition(unknown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"walk": Walk(0, Step(1, 2)), "times": 1}, ""),
        ({"walk": Walk(0, Step(1, 2))}, r"outer: missing \['times'\], unexpected \[\]"),
        ({"walk": Walk(0, Step(1, 2)), "times": 1, "x": 2}, r"missing \[\], unexpected \['x'\]"),
        ({"walk": Step(1, 2), "times": 1}, r"outer: walk must be Walk, got Step\(first=1"),
    ],
)
def test_arguments_are_checked_by_name(arguments: dict[str, Any], message: str) -> None:
    if not message:
        check(outer, arguments, frozenset())
        return
    with pytest.raises(TypeError, match=message):
        check(outer, arguments, frozenset())


def test_arguments_supplied_by_others_are_rejected() -> None:
    walk = Walk(0, Step(1, 2))
    check(outer, {"walk": walk}, frozenset({"times"}))
    with pytest.raises(TypeError, match="times"):
        check(outer, {"walk": walk, "times": 1}, frozenset({"times"}))
