"""Common tasks are one click away, and their code runs as copied."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from website.browser import CHROMIUM, Browser

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")

# The tasks of the front page, and what the code behind each of their links calls.
TASKS = {
    "speed up a training in torch": ["torch_compat.patch("],
    "sample a table or volume at points, with gradients": ["RegularGridInterpolator("],
    "apply a colour table": ["apply_lut(", "apply_lut("],
    "warp by an optical flow": ["fields.flow_warp(", "flow_warp("],
    "bring a volume to 1 mm": ["medical.resample(", "gridsample.resample("],
    "remove the distortion of a lens": ["undistort_grid(", "undistort_grid("],
    "turn a panorama into a cube map": ["cubemap(", "cubemap("],
    "shrink a segmentation": ['"label"', 'mode="label"'],
    "resize a raster with holes": ['missing="ignore"', 'missing="ignore"'],
    "align two photos": ["register(", "register("],
    "sample more than fits in memory": ["affine_sample("],
    "export to ONNX": ["torch.onnx.export(", "torch.onnx.export("],
    "find the align_corners that fits a formula": ["to_pixel("],
    "find out why everything is shifted by half a pixel": ["align_corners"],
}
# The row of a task; the first copy button at or after the place to which the address leads.
ROW = """[...document.querySelectorAll("article tr")]
  .find((row) => row.cells[0].textContent === {task})"""
BUTTON = """(() => {
  const start = document.getElementById(location.hash.slice(1)) ?? document.querySelector("h1");
  return [...document.querySelectorAll("pre [data-clipboard-target], nav [data-clipboard-target]")]
    .find((button) => start.compareDocumentPosition(button) & Node.DOCUMENT_POSITION_FOLLOWING);
})()"""
ROOT = Path(__file__).parents[2]
LISTEN = 'addEventListener("copy", (event) => { window.copied = event.target.value; }, true)'


def copied(browser: Browser) -> str:
    """Click the first copy button until it copies: the theme attaches it after the page loads."""
    for _ in range(100):
        browser.click(BUTTON)
        code: str = browser.run("window.copied ?? ''")
        if code:
            return code
    raise AssertionError("the copy button copies nothing")


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_a_click_away_and_its_code_runs(
    site: Path, browser: Browser, tmp_path: Path, task: str
) -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    site_gallery = importlib.import_module("site_gallery")
    row = f"({ROW.format(task=json.dumps(task))})"
    for number, call in enumerate(TASKS[task]):
        browser.open((site / "index.html").as_uri())
        assert browser.run(f"{row}.querySelectorAll('a').length") == len(TASKS[task])
        browser.events = []
        browser.click(f"{row}.querySelectorAll('a')[{number}]")
        browser.wait_until_loaded()
        browser.run(LISTEN)
        code = copied(browser)
        assert call in code
        page = Path(browser.run("location.pathname"))
        if page.parent.name == "gallery":  # tests/test_gallery.py runs it
            assert code.strip() == site_gallery.read(page.stem).code.strip()
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        script = folder / "pasted.py"
        script.write_text(code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
