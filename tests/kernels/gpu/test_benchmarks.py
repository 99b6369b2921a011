"""The benchmarks of the GPU kernels run on tiny cases in Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("triton")


from benchmarks import gpu as benchmarks_of_gpu

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


# The benchmarks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("only", ["10000 points bilinear float32 backward random deterministic"])
def test_the_benchmarks_run_on_small_cases(
    only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "folder" / "gpu.json"
    benchmarks_of_gpu.main(only, 0.0, target, "cpu")
    (row,) = json.loads(target.read_text())["rows"]
    assert row["other"] == "ours by default" and row["difference"] < 1e-6 and row["ratio"] > 0
    printed = capsys.readouterr().out
    assert row["case"] in printed and "deterministic: at most" in printed


@pytest.mark.slow
def test_every_benchmark_case_runs_on_small_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks_of_gpu.main("", 0.0, None, "cpu")
    cases_of_it = list(benchmarks_of_gpu.every_case())
    assert len({case.name for case in cases_of_it}) == len(cases_of_it)
    assert capsys.readouterr().out.count(" float") >= len({case.toy for case in cases_of_it})
