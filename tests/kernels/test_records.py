"""Records are what flat arguments are, and mistakes in them are found before machine code runs."""

from __future__ import annotations

import gc
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

from gridsample.kernels.compile import records as flattening
from gridsample.kernels.compile.records import (
    check,
    flat_parameters,
    flat_values,
    flatten,
    parameters,
    with_records,
)
from gridsample.kernels.cpu import build, entry, records


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
    with pytest.raises(TypeError, match="step is a record, which can only be passed on"):
        flatten(bare)
    with pytest.raises(KeyError, match="third"):
        flatten(unknown)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"walk": Walk(0, Step(1, 2)), "times": 1}, ""),
        ({"walk": Walk(0, Step(1, 2))}, r"outer: missing \['times'\], unexpected \[\]"),
        ({"walk": Walk(0, Step(1, 2)), "times": 1, "x": 2}, r"missing \[\], unexpected \['x'\]"),
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


# Drivers ------------------------------------------------------------------------------------------


class Compiled:
    """A driver, as rows are written for it."""

    function = build.DRIVERS["gather"]
    places = entry.places_of(function)
    code = 17


def given() -> dict[str, Any]:
    """What gather is given but for its task."""
    table = np.arange(3)
    return {
        "job": records.Gather(
            records.Planes(None, table, 5),
            records.Values(None, table, 7, 2),
            records.Outside(None, None, None),
        ),
        "grid": records.Points(None, 1, 2, 3, 4),
        "lattice": records.Lattice(table, table, True),
        "block": records.Block(table, table, table, table, None, None),
    }


def test_rows_are_written_by_name() -> None:
    tasks = [[(0, 1, 2, 3, 4, 5)], [(6, 7, 8, 9, 10, 11)]]
    rows, places = entry.Part(Compiled, given(), (64, 128), tasks).rows(), Compiled.places
    assert rows.shape == (2, entry.HEAD + len(places))
    assert sorted(places.values()) == [*range(entry.HEAD, rows.shape[1])]
    for name, value in (("job_image_item", 5), ("job_out_step", 2), ("grid_axis", 3)):
        assert (rows[:, places[name]] == value).all()
    assert rows[:, places["task_planes"]].tolist() == [4, 10]
    assert rows[0, [entry.CODE, entry.APART]].tolist() == [17, 64]


def test_what_calls_tell_comes_first_in_a_row() -> None:
    memories = entry.memories(Compiled.function)
    assert [*memories] == [
        *("image_memory", "grid_memory", "out_memory"),
        *("around_outside", "around_dropped", "around_holes"),
    ]
    assert [Compiled.places[name] - entry.HEAD for name in memories.values()] == [*range(6)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lattice": None}, "gather: lattice must be Lattice, got None"),
        ({"length": 3}, r"gather: missing \[\], unexpected \['length'\]"),
    ],
)
def test_a_driver_takes_its_own_records_alone(change: dict[str, Any], message: str) -> None:
    part = entry.Part(Compiled, given() | change, (0, 0), [[(0,) * 6]])
    with pytest.raises(TypeError, match=message):
        part.rows()


def test_a_batch_takes_the_arrays_of_its_drivers() -> None:
    part = entry.Part(Compiled, given(), (0, 0), [[(0,) * 6]])
    with pytest.raises(TypeError, match=r"gather takes .*image_memory"):
        entry.Batch([part], ("image_memory", "grid_memory"))


@pytest.mark.parametrize("name", build.DRIVERS)
def test_drivers_have_few_parameters_all_of_which_are_documented(name: str) -> None:
    taken = parameters(build.DRIVERS[name])
    assert len(taken) <= 12
    for kind in taken.values():
        if isinstance(kind, type):
            assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__)


def test_threads_may_flatten_at_once() -> None:
    """Python 3.11 raises SystemError if threads take turns while a syntax tree is made.

    They do when garbage is collected, and Python code is run for that.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()

    def callback(*_: Any) -> None:
        """Give other threads a turn."""

    gc.callbacks.append(callback)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(500)
    try:
        with ThreadPoolExecutor(4) as pool:
            flattening.tree.cache_clear()
            flattening.flattened.cache_clear()
            assert all(pool.map(flatten, build.DRIVERS.values()))
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
