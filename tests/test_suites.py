"""The runner of other projects' tests, on a project made up here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.suites import __main__ as command
from tests.suites import running
from tests.suites.projects import PROJECTS
from tests.suites.running import Difference, Run

MADE_UP = """
import os
import numpy as np
import pytest
from scipy import ndimage

def test_agrees():
    assert np.allclose(ndimage.zoom(np.ones((3, 4)), 2), 1)
    assert np.allclose(ndimage.shift(np.ones(5), 0.0), 1)

def test_looks_inside():
    assert ndimage.zoom.__module__.startswith("scipy")

def test_expects_more():
    assert ndimage.zoom.__module__.startswith("gridsample")

def test_never_calls():
    assert ndimage.label(np.ones(3))[1] == 1

@pytest.mark.xfail
def test_expected():
    assert False

@pytest.mark.skip
def test_left_out():
    pass

@pytest.fixture
def broken():
    raise KeyError("no luck")

def test_of_a_fixture(broken):
    pass

def test_always_fails():
    raise ValueError("two\\nlines")
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The command's output, its figures of the project, and its status."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_made_up.py").write_text(MADE_UP)
    (folder / "other_made_up.py").write_text("")
    path = folder / "new" / "figures.json"
    words = ["mine", str(folder), "test_made_up.py", "--in-place", "ndimage", "--json", str(path)]
    with pytest.MonkeyPatch.context() as patched:
        printed: list[str] = []
        patched.setattr("builtins.print", lambda *lines, **_: printed.extend(map(str, lines)))
        status = command.main(words)
    return {**json.loads(path.read_text()), "status": status, "printed": "\n".join(printed)}


@pytest.mark.slow
def test_outcomes_are_those_of_pytest(figures: dict[str, Any]) -> None:
    names = {"agrees": "passed", "looks_inside": "passed", "expects_more": "failed"}
    names |= {"never_calls": "passed", "expected": "xfailed", "left_out": "skipped"}
    names |= {"of_a_fixture": "error", "always_fails": "failed"}
    theirs, ours = figures["plain"], figures["ours"]
    assert theirs["outcomes"] == {
        f"test_made_up.py::test_{name}": outcome for name, outcome in names.items()
    }
    assert theirs["why"]["test_made_up.py::test_of_a_fixture"] == "KeyError: 'no luck'"
    assert theirs["why"]["test_made_up.py::test_always_fails"] == "ValueError: two"
    assert theirs["calls"] == {} and theirs["reached"] == 0
    assert ours["calls"] == {"shift": 1, "zoom": 1} and ours["reached"] == 1


@pytest.mark.slow
def test_differences_are_reported(figures: dict[str, Any]) -> None:
    worse, better = figures["differences"]
    assert worse["test"].endswith("looks_inside") and worse["worse"]
    assert (worse["before"], worse["after"]) == ("passed", "failed")
    assert worse["why"].startswith("AssertionError") or "assert" in worse["why"]
    assert better["test"].endswith("expects_more") and not better["worse"]
    assert figures["status"] == 1
    printed = figures["printed"]
    assert "calls that reached us: 2 in 1 tests (shift 1, zoom 1)" in printed
    assert "tests that come out otherwise: 2, of which 1 worse" in printed
    assert f"  passed -> failed: {worse['test']}\n      {worse['why']}" in printed


def records(*phases: tuple[str, str, str]) -> Run:
    """What is read of a test, its phases and their outcomes."""
    return running.read(
        {"test": test, "phase": phase, "outcome": outcome, "why": "why" * (outcome == "failed")}
        for test, phase, outcome in phases
    )


def test_the_outcome_of_a_test_is_that_of_its_worst_phase() -> None:
    start = ("a", "start", "")
    assert records(start).outcomes == {"a": "crashed"} and "ended" in records(start).why["a"]
    good = records(start, ("a", "setup", "passed"), ("a", "call", "passed"))
    assert good.outcomes == {"a": "passed"} and good.why == {}
    late = records(start, ("a", "call", "passed"), ("a", "teardown", "failed"))
    assert late.outcomes == {"a": "error"} and late.why == {"a": "why"}
    assert records(start, ("a", "call", "failed"), ("a", "teardown", "passed")).outcomes == {
        "a": "failed"
    }
    assert records(("b.py", "collect", "failed")).outcomes == {"b.py": "error"}


