"""The code of the documentation's tutorials runs, and shows what they say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def tutorial() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorial", DOCS / "tutorial_gradients.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorial"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_the_code_on_the_page_runs() -> None:
    text = (DOCS / "tutorial_gradients.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(block, {})


def test_the_pages_pictures_are_there() -> None:
    text = (DOCS / "tutorial_gradients.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((images/.*?)\)", text)
    assert len(pictures) == 3 and all((DOCS / one).exists() for one in pictures)


def test_the_gradient_of_the_grid_is_that_of_the_image(tutorial: ModuleType) -> None:
    image = tutorial.photo(64).mean(1, keepdim=True)
    gradient = tutorial.grid_gradient(image)[0, 2:-2, 2:-2].numpy()
    rows, columns = np.gradient(image[0, 0].numpy())
    # At a pixel's centre, Keys' cubic has the slope -a * (difference of the pixels beside it), and
    # a = -0.75, where NumPy's takes a half of that difference.
    for mine, slope in ((gradient[..., 0], columns), (gradient[..., 1], rows)):
        np.testing.assert_allclose(mine, 1.5 * slope[2:-2, 2:-2], atol=1e-5)


def test_the_distorted_photo_is_rectified_by_the_true_grid(tutorial: ModuleType) -> None:
    ramp = torch.linspace(0.2, 0.8, 64).expand(1, 1, 64, 64)
    distorted = tutorial.distort(ramp)
    at = tutorial.rectify(tutorial.identity(64))
    back = tutorial.gridsample.grid_sample(distorted, at, "bicubic", "border")
    known = tutorial.inside(at * 1.1)
    assert (distorted - ramp).abs().max() > 0.01
    assert (back - ramp)[0, 0][known[0]].abs().max() < 2e-3


@pytest.mark.parametrize("kind", ["grids", "images"])
def test_both_losses_learn(tutorial: ModuleType, kind: str) -> None:
    run = tutorial.learn(tutorial.photo(32), kind, steps=60)
    assert run.image_losses[-1] < 0.5 * run.image_losses[0]
    assert run.grid_errors[-1] < 0.5 * run.grid_errors[0]


@pytest.mark.slow
def test_what_was_seen_is_seen(tutorial: ModuleType) -> None:
    image, runs = tutorial.photo(), {}
    for kind in ("grids", "images"):
        runs[kind] = tutorial.learn(image, kind)
    grids, images = runs["grids"], runs["images"]
    assert images.image_losses[-1] < grids.image_losses[-1] < 0.03
    assert grids.grid_errors[-1] < 0.15 < images.grid_errors[-1] < 0.5
