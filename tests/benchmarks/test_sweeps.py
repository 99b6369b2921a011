"""The benchmark of plane sweeps: both implementations agree, and differences are detected."""

from __future__ import annotations

import pytest

from benchmarks import sweeps
from benchmarks.pairs import Disagreement


def test_both_implementations_match_the_expected_sweep() -> None:
    report = sweeps.compare(sweeps.make_inputs(sweeps.CASES["tiny"]))
    assert report["difference"] <= sweeps.TOLERANCE
    assert report["torch_difference"] < 1e-3


def test_expected_sweep_matches_the_plain_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, sources, cameras, depths = sweeps.make_inputs(sweeps.CASES["tiny"])
    wide = reference.double(), sources.double(), cameras, depths
    monkeypatch.setattr(sweeps, "PLANES", 2)
    assert sweeps.distance(sweeps.truth(*wide), sweeps.naive(*wide)) < 1e-14


def test_disagreeing_implementations_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sweeps.ours
    monkeypatch.setattr(sweeps, "ours", lambda *arguments: 1.001 * right(*arguments))
    with pytest.raises(Disagreement, match=r"by 0\.001"):
        next(sweeps.measure("tiny", 0.0))
