"""The selection of parameters' combinations in which every pair occurs."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import cases
import pytest

TESTS = Path(__file__).parent


def shown(rows: list[tuple[int, ...]], strength: int) -> set[tuple[tuple[int, int], ...]]:
    """What occurs together in any columns."""
    return {entries for row in rows for entries in itertools.combinations(enumerate(row), strength)}


@pytest.mark.parametrize("strength", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("sizes", [(3, 3, 2, 2), (5, 1, 4), (2,), (14, 10, 2, 3)])
def test_every_combination_of_few_choices_occurs(sizes: tuple[int, ...], strength: int) -> None:
    everything = [*itertools.product(*map(range, sizes))]
    rows = cases.covering(*map(range, sizes), strength=strength)
    strength = min(strength, len(sizes))
    assert shown(rows, strength) == shown(everything, strength)
    assert len(set(rows)) == len(rows)
    assert rows == cases.covering(*map(range, sizes), strength=strength)
    largest = 1
    for n in sorted(sizes)[len(sizes) - strength :]:
        largest *= n
    assert largest <= len(rows) <= max(largest + 4, 1.6 * largest)


def test_selected_cases_are_kept() -> None:
    rows = [*itertools.product(range(3), repeat=4)]
    few = cases.cover(rows, 2)
    more = cases.cover(rows, 3, few)
    assert set(few) < set(more)
    assert shown([rows[i] for i in more], 3) == shown(rows, 3)


FILE = """
import pytest

@pytest.mark.covering(slow=3)
@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("b", ["x", "y"])
@pytest.mark.parametrize("a", [1.5, [2]])
def test_all(a, b, c):
    pass
"""


@pytest.mark.parametrize(
    ("options", "passed"),
    cases.slow_after(
        1, [(["-m", "not slow"], 2), ([], 8), (["-m", "not slow", "--every-case"], 8)]
    ),
)
def test_cases_are_chosen(options: list[str], passed: int, tmp_path: Path) -> None:
    for file in ("conftest.py", "cases.py"):
        (tmp_path / file).write_text((TESTS / file).read_text())
    (tmp_path / "test_one.py").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
