"""Public signatures, as a type checker reads them."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import gridsample
from gridsample import cameras, fields, operators, registration, world
from gridsample.definitions import names
from gridsample.definitions.boundaries import BOUNDARIES, MISSING
from gridsample.definitions.coords import COORDS, ENDS
from gridsample.definitions.footprints import ATTACH, DETACH
from gridsample.definitions.methods import ALIASES, METHODS, sampling_names
from gridsample.operators.splatting import MODES
from gridsample.ops.missing import RULES

# Type checkers must complain of the lines that end in "# error", and of no others.
SNIPPETS = """
from typing import Any

import numpy as np
import torch

import gridsample
import gridsample.dask
import gridsample.zarr
from gridsample.world import Displacement, Lattice

image = np.zeros((1, 1, 4, 5), np.float32)
grid = np.zeros((1, 3, 3, 2), np.float32)
tensor, points = torch.zeros(1, 1, 4, 5), torch.zeros(1, 3, 3, 2)
lattice = Lattice((4, 5), np.eye(3))
own = gridsample.methods.keys(-0.4)

gridsample.grid_sample(image, grid, "bicubic", "mirror", coords="pixel", missing="ignore")
gridsample.grid_sample(image, grid, ("linear", own), ("wrap", "missing"), extrapolate="edges")
gridsample.grid_sample(image, grid, own, antialias=True, footprint="detach")
gridsample.affine_sample(image, np.eye(2, 3)[None], image.shape, coords="pixel")
gridsample.interpolate(image, (8, 8), mode=("area", "linear"))
gridsample.resample(image[0, 0], np.eye(3), lattice, Displacement(grid, np.eye(3)), "label")
gridsample.nn.GridSample("lanczos3", "border", coords="displacement")
gridsample.fields.compose(grid, grid, "cubic", padding_mode="zeros")
array: np.ndarray[Any, Any] = gridsample.grid_sample(image, grid)
array = gridsample.affine_sample(image, np.eye(2, 3)[None], image.shape)
array = gridsample.resample(np.zeros((4, 5)), np.eye(3), lattice)
array = gridsample.fields.to_pixel(grid, (4, 5))
moved: torch.Tensor = gridsample.grid_sample(tensor, points, threads=1)
moved = gridsample.interpolate(tensor, (8, 8))
moved = gridsample.splat(tensor, points, (4, 5))
moved = gridsample.spline_filter(tensor)
moved = gridsample.operators.roi_align(tensor, [tensor], 2)
sampled, mask = gridsample.grid_sample(tensor, points, return_mask=True)

moved = gridsample.grid_sample(image, grid)  # error
array = gridsample.interpolate(tensor, (8, 8))  # error
array = gridsample.fields.compose(tensor, tensor)  # error
gridsample.grid_sample("photo.png", grid)  # error
gridsample.grid_sample(image, None)  # error
gridsample.affine_sample(image, np.eye(2, 3)[None], 4)  # error
gridsample.grid_sample(image, grid, "bicubical")  # error
gridsample.grid_sample(image, grid, padding_mode="reflect")  # error
gridsample.grid_sample(image, grid, coords="pixels")  # error
gridsample.grid_sample(image, grid, missing="drop")  # error
gridsample.grid_sample(image, grid, footprint="none")  # error
gridsample.grid_sample(image, grid, extrapolate="edge")  # error
gridsample.grid_sample(image, grid, "area")  # error
gridsample.grid_sample(image, grid, 3)  # error
gridsample.grid_sample(image, grid, align_corner=True)  # error
gridsample.affine_sample(image, np.eye(2, 3)[None], image.shape, coords="displacement")  # error
gridsample.interpolate(image, (8, 8), mode="nearest_exact")  # error
gridsample.resample(image[0, 0], np.eye(3), lattice, missing="skip")  # error
gridsample.dask.grid_sample(image, grid, padding_mode="clamp")  # error
gridsample.zarr.warp("in.zarr", "out.zarr", mode="triangle")  # error
gridsample.nn.GridSample("linear", "edge")  # error
gridsample.fields.compose(grid, grid, coords="normalized")  # error
"""


@pytest.mark.parametrize(
    ("literal", "accepted"),
    [
        (names.MethodName, {*sampling_names(), *ALIASES}),
        (names.ResizingName, {*METHODS} - {*sampling_names()}),
        (names.BoundaryName, {*BOUNDARIES, MISSING}),
        (names.CoordsName, {*COORDS}),
        (names.SplatName, {*MODES}),
        (names.MissingName, {*RULES}),
        (names.FootprintName, {ATTACH, DETACH}),
        (names.EndName, {*ENDS}),
    ],
)
def test_names_of_types_are_those_that_are_accepted(literal: Any, accepted: set[str]) -> None:
    assert {*get_args(literal)} == accepted


def lines_in_error(found: Iterator[int]) -> list[str]:
    """The lines of the snippets of which a checker complains."""
    lines = SNIPPETS.splitlines()
    return [lines[k] for k in sorted({*found})]


EXPECTED = [line for line in SNIPPETS.splitlines() if line.endswith("# error")]
ROOT = Path(__file__).parents[2]
SOURCE = str(Path(gridsample.__file__).parents[1])


@pytest.mark.slow
def test_mypy_accepts_the_source_and_the_right_snippets(tmp_path: Path) -> None:
    """One run for both: most of its time goes to the types of libraries and of the source."""
    pytest.importorskip("mypy")
    path = tmp_path / "snippets.py"
    path.write_text(SNIPPETS, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "src/gridsample", str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    # Mypy repeats what it found in a file of the same name and contents, wherever that was.
    found = [re.search(r"snippets\.py:(\d+): error:", line) for line in errors]
    assert None not in found, run.stdout
    assert lines_in_error(int(one[1]) - 1 for one in found if one) == EXPECTED, run.stdout


@pytest.mark.slow
def test_snippets_pass_and_fail_in_pyright(tmp_path: Path) -> None:
    pytest.importorskip("basedpyright")  # Pyright, with Node in a wheel
    (tmp_path / "snippets.py").write_text(SNIPPETS, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "extraPaths": [SOURCE]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(tmp_path)]
    command += ["--pythonpath", sys.executable]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    messages = json.loads(run.stdout)["generalDiagnostics"]
    errors = [message for message in messages if message["severity"] == "error"]
    found = (message["range"]["start"]["line"] for message in errors)
    assert lines_in_error(found) == EXPECTED, run.stdout + run.stderr


def annotations(module: Any) -> Iterator[str]:
    """The annotations of the arguments and the result of each public function."""
    for name in module.__all__:
        function = getattr(module, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            yield from (str(one.annotation) for one in signature.parameters.values())
            yield str(signature.return_annotation)


def test_few_arguments_may_be_anything() -> None:
    modules = gridsample, cameras, fields, operators, registration, world
    found = [annotation for module in modules for annotation in annotations(module)]
    assert found.count("Any") <= 0.05 * len(found)
