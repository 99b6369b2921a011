"""Antialiased sampling with the GPU kernels, in Triton's interpreter, judged by the CPU kernels."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import oracles
import pytest
import torch

pytest.importorskip("triton")

from gridsample.backends.torch import cuda, operators
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.options import Options

# Of the interpreter: NumPy's, where a GPU's arithmetic is silent.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

TOLERANCE = 256 * oracles.ulp(float)


def options(most: int, coords: str) -> Options:
    return Options(
        mode=("linear",) * 2, padding_mode=("border",) * 2, coords=coords, fill_value=(),
        order=(0, 0), footprint=Footprint(most),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("most", "coords"),
    [(2, "normalized"), pytest.param(3, "displacement", marks=pytest.mark.slow)],
)
def test_every_operator(most: int, coords: str) -> None:
    rng = cases.generator("gpu footprints", most)
    image = torch.tensor(cases.pixels(rng, (2, 1, 5, 6)))
    line = np.linspace(-1, 1, 3)
    grid = np.stack(np.meshgrid(line, line), -1) + 0.1 * rng.standard_normal((2, 3, 3, 2))
    if coords == "displacement":
        grid *= 3
    grid[0, 1, 1, 0] = np.nan
    points = torch.tensor(grid)
    values = torch.tensor(cases.pixels(rng, (2, 1, 3, 3)))
    moves = torch.tensor(rng.standard_normal(grid.shape))
    upstream = torch.tensor(cases.pixels(rng, image.shape))
    how = options(most, coords)
    every = True, True, True
    pairs: list[tuple[Any, Any]] = [
        (cuda.gather_on_gpu(image, points, how), operators.gather_on_cpu(image, points, how)),
        (
            cuda.scatter_on_gpu(values, points, image.shape, how),
            operators.scatter_on_cpu(values, points, image.shape, how),
        ),
        *zip(
            cuda.backward_on_gpu(values, image, points, True, True, how),
            operators.backward_on_cpu(values, image, points, True, True, how),
            strict=True,
        ),
        *zip(
            cuda.twice_on_gpu(values, image, points, upstream, moves, *every, how),
            operators.backward_twice_on_cpu(values, image, points, upstream, moves, *every, how),
            strict=True,
        ),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        oracles.assert_close(ours.numpy(), theirs.numpy(), TOLERANCE)


def test_integers_are_rounded_once() -> None:
    rng = cases.generator("gpu footprints", "uint8")
    image = torch.tensor(cases.pixels(rng, (1, 2, 9, 9), np.uint8))
    line = torch.linspace(-0.9, 0.9, 4)
    grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)[None]
    how = options(16, "normalized")
    ours, theirs = cuda.gather_on_gpu(image, grid, how), operators.gather_on_cpu(image, grid, how)
    assert ours.dtype == torch.uint8
    assert (ours.int() - theirs.int()).abs().max() <= 1
