"""Records are what flat arguments are, and mistakes in them are found before machine code runs."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest

from gridsample.kernels.compile.records import (
    check,
    flat_parameters,
    flat_values,
    flatten,
    parameters,
    with_records,
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
    here = Step(walk.step.second, second=walk.start)
    there = Walk(times, walk.step)
    return inner(here, times) + 10 * inner(there.step, 2) + there.start * walk.step.first


def generic(job: Any, times: int) -> int:
    return int(job.step.first * times)


def bare(step: Step) -> Any:
    return [step]


def unknown(step: Step) -> Any:
    return step.third  # type: ignore[attr-defined]


def test_a_flat_function_does_what_the_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, flat = outer(Walk(1, Step(2, 5)), 3), flatten(outer)
    names = ["walk_start", "walk_step_first", "walk_step_second", "times"]
    assert [*inspect.signature(flat).parameters] == [*flat_parameters(outer)] == names
    monkeypatch.setitem(globals(), "inner", flatten(inner))
    assert flat(**flat_values(walk=Walk(1, Step(2, 5)), times=3)) == expected
    assert flat.__code__.co_filename == outer.__code__.co_filename


def test_a_function_without_records_is_itself() -> None:
    def plain(x: int) -> int:
        return x

    assert flatten(plain) is plain


def test_a_parameter_can_be_any_record() -> None:
    flat = flatten(with_records(generic, "walking", job=Walk))
    assert flat(1, 2, 3, 4) == 8
    assert parameters(flat).keys() == {"job_start", "job_step_first", "job_step_second", "times"}


def test_records_are_read_and_handed_on_alone() -> None:
    with pytest.raises(TypeError, match="step is a record, which can only be handed on"):
        flatten(bare)
    with pytest.raises(KeyError, match="third"):
        flatten(unknown)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"walk": Walk(0, Step(1, 2)), "times": 1}, ""),
        ({"walk": Walk(0, Step(1, 2))}, r"outer: missing \['times'\], not taken \[\]"),
        ({"walk": Walk(0, Step(1, 2)), "times": 1, "x": 2}, r"missing \[\], not taken \['x'\]"),
        ({"walk": Step(1, 2), "times": 1}, r"outer: walk must be Walk, got Step\(first=1"),
    ],
)
def test_what_is_given_is_checked_by_name(given: dict[str, Any], message: str) -> None:
    if not message:
        check(outer, given, frozenset())
        return
    with pytest.raises(TypeError, match=message):
        check(outer, given, frozenset())


def test_what_others_give_must_be_left_to_them() -> None:
    walk = Walk(0, Step(1, 2))
    check(outer, {"walk": walk}, frozenset({"times"}))
    with pytest.raises(TypeError, match="times"):
        check(outer, {"walk": walk, "times": 1}, frozenset({"times"}))
