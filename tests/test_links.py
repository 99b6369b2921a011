"""Messages lead to pages and sections that exist."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import numpy as np
import pytest

import gridsample
from gridsample import fields
from gridsample.definitions import links
from gridsample.definitions.links import TRAPS, about, page
from gridsample.doctor import RULES

ROOT = Path(__file__).parents[1]
IMAGE, GRID = np.zeros((1, 1, 4, 5)), np.zeros((1, 4, 5, 2))


def slugs(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("trap", TRAPS)
def test_pages_and_sections_exist(trap: str) -> None:
    name, anchor = TRAPS[trap]
    path = ROOT / "docs" / f"{name}.md"
    assert path.is_file()
    assert not anchor or anchor in slugs(path)


@pytest.mark.parametrize(
    ("trap", "change"),
    [
        ("grid", {"grid": GRID.transpose(0, 3, 1, 2)}),
        ("mode", {"mode": "area2"}),
        ("padding_mode", {"padding_mode": "edges"}),
        ("coords", {"coords": "pixels"}),
        ("coords", {"grid": GRID.astype(int)}),
        ("displacement", {"coords": "displacement", "grid": GRID.reshape(1, 20, 2)}),
        ("label", {"mode": "label"}),
        ("missing", {"missing": "drop"}),
        ("missing", {"missing": "ignore", "mode": "spline3"}),
    ],
)
def test_errors_about_common_mistakes_link_to_their_page(
    trap: str, change: dict[str, object]
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        gridsample.grid_sample(**{"input": IMAGE, "grid": GRID, **change})  # type: ignore[arg-type]
    assert str(caught.value).endswith(about(trap))


def test_fields_with_components_second() -> None:
    with pytest.raises(ValueError) as caught:
        fields.jacobian(GRID.transpose(0, 3, 1, 2))
    assert str(caught.value).endswith(about("grid"))


def test_the_address_is_that_of_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("urls", {}).get("Documentation", "") == links.ADDRESS
    monkeypatch.setattr(links, "ADDRESS", "https://x.org/g/")
    assert page("doctor", "gs001") == "https://x.org/g/doctor.html#gs001"
    monkeypatch.setattr(links, "ADDRESS", "")
    assert page("doctor", "gs001") == "docs/doctor.md#gs001"


def test_the_rules_in_the_package_are_those_of_the_page() -> None:
    made = runpy.run_path(str(ROOT / "docs/make_rules.py"))
    # `python docs/make_rules.py --update` copies them.
    assert made["COPY"].read_text(encoding="utf-8") == made["rules"]()
    for rule in RULES.values():
        assert rule.explanation.startswith(f"**{rule.name}.**") and "](" not in rule.explanation
