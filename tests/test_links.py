"""Messages lead to pages and sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gridsample
from gridsample import fields
from gridsample.definitions.links import TRAPS, about, page

ROOT = Path(__file__).parents[1]
IMAGE, GRID = np.zeros((1, 1, 4, 5)), np.zeros((1, 4, 5, 2))


def slugs(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("trap", TRAPS)
def test_pages_and_sections_exist(trap: str) -> None:
    name, anchor = TRAPS[trap]
    path = ROOT / page(name)
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