def test_regressions_are_detected() -> None:
    theirs = Run({"a": "passed", "b": "failed", "c": "skipped", "d": "passed", "e": "failed"})
    ours = Run({"a": "crashed", "b": "passed", "c": "failed", "e": "error"}, {"a": "why"})
    differences = running.compare(theirs, ours)
    assert differences[0] == Difference("a", "passed", "crashed", "why")
    assert [(difference.test, difference.worse) for difference in differences] == [
        ("a", True),
        ("c", True),
        ("d", True),
        ("b", False),
        ("e", False),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["unknown"], "--in-place"),
        (["kornia"], "give a checkout's path"),
        (["kornia", "/no/such/folder"], "is not a folder"),
    ],
)
def test_unrunnable_projects_are_reported(words: list[str], message: str, capsys: Any) -> None:
    assert command.main(words) == 2 and message in capsys.readouterr().err


def test_a_run_without_tests_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(
        running, "run", lambda *arguments, **limits: Run(code=5, message="no tests ran")
    )
    assert command.main(["mine", str(tmp_path), "test_nothing.py", "--in-place", "torch"]) == 2
    assert "pytest ended with status 5:\nno tests ran" in capsys.readouterr().err


def test_an_earlier_run_can_be_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(python: str, folder: Path, words: list[str], in_place: str = "", *rest: Any, **_: Any):
        ran.append(in_place)
        return Run({"a": "failed" if in_place else "passed"})

    monkeypatch.setattr(running, "run", run)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    words = ["mine", str(tmp_path), "--in-place", "torch"]
    assert command.main([*words, "--json", str(first)]) == 1 and ran == ["", "torch"]
    assert command.main([*words, "--plain", str(first), "--json", str(second)]) == 1
    assert ran == ["", "torch", "torch"]
    assert json.loads(first.read_text()) == json.loads(second.read_text())


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text("import threading\nthreading.Event().wait()\n")
    run = running.run(sys.executable, tmp_path, ["test_slow.py"], limit=3)
    assert run.code == -1 and run.outcomes == {}


def test_the_projects_are_listed(capsys: Any) -> None:
    assert command.main([]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name:16}{project.in_place}" in printed for name, project in PROJECTS.items())


STRICT = """
import pytest
import torch
from torch.nn import functional

def test_integers_are_refused():
    image, grid = torch.ones(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 1, 1, 2)
    with pytest.raises(RuntimeError):
        functional.grid_sample(image, grid, align_corners=False)

def test_agrees():
    image = torch.ones(1, 1, 4, 4)
    size = (1, 1, 3, 3)
    grid = functional.affine_grid(torch.eye(2, 3)[None], size, align_corners=False)
    assert torch.equal(functional.grid_sample(image, grid, align_corners=False), image[..., 1:, 1:])
    assert functional.interpolate(image, 8).shape == (1, 1, 8, 8)
"""


@pytest.mark.slow
def test_torch_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "test_made_up.py").write_text(STRICT)
    theirs = running.run(sys.executable, tmp_path, ["test_made_up.py"])
    assert theirs.count("passed") == 2 and theirs.calls == {}
    ours = running.run(sys.executable, tmp_path, ["test_made_up.py"], "torch")
    (difference,) = running.compare(theirs, ours)
    assert difference.test.endswith("integers_are_refused") and difference.worse
    assert set(ours.calls) == {"affine_grid", "grid_sample", "interpolate"}


PICTURES = """
import cv2
import numpy as np

def test_borders_match_opencv():
    image = np.full((4, 5), 7, np.uint8)
    options = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": 3}
    moved = cv2.warpAffine(image, np.array([[1.0, 0, 2], [0, 1, 0]]), (5, 4), **options)
    assert moved[0].tolist() == [3, 3, 7, 7, 7]
    assert cv2.GaussianBlur(image, (3, 3), 1, borderType=cv2.BORDER_REPLICATE).min() == 7
"""


@pytest.mark.slow
def test_opencv_is_replaced_but_for_its_constants(tmp_path: Path) -> None:
    (tmp_path / "test_made_up.py").write_text(PICTURES)
    ours = running.run(sys.executable, tmp_path, ["test_made_up.py"], "cv")
    assert ours.count("passed") == 1, ours.why
    assert ours.calls == {"warpAffine": 1}
