"""`gridsample doctor`: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from doctor.snippets import HEAD, RIGHT, WRONG

from gridsample.doctor import RULES, examine


def codes(code: str) -> set[str]:
    report = examine(HEAD + code)
    assert not report.errors
    return {one.code for one in report.findings}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    expected, code = WRONG[name]
    assert codes(code) == {expected}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str) -> None:
    assert codes(RIGHT[name]) == set()


def test_the_snippets_are_enough_and_meet_all_rules() -> None:
    assert len(WRONG) >= 20 and len(RIGHT) >= 20
    assert {code for code, _ in WRONG.values()} == set(RULES)
