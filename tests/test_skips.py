"""A test may skip for the reasons that are listed, and for no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = """
import pytest

def test_listed():
    pytest.skip("no fork here")

def test_not_listed():
    pytest.skip("because")

@pytest.mark.skipif(True, reason="marked")
def test_marked():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    raise AssertionError
"""


@pytest.mark.parametrize(
    ("source", "options", "summary"),
    [
        (SKIPS, [], "1 failed, 1 skipped, 1 xfailed, 1 error"),
        (SKIPS, ["--may-skip=because", "--may-skip=marked"], "3 skipped, 1 xfailed"),
        ("import pytest\npytest.importorskip('no_such_module')", [], "1 error"),
    ],
)
def test_a_skip_that_is_not_listed_fails(
    tmp_path: Path, source: str, options: list[str], summary: str
) -> None:
    folder = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((folder / "conftest.py").read_text())
    (tmp_path / "test_one.py").write_text(source)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert summary in run.stdout, run.stdout + run.stderr
    assert (run.returncode != 0) == ("error" in summary)
