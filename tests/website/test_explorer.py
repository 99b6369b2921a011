"""The explorer in a browser: it shows the numbers of `gridsample.explain`."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from website.browser import CHROMIUM, OPTIONS
from website.pages import Page

import gridsample
from gridsample.definitions.boundaries import BOUNDARIES

ROOT = Path(__file__).parents[2]
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
TOLERANCE = {"rtol": 0, "atol": 1e-6}


def explorer() -> str:
    """The page, as the site has it."""
    sys.path.insert(0, str(ROOT / "docs"))  # for the modules that it imports
    spec = importlib.util.spec_from_file_location("site_explorer", ROOT / "docs/site_explorer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.page()


PAGE = explorer()


def samples() -> list[dict[str, Any]]:
    """A setting for each method, boundary and alignment, at points inside and outside."""
    rng = np.random.default_rng(0)
    settings = []
    everything = itertools.product(gridsample.methods.names(), BOUNDARIES, ("False", "True"))
    for k, (method, boundary, aligned) in enumerate(everything):
        if method == "label" and BOUNDARIES[boundary].odd:
            continue
        width, height = ((6, 5), (1, 7), (7, 2), (12, 3), (2, 1))[k % 5]
        x, y = rng.uniform(-1, 1, 2) * (1, 1.5, 4, 40)[k % 4]
        x = (x, 0.0, -1.0, 0.5)[k % 7 % 4] if k % 3 == 0 else x
        image = rng.integers(0, 10, (height, width)).tolist()
        fill = 3.5 if boundary == "constant" else 0
        setting = {"method": method, "boundary": boundary, "aligned": aligned, "fill": fill}
        settings.append({**setting, "x": float(x), "y": float(y), "image": image})
    return settings


def warps() -> list[dict[str, Any]]:
    """Affine maps and homographies, of which some shrink."""
    rng = np.random.default_rng(1)
    planes = rng.uniform(0, 255, (2, 9, 11))
    matrices = [
        [[1, 0.1, 0.3], [-0.1, 1, 0.2], [0, 0, 1]],
        [[2.3, 0.4, -1.2], [-0.3, 1.7, 0.4], [0, 0, 1]],
        [[1.4, -0.9, 3.1], [1.1, 3.2, -1.7], [0, 0, 1]],
        [[1.2, 0.3, 0.1], [0.2, 1.6, 0.7], [0.03, 0.11, 1]],
        [[1.2, 0.3, 0.1], [0.2, 1.6, 0.7], [-0.23, -0.11, 1]],  # a horizon
    ]
    options = (
        ("linear", "zeros"),
        ("cubic", "border"),
        ("nearest", "mirror"),
        ("spline3", "reflection"),
    )
    settings = []
    for matrix, (method, boundary) in itertools.product(matrices, options):
        y, x = np.mgrid[:6, :5]
        u, v, w = np.einsum("ij,jyx->iyx", matrix, np.stack([x, y, np.ones_like(x)]))
        w = np.where(w > 0.4, w, np.nan)  # no side has more than 16 samples
        grid = np.stack([u / w, v / w], -1)
        setting = {"method": method, "boundary": boundary, "aligned": False, "fill": 0}
        arrays = {"grid": grid.tolist(), "planes": planes.tolist()}
        settings.append({**setting, **arrays, "width": 5, "height": 6})
    return settings


def ignoring() -> list[dict[str, Any]]:
    """Points near and beyond the edges, where nothing counts that is outside."""
    rng = np.random.default_rng(2)
    image = rng.integers(0, 10, (5, 4)).tolist()
    settings = []
    for method, aligned, pixels in itertools.product(
        ("nearest", "linear", "cubic", "mitchell"), (False, True), (False, True)
    ):
        for x, y in rng.uniform(-1.2, 1.2, (3, 2)):
            at = {"x": float(x * (3 if pixels else 1)), "y": float(y * (3 if pixels else 1))}
            options = {"method": method, "boundary": "missing", "aligned": aligned}
            settings.append({**options, **at, "pixels": pixels, "fill": 0, "image": image})
    return settings


SETTINGS = {
    "samples": samples(),
    "missing": ignoring(),
    "warps": warps(),
    "homographies": [
        [[[0, 0], [10, 1], [12, 9], [-1, 8]], [[0, 0], [5, 0], [5, 5], [0, 5]]],
        [
            [[3, 2], [30, 5], [25, 40], [1, 20]],
            [[-0.5, -0.5], [7.5, -0.5], [7.5, 5.5], [-0.5, 5.5]],
        ],
    ],
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page shows, after its controls were operated in Chromium."""
    folder = tmp_path_factory.mktemp("explorer")
    drive = (Path(__file__).parent / "drive.js").read_text(encoding="utf-8")
    first = "<script>const ERRORS = []; onerror = (words) => { ERRORS.push(words); };</script>"
    last = f"<script>const SETTINGS = {json.dumps(SETTINGS)};\n{drive}</script></body>"
    page = PAGE.replace("<head>", "<head>" + first).replace("</body>", last)
    path = folder / "explorer.html"
    path.write_text(page, encoding="utf-8")
    words = [CHROMIUM, *OPTIONS, "--dump-dom", f"--user-data-dir={folder}", path.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    sheet = re.search(r'<pre id="found">([^<]*)</pre>', done.stdout)
    assert sheet is not None, done.stderr[-2000:]
    return json.loads(base64.b64decode(sheet[1]))


def test_the_explorer_is_self_contained_and_small() -> None:
    assert len(PAGE.encode()) < 100_000
    page = Page(PAGE)
    assert page.faults == [] and page.resources == []
    assert len(set(page.ids)) == len(page.ids)
    assert not re.search(r"https?://|fetch\(|import\(", PAGE)


@needs_chromium
def test_samples_match_explain(reported: dict[str, Any]) -> None:
    assert reported["errors"] == []
    assert len(reported["samples"]) == len(SETTINGS["samples"]) > 280
    for setting, shown in zip(SETTINGS["samples"], reported["samples"], strict=True):
        image = np.array(setting["image"])
        fill = {"fill_value": setting["fill"]} if setting["boundary"] == "constant" else {}
        explanation = gridsample.explain(
            image.shape[::-1],
            (setting["x"], setting["y"]),
            setting["method"],
            setting["boundary"],
            setting["aligned"] == "True",
            image=image.astype(int if setting["method"] == "label" else float),
            **fill,
        )
        axes = explanation.axes
        expected = {
            "value": [explanation.value],
            "gradient-x": [explanation.gradient[0]],
            "gradient-y": [explanation.gradient[1]],
            "position": [steps.position for steps in axes],
            "sampled": [steps.sampled for steps in axes],
            "path": [place for steps in axes for place in steps.path[1:]],
            "folds": [steps.folds for steps in axes],
            "base": [steps.base for steps in axes],
            "t": [steps.t for steps in axes],
            "slope": [steps.slope for steps in axes],
            "weight": [tap.weight for steps in axes for tap in steps.taps],
            "derivative": [tap.derivative for steps in axes for tap in steps.taps],
            "tap": [tap.value for tap in explanation.taps],
        }
        about = {key: setting[key] for key in ("method", "boundary", "aligned", "x", "y")}
        for name, numbers in expected.items():
            np.testing.assert_allclose(shown[name], numbers, **TOLERANCE, err_msg=f"{about} {name}")
        taps = [tap for steps in axes for tap in steps.taps]
        assert shown["index"] == [str(tap.index) for tap in taps], about
        pixels = ["dropped" if tap.pixel is None else str(tap.pixel) for tap in taps]
        assert shown["pixel"] == pixels, about


@needs_chromium
def test_the_missing_boundary_matches_grid_sample(reported: dict[str, Any]) -> None:
    for setting, shown in zip(SETTINGS["missing"], reported["missing"], strict=True):
        image = np.array(setting["image"], float)[None, None]
        points = np.array([[[setting["x"], setting["y"]]]])
        options = {"coords": "pixel" if setting["pixels"] else "normalized"}
        names = setting["method"], "missing", setting["aligned"]
        value = gridsample.grid_sample(image, points, *names, **options)
        _, slope = gridsample.grid_sample_vjp(np.ones_like(value), image, points, *names, **options)
        result = np.array([shown["value"], *shown["gradient"]], float)  # JSON has null for NaN
        np.testing.assert_allclose(result, [*value.ravel(), *slope.ravel()], **TOLERANCE)


@needs_chromium
def test_warps_match_grid_sample(reported: dict[str, Any]) -> None:
    many = 0
    for setting, shown in zip(SETTINGS["warps"], reported["warps"], strict=True):
        grid, image = np.array(setting["grid"])[None], np.array(setting["planes"])[None]
        for antialias, name in ((False, "plain"), (True, "smooth")):
            expected = gridsample.grid_sample(
                image,
                grid,
                setting["method"],
                setting["boundary"],
                coords="pixel",
                antialias=antialias,
            )
            result = np.array(shown[name], float)  # JSON has null for NaN
            result = result.reshape(*grid.shape[1:3], 2).transpose(2, 0, 1)
            np.testing.assert_allclose(result, expected[0], **TOLERANCE)
        many += shown["samples"] > 4
    assert many >= 4


@needs_chromium
def test_homographies_map_their_corners(reported: dict[str, Any]) -> None:
    for (start, end), h in zip(SETTINGS["homographies"], reported["homographies"], strict=True):
        points = np.column_stack([start, np.ones(4)]) @ np.reshape(h, (3, 3)).T
        np.testing.assert_allclose(points[:, :2] / points[:, 2:], end, **TOLERANCE)


@needs_chromium
def test_every_control_has_a_name_and_works_by_keyboard(reported: dict[str, Any]) -> None:
    assert len(reported["controls"]) > 25
    assert [control for control in reported["controls"] if not (control[1] and control[2])] == []
    keys = reported["keys"]
    assert keys["point"] == ["0.51", "-0.75"]
    assert keys["painted"] == [7, "Pixel x 1, y 1: 7"]
    assert keys["corners"] == [[0, 10], [60, 10], [70, 60], [10, 60]]
    assert "Bottom right corner at 70, 60" in keys["warped"]
    assert keys["refused"] == ["label"]
