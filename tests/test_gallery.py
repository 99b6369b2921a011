"""The gallery: every script runs, and draws the picture that is shown."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/gallery"
# They train, register images or export models.
LONG = {"onnx_export", "registration", "spatial_transformer", "torch_training"}
# Mean differences, of 255: losses of WebP in a picture of noise; and what rounding becomes in the
# training of a network.
DIFFERENCE, TRAINED = 8, 30


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    import site_gallery

    return site_gallery


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names()],
)
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of torch's exporter
def test_a_script_draws_its_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot
    from PIL import Image

    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    with pyplot.rc_context():
        runpy.run_path(str(FOLDER / f"{name}.py"))
        pyplot.close("all")
    shown = Image.open(FOLDER / f"{name}.webp").convert("RGB")
    drawn = Image.open(f"{name}.png").convert("RGB").resize(shown.size, Image.Resampling.LANCZOS)
    difference = np.abs(np.asarray(drawn, float) - np.asarray(shown)).mean()
    assert difference < (TRAINED if name == "spatial_transformer" else DIFFERENCE)


def test_every_script_is_a_card(gallery: ModuleType) -> None:
    listed = [name for section in gallery.SECTIONS.values() for name in section]
    assert sorted(listed) == names() and 24 <= len(listed) <= 40
    assert gallery.index() == (FOLDER / "README.md").read_text(encoding="utf-8")


def test_cards_are_short_and_their_notebooks_complete(gallery: ModuleType) -> None:
    for name in names():
        card = gallery.read(name)
        assert card.title and card.text and card.code.count("\n") <= 50, name
        notebook = json.loads(gallery.notebook(card))
        assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
        compile(notebook["cells"][1]["source"], name, "exec")
    assert sum(path.stat().st_size for path in FOLDER.glob("*.webp")) < 1_500_000
