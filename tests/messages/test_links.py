"""Messages lead to pages and sections that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import gridsample
from gridsample import fields
from gridsample.cli import main
from gridsample.doctor import RULES
from gridsample.messages import links
from gridsample.messages.links import TOPICS, about, link, text_of

ROOT = Path(__file__).parents[2]
IMAGE, GRID = np.zeros((1, 1, 4, 5)), np.zeros((1, 4, 5, 2))


@pytest.mark.parametrize("topic", [*TOPICS, *RULES])
def test_help_topics_contain_no_links(topic: str) -> None:
    text = text_of(topic)
    assert text.startswith("#") and len(text) > 100
    assert "](" not in text.replace("`](", "") and "<!--" not in text


def test_pages_of_topics_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    pages = {page for page, _ in TOPICS.values()} | {"doctor"}
    assert included == {f"docs/{page}.md": f"gridsample/docs/{page}.md" for page in pages}


def test_help_is_read_from_the_wheel_where_there_is_no_checkout(tmp_path: Path) -> None:
    package = tmp_path / "gridsample"
    (package / "docs").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "docs" / "torch.md").write_text("# A page\n\nWith [a link](x.md).\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import importlib.util as u\n"
        f"spec = u.spec_from_file_location('links', {links.__file__!r})\n"
        "links = u.module_from_spec(spec); spec.loader.exec_module(links)\n"
        "links.help('torch')\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "# A page\n\nWith a link.\n"


def test_help_lists_topics_and_rejects_others(capsys: pytest.CaptureFixture[str]) -> None:
    gridsample.help()
    assert "align_corners" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"topic 'align_corner' is not known.*did you mean"):
        gridsample.help("align_corner")
    with pytest.raises(ValueError, match="GS999"):
        gridsample.help("GS999")
    assert main(["explain", "--topic", "coords"]) == 0
    assert capsys.readouterr().out.startswith("## Three units")


def test_no_message_or_docstring_names_a_file_of_the_source() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        if path.name != "links.py":
            assert not re.search(r"docs/\w+\.md", path.read_text(encoding="utf-8")), path


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
    assert link("GS001") == "https://x.org/g/doctor.html#gs001"
    monkeypatch.setattr(links, "ADDRESS", "")
    assert link("GS001") == "gridsample doctor --explain GS001"


def test_doctor_rules_are_explained_by_their_sections() -> None:
    for rule in RULES.values():
        assert rule.explanation.startswith(f"**{rule.name}.**") and "](" not in rule.explanation
