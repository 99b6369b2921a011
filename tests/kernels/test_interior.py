"""Footprints far from the image's edges, whose samples are located in fewer steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels.sampling import calls
from gridsample.kernels.sampling.programs.axes import Axis

Array = np.ndarray[Any, Any]
SIZES = {1: (190,), 2: (60, 70), 3: (20, 22, 24)}
MODES = ["linear", "nearest", "cubic", "lanczos3"]
CACHES = (calls.program_for, calls.prepare_gather, calls.prepare_derivatives)


@pytest.fixture
def without_interior(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes programs that treat no sample as an interior one."""

    def forget() -> None:
        for cached in CACHES:
            cached.cache_clear()

    def change() -> None:
        def none(axis: Axis, lowest: Any, highest: Any) -> Any:
            return lowest != lowest

        monkeypatch.setattr(Axis, "are_interior", none)
        forget()

    yield change
    forget()


def results(
    rank: int, mode: str, boundary: str, units: str, extrapolate: bool | str = True
) -> list[Array]:
    """Samples over footprints, and their gradients, from the middle to beyond the edges."""
    rng, spatial = cases.generator("interior", rank, mode), SIZES[rank]
    image = cases.pixels(rng, (2, 3, *spatial))
    out = (*[n // 3 for n in spatial[:-1]], 35)
    lines = [np.linspace(-1.05, 1.05, n) for n in out]
    grid = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1)
    grid = np.stack([grid, 0.7 * grid]) + 0.002 * rng.standard_normal((2, *grid.shape))
    if units == "pixel":
        grid = (grid + 1) / 2 * (np.array(spatial[::-1]) - 1)
    options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "antialias": True}
    options |= {"coords": units, "threads": 1, "extrapolate": extrapolate}
    if boundary == "constant":
        options["fill_value"] = 2.5
    samples = gridsample.grid_sample(image, grid, **options)
    values = cases.pixels(rng, samples.shape)
    return [samples, *gridsample.grid_sample_vjp(values, image, grid, **options)]


def assert_equal_to_samples_anywhere(without_interior: Any, *call: Any) -> None:
    fast = results(*call)
    without_interior()
    for mine, other in zip(fast, results(*call), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.covering
@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", [name for name in BOUNDARIES if name != "missing"])
@pytest.mark.parametrize("units", ["normalized", "pixel"])
def test_results_are_those_of_samples_anywhere(
    rank: int, mode: str, boundary: str, units: str, without_interior: Any
) -> None:
    assert_equal_to_samples_anywhere(without_interior, rank, mode, boundary, units)


@pytest.mark.parametrize("boundary", ["zeros", "reflection"])
@pytest.mark.parametrize("rank", [2, 3])
def test_pairs_are_those_of_samples_anywhere(
    rank: int, boundary: str, without_interior: Any
) -> None:
    assert_equal_to_samples_anywhere(without_interior, rank, "linear", boundary, "normalized")


@pytest.mark.parametrize("extrapolate", [False, "edges", "centers"])
@pytest.mark.parametrize("units", ["normalized", "pixel"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_positions_that_are_not_extrapolated_round_as_others(
    mode: str, units: str, extrapolate: bool | str, without_interior: Any
) -> None:
    assert_equal_to_samples_anywhere(without_interior, 1, mode, "reflection", units, extrapolate)
