"""Kernels without Numba's internals: by its plain decorators, which is slower, and as right."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels.plain_numba import WORK, same

from gridsample.kernels.compile import jit, pipeline


def compare(parts: str, folder: Path, level: str) -> None:
    """Parts of the work, here and in a process that has no pipeline."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    # What LLVM makes of the code is not what is tested: a low level takes less time.
    more = {"PYTHONPATH": path, jit.PLAIN: "1", "NUMBA_OPT": level}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "kernels.plain_numba", parts, str(folder)],
        env={**os.environ, **more}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("plain njit") == 1
    assert f"{jit.PLAIN} is set" in run.stdout
    for part in parts.split(","):
        with np.load(folder / f"{part}.npz") as plain:
            same(dict(plain), WORK[part]())


def test_plain_kernels_are_right(tmp_path: Path) -> None:
    compare("linear", tmp_path, "0")


@pytest.mark.slow
@pytest.mark.parametrize("part", WORK)
def test_every_driver_is_right_without_numbas_internals(part: str, tmp_path: Path) -> None:
    compare(part, tmp_path, "1")


class Other:
    """A class of Numba's, as another version might have it."""

    def compile(self, code: str) -> None:
        """It takes one argument."""


@pytest.mark.parametrize(
    ("name", "count", "problem"),
    [("link", None, "Other.link is missing"), ("compile", 3, "Other.compile takes other arg")],
)
def test_internals_that_are_not_as_expected_are_not_used(
    name: str,
    count: int | None,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert pipeline.unexpected() == ""
    monkeypatch.setattr(pipeline, "EXPECTED", (*pipeline.EXPECTED, (Other, name, count)))
    monkeypatch.setattr(jit, "pipeline", pipeline_anew := jit.pipeline.__wrapped__)
    monkeypatch.delenv(jit.PLAIN, raising=False)
    with caplog.at_level(logging.INFO, "gridsample.compile"):
        assert pipeline_anew() is None
        assert jit.is_plain()
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert problem in caplog.text
