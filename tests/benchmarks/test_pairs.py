"""The benchmarks against torch: models and shapes agree, and differences are detected."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import cases
import pytest
import torch
from torch.nn import functional

from benchmarks import models, networks, operators, pairs, shapes
from benchmarks.pairs import Disagreement
from benchmarks.shapes import Shape
from gridsample import torch_compat

TIMES = {"ms": 1.0, "torch_ms": 2.0, "ratio": 2.0, "rounds": 5}


@pytest.mark.parametrize("name", cases.slow_after(1, networks.TASKS))
def test_models_agree_in_their_first_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for function_name in ("grid_sample", "affine_grid", "interpolate"):
        function = getattr(torch_compat.Replacements, function_name)

        def counted(
            *args: Any, function_name: str = function_name, function: Any = function, **options: Any
        ) -> Any:
            called.append(function_name)
            return function(*args, **options)

        monkeypatch.setattr(torch_compat.Replacements, function_name, counted)
    ours, torchs = models.trainings(name, tiny=True)
    result = models.first_step(ours, torchs)
    assert called and result["loss"] <= models.LOSS
    reached = len(called)
    assert torch.isfinite(torchs.step()) and torch.isfinite(ours.step())
    assert len(called) == 2 * reached  # and torch's step called none of them


def test_a_model_that_differs_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch_compat.Replacements.grid_sample
    monkeypatch.setattr(
        torch_compat.Replacements,
        "grid_sample",
        lambda *args, **options: 1.01 * right(*args, **options),
    )
    ours, torchs = models.trainings(next(iter(networks.TASKS)), tiny=True)
    with pytest.raises(Disagreement, match="losses"):
        models.first_step(ours, torchs)
    image, grid = torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
    assert functional.grid_sample(image, grid, align_corners=False) == 1  # torch's again


def test_cases_are_selected_by_part_of_their_name() -> None:
    names = ["a 2-D b", "a 3-D b", "c"]
    assert pairs.matching(names, None) == names
    assert pairs.matching(names, ["2-D", "c"]) == ["a 2-D b", "c"]
    assert pairs.matching(names, ["a*b"]) == names[:2] and pairs.matching(names, ["d"]) == []


def test_figures_are_printed_and_kept(tmp_path: Path, capsys: Any) -> None:
    def measure(name: str, seconds: float) -> Any:
        if name == "odd":
            raise Disagreement("by far")
        yield {"kind": "forward", **TIMES}
        yield {"kind": "step", **TIMES, "ratio": 0.5}

    path = tmp_path / "new" / "figures.json"
    arguments = pairs.parser("x", None, 0.0).parse_args(["--json", str(path)])
    assert pairs.report(["one", "odd"], 1, arguments, measure) == 1
    printed = capsys.readouterr().out
    assert "odd  DIFFERS: by far" in printed
    assert "forward, 1 thread(s): geometric mean 2.00 of 1, least 2.00; below 1: none" in printed
    assert "below 1: one (0.50)" in printed
    stored = json.loads(path.read_text())
    assert [row["kind"] for row in stored["rows"]] == ["forward", "step"]
    assert (
        stored["differ"] == {"odd": "by far"} and stored["machine"] and stored["versions"]["torch"]
    )


def test_a_process_for_each_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(words: list[str], check: bool) -> Any:
        commands.append(words[3:])
        path = Path(words[words.index("--json") + 1])
        pairs.write(path, [{"case": "one", "threads": int(words[4])}], {})
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(pairs, "cores", lambda: 2)
    path = tmp_path / "all.json"
    words = ["--threads", "1", "2", "--case", "one", "--json", str(path)]
    arguments = pairs.parser("x", None, 1.0).parse_args(words)
    assert pairs.run("x", arguments, lambda: [], lambda name, seconds: iter([])) == 0
    assert [words[:2] for words in commands] == [["--threads", "1"], ["--threads", "2"]]
    assert [row["threads"] for row in json.loads(path.read_text())["rows"]] == [1, 2]


@pytest.mark.parametrize("words", [["--threads", "0"], ["--threads", "1", "100000"]])
def test_more_threads_than_processors_are_rejected(words: list[str], capsys: Any) -> None:
    assert models.main(words) == 2 and "cores here" in capsys.readouterr().err


def test_the_models_are_listed(capsys: Any) -> None:
    assert models.main(["--list", "--case", "VoxelMorph"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


# Operators ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", operators.cases())
def test_operators_agree_with_plain_versions(name: str) -> None:
    case = operators.cases()[name]
    arrays = case.arrays(True)
    operators.check(case, arrays)
    wrong = case._replace(ours=lambda *given: 1.01 * case.plain(*given))
    with pytest.raises(Disagreement, match="relative difference of the result"):
        operators.check(wrong, arrays)
    mine = operators.Steps(case, case.ours, arrays)
    assert mine.forward().shape == mine.step()[0].shape


# Shapes -------------------------------------------------------------------------------------------


def test_shapes_are_numerous_and_distinct() -> None:
    assert len({shape.name for shape in shapes.SHAPES}) == len(shapes.SHAPES) >= 24
    assert {shape.grid for shape in shapes.SHAPES} == set(shapes.GRIDS)


@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda shape: shape.use)
def test_shapes_agree(shape: Shape) -> None:
    shape = shape.small()
    image, grid, upstream = shapes.inputs(shape)
    assert grid.shape[1:-1].numel() == math.prod(shape.out)
    assert (*image.shape[:2], *grid.shape[1:-1]) == tuple(upstream.shape)
    assert grid.abs().max() < 5  # near the image
    ours, torchs = shapes.contenders(shape)
    assert shapes.agree(shape, ours, torchs) < 1e-4


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_shape_that_differs_is_not_timed(which: int) -> None:
    shape = shapes.SHAPES[0].small()
    ours, torchs = shapes.contenders(shape)
    results = [ours["forward"](), *ours["step"]()]
    results[which] = results[which] + 0.01 * results[which].abs().max()
    wrong = {"forward": lambda: results[0], "step": lambda: results[1:]}
    with pytest.raises(Disagreement, match=r"differ, by up to"):
        shapes.agree(shape, wrong, torchs)
    with pytest.raises(Disagreement, match="has shape"):
        shapes.compare(shape, "the output", results[0], results[0][:1])
