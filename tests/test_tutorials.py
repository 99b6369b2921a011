"""The code of the documentation's tutorials runs, and gives the documented results."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def tutorial() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))  # as for a script there
    spec = importlib.util.spec_from_file_location("tutorial", DOCS / "tutorial_gradients.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorial"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(DOCS))


def test_pictures_of_the_page_exist() -> None:
    text = (DOCS / "tutorial_gradients.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((images/.*?)\)", text)
    assert len(pictures) == 3 and all((DOCS / picture).exists() for picture in pictures)


def test_the_gradient_of_the_grid_is_that_of_the_image(tutorial: ModuleType) -> None:
    image = tutorial.photo(64).mean(1, keepdim=True)
    gradient = tutorial.grid_gradient(image)[0, 2:-2, 2:-2].numpy()
    rows, columns = np.gradient(image[0, 0].numpy())
    # At a pixel's centre, Keys' cubic has the slope -a * (difference of the pixels beside it), and
    # a = -0.75, where NumPy's takes a half of that difference.
    for mine, slope in ((gradient[..., 0], columns), (gradient[..., 1], rows)):
        np.testing.assert_allclose(mine, 1.5 * slope[2:-2, 2:-2], atol=1e-5)


def test_the_distorted_photo_is_rectified_by_the_true_grid(tutorial: ModuleType) -> None:
    ramp = torch.linspace(0.2, 0.8, 64, dtype=torch.float64).expand(1, 1, 64, 64)
    distorted = tutorial.distort(ramp)
    at = tutorial.rectify(tutorial.identity(64))
    back = tutorial.gridsample.grid_sample(distorted, at, "bicubic", "border")
    known = tutorial.inside(at * 1.1)
    assert (distorted - ramp).abs().max() > 0.01
    assert (back - ramp)[0, 0][known[0]].abs().max() < 2e-3


@pytest.mark.parametrize("kind", ["grids", "images"])
def test_both_losses_converge(tutorial: ModuleType, kind: str) -> None:
    run = tutorial.learn(tutorial.photo(32), kind, steps=60)
    assert run.image_losses[-1] < 0.5 * run.image_losses[0]
    assert run.grid_errors[-1] < 0.5 * run.grid_errors[0]


def test_pictures_go_to_a_folder_of_their_own(
    tutorial: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = tutorial.pictures
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tutorial_gradients.py"])
    out = pictures.folder("about")
    assert out.parent == tmp_path and out.is_dir()
    tutorial.draw_gradient(tutorial.photo(32), out)
    (drawn,) = out.iterdir()
    first = drawn.read_bytes()
    tutorial.draw_gradient(tutorial.photo(32), out)
    assert drawn.read_bytes() == first
    monkeypatch.setattr(sys, "argv", ["tutorial_gradients.py", "--out", str(tmp_path / "there")])
    assert pictures.folder("about") == tmp_path / "there"
    monkeypatch.setattr(sys, "argv", ["tutorial_gradients.py", "--update"])
    assert pictures.folder("about") == DOCS / "images"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["make_images", "make_resizing_images"])
def test_scripts_do_not_overwrite_pictures(script: str, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (DOCS / "images").iterdir()}
    command = [sys.executable, str(DOCS / f"{script}.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True)
    assert {path: path.stat().st_mtime_ns for path in (DOCS / "images").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} <= {path.name for path in before}


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1.0, 3.0])
def test_the_table_of_the_page_matches_the_output(tutorial: ModuleType, strength: float) -> None:
    page = (DOCS / "tutorial_gradients.md").read_text(encoding="utf-8")
    image, kinds = tutorial.photo(), ("grids", "images")
    runs = {kind: tutorial.learn(image, kind, strength=strength) for kind in kinds}
    seen = [line for line in page.splitlines() if "→" in line]
    for line in tutorial.table(strength, runs):
        # The last digit hangs on the order in which a processor sums.
        (same,) = [command for command in seen if words(command) == words(line)]
        np.testing.assert_allclose(numbers(line), numbers(same), rtol=0.01)


def words(line: str) -> list[str]:
    """What is not a number in a line; the first number says which of two tables' rows it is."""
    return [re.search(r"0\.\d+ →", line)[0], *re.findall(r"[^\d.]+", line)]


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


@pytest.mark.slow
def test_documented_figures_are_reproduced(tutorial: ModuleType) -> None:
    image, runs = tutorial.photo(), {}
    for kind in ("grids", "images"):
        runs[kind] = tutorial.learn(image, kind)
    grids, images = runs["grids"], runs["images"]
    assert images.image_losses[-1] < grids.image_losses[-1] < 0.03
    assert grids.grid_errors[-1] < 0.15 < images.grid_errors[-1] < 0.5
