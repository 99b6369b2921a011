"""Tests may skip only for the listed reasons."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cases
import conftest
import pytest

TESTS = Path(__file__).parent

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
    cases.slow_after(
        1,
        [
            (SKIPS, [], "1 failed, 1 skipped, 1 xfailed, 1 error"),
            (SKIPS, ["--may-skip=because", "--may-skip=marked"], "3 skipped, 1 xfailed"),
            ("import pytest\npytest.importorskip('no_such_module')", [], "1 error"),
        ],
    ),
)
def test_a_skip_that_is_not_listed_fails(
    tmp_path: Path, source: str, options: list[str], summary: str
) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
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


def reasons(tree: ast.AST) -> Iterator[ast.expr]:
    """What the skips in a file say."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif"):
                yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
                yield from node.args[:1] if called == "pytest.skip" else ()


def pattern(reason: ast.expr) -> str:
    """A regular expression for a reason; what an f-string fills in is a word."""
    if isinstance(reason, ast.JoinedStr):
        return "".join(map(pattern, reason.values))
    return re.escape(reason.value) if isinstance(reason, ast.Constant) else r"\w+"  # type: ignore[arg-type]


def test_every_reason_is_listed() -> None:
    """Also those for which nothing skips here: on another system, or for another user."""
    patterns = {
        pattern(reason)
        for file in TESTS.rglob("*.py")
        for reason in reasons(ast.parse(file.read_text(encoding="utf-8")))
    }
    listed = [reason for reason in conftest.MAY_SKIP if not reason.startswith("could not import")]
    assert [
        pattern for pattern in patterns if not any(re.fullmatch(pattern, known) for known in listed)
    ] == []
    assert [
        known for known in listed if not any(re.fullmatch(pattern, known) for pattern in patterns)
    ] == []
