"""The benchmark of growth: cases that cost too much for their work are marked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import growth


def row(name: str, work: float, seconds: float) -> growth.Row:
    return growth.Row(growth.Case(name, work, lambda: None), seconds)


def test_units_that_take_more_than_three_times_the_best_are_marked() -> None:
    rows = [row("best", 1e6, 1e-3), row("twice", 1e6, 2e-3), row("four times", 1e6, 4e-3)]
    assert [row.case.name for row in growth.outliers(rows)] == ["four times"]


def test_call_overhead_is_subtracted() -> None:
    rows = [row("large", 1e6, 1e-3), row("small", 10, 90e-6), row("slow", 10, 150e-6)]
    assert [row.case.name for row in growth.outliers(rows)] == ["slow"]


def test_the_command_reports_outliers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def clock() -> Callable[[], float]:
        times = iter(range(10**6))
        return lambda: float(next(times))

    monkeypatch.setattr(growth, "SECONDS", 0.0)
    monkeypatch.setattr(growth.time, "process_time", clock())
    monkeypatch.setattr("benchmarks.timing.limit_cores", lambda threads: None)
    cases = [growth.Case("work", 9.0, lambda: None), growth.Case("no work", 1.0, lambda: None)]
    monkeypatch.setattr(growth, "FAMILIES", {"toy": lambda: iter(cases), "other": lambda: iter(())})
    assert growth.main(["--case", "toy"]) == 1
    assert [line.endswith("<<<") for line in capsys.readouterr().out.splitlines()[2:]] == [
        False,
        True,
    ]
    assert growth.main(["--list"]) == 0
    assert capsys.readouterr().out.split() == ["toy", "other"]
