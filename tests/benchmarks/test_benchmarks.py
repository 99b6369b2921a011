"""The benchmarks: contenders agree on small cases, figures are stored, targets are judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsample
from benchmarks import __main__ as command
from benchmarks import peers, record, targets
from benchmarks.base import ROOT, Base
from benchmarks.cases import Case, chosen, make_inputs, pixel_matrix, positions, touched
from benchmarks.measuring import Disagreement, Row, compare, measure
from benchmarks.peers import PEERS, Contender, Missing
from benchmarks.record import OtherMachine, Record
from benchmarks.targets import TARGETS, geometric_mean, outcomes
from benchmarks.timing import extra_memory

INSTALLED = [name for name, peer in PEERS.items() if peer.version is not None]

PLANE, SOLID = Case((2, 3, 9, 11)), Case((1, 2, 5, 6, 7))
PICTURE = Case((1, 3, 9, 11), dtype="uint8", last=True)
GRAY = Case((1, 1, 12, 13))
SMALL = [
    *(replace(GRAY, mode=mode) for mode in ("nearest", "linear", "cubic")),
    replace(GRAY, direction="both"),
    replace(PLANE, grid="noisy", direction="input"),
    replace(PLANE, direction="grid"),
    SOLID,
    replace(SOLID, direction="both", grid="random"),
    Case((2, 16, 9, 8), last=True, direction="both"),
    Case((1, 4, 8, 9), grid="random", points=50),
    Case((2, 3, 65), grid="noisy", direction="both"),
    *(replace(PLANE, tensors=True, direction=direction) for direction in ("step", "double", "jvp")),
    *(replace(PLANE, tensors=True, dtype=dtype) for dtype in ("float16", "bfloat16")),
    *(replace(PICTURE, operation=operation) for operation in ("sample", "remap", "warpAffine")),
    replace(GRAY, operation="map_coordinates", mode="spline3"),
    replace(GRAY, operation="affine_transform", dtype="float64"),
    replace(GRAY, operation="zoom", dtype="float64", factor=1.3),
    replace(GRAY, operation="skimage", mode="spline3", factor=1.3),
    replace(PLANE, operation="resize", mode="cubic", factor=2.0),
]


# Cases --------------------------------------------------------------------------------------------


def test_names_tell_cases_apart() -> None:
    everything = chosen("")
    assert len({case.name for case in everything}) == len(everything) > 200
    assert chosen("1024*cubic*forward") and len(chosen("no such case")) == 0


@pytest.mark.parametrize("case", [PLANE, SOLID], ids=lambda case: case.name)
def test_matrix_and_grid_describe_the_same_map(case: Case) -> None:
    inputs = make_inputs(case)
    size = (*case.shape[:2], *case.out)
    grid = gridsample.affine_grid(inputs.theta.astype(float), size)
    assert np.abs(grid - inputs.grid).max() < 2**-22  # both were rounded to float32
    places = positions(case, inputs)[0]
    index = np.stack(np.meshgrid(*map(np.arange, case.out), indexing="ij")[::-1], axis=-1)
    matrix = pixel_matrix(case, inputs)
    assert np.abs(index @ matrix[:, :-1].T + matrix[:, -1] - places).max() < max(case.out) * 2**-22


def test_byte_counts_are_those_of_the_arrays() -> None:
    inputs = make_inputs(PLANE)
    once = inputs.image.nbytes + inputs.grid.nbytes
    assert touched(PLANE, inputs) == once + inputs.upstream.nbytes
    gradients = once + inputs.upstream.nbytes + once
    assert touched(replace(PLANE, direction="both"), inputs) == gradients


# Measuring ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * (i % 5 != 0)) for i, case in enumerate(SMALL)],
    ids=lambda case: case.name,
)
def test_all_contenders_agree(case: Case) -> None:
    row = measure(case, 1, 0.0, 1e9, INSTALLED)
    assert row["differ"] == {} and row["left_out"] == {}
    assert row["peers"] or (case.operation == "remap" and "OpenCV" not in INSTALLED)
    assert all(peer["ms"] > 0 and peer["ratio"] > 0 for peer in row["peers"].values())
    json.dumps(row)


def test_missing_libraries_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gridsample, "interpolate", raising=False)
    monkeypatch.setattr(gridsample, "_MODULES", {})
    with pytest.raises(Missing, match="no interpolate"):
        measure(replace(PLANE, operation="resize"), 1, 0.0, 1e9, [])


def separate(input: Any, theta: Any, size: tuple[int, ...], mode: str) -> Any:
    """`affine_sample` in two steps."""
    return gridsample.grid_sample(input, gridsample.affine_grid(theta, size), mode)


@pytest.mark.slow
@pytest.mark.parametrize("tensors, direction", [(False, "forward"), (True, "step")])
def test_affine_maps_agree(tensors: bool, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(gridsample, "affine_sample"):
        monkeypatch.setattr(gridsample, "affine_sample", separate, raising=False)
    case = replace(PLANE, operation="affine", tensors=tensors, direction=direction)
    row = measure(case, 1, 0.0, 1e9, INSTALLED)
    assert row["differ"] == {} and list(row["peers"]) == ["torch"]


def wrong(case: Case, inputs: Any, threads: int) -> Contender:
    """A peer that is off by a hundredth."""
    right = peers.ours(case, inputs, threads)
    return replace(right, read=lambda result: tuple(x * 1.01 for x in right.read(result)))


def broken(case: Case, inputs: Any, threads: int) -> Contender:
    """A peer that fails."""
    raise ArithmeticError("no luck")


def test_contenders_that_disagree_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "wrong", peers.Peer("numpy", "numpy", wrong))
    monkeypatch.setitem(PEERS, "broken", peers.Peer("numpy", "numpy", broken))
    row = measure(PLANE, 1, 0.0, 1e9, ["wrong", "broken"])
    assert row["peers"] == {} and "differ by more" in row["differ"]["wrong"]
    assert row["left_out"] == {"broken": "ArithmeticError: no luck"}


def test_shapes_and_nans_differ() -> None:
    contender = Contender(lambda: None, lambda result: result, tolerance=1e-3)
    image = np.ones((3, 100))
    assert compare(PLANE, (image,), (image,), contender) == 0
    with pytest.raises(Disagreement, match="shapes"):
        compare(PLANE, (image,), (image[:2],), contender)
    with pytest.raises(Disagreement, match="differ"):
        compare(PLANE, (np.where(image > 0, np.nan, 0),), (image,), contender)


@pytest.mark.slow
def test_peak_memory_is_that_of_the_call() -> None:
    def peak(megabytes: int) -> float | None:
        return extra_memory(lambda: np.ones(megabytes << 20, np.uint8)[0])

    small, large = peak(1), peak(64)
    if small is None or large is None:
        pytest.skip("the system does not tell")
    for _ in range(2):  # a second call changes nothing
        assert 60 << 20 < large < 72 << 20 and small < 9 << 20
        large = peak(64)


# Keeping ------------------------------------------------------------------------------------------


def a_row(case: Case, threads: int, ratio: float) -> Row:
    """A made-up row in the format of `measure`."""
    from dataclasses import asdict

    figures = {"ms": 2.0 * ratio, "ratio": ratio, "difference": 0.0, "error": None, "why": ""}
    return {
        "case": case.name,
        "what": asdict(case),
        "threads": threads,
        "ms": 2.0,
        "rounds": 5,
        "bytes": 1,
        "share_of_copy": 0.1,
        "extra_bytes": None,
        "error": None,
        "peers": {"torch": figures},
        "left_out": {},
        "differ": {},
    }


def test_a_record_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu.json"
    Record(path, resume=False).add(a_row(PLANE, 1, 2.0), ["torch"])
    again = Record(path, resume=True)
    assert again.holds(PLANE.name, 1, ["torch"]) and list(again.rows) == [(PLANE.name, 1)]
    assert not again.holds(PLANE.name, 2, ["torch"])
    assert not again.holds(PLANE.name, 1, ["torch", "SciPy"])
    assert not Record(path, resume=False).holds(PLANE.name, 1, ["torch"])
    monkeypatch.setattr(record, "source", lambda: "changed")
    assert not again.holds(PLANE.name, 1, ["torch"])
    monkeypatch.setattr(record, "versions", lambda: {"numpy": "0.1"})
    with pytest.raises(OtherMachine, match=r"numpy: .*, here 0\.1"):
        Record(path, resume=True)


def test_ratios_are_relative_to_the_best_copy(tmp_path: Path) -> None:
    record = Record(tmp_path / "cpu.json", resume=False)
    record.add(a_row(PLANE, 1, 2.0) | {"bytes": 4e6, "ms": 2.0}, [])
    assert record.saw_copy(1, 8e9) == 8e9 == record.saw_copy(1, 1e9)
    assert record.rows[PLANE.name, 1]["share_of_copy"] == pytest.approx(0.25)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The command, on all cores and with little to copy; it counts what is measured."""
    measured: list[str] = []

    def counted(case: Case, *rest: Any) -> Row:
        measured.append(case.name)
        return measure(case, *rest)

    monkeypatch.setattr(command, "limit_cores", lambda threads: None)
    monkeypatch.setattr(command, "copy_bandwidth", lambda threads: 1e9)
    monkeypatch.setattr(command, "measure", counted)

    def main(*words: str) -> tuple[int, list[str]]:
        measured.clear()
        fixed = ["--quick", "--threads", "1", "--case", "sample 1x1x2048*linear*forward"]
        return command.main([*fixed, "--out", str(tmp_path), *words]), list(measured)

    yield main


def test_the_command_runs_in_slices(run: Any, tmp_path: Path, capsys: Any) -> None:
    code, first = run("--time-limit", "0", "--peer", "torch")
    assert code == 3 and len(first) == 1 and "left: --resume goes on" in capsys.readouterr().out
    code, rest = run("--resume", "--peer", "torch")
    printed = capsys.readouterr().out
    assert code == 0 and len(rest) == 2 and not set(rest) & set(first)
    assert "torch, forward, one thread" in printed
    stored = json.loads((tmp_path / "cpu.json").read_text())
    assert [row["case"] for row in stored["rows"]] == first + rest
    assert stored["bandwidth"] == {"1": 1e9} and stored["versions"]["torch"]
    page = (tmp_path / "cpu.md").read_text()
    assert all(f"| {name} " in page for name in first + rest)
    assert "## Missed targets\n\n* torch, forward, one thread: mean 0." in page
    for name in ("cpu.png", "peers.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert run("--resume", "--peer", "torch")[1] == []


def test_failing_cases_are_reported(run: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fail(failure: BaseException) -> None:
        def measured(*arguments: Any) -> Row:
            raise failure

        monkeypatch.setattr(command, "measure", measured)

    fail(ValueError("ours"))
    assert run("--peer", "torch")[0] == 3
    assert capsys.readouterr().out.count("FAILED: ValueError: ours") == 3
    fail(KeyboardInterrupt())
    assert run("--peer", "torch")[0] == 3
    assert "3 cases are left" in capsys.readouterr().out


def test_partial_runs_do_not_update_the_documents() -> None:
    def folder(*words: str) -> Path:
        return command.folder_of(command.parser().parse_args(words))

    assert folder() == folder("--resume") == folder("--resume", "--case", "x") == command.DOCS
    assert command.DOCS not in (folder("--quick", "--resume"), folder("--case", "x"))
    assert folder("--case", "x", "--out", "here") == Path("here")


@pytest.mark.parametrize("threads", ["0", "1,100000", "-1"])
def test_more_threads_than_processors_are_rejected(threads: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        command.main([f"--threads={threads}"])
    assert "the cores here" in capsys.readouterr().err


# Judging ------------------------------------------------------------------------------------------


def test_targets_are_judged_by_mean_and_worst() -> None:
    def forward(*ratios: float) -> Any:
        some = [Case((1, 1, 5 + i, 5)) for i in range(len(ratios))]
        rows = [a_row(case, 1, ratio) for case, ratio in zip(some, ratios, strict=True)]
        return next(iter(outcomes(rows, 2)))

    assert forward(7.0, 2.0).reached
    assert not forward(3.4, 3.5).reached and forward(3.4, 3.5).short == {}
    slow = forward(100.0, 0.99)
    assert not slow.reached and slow.worst[1] == 0.99 and len(slow.short) == 1
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4)


def test_every_target_has_cases() -> None:
    everything = chosen("")
    for target in TARGETS:
        assert any(map(target.applies, everything)), target.text


def test_errors_below_rounding_are_equal() -> None:
    value = targets.precision_of("torch")
    row = a_row(PLANE, 1, 1.0)
    assert value(row) is None
    row["error"], row["peers"]["torch"]["error"] = {"rms": 1e-9}, {"rms": 0.0}
    assert value(row) == 1
    row["error"]["rms"] = 2.0**-23
    assert value(row) == 0.5


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository's history")
def test_an_older_commit_is_timed_alternately() -> None:
    base = Base("HEAD", 1)
    try:
        row = measure(PLANE, 1, 0.0, 1e9, [], base)
        assert row["peers"]["base"]["difference"] < 1e-6 and row["differ"] == {}
        lacking = base.contender(replace(PLANE, operation="no such"), 1)
        with pytest.raises(Missing, match="KeyError"):
            lacking.call()
    finally:
        base.close()
